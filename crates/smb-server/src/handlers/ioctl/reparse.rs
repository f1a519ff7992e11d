//! Reparse points (MS-FSA 2.1.5.10.17, 2.1.5.10.37, 2.1.5.10.3): symbolic links, and no others.

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::codec::Reader;
use smb_wire::fscc::{AccessMask, NotifyFilter, ReparseError, SymlinkReparse, reparse_tag};
use smb_wire::smb2::IoctlRequest;
use vfs::{Access, Disposition, FileKind, Node, OpenHow, Path, Rename, Wait, WantKind};

use super::{on_worker, put};
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::links;
use crate::open::FileOpen;
use crate::reply::ReplyWriter;

/// FSCTL_GET_REPARSE_POINT.
pub(super) async fn get(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    if file.posix
        && let Some(special) = crate::posix::reparse(&file.node.attr()?)
    {
        let mut output = Vec::new();
        special.put(&mut output);
        return answer(&open, asked, &output, out);
    }
    if file.node.kind() != FileKind::Symlink && file.became_link.get().is_none() {
        return Err(NtStatus::NOT_A_REPARSE_POINT.into());
    }
    let read = |file: &FileOpen| {
        let target =
            if file.became_link.get().is_some() { link_at(file)?.read_link()? } else { file.node.read_link()? };
        Ok(links::to_wire(&file.path()?, &target))
    };
    let target = on_worker(request, &open, read).await?;
    let target = target.ok_or(NtStatus::ACCESS_DENIED)?; // it leads outside
    let mut output = Vec::new();
    SymlinkReparse { target: &target, relative: true }.put(&mut output);
    answer(&open, asked, &output, out)
}

fn answer(open: &crate::open::Open, asked: &IoctlRequest<'_>, output: &[u8], out: &mut ReplyWriter) -> Outcome {
    if output.len() > asked.max_output_response as usize {
        return Err(NtStatus::BUFFER_TOO_SMALL.into());
    }
    put(asked, open.handle, output, out);
    Ok(NtStatus::SUCCESS)
}

fn may_change(request: &Request<'_>, open: &crate::open::Open) -> Result<(), NtStatus> {
    open.require_any(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_WRITE_ATTRIBUTES)?;
    if request.tree()?.writable { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
}

/// The link that an open's file became.
fn link_at(file: &FileOpen) -> Result<Arc<dyn Node>, Failure> {
    let backend = &file.share.backend;
    let (access, disposition, kind) = (Access::empty(), Disposition::Open, WantKind::Any);
    let how = OpenHow { access, disposition, kind, follow: false, mode: 0 };
    let opened = backend.open(&file.cred, &*backend.root(), &file.path()?, &how, Wait::Allowed)?;
    if opened.node.kind() == FileKind::Symlink { Ok(opened.node) } else { Err(NtStatus::NOT_A_REPARSE_POINT.into()) }
}

/// FSCTL_SET_REPARSE_POINT: the empty file or directory becomes a link. The open stays one of what it was made with, but
/// the link is what it reads, renames and deletes.
pub(super) async fn set(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    may_change(request, &open)?;
    let reparse = SymlinkReparse::decode(asked.input).map_err(|error| match error {
        ReparseError::Truncated => NtStatus::IO_REPARSE_DATA_INVALID,
        ReparseError::OtherTag(_) => NtStatus::NOT_SUPPORTED,
    })?;
    if !matches!(file.node.kind(), FileKind::File | FileKind::Directory) || file.became_link.get().is_some() {
        return Err(NtStatus::IO_REPARSE_TAG_MISMATCH.into());
    }
    let path = file.path()?;
    if path.is_here() {
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let target = links::to_local(&path, &reparse)?;
    let beside = u64::from_le_bytes(request.conn.server.env.random_bytes());
    on_worker(request, &open, move |file| become_link(file, &path, &target, beside)).await?;
    put(asked, open.handle, &[], out);
    Ok(NtStatus::SUCCESS)
}

fn become_link(file: &FileOpen, path: &Path, target: &[u8], beside: u64) -> Result<(), Failure> {
    let backend = &file.share.backend;
    let root = backend.root();
    if file.is_directory() {
        // Only an empty one goes.
        backend.remove(&file.cred, &*root, path, Some(file.node.id()))?;
        backend.symlink(&file.cred, &*root, path, target)?;
    } else {
        if file.node.attr()?.len_bytes > 0 {
            return Err(NtStatus::IO_REPARSE_DATA_INVALID.into());
        }
        let name = format!(".link-{beside:016x}");
        let name = vfs::Name::new(name.as_bytes()).map_err(|_| NtStatus::INTERNAL_ERROR)?;
        let made = path.parent().unwrap_or_else(Path::here).join(name);
        backend.symlink(&file.cred, &*root, &made, target)?;
        let replaced = backend.rename(&file.cred, (&*root, &made), (&*root, path), Rename::Replace);
        if let Err(error) = replaced {
            // What cannot be removed either stays: there is nobody to tell.
            let _ = backend.remove(&file.cred, &*root, &made, None);
            return Err(error.into());
        }
    }
    let link = backend.attr_at(&file.cred, &*root, path, Wait::Allowed)?;
    // A second time it is no file any more that could become a link.
    let _ = file.became_link.set((path.clone(), link.id));
    tell(file, path);
    Ok(())
}

/// FSCTL_DELETE_REPARSE_POINT: the link becomes an empty file.
pub(super) async fn delete(request: &mut Request<'_>, asked: &IoctlRequest<'_>, out: &mut ReplyWriter) -> Outcome {
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    may_change(request, &open)?;
    let tag = Reader::new(asked.input).u32().map_err(|_| NtStatus::IO_REPARSE_DATA_INVALID)?;
    if file.node.kind() != FileKind::Symlink {
        return Err(NtStatus::NOT_A_REPARSE_POINT.into());
    }
    if tag != reparse_tag::SYMLINK {
        return Err(NtStatus::IO_REPARSE_TAG_MISMATCH.into());
    }
    on_worker(request, &open, |file| {
        let backend = &file.share.backend;
        let (root, path) = (backend.root(), file.path()?);
        backend.remove(&file.cred, &*root, &path, Some(file.node.id()))?;
        let mode = 0o666 & file.share.options.create_mask;
        let (access, kind) = (Access::empty(), WantKind::File);
        let how = OpenHow { access, disposition: Disposition::Create, kind, follow: false, mode };
        backend.open(&file.cred, &*root, &path, &how, Wait::Allowed)?;
        tell(file, &path);
        Ok(())
    })
    .await?;
    put(asked, open.handle, &[], out);
    Ok(NtStatus::SUCCESS)
}

fn tell(file: &FileOpen, path: &Path) {
    let filter = NotifyFilter::ATTRIBUTES;
    let event = crate::notify::Event::new(smb_wire::fscc::NotifyAction::Modified, filter, path.as_bytes());
    file.share.watchers.tell(&[event]);
}
