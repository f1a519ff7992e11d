//! What clients are told of an object: POSIX attributes and `user.DOSATTRIB` put together as Samba does.

use smb_wire::fscc::{DirTimes, FileAttributes, FileTime};
use vfs::dosattrib::{DosAttrib, XATTR_NAME};
use vfs::{Attr, Cred, FileKind, Node, Timestamp, VfsError, VfsResult};

/// DOSATTRIB values are far below this.
const MAX_XATTR_BYTES: usize = 256;

/// Attributes that are stored; the others follow from what the object is.
pub const STORED: FileAttributes = FileAttributes::READONLY
    .union(FileAttributes::HIDDEN)
    .union(FileAttributes::SYSTEM)
    .union(FileAttributes::ARCHIVE)
    .union(FileAttributes::TEMPORARY)
    .union(FileAttributes::SPARSE_FILE)
    .union(FileAttributes::OFFLINE)
    .union(FileAttributes::NOT_CONTENT_INDEXED);

/// One object as clients see it.
#[derive(Debug, Clone, Copy)]
pub struct Meta {
    /// What the backend says.
    pub attr: Attr,
    /// Made.
    pub created: FileTime,
    /// Changed in any way.
    pub changed: FileTime,
    /// Attributes.
    pub attributes: FileAttributes,
}

/// A backend's time on the wire.
pub fn wire_time(time: Timestamp) -> FileTime {
    FileTime::from_unix(time.secs, time.nanos)
}

/// A time from the wire for the backend.
pub fn local_time(time: FileTime) -> Timestamp {
    let (secs, nanos) = time.to_unix();
    Timestamp { secs, nanos }
}

impl Meta {
    /// Puts together what is known; `hidden` by the share's rules where nothing is stored.
    pub fn new(attr: Attr, dos: DosAttrib, hidden: bool) -> Self {
        let created = dos
            .create_time
            .map_or_else(|| wire_time(attr.created.unwrap_or_else(|| attr.modified.min(attr.changed))), FileTime);
        let changed = wire_time(attr.changed);
        Self { attr, created, changed, attributes: attributes(attr.kind, dos.attributes, hidden) }
    }

    /// Of an open node.
    pub fn of(node: &dyn Node, hidden: bool) -> VfsResult<Self> {
        Ok(Self::new(node.attr()?, read_dos(node)?, hidden))
    }

    /// With the change time that a client chose, if one did.
    pub fn on(mut self, share: &crate::Share) -> Self {
        self.changed = share.change_times.get(&self.attr).unwrap_or(self.changed);
        self
    }

    /// Its times in the wire's order.
    pub fn times(&self) -> [u64; 4] {
        let t = self.dir_times();
        [t.created.0, t.accessed.0, t.written.0, t.changed.0]
    }

    /// Its times as directory listings have them.
    pub fn dir_times(&self) -> DirTimes {
        DirTimes {
            created: self.created,
            accessed: wire_time(self.attr.accessed),
            written: wire_time(self.attr.modified),
            changed: self.changed,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.attr.kind == FileKind::Directory
    }

    /// The reparse tag; 0 where there is none.
    pub fn reparse_tag(&self) -> u32 {
        if self.attr.kind == FileKind::Symlink { smb_wire::fscc::reparse_tag::SYMLINK } else { 0 }
    }

    /// Length in bytes: 0 for a directory.
    pub fn end_of_file(&self) -> u64 {
        if self.is_directory() { 0 } else { self.attr.len_bytes }
    }

    /// Space taken in bytes: 0 for a directory.
    pub fn allocation_bytes(&self) -> u64 {
        if self.is_directory() { 0 } else { self.attr.allocated_bytes }
    }
}

fn attributes(kind: FileKind, stored: Option<u32>, hidden: bool) -> FileAttributes {
    let mut attributes = match stored {
        Some(bits) => FileAttributes::from_bits_retain(bits) & STORED,
        None if hidden => FileAttributes::HIDDEN,
        None => FileAttributes::empty(),
    };
    attributes.set(FileAttributes::DIRECTORY, kind == FileKind::Directory);
    attributes.set(FileAttributes::REPARSE_POINT, kind == FileKind::Symlink);
    if attributes.is_empty() { FileAttributes::NORMAL } else { attributes }
}

/// What is stored with an object; nothing where nothing can be.
pub fn read_dos(node: &dyn Node) -> VfsResult<DosAttrib> {
    decode_dos(node.xattr(XATTR_NAME, MAX_XATTR_BYTES))
}

/// What is stored with the entry `name` of a directory.
pub fn read_entry_dos(dir: &dyn Node, name: vfs::Name<'_>) -> VfsResult<DosAttrib> {
    decode_dos(dir.entry_xattr(name, XATTR_NAME, MAX_XATTR_BYTES))
}

/// A value that cannot be read or understood is as good as none: the file must stay usable.
fn decode_dos(value: VfsResult<Vec<u8>>) -> VfsResult<DosAttrib> {
    match value {
        Ok(bytes) => Ok(DosAttrib::decode(&bytes).unwrap_or_default()),
        Err(VfsError::WouldBlock) => Err(VfsError::WouldBlock),
        Err(_) => Ok(DosAttrib::default()),
    }
}

/// Stores attributes and creation time, leaving what is `None` as it was. Where the file system keeps no extended
/// attributes that succeeds and is forgotten, as on a FAT disk.
pub fn store_dos(
    node: &dyn Node,
    cred: &Cred,
    attributes: Option<FileAttributes>,
    created: Option<FileTime>,
) -> VfsResult<()> {
    let before = read_dos(node)?;
    let mut dos = before;
    if let Some(attributes) = attributes {
        dos.attributes = Some((attributes & (STORED | FileAttributes::DIRECTORY)).bits());
    }
    if let Some(created) = created {
        dos.create_time = Some(created.0);
    }
    if dos.create_time.is_none() {
        // Samba always stores both, and the time must survive a change of the attributes.
        dos.create_time = Some(Meta::new(node.attr()?, dos, false).created.0);
    }
    if dos == before {
        return Ok(()); // nor does the change time change
    }
    put_dos(node, cred, &dos)
}

/// Stores the attributes of an object just made, which has none, and the time it was made at: nothing has to be read first.
pub fn store_first_dos(node: &dyn Node, cred: &Cred, attributes: FileAttributes, attr: &Attr) -> VfsResult<()> {
    let mut dos =
        DosAttrib { attributes: Some((attributes & (STORED | FileAttributes::DIRECTORY)).bits()), create_time: None };
    dos.create_time = Some(Meta::new(*attr, dos, false).created.0);
    put_dos(node, cred, &dos)
}

fn put_dos(node: &dyn Node, cred: &Cred, dos: &DosAttrib) -> VfsResult<()> {
    // Changing attributes is a right of its own, which the caller has checked; POSIX wants the file writable.
    match crate::acl::as_user_or_server(cred, |cred| node.set_xattr(cred, XATTR_NAME, &dos.encode())) {
        Err(VfsError::NotSupported) => Ok(()),
        result => result,
    }
}

/// Sets the ARCHIVE attribute of an object whose data (MS-FSA 2.1.4.17) or name were changed, where it has none: backup
/// programs look for it. As Samba does it, of directories that are renamed too.
pub fn mark_archive(node: &dyn Node, cred: &Cred) -> VfsResult<()> {
    let stored = FileAttributes::from_bits_retain(read_dos(node)?.attributes.unwrap_or(0));
    if stored.contains(FileAttributes::ARCHIVE) {
        return Ok(());
    }
    store_dos(node, cred, Some(stored | FileAttributes::ARCHIVE), None)
}

/// Whether the share's rules hide `name` (local bytes) where nothing is stored.
pub fn is_hidden(share: &crate::Share, name: Option<vfs::Name<'_>>) -> bool {
    let Some(name) = name.map(vfs::Name::as_bytes) else { return false };
    let options = &share.options;
    (options.hide_dot_files && name.starts_with(b".")) || options.hide.matches_local(name)
}
