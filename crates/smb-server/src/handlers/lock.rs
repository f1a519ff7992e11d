//! LOCK (MS-SMB2 3.3.5.14): byte ranges, all of a request or none.

use coherence::{LockOutcome, LockRange};
use smb_wire::NtStatus;
use smb_wire::smb2::{LockElement, LockFlags, LockRequest, put_four};

use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::open::FileOpen;
use crate::reply::ReplyWriter;

/// LOCK.
pub(crate) fn lock(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let asked = LockRequest::decode(&request.message)?;
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    if file.is_directory() {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let unlocks = asked.locks.first().is_some_and(|l| l.flags.contains(LockFlags::UNLOCK));
    if unlocks {
        unlock(file, &asked.locks)?
    } else {
        take(file, &asked.locks)?
    }
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

/// 3.3.5.14.2. Several ranges must all fail at once; a single one that may wait is refused as if it might not: this
/// server does not queue locks.
fn take(file: &FileOpen, ranges: &[LockElement]) -> Result<(), crate::failure::Failure> {
    let mut wanted = Vec::with_capacity(ranges.len());
    for range in ranges {
        let may_wait = !range.flags.contains(LockFlags::FAIL_IMMEDIATELY);
        let exclusive = match range.flags - LockFlags::FAIL_IMMEDIATELY {
            LockFlags::EXCLUSIVE => true,
            LockFlags::SHARED => false,
            _ => return Err(NtStatus::INVALID_PARAMETER.into()),
        };
        if may_wait && ranges.len() > 1 {
            return Err(NtStatus::INVALID_PARAMETER.into());
        }
        wanted.push(LockRange { offset: range.offset_bytes, len: range.len_bytes, exclusive });
    }
    match file.claim.lock(&wanted, false)? {
        LockOutcome::Held => Ok(()),
        LockOutcome::Wait(_) => Err(NtStatus::INTERNAL_ERROR.into()),
    }
}
