//! Spelling a path as its directories do: the exact path first, and only where that fails, component by component, the
//! folded index of the directory in question, which knows short names too. `fs.rs` calls [`Root::spell`].

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{OFlags, RawDir};
use rustix::io::Errno;
use vfs::casefold::{DirIndex, FoldIndex};
use vfs::{Cred, Name, Path, Timestamp, VfsError, VfsResult, Wait};

use crate::errno::vfs_error;
use crate::node::LocalNode;
use crate::resolve::Root;
use crate::stat;

/// Bytes of entries asked of the kernel at once.
const READ_BYTES: usize = 64 * 1024;

impl Root {
    /// See [`vfs::Backend::spell`].
    pub fn spell(&self, cred: &Cred, dir: &LocalNode, path: &Path, wait: Wait) -> VfsResult<Path> {
        self.identity.enter(cred)?;
        if path.is_here() || self.exists(dir, path, wait)? {
            return Ok(path.clone());
        }
        let (Some(parent), Some(last)) = (path.parent(), path.last()) else { return Ok(path.clone()) };
        match self.spelled_in(cred, dir, &parent, last, wait) {
            Err(VfsError::PathNotFound) => self.walk(cred, dir, path, wait),
            Ok(found) => found.ok_or(VfsError::NotFound),
            Err(other) => Err(other),
        }
    }

    fn walk(&self, cred: &Cred, dir: &LocalNode, path: &Path, wait: Wait) -> VfsResult<Path> {
        let mut done = Path::here();
        let mut names = path.components().peekable();
        while let Some(name) = names.next() {
            let exact = done.join(name);
            done = if self.exists(dir, &exact, wait)? {
                exact
            } else {
                let missing = if names.peek().is_some() { VfsError::PathNotFound } else { VfsError::NotFound };
                self.spelled_in(cred, dir, &done, name, wait)?.ok_or(missing)?
            };
        }
        Ok(done)
    }

    fn exists(&self, dir: &LocalNode, path: &Path, wait: Wait) -> VfsResult<bool> {
        let found = match path.last() {
            Some(name) if wait == Wait::Allowed && path.as_bytes().len() == name.as_bytes().len() => {
                stat::of_entry(&dir.fd, name.as_bytes()).map(drop)
            }
            _ => self.look_below(dir, path, OFlags::PATH | OFlags::NOFOLLOW, wait).map(drop),
        };
        match found {
            Ok(()) => Ok(true),
            Err(VfsError::NotFound | VfsError::PathNotFound) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// `parent` and the name in it that is `name` but for case; [`VfsError::PathNotFound`] without such a directory.
    fn spelled_in(
        &self,
        cred: &Cred,
        dir: &LocalNode,
        parent: &Path,
        name: Name<'_>,
        wait: Wait,
    ) -> VfsResult<Option<Path>> {
        let opened = self.directory_at(dir, parent, wait)?;
        let spelling = self.find_folded(opened.as_fd(), name, wait);
        self.identity.enter(cred)?;
        Ok(spelling?.and_then(|found| Name::new(&found).ok().map(|found| parent.join(found))))
    }

    /// The name in the directory `fd` that is `name` but for case. Leaves the thread with either identity.
    fn find_folded(&self, fd: BorrowedFd<'_>, name: Name<'_>, wait: Wait) -> VfsResult<Option<Vec<u8>>> {
        let attr = stat::of_fd(fd)?;
        let index = self.index.index(attr.id);
        let mut index = match wait {
            Wait::Allowed => index.lock(),
            Wait::Never => index.try_lock().ok_or(VfsError::WouldBlock)?,
        };
        if !index.holds(attr.changed, now()) {
            self.refresh(fd, &mut index, wait)?;
            self.index.settle(attr.id, index.weight());
        }
        let before = index.weight();
        let found = index.find(name.as_bytes()).map(<[u8]>::to_vec);
        if index.weight() > before {
            self.index.settle(attr.id, index.weight());
        }
        Ok(found)
    }

    /// Reads the directory unless another thread did while this one waited for the index.
    fn refresh(&self, fd: BorrowedFd<'_>, index: &mut DirIndex, wait: Wait) -> VfsResult<()> {
        let (stamp, began) = (stat::of_fd(fd)?.changed, now());
        if index.holds(stamp, began) {
            return Ok(());
        }
        if wait == Wait::Never {
            return Err(VfsError::WouldBlock);
        }
        // The index serves everyone. Passing through a directory already lets a user try names in it.
        self.identity.enter_own()?;
        let clock = Instant::now();
        let names = self.read_names(fd)?;
        index.fill(names, stamp, began, clock.elapsed());
        Ok(())
    }

    fn read_names(&self, fd: BorrowedFd<'_>) -> VfsResult<FoldIndex> {
        let listed = self.reopen(fd, OFlags::RDONLY | OFlags::DIRECTORY).map_err(vfs_error)?;
        let mut buf = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut entries = RawDir::new(listed, &mut buf);
        let mut names = FoldIndex::new();
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => {
                    if let Ok(name) = Name::new(entry.file_name().to_bytes()) {
                        names.insert(name.as_bytes());
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(vfs_error(errno)),
            }
        }
        Ok(names)
    }
}

/// The clock file systems stamp changes with.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { secs: since.as_secs() as i64, nanos: since.subsec_nanos() }
}
