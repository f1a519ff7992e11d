//! Context handles of `lsarpc` and `samr`. They name what they are of, so that the server keeps nothing for a client that
//! never closes one, and a handle made up by a client leads to no more than it could open. Used by those two.

use super::ndr::{NdrError, NdrReader, NdrWriter};
use super::pipe::Fault;
use crate::status::NtStatus;

/// What a handle is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handle {
    /// The LSA's policy.
    Policy,
    /// The SAM.
    Server,
    /// The machine's own domain.
    Domain,
    /// BUILTIN.
    Builtin,
    /// The user of the machine's domain with this relative id.
    User(u32),
}

/// Tells them from the handles of other servers.
const MARK: u32 = 0x6572_6f68;

impl Handle {
    /// Reads one; `None` is no handle of this server.
    pub fn take(from: &mut NdrReader<'_>) -> Result<Option<Self>, NdrError> {
        let (attributes, mark, kind, rid, rest) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?, from.u32()?);
        if (attributes, mark, rest) != (0, MARK, 0) {
            return Ok(None);
        }
        Ok(match (kind, rid) {
            (1, 0) => Some(Self::Policy),
            (2, 0) => Some(Self::Server),
            (3, 0) => Some(Self::Domain),
            (4, 0) => Some(Self::Builtin),
            (5, rid) => Some(Self::User(rid)),
            _ => None,
        })
    }

    /// Writes it.
    pub fn put(self, out: &mut NdrWriter) {
        let (kind, rid) = match self {
            Self::Policy => (1, 0),
            Self::Server => (2, 0),
            Self::Domain => (3, 0),
            Self::Builtin => (4, 0),
            Self::User(rid) => (5, rid),
        };
        [0, MARK, kind, rid, 0].into_iter().for_each(|word| out.u32(word));
    }
}

/// The answer to a call that opens: the handle and success.
pub(super) fn opened(handle: Handle) -> Vec<u8> {
    let mut out = NdrWriter::new();
    handle.put(&mut out);
    out.u32(NtStatus::SUCCESS.0);
    out.finish()
}

/// The answer to a call that would have opened something.
pub(super) fn not_opened(status: NtStatus) -> Vec<u8> {
    let mut out = NdrWriter::new();
    out.bytes(&[0; 20]);
    out.u32(status.0);
    out.finish()
}

/// A call that closes: the handle comes back as none.
pub(super) fn close(from: &mut NdrReader<'_>) -> Result<Vec<u8>, Fault> {
    let closed = Handle::take(from)?.is_some();
    Ok(not_opened(if closed { NtStatus::SUCCESS } else { NtStatus::INVALID_HANDLE }))
}
