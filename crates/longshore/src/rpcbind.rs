//! Registering with the rpcbind of this machine (RFC 1833), through its local socket, as whom rpcbind lets anybody
//! register who has not got root's programs in the way; and taking it back at the end. `nfs` calls it where port 111 is
//! not the server's own.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nfs_server::PROGRAMS;
use nfs_wire::portmap::{Rpcb, RpcbProc, from_uaddr, to_uaddr};
use nfs_wire::rpc::{Call, FragmentHeader, OpaqueAuth, Outcome, Reply, program};
use nfs_wire::xdr::{Bounded, Reader, to_vec};

/// Where rpcbind listens.
const SOCKETS: [&str; 2] = ["/run/rpcbind.sock", "/var/run/rpcbind.sock"];
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// No answer to what is asked here is longer.
const MOST_REPLY_BYTES: usize = 4 << 10;
/// The version that a local socket is for.
const VERSION: u32 = 4;

/// What was registered; taken back when it is dropped.
pub struct Registered(Vec<Entry>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    program: u32,
    version: u32,
    netid: &'static str,
    address: String,
}

/// Registers the programs that are served at `addresses`. `udp`: datagrams are answered there too. What another program
/// has registered stays its.
pub fn register(addresses: &[SocketAddr], udp: bool) -> io::Result<Registered> {
    let mut talk = Talk::begin()?;
    let mut registered = Registered(Vec::new());
    for entry in entries(addresses, udp) {
        if set(&mut talk, &entry)? {
            registered.0.push(entry);
        } else {
            tracing::warn!(
                program = entry.program,
                version = entry.version,
                netid = entry.netid,
                "another program is registered with rpcbind for this; `rpcinfo -p` shows what is"
            );
        }
    }
    Ok(registered)
}

/// Whether rpcbind, if there is one, names a server of this program over TCP.
pub fn names(program: u32) -> io::Result<bool> {
    let mut talk = match Talk::begin() {
        Ok(talk) => talk,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let found = talk.ask(RpcbProc::GetAddr, &Entry { program, version: 0, netid: "tcp", address: String::new() })?;
    Ok(Reader::new(&found).opaque(256).is_ok_and(|place| !place.is_empty()))
}

impl Drop for Registered {
    fn drop(&mut self) {
        let taken_back = Talk::begin()
            .and_then(|mut talk| self.0.iter().try_for_each(|entry| talk.ask(RpcbProc::Unset, entry).map(drop)));
        if let Err(error) = taken_back {
            tracing::warn!(%error, "rpcbind goes on naming this server");
        }
    }
}

/// An entry that is there already is taken over when nobody listens there any more: a server that was killed left it.
fn set(talk: &mut Talk, entry: &Entry) -> io::Result<bool> {
    if talk.ask(RpcbProc::Set, entry)?.as_slice() == TRUE {
        return Ok(true);
    }
    let found = talk.ask(RpcbProc::GetAddr, entry)?;
    let place = Reader::new(&found).opaque(256).ok().and_then(from_uaddr);
    let place = place.map(|place| if place.ip().is_unspecified() { own(place) } else { place });
    if place.is_some_and(|place| TcpStream::connect_timeout(&place, PATIENCE).is_ok()) {
        return Ok(false);
    }
    talk.ask(RpcbProc::Unset, entry)?;
    Ok(talk.ask(RpcbProc::Set, entry)?.as_slice() == TRUE)
}

const TRUE: [u8; 4] = [0, 0, 0, 1];

fn own(place: SocketAddr) -> SocketAddr {
    let ip = if place.is_ipv4() { IpAddr::from([127, 0, 0, 1]) } else { IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1]) };
    SocketAddr::new(ip, place.port())
}

/// What there is to register. The unspecified address of IPv6 is IPv4's as well.
fn entries(addresses: &[SocketAddr], udp: bool) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    for address in addresses {
        let both = address.is_ipv6() && address.ip().is_unspecified();
        let v4 = both.then(|| SocketAddr::new(IpAddr::from([0, 0, 0, 0]), address.port()));
        for place in v4.into_iter().chain([*address]) {
            let netids = if place.is_ipv4() { ["tcp", "udp"] } else { ["tcp6", "udp6"] };
            for (program, version, over_udp) in PROGRAMS {
                let [tcp_id, udp_id] = netids;
                let wanted = [Some(tcp_id), (udp && over_udp).then_some(udp_id)];
                for netid in wanted.into_iter().flatten() {
                    let known = |e: &Entry| (e.program, e.version, e.netid) == (program, version, netid);
                    // Of several addresses of one family the first is named: there is room for one.
                    if !all.iter().any(known) {
                        all.push(Entry { program, version, netid, address: to_uaddr(place) });
                    }
                }
            }
        }
    }
    all
}

/// A conversation with rpcbind.
struct Talk {
    stream: UnixStream,
    xid: u32,
}

impl Talk {
    fn begin() -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for path in SOCKETS {
            match UnixStream::connect(path) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(Self { stream, xid: std::process::id() });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The results' bytes.
    fn ask(&mut self, procedure: RpcbProc, entry: &Entry) -> io::Result<Vec<u8>> {
        self.xid = self.xid.wrapping_add(1);
        let owner = rustix::process::geteuid().as_raw().to_string();
        let args = to_vec(&Rpcb {
            program: entry.program,
            version: entry.version,
            netid: Bounded(entry.netid.as_bytes()),
            address: Bounded(entry.address.as_bytes()),
            owner: Bounded(owner.as_bytes()),
        });
        let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
        let (program, procedure) = (program::PORTMAP, procedure as u32);
        let mut record = Vec::new();
        Call { xid: self.xid, program, version: VERSION, procedure, credential, verifier }.put(&mut record);
        record.extend_from_slice(&args);
        let mark = FragmentHeader { last: true, len_bytes: u32::try_from(record.len()).unwrap_or(u32::MAX) };
        self.stream.write_all(&[&mark.to_bytes()[..], &record].concat())?;
        let reply = self.reply()?;
        let mut r = Reader::new(&reply);
        match Reply::decode(&mut r) {
            Ok(Reply { outcome: Outcome::Success { .. }, .. }) => Ok(r.rest().to_vec()),
            _ => Err(io::Error::other("rpcbind did not understand")),
        }
    }

    fn reply(&mut self) -> io::Result<Vec<u8>> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let FragmentHeader { last, len_bytes } = FragmentHeader::from_bytes(mark);
        let len = len_bytes as usize;
        if !last || len > MOST_REPLY_BYTES {
            return Err(io::Error::other("an answer that is none"));
        }
        let mut reply = vec![0; len];
        self.stream.read_exact(&mut reply)?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_named_once_for_each_transport() {
        let named = |addresses: &[&str], udp| {
            let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            entries(&addresses, udp)
        };
        let both = named(&["[::]:2049"], true);
        let has = |netid, program, address: &str| {
            both.iter().any(|e| (e.netid, e.program, e.address.as_str()) == (netid, program, address))
        };
        assert!(has("tcp", program::NFS, "0.0.0.0.8.1") && has("tcp6", program::NFS, "::.8.1"));
        assert!(has("udp", program::NLM, "0.0.0.0.8.1") && !has("udp", program::NFS, "0.0.0.0.8.1"));
        let tcp_only = named(&["127.0.0.1:2049", "192.0.2.1:2050"], false);
        assert!(tcp_only.iter().all(|e| e.netid == "tcp" && e.address == "127.0.0.1.8.1"));
        assert_eq!(tcp_only.len(), PROGRAMS.len());
    }
}
