//! NFSACL version 3: the POSIX lists of files, beside NFSv3, as Linux and Solaris have it. What is kept is what SMB and
//! NFSv4 see too: the extended attributes of the file system.

use coherence::Change;
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::PostOpAttr;
use nfs_wire::nfsacl::{
    AclEntry, AclMask, Acls, DEFAULT_FLAG, GROUP, GROUP_OBJ, GetAclArgs, GetAclOk, MASK, NfsAclProc, OTHER, SetAclArgs,
    USER, USER_OBJ,
};
use nfs_wire::xdr::{List, Reader, Xdr};
use vfs::ntacl::{PosixEntry, PosixTag, mode_entries, posix_bytes, posix_entries};
use vfs::{Attr, FileKind, SetAttr, VfsError};

use crate::failure::{Done, Halt};
use crate::files::{Cx, Target, post_op};
use crate::nfs3::answer;
use crate::nfs4::{ACCESS_KEY, DEFAULT_KEY, MAX_XATTR_BYTES};
use crate::reply::ReplyWriter;
use crate::{guard, tell};

/// The most that is taken: more than an extended attribute of a block holds.
const MOST_ENTRIES: usize = 512;

/// Runs a procedure: appends its results to `out`.
pub(crate) fn run(procedure: NfsAclProc, cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    match procedure {
        NfsAclProc::Null => Ok(()),
        NfsAclProc::GetAcl => get(cx, args, out),
        NfsAclProc::SetAcl => set(cx, args, out),
        NfsAclProc::GetXattrDir => Err(Halt::Unavailable),
    }
}

fn get(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = GetAclArgs::decode(args)?;
    let found = lists(cx, &args);
    let attributes: PostOpAttr = cx.attr_if_known(&args.handle);
    let done = found.as_ref().map_err(|stop| *stop).map(|(access, default)| {
        let (with_access, with_default) = (args.mask.contains(AclMask::ACL), args.mask.contains(AclMask::DEFAULT));
        let count = |list: &[AclEntry]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let acls = Acls {
            mask: args.mask,
            access_count: count(access),
            access: List::new(if with_access { access } else { &[] }),
            default_count: count(default),
            default: List::new(if with_default { default } else { &[] }),
        };
        GetAclOk { attributes, acls }
    });
    answer(done, || attributes, out)
}

/// The access and the default list, as they travel.
fn lists(cx: &Cx, args: &GetAclArgs<'_>) -> Done<(Vec<AclEntry>, Vec<AclEntry>)> {
    let target = cx.target(&args.handle)?;
    let attr = target.attr(cx)?;
    if args.mask.bits() & !AclMask::all().bits() != 0 {
        return Err(NfsStat3::INVAL.into());
    }
    let wants = |parts: AclMask| args.mask.intersects(parts);
    let mut access = Vec::new();
    if wants(AclMask::ACL | AclMask::ACL_COUNT) {
        let stored = stored(&target, ACCESS_KEY)?;
        access = with_mask(stored.unwrap_or_else(|| mode_entries(attr.mode))).iter().map(|e| wire(e, 0)).collect();
    }
    let mut default = Vec::new();
    if wants(AclMask::DEFAULT | AclMask::DEFAULT_COUNT) && attr.kind == FileKind::Directory {
        let stored = stored(&target, DEFAULT_KEY)?;
        default = with_mask(stored.unwrap_or_default()).iter().map(|e| wire(e, DEFAULT_FLAG)).collect();
    }
    Ok((access, default))
}

fn stored(target: &Target, key: &str) -> Done<Option<Vec<PosixEntry>>> {
    match target.object.node.xattr(key, MAX_XATTR_BYTES) {
        Ok(bytes) => Ok(posix_entries(&bytes)),
        Err(VfsError::NoXattr | VfsError::NotSupported) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Solaris has a mask in every list: where there is none, it is the group's.
fn with_mask(mut list: Vec<PosixEntry>) -> Vec<PosixEntry> {
    let group = list.iter().find(|entry| entry.tag == PosixTag::OwningGroup).map(|entry| entry.perm);
    if let Some(perm) = group.filter(|_| list.len() == 3) {
        list.insert(2, PosixEntry { tag: PosixTag::Mask, perm });
    }
    list
}

fn wire(entry: &PosixEntry, flag: u32) -> AclEntry {
    let (tag, id) = match entry.tag {
        PosixTag::Owner => (USER_OBJ, 0),
        PosixTag::User(id) => (USER, id),
        PosixTag::OwningGroup => (GROUP_OBJ, 0),
        PosixTag::Group(id) => (GROUP, id),
        PosixTag::Mask => (MASK, 0),
        PosixTag::Other => (OTHER, 0),
    };
    AclEntry { tag: tag | flag, id, permissions: entry.perm.into() }
}

fn set(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = SetAclArgs::decode(args)?;
    let done = apply(cx, &args);
    answer(done, || cx.attr_if_known(&args.handle), out)
}

fn apply(cx: &Cx, args: &SetAclArgs<'_>) -> Done<PostOpAttr> {
    let target = cx.target_to_change(&args.handle)?;
    let attr = target.attr(cx)?;
    let directory = attr.kind == FileKind::Directory;
    let given = |part, list: &List<'_, AclEntry>| args.acls.mask.contains(part).then(|| posix_of(list)).transpose();
    let (access, default) = (given(AclMask::ACL, &args.acls.access)?, given(AclMask::DEFAULT, &args.acls.default)?);
    // Clients send an empty default list along with everything.
    if default.as_ref().is_some_and(|list| !list.is_empty() && !directory) {
        return Err(NfsStat3::INVAL.into());
    }
    guard::change(&cx.server, attr.id, Change::Attributes)?;
    if let Some(list) = access {
        set_access(&target, &attr, &list)?;
    }
    if let Some(list) = default.filter(|_| directory) {
        match list.is_empty() {
            true => remove(&target, DEFAULT_KEY)?,
            false => target.object.node.set_xattr(&target.cred, DEFAULT_KEY, &posix_bytes(&list))?,
        }
    }
    tell::changed(&target.object);
    Ok(post_op(&target.object))
}

/// A list that says no more than a mode is one.
fn set_access(target: &Target, attr: &Attr, list: &[PosixEntry]) -> Done<()> {
    let node = &target.object.node;
    let perm = |tag| list.iter().find(|entry| entry.tag == tag).map(|entry| u32::from(entry.perm));
    let (Some(owner), Some(group), Some(other)) =
        (perm(PosixTag::Owner), perm(PosixTag::OwningGroup), perm(PosixTag::Other))
    else {
        return Err(NfsStat3::INVAL.into());
    };
    if list.len() > 3 {
        return Ok(node.set_xattr(&target.cred, ACCESS_KEY, &posix_bytes(list))?);
    }
    remove(target, ACCESS_KEY)?;
    let mode = Some(attr.mode & !0o777 | owner << 6 | group << 3 | other);
    Ok(node.set_attr(&target.cred, &SetAttr { mode, ..SetAttr::default() })?)
}

fn remove(target: &Target, key: &str) -> Done<()> {
    match target.object.node.remove_xattr(&target.cred, key) {
        Ok(()) | Err(VfsError::NoXattr | VfsError::NotSupported) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A list as the kernel keeps it: in its order, each entry once, a mask exactly where names are (POSIX 1003.1e 23.1.2).
fn posix_of(list: &List<'_, AclEntry>) -> Done<Vec<PosixEntry>> {
    let mut entries = Vec::new();
    for entry in list.iter() {
        let tag = match entry.tag & !DEFAULT_FLAG {
            USER_OBJ => PosixTag::Owner,
            USER => PosixTag::User(entry.id),
            GROUP_OBJ => PosixTag::OwningGroup,
            GROUP => PosixTag::Group(entry.id),
            MASK => PosixTag::Mask,
            OTHER => PosixTag::Other,
            _ => return Err(NfsStat3::INVAL.into()),
        };
        let perm = u8::try_from(entry.permissions).ok().filter(|perm| *perm <= 7).ok_or(NfsStat3::INVAL)?;
        entries.push(PosixEntry { tag, perm });
    }
    entries.sort_by_key(|entry| rank(entry.tag));
    let twice = entries.windows(2).any(|pair| matches!(pair, [a, b] if a.tag == b.tag));
    if twice || entries.len() > MOST_ENTRIES {
        return Err(NfsStat3::INVAL.into());
    }
    let has = |tag| entries.iter().any(|entry: &PosixEntry| entry.tag == tag);
    let base = [PosixTag::Owner, PosixTag::OwningGroup, PosixTag::Other].into_iter().all(has);
    let named = entries.iter().any(|entry| matches!(entry.tag, PosixTag::User(_) | PosixTag::Group(_)));
    let masked = has(PosixTag::Mask);
    if !entries.is_empty() && (!base || (named && !masked)) {
        return Err(NfsStat3::INVAL.into());
    }
    // Without names the mask says nothing but what is left of the group's rights.
    if !named && let Some(mask) = entries.iter().find(|entry| entry.tag == PosixTag::Mask).map(|entry| entry.perm) {
        entries.retain(|entry| entry.tag != PosixTag::Mask);
        entries.iter_mut().filter(|e| e.tag == PosixTag::OwningGroup).for_each(|e| e.perm &= mask);
    }
    Ok(entries)
}

fn rank(tag: PosixTag) -> (u8, u32) {
    match tag {
        PosixTag::Owner => (0, 0),
        PosixTag::User(id) => (1, id),
        PosixTag::OwningGroup => (2, 0),
        PosixTag::Group(id) => (3, id),
        PosixTag::Mask => (4, 0),
        PosixTag::Other => (5, 0),
    }
}
