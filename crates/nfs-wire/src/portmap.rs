//! The portmapper (version 2) and rpcbind (versions 3 and 4), RFC 1833: which program listens where. A server answers
//! it itself or registers with one that runs; a client asks it. Universal addresses are written and read here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::xdr::{Bounded, Chain};

/// The port both listen on.
pub const PORT: u16 = 111;

/// Transport numbers of [`Mapping`].
pub const IPPROTO_TCP: u32 = 6;
/// See [`IPPROTO_TCP`].
pub const IPPROTO_UDP: u32 = 17;

xdr_enum! {
    /// Procedures of version 2 (RFC 1833 3.2).
    pub enum PmapProc {
        /// Nothing.
        Null = 0,
        /// Registers a [`Mapping`]: answers a bool.
        Set = 1,
        /// Removes the mappings of a program and version: answers a bool.
        Unset = 2,
        /// The port of a program and version over a protocol: answers it, 0 for none.
        GetPort = 3,
        /// All: answers a [`Chain`] of [`Mapping`].
        Dump = 4,
        /// Calls another program; a server that is careful does not.
        CallIt = 5,
    }

    /// Procedures of versions 3 and 4 (RFC 1833 2.2.1).
    pub enum RpcbProc {
        /// Nothing.
        Null = 0,
        /// Registers an [`Rpcb`]: answers a bool.
        Set = 1,
        /// Removes: answers a bool.
        Unset = 2,
        /// The universal address of a program: answers a string, empty for none.
        GetAddr = 3,
        /// All: answers a [`Chain`] of [`Rpcb`].
        Dump = 4,
        /// Calls another program (BCAST in version 4).
        CallIt = 5,
        /// The server's time: answers seconds since 1970 as a word.
        GetTime = 6,
        /// A universal address as a netbuf.
        Uaddr2Taddr = 7,
        /// A netbuf as a universal address.
        Taddr2Uaddr = 8,
        /// Version 4: as `GetAddr`, that version of the program only.
        GetVersAddr = 9,
        /// Version 4: calls another program.
        Indirect = 10,
        /// Version 4: answers a [`Chain`] of [`RpcbEntry`].
        GetAddrList = 11,
        /// Version 4: statistics.
        GetStat = 12,
    }
}

xdr_struct! {
    /// What version 2 knows of a program (RFC 1833 3.1).
    pub struct Mapping {
        /// Program number.
        program: u32,
        /// Version.
        version: u32,
        /// [`IPPROTO_TCP`] or [`IPPROTO_UDP`].
        protocol: u32,
        /// Port; 0 in a question.
        port: u32,
    }

    /// What versions 3 and 4 know of a program (RFC 1833 2.1).
    pub struct Rpcb<'a> {
        /// Program number.
        program: u32,
        /// Version.
        version: u32,
        /// `tcp`, `udp`, `tcp6`, `udp6`, `local`.
        netid: Bounded<'a, 256>,
        /// Universal address.
        address: Bounded<'a, 256>,
        /// Who registered it.
        owner: Bounded<'a, 256>,
    }

    /// One of several addresses of a program (RFC 1833 2.1, `rpcb_entry`).
    pub struct RpcbEntry<'a> {
        /// Universal address.
        address: Bounded<'a, 256>,
        /// `tcp` and so on.
        netid: Bounded<'a, 256>,
        /// 1: datagrams, 2: a stream, 3: a stream with orderly release.
        semantics: u32,
        /// `inet`, `inet6`.
        family: Bounded<'a, 256>,
        /// `tcp`, `udp`.
        protocol: Bounded<'a, 256>,
    }
}

/// The answer to DUMP of version 2.
pub type PmapList<'a> = Chain<'a, Mapping>;

/// The answer to DUMP of versions 3 and 4.
pub type RpcbList<'a> = Chain<'a, Rpcb<'a>>;

/// An address as rpcbind writes it: the port's two bytes in decimal behind the host (RFC 5665 5.2.3).
pub fn to_uaddr(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// The address a universal address names.
pub fn from_uaddr(uaddr: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(uaddr).ok()?;
    let (rest, low) = text.rsplit_once('.')?;
    let (host, high) = rest.rsplit_once('.')?;
    let port = u16::from_be_bytes([decimal(high)?, decimal(low)?]);
    let ip = match host.parse::<Ipv4Addr>() {
        Ok(v4) => IpAddr::V4(v4),
        Err(_) => IpAddr::V6(host.parse::<Ipv6Addr>().ok()?),
    };
    Some(SocketAddr::new(ip, port))
}

fn decimal(text: &str) -> Option<u8> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};

    #[test]
    fn a_dump_by_hand() {
        let nfs = Mapping { program: 100_003, version: 3, protocol: IPPROTO_TCP, port: 2049 };
        let mount = Mapping { program: 100_005, version: 3, protocol: IPPROTO_UDP, port: 20048 };
        is_on_the_wire(&nfs, &unhex("000186a3 00000003 00000006 00000801"));
        is_on_the_wire(
            &PmapList::new(&[nfs, mount]),
            &unhex(
                "00000001 000186a3 00000003 00000006 00000801 00000001 000186a5 00000003 00000011 00004e50 00000000",
            ),
        );
    }

    #[test]
    fn an_rpcb_by_hand() {
        let rpcb = Rpcb {
            program: 100_003,
            version: 4,
            netid: Bounded(b"tcp"),
            address: Bounded(b"0.0.0.0.8.1"),
            owner: Bounded(b"su"),
        };
        let bytes = unhex("000186a3 00000004 00000003 74637000 0000000b 302e302e 302e302e 382e3100 00000002 73750000");
        is_on_the_wire(&rpcb, &bytes);
    }

    #[test]
    fn universal_addresses() {
        for (uaddr, address) in
            [("127.0.0.1.8.1", "127.0.0.1:2049"), ("::1.0.111", "[::1]:111"), ("fe80::2.255.255", "[fe80::2]:65535")]
        {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(to_uaddr(address), uaddr);
            assert_eq!(from_uaddr(uaddr.as_bytes()), Some(address));
        }
        for bad in ["", ".", "127.0.0.1", "127.0.0.1.8.256", "127.0.0.1.+8.1", "127.0.0.1.-1.1", "x.1.1", "1.2.3.4.5"] {
            assert_eq!(from_uaddr(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(from_uaddr(b"\xff\xfe.1.1"), None);
    }
}
