//! What stays of an open while connections come and go: its handle as it is now, and what a server is told to give it back
//! (MS-SMB2 3.2.4.3.5, 3.2.4.4). `open` makes grips, the driver tells them what became of a CREATE, `revive` gets their opens
//! again. A file that is not the same any more must never be taken for the one that was open.

use std::sync::{Mutex, PoisonError};

use smb_wire::smb2::{
    Command, CreateContexts, CreateOptions, CreateRequest, CreateResponse, DURABLE_PERSISTENT, DURABLE_RECONNECT_TAG,
    DURABLE_REQUEST_TAG, DURABLE_V2_RECONNECT_TAG, DURABLE_V2_REQUEST_TAG, Dialect, Disposition, DurableV2Reconnect,
    DurableV2Request, DurableV2Response, FileHandle, LEASE_TAG, LeaseContext, LeaseFlags, LeaseV2,
    QUERY_ON_DISK_ID_TAG, RawContext, ShareAccess, oplock,
};

use super::Request;
use super::open::How;

/// LeaseState: reads and the handle. Handles are what makes an open durable, and there are none without reads.
const READ_HANDLE: u32 = 1 | 2;
/// DiskFileId and VolumeId of `QFid`'s answer (MS-SMB2 2.2.14.2.9).
const IDENTITY_BYTES: usize = 16;

/// What the two sides have agreed on that a CREATE must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub dialect: Dialect,
    pub leasing: bool,
    pub tree_id: u32,
    pub seal: bool,
    /// The share is continuously available: handles may be persistent.
    pub is_available: bool,
}

/// Random names of an open: CreateGuid and LeaseKey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Names {
    pub create_guid: [u8; 16],
    pub lease_key: [u8; 16],
}

impl Names {
    /// Names nobody has. Where the system has no random numbers there would be no session either.
    pub fn new() -> Self {
        let mut names = Self { create_guid: [0; 16], lease_key: [0; 16] };
        let _ = getrandom::fill(&mut names.create_guid);
        let _ = getrandom::fill(&mut names.lease_key);
        names
    }
}

/// An open as it survives its connection.
#[derive(Debug)]
pub(crate) struct Grip {
    /// The path on the wire.
    name: Vec<u8>,
    how: How,
    /// It is worth coming back to. One that is not asks for nothing and goes with its connection.
    lasts: bool,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    names: Names,
    place: Place,
    durable: Durable,
    looks: Looks,
    /// Bytes, length, times or locks were changed through it.
    is_used: bool,
    has_locks: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is not made yet.
    ToCome,
    Held(FileHandle),
    /// Its server does not know it any more.
    Lost,
}

/// What the server granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durable {
    No,
    V1,
    V2 { persistent: bool },
}

/// By what a file is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Looks {
    identity: Option<[u8; IDENTITY_BYTES]>,
    len_bytes: u64,
    /// Created, written, changed.
    times: [u64; 3],
}

impl Looks {
    fn of(created: &CreateResponse<'_>) -> Self {
        let identity = created.contexts.get(QUERY_ON_DISK_ID_TAG).and_then(|data| data.first_chunk().copied());
        let [made, _, written, changed] = created.times;
        Self { identity, len_bytes: created.end_of_file, times: [made, written, changed] }
    }
}

impl Grip {
    pub fn new(name: Vec<u8>, how: How, lasts: bool) -> Self {
        let state = State {
            names: Names::new(),
            place: Place::ToCome,
            durable: Durable::No,
            looks: Looks::default(),
            is_used: false,
            has_locks: false,
        };
        Self { name, how, lasts, state: Mutex::new(state) }
    }

    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn place(&self) -> Place {
        self.with(|state| state.place)
    }

    pub fn lose(&self) {
        self.with(|state| state.place = Place::Lost);
    }

    /// A request about it is sent.
    pub fn used(&self, command: Command) {
        match command {
            Command::Write | Command::SetInfo | Command::Ioctl => self.with(|state| state.is_used = true),
            Command::Lock => self.with(|state| (state.is_used, state.has_locks) = (true, true)),
            _ => {}
        }
    }

    /// Whether its CREATE, sent a second time, has the effect of once: a file that must be new is made once only, save
    /// where the server knows the CREATE again by its guid.
    pub fn may_be_made_again(&self, terms: &Terms) -> bool {
        self.how.disposition != Disposition::Create || terms.is_available
    }

    /// Its CREATE is to be sent to a server that may have made it for a session that is no more: that open would be in
    /// the way of one of the same name.
    pub fn rename(&self) {
        self.with(|state| state.names = Names::new());
    }

    /// The server made it.
    pub fn made(&self, created: &CreateResponse<'_>) {
        let durable = granted(created);
        self.with(|state| {
            state.place = Place::Held(created.handle);
            (state.durable, state.looks) = (durable, Looks::of(created));
        });
    }

    /// The CREATE that makes it.
    pub fn create(&self, terms: &Terms) -> Request {
        let names = self.with(|state| state.names);
        let contexts = if self.lasts { asked(terms, &names) } else { Vec::new() };
        self.request(terms, self.how.disposition, self.how.options, &names, &contexts)
    }

    /// The CREATE that gets it back from a server that kept it; `None` where it had no reason to.
    pub fn back(&self, terms: &Terms) -> Option<Request> {
        let (names, place, durable) = self.with(|state| (state.names, state.place, state.durable));
        let Place::Held(handle) = place else { return None };
        let mut data = Vec::new();
        let tag = match durable {
            Durable::No => return None,
            Durable::V1 => {
                handle.put(&mut data);
                DURABLE_RECONNECT_TAG
            }
            Durable::V2 { persistent } => {
                let flags = if persistent { DURABLE_PERSISTENT } else { 0 };
                DurableV2Reconnect { handle, create_guid: names.create_guid, flags }.put(&mut data);
                DURABLE_V2_RECONNECT_TAG
            }
        };
        Some(self.request(terms, Disposition::Open, self.how.options, &names, &[(tag, data)]))
    }

    /// The server gave it back.
    pub fn came_back(&self, created: &CreateResponse<'_>) {
        self.with(|state| state.place = Place::Held(created.handle));
    }

    /// The CREATE that opens the same file by its name, under new names; `None` where that cannot be the same: what was
    /// changed through it may have been changed again by others, and its locks are gone.
    pub fn by_name(&self, terms: &Terms) -> Option<Request> {
        if !self.lasts {
            return None;
        }
        let (looks, is_used, has_locks) = self.with(|state| (state.looks, state.is_used, state.has_locks));
        if has_locks || looks.identity.is_none() || (self.how.writes() && is_used) {
            return None;
        }
        self.rename();
        let names = self.with(|state| state.names);
        Some(self.request(terms, Disposition::Open, self.how.options, &names, &asked(terms, &names)))
    }

    /// Whether what was opened by name is the file that was open: by its number, and for writing by all that shows.
    pub fn is_the_same(&self, created: &CreateResponse<'_>) -> bool {
        let (before, now) = (self.with(|state| state.looks), Looks::of(created));
        before.identity.is_some() && before.identity == now.identity && (!self.how.writes() || before == now)
    }

    fn request(
        &self,
        terms: &Terms,
        disposition: Disposition,
        options: CreateOptions,
        names: &Names,
        contexts: &[(&'static [u8], Vec<u8>)],
    ) -> Request {
        let lease = if self.lasts { lease(terms, names) } else { None };
        let without = if self.lasts { oplock::BATCH } else { oplock::NONE };
        let mut list: Vec<RawContext<'_>> = contexts.iter().map(|(name, data)| RawContext { name, data }).collect();
        if let Some(data) = &lease {
            list.push(RawContext { name: LEASE_TAG, data });
        }
        let body = CreateRequest {
            oplock_level: if lease.is_some() { oplock::LEASE } else { without },
            impersonation: 2,
            desired_access: self.how.access.bits(),
            file_attributes: 0,
            share_access: ShareAccess::all().bits(),
            disposition: disposition as u32,
            options,
            name: &self.name,
            contexts: CreateContexts::default(),
        };
        let request = Request::new(Command::Create, terms.tree_id, 0, |out| body.put(&list, out));
        request.sealed(terms.seal)
    }
}

/// What an open is asked for with beside its lease: that it is durable, and the file's number.
fn asked(terms: &Terms, names: &Names) -> Vec<(&'static [u8], Vec<u8>)> {
    let mut data = Vec::new();
    let durable = if terms.dialect.is_3() {
        let flags = if terms.is_available { DURABLE_PERSISTENT } else { 0 };
        DurableV2Request { timeout_ms: 0, flags, create_guid: names.create_guid }.put(&mut data);
        DURABLE_V2_REQUEST_TAG
    } else {
        data.resize(16, 0);
        DURABLE_REQUEST_TAG
    };
    vec![(durable, data), (QUERY_ON_DISK_ID_TAG, Vec::new())]
}

/// The content of the lease context; without leases it is an oplock.
fn lease(terms: &Terms, names: &Names) -> Option<Vec<u8>> {
    if !terms.leasing {
        return None;
    }
    let v2 = terms.dialect.is_3().then_some(LeaseV2 { parent_key: [0; 16], epoch: 0 });
    let context = LeaseContext { key: names.lease_key, state: READ_HANDLE, flags: LeaseFlags::empty(), v2 };
    let mut data = Vec::new();
    context.put(&mut data);
    Some(data)
}

fn granted(created: &CreateResponse<'_>) -> Durable {
    let v2 = created.contexts.get(DURABLE_V2_REQUEST_TAG).and_then(|data| DurableV2Response::decode(data).ok());
    match v2 {
        Some(v2) => Durable::V2 { persistent: v2.flags & DURABLE_PERSISTENT != 0 },
        None if created.contexts.get(DURABLE_REQUEST_TAG).is_some() => Durable::V1,
        None => Durable::No,
    }
}
