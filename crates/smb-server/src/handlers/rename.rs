//! Renames and hard links (MS-FSA 2.1.5.15.11, 2.1.5.15.6).

use std::sync::Arc;

use coherence::{AccessKinds, OpenClaim, OpenRequest, ShareKinds};
use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, FileAttributes, NotifyAction, RenameFlags, RenameInfo};
use smb_wire::name::{StreamKind, is_device_name, parse_posix_path, parse_stream, parse_target};
use vfs::{Name, Path, Rename, VfsError, Wait};

use super::create::to_path;
use crate::Share;
use crate::dispatch::Request;
use crate::failure::Failure;
use crate::meta::{mark_archive, read_dos};
use crate::open::{FileOpen, Open, StreamOpen};
use crate::server::Server;
use crate::{stream, witness};

/// Renames the open's object.
pub(crate) async fn rename(request: &Request<'_>, open: &Arc<Open>, info: &RenameInfo<'_>) -> Result<(), Failure> {
    open.require_any(AccessMask::DELETE)?;
    if let Some(stream) = &open.file()?.stream {
        let target = stream_target(&open.file()?.share, stream, info)?;
        let (server, open) = (Arc::clone(&request.conn.server), Arc::clone(open));
        let replace = info.flags.contains(RenameFlags::REPLACE_IF_EXISTS);
        let job = move || rename_stream(&server, &open, target, replace);
        return request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?;
    }
    let change = Change::check(request, open, info)?;
    request.conn.offload(move || change.rename()).await.ok_or(NtStatus::INTERNAL_ERROR)?
}

/// Gives the open's object one more name.
pub(crate) async fn link(request: &Request<'_>, open: &Arc<Open>, info: &RenameInfo<'_>) -> Result<(), Failure> {
    if !open.tree.writable {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    if open.file()?.stream.is_some() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let change = Change::check(request, open, info)?;
    if open.file()?.is_directory() {
        return Err(NtStatus::FILE_IS_A_DIRECTORY.into());
    }
    request.conn.offload(move || change.link()).await.ok_or(NtStatus::INTERNAL_ERROR)?
}

/// The attribute a stream goes to; `None` where it becomes the file's data. Only within the file (MS-FSA
/// 2.1.5.15.11).
fn stream_target(share: &Share, stream: &StreamOpen, info: &RenameInfo<'_>) -> Result<Option<String>, NtStatus> {
    if info.root_directory != 0 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if !info.name.starts_with(&[b':', 0]) {
        // The file itself is in the way, as it is open.
        let wire = parse_target(info.name)?;
        to_path(share, &wire.path)?;
        return Err(if wire.stream.is_some() { NtStatus::SHARING_VIOLATION } else { NtStatus::INVALID_PARAMETER });
    }
    let target = parse_stream(info.name)?;
    match (target.kind, target.name.is_empty()) {
        (StreamKind::Data, false) => Ok(Some(stream::key(&target.name)?)),
        (StreamKind::Data, true) if stream.node.base().kind() == vfs::FileKind::File => Ok(None),
        _ => Err(NtStatus::INVALID_PARAMETER),
    }
}

fn rename_stream(server: &Server, open: &Open, target: Option<String>, replace: bool) -> Result<(), Failure> {
    let file = open.file()?;
    let Some(stream) = &file.stream else { return Err(NtStatus::INVALID_PARAMETER.into()) };
    file.claim.check_remove()?;
    let base = stream.node.base();
    let Some(target) = target else { return becomes_data(file, stream, replace) };
    if let Some(taken) = stream::find(&**base, &target)?.filter(|taken| *taken != stream.node.key()) {
        let same = stream::id(base.id(), &taken) == file.node.id();
        if !same && !replace {
            return Err(NtStatus::OBJECT_NAME_COLLISION.into());
        }
        if !same && server.table.open_count(stream::id(base.id(), &taken)) > 0 {
            return Err(NtStatus::INVALID_PARAMETER.into());
        }
        if !same && taken != target {
            stream::remove(&**base, &file.cred, &taken)?;
        }
    }
    Ok(stream.node.rename(target)?)
}

/// The stream takes the place of the one without a name: an empty one unless it may be replaced.
fn becomes_data(file: &FileOpen, stream: &StreamOpen, replace: bool) -> Result<(), Failure> {
    let backend = &file.share.backend;
    let how = vfs::OpenHow {
        access: vfs::Access::WRITE,
        disposition: vfs::Disposition::Open,
        kind: vfs::WantKind::File,
        follow: false,
        mode: 0,
    };
    let opened = backend.open(&file.cred, &*backend.root(), &file.path()?, &how, Wait::Allowed)?;
    if opened.attr.len_bytes > 0 && !replace {
        return Err(NtStatus::OBJECT_NAME_COLLISION.into());
    }
    let mut data = vec![0; file.node.attr()?.len_bytes as usize];
    file.node.read(0, &mut data, Wait::Allowed)?;
    opened.node.set_attr(&file.cred, &vfs::SetAttr { len_bytes: Some(0), ..vfs::SetAttr::default() })?;
    opened.node.write(0, &data, Wait::Allowed)?;
    Ok(stream.node.remove()?)
}

struct Change {
    server: Arc<Server>,
    open: Arc<Open>,
    target: Path,
    replace: bool,
}

impl Change {
    fn check(request: &Request<'_>, open: &Arc<Open>, info: &RenameInfo<'_>) -> Result<Self, Failure> {
        let file = open.file()?;
        if info.root_directory != 0 || info.name.is_empty() {
            return Err(NtStatus::INVALID_PARAMETER.into());
        }
        if file.posix {
            return Self::check_posix(request, open, info);
        }
        if info.name.starts_with(&[b':', 0]) {
            // The stream without a name keeps it.
            parse_stream(info.name)?;
            return Err(NtStatus::INVALID_PARAMETER.into());
        }
        let wire = parse_target(info.name)?;
        if wire.stream.is_some() {
            return Err(NtStatus::INVALID_PARAMETER.into());
        }
        let target = to_path(&file.share, &wire.path)?;
        if target.last().is_some_and(|name| is_device_name(name.as_bytes())) {
            return Err(NtStatus::OBJECT_NAME_INVALID.into());
        }
        if target.is_here() {
            return Err(NtStatus::OBJECT_NAME_COLLISION.into());
        }
        Ok(Self {
            server: Arc::clone(&request.conn.server),
            open: Arc::clone(open),
            target,
            replace: info.flags.contains(RenameFlags::REPLACE_IF_EXISTS),
        })
    }

    /// The target of an open with POSIX semantics is named as its files are.
    fn check_posix(request: &Request<'_>, open: &Arc<Open>, info: &RenameInfo<'_>) -> Result<Self, Failure> {
        let target = to_path(&open.file()?.share, &parse_posix_path(info.name)?)?;
        if target.is_here() {
            return Err(NtStatus::OBJECT_NAME_COLLISION.into());
        }
        let replace = info.flags.contains(RenameFlags::REPLACE_IF_EXISTS);
        Ok(Self { server: Arc::clone(&request.conn.server), open: Arc::clone(open), target, replace })
    }

    fn rename(&self) -> Result<(), Failure> {
        let file = self.open.file()?;
        file.claim.check_remove()?;
        if stream::any_open() {
            // A file does not move while a stream of it is open.
            let open = |key: &String| self.server.table.open_count(stream::id(file.node.id(), key)) > 0;
            if stream::keys(&*file.node)?.iter().any(open) {
                return Err(NtStatus::ACCESS_DENIED.into());
            }
        }
        let backend = &file.share.backend;
        let root = backend.root();
        let from = file.path()?;
        if from.is_here() {
            return Err(NtStatus::ACCESS_DENIED.into()); // the share itself
        }
        if !file.posix && file.is_directory() && self.server.has_open_below(&file.share, &from) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        let (to, taken) = self.spell_target(file, &from)?;
        // The directory is opened before names are compared, as Windows does it.
        self.check_parent(file, &to)?;
        if to == from {
            return Ok(());
        }
        if let Some(parent) = to.parent() {
            let attr = backend.attr_at(&file.cred, &*root, &parent, Wait::Allowed)?;
            self.server.table.check_enter(attr.id)?;
        }
        if file.is_directory() && is_below(&to, &from) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        // Another client may meanwhile have moved the object and put something else in its place.
        let only = file.link().map_or(file.node.id(), |(_, id)| *id);
        let same_object = |path: &Path| {
            let attr = backend.attr_at(&file.cred, &*root, path, Wait::Allowed);
            attr.is_ok_and(|attr| attr.id == file.node.id())
        };
        if let Some(taken) = taken.filter(|taken| *taken != from && !same_object(taken)) {
            let _nobody_opens_it = self.check_replace(file, &taken)?;
            backend.rename_only(&file.cred, (&*root, &from), (&*root, &taken), Rename::Replace, only)?;
            // Spelled as the client wants it, in a second step: the first one must replace what was there.
            if taken != to {
                backend.rename(&file.cred, (&*root, &taken), (&*root, &to), Rename::NoReplace)?;
            }
        } else {
            backend.rename_only(&file.cred, (&*root, &from), (&*root, &to), Rename::NoReplace, only)?;
        }
        if file.link().is_none()
            && !file.posix
            && let Err(error) = mark_archive(&**file.base(), &file.cred)
        {
            tracing::debug!(%error, "the ARCHIVE attribute was not set");
        }
        self.server.has_moved(&file.share, &from, &to);
        tell_renamed(file, &from, &to);
        *file.name.lock() = to.last().map(Name::as_bytes).unwrap_or_default().into();
        Ok(())
    }

    /// A rename opens the directory it renames into, to add an entry and letting others read and write it: it must get
    /// along with those who have that directory open (MS-FSA 2.1.5.15.11).
    fn check_parent(&self, file: &FileOpen, to: &Path) -> Result<(), Failure> {
        let backend = &file.share.backend;
        let parent = to.parent().unwrap_or_else(Path::here);
        let attr = backend.attr_at(&file.cred, &*backend.root(), &parent, Wait::Allowed)?;
        let mut open = OpenRequest::new(attr.id, AccessKinds::WRITE, ShareKinds::READ | ShareKinds::WRITE);
        open.momentary = true;
        let now = coherence::Instant(self.server.env.clock.monotonic_ms());
        self.server.table.open(now, &open)?; // and closes it again
        Ok(())
    }

    fn link(&self) -> Result<(), Failure> {
        let file = self.open.file()?;
        let backend = &file.share.backend;
        let root = backend.root();
        let (to, taken) = self.spell_target(file, &Path::here())?;
        match taken {
            None => backend.link(&file.cred, &*file.node, &*root, &to)?,
            Some(taken) => {
                let _nobody_opens_it = self.check_replace(file, &taken)?;
                self.replace_by_link(file, &taken, &to)?;
            }
        }
        file.tell_name(NotifyAction::Added, &to);
        Ok(())
    }

    /// The link is made beside what it replaces and then moved onto it: when it cannot be made, nothing is lost.
    fn replace_by_link(&self, file: &FileOpen, taken: &Path, to: &Path) -> Result<(), Failure> {
        let backend = &file.share.backend;
        let root = backend.root();
        let name = format!(".longshore-{:016x}", self.open.handle.persistent);
        let name = Name::new(name.as_bytes()).map_err(|_| NtStatus::INTERNAL_ERROR)?;
        let beside = taken.parent().unwrap_or_default().join(name);
        backend.link(&file.cred, &*file.node, &*root, &beside)?;
        let moved = backend.rename(&file.cred, (&*root, &beside), (&*root, taken), Rename::Replace);
        if let Err(error) = moved {
            backend.remove(&file.cred, &*root, &beside, Some(file.node.id()))?;
            return Err(error.into());
        }
        if taken != to {
            backend.rename(&file.cred, (&*root, taken), (&*root, to), Rename::NoReplace)?;
        }
        Ok(())
    }

    /// The target with its directories as they are spelled, and the entry that has that name now, if any.
    fn spell_target(&self, file: &FileOpen, from: &Path) -> Result<(Path, Option<Path>), Failure> {
        let not_a_path = |error: VfsError| match error {
            VfsError::NotFound | VfsError::NotDirectory => NtStatus::OBJECT_PATH_NOT_FOUND.into(),
            error => Failure::from(error),
        };
        if file.share.options.case_sensitive || file.posix {
            let backend = &file.share.backend;
            let taken = backend.attr_at(&file.cred, &*backend.root(), &self.target, Wait::Allowed).is_ok();
            return Ok((self.target.clone(), taken.then(|| self.target.clone())));
        }
        let to = file.share.spell_parent(&file.cred, &self.target, Wait::Allowed).map_err(not_a_path)?;
        match file.share.spell(&file.cred, &to, Wait::Allowed) {
            // Only the case of the object's own name changes.
            Ok(found) if found == *from => Ok((to, None)),
            Ok(found) => Ok((to, Some(found))),
            Err(VfsError::NotFound) => Ok((to, None)),
            Err(error) => Err(not_a_path(error)),
        }
    }

    /// Whether what has the target's name may be replaced: a file that is not open and not read-only. While the claim
    /// lives nobody opens it: who did would write to a file that has no name any more.
    fn check_replace(&self, file: &FileOpen, taken: &Path) -> Result<Option<OpenClaim>, Failure> {
        if !self.replace {
            return Err(NtStatus::OBJECT_NAME_COLLISION.into());
        }
        if file.posix {
            return Ok(None); // rename(2) decides, and what is open lives on without a name
        }
        let backend = &file.share.backend;
        let how = vfs::OpenHow {
            access: vfs::Access::empty(),
            disposition: vfs::Disposition::Open,
            kind: vfs::WantKind::Any,
            follow: false,
            mode: 0,
        };
        let there = backend.open(&file.cred, &*backend.root(), taken, &how, Wait::Allowed)?;
        let stored = FileAttributes::from_bits_retain(read_dos(&*there.node)?.attributes.unwrap_or(0));
        let is_directory = there.attr.kind == vfs::FileKind::Directory;
        let is_open = self.server.table.open_count(there.attr.id) > 0;
        let alone = OpenRequest::new(there.attr.id, AccessKinds::READ | AccessKinds::WRITE, ShareKinds::empty());
        let now = coherence::Instant(self.server.env.clock.monotonic_ms());
        let claim = self.server.table.open(now, &alone).ok().and_then(coherence::Outcome::done);
        if is_directory || file.is_directory() || is_open || stored.contains(FileAttributes::READONLY) {
            return Err(NtStatus::ACCESS_DENIED.into());
        }
        Ok(Some(claim.ok_or(NtStatus::ACCESS_DENIED)?.claim))
    }
}

/// Tells who watches.
fn tell_renamed(file: &FileOpen, from: &Path, to: &Path) {
    let watchers = &file.share.watchers;
    if !watchers.any() {
        return;
    }
    let is_directory = file.is_directory() && file.link().is_none();
    witness::renamed(watchers, from, to, is_directory);
}

fn is_below(path: &Path, ancestor: &Path) -> bool {
    let prefix = ancestor.as_bytes();
    path.as_bytes().strip_prefix(prefix).is_some_and(|rest| rest.first() == Some(&b'/'))
}
