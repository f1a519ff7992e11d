//! An open file of an NFS server. Files, streams and listings use it; it is closed exactly once, by [`Open::close`] or when
//! the last user is dropped. What is written is kept until the server has it on stable storage.

use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use nfs_wire::nfs4::Stateid;
use nfs_wire::{NfsStat3, NfsStat4};

use super::attr::Wanted;
use super::dirty::{Dirty, Number};
use super::pace::Pace;
use super::rpc::driver::Pending;
use super::rpc::{Request, Response};
use super::share::{Share, Way};
use super::v4::{Effect, Held, Span, Verdict, in_task, locked};
use super::{Fh, Lines, v3, v4};
use crate::error::ErrorKind;
use crate::stat::{Stat, Times};
use crate::stream::Part;

/// Bytes of one file that are kept for a server that restarts before they are committed; at most twice as many.
const COMMIT_BYTES: u64 = 32 << 20;
/// How often a server may say that it lost what it was sent.
const MOST_COMMITS: u32 = 8;
/// How often in a row it may write nothing.
const MOST_IDLE_WRITES: u32 = 3;

/// An open file.
#[derive(Debug)]
pub(crate) struct Open(Arc<Core>);

/// The part that requests under way share.
#[derive(Debug)]
pub(crate) struct Core {
    pub share: Arc<Share>,
    fh: Fh,
    pub stat_at_open: Stat,
    /// Version 4: what the server knows it by.
    held: Option<Arc<Held>>,
    /// Version 3: what it has locked, once it has locked something.
    locks: OnceLock<Arc<v3::lock::Owner>>,
    dirty: Mutex<Dirty>,
    committing: tokio::sync::Mutex<()>,
    /// What came of a COMMIT that nobody waited for; whoever commits next is told.
    failed: Mutex<Option<ErrorKind>>,
    is_closed: AtomicBool,
}

/// What a WRITE did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub count_bytes: u32,
    /// It is on stable storage already.
    pub is_safe: bool,
    pub verifier: [u8; 8],
}

type Work<T> = Pin<Box<dyn Future<Output = Result<T, ErrorKind>> + Send>>;

/// A READ under way.
pub(crate) struct Reading(Work<Option<Part>>);

/// A WRITE under way.
pub(crate) struct Writing(Work<()>);

impl Reading {
    /// What it brought; `None` at the end of the file. Nothing is lost when this is given up before it is done.
    pub async fn answer(&mut self) -> Result<Option<Part>, ErrorKind> {
        self.0.as_mut().await
    }
}

impl Writing {
    /// Whether all is written. Nothing is lost when this is given up before it is done.
    pub async fn answer(&mut self) -> Result<(), ErrorKind> {
        self.0.as_mut().await
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reading")
    }
}

impl std::fmt::Debug for Writing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writing")
    }
}

/// A request that was sent, and what it was sent under.
struct Sent {
    /// Nothing is sent for an open that is lost.
    pending: Result<Pending, ErrorKind>,
    stateid: Stateid,
    generation: u64,
}

impl Open {
    pub(super) fn new(share: &Arc<Share>, fh: Fh, stat_at_open: Stat, held: Option<Arc<Held>>) -> Self {
        Self(Arc::new(Core {
            share: Arc::clone(share),
            fh,
            stat_at_open,
            held,
            locks: OnceLock::new(),
            dirty: Mutex::default(),
            committing: tokio::sync::Mutex::default(),
            failed: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }))
    }
}

impl std::ops::Deref for Open {
    type Target = Arc<Core>;

    fn deref(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Core {
    /// The most one READ brings.
    pub fn read_bytes(&self) -> u32 {
        match &self.share.way {
            Way::Three(three, _) => three.read_bytes(),
            Way::Four(four, _) => four.read_bytes(),
        }
    }

    /// The most one WRITE carries.
    pub fn write_bytes(&self) -> u32 {
        match &self.share.way {
            Way::Three(three, _) => three.write_bytes(),
            Way::Four(four, _) => four.write_bytes(),
        }
    }

    pub async fn stat(&self) -> Result<Stat, ErrorKind> {
        match &self.share.way {
            Way::Three(three, _) => three.getattr(&self.fh).await,
            Way::Four(four, _) => four.getattr(&self.fh).await,
        }
    }

    /// What was written before is brought to stable storage first: written again later it would undo this.
    pub async fn set_len(self: &Arc<Self>, len_bytes: u64) -> Result<(), ErrorKind> {
        self.sync().await?;
        self.set(&Wanted::len(len_bytes)).await
    }

    pub async fn set_times(self: &Arc<Self>, times: &Times) -> Result<(), ErrorKind> {
        // A COMMIT that writes something again would set them anew.
        self.sync().await?;
        self.set(&Wanted::times(times)).await
    }

    pub async fn set(&self, wanted: &Wanted) -> Result<(), ErrorKind> {
        let (four, held) = match (&self.share.way, &self.held) {
            (Way::Three(three, _), _) => return three.setattr(&self.fh, wanted).await,
            (Way::Four(four, root), None) => return four.setattr(root, Stateid::ANONYMOUS, wanted).await.map(drop),
            (Way::Four(four, _), Some(held)) => (four, held),
        };
        let mut pace = Pace::new(four.lines.timeout);
        loop {
            held.usable()?;
            let stateid = held.stateid();
            match four.setattr(&self.fh, stateid, wanted).await? {
                Verdict::Lost(status) if !pace.wait().await => return Err(status.into()),
                Verdict::Lost(_) => held.had_again(stateid).await?,
                _ => return Ok(()),
            }
        }
    }

    /// Locks a range of the file.
    pub async fn lock(&self, range: Range<u64>, exclusive: bool, wait: bool) -> Result<(), ErrorKind> {
        match (&self.held, &self.share.way) {
            (Some(held), _) => held.lock(range, exclusive, wait).await,
            (None, Way::Three(three, _)) => {
                let owner = self.locks.get_or_init(|| three.lockd.owner(&self.fh));
                owner.lock(range, exclusive, wait).await
            }
            (None, Way::Four(..)) => Err(NfsStat4::OPENMODE.into()),
        }
    }

    pub async fn unlock(&self, range: Range<u64>) -> Result<(), ErrorKind> {
        match (&self.held, self.locks.get()) {
            (Some(held), _) => held.unlock(range).await,
            (None, Some(owner)) => owner.unlock(range).await,
            // Who never locked has nothing to unlock.
            (None, None) => Ok(()),
        }
    }

    /// An open is of no more use that could not be had again with all that was held through it.
    fn usable(&self) -> Result<(), ErrorKind> {
        self.held.as_ref().map_or(Ok(()), |held| held.usable())?;
        self.locks.get().map_or(Ok(()), |owner| owner.usable())
    }

    /// Whether the server may know how to copy.
    pub fn can_be_copied(&self) -> Result<(), ErrorKind> {
        match &self.share.way {
            Way::Three(..) => Err(NfsStat3::NOTSUPP.into()),
            Way::Four(four, _) if four.no_copy.load(Relaxed) && four.no_clone.load(Relaxed) => {
                Err(NfsStat4::NOTSUPP.into())
            }
            Way::Four(..) => Ok(()),
        }
    }

    /// Copies at the server, which only version 4.2 can: elsewhere the data would have to come here and go back, which
    /// the caller can have done knowingly.
    pub async fn copy_range(&self, from: u64, target: &Self, to: u64, len_bytes: u64) -> Result<(), ErrorKind> {
        self.can_be_copied()?;
        self.copy_span(target, Span { from_bytes: from, to_bytes: to, len_bytes }).await
    }

    async fn copy_span(&self, target: &Self, span: Span) -> Result<(), ErrorKind> {
        let (Way::Four(four, _), Some(from), Some(to)) = (&self.share.way, &self.held, &target.held) else {
            return Err(NfsStat3::NOTSUPP.into());
        };
        if span.len_bytes == 0 {
            return Ok(());
        }
        if four.clone_range(from, to, span).await? {
            return Ok(());
        }
        for _ in 0..MOST_COMMITS {
            if self.copy_once(target, span).await? {
                return Ok(());
            }
        }
        Err(ErrorKind::Nonsense("it loses again and again what it copied"))
    }

    /// Copies all of a span; false when the server restarted before it was safe.
    async fn copy_once(&self, target: &Self, mut span: Span) -> Result<bool, ErrorKind> {
        let (Way::Four(four, _), Some(from), Some(to)) = (&self.share.way, &self.held, &target.held) else {
            return Err(NfsStat4::NOTSUPP.into());
        };
        let mut verifiers = Vec::new();
        while span.len_bytes > 0 {
            let (count_bytes, verifier) = four.copy_range(from, to, span).await?;
            if count_bytes == 0 {
                return Err(ErrorKind::Nonsense("it copies nothing, and calls that a success"));
            }
            verifiers.extend(verifier);
            verifiers.dedup();
            span.from_bytes += count_bytes;
            span.to_bytes += count_bytes;
            span.len_bytes -= count_bytes;
        }
        if verifiers.is_empty() {
            return Ok(true);
        }
        let committed = target.send_commit().await?;
        Ok(verifiers.iter().all(|verifier| *verifier == committed))
    }

    /// Has the server bring what was written to stable storage, and writes again what it lost. What is written meanwhile
    /// is for the next.
    pub async fn sync(self: &Arc<Self>) -> Result<(), ErrorKind> {
        let open = Arc::clone(self);
        in_task(async move { open.sync_here().await }).await
    }

    async fn sync_here(&self) -> Result<(), ErrorKind> {
        let _only_one = self.committing.lock().await;
        let synced = self.commit_all().await;
        locked(&self.failed).take().map_or(synced, Err)
    }

    /// By one at a time, and in a task of its own: what is written again and not waited for would come at any time.
    async fn commit_all(&self) -> Result<(), ErrorKind> {
        let committed = self.commit_until_safe().await;
        locked(&self.dirty).replayed();
        committed
    }

    async fn commit_until_safe(&self) -> Result<(), ErrorKind> {
        let mut numbers = locked(&self.dirty).before_commit();
        for _ in 0..MOST_COMMITS {
            if numbers.is_empty() {
                return Ok(());
            }
            let verifier = self.send_commit().await?;
            let again = locked(&self.dirty).committed(&numbers, verifier);
            numbers = again.iter().map(|(number, ..)| *number).collect();
            for (number, offset, data) in again {
                let verifier = self.write_whole(None, offset, data).await?;
                locked(&self.dirty).written(number, verifier);
            }
            locked(&self.dirty).replayed();
        }
        Err(ErrorKind::Nonsense("it loses again and again what it was sent"))
    }

    /// Commits, and closes. It is closed whatever becomes of the first, and when its caller gives up.
    pub async fn close(self: &Arc<Self>) -> Result<(), ErrorKind> {
        if self.is_closed.swap(true, Relaxed) {
            return Ok(());
        }
        let open = Arc::clone(self);
        in_task(async move { open.close_here().await }).await
    }

    async fn close_here(&self) -> Result<(), ErrorKind> {
        let synced = self.sync_here().await;
        let closed = match (&self.held, self.locks.get()) {
            (Some(held), _) => held.close().await,
            (None, Some(owner)) => owner.close().await,
            (None, None) => Ok(()),
        };
        synced.and(closed)
    }

    /// Asks for `len_bytes` at `offset`, at once.
    pub fn send_read(self: &Arc<Self>, offset: u64, len_bytes: u32) -> Reading {
        let open = Arc::clone(self);
        let make = move |open: &Self, stateid| match &open.share.way {
            Way::Three(three, _) => three.read(&open.fh, offset, len_bytes),
            Way::Four(four, _) => four.read(&open.fh, stateid, offset, len_bytes),
        };
        let sent = open.send(&make);
        Reading(Box::pin(async move {
            let response = open.finish(sent, make).await?;
            let (part, eof) = match &open.share.way {
                Way::Three(..) => v3::was_read(response)?,
                Way::Four(..) => v4::was_read(response)?,
            };
            match part.range.len() {
                count if count > len_bytes as usize => Err(ErrorKind::Nonsense("more data than were asked for")),
                // It would be asked for the rest for ever.
                0 if !eof && len_bytes > 0 => Err(ErrorKind::Nonsense("no data, and yet not the end of the file")),
                0 => Ok(None),
                _ => Ok(Some(part)),
            }
        }))
    }

    /// Sends `data` to be written at `offset`, at once.
    pub fn send_write(self: &Arc<Self>, offset: u64, data: &[u8]) -> Writing {
        self.send_write_shared(offset, self.lines().next().copy(data))
    }

    /// The same of data that need not be copied.
    pub fn send_write_shared(self: &Arc<Self>, offset: u64, data: Bytes) -> Writing {
        let (number, must_wait) = {
            let mut dirty = locked(&self.dirty);
            (dirty.sent(offset, data.clone()), dirty.is_replaying())
        };
        let kept = Kept { open: Arc::clone(self), number, is_written: false };
        let sent = (!must_wait).then(|| self.send(&write_at(offset, data.clone())));
        Writing(Box::pin(kept.write(sent, offset, data)))
    }

    fn stateid(&self) -> Stateid {
        self.held.as_ref().map_or(Stateid::ANONYMOUS, |held| held.stateid())
    }

    fn send(&self, make: &impl Fn(&Self, Stateid) -> Request) -> Sent {
        let stateid = self.stateid();
        let generation = match &self.share.way {
            Way::Three(..) => 0,
            Way::Four(four, _) => four.generation(),
        };
        Sent { pending: self.usable().map(|()| self.lines().next().send(make(self, stateid))), stateid, generation }
    }

    fn lines(&self) -> &Lines {
        match &self.share.way {
            Way::Three(three, _) => &three.lines,
            Way::Four(four, _) => &four.lines,
        }
    }

    /// The answer to what was sent; it is sent again while that can help.
    async fn finish(&self, mut sent: Sent, make: impl Fn(&Self, Stateid) -> Request) -> Result<Response, ErrorKind> {
        let mut pace = None;
        loop {
            let answer = sent.pending?.answer().await;
            let (response, verdict, timeout) = match &self.share.way {
                Way::Three(three, _) => {
                    let response = answer?;
                    let not_now = v3::status(&response)? == NfsStat3::JUKEBOX;
                    let verdict = if not_now { Verdict::Again(NfsStat4::DELAY) } else { Verdict::Done };
                    (response, verdict, three.lines.timeout)
                }
                Way::Four(four, _) => {
                    let response = four.noticed(sent.generation, answer)?;
                    let verdict = four.judge(&response, Effect::None)?;
                    (response, verdict, four.lines.timeout)
                }
            };
            if verdict == Verdict::Done || !pace.get_or_insert_with(|| Pace::new(timeout)).wait().await {
                return Ok(response);
            }
            match (verdict, &self.share.way, &self.held) {
                (Verdict::Forgotten(_), Way::Four(four, _), _) => four.recover(sent.generation).await?,
                (Verdict::Lost(_), _, Some(held)) => held.had_again(sent.stateid).await?,
                _ => {}
            }
            sent = self.send(&make);
        }
    }

    /// A COMMIT goes out beside what is being written; with twice as much to be committed it is waited for.
    async fn keep_bounded(self: &Arc<Self>) -> Result<(), ErrorKind> {
        let dirty_bytes = locked(&self.dirty).written_bytes();
        if dirty_bytes >= 2 * COMMIT_BYTES {
            return self.sync().await;
        }
        if dirty_bytes >= COMMIT_BYTES && self.committing.try_lock().is_ok() {
            let core = Arc::clone(self);
            tokio::spawn(async move {
                let _only_one = core.committing.lock().await;
                if let Err(error) = core.commit_all().await {
                    locked(&core.failed).get_or_insert(error);
                }
            });
        }
        Ok(())
    }

    async fn send_commit(&self) -> Result<[u8; 8], ErrorKind> {
        let make = |open: &Core, _| match &open.share.way {
            Way::Three(three, _) => three.commit(&open.fh),
            Way::Four(four, _) => four.commit(&open.fh),
        };
        let response = self.finish(self.send(&make), make).await?;
        match &self.share.way {
            Way::Three(..) => v3::was_committed(&response),
            Way::Four(..) => v4::was_committed(response),
        }
    }

    /// Writes all of `data`; answers the verifier of the first part that is not safe, if one is not. `sent` is the first
    /// request, where it is under way already.
    async fn write_whole(
        &self,
        mut sent: Option<Sent>,
        mut offset: u64,
        mut data: Bytes,
    ) -> Result<Option<[u8; 8]>, ErrorKind> {
        let mut unsafe_since = None;
        let mut idle = 0;
        while !data.is_empty() {
            let make = write_at(offset, data.clone());
            let sent = sent.take().unwrap_or_else(|| self.send(&make));
            let response = self.finish(sent, make).await?;
            let written = match &self.share.way {
                Way::Three(..) => v3::was_written(&response)?,
                Way::Four(..) => v4::was_written(response)?,
            };
            let count = written.count_bytes as usize;
            if count > data.len() {
                return Err(ErrorKind::Nonsense("it wrote more than it was sent"));
            }
            if !written.is_safe {
                unsafe_since.get_or_insert(written.verifier);
            }
            idle = if count == 0 { idle + 1 } else { 0 };
            if idle > MOST_IDLE_WRITES {
                return Err(ErrorKind::Nonsense("it writes nothing, and calls that a success"));
            }
            offset += u64::from(written.count_bytes);
            data = data.split_off(count);
        }
        Ok(unsafe_since)
    }
}

/// The WRITE of `data` at `offset`.
fn write_at(offset: u64, data: Bytes) -> impl Fn(&Core, Stateid) -> Request + Send {
    move |open, stateid| match &open.share.way {
        Way::Three(three, _) => three.write(&open.fh, offset, data.clone()),
        Way::Four(four, _) => four.write(&open.fh, stateid, offset, data.clone()),
    }
}

/// What is kept of a WRITE while it is under way: nothing, once nobody waits for it any more.
struct Kept {
    open: Arc<Core>,
    number: Number,
    is_written: bool,
}

impl Kept {
    async fn write(mut self, sent: Option<Sent>, offset: u64, data: Bytes) -> Result<(), ErrorKind> {
        if sent.is_none() {
            // Until what was lost has been written again.
            drop(self.open.committing.lock().await);
        }
        let verifier = self.open.write_whole(sent, offset, data).await?;
        locked(&self.open.dirty).written(self.number, verifier);
        self.is_written = true;
        self.open.keep_bounded().await
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.is_written {
            locked(&self.open.dirty).forget(self.number);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_closed.load(Relaxed) {
            return;
        }
        // Nobody waits for the answers.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let core = Arc::clone(&self.0);
            runtime.spawn(async move { core.close().await });
        }
    }
}
