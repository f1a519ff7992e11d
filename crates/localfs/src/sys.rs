//! The system calls rustix has no safe wrapper for: those that give one thread another identity, which `identity.rs`
//! calls and nothing else may, and the sharing of extents, for `node_range.rs`.
//!
//! libc's own wrappers would not do: its `setgroups` changes every thread of the process.

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

/// Sets the calling thread's file-system user id and answers the one it had. The kernel tells no error: ask with
/// [`current_fsuid`].
pub fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: setfsuid takes one integer, touches no memory, and fails by changing nothing.
    let before = unsafe { libc::syscall(libc::SYS_setfsuid, libc::c_long::from(uid)) };
    before as u32
}

/// Sets the calling thread's file-system group id and answers the one it had.
pub fn set_fsgid(gid: u32) -> u32 {
    // SAFETY: setfsgid takes one integer, touches no memory, and fails by changing nothing.
    let before = unsafe { libc::syscall(libc::SYS_setfsgid, libc::c_long::from(gid)) };
    before as u32
}

/// The calling thread's file-system user id: a switch to the id that cannot exist changes nothing.
pub fn current_fsuid() -> u32 {
    set_fsuid(u32::MAX)
}

/// The calling thread's file-system group id.
pub fn current_fsgid() -> u32 {
    set_fsgid(u32::MAX)
}

/// FICLONERANGE (ioctl_ficlonerange(2)): `_IOW(0x94, 13, struct file_clone_range)`.
const FICLONERANGE: libc::c_ulong = 0x4020_940d;

#[repr(C)]
struct FileCloneRange {
    src_fd: i64,
    src_offset: u64,
    src_length: u64,
    dest_offset: u64,
}

/// Lets `to` share `len` bytes of `from`'s extents.
pub fn clone_range(from: impl AsFd, offset: u64, to: impl AsFd, to_offset: u64, len: u64) -> Result<(), Errno> {
    let range = FileCloneRange {
        src_fd: from.as_fd().as_raw_fd().into(),
        src_offset: offset,
        src_length: len,
        dest_offset: to_offset,
    };
    // SAFETY: both descriptors are borrowed and so open; the kernel reads one file_clone_range, whose layout `range` has,
    // and writes nothing.
    let result = unsafe { libc::ioctl(to.as_fd().as_raw_fd(), FICLONERANGE as _, &raw const range) };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_per_thread() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::thread::spawn(|| {
            set_fsuid(1234);
            set_fsgid(4321);
            assert_eq!((current_fsuid(), current_fsgid()), (1234, 4321));
        })
        .join()
        .unwrap();
        assert_eq!((current_fsuid(), current_fsgid()), (0, 0));
    }
}
