//! Why a procedure is answered with an error, and the one place where a backend's or the table's refusal becomes an NFS
//! status.

use coherence::Denied;
use nfs_wire::{Malformed, NfsStat3};
use vfs::{NameError, VfsError};

/// Why a procedure stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is answered with this.
    Status(NfsStat3),
    /// It would have to wait: it is to be run again on a worker.
    WouldBlock,
    /// The export wants a better proof of who calls.
    TooWeak,
}

/// The result of a procedure's work.
pub type Done<T> = Result<T, Stop>;

/// Why no reply was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// The arguments cannot be decoded: GARBAGE_ARGS.
    Malformed,
    /// The procedure is to be run again on a worker.
    WouldBlock,
    /// The procedure is not offered: PROC_UNAVAIL.
    Unavailable,
    /// It is being done already: nothing is answered.
    Silent,
    /// The export wants a better proof of who calls: AUTH_TOOWEAK (RFC 2623 2.3).
    TooWeak,
    /// The worker did not come back: SYSTEM_ERR.
    Lost,
}

impl From<Malformed> for Halt {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl From<NfsStat3> for Stop {
    fn from(status: NfsStat3) -> Self {
        Self::Status(status)
    }
}

impl From<VfsError> for Stop {
    fn from(error: VfsError) -> Self {
        match error {
            VfsError::WouldBlock => Self::WouldBlock,
            other => Self::Status(status_of(other)),
        }
    }
}

impl From<NameError> for Stop {
    /// RFC 1813 3.3.2 and 3.2: a name the server does not take is INVAL, an empty one ACCES.
    fn from(error: NameError) -> Self {
        Self::Status(match error {
            NameError::Empty => NfsStat3::ACCES,
            NameError::TooLong => NfsStat3::NAMETOOLONG,
            NameError::Dots | NameError::Forbidden => NfsStat3::INVAL,
        })
    }
}

impl From<Denied> for Stop {
    /// What another open forbids stays forbidden for as long as that is open, so that a client that waited for it could
    /// wait for ever: it is an error, not JUKEBOX.
    fn from(denied: Denied) -> Self {
        Self::Status(match denied {
            Denied::ShareViolation | Denied::DeletePending => NfsStat3::ACCES,
            Denied::TooManyWaiters => NfsStat3::JUKEBOX,
        })
    }
}

/// The status for a backend's refusal (RFC 1813 2.6).
pub fn status_of(error: VfsError) -> NfsStat3 {
    match error {
        VfsError::NotFound | VfsError::PathNotFound => NfsStat3::NOENT,
        VfsError::Exists => NfsStat3::EXIST,
        VfsError::NotDirectory => NfsStat3::NOTDIR,
        VfsError::IsDirectory => NfsStat3::ISDIR,
        VfsError::NotEmpty => NfsStat3::NOTEMPTY,
        VfsError::AccessDenied | VfsError::Escapes => NfsStat3::ACCES,
        VfsError::NotPermitted => NfsStat3::PERM,
        VfsError::NoSpace => NfsStat3::NOSPC,
        VfsError::QuotaExceeded => NfsStat3::DQUOT,
        VfsError::ReadOnly => NfsStat3::ROFS,
        VfsError::TooManyLinks => NfsStat3::MLINK,
        VfsError::NameTooLong => NfsStat3::NAMETOOLONG,
        VfsError::InvalidName | VfsError::IsSymlink | VfsError::InvalidArgument => NfsStat3::INVAL,
        VfsError::CrossDevice => NfsStat3::XDEV,
        VfsError::TooLarge => NfsStat3::FBIG,
        VfsError::Stale => NfsStat3::STALE,
        VfsError::NotSupported => NfsStat3::NOTSUPP,
        VfsError::Busy | VfsError::WouldBlock | VfsError::OutOfResources => NfsStat3::JUKEBOX,
        VfsError::NoXattr => NfsStat3::NOENT,
        VfsError::RangeTooSmall => NfsStat3::TOOSMALL,
        VfsError::Io(_) => NfsStat3::IO,
        _ => NfsStat3::SERVERFAULT,
    }
}
