//! The machine's network interfaces, for clients that connect over several of them (SMB multichannel). `assembly` hands
//! the list to the SMB server, which asks for it anew each time a client does.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use smb_server::NetworkInterface;

/// What an interface is taken for that does not tell its speed.
const UNKNOWN_MBIT: u64 = 1000;

/// The addresses at which a server that listens at `listening` is reached, with their interfaces.
pub fn reachable(listening: &[SocketAddr]) -> Vec<NetworkInterface> {
    let found: Vec<(String, IpAddr)> = match getifaddrs() {
        Ok(all) => all.filter(is_up).filter_map(|i| Some((i.interface_name.clone(), address(&i)?))).collect(),
        Err(error) => {
            tracing::debug!(%error, "the network interfaces cannot be listed");
            Vec::new()
        }
    };
    let addresses = choose(listening, &found.iter().map(|(_, address)| *address).collect::<Vec<_>>());
    found.iter().filter(|(_, address)| addresses.contains(address)).map(|(name, a)| describe(name, *a)).collect()
}

fn is_up(interface: &InterfaceAddress) -> bool {
    interface.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING)
}

fn address(interface: &InterfaceAddress) -> Option<IpAddr> {
    let address = interface.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

/// Which of the machine's addresses are served: those listened at by name, and where everything is listened at all that
/// another machine can use, or what there is when there are none.
fn choose(listening: &[SocketAddr], all: &[IpAddr]) -> Vec<IpAddr> {
    let named = |a: &IpAddr| listening.iter().any(|l| l.ip() == *a);
    let anywhere = |a: &IpAddr| listening.iter().any(|l| l.ip().is_unspecified() && (l.is_ipv6() || a.is_ipv4()));
    let usable = |a: &IpAddr| !a.is_loopback() && !is_link_local(a);
    let chosen: Vec<_> = all.iter().copied().filter(|a| named(a) || anywhere(a) && usable(a)).collect();
    if chosen.is_empty() { all.iter().copied().filter(|a| anywhere(a) && a.is_loopback()).collect() } else { chosen }
}

fn is_link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn describe(name: &str, address: IpAddr) -> NetworkInterface {
    let directory = Path::new("/sys/class/net").join(name);
    // An interface without a link has the speed -1 or an error for one.
    let speed = fs::read_to_string(directory.join("speed")).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let megabits = speed.filter(|&mbit| mbit != 0 && mbit < u64::from(u32::MAX)).unwrap_or(UNKNOWN_MBIT);
    let queues = fs::read_dir(directory.join("queues")).into_iter().flatten().flatten();
    let receiving = queues.filter(|q| q.file_name().as_encoded_bytes().starts_with(b"rx-")).count();
    NetworkInterface {
        index: if_nametoindex(name).unwrap_or(0),
        rss: receiving > 1,
        bits_per_second: megabits * 1_000_000,
        address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(listening: &[&str], all: &[&str]) -> Vec<String> {
        let listening: Vec<_> = listening.iter().map(|l| l.parse().unwrap()).collect();
        let all: Vec<_> = all.iter().map(|a| a.parse().unwrap()).collect();
        choose(&listening, &all).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_listened_at_is_listed() {
        let all = ["127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "fe80::1"];
        assert_eq!(chosen(&["[::]:445"], &all), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(chosen(&["0.0.0.0:445"], &all), ["192.0.2.1"]);
        assert_eq!(chosen(&["127.0.0.1:445"], &all), ["127.0.0.1"]);
        assert_eq!(chosen(&["127.0.0.1:445", "192.0.2.1:445"], &all), ["127.0.0.1", "192.0.2.1"]);
        assert_eq!(chosen(&["[::]:445"], &["127.0.0.1", "::1"]), ["127.0.0.1", "::1"]);
        assert_eq!(chosen(&["198.51.100.1:445"], &all), Vec::<String>::new());
    }

    #[test]
    fn the_loopback_interface_is_found() {
        let listed = reachable(&["127.0.0.1:1".parse().unwrap()]);
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].address, IpAddr::from([127, 0, 0, 1]));
        assert!(listed[0].index > 0 && listed[0].bits_per_second > 0);
    }
}
