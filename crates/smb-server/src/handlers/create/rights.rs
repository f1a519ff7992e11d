//! Which rights a user has on an object: by its stored descriptor where there is one, else by asking the kernel; and in
//! either case by what may be done in the directory it is in. Used while an object is looked for; may wait.

use smb_wire::fscc::AccessMask;
use vfs::{Access, AccessMask as Bits, Capabilities, Disposition, FileKind, OpenHow, Opened, Path, Wait, WantKind};

use super::find::Halt;
use crate::Share;
use crate::acl::{self, Stored};
use crate::tree::Tree;

pub const READS: AccessMask = AccessMask::FILE_READ_DATA.union(AccessMask::FILE_EXECUTE);
pub const WRITES: AccessMask = AccessMask::FILE_WRITE_DATA.union(AccessMask::FILE_APPEND_DATA);
/// Rights everybody who reaches an object has.
const ALWAYS: AccessMask =
    AccessMask::FILE_READ_ATTRIBUTES.union(AccessMask::READ_CONTROL).union(AccessMask::SYNCHRONIZE);
/// Rights that come with being able to read, to write, or being the owner.
const READER: AccessMask = READS.union(AccessMask::FILE_READ_EA);
const WRITER: AccessMask = WRITES
    .union(AccessMask::FILE_WRITE_EA)
    .union(AccessMask::FILE_WRITE_ATTRIBUTES)
    .union(AccessMask::FILE_DELETE_CHILD);
const OWNER: AccessMask = AccessMask::WRITE_DAC.union(AccessMask::WRITE_OWNER).union(AccessMask::FILE_WRITE_ATTRIBUTES);
/// Rights that the directory can give.
const FROM_ABOVE: AccessMask = AccessMask::DELETE.union(AccessMask::FILE_READ_ATTRIBUTES);

/// S_IXUSR, S_IXGRP and S_IXOTH. The group's is also the mask of an access list.
const ANY_EXECUTE: u32 = 0o111;

/// S_ISVTX: only owners delete.
const STICKY: u32 = 0o1000;

/// Whether the kernel letting a user open for reading and writing shows that the user has these rights by POSIX.
pub fn proven_by_opening(wanted: AccessMask) -> bool {
    let needs_writer = wanted.intersects(WRITER) && !wanted.intersects(WRITES);
    let needs_reader = wanted.contains(AccessMask::FILE_READ_EA) && !wanted.intersects(READS);
    (ALWAYS | READER | WRITER).contains(wanted) && !needs_writer && !needs_reader
}

/// Finds out rights within one tree connect.
pub struct Rights<'a> {
    pub share: &'a Share,
    pub tree: &'a Tree,
    pub wait: Wait,
}

impl Rights<'_> {
    /// All rights the user has on an object, within the tree connect's.
    pub fn of(&self, found: &Opened, path: &Path) -> Result<AccessMask, Halt> {
        let mut rights = match acl::stored(&*self.share.backend, &*found.node)? {
            Some(stored) => stored.rights(&self.tree.cred),
            None => self.by_posix(found)?,
        };
        if !rights.contains(FROM_ABOVE) {
            rights |= self.by_directory(found, path)?;
        }
        Ok(rights & self.tree.maximal_access)
    }

    /// Those of the rights `needed` that the user has, perhaps with others. What everybody has and what the directory gives
    /// is not asked of the kernel where no more is needed, as by a client that looks at a file or deletes it.
    pub fn among(&self, needed: AccessMask, found: &Opened, path: &Path) -> Result<AccessMask, Halt> {
        let mut rights = match acl::stored(&*self.share.backend, &*found.node)? {
            Some(stored) => stored.rights(&self.tree.cred),
            None if (ALWAYS | FROM_ABOVE).contains(needed) => ALWAYS,
            None => self.by_posix(found)?,
        };
        if !rights.contains(needed & FROM_ABOVE) {
            rights |= self.by_directory(found, path)?;
        }
        Ok(rights & self.tree.maximal_access)
    }

    /// The descriptor stored with the directory an object is, or will be, in.
    pub fn parent_descriptor(&self, path: &Path) -> Result<Option<Stored>, Halt> {
        Ok(match self.parent(path)? {
            Some(parent) => acl::stored(&*self.share.backend, &*parent.node)?,
            None => None,
        })
    }

    fn by_posix(&self, found: &Opened) -> Result<AccessMask, Halt> {
        let cred = &self.tree.cred;
        // Nobody executes a file that has no such bit, not even root; asked along with the others it would hide them.
        let executable = found.attr.kind == FileKind::Directory || found.attr.mode & ANY_EXECUTE != 0;
        let mut ask = Bits::READ | Bits::WRITE;
        ask.set(Bits::EXECUTE, executable);
        let bits = found.node.access(cred, ask)?;
        let as_process = !self.share.backend.capabilities().contains(Capabilities::IDENTITY);
        let mut rights = ALWAYS;
        if bits.contains(Bits::READ) {
            rights |= READER;
        }
        if bits.contains(Bits::EXECUTE) {
            rights |= AccessMask::FILE_EXECUTE;
        }
        if bits.contains(Bits::WRITE) {
            rights |= WRITER;
        }
        if as_process || cred.uid == 0 || cred.uid == found.attr.uid {
            rights |= OWNER;
        }
        Ok(rights)
    }

    /// Deleting, and seeing attributes, by what the user may do in the directory (MS-FSA 2.1.5.1.2.1).
    fn by_directory(&self, found: &Opened, path: &Path) -> Result<AccessMask, Halt> {
        let Some(parent) = self.parent(path)? else { return Ok(AccessMask::DELETE) };
        let mut rights = AccessMask::empty();
        if let Some(stored) = acl::stored(&*self.share.backend, &*parent.node)? {
            let above = stored.rights(&self.tree.cred);
            rights.set(AccessMask::DELETE, above.contains(AccessMask::FILE_DELETE_CHILD));
            rights.set(AccessMask::FILE_READ_ATTRIBUTES, above.contains(AccessMask::FILE_LIST_DIRECTORY));
            return Ok(rights);
        }
        let uid = self.tree.cred.uid;
        let sticky = parent.attr.mode & STICKY != 0 && ![0, parent.attr.uid, found.attr.uid].contains(&uid);
        let writable = parent.node.access(&self.tree.cred, Bits::WRITE)?.contains(Bits::WRITE);
        rights.set(AccessMask::DELETE, writable && !sticky);
        Ok(rights | AccessMask::FILE_READ_ATTRIBUTES)
    }

    /// The directory of an object; none above the root of the share.
    fn parent(&self, path: &Path) -> Result<Option<Opened>, Halt> {
        let Some(parent) = path.parent() else { return Ok(None) };
        let root = self.share.backend.root();
        if parent.is_here() {
            let attr = root.attr()?;
            debug_assert_eq!(attr.kind, FileKind::Directory);
            return Ok(Some(Opened { node: root, attr, created: false }));
        }
        let how = OpenHow {
            access: Access::empty(),
            disposition: Disposition::Open,
            kind: WantKind::Directory,
            follow: true,
            mode: 0,
        };
        Ok(Some(self.share.backend.open(&self.tree.cred, &*root, &parent, &how, self.wait)?))
    }
}
