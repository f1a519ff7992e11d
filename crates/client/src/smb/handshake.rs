//! Who logs in, and one login under way (MS-SMB2 3.2.4.2.3, 3.2.5.3): NTLMv2 in SPNEGO. The machine asks it for tokens.
//! It must never show a secret.

use auth::{AuthError, InitStep, Initiator, InitiatorConfig, InitiatorSeed, NtHash};
use smb_wire::crypto::PreauthHash;

use super::{Config, Failure};

/// Who logs in.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub(crate) user: String,
    pub(crate) domain: String,
    pub(crate) secret: NtHash,
}

impl Credentials {
    /// A user with a password. The password is not kept, only what NTLM makes of it.
    pub fn password(user: &str, password: &str) -> Self {
        Self { user: user.into(), domain: String::new(), secret: NtHash::of_password(password) }
    }

    /// A user with the hash of a password.
    pub fn nt_hash(user: &str, secret: NtHash) -> Self {
        Self { user: user.into(), domain: String::new(), secret }
    }

    /// Nobody in particular, where a server admits such.
    pub fn anonymous() -> Self {
        Self::password("", "")
    }

    /// In a domain.
    #[must_use]
    pub fn in_domain(self, domain: &str) -> Self {
        Self { domain: domain.into(), ..self }
    }

    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }
}

/// One login under way.
#[derive(Debug)]
pub(crate) struct Login {
    initiator: Initiator,
    /// Session.PreauthIntegrityHashValue.
    pub hash: PreauthHash,
    rounds: u8,
}

/// A login has two or three rounds; a server that wants more wants no end.
const MOST_ROUNDS: u8 = 4;

impl Login {
    /// Begins, the connection's hash being `hash`; answers the first token too.
    pub fn new(config: &Config, hash: PreauthHash) -> (Self, Vec<u8>) {
        let credentials = &config.credentials;
        let mut initiator = InitiatorConfig::new(&credentials.user, &credentials.domain, credentials.secret.clone());
        initiator.target_name = Some(format!("cifs/{}", config.server_name));
        let seed = InitiatorSeed {
            client_challenge: config.seed.client_challenge,
            session_key: config.seed.session_key,
            now: config.seed.now,
        };
        let initiator = Initiator::new(&initiator, seed);
        let token = initiator.first_token();
        (Self { initiator, hash, rounds: 0 }, token)
    }

    /// The server wants more and sent `token`; answers ours.
    pub fn go_on(&mut self, token: &[u8]) -> Result<Vec<u8>, Failure> {
        self.rounds += 1;
        if self.rounds > MOST_ROUNDS {
            return Err(Failure::Protocol("a login without end"));
        }
        match self.initiator.step(token).map_err(said)? {
            InitStep::Continue(next) => Ok(next),
            InitStep::Done => Err(Failure::Protocol("it wants another token of a login that is done")),
        }
    }

    /// The server is content; answers the session's key.
    pub fn finish(&mut self, token: &[u8]) -> Result<&auth::SessionKey, Failure> {
        match self.initiator.step(token).map_err(said)? {
            InitStep::Done => {}
            InitStep::Continue(_) => return Err(Failure::Protocol("it ends a login that is not done")),
        }
        self.initiator.session_key().ok_or(Failure::Protocol("a login without a key"))
    }
}

fn said(error: AuthError) -> Failure {
    match error {
        AuthError::Refused => Failure::NotGenuine("the login was refused or changed on its way"),
        AuthError::InvalidToken => Failure::Protocol("a token of the login is malformed"),
        AuthError::NoMechanism => Failure::NoCommonGround("the server does not take NTLM"),
        AuthError::OutOfOrder => Failure::Protocol("a token of the login is out of order"),
    }
}
