//! Finding or making the object of a CREATE, and which rights the user has on it. Everything here may wait, and is tried
//! first in a way that does not: then [`Halt::WouldBlock`] comes back and nothing has changed.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, FileAttributes};
use smb_wire::name::is_device_name;
use smb_wire::security::{Control, SecurityDescriptor, SecurityInfo, inherited};
use smb_wire::smb2::{CreateOptions, Disposition as Wanted};
use vfs::{Access, Attr, Disposition, FileId, FileKind, Node, OpenHow, Opened, Path, VfsError, Wait, WantKind};

use super::plan::Plan;
use super::rights::{READS, Rights, WRITES, proven_by_opening};
use crate::Share;
use crate::acl::{self, Stored};
use crate::ea;
use crate::failure::{Failure, status_of};
use crate::meta::{read_dos, store_first_dos};
use crate::posix;
use crate::stream::{self, StreamNode};
use crate::tree::Tree;

/// The object of a CREATE.
pub struct Found {
    /// The object.
    pub node: Arc<dyn Node>,
    /// Its attributes when it was opened.
    pub attr: Attr,
    /// Where, as the directory spells it.
    pub path: Path,
    /// The stream that was opened: the node is the same.
    pub stream: Option<Arc<StreamNode>>,
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

impl From<posix::Refused> for Halt {
    fn from(refused: posix::Refused) -> Self {
        match refused {
            posix::Refused::Link => Self::Link,
            posix::Refused::Special => Self::Failed(NtStatus::IO_REPARSE_TAG_NOT_HANDLED),
        }
    }
}

impl From<NtStatus> for Halt {
    fn from(status: NtStatus) -> Self {
        Self::Failed(status)
    }
}

/// Finds or makes the object.
pub fn find_or_make(share: &Share, tree: &Tree, plan: &Plan, wait: Wait) -> Result<Found, Halt> {
    match &plan.stream {
        Some(key) => stream_of(find_or_make_base(share, tree, &base_plan(plan), wait)?, tree, plan, key, wait),
        None => find_or_make_base(share, tree, plan, wait),
    }
}

/// What is asked of the file when one of its streams is: that it is there, or is made along with the stream, and that the
/// user has the rights on it.
fn base_plan(plan: &Plan) -> Plan {
    let mut base = plan.clone();
    base.stream = None;
    base.disposition = if plan.may_make() { Wanted::OpenIf } else { Wanted::Open };
    base.options -= CreateOptions::NON_DIRECTORY_FILE | CreateOptions::DELETE_ON_CLOSE;
    if plan.overwrites() {
        base.desired |= AccessMask::FILE_WRITE_DATA;
    }
    if !plan.eas.is_empty() {
        base.disposition = Wanted::Open; // such a stream cannot be made
        base.eas = Vec::new();
    }
    base
}

/// Finds or makes the stream kept in the attribute `key` of a file that is there.
fn stream_of(mut found: Found, tree: &Tree, plan: &Plan, key: &str, wait: Wait) -> Result<Found, Halt> {
    let there = stream::find(&*found.node, key)?;
    found.created = there.is_none();
    let key = match there {
        Some(_) if plan.disposition == Wanted::Create => return Err(NtStatus::OBJECT_NAME_COLLISION.into()),
        Some(key) => key,
        None if !plan.may_make() => return Err(NtStatus::OBJECT_NAME_NOT_FOUND.into()),
        None if !tree.writable => return Err(NtStatus::ACCESS_DENIED.into()),
        None if !plan.eas.is_empty() => return Err(NtStatus::INVALID_PARAMETER.into()), // streams have none
        None if wait == Wait::Never => return Err(Halt::WouldBlock),
        None => {
            stream::make(&*found.node, &tree.cred, key)?;
            key.to_owned()
        }
    };
    if plan.desired != found.granted && !plan.maximum_allowed {
        found.granted = plan.desired;
    }
    let node = StreamNode::new(Arc::clone(&found.node), tree.cred.clone(), key);
    found.node = Arc::clone(&node) as Arc<dyn Node>;
    found.link = None;
    found.stream = Some(node);
    Ok(found)
}

fn find_or_make_base(share: &Share, tree: &Tree, plan: &Plan, wait: Wait) -> Result<Found, Halt> {
    let search = Search { share, tree, plan, wait };
    if plan.disposition == Wanted::Create && tree.writable {
        return search.fresh();
    }
    match search.existing(&plan.path) {
        // What is not there is made where it may wait: looking on here for other spellings would be done twice.
        Err(Halt::Failed(NtStatus::OBJECT_NAME_NOT_FOUND))
            if wait == Wait::Never && plan.may_make() && tree.writable =>
        {
            Err(Halt::WouldBlock)
        }
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
    /// Makes what must not be there.
    fn fresh(&self) -> Result<Found, Halt> {
        if self.wait == Wait::Never {
            return Err(Halt::WouldBlock);
        }
        let (cred, path) = (&self.tree.cred, &self.plan.path);
        if self.share.options.case_sensitive || self.plan.posix.is_some() {
            return match self.existing(path) {
                Err(Halt::Failed(status)) if self.might_be_spelled_otherwise(status) => self.make_or(path, status),
                result => result,
            };
        }
        match self.share.spell(cred, path, self.wait) {
            Ok(_) => Err(NtStatus::OBJECT_NAME_COLLISION.into()),
            Err(VfsError::NotFound) => {
                let path = self.share.spell_parent(cred, path, self.wait)?;
                self.make_or(&path, NtStatus::OBJECT_NAME_NOT_FOUND)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens what is at `path`.
    fn existing(&self, path: &Path) -> Result<Found, Halt> {
        let root = self.share.backend.root();
        let link = self.link_in_last_place(path)?;
        let follow = !self.plan.options.contains(CreateOptions::OPEN_REPARSE_POINT) && !self.only_deletes(&link);
        if self.plan.disposition == Wanted::Create {
            self.share.backend.attr_at(&self.tree.cred, &*root, path, self.wait)?;
            return Err(NtStatus::OBJECT_NAME_COLLISION.into());
        }
        let follow = follow && self.plan.posix.is_none();
        if self.plan.posix.is_some() {
            let attr = self.share.backend.attr_at(&self.tree.cred, &*root, path, self.wait)?;
            posix::check_kind(attr.kind, self.plan.options, self.only_deletes(&link))?;
        }
        let (opened, mut granted, maximal) = self.open(path, follow)?;
        self.check_kind(&opened.attr)?;
        if self.is_read_only(&opened, granted)? {
            granted -= WRITES | AccessMask::FILE_DELETE_CHILD; // MS-FSA 2.1.5.1.2.1
        }
        let link = link.filter(|(_, id)| *id != opened.attr.id);
        let (node, attr, path) = (opened.node, opened.attr, path.clone());
        Ok(Found { node, attr, path, stream: None, link, created: false, granted, maximal })
    }

    /// The symbolic link at `path`, looked for only by those who might delete or rename it: what they do is done to the
    /// link and never to what it leads to.
    fn link_in_last_place(&self, path: &Path) -> Result<Option<(Path, FileId)>, Halt> {
        if !self.plan.desired.contains(AccessMask::DELETE) && !self.plan.maximum_allowed {
            return Ok(None);
        }
        // Then the link itself is what is opened.
        if self.plan.options.contains(CreateOptions::OPEN_REPARSE_POINT) && self.plan.posix.is_none() {
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
        let wanted = self.plan.desired;
        if !self.plan.maximum_allowed && !self.plan.tell_maximal && proven_by_opening(wanted) {
            let opened = self.open_for(path, follow, wanted, None)?;
            // The kernel agrees; a stored descriptor must as well.
            let (backend, cred) = (&*self.share.backend, &self.tree.cred);
            let needed = if self.plan.overwrites() { wanted | AccessMask::FILE_WRITE_DATA } else { wanted };
            if let Some(stored) = acl::stored(backend, &*opened.node)?
                && !stored.rights(cred).contains(needed)
            {
                let all = self.rights().of(&opened, path)?;
                if !all.contains(needed) {
                    return Err(NtStatus::ACCESS_DENIED.into());
                }
            }
            return Ok((opened, wanted, None));
        }
        let how = self.how(Access::empty(), follow);
        let found = self.share.backend.open(&self.tree.cred, &*self.share.backend.root(), path, &how, self.wait)?;
        let privileged = if acl::is_admin(&self.tree.cred) { acl::PRIVILEGED } else { AccessMask::empty() };
        let needed = if self.plan.overwrites() { wanted | AccessMask::FILE_WRITE_DATA } else { wanted };
        let wants_all = self.plan.maximum_allowed || self.plan.tell_maximal;
        let all = match wants_all {
            true => self.rights().of(&found, path)?,
            false => self.rights().among(needed, &found, path)?,
        };
        if !(all | privileged).contains(needed) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        let granted = if self.plan.maximum_allowed { wanted | all } else { wanted };
        let maximal = wants_all.then_some(all);
        if self.data_access(granted, found.attr.kind).is_empty() {
            return Ok((found, granted, maximal));
        }
        Ok((self.open_for(path, follow, granted, Some(found.attr.kind))?, granted, maximal))
    }

    fn rights(&self) -> Rights<'_> {
        Rights { share: self.share, tree: self.tree, wait: self.wait }
    }

    fn open_for(&self, path: &Path, follow: bool, granted: AccessMask, kind: Option<FileKind>) -> Result<Opened, Halt> {
        let guess = if self.plan.is_directory() { FileKind::Directory } else { FileKind::File };
        let access = self.data_access(granted, kind.unwrap_or(guess));
        let how = self.how(access, follow);
        let root = self.share.backend.root();
        match self.share.backend.open(&self.tree.cred, &*root, path, &how, self.wait) {
            // Writing to a directory is adding entries: the directory itself is opened to be listed.
            Err(VfsError::IsDirectory) if how.kind == WantKind::Any => {
                let how = self.how(access - Access::WRITE, follow);
                Ok(self.share.backend.open(&self.tree.cred, &*root, path, &how, self.wait)?)
            }
            // Executing lets clients read, where the kernel does too.
            Err(VfsError::AccessDenied)
                if access.contains(Access::READ) && !granted.contains(AccessMask::FILE_READ_DATA) && kind.is_some() =>
            {
                let how = self.how(access - Access::READ, follow);
                Ok(self.share.backend.open(&self.tree.cred, &*root, path, &how, self.wait)?)
            }
            result => Ok(result?),
        }
    }

    fn data_access(&self, granted: AccessMask, kind: FileKind) -> Access {
        let mut access = Access::empty();
        // Passing through a directory reads nothing of it.
        let reads = if kind == FileKind::Directory { AccessMask::FILE_LIST_DIRECTORY } else { READS };
        access.set(Access::READ, granted.intersects(reads));
        let writes = granted.intersects(WRITES) || self.plan.overwrites();
        access.set(Access::WRITE, writes && kind != FileKind::Directory);
        // A named pipe or a device opened as what it is: nothing passes through it.
        if self.plan.posix.is_some() && !matches!(kind, FileKind::File | FileKind::Directory) {
            access = Access::empty();
        }
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
    /// attributes the file has (MS-FSA 2.1.5.1.2).
    ///
    /// Whether it is set, where that matters: then "all there is" does not include writing.
    fn is_read_only(&self, found: &Opened, granted: AccessMask) -> Result<bool, Halt> {
        let deletes = self.plan.options.contains(CreateOptions::DELETE_ON_CLOSE);
        if !(self.plan.desired.intersects(WRITES) || granted.intersects(WRITES) || self.plan.overwrites() || deletes) {
            return Ok(false);
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
        Ok(read_only)
    }

    fn might_be_spelled_otherwise(&self, status: NtStatus) -> bool {
        matches!(status, NtStatus::OBJECT_NAME_NOT_FOUND | NtStatus::OBJECT_PATH_NOT_FOUND)
    }

    /// Nothing has exactly this name. Ignoring case something may; else it is made, where that is asked.
    fn by_other_spelling(&self, status: NtStatus) -> Result<Found, Halt> {
        let cred = &self.tree.cred;
        if self.share.options.case_sensitive || self.plan.posix.is_some() {
            return self.make_or(&self.plan.path, status);
        }
        match self.share.spell(cred, &self.plan.path, self.wait) {
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
                let path = self.share.spell_parent(cred, &self.plan.path, self.wait)?;
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
        let deletes = self.plan.options.contains(CreateOptions::DELETE_ON_CLOSE);
        if deletes && self.plan.attributes.contains(FileAttributes::READONLY) {
            return Err(NtStatus::CANNOT_DELETE.into()); // MS-FSA 2.1.5.1.1
        }
        // One that another program made can be opened; none is made here.
        if self.plan.posix.is_none() && path.last().is_some_and(|name| is_device_name(name.as_bytes())) {
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
        let (backend, cred) = (&*self.share.backend, &self.tree.cred);
        let above = self.rights().parent_descriptor(path)?;
        if let Some(above) = &above {
            let needed =
                if kind == WantKind::Directory { AccessMask::FILE_ADD_SUBDIRECTORY } else { AccessMask::FILE_ADD_FILE };
            if !above.rights(cred).contains(needed) {
                return Err(NtStatus::ACCESS_DENIED.into());
            }
        }
        let opened = match backend.open(cred, &*backend.root(), path, &how, self.wait) {
            // Somebody else was faster.
            Err(VfsError::Exists) if self.plan.disposition != Wanted::Create => return self.existing(path),
            result => result?,
        };
        // Sparse is what FSCTL_SET_SPARSE makes a file, and nothing else.
        let mut attributes = self.plan.attributes - FileAttributes::SPARSE_FILE;
        attributes.set(FileAttributes::ARCHIVE, kind == WantKind::File);
        attributes.set(FileAttributes::DIRECTORY, kind == WantKind::Directory);
        let all = match self.dress(&opened, attributes, above.as_ref(), kind == WantKind::Directory, path) {
            Ok(all) => all,
            Err(error) => {
                // Nothing stays of what could not be made whole; where even that fails, the first failure is told.
                let _ = backend.remove(cred, &*backend.root(), path, Some(opened.node.id()));
                return Err(error);
            }
        };
        let granted = if self.plan.maximum_allowed { self.plan.desired | all } else { self.plan.desired };
        Ok(Found {
            node: opened.node,
            attr: opened.attr,
            path: path.clone(),
            stream: None,
            link: None,
            created: true,
            granted,
            maximal: Some(all),
        })
    }

    /// Gives a new object its attributes and its descriptor; the answer is what its maker may do.
    fn dress(
        &self,
        made: &Opened,
        attributes: FileAttributes,
        above: Option<&Stored>,
        directory: bool,
        path: &Path,
    ) -> Result<AccessMask, Halt> {
        let cred = &self.tree.cred;
        store_first_dos(&*made.node, cred, attributes, &made.attr)?;
        ea::set(&*made.node, cred, &self.plan.eas).map_err(|failure| Halt::Failed(failure.status))?;
        let Some(descriptor) = self.descriptor(above, directory, made) else { return Ok(self.tree.maximal_access) };
        acl::store(&*self.share.backend, &*made.node, cred, &descriptor, self.plan.now)?;
        self.rights().of(made, path)
    }

    /// The descriptor a new object is stored with: the one that was sent, or what it inherits from a directory that has
    /// one stored. Where neither is, POSIX permissions are all there is.
    fn descriptor(&self, above: Option<&Stored>, directory: bool, made: &Opened) -> Option<SecurityDescriptor> {
        let token = acl::token(&self.tree.cred);
        let inherited = above.map(|above| inherited(&above.descriptor, directory, &token));
        let Some(sent) = &self.plan.security else { return inherited };
        let mut parts = SecurityInfo::empty();
        parts.set(SecurityInfo::DACL, sent.control.contains(Control::DACL_PRESENT));
        parts.set(SecurityInfo::SACL, sent.control.contains(Control::SACL_PRESENT) && acl::is_admin(&self.tree.cred));
        // A new object belongs to its maker, unless an administrator makes it for somebody.
        let admin = acl::is_admin(&self.tree.cred);
        parts.set(SecurityInfo::OWNER, sent.owner.is_some() && (admin || sent.owner.as_ref() == Some(&token.user)));
        parts.set(SecurityInfo::GROUP, sent.group.as_ref().is_some_and(|group| admin || token.is(group)));
        if parts.is_empty() {
            return inherited; // nothing was said
        }
        let mut descriptor = inherited.unwrap_or_else(|| acl::computed(&made.attr));
        descriptor.change(sent, parts);
        Some(descriptor)
    }

    fn mode(&self) -> u32 {
        if let Some(mode) = self.plan.posix.and_then(|asked| asked.mode) {
            return mode;
        }
        if self.plan.is_directory() {
            0o777 & self.share.options.directory_mask
        } else {
            0o666 & self.share.options.create_mask
        }
    }
}
