//! Compounds as they are built, and their results as they are walked through. A result that is not the operation's, or is
//! missing, is nonsense; a status is what it is.

use nfs_wire::nfs4::{
    Attr, Attrs, Bitmap, CompoundCall, CompoundResults, FattrError, NfsStat4, Op, OpNum, OpResult, SequenceArgs,
};
use nfs_wire::xdr::{Bounded, Reader, Xdr};

use super::super::attr;
use super::super::rpc::Response;
use super::super::{Fh, rpc::Request};
use super::Effect;
use crate::error::ErrorKind;
use crate::stat::Stat;

/// A compound being built.
pub(crate) struct Ops<'v> {
    call: CompoundCall,
    out: &'v mut Vec<u8>,
    /// What stands behind the data that travel beside it, where there are any.
    tail: Option<Vec<u8>>,
    /// Where the arguments of SEQUENCE stand.
    sequence_at: Option<usize>,
}

impl<'v> Ops<'v> {
    /// Begins one; in a session (`minor` above 0 and `in_session`) with SEQUENCE, to be filled in later.
    pub fn begin(minor: u32, in_session: bool, out: &'v mut Vec<u8>) -> Self {
        const UNKNOWN: SequenceArgs =
            SequenceArgs { session_id: [0; 16], sequence_id: 0, slot_id: 0, highest_slot_id: 0, cache_this: false };
        let call = CompoundCall::begin(b"", minor, out);
        let mut ops = Self { call, out, tail: None, sequence_at: None };
        if minor > 0 && in_session {
            ops.sequence_at = Some(ops.out.len() + 4);
            ops.op(&Op::Sequence(UNKNOWN));
        }
        ops
    }

    /// Appends an operation.
    pub fn op<'a>(&mut self, op: &impl Xdr<'a>) -> &mut Self {
        match &mut self.tail {
            Some(tail) => self.call.op(op, tail),
            None => self.call.op(op, self.out),
        }
        self
    }

    /// The data of the last operation follow, beside it.
    pub fn data_follow(&mut self) -> &mut Self {
        self.tail = Some(Vec::new());
        self
    }

    /// Appends PUTFH.
    pub fn at(&mut self, fh: &Fh) -> &mut Self {
        self.op(&Op::Putfh(Bounded(fh)))
    }

    /// Appends a LOOKUP for each name.
    pub fn walk(&mut self, names: &[Vec<u8>]) -> &mut Self {
        names.iter().fold(self, |ops, name| ops.op(&Op::Lookup(name)))
    }

    /// Appends a GETATTR of what a [`Stat`] holds.
    pub fn stat(&mut self) -> &mut Self {
        self.op(&Op::Getattr(attr::asked()))
    }

    /// Ends it; answers where SEQUENCE is to be filled in, and what stands behind the data.
    pub fn end(self) -> (Option<usize>, Vec<u8>) {
        self.call.end(self.out);
        (self.sequence_at, self.tail.unwrap_or_default())
    }
}

/// How a request travels: see [`Request`].
pub(super) fn travelling(request: Request, sequence_at: Option<usize>, effect: Effect, minor: u32) -> Request {
    match sequence_at {
        Some(at) => request.in_session(at, effect != Effect::None),
        // Outside of a session only the answer says whether something was done.
        None if effect == Effect::Once && minor == 0 => request.once(),
        None => request,
    }
}

/// An answer to a compound.
#[derive(Debug)]
pub(crate) struct Answer(pub Response);

impl Answer {
    /// The results, those of SEQUENCE passed over.
    pub fn walk(&self) -> Result<Walk<'_>, ErrorKind> {
        let mut results = CompoundResults::decode(&mut Reader::new(self.0.results()))?;
        let mut peek = results.clone();
        if matches!(peek.next_result(), Some(Ok(OpResult::Sequence(Ok(_))))) {
            results = peek;
        }
        Ok(Walk { results })
    }

    /// The status of the whole, and the operation that has it.
    pub fn outcome(&self) -> Result<(NfsStat4, Option<OpNum>), ErrorKind> {
        outcome(&self.0)
    }
}

pub(super) fn outcome(response: &Response) -> Result<(NfsStat4, Option<OpNum>), ErrorKind> {
    let mut results = CompoundResults::decode(&mut Reader::new(response.results()))?;
    if results.status == NfsStat4::OK {
        return Ok((NfsStat4::OK, None));
    }
    let mut last = None;
    while let Some(Ok(result)) = results.next_result() {
        last = Some(result.number());
    }
    Ok((results.status, last))
}

/// Results, one after the other.
pub(crate) struct Walk<'a> {
    results: CompoundResults<'a>,
}

const OTHER: ErrorKind = ErrorKind::Nonsense("the results are not those of the operations");

impl<'a> Walk<'a> {
    /// The next result.
    pub fn next(&mut self) -> Result<OpResult<'a>, ErrorKind> {
        match self.results.next_result() {
            Some(result) => Ok(result?),
            None if self.results.status != NfsStat4::OK => Err(self.results.status.into()),
            None => Err(ErrorKind::Nonsense("results are missing")),
        }
    }

    /// Passes over the next `count` results of operations that have nothing to say.
    pub fn pass(&mut self, count: usize) -> Result<&mut Self, ErrorKind> {
        for _ in 0..count {
            self.done()?;
        }
        Ok(self)
    }

    /// The next result, of an operation of which only the status matters.
    pub fn done(&mut self) -> Result<(), ErrorKind> {
        let status = match self.next()? {
            OpResult::Putfh(r)
            | OpResult::Putrootfh(r)
            | OpResult::Lookup(r)
            | OpResult::Savefh(r)
            | OpResult::Restorefh(r)
            | OpResult::Verify(r)
            | OpResult::Clone(r)
            | OpResult::Delegreturn(r)
            | OpResult::Renew(r)
            | OpResult::SetclientidConfirm(r)
            | OpResult::DestroySession(r)
            | OpResult::DestroyClientid(r)
            | OpResult::ReclaimComplete(r) => r.err(),
            OpResult::Create(r) => r.err(),
            OpResult::Remove(r) | OpResult::Link(r) => r.err(),
            OpResult::Rename(r) => r.err(),
            OpResult::Setattr(r) => Some(r.status).filter(|status| *status != NfsStat4::OK),
            _ => return Err(OTHER),
        };
        status.map_or(Ok(()), |status| Err(status.into()))
    }

    pub fn attrs(&mut self) -> Result<Attrs<'a>, ErrorKind> {
        let OpResult::Getattr(result) = self.next()? else { return Err(OTHER) };
        attrs_of(result?)
    }

    pub fn stat(&mut self) -> Result<Stat, ErrorKind> {
        Ok(Stat::from(&self.attrs()?))
    }

    pub fn handle(&mut self) -> Result<Fh, ErrorKind> {
        let OpResult::Getfh(result) = self.next()? else { return Err(OTHER) };
        Ok(result?.0.into())
    }
}

/// The next result, which is to be of one operation: its success.
macro_rules! result_of {
    ($walk:expr, $op:ident) => {
        match $walk.next()? {
            nfs_wire::nfs4::OpResult::$op(result) => result.map_err(crate::error::ErrorKind::from),
            _ => Err(crate::error::ErrorKind::Nonsense("the results are not those of the operations")),
        }
    };
}

pub(super) use result_of;

pub(super) fn attrs_of(fattr: nfs_wire::nfs4::Fattr<'_>) -> Result<Attrs<'_>, ErrorKind> {
    fattr.attrs().map_err(|error| match error {
        FattrError::Malformed(malformed) => malformed.into(),
        FattrError::NotKnown => ErrorKind::Nonsense("attributes that were not asked for"),
    })
}

/// What a GETATTR asks of a whole server and export.
pub(super) fn asked_of_export() -> Bitmap {
    Bitmap::of(&[Attr::Type, Attr::LeaseTime, Attr::Maxread, Attr::Maxwrite, Attr::LinkSupport])
}
