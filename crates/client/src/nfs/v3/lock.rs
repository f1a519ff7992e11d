//! The ranges one open has locked, by the lock manager in `lockd`. Every lock and unlock is done in a task of its own, so
//! that a caller who gives up leaves no lock behind that nobody unlocks; who waits asks again and again.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs_wire::nlm::{self, NlmStat};

use super::super::Fh;
use super::super::pace::Pace;
use super::super::ranges::{Granted, Keeper, Piece, Ranges, Turns};
use super::super::v4::{in_task, locked};
use super::lockd::{About, Lockd};
use crate::error::ErrorKind;
use crate::nfs::NfsStatus;
use crate::smb::Failure;

/// How long a server may take only claims of what was held before its restart; 45 and 90 seconds are usual.
const MOST_GRACE: Duration = Duration::from_secs(180);

/// The locks of an open.
#[derive(Debug)]
pub(crate) struct Owner {
    lockd: Arc<Lockd>,
    fh: Fh,
    pub(super) svid: i32,
    state: Mutex<State>,
    /// Held by who asks the server: one at a time.
    asking: tokio::sync::Mutex<()>,
    turns: Turns,
}

#[derive(Debug, Default)]
struct State {
    held: Ranges,
    /// The server may know the owner.
    has_asked: bool,
    is_closed: bool,
    /// A lock could not be had again.
    is_lost: bool,
}

impl Piece {
    /// X/Open C702 10.2: a length of 0 reaches to the end of any file.
    pub(super) fn nlm_range(&self) -> nlm::Range {
        let Range { start, end } = self.range;
        let len_bytes = if end == u64::MAX { 0 } else { end.saturating_sub(start) };
        nlm::Range { offset_bytes: start, len_bytes }
    }
}

fn is(error: &ErrorKind, stat: NlmStat) -> bool {
    *error == ErrorKind::Nfs(NfsStatus::Lock(stat))
}

impl Owner {
    pub(super) fn new(lockd: &Arc<Lockd>, fh: &Fh, svid: i32) -> Self {
        Self {
            lockd: Arc::clone(lockd),
            fh: fh.clone(),
            svid,
            state: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            turns: Turns::default(),
        }
    }

    /// Locks a range; with `wait` it tries for as long as it takes.
    pub async fn lock(self: &Arc<Self>, range: Range<u64>, exclusive: bool, wait: bool) -> Result<(), ErrorKind> {
        if range.is_empty() {
            return Err(ErrorKind::Input("an empty range cannot be locked"));
        }
        let piece = Piece { range, exclusive: Some(exclusive) };
        let mut waiting = Pace::new(Duration::MAX);
        loop {
            let (owner, piece) = (Arc::clone(self), piece.clone());
            match in_task(async move { owner.lock_here(piece).await }).await {
                Ok(granted) => {
                    granted.keep();
                    return Ok(());
                }
                Err(error) if wait && (is(&error, NlmStat::Denied) || is(&error, NlmStat::DeniedGracePeriod)) => {
                    waiting.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn lock_here(self: Arc<Self>, piece: Piece) -> Result<Granted<Self>, ErrorKind> {
        let turn = self.turns.next().await;
        self.usable()?;
        let before = locked(&self.state).held.within(&piece.range);
        match self.put(&piece).await {
            Ok(()) => Ok(Granted::new(self, before, turn)),
            Err(error) => {
                let is_unknown = is(&error, NlmStat::Blocked) || matches!(error, ErrorKind::Connection(_));
                // What may have been done, or may come to be done yet, is put back.
                drop(is_unknown.then(|| Granted::new(self, before, turn)));
                Err(if is(&error, NlmStat::Blocked) { NlmStat::Denied.into() } else { error })
            }
        }
    }

    /// Gives back a range.
    pub async fn unlock(self: &Arc<Self>, range: Range<u64>) -> Result<(), ErrorKind> {
        let (owner, piece) = (Arc::clone(self), Piece { range, exclusive: None });
        in_task(async move {
            let _turn = owner.turns.next().await;
            owner.usable()?;
            if locked(&owner.state).has_asked { owner.put(&piece).await } else { Ok(()) }
        })
        .await
    }

    /// A file one of whose locks was lost to another is of no more use.
    pub fn usable(&self) -> Result<(), ErrorKind> {
        if locked(&self.state).is_lost { Err(Failure::FileLost.into()) } else { Ok(()) }
    }

    /// Gives back whatever there is, and what may be.
    pub async fn close(&self) -> Result<(), ErrorKind> {
        let _turn = self.turns.next().await;
        let has_asked = {
            let mut state = locked(&self.state);
            state.is_closed = true;
            state.has_asked
        };
        let all = Piece { range: 0..u64::MAX, exclusive: None };
        let closed = if has_asked { self.put(&all).await } else { Ok(()) };
        self.lockd.forget(self.svid);
        closed
    }

    pub(super) fn holds_something(&self) -> bool {
        let state = locked(&self.state);
        !state.held.is_empty() && !state.is_lost
    }

    /// Has a range locked, or unlocked, as the piece says. A server in its grace period is asked again.
    async fn put(&self, piece: &Piece) -> Result<(), ErrorKind> {
        let _only_one = self.asking.lock().await;
        if piece.exclusive.is_some() && locked(&self.state).is_closed {
            return Err(Failure::Ended.into());
        }
        locked(&self.state).has_asked = true;
        let mut pace = Pace::new(self.lockd.timeout());
        loop {
            match self.ask(piece).await? {
                NlmStat::Granted => {
                    locked(&self.state).held.set(piece);
                    return Ok(());
                }
                NlmStat::DeniedGracePeriod if pace.wait().await => {}
                NlmStat::Blocked => {
                    self.lockd.cancel(&self.about(piece)).await?;
                    return Err(NlmStat::Blocked.into());
                }
                stat => return Err(stat.into()),
            }
        }
    }

    async fn ask(&self, piece: &Piece) -> Result<NlmStat, ErrorKind> {
        match piece.exclusive {
            Some(_) => self.lockd.lock(&self.about(piece), false).await,
            None => self.lockd.unlock(&self.about(piece)).await,
        }
    }

    fn about<'a>(&'a self, piece: &'a Piece) -> About<'a> {
        About { fh: &self.fh, svid: self.svid, piece }
    }

    /// Claims all it holds from a server that may have forgotten it. An error: it could not be asked.
    pub(super) async fn have_again(&self) -> Result<(), ErrorKind> {
        let _only_one = self.asking.lock().await;
        let held = locked(&self.state).held.pieces();
        for piece in held {
            if self.claim(&piece).await? != NlmStat::Granted {
                // Somebody else may have it, and have written there.
                locked(&self.state).is_lost = true;
                break;
            }
        }
        Ok(())
    }

    /// As held before the restart, where the server has a time for that; else as anybody would.
    async fn claim(&self, piece: &Piece) -> Result<NlmStat, ErrorKind> {
        let mut pace = Pace::new(MOST_GRACE);
        loop {
            let about = self.about(piece);
            if self.lockd.lock(&about, true).await? == NlmStat::Granted {
                return Ok(NlmStat::Granted);
            }
            let stat = self.lockd.lock(&about, false).await?;
            if stat != NlmStat::DeniedGracePeriod || !pace.wait().await {
                return Ok(stat);
            }
        }
    }
}

impl Keeper for Owner {
    async fn put_back(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            // When it is closed all is given back, whatever becomes of this.
            let _ = self.put(&piece).await;
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.lockd.forget(self.svid);
    }
}
