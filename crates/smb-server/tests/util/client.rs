//! A small SMB2 client over one connection: it numbers, signs, seals and sends requests, and takes replies apart,
//! checking what every client would (signatures, nonces, message ids).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};

use auth::{InitStep, Initiator, InitiatorConfig, InitiatorSeed, NtHash};
use smb_server::Connection;
use smb_wire::NtStatus;
use smb_wire::crypto::{
    Cipher, Derivation, PreauthHash, SealingKey, SessionKeys, SigningAlgorithm, SigningKey, TRANSFORM_HEADER_LEN,
    TransformHeader,
};
use smb_wire::smb2::{
    Capabilities, Command, Dialect, Flags, HEADER_BYTES, Header, NegotiateContext, NegotiateRequest, NegotiateResponse,
    PREAUTH_SHA512, SecurityMode, SessionSetupRequest, SessionSetupResponse, TreeConnectRequest, set_next_command,
};
use vfs::{BufPool, Frame};

use super::world::{PASSWORD, USER};
use super::{ManualExecutor, Message, Response, Rng, wide};

/// The client's name for itself.
pub const CLIENT_GUID: [u8; 16] = [0xc1; 16];

/// What a client offers and who it is.
#[derive(Debug, Clone)]
pub struct Profile {
    pub dialects: Vec<Dialect>,
    pub ciphers: Vec<Cipher>,
    pub signing: Vec<SigningAlgorithm>,
    pub security_mode: SecurityMode,
    pub user: String,
    pub password: String,
    pub spnego: bool,
    pub previous_session_id: u64,
    /// Offer POSIX extensions, by this list of tags.
    pub posix: Vec<u8>,
    pub client_guid: [u8; 16],
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            dialects: Dialect::ALL.to_vec(),
            ciphers: vec![Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm],
            signing: vec![SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256],
            security_mode: SecurityMode::SIGNING_ENABLED,
            user: USER.into(),
            password: PASSWORD.into(),
            spnego: true,
            previous_session_id: 0,
            posix: Vec::new(),
            client_guid: CLIENT_GUID,
        }
    }
}

impl Profile {
    /// One dialect only.
    pub fn dialect(dialect: Dialect) -> Self {
        Self { dialects: vec![dialect], ..Self::default() }
    }

    /// Somebody else.
    pub fn user(user: &str, password: &str) -> Self {
        Self { user: user.into(), password: password.into(), ..Self::default() }
    }
}

/// Counts how often it was woken.
#[derive(Default)]
pub struct CountingWaker(pub AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// How long each taking of replies comes after the one before.
pub const ROUND_NS: u64 = 1000;

/// The client.
pub struct Client {
    pub conn: Connection,
    pub profile: Profile,
    pub session_id: u64,
    pub tree_id: u32,
    pub dialect: Option<Dialect>,
    pub negotiated: Option<NegotiateResponse>,
    /// Sign every request.
    pub sign: bool,
    /// Seal every frame.
    pub seal: bool,
    pub next_id: u64,
    /// Credits in hand.
    pub credits: u64,
    pub woken: Arc<CountingWaker>,
    pub signing_key: Option<Arc<SigningKey>>,
    /// Its connection is to become a channel of another client's session.
    pub binds: bool,
    seals: Option<(SealingKey, SealingKey)>,
    pub pool: BufPool,
    manual: Option<Arc<ManualExecutor>>,
    connection_hash: PreauthHash,
    session_hash: PreauthHash,
    out_nonce: u64,
    nonces_seen: HashSet<Vec<u8>>,
    waiting: HashMap<u64, Response>,
    /// What the connection is told of the time.
    pub now_ns: u64,
    rng: Rng,
}

impl Client {
    pub fn new(
        conn: Connection,
        pool: BufPool,
        manual: Option<Arc<ManualExecutor>>,
        profile: Profile,
        seed: u64,
    ) -> Self {
        Self {
            conn,
            profile,
            session_id: 0,
            tree_id: 0,
            dialect: None,
            negotiated: None,
            sign: false,
            seal: false,
            next_id: 0,
            credits: 1,
            woken: Arc::default(),
            signing_key: None,
            binds: false,
            seals: None,
            pool,
            manual,
            connection_hash: PreauthHash::new(),
            session_hash: PreauthHash::new(),
            out_nonce: 0,
            nonces_seen: HashSet::new(),
            waiting: HashMap::new(),
            now_ns: 0,
            rng: Rng::new(seed),
        }
    }

    /// Feeds one frame, the direct-TCP prefix put in front.
    pub fn feed(&mut self, message: &[u8]) {
        let mut buf = self.pool.get(message.len() + 4);
        buf.push(&(message.len() as u32).to_be_bytes());
        buf.push(message);
        self.conn.arrived(self.now_ns);
        self.conn.receive(Frame::from(buf), false);
    }

    /// Lets the connection go on.
    pub fn poll(&mut self) {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.conn.poll(&mut Context::from_waker(&waker));
    }

    /// Runs parked jobs, in any order, and takes replies, until the connection owes nothing.
    pub fn drive(&mut self) {
        loop {
            self.poll();
            self.collect();
            if self.conn.is_stalled() {
                continue;
            }
            let manual = self.manual.clone();
            if !self.conn.is_busy() || !manual.is_some_and(|m| m.run_any(&mut self.rng)) {
                return;
            }
        }
    }

    /// Throws the replies away that there are; answers how many bytes they had.
    pub fn discard(&mut self) -> usize {
        let mut bytes = 0;
        self.poll();
        while let Some(reply) = self.conn.next_reply() {
            bytes += reply.head.len();
            self.poll();
        }
        bytes
    }

    /// The bytes of a frame of `messages`, numbered, linked and signed, but not sealed; with their ids.
    pub fn encode(&mut self, messages: &[Message]) -> (Vec<u8>, Vec<u64>) {
        let mut frame = Vec::new();
        let mut ids = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            let start = frame.len();
            let id = self.take_id(message.charge);
            let mut header = Header::request(Command::Echo, id);
            header.command = message.command;
            header.credit_charge = if self.dialect.is_some_and(|d| d > Dialect::V2_0_2) { message.charge } else { 0 };
            header.credits = message.credits;
            header.flags = message.flags;
            header.status = message.channel_sequence.into();
            header.session_id = message.session_id.unwrap_or(self.session_id);
            header.tree_id = message.tree_id.unwrap_or(self.tree_id);
            let sign = message.sign.unwrap_or(self.sign && !self.seal) && self.signing_key.is_some();
            header.flags.set(Flags::SIGNED, sign);
            header.put(&mut frame);
            frame.extend(&message.body);
            if index + 1 < messages.len() {
                frame.resize(frame.len().next_multiple_of(8), 0);
                let len = frame.len() - start;
                set_next_command(&mut frame[start..], len as u32);
            }
            if let (true, Some(key)) = (sign, &self.signing_key) {
                key.sign(&mut frame[start..]);
            }
            ids.push(id);
        }
        (frame, ids)
    }

    fn take_id(&mut self, charge: u16) -> u64 {
        let charge = u64::from(charge.max(1));
        assert!(self.credits >= charge, "the test has no credits left");
        self.credits -= charge;
        self.next_id += charge;
        self.next_id - charge
    }

    /// `frame` in an encrypted one.
    pub fn seal_frame(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut sealed = vec![0; TRANSFORM_HEADER_LEN];
        sealed.extend(frame);
        self.out_nonce += 1;
        let (key, _) = self.seals.as_ref().expect("keys to seal with");
        key.seal(&mut sealed, self.session_id, self.out_nonce);
        sealed
    }

    /// Sends a frame of `messages`.
    pub fn send(&mut self, messages: &[Message]) -> Vec<u64> {
        let (mut frame, ids) = self.encode(messages);
        if self.seal {
            frame = self.seal_frame(&frame);
        }
        self.feed(&frame);
        ids
    }

    /// Takes in the replies there are. Interim ones are checked and dropped.
    pub fn collect(&mut self) -> usize {
        let mut count = 0;
        while let Some(reply) = self.conn.next_reply() {
            assert!(reply.pages.is_none(), "there are no pipes here");
            for response in self.take_apart(reply.head.to_vec()) {
                self.credits += u64::from(response.header.credits);
                if response.status() == NtStatus::PENDING && response.header.flags.contains(Flags::ASYNC) {
                    continue;
                }
                count += 1;
                let id = response.header.message_id;
                assert!(self.waiting.insert(id, response).is_none(), "message {id} is answered twice");
            }
        }
        // What leaves together has taken as long.
        self.now_ns += ROUND_NS;
        self.conn.sent(self.now_ns);
        count
    }

    /// One frame's responses.
    pub fn take_apart(&mut self, mut frame: Vec<u8>) -> Vec<Response> {
        assert_eq!(u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize, frame.len() - 4, "the prefix");
        let mut rest = frame.split_off(4);
        let sealed = TransformHeader::is_transform(&rest);
        if sealed {
            assert!(self.nonces_seen.insert(rest[20..36].to_vec()), "a nonce is used twice");
            let (_, key) = self.seals.as_ref().expect("keys to open with");
            rest = key.open(&mut rest).expect("the frame opens").to_vec();
        }
        let mut responses = Vec::new();
        loop {
            let header = Header::decode(&rest).expect("a response has a header");
            assert!(header.flags.contains(Flags::RESPONSE));
            let next = header.next_command as usize;
            assert!(next.is_multiple_of(8), "elements begin on 8 bytes");
            let behind = if next == 0 { Vec::new() } else { rest.split_off(next) };
            let mut bytes = std::mem::replace(&mut rest, behind);
            let signed = header.flags.contains(Flags::SIGNED);
            if signed && let Some(key) = &self.signing_key {
                assert!(key.verify(&mut bytes), "the signature of {header:?}");
            }
            responses.push(Response { header, bytes, signed, sealed });
            if next == 0 {
                return responses;
            }
        }
    }

    /// The response to message `id`, if it came.
    pub fn take(&mut self, id: u64) -> Option<Response> {
        self.collect();
        self.waiting.remove(&id)
    }

    /// Sends `messages` in one frame and waits for the answers. `Err`: the connection ended instead.
    pub fn try_compound(&mut self, messages: &[Message]) -> Result<Vec<Response>, &'static str> {
        let ids = self.send(messages);
        self.drive();
        self.collect();
        if let Some(why) = self.conn.finished() {
            return Err(why);
        }
        Ok(ids.iter().map(|id| self.waiting.remove(id).expect("an answer")).collect())
    }

    /// The same, and the connection goes on.
    #[track_caller]
    pub fn compound(&mut self, messages: &[Message]) -> Vec<Response> {
        self.try_compound(messages).expect("the connection goes on")
    }

    /// Sends one request and waits for the answer.
    #[track_caller]
    pub fn call(&mut self, message: Message) -> Response {
        self.compound(&[message]).remove(0)
    }

    /// Sends one request that ends the connection; answers why.
    #[track_caller]
    pub fn call_and_end(&mut self, message: Message) -> &'static str {
        self.try_compound(&[message]).expect_err("the connection ends")
    }

    /// The NEGOTIATE this client sends.
    pub fn negotiate_request(&self) -> NegotiateRequest {
        let dialects: Vec<u16> = self.profile.dialects.iter().map(|d| *d as u16).collect();
        let is_311 = self.profile.dialects.contains(&Dialect::V3_1_1);
        let mut contexts = vec![NegotiateContext::Preauth { hashes: vec![PREAUTH_SHA512], salt: vec![7; 32] }];
        if !self.profile.ciphers.is_empty() {
            contexts.push(NegotiateContext::Encryption(self.profile.ciphers.iter().map(|c| c.to_wire()).collect()));
        }
        if !self.profile.signing.is_empty() {
            contexts.push(NegotiateContext::Signing(self.profile.signing.iter().map(|a| a.to_wire()).collect()));
        }
        if !self.profile.posix.is_empty() {
            contexts.push(NegotiateContext::Posix(self.profile.posix.clone()));
        }
        NegotiateRequest {
            security_mode: self.profile.security_mode,
            capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION,
            client_guid: self.profile.client_guid,
            dialects,
            contexts: if is_311 { contexts } else { Vec::new() },
        }
    }

    /// NEGOTIATE.
    #[track_caller]
    pub fn negotiate(&mut self) -> NegotiateResponse {
        let request = self.negotiate_request();
        let message = Message::of(Command::Negotiate, |out| request.put(out));
        let (frame, ids) = self.encode(&[message]);
        self.connection_hash.update(&frame);
        self.feed(&frame);
        let response = self.take(ids[0]).expect("an answer").ok();
        self.connection_hash.update(&response.bytes);
        let decoded = NegotiateResponse::decode(&response.bytes).unwrap();
        self.dialect = Dialect::from_u16(decoded.dialect);
        self.negotiated = Some(decoded.clone());
        decoded
    }

    fn initiator(&mut self) -> Initiator {
        let secret = NtHash::of_password(&self.profile.password);
        let mut config = InitiatorConfig::new(&self.profile.user, "WORKGROUP", secret);
        config.spnego = self.profile.spnego;
        let mut seed = InitiatorSeed { client_challenge: [0; 8], session_key: [0; 16], now: 0x01d0_baae_cdf5_a1a1 };
        seed.client_challenge.fill_with(|| self.rng.next() as u8);
        seed.session_key.fill_with(|| self.rng.next() as u8);
        Initiator::new(&config, seed)
    }

    /// One SESSION_SETUP with this token.
    pub fn setup_message(&self, token: &[u8]) -> Message {
        let request = SessionSetupRequest {
            binding: self.binds,
            security_mode: self.profile.security_mode,
            capabilities: Capabilities::empty(),
            previous_session_id: self.profile.previous_session_id,
            security_buffer: token,
        };
        let mut message = Message::of(Command::SessionSetup, |out| request.put(out));
        message.sign = self.binds.then_some(true);
        message
    }

    /// Makes the connection a channel of the session of `other`, or says why not.
    pub fn try_bind(&mut self, other: &Client) -> Result<Response, NtStatus> {
        (self.session_id, self.tree_id) = (other.session_id, other.tree_id);
        self.signing_key = other.signing_key.clone();
        self.binds = true;
        let answer = self.try_login();
        self.binds = false;
        answer
    }

    /// The first token of a login, for tests that send it themselves.
    pub fn first_token(&mut self) -> Vec<u8> {
        self.initiator().first_token()
    }

    /// Logs in, or says why not.
    pub fn try_login(&mut self) -> Result<Response, NtStatus> {
        let mut initiator = self.initiator();
        let mut token = initiator.first_token();
        self.session_hash = self.connection_hash;
        loop {
            let message = self.setup_message(&token);
            let (frame, ids) = self.encode(&[message]);
            self.session_hash.update(&frame);
            self.feed(&frame);
            self.poll();
            let raw = self.conn.next_reply().expect("an answer to SESSION_SETUP").head.to_vec();
            let header = Header::decode(&raw[4..]).unwrap();
            assert_eq!(header.message_id, ids[0]);
            let status = NtStatus(header.status);
            if status == NtStatus::SUCCESS && (self.binds || self.signing_key.is_none()) {
                self.session_id = header.session_id;
                self.derive(&initiator);
            }
            let response = self.take_apart(raw).remove(0);
            self.credits += u64::from(header.credits);
            match status {
                NtStatus::SUCCESS => {
                    assert!(response.signed, "the answer that ends a login proves the server's key");
                    let setup = SessionSetupResponse::decode(&response.bytes).unwrap();
                    assert_eq!(initiator.step(setup.security_buffer), Ok(InitStep::Done));
                    return Ok(response);
                }
                NtStatus::MORE_PROCESSING_REQUIRED => {
                    self.session_id = header.session_id;
                    self.session_hash.update(&response.bytes);
                    let setup = SessionSetupResponse::decode(&response.bytes).unwrap();
                    match initiator.step(setup.security_buffer).unwrap() {
                        InitStep::Continue(next) => token = next,
                        InitStep::Done => panic!("the client is done before the server"),
                    }
                }
                status => return Err(status),
            }
        }
    }

    /// Logs in.
    #[track_caller]
    pub fn login(&mut self) -> Response {
        self.try_login().expect("the login succeeds")
    }

    fn derive(&mut self, initiator: &Initiator) {
        let key = initiator.session_key().expect("a session key");
        let dialect = self.dialect.unwrap();
        let derivation = match dialect {
            Dialect::V2_0_2 | Dialect::V2_1 => Derivation::Smb2,
            Dialect::V3_0 | Dialect::V3_0_2 => Derivation::Smb30,
            Dialect::V3_1_1 => Derivation::Smb311(&self.session_hash),
        };
        let cipher = self.cipher();
        let keys = SessionKeys::derive(derivation, &key.first_16(), key.full(), cipher);
        self.signing_key = Some(Arc::new(SigningKey::new(self.signing_algorithm(), &keys.signing)));
        if self.binds {
            return;
        }
        if let (Some(cipher), Some(out), Some(back)) = (cipher, &keys.client_to_server, &keys.server_to_client) {
            let key = |bytes: &[u8]| SealingKey::new(cipher, bytes).unwrap();
            self.seals = Some((key(out.as_ref()), key(back.as_ref())));
        }
    }

    fn contexts(&self) -> &[NegotiateContext] {
        self.negotiated.as_ref().map_or(&[], |n| &n.contexts)
    }

    /// The cipher agreed on.
    pub fn cipher(&self) -> Option<Cipher> {
        match self.dialect {
            Some(Dialect::V3_0 | Dialect::V3_0_2) => {
                let capable = self.negotiated.as_ref()?.capabilities.contains(Capabilities::ENCRYPTION);
                capable.then_some(Cipher::Aes128Ccm)
            }
            _ => self.contexts().iter().find_map(|c| match c {
                NegotiateContext::Encryption(list) => Cipher::from_wire(*list.first()?),
                _ => None,
            }),
        }
    }

    /// How messages are signed.
    pub fn signing_algorithm(&self) -> SigningAlgorithm {
        let agreed = self.contexts().iter().find_map(|c| match c {
            NegotiateContext::Signing(list) => SigningAlgorithm::from_wire(*list.first()?),
            _ => None,
        });
        let default = if self.dialect.is_some_and(Dialect::is_3) {
            SigningAlgorithm::AesCmac
        } else {
            SigningAlgorithm::HmacSha256
        };
        agreed.unwrap_or(default)
    }

    /// TREE_CONNECT.
    pub fn try_tree_connect(&mut self, share: &str) -> Result<Response, NtStatus> {
        let path = wide(&format!("\\\\longshore\\{share}"));
        let message = Message::of(Command::TreeConnect, |out| TreeConnectRequest { flags: 0, path: &path }.put(out));
        let response = self.call(message);
        match response.status() {
            NtStatus::SUCCESS => {
                self.tree_id = response.header.tree_id;
                Ok(response)
            }
            status => Err(status),
        }
    }

    /// TREE_CONNECT.
    #[track_caller]
    pub fn tree_connect(&mut self, share: &str) -> Response {
        self.try_tree_connect(share).expect("the share admits")
    }

    /// The connection breaks.
    pub fn hang_up(mut self) {
        self.conn.closed("the test hangs up");
    }

    /// The body of a response from its header on.
    pub fn header_len() -> usize {
        HEADER_BYTES
    }
}
