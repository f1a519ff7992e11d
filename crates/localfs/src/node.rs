//! An open object: [`LocalNode`] and its [`Node`] face. `fs.rs` makes them; what a call does is in `node_io.rs` (data),
//! `listing.rs` and `access.rs` (attributes, rights, extended attributes).

use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use vfs::{
    Access, AccessMask, Attr, Cred, DirEntry, FileId, FileKind, Name, Node, PagePipe, SetAttr, Sync, Timestamp,
    VfsError, VfsResult, Wait,
};

use crate::listing::Listing;
use crate::resolve::Root;
use crate::stat;

/// One open object.
pub struct LocalNode {
    pub root: Arc<Root>,
    pub fd: OwnedFd,
    pub id: FileId,
    pub kind: FileKind,
    pub access: Access,
    /// Whether the descriptor only names the object (O_PATH): calls that need more go by way of /proc.
    pub path_only: bool,
    /// Whether reads that must not wait can be asked for of this object's file system.
    pub nowait_reads: AtomicBool,
    pub listing: Mutex<Listing>,
}

impl LocalNode {
    /// A node of an object whose attributes were just read.
    pub fn new(root: &Arc<Root>, fd: OwnedFd, attr: &Attr, access: Access, path_only: bool) -> Self {
        Self {
            root: Arc::clone(root),
            fd,
            id: attr.id,
            kind: attr.kind,
            access,
            path_only,
            nowait_reads: AtomicBool::new(true),
            listing: Mutex::default(),
        }
    }

    /// When the object was born, where that is known: it tells an object from others of its number.
    pub fn born(&self) -> Option<Timestamp> {
        const NANOS: u64 = 1_000_000_000;
        let born = self.id.generation;
        (born != 0).then_some(Timestamp { secs: (born / NANOS) as i64, nanos: (born % NANOS) as u32 })
    }

    /// The node behind `node` if this backend made it.
    pub fn of<'a>(root: &Arc<Root>, node: &'a dyn Node) -> VfsResult<&'a Self> {
        let node = node.as_any().downcast_ref::<Self>().ok_or(VfsError::CrossDevice)?;
        if Arc::ptr_eq(root, &node.root) { Ok(node) } else { Err(VfsError::CrossDevice) }
    }

    /// The same, as the start of a path.
    pub fn directory<'a>(root: &Arc<Root>, node: &'a dyn Node) -> VfsResult<&'a Self> {
        let node = Self::of(root, node)?;
        if node.kind == FileKind::Directory { Ok(node) } else { Err(VfsError::NotDirectory) }
    }

    /// Fails unless the backend may be changed.
    pub fn changeable(&self) -> VfsResult<()> {
        if self.root.read_only { Err(VfsError::ReadOnly) } else { Ok(()) }
    }

    /// Fails unless this is a regular file opened for `access`.
    pub fn file_for(&self, access: Access) -> VfsResult<()> {
        match self.kind {
            FileKind::Directory => Err(VfsError::IsDirectory),
            FileKind::File if self.access.contains(access) => Ok(()),
            FileKind::File => Err(VfsError::AccessDenied),
            _ => Err(VfsError::InvalidArgument),
        }
    }
}

impl Node for LocalNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn id(&self) -> FileId {
        self.id
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn attr(&self) -> VfsResult<Attr> {
        stat::of_fd(&self.fd)
    }

    fn set_attr(&self, cred: &Cred, set: &SetAttr) -> VfsResult<()> {
        self.change_attr(cred, set)
    }

    fn access(&self, cred: &Cred, ask: AccessMask) -> VfsResult<AccessMask> {
        self.granted(cred, ask)
    }

    fn read(&self, offset_bytes: u64, buf: &mut [u8], wait: Wait) -> VfsResult<usize> {
        self.read_at(offset_bytes, buf, wait)
    }

    fn read_pages(&self, offset_bytes: u64, len_bytes: usize, pipe: &mut dyn PagePipe, wait: Wait) -> VfsResult<usize> {
        self.pages_into(offset_bytes, len_bytes, pipe, wait)
    }

    fn write(&self, offset_bytes: u64, data: &[u8], _wait: Wait) -> VfsResult<()> {
        self.write_at(offset_bytes, data)
    }

    fn sync(&self, how: Sync) -> VfsResult<()> {
        self.flush(how)
    }

    fn allocate(&self, offset_bytes: u64, len_bytes: u64, extend: bool) -> VfsResult<()> {
        self.reserve(offset_bytes, len_bytes, extend)
    }

    fn copy_range(&self, offset_bytes: u64, to: &dyn Node, to_bytes: u64, len_bytes: u64) -> VfsResult<u64> {
        self.copy_to(offset_bytes, Self::of(&self.root, to)?, to_bytes, len_bytes)
    }

    fn clone_range(&self, offset_bytes: u64, to: &dyn Node, to_bytes: u64, len_bytes: u64) -> VfsResult<()> {
        self.clone_to(offset_bytes, Self::of(&self.root, to)?, to_bytes, len_bytes)
    }

    fn zero_range(&self, offset_bytes: u64, len_bytes: u64, release: bool) -> VfsResult<()> {
        self.zero(offset_bytes, len_bytes, release)
    }

    fn next_data(&self, offset_bytes: u64) -> VfsResult<Option<std::ops::Range<u64>>> {
        self.data_after(offset_bytes)
    }

    fn read_dir(&self, cookie: u64, take: &mut dyn FnMut(DirEntry<'_>) -> bool) -> VfsResult<bool> {
        self.list(cookie, take)
    }

    fn entry_attr(&self, name: Name<'_>) -> VfsResult<Attr> {
        self.root.identity.enter_own()?;
        stat::of_entry(&self.fd, name.as_bytes())
    }

    fn entry_xattr(&self, name: Name<'_>, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
        self.xattr_of_entry(name, key, max_bytes)
    }

    fn read_link(&self) -> VfsResult<Vec<u8>> {
        self.link_target()
    }

    fn xattr(&self, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
        self.xattr_value(key, max_bytes)
    }

    fn set_xattr(&self, cred: &Cred, key: &str, value: &[u8]) -> VfsResult<()> {
        self.put_xattr(cred, key, value)
    }

    fn remove_xattr(&self, cred: &Cred, key: &str) -> VfsResult<()> {
        self.drop_xattr(cred, key)
    }

    fn xattr_names(&self) -> VfsResult<Vec<String>> {
        self.xattr_list()
    }
}
