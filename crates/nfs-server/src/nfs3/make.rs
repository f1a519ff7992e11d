//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 3.3.8 to 3.3.11).

use std::sync::Arc;

use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{
    CreateArgs, CreateHow, CreateOk, DirOp, MkdirArgs, MknodArgs, MknodData, Sattr, SpecData, SymlinkArgs,
};
use nfs_wire::xdr::{Bounded, Reader, Xdr};
use vfs::{Access, Attr, Disposition, FileKind, Name, OpenHow, Path, SetAttr, SetTime, Timestamp, Wait, WantKind};

use super::answer;
use super::object::{apply, wcc_of};
use crate::attr::{fattr, set_attr};
use crate::failure::{Done, Halt, Stop};
use crate::files::{Cx, Object, Target, name_of};
use crate::reply::ReplyWriter;
use crate::{guard, tell};

/// Permissions where the client names none: for the owner only.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// A name that comes and goes while CREATE looks at it.
const RETRIES: usize = 4;

type Made = Done<(Arc<Object>, Attr)>;

/// Makes something in a directory and answers with it.
fn make(
    cx: &Cx,
    at: &DirOp<'_>,
    out: &mut ReplyWriter,
    work: impl FnOnce(&Target, Name<'_>) -> Made,
) -> Result<(), Halt> {
    if cx.wait == Wait::Never {
        return Err(Halt::WouldBlock);
    }
    let mut changing = None;
    let made = cx.directory_to_change(&at.dir).and_then(|dir| {
        let attr = dir.attr(cx)?;
        let name = new_name(at.name)?;
        changing = Some(dir.begin_change());
        guard::children(&cx.server, attr.id);
        work(&dir, name)
    });
    let dir_wcc = wcc_of(cx, changing.as_ref(), &at.dir);
    let done = made.as_ref().map_err(|stop| *stop).map(|(object, attr)| CreateOk {
        handle: Some(Bounded(&object.handle)),
        attributes: Some(fattr(&object.export, attr)),
        dir_wcc,
    });
    answer(done, || dir_wcc, out)
}

/// `.` and `..` are in every directory.
pub(super) fn new_name(bytes: &[u8]) -> Result<Name<'_>, Stop> {
    if matches!(bytes, b"." | b"..") { Err(NfsStat3::EXIST.into()) } else { name_of(bytes) }
}

pub fn create(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = CreateArgs::decode(args)?;
    make(cx, &args.at, out, |dir, name| match &args.how {
        CreateHow::Unchecked(wanted) => unchecked(cx, dir, name, &set_attr(wanted)?),
        CreateHow::Guarded(wanted) => new_file(cx, dir, name, &set_attr(wanted)?),
        CreateHow::Exclusive(verifier) => exclusive(cx, dir, name, *verifier),
    })
}

fn unchecked(cx: &Cx, dir: &Target, name: Name<'_>, wanted: &SetAttr) -> Made {
    for _ in 0..RETRIES {
        match new_file(cx, dir, name, wanted) {
            Err(Stop::Status(NfsStat3::EXIST)) => {}
            other => return other,
        }
        match existing(cx, dir, name, wanted) {
            Err(Stop::Status(NfsStat3::NOENT)) => {}
            other => return other,
        }
    }
    Err(NfsStat3::JUKEBOX.into())
}

/// A file that is there already is taken as it is, but cut where the client says so.
fn existing(cx: &Cx, dir: &Target, name: Name<'_>, wanted: &SetAttr) -> Made {
    let (object, attr) = cx.entry(dir, name)?;
    if attr.kind != FileKind::File {
        return Err(NfsStat3::EXIST.into());
    }
    if wanted.len_bytes.is_none() {
        return Ok((object, attr));
    }
    let target = Target { object, cred: dir.cred.clone(), rights: dir.rights };
    let cut = SetAttr { len_bytes: wanted.len_bytes, ..SetAttr::default() };
    {
        let _changing = target.begin_change();
        apply(cx, &target, &attr, &cut)?;
    }
    let attr = target.attr(cx)?;
    Ok((target.object, attr))
}

fn new_file(cx: &Cx, dir: &Target, name: Name<'_>, wanted: &SetAttr) -> Made {
    let backend = &dir.object.export.backend;
    let access = Access::READ | Access::WRITE;
    let mode = wanted.mode.unwrap_or(FILE_MODE);
    let how = OpenHow { access, disposition: Disposition::Create, kind: WantKind::File, follow: false, mode };
    let opened = backend.open(&dir.cred, &*dir.object.node, &Path::here().join(name), &how, cx.wait)?;
    let rest = SetAttr { mode: None, len_bytes: wanted.len_bytes.filter(|&len| len > 0), ..*wanted };
    if rest != SetAttr::default() {
        opened.node.set_attr(&dir.cred, &rest)?;
    }
    let attr = opened.node.attr()?;
    tell::made(dir, name, attr.kind);
    let object = cx.adopt_entry(dir, name, Arc::clone(&opened.node))?;
    let target = Target { object, cred: dir.cred.clone(), rights: dir.rights };
    target.keep_made(access, &attr, &opened.node);
    Ok((target.object, attr))
}

/// The verifier is kept in the times until the client sets them, so that a CREATE sent again is known as one
/// (RFC 1813 3.3.8). The top bits are left out: there are file systems whose times end in 2038.
fn exclusive(cx: &Cx, dir: &Target, name: Name<'_>, verifier: [u8; 8]) -> Made {
    let [a, b, c, d, e, f, g, h] = verifier;
    let stamp = |bytes| Timestamp { secs: i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff), nanos: 0 };
    let (first, second) = (stamp([a, b, c, d]), stamp([e, f, g, h]));
    let wanted = SetAttr {
        mode: Some(0),
        accessed: Some(SetTime::At(first)),
        modified: Some(SetTime::At(second)),
        ..SetAttr::default()
    };
    match new_file(cx, dir, name, &wanted) {
        Err(Stop::Status(NfsStat3::EXIST)) => {}
        other => return other,
    }
    let (object, attr) = cx.entry(dir, name)?;
    let same = attr.kind == FileKind::File
        && attr.len_bytes == 0
        && attr.accessed.secs == first.secs
        && attr.modified.secs == second.secs;
    if same { Ok((object, attr)) } else { Err(NfsStat3::EXIST.into()) }
}

pub fn mkdir(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = MkdirArgs::decode(args)?;
    make(cx, &args.at, out, |dir, name| {
        let wanted = SetAttr { len_bytes: None, ..set_attr(&args.attributes)? };
        let how = OpenHow {
            access: Access::empty(),
            disposition: Disposition::Create,
            kind: WantKind::Directory,
            follow: false,
            mode: wanted.mode.unwrap_or(DIRECTORY_MODE),
        };
        let backend = &dir.object.export.backend;
        let opened = backend.open(&dir.cred, &*dir.object.node, &Path::here().join(name), &how, cx.wait)?;
        finish(cx, dir, name, &wanted, opened.node)
    })
}

pub fn symlink(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = SymlinkArgs::decode(args)?;
    make(cx, &args.at, out, |dir, name| {
        // A link's permissions are nobody's business, and its times are not followed to what it names.
        let wanted = Sattr { size_bytes: None, mode: None, ..args.attributes };
        let wanted = SetAttr { accessed: None, modified: None, ..set_attr(&wanted)? };
        let backend = &dir.object.export.backend;
        backend.symlink(&dir.cred, &*dir.object.node, &Path::here().join(name), args.target)?;
        made_by_name(cx, dir, name, &wanted)
    })
}

pub fn mknod(cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    let args = MknodArgs::decode(args)?;
    make(cx, &args.at, out, |dir, name| {
        let number = |device: &SpecData| Some(u64::from(device.major) << 32 | u64::from(device.minor));
        let (kind, wanted, device) = match &args.data {
            MknodData::Fifo(wanted) => (FileKind::Fifo, wanted, None),
            MknodData::Socket(wanted) => (FileKind::Socket, wanted, None),
            MknodData::Character(wanted, device) => (FileKind::CharDevice, wanted, number(device)),
            MknodData::Block(wanted, device) => (FileKind::BlockDevice, wanted, number(device)),
            MknodData::Other(_) => return Err(NfsStat3::BADTYPE.into()),
        };
        let wanted = SetAttr { len_bytes: None, ..set_attr(wanted)? };
        let mode = wanted.mode.unwrap_or(FILE_MODE);
        let backend = &dir.object.export.backend;
        let (node, path) = (&*dir.object.node, Path::here().join(name));
        match device {
            None => backend.make_special(&dir.cred, node, &path, kind, mode)?,
            Some(rdev) => backend.make_device(&dir.cred, node, &path, kind, rdev, mode)?,
        }
        made_by_name(cx, dir, name, &wanted)
    })
}

fn made_by_name(cx: &Cx, dir: &Target, name: Name<'_>, wanted: &SetAttr) -> Made {
    let backend = &dir.object.export.backend;
    let opened = backend.open(&dir.cred, &*dir.object.node, &Path::here().join(name), &super::LOOK, cx.wait)?;
    finish(cx, dir, name, wanted, opened.node)
}

/// Sets what the making did not.
fn finish(cx: &Cx, dir: &Target, name: Name<'_>, wanted: &SetAttr, node: Arc<dyn vfs::Node>) -> Made {
    let rest = SetAttr { mode: None, ..*wanted };
    if rest != SetAttr::default() {
        node.set_attr(&dir.cred, &rest)?;
    }
    let attr = node.attr()?;
    tell::made(dir, name, attr.kind);
    Ok((cx.adopt_entry(dir, name, node)?, attr))
}
