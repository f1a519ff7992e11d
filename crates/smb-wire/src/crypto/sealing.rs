//! Encryption of whole frames behind an SMB2 TRANSFORM_HEADER (MS-SMB2 2.2.41, 3.1.4.3). Called for every encrypted
//! frame; works in place, allocates nothing, and must never be given the same nonce twice for one key.

use aes::{Aes128, Aes256};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ccm::aead::AeadInOut;
use ccm::consts::{U11, U16};
use ccm::{Ccm, KeyInit};

use super::{Cipher, CryptoError};

/// Length of the TRANSFORM_HEADER in bytes.
pub const TRANSFORM_HEADER_LEN: usize = 52;
/// What a TRANSFORM_HEADER begins with.
pub const TRANSFORM_PROTOCOL_ID: [u8; 4] = *b"\xfdSMB";

const SIGNATURE: std::ops::Range<usize> = 4..20;
const NONCE: std::ops::Range<usize> = 20..36;
const AUTHENTICATED_FROM: usize = 20;
/// "Encrypted" in 3.1.1 and the id of AES-128-CCM in 3.0: the same number in the same place.
const FLAGS_ENCRYPTED: u16 = 1;

/// The readable part of a TRANSFORM_HEADER: enough to find the session whose key opens the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransformHeader {
    /// Length of the message inside, in bytes.
    pub original_size: u32,
    /// 1, "encrypted".
    pub flags: u16,
    /// Whose key sealed it.
    pub session_id: u64,
}

impl TransformHeader {
    /// Whether `frame` begins like a TRANSFORM_HEADER.
    pub fn is_transform(frame: &[u8]) -> bool {
        frame.starts_with(&TRANSFORM_PROTOCOL_ID)
    }

    /// Reads the header of `frame` and checks it against the frame's length. Nothing is authenticated yet.
    pub fn parse(frame: &[u8]) -> Result<Self, CryptoError> {
        let header: &[u8; TRANSFORM_HEADER_LEN] = frame.first_chunk().ok_or(CryptoError::TooShort)?;
        if !Self::is_transform(header) {
            return Err(CryptoError::NotTransform);
        }
        let [.., a, b, c, d, _, _, e, f, s0, s1, s2, s3, s4, s5, s6, s7] = *header;
        let parsed = Self {
            original_size: u32::from_le_bytes([a, b, c, d]),
            flags: u16::from_le_bytes([e, f]),
            session_id: u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
        };
        if parsed.flags != FLAGS_ENCRYPTED {
            return Err(CryptoError::BadFlags);
        }
        if parsed.original_size as usize != frame.len() - TRANSFORM_HEADER_LEN {
            return Err(CryptoError::SizeMismatch);
        }
        Ok(parsed)
    }
}

/// Seals, or opens, the frames of one direction of a session.
pub struct SealingKey {
    cipher: Cipher,
    aead: Aead,
}

enum Aead {
    Gcm(LessSafeKey),
    Ccm128(Box<Ccm<Aes128, U16, U11>>),
    Ccm256(Box<Ccm<Aes256, U16, U11>>),
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealingKey").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

impl SealingKey {
    /// Prepares `key`, which has [`Cipher::key_len`] bytes.
    pub fn new(cipher: Cipher, key: &[u8]) -> Result<Self, CryptoError> {
        let gcm = |algorithm| UnboundKey::new(algorithm, key).map(|key| Aead::Gcm(LessSafeKey::new(key))).ok();
        let aead = match cipher {
            Cipher::Aes128Gcm => gcm(&aead::AES_128_GCM),
            Cipher::Aes256Gcm => gcm(&aead::AES_256_GCM),
            Cipher::Aes128Ccm => Ccm::new_from_slice(key).ok().map(|ccm| Aead::Ccm128(Box::new(ccm))),
            Cipher::Aes256Ccm => Ccm::new_from_slice(key).ok().map(|ccm| Aead::Ccm256(Box::new(ccm))),
        };
        Ok(Self { cipher, aead: aead.ok_or(CryptoError::KeyLength)? })
    }

    /// The cipher the key is for.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts `frame` in place: [`TRANSFORM_HEADER_LEN`] bytes of room, then the message. Fills the header.
    ///
    /// `nonce` is a counter: never the same twice for one key, whatever channels share it (MS-SMB2 3.1.4.3).
    ///
    /// # Panics
    /// If the frame has no room for the header, or the message is 4 GiB or more: the caller built it.
    pub fn seal(&self, frame: &mut [u8], session_id: u64, nonce: u64) {
        let mut field = [0; 16];
        field[..8].copy_from_slice(&nonce.to_le_bytes());
        self.seal_with(frame, session_id, &field);
    }

    fn seal_with(&self, frame: &mut [u8], session_id: u64, nonce_field: &[u8; 16]) {
        let (header, message) = frame.split_at_mut(TRANSFORM_HEADER_LEN);
        let original_size = u32::try_from(message.len()).expect("a message has less than 4 GiB");
        header[..4].copy_from_slice(&TRANSFORM_PROTOCOL_ID);
        header[NONCE].copy_from_slice(nonce_field);
        header[36..40].copy_from_slice(&original_size.to_le_bytes());
        header[40..42].fill(0);
        header[42..44].copy_from_slice(&FLAGS_ENCRYPTED.to_le_bytes());
        header[44..52].copy_from_slice(&session_id.to_le_bytes());
        let tag = self.encrypt(nonce_field, &header[AUTHENTICATED_FROM..], message);
        header[SIGNATURE].copy_from_slice(&tag);
    }

    /// Decrypts `frame` in place and returns the message inside. After an error the frame's bytes are worthless.
    pub fn open<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], CryptoError> {
        TransformHeader::parse(frame)?;
        let (header, message) = frame.split_first_chunk_mut::<TRANSFORM_HEADER_LEN>().ok_or(CryptoError::TooShort)?;
        let (tag, authenticated) = header[4..].split_first_chunk::<16>().ok_or(CryptoError::TooShort)?;
        let nonce = authenticated.first_chunk::<16>().ok_or(CryptoError::TooShort)?;
        self.decrypt(nonce, authenticated, tag, message).ok_or(CryptoError::Tampered)?;
        Ok(message)
    }

    fn encrypt(&self, nonce: &[u8; 16], aad: &[u8], message: &mut [u8]) -> [u8; 16] {
        const FITS: &str = "the length was checked";
        match &self.aead {
            Aead::Gcm(key) => {
                let tag = key.seal_in_place_separate_tag(gcm_nonce(nonce), Aad::from(aad), message).expect(FITS);
                *tag.as_ref().first_chunk().expect("GCM's tag has 16 bytes")
            }
            Aead::Ccm128(key) => key.encrypt_inout_detached(&ccm_nonce(nonce), aad, message.into()).expect(FITS).into(),
            Aead::Ccm256(key) => key.encrypt_inout_detached(&ccm_nonce(nonce), aad, message.into()).expect(FITS).into(),
        }
    }

    fn decrypt(&self, nonce: &[u8; 16], aad: &[u8], tag: &[u8; 16], message: &mut [u8]) -> Option<()> {
        match &self.aead {
            Aead::Gcm(key) => {
                key.open_in_place_separate_tag(gcm_nonce(nonce), Aad::from(aad), tag, message).ok().map(drop)
            }
            Aead::Ccm128(key) => {
                key.decrypt_inout_detached(&ccm_nonce(nonce), aad, message.into(), &(*tag).into()).ok()
            }
            Aead::Ccm256(key) => {
                key.decrypt_inout_detached(&ccm_nonce(nonce), aad, message.into(), &(*tag).into()).ok()
            }
        }
    }
}

fn gcm_nonce(field: &[u8; 16]) -> Nonce {
    let [nonce @ .., _, _, _, _] = *field;
    Nonce::assume_unique_for_key(nonce)
}

fn ccm_nonce(field: &[u8; 16]) -> ccm::Nonce<U11> {
    let [nonce @ .., _, _, _, _, _] = *field;
    nonce.into()
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    const ALL: [Cipher; 4] = [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm];

    fn key(cipher: Cipher) -> SealingKey {
        SealingKey::new(cipher, &[0x5a; 32][..cipher.key_len()]).unwrap()
    }

    fn frame(message: &[u8]) -> Vec<u8> {
        [&[0xee; TRANSFORM_HEADER_LEN], message].concat()
    }

    struct Published {
        cipher: Cipher,
        key: &'static str,
        plain: &'static str,
        sealed: &'static str,
    }

    /// Microsoft's published frames of SMB 3.0 and 3.1.1: a WRITE of "Smb3 encryption testing" and its answer.
    const PUBLISHED: [Published; 4] = [
        Published {
            cipher: Cipher::Aes128Ccm,
            key: "261B72350558F2E9DCF613070383EDBF",
            plain: "FE534D4240000100000000000900400008000000000000000400000000000000
                FFFE0000010000001100001400E4080000000000000000000000000000000000
                3100700017000000000000000000000015010000390000020100000039020000
                00000000000000007000000000000000536D623320656E6372797074696F6E20
                74657374696E67",
            sealed: "FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A
                744DA3EE87000000000001001100001400E4080025C8FEE16605A437832D1CD5
                2DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A4
                4C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA899E410E910EABF5
                AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6
                C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB",
        },
        Published {
            cipher: Cipher::Aes128Ccm,
            key: "8FE2B57EC34D2DB5B1A9727F526BBDB5",
            plain: "FE534D4240000100000000000900210009000000000000000400000000000000
                FFFE0000010000001100001400E4080000000000000000000000000000000000
                11000000170000000000000000000000",
            sealed: "FD534D42A6015530A18F6D9AFFE22AFAE8E66484860000000000000011000014
                00E4080050000000000001001100001400E40800DBF46435C5F14169293CE079
                E344479BF670227E49873F458672C3098DAC467DD5809F369D67409166515787
                1483E01F7BECD02064EAC3E235F913668BBC2F097980D4B378F1993EFF6E60D1
                77309E5B",
        },
        Published {
            cipher: Cipher::Aes128Gcm,
            key: "A2F5E80E5D59103034F32E52F698E5EC",
            plain: "FE534D4240000100000000000900010008000000000000000500000000000000FFFE000001000000
                25000000001000000000000000000000000000000000000031007000170000000000000000000000
                0600000004000000010000000400000000000000000000007000000000000000536D623320656E63
                72797074696F6E2074657374696E67",
            sealed: "FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000
                0000010025000000001000006ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02
                D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB4
                4576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9
                1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8",
        },
        Published {
            cipher: Cipher::Aes128Gcm,
            key: "748C50868C90F302962A5C35F5F9A8BF",
            plain: "FE534D4240000100000000000900010001000000000000000500000000000000FFFE000001000000
                25000000001000000000000000000000000000000000000011000000170000000000000000000000",
            sealed: "FD534D42ACBE1CB7ED343ADF1725EF144D90D4B0E06831DD2E8EB7B4000000000000000050000000
                00000100250000000010000026BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8
                F2D793A815C6F6B848D69767A215841A42D400AE6DDB5F0B44173A014973321FDD7950DA6179159B
                82E03C9E18A050FF0EA1C967",
        },
    ];

    #[test]
    fn published_frames_open_and_seal_to_the_same_bytes() {
        for (number, case) in PUBLISHED.iter().enumerate() {
            let key = SealingKey::new(case.cipher, &hex(case.key)).unwrap();
            let sealed = hex(case.sealed);
            let mut opened = sealed.clone();
            assert_eq!(key.open(&mut opened).unwrap(), hex(case.plain), "case {number}");

            let header = TransformHeader::parse(&sealed).unwrap();
            let nonce = *sealed[NONCE].first_chunk().unwrap();
            let mut again = frame(&hex(case.plain));
            key.seal_with(&mut again, header.session_id, &nonce);
            assert_eq!(again, sealed, "case {number}");
        }
    }

    /// 256-bit frames nobody has published: these are from another implementation (the Python package cryptography).
    #[test]
    fn frames_under_256_bit_keys_are_what_another_implementation_makes() {
        let key_bytes: Vec<u8> = (0..32).collect();
        let message: Vec<u8> = b"\xfeSMB".iter().copied().chain(0..60).collect();
        for (cipher, expected) in [
            (
                Cipher::Aes256Gcm,
                "fd534d42b7624890d0bdd9c9385decb51e22ee120807060504030201000000000000000040000000
                00000100887766554433221149ec3c2792476069119eed2cd69c96c1354997c1d93a06f6ce3b6587
                26521f793510ae2272c06471ea571cae10f9c244ddf27f98af1e624412770df46cfa4a00",
            ),
            (
                Cipher::Aes256Ccm,
                "fd534d42549b63d50e4d15a3351f6e74ffd52eca0807060504030201000000000000000040000000
                000001008877665544332211e5f3efad1ceea3e5dc5f1e830e7f868bd408a20162f68dbc48be657c
                b7c70f0d8136750a431f500dbad0563b5848d00f5ad2056bae9c07656ae3b3fb4ff34ffa",
            ),
        ] {
            let mut sealed = frame(&message);
            let key = SealingKey::new(cipher, &key_bytes).unwrap();
            key.seal(&mut sealed, 0x1122_3344_5566_7788, 0x0102_0304_0506_0708);
            assert_eq!(sealed, hex(expected), "{cipher:?}");
        }
    }

    #[test]
    fn every_cipher_opens_what_it_sealed() {
        for cipher in ALL {
            for len in [0, 1, 15, 16, 17, 64, 4096, 70_001] {
                let message: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
                let mut bytes = frame(&message);
                key(cipher).seal(&mut bytes, 0x1122_3344_5566_7788, len as u64);
                let header = TransformHeader::parse(&bytes).unwrap();
                assert_eq!((header.session_id, header.original_size), (0x1122_3344_5566_7788, len as u32));
                assert_eq!(key(cipher).open(&mut bytes).unwrap(), message, "{cipher:?} {len}");
            }
        }
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        for cipher in ALL {
            let mut sealed = frame(&[7; 100]);
            key(cipher).seal(&mut sealed, 9, 1);
            for at in 0..sealed.len() {
                let mut bad = sealed.clone();
                bad[at] ^= 0x80;
                assert!(key(cipher).open(&mut bad).is_err(), "{cipher:?} byte {at}");
            }
        }
    }

    #[test]
    fn a_cut_or_stretched_frame_is_refused() {
        let mut sealed = frame(&[7; 100]);
        key(Cipher::Aes128Gcm).seal(&mut sealed, 9, 1);
        for len in 0..sealed.len() {
            let error = key(Cipher::Aes128Gcm).open(&mut sealed[..len].to_vec()).unwrap_err();
            let expected = if len < TRANSFORM_HEADER_LEN { CryptoError::TooShort } else { CryptoError::SizeMismatch };
            assert_eq!(error, expected);
        }
        sealed.push(0);
        assert_eq!(key(Cipher::Aes128Gcm).open(&mut sealed), Err(CryptoError::SizeMismatch));
    }

    #[test]
    fn a_key_of_the_wrong_length_is_refused() {
        for cipher in ALL {
            for len in [0, 15, 17, 24, 48 - cipher.key_len()] {
                assert_eq!(SealingKey::new(cipher, &vec![0; len]).err(), Some(CryptoError::KeyLength), "{cipher:?}");
            }
        }
    }

    #[test]
    fn two_nonces_give_two_ciphertexts() {
        for cipher in ALL {
            let (mut one, mut two) = (frame(&[0; 32]), frame(&[0; 32]));
            key(cipher).seal(&mut one, 1, 1);
            key(cipher).seal(&mut two, 1, 2);
            assert_ne!(one[TRANSFORM_HEADER_LEN..], two[TRANSFORM_HEADER_LEN..]);
        }
    }
}
