//! Changing the names in a directory: making, removing, moving, linking. `fs.rs` calls it with the identity entered. What
//! is changed here is entered into the folded index of the directory, so that an index outlives our own changes.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{AtFlags, Dev, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::fs::{chmodat, linkat, makedev, mkdirat, mknodat, openat2, renameat, renameat_with, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::path::DecInt;
use vfs::casefold::{Change, DirIndex};
use vfs::{Access, Attr, FileId, FileKind, Name, OpenHow, Path, Rename, Timestamp, VfsError, VfsResult, WantKind};

use crate::errno::vfs_error;
use crate::node::LocalNode;
use crate::resolve::Root;
use crate::stat;

impl Root {
    /// Makes the file or directory at `path`; [`VfsError::Exists`] when the name is taken.
    pub fn make(&self, dir: &LocalNode, path: &Path, how: &OpenHow) -> VfsResult<(OwnedFd, Attr)> {
        let (parent, name) = self.parent_of(dir, path).map_err(|e| match e {
            VfsError::InvalidArgument => VfsError::Exists,
            other => other,
        })?;
        let parent = parent.as_fd();
        let fd = self.changing(&[(parent, Change::Added(name))], || match how.kind {
            WantKind::Directory => make_directory(parent, name, how),
            WantKind::Any | WantKind::File => make_file(parent, name, how),
        })?;
        let attr = self.exact_mode(&fd, how)?;
        Ok((fd, attr))
    }

    /// Gives a new object the permissions asked for where the umask or a default ACL took some away. It is this rather
    /// than a umask of 0, which is the whole process's: and so the object never has more than it should, only for a
    /// moment less.
    fn exact_mode(&self, fd: &OwnedFd, how: &OpenHow) -> VfsResult<Attr> {
        let attr = stat::of_fd(fd)?;
        // A directory in a set-group-id directory is born with that bit and keeps it.
        let wanted = how.mode & 0o7777 | attr.mode & 0o7000;
        if attr.mode == wanted {
            return Ok(attr);
        }
        chmodat(&self.procfs, DecInt::from_fd(fd), Mode::from_raw_mode(wanted), AtFlags::empty()).map_err(vfs_error)?;
        stat::of_fd(fd)
    }

    /// See [`vfs::Backend::remove`].
    pub fn remove(&self, dir: &LocalNode, path: &Path, only: Option<FileId>) -> VfsResult<()> {
        let (parent, name) = self.parent_of(dir, path)?;
        let parent = parent.as_fd();
        let _names = self.names.hold(&[parent])?;
        let mut flags = AtFlags::empty();
        if let Some(only) = only {
            let found = stat::of_entry(parent, name.as_bytes())?;
            if found.id != only {
                return Err(VfsError::Stale);
            }
            if found.kind == FileKind::Directory {
                flags = AtFlags::REMOVEDIR;
            }
        }
        self.changing(&[(parent, Change::Removed(name))], || match unlinkat(parent, name.as_bytes(), flags) {
            Err(Errno::ISDIR) => unlinkat(parent, name.as_bytes(), AtFlags::REMOVEDIR).map_err(removal_error),
            other => other.map_err(removal_error),
        })
    }

    /// See [`vfs::Backend::rename`].
    pub fn rename(
        &self,
        from: (&LocalNode, &Path),
        to: (&LocalNode, &Path),
        replace: Rename,
        only: Option<FileId>,
    ) -> VfsResult<()> {
        let (from, from_name) = self.parent_of(from.0, from.1)?;
        let (to, to_name) = self.parent_of(to.0, to.1)?;
        let (from, to) = (from.as_fd(), to.as_fd());
        let (old, new) = (from_name.as_bytes(), to_name.as_bytes());
        let _names = self.names.hold(&[from, to])?;
        if let Some(only) = only
            && stat::of_entry(from, old)?.id != only
        {
            return Err(VfsError::Stale);
        }
        self.changing(&[(from, Change::Removed(from_name)), (to, Change::Added(to_name))], || match replace {
            Rename::Replace => renameat(from, old, to, new).map_err(rename_error),
            Rename::NoReplace => match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
                // Either the file system lacks the flag or a directory is to go into itself: the plain call tells.
                Err(Errno::INVAL | Errno::NOSYS) => match stat::of_entry(to, new) {
                    Ok(_) => Err(VfsError::Exists),
                    Err(_) => renameat(from, old, to, new).map_err(rename_error),
                },
                Err(Errno::EXIST) => Err(VfsError::Exists),
                other => other.map_err(rename_error),
            },
        })?;
        self.note_entry(to, to_name);
        Ok(())
    }

    /// See [`vfs::Backend::link`].
    pub fn link(&self, node: &LocalNode, dir: &LocalNode, path: &Path) -> VfsResult<()> {
        if node.kind == FileKind::Directory {
            return Err(VfsError::IsDirectory);
        }
        let (parent, name) = self.parent_of(dir, path)?;
        let parent = parent.as_fd();
        self.changing(&[(parent, Change::Added(name))], || {
            let old = DecInt::from_fd(&node.fd);
            match linkat(&self.procfs, old, parent, name.as_bytes(), AtFlags::SYMLINK_FOLLOW) {
                Err(Errno::NOENT) => Err(VfsError::Stale),
                other => other.map_err(vfs_error),
            }
        })
    }

    /// See [`vfs::Backend::symlink`].
    pub fn symlink(&self, dir: &LocalNode, path: &Path, target: &[u8]) -> VfsResult<()> {
        if target.is_empty() || target.contains(&0) {
            return Err(VfsError::InvalidArgument);
        }
        let (parent, name) = self.parent_of(dir, path)?;
        let parent = parent.as_fd();
        self.changing(&[(parent, Change::Added(name))], || {
            symlinkat(target, parent, name.as_bytes()).map_err(vfs_error)
        })
    }

    /// See [`vfs::Backend::make_special`].
    pub fn make_special(&self, dir: &LocalNode, path: &Path, kind: FileKind, mode: u32) -> VfsResult<()> {
        let file_type = match kind {
            FileKind::Fifo => FileType::Fifo,
            FileKind::Socket => FileType::Socket,
            _ => return Err(VfsError::NotSupported),
        };
        self.make_node(dir, path, file_type, 0, mode)
    }

    /// See [`vfs::Backend::make_device`].
    pub fn make_device(&self, dir: &LocalNode, path: &Path, kind: FileKind, rdev: u64, mode: u32) -> VfsResult<()> {
        let file_type = match kind {
            FileKind::BlockDevice => FileType::BlockDevice,
            FileKind::CharDevice => FileType::CharacterDevice,
            _ => return Err(VfsError::NotSupported),
        };
        self.make_node(dir, path, file_type, makedev((rdev >> 32) as u32, rdev as u32), mode)
    }

    fn make_node(&self, dir: &LocalNode, path: &Path, file_type: FileType, device: Dev, mode: u32) -> VfsResult<()> {
        let (parent, name) = self.parent_of(dir, path)?;
        let parent = parent.as_fd();
        let bits = Mode::from_raw_mode(mode & 0o7777);
        self.changing(&[(parent, Change::Added(name))], || {
            mknodat(parent, name.as_bytes(), file_type, bits, device).map_err(vfs_error)
        })?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open_entry(parent, name, flags, Mode::empty())?;
        if stat::of_fd(&fd)?.mode != mode & 0o7777 {
            chmodat(&self.procfs, DecInt::from_fd(&fd), bits, AtFlags::empty()).map_err(vfs_error)?;
        }
        Ok(())
    }

    /// Runs `change`, and when it succeeded enters `changes` into the indexes of the directories concerned. The indexes
    /// stay locked meanwhile: the kernel would make changes to one directory wait for each other anyway.
    fn changing<R>(
        &self,
        changes: &[(BorrowedFd<'_>, Change<'_>)],
        change: impl FnOnce() -> VfsResult<R>,
    ) -> VfsResult<R> {
        if self.index.is_empty() {
            return change();
        }
        let mut known = Vec::with_capacity(changes.len());
        for (fd, change) in changes {
            let id = stat::of_fd(fd)?.id;
            if let Some(index) = self.index.known(id) {
                known.push((id, *fd, index, *change));
            }
        }
        // One order for all threads, so that two renames cannot wait for each other.
        known.sort_by_key(|(id, ..)| *id);
        let mut held: Vec<Held<'_, '_>> = Vec::with_capacity(known.len());
        for (id, fd, index, change) in &known {
            match held.last_mut() {
                Some(last) if last.id == *id => last.changes.push(*change),
                _ => held.push(Held { id: *id, fd: *fd, index: index.lock(), before: None, changes: vec![*change] }),
            }
        }
        for held in &mut held {
            held.before = Some(stat::of_fd(held.fd)?.changed);
        }
        let done = change()?;
        for mut held in held {
            // Where the directory cannot be looked at any more, its index is not used any more either.
            if let (Some(before), Ok(after)) = (held.before, stat::of_fd(held.fd)) {
                held.index.note(before, after.changed, &held.changes);
            }
        }
        Ok(done)
    }
}

/// Holds for a moment what the names of directories lead to, against this process's other threads: between looking what
/// a name is and removing it, nothing else may take that name. Each directory has one of a few locks. What other programs
/// do in between nobody can prevent.
#[derive(Default)]
pub struct NameLocks([Mutex<()>; 32]);

impl NameLocks {
    fn hold(&self, directories: &[BorrowedFd<'_>]) -> VfsResult<Vec<MutexGuard<'_, ()>>> {
        let mut at = Vec::with_capacity(directories.len());
        for fd in directories {
            at.push(stat::of_fd(fd)?.id.ino as usize % self.0.len());
        }
        // One order for all threads, and each lock once.
        at.sort_unstable();
        at.dedup();
        Ok(at.into_iter().filter_map(|at| self.0.get(at)).map(Mutex::lock).collect())
    }
}

/// A directory's index while the directory is being changed.
struct Held<'a, 'n> {
    id: FileId,
    fd: BorrowedFd<'a>,
    index: MutexGuard<'a, DirIndex>,
    before: Option<Timestamp>,
    changes: Vec<Change<'n>>,
}

/// The flags a descriptor for `access` is opened with.
pub fn access_flags(access: Access) -> OFlags {
    match (access.contains(Access::READ), access.contains(Access::WRITE)) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    }
}

fn make_file(parent: BorrowedFd<'_>, name: Name<'_>, how: &OpenHow) -> VfsResult<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC | access_flags(how.access);
    open_entry(parent, name, flags, Mode::from_raw_mode(how.mode & 0o7777))
}

fn make_directory(parent: BorrowedFd<'_>, name: Name<'_>, how: &OpenHow) -> VfsResult<OwnedFd> {
    // Its maker can list it until `exact_mode` says otherwise, as the maker of a file can read it: else it could not be
    // opened here.
    let listed = how.access.contains(Access::READ);
    let mode = if listed { how.mode & 0o7777 | 0o400 } else { how.mode & 0o7777 };
    mkdirat(parent, name.as_bytes(), Mode::from_raw_mode(mode)).map_err(vfs_error)?;
    let open = if listed { OFlags::RDONLY } else { OFlags::PATH };
    open_entry(parent, name, open | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn open_entry(parent: BorrowedFd<'_>, name: Name<'_>, flags: OFlags, mode: Mode) -> VfsResult<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    loop {
        match openat2(parent, name.as_bytes(), flags, mode, resolve) {
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other.map_err(vfs_error),
        }
    }
}

fn removal_error(errno: Errno) -> VfsError {
    match errno {
        // POSIX lets rmdir answer either for a directory with entries.
        Errno::EXIST => VfsError::NotEmpty,
        other => vfs_error(other),
    }
}

fn rename_error(errno: Errno) -> VfsError {
    match errno {
        Errno::EXIST => VfsError::NotEmpty,
        other => vfs_error(other),
    }
}
