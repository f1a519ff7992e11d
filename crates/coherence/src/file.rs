//! The entry of one file: every claim on it under one short lock, and the flags that let a read or write see without
//! the lock that nobody is in its way. Used by `table` and `claim`; the rules of each kind of claim are in their own
//! files.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use vfs::FileId;

use crate::claim::DeleteNote;
use crate::grant::{Context, GrantState, Grants};
use crate::lock::Locks;
use crate::share::ShareCounts;
use crate::{AccessKinds, Change, Denied, HolderKey, Identity, OpenId, OpenRequest, ShareKinds, Ticket};

/// Byte ranges are held or waited for.
pub(crate) const LOCKED: u32 = 1;
/// Caching grants are held.
pub(crate) const GRANTED: u32 = 2;
/// The flags above this are the number of the holder that has all grants there are, when only one has any.
const SOLE_SHIFT: u32 = 2;

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) id: FileId,
    flags: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    counts: ShareCounts,
    opens: u32,
    momentary: u32,
    next_open: u64,
    pub(crate) delete_pending: bool,
    /// The last open is closed and its closer is deleting the file.
    pub(crate) deleting: bool,
    /// No longer in the table; whoever still finds it must look again.
    pub(crate) retired: bool,
    pub(crate) note: Option<DeleteNote>,
    locks: Option<Box<Locks>>,
    grants: Option<Box<Grants>>,
}

/// An open that was let in, before it has a claim around it.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: OpenId,
    /// Under which key the open is counted among the grant holders, if it is.
    pub(crate) holder: Option<HolderKey>,
    /// That holder's number, for [`File::granted_to_others`].
    pub(crate) number: u32,
    pub(crate) grant: GrantState,
}

/// Let in, or told to wait.
pub(crate) type Admission = Result<Result<Admitted, Ticket>, Denied>;

impl File {
    pub(crate) fn new(id: FileId) -> Self {
        Self { id, flags: AtomicU32::new(0), state: Mutex::new(State::default()) }
    }

    /// Whether any of `flags` is up: one load, no lock.
    pub(crate) fn flagged(&self, flags: u32) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    /// Whether a holder other than the one of this number has a grant: one load, no lock. 0 is the number of none.
    pub(crate) fn granted_to_others(&self, number: u32) -> bool {
        let flags = self.flags.load(Ordering::Acquire);
        flags & GRANTED != 0 && (number == 0 || flags >> SOLE_SHIFT != number)
    }

    /// Looks at the state, or changes what no flag tells of.
    pub(crate) fn look<R>(&self, at: impl FnOnce(&State) -> R) -> R {
        at(&self.state.lock())
    }

    /// Changes the state and puts the flags right; also whether no claim is left.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> (R, bool) {
        let mut state = self.state.lock();
        let result = change(&mut state);
        state.tidy();
        self.flags.store(state.flags(), Ordering::Release);
        (result, state.is_idle())
    }
}

impl State {
    /// No claim is left.
    pub(crate) fn is_idle(&self) -> bool {
        self.opens == 0 && self.momentary == 0 && !self.deleting && self.locks.is_none() && self.grants.is_none()
    }

    pub(crate) fn opens(&self) -> u32 {
        self.opens
    }

    pub(crate) fn locks(&self) -> Option<&Locks> {
        self.locks.as_deref()
    }

    pub(crate) fn locks_mut(&mut self) -> &mut Locks {
        self.locks.get_or_insert_default()
    }

    pub(crate) fn grants(&self) -> Option<&Grants> {
        self.grants.as_deref()
    }

    pub(crate) fn grants_mut(&mut self) -> Option<&mut Grants> {
        self.grants.as_deref_mut()
    }

    /// Lets an open in, refuses it, or makes it wait (MS-FSA 2.1.5.1.2).
    pub(crate) fn open(&mut self, cx: &mut Context<'_>, request: &OpenRequest) -> Admission {
        if (self.delete_pending || self.deleting) && !request.momentary {
            return Err(Denied::DeletePending);
        }
        let by = request.identity.key();
        if self.counts.conflicts(request.access, request.share) {
            return self.contend(cx, Change::ShareConflict, by.as_ref())?.map_or(Err(Denied::ShareViolation), wait);
        }
        if let Some(change) = request.change()
            && let Some(ticket) = self.contend(cx, change, by.as_ref())?
        {
            return wait(ticket);
        }
        Ok(Ok(self.admit(request, by)))
    }

    fn admit(&mut self, request: &OpenRequest, by: Option<HolderKey>) -> Admitted {
        self.counts.add(request.access, request.share);
        let id = OpenId(self.next_open);
        self.next_open += 1;
        if request.momentary {
            self.momentary += 1;
            return Admitted { id, holder: None, number: 0, grant: GrantState::default() };
        }
        self.opens += 1;
        let wants = !request.grant.want.is_empty();
        let Some(key) = by.or(wants.then_some(HolderKey::Open(id))) else {
            return Admitted { id, holder: None, number: 0, grant: GrantState::default() };
        };
        let locks = self.locks.is_some();
        let grants = self.grants.get_or_insert_default();
        let grant = grants.opened(&key, request.owner, request.access, request.grant, &self.counts, locks);
        Admitted { id, holder: Some(key), number: grants.number(&key), grant }
    }

    /// Breaks what `change` breaks; the ticket to wait with if it must wait.
    pub(crate) fn contend(
        &mut self,
        cx: &mut Context<'_>,
        change: Change,
        by: Option<&HolderKey>,
    ) -> Result<Option<Ticket>, Denied> {
        let Some(grants) = self.grants.as_deref_mut() else { return Ok(None) };
        if !grants.contend(cx, change, by) {
            return Ok(None);
        }
        let ticket = cx.ticket();
        if grants.enlist(ticket, cx.limits) { Ok(Some(ticket)) } else { Err(Denied::TooManyWaiters) }
    }

    /// Takes out what `open` put in.
    pub(crate) fn close(
        &mut self,
        cx: &mut Context<'_>,
        open: (OpenId, Option<HolderKey>),
        mode: (AccessKinds, ShareKinds),
        momentary: bool,
    ) {
        self.counts.remove(mode.0, mode.1);
        if momentary {
            self.momentary -= 1;
        } else {
            self.opens -= 1;
        }
        if let Some(locks) = &mut self.locks {
            locks.release(crate::LockOwner::Open(open.0), cx.limits, cx.out);
        }
        if let (Some(grants), Some(key)) = (&mut self.grants, open.1) {
            grants.closed(cx, &key, mode.0);
        }
    }

    /// Whether some open other than one with `own` mode forbids deleting and renaming.
    pub(crate) fn keeps_name(&self, own: Option<(AccessKinds, ShareKinds)>) -> bool {
        let others = own.map_or(self.counts, |(access, share)| self.counts.without(access, share));
        others.conflicts(AccessKinds::DELETE, ShareKinds::all())
    }

    /// Whether some open forbids adding entries, or may delete the directory meanwhile.
    pub(crate) fn forbids_entries(&self) -> bool {
        self.counts.conflicts(AccessKinds::WRITE, ShareKinds::READ | ShareKinds::WRITE)
    }

    /// Changes the mode of one open (NFSv4 OPEN upgrade, OPEN_DOWNGRADE).
    pub(crate) fn reshare(
        &mut self,
        holder: Option<&HolderKey>,
        before: (AccessKinds, ShareKinds),
        after: (AccessKinds, ShareKinds),
    ) -> Result<(), Denied> {
        let mut counts = self.counts.without(before.0, before.1);
        if counts.conflicts(after.0, after.1) {
            return Err(Denied::ShareViolation);
        }
        counts.add(after.0, after.1);
        self.counts = counts;
        if let (Some(grants), Some(key)) = (&mut self.grants, holder) {
            grants.reshared(key, before.0, after.0);
        }
        Ok(())
    }

    /// Takes an operation off whatever line it waits in.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> bool {
        self.locks.as_mut().is_some_and(|locks| locks.cancel(ticket))
            || self.grants.as_mut().is_some_and(|grants| grants.cancel(ticket))
    }

    fn tidy(&mut self) {
        self.locks.take_if(|locks| locks.is_idle());
        self.grants.take_if(|grants| grants.is_idle());
    }

    fn flags(&self) -> u32 {
        let granted = self.grants.as_ref().filter(|grants| grants.any_held());
        let sole = granted.map_or(0, |grants| grants.sole());
        (if self.locks.is_some() { LOCKED } else { 0 }) | granted.map_or(0, |_| GRANTED) | sole << SOLE_SHIFT
    }
}

fn wait(ticket: Ticket) -> Admission {
    Ok(Err(ticket))
}

impl Identity {
    /// The key under which grants of this identity are held; an open's own is known only once it is let in.
    pub(crate) fn key(&self) -> Option<HolderKey> {
        match *self {
            Self::Open => None,
            Self::Lease { client, key } => Some(HolderKey::Lease { client, key }),
            Self::Client(client) => Some(HolderKey::Client(client)),
        }
    }
}

impl OpenRequest {
    /// What the open is to the holders of caching grants; nothing, if it only looks at attributes.
    fn change(&self) -> Option<Change> {
        let write = self.access.contains(AccessKinds::WRITE);
        if self.access.is_empty() && !self.overwrite && !self.beyond_attributes {
            return self.inspects.then_some(Change::Inspect);
        }
        if !self.momentary {
            let deny_read = !self.share.contains(ShareKinds::READ);
            return Some(Change::Open { write, deny_read, overwrite: self.overwrite });
        }
        Some(match () {
            () if write || self.overwrite => Change::Write,
            () if self.access.contains(AccessKinds::READ) => Change::Read,
            () => Change::Delete,
        })
    }
}
