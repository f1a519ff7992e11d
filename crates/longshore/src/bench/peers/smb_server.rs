//! The crate `smb-server` of crates.io as a peer: a userspace server in Rust, in the program that
//! `conformance/peers/smb-server` makes of it and `conformance/peers/peers setup` builds.

use std::process::Command;

use client::Credentials;

use super::{Peer, Site, listening, not_available};
use crate::bench::load::Stop;
use crate::bench::process::Ports;
use crate::failure::Failure;
use crate::password;

/// What it is called.
pub const NAME: &str = "smb-server";
const PROGRAM: &str = "peer-smb-server";
const USER: &str = "bench";

/// Starts it, if it is there.
pub fn start(site: &Site, ports: &mut Ports, stop: &Stop) -> Result<Peer, Failure> {
    let program = site.find_built(PROGRAM);
    let program = program.ok_or_else(|| not_available(NAME, "peer-smb-server is not built (conformance/peers)"))?;
    let (port, secret) = (ports.take()?, password::random()?);
    let mut command = Command::new(program);
    command.arg(&site.outside).arg(port.to_string()).arg(USER).env("PEER_PASSWORD", secret.as_str());
    let daemon = listening(NAME, command, port, stop)?;
    let url = format!("smb://{USER}@127.0.0.1:{port}/bench");
    Ok(Peer {
        targets: vec![(NAME.to_owned(), url, Credentials::password(USER, &secret))],
        settings: vec![(format!("{NAME} settings"), format!("127.0.0.1:{port}; all else by default"))],
        pid: Some(daemon.pid()),
        _running: vec![Box::new(daemon)],
    })
}
