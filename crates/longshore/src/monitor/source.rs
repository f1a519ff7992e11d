//! Where a running server's [`Snapshot`] comes from: each is taken anew from what the transport and the protocol servers
//! say of themselves. The monitor's threads ask; no shard is stopped for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use smb_server::{PathCounters as SmbCounters, SessionInfo};
use smb_wire::crypto::{Cipher, SigningAlgorithm};
use transport::{ConnectionInfo, Observer};

use super::snapshot::{
    Claims, Connection, Listen, Memory, NfsClient, NfsMount, Numbers, Operation, Session, Share, Snapshot,
};
use crate::assembly::Smb;
use crate::nfs::Nfs;

/// A server that can be asked.
pub struct Source {
    started: Instant,
    transport: Observer,
    smb: Arc<smb_server::Server>,
    smb_counters: Arc<[Arc<SmbCounters>]>,
    nfs: Option<NfsSource>,
    listen: Listen,
    shares: ArcSwap<Vec<Share>>,
}

struct NfsSource {
    server: Arc<nfs_server::Server>,
    counters: Arc<[Arc<nfs_server::PathCounters>]>,
}

impl Source {
    /// One of a server that has just begun to listen.
    pub fn new(transport: Observer, smb: &Smb, nfs: Option<&Nfs>, listen: Listen) -> Self {
        Self {
            started: Instant::now(),
            transport,
            smb: Arc::clone(smb.server()),
            smb_counters: Arc::clone(smb.counters()),
            nfs: nfs.map(|nfs| NfsSource { server: Arc::clone(nfs.server()), counters: Arc::clone(nfs.counters()) }),
            listen,
            shares: ArcSwap::default(),
        }
    }

    /// What is served from now on.
    pub fn serves(&self, shares: Vec<Share>) {
        self.shares.store(Arc::new(shares));
    }

    /// How things are.
    pub fn snapshot(&self) -> Snapshot {
        let nfs = self.nfs.as_ref().map(|nfs| &*nfs.server);
        let nfs_clients = nfs.map(nfs_server::Server::clients).unwrap_or_default();
        let mounts = nfs.map(nfs_server::Server::mounts).unwrap_or_default();
        Snapshot {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            listen: self.listen.clone(),
            shares: self.shares.load().to_vec(),
            connections: self.transport.connections().iter().map(connection).collect(),
            sessions: self.smb.sessions().iter().map(session).collect(),
            claims: self.claims(&nfs_clients),
            nfs_clients: nfs_clients.iter().map(nfs_client).collect(),
            nfs_mounts: mounts.into_iter().map(|(host, path)| NfsMount { host: host.to_string(), path }).collect(),
            nfs_lease_seconds: nfs.map_or(0.0, |nfs| seconds(nfs.lease_ms())),
            memory: self.memory(),
            shards: self.transport.shards(),
            worker_jobs: self.transport.pending_jobs(),
            counters: self.counters(),
            operations: self.operations(),
            frames_per_recv: Numbers::from(&self.transport.frames_per_recv()),
            replies_per_send: Numbers::from(&self.transport.replies_per_send()),
        }
    }

    fn counters(&self) -> std::collections::BTreeMap<String, u64> {
        let mut smb = smb_server::PathTotals::default();
        self.smb_counters.iter().for_each(|shard| smb.add(shard));
        let mut nfs = nfs_server::PathTotals::default();
        let nfs_shards = self.nfs.iter().flat_map(|nfs| nfs.counters.iter());
        nfs_shards.for_each(|shard| nfs.add(shard));
        let recalls = self.nfs.as_ref().map_or(0, |nfs| nfs.server.recalls());
        let all = self.transport.totals().entries().chain(smb.entries()).chain(nfs.entries()).collect::<Vec<_>>();
        all.into_iter().chain([("nfs_recalls", recalls)]).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn operations(&self) -> Vec<Operation> {
        let smb = smb_server::commands(self.smb_counters.iter().map(|shard| &**shard));
        let nfs = self.nfs.iter().flat_map(|nfs| nfs_server::operations(nfs.counters.iter().map(|shard| &**shard)));
        let smb = smb.into_iter().map(|(name, sum)| Operation::new("smb", name, &sum));
        let nfs = nfs.map(|(operation, sum)| Operation::new(operation.protocol, operation.name, &sum));
        smb.chain(nfs).filter(|operation| operation.count > 0).collect()
    }

    fn claims(&self, nfs_clients: &[nfs_server::ClientInfo]) -> Claims {
        let all = self.smb.claims();
        Claims {
            files: all.files,
            opens: all.opens,
            smb_opens: self.smb.open_count(),
            locks: all.locks,
            caching: all.holders,
            delegations: nfs_clients.iter().map(|client| client.delegations).sum(),
        }
    }

    fn memory(&self) -> Memory {
        let buffers = self.transport.buffers();
        Memory {
            resident_bytes: resident_bytes().unwrap_or_default(),
            buffers_used_bytes: buffers.used_bytes as u64,
            buffers_idle_bytes: buffers.idle_bytes as u64,
        }
    }
}

/// From `/proc/self/statm` (proc(5)): its second number is in pages.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn connection(info: &ConnectionInfo) -> Connection {
    Connection {
        protocol: info.protocol.into(),
        peer: shown(info.peer),
        local: shown(info.local),
        age_seconds: info.age.as_secs_f64(),
        requests: info.requests,
        received_bytes: info.received_bytes,
        sent_bytes: info.sent_bytes,
    }
}

/// An IPv4 address that came through an IPv6 listener is shown as what it is.
fn shown(address: SocketAddr) -> String {
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

fn session(info: &SessionInfo) -> Session {
    let signing = match info.signing {
        None => "none",
        Some(SigningAlgorithm::HmacSha256) => "hmac-sha256",
        Some(SigningAlgorithm::AesCmac) => "aes-cmac",
        Some(SigningAlgorithm::AesGmac) => "aes-gmac",
    };
    let cipher = match info.cipher {
        None => "none",
        Some(Cipher::Aes128Ccm) => "aes-128-ccm",
        Some(Cipher::Aes128Gcm) => "aes-128-gcm",
        Some(Cipher::Aes256Ccm) => "aes-256-ccm",
        Some(Cipher::Aes256Gcm) => "aes-256-gcm",
    };
    Session {
        id: info.id,
        user: info.user.clone(),
        guest: info.guest,
        dialect: info.dialect.to_string(),
        signing: signing.into(),
        signing_required: info.signing_required,
        cipher: cipher.into(),
        encrypted: info.encrypted,
        channels: info.channels.iter().map(|peer| shown(*peer)).collect(),
        shares: info.shares.clone(),
        opens: info.opens,
    }
}

fn nfs_client(info: &nfs_server::ClientInfo) -> NfsClient {
    let state = match (info.expired, info.confirmed) {
        (true, _) => "expired",
        (false, true) => "confirmed",
        (false, false) => "unconfirmed",
    };
    NfsClient {
        number: info.number,
        owner: info.name.clone(),
        version: info.version.into(),
        uid: info.uid,
        state: state.into(),
        lease_age_seconds: seconds(info.silent_ms),
        sessions: info.sessions,
        opens: info.opens,
        lock_owners: info.lock_owners,
        delegations: info.delegations,
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}
