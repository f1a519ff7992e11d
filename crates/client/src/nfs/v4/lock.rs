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
use super::{Ops, Verdict, locked};
use crate::error::ErrorKind;
use crate::nfs::pace::Pace;

/// The locks of an open.
#[derive(Debug, Default)]
pub(super) struct Locks {
    /// The lock owner's, once it has locked.
    pub stateid: Option<Stateid>,
    /// 4.0: of its next request.
    seqid: u32,
    /// Tells the owner from the one it was before the server forgot it.
    age: u32,
    held: Vec<Lock>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lock {
    range: Range<u64>,
    exclusive: bool,
}

impl Lock {
    fn len_bytes(&self) -> u64 {
        // RFC 8881 18.10.3: all ones reach to the end of any file.
        if self.range.end == u64::MAX { u64::MAX } else { self.range.end.saturating_sub(self.range.start) }
    }

    fn kind(&self) -> LockType {
        if self.exclusive { LockType::Write } else { LockType::Read }
    }
}

impl Held {
    /// Locks a range; with `wait` it tries for as long as it takes.
    pub async fn lock(self: &Arc<Self>, range: Range<u64>, exclusive: bool, wait: bool) -> Result<(), ErrorKind> {
        if range.is_empty() {
            return Err(ErrorKind::Input("an empty range cannot be locked"));
        }
        let lock = Lock { range, exclusive };
        let mut waiting = Pace::new(Duration::MAX);
        loop {
            let (held, lock) = (Arc::clone(self), lock.clone());
            match in_task(async move { held.lock_here(&lock).await }).await {
                Err(ErrorKind::Nfs(status)) if wait && status == NfsStat4::DENIED.into() => {
                    waiting.wait().await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn lock_here(&self, lock: &Lock) -> Result<(), ErrorKind> {
        let mut pace = Pace::new(self.four.lines.timeout);
        loop {
            self.usable()?;
            let (generation, before) = (self.four.generation(), self.stateid());
            let tried = {
                let mut owner = self.owner.lock().await;
                self.try_lock(&mut owner, lock, false).await?
            };
            match tried {
                Ok(()) => {
                    let locks = &mut locked(&self.state).locks.held;
                    locks.retain(|held| held.range != lock.range);
                    locks.push(lock.clone());
                    return Ok(());
                }
                Err(Verdict::Again(NfsStat4::DENIED)) => return Err(NfsStat4::DENIED.into()),
                Err(Verdict::Lost(status)) if !pace.wait().await => return Err(status.into()),
                Err(Verdict::Lost(_)) => self.had_again(before).await?,
                Err(verdict) => self.four.after(verdict, generation, &mut pace).await?,
            }
        }
    }

    async fn try_lock(&self, owner: &mut Owner, lock: &Lock, reclaim: bool) -> Result<Result<(), Verdict>, ErrorKind> {
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
        let (answer, verdict) = self.four.sequenced(owner, build).await?;
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
        let held = Arc::clone(self);
        in_task(async move {
            let mut owner = held.owner.lock().await;
            held.unlock_here(&mut owner, range).await
        })
        .await
    }

    async fn unlock_here(&self, owner: &mut Owner, range: Range<u64>) -> Result<(), ErrorKind> {
        let lock = Lock { range, exclusive: true };
        let mut pace = Pace::new(self.four.lines.timeout);
        loop {
            let (stateid, lock_seqid) = {
                let locks = &locked(&self.state).locks;
                (locks.stateid, locks.seqid)
            };
            // Who never locked has nothing to unlock.
            let Some(stateid) = stateid else { return Ok(()) };
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
            let (answer, verdict) = self.four.sequenced(owner, build).await?;
            self.counted(owner, before, true);
            match verdict {
                Verdict::Again(_) if pace.wait().await => continue,
                Verdict::Again(status) | Verdict::Forgotten(status) | Verdict::Lost(status) => {
                    return Err(status.into());
                }
                Verdict::Done => {}
            }
            let stateid = super::compound::result_of!(answer.walk()?.pass(1)?, Locku)?;
            let locks = &mut locked(&self.state).locks;
            locks.stateid = Some(stateid);
            locks.held.retain(|held| held.range != lock.range);
            return Ok(());
        }
    }

    /// Before CLOSE, which a server may refuse while locks are held (RFC 8881 18.2.3).
    pub(super) async fn unlock_all(&self, owner: &mut Owner) {
        let held: Vec<Lock> = locked(&self.state).locks.held.clone();
        for lock in held {
            // CLOSE will say what it thinks of those that stay.
            let _ = self.unlock_here(owner, lock.range).await;
        }
    }

    /// The locks of an open that was had again.
    pub(super) async fn lock_again(&self, owner: &mut Owner, reclaim: bool) -> Result<(), ErrorKind> {
        let held = {
            let locks = &mut locked(&self.state).locks;
            locks.stateid = None;
            locks.seqid = 0;
            locks.age += 1;
            locks.held.clone()
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

/// One name for each open and each time the server forgot it: 4.0 counts by it.
fn lock_owner_name(number: u64, age: u32) -> [u8; 12] {
    let mut name = [0; 12];
    let (open, tail) = name.split_at_mut(8);
    open.copy_from_slice(&number.to_be_bytes());
    tail.copy_from_slice(&age.to_be_bytes());
    name
}
