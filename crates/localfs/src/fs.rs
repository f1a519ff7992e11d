//! [`LocalFs`]: the [`Backend`] over one directory. The server assembly makes it, the protocol servers call it. It holds
//! no path: its root stays the directory it was opened on, wherever that is moved.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstatfs, fstatvfs, open, openat, openat2};
use rustix::io::Errno;
use vfs::casefold::FoldCache;
use vfs::{
    Access, Attr, Backend, Capabilities, Cred, Disposition, FileId, FileKind, FsStat, Node, OpenHow, Opened, Path,
    Quota, Rename, Told, VfsError, VfsResult, Wait, WantKind, Watching,
};

use crate::errno::vfs_error;
use crate::identity::{Identity, heed_limits, run_as_process};
use crate::names::{NameLocks, access_flags};
use crate::node::LocalNode;
use crate::resolve::Root;
use crate::sys::QuotaKind;
use crate::{quota, stat};

/// Magic numbers of file systems whose files live in memory (statfs(2): TMPFS_MAGIC, RAMFS_MAGIC).
const MEMORY_FILE_SYSTEMS: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The overflow id: some user who is not this process.
const NOBODY: u32 = 65534;

/// How often an open that finds, then misses, then finds the name again goes on.
const OPEN_RETRIES: usize = 8;

/// How to serve a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalFsOptions {
    /// Whether everything that would change something is refused.
    pub read_only: bool,
    /// Whether no device nodes are to be expected below the directory. Opening one then may act on it, as opening a tape
    /// drive does, before it is refused; in return an open of a file costs two system calls less. Where the directory is
    /// on a file system mounted `nodev` this is so anyway.
    pub assume_no_devices: bool,
    /// Names kept in folded indexes at most, all directories together; about 100 bytes each.
    pub max_indexed_names: usize,
}

impl Default for LocalFsOptions {
    fn default() -> Self {
        Self { read_only: false, assume_no_devices: false, max_indexed_names: 1_000_000 }
    }
}

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum OpenRootError {
    /// It does not open.
    #[error("cannot open {path}: {source}")]
    Open {
        /// The directory, or what else is needed.
        path: std::path::PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The kernel, or a sandbox around the process, lacks openat2 (Linux 5.6), without which no path is safe.
    #[error("this system does not allow openat2, which is needed to keep paths inside the share: {0}")]
    NoOpenat2(std::io::Error),
    /// The process is not root and yet passes over file permissions. It would do so for every user it turns into, since
    /// only root's capabilities are dropped with its user id (capabilities(7)).
    #[error("run as root, or without the capabilities CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER and FSETID")]
    Overprivileged,
}

/// A POSIX directory as a backend.
pub struct LocalFs {
    root: Arc<Root>,
    node: Arc<LocalNode>,
    capabilities: Capabilities,
}

impl LocalFs {
    /// Serves the directory `root`. The process needs `/proc`. Leaves the calling thread with the process's identity and,
    /// as [`heed_limits`](crate::heed_limits) does, without the power to pass over quotas.
    pub fn new(root: &std::path::Path, options: LocalFsOptions) -> Result<Arc<Self>, OpenRootError> {
        let failed = |path: &std::path::Path, errno: Errno| OpenRootError::Open {
            path: path.to_path_buf(),
            source: errno.into(),
        };
        let named = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // This thread may have worked for a user before.
        run_as_process().map_err(|_| failed(root, Errno::PERM))?;
        heed_limits();
        let identity = Identity::new().ok_or(OpenRootError::Overprivileged)?;
        let fd = open(root, named, Mode::empty()).map_err(|e| failed(root, e))?;
        let procfs = std::path::Path::new("/proc/self/fd");
        let procfs = open(procfs, named, Mode::empty()).map_err(|e| failed(procfs, e))?;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        openat2(&fd, c".", named, Mode::empty(), beneath).map_err(|e| OpenRootError::NoOpenat2(e.into()))?;
        let cached = openat2(&fd, c".", named, Mode::empty(), beneath | ResolveFlags::CACHED);
        let attr = stat::of_fd(&fd).map_err(|_| failed(root, Errno::IO))?;
        let statvfs = fstatvfs(&fd).map_err(|e| failed(root, e))?;
        let statfs = fstatfs(&fd).map_err(|e| failed(root, e))?;

        let readable = openat2(&fd, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), beneath);
        let shared = Arc::new(Root {
            handles: crate::handles::Handles::new(&fd, readable.ok()),
            id: attr.id,
            procfs,
            identity,
            read_only: options.read_only || statvfs.f_flag.contains(StatVfsMountFlags::RDONLY),
            devices_inert: options.assume_no_devices || statvfs.f_flag.contains(StatVfsMountFlags::NODEV),
            cached_lookups: AtomicBool::new(matches!(cached, Ok(_) | Err(Errno::AGAIN))),
            nowait_reads: AtomicBool::new(true),
            in_memory: MEMORY_FILE_SYSTEMS.contains(&(statfs.f_type as i64)),
            index: FoldCache::new(options.max_indexed_names),
            names: NameLocks::default(),
            feed: crate::feed::Feed::default(),
            fd,
        });
        let node = Arc::new(root_node(&shared, &attr).map_err(|e| failed(root, e))?);
        let capabilities = capabilities(&shared, &node, &attr);
        Ok(Arc::new(Self { root: shared, node, capabilities }))
    }

    /// Keeps in the file `path` what it takes to find objects by their handles in the next run too, where the kernel's
    /// own handles cannot be used. Not two servers may use one file.
    pub fn keep_handles(&self, path: &std::path::Path) -> std::io::Result<()> {
        self.root.handles.hints.keep_in(path)
    }

    /// Writes to that file what has been kept back for the next larger write.
    pub fn flush_handles(&self) {
        self.root.handles.hints.write_out();
    }

    fn open_existing(&self, dir: &LocalNode, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Opened> {
        match self.open_found(dir, path, how, wait) {
            Err(VfsError::NotFound) => Err(self.root.why_missing(dir, path, wait)),
            other => other,
        }
    }

    /// Opens what is there; what is missing, the object or a directory on the way, is not found out.
    fn open_found(&self, dir: &LocalNode, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Opened> {
        if !how.access.is_empty()
            && self.root.devices_inert
            && let Some(opened) = self.open_directly(dir, path, how, wait)?
        {
            return Ok(opened);
        }
        let nofollow = if how.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let fd = self.root.look_below(dir, path, OFlags::PATH | nofollow, wait)?;
        let attr = stat::of_fd(&fd)?;
        wanted(&attr, how)?;
        self.opened_for(fd, attr, how.access)
    }

    /// Opens what `fd` only names for what it is to be used for.
    fn opened_for(&self, fd: std::os::fd::OwnedFd, attr: Attr, access: Access) -> VfsResult<Opened> {
        let open = match attr.kind {
            FileKind::File if !access.is_empty() => access_flags(access),
            FileKind::Directory if access.contains(Access::READ) => OFlags::RDONLY | OFlags::DIRECTORY,
            _ => return Ok(self.opened(fd, attr, access, true, false)),
        };
        let fd = self.root.reopen(fd.as_fd(), open | OFlags::NONBLOCK | OFlags::NOCTTY).map_err(vfs_error)?;
        Ok(self.opened(fd, attr, access, false, false))
    }

    /// Opens in one step where no device can come to harm. `None` when the careful way must tell what is there.
    fn open_directly(&self, dir: &LocalNode, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Option<Opened>> {
        let mut flags = access_flags(how.access) | OFlags::NONBLOCK | OFlags::NOCTTY;
        if !how.follow {
            flags |= OFlags::NOFOLLOW;
        }
        let Ok(fd) = self.root.try_below(dir, path, flags, ResolveFlags::NO_XDEV, wait) else { return Ok(None) };
        let attr = stat::of_fd(&fd)?;
        if !matches!(attr.kind, FileKind::File | FileKind::Directory) {
            return Ok(None);
        }
        wanted(&attr, how)?;
        Ok(Some(self.opened(fd, attr, how.access, false, false)))
    }

    fn create(&self, dir: &LocalNode, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Opened> {
        self.node.changeable()?;
        if wait == Wait::Never {
            return Err(VfsError::WouldBlock);
        }
        let (fd, attr) = self.root.make(dir, path, how)?;
        let path_only = attr.kind == FileKind::Directory && !how.access.contains(Access::READ);
        Ok(self.opened(fd, attr, how.access, path_only, true))
    }

    fn open_or_create(&self, dir: &LocalNode, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Opened> {
        for _ in 0..OPEN_RETRIES {
            match self.open_found(dir, path, how, wait) {
                Err(VfsError::NotFound) => {}
                other => return other,
            }
            match self.create(dir, path, how, wait) {
                Err(VfsError::Exists) => {}
                other => return other,
            }
        }
        // There, and yet not: a link that leads nowhere.
        Err(VfsError::NotFound)
    }

    fn move_entry(
        &self,
        cred: &Cred,
        from: (&dyn Node, &Path),
        to: (&dyn Node, &Path),
        replace: Rename,
        only: Option<FileId>,
    ) -> VfsResult<()> {
        self.node.changeable()?;
        let from = (LocalNode::directory(&self.root, from.0)?, from.1);
        let to = (LocalNode::directory(&self.root, to.0)?, to.1);
        self.root.identity.enter(cred)?;
        self.root.rename(from, to, replace, only)
    }

    fn opened(&self, fd: std::os::fd::OwnedFd, attr: Attr, access: Access, path_only: bool, created: bool) -> Opened {
        let node = LocalNode::new(&self.root, fd, &attr, access, path_only);
        node.nowait_reads.store(attr.id.dev != self.root.id.dev || self.root.nowait_reads.load(Relaxed), Relaxed);
        Opened { node: Arc::new(node), attr, created }
    }
}

/// The root stays open for everyone, to be listed too where the process may.
fn root_node(root: &Arc<Root>, attr: &Attr) -> Result<LocalNode, Errno> {
    match root.reopen(root.fd.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(fd) => Ok(LocalNode::new(root, fd, attr, Access::READ, false)),
        Err(_) => {
            let fd = rustix::io::fcntl_dupfd_cloexec(root.fd.as_fd(), 0)?;
            Ok(LocalNode::new(root, fd, attr, Access::empty(), true))
        }
    }
}

fn capabilities(root: &Root, node: &LocalNode, attr: &Attr) -> Capabilities {
    let mut can = Capabilities::SPARSE | Capabilities::PAGES;
    can.set(Capabilities::BIRTH_TIME, attr.created.is_some());
    can.set(Capabilities::READ_ONLY, root.read_only);
    can.set(Capabilities::REFLINK, !root.read_only && shares_extents(root));
    can.set(Capabilities::IDENTITY, root.identity.switches());
    let probe = node.xattr_value("user.DOSATTRIB", 256);
    can.set(Capabilities::XATTR, probe != Err(VfsError::NotSupported));
    // Somebody else's may be asked by who has CAP_SYS_ADMIN only.
    let counts = |kind| matches!(quota::of(&root.fd, kind, NOBODY), Ok(Some(_)));
    can.set(Capabilities::QUOTA, counts(QuotaKind::User) || counts(QuotaKind::Group));
    can
}

/// Whether files can share extents, tried with two that have no name.
fn shares_extents(root: &Root) -> bool {
    let unnamed = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        openat(&root.fd, c".", flags, Mode::RUSR | Mode::WUSR)
    };
    match (unnamed(), unnamed()) {
        // The kernel looks for the file system's means before it finds that there is nothing to share.
        (Ok(from), Ok(to)) => crate::sys::clone_range(&from, 0, &to, 0, 0).is_ok(),
        _ => false,
    }
}

/// Whether what is there may be opened as asked.
fn wanted(attr: &Attr, how: &OpenHow) -> VfsResult<()> {
    match (attr.kind, how.kind) {
        (FileKind::Directory, WantKind::File) => Err(VfsError::IsDirectory),
        (FileKind::Directory, _) => Ok(()),
        (_, WantKind::Directory) => Err(VfsError::NotDirectory),
        (FileKind::File, _) => Ok(()),
        _ if how.access.is_empty() => Ok(()),
        (FileKind::Symlink, _) => Err(VfsError::IsSymlink),
        _ => Err(VfsError::AccessDenied),
    }
}

impl Backend for LocalFs {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn root(&self) -> Arc<dyn Node> {
        Arc::clone(&self.node) as Arc<dyn Node>
    }

    fn open(&self, cred: &Cred, dir: &dyn Node, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Opened> {
        let dir = LocalNode::directory(&self.root, dir)?;
        if how.access.contains(Access::WRITE) {
            self.node.changeable()?;
        }
        self.root.identity.enter(cred)?;
        match how.disposition {
            Disposition::Open => self.open_existing(dir, path, how, wait),
            Disposition::Create => self.create(dir, path, how, wait),
            Disposition::OpenOrCreate => self.open_or_create(dir, path, how, wait),
        }
    }

    fn attr_at(&self, cred: &Cred, dir: &dyn Node, path: &Path, wait: Wait) -> VfsResult<Attr> {
        let dir = LocalNode::directory(&self.root, dir)?;
        self.root.identity.enter(cred)?;
        match path.last() {
            Some(name) if wait == Wait::Allowed && path.as_bytes().len() == name.as_bytes().len() => {
                stat::of_entry(&dir.fd, name.as_bytes())
            }
            _ => stat::of_fd(self.root.open_below(dir, path, OFlags::PATH | OFlags::NOFOLLOW, wait)?),
        }
    }

    fn remove(&self, cred: &Cred, dir: &dyn Node, path: &Path, only: Option<FileId>) -> VfsResult<()> {
        self.node.changeable()?;
        let dir = LocalNode::directory(&self.root, dir)?;
        self.root.identity.enter(cred)?;
        self.root.remove(dir, path, only)
    }

    fn rename(&self, cred: &Cred, from: (&dyn Node, &Path), to: (&dyn Node, &Path), replace: Rename) -> VfsResult<()> {
        self.move_entry(cred, from, to, replace, None)
    }

    fn rename_only(
        &self,
        cred: &Cred,
        from: (&dyn Node, &Path),
        to: (&dyn Node, &Path),
        replace: Rename,
        only: FileId,
    ) -> VfsResult<()> {
        self.move_entry(cred, from, to, replace, Some(only))
    }

    fn link(&self, cred: &Cred, node: &dyn Node, dir: &dyn Node, path: &Path) -> VfsResult<()> {
        self.node.changeable()?;
        let node = LocalNode::of(&self.root, node)?;
        let dir = LocalNode::directory(&self.root, dir)?;
        self.root.identity.enter(cred)?;
        self.root.link(node, dir, path)
    }

    fn symlink(&self, cred: &Cred, dir: &dyn Node, path: &Path, target: &[u8]) -> VfsResult<()> {
        self.node.changeable()?;
        let dir = LocalNode::directory(&self.root, dir)?;
        self.root.identity.enter(cred)?;
        self.root.symlink(dir, path, target)
    }

    fn path_of(&self, node: &dyn Node) -> VfsResult<Path> {
        self.root.path_of(LocalNode::of(&self.root, node)?)
    }

    fn spell(&self, cred: &Cred, dir: &dyn Node, path: &Path, wait: Wait) -> VfsResult<Path> {
        self.root.spell(cred, LocalNode::directory(&self.root, dir)?, path, wait)
    }

    fn handle_of(&self, node: &dyn Node) -> VfsResult<Vec<u8>> {
        self.root.handle_of(LocalNode::of(&self.root, node)?)
    }

    fn entry_handle(&self, cred: &Cred, dir: &dyn Node, name: vfs::Name<'_>) -> VfsResult<(Attr, Vec<u8>)> {
        let dir = LocalNode::directory(&self.root, dir)?;
        self.root.identity.enter(cred)?;
        self.root.entry_handle(dir, name)
    }

    fn handle_of_entry(&self, cred: &Cred, dir: &dyn Node, name: vfs::Name<'_>, node: &dyn Node) -> VfsResult<Vec<u8>> {
        if let Some(handle) = self.root.kernel_handle_of_node(LocalNode::of(&self.root, node)?) {
            return Ok(handle);
        }
        match self.entry_handle(cred, dir, name) {
            Ok((attr, handle)) if attr.id == node.id() => Ok(handle),
            // The name means something else by now, or may not be looked up by who made it.
            _ => self.handle_of(node),
        }
    }

    fn open_handle(&self, cred: &Cred, handle: &[u8], access: Access, wait: Wait) -> VfsResult<Opened> {
        // The kernel has no way to open by handle only what is in memory.
        if wait == Wait::Never {
            return Err(VfsError::WouldBlock);
        }
        let (fd, attr) = self.root.find_handle(handle)?;
        if access.contains(Access::WRITE) && attr.kind != FileKind::Directory {
            self.node.changeable()?;
        }
        let how = OpenHow { access, disposition: Disposition::Open, kind: WantKind::Any, follow: false, mode: 0 };
        wanted(&attr, &how)?;
        self.root.identity.enter(cred)?;
        self.opened_for(fd, attr, access)
    }

    fn make_special(&self, cred: &Cred, dir: &dyn Node, path: &Path, kind: FileKind, mode: u32) -> VfsResult<()> {
        self.node.changeable()?;
        let dir = LocalNode::directory(&self.root, dir)?;
        self.root.identity.enter(cred)?;
        self.root.make_special(dir, path, kind, mode)
    }

    fn make_device(
        &self,
        cred: &Cred,
        dir: &dyn Node,
        path: &Path,
        kind: FileKind,
        rdev: u64,
        mode: u32,
    ) -> VfsResult<()> {
        self.node.changeable()?;
        let dir = LocalNode::directory(&self.root, dir)?;
        self.root.identity.enter(cred)?;
        self.root.make_device(dir, path, kind, rdev, mode)
    }

    fn watch(&self, dir: &dyn Node, below: bool, told: &Arc<dyn Told>) -> VfsResult<Watching> {
        self.root.watch(LocalNode::directory(&self.root, dir)?.fd.as_fd(), below, told)
    }

    fn fs_stat(&self) -> VfsResult<FsStat> {
        let raw = fstatvfs(&self.root.fd).map_err(vfs_error)?;
        Ok(FsStat {
            fs_id: raw.f_fsid,
            block_bytes: u32::try_from(raw.f_frsize).unwrap_or(4096).max(1),
            total_blocks: raw.f_blocks,
            free_blocks: raw.f_bfree,
            available_blocks: raw.f_bavail,
            total_files: raw.f_files,
            free_files: raw.f_ffree,
            name_max: u32::try_from(raw.f_namemax).unwrap_or(255),
        })
    }

    fn quota(&self, uid: u32, gid: u32) -> VfsResult<Option<Quota>> {
        if !self.capabilities.contains(Capabilities::QUOTA) {
            return Ok(None);
        }
        let user = quota::of(&self.root.fd, QuotaKind::User, uid)?;
        let group = quota::of(&self.root.fd, QuotaKind::Group, gid)?;
        Ok(match (user, group) {
            (Some(user), Some(group)) => Some(user.tighter(group)),
            (user, group) => user.or(group),
        })
    }
}
