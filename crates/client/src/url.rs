//! `smb://[domain;]user@host:port/share/path`, taken apart. It must never hold a password: one in the URL is refused, for
//! URLs end up in histories and logs.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

/// The port of SMB over TCP.
const DEFAULT_PORT: u16 = 445;

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
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
            domain: String::new(),
            user: String::new(),
            host: host.into(),
            port: DEFAULT_PORT,
            share: share.into(),
            path: PathBuf::new(),
        }
    }

    /// Another port.
    #[must_use]
    pub fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
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

    /// The share.
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

fn parse(text: &str) -> Result<Url, &'static str> {
    let rest = text.strip_prefix("smb://").ok_or("it does not begin with smb://")?;
    let (authority, path) = rest.split_once('/').ok_or("the share is missing: smb://host/share")?;
    let (login, host_port) = authority.rsplit_once('@').unwrap_or(("", authority));
    if login.contains(':') {
        return Err("a password does not belong into a URL");
    }
    let (domain, user) = login.split_once(';').unwrap_or(("", login));
    let (host, port) = host_and_port(host_port)?;
    let (share, path) = path.split_once('/').unwrap_or((path, ""));
    let share = String::from_utf8(unescape(share)?).map_err(|_| "the share's name is not UTF-8")?;
    if share.is_empty() {
        return Err("the share is missing: smb://host/share");
    }
    let text = |part| String::from_utf8(unescape(part)?).map_err(|_| "the user's name is not UTF-8");
    Ok(Url {
        domain: text(domain)?,
        user: text(user)?,
        host,
        port,
        share,
        path: path_of(unescape(path.trim_matches('/'))?),
    })
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes).into()
}

fn host_and_port(text: &str) -> Result<(String, u16), &'static str> {
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
    let port = if port.is_empty() { DEFAULT_PORT } else { port.parse().map_err(|_| "the port is not a number")? };
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
    fn what_is_no_url_is_said_and_no_password_repeated() {
        for bad in ["nfs://h/s", "smb://h", "smb://h/", "smb:///s", "smb://h:x/s", "smb://[::1/s", "smb://h/s/%4"] {
            assert!(bad.parse::<Url>().is_err(), "{bad}");
        }
        let error = "smb://anna:hunter2@h/s".parse::<Url>().unwrap_err().to_string();
        assert!(error.contains("password") && !error.contains("hunter2"), "{error}");
    }
}
