//! What a server is told to serve, and how. Made by the binary from its configuration file; replaced as a whole on reload,
//! while connections keep the share objects they have.

use std::collections::HashMap;
use std::sync::Arc;

use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::dcerpc::Accounts;
use smb_wire::fscc::Pattern;
use smb_wire::security::Sid;
use smb_wire::smb2::Dialect;
use vfs::{Backend, Cred};

/// Whether messages are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Never.
    Off,
    /// Where the client or a share asks for it.
    Offered,
    /// Always; a client that cannot is refused.
    Required,
}

/// The server's settings.
pub struct Config {
    /// The name it gives itself, without domain.
    pub server_name: String,
    /// Shares by lower-case name.
    pub shares: HashMap<String, Arc<Share>>,
    /// Oldest dialect spoken.
    pub min_dialect: Dialect,
    /// Newest dialect spoken.
    pub max_dialect: Dialect,
    /// Whether clients must sign.
    pub signing_required: bool,
    /// Whether messages are encrypted.
    pub encryption: Encryption,
    /// Ciphers, most preferred first.
    pub ciphers: Vec<Cipher>,
    /// Signing algorithms for 3.1.1, most preferred first.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// Largest READ in bytes (2.1 and later; 64 KiB for 2.0.2).
    pub max_read_bytes: u32,
    /// Largest WRITE in bytes.
    pub max_write_bytes: u32,
    /// Largest other transfer in bytes.
    pub max_transact_bytes: u32,
    /// Credits a connection can have outstanding.
    pub max_credits: u16,
    /// Sessions on one connection.
    pub max_sessions: usize,
    /// Tree connects of one session.
    pub max_trees: usize,
    /// Opens of one session.
    pub max_opens: usize,
    /// READs of at least this many bytes take the page path where they can; `None` turns it off.
    pub page_read_bytes: Option<u32>,
    /// WRITEs of at least this many bytes may run beside the connection's thread.
    pub worker_write_bytes: u32,
    /// NTLM settings.
    pub ntlm: auth::AcceptorConfig,
    /// The SID of the machine's own domain.
    pub domain: Sid,
    /// Whom `lsarpc` and `samr` know. Asked where it may wait.
    pub accounts: Arc<dyn Accounts>,
}

/// Who may use a share. Names are compared ignoring case.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Users let in at all; empty for every user.
    pub users: Vec<String>,
    /// Users let in, but not to write.
    pub read_only_users: Vec<String>,
    /// If not empty: only these users may write.
    pub writers: Vec<String>,
}

/// File names by DOS patterns (`*`, `?`), compared ignoring case.
#[derive(Debug, Clone, Default)]
pub struct NamePatterns(Vec<Pattern>);

impl NamePatterns {
    /// Patterns as a person writes them; the first that is none is the error.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, &'a str> {
        let parse = |text: &'a str| Pattern::new(&smb_wire::name::utf16le(text)).map_err(|_| text);
        patterns.into_iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the wire name matches any.
    pub fn matches(&self, name_utf16: &[u8]) -> bool {
        self.0.iter().any(|pattern| pattern.matches(name_utf16))
    }

    /// Whether the backend's name matches any.
    pub fn matches_local(&self, name: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let mut wire = Vec::new();
        smb_wire::name::local_to_wire(name, &mut wire);
        self.matches(&wire)
    }
}

/// A share's settings.
#[derive(Debug, Clone)]
pub struct ShareOptions {
    /// Shown to people who browse.
    pub comment: String,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Not shown to people who browse.
    pub hidden: bool,
    /// Requests must be encrypted.
    pub encryption_required: bool,
    /// Opens on it can be persistent: they survive the server (SHI1005, CONTINUOUS_AVAILABILITY). Needs a store.
    pub continuously_available: bool,
    /// Names that differ in case are different names.
    pub case_sensitive: bool,
    /// Long names have made-up short ones beside them (`vfs::shortname`), shown and found.
    pub short_names: bool,
    /// Who may.
    pub access: Access,
    /// Everything is done as this identity.
    pub force_identity: Option<Cred>,
    /// Permission bits a new file can have.
    pub create_mask: u32,
    /// Permission bits a new directory can have.
    pub directory_mask: u32,
    /// Names that do not exist for clients.
    pub veto: NamePatterns,
    /// Names that are shown as hidden.
    pub hide: NamePatterns,
    /// Whether names that begin with a dot are shown as hidden.
    pub hide_dot_files: bool,
}

impl Default for ShareOptions {
    fn default() -> Self {
        Self {
            comment: String::new(),
            read_only: false,
            hidden: false,
            encryption_required: false,
            continuously_available: false,
            case_sensitive: false,
            short_names: true,
            access: Access::default(),
            force_identity: None,
            create_mask: 0o744,
            directory_mask: 0o755,
            veto: NamePatterns::default(),
            hide: NamePatterns::default(),
            hide_dot_files: true,
        }
    }
}

/// One share.
pub struct Share {
    /// Its name as it is shown.
    pub name: String,
    /// What it shows.
    pub backend: Arc<dyn Backend>,
    /// How.
    pub options: ShareOptions,
    /// Its volume's serial number, the same each time.
    pub volume_serial: u32,
    /// Whether its device keeps up with what is written in place; while not, writes go to workers.
    pub(crate) pace: vfs::Pace,
    /// Who watches its directories.
    pub(crate) watchers: Arc<crate::notify::Watchers>,
    /// Where its opens are.
    pub(crate) places: Arc<crate::places::Places>,
    /// Tells who watches what others change.
    pub(crate) teller: std::sync::OnceLock<Arc<dyn vfs::Told>>,
    /// Change times that clients set.
    pub(crate) change_times: crate::change_times::ChangeTimes,
}

impl Share {
    /// A share of `backend`.
    pub fn new(name: impl Into<String>, backend: Arc<dyn Backend>, options: ShareOptions) -> Self {
        let name = name.into();
        // FNV-1a: any stable function of the name does.
        let volume_serial = name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
        Self {
            name,
            backend,
            options,
            volume_serial,
            pace: vfs::Pace::default(),
            watchers: Default::default(),
            places: Default::default(),
            teller: Default::default(),
            change_times: Default::default(),
        }
    }

    /// Whether `user` may connect.
    pub fn admits(&self, user: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|u| u.eq_ignore_ascii_case(user));
        let access = &self.options.access;
        access.users.is_empty() || listed(&access.users) || listed(&access.read_only_users) || listed(&access.writers)
    }

    /// Whether `user` may change anything.
    pub fn lets_write(&self, user: &str) -> bool {
        let listed = |list: &[String]| list.iter().any(|u| u.eq_ignore_ascii_case(user));
        let access = &self.options.access;
        !self.options.read_only
            && !listed(&access.read_only_users)
            && (access.writers.is_empty() || listed(&access.writers))
            && !self.backend.capabilities().contains(vfs::Capabilities::READ_ONLY)
    }
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Share").field("name", &self.name).field("options", &self.options).finish_non_exhaustive()
    }
}
