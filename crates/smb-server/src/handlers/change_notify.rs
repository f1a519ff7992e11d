//! CHANGE_NOTIFY (MS-SMB2 3.3.5.19).

use std::sync::Arc;

use futures_util::future::{Either, select};
use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::{AccessMask, NotifyFilter, put_notify_entries};
use smb_wire::smb2::{ChangeNotifyRequest, put_output_buffer};

use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::local;
use crate::notify::{News, Watch};
use crate::open::{FileOpen, Open};
use crate::reply::ReplyWriter;
use crate::waiting::Interrupt;

/// Requests of one connection that may wait at a time.
const MAX_WAITING: usize = 16 << 10;

/// What is kept for one open at most, however much its client has room for: beyond it the client is told to look itself.
const MOST_KEPT_BYTES: u32 = 1 << 20;

/// CHANGE_NOTIFY: answered at once where something is kept, else when something happens.
pub(crate) async fn change_notify(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let asked = ChangeNotifyRequest::decode(&request.message)?;
    let max = request.conn.negotiated().map_or(0, |n| n.max_transact_bytes);
    if asked.output_bytes > max {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    request.check_charge(asked.output_bytes as usize)?;
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    if !file.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    open.require_any(AccessMask::FILE_LIST_DIRECTORY)?;
    let watch = watch(file, &asked)?;
    hear_of_others(request, &open, &watch, asked.recursive);
    drop(open);
    let mut next = match watch.ask() {
        Ok(news) => return answer(news, asked.output_bytes, out),
        Err(next) => next,
    };
    if !request.last {
        // What follows cannot be made to wait for what may never happen.
        return Err(NtStatus::INTERNAL_ERROR.into());
    }
    if request.conn.state.borrow().waiting.len() >= MAX_WAITING {
        return Err(NtStatus::INSUFFICIENT_RESOURCES.into());
    }
    let interrupted = request.wait(out);
    let why = match select(&mut next, interrupted).await {
        Either::Left((Ok(news), _)) => return answer(news, asked.output_bytes, out),
        Either::Left((Err(_), _)) => Interrupt::Close,
        Either::Right((why, _)) => why.unwrap_or(Interrupt::End),
    };
    // Something may have happened at the same moment: it must not be lost.
    next.close();
    if let Ok(Some(news)) = next.try_recv() {
        return answer(news, asked.output_bytes, out);
    }
    Err(match why {
        Interrupt::Cancel => NtStatus::CANCELLED,
        Interrupt::Close | Interrupt::End => NtStatus::NOTIFY_CLEANUP,
    }
    .into())
}

/// Has the watch told what others change too. Not waited for: a CANCEL that comes at once must find the request waiting.
/// One directory is done in place, a few calls to the kernel; a whole tree is read on a worker.
fn hear_of_others(request: &Request<'_>, open: &Arc<Open>, watch: &Arc<Watch>, below: bool) {
    if watch.local.get().is_some() {
        return;
    }
    let (server, open, watch) = (Arc::clone(&request.conn.server), Arc::clone(open), Arc::clone(watch));
    let job = move || {
        let watching = open.file().ok().and_then(|file| local::watch(&server, file, below));
        // Once: where nothing can be known it stays so.
        let _ = watch.local.set(watching.unwrap_or_else(|| Box::new(())));
    };
    if below { request.conn.shard.executor.run(Box::new(job)) } else { job() }
}

/// The open's watch, made by its first request; later ones cannot change what is watched for.
fn watch(file: &FileOpen, asked: &ChangeNotifyRequest) -> Result<Arc<Watch>, crate::failure::Failure> {
    if let Some(watch) = file.watch.get() {
        return Ok(Arc::clone(watch));
    }
    let path = file.path()?;
    let room = asked.output_bytes.min(MOST_KEPT_BYTES);
    let filter = NotifyFilter::from_bits_retain(asked.filter);
    let made = Watch::new(file.node.id(), path.as_bytes(), filter, asked.recursive, room as usize);
    let watch = file.watch.get_or_init(|| {
        file.share.watchers.add(Arc::clone(&made));
        made
    });
    if file.claim.is_closed() {
        // A CLOSE on another channel did not see it.
        file.share.watchers.remove(watch);
        return Err(NtStatus::FILE_CLOSED.into());
    }
    if file.claim.delete_pending() {
        return Err(NtStatus::DELETE_PENDING.into());
    }
    Ok(Arc::clone(watch))
}

fn answer(news: News, room_bytes: u32, out: &mut ReplyWriter) -> Outcome {
    let changes = match news {
        News::Changes(changes) => changes,
        News::TooMuch => Vec::new(),
        News::Deleted => return Err(NtStatus::DELETE_PENDING.into()),
    };
    let mut output = Vec::new();
    put_notify_entries(&changes, &mut output);
    if output.is_empty() || output.len() > room_bytes as usize {
        put_output_buffer(0, out);
        return Ok(NtStatus::NOTIFY_ENUM_DIR);
    }
    put_output_buffer(output.len() as u32, out);
    out.put_bytes(&output);
    Ok(NtStatus::SUCCESS)
}
