//! What a load is run against: a URL of a server with who logs in, or the bare loop in a process of its own. Made by the
//! commands from what was asked for, and shared by all threads of a load.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::sync::Arc;

use client::Url;

use super::bare::Bare;
use super::cpu::LocalServer;
use super::login::Way;
use crate::failure::Failure;

/// The names of the files that loads use begin so.
pub const FILE_PREFIX: &str = "longshore-bench.";

/// A server under load.
#[derive(Debug)]
pub struct Place {
    name: String,
    address: Address,
    server: Option<LocalServer>,
}

/// Where it is.
#[derive(Debug)]
pub enum Address {
    /// A server that speaks a protocol, and the way to it.
    Server(Box<Way>),
    /// The bare loop.
    Bare(Bare),
}

impl Place {
    /// A server. Its processes are found if it listens on this machine; `pid` names them where they are not.
    pub fn of_server(name: &str, way: Way, pid: Option<i32>) -> Result<Arc<Self>, Failure> {
        let server = match pid {
            Some(pid) => {
                let found = LocalServer::of_pid(pid);
                Some(found.ok_or_else(|| Failure::usage(format!("target {name}: there is no process {pid}")))?)
            }
            None => local_address(&way.url).and_then(|address| LocalServer::listening_on(address, way.url.port())),
        };
        Ok(Arc::new(Self { name: name.to_owned(), address: Address::Server(Box::new(way)), server }))
    }

    /// The bare loop.
    pub fn of_bare(name: &str, bare: Bare) -> Arc<Self> {
        let server = LocalServer::of_pid(bare.pid());
        Arc::new(Self { name: name.to_owned(), address: Address::Bare(bare), server })
    }

    /// What it is called in the report.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The way to it, if it is a server.
    pub fn server_way(&self) -> Option<&Way> {
        match &self.address {
            Address::Server(way) => Some(way),
            Address::Bare(_) => None,
        }
    }

    /// The address as the report has it.
    pub fn shown(&self) -> String {
        match &self.address {
            Address::Server(way) => way.url.to_string(),
            Address::Bare(bare) => bare.to_string(),
        }
    }

    /// Its processes, where they are on this machine.
    pub fn server(&self) -> Option<&LocalServer> {
        self.server.as_ref()
    }

    /// How many threads a load may have: a bare loop blocks its thread.
    pub fn threads(&self) -> usize {
        match self.address {
            Address::Server(_) => std::thread::available_parallelism().map_or(1, usize::from),
            Address::Bare(_) => usize::MAX,
        }
    }
}

/// The address of a host that is this machine: loopback, or one a socket can be bound to.
fn local_address(url: &Url) -> Option<IpAddr> {
    let addresses = (url.host(), url.port()).to_socket_addrs().ok()?;
    let local = |address: &IpAddr| address.is_loopback() || std::net::UdpSocket::bind((*address, 0)).is_ok();
    addresses.map(|address| address.ip()).filter(|address| *address != IpAddr::V4(Ipv4Addr::UNSPECIFIED)).find(local)
}

/// The name of a job's file.
pub fn file_name(job: u32) -> String {
    format!("{FILE_PREFIX}{job}")
}
