//! What a backend says of an object and of the file system it lives on.

/// Names one object of a backend for as long as it exists; never reused while the process lives, as far as the file
/// system lets the backend know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// The device, or file system, the object lives on.
    pub dev: u64,
    /// Its inode number.
    pub ino: u64,
    /// Tells apart two objects that had the same inode number one after the other; 0 where unknown.
    pub generation: u64,
}

/// A point in time, as seconds and nanoseconds since 1970-01-01 UTC. `nanos` is below 10^9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Whole seconds, negative before 1970.
    pub secs: i64,
    /// Nanoseconds into that second.
    pub nanos: u32,
}

/// What kind of object it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A local socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// The attributes of one object at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Which object.
    pub id: FileId,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits with set-id and sticky bits: 0o7777.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owning user.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Device number (major << 32 | minor) where the object is a device, else 0.
    pub rdev: u64,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Space taken on the device in bytes.
    pub allocated_bytes: u64,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the data.
    pub modified: Timestamp,
    /// Last change of data or attributes (ctime).
    pub changed: Timestamp,
    /// Birth, where the file system keeps it.
    pub created: Option<Timestamp>,
    /// Grows with every change; from the finest source there is (NFSv4 change attribute).
    pub change: u64,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The backend's clock, now.
    Now,
    /// This moment.
    At(Timestamp),
}

/// The attributes to change; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttr {
    /// Permission bits: 0o7777.
    pub mode: Option<u32>,
    /// Owning user.
    pub uid: Option<u32>,
    /// Owning group.
    pub gid: Option<u32>,
    /// Length in bytes: cut or extended by a hole.
    pub len_bytes: Option<u64>,
    /// Last read.
    pub accessed: Option<SetTime>,
    /// Last change of the data.
    pub modified: Option<SetTime>,
}

/// The file system as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsStat {
    /// Identifies the file system.
    pub fs_id: u64,
    /// Bytes in one allocation unit.
    pub block_bytes: u32,
    /// Units in all.
    pub total_blocks: u64,
    /// Units free.
    pub free_blocks: u64,
    /// Units free to the caller.
    pub available_blocks: u64,
    /// Objects the file system can hold, and how many of those are free.
    pub total_files: u64,
    /// Objects that can still be made.
    pub free_files: u64,
    /// Longest component in bytes.
    pub name_max: u32,
}

impl FsStat {
    /// The same as somebody sees it whom quotas leave only so much.
    #[must_use]
    pub fn within(self, quota: Option<Quota>) -> Self {
        let Some(quota) = quota else { return self };
        let left = quota.left_bytes / u64::from(self.block_bytes.max(1));
        Self { available_blocks: self.available_blocks.min(left), ..self }
    }
}

/// What quotas say of an owner's space. [`u64::MAX`] where there is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes that count against it now.
    pub used_bytes: u64,
    /// Bytes that can be used besides, before writing is refused.
    pub left_bytes: u64,
    /// Bytes that can be used besides, before there is a warning: what goes beyond is refused after some days.
    pub left_before_warning_bytes: u64,
}

impl Quota {
    /// With limits in bytes, 0 for none.
    pub fn new(used_bytes: u64, hard_bytes: u64, soft_bytes: u64) -> Self {
        let left = |limit: u64| if limit == 0 { u64::MAX } else { limit.saturating_sub(used_bytes) };
        let left_bytes = left(hard_bytes);
        Self { used_bytes, left_bytes, left_before_warning_bytes: left(soft_bytes).min(left_bytes) }
    }

    /// Of two that both count, the one that leaves less.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let key = |quota: &Self| (quota.left_bytes, quota.left_before_warning_bytes);
        if key(&other) < key(&self) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_leaves_what_it_has_not_taken() {
        let quota = Quota::new(30, 100, 50);
        assert_eq!((quota.left_bytes, quota.left_before_warning_bytes), (70, 20));
        let over = Quota::new(120, 100, 50);
        assert_eq!((over.left_bytes, over.left_before_warning_bytes), (0, 0));
        let none = Quota::new(30, 0, 0);
        assert_eq!((none.left_bytes, none.left_before_warning_bytes), (u64::MAX, u64::MAX));
        // Without a warning there is still the limit.
        assert_eq!(Quota::new(30, 100, 0).left_before_warning_bytes, 70);
        assert_eq!((none.tighter(quota), quota.tighter(none), quota.tighter(over)), (quota, quota, over));
    }

    #[test]
    fn what_is_available_is_what_both_leave() {
        let stat = FsStat {
            fs_id: 1,
            block_bytes: 10,
            total_blocks: 100,
            free_blocks: 60,
            available_blocks: 50,
            total_files: 9,
            free_files: 9,
            name_max: 255,
        };
        assert_eq!(stat.within(None), stat);
        assert_eq!(stat.within(Some(Quota::new(0, 399, 0))), FsStat { available_blocks: 39, ..stat });
        assert_eq!(stat.within(Some(Quota::new(0, 10_000, 0))), stat);
        assert_eq!(stat.within(Some(Quota::new(0, 0, 0))), stat);
    }
}
