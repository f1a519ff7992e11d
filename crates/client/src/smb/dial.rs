//! How a connection to an SMB server comes to be, and comes to be again. Programs connect over TCP; tests give pipes.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpStream, lookup_host};

use crate::line::halves;
pub use crate::line::{Dialling, Receiver, Sender};

/// Makes lines to one server.
pub trait Dial: std::fmt::Debug + Send + Sync + 'static {
    /// A line to the server, by that address of it where one is given.
    fn dial(&self, address: Option<IpAddr>) -> Dialling;
}

/// Over TCP.
#[derive(Debug, Clone)]
pub(crate) struct TcpDial {
    host: String,
    port: u16,
}

impl TcpDial {
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.into(), port }
    }
}

impl Dial for TcpDial {
    fn dial(&self, address: Option<IpAddr>) -> Dialling {
        let (host, port) = (self.host.clone(), self.port);
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = match address {
                Some(address) => vec![(address, port).into()],
                None => lookup_host((host.as_str(), port)).await?.collect(),
            };
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            for address in addresses {
                match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(halves(stream)),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}
