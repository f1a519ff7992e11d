//! The backend contract and the words it is written in.
//!
//! A [`Backend`] resolves names below its root, an open [`Node`] reads, writes and describes one object. The protocol
//! servers call them and never see a file system; `localfs` implements them over a POSIX directory and `MemFs` in
//! memory. This crate names no socket, no runtime and no wall clock.

#![forbid(unsafe_code)]

mod attr;
mod backend;
mod buf;
pub mod casefold;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
pub mod dosattrib;
mod error;
mod exec;
pub mod memfs;
pub mod metrics;
mod name;
pub mod ntacl;
mod pace;
mod ranges;
mod reply;
pub mod shortname;
mod start;
mod watch;
mod witness;

pub use attr::{Attr, FileId, FileKind, FsStat, Quota, SetAttr, SetTime, Timestamp};
pub use backend::{
    Access, AccessMask, Backend, Capabilities, Cred, DirEntry, Disposition, MAX_HANDLE_BYTES, Node, OpenHow, Opened,
    Rename, Sync, Wait, WantKind,
};
pub use buf::{Buf, BufPool, Frame, PoolStats};
pub use error::{VfsError, VfsResult};
pub use exec::{Executor, Inline, offload};
pub use name::{Name, NameError, Path};
pub use pace::Pace;
pub use ranges::copy as copy_by_buffer;
pub use reply::{PagePipe, PipePool, Reply};
pub use start::{Parked, Start, in_place};
pub use watch::{Change, Happened, Told, Watching};
pub use witness::{Seen, Witness};
