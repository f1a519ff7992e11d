//! CREATE (MS-SMB2 3.3.5.9): what is asked is checked ([`plan`]), the object is found or made ([`find`]), the table of
//! claims is asked, and the open is entered in the session.

mod find;
mod plan;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coherence::{AccessKinds, OpenClaim, OpenRequest};
use smb_wire::NtStatus;
use smb_wire::dcerpc::RpcPipe;
use smb_wire::fscc::{AccessMask, FileAttributes, NotifyAction, NotifyFilter};
use smb_wire::smb2::{
    CreateContexts, CreateOptions, CreateRequest, CreateResponse, FileHandle, MAXIMAL_ACCESS_TAG, QUERY_ON_DISK_ID_TAG,
    RawContext,
};
use vfs::{SetAttr, Wait};

use self::find::{Found, Halt, find_or_make};
use self::plan::Plan;
pub use self::plan::to_path;
use crate::Share;
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::meta::{Meta, store_dos};
use crate::open::{FileOpen, Object, Open};
use crate::reply::ReplyWriter;
use crate::server::Server;
use crate::session::Session;
use crate::tree::{Target, Tree};

/// CreateAction of a response (2.2.14).
const SUPERSEDED: u32 = 0;
const OPENED: u32 = 1;
const CREATED: u32 = 2;
const OVERWRITTEN: u32 = 3;

/// CREATE.
pub(crate) async fn create(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let asked = CreateRequest::decode(&message)?;
    let tree = Arc::clone(request.tree()?);
    let session = Arc::clone(request.session()?);
    if session.opens.lock().len() >= request.conn.server.config.load().max_opens {
        return Err(NtStatus::INSUFFICIENT_RESOURCES.into());
    }
    request.previous_handle = None;
    let handle = match &tree.target {
        Target::Pipes => open_pipe(request, &session, &tree, &asked, out)?,
        Target::Disk(share) => open_file(request, &session, &tree, share, &asked, out).await?,
    };
    request.previous_handle = Some(handle);
    Ok(NtStatus::SUCCESS)
}

async fn open_file(
    request: &Request<'_>,
    session: &Session,
    tree: &Arc<Tree>,
    share: &Arc<Share>,
    asked: &CreateRequest<'_>,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let plan = Arc::new(Plan::check(share, tree, asked)?);
    let found = match find_or_make(share, tree, &plan, Wait::Never) {
        Err(Halt::WouldBlock) => {
            let (share, tree, plan) = (Arc::clone(share), Arc::clone(tree), Arc::clone(&plan));
            let job = move || find_or_make(&share, &tree, &plan, Wait::Allowed);
            request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
        }
        result => result,
    };
    let found = match found {
        Err(Halt::Link) => return Err(stopped(request, tree, share, plan).await?),
        found => found.map_err(Halt::into_failure)?,
    };
    let opened = open_found(request, session, tree, share, asked, &plan, &found, out).await;
    // Where session or tree connect have ended it was opened and is closed again, as if by a client.
    let overtaken =
        |failure: &Failure| matches!(failure.status, NtStatus::USER_SESSION_DELETED | NtStatus::NETWORK_NAME_DELETED);
    if found.created && opened.as_ref().is_err_and(|failure| !overtaken(failure)) {
        let (server, share, tree) = (Arc::clone(&request.conn.server), Arc::clone(share), Arc::clone(tree));
        request.conn.offload(move || unmake(&server, &share, &tree, &found)).await;
    }
    opened
}

/// A CREATE that fails leaves nothing behind that it made, unless somebody else uses it already.
fn unmake(server: &Server, share: &Share, tree: &Tree, found: &Found) {
    let id = found.node.id();
    if server.table.open_count(id) == 0
        && let Err(error) = share.backend.remove(&tree.cred, &*share.backend.root(), &found.path, Some(id))
    {
        tracing::debug!(%error, "what a failed CREATE made stays");
    }
}

/// Opens what was found or made.
#[allow(clippy::too_many_arguments, reason = "all that a CREATE is about")]
async fn open_found(
    request: &Request<'_>,
    session: &Session,
    tree: &Arc<Tree>,
    share: &Arc<Share>,
    asked: &CreateRequest<'_>,
    plan: &Arc<Plan>,
    found: &Found,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let claim = claim(request, plan, found)?;
    let action = prepare(request, tree, plan, found).await?;
    let name = found.path.last().map(vfs::Name::as_bytes).unwrap_or_default();
    let file = FileOpen::new(
        Arc::clone(share),
        Arc::clone(&found.node),
        tree.cred.clone(),
        claim,
        plan.options,
        name,
        found.link.clone(),
    );
    if found.created {
        file.tell_name(NotifyAction::Added, &found.path);
    } else if plan.overwrites() {
        file.tell_changed(NotifyFilter::ATTRIBUTES | NotifyFilter::SIZE | NotifyFilter::LAST_WRITE);
    }
    let meta = Meta::of(&*file.node, file.is_hidden())?.on(&file.share);
    let handle = enter(request, session, tree, found.granted, Object::File(file))?;
    respond(asked, found, &meta, share, handle, action, out);
    Ok(handle)
}

/// What to answer where a link leads nowhere.
async fn stopped(
    request: &Request<'_>,
    tree: &Arc<Tree>,
    share: &Arc<Share>,
    plan: Arc<Plan>,
) -> Result<Failure, Failure> {
    let dialect = request.conn.negotiated().map_or(smb_wire::smb2::Dialect::V2_0_2, |n| n.dialect);
    let (tree, share) = (Arc::clone(tree), Arc::clone(share));
    let job = move || crate::links::stopped(&share, &tree.cred, &plan.path, dialect);
    let stopped = request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?;
    Ok(stopped.unwrap_or_else(|| NtStatus::OBJECT_NAME_NOT_FOUND.into()))
}

/// Asks the table of claims. Nobody holds a grant that would have to be broken first, so the answer never waits.
fn claim(request: &Request<'_>, plan: &Plan, found: &Found) -> Result<OpenClaim, Failure> {
    let server = &request.conn.server;
    let now = coherence::Instant(server.env.clock.monotonic_ms());
    let mut wanted = OpenRequest::new(found.node.id(), access_kinds(found.granted), plan.share);
    wanted.delete_on_close = plan.options.contains(CreateOptions::DELETE_ON_CLOSE);
    wanted.overwrite = plan.overwrites() && !found.created;
    match server.table.open(now, &wanted)?.done() {
        Some(opened) => Ok(opened.claim),
        None => Err(NtStatus::SHARING_VIOLATION.into()),
    }
}

/// What share modes count an open as (MS-FSA 2.1.5.1.2.2).
fn access_kinds(granted: AccessMask) -> AccessKinds {
    let mut kinds = AccessKinds::empty();
    kinds.set(AccessKinds::READ, granted.intersects(AccessMask::FILE_READ_DATA | AccessMask::FILE_EXECUTE));
    kinds.set(AccessKinds::WRITE, granted.intersects(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_APPEND_DATA));
    kinds.set(AccessKinds::DELETE, granted.contains(AccessMask::DELETE));
    kinds
}

/// What is left to do to the object once the claim is granted: cut an overwritten file, set space aside.
async fn prepare(request: &Request<'_>, tree: &Arc<Tree>, plan: &Arc<Plan>, found: &Found) -> Result<u32, Failure> {
    let overwrites = plan.overwrites() && !found.created;
    let action = match (found.created, overwrites, plan.disposition) {
        (true, ..) => CREATED,
        (_, true, smb_wire::smb2::Disposition::Supersede) => SUPERSEDED,
        (_, true, _) => OVERWRITTEN,
        _ => OPENED,
    };
    let allocate = plan
        .allocation_bytes
        .filter(|&bytes| bytes > 0 && (found.created || overwrites))
        .filter(|_| found.node.kind() == vfs::FileKind::File);
    if !overwrites && allocate.is_none() {
        return Ok(action);
    }
    let (node, cred, plan) = (Arc::clone(&found.node), tree.cred.clone(), Arc::clone(plan));
    let job = move || {
        if overwrites {
            node.set_attr(&cred, &SetAttr { len_bytes: Some(0), ..SetAttr::default() })?;
            store_dos(
                &*node,
                &cred,
                Some((plan.attributes - FileAttributes::SPARSE_FILE) | FileAttributes::ARCHIVE),
                None,
            )?;
        }
        match allocate {
            Some(bytes) => match node.allocate(0, bytes, false) {
                Err(vfs::VfsError::NotSupported) => Ok(()), // it was a hint
                result => result,
            },
            None => Ok(()),
        }
    };
    request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)??;
    Ok(action)
}

/// Enters the open in the session; where session or tree connect have ended meanwhile it is closed again at once, since
/// nobody could close it later.
fn enter(
    request: &Request<'_>,
    session: &Session,
    tree: &Arc<Tree>,
    granted: AccessMask,
    object: Object,
) -> Result<FileHandle, NtStatus> {
    let server = &request.conn.server;
    let persistent = server.next_persistent_id();
    let mut made = None;
    let mut opens = session.opens.lock();
    let volatile = opens.insert_with(|volatile| {
        let handle = FileHandle { persistent, volatile };
        let open = Arc::new(Open { handle, tree: Arc::clone(tree), granted, object });
        made = Some(Arc::clone(&open));
        open
    });
    // Looked at with the opens locked: whoever ends the session or the tree connect takes the opens away after.
    let status = if session.ended.load(Relaxed) {
        NtStatus::USER_SESSION_DELETED
    } else if session.tree(tree.id).is_none() {
        NtStatus::NETWORK_NAME_DELETED
    } else {
        return Ok(FileHandle { persistent, volatile });
    };
    opens.remove(volatile);
    drop(opens);
    super::session_setup::close_all(&*request.conn.shard.executor, server, made.into_iter().collect());
    Err(status)
}

fn respond(
    asked: &CreateRequest<'_>,
    found: &Found,
    meta: &Meta,
    share: &Share,
    handle: FileHandle,
    action: u32,
    out: &mut ReplyWriter,
) {
    let mut maximal = [0; 8];
    let mut on_disk = [0; 32];
    let mut contexts = Vec::new();
    if asked.contexts.get(MAXIMAL_ACCESS_TAG).is_some() {
        // QueryStatus 0, then the rights (2.2.14.2.5).
        maximal[4..].copy_from_slice(&found.maximal.unwrap_or(found.granted).bits().to_le_bytes());
        contexts.push(RawContext { name: MAXIMAL_ACCESS_TAG, data: &maximal });
    }
    if asked.contexts.get(QUERY_ON_DISK_ID_TAG).is_some() {
        on_disk[..8].copy_from_slice(&meta.attr.id.ino.to_le_bytes());
        on_disk[8..16].copy_from_slice(&u64::from(share.volume_serial).to_le_bytes());
        contexts.push(RawContext { name: QUERY_ON_DISK_ID_TAG, data: &on_disk });
    }
    CreateResponse {
        oplock_level: 0,
        flags: 0,
        action,
        times: meta.times(),
        allocation_bytes: meta.allocation_bytes(),
        end_of_file: meta.end_of_file(),
        file_attributes: meta.attributes.bits(),
        handle,
        contexts: CreateContexts::default(),
    }
    .put(&contexts, out);
}

/// Opens a named pipe of IPC$ (3.3.5.9: srvsvc and wkssvc are all there is).
fn open_pipe(
    request: &Request<'_>,
    session: &Session,
    tree: &Arc<Tree>,
    asked: &CreateRequest<'_>,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let name = smb_wire::name::from_utf16le(asked.name).to_lowercase();
    let name = name.trim_start_matches('\\');
    let interface = super::ioctl::interface(request.conn, &session.user(), name);
    let pipe = RpcPipe::new(name, interface.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?);
    let granted = AccessMask::from_bits_retain(asked.desired_access).map_generic() & AccessMask::FILE_ALL;
    let handle = enter(request, session, tree, granted, Object::Pipe(parking_lot::Mutex::new(pipe)))?;
    CreateResponse {
        oplock_level: 0,
        flags: 0,
        action: OPENED,
        times: [0; 4],
        allocation_bytes: 4096,
        end_of_file: 0,
        file_attributes: FileAttributes::NORMAL.bits(),
        handle,
        contexts: CreateContexts::default(),
    }
    .put(&[], out);
    Ok(handle)
}
