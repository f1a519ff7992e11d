//! What a connection needs from outside: time, chance, threads, memory. All of it is a seam.

use std::net::SocketAddr;
use std::sync::Arc;

use vfs::{BufPool, Executor, PipePool};

use crate::groups::{Accounts, Groups, Names};
use crate::store::Store;

/// Time, as the server sees it.
pub trait Clock: Send + Sync {
    /// Seconds since 1970, for whoever asks the portmapper.
    fn unix_secs(&self) -> u32;

    /// Milliseconds since some point, never going back.
    fn monotonic_ms(&self) -> u64;

    /// The same in microseconds, where the clock is that fine.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().saturating_mul(1000)
    }
}

/// Fills its argument with bytes nobody can guess.
pub type Random = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Takes the record that answers a call; `None` when none will come.
pub type OnReply = Box<dyn FnOnce(Option<Vec<u8>>) + Send>;

/// Calls clients where they listen: NFSv4.0's callbacks (RFC 7530 16.33), lock managers, status monitors.
pub trait Dialer: Send + Sync {
    /// Sends a record, without its mark, and hands the reply's to `done`, possibly on another thread. Does not wait.
    fn call(&self, to: SocketAddr, record: Vec<u8>, done: OnReply);

    /// The same by a datagram, for lock managers that are nowhere else.
    fn datagram(&self, to: SocketAddr, record: Vec<u8>, done: OnReply);
}

/// What all connections of a server share.
#[derive(Clone)]
pub struct Env {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub random: Random,
    /// Reaches NFSv4.0 clients, which are given no delegations without it, and lock managers.
    pub dialer: Option<Arc<dyn Dialer>>,
    /// Remembers NFSv4 clients over a restart; without it nothing can be reclaimed.
    pub store: Option<Arc<dyn Store>>,
    /// Remembers hosts that hold locks over NFSv3; without it they are not told of a restart.
    pub hosts: Option<Arc<dyn Store>>,
    /// Looks up users' groups, for exports that ask for it.
    pub groups: Option<Arc<dyn Groups>>,
    /// Looks up those who come with Kerberos; without it they are all the anonymous user.
    pub accounts: Option<Arc<dyn Accounts>>,
    /// Knows the names of owners for NFSv4; without it they are numbers.
    pub names: Option<Arc<dyn Names>>,
    /// What this machine is called, for those hosts.
    pub host_name: String,
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
    /// How many cores have nothing to do now. Writes go beside this thread while one more than they take is left to the
    /// rest of the machine.
    pub idle_cores: Arc<dyn Fn() -> usize + Send + Sync>,
    /// This shard's counts of paths taken.
    pub counters: Arc<crate::PathCounters>,
}
