//! What the current and the saved file handle stand for: an object of an export, or the pseudo root that joins the
//! exports (RFC 8881 7). The operations on handles set them; every other one asks them.

use std::sync::Arc;

use nfs_wire::nfs4::NfsStat4;
use vfs::{Attr, FileKind, Name, VfsError};

use super::failure::Done;
use crate::files::{Cx, Target};
use crate::handle::ExportId;
use crate::server::{Exported, Server};

/// No export has this name: the pseudo root's handles have its number.
const PSEUDO_NAME: &str = "";

/// A file handle, looked up.
#[derive(Clone)]
pub(crate) enum Fh {
    /// The directory that joins the exports.
    Pseudo,
    /// An object of an export.
    Real(Target),
}

impl Fh {
    /// The object of a handle: BADHANDLE for a handle this server did not make, STALE for an object that is gone.
    pub fn of(cx: &Cx, handle: &[u8]) -> Done<Self> {
        // Looking whether it is the pseudo root's costs a signature; most handles are of objects that are kept open.
        if let Some(kept) = cx.kept(handle) {
            return Ok(Self::Real(kept?));
        }
        match cx.server.key.open(handle) {
            Ok((id, _)) if id == pseudo_id(&cx.server) => Ok(Self::Pseudo),
            _ => Ok(Self::Real(cx.found(handle)?)),
        }
    }

    /// The handle's bytes.
    pub fn handle(&self, server: &Server) -> Done<Arc<[u8]>> {
        match self {
            Self::Pseudo => {
                let handle = server.key.seal(&pseudo_id(server), &[]).ok_or(NfsStat4::SERVERFAULT)?;
                Ok(handle.into())
            }
            Self::Real(target) => Ok((&*target.object.handle).into()),
        }
    }

    /// The object, where one is needed that can be read or changed.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Pseudo => None,
            Self::Real(target) => Some(target),
        }
    }

    /// Whether its export takes calls that come as this one does. The pseudo root takes all.
    pub fn is_taken(&self, cx: &Cx) -> bool {
        self.target().is_none_or(|target| cx.is_taken(target))
    }

    /// NOTDIR unless it is a directory, SYMLINK for a symbolic link (RFC 8881 18.13.3).
    pub fn must_be_directory(&self) -> Done<()> {
        let Self::Real(target) = self else { return Ok(()) };
        match target.object.node.kind() {
            FileKind::Directory => Ok(()),
            FileKind::Symlink => Err(NfsStat4::SYMLINK.into()),
            _ => Err(NfsStat4::NOTDIR.into()),
        }
    }
}

fn pseudo_id(server: &Server) -> ExportId {
    server.key.export_id(PSEUDO_NAME)
}

/// The root directory of the export of that name; what the host may not know of is not there.
pub(crate) fn named_root(cx: &Cx, name: Name<'_>) -> Done<Target> {
    let settings = cx.server.settings.load();
    let named = |export: &&Arc<Exported>| export.name.as_bytes() == name.as_bytes() && export.is_shown_to(cx.peer.ip());
    root_of(cx, settings.exports.iter().find(named).ok_or(NfsStat4::NOENT)?)
}

/// The root directory of an export, for a caller it lets in.
pub(crate) fn root_of(cx: &Cx, export: &Arc<Exported>) -> Done<Target> {
    let rights = export.admit(cx.peer, cx.caller.sec).ok_or(NfsStat4::ACCESS)?;
    let node = export.backend.root();
    let name = export.backend.handle_of(&*node)?;
    let object = cx.adopt(export, &name, node)?;
    Ok(Target { object, cred: cx.cred(export)?, rights })
}

/// The object's attributes; STALE when its last name is gone and nobody has it open.
pub(crate) fn attr_of(cx: &Cx, target: &Target) -> Done<Attr> {
    match target.object.node.attr() {
        Ok(attr) if attr.nlink > 0 || cx.server.table.open_count(attr.id) > 0 => Ok(attr),
        Ok(_) | Err(VfsError::Stale) => {
            cx.server.cache.forget(&target.object.handle);
            Err(NfsStat4::STALE.into())
        }
        Err(error) => Err(error.into()),
    }
}
