//! Changes below a directory, as they happen. A [`Watch`] is made by [`Client::watch`](crate::Client::watch).

use std::path::PathBuf;

use crate::error::{At, Error};
use crate::nfs;
use crate::smb;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// To what: a path below the watched directory.
    pub path: PathBuf,
    /// What.
    pub kind: ChangeKind,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It came.
    Added,
    /// It went.
    Removed,
    /// Its data or attributes changed.
    Modified,
    /// It was renamed; this was its name.
    RenamedFrom,
    /// It was renamed; this is its name.
    RenamedTo,
    /// More than the server could remember: the directory is to be listed again.
    Unknown,
}

/// A directory being watched.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    way: Way,
}

#[derive(Debug)]
pub(crate) enum Way {
    Smb(smb::Watch),
    Nfs(nfs::Watch),
}

impl Watch {
    pub(crate) fn new(path: PathBuf, way: Way) -> Self {
        Self { path, way }
    }

    /// Waits for changes, for as long as there are none. An NFS server tells nobody: there the directory is looked
    /// at every second or less often, and what comes and goes in between is not seen. It may be given up and called again: none is lost.
    pub async fn next(&mut self) -> Result<Vec<Change>, Error> {
        let changes = match &mut self.way {
            Way::Smb(watch) => watch.next().await,
            Way::Nfs(watch) => watch.next().await,
        };
        changes.at("watch", &self.path)
    }
}
