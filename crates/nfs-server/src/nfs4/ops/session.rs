//! Clients and sessions of 4.1 (RFC 8881 18.33 to 18.37, 18.38, 18.46, 18.48, 18.50, 18.51).

use nfs_wire::nfs4::{
    BackchannelCtlArgs, BindConnArgs, ClientId, CreateSessionArgs, ExchangeIdArgs, NfsStat4, SequenceArgs, SessionId,
    Stateid,
};

use nfs_wire::xdr::List;

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Answer;
use crate::reply::ReplyWriter;

pub fn backchannel_ctl(_c: &mut Compound, _args: &BackchannelCtlArgs<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn bind_conn_to_session(_c: &mut Compound, _args: &BindConnArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn exchange_id(_c: &mut Compound, _args: &ExchangeIdArgs<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn create_session(_c: &mut Compound, _args: &CreateSessionArgs<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn destroy_session(_c: &mut Compound, _args: &SessionId, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn free_stateid(_c: &mut Compound, _args: &Stateid, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn sequence(_c: &mut Compound, _args: &SequenceArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn test_stateid(_c: &mut Compound, _args: List<'_, Stateid>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn destroy_clientid(_c: &mut Compound, _args: ClientId, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn reclaim_complete(_c: &mut Compound, _args: bool, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}
