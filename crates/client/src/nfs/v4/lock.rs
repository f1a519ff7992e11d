//! Byte ranges (RFC 8881 18.10, 18.12). An open has one lock owner, which is named when it locks first. Who waits for a
//! lock asks again and again: nothing calls back.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use nfs_wire::nfs4::{
    ExistLockOwner, LockArgs, LockType, Locker, LockuArgs, NfsStat4, Op, OpResult, OpenToLockOwner, StateOwner, Stateid,
};
use nfs_wire::xdr::Bounded;

use super::opens::{Held, in_task};
use super::owner::Owner;
use super::{Effect, Ops, Verdict, locked};
use crate::error::ErrorKind;
use crate::nfs::pace::Pace;
use crate::nfs::ranges::{Granted, Keeper, Piece, Ranges};

/// The locks of an open.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// The lock owner's, once it has locked.
    pub stateid: Option<Stateid>,
    /// 4.0: of its next request.
    seqid: u32,
    /// Tells the owner from the one it was before the server forgot it.
    age: u32,
    held: Ranges,
}

impl Piece {
    fn len_bytes(&self) -> u64 {
        // RFC 8881 18.10.3: all ones reach to the end of any file.
        if self.range.end == u64::MAX { u64::MAX } else { self.range.end.saturating_sub(self.range.start) }
    }

    fn kind(&self) -> LockType {
        if self.exclusive == Some(false) { LockType::Read } else { LockType::Write }
    }
}

impl Held {
    /// Locks a range; with `wait` it tries for as long as it takes.
    pub async fn lock(self: &Arc<Self>, range: Range<u64>, exclusive: bool, wait: bool) -> Result<(), ErrorKind> {
        if range.is_empty() {
            return Err(ErrorKind::Input("an empty range cannot be locked"));
        }
        let piece = Piece { range, exclusive: Some(exclusive) };
        let mut waiting = Pace::new(Duration::MAX);
        loop {
            let (held, piece) = (Arc::clone(self), piece.clone());
            match in_task(async move { held.lock_here(piece).await }).await {
                Ok(granted) => {
                    granted.keep();
                    return Ok(());
                }
                Err(ErrorKind::Nfs(status)) if wait && status == NfsStat4::DENIED.into() => {
                    waiting.wait().await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn lock_here(self: Arc<Self>, piece: Piece) -> Result<Granted<Self>, ErrorKind> {
        let turn = self.turns.next().await;
        let before = locked(&self.state).locks.held.within(&piece.range);
        self.put(&piece).await?;
        Ok(Granted::new(self, before, turn))
    }

    /// Has a range locked, or unlocked, as the piece says.
    async fn put(&self, piece: &Piece) -> Result<(), ErrorKind> {
        let mut pace = Pace::new(self.four.lines.timeout);
        loop {
            self.usable()?;
            let (generation, before) = (self.four.generation(), self.stateid());
            let tried = {
                let mut owner = self.owner.lock().await;
                self.try_put(&mut owner, piece).await?
            };
            match tried {
                Ok(()) => return Ok(()),
                Err(Verdict::Again(NfsStat4::DENIED)) => return Err(NfsStat4::DENIED.into()),
                Err(Verdict::Lost(status)) if !pace.wait().await => return Err(status.into()),
                Err(Verdict::Lost(_)) => self.had_again(before).await?,
                Err(verdict) => self.four.after(verdict, generation, &mut pace).await?,
            }
        }
    }

    /// The list is of what the server has when the owner is let go of.
    async fn try_put(&self, owner: &mut Owner, piece: &Piece) -> Result<Result<(), Verdict>, ErrorKind> {
        let tried = match piece.exclusive {
            // What is closed is locked by nobody any more.
            Some(_) if self.is_closed() => return Err(NfsStat4::BAD_STATEID.into()),
            Some(_) => self.try_lock(owner, piece, false).await?,
            None => self.try_unlock(owner, piece).await?,
        };
        if tried.is_ok() {
            locked(&self.state).locks.held.set(piece);
        }
        Ok(tried)
    }

    async fn try_lock(&self, owner: &mut Owner, lock: &Piece, reclaim: bool) -> Result<Result<(), Verdict>, ErrorKind> {
        let (open_stateid, lock_stateid, lock_seqid, age) = {
            let state = locked(&self.state);
            (self.newest(state.stateid), state.locks.stateid, state.locks.seqid, state.locks.age)
        };
        let name = lock_owner_name(self.number, age);
        let args = |open_seqid| LockArgs {
            lock_type: lock.kind(),
            reclaim,
            offset_bytes: lock.range.start,
            len_bytes: lock.len_bytes(),
            locker: match lock_stateid {
                Some(stateid) => Locker::Existing(ExistLockOwner { lock_stateid: self.newest(stateid), lock_seqid }),
                None => Locker::New(OpenToLockOwner {
                    open_seqid,
                    open_stateid,
                    lock_seqid,
                    owner: StateOwner { client_id: self.four.client_id(), owner: Bounded(&name) },
                }),
            },
        };
        let before = owner.seqid;
        let build = |ops: &mut Ops<'_>, seqid| {
            ops.at(&self.fh).op(&Op::Lock(args(seqid)));
        };
        let (answer, verdict) = self.four.sequenced(owner, Effect::Repeatable, build).await?;
        self.counted(owner, before, lock_stateid.is_some());
        if verdict != Verdict::Done {
            return Ok(Err(verdict));
        }
        let mut walk = answer.walk()?;
        let OpResult::Lock(result) = walk.pass(1)?.next()? else {
            return Err(ErrorKind::Nonsense("the results are not those of the operations"));
        };
        match result {
            Ok(stateid) => {
                locked(&self.state).locks.stateid = Some(stateid);
                Ok(Ok(()))
            }
            Err(error) if error.status() == NfsStat4::DENIED => Ok(Err(Verdict::Again(NfsStat4::DENIED))),
            Err(error) => Err(error.status().into()),
        }
    }

    /// A request of the lock owner is counted by it, and by the open owner only where that one took part.
    fn counted(&self, owner: &mut Owner, before: u32, by_lock_owner: bool) {
        if owner.seqid == before {
            return;
        }
        let mut state = locked(&self.state);
        state.locks.seqid = state.locks.seqid.wrapping_add(1);
        if by_lock_owner {
            owner.seqid = before;
        }
    }

    /// Unlocks a range.
    pub async fn unlock(self: &Arc<Self>, range: Range<u64>) -> Result<(), ErrorKind> {
        let (held, piece) = (Arc::clone(self), Piece { range, exclusive: None });
        in_task(async move {
            let _turn = held.turns.next().await;
            held.put(&piece).await
        })
        .await
    }

    async fn try_unlock(&self, owner: &mut Owner, lock: &Piece) -> Result<Result<(), Verdict>, ErrorKind> {
        let (stateid, lock_seqid) = {
            let locks = &locked(&self.state).locks;
            (locks.stateid, locks.seqid)
        };
        // Who never locked has nothing to unlock.
        let Some(stateid) = stateid else { return Ok(Ok(())) };
        let args = LockuArgs {
            lock_type: lock.kind(),
            seqid: lock_seqid,
            stateid: self.newest(stateid),
            offset_bytes: lock.range.start,
            len_bytes: lock.len_bytes(),
        };
        let before = owner.seqid;
        let build = |ops: &mut Ops<'_>, _| {
            ops.at(&self.fh).op(&Op::Locku(args));
        };
        let (answer, verdict) = self.four.sequenced(owner, Effect::Repeatable, build).await?;
        self.counted(owner, before, true);
        if verdict != Verdict::Done {
            return Ok(Err(verdict));
        }
        let stateid = super::compound::result_of!(answer.walk()?.pass(1)?, Locku)?;
        locked(&self.state).locks.stateid = Some(stateid);
        Ok(Ok(()))
    }

    /// Before CLOSE, which a server may refuse while locks are held (RFC 8881 18.2.3).
    pub(super) async fn unlock_all(&self, owner: &mut Owner) {
        let held = locked(&self.state).locks.held.pieces();
        for lock in held {
            // CLOSE will say what it thinks of those that stay.
            let _ = self.try_put(owner, &Piece { exclusive: None, ..lock }).await;
        }
    }

    /// The locks of an open that was had again.
    pub(super) async fn lock_again(&self, owner: &mut Owner, reclaim: bool) -> Result<(), ErrorKind> {
        let held = {
            let locks = &mut locked(&self.state).locks;
            locks.stateid = None;
            locks.seqid = 0;
            locks.age += 1;
            locks.held.pieces()
        };
        for lock in held {
            if self.try_lock(owner, &lock, reclaim).await?.is_err() {
                // Somebody else may have it, and have written there: nothing more is done under its name.
                return Err(NfsStat4::EXPIRED.into());
            }
        }
        Ok(())
    }
}

impl Keeper for Held {
    async fn put_back(&self, pieces: Vec<Piece>) {
        for piece in pieces {
            // CLOSE gives back all, whatever becomes of this.
            let _ = self.put(&piece).await;
        }
    }
}

/// One name for each open and each time the server forgot it: 4.0 counts by it.
fn lock_owner_name(number: u64, age: u32) -> [u8; 12] {
    let mut name = [0; 12];
    let (open, tail) = name.split_at_mut(8);
    open.copy_from_slice(&number.to_be_bytes());
    tail.copy_from_slice(&age.to_be_bytes());
    name
}
