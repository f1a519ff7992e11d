//! The kernel's SMB server as a peer: configuration, user and port of its own, on loopback, through ksmbd-tools. There is one
//! for the whole machine, so it takes part only where its module is loaded and nobody uses it, and is idle again afterwards.

use std::any::Any;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use client::Credentials;

use super::{Peer, Site, in_one_line, listening, not_available};
use crate::bench::cpu;
use crate::bench::load::Stop;
use crate::bench::process::{Change, Ports, Root, Work};
use crate::failure::Failure;
use crate::password;

/// What it is called.
pub const NAME: &str = "ksmbd";
const MOUNTD: &str = "ksmbd.mountd";
const STATS: &str = "/sys/class/ksmbd-control/stats";
const KILL: &str = "/sys/class/ksmbd-control/kill_server";
/// Its state before anybody has told it what to serve, and after it was stopped.
const IDLE: &str = "startup";
/// What ksmbd.mountd leaves behind: named at compile time, `/tmp` before 3.4.6.
const LEFT: [&str; 3] = ["/run/ksmbd.lock", "/tmp/ksmbd.lock", "/etc/ksmbd/ksmbd.subauth"];
/// The user it runs as must be one of the system's, and is who writes the directory.
const USER: &str = "root";
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts it, if it may be.
pub fn start(site: &Site, ports: &mut Ports, stop: &Stop) -> Result<Peer, Failure> {
    let here = Root::here();
    obstacle().map_or(Ok(()), |why| Err(not_available(NAME, why)))?;
    let programs = here.find(MOUNTD).zip(here.find("ksmbd.adduser"));
    let (mountd, adduser) = programs.ok_or_else(|| not_available(NAME, "ksmbd-tools is not installed"))?;
    let work = Work::new(&here, NAME)?;
    let port = ports.take()?;
    let config = config(&site.outside, port);
    let (path, users) = (work.write("ksmbd.conf", &config)?, work.write("users", "")?);
    let secret = password::random()?;
    let files = ["-C", &path.display().to_string(), "-P", &users.display().to_string()].map(str::to_owned);
    let add = [&files[..], &["-a".to_owned(), USER.to_owned()]].concat();
    let added = here.run(&adduser, &add, &format!("{}\n{}\n", *secret, *secret));
    added.map_err(|why| Failure::system(format!("cannot give {NAME} a user: {why}")))?;
    let idle = idle_again();
    let mut command = here.command(&mountd);
    command.arg("-n").args(&files);
    let daemon = listening(NAME, command, port, stop)?;
    let running: Vec<Box<dyn Any>> = vec![Box::new(daemon), Box::new(idle), Box::new(work)];
    Ok(Peer {
        targets: vec![(
            NAME.to_owned(),
            format!("smb://{USER}@127.0.0.1:{port}/bench"),
            Credentials::password(USER, &secret),
        )],
        settings: vec![(format!("{NAME} settings"), in_one_line(&config))],
        // Its work is done in the kernel, by threads of everybody's.
        pid: None,
        _running: running,
    })
}

/// Why it is not to be started.
fn obstacle() -> Option<&'static str> {
    let Ok(stats) = fs::read_to_string(STATS) else {
        return Some("the module ksmbd is not loaded");
    };
    if !rustix::process::geteuid().is_root() {
        return Some("only root may start it");
    }
    if state(&stats) != Some(IDLE) || cpu::somebody_is(MOUNTD) {
        return Some("it serves somebody else");
    }
    None
}

/// The second word of `2 running 445 0`.
fn state(stats: &str) -> Option<&str> {
    stats.split_whitespace().nth(1)
}

/// What stops it, once its ksmbd.mountd has ended; what that left and was not there before goes, too.
fn idle_again() -> Change {
    let left: Vec<_> = LEFT.into_iter().filter(|path| !Path::new(path).exists()).collect();
    Change::until(move || {
        let _ = fs::write(KILL, "hard");
        let deadline = Instant::now() + PATIENCE;
        let is_idle = || fs::read_to_string(STATS).is_ok_and(|stats| state(&stats) == Some(IDLE));
        while !is_idle() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        left.iter().for_each(|path| drop(fs::remove_file(path)));
    })
}

fn config(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        "[global]
  tcp port = {port}
  interfaces = lo
  bind interfaces only = yes
  map to guest = never
  smb2 leases = yes
  server multi channel support = yes
[bench]
  path = {directory}
  read only = no
  valid users = {USER}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_listens_on_loopback_only() {
        let config = config(Path::new("/srv/t"), 4_455);
        assert!(config.contains("tcp port = 4455\n  interfaces = lo\n  bind interfaces only = yes"));
        assert!(config.contains("path = /srv/t\n"));
    }

    #[test]
    fn its_state_is_the_second_word() {
        assert_eq!(state("2 startup 0 0\n"), Some(IDLE));
        assert_eq!(state("2 running 445 0\n"), Some("running"));
        assert_eq!(state(""), None);
    }
}
