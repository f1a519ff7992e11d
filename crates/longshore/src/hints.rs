//! The lines that mount a share from each kind of client, ready to be pasted. `serve` prints them to standard output and
//! never to a log, since they may hold the password made for the run.

use std::fmt::Write;
use std::net::IpAddr;

use crate::listen::SMB_PORT;

/// What the lines are about.
pub struct Hints<'a> {
    /// The server, as clients reach it.
    pub host: IpAddr,
    /// Its port.
    pub port: u16,
    /// The shares; there is at least one.
    pub shares: &'a [&'a str],
    /// Who logs in.
    pub user: &'a str,
    /// The password, if it is to be shown.
    pub password: Option<&'a str>,
}

/// The lines that mount a share over NFS; the ports are named, so that no portmapper is needed.
pub fn nfs_text(host: IpAddr, port: u16, share: &str) -> String {
    let host = match host {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let source = quoted_if(&format!("{host}:/{share}"), '\'');
    let ports = format!("port={port},mountport={port}");
    format!(
        "  {:<10} sudo mount -t nfs -o vers=4.2,port={port} {source} /mnt\n  {:<10} sudo mount -t nfs -o vers=3,tcp,{ports},nolocks,resvport {source} /Volumes/mnt\n",
        "NFS, Linux", "NFS, macOS"
    )
}

impl Hints<'_> {
    /// The lines, for the first share.
    pub fn text(&self) -> String {
        let Some((share, others)) = self.shares.split_first() else { return String::new() };
        let mut text = String::new();
        let login = match self.password {
            Some(password) => format!("Log in as {} with the password {password} (made for this run only).", self.user),
            None => format!("Log in as {}.", self.user),
        };
        let reach =
            if self.host.is_loopback() { " Only this machine can connect; --public lets others in." } else { "" };
        let _ = writeln!(text, "{login}{reach}\n");
        for (client, line) in [
            ("Windows", self.windows(share)),
            ("macOS", self.mac(share)),
            ("Linux", self.linux(share)),
            ("smbclient", self.smbclient(share)),
        ] {
            let _ = writeln!(text, "  {client:<10} {line}");
        }
        if self.port != SMB_PORT {
            let _ = writeln!(
                text,
                "\n  Windows takes a port from 11 24H2 and Server 2025 on; Explorer by itself, and older ones, only 445."
            );
        }
        if !others.is_empty() {
            let _ = writeln!(text, "\n  The same with {} in place of {share}.", others.join(", "));
        }
        text
    }

    fn windows(&self, share: &str) -> String {
        let host = match self.host {
            IpAddr::V4(ip) => ip.to_string(),
            // A UNC path holds no colon.
            IpAddr::V6(ip) => format!("{}.ipv6-literal.net", ip.to_string().replace(':', "-")),
        };
        let port = if self.port == SMB_PORT { String::new() } else { format!(" /tcpport:{}", self.port) };
        let path = quoted_if(&format!(r"\\{host}\{share}"), '"');
        format!("net use Z: {path} /user:{} {}{port}", quoted_if(self.user, '"'), self.password.unwrap_or("*"))
    }

    fn mac(&self, share: &str) -> String {
        let password = self.password.map(|p| format!(":{}", percent(p))).unwrap_or_default();
        let host = match self.host {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let port = if self.port == SMB_PORT { String::new() } else { format!(":{}", self.port) };
        format!("open 'smb://{}{password}@{host}{port}/{}'", percent(self.user), percent(share))
    }

    fn linux(&self, share: &str) -> String {
        let password = self.password.map(|p| format!(",password={p}")).unwrap_or_default();
        let port = if self.port == SMB_PORT { String::new() } else { format!("port={},", self.port) };
        let options = quoted_if(&format!("{port}username={}{password}", self.user), '\'');
        format!("sudo mount -t cifs {} /mnt -o {options},uid=$(id -u)", quoted_if(&self.unix_path(share), '\''))
    }

    fn smbclient(&self, share: &str) -> String {
        let password = self.password.map(|p| format!("%{p}")).unwrap_or_default();
        let port = if self.port == SMB_PORT { String::new() } else { format!(" -p {}", self.port) };
        format!("smbclient{port} -U '{}{password}' {}", self.user, quoted_if(&self.unix_path(share), '\''))
    }

    fn unix_path(&self, share: &str) -> String {
        format!("//{}/{share}", self.host)
    }
}

/// In quotes where a shell would take it apart.
fn quoted_if(word: &str, quote: char) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./\\:=,@%[]".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("{quote}{word}{quote}") }
}

/// As a part of a URL (RFC 3986 2.1).
fn percent(word: &str) -> String {
    word.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => text.push(byte.into()),
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints<'a>(host: &str, port: u16, shares: &'a [&'a str], password: Option<&'a str>) -> Hints<'a> {
        Hints { host: host.parse().unwrap(), port, shares, user: "anna", password }
    }

    #[test]
    fn each_client_gets_its_line_with_port_and_password() {
        let text = hints("192.0.2.7", 4450, &["docs", "music"], Some("pw")).text();
        for line in [
            r"net use Z: \\192.0.2.7\docs /user:anna pw /tcpport:4450",
            "open 'smb://anna:pw@192.0.2.7:4450/docs'",
            "sudo mount -t cifs //192.0.2.7/docs /mnt -o port=4450,username=anna,password=pw,uid=$(id -u)",
            "smbclient -p 4450 -U 'anna%pw' //192.0.2.7/docs",
            "The same with music",
            "24H2",
        ] {
            assert!(text.contains(line), "{line}\nis not in\n{text}");
        }
    }

    #[test]
    fn port_445_and_a_password_of_ones_own_are_left_out() {
        let text = hints("192.0.2.7", 445, &["docs"], None).text();
        assert!(text.contains(r"net use Z: \\192.0.2.7\docs /user:anna *"), "{text}");
        assert!(text.contains("open 'smb://anna@192.0.2.7/docs'"), "{text}");
        assert!(!text.contains("445") && !text.contains("port"), "{text}");
    }

    #[test]
    fn names_that_need_it_are_quoted() {
        let text = hints("::1", 4450, &["my docs"], None).text();
        assert!(text.contains("'//::1/my docs'") && text.contains("[::1]:4450/my%20docs"), "{text}");
        assert!(text.contains(r#""\\--1.ipv6-literal.net\my docs""#) && text.contains("Only this machine"), "{text}");
    }

    #[test]
    fn nfs_lines_name_the_ports() {
        let text = nfs_text("192.0.2.7".parse().unwrap(), 2050, "my docs");
        assert!(text.contains("vers=4.2,port=2050 '192.0.2.7:/my docs'"), "{text}");
        assert!(text.contains("vers=3,tcp,port=2050,mountport=2050,nolocks,resvport '192.0.2.7:/my docs'"), "{text}");
        assert!(nfs_text("::1".parse().unwrap(), 2049, "d").contains("[::1]:/d"));
    }
}
