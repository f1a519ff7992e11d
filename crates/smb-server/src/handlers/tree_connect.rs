//! TREE_CONNECT and TREE_DISCONNECT (MS-SMB2 3.3.5.7, 3.3.5.8).

use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::smb2::{
    ShareCapabilities, ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse, check_four, put_four,
};

use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::reply::ReplyWriter;
use crate::session::{Session, User};
use crate::tree::{Target, Tree, admits};
use crate::waiting::Ended;
use crate::{Config, Share};

/// TREE_CONNECT.
pub(crate) fn tree_connect(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let connect = TreeConnectRequest::decode(&message)?;
    let name = share_name(connect.path).ok_or(NtStatus::BAD_NETWORK_NAME)?;
    let config = request.conn.server.config.load();
    let session = Arc::clone(request.session()?);
    let user = session.user();
    let (target, encrypt) = find(&config, &name, &user)?;
    if encrypt && !request.arrival.is_sealed() && session.seals.is_none() {
        // A share that must be encrypted, and a client that cannot (3.3.5.7).
        return Err(NtStatus::ACCESS_DENIED.into());
    }
    let tree = add(&session, &config, |id| Tree::new(id, target, Arc::clone(&user), encrypt))?;
    request.header.tree_id = tree.id;
    set_tree_id(out, tree.id);
    TreeConnectResponse {
        share_type: if tree.share().is_some() { ShareType::Disk } else { ShareType::Pipe } as u8,
        flags: share_flags(&tree),
        capabilities: share_capabilities(request, &tree),
        maximal_access: tree.maximal_access.bits(),
    }
    .put(out);
    tracing::debug!(peer = %request.conn.peer, user = %user.name, share = %name, "tree connect");
    Ok(NtStatus::SUCCESS)
}

/// TREE_DISCONNECT: the opens made through it are closed.
pub(crate) fn tree_disconnect(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    check_four(&request.message)?;
    let id = request.tree()?.id;
    let session = Arc::clone(request.session()?);
    session.trees.lock().remove_where(|t| t.id == id);
    request.conn.interrupt(&session, Ended::Tree(session.id, id));
    let opens = session.opens.lock().remove_where(|o| o.tree.id == id);
    super::session_setup::close_all(&request.conn.shard.executor, &request.conn.server, opens);
    put_four(out);
    Ok(NtStatus::SUCCESS)
}

/// The last part of `\\server\share`, in lower case.
fn share_name(path: &[u8]) -> Option<String> {
    let units: Vec<u16> = path.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect();
    let path = String::from_utf16(&units).ok()?;
    let name = path.strip_prefix("\\\\")?.split_once('\\')?.1;
    (!name.is_empty() && name.len() <= 80 && !name.contains('\\')).then(|| name.to_lowercase())
}

fn find(config: &Config, name: &str, user: &User) -> Result<(Target, bool), NtStatus> {
    if name == "ipc$" {
        return Ok((Target::Pipes, false));
    }
    let share: &Arc<Share> = config.shares.get(name).ok_or(NtStatus::BAD_NETWORK_NAME)?;
    if !admits(share, user) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    Ok((Target::Disk(Arc::clone(share)), share.options.encryption_required))
}

fn add(session: &Session, config: &Config, make: impl FnOnce(u32) -> Tree) -> Result<Arc<Tree>, NtStatus> {
    let mut trees = session.trees.lock();
    if trees.len() >= config.max_trees {
        return Err(NtStatus::INSUFFICIENT_RESOURCES);
    }
    let tree = trees.insert_with(|key| {
        // 32 bits on the wire: the index in the low half, how often it was used in the high half.
        let id = (key as u32 & 0xffff) | ((key >> 32) as u32) << 16;
        let (made_for, user) = (make(id), session.user());
        // Somebody may have logged in on another channel meanwhile.
        Arc::new(if Arc::ptr_eq(&made_for.user, &user) { made_for } else { made_for.renewed(&user) })
    });
    Ok(Arc::clone(tree))
}

fn set_tree_id(out: &mut ReplyWriter, id: u32) {
    use smb_wire::codec::Put;
    let at = out.start() + 36;
    out.patch_u32(at, id);
}

/// Continuously available to those who can make use of it (3.3.5.7).
fn share_capabilities(request: &Request<'_>, tree: &Tree) -> ShareCapabilities {
    let mut capabilities = ShareCapabilities::empty();
    let available = tree.share().is_some_and(|share| share.options.continuously_available);
    let speaks_3 = request.conn.negotiated().is_some_and(|n| n.dialect.is_3());
    let kept = available && speaks_3 && request.conn.server.has_persistent_handles();
    capabilities.set(ShareCapabilities::CONTINUOUS_AVAILABILITY, kept);
    capabilities
}

fn share_flags(tree: &Tree) -> ShareFlags {
    match &tree.target {
        Target::Pipes => ShareFlags::NO_CACHING,
        Target::Disk(_) if tree.encrypt => ShareFlags::ENCRYPT_DATA,
        Target::Disk(_) => ShareFlags::empty(),
    }
}
