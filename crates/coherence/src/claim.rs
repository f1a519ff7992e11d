//! An open's claim on its file: what a protocol server keeps in its open and asks before each read, write, lock and
//! deletion. [`OpenClaim::close`] is the orderly way to end it. Dropping it gives everything up and asks for no deletion,
//! but what another open was promised is kept: a deletion that falls due goes to the table's sink.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use vfs::FileId;

use crate::file::{Admitted, File, LOCKED};
use crate::table::Inner;
use crate::{
    AccessKinds, Change, Denied, HolderKey, Instant, LockConflict, LockError, LockOutcome, LockOwner, LockRange,
    OpenId, OpenRequest, Opened, Outcome, Owner, RangeNotLocked, ShareKinds,
};

/// What whoever asked for a deletion wants the last closer to know: by which name and under whose identity to delete.
/// The table only keeps it.
pub type DeleteNote = Arc<dyn Any + Send + Sync>;

/// One open of one file. Checks through it are one atomic load while nobody holds byte ranges or grants on the file.
pub struct OpenClaim {
    table: Arc<Inner>,
    file: Arc<File>,
    id: OpenId,
    /// The lease or client the open belongs to, or its own oplock.
    holder: Option<Box<HolderKey>>,
    mode: Mutex<(AccessKinds, ShareKinds)>,
    momentary: bool,
    /// Counted among the grant holders.
    counted: bool,
    /// Which of them, for what is seen without a lock; 0 if none.
    number: u32,
    closed: AtomicBool,
    delete_on_close: AtomicBool,
}

/// What a close means for the file.
#[derive(Debug)]
#[must_use = "whoever gets a deletion is the one to delete the file"]
pub struct Closed {
    /// No open is left.
    pub last: bool,
    /// The file is to be deleted, by the one who holds this and by nobody else.
    pub delete: Option<Deletion>,
}

/// The duty to delete a file whose last open is closed. As long as it is held opens of the file are refused with
/// [`Denied::DeletePending`]; drop it when the deletion is done or has failed.
#[must_use = "delete the file, then drop this"]
pub struct Deletion {
    table: Arc<Inner>,
    file: Arc<File>,
    note: Option<DeleteNote>,
}

impl OpenClaim {
    pub(crate) fn opened(table: Arc<Inner>, file: Arc<File>, request: &OpenRequest, admitted: Admitted) -> Opened {
        let Admitted { id, holder, number, grant } = admitted;
        let counted = holder.is_some();
        let claim = Self {
            table,
            file,
            id,
            holder: holder.or(request.identity.key()).map(Box::new),
            mode: Mutex::new((request.access, request.share)),
            momentary: request.momentary,
            counted,
            number,
            closed: AtomicBool::new(false),
            delete_on_close: AtomicBool::new(request.delete_on_close),
        };
        let breaking = grant.breaking_to.is_some();
        Opened { claim, caching: grant.caching, epoch: grant.epoch, breaking }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file.id
    }

    /// The open's number on its file.
    #[must_use]
    pub fn id(&self) -> OpenId {
        self.id
    }

    /// Under which key the open's caching grant is held, if it has or may have one.
    #[must_use]
    pub fn holder(&self) -> HolderKey {
        self.holder.as_deref().copied().unwrap_or(HolderKey::Open(self.id))
    }

    /// Whether byte ranges let this open read (MS-FSA 2.1.5.3). One atomic load while the file has none.
    pub fn check_read(&self, offset: u64, len: u64) -> Result<(), LockConflict> {
        self.check_io(LockOwner::Open(self.id), LockRange { offset, len, exclusive: false })
    }

    /// Whether byte ranges let this open write (MS-FSA 2.1.5.4). One atomic load while the file has none.
    pub fn check_write(&self, offset: u64, len: u64) -> Result<(), LockConflict> {
        self.check_io(LockOwner::Open(self.id), LockRange { offset, len, exclusive: true })
    }

    /// The same for I/O of a POSIX owner, which the ranges of other POSIX owners do not bind: `exclusive` for a write.
    pub fn check_posix(&self, owner: Owner, range: LockRange) -> Result<(), LockConflict> {
        self.check_io(LockOwner::Posix(owner), range)
    }

    fn check_io(&self, owner: LockOwner, range: LockRange) -> Result<(), LockConflict> {
        if !self.file.flagged(LOCKED) {
            return Ok(());
        }
        let conflict = self.file.look(|state| state.locks()?.io_conflict(owner, range));
        conflict.map_or(Ok(()), Err)
    }

    /// Whether anybody else holds a grant on the file: one atomic load. While not, there is nobody to ask before a change.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.file.granted_to_others(self.number)
    }

    /// Asks before a change through this open; `Done` means go on. One atomic load while nobody else holds a grant on the
    /// file. Needed before writes, size changes and byte-range locks ([`Change::Write`]), renames, links and deletions;
    /// after a write once more, since a reader's grant given meanwhile may cover the old data.
    pub fn prepare(&self, now: Instant, change: Change) -> Result<Outcome<()>, Denied> {
        if !self.is_contended() {
            return Ok(Outcome::Done(()));
        }
        let by = self.holder();
        let ticket = self.table.act(now, &self.file, |state, cx| state.contend(cx, change, Some(&by)))?;
        Ok(ticket.map_or(Outcome::Done(()), Outcome::Wait))
    }

    /// Locks all of `ranges` or none, by Windows rules (MS-FSA 2.1.5.8, MS-SMB2 3.3.5.14.2). With `wait` a request
    /// that cannot be granted stands in line.
    pub fn lock(&self, ranges: &[LockRange], wait: bool) -> Result<LockOutcome, LockError> {
        let lock = |wait: bool| {
            self.table.act(Instant::default(), &self.file, |state, cx| {
                let ticket = wait.then(|| cx.ticket());
                state.locks_mut().lock(LockOwner::Open(self.id), ranges, ticket, cx.limits, cx.out)
            })
        };
        match lock(false) {
            Err(LockError::Conflict(_)) if self.table.give_way(self.file.id) || wait => lock(wait),
            other => other,
        }
    }

    /// The ranges this open has locked, the last one first.
    #[must_use]
    pub fn locks(&self) -> Vec<LockRange> {
        if !self.file.flagged(LOCKED) {
            return Vec::new();
        }
        self.file.look(|state| state.locks().map_or(Vec::new(), |locks| locks.of(LockOwner::Open(self.id))))
    }

    /// Unlocks one range exactly as it was locked (MS-FSA 2.1.5.9, MS-SMB2 3.3.5.14.1).
    pub fn unlock(&self, offset: u64, len: u64) -> Result<(), RangeNotLocked> {
        self.table.act(Instant::default(), &self.file, |state, cx| {
            state.locks_mut().unlock(self.id, offset, len, cx.limits, cx.out)
        })
    }

    /// Sets or clears delete-pending (MS-FSA 2.1.5.15.3). The caller has checked for DELETE access, for the read-only
    /// attribute, for an empty directory, and asked with [`Change::Delete`].
    pub fn set_delete_pending(&self, pending: bool, note: Option<DeleteNote>) {
        self.table.act(Instant::default(), &self.file, |state, _| {
            state.delete_pending = pending;
            state.note = note.filter(|_| pending);
        });
    }

    /// Whether the file goes when its last open closes.
    #[must_use]
    pub fn delete_pending(&self) -> bool {
        self.file.look(|state| state.delete_pending || state.deleting)
    }

    /// Sets or clears delete-on-close of this open (FILE_DISPOSITION_ON_CLOSE, MS-FSCC 2.4.11.2).
    pub fn set_delete_on_close(&self, on: bool) {
        self.delete_on_close.store(on, Ordering::Relaxed);
    }

    /// Whether the file becomes delete-pending when this open closes.
    #[must_use]
    pub fn delete_on_close(&self) -> bool {
        self.delete_on_close.load(Ordering::Relaxed)
    }

    /// Whether the share modes of the *other* opens allow renaming or deleting the file through this one.
    pub fn check_remove(&self) -> Result<(), Denied> {
        let own = (!self.closed.load(Ordering::Relaxed)).then(|| *self.mode.lock());
        if self.file.look(|state| state.keeps_name(own)) { Err(Denied::ShareViolation) } else { Ok(()) }
    }

    /// What the open may do.
    #[must_use]
    pub fn access(&self) -> AccessKinds {
        self.mode.lock().0
    }

    /// What the open lets others do.
    #[must_use]
    pub fn share(&self) -> ShareKinds {
        self.mode.lock().1
    }

    /// Changes what the open may do and lets others do (NFSv4 OPEN of an open file, OPEN_DOWNGRADE). A wider mode asks
    /// with [`Change::Open`] first.
    pub fn reshare(&self, access: AccessKinds, share: ShareKinds) -> Result<(), Denied> {
        let holder = self.counted.then(|| self.holder());
        let mut mode = self.mode.lock();
        if self.is_closed() {
            return Ok(());
        }
        let (before, after) = (*mode, (access, share));
        self.table.act(Instant::default(), &self.file, |state, _| state.reshare(holder.as_ref(), before, after))?;
        *mode = after;
        Ok(())
    }

    /// Closes the open: its ranges are unlocked, its oplock goes, delete-on-close takes effect (MS-FSA 2.1.5.5).
    pub fn close(self) -> Closed {
        self.release(self.delete_on_close(), None)
    }

    /// Closes the open while others may still be looking through it; the first call does it, `None` tells later ones
    /// that it is done. `note` goes with the file's deletion if this open's delete-on-close is what asks for it.
    pub fn close_noting(&self, note: DeleteNote) -> Option<Closed> {
        self.close_once(self.delete_on_close(), Some(note))
    }

    /// The same without a note, for an open that asks for no deletion itself.
    pub fn close_shared(&self) -> Option<Closed> {
        self.close_once(false, None)
    }

    fn close_once(&self, delete: bool, note: Option<DeleteNote>) -> Option<Closed> {
        (!self.closed.swap(true, Ordering::AcqRel)).then(|| self.release(delete, note))
    }

    /// Whether the open is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn release(&self, delete: bool, note: Option<DeleteNote>) -> Closed {
        // A mode that is being changed is changed first.
        let mode = self.mode.lock();
        self.closed.store(true, Ordering::Release);
        let open = (self.id, self.counted.then(|| self.holder()));
        let (mode, momentary) = (*mode, self.momentary);
        let (last, note) = self.table.act(Instant::default(), &self.file, |state, cx| {
            if delete && !state.delete_pending {
                state.delete_pending = true;
                state.note = note;
            }
            state.close(cx, open, mode, momentary);
            let last = state.opens() == 0;
            let delete = last && !momentary && state.delete_pending && !state.deleting;
            state.deleting |= delete;
            (last, delete.then(|| state.note.take()))
        });
        let deletion = |note| Deletion { table: Arc::clone(&self.table), file: Arc::clone(&self.file), note };
        Closed { last, delete: note.map(deletion) }
    }
}

impl Drop for OpenClaim {
    fn drop(&mut self) {
        if self.is_closed() {
            return;
        }
        if let Some(deletion) = self.release(false, None).delete {
            self.table.orphaned(deletion);
        }
    }
}

impl std::fmt::Debug for OpenClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenClaim")
            .field("file", &self.file.id)
            .field("id", &self.id)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Deletion {
    /// The file to delete.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file.id
    }

    /// What whoever asked for the deletion left for its doer.
    #[must_use]
    pub fn note(&self) -> Option<&DeleteNote> {
        self.note.as_ref()
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.table.act(Instant::default(), &self.file, |state, _| {
            state.deleting = false;
            state.delete_pending = false;
        });
    }
}

impl std::fmt::Debug for Deletion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deletion").field("file", &self.file.id).finish_non_exhaustive()
    }
}
