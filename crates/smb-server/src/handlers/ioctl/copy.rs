//! Copies that the data need not travel for: resume keys and chunks (MS-SMB2 3.3.5.15.5, 3.3.5.15.6), shared extents
//! (MS-FSA 2.1.5.10.4).

use std::sync::Arc;

use coherence::Change;
use smb_wire::NtStatus;
use smb_wire::codec::{Put, Reader, Truncated};
use smb_wire::fscc::{AccessMask, FileAttributes, NotifyFilter};
use smb_wire::smb2::{FileHandle, IoctlRequest, fsctl};
use vfs::VfsError;

use super::sparse::stored;
use super::{changing, put, require_file};
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::grants;
use crate::open::{FileOpen, Object, Open};
use crate::reply::ReplyWriter;
use crate::session::Session;

/// What a Windows server allows (MS-SMB2 3.3.3: ServerSideCopyMaxNumberofChunks and its like).
const MAX_CHUNKS: u32 = 256;
const MAX_CHUNK_BYTES: u32 = 1 << 20;
const MAX_TOTAL_BYTES: u32 = 16 << 20;
/// SRV_COPYCHUNK_RESPONSE.
const RESPONSE_BYTES: u32 = 12;
const KEY_BYTES: usize = 24;
/// A key, ContextLength, and a context that nobody has.
const KEY_RESPONSE_BYTES: u32 = 32;

const READS: AccessMask = AccessMask::FILE_READ_DATA.union(AccessMask::FILE_EXECUTE);

/// FSCTL_SRV_REQUEST_RESUME_KEY. A key names an open of the session that asked; in any other it names nothing.
pub(super) fn resume_key(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    open.file()?;
    if asked.max_output_response < KEY_RESPONSE_BYTES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let mut output = Vec::with_capacity(KEY_RESPONSE_BYTES as usize);
    open.handle.put(&mut output);
    output.put_u64(request.session()?.id);
    output.put_u32(0);
    output.put_u32(0);
    put(asked, open.handle, &output, out);
    Ok(NtStatus::SUCCESS)
}

fn by_key(session: &Session, key: &[u8; KEY_BYTES]) -> Result<Arc<Open>, NtStatus> {
    let mut r = Reader::new(key);
    let wanted = FileHandle::decode(&mut r).map_err(|_| NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let id = r.u64().map_err(|_| NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let open = session.open(wanted).filter(|_| session.id == id);
    open.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
}

/// SRV_COPYCHUNK (2.2.31.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunk {
    from: u64,
    to: u64,
    len: u32,
}

/// SRV_COPYCHUNK_COPY (2.2.31.1).
struct CopyRequest {
    key: [u8; KEY_BYTES],
    count: u32,
    chunks: Vec<Chunk>,
}

impl CopyRequest {
    /// Chunks beyond what is allowed are counted and not read.
    fn decode(input: &[u8]) -> Result<Self, Truncated> {
        let mut r = Reader::new(input);
        let key = r.array()?;
        let count = r.u32()?;
        r.skip(4)?;
        let chunk = |r: &mut Reader<'_>| -> Result<Chunk, Truncated> {
            let chunk = Chunk { from: r.u64()?, to: r.u64()?, len: r.u32()? };
            r.skip(4)?;
            Ok(chunk)
        };
        let chunks = (0..count.min(MAX_CHUNKS)).map(|_| chunk(&mut r)).collect::<Result<_, _>>()?;
        Ok(Self { key, count, chunks })
    }

    fn is_within_limits(&self) -> bool {
        let total: u64 = self.chunks.iter().map(|c| u64::from(c.len)).sum();
        self.count <= MAX_CHUNKS
            && total <= u64::from(MAX_TOTAL_BYTES)
            && self.chunks.iter().all(|c| (1..=MAX_CHUNK_BYTES).contains(&c.len))
    }
}

/// How far a copy got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Copied {
    chunks: u32,
    /// Of a chunk that was copied in part.
    partial_bytes: u32,
    total_bytes: u32,
}

/// FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE.
pub(super) async fn copy_chunks(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let to = request.open(asked.handle)?;
    if asked.max_output_response < RESPONSE_BYTES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let wanted = CopyRequest::decode(asked.input)?;
    let from = by_key(request.session()?, &wanted.key)?;
    if !wanted.is_within_limits() {
        // The limits are told, with the status of a failure (3.3.5.15.6.2).
        let limits = Copied { chunks: MAX_CHUNKS, partial_bytes: MAX_CHUNK_BYTES, total_bytes: MAX_TOTAL_BYTES };
        respond(asked, to.handle, limits, out);
        return Ok(NtStatus::INVALID_PARAMETER);
    }
    check_rights(&from, &to, asked.code)?;
    let FileOpen { claim, changes, .. } = to.file()?;
    let change = changes.add();
    grants::ask(request, out, claim, Change::Write).await?;
    change.begin()?;
    let opens = (Arc::clone(&from), Arc::clone(&to));
    let job = move || {
        let copied = copy_all(&opens.0, &opens.1, &wanted.chunks);
        drop(change);
        copied
    };
    let (copied, result) = request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?;
    if copied.total_bytes > 0
        && let Object::File(file) = &to.object
    {
        file.tell_changed(NotifyFilter::LAST_WRITE | NotifyFilter::SIZE);
    }
    // Whoever was let cache meanwhile may have read what was there before.
    grants::ask(request, out, claim, Change::Write).await?;
    // What was done before a failure is told with it.
    respond(asked, to.handle, copied, out);
    Ok(result.map_or_else(|failure| failure.status, |()| NtStatus::SUCCESS))
}

fn respond(asked: &IoctlRequest<'_>, handle: FileHandle, copied: Copied, out: &mut ReplyWriter) {
    let mut output = Vec::with_capacity(RESPONSE_BYTES as usize);
    output.put_u32(copied.chunks);
    output.put_u32(copied.partial_bytes);
    output.put_u32(copied.total_bytes);
    put(asked, handle, &output, out);
}

/// Reading the source, writing the target; FSCTL_SRV_COPYCHUNK wants the target to be readable too.
fn check_rights(from: &Open, to: &Open, code: u32) -> Result<(), NtStatus> {
    let (Object::File(source), Object::File(target)) = (&from.object, &to.object) else {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    };
    require_file(source)?;
    require_file(target)?;
    from.require_any(READS)?;
    to.require_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_APPEND_DATA)?;
    if code == fsctl::SRV_COPYCHUNK {
        to.require_any(AccessMask::FILE_READ_DATA)?;
    }
    Ok(())
}

fn copy_all(from: &Open, to: &Open, chunks: &[Chunk]) -> (Copied, Result<(), Failure>) {
    let mut copied = Copied::default();
    let (Ok(source), Ok(target)) = (from.file(), to.file()) else {
        return (copied, Err(NtStatus::INVALID_DEVICE_REQUEST.into()));
    };
    let may_overwrite = to.granted.contains(AccessMask::FILE_WRITE_DATA);
    for chunk in chunks {
        if let Err(failure) = copy_one(source, target, may_overwrite, chunk) {
            return (copied, Err(failure));
        }
        copied.chunks += 1;
        copied.total_bytes += chunk.len;
    }
    (copied, Ok(()))
}

fn copy_one(source: &FileOpen, target: &FileOpen, may_overwrite: bool, chunk: &Chunk) -> Result<(), Failure> {
    let len = u64::from(chunk.len);
    let ends = |at: u64| at.checked_add(len).filter(|&end| end <= i64::MAX as u64);
    if ends(chunk.to).is_none() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if ends(chunk.from).is_none_or(|end| source.node.attr().is_ok_and(|attr| end > attr.len_bytes)) {
        return Err(NtStatus::INVALID_VIEW_SIZE.into());
    }
    if !may_overwrite && chunk.to < target.node.attr()?.len_bytes {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    source.claim.check_read(chunk.from, len).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
    target.claim.check_write(chunk.to, len).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
    let same_backend = Arc::ptr_eq(&source.share.backend, &target.share.backend);
    let count = if same_backend {
        source.node.copy_range(chunk.from, &*target.node, chunk.to, len)?
    } else {
        vfs::copy_by_buffer(false, &*source.node, chunk.from, &*target.node, chunk.to, len)?
    };
    if count < len { Err(NtStatus::INVALID_VIEW_SIZE.into()) } else { Ok(()) }
}

/// FSCTL_DUPLICATE_EXTENTS_TO_FILE (MS-FSCC 2.3.7, MS-FSA 2.1.5.10.4).
pub(super) async fn duplicate_extents(
    request: &mut Request<'_>,
    asked: &IoctlRequest<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let to = request.open(asked.handle)?;
    let target = to.file()?;
    if !target.share.backend.capabilities().contains(vfs::Capabilities::REFLINK) {
        return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
    }
    let mut r = Reader::new(asked.input);
    let handle = FileHandle::decode(&mut r)?;
    let (from_bytes, to_bytes, len) = (r.u64()?, r.u64()?, r.u64()?);
    let from = request.session()?.open(handle);
    let from = from.ok_or(NtStatus::INVALID_HANDLE)?;
    require_file(target)?;
    require_file(from.file()?)?;
    from.require_any(READS)?;
    to.require_any(AccessMask::FILE_WRITE_DATA)?;
    let ends = |at: u64| at.checked_add(len).filter(|&end| end <= i64::MAX as u64);
    if ends(from_bytes).is_none() || ends(to_bytes).is_none() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if len > 0 {
        changing(request, out, &to, move |target| {
            let source = from.file()?;
            check_extents(source, target, (from_bytes, to_bytes, len))?;
            source.claim.check_read(from_bytes, len).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
            target.claim.check_write(to_bytes, len).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
            match source.node.clone_range(from_bytes, &*target.node, to_bytes, len) {
                // Another volume, or blocks that do not line up.
                Err(VfsError::CrossDevice | VfsError::InvalidArgument) => Err(NtStatus::INVALID_PARAMETER.into()),
                result => Ok(result?),
            }
        })
        .await?;
    }
    target.tell_changed(NotifyFilter::LAST_WRITE | NotifyFilter::SIZE);
    put(asked, to.handle, &[], out);
    Ok(NtStatus::SUCCESS)
}

/// What is refused of a clone before the file system is asked: what is not in both files, what overlaps itself, holes where
/// the target has none (MS-FSA 2.1.5.10.4).
fn check_extents(source: &FileOpen, target: &FileOpen, (from, to, len): (u64, u64, u64)) -> Result<(), Failure> {
    let beyond = from + len > source.node.attr()?.len_bytes || to + len > target.node.attr()?.len_bytes;
    let overlaps = source.node.id() == target.node.id() && from < to + len && to < from + len;
    let is_sparse = |file: &FileOpen| stored(file).map(|a| a.contains(FileAttributes::SPARSE_FILE));
    if beyond || overlaps || is_sparse(source)? && !is_sparse(target)? {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(count: u32, chunks: &[(u64, u64, u32)]) -> Vec<u8> {
        let mut input = vec![7; KEY_BYTES];
        input.put_u32(count);
        input.put_u32(0);
        for &(from, to, len) in chunks {
            input.put_u64(from);
            input.put_u64(to);
            input.put_u32(len);
            input.put_u32(0);
        }
        input
    }

    #[test]
    fn chunks_are_read() {
        let wanted = CopyRequest::decode(&request(2, &[(1, 2, 3), (4, 5, 6)])).unwrap();
        assert_eq!(wanted.key, [7; KEY_BYTES]);
        assert_eq!(wanted.chunks, [Chunk { from: 1, to: 2, len: 3 }, Chunk { from: 4, to: 5, len: 6 }]);
    }

    #[test]
    fn what_is_cut_is_refused() {
        let input = request(2, &[(1, 2, 3), (4, 5, 6)]);
        for len in 0..input.len() {
            assert!(CopyRequest::decode(&input[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn the_limits_are_those_of_the_book() {
        let full = vec![(0, 0, MAX_CHUNK_BYTES); 16];
        assert!(CopyRequest::decode(&request(16, &full)).unwrap().is_within_limits());
        let over = vec![(0, 0, MAX_CHUNK_BYTES); 17];
        assert!(!CopyRequest::decode(&request(17, &over)).unwrap().is_within_limits());
        let many = vec![(0, 0, 1); 256];
        assert!(CopyRequest::decode(&request(256, &many)).unwrap().is_within_limits());
        assert!(!CopyRequest::decode(&request(257, &many)).unwrap().is_within_limits());
        for len in [0, MAX_CHUNK_BYTES + 1] {
            assert!(!CopyRequest::decode(&request(1, &[(0, 0, len)])).unwrap().is_within_limits(), "{len}");
        }
    }
}
