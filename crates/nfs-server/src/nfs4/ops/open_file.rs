//! The file an OPEN is about: found by its name, made, or the current one (RFC 8881 18.16.3). Nothing is claimed here;
//! a file that is to be cut is cut when the claim is had.

use std::sync::Arc;

use nfs_wire::nfs4::{Attr as A, Bitmap, ChangeInfo, Fattr, NfsStat4, OpenArgs, OpenClaim, OpenHow, Verifier};
use vfs::{Access, AccessMask, Attr, Disposition, FileKind, Name, Node, Path, SetAttr, SetTime, Timestamp, WantKind};

use crate::files::Target;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Done, Stop};
use crate::nfs4::fh::{Fh, attr_of};
use crate::nfs4::state::share::Mode;
use crate::nfs4::view;
use crate::nfs4::wanted::Wanted;
use crate::{guard, tell};

/// Permissions where the client names none: for the owner only.
const FILE_MODE: u32 = 0o600;
/// A name that comes and goes while OPEN looks at it.
const RETRIES: usize = 4;

/// The file of an OPEN.
pub(super) struct Found {
    pub target: Target,
    pub attr: Attr,
    /// Of the directory.
    pub change: ChangeInfo,
    /// What of the attributes was set.
    pub attrs_set: Bitmap,
    /// It was made, and opened by that.
    pub made: Option<Arc<dyn Node>>,
    /// It is to be cut to nothing.
    pub cut: bool,
}

const NO_CHANGE: ChangeInfo = ChangeInfo { atomic: false, before: 0, after: 0 };

/// Finds or makes it.
pub(super) fn find(c: &Compound, args: &OpenArgs<'_>, mode: Mode) -> Done<Found> {
    let name = match args.claim {
        OpenClaim::Null(name) | OpenClaim::DelegateCur(_, name) => name,
        OpenClaim::Previous(_) | OpenClaim::Fh | OpenClaim::DelegCurFh(_) => return current(c, args, mode),
        OpenClaim::DelegatePrev(_) | OpenClaim::DelegPrevFh => return Err(NfsStat4::NOTSUPP.into()),
    };
    c.current()?.must_be_directory()?;
    let name = Name::new(name)?;
    let Fh::Real(dir) = c.current()? else { return in_pseudo_root(c, name, args) };
    let before = attr_of(&c.cx, dir)?;
    let found = match &args.how {
        OpenHow::NoCreate => existing(c, dir, name),
        how => make(c, dir, &before, name, how),
    };
    let mut found = found?;
    found.change = ChangeInfo { atomic: false, before: before.change, after: attr_of(&c.cx, dir)?.change };
    permit(&found, mode)?;
    Ok(found)
}

fn in_pseudo_root(c: &Compound, name: Name<'_>, args: &OpenArgs<'_>) -> Done<Found> {
    let settings = c.cx.server.settings.load();
    let there = settings.exports.iter().any(|export| export.name.as_bytes() == name.as_bytes());
    Err(match (there, args.how) {
        (true, OpenHow::NoCreate | OpenHow::Unchecked(_)) => NfsStat4::ISDIR,
        (true, _) => NfsStat4::EXIST,
        (false, OpenHow::NoCreate) => NfsStat4::NOENT,
        (false, _) => NfsStat4::ROFS,
    }
    .into())
}

/// The current file: reclaimed, or opened by its handle.
fn current(c: &Compound, args: &OpenArgs<'_>, mode: Mode) -> Done<Found> {
    let target = c.target_or(NfsStat4::ISDIR)?.clone();
    let attr = attr_of(&c.cx, &target)?;
    is_file(&attr, c.minor)?;
    // A file that is there already can only be cut by an OPEN that creates.
    let cut = matches!(&args.how, OpenHow::Unchecked(given) if cuts(c, &target, given)?);
    let found = Found { target, attr, change: NO_CHANGE, attrs_set: Bitmap::EMPTY, made: None, cut };
    permit(&found, mode)?;
    Ok(found)
}

fn existing(c: &Compound, dir: &Target, name: Name<'_>) -> Done<Found> {
    let (object, attr) = c.cx.entry(dir, name)?;
    is_file(&attr, c.minor)?;
    let target = Target { object, cred: dir.cred.clone(), rights: dir.rights };
    Ok(Found { target, attr, change: NO_CHANGE, attrs_set: Bitmap::EMPTY, made: None, cut: false })
}

fn is_file(attr: &Attr, minor: u32) -> Done<()> {
    Err(match attr.kind {
        FileKind::File => return Ok(()),
        FileKind::Directory => NfsStat4::ISDIR,
        FileKind::Symlink => NfsStat4::SYMLINK,
        // RFC 8881 15.1.2.9; 4.0 has no word of its own for it.
        _ if minor > 0 => NfsStat4::WRONG_TYPE,
        _ => NfsStat4::SYMLINK,
    }
    .into())
}

/// Whether the caller may open the file so. Its maker may, whatever permissions it gave it.
fn permit(found: &Found, mode: Mode) -> Done<()> {
    let target = &found.target;
    if (mode.writes() || found.cut) && !target.rights.write {
        return Err(NfsStat4::ROFS.into());
    }
    if found.made.is_some() {
        return Ok(());
    }
    let mut ask = AccessMask::empty();
    ask.set(AccessMask::READ, mode.reads());
    ask.set(AccessMask::WRITE, mode.writes() || found.cut);
    let has = target.object.node.access(&target.cred, ask | AccessMask::EXECUTE)?;
    // Who may execute a file may read it: that is how it is executed (RFC 8881 18.16.4).
    let executes = mode.reads() && !mode.writes() && has.contains(AccessMask::EXECUTE);
    if has.contains(ask) || executes { Ok(()) } else { Err(NfsStat4::ACCESS.into()) }
}

fn make(c: &Compound, dir: &Target, dir_attr: &Attr, name: Name<'_>, how: &OpenHow<'_>) -> Done<Found> {
    c.must_wait()?;
    if !dir.rights.write {
        // A file that is there is opened all the same.
        return match how {
            OpenHow::Unchecked(_) => existing(c, dir, name).map_err(|_| NfsStat4::ROFS.into()),
            _ => Err(NfsStat4::ROFS.into()),
        };
    }
    guard::children(&c.cx.server, dir_attr.id);
    let supported = view::supported(c.minor, Some(&dir.object.export));
    match how {
        OpenHow::NoCreate => existing(c, dir, name),
        OpenHow::Unchecked(given) => {
            let wanted = Wanted::of(&c.cx, given, &supported, &view::writable(&supported))?;
            unchecked(c, dir, name, &wanted)
        }
        OpenHow::Guarded(given) => {
            let wanted = Wanted::of(&c.cx, given, &supported, &view::writable(&supported))?;
            new_file(c, dir, name, &wanted)
        }
        OpenHow::Exclusive(verifier) => exclusive(c, dir, name, *verifier, Wanted::default()),
        OpenHow::Exclusive41(verifier, given) => {
            let wanted = Wanted::of(&c.cx, given, &supported, &view::writable_exclusive(&supported))?;
            exclusive(c, dir, name, *verifier, wanted)
        }
    }
}

fn unchecked(c: &Compound, dir: &Target, name: Name<'_>, wanted: &Wanted) -> Done<Found> {
    for _ in 0..RETRIES {
        match existing(c, dir, name) {
            Err(Stop::Status(NfsStat4::NOENT)) => {}
            Ok(found) => {
                let cut = wanted.set.len_bytes == Some(0);
                let attrs_set = if cut { Bitmap::of(&[A::Size]) } else { Bitmap::EMPTY };
                return Ok(Found { cut, attrs_set, ..found });
            }
            other => return other,
        }
        match new_file(c, dir, name, wanted) {
            Err(Stop::Status(NfsStat4::EXIST)) => {}
            other => return other,
        }
    }
    Err(NfsStat4::DELAY.into())
}

fn cuts(c: &Compound, target: &Target, given: &Fattr<'_>) -> Done<bool> {
    let supported = view::supported(c.minor, Some(&target.object.export));
    let wanted = Wanted::of(&c.cx, given, &supported, &view::writable(&supported))?;
    Ok(wanted.set.len_bytes == Some(0))
}

fn new_file(c: &Compound, dir: &Target, name: Name<'_>, wanted: &Wanted) -> Done<Found> {
    let backend = &dir.object.export.backend;
    let access = Access::READ | Access::WRITE;
    let mode = wanted.set.mode.unwrap_or(FILE_MODE);
    let how = vfs::OpenHow { access, disposition: Disposition::Create, kind: WantKind::File, follow: false, mode };
    let opened = backend.open(&dir.cred, &*dir.object.node, &Path::here().join(name), &how, c.cx.wait)?;
    if let Some(len) = wanted.set.len_bytes.filter(|&len| len > 0) {
        opened.node.set_attr(&dir.cred, &SetAttr { len_bytes: Some(len), ..SetAttr::default() })?;
    }
    let attrs_set = wanted.apply_new(&dir.cred, &*opened.node, &opened.attr)?;
    let attr = opened.node.attr()?;
    tell::made(dir, name, attr.kind);
    let object = c.cx.adopt_entry(dir, name, Arc::clone(&opened.node))?;
    let target = Target { object, cred: dir.cred.clone(), rights: dir.rights };
    target.keep_made(access, &attr, &opened.node);
    Ok(Found { target, attr, change: NO_CHANGE, attrs_set, made: Some(opened.node), cut: false })
}

/// The verifier is kept in the times until the client sets them, so that an OPEN sent again is known as one. The top bits
/// are left out: there are file systems whose times end in 2038.
fn exclusive(c: &Compound, dir: &Target, name: Name<'_>, verifier: Verifier, mut wanted: Wanted) -> Done<Found> {
    let [a, b, c1, d, e, f, g, h] = verifier;
    let stamp = |bytes| Timestamp { secs: i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff), nanos: 0 };
    let (first, second) = (stamp([a, b, c1, d]), stamp([e, f, g, h]));
    let named = !wanted.mask.is_empty();
    wanted.set.mode = wanted.set.mode.or(if named { None } else { Some(0) });
    wanted.set.accessed = Some(SetTime::At(first));
    wanted.set.modified = Some(SetTime::At(second));
    match new_file(c, dir, name, &wanted) {
        Err(Stop::Status(NfsStat4::EXIST)) => {}
        Err(stop) => return Err(stop),
        Ok(mut found) => {
            // What the client must still set, since the verifier is there now (RFC 8881 18.16.3).
            found.attrs_set = found.attrs_set.or(&Bitmap::of(&[A::TimeAccessSet, A::TimeModifySet]));
            return Ok(found);
        }
    }
    let found = existing(c, dir, name).map_err(|stop| match stop {
        Stop::Status(NfsStat4::ISDIR | NfsStat4::SYMLINK | NfsStat4::WRONG_TYPE) => NfsStat4::EXIST.into(),
        other => other,
    })?;
    let attr = &found.attr;
    if attr.len_bytes != 0 || attr.accessed.secs != first.secs || attr.modified.secs != second.secs {
        return Err(NfsStat4::EXIST.into());
    }
    let made = found.target.open(&c.cx, Access::READ | Access::WRITE, attr)?;
    Ok(Found {
        attrs_set: wanted.mask.or(&Bitmap::of(&[A::TimeAccessSet, A::TimeModifySet])),
        made: Some(made),
        ..found
    })
}
