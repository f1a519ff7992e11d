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
pub(crate) mod state;
mod table;
mod view;
mod wanted;

use vfs::Wait;

use crate::dispatch::Job;
use crate::failure::Halt;
use crate::reply::ReplyWriter;
pub(crate) use acl::{ACCESS_KEY, DEFAULT_KEY, MAX_XATTR_BYTES};
use compound::{Compound, Walk};

/// Answers a COMPOUND: appends its results to `out`.
pub(crate) async fn call(job: &Job<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let walk = Walk::begin(Compound::new(job), &mut job.args(), out)?;
    let (frame, args_at) = (job.frame.clone(), job.args_at);
    let mut walk = match walk.go_on(frame.get(args_at..).unwrap_or_default(), out) {
        Ok(done) => {
            return finish(job, &done);
        }
        Err(walk) => walk,
    };
    walk.compound.cx.wait = Wait::Allowed;
    let mut lent = out.lend();
    let work = move || {
        let done = walk.go_on(frame.get(args_at..).unwrap_or_default(), &mut lent);
        (lent, done.ok())
    };
    let (lent, done) = job.conn.offload(work).await.ok_or(Halt::Lost)?;
    *out = lent;
    let done = done.ok_or(Halt::Lost)?;
    finish(job, &done)
}

fn finish(job: &Job<'_>, done: &Compound) -> Result<(), Halt> {
    done.tally.count(&job.conn.shard.counters);
    if done.silent { Err(Halt::Silent) } else { Ok(()) }
}
