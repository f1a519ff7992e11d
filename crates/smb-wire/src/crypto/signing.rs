//! The signature of one SMB2 message (MS-SMB2 3.1.4.1). Called for every signed message in either direction; works on
//! the message where it lies, and must never look past the message it is given (each of a compound is signed alone).

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{cmac, hmac};

use super::{SigningAlgorithm, equal_in_constant_time};

const HEADER_LEN: usize = 64;
const SIGNATURE_LEN: usize = 16;
const SIGNATURE: std::ops::Range<usize> = 48..64;
const FLAG_SERVER_TO_REDIR: u8 = 0x01;
const COMMAND_CANCEL: [u8; 2] = [0x0c, 0x00];

/// Signs and verifies the messages of one channel.
///
/// Speeds here differ by an order of magnitude: GMAC runs at memory speed, CMAC and HMAC at one to two GB/s, since
/// neither can use more than one block at a time.
#[derive(Debug)]
pub struct SigningKey {
    mac: Mac,
}

#[derive(Debug)]
enum Mac {
    /// Boxed: it is large.
    Hmac(Box<hmac::Key>),
    Cmac(cmac::Key),
    Gmac(LessSafeKey),
}

impl SigningKey {
    /// Prepares `key` for `algorithm`. The key is Session.SigningKey or Channel.SigningKey.
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Self {
        const FITS: &str = "AES-128 takes 16 bytes";
        let mac = match algorithm {
            SigningAlgorithm::HmacSha256 => Mac::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key))),
            SigningAlgorithm::AesCmac => Mac::Cmac(cmac::Key::new(cmac::AES_128, key).expect(FITS)),
            SigningAlgorithm::AesGmac => {
                Mac::Gmac(LessSafeKey::new(UnboundKey::new(&aead::AES_128_GCM, key).expect(FITS)))
            }
        };
        Self { mac }
    }

    /// Which algorithm the key is for.
    pub fn algorithm(&self) -> SigningAlgorithm {
        match self.mac {
            Mac::Hmac(_) => SigningAlgorithm::HmacSha256,
            Mac::Cmac(_) => SigningAlgorithm::AesCmac,
            Mac::Gmac(_) => SigningAlgorithm::AesGmac,
        }
    }

    /// Fills the signature of `message`: one SMB2 header and its body with any padding to the next message of the
    /// compound. Everything else, SMB2_FLAGS_SIGNED too, must be final.
    ///
    /// # Panics
    /// If the message has no whole header: the caller built it.
    pub fn sign(&self, message: &mut [u8]) {
        assert!(message.len() >= HEADER_LEN, "a message to sign has a header");
        message[SIGNATURE].fill(0);
        let signature = self.mac(message);
        message[SIGNATURE].copy_from_slice(&signature);
    }

    /// Whether `message`, as [`sign`](Self::sign) takes it, carries the signature this key makes. The signature field
    /// is cleared while the message is hashed (GMAC needs it in one piece) and put back after.
    #[must_use]
    pub fn verify(&self, message: &mut [u8]) -> bool {
        let Some(field) = message.get_mut(SIGNATURE) else { return false };
        let mut claimed = [0; SIGNATURE_LEN];
        claimed.copy_from_slice(field);
        field.fill(0);
        let computed = self.mac(message);
        message[SIGNATURE].copy_from_slice(&claimed);
        equal_in_constant_time(&computed, &claimed)
    }

    fn mac(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        match &self.mac {
            Mac::Hmac(key) => cut(hmac::sign(key, message).as_ref()),
            Mac::Cmac(key) => cut(cmac::sign(key, message).expect("CMAC takes any length").as_ref()),
            Mac::Gmac(key) => {
                let nonce = Nonce::assume_unique_for_key(gmac_nonce(message));
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(message), &mut []);
                cut(tag.expect("GMAC takes any length").as_ref())
            }
        }
    }
}

fn cut(tag: &[u8]) -> [u8; SIGNATURE_LEN] {
    *tag.first_chunk().expect("every tag has 16 bytes or more")
}

/// MS-SMB2 3.1.4.1: the MessageId, then bit 0 for a message of the server, bit 1 for a CANCEL request. `message` has
/// a whole header.
fn gmac_nonce(message: &[u8]) -> [u8; 12] {
    let from_server = message[16] & FLAG_SERVER_TO_REDIR;
    let cancel = u8::from(message[12..14] == COMMAND_CANCEL && from_server == 0);
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&message[24..32]);
    nonce[8] = from_server | cancel << 1;
    nonce
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    const ALL: [SigningAlgorithm; 3] =
        [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac];

    fn message(len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        bytes[..4].copy_from_slice(b"\xfeSMB");
        bytes
    }

    /// The last SESSION_SETUP response of Microsoft's published 3.1.1 walk-through, signed by a Windows server.
    #[test]
    fn a_windows_signature_verifies() {
        let mut response = hex("FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
            1900000000100000EBE146DA120BA25FC3376A49DFE31BC10900000048001D00A11B3019A0030A01
            00A3120410010000003B453CDC3524164200000000");
        let key = hex("73FE7A9A77BEF0BDE49C650D8CCB5F76").try_into().unwrap();
        let key = SigningKey::new(SigningAlgorithm::AesCmac, &key);
        let original = response.clone();
        assert!(key.verify(&mut response));
        assert_eq!(response, original, "verify puts the signature back");
        response[SIGNATURE].fill(0xaa);
        key.sign(&mut response);
        assert_eq!(response, original);
    }

    /// RFC 4493 section 4.
    #[test]
    fn cmac_is_that_of_rfc_4493() {
        let key = hex("2b7e151628aed2a6abf7158809cf4f3c").try_into().unwrap();
        let key = SigningKey::new(SigningAlgorithm::AesCmac, &key);
        let text = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51
            30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
        for (len, tag) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            assert_eq!(key.mac(&text[..len]).to_vec(), hex(tag), "{len} bytes");
        }
    }

    /// RFC 4231 test case 1 has a 20-byte key; case 2 a 4-byte one. Zero-padded to 16 they are the same HMAC keys.
    #[test]
    fn hmac_is_that_of_rfc_4231_cut_to_16_bytes() {
        let key = SigningKey::new(SigningAlgorithm::HmacSha256, b"Jefe\0\0\0\0\0\0\0\0\0\0\0\0");
        let tag = key.mac(b"what do ya want for nothing?");
        assert_eq!(tag.to_vec(), hex("5bdcc146bf60754e6a042426089575c7"));
    }

    /// A READ response of a server with MessageId 0x0102030405060708; the tag is OpenSSL's GMAC under that nonce.
    #[test]
    fn gmac_is_that_of_openssl() {
        let mut response = hex("fe534d4240000000000000000900010009000000000000000807060504030201fffe000000000000
            110000000000000000000000000000000000000000000000676d6163207369676e73207468697320626f6479");
        assert_eq!(&response[HEADER_LEN..], b"gmac signs this body");
        SigningKey::new(SigningAlgorithm::AesGmac, &std::array::from_fn(|i| i as u8)).sign(&mut response);
        assert_eq!(response[SIGNATURE].to_vec(), hex("8AE2E2CCE519F7EED20F61F539C6C8EB"));
    }

    /// The nonce, and the GMAC of nothing: NIST's GCM test case 1.
    #[test]
    fn gmac_uses_message_id_role_and_cancel_as_nonce() {
        let mut request = message(80);
        request[12..14].copy_from_slice(&[0x09, 0]);
        request[16] = 0;
        request[24..32].copy_from_slice(&0x0102_0304_0506_0708u64.to_le_bytes());
        assert_eq!(gmac_nonce(&request), [8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0]);
        request[16] = 1;
        assert_eq!(gmac_nonce(&request)[8], 1);
        request[12..14].copy_from_slice(&COMMAND_CANCEL);
        request[16] = 0;
        assert_eq!(gmac_nonce(&request)[8], 2);
        let zero = SigningKey::new(SigningAlgorithm::AesGmac, &[0; 16]);
        let Mac::Gmac(key) = &zero.mac else { unreachable!() };
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut []).unwrap();
        assert_eq!(tag.as_ref(), hex("58e2fccefa7e3061367f1d57a4e7455a"));
    }

    #[test]
    fn any_changed_bit_is_noticed() {
        for algorithm in ALL {
            let key = SigningKey::new(algorithm, &[0x42; 16]);
            let mut signed = message(64 + 37);
            key.sign(&mut signed);
            assert!(key.verify(&mut signed), "{algorithm:?}");
            for bit in 0..signed.len() * 8 {
                signed[bit / 8] ^= 1 << (bit % 8);
                assert!(!key.verify(&mut signed), "{algorithm:?} bit {bit}");
                signed[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(!SigningKey::new(algorithm, &[0x43; 16]).verify(&mut signed));
        }
    }

    #[test]
    fn a_message_without_a_header_never_verifies() {
        for algorithm in ALL {
            let key = SigningKey::new(algorithm, &[1; 16]);
            for len in 0..HEADER_LEN {
                assert!(!key.verify(&mut vec![0; len]));
            }
        }
    }
}
