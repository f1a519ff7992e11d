//! READ (MS-SMB2 3.3.5.12): pages moved to the socket where they can be, else one copy into the reply.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::AccessMask;
use smb_wire::smb2::{ReadRequest, put_read_response};
use vfs::{FileKind, Node, PagePipe, VfsError, Wait};

use crate::PathCounters;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::open::{FileOpen, Object, Open};
use crate::reply::ReplyWriter;

/// Bytes before the data in the body.
const FIXED_BYTES: usize = 16;

/// READ.
pub(crate) async fn read(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let asked = ReadRequest::decode(&request.message)?;
    let open = request.open(asked.handle)?;
    let len = asked.len_bytes as usize;
    let max = request.conn.negotiated().map_or(0, |n| n.max_read_bytes);
    if asked.len_bytes > max || asked.channel != 0 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    request.check_charge(len)?;
    let file = match &open.object {
        Object::Pipe(_) => return super::ioctl::read_pipe(&open, len, out),
        Object::File(file) => file,
    };
    check(&open, file, &asked)?;
    let count = match by_pages(request, file, &asked).await? {
        Some((pages, count)) => {
            out.set_pages(pages);
            put_read_response(count as u32, out);
            let counters = &request.conn.shard.counters;
            PathCounters::bump(&counters.read_pages, 1);
            PathCounters::bump(&counters.read_pages_bytes, count as u64);
            count
        }
        None => by_copy(request, file, &asked, out).await?,
    };
    if (count == 0 && len > 0) || count < asked.minimum_bytes as usize {
        return Err(NtStatus::END_OF_FILE.into());
    }
    PathCounters::bump(&request.conn.shard.counters.read_bytes, count as u64);
    open.moved_to(asked.offset_bytes + count as u64);
    Ok(NtStatus::SUCCESS)
}

fn check(open: &Open, file: &FileOpen, asked: &ReadRequest) -> Result<(), NtStatus> {
    if file.node.kind() == FileKind::Directory {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    open.require_any(AccessMask::FILE_READ_DATA | AccessMask::FILE_EXECUTE)?;
    let end = asked.offset_bytes.checked_add(u64::from(asked.len_bytes));
    if end.is_none_or(|end| end > i64::MAX as u64) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    file.claim.check_read(asked.offset_bytes, u64::from(asked.len_bytes)).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)
}

/// The page path: only for a reply that nobody needs to see the bytes of, and large enough to be worth it.
async fn by_pages(
    request: &Request<'_>,
    file: &FileOpen,
    asked: &ReadRequest,
) -> Result<Option<(Box<dyn PagePipe>, usize)>, NtStatus> {
    let threshold = request.conn.server.config.load().page_read_bytes;
    if threshold.is_none_or(|t| asked.len_bytes < t) || !request.alone || request.is_protected() {
        return Ok(None);
    }
    let len = asked.len_bytes as usize;
    let Some(mut pipe) = request.conn.shard.pipes.as_ref().and_then(|p| p.pipe(asked.offset_bytes, len)) else {
        return Ok(None);
    };
    match file.node.read_pages(asked.offset_bytes, len, &mut *pipe, Wait::Never) {
        Ok(count) => return Ok(Some((pipe, count))),
        Err(VfsError::WouldBlock) => {}
        // Whatever is wrong, the copy path finds it again and says it.
        Err(_) => return Ok(None),
    }
    if pipe.len_bytes() > 0 {
        return Ok(None);
    }
    PathCounters::bump(&request.conn.shard.counters.read_waited, 1);
    let (node, offset) = (Arc::clone(&file.node), asked.offset_bytes);
    let filled = request.conn.offload(move || fill(&*node, offset, len, pipe)).await;
    filled.ok_or(NtStatus::INTERNAL_ERROR)
}

fn fill(node: &dyn Node, offset: u64, len: usize, mut pipe: Box<dyn PagePipe>) -> Option<(Box<dyn PagePipe>, usize)> {
    let count = node.read_pages(offset, len, &mut *pipe, Wait::Allowed).ok()?;
    Some((pipe, count))
}

/// The copy path: straight into the reply's buffer, behind a header whose count is filled in after.
async fn by_copy(
    request: &Request<'_>,
    file: &FileOpen,
    asked: &ReadRequest,
    out: &mut ReplyWriter,
) -> Result<usize, crate::failure::Failure> {
    let len = asked.len_bytes as usize;
    let count_at = out.len() + 4;
    out.room(FIXED_BYTES + len);
    put_read_response(0, out);
    let count = match file.node.read(asked.offset_bytes, out.room(len), Wait::Never) {
        Err(VfsError::WouldBlock) => {
            PathCounters::bump(&request.conn.shard.counters.read_waited, 1);
            let (node, offset, mut buf) = (Arc::clone(&file.node), asked.offset_bytes, out.lend());
            let read = request.conn.offload(move || {
                let room = buf.spare().get_mut(..len).unwrap_or_default();
                let result = node.read(offset, room, Wait::Allowed);
                (buf, result)
            });
            let (buf, result) = read.await.ok_or(NtStatus::INTERNAL_ERROR)?;
            out.give_back(buf);
            result?
        }
        result => result?,
    };
    out.advance(count);
    out.patch_u32(count_at, count as u32);
    let counters = &request.conn.shard.counters;
    let (path, bytes) = match (request.arrival.is_sealed(), request.is_protected()) {
        (true, _) => (&counters.read_sealed, Some(&counters.read_sealed_bytes)),
        (false, true) => (&counters.read_signed, Some(&counters.read_signed_bytes)),
        (false, false) => (&counters.read_copy, None),
    };
    PathCounters::bump(path, 1);
    if let Some(bytes) = bytes {
        PathCounters::bump(bytes, count as u64);
    }
    Ok(count)
}
