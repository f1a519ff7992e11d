//! The operations on the current and the saved file handle (RFC 8881 18.8, 18.19 to 18.21, 18.27, 18.28).

use nfs_wire::nfs4::NfsStat4;
use nfs_wire::xdr::Bounded;

use crate::nfs4::compound::Compound;
use crate::nfs4::failure::{Answer, answer};
use crate::nfs4::fh::Fh;
use crate::reply::ReplyWriter;

pub fn putfh(c: &mut Compound, handle: &[u8], out: &mut ReplyWriter) -> Answer {
    let fh = Fh::of(&c.cx, handle)?;
    c.set_current(fh);
    answer(Ok(()), out)
}

/// PUTROOTFH, and PUTPUBFH: the public directory is the root.
pub fn putrootfh(c: &mut Compound, out: &mut ReplyWriter) -> Answer {
    c.set_current(Fh::Pseudo);
    answer(Ok(()), out)
}

pub fn getfh(c: &mut Compound, out: &mut ReplyWriter) -> Answer {
    let handle = c.current()?.handle(&c.cx.server)?;
    answer(Ok(Bounded::<128>(&handle)), out)
}

pub fn savefh(c: &mut Compound, out: &mut ReplyWriter) -> Answer {
    c.saved = Some(c.current()?.clone());
    c.saved_stateid = c.stateid;
    answer(Ok(()), out)
}

pub fn restorefh(c: &mut Compound, out: &mut ReplyWriter) -> Answer {
    c.current = Some(c.saved.clone().ok_or(NfsStat4::RESTOREFH)?);
    c.stateid = c.saved_stateid;
    answer(Ok(()), out)
}
