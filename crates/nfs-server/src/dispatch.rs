//! From a record to its reply: the RPC header (RFC 5531), who calls, the table of programs, and what is answered when
//! a call is none of them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use nfs_wire::mount::MountProc;
use nfs_wire::nfs3::{Nfs3Proc, ReadArgs, ReaddirArgs, ReaddirPlusArgs};
use nfs_wire::nfsacl::NfsAclProc;
use nfs_wire::nlm::NlmProc;
use nfs_wire::nsm::NsmProc;
use nfs_wire::portmap::{PmapProc, RpcbProc};
use nfs_wire::rpc::{AuthStat, BadCall, Call, Credential, Flavor, program, put_success};
use nfs_wire::xdr::{Put, Reader, Xdr};
use vfs::metrics::{COUNTING, Mark};
use vfs::{Frame, PipePool, Wait};

use crate::config::Caller;
use crate::connection::Inner;
use crate::datagram::put_refused;
use crate::failure::Halt;
use crate::files::Cx;
use crate::gss::{self, Arrival, Protection};
use crate::nfs3::read::HEAD_BYTES;
use crate::replay::{Found, Key};
use crate::reply::ReplyWriter;
use crate::{PathCounters, counters, mount, nfs3, nfs4, nfsacl, nlm, portmap};

/// Room a reply begins with unless the call says how much it will need.
pub(crate) const SMALL_REPLY_BYTES: usize = 512;
/// Room for a listing, whatever the client would take; it grows where it must.
pub(crate) const LISTING_REPLY_BYTES: usize = 64 << 10;

/// Bytes of a call's arguments that are looked at to tell it from others.
const PRINTED_BYTES: usize = 512;

/// A procedure of a program that is served here.
#[derive(Clone, Copy)]
pub(crate) enum Procedure {
    Portmap(PmapProc),
    /// In version 3 or 4.
    Rpcbind(RpcbProc, u32),
    /// In version 1 or 3.
    Mount(MountProc, u32),
    Nfs3(Nfs3Proc),
    Nfs4(Nfs4Proc),
    NfsAcl(NfsAclProc),
    /// In version 1, 3 or 4.
    Nlm(NlmProc, u32),
    Nsm(NsmProc),
}

/// The procedures of NFSv4.
#[derive(Clone, Copy)]
pub(crate) enum Nfs4Proc {
    Null,
    Compound,
}

/// One call as READ and WRITE see it.
pub(crate) struct Job<'a> {
    pub conn: &'a Rc<Inner>,
    /// Who calls; nothing may wait.
    pub cx: Cx,
    /// The call's transaction id.
    pub xid: u32,
    /// The record.
    pub frame: &'a Frame,
    /// Where the arguments begin in it.
    pub args_at: usize,
    /// Further calls are waiting behind it.
    pub more_behind: bool,
    /// What protects it, where it came with Kerberos.
    pub gss: Option<&'a Protection>,
}

impl Job<'_> {
    /// Pipes for the page path: not for what is signed or sealed.
    pub fn pipes(&self) -> Option<&Arc<dyn PipePool>> {
        self.conn.shard.pipes.as_ref().filter(|_| !self.gss.is_some_and(Protection::is_of_results))
    }

    /// The arguments.
    pub fn args(&self) -> Reader<'_> {
        Reader::new(self.frame.get(self.args_at..).unwrap_or_default())
    }

    /// What tells the call from others when it is sent again.
    pub fn key(&self) -> Key {
        Key { peer: self.cx.peer, xid: self.xid, print: self.print() }
    }

    /// A number that is another one for most other arguments, and never 0. The beginning is enough: there stand the
    /// operations.
    pub fn print(&self) -> u64 {
        let bytes = self.args().rest();
        let (head, _) = bytes.split_at(bytes.len().min(PRINTED_BYTES));
        let mut hasher = DefaultHasher::new();
        (head, bytes.len()).hash(&mut hasher);
        hasher.finish() | 1
    }
}

/// Why a call is not looked at any further, by the reply that says so.
pub(crate) enum Refused {
    RpcMismatch,
    Auth(AuthStat),
    ProgUnavail,
    ProgMismatch(u32, u32),
    ProcUnavail,
    GarbageArgs,
    SystemErr,
}

/// Answers one record.
pub(crate) async fn record(conn: Rc<Inner>, frame: Frame, more_behind: bool, arrived_ns: u64) {
    PathCounters::bump(&conn.shard.counters.calls, 1);
    let mut r = Reader::new(&frame);
    let call = match Call::decode(&mut r) {
        Ok(call) => call,
        Err(BadCall::RpcMismatch { xid }) => return refuse(&conn, xid, &Refused::RpcMismatch),
        Err(BadCall::Auth { xid, stat }) => return refuse(&conn, xid, &Refused::Auth(stat)),
        Err(BadCall::Reply) => return conn.line.answered(&frame),
        Err(BadCall::Malformed(_)) => return conn.disconnect("a record that is no RPC message"),
    };
    let args_at = r.position();
    if call.credential.flavor == Flavor::GSS {
        // Boxed, so that other calls have no room made for it.
        let arrival = Arrival { frame: &frame, call: &call, args_at, more_behind, arrived_ns };
        return Box::pin(gss::record(&conn, arrival)).await;
    }
    let outcome = match procedure(&call).and_then(|found| Ok((found, caller(&conn, &call)?))) {
        Ok((procedure, caller)) => {
            conn.established.set(conn.established.get() || conn.server.knows(conn.peer));
            let (server, peer, local) = (Arc::clone(&conn.server), conn.peer, conn.local);
            let cx = Cx { server, peer, local, caller, wait: Wait::Never };
            let job = Job { conn: &conn, cx, xid: call.xid, frame: &frame, args_at, more_behind, gss: None };
            answer(procedure, &job, arrived_ns).await
        }
        Err(refused) => Err(refused),
    };
    if let Err(refused) = outcome {
        refuse(&conn, call.xid, &refused);
    }
}

pub(crate) fn refuse(conn: &Inner, xid: u32, why: &Refused) {
    let mut out = ReplyWriter::new(&conn.shard.pool, SMALL_REPLY_BYTES);
    put_refused(xid, why, &mut out);
    send(conn, out, None);
}

pub(crate) fn send(conn: &Inner, out: ReplyWriter, mark: Option<Mark>) {
    match out.finish() {
        (reply, None) => conn.send(reply, mark),
        (reply, Some(tail)) => {
            conn.send(reply, None);
            conn.send(tail, mark);
        }
    }
}

/// The programs, their versions and procedures.
pub(crate) fn procedure(call: &Call<'_>) -> Result<Procedure, Refused> {
    let number = call.procedure;
    let found = match (call.program, call.version) {
        (program::PORTMAP, 2) => PmapProc::from_u32(number).map(Procedure::Portmap),
        (program::PORTMAP, version @ (3 | 4)) => RpcbProc::from_u32(number).map(|p| Procedure::Rpcbind(p, version)),
        (program::MOUNT, version @ (1 | 3)) => MountProc::from_u32(number).map(|p| Procedure::Mount(p, version)),
        (program::NFS, 3) => Nfs3Proc::from_u32(number).map(Procedure::Nfs3),
        (program::NFS, 4) => nfs4_procedure(number).map(Procedure::Nfs4),
        (program::NFSACL, 3) => NfsAclProc::from_u32(number).map(Procedure::NfsAcl),
        (program::NLM, version @ (1 | 3 | 4)) => NlmProc::from_u32(number).map(|p| Procedure::Nlm(p, version)),
        (program::NSM, 1) => NsmProc::from_u32(number).map(Procedure::Nsm),
        (program::PORTMAP, _) => return Err(Refused::ProgMismatch(2, 4)),
        (program::MOUNT, _) => return Err(Refused::ProgMismatch(1, 3)),
        (program::NFS, _) => return Err(Refused::ProgMismatch(3, 4)),
        (program::NFSACL, _) => return Err(Refused::ProgMismatch(3, 3)),
        (program::NLM, _) => return Err(Refused::ProgMismatch(1, 4)),
        (program::NSM, _) => return Err(Refused::ProgMismatch(1, 1)),
        _ => return Err(Refused::ProgUnavail),
    };
    found.ok_or(Refused::ProcUnavail)
}

fn nfs4_procedure(number: u32) -> Option<Nfs4Proc> {
    match number {
        nfs_wire::nfs4::PROC_NULL => Some(Nfs4Proc::Null),
        nfs_wire::nfs4::PROC_COMPOUND => Some(Nfs4Proc::Compound),
        _ => None,
    }
}

/// Who calls. The last credential is remembered as it was sent: the next call mostly bears the same.
fn caller(conn: &Inner, call: &Call<'_>) -> Result<Arc<Caller>, Refused> {
    let mut known = conn.caller.borrow_mut();
    let body = call.credential.body.0;
    if call.credential.flavor == Flavor::SYS
        && let Some((_, caller)) = known.as_ref().filter(|(bytes, _)| bytes == body)
    {
        return Ok(Arc::clone(caller));
    }
    match Credential::parse(&call.credential).map_err(Refused::Auth)? {
        Credential::None => Ok(Arc::default()),
        Credential::Sys(sys) => {
            let caller = Arc::new(Caller::sys(&sys));
            *known = Some((body.to_vec(), Arc::clone(&caller)));
            Ok(caller)
        }
        Credential::Gss(_) | Credential::Tls => Err(Refused::Auth(AuthStat::BadCred)),
    }
}

pub(crate) async fn answer(procedure: Procedure, job: &Job<'_>, arrived_ns: u64) -> Result<(), Refused> {
    let room = reply_room(procedure, job);
    let _reserved = job.conn.reserve(room);
    let mut out = ReplyWriter::new(&job.conn.shard.pool, room);
    match job.gss {
        None => put_success(job.xid, &mut out),
        Some(gss) => gss.begin_results(job.xid, &mut out),
    }
    let begin = out.len();
    let asked = counters::of_procedure(procedure);
    let mut operation = asked;
    // A compound says itself whether it does more than read.
    if !matches!(procedure, Procedure::Nfs3(Nfs3Proc::Read) | Procedure::Nfs4(Nfs4Proc::Compound)) {
        job.conn.recent.end_round();
    }
    let done = match procedure {
        Procedure::Nfs3(Nfs3Proc::Read) => nfs3::read::read(job, &mut out).await,
        Procedure::Nfs3(Nfs3Proc::Write) => nfs3::write::write(job, &mut out).await,
        Procedure::Nfs4(Nfs4Proc::Null) => Ok(()),
        Procedure::Nfs4(Nfs4Proc::Compound) => nfs4::call(job, &mut out).await.map(|about| operation = about),
        Procedure::Nfs3(Nfs3Proc::ReaddirPlus) => list(procedure, job, &mut out).await,
        other => in_place_or_beside(other, job, &mut out).await,
    };
    if !matches!(procedure, Procedure::Nfs3(Nfs3Proc::ReaddirPlus)) {
        note_answer(job.conn);
    }
    let counted = |failed| job.conn.shard.counters.operations.count(asked, failed);
    let refused = match done {
        Ok(()) => {
            counted(COUNTING && counters::is_failure(procedure, out.since(begin)));
            if let Some(gss) = job.gss
                && !Box::pin(gss.end_results(job.conn, begin, &mut out)).await
            {
                return Err(Refused::SystemErr);
            }
            send(job.conn, out, Some(Mark::new(arrived_ns, operation as u8)));
            return Ok(());
        }
        Err(Halt::Silent) => return Ok(()),
        Err(Halt::Malformed) => Refused::GarbageArgs,
        Err(Halt::Unavailable) => Refused::ProcUnavail,
        Err(Halt::TooWeak) => Refused::Auth(AuthStat::TooWeak),
        Err(Halt::WouldBlock | Halt::Lost) => Refused::SystemErr,
    };
    counted(true);
    Err(refused)
}

/// What was found for the call is about to leave.
fn note_answer(conn: &Inner) {
    conn.server.answers.note(conn.peer.ip());
}

/// READDIRPLUS, whose further parts may have been made ahead.
async fn list(procedure: Procedure, job: &Job<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    if nfs3::listing::further_part(job, out).await? {
        return Ok(());
    }
    let done = in_place_or_beside(procedure, job, out).await;
    note_answer(job.conn);
    done
}

/// Room for the reply: what the call says it will need, within bounds.
fn reply_room(procedure: Procedure, job: &Job<'_>) -> usize {
    let mut args = job.args();
    let config = &job.cx.server.settings.load().config;
    match procedure {
        Procedure::Nfs3(Nfs3Proc::Read) => ReadArgs::decode(&mut args)
            .map_or(SMALL_REPLY_BYTES, |args| HEAD_BYTES + args.count_bytes.min(config.max_read_bytes) as usize + 8),
        Procedure::Nfs3(Nfs3Proc::Readdir) => ReaddirArgs::decode(&mut args)
            .map_or(SMALL_REPLY_BYTES, |args| (args.count_bytes as usize).min(LISTING_REPLY_BYTES) + HEAD_BYTES),
        Procedure::Nfs3(Nfs3Proc::ReaddirPlus) => ReaddirPlusArgs::decode(&mut args)
            .map_or(SMALL_REPLY_BYTES, |args| (args.max_count_bytes as usize).min(LISTING_REPLY_BYTES) + HEAD_BYTES),
        Procedure::Nfs4(Nfs4Proc::Compound) => nfs4::reply_room(&mut args, config.max_read_bytes),
        _ => SMALL_REPLY_BYTES,
    }
}

/// Runs a procedure in place where that is likely not to wait, and on a worker where it would.
async fn in_place_or_beside(procedure: Procedure, job: &Job<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let begin = out.len();
    if is_quick(procedure) {
        match run(procedure, &job.cx, &mut job.args(), out) {
            Err(Halt::WouldBlock) => out.truncate(begin),
            other => return other,
        }
    }
    let doing = match once(procedure, job) {
        None => None,
        Some(Found::New(doing)) => Some(doing),
        Some(Found::UnderWay) => return Err(Halt::Silent),
        Some(Found::Done(reply)) => {
            out.put_bytes(&reply);
            return Ok(());
        }
    };
    let cx = Cx { wait: Wait::Allowed, ..job.cx.clone() };
    let (frame, args_at, mut lent) = (job.frame.clone(), job.args_at, out.lend());
    let work = move || {
        let mut args = Reader::new(frame.get(args_at..).unwrap_or_default());
        let done = run(procedure, &cx, &mut args, &mut lent);
        if let (Some(doing), Ok(())) = (doing, done) {
            doing.done(lent.since(begin));
        }
        (lent, done)
    };
    let (lent, done) = job.conn.offload(work).await.ok_or(Halt::Lost)?;
    *out = lent;
    done
}

/// What is known of a call that must not be done twice.
fn once(procedure: Procedure, job: &Job<'_>) -> Option<Found> {
    let Procedure::Nfs3(procedure) = procedure else { return None };
    let now_ms = job.cx.server.env.clock.monotonic_ms();
    nfs3::is_once(procedure).then(|| job.cx.server.replays.begin(job.key(), now_ms))
}

fn is_quick(procedure: Procedure) -> bool {
    match procedure {
        Procedure::Portmap(_) | Procedure::Rpcbind(..) | Procedure::Nlm(..) | Procedure::Nsm(_) => true,
        Procedure::Mount(procedure, _) => procedure != MountProc::Mnt,
        Procedure::Nfs3(procedure) => nfs3::is_quick(procedure),
        Procedure::NfsAcl(procedure) => procedure == NfsAclProc::Null,
        Procedure::Nfs4(_) => false,
    }
}

/// Whether a procedure is answered over UDP.
pub(crate) fn is_for_datagrams(procedure: Procedure) -> bool {
    !matches!(procedure, Procedure::Nfs3(_) | Procedure::Nfs4(_) | Procedure::NfsAcl(_))
}

pub(crate) fn run(procedure: Procedure, cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    match procedure {
        Procedure::Portmap(procedure) => portmap::pmap(procedure, cx, args, out),
        Procedure::Rpcbind(procedure, version) => portmap::rpcbind(procedure, version, cx, args, out),
        Procedure::Mount(procedure, version) => mount::run(procedure, version, cx, args, out),
        Procedure::Nfs3(procedure) => nfs3::run(procedure, cx, args, out),
        Procedure::NfsAcl(procedure) => nfsacl::run(procedure, cx, args, out),
        Procedure::Nlm(procedure, version) => nlm::run(procedure, version, cx, args, out),
        Procedure::Nsm(procedure) => nlm::monitor(procedure, cx, args, out),
        // These do not come here.
        Procedure::Nfs4(_) => Err(Halt::Unavailable),
    }
}
