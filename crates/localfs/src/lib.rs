//! A [`vfs::Backend`] over a POSIX directory. The server assembly makes one [`LocalFs`] per share and hands it to the
//! protocol servers. It never resolves a name above its root, whatever the name or a symbolic link says, and it is one
//! of the two crates that may use `unsafe`: only in `sys.rs`.

mod access;
mod errno;
mod feed;
mod feed_events;
mod fs;
mod handles;
mod hints;
mod identity;
mod known;
mod listing;
mod names;
mod node;
mod node_io;
mod node_range;
mod quota;
mod resolve;
mod spell;
mod stat;
mod sys;
mod xattr;

pub use fs::{LocalFs, LocalFsOptions, OpenRootError};
pub use identity::{heed_limits, run_as_process};
