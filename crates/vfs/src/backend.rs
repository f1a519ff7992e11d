//! The contract between the protocol servers and a file system.
//!
//! Calls are synchronous. One that could wait for a device takes a [`Wait`]: with [`Wait::Never`] it answers
//! [`VfsError::WouldBlock`](crate::VfsError::WouldBlock) instead of waiting, having changed nothing, and the caller
//! repeats it with [`Wait::Allowed`] on a worker. Calls without a `Wait` may always wait a little and belong on a worker
//! unless their documentation says otherwise.
//!
//! Identity: a call that takes a [`Cred`] runs with that identity's rights where the process may switch, else with the
//! process's own. Reads and writes through a node use the rights it was opened with.

use std::any::Any;
use std::sync::Arc;

use bitflags::bitflags;

use crate::{Attr, FileId, FileKind, FsStat, Name, PagePipe, Path, Quota, SetAttr, Told, VfsResult, Watching};

/// The longest handle a backend makes: what an NFSv3 handle has room for beside the server's own part.
pub const MAX_HANDLE_BYTES: usize = 43;

/// Whether a call may wait for a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Answer `WouldBlock` rather than wait; for calls made on a shard's thread.
    Never,
    /// Take as long as it takes; for calls made on a worker.
    Allowed,
}

/// Who is asking: the identity the file system checks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cred {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Arc<[u32]>,
}

bitflags! {
    /// What an opened node will be used for. Empty means attributes only, which needs no permission on the object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Access: u8 {
        /// `read`, `read_pages`, `read_dir`.
        const READ = 1;
        /// `write`, and `set_attr` of the length.
        const WRITE = 2;
    }

    /// Rights to ask about with [`Node::access`], and the answer.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct AccessMask: u8 {
        /// Read data or list a directory.
        const READ = 1;
        /// Write data, or add and remove entries of a directory.
        const WRITE = 2;
        /// Execute, or pass through a directory.
        const EXECUTE = 4;
    }

    /// What a backend can do beyond the plain calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Capabilities: u16 {
        /// Extended attributes in the `user.` namespace.
        const XATTR = 1;
        /// Holes in files.
        const SPARSE = 2;
        /// Cloning of extents between files.
        const REFLINK = 4;
        /// `created` is known.
        const BIRTH_TIME = 8;
        /// Nothing can be changed.
        const READ_ONLY = 16;
        /// Calls run with the caller's identity, not the process's.
        const IDENTITY = 32;
        /// `read_pages` works on regular files.
        const PAGES = 64;
        /// Space is counted, and may be limited, by user or group.
        const QUOTA = 128;
    }
}

/// Which kind of object an open accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantKind {
    /// Whatever is there; a regular file when one must be made.
    Any,
    /// Anything but a directory, else [`IsDirectory`](crate::VfsError::IsDirectory).
    File,
    /// A directory, else [`NotDirectory`](crate::VfsError::NotDirectory).
    Directory,
}

/// Whether an open may find, may make, or must make the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It must exist.
    Open,
    /// It must not exist and is made.
    Create,
    /// It is opened or made.
    OpenOrCreate,
}

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenHow {
    /// What for.
    pub access: Access,
    /// Find or make.
    pub disposition: Disposition,
    /// Which kind.
    pub kind: WantKind,
    /// Whether a symbolic link in last place is followed (below the root only). When not, a node of the link itself is
    /// opened, with attributes only.
    pub follow: bool,
    /// Permission bits of an object that is made: exactly these, no umask applied.
    pub mode: u32,
}

/// An opened node.
pub struct Opened {
    /// The node.
    pub node: Arc<dyn Node>,
    /// Its attributes at the time.
    pub attr: Attr,
    /// Whether this call made it.
    pub created: bool,
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Its name, never `.` or `..`.
    pub name: Name<'a>,
    /// Its inode number, as [`FileId::ino`].
    pub ino: u64,
    /// Its kind where the directory tells.
    pub kind: Option<FileKind>,
    /// Where a listing that has taken this entry goes on.
    pub next_cookie: u64,
}

/// How much of a file must be on stable storage when [`Node::sync`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Its data and what is needed to find them.
    Data,
    /// Data and all attributes.
    All,
}

/// How a rename treats a taken target name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// [`Exists`](crate::VfsError::Exists).
    NoReplace,
    /// The target is replaced in one step, as POSIX `rename` does.
    Replace,
}

/// A tree of files.
///
/// Every path is relative to `dir`, a directory node of this backend, and is never resolved above the backend's root,
/// whatever it or a symbolic link in it says. An empty path means `dir` itself. Symbolic links before the last component
/// are followed below the root; one that leads out fails with [`Escapes`](crate::VfsError::Escapes).
pub trait Backend: Send + std::marker::Sync + 'static {
    /// What this backend can do.
    fn capabilities(&self) -> Capabilities;

    /// The directory everything is below. Cheap: kept open.
    fn root(&self) -> Arc<dyn Node>;

    /// Opens, and where asked makes, the object at `path`.
    ///
    /// Sockets, pipes and devices are opened for attributes only whatever `how.access` says asked for, and then only
    /// when it is empty: else [`AccessDenied`](crate::VfsError::AccessDenied). No open ever waits for a peer or acts on
    /// a device. With [`Wait::Never`] only what the kernel's name cache holds is opened, and nothing is made.
    fn open(&self, cred: &Cred, dir: &dyn Node, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Opened>;

    /// Attributes of the object at `path`, without following a link in last place.
    fn attr_at(&self, cred: &Cred, dir: &dyn Node, path: &Path, wait: Wait) -> VfsResult<Attr>;

    /// Removes the entry `path`, a directory (then it must be empty) or anything else. With `only`, the entry must still
    /// be that object, else [`Stale`](crate::VfsError::Stale).
    fn remove(&self, cred: &Cred, dir: &dyn Node, path: &Path, only: Option<FileId>) -> VfsResult<()>;

    /// Moves the entry `from` to `to`; both are relative to their own directory node. Never follows a link in last place.
    fn rename(&self, cred: &Cred, from: (&dyn Node, &Path), to: (&dyn Node, &Path), replace: Rename) -> VfsResult<()>;

    /// The same, as long as the entry `from` is the object `only`, else [`Stale`](crate::VfsError::Stale).
    fn rename_only(
        &self,
        cred: &Cred,
        from: (&dyn Node, &Path),
        to: (&dyn Node, &Path),
        replace: Rename,
        only: FileId,
    ) -> VfsResult<()> {
        match self.attr_at(cred, from.0, from.1, Wait::Allowed)?.id == only {
            true => self.rename(cred, from, to, replace),
            false => Err(crate::VfsError::Stale),
        }
    }

    /// Gives `node` a further name. [`Exists`](crate::VfsError::Exists) when the name is taken.
    fn link(&self, cred: &Cred, node: &dyn Node, dir: &dyn Node, path: &Path) -> VfsResult<()>;

    /// Makes a symbolic link at `path` holding `target`, uninterpreted.
    fn symlink(&self, cred: &Cred, dir: &dyn Node, path: &Path, target: &[u8]) -> VfsResult<()>;

    /// Where `node` is now, relative to the root: the entry it was opened by, wherever that has been moved since, also
    /// by other programs. [`Stale`](crate::VfsError::Stale) when that entry is gone or lies outside the root.
    fn path_of(&self, node: &dyn Node) -> VfsResult<Path>;

    /// The same path with every component as the directory spells it, where a component is found only by ignoring case,
    /// or by the name [`shortname`](crate::shortname) makes up; components that exist exactly win, and case goes before. [`NotFound`](crate::VfsError::NotFound) when the last component matches nothing
    /// (and [`PathNotFound`](crate::VfsError::PathNotFound) when an earlier one does): then the answer's `Path` for a new
    /// object is had from [`Backend::spell_parent`].
    fn spell(&self, cred: &Cred, dir: &dyn Node, path: &Path, wait: Wait) -> VfsResult<Path>;

    /// Like [`Backend::spell`] for all components but the last, which is kept as the caller spelled it.
    fn spell_parent(&self, cred: &Cred, dir: &dyn Node, path: &Path, wait: Wait) -> VfsResult<Path> {
        match (path.parent(), path.last()) {
            (Some(parent), Some(last)) => Ok(self.spell(cred, dir, &parent, wait)?.join(last)),
            _ => Ok(path.clone()),
        }
    }

    /// A name for `node` that outlives it: the same object is found by it in another run of the server too, wherever it
    /// has been moved. At most [`MAX_HANDLE_BYTES`], and the same bytes each time.
    /// [`NotSupported`](crate::VfsError::NotSupported) where the backend has no such names.
    fn handle_of(&self, _node: &dyn Node) -> VfsResult<Vec<u8>> {
        Err(crate::VfsError::NotSupported)
    }

    /// Attributes and handle of the entry `name` of the directory `dir`, without following a link. May wait.
    fn entry_handle(&self, cred: &Cred, dir: &dyn Node, name: Name<'_>) -> VfsResult<(Attr, Vec<u8>)> {
        let how = OpenHow {
            access: Access::empty(),
            disposition: Disposition::Open,
            kind: WantKind::Any,
            follow: false,
            mode: 0,
        };
        let opened = self.open(cred, dir, &Path::here().join(name), &how, Wait::Allowed)?;
        Ok((opened.attr, self.handle_of(&*opened.node)?))
    }

    /// The handle of `node`, which was just opened as the entry `name` of the directory `dir`: as [`Backend::handle_of`], and
    /// cheaper where the name helps. May wait.
    fn handle_of_entry(&self, cred: &Cred, dir: &dyn Node, name: Name<'_>, node: &dyn Node) -> VfsResult<Vec<u8>> {
        match self.entry_handle(cred, dir, name) {
            Ok((attr, handle)) if attr.id == node.id() => Ok(handle),
            // The name means something else by now, or may not be looked up by who made it.
            _ => self.handle_of(node),
        }
    }

    /// Opens the object a handle names, a symbolic link itself. The identity needs the rights on the object that
    /// `access` asks for and none on the way to it. [`Stale`](crate::VfsError::Stale) when the object is gone or lies
    /// outside of the root now, [`InvalidArgument`](crate::VfsError::InvalidArgument) for bytes that no call of
    /// [`Backend::handle_of`] made: they are not trusted, but whoever takes them from strangers should sign them.
    fn open_handle(&self, _cred: &Cred, _handle: &[u8], _access: Access, _wait: Wait) -> VfsResult<Opened> {
        Err(crate::VfsError::NotSupported)
    }

    /// Makes a named pipe or a local socket at `path`, with exactly these permission bits.
    /// [`NotSupported`](crate::VfsError::NotSupported) for other kinds, and where there are none.
    fn make_special(&self, _cred: &Cred, _dir: &dyn Node, _path: &Path, _kind: FileKind, _mode: u32) -> VfsResult<()> {
        Err(crate::VfsError::NotSupported)
    }

    /// Makes a device (`rdev` as in [`Attr::rdev`]) at `path`, with exactly these permission bits; it is never acted on
    /// here. [`NotPermitted`](crate::VfsError::NotPermitted) unless the identity may,
    /// [`NotSupported`](crate::VfsError::NotSupported) for other kinds, and where there are none.
    fn make_device(
        &self,
        _cred: &Cred,
        _dir: &dyn Node,
        _path: &Path,
        _kind: FileKind,
        _rdev: u64,
        _mode: u32,
    ) -> VfsResult<()> {
        Err(crate::VfsError::NotSupported)
    }

    /// Has `told` hear what others than this process change in the directory `dir`, with `below` also in the directories
    /// below it, until the answer is dropped. May wait. [`NotSupported`](crate::VfsError::NotSupported) where nothing can
    /// be known; how many directories below can be watched is limited.
    fn watch(&self, _dir: &dyn Node, _below: bool, _told: &Arc<dyn Told>) -> VfsResult<Watching> {
        Err(crate::VfsError::NotSupported)
    }

    /// The file system's size and use. Does not wait.
    fn fs_stat(&self) -> VfsResult<FsStat>;

    /// What quotas say of the space of what this user and group own, whichever leaves less; `None` where neither is counted.
    /// May wait.
    fn quota(&self, _uid: u32, _gid: u32) -> VfsResult<Option<Quota>> {
        Ok(None)
    }

    /// The file system's size and use as a user sees it. May wait where there are quotas.
    fn fs_stat_for(&self, cred: &Cred) -> VfsResult<FsStat> {
        let stat = self.fs_stat()?;
        match self.capabilities().contains(Capabilities::QUOTA) {
            true => Ok(stat.within(self.quota(cred.uid, cred.gid)?)),
            false => Ok(stat),
        }
    }
}

/// An open object. Dropping it closes it.
pub trait Node: Send + std::marker::Sync + Any {
    /// For the backend that made it.
    fn as_any(&self) -> &dyn Any;

    /// Which object. Does not wait.
    fn id(&self) -> FileId;

    /// What kind of object. Does not wait.
    fn kind(&self) -> FileKind;

    /// Its attributes now. Does not wait for a device on local file systems.
    fn attr(&self) -> VfsResult<Attr>;

    /// Changes attributes: all or, on failure, possibly some.
    fn set_attr(&self, cred: &Cred, set: &SetAttr) -> VfsResult<()>;

    /// Which of `ask` the identity has on this object.
    fn access(&self, cred: &Cred, ask: AccessMask) -> VfsResult<AccessMask>;

    /// Reads at `offset_bytes` into `buf` until it is full or the file ends; the answer is the count. With
    /// [`Wait::Never`], [`WouldBlock`](crate::VfsError::WouldBlock) unless all of it was in memory.
    fn read(&self, offset_bytes: u64, buf: &mut [u8], wait: Wait) -> VfsResult<usize>;

    /// Moves up to `len_bytes` of the file's pages into `pipe` and answers how many bytes that was: fewer only at the
    /// end of the file. [`NotSupported`](crate::VfsError::NotSupported) where the copy path must serve. On failure the
    /// pipe may hold some bytes and must be thrown away.
    fn read_pages(&self, offset_bytes: u64, len_bytes: usize, pipe: &mut dyn PagePipe, wait: Wait) -> VfsResult<usize>;

    /// Writes all of `data` at `offset_bytes`. On failure some of it may have been written. Writing to the page cache
    /// is not waiting: the call may be made inline with either [`Wait`], and with [`Wait::Never`] answers
    /// [`WouldBlock`](crate::VfsError::WouldBlock), having written nothing, where the backend knows it would stall.
    fn write(&self, offset_bytes: u64, data: &[u8], wait: Wait) -> VfsResult<()>;

    /// Returns once what was written is on stable storage; an error that the device reported is returned at least once.
    fn sync(&self, how: Sync) -> VfsResult<()>;

    /// Makes sure the range has space and reads as before, extending the file when `extend`.
    fn allocate(&self, offset_bytes: u64, len_bytes: u64, extend: bool) -> VfsResult<()>;

    /// Copies `len_bytes` from `offset_bytes` of this file to `to_bytes` of `to`, a file of the same backend opened for
    /// writing and possibly this one: overlapping ranges are copied as if by way of a buffer. The answer is the count,
    /// less only where this file ends. On failure some of it may have been copied.
    fn copy_range(&self, offset_bytes: u64, to: &dyn Node, to_bytes: u64, len_bytes: u64) -> VfsResult<u64> {
        crate::ranges::copy(self.id() == to.id(), self, offset_bytes, to, to_bytes, len_bytes)
    }

    /// Lets `to` share this file's extents instead of copying them. Both ranges lie within their files or reach
    /// their own ends, and are aligned as the file system wants it, else
    /// [`InvalidArgument`](crate::VfsError::InvalidArgument); nothing has changed on failure.
    /// [`NotSupported`](crate::VfsError::NotSupported) without [`Capabilities::REFLINK`].
    fn clone_range(&self, _offset_bytes: u64, _to: &dyn Node, _to_bytes: u64, _len_bytes: u64) -> VfsResult<()> {
        Err(crate::VfsError::NotSupported)
    }

    /// Makes the range read as zeros without changing the length; what lies past the end of the file stays as it is.
    /// With `release` its space is given back where the file system can, else it is kept.
    fn zero_range(&self, offset_bytes: u64, len_bytes: u64, _release: bool) -> VfsResult<()> {
        crate::ranges::write_zeros(self, offset_bytes, len_bytes)
    }

    /// The first range at or after `offset_bytes` that holds data, cut at the file's end; `None` when only holes or
    /// nothing follows. A backend that keeps no holes calls everything data.
    fn next_data(&self, offset_bytes: u64) -> VfsResult<Option<std::ops::Range<u64>>> {
        let end = self.attr()?.len_bytes;
        Ok((offset_bytes < end).then_some(offset_bytes..end))
    }

    /// Lists entries from `cookie` (0 for the start) until `take` answers false or the directory ends; true at the end.
    /// An entry that exists throughout a listing is shown exactly once.
    fn read_dir(&self, cookie: u64, take: &mut dyn FnMut(DirEntry<'_>) -> bool) -> VfsResult<bool>;

    /// Attributes of the entry `name` of this directory, without following a link.
    fn entry_attr(&self, name: Name<'_>) -> VfsResult<Attr>;

    /// An extended attribute of the entry `name` of this directory, as [`Node::xattr`].
    fn entry_xattr(&self, name: Name<'_>, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>>;

    /// What a symbolic link holds.
    fn read_link(&self) -> VfsResult<Vec<u8>>;

    /// An extended attribute, by its full name (`user.DOSATTRIB`). [`NoXattr`](crate::VfsError::NoXattr) when absent,
    /// [`RangeTooSmall`](crate::VfsError::RangeTooSmall) when longer than `max_bytes`.
    fn xattr(&self, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>>;

    /// Sets an extended attribute.
    fn set_xattr(&self, cred: &Cred, key: &str, value: &[u8]) -> VfsResult<()>;

    /// Removes an extended attribute.
    fn remove_xattr(&self, cred: &Cred, key: &str) -> VfsResult<()>;

    /// The names of all extended attributes the process can see.
    fn xattr_names(&self) -> VfsResult<Vec<String>>;
}
