//! Responses and keys of NTLMv1 and NTLMv2 (MS-NLMP 3.3, 3.4.5.1, 3.4.5.4). Both sides compute them here; comparing is
//! the acceptor's.

use des::Des;
use des::cipher::{BlockCipherEncrypt, KeyInit, StreamCipher};
use rc4::Rc4;
use smb_wire::ntlmssp::{Flags, utf16le_encode};
use zeroize::Zeroizing;

use crate::NtHash;
use crate::hash::{hmac_md5, md4, md5};

/// A secret of 16 bytes.
pub(crate) type Key = Zeroizing<[u8; 16]>;

/// NTOWFv2 (MS-NLMP 3.3.2): the hash bound to the user's name in capitals and the domain as the client writes it.
pub(crate) fn ntowf_v2(hash: &NtHash, user: &str, domain: &str) -> Key {
    let name: String = user.chars().map(upper).collect();
    hmac_md5(hash.bytes(), &[&utf16le_encode(&name), &utf16le_encode(domain)]).into()
}

/// Windows maps characters one to one, so what has no single capital stays.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

/// NTProofStr: the proof over the server's challenge and the client's blob.
pub(crate) fn v2_proof(response_key: &Key, server_challenge: &[u8; 8], blob: &[u8]) -> [u8; 16] {
    hmac_md5(&**response_key, &[server_challenge, blob])
}

/// SessionBaseKey of NTLMv2; also its KeyExchangeKey (MS-NLMP 3.4.5.1).
pub(crate) fn v2_session_base_key(response_key: &Key, proof: &[u8; 16]) -> Key {
    hmac_md5(&**response_key, &[proof]).into()
}

/// LMv2 response: sent where the server gave no timestamp.
pub(crate) fn lm_v2_response(response_key: &Key, server_challenge: &[u8; 8], client_challenge: &[u8; 8]) -> Vec<u8> {
    [&hmac_md5(&**response_key, &[server_challenge, client_challenge])[..], client_challenge].concat()
}

/// The NT response of NTLMv1, with the client's challenge mixed in under extended session security (MS-NLMP 3.3.1).
pub(crate) fn v1_response(hash: &NtHash, server: &[u8; 8], client: Option<&[u8; 8]>) -> [u8; 24] {
    match client {
        None => desl(hash.bytes(), server),
        Some(client) => {
            let [challenge @ .., _, _, _, _, _, _, _, _] = md5(&[server, client]);
            desl(hash.bytes(), &challenge)
        }
    }
}

/// KeyExchangeKey of NTLMv1 (MS-NLMP 3.4.5.1); `client` as in [`v1_response`].
pub(crate) fn v1_key_exchange_key(hash: &NtHash, server: &[u8; 8], client: Option<&[u8; 8]>) -> Key {
    let base = Zeroizing::new(md4(hash.bytes()));
    match client {
        None => base,
        Some(client) => hmac_md5(&*base, &[server, client]).into(),
    }
}

/// DESL (MS-NLMP 6): the challenge encrypted thrice with thirds of the key padded to 21 bytes.
fn desl(key: &[u8; 16], challenge: &[u8; 8]) -> [u8; 24] {
    let mut padded = Zeroizing::new([0; 21]);
    padded[..16].copy_from_slice(key);
    let mut out = [0; 24];
    for (third, block) in padded.as_chunks::<7>().0.iter().zip(out.as_chunks_mut::<8>().0) {
        let mut text = (*challenge).into();
        Des::new(&des_key(third).into()).encrypt_block(&mut text);
        *block = text.into();
    }
    out
}

/// Spreads 56 bits over 8 bytes; the parity bits don't matter.
fn des_key(seven: &[u8; 7]) -> [u8; 8] {
    let bits = seven.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    std::array::from_fn(|i| ((bits >> (49 - 7 * i)) as u8) << 1)
}

/// RC4K: encrypts, or decrypts, a session key under the KeyExchangeKey.
pub(crate) fn rc4k(key: &Key, session_key: &[u8; 16]) -> Key {
    let mut out = Zeroizing::new(*session_key);
    Rc4::new_from_slice(&**key).expect("RC4 takes 16 bytes").apply_keystream(&mut *out);
    out
}

/// The MIC over an exchange (MS-NLMP 3.1.5.1.2); `authenticate` has zeros where the MIC goes.
pub(crate) fn mic(exported: &Key, negotiate: &[u8], challenge: &[u8], authenticate: &[&[u8]]) -> [u8; 16] {
    hmac_md5(&**exported, &[&[negotiate, challenge], authenticate].concat())
}

/// Whether the client's challenge is part of an NTLMv1 response.
pub(crate) fn v1_client_challenge(flags: Flags, lm_response: &[u8]) -> Option<&[u8; 8]> {
    if flags.contains(Flags::EXTENDED_SESSION_SECURITY) { lm_response.first_chunk() } else { None }
}

/// The values of MS-NLMP 4.2.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hex;
    use smb_wire::ntlmssp::NtlmV2Response;

    const SERVER: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
    const CLIENT: [u8; 8] = [0xaa; 8];
    const RANDOM_SESSION_KEY: [u8; 16] = [0x55; 16];

    fn hash() -> NtHash {
        NtHash::of_password("Password")
    }

    /// 4.2.2: NTLMv1.
    #[test]
    fn ntlm_v1() {
        let response = v1_response(&hash(), &SERVER, None);
        assert_eq!(response.to_vec(), hex("67C43011F30298A2AD35ECE64F16331C44BDBED927841F94"));
        let key = v1_key_exchange_key(&hash(), &SERVER, None);
        assert_eq!(key.to_vec(), hex("D87262B0CDE4B1CB7499BECCCDF10784"));
        assert_eq!(rc4k(&key, &RANDOM_SESSION_KEY).to_vec(), hex("518822B1B3F350C8958682ECBB3E3CB7"));
    }

    /// 4.2.3: NTLMv1 with extended session security.
    #[test]
    fn ntlm_v1_with_client_challenge() {
        let response = v1_response(&hash(), &SERVER, Some(&CLIENT));
        assert_eq!(response.to_vec(), hex("7537F803AE367128CA458204BDE7CAF81E97ED2683267232"));
        let key = v1_key_exchange_key(&hash(), &SERVER, Some(&CLIENT));
        assert_eq!(key.to_vec(), hex("EB93429A8BD952F8B89C55B87F475EDC"));
    }

    /// 4.2.4: NTLMv2.
    #[test]
    fn ntlm_v2() {
        let key = ntowf_v2(&hash(), "User", "Domain");
        assert_eq!(key.to_vec(), hex("0C868A403BFD7A93A3001EF22EF02E3F"));
        let target_info = hex("02000C0044006F006D00610069006E0001000C0053006500720076006500720000000000");
        let blob = NtlmV2Response::encode_blob(0, CLIENT, &target_info);
        let proof = v2_proof(&key, &SERVER, &blob);
        assert_eq!(proof.to_vec(), hex("68CD0AB851E51C96AABC927BEBEF6A1C"));
        let base = v2_session_base_key(&key, &proof);
        assert_eq!(base.to_vec(), hex("8DE40CCADBC14A82F15CB0AD0DE95CA3"));
        assert_eq!(rc4k(&base, &RANDOM_SESSION_KEY).to_vec(), hex("C5DAD2544FC9799094CE1CE90BC9D03E"));
        assert_eq!(lm_v2_response(&key, &SERVER, &CLIENT), hex("86C35097AC9CEC102554764A57CCCC19AAAAAAAAAAAAAAAA"));
    }

    #[test]
    fn user_names_are_capitalised_one_to_one_and_domains_are_not() {
        let key = |user, domain| ntowf_v2(&hash(), user, domain).to_vec();
        assert_eq!(key("USER", "Domain"), key("user", "Domain"));
        assert_eq!(key("ÄRGER", "d"), key("ärger", "d"));
        assert_ne!(key("STRASSE", "d"), key("straße", "d"));
        assert_ne!(key("user", "Domain"), key("user", "DOMAIN"));
    }
}
