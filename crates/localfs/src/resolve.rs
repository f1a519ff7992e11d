//! From a directory node and a path to a descriptor, never above the root. Everything that takes a path goes through
//! [`Root::open_below`] or [`Root::parent_of`]; no other room hands a path of several components to the kernel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2, readlinkat};
use rustix::io::Errno;
use rustix::path::DecInt;
use vfs::casefold::FoldCache;
use vfs::{FileId, Name, Path, VfsError, VfsResult, Wait};

use crate::errno::vfs_error;
use crate::identity::Identity;
use crate::names::NameLocks;
use crate::node::LocalNode;
use crate::stat;

/// How often a lookup that a rename elsewhere upset is tried again before it is given up.
const RETRIES: usize = 64;

/// What all nodes of one backend share.
pub struct Root {
    /// The directory everything is below, by itself.
    pub fd: OwnedFd,
    /// Its identity.
    pub id: FileId,
    /// `/proc/self/fd`: the way from a descriptor to the same object opened otherwise.
    pub procfs: OwnedFd,
    pub identity: Identity,
    pub read_only: bool,
    /// Whether devices on the root's file system cannot be opened (mounted `nodev`), so that a name may be opened
    /// before it is known what it names.
    pub devices_inert: bool,
    /// Whether the kernel knows RESOLVE_CACHED (5.12).
    pub cached_lookups: AtomicBool,
    /// Whether the root's file system knows RWF_NOWAIT.
    pub nowait_reads: AtomicBool,
    /// Whether its files live in memory, so that no read waits.
    pub in_memory: bool,
    pub index: FoldCache<FileId>,
    pub names: NameLocks,
    /// How handles that outlive a node are made and found.
    pub handles: crate::handles::Handles,
    /// What others change in watched directories.
    pub feed: crate::feed::Feed,
}

/// The directory an entry is in.
pub enum Parent<'a> {
    Node(&'a LocalNode),
    Opened(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Node(node) => node.fd.as_fd(),
            Self::Opened(fd) => fd.as_fd(),
        }
    }
}

impl Root {
    /// Opens what is at `path` with `flags`; they must not create.
    pub fn open_below(&self, dir: &LocalNode, path: &Path, flags: OFlags, wait: Wait) -> VfsResult<OwnedFd> {
        match self.look_below(dir, path, flags, wait) {
            Err(VfsError::NotFound) => Err(self.why_missing(dir, path, wait)),
            other => other,
        }
    }

    /// The same without finding out, when something is missing, what: that is [`VfsError::NotFound`] either way.
    pub fn look_below(&self, dir: &LocalNode, path: &Path, flags: OFlags, wait: Wait) -> VfsResult<OwnedFd> {
        match self.try_below(dir, path, flags, ResolveFlags::empty(), wait) {
            Err(Errno::NOTDIR) if flags.contains(OFlags::DIRECTORY) => Err(self.why_no_directory(dir, path, wait)),
            // Without O_DIRECTORY only a component on the way can be the wrong kind.
            Err(Errno::NOTDIR) => Err(VfsError::PathNotFound),
            Err(Errno::XDEV | Errno::LOOP) => Err(VfsError::Escapes),
            other => other.map_err(vfs_error),
        }
    }

    /// The same with the kernel's own error and with further restrictions.
    pub fn try_below(
        &self,
        dir: &LocalNode,
        path: &Path,
        flags: OFlags,
        resolve: ResolveFlags,
        wait: Wait,
    ) -> Result<OwnedFd, Errno> {
        match self.resolve(dir.fd.as_fd(), path.as_bytes(), flags, resolve, wait) {
            // A link that leads out of `dir` may still stay below the root.
            Err(Errno::XDEV) if dir.id != self.id && !path.is_here() => {
                let whole = self.path_of(dir).map_err(|_| Errno::XDEV)?;
                let whole = path.components().fold(whole, |p, name| p.join(name));
                self.resolve(self.fd.as_fd(), whole.as_bytes(), flags, resolve, wait)
            }
            other => other,
        }
    }

    pub fn resolve(
        &self,
        dir: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
        resolve: ResolveFlags,
        wait: Wait,
    ) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b"." } else { path };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | resolve;
        if wait == Wait::Never {
            return self.resolve_cached(dir, path, flags, beneath);
        }
        for _ in 0..RETRIES {
            match openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), beneath) {
                // RESOLVE_BENEATH while something is renamed: nothing was decided.
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::BUSY)
    }

    fn resolve_cached(
        &self,
        dir: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        if !self.cached_lookups.load(Relaxed) {
            return Err(Errno::AGAIN);
        }
        openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve | ResolveFlags::CACHED)
    }

    /// Tells a missing object from a missing directory on the way to it.
    pub fn why_missing(&self, dir: &LocalNode, path: &Path, wait: Wait) -> VfsError {
        let Some(parent) = path.parent().filter(|p| !p.is_here()) else { return VfsError::NotFound };
        match self.try_below(dir, &parent, OFlags::PATH | OFlags::DIRECTORY, ResolveFlags::empty(), wait) {
            Ok(_) => VfsError::NotFound,
            Err(Errno::AGAIN) => VfsError::WouldBlock,
            Err(_) => VfsError::PathNotFound,
        }
    }

    fn why_no_directory(&self, dir: &LocalNode, path: &Path, wait: Wait) -> VfsError {
        match self.why_missing(dir, path, wait) {
            VfsError::NotFound => VfsError::NotDirectory,
            other => other,
        }
    }

    /// The directory `path`'s last component is in, and that component. `path` must not be empty.
    pub fn parent_of<'a>(&self, dir: &'a LocalNode, path: &'a Path) -> VfsResult<(Parent<'a>, Name<'a>)> {
        let (Some(parent), Some(last)) = (path.parent(), path.last()) else {
            return Err(VfsError::InvalidArgument);
        };
        Ok((self.directory_at(dir, &parent, Wait::Allowed)?, last))
    }

    /// The directory at `path`, on the way to something in it: [`VfsError::PathNotFound`] when there is none.
    pub fn directory_at<'a>(&self, dir: &'a LocalNode, path: &Path, wait: Wait) -> VfsResult<Parent<'a>> {
        if path.is_here() {
            return Ok(Parent::Node(dir));
        }
        match self.try_below(dir, path, OFlags::PATH | OFlags::DIRECTORY, ResolveFlags::empty(), wait) {
            Ok(fd) => Ok(Parent::Opened(fd)),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(VfsError::PathNotFound),
            Err(Errno::XDEV | Errno::LOOP) => Err(VfsError::Escapes),
            Err(other) => Err(vfs_error(other)),
        }
    }

    /// Opens the very object `fd` is open on once more, with other flags.
    pub fn reopen(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(&self.procfs, DecInt::from_fd(fd), flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Where the entry behind `node` is now, below the root.
    pub fn path_of(&self, node: &LocalNode) -> VfsResult<Path> {
        if node.id == self.id {
            return Ok(Path::here());
        }
        let root = self.link_of(self.fd.as_fd())?;
        let full = self.link_of(node.fd.as_fd())?;
        let below = below(&root, &full).ok_or(VfsError::Stale)?;
        let path = Path::new(below).map_err(|_| VfsError::Stale)?;
        if below.ends_with(b" (deleted)") && !self.is_at(node, &path) {
            return Err(VfsError::Stale);
        }
        Ok(path)
    }

    pub fn link_of(&self, fd: BorrowedFd<'_>) -> VfsResult<Vec<u8>> {
        let link = readlinkat(&self.procfs, DecInt::from_fd(fd), Vec::with_capacity(256)).map_err(vfs_error)?;
        Ok(link.into_bytes())
    }

    /// Whether the name that looks like a deleted one is the object's real name.
    fn is_at(&self, node: &LocalNode, path: &Path) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        // A user may be at work on this thread and goes on after this.
        let found = self.identity.as_own(|| {
            self.resolve(self.fd.as_fd(), path.as_bytes(), flags, ResolveFlags::NO_SYMLINKS, Wait::Allowed)
                .map_err(vfs_error)
        });
        found.and_then(stat::of_fd).is_ok_and(|attr| attr.id == node.id)
    }
}

/// The part of `full` below `root`, both absolute.
pub fn below<'a>(root: &[u8], full: &'a [u8]) -> Option<&'a [u8]> {
    if root == b"/" {
        return full.strip_prefix(b"/");
    }
    match full.strip_prefix(root)? {
        b"" => Some(b""),
        rest => rest.strip_prefix(b"/"),
    }
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_path_is_below_only_behind_a_slash() {
        assert_eq!(below(b"/srv/a", b"/srv/a/x/y"), Some(&b"x/y"[..]));
        assert_eq!(below(b"/srv/a", b"/srv/a"), Some(&b""[..]));
        assert_eq!(below(b"/srv/a", b"/srv/ab/x"), None);
        assert_eq!(below(b"/srv/a", b"/srv"), None);
        assert_eq!(below(b"/", b"/x"), Some(&b"x"[..]));
    }
}
