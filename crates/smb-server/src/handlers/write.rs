//! WRITE (MS-SMB2 3.3.5.13): straight from the received frame, in place or beside the connection's thread.

use std::sync::Arc;

use coherence::Change;
use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, NotifyFilter};
use smb_wire::smb2::{CreateOptions, WriteRequest, WriteResponse};
use vfs::{FileKind, Frame, Sync, Wait};

use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::grants;
use crate::open::{FileOpen, Object, Open};
use crate::reply::ReplyWriter;
use crate::{Clock, PathCounters};

/// SMB2_WRITEFLAG_WRITE_THROUGH.
const WRITE_THROUGH: u32 = 1;
/// No byte lies at or beyond this: the largest file of NTFS, which clients take this to be.
const MAX_FILE_BYTES: u64 = 0xfff_ffff_0000;

/// WRITE.
pub(crate) async fn write(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let asked = WriteRequest::decode(&message)?;
    let open = request.open(asked.handle)?;
    let max = request.conn.negotiated().map_or(0, |n| n.max_write_bytes);
    if asked.data.len() > max as usize || asked.channel != 0 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    request.check_charge(asked.data.len())?;
    let file = match &open.object {
        Object::Pipe(_) => {
            super::ioctl::write_pipe(request, &open, asked.data).await?;
            WriteResponse { count_bytes: asked.data.len() as u32 }.put(out);
            return Ok(NtStatus::SUCCESS);
        }
        Object::File(file) => file,
    };
    let offset = check(&open, file, &asked)?;
    if asked.data.is_empty() {
        // Nothing to do, nothing that could fail, and nobody to ask (MS-FSA 2.1.5.4).
        WriteResponse { count_bytes: 0 }.put(out);
        return Ok(NtStatus::SUCCESS);
    }
    // What waits, or goes beside this thread, is counted; what does neither is done before anything else comes.
    let mut change = file.claim.is_contended().then(|| file.changes.add());
    grants::ask(request, out, &file.claim, Change::Write).await?;
    let through = asked.flags & WRITE_THROUGH != 0 || file.options.contains(CreateOptions::WRITE_THROUGH);
    let data_range = asked.data_offset..asked.data_offset + asked.data.len();
    if through || belongs_on_worker(request, file, asked.data.len()) {
        PathCounters::bump(&request.conn.shard.counters.write_worker, 1);
        let data = message.part(data_range).ok_or(NtStatus::INVALID_PARAMETER)?;
        let change = change.get_or_insert_with(|| file.changes.add());
        change.begin()?;
        let (clock, open, change) = (Arc::clone(&request.conn.server.env.clock), Arc::clone(&open), Arc::clone(change));
        let job = move || {
            let done = on_worker(&*clock, &open, offset, &data, through);
            drop(change);
            done
        };
        request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)??;
        PathCounters::bump(&request.conn.shard.counters.write_worker_bytes, asked.data.len() as u64);
    } else {
        change.as_ref().map_or(Ok(()), |change| change.begin())?;
        PathCounters::bump(&request.conn.shard.counters.write_inline, 1);
        let clock = &request.conn.server.env.clock;
        let begun = clock.monotonic_ms();
        file.node.write(offset, asked.data, Wait::Allowed)?;
        file.share.pace.note(begun, clock.monotonic_ms());
    }
    if file.share.watchers.want_data() {
        tell_written(file, offset + asked.data.len() as u64);
    }
    file.note_written();
    drop(change);
    // Whoever was let cache meanwhile may have read what was there before.
    grants::ask(request, out, &file.claim, Change::Write).await?;
    PathCounters::bump(&request.conn.shard.counters.write_bytes, asked.data.len() as u64);
    WriteResponse { count_bytes: asked.data.len() as u32 }.put(out);
    Ok(NtStatus::SUCCESS)
}

/// A write that reaches the end of the file counts as a change of its length.
fn tell_written(file: &FileOpen, end: u64) {
    let mut filter = NotifyFilter::LAST_WRITE;
    filter.set(NotifyFilter::SIZE, file.node.attr().is_ok_and(|attr| attr.len_bytes == end));
    file.tell_changed(filter);
}

/// Checks the right to write there; the answer is where.
fn check(open: &Open, file: &FileOpen, asked: &WriteRequest<'_>) -> Result<u64, Failure> {
    if file.node.kind() == FileKind::Directory {
        return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
    }
    open.require_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_APPEND_DATA)?;
    let len = asked.data.len() as u64;
    let offset = asked.offset_bytes;
    // Negative offsets, which locally mean the end or the current position, mean nothing here.
    let end = offset.checked_add(len).filter(|&end| end <= i64::MAX as u64).ok_or(NtStatus::INVALID_PARAMETER)?;
    if len > 0 && end > MAX_FILE_BYTES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if !open.granted.contains(AccessMask::FILE_WRITE_DATA) && offset < file.node.attr()?.len_bytes {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    file.claim.check_write(offset, len).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
    Ok(offset)
}

/// A large write goes beside the connection's thread when more requests wait behind it and a core has nothing to do; a
/// small one never pays for the hop, unless the device has shown to be slow, or it is to a stream, all of which is read first.
fn belongs_on_worker(request: &Request<'_>, file: &FileOpen, len: usize) -> bool {
    let large = len >= request.conn.server.config.load().worker_write_bytes as usize;
    (large && request.more_behind && (request.conn.shard.idle_cores)() > 0)
        || file.stream.is_some()
        || file.share.pace.is_slow(|| request.conn.server.env.clock.monotonic_ms())
}

fn on_worker(clock: &dyn Clock, open: &Open, offset: u64, data: &Frame, through: bool) -> Result<(), Failure> {
    let file = open.file()?;
    let begun = clock.monotonic_ms();
    file.node.write(offset, data, Wait::Allowed)?;
    file.share.pace.note(begun, clock.monotonic_ms());
    if through {
        file.node.sync(Sync::Data)?;
    }
    Ok(())
}
