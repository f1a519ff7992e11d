//! The client's side of one authentication, the mirror of `acceptor`. The client library uses it, and the tests of both
//! sides. Randomness and time come from the caller.

use smb_wire::spnego::{self, NegState, NegTokenInit, NegTokenResp, OID_NTLMSSP, Oid, Token};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::ntlm::{NtlmInitiator, Signers};
use crate::{AuthError, NtHash, SessionKey};

/// Who logs in, and how.
#[derive(Debug, Clone)]
pub struct InitiatorConfig {
    /// The user; empty to log in anonymously.
    pub user: String,
    /// The user's domain; may be empty.
    pub domain: String,
    /// This machine's name; informative.
    pub workstation: String,
    /// The password's hash.
    pub secret: NtHash,
    /// Wrap in SPNEGO; otherwise NTLMSSP goes bare.
    pub spnego: bool,
    /// The mechanisms named to the server, NTLMSSP among them. If another comes first, the first token carries none.
    pub mech_types: Vec<Oid<'static>>,
    /// Send NTLMv1 responses. For servers nothing else works with, and for tests.
    pub ntlmv1: bool,
    /// Send a MIC with NTLMv2.
    pub mic: bool,
    /// Choose the session key on this side.
    pub key_exchange: bool,
    /// The service one believes to talk to: `cifs/server`.
    pub target_name: Option<String>,
    /// MD5 of the channel bindings.
    pub channel_bindings: Option<[u8; 16]>,
}

impl InitiatorConfig {
    /// NTLMv2 in SPNEGO with everything that protects it.
    pub fn new(user: &str, domain: &str, secret: NtHash) -> Self {
        Self {
            user: user.into(),
            domain: domain.into(),
            workstation: String::new(),
            secret,
            spnego: true,
            mech_types: vec![OID_NTLMSSP],
            ntlmv1: false,
            mic: true,
            key_exchange: true,
            target_name: None,
            channel_bindings: None,
        }
    }
}

/// What must be new for each exchange.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct InitiatorSeed {
    /// Random.
    pub client_challenge: [u8; 8],
    /// Random: the session key, if this side chooses it.
    pub session_key: [u8; 16],
    /// The time as a FILETIME, for servers that don't say theirs.
    pub now: u64,
}

impl std::fmt::Debug for InitiatorSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InitiatorSeed(..)")
    }
}

/// What a token of the server leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitStep {
    /// The server gets this and answers.
    Continue(Vec<u8>),
    /// It is over and good.
    Done,
}

/// One exchange.
pub struct Initiator {
    ntlm: NtlmInitiator,
    is_spnego: bool,
    mech_types: Vec<Oid<'static>>,
    mic_required: bool,
    session_key: Option<SessionKey>,
    state: State,
}

enum State {
    /// The server must choose the mechanism first.
    Offered,
    Negotiating,
    Answered(Option<Box<Signers>>),
    Over,
}

impl std::fmt::Debug for Initiator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Initiator").field("session_key", &self.session_key).finish_non_exhaustive()
    }
}

impl Initiator {
    /// A new exchange.
    pub fn new(config: &InitiatorConfig, seed: InitiatorSeed) -> Self {
        let is_optimistic = !config.spnego || config.mech_types.first() == Some(&OID_NTLMSSP);
        Self {
            ntlm: NtlmInitiator::new(config.clone(), seed),
            is_spnego: config.spnego,
            mech_types: config.mech_types.clone(),
            mic_required: false,
            session_key: None,
            state: if is_optimistic { State::Negotiating } else { State::Offered },
        }
    }

    /// The first token.
    pub fn first_token(&self) -> Vec<u8> {
        if !self.is_spnego {
            return self.ntlm.negotiate().to_vec();
        }
        NegTokenInit {
            mech_types: self.mech_types.clone(),
            mech_token: matches!(self.state, State::Negotiating).then_some(self.ntlm.negotiate()),
            ..NegTokenInit::default()
        }
        .encode()
    }

    /// The key both sides have, from the moment this side's last token is made.
    pub fn session_key(&self) -> Option<&SessionKey> {
        self.session_key.as_ref()
    }

    /// Takes the server's next token. After an error the exchange is over.
    pub fn step(&mut self, token: &[u8]) -> Result<InitStep, AuthError> {
        let resp = self.unwrap(token)?;
        match std::mem::replace(&mut self.state, State::Over) {
            State::Offered => self.begin(&resp),
            State::Negotiating => self.answer(&resp),
            State::Answered(signers) => self.finish(&resp, signers),
            State::Over => Err(AuthError::OutOfOrder),
        }
    }

    fn unwrap<'a>(&self, token: &'a [u8]) -> Result<NegTokenResp<'a>, AuthError> {
        if !self.is_spnego {
            let state = token.is_empty().then_some(NegState::AcceptCompleted);
            return Ok(NegTokenResp { state, response_token: Some(token), ..NegTokenResp::default() });
        }
        match Token::decode(token)? {
            Token::Resp(NegTokenResp { state: Some(NegState::Reject), .. }) => Err(AuthError::Refused),
            Token::Resp(resp) => Ok(resp),
            Token::Init(_) => Err(AuthError::OutOfOrder),
        }
    }

    fn begin(&mut self, resp: &NegTokenResp<'_>) -> Result<InitStep, AuthError> {
        if resp.supported_mech != Some(OID_NTLMSSP) {
            return Err(AuthError::NoMechanism);
        }
        // Not the one we named first, so the server must prove that it saw our list (RFC 4178 5).
        self.mic_required = true;
        self.state = State::Negotiating;
        let reply = NegTokenResp { response_token: Some(self.ntlm.negotiate()), ..NegTokenResp::default() };
        Ok(InitStep::Continue(reply.encode()))
    }

    fn answer(&mut self, resp: &NegTokenResp<'_>) -> Result<InitStep, AuthError> {
        self.mic_required |= resp.state == Some(NegState::RequestMic);
        let mut answer = self.ntlm.authenticate(resp.response_token.ok_or(AuthError::InvalidToken)?)?;
        self.session_key = Some(SessionKey::new(&*answer.exported));
        let list = spnego::encode_mech_types(&self.mech_types);
        let reply = if self.is_spnego {
            let mic = answer.signers.as_mut().map(|signers| signers.client.sign(&list));
            NegTokenResp {
                state: Some(NegState::AcceptIncomplete),
                response_token: Some(&answer.token),
                mech_list_mic: mic.as_ref().map(|mic| &mic[..]),
                ..NegTokenResp::default()
            }
            .encode()
        } else {
            answer.token
        };
        self.state = State::Answered(answer.signers);
        Ok(InitStep::Continue(reply))
    }

    fn finish(&mut self, resp: &NegTokenResp<'_>, signers: Option<Box<Signers>>) -> Result<InitStep, AuthError> {
        if resp.state != Some(NegState::AcceptCompleted) {
            return Err(AuthError::Refused);
        }
        let list = spnego::encode_mech_types(&self.mech_types);
        let is_genuine = match (resp.mech_list_mic, signers) {
            (Some(mic), Some(mut signers)) => signers.server.verify(&list, mic),
            (Some(_), None) => false,
            (None, _) => !self.mic_required,
        };
        if is_genuine { Ok(InitStep::Done) } else { Err(AuthError::Refused) }
    }
}
