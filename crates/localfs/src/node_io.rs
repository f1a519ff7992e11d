//! Data of an open object. `node.rs` calls it. Nothing here checks a permission by name: what may be done
//! was decided when the descriptor was opened.

use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{FallocateFlags, OFlags, fallocate, fdatasync, fsync, ftruncate, readlinkat};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwrite};
use vfs::{Access, FileKind, PagePipe, Sync, VfsError, VfsResult, Wait};

use crate::errno::{from_io, vfs_error};
use crate::node::LocalNode;
use crate::stat;

/// The largest offset of any file.
const MAX_OFFSET_BYTES: u64 = i64::MAX as u64;

impl LocalNode {
    pub fn read_at(&self, offset: u64, buf: &mut [u8], wait: Wait) -> VfsResult<usize> {
        self.file_for(Access::READ)?;
        if offset > MAX_OFFSET_BYTES || buf.is_empty() {
            return Ok(0);
        }
        let end = usize::try_from(MAX_OFFSET_BYTES - offset).unwrap_or(usize::MAX).min(buf.len());
        let buf = &mut buf[..end];
        match wait {
            Wait::Never => self.read_cached(offset, buf),
            Wait::Allowed => self.read_full(offset, buf),
        }
    }

    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> VfsResult<usize> {
        if !self.nowait_reads.load(Relaxed) {
            return self.read_without_nowait(offset, buf);
        }
        match preadv2(&self.fd, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT) {
            Ok(count) if count == buf.len() => Ok(count),
            Ok(count) => self.short_read(offset, count),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.nowait_reads.store(false, Relaxed);
                if self.id.dev == self.root.id.dev {
                    self.root.nowait_reads.store(false, Relaxed);
                }
                self.read_without_nowait(offset, buf)
            }
            Err(Errno::INTR) => Err(VfsError::WouldBlock),
            Err(errno) => Err(vfs_error(errno)),
        }
    }

    /// A read that did not wait came back short: because the file ends there, or because the rest is not in memory.
    fn short_read(&self, offset: u64, count: usize) -> VfsResult<usize> {
        let end = stat::of_fd(&self.fd)?.len_bytes;
        if offset + count as u64 >= end { Ok(count) } else { Err(VfsError::WouldBlock) }
    }

    fn read_without_nowait(&self, offset: u64, buf: &mut [u8]) -> VfsResult<usize> {
        if self.root.in_memory && self.id.dev == self.root.id.dev {
            self.read_full(offset, buf)
        } else {
            Err(VfsError::WouldBlock)
        }
    }

    fn read_full(&self, offset: u64, buf: &mut [u8]) -> VfsResult<usize> {
        let mut done = 0;
        while done < buf.len() {
            match pread(&self.fd, &mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        Ok(done)
    }

    pub fn pages_into(&self, offset: u64, len: usize, pipe: &mut dyn PagePipe, wait: Wait) -> VfsResult<usize> {
        if self.kind != FileKind::File {
            return Err(VfsError::NotSupported);
        }
        self.file_for(Access::READ)?;
        if offset > MAX_OFFSET_BYTES {
            return Ok(0);
        }
        let mut done = 0;
        while done < len {
            match pipe.fill(self.fd.as_fd(), offset + done as u64, len - done, wait == Wait::Allowed) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // splice answers EINVAL where the file system cannot.
                Err(error) if done == 0 && error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    return Err(VfsError::NotSupported);
                }
                Err(error) => return Err(from_io(&error)),
            }
        }
        Ok(done)
    }

    pub fn write_at(&self, offset: u64, data: &[u8]) -> VfsResult<()> {
        self.file_for(Access::WRITE)?;
        within_reach(offset, data.len() as u64)?;
        let mut done = 0;
        while done < data.len() {
            match pwrite(&self.fd, &data[done..], offset + done as u64) {
                Ok(0) => return Err(VfsError::NoSpace),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        Ok(())
    }

    pub fn flush(&self, how: Sync) -> VfsResult<()> {
        if self.path_only {
            self.root.identity.enter_own()?;
            return match self.kind {
                FileKind::File | FileKind::Directory => {
                    let opened =
                        self.root.reopen(self.fd.as_fd(), OFlags::RDONLY | OFlags::NONBLOCK).map_err(vfs_error)?;
                    sync_fd(opened, how)
                }
                _ => Ok(()),
            };
        }
        sync_fd(&self.fd, how)
    }

    pub fn reserve(&self, offset: u64, len: u64, extend: bool) -> VfsResult<()> {
        self.file_for(Access::WRITE)?;
        if len == 0 {
            return Ok(());
        }
        within_reach(offset, len)?;
        let flags = if extend { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
        loop {
            match fallocate(&self.fd, flags, offset, len) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) if extend => return self.extend_to(offset + len),
                other => return other.map_err(vfs_error),
            }
        }
    }

    /// The best a file system without `fallocate` can do.
    fn extend_to(&self, len: u64) -> VfsResult<()> {
        if stat::of_fd(&self.fd)?.len_bytes >= len {
            return Ok(());
        }
        ftruncate(&self.fd, len).map_err(vfs_error)
    }

    pub fn link_target(&self) -> VfsResult<Vec<u8>> {
        if self.kind != FileKind::Symlink {
            return Err(VfsError::InvalidArgument);
        }
        let target = readlinkat(&self.fd, c"", Vec::new()).map_err(vfs_error)?;
        Ok(target.into_bytes())
    }
}

fn within_reach(offset: u64, len: u64) -> VfsResult<()> {
    match offset.checked_add(len) {
        Some(end) if end <= MAX_OFFSET_BYTES => Ok(()),
        _ => Err(VfsError::TooLarge),
    }
}

fn sync_fd(fd: impl AsFd, how: Sync) -> VfsResult<()> {
    match how {
        Sync::Data => fdatasync(fd),
        Sync::All => fsync(fd),
    }
    .map_err(vfs_error)
}
