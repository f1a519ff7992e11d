//! Looking at a running server from another thread: its counts, its connections, its memory. The shards keep their
//! connections on a list here, which they touch when one begins and ends; what a connection has moved is added to once for
//! each round of receiving and sending.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vfs::metrics::{Distribution, bump};
use vfs::{BufPool, PoolStats};

use crate::{Counters, Totals, Workers};

/// What one connection has moved. Its shard's thread writes it.
#[derive(Debug)]
pub struct Traffic {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) protocol: &'static str,
    pub(crate) since: Instant,
    pub(crate) requests: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

impl Traffic {
    /// Of a connection that has just begun.
    pub(crate) fn new(peer: SocketAddr, local: SocketAddr, protocol: &'static str) -> Self {
        let (requests, received_bytes, sent_bytes) = Default::default();
        Self { peer, local, protocol, since: Instant::now(), requests, received_bytes, sent_bytes }
    }

    pub(crate) fn received(&self, requests: u32, bytes: usize) {
        bump(&self.requests, requests.into());
        bump(&self.received_bytes, bytes as u64);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        bump(&self.sent_bytes, bytes as u64);
    }
}

/// The open connections of one shard.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<HashMap<u64, Arc<Traffic>>>);

/// A connection's place on the list; given back when dropped.
pub(crate) struct Listed {
    number: u64,
    list: Arc<Connections>,
    pub traffic: Arc<Traffic>,
}

impl Connections {
    pub(crate) fn enter(self: &Arc<Self>, number: u64, traffic: Traffic) -> Listed {
        let traffic = Arc::new(traffic);
        self.0.lock().insert(number, Arc::clone(&traffic));
        Listed { number, list: Arc::clone(self), traffic }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.list.0.lock().remove(&self.number);
    }
}

/// What can be seen of one shard.
#[derive(Clone)]
pub(crate) struct Seen {
    pub counters: Arc<Counters>,
    pub connections: Arc<Connections>,
    pub pool: BufPool,
}

/// One connection at the moment it was looked at.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// Who.
    pub peer: SocketAddr,
    /// The address it was made to.
    pub local: SocketAddr,
    /// What its machine calls its protocol.
    pub protocol: &'static str,
    /// How long it has been there.
    pub age: Duration,
    /// Frames received.
    pub requests: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// Sees what a server does.
#[derive(Clone)]
pub struct Observer {
    pub(crate) shards: Arc<[Seen]>,
    pub(crate) workers: Workers,
}

impl Observer {
    /// The counts of all shards, summed.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.shards.iter().for_each(|shard| totals.add(&shard.counters));
        totals
    }

    /// Complete frames of each call that received bytes.
    pub fn frames_per_recv(&self) -> Distribution {
        self.distribution(|counters| &counters.frames_per_recv)
    }

    /// Replies that each call that sent bytes has finished.
    pub fn replies_per_send(&self) -> Distribution {
        self.distribution(|counters| &counters.replies_per_send)
    }

    fn distribution(&self, which: impl Fn(&Counters) -> &vfs::metrics::Histogram) -> Distribution {
        let mut sum = Distribution::default();
        self.shards.iter().for_each(|shard| sum.add(which(&shard.counters)));
        sum
    }

    /// All connections, in no order.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let of = |shard: &Seen| shard.connections.0.lock().values().map(|traffic| info(traffic)).collect::<Vec<_>>();
        self.shards.iter().flat_map(of).collect()
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Buffer memory of all shards.
    pub fn buffers(&self) -> PoolStats {
        self.shards.iter().map(|shard| shard.pool.stats()).fold(PoolStats::default(), |sum, one| PoolStats {
            used_bytes: sum.used_bytes + one.used_bytes,
            idle_bytes: sum.idle_bytes + one.idle_bytes,
        })
    }

    /// Jobs that workers have or will get.
    pub fn pending_jobs(&self) -> usize {
        self.workers.pending()
    }
}

fn info(traffic: &Traffic) -> ConnectionInfo {
    ConnectionInfo {
        peer: traffic.peer,
        local: traffic.local,
        protocol: traffic.protocol,
        age: traffic.since.elapsed(),
        requests: traffic.requests.load(Relaxed),
        received_bytes: traffic.received_bytes.load(Relaxed),
        sent_bytes: traffic.sent_bytes.load(Relaxed),
    }
}
