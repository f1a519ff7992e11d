//! Whole ranges of files by the kernel's own means: copied, shared, zeroed, looked for. `node.rs` calls it; where a file
//! system lacks a means, reading and writing does the same.

use std::ops::Range;

use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;
use vfs::{Access, Node, VfsError, VfsResult, Wait, copy_by_buffer};

use crate::errno::vfs_error;
use crate::node::LocalNode;
use crate::{stat, sys};

/// The largest offset of any file.
const MAX_OFFSET_BYTES: u64 = i64::MAX as u64;
/// Bytes one copy_file_range is asked for.
const COPY_BYTES: u64 = 1 << 30;
/// Zeros written at a time.
const ZERO_BYTES: u64 = 1 << 20;

impl LocalNode {
    pub fn copy_to(&self, offset: u64, to: &Self, to_offset: u64, len: u64) -> VfsResult<u64> {
        self.file_for(Access::READ)?;
        to.file_for(Access::WRITE)?;
        if offset > MAX_OFFSET_BYTES || len == 0 {
            return Ok(0);
        }
        if to_offset.checked_add(len).is_none_or(|end| end > MAX_OFFSET_BYTES) {
            return Err(VfsError::TooLarge);
        }
        if self.id == to.id && offset.abs_diff(to_offset) < len {
            return copy_by_buffer(true, self, offset, to, to_offset, len);
        }
        let mut done = 0;
        while done < len {
            let (mut from_at, mut to_at) = (offset + done, to_offset + done);
            let step = usize::try_from((len - done).min(COPY_BYTES)).unwrap_or(usize::MAX);
            match copy_file_range(&self.fd, Some(&mut from_at), &to.fd, Some(&mut to_at), step) {
                Ok(0) => break,
                Ok(count) => done += count as u64,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::XDEV | Errno::INVAL | Errno::BADF) => {
                    let rest = len - done;
                    return Ok(done + copy_by_buffer(false, self, offset + done, to, to_offset + done, rest)?);
                }
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        Ok(done)
    }

    pub fn clone_to(&self, offset: u64, to: &Self, to_offset: u64, len: u64) -> VfsResult<()> {
        self.file_for(Access::READ)?;
        to.file_for(Access::WRITE)?;
        sys::clone_range(&self.fd, offset, &to.fd, to_offset, len).map_err(|errno| match errno {
            Errno::XDEV => VfsError::NotSupported,
            errno => vfs_error(errno),
        })
    }

    pub fn zero(&self, offset: u64, len: u64, release: bool) -> VfsResult<()> {
        self.file_for(Access::WRITE)?;
        let end = stat::of_fd(&self.fd)?.len_bytes.min(offset.saturating_add(len));
        if offset >= end {
            return Ok(());
        }
        let how = if release { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
        loop {
            match fallocate(&self.fd, how | FallocateFlags::KEEP_SIZE, offset, end - offset) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return self.overwrite_with_zeros(offset, end),
                other => return other.map_err(vfs_error),
            }
        }
    }

    fn overwrite_with_zeros(&self, offset: u64, end: u64) -> VfsResult<()> {
        let zeros = vec![0; (end - offset).min(ZERO_BYTES) as usize];
        let mut at = offset;
        while at < end {
            let step = (end - at).min(ZERO_BYTES);
            self.write(at, &zeros[..step as usize], Wait::Allowed)?;
            at += step;
        }
        Ok(())
    }

    pub fn data_after(&self, offset: u64) -> VfsResult<Option<Range<u64>>> {
        self.file_for(Access::READ).or_else(|_| self.file_for(Access::WRITE))?;
        let end = stat::of_fd(&self.fd)?.len_bytes;
        if offset >= end {
            return Ok(None);
        }
        // The descriptor's own position moves; nothing reads or writes by it.
        let start = match seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(offset..end)),
            Err(errno) => return Err(vfs_error(errno)),
        };
        let hole = match seek(&self.fd, SeekFrom::Hole(start)) {
            Ok(hole) => hole.min(end),
            Err(Errno::NXIO | Errno::INVAL) => end,
            Err(errno) => return Err(vfs_error(errno)),
        };
        Ok((start < hole).then_some(start..hole))
    }
}
