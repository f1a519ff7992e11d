//! Directories as the kernel lists them. `node.rs` calls it. What the kernel told beyond what one call took is kept for the
//! next, as long as the directory has not changed: a client that takes a few entries at a time does not have the
//! rest read again and again.

use rustix::fs::{FileType, SeekFrom, seek};
use rustix::io::Errno;
use vfs::{Access, DirEntry, FileKind, Name, VfsError, VfsResult};

use crate::errno::vfs_error;
use crate::node::LocalNode;
use crate::{stat, sys};

/// Bytes of entries asked of the kernel at once.
const LISTING_BYTES: usize = 32 * 1024;
/// The largest cookie the kernel gives.
const MAX_COOKIE: u64 = i64::MAX as u64;
/// Where the name begins in an entry (`struct linux_dirent64`, getdents64(2)).
const NAME_AT: usize = 19;

/// Where a directory's descriptor stands, and what it told already.
#[derive(Default)]
pub struct Listing {
    /// The cookie of the next entry: the first that is left, or without one the next the kernel would tell. `None` where
    /// that is not known.
    at: Option<u64>,
    buf: Vec<u8>,
    /// What is left in `buf`.
    left: std::ops::Range<usize>,
    /// The directory's change counter, read before what is left was.
    change: u64,
}

/// An entry as the kernel tells it.
struct RawEntry<'a> {
    ino: u64,
    next_cookie: u64,
    len_bytes: usize,
    file_type: u8,
    name: &'a [u8],
}

impl LocalNode {
    pub fn list(&self, cookie: u64, take: &mut dyn FnMut(DirEntry<'_>) -> bool) -> VfsResult<bool> {
        if self.kind != FileKind::Directory {
            return Err(VfsError::NotDirectory);
        }
        if self.path_only || !self.access.contains(Access::READ) {
            return Err(VfsError::AccessDenied);
        }
        if cookie > MAX_COOKIE {
            return Err(VfsError::InvalidArgument);
        }
        let mut listing = self.listing.lock();
        let mut at = self.go_to(cookie, &mut listing)?;
        loop {
            if listing.left.is_empty() && !self.fill(&mut listing)? {
                *listing = Listing { at: Some(at), ..Listing::default() };
                return Ok(true);
            }
            let Listing { buf, left, .. } = &mut *listing;
            let entry =
                RawEntry::first_of(buf.get(left.clone()).unwrap_or_default()).ok_or_else(|| vfs_error(Errno::IO))?;
            if !entry.offer(take) {
                listing.at = Some(at);
                return Ok(false);
            }
            left.start += entry.len_bytes;
            at = entry.next_cookie;
        }
    }

    /// Sees to it that the entry at `cookie` is the next. Where the listing stands is not known until it is said again.
    fn go_to(&self, cookie: u64, listing: &mut Listing) -> VfsResult<u64> {
        let change = stat::of_fd(&self.fd)?.change;
        let known = listing.at.take() == Some(cookie);
        if !known || (!listing.left.is_empty() && listing.change != change) {
            listing.left = 0..0;
            seek(&self.fd, SeekFrom::Start(cookie)).map_err(vfs_error)?;
        }
        listing.change = change;
        Ok(cookie)
    }

    /// Has the kernel tell more; false at the end.
    fn fill(&self, listing: &mut Listing) -> VfsResult<bool> {
        listing.buf.resize(LISTING_BYTES, 0);
        let count = loop {
            match sys::read_entries(&self.fd, &mut listing.buf) {
                Err(Errno::INTR) => {}
                Err(Errno::NOENT) => return Err(VfsError::Stale),
                other => break other.map_err(vfs_error)?,
            }
        };
        listing.left = 0..count;
        Ok(count > 0)
    }
}

impl<'a> RawEntry<'a> {
    /// The entry that `bytes` begin with.
    fn first_of(bytes: &'a [u8]) -> Option<Self> {
        let (ino, rest) = bytes.split_first_chunk::<8>()?;
        let (next, rest) = rest.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let len_bytes = usize::from(u16::from_ne_bytes(*len));
        let name = bytes.get(NAME_AT..len_bytes)?;
        Some(Self {
            ino: u64::from_ne_bytes(*ino),
            next_cookie: u64::from_ne_bytes(*next),
            len_bytes,
            file_type: *rest.first()?,
            name: name.split(|&byte| byte == 0).next()?,
        })
    }

    /// Offers it, unless it is `.` or `..`; false when it is not taken.
    fn offer(&self, take: &mut dyn FnMut(DirEntry<'_>) -> bool) -> bool {
        let Ok(name) = Name::new(self.name) else { return true };
        take(DirEntry { name, ino: self.ino, kind: self.kind(), next_cookie: self.next_cookie })
    }

    fn kind(&self) -> Option<FileKind> {
        match FileType::from_raw_mode(u32::from(self.file_type) << 12) {
            FileType::Unknown => None,
            known => Some(stat::kind(known)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_the_kernel() {
        let kind = |file_type| RawEntry { ino: 1, next_cookie: 1, len_bytes: 24, file_type, name: b"a" }.kind();
        assert_eq!(kind(libc::DT_UNKNOWN), None);
        assert_eq!(kind(libc::DT_DIR), Some(FileKind::Directory));
        assert_eq!(kind(libc::DT_LNK), Some(FileKind::Symlink));
        assert_eq!(kind(libc::DT_SOCK), Some(FileKind::Socket));
        assert_eq!(kind(libc::DT_REG), Some(FileKind::File));
    }
}
