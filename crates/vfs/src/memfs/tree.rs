//! The objects of a [`MemFs`](super::MemFs) and the entries that name them. `walk.rs`, `backend.rs` and `node.rs` change
//! it under its one lock. An entry keeps its number when it is renamed, as a kernel's dentry does: that is how an open
//! node knows where it is, and how a listing goes on.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{AccessMask, Attr, Cred, FileId, FileKind, Timestamp, VfsError, VfsResult};

/// The one device number.
const DEV: u64 = 0x4d45_4d46;

/// The number of the root.
pub const ROOT: u64 = 1;

/// The largest offset of any file.
pub const MAX_OFFSET_BYTES: u64 = i64::MAX as u64;

pub struct Tree {
    inodes: HashMap<u64, Inode>,
    entries: HashMap<u64, Entry>,
    next: u64,
    changes: u64,
    pub used_bytes: u64,
    pub space_bytes: u64,
    /// The hard and soft limits of users, where space is counted by user.
    pub quotas: Option<HashMap<u32, (u64, u64)>>,
    /// Of one object's attributes.
    pub xattr_space_bytes: usize,
}

/// A name in a directory.
pub struct Entry {
    pub parent: u64,
    pub name: Vec<u8>,
    pub ino: u64,
}

pub struct Inode {
    pub kind: FileKind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    /// A file's content or a link's target.
    pub data: Vec<u8>,
    pub names: BTreeMap<Vec<u8>, u64>,
    /// The numbers of `names`' entries: the order of listings.
    pub order: BTreeSet<u64>,
    pub xattrs: BTreeMap<String, Vec<u8>>,
    pub accessed: Timestamp,
    pub modified: Timestamp,
    pub changed: Timestamp,
    pub created: Timestamp,
    pub change: u64,
    /// A directory's one entry; 0 for the root and for removed ones.
    pub entry: u64,
    pub opens: u32,
}

impl Inode {
    fn new(kind: FileKind, mode: u32, uid: u32, gid: u32, now: Timestamp) -> Self {
        Self {
            kind,
            mode,
            uid,
            gid,
            nlink: if kind == FileKind::Directory { 2 } else { 0 },
            data: Vec::new(),
            names: BTreeMap::new(),
            order: BTreeSet::new(),
            xattrs: BTreeMap::new(),
            accessed: now,
            modified: now,
            changed: now,
            created: now,
            change: 0,
            entry: 0,
            opens: 0,
        }
    }

    /// Which of `ask` the mode bits give to `cred`; root has all.
    pub fn granted(&self, cred: &Cred, ask: AccessMask) -> AccessMask {
        if cred.uid == 0 {
            return ask;
        }
        let shift = if cred.uid == self.uid {
            6
        } else if cred.gid == self.gid || cred.groups.contains(&self.gid) {
            3
        } else {
            0
        };
        let bits = self.mode >> shift;
        let mut granted = AccessMask::empty();
        granted.set(AccessMask::READ, bits & 4 != 0);
        granted.set(AccessMask::WRITE, bits & 2 != 0);
        granted.set(AccessMask::EXECUTE, bits & 1 != 0);
        granted & ask
    }

    pub fn demand(&self, cred: &Cred, ask: AccessMask) -> VfsResult<()> {
        if self.granted(cred, ask) == ask { Ok(()) } else { Err(VfsError::AccessDenied) }
    }

    pub fn owned_by(&self, cred: &Cred) -> bool {
        cred.uid == 0 || cred.uid == self.uid
    }
}

impl Tree {
    pub fn new(now: Timestamp, space_bytes: u64) -> Self {
        let mut root = Inode::new(FileKind::Directory, 0o777, 0, 0, now);
        root.opens = 1;
        let inodes = HashMap::from([(ROOT, root)]);
        Self {
            inodes,
            entries: HashMap::new(),
            next: ROOT + 1,
            changes: 0,
            used_bytes: 0,
            space_bytes,
            quotas: None,
            xattr_space_bytes: usize::MAX,
        }
    }

    /// Bytes of the data of such objects.
    pub fn used_by(&self, counts: impl Fn(&Inode) -> bool) -> u64 {
        self.inodes.values().filter(|inode| counts(inode)).map(|inode| inode.data.len() as u64).sum()
    }

    pub fn objects(&self) -> usize {
        self.inodes.len()
    }

    pub fn inode(&self, ino: u64) -> VfsResult<&Inode> {
        self.inodes.get(&ino).ok_or(VfsError::Stale)
    }

    pub fn inode_mut(&mut self, ino: u64) -> VfsResult<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(VfsError::Stale)
    }

    pub fn entry(&self, number: u64) -> Option<&Entry> {
        self.entries.get(&number)
    }

    /// Some entry of an object; none for the root.
    pub fn entry_of(&self, ino: u64) -> Option<u64> {
        self.entries.iter().find(|(_, entry)| entry.ino == ino).map(|(number, _)| *number)
    }

    /// The entry `name` of a directory.
    pub fn named(&self, dir: u64, name: &[u8]) -> Option<(u64, &Entry)> {
        let number = *self.inodes.get(&dir)?.names.get(name)?;
        Some((number, self.entries.get(&number)?))
    }

    pub fn attr(&self, ino: u64) -> VfsResult<Attr> {
        let inode = self.inode(ino)?;
        let len_bytes = inode.data.len() as u64;
        Ok(Attr {
            id: FileId { dev: DEV, ino, generation: 1 },
            kind: inode.kind,
            mode: inode.mode,
            nlink: inode.nlink,
            uid: inode.uid,
            gid: inode.gid,
            rdev: 0,
            len_bytes,
            allocated_bytes: len_bytes.next_multiple_of(4096),
            accessed: inode.accessed,
            modified: inode.modified,
            changed: inode.changed,
            created: Some(inode.created),
            change: inode.change,
        })
    }

    /// Marks a change of the object, of its data too when `data`.
    pub fn touch(&mut self, ino: u64, now: Timestamp, data: bool) -> VfsResult<()> {
        self.changes += 1;
        let change = self.changes;
        let inode = self.inode_mut(ino)?;
        inode.changed = now;
        inode.change = change;
        if data {
            inode.modified = now;
        }
        Ok(())
    }

    /// A new object named `name` in `dir`, which must allow it. Answers its number and its entry's.
    pub fn make(
        &mut self,
        cred: &Cred,
        dir: u64,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        now: Timestamp,
    ) -> VfsResult<(u64, u64)> {
        let parent = self.inode(dir)?;
        let inherits = parent.mode & 0o2000 != 0;
        let gid = if inherits { parent.gid } else { cred.gid };
        let set_gid = if inherits && kind == FileKind::Directory { 0o2000 } else { 0 };
        let ino = self.number();
        self.inodes.insert(ino, Inode::new(kind, mode & 0o7777 | set_gid, cred.uid, gid, now));
        match self.add_name(cred, dir, name, ino, now) {
            Ok(entry) => Ok((ino, entry)),
            Err(error) => {
                self.inodes.remove(&ino);
                Err(error)
            }
        }
    }

    /// Gives an object a name. The directory must be there still and let `cred` change it.
    pub fn add_name(&mut self, cred: &Cred, dir: u64, name: &[u8], ino: u64, now: Timestamp) -> VfsResult<u64> {
        let parent = self.inode(dir)?;
        parent.demand(cred, AccessMask::WRITE | AccessMask::EXECUTE)?;
        if parent.names.contains_key(name) {
            return Err(VfsError::Exists);
        }
        if parent.nlink == 0 {
            return Err(VfsError::NotFound);
        }
        let number = self.number();
        self.entries.insert(number, Entry { parent: dir, name: name.to_vec(), ino });
        self.attach(number, now)?;
        let inode = self.inode_mut(ino)?;
        if inode.kind != FileKind::Directory {
            inode.nlink += 1;
        }
        self.touch(ino, now, false)?;
        Ok(number)
    }

    /// Enters an entry into the directory it says it is in.
    pub fn attach(&mut self, number: u64, now: Timestamp) -> VfsResult<()> {
        let entry = self.entries.get(&number).ok_or(VfsError::Stale)?;
        let (dir, name, ino) = (entry.parent, entry.name.clone(), entry.ino);
        let is_dir = self.inode(ino)?.kind == FileKind::Directory;
        if is_dir {
            self.inode_mut(ino)?.entry = number;
        }
        let parent = self.inode_mut(dir)?;
        parent.names.insert(name, number);
        parent.order.insert(number);
        parent.nlink += u32::from(is_dir);
        self.touch(dir, now, true)
    }

    /// Takes an entry out of its directory, but keeps it.
    pub fn detach(&mut self, number: u64, now: Timestamp) -> VfsResult<()> {
        let entry = self.entries.get(&number).ok_or(VfsError::Stale)?;
        let (dir, name, ino) = (entry.parent, entry.name.clone(), entry.ino);
        let is_dir = self.inode(ino)?.kind == FileKind::Directory;
        let parent = self.inode_mut(dir)?;
        parent.names.remove(&name);
        parent.order.remove(&number);
        parent.nlink -= u32::from(is_dir);
        self.touch(dir, now, true)
    }

    /// Moves an entry elsewhere, under the number it has.
    pub fn move_entry(&mut self, number: u64, dir: u64, name: &[u8], now: Timestamp) -> VfsResult<()> {
        self.detach(number, now)?;
        let entry = self.entries.get_mut(&number).ok_or(VfsError::Stale)?;
        entry.parent = dir;
        entry.name = name.to_vec();
        let ino = entry.ino;
        self.attach(number, now)?;
        self.touch(ino, now, false)
    }

    /// Takes a name away, and the object with its last one unless it is open.
    pub fn unlink(&mut self, number: u64, now: Timestamp) -> VfsResult<()> {
        self.detach(number, now)?;
        let entry = self.entries.remove(&number).ok_or(VfsError::Stale)?;
        let inode = self.inode_mut(entry.ino)?;
        inode.nlink = if inode.kind == FileKind::Directory { 0 } else { inode.nlink - 1 };
        self.touch(entry.ino, now, false)?;
        self.forget(entry.ino);
        Ok(())
    }

    pub fn opened(&mut self, ino: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.opens += 1;
        }
    }

    pub fn closed(&mut self, ino: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.opens -= 1;
            self.forget(ino);
        }
    }

    fn forget(&mut self, ino: u64) {
        if let Some(inode) = self.inodes.get(&ino).filter(|i| i.nlink == 0 && i.opens == 0) {
            self.used_bytes -= inode.data.len() as u64;
            self.inodes.remove(&ino);
        }
    }

    /// Cuts or extends a file's data, within the space there is.
    pub fn resize(&mut self, ino: u64, len: u64) -> VfsResult<()> {
        if len > MAX_OFFSET_BYTES {
            return Err(VfsError::TooLarge);
        }
        let held = self.inode(ino)?.data.len() as u64;
        let used = self.used_bytes - held;
        if len > held && used.saturating_add(len) > self.space_bytes {
            return Err(VfsError::NoSpace);
        }
        let len_in_memory = usize::try_from(len).map_err(|_| VfsError::TooLarge)?;
        self.inode_mut(ino)?.data.resize(len_in_memory, 0);
        self.used_bytes = used + len;
        Ok(())
    }

    /// Whether `dir` is `below` or inside it.
    pub fn is_inside(&self, dir: u64, below: u64) -> bool {
        let mut at = dir;
        while at != below {
            let Some(parent) = self.parent(at) else { return false };
            at = parent;
        }
        true
    }

    /// The directory a directory is in; `None` for the root and removed ones.
    pub fn parent(&self, dir: u64) -> Option<u64> {
        self.entries.get(&self.inodes.get(&dir)?.entry).map(|e| e.parent)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}
