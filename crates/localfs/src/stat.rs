//! From `statx` to [`Attr`]. Every other room of this crate asks here, so that an object has one [`FileId`] however it
//! was looked at.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::time::{ClockId, clock_gettime};
use vfs::{Attr, FileId, FileKind, Timestamp, VfsResult};

use crate::errno::vfs_error;

/// Attributes of what the descriptor is open on. Checks no permission and does not wait on a local file system.
pub fn of_fd(fd: impl AsFd) -> VfsResult<Attr> {
    stat(fd, b"", AtFlags::EMPTY_PATH)
}

/// Attributes of the entry `name` of a directory, never of what a link there leads to.
pub fn of_entry(dir: impl AsFd, name: &[u8]) -> VfsResult<Attr> {
    stat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn stat(fd: impl AsFd, path: &[u8], flags: AtFlags) -> VfsResult<Attr> {
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let raw = statx(fd, path, flags | AtFlags::NO_AUTOMOUNT, mask).map_err(vfs_error)?;
    Ok(attr(&raw))
}

fn attr(raw: &Statx) -> Attr {
    let born = raw.stx_mask & StatxFlags::BTIME.bits() != 0 && (raw.stx_btime.tv_sec, raw.stx_btime.tv_nsec) != (0, 0);
    let changed = timestamp(&raw.stx_ctime);
    Attr {
        id: FileId {
            dev: device(raw.stx_dev_major, raw.stx_dev_minor),
            ino: raw.stx_ino,
            // An inode number is used again only for an object born later: no call more is needed to tell the two apart.
            generation: if born { nanos(timestamp(&raw.stx_btime)) } else { 0 },
        },
        kind: kind(FileType::from_raw_mode(raw.stx_mode.into())),
        mode: u32::from(raw.stx_mode) & 0o7777,
        nlink: raw.stx_nlink,
        uid: raw.stx_uid,
        gid: raw.stx_gid,
        rdev: device(raw.stx_rdev_major, raw.stx_rdev_minor),
        len_bytes: raw.stx_size,
        allocated_bytes: raw.stx_blocks.saturating_mul(512),
        accessed: timestamp(&raw.stx_atime),
        modified: timestamp(&raw.stx_mtime),
        changed,
        created: born.then(|| timestamp(&raw.stx_btime)),
        change: nanos(changed),
    }
}

/// The time that births are compared with.
pub fn now() -> Timestamp {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    Timestamp { secs: now.tv_sec, nanos: now.tv_nsec as u32 }
}

/// What a file type from `statx` or a directory is; unknown ones pass as regular files until they are opened.
pub fn kind(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::CharacterDevice => FileKind::CharDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => FileKind::File,
    }
}

fn device(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}

fn timestamp(raw: &StatxTimestamp) -> Timestamp {
    Timestamp { secs: raw.tv_sec, nanos: raw.tv_nsec }
}

fn nanos(time: Timestamp) -> u64 {
    (time.secs as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanos.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn attributes_agree_with_the_standard_library() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let (attr, meta) = (of_fd(&file).unwrap(), file.metadata().unwrap());
        assert_eq!((attr.id.ino, attr.len_bytes, attr.kind), (meta.ino(), meta.len(), FileKind::File));
        assert_eq!((attr.mode, attr.nlink), (meta.mode() & 0o7777, meta.nlink() as u32));
        assert_eq!((attr.modified.secs, i64::from(attr.modified.nanos)), (meta.mtime(), meta.mtime_nsec()));
        assert_eq!(attr.allocated_bytes, meta.blocks() * 512);
    }

    #[test]
    fn the_change_counter_grows_with_the_change_time() {
        let before = nanos(Timestamp { secs: 5, nanos: 999_999_999 });
        assert!(before < nanos(Timestamp { secs: 6, nanos: 0 }));
    }
}
