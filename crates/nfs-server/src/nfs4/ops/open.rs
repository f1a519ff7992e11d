//! OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE and CLOSE (RFC 8881 18.16, 18.18, 18.2; RFC 7530 16.16 to 16.19).

use nfs_wire::nfs4::{CloseArgs, NfsStat4, OpenArgs, OpenConfirmArgs, OpenDowngradeArgs};

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Answer;
use crate::reply::ReplyWriter;

pub fn open(_c: &mut Compound, _args: &OpenArgs<'_>, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn open_confirm(_c: &mut Compound, _args: &OpenConfirmArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn open_downgrade(_c: &mut Compound, _args: &OpenDowngradeArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}

pub fn close(_c: &mut Compound, _args: &CloseArgs, _out: &mut ReplyWriter) -> Answer {
    Err(NfsStat4::NOTSUPP.into())
}
