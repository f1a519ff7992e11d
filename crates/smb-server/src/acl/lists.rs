//! The POSIX lists that go with a descriptor (acl(5)): users and groups beside the owner and the owning group that its
//! entries name by local ids, so that local programs and NFS see what SMB clients do. `acl` stores them next to mode and
//! descriptor.
//!
//! A descriptor adds up what a user and the user's groups are granted, a list has one entry that counts for a user: that
//! entry is given what the user's groups in the descriptor are granted too.

use std::collections::{BTreeMap, BTreeSet};

use auth::Sid;
use smb_wire::security::{Ace, AceBody, AceFlags, AceKind, SecurityDescriptor, Token, inherited};
use vfs::ntacl::{PosixEntry, PosixTag};

use super::posix::allowed;

/// Entries beyond this are not made: fewer fit some file systems, which say so.
const MOST_NAMED: usize = 500;

/// The groups a user is in.
pub type GroupsOf<'a> = &'a dyn Fn(u32) -> Vec<u32>;

/// The access list of an object that belongs to `owner`, uid and gid, and has `mode` by the descriptor; empty where the
/// mode says it all.
pub fn access(
    descriptor: &SecurityDescriptor,
    (uid, gid): (u32, u32),
    mode: u32,
    is_directory: bool,
    groups_of: GroupsOf<'_>,
) -> Vec<PosixEntry> {
    let named = Named::of(descriptor, Some(uid), Some(gid));
    let named = named.entries(descriptor, &Sid::unix_group(gid), is_directory, groups_of);
    if named.is_empty() { Vec::new() } else { list([mode >> 6, mode >> 3, mode].map(|digit| digit as u8 & 7), named) }
}

/// The default list of a directory: what local programs make in it is given what SMB clients' objects inherit. Empty where
/// nothing is inherited, or what is says no more than the directory's own `mode`.
pub fn default(descriptor: &SecurityDescriptor, mode: u32, groups_of: GroupsOf<'_>) -> Vec<PosixEntry> {
    let passes_on = |flag| descriptor.dacl.iter().flat_map(|dacl| &dacl.aces).any(|ace| ace.flags.contains(flag));
    // One list is for files and directories.
    if !passes_on(AceFlags::OBJECT_INHERIT) || !passes_on(AceFlags::CONTAINER_INHERIT) {
        return Vec::new();
    }
    let (user, group) = (Sid::creator_owner(), Sid::creator_group());
    let maker = Token { sids: vec![user.clone(), group.clone()], user: user.clone(), group: group.clone() };
    let [file, directory] = [false, true].map(|directory| inherited(descriptor, directory, &maker));
    let both = |who: &[&Sid]| (allowed(&file, who, true) & allowed(&directory, who, true)) as u8;
    let own = [both(&[&user, &group]), both(&[&group]), both(&[])];
    let mut named = Named::of(&file, None, None);
    named.add(Named::of(&directory, None, None));
    let files = named.entries(&file, &group, true, groups_of);
    let directories = named.entries(&directory, &group, true, groups_of);
    let least = |(a, b): (PosixEntry, PosixEntry)| PosixEntry { perm: a.perm & b.perm, ..a };
    let named: Vec<_> = files.into_iter().zip(directories).map(least).collect();
    let said = [mode >> 6, mode >> 3, mode].map(|digit| digit as u8 & 7);
    if named.is_empty() && own == said { Vec::new() } else { list(own, named) }
}

/// A list in the kernel's order, with the mask that keeps nobody from anything.
fn list([owner, group, other]: [u8; 3], named: Vec<PosixEntry>) -> Vec<PosixEntry> {
    let mask = named.iter().fold(group, |mask, entry| mask | entry.perm);
    let entry = |tag, perm| PosixEntry { tag, perm };
    let (users, groups): (Vec<_>, Vec<_>) = named.into_iter().partition(|e| matches!(e.tag, PosixTag::User(_)));
    let has_named = !users.is_empty() || !groups.is_empty();
    let mut list = vec![entry(PosixTag::Owner, owner)];
    list.extend(users);
    list.push(entry(PosixTag::OwningGroup, group));
    list.extend(groups);
    list.extend(has_named.then_some(entry(PosixTag::Mask, mask)));
    list.push(entry(PosixTag::Other, other));
    list
}

/// The mode's digits that go with a list: the group's is the mask.
pub fn mode(list: &[PosixEntry]) -> u32 {
    let perm = |tag| list.iter().find(|entry| entry.tag == tag).map(|entry| u32::from(entry.perm));
    let group = perm(PosixTag::Mask).or_else(|| perm(PosixTag::OwningGroup));
    perm(PosixTag::Owner).unwrap_or(0) << 6 | group.unwrap_or(0) << 3 | perm(PosixTag::Other).unwrap_or(0)
}

/// Who is named in a descriptor.
#[derive(Default)]
struct Named {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
}

impl Named {
    /// Others than the owner and the owning group, in entries that are in effect.
    fn of(descriptor: &SecurityDescriptor, uid: Option<u32>, gid: Option<u32>) -> Self {
        let mut named = Self::default();
        for ace in descriptor.dacl.iter().flat_map(|dacl| &dacl.aces) {
            let AceBody::Access { sid, .. } = &ace.body else { continue };
            if ace.flags.contains(AceFlags::INHERIT_ONLY) {
                continue;
            }
            named.users.extend(sid.as_unix_user().filter(|&user| Some(user) != uid));
            named.groups.extend(sid.as_unix_group().filter(|&group| Some(group) != gid));
        }
        named
    }

    fn add(&mut self, other: Self) {
        self.users.extend(other.users);
        self.groups.extend(other.groups);
    }

    /// Their entries: users, then groups, each by number.
    fn entries(
        &self,
        descriptor: &SecurityDescriptor,
        own_group: &Sid,
        is_directory: bool,
        groups_of: GroupsOf<'_>,
    ) -> Vec<PosixEntry> {
        if self.users.len() + self.groups.len() > MOST_NAMED {
            return Vec::new();
        }
        let perm = |who: &[&Sid]| allowed(descriptor, who, is_directory) as u8;
        let mut groups: BTreeMap<u32, u8> = BTreeMap::new();
        groups.extend(self.groups.iter().map(|&gid| (gid, perm(&[&Sid::unix_group(gid)]))));
        let most = groups.values().fold(perm(&[own_group]), |most, perm| most | perm);
        let user = |uid: u32| {
            let own = Sid::unix_user(uid);
            let alone = perm(&[&own]);
            if most & !alone == 0 && !denies_groups(descriptor) {
                return alone; // no group could give more, or take anything
            }
            let groups: Vec<_> = groups_of(uid).into_iter().map(Sid::unix_group).collect();
            perm(&std::iter::once(&own).chain(&groups).collect::<Vec<_>>())
        };
        let users = self.users.iter().map(|&uid| PosixEntry { tag: PosixTag::User(uid), perm: user(uid) });
        let groups = groups.iter().map(|(&gid, &perm)| PosixEntry { tag: PosixTag::Group(gid), perm });
        users.chain(groups).collect()
    }
}

fn denies_groups(descriptor: &SecurityDescriptor) -> bool {
    let of_group = |body: &AceBody| matches!(body, AceBody::Access { sid, .. } if sid.as_unix_group().is_some());
    let denies = |ace: &Ace| ace.kind != AceKind::ALLOWED && of_group(&ace.body);
    descriptor.dacl.iter().flat_map(|dacl| &dacl.aces).any(denies)
}

#[cfg(test)]
mod tests {
    use smb_wire::fscc::AccessMask;
    use smb_wire::security::Acl;

    use super::*;

    const R: AccessMask = AccessMask::FILE_READ_DATA;
    const W: AccessMask = AccessMask::FILE_WRITE_DATA;
    const X: AccessMask = AccessMask::FILE_EXECUTE;

    fn allow(sid: Sid, mask: AccessMask) -> Ace {
        Ace::allow(sid, mask, AceFlags::empty())
    }

    fn below(sid: Sid, mask: AccessMask) -> Ace {
        Ace::allow(sid, mask, AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT | AceFlags::INHERIT_ONLY)
    }

    fn descriptor(aces: Vec<Ace>) -> SecurityDescriptor {
        SecurityDescriptor {
            owner: Some(Sid::unix_user(1000)),
            dacl: Some(Acl { aces }),
            ..SecurityDescriptor::default()
        }
    }

    /// User 7 is in group 70.
    fn groups_of(uid: u32) -> Vec<u32> {
        if uid == 7 { vec![70] } else { Vec::new() }
    }

    fn written(list: &[PosixEntry]) -> String {
        let entry = |entry: &PosixEntry| {
            let (tag, perm) = (entry.tag, entry.perm);
            match tag {
                PosixTag::Owner => format!("u::{perm}"),
                PosixTag::User(uid) => format!("u:{uid}:{perm}"),
                PosixTag::OwningGroup => format!("g::{perm}"),
                PosixTag::Group(gid) => format!("g:{gid}:{perm}"),
                PosixTag::Mask => format!("m::{perm}"),
                PosixTag::Other => format!("o::{perm}"),
            }
        };
        list.iter().map(entry).collect::<Vec<_>>().join(" ")
    }

    fn of(aces: Vec<Ace>, mode: u32) -> String {
        written(&access(&descriptor(aces), (1000, 100), mode, false, &groups_of))
    }

    #[test]
    fn who_is_named_beside_owner_and_group_has_an_entry() {
        let (owner, group) = (|| allow(Sid::unix_user(1000), R | W), || allow(Sid::unix_group(100), R));
        assert_eq!(of(vec![owner(), group()], 0o640), "", "the mode says it all");
        let list = vec![owner(), allow(Sid::unix_user(9), R), allow(Sid::unix_user(8), W), group()];
        assert_eq!(of(list, 0o640), "u::6 u:8:2 u:9:4 g::4 m::6 o::0", "in the kernel's order");
        let list = vec![owner(), allow(Sid::unix_group(55), R | X), group(), allow(Sid::everyone(), R)];
        assert_eq!(of(list, 0o644), "u::6 g::4 g:55:5 m::5 o::4");
    }

    #[test]
    fn a_users_entry_has_what_the_users_groups_have() {
        let list = || vec![allow(Sid::unix_group(70), R | W), allow(Sid::unix_user(7), X), allow(Sid::unix_user(8), X)];
        assert_eq!(of(list(), 0o600), "u::6 u:7:7 u:8:1 g::0 g:70:6 m::7 o::0");
        let denied = Ace::deny(Sid::unix_group(70), W, AceFlags::empty());
        let list = vec![denied, allow(Sid::unix_user(7), R | W), allow(Sid::unix_user(8), R | W)];
        assert_eq!(of(list, 0o600), "u::6 u:7:4 u:8:6 g::0 g:70:0 m::6 o::0");
    }

    #[test]
    fn who_is_denied_has_an_entry_that_says_so() {
        let list = vec![Ace::deny(Sid::unix_user(8), R | W, AceFlags::empty()), allow(Sid::everyone(), R)];
        assert_eq!(of(list, 0o444), "u::4 u:8:0 g::4 m::4 o::4");
    }

    fn default_of(aces: Vec<Ace>, mode: u32) -> String {
        written(&default(&descriptor(aces), mode, &groups_of))
    }

    #[test]
    fn what_is_inherited_is_the_default_list() {
        let all = R | W | X;
        let creators = || vec![below(Sid::creator_owner(), all), below(Sid::creator_group(), R | X)];
        assert_eq!(default_of(vec![allow(Sid::everyone(), all)], 0o777), "", "nothing is inherited");
        assert_eq!(default_of(creators(), 0o750), "", "as the directory itself");
        assert_eq!(default_of(creators(), 0o755), "u::7 g::5 o::0");
        let mut list = creators();
        list.extend([below(Sid::unix_user(1000), R), below(Sid::unix_group(70), R | W), allow(Sid::unix_user(9), all)]);
        assert_eq!(default_of(list, 0o750), "u::7 u:1000:4 g::5 g:70:6 m::7 o::0", "the maker may be somebody else");
        let for_directories = Ace::allow(Sid::unix_user(9), all, AceFlags::CONTAINER_INHERIT);
        assert_eq!(default_of(vec![for_directories.clone()], 0o755), "");
        let mut list = creators();
        list.push(for_directories);
        assert_eq!(default_of(list, 0o750), "u::7 u:9:0 g::5 m::5 o::0", "never more than files inherit");
    }

    #[test]
    fn the_mode_beside_a_list_has_its_mask() {
        let list = access(&descriptor(vec![allow(Sid::unix_user(9), R | W)]), (1000, 100), 0o640, false, &groups_of);
        assert_eq!(mode(&list), 0o660);
        assert_eq!(mode(&vfs::ntacl::mode_entries(0o751)), 0o751);
    }
}
