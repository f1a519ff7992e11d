//! The system calls rustix has no safe wrapper for: those that give one thread another identity, which `identity.rs`
//! calls and nothing else may, the sharing of extents, for `node_range.rs`, file handles, for `handles.rs`, entries that are kept, for `listing.rs`, and quotas, for `quota.rs`.
//!
//! libc's own wrappers would not do: its `setgroups` changes every thread of the process.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;
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
    Err(last_error())
}

/// The longest handle the kernel makes (MAX_HANDLE_SZ).
const MAX_HANDLE_SZ: usize = 128;

/// `struct file_handle` with room for the longest (open_by_handle_at(2)).
#[repr(C)]
struct RawHandle {
    handle_bytes: libc::c_uint,
    handle_type: libc::c_int,
    f_handle: [u8; MAX_HANDLE_SZ],
}

/// The kernel's handle for the entry `name` of `dir`, or for `dir` itself where the name is empty: its type and bytes.
pub fn name_to_handle(dir: impl AsFd, name: &CStr) -> Result<(i32, Vec<u8>), Errno> {
    let mut raw = RawHandle { handle_bytes: MAX_HANDLE_SZ as _, handle_type: 0, f_handle: [0; MAX_HANDLE_SZ] };
    let mut mount_id: libc::c_int = 0;
    let flags = if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: the descriptor is borrowed and so open; `name` ends with a NUL; the kernel writes one int, and a
    // file_handle of at most the `handle_bytes` that `raw` has room for.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            dir.as_fd().as_raw_fd(),
            name.as_ptr(),
            &raw mut raw,
            &raw mut mount_id,
            flags,
        )
    };
    if result != 0 {
        return Err(last_error());
    }
    let len = (raw.handle_bytes as usize).min(MAX_HANDLE_SZ);
    Ok((raw.handle_type, raw.f_handle[..len].to_vec()))
}

/// Opens what a handle names on the file system `mount` is open on.
pub fn open_by_handle(mount: impl AsFd, kind: i32, bytes: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut raw = RawHandle { handle_bytes: 0, handle_type: kind, f_handle: [0; MAX_HANDLE_SZ] };
    raw.f_handle.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    raw.handle_bytes = bytes.len() as _;
    let flags = flags.bits() as libc::c_int;
    // SAFETY: the descriptor is borrowed and so open; the kernel reads one file_handle with `handle_bytes` of content,
    // which `raw` holds, and writes nothing.
    let result =
        unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount.as_fd().as_raw_fd(), &raw const raw, flags) };
    if result < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(result as libc::c_int) })
}

/// Fills `buf` with the next entries of a directory, whole ones only (getdents64(2)); 0 at its end.
pub fn read_entries(dir: impl AsFd, buf: &mut [u8]) -> Result<usize, Errno> {
    let (fd, len) = (dir.as_fd().as_raw_fd(), buf.len());
    // SAFETY: the descriptor is borrowed and so open; the kernel writes at most `len` bytes to `buf`, which has as many.
    let count = unsafe { libc::syscall(libc::SYS_getdents64, fd, buf.as_mut_ptr(), len) };
    usize::try_from(count).map_err(|_| last_error())
}

/// A group that is told of events with the directory and name they happened to (fanotify(7), FAN_REPORT_DFID_NAME).
pub fn fanotify_init() -> Result<OwnedFd, Errno> {
    let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_REPORT_DFID_NAME;
    // SAFETY: fanotify_init takes two integers and touches no memory.
    let fd = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as _) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Adds the events `mask` to what `group` is told of the directory at `path`, or takes them away.
pub fn fanotify_mark(group: impl AsFd, add: bool, mask: u64, path: &CStr) -> Result<(), Errno> {
    let flags = libc::FAN_MARK_ONLYDIR | if add { libc::FAN_MARK_ADD } else { libc::FAN_MARK_REMOVE };
    // SAFETY: the descriptor is borrowed and so open; `path` ends with a NUL and is only read.
    let result = unsafe { libc::fanotify_mark(group.as_fd().as_raw_fd(), flags, mask, libc::AT_FDCWD, path.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// getxattrat(2) came with Linux 6.13, under one number wherever numbers are shared.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64", target_arch = "loongarch64"))]
const SYS_GETXATTRAT: Option<libc::c_long> = Some(464);
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "loongarch64"
)))]
const SYS_GETXATTRAT: Option<libc::c_long> = None;

/// `struct xattr_args` (linux/xattr.h).
#[repr(C, align(8))]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

/// The extended attribute `key` of the entry `name` of `dir`, into `buf`: how long it is. [`Errno::NOSYS`] where the kernel
/// does not have the call.
pub fn xattr_at(dir: impl AsFd, name: &CStr, follow: bool, key: &CStr, buf: &mut [u8]) -> Result<usize, Errno> {
    let number = SYS_GETXATTRAT.ok_or(Errno::NOSYS)?;
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    let size = u32::try_from(buf.len()).map_err(|_| Errno::INVAL)?;
    let args = XattrArgs { value: buf.as_mut_ptr() as u64, size, flags: 0 };
    // SAFETY: the descriptor is borrowed and so open; `name` and `key` end with a NUL; the kernel reads one xattr_args, whose
    // layout and length `args` has, and writes at most `size` bytes to `buf`, which has as many and is borrowed meanwhile.
    let len = unsafe {
        libc::syscall(
            number,
            dir.as_fd().as_raw_fd(),
            name.as_ptr(),
            flags,
            key.as_ptr(),
            &raw const args,
            size_of::<XattrArgs>(),
        )
    };
    usize::try_from(len).map_err(|_| last_error())
}

/// Whose quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// A user's.
    User = 0,
    /// A group's.
    Group = 1,
}

/// The same number on all architectures, and not in libc for all of them.
const SYS_QUOTACTL_FD: libc::c_long = 443;
/// Q_GETQUOTA (include/uapi/linux/quota.h).
const Q_GETQUOTA: libc::c_uint = 0x80_0007;
/// The type of quota is in the command's low byte (QCMD).
const SUBCMD_SHIFT: u32 = 8;

/// `struct if_dqblk`.
#[repr(C)]
#[derive(Default)]
struct RawQuota {
    dqb_bhardlimit: u64,
    dqb_bsoftlimit: u64,
    dqb_curspace: u64,
    dqb_ihardlimit: u64,
    dqb_isoftlimit: u64,
    dqb_curinodes: u64,
    dqb_btime: u64,
    dqb_itime: u64,
    dqb_valid: u32,
}

/// What is counted of an id, and its limits in blocks of 1024 bytes, 0 for none.
#[derive(Debug)]
pub struct QuotaOf {
    pub used_bytes: u64,
    pub hard_blocks: u64,
    pub soft_blocks: u64,
}

/// Asks the quotas of the file system that `fd` is on.
pub fn quota(fd: impl AsFd, kind: QuotaKind, id: u32) -> Result<QuotaOf, Errno> {
    let command = Q_GETQUOTA << SUBCMD_SHIFT | kind as libc::c_uint;
    let mut raw = RawQuota::default();
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the descriptor is borrowed and so open; Q_GETQUOTA writes one if_dqblk, whose layout `raw` has, and nothing
    // else; the kernel takes the id as the integer it is.
    let result = unsafe { libc::syscall(SYS_QUOTACTL_FD, fd, command, id, &raw mut raw) };
    if result == 0 {
        let RawQuota { dqb_curspace, dqb_bhardlimit, dqb_bsoftlimit, .. } = raw;
        return Ok(QuotaOf { used_bytes: dqb_curspace, hard_blocks: dqb_bhardlimit, soft_blocks: dqb_bsoftlimit });
    }
    Err(last_error())
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
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
