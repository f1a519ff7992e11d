//! WRITE and COMMIT (RFC 1813 3.3.7, 3.3.21): straight from the received record, in place or beside the connection's
//! thread.

use std::sync::Arc;

use coherence::{AccessKinds, OpenClaim};
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{CommitArgs, CommitOk, StableHow, WriteArgs, WriteOk};
use nfs_wire::xdr::{Put, Reader, Xdr, offset_in};
use vfs::{Access, Attr, FileKind, Frame, Node, SetAttr, Sync, VfsResult, Wait};

use super::answer;
use super::object::wcc_of;
use super::read::File;
use crate::PathCounters;
use crate::attr::MAX_FILE_BYTES;
use crate::dispatch::Job;
use crate::failure::{Done, Halt, Stop};
use crate::files::{Changing, Cx, Target};
use crate::reply::ReplyWriter;
use crate::server::Server;
use crate::{guard, tell};

const SET_UID: u32 = 0o4000;
/// Set-group-id means something only together with execution.
const SET_GID: u32 = 0o2010;

/// WRITE.
pub async fn write(job: &Job<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = WriteArgs::decode(&mut job.args())?;
    let begin = out.len();
    let mut changing = None;
    // Before the data are: should a sync fail meanwhile, the client must not take them for what was written after that.
    let verifier = job.cx.server.write_verifier();
    let done = store(job, &args, &mut changing).await;
    out.truncate(begin);
    let wcc = wcc_of(&job.cx, changing.as_ref(), &args.head.handle);
    let done = done.map(|(count_bytes, committed)| WriteOk { wcc, count_bytes, committed, verifier });
    answer(done, || wcc, out)
}

async fn store(job: &Job<'_>, args: &WriteArgs<'_>, changing: &mut Option<Changing>) -> Done<(u32, StableHow)> {
    let head = &args.head;
    if head.count_bytes as usize != args.data.len() {
        return Err(NfsStat3::INVAL.into());
    }
    let settings = job.cx.server.settings.load_full();
    // A server may write less than it is asked to, and says so.
    let len = args.data.len().min(settings.config.max_write_bytes as usize);
    let data = args.data.get(..len).unwrap_or_default();
    let file = File::of(job, &head.handle, Access::WRITE).await?;
    if head.offset_bytes.checked_add(len as u64).is_none_or(|end| end > MAX_FILE_BYTES) {
        return Err(NfsStat3::FBIG.into());
    }
    *changing = Some(file.target.begin_change());
    let server = &job.cx.server;
    let claim = guard::io(server, file.attr.id, AccessKinds::WRITE, head.offset_bytes, len as u64)?;
    let counters = &job.conn.shard.counters;
    if data.is_empty() {
        return Ok((0, head.stable));
    }
    let object = Arc::clone(&file.target.object);
    let large = len >= settings.config.worker_write_bytes as usize;
    let beside = large && job.more_behind && (job.conn.shard.idle_cores)() > 1;
    let write = Write { offset: head.offset_bytes, stable: head.stable, file, claim };
    if head.stable != StableHow::Unstable || beside || object.pace.is_slow(|| server.env.clock.monotonic_ms()) {
        PathCounters::bump(&counters.write_worker, 1);
        let at = offset_in(job.frame, data).ok_or(NfsStat3::SERVERFAULT)?;
        let frame: Frame = job.frame.part(at..at + len).ok_or(NfsStat3::SERVERFAULT)?;
        let server = Arc::clone(server);
        let written = job.conn.offload(move || write.run(&server, &frame)).await;
        written.unwrap_or(Err(NfsStat3::SERVERFAULT.into()))?;
        PathCounters::bump(&counters.write_worker_bytes, len as u64);
    } else {
        PathCounters::bump(&counters.write_inline, 1);
        write.run(server, data)?;
    }
    PathCounters::bump(&counters.write_bytes, len as u64);
    Ok((len as u32, head.stable))
}

/// A write that is allowed.
struct Write {
    offset: u64,
    stable: StableHow,
    file: File,
    claim: OpenClaim,
}

impl Write {
    fn run(&self, server: &Server, data: &[u8]) -> Done<()> {
        let File { target, attr, node } = &self.file;
        let begun = server.env.clock.monotonic_ms();
        let written = node.write(self.offset, data, Wait::Allowed);
        target.object.pace.note(begun, server.env.clock.monotonic_ms());
        guard::written(server, &self.claim);
        tell::written(&target.object);
        written.map_err(no_wait)?;
        drop_set_ids(target, attr, &**node)?;
        match self.stable {
            StableHow::Unstable => Ok(()),
            StableHow::DataSync => Ok(server.synced(node.sync(Sync::Data))?),
            StableHow::FileSync => Ok(server.synced(node.sync(Sync::All))?),
        }
    }
}

/// After a write: set-user-id and set-group-id are taken away as the system does for a local writer; the process that
/// writes here may be spared from it.
pub(crate) fn drop_set_ids(target: &Target, attr: &Attr, node: &dyn Node) -> VfsResult<()> {
    let set_ids = attr.mode & SET_UID != 0 || attr.mode & SET_GID == SET_GID;
    if !set_ids || target.cred.uid == 0 {
        return Ok(());
    }
    let mode = Some(attr.mode & !(SET_UID | 0o2000));
    let owner = vfs::Cred { uid: attr.uid, ..target.cred.clone() };
    node.set_attr(&owner, &SetAttr { mode, ..SetAttr::default() })
}

fn no_wait(error: vfs::VfsError) -> Stop {
    match Stop::from(error) {
        Stop::WouldBlock => NfsStat3::JUKEBOX.into(),
        other => other,
    }
}

/// COMMIT.
pub fn commit(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = CommitArgs::decode(args)?;
    if cx.wait == Wait::Never {
        return Err(Halt::WouldBlock);
    }
    let mut changing = None;
    let done = make_safe(cx, &args, &mut changing);
    let wcc = wcc_of(cx, changing.as_ref(), &args.handle);
    answer(done.map(|verifier| CommitOk { wcc, verifier }), || wcc, out)
}

fn make_safe(cx: &Cx, args: &CommitArgs<'_>, changing: &mut Option<Changing>) -> Done<[u8; 8]> {
    let target = cx.target(&args.handle)?;
    let attr = target.attr(cx)?;
    *changing = Some(target.begin_change());
    if attr.kind != FileKind::File {
        return Err(NfsStat3::INVAL.into());
    }
    // What was true before the data were made safe: a failure meanwhile counts.
    let verifier = cx.server.write_verifier();
    cx.server.synced(target.object.for_sync().sync(Sync::All))?;
    Ok(verifier)
}
