//! The seqid of a 4.0 open owner or lock owner: each of its requests is done once, and one that is sent again is
//! answered as it was the first time (RFC 7530 9.1.7). Called by the operations that carry a seqid; 4.1 has slots
//! instead.

use nfs_wire::nfs4::{NfsStat4, OpNum};

/// What a request with this seqid is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<'a, F> {
    /// The next one: to be done.
    Next,
    /// The last one again: this was its answer.
    Again(&'a Answered<F>),
}

/// The answer to an owner's last request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered<F> {
    /// Which operation it was.
    pub op: OpNum,
    /// Its status.
    pub status: NfsStat4,
    /// Its result, the status included.
    pub result: Box<[u8]>,
    /// The current handle after it, where it set one.
    pub current: Option<F>,
}

/// An owner's sequence.
#[derive(Debug)]
pub(crate) struct Sequence<F> {
    last: u32,
    answered: Option<Answered<F>>,
}

impl<F> Sequence<F> {
    /// Of an owner whose first request has this seqid.
    pub fn starting_at(first: u32) -> Self {
        Self { last: first.wrapping_sub(1), answered: None }
    }

    /// Looks whose turn it is: BAD_SEQID for a request that is neither the next nor the last one.
    pub fn turn(&self, seqid: u32, op: OpNum) -> Result<Turn<'_, F>, NfsStat4> {
        if seqid == self.last.wrapping_add(1) {
            return Ok(Turn::Next);
        }
        match &self.answered {
            Some(answered) if seqid == self.last && answered.op == op => Ok(Turn::Again(answered)),
            _ => Err(NfsStat4::BAD_SEQID),
        }
    }

    /// Notes a request that another owner's sequence answers for: a lock owner's first lock through an open.
    pub fn passed(&mut self, seqid: u32) {
        self.last = seqid;
        self.answered = None;
    }

    /// Notes the answer to the request whose turn it was.
    pub fn done(&mut self, seqid: u32, answered: Answered<F>) {
        if counts(answered.status) {
            self.last = seqid;
            self.answered = Some(answered);
        }
    }
}

/// Whether a request that ended so has used up its seqid (RFC 7530 9.1.7).
fn counts(status: NfsStat4) -> bool {
    !matches!(
        status,
        NfsStat4::STALE_CLIENTID
            | NfsStat4::STALE_STATEID
            | NfsStat4::BAD_STATEID
            | NfsStat4::BAD_SEQID
            | NfsStat4::BADXDR
            | NfsStat4::RESOURCE
            | NfsStat4::NOFILEHANDLE
            | NfsStat4::MOVED
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(op: OpNum, status: NfsStat4) -> Answered<u8> {
        Answered { op, status, result: status.0.to_be_bytes().into(), current: None }
    }

    #[test]
    fn a_request_is_done_once_and_answered_again() {
        let mut sequence = Sequence::starting_at(u32::MAX);
        assert_eq!(sequence.turn(u32::MAX, OpNum::Open), Ok(Turn::Next));
        sequence.done(u32::MAX, answer(OpNum::Open, NfsStat4::OK));
        assert_eq!(sequence.turn(u32::MAX, OpNum::Open), Ok(Turn::Again(&answer(OpNum::Open, NfsStat4::OK))));
        assert_eq!(sequence.turn(u32::MAX, OpNum::Close), Err(NfsStat4::BAD_SEQID));
        assert_eq!(sequence.turn(0, OpNum::Close), Ok(Turn::Next));
        assert_eq!(sequence.turn(1, OpNum::Close), Err(NfsStat4::BAD_SEQID));
        sequence.done(0, answer(OpNum::Close, NfsStat4::BAD_STATEID));
        assert_eq!(sequence.turn(0, OpNum::Close), Ok(Turn::Next), "that one did not count");
        sequence.done(0, answer(OpNum::Close, NfsStat4::LOCKS_HELD));
        assert_eq!(sequence.turn(1, OpNum::Close), Ok(Turn::Next), "this one did");
    }

    #[test]
    fn nothing_is_answered_again_that_never_was_answered() {
        let sequence = Sequence::<u8>::starting_at(5);
        assert_eq!(sequence.turn(4, OpNum::Open), Err(NfsStat4::BAD_SEQID));
        assert_eq!(sequence.turn(5, OpNum::Open), Ok(Turn::Next));
    }
}
