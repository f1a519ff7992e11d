//! Extended attributes (RFC 8276 8.4). Names travel without `user.`, and only that namespace is shown; what the server
//! itself keeps in it for SMB clients is not.

use coherence::Change;
use nfs_wire::nfs4::{ChangeInfo, ListxattrsArgs, NfsStat4, SetxattrArgs, SetxattrOption, XattrNamesWriter};
use vfs::{Access, FileKind, VfsError};

use crate::files::Target;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, answer};
use crate::nfs4::fh::attr_of;
use crate::nfs4::guard;
use crate::reply::ReplyWriter;
use crate::tell;

const NAMESPACE: &str = "user.";
/// The longest name and the largest value Linux has (XATTR_NAME_MAX, XATTR_SIZE_MAX).
const MAX_NAME_BYTES: usize = 255;
const MAX_VALUE_BYTES: usize = 64 << 10;

/// The current object, which must be one that has such attributes.
fn object(c: &Compound) -> Done<&Target> {
    let target = c.target_or(NfsStat4::NOTSUPP)?;
    match attr_of(&c.cx, target)?.kind {
        FileKind::File | FileKind::Directory => Ok(target),
        _ => Err(NfsStat4::WRONG_TYPE.into()),
    }
}

fn key(name: &[u8]) -> Done<String> {
    if name.is_empty() || name.contains(&0) {
        return Err(NfsStat4::INVAL.into());
    }
    let name = std::str::from_utf8(name).map_err(|_| NfsStat4::INVAL)?;
    let key = format!("{NAMESPACE}{name}");
    if key.len() > MAX_NAME_BYTES {
        return Err(NfsStat4::NAMETOOLONG.into());
    }
    if is_own(&key) { Err(NfsStat4::ACCESS.into()) } else { Ok(key) }
}

/// What the server keeps there for SMB: DOS attributes, named streams and where they go on, security descriptors.
fn is_own(key: &str) -> bool {
    const PREFIXES: [&str; 3] = ["user.DosStream.", "user.DosStreamExt.", "user.longshore."];
    key == vfs::dosattrib::XATTR_NAME || PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

pub fn getxattr(c: &mut Compound, name: &[u8], out: &mut ReplyWriter) -> Answer {
    let target = object(c)?;
    let key = key(name)?;
    c.must_wait()?;
    let attr = attr_of(&c.cx, target)?;
    target.open(&c.cx, Access::READ, &attr)?;
    let value = target.object.node.xattr(&key, MAX_VALUE_BYTES)?;
    if c.room_left(out) < value.len() + 8 {
        return Err(c.too_big().into());
    }
    answer(Ok(&*value), out)
}

/// A change of the current object's attributes, with its change attribute around it.
fn changing(c: &Compound, work: impl FnOnce(&Target) -> Done<()>) -> Done<ChangeInfo> {
    let target = object(c)?;
    guard::may_change(target)?;
    let attr = attr_of(&c.cx, target)?;
    let around = target.begin_change();
    guard::change(c, attr.id, Change::Attributes)?;
    work(target)?;
    tell::changed(&target.object);
    let (before, after) = around.change();
    Ok(ChangeInfo {
        atomic: before.is_some() && after.is_some(),
        before: before.unwrap_or(attr.change),
        after: after.unwrap_or(attr.change),
    })
}

pub fn setxattr(c: &mut Compound, args: &SetxattrArgs<'_>, out: &mut ReplyWriter) -> Answer {
    object(c)?;
    let key = key(args.name)?;
    if args.value.len() > MAX_VALUE_BYTES {
        return Err(NfsStat4::XATTR2BIG.into());
    }
    c.must_wait()?;
    let info = changing(c, |target| {
        let node = &target.object.node;
        let there = match node.xattr(&key, MAX_VALUE_BYTES) {
            Ok(_) | Err(VfsError::RangeTooSmall) => true,
            Err(VfsError::NoXattr) => false,
            Err(error) => return Err(error.into()),
        };
        match (args.option, there) {
            (SetxattrOption::Create, true) => return Err(NfsStat4::EXIST.into()),
            (SetxattrOption::Replace, false) => return Err(NfsStat4::NOXATTR.into()),
            _ => {}
        }
        node.set_xattr(&target.cred, &key, args.value).map_err(|error| match error {
            VfsError::RangeTooSmall | VfsError::TooLarge => NfsStat4::XATTR2BIG.into(),
            other => other.into(),
        })
    });
    answer(info, out)
}

pub fn removexattr(c: &mut Compound, name: &[u8], out: &mut ReplyWriter) -> Answer {
    object(c)?;
    let key = key(name)?;
    c.must_wait()?;
    let info = changing(c, |target| Ok(target.object.node.remove_xattr(&target.cred, &key)?));
    answer(info, out)
}

/// LISTXATTRS: names in order, and the cookie is how many were told.
pub fn listxattrs(c: &mut Compound, args: &ListxattrsArgs, out: &mut ReplyWriter) -> Answer {
    let target = object(c)?;
    c.must_wait()?;
    let mut names = target.object.node.xattr_names()?;
    names.retain(|name| name.starts_with(NAMESPACE) && !is_own(name));
    names.sort_unstable();
    let from = usize::try_from(args.cookie).ok().filter(|&from| from <= names.len()).ok_or(NfsStat4::BAD_COOKIE)?;
    let room = c.room_left(out).saturating_sub(4);
    let limited = ListxattrsArgs { max_count_bytes: args.max_count_bytes.min(room as u32), ..*args };
    let mut writer = XattrNamesWriter::begin(&limited, out);
    let mut told = from;
    for name in names.iter().skip(from) {
        if !writer.name(name.strip_prefix(NAMESPACE).unwrap_or(name).as_bytes(), out) {
            break;
        }
        told += 1;
    }
    Ok(writer.end(told as u64, told == names.len(), out))
}
