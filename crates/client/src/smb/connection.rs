//! One connection as a machine: frames in, requests and results out, the time passed in. `driver` joins it to a socket,
//! tests join it to a server. It must never wait, name a socket, read a clock, or take an answer for more than it is.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::crypto::PreauthHash;
use smb_wire::smb2::{
    Capabilities, Command, Dialect, Flags, HEADER_BYTES, Header, ProtocolId, SessionFlags, SessionSetupRequest,
    SessionSetupResponse, ValidateNegotiate,
};

use super::Failure;
use super::config::Config;
use super::credits::Credits;
use super::handshake::Login;
use super::offer::{self, CREDIT_BYTES, Negotiated, malformed};
use super::protect::{Protection, Shield};
use super::request::{MESSAGE_AT, Outgoing, PREFIX_BYTES, Request, Response};

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
    credits: Credits,
    queue: VecDeque<(Purpose, Request)>,
    in_flight: BTreeMap<u64, InFlight>,
    out: VecDeque<Outgoing>,
    done: VecDeque<(Token, Result<Response, Failure>)>,
    next_token: u64,
    last_progress: Duration,
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
    Caller(Token),
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
            credits,
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            out: VecDeque::new(),
            done: VecDeque::new(),
            next_token: 0,
            last_progress: now,
        };
        let request = Request::new(Command::Negotiate, 0, 0, |out| hello.put(out));
        connection.send_now(Purpose::Negotiate, request, now);
        connection
    }

    /// What was agreed on, once somebody is logged in.
    pub fn ready(&self) -> Option<&Negotiated> {
        matches!(self.phase, Phase::Ready).then_some(self.negotiated.as_ref()).flatten()
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
        let token = Token(self.next_token);
        self.next_token += 1;
        if let Phase::Over(failure) = &self.phase {
            self.done.push_back((token, Err(failure.clone())));
            return token;
        }
        self.queue.push_back((Purpose::Caller(token), request));
        self.pump(now);
        token
    }

    /// The next frame for the server.
    pub fn next_outgoing(&mut self) -> Option<Outgoing> {
        self.out.pop_front()
    }

    /// The next request that is over.
    pub fn next_done(&mut self) -> Option<(Token, Result<Response, Failure>)> {
        self.done.pop_front()
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
    pub fn receive(&mut self, frame: Vec<u8>, now: Duration) {
        if self.failure().is_some() {
            return;
        }
        self.last_progress = now;
        if let Err(failure) = self.take_in(frame, now) {
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
        if !self.is_busy() || self.failure().is_some() {
            return None;
        }
        let silent = self.last_progress + self.config.timeout;
        let oldest = self.in_flight.values().next().map(|r| r.since + self.config.timeout * MOST_TIMEOUTS);
        Some(oldest.map_or(silent, |oldest| oldest.min(silent)))
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
        let under_way = std::mem::take(&mut self.in_flight).into_values().map(|r| r.purpose);
        let queued = std::mem::take(&mut self.queue).into_iter().map(|(purpose, _)| purpose);
        for purpose in under_way.chain(queued) {
            if let Purpose::Caller(token) = purpose {
                self.done.push_back((token, Err(failure.clone())));
            }
        }
        self.out.clear();
        self.phase = Phase::Over(failure);
    }

    /// Sends what credits allow, in order.
    fn pump(&mut self, now: Duration) {
        while matches!(self.phase, Phase::Ready)
            && let Some((_, request)) = self.queue.front()
        {
            let charge = self.charge_of(request);
            if self.credits.is_too_large(charge) {
                self.fail(Failure::Protocol("it grants fewer credits than one request needs"));
                return;
            }
            let Some(id) = self.credits.take(charge) else { return };
            if let Some((purpose, request)) = self.queue.pop_front() {
                self.emit(purpose, request, id, charge, now);
            }
        }
    }

    /// Sends a request of the handshake, of which there is one at a time.
    fn send_now(&mut self, purpose: Purpose, request: Request, now: Duration) {
        match self.credits.take(1) {
            Some(id) => self.emit(purpose, request, id, 1, now),
            None => self.fail(Failure::Protocol("it grants no credits")),
        }
    }

    /// The credits a request costs (MS-SMB2 3.2.4.1.5).
    fn charge_of(&self, request: &Request) -> u16 {
        if !self.negotiated.as_ref().is_some_and(|n| n.multi_credit) {
            return 1;
        }
        u16::try_from(request.payload_bytes.div_ceil(CREDIT_BYTES).max(1)).unwrap_or(u16::MAX)
    }

    fn emit(&mut self, purpose: Purpose, mut request: Request, id: u64, charge: u16, now: Duration) {
        let mut header = Header::request(request.command, id);
        header.credit_charge = self.charge_field(charge);
        header.credits = self.credits.to_request(charge);
        header.tree_id = request.tree_id;
        header.session_id = self.session_id;
        let sealed = self.shield.as_ref().is_some_and(|shield| shield.seal_all || request.seal);
        let signed = !sealed && self.is_signed(request.command);
        header.flags.set(Flags::SIGNED, signed);
        let mut head = Vec::with_capacity(HEADER_BYTES);
        header.put(&mut head);
        if let Some(room) = request.buf.get_mut(MESSAGE_AT..MESSAGE_AT + HEADER_BYTES) {
            room.copy_from_slice(&head);
        }
        let message = request.buf.get_mut(MESSAGE_AT..).unwrap_or_default();
        if let (true, Some(shield)) = (signed, &self.shield) {
            shield.sign(message);
        }
        self.hash(purpose, MESSAGE_AT, &request.buf);
        let start = if sealed { 0 } else { MESSAGE_AT - PREFIX_BYTES };
        if let (true, Some(shield)) = (sealed, &mut self.shield)
            && let Err(failure) = shield.seal(request.buf.get_mut(PREFIX_BYTES..).unwrap_or_default())
        {
            return self.fail(failure);
        }
        put_prefix(&mut request.buf, start);
        if self.in_flight.is_empty() {
            self.last_progress = now;
        }
        let command = request.command;
        self.in_flight
            .insert(id, InFlight { purpose, command, charge, since: now, signed, sealed, has_interim: false });
        self.out.push_back(Outgoing { buf: request.buf, start });
    }

    /// CreditCharge is 0 where there are no multi-credit requests (MS-SMB2 3.2.4.1.5).
    fn charge_field(&self, charge: u16) -> u16 {
        if self.negotiated.as_ref().is_some_and(|n| n.multi_credit) { charge } else { 0 }
    }

    /// MS-SMB2 3.2.4.1.1: 3.1.1 wants TREE_CONNECT signed always; VALIDATE_NEGOTIATE_INFO proves nothing unsigned.
    fn is_signed(&self, command: Command) -> bool {
        let always = match command {
            Command::TreeConnect => self.negotiated.as_ref().is_some_and(|n| n.dialect == Dialect::V3_1_1),
            Command::Ioctl => true,
            _ => false,
        };
        self.shield.as_ref().is_some_and(|shield| shield.sign_all || always)
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

    fn take_in(&mut self, mut frame: Vec<u8>, now: Duration) -> Result<(), Failure> {
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
            self.response(header, part, range, sealed, now)?;
            at = end;
        }
    }

    fn response(
        &mut self,
        header: Header,
        mut frame: Vec<u8>,
        message: Range<usize>,
        sealed: bool,
        now: Duration,
    ) -> Result<(), Failure> {
        if !header.flags.contains(Flags::RESPONSE) {
            return Err(Failure::Protocol("it sends a request"));
        }
        if header.message_id == UNASKED {
            return unasked(&header);
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
            Purpose::Caller(token) => {
                self.done.push_back((token, Ok(response)));
                Ok(())
            }
        }
    }

    fn negotiated(&mut self, response: &Response, now: Duration) -> Result<(), Failure> {
        if response.status() != NtStatus::SUCCESS {
            return Err(Failure::Negotiate(response.status()));
        }
        self.hash(Purpose::Negotiate, 0, response.message());
        self.negotiated = Some(offer::response(&self.config, response.message())?);
        let (login, token) = Login::new(&self.config, self.preauth);
        self.phase = Phase::LoggingIn(Box::new(login));
        self.send_token(&token, now);
        Ok(())
    }

    fn send_token(&mut self, token: &[u8], now: Duration) {
        let setup = SessionSetupRequest {
            binding: false,
            security_mode: offer::security_mode(&self.config),
            capabilities: Capabilities::empty(),
            previous_session_id: 0,
            security_buffer: token,
        };
        self.send_now(Purpose::Login, Request::new(Command::SessionSetup, 0, 0, |out| setup.put(out)), now);
    }

    fn logged_in(&mut self, response: &Response, now: Duration) -> Result<(), Failure> {
        match response.status() {
            NtStatus::MORE_PROCESSING_REQUIRED => self.log_in_further(response, now),
            NtStatus::SUCCESS => self.begin_session(response),
            status => Err(Failure::Login(status)),
        }
    }

    fn log_in_further(&mut self, response: &Response, now: Duration) -> Result<(), Failure> {
        self.hash(Purpose::Login, 0, response.message());
        let setup = SessionSetupResponse::decode(response.message()).map_err(malformed)?;
        let Phase::LoggingIn(login) = &mut self.phase else { return Err(OUT_OF_TURN) };
        let token = login.go_on(setup.security_buffer)?;
        self.session_id = response.header.session_id;
        self.send_token(&token, now);
        Ok(())
    }

    /// MS-SMB2 3.2.5.3.1: the last answer of a login. Its signature proves, with 3.1.1, that nothing before was changed.
    fn begin_session(&mut self, response: &Response) -> Result<(), Failure> {
        let setup = SessionSetupResponse::decode(response.message()).map_err(malformed)?;
        let Phase::LoggingIn(login) = &mut self.phase else { return Err(OUT_OF_TURN) };
        let negotiated = self.negotiated.as_ref().ok_or(OUT_OF_TURN)?;
        let key = login.finish(setup.security_buffer)?.clone();
        self.session_id = response.header.session_id;
        let unproven = setup.flags.intersects(SessionFlags::GUEST | SessionFlags::NULL);
        if unproven {
            may_be_unproven(&self.config, negotiated, setup.flags)?;
        } else {
            let Negotiated { dialect, signing, cipher, .. } = *negotiated;
            let mut shield = Shield::new(self.session_id, &key, dialect, &login.hash, signing, cipher);
            let wants = self.config.protection;
            shield.sign_all = negotiated.signing_required || wants != Protection::AsServer;
            shield.seal_all = setup.flags.contains(SessionFlags::ENCRYPT_DATA) || wants == Protection::Sealed;
            check_last(&shield, response, dialect)?;
            self.shield = Some(shield);
        }
        self.phase = Phase::Ready;
        Ok(())
    }
}

const OUT_OF_TURN: Failure = Failure::Protocol("an answer of the login out of turn");

/// A guest has no key: nothing can be signed, and whoever stands between may change everything.
fn may_be_unproven(config: &Config, negotiated: &Negotiated, flags: SessionFlags) -> Result<(), Failure> {
    if flags.contains(SessionFlags::GUEST) && !config.credentials.user.is_empty() {
        return Err(Failure::NoCommonGround("the server took the user for a guest: it does not know the name"));
    }
    if negotiated.signing_required || config.protection != Protection::AsServer {
        return Err(Failure::NoCommonGround("messages are to be signed, and nobody in particular has no key to"));
    }
    Ok(())
}

fn check_last(shield: &Shield, response: &Response, dialect: Dialect) -> Result<(), Failure> {
    if shield.seal_all && !shield.can_seal() {
        return Err(Failure::NoCommonGround("the server wants everything sealed and there is no cipher in common"));
    }
    if response.header.flags.contains(Flags::SIGNED) {
        let genuine = shield.verify(&mut response.message().to_vec());
        return if genuine {
            Ok(())
        } else {
            Err(Failure::NotGenuine("the login's last answer has a wrong signature"))
        };
    }
    if dialect == Dialect::V3_1_1 || shield.sign_all {
        return Err(Failure::NotGenuine("the login's last answer is not signed"));
    }
    Ok(())
}

/// A break of an oplock nobody asked for is passed over (MS-SMB2 3.2.5.19); there is nothing else to come unasked.
fn unasked(header: &Header) -> Result<(), Failure> {
    if header.command == Command::OplockBreak as u16 {
        return Ok(());
    }
    Err(Failure::Protocol("it sends what nobody asked for"))
}

/// Writes the direct-TCP prefix of what follows `start`.
fn put_prefix(buf: &mut [u8], start: usize) {
    let len = buf.len().saturating_sub(start + PREFIX_BYTES);
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if let Some(prefix) = buf.get_mut(start..start + PREFIX_BYTES) {
        prefix.copy_from_slice(&len.to_be_bytes());
    }
}
