//! LOCK, UNLOCK, TEST, CANCEL, SHARE and what frees everything a host has (X/Open C702 chapters 10 and 11, RFC 1813
//! appendix II), on the table of claims, where the ranges of SMB and NFSv4 are too. The procedures in `nlm` decode and
//! answer; here it is decided. No lock of this file is held while the table is asked.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock, Weak};

use coherence::{
    AccessKinds, Change, Denied, Identity, Instant, LockConflict, LockError, LockOutcome, LockOwner, LockRange,
    OpenRequest, Outcome, Owner, ShareKinds, Table,
};
use nfs_wire::nlm::{Lock, NlmStat, ShareAccess, ShareMode};
use parking_lot::Mutex;
use vfs::FileId;

use super::hosts::{Inner, Name, Shared, Wanted};
use super::memory::Memory;
use crate::Env;
use crate::nfs4::state::State;
use crate::server::Server;

/// As whom somebody asks who never locked anything.
const NOBODY: Owner = Owner(u64::MAX);
/// What an owner is called that has no name here: an SMB client.
const FOREIGN: &[u8] = b"smb";

/// How many who wait for one another are looked at.
const MOST_STEPS: usize = 32;

/// The lock manager and the status monitor of a server.
pub(crate) struct Nlm {
    pub(super) table: Table,
    pub(super) env: Env,
    pub(super) state: Arc<State>,
    pub(super) inner: Mutex<Inner>,
    pub(super) memory: Memory,
    pub(super) itself: OnceLock<Weak<Self>>,
}

/// A lock as it was asked for, on a file that is there.
pub(super) struct Asked<'a> {
    pub host: IpAddr,
    pub version: u32,
    pub file: FileId,
    pub lock: &'a Lock<'a>,
    pub exclusive: bool,
}

impl Asked<'_> {
    fn name(&self) -> Name {
        name_of(self.lock)
    }

    /// FBIG for what passes the last byte a file can have.
    fn range(&self) -> Result<LockRange, NlmStat> {
        range_of(self.lock, self.exclusive)
    }
}

pub(super) fn name_of(lock: &Lock<'_>) -> Name {
    Name { caller: lock.caller_name.0.into(), owner: lock.owner.0.into(), svid: lock.svid }
}

fn range_of(lock: &Lock<'_>, exclusive: bool) -> Result<LockRange, NlmStat> {
    let (offset, len) = (lock.range.offset_bytes, lock.range.len_bytes);
    let range = if len == 0 { LockRange::to_end(offset, exclusive) } else { LockRange { offset, len, exclusive } };
    let fits = range.len > 0 && offset.checked_add(range.len - 1).is_some();
    if fits { Ok(range) } else { Err(NlmStat::Fbig) }
}

/// What is in the way of a lock.
pub(super) struct InTheWay {
    pub exclusive: bool,
    pub svid: i32,
    pub owner: Vec<u8>,
    pub offset: u64,
    pub len: u64,
}

impl Nlm {
    pub fn new(env: &Env, table: &Table, state: &Arc<State>) -> Arc<Self> {
        let memory = Memory::new(env.hosts.clone(), env.clock.monotonic_ms(), state.lease_ms);
        let nlm = Arc::new(Self {
            table: table.clone(),
            env: env.clone(),
            state: Arc::clone(state),
            inner: Mutex::default(),
            memory,
            itself: OnceLock::new(),
        });
        let _ = nlm.itself.set(Arc::downgrade(&nlm));
        nlm
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.env.clock.monotonic_ms()
    }

    /// Whether only what was held before the restart is given.
    pub fn is_in_grace(&self) -> bool {
        let now_ms = self.now_ms();
        self.memory.is_in_grace(now_ms) || self.state.grace.is_on(now_ms)
    }

    /// Whether a request comes at its time (RFC 1813 appendix II, `reclaim`).
    pub(super) fn in_time(&self, host: IpAddr, reclaim: bool) -> Result<(), NlmStat> {
        match (reclaim, self.is_in_grace()) {
            (false, false) => Ok(()),
            (true, true) if self.memory.may_reclaim(host, self.now_ms()) => Ok(()),
            _ => Err(NlmStat::DeniedGracePeriod),
        }
    }

    /// Takes a lock, or stands in line for it where the client waits.
    pub(super) fn lock(&self, asked: &Asked<'_>, wait: bool, state: i32) -> NlmStat {
        self.try_lock(asked, wait, state).unwrap_or_else(|stat| stat)
    }

    fn try_lock(&self, asked: &Asked<'_>, wait: bool, state: i32) -> Result<NlmStat, NlmStat> {
        let (range, name, host, file) = (asked.range()?, asked.name(), asked.host, asked.file);
        let (number, wait) = {
            let mut inner = self.inner.lock();
            let new = || self.state.next_owner();
            let number = inner.enter(host, &name, file, &asked.lock.handle, new).ok_or(NlmStat::DeniedNoLocks)?;
            if let Some(known) = inner.host(host) {
                known.state = state;
            }
            let same = |wanted: &Wanted| wanted.is_of(number, file) && wanted.range == range;
            if wait && inner.waiting.values().chain(&inner.held_up).any(same) {
                return Ok(NlmStat::Blocked);
            }
            (number, wait && inner.may_wait(host))
        };
        let wanted = || self.wanted(asked, name.clone(), number, range);
        match self.is_cached(file, range) {
            Ok(false) => {}
            Ok(true) if wait => {
                self.inner.lock().hold_up(wanted());
                return Ok(NlmStat::Blocked);
            }
            // The only word for later: DENIED would say that somebody has it locked.
            other => {
                self.tidy(host, &name, number, file);
                return Err(other.err().unwrap_or(NlmStat::DeniedGracePeriod));
            }
        }
        let taken = self.table.lock_posix(file, number, range, wait);
        let stat = match taken {
            Ok(LockOutcome::Held) => {
                // The client knows by this answer what it was to be told.
                self.inner.lock().owed.retain(|owed| !owed.wanted.is_of(number, file) || owed.wanted.range != range);
                return Ok(NlmStat::Granted);
            }
            Ok(LockOutcome::Wait(ticket))
                if self.would_wait_for_itself(number, file, range) && self.table.cancel(file, ticket) =>
            {
                NlmStat::Deadlock
            }
            Ok(LockOutcome::Wait(ticket)) => {
                self.stand_in_line(ticket, wanted());
                return Ok(NlmStat::Blocked);
            }
            Err(LockError::Conflict(_)) => NlmStat::Denied,
            Err(LockError::InvalidRange) => NlmStat::Fbig,
            Err(LockError::TooMany) => NlmStat::DeniedNoLocks,
        };
        self.tidy(host, &name, number, file);
        Ok(stat)
    }

    fn wanted(&self, asked: &Asked<'_>, name: Name, number: Owner, range: LockRange) -> Wanted {
        let (offset, len) = (asked.lock.range.offset_bytes, asked.lock.range.len_bytes);
        let (host, version, file, handle) = (asked.host, asked.version, asked.file, asked.lock.handle.0.into());
        Wanted { host, version, name, number, file, handle, offset, len, range }
    }

    /// Whether somebody must give up caching the file first, which is begun: who caches it may not go on doing so over a
    /// range that another one locks (MS-FSA 2.1.5.8).
    pub(super) fn is_cached(&self, file: FileId, range: LockRange) -> Result<bool, NlmStat> {
        if !range.exclusive {
            return Ok(false);
        }
        let change = self.table.prepare(Instant(self.now_ms()), file, Change::Write, Identity::Open);
        match change.map_err(|_| NlmStat::DeniedNoLocks)? {
            Outcome::Done(()) => Ok(false),
            Outcome::Wait(ticket) => {
                self.table.give_up(file, ticket);
                Ok(true)
            }
        }
    }

    /// Whether whoever is in the way of a lock waits, by way of others, for the owner that asks for it. Of several in the
    /// way one is looked at, and only who waits here: what is not found ends when somebody gives up.
    fn would_wait_for_itself(&self, asker: Owner, file: FileId, range: LockRange) -> bool {
        let mut wait = (asker, file, range);
        for _ in 0..MOST_STEPS {
            let (number, file, range) = wait;
            let holder = match self.table.test_posix(file, number, range).map(|conflict| conflict.owner) {
                Some(LockOwner::Posix(holder)) => holder,
                _ => return false,
            };
            if holder == asker {
                return true;
            }
            let inner = self.inner.lock();
            let Some(next) = inner.waiting.values().find(|wanted| wanted.number == holder) else { return false };
            wait = (holder, next.file, next.range);
        }
        false
    }

    /// Forgets that an owner has something in a file, if it has not.
    pub(super) fn tidy(&self, host: IpAddr, name: &Name, number: Owner, file: FileId) {
        let mut inner = self.inner.lock();
        if !inner.expects(number, file) && !self.table.holds_posix(file, number) {
            inner.leave(host, name, file);
        }
    }

    /// What would block a lock.
    pub(super) fn test(&self, asked: &Asked<'_>) -> Result<Option<InTheWay>, NlmStat> {
        let range = asked.range()?;
        let number = self.inner.lock().number(asked.host, &asked.name()).unwrap_or(NOBODY);
        let conflict = || self.table.test_posix(asked.file, number, range);
        let found = match conflict() {
            Some(_) if self.state.give_way(asked.file) => conflict(),
            found => found,
        };
        Ok(found.map(|conflict| self.in_the_way(&conflict)))
    }

    fn in_the_way(&self, conflict: &LockConflict) -> InTheWay {
        let known = match conflict.owner {
            LockOwner::Open(_) => None,
            LockOwner::Posix(number) => {
                let own = self.inner.lock().numbers.get(&number).map(|(svid, owner)| (*svid, owner.to_vec()));
                own.or_else(|| self.state.lock_owner_of(number).map(|owner| (0, owner.name.to_vec())))
            }
        };
        let (svid, owner) = known.unwrap_or((0, FOREIGN.to_vec()));
        let to_end = conflict.offset.checked_add(conflict.len).is_none_or(|end| end == u64::MAX);
        let len = if to_end { 0 } else { conflict.len };
        InTheWay { exclusive: conflict.exclusive, svid, owner, offset: conflict.offset, len }
    }

    /// The file an owner's handle named, which may be gone.
    pub(super) fn file_by_handle(&self, host: IpAddr, lock: &Lock<'_>) -> Option<FileId> {
        self.inner.lock().file_by_handle(host, &name_of(lock), &lock.handle)
    }

    /// Gives a range back; whoever holds nothing of it has nothing to be told.
    pub(super) fn unlock(&self, asked: &Asked<'_>) -> NlmStat {
        let range = match asked.range() {
            Ok(range) => range,
            Err(stat) => return stat,
        };
        let name = asked.name();
        let Some(number) = self.inner.lock().number(asked.host, &name) else { return NlmStat::Granted };
        let done = self.table.unlock_posix(asked.file, number, range);
        self.tidy(asked.host, &name, number, asked.file);
        if done.is_ok() { NlmStat::Granted } else { NlmStat::DeniedNoLocks }
    }

    /// The client waits no longer. A lock it was given meanwhile goes again.
    pub(super) fn cancel(&self, asked: &Asked<'_>) -> NlmStat {
        let range = match asked.range() {
            Ok(range) => range,
            Err(stat) => return stat,
        };
        let (name, file) = (asked.name(), asked.file);
        let (number, ticket) = {
            let mut inner = self.inner.lock();
            let Some(number) = inner.number(asked.host, &name) else { return NlmStat::Denied };
            let same = |wanted: &Wanted| wanted.is_of(number, file) && wanted.range == range;
            if !inner.let_go(same).is_empty() {
                drop(inner);
                self.tidy(asked.host, &name, number, file);
                return NlmStat::Granted;
            }
            let ticket = inner.waiting.iter().find(|(_, wanted)| same(wanted)).map(|(ticket, _)| *ticket);
            (number, ticket)
        };
        if let Some(ticket) = ticket
            && self.table.cancel(file, ticket)
        {
            self.inner.lock().stop_waiting(ticket);
            self.tidy(asked.host, &name, number, file);
            return NlmStat::Granted;
        }
        let granted = {
            let mut inner = self.inner.lock();
            let before = inner.owed.len();
            inner.owed.retain(|owed| !(owed.wanted.is_of(number, file) && owed.wanted.range == range));
            // Where the table's word of the grant is still under way, the client is asked later, and does not want it.
            inner.owed.len() < before || ticket.is_some()
        };
        if !granted {
            return NlmStat::Denied;
        }
        let _ = self.table.unlock_posix(file, number, range);
        self.tidy(asked.host, &name, number, file);
        NlmStat::Granted
    }

    /// Opens a file for a DOS client that says what others may do meanwhile.
    pub(super) fn share(
        &self,
        server: &Server,
        host: IpAddr,
        file: FileId,
        owner: Name,
        mode: ShareMode,
        access: ShareAccess,
    ) -> NlmStat {
        let request = OpenRequest::new(file, access_of(access), share_of(mode));
        // The one it had is replaced.
        self.unshare(host, file, &owner);
        {
            let mut inner = self.inner.lock();
            if inner.host(host).is_none_or(|known| !known.may_share()) || !inner.reserve(&owner) {
                return NlmStat::DeniedNoLocks;
            }
        }
        let refused = match self.table.open(server.now(), &request) {
            Ok(Outcome::Done(opened)) => {
                if let Some(known) = self.inner.lock().host(host) {
                    known.shares.push(Shared { owner, file, claim: opened.claim });
                    return NlmStat::Granted;
                }
                NlmStat::DeniedNoLocks
            }
            Ok(Outcome::Wait(ticket)) => {
                self.table.give_up(file, ticket);
                NlmStat::DeniedGracePeriod
            }
            Err(Denied::TooManyWaiters) => NlmStat::DeniedNoLocks,
            Err(_) => NlmStat::Denied,
        };
        self.inner.lock().release(&owner);
        refused
    }

    pub(super) fn unshare(&self, host: IpAddr, file: FileId, owner: &Name) {
        let mut gone = Vec::new();
        {
            let mut inner = self.inner.lock();
            if let Some(known) = inner.hosts.get_mut(&host) {
                gone = known.shares.extract_if(.., |share| share.file == file && share.owner == *owner).collect();
            }
            gone.iter().for_each(|share: &Shared| inner.release(&share.owner));
        }
        close(gone);
    }

    /// A host has nothing any more: it said so (FREE_ALL), or it restarted.
    pub(super) fn free(&self, host: IpAddr) {
        let (owners, shares) = {
            let mut inner = self.inner.lock();
            inner.owed.retain(|owed| owed.wanted.host != host);
            inner.let_go(|wanted| wanted.host == host);
            let Some(known) = inner.hosts.get_mut(&host) else { return };
            let (owners, shares) = known.empty();
            owners.values().for_each(|holder| drop(inner.numbers.remove(&holder.number)));
            owners.keys().chain(shares.iter().map(|share| &share.owner)).for_each(|name| inner.release(name));
            (owners, shares)
        };
        for holder in owners.values() {
            holder.files.keys().for_each(|file| self.table.release_posix(*file, holder.number));
        }
        close(shares);
        if !owners.is_empty() {
            tracing::info!(%host, owners = owners.len(), "what a host had locked over NFSv3 is free again");
        }
    }

    /// A host restarted, and its state number is this now; the same is said more than once.
    pub(super) fn restarted(&self, host: IpAddr, state: i32) {
        {
            let mut inner = self.inner.lock();
            let Some(known) = inner.hosts.get_mut(&host) else { return };
            if known.notified.replace(state) == Some(state) || (known.state == state && state != 0) {
                return;
            }
        }
        self.free(host);
    }
}

fn close(shares: Vec<Shared>) {
    // No deletion comes of it but that of a file SMB has marked: its own clients see to it.
    shares.into_iter().for_each(|share| drop(share.claim));
}

fn access_of(access: ShareAccess) -> AccessKinds {
    match access {
        ShareAccess::None => AccessKinds::empty(),
        ShareAccess::Read => AccessKinds::READ,
        ShareAccess::Write => AccessKinds::WRITE,
        ShareAccess::Both => AccessKinds::READ | AccessKinds::WRITE,
    }
}

fn share_of(mode: ShareMode) -> ShareKinds {
    let all = ShareKinds::all();
    match mode {
        ShareMode::DenyNone => all,
        ShareMode::DenyRead => all - ShareKinds::READ,
        ShareMode::DenyWrite => all - ShareKinds::WRITE,
        ShareMode::DenyBoth => all - ShareKinds::READ - ShareKinds::WRITE,
    }
}
