//! Signing, sealing and key derivation of SMB 2 and 3 (MS-SMB2 3.1.4 and 3.3.5.5.3). Both halves of a connection call
//! it on bytes already in a pooled buffer; it works in place, copies no message and must never print a key.

mod kdf;
mod sealing;
mod signing;

pub use kdf::{CipherKey, Derivation, PreauthHash, SessionKeys};
pub use sealing::{SealingKey, TRANSFORM_HEADER_LEN, TRANSFORM_PROTOCOL_ID, TransformHeader};
pub use signing::SigningKey;

/// SHA-256, for what is checked against a copy kept elsewhere.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    out
}

/// How messages are signed; the wire ids are those of SMB2_SIGNING_CAPABILITIES (MS-SMB2 2.2.3.1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SigningAlgorithm {
    /// HMAC-SHA256 cut to 16 bytes: dialects 2.0.2 and 2.1, negotiable in 3.1.1.
    HmacSha256,
    /// AES-128-CMAC: dialects 3.0 and 3.0.2, the default of 3.1.1.
    AesCmac,
    /// AES-128-GMAC: negotiable in 3.1.1.
    AesGmac,
}

impl SigningAlgorithm {
    /// The algorithm of a wire id; `None` for one nobody defined yet.
    pub fn from_wire(id: u16) -> Option<Self> {
        match id {
            0 => Some(Self::HmacSha256),
            1 => Some(Self::AesCmac),
            2 => Some(Self::AesGmac),
            _ => None,
        }
    }

    /// The wire id.
    pub fn to_wire(self) -> u16 {
        match self {
            Self::HmacSha256 => 0,
            Self::AesCmac => 1,
            Self::AesGmac => 2,
        }
    }
}

/// How messages are encrypted; the wire ids are those of SMB2_ENCRYPTION_CAPABILITIES (MS-SMB2 2.2.3.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-128-CCM, the only one of 3.0 and 3.0.2.
    Aes128Ccm,
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-CCM.
    Aes256Ccm,
    /// AES-256-GCM.
    Aes256Gcm,
}

impl Cipher {
    /// The cipher of a wire id; `None` for one nobody defined yet.
    pub fn from_wire(id: u16) -> Option<Self> {
        match id {
            1 => Some(Self::Aes128Ccm),
            2 => Some(Self::Aes128Gcm),
            3 => Some(Self::Aes256Ccm),
            4 => Some(Self::Aes256Gcm),
            _ => None,
        }
    }

    /// The wire id.
    pub fn to_wire(self) -> u16 {
        match self {
            Self::Aes128Ccm => 1,
            Self::Aes128Gcm => 2,
            Self::Aes256Ccm => 3,
            Self::Aes256Gcm => 4,
        }
    }

    /// Length of its key in bytes.
    pub fn key_len(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes128Gcm => 16,
            Self::Aes256Ccm | Self::Aes256Gcm => 32,
        }
    }

    /// How much of the header's 16-byte nonce field it uses (MS-SMB2 2.2.41).
    pub fn nonce_len(self) -> usize {
        match self {
            Self::Aes128Ccm | Self::Aes256Ccm => 11,
            Self::Aes128Gcm | Self::Aes256Gcm => 12,
        }
    }
}

/// Why a frame could not be opened or a key not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CryptoError {
    /// Shorter than an SMB2 TRANSFORM_HEADER.
    TooShort,
    /// The protocol id is not that of a TRANSFORM_HEADER.
    NotTransform,
    /// The Flags field is not "encrypted" (1).
    BadFlags,
    /// OriginalMessageSize is not the size of what follows.
    SizeMismatch,
    /// The frame is not what the peer sealed, or not with this key.
    Tampered,
    /// The key has not the length the cipher needs.
    KeyLength,
}

impl std::fmt::Display for CryptoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooShort => "shorter than a transform header",
            Self::NotTransform => "not a transform header",
            Self::BadFlags => "unknown flags in the transform header",
            Self::SizeMismatch => "original message size does not match the frame",
            Self::Tampered => "the frame does not authenticate",
            Self::KeyLength => "wrong key length for the cipher",
        })
    }
}

impl std::error::Error for CryptoError {}

/// Compares two secrets without telling by its duration where they differ. Slices of different length are unequal.
pub fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_ids_go_both_ways_and_unknown_ones_are_refused() {
        for id in 0..=2 {
            assert_eq!(SigningAlgorithm::from_wire(id).map(SigningAlgorithm::to_wire), Some(id));
        }
        for id in 1..=4 {
            assert_eq!(Cipher::from_wire(id).map(Cipher::to_wire), Some(id));
        }
        assert_eq!(SigningAlgorithm::from_wire(3), None);
        assert_eq!((Cipher::from_wire(0), Cipher::from_wire(5)), (None, None));
    }
}
