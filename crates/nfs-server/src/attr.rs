//! Attributes between the backend and the wire, in both directions (RFC 1813 2.5, 2.6).

use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{Fattr, FileType, Sattr, SetTime, SpecData, Time};
use vfs::{Attr, FileKind, SetAttr, Timestamp};

use crate::failure::{Done, Stop};
use crate::server::Exported;

/// The largest file: what offsets of the system can say.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;

const NANOS: u32 = 1_000_000_000;

/// An object's attributes.
pub fn fattr(export: &Exported, attr: &Attr) -> Fattr {
    Fattr {
        file_type: file_type(attr.kind),
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size_bytes: attr.len_bytes,
        used_bytes: attr.allocated_bytes,
        rdev: SpecData { major: (attr.rdev >> 32) as u32, minor: attr.rdev as u32 },
        fsid: export.fsid(attr.id.dev),
        fileid: attr.id.ino,
        atime: time(attr.accessed),
        mtime: time(attr.modified),
        ctime: time(attr.changed),
    }
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::Regular,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::Character,
        FileKind::BlockDevice => FileType::Block,
    }
}

/// Times before 1970 and after 2106 do not travel.
pub fn time(at: Timestamp) -> Time {
    match u32::try_from(at.secs) {
        Ok(seconds) => Time { seconds, nanoseconds: at.nanos },
        Err(_) if at.secs < 0 => Time { seconds: 0, nanoseconds: 0 },
        Err(_) => Time { seconds: u32::MAX, nanoseconds: at.nanos },
    }
}

/// What a client wants set; INVAL for what cannot be.
pub fn set_attr(wanted: &Sattr) -> Done<SetAttr> {
    if wanted.uid == Some(u32::MAX) || wanted.gid == Some(u32::MAX) {
        return Err(NfsStat3::INVAL.into());
    }
    if wanted.size_bytes.is_some_and(|size| size > MAX_FILE_BYTES) {
        return Err(NfsStat3::FBIG.into());
    }
    Ok(SetAttr {
        mode: wanted.mode.map(|mode| mode & 0o7777),
        uid: wanted.uid,
        gid: wanted.gid,
        len_bytes: wanted.size_bytes,
        accessed: set_time(&wanted.atime)?,
        modified: set_time(&wanted.mtime)?,
    })
}

fn set_time(wanted: &SetTime) -> Result<Option<vfs::SetTime>, Stop> {
    match wanted {
        SetTime::Keep => Ok(None),
        SetTime::Server => Ok(Some(vfs::SetTime::Now)),
        SetTime::Client(time) if time.nanoseconds >= NANOS => Err(NfsStat3::INVAL.into()),
        SetTime::Client(time) => {
            let at = Timestamp { secs: time.seconds.into(), nanos: time.nanoseconds };
            Ok(Some(vfs::SetTime::At(at)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_set_is_refused() {
        let client = |nanoseconds| SetTime::Client(Time { seconds: 1, nanoseconds });
        let with = |atime| set_attr(&Sattr { atime, ..Sattr::NONE });
        assert_eq!(with(client(NANOS)), Err(Stop::Status(NfsStat3::INVAL)));
        assert!(with(client(NANOS - 1)).unwrap().accessed.is_some());
        let size = |size| set_attr(&Sattr { size_bytes: Some(size), ..Sattr::NONE });
        assert_eq!(size(u64::MAX), Err(Stop::Status(NfsStat3::FBIG)));
        assert_eq!(size(1 << 63), Err(Stop::Status(NfsStat3::FBIG)));
        assert_eq!(size(5).unwrap().len_bytes, Some(5));
        let owner = set_attr(&Sattr { uid: Some(u32::MAX), ..Sattr::NONE });
        assert_eq!(owner, Err(Stop::Status(NfsStat3::INVAL)));
        let mode = set_attr(&Sattr { mode: Some(0o100_644), ..Sattr::NONE }).unwrap().mode;
        assert_eq!(mode, Some(0o644));
    }

    #[test]
    fn times_that_do_not_fit_are_the_nearest_that_do() {
        let secs = |secs| time(Timestamp { secs, nanos: 5 }).seconds;
        assert_eq!((secs(-1), secs(7), secs(1 << 40)), (0, 7, u32::MAX));
    }
}
