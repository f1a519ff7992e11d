//! Samba as a peer: its own configuration, user and directories below a work directory, nothing of the system's. One share
//! sends with `sendfile`, the other reads and writes with io_uring where that module is installed: which is better depends
//! on the load, and a comparison should have both.

use std::path::{Path, PathBuf};

use client::Credentials;

use super::{Peer, Site, in_one_line, listening, not_available};
use crate::bench::load::Stop;
use crate::bench::process::{Ports, Root, Work};
use crate::failure::Failure;
use crate::password;

/// What it is called.
pub const NAME: &str = "samba";

/// Starts it, if it is installed.
pub fn start(site: &Site, ports: &mut Ports, stop: &Stop) -> Result<Peer, Failure> {
    let programs = site.root.find("smbd").zip(site.root.find("smbpasswd"));
    let (smbd, smbpasswd) = programs.ok_or_else(|| not_available(NAME, "it is not installed"))?;
    let work = Work::new(&site.root, NAME)?;
    let port = ports.take()?;
    let has_uring = module_is_there(&site.root, "io_uring.so");
    let config = config(work.inside(), &site.inside, port, has_uring);
    for directory in ["private", "lock", "state", "cache", "run"] {
        work.directory(directory)?;
    }
    let path = work.write("smb.conf", &config)?;
    let user = user(&site.root)?;
    let secret = password::random()?;
    let add = ["-s", "-L", "-c", &path.display().to_string(), "-a", &user].map(str::to_owned);
    let added = site.root.run(&smbpasswd, &add, &format!("{}\n{}\n", *secret, *secret));
    added.map_err(|why| Failure::system(format!("cannot give {NAME} a user: {why}")))?;
    let mut command = site.root.command(&smbd);
    command.args(["-F", "--no-process-group", "--debug-stdout", "-s"]).arg(&path);
    let daemon = listening(NAME, command, port, stop)?;
    let credentials = Credentials::password(&user, &secret);
    let target =
        |name: &str, share| (name.to_owned(), format!("smb://{user}@127.0.0.1:{port}/{share}"), credentials.clone());
    let mut targets = vec![target(NAME, "sendfile")];
    if has_uring {
        targets.push(target("samba-uring", "uring"));
    }
    Ok(Peer {
        targets,
        settings: vec![(format!("{NAME} settings"), in_one_line(&config))],
        pid: Some(daemon.pid()),
        _running: vec![Box::new(daemon), Box::new(work)],
    })
}

fn config(work: &Path, directory: &Path, port: u16, has_uring: bool) -> String {
    let (work, directory) = (work.display(), directory.display());
    let mut config = format!(
        "[global]
  server role = standalone server
  interfaces = lo
  bind interfaces only = yes
  smb ports = {port}
  private dir = {work}/private
  lock directory = {work}/lock
  state directory = {work}/state
  cache directory = {work}/cache
  pid directory = {work}/run
  ncalrpc dir = {work}/run
  log level = 0
  disable netbios = yes
  load printers = no
  printcap name = /dev/null
  server multi channel support = yes
[sendfile]
  path = {directory}
  read only = no
  use sendfile = yes
"
    );
    if has_uring {
        config += &format!(
            "[uring]
  path = {directory}
  read only = no
  use sendfile = no
  vfs objects = io_uring
"
        );
    }
    config
}

fn module_is_there(root: &Root, module: &str) -> bool {
    let places =
        ["/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/local/samba/lib"];
    let mut all = places.into_iter().flat_map(|place| [format!("{place}/samba/vfs"), format!("{place}/vfs")]);
    all.any(|directory| root.outside(&PathBuf::from(directory).join(module)).is_file())
}

/// The name there of the user this process is.
fn user(root: &Root) -> Result<String, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let path = root.outside(Path::new("/etc/passwd"));
    let all = std::fs::read_to_string(&path).unwrap_or_default();
    let named = all.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(uid)).then(|| fields.first().map(|name| (*name).to_owned())).flatten()
    });
    named.ok_or_else(|| Failure::system(format!("{} has no user {uid} for {NAME}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_share_for_each_way_of_reading() {
        let of = |has_uring| config(Path::new("/tmp/w"), Path::new("/srv"), 4_455, has_uring);
        assert!(of(true).contains("[uring]\n  path = /srv") && of(true).contains("smb ports = 4455"));
        assert!(!of(false).contains("uring") && of(false).contains("use sendfile = yes"));
        assert!(in_one_line(&of(false)).starts_with("[global]; server role = standalone server; interfaces = lo"));
    }

    #[test]
    fn this_user_has_a_name() {
        assert!(!user(&Root::here()).unwrap().is_empty());
    }
}
