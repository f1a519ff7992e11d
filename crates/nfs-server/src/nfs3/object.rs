//! GETATTR, SETATTR, LOOKUP, ACCESS and READLINK (RFC 1813 3.3.1 to 3.3.5).

use std::sync::Arc;

use coherence::{AccessKinds, Change};
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{
    Access as Rights, AccessArgs, AccessOk, DirOp, FileHandle, LookupOk, PostOpAttr, ReadlinkOk, SetattrArgs, WccData,
};
use nfs_wire::xdr::{Bounded, Reader, Xdr};
use vfs::{Access, AccessMask, Attr, FileKind, SetAttr};

use super::{LOOK, answer};
use crate::attr::{fattr, set_attr, time};
use crate::failure::{Done, Halt};
use crate::files::{Changing, Cx, Object, Target, name_of, post_op};
use crate::reply::ReplyWriter;
use crate::{guard, tell};

pub fn getattr(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let handle = FileHandle::decode(args)?;
    let found = cx.target_at_mount(&handle).and_then(|target| Ok(fattr(&target.object.export, &target.attr(cx)?)));
    answer(found, || (), out)
}

pub fn setattr(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = SetattrArgs::decode(args)?;
    let mut changing = None;
    let done = set(cx, &args, &mut changing);
    let wcc = wcc_of(cx, changing.as_ref(), &args.handle);
    answer(done.map(|()| wcc), || wcc, out)
}

fn set(cx: &Cx, args: &SetattrArgs<'_>, changing: &mut Option<Changing>) -> Done<()> {
    let target = cx.target_to_change(&args.handle)?;
    let attr = target.attr(cx)?;
    let wanted = set_attr(&args.attributes)?;
    *changing = Some(target.begin_change());
    if args.guard_ctime.is_some_and(|guard| guard != time(attr.changed)) {
        return Err(NfsStat3::NOT_SYNC.into());
    }
    apply(cx, &target, &attr, &wanted)
}

/// Sets attributes of an object as the caller may.
pub(super) fn apply(cx: &Cx, target: &Target, attr: &Attr, wanted: &SetAttr) -> Done<()> {
    if let Some(len) = wanted.len_bytes {
        set_len(cx, target, attr, len)?;
    }
    let rest = SetAttr { len_bytes: None, ..*wanted };
    if rest != SetAttr::default() {
        guard::change(&cx.server, attr.id, Change::Attributes)?;
        target.object.node.set_attr(&target.cred, &rest)?;
        tell::changed(&target.object);
    }
    Ok(())
}

fn set_len(cx: &Cx, target: &Target, attr: &Attr, len: u64) -> Done<()> {
    match attr.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(NfsStat3::ISDIR.into()),
        _ => return Err(NfsStat3::INVAL.into()),
    }
    let (from, to) = (len.min(attr.len_bytes), len.max(attr.len_bytes));
    let claim = guard::io(&cx.server, attr.id, AccessKinds::WRITE, from, to - from)?;
    let node = target.open(cx, Access::WRITE, attr)?;
    node.set_attr(&target.cred, &SetAttr { len_bytes: Some(len), ..SetAttr::default() })?;
    guard::written(&cx.server, &claim);
    tell::written(&target.object);
    Ok(())
}

/// What is told of an object that was to be changed, or of one that nobody got to.
pub(super) fn wcc_of(cx: &Cx, changing: Option<&Changing>, handle: &[u8]) -> WccData {
    match changing {
        Some(changing) => changing.wcc(),
        None => WccData { before: None, after: cx.attr_if_known(handle) },
    }
}

pub fn lookup(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = DirOp::decode(args)?;
    let found = find(cx, &args);
    let done = found.as_ref().map_err(|stop| *stop).map(|(object, attr, dir_attributes)| LookupOk {
        handle: Bounded(&object.handle),
        attributes: Some(fattr(&object.export, attr)),
        dir_attributes: *dir_attributes,
    });
    answer(done, || cx.attr_if_known(&args.dir), out)
}

/// The object, what it is like, and what the directory was like before it was looked for: a client that compares that with
/// what it is later sees every change since.
fn find(cx: &Cx, args: &DirOp<'_>) -> Done<(Arc<Object>, Attr, PostOpAttr)> {
    let dir = cx.target(&args.dir)?;
    dir.must_be_directory()?;
    let attr = dir.attr(cx)?;
    let dir_attributes = Some(fattr(&dir.object.export, &attr));
    let (object, attr) = match args.name {
        b"." => (dir.object, attr),
        b".." => parent(cx, &dir, attr)?,
        name => cx.entry(&dir, name_of(name)?)?,
    };
    Ok((object, attr, dir_attributes))
}

/// The directory above; an export's root is above itself.
pub(crate) fn parent(cx: &Cx, dir: &Target, attr: Attr) -> Done<(Arc<Object>, Attr)> {
    let export = &dir.object.export;
    let Some(path) = export.backend.path_of(&*dir.object.node)?.parent() else {
        return Ok((Arc::clone(&dir.object), attr));
    };
    let opened = export.backend.open(&dir.cred, &*export.backend.root(), &path, &LOOK, cx.wait)?;
    let handle = export.backend.handle_of(&*opened.node)?;
    Ok((cx.adopt(export, &handle, opened.node)?, opened.attr))
}

pub fn access(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = AccessArgs::decode(args)?;
    let done = granted(cx, &args);
    answer(done, || cx.attr_if_known(&args.handle), out)
}

fn granted(cx: &Cx, args: &AccessArgs<'_>) -> Done<AccessOk> {
    let target = cx.target(&args.handle)?;
    let attr = target.attr(cx)?;
    let directory = attr.kind == FileKind::Directory;
    let mut table = vec![
        (Rights::READ, AccessMask::READ),
        (Rights::MODIFY, AccessMask::WRITE),
        (Rights::EXTEND, AccessMask::WRITE),
    ];
    if directory {
        table.extend([(Rights::LOOKUP, AccessMask::EXECUTE), (Rights::DELETE, AccessMask::WRITE)]);
    } else {
        table.push((Rights::EXECUTE, AccessMask::EXECUTE));
    }
    let mut ask = AccessMask::empty();
    table.iter().filter(|(right, _)| args.access.contains(*right)).for_each(|(_, mask)| ask |= *mask);
    if !target.rights.write {
        ask -= AccessMask::WRITE;
    }
    let has = target.object.node.access(&target.cred, ask)?;
    let mut access = Rights::empty();
    for (right, mask) in table {
        access.set(right, args.access.contains(right) && has.contains(mask));
    }
    Ok(AccessOk { attributes: Some(fattr(&target.object.export, &attr)), access })
}

pub fn readlink(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let handle = FileHandle::decode(args)?;
    let found = cx.target(&handle).and_then(|target| {
        target.attr(cx)?;
        Ok((target.object.node.read_link()?, post_op(&target.object)))
    });
    let done = found.as_ref().map_err(|stop| *stop);
    let done = done.map(|(target, attributes)| ReadlinkOk { attributes: *attributes, target });
    answer(done, || cx.attr_if_known(&handle), out)
}
