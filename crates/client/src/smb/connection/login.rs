//! The way from NEGOTIATE to a session, or to a further channel of one (MS-SMB2 3.2.5.2, 3.2.5.3). The machine calls it with
//! each answer of the handshake; nobody must get in whose keys do not prove that they are the server's.

use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::smb2::{Capabilities, Command, Dialect, Flags, SessionFlags, SessionSetupRequest, SessionSetupResponse};

use super::{Connection, Phase, Purpose};
use crate::smb::config::Config;
use crate::smb::handshake::Login;
use crate::smb::offer::{self, Negotiated, malformed};
use crate::smb::protect::{Protection, Shield};
use crate::smb::{Failure, Request, Response};

impl Connection {
    pub(super) fn negotiated(&mut self, response: &Response, now: Duration) -> Result<(), Failure> {
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
            binding: self.bind.is_some(),
            security_mode: offer::security_mode(&self.config),
            capabilities: Capabilities::empty(),
            previous_session_id: self.config.previous_session_id,
            security_buffer: token,
        };
        self.send_now(Purpose::Login, Request::new(Command::SessionSetup, 0, 0, |out| setup.put(out)), now);
    }

    pub(super) fn logged_in(&mut self, response: &Response, now: Duration) -> Result<(), Failure> {
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
        self.name_session(response)?;
        self.send_token(&token, now);
        Ok(())
    }

    /// The server says what the session is called; a channel's has its name already.
    fn name_session(&mut self, response: &Response) -> Result<(), Failure> {
        let id = response.header.session_id;
        if self.bind.as_ref().is_some_and(|bind| bind.session_id != id) {
            return Err(ANOTHER);
        }
        self.session_id = id;
        Ok(())
    }

    /// MS-SMB2 3.2.5.3.1: the last answer of a login. Its signature proves, with 3.1.1, that nothing before was changed.
    fn begin_session(&mut self, response: &Response) -> Result<(), Failure> {
        let setup = SessionSetupResponse::decode(response.message()).map_err(malformed)?;
        let Phase::LoggingIn(login) = &mut self.phase else { return Err(OUT_OF_TURN) };
        let negotiated = self.negotiated.as_ref().ok_or(OUT_OF_TURN)?;
        let key = login.finish(setup.security_buffer)?.clone();
        let hash = login.hash;
        let id = response.header.session_id;
        if self.bind.as_ref().is_some_and(|bind| bind.session_id != id) {
            return Err(ANOTHER);
        }
        self.session_id = id;
        let unproven = setup.flags.intersects(SessionFlags::GUEST | SessionFlags::NULL);
        if unproven {
            if self.bind.is_some() {
                return Err(ANOTHER);
            }
            may_be_unproven(&self.config, negotiated, setup.flags)?;
        } else {
            let Negotiated { dialect, signing, cipher, .. } = *negotiated;
            let mut shield = Shield::new(self.session_id, &key, dialect, &hash, signing, cipher);
            let wants = self.config.protection;
            shield.sign_all = negotiated.signing_required || wants != Protection::AsServer;
            shield.seal_all = setup.flags.contains(SessionFlags::ENCRYPT_DATA) || wants == Protection::Sealed;
            if let Some(bind) = &self.bind {
                shield = bind.shield.for_channel(shield);
            }
            check_last(&shield, response, dialect)?;
            self.shield = Some(shield);
        }
        self.phase = Phase::Ready;
        Ok(())
    }
}

const ANOTHER: Failure = Failure::Protocol("it makes a channel of another session");
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
