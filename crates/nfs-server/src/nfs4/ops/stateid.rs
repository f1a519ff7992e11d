//! TEST_STATEID and FREE_STATEID (RFC 8881 18.48, 18.38): what a client believes to hold, and what it knows it has lost.

use std::sync::Arc;

use nfs_wire::nfs4::{NfsStat4, Stateid};
use nfs_wire::xdr::List;

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, Stop, answer};
use crate::nfs4::state::Held;
use crate::nfs4::state::find::check_generation;
use crate::reply::ReplyWriter;

pub fn test_stateid(c: &mut Compound, stateids: List<'_, Stateid>, out: &mut ReplyWriter) -> Answer {
    let statuses: Vec<NfsStat4> = stateids.iter().map(|stateid| status_of(c, &stateid)).collect();
    answer(Ok(List::new(&statuses)), out)
}

fn status_of(c: &Compound, stateid: &Stateid) -> NfsStat4 {
    let held = match c.cx.server.state.held(c, stateid) {
        Ok(held) => held,
        Err(Stop::Status(status)) => return status,
        Err(Stop::WouldBlock) => return NfsStat4::DELAY,
    };
    match (&held, check_generation(c, stateid, held.seqid())) {
        (Held::Delegation(delegation), Ok(())) if !delegation.is_good() => NfsStat4::DELEG_REVOKED,
        (_, Ok(())) => NfsStat4::OK,
        (_, Err(Stop::Status(status))) => status,
        (_, Err(Stop::WouldBlock)) => NfsStat4::DELAY,
    }
}

pub fn free_stateid(c: &mut Compound, stateid: &Stateid, out: &mut ReplyWriter) -> Answer {
    let state = Arc::clone(&c.cx.server.state);
    let stateid = c.resolve(*stateid)?;
    let held = state.held(c, &stateid)?;
    check_generation(c, &stateid, held.seqid())?;
    match &held {
        Held::Delegation(delegation) if !delegation.is_good() => state.end_delegation(delegation),
        Held::Lock(locks) if !c.cx.server.table.holds_posix(locks.file, locks.owner.number) => {
            if let Some(open) = locks.open.upgrade() {
                open.locks.lock().retain(|known| !Arc::ptr_eq(known, locks));
            }
            state.release(locks);
        }
        _ => return Err(NfsStat4::LOCKS_HELD.into()),
    }
    answer(Ok(()), out)
}
