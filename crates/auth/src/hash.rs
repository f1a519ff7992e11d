//! The NT hash: what this server keeps instead of a password, and the digests NTLM is made of. It is as good as the
//! password to whoever has it, so it is wiped when dropped and never shown.

use hmac::{Hmac, KeyInit, Mac};
use md4::Md4;
use md5::{Digest, Md5};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// NTOWFv1: MD4 of the password in UTF-16LE (MS-NLMP 3.3.1).
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct NtHash([u8; 16]);

impl NtHash {
    /// The hash of a password.
    pub fn of_password(password: &str) -> Self {
        let mut utf16 = smb_wire::ntlmssp::utf16le_encode(password);
        let hash = Self(md4(&utf16));
        utf16.zeroize();
        hash
    }

    /// From its bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// From 32 hexadecimal digits; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits: &[u8; 32] = text.as_bytes().try_into().ok()?;
        let mut hash = Self([0; 16]);
        for (byte, pair) in hash.0.iter_mut().zip(digits.as_chunks::<2>().0) {
            let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
            *byte = (high? << 4 | low?) as u8;
        }
        Some(hash)
    }

    /// As 32 hexadecimal digits, for the user database only.
    pub(crate) fn to_hex(&self) -> String {
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .map(|d| char::from(b"0123456789abcdef"[d as usize]))
            .collect()
    }

    pub(crate) fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What a proof is checked against when there is no such user, so that it takes as long as if there were.
    pub(crate) fn of_nobody() -> Self {
        Self([0x5c; 16])
    }
}

impl std::fmt::Debug for NtHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NtHash(..)")
    }
}

pub(crate) fn md4(data: &[u8]) -> [u8; 16] {
    Md4::digest(data).into()
}

pub(crate) fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut digest = Md5::new();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize().into()
}

pub(crate) fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut mac = Hmac::<Md5>::new_from_slice(key).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MS-NLMP 4.2.2.1.2, and the well-known hash of the empty password.
    #[test]
    fn the_hash_of_a_password() {
        assert_eq!(NtHash::of_password("Password").to_hex(), "a4f49c406510bdcab6824ee7c30fd852");
        assert_eq!(NtHash::of_password("").to_hex(), "31d6cfe0d16ae931b73c59d7e0c089c0");
    }

    #[test]
    fn hex_is_exact() {
        let hash = NtHash::from_hex("A4f49c406510bdcab6824ee7c30fd852").unwrap();
        assert_eq!(hash.to_hex(), "a4f49c406510bdcab6824ee7c30fd852");
        for bad in
            ["", "a4", "a4f49c406510bdcab6824ee7c30fd85g", "a4f49c406510bdcab6824ee7c30fd8522", "éééééééééééééééé"]
        {
            assert!(NtHash::from_hex(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", NtHash::of_password("secret")), "NtHash(..)");
    }

    /// RFC 2202 case 2, RFC 1321.
    #[test]
    fn digests() {
        assert_eq!(
            hmac_md5(b"Jefe", &[b"what do ya want", b" for nothing?"]).to_vec(),
            hex("750c783e6ab0b503eaa86e310a5db738")
        );
        assert_eq!(md5(&[b"a", b"bc"]).to_vec(), hex("900150983cd24fb0d6963f7d28e17f72"));
    }
}
