//! NFS version 3 (RFC 1813): the table of its procedures. READ and WRITE have their own way through the connection's
//! thread; every other procedure is one synchronous function, run in place where it is likely not to wait, and on a worker
//! otherwise.

pub(crate) mod listing;
mod make;
mod names;
mod object;
pub(crate) mod read;
mod volume;
pub(crate) mod write;

pub(crate) use object::parent;

use nfs_wire::nfs3::{Failed, Nfs3Proc, NfsStat3};
use nfs_wire::xdr::{Reader, Xdr};
use vfs::{Access, Disposition, OpenHow, WantKind};

use crate::failure::{Done, Halt, Stop};
use crate::files::Cx;
use crate::reply::ReplyWriter;

/// An open that only looks.
pub(crate) const LOOK: OpenHow =
    OpenHow { access: Access::empty(), disposition: Disposition::Open, kind: WantKind::Any, follow: false, mode: 0 };

/// Whether a procedure is tried in place first.
pub(crate) fn is_quick(procedure: Nfs3Proc) -> bool {
    use Nfs3Proc::*;
    matches!(
        procedure,
        Null | Getattr | Lookup | Access | Readlink | Readdir | ReaddirPlus | Fsstat | Fsinfo | Pathconf
    )
}

/// Whether a procedure that is done a second time does something else, or fails where it had worked.
pub(crate) fn is_once(procedure: Nfs3Proc) -> bool {
    use Nfs3Proc::*;
    matches!(procedure, Setattr | Create | Mkdir | Symlink | Mknod | Remove | Rmdir | Rename | Link)
}

/// Runs a procedure: appends its results to `out`.
pub(crate) fn run(procedure: Nfs3Proc, cx: &Cx, args: &mut Reader<'_>, out: &mut ReplyWriter) -> Result<(), Halt> {
    match procedure {
        Nfs3Proc::Null => Ok(()),
        Nfs3Proc::Getattr => object::getattr(cx, args, out),
        Nfs3Proc::Setattr => object::setattr(cx, args, out),
        Nfs3Proc::Lookup => object::lookup(cx, args, out),
        Nfs3Proc::Access => object::access(cx, args, out),
        Nfs3Proc::Readlink => object::readlink(cx, args, out),
        // These two do not come here.
        Nfs3Proc::Read | Nfs3Proc::Write => Err(Halt::Malformed),
        Nfs3Proc::Create => make::create(cx, args, out),
        Nfs3Proc::Mkdir => make::mkdir(cx, args, out),
        Nfs3Proc::Symlink => make::symlink(cx, args, out),
        Nfs3Proc::Mknod => make::mknod(cx, args, out),
        Nfs3Proc::Remove => names::remove(cx, args, out, false),
        Nfs3Proc::Rmdir => names::remove(cx, args, out, true),
        Nfs3Proc::Rename => names::rename(cx, args, out),
        Nfs3Proc::Link => names::link(cx, args, out),
        Nfs3Proc::Readdir => listing::readdir(cx, args, out),
        Nfs3Proc::ReaddirPlus => listing::readdir_plus(cx, args, out),
        Nfs3Proc::Fsstat => volume::fsstat(cx, args, out),
        Nfs3Proc::Fsinfo => volume::fsinfo(cx, args, out),
        Nfs3Proc::Pathconf => volume::pathconf(cx, args, out),
        Nfs3Proc::Commit => write::commit(cx, args, out),
    }
}

/// Writes a result, a failure with what the RFC sends along; nothing for what must be run again.
pub(crate) fn answer<'a, T, F>(done: Done<T>, rest: impl FnOnce() -> F, out: &mut ReplyWriter) -> Result<(), Halt>
where
    T: Xdr<'a>,
    F: Xdr<'a>,
{
    match done {
        Ok(item) => Ok::<T, Failed<F>>(item).put(out),
        Err(Stop::WouldBlock) => return Err(Halt::WouldBlock),
        Err(Stop::TooWeak) => return Err(Halt::TooWeak),
        Err(Stop::Status(status)) => Err::<T, _>(failed(status, rest())).put(out),
    }
    Ok(())
}

fn failed<F>(status: NfsStat3, rest: F) -> Failed<F> {
    Failed { status, rest }
}
