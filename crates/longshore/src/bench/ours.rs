//! Our own server, from this very program, as a process that is measured like any other; and its counters, which it logs
//! when asked to (SIGUSR1), so that somebody can check which path its replies took.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use client::Credentials;
use rustix::process::Signal;

use super::load::Stop;
use super::process::{Daemon, Ports, Root, Work, signal};
use crate::failure::Failure;
use crate::password;

/// The share's name.
pub const SHARE: &str = "bench";
const USER: &str = "bench";

/// A running server of one directory.
#[derive(Debug)]
pub struct Ours {
    daemon: Daemon,
    _work: Work,
    smb_port: u16,
    nfs_port: Option<u16>,
    credentials: Credentials,
}

/// What the server counts, by name.
pub type Counts = BTreeMap<String, u64>;

impl Ours {
    /// Starts it. `data_path` is the lines of that section of its configuration.
    pub fn start(
        name: &str,
        directory: &Path,
        data_path: &str,
        with_nfs: bool,
        ports: &mut Ports,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let work = Work::new(&Root::here(), name)?;
        let config = work.write("longshore.toml", &config(directory, data_path)?)?;
        let secret = password::random()?;
        let smb_port = ports.take()?;
        let nfs_port = with_nfs.then(|| ports.take()).transpose()?;
        let program = std::env::current_exe().map_err(|error| Failure::system(format!("where am I: {error}")))?;
        let mut command = Command::new(program);
        command.arg("serve");
        command.arg("--smb").arg(format!("127.0.0.1:{smb_port}"));
        command.arg("--nfs").arg(nfs_port.map_or("off".to_owned(), |port| format!("127.0.0.1:{port}")));
        command.arg("--user").arg(USER).env("LONGSHORE_PASSWORD", secret.as_str());
        command.arg("--config").arg(config).arg("--state").arg(work.inside());
        command.args(["--log-format", "json", "--log-level", "warn,longshore=info"]).env_remove("NOTIFY_SOCKET");
        let mut daemon = Daemon::start(name, command)?;
        daemon.wait_for(smb_port, stop)?;
        let credentials = Credentials::password(USER, &secret);
        Ok(Self { daemon, _work: work, smb_port, nfs_port, credentials })
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        self.daemon.pid()
    }

    /// Where its share is over SMB.
    pub fn smb_url(&self) -> String {
        format!("smb://{USER}@127.0.0.1:{}/{SHARE}", self.smb_port)
    }

    /// Where its export is over NFS, if it serves that.
    pub fn nfs_url(&self, version: &str) -> Option<String> {
        let port = self.nfs_port?;
        Some(format!("nfs://127.0.0.1:{port}/{SHARE}?version={version}{}", mount_port(version, port)))
    }

    /// Who may log in.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// What it has counted since it started.
    pub fn counts(&mut self, stop: &Stop) -> Result<Counts, Failure> {
        self.daemon.forget_lines();
        signal(self.daemon.pid(), Signal::USR1);
        self.daemon.wait_for_line(stop, counts_in)
    }
}

/// One share, for whoever runs this, over both protocols: as open to this machine as its peers are.
fn config(directory: &Path, data_path: &str) -> Result<String, Failure> {
    let failed = |what: String| Failure::usage(format!("{}: {what}", directory.display()));
    let directory = std::fs::canonicalize(directory).map_err(|error| failed(error.to_string()))?;
    let path = directory.to_str().ok_or_else(|| failed("it is not UTF-8".to_owned()))?;
    let path = toml::Value::String(path.to_owned());
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root { "force_user = \"root\"\n" } else { "" };
    Ok(format!(
        "[data-path]\n{data_path}\n[share.{SHARE}]\npath = {path}\n{user}nfs_squash = \"none\"\nnfs_privileged_port = false\n"
    ))
}

/// NFSv3 asks for MOUNT somewhere; later versions know nothing of it.
pub fn mount_port(version: &str, port: u16) -> String {
    if version == "3" { format!("&mountport={port}") } else { String::new() }
}

/// The counters in a line of the log, if it has any.
fn counts_in(line: &str) -> Option<Counts> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let pair = |pair: &str| Some((pair.split_once('=')?.0.to_owned(), pair.split_once('=')?.1.parse().ok()?));
    line.get("counts")?.as_str()?.split(' ').map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_a_log() {
        let line = r#"{"timestamp":"t","level":"INFO","message":"counters","connections":1,"counts":"accepted=3 read_pages=17"}"#;
        let counts = counts_in(line).unwrap();
        assert_eq!((counts["accepted"], counts["read_pages"]), (3, 17));
        for other in ["", "{}", r#"{"counts":3}"#, r#"{"counts":"a=b"}"#, "counts=\"a=1\""] {
            assert_eq!(counts_in(other), None, "{other}");
        }
    }

    #[test]
    fn a_configuration_has_the_directory_whatever_its_name() {
        let odd = tempfile::tempdir().unwrap();
        let odd = odd.path().join("a \"b\" \\c");
        std::fs::create_dir(&odd).unwrap();
        let config: toml::Table = config(&odd, "page_read_bytes = \"off\"").unwrap().parse().unwrap();
        assert_eq!(config["share"][SHARE]["path"].as_str(), std::fs::canonicalize(&odd).unwrap().to_str());
        assert_eq!(config["data-path"]["page_read_bytes"].as_str(), Some("off"));
        assert!(super::config(Path::new("/no/such"), "").is_err());
    }

    #[test]
    fn only_nfs_3_is_told_where_mount_is() {
        assert_eq!([mount_port("3", 9), mount_port("4.2", 9)], ["&mountport=9", ""]);
    }
}
