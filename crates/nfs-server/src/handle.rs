//! File handles as clients have them: which export, what the backend calls the object, and a signature over both, so
//! that nobody makes one up. `server` and `nfs3` call it; what the backend's part means only the backend knows.
//!
//! Layout: version (1), export (8), signature (12), the backend's handle (at most 43); 64 bytes in all (RFC 1813 2.4).

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use nfs_wire::nfs3::MAX_HANDLE_BYTES;

/// Bytes of a server's key.
pub const KEY_BYTES: usize = 32;

const VERSION: u8 = 1;
const EXPORT_BYTES: usize = 8;
const MAC_BYTES: usize = 12;
const HEAD_BYTES: usize = 1 + EXPORT_BYTES + MAC_BYTES;

const _: () = assert!(HEAD_BYTES + vfs::MAX_HANDLE_BYTES <= MAX_HANDLE_BYTES);

/// Which export a handle belongs to: the same as long as its name and the key are.
pub type ExportId = [u8; EXPORT_BYTES];

/// Bytes that no server with this key gave out: BADHANDLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forged;

/// The key that signs handles. Whoever keeps it over a restart keeps the handles clients have.
pub struct HandleKey(Key);

impl HandleKey {
    /// A key of bytes nobody can guess.
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        Self(Key::new(HMAC_SHA256, bytes))
    }

    /// The number of the export of that name.
    pub(crate) fn export_id(&self, name: &str) -> ExportId {
        self.mac(&[b"export", name.as_bytes()])
    }

    /// The handle of an object; `None` when the backend's part is too long.
    pub(crate) fn seal(&self, export: &ExportId, object: &[u8]) -> Option<Vec<u8>> {
        self.seal_in(export, object, &mut [0; MAX_HANDLE_BYTES]).map(<[u8]>::to_vec)
    }

    /// The same in the caller's room, for listings.
    pub(crate) fn seal_in<'a>(
        &self,
        export: &ExportId,
        object: &[u8],
        room: &'a mut [u8; MAX_HANDLE_BYTES],
    ) -> Option<&'a [u8]> {
        let mac: [u8; MAC_BYTES] = self.mac(&[&[VERSION], export, object]);
        let handle = room.get_mut(..HEAD_BYTES + object.len())?;
        let mut rest = &mut *handle;
        for part in [&[VERSION][..], export, &mac, object] {
            let (here, behind) = rest.split_at_mut_checked(part.len())?;
            here.copy_from_slice(part);
            rest = behind;
        }
        Some(handle)
    }

    /// The export and the backend's part of a handle this key signed.
    pub(crate) fn open<'a>(&self, handle: &'a [u8]) -> Result<(ExportId, &'a [u8]), Forged> {
        let (&version, rest) = handle.split_first().ok_or(Forged)?;
        let (export, rest) = rest.split_first_chunk::<EXPORT_BYTES>().ok_or(Forged)?;
        let (mac, object) = rest.split_first_chunk::<MAC_BYTES>().ok_or(Forged)?;
        let expected: [u8; MAC_BYTES] = self.mac(&[&[VERSION], export, object]);
        if version != VERSION || verify_slices_are_equal(mac, &expected).is_err() {
            return Err(Forged);
        }
        Ok((*export, object))
    }

    fn mac<const N: usize>(&self, parts: &[&[u8]]) -> [u8; N] {
        let mut context = Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        let tag = context.sign();
        let mut out = [0; N];
        out.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        out
    }
}

impl std::fmt::Debug for HandleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandleKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_opens_with_its_key_only_and_unchanged_only() {
        let (key, other) = (HandleKey::new(&[1; 32]), HandleKey::new(&[2; 32]));
        let export = key.export_id("docs");
        for len in 0..=vfs::MAX_HANDLE_BYTES {
            let object = vec![7; len];
            let handle = key.seal(&export, &object).unwrap();
            assert!(handle.len() <= MAX_HANDLE_BYTES);
            assert_eq!(key.open(&handle), Ok((export, &object[..])));
            assert_eq!(other.open(&handle), Err(Forged));
            for at in 0..handle.len() {
                let mut changed = handle.clone();
                changed[at] ^= 1;
                assert_eq!(key.open(&changed), Err(Forged), "byte {at}");
                assert_eq!(key.open(&handle[..at]), Err(Forged), "cut at {at}");
            }
        }
        assert_eq!(key.seal(&export, &[0; vfs::MAX_HANDLE_BYTES + 1]), None);
        assert_eq!(key.open(&[]), Err(Forged));
    }

    #[test]
    fn an_export_keeps_its_number() {
        let key = HandleKey::new(&[1; 32]);
        assert_eq!(key.export_id("docs"), HandleKey::new(&[1; 32]).export_id("docs"));
        assert_ne!(key.export_id("docs"), key.export_id("music"));
    }
}
