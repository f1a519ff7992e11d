//! `smb://[domain;]user@host:port/share/path` and `nfs://host:port/export/path?version=4.2`, taken apart. It must never
//! hold a password: one in the URL is refused, for URLs end up in histories and logs.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The port of SMB over TCP.
const SMB_PORT: u16 = 445;
/// The port of NFS.
const NFS_PORT: u16 = 2049;

/// What is spoken with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// SMB 2 or 3; which, the two find out.
    Smb,
    /// NFS of one version, or the best both have.
    Nfs(Option<NfsVersion>),
}

/// A version of NFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NfsVersion {
    /// RFC 1813.
    V3,
    /// RFC 7530.
    V4_0,
    /// RFC 8881.
    V4_1,
    /// RFC 7862.
    V4_2,
}

impl NfsVersion {
    /// Every version, the oldest first.
    pub const ALL: [Self; 4] = [Self::V3, Self::V4_0, Self::V4_1, Self::V4_2];

    /// As it is written in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4_0 => "4.0",
            Self::V4_1 => "4.1",
            Self::V4_2 => "4.2",
        }
    }
}

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    protocol: Protocol,
    mount_port: Option<u16>,
    lock_port: Option<u16>,
    domain: String,
    user: String,
    host: String,
    port: u16,
    share: String,
    path: PathBuf,
}

impl Url {
    /// The root of a share on the port SMB has.
    pub fn new(host: &str, share: &str) -> Self {
        Self {
            protocol: Protocol::Smb,
            mount_port: None,
            lock_port: None,
            domain: String::new(),
            user: String::new(),
            host: host.into(),
            port: SMB_PORT,
            share: share.into(),
            path: PathBuf::new(),
        }
    }

    /// The root of an export on the port NFS has.
    pub fn nfs(host: &str, export: &str, version: Option<NfsVersion>) -> Self {
        Self { protocol: Protocol::Nfs(version), port: NFS_PORT, ..Self::new(host, export) }
    }

    /// Another port.
    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The same share, another path below it.
    #[must_use]
    pub fn with_path(self, path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), ..self }
    }

    /// What is spoken there.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The port that answers MOUNT (NFS 3), where one is given.
    pub fn mount_port(&self) -> Option<u16> {
        self.mount_port
    }

    /// The port that answers NLM, the lock manager beside NFS 3, where one is given.
    pub fn lock_port(&self) -> Option<u16> {
        self.lock_port
    }

    /// The user's domain, empty where none is given.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The user, empty where none is given.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The server's name or address; an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The share; of an NFS server the first component of what it exports.
    pub fn share(&self) -> &str {
        &self.share
    }

    /// The path below the share, without a leading slash; empty for its root.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // A wrong URL is not repeated whole: it may hold a password.
        parse(text).map_err(|why| Error::new("read the URL", Path::new(""), ErrorKind::Input(why)))
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, usual_port) = match self.protocol {
            Protocol::Smb => ("smb", SMB_PORT),
            Protocol::Nfs(_) => ("nfs", NFS_PORT),
        };
        write!(f, "{scheme}://")?;
        if !self.domain.is_empty() {
            write!(f, "{};", escape(self.domain.as_bytes()))?;
        }
        if !self.user.is_empty() {
            write!(f, "{}@", escape(self.user.as_bytes()))?;
        }
        let bracket = self.host.contains(':');
        if bracket {
            write!(f, "[{}]", self.host)?
        } else {
            f.write_str(&self.host)?
        }
        if self.port != usual_port {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "/{}", escape(self.share.as_bytes()))?;
        if !self.path.as_os_str().is_empty() {
            write!(f, "/{}", escape(self.path.as_os_str().as_encoded_bytes()))?;
        }
        let version = if let Protocol::Nfs(Some(version)) = self.protocol { Some(version.as_str()) } else { None };
        let port = |port: Option<u16>| port.map(|port| port.to_string());
        let options = [
            ("version", version.map(String::from)),
            ("mountport", port(self.mount_port)),
            ("nlmport", port(self.lock_port)),
        ];
        let options: Vec<_> =
            options.into_iter().filter_map(|(key, value)| value.map(|value| format!("{key}={value}"))).collect();
        if !options.is_empty() {
            write!(f, "?{}", options.join("&"))?;
        }
        Ok(())
    }
}

/// A part of a URL as it is written there.
fn escape(bytes: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~/!$'()*+,=".contains(b);
    bytes.iter().map(|b| if plain(b) { char::from(*b).to_string() } else { format!("%{b:02X}") }).collect()
}

fn parse(text: &str) -> Result<Url, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("it begins with neither smb:// nor nfs://")?;
    let (protocol, default_port) = match scheme {
        "smb" => (Protocol::Smb, SMB_PORT),
        "nfs" => (Protocol::Nfs(None), NFS_PORT),
        _ => return Err("it begins with neither smb:// nor nfs://"),
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').ok_or("the share is missing: smb://host/share")?;
    let (login, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    if login.contains(':') {
        return Err("a password does not belong into a URL");
    }
    if protocol != Protocol::Smb && !login.is_empty() {
        return Err("NFS knows users by their numbers, not by a name in the URL");
    }
    let (domain, user) = login.split_once(';').unwrap_or(("", login));
    let (host, port) = host_and_port(host_port, default_port)?;
    let (share, path) = path.split_once('/').unwrap_or((path, ""));
    let share = String::from_utf8(unescape(share)?).map_err(|_| "the share's name is not UTF-8")?;
    if share.is_empty() {
        return Err("the share is missing: smb://host/share");
    }
    let text = |part| String::from_utf8(unescape(part)?).map_err(|_| "the user's name is not UTF-8");
    let url = Url {
        protocol,
        mount_port: None,
        lock_port: None,
        domain: text(domain)?,
        user: text(user)?,
        host,
        port,
        share,
        path: path_of(unescape(path.trim_matches('/'))?),
    };
    query.split('&').filter(|part| !part.is_empty()).try_fold(url, with_option)
}

/// `version=`, `mountport=` and `nlmport=`, of NFS.
fn with_option(mut url: Url, option: &str) -> Result<Url, &'static str> {
    const UNKNOWN: &str =
        "an option behind ? that is not known: NFS has version=, mountport= and nlmport= (a ? in a name is %3F)";
    let (key, value) = option.split_once('=').ok_or(UNKNOWN)?;
    match (&mut url.protocol, key) {
        (Protocol::Nfs(version), "version") => {
            let known = NfsVersion::ALL.into_iter().find(|known| known.as_str() == value);
            // libnfs writes "4" for the first of them.
            let known = known.or((value == "4").then_some(NfsVersion::V4_0));
            *version = Some(known.ok_or("the version is none of 3, 4.0, 4.1 and 4.2")?);
        }
        (Protocol::Nfs(_), "mountport") => {
            url.mount_port = Some(value.parse().map_err(|_| "the mount port is not a number")?);
        }
        (Protocol::Nfs(_), "nlmport") => {
            url.lock_port = Some(value.parse().map_err(|_| "the port of the lock manager is not a number")?);
        }
        _ => return Err(UNKNOWN),
    }
    Ok(url)
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

fn host_and_port(text: &str, default_port: u16) -> Result<(String, u16), &'static str> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']').ok_or("the bracket of an address is not closed")?;
            (host, behind.strip_prefix(':').or_else(|| behind.is_empty().then_some("")).ok_or("bad port")?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if host.is_empty() {
        return Err("the host is missing");
    }
    let port = if port.is_empty() { default_port } else { port.parse().map_err(|_| "the port is not a number")? };
    Ok((host.into(), port))
}

/// `%20` and its like (RFC 3986 2.1).
fn unescape(text: &str) -> Result<Vec<u8>, &'static str> {
    const BAD: &str = "a % is not followed by two hexadecimal digits";
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|d| char::from(d).to_digit(16)).ok_or(BAD);
        out.push(u8::try_from(digit()? << 4 | digit()?).map_err(|_| BAD)?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let url: Url = "smb://WORK;anna@server:4450/docs/a%20b/c".parse().unwrap();
        assert_eq!((url.domain(), url.user(), url.host(), url.port()), ("WORK", "anna", "server", 4450));
        assert_eq!((url.share(), url.path()), ("docs", Path::new("a b/c")));
        let url: Url = "smb://[::1]/docs".parse().unwrap();
        assert_eq!((url.host(), url.port(), url.path()), ("::1", 445, Path::new("")));
        let url: Url = "smb://[::1]:99/docs//".parse().unwrap();
        assert_eq!((url.port(), url.path()), (99, Path::new("")));
    }

    #[test]
    fn a_url_is_written_as_it_is_read() {
        for text in [
            "smb://WORK;anna@server:4450/docs/a%20b/c%3F",
            "nfs://[::1]:99/srv/x%25?version=4.1&mountport=1",
            "nfs://h/srv?version=3&nlmport=4045",
            "smb://h/s",
        ] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_nfs_url_has_a_version_and_no_user() {
        let url: Url = "nfs://server/srv/data/x?version=4.2".parse().unwrap();
        assert_eq!((url.protocol(), url.port()), (Protocol::Nfs(Some(NfsVersion::V4_2)), 2049));
        assert_eq!((url.share(), url.path()), ("srv", Path::new("data/x")));
        let url: Url = "nfs://server:99/srv?version=3&mountport=635".parse().unwrap();
        assert_eq!((url.protocol(), url.mount_port()), (Protocol::Nfs(Some(NfsVersion::V3)), Some(635)));
        for bad in ["nfs://anna@h/s", "nfs://h/s?version=2", "nfs://h/s?nolock", "smb://h/s?version=3"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_url_is_said_and_no_password_repeated() {
        for bad in ["ftp://h/s", "smb://h", "smb://h/", "smb:///s", "smb://h:x/s", "smb://[::1/s", "smb://h/s/%4"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
        let error = "smb://anna:hunter2@h/s".parse::<Url>().unwrap_err().to_string();
        assert!(error.contains("password") && !error.contains("hunter2"), "{error}");
    }
}
