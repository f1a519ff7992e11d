//! What a portmapper says (RFC 1833) on the port of the server itself, for clients that ask there: every program is on
//! this port, over TCP. Nothing can be registered, and no other program is called for anybody.

use nfs_wire::portmap::{IPPROTO_TCP, Mapping, PmapList, PmapProc, Rpcb, RpcbEntry, RpcbProc, to_uaddr};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, Chain, Put, Reader, Xdr};

use crate::failure::Halt;
use crate::files::Cx;
use crate::reply::ReplyWriter;

/// What is served.
const PROGRAMS: [(u32, u32); 6] = [
    (program::PORTMAP, 2),
    (program::PORTMAP, 3),
    (program::PORTMAP, 4),
    (program::MOUNT, 1),
    (program::MOUNT, 3),
    (program::NFS, 3),
];
/// Who registered them, as rpcbind names it.
const OWNER: &[u8] = b"superuser";
/// A stream with orderly release (NC_TPI_COTS_ORD).
const STREAM: u32 = 3;

/// Version 2.
pub fn pmap(procedure: PmapProc, cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let port = u32::from(cx.local.port());
    match procedure {
        PmapProc::Null => {}
        PmapProc::Set | PmapProc::Unset => {
            Mapping::decode(args)?;
            out.put_bool(false);
        }
        PmapProc::GetPort => {
            let asked = Mapping::decode(args)?;
            let here = asked.protocol == IPPROTO_TCP && is_served(asked.program, asked.version);
            out.put_u32(if here { port } else { 0 });
        }
        PmapProc::Dump => {
            let all = PROGRAMS.map(|(program, version)| Mapping { program, version, protocol: IPPROTO_TCP, port });
            PmapList::new(&all).put(out);
        }
        PmapProc::CallIt => return Err(Halt::Unavailable),
    }
    Ok(())
}

/// A client that asks for a version that is not there is told of the program all the same, and learns the versions from
/// it (RFC 1833 3.2).
fn is_served(program: u32, _version: u32) -> bool {
    PROGRAMS.iter().any(|(p, _)| *p == program)
}

/// Versions 3 and 4.
pub fn rpcbind(
    procedure: RpcbProc,
    version: u32,
    cx: &Cx,
    args: &mut Reader<'_>,
    out: &mut ReplyWriter,
) -> Result<(), Halt> {
    let address = to_uaddr(cx.local);
    let v6 = cx.local.ip().to_canonical().is_ipv6();
    let netid: &[u8] = if v6 { b"tcp6" } else { b"tcp" };
    match procedure {
        RpcbProc::Null => {}
        RpcbProc::Set | RpcbProc::Unset => {
            Rpcb::decode(args)?;
            out.put_bool(false);
        }
        RpcbProc::GetAddr => {
            let asked = Rpcb::decode(args)?;
            let here = is_served(asked.program, asked.version);
            out.put_opaque(if here { address.as_bytes() } else { b"" });
        }
        RpcbProc::GetVersAddr if version == 4 => {
            let asked = Rpcb::decode(args)?;
            let here = PROGRAMS.contains(&(asked.program, asked.version));
            out.put_opaque(if here { address.as_bytes() } else { b"" });
        }
        RpcbProc::Dump => {
            let all = PROGRAMS.map(|(program, version)| Rpcb {
                program,
                version,
                netid: Bounded(netid),
                address: Bounded(address.as_bytes()),
                owner: Bounded(OWNER),
            });
            Chain::new(&all).put(out);
        }
        RpcbProc::GetAddrList if version == 4 => {
            let asked = Rpcb::decode(args)?;
            let entry = RpcbEntry {
                address: Bounded(address.as_bytes()),
                netid: Bounded(netid),
                semantics: STREAM,
                family: Bounded(if v6 { b"inet6" } else { b"inet" }),
                protocol: Bounded(b"tcp"),
            };
            let all: &[RpcbEntry<'_>] = if is_served(asked.program, asked.version) { &[entry] } else { &[] };
            Chain::new(all).put(out);
        }
        RpcbProc::GetTime => out.put_u32(cx.server.env.clock.unix_secs()),
        // Calls to other programs, conversions nobody needs and statistics are not offered.
        _ => return Err(Halt::Unavailable),
    }
    Ok(())
}
