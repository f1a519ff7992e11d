//! What a connection needs from outside: time, chance, threads, memory. All of it is a seam.

use std::sync::Arc;

use smb_wire::fscc::FileTime;
use smb_wire::smb2::NetworkInterface;
use vfs::{BufPool, Executor, PipePool, Timestamp};

/// Time, as the server sees it.
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// Milliseconds since some point, never going back.
    fn monotonic_ms(&self) -> u64;
}

/// Fills its argument with bytes nobody can guess.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// What all connections of a server share.
#[derive(Clone)]
pub struct Env {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Fills its argument with bytes nobody can guess.
    pub random: Random,
    /// Where the server can be reached. May wait.
    pub interfaces: Arc<dyn Fn() -> Vec<NetworkInterface> + Send + Sync>,
}

impl Env {
    /// The wall clock as FILETIME.
    pub fn filetime(&self) -> u64 {
        let now = self.clock.now();
        FileTime::from_unix(now.secs, now.nanos).0
    }

    /// `N` bytes nobody can guess.
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.random)(&mut bytes);
        bytes
    }
}

/// What a connection gets from the thread it lives on.
#[derive(Clone)]
pub struct Shard {
    /// Buffers.
    pub pool: BufPool,
    /// Pipes for the page path; `None` serves everything by copying.
    pub pipes: Option<Arc<dyn PipePool>>,
    /// Threads for work that may wait.
    pub executor: Arc<dyn Executor>,
    /// How many of those threads may usefully run beside this one now: 0 keeps writes inline.
    pub idle_cores: Arc<dyn Fn() -> usize + Send + Sync>,
    /// This shard's counts of paths taken.
    pub counters: Arc<crate::PathCounters>,
}
