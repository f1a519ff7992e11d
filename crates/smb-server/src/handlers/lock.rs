//! LOCK (MS-SMB2 3.3.5.14): byte ranges, all of a request or none.

use coherence::{Change, LockOutcome, LockRange, Ticket};
use futures_util::future::{Either, select};
use smb_wire::NtStatus;
use smb_wire::smb2::{LockElement, LockFlags, LockRequest, put_four};

use super::resilient::Numbered;
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::grants;
use crate::open::{FileOpen, Object};
use crate::persistent;
use crate::reply::ReplyWriter;
use crate::router::TicketEnd;
use crate::waiting::Interrupt;

/// LOCK.
pub(crate) async fn lock(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let asked = LockRequest::decode(&request.message)?;
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    if file.is_directory() || asked.locks.is_empty() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let numbered = Numbered::of(file, asked.sequence, request.conn.has_channels());
    if numbered.as_ref().is_some_and(|n| n.is_done(file)) {
        put_four(out);
        return Ok(NtStatus::SUCCESS);
    }
    let unlocks = asked.locks.first().is_some_and(|l| l.flags.contains(LockFlags::UNLOCK));
    let done = if unlocks {
        unlock(file, &asked.locks).map_err(Failure::from)
    } else {
        take(request, out, file, &asked.locks).await
    };
    if let (Ok(()), Some(numbered)) = (&done, numbered) {
        numbered.done(file);
    }
    // Of a LOCK that unlocks some of its ranges stay unlocked when another is not locked.
    if let (true, Object::File(file)) = (done.is_ok() || unlocks, &open.object) {
        persistent::save(request.conn, file).await;
    }
    done?;
    put_four(out);
    Ok(NtStatus::SUCCESS)
}

/// 3.3.5.14.1: one after the other; those before a failure stay unlocked.
fn unlock(file: &FileOpen, ranges: &[LockElement]) -> Result<(), NtStatus> {
    for range in ranges {
        if range.flags != LockFlags::UNLOCK {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        file.claim.unlock(range.offset_bytes, range.len_bytes).map_err(|_| NtStatus::RANGE_NOT_LOCKED)?;
    }
    Ok(())
}

/// 3.3.5.14.2: all or none. A single range may wait; several must fail at once.
async fn take(
    request: &mut Request<'_>,
    out: &mut ReplyWriter,
    file: &FileOpen,
    ranges: &[LockElement],
) -> Result<(), Failure> {
    let (wanted, may_wait) = check(ranges)?;
    // What others cache of the range must be written first (MS-FSA 2.1.5.8).
    grants::ask(request, out, &file.claim, Change::Write).await?;
    match file.claim.lock(&wanted, may_wait)? {
        LockOutcome::Held => Ok(()),
        LockOutcome::Wait(ticket) => stand_in_line(request, out, file, ticket).await,
    }
}

fn check(ranges: &[LockElement]) -> Result<(Vec<LockRange>, bool), NtStatus> {
    let mut wanted = Vec::with_capacity(ranges.len());
    let mut may_wait = false;
    for range in ranges {
        let waits = !range.flags.contains(LockFlags::FAIL_IMMEDIATELY);
        let exclusive = match range.flags - LockFlags::FAIL_IMMEDIATELY {
            LockFlags::EXCLUSIVE => true,
            LockFlags::SHARED => false,
            _ => return Err(NtStatus::INVALID_PARAMETER),
        };
        if waits && ranges.len() > 1 {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        may_wait |= waits;
        wanted.push(LockRange { offset: range.offset_bytes, len: range.len_bytes, exclusive });
    }
    Ok((wanted, may_wait))
}

/// Waits until the range is locked, or until the wait is ended.
async fn stand_in_line(
    request: &mut Request<'_>,
    out: &mut ReplyWriter,
    file: &FileOpen,
    ticket: Ticket,
) -> Result<(), Failure> {
    let mut turn = request.conn.server.router.turn(file.claim.file(), ticket);
    let interrupted = request.wait(out);
    let ended = match select(std::pin::pin!(turn.end()), interrupted).await {
        Either::Left((end, _)) => Ok(end),
        Either::Right((why, _)) => Err(why.unwrap_or(Interrupt::End)),
    };
    let (end, why) = match ended {
        Ok(end) => (Some(end), Interrupt::Close),
        // It may have been locked in the same moment.
        Err(why) => (turn.give_up().await, why),
    };
    match (end, why) {
        (Some(TicketEnd::Granted), _) => Ok(()),
        (_, Interrupt::Cancel) => Err(NtStatus::CANCELLED.into()),
        (_, Interrupt::Close | Interrupt::End) => Err(NtStatus::RANGE_NOT_LOCKED.into()),
    }
}
