//! READ, WRITE and COMMIT (RFC 8881 18.22, 18.32, 18.3) as requests, and what their answers must be.

use bytes::Bytes;
use nfs_wire::nfs4::{CommitArgs, Op, OpNum, OpResult, ReadArgs, StableHow, Stateid, WriteHead};

use super::super::Fh;
use super::super::open::Written;
use super::super::rpc::{Request, Response};
use super::compound::result_of;
use super::{Answer, Four};
use crate::error::ErrorKind;
use crate::stream::Part;

impl Four {
    pub fn read(&self, fh: &Fh, stateid: Stateid, offset_bytes: u64, count_bytes: u32) -> Request {
        let args = ReadArgs { stateid, offset_bytes, count_bytes };
        self.request(false, |ops| {
            ops.at(fh).op(&Op::Read(args));
        })
    }

    /// The data travel behind the request and are copied nowhere.
    pub fn write(&self, fh: &Fh, stateid: Stateid, offset_bytes: u64, data: Bytes) -> Request {
        let head = WriteHead { stateid, offset_bytes, stable: StableHow::Unstable };
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let build = |ops: &mut super::Ops<'_>| {
            ops.at(fh).op(&(OpNum::Write, (head, len_bytes)));
        };
        self.request(false, build).with_body(data)
    }

    pub fn commit(&self, fh: &Fh) -> Request {
        let args = CommitArgs { offset_bytes: 0, count_bytes: 0 };
        self.request(false, |ops| {
            ops.at(fh).op(&Op::Commit(args));
        })
    }
}

/// What a READ brought, and whether the file ends there.
pub(crate) fn was_read(response: Response) -> Result<(Part, bool), ErrorKind> {
    let answer = Answer(response);
    let (range, eof) = {
        let mut walk = answer.walk()?;
        let OpResult::Read(result) = walk.pass(1)?.next()? else {
            return Err(ErrorKind::Nonsense("the results are not those of the operations"));
        };
        let ok = result?;
        (answer.0.range_of(ok.data), ok.eof)
    };
    Ok((Part { buf: answer.0.into_record().into(), range }, eof))
}

pub(crate) fn was_written(response: Response) -> Result<Written, ErrorKind> {
    let answer = Answer(response);
    let ok = result_of!(answer.walk()?.pass(1)?, Write)?;
    Ok(Written { count_bytes: ok.count_bytes, is_safe: ok.committed != StableHow::Unstable, verifier: ok.verifier })
}

pub(crate) fn was_committed(response: Response) -> Result<[u8; 8], ErrorKind> {
    result_of!(Answer(response).walk()?.pass(1)?, Commit)
}
