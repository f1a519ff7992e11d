//! CREATE (MS-SMB2 3.3.5.9): what is asked is checked ([`plan`]), the object is found or made ([`find`]), the table of
//! claims is asked ([`admit`]), the open is entered in the session and answered ([`respond`]); or an open that was lost
//! is found again ([`durable`]).

mod admit;
mod durable;
mod find;
mod plan;
mod regain;
mod respond;
mod rights;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use smb_wire::NtStatus;
use smb_wire::dcerpc::RpcPipe;
use smb_wire::fscc::{AccessMask, FileAttributes, NotifyAction, NotifyFilter};
use smb_wire::smb2::{CreateContexts, CreateOptions, CreateRequest, CreateResponse, FileHandle};
use vfs::SetAttr;

use self::admit::{Admitted, admit};
pub(crate) use self::admit::{access_kinds, tell_directory};
use self::find::Found;
use self::plan::Plan;
pub use self::plan::to_path;
pub(crate) use self::regain::regain;
use crate::Share;
use crate::dispatch::Request;
use crate::ea;
use crate::failure::{Failure, Outcome};
use crate::grants::Wanted;
use crate::local;
use crate::meta::store_dos;
use crate::open::{FileOpen, Object, Open, StreamOpen};
use crate::persistent::{self, Kept};
use crate::reply::ReplyWriter;
use crate::router::Address;
use crate::sequence::Sequence;
use crate::session::Session;
use crate::stream;
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
    request: &mut Request<'_>,
    session: &Arc<Session>,
    tree: &Arc<Tree>,
    share: &Arc<Share>,
    asked: &CreateRequest<'_>,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let negotiated = request.conn.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
    let durable = durable::Asked::of(asked, negotiated.dialect)?;
    let wanted = Wanted::of(asked, &negotiated)?;
    let creating = match &durable {
        durable::Asked::Back(_) | durable::Asked::BackV2(_) => {
            return durable::reconnect(request, (session, tree), asked, durable, out);
        }
        durable::Asked::V2(v2) => match durable::begin(request, &negotiated, session, v2)? {
            Ok(creating) => {
                // Its client may tell it again where this connection fails.
                request.lasting = Some(request.conn.lasts());
                Some(creating)
            }
            Err(open) if request.conn.server.durables.is_lost(open.handle.persistent) => {
                return durable::replay_lost(request, (session, tree), asked, (v2, &open), out);
            }
            Err(open) => return durable::replay(request, asked, &wanted, &open, out),
        },
        _ => None,
    };
    let plan = Arc::new(Plan::check(share, tree, asked, negotiated.posix, request.conn.server.env.filetime())?);
    let app_instance = durable::take_over(request, &negotiated, asked)?;
    let persistent_id = request.conn.server.next_persistent_id();
    let admitted = admit(request, out, (share, tree), &plan, &wanted, persistent_id).await?;
    let caching = admitted.caching();
    let Admitted { found, opened, base_claim, route, wanted } = admitted;
    let action = match prepare(request, tree, &plan, &found).await {
        Ok(action) => action,
        Err(failure) => {
            drop((opened, base_claim));
            unmake(request, share, tree, found).await;
            return Err(failure);
        }
    };
    let name = found.path.last().map(vfs::Name::as_bytes).unwrap_or_default();
    let (node, cred, link) = (Arc::clone(&found.node), tree.cred.clone(), found.link.clone());
    let mut file = FileOpen::new(Arc::clone(share), node, cred, opened.claim, plan.options, name, link);
    let simple = found.stream.is_none() && file.link.is_none();
    let persistent = simple && durable.may_persist(&request.conn.server, share);
    let mut durability = durable.grant(&caching, persistent).filter(|_| !file.is_directory());
    file.stream = found.stream.clone().zip(base_claim).map(|(node, base_claim)| StreamOpen { node, base_claim });
    file.posix = plan.posix.is_some();
    file.posix_delete = (file.posix && plan.options.contains(CreateOptions::DELETE_ON_CLOSE)).into();
    file.route = route;
    file.parent = wanted.parent();
    file.client = negotiated.client_guid;
    file.app_instance = app_instance;
    file.action = action;
    file.durability = durability.unwrap_or_default().into();
    if found.created {
        file.tell_name(NotifyAction::Added, &found.path);
    } else if plan.overwrites() {
        file.tell_changed(NotifyFilter::ATTRIBUTES | NotifyFilter::SIZE | NotifyFilter::LAST_WRITE);
    }
    let file = Arc::new(file);
    if file.is_directory() && !caching.caching.is_empty() {
        let (server, listed) = (Arc::clone(&request.conn.server), Arc::clone(&file));
        let job = move || local::watch(&server, &listed, false).map(|watching| listed.local.set(watching));
        request.conn.offload(job).await;
    }
    let object = Object::File(Arc::clone(&file));
    let open = enter(request, session, tree, Id::New(persistent_id), found.granted, (object, found.path))?;
    if file.is_persistent() {
        let kept = Kept { handle: open.handle, user: tree.user.name.clone(), granted: found.granted };
        // It is set here only.
        let _ = file.kept.set(kept);
    }
    if let Some(creating) = creating {
        creating.made(&open);
    }
    if file.is_persistent() && !persistent::save(request.conn, &file).await {
        durability = durable.grant(&caching, false);
        *file.durability.lock() = durability.unwrap_or_default();
    }
    let maximal = found.maximal.unwrap_or(found.granted);
    // Whoever may cache must have what is true now that it may; what was just made or cut has changed since it was opened.
    let attr = (action == OPENED && found.stream.is_none() && caching.caching.is_empty()).then_some(found.attr);
    respond::Answer { asked, wanted: &wanted, action, maximal, caching, attr, durability }.put(&open, &file, out)?;
    Ok(open.handle)
}

/// A CREATE that fails leaves nothing behind that it made, unless somebody else uses it already.
async fn unmake(request: &Request<'_>, share: &Arc<Share>, tree: &Arc<Tree>, found: Found) {
    if !found.created || found.stream.is_some() {
        return;
    }
    let (server, share, tree) = (Arc::clone(&request.conn.server), Arc::clone(share), Arc::clone(tree));
    let job = move || {
        let id = found.node.id();
        if server.table.open_count(id) == 0
            && let Err(error) = share.backend.remove(&tree.cred, &*share.backend.root(), &found.path, Some(id))
        {
            tracing::debug!(%error, "what a failed CREATE made stays");
        }
    };
    request.conn.offload(job).await;
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
            // The attributes are the file's, not the stream's, and a file overwritten loses its streams.
            if plan.stream.is_none() {
                let attributes = (plan.attributes - FileAttributes::SPARSE_FILE) | FileAttributes::ARCHIVE;
                store_dos(&*node, &cred, Some(attributes), None)?;
                stream::remove_all(&*node, &cred)?;
                ea::replace(&*node, &cred, &plan.eas)?;
            }
        }
        match allocate {
            Some(bytes) => match node.allocate(0, bytes, false) {
                Err(vfs::VfsError::NotSupported) => Ok(()), // it was a hint
                result => Ok::<(), Failure>(result?),
            },
            None => Ok(()),
        }
    };
    request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)??;
    Ok(action)
}

/// The FileId of an open that is entered.
enum Id {
    /// It has this FileId.Persistent, and gets a FileId.Volatile.
    New(u64),
    /// It came back, and keeps the one it had.
    Kept(FileHandle),
}

/// Enters the open in the session; from now on its client can be told things. Where session or tree connect have ended
/// meanwhile it is closed again at once, since nobody could close it later.
fn enter(
    request: &Request<'_>,
    session: &Arc<Session>,
    tree: &Arc<Tree>,
    id: Id,
    granted: AccessMask,
    (object, path): (Object, vfs::Path),
) -> Result<Arc<Open>, NtStatus> {
    let server = &request.conn.server;
    // What a request for the dialects before 3.0 has there is reserved, and never looked at.
    let at = request.header.status as u16;
    let make = |handle| {
        let (tree, sequence, replayable) = (Arc::clone(tree), Sequence::new(at), AtomicBool::new(true));
        let unasked = AtomicBool::new(false);
        Arc::new(Open { handle, tree, granted, object, path, sequence, replayable, unasked })
    };
    let mut opens = session.opens.lock();
    let open = match id {
        Id::New(persistent) => opens.insert_with(|volatile| make(FileHandle { persistent, volatile })),
        Id::Kept(handle) => opens.put_back(make(handle)),
    };
    // Looked at with the opens locked: whoever ends the session or the tree connect takes the opens away after.
    let status = if session.ended.load(Relaxed) {
        NtStatus::USER_SESSION_DELETED
    } else if session.tree(tree.id).is_none() {
        NtStatus::NETWORK_NAME_DELETED
    } else {
        drop(opens);
        if let Object::File(file) = &open.object {
            file.share.places.add(&open);
        }
        connect(request, session, tree, &open);
        return Ok(open);
    };
    opens.remove(open.handle);
    drop(opens);
    super::session_setup::close_all(&request.conn.shard.executor, server, vec![open]);
    Err(status)
}

/// Says where the open's client is reached.
fn connect(request: &Request<'_>, session: &Arc<Session>, tree: &Tree, open: &Open) {
    if let Object::File(file) = &open.object
        && let Some(route) = &file.route
    {
        route.connected(Address {
            mailbox: Arc::clone(&request.conn.mailbox),
            session: Arc::downgrade(session),
            handle: open.handle,
            seal: tree.encrypt,
        });
    }
}

/// Opens a named pipe of IPC$ (3.3.5.9: srvsvc, wkssvc, lsarpc and samr are all there is).
fn open_pipe(
    request: &Request<'_>,
    session: &Arc<Session>,
    tree: &Arc<Tree>,
    asked: &CreateRequest<'_>,
    out: &mut ReplyWriter,
) -> Result<FileHandle, Failure> {
    let name = smb_wire::name::from_utf16le(asked.name).to_lowercase();
    let name = name.trim_start_matches('\\');
    let interface = super::ioctl::interface(request.conn, &tree.user, name);
    let pipe = RpcPipe::new(name, interface.ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?);
    let granted = AccessMask::from_bits_retain(asked.desired_access).map_generic() & AccessMask::FILE_ALL;
    let persistent = request.conn.server.next_persistent_id();
    let object = Object::Pipe(parking_lot::Mutex::new(pipe));
    let handle = enter(request, session, tree, Id::New(persistent), granted, (object, vfs::Path::here()))?.handle;
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
