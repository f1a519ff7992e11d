//! DELEGRETURN, DELEGPURGE, GET_DIR_DELEGATION and WANT_DELEGATION (RFC 8881 18.5, 18.6, 18.39, 18.49).

use std::sync::Arc;

use nfs_wire::nfs4::{ClientId, GetDirDelegationArgs, NfsStat4, Stateid, WantDelegationArgs};

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, answer};
use crate::nfs4::state::Held;
use crate::nfs4::state::find::check_generation;
use crate::reply::ReplyWriter;

/// Nothing is kept over a client's restart that could be purged.
pub fn delegpurge(_c: &mut Compound, _args: ClientId, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn delegreturn(c: &mut Compound, args: &Stateid, out: &mut ReplyWriter) -> Answer {
    let file = c.target_or(NfsStat4::BAD_STATEID)?.object.node.id();
    let state = Arc::clone(&c.cx.server.state);
    let stateid = c.resolve(*args)?;
    let Held::Delegation(delegation) = state.held(c, &stateid)? else { return Err(NfsStat4::BAD_STATEID.into()) };
    check_generation(c, &stateid, delegation.stateid.seqid)?;
    if delegation.file != file {
        return Err(NfsStat4::BAD_STATEID.into());
    }
    // A 4.1 client frees one that was taken; it does not return it (RFC 8881 18.6.3).
    if !delegation.is_good() && c.minor > 0 {
        return Err(NfsStat4::DELEG_REVOKED.into());
    }
    state.end_delegation(&delegation);
    answer(Ok(()), out)
}

/// Directories are not delegated.
pub fn get_dir_delegation(c: &mut Compound, _args: &GetDirDelegationArgs, _out: &mut ReplyWriter) -> Answer {
    c.current()?.must_be_directory()?;
    Err(NfsStat4::DIRDELEG_UNAVAIL.into())
}

/// Delegations come with opens only.
pub fn want_delegation(_c: &mut Compound, _args: &WantDelegationArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}
