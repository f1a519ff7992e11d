//! How a connection comes to be, and comes to be again. Programs connect over TCP; tests give pipes.

use std::io;

use tokio::net::{TcpSocket, TcpStream, lookup_host};

use crate::line::halves;
pub use crate::line::{Dialling, Receiver, Sender};

/// Makes lines to one host.
pub trait Dial: Send + Sync + 'static {
    /// A line to a port of the host.
    fn dial(&self, port: u16) -> Dialling;
}

/// The first of the ports that only the superuser has and that are not spoken for by old custom.
const FIRST_PRIVILEGED_PORT: u16 = 665;
const LAST_PRIVILEGED_PORT: u16 = 1023;
/// So many of them are tried before one is taken that anybody has.
const MOST_TRIES: u16 = 40;

/// Over TCP. Exports often admit none but a port below 1024, by which a client's superuser vouches for its users; one is
/// taken where the system lets the process have one.
#[derive(Debug, Clone)]
pub(crate) struct TcpDial {
    host: String,
}

impl TcpDial {
    pub fn new(host: &str) -> Self {
        Self { host: host.into() }
    }
}

impl Dial for TcpDial {
    fn dial(&self, port: u16) -> Dialling {
        let host = self.host.clone();
        Box::pin(async move {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            for address in lookup_host((host.as_str(), port)).await? {
                match connect(address).await {
                    Ok(stream) => return Ok(halves(stream)),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}

async fn connect(address: std::net::SocketAddr) -> io::Result<TcpStream> {
    let mut chance = [0; 2];
    let _ = getrandom::fill(&mut chance);
    let ports = LAST_PRIVILEGED_PORT - FIRST_PRIVILEGED_PORT + 1;
    let first = u16::from_ne_bytes(chance) % ports;
    for port in (0..MOST_TRIES).map(|n| FIRST_PRIVILEGED_PORT + (first + n) % ports) {
        let socket = socket_for(&address)?;
        let mut local = address;
        local.set_ip(if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() });
        local.set_port(port);
        // Of a port whose connection has just ended another may be made.
        socket.set_reuseaddr(true)?;
        match socket.bind(local) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
            Err(_) => break,
        }
        match socket.connect(address).await {
            Err(error) if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {}
            outcome => return outcome,
        }
    }
    socket_for(&address)?.connect(address).await
}

fn socket_for(address: &std::net::SocketAddr) -> io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}
