//! Persistent opens that come back because a request names them, with no CREATE before it that asks for them back: a
//! client that sends again what was not answered when its server died may not know yet that it has to. It departs from
//! MS-SMB2, which answers STATUS_FILE_CLOSED (docs/protocol.md, and docs/decisions/0005 says why). The dispatcher asks
//! where it finds no open; a CREATE that asks for such an open later finds it with [`regained`].

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use smb_wire::NtStatus;
use smb_wire::smb2::FileHandle;

use super::durable::put_back;
use crate::dispatch::Request;
use crate::durable::Disconnected;
use crate::open::{FileOpen, Open};
use crate::session::{Session, User};
use crate::tree::Tree;

/// Gives the session of `request` the open that `handle` names, if that is a persistent one without a connection, and
/// the session its client's.
pub(crate) fn regain(request: &Request<'_>, handle: FileHandle) -> Option<Arc<Open>> {
    let server = &request.conn.server;
    if !server.durables.is_lost(handle.persistent) {
        return None;
    }
    let (session, tree) = (request.session().ok()?, request.tree().ok()?);
    if session.opens.lock().len() >= server.config.load().max_opens {
        return None;
    }
    let _turn = server.durables.turn();
    let lost = server.durables.take(handle.persistent, |lost| check(request, tree, handle, lost));
    let Some(Ok(lost)) = lost else {
        // Another channel's request may have been the first.
        return session.open(handle).filter(|open| open.tree.id == tree.id);
    };
    let open = put_back(request, (session, tree), &lost).ok()?;
    open.unasked.store(true, Relaxed);
    tracing::debug!(peer = %request.conn.peer, id = handle.persistent, "a persistent handle is used again");
    Some(open)
}

/// Whose it is, and that it is named exactly: what a CREATE would have to know beside its guid.
fn check(request: &Request<'_>, tree: &Tree, handle: FileHandle, lost: &Disconnected) -> Result<(), NtStatus> {
    let file = lost.file().ok_or(NtStatus::FILE_CLOSED)?;
    let negotiated = request.conn.negotiated().ok_or(NtStatus::FILE_CLOSED)?;
    let same = file.is_persistent()
        && lost.open.handle == handle
        && lost.until_ms() > request.conn.server.now().0
        && negotiated.dialect.is_3()
        && file.client == negotiated.client_guid
        && is_owner(&tree.user, lost.owner())
        && tree.share().is_some_and(|share| Arc::ptr_eq(share, &file.share));
    if !same {
        return Err(NtStatus::FILE_CLOSED);
    }
    if let Some(route) = &file.route {
        route.reopening();
    }
    Ok(())
}

/// Guests are all one.
fn is_owner(user: &User, owner: &str) -> bool {
    !user.guest && !user.anonymous && user.name.eq_ignore_ascii_case(owner)
}

/// The open of that FileId.Persistent, if a request brought it back to the session through `tree` and `check` lets the
/// CREATE have it. That is said once: another reconnect of it is one of an open that is connected.
pub(super) fn regained(
    session: &Session,
    tree: &Arc<Tree>,
    persistent: u64,
    check: impl FnOnce(&FileOpen) -> Result<(), NtStatus>,
) -> Option<Result<Arc<Open>, NtStatus>> {
    let open = session.opens.lock().returned(persistent).cloned()?;
    if !Arc::ptr_eq(&open.tree, tree) || !open.unasked.load(Relaxed) {
        return None;
    }
    let checked = open.file().and_then(check);
    open.unasked.store(checked.is_err(), Relaxed);
    Some(checked.map(|()| open))
}
