//! Where clients that name no port learn where NFS, MOUNT and the lock manager are: from port 111 if that is the server's,
//! else from the machine's rpcbind, in which it registers, else not at all. Datagrams are part of it: lock managers and
//! status monitors still send them. `serve` calls it once the server listens.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use nfs_server::{Listening, Server};

use crate::config::Portmapper;
use crate::failure::Failure;
use crate::listen::cannot_listen;
use crate::rpcbind::{self, Registered};
use crate::udp;

/// The portmapper's port.
const PORT: u16 = 111;

/// Makes `server` found, which listens at `addresses`. `listen` makes it listen at one more. What is answered is taken
/// back when it is dropped.
pub fn start(
    server: &Arc<Server>,
    addresses: &[SocketAddr],
    wanted: Portmapper,
    listen: impl Fn(SocketAddr) -> io::Result<SocketAddr>,
) -> Result<Option<Registered>, Failure> {
    let Some(first) = addresses.first() else { return Ok(None) };
    let udp = datagrams(server, addresses);
    let public = addresses.iter().any(|address| !address.ip().is_loopback());
    let (own, register) = match wanted {
        Portmapper::Auto => (public, public),
        Portmapper::Own => (true, false),
        Portmapper::Register => (false, true),
        Portmapper::Off => (false, false),
    };
    let mut portmapper = false;
    if own {
        match take_port(server, addresses, &listen) {
            Ok(()) => portmapper = true,
            Err((address, error)) if wanted == Portmapper::Own => {
                return Err(cannot_listen(address, &error, "server.portmapper = \"register\" or another"));
            }
            Err((address, error)) => tracing::debug!(%error, "{address} is not this server's"),
        }
    }
    server.listens(Listening { port: first.port(), udp, portmapper });
    if portmapper || !register {
        return Ok(None);
    }
    match rpcbind::register(addresses, udp) {
        Ok(registered) => Ok(Some(registered)),
        Err(error) => {
            let level_is_high = wanted == Portmapper::Register;
            let why = "no portmapper names this server: NFS clients must be told ports, and NFSv3's cannot lock";
            if level_is_high {
                tracing::warn!(%error, "rpcbind cannot be reached; {why}");
            } else {
                tracing::info!(%error, "{why}");
            }
            Ok(None)
        }
    }
}

/// Whether datagrams are answered on every address.
fn datagrams(server: &Arc<Server>, addresses: &[SocketAddr]) -> bool {
    let mut all = true;
    for address in addresses {
        if let Err(error) = udp::listen(*address, server) {
            tracing::warn!(%error, %address, "no datagrams are answered: some NFSv3 clients cannot lock");
            all = false;
        }
    }
    all
}

fn take_port(
    server: &Arc<Server>,
    addresses: &[SocketAddr],
    listen: &impl Fn(SocketAddr) -> io::Result<SocketAddr>,
) -> Result<(), (SocketAddr, io::Error)> {
    let mut places: Vec<SocketAddr> = addresses.iter().map(|a| SocketAddr::new(a.ip(), PORT)).collect();
    places.dedup();
    for place in places {
        listen(place).map_err(|error| (place, error))?;
        udp::listen(place, server).map_err(|error| (place, error))?;
    }
    Ok(())
}
