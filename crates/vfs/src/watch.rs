//! What others change in directories that somebody watches: programs on the same machine, and servers of other protocols
//! in the same process. A backend finds out and tells a [`Told`]; the server that watches tells its clients. What a
//! server changes itself it knows, and is not told of again.

use std::any::Any;

use crate::FileId;

/// What happened to an entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It came.
    Added,
    /// It went.
    Removed,
    /// It got another name, which [`Change::to`] is.
    Renamed,
    /// Its data were changed.
    Written,
    /// Its attributes were changed.
    Attributes,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// What.
    pub what: Happened,
    /// The entry's path from the backend's root, now or, of one that was renamed, before.
    pub path: &'a [u8],
    /// Its path after a rename.
    pub to: Option<&'a [u8]>,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The directory it is in, or was.
    pub dir: FileId,
    /// Where that directory is.
    pub dir_path: &'a [u8],
}

/// Who is told. Called on any thread; must not wait.
pub trait Told: Send + Sync {
    /// Something happened in a watched directory.
    fn changed(&self, change: &Change<'_>);
    /// More happened than was kept: anything may have changed.
    fn lost(&self);
}

/// A directory that is watched until this is dropped.
pub type Watching = Box<dyn Any + Send + Sync>;
