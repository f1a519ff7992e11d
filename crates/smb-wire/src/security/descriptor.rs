//! Self-relative security descriptors (MS-DTYP 2.4.6).

use bitflags::bitflags;

use super::{Acl, Sid};
use crate::codec::{Put, Reader, Truncated};

/// The bytes are no security descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadDescriptor;

impl std::fmt::Display for BadDescriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a security descriptor")
    }
}

impl std::error::Error for BadDescriptor {}

impl From<Truncated> for BadDescriptor {
    fn from(_: Truncated) -> Self {
        Self
    }
}

bitflags! {
    /// Control (2.4.6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Control: u16 {
        /// There is a DACL; where it is null, everybody may everything.
        const DACL_PRESENT = 0x0004;
        /// There is a SACL.
        const SACL_PRESENT = 0x0010;
        /// In a SET: the DACL was made by inheritance.
        const DACL_AUTO_INHERIT_REQ = 0x0100;
        /// In a SET: the SACL was made by inheritance.
        const SACL_AUTO_INHERIT_REQ = 0x0200;
        /// The DACL was made by inheritance.
        const DACL_AUTO_INHERITED = 0x0400;
        /// The SACL was made by inheritance.
        const SACL_AUTO_INHERITED = 0x0800;
        /// The DACL inherits nothing.
        const DACL_PROTECTED = 0x1000;
        /// The SACL inherits nothing.
        const SACL_PROTECTED = 0x2000;
        /// Offsets, not pointers.
        const SELF_RELATIVE = 0x8000;
        /// Unknown bits are kept.
        const _ = !0;
    }

    /// Which parts of a descriptor a QUERY or SET means (SECURITY_INFORMATION, MS-DTYP 2.4.7).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct SecurityInfo: u32 {
        /// The owner.
        const OWNER = 0x1;
        /// The primary group.
        const GROUP = 0x2;
        /// The DACL.
        const DACL = 0x4;
        /// The SACL.
        const SACL = 0x8;
        /// The integrity label, an entry of the SACL.
        const LABEL = 0x10;
        /// Resource attributes, entries of the SACL.
        const ATTRIBUTE = 0x20;
        /// Central policy, an entry of the SACL.
        const SCOPE = 0x40;
        /// Everything, for a backup.
        const BACKUP = 0x1_0000;
        /// The SACL inherits again.
        const UNPROTECTED_SACL = 0x1000_0000;
        /// The DACL inherits again.
        const UNPROTECTED_DACL = 0x2000_0000;
        /// The SACL inherits no more.
        const PROTECTED_SACL = 0x4000_0000;
        /// The DACL inherits no more.
        const PROTECTED_DACL = 0x8000_0000;
        /// Unknown bits are kept.
        const _ = !0;
    }
}

/// A security descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecurityDescriptor {
    /// Its control bits. What says that a list is there follows from `dacl` and `sacl` when it is written, but for a
    /// null list: there the bit alone tells.
    pub control: Control,
    /// The owner.
    pub owner: Option<Sid>,
    /// The primary group.
    pub group: Option<Sid>,
    /// What is logged.
    pub sacl: Option<Acl>,
    /// Who may.
    pub dacl: Option<Acl>,
}

const HEADER_BYTES: usize = 20;

impl SecurityDescriptor {
    /// Reads a self-relative descriptor.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadDescriptor> {
        let mut from = Reader::new(bytes);
        let revision = from.u8()?;
        from.skip(1)?;
        let control = Control::from_bits_retain(from.u16()?);
        let (owner, group, sacl, dacl) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
        if revision != 1 || !control.contains(Control::SELF_RELATIVE) {
            return Err(BadDescriptor);
        }
        let part = |at: u32| match at as usize {
            0 => Ok(None),
            at if at < HEADER_BYTES => Err(BadDescriptor),
            at => bytes.get(at..).ok_or(BadDescriptor).map(Some),
        };
        let sid = |at: u32| part(at)?.map(|bytes| Sid::decode(bytes).ok_or(BadDescriptor)).transpose();
        let acl = |at: u32, present: Control| match part(at)? {
            Some(bytes) if control.contains(present) => Acl::decode(bytes).map(Some),
            _ => Ok(None),
        };
        Ok(Self {
            control,
            owner: sid(owner)?,
            group: sid(group)?,
            sacl: acl(sacl, Control::SACL_PRESENT)?,
            dacl: acl(dacl, Control::DACL_PRESENT)?,
        })
    }

    /// The self-relative form.
    pub fn encode(&self) -> Vec<u8> {
        let mut control = self.control | Control::SELF_RELATIVE;
        control.set(Control::DACL_PRESENT, self.dacl.is_some() || self.control.contains(Control::DACL_PRESENT));
        control.set(Control::SACL_PRESENT, self.sacl.is_some() || self.control.contains(Control::SACL_PRESENT));
        let mut out = vec![1, 0];
        out.put_u16(control.bits());
        out.put_zeros(HEADER_BYTES - 4);
        let sids = [(4, &self.owner), (8, &self.group)];
        for (field, sid) in sids {
            if let Some(sid) = sid {
                place(&mut out, field, |out| out.put_bytes(&sid.encode()));
            }
        }
        for (field, acl) in [(12, &self.sacl), (16, &self.dacl)] {
            if let Some(acl) = acl {
                place(&mut out, field, |out| acl.encode(out));
            }
        }
        out
    }

    /// Whether both lists can be written at all: a list has at most 65535 bytes.
    pub fn fits(&self) -> bool {
        let fits = |acl: &Option<Acl>| acl.as_ref().is_none_or(|acl| acl.len_bytes() <= usize::from(u16::MAX));
        fits(&self.dacl) && fits(&self.sacl)
    }

    /// The parts named by `info`, and the control bits that belong to them.
    pub fn part(&self, info: SecurityInfo) -> Self {
        let mut control = Control::empty();
        let (dacl, sacl) = (info.contains(SecurityInfo::DACL), info.contains(SecurityInfo::SACL));
        if dacl {
            let bits = Control::DACL_PRESENT | Control::DACL_AUTO_INHERITED | Control::DACL_PROTECTED;
            control |= self.control & bits;
        }
        if sacl {
            let bits = Control::SACL_PRESENT | Control::SACL_AUTO_INHERITED | Control::SACL_PROTECTED;
            control |= self.control & bits;
        }
        Self {
            control,
            owner: self.owner.clone().filter(|_| info.contains(SecurityInfo::OWNER)),
            group: self.group.clone().filter(|_| info.contains(SecurityInfo::GROUP)),
            sacl: self.sacl.clone().filter(|_| sacl),
            dacl: self.dacl.clone().filter(|_| dacl),
        }
    }

    /// Takes over the parts of `new` that `info` names. "Auto-inherited" stays only when asked for along with the list
    /// (MS-DTYP 2.5.3.4.2: the REQ bit), and a generic right becomes what it stands for.
    pub fn change(&mut self, new: &Self, info: SecurityInfo) {
        if info.contains(SecurityInfo::OWNER) {
            self.owner.clone_from(&new.owner);
        }
        if info.contains(SecurityInfo::GROUP) {
            self.group.clone_from(&new.group);
        }
        if info.contains(SecurityInfo::DACL) {
            self.dacl.clone_from(&new.dacl);
            if let Some(dacl) = &mut self.dacl {
                dacl.map_generic();
            }
            let inherited = new.control.contains(Control::DACL_AUTO_INHERITED | Control::DACL_AUTO_INHERIT_REQ);
            let protected =
                new.control.contains(Control::DACL_PROTECTED) || info.contains(SecurityInfo::PROTECTED_DACL);
            self.control.insert(Control::DACL_PRESENT);
            self.control.set(Control::DACL_AUTO_INHERITED, inherited);
            self.control.set(Control::DACL_PROTECTED, protected && !info.contains(SecurityInfo::UNPROTECTED_DACL));
        }
        if info.contains(SecurityInfo::SACL) {
            self.sacl.clone_from(&new.sacl);
            if let Some(sacl) = &mut self.sacl {
                sacl.map_generic();
            }
            let inherited = new.control.contains(Control::SACL_AUTO_INHERITED | Control::SACL_AUTO_INHERIT_REQ);
            let protected =
                new.control.contains(Control::SACL_PROTECTED) || info.contains(SecurityInfo::PROTECTED_SACL);
            self.control.set(Control::SACL_PRESENT, new.control.contains(Control::SACL_PRESENT));
            self.control.set(Control::SACL_AUTO_INHERITED, inherited);
            self.control.set(Control::SACL_PROTECTED, protected && !info.contains(SecurityInfo::UNPROTECTED_SACL));
        }
    }
}

fn place(out: &mut Vec<u8>, field: usize, put: impl FnOnce(&mut Vec<u8>)) {
    let at = u32::try_from(out.len()).unwrap_or(0);
    out.patch_u32(field, at);
    put(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::AccessMask;
    use crate::security::{Ace, AceBody, AceFlags, AceKind};

    /// As smbd 4.25 stores it for a new file: owner and group of its own domain, three entries.
    const BY_SAMBA: &str = "010004801400000030000000000000004c000000010500000000000515000000bef7d28f2a606edc5ac08aeae803000001\
        0500000000000515000000bef7d28f2a606edc5ac08aea01020000020064000300000000002400ff011f000105000000000005150000\
        00bef7d28f2a606edc5ac08aeae803000000002400a9001200010500000000000515000000bef7d28f2a606edc5ac08aea0102000000\
        001400a9001200010100000000000100000000";

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    #[test]
    fn what_another_server_wrote_is_read_and_written_alike() {
        let bytes = hex(BY_SAMBA);
        let sd = SecurityDescriptor::decode(&bytes).unwrap();
        assert_eq!(sd.owner.as_ref().unwrap().to_string(), "S-1-5-21-2412967870-3698221098-3934961754-1000");
        let dacl = sd.dacl.as_ref().unwrap();
        assert_eq!(dacl.aces.len(), 3);
        let everyone = Ace::allow(Sid::everyone(), AccessMask::from_bits_retain(0x12_00a9), AceFlags::empty());
        assert_eq!(dacl.aces[2], everyone);
        assert_eq!(sd.encode(), bytes);
    }

    #[test]
    fn no_cut_and_no_changed_byte_brings_it_down() {
        let bytes = hex(BY_SAMBA);
        for len in 0..bytes.len() {
            assert_eq!(SecurityDescriptor::decode(&bytes[..len]), Err(BadDescriptor), "{len}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = bytes.clone();
                bad[at] = value;
                if let Ok(sd) = SecurityDescriptor::decode(&bad) {
                    let _ = SecurityDescriptor::decode(&sd.encode());
                }
            }
        }
    }

    #[test]
    fn entries_of_other_kinds_are_kept_as_they_are() {
        let object = Ace { kind: AceKind(5), flags: AceFlags::empty(), body: AceBody::Opaque(vec![7; 40]) };
        let condition = Ace {
            kind: AceKind::ALLOWED_CALLBACK,
            flags: AceFlags::INHERITED,
            body: AceBody::Access { mask: AccessMask::GENERIC_ALL, sid: Sid::everyone(), data: b"artx".to_vec() },
        };
        let dacl = Acl { aces: vec![object, condition] };
        let sd = SecurityDescriptor { dacl: Some(dacl), ..SecurityDescriptor::default() };
        let again = SecurityDescriptor::decode(&sd.encode()).unwrap();
        assert_eq!(again.dacl, sd.dacl);
        assert_eq!(sd.encode()[20], 4, "object entries make a list of revision 4");
    }

    #[test]
    fn a_null_dacl_is_no_missing_one() {
        let null = SecurityDescriptor { control: Control::DACL_PRESENT, ..SecurityDescriptor::default() };
        let again = SecurityDescriptor::decode(&null.encode()).unwrap();
        assert!(again.control.contains(Control::DACL_PRESENT) && again.dacl.is_none());
    }

    #[test]
    fn only_what_is_named_changes_and_auto_inherited_must_be_asked_for() {
        let mut sd = SecurityDescriptor { owner: Some(Sid::unix_user(1)), ..SecurityDescriptor::default() };
        let ace = Ace::allow(Sid::everyone(), AccessMask::GENERIC_READ, AceFlags::empty());
        let new = SecurityDescriptor {
            control: Control::DACL_AUTO_INHERITED | Control::DACL_PROTECTED,
            owner: Some(Sid::unix_user(2)),
            dacl: Some(Acl { aces: vec![ace] }),
            ..SecurityDescriptor::default()
        };
        sd.change(&new, SecurityInfo::DACL);
        assert_eq!(sd.owner, Some(Sid::unix_user(1)));
        assert_eq!(sd.control, Control::DACL_PRESENT | Control::DACL_PROTECTED);
        let mapped = Ace::allow(Sid::everyone(), AccessMask::FILE_MAPPING.read, AceFlags::empty());
        assert_eq!(sd.dacl.as_ref().unwrap().aces, [mapped]);
        sd.change(&new, SecurityInfo::OWNER);
        assert_eq!(sd.owner, Some(Sid::unix_user(2)));
    }
}
