//! REMOVE, RMDIR, RENAME and LINK (RFC 1813 3.3.12 to 3.3.15).

use std::sync::Arc;

use coherence::Change;
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{DirOp, LinkArgs, LinkWcc, RenameArgs, RenameWcc};
use nfs_wire::xdr::{Reader, Xdr};
use vfs::{Attr, FileKind, Name, Path, Rename, VfsError, Wait};

use super::answer;
use super::make::new_name;
use super::object::wcc_of;
use crate::failure::{Done, Halt};
use crate::files::{Changing, Cx, Target, name_of, post_op};
use crate::reply::ReplyWriter;
use crate::{guard, tell};

/// REMOVE, and with `directory` RMDIR.
pub fn remove(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter, directory: bool) -> Result<(), Halt> {
    let args = DirOp::decode(args)?;
    if cx.wait == Wait::Never {
        return Err(Halt::WouldBlock);
    }
    let mut changing = None;
    let done = take_away(cx, &args, directory, &mut changing);
    let wcc = wcc_of(cx, changing.as_ref(), &args.dir);
    answer(done.map(|()| wcc), || wcc, out)
}

fn take_away(cx: &Cx, args: &DirOp<'_>, directory: bool, changing: &mut Option<Changing>) -> Done<()> {
    let dir = cx.directory_to_change(&args.dir)?;
    if args.name == b".." && directory {
        return Err(NfsStat3::EXIST.into());
    }
    let name = name_of(args.name)?;
    let dir_attr = dir.attr(cx)?;
    *changing = Some(dir.begin_change());
    let found = Found::at(&dir, name)?;
    match (found.attr.kind == FileKind::Directory, directory) {
        (true, false) => return Err(NfsStat3::ISDIR.into()),
        (false, true) => return Err(NfsStat3::NOTDIR.into()),
        _ => {}
    }
    guard::take_name(&cx.server, found.attr.id, Change::Delete)?;
    guard::children(&cx.server, dir_attr.id);
    let backend = &dir.object.export.backend;
    backend.remove(&dir.cred, &*dir.object.node, &Path::here().join(name), Some(found.attr.id))?;
    tell::removed(&dir, name, found.attr.kind);
    found.forget(cx, &dir);
    Ok(())
}

/// An entry, before its name is taken away.
struct Found {
    attr: Attr,
    handle: Vec<u8>,
}

impl Found {
    fn at(dir: &Target, name: Name<'_>) -> Done<Self> {
        let (attr, handle) = dir.object.export.backend.entry_handle(&dir.cred, &*dir.object.node, name)?;
        Ok(Self { attr, handle })
    }

    /// Closes the object when that was its last name, so that its space is free at once.
    fn forget(&self, cx: &Cx, dir: &Target) {
        if (self.attr.nlink <= 1 || self.attr.kind == FileKind::Directory)
            && let Some(handle) = cx.server.key.seal(&dir.object.export.id, &self.handle)
        {
            cx.server.cache.forget(&handle);
        }
    }
}

pub fn rename(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = RenameArgs::decode(args)?;
    if cx.wait == Wait::Never {
        return Err(Halt::WouldBlock);
    }
    let (mut from, mut to) = (None, None);
    let done = move_entry(cx, &args, &mut from, &mut to);
    let wcc = RenameWcc {
        from_wcc: wcc_of(cx, from.as_ref(), &args.from.dir),
        to_wcc: wcc_of(cx, to.as_ref(), &args.to.dir),
    };
    answer(done.map(|()| wcc), || wcc, out)
}

fn move_entry(
    cx: &Cx,
    args: &RenameArgs<'_>,
    from_change: &mut Option<Changing>,
    to_change: &mut Option<Changing>,
) -> Done<()> {
    let (from, to) = (cx.directory_to_change(&args.from.dir)?, cx.directory_to_change(&args.to.dir)?);
    let (from_id, to_id) = (from.attr(cx)?.id, to.attr(cx)?.id);
    if !Arc::ptr_eq(&from.object.export, &to.object.export) {
        return Err(NfsStat3::XDEV.into());
    }
    let (old, new) = (name_of(args.from.name)?, new_name(args.to.name)?);
    *from_change = Some(from.begin_change());
    if from_id != to_id {
        *to_change = Some(to.begin_change());
    }
    let source = Found::at(&from, old)?;
    let replaced = match Found::at(&to, new) {
        Ok(found) => Some(found),
        Err(stop) if stop == VfsError::NotFound.into() => None,
        Err(stop) => return Err(stop),
    };
    guard::take_name(&cx.server, source.attr.id, Change::Rename)?;
    if let Some(found) = replaced.as_ref().filter(|found| found.attr.id != source.attr.id) {
        guard::take_name(&cx.server, found.attr.id, Change::Delete)?;
    }
    guard::children(&cx.server, from_id);
    guard::children(&cx.server, to_id);
    let (old_path, new_path) = (Path::here().join(old), Path::here().join(new));
    let backend = &from.object.export.backend;
    backend.rename(&from.cred, (&*from.object.node, &old_path), (&*to.object.node, &new_path), Rename::Replace)?;
    tell::moved((&from, old), (&to, new), source.attr.kind);
    if let Some(found) = replaced.filter(|found| found.attr.id != source.attr.id) {
        found.forget(cx, &to);
    }
    Ok(())
}

pub fn link(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = LinkArgs::decode(args)?;
    if cx.wait == Wait::Never {
        return Err(Halt::WouldBlock);
    }
    let mut changing = None;
    let done = give_name(cx, &args, &mut changing);
    let dir_wcc = wcc_of(cx, changing.as_ref(), &args.link.dir);
    let attributes = match &done {
        Ok(target) => post_op(&target.object),
        Err(_) => cx.attr_if_known(&args.handle),
    };
    let wcc = LinkWcc { attributes, dir_wcc };
    answer(done.map(|_| wcc), || wcc, out)
}

fn give_name(cx: &Cx, args: &LinkArgs<'_>, changing: &mut Option<Changing>) -> Done<Target> {
    let (target, dir) = (cx.target(&args.handle)?, cx.directory_to_change(&args.link.dir)?);
    let (attr, dir_attr) = (target.attr(cx)?, dir.attr(cx)?);
    if !Arc::ptr_eq(&target.object.export, &dir.object.export) {
        return Err(NfsStat3::XDEV.into());
    }
    let name = new_name(args.link.name)?;
    *changing = Some(dir.begin_change());
    guard::change(&cx.server, attr.id, Change::Rename)?;
    guard::children(&cx.server, dir_attr.id);
    let backend = &dir.object.export.backend;
    backend.link(&dir.cred, &*target.object.node, &*dir.object.node, &Path::here().join(name))?;
    tell::made(&dir, name, attr.kind);
    Ok(target)
}
