//! What a server is told to export, and to whom. Made by the binary from its configuration; replaced as a whole on
//! reload.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use auth::krb5::Keytab;
use nfs_wire::rpc::{AuthSys, Flavor};
use vfs::{Backend, Capabilities, Cred};

use crate::failure::Done;

/// The server's settings.
pub struct Config {
    /// What is exported.
    pub exports: Vec<Export>,
    /// Largest READ in bytes.
    pub max_read_bytes: u32,
    /// Largest WRITE in bytes.
    pub max_write_bytes: u32,
    /// READs of at least this many bytes take the page path where they can; `None` turns it off.
    pub page_read_bytes: Option<u32>,
    /// WRITEs of at least this many bytes may run beside the connection's thread.
    pub worker_write_bytes: u32,
    /// How long an NFSv4 client may be silent before others may have what it holds. Read when the server starts.
    pub lease_secs: u32,
    /// The server's keys, for Kerberos; without them nobody can come with it.
    pub keytab: Option<Arc<Keytab>>,
    /// How NFSv4 tells owners and groups.
    pub owners: Owners,
}

/// How NFSv4 tells owners and groups (RFC 8881 5.9). A number is always taken, a name of the domain where there is one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// What stands behind the `@` of names; without it there are only numbers.
    pub domain: Option<Arc<str>>,
    /// Who is told names.
    pub shown: Shown,
}

/// Who is told the names of owners; others are told their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    /// Nobody.
    Numbers,
    /// Everybody.
    Names,
    /// Who comes with Kerberos.
    #[default]
    Auto,
}

/// Hosts, by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Everybody.
    Any,
    /// Those whose first bits are the address's.
    Net(IpAddr, u8),
}

impl Network {
    /// `*`, an address, or an address with the length of its prefix; `localhost` is the machine itself, by both families.
    pub fn parse(text: &str) -> Option<Vec<Self>> {
        let own = |ip: IpAddr| Self::Net(ip, if ip.is_ipv4() { 32 } else { 128 });
        match text {
            "*" => return Some(vec![Self::Any]),
            "localhost" => {
                let v4 = Self::Net(IpAddr::from([127, 0, 0, 0]), 8);
                return Some(vec![v4, own(IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1]))]);
            }
            _ => {}
        }
        let Some((ip, bits)) = text.split_once('/') else { return Some(vec![own(text.parse().ok()?)]) };
        let (ip, bits): (IpAddr, u8) = (ip.parse().ok()?, bits.parse().ok()?);
        (bits <= if ip.is_ipv4() { 32 } else { 128 }).then(|| vec![Self::Net(ip, bits)])
    }

    /// Whether the host is one of these.
    pub fn contains(&self, host: IpAddr) -> bool {
        match (self, host.to_canonical()) {
            (Self::Any, _) => true,
            (Self::Net(IpAddr::V4(net), bits), IpAddr::V4(host)) => {
                let differ = u64::from(u32::from(*net) ^ u32::from(host));
                differ >> (32 - u32::from(*bits).min(32)) == 0
            }
            (Self::Net(IpAddr::V6(net), bits), IpAddr::V6(host)) => {
                let differ = u128::from(*net) ^ u128::from(host);
                differ.checked_shr(128 - u32::from(*bits).min(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Net(ip, bits) if *bits == if ip.is_ipv4() { 32 } else { 128 } => write!(f, "{ip}"),
            Self::Net(ip, bits) => write!(f, "{ip}/{bits}"),
        }
    }
}

/// Who becomes the anonymous user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// User 0 and group 0.
    #[default]
    Root,
    /// Everybody.
    All,
    /// Nobody but those who do not say who they are.
    None,
}

/// How calls show who makes them, as exports and clients name it (RFC 2623 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Sec {
    /// The client says so.
    #[default]
    Sys,
    /// Kerberos.
    Krb5,
    /// Kerberos, and nobody has changed the call or the answer.
    Krb5i,
    /// The same, and nobody has read them.
    Krb5p,
}

impl Sec {
    /// All of them, the weakest first.
    pub const ALL: [Self; 4] = [Self::Sys, Self::Krb5, Self::Krb5i, Self::Krb5p];

    /// Its number in lists.
    pub fn flavor(self) -> Flavor {
        match self {
            Self::Sys => Flavor::SYS,
            Self::Krb5 => Flavor::KRB5,
            Self::Krb5i => Flavor::KRB5I,
            Self::Krb5p => Flavor::KRB5P,
        }
    }
}

/// How a directory is exported.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Who may mount it.
    pub clients: Vec<Network>,
    /// Who of them may not change anything.
    pub read_only_clients: Vec<Network>,
    /// Who becomes the anonymous user.
    pub squash: Squash,
    /// The anonymous user.
    pub anon: Cred,
    /// Calls must come from a port below 1024, which only the client's superuser has: others could call themselves
    /// anybody.
    pub privileged_port: bool,
    /// A user's supplementary groups are those this machine knows, not those the call names.
    pub server_groups: bool,
    /// What calls must come with, the preferred first.
    pub sec: Vec<Sec>,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            clients: Network::parse("localhost").unwrap_or_default(),
            read_only_clients: Vec::new(),
            squash: Squash::Root,
            anon: Cred { uid: 65534, gid: 65534, groups: Arc::from([]) },
            privileged_port: true,
            server_groups: false,
            sec: vec![Sec::Sys],
        }
    }
}

/// One exported directory.
#[derive(Clone)]
pub struct Export {
    /// Its name; clients mount `/name`.
    pub name: String,
    /// What it shows.
    pub backend: Arc<dyn Backend>,
    /// How.
    pub options: ExportOptions,
    /// Who is told of what is changed through it.
    pub witness: Option<Arc<dyn vfs::Witness>>,
}

/// What a host may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Change things.
    pub write: bool,
}

impl Export {
    /// What `peer` may; `None` when nothing. Whoever shows who it is may come from any port.
    pub(crate) fn admit(&self, peer: SocketAddr, sec: Sec) -> Option<Rights> {
        let options = &self.options;
        let listed = |networks: &[Network]| networks.iter().any(|n| n.contains(peer.ip()));
        let read_only = listed(&options.read_only_clients);
        let doubtful = sec == Sec::Sys && self.is_claim_doubtful(peer) && self.takes_claims();
        if doubtful || !(read_only || listed(&options.clients)) {
            return None;
        }
        let fixed = options.read_only || self.backend.capabilities().contains(Capabilities::READ_ONLY);
        Some(Rights { write: !read_only && !fixed })
    }

    /// Whether any user of the peer's may have called, in another's name.
    pub(crate) fn is_claim_doubtful(&self, peer: SocketAddr) -> bool {
        self.options.privileged_port && peer.port() >= 1024
    }

    /// Where nobody's word is taken, that is what those are told who give it.
    fn takes_claims(&self) -> bool {
        self.options.sec.contains(&Sec::Sys)
    }

    /// Whether the host, from whatever port, may know of the export.
    pub(crate) fn is_shown_to(&self, host: IpAddr) -> bool {
        self.options.clients.iter().chain(&self.options.read_only_clients).any(|n| n.contains(host))
    }

    /// As whom a caller acts whose own word is taken for it.
    fn claimed(&self, caller: &Caller) -> Cred {
        let (squash, anon) = (self.options.squash, &self.options.anon);
        match &caller.cred {
            None => anon.clone(),
            Some(_) if squash == Squash::All => anon.clone(),
            Some(cred) if squash == Squash::None => cred.clone(),
            Some(cred) if cred.uid == 0 => anon.clone(),
            Some(cred) => {
                let group = |gid: u32| if gid == 0 { anon.gid } else { gid };
                let groups = match cred.groups.contains(&0) {
                    true => cred.groups.iter().copied().map(group).collect(),
                    false => Arc::clone(&cred.groups),
                };
                Cred { uid: cred.uid, gid: group(cred.gid), groups }
            }
        }
    }
}

/// Who calls: nobody in particular, or a user and groups, as the call says or as it has shown.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Caller {
    pub cred: Option<Cred>,
    /// How.
    pub sec: Sec,
    /// As whom it counts where clients are told apart.
    pub user: Option<UserId>,
}

/// What tells users apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserId {
    /// The number it says it has.
    Sys(u32),
    /// Its name with Kerberos, of which this is a digest.
    Kerberos([u8; 16]),
}

impl Export {
    /// As whom a caller acts. The groups of a user may have to be looked up, by way of `groups`; root and the anonymous
    /// user have those they have.
    pub(crate) fn cred(&self, caller: &Caller, groups: impl FnOnce(Cred) -> Done<Cred>) -> Done<Cred> {
        let Some(claimed) = &caller.cred else { return Ok(self.claimed(caller)) };
        // With Kerberos the user's groups are those it has here anyway.
        let said = caller.sec == Sec::Sys;
        if !self.options.server_groups || !said || claimed.uid == 0 || self.options.squash == Squash::All {
            return Ok(self.claimed(caller));
        }
        let found = groups(claimed.clone())?;
        Ok(self.claimed(&Caller { cred: Some(found), ..*caller }))
    }
}

impl Caller {
    /// What AUTH_SYS says.
    pub fn sys(sys: &AuthSys<'_>) -> Self {
        let cred = Cred { uid: sys.uid, gid: sys.gid, groups: sys.gids.iter().collect() };
        Self { user: Some(UserId::Sys(cred.uid)), cred: Some(cred), sec: Sec::Sys }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_and_hosts_found_in_them() {
        let contains =
            |net: &str, host: &str| Network::parse(net).unwrap().iter().any(|n| n.contains(host.parse().unwrap()));
        for (net, host, inside) in [
            ("*", "192.0.2.1", true),
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("0.0.0.0/0", "192.0.2.2", true),
            ("192.0.2.0/24", "::ffff:192.0.2.9", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db9::1", true),
            ("localhost", "127.0.0.1", true),
            ("localhost", "::1", true),
            ("localhost", "192.0.2.1", false),
        ] {
            assert_eq!(contains(net, host), inside, "{host} in {net}");
        }
        for wrong in ["", "a", "1.2.3.4/33", "::/129", "1.2.3", "1.2.3.4/x"] {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Network::parse("10.0.0.0/8").unwrap()[0].to_string(), "10.0.0.0/8");
    }

    #[test]
    fn root_is_squashed_and_others_are_not() {
        let export = |squash| Export {
            name: "a".into(),
            backend: vfs::memfs::MemFs::new(vfs::memfs::ManualClock::at_secs(1)),
            options: ExportOptions { squash, ..ExportOptions::default() },
            witness: None,
        };
        let cred = |uid, gid, groups: &[u32]| Cred { uid, gid, groups: groups.into() };
        let nobody = cred(65534, 65534, &[]);
        for (squash, uid, becomes) in [
            (Squash::Root, 0, nobody.clone()),
            (Squash::Root, 7, cred(7, 65534, &[65534, 5])),
            (Squash::All, 7, nobody.clone()),
            (Squash::None, 0, cred(0, 0, &[0, 5])),
        ] {
            let caller = Caller { cred: Some(cred(uid, 0, &[0, 5])), ..Caller::default() };
            assert_eq!(export(squash).claimed(&caller), becomes, "{squash:?} {uid}");
        }
        assert_eq!(export(Squash::None).claimed(&Caller::default()), nobody);
    }

    #[test]
    fn hosts_and_ports_are_let_in_as_the_export_says() {
        let mut export = Export {
            name: "a".into(),
            backend: vfs::memfs::MemFs::new(vfs::memfs::ManualClock::at_secs(1)),
            options: ExportOptions::default(),
            witness: None,
        };
        let admit = |export: &Export, peer: &str| export.admit(peer.parse().unwrap(), Sec::Sys).map(|r| r.write);
        assert_eq!(admit(&export, "127.0.0.1:1023"), Some(true));
        assert_eq!(admit(&export, "127.0.0.1:1024"), None);
        assert!(export.admit("127.0.0.1:1024".parse().unwrap(), Sec::Krb5).is_some(), "it shows who it is");
        assert_eq!(admit(&export, "192.0.2.1:1"), None);
        export.options.sec = vec![Sec::Krb5];
        assert!(admit(&export, "127.0.0.1:1024").is_some(), "it is told that nobody's word is taken");
        export.options.sec = vec![Sec::Sys];
        export.options.privileged_port = false;
        export.options.read_only_clients = Network::parse("192.0.2.0/24").unwrap();
        assert_eq!(admit(&export, "192.0.2.1:5000"), Some(false));
        export.options.read_only = true;
        assert_eq!(admit(&export, "127.0.0.1:5000"), Some(false));
    }
}
