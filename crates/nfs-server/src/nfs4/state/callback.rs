//! Calling clients back: the records of CB_COMPOUND and CB_NULL, and the ways they take (RFC 7530 16.33.4 and 17,
//! RFC 8881 2.10.3 and 20). A 4.0 client is dialled where it said; a 4.1 client is called on connections it made. Who
//! calls does not wait: it is told the status later.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use nfs_wire::nfs4::{
    CALLBACK_VERSION, CbOp, CbResult, CbSequenceArgs, CompoundCall, CompoundResults, NfsStat4, PROC_COMPOUND,
    PROC_NULL, SessionId, Verifier,
};
use nfs_wire::rpc::{AuthSys, Call, Flavor, OpaqueAuth, Outcome, Reply};
use nfs_wire::xdr::{Bounded, List, Reader};
use parking_lot::Mutex;

use super::line::Line;
use crate::env::{Dialer, OnReply};

/// Connections of one session that may carry callbacks.
const MOST_LINES: usize = 16;

/// What became of a callback: its status and, of one that answers something, the last result's bytes.
pub(crate) type OnAnswer = Box<dyn FnOnce(Result<Vec<u8>, Failed>) + Send>;

/// Why a callback did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It did not reach the client, or its answer did not come back.
    Unreachable,
    /// The client said so.
    Status(NfsStat4),
}

/// How a client is called back.
#[derive(Default)]
pub(crate) struct Channel {
    inner: Mutex<Ways>,
}

#[derive(Default)]
struct Ways {
    plain: Option<Plain>,
    /// What a SETCLIENTID said that is not confirmed, and with what it will be.
    offered: Option<(Verifier, Option<Plain>)>,
    sessions: Vec<Weak<BackChannel>>,
    next_xid: u32,
}

/// What SETCLIENTID said (RFC 7530 16.33).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plain {
    pub address: SocketAddr,
    pub program: u32,
    pub ident: u32,
    /// CB_NULL was answered.
    pub works: bool,
}

/// With which credential a 4.1 client wants to be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallbackCred {
    None,
    Sys { machine: Vec<u8>, uid: u32, gid: u32, gids: Vec<u32> },
}

/// The backchannel of one session.
pub(crate) struct BackChannel {
    pub session: SessionId,
    pub minor: u32,
    inner: Mutex<Back>,
}

struct Back {
    program: u32,
    cred: CallbackCred,
    lines: Vec<Weak<Line>>,
    slots: Vec<BackSlot>,
}

#[derive(Clone, Copy, Default)]
struct BackSlot {
    sequence: u32,
    busy: bool,
}

impl Channel {
    /// Where a 4.0 client is to be called once it has confirmed that.
    pub fn offer_plain(&self, confirm: Verifier, plain: Option<Plain>) {
        self.inner.lock().offered = Some((confirm, plain));
    }

    /// It has.
    pub fn take_offer(&self, confirm: Verifier) {
        let mut inner = self.inner.lock();
        if let Some((_, plain)) = inner.offered.take_if(|(offered, _)| *offered == confirm) {
            inner.plain = plain;
        }
    }

    /// Where that is.
    pub fn plain(&self) -> Option<Plain> {
        self.inner.lock().plain.clone()
    }

    /// CB_NULL at `address` was answered, or was not.
    pub fn found(&self, address: SocketAddr, works: bool) {
        if let Some(plain) = self.inner.lock().plain.as_mut().filter(|plain| plain.address == address) {
            plain.works = works;
        }
    }

    /// A session has come.
    pub fn add_session(&self, back: &Arc<BackChannel>) {
        let sessions = &mut self.inner.lock().sessions;
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(back));
    }

    /// Whether a callback is likely to arrive.
    pub fn works(&self) -> bool {
        let inner = self.inner.lock();
        inner.plain.as_ref().is_some_and(|plain| plain.works)
            || inner.sessions.iter().filter_map(Weak::upgrade).any(|back| back.works())
    }

    /// Calls the client.
    pub fn call(&self, op: &CbOp<'_>, dialer: Option<&Arc<dyn Dialer>>, done: OnAnswer) {
        let (plain, back, xid) = {
            let mut inner = self.inner.lock();
            inner.next_xid = inner.next_xid.wrapping_add(1);
            let back = inner.sessions.iter().filter_map(Weak::upgrade).find(|back| back.is_free());
            (inner.plain.clone(), back, inner.next_xid)
        };
        match (back, plain, dialer) {
            (Some(back), ..) => back.call(op, done),
            (None, Some(plain), Some(dialer)) => {
                let record = plain.compound(xid, op);
                dialer.call(plain.address, record, Box::new(move |reply| done(answer_of(reply.as_deref(), false))));
            }
            _ => done(Err(Failed::Unreachable)),
        }
    }
}

impl Plain {
    /// CB_NULL.
    pub fn null(&self) -> Vec<u8> {
        let mut record = Vec::new();
        call_head(0, self.program, PROC_NULL, &CallbackCred::None, &mut record);
        record
    }

    fn compound(&self, xid: u32, op: &CbOp<'_>) -> Vec<u8> {
        let mut record = Vec::new();
        // Clients take callbacks of the server's user as well as of nobody.
        call_head(xid, self.program, PROC_COMPOUND, &CallbackCred::server(), &mut record);
        let mut call = CompoundCall::begin_callback(b"", 0, self.ident, &mut record);
        call.op(op, &mut record);
        call.end(&mut record);
        record
    }
}

/// Whether a record answers CB_NULL.
pub(crate) fn is_answer(record: Option<&[u8]>) -> bool {
    let reply = record.map(|record| Reply::decode(&mut Reader::new(record)));
    matches!(reply, Some(Ok(Reply { outcome: Outcome::Success { .. }, .. })))
}

impl CallbackCred {
    fn server() -> Self {
        Self::Sys { machine: b"longshore".to_vec(), uid: 0, gid: 0, gids: Vec::new() }
    }
}

fn call_head(xid: u32, program: u32, procedure: u32, cred: &CallbackCred, out: &mut Vec<u8>) {
    let body = match cred {
        CallbackCred::None => Vec::new(),
        CallbackCred::Sys { machine, uid, gid, gids } => {
            let (machine_name, gids) = (Bounded(machine.as_slice()), List::new(gids));
            AuthSys { stamp: 0, machine_name, uid: *uid, gid: *gid, gids }.to_body()
        }
    };
    let flavor = if body.is_empty() { Flavor::NONE } else { Flavor::SYS };
    let credential = OpaqueAuth { flavor, body: Bounded(&body) };
    let verifier = OpaqueAuth::NONE;
    Call { xid, program, version: CALLBACK_VERSION, procedure, credential, verifier }.put(out);
}

impl BackChannel {
    pub fn new(session: SessionId, minor: u32, program: u32, cred: CallbackCred, slots: u32) -> Self {
        let slots = vec![BackSlot::default(); slots as usize];
        Self { session, minor, inner: Mutex::new(Back { program, cred, lines: Vec::new(), slots }) }
    }

    /// Lets callbacks take this connection too.
    pub fn add_line(&self, line: &Arc<Line>) {
        let lines = &mut self.inner.lock().lines;
        lines.retain(|known| known.upgrade().is_some_and(|known| !known.is_closed()));
        let known = lines.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(line)));
        if !known && lines.len() < MOST_LINES {
            lines.push(Arc::downgrade(line));
        }
    }

    /// BACKCHANNEL_CTL.
    pub fn set_program(&self, program: u32, cred: CallbackCred) {
        let mut inner = self.inner.lock();
        inner.program = program;
        inner.cred = cred;
    }

    /// Whether it had a connection and has none now.
    pub fn is_lost(&self) -> bool {
        let inner = self.inner.lock();
        !inner.lines.is_empty() && inner.line().is_none()
    }

    /// Whether it has a connection.
    pub fn works(&self) -> bool {
        self.inner.lock().line().is_some()
    }

    fn is_free(&self) -> bool {
        let inner = self.inner.lock();
        inner.line().is_some() && inner.slots.iter().any(|slot| !slot.busy)
    }

    fn call(self: &Arc<Self>, op: &CbOp<'_>, done: OnAnswer) {
        let mut inner = self.inner.lock();
        let free = inner.slots.iter().position(|slot| !slot.busy);
        let (Some(line), Some(at)) = (inner.line(), free) else {
            drop(inner);
            return done(Err(Failed::Unreachable));
        };
        let highest_slot_id = inner.slots.len() as u32 - 1;
        let Some(slot) = inner.slots.get_mut(at) else { return };
        slot.busy = true;
        let sequence = CbSequenceArgs {
            session_id: self.session,
            sequence_id: slot.sequence.wrapping_add(1),
            slot_id: at as u32,
            highest_slot_id,
            cache_this: false,
            referring_calls: List::new(&[]),
        };
        let (program, cred, minor) = (inner.program, inner.cred.clone(), self.minor);
        drop(inner);
        let record = |xid| {
            let mut record = Vec::new();
            call_head(xid, program, PROC_COMPOUND, &cred, &mut record);
            let mut call = CompoundCall::begin_callback(b"", minor, 0, &mut record);
            call.op(&CbOp::Sequence(sequence), &mut record);
            call.op(op, &mut record);
            call.end(&mut record);
            record
        };
        let back = Arc::clone(self);
        let on_reply: OnReply = Box::new(move |reply| {
            let answer = answer_of(reply.as_deref(), true);
            back.settle(at, &answer);
            done(answer);
        });
        line.call(record, on_reply);
    }

    /// The slot is free again, one further unless the client never saw the call.
    fn settle(&self, at: usize, answer: &Result<Vec<u8>, Failed>) {
        let mut inner = self.inner.lock();
        let Some(slot) = inner.slots.get_mut(at) else { return };
        slot.busy = false;
        if *answer != Err(Failed::Unreachable) {
            slot.sequence = slot.sequence.wrapping_add(1);
        }
    }
}

impl Back {
    fn line(&self) -> Option<Arc<Line>> {
        self.lines.iter().rev().filter_map(Weak::upgrade).find(|line| !line.is_closed())
    }
}

/// The status of a CB_COMPOUND's answer, and the bytes of its last result.
fn answer_of(record: Option<&[u8]>, sequence: bool) -> Result<Vec<u8>, Failed> {
    let mut r = Reader::new(record.ok_or(Failed::Unreachable)?);
    let Ok(Reply { outcome: Outcome::Success { .. }, .. }) = Reply::decode(&mut r) else {
        return Err(Failed::Unreachable);
    };
    let broken = |_| Failed::Status(NfsStat4::BADXDR);
    let mut results = CompoundResults::decode(&mut r).map_err(broken)?;
    if results.status != NfsStat4::OK {
        return Err(Failed::Status(results.status));
    }
    if sequence {
        let first = results.next_as::<CbResult<'_>>().ok_or(Failed::Status(NfsStat4::BADXDR))?;
        first.map_err(broken)?;
    }
    let rest = results.rest();
    Ok(rest.to_vec())
}
