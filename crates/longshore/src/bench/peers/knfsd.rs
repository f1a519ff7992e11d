//! The kernel's NFS server as a peer: a port of its own on loopback, which it is handed as a socket that listens already, and
//! one export, which an rpc.mountd with a state directory of its own tells it of; /etc/exports and what `exportfs` keeps
//! are neither read nor written. There is one for the whole machine, so it takes part only where its module is loaded and it
//! serves nobody, and what was set is put back afterwards.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use client::Credentials;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::{Peer, Site, not_available, rpcbind};
use crate::bench::cpu;
use crate::bench::load::Stop;
use crate::bench::ours::mount_port;
use crate::bench::process::{Change, Daemon, Ports, Root, Work};
use crate::failure::Failure;

/// What it is called.
pub const NAME: &str = "knfsd";
const CONTROL: &str = "/proc/fs/nfsd";
const CACHES: &str = "/proc/net/rpc";
const KEEPER: &str = "/sys/module/nfsd/parameters/cltrack_prog";
/// As many as nfs-utils starts by itself.
const THREADS: u32 = 16;
/// The least it takes, and what the other peer has for its leases.
const LEASE_SECONDS: &str = "10";
/// It answers the kernel's questions about exports.
const MOUNTD: &str = "rpc.mountd";
/// Whoever does so.
const MOUNTDS: [&str; 2] = [MOUNTD, "nfsv4.exportd"];
/// Without `fsid` a directory on tmpfs has no identity. Zero would make it the root of version 4's names.
const OPTIONS: &str = "rw,sync,insecure,no_root_squash,no_subtree_check,fsid=1";

/// Starts it, if it may be.
pub fn start(site: &Site, version: &str, ports: &mut Ports, stop: &Stop) -> Result<Peer, Failure> {
    let because = |why: &str| not_available(NAME, why);
    absent().map_or(Ok(()), |why| Err(because(why)))?;
    let mountd = Root::here().find(MOUNTD).ok_or_else(|| because("rpc.mountd is not installed"))?;
    let path = plain(&site.outside).ok_or_else(|| because("the directory's name is not plain letters"))?;
    let mounted = mounted()?;
    in_use()?.map_or(Ok(()), |why| Err(because(why)))?;

    let work = Work::new(&Root::here(), NAME)?;
    let (port, mountd_port) = (ports.take()?, ports.take()?);
    let export = format!("{path} 127.0.0.1({OPTIONS})");
    work.write("etab", &format!("{export}\n"))?;
    work.write("rmtab", "")?;
    // Without version 3 it tells nobody, or nobody who must listen.
    let rpcbind = if version == "3" { rpcbind::start(&Root::here(), stop)? } else { None };
    let forgotten = Change::until(forget_exports);
    let settings = set(version, work.inside())?;
    let answering = answer(&mountd, version, work.inside(), mountd_port, stop)?;
    let serving = serve(port)?;
    let url = format!("nfs://127.0.0.1:{port}{path}?version={version}{}", mount_port(version, mountd_port));
    Ok(Peer {
        targets: vec![(NAME.to_owned(), url, Credentials::anonymous())],
        settings: vec![(format!("{NAME} settings"), shown(port, version, &export))],
        // Its threads are found by its port.
        pid: None,
        _running: vec![
            Box::new(serving),
            Box::new(answering),
            Box::new(settings),
            Box::new(forgotten),
            Box::new(rpcbind),
            Box::new(mounted),
            Box::new(work),
        ],
    })
}

/// Why it is not to be started, as far as can be seen without its control files.
fn absent() -> Option<&'static str> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !known.lines().any(|line| line.split_whitespace().last() == Some("nfsd")) {
        return Some("the module nfsd is not loaded");
    }
    if !rustix::process::geteuid().is_root() {
        return Some("only root may start it");
    }
    None
}

/// Its control files, which are mounted where they are not yet.
fn mounted() -> Result<Option<Change>, Failure> {
    if control("threads").exists() {
        return Ok(None);
    }
    let done = mount("nfsd", CONTROL, "nfsd", MountFlags::empty(), None);
    done.map_err(|error| not_available(NAME, &format!("{CONTROL} cannot be mounted: {error}")))?;
    Ok(Some(Change::until(|| unmount(CONTROL, UnmountFlags::empty()).unwrap_or_default())))
}

/// Who uses it.
fn in_use() -> Result<Option<&'static str>, Failure> {
    let read = |path: PathBuf| {
        let failed = |error| Failure::system(format!("{NAME}: {}: {error}", path.display()));
        fs::read_to_string(&path).map_err(failed)
    };
    if read(control("threads"))?.trim() != "0" || !read(control("portlist"))?.trim().is_empty() {
        return Ok(Some("it serves somebody else"));
    }
    if read(Path::new(CACHES).join("nfsd.export/content"))?.lines().any(|line| !line.starts_with('#')) {
        return Ok(Some("it has exports"));
    }
    if MOUNTDS.into_iter().any(cpu::somebody_is) {
        return Ok(Some("somebody else's rpc.mountd runs"));
    }
    Ok(None)
}

/// What is spoken, and how long a client that is gone is waited for. Written before it starts; it takes nothing afterwards.
fn set(version: &str, recovery: &Path) -> Result<Vec<Change>, Failure> {
    let recovery = recovery.display().to_string();
    let all = [
        ("versions", versions(version)),
        ("nfsv4leasetime", LEASE_SECONDS),
        ("nfsv4gracetime", LEASE_SECONDS),
        // Only a kernel that keeps clients' names by itself has it.
        ("nfsv4recoverydir", &recovery),
    ];
    let there = all.into_iter().filter(|(name, _)| control(name).exists());
    let of_control = there.map(|(name, value)| Change::of_setting(&control(name), value, "\n"));
    // The kernel would run a program that keeps clients' names below /var; it goes on without one that cannot be run.
    let keeper = Path::new(KEEPER);
    let of_keeper = keeper.exists().then(|| Change::of_setting(keeper, "/dev/null", ""));
    of_control.chain(of_keeper).collect()
}

/// Without version 3 it needs no rpcbind.
fn versions(version: &str) -> &'static str {
    if version == "3" { "+3 -4" } else { "-3 +4 +4.1 +4.2" }
}

/// The process that tells it of the export, once it listens to its questions.
fn answer(program: &Path, version: &str, state: &Path, port: u16, stop: &Stop) -> Result<Daemon, Failure> {
    let mut command = Command::new(program);
    command.args(["-F", "-u", "-s"]).arg(state);
    match version {
        "3" => command.arg("-p").arg(port.to_string()),
        _ => command.args(["-N", "3"]),
    };
    let mut daemon = Daemon::start(MOUNTD, command)?;
    // Its name for the directory is the process's own (/proc/PID/net).
    daemon.wait_for_open(Path::new("net/rpc/nfsd.fh/channel"), stop)?;
    if version == "3" {
        daemon.wait_for(port, stop)?;
    }
    Ok(daemon)
}

/// Hands it a socket and starts its threads; they end, and the socket with them, when this is dropped.
fn serve(port: u16) -> Result<Change, Failure> {
    let failed = |what: &'static str| move |error| Failure::system(format!("{NAME}: {what}: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed("its port"))?;
    let serving = Change::until(|| drop(fs::write(control("threads"), "0")));
    fs::write(control("portlist"), listener.as_raw_fd().to_string()).map_err(failed("its socket"))?;
    fs::write(control("threads"), THREADS.to_string()).map_err(failed("its threads"))?;
    // Nobody had anything that could be asked for again. A kernel that cannot be told so waits for the time set.
    let _ = fs::write(control("v4_end_grace"), "Y");
    Ok(serving)
}

/// What it was told of exports and clients is forgotten: the kernel drops all that is older than the time that is written.
fn forget_exports() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()) + 1;
    for cache in ["auth.unix.ip", "auth.unix.gid", "nfsd.fh", "nfsd.export"] {
        let _ = fs::write(Path::new(CACHES).join(cache).join("flush"), now.to_string());
    }
}

fn shown(port: u16, version: &str, export: &str) -> String {
    let of = |name: &str| fs::read_to_string(control(name)).unwrap_or_default().trim().to_owned();
    let lockd = if version == "3" { "; lockd listens where the system lets it" } else { "" };
    format!(
        "127.0.0.1:{port}; threads {}; versions {}; nfsv4leasetime {}; nfsv4gracetime {}; max_block_size {} (the \
         system's); export {export}{lockd}",
        of("threads"),
        of("versions"),
        of("nfsv4leasetime"),
        of("nfsv4gracetime"),
        of("max_block_size")
    )
}

fn control(name: &str) -> PathBuf {
    Path::new(CONTROL).join(name)
}

/// A path that stands for itself in a URL and in a list of exports.
fn plain(path: &Path) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._".contains(c);
    path.to_str().filter(|path| path.len() > 1 && path.starts_with('/') && path.chars().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_plain_or_it_is_not_exported() {
        assert_eq!(plain(Path::new("/srv/a-b_c.d")), Some("/srv/a-b_c.d"));
        for odd in ["/", "srv", "/a b", "/a%20b", "/a\\b", "/a#b", "/a*", "/ä"] {
            assert_eq!(plain(Path::new(odd)), None, "{odd}");
        }
    }

    #[test]
    fn only_version_3_is_spoken_where_that_is_measured() {
        assert_eq!(versions("3"), "+3 -4");
        assert!(["4.0", "4.1", "4.2"].iter().all(|version| versions(version).starts_with("-3 +4")));
    }
}
