//! The lock manager (NLM, X/Open C702 chapter 10, RFC 1813 appendix II) and the status monitor (NSM, chapter 11): the
//! table of their procedures, from arguments to answers. Versions 1 to 3 are the same with narrower offsets and fewer
//! statuses. A `Msg` procedure is answered by a call of the matching `Res` one to where the host's own lock manager is.

pub(crate) mod grants;
mod hosts;
pub(crate) mod locks;
mod memory;

use nfs_wire::NfsStat3;
use nfs_wire::nlm::{
    CancelArgs, Holder, LockArgs, NlmProc, NlmStat, Range, Res, ShareArgs, ShareRes, TestArgs, TestReply, TestRes,
    UnlockArgs, Version, Versioned,
};
use nfs_wire::nsm::{HostName, MonResult, MonStatus, NsmProc, StateChange};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, Put, Reader, Xdr};
use vfs::{AccessMask, FileId, FileKind, Wait};

use crate::config::Sec;
use crate::failure::{Done, Halt, Stop};
use crate::files::Cx;
use crate::reach::{self, Errand};
use crate::reply::ReplyWriter;
use hosts::Name;
use locks::Asked;

/// Why a request got no further than its file.
enum Fail {
    Halt(Halt),
    Stat(NlmStat),
}

impl From<NlmStat> for Fail {
    fn from(stat: NlmStat) -> Self {
        Self::Stat(stat)
    }
}

impl From<Stop> for Fail {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::WouldBlock => Self::Halt(Halt::WouldBlock),
            Stop::TooWeak => Self::Halt(Halt::TooWeak),
            Stop::Status(NfsStat3::STALE | NfsStat3::BADHANDLE) => Self::Stat(NlmStat::StaleFh),
            Stop::Status(NfsStat3::JUKEBOX) => Self::Stat(NlmStat::DeniedGracePeriod),
            Stop::Status(NfsStat3::ROFS) => Self::Stat(NlmStat::Rofs),
            Stop::Status(_) => Self::Stat(NlmStat::Failed),
        }
    }
}

/// Runs a procedure of the lock manager: appends its results to `out`.
pub(crate) fn run(
    procedure: NlmProc,
    version: u32,
    cx: &Cx,
    args: &mut Reader<'_>,
    out: &mut ReplyWriter,
) -> Result<(), Halt> {
    use NlmProc::*;
    let form = Version::from_u32(version).ok_or(Halt::Unavailable)?;
    let mut results = Vec::new();
    match procedure {
        Null => return Ok(()),
        Test | TestMsg => test(form, version, cx, args, &mut results)?,
        Lock | LockMsg => lock(form, version, cx, args, true, &mut results)?,
        NmLock if version >= 3 => lock(form, version, cx, args, false, &mut results)?,
        Cancel | CancelMsg => cancel(form, version, cx, args, &mut results)?,
        Unlock | UnlockMsg => unlock(form, version, cx, args, &mut results)?,
        // Nothing was asked of anybody that these would answer.
        TestRes | LockRes | CancelRes | UnlockRes | GrantedRes => return Ok(()),
        // This end waits for no lock of anybody's.
        Granted => {
            let cookie = nfs_wire::nlm::TestArgs::decode_as(form, args)?.cookie;
            Res { cookie, stat: NlmStat::Denied }.put(&mut results);
        }
        GrantedMsg => return Ok(()),
        Share | Unshare if version >= 3 => share(procedure, version, cx, args, &mut results)?,
        FreeAll if version >= 3 => {
            nfs_wire::nlm::Notify::decode(args)?;
            if trusts(cx) {
                cx.server.nlm.free(host(cx));
            }
        }
        SmNotify | NmLock | Share | Unshare | FreeAll => return Err(Halt::Unavailable),
    }
    match reply_procedure(procedure) {
        None => out.put_bytes(&results),
        Some(reply) => call_back(cx, version, reply, results),
    }
    Ok(())
}

/// The call that answers a `Msg` procedure.
fn reply_procedure(procedure: NlmProc) -> Option<NlmProc> {
    match procedure {
        NlmProc::TestMsg => Some(NlmProc::TestRes),
        NlmProc::LockMsg => Some(NlmProc::LockRes),
        NlmProc::CancelMsg => Some(NlmProc::CancelRes),
        NlmProc::UnlockMsg => Some(NlmProc::UnlockRes),
        _ => None,
    }
}

fn call_back(cx: &Cx, version: u32, procedure: NlmProc, args: Vec<u8>) {
    let Some(dialer) = &cx.server.env.dialer else { return };
    let procedure = procedure as u32;
    let errand = Errand { host: host(cx), program: program::NLM, version, procedure, args };
    reach::call(dialer, errand, Box::new(|_| {}));
}

/// The host that calls, by one address whichever family the socket is of.
fn host(cx: &Cx) -> std::net::IpAddr {
    cx.peer.ip().to_canonical()
}

/// Whether what the call says of its host is to be believed.
fn trusts(cx: &Cx) -> bool {
    cx.server.settings.load().exports.iter().any(|export| export.admit(cx.peer, cx.caller.sec).is_some())
}

/// Versions 1 to 3 have no more than the first five statuses.
fn shown(stat: NlmStat, form: Version) -> NlmStat {
    match (form, stat) {
        (Version::V3, NlmStat::Deadlock | NlmStat::Rofs | NlmStat::StaleFh | NlmStat::Fbig | NlmStat::Failed) => {
            NlmStat::Denied
        }
        (_, stat) => stat,
    }
}

/// The status of what was done; what must be run again is not answered.
fn settled(done: Result<NlmStat, Fail>, form: Version) -> Result<NlmStat, Halt> {
    match done {
        Ok(stat) | Err(Fail::Stat(stat)) => Ok(shown(stat, form)),
        Err(Fail::Halt(halt)) => Err(halt),
    }
}

/// The file to lock in: a plain one, which the caller may read or write, or has.
fn file(cx: &Cx, handle: &[u8]) -> Result<FileId, Fail> {
    let found = |handle| -> Done<(crate::files::Target, vfs::Attr, AccessMask)> {
        // Clients ask for locks with AUTH_SYS however they come for the rest.
        let target = cx.found(handle)?;
        if cx.caller.sec == Sec::Sys && target.object.export.is_claim_doubtful(cx.peer) {
            return Err(NfsStat3::ACCES.into());
        }
        let attr = target.attr(cx)?;
        let has = target.object.node.access(&target.cred, AccessMask::READ | AccessMask::WRITE)?;
        Ok((target, attr, has))
    };
    let (target, attr, has) = found(handle)?;
    if attr.kind != FileKind::File || (has.is_empty() && attr.uid != target.cred.uid) {
        return Err(NlmStat::Failed.into());
    }
    Ok(attr.id)
}

fn test(form: Version, version: u32, cx: &Cx, args: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Halt> {
    let args = TestArgs::decode_as(form, args)?;
    let nlm = &cx.server.nlm;
    let done = || -> Result<_, Fail> {
        let file = file(cx, &args.lock.handle)?;
        if nlm.is_in_grace() {
            return Err(NlmStat::DeniedGracePeriod.into());
        }
        let asked = Asked { host: host(cx), version, file, lock: &args.lock, exclusive: args.exclusive };
        Ok(nlm.test(&asked)?)
    };
    let found = done();
    let reply = match &found {
        Ok(None) => TestReply::Status(NlmStat::Granted),
        Ok(Some(way)) => TestReply::Denied(Holder {
            exclusive: way.exclusive,
            svid: way.svid,
            owner: Bounded(&way.owner),
            range: Range { offset_bytes: way.offset, len_bytes: way.len },
        }),
        Err(Fail::Stat(stat)) => TestReply::Status(shown(*stat, form)),
        Err(Fail::Halt(halt)) => return Err(*halt),
    };
    TestRes { cookie: args.cookie, reply }.put_as(form, out);
    Ok(())
}

/// `monitored`: the host is to be told when this server restarts, and will tell when it does itself.
fn lock(
    form: Version,
    version: u32,
    cx: &Cx,
    args: &mut Reader<'_>,
    monitored: bool,
    out: &mut Vec<u8>,
) -> Result<(), Halt> {
    let args = LockArgs::decode_as(form, args)?;
    let nlm = &cx.server.nlm;
    let done = || -> Result<_, Fail> {
        let file = file(cx, &args.lock.handle)?;
        nlm.in_time(host(cx), args.reclaim)?;
        if monitored && nlm.memory.must_keep(host(cx)) {
            if cx.wait == Wait::Never {
                return Err(Fail::Halt(Halt::WouldBlock));
            }
            nlm.memory.keep(host(cx));
        }
        let asked = Asked { host: host(cx), version, file, lock: &args.lock, exclusive: args.exclusive };
        Ok(nlm.lock(&asked, args.block && !args.reclaim, args.state))
    };
    Res { cookie: args.cookie, stat: settled(done(), form)? }.put(out);
    Ok(())
}

fn cancel(form: Version, version: u32, cx: &Cx, args: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Halt> {
    let args = CancelArgs::decode_as(form, args)?;
    let nlm = &cx.server.nlm;
    let done = || -> Result<_, Fail> {
        let file = held_file(cx, &args.lock)?;
        let asked = Asked { host: host(cx), version, file, lock: &args.lock, exclusive: args.exclusive };
        Ok(nlm.cancel(&asked))
    };
    Res { cookie: args.cookie, stat: settled(done(), form)? }.put(out);
    Ok(())
}

fn unlock(form: Version, version: u32, cx: &Cx, args: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Halt> {
    let args = UnlockArgs::decode_as(form, args)?;
    let nlm = &cx.server.nlm;
    let done = || -> Result<_, Fail> {
        let file = held_file(cx, &args.lock)?;
        let asked = Asked { host: host(cx), version, file, lock: &args.lock, exclusive: false };
        Ok(nlm.unlock(&asked))
    };
    Res { cookie: args.cookie, stat: settled(done(), form)? }.put(out);
    Ok(())
}

/// The file a lock is, or may be, in; it may be gone, and its rights may have changed.
fn held_file(cx: &Cx, lock: &nfs_wire::nlm::Lock<'_>) -> Result<FileId, Fail> {
    match cx.server.nlm.file_by_handle(host(cx), lock) {
        Some(file) if trusts(cx) => Ok(file),
        // What another user of the host locked is not this one's to give back.
        _ => file(cx, &lock.handle),
    }
}

fn share(procedure: NlmProc, version: u32, cx: &Cx, args: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), Halt> {
    let args = ShareArgs::decode(args)?;
    let form = Version::from_u32(version).ok_or(Halt::Unavailable)?;
    let nlm = &cx.server.nlm;
    let (caller, owner) = (args.share.caller_name.0.into(), args.share.owner.0.into());
    let name = Name { caller, owner, svid: 0 };
    let done = || -> Result<_, Fail> {
        let file = file(cx, &args.share.handle)?;
        if procedure == NlmProc::Unshare {
            nlm.unshare(host(cx), file, &name);
            return Ok(NlmStat::Granted);
        }
        nlm.in_time(host(cx), args.reclaim)?;
        Ok(nlm.share(&cx.server, host(cx), file, name.clone(), args.share.mode, args.share.access))
    };
    ShareRes { cookie: args.cookie, stat: settled(done(), form)?, sequence: 0 }.put(out);
    Ok(())
}

/// Runs a procedure of the status monitor. Nobody is monitored for others.
pub(crate) fn monitor(procedure: NsmProc, cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let nlm = &cx.server.nlm;
    match procedure {
        NsmProc::Null | NsmProc::SimuCrash => {}
        NsmProc::Stat => {
            HostName::decode(args)?;
            MonResult { status: MonStatus::Fail, state: nlm.memory.state() }.put(out);
        }
        NsmProc::Mon => MonResult { status: MonStatus::Fail, state: nlm.memory.state() }.put(out),
        NsmProc::Unmon | NsmProc::UnmonAll => out.put_u32(nlm.memory.state().cast_unsigned()),
        NsmProc::Notify => {
            let change = StateChange::decode(args)?;
            if trusts(cx) {
                nlm.restarted(host(cx), change.state);
            }
        }
    }
    Ok(())
}
