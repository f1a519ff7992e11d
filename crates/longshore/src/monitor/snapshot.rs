//! What a server tells of itself at one moment: the types of the answer to `GET /status`, which the server writes (`source`)
//! and `status`, `top` and other programs read. Fields may be added; a reader passes over those it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vfs::metrics::{Distribution, OperationTotals};

/// Everything.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The program's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has been running.
    pub uptime_seconds: f64,
    /// Where it listens.
    pub listen: Listen,
    /// What it serves.
    pub shares: Vec<Share>,
    /// Who is connected.
    pub connections: Vec<Connection>,
    /// Who is logged in over SMB.
    pub sessions: Vec<Session>,
    /// Clients of NFSv4.
    pub nfs_clients: Vec<NfsClient>,
    /// What hosts say they have mounted over NFSv3.
    pub nfs_mounts: Vec<NfsMount>,
    /// How long an NFSv4 client may be silent.
    pub nfs_lease_seconds: f64,
    /// What all hold.
    pub claims: Claims,
    /// Its memory.
    pub memory: Memory,
    /// Threads that own connections.
    pub shards: usize,
    /// Jobs that workers have or will get.
    pub worker_jobs: usize,
    /// The counters since the start, named as in the log.
    pub counters: BTreeMap<String, u64>,
    /// Every operation that was asked for since the start.
    pub operations: Vec<Operation>,
    /// Complete frames of each call that received bytes.
    pub frames_per_recv: Numbers,
    /// Replies that each call that sent bytes has finished.
    pub replies_per_send: Numbers,
}

/// Addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listen {
    /// For SMB.
    pub smb: Vec<String>,
    /// For NFS.
    pub nfs: Vec<String>,
    /// For whoever collects metrics.
    pub metrics: Option<String>,
}

/// A share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// The directory.
    pub path: String,
    /// What may be done with it, in words.
    pub access: String,
}

/// A connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connection {
    /// `smb` or `nfs`.
    pub protocol: String,
    /// The client's end.
    pub peer: String,
    /// The server's.
    pub local: String,
    /// How long it has been there.
    pub age_seconds: f64,
    /// Requests received.
    pub requests: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// An SMB session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// Its id.
    pub id: u64,
    /// Who logged in.
    pub user: String,
    /// Without a password.
    pub guest: bool,
    /// The dialect, such as `3.1.1`.
    pub dialect: String,
    /// How messages are signed: `aes-gmac` and so on, or `none`.
    pub signing: String,
    /// Whether they must be.
    pub signing_required: bool,
    /// How messages can be encrypted: `aes-128-gcm` and so on, or `none`.
    pub cipher: String,
    /// Whether they are.
    pub encrypted: bool,
    /// The client's ends of its connections.
    pub channels: Vec<String>,
    /// Shares it is connected to.
    pub shares: Vec<String>,
    /// Files and directories it has open.
    pub opens: usize,
}

/// An NFSv4 client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NfsClient {
    /// The number the server gave it.
    pub number: u32,
    /// What it calls itself.
    pub owner: String,
    /// `4.0` or `4.1+`.
    pub version: String,
    /// As which user it came.
    pub uid: Option<u32>,
    /// `confirmed`, `unconfirmed` or `expired`.
    pub state: String,
    /// How long it has not been heard of.
    pub lease_age_seconds: f64,
    /// Its sessions (4.1).
    pub sessions: usize,
    /// Opens.
    pub opens: usize,
    /// Owners of byte-range locks.
    pub lock_owners: usize,
    /// Delegations.
    pub delegations: usize,
}

/// What a host says it has mounted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NfsMount {
    /// The host.
    pub host: String,
    /// The path.
    pub path: String,
}

/// What is held on files, whatever the protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// Files with any claim.
    pub files: usize,
    /// Opens.
    pub opens: usize,
    /// Of those over SMB, those that wait for their client included; directories and pipes too.
    pub smb_opens: usize,
    /// Byte ranges locked.
    pub locks: usize,
    /// Holders of leases, oplocks and delegations.
    pub caching: usize,
    /// Of those, delegations of NFSv4.
    pub delegations: usize,
}

/// Bytes of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Of the process, in the machine's memory.
    pub resident_bytes: u64,
    /// Buffers at work.
    pub buffers_used_bytes: u64,
    /// Buffers kept for reuse.
    pub buffers_idle_bytes: u64,
}

/// An operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Operation {
    /// `smb`, `nfs3`, `nfs4`, `mount` and so on.
    pub protocol: String,
    /// The command, procedure or operation, in lower case.
    pub name: String,
    /// Answered, failures included.
    pub count: u64,
    /// Failed.
    pub errors: u64,
    /// Nanoseconds from the whole request to its reply at the socket.
    pub latency_ns: Numbers,
}

/// A distribution, with what is mostly asked for worked out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Numbers {
    /// How many.
    pub count: u64,
    /// All of them added up.
    pub sum: u64,
    /// Their mean.
    pub mean: f64,
    /// Half are no larger.
    pub p50: u64,
    /// 99 % are no larger.
    pub p99: u64,
    /// Numbers of buckets and what is in them (`vfs::metrics::Histogram`), so that two moments can be compared.
    pub buckets: Vec<(usize, u64)>,
}

impl From<&Distribution> for Numbers {
    fn from(distribution: &Distribution) -> Self {
        Self {
            count: distribution.count(),
            sum: distribution.sum(),
            mean: distribution.mean().unwrap_or_default(),
            p50: distribution.quantile(0.5).unwrap_or_default(),
            p99: distribution.quantile(0.99).unwrap_or_default(),
            buckets: distribution.filled().collect(),
        }
    }
}

impl Numbers {
    /// The distribution they were taken from.
    pub fn distribution(&self) -> Distribution {
        Distribution::from_filled(self.buckets.iter().copied(), self.sum)
    }
}

impl Operation {
    /// An operation as it is told.
    pub fn new(protocol: &str, name: impl Into<String>, totals: &OperationTotals) -> Self {
        Self {
            protocol: protocol.to_owned(),
            name: name.into(),
            count: totals.count,
            errors: totals.errors,
            latency_ns: Numbers::from(&totals.latency),
        }
    }
}

impl Snapshot {
    /// A counter by its name; 0 for one that is not known.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }
}
