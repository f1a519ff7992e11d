//! The `security.NTACL` extended attribute: a security descriptor beside a file, as Samba's `acl_xattr` keeps it, so that a
//! share can change servers in place. Pure bytes; a server reads and writes the attribute itself.
//!
//! The form is NDR (Samba's `librpc/idl/xattr.idl`, `xattr_NTACL`): the version as 2 bytes and once more as the union's
//! discriminant, then pointers, then what the version has, then the descriptor. Its four offsets count from the start of
//! the attribute, not of the descriptor: they are converted here, so that callers see the self-relative form of MS-DTYP
//! 2.4.6. From version 4 on the attribute holds a digest of the POSIX permissions it was stored with ([`PosixAcl`]): where
//! they have been changed since, by chmod say, the descriptor no longer counts.

/// The attribute's name where the process may write it: as root.
pub const XATTR_NAME: &str = "security.NTACL";
/// The attribute's name where it may not. Samba does not know it.
pub const USER_XATTR_NAME: &str = "user.longshore.NTACL";

/// What the attribute says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NtAcl {
    /// The security descriptor, self-relative.
    pub descriptor: Vec<u8>,
    /// SHA-256 of [`PosixAcl::encode`] when it was stored, where it was noted.
    pub posix_digest: Option<[u8; 32]>,
}

/// Why bytes are no NTACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NtAclError {
    /// They end too soon.
    Truncated,
    /// A version nobody knows yet.
    UnknownVersion(u16),
    /// The version and the discriminant differ, or an offset leads outside the descriptor.
    Malformed,
}

/// What `description` is for a digest of [`PosixAcl`].
const POSIX: &[u8] = b"posix_acl";
/// XATTR_SD_HASH_TYPE_SHA256.
const SHA256: u16 = 1;
const HASH_BYTES: usize = 64;
/// Where the four offsets are in a descriptor.
const OFFSETS: std::ops::Range<usize> = 4..20;

impl NtAcl {
    /// Reads all versions there have been.
    pub fn decode(bytes: &[u8]) -> Result<Self, NtAclError> {
        let mut from = Ndr { bytes, at: 0 };
        let version = from.u16()?;
        if from.u16()? != version {
            return Err(NtAclError::Malformed);
        }
        from.skip(4)?; // the pointer to the version's structure, in version 1 to the descriptor
        let mut posix_digest = None;
        match version {
            1 => {}
            2 => from.skip(4 + 16)?,
            3 => from.skip(4 + 2 + HASH_BYTES)?,
            4 => {
                from.skip(4 + 2 + HASH_BYTES)?;
                let description = from.text()?;
                from.align(4);
                from.skip(8)?; // when it was stored
                let digest = from.take(HASH_BYTES)?;
                posix_digest = digest.first_chunk::<32>().copied().filter(|_| description == POSIX);
            }
            other => return Err(NtAclError::UnknownVersion(other)),
        }
        from.align(4);
        Ok(Self { descriptor: from.descriptor()?, posix_digest })
    }

    /// Writes version 4. `stored_at` is in 100 ns since 1601.
    pub fn encode(&self, stored_at: u64) -> Vec<u8> {
        let mut out = vec![4, 0, 4, 0];
        out.extend_from_slice(&0x2_0000u32.to_le_bytes());
        out.extend_from_slice(&0x2_0004u32.to_le_bytes());
        out.extend_from_slice(&SHA256.to_le_bytes());
        // The digest of what POSIX permissions look like as a descriptor to Samba: never looked at when the other one,
        // of the permissions themselves, is right.
        out.resize(out.len() + HASH_BYTES, 0);
        out.extend_from_slice(POSIX);
        out.push(0);
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(&stored_at.to_le_bytes());
        out.extend_from_slice(&self.posix_digest.unwrap_or_default());
        out.resize(out.len() + HASH_BYTES - 32, 0);
        let base = out.len();
        out.extend_from_slice(&self.descriptor);
        let fields = out.get_mut(base + OFFSETS.start..base + OFFSETS.end).unwrap_or_default();
        for field in fields.as_chunks_mut::<4>().0 {
            let offset = u32::from_le_bytes(*field);
            if offset != 0 {
                *field = offset.saturating_add(u32::try_from(base).unwrap_or_default()).to_le_bytes();
            }
        }
        out
    }
}

/// A POSIX access control list's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PosixEntry {
    /// Whose.
    pub tag: PosixTag,
    /// Permission bits: 0o7.
    pub perm: u8,
}

/// Whose rights an entry holds (acl(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PosixTag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

/// All POSIX permissions of an object, as Samba digests them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PosixAcl {
    /// Owning user.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Mode with the bits of the file type.
    pub mode: u32,
    /// The access list; a mode's three entries where there is no other.
    pub access: Vec<PosixEntry>,
    /// A directory's default list.
    pub default: Option<Vec<PosixEntry>>,
}

/// Version of the kernel's `system.posix_acl_access` (POSIX_ACL_XATTR_VERSION).
const KERNEL_VERSION: u32 = 2;

/// Reads `system.posix_acl_access` and `system.posix_acl_default`.
pub fn posix_entries(bytes: &[u8]) -> Option<Vec<PosixEntry>> {
    let (version, rest) = bytes.split_first_chunk::<4>()?;
    let (entries, []) = rest.as_chunks::<8>() else { return None };
    if u32::from_le_bytes(*version) != KERNEL_VERSION {
        return None;
    }
    let entry = |&[a, b, perm, _, c, d, e, f]: &[u8; 8]| {
        let id = u32::from_le_bytes([c, d, e, f]);
        let tag = match u16::from_le_bytes([a, b]) {
            0x01 => PosixTag::Owner,
            0x02 => PosixTag::User(id),
            0x04 => PosixTag::OwningGroup,
            0x08 => PosixTag::Group(id),
            0x10 => PosixTag::Mask,
            0x20 => PosixTag::Other,
            _ => return None,
        };
        Some(PosixEntry { tag, perm: perm & 7 })
    };
    entries.iter().map(entry).collect()
}

/// The form that [`posix_entries`] reads, for entries in the order the kernel wants: owner, users, owning group, groups,
/// mask, others, and within a kind by number.
pub fn posix_bytes(entries: &[PosixEntry]) -> Vec<u8> {
    let mut out = KERNEL_VERSION.to_le_bytes().to_vec();
    for entry in entries {
        let (tag, id) = match entry.tag {
            PosixTag::Owner => (0x01u16, u32::MAX),
            PosixTag::User(id) => (0x02, id),
            PosixTag::OwningGroup => (0x04, u32::MAX),
            PosixTag::Group(id) => (0x08, id),
            PosixTag::Mask => (0x10, u32::MAX),
            PosixTag::Other => (0x20, u32::MAX),
        };
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&u16::from(entry.perm & 7).to_le_bytes());
        out.extend_from_slice(&id.to_le_bytes());
    }
    out
}

/// The three entries a mode stands for.
pub fn mode_entries(mode: u32) -> Vec<PosixEntry> {
    let entry = |tag, shift: u32| PosixEntry { tag, perm: (mode >> shift) as u8 & 7 };
    vec![entry(PosixTag::Owner, 6), entry(PosixTag::OwningGroup, 3), entry(PosixTag::Other, 0)]
}

impl PosixAcl {
    /// What Samba digests (`librpc/idl/smb_acl.idl`, `smb_acl_wrapper`, in NDR).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&0x2_0000u32.to_le_bytes());
        out.extend_from_slice(&(if self.default.is_some() { 0x2_0004u32 } else { 0 }).to_le_bytes());
        out.extend_from_slice(&u64::from(self.uid).to_le_bytes());
        out.extend_from_slice(&u64::from(self.gid).to_le_bytes());
        out.extend_from_slice(&self.mode.to_le_bytes());
        put_entries(&self.access, &mut out);
        if let Some(default) = &self.default {
            put_entries(default, &mut out);
        }
        out
    }
}

fn put_entries(entries: &[PosixEntry], out: &mut Vec<u8>) {
    let count = u32::try_from(entries.len()).unwrap_or_default();
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(&count.to_le_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes()); // next
    for entry in entries {
        let (tag, id) = match entry.tag {
            PosixTag::User(uid) => (1u16, Some(uid)),
            PosixTag::Owner => (2, None),
            PosixTag::Group(gid) => (3, Some(gid)),
            PosixTag::OwningGroup => (4, None),
            PosixTag::Other => (5, None),
            PosixTag::Mask => (6, None),
        };
        out.resize(out.len().next_multiple_of(8), 0);
        out.extend_from_slice(&tag.to_le_bytes());
        out.extend_from_slice(&tag.to_le_bytes());
        if let Some(id) = id {
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend_from_slice(&u64::from(id).to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend_from_slice(&u32::from(entry.perm).to_le_bytes());
    }
}

/// A cursor with NDR's alignment from the first byte.
struct Ndr<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Ndr<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], NtAclError> {
        let end = self.at.checked_add(n).ok_or(NtAclError::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(NtAclError::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    fn skip(&mut self, n: usize) -> Result<(), NtAclError> {
        self.take(n).map(drop)
    }

    fn u16(&mut self) -> Result<u16, NtAclError> {
        let bytes = self.take(2)?;
        bytes.first_chunk().map(|b| u16::from_le_bytes(*b)).ok_or(NtAclError::Truncated)
    }

    fn align(&mut self, n: usize) {
        self.at = self.at.next_multiple_of(n);
    }

    /// Bytes up to a zero, which is passed over.
    fn text(&mut self) -> Result<&'a [u8], NtAclError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&b| b == 0).ok_or(NtAclError::Truncated)?;
        let text = self.take(len)?;
        self.skip(1)?;
        Ok(text)
    }

    /// The descriptor from here on, its offsets counted from its own start.
    fn descriptor(&mut self) -> Result<Vec<u8>, NtAclError> {
        let base = u32::try_from(self.at).map_err(|_| NtAclError::Malformed)?;
        let mut out = self.bytes.get(self.at..).ok_or(NtAclError::Truncated)?.to_vec();
        let fields = out.get_mut(OFFSETS).ok_or(NtAclError::Truncated)?;
        for field in fields.as_chunks_mut::<4>().0 {
            *field = match u32::from_le_bytes(*field) {
                0 => [0; 4],
                offset => offset.checked_sub(base).ok_or(NtAclError::Malformed)?.to_le_bytes(),
            };
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As smbd 4.25 stores it: version 4 with the digests, and version 3 where the share ignores POSIX permissions.
    const VERSION_4: &str = "0400040000000200040002000100fcde126d6f5c1f692b2c0176d2aa10898c486466f12ba765a0ef3f75b765bd26\
        0000000000000000000000000000000000000000000000000000000000000000706f7369785f61636c000000000000000000\
        fa3cc4aca5eecdf402a8dd943e568dbf4a6330177a210b62c1fac426393c8bec\
        000000000000000000000000000000000000000000000000000000000000000001000480b4000000d000000000000000ec000000\
        010500000000000515000000bef7d28f2a606edc5ac08aeae8030000010500000000000515000000bef7d28f2a606edc5ac08aea01020000\
        020064000300000000002400ff011f00010500000000000515000000bef7d28f2a606edc5ac08aeae803000000002400a900120001050000\
        0000000515000000bef7d28f2a606edc5ac08aea0102000000001400a9001200010100000000000100000000";
    const VERSION_3: &str = "0300030000000200040002000100000000000000000000000000000000000000000000000000000000000000000000\
        0000000000000000000000000000000000000000000000000000000000000000000100048064000000800000000000000090000000\
        010500000000000515000000bef7d28f2a606edc5ac08aeae8030000010200000000001602000000e803000002001c0001000000\
        0000140089001f00010100000000000300000000";
    /// `system.posix_acl_access` of the first file: owner, user 1000, group, group 1000, mask, others.
    const ACCESS: &str = "0200000001000700ffffffff02000700e803000004000500ffffffff08000500e803000010000700ffffffff\
        20000500ffffffff";

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    fn offsets(descriptor: &[u8]) -> Vec<u32> {
        descriptor[OFFSETS].as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect()
    }

    #[test]
    fn what_samba_stored_is_read() {
        let four = NtAcl::decode(&hex(VERSION_4)).unwrap();
        assert_eq!(offsets(&four.descriptor), [20, 48, 0, 76]);
        assert_eq!(four.descriptor.len(), 176);
        assert_eq!(four.posix_digest.unwrap()[..4], [0xfa, 0x3c, 0xc4, 0xac]);
        let three = NtAcl::decode(&hex(VERSION_3)).unwrap();
        assert_eq!((offsets(&three.descriptor), three.posix_digest), (vec![20, 48, 0, 64], None));
    }

    #[test]
    fn older_versions_are_read() {
        let (sd, base) = (hex("010000801c0000000000000000000000000000000101000000000001"), 8);
        let mut sd = sd;
        sd.extend_from_slice(&[0; 4]);
        let mut one = hex("0100010000000200");
        one.extend_from_slice(&sd);
        assert_eq!(offsets(&NtAcl::decode(&one).unwrap().descriptor), [0x1c - base, 0, 0, 0]);
        let mut two = hex("02000200000002000400020000112233445566778899aabbccddeeff");
        sd[4] = 28 + 20;
        two.extend_from_slice(&sd);
        assert_eq!(offsets(&NtAcl::decode(&two).unwrap().descriptor), [20, 0, 0, 0]);
    }

    #[test]
    fn what_is_written_is_laid_out_as_sambas() {
        let samba = hex(VERSION_4);
        let mut ours = NtAcl::decode(&samba).unwrap().encode(0);
        assert_eq!(NtAcl::decode(&ours), NtAcl::decode(&samba));
        ours[14..46].copy_from_slice(&samba[14..46]); // the digest that is left out
        assert_eq!(ours, samba);
    }

    #[test]
    fn what_is_cut_or_odd_is_an_error() {
        let bytes = hex(VERSION_4);
        for len in 0..180 {
            assert_eq!(NtAcl::decode(&bytes[..len]), Err(NtAclError::Truncated), "{len}");
        }
        assert_eq!(NtAcl::decode(&[9, 0, 9, 0, 0, 0, 0, 0]), Err(NtAclError::UnknownVersion(9)));
        assert_eq!(NtAcl::decode(&[4, 0, 3, 0, 0, 0, 0, 0]), Err(NtAclError::Malformed));
        let mut bad = bytes;
        bad[164] = 1; // an offset before the descriptor
        assert_eq!(NtAcl::decode(&bad), Err(NtAclError::Malformed));
    }

    #[test]
    fn permissions_are_digested_as_samba_does() {
        // The bytes whose SHA-256 is the digest in VERSION_4.
        let digested = "0000020000000000e803000000000000e803000000000000fd8100000600000006000000000000000200020007000000\
            0100010000000000e80300000000000007000000000000000400040005000000\
            0300030000000000e80300000000000005000000000000000600060007000000\
            0500050005000000";
        let access = posix_entries(&hex(ACCESS)).unwrap();
        let acl = PosixAcl { uid: 1000, gid: 1000, mode: 0o100775, access, default: None };
        assert_eq!(acl.encode(), hex(digested));
        let others = PosixEntry { tag: PosixTag::Other, perm: 5 };
        assert_eq!(mode_entries(0o2775)[2], others);
        assert_eq!(posix_entries(&hex(ACCESS)[..11]), None);
        assert_eq!(posix_bytes(&acl.access), hex(ACCESS));
    }
}
