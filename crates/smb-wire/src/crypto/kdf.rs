//! The keys of a session out of what authentication agreed on (MS-SMB2 3.1.4.2, 3.3.5.5.3), and the hash of the
//! messages that led there (3.3.5.4). Called once per session or channel; must never print a key.

use aws_lc_rs::{digest, hmac};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Cipher;

/// Connection.PreauthIntegrityHashValue or Session.PreauthIntegrityHashValue: SHA-512 chained over the messages of
/// NEGOTIATE and SESSION_SETUP (MS-SMB2 3.1.1 only).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreauthHash([u8; 64]);

impl PreauthHash {
    /// The value before the first message: zeros.
    pub fn new() -> Self {
        Self([0; 64])
    }

    /// Takes in one message from its SMB2 header to its end.
    pub fn update(&mut self, message: &[u8]) {
        let mut context = digest::Context::new(&digest::SHA512);
        context.update(&self.0);
        context.update(message);
        self.0.copy_from_slice(context.finish().as_ref());
    }

    /// The value so far.
    pub fn value(&self) -> &[u8; 64] {
        &self.0
    }
}

impl Default for PreauthHash {
    fn default() -> Self {
        Self::new()
    }
}

/// By which rules keys are derived: what the dialect decides.
#[derive(Debug, Clone, Copy)]
pub enum Derivation<'a> {
    /// 2.0.2 and 2.1: the session key is the signing key and nothing is encrypted.
    Smb2,
    /// 3.0 and 3.0.2: constant contexts.
    Smb30,
    /// 3.1.1: the preauthentication hash of the session is the context.
    Smb311(&'a PreauthHash),
}

/// The key of one direction, 16 or 32 bytes as the cipher needs.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct CipherKey {
    bytes: [u8; 32],
    len: usize,
}

impl AsRef<[u8]> for CipherKey {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl std::fmt::Debug for CipherKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CipherKey({} bytes)", self.len)
    }
}

/// What one authentication yields. A channel bound to an existing session uses only `signing` of its own.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct SessionKeys {
    /// For [`SigningKey`](super::SigningKey), in both directions.
    pub signing: [u8; 16],
    /// What the client seals with and the server opens with; none without a cipher.
    pub client_to_server: Option<CipherKey>,
    /// What the server seals with and the client opens with; none without a cipher.
    pub server_to_client: Option<CipherKey>,
    /// Session.ApplicationKey, for protocols above.
    pub application: [u8; 16],
}

impl std::fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionKeys").field("client_to_server", &self.client_to_server).finish_non_exhaustive()
    }
}

impl SessionKeys {
    /// Derives the keys. `session_key` is Session.SessionKey, the first 16 bytes (zero-padded) of
    /// `full_session_key`; only the keys of the 256-bit ciphers come from the latter (MS-SMB2 3.3.5.5.3).
    pub fn derive(
        derivation: Derivation<'_>,
        session_key: &[u8; 16],
        full_session_key: &[u8],
        cipher: Option<Cipher>,
    ) -> Self {
        let Some(labels) = Labels::of(derivation) else {
            return Self {
                signing: *session_key,
                client_to_server: None,
                server_to_client: None,
                application: *session_key,
            };
        };
        let cipher_key = |purpose| {
            cipher.map(|cipher| {
                let base = if cipher.key_len() == 32 { full_session_key } else { session_key };
                derive_cipher_key(base, purpose, cipher.key_len())
            })
        };
        Self {
            signing: derive_128(session_key, labels.signing),
            client_to_server: cipher_key(labels.client_to_server),
            server_to_client: cipher_key(labels.server_to_client),
            application: derive_128(session_key, labels.application),
        }
    }
}

/// Label and context of one key.
type Purpose<'a> = (&'a [u8], &'a [u8]);

struct Labels<'a> {
    signing: Purpose<'a>,
    client_to_server: Purpose<'a>,
    server_to_client: Purpose<'a>,
    application: Purpose<'a>,
}

impl<'a> Labels<'a> {
    fn of(derivation: Derivation<'a>) -> Option<Self> {
        match derivation {
            Derivation::Smb2 => None,
            Derivation::Smb30 => Some(Self {
                signing: (b"SMB2AESCMAC\0", b"SmbSign\0"),
                client_to_server: (b"SMB2AESCCM\0", b"ServerIn \0"),
                server_to_client: (b"SMB2AESCCM\0", b"ServerOut\0"),
                application: (b"SMB2APP\0", b"SmbRpc\0"),
            }),
            Derivation::Smb311(hash) => Some(Self {
                signing: (b"SMBSigningKey\0", hash.value()),
                client_to_server: (b"SMBC2SCipherKey\0", hash.value()),
                server_to_client: (b"SMBS2CCipherKey\0", hash.value()),
                application: (b"SMBAppKey\0", hash.value()),
            }),
        }
    }
}

fn derive_128(key: &[u8], purpose: Purpose<'_>) -> [u8; 16] {
    *kdf(key, purpose, 128).as_ref().first_chunk().expect("HMAC-SHA256 has 32 bytes")
}

fn derive_cipher_key(key: &[u8], purpose: Purpose<'_>, len: usize) -> CipherKey {
    let output = kdf(key, purpose, len as u32 * 8);
    let mut derived = CipherKey { bytes: [0; 32], len };
    derived.bytes[..len].copy_from_slice(&output.as_ref()[..len]);
    derived
}

/// SP800-108 in counter mode with a 32-bit counter. Up to 256 bits, so one round of HMAC-SHA256 is all.
fn kdf(key: &[u8], (label, context): Purpose<'_>, len_bits: u32) -> hmac::Tag {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    mac.update(&1u32.to_be_bytes());
    mac.update(label);
    mac.update(&[0]);
    mac.update(context);
    mac.update(&len_bits.to_be_bytes());
    mac.sign()
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    fn key(text: &str) -> [u8; 16] {
        hex(text).try_into().unwrap()
    }

    fn keys_of(keys: &SessionKeys) -> [Vec<u8>; 4] {
        let cipher_key = |key: &Option<CipherKey>| key.as_ref().unwrap().as_ref().to_vec();
        [
            keys.signing.to_vec(),
            cipher_key(&keys.client_to_server),
            cipher_key(&keys.server_to_client),
            keys.application.to_vec(),
        ]
    }

    /// Microsoft's published examples, in the order signing, encryption, decryption (both the client's), application.
    #[test]
    fn published_3_0_keys() {
        let session = key("7CD451825D0450D235424E44BA6E78CC");
        let keys = SessionKeys::derive(Derivation::Smb30, &session, &session, Some(Cipher::Aes128Ccm));
        let expected = [
            "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
            "FAD27796665B313EBB578F388632B4F7",
            "B0F0427F7CEB416D1D9DCC0CD4F99447",
            "BB23A4575AA26C721AF525AF15A87B4F",
        ];
        assert_eq!(keys_of(&keys), expected.map(hex));
    }

    #[test]
    fn published_3_1_1_keys() {
        let session = key("270E1BA896585EEB7AF3472D3B4C75A7");
        let hash = PreauthHash(
            hex("0DD13628CC3ED218EF9DF9772D436D0887AB9814BFAE63A80AA845F36909DB7928622DDDAD522D97
                51640A459762C5A9D6BB084CBB3CE6BDADEF5D5BCE3C6C01")
            .try_into()
            .unwrap(),
        );
        let keys = SessionKeys::derive(Derivation::Smb311(&hash), &session, &session, Some(Cipher::Aes128Gcm));
        let expected = [
            "73FE7A9A77BEF0BDE49C650D8CCB5F76",
            "629BCBC54422A0F572B97F45989B6073",
            "E2AF0DCEFAC68DA71A0DFBD0D1350D74",
            "6D7AD7954E9EC61E907B4D473DC178FF",
        ];
        assert_eq!(keys_of(&keys), expected.map(hex));
    }

    /// The first message of the same published walk-through.
    #[test]
    fn published_preauth_hash() {
        let mut hash = PreauthHash::new();
        hash.update(&hex("FE534D4240000100000000000000800000000000000000000100000000000000FFFE000000000000
            00000000000000000000000000000000000000000000000024000500000000003F000000ECD86F32
            6276024F9F7752B89BB33F3A70000000020000000202100200030203110300000100260000000000
            010020000100FA49E6578F1F3A9F4CD3E9CC14A67AA884B3D05844E0E5A118225C15887F32FF0000
            0200060000000000020002000100"));
        let expected = hex("DD94EFC5321BB618A2E208BA8920D2F422992526947A409B5037DE1E0FE8C7362B8C47122594CDE0
            CE26AA9DFC8BCDBDE0621957672623351A7540F1E54A0426");
        assert_eq!(hash.value().to_vec(), expected);
    }

    /// 256-bit keys: the length is part of the input, so they do not begin like the 128-bit ones, and they come from
    /// the full key.
    #[test]
    fn keys_of_256_bits_come_from_the_full_key() {
        let hash = PreauthHash(std::array::from_fn(|i| i as u8));
        let session = key("270E1BA896585EEB7AF3472D3B4C75A7");
        let keys = SessionKeys::derive(Derivation::Smb311(&hash), &session, &session, Some(Cipher::Aes256Gcm));
        assert_eq!(
            keys.client_to_server.as_ref().unwrap().as_ref(),
            hex("c273f0de35671e766ef5106b605054d70385f9237f1327662763de8ac2444317")
        );
        let long = [&session[..], &[9; 16]].concat();
        let other = SessionKeys::derive(Derivation::Smb311(&hash), &session, &long, Some(Cipher::Aes256Gcm));
        assert_ne!(keys_of(&other)[1], keys_of(&keys)[1]);
        assert_eq!(other.signing, keys.signing);
    }

    #[test]
    fn dialect_2_signs_with_the_session_key_and_has_no_cipher() {
        let keys = SessionKeys::derive(Derivation::Smb2, &[3; 16], &[3; 16], Some(Cipher::Aes128Ccm));
        assert_eq!((keys.signing, keys.application), ([3; 16], [3; 16]));
        assert!(keys.client_to_server.is_none() && keys.server_to_client.is_none());
    }

    #[test]
    fn debug_shows_no_key() {
        let keys = SessionKeys::derive(Derivation::Smb30, &[0xab; 16], &[0xab; 16], Some(Cipher::Aes128Ccm));
        let text = format!("{keys:?}");
        assert!(text.contains("16 bytes") && !text.contains(&format!("{}", keys.signing[0])), "{text}");
    }
}
