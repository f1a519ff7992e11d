//! NFS version 4: 4.0 (RFC 7530), 4.1 (RFC 8881), 4.2 (RFC 7862). `client` makes the server know this client, and again
//! when it has forgotten; `opens` and `owner` hold what is open; `names` and `io` are operations. Every call ends within
//! the timeout: it is done, refused, or given up.

mod client;
mod compound;
mod copy;
mod io;
mod lock;
mod names;
mod opens;
mod owner;
mod reclaim;
mod whole;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

use nfs_wire::nfs4::{NfsStat4, OpNum, PROC_COMPOUND, VERSION};
use nfs_wire::rpc::program;

use super::Lines;
use super::pace::Pace;
use super::rpc::{Request, Response};
use crate::error::ErrorKind;
use crate::smb::Failure;

use client::Who;
pub(crate) use compound::{Answer, Ops};
pub(crate) use copy::Span;
pub(super) use io::{was_committed, was_read, was_written};
pub(crate) use opens::{Held, NEW_FILE_MODE, in_task};
use owner::Owners;
pub(crate) use whole::{Small, Whole};

/// A server that speaks version 4.
#[derive(Debug)]
pub(crate) struct Four {
    /// For what must go on without its caller.
    me: Weak<Self>,
    pub lines: Lines,
    pub minor: u32,
    /// What this client is called, and what changes when it starts again.
    identity: client::Identity,
    who: Mutex<Who>,
    /// Held by who makes the server know the client again.
    recovering: tokio::sync::Mutex<()>,
    /// All opens, by number.
    opens: Mutex<HashMap<u64, Weak<Held>>>,
    next_open: AtomicU64,
    owners: Mutex<Owners>,
    /// What one READ and one WRITE move at most.
    read_bytes: AtomicU32,
    write_bytes: AtomicU32,
    /// Operations of one compound.
    most_ops: AtomicU32,
    /// The server has said that it does not know COPY, or CLONE.
    pub no_copy: std::sync::atomic::AtomicBool,
    pub no_clone: std::sync::atomic::AtomicBool,
    /// It does not understand the stateid of the operation before.
    no_current: std::sync::atomic::AtomicBool,
}

/// What a compound does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It changes nothing.
    None,
    /// It changes something; done twice, no more than done once.
    Repeatable,
    /// It is to be done once.
    Once,
}

/// What is to become of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the answer.
    Done,
    /// Not now.
    Again(NfsStat4),
    /// The server does not know the client, or the session.
    Forgotten(NfsStat4),
    /// The server does not know the open.
    Lost(NfsStat4),
}

/// A lock on what no thread holds while it can fail.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Four {
    pub fn read_bytes(&self) -> u32 {
        self.read_bytes.load(Relaxed).max(1)
    }

    pub fn write_bytes(&self) -> u32 {
        self.write_bytes.load(Relaxed).max(1)
    }

    /// Names that one compound may look up beside what else it does.
    fn most_names(&self) -> usize {
        (self.most_ops.load(Relaxed) as usize).saturating_sub(8).max(1)
    }

    /// The request of a compound.
    pub fn request(&self, effect: Effect, build: impl FnOnce(&mut Ops<'_>)) -> Request {
        let mut end = (None, Vec::new());
        let request = Request::new(&self.lines.caller, program::NFS, VERSION, PROC_COMPOUND, |out| {
            let mut ops = Ops::begin(self.minor, true, out);
            build(&mut ops);
            end = ops.end();
        });
        compound::travelling(request.with_tail(end.1), end.0, effect, self.minor)
    }

    /// One that is not of a session: it makes one.
    fn request_outside(&self, build: impl FnOnce(&mut Ops<'_>)) -> Request {
        Request::new(&self.lines.caller, program::NFS, VERSION, PROC_COMPOUND, |out| {
            let mut ops = Ops::begin(self.minor, false, out);
            build(&mut ops);
            ops.end();
        })
    }

    /// A call that changes nothing.
    pub async fn ask(&self, build: impl Fn(&mut Ops<'_>)) -> Result<Answer, ErrorKind> {
        self.insist(Effect::None, &build).await
    }

    /// A call that changes something, and no more when it is made twice.
    pub async fn set(&self, build: impl Fn(&mut Ops<'_>)) -> Result<Answer, ErrorKind> {
        self.insist(Effect::Repeatable, &build).await
    }

    /// A call that may be done once only. Where it cannot be known whether it was, that is the error.
    pub async fn change(&self, build: impl Fn(&mut Ops<'_>)) -> Result<Answer, ErrorKind> {
        self.insist(Effect::Once, &build).await
    }

    /// Asks again while the server says "not now", and introduces the client again when the server has forgotten it.
    async fn insist(&self, effect: Effect, build: impl Fn(&mut Ops<'_>)) -> Result<Answer, ErrorKind> {
        let mut pace = Pace::new(self.lines.timeout);
        loop {
            let generation = self.generation();
            let response = self.noticed(generation, self.lines.next().call(self.request(effect, &build)).await)?;
            match self.judge(&response, effect)? {
                Verdict::Done | Verdict::Lost(_) => return Ok(Answer(response)),
                Verdict::Again(status) | Verdict::Forgotten(status) if !pace.wait().await => {
                    return Err(status.into());
                }
                Verdict::Again(_) => {}
                Verdict::Forgotten(_) => self.recover(generation).await?,
            }
        }
    }

    /// What numbers a server expects in the slots of calls that were given up is not known: the session is of no more
    /// use.
    pub fn noticed(&self, generation: u64, answer: Result<Response, Failure>) -> Result<Response, ErrorKind> {
        if matches!(answer, Err(Failure::Timeout(_))) && self.minor > 0 {
            self.suspect(generation);
        }
        Ok(answer?)
    }

    /// What is to become of an answer to a compound.
    pub fn judge(&self, response: &Response, effect: Effect) -> Result<Verdict, ErrorKind> {
        let (status, op) = compound::outcome(response)?;
        let verdict = self.verdict(status, op, effect);
        // A server that remembers what it did has answered. One that does not may have done it all the same, when the
        // line was lost that the request first went out on.
        let is_unknown = match verdict {
            Verdict::Again(NfsStat4::RETRY_UNCACHED_REP) => true,
            Verdict::Again(NfsStat4::DELAY | NfsStat4::GRACE) | Verdict::Done | Verdict::Lost(_) => false,
            Verdict::Again(_) | Verdict::Forgotten(_) => response.was_repeated(),
        };
        if is_unknown && effect == Effect::Once { Err(Failure::Interrupted.into()) } else { Ok(verdict) }
    }

    fn verdict(&self, status: NfsStat4, op: Option<OpNum>, effect: Effect) -> Verdict {
        match status {
            NfsStat4::OK => Verdict::Done,
            // What was to be done is; only what it is like now was not told.
            _ if effect != Effect::None && matches!(op, Some(OpNum::Getattr | OpNum::Getfh)) => Verdict::Done,
            NfsStat4::DELAY
            | NfsStat4::GRACE
            | NfsStat4::RETRY_UNCACHED_REP
            | NfsStat4::SEQ_MISORDERED
            | NfsStat4::SEQ_FALSE_RETRY
            | NfsStat4::BADSLOT
            | NfsStat4::BAD_HIGH_SLOT => Verdict::Again(status),
            NfsStat4::BADSESSION
            | NfsStat4::DEADSESSION
            | NfsStat4::CONN_NOT_BOUND_TO_SESSION
            | NfsStat4::STALE_CLIENTID
            | NfsStat4::STALE_STATEID => Verdict::Forgotten(status),
            NfsStat4::EXPIRED if self.minor == 0 => Verdict::Forgotten(status),
            NfsStat4::EXPIRED | NfsStat4::BAD_STATEID | NfsStat4::OLD_STATEID | NfsStat4::ADMIN_REVOKED => {
                Verdict::Lost(status)
            }
            _ => Verdict::Done,
        }
    }
}
