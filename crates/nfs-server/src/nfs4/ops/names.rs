//! Names: LOOKUP, LOOKUPP, SECINFO, REMOVE, RENAME and LINK (RFC 8881 18.13, 18.14, 18.29, 18.45, 18.25, 18.26, 18.9).

use std::sync::Arc;

use auth::krb5::MECHANISM;
use coherence::Change;
use nfs_wire::nfs4::{ChangeInfo, GssInfo, NfsStat4, RenameArgs, Secinfo, SecinfoStyle};
use nfs_wire::rpc::{Flavor, GssService};
use nfs_wire::xdr::List;
use vfs::{Attr, FileKind, Name, Path, Rename};

use crate::config::Sec;
use crate::files::Target;
use crate::nfs3::parent;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, Stop, answer};
use crate::nfs4::fh::{Fh, attr_of, named_root};
use crate::nfs4::guard;
use crate::reply::ReplyWriter;
use crate::tell;

pub fn lookup(c: &mut Compound, name: &[u8], out: &mut ReplyWriter) -> Answer {
    let found = find(c, name)?;
    c.must_take(&found)?;
    c.set_current(found);
    answer(Ok(()), out)
}

/// The object of a name in the current directory.
pub fn find(c: &Compound, name: &[u8]) -> Done<Fh> {
    let dir = c.current()?;
    dir.must_be_directory()?;
    let name = Name::new(name)?;
    let Fh::Real(dir) = dir else { return Ok(Fh::Real(named_root(&c.cx, name)?)) };
    attr_of(&c.cx, dir)?;
    let (object, _) = c.cx.entry(dir, name)?;
    Ok(Fh::Real(Target { object, cred: dir.cred.clone(), rights: dir.rights }))
}

pub fn lookupp(c: &mut Compound, out: &mut ReplyWriter) -> Answer {
    let above = above(c)?;
    c.set_current(above);
    answer(Ok(()), out)
}

/// The directory above the current one: above an export's root is the pseudo root, and above that nothing.
fn above(c: &Compound) -> Done<Fh> {
    let dir = c.current()?;
    dir.must_be_directory()?;
    let Fh::Real(dir) = dir else { return Err(NfsStat4::NOENT.into()) };
    let attr = attr_of(&c.cx, dir)?;
    if attr.id == dir.object.export.backend.root().id() {
        return Ok(Fh::Pseudo);
    }
    c.must_take(c.current()?)?;
    let (object, _) = parent(&c.cx, dir, attr)?;
    Ok(Fh::Real(Target { object, cred: dir.cred.clone(), rights: dir.rights }))
}

pub fn secinfo(c: &mut Compound, name: &[u8], out: &mut ReplyWriter) -> Answer {
    let dir = c.current()?;
    // Below, the export is the same, and what names there are is not told to everybody.
    let of = if dir.is_taken(&c.cx) { find(c, name)? } else { dir.clone() };
    flavors(c, &of, out)
}

pub fn secinfo_no_name(c: &mut Compound, style: SecinfoStyle, out: &mut ReplyWriter) -> Answer {
    let current = c.current()?.clone();
    let of = match style {
        SecinfoStyle::CurrentFh => current,
        SecinfoStyle::Parent => match above(c) {
            // It is of the same export.
            Err(Stop::Status(NfsStat4::WRONGSEC)) => current,
            other => other?,
        },
    };
    flavors(c, &of, out)
}

/// What calls may come with: from 4.1 on the current handle is used up by asking (RFC 8881 2.6.3.1.1.8).
fn flavors(c: &mut Compound, of: &Fh, out: &mut ReplyWriter) -> Answer {
    let list = ways_in(c, of);
    if c.minor > 0 {
        c.current = None;
        c.stateid = None;
    }
    answer(Ok(List::new(&list)), out)
}

/// The export's, the preferred first; the pseudo root's are all of them. What AUTH_SYS says is as good as nothing, and is
/// told apart by the export's squashing.
fn ways_in(c: &Compound, of: &Fh) -> Vec<Secinfo<'static>> {
    let ways: Vec<Sec> = match of {
        Fh::Real(target) => target.object.export.options.sec.clone(),
        Fh::Pseudo => {
            let exports = &c.cx.server.settings.load().exports;
            Sec::ALL.into_iter().filter(|sec| *sec == Sec::Sys || exports.iter().any(|e| e.takes(*sec))).collect()
        }
    };
    let nobody = ways.contains(&Sec::Sys).then_some(Secinfo::Flavor(Flavor::NONE));
    ways.into_iter().map(secinfo_of).chain(nobody).collect()
}

fn secinfo_of(sec: Sec) -> Secinfo<'static> {
    let service = match sec {
        Sec::Sys => return Secinfo::Flavor(Flavor::SYS),
        Sec::Krb5 => GssService::None,
        Sec::Krb5i => GssService::Integrity,
        Sec::Krb5p => GssService::Privacy,
    };
    Secinfo::Gss(GssInfo { oid: MECHANISM, qop: 0, service: service as u32 })
}

/// A directory in which something is to be changed, and its change attribute before.
pub struct Changed<'a> {
    pub dir: &'a Target,
    pub attr: Attr,
    changing: crate::files::Changing,
}

impl<'a> Changed<'a> {
    /// The directory of a handle: NOTDIR for anything else, ROFS where the caller may change nothing.
    pub fn begin(c: &Compound, fh: &'a Fh) -> Done<Self> {
        fh.must_be_directory()?;
        let dir = fh.target().ok_or(Stop::Status(NfsStat4::ROFS))?;
        guard::may_change(dir)?;
        let attr = attr_of(&c.cx, dir)?;
        Ok(Self { dir, attr, changing: dir.begin_change() })
    }

    /// The change attribute before and now (RFC 8881 3.3.5): atomic only when nothing else went through this server.
    pub fn info(&self) -> ChangeInfo {
        let (before, after) = self.changing.change();
        ChangeInfo {
            atomic: before.is_some() && after.is_some(),
            before: before.unwrap_or(self.attr.change),
            after: after.unwrap_or(self.attr.change),
        }
    }
}

pub fn remove(c: &mut Compound, name: &[u8], out: &mut ReplyWriter) -> Answer {
    let fh = c.current()?;
    fh.must_be_directory()?;
    let name = Name::new(name)?;
    c.must_wait()?;
    let changed = Changed::begin(c, fh)?;
    let found = Found::at(changed.dir, name)?;
    guard::take_name(c, found.attr.id, Change::Delete)?;
    guard::children(c, changed.attr.id);
    let dir = changed.dir;
    let backend = &dir.object.export.backend;
    backend.remove(&dir.cred, &*dir.object.node, &Path::here().join(name), Some(found.attr.id))?;
    tell::removed(dir, name, found.attr.kind);
    found.forget(c, dir);
    answer(Ok(changed.info()), out)
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

    /// Closes the object when that was its last name and nobody has it open, so that its space is free at once.
    fn forget(&self, c: &Compound, dir: &Target) {
        let server = &c.cx.server;
        if (self.attr.nlink <= 1 || self.attr.kind == FileKind::Directory)
            && server.table.open_count(self.attr.id) == 0
            && let Some(handle) = server.key.seal(&dir.object.export.id, &self.handle)
        {
            server.cache.forget(&handle);
        }
    }
}

pub fn rename(c: &mut Compound, args: &RenameArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let (to, from) = (c.current()?, c.saved()?);
    from.must_be_directory()?;
    to.must_be_directory()?;
    let (old, new) = (Name::new(args.old_name)?, Name::new(args.new_name)?);
    if !same_export(from, to) {
        return Err(NfsStat4::XDEV.into());
    }
    c.must_wait()?;
    let (from, to) = (Changed::begin(c, from)?, Changed::begin(c, to)?);
    move_entry(c, &from, old, &to, new)?;
    answer(Ok((from.info(), to.info())), out)
}

fn same_export(one: &Fh, other: &Fh) -> bool {
    match (one, other) {
        (Fh::Real(one), Fh::Real(other)) => Arc::ptr_eq(&one.object.export, &other.object.export),
        (one, other) => one.target().is_none() && other.target().is_none(),
    }
}

fn move_entry(c: &Compound, from: &Changed<'_>, old: Name<'_>, to: &Changed<'_>, new: Name<'_>) -> Done<()> {
    let source = Found::at(from.dir, old)?;
    let replaced = match Found::at(to.dir, new) {
        Ok(found) => Some(found),
        Err(Stop::Status(NfsStat4::NOENT)) => None,
        Err(stop) => return Err(stop),
    };
    if let Some(found) = &replaced {
        // Two names of one file: nothing happens (RFC 8881 18.26.3).
        if found.attr.id == source.attr.id {
            return Ok(());
        }
        if (found.attr.kind == FileKind::Directory) != (source.attr.kind == FileKind::Directory) {
            return Err(NfsStat4::EXIST.into());
        }
    }
    guard::take_name(c, source.attr.id, Change::Rename)?;
    if let Some(found) = &replaced {
        guard::take_name(c, found.attr.id, Change::Delete)?;
    }
    guard::children(c, from.attr.id);
    guard::children(c, to.attr.id);
    let (old_path, new_path) = (Path::here().join(old), Path::here().join(new));
    let (from_node, to_node) = (&from.dir.object.node, &to.dir.object.node);
    let backend = &from.dir.object.export.backend;
    backend.rename(&from.dir.cred, (&**from_node, &old_path), (&**to_node, &new_path), Rename::Replace)?;
    tell::moved((from.dir, old), (to.dir, new), source.attr.kind);
    if let Some(found) = replaced {
        found.forget(c, to.dir);
    }
    Ok(())
}

pub fn link(c: &mut Compound, name: &[u8], out: &mut ReplyWriter) -> Answer {
    let (dir, file) = (c.current()?, c.saved()?);
    dir.must_be_directory()?;
    let name = Name::new(name)?;
    let Fh::Real(target) = file else { return Err(NfsStat4::ISDIR.into()) };
    if target.object.node.kind() == FileKind::Directory {
        return Err(NfsStat4::ISDIR.into());
    }
    if !same_export(file, dir) {
        return Err(NfsStat4::XDEV.into());
    }
    c.must_wait()?;
    let changed = Changed::begin(c, dir)?;
    let attr = attr_of(&c.cx, target)?;
    guard::change(c, attr.id, Change::Rename)?;
    guard::children(c, changed.attr.id);
    let dir = changed.dir;
    let backend = &dir.object.export.backend;
    backend.link(&dir.cred, &*target.object.node, &*dir.object.node, &Path::here().join(name))?;
    tell::made(dir, name, attr.kind);
    answer(Ok(changed.info()), out)
}
