//! The server's lock manager (NLM version 4, RFC 1813 appendix II): where it is, one call of it, and the watch over what
//! is locked there. `lock` asks it for ranges.
//!
//! The server has no way to reach this client: nobody here listens, and the port where a machine's own lock manager does
//! is not this program's. So a lock is never waited for at the server (`block`), which would call back in vain and, where
//! the machine has a lock manager, be told to take the lock back: who waits asks again and again. Nor does the status
//! monitor (NSM) tell of a restart of the server. It shows instead in the line that is lost: as soon as one is, and every
//! quarter of a minute where all is quiet, the lock manager is called, and on a new line everything is claimed again, as
//! held before the restart where the server has a grace period, else as anybody would. Between the loss and that the
//! locks are not held, and what is written then is written without them; a lock that was lost to another says so at every
//! later use of its file. A client that ends without closing leaves its locks at the server, as version 3 has it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use nfs_wire::nlm::{CancelArgs, Lock, LockArgs, NetObj, NlmProc, NlmStat, Res, UnlockArgs, Version, Versioned};
use nfs_wire::rpc::program;
use nfs_wire::xdr::Bounded;
use tokio::sync::watch;

use super::super::ranges::Piece;
use super::super::rpc::driver::Handle;
use super::super::rpc::{Caller, Dial, Limits, Request, Response};
use super::super::{Fh, portmap, v4::locked};
use super::lock::Owner;
use crate::error::ErrorKind;
use crate::smb::Failure;

const VERSION: u32 = 4;
const UNKNOWN: &str =
    "the server's portmapper knows no lock manager (NLM 4): where it is can be said with nlmport= in the URL";
/// How often a server that is not asked for anything is asked whether it is there.
const CALL_PERIOD: Duration = Duration::from_secs(15);
/// How soon again when it is not.
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// What the lock manager is found and asked with.
pub(crate) struct Seat {
    pub nfs: Handle,
    pub dial: Arc<dyn Dial>,
    pub limits: Limits,
    pub caller: Caller,
    pub port: Option<u16>,
    /// What this machine calls itself.
    pub machine: String,
    /// Chance: tells the owners of this client from all others'.
    pub instance: [u8; 12],
}

/// The lock manager.
pub(crate) struct Lockd {
    me: Weak<Self>,
    seat: Seat,
    found: tokio::sync::Mutex<Option<Handle>>,
    owners: Mutex<HashMap<i32, Weak<Owner>>>,
    next_owner: AtomicU32,
    cookie: AtomicU32,
    /// The server cannot monitor this client, and is asked for locks without.
    is_unmonitored: AtomicBool,
    is_watched: AtomicBool,
}

/// What a call is about.
pub(super) struct About<'a> {
    pub fh: &'a Fh,
    pub svid: i32,
    pub piece: &'a Piece,
}

impl About<'_> {
    fn is_exclusive(&self) -> bool {
        self.piece.exclusive == Some(true)
    }
}

/// What a call holds beside what it is about.
struct Question<'a> {
    cookie: [u8; 4],
    owner: Vec<u8>,
    machine: &'a str,
}

impl Question<'_> {
    fn cookie(&self) -> NetObj<'_> {
        Bounded(&self.cookie)
    }

    fn lock<'a>(&'a self, about: &'a About<'a>) -> Lock<'a> {
        Lock {
            caller_name: Bounded(self.machine.as_bytes()),
            handle: Bounded(about.fh),
            owner: Bounded(&self.owner),
            svid: about.svid,
            range: about.piece.nlm_range(),
        }
    }
}

impl std::fmt::Debug for Lockd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lockd")
    }
}

impl Lockd {
    pub fn new(seat: Seat) -> Arc<Self> {
        // Where a machine's own lock manager numbers its processes it counts from 0.
        let [.., a, b, c, d] = seat.instance;
        let first_owner = u32::from_be_bytes([a, b, c, d]);
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            seat,
            found: tokio::sync::Mutex::default(),
            owners: Mutex::default(),
            next_owner: AtomicU32::new(first_owner),
            cookie: AtomicU32::new(0),
            is_unmonitored: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
        })
    }

    /// The owner of the locks of one open. Servers tell owners apart by the number (`svid`), some by nothing else.
    pub fn owner(self: &Arc<Self>, fh: &Fh) -> Arc<Owner> {
        const LARGE: i32 = 1 << 30;
        let number = self.next_owner.fetch_add(1, Relaxed).cast_signed();
        let owner = Arc::new(Owner::new(self, fh, (number & (LARGE - 1)) | LARGE));
        locked(&self.owners).insert(owner.svid, Arc::downgrade(&owner));
        owner
    }

    pub(super) fn forget(&self, svid: i32) {
        locked(&self.owners).remove(&svid);
    }

    pub(super) fn timeout(&self) -> Duration {
        self.seat.limits.timeout
    }

    /// LOCK, which does not wait.
    pub(super) async fn lock(&self, about: &About<'_>, reclaim: bool) -> Result<NlmStat, ErrorKind> {
        let monitored = !self.is_unmonitored.load(Relaxed);
        let stat = self.lock_by(if monitored { NlmProc::Lock } else { NlmProc::NmLock }, about, reclaim).await?;
        if stat != NlmStat::DeniedNoLocks || !monitored || reclaim {
            return Ok(stat);
        }
        // It may be only the monitoring that it cannot do (its own status monitor is not there).
        let stat = self.lock_by(NlmProc::NmLock, about, reclaim).await?;
        self.is_unmonitored.fetch_or(stat == NlmStat::Granted, Relaxed);
        Ok(stat)
    }

    async fn lock_by(&self, procedure: NlmProc, about: &About<'_>, reclaim: bool) -> Result<NlmStat, ErrorKind> {
        let (question, exclusive) = (self.question(about), about.is_exclusive());
        let (cookie, lock) = (question.cookie(), question.lock(about));
        // A state of 0: there is no status monitor whose state it would be.
        self.ask(procedure, &question, &LockArgs { cookie, block: false, exclusive, lock, reclaim, state: 0 }).await
    }

    /// CANCEL, of a lock that the server would give later although it was not asked to.
    pub(super) async fn cancel(&self, about: &About<'_>) -> Result<NlmStat, ErrorKind> {
        let (question, exclusive) = (self.question(about), about.is_exclusive());
        let (cookie, lock) = (question.cookie(), question.lock(about));
        self.ask(NlmProc::Cancel, &question, &CancelArgs { cookie, block: false, exclusive, lock }).await
    }

    pub(super) async fn unlock(&self, about: &About<'_>) -> Result<NlmStat, ErrorKind> {
        let question = self.question(about);
        let (cookie, lock) = (question.cookie(), question.lock(about));
        self.ask(NlmProc::Unlock, &question, &UnlockArgs { cookie, lock }).await
    }

    fn question(&self, about: &About<'_>) -> Question<'_> {
        let cookie = self.cookie.fetch_add(1, Relaxed).to_be_bytes();
        let owner = [self.seat.instance.as_slice(), &about.svid.to_be_bytes()].concat();
        Question { cookie, owner, machine: &self.seat.machine }
    }

    async fn ask<'a>(
        &self,
        procedure: NlmProc,
        question: &Question<'_>,
        args: &impl Versioned<'a>,
    ) -> Result<NlmStat, ErrorKind> {
        let response = self.call(procedure, |out| args.put_as(Version::V4, out)).await?;
        let res: Res<'_> = response.decode()?;
        if *res.cookie.0 != question.cookie {
            return Err(ErrorKind::Nonsense("the lock manager answers another call"));
        }
        Ok(res.stat)
    }

    async fn call(&self, procedure: NlmProc, put: impl FnOnce(&mut Vec<u8>)) -> Result<Response, ErrorKind> {
        let handle = self.handle().await?;
        let request = Request::new(&self.seat.caller, program::NLM, VERSION, procedure as u32, put);
        let answer = handle.call(request).await;
        if let Err(Failure::Network(_) | Failure::Closed | Failure::Timeout(_) | Failure::Protocol(_)) = &answer {
            // It may have another port since it started again.
            *self.found.lock().await = None;
        }
        Ok(answer?)
    }

    async fn handle(&self) -> Result<Handle, ErrorKind> {
        let mut found = self.found.lock().await;
        if let Some(handle) = &*found {
            return Ok(handle.clone());
        }
        let Seat { nfs, dial, limits, caller, port, .. } = &self.seat;
        let sought = portmap::Sought { program: program::NLM, version: VERSION, port: *port, unknown: UNKNOWN };
        let handle = portmap::find(nfs, dial, *limits, caller, sought).await?;
        *found = Some(handle.clone());
        self.watch(&handle);
        Ok(handle)
    }

    fn watch(&self, handle: &Handle) {
        if !self.is_watched.swap(true, Relaxed) {
            tokio::spawn(watch_over(Weak::clone(&self.me), Known::of(handle)));
        }
    }

    /// What is locked.
    fn holders(&self) -> Vec<Arc<Owner>> {
        let owners = locked(&self.owners);
        owners.values().filter_map(Weak::upgrade).filter(|owner| owner.holds_something()).collect()
    }

    /// Calls the lock manager, which makes a line where there is none, and claims all again that is held if lines were
    /// lost since that was done; answers what is known now. `None`: it could not all be asked for.
    async fn look_after(&self, known: &Known) -> Option<Known> {
        self.call(NlmProc::Null, |_| {}).await.ok()?;
        let now = Known::of(&self.handle().await.ok()?);
        if now.claimed == known.claimed && now.losses.same_channel(&known.losses) {
            return Some(now);
        }
        for owner in self.holders() {
            owner.have_again().await.ok()?;
        }
        Some(now)
    }
}

/// A connection, and how many of its lines had been lost when all that is held was last claimed.
struct Known {
    losses: watch::Receiver<u64>,
    claimed: u64,
}

impl Known {
    fn of(handle: &Handle) -> Self {
        let losses = handle.losses();
        let claimed = *losses.borrow();
        Self { losses, claimed }
    }

    /// Waits for a line that is lost.
    async fn loss(&mut self) {
        let claimed = self.claimed;
        if self.losses.wait_for(|count| *count != claimed).await.is_err() {
            // The connection is over, which the next call finds out.
            std::future::pending::<()>().await;
        }
    }
}

/// Until nobody uses the lock manager any more.
async fn watch_over(lockd: Weak<Lockd>, mut known: Known) {
    loop {
        let _ = tokio::time::timeout(CALL_PERIOD, known.loss()).await;
        while let Some(lockd) = lockd.upgrade().filter(|lockd| !lockd.holders().is_empty()) {
            if let Some(now) = lockd.look_after(&known).await {
                known = now;
                break;
            }
            drop(lockd);
            tokio::time::sleep(RETRY_PERIOD).await;
        }
        let Some(lockd) = lockd.upgrade() else { return };
        if lockd.holders().is_empty() {
            // A lock that was granted just now is claimed once more then, which does no harm.
            drop(lockd);
            tokio::time::sleep(CALL_PERIOD).await;
        }
    }
}
