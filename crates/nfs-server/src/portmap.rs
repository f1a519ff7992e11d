//! What a portmapper says (RFC 1833), on the server's own port and on port 111 where that is the server's: every program
//! is on one port, over TCP, and those that hosts still use over UDP there too. Nothing can be registered, and no other
//! program is called for anybody.

use std::net::SocketAddr;

use nfs_wire::portmap::{IPPROTO_TCP, IPPROTO_UDP, Mapping, PmapList, PmapProc, Rpcb, RpcbEntry, RpcbProc, to_uaddr};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, Chain, Put, Reader, Xdr};

use crate::failure::Halt;
use crate::files::Cx;
use crate::reply::ReplyWriter;

/// The programs that are served, without the portmapper, each with whether it is served over UDP too.
pub const PROGRAMS: [(u32, u32, bool); 9] = [
    (program::MOUNT, 1, true),
    (program::MOUNT, 3, true),
    (program::NFS, 3, false),
    (program::NFS, 4, false),
    (program::NFSACL, 3, false),
    (program::NLM, 1, true),
    (program::NLM, 3, true),
    (program::NLM, 4, true),
    (program::NSM, 1, true),
];
/// The portmapper's own versions.
const OWN: [u32; 3] = [2, 3, 4];
/// Who registered them, as rpcbind names it.
const OWNER: &[u8] = b"superuser";
/// Datagrams (NC_TPI_CLTS).
const DATAGRAMS: u32 = 1;
/// A stream with orderly release (NC_TPI_COTS_ORD).
const STREAM: u32 = 3;

/// Where the server listens, as it is told to those who ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listening {
    /// The port of all programs; 0 for the one that was asked.
    pub port: u16,
    /// It answers datagrams there.
    pub udp: bool,
    /// The portmapper's port is served too.
    pub portmapper: bool,
}

/// One program at one place.
#[derive(Clone, Copy)]
struct Place {
    program: u32,
    version: u32,
    udp: bool,
    port: u16,
}

impl Place {
    fn protocol(&self) -> u32 {
        if self.udp { IPPROTO_UDP } else { IPPROTO_TCP }
    }

    fn netid(&self, v6: bool) -> &'static [u8] {
        match (self.udp, v6) {
            (false, false) => b"tcp",
            (false, true) => b"tcp6",
            (true, false) => b"udp",
            (true, true) => b"udp6",
        }
    }
}

/// All there is, in the order of the programs.
fn places(cx: &Cx) -> Vec<Place> {
    let listening = cx.server.listening();
    let port = if listening.port == 0 { cx.local.port() } else { listening.port };
    let own = if listening.portmapper { nfs_wire::portmap::PORT } else { port };
    let all = OWN.iter().map(|version| (program::PORTMAP, *version, true, own));
    let all = all.chain(PROGRAMS.iter().map(|(program, version, udp)| (*program, *version, *udp, port)));
    let both = all.flat_map(|(program, version, udp, port)| {
        let place = |udp| Place { program, version, udp, port };
        [Some(place(false)), (udp && listening.udp).then(|| place(true))]
    });
    both.flatten().collect()
}

/// Where a program is. A client that asks for a version that is not there is told of the program all the same, and learns
/// the versions from it (RFC 1833 3.2), unless it wants to know exactly.
fn find(cx: &Cx, program: u32, version: Option<u32>, udp: bool) -> Option<Place> {
    let fits = |place: &Place| place.program == program && place.udp == udp;
    let exact = |place: &Place| version.is_none_or(|version| place.version == version);
    places(cx).into_iter().find(|place| fits(place) && exact(place))
}

/// Version 2.
pub fn pmap(procedure: PmapProc, cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    match procedure {
        PmapProc::Null => {}
        PmapProc::Set | PmapProc::Unset => {
            Mapping::decode(args)?;
            out.put_bool(false);
        }
        PmapProc::GetPort => {
            let asked = Mapping::decode(args)?;
            let known = [IPPROTO_TCP, IPPROTO_UDP].contains(&asked.protocol);
            let found = find(cx, asked.program, None, asked.protocol == IPPROTO_UDP).filter(|_| known);
            out.put_u32(found.map_or(0, |place| place.port.into()));
        }
        PmapProc::Dump => {
            let mapping = |place: Place| Mapping {
                program: place.program,
                version: place.version,
                protocol: place.protocol(),
                port: place.port.into(),
            };
            PmapList::new(&places(cx).into_iter().map(mapping).collect::<Vec<_>>()).put(out);
        }
        PmapProc::CallIt => return Err(Halt::Unavailable),
    }
    Ok(())
}

/// Versions 3 and 4.
pub fn rpcbind(
    procedure: RpcbProc,
    version: u32,
    cx: &Cx,
    args: &mut Reader<'_>,
    out: &mut ReplyWriter,
) -> Result<(), Halt> {
    match procedure {
        RpcbProc::Null => {}
        RpcbProc::Set | RpcbProc::Unset => {
            Rpcb::decode(args)?;
            out.put_bool(false);
        }
        RpcbProc::GetAddr => {
            let asked = Rpcb::decode(args)?;
            put_address(cx, find(cx, asked.program, None, wants_udp(&asked)), out);
        }
        RpcbProc::GetVersAddr if version == 4 => {
            let asked = Rpcb::decode(args)?;
            put_address(cx, find(cx, asked.program, Some(asked.version), wants_udp(&asked)), out);
        }
        RpcbProc::Dump => dump(cx, out),
        RpcbProc::GetAddrList if version == 4 => {
            let asked = Rpcb::decode(args)?;
            addresses(cx, asked.program, out);
        }
        RpcbProc::GetTime => out.put_u32(cx.server.env.clock.unix_secs()),
        // Calls to other programs, conversions nobody needs and statistics are not offered.
        _ => return Err(Halt::Unavailable),
    }
    Ok(())
}

fn wants_udp(asked: &Rpcb<'_>) -> bool {
    asked.netid.starts_with(b"udp")
}

fn is_v6(cx: &Cx) -> bool {
    cx.local.ip().to_canonical().is_ipv6()
}

fn address(cx: &Cx, place: Place) -> String {
    to_uaddr(SocketAddr::new(cx.local.ip().to_canonical(), place.port))
}

fn put_address(cx: &Cx, place: Option<Place>, out: &mut ReplyWriter) {
    out.put_opaque(place.map(|place| address(cx, place)).unwrap_or_default().as_bytes());
}

fn dump(cx: &Cx, out: &mut ReplyWriter) {
    let v6 = is_v6(cx);
    let all: Vec<_> = places(cx).into_iter().map(|place| (place, address(cx, place))).collect();
    let entries: Vec<_> = (all.iter())
        .map(|(place, address)| Rpcb {
            program: place.program,
            version: place.version,
            netid: Bounded(place.netid(v6)),
            address: Bounded(address.as_bytes()),
            owner: Bounded(OWNER),
        })
        .collect();
    Chain::new(&entries).put(out);
}

fn addresses(cx: &Cx, program: u32, out: &mut ReplyWriter) {
    let v6 = is_v6(cx);
    let found = [false, true].into_iter().filter_map(|udp| find(cx, program, None, udp));
    let found: Vec<_> = found.map(|place| (place, address(cx, place))).collect();
    let entries: Vec<_> = (found.iter())
        .map(|(place, address)| RpcbEntry {
            address: Bounded(address.as_bytes()),
            netid: Bounded(place.netid(v6)),
            semantics: if place.udp { DATAGRAMS } else { STREAM },
            family: Bounded(if v6 { b"inet6" } else { b"inet" }),
            protocol: Bounded(if place.udp { b"udp" } else { b"tcp" }),
        })
        .collect();
    Chain::new(&entries).put(out);
}
