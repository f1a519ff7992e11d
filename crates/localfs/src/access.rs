//! Attributes, rights and extended attributes of an open object. `node.rs` calls it. Descriptors that only name their
//! object are reached through `/proc/self/fd`, which leads to the very object and to no name.

use rustix::fs::{
    Access as Rights, AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid, XattrFlags, accessat,
    chmodat, chownat, ftruncate, utimensat,
};
use rustix::fs::{fgetxattr, flistxattr, fremovexattr, fsetxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use rustix::path::DecInt;
use vfs::{Access, AccessMask, Cred, FileKind, Name, SetAttr, SetTime, VfsError, VfsResult};

use crate::errno::vfs_error;
use crate::node::LocalNode;
use crate::xattr::{self, ProcPath, value};

/// The longest list of names the kernel gives (XATTR_LIST_MAX).
const XATTR_LIST_MAX_BYTES: usize = 65536;

impl LocalNode {
    pub fn change_attr(&self, cred: &Cred, set: &SetAttr) -> VfsResult<()> {
        self.changeable()?;
        self.root.identity.enter(cred)?;
        if let Some(len) = set.len_bytes {
            self.file_for(Access::WRITE)?;
            if len > i64::MAX as u64 {
                return Err(VfsError::TooLarge);
            }
            ftruncate(&self.fd, len).map_err(vfs_error)?;
        }
        self.set_owner(set)?;
        // After the owner: a change of owner takes set-id bits away.
        if let Some(mode) = set.mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            chmodat(&self.root.procfs, DecInt::from_fd(&self.fd), mode, AtFlags::empty()).map_err(vfs_error)?;
        }
        self.set_times(set)
    }

    fn set_owner(&self, set: &SetAttr) -> VfsResult<()> {
        if set.uid.is_none() && set.gid.is_none() {
            return Ok(());
        }
        // The highest id means "leave it" to the kernel and is nobody's.
        if set.uid == Some(u32::MAX) || set.gid == Some(u32::MAX) {
            return Err(VfsError::InvalidArgument);
        }
        let (uid, gid) = (set.uid.map(Uid::from_raw), set.gid.map(Gid::from_raw));
        chownat(&self.fd, c"", uid, gid, AtFlags::EMPTY_PATH).map_err(vfs_error)
    }

    fn set_times(&self, set: &SetAttr) -> VfsResult<()> {
        if set.accessed.is_none() && set.modified.is_none() {
            return Ok(());
        }
        let times = Timestamps { last_access: timespec(set.accessed)?, last_modification: timespec(set.modified)? };
        utimensat(&self.root.procfs, DecInt::from_fd(&self.fd), &times, AtFlags::empty()).map_err(vfs_error)
    }

    pub fn granted(&self, cred: &Cred, ask: AccessMask) -> VfsResult<AccessMask> {
        self.root.identity.enter(cred)?;
        let ask = if self.root.read_only { ask - AccessMask::WRITE } else { ask };
        if ask.is_empty() || self.may(ask)? {
            return Ok(ask);
        }
        let mut granted = AccessMask::empty();
        for right in ask.iter() {
            if self.may(right)? {
                granted |= right;
            }
        }
        Ok(granted)
    }

    fn may(&self, ask: AccessMask) -> VfsResult<bool> {
        let mut rights = Rights::empty();
        for (mask, right) in [
            (AccessMask::READ, Rights::READ_OK),
            (AccessMask::WRITE, Rights::WRITE_OK),
            (AccessMask::EXECUTE, Rights::EXEC_OK),
        ] {
            if ask.contains(mask) {
                rights |= right;
            }
        }
        match accessat(&self.root.procfs, DecInt::from_fd(&self.fd), rights, AtFlags::EACCESS) {
            Ok(()) => Ok(true),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) => Ok(false),
            Err(errno) => Err(vfs_error(errno)),
        }
    }

    pub fn xattr_value(&self, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
        self.root.identity.enter_own()?;
        match self.path_only {
            false => value(max_bytes, |buf| fgetxattr(&self.fd, key, buf)),
            true => value(max_bytes, |buf| xattr::of_named(&self.root.procfs, &self.fd, key, buf)),
        }
    }

    pub fn xattr_of_entry(&self, name: Name<'_>, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
        if self.kind != FileKind::Directory {
            return Err(VfsError::NotDirectory);
        }
        self.root.identity.enter_own()?;
        value(max_bytes, |buf| xattr::of_entry(&self.fd, name.as_bytes(), key, buf))
    }

    pub fn put_xattr(&self, cred: &Cred, key: &str, value: &[u8]) -> VfsResult<()> {
        self.changeable()?;
        self.root.identity.enter(cred)?;
        let done = match self.through_proc() {
            None => fsetxattr(&self.fd, key, value, XattrFlags::empty()),
            Some(path) => setxattr(&*path, key, value, XattrFlags::empty()),
        };
        done.map_err(|errno| match errno {
            Errno::TOOBIG => VfsError::TooLarge,
            Errno::RANGE => VfsError::NameTooLong,
            other => vfs_error(other),
        })
    }

    pub fn drop_xattr(&self, cred: &Cred, key: &str) -> VfsResult<()> {
        self.changeable()?;
        self.root.identity.enter(cred)?;
        match self.through_proc() {
            None => fremovexattr(&self.fd, key),
            Some(path) => removexattr(&*path, key),
        }
        .map_err(vfs_error)
    }

    pub fn xattr_list(&self) -> VfsResult<Vec<String>> {
        self.root.identity.enter_own()?;
        let path = self.through_proc();
        let list = value(XATTR_LIST_MAX_BYTES, |buf| match &path {
            None => flistxattr(&self.fd, buf),
            Some(path) => listxattr(&**path, buf),
        })?;
        let names = list.split(|&b| b == 0).filter(|name| !name.is_empty());
        Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
    }

    /// The way to the object where the descriptor itself does not serve.
    fn through_proc(&self) -> Option<ProcPath> {
        self.path_only.then(|| ProcPath::of(&self.fd))
    }
}

fn timespec(set: Option<SetTime>) -> VfsResult<Timespec> {
    match set {
        None => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }),
        Some(SetTime::Now) => Ok(Timespec { tv_sec: 0, tv_nsec: UTIME_NOW }),
        Some(SetTime::At(time)) if time.nanos < 1_000_000_000 => {
            Ok(Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() })
        }
        Some(SetTime::At(_)) => Err(VfsError::InvalidArgument),
    }
}
