//! OPLOCK_BREAK acknowledgements (MS-SMB2 3.3.5.22): of oplocks and of leases, told apart by their size.

use coherence::{AckError, Caching, HolderKey};
use smb_wire::NtStatus;
use smb_wire::smb2::{LeaseAck, OplockBreak, oplock};

use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::grants::{from_wire_state, level_of};
use crate::persistent::save_soon;
use crate::reply::ReplyWriter;

/// OPLOCK_BREAK.
pub(crate) fn oplock_break(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    match LeaseAck::decode(&message) {
        Ok(ack) => lease(request, ack, out),
        Err(_) => oplock(request, &OplockBreak::decode(&message)?, out),
    }
}

/// 3.3.5.22.1.
fn oplock(request: &mut Request<'_>, ack: &OplockBreak, out: &mut ReplyWriter) -> Outcome {
    let open = request.session()?.open(ack.handle);
    let open = open.ok_or(NtStatus::FILE_CLOSED)?;
    let claim = &open.file()?.claim;
    let holder = claim.holder();
    if ack.level == oplock::LEASE || !matches!(holder, HolderKey::Open(_)) {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let server = &request.conn.server;
    let state = server.table.grant_state(claim.file(), &holder).unwrap_or_default();
    if state.breaking_to.is_none() {
        return Err(NtStatus::INVALID_OPLOCK_PROTOCOL.into());
    }
    let kept = match ack.level {
        oplock::NONE => Ok(Caching::empty()),
        oplock::LEVEL_II => Ok(Caching::READ),
        _ => Err(NtStatus::INVALID_OPLOCK_PROTOCOL),
    };
    let acknowledged = kept.and_then(|kept| {
        let done = server.table.acknowledge(server.now(), claim.file(), &holder, kept);
        done.map_err(|_| NtStatus::INVALID_OPLOCK_PROTOCOL)
    });
    match acknowledged {
        Ok(kept) => {
            save_soon(request.conn, &open);
            OplockBreak { level: level_of(kept), handle: open.handle }.put(out);
            Ok(NtStatus::SUCCESS)
        }
        Err(status) => {
            // What is no answer leaves the client without an oplock, and those who wait go on.
            let _ = server.table.acknowledge(server.now(), claim.file(), &holder, Caching::empty());
            Err(status.into())
        }
    }
}

/// 3.3.5.22.2.
fn lease(request: &mut Request<'_>, ack: LeaseAck, out: &mut ReplyWriter) -> Outcome {
    request.session()?;
    let client = request.conn.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?.client_guid;
    let server = &request.conn.server;
    let file = server.router.lease_file(&(client, ack.key)).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    let holder = HolderKey::Lease { client, key: ack.key };
    let kept = from_wire_state(ack.state);
    server.table.acknowledge(server.now(), file, &holder, kept).map_err(|error| match error {
        AckError::NoGrant => NtStatus::OBJECT_NAME_NOT_FOUND,
        AckError::NotBreaking | AckError::Revoked => NtStatus::UNSUCCESSFUL,
        AckError::TooMuch => NtStatus::REQUEST_NOT_ACCEPTED,
    })?;
    let lease = Some((client, ack.key));
    for open in request.session()?.opens.lock().values() {
        if open.file().is_ok_and(|file| file.route.as_ref().is_some_and(|route| route.lease() == lease)) {
            save_soon(request.conn, open);
        }
    }
    ack.put(out);
    Ok(NtStatus::SUCCESS)
}
