//! Telling who watches directories over another protocol what was changed over this one, once it is changed. Called by
//! the procedures and operations that change something; it costs one call while nobody watches.

use vfs::{FileKind, Name, Path, Seen};

use crate::files::{Object, Target};

/// An entry was made in a directory.
pub fn made(dir: &Target, name: Name<'_>, kind: FileKind) {
    let directory = kind == FileKind::Directory;
    at(dir, name, |path| Seen::Made { path, directory });
}

/// An entry of a directory was taken away.
pub fn removed(dir: &Target, name: Name<'_>, kind: FileKind) {
    let directory = kind == FileKind::Directory;
    at(dir, name, |path| Seen::Removed { path, directory });
}

/// An object is gone that was at `path`.
pub fn gone(object: &Object, path: &Path) {
    if let Some(witness) = watching(object) {
        witness.saw(Seen::Removed { path, directory: object.node.kind() == FileKind::Directory });
    }
}

/// An entry has another name.
pub fn moved((from, old): (&Target, Name<'_>), (to, new): (&Target, Name<'_>), kind: FileKind) {
    let Some(witness) = watching(&from.object) else { return };
    if let (Some(from), Some(to)) = (path_in(from, old), path_in(to, new)) {
        witness.saw(Seen::Moved { from: &from, to: &to, directory: kind == FileKind::Directory });
    }
}

/// An object has another content.
pub fn written(object: &Object) {
    whole(object, |path| Seen::Written(path));
}

/// An object has other attributes.
pub fn changed(object: &Object) {
    whole(object, |path| Seen::Changed(path));
}

fn watching(object: &Object) -> Option<&dyn vfs::Witness> {
    object.export.witness.as_deref().filter(|witness| witness.watches())
}

/// Where it is gone nobody watches it any more.
fn path_in(dir: &Target, name: Name<'_>) -> Option<Path> {
    let path = dir.object.export.backend.path_of(&*dir.object.node).ok()?;
    Some(path.join(name))
}

fn at(dir: &Target, name: Name<'_>, what: impl FnOnce(&Path) -> Seen<'_>) {
    if let Some(witness) = watching(&dir.object)
        && let Some(path) = path_in(dir, name)
    {
        witness.saw(what(&path));
    }
}

fn whole(object: &Object, what: impl FnOnce(&Path) -> Seen<'_>) {
    if let Some(witness) = watching(object)
        && let Ok(path) = object.export.backend.path_of(&*object.node)
    {
        witness.saw(what(&path));
    }
}
