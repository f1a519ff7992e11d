//! Chimera as a peer: a userspace server in C with event loops that poll, for SMB and NFS. One process reads and writes files
//! with plain system calls in its loops, the other with io_uring: which is better depends on the load, and a comparison
//! should have both. They are two because file handles do not tell mounts of one directory apart. It cannot be told to
//! listen on loopback alone, so it is started only where its program was named.

use std::num::NonZero;
use std::path::Path;

use client::Credentials;
use serde_json::{Value, json};

use super::{Peer, Site, listening, not_available};
use crate::bench::arguments::Spoken;
use crate::bench::load::Stop;
use crate::bench::process::{Ports, Work};
use crate::failure::Failure;
use crate::password;

/// What they are called, and what it calls their ways of reading and writing.
pub const WAYS: [(&str, &str); 2] = [("chimera", "linux"), ("chimera-uring", "io_uring")];
const USER: &str = "bench";
const SHARE: &str = "bench";

/// What is to be started.
#[derive(Debug, Clone, Copy)]
pub struct Chimera<'a> {
    /// One of [`WAYS`].
    pub way: (&'static str, &'static str),
    /// Where it is, if anything was named.
    pub program: Option<&'a Path>,
    /// What it is to speak.
    pub spoken: Spoken,
    /// The version of NFS.
    pub version: &'a str,
}

impl Chimera<'_> {
    /// Starts it, if it may be.
    pub fn start(self, site: &Site, ports: &mut Ports, stop: &Stop) -> Result<Peer, Failure> {
        let name = self.way.0;
        let program = self.program.ok_or_else(|| not_available(name, "--chimera names no program"))?;
        if !site.root.outside(program).is_file() {
            return Err(not_available(name, &format!("{} is not there", program.display())));
        }
        if self.spoken == Spoken::Nfs && self.version == "3" {
            return Err(not_available(name, "the port of its mount service cannot be chosen"));
        }
        let work = Work::new(&site.root, name)?;
        let (port, metrics_port, secret) = (ports.take()?, ports.take()?, password::random()?);
        let place = Place { work: work.inside(), directory: &site.inside, port, metrics_port };
        let path = work.write("chimera.json", &self.config(&place, &secret).to_string())?;
        let mut command = site.root.command(program);
        command.arg("-c").arg(path);
        let daemon = listening(name, command, port, stop)?;
        let (url, credentials) = match self.spoken {
            Spoken::Smb => (format!("smb://{USER}@127.0.0.1:{port}/{SHARE}"), Credentials::password(USER, &secret)),
            Spoken::Nfs => {
                (format!("nfs://127.0.0.1:{port}/{SHARE}?version={}", self.version), Credentials::anonymous())
            }
        };
        Ok(Peer {
            targets: vec![(name.to_owned(), url, credentials)],
            settings: vec![(format!("{name} settings"), self.config(&place, "...").to_string())],
            pid: Some(daemon.pid()),
            _running: vec![Box::new(daemon), Box::new(work)],
        })
    }

    /// As many loops as there are cores, and no threads beside them that calls are handed to. As a `data_server` NFSv4 is
    /// all it serves: else it takes the well-known ports of the port mapper and the mount service too. What newer ones read
    /// from `common`, older ones do from `server`.
    fn config(&self, place: &Place<'_>, secret: &str) -> Value {
        let is_smb = self.spoken == Spoken::Smb;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mounted = json!({"path": format!("/{SHARE}")});
        json!({
            "common": {"tcp_flavor": "plain", "sync_delegation": false},
            "server": {
                "threads": threads, "sync_delegation": false, "tcp_flavor": "plain",
                "smb_enabled": is_smb, "nfs_enabled": !is_smb, "data_server": !is_smb,
                if is_smb { "smb_port" } else { "nfs_port" }: place.port,
                "metrics_port": place.metrics_port, "state_dir": place.work,
            },
            "users": if is_smb { user(secret) } else { json!([]) },
            "mounts": {SHARE: {"module": self.way.1, "path": place.directory}},
            "shares": if is_smb { json!({SHARE: mounted}) } else { json!({}) },
            "exports": if is_smb { json!({}) } else { json!({format!("/{SHARE}"): mounted}) },
        })
    }
}

/// What one process is given.
struct Place<'a> {
    work: &'a Path,
    directory: &'a Path,
    port: u16,
    metrics_port: u16,
}

/// Who logs in is whoever this process is.
fn user(secret: &str) -> Value {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    json!([{"username": USER, "smbpasswd": secret, "uid": uid, "gid": gid}])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::process::Root;

    fn chimera(way: usize, spoken: Spoken) -> Chimera<'static> {
        Chimera { way: WAYS[way], program: Some(Path::new("/bin/false")), spoken, version: "4.1" }
    }

    fn config_of(way: usize, spoken: Spoken) -> Value {
        let (work, directory) = (Path::new("/tmp/w"), Path::new("/srv/t"));
        chimera(way, spoken).config(&Place { work, directory, port: 4_455, metrics_port: 4_456 }, "secret")
    }

    #[test]
    fn each_way_of_reading_has_a_process() {
        for spoken in [Spoken::Smb, Spoken::Nfs] {
            assert_eq!(config_of(0, spoken)["mounts"], json!({"bench": {"module": "linux", "path": "/srv/t"}}));
            assert_eq!(config_of(1, spoken)["mounts"], json!({"bench": {"module": "io_uring", "path": "/srv/t"}}));
            assert_eq!(config_of(0, spoken)["server"]["metrics_port"], 4_456);
        }
    }

    #[test]
    fn only_what_is_measured_is_served() {
        let (smb, nfs) = (config_of(0, Spoken::Smb), config_of(0, Spoken::Nfs));
        assert_eq!([&smb["server"]["smb_port"], &nfs["server"]["nfs_port"]], [4_455, 4_455]);
        assert_eq!([&smb["server"]["nfs_enabled"], &nfs["server"]["smb_enabled"]], [false, false]);
        assert!(smb["exports"] == json!({}) && nfs["shares"] == json!({}) && nfs["users"] == json!([]));
        assert_eq!(smb["shares"], json!({"bench": {"path": "/bench"}}));
        assert_eq!(nfs["exports"], json!({"/bench": {"path": "/bench"}}));
        assert_eq!(nfs["server"]["data_server"], true);
    }

    #[test]
    fn who_logs_in_is_this_process() {
        let user = &config_of(0, Spoken::Smb)["users"][0];
        assert_eq!((&user["username"], &user["smbpasswd"]), (&json!(USER), &json!("secret")));
        assert_eq!(user["uid"], rustix::process::geteuid().as_raw());
    }

    #[test]
    fn it_is_started_only_from_a_program_that_was_named() {
        let directory = std::path::PathBuf::from("/");
        let site = Site { root: Root::here(), inside: directory.clone(), outside: directory, built: None };
        let why = |chimera: Chimera<'_>| {
            let failure = chimera.start(&site, &mut Ports::default(), &Stop::default()).err().unwrap();
            failure.lines().collect::<Vec<_>>().join("; ")
        };
        let (smb, nfs) = (chimera(0, Spoken::Smb), chimera(1, Spoken::Nfs));
        assert!(why(Chimera { program: None, ..smb }).contains("chimera is not available because --chimera names no"));
        let absent = Some(Path::new("/no/such/program"));
        assert!(why(Chimera { program: absent, ..smb }).contains("/no/such/program is not there"));
        assert!(why(Chimera { version: "3", ..nfs }).contains("mount service"));
        // A program that is something else has ended before it listens.
        assert!(why(nfs).contains("chimera-uring is not ready"));
    }
}
