//! What a server is doing, for people who ask: its NFSv4 clients, as they are now. Nothing on a call's way comes here.

use crate::config::UserId;
use crate::nfs4::state::client::{Client, Family, Standing};
use crate::server::Server;

/// One NFSv4 client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// The number the server gave it.
    pub number: u32,
    /// What it calls itself. From the wire: not to be shown as it is.
    pub name: String,
    /// "4.0", or "4.1+" for one with sessions.
    pub version: &'static str,
    /// As which user it came, unless with Kerberos.
    pub uid: Option<u32>,
    /// It has shown that it has its id.
    pub confirmed: bool,
    /// All it held is lost: it was silent for too long when somebody minded.
    pub expired: bool,
    /// How long it has not been heard of.
    pub silent_ms: u64,
    /// Its sessions (4.1).
    pub sessions: usize,
    /// Opens.
    pub opens: usize,
    /// Owners of byte-range locks.
    pub lock_owners: usize,
    /// Delegations.
    pub delegations: usize,
}

impl Server {
    /// All NFSv4 clients, in the order they came in.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let now_ms = self.state.now_ms();
        let mut clients: Vec<_> = self.state.clients().iter().map(|client| info(client, now_ms)).collect();
        clients.sort_by_key(|client| client.number);
        clients
    }

    /// The longest an NFSv4 client may be silent, in milliseconds.
    pub fn lease_ms(&self) -> u64 {
        self.state.lease_ms
    }

    /// Delegations that clients were asked to give back, since the start.
    pub fn recalls(&self) -> u64 {
        self.state.recalls()
    }

    /// What hosts say they have mounted over NFSv3 (MOUNT's DUMP): the host and the path.
    pub fn mounts(&self) -> Vec<(std::net::IpAddr, String)> {
        let mounts = self.mounts.lock();
        mounts.iter().map(|(host, path)| (*host, String::from_utf8_lossy(path).into_owned())).collect()
    }
}

fn info(client: &Client, now_ms: u64) -> ClientInfo {
    let holdings = client.holdings.lock();
    let opens = holdings.open_owners.values().map(|owner| owner.open_count.load(std::sync::atomic::Ordering::Relaxed));
    ClientInfo {
        number: client.number.0,
        name: String::from_utf8_lossy(&client.name).into_owned(),
        version: if client.family == Family::Plain { "4.0" } else { "4.1+" },
        uid: client.principal.and_then(|user| match user {
            UserId::Sys(uid) => Some(uid),
            UserId::Kerberos(_) => None,
        }),
        confirmed: client.standing() == Standing::Confirmed,
        expired: client.standing() == Standing::Expired,
        silent_ms: client.silent_ms(now_ms),
        sessions: holdings.sessions.len(),
        opens: opens.sum::<u32>() as usize,
        lock_owners: holdings.lock_owners.len(),
        delegations: holdings.delegations.len(),
    }
}
