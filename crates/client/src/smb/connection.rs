//! One connection as a machine: frames in, requests and results out, the time passed in. `driver` joins it to a socket,
//! tests join it to a server. It must never wait, name a socket, read a clock, or take an answer for more than it is.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::crypto::PreauthHash;
use smb_wire::smb2::{Command, Dialect, Flags, HEADER_BYTES, Header, ProtocolId, ValidateNegotiate};

use super::Failure;
use super::config::Config;
use super::credits::Credits;
use super::handshake::Login;
use super::offer::{self, CREDIT_BYTES, Negotiated, malformed};
use super::protect::Shield;
use super::request::{Outgoing, PREFIX_BYTES, Request, Response};
use crate::buffer::Buffer;

mod breaks;
mod keeping;
mod login;
mod sending;

pub(crate) use keeping::Unanswered;

/// The largest frame from a server before a session is set up: an answer with a large token.
const MAX_GREETING_BYTES: usize = 64 << 10;
/// What a frame may hold beside the largest transfer: headers, contexts, a transform header.
const MAX_OVERHEAD_BYTES: usize = 64 << 10;
/// How many times the time without any answer one request may take, while others are answered.
const MOST_TIMEOUTS: u32 = 10;
/// The message id of what the server sends unasked (MS-SMB2 3.2.5.1.2).
const UNASKED: u64 = u64::MAX;

/// Names a request of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

/// How much one request may move now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a READ.
    pub read_bytes: u32,
    /// Bytes of a WRITE.
    pub write_bytes: u32,
    /// Bytes of a listing or a query.
    pub transact_bytes: u32,
    /// Credits of the whole window, in flight or not.
    pub window: u64,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    phase: Phase,
    preauth: PreauthHash,
    negotiated: Option<Negotiated>,
    session_id: u64,
    shield: Option<Shield>,
    /// The session it is to be a channel of.
    bind: Option<Bind>,
    credits: Credits,
    queue: VecDeque<Queued>,
    in_flight: BTreeMap<u64, InFlight>,
    out: VecDeque<Outgoing>,
    done: VecDeque<(Token, Result<Response, Failure>)>,
    next_token: u64,
    last_progress: Duration,
    /// The tree connect of the last request that had one.
    tree_id: u32,
    /// Replays that came while the server was still at the request they repeat.
    too_early: Vec<Unanswered>,
    /// What is not answered when it is over is kept, for another connection.
    keeps: bool,
    /// ChannelSequence of what is sent (MS-SMB2 3.2.4.1).
    sequence: u16,
}

/// The session that a connection is to be a channel of.
#[derive(Debug, Clone)]
pub(crate) struct Bind {
    pub session_id: u64,
    pub tree_id: u32,
    /// Its keys: the binding is signed with them.
    pub shield: Shield,
}

#[derive(Debug)]
enum Phase {
    Negotiating,
    LoggingIn(Box<Login>),
    Ready,
    Over(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Negotiate,
    Login,
    /// The answer to a break.
    Acknowledge,
    Caller(Token),
}

/// What is to leave in one frame: a request, and those of its compound.
#[derive(Debug)]
struct Queued {
    purpose: Purpose,
    request: Request,
    related: Vec<(Purpose, Request)>,
}

/// A request that was sent and not answered.
#[derive(Debug)]
struct InFlight {
    purpose: Purpose,
    command: Command,
    charge: u16,
    since: Duration,
    signed: bool,
    sealed: bool,
    has_interim: bool,
    /// It may wait for ever once the server has said that it does.
    patient: bool,
    /// What the server calls it since then, or 0.
    async_id: u64,
    /// The request, where it is kept.
    kept: Option<keeping::Kept>,
}

impl InFlight {
    fn may_wait(&self) -> bool {
        self.patient && self.has_interim
    }
}

impl Connection {
    /// A connection whose NEGOTIATE is ready to be sent.
    pub fn new(config: Config, now: Duration) -> Self {
        let credits = Credits::new(config.credits);
        let hello = offer::request(&config);
        let mut connection = Self {
            config,
            phase: Phase::Negotiating,
            preauth: PreauthHash::new(),
            negotiated: None,
            session_id: 0,
            shield: None,
            bind: None,
            credits,
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
            next_token: 0,
            last_progress: now,
            tree_id: 0,
            keeps: false,
            too_early: Vec::new(),
            sequence: 0,
        };
        let request = Request::new(Command::Negotiate, 0, 0, |out| hello.put(out));
        connection.send_now(Purpose::Negotiate, request, now);
        connection
    }

    /// A connection that is to be a further channel of a session (MS-SMB2 3.2.4.2.3).
    pub(crate) fn for_session(config: Config, bind: Bind, now: Duration) -> Self {
        let mut connection = Self::new(config, now);
        (connection.session_id, connection.tree_id) = (bind.session_id, bind.tree_id);
        connection.bind = Some(bind);
        connection
    }

    /// The keys of the session, once there are any.
    pub(crate) fn shield(&self) -> Option<&Shield> {
        self.shield.as_ref()
    }

    /// What was agreed on, once somebody is logged in.
    pub fn ready(&self) -> Option<&Negotiated> {
        matches!(self.phase, Phase::Ready).then_some(self.negotiated.as_ref()).flatten()
    }

    /// The session, once there is one.
    pub(crate) fn session_id(&self) -> u64 {
        self.session_id
    }

    /// Why it is over, if it is.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.phase {
            Phase::Over(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether the session seals everything.
    pub fn seals_all(&self) -> bool {
        self.shield.as_ref().is_some_and(|shield| shield.seal_all)
    }

    /// How much one request may move now. Never more than the window holds: a request that is charged more credits than
    /// there are could never be sent.
    pub fn limits(&self) -> Limits {
        let window = self.credits.window();
        let by_window = u32::try_from(window.saturating_mul(CREDIT_BYTES.into())).unwrap_or(u32::MAX).max(CREDIT_BYTES);
        let of = |size: fn(&Negotiated) -> u32| self.negotiated.as_ref().map_or(0, size).min(by_window);
        Limits {
            read_bytes: of(|n| n.max_read_bytes),
            write_bytes: of(|n| n.max_write_bytes),
            transact_bytes: of(|n| n.max_transact_bytes),
            window,
        }
    }

    /// What VALIDATE_NEGOTIATE_INFO asks, and what the answer must be (MS-SMB2 3.2.5.5): `None` where it is not needed,
    /// since 3.1.1 proves it otherwise and a login without a key cannot.
    pub fn validation(&self) -> Option<(ValidateNegotiate, ValidateNegotiate)> {
        let negotiated = self.ready()?;
        let offers_3 = self.config.max_dialect.is_3();
        if negotiated.dialect == Dialect::V3_1_1 || !offers_3 || self.shield.is_none() {
            return None;
        }
        let hello = offer::request(&self.config);
        let ours = ValidateNegotiate {
            capabilities: hello.capabilities.bits(),
            guid: hello.client_guid,
            security_mode: hello.security_mode,
            dialects: hello.dialects,
        };
        Some((ours, negotiated.server.clone()))
    }

    /// Takes a request of the caller. It is sent when credits allow and answered by [`next_done`](Self::next_done).
    pub fn submit(&mut self, request: Request, now: Duration) -> Token {
        let token = self.token();
        self.enqueue(Queued { purpose: Purpose::Caller(token), request, related: Vec::new() }, now);
        token
    }

    /// Takes a compound of related requests (MS-SMB2 3.2.4.1.4): `first`, which opens a file, and those that go on with
    /// that open, with all ones for a handle. Each is answered by itself.
    pub fn submit_compound(&mut self, first: Request, related: Vec<Request>, now: Duration) -> Vec<Token> {
        let tokens: Vec<_> = (0..=related.len()).map(|_| self.token()).collect();
        let purposes: Vec<_> = tokens.iter().copied().map(Purpose::Caller).collect();
        let Some((purpose, rest)) = purposes.split_first() else { return tokens };
        let related = rest.iter().copied().zip(related).collect();
        self.enqueue(Queued { purpose: *purpose, request: first, related }, now);
        tokens
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token - 1)
    }

    fn enqueue(&mut self, queued: Queued, now: Duration) {
        self.queue.push_back(queued);
        if let Phase::Over(failure) = &self.phase {
            let failure = failure.clone();
            self.give_up_all(&failure);
            return;
        }
        self.pump(now);
    }

    /// The next frame for the server.
    pub fn next_outgoing(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// The next request that is over.
    pub fn next_done(&mut self) -> Option<(Token, Result<Response, Failure>)> {
        self.done.pop_front()
    }

    /// How many requests are over and not taken by [`next_done`](Self::next_done).
    pub fn done_count(&self) -> usize {
        self.done.len()
    }

    /// How many requests the server has not answered.
    pub fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether requests are waiting for credits or for an answer.
    pub fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || !self.queue.is_empty()
    }

    /// How long the message is that begins behind `prefix`. An error is the end of the connection.
    pub fn framing(&self, prefix: [u8; PREFIX_BYTES]) -> Result<usize, Failure> {
        let [kind, a, b, c] = prefix;
        if kind != 0 {
            return Err(Failure::Protocol("what it sends is not SMB over TCP"));
        }
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let most = match &self.negotiated {
            Some(n) if matches!(self.phase, Phase::Ready) => {
                n.max_read_bytes.max(n.max_transact_bytes) as usize + MAX_OVERHEAD_BYTES
            }
            _ => MAX_GREETING_BYTES,
        };
        if len > most {
            return Err(Failure::Protocol("a frame longer than anything that was asked for"));
        }
        Ok(len)
    }

    /// Takes one message, its prefix taken off.
    pub fn receive(&mut self, frame: impl Into<Buffer>, now: Duration) {
        if self.failure().is_some() {
            return;
        }
        self.last_progress = now;
        if let Err(failure) = self.take_in(frame.into(), now) {
            self.fail(failure);
        }
        self.pump(now);
    }

    /// Bytes go on moving, though no answer is complete.
    pub fn progress(&mut self, now: Duration) {
        self.last_progress = now;
    }

    /// When [`tick`](Self::tick) has something to do, if nothing comes before.
    pub fn deadline(&self) -> Option<Duration> {
        if !self.expects_answers() || self.failure().is_some() {
            return None;
        }
        let silent = self.last_progress + self.config.timeout;
        let oldest = self.in_flight.values().find(|r| !r.may_wait());
        let oldest = oldest.map(|r| r.since + self.config.timeout * MOST_TIMEOUTS);
        Some(oldest.map_or(silent, |oldest| oldest.min(silent)))
    }

    /// Whether the server owes an answer that may not take for ever.
    fn expects_answers(&self) -> bool {
        !self.queue.is_empty() || self.in_flight.values().any(|r| !r.may_wait())
    }

    /// Nobody wants the answer any more: the server is told to stop waiting (MS-SMB2 3.2.4.24).
    pub fn cancel(&mut self, token: Token) {
        let purpose = Purpose::Caller(token);
        self.queue.retain(|queued| queued.purpose != purpose);
        let found =
            self.in_flight.iter().find(|(_, r)| r.purpose == purpose).map(|(id, r)| (*id, r.async_id, r.sealed));
        if let Some((id, async_id, sealed)) = found {
            self.send_cancel(id, async_id, sealed);
        }
    }

    /// Time has gone by.
    pub fn tick(&mut self, now: Duration) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.fail(Failure::Timeout(self.config.timeout));
        }
    }

    /// The connection is over. The first reason given stays the reason.
    pub fn fail(&mut self, failure: Failure) {
        if self.failure().is_some() {
            return;
        }
        if !self.keeps {
            self.give_up_all(&failure);
        }
        self.out.clear();
        self.phase = Phase::Over(failure);
    }

    fn give_up_all(&mut self, failure: &Failure) {
        let under_way = std::mem::take(&mut self.in_flight).into_values().map(|r| r.purpose);
        let queued = std::mem::take(&mut self.queue).into_iter();
        let queued = queued.flat_map(|q| std::iter::once(q.purpose).chain(q.related.into_iter().map(|(p, _)| p)));
        for purpose in under_way.chain(queued) {
            if let Purpose::Caller(token) = purpose {
                self.done.push_back((token, Err(failure.clone())));
            }
        }
    }

    /// What NEGOTIATE and SESSION_SETUP say goes into the hash (MS-SMB2 3.2.5.2, 3.2.5.3).
    fn hash(&mut self, purpose: Purpose, at: usize, frame: &[u8]) {
        let message = frame.get(at..).unwrap_or_default();
        match (purpose, &mut self.phase) {
            (Purpose::Negotiate, _) => self.preauth.update(message),
            (Purpose::Login, Phase::LoggingIn(login)) => login.hash.update(message),
            _ => {}
        }
    }

    fn take_in(&mut self, mut frame: Buffer, now: Duration) -> Result<(), Failure> {
        let (mut at, sealed) = match ProtocolId::of(&frame) {
            Some(ProtocolId::Smb2) => (0, false),
            Some(ProtocolId::Transform) => {
                let shield = self.shield.as_ref().ok_or(Failure::Protocol("a sealed answer without keys"))?;
                (shield.open(&mut frame)?, true)
            }
            Some(ProtocolId::Compressed) => return Err(Failure::Protocol("a compressed answer, which nobody offered")),
            Some(ProtocolId::Smb1) => return Err(Failure::NoCommonGround("the server speaks SMB 1 only")),
            None => return Err(Failure::Protocol("what it sends is not SMB")),
        };
        loop {
            let header = Header::decode(frame.get(at..).unwrap_or_default()).map_err(malformed)?;
            let next = header.next_command as usize;
            if next == 0 {
                let range = at..frame.len();
                return self.response(header, frame, range, sealed, now);
            }
            let end = at.checked_add(next).filter(|end| next >= HEADER_BYTES && *end < frame.len());
            let end = end.ok_or(Failure::Protocol("an answer of a compound ends outside of its frame"))?;
            let part = frame.get(at..end).unwrap_or_default().to_vec();
            let range = 0..part.len();
            self.response(header, part.into(), range, sealed, now)?;
            at = end;
        }
    }

    fn response(
        &mut self,
        header: Header,
        mut frame: Buffer,
        message: Range<usize>,
        sealed: bool,
        now: Duration,
    ) -> Result<(), Failure> {
        if !header.flags.contains(Flags::RESPONSE) {
            return Err(Failure::Protocol("it sends a request"));
        }
        if header.message_id == UNASKED {
            return self.unasked(&header, frame.get(message).unwrap_or_default(), sealed, now);
        }
        let answered = self.in_flight.get(&header.message_id);
        let answered = answered.ok_or(Failure::Protocol("it answers a request that was not made"))?;
        if header.command != answered.command as u16 {
            return Err(Failure::Protocol("it answers another command than was asked"));
        }
        let is_interim = header.status == NtStatus::PENDING.0;
        let bytes = frame.get_mut(message.clone()).unwrap_or_default();
        self.check_protection(&header, answered, bytes, sealed, is_interim)?;
        if matches!(answered.purpose, Purpose::Caller(_)) && header.session_id != self.session_id {
            return Err(Failure::Protocol("an answer of another session"));
        }
        self.credits.grant(header.credits);
        if is_interim {
            return self.interim(&header, now);
        }
        if let Some(answered) = self.in_flight.remove(&header.message_id) {
            self.credits.answered(answered.charge);
            let Some(answered) = self.not_too_early(answered, header.status) else { return Ok(()) };
            return self.answered(answered.purpose, Response { header, frame, message }, now);
        }
        Ok(())
    }

    /// MS-SMB2 3.2.5.1.1 and 3.2.5.1.3: what was asked under protection is answered under it. Only interim answers may
    /// be unsigned.
    fn check_protection(
        &self,
        header: &Header,
        answered: &InFlight,
        message: &mut [u8],
        sealed: bool,
        is_interim: bool,
    ) -> Result<(), Failure> {
        let Some(shield) = &self.shield else { return Ok(()) };
        if sealed {
            return Ok(());
        }
        if answered.sealed {
            return Err(Failure::NotGenuine("an answer came open to what was asked sealed"));
        }
        if header.flags.contains(Flags::SIGNED) {
            let genuine = shield.verify(message);
            return if genuine { Ok(()) } else { Err(Failure::NotGenuine("a signature is wrong")) };
        }
        if answered.signed && !is_interim {
            return Err(Failure::NotGenuine("an answer is not signed"));
        }
        Ok(())
    }

    /// The server says that it will take a while (MS-SMB2 3.2.5.1.5). Once: a second time it would only gain time.
    fn interim(&mut self, header: &Header, now: Duration) -> Result<(), Failure> {
        let waiting = self.in_flight.get_mut(&header.message_id);
        let first = waiting.is_some_and(|waiting| {
            waiting.since = now;
            waiting.async_id = header.async_id;
            !std::mem::replace(&mut waiting.has_interim, true)
        });
        if !first || !header.flags.contains(Flags::ASYNC) {
            return Err(Failure::Protocol("an interim answer out of turn"));
        }
        Ok(())
    }

    fn answered(&mut self, purpose: Purpose, response: Response, now: Duration) -> Result<(), Failure> {
        match purpose {
            Purpose::Negotiate => self.negotiated(&response, now),
            Purpose::Login => self.logged_in(&response, now),
            // Whether there was anything to acknowledge any more does not matter to anybody.
            Purpose::Acknowledge => Ok(()),
            Purpose::Caller(token) => {
                self.done.push_back((token, Ok(response)));
                Ok(())
            }
        }
    }
}
