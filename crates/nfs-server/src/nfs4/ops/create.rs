//! CREATE (RFC 8881 18.4): everything but regular files, which OPEN makes.

use std::sync::Arc;

use nfs_wire::nfs4::{Bitmap, CreateArgs, CreateOk, CreateType, NfsStat4};
use vfs::{Access, Cred, Disposition, FileKind, Name, Node, OpenHow, Path, WantKind};

use super::names::Changed;
use crate::files::Target;
use crate::nfs3::LOOK;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Done, answer};
use crate::nfs4::fh::Fh;
use crate::nfs4::wanted::{Wanted, creatable};
use crate::nfs4::{guard, view};
use crate::reply::ReplyWriter;
use crate::tell;

/// Permissions where the client names none: for the owner only.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

pub fn create(c: &mut Compound, args: &CreateArgs<'_>, out: &mut ReplyWriter) -> Answer {
    let fh = c.current()?;
    fh.must_be_directory()?;
    if let CreateType::Other(_) = args.object {
        return Err(NfsStat4::BADTYPE.into());
    }
    let name = Name::new(args.name)?;
    let supported = view::supported(c.minor, fh.target().map(|target| &*target.object.export));
    let wanted = Wanted::of(&c.cx, &args.attributes, &supported, &creatable(&supported))?;
    c.must_wait()?;
    let changed = Changed::begin(c, fh)?;
    guard::children(c, changed.attr.id);
    let node = make(changed.dir, name, &args.object, &wanted)?;
    let attrs_set = finish(&changed.dir.cred, &*node, &args.object, &wanted)?;
    tell::made(changed.dir, name, node.kind());
    let object = c.cx.adopt_entry(changed.dir, name, node)?;
    let change = changed.info();
    let made = Target { object, cred: changed.dir.cred.clone(), rights: changed.dir.rights };
    c.set_current(Fh::Real(made));
    answer(Ok(CreateOk { change, attrs_set }), out)
}

fn make(dir: &Target, name: Name<'_>, kind: &CreateType<'_>, wanted: &Wanted) -> Done<Arc<dyn Node>> {
    let (backend, cred, node) = (&dir.object.export.backend, &dir.cred, &*dir.object.node);
    let path = Path::here().join(name);
    let mode = wanted.set.mode.unwrap_or(FILE_MODE);
    let device = |major: u32, minor: u32| u64::from(major) << 32 | u64::from(minor);
    match kind {
        CreateType::Directory => {
            let how = OpenHow {
                access: Access::empty(),
                disposition: Disposition::Create,
                kind: WantKind::Directory,
                follow: false,
                mode: wanted.set.mode.unwrap_or(DIRECTORY_MODE),
            };
            return Ok(backend.open(cred, node, &path, &how, vfs::Wait::Allowed)?.node);
        }
        CreateType::Symlink(b"") => return Err(NfsStat4::INVAL.into()),
        CreateType::Symlink(target) => backend.symlink(cred, node, &path, target)?,
        CreateType::Socket => backend.make_special(cred, node, &path, FileKind::Socket, mode)?,
        CreateType::Fifo => backend.make_special(cred, node, &path, FileKind::Fifo, mode)?,
        CreateType::Block(d) => {
            backend.make_device(cred, node, &path, FileKind::BlockDevice, device(d.major, d.minor), mode)?;
        }
        CreateType::Character(d) => {
            backend.make_device(cred, node, &path, FileKind::CharDevice, device(d.major, d.minor), mode)?;
        }
        CreateType::Other(_) => return Err(NfsStat4::BADTYPE.into()),
    }
    Ok(backend.open(cred, node, &path, &LOOK, vfs::Wait::Allowed)?.node)
}

/// Sets what the making did not. A link's permissions are nobody's business, and its times are not followed to what it
/// names.
fn finish(cred: &Cred, node: &dyn Node, kind: &CreateType<'_>, wanted: &Wanted) -> Done<Bitmap> {
    let attr = node.attr()?;
    if !matches!(kind, CreateType::Symlink(_)) {
        return wanted.apply_new(cred, node, &attr);
    }
    let mut owner = Wanted { mask: wanted.mask, ..Wanted::default() };
    (owner.set.uid, owner.set.gid) = (wanted.set.uid, wanted.set.gid);
    owner.apply_new(cred, node, &attr)
}
