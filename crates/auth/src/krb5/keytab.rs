//! The keytab: the keys of the services this machine is, in MIT's file format, version 0x502. It is read from bytes that
//! the caller has from a file; keys of types that are not taken are passed over. It never shows a key.

use super::etype::{Etype, Key};
use super::messages::Principal;

/// What a file begins with.
const VERSION: [u8; 2] = [5, 2];
/// Keys of one file. A keytab has a handful for each service and version.
const MOST_KEYS: usize = 4096;

/// Why the bytes are no keytab of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKeytab {
    /// They begin otherwise.
    #[error("it is no keytab (version 0x502)")]
    NotAKeytab,
    /// They end within an entry, or an entry is not whole.
    #[error("it is damaged")]
    Damaged,
    /// There are too many keys.
    #[error("it has more than 4,096 keys")]
    TooLarge,
    /// No key is of a type that is taken.
    #[error("it has no key for AES")]
    NoUsableKey,
}

/// Keys of services.
#[derive(Debug, Default, Clone)]
pub struct Keytab {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    principal: Principal,
    version: u32,
    key: Key,
}

impl Keytab {
    /// Reads a file's bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadKeytab> {
        let mut rest = bytes.strip_prefix(&VERSION).ok_or(BadKeytab::NotAKeytab)?;
        let mut entries = Vec::new();
        while let Some((size, behind)) = rest.split_first_chunk() {
            let size = i32::from_be_bytes(*size);
            if size == 0 {
                break;
            }
            // What was taken out leaves a hole, with a negative size.
            let (entry, behind) = behind.split_at_checked(size.unsigned_abs() as usize).ok_or(BadKeytab::Damaged)?;
            rest = behind;
            if size > 0 {
                entries.extend(Cursor(entry).entry().ok_or(BadKeytab::Damaged)?);
            }
            if entries.len() > MOST_KEYS {
                return Err(BadKeytab::TooLarge);
            }
        }
        if entries.is_empty() { Err(BadKeytab::NoUsableKey) } else { Ok(Self { entries }) }
    }

    /// Adds a key.
    pub fn add(&mut self, principal: Principal, version: u32, key: Key) {
        self.entries.push(Entry { principal, version, key });
    }

    /// The principals of a service that have a key, as they are written.
    pub fn principals(&self, service: &str) -> Vec<String> {
        let mut names: Vec<_> = self.of_service(service).map(|entry| entry.principal.to_string()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Whether a realm is one in which the service has a key: its users are this machine's.
    pub fn is_own_realm(&self, service: &str, realm: &str) -> bool {
        self.of_service(service).any(|entry| *entry.principal.realm == *realm)
    }

    /// Whether the service has a key under this name.
    pub(super) fn knows(&self, principal: &Principal) -> bool {
        self.entries.iter().any(|entry| entry.principal == *principal)
    }

    /// The keys that may be meant, the one of that version first: a file's version may be of 8 bits, and a KDC may not
    /// say one.
    pub(super) fn keys(&self, principal: &Principal, etype: Etype, version: Option<u32>) -> impl Iterator<Item = &Key> {
        let fits = move |entry: &&Entry| entry.principal == *principal && entry.key.etype() == etype;
        let is_version = move |entry: &&Entry| version == Some(entry.version);
        let first = self.entries.iter().filter(fits).filter(is_version);
        let others = self.entries.iter().filter(fits).filter(move |entry| !is_version(entry));
        first.chain(others).map(|entry| &entry.key)
    }

    fn of_service(&self, service: &str) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.principal.is_service(service))
    }
}

/// Reads an entry.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// An entry: nothing of use when its key is of another type. `None` when it is not whole.
    fn entry(mut self) -> Option<Option<Entry>> {
        let count = self.u16()?;
        let realm = self.text()?;
        let parts = (0..count).map(|_| self.text()).collect::<Option<Vec<_>>>()?;
        // The name's type, and when the entry was made.
        self.bytes(8)?;
        let short_version = u32::from(*self.bytes(1)?.first()?);
        let etype = self.u16()?;
        let len = usize::from(self.u16()?);
        let bytes = self.bytes(len)?;
        let version = self.0.first_chunk().map_or(0, |version| u32::from_be_bytes(*version));
        let Some(etype) = Etype::from_number(i32::from(etype)) else { return Some(None) };
        let version = if version == 0 { short_version } else { version };
        let principal = Principal { parts: parts.into(), realm };
        Some(Some(Entry { principal, version, key: Key::new(etype, bytes)? }))
    }

    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*bytes))
    }

    fn text(&mut self) -> Option<Box<str>> {
        let len = usize::from(self.u16()?);
        std::str::from_utf8(self.bytes(len)?).ok().map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry by hand, from the description of the format.
    fn entry(version: Option<u32>, etype: u16, key: &[u8]) -> Vec<u8> {
        let mut out = vec![0, 2, 0, 4];
        out.extend(b"TEST");
        for part in [&b"nfs"[..], b"server"] {
            out.extend((part.len() as u16).to_be_bytes());
            out.extend(part);
        }
        out.extend([0, 0, 0, 1, 0x60, 0, 0, 0, 3]);
        out.extend(etype.to_be_bytes());
        out.extend((key.len() as u16).to_be_bytes());
        out.extend(key);
        out.extend(version.into_iter().flat_map(u32::to_be_bytes));
        [&(out.len() as i32).to_be_bytes()[..], &out].concat()
    }

    fn file(entries: &[Vec<u8>]) -> Vec<u8> {
        [&VERSION[..], &entries.concat()].concat()
    }

    #[test]
    fn a_file_by_hand() {
        let hole = [&(-5i32).to_be_bytes()[..], b"stale"].concat();
        let bytes = file(&[entry(None, 18, &[1; 32]), hole, entry(Some(300), 17, &[2; 16]), entry(None, 23, &[3; 16])]);
        let keytab = Keytab::parse(&bytes).unwrap();
        assert_eq!(keytab.principals("nfs"), ["nfs/server@TEST"]);
        assert!(keytab.principals("host").is_empty());
        assert!(keytab.is_own_realm("nfs", "TEST") && !keytab.is_own_realm("nfs", "OTHER"));
        let name = Principal::service("nfs", "server", "TEST");
        assert!(keytab.knows(&name) && !keytab.knows(&Principal::service("nfs", "other", "TEST")));
        let versions: Vec<u32> = keytab.entries.iter().map(|entry| entry.version).collect();
        assert_eq!(versions, [3, 300]);
        assert_eq!(keytab.keys(&name, Etype::Aes128Sha1, Some(300)).count(), 1);
        assert_eq!(keytab.keys(&name, Etype::Aes256Sha2, None).count(), 0);
        assert!(!format!("{keytab:?}").contains("1, 1, 1"));
    }

    #[test]
    fn the_key_of_the_version_comes_first() {
        let mut keytab = Keytab::default();
        let name = Principal::service("nfs", "server", "TEST");
        for version in 1..=3 {
            keytab.add(name.clone(), version, Key::new(Etype::Aes128Sha1, &[version as u8; 16]).unwrap());
        }
        let order = |version| keytab.keys(&name, Etype::Aes128Sha1, version).map(|k| k.bytes()[0]).collect::<Vec<_>>();
        assert_eq!(order(Some(2)), [2, 1, 3]);
        assert_eq!(order(None), [1, 2, 3]);
    }

    #[test]
    fn damage_is_found_and_no_length_is_believed() {
        assert_eq!(Keytab::parse(b"").unwrap_err(), BadKeytab::NotAKeytab);
        assert_eq!(Keytab::parse(&[5, 1, 0, 0]).unwrap_err(), BadKeytab::NotAKeytab);
        assert_eq!(Keytab::parse(&file(&[entry(None, 23, &[3; 16])])).unwrap_err(), BadKeytab::NoUsableKey);
        assert_eq!(Keytab::parse(&file(&[entry(None, 18, &[3; 16])])).unwrap_err(), BadKeytab::Damaged);
        let whole = file(&[entry(None, 18, &[1; 32])]);
        for end in 6..whole.len() {
            assert_eq!(Keytab::parse(&whole[..end]).unwrap_err(), BadKeytab::Damaged, "cut at {end}");
        }
        for at in 2..whole.len() {
            let mut changed = whole.clone();
            changed[at] = 0xff;
            let _ = Keytab::parse(&changed);
        }
        assert_eq!(Keytab::parse(&[5, 2, 0x80, 0, 0, 0]).unwrap_err(), BadKeytab::Damaged);
    }
}
