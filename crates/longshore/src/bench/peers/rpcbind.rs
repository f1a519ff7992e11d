//! The rpcbind that NFS servers register with: this machine's, or one that is started beside them where none runs.

use std::net::{Ipv4Addr, TcpStream};

use super::{Site, listening};
use crate::bench::load::Stop;
use crate::bench::process::Daemon;
use crate::failure::Failure;

const PORT: u16 = 111;

/// Whether one runs.
pub fn runs() -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok()
}

/// Starts one, if none runs. Who needs it finds out that there is none.
pub fn start(site: &Site, stop: &Stop) -> Result<Option<Daemon>, Failure> {
    if runs() {
        return Ok(None);
    }
    let Some(program) = site.root.find("rpcbind") else { return Ok(None) };
    let mut command = site.root.command(&program);
    command.args(["-f", "-h", "127.0.0.1"]);
    listening("rpcbind", command, PORT, stop).map(Some)
}
