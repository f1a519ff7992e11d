//! What every authentication mechanism offers to SPNEGO, and what comes out of one. NTLM is the mechanism there is;
//! Kerberos joins by implementing [`Mechanism`].

use smb_wire::spnego::Oid;
use zeroize::Zeroizing;

use crate::NtHash;

/// Why an authentication came to nothing. None of it says which part of the credentials was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthError {
    /// The credentials, or what protects them, are not good (STATUS_LOGON_FAILURE).
    #[error("logon failure")]
    Refused,
    /// The bytes are no token of the protocol (STATUS_INVALID_PARAMETER).
    #[error("malformed authentication token")]
    InvalidToken,
    /// The peer offers no mechanism this side has (STATUS_NOT_SUPPORTED).
    #[error("no common authentication mechanism")]
    NoMechanism,
    /// A token after the exchange had ended, or one of another step.
    #[error("authentication token out of order")]
    OutOfOrder,
}

/// Where NT hashes come from.
pub trait UserLookup {
    /// The hash of a user, whose name is compared without regard to case. `domain` is what the client says.
    fn nt_hash(&self, domain: &str, user: &str) -> Option<NtHash>;
}

/// As what somebody was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoginKind {
    /// A user who proved to be that user.
    User,
    /// Somebody unknown, let in because the configuration says so. There is no common session key.
    Guest,
    /// Somebody who gave no name.
    Anonymous,
}

/// The result of an authentication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The user's name as the client wrote it; empty for an anonymous one.
    pub name: String,
    /// The domain as the client wrote it.
    pub domain: String,
    /// The client's own name; informative.
    pub workstation: String,
    /// As what.
    pub kind: LoginKind,
    /// The service the client believed to talk to, where it said so (extended protection).
    pub target_name: Option<String>,
    /// MD5 of the client's channel bindings, where it sent some (extended protection).
    pub channel_bindings: Option<[u8; 16]>,
}

impl Authenticated {
    /// Whether this is a user who proved to be that user.
    pub fn is_user(&self) -> bool {
        self.kind == LoginKind::User
    }
}

/// The key both sides have in common afterwards. 16 bytes with NTLM, more with some Kerberos ciphers.
#[derive(Clone)]
pub struct SessionKey(Zeroizing<Vec<u8>>);

impl SessionKey {
    /// From its bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(Zeroizing::new(bytes.to_vec()))
    }

    /// Session.SessionKey: the first 16 bytes, zeros behind a shorter one (MS-SMB2 3.3.5.5.3).
    pub fn first_16(&self) -> [u8; 16] {
        let mut key = [0; 16];
        key.iter_mut().zip(self.0.iter()).for_each(|(to, from)| *to = *from);
        key
    }

    /// Session.FullSessionKey.
    pub fn full(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

/// The acceptor's side of one mechanism in one exchange.
pub trait Mechanism: Send {
    /// The identifiers it answers to, the proper one first.
    fn oids(&self) -> &'static [Oid<'static>];

    /// Takes the initiator's next token. After an error the exchange is over.
    fn step(&mut self, token: &[u8], users: &dyn UserLookup) -> Result<MechStep, AuthError>;

    /// A signature over `data` once the exchange is done; `None` where what was agreed on cannot sign.
    fn make_mic(&mut self, data: &[u8]) -> Option<Vec<u8>>;

    /// Whether `mic` is the peer's signature over `data` once the exchange is done.
    fn verify_mic(&mut self, data: &[u8], mic: &[u8]) -> bool;
}

/// What a mechanism's step leads to.
#[derive(Debug)]
pub enum MechStep {
    /// The initiator gets this and answers.
    Continue(Vec<u8>),
    /// It is over and good.
    Done(Outcome),
}

/// A mechanism's good end.
#[derive(Debug)]
pub struct Outcome {
    /// Who it is.
    pub who: Authenticated,
    /// The common key.
    pub session_key: SessionKey,
    /// A last token for the initiator, in mechanisms that have one.
    pub token: Option<Vec<u8>>,
}
