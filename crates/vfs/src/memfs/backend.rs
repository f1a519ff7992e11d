//! [`MemFs`]'s face as a [`Backend`].

use std::sync::Arc;

use super::node::MemNode;
use super::tree::{ROOT, Tree};
use super::walk::Found;
use super::{MemFs, Op};
use crate::{
    Access, AccessMask, Attr, Backend, Capabilities, Cred, Disposition, FileId, FileKind, FsStat, Name, Node, OpenHow,
    Opened, Path, Quota, Rename, VfsError, VfsResult, Wait, WantKind,
};

/// Bytes in an allocation unit, as told; space is counted in bytes.
const BLOCK_BYTES: u64 = 4096;

impl Backend for MemFs {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::XATTR | Capabilities::BIRTH_TIME | Capabilities::IDENTITY | Capabilities::REFLINK;
        can.set(Capabilities::READ_ONLY, self.shared.faults.lock().read_only);
        can.set(Capabilities::QUOTA, self.shared.tree.lock().quotas.is_some());
        can
    }

    fn root(&self) -> Arc<dyn Node> {
        Arc::clone(&self.root) as Arc<dyn Node>
    }

    fn open(&self, cred: &Cred, dir: &dyn Node, path: &Path, how: &OpenHow, wait: Wait) -> VfsResult<Opened> {
        self.shared.due_or_block(Op::Open, wait)?;
        let read_only = self.shared.faults.lock().read_only;
        if read_only && how.access.contains(Access::WRITE) {
            return Err(VfsError::ReadOnly);
        }
        let dir = self.directory(dir)?;
        let mut tree = self.shared.tree.lock();
        let follow = how.follow && how.disposition != Disposition::Create;
        let missing = match tree.walk(cred, dir, path, follow)? {
            Found::Object { .. } if how.disposition == Disposition::Create => return Err(VfsError::Exists),
            Found::Object { ino, entry } => return self.open_found(&mut tree, cred, ino, entry, how),
            Found::Missing { dir, name } => (dir, name),
        };
        // Something is there after all: a link that leads nowhere.
        if how.disposition == Disposition::Open || tree.find(cred, dir, path, false).is_ok() {
            return Err(VfsError::NotFound);
        }
        match (read_only, wait) {
            (true, _) => Err(VfsError::ReadOnly),
            (_, Wait::Never) => Err(VfsError::WouldBlock),
            _ => self.open_new(&mut tree, cred, missing, how),
        }
    }

    fn attr_at(&self, cred: &Cred, dir: &dyn Node, path: &Path, wait: Wait) -> VfsResult<Attr> {
        self.shared.due_or_block(Op::AttrAt, wait)?;
        let dir = self.directory(dir)?;
        let tree = self.shared.tree.lock();
        let (ino, _) = tree.find(cred, dir, path, false)?;
        tree.attr(ino)
    }

    fn remove(&self, cred: &Cred, dir: &dyn Node, path: &Path, only: Option<FileId>) -> VfsResult<()> {
        self.shared.due_to_change(Op::Remove)?;
        let dir = self.directory(dir)?;
        let mut tree = self.shared.tree.lock();
        let (dir, name) = tree.find_parent(cred, dir, path)?;
        let (number, entry) = tree.named(dir, &name).ok_or(VfsError::NotFound)?;
        let attr = tree.attr(entry.ino)?;
        if only.is_some_and(|id| id != attr.id) {
            return Err(VfsError::Stale);
        }
        may_take_away(&tree, cred, dir, attr.id.ino)?;
        if !tree.inode(attr.id.ino)?.names.is_empty() {
            return Err(VfsError::NotEmpty);
        }
        tree.unlink(number, self.shared.clock.now())
    }

    fn rename(&self, cred: &Cred, from: (&dyn Node, &Path), to: (&dyn Node, &Path), replace: Rename) -> VfsResult<()> {
        self.shared.due_to_change(Op::Rename)?;
        let (from_dir, to_dir) = (self.directory(from.0)?, self.directory(to.0)?);
        let now = self.shared.clock.now();
        let mut tree = self.shared.tree.lock();
        let (old_dir, old_name) = tree.find_parent(cred, from_dir, from.1)?;
        let (new_dir, new_name) = tree.find_parent(cred, to_dir, to.1)?;
        let (number, entry) = tree.named(old_dir, &old_name).ok_or(VfsError::NotFound)?;
        let ino = entry.ino;
        may_take_away(&tree, cred, old_dir, ino)?;
        tree.inode(new_dir)?.demand(cred, AccessMask::WRITE | AccessMask::EXECUTE)?;
        let is_dir = tree.inode(ino)?.kind == FileKind::Directory;
        if is_dir && tree.is_inside(new_dir, ino) {
            return Err(VfsError::InvalidArgument);
        }
        if let Some((taken, entry)) = tree.named(new_dir, &new_name) {
            match replace {
                Rename::NoReplace => return Err(VfsError::Exists),
                // POSIX: two names of one object stay as they are.
                Rename::Replace if entry.ino == ino => return Ok(()),
                Rename::Replace => may_replace(&tree, cred, new_dir, entry.ino, is_dir)?,
            }
            tree.unlink(taken, now)?;
        }
        tree.move_entry(number, new_dir, &new_name, now)
    }

    fn link(&self, cred: &Cred, node: &dyn Node, dir: &dyn Node, path: &Path) -> VfsResult<()> {
        self.shared.due_to_change(Op::Link)?;
        let node = self.own(node)?;
        if node.kind() == FileKind::Directory {
            return Err(VfsError::IsDirectory);
        }
        let dir = self.directory(dir)?;
        let mut tree = self.shared.tree.lock();
        if tree.inode(node.ino())?.nlink == 0 {
            return Err(VfsError::Stale);
        }
        let (dir, name) = tree.find_parent(cred, dir, path)?;
        tree.add_name(cred, dir, &name, node.ino(), self.shared.clock.now()).map(drop)
    }

    fn symlink(&self, cred: &Cred, dir: &dyn Node, path: &Path, target: &[u8]) -> VfsResult<()> {
        self.shared.due_to_change(Op::Symlink)?;
        if target.is_empty() || target.contains(&0) {
            return Err(VfsError::InvalidArgument);
        }
        let dir = self.directory(dir)?;
        let mut tree = self.shared.tree.lock();
        let (dir, name) = tree.find_parent(cred, dir, path)?;
        let (ino, _) = tree.make(cred, dir, &name, FileKind::Symlink, 0o777, self.shared.clock.now())?;
        tree.used_bytes += target.len() as u64;
        tree.inode_mut(ino)?.data = target.to_vec();
        Ok(())
    }

    fn path_of(&self, node: &dyn Node) -> VfsResult<Path> {
        self.shared.due(Op::PathOf)?;
        let node = self.own(node)?;
        let tree = self.shared.tree.lock();
        match node.entry {
            Some(entry) => tree.path_of(entry),
            None if node.ino() == ROOT => Ok(Path::here()),
            None => tree.path_of(tree.inode(node.ino())?.entry),
        }
    }

    fn spell(&self, cred: &Cred, dir: &dyn Node, path: &Path, wait: Wait) -> VfsResult<Path> {
        self.shared.due_or_block(Op::Spell, wait)?;
        let dir = self.directory(dir)?;
        self.shared.tree.lock().spell(cred, dir, path)
    }

    fn handle_of(&self, node: &dyn Node) -> VfsResult<Vec<u8>> {
        Ok(self.own(node)?.ino().to_be_bytes().to_vec())
    }

    fn entry_handle(&self, cred: &Cred, dir: &dyn Node, name: Name<'_>) -> VfsResult<(Attr, Vec<u8>)> {
        let attr = self.attr_at(cred, dir, &Path::here().join(name), Wait::Allowed)?;
        Ok((attr, attr.id.ino.to_be_bytes().to_vec()))
    }

    fn open_handle(&self, cred: &Cred, handle: &[u8], access: Access, wait: Wait) -> VfsResult<Opened> {
        self.shared.due_or_block(Op::OpenHandle, wait)?;
        let ino = u64::from_be_bytes(handle.try_into().map_err(|_| VfsError::InvalidArgument)?);
        let mut tree = self.shared.tree.lock();
        if tree.inode(ino)?.nlink == 0 {
            return Err(VfsError::Stale);
        }
        let entry = tree.entry_of(ino);
        let how = OpenHow { access, disposition: Disposition::Open, kind: WantKind::Any, follow: false, mode: 0 };
        self.open_found(&mut tree, cred, ino, entry, &how)
    }

    fn make_special(&self, cred: &Cred, dir: &dyn Node, path: &Path, kind: FileKind, mode: u32) -> VfsResult<()> {
        self.shared.due_to_change(Op::Open)?;
        if !matches!(kind, FileKind::Fifo | FileKind::Socket) {
            return Err(VfsError::NotSupported);
        }
        let dir = self.directory(dir)?;
        let mut tree = self.shared.tree.lock();
        let (dir, name) = tree.find_parent(cred, dir, path)?;
        tree.make(cred, dir, &name, kind, mode, self.shared.clock.now()).map(drop)
    }

    fn fs_stat(&self) -> VfsResult<FsStat> {
        self.shared.due(Op::FsStat)?;
        let tree = self.shared.tree.lock();
        let free = tree.space_bytes.saturating_sub(tree.used_bytes) / BLOCK_BYTES;
        Ok(FsStat {
            fs_id: tree.attr(ROOT)?.id.dev,
            block_bytes: BLOCK_BYTES as u32,
            total_blocks: tree.space_bytes / BLOCK_BYTES,
            free_blocks: free,
            available_blocks: free,
            total_files: u64::from(u32::MAX),
            free_files: u64::from(u32::MAX) - tree.objects() as u64,
            name_max: 255,
        })
    }

    fn quota(&self, uid: u32, gid: u32) -> VfsResult<Option<Quota>> {
        let tree = self.shared.tree.lock();
        let Some(limits) = &tree.quotas else { return Ok(None) };
        let (hard, soft) = limits.get(&uid).copied().unwrap_or_default();
        let user = Quota::new(tree.used_by(|inode| inode.uid == uid), hard, soft);
        Ok(Some(user.tighter(Quota::new(tree.used_by(|inode| inode.gid == gid), 0, 0))))
    }
}

impl MemFs {
    fn own<'a>(&self, node: &'a dyn Node) -> VfsResult<&'a MemNode> {
        let node = node.as_any().downcast_ref::<MemNode>().ok_or(VfsError::CrossDevice)?;
        if Arc::ptr_eq(&node.shared, &self.shared) { Ok(node) } else { Err(VfsError::CrossDevice) }
    }

    fn directory(&self, node: &dyn Node) -> VfsResult<u64> {
        let node = self.own(node)?;
        if node.kind() == FileKind::Directory { Ok(node.ino()) } else { Err(VfsError::NotDirectory) }
    }

    fn open_found(
        &self,
        tree: &mut Tree,
        cred: &Cred,
        ino: u64,
        entry: Option<u64>,
        how: &OpenHow,
    ) -> VfsResult<Opened> {
        let attr = tree.attr(ino)?;
        match (attr.kind, how.kind) {
            (FileKind::Directory, WantKind::File) => return Err(VfsError::IsDirectory),
            (FileKind::Directory, _) => {}
            (_, WantKind::Directory) => return Err(VfsError::NotDirectory),
            (FileKind::Symlink, _) if !how.access.is_empty() => return Err(VfsError::IsSymlink),
            _ => {}
        }
        let mut rights = AccessMask::empty();
        rights.set(AccessMask::READ, how.access.contains(Access::READ));
        // Adding and removing entries is checked when it is done.
        rights.set(AccessMask::WRITE, how.access.contains(Access::WRITE) && attr.kind != FileKind::Directory);
        tree.inode(ino)?.demand(cred, rights)?;
        Ok(self.opened(tree, attr, entry, how, false))
    }

    fn open_new(&self, tree: &mut Tree, cred: &Cred, at: (u64, Vec<u8>), how: &OpenHow) -> VfsResult<Opened> {
        let kind = if how.kind == WantKind::Directory { FileKind::Directory } else { FileKind::File };
        let (ino, entry) = tree.make(cred, at.0, &at.1, kind, how.mode, self.shared.clock.now())?;
        let attr = tree.attr(ino)?;
        Ok(self.opened(tree, attr, Some(entry), how, true))
    }

    fn opened(&self, tree: &mut Tree, attr: Attr, entry: Option<u64>, how: &OpenHow, created: bool) -> Opened {
        tree.opened(attr.id.ino);
        let node = Arc::new(MemNode::new(&self.shared, &attr, entry, how.access));
        Opened { node, attr, created }
    }
}

/// Whether `cred` may take the object's name out of `dir`: in a sticky directory only the owner of either may.
fn may_take_away(tree: &Tree, cred: &Cred, dir: u64, ino: u64) -> VfsResult<()> {
    let parent = tree.inode(dir)?;
    parent.demand(cred, AccessMask::WRITE | AccessMask::EXECUTE)?;
    let sticky = parent.mode & 0o1000 != 0;
    if sticky && !parent.owned_by(cred) && !tree.inode(ino)?.owned_by(cred) {
        return Err(VfsError::NotPermitted);
    }
    Ok(())
}

fn may_replace(tree: &Tree, cred: &Cred, dir: u64, target: u64, by_dir: bool) -> VfsResult<()> {
    may_take_away(tree, cred, dir, target)?;
    let target = tree.inode(target)?;
    match (target.kind == FileKind::Directory, by_dir) {
        (true, false) => Err(VfsError::IsDirectory),
        (false, true) => Err(VfsError::NotDirectory),
        _ if !target.names.is_empty() => Err(VfsError::NotEmpty),
        _ => Ok(()),
    }
}
