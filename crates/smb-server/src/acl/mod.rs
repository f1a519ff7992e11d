//! Who may: security descriptors stored beside files, and those computed from POSIX permissions where none is. CREATE,
//! QUERY_INFO and SET_INFO ask here. A stored descriptor decides together with the kernel: both must allow, since the
//! work is done as the user; so setting one also sets the mode ([`posix`]).
//!
//! Descriptors are kept as Samba keeps them (`vfs::ntacl`): in `security.NTACL` where the process may write that, which is
//! where it may switch identities, else in `user.longshore.NTACL`. One whose file has had its POSIX permissions changed
//! since by anybody else no longer counts.

mod lists;
mod posix;

use auth::{NssUsers, Sid, SystemUsers};
use smb_wire::crypto::sha256;
use smb_wire::fscc::{AccessMask, FileTime};
use smb_wire::security::{SecurityDescriptor, Token, granted};
use vfs::ntacl::{self, NtAcl, PosixAcl, PosixEntry};
use vfs::{Attr, Backend, Capabilities, Cred, FileKind, Node, SetAttr, VfsError, VfsResult};

pub use self::posix::computed;

/// The longest value the kernel keeps (XATTR_SIZE_MAX).
const MAX_XATTR_BYTES: usize = 65536;

/// Where the kernel keeps POSIX lists.
const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

/// Rights that come with privileges, not with descriptors: an administrator's.
pub const PRIVILEGED: AccessMask = AccessMask::ACCESS_SYSTEM_SECURITY.union(AccessMask::WRITE_OWNER);

/// Whether an identity is an administrator's: root's. It may see and set SACLs, take files over and give them away; it
/// is bound by access lists like everybody else.
pub fn is_admin(cred: &Cred) -> bool {
    cred.uid == 0
}

/// The identity that what a descriptor allows is done under when the kernel would refuse it to the user: the owner's
/// business done by somebody else with WRITE_DAC or WRITE_OWNER.
pub fn as_server() -> Cred {
    Cred { uid: 0, gid: 0, groups: std::sync::Arc::from([]) }
}

/// Who an identity is, where descriptors are concerned.
pub fn token(cred: &Cred) -> Token {
    let (user, group) = (Sid::unix_user(cred.uid), Sid::unix_group(cred.gid));
    let mut sids = vec![user.clone(), group.clone()];
    sids.extend(cred.groups.iter().filter(|&&gid| gid != cred.gid).map(|&gid| Sid::unix_group(gid)));
    sids.extend([Sid::everyone(), Sid::network(), Sid::authenticated_users(), Sid::users()]);
    if is_admin(cred) {
        sids.push(Sid::administrators());
    }
    Token { user, group, sids }
}

/// The names descriptors may be stored under, the one that is written first.
fn names(backend: &dyn Backend) -> &'static [&'static str] {
    if backend.capabilities().contains(Capabilities::IDENTITY) {
        &[ntacl::XATTR_NAME]
    } else {
        &[ntacl::USER_XATTR_NAME, ntacl::XATTR_NAME]
    }
}

/// A descriptor stored with an object, and whom the object belongs to.
pub struct Stored {
    /// The descriptor.
    pub descriptor: SecurityDescriptor,
    uid: u32,
    gid: u32,
}

impl Stored {
    /// All rights an identity has by it.
    ///
    /// A server that this one has taken the share over from may have named owner and group by accounts of its domain:
    /// they are then whoever owns the file, since a change of that would have voided the descriptor.
    pub fn rights(&self, cred: &Cred) -> AccessMask {
        let mut token = token(cred);
        let account = |sid: &Option<Sid>| sid.clone().filter(Sid::is_account);
        if cred.uid == self.uid {
            token.sids.extend(account(&self.descriptor.owner));
        }
        if cred.gid == self.gid || cred.groups.contains(&self.gid) {
            token.sids.extend(account(&self.descriptor.group));
        }
        granted(&self.descriptor, &token)
    }
}

/// The descriptor stored with an object, if one is and still counts. One system call where none is.
pub fn stored(backend: &dyn Backend, node: &dyn Node) -> VfsResult<Option<Stored>> {
    for name in names(backend) {
        match node.xattr(name, MAX_XATTR_BYTES) {
            Ok(bytes) => return read(node, &bytes),
            Err(VfsError::WouldBlock) => return Err(VfsError::WouldBlock),
            // No attribute, or a file system without them.
            Err(_) => {}
        }
    }
    Ok(None)
}

fn read(node: &dyn Node, bytes: &[u8]) -> VfsResult<Option<Stored>> {
    let Ok(acl) = NtAcl::decode(bytes) else { return Ok(None) };
    let Ok(descriptor) = SecurityDescriptor::decode(&acl.descriptor) else { return Ok(None) };
    let attr = node.attr()?;
    let counts = match acl.posix_digest {
        Some(digest) => digest == posix_digest(node, &attr)?,
        None => true,
    };
    Ok(counts.then_some(Stored { descriptor, uid: attr.uid, gid: attr.gid }))
}

/// One of an object's POSIX lists, if it has one.
fn list(node: &dyn Node, key: &str) -> VfsResult<Option<Vec<PosixEntry>>> {
    match node.xattr(key, MAX_XATTR_BYTES) {
        Err(VfsError::WouldBlock) => Err(VfsError::WouldBlock),
        value => Ok(value.ok().and_then(|bytes| ntacl::posix_entries(&bytes))),
    }
}

/// The digest of an object's POSIX permissions.
fn posix_digest(node: &dyn Node, attr: &Attr) -> VfsResult<[u8; 32]> {
    let (is_directory, kind) = match attr.kind {
        FileKind::Directory => (true, 0o040_000),
        _ => (false, 0o100_000),
    };
    let access = list(node, ACCESS_LIST)?.unwrap_or_else(|| ntacl::mode_entries(attr.mode));
    // A directory without a default list has an empty one, as acl_get_file(3) has it.
    let default = if is_directory { Some(list(node, DEFAULT_LIST)?.unwrap_or_default()) } else { None };
    let acl = PosixAcl { uid: attr.uid, gid: attr.gid, mode: kind | attr.mode, access, default };
    Ok(sha256(&acl.encode()))
}

/// The descriptor an object has: stored, or computed.
pub fn of(backend: &dyn Backend, node: &dyn Node) -> VfsResult<SecurityDescriptor> {
    match stored(backend, node)? {
        Some(Stored { mut descriptor, uid, gid }) => {
            // An owner is always told.
            descriptor.owner.get_or_insert_with(|| Sid::unix_user(uid));
            descriptor.group.get_or_insert_with(|| Sid::unix_group(gid));
            Ok(descriptor)
        }
        None => {
            let attr = node.attr()?;
            let (access, default) = (list(node, ACCESS_LIST)?, list(node, DEFAULT_LIST)?);
            Ok(posix::computed_of(&attr, access.as_deref(), default.as_deref()))
        }
    }
}

/// Stores a descriptor with an object, having given it the owner, the mode and the POSIX lists that go with it. Where the
/// file system keeps no such attributes the mode is all there is. `now` is a FILETIME.
pub fn store(
    backend: &dyn Backend,
    node: &dyn Node,
    cred: &Cred,
    descriptor: &SecurityDescriptor,
    now: u64,
) -> VfsResult<()> {
    set_posix(node, cred, descriptor)?;
    let posix_digest = Some(posix_digest(node, &node.attr()?)?);
    let value = NtAcl { descriptor: descriptor.encode(), posix_digest }.encode(FileTime(now).0);
    let mut refused = VfsError::NotSupported;
    for name in names(backend) {
        match as_user_or_server(cred, |cred| node.set_xattr(cred, name, &value)) {
            Err(error @ (VfsError::NotSupported | VfsError::NotPermitted | VfsError::AccessDenied)) => refused = error,
            result => return result,
        }
    }
    if refused == VfsError::NotSupported { Ok(()) } else { Err(refused) }
}

/// Gives an object the owner, the mode and the lists that go with a descriptor. May ask the system who is in which group.
fn set_posix(node: &dyn Node, cred: &Cred, descriptor: &SecurityDescriptor) -> VfsResult<()> {
    let before = node.attr()?;
    let set = posix::attributes(descriptor, &before);
    let (owner, mode) =
        ((set.uid.unwrap_or(before.uid), set.gid.unwrap_or(before.gid)), set.mode.unwrap_or(before.mode));
    let is_directory = before.kind == FileKind::Directory;
    let access = match before.kind {
        FileKind::File | FileKind::Directory => lists::access(descriptor, owner, mode, is_directory, &groups_of),
        _ => Vec::new(),
    };
    if is_directory {
        set_list(node, cred, DEFAULT_LIST, &lists::default(descriptor, mode, &groups_of))?;
    }
    if access.is_empty() {
        set_list(node, cred, ACCESS_LIST, &access)?;
        return change(node, cred, &set);
    }
    change(node, cred, &SetAttr { mode: None, ..set })?;
    let listed = set_list(node, cred, ACCESS_LIST, &access)?;
    let mode = if listed { mode & 0o7000 | lists::mode(&access) } else { mode };
    // The kernel takes the mode from the list; where it does not keep lists, it is set like this.
    let differs = node.attr()?.mode != mode;
    change(node, cred, &SetAttr { mode: differs.then_some(mode), ..SetAttr::default() })
}

fn change(node: &dyn Node, cred: &Cred, set: &SetAttr) -> VfsResult<()> {
    if *set == SetAttr::default() { Ok(()) } else { as_user_or_server(cred, |cred| node.set_attr(cred, set)) }
}

/// Sets a list, or takes it away where it is empty; whether it is there now as it was wanted. A file system that keeps no
/// lists, or none so long, is done without.
fn set_list(node: &dyn Node, cred: &Cred, key: &str, wanted: &[PosixEntry]) -> VfsResult<bool> {
    if list(node, key)?.unwrap_or_default() == wanted {
        return Ok(true);
    }
    let value = ntacl::posix_bytes(wanted);
    let done = as_user_or_server(cred, |cred| match wanted {
        [] => node.remove_xattr(cred, key),
        _ => node.set_xattr(cred, key, &value),
    });
    match done {
        Ok(()) => Ok(true),
        Err(VfsError::WouldBlock) => Err(VfsError::WouldBlock),
        Err(error) => {
            tracing::debug!(%error, key, "a POSIX list is not set");
            Ok(false)
        }
    }
}

/// The groups a user of this machine is in.
fn groups_of(uid: u32) -> Vec<u32> {
    NssUsers.by_uid(uid).ok().flatten().map(|user| user.groups).unwrap_or_default()
}

/// Does as the user what the user was found to be allowed, and as the server where the kernel knows less of that.
pub fn as_user_or_server<R>(cred: &Cred, act: impl Fn(&Cred) -> VfsResult<R>) -> VfsResult<R> {
    match act(cred) {
        Err(VfsError::AccessDenied | VfsError::NotPermitted) if !is_admin(cred) => act(&as_server()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smb_wire::security::{Ace, AceFlags, Acl};
    use vfs::memfs::{ManualClock, MemFs};
    use vfs::ntacl::PosixTag;
    use vfs::{Access, Disposition, OpenHow, Opened, Path, Wait, WantKind};

    use super::*;

    fn user(uid: u32) -> Cred {
        Cred { uid, gid: uid, groups: Arc::from([]) }
    }

    fn file(fs: &MemFs, cred: &Cred) -> Opened {
        let how = OpenHow {
            access: Access::READ | Access::WRITE,
            disposition: Disposition::Create,
            kind: WantKind::File,
            follow: false,
            mode: 0o644,
        };
        let path = Path::new(b"f").unwrap();
        fs.open(cred, &*fs.root(), &path, &how, Wait::Allowed).unwrap()
    }

    fn only(sid: Sid, mask: AccessMask) -> SecurityDescriptor {
        let dacl = Some(Acl { aces: vec![Ace::allow(sid, mask, AceFlags::empty())] });
        SecurityDescriptor { owner: Some(Sid::unix_user(0)), dacl, ..SecurityDescriptor::default() }
    }

    #[test]
    fn a_descriptor_is_stored_with_its_mode_until_somebody_changes_that() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        let node = file(&fs, &user(0)).node;
        assert!(stored(&*fs, &*node).unwrap().is_none());
        let read = AccessMask::FILE_READ_DATA;
        store(&*fs, &*node, &user(0), &only(Sid::everyone(), read), 7).unwrap();
        assert_eq!(node.attr().unwrap().mode, 0o444);
        assert_eq!(stored(&*fs, &*node).unwrap().unwrap().rights(&user(5)), read);
        node.set_attr(&user(0), &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
        assert!(stored(&*fs, &*node).unwrap().is_none(), "chmod voids it");
        assert_eq!(of(&*fs, &*node).unwrap(), computed(&node.attr().unwrap()));
    }

    #[test]
    fn who_is_named_in_a_descriptor_is_named_in_the_list_beside_it() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        let node = file(&fs, &user(0)).node;
        let (read, far) = (AccessMask::FILE_READ_DATA, 4_000_000_123);
        store(&*fs, &*node, &user(0), &only(Sid::unix_user(far), read), 7).unwrap();
        let there = list(&*node, ACCESS_LIST).unwrap().expect("a list");
        assert!(there.contains(&PosixEntry { tag: PosixTag::User(far), perm: 4 }), "{there:?}");
        assert_eq!(node.attr().unwrap().mode, 0o040, "the mask stands where the group's digit is");
        assert_eq!(stored(&*fs, &*node).unwrap().unwrap().rights(&user(far)), read);
        // Somebody changes the list.
        let other = vec![PosixEntry { tag: PosixTag::User(far), perm: 6 }];
        node.set_xattr(&user(0), ACCESS_LIST, &ntacl::posix_bytes(&other)).unwrap();
        assert!(stored(&*fs, &*node).unwrap().is_none(), "setfacl voids it");
        let shown = of(&*fs, &*node).unwrap();
        let says = granted(&shown, &Token { sids: vec![Sid::unix_user(far)], ..token(&user(far)) });
        assert!(says.contains(read | AccessMask::FILE_WRITE_DATA), "and is what is shown: {shown:?}");
        // A descriptor without names takes it away.
        store(&*fs, &*node, &user(0), &only(Sid::everyone(), read), 7).unwrap();
        assert_eq!(list(&*node, ACCESS_LIST).unwrap(), None);
        assert_eq!(node.attr().unwrap().mode, 0o444);
    }

    #[test]
    fn an_account_that_owns_a_descriptor_is_the_user_who_owns_the_file() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        let node = file(&fs, &user(0)).node;
        let account = Sid::machine(1, 2, 3).child(1000).unwrap();
        let read = AccessMask::FILE_READ_DATA;
        let mut descriptor = only(account.clone(), read);
        descriptor.owner = Some(account);
        store(&*fs, &*node, &user(0), &descriptor, 7).unwrap();
        let stored = stored(&*fs, &*node).unwrap().unwrap();
        assert!(stored.rights(&user(0)).contains(read | AccessMask::WRITE_DAC));
        assert_eq!(stored.rights(&user(5)), AccessMask::empty());
    }

    #[test]
    fn what_is_no_descriptor_is_as_good_as_none() {
        let fs = MemFs::new(ManualClock::at_secs(1));
        let node = file(&fs, &user(0)).node;
        for name in names(&*fs) {
            node.set_xattr(&user(0), name, b"\x04\0\x04\0nonsense").unwrap();
        }
        assert!(stored(&*fs, &*node).unwrap().is_none());
    }
}
