//! Reading extended attributes of what has no descriptor to read from: entries of directories, and objects that a descriptor
//! only names. `access.rs` calls it. The kernel finds them from a directory that is open (getxattrat, Linux 6.13); before, it
//! goes all the way from `/proc`, which takes twice as long as everything else in such a call.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{getxattr, lgetxattr};
use rustix::io::Errno;
use rustix::path::DecInt;
use vfs::{VfsError, VfsResult};

use crate::errno::vfs_error;
use crate::sys;

/// The longest value the kernel keeps (XATTR_SIZE_MAX).
pub const MAX_BYTES: usize = 65536;

/// What most values fit in at the first try.
const FIRST_TRY_BYTES: usize = 512;

/// Room for the longest name (NAME_MAX, XATTR_NAME_MAX) and its NUL.
const NAME_BYTES: usize = 256;

/// Whether the kernel lacks getxattrat, or a sandbox keeps it from us.
static LACKS_AT: AtomicBool = AtomicBool::new(false);

/// The attribute `key` of what `fd` names; `procfs` is open on `/proc/self/fd`.
pub fn of_named(procfs: &OwnedFd, fd: &OwnedFd, key: &str, buf: &mut [u8]) -> Result<usize, Errno> {
    at(procfs, DecInt::from_fd(fd).as_c_str(), true, key, buf, |buf| getxattr(&*ProcPath::of(fd), key, buf))
}

/// The attribute `key` of the entry `name` of `dir`, never of what a link there leads to.
pub fn of_entry(dir: &OwnedFd, name: &[u8], key: &str, buf: &mut [u8]) -> Result<usize, Errno> {
    let by_path = |buf: &mut [u8]| {
        let path = [&*ProcPath::of(dir), b"/", name].concat();
        lgetxattr(&*path, key, buf)
    };
    with_nul(name, |name| at(dir, name, false, key, buf, by_path))
}

fn at(
    dir: &OwnedFd,
    name: &CStr,
    follow: bool,
    key: &str,
    buf: &mut [u8],
    by_path: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    if LACKS_AT.load(Relaxed) {
        return by_path(buf);
    }
    let found = with_nul(key.as_bytes(), |key| sys::xattr_at(dir, name, follow, key, buf));
    let refused = match found {
        Err(refused @ (Errno::NOSYS | Errno::PERM)) => refused,
        found => return found,
    };
    // A sandbox that does not know the call may say either; the file system says the second too, and then says it again.
    let found = by_path(buf);
    if refused == Errno::NOSYS || found != Err(Errno::PERM) {
        LACKS_AT.store(true, Relaxed);
    }
    found
}

/// Gives `with` the bytes as the kernel wants them: on the stack, as long as they are a name.
fn with_nul<R>(bytes: &[u8], with: impl FnOnce(&CStr) -> Result<R, Errno>) -> Result<R, Errno> {
    let mut room = [0; NAME_BYTES];
    match room.get_mut(..bytes.len()) {
        Some(start) if bytes.len() < NAME_BYTES => {
            start.copy_from_slice(bytes);
            with(CStr::from_bytes_until_nul(&room).map_err(|_| Errno::INVAL)?)
        }
        _ => with(&CString::new(bytes).map_err(|_| Errno::INVAL)?),
    }
}

/// `/proc/self/fd/` and a number, without memory of its own.
pub struct ProcPath {
    bytes: [u8; 32],
    len: usize,
}

impl ProcPath {
    const DIRECTORY: &[u8] = b"/proc/self/fd/";

    /// The way to what `fd` is open on.
    pub fn of(fd: &OwnedFd) -> Self {
        let mut path = Self { bytes: [0; 32], len: 0 };
        path.push(Self::DIRECTORY);
        path.push(DecInt::from_fd(fd).as_bytes());
        path
    }

    /// There is room for the longest number.
    fn push(&mut self, part: &[u8]) {
        for (at, byte) in self.bytes.iter_mut().skip(self.len).zip(part) {
            *at = *byte;
        }
        self.len += part.len();
    }
}

impl std::ops::Deref for ProcPath {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// A value of unknown length: a small buffer first, and the largest allowed when that does not do. One that is not there
/// takes no memory.
pub fn value(max_bytes: usize, get: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> VfsResult<Vec<u8>> {
    let max_bytes = max_bytes.min(MAX_BYTES);
    let mut first = [0; FIRST_TRY_BYTES];
    let first = first.get_mut(..max_bytes.clamp(1, FIRST_TRY_BYTES)).unwrap_or_default();
    let (len, mut buf) = match get(first) {
        Err(Errno::RANGE) if max_bytes > first.len() => {
            let mut buf = vec![0; max_bytes];
            (get(&mut buf).map_err(vfs_error)?, buf)
        }
        got => {
            let len = got.map_err(vfs_error)?;
            (len, first.get(..len).unwrap_or_default().to_vec())
        }
    };
    if len > max_bytes {
        return Err(VfsError::RangeTooSmall);
    }
    buf.truncate(len);
    Ok(buf)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rustix::fs::{Mode, OFlags, XattrFlags, open, setxattr};

    use super::*;

    const KEY: &str = "user.longshore.test";

    /// A directory with a file that has the attribute and a link to it; none where the file system has no attributes.
    fn bed() -> Option<(PathBuf, OwnedFd)> {
        let directory = std::env::temp_dir().join(format!("longshore-xattr-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("file");
        std::fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink("file", directory.join("link")).unwrap();
        setxattr(&file, KEY, b"value", XattrFlags::empty()).ok()?;
        let fd = open(&directory, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        Some((directory, fd))
    }

    #[test]
    fn the_short_way_and_the_long_one_find_the_same() {
        let Some((directory, fd)) = bed() else { return };
        let procfs = open("/proc/self/fd", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let file = open(directory.join("file"), OFlags::PATH, Mode::empty()).unwrap();
        for lacks in [false, true] {
            LACKS_AT.store(lacks, Relaxed);
            let mut buf = [0; 16];
            assert_eq!(of_entry(&fd, b"file", KEY, &mut buf), Ok(5), "lacks: {lacks}");
            assert_eq!(&buf[..5], b"value");
            assert_eq!(of_named(&procfs, &file, KEY, &mut buf), Ok(5));
            assert_eq!(of_entry(&fd, b"file", KEY, &mut [0; 3]), Err(Errno::RANGE));
            assert_eq!(of_entry(&fd, b"file", "user.other", &mut buf), Err(Errno::NODATA));
            assert_eq!(of_entry(&fd, b"none", KEY, &mut buf), Err(Errno::NOENT));
            // A link has no such attribute, and what it leads to is not asked.
            assert!(matches!(of_entry(&fd, b"link", KEY, &mut buf), Err(Errno::PERM | Errno::NODATA)));
            let long = [b'n'; 300];
            assert_eq!(of_entry(&fd, &long, KEY, &mut buf), Err(Errno::NAMETOOLONG));
            assert_eq!(LACKS_AT.load(Relaxed), lacks, "nothing of this is the call's refusal");
        }
        LACKS_AT.store(false, Relaxed);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_value_that_is_not_there_takes_no_memory_and_a_long_one_is_fetched_whole() {
        assert_eq!(value(100, |_| Err(Errno::NODATA)), Err(vfs_error(Errno::NODATA)));
        let long = |buf: &mut [u8]| if buf.len() < 600 { Err(Errno::RANGE) } else { Ok(600) };
        assert_eq!(value(1_000, long).map(|value| value.len()), Ok(600));
        assert_eq!(value(3, |_| Ok(9)), Err(VfsError::RangeTooSmall));
    }
}
