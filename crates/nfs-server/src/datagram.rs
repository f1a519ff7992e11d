//! One call in a datagram, for the programs that hosts still use over UDP: the portmapper, MOUNT, the lock manager and the
//! status monitor. `Server::datagram` is called by the thread that owns the socket, and may wait.

use std::net::SocketAddr;
use std::sync::Arc;

use nfs_wire::rpc::{
    BadCall, Call, Credential, Flavor, put_auth_error, put_garbage_args, put_proc_unavail, put_prog_mismatch,
    put_prog_unavail, put_rpc_mismatch, put_success, put_system_err,
};
use nfs_wire::xdr::{Put, Reader};
use vfs::{BufPool, Wait};

use crate::config::Caller;
use crate::dispatch::{self, Refused};
use crate::failure::Halt;
use crate::files::Cx;
use crate::reply::ReplyWriter;
use crate::server::Server;

/// What a reply may hold: a datagram's most on any network, and less than makes the server a lever against others.
const MOST_REPLY_BYTES: usize = 8 << 10;

impl Server {
    /// Answers the call in `datagram`; nothing for what is no call, or comes from a host that may mount nothing.
    pub fn datagram(self: &Arc<Self>, peer: SocketAddr, local: SocketAddr, datagram: &[u8]) -> Option<Vec<u8>> {
        if !self.knows(peer) {
            return None;
        }
        let mut r = Reader::new(datagram);
        let (xid, done) = match Call::decode(&mut r) {
            Ok(call) => (call.xid, answer(self, peer, local, &call, &mut r)),
            Err(BadCall::RpcMismatch { xid }) => (xid, Err(Refused::RpcMismatch)),
            Err(BadCall::Auth { xid, stat }) => (xid, Err(Refused::Auth(stat))),
            Err(BadCall::Reply | BadCall::Malformed(_)) => return None,
        };
        let mut out = Vec::new();
        match done {
            Ok(None) => return None,
            Ok(Some(results)) => {
                put_success(xid, &mut out);
                out.extend_from_slice(&results);
            }
            Err(refused) => put_refused(xid, &refused, &mut out),
        }
        Some(out)
    }
}

fn answer(
    server: &Arc<Server>,
    peer: SocketAddr,
    local: SocketAddr,
    call: &Call<'_>,
    args: &mut Reader<'_>,
) -> Result<Option<Vec<u8>>, Refused> {
    let procedure = dispatch::procedure(call)?;
    if !dispatch::is_for_datagrams(procedure) {
        return Err(Refused::ProgUnavail);
    }
    let caller = match Credential::parse(&call.credential).map_err(Refused::Auth)? {
        Credential::Sys(sys) => Caller::sys(&sys),
        _ if call.credential.flavor == Flavor::NONE => Caller::default(),
        _ => return Err(Refused::Auth(nfs_wire::rpc::AuthStat::BadCred)),
    };
    let cx = Cx { server: Arc::clone(server), peer, local, caller: Arc::new(caller), wait: Wait::Allowed };
    let mut out = ReplyWriter::new(&BufPool::new(0), dispatch::SMALL_REPLY_BYTES);
    let begin = out.len();
    match dispatch::run(procedure, &cx, args, &mut out) {
        Ok(()) if out.len() - begin > MOST_REPLY_BYTES => Err(Refused::SystemErr),
        Ok(()) => Ok(Some(out.since(begin).to_vec())),
        Err(Halt::Silent) => Ok(None),
        Err(Halt::Malformed) => Err(Refused::GarbageArgs),
        Err(Halt::Unavailable) => Err(Refused::ProcUnavail),
        Err(Halt::TooWeak) => Err(Refused::Auth(nfs_wire::rpc::AuthStat::TooWeak)),
        Err(Halt::WouldBlock | Halt::Lost) => Err(Refused::SystemErr),
    }
}

/// The reply that says why nothing was done.
pub(crate) fn put_refused(xid: u32, why: &Refused, out: &mut (impl Put + ?Sized)) {
    match *why {
        Refused::RpcMismatch => put_rpc_mismatch(xid, out),
        Refused::Auth(stat) => put_auth_error(xid, stat, out),
        Refused::ProgUnavail => put_prog_unavail(xid, out),
        Refused::ProgMismatch(low, high) => put_prog_mismatch(xid, low, high, out),
        Refused::ProcUnavail => put_proc_unavail(xid, out),
        Refused::GarbageArgs => put_garbage_args(xid, out),
        Refused::SystemErr => put_system_err(xid, out),
    }
}
