//! What 4.0's operations on owners have in common: each of an owner's requests is done once, and answered again when it
//! comes again (RFC 7530 9.1.7). In 4.1 the slot of the compound sees to that, and they are simply done.

use nfs_wire::nfs4::{NfsStat4, OpNum};
use nfs_wire::xdr::{Put, Xdr};
use vfs::Wait;

use crate::files::Target;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Stop};
use crate::nfs4::fh::Fh;
use crate::nfs4::state::open::OwnerTurn;
use crate::nfs4::state::seq::{Answered, Sequence, Turn};
use crate::reply::ReplyWriter;

/// Does a request of an open owner.
pub(super) fn by_owner(
    c: &mut Compound,
    turn: &mut OwnerTurn,
    (seqid, op): (u32, OpNum),
    out: &mut ReplyWriter,
    work: impl FnOnce(&mut Compound, &mut OwnerTurn, &mut ReplyWriter) -> Answer,
) -> Answer {
    if c.minor > 0 {
        return work(c, turn, out);
    }
    if let Turn::Again(answered) = turn.sequence.turn(seqid, op)? {
        return again(c, answered, out);
    }
    let at = out.len();
    let done = work(c, turn, out);
    let (status, current) = match settled(c, done, out) {
        Ok(status) => (status, c.target_or(NfsStat4::NOFILEHANDLE).ok().cloned()),
        Err(stop) => return Err(stop),
    };
    let current = current.filter(|_| op == OpNum::Open && status == NfsStat4::OK);
    turn.sequence.done(seqid, Answered { op, status, result: out.since(at).into(), current });
    Ok(status)
}

/// Does a request of a lock owner.
pub(super) fn by_lock_owner(
    c: &mut Compound,
    sequence: &mut Sequence<()>,
    (seqid, op): (u32, OpNum),
    out: &mut ReplyWriter,
    work: impl FnOnce(&mut Compound, &mut ReplyWriter) -> Answer,
) -> Answer {
    if c.minor > 0 {
        return work(c, out);
    }
    if let Turn::Again(answered) = sequence.turn(seqid, op)? {
        out.put_bytes(&answered.result);
        return Ok(answered.status);
    }
    let at = out.len();
    let done = work(c, out);
    let status = settled(c, done, out)?;
    sequence.done(seqid, Answered { op, status, result: out.since(at).into(), current: None });
    Ok(status)
}

fn again(c: &mut Compound, answered: &Answered<Target>, out: &mut ReplyWriter) -> Answer {
    if let Some(current) = &answered.current {
        c.set_current(Fh::Real(current.clone()));
    }
    out.put_bytes(&answered.result);
    Ok(answered.status)
}

/// A failure becomes a result as well: it may count. What will be done again on a worker has not been done.
fn settled(c: &Compound, done: Answer, out: &mut ReplyWriter) -> Answer {
    let status = match done {
        Ok(status) => return Ok(status),
        Err(Stop::WouldBlock) if c.cx.wait == Wait::Never => return Err(Stop::WouldBlock),
        Err(Stop::WouldBlock) => NfsStat4::DELAY,
        Err(Stop::Status(status)) => status,
    };
    status.put(out);
    Ok(status)
}
