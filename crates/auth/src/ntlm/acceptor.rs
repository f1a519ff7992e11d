//! The server's side of an NTLM exchange (MS-NLMP 3.2.5): a CHALLENGE for a NEGOTIATE, a verdict on an AUTHENTICATE.
//! A wrong password, an unknown user and a broken MIC are one and the same error, after the same work.

use smb_wire::crypto::equal_in_constant_time;
use smb_wire::ntlmssp::{
    AUTHENTICATE_MIC, Authenticate, AvFlags, AvId, AvPairsBuilder, Challenge, Flags, Negotiate, NtlmV2Response,
    Version, utf16le_decode, utf16le_encode,
};
use smb_wire::spnego::{OID_NTLMSSP, Oid};

use super::Signers;
use super::keys::{self, Key};
use crate::{
    AcceptorConfig, AuthError, Authenticated, LoginKind, MechStep, Mechanism, NtHash, Outcome, SessionKey, UserLookup,
};

/// An NTLMv1 response, with or without extended session security.
const V1_RESPONSE_LEN: usize = 24;

/// What is echoed to the client if it asks for it.
const ECHOED: Flags = Flags::SIGN
    .union(Flags::SEAL)
    .union(Flags::ALWAYS_SIGN)
    .union(Flags::EXTENDED_SESSION_SECURITY)
    .union(Flags::KEY_EXCHANGE)
    .union(Flags::KEY_128)
    .union(Flags::KEY_56)
    .union(Flags::VERSION);

/// What is in every CHALLENGE of ours.
const ALWAYS: Flags = Flags::UNICODE
    .union(Flags::NTLM)
    .union(Flags::REQUEST_TARGET)
    .union(Flags::TARGET_TYPE_SERVER)
    .union(Flags::TARGET_INFO);

/// NTLM as a [`Mechanism`].
pub(crate) struct NtlmAcceptor {
    config: AcceptorConfig,
    server_challenge: [u8; 8],
    now: u64,
    state: State,
}

enum State {
    Start,
    Challenged(Exchange),
    Done(Option<Box<Signers>>),
    Failed,
}

impl NtlmAcceptor {
    pub(crate) fn new(config: AcceptorConfig, server_challenge: [u8; 8], now: u64) -> Self {
        Self { config, server_challenge, now, state: State::Start }
    }

    fn challenge(&self, token: &[u8]) -> Result<Exchange, AuthError> {
        let negotiate = Negotiate::decode(token)?;
        if !negotiate.flags.contains(Flags::UNICODE) {
            return Err(AuthError::InvalidToken);
        }
        let flags = ALWAYS | negotiate.flags & ECHOED;
        let challenge = Challenge {
            flags,
            server_challenge: self.server_challenge,
            target_name: &utf16le_encode(&self.config.netbios_name),
            target_info: &self.target_info(),
            version: flags.contains(Flags::VERSION).then_some(Version::OURS),
        };
        Ok(Exchange {
            negotiate: token.to_vec(),
            challenge: challenge.encode(),
            server_challenge: self.server_challenge,
            flags,
        })
    }

    fn target_info(&self) -> Vec<u8> {
        let config = &self.config;
        AvPairsBuilder::default()
            .text(AvId::NB_DOMAIN_NAME, &config.netbios_domain)
            .text(AvId::NB_COMPUTER_NAME, &config.netbios_name)
            .text(AvId::DNS_DOMAIN_NAME, &config.dns_domain)
            .text(AvId::DNS_COMPUTER_NAME, &config.dns_name)
            .bytes(AvId::TIMESTAMP, &self.now.to_le_bytes())
            .finish()
    }
}

impl Mechanism for NtlmAcceptor {
    fn oids(&self) -> &'static [Oid<'static>] {
        &[OID_NTLMSSP]
    }

    fn step(&mut self, token: &[u8], users: &dyn UserLookup) -> Result<MechStep, AuthError> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Start => {
                let exchange = self.challenge(token)?;
                let reply = exchange.challenge.clone();
                self.state = State::Challenged(exchange);
                Ok(MechStep::Continue(reply))
            }
            State::Challenged(exchange) => {
                let verdict = exchange.verify(token, &self.config, users)?;
                self.state = State::Done(Signers::new(&verdict.exported, verdict.flags));
                let session_key = SessionKey::new(&*verdict.exported);
                Ok(MechStep::Done(Outcome { who: verdict.who, session_key, token: None }))
            }
            State::Done(_) | State::Failed => Err(AuthError::OutOfOrder),
        }
    }

    fn make_mic(&mut self, data: &[u8]) -> Option<Vec<u8>> {
        let State::Done(Some(signers)) = &mut self.state else { return None };
        Some(signers.server.sign(data).to_vec())
    }

    fn verify_mic(&mut self, data: &[u8], mic: &[u8]) -> bool {
        let State::Done(Some(signers)) = &mut self.state else { return false };
        signers.client.verify(data, mic)
    }
}

/// What was said so far: all of it enters the MIC.
struct Exchange {
    negotiate: Vec<u8>,
    challenge: Vec<u8>,
    server_challenge: [u8; 8],
    flags: Flags,
}

struct Verdict {
    who: Authenticated,
    exported: Key,
    flags: Flags,
}

/// What a response turned out to be worth.
struct Proof {
    holds: bool,
    key_exchange_key: Key,
}

impl Exchange {
    fn verify(&self, token: &[u8], config: &AcceptorConfig, users: &dyn UserLookup) -> Result<Verdict, AuthError> {
        let message = Authenticate::decode(token)?;
        let mut who = describe(&message)?;
        // The client may give up features here but not add any.
        let flags = if message.flags.is_empty() { self.flags } else { message.flags & self.flags };
        if is_anonymous(&message) {
            return self.anonymous(&message, who, flags, config);
        }
        let known = users.nt_hash(&who.domain, &who.name);
        let is_known = known.is_some();
        let hash = known.unwrap_or_else(NtHash::of_nobody);
        let proof = self.prove(&message, &who, flags, &hash, config)?;
        let exported = exported_key(&message, flags, &proof.key_exchange_key)?;
        let mic_holds = self.mic_holds(token, &message, &exported)?;
        if is_known & proof.holds & mic_holds {
            return Ok(Verdict { who, exported, flags });
        }
        if !is_known && config.allow_guest {
            who.kind = LoginKind::Guest;
            return Ok(Verdict { who, exported: Key::default(), flags: Flags::empty() });
        }
        Err(AuthError::Refused)
    }

    /// MS-NLMP 3.2.5.1.2: an anonymous client has the zero key for KeyExchangeKey.
    fn anonymous(
        &self,
        message: &Authenticate<'_>,
        mut who: Authenticated,
        flags: Flags,
        config: &AcceptorConfig,
    ) -> Result<Verdict, AuthError> {
        if !config.allow_anonymous {
            return Err(AuthError::Refused);
        }
        who.kind = LoginKind::Anonymous;
        Ok(Verdict { who, exported: exported_key(message, flags, &Key::default())?, flags })
    }

    fn prove(
        &self,
        message: &Authenticate<'_>,
        who: &Authenticated,
        flags: Flags,
        hash: &NtHash,
        config: &AcceptorConfig,
    ) -> Result<Proof, AuthError> {
        match message.nt_response.len() {
            V1_RESPONSE_LEN if config.allow_ntlmv1 => Ok(self.prove_v1(message, flags, hash)),
            0..=V1_RESPONSE_LEN => Err(AuthError::Refused),
            _ => self.prove_v2(message.nt_response, who, hash),
        }
    }

    fn prove_v1(&self, message: &Authenticate<'_>, flags: Flags, hash: &NtHash) -> Proof {
        let client_challenge = keys::v1_client_challenge(flags, message.lm_response);
        let expected = keys::v1_response(hash, &self.server_challenge, client_challenge);
        Proof {
            holds: equal_in_constant_time(&expected, message.nt_response),
            key_exchange_key: keys::v1_key_exchange_key(hash, &self.server_challenge, client_challenge),
        }
    }

    fn prove_v2(&self, response: &[u8], who: &Authenticated, hash: &NtHash) -> Result<Proof, AuthError> {
        let response = NtlmV2Response::decode(response)?;
        let key = keys::ntowf_v2(hash, &who.name, &who.domain);
        let expected = keys::v2_proof(&key, &self.server_challenge, response.blob);
        Ok(Proof {
            holds: equal_in_constant_time(&expected, &response.proof),
            key_exchange_key: keys::v2_session_base_key(&key, &expected),
        })
    }

    /// A client that says, under the proof, that there is a MIC is held to it (MS-NLMP 3.2.5.1.2).
    fn mic_holds(&self, token: &[u8], message: &Authenticate<'_>, exported: &Key) -> Result<bool, AuthError> {
        if !announces_mic(message)? {
            return Ok(true);
        }
        let (Some(claimed), Some(before), Some(after)) =
            (message.mic, token.get(..AUTHENTICATE_MIC.start), token.get(AUTHENTICATE_MIC.end..))
        else {
            return Ok(false);
        };
        let expected = keys::mic(exported, &self.negotiate, &self.challenge, &[before, &[0; 16], after]);
        Ok(equal_in_constant_time(&expected, &claimed))
    }
}

fn is_anonymous(message: &Authenticate<'_>) -> bool {
    message.user.is_empty() && message.nt_response.is_empty() && matches!(message.lm_response, [] | [0])
}

fn announces_mic(message: &Authenticate<'_>) -> Result<bool, AuthError> {
    if message.nt_response.len() <= V1_RESPONSE_LEN {
        return Ok(false);
    }
    let flags = NtlmV2Response::decode(message.nt_response)?.av_pairs().find(AvId::FLAGS)?;
    let bits = flags.and_then(|value| value.first_chunk()).map_or(0, |value| u32::from_le_bytes(*value));
    Ok(AvFlags::from_bits_retain(bits).contains(AvFlags::MIC_PRESENT))
}

/// ExportedSessionKey: what the client sent encrypted, or the KeyExchangeKey itself.
fn exported_key(message: &Authenticate<'_>, flags: Flags, key_exchange_key: &Key) -> Result<Key, AuthError> {
    if !flags.contains(Flags::KEY_EXCHANGE) {
        return Ok(key_exchange_key.clone());
    }
    match message.encrypted_session_key.try_into() {
        Ok(encrypted) => Ok(keys::rc4k(key_exchange_key, encrypted)),
        // Nothing will be signed or sealed by NTLM itself, so some clients send none.
        Err(_) if message.encrypted_session_key.is_empty() && !flags.intersects(Flags::SIGN | Flags::SEAL) => {
            Ok(key_exchange_key.clone())
        }
        Err(_) => Err(AuthError::InvalidToken),
    }
}

fn describe(message: &Authenticate<'_>) -> Result<Authenticated, AuthError> {
    let mut who = Authenticated {
        name: utf16le_decode(message.user)?,
        domain: utf16le_decode(message.domain)?,
        workstation: utf16le_decode(message.workstation).unwrap_or_default(),
        kind: LoginKind::User,
        target_name: None,
        channel_bindings: None,
    };
    if message.nt_response.len() > V1_RESPONSE_LEN {
        let response = NtlmV2Response::decode(message.nt_response)?;
        let find = |id| response.av_pairs().find(id);
        who.target_name = find(AvId::TARGET_NAME)?.and_then(|name| utf16le_decode(name).ok()).filter(|n| !n.is_empty());
        who.channel_bindings = find(AvId::CHANNEL_BINDINGS)?.and_then(|b| b.try_into().ok()).filter(|b| *b != [0; 16]);
    }
    Ok(who)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hex;

    /// The whole exchange of Microsoft's published SMB 3.1.1 walk-through: Windows on both sides.
    const NEGOTIATE: &str = "4E544C4D5353500001000000978208E2000000000000000000000000000000000603802500000 00F";
    const CHALLENGE: &str = "4E544C4D53535000020000000C000C003800000015828AE20D1D8BA31179D0080000000000000000
        50005000440000000A0092270000000F53005500540033003100310002000C0053005500540033003100310001000C005300550054
        003300310031000400 0C0053005500540033003100310003000C0053005500540033003100310007000800A1A1F5ADCBAED00100000000";
    const AUTHENTICATE: &str = "4E544C4D53535000030000
        001800180090000000EE00EE00A80000000C000C00580000001A001A0064000000120012007E0000
        001000100096010000158288E2060380250000000FECAC77A5F385A8BF9C38C706EEEDDCD3530055
        005400330031003100610064006D0069006E006900730074007200610074006F0072004400520049
        0056004500520033003100310000000000000000000000000000000000000000000000000063078E
        B639FE03E20A231C3AE3BF23080101000000000000A1A1F5ADCBAED001BC4AD05F223CC90F000000
        0002000C0053005500540033003100310001000C0053005500540033003100310004000C00530055
        00540033003100310003000C0053005500540033003100310007000800A1A1F5ADCBAED001060004
        00020000000800300030000000000000000000000000300000B61FEFCAA857EA57BF1EDCEBF8974B
        8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A00100000000000000000000000000000000000090016
        0063006900660073002F005300550054003300310031000000000000000000000000003B9BDFF38F
        5EE8F9663F11A0F4C03A78";

    struct Administrator;

    impl UserLookup for Administrator {
        fn nt_hash(&self, domain: &str, user: &str) -> Option<NtHash> {
            ((domain, user) == ("SUT311", "administrator")).then(|| NtHash::of_password("Password01!"))
        }
    }

    fn exchange() -> Exchange {
        let flags = Flags::from_bits_retain(0xe28a_8215);
        let server_challenge = hex("0D1D8BA31179D008").try_into().unwrap();
        Exchange { negotiate: hex(NEGOTIATE), challenge: hex(CHALLENGE), server_challenge, flags }
    }

    #[test]
    fn a_windows_client_is_let_in_with_the_published_session_key() {
        let verdict = exchange().verify(&hex(AUTHENTICATE), &AcceptorConfig::default(), &Administrator).unwrap();
        assert_eq!(verdict.exported.to_vec(), hex("270E1BA896585EEB7AF3472D3B4C75A7"));
        assert_eq!(verdict.who.workstation, "DRIVER311");
        assert_eq!(verdict.who.target_name.as_deref(), Some("cifs/SUT311"));
        assert_eq!(verdict.who.channel_bindings, None);
    }

    #[test]
    fn any_changed_byte_of_the_message_is_refused() {
        let good = hex(AUTHENTICATE);
        for at in 0..good.len() {
            // The capacity of a field is ignored, but the MIC covers it.
            let mut bad = good.clone();
            bad[at] ^= 1;
            let verdict = exchange().verify(&bad, &AcceptorConfig::default(), &Administrator);
            assert!(verdict.is_err(), "byte {at}");
        }
    }

    #[test]
    fn any_changed_byte_of_what_came_before_is_refused() {
        for at in 0..hex(NEGOTIATE).len() {
            let mut exchange = exchange();
            exchange.negotiate[at] ^= 1;
            let verdict = exchange.verify(&hex(AUTHENTICATE), &AcceptorConfig::default(), &Administrator);
            assert_eq!(verdict.err(), Some(AuthError::Refused), "byte {at}");
        }
    }

    #[test]
    fn a_cut_message_never_panics_and_never_gets_in() {
        let good = hex(AUTHENTICATE);
        let lax = AcceptorConfig { allow_ntlmv1: true, ..AcceptorConfig::default() };
        for len in 0..good.len() {
            assert!(exchange().verify(&good[..len], &lax, &Administrator).is_err(), "cut to {len}");
        }
    }
}
