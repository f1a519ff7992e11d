//! The table of all files anybody has a claim on, sharded by file id, and the calls that need no open. A file is in it
//! exactly as long as it has a claim. Lock order: a shard, then a file; the sink is called with neither.

use std::borrow::Borrow;
use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use vfs::FileId;

use crate::effect::Out;
use crate::file::{File, State};
use crate::grant::Context;
use crate::{
    AckError, Caching, Change, Deletion, Denied, Effect, EffectSink, GivesWay, GrantState, HolderKey, Identity,
    Instant, LockConflict, LockError, LockOutcome, LockOwner, LockRange, OpenClaim, OpenRequest, Opened, Outcome,
    Owner, Ticket,
};

const SHARDS: usize = 64;

/// Bounds of what one file may cost, and of patience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Byte ranges held on one file.
    pub locks_per_file: usize,
    /// Operations waiting on one file, for ranges and for breaks each.
    pub waiters_per_file: usize,
    /// How long a holder has to acknowledge a break. Windows gives 35 seconds (MS-SMB2 3.3.2.1).
    pub break_deadline_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { locks_per_file: 1 << 16, waiters_per_file: 1 << 14, break_deadline_ms: 35_000 }
    }
}

/// What the table holds, counted by looking at all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Files with any claim.
    pub files: usize,
    /// Opens, without momentary ones.
    pub opens: usize,
    /// Byte ranges held.
    pub locks: usize,
    /// Holders of caching grants, those with none left at the moment included.
    pub holders: usize,
}

/// All claims on all files. Cheap to clone: every clone is the same table.
#[derive(Clone)]
pub struct Table {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    shards: Box<[Mutex<Shard>]>,
    deadlines: Mutex<BTreeSet<(Instant, FileId, HolderKey)>>,
    tickets: AtomicU64,
    pub(crate) limits: Limits,
    sink: Option<Arc<dyn EffectSink>>,
    /// Where the effects on delegations and on POSIX owners go, and who gives way: the server that hands delegations out.
    delegations: OnceLock<Served>,
}

/// The server that hands delegations out.
struct Served {
    sink: Arc<dyn EffectSink>,
    way: Arc<dyn GivesWay>,
    recall_deadline_ms: u64,
}

/// The files of a shard.
#[derive(Default)]
struct Shard {
    files: HashSet<Entry>,
    /// The one that went last: the next to come takes its memory, so that a moment's claim on a file without any takes none.
    spare: Option<Arc<File>>,
}

impl Shard {
    /// An entry for a file that has none.
    fn make(&mut self, id: FileId) -> Arc<File> {
        let mut file = self.spare.take().unwrap_or_else(|| Arc::new(File::new(id)));
        match Arc::get_mut(&mut file) {
            Some(file) => *file = File::new(id),
            // Somebody has found it before it went, and looks at it still.
            None => file = Arc::new(File::new(id)),
        }
        self.files.insert(Entry(Arc::clone(&file)));
        file
    }
}

/// A file in a shard's set, found by its id.
struct Entry(Arc<File>);

impl Borrow<FileId> for Entry {
    fn borrow(&self) -> &FileId {
        &self.0.id
    }
}

impl Hash for Entry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Entry {}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("limits", &self.inner.limits).finish_non_exhaustive()
    }
}

impl Table {
    /// A table whose effects go nowhere: enough while nobody asks for grants and nobody waits for locks.
    #[must_use]
    pub fn new() -> Self {
        Self::build(Limits::default(), None)
    }

    /// A table with its own limits, whose effects go to `sink`.
    #[must_use]
    pub fn with_sink(limits: Limits, sink: Arc<dyn EffectSink>) -> Self {
        Self::build(limits, Some(sink))
    }

    fn build(limits: Limits, sink: Option<Arc<dyn EffectSink>>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let inner = Inner {
            shards,
            deadlines: Mutex::default(),
            tickets: AtomicU64::new(1),
            limits,
            sink,
            delegations: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// From now on effects on what an NFS client holds or waits for go to `sink` and not to the table's own, and `way` is asked
    /// before anybody is refused for what it may give up. Who is to return a delegation has `recall_deadline_ms`, a lease
    /// at least (RFC 8881 10.4.6). Only the first call counts.
    pub fn serve_delegations(&self, sink: Arc<dyn EffectSink>, way: Arc<dyn GivesWay>, recall_deadline_ms: u64) {
        let _ = self.inner.delegations.set(Served { sink, way, recall_deadline_ms });
    }

    /// Opens a file, or asks the holders of caching grants that are in the way to give them up (MS-FSA 2.1.5.1.2,
    /// MS-SMB2 3.3.5.9). The file must exist: a CREATE that makes a file opens the new file's id.
    pub fn open(&self, now: Instant, request: &OpenRequest) -> Result<Outcome<Opened>, Denied> {
        let open = || self.inner.enter(now, request.file, |state, cx| state.open(cx, request));
        let (mut file, mut admission) = open();
        if matches!(admission, Err(Denied::ShareViolation)) && self.inner.give_way(request.file) {
            (file, admission) = open();
        }
        Ok(match admission? {
            Ok(admitted) => Outcome::Done(OpenClaim::opened(Arc::clone(&self.inner), file, request, admitted)),
            Err(ticket) => Outcome::Wait(ticket),
        })
    }

    /// Asks before changing a file without an open on it: NFSv3 SETATTR, REMOVE and RENAME, entries of a directory
    /// under an SMB directory lease. `Done` means go on.
    pub fn prepare(&self, now: Instant, file: FileId, change: Change, by: Identity) -> Result<Outcome<()>, Denied> {
        let key = by.key();
        let ticket = self.inner.change(now, file, |state, cx| state.contend(cx, change, key.as_ref()));
        Ok(match ticket.transpose()?.flatten() {
            Some(ticket) => Outcome::Wait(ticket),
            None => Outcome::Done(()),
        })
    }

    /// Whether the share modes of the opens on a file allow removing or renaming it from outside of any open.
    pub fn check_remove(&self, file: FileId) -> Result<(), Denied> {
        let look = || self.inner.find(file).is_some_and(|file| file.look(|state| state.keeps_name(None)));
        if look() && (!self.inner.give_way(file) || look()) { Err(Denied::ShareViolation) } else { Ok(()) }
    }

    /// Whether the opens on a directory let an entry be moved into it: a rename counts as an open of the directory that
    /// writes and forbids deleting it (MS-FSA 2.1.5.15.11).
    pub fn check_enter(&self, directory: FileId) -> Result<(), Denied> {
        let forbidden = self.inner.find(directory).is_some_and(|file| file.look(|state| state.forbids_entries()));
        if forbidden { Err(Denied::ShareViolation) } else { Ok(()) }
    }

    /// How many opens a file has, attribute-only ones included, momentary ones not.
    #[must_use]
    pub fn open_count(&self, file: FileId) -> usize {
        self.inner.find(file).map_or(0, |file| file.look(|state| state.opens() as usize))
    }

    /// Whether the file goes when its last open closes, or is going now.
    #[must_use]
    pub fn is_delete_pending(&self, file: FileId) -> bool {
        self.inner.find(file).is_some_and(|file| file.look(|state| state.delete_pending || state.deleting))
    }

    /// Takes a waiting operation off the line. False when it no longer waits: its effect is under way or has arrived.
    pub fn cancel(&self, file: FileId, ticket: Ticket) -> bool {
        self.inner.change(Instant::default(), file, |state, _| state.cancel(ticket)).unwrap_or(false)
    }

    /// The caller will not wait, and asks again by itself: nothing is to be kept of the ticket it was handed.
    pub fn give_up(&self, file: FileId, ticket: Ticket) {
        if !self.cancel(file, ticket)
            && let Some(sink) = &self.inner.sink
        {
            sink.forget(ticket);
        }
    }

    /// The holder acknowledges a break and keeps `kept` (MS-SMB2 3.3.5.22). Returns what it holds now.
    pub fn acknowledge(
        &self,
        now: Instant,
        file: FileId,
        holder: &HolderKey,
        kept: Caching,
    ) -> Result<Caching, AckError> {
        self.inner
            .change(now, file, |state, cx| {
                state.grants_mut().map_or(Err(AckError::NoGrant), |grants| grants.acknowledge(cx, holder, kept))
            })
            .unwrap_or(Err(AckError::NoGrant))
    }

    /// The holder gives back all it has, asked or not (RFC 8881 18.6, DELEGRETURN). False when it had nothing.
    pub fn give_back(&self, now: Instant, file: FileId, holder: &HolderKey) -> bool {
        self.inner
            .change(now, file, |state, cx| state.grants_mut().is_some_and(|grants| grants.give_back(cx, holder)))
            .unwrap_or(false)
    }

    /// What a holder has on a file; `None` when it is none there.
    #[must_use]
    pub fn grant_state(&self, file: FileId, holder: &HolderKey) -> Option<GrantState> {
        self.inner.find(file)?.look(|state| state.grants()?.state(holder))
    }

    /// When [`Table::expire`] is to be called next. A deadline just lifted may still be told.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.inner.deadlines.lock().first().map(|(when, ..)| *when)
    }

    /// Revokes every grant whose break is overdue at `now`.
    pub fn expire(&self, now: Instant) {
        while let Some((_, file, holder)) = self.inner.overdue(now) {
            self.inner.change(now, file, |state, cx| {
                if let Some(grants) = state.grants_mut() {
                    grants.expire(cx, &holder);
                }
            });
        }
    }

    /// Locks a range for a POSIX owner, replacing what it holds there (RFC 8881 18.10). Needs no open (NLM).
    pub fn lock_posix(
        &self,
        file: FileId,
        owner: Owner,
        range: LockRange,
        wait: bool,
    ) -> Result<LockOutcome, LockError> {
        let take = |state: &mut State, cx: &mut Context<'_>| {
            let ticket = wait.then(|| cx.ticket());
            state.locks_mut().lock(LockOwner::Posix(owner), &[range], ticket, cx.limits, cx.out)
        };
        let first = self.inner.enter(Instant::default(), file, take).1;
        match first {
            Err(LockError::Conflict(_)) if self.inner.give_way(file) => {
                self.inner.enter(Instant::default(), file, take).1
            }
            other => other,
        }
    }

    /// Whether a POSIX owner holds any range of a file.
    #[must_use]
    pub fn holds_posix(&self, file: FileId, owner: Owner) -> bool {
        let held = |state: &State| state.locks().is_some_and(|locks| locks.holds(LockOwner::Posix(owner)));
        self.inner.find(file).is_some_and(|file| file.look(held))
    }

    /// Unlocks whatever a POSIX owner holds of a range (RFC 8881 18.12).
    pub fn unlock_posix(&self, file: FileId, owner: Owner, range: LockRange) -> Result<(), LockError> {
        let unlock =
            |state: &mut State, cx: &mut Context<'_>| state.locks_mut().unlock_posix(owner, range, cx.limits, cx.out);
        self.inner.change(Instant::default(), file, unlock).unwrap_or(Ok(()))
    }

    /// Drops all a POSIX owner holds and waits for on a file.
    pub fn release_posix(&self, file: FileId, owner: Owner) {
        self.inner.change(Instant::default(), file, |state, cx| {
            state.locks_mut().release(LockOwner::Posix(owner), cx.limits, cx.out);
        });
    }

    /// What would block a POSIX owner's lock (RFC 8881 18.11, LOCKT).
    #[must_use]
    pub fn test_posix(&self, file: FileId, owner: Owner, range: LockRange) -> Option<LockConflict> {
        self.inner.find(file)?.look(|state| state.locks()?.lock_conflict(LockOwner::Posix(owner), range))
    }

    /// Counts everything.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        for shard in &self.inner.shards {
            let files: Vec<_> = shard.lock().files.iter().map(|entry| Arc::clone(&entry.0)).collect();
            stats.files += files.len();
            for file in files {
                file.look(|state| {
                    stats.opens += state.opens() as usize;
                    stats.locks += state.locks().map_or(0, |locks| locks.held());
                    stats.holders += state.grants().map_or(0, |grants| grants.holders());
                });
            }
        }
        stats
    }
}

impl Inner {
    /// Runs `act` on a file's state, making the entry if there is none and dropping it if no claim comes of it.
    fn enter<R>(
        &self,
        now: Instant,
        id: FileId,
        act: impl FnOnce(&mut State, &mut Context<'_>) -> R,
    ) -> (Arc<File>, R) {
        let mut act = Some(act);
        loop {
            let file = self.find_or_make(id);
            if let Some(result) = self.act_on(now, &file, &mut act) {
                return (file, result);
            }
        }
    }

    /// Runs `act` on a file's state, if the file has any claim.
    fn change<R>(&self, now: Instant, id: FileId, act: impl FnOnce(&mut State, &mut Context<'_>) -> R) -> Option<R> {
        let mut act = Some(act);
        loop {
            let file = self.find(id)?;
            if let Some(result) = self.act_on(now, &file, &mut act) {
                return Some(result);
            }
        }
    }

    fn act_on<R, F>(&self, now: Instant, file: &File, act: &mut Option<F>) -> Option<R>
    where
        F: FnOnce(&mut State, &mut Context<'_>) -> R,
    {
        self.act(now, file, |state, cx| if state.retired { None } else { act.take().map(|act| act(state, cx)) })
    }

    /// Runs `act` on a file's state and sees to what comes of it. For a caller with a claim on the file, which
    /// therefore is in the table.
    pub(crate) fn act<R>(&self, now: Instant, file: &File, act: impl FnOnce(&mut State, &mut Context<'_>) -> R) -> R {
        let mut out = Out::default();
        let (result, idle) = file.update(|state| {
            let recall_deadline_ms =
                self.delegations.get().map_or(self.limits.break_deadline_ms, |served| served.recall_deadline_ms);
            let mut cx = Context {
                now,
                file: file.id,
                limits: &self.limits,
                recall_deadline_ms,
                tickets: &self.tickets,
                out: &mut out,
            };
            act(state, &mut cx)
        });
        if idle {
            self.retire(file);
        }
        self.hand_on(file.id, out);
        result
    }

    fn shard(&self, id: &FileId) -> &Mutex<Shard> {
        let mixed =
            (id.ino ^ id.dev.rotate_left(32) ^ id.generation.rotate_left(16)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 32) as usize % SHARDS]
    }

    fn find(&self, id: FileId) -> Option<Arc<File>> {
        self.shard(&id).lock().files.get(&id).map(|entry| Arc::clone(&entry.0))
    }

    fn find_or_make(&self, id: FileId) -> Arc<File> {
        let mut shard = self.shard(&id).lock();
        match shard.files.get(&id) {
            Some(entry) => Arc::clone(&entry.0),
            None => shard.make(id),
        }
    }

    /// Drops the entry of a file that has no claim left, unless one came meanwhile.
    fn retire(&self, file: &File) {
        let mut shard = self.shard(&file.id).lock();
        let (retired, _) = file.update(|state| {
            let now = state.is_idle() && !state.retired;
            state.retired |= now;
            now
        });
        if !retired {
            return;
        }
        let gone = shard.files.take(&file.id);
        shard.spare = gone.map(|entry| entry.0);
        if shard.files.capacity() > 64 && shard.files.len() < shard.files.capacity() / 8 {
            let roomy = shard.files.len() * 2;
            shard.files.shrink_to(roomy);
        }
    }

    fn hand_on(&self, file: FileId, out: Out) {
        if !out.timers.is_empty() {
            let mut deadlines = self.deadlines.lock();
            for timer in out.timers {
                let entry = (timer.when, file, timer.holder);
                if timer.set {
                    deadlines.insert(entry)
                } else {
                    deadlines.remove(&entry)
                };
            }
        }
        let delegations = self.delegations.get().map(|served| &served.sink);
        for effect in out.posix {
            if let Some(sink) = delegations.or(self.sink.as_ref()) {
                sink.effect(effect);
            }
        }
        for effect in out.effects {
            let holder = match &effect {
                Effect::Break { holder, .. } | Effect::Revoked { holder, .. } => Some(holder),
                _ => None,
            };
            match (holder, delegations, &self.sink) {
                (Some(HolderKey::Client(_)), Some(sink), _) => sink.effect(effect),
                (_, _, Some(sink)) => sink.effect(effect),
                _ => {}
            }
        }
    }

    /// A deletion that was promised falls to an open that is only dropped.
    pub(crate) fn orphaned(&self, deletion: Deletion) {
        if let Some(sink) = &self.sink {
            sink.orphaned(deletion);
        }
    }

    /// Whether somebody who gives way did.
    pub(crate) fn give_way(&self, file: FileId) -> bool {
        self.delegations.get().is_some_and(|served| served.way.give_way(file))
    }

    fn overdue(&self, now: Instant) -> Option<(Instant, FileId, HolderKey)> {
        let mut deadlines = self.deadlines.lock();
        if deadlines.first()?.0 > now { None } else { deadlines.pop_first() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessKinds, ShareKinds};

    #[test]
    fn an_entry_found_too_late_is_not_acted_on() {
        let table = Table::new();
        let id = FileId { dev: 1, ino: 2, generation: 3 };
        let request = OpenRequest::new(id, AccessKinds::READ, ShareKinds::all());
        let opened = table.open(Instant(0), &request).expect("let in").done().expect("not waiting");
        let found = table.inner.find(id).expect("in the table");
        drop(opened);
        assert!(table.inner.find(id).is_none());
        let late =
            table.inner.act_on(Instant(0), &found, &mut Some(|state: &mut State, _: &mut Context<'_>| state.opens()));
        assert_eq!(late, None);
    }
}
