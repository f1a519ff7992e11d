//! From a handle to an open object: who may, what is kept open for whom, and the attributes before and after a change.
//! The procedures in `nfs3` go through [`Cx`]; nothing here writes a reply.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{PostOpAttr, WccData};
use parking_lot::Mutex;
use vfs::{Access, AccessMask, Attr, Capabilities, Cred, FileKind, Name, Node, Path, VfsError, VfsResult, Wait};

use crate::attr::fattr;
use crate::config::{Caller, Rights};
use crate::failure::{Done, Stop};
use crate::listed::Listed;
use crate::server::{Exported, Server};

/// Users whose open files one object keeps.
const MOST_USERS: usize = 8;

/// One object, by what names it.
pub(crate) struct Object {
    pub handle: Box<[u8]>,
    pub export: Arc<Exported>,
    /// Open for attributes only.
    pub node: Arc<dyn Node>,
    opened: Mutex<Vec<OpenFile>>,
    last_use_ms: AtomicU64,
    changes: AtomicU64,
    changing: AtomicU32,
    /// Whether its device keeps up with what is written in place; while not, writes go to a worker.
    pub pace: vfs::Pace,
    /// Whether its entries are in memory.
    pub listed: Listed,
}

/// The object opened for data by one user.
struct OpenFile {
    cred: Cred,
    access: Access,
    /// What the permission to open it was read from.
    rights: (u32, u32, u32),
    node: Arc<dyn Node>,
}

impl Object {
    fn new(handle: Vec<u8>, export: &Arc<Exported>, node: Arc<dyn Node>) -> Self {
        Self {
            handle: handle.into(),
            export: Arc::clone(export),
            node,
            opened: Mutex::default(),
            last_use_ms: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            changing: AtomicU32::new(0),
            pace: vfs::Pace::default(),
            listed: Listed::default(),
        }
    }

    /// Notes a use.
    pub fn used_at(&self, now_ms: u64) {
        self.last_use_ms.store(now_ms, Ordering::Relaxed);
    }

    /// When it was used last.
    pub fn last_use_ms(&self) -> u64 {
        self.last_use_ms.load(Ordering::Relaxed)
    }

    fn opened_for(&self, cred: &Cred, access: Access, attr: &Attr) -> Option<Arc<dyn Node>> {
        let opened = self.opened.lock();
        let fits =
            |file: &&OpenFile| file.access.contains(access) && file.rights == rights_of(attr) && file.cred == *cred;
        opened.iter().find(fits).map(|file| Arc::clone(&file.node))
    }

    fn keep_open(&self, cred: &Cred, access: Access, attr: &Attr, node: &Arc<dyn Node>) {
        let mut opened = self.opened.lock();
        opened.retain(|file| file.rights == rights_of(attr));
        if opened.len() >= MOST_USERS {
            opened.remove(0);
        }
        opened.push(OpenFile { cred: cred.clone(), access, rights: rights_of(attr), node: Arc::clone(node) });
    }

    /// A node whose `sync` tells of failures to write what was written through this object.
    pub fn for_sync(&self) -> Arc<dyn Node> {
        let opened = self.opened.lock();
        let writer = opened.iter().rev().find(|file| file.access.contains(Access::WRITE));
        writer.map_or_else(|| Arc::clone(&self.node), |file| Arc::clone(&file.node))
    }
}

fn rights_of(attr: &Attr) -> (u32, u32, u32) {
    (attr.mode, attr.uid, attr.gid)
}

/// One call: who makes it, and whether it may wait.
#[derive(Clone)]
pub(crate) struct Cx {
    pub server: Arc<Server>,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub caller: Arc<Caller>,
    pub wait: Wait,
}

/// The object of a call's handle, and what the caller may do with it.
#[derive(Clone)]
pub(crate) struct Target {
    pub object: Arc<Object>,
    pub cred: Cred,
    pub rights: Rights,
}

impl Cx {
    /// The object a handle names: BADHANDLE for a handle this server did not make, STALE for an object that is gone;
    /// TooWeak where its export wants a better proof of who calls.
    pub fn target(&self, handle: &[u8]) -> Done<Target> {
        let target = self.found(handle)?;
        if self.is_taken(&target) { Ok(target) } else { Err(Stop::TooWeak) }
    }

    /// The same for what clients ask of a directory before they know how they are to come (RFC 2623 2.3.2).
    pub fn target_at_mount(&self, handle: &[u8]) -> Done<Target> {
        let target = self.found(handle)?;
        let is_root = || target.object.node.id() == target.object.export.backend.root().id();
        if self.is_taken(&target) || is_root() { Ok(target) } else { Err(Stop::TooWeak) }
    }

    /// Whether the export takes calls that come as this one does.
    pub fn is_taken(&self, target: &Target) -> bool {
        target.object.export.takes(self.caller.sec)
    }

    /// The same, however the call came.
    pub fn found(&self, handle: &[u8]) -> Done<Target> {
        if let Some(kept) = self.kept(handle) {
            return kept;
        }
        let now_ms = self.server.env.clock.monotonic_ms();
        let (id, name) = self.server.key.open(handle).map_err(|_| NfsStat3::BADHANDLE)?;
        let export = self.server.export(&id).ok_or(NfsStat3::STALE)?;
        let cred = self.cred(&export)?;
        let opened = match export.backend.open_handle(&cred, name, Access::empty(), self.wait) {
            Err(VfsError::NotFound | VfsError::PathNotFound | VfsError::InvalidArgument) => Err(VfsError::Stale),
            other => other,
        };
        let object = Object::new(handle.to_vec(), &export, opened?.node);
        self.admitted(self.server.cache.keep(object, now_ms))
    }

    /// The same for an object that is kept open.
    pub fn kept(&self, handle: &[u8]) -> Option<Done<Target>> {
        let object = self.server.cache.find(handle, self.server.env.clock.monotonic_ms())?;
        Some(self.admitted(object))
    }

    /// The same for one that is to be changed.
    pub fn target_to_change(&self, handle: &[u8]) -> Done<Target> {
        let target = self.target(handle)?;
        if target.rights.write { Ok(target) } else { Err(NfsStat3::ROFS.into()) }
    }

    /// The same for a directory in which something is to be changed.
    pub fn directory_to_change(&self, handle: &[u8]) -> Done<Target> {
        let target = self.target(handle)?;
        target.must_be_directory()?;
        if target.rights.write { Ok(target) } else { Err(NfsStat3::ROFS.into()) }
    }

    /// As whom the caller acts in an export.
    pub fn cred(&self, export: &Exported) -> Done<Cred> {
        let server = &self.server;
        export.cred(&self.caller, |claimed| match &server.env.groups {
            Some(groups) => server.groups.complete(claimed, groups, server.env.clock.monotonic_ms(), self.wait),
            None => Ok(claimed),
        })
    }

    fn admitted(&self, object: Arc<Object>) -> Done<Target> {
        let rights = object.export.admit(self.peer, self.caller.sec).ok_or(NfsStat3::ACCES)?;
        let cred = self.cred(&object.export)?;
        Ok(Target { object, cred, rights })
    }

    /// The object at a name in a directory, kept open.
    pub fn entry(&self, dir: &Target, name: Name<'_>) -> Done<(Arc<Object>, Attr)> {
        let export = &dir.object.export;
        let path = Path::here().join(name);
        let opened = export.backend.open(&dir.cred, &*dir.object.node, &path, &crate::nfs3::LOOK, self.wait)?;
        Ok((self.adopt_entry(dir, name, opened.node)?, opened.attr))
    }

    /// Keeps an object that was just opened by its name.
    pub fn adopt_entry(&self, dir: &Target, name: Name<'_>, node: Arc<dyn Node>) -> Done<Arc<Object>> {
        let export = &dir.object.export;
        let handle = export.backend.handle_of_entry(&dir.cred, &*dir.object.node, name, &*node)?;
        self.adopt(export, &handle, node)
    }

    /// Keeps an object that was opened by other means.
    pub fn adopt(&self, export: &Arc<Exported>, name: &[u8], node: Arc<dyn Node>) -> Done<Arc<Object>> {
        let handle = self.server.key.seal(&export.id, name).ok_or(NfsStat3::SERVERFAULT)?;
        let now_ms = self.server.env.clock.monotonic_ms();
        Ok(self.server.cache.keep(Object::new(handle, export, node), now_ms))
    }

    /// Attributes of a handle's object for a reply that fails, where they can be had without waiting.
    pub fn attr_if_known(&self, handle: &[u8]) -> PostOpAttr {
        let now_ms = self.server.env.clock.monotonic_ms();
        let object = self.server.cache.find(handle, now_ms)?;
        object.export.admit(self.peer, self.caller.sec).filter(|_| object.export.takes(self.caller.sec))?;
        post_op(&object)
    }
}

/// Attributes after an operation.
pub(crate) fn post_op(object: &Object) -> PostOpAttr {
    object.node.attr().ok().map(|attr| fattr(&object.export, &attr))
}

impl Target {
    /// The object's attributes; STALE when its last name is gone.
    pub fn attr(&self, cx: &Cx) -> Done<Attr> {
        let attr = self.object.node.attr();
        match attr {
            Ok(attr) if attr.nlink > 0 => Ok(attr),
            Ok(_) | Err(VfsError::Stale) => {
                cx.server.cache.forget(&self.object.handle);
                Err(NfsStat3::STALE.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// NOTDIR unless it is a directory.
    pub fn must_be_directory(&self) -> Done<()> {
        match self.object.node.kind() {
            FileKind::Directory => Ok(()),
            _ => Err(NfsStat3::NOTDIR.into()),
        }
    }

    /// The object opened for data. Its owner may always, as a program that has opened a file and then takes its rights
    /// away expects; and who may execute a file may read it, since that is how it is executed (RFC 1813 4.4).
    pub fn open(&self, cx: &Cx, access: Access, attr: &Attr) -> Done<Arc<dyn Node>> {
        if let Some(node) = self.object.opened_for(&self.cred, access, attr) {
            return Ok(node);
        }
        let node = match self.open_as(cx, &self.cred, access) {
            Err(VfsError::AccessDenied) if self.may_pass(access, attr)? => {
                let root = Cred { uid: 0, gid: 0, groups: Arc::from([]) };
                self.open_as(cx, &root, access)?
            }
            other => other?,
        };
        self.object.keep_open(&self.cred, access, attr, &node);
        Ok(node)
    }

    /// Keeps a node that was opened by making the file.
    pub fn keep_made(&self, access: Access, attr: &Attr, node: &Arc<dyn Node>) {
        self.object.keep_open(&self.cred, access, attr, node);
    }

    fn open_as(&self, cx: &Cx, cred: &Cred, access: Access) -> VfsResult<Arc<dyn Node>> {
        let export = &self.object.export;
        let (_, name) = cx.server.key.open(&self.object.handle).map_err(|_| VfsError::Stale)?;
        export.backend.open_handle(cred, name, access, cx.wait).map(|opened| opened.node)
    }

    fn may_pass(&self, access: Access, attr: &Attr) -> Done<bool> {
        if !self.object.export.backend.capabilities().contains(Capabilities::IDENTITY) || attr.kind != FileKind::File {
            return Ok(false);
        }
        if attr.uid == self.cred.uid {
            return Ok(true);
        }
        let ask = AccessMask::EXECUTE;
        Ok(access == Access::READ && self.object.node.access(&self.cred, ask)?.contains(ask))
    }

    /// Begins a change of the object.
    pub fn begin_change(&self) -> Changing {
        let object = Arc::clone(&self.object);
        let alone = object.changing.fetch_add(1, Ordering::AcqRel) == 0;
        let number = object.changes.fetch_add(1, Ordering::AcqRel) + 1;
        let before = if alone { object.node.attr().ok() } else { None };
        Changing { object, before, number }
    }
}

/// A change under way, for the attributes before and after it. Those before are told only when no other change through
/// this server came in between: a client takes the two for neighbours (RFC 1813 2.6).
pub(crate) struct Changing {
    object: Arc<Object>,
    before: Option<Attr>,
    number: u64,
}

impl Changing {
    /// NFSv4's change attribute before and now; nothing before when it is not to be told.
    pub fn change(&self) -> (Option<u64>, Option<u64>) {
        let after = self.object.node.attr().ok().map(|attr| attr.change);
        let undisturbed = self.object.changes.load(Ordering::Acquire) == self.number;
        (self.before.filter(|_| undisturbed).map(|attr| attr.change), after)
    }

    /// The attributes, now that the change is made or has failed.
    pub fn wcc(&self) -> WccData {
        let after = self.object.node.attr().ok().map(|attr| fattr(&self.object.export, &attr));
        let undisturbed = self.object.changes.load(Ordering::Acquire) == self.number;
        let before = self.before.filter(|_| undisturbed).map(|attr| fattr(&self.object.export, &attr).wcc());
        WccData { before, after }
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.object.changing.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The one name of a `diropargs3`.
pub(crate) fn name_of(bytes: &[u8]) -> Result<Name<'_>, Stop> {
    Ok(Name::new(bytes)?)
}
