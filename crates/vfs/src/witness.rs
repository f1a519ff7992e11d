//! Who wants to know what happens in a directory tree: a protocol server that lets clients watch directories is told by
//! the others of what they change. The servers meet here and know nothing more of one another.

use crate::Path;

/// Something that was done to one object of a backend. Paths are relative to the backend's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen<'a> {
    /// It was made, or given a name more.
    Made {
        /// Its name.
        path: &'a Path,
        /// It is a directory.
        directory: bool,
    },
    /// A name was taken away.
    Removed {
        /// The name.
        path: &'a Path,
        /// It was a directory.
        directory: bool,
    },
    /// It was renamed.
    Moved {
        /// Its old name.
        from: &'a Path,
        /// Its new one.
        to: &'a Path,
        /// It is a directory.
        directory: bool,
    },
    /// Its content changed, and perhaps its length.
    Written(&'a Path),
    /// Its attributes changed.
    Changed(&'a Path),
}

/// Is told of changes after they were made. Called from whatever thread made the change; it must not wait.
pub trait Witness: Send + Sync {
    /// Whether anybody is interested: what is not is not worth finding out the path for.
    fn watches(&self) -> bool;

    /// Takes note.
    fn saw(&self, what: Seen<'_>);
}
