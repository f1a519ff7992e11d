//! Calls that come with Kerberos: RPCSEC_GSS (RFC 2203). A context is begun and ended by calls of their own; any other is
//! taken out of what protects it, done as whoever began its context, and its results are protected the same way.
//! `dispatch` comes here by the credential's flavor. Contexts are the server's, and good on any connection.

mod contexts;
mod people;
mod protection;
mod window;

use std::rc::Rc;
use std::sync::Arc;

use auth::krb5::Acceptor;
use nfs_wire::rpc::{
    AuthStat, Call, Flavor, GssCred, GssInitArgs, GssInitRes, GssProc, GssService, MAX_GSS_SEQUENCE, OpaqueAuth,
    put_success, put_success_verified, signed_header_bytes,
};
use nfs_wire::xdr::{Bounded, Reader, Xdr, decode_all};
use vfs::{Frame, Wait};

use crate::Env;
use crate::connection::Inner;
use crate::dispatch::{self, Job, Refused, SMALL_REPLY_BYTES};
use crate::files::Cx;
use crate::reply::ReplyWriter;
use crate::server::Server;

use contexts::{Contexts, Held};
pub(crate) use protection::Protection;

/// Tickets are for this service (RFC 7530 3.2.1.1).
const SERVICE: &str = "nfs";

/// What a server has of it.
pub(crate) struct Gss {
    acceptor: Acceptor,
    contexts: Contexts,
}

impl Gss {
    pub fn new(env: &Env) -> Self {
        let mut chance = [0; 8];
        (env.random)(&mut chance);
        let acceptor = Acceptor::new(SERVICE, env.clock.unix_secs().into());
        Self { acceptor, contexts: Contexts::new(u64::from_be_bytes(chance)) }
    }
}

/// A call, as it came.
pub(crate) struct Arrival<'a> {
    pub frame: &'a Frame,
    pub call: &'a Call<'a>,
    /// Where what stands for the arguments begins.
    pub args_at: usize,
    pub more_behind: bool,
    pub arrived_ns: u64,
}

/// Why a call is not done.
enum Dropped {
    /// It is answered so, by nobody in particular.
    Refused(Refused),
    /// It was here before, or is too old to know (RFC 2203 5.3.3.1): nothing is answered.
    Silent,
}

impl From<AuthStat> for Dropped {
    fn from(stat: AuthStat) -> Self {
        Self::Refused(Refused::Auth(stat))
    }
}

/// Answers a call.
pub(crate) async fn record(conn: &Rc<Inner>, arrival: Arrival<'_>) {
    let xid = arrival.call.xid;
    match call(conn, &arrival).await {
        Ok(()) | Err(Dropped::Silent) => {}
        Err(Dropped::Refused(why)) => dispatch::refuse(conn, xid, &why),
    }
}

async fn call(conn: &Rc<Inner>, arrival: &Arrival<'_>) -> Result<(), Dropped> {
    // RFC 2203 5.3.3.3: what cannot be decoded, or says a version, procedure or service that there is not.
    let cred: GssCred<'_> = decode_all(arrival.call.credential.body.0).map_err(|_| AuthStat::BadCred)?;
    match cred.procedure {
        GssProc::Init | GssProc::ContinueInit => begin(conn, arrival, &cred).await,
        GssProc::Destroy => {
            let (context, _) = proven(conn, arrival, &cred)?;
            let protection = Protection::new(&conn.server, Arc::clone(&context), cred.sequence, GssService::None);
            must_be_null(arrival.call)?;
            conn.server.gss.contexts.remove(&cred.handle);
            tracing::debug!(peer = %conn.peer, principal = %context.principal, "a context is ended");
            let mut out = ReplyWriter::new(&conn.shard.pool, SMALL_REPLY_BYTES);
            protection.begin_results(arrival.call.xid, &mut out);
            dispatch::send(conn, out, None);
            Ok(())
        }
        GssProc::Data => data(conn, arrival, &cred).await,
    }
}

/// The context of a call, once its header has shown to be of somebody who has its key, and the call to be a new one.
fn proven(conn: &Inner, arrival: &Arrival<'_>, cred: &GssCred<'_>) -> Result<(Arc<Held>, GssService), Dropped> {
    let service = GssService::from_u32(cred.service).ok_or(AuthStat::BadCred)?;
    let server = &conn.server;
    let found = server.gss.contexts.find(&cred.handle, server.env.clock.unix_secs().into());
    let context = found.ok_or(AuthStat::GssCredProblem)?;
    let header = arrival.frame.get(..signed_header_bytes(&arrival.call.credential)).unwrap_or_default();
    let verifier = &arrival.call.verifier;
    if verifier.flavor != Flavor::GSS || context.security.verify(&[header], &verifier.body).is_err() {
        return Err(AuthStat::GssCredProblem.into());
    }
    if cred.sequence > MAX_GSS_SEQUENCE {
        return Err(AuthStat::GssCtxProblem.into());
    }
    if !context.window.lock().take(cred.sequence) {
        return Err(Dropped::Silent);
    }
    Ok((context, service))
}

/// Contexts are begun and ended by a procedure that does nothing (RFC 2203 5.2.2).
fn must_be_null(call: &Call<'_>) -> Result<(), AuthStat> {
    if call.procedure == 0 { Ok(()) } else { Err(AuthStat::BadCred) }
}

/// Begins a context: one token in, one out, and it is there or is not.
async fn begin(conn: &Rc<Inner>, arrival: &Arrival<'_>, cred: &GssCred<'_>) -> Result<(), Dropped> {
    must_be_null(arrival.call)?;
    // Kerberos is done after one exchange: there is nothing to go on with.
    if cred.procedure != GssProc::Init || !cred.handle.is_empty() {
        return Err(AuthStat::GssCredProblem.into());
    }
    if conn.server.settings.load().config.keytab.is_none() || !conn.server.knows(conn.peer) {
        return Err(AuthStat::BadCred.into());
    }
    dispatch::procedure(arrival.call).map_err(Dropped::Refused)?;
    let args = arrival.frame.get(arrival.args_at..).unwrap_or_default();
    let token =
        GssInitArgs::decode(&mut Reader::new(args)).map_err(|_| Dropped::Refused(Refused::GarbageArgs))?.to_vec();
    conn.established.set(true);
    // Looking up an account may wait.
    let (server, peer) = (Arc::clone(&conn.server), conn.peer);
    let begun = conn.offload(move || accept(&server, peer, &token)).await;
    let begun = begun.ok_or(Dropped::Refused(Refused::SystemErr))?;
    let mut out = ReplyWriter::new(&conn.shard.pool, SMALL_REPLY_BYTES);
    put_begun(arrival.call.xid, &begun, &mut out);
    dispatch::send(conn, out, None);
    Ok(())
}

/// A context, its handle and the token for the initiator.
type Begun = Result<(Arc<Held>, Vec<u8>, Vec<u8>), auth::krb5::Refused>;

fn accept(server: &Server, peer: std::net::SocketAddr, token: &[u8]) -> Begun {
    let keytab = server.settings.load().config.keytab.clone();
    let now = i64::from(server.env.clock.unix_secs());
    let keytab = keytab.ok_or(auth::krb5::Refused::NotUs)?;
    let accepted = match server.gss.acceptor.accept(&keytab, token, now, &*server.env.random) {
        Ok(accepted) => accepted,
        Err(error) => {
            tracing::info!(%peer, %error, "not let in with Kerberos");
            return Err(error);
        }
    };
    let own = keytab.is_own_realm(SERVICE, &accepted.client.realm);
    let (context, reply) = Held::new(server, accepted, own);
    tracing::info!(%peer, principal = %context.principal, as_uid = ?context.uid(), "let in with Kerberos");
    let context = Arc::new(context);
    let handle = server.gss.contexts.add(&context, now);
    Ok((context, handle, reply))
}

/// The answer (RFC 2203 5.2.3): its verifier is over the window's size.
fn put_begun(xid: u32, begun: &Begun, out: &mut ReplyWriter) {
    match begun {
        Ok((context, handle, token)) => {
            let verifier = context.security.sign(&[&window::SIZE.to_be_bytes()]);
            put_success_verified(xid, &OpaqueAuth { flavor: Flavor::GSS, body: Bounded(&verifier) }, out);
            let (handle, token) = (Bounded(handle), Bounded(token));
            GssInitRes { handle, major: 0, minor: 0, window: window::SIZE, token }.put(out);
        }
        Err(why) => {
            put_success(xid, out);
            let (handle, token) = (Bounded(&[]), Bounded(&[]));
            GssInitRes { handle, major: why.major(), minor: why.minor(), window: 0, token }.put(out);
        }
    }
}

/// A call of a program.
async fn data(conn: &Rc<Inner>, arrival: &Arrival<'_>, cred: &GssCred<'_>) -> Result<(), Dropped> {
    let (context, service) = proven(conn, arrival, cred)?;
    conn.established.set(conn.established.get() || conn.server.knows(conn.peer));
    if context.is_stale(&conn.server) {
        let (server, context) = (Arc::clone(&conn.server), Arc::clone(&context));
        let _ = conn.offload(move || context.look_up(&server)).await;
    }
    let caller = context.caller(service);
    let protection = Protection::new(&conn.server, context, cred.sequence, service);
    let done = match protection.open(conn, arrival.frame, arrival.args_at).await {
        None => Err(Refused::GarbageArgs),
        Some((frame, args_at)) => match dispatch::procedure(arrival.call) {
            Ok(procedure) => {
                let (server, peer, local) = (Arc::clone(&conn.server), conn.peer, conn.local);
                let cx = Cx { server, peer, local, caller, wait: Wait::Never };
                let (xid, more_behind) = (arrival.call.xid, arrival.more_behind);
                let job = Job { conn, cx, xid, frame: &frame, args_at, more_behind, gss: Some(&protection) };
                dispatch::answer(procedure, &job, arrival.arrived_ns).await
            }
            Err(refused) => Err(refused),
        },
    };
    if let Err(refused) = done {
        let mut out = ReplyWriter::new(&conn.shard.pool, SMALL_REPLY_BYTES);
        protection.put_refused(arrival.call.xid, &refused, &mut out);
        dispatch::send(conn, out, None);
    }
    Ok(())
}
