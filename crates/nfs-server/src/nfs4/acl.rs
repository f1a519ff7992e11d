//! Access control lists of NFSv4 over the POSIX ones that file systems of Linux keep (RFC 8881 6). What a POSIX list
//! says is shown exactly; of what a client sets, each entry becomes the POSIX right it implies, never more.
//!
//! A POSIX list has one entry that counts for a user, an NFSv4 one adds entries up: each entry that allows is therefore
//! followed by one that denies the rest, where somebody behind it would be given that.

use nfs_wire::nfs4::NfsStat4;
use nfs_wire::nfs4::attr::{Ace, AceFlags, AceMask, AceType};
use vfs::ntacl::{PosixEntry, PosixTag, mode_entries, posix_bytes, posix_entries};
use vfs::{Attr, Cred, FileKind, Node, SetAttr, VfsError};

use super::failure::Done;
use crate::groups::IdKind;

/// The most entries of a list that is taken: more than an extended attribute of a block holds.
pub const MAX_ENTRIES: usize = 512;

pub const ACCESS_KEY: &str = "system.posix_acl_access";
pub const DEFAULT_KEY: &str = "system.posix_acl_default";
pub const MAX_XATTR_BYTES: usize = 64 << 10;

const READ: u8 = 4;
const WRITE: u8 = 2;
const EXECUTE: u8 = 1;
const ALL: u8 = 7;

/// What nobody can be denied who gets at the file at all.
const ALWAYS: AceMask = AceMask::READ_ATTRIBUTES.union(AceMask::READ_ACL).union(AceMask::SYNCHRONIZE);
/// What a file's owner may besides.
const OWNERS: AceMask = AceMask::WRITE_ATTRIBUTES.union(AceMask::WRITE_ACL);
const INHERIT: AceFlags = AceFlags::FILE_INHERIT.union(AceFlags::DIRECTORY_INHERIT);

/// For whom an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    Owner,
    Group,
    Everyone,
    User(u32),
    NamedGroup(u32),
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    ace_type: AceType,
    flags: AceFlags,
    mask: AceMask,
    who: Who,
    text: Vec<u8>,
}

impl Entry {
    fn new(ace_type: AceType, flags: AceFlags, mask: AceMask, who: Who) -> Self {
        let text = match who {
            Who::Owner => b"OWNER@".to_vec(),
            Who::Group => b"GROUP@".to_vec(),
            Who::Everyone => b"EVERYONE@".to_vec(),
            Who::User(id) | Who::NamedGroup(id) => id.to_string().into_bytes(),
        };
        let group = matches!(who, Who::Group | Who::NamedGroup(_));
        let flags = if group { flags | AceFlags::IDENTIFIER_GROUP } else { flags };
        Self { ace_type, flags, mask, who, text }
    }

    /// An entry as it came, its user or group by `id_of`; ATTRNOTSUPP for what is not kept (RFC 8881 6.2.1).
    pub fn of(ace: &Ace<'_>, id_of: &dyn Fn(IdKind, &[u8]) -> Done<u32>) -> Done<Self> {
        let kept = matches!(ace.ace_type, AceType::Allow | AceType::Deny);
        if !kept || ace.flags.contains(AceFlags::NO_PROPAGATE_INHERIT) {
            return Err(NfsStat4::ATTRNOTSUPP.into());
        }
        let who = match ace.who {
            b"OWNER@" => Who::Owner,
            b"GROUP@" => Who::Group,
            b"EVERYONE@" => Who::Everyone,
            name if ace.flags.contains(AceFlags::IDENTIFIER_GROUP) => Who::NamedGroup(id_of(IdKind::Group, name)?),
            name => Who::User(id_of(IdKind::User, name)?),
        };
        Ok(Self::new(ace.ace_type, ace.flags, ace.mask, who))
    }

    /// The user or group it is for, where that has a number.
    pub fn id(&self) -> Option<(IdKind, u32)> {
        match self.who {
            Who::User(id) => Some((IdKind::User, id)),
            Who::NamedGroup(id) => Some((IdKind::Group, id)),
            Who::Owner | Who::Group | Who::Everyone => None,
        }
    }

    /// Calls whom it is for by a name, instead of the number.
    pub fn call(&mut self, name: String) {
        self.text = name.into_bytes();
    }

    /// As it travels.
    pub fn wire(&self) -> Ace<'_> {
        Ace { ace_type: self.ace_type, flags: self.flags, mask: self.mask, who: &self.text }
    }
}

/// The list of an object.
pub fn of(node: &dyn Node, attr: &Attr) -> Vec<Entry> {
    let stored = |key| node.xattr(key, MAX_XATTR_BYTES).ok().and_then(|bytes| posix_entries(&bytes));
    let directory = attr.kind == FileKind::Directory;
    let access = stored(ACCESS_KEY).unwrap_or_else(|| mode_entries(attr.mode));
    let mut whole = shown(&access, AceFlags::empty(), directory);
    if directory && let Some(default) = stored(DEFAULT_KEY) {
        whole.extend(shown(&default, INHERIT | AceFlags::INHERIT_ONLY, directory));
    }
    whole
}

/// A POSIX list as entries.
fn shown(posix: &[PosixEntry], flags: AceFlags, directory: bool) -> Vec<Entry> {
    let mask = posix.iter().find(|entry| entry.tag == PosixTag::Mask).map_or(ALL, |entry| entry.perm);
    let (mut users, mut groups, mut other) = (Vec::new(), Vec::new(), 0);
    for entry in posix {
        match entry.tag {
            PosixTag::Owner => users.insert(0, (Who::Owner, entry.perm)),
            PosixTag::User(id) => users.push((Who::User(id), entry.perm & mask)),
            PosixTag::OwningGroup => groups.insert(0, (Who::Group, entry.perm & mask)),
            PosixTag::Group(id) => groups.push((Who::NamedGroup(id), entry.perm & mask)),
            PosixTag::Other => other = entry.perm,
            PosixTag::Mask => {}
        }
    }
    let mut whole = Vec::new();
    let behind = groups.iter().fold(other, |all, (_, perm)| all | perm);
    let mut later: Vec<u8> =
        users.iter().rev().scan(behind, |all, (_, perm)| Some(std::mem::replace(all, *all | perm))).collect();
    for (who, perm) in users {
        let extra = if who == Who::Owner { ALWAYS | OWNERS } else { ALWAYS };
        let denied = !perm & later.pop().unwrap_or(ALL);
        whole.push(Entry::new(AceType::Allow, flags, rights(perm, directory) | extra, who.clone()));
        deny(&mut whole, denied, flags, directory, who);
    }
    for (who, perm) in &groups {
        whole.push(Entry::new(AceType::Allow, flags, rights(*perm, directory) | ALWAYS, who.clone()));
    }
    for (who, perm) in groups {
        deny(&mut whole, !perm & other, flags, directory, who);
    }
    whole.push(Entry::new(AceType::Allow, flags, rights(other, directory) | ALWAYS, Who::Everyone));
    whole
}

fn deny(whole: &mut Vec<Entry>, perm: u8, flags: AceFlags, directory: bool, who: Who) {
    if perm & ALL != 0 {
        whole.push(Entry::new(AceType::Deny, flags, rights(perm, directory), who));
    }
}

fn rights(perm: u8, directory: bool) -> AceMask {
    let mut mask = AceMask::empty();
    mask.set(AceMask::READ_DATA, perm & READ != 0);
    mask.set(AceMask::WRITE_DATA | AceMask::APPEND_DATA, perm & WRITE != 0);
    mask.set(AceMask::DELETE_CHILD, perm & WRITE != 0 && directory);
    mask.set(AceMask::EXECUTE, perm & EXECUTE != 0);
    mask
}

/// Gives an object a list. Its POSIX form decides from then on, and is what is shown.
pub fn store(cred: &Cred, node: &dyn Node, entries: &[Entry]) -> Done<()> {
    let attr = node.attr()?;
    let own: Vec<_> = entries.iter().filter(|entry| !entry.flags.contains(AceFlags::INHERIT_ONLY)).collect();
    let access = posix_of(&own);
    if access.len() > 3 {
        node.set_xattr(cred, ACCESS_KEY, &posix_bytes(&access)).map_err(unsupported)?;
    } else {
        remove(cred, node, ACCESS_KEY)?;
        let bits = access.iter().fold(0, |bits, entry| bits << 3 | u32::from(entry.perm));
        let mode = Some(attr.mode & !0o777 | bits);
        node.set_attr(cred, &SetAttr { mode, ..SetAttr::default() })?;
    }
    if attr.kind != FileKind::Directory {
        return Ok(());
    }
    let inherited: Vec<_> = entries.iter().filter(|entry| entry.flags.intersects(INHERIT)).collect();
    if inherited.is_empty() {
        return remove(cred, node, DEFAULT_KEY);
    }
    node.set_xattr(cred, DEFAULT_KEY, &posix_bytes(&posix_of(&inherited))).map_err(unsupported)
}

fn remove(cred: &Cred, node: &dyn Node, key: &str) -> Done<()> {
    match node.remove_xattr(cred, key) {
        Ok(()) | Err(VfsError::NoXattr | VfsError::NotSupported) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn unsupported(error: VfsError) -> super::failure::Stop {
    match error {
        VfsError::NotSupported => NfsStat4::ATTRNOTSUPP.into(),
        other => other.into(),
    }
}

/// Entries as a POSIX list, in the kernel's order.
fn posix_of(entries: &[&Entry]) -> Vec<PosixEntry> {
    let ids = |pick: fn(&Who) -> Option<u32>| {
        let mut ids: Vec<u32> = entries.iter().filter_map(|entry| pick(&entry.who)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let users = ids(|who| if let Who::User(id) = who { Some(*id) } else { None });
    let groups = ids(|who| if let Who::NamedGroup(id) = who { Some(*id) } else { None });
    let entry = |tag, who: &Who| PosixEntry { tag, perm: allowed(entries, who) };
    let mut posix = vec![entry(PosixTag::Owner, &Who::Owner)];
    posix.extend(users.iter().map(|&id| entry(PosixTag::User(id), &Who::User(id))));
    let group_at = posix.len();
    posix.push(entry(PosixTag::OwningGroup, &Who::Group));
    posix.extend(groups.iter().map(|&id| entry(PosixTag::Group(id), &Who::NamedGroup(id))));
    if posix.len() > group_at + 1 || group_at > 1 {
        let perm = posix.iter().skip(1).fold(0, |all, entry| all | entry.perm);
        posix.push(PosixEntry { tag: PosixTag::Mask, perm });
    }
    posix.push(entry(PosixTag::Other, &Who::Everyone));
    posix
}

/// What the entries give somebody (RFC 8881 6.2.1): the first that names a right decides it.
fn allowed(entries: &[&Entry], who: &Who) -> u8 {
    let (mut given, mut open) = (AceMask::empty(), AceMask::all());
    for entry in entries.iter().filter(|entry| entry.who == *who || entry.who == Who::Everyone) {
        if entry.ace_type == AceType::Allow {
            given |= entry.mask & open;
        }
        open -= entry.mask;
    }
    let has = |mask: AceMask, perm: u8| if given.contains(mask) { perm } else { 0 };
    has(AceMask::READ_DATA, READ)
        | has(AceMask::WRITE_DATA | AceMask::APPEND_DATA, WRITE)
        | has(AceMask::EXECUTE, EXECUTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(_: IdKind, text: &[u8]) -> Done<u32> {
        crate::nfs4::owners::number(std::str::from_utf8(text).unwrap())
    }

    fn posix(tag: PosixTag, perm: u8) -> PosixEntry {
        PosixEntry { tag, perm }
    }

    fn back(list: &[PosixEntry], directory: bool) -> Vec<PosixEntry> {
        let whole = shown(list, AceFlags::empty(), directory);
        let taken: Vec<_> = whole.iter().map(|entry| Entry::of(&entry.wire(), &number).unwrap()).collect();
        assert_eq!(taken, whole);
        posix_of(&taken.iter().collect::<Vec<_>>())
    }

    #[test]
    fn every_mode_comes_back_as_it_was() {
        for mode in 0..0o1000 {
            for directory in [false, true] {
                assert_eq!(back(&mode_entries(mode), directory), mode_entries(mode), "{mode:o}");
            }
        }
    }

    #[test]
    fn named_users_and_groups_come_back_as_far_as_the_mask_lets_them() {
        let list = [
            posix(PosixTag::Owner, 6),
            posix(PosixTag::User(5), 7),
            posix(PosixTag::User(9), 0),
            posix(PosixTag::OwningGroup, 4),
            posix(PosixTag::Group(7), 5),
            posix(PosixTag::Mask, 5),
            posix(PosixTag::Other, 4),
        ];
        let mut cut = list;
        cut[1].perm = 5;
        assert_eq!(back(&list, false), cut);
    }

    #[test]
    fn what_is_not_kept_is_refused() {
        let ace = |ace_type, flags, who| Ace { ace_type, flags, mask: AceMask::READ_DATA, who };
        let none = AceFlags::empty();
        assert!(Entry::of(&ace(AceType::Allow, none, b"123"), &number).is_ok());
        assert_eq!(Entry::of(&ace(AceType::Audit, none, b"123"), &number), Err(NfsStat4::ATTRNOTSUPP.into()));
        let once = AceFlags::NO_PROPAGATE_INHERIT;
        assert_eq!(Entry::of(&ace(AceType::Allow, once, b"123"), &number), Err(NfsStat4::ATTRNOTSUPP.into()));
        assert_eq!(Entry::of(&ace(AceType::Allow, none, b"joe@example"), &number), Err(NfsStat4::BADOWNER.into()));
    }

    #[test]
    fn half_a_right_gives_none() {
        let ace = |mask| Entry::new(AceType::Allow, AceFlags::empty(), mask, Who::Owner);
        let given = |entry: &Entry| posix_of(&[entry])[0].perm;
        assert_eq!(given(&ace(AceMask::WRITE_DATA)), 0);
        assert_eq!(given(&ace(AceMask::WRITE_DATA | AceMask::APPEND_DATA)), WRITE);
    }
}
