//! Directories, piece by piece. A piece is one answer of the server; a directory of any size is listed in bounded memory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{At, Error};
use crate::nfs;
use crate::smb;
use crate::stat::Stat;

/// What a directory holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, which is one component of a path and never `.` or `..`.
    pub name: OsString,
    /// What it is like.
    pub stat: Stat,
}

/// A listing under way.
#[derive(Debug)]
pub struct Listing {
    path: PathBuf,
    way: Way,
}

#[derive(Debug)]
pub(crate) enum Way {
    Smb(smb::Listing),
    Nfs(nfs::Listing),
}

impl Listing {
    pub(crate) fn new(path: &Path, way: Way) -> Self {
        Self { path: path.into(), way }
    }

    /// The next entries; `None` when there are no more. A piece may be empty.
    pub async fn next_batch(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let batch = match &mut self.way {
            Way::Smb(listing) => listing.next_batch().await,
            Way::Nfs(listing) => listing.next_batch().await,
        };
        batch.at("list", &self.path)
    }
}
