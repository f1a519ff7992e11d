//! NEGOTIATE from the client's side (MS-SMB2 3.2.4.2.2.2, 3.2.5.2): what is offered, and whether what the server chose is
//! among it.

use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::{
    Capabilities, Dialect, Malformed, NegotiateContext, NegotiateRequest, NegotiateResponse, PREAUTH_SHA512,
    SecurityMode, ValidateNegotiate,
};

use super::{Config, Failure, Protection};

/// Bytes of one credit (MS-SMB2 3.2.4.1.5), and the most one request moves where there are no multi-credit requests.
pub(crate) const CREDIT_BYTES: u32 = 64 << 10;
/// A server that takes less is none (MS-SMB2 3.2.5.2).
const LEAST_BYTES: u32 = 4096;

/// What was agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// The dialect.
    pub dialect: Dialect,
    /// The cipher, if there is one in common.
    pub cipher: Option<Cipher>,
    /// How messages are signed.
    pub signing: SigningAlgorithm,
    /// Whether the server wants every message signed.
    pub signing_required: bool,
    /// Whether a request may be charged several credits.
    pub multi_credit: bool,
    /// Whether the server knows leases.
    pub leasing: bool,
    /// Whether a session may have several connections.
    pub multi_channel: bool,
    /// Largest READ.
    pub max_read_bytes: u32,
    /// Largest WRITE.
    pub max_write_bytes: u32,
    /// Largest listing or query.
    pub max_transact_bytes: u32,
    pub(crate) server: ValidateNegotiate,
}

/// The request for `config`.
pub(crate) fn request(config: &Config) -> NegotiateRequest {
    let dialects = config.dialects();
    let is_3 = dialects.iter().any(|d| d.is_3());
    let is_311 = dialects.contains(&Dialect::V3_1_1);
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::LARGE_MTU, dialects.iter().any(|d| *d > Dialect::V2_0_2));
    capabilities.set(Capabilities::LEASING, dialects.iter().any(|d| *d > Dialect::V2_0_2));
    capabilities.set(Capabilities::PERSISTENT_HANDLES, is_3);
    capabilities.set(Capabilities::MULTI_CHANNEL, is_3 && config.multi_channel);
    capabilities.set(Capabilities::ENCRYPTION, is_3 && !config.ciphers.is_empty());
    NegotiateRequest {
        security_mode: security_mode(config),
        capabilities,
        client_guid: config.seed.client_guid,
        dialects: dialects.iter().map(|d| *d as u16).collect(),
        contexts: if is_311 { contexts(config) } else { Vec::new() },
    }
}

/// What SESSION_SETUP repeats.
pub(crate) fn security_mode(config: &Config) -> SecurityMode {
    match config.protection {
        Protection::AsServer => SecurityMode::SIGNING_ENABLED,
        Protection::Signed | Protection::Sealed => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
    }
}

fn contexts(config: &Config) -> Vec<NegotiateContext> {
    let mut contexts =
        vec![NegotiateContext::Preauth { hashes: vec![PREAUTH_SHA512], salt: config.seed.salt.to_vec() }];
    if !config.ciphers.is_empty() {
        contexts.push(NegotiateContext::Encryption(config.ciphers.iter().map(|c| c.to_wire()).collect()));
    }
    if !config.signing.is_empty() {
        contexts.push(NegotiateContext::Signing(config.signing.iter().map(|a| a.to_wire()).collect()));
    }
    let name = smb_wire::name::utf16le(&config.server_name);
    contexts.push(NegotiateContext::NetName(name));
    contexts
}

/// Reads and checks the response.
pub(crate) fn response(config: &Config, message: &[u8]) -> Result<Negotiated, Failure> {
    let response = NegotiateResponse::decode(message).map_err(malformed)?;
    let dialect = Dialect::from_u16(response.dialect)
        .filter(|dialect| config.dialects().contains(dialect))
        .ok_or(Failure::Protocol("it chose a dialect that was not offered"))?;
    let (cipher, signing) = match dialect {
        Dialect::V3_1_1 => chosen(config, &response.contexts)?,
        Dialect::V3_0 | Dialect::V3_0_2 => (cipher_of_3_0(config, &response), SigningAlgorithm::AesCmac),
        Dialect::V2_0_2 | Dialect::V2_1 => (None, SigningAlgorithm::HmacSha256),
    };
    if config.protection == Protection::Sealed && cipher.is_none() {
        return Err(Failure::NoCommonGround("the server cannot seal what is sent, and that was asked for"));
    }
    let sizes = [response.max_read_bytes, response.max_write_bytes, response.max_transact_bytes];
    if sizes.iter().any(|&size| size < LEAST_BYTES) {
        return Err(Failure::Protocol("it takes requests of less than 4096 bytes only"));
    }
    let multi_credit = dialect > Dialect::V2_0_2 && response.capabilities.contains(Capabilities::LARGE_MTU);
    let most = if multi_credit { config.max_transfer_bytes.max(CREDIT_BYTES) } else { CREDIT_BYTES };
    let [max_read_bytes, max_write_bytes, max_transact_bytes] = sizes.map(|size| size.min(most));
    Ok(Negotiated {
        multi_channel: dialect.is_3() && response.capabilities.contains(Capabilities::MULTI_CHANNEL),
        leasing: dialect > Dialect::V2_0_2 && response.capabilities.contains(Capabilities::LEASING),
        dialect,
        cipher,
        signing,
        signing_required: response.security_mode.contains(SecurityMode::SIGNING_REQUIRED),
        multi_credit,
        max_read_bytes,
        max_write_bytes,
        max_transact_bytes,
        server: ValidateNegotiate {
            capabilities: response.capabilities.bits(),
            guid: response.server_guid,
            security_mode: response.security_mode,
            dialects: vec![response.dialect],
        },
    })
}

pub(crate) fn malformed(malformed: Malformed) -> Failure {
    Failure::Protocol(match malformed {
        Malformed::Truncated => "an answer ends before a field that it announces",
        Malformed::StructureSize => "an answer's StructureSize is not the command's",
        Malformed::Field(_) => "an answer has a field that makes no sense",
    })
}

fn cipher_of_3_0(config: &Config, response: &NegotiateResponse) -> Option<Cipher> {
    let capable = response.capabilities.contains(Capabilities::ENCRYPTION);
    (capable && config.ciphers.contains(&Cipher::Aes128Ccm)).then_some(Cipher::Aes128Ccm)
}

/// What the contexts of 3.1.1 say: one hash, and at most one cipher and one signing algorithm, of those offered.
fn chosen(config: &Config, contexts: &[NegotiateContext]) -> Result<(Option<Cipher>, SigningAlgorithm), Failure> {
    const NOT_OFFERED: Failure = Failure::Protocol("it chose an algorithm that was not offered");
    let (mut hashes, mut cipher, mut signing) = (0, None, SigningAlgorithm::AesCmac);
    for context in contexts {
        match context {
            NegotiateContext::Preauth { hashes: list, .. } if list[..] == [PREAUTH_SHA512] => hashes += 1,
            NegotiateContext::Preauth { .. } => return Err(NOT_OFFERED),
            // 0: none in common.
            NegotiateContext::Encryption(list) if list[..] == [0] => {}
            NegotiateContext::Encryption(list) => {
                let found = one(list).and_then(Cipher::from_wire).filter(|c| config.ciphers.contains(c));
                cipher = Some(found.ok_or(NOT_OFFERED)?);
            }
            NegotiateContext::Signing(list) => {
                let found = one(list).and_then(SigningAlgorithm::from_wire).filter(|a| config.signing.contains(a));
                signing = found.ok_or(NOT_OFFERED)?;
            }
            _ => {}
        }
    }
    if hashes != 1 {
        return Err(Failure::Protocol("3.1.1 without a preauthentication hash"));
    }
    Ok((cipher, signing))
}

fn one(list: &[u16]) -> Option<u16> {
    match list {
        [only] => Some(*only),
        _ => None,
    }
}
