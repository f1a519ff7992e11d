//! Calling a program of a client: its rpcbind says where the program is (RFC 1833), over TCP if it is there, else over
//! UDP. Used for what lock managers and status monitors tell each other. Nothing here waits.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use nfs_wire::portmap::{self, IPPROTO_TCP, IPPROTO_UDP, Mapping, PmapProc, Rpcb, RpcbProc, from_uaddr};
use nfs_wire::rpc::{AuthSys, Call, Flavor, OpaqueAuth, Outcome, Reply, program};
use nfs_wire::xdr::{Bounded, List, Reader, Xdr, to_vec};

use crate::env::{Dialer, OnReply};

/// How rpcbind is asked, and for which transport of the program, one after the other.
const WAYS: [(Via, Via); 4] = [(Via::Tcp, Via::Tcp), (Via::Udp, Via::Tcp), (Via::Tcp, Via::Udp), (Via::Udp, Via::Udp)];

static LAST_XID: AtomicU32 = AtomicU32::new(0x4c53_0000);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Via {
    Tcp,
    Udp,
}

/// What is to be called.
pub(crate) struct Errand {
    pub host: IpAddr,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub args: Vec<u8>,
}

/// Calls it; `done` gets the results' bytes, or nothing when nobody answers.
pub(crate) fn call(dialer: &Arc<dyn Dialer>, errand: Errand, done: OnReply) {
    go(Arc::clone(dialer), errand, 0, done);
}

fn go(dialer: Arc<dyn Dialer>, errand: Errand, way: usize, done: OnReply) {
    let Some(&(ask, via)) = WAYS.get(way) else { return done(None) };
    let question = question(&errand, via);
    let next = Arc::clone(&dialer);
    let at = SocketAddr::new(errand.host, portmap::PORT);
    let asked = move |reply: Option<Vec<u8>>| {
        let Some(port) = reply.as_deref().and_then(results).and_then(|found| port_of(&errand, found)) else {
            return go(next, errand, way + 1, done);
        };
        let args = errand.args.clone();
        let record = record(errand.program, errand.version, errand.procedure, &args);
        let to = SocketAddr::new(errand.host, port);
        let again = Arc::clone(&next);
        let told = move |reply: Option<Vec<u8>>| match reply.as_deref().and_then(results) {
            Some(found) => done(Some(found.to_vec())),
            None => go(again, errand, way + 1, done),
        };
        send(&next, via, to, record, Box::new(told));
    };
    send(&dialer, ask, at, question, Box::new(asked));
}

fn send(dialer: &Arc<dyn Dialer>, via: Via, to: SocketAddr, record: Vec<u8>, done: OnReply) {
    match via {
        Via::Tcp => dialer.call(to, record, done),
        Via::Udp => dialer.datagram(to, record, done),
    }
}

/// Version 2 knows IPv4 only.
fn question(errand: &Errand, via: Via) -> Vec<u8> {
    let (program, version) = (errand.program, errand.version);
    if errand.host.to_canonical().is_ipv4() {
        let protocol = if via == Via::Tcp { IPPROTO_TCP } else { IPPROTO_UDP };
        let mapping = Mapping { program, version, protocol, port: 0 };
        return record(program::PORTMAP, 2, PmapProc::GetPort as u32, &to_vec(&mapping));
    }
    let netid: &[u8] = if via == Via::Tcp { b"tcp6" } else { b"udp6" };
    let asked = Rpcb { program, version, netid: Bounded(netid), address: Bounded(b""), owner: Bounded(b"") };
    record(program::PORTMAP, 4, RpcbProc::GetAddr as u32, &to_vec(&asked))
}

fn port_of(errand: &Errand, found: &[u8]) -> Option<u16> {
    let mut r = Reader::new(found);
    let port = match errand.host.to_canonical().is_ipv4() {
        true => u16::try_from(r.u32().ok()?).ok()?,
        false => from_uaddr(&Bounded::<'_, 256>::decode(&mut r).ok()?)?.port(),
    };
    (port > 0).then_some(port)
}

fn record(program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
    let body =
        AuthSys { stamp: 0, machine_name: Bounded(b"longshore"), uid: 0, gid: 0, gids: List::new(&[]) }.to_body();
    let credential = OpaqueAuth { flavor: Flavor::SYS, body: Bounded(&body) };
    let xid = LAST_XID.fetch_add(1, Relaxed);
    let mut out = Vec::new();
    Call { xid, program, version, procedure, credential, verifier: OpaqueAuth::NONE }.put(&mut out);
    out.extend_from_slice(args);
    out
}

fn results(reply: &[u8]) -> Option<&[u8]> {
    let mut r = Reader::new(reply);
    match Reply::decode(&mut r).ok()?.outcome {
        Outcome::Success { .. } => Some(r.rest()),
        _ => None,
    }
}
