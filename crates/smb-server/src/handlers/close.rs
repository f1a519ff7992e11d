//! CLOSE (MS-SMB2 3.3.5.10), and the deletion that a last close may owe.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coherence::Deletion;
use smb_wire::NtStatus;
use smb_wire::fscc::NotifyAction;
use smb_wire::smb2::{CloseRequest, CloseResponse, CreateOptions};
use vfs::{Cred, Executor, FileId, Node, Path, VfsResult};

use super::create::tell_directory;
use crate::Share;
use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::meta::Meta;
use crate::notify::Event;
use crate::open::{FileOpen, Object, Open, name_filter};
use crate::reply::ReplyWriter;
use crate::server::Server;
use crate::stream::StreamNode;
use crate::waiting::Ended;

/// By which open, and as whom, a file is to be deleted.
pub struct DeleteBy {
    share: Arc<Share>,
    node: Arc<dyn Node>,
    cred: Cred,
    /// The open went through a symbolic link: the link is what goes.
    link: Option<(Path, FileId)>,
    /// The open was of this stream.
    stream: Option<Arc<StreamNode>>,
    /// Who deletes the file if nobody else does.
    executor: Arc<dyn Executor>,
}

impl DeleteBy {
    /// By this open.
    pub fn new(file: &FileOpen, executor: &Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            executor: Arc::clone(executor),
            share: Arc::clone(&file.share),
            node: Arc::clone(file.base()),
            cred: file.cred.clone(),
            link: file.link().cloned(),
            stream: file.stream.as_ref().map(|stream| Arc::clone(&stream.node)),
        })
    }

    /// The file of which a stream was opened.
    fn base(file: &FileOpen, executor: &Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            executor: Arc::clone(executor),
            share: Arc::clone(&file.share),
            node: Arc::clone(file.base()),
            cred: file.cred.clone(),
            link: None,
            stream: None,
        })
    }
}

/// A file whose last open is closed and which is to go. The deletion was promised to somebody: where this is dropped and
/// not run, as when the connection of a CLOSE ends, a worker does it.
pub struct Owed(Option<Debt>);

struct Debt {
    /// Keeps others from opening the file meanwhile; none with POSIX semantics, where they may.
    deletion: Option<Deletion>,
    by: Arc<DeleteBy>,
    /// The file, when a stream was its last open.
    then: Option<Box<Debt>>,
}

impl Owed {
    /// A deletion that the table had nobody else for.
    pub fn orphan(deletion: Deletion) -> Option<Self> {
        let note = deletion.note().cloned()?;
        let by = note.downcast::<DeleteBy>().ok()?;
        Some(Self(Some(Debt { deletion: Some(deletion), by, then: None })))
    }

    /// Deletes the file. May wait.
    pub fn run(mut self) -> VfsResult<()> {
        self.0.take().map_or(Ok(()), Debt::pay)
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Some(debt) = self.0.take() else { return };
        let executor = Arc::clone(&debt.by.executor);
        executor.run(Box::new(move || {
            // Nobody is left who could be told that it failed.
            if let Err(error) = debt.pay() {
                tracing::debug!(%error, "delete on close failed");
            }
        }));
    }
}

impl Debt {
    fn new(claim: &coherence::OpenClaim, by: Arc<DeleteBy>) -> Option<Self> {
        let note: coherence::DeleteNote = Arc::clone(&by) as _;
        let deletion = claim.close_noting(note)?.delete?;
        Some(Self { deletion: Some(deletion), by, then: None })
    }

    fn pay(self) -> VfsResult<()> {
        let by = match self.deletion.as_ref().and_then(Deletion::note).cloned().map(|note| note.downcast::<DeleteBy>())
        {
            Some(Ok(by)) => by,
            _ => self.by,
        };
        if let Some(stream) = &by.stream {
            let done = stream.remove();
            return self.then.map_or(done, |then| then.pay());
        }
        let backend = &by.share.backend;
        let root = backend.root();
        let (path, id) = match &by.link {
            Some((path, id)) => (path.clone(), *id),
            None => (backend.path_of(&*by.node)?, by.node.id()),
        };
        backend.remove(&by.cred, &*root, &path, Some(id))?;
        let filter = name_filter(by.link.is_none() && by.node.kind() == vfs::FileKind::Directory);
        by.share.watchers.tell(&[Event::new(NotifyAction::Removed, filter, path.as_bytes())]);
        Ok(())
    }
}

/// Ends an open's claim. Does not wait; the deletion that is owed may, and `executor` runs it if nobody else does.
pub fn release(server: &Server, open: &Open, executor: &Arc<dyn Executor>) -> Option<Owed> {
    let Object::File(file) = &open.object else { return None };
    // Before the claim is given up: while it is held the file can be told from one that comes after it.
    let posix = file.posix_delete.load(Relaxed);
    let mut own = Debt::new(&file.claim, DeleteBy::new(file, executor));
    if posix {
        let deletion = own.and_then(|own| own.deletion);
        own = Some(Debt { deletion, by: DeleteBy::new(file, executor), then: None });
    }
    if let Some(watch) = file.watch.get() {
        file.share.watchers.remove(watch);
    }
    if file.is_directory() && file.claim.delete_pending() {
        file.share.watchers.going(file.node.id());
    }
    if let Some(route) = &file.route {
        route.leave();
    }
    server.forget_persistent(file);
    if let Some(guid) = file.durability.lock().create_guid() {
        server.durables.forget(file.client, guid, open.handle.persistent);
    }
    let base = file.stream.as_ref().and_then(|s| Debt::new(&s.base_claim, DeleteBy::base(file, executor)));
    let debt = match own {
        Some(own) => Some(Debt { then: base.map(Box::new), ..own }),
        None => base,
    };
    debt.map(|debt| Owed(Some(debt)))
}

/// An open that its session has no more, and whose claim is to end whatever becomes of its CLOSE.
struct Closing<'a> {
    server: &'a Server,
    executor: &'a Arc<dyn Executor>,
    open: &'a Open,
}

impl Closing<'_> {
    fn done(self) -> Option<Owed> {
        let Self { server, executor, open } = *std::mem::ManuallyDrop::new(self);
        release(server, open, executor)
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        drop(release(self.server, self.open, self.executor));
    }
}

/// CLOSE. WRITEs that came before it and are still under way on workers are done when it is answered.
pub(crate) async fn close(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let close = CloseRequest::decode(&request.message)?;
    let open = request.open(close.handle)?;
    let session = Arc::clone(request.session()?);
    request.conn.interrupt(&session, Ended::Open(session.id, open.handle));
    let removed = session.opens.lock().remove(open.handle);
    let open = removed.ok_or(NtStatus::FILE_CLOSED)?;
    let closing = Closing { server: &request.conn.server, executor: &request.conn.shard.executor, open: &open };
    if let Object::File(file) = &open.object {
        file.changes.close().await;
    }
    let mut response = CloseResponse::default();
    if close.post_query
        && let Object::File(file) = &open.object
        && let Ok(meta) = Meta::of(&*file.node, file.is_hidden())
    {
        let meta = meta.on(&file.share);
        response = CloseResponse {
            has_attributes: true,
            times: meta.times(),
            allocation_bytes: meta.allocation_bytes(),
            end_of_file: meta.end_of_file(),
            file_attributes: meta.attributes.bits(),
        };
    }
    let opened_to_go = open.file().is_ok_and(|file| file.options.contains(CreateOptions::DELETE_ON_CLOSE));
    let owed = closing.done();
    if open.file().is_ok_and(|file| file.kept.get().is_some()) {
        let server = Arc::clone(&request.conn.server);
        // Where the store fails, the handle is given up when nobody asks for it after a restart.
        let _ = request.conn.offload(move || server.commit_closed()).await;
    }
    if let Object::File(file) = &open.object
        && request.conn.server.router.has_directory_leases()
        && (owed.is_some() || file.modified.load(Relaxed))
        && let Ok(path) = file.path()
    {
        tell_directory(request, out, &file.share, &open.tree, &path, file.parent).await?;
    }
    if let Some(owed) = owed {
        let done = request.conn.offload(move || owed.run()).await;
        // The handle is closed whatever became of the file; the status says that the file is still there.
        match done {
            Some(Ok(()) | Err(vfs::VfsError::NotFound | vfs::VfsError::Stale)) => {}
            // A directory that is not empty stays, and its CLOSE succeeds (MS-FSA 2.1.5.5); one whose disposition was set
            // was empty then, and something came meanwhile: that is said.
            Some(Err(vfs::VfsError::NotEmpty)) if opened_to_go => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(NtStatus::INTERNAL_ERROR.into()),
        }
    }
    response.put(out);
    Ok(NtStatus::SUCCESS)
}
