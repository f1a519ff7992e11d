//! One COMPOUND on its way: what operations hand to one another ([`Compound`]), and the walk from one to the next
//! ([`Walk`]) with the rules that hold for all of them: what is legal where, what the first failure ends, how large the
//! reply may become (RFC 7530 15.2, RFC 8881 2.10.6 and 16.2). It knows no operation but for those rules.

use std::sync::Arc;

use nfs_wire::nfs4::{self as wire, ClientId, CompoundReply, NextOp, NfsStat4, Op, OpNum, SessionId, Stateid};
use nfs_wire::xdr::{Put, Reader};
use vfs::{PipePool, Wait};

use super::failure::{Done, Stop};
use super::fh::Fh;
use super::state::client::Principal;
use super::state::line::Line;
use super::state::session::Session;
use super::table;
use super::tally::Tally;
use crate::dispatch::Job;
use crate::failure::Halt;
use crate::files::{Cx, Target};
use crate::recent::Seen;
use crate::replay::{Doing, Found, Key};
use crate::reply::ReplyWriter;

/// Operations of one compound where no session says how many: more than any client sends, and still soon done.
const MAX_OPS: u32 = 512;
/// The header of a reply that was accepted, which counts against what a session allows.
const RPC_HEAD_BYTES: usize = 24;
/// Bytes of a reply beside the largest READ.
const MAX_REPLY_OVERHEAD_BYTES: usize = 64 << 10;

/// What the operations of one compound hand to one another.
pub(crate) struct Compound {
    /// Who calls, and whether it may wait.
    pub cx: Cx,
    /// 0, 1 or 2.
    pub minor: u32,
    /// The current file handle.
    pub current: Option<Fh>,
    /// The saved one.
    pub saved: Option<Fh>,
    /// The current stateid (RFC 8881 16.2.3.1.2): what an operation before has made.
    pub stateid: Option<Stateid>,
    /// The one that was saved with the saved handle.
    pub saved_stateid: Option<Stateid>,
    /// Filled by SEQUENCE.
    pub session: Option<SessionCx>,
    /// The same, found.
    pub in_session: Option<Arc<Session>>,
    /// The connection, as one that carries callbacks.
    pub line: Arc<Line>,
    /// Tells this request's arguments from others'.
    pub print: u64,
    /// The reply of the first time, which SEQUENCE found kept: it is sent instead of anything else.
    pub replay: Option<Arc<[u8]>>,
    /// What tells a compound of 4.0 from others when it is sent again.
    key: Key,
    /// It changes something, and is done once.
    doing: Option<Doing>,
    /// It is being done already: nothing is answered.
    pub silent: bool,
    /// How many operations there are, as far as the client says.
    pub op_count: u32,
    /// Which of them is at work, from 0.
    pub op_index: u32,
    /// Where the compound begins in its record, and the record's bytes in all.
    pub request_bytes: usize,
    /// Pipes for the page path.
    pub pipes: Option<Arc<dyn PipePool>>,
    /// A large WRITE may go beside the connection's thread.
    pub beside: bool,
    /// What is to be counted.
    pub tally: Tally,
    /// What a compound before, or this one, has seen an object to be like, as long as nothing was done since but reading.
    pub seen: Option<Seen>,
    /// Nothing was done but reading.
    only_reads: bool,
    /// The most bytes of the reply, from the compound's status on.
    pub max_reply_bytes: usize,
    reply_at: usize,
}

/// The session a compound came in by, as SEQUENCE found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionCx {
    /// Whose.
    pub client: ClientId,
    /// Which.
    pub session: SessionId,
    /// On which slot.
    pub slot: u32,
    /// The slot's sequence id.
    pub sequence: u32,
    /// The client wants the reply kept.
    pub cache_this: bool,
    /// The most operations of a compound.
    pub max_ops: u32,
    /// The most bytes of a request record.
    pub max_request_bytes: usize,
    /// The most bytes of a reply record.
    pub max_response_bytes: usize,
    /// The most bytes of a reply that is to be kept.
    pub max_cached_bytes: usize,
}

impl Compound {
    /// A compound of which nothing is done.
    pub fn new(job: &Job<'_>) -> Self {
        let settings = job.cx.server.settings.load();
        let config = &settings.config;
        let print = job.print();
        let large = job.frame.len() >= config.worker_write_bytes as usize;
        Self {
            cx: job.cx.clone(),
            minor: 0,
            current: None,
            saved: None,
            stateid: None,
            saved_stateid: None,
            session: None,
            in_session: None,
            line: Arc::clone(&job.conn.line),
            print,
            replay: None,
            key: Key { peer: job.cx.peer, xid: job.xid, print },
            doing: None,
            silent: false,
            op_count: 0,
            op_index: 0,
            request_bytes: job.frame.len(),
            pipes: job.pipes().cloned(),
            beside: large && job.more_behind && (job.conn.shard.idle_cores)() > 1,
            tally: Tally::default(),
            seen: None,
            only_reads: true,
            max_reply_bytes: config.max_read_bytes as usize + MAX_REPLY_OVERHEAD_BYTES,
            reply_at: 0,
        }
    }

    /// The current file handle: NOFILEHANDLE without one.
    pub fn current(&self) -> Done<&Fh> {
        self.current.as_ref().ok_or(Stop::Status(NfsStat4::NOFILEHANDLE))
    }

    /// The saved file handle: NOFILEHANDLE without one (RESTOREFH alone says RESTOREFH).
    pub fn saved(&self) -> Done<&Fh> {
        self.saved.as_ref().ok_or(Stop::Status(NfsStat4::NOFILEHANDLE))
    }

    /// The current object; `otherwise` for the pseudo root.
    pub fn target_or(&self, otherwise: NfsStat4) -> Done<&Target> {
        self.current()?.target().ok_or(Stop::Status(otherwise))
    }

    /// Sets the current handle; the current stateid is of the one before, and no longer current.
    pub fn set_current(&mut self, fh: Fh) {
        self.current = Some(fh);
        self.stateid = None;
    }

    /// What the current stateid stands for in 4.1 (RFC 8881 16.2.3.1.2); others are themselves.
    pub fn resolve(&self, stateid: Stateid) -> Done<Stateid> {
        if self.minor == 0 || stateid != Stateid::CURRENT {
            return Ok(stateid);
        }
        self.stateid.ok_or(Stop::Status(NfsStat4::BAD_STATEID))
    }

    /// As whom the caller counts where clients are told apart.
    pub fn principal(&self) -> Principal {
        self.cx.caller.user
    }

    /// WRONGSEC unless the handle's export takes calls that come as this one does.
    pub fn must_take(&self, fh: &Fh) -> Done<()> {
        if fh.is_taken(&self.cx) { Ok(()) } else { Err(NfsStat4::WRONGSEC.into()) }
    }

    /// Whether the current handle's export takes them.
    fn is_current_taken(&self) -> bool {
        self.current.as_ref().is_none_or(|fh| fh.is_taken(&self.cx))
    }

    /// Whether the operation at work is the last one.
    pub fn is_last(&self) -> bool {
        self.op_index + 1 >= self.op_count
    }

    /// `WouldBlock` where it may not wait: what always waits begins with it.
    pub fn must_wait(&self) -> Done<()> {
        if self.cx.wait == Wait::Never { Err(Stop::WouldBlock) } else { Ok(()) }
    }

    /// Bytes that the reply may still take.
    pub fn room_left(&self, out: &ReplyWriter) -> usize {
        let most = match &self.session {
            None => self.max_reply_bytes,
            Some(session) if session.cache_this => session.max_cached_bytes.min(session.max_response_bytes),
            Some(session) => session.max_response_bytes.min(self.max_reply_bytes),
        };
        most.saturating_sub(out.len().saturating_sub(self.reply_at))
    }

    /// Whether the reply has become too large.
    fn is_over(&self, out: &ReplyWriter) -> bool {
        let used = out.len().saturating_sub(self.reply_at);
        self.session.as_ref().is_some_and(|session| {
            let most = if session.cache_this { session.max_cached_bytes } else { usize::MAX };
            used > most.min(session.max_response_bytes.saturating_sub(RPC_HEAD_BYTES))
        })
    }

    /// What to say when the reply would become too large.
    pub fn too_big(&self) -> NfsStat4 {
        match &self.session {
            None => NfsStat4::RESOURCE,
            Some(session) if session.cache_this && session.max_cached_bytes < session.max_response_bytes => {
                NfsStat4::REP_TOO_BIG_TO_CACHE
            }
            Some(_) => NfsStat4::REP_TOO_BIG,
        }
    }
}

/// A walk through a compound.
pub(crate) struct Walk {
    pub compound: Compound,
    reply: CompoundReply,
    /// The status of the last result.
    status: NfsStat4,
    /// No operation is to be looked at.
    over: bool,
}

impl Walk {
    /// Looks at the head and begins the reply.
    pub fn begin(mut compound: Compound, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<Self, Halt> {
        let head = wire::Compound::decode(args)?;
        compound.minor = head.minor_version;
        compound.op_count = head.op_count;
        compound.reply_at = out.len();
        let reply = CompoundReply::begin(head.tag, out);
        let mut walk = Self { compound, reply, status: NfsStat4::OK, over: false };
        if let Some(status) = refused(&head) {
            walk.status = status;
            walk.over = true;
        }
        Ok(walk)
    }

    /// Does operations until there is none left, or gives itself back before one that must wait.
    pub fn go_on(mut self, args: &[u8], out: &mut ReplyWriter) -> Result<Walked, Box<Self>> {
        let mut ops = self.ops_left(args);
        while !self.over
            && let Some(next) = ops.as_mut().and_then(wire::Compound::next_op)
        {
            let following = || ops.as_ref().and_then(|ops| ops.clone().next_op());
            if self.step(&next, following, out) == Step::WouldBlock {
                return Err(Box::new(self));
            }
        }
        Ok(self.end(out))
    }

    /// The operations that are not done yet.
    fn ops_left<'a>(&self, args: &'a [u8]) -> Option<wire::Compound<'a>> {
        let mut ops = wire::Compound::decode(&mut Reader::new(args)).ok()?;
        for _ in 0..self.compound.op_index {
            ops.next_op()?;
        }
        Some(ops)
    }

    fn step<'a>(
        &mut self,
        next: &NextOp<'_>,
        following: impl FnOnce() -> Option<NextOp<'a>>,
        out: &mut ReplyWriter,
    ) -> Step {
        let number = match next {
            NextOp::Op(op) => op.number(),
            NextOp::Malformed(number, _) => *number,
            NextOp::Illegal(_) | NextOp::Missing => OpNum::Illegal,
        };
        if !matches!(number, OpNum::Sequence | OpNum::Putfh | OpNum::Read) {
            (self.compound.only_reads, self.compound.seen) = (false, None);
        }
        let at = self.reply.begin_result(number as u32, out);
        let answer = match next {
            NextOp::Op(op) => match self.may_run(op) {
                Ok(()) if self.was_done(op.number()) => Ok(NfsStat4::OK),
                Ok(()) => table::run(&mut self.compound, op, out),
                Err(stop) => Err(stop),
            },
            NextOp::Illegal(_) => Err(NfsStat4::OP_ILLEGAL.into()),
            NextOp::Malformed(..) | NextOp::Missing => Err(NfsStat4::BADXDR.into()),
        };
        let status = match answer {
            // What the client said it has no room for is not sent (RFC 8881 2.10.6.4).
            Ok(NfsStat4::OK) if self.compound.session.is_some() && self.compound.is_over(out) => {
                let status = self.compound.too_big();
                self.replace(at, status, out)
            }
            // A handle of an export that takes no such calls is put where it does no harm, or not at all.
            Ok(NfsStat4::OK)
                if puts_handle(number) && !self.compound.is_current_taken() && !may_follow(following().as_ref()) =>
            {
                self.replace(at, NfsStat4::WRONGSEC, out)
            }
            Ok(status) => status,
            Err(Stop::WouldBlock) if self.compound.cx.wait == Wait::Never => {
                self.reply.take_back(at, out);
                return Step::WouldBlock;
            }
            Err(Stop::WouldBlock) => self.replace(at, NfsStat4::DELAY, out),
            Err(Stop::Status(status)) => self.replace(at, status, out),
        };
        self.compound.tally.did(number, status);
        self.status = status;
        self.over = status != NfsStat4::OK || self.compound.replay.is_some() || self.compound.silent;
        self.compound.op_index += 1;
        Step::Done
    }

    /// Whether a compound of 4.0 that would change names or attributes now was here before: then it is answered as it was
    /// then, or not at all while it is still being done.
    fn was_done(&mut self, op: OpNum) -> bool {
        use OpNum::{Create, Link, Remove, Rename, Setattr};
        let compound = &mut self.compound;
        let once = compound.minor == 0 && matches!(op, Create | Remove | Rename | Link | Setattr);
        if !once || compound.doing.is_some() {
            return false;
        }
        let server = &compound.cx.server;
        match server.replays.begin(compound.key, server.env.clock.monotonic_ms()) {
            Found::New(doing) => compound.doing = Some(doing),
            Found::UnderWay => compound.silent = true,
            Found::Done(reply) => compound.replay = Some(reply),
        }
        compound.doing.is_none()
    }

    fn replace(&mut self, at: usize, status: NfsStat4, out: &mut ReplyWriter) -> NfsStat4 {
        self.reply.replace_result(at, status, out);
        status
    }

    /// Whether an operation may stand where it does (RFC 8881 2.10.6.1, 18.46.3), and on the handle it finds (2.6.3.1).
    fn may_run(&self, op: &Op<'_>) -> Done<()> {
        let compound = &self.compound;
        if !is_free(op.number()) {
            compound.current.iter().try_for_each(|fh| compound.must_take(fh))?;
            if matches!(op.number(), OpNum::Rename | OpNum::Link | OpNum::Copy | OpNum::Clone) {
                compound.saved.iter().try_for_each(|fh| compound.must_take(fh))?;
            }
        }
        if compound.minor == 0 {
            return Ok(());
        }
        let first = compound.op_index == 0;
        let status = match op.number() {
            OpNum::Sequence if first => return Ok(()),
            OpNum::Sequence => NfsStat4::SEQUENCE_POS,
            // These may stand behind a SEQUENCE; without one they are alone.
            OpNum::ExchangeId | OpNum::CreateSession | OpNum::DestroySession | OpNum::DestroyClientid
                if compound.session.is_some() =>
            {
                return Ok(());
            }
            OpNum::ExchangeId
            | OpNum::CreateSession
            | OpNum::DestroySession
            | OpNum::BindConnToSession
            | OpNum::DestroyClientid => {
                if compound.op_count == 1 {
                    return Ok(());
                }
                NfsStat4::NOT_ONLY_OP
            }
            _ if compound.session.is_none() => NfsStat4::OP_NOT_IN_SESSION,
            _ => return Ok(()),
        };
        Err(status.into())
    }

    /// Ends the reply, and has it kept where SEQUENCE said so.
    fn end(self, out: &mut ReplyWriter) -> Walked {
        let Self { mut compound, reply, status, .. } = self;
        reply.end(status, out);
        if let Some(doing) = compound.doing.take() {
            doing.done(out.since(compound.reply_at));
        }
        match (&compound.replay, &compound.session) {
            (Some(kept), _) => {
                out.truncate(compound.reply_at);
                out.put_bytes(kept);
            }
            (None, Some(session)) => {
                let body = out.since(compound.reply_at);
                compound.cx.server.state.finish(session, status, body);
            }
            (None, None) => {}
        }
        Walked { tally: compound.tally, silent: compound.silent, seen: compound.seen, only_reads: compound.only_reads }
    }
}

/// What is left of a compound whose reply is made.
pub(crate) struct Walked {
    /// What it counts as.
    pub tally: Tally,
    /// It is not answered.
    pub silent: bool,
    /// What it has seen, and whether it did nothing but read.
    pub seen: Option<Seen>,
    pub only_reads: bool,
}

#[derive(PartialEq, Eq)]
enum Step {
    Done,
    WouldBlock,
}

/// Whether an operation puts a handle in the place of the current one (RFC 8881 2.6.3.1).
fn puts_handle(op: OpNum) -> bool {
    matches!(op, OpNum::Putfh | OpNum::Putrootfh | OpNum::Putpubfh | OpNum::Restorefh)
}

/// Whether an operation does nothing with the current handle that wants a proof of who calls.
fn is_free(op: OpNum) -> bool {
    puts_handle(op) || matches!(op, OpNum::Savefh | OpNum::Lookupp | OpNum::Secinfo | OpNum::SecinfoNoName)
}

/// Whether what follows a handle says itself that the call has come in the wrong way, or does not mind (RFC 8881
/// 2.6.3.1.1).
fn may_follow(next: Option<&NextOp<'_>>) -> bool {
    match next {
        None => true,
        Some(NextOp::Op(op)) => is_free(op.number()) || matches!(op.number(), OpNum::Lookup | OpNum::Open),
        Some(_) => false,
    }
}

/// Why a compound is answered without a result.
fn refused(head: &wire::Compound<'_>) -> Option<NfsStat4> {
    if head.minor_version > 2 {
        return Some(NfsStat4::MINOR_VERS_MISMATCH);
    }
    if std::str::from_utf8(head.tag).is_err() {
        return Some(NfsStat4::INVAL);
    }
    if head.op_count > MAX_OPS {
        return Some(if head.minor_version == 0 { NfsStat4::RESOURCE } else { NfsStat4::TOO_MANY_OPS });
    }
    None
}
