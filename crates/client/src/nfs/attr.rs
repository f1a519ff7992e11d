//! Attributes as the two families of versions have them, as a [`Stat`], and the other way where they are set.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nfs_wire::nfs3::{self, Sattr};
use nfs_wire::nfs4::{self, Attr, Attrs, Bitmap};
use smb_wire::fscc::FileAttributes;

use crate::stat::{FileKind, SetAttributes, Stat, Times};

/// What is to be set of a file; `None` stays.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub mode: Option<u32>,
    pub owner: Option<(u32, u32)>,
    pub len_bytes: Option<u64>,
    pub accessed: Option<SystemTime>,
    pub written: Option<SystemTime>,
}

impl Wanted {
    /// What is made has these permissions, less what the server takes away.
    pub fn mode(mode: u32) -> Self {
        Self { mode: Some(mode), ..Self::default() }
    }

    pub fn len(len_bytes: u64) -> Self {
        Self { len_bytes: Some(len_bytes), ..Self::default() }
    }

    /// When it was made and last changed no client can set.
    pub fn times(times: &Times) -> Self {
        Self { accessed: times.accessed, written: times.written, ..Self::default() }
    }

    pub fn of(set: &SetAttributes) -> Self {
        Self { mode: set.mode, owner: set.owner, len_bytes: set.len_bytes, ..Self::times(&set.times) }
    }

    pub fn is_nothing(&self) -> bool {
        self.fattr().0.is_empty()
    }

    /// As NFSv3 has it. Its times are unsigned: what lies before 1970 becomes 1970.
    pub fn sattr(&self) -> Sattr {
        let time = |time: Option<SystemTime>| time.map_or(nfs3::SetTime::Keep, |at| nfs3::SetTime::Client(time3(at)));
        Sattr {
            mode: self.mode,
            uid: self.owner.map(|(uid, _)| uid),
            gid: self.owner.map(|(_, gid)| gid),
            size_bytes: self.len_bytes,
            atime: time(self.accessed),
            mtime: time(self.written),
        }
    }

    /// As NFSv4 has it: which attributes, and their values. Owners travel as decimal numbers (RFC 8881 5.9).
    pub fn fattr(&self) -> (Bitmap, Vec<u8>) {
        let owner = self.owner.map(|(uid, gid)| (uid.to_string(), gid.to_string()));
        let time = |time: Option<SystemTime>| time.map(|at| nfs4::SetTime::Client(time4(at)));
        let attrs = Attrs {
            size: self.len_bytes,
            mode: self.mode,
            owner: owner.as_ref().map(|(uid, _)| uid.as_bytes()),
            owner_group: owner.as_ref().map(|(_, gid)| gid.as_bytes()),
            time_access_set: time(self.accessed),
            time_modify_set: time(self.written),
            ..Attrs::default()
        };
        (attrs.mask(), attrs.to_values())
    }
}

/// What is asked of NFSv4 for a [`Stat`].
pub(crate) fn asked() -> Bitmap {
    Bitmap::of(&[
        Attr::Type,
        Attr::Change,
        Attr::Size,
        Attr::Fileid,
        Attr::Mode,
        Attr::Numlinks,
        Attr::Owner,
        Attr::OwnerGroup,
        Attr::SpaceUsed,
        Attr::TimeAccess,
        Attr::TimeCreate,
        Attr::TimeMetadata,
        Attr::TimeModify,
    ])
}

fn dos(kind: FileKind) -> FileAttributes {
    match kind {
        FileKind::Directory => FileAttributes::DIRECTORY,
        FileKind::Link => FileAttributes::REPARSE_POINT,
        FileKind::File | FileKind::Other => FileAttributes::NORMAL,
    }
}

impl From<&nfs3::Fattr> for Stat {
    fn from(attr: &nfs3::Fattr) -> Self {
        use nfs3::FileType;
        let kind = match attr.file_type {
            FileType::Regular => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        };
        let time = |time: nfs3::Time| system_time(time.seconds.into(), time.nanoseconds);
        Self {
            len_bytes: attr.size_bytes,
            allocated_bytes: attr.used_bytes,
            times: Times {
                created: None,
                accessed: time(attr.atime),
                written: time(attr.mtime),
                changed: time(attr.ctime),
            },
            kind,
            mode: Some(attr.mode & 0o7777),
            owner: Some((attr.uid, attr.gid)),
            links: Some(attr.nlink),
            file_id: Some(attr.fileid),
            attributes: dos(kind),
        }
    }
}

impl From<&Attrs<'_>> for Stat {
    fn from(attrs: &Attrs<'_>) -> Self {
        use nfs4::FileType;
        let kind = match attrs.file_type {
            Some(FileType::Directory | FileType::AttrDir) => FileKind::Directory,
            Some(FileType::Symlink) => FileKind::Link,
            Some(FileType::Regular | FileType::NamedAttr) => FileKind::File,
            _ => FileKind::Other,
        };
        let time = |time: Option<nfs4::Time>| time.and_then(|at| system_time(at.seconds, at.nanoseconds));
        Self {
            len_bytes: attrs.size.unwrap_or(0),
            allocated_bytes: attrs.space_used.unwrap_or(0),
            times: Times {
                created: time(attrs.time_create),
                accessed: time(attrs.time_access),
                written: time(attrs.time_modify),
                changed: time(attrs.time_metadata),
            },
            kind,
            mode: attrs.mode.map(|mode| mode & 0o7777),
            owner: attrs.owner.and_then(number).zip(attrs.owner_group.and_then(number)),
            links: attrs.numlinks,
            file_id: attrs.fileid,
            attributes: dos(kind),
        }
    }
}

/// An owner that travels as a number, alone or in front of a domain.
fn number(owner: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(owner).ok()?;
    let digits = text.split_once('@').map_or(text, |(user, _)| user);
    digits.parse().ok()
}

fn system_time(seconds: i64, nanoseconds: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(Duration::from_nanos(nanoseconds.into()))
}

fn time3(time: SystemTime) -> nfs3::Time {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    nfs3::Time { seconds: u32::try_from(since.as_secs()).unwrap_or(u32::MAX), nanoseconds: since.subsec_nanos() }
}

fn time4(time: SystemTime) -> nfs4::Time {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => nfs4::Time { seconds: seconds(after), nanoseconds: after.subsec_nanos() },
        Err(before) => match (seconds(before.duration()), before.duration().subsec_nanos()) {
            (whole, 0) => nfs4::Time { seconds: -whole, nanoseconds: 0 },
            (whole, nanos) => nfs4::Time { seconds: (-whole).saturating_sub(1), nanoseconds: 1_000_000_000 - nanos },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_round_before_and_after_1970() {
        let at = |secs: i64, nanos| {
            let whole = Duration::from_secs(secs.unsigned_abs());
            let second = if secs < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
            second + Duration::from_nanos(nanos)
        };
        for time in [at(0, 1), at(1_700_000_000, 999_999_999), at(-5, 0), at(-5, 300)] {
            let wire = time4(time);
            assert_eq!(system_time(wire.seconds, wire.nanoseconds), Some(time));
        }
        let wire = time3(at(1_700_000_000, 5));
        assert_eq!(system_time(wire.seconds.into(), wire.nanoseconds), Some(at(1_700_000_000, 5)));
        assert_eq!(time3(at(-5, 0)), nfs3::Time { seconds: 0, nanoseconds: 0 });
        // Whatever a server sends is a time or none.
        for seconds in [i64::MIN, i64::MAX] {
            let _ = system_time(seconds, u32::MAX);
        }
    }

    #[test]
    fn owners_are_numbers_or_unknown() {
        assert_eq!(number(b"1000"), Some(1000));
        assert_eq!(number(b"1000@example.org"), Some(1000));
        for other in [&b"root"[..], b"", b"@", b"\xff", b"99999999999"] {
            assert_eq!(number(other), None);
        }
    }
}
