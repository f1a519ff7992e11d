//! SETCLIENTID, SETCLIENTID_CONFIRM, RENEW: clients of 4.0.

use nfs_wire::nfs4::{ClientId, NfsStat4, SetclientidArgs, SetclientidOk};

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Answer;
use crate::reply::ReplyWriter;

pub fn setclientid(_c: &mut Compound, _args: &SetclientidArgs<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn setclientid_confirm(_c: &mut Compound, _args: &SetclientidOk, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn renew(_c: &mut Compound, _args: ClientId, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}
