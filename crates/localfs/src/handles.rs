//! Names for objects that outlive their node. Where the process may (CAP_DAC_READ_SEARCH) and the file system knows them,
//! they are the kernel's file handles; else an object's number and birth, found again by the hints of `hints.rs`.
//! `fs.rs` calls it. A handle is not believed: what it leads to must be below the root.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, open};
use rustix::io::Errno;
use vfs::{Attr, FileId, FileKind, MAX_HANDLE_BYTES, Name, Path, VfsError, VfsResult, Wait};

use crate::errno::vfs_error;
use crate::hints::{Hints, Key};
use crate::known::Known;
use crate::node::LocalNode;
use crate::resolve::Root;
use crate::{stat, sys};

/// The first byte of a handle the kernel made; its type follows.
const BY_KERNEL: u8 = 0;
/// The first byte of a handle that says which object: device, inode number, birth.
const BY_HINT: u8 = 1;
/// Directories above an object at most.
const MAX_DEPTH: usize = 1024;

/// How handles are made.
pub struct Handles {
    /// The root by a descriptor the kernel takes for the mount, if its handles can be used.
    mount: Option<OwnedFd>,
    /// Where objects were seen.
    pub hints: Hints,
    /// What the kernel has said before.
    known: Known,
}

impl Handles {
    /// Finds out what `root` allows.
    pub fn new(root: impl AsFd, readable: Option<OwnedFd>) -> Self {
        let works = |mount: &OwnedFd| {
            let (kind, bytes) = sys::name_to_handle(root.as_fd(), c"").ok()?;
            kernel_handle(kind, &bytes)?;
            sys::open_by_handle(mount, kind, &bytes, OFlags::PATH | OFlags::CLOEXEC).ok()
        };
        Self {
            mount: readable.filter(|mount| works(mount).is_some()),
            hints: Hints::default(),
            known: Known::default(),
        }
    }
}

fn kernel_handle(kind: i32, bytes: &[u8]) -> Option<Vec<u8>> {
    let kind = u8::try_from(kind).ok()?;
    let handle = [&[BY_KERNEL, kind][..], bytes].concat();
    (handle.len() <= MAX_HANDLE_BYTES).then_some(handle)
}

/// Whether a handle begins with this inode number, in 64 bits or in 32, as those of the common file systems do.
fn says_number(handle: &[u8], ino: u64) -> bool {
    let long = handle.first_chunk().is_some_and(|bytes| u64::from_ne_bytes(*bytes) == ino);
    let short = handle.first_chunk().is_some_and(|bytes| u64::from(u32::from_ne_bytes(*bytes)) == ino);
    long || short
}

impl Root {
    /// See [`vfs::Backend::handle_of`].
    pub fn handle_of(&self, node: &LocalNode) -> VfsResult<Vec<u8>> {
        if let Some(handle) = self.kernel_handle_of_node(node) {
            return Ok(handle);
        }
        if let Ok(path) = self.path_of(node) {
            self.remember_path(&path)?;
        }
        Ok(self.hint_handle(node.id))
    }

    /// See [`vfs::Backend::entry_handle`].
    pub fn entry_handle(&self, dir: &LocalNode, name: Name<'_>) -> VfsResult<(Attr, Vec<u8>)> {
        let attr = stat::of_entry(&dir.fd, name.as_bytes())?;
        if self.takes_kernel_handles(attr.id)
            && let Some(handle) = self.kernel_handle_of(&attr, dir, name)?
        {
            return Ok((attr, handle));
        }
        self.remember(attr.id, dir.id, name);
        Ok((attr, self.hint_handle(attr.id)))
    }

    /// The object a handle names, by a descriptor that only names it.
    pub fn find_handle(&self, handle: &[u8]) -> VfsResult<(OwnedFd, Attr)> {
        self.identity.enter_own()?;
        let (fd, attr) = match handle {
            [BY_KERNEL, kind, bytes @ ..] => self.open_by_kernel((*kind).into(), bytes)?,
            [BY_HINT, key @ ..] => self.open_by_hint(key.try_into().map_err(|_| VfsError::InvalidArgument)?)?,
            _ => return Err(VfsError::InvalidArgument),
        };
        if attr.nlink == 0 { Err(VfsError::Stale) } else { Ok((fd, attr)) }
    }

    /// Remembers that an object was moved or made; for the changes this backend makes itself.
    pub fn note_entry(&self, parent: BorrowedFd<'_>, name: Name<'_>) {
        if self.handles.mount.is_none()
            && let (Ok(dir), Ok(attr)) = (stat::of_fd(parent), stat::of_entry(parent, name.as_bytes()))
        {
            self.remember(attr.id, dir.id, name);
        }
    }

    /// A handle of another file system mounted below would be looked for on the root's.
    fn takes_kernel_handles(&self, id: FileId) -> bool {
        self.handles.mount.is_some() && id.dev == self.id.dev
    }

    /// The kernel's handle of an open object; none where it has none. No system call where it has been told before.
    pub fn kernel_handle_of_node(&self, node: &LocalNode) -> Option<Vec<u8>> {
        if !self.takes_kernel_handles(node.id) {
            return None;
        }
        if let Some(handle) = self.handles.known.find(node.id) {
            return Some(handle);
        }
        let (kind, bytes) = sys::name_to_handle(&node.fd, c"").ok()?;
        let handle = kernel_handle(kind, &bytes)?;
        if let Some(born) = node.born() {
            self.handles.known.remember(node.id, born, &handle, stat::now());
        }
        Some(handle)
    }

    /// The kernel's handle of an entry whose attributes were just read.
    fn kernel_handle_of(&self, attr: &Attr, dir: &LocalNode, name: Name<'_>) -> VfsResult<Option<Vec<u8>>> {
        if let Some(handle) = self.handles.known.find(attr.id) {
            return Ok(Some(handle));
        }
        let spelled = CString::new(name.as_bytes()).map_err(|_| VfsError::InvalidName)?;
        let Ok((kind, bytes)) = sys::name_to_handle(&dir.fd, &spelled) else { return Ok(None) };
        let handle = kernel_handle(kind, &bytes);
        // The name may have been given to another object since.
        if let (Some(handle), Some(born), true) = (&handle, attr.created, says_number(&bytes, attr.id.ino)) {
            self.handles.known.remember(attr.id, born, handle, stat::now());
        }
        Ok(handle)
    }

    fn open_by_kernel(&self, kind: i32, bytes: &[u8]) -> VfsResult<(OwnedFd, Attr)> {
        let mount = self.handles.mount.as_ref().ok_or(VfsError::Stale)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = sys::open_by_handle(mount, kind, bytes, flags).map_err(|errno| match errno {
            Errno::STALE | Errno::NOENT => VfsError::Stale,
            // Not enough bytes for its type, or too many.
            Errno::INVAL | Errno::OVERFLOW => VfsError::InvalidArgument,
            other => vfs_error(other),
        })?;
        let attr = stat::of_fd(&fd)?;
        self.must_be_below(&fd, &attr)?;
        Ok((fd, attr))
    }

    /// Directories are always connected to the root, so that their path tells. Of another object the kernel may know no
    /// name yet; then it is where it was when its handle was made, as far as can be told. One that is found at a path
    /// outside of the root has been moved there.
    fn must_be_below(&self, fd: &OwnedFd, attr: &Attr) -> VfsResult<()> {
        if attr.id == self.id {
            return Ok(());
        }
        let (root, full) = (self.link_of(self.fd.as_fd())?, self.link_of(fd.as_fd())?);
        if crate::resolve::below(&root, &full).is_some() {
            return Ok(());
        }
        if attr.kind == FileKind::Directory {
            return Err(VfsError::Stale);
        }
        let named = open(&*full, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let outside = named.is_ok_and(|named| stat::of_fd(named).is_ok_and(|found| found.id == attr.id));
        if outside { Err(VfsError::Stale) } else { Ok(()) }
    }

    fn hint_handle(&self, id: FileId) -> Vec<u8> {
        [&[BY_HINT][..], &self.key(id)].concat()
    }

    /// The root's own device counts as 0: its number may be another one after the next mount.
    fn key(&self, id: FileId) -> Key {
        let dev = if id.dev == self.id.dev { 0 } else { id.dev };
        let mut key = [0; 24];
        for (part, number) in key.chunks_exact_mut(8).zip([dev, id.ino, id.generation]) {
            part.copy_from_slice(&number.to_be_bytes());
        }
        key
    }

    fn remember(&self, id: FileId, parent: FileId, name: Name<'_>) {
        self.handles.hints.remember(self.key(id), self.key(parent), name.as_bytes());
    }

    fn remember_path(&self, path: &Path) -> VfsResult<()> {
        self.identity.enter_own()?;
        let (mut at, mut parent) = (Path::here(), self.id);
        for name in path.components() {
            at = at.join(name);
            let id = stat::of_fd(self.named(at.as_bytes())?)?.id;
            self.remember(id, parent, name);
            parent = id;
        }
        Ok(())
    }

    fn named(&self, path: &[u8]) -> VfsResult<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        self.resolve(self.fd.as_fd(), path, flags, ResolveFlags::NO_SYMLINKS, Wait::Allowed).map_err(vfs_error)
    }

    fn open_by_hint(&self, key: Key) -> VfsResult<(OwnedFd, Attr)> {
        let path = self.hinted_path(key)?;
        let is_it = |fd: &OwnedFd| stat::of_fd(fd).ok().filter(|attr| self.key(attr.id) == key);
        if let Ok(fd) = self.named(&path)
            && let Some(attr) = is_it(&fd)
        {
            return Ok((fd, attr));
        }
        // Perhaps it was only given another name.
        let parent = path.iter().rposition(|&b| b == b'/').map_or(&b""[..], |at| path.get(..at).unwrap_or_default());
        let name = self.name_in(parent, &key).ok_or(VfsError::Stale)?;
        let found = if parent.is_empty() { name.clone() } else { [parent, b"/", &name].concat() };
        let fd = self.named(&found).map_err(|_| VfsError::Stale)?;
        let attr = is_it(&fd).ok_or(VfsError::Stale)?;
        if let (Some((parent, _)), Ok(_)) = (self.handles.hints.find(&key), Name::new(&name)) {
            self.handles.hints.remember(key, parent, &name);
        }
        Ok((fd, attr))
    }

    fn hinted_path(&self, key: Key) -> VfsResult<Vec<u8>> {
        let root = self.key(self.id);
        let (mut at, mut names) = (key, Vec::new());
        while at != root {
            let (parent, name) = self.handles.hints.find(&at).ok_or(VfsError::Stale)?;
            names.push(name);
            at = parent;
            if names.len() > MAX_DEPTH {
                return Err(VfsError::Stale);
            }
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }

    /// The name an object has in a directory now.
    fn name_in(&self, parent: &[u8], key: &Key) -> Option<Vec<u8>> {
        let ino = u64::from_be_bytes(key.get(8..16)?.try_into().ok()?);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let parent = if parent.is_empty() { b"." } else { parent };
        let dir = self.resolve(self.fd.as_fd(), parent, flags, ResolveFlags::NO_SYMLINKS, Wait::Allowed).ok()?;
        let mut buf = Vec::with_capacity(32 << 10);
        let mut entries = rustix::fs::RawDir::new(&dir, buf.spare_capacity_mut());
        while let Some(Ok(entry)) = entries.next() {
            if entry.ino() == ino {
                return Some(entry.file_name().to_bytes().to_vec());
            }
        }
        None
    }
}
