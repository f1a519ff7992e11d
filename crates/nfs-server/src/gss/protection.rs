//! What protects one call and its reply (RFC 2203 5.3): the arguments are taken out of it, the results put into it, and
//! every reply to a call that was accepted carries the server's signature over the call's number.

use std::sync::Arc;

use nfs_wire::rpc::{
    AcceptStat, Flavor, GssIntegrity, GssPrivacy, GssService, OpaqueAuth, put_failed_verified, put_success_verified,
};
use nfs_wire::xdr::{Bounded, Put, Reader, Xdr, offset_in};
use vfs::{Buf, Frame};

use super::contexts::Held;
use crate::connection::Inner;
use crate::datagram::put_refused;
use crate::dispatch::Refused;
use crate::env::Random;
use crate::reply::ReplyWriter;
use crate::server::Server;

/// The number before arguments and results.
const NUMBER_BYTES: usize = 4;

/// Signing or sealing so much is done beside the connection's thread, where a core has nothing to do.
const LARGE_BYTES: usize = 128 << 10;

/// What protects a call.
#[derive(Clone)]
pub(crate) struct Protection {
    context: Arc<Held>,
    sequence: u32,
    service: GssService,
    random: Random,
}

impl Protection {
    pub(super) fn new(server: &Server, context: Arc<Held>, sequence: u32, service: GssService) -> Self {
        Self { context, sequence, service, random: Arc::clone(&server.env.random) }
    }

    /// Whether results are signed or sealed, and must be in memory for it.
    pub fn is_of_results(&self) -> bool {
        self.service != GssService::None
    }

    /// The arguments: the record or a part of it, or what was sealed in it, and where they begin. `None` when they are
    /// not what the client sent, or of another call (RFC 2203 5.3.3.4.2, 5.3.3.4.3).
    pub(super) async fn open(&self, conn: &Inner, frame: &Frame, args_at: usize) -> Option<(Frame, usize)> {
        if !self.goes_beside(conn, frame.len()) {
            return self.open_here(frame, args_at);
        }
        let (protection, frame) = (self.clone(), frame.clone());
        conn.offload(move || protection.open_here(&frame, args_at)).await?
    }

    fn open_here(&self, frame: &Frame, args_at: usize) -> Option<(Frame, usize)> {
        let mut r = Reader::new(frame.get(args_at..)?);
        match self.service {
            GssService::None => Some((frame.clone(), args_at)),
            GssService::Integrity => {
                let signed = GssIntegrity::decode(&mut r).ok()?;
                self.context.security.verify(&[signed.body], signed.checksum).ok()?;
                self.must_be_numbered(signed.body)?;
                let at = offset_in(frame, signed.body)?;
                Some((frame.part(at..at + signed.body.len())?, NUMBER_BYTES))
            }
            GssService::Privacy => {
                let sealed = GssPrivacy::decode(&mut r).ok()?;
                let opened = self.context.security.unwrap(sealed).ok().filter(|opened| opened.sealed)?;
                self.must_be_numbered(&opened)?;
                let mut buf = Buf::unpooled(opened.len());
                buf.push(&opened);
                Some((Frame::from(buf), NUMBER_BYTES))
            }
        }
    }

    fn goes_beside(&self, conn: &Inner, len_bytes: usize) -> bool {
        self.is_of_results() && len_bytes >= LARGE_BYTES && (conn.shard.idle_cores)() > 0
    }

    fn must_be_numbered(&self, body: &[u8]) -> Option<()> {
        (*body.first_chunk::<NUMBER_BYTES>()? == self.sequence.to_be_bytes()).then_some(())
    }

    /// Appends the header of a reply, and what stands before the results.
    pub fn begin_results(&self, xid: u32, out: &mut ReplyWriter) {
        self.verified(|verifier| put_success_verified(xid, verifier, out));
        if self.service == GssService::Integrity {
            // How long it is comes later.
            out.put_u32(0);
            out.put_u32(self.sequence);
        }
    }

    /// Protects the results, which were appended from `begin` on; false when the worker that was to do it is gone.
    pub async fn end_results(&self, conn: &Inner, begin: usize, out: &mut ReplyWriter) -> bool {
        if !self.goes_beside(conn, out.len()) {
            self.end_here(begin, out);
            return true;
        }
        let (protection, mut lent) = (self.clone(), out.lend());
        let done = conn.offload(move || {
            protection.end_here(begin, &mut lent);
            lent
        });
        done.await.map(|lent| *out = lent).is_some()
    }

    fn end_here(&self, begin: usize, out: &mut ReplyWriter) {
        match self.service {
            GssService::None => {}
            GssService::Integrity => {
                let at = begin.saturating_sub(NUMBER_BYTES);
                let body = out.since(at);
                let (len, signature) = (body.len(), self.context.security.sign(&[body]));
                out.patch_u32(at.saturating_sub(4), len as u32);
                out.put_opaque(&signature);
            }
            GssService::Privacy => {
                let (mut confounder, mut sealed) = ([0; 16], Vec::new());
                (self.random)(&mut confounder);
                let parts = [&self.sequence.to_be_bytes()[..], out.since(begin)];
                self.context.security.seal(&parts, confounder, &mut sealed);
                out.truncate(begin);
                out.put_opaque(&sealed);
            }
        }
    }

    /// Appends the reply to a call that is not done.
    pub(super) fn put_refused(&self, xid: u32, why: &Refused, out: &mut ReplyWriter) {
        let (stat, versions) = match *why {
            Refused::ProgUnavail => (AcceptStat::ProgUnavail, None),
            Refused::ProgMismatch(low, high) => (AcceptStat::ProgMismatch, Some((low, high))),
            Refused::ProcUnavail => (AcceptStat::ProcUnavail, None),
            Refused::GarbageArgs => (AcceptStat::GarbageArgs, None),
            Refused::SystemErr => (AcceptStat::SystemErr, None),
            // It was not accepted: nothing is signed.
            Refused::RpcMismatch | Refused::Auth(_) => return put_refused(xid, why, out),
        };
        self.verified(|verifier| put_failed_verified(xid, verifier, stat, versions, out));
    }

    /// Hands out the verifier of a reply.
    fn verified(&self, put: impl FnOnce(&OpaqueAuth<'_>)) {
        let signature = self.context.security.sign(&[&self.sequence.to_be_bytes()]);
        put(&OpaqueAuth { flavor: Flavor::GSS, body: Bounded(&signature) });
    }
}
