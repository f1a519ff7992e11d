//! DELEGRETURN, DELEGPURGE, GET_DIR_DELEGATION and WANT_DELEGATION (RFC 8881 18.5, 18.6, 18.39, 18.49).

use nfs_wire::nfs4::{ClientId, GetDirDelegationArgs, NfsStat4, Stateid, WantDelegationArgs};

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Answer;
use crate::reply::ReplyWriter;

pub fn delegpurge(_c: &mut Compound, _args: ClientId, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn delegreturn(_c: &mut Compound, _args: &Stateid, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn get_dir_delegation(_c: &mut Compound, _args: &GetDirDelegationArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn want_delegation(_c: &mut Compound, _args: &WantDelegationArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}
