//! An open object of a [`MemFs`](super::MemFs), and its face as a [`Node`].

use std::any::Any;
use std::sync::Arc;

use super::tree::{Inode, MAX_OFFSET_BYTES, ROOT};
use super::{Op, Shared};
use crate::{
    Access, AccessMask, Attr, Cred, DirEntry, FileId, FileKind, Name, Node, PagePipe, SetAttr, SetTime, Sync,
    Timestamp, VfsError, VfsResult, Wait,
};

/// The longest value of an extended attribute, as in Linux (XATTR_SIZE_MAX).
const XATTR_MAX_BYTES: usize = 65536;

pub struct MemNode {
    pub shared: Arc<Shared>,
    id: FileId,
    kind: FileKind,
    access: Access,
    /// The entry it was opened by.
    pub entry: Option<u64>,
}

impl MemNode {
    /// A node of an object that is counted as open already.
    pub fn new(shared: &Arc<Shared>, attr: &Attr, entry: Option<u64>, access: Access) -> Self {
        Self { shared: Arc::clone(shared), id: attr.id, kind: attr.kind, access, entry }
    }

    pub fn root(shared: &Arc<Shared>) -> Self {
        let attr = shared.tree.lock().attr(ROOT);
        let id = attr.map_or(FileId { dev: 0, ino: ROOT, generation: 0 }, |a| a.id);
        Self { shared: Arc::clone(shared), id, kind: FileKind::Directory, access: Access::READ, entry: None }
    }

    pub fn ino(&self) -> u64 {
        self.id.ino
    }

    fn file_for(&self, access: Access) -> VfsResult<()> {
        match self.kind {
            FileKind::Directory => Err(VfsError::IsDirectory),
            FileKind::File if self.access.contains(access) => Ok(()),
            FileKind::File => Err(VfsError::AccessDenied),
            _ => Err(VfsError::InvalidArgument),
        }
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    fn with<R>(&self, look: impl FnOnce(&Inode) -> VfsResult<R>) -> VfsResult<R> {
        look(self.shared.tree.lock().inode(self.ino())?)
    }

    /// Enters the new attributes into `inode` as far as `cred` may.
    fn apply(inode: &mut Inode, cred: &Cred, set: &SetAttr, now: Timestamp) -> VfsResult<()> {
        let owner = inode.owned_by(cred);
        let refuse = |allowed: bool| if allowed { Ok(()) } else { Err(VfsError::NotPermitted) };
        if let Some(uid) = set.uid {
            refuse(cred.uid == 0 || (owner && uid == inode.uid))?;
            inode.uid = uid;
        }
        if let Some(gid) = set.gid {
            refuse(cred.uid == 0 || (owner && (cred.gid == gid || cred.groups.contains(&gid))))?;
            inode.gid = gid;
        }
        if let Some(mode) = set.mode {
            refuse(owner)?;
            inode.mode = mode & 0o7777;
        }
        for (time, to) in [(&mut inode.accessed, set.accessed), (&mut inode.modified, set.modified)] {
            match to {
                None => {}
                Some(SetTime::Now) => *time = now,
                Some(SetTime::At(at)) if at.nanos < 1_000_000_000 => {
                    refuse(owner)?;
                    *time = at;
                }
                Some(SetTime::At(_)) => return Err(VfsError::InvalidArgument),
            }
        }
        Ok(())
    }
}

impl Drop for MemNode {
    fn drop(&mut self) {
        self.shared.tree.lock().closed(self.id.ino);
    }
}

impl Node for MemNode {
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
        self.shared.due(Op::Attr)?;
        self.shared.tree.lock().attr(self.ino())
    }

    fn set_attr(&self, cred: &Cred, set: &SetAttr) -> VfsResult<()> {
        self.shared.due_to_change(Op::SetAttr)?;
        let now = self.now();
        if let Some(len) = set.len_bytes {
            self.file_for(Access::WRITE)?;
            let mut tree = self.shared.tree.lock();
            tree.resize(self.ino(), len)?;
            tree.touch(self.ino(), now, true)?;
        }
        let mut tree = self.shared.tree.lock();
        Self::apply(tree.inode_mut(self.ino())?, cred, set, now)?;
        tree.touch(self.ino(), now, false)
    }

    fn access(&self, cred: &Cred, ask: AccessMask) -> VfsResult<AccessMask> {
        self.shared.due(Op::Access)?;
        let read_only = self.shared.faults.lock().read_only;
        let ask = if read_only { ask - AccessMask::WRITE } else { ask };
        self.with(|inode| Ok(inode.granted(cred, ask)))
    }

    fn read(&self, offset_bytes: u64, buf: &mut [u8], wait: Wait) -> VfsResult<usize> {
        self.file_for(Access::READ)?;
        self.shared.due_or_block(Op::Read, wait)?;
        self.with(|inode| {
            let start = usize::try_from(offset_bytes).unwrap_or(usize::MAX);
            let rest = inode.data.get(start..).unwrap_or_default();
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        })
    }

    fn read_pages(&self, _: u64, _: usize, _: &mut dyn PagePipe, _: Wait) -> VfsResult<usize> {
        // There is no descriptor to take pages from.
        Err(VfsError::NotSupported)
    }

    fn write(&self, offset_bytes: u64, data: &[u8], wait: Wait) -> VfsResult<()> {
        self.file_for(Access::WRITE)?;
        self.shared.due_or_block(Op::Write, wait)?;
        self.shared.due_to_change(Op::Write)?;
        let end = offset_bytes.checked_add(data.len() as u64).ok_or(VfsError::TooLarge)?;
        if end > MAX_OFFSET_BYTES {
            return Err(VfsError::TooLarge);
        }
        if data.is_empty() {
            return Ok(());
        }
        let mut tree = self.shared.tree.lock();
        if end > tree.inode(self.ino())?.data.len() as u64 {
            tree.resize(self.ino(), end)?;
        }
        // Both fit: the file is that long now.
        tree.inode_mut(self.ino())?.data[offset_bytes as usize..end as usize].copy_from_slice(data);
        tree.touch(self.ino(), self.now(), true)
    }

    fn sync(&self, _: Sync) -> VfsResult<()> {
        self.shared.due(Op::Sync)
    }

    fn allocate(&self, offset_bytes: u64, len_bytes: u64, extend: bool) -> VfsResult<()> {
        self.file_for(Access::WRITE)?;
        self.shared.due_to_change(Op::Allocate)?;
        let end = offset_bytes.checked_add(len_bytes).ok_or(VfsError::TooLarge)?;
        let mut tree = self.shared.tree.lock();
        if len_bytes == 0 || end <= tree.inode(self.ino())?.data.len() as u64 {
            return Ok(());
        }
        if !extend {
            // Nothing is kept for it; only whether there would be room is told.
            let held = tree.inode(self.ino())?.data.len() as u64;
            let room = tree.space_bytes.saturating_sub(tree.used_bytes);
            return if end - held > room { Err(VfsError::NoSpace) } else { Ok(()) };
        }
        tree.resize(self.ino(), end)?;
        tree.touch(self.ino(), self.now(), true)
    }

    fn read_dir(&self, cookie: u64, take: &mut dyn FnMut(DirEntry<'_>) -> bool) -> VfsResult<bool> {
        if self.kind != FileKind::Directory {
            return Err(VfsError::NotDirectory);
        }
        if !self.access.contains(Access::READ) {
            return Err(VfsError::AccessDenied);
        }
        self.shared.due(Op::ReadDir)?;
        // Copied, so that `take` may call the backend.
        let listed: Vec<_> = {
            let tree = self.shared.tree.lock();
            let after = (std::ops::Bound::Excluded(cookie), std::ops::Bound::Unbounded);
            let numbers = tree.inode(self.ino())?.order.range(after);
            let entries = numbers.filter_map(|&number| Some((number, tree.entry(number)?)));
            entries.map(|(number, e)| (number, e.name.clone(), e.ino, tree.inode(e.ino).map(|i| i.kind).ok())).collect()
        };
        for (next_cookie, name, ino, kind) in &listed {
            let Ok(name) = Name::new(name) else { continue };
            if !take(DirEntry { name, ino: *ino, kind: *kind, next_cookie: *next_cookie }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn entry_attr(&self, name: Name<'_>) -> VfsResult<Attr> {
        self.shared.due(Op::EntryAttr)?;
        let tree = self.shared.tree.lock();
        let (_, entry) = tree.named(self.ino(), name.as_bytes()).ok_or(VfsError::NotFound)?;
        tree.attr(entry.ino)
    }

    fn entry_xattr(&self, name: Name<'_>, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
        self.shared.due(Op::Xattr)?;
        if self.kind != FileKind::Directory {
            return Err(VfsError::NotDirectory);
        }
        let tree = self.shared.tree.lock();
        let (_, entry) = tree.named(self.ino(), name.as_bytes()).ok_or(VfsError::NotFound)?;
        value(tree.inode(entry.ino)?, key, max_bytes)
    }

    fn read_link(&self) -> VfsResult<Vec<u8>> {
        match self.kind {
            FileKind::Symlink => self.with(|inode| Ok(inode.data.clone())),
            _ => Err(VfsError::InvalidArgument),
        }
    }

    /// Whether bytes in memory are shared or copied shows to nobody.
    fn clone_range(&self, offset_bytes: u64, to: &dyn Node, to_bytes: u64, len_bytes: u64) -> VfsResult<()> {
        let len = self.attr()?.len_bytes;
        if offset_bytes.checked_add(len_bytes).is_none_or(|end| end > len) {
            return Err(VfsError::InvalidArgument);
        }
        self.copy_range(offset_bytes, to, to_bytes, len_bytes).map(drop)
    }

    fn xattr(&self, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
        self.shared.due(Op::Xattr)?;
        self.with(|inode| value(inode, key, max_bytes))
    }

    fn set_xattr(&self, cred: &Cred, key: &str, value: &[u8]) -> VfsResult<()> {
        self.shared.due_to_change(Op::SetXattr)?;
        let Some((_, name)) = key.split_once('.').filter(|(_, name)| !name.is_empty()) else {
            return Err(VfsError::NotSupported);
        };
        match () {
            () if name.len() > Name::MAX_BYTES => return Err(VfsError::NameTooLong),
            () if value.len() > XATTR_MAX_BYTES => return Err(VfsError::TooLarge),
            () => {}
        }
        let mut tree = self.shared.tree.lock();
        let space = tree.xattr_space_bytes;
        let inode = tree.inode_mut(self.ino())?;
        may_set(inode, cred)?;
        let others: usize = inode.xattrs.iter().filter(|(name, _)| *name != key).map(|(_, value)| value.len()).sum();
        if others + value.len() > space {
            return Err(VfsError::NoSpace);
        }
        inode.xattrs.insert(key.to_owned(), value.to_vec());
        tree.touch(self.ino(), self.now(), false)
    }

    fn remove_xattr(&self, cred: &Cred, key: &str) -> VfsResult<()> {
        self.shared.due_to_change(Op::SetXattr)?;
        let mut tree = self.shared.tree.lock();
        let inode = tree.inode_mut(self.ino())?;
        may_set(inode, cred)?;
        inode.xattrs.remove(key).ok_or(VfsError::NoXattr)?;
        tree.touch(self.ino(), self.now(), false)
    }

    fn xattr_names(&self) -> VfsResult<Vec<String>> {
        self.shared.due(Op::Xattr)?;
        self.with(|inode| Ok(inode.xattrs.keys().cloned().collect()))
    }
}

/// As in Linux: only files and directories have any, and who may write the object may set them.
fn may_set(inode: &Inode, cred: &Cred) -> VfsResult<()> {
    if !matches!(inode.kind, FileKind::File | FileKind::Directory) {
        return Err(VfsError::NotPermitted);
    }
    inode.demand(cred, AccessMask::WRITE)
}

fn value(inode: &Inode, key: &str, max_bytes: usize) -> VfsResult<Vec<u8>> {
    let value = inode.xattrs.get(key).ok_or(VfsError::NoXattr)?;
    if value.len() > max_bytes { Err(VfsError::RangeTooSmall) } else { Ok(value.clone()) }
}
