//! Holes and space: sparse files, zeroed ranges, what is allocated, trim, and the compression there is not
//! (MS-FSA 2.1.5.10).

use std::ops::Range;

use smb_wire::NtStatus;
use smb_wire::codec::{Put, Reader};
use smb_wire::fscc::{AccessMask, FileAttributes, NotifyFilter};
use smb_wire::smb2::IoctlRequest;
use vfs::Capabilities;

use super::{changing, on_worker, put, require_file};
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::meta::{read_dos, store_dos};
use crate::open::FileOpen;
use crate::reply::ReplyWriter;

/// FILE_ALLOCATED_RANGE_BUFFER.
const RANGE_BYTES: usize = 16;
/// FILE_ZERO_DATA_INFORMATION.
const ZERO_DATA_BYTES: usize = 16;
/// Ranges answered at a time at most: the client asks on from the last.
const MOST_RANGES: usize = 1 << 16;
/// Ranges of one trim that are looked at; the client asks again for the others.
const MOST_TRIMMED: usize = 4096;
/// What is trimmed is aligned inwards to blocks of this size.
const TRIM_BYTES: u64 = 4096;
/// COMPRESSION_FORMAT_NONE.
const NOT_COMPRESSED: u16 = 0;

/// FSCTL_SET_SPARSE. Without a buffer the file becomes sparse; else its first byte says (MS-FSCC 2.3.69).
pub(super) async fn set_sparse(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    if file.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    require_file(file)?;
    open.require_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_APPEND_DATA | AccessMask::FILE_WRITE_ATTRIBUTES)?;
    let sparse = asked.input.first().is_none_or(|&byte| byte != 0);
    if sparse && !file.share.backend.capabilities().contains(Capabilities::SPARSE) {
        return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
    }
    on_worker(request, &open, move |file| {
        let mut attributes = stored(file)?;
        let was = attributes.contains(FileAttributes::SPARSE_FILE);
        if was == sparse {
            return Ok(());
        }
        attributes.set(FileAttributes::SPARSE_FILE, sparse);
        store_dos(&*file.node, &file.cred, Some(attributes), None)?;
        file.tell_changed(NotifyFilter::ATTRIBUTES);
        Ok(())
    })
    .await?;
    put(asked, open.handle, &[], out);
    Ok(NtStatus::SUCCESS)
}

/// The attributes stored with a file.
pub(super) fn stored(file: &FileOpen) -> Result<FileAttributes, Failure> {
    Ok(FileAttributes::from_bits_retain(read_dos(&*file.node)?.attributes.unwrap_or(0)))
}

/// FSCTL_SET_ZERO_DATA. A sparse file gives the space back, another keeps it.
pub(super) async fn set_zero_data(
    request: &mut Request<'_>,
    asked: &IoctlRequest<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let open = request.open(asked.handle)?;
    require_file(open.file()?)?;
    open.require_any(AccessMask::FILE_WRITE_DATA)?;
    if asked.input.len() < ZERO_DATA_BYTES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let mut r = Reader::new(asked.input);
    let range = r.u64()?..r.u64()?;
    if range.start > range.end || range.end > i64::MAX as u64 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    changing(request, out, &open, move |file| {
        let len = range.end - range.start;
        file.claim.check_write(range.start, len).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
        let sparse = stored(file)?.contains(FileAttributes::SPARSE_FILE);
        file.node.zero_range(range.start, len, sparse)?;
        file.tell_changed(NotifyFilter::LAST_WRITE);
        Ok(())
    })
    .await?;
    put(asked, open.handle, &[], out);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_QUERY_ALLOCATED_RANGES. A file that is not sparse is all data.
pub(super) async fn query_allocated_ranges(
    request: &mut Request<'_>,
    asked: &IoctlRequest<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let open = request.open(asked.handle)?;
    require_file(open.file()?)?;
    open.require_any(AccessMask::FILE_READ_DATA)?;
    if asked.input.len() < RANGE_BYTES {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let mut r = Reader::new(asked.input);
    let (start, len) = (r.u64()?, r.u64()?);
    let end = start.checked_add(len).filter(|&end| end <= i64::MAX as u64).ok_or(NtStatus::INVALID_PARAMETER)?;
    let most = (asked.max_output_response as usize / RANGE_BYTES).min(MOST_RANGES);
    let (ranges, all) = on_worker(request, &open, move |file| allocated(file, start..end, most)).await?;
    if ranges.is_empty() && !all {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    let mut output = Vec::with_capacity(ranges.len() * RANGE_BYTES);
    for range in ranges {
        output.put_u64(range.start);
        output.put_u64(range.end - range.start);
    }
    put(asked, open.handle, &output, out);
    Ok(if all { NtStatus::SUCCESS } else { NtStatus::BUFFER_OVERFLOW })
}

/// The first `most` ranges with data, and whether those are all.
fn allocated(file: &FileOpen, within: Range<u64>, most: usize) -> Result<(Vec<Range<u64>>, bool), Failure> {
    let end = within.end.min(file.node.attr()?.len_bytes);
    let sparse = stored(file)?.contains(FileAttributes::SPARSE_FILE);
    let mut ranges = Vec::new();
    let mut at = within.start;
    while at < end {
        let next = if sparse { file.node.next_data(at)? } else { Some(at..end) };
        let Some(next) = next.filter(|next| next.start < end && next.start < next.end) else { break };
        if ranges.len() == most {
            return Ok((ranges, false));
        }
        ranges.push(next.start..next.end.min(end));
        at = next.end;
    }
    Ok((ranges, true))
}

/// FSCTL_FILE_LEVEL_TRIM (MS-FSCC 2.3.73): the client does not need these ranges' contents any more. Their whole blocks
/// become holes, where the file system has such; the answer says how many ranges were looked at.
pub(super) async fn trim(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    require_file(open.file()?)?;
    open.require_any(AccessMask::FILE_WRITE_DATA)?;
    let mut r = Reader::new(asked.input);
    r.skip(4)?; // Key: of a byte-range lock, always 0 over SMB
    let count = r.u32()? as usize;
    if count == 0 || r.remaining() / RANGE_BYTES < count {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let mut ranges = Vec::new();
    for _ in 0..count.min(MOST_TRIMMED) {
        let (start, len) = (r.u64()?, r.u64()?);
        let end = start.checked_add(len).filter(|&end| end <= i64::MAX as u64).ok_or(NtStatus::INVALID_PARAMETER)?;
        ranges.push(start..end);
    }
    let looked_at = ranges.len() as u32;
    changing(request, out, &open, move |file| ranges.into_iter().try_for_each(|range| release(file, range))).await?;
    let mut output = Vec::new();
    if asked.max_output_response >= 4 {
        output.put_u32(looked_at);
    }
    put(asked, open.handle, &output, out);
    Ok(NtStatus::SUCCESS)
}

/// Gives back the space of the whole blocks in a range.
fn release(file: &FileOpen, range: Range<u64>) -> Result<(), Failure> {
    if !file.share.backend.capabilities().contains(Capabilities::SPARSE) {
        return Ok(());
    }
    if let Some((start, len)) = whole_blocks(&range, file.node.attr()?.len_bytes) {
        file.claim.check_write(start, len).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
        file.node.zero_range(start, len, true)?;
    }
    Ok(())
}

/// Where the whole blocks begin that are in `range` of a file of `file_bytes`, and their length.
fn whole_blocks(range: &Range<u64>, file_bytes: u64) -> Option<(u64, u64)> {
    let end = range.end.min(file_bytes) / TRIM_BYTES * TRIM_BYTES;
    let start = range.start.checked_next_multiple_of(TRIM_BYTES)?;
    end.checked_sub(start).filter(|&len| len > 0).map(|len| (start, len))
}

/// FSCTL_GET_COMPRESSION: nothing is compressed.
pub(super) fn get_compression(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    open.file()?;
    if asked.max_output_response < 2 {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    put(asked, open.handle, &NOT_COMPRESSED.to_le_bytes(), out);
    Ok(NtStatus::SUCCESS)
}

/// FSCTL_SET_COMPRESSION: to be uncompressed is all there is.
pub(super) fn set_compression(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    open.file()?;
    open.require_any(AccessMask::FILE_WRITE_DATA)?;
    if Reader::new(asked.input).u16()? != NOT_COMPRESSED {
        return Err(NtStatus::NOT_SUPPORTED.into());
    }
    put(asked, open.handle, &[], out);
    Ok(NtStatus::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_blocks_are_trimmed() {
        assert_eq!(whole_blocks(&(100..9000), 20_000), Some((4096, 4096)));
        assert_eq!(whole_blocks(&(0..8192), 20_000), Some((0, 8192)));
        assert_eq!(whole_blocks(&(0..1 << 40), 20_000), Some((0, 16_384)));
        for range in [0..4095, 1..8191, 5000..5000, 19_000..1 << 40, 1 << 40..1 << 41, u64::MAX - 1..u64::MAX] {
            assert_eq!(whole_blocks(&range, 20_000), None, "{range:?}");
        }
    }
}
