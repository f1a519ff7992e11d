//! NFS-Ganesha as a peer: one export of the directory, transfers as large as it allows, its own ports. It registers with
//! rpcbind and does not start without one.

use std::any::Any;
use std::path::Path;

use client::Credentials;

use super::{Peer, Site, in_one_line, listening, not_available, rpcbind};
use crate::bench::load::Stop;
use crate::bench::ours::mount_port;
use crate::bench::process::{Ports, Work};
use crate::failure::Failure;

/// What it is called.
pub const NAME: &str = "ganesha";
/// Where it keeps what it must find: its own choice, made for it where the packages have not.
const DIRECTORIES: [&str; 2] = ["/run/ganesha", "/var/lib/nfs/ganesha"];

/// Starts it, if it is installed.
pub fn start(site: &Site, version: &str, ports: &mut Ports, stop: &Stop) -> Result<Peer, Failure> {
    let program = site.root.find("ganesha.nfsd").ok_or_else(|| not_available(NAME, "it is not installed"))?;
    let rpcbind = rpcbind::start(&site.root, stop)?;
    for directory in DIRECTORIES {
        let path = site.root.outside(Path::new(directory));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| Failure::system(format!("{NAME}: {}: {error}", path.display())))?;
    }
    let work = Work::new(&site.root, NAME)?;
    let (port, mountd_port) = (ports.take()?, ports.take()?);
    let config = config(&site.inside, port, mountd_port);
    let path = work.write("ganesha.conf", &config)?;
    let mut command = site.root.command(&program);
    command.arg("-F").arg("-f").arg(path);
    command.args(["-L", "STDERR", "-p"]).arg(work.inside().join("pid"));
    let daemon = listening(NAME, command, port, stop)?;
    let pid = daemon.pid();
    let running: Vec<Box<dyn Any>> = vec![Box::new(daemon), Box::new(rpcbind), Box::new(work)];
    let export = site.inside.display().to_string();
    let url = format!(
        "nfs://127.0.0.1:{port}/{}?version={version}{}",
        export.trim_start_matches('/'),
        mount_port(version, mountd_port)
    );
    Ok(Peer {
        targets: vec![(NAME.to_owned(), url, Credentials::anonymous())],
        settings: vec![(format!("{NAME} settings"), in_one_line(&config))],
        pid: Some(pid),
        _running: running,
    })
}

fn config(directory: &Path, port: u16, mountd_port: u16) -> String {
    let directory = directory.display();
    format!(
        "NFS_CORE_PARAM {{ NFS_Port = {port}; MNT_Port = {mountd_port}; NFS_Protocols = 3,4; Enable_NLM = false; \
         Enable_RQUOTA = false; Bind_addr = 127.0.0.1; Allow_Set_Io_Flusher_Fail = true; }}
NFSv4 {{ Minor_Versions = 0,1,2; Graceless = true; Grace_Period = 5; Lease_Lifetime = 10; RecoveryBackend = fs; }}
EXPORT {{ Export_Id = 1; Path = {directory}; Pseudo = {directory}; Access_Type = RW; Squash = No_Root_Squash; \
         SecType = sys,none; Protocols = 3,4; Transports = TCP; MaxRead = 4194304; MaxWrite = 4194304; \
         PrefRead = 1048576; PrefWrite = 1048576; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = WARN; }}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_export_and_its_ports_are_named() {
        let config = config(Path::new("/exp"), 41_420, 41_421);
        assert!(config.contains("NFS_Port = 41420; MNT_Port = 41421;") && config.contains("Path = /exp;"));
    }
}
