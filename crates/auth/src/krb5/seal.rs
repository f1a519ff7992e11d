//! Encryption and checksums under the keys of one use (RFC 3961 5.3 and 5.4, RFC 8009 5): derived once, used for many
//! messages. What is opened was not changed by anybody, or is not handed out; checksums are compared in constant time.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::{Sha256, Sha384};
use smb_wire::crypto::equal_in_constant_time;

use super::block::{Aes, BLOCK};
use super::etype::{Etype, Key, Purpose};

/// What was decrypted is not what was encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadIntegrity;

/// Random bytes before each message that is encrypted.
pub(super) type Confounder = [u8; BLOCK];

/// A checksum.
#[derive(Clone, Copy)]
pub(super) struct Tag {
    bytes: [u8; 24],
    len: usize,
}

impl std::ops::Deref for Tag {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Boxed: their states are large.
enum Hash {
    Sha1(Box<Hmac<Sha1>>),
    Sha256(Box<Hmac<Sha256>>),
    Sha384(Box<Hmac<Sha384>>),
}

/// Makes checksums.
pub(super) struct Signing {
    hash: Hash,
    len: usize,
}

impl Signing {
    /// With the key for checksums of a use.
    pub fn new(key: &Key, usage: u32) -> Self {
        Self::with(key, usage, Purpose::Checksum)
    }

    fn with(key: &Key, usage: u32, purpose: Purpose) -> Self {
        const ANY: &str = "HMAC takes a key of any length";
        let bytes = key.derive(usage, purpose);
        let hash = match key.etype() {
            Etype::Aes128Sha1 | Etype::Aes256Sha1 => Hash::Sha1(Box::new(KeyInit::new_from_slice(&bytes).expect(ANY))),
            Etype::Aes128Sha2 => Hash::Sha256(Box::new(KeyInit::new_from_slice(&bytes).expect(ANY))),
            Etype::Aes256Sha2 => Hash::Sha384(Box::new(KeyInit::new_from_slice(&bytes).expect(ANY))),
        };
        Self { hash, len: key.etype().mac_bytes() }
    }

    /// The checksum of the parts, one after the other.
    pub fn sign(&self, parts: &[&[u8]]) -> Tag {
        fn run<M: Mac + Clone>(mac: &M, parts: &[&[u8]], tag: &mut Tag) {
            let mut mac = mac.clone();
            parts.iter().for_each(|part| mac.update(part));
            tag.bytes.iter_mut().zip(mac.finalize().into_bytes()).for_each(|(to, from)| *to = from);
        }
        let mut tag = Tag { bytes: [0; 24], len: self.len };
        match &self.hash {
            Hash::Sha1(mac) => run(&**mac, parts, &mut tag),
            Hash::Sha256(mac) => run(&**mac, parts, &mut tag),
            Hash::Sha384(mac) => run(&**mac, parts, &mut tag),
        }
        tag
    }

    /// Whether `tag` is the checksum of the parts.
    pub fn verify(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        equal_in_constant_time(&self.sign(parts), tag)
    }

    /// The length of a checksum.
    pub fn len(&self) -> usize {
        self.len
    }
}

/// Encrypts.
pub(super) struct Sealing {
    aes: Aes,
    integrity: Signing,
    /// The checksum is of what was encrypted, not of what it was encrypted to.
    of_plain: bool,
}

impl Sealing {
    /// With the keys for encryption of a use.
    pub fn new(key: &Key, usage: u32) -> Self {
        let aes = Aes::new(&key.derive(usage, Purpose::Encryption)).expect("a derived key has the length of its type");
        let of_plain = matches!(key.etype(), Etype::Aes128Sha1 | Etype::Aes256Sha1);
        Self { aes, integrity: Signing::with(key, usage, Purpose::Integrity), of_plain }
    }

    /// How much longer a message becomes.
    pub fn overhead(&self) -> usize {
        BLOCK + self.integrity.len()
    }

    /// Appends the parts, encrypted as one.
    pub fn seal(&self, confounder: Confounder, parts: &[&[u8]], out: &mut Vec<u8>) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        out.reserve(len + self.overhead());
        let begin = out.len();
        out.extend_from_slice(&confounder);
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let message = out.get_mut(begin..).unwrap_or_default();
        let tag = if self.of_plain {
            let tag = self.integrity.sign(&[message]);
            self.aes.encrypt(message);
            tag
        } else {
            self.aes.encrypt(message);
            self.integrity.sign(&[&[0; BLOCK], message])
        };
        out.extend_from_slice(&tag);
    }

    /// Decrypts in place: where the message lies in `data`.
    pub fn open(&self, data: &mut [u8]) -> Result<std::ops::Range<usize>, BadIntegrity> {
        let end = data.len().checked_sub(self.integrity.len()).ok_or(BadIntegrity)?;
        let (message, tag) = data.split_at_mut_checked(end).ok_or(BadIntegrity)?;
        if !self.of_plain && !self.integrity.verify(&[&[0; BLOCK], message], tag) {
            return Err(BadIntegrity);
        }
        if !self.aes.decrypt(message) || self.of_plain && !self.integrity.verify(&[message], tag) {
            return Err(BadIntegrity);
        }
        Ok(BLOCK..end)
    }
}

/// Encrypts once under a key of a use that has no other.
pub(super) fn seal(key: &Key, usage: u32, confounder: Confounder, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Sealing::new(key, usage).seal(confounder, &[plain], &mut out);
    out
}

/// Decrypts once.
pub(super) fn open(key: &Key, usage: u32, sealed: &[u8]) -> Result<zeroize::Zeroizing<Vec<u8>>, BadIntegrity> {
    let mut data = zeroize::Zeroizing::new(sealed.to_vec());
    let range = Sealing::new(key, usage).open(&mut data)?;
    data.truncate(range.end);
    data.drain(..range.start);
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krb5::tests::unhex;

    /// RFC 3962 appendix B.
    #[test]
    fn ciphertext_stealing() {
        let aes = Aes::new(b"chicken teriyaki").unwrap();
        let text = b"I would like the General Gau's Chicken, please, and wonton soup.";
        for (len, expected) in [
            (17, "c6353568f2bf8cb4d8a580362da7ff7f97"),
            (31, "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5"),
            (32, "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584"),
            (47, "97687268d6ecccc0c07b25e25ecfe584b3fffd940c16a18c1b5549d2f838029e39312523a78662d5be7fcbcc98ebf5"),
            (48, "97687268d6ecccc0c07b25e25ecfe5849dad8bbb96c4cdc03bc103e1a194bbd839312523a78662d5be7fcbcc98ebf5a8"),
            (
                64,
                "97687268d6ecccc0c07b25e25ecfe58439312523a78662d5be7fcbcc98ebf5a84807efe836ee89a526730dbc2f7bc840\
                 9dad8bbb96c4cdc03bc103e1a194bbd8",
            ),
        ] {
            let mut data = text[..len].to_vec();
            assert!(aes.encrypt(&mut data));
            assert_eq!(data, unhex(expected), "{len} bytes");
            assert!(aes.decrypt(&mut data));
            assert_eq!(data, text[..len], "{len} bytes back");
        }
        assert!(!aes.encrypt(&mut [0; 15]) && !aes.decrypt(&mut []));
    }

    #[test]
    fn every_length_comes_back_and_no_bit_may_change() {
        for etype in [Etype::Aes128Sha1, Etype::Aes256Sha1, Etype::Aes128Sha2, Etype::Aes256Sha2] {
            let sealing = Sealing::new(&Key::new(etype, &vec![9; etype.key_bytes()]).unwrap(), 24);
            for len in (0..80).chain([1000, 4096, 70_001]) {
                let plain: Vec<u8> = (0..len).map(|n| (n * 7) as u8).collect();
                let (one, two) = plain.split_at(len / 3);
                let mut sealed = vec![1, 2, 3];
                sealing.seal([4; 16], &[one, two], &mut sealed);
                sealed.drain(..3);
                assert_eq!(sealed.len(), len + sealing.overhead());
                for at in [0, 16, len / 2, sealed.len() - 1] {
                    let mut changed = sealed.clone();
                    changed[at] ^= 0x10;
                    assert_eq!(sealing.open(&mut changed), Err(BadIntegrity), "{etype:?} {len} {at}");
                }
                let range = sealing.open(&mut sealed).unwrap();
                assert_eq!(sealed[range], plain);
            }
            for len in 0..40 {
                assert!(sealing.open(&mut vec![0; len]).is_err(), "{len} bytes of nothing");
            }
        }
    }

    /// RFC 8009 appendix A, with key usage 2.
    #[test]
    fn messages_of_rfc_8009() {
        let short = ("3705d96080c17728a0e800eab6e0d23c", Etype::Aes128Sha2);
        let long = ("6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52", Etype::Aes256Sha2);
        for ((key, etype), plain, confounder, sealed) in [
            (
                short,
                "",
                "7e5895eaf2672435bad817f545a37148",
                "ef85fb890bb8472f4dab20394dca781dad877eda39d50c870c0d5a0a8e48c718",
            ),
            (
                short,
                "000102030405",
                "7bca285e2fd4130fb55b1a5c83bc5b24",
                "84d7f30754ed987bab0bf3506beb09cfb55402cef7e6877ce99e247e52d16ed4421dfdf8976c",
            ),
            (
                long,
                "000102030405060708090a0b0c0d0e0f",
                "53bf8a0d105265d4e276428624ce5e63",
                "bc47ffec7998eb91e8115cf8d19dac4bbbe2e163e87dd37f49beca92027764f68cf51f14d798c2273f35df574d1f932e\
                 40c4ff255b36a266",
            ),
            (
                long,
                "000102030405060708090a0b0c0d0e0f1011121314",
                "763e65367e864f02f55153c7e3b58af1",
                "40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86fef6ecb647d6295fae077a\
                 1feb517508d2c16b4192e01f62",
            ),
        ] {
            let key = Key::new(etype, &unhex(key)).unwrap();
            let confounder = unhex(confounder).try_into().unwrap();
            assert_eq!(seal(&key, 2, confounder, &unhex(plain)), unhex(sealed));
            assert_eq!(*open(&key, 2, &unhex(sealed)).unwrap(), unhex(plain));
        }
        let text: Vec<u8> = (0..=0x14).collect();
        for ((key, etype), tag) in
            [(short, "d78367186643d67b411cba9139fc1dee"), (long, "45ee791567eefca37f4ac1e0222de80d43c3bfa06699672a")]
        {
            let signing = Signing::new(&Key::new(etype, &unhex(key)).unwrap(), 2);
            assert_eq!(signing.sign(&[&text]).to_vec(), unhex(tag));
        }
    }

    /// Checksums under SHA-1, as MIT's own tests have them.
    #[test]
    fn checksums_with_sha1() {
        for (etype, key, usage, text, tag) in [
            (
                Etype::Aes128Sha1,
                "9062430c8cda3388922e6d6a509f5b7a",
                3,
                &b"eight nine ten eleven twelve thirteen"[..],
                "01a4b088d45628f6946614e3",
            ),
            (
                Etype::Aes256Sha1,
                "b1ae4cd8462aff1677053cc9279aac30b796fb81ce21474dd3ddbcfea4ec76d7",
                4,
                b"fourteen",
                "e08739e3279e2903ec8e3836",
            ),
        ] {
            let signing = Signing::new(&Key::new(etype, &unhex(key)).unwrap(), usage);
            assert_eq!(signing.sign(&[text]).to_vec(), unhex(tag));
            assert!(signing.verify(&[text], &unhex(tag)) && !signing.verify(&[text], &unhex(tag)[..11]));
        }
    }
}
