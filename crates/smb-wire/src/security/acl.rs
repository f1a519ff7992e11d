//! Access control lists and their entries (MS-DTYP 2.4.4, 2.4.5). An entry of a kind nobody here evaluates is kept as the
//! bytes it came as, so that what a client set is what it reads.

use bitflags::bitflags;

use super::{BadDescriptor, Sid};
use crate::codec::{Put, Reader};
use crate::fscc::AccessMask;

/// AceType (2.4.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AceKind(pub u8);

impl AceKind {
    /// Grants.
    pub const ALLOWED: Self = Self(0);
    /// Refuses.
    pub const DENIED: Self = Self(1);
    /// Logs; in SACLs.
    pub const AUDIT: Self = Self(2);
    /// Grants under a condition.
    pub const ALLOWED_CALLBACK: Self = Self(9);
    /// Refuses under a condition.
    pub const DENIED_CALLBACK: Self = Self(0xa);

    /// Whether a mask and a SID follow the header, and after them whatever the kind adds: 0 to 3, the callback kinds
    /// without object types, and the label, attribute and policy kinds.
    const fn has_sid(self) -> bool {
        matches!(self.0, 0..=3 | 9 | 0xa | 0xd | 0xe | 0x11..=0x13)
    }

    /// Whether ACLs that hold this kind are of revision 4 (2.4.5).
    const fn names_objects(self) -> bool {
        matches!(self.0, 5..=8 | 0xb | 0xc | 0xf | 0x10)
    }
}

bitflags! {
    /// AceFlags (2.4.4.1).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AceFlags: u8 {
        /// Files inherit it.
        const OBJECT_INHERIT = 0x01;
        /// Directories inherit it.
        const CONTAINER_INHERIT = 0x02;
        /// Those who inherit it do not pass it on.
        const NO_PROPAGATE = 0x04;
        /// It is there to be inherited and says nothing of the object itself.
        const INHERIT_ONLY = 0x08;
        /// It was inherited.
        const INHERITED = 0x10;
        /// Unknown bits are kept.
        const _ = !0;
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ace {
    /// Its kind.
    pub kind: AceKind,
    /// Its flags.
    pub flags: AceFlags,
    /// What it says.
    pub body: AceBody,
}

/// What an entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AceBody {
    /// Rights and whose.
    Access {
        /// Which rights.
        mask: AccessMask,
        /// Whose.
        sid: Sid,
        /// What follows: a condition, an attribute; or nothing.
        data: Vec<u8>,
    },
    /// All after the header, of a kind that is only kept.
    Opaque(Vec<u8>),
}

const HEADER_BYTES: usize = 4;
const ACL_HEADER_BYTES: usize = 8;

impl Ace {
    /// An entry that grants `mask` to `sid`.
    pub fn allow(sid: Sid, mask: AccessMask, flags: AceFlags) -> Self {
        Self { kind: AceKind::ALLOWED, flags, body: AceBody::Access { mask, sid, data: Vec::new() } }
    }

    /// An entry that refuses `mask` to `sid`.
    pub fn deny(sid: Sid, mask: AccessMask, flags: AceFlags) -> Self {
        Self { kind: AceKind::DENIED, ..Self::allow(sid, mask, flags) }
    }

    fn decode(kind: AceKind, flags: AceFlags, bytes: &[u8]) -> Result<Self, BadDescriptor> {
        if !kind.has_sid() {
            return Ok(Self { kind, flags, body: AceBody::Opaque(bytes.to_vec()) });
        }
        let mut from = Reader::new(bytes);
        let mask = AccessMask::from_bits_retain(from.u32()?);
        let rest = from.rest();
        let sid = Sid::decode(rest).ok_or(BadDescriptor)?;
        let data = rest.get(sid.len_bytes()..).unwrap_or_default();
        // Padding after the SID of a plain entry says nothing.
        let data = if kind.0 <= 3 { Vec::new() } else { data.to_vec() };
        Ok(Self { kind, flags, body: AceBody::Access { mask, sid, data } })
    }

    fn len_bytes(&self) -> usize {
        let body = match &self.body {
            AceBody::Access { sid, data, .. } => 4 + sid.len_bytes() + data.len(),
            AceBody::Opaque(bytes) => bytes.len(),
        };
        (HEADER_BYTES + body).next_multiple_of(4)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.len_bytes();
        out.put_u8(self.kind.0);
        out.put_u8(self.flags.bits());
        out.put_u16(u16::try_from(self.len_bytes()).unwrap_or(u16::MAX));
        match &self.body {
            AceBody::Access { mask, sid, data } => {
                out.put_u32(mask.bits());
                out.put_bytes(&sid.encode());
                out.put_bytes(data);
            }
            AceBody::Opaque(bytes) => out.put_bytes(bytes),
        }
        out.put_zeros(end - out.len());
    }
}

/// A list: a DACL or a SACL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acl {
    /// Its entries, in the order in which they count.
    pub aces: Vec<Ace>,
}

impl Acl {
    /// Reads the list at the start of `bytes`; what follows it is ignored.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadDescriptor> {
        let mut from = Reader::new(bytes);
        let revision = from.u8()?;
        from.skip(1)?;
        let (size, count) = (usize::from(from.u16()?), from.u16()?);
        from.skip(2)?;
        if !(2..=4).contains(&revision) {
            return Err(BadDescriptor);
        }
        let mut from = Reader::new(bytes.get(ACL_HEADER_BYTES..size).ok_or(BadDescriptor)?);
        // An entry takes at least its header: a count that lies makes no room.
        let mut aces = Vec::with_capacity(usize::from(count).min(size / HEADER_BYTES));
        for _ in 0..count {
            let (kind, flags) = (AceKind(from.u8()?), AceFlags::from_bits_retain(from.u8()?));
            let body = usize::from(from.u16()?).checked_sub(HEADER_BYTES).ok_or(BadDescriptor)?;
            aces.push(Ace::decode(kind, flags, from.bytes(body)?)?);
        }
        Ok(Self { aces })
    }

    /// Length of the binary form in bytes; a list longer than 65535 bytes has none.
    pub fn len_bytes(&self) -> usize {
        ACL_HEADER_BYTES + self.aces.iter().map(Ace::len_bytes).sum::<usize>()
    }

    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(if self.aces.iter().any(|ace| ace.kind.names_objects()) { 4 } else { 2 });
        out.put_u8(0);
        out.put_u16(u16::try_from(self.len_bytes()).unwrap_or(u16::MAX));
        out.put_u16(u16::try_from(self.aces.len()).unwrap_or(u16::MAX));
        out.put_u16(0);
        self.aces.iter().for_each(|ace| ace.encode(out));
    }

    /// Replaces generic rights by the specific ones of files, as it is done to entries that are in effect (2.5.3.4.3);
    /// those that are only there to be inherited keep theirs.
    pub fn map_generic(&mut self) {
        for ace in &mut self.aces {
            if let AceBody::Access { mask, .. } = &mut ace.body
                && !ace.flags.contains(AceFlags::INHERIT_ONLY)
            {
                *mask = mask.map_generic();
            }
        }
    }
}
