//! Where the server listens: the addresses that were asked for, the fall-back from port 445, and what to tell a person
//! when an address cannot be had. `serve` calls it with a way to bind one address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use transport::{ListenOptions, SocketOption};

use crate::config::{Config, DataPath};
use crate::failure::Failure;

/// The port every SMB client tries.
pub const SMB_PORT: u16 = 445;
/// Where SMB is served by a process that may not have [`SMB_PORT`].
const OTHER_PORT: u16 = 4450;

/// What to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// These addresses, all of them.
    At(Vec<SocketAddr>),
    /// All addresses, on port 445 if it can be had.
    Public,
}

impl Listen {
    /// As the configuration says.
    pub fn configured(config: &Config) -> Self {
        Self::At(config.server.smb.clone())
    }

    /// Binds what was asked for, by way of `bind`, and answers the addresses that are served.
    pub fn bind(&self, bind: impl Fn(SocketAddr) -> io::Result<SocketAddr>) -> Result<Vec<SocketAddr>, Failure> {
        match self {
            Self::At(addresses) => {
                addresses.iter().map(|a| bind(*a).map_err(|error| cannot_listen(*a, &error, "--smb"))).collect()
            }
            Self::Public => public(bind).map(|address| vec![address]),
        }
    }
}

fn public(bind: impl Fn(SocketAddr) -> io::Result<SocketAddr>) -> Result<SocketAddr, Failure> {
    match everywhere(&bind, SMB_PORT) {
        Ok(address) => return Ok(address),
        Err(error) => {
            let why = match error.kind() {
                io::ErrorKind::PermissionDenied => "this process may not have it (root or CAP_NET_BIND_SERVICE may)",
                io::ErrorKind::AddrInUse => "another program has it",
                _ => return Err(cannot_listen((Ipv6Addr::UNSPECIFIED, SMB_PORT).into(), &error, "--smb")),
            };
            tracing::warn!(
                "port {SMB_PORT} is not served: {why}; port {OTHER_PORT} is used, which Windows before 11 24H2 cannot reach"
            );
        }
    }
    everywhere(&bind, OTHER_PORT)
        .map_err(|error| cannot_listen((Ipv6Addr::UNSPECIFIED, OTHER_PORT).into(), &error, "--smb"))
}

/// Both families at once, or IPv4 on a machine without IPv6.
fn everywhere(bind: impl Fn(SocketAddr) -> io::Result<SocketAddr>, port: u16) -> io::Result<SocketAddr> {
    match bind((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::AddrInUse) => {
            bind((Ipv4Addr::UNSPECIFIED, port).into())
        }
        other => other,
    }
}

/// How connections' sockets are to be.
pub fn options(path: &DataPath) -> ListenOptions {
    ListenOptions {
        congestion: path.congestion_control.clone(),
        send_buffer_bytes: path.send_buffer_bytes,
        receive_buffer_bytes: path.receive_buffer_bytes,
        no_delay: path.no_delay,
        busy_poll: path.busy_poll_us.map(|us| Duration::from_micros(us.into())),
        join_pages_below_bytes: path.join_pages_below_bytes.unwrap_or(0),
        gather: path.gather_requests,
        await_large: path.await_large_requests,
    }
}

/// What of that this system does not do: the keys, and why.
pub fn refused_options(path: &DataPath) -> io::Result<Vec<(&'static str, String)>> {
    let key = |option| match option {
        SocketOption::Congestion => "congestion_control",
        SocketOption::SendBuffer => "send_buffer_bytes",
        SocketOption::ReceiveBuffer => "receive_buffer_bytes",
        SocketOption::BusyPoll => "busy_poll_us",
    };
    Ok(options(path).refused()?.into_iter().map(|refused| (key(refused.option), refused.why)).collect())
}

/// Why an address that `option` asked for is not served, and what to do.
pub fn cannot_listen(address: SocketAddr, error: &io::Error, option: &str) -> Failure {
    let port = address.port();
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another program listens there (`ss -ltnp 'sport = :{port}'` shows which); stop it, or choose another \
             address with {option} ADDR:PORT"
        ),
        io::ErrorKind::PermissionDenied if port < 1024 => format!(
            "ports below 1024 need root or the capability CAP_NET_BIND_SERVICE; choose another port, such as \
             {option} {}",
            SocketAddr::from((address.ip(), port + 4005))
        ),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address (`ip address` lists those it has)".into(),
        _ => error.to_string(),
    };
    Failure::system(format!("cannot listen on {address}: {advice}"))
}

/// The address another machine, or this one, can reach `bound` by.
pub fn reachable(bound: SocketAddr) -> IpAddr {
    if !bound.ip().is_unspecified() {
        return bound.ip();
    }
    // The route's own address; connecting a datagram socket sends nothing. The target is kept for documentation
    // (RFC 5737) and never reached.
    let own = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).and_then(|()| socket.local_addr()));
    own.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(free: &[&str]) -> impl Fn(SocketAddr) -> io::Result<SocketAddr> {
        let free: Vec<SocketAddr> = free.iter().map(|a| a.parse().unwrap()).collect();
        move |address| match free.contains(&address) {
            true => Ok(address),
            false if address.port() == SMB_PORT => Err(io::ErrorKind::PermissionDenied.into()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    #[test]
    fn public_takes_445_and_falls_back() {
        let bound = |free: &[&str]| Listen::Public.bind(only(free)).map(|b| b[0].to_string());
        assert_eq!(bound(&["[::]:445", "[::]:4450"]).unwrap(), "[::]:445");
        assert_eq!(bound(&["[::]:4450"]).unwrap(), "[::]:4450");
        assert_eq!(bound(&["0.0.0.0:4450"]).unwrap(), "0.0.0.0:4450", "a machine without IPv6");
        assert_eq!(bound(&[]).unwrap_err().code(), 1);
    }

    #[test]
    fn what_cannot_be_had_is_said_with_what_to_do() {
        let listen = Listen::At(vec!["127.0.0.1:445".parse().unwrap()]);
        let failure = listen.bind(only(&[])).unwrap_err();
        let line = failure.lines().next().unwrap();
        assert!(line.contains("127.0.0.1:445") && line.contains("--smb 127.0.0.1:4450"), "{line}");
        let taken = cannot_listen("127.0.0.1:4450".parse().unwrap(), &io::ErrorKind::AddrInUse.into(), "--smb");
        assert!(taken.lines().next().unwrap().contains("ss -ltnp"));
    }

    #[test]
    fn a_bound_address_is_its_own_and_any_address_is_one_that_exists() {
        assert_eq!(reachable("127.0.0.1:1".parse().unwrap()), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(!reachable("0.0.0.0:1".parse().unwrap()).is_unspecified());
    }
}
