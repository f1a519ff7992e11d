//! NFS 3, 4.0, 4.1 and 4.2 from the client's side: what the facade finds when a URL begins with `nfs://`. `rpc` has the connection as a machine and the task that moves its
//! bytes; `v3` and `v4` turn operations into calls; [`Share`] and [`Open`] are what the facade knows.

mod attr;
mod dirty;
mod listing;
mod mount;
mod name;
mod open;
mod pace;
mod portmap;
mod ranges;
pub mod rpc;
mod share;
mod status;
mod v3;
mod v4;
mod watch;

pub(crate) use listing::Listing;
pub(crate) use open::{Open, Reading, Writing};
pub use rpc::{Dial, Dialling, Receiver, Sender};
pub(crate) use share::Share;
pub use status::NfsStatus;
pub(crate) use watch::Watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rpc::Caller;
use rpc::driver::Handle;

/// A file, as the server names it.
pub(crate) type Fh = Arc<[u8]>;

/// The connections to one server, and what all versions need to use them.
#[derive(Debug)]
pub(crate) struct Lines {
    handles: Vec<Handle>,
    turn: AtomicUsize,
    pub caller: Caller,
    pub timeout: Duration,
}

impl Lines {
    pub fn new(handles: Vec<Handle>, caller: Caller, timeout: Duration) -> Self {
        Self { handles, turn: AtomicUsize::new(0), caller, timeout }
    }

    /// The connection whose turn it is.
    pub fn next(&self) -> &Handle {
        let turn = if self.handles.len() > 1 { self.turn.fetch_add(1, Relaxed) } else { 0 };
        &self.handles[turn % self.handles.len()]
    }

    pub fn all(&self) -> &[Handle] {
        &self.handles
    }
}
