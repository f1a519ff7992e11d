//! LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER (RFC 8881 18.10 to 18.12, RFC 7530 16.37).

use nfs_wire::nfs4::{LockArgs, LocktArgs, LockuArgs, NfsStat4, StateOwner};

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Answer;
use crate::reply::ReplyWriter;

pub fn lock(_c: &mut Compound, _args: &LockArgs<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn lockt(_c: &mut Compound, _args: &LocktArgs<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn locku(_c: &mut Compound, _args: &LockuArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn release_lockowner(_c: &mut Compound, _args: &StateOwner<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}
