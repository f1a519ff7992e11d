//! GETATTR, SETATTR, VERIFY, NVERIFY, ACCESS and READLINK (RFC 8881 18.7, 18.30, 18.31, 18.15, 18.1, 18.24).

use coherence::{AccessKinds, Change};
use nfs_wire::nfs4::{
    Access as Rights, AccessOk, Attr as A, Bitmap, Fattr, NfsStat4, SetattrArgs, SetattrRes, Stateid, put_fattr,
};
use nfs_wire::xdr::Xdr;
use vfs::{Access, AccessMask, Attr, Capabilities, FileKind, SetAttr};

use crate::files::Target;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, Stop, answer, answer_with};
use crate::nfs4::fh::{Fh, attr_of};
use crate::nfs4::guard;
use crate::nfs4::owners::Told;
use crate::nfs4::view::{self, View};
use crate::nfs4::wanted::Wanted;
use crate::reply::ReplyWriter;
use crate::tell;

/// What the holder of a write delegation may know better.
const OF_THE_DATA: &[A] = &[A::Change, A::Size, A::SpaceUsed, A::TimeModify, A::TimeMetadata];

/// Does something with the view of the current object.
fn with_view<R>(c: &Compound, asked: &Bitmap, work: impl FnOnce(&View<'_>) -> R) -> Done<R> {
    let fh = c.current()?;
    let handle = fh.handle(&c.cx.server)?;
    match fh {
        Fh::Pseudo => Ok(work(&View::pseudo(&c.cx, c.minor, &handle, asked)?)),
        Fh::Real(target) => {
            let mut attr = guard::attr(c, target)?;
            if !asked.and(&Bitmap::of(OF_THE_DATA)).is_empty() {
                attr = c.cx.server.state.as_the_holder_sees_it(c, attr)?;
            }
            let object = &target.object;
            let asks_quotas = !asked.and(&Bitmap::of(view::OF_QUOTAS)).is_empty();
            if asks_quotas && object.export.backend.capabilities().contains(Capabilities::QUOTA) {
                c.must_wait()?;
            }
            let node = Some(&*object.node);
            let told = Told::of(&c.cx, asked, &attr, node)?;
            Ok(work(&View::of(&c.cx.server, c.minor, &object.export, attr, &handle, node).telling(told)))
        }
    }
}

pub fn getattr(c: &mut Compound, request: &Bitmap, out: &mut ReplyWriter) -> Answer {
    c.current()?;
    is_readable(request)?;
    with_view(c, request, |view| {
        NfsStat4::OK.put(out);
        put_fattr(request, view, out);
    })?;
    Ok(NfsStat4::OK)
}

/// INVAL for attributes that can only be set (RFC 8881 5.5).
pub fn is_readable(request: &Bitmap) -> Done<()> {
    if request.and(&view::write_only()).is_empty() { Ok(()) } else { Err(NfsStat4::INVAL.into()) }
}

/// VERIFY, and with `same` false NVERIFY: the values are compared as they travel.
pub fn verify(c: &mut Compound, given: &Fattr<'_>, same: bool, out: &mut ReplyWriter) -> Answer {
    let own = with_view(c, &given.mask, |view| -> Done<Vec<u8>> {
        let readable = view.supported();
        if given.mask.is_beyond() || !given.mask.minus(&readable).is_empty() {
            return Err(NfsStat4::ATTRNOTSUPP.into());
        }
        if given.mask.has(A::RdattrError) || !given.mask.and(&view::write_only()).is_empty() {
            return Err(NfsStat4::INVAL.into());
        }
        given.attrs()?;
        let mut values = Vec::new();
        for attr in given.mask.iter().filter_map(A::from_u32) {
            nfs_wire::nfs4::AttrSource::put_attr(view, attr, &mut values);
        }
        Ok(values)
    })??;
    match (own == given.values, same) {
        (true, false) => Err(NfsStat4::SAME.into()),
        (false, true) => Err(NfsStat4::NOT_SAME.into()),
        _ => answer(Ok(()), out),
    }
}

pub fn setattr(c: &mut Compound, args: &SetattrArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let mut attrs_set = Bitmap::EMPTY;
    let status = match set(c, args, &mut attrs_set) {
        Ok(()) => NfsStat4::OK,
        Err(Stop::WouldBlock) => return Err(Stop::WouldBlock),
        Err(Stop::Status(status)) => status,
    };
    answer_with(status, &SetattrRes { status, attrs_set }, out)
}

fn set(c: &Compound, args: &SetattrArgs<'_>, attrs_set: &mut Bitmap) -> Done<()> {
    let target = c.target_or(NfsStat4::ROFS)?;
    let supported = view::supported(c.minor, Some(&*target.object.export));
    let mut wanted = Wanted::settable(&c.cx, &args.attributes, &supported)?;
    c.must_wait()?;
    guard::may_change(target)?;
    let attr = guard::attr(c, target)?;
    if let Some(len) = wanted.set.len_bytes {
        set_len(c, target, &attr, &args.stateid, len)?;
        *attrs_set = attrs_set.with(A::Size as u32);
    }
    if !wanted.is_length_only() {
        guard::change(c, attr.id, Change::Attributes)?;
        if wanted.acl.is_some() {
            guard::change(c, attr.id, Change::Rename)?;
        }
        if attr.kind == FileKind::Symlink {
            // A link's permissions are nobody's business: Linux keeps none.
            wanted.set.mode = None;
        }
        wanted.apply_rest(&target.cred, &*target.object.node)?;
        tell::changed(&target.object);
    }
    *attrs_set = wanted.mask;
    Ok(())
}

fn set_len(c: &Compound, target: &Target, attr: &Attr, stateid: &Stateid, len: u64) -> Done<()> {
    match attr.kind {
        FileKind::File => {}
        FileKind::Directory => return Err(NfsStat4::ISDIR.into()),
        _ => return Err(NfsStat4::INVAL.into()),
    }
    let right = c.cx.server.state.check_io(c, stateid, attr.id, AccessKinds::WRITE)?;
    let (from, to) = (len.min(attr.len_bytes), len.max(attr.len_bytes));
    let io = guard::Io::begin(c, right, attr.id, AccessKinds::WRITE, from, to - from)?;
    let node = guard::open(c, target, &io, Access::WRITE, attr)?;
    node.set_attr(&target.cred, &SetAttr { len_bytes: Some(len), ..SetAttr::default() })?;
    io.written(c);
    Ok(())
}

/// Which bits ask for which rights, of a directory and of anything else. What does not make sense for the kind of object
/// is not supported (RFC 8881 18.1.3).
fn rights_of(directory: bool, minor: u32) -> Vec<(Rights, AccessMask)> {
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
    if minor >= 2 {
        table.extend([
            (Rights::XATTR_READ, AccessMask::READ),
            (Rights::XATTR_WRITE, AccessMask::WRITE),
            (Rights::XATTR_LIST, AccessMask::READ),
        ]);
    }
    table
}

pub fn access(c: &mut Compound, asked: Rights, out: &mut ReplyWriter) -> Answer {
    let most = if c.minor >= 2 { 0x1ff } else { 0x3f };
    let fh = c.current()?;
    if asked.bits() & !most != 0 {
        return Err(NfsStat4::INVAL.into());
    }
    let Fh::Real(target) = fh else {
        let supported = Rights::READ | Rights::LOOKUP | Rights::MODIFY | Rights::EXTEND | Rights::DELETE;
        let access = asked & (Rights::READ | Rights::LOOKUP);
        return answer(Ok(AccessOk { supported: supported & asked, access }), out);
    };
    let attr = attr_of(&c.cx, target)?;
    let table = rights_of(attr.kind == FileKind::Directory, c.minor);
    let mut ask = AccessMask::empty();
    table.iter().filter(|(right, _)| asked.contains(*right)).for_each(|(_, mask)| ask |= *mask);
    if !target.rights.write {
        ask -= AccessMask::WRITE;
    }
    let has = target.object.node.access(&target.cred, ask)?;
    let (mut supported, mut access) = (Rights::empty(), Rights::empty());
    for (right, mask) in table {
        supported.set(right, asked.contains(right));
        access.set(right, asked.contains(right) && has.contains(mask));
    }
    answer(Ok(AccessOk { supported, access }), out)
}

pub fn readlink(c: &mut Compound, out: &mut ReplyWriter) -> Answer {
    let wrong = if c.minor == 0 { NfsStat4::INVAL } else { NfsStat4::WRONG_TYPE };
    let target = c.target_or(wrong)?;
    if target.object.node.kind() != FileKind::Symlink {
        return Err(wrong.into());
    }
    attr_of(&c.cx, target)?;
    let text = target.object.node.read_link()?;
    answer(Ok(&*text), out)
}
