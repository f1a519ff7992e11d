//! NFS version 4: 4.0 (RFC 7530), 4.1 (RFC 8881), 4.2 (RFC 7862) and extended attributes (RFC 8276). `dispatch` hands a
//! COMPOUND to [`call`]; [`compound`] walks it, [`table`] has a line for each operation, `ops` does them, `state` knows
//! who holds what. An operation is one synchronous function that is run on the connection's thread as long as it need
//! not wait; the first that must takes the rest of its compound to a worker. What was done before is never done again.

mod acl;
pub(crate) mod compound;
pub(crate) mod failure;
pub(crate) mod fh;
mod guard;
mod ops;
pub(crate) mod owners;
pub(crate) mod state;
mod table;
mod tally;
mod view;
mod wanted;

use nfs_wire::nfs4::{self as wire, NextOp, Op, OpNum, WriteHead};
use nfs_wire::xdr::{Reader, Xdr};
use vfs::Wait;

use crate::dispatch::{Job, LISTING_REPLY_BYTES};
use crate::failure::Halt;
use crate::reply::ReplyWriter;
pub(crate) use acl::{ACCESS_KEY, DEFAULT_KEY, MAX_XATTR_BYTES};
use compound::{Compound, Walk};

/// Bytes of a reply besides what is read or listed.
const HEAD_BYTES: usize = 512;

/// Takes a reader at a COMPOUND's arguments to where the data of its first WRITE begin, if it has one.
pub(crate) fn find_payload(r: &mut Reader<'_>) -> bool {
    fn find(r: &mut Reader<'_>) -> Option<()> {
        <&[u8]>::decode(r).ok()?;
        let (_minor, count) = (r.u32().ok()?, r.u32().ok()?);
        for _ in 0..count {
            let number = OpNum::from_u32(r.u32().ok()?)?;
            if number == OpNum::Write {
                WriteHead::decode(r).ok()?;
                r.u32().ok()?;
                return Some(());
            }
            Op::decode_args(number, r).ok()?;
        }
        None
    }
    find(r).is_some()
}

/// Room for the reply to a COMPOUND: what its operations say they will need, within what any reply may have.
pub(crate) fn reply_room(args: &mut Reader<'_>, max_read_bytes: u32) -> usize {
    let Ok(mut ops) = wire::Compound::decode(args) else { return HEAD_BYTES };
    let most = max_read_bytes as usize + HEAD_BYTES;
    let mut room = HEAD_BYTES;
    while let Some(NextOp::Op(op)) = ops.next_op()
        && room < most
    {
        room += match op {
            Op::Read(args) | Op::ReadPlus(args) => args.count_bytes as usize,
            Op::Readdir(args) => (args.max_count_bytes as usize).min(LISTING_REPLY_BYTES),
            _ => 0,
        };
    }
    room.min(most)
}

/// Answers a COMPOUND: appends its results to `out`. The answer is which operation it was about, as it is counted.
pub(crate) async fn call(job: &Job<'_>, out: &mut ReplyWriter) -> Result<usize, Halt> {
    let recent = &job.conn.recent;
    let round = recent.round();
    let mut compound = Compound::new(job);
    compound.seen = recent.take_seen();
    let walk = Walk::begin(compound, &mut job.args(), out)?;
    let (frame, args_at) = (job.frame.clone(), job.args_at);
    let mut walk = match walk.go_on(frame.get(args_at..).unwrap_or_default(), out) {
        Ok(mut done) => {
            match done.only_reads {
                true => recent.keep_seen(round, done.seen.take()),
                false => recent.end_round(),
            }
            return finish(job, &done);
        }
        Err(walk) => walk,
    };
    // Others are done meanwhile, and what this one does may end between them.
    recent.end_round();
    walk.compound.seen = None;
    walk.compound.cx.wait = Wait::Allowed;
    let mut lent = out.lend();
    let work = move || {
        let done = walk.go_on(frame.get(args_at..).unwrap_or_default(), &mut lent);
        (lent, done.ok())
    };
    let (lent, done) = job.conn.offload(work).await.ok_or(Halt::Lost)?;
    recent.end_round();
    *out = lent;
    let done = done.ok_or(Halt::Lost)?;
    finish(job, &done)
}

fn finish(job: &Job<'_>, done: &compound::Walked) -> Result<usize, Halt> {
    done.tally.count(&job.conn.shard.counters);
    if done.silent { Err(Halt::Silent) } else { Ok(done.tally.about()) }
}
