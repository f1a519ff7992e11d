//! The server's side of one authentication: SPNEGO (RFC 4178, MS-SPNG), or NTLMSSP bare, around the mechanisms there
//! are. `smb-server` makes one per SESSION_SETUP exchange and feeds it tokens; randomness and time come from there.

use smb_wire::ntlmssp;
use smb_wire::spnego::{NegState, NegTokenInit, NegTokenResp, OID_NTLMSSP, Oid, SpnegoError, Token};

use crate::ntlm::NtlmAcceptor;
use crate::{AuthError, Authenticated, LoginKind, MechStep, Mechanism, Outcome, SessionKey, UserLookup};

/// How clients are received. The default is the safe one: NTLMv2 and known users only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptorConfig {
    /// The server's NetBIOS name, up to 15 characters, in capitals by custom.
    pub netbios_name: String,
    /// Its NetBIOS domain or workgroup; the server's own name where it is alone.
    pub netbios_domain: String,
    /// Its DNS name.
    pub dns_name: String,
    /// Its DNS domain.
    pub dns_domain: String,
    /// Whether NTLMv1 responses are looked at.
    pub allow_ntlmv1: bool,
    /// Whether an unknown user is let in as a guest. A known one with a wrong password never is.
    pub allow_guest: bool,
    /// Whether a client without a user name is let in.
    pub allow_anonymous: bool,
}

/// What a token leads to.
#[derive(Debug)]
pub enum Step {
    /// The client gets this and answers (STATUS_MORE_PROCESSING_REQUIRED).
    Continue(Vec<u8>),
    /// It is over and good.
    Done {
        /// Who it is.
        who: Authenticated,
        /// The key both sides have now. Zeros, and not secret, for a guest.
        session_key: SessionKey,
        /// The last token for the client; empty with bare NTLMSSP.
        token: Vec<u8>,
    },
}

/// One exchange.
pub struct Acceptor {
    mechanisms: Vec<Box<dyn Mechanism>>,
    state: State,
}

enum State {
    Start,
    /// NTLMSSP without SPNEGO, by the mechanism's index.
    Bare(usize),
    Negotiated(Negotiation),
    Over,
}

struct Negotiation {
    mechanism: usize,
    /// As the client named it.
    oid: Vec<u8>,
    /// The client's list, for the MIC.
    mech_types_der: Vec<u8>,
    /// The client wanted another mechanism more, so the list must prove to be the client's (RFC 4178 5).
    mic_required: bool,
    /// The client has been told which mechanism it is.
    announced: bool,
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acceptor").field("over", &matches!(self.state, State::Over)).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// An exchange with NTLM. `challenge` must be random and new; `now` is a FILETIME.
    pub fn new(config: &AcceptorConfig, challenge: [u8; 8], now: u64) -> Self {
        let ntlm = NtlmAcceptor::new(config.clone(), challenge, now);
        Self { mechanisms: vec![Box::new(ntlm)], state: State::Start }
    }

    /// The same with one more mechanism, named before those already there.
    #[must_use]
    pub fn with_mechanism(mut self, mechanism: Box<dyn Mechanism>) -> Self {
        self.mechanisms.insert(0, mechanism);
        self
    }

    /// The security blob of the NEGOTIATE response: which mechanisms there are.
    pub fn initial_token(&self) -> Vec<u8> {
        let oids: Vec<Oid<'_>> = self.mechanisms.iter().flat_map(|mechanism| mechanism.oids()).copied().collect();
        NegTokenInit::encode_hint(&oids)
    }

    /// Takes the client's next token. After an error the exchange is over.
    pub fn step(&mut self, token: &[u8], users: &dyn UserLookup) -> Result<Step, AuthError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Start if token.starts_with(&ntlmssp::SIGNATURE) => {
                let ntlm = self.find(OID_NTLMSSP).ok_or(AuthError::NoMechanism)?;
                self.bare(ntlm, token, users)
            }
            State::Start => match Token::decode(token)? {
                Token::Init(init) => self.first(&init, users),
                Token::Resp(_) => Err(AuthError::OutOfOrder),
            },
            State::Bare(mechanism) => self.bare(mechanism, token, users),
            State::Negotiated(negotiation) => match Token::decode(token)? {
                Token::Resp(resp) => {
                    let inner = resp.response_token.ok_or(AuthError::InvalidToken)?;
                    self.advance(negotiation, inner, resp.mech_list_mic, users)
                }
                Token::Init(_) => Err(AuthError::OutOfOrder),
            },
            State::Over => Err(AuthError::OutOfOrder),
        }
    }

    fn find(&self, oid: Oid<'_>) -> Option<usize> {
        self.mechanisms.iter().position(|mechanism| mechanism.oids().contains(&oid))
    }

    fn bare(&mut self, mechanism: usize, token: &[u8], users: &dyn UserLookup) -> Result<Step, AuthError> {
        match self.mechanism(mechanism)?.step(token, users)? {
            MechStep::Continue(token) => {
                self.state = State::Bare(mechanism);
                Ok(Step::Continue(token))
            }
            MechStep::Done(Outcome { who, session_key, token }) => {
                Ok(Step::Done { who, session_key, token: token.unwrap_or_default() })
            }
        }
    }

    fn mechanism(&mut self, index: usize) -> Result<&mut dyn Mechanism, AuthError> {
        match self.mechanisms.get_mut(index) {
            Some(mechanism) => Ok(mechanism.as_mut()),
            None => Err(AuthError::NoMechanism),
        }
    }

    /// Chooses the client's most wanted mechanism that is here. A token it sent in advance is good only for its first.
    fn first(&mut self, init: &NegTokenInit<'_>, users: &dyn UserLookup) -> Result<Step, AuthError> {
        let mut known = init.mech_types.iter().enumerate().filter_map(|(at, oid)| Some((at, *oid, self.find(oid)?)));
        let (at, oid, mechanism) = known.next().ok_or(AuthError::NoMechanism)?;
        let mut negotiation = Negotiation {
            mechanism,
            oid: oid.to_vec(),
            mech_types_der: init.mech_types_der.to_vec(),
            mic_required: at != 0,
            announced: false,
        };
        match init.mech_token {
            Some(token) if at == 0 => self.advance(negotiation, token, init.mech_list_mic, users),
            _ => {
                let reply = negotiation.incomplete(None);
                self.state = State::Negotiated(negotiation);
                Ok(Step::Continue(reply))
            }
        }
    }

    fn advance(
        &mut self,
        mut negotiation: Negotiation,
        token: &[u8],
        mic: Option<&[u8]>,
        users: &dyn UserLookup,
    ) -> Result<Step, AuthError> {
        match self.mechanism(negotiation.mechanism)?.step(token, users)? {
            MechStep::Continue(token) => {
                let reply = negotiation.incomplete(Some(&token));
                self.state = State::Negotiated(negotiation);
                Ok(Step::Continue(reply))
            }
            MechStep::Done(outcome) => self.finish(&negotiation, outcome, mic),
        }
    }

    fn finish(&mut self, negotiation: &Negotiation, outcome: Outcome, mic: Option<&[u8]>) -> Result<Step, AuthError> {
        let mechanism = self.mechanism(negotiation.mechanism)?;
        let list = &negotiation.mech_types_der;
        // There is no common key with a guest, so nothing to verify or to sign with.
        let reply_mic = match mic {
            _ if outcome.who.kind == LoginKind::Guest => None,
            Some(mic) if !mechanism.verify_mic(list, mic) => return Err(AuthError::Refused),
            Some(_) => mechanism.make_mic(list),
            None if negotiation.mic_required => return Err(AuthError::Refused),
            None => None,
        };
        let reply = NegTokenResp {
            state: Some(NegState::AcceptCompleted),
            supported_mech: (!negotiation.announced).then_some(&negotiation.oid),
            response_token: outcome.token.as_deref(),
            mech_list_mic: reply_mic.as_deref(),
        };
        Ok(Step::Done { token: reply.encode(), who: outcome.who, session_key: outcome.session_key })
    }
}

impl Negotiation {
    /// A reply that asks for more; the first one names the mechanism.
    fn incomplete(&mut self, token: Option<&[u8]>) -> Vec<u8> {
        let is_first = !std::mem::replace(&mut self.announced, true);
        let state = if is_first && self.mic_required { NegState::RequestMic } else { NegState::AcceptIncomplete };
        NegTokenResp {
            state: Some(state),
            supported_mech: is_first.then_some(&self.oid),
            response_token: token,
            mech_list_mic: None,
        }
        .encode()
    }
}

impl From<SpnegoError> for AuthError {
    fn from(_: SpnegoError) -> Self {
        Self::InvalidToken
    }
}
