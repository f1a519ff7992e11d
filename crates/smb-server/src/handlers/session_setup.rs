//! SESSION_SETUP and LOGOFF (MS-SMB2 3.3.5.5, 3.3.5.6).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use auth::{Acceptor, AuthError, Authenticated, LoginKind, SessionKey, Step};
use smb_wire::NtStatus;
use smb_wire::crypto::{Derivation, PreauthHash, SealingKey, SessionKeys, SigningKey};
use smb_wire::smb2::{
    Dialect, SecurityMode, SessionFlags, SessionSetupRequest, SessionSetupResponse, check_four, put_four,
};
use vfs::{Cred, Executor};

use crate::config::Encryption;
use crate::connection::Inner;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::handlers::negotiate::Negotiated;
use crate::handlers::{bind, close};
use crate::open::Open;
use crate::reply::{ReplyWriter, Then};
use crate::session::{self, Channel, Seals, Session, User};
use crate::waiting::Ended;
use crate::{PathCounters, server::Server};

/// The identity used where the process serves everything as itself or the system has no such user: `nobody`.
const NOBODY: u32 = 65534;

/// A login under way.
pub struct Login {
    acceptor: Acceptor,
    /// The preauthentication hash so far.
    pub preauth: PreauthHash,
    purpose: Purpose,
}

/// What a login is for.
enum Purpose {
    /// A session is made.
    New,
    /// An existing session logs in again.
    Renew,
    /// The connection becomes a channel of a session.
    Bind(Arc<Session>),
}

/// SESSION_SETUP.
pub(crate) fn session_setup(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let setup = SessionSetupRequest::decode(&message)?;
    let negotiated = request.conn.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let mut login = begin_or_continue(request, &negotiated, setup.binding)?;
    login.preauth.update(&message);
    let (id, renews) = (request.header.session_id, matches!(login.purpose, Purpose::Renew));
    out_session_id(request, out);
    let users = request.conn.server.users.load_full();
    match login.acceptor.step(setup.security_buffer, &**users) {
        Ok(Step::Continue(token)) => {
            request.conn.state.borrow_mut().logins.insert(id, login);
            if let Some(element) = out.current() {
                element.then = Then::HashSession(id);
            }
            SessionSetupResponse { flags: SessionFlags::empty(), security_buffer: &token }.put(out);
            Ok(NtStatus::MORE_PROCESSING_REQUIRED)
        }
        Ok(Step::Done { who, session_key, token }) => {
            let flags = establish(request, &negotiated, &setup, login, who, &session_key)?;
            PathCounters::bump(&request.conn.shard.counters.logins, 1);
            SessionSetupResponse { flags, security_buffer: &token }.put(out);
            Ok(NtStatus::SUCCESS)
        }
        Err(error) => {
            PathCounters::bump(&request.conn.shard.counters.failed_logins, 1);
            if renews && let Some(channel) = request.channel.clone() {
                // Who cannot log in again has lost the session (3.3.5.5.3).
                end_session(request.conn, &channel.session);
            }
            tracing::info!(peer = %request.conn.peer, "login refused");
            Err(match error {
                AuthError::InvalidToken => NtStatus::INVALID_PARAMETER,
                _ => NtStatus::LOGON_FAILURE,
            }
            .into())
        }
    }
}

/// Finds the login the request goes on with, or begins one (3.3.5.5, steps 3 and 4).
fn begin_or_continue(request: &mut Request<'_>, negotiated: &Negotiated, binding: bool) -> Result<Login, NtStatus> {
    let conn = request.conn;
    let config = conn.server.config.load();
    let id = request.header.session_id;
    let bound = if binding { Some(bind::check(request, negotiated)?) } else { None };
    let mut state = conn.state.borrow_mut();
    if id != 0
        && let Some(login) = state.logins.remove(&id)
    {
        return match &login.purpose {
            // All of a binding is under the session's signature (3.3.5.5).
            Purpose::Bind(_) if !binding => Err(NtStatus::INVALID_PARAMETER),
            _ => Ok(login),
        };
    }
    let purpose = match (id, bound) {
        (_, Some(session)) => Purpose::Bind(session),
        (0, None) => Purpose::New,
        _ if request.channel.is_some() => Purpose::Renew,
        _ => return Err(NtStatus::USER_SESSION_DELETED),
    };
    // Sessions that have ended, here or by another connection, count no more.
    state.channels.retain(|_, channel| !channel.session.ended.load(Relaxed));
    if state.logins.len() + state.channels.len() >= config.max_sessions {
        return Err(NtStatus::INSUFFICIENT_RESOURCES);
    }
    if matches!(purpose, Purpose::New) {
        request.header.session_id = conn.server.new_session_id();
    }
    let env = &conn.server.env;
    let acceptor = Acceptor::new(&config.ntlm, env.random_bytes(), env.filetime());
    Ok(Login { acceptor, preauth: state.preauth, purpose })
}

/// The response's header names the session, which may just have been made.
fn out_session_id(request: &Request<'_>, out: &mut ReplyWriter) {
    use smb_wire::codec::Put;
    let at = out.start() + 40;
    out.patch_bytes(at, &request.header.session_id.to_le_bytes());
}

/// The login succeeded: makes or renews the session (3.3.5.5.3).
fn establish(
    request: &mut Request<'_>,
    negotiated: &Negotiated,
    setup: &SessionSetupRequest<'_>,
    login: Login,
    who: Authenticated,
    key: &SessionKey,
) -> Result<SessionFlags, NtStatus> {
    let conn = request.conn;
    let user = identify(&conn.server, who);
    let mut flags = SessionFlags::empty();
    flags.set(SessionFlags::GUEST, user.guest);
    flags.set(SessionFlags::NULL, user.anonymous);
    match &login.purpose {
        Purpose::Renew => {
            let channel = request.channel.as_ref().ok_or(NtStatus::USER_SESSION_DELETED)?;
            let before = channel.session.user();
            if !before.name.eq_ignore_ascii_case(&user.name) {
                tracing::info!(peer = %conn.peer, before = %before.name, user = %user.name, "session is somebody else's");
            }
            channel.session.renew(user);
            flags.set(SessionFlags::ENCRYPT_DATA, channel.session.encrypt);
            return Ok(flags);
        }
        Purpose::Bind(session) => {
            bind::join(request, negotiated, session, &user, signing_key(negotiated, &login.preauth, key))?;
            flags.set(SessionFlags::ENCRYPT_DATA, session.encrypt);
            return Ok(flags);
        }
        Purpose::New => {}
    }
    let channel = make_channel(request, negotiated, setup, &login, user, key)?;
    flags.set(SessionFlags::ENCRYPT_DATA, channel.session.encrypt);
    if setup.previous_session_id != 0 && setup.previous_session_id != channel.session.id {
        end_previous(conn, setup.previous_session_id, &channel.session.user());
    }
    tracing::info!(
        peer = %conn.peer,
        at = %conn.local,
        user = %channel.session.user().name,
        dialect = %negotiated.dialect,
        signing = %signing_words(negotiated, &channel),
        encryption = %if channel.session.encrypt { "required" } else if channel.session.seals.is_some() { "offered" } else { "none" },
        "session"
    );
    channel.session.join(&conn.mailbox)?;
    conn.server.add_session(Arc::clone(&channel.session));
    conn.state.borrow_mut().channels.insert(channel.session.id, channel.clone());
    request.channel = Some(channel);
    Ok(flags)
}

fn signing_words(negotiated: &Negotiated, channel: &Channel) -> String {
    match &channel.signing {
        None => "none".into(),
        Some(_) if channel.session.signing_required => format!("required ({:?})", negotiated.signing),
        Some(_) => format!("offered ({:?})", negotiated.signing),
    }
}

fn make_channel(
    request: &Request<'_>,
    negotiated: &Negotiated,
    setup: &SessionSetupRequest<'_>,
    login: &Login,
    user: User,
    key: &SessionKey,
) -> Result<Channel, NtStatus> {
    let config = request.conn.server.config.load();
    let keyless = user.guest || user.anonymous;
    let cipher = negotiated.cipher.filter(|_| !keyless);
    let derivation = derivation(negotiated.dialect, &login.preauth);
    let keys = SessionKeys::derive(derivation, &key.first_16(), key.full(), cipher);
    let seals = match (cipher, &keys.client_to_server, &keys.server_to_client) {
        (Some(cipher), Some(inward), Some(outward)) => Some(Seals {
            from_client: SealingKey::new(cipher, inward.as_ref()).map_err(|_| NtStatus::INTERNAL_ERROR)?,
            to_client: SealingKey::new(cipher, outward.as_ref()).map_err(|_| NtStatus::INTERNAL_ERROR)?,
        }),
        _ => None,
    };
    let encrypt = config.encryption == Encryption::Required;
    if encrypt && seals.is_none() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let wants_signing = (setup.security_mode | negotiated.client_security_mode | negotiated.security_mode)
        .contains(SecurityMode::SIGNING_REQUIRED);
    if wants_signing && keyless && config.signing_required {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let signing = (!keyless).then(|| Arc::new(SigningKey::new(negotiated.signing, &keys.signing)));
    let session = Session::new(session::Login {
        id: request.header.session_id,
        user,
        terms: negotiated.terms(),
        signing: signing.clone(),
        signing_required: wants_signing && !keyless,
        encrypt,
        seals,
    });
    Ok(Channel { session: Arc::new(session), signing })
}

fn derivation(dialect: Dialect, preauth: &PreauthHash) -> Derivation<'_> {
    match dialect {
        Dialect::V2_0_2 | Dialect::V2_1 => Derivation::Smb2,
        Dialect::V3_0 | Dialect::V3_0_2 => Derivation::Smb30,
        Dialect::V3_1_1 => Derivation::Smb311(preauth),
    }
}

/// The key of a further channel (Channel.SigningKey, 3.3.5.5.3).
fn signing_key(negotiated: &Negotiated, preauth: &PreauthHash, key: &SessionKey) -> SigningKey {
    let keys = SessionKeys::derive(derivation(negotiated.dialect, preauth), &key.first_16(), key.full(), None);
    SigningKey::new(negotiated.signing, &keys.signing)
}

fn identify(server: &Server, who: Authenticated) -> User {
    let (guest, anonymous) = (who.kind == LoginKind::Guest, who.kind == LoginKind::Anonymous);
    let cred = if anonymous || guest { nobody() } else { cred_of(server, &who.name) };
    // A guest may have claimed any name: it must not meet the names that shares list.
    let name = if guest { "guest".to_owned() } else { who.name };
    User { name, cred, guest, anonymous }
}

/// As whom a user who has logged in uses the file system.
pub(crate) fn cred_of(server: &Server, name: &str) -> Cred {
    (server.identities)(name).unwrap_or_else(nobody)
}

fn nobody() -> Cred {
    Cred { uid: NOBODY, gid: NOBODY, groups: Arc::from([]) }
}

/// The client lost a connection and says so: its old session ends, if it was the same user's (3.3.5.5.3).
fn end_previous(conn: &Rc<Inner>, previous_id: u64, user: &User) {
    let Some(previous) = conn.server.session(previous_id) else { return };
    if previous.user().name.eq_ignore_ascii_case(&user.name) {
        end_session(conn, &previous);
    }
}

/// Ends a session. What is durable waits for its client (3.3.7.1); the other opens are closed where that may wait.
pub(crate) fn end_session(conn: &Inner, session: &Arc<Session>) {
    if session.ended.load(Relaxed) {
        return;
    }
    conn.server.remove_session(session.id);
    let opens = conn.server.keep_durable(session.end(), &conn.shard.executor);
    conn.interrupt(session, Ended::Session(session.id));
    close_all(&conn.shard.executor, &conn.server, opens);
}

/// Closes opens. Their claims end at once: a client that comes back must not meet what it held before. The deletions that
/// are due, and the descriptors, go where that may wait.
pub(crate) fn close_all(executor: &Arc<dyn Executor>, server: &Server, opens: Vec<Arc<Open>>) {
    if opens.is_empty() {
        return;
    }
    let owed: Vec<_> = opens.iter().filter_map(|open| close::release(server, open, executor)).collect();
    executor.run(Box::new(move || {
        drop(opens);
        for deletion in owed {
            // The client is gone: nobody can be told that a deletion failed.
            if let Err(error) = deletion.run() {
                tracing::debug!(%error, "delete on close failed");
            }
        }
    }));
}

/// LOGOFF. What is durable stays, as if the connection were lost (3.3.5.6).
pub(crate) fn logoff(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    check_four(&request.message)?;
    let session = Arc::clone(request.session()?);
    end_session(request.conn, &session);
    put_four(out);
    Ok(NtStatus::SUCCESS)
}
