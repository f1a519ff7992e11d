//! The create contexts of durable handles (MS-SMB2 3.3.5.9.6, .7, .10, .12, .13): which of them a CREATE has, the way
//! back to an open whose connection was lost, and a CREATE that is told again.

use std::sync::Arc;

use coherence::{Caching, GrantState};
use smb_wire::NtStatus;
use smb_wire::smb2::{
    APP_INSTANCE_TAG, CreateRequest, DURABLE_PERSISTENT, DURABLE_RECONNECT_TAG, DURABLE_REQUEST_TAG,
    DURABLE_V2_RECONNECT_TAG, DURABLE_V2_REQUEST_TAG, Dialect, DurableV2Reconnect, DurableV2Request, FileHandle, Flags,
    app_instance_id, check_durable_request, durable_reconnect_handle,
};

use super::plan::to_path;
use super::regain::regained;
use super::respond::Answer;
use super::{Id, OPENED, enter};
use crate::Share;
use crate::dispatch::Request;
use crate::durable::{Creating, Disconnected, Durability, Known};
use crate::failure::Failure;
use crate::grants::{LeaseName, Wanted};
use crate::handlers::negotiate::Negotiated;
use crate::open::{FileOpen, Object, Open};
use crate::persistent::Keeper;
use crate::reply::ReplyWriter;
use crate::server::Server;
use crate::session::Session;
use crate::tree::Tree;

/// What a CREATE wants of durability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// `DHnQ`.
    V1,
    /// `DH2Q`.
    V2(DurableV2Request),
    /// `DHnC`.
    Back(FileHandle),
    /// `DH2C`.
    BackV2(DurableV2Reconnect),
}

impl Asked {
    /// Reads the contexts; version 2 exists from 3.0 on. Combinations that contradict one another are refused.
    pub fn of(asked: &CreateRequest<'_>, dialect: Dialect) -> Result<Self, Failure> {
        let context = |tag: &[u8], exists: bool| asked.contexts.get(tag).filter(|_| exists);
        let v1 = context(DURABLE_REQUEST_TAG, true);
        let back = context(DURABLE_RECONNECT_TAG, true);
        let v2 = context(DURABLE_V2_REQUEST_TAG, dialect.is_3());
        let back_v2 = context(DURABLE_V2_RECONNECT_TAG, dialect.is_3());
        match (v1, back, v2, back_v2) {
            (None, None, None, None) => Ok(Self::Nothing),
            (Some(data), None, None, None) => {
                check_durable_request(data)?;
                Ok(Self::V1)
            }
            (_, Some(data), None, None) => Ok(Self::Back(durable_reconnect_handle(data)?)),
            (None, None, Some(data), None) => Ok(Self::V2(DurableV2Request::decode(data)?)),
            (None, None, None, Some(data)) => Ok(Self::BackV2(DurableV2Reconnect::decode(data)?)),
            _ => Err(NtStatus::INVALID_PARAMETER.into()),
        }
    }

    /// Whether a persistent handle is asked for where one can be had (3.3.5.9.10).
    pub fn may_persist(&self, server: &Server, share: &Share) -> bool {
        let asked = matches!(self, Self::V2(v2) if v2.flags & DURABLE_PERSISTENT != 0);
        asked && share.options.continuously_available && server.keeper.as_ref().is_some_and(Keeper::works)
    }

    /// What is granted to an open of a file that may be cached as `state` says: only an open that the client may cache
    /// itself can outlive its connection, save where it is `persistent`.
    pub fn grant(&self, state: &GrantState, persistent: bool) -> Option<Durability> {
        if let (true, Self::V2(v2)) = (persistent, self) {
            return Some(Durability { persistent, ..Durability::v2(v2.create_guid, v2.timeout_ms) });
        }
        if !state.caching.contains(Caching::HANDLE) {
            return None;
        }
        match self {
            Self::V1 => Some(Durability::v1()),
            Self::V2(v2) => Some(Durability::v2(v2.create_guid, v2.timeout_ms)),
            _ => None,
        }
    }
}

/// Marks a CREATE with a guid as under way; `Err` with the open it made before, if it is told again.
pub fn begin(
    request: &Request<'_>,
    negotiated: &Negotiated,
    session: &Session,
    v2: &DurableV2Request,
) -> Result<Result<Creating, Arc<Open>>, Failure> {
    let durables = &request.conn.server.durables;
    let replayed = request.header.flags.contains(Flags::REPLAY);
    match durables.create(negotiated.client_guid, v2.create_guid, replayed) {
        Ok(creating) => Ok(Ok(creating)),
        Err(_) if !replayed => Err(NtStatus::DUPLICATE_OBJECTID.into()),
        Err(Known::Pending) => Err(NtStatus::FILE_NOT_AVAILABLE.into()),
        Err(Known::Open(open)) => {
            // A replay is of the session that made the open.
            let own = session.open(open.handle).is_some_and(|own| Arc::ptr_eq(&own, &open));
            // A persistent one may have lost its session, and the server its memory of that.
            let lost = open.file().is_ok_and(FileOpen::is_persistent) && durables.is_lost(open.handle.persistent);
            if own || lost { Ok(Err(open)) } else { Err(NtStatus::DUPLICATE_OBJECTID.into()) }
        }
    }
}

/// Answers a CREATE that is told again as it was answered (3.3.5.9.10).
pub fn replay(
    request: &Request<'_>,
    asked: &CreateRequest<'_>,
    wanted: &Wanted,
    open: &Open,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let file = open.file()?;
    if lease_of(file) != wanted.lease.map(|(name, _)| name) {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let mut caching = caching(&request.conn.server, file);
    if wanted.lease.is_none() {
        // The level asked for this time is answered; what is held stays as it is.
        caching.caching &= wanted.caching;
    }
    let durable = caching.caching.contains(Caching::HANDLE);
    let durability = Some(*file.durability.lock()).filter(|_| durable);
    Answer { asked, wanted, action: file.action, maximal: open.granted, caching, attr: None, durability }
        .put(open, file, out)?;
    Ok(open.handle)
}

/// Answers a CREATE that is told again after its persistent open was lost: the open is given back, and answered as it
/// was when it was made.
pub fn replay_lost(
    request: &Request<'_>,
    place: (&Arc<Session>, &Arc<Tree>),
    asked: &CreateRequest<'_>,
    (v2, open): (&DurableV2Request, &Open),
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let file = open.file()?;
    let first = Some((file.action, *file.durability.lock()));
    let back = DurableV2Reconnect { handle: open.handle, create_guid: v2.create_guid, flags: v2.flags };
    give_back(request, place, asked, Asked::BackV2(back), first, out)
}

/// Gives a client back the open whose connection it lost.
pub fn reconnect(
    request: &Request<'_>,
    place: (&Arc<Session>, &Arc<Tree>),
    asked: &CreateRequest<'_>,
    back: Asked,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    give_back(request, place, asked, back, None, out)
}

/// `first`: what the open's first answer said, where that is to be told again.
fn give_back(
    request: &Request<'_>,
    (session, tree): (&Arc<Session>, &Arc<Tree>),
    asked: &CreateRequest<'_>,
    back: Asked,
    first: Option<(u32, Durability)>,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let negotiated = request.conn.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let wanted = Wanted::lease(asked, &negotiated)?;
    let server = &request.conn.server;
    let (handle, guid, flags) = match back {
        Asked::Back(handle) => (handle, None, 0),
        Asked::BackV2(v2) => (v2.handle, Some(v2.create_guid), v2.flags),
        _ => return Err(NtStatus::INVALID_PARAMETER.into()),
    };
    let lease = wanted.lease.map(|(name, _)| name);
    let claim = Claim { tree, asked, guid, flags, lease, negotiated: &negotiated };
    let check = |lost: &Disconnected| -> Result<(), NtStatus> {
        let file = lost.file().ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        claim.check(file, lost.owner())?;
        // From here on it can be told again; what comes before it is connected is kept.
        if let Some(route) = &file.route {
            route.reopening();
        }
        Ok(())
    };
    let turn = server.durables.turn();
    let open = match server.durables.take(handle.persistent, check) {
        Some(lost) => put_back(request, (session, tree), &lost?)?,
        None => {
            let check = |file: &FileOpen| claim.check(file, &tree.user.name);
            regained(session, tree, handle.persistent, check).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)??
        }
    };
    drop(turn);
    let file = open.file()?;
    Answer {
        asked,
        wanted: &wanted,
        action: first.map_or(OPENED, |(action, _)| action),
        maximal: open.granted,
        attr: None,
        caching: caching(server, file),
        durability: first.map(|(_, durability)| durability),
    }
    .put(&open, file, out)?;
    Ok(open.handle)
}

/// Enters the open in the session. A persistent one keeps its FileId: its client may still ask by the one of before.
pub fn put_back(
    request: &Request<'_>,
    (session, tree): (&Arc<Session>, &Arc<Tree>),
    lost: &Disconnected,
) -> Result<Arc<Open>, NtStatus> {
    let file = lost.file().ok_or(NtStatus::INTERNAL_ERROR)?;
    let handle = lost.open.handle;
    let id = if file.is_persistent() { Id::Kept(handle) } else { Id::New(handle.persistent) };
    // It may have been renamed meanwhile; where it is gone, it is below nothing.
    let object = (Object::File(Arc::clone(file)), file.path().unwrap_or_default());
    let open = enter(request, session, tree, id, lost.open.granted, object)?;
    if let Some(guid) = file.durability.lock().create_guid() {
        request.conn.server.durables.remade(file.client, guid, &open);
    }
    Ok(open)
}

/// Closes opens of the same application instance that another client left behind: a virtual machine has moved
/// (3.3.5.9.13).
pub fn take_over(
    request: &Request<'_>,
    negotiated: &Negotiated,
    asked: &CreateRequest<'_>,
) -> Result<Option<[u8; 16]>, Failure> {
    let Some(data) = asked.contexts.get(APP_INSTANCE_TAG).filter(|_| negotiated.dialect.is_3()) else {
        return Ok(None);
    };
    let instance = app_instance_id(data)?;
    let server = &request.conn.server;
    let same = |file: &FileOpen| file.app_instance == Some(instance) && file.client != negotiated.client_guid;
    for lost in server.durables.take_where(|lost| lost.file().is_some_and(|file| same(file))) {
        server.close_disconnected(lost);
    }
    server.close_opens(&request.conn.shard.executor, |open| open.file().is_ok_and(same));
    Ok(Some(instance))
}

fn caching(server: &Server, file: &FileOpen) -> GrantState {
    server.table.grant_state(file.claim.file(), &file.claim.holder()).unwrap_or_default()
}

fn lease_of(file: &FileOpen) -> Option<LeaseName> {
    file.route.as_ref().and_then(|route| route.lease())
}

/// A client's claim to an open it lost.
struct Claim<'a> {
    tree: &'a Tree,
    asked: &'a CreateRequest<'a>,
    guid: Option<[u8; 16]>,
    flags: u32,
    lease: Option<LeaseName>,
    negotiated: &'a Negotiated,
}

impl Claim<'_> {
    /// 3.3.5.9.7 and 3.3.5.9.12, in their order.
    fn check(&self, file: &FileOpen, owner: &str) -> Result<(), NtStatus> {
        let durability = *file.durability.lock();
        // An open of version 1 has no guid; version 1 of the reconnect does not ask for one.
        let same_guid = self.guid.is_none_or(|guid| durability.create_guid().unwrap_or_default() == guid);
        let as_persistent = !durability.persistent || self.flags & DURABLE_PERSISTENT != 0;
        if !same_guid
            || !as_persistent
            || (lease_of(file).is_some() && file.client != self.negotiated.client_guid)
            || lease_of(file) != self.lease
            || !self.tree.share().is_some_and(|share| Arc::ptr_eq(share, &file.share))
        {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        if !durability.persistent && self.flags & DURABLE_PERSISTENT != 0 {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if self.lease.is_some() && !self.is_named(file) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if !owner.eq_ignore_ascii_case(&self.tree.user.name) {
            return Err(NtStatus::ACCESS_DENIED);
        }
        Ok(())
    }

    /// Whether the CREATE names the file as it is called now.
    fn is_named(&self, file: &FileOpen) -> bool {
        let Ok(wire) = smb_wire::name::parse_path(self.asked.name) else { return false };
        let Ok(asked) = to_path(&file.share, &wire.path) else { return false };
        let fold = |path: &vfs::Path| String::from_utf8_lossy(path.as_bytes()).to_lowercase();
        file.path().is_ok_and(|path| fold(&path) == fold(&asked))
    }
}
