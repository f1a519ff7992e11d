//! What is known about a file without opening it for reading: sizes, times, attributes. Taken from whatever answer holds
//! it; nothing here asks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use smb_wire::fscc::{DirEntryInfo, FileAttributes, FileTime, NetworkOpenInfo};
use smb_wire::smb2::CreateResponse;

/// What a file is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Length, in bytes.
    pub len_bytes: u64,
    /// Space taken, in bytes.
    pub allocated_bytes: u64,
    /// Its times.
    pub times: Times,
    /// What it is.
    pub kind: FileKind,
    /// Its permission bits, where the server has any.
    pub mode: Option<u32>,
    /// The numbers of its owner and group, where the server has any.
    pub owner: Option<(u32, u32)>,
    /// How many names it has, where that is known.
    pub links: Option<u32>,
    /// Its number on the volume, where that is known.
    pub file_id: Option<u64>,
    /// Its DOS attributes (MS-FSCC 2.6); of an NFS server what follows from the kind.
    pub attributes: FileAttributes,
}

/// What something with a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, or another reparse point of an SMB server.
    Link,
    /// A device, a socket, a pipe.
    Other,
}

impl FileKind {
    fn of(attributes: FileAttributes) -> Self {
        if attributes.contains(FileAttributes::REPARSE_POINT) {
            Self::Link
        } else if attributes.contains(FileAttributes::DIRECTORY) {
            Self::Directory
        } else {
            Self::File
        }
    }
}

impl Stat {
    /// What an SMB server tells of a file.
    fn of_smb(len_bytes: u64, allocated_bytes: u64, times: Times, attributes: FileAttributes) -> Self {
        let kind = FileKind::of(attributes);
        let (mode, owner, links, file_id) = (None, None, None, None);
        Self { len_bytes, allocated_bytes, times, kind, mode, owner, links, file_id, attributes }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Whether it is a symbolic link or another reparse point.
    pub fn is_link(&self) -> bool {
        self.kind == FileKind::Link
    }
}

/// How much room a share has, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// In all.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
    /// Free to this user.
    pub available_bytes: u64,
}

/// What is to be set of a file; `None` leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits. An SMB share has none to set.
    pub mode: Option<u32>,
    /// Numbers of the owner and group. An SMB share has none to set.
    pub owner: Option<(u32, u32)>,
    /// The length, in bytes.
    pub len_bytes: Option<u64>,
    /// Those times that are given.
    pub times: Times,
    /// DOS attributes (MS-FSCC 2.6). An NFS export has none.
    pub dos: Option<FileAttributes>,
}

/// The four times of a file. `None`: the server has none, or, where they are set, leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Made.
    pub created: Option<SystemTime>,
    /// Last read.
    pub accessed: Option<SystemTime>,
    /// Last data change.
    pub written: Option<SystemTime>,
    /// Last change of anything.
    pub changed: Option<SystemTime>,
}

impl Times {
    fn of([created, accessed, written, changed]: [FileTime; 4]) -> Self {
        let [created, accessed, written, changed] = [created, accessed, written, changed].map(from_wire);
        Self { created, accessed, written, changed }
    }
}

impl From<&CreateResponse<'_>> for Stat {
    fn from(created: &CreateResponse<'_>) -> Self {
        let times = Times::of(created.times.map(FileTime));
        let attributes = FileAttributes::from_bits_retain(created.file_attributes);
        Self::of_smb(created.end_of_file, created.allocation_bytes, times, attributes)
    }
}

impl From<&NetworkOpenInfo> for Stat {
    fn from(info: &NetworkOpenInfo) -> Self {
        let times = Times::of([info.created, info.accessed, info.written, info.changed]);
        Self::of_smb(info.end_of_file, info.allocation_bytes, times, info.attributes)
    }
}

impl From<&DirEntryInfo<'_>> for Stat {
    fn from(entry: &DirEntryInfo<'_>) -> Self {
        let times = &entry.times;
        let times = Times::of([times.created, times.accessed, times.written, times.changed]);
        let file_id = u64::try_from(entry.file_id).ok().filter(|id| *id != 0);
        Self { file_id, ..Self::of_smb(entry.end_of_file, entry.allocation, times, entry.attributes) }
    }
}

fn from_wire(time: FileTime) -> Option<SystemTime> {
    if time == FileTime::ZERO {
        return None;
    }
    let (secs, nanos) = time.to_unix();
    let whole = Duration::from_secs(secs.unsigned_abs());
    let second = if secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(Duration::from_nanos(nanos.into()))
}

/// The wire form, 0 ("leave it") for none.
pub(crate) fn to_wire(time: Option<SystemTime>) -> FileTime {
    let Some(time) = time else { return FileTime::ZERO };
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => FileTime::from_unix(i64::try_from(after.as_secs()).unwrap_or(i64::MAX), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let secs = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            match before.subsec_nanos() {
                0 => FileTime::from_unix(-secs, 0),
                nanos => FileTime::from_unix((-secs).saturating_sub(1), 1_000_000_000 - nanos),
            }
        }
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
        for time in [at(0, 100), at(1_700_000_000, 999_999_900), at(-5, 0), at(-5, 300)] {
            assert_eq!(from_wire(to_wire(Some(time))), Some(time));
        }
        assert_eq!(to_wire(None), FileTime::ZERO);
        assert_eq!(from_wire(FileTime::ZERO), None);
        assert!(from_wire(FileTime(u64::MAX)).is_some());
    }
}
