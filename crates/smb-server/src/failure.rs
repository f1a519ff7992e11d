//! Why a request is answered with an error, and the one place where a backend's refusal becomes an NTSTATUS.

use coherence::{Denied, LockError};
use smb_wire::NtStatus;
use smb_wire::codec::Truncated;
use smb_wire::smb2::Malformed;
use vfs::VfsError;

/// The outcome of a handler: the status of its response, whose body it has written.
pub type Outcome = Result<NtStatus, Failure>;

/// A request that failed: the status, and ErrorData if the status carries any (MS-SMB2 2.2.2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status.
    pub status: NtStatus,
    /// ErrorData.
    pub data: Vec<u8>,
    /// Whether the data go in an error context, and its ErrorId (3.1.1 only).
    pub context: Option<u32>,
}

impl Failure {
    /// STATUS_BUFFER_TOO_SMALL with the size that would do (MS-SMB2 2.2.2.1).
    pub fn buffer_too_small(needed_bytes: u32) -> Self {
        Self { status: NtStatus::BUFFER_TOO_SMALL, data: needed_bytes.to_le_bytes().to_vec(), context: None }
    }
}

impl From<NtStatus> for Failure {
    fn from(status: NtStatus) -> Self {
        Self { status, data: Vec::new(), context: None }
    }
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        NtStatus::INVALID_PARAMETER.into()
    }
}

impl From<Truncated> for Failure {
    fn from(_: Truncated) -> Self {
        NtStatus::INVALID_PARAMETER.into()
    }
}

impl From<VfsError> for Failure {
    fn from(error: VfsError) -> Self {
        status_of(error).into()
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::ShareViolation => NtStatus::SHARING_VIOLATION,
            Denied::DeletePending => NtStatus::DELETE_PENDING,
            Denied::TooManyWaiters => NtStatus::INSUFFICIENT_RESOURCES,
        }
        .into()
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Conflict(_) => NtStatus::LOCK_NOT_GRANTED,
            LockError::InvalidRange => NtStatus::INVALID_LOCK_RANGE,
            LockError::TooMany => NtStatus::INSUFFICIENT_RESOURCES,
        }
        .into()
    }
}

/// The NTSTATUS for a backend's refusal.
pub fn status_of(error: VfsError) -> NtStatus {
    match error {
        VfsError::NotFound => NtStatus::OBJECT_NAME_NOT_FOUND,
        VfsError::PathNotFound => NtStatus::OBJECT_PATH_NOT_FOUND,
        VfsError::Exists => NtStatus::OBJECT_NAME_COLLISION,
        VfsError::NotDirectory => NtStatus::NOT_A_DIRECTORY,
        VfsError::IsDirectory => NtStatus::FILE_IS_A_DIRECTORY,
        VfsError::NotEmpty => NtStatus::DIRECTORY_NOT_EMPTY,
        VfsError::AccessDenied | VfsError::NotPermitted => NtStatus::ACCESS_DENIED,
        VfsError::NoSpace | VfsError::QuotaExceeded => NtStatus::DISK_FULL,
        VfsError::ReadOnly => NtStatus::MEDIA_WRITE_PROTECTED,
        VfsError::TooManyLinks => NtStatus::TOO_MANY_LINKS,
        VfsError::NameTooLong | VfsError::InvalidName => NtStatus::OBJECT_NAME_INVALID,
        VfsError::Escapes => NtStatus::OBJECT_PATH_NOT_FOUND,
        VfsError::IsSymlink => NtStatus::STOPPED_ON_SYMLINK,
        VfsError::CrossDevice => NtStatus::NOT_SAME_DEVICE,
        VfsError::TooLarge => NtStatus::DISK_FULL,
        VfsError::InvalidArgument => NtStatus::INVALID_PARAMETER,
        VfsError::Stale => NtStatus::FILE_CLOSED,
        VfsError::Busy => NtStatus::SHARING_VIOLATION,
        VfsError::NoXattr => NtStatus::NO_EAS_ON_FILE,
        VfsError::RangeTooSmall => NtStatus::BUFFER_TOO_SMALL,
        VfsError::NotSupported => NtStatus::NOT_SUPPORTED,
        VfsError::OutOfResources => NtStatus::INSUFFICIENT_RESOURCES,
        VfsError::WouldBlock | VfsError::Io(_) => NtStatus::UNEXPECTED_IO_ERROR,
        _ => NtStatus::UNSUCCESSFUL,
    }
}
