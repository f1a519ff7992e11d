//! What the kernel's quotas say of a user or group, on the file system a descriptor is of (quotactl_fd(2), Linux 5.14).
//! XFS, ext4 and tmpfs are asked the same way.

use std::os::fd::AsFd;

use rustix::io::Errno;
use vfs::{Quota, VfsResult};

use crate::errno::vfs_error;
use crate::sys::{self, QuotaKind};

/// The unit of limits.
const BLOCK_BYTES: u64 = 1024;

/// What is counted and limited; `None` where space is not counted that way, or may not be asked about.
pub fn of(fd: impl AsFd, kind: QuotaKind, id: u32) -> VfsResult<Option<Quota>> {
    match sys::quota(fd, kind, id) {
        // Root's limits are, for XFS, those of who has none of his own; root is not refused.
        Ok(raw) if id == 0 => Ok(Some(Quota::new(raw.used_bytes, 0, 0))),
        Ok(raw) => {
            let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_BYTES);
            Ok(Some(Quota::new(raw.used_bytes, bytes(raw.hard_blocks), bytes(raw.soft_blocks))))
        }
        // Nothing of that id was ever counted.
        Err(Errno::NOENT) => Ok(Some(Quota::new(0, 0, 0))),
        // No quotas in the kernel, the file system, or by its mount options; or not for this process to know.
        Err(Errno::NOSYS | Errno::SRCH | Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM | Errno::NOTBLK) => Ok(None),
        Err(errno) => Err(vfs_error(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_quotas_has_none() {
        let proc = std::fs::File::open("/proc").unwrap();
        assert_eq!(of(&proc, QuotaKind::User, 0), Ok(None));
        assert_eq!(of(&proc, QuotaKind::Group, 12345), Ok(None));
    }
}
