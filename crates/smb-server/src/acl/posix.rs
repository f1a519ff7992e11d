//! Between POSIX permissions and descriptors, as Samba does it: owner and group are Unix users and groups, each octal
//! digit is an entry, and a directory has entries for what is made in it. Back again, owner, group and everybody get the
//! bits for what the list lets them do. Where it speaks of other users and groups, that is `lists`'.

use auth::Sid;
use smb_wire::fscc::AccessMask;
use smb_wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Token, granted};
use vfs::ntacl::{PosixEntry, PosixTag, mode_entries};
use vfs::{Attr, FileKind, SetAttr};

/// What an owner can always do.
const OWNERS: AccessMask = AccessMask::WRITE_DAC
    .union(AccessMask::WRITE_OWNER)
    .union(AccessMask::FILE_WRITE_ATTRIBUTES)
    .union(AccessMask::DELETE);
/// S_ISUID and S_ISGID.
const SET_ID: u32 = 0o6000;
/// Everybody who reaches a file sees its attributes and permissions.
const ALWAYS: AccessMask =
    AccessMask::FILE_READ_ATTRIBUTES.union(AccessMask::READ_CONTROL).union(AccessMask::SYNCHRONIZE);

/// The descriptor that says what the mode says.
pub fn computed(attr: &Attr) -> SecurityDescriptor {
    computed_of(attr, None, None)
}

/// The same for an object with lists: the mode stands for what is not in one.
pub fn computed_of(attr: &Attr, access: Option<&[PosixEntry]>, default: Option<&[PosixEntry]>) -> SecurityDescriptor {
    let (owner, group) = (Sid::unix_user(attr.uid), Sid::unix_group(attr.gid));
    let is_directory = attr.kind == FileKind::Directory;
    let said = mode_entries(attr.mode);
    let mut aces = aces(access.unwrap_or(&said), (&owner, &group), is_directory, AceFlags::empty());
    if is_directory {
        let below = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT | AceFlags::INHERIT_ONLY;
        let creator = (Sid::creator_owner(), Sid::creator_group());
        aces.extend(self::aces(default.unwrap_or(&said), (&creator.0, &creator.1), true, below));
    }
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        owner: Some(owner),
        group: Some(group),
        sacl: None,
        dacl: Some(Acl { aces }),
    }
}

/// What a list grants, each entry as far as the mask lets it. A group that a user is in may grant what the user's own
/// entry does not: only the kernel knows, and it is asked too.
fn aces(list: &[PosixEntry], (owner, group): (&Sid, &Sid), is_directory: bool, flags: AceFlags) -> Vec<Ace> {
    let mask = list.iter().find(|entry| entry.tag == PosixTag::Mask).map_or(7, |entry| entry.perm);
    let ace = |entry: &PosixEntry| {
        let (sid, perm, more) = match entry.tag {
            PosixTag::Owner => (owner.clone(), entry.perm, OWNERS),
            PosixTag::User(uid) => (Sid::unix_user(uid), entry.perm & mask, AccessMask::empty()),
            PosixTag::OwningGroup => (group.clone(), entry.perm & mask, AccessMask::empty()),
            PosixTag::Group(gid) => (Sid::unix_group(gid), entry.perm & mask, AccessMask::empty()),
            PosixTag::Other => (Sid::everyone(), entry.perm, AccessMask::empty()),
            PosixTag::Mask => return None,
        };
        Some(Ace::allow(sid, rights(perm.into(), is_directory) | more, flags))
    };
    list.iter().filter_map(ace).collect()
}

/// The rights behind one octal digit.
fn rights(digit: u32, directory: bool) -> AccessMask {
    let map = AccessMask::FILE_MAPPING;
    if digit & 7 == 7 {
        return map.all;
    }
    let mut mask = ALWAYS;
    if digit & 4 != 0 {
        mask |= map.read;
    }
    if digit & 2 != 0 {
        mask |= map.write;
        if directory {
            mask |= AccessMask::FILE_DELETE_CHILD;
        }
    }
    if digit & 1 != 0 {
        mask |= map.execute;
    }
    mask
}

/// What has to be changed of an object's owner and mode for the kernel to agree with a descriptor.
pub fn attributes(descriptor: &SecurityDescriptor, now: &Attr) -> SetAttr {
    let uid = descriptor.owner.as_ref().and_then(Sid::as_unix_user).unwrap_or(now.uid);
    let gid = descriptor.group.as_ref().and_then(Sid::as_unix_group).unwrap_or(now.gid);
    let mut mode = mode(descriptor, uid, gid, now);
    if (uid, gid) != (now.uid, now.gid) && now.kind != FileKind::Directory {
        mode &= !SET_ID; // a program does not go on running as its new owner
    }
    SetAttr {
        uid: Some(uid).filter(|&uid| uid != now.uid),
        gid: Some(gid).filter(|&gid| gid != now.gid),
        mode: Some(mode).filter(|&mode| mode != now.mode || uid != now.uid || gid != now.gid),
        ..SetAttr::default()
    }
}

fn mode(descriptor: &SecurityDescriptor, uid: u32, gid: u32, now: &Attr) -> u32 {
    let (user, group) = (Sid::unix_user(uid), Sid::unix_group(gid));
    let is_directory = now.kind == FileKind::Directory;
    let bits = |own: &[&Sid]| allowed(descriptor, own, is_directory);
    let (owner, group, other) = (bits(&[&user, &group]), bits(&[&group]), bits(&[]));
    // Whoever owns a directory must reach what is in it for the server to work there; nobody else is let in by that.
    let owner = if is_directory { owner | 0o3 } else { owner };
    (now.mode & 0o7000) | owner << 6 | group << 3 | other
}

/// The octal digit for what a descriptor lets somebody do who is all of `who`, and one of everybody.
pub fn allowed(descriptor: &SecurityDescriptor, who: &[&Sid], is_directory: bool) -> u32 {
    let everybody = [Sid::everyone(), Sid::authenticated_users(), Sid::network(), Sid::users()];
    let sids: Vec<_> = who.iter().map(|&sid| sid.clone()).chain(everybody).collect();
    let someone = || who.first().map_or_else(Sid::everyone, |&sid| sid.clone());
    bits(granted(descriptor, &Token { user: someone(), group: someone(), sids }), is_directory)
}

/// The octal digit for some rights. Who may append to a file writes it, as far as POSIX goes.
fn bits(rights: AccessMask, directory: bool) -> u32 {
    let bit = |right, bit| if rights.intersects(right) { bit } else { 0 };
    let appends = if directory { AccessMask::empty() } else { AccessMask::FILE_APPEND_DATA };
    bit(AccessMask::FILE_READ_DATA, 4)
        | bit(AccessMask::FILE_WRITE_DATA | appends, 2)
        | bit(AccessMask::FILE_EXECUTE, 1)
}

#[cfg(test)]
mod tests {
    use vfs::{FileId, Timestamp};

    use super::*;

    fn attr(kind: FileKind, mode: u32) -> Attr {
        Attr {
            id: FileId { dev: 1, ino: 1, generation: 0 },
            kind,
            mode,
            nlink: 1,
            uid: 1000,
            gid: 100,
            rdev: 0,
            len_bytes: 0,
            allocated_bytes: 0,
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            created: None,
            change: 0,
        }
    }

    #[test]
    fn what_was_computed_from_a_mode_gives_that_mode_back() {
        for mode in 0..0o1000 {
            // Group and owner bits that others have and they lack cannot be said with what grants only.
            let (owner, group, other) = (mode >> 6, mode >> 3 & 7, mode & 7);
            if other & !group != 0 || (group | other) & !owner != 0 {
                continue;
            }
            let file = attr(FileKind::File, mode);
            assert_eq!(attributes(&computed(&file), &file), SetAttr::default(), "{mode:o}");
        }
    }

    #[test]
    fn a_list_becomes_bits_for_owner_group_and_everybody() {
        let read_write = AccessMask::FILE_READ_DATA | AccessMask::FILE_WRITE_DATA;
        let ace = |sid, mask| Ace::allow(sid, mask, AceFlags::empty());
        let sd = |aces| SecurityDescriptor {
            owner: Some(Sid::unix_user(1000)),
            dacl: Some(Acl { aces }),
            ..SecurityDescriptor::default()
        };
        let file = attr(FileKind::File, 0);
        let mode = |aces| attributes(&sd(aces), &file).mode;
        assert_eq!(mode(vec![ace(Sid::unix_user(1000), read_write)]), Some(0o600));
        assert_eq!(mode(vec![ace(Sid::everyone(), AccessMask::FILE_READ_DATA)]), Some(0o444));
        let deny = Ace::deny(Sid::unix_group(100), read_write, AceFlags::empty());
        assert_eq!(mode(vec![deny, ace(Sid::everyone(), read_write)]), Some(0o006));
        let given = SecurityDescriptor { owner: Some(Sid::unix_user(7)), ..sd(vec![]) };
        assert_eq!(attributes(&given, &file).uid, Some(7));
    }
}
