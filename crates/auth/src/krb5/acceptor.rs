//! The server's half of beginning a context (RFC 4121 4.1, RFC 4120 3.2.3): one token in, a context and one token out.
//! It believes a ticket that a key of the keytab opens, and an authenticator that the ticket's key opens, made within
//! five minutes and not here before.

use std::sync::{Mutex, PoisonError};

use super::context::{Context, Side};
use super::etype::Key;
use super::keytab::Keytab;
use super::messages::{
    ApRepPart, ApReq, Authenticator, FLAG_INVALID, FLAG_PATH_CHECKED, OPTION_USE_SESSION_KEY, Principal, TicketPart,
    USAGE_AUTHENTICATOR, USAGE_TICKET,
};
use super::replays::{Replays, Seen};
use super::{Etype, Refused, token};

/// How far clocks may be apart.
pub const MAX_SKEW_SECS: i64 = 300;

/// The longest token: a ticket of Active Directory with all its groups stays below.
const MAX_TOKEN_BYTES: usize = 64 << 10;

/// How long a context lasts whose ticket is over by this end's clock.
const LEAST_SECS: i64 = 60;

/// What the authenticator's checksum is when it is none (RFC 4121 4.1.1).
pub(super) const CHECKSUM_GSS: i32 = 0x8003;
pub(super) const GSS_MUTUAL: u32 = 2;
const GSS_DCE_STYLE: u32 = 0x1000;

/// Begins contexts.
pub struct Acceptor {
    service: Box<str>,
    since: i64,
    replays: Mutex<Replays>,
}

/// A context that was begun.
pub struct Accepted {
    /// Who is at the other end.
    pub client: Principal,
    /// Signs and seals.
    pub context: Context,
    /// What the initiator gets; empty when it asked for nothing.
    pub reply: Vec<u8>,
    /// When it is to end, as the ticket does, in seconds since 1970.
    pub expires: i64,
}

impl std::fmt::Debug for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Accepted({}, until {})", self.client, self.expires)
    }
}

impl Acceptor {
    /// For tickets to the service of that name on any host the keytab has; it begins its work at `now`, in seconds since
    /// 1970.
    pub fn new(service: &str, now: i64) -> Self {
        Self { service: service.into(), since: now, replays: Mutex::default() }
    }

    /// The service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Begins a context with an initiator's token. `now` is in seconds since 1970, `chance` fills its argument with
    /// bytes nobody can guess.
    pub fn accept(
        &self,
        keytab: &Keytab,
        token: &[u8],
        now: i64,
        chance: &dyn Fn(&mut [u8]),
    ) -> Result<Accepted, Refused> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(Refused::Malformed);
        }
        let request = ApReq::decode(token::unframe(token, token::AP_REQ)?)?;
        let ticket = self.open_ticket(keytab, &request, now)?;
        let session = ticket.key.as_ref().ok_or(Refused::Unsupported)?;
        let plain = request.authenticator.open(session, USAGE_AUTHENTICATOR).ok_or(Refused::BadIntegrity)?;
        let authenticator = Authenticator::decode(&plain)?;
        if authenticator.client != ticket.client {
            return Err(Refused::BadMatch);
        }
        if (authenticator.seconds - now).abs() > MAX_SKEW_SECS {
            return Err(Refused::Skew);
        }
        let mutual = wants_reply(&authenticator)?;
        self.must_be_new(&request, &authenticator, mutual, now)?;
        let (context, reply) = if mutual {
            answer(session, &authenticator, chance)?
        } else {
            (Context::new(Side::Acceptor, offered(session, &authenticator)?, false, 0), Vec::new())
        };
        let expires = if ticket.ends > now { ticket.ends } else { now + LEAST_SECS };
        Ok(Accepted { client: ticket.client, context, reply, expires })
    }

    fn open_ticket(&self, keytab: &Keytab, request: &ApReq<'_>, now: i64) -> Result<TicketPart, Refused> {
        if request.options & OPTION_USE_SESSION_KEY != 0 {
            return Err(Refused::Unsupported);
        }
        if !request.service.is_service(&self.service) || !keytab.knows(&request.service) {
            return Err(Refused::NotUs);
        }
        let sealed = &request.ticket;
        let etype = Etype::from_number(sealed.etype).ok_or(Refused::NoKey)?;
        let mut keys = keytab.keys(&request.service, etype, sealed.version).peekable();
        keys.peek().ok_or(Refused::NoKey)?;
        let plain = keys.find_map(|key| sealed.open(key, USAGE_TICKET)).ok_or(Refused::BadIntegrity)?;
        let ticket = TicketPart::decode(&plain)?;
        if ticket.ends + MAX_SKEW_SECS < now {
            return Err(Refused::Expired);
        }
        if ticket.begins - MAX_SKEW_SECS > now || ticket.flags & FLAG_INVALID != 0 {
            return Err(Refused::NotYetValid);
        }
        if ticket.is_transited && ticket.flags & FLAG_PATH_CHECKED == 0 {
            return Err(Refused::BadPath);
        }
        Ok(ticket)
    }

    /// With a reply, the key has chance of this end in it: a request that is sent again begins a context that nobody can
    /// use. Without one, what was signed in it would be good once more, so that every doubt is against it: also what
    /// came before this acceptor was there.
    fn must_be_new(
        &self,
        request: &ApReq<'_>,
        made: &Authenticator<'_>,
        mutual: bool,
        now: i64,
    ) -> Result<(), Refused> {
        let until = made.seconds + MAX_SKEW_SECS;
        let mut replays = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        match replays.note(request.authenticator.cipher, now, until.max(now)) {
            Seen::Before => Err(Refused::Repeat),
            Seen::New if mutual || made.seconds >= self.since => Ok(()),
            Seen::NoRoom if mutual => Ok(()),
            Seen::New | Seen::NoRoom => Err(Refused::Repeat),
        }
    }
}

/// Whether the initiator wants to see that this end has the key too. What the checksum says counts (RFC 4121 4.1.1).
fn wants_reply(authenticator: &Authenticator<'_>) -> Result<bool, Refused> {
    let Some((CHECKSUM_GSS, bytes)) = authenticator.checksum else { return Err(Refused::Unsupported) };
    // How long the channel bindings are, always 16; they; flags.
    let (len, rest) = bytes.split_first_chunk().ok_or(Refused::Malformed)?;
    let flags = rest.get(16..).and_then(|rest| rest.first_chunk()).ok_or(Refused::Malformed)?;
    if u32::from_le_bytes(*len) != 16 {
        return Err(Refused::Malformed);
    }
    let flags = u32::from_le_bytes(*flags);
    if flags & GSS_DCE_STYLE != 0 {
        return Err(Refused::Unsupported);
    }
    Ok(flags & GSS_MUTUAL != 0)
}

/// The initiator's subkey, or the session's key where it has none.
fn offered<'a>(session: &'a Key, authenticator: &'a Authenticator<'_>) -> Result<&'a Key, Refused> {
    match &authenticator.subkey {
        None => Ok(session),
        Some(subkey) => subkey.as_ref().ok_or(Refused::Unsupported),
    }
}

/// A context under a key of this end's own (RFC 4121 2), and the AP-REP that brings it.
fn answer(
    session: &Key,
    authenticator: &Authenticator<'_>,
    chance: &dyn Fn(&mut [u8]),
) -> Result<(Context, Vec<u8>), Refused> {
    let key = Key::random(offered(session, authenticator)?.etype(), chance);
    let (mut sequence, mut confounder) = ([0; 4], [0; 16]);
    chance(&mut sequence);
    chance(&mut confounder);
    // As other implementations do, below 2^30: some peers read it as a signed number.
    let sequence = u32::from_be_bytes(sequence) >> 2;
    let context = Context::new(Side::Acceptor, &key, true, sequence);
    let part = ApRepPart {
        seconds: authenticator.seconds,
        micros: authenticator.micros,
        subkey: Some(key),
        sequence: Some(sequence),
    };
    Ok((context, token::frame(token::AP_REP, |out| part.put(out, session, confounder))))
}
