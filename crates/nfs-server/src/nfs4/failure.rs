//! Why an operation of NFSv4 stops, and the one place where a backend's or the table's refusal becomes an NFSv4 status.
//! What the files below `files` say in NFSv3's words is said in NFSv4's here.

use coherence::Denied;
use nfs_wire::nfs4::{FattrError, NfsStat4};
use nfs_wire::xdr::{Put, Xdr};
use nfs_wire::{Malformed, NfsStat3};
use vfs::{NameError, VfsError};

use crate::failure as v3;
use crate::reply::ReplyWriter;

/// Why an operation stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is answered with this.
    Status(NfsStat4),
    /// It would have to wait, and has changed nothing: it is to be run again on a worker.
    WouldBlock,
}

/// The result of an operation's work.
pub type Done<T> = Result<T, Stop>;

/// The status of a result that was appended to the reply, whole. With an error, nothing was appended.
pub type Answer = Done<NfsStat4>;

/// Appends a result, success or failure.
pub fn answer<'a>(done: Done<impl Xdr<'a>>, out: &mut ReplyWriter) -> Answer {
    let item = done?;
    NfsStat4::OK.put(out);
    item.put(out);
    Ok(NfsStat4::OK)
}

/// Appends a result that has its status inside, as SETATTR's and COPY's.
pub fn answer_with<'a>(status: NfsStat4, result: &impl Xdr<'a>, out: &mut (impl Put + ?Sized)) -> Answer {
    result.put(out);
    Ok(status)
}

impl From<NfsStat4> for Stop {
    fn from(status: NfsStat4) -> Self {
        Self::Status(status)
    }
}

impl From<v3::Stop> for Stop {
    /// The numbers are the same in both versions, but for what one of them does not have.
    fn from(stop: v3::Stop) -> Self {
        match stop {
            v3::Stop::WouldBlock => Self::WouldBlock,
            v3::Stop::TooWeak => Self::Status(NfsStat4::WRONGSEC),
            v3::Stop::Status(NfsStat3::NOT_SYNC) => Self::Status(NfsStat4::SERVERFAULT),
            v3::Stop::Status(status) => Self::Status(NfsStat4(status.0)),
        }
    }
}

impl From<VfsError> for Stop {
    fn from(error: VfsError) -> Self {
        match error {
            VfsError::IsSymlink => Self::Status(NfsStat4::SYMLINK),
            VfsError::NoXattr => Self::Status(NfsStat4::NOXATTR),
            other => v3::Stop::from(other).into(),
        }
    }
}

impl From<NameError> for Stop {
    /// RFC 8881 14.5: a name without a byte is INVAL; one that the server does not take BADNAME, or BADCHAR for a
    /// character.
    fn from(error: NameError) -> Self {
        Self::Status(match error {
            NameError::Empty => NfsStat4::INVAL,
            NameError::TooLong => NfsStat4::NAMETOOLONG,
            NameError::Dots => NfsStat4::BADNAME,
            NameError::Forbidden => NfsStat4::BADCHAR,
        })
    }
}

impl From<Denied> for Stop {
    fn from(denied: Denied) -> Self {
        Self::Status(match denied {
            Denied::ShareViolation => NfsStat4::SHARE_DENIED,
            Denied::DeletePending => NfsStat4::FILE_OPEN,
            Denied::TooManyWaiters => NfsStat4::DELAY,
        })
    }
}

impl From<Malformed> for Stop {
    fn from(_: Malformed) -> Self {
        Self::Status(NfsStat4::BADXDR)
    }
}

impl From<FattrError> for Stop {
    fn from(error: FattrError) -> Self {
        Self::Status(match error {
            FattrError::Malformed(_) => NfsStat4::BADXDR,
            FattrError::NotKnown => NfsStat4::ATTRNOTSUPP,
        })
    }
}
