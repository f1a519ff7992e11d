//! The configuration file: its sections as types, with the defaults a server without a file has. `plan` reads it and
//! merges the command line into it. Nothing here looks at the system: a file can be read anywhere.

mod sections;
mod table;
mod units;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nfs_server::{Network, Owners, Sec, Squash};
use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::Dialect;

pub use table::Problem;
pub use units::{Listener, is_share_name, parse_listener, parse_metrics};

/// The user and group of nobody in particular.
const NOBODY: u32 = 65534;

/// A whole configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// `[server]`.
    pub server: Server,
    /// `[limits]`.
    pub limits: Limits,
    /// `[log]`.
    pub log: Log,
    /// `[data-path]`.
    pub data_path: DataPath,
    /// `[share.NAME]`, by name.
    pub shares: Vec<Share>,
    /// Where each key that was set stands, by section and key.
    pub lines: Lines,
}

/// Line numbers by section and key.
pub type Lines = HashMap<(String, String), usize>;

/// `[server]`: who the server is and how it protects its connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name; the machine's where there is none.
    pub name: Option<String>,
    /// The workgroup or domain it says it belongs to; its own name where there is none.
    pub workgroup: Option<String>,
    /// Where it listens; nowhere when empty.
    pub smb: Vec<SocketAddr>,
    /// Where it listens for NFS; nowhere when empty.
    pub nfs: Vec<SocketAddr>,
    /// How clients that name no port find NFS.
    pub portmapper: Portmapper,
    /// Where metrics are for whoever collects them.
    pub metrics: Metrics,
    /// Whether that may be where other machines can see them.
    pub metrics_public: bool,
    /// The user database; a place that depends on who runs the server where there is none.
    pub users: Option<PathBuf>,
    /// The server's Kerberos keys, for NFS.
    pub keytab: Option<PathBuf>,
    /// How NFSv4 tells owners and groups.
    pub nfs_owners: Owners,
    /// The directory of what outlives the process; a place that depends on who runs the server where there is none.
    pub state: Option<PathBuf>,
    /// Oldest dialect spoken.
    pub min_dialect: Dialect,
    /// Newest dialect spoken.
    pub max_dialect: Dialect,
    /// Whether clients must sign.
    pub signing_required: bool,
    /// Signing algorithms for 3.1.1, most preferred first.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// Whether messages are encrypted.
    pub encryption: Encryption,
    /// Ciphers, most preferred first.
    pub ciphers: Vec<Cipher>,
    /// Whether unknown users are let in as guests.
    pub guest: bool,
    /// Whether NTLMv1 responses are looked at.
    pub ntlmv1: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            name: None,
            workgroup: None,
            smb: vec![SocketAddr::from(([127, 0, 0, 1], units::UNPRIVILEGED_PORT))],
            nfs: vec![SocketAddr::from(([127, 0, 0, 1], units::NFS_PORT))],
            portmapper: Portmapper::Auto,
            metrics: Metrics::Off,
            metrics_public: false,
            users: None,
            keytab: None,
            nfs_owners: Owners::default(),
            state: None,
            min_dialect: Dialect::V2_0_2,
            max_dialect: Dialect::V3_1_1,
            signing_required: false,
            signing_algorithms: vec![
                SigningAlgorithm::AesGmac,
                SigningAlgorithm::AesCmac,
                SigningAlgorithm::HmacSha256,
            ],
            encryption: Encryption::Offered,
            ciphers: vec![Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm],
            guest: false,
            ntlmv1: false,
        }
    }
}

/// Whether messages are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Never.
    Off,
    /// Where the client or a share asks for it.
    Offered,
    /// Always.
    Required,
}

/// How clients that name no port find NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Portmapper {
    /// Where NFS is for more than this machine: port 111 if it can be had, else rpcbind if it runs.
    Auto,
    /// By port 111, which is the server's.
    Own,
    /// By the machine's rpcbind.
    Register,
    /// They do not.
    Off,
}

/// Where metrics are for whoever collects them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metrics {
    /// Nowhere.
    Off,
    /// At an address.
    At(SocketAddr),
    /// At a socket in the file system.
    Unix(PathBuf),
}

impl std::fmt::Display for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// `[limits]`: what one client, or all, can take of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections from one address.
    pub connections_per_address: usize,
    /// Sessions on one connection.
    pub sessions_per_connection: usize,
    /// Tree connects of one session.
    pub trees_per_session: usize,
    /// Opens of one session.
    pub opens_per_session: usize,
    /// Credits a connection can have outstanding.
    pub credits: u16,
    /// Seconds a connection may take to log in.
    pub handshake_seconds: u64,
    /// Seconds a stop waits for replies in flight.
    pub stop_seconds: u64,
    /// Bytes of replies queued for a client that does not read.
    pub queued_reply_bytes: usize,
    /// Buffers in use of each shard in bytes.
    pub buffers_in_use_bytes: usize,
    /// Idle buffer memory of each shard in bytes.
    pub buffer_pool_bytes: usize,
    /// Largest READ in bytes.
    pub max_read_bytes: u32,
    /// Largest WRITE in bytes.
    pub max_write_bytes: u32,
    /// Largest other transfer in bytes.
    pub max_transact_bytes: u32,
    /// Seconds an NFSv4 client may be silent.
    pub nfs_lease_seconds: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_address: 20_000,
            sessions_per_connection: 64,
            trees_per_session: 1024,
            opens_per_session: 200_000,
            credits: 8192,
            handshake_seconds: 30,
            stop_seconds: 10,
            queued_reply_bytes: 4 << 20,
            buffers_in_use_bytes: 512 << 20,
            buffer_pool_bytes: 64 << 20,
            max_read_bytes: 8 << 20,
            max_write_bytes: 8 << 20,
            max_transact_bytes: 8 << 20,
            nfs_lease_seconds: 90,
        }
    }
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// A level, or filters by module.
    pub level: String,
    /// For whom.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Human }
    }
}

/// For whom logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Human,
    /// One JSON object a line
    Json,
}

/// `[data-path]`: thresholds and threads. What is best depends on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPath {
    /// READs of at least this many bytes move file pages instead of copying; `None` copies always.
    pub page_read_bytes: Option<u32>,
    /// WRITEs of at least this many bytes may run beside the connection's thread.
    pub worker_write_bytes: u32,
    /// Threads that own connections; one for each core where there is none.
    pub shards: Option<u16>,
    /// Most threads for work that may wait.
    pub workers: Option<u16>,
    /// TCP congestion control of accepted connections; the system's where there is none.
    pub congestion_control: Option<String>,
    /// What the kernel may hold of one connection's replies; as it finds best where there is none.
    pub send_buffer_bytes: Option<usize>,
    /// The same of requests.
    pub receive_buffer_bytes: Option<usize>,
    /// Small replies leave at once.
    pub no_delay: bool,
    /// The header of a READ by pages leaves in the same segments as fewer bytes than this; never where there is none.
    pub join_pages_below_bytes: Option<usize>,
    /// Microseconds a receiving call may look for packets at the network card itself; the system's where there are none.
    pub busy_poll_us: Option<u32>,
    /// Small requests of a fast client are let gather.
    pub gather_requests: bool,
    /// A large request wakes the server when all of it is there.
    pub await_large_requests: bool,
}

impl Default for DataPath {
    fn default() -> Self {
        Self {
            page_read_bytes: Some(64 << 10),
            worker_write_bytes: 256 << 10,
            shards: None,
            workers: None,
            congestion_control: Some("cubic".into()),
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            no_delay: true,
            join_pages_below_bytes: Some(1 << 20),
            busy_poll_us: None,
            gather_requests: true,
            await_large_requests: true,
        }
    }
}

/// `[share.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// The directory.
    pub path: PathBuf,
    /// Shown to people who browse.
    pub comment: String,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Not shown to people who browse.
    pub hidden: bool,
    /// Users and `@groups` let in; empty for every user.
    pub users: Vec<String>,
    /// Users and `@groups` let in, but not to write.
    pub read_only_users: Vec<String>,
    /// If not empty: only these users and `@groups` may write.
    pub writers: Vec<String>,
    /// Everything is done as this user.
    pub force_user: Option<String>,
    /// Everything is done as this group.
    pub force_group: Option<String>,
    /// Permission bits a new file can have.
    pub create_mask: u32,
    /// Permission bits a new directory can have.
    pub directory_mask: u32,
    /// Names that do not exist for clients.
    pub veto: Vec<String>,
    /// Names shown as hidden.
    pub hide: Vec<String>,
    /// Whether names that begin with a dot are shown as hidden.
    pub hide_dot_files: bool,
    /// Names that differ in case are different names.
    pub case_sensitive: bool,
    /// Long names have short ones beside them.
    pub short_names: bool,
    /// Requests must be encrypted.
    pub encryption_required: bool,
    /// Handles on it survive the server.
    pub continuously_available: bool,
    /// No device nodes are to be expected.
    pub assume_no_devices: bool,
    /// Hosts that may mount it over NFS.
    pub nfs_clients: Vec<Network>,
    /// Hosts that may mount it over NFS, but not change anything.
    pub nfs_read_only_clients: Vec<Network>,
    /// Whom NFS makes the anonymous user.
    pub nfs_squash: Squash,
    /// The anonymous user's number.
    pub nfs_anon_uid: u32,
    /// The anonymous group's number.
    pub nfs_anon_gid: u32,
    /// NFS calls must come from a port that only the client's superuser has.
    pub nfs_privileged_port: bool,
    /// Users' groups are those this machine knows.
    pub nfs_server_groups: bool,
    /// What NFS calls must come with, the preferred first.
    pub nfs_sec: Vec<Sec>,
}

impl Share {
    /// A share with the defaults.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            comment: String::new(),
            read_only: false,
            hidden: false,
            users: Vec::new(),
            read_only_users: Vec::new(),
            writers: Vec::new(),
            force_user: None,
            force_group: None,
            create_mask: 0o744,
            directory_mask: 0o755,
            veto: Vec::new(),
            hide: Vec::new(),
            hide_dot_files: true,
            case_sensitive: false,
            short_names: true,
            encryption_required: false,
            continuously_available: false,
            assume_no_devices: false,
            nfs_clients: Network::parse("localhost").unwrap_or_default(),
            nfs_read_only_clients: Vec::new(),
            nfs_squash: Squash::Root,
            nfs_anon_uid: NOBODY,
            nfs_anon_gid: NOBODY,
            nfs_privileged_port: true,
            nfs_server_groups: false,
            nfs_sec: vec![Sec::Sys],
        }
    }
}

impl Config {
    /// Reads a text. Relative paths in it are relative to `directory`. All that is wrong is told, not only the first.
    pub fn parse(text: &str, directory: &Path) -> Result<Self, Vec<Problem>> {
        sections::parse(text, directory)
    }

    /// The line on which `key` of `section` was set.
    pub fn line(&self, section: &str, key: &str) -> Option<usize> {
        self.lines.get(&(section.to_owned(), key.to_owned())).copied()
    }
}

#[cfg(test)]
mod tests;
