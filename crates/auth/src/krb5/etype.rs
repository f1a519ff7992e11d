//! Encryption types and keys (RFC 3961, RFC 3962, RFC 8009): how long a key is and how those for each use are made of
//! it. A key is wiped when it is dropped and shows nothing but its type.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha256, Sha384};
use zeroize::Zeroizing;

use super::block::{Aes, BLOCK};

/// How something is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Etype {
    /// aes128-cts-hmac-sha1-96 (RFC 3962).
    Aes128Sha1 = 17,
    /// aes256-cts-hmac-sha1-96 (RFC 3962).
    Aes256Sha1 = 18,
    /// aes128-cts-hmac-sha256-128 (RFC 8009).
    Aes128Sha2 = 19,
    /// aes256-cts-hmac-sha384-192 (RFC 8009).
    Aes256Sha2 = 20,
}

impl Etype {
    /// The type of a number; `None` for one that is not taken.
    pub fn from_number(number: i32) -> Option<Self> {
        match number {
            17 => Some(Self::Aes128Sha1),
            18 => Some(Self::Aes256Sha1),
            19 => Some(Self::Aes128Sha2),
            20 => Some(Self::Aes256Sha2),
            _ => None,
        }
    }

    /// The length of a key.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Sha1 | Self::Aes128Sha2 => 16,
            Self::Aes256Sha1 | Self::Aes256Sha2 => 32,
        }
    }

    /// The length of a checksum.
    pub(super) fn mac_bytes(self) -> usize {
        match self {
            Self::Aes128Sha1 | Self::Aes256Sha1 => 12,
            Self::Aes128Sha2 => 16,
            Self::Aes256Sha2 => 24,
        }
    }

    /// The length of a key for checksums.
    fn mac_key_bytes(self) -> usize {
        match self {
            Self::Aes128Sha1 | Self::Aes256Sha1 => self.key_bytes(),
            Self::Aes128Sha2 | Self::Aes256Sha2 => self.mac_bytes(),
        }
    }
}

/// A key of a known type.
#[derive(Clone)]
pub struct Key {
    etype: Etype,
    bytes: Zeroizing<Vec<u8>>,
}

/// What a key is made for (RFC 3961 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Checksums.
    Checksum = 0x99,
    /// Encryption.
    Encryption = 0xaa,
    /// The checksum of what is encrypted.
    Integrity = 0x55,
}

impl Key {
    /// From its bytes; `None` when there are not as many as the type has.
    pub fn new(etype: Etype, bytes: &[u8]) -> Option<Self> {
        (bytes.len() == etype.key_bytes()).then(|| Self { etype, bytes: Zeroizing::new(bytes.to_vec()) })
    }

    /// A new one of `chance`.
    pub fn random(etype: Etype, chance: &dyn Fn(&mut [u8])) -> Self {
        let mut bytes = Zeroizing::new(vec![0; etype.key_bytes()]);
        chance(&mut bytes);
        Self { etype, bytes }
    }

    /// Its type.
    pub fn etype(&self) -> Etype {
        self.etype
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The key of a use.
    pub(super) fn derive(&self, usage: u32, purpose: Purpose) -> Zeroizing<Vec<u8>> {
        let [a, b, c, d] = usage.to_be_bytes();
        let label = [a, b, c, d, purpose as u8];
        let len = if purpose == Purpose::Encryption { self.etype.key_bytes() } else { self.etype.mac_key_bytes() };
        match self.etype {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => derive_sha1(&self.bytes, &label, len),
            Etype::Aes128Sha2 => derive_sha2::<Hmac<Sha256>>(&self.bytes, &label, len),
            Etype::Aes256Sha2 => derive_sha2::<Hmac<Sha384>>(&self.bytes, &label, len),
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?}, ..)", self.etype)
    }
}

/// DK (RFC 3961 5.1): the label, folded to a block and encrypted again and again.
fn derive_sha1(key: &[u8], label: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
    let mut derived = Zeroizing::new(Vec::with_capacity(len + BLOCK));
    let Some(aes) = Aes::new(key) else { return derived };
    let mut block = fold(label);
    while derived.len() < len {
        aes.encrypt_block(&mut block);
        derived.extend_from_slice(&block);
    }
    derived.truncate(len);
    derived
}

/// KDF-HMAC-SHA2 without a context (RFC 8009 3): one round is enough for any key here.
fn derive_sha2<M: Mac + KeyInit>(key: &[u8], label: &[u8], len: usize) -> Zeroizing<Vec<u8>> {
    let mut derived = Zeroizing::new(Vec::with_capacity(len));
    let Ok(mut mac) = M::new_from_slice(key) else { return derived };
    mac.update(&1u32.to_be_bytes());
    mac.update(label);
    mac.update(&[0]);
    mac.update(&(len as u32 * 8).to_be_bytes());
    let whole = mac.finalize().into_bytes();
    derived.extend(whole.iter().take(len));
    derived
}

/// n-fold to a block (RFC 3961 5.1): copies of the text, each turned right by 13 bits more than the one before, are laid
/// end to end until their end is also a block's, and the blocks added up in ones' complement.
fn fold(text: &[u8]) -> [u8; BLOCK] {
    let (len, bits) = (text.len(), text.len() * 8);
    let mut sum = [0u16; BLOCK];
    for at in 0..lcm(len, BLOCK) {
        let turned = (at / len * 13) % bits;
        let byte = (0..8).fold(0u16, |byte, bit| {
            let from = (at % len * 8 + bit + bits - turned) % bits;
            let value = text.get(from / 8).map_or(0, |byte| byte >> (7 - from % 8) & 1);
            byte << 1 | u16::from(value)
        });
        if let Some(place) = sum.get_mut(at % BLOCK) {
            *place += byte;
        }
    }
    let mut folded = [0; BLOCK];
    let mut carry = 0;
    // Once for the carries within, and once more for what came out at the top.
    for _ in 0..2 {
        for (to, sum) in folded.iter_mut().zip(&mut sum).rev() {
            let total = *sum + carry;
            (*to, *sum, carry) = (total as u8, total & 0xff, total >> 8);
        }
    }
    folded
}

fn lcm(a: usize, b: usize) -> usize {
    fn gcd(a: usize, b: usize) -> usize {
        if b == 0 { a } else { gcd(b, a % b) }
    }
    a / gcd(a, b).max(1) * b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krb5::tests::unhex;

    /// RFC 3961 A.1.
    #[test]
    fn folding() {
        assert_eq!(fold(b"kerberos").to_vec(), unhex("6b65726265726f737b9b5b2b93132b93"));
    }

    fn derived(etype: Etype, key: &str, usage: u32) -> [String; 3] {
        let key = Key::new(etype, &unhex(key)).unwrap();
        [Purpose::Checksum, Purpose::Encryption, Purpose::Integrity]
            .map(|purpose| key.derive(usage, purpose).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// RFC 8009 appendix A.
    #[test]
    fn keys_of_rfc_8009() {
        let [kc, ke, ki] = derived(Etype::Aes128Sha2, "3705d96080c17728a0e800eab6e0d23c", 2);
        assert_eq!(kc, "b31a018a48f54776f403e9a396325dc3");
        assert_eq!(ke, "9b197dd1e8c5609d6e67c3e37c62c72e");
        assert_eq!(ki, "9fda0e56ab2d85e1569a688696c26a6c");
        let long = "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52";
        let [kc, ke, ki] = derived(Etype::Aes256Sha2, long, 2);
        assert_eq!(kc, "ef5718be86cc84963d8bbb5031e9f5c4ba41f28faf69e73d");
        assert_eq!(ke, "56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49");
        assert_eq!(ki, "69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f");
    }

    #[test]
    fn a_key_has_the_length_of_its_type_and_is_not_shown() {
        assert!(Key::new(Etype::Aes128Sha1, &[7; 32]).is_none());
        let key = Key::new(Etype::Aes256Sha1, &[7; 32]).unwrap();
        assert_eq!(format!("{key:?}"), "Key(Aes256Sha1, ..)");
        assert_eq!(Etype::from_number(23), None);
    }
}
