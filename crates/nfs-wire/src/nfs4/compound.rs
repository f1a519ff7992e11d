//! COMPOUND (RFC 7530 15.2, RFC 8881 16.2): several operations in one call, each decoded when its turn comes, since the
//! first that fails ends them. The reply is written result by result, its status and count patched in at the end.

use super::ops::{Op, OpNum, OpResult};
use super::status::NfsStat4;
use crate::xdr::{Malformed, Put, Reader, Xdr};

/// The procedures of the program.
pub const PROC_NULL: u32 = 0;
/// See [`PROC_NULL`].
pub const PROC_COMPOUND: u32 = 1;

/// The arguments of COMPOUND, being walked through.
#[derive(Debug, Clone)]
pub struct Compound<'a> {
    /// Repeated in the reply; any bytes.
    pub tag: &'a [u8],
    /// 0, 1 or 2.
    pub minor_version: u32,
    /// How many operations the client says there are.
    pub op_count: u32,
    left: u32,
    r: Reader<'a>,
}

/// An operation of a COMPOUND, or why it is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextOp<'a> {
    /// An operation.
    Op(Op<'a>),
    /// Its number is of no operation of this minor version: the result is that of [`OpNum::Illegal`], OP_ILLEGAL.
    Illegal(u32),
    /// Its arguments cannot be decoded: BADXDR.
    Malformed(OpNum, Malformed),
    /// The message ends before the operation begins: BADXDR, as the result of [`OpNum::Illegal`].
    Missing,
}

impl<'a> Compound<'a> {
    /// Decodes the head. The operations follow in `r`, which is not moved past them.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (tag, minor_version, op_count) = (Xdr::decode(r)?, r.u32()?, r.u32()?);
        Ok(Self { tag, minor_version, op_count, left: op_count, r: *r })
    }

    /// The next operation. After one that is none, there is no further one.
    pub fn next_op(&mut self) -> Option<NextOp<'a>> {
        self.left = self.left.checked_sub(1)?;
        let next = self.decode_op();
        if !matches!(next, NextOp::Op(_)) {
            self.left = 0;
        }
        Some(next)
    }

    /// How many operations are still to come, as far as the client says.
    pub fn left(&self) -> u32 {
        self.left
    }

    fn decode_op(&mut self) -> NextOp<'a> {
        let Ok(number) = self.r.u32() else { return NextOp::Missing };
        let Some(known) = OpNum::from_u32(number).filter(|op| op.is_in(self.minor_version)) else {
            return NextOp::Illegal(number);
        };
        match Op::decode_args(known, &mut self.r) {
            Ok(op) => NextOp::Op(op),
            Err(malformed) => NextOp::Malformed(known, malformed),
        }
    }
}

/// A COMPOUND or CB_COMPOUND call that is being written.
#[derive(Debug)]
#[must_use]
pub struct CompoundCall {
    count_at: usize,
    count: u32,
}

impl CompoundCall {
    /// Appends the head of COMPOUND.
    pub fn begin(tag: &[u8], minor_version: u32, out: &mut (impl Put + ?Sized)) -> Self {
        out.put_opaque(tag);
        out.put_u32(minor_version);
        Self { count_at: out.reserve_u32(), count: 0 }
    }

    /// Appends the head of CB_COMPOUND; the ident is what SETCLIENTID gave (4.0).
    pub fn begin_callback(tag: &[u8], minor_version: u32, ident: u32, out: &mut (impl Put + ?Sized)) -> Self {
        out.put_opaque(tag);
        out.put_u32(minor_version);
        out.put_u32(ident);
        Self { count_at: out.reserve_u32(), count: 0 }
    }

    /// Appends an operation: an [`Op`], or a [`super::CbOp`] in a callback.
    pub fn op<'a>(&mut self, op: &impl Xdr<'a>, out: &mut (impl Put + ?Sized)) {
        self.count += 1;
        op.put(out);
    }

    /// Ends the call.
    pub fn end(self, out: &mut (impl Put + ?Sized)) {
        out.patch_u32(self.count_at, self.count);
    }
}

/// A reply to COMPOUND or CB_COMPOUND that is being written.
#[derive(Debug)]
#[must_use]
pub struct CompoundReply {
    status_at: usize,
    count_at: usize,
    count: u32,
}

impl CompoundReply {
    /// Appends the head.
    pub fn begin(tag: &[u8], out: &mut (impl Put + ?Sized)) -> Self {
        let status_at = out.reserve_u32();
        out.put_opaque(tag);
        Self { status_at, count_at: out.reserve_u32(), count: 0 }
    }

    /// Appends an operation's number; its result, which begins with a status, is to be appended next. Answers where.
    pub fn begin_result(&mut self, number: u32, out: &mut (impl Put + ?Sized)) -> usize {
        self.count += 1;
        out.put_u32(number);
        out.len()
    }

    /// Appends an operation's number and result.
    pub fn result<'a>(&mut self, number: OpNum, result: &impl Xdr<'a>, out: &mut (impl Put + ?Sized)) {
        self.begin_result(number as u32, out);
        result.put(out);
    }

    /// Takes back the last result, which began at the offset that [`Self::begin_result`] answered, and appends `status`
    /// in its place: for a result that turns out too large for the reply.
    pub fn replace_result(&mut self, result_at: usize, status: NfsStat4, out: &mut (impl Put + ?Sized)) {
        out.truncate(result_at);
        status.put(out);
    }

    /// Takes back the last result with its number, as if it had never been begun.
    pub fn take_back(&mut self, result_at: usize, out: &mut (impl Put + ?Sized)) {
        out.truncate(result_at.saturating_sub(4));
        self.count = self.count.saturating_sub(1);
    }

    /// How many results there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Ends the reply; `status` is the last result's.
    pub fn end(self, status: NfsStat4, out: &mut (impl Put + ?Sized)) {
        out.patch_u32(self.status_at, status.0);
        out.patch_u32(self.count_at, self.count);
    }
}

/// The reply to COMPOUND, being walked through.
#[derive(Debug, Clone)]
pub struct CompoundResults<'a> {
    /// The last result's status.
    pub status: NfsStat4,
    /// The call's tag.
    pub tag: &'a [u8],
    left: u32,
    r: Reader<'a>,
}

impl<'a> CompoundResults<'a> {
    /// Decodes the head.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { status: Xdr::decode(r)?, tag: Xdr::decode(r)?, left: r.u32()?, r: *r })
    }

    /// The next operation's result. After an error there is no further one.
    pub fn next_result(&mut self) -> Option<Result<OpResult<'a>, Malformed>> {
        self.next_as()
    }

    /// What was not walked through yet.
    pub fn rest(&self) -> &'a [u8] {
        self.r.clone().rest()
    }

    /// The next result of a CB_COMPOUND.
    pub fn next_as<T: Xdr<'a>>(&mut self) -> Option<Result<T, Malformed>> {
        self.left = self.left.checked_sub(1)?;
        let result = T::decode(&mut self.r);
        if result.is_err() {
            self.left = 0;
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests;
