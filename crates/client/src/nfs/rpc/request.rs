//! Calls as they are built and sent, and answers as they come. A call's head is built with room for what is known only
//! when it leaves (record mark, transaction id, slot); what it carries lies beside it and is never copied.

use std::ops::Range;

use bytes::Bytes;
use nfs_wire::nfs4::SequenceArgs;
use nfs_wire::rpc::{AuthSys, Call, Flavor, FragmentHeader, MAX_GIDS, OpaqueAuth};
use nfs_wire::xdr::{Bounded, List, Put, Reader, Xdr, offset_in, pad_bytes, to_vec};

use crate::error::ErrorKind;

/// Where the transaction id stands: behind the record mark.
const XID_AT: usize = 4;
const ZEROS: [u8; 3] = [0; 3];

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    flavor: Flavor,
    body: Vec<u8>,
}

impl Caller {
    /// Nobody in particular (AUTH_NONE).
    pub fn nobody() -> Self {
        Self { flavor: Flavor::NONE, body: Vec::new() }
    }

    /// A user (AUTH_SYS). Of the groups as many travel as fit, which are 16.
    pub fn user(machine: &str, uid: u32, gid: u32, groups: &[u32]) -> Self {
        let groups = groups.get(..MAX_GIDS).unwrap_or(groups);
        let name = machine.as_bytes().get(..255).unwrap_or(machine.as_bytes());
        let sys = AuthSys { stamp: 0, machine_name: Bounded(name), uid, gid, gids: List::new(groups) };
        Self { flavor: Flavor::SYS, body: sys.to_body() }
    }
}

/// A call to be made.
#[derive(Debug)]
pub struct Request {
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
    /// Sending it twice does no more than sending it once.
    pub(super) repeatable: bool,
    /// Where the arguments of SEQUENCE stand, and whether the server is to keep the answer.
    pub(super) sequence: Option<(usize, bool)>,
}

impl Request {
    /// A call whose arguments `put` appends. It is one that may be repeated.
    pub fn new(caller: &Caller, program: u32, version: u32, procedure: u32, put: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut head = Vec::with_capacity(256);
        head.put_zeros(XID_AT);
        let credential = OpaqueAuth { flavor: caller.flavor, body: Bounded(&caller.body) };
        Call { xid: 0, program, version, procedure, credential, verifier: OpaqueAuth::NONE }.put(&mut head);
        put(&mut head);
        Self { head, body: Bytes::new(), repeatable: true, sequence: None }
    }

    /// With opaque data behind the arguments, whose length `put` has written.
    #[must_use]
    pub fn with_body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    /// Not to be sent again when it may have been done.
    #[must_use]
    pub fn once(self) -> Self {
        Self { repeatable: false, ..self }
    }

    /// A call of a session, whose SEQUENCE stands at `at` (an offset that [`Put::len`] gave) and is filled in when there
    /// is a slot. `keep`: the server is to remember the answer.
    #[must_use]
    pub fn in_session(self, at: usize, keep: bool) -> Self {
        Self { sequence: Some((at, keep)), ..self }
    }

    pub(super) fn set_sequence(&mut self, args: &SequenceArgs) {
        if let Some((at, _)) = self.sequence {
            self.head.patch_bytes(at, &to_vec(args));
        }
    }

    pub(super) fn into_outgoing(mut self, xid: u32) -> Outgoing {
        let len_bytes = self.head.len() - XID_AT + self.body.len() + pad_bytes(self.body.len());
        let mark = FragmentHeader { last: true, len_bytes: u32::try_from(len_bytes).unwrap_or(u32::MAX) };
        self.head.patch_bytes(0, &mark.to_bytes());
        self.head.patch_u32(XID_AT, xid);
        Outgoing { head: self.head.into(), body: self.body, xid }
    }
}

/// A record to be sent: parts that follow one another. Cloning it copies nothing.
#[derive(Debug, Clone)]
pub struct Outgoing {
    head: Bytes,
    body: Bytes,
    xid: u32,
}

impl Outgoing {
    /// A record that lies whole in `head`, its mark included.
    pub(super) fn of(head: Vec<u8>, xid: u32) -> Self {
        Self { head: head.into(), body: Bytes::new(), xid }
    }

    /// The record in its parts: mark and head, data, padding.
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, &self.body, ZEROS.get(..pad_bytes(self.body.len())).unwrap_or_default()]
    }

    /// Bytes of all parts.
    pub fn len_bytes(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }

    /// Its transaction id.
    pub fn xid(&self) -> u32 {
        self.xid
    }
}

/// What a call brought: the record as it came.
#[derive(Debug)]
pub struct Response {
    pub(super) record: Vec<u8>,
    pub(super) results_at: usize,
}

impl Response {
    /// The results.
    pub fn results(&self) -> &[u8] {
        self.record.get(self.results_at..).unwrap_or_default()
    }

    /// The results as what they should be.
    pub fn decode<'a, T: Xdr<'a>>(&'a self) -> Result<T, ErrorKind> {
        T::decode(&mut Reader::new(self.results())).map_err(ErrorKind::from)
    }

    /// Where `part`, cut out of the results, lies in the record.
    pub fn range_of(&self, part: &[u8]) -> Range<usize> {
        // A part without a byte may lie anywhere.
        let at = offset_in(&self.record, part).unwrap_or(0);
        at..at + part.len().min(self.record.len())
    }

    /// The record, for who keeps a part of it.
    pub fn into_record(self) -> Vec<u8> {
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_marked_with_all_it_holds() {
        let request = Request::new(&Caller::nobody(), 100_003, 3, 7, |out| out.put_u32(5));
        let outgoing = request.with_body(Bytes::from_static(b"abcde")).into_outgoing(9);
        let whole = outgoing.parts().concat();
        // Header 40, arguments 4, data 5 and padding 3.
        assert_eq!(whole.len(), 4 + 40 + 4 + 8);
        assert_eq!(whole[..8], [0x80, 0, 0, 52, 0, 0, 0, 9]);
        assert_eq!(whole[44..], *b"\0\0\0\x05abcde\0\0\0");
        assert_eq!(outgoing.len_bytes(), whole.len());
    }

    #[test]
    fn groups_beyond_the_sixteenth_do_not_travel() {
        let groups: Vec<u32> = (0..40).collect();
        assert_eq!(Caller::user("m", 1, 2, &groups), Caller::user("m", 1, 2, &groups[..16]));
    }
}
