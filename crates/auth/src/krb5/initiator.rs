//! The other half: a client's first token and what it makes of the answer, and a ticket as a KDC would give one. For
//! whoever has a ticket, and for tests, which have no KDC.

use super::acceptor::{CHECKSUM_GSS, GSS_MUTUAL};
use super::context::{Context, Side};
use super::etype::Key;
use super::messages::{ApRepPart, Authenticator, OPTION_MUTUAL, Principal, TicketPart, put_ap_req, put_ticket};
use super::{Refused, token};

/// A ticket with its key, as a client keeps it.
#[derive(Clone)]
pub struct Ticket {
    /// Whose.
    pub client: Principal,
    /// What the service gets.
    pub bytes: Vec<u8>,
    /// The session's key.
    pub session: Key,
}

impl Ticket {
    /// What a KDC does: a ticket that `service` can open with its key of that version. `times` are when it begins and
    /// ends, in seconds since 1970.
    pub fn issue(
        client: Principal,
        service: &Principal,
        (key, version): (&Key, u32),
        session: Key,
        times: (i64, i64),
        chance: &dyn Fn(&mut [u8]),
    ) -> Self {
        let (begins, ends) = times;
        let part = TicketPart {
            flags: 0,
            key: Some(session.clone()),
            client: client.clone(),
            is_transited: false,
            begins,
            ends,
        };
        let (mut bytes, mut confounder) = (Vec::new(), [0; 16]);
        chance(&mut confounder);
        put_ticket(&mut bytes, service, (key, version), &part, confounder);
        Self { client, bytes, session }
    }
}

/// A context that waits for the acceptor's answer.
pub struct Initiator {
    session: Key,
    subkey: Key,
    made: (i64, i64),
    sequence: u32,
}

impl Initiator {
    /// Begins a context: itself, and the token for the acceptor. `now` is in seconds and microseconds since 1970; with
    /// `mutual`, the acceptor is to answer.
    pub fn begin(ticket: &Ticket, now: (i64, i64), mutual: bool, chance: &dyn Fn(&mut [u8])) -> (Self, Vec<u8>) {
        let subkey = Key::random(ticket.session.etype(), chance);
        let (mut sequence, mut confounder) = ([0; 4], [0; 16]);
        chance(&mut sequence);
        chance(&mut confounder);
        let sequence = u32::from_be_bytes(sequence) >> 2;
        let flags = if mutual { GSS_MUTUAL } else { 0 };
        let checksum = [&16u32.to_le_bytes()[..], &[0; 16], &flags.to_le_bytes()].concat();
        let authenticator = Authenticator {
            client: ticket.client.clone(),
            checksum: Some((CHECKSUM_GSS, &checksum)),
            micros: now.1,
            seconds: now.0,
            subkey: Some(Some(subkey.clone())),
            sequence: Some(sequence),
        };
        let options = if mutual { OPTION_MUTUAL } else { 0 };
        let first = token::frame(token::AP_REQ, |out| {
            put_ap_req(out, options, &ticket.bytes, &ticket.session, &authenticator, confounder);
        });
        (Self { session: ticket.session.clone(), subkey, made: now, sequence }, first)
    }

    /// The context, with the acceptor's answer where one was asked for.
    pub fn finish(self, reply: Option<&[u8]>) -> Result<Context, Refused> {
        let Some(reply) = reply else {
            return Ok(Context::new(Side::Initiator, &self.subkey, false, self.sequence));
        };
        let message = token::unframe(reply, token::AP_REP)?;
        let part = ApRepPart::open(message, &self.session).ok_or(Refused::BadIntegrity)?;
        if (part.seconds, part.micros) != self.made {
            return Err(Refused::BadMatch);
        }
        let own = part.subkey.as_ref();
        Ok(Context::new(Side::Initiator, own.unwrap_or(&self.subkey), own.is_some(), self.sequence))
    }
}
