//! Open owners. In 4.0 each counts its requests, one at a time (RFC 7530 9.1.7), so that one is used by one open at a
//! time, and again after that: a server that knows it asks for no OPEN_CONFIRM. From 4.1 on an owner is only a name.

use nfs_wire::nfs4::{CompoundResults, NfsStat4, OpResult};
use nfs_wire::xdr::Reader;

use super::super::rpc::Response;

/// Owners kept for use again.
const MOST_IDLE: usize = 256;

/// An open owner that nobody else uses meanwhile.
#[derive(Debug)]
pub(crate) struct Owner {
    pub name: [u8; 8],
    /// Of its next request.
    pub seqid: u32,
}

/// Owners without an open.
#[derive(Debug, Default)]
pub(super) struct Owners {
    idle: Vec<Owner>,
    next: u64,
}

impl Owners {
    pub fn take(&mut self) -> Owner {
        self.idle.pop().unwrap_or_else(|| self.fresh())
    }

    /// One that the server does not know.
    pub fn fresh(&mut self) -> Owner {
        self.next += 1;
        Owner { name: self.next.to_be_bytes(), seqid: 0 }
    }

    pub fn give_back(&mut self, owner: Owner) {
        if self.idle.len() < MOST_IDLE {
            self.idle.push(owner);
        }
    }
}

/// Whether the answer counts as one to the owner's request: RFC 7530 9.1.7 lists what does not.
pub(super) fn counts(response: &Response) -> bool {
    let Ok(mut results) = CompoundResults::decode(&mut Reader::new(response.results())) else { return false };
    let status = loop {
        match results.next_result() {
            Some(Ok(OpResult::Open(result))) => break result.err(),
            Some(Ok(OpResult::Lock(result))) => break result.err().map(|error| error.status()),
            Some(Ok(OpResult::OpenConfirm(r) | OpResult::Close(r) | OpResult::Locku(r))) => break r.err(),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return false,
        }
    };
    !matches!(
        status,
        Some(
            NfsStat4::STALE_CLIENTID
                | NfsStat4::STALE_STATEID
                | NfsStat4::BAD_STATEID
                | NfsStat4::BAD_SEQID
                | NfsStat4::BADXDR
                | NfsStat4::RESOURCE
                | NfsStat4::NOFILEHANDLE
                | NfsStat4::MOVED
        )
    )
}
