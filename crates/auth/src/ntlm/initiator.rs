//! The client's side of an NTLM exchange (MS-NLMP 3.1.5), as Windows does it: NTLMv2 with key exchange and MIC unless
//! told otherwise.

use smb_wire::ntlmssp::{
    AUTHENTICATE_MIC, Authenticate, AvFlags, AvId, AvPairs, AvPairsBuilder, Challenge, Flags, Negotiate,
    NtlmV2Response, Version, utf16le_encode,
};

use super::Signers;
use super::keys::{self, Key};
use crate::{AuthError, InitiatorConfig, InitiatorSeed};

const WANTED: Flags = Flags::UNICODE
    .union(Flags::REQUEST_TARGET)
    .union(Flags::NTLM)
    .union(Flags::SIGN)
    .union(Flags::SEAL)
    .union(Flags::ALWAYS_SIGN)
    .union(Flags::EXTENDED_SESSION_SECURITY)
    .union(Flags::TARGET_INFO)
    .union(Flags::VERSION)
    .union(Flags::KEY_128)
    .union(Flags::KEY_56)
    .union(Flags::KEY_EXCHANGE);

pub(crate) struct NtlmInitiator {
    config: InitiatorConfig,
    seed: InitiatorSeed,
    negotiate: Vec<u8>,
}

/// The last message and what both sides have in common after it.
pub(crate) struct Answer {
    pub token: Vec<u8>,
    pub exported: Key,
    pub signers: Option<Box<Signers>>,
}

/// The two responses and the key they lead to.
struct Responses {
    lm: Vec<u8>,
    nt: Vec<u8>,
    key_exchange_key: Key,
}

impl NtlmInitiator {
    pub(crate) fn new(config: InitiatorConfig, seed: InitiatorSeed) -> Self {
        let flags = if config.key_exchange { WANTED } else { WANTED - Flags::KEY_EXCHANGE };
        let message = Negotiate { flags, domain: &[], workstation: &[], version: Some(Version::OURS) };
        Self { negotiate: message.encode(), config, seed }
    }

    /// The NEGOTIATE message.
    pub(crate) fn negotiate(&self) -> &[u8] {
        &self.negotiate
    }

    /// The AUTHENTICATE message for a CHALLENGE.
    pub(crate) fn authenticate(&self, token: &[u8]) -> Result<Answer, AuthError> {
        let challenge = Challenge::decode(token)?;
        let flags = WANTED & challenge.flags;
        if !flags.contains(Flags::UNICODE) {
            return Err(AuthError::InvalidToken);
        }
        let responses = self.respond(&challenge, flags)?;
        let has_key_exchange = flags.contains(Flags::KEY_EXCHANGE);
        let exported = if has_key_exchange { self.seed.session_key.into() } else { responses.key_exchange_key.clone() };
        let encrypted = has_key_exchange.then(|| keys::rc4k(&responses.key_exchange_key, &exported));
        let message = Authenticate {
            flags,
            lm_response: &responses.lm,
            nt_response: &responses.nt,
            domain: &utf16le_encode(&self.config.domain),
            user: &utf16le_encode(&self.config.user),
            workstation: &utf16le_encode(&self.config.workstation),
            encrypted_session_key: encrypted.as_ref().map_or(&[], |key| &key[..]),
            version: Some(Version::OURS),
            mic: None,
        };
        let mut bytes = message.encode();
        if self.sends_mic() {
            let mic = keys::mic(&exported, &self.negotiate, token, &[&bytes]);
            bytes[AUTHENTICATE_MIC].copy_from_slice(&mic);
        }
        let signers = Signers::new(&exported, flags);
        Ok(Answer { token: bytes, exported, signers })
    }

    fn sends_mic(&self) -> bool {
        self.config.mic && !self.config.ntlmv1 && !self.config.user.is_empty()
    }

    fn respond(&self, challenge: &Challenge<'_>, flags: Flags) -> Result<Responses, AuthError> {
        if self.config.user.is_empty() {
            return Ok(Responses { lm: vec![0], nt: Vec::new(), key_exchange_key: Key::default() });
        }
        if self.config.ntlmv1 { Ok(self.respond_v1(challenge, flags)) } else { self.respond_v2(challenge) }
    }

    fn respond_v1(&self, challenge: &Challenge<'_>, flags: Flags) -> Responses {
        let hash = &self.config.secret;
        let lm = [&self.seed.client_challenge[..], &[0; 16]].concat();
        let client_challenge = keys::v1_client_challenge(flags, &lm);
        let nt = keys::v1_response(hash, &challenge.server_challenge, client_challenge).to_vec();
        let key_exchange_key = keys::v1_key_exchange_key(hash, &challenge.server_challenge, client_challenge);
        // Without extended session security the NT response stands in for the LM one (MS-NLMP 3.3.1).
        let lm = if client_challenge.is_some() { lm } else { nt.clone() };
        Responses { lm, nt, key_exchange_key }
    }

    fn respond_v2(&self, challenge: &Challenge<'_>) -> Result<Responses, AuthError> {
        let config = &self.config;
        let client_challenge = self.seed.client_challenge;
        let key = keys::ntowf_v2(&config.secret, &config.user, &config.domain);
        let server_time = AvPairs::new(challenge.target_info).find(AvId::TIMESTAMP).unwrap_or_default();
        let server_time = server_time.and_then(|value| value.try_into().ok()).map(u64::from_le_bytes);
        let attributes = self.attributes(challenge.target_info)?;
        let blob = NtlmV2Response::encode_blob(server_time.unwrap_or(self.seed.now), client_challenge, &attributes);
        let proof = keys::v2_proof(&key, &challenge.server_challenge, &blob);
        let lm = match server_time {
            Some(_) => vec![0; 24],
            None => keys::lm_v2_response(&key, &challenge.server_challenge, &client_challenge),
        };
        Ok(Responses {
            lm,
            nt: [&proof[..], &blob].concat(),
            key_exchange_key: keys::v2_session_base_key(&key, &proof),
        })
    }

    /// The server's attributes with ours among them (MS-NLMP 3.1.5.1.2).
    fn attributes(&self, target_info: &[u8]) -> Result<Vec<u8>, AuthError> {
        let ours = [AvId::FLAGS, AvId::CHANNEL_BINDINGS, AvId::TARGET_NAME];
        let mut list = AvPairsBuilder::default();
        if !target_info.is_empty() {
            for pair in AvPairs::new(target_info) {
                let (id, value) = pair?;
                list = if ours.contains(&id) { list } else { list.bytes(id, value) };
            }
        }
        if self.sends_mic() {
            list = list.bytes(AvId::FLAGS, &AvFlags::MIC_PRESENT.bits().to_le_bytes());
        }
        let list = list.bytes(AvId::CHANNEL_BINDINGS, &self.config.channel_bindings.unwrap_or_default());
        Ok(list.text(AvId::TARGET_NAME, self.config.target_name.as_deref().unwrap_or_default()).finish())
    }
}
