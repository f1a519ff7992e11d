//! Letting an open in: the object is found or made, the table of claims is asked, and whoever holds a caching grant that
//! is in the way is waited for. The wait holds up this CREATE and nothing else.

use std::sync::Arc;

use coherence::{AccessKinds, Change, Denied, GrantState, OpenClaim, OpenRequest, Opened, Outcome, Owner, ShareKinds};
use smb_wire::NtStatus;
use smb_wire::fscc::AccessMask;
use smb_wire::smb2::CreateOptions;
use vfs::{FileId, FileKind, Path, Wait};

use super::find::{Found, Halt, find_or_make};
use super::plan::Plan;
use crate::Share;
use crate::dispatch::Request;
use crate::failure::Failure;
use crate::grants::{self, Wanted};
use crate::reply::ReplyWriter;
use crate::router::{Enrolled, Membership};
use crate::stream;
use crate::tree::Tree;

/// An open let in.
pub struct Admitted {
    /// The object.
    pub found: Found,
    /// The claim and what comes with it.
    pub opened: Opened,
    /// A stream's claim on its file.
    pub base_claim: Option<OpenClaim>,
    /// Its place in the router.
    pub route: Option<Enrolled>,
    /// The caching wanted, as far as it can be for the object.
    pub wanted: Wanted,
}

impl Admitted {
    /// What may be cached.
    pub fn caching(&self) -> GrantState {
        let Opened { caching, epoch, breaking, .. } = self.opened;
        GrantState { caching, epoch, breaking_to: breaking.then_some(caching), revoked: false }
    }
}

/// Lets the open numbered `persistent` in.
pub async fn admit(
    request: &mut Request<'_>,
    out: &mut ReplyWriter,
    (share, tree): (&Arc<Share>, &Arc<Tree>),
    plan: &Arc<Plan>,
    wanted: &Wanted,
    persistent: u64,
) -> Result<Admitted, Failure> {
    let mut created = false;
    loop {
        let mut found = find(request, share, tree, plan).await?;
        created |= found.created;
        found.created = created;
        let is_directory = found.node.kind() == FileKind::Directory;
        let wanted = if is_directory { wanted.for_directory() } else { *wanted };
        check_lost(request, plan, &found, &wanted)?;
        let route = match enroll(request, &found, &wanted, persistent) {
            Ok(route) => route,
            Err(failure) => {
                undo(request, share, tree, &found).await;
                return Err(failure);
            }
        };
        let base_claim = claim_base(request, &found)?;
        if found.granted.contains(AccessMask::DELETE) && found.stream.is_none() {
            check_streams(request, &found)?;
        }
        let server = &request.conn.server;
        let opened = server.table.open(server.now(), &table_request(plan, &found, &wanted, persistent));
        if matches!(opened, Err(Denied::DeletePending))
            && let Some(gone) = server.durables.gone(found.node.id())
        {
            drop((route, base_claim));
            // Either way it is over.
            let _ = gone.await;
            continue;
        }
        match opened? {
            Outcome::Done(opened) => {
                if plan.options.contains(CreateOptions::DELETE_ON_CLOSE) && !found.created {
                    grants::ask(request, out, &opened.claim, Change::Delete).await?;
                }
                if found.created {
                    tell_directory(request, out, share, tree, &found.path, wanted.parent()).await?;
                }
                return Ok(Admitted { found, opened, base_claim, route, wanted });
            }
            Outcome::Wait(ticket) => request.await_ticket(out, found.node.id(), ticket).await?,
        }
    }
}

async fn find(request: &Request<'_>, share: &Arc<Share>, tree: &Arc<Tree>, plan: &Arc<Plan>) -> Result<Found, Failure> {
    let found = match find_or_make(share, tree, plan, Wait::Never) {
        Err(Halt::WouldBlock) => {
            let (share, tree, plan) = (Arc::clone(share), Arc::clone(tree), Arc::clone(plan));
            let job = move || find_or_make(&share, &tree, &plan, Wait::Allowed);
            request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
        }
        result => result,
    };
    match found {
        Err(Halt::Link) => Err(stopped(request, tree, share, plan).await?),
        found => found.map_err(Halt::into_failure),
    }
}

/// What to answer where a link leads nowhere.
async fn stopped(
    request: &Request<'_>,
    tree: &Arc<Tree>,
    share: &Arc<Share>,
    plan: &Arc<Plan>,
) -> Result<Failure, Failure> {
    let dialect = request.conn.negotiated().map_or(smb_wire::smb2::Dialect::V2_0_2, |n| n.dialect);
    let (tree, share, plan) = (Arc::clone(tree), Arc::clone(share), Arc::clone(plan));
    let job = move || crate::links::stopped(&share, &tree.cred, &plan.path, plan.posix.is_some(), dialect);
    let stopped = request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?;
    Ok(stopped.unwrap_or_else(|| NtStatus::OBJECT_NAME_NOT_FOUND.into()))
}

/// A file whose persistent open waits for its client cannot be had meanwhile (3.3.5.9).
fn check_lost(request: &Request<'_>, plan: &Plan, found: &Found, wanted: &Wanted) -> Result<(), NtStatus> {
    let (server, kinds) = (&request.conn.server, access_kinds(found.granted));
    let held_back = server.holds_back(found.node.id(), wanted.identity(), kinds, plan.share);
    if held_back { Err(NtStatus::FILE_NOT_AVAILABLE) } else { Ok(()) }
}

/// A place in the router for an open that may have to be told something.
fn enroll(request: &Request<'_>, found: &Found, wanted: &Wanted, persistent: u64) -> Result<Option<Enrolled>, Failure> {
    if wanted.lease.is_none() && wanted.caching.is_empty() {
        return Ok(None);
    }
    let membership = wanted.lease.map(|(name, context)| Membership {
        name,
        file: found.node.id(),
        v2: context.v2.is_some(),
        directory: found.node.kind() == FileKind::Directory,
    });
    let route = request.conn.server.router.enroll(persistent, membership);
    // The key is another file's (3.3.5.9.8).
    route.map(Some).map_err(|_| NtStatus::INVALID_PARAMETER.into())
}

/// Takes back an object that was made for an open that is not let in.
async fn undo(request: &Request<'_>, share: &Arc<Share>, tree: &Arc<Tree>, found: &Found) {
    if !found.created || found.stream.is_some() {
        return;
    }
    let (share, tree, path, id) = (Arc::clone(share), Arc::clone(tree), found.path.clone(), found.node.id());
    let job = move || share.backend.remove(&tree.cred, &*share.backend.root(), &path, Some(id));
    // If that fails an empty file is left, which is what the client asked for anyway.
    let _ = request.conn.offload(job).await;
}

/// The claim of a stream's open on the file: it shares everything, but the file does not go before it is closed, and a
/// file that is to go has no streams to open.
fn claim_base(request: &Request<'_>, found: &Found) -> Result<Option<OpenClaim>, Failure> {
    let Some(stream) = &found.stream else { return Ok(None) };
    let server = &request.conn.server;
    let wanted = OpenRequest::new(stream.base().id(), AccessKinds::empty(), ShareKinds::all());
    match server.table.open(server.now(), &wanted)?.done() {
        Some(opened) => Ok(Some(opened.claim)),
        None => Err(NtStatus::SHARING_VIOLATION.into()),
    }
}

/// Whoever may delete a file may delete its streams: opens of those must allow it (MS-FSA 2.1.5.1.2.2).
fn check_streams(request: &Request<'_>, found: &Found) -> Result<(), Failure> {
    if stream::any_open() {
        for key in stream::keys(&*found.node)? {
            request.conn.server.table.check_remove(stream::id(found.node.id(), &key))?;
        }
    }
    Ok(())
}

fn table_request(plan: &Plan, found: &Found, wanted: &Wanted, persistent: u64) -> OpenRequest {
    let mut asked = OpenRequest::new(found.node.id(), access_kinds(found.granted), plan.share);
    // With POSIX semantics the name goes with this open, whoever else has the file open.
    asked.delete_on_close = plan.options.contains(CreateOptions::DELETE_ON_CLOSE) && plan.posix.is_none();
    asked.beyond_attributes = found.granted.intersects(
        AccessMask::FILE_READ_EA | AccessMask::FILE_WRITE_EA | AccessMask::WRITE_DAC | AccessMask::WRITE_OWNER,
    );
    asked.inspects = found.granted.contains(AccessMask::READ_CONTROL);
    asked.overwrite = plan.overwrites() && !found.created;
    asked.identity = wanted.identity();
    asked.grant = wanted.grant();
    asked.owner = Owner(persistent);
    asked
}

/// What share modes count an open as (MS-FSA 2.1.5.1.2.2).
pub(crate) fn access_kinds(granted: AccessMask) -> AccessKinds {
    let mut kinds = AccessKinds::empty();
    kinds.set(AccessKinds::READ, granted.intersects(AccessMask::FILE_READ_DATA | AccessMask::FILE_EXECUTE));
    kinds.set(AccessKinds::WRITE, granted.intersects(AccessMask::FILE_WRITE_DATA | AccessMask::FILE_APPEND_DATA));
    kinds.set(AccessKinds::DELETE, granted.contains(AccessMask::DELETE));
    kinds
}

/// Tells who caches the directory that `path` is in that its entries change. Costs one load while nobody caches any.
pub(crate) async fn tell_directory(
    request: &mut Request<'_>,
    out: &mut ReplyWriter,
    share: &Arc<Share>,
    tree: &Arc<Tree>,
    path: &Path,
    by: coherence::Identity,
) -> Result<(), Failure> {
    if !request.conn.server.router.has_directory_leases() {
        return Ok(());
    }
    let Some(parent) = path.parent() else { return Ok(()) };
    if let Some(id) = id_of(request, share, tree, parent).await {
        grants::ask_about(request, out, id, Change::Children, by).await?;
    }
    Ok(())
}

/// Which object is at `path`, if any.
async fn id_of(request: &Request<'_>, share: &Arc<Share>, tree: &Arc<Tree>, path: Path) -> Option<FileId> {
    let (share, tree) = (Arc::clone(share), Arc::clone(tree));
    let job = move || share.backend.attr_at(&tree.cred, &*share.backend.root(), &path, Wait::Allowed).ok();
    request.conn.offload(job).await.flatten().map(|attr| attr.id)
}
