//! Finding or making the object of a CREATE, and which rights the user has on it. Everything here may wait, and is tried
//! first in a way that does not: then [`Halt::WouldBlock`] comes back and nothing has changed.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, FileAttributes};
use smb_wire::name::is_device_name;
use smb_wire::smb2::{CreateOptions, Disposition as Wanted};
use vfs::{
    Access, AccessMask as Bits, Attr, Capabilities, Disposition, FileId, FileKind, Node, OpenHow, Opened, Path,
    VfsError, Wait, WantKind,
};

use super::plan::Plan;
use crate::Share;
use crate::failure::{Failure, status_of};
use crate::meta::{read_dos, store_dos};
use crate::tree::Tree;

/// The object of a CREATE.
pub struct Found {
    /// The object.
    pub node: Arc<dyn Node>,
    /// Where, as the directory spells it.
    pub path: Path,
    /// The symbolic link in last place, if it was opened through one and may be deleted or renamed.
    pub link: Option<(Path, FileId)>,
    /// Whether it was made.
    pub created: bool,
    /// Rights granted.
    pub granted: AccessMask,
    /// All rights the user has, where that was asked.
    pub maximal: Option<AccessMask>,
}

/// Why it was not found.
pub enum Halt {
    /// It must be tried again where it may wait.
    WouldBlock,
    /// A symbolic link in its path leads nowhere.
    Link,
    /// It failed.
    Failed(NtStatus),
}

impl Halt {
    /// The failure to answer with; a wait that is allowed does not block.
    pub fn into_failure(self) -> Failure {
        match self {
            Self::WouldBlock => NtStatus::INTERNAL_ERROR.into(),
            Self::Link => NtStatus::OBJECT_NAME_NOT_FOUND.into(),
            Self::Failed(status) => status.into(),
        }
    }
}

impl From<VfsError> for Halt {
    fn from(error: VfsError) -> Self {
        match error {
            VfsError::WouldBlock => Self::WouldBlock,
            error => Self::Failed(status_of(error)),
        }
    }
}

impl From<NtStatus> for Halt {
    fn from(status: NtStatus) -> Self {
        Self::Failed(status)
    }
}

const READS: AccessMask = AccessMask::FILE_READ_DATA.union(AccessMask::FILE_EXECUTE);
const WRITES: AccessMask = AccessMask::FILE_WRITE_DATA.union(AccessMask::FILE_APPEND_DATA);
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

/// Finds or makes the object.
pub fn find_or_make(share: &Share, tree: &Tree, plan: &Plan, wait: Wait) -> Result<Found, Halt> {
    let search = Search { share, tree, plan, wait };
    match search.existing(&plan.path) {
        Err(Halt::Failed(status)) if search.might_be_spelled_otherwise(status) => search.by_other_spelling(status),
        result => result,
    }
}

struct Search<'a> {
    share: &'a Share,
    tree: &'a Tree,
    plan: &'a Plan,
    wait: Wait,
}

impl Search<'_> {
    /// Opens what is at `path`.
    fn existing(&self, path: &Path) -> Result<Found, Halt> {
        let root = self.share.backend.root();
        let link = self.link_in_last_place(path)?;
        let follow = !self.plan.options.contains(CreateOptions::OPEN_REPARSE_POINT) && !self.only_deletes(&link);
        if self.plan.disposition == Wanted::Create {
            self.share.backend.attr_at(&self.tree.cred, &*root, path, self.wait)?;
            return Err(NtStatus::OBJECT_NAME_COLLISION.into());
        }
        let (opened, granted, maximal) = self.open(path, follow)?;
        self.check_kind(&opened.attr)?;
        let granted = self.check_stored_attributes(&opened, granted)?;
        let link = link.filter(|(_, id)| *id != opened.attr.id);
        Ok(Found { node: opened.node, path: path.clone(), link, created: false, granted, maximal })
    }

    /// The symbolic link at `path`, looked for only by those who might delete or rename it: what they do is done to the
    /// link and never to what it leads to.
    fn link_in_last_place(&self, path: &Path) -> Result<Option<(Path, FileId)>, Halt> {
        if !self.plan.desired.contains(AccessMask::DELETE) && !self.plan.maximum_allowed {
            return Ok(None);
        }
        let root = self.share.backend.root();
        let attr = self.share.backend.attr_at(&self.tree.cred, &*root, path, self.wait)?;
        Ok((attr.kind == FileKind::Symlink).then(|| (path.clone(), attr.id)))
    }

    fn only_deletes(&self, link: &Option<(Path, FileId)>) -> bool {
        link.is_some() && !self.plan.desired.intersects(READS | WRITES)
    }

    fn open(&self, path: &Path, follow: bool) -> Result<(Opened, AccessMask, Option<AccessMask>), Halt> {
        let mut granted = self.plan.desired;
        let mut maximal = None;
        let proven = ALWAYS | READER | WRITER;
        // Rights that opening for reading and writing does not prove must be asked for.
        let needs_writer = granted.intersects(WRITER) && !granted.intersects(WRITES);
        let needs_reader = granted.contains(AccessMask::FILE_READ_EA) && !granted.intersects(READS);
        if self.plan.maximum_allowed
            || self.plan.tell_maximal
            || needs_writer
            || needs_reader
            || !proven.contains(granted)
        {
            let how = self.how(Access::empty(), follow);
            let found = self.share.backend.open(&self.tree.cred, &*self.share.backend.root(), path, &how, self.wait)?;
            let all = self.rights(&found, path)?;
            if !all.contains(granted) {
                return Err(NtStatus::ACCESS_DENIED.into());
            }
            if self.plan.maximum_allowed {
                granted |= all;
            }
            maximal = Some(all);
            if !self.data_access(granted, found.attr.kind).is_empty() {
                return Ok((self.open_for(path, follow, granted, Some(found.attr.kind))?, granted, maximal));
            }
            return Ok((found, granted, maximal));
        }
        Ok((self.open_for(path, follow, granted, None)?, granted, maximal))
    }

    fn open_for(&self, path: &Path, follow: bool, granted: AccessMask, kind: Option<FileKind>) -> Result<Opened, Halt> {
        let access = self.data_access(granted, kind.unwrap_or(FileKind::File));
        let how = self.how(access, follow);
        let root = self.share.backend.root();
        match self.share.backend.open(&self.tree.cred, &*root, path, &how, self.wait) {
            // Writing to a directory is adding entries: the directory itself is opened to be listed.
            Err(VfsError::IsDirectory) if how.kind == WantKind::Any => {
                let how = self.how(access - Access::WRITE, follow);
                Ok(self.share.backend.open(&self.tree.cred, &*root, path, &how, self.wait)?)
            }
            result => Ok(result?),
        }
    }

    fn data_access(&self, granted: AccessMask, kind: FileKind) -> Access {
        let mut access = Access::empty();
        access.set(Access::READ, granted.intersects(READS));
        let writes = granted.intersects(WRITES) || self.plan.overwrites();
        access.set(Access::WRITE, writes && kind != FileKind::Directory);
        access
    }

    fn how(&self, access: Access, follow: bool) -> OpenHow {
        let kind = if self.plan.is_directory() {
            WantKind::Directory
        } else if self.plan.options.contains(CreateOptions::NON_DIRECTORY_FILE) || self.plan.overwrites() {
            WantKind::File
        } else {
            WantKind::Any
        };
        OpenHow { access, disposition: Disposition::Open, kind, follow, mode: self.mode() }
    }

    /// All rights the user has on an object, within the tree connect's.
    fn rights(&self, found: &Opened, path: &Path) -> Result<AccessMask, Halt> {
        let cred = &self.tree.cred;
        let bits = found.node.access(cred, Bits::READ | Bits::WRITE | Bits::EXECUTE)?;
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
        if path.is_here() || self.parent_is_writable(path)? {
            rights |= AccessMask::DELETE;
        }
        Ok(rights & self.tree.maximal_access)
    }

    fn parent_is_writable(&self, path: &Path) -> Result<bool, Halt> {
        let Some(parent) = path.parent() else { return Ok(false) };
        let root = self.share.backend.root();
        let how = OpenHow {
            access: Access::empty(),
            disposition: Disposition::Open,
            kind: WantKind::Directory,
            follow: true,
            mode: 0,
        };
        let opened = self.share.backend.open(&self.tree.cred, &*root, &parent, &how, self.wait)?;
        Ok(opened.node.access(&self.tree.cred, Bits::WRITE)?.contains(Bits::WRITE))
    }

    fn check_kind(&self, attr: &Attr) -> Result<(), NtStatus> {
        let is_directory = attr.kind == FileKind::Directory;
        if self.plan.is_directory() && !is_directory {
            return Err(NtStatus::NOT_A_DIRECTORY);
        }
        if is_directory && (self.plan.options.contains(CreateOptions::NON_DIRECTORY_FILE) || self.plan.overwrites()) {
            return Err(NtStatus::FILE_IS_A_DIRECTORY);
        }
        Ok(())
    }

    /// The read-only attribute forbids writing and deleting on close; overwriting must name the hidden and system
    /// attributes the file has (MS-FSA 2.1.5.1.2). The answer is what stays granted to who asked for all there is.
    fn check_stored_attributes(&self, found: &Opened, granted: AccessMask) -> Result<AccessMask, Halt> {
        let deletes = self.plan.options.contains(CreateOptions::DELETE_ON_CLOSE);
        if !(self.plan.desired.intersects(WRITES) || granted.intersects(WRITES) || self.plan.overwrites() || deletes) {
            return Ok(granted);
        }
        let stored = FileAttributes::from_bits_retain(read_dos(&*found.node)?.attributes.unwrap_or(0));
        let read_only = stored.contains(FileAttributes::READONLY) && found.attr.kind != FileKind::Directory;
        if read_only && deletes {
            return Err(NtStatus::CANNOT_DELETE.into());
        }
        if read_only && (self.plan.desired.intersects(WRITES) || self.plan.overwrites()) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        let must_name = stored & (FileAttributes::HIDDEN | FileAttributes::SYSTEM);
        if self.plan.overwrites() && !self.plan.attributes.contains(must_name) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        Ok(if read_only { granted - WRITES } else { granted })
    }

    fn might_be_spelled_otherwise(&self, status: NtStatus) -> bool {
        matches!(status, NtStatus::OBJECT_NAME_NOT_FOUND | NtStatus::OBJECT_PATH_NOT_FOUND)
    }

    /// Nothing has exactly this name. Ignoring case something may; else it is made, where that is asked.
    fn by_other_spelling(&self, status: NtStatus) -> Result<Found, Halt> {
        let (backend, cred) = (&self.share.backend, &self.tree.cred);
        let root = backend.root();
        if self.share.options.case_sensitive {
            return self.make_or(&self.plan.path, status);
        }
        match backend.spell(cred, &*root, &self.plan.path, self.wait) {
            Ok(path) => match self.existing(&path) {
                // It went away meanwhile, or is a link that leads nowhere: taken, but not to be opened.
                Err(Halt::Failed(NtStatus::OBJECT_NAME_NOT_FOUND)) if path == self.plan.path => {
                    match self.make_or(&path, status) {
                        Err(Halt::Failed(NtStatus::OBJECT_NAME_NOT_FOUND)) => Err(Halt::Link),
                        result => result,
                    }
                }
                result => result,
            },
            Err(VfsError::NotFound) if self.plan.may_make() => {
                let path = backend.spell_parent(cred, &*root, &self.plan.path, self.wait)?;
                self.make_or(&path, NtStatus::OBJECT_NAME_NOT_FOUND)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn make_or(&self, path: &Path, status: NtStatus) -> Result<Found, Halt> {
        if !self.plan.may_make() || status != NtStatus::OBJECT_NAME_NOT_FOUND {
            return Err(status.into());
        }
        if !self.tree.writable {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        // One that another program made can be opened; none is made here.
        if path.last().is_some_and(|name| is_device_name(name.as_bytes())) {
            return Err(NtStatus::OBJECT_NAME_INVALID.into());
        }
        let kind = if self.plan.is_directory() { WantKind::Directory } else { WantKind::File };
        let how = OpenHow {
            // Whoever makes a file can read and write it, whatever its mode says (MS-FSA 2.1.5.1.1).
            access: if kind == WantKind::Directory { Access::READ } else { Access::READ | Access::WRITE },
            disposition: Disposition::Create,
            kind,
            follow: false,
            mode: self.mode(),
        };
        let root = self.share.backend.root();
        let opened = match self.share.backend.open(&self.tree.cred, &*root, path, &how, self.wait) {
            // Somebody else was faster.
            Err(VfsError::Exists) if self.plan.disposition != Wanted::Create => return self.existing(path),
            result => result?,
        };
        // Sparse is what FSCTL_SET_SPARSE makes a file, and nothing else.
        let mut attributes = self.plan.attributes - FileAttributes::SPARSE_FILE;
        attributes.set(FileAttributes::ARCHIVE, kind == WantKind::File);
        attributes.set(FileAttributes::DIRECTORY, kind == WantKind::Directory);
        if let Err(error) = store_dos(&*opened.node, &self.tree.cred, Some(attributes), None) {
            // Nothing stays of what could not be made whole; where even that fails, the first failure is told.
            let _ = self.share.backend.remove(&self.tree.cred, &*root, path, Some(opened.node.id()));
            return Err(error.into());
        }
        let all = self.tree.maximal_access;
        let granted = if self.plan.maximum_allowed { self.plan.desired | all } else { self.plan.desired };
        Ok(Found { node: opened.node, path: path.clone(), link: None, created: true, granted, maximal: Some(all) })
    }

    fn mode(&self) -> u32 {
        if self.plan.is_directory() {
            0o777 & self.share.options.directory_mask
        } else {
            0o666 & self.share.options.create_mask
        }
    }
}
