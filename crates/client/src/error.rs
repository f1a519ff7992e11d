//! The one error of this crate: what was being done, to what, what came of it, and what might help. Everything public
//! answers with it; it must never hold a secret.

use std::path::{Path, PathBuf};

use nfs_wire::mount::MountStat3;
use nfs_wire::nlm::NlmStat;
use nfs_wire::{NfsStat3, NfsStat4};
use smb_wire::NtStatus;

use crate::nfs::NfsStatus;
use crate::smb::Failure;

/// An operation that failed.
#[derive(Debug, Clone)]
pub struct Error {
    operation: &'static str,
    path: PathBuf,
    kind: ErrorKind,
}

/// Why it failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server refused it.
    #[error("{0}")]
    Status(NtStatus),
    /// An NFS server refused it.
    #[error("{0}")]
    Nfs(NfsStatus),
    /// The connection is over, and why.
    #[error("{0}")]
    Connection(Failure),
    /// The server answered, but not with what the protocol has there.
    #[error("the server's answer makes no sense: {0}")]
    Nonsense(&'static str),
    /// What the caller gave cannot be used.
    #[error("{0}")]
    Input(&'static str),
}

impl Error {
    pub(crate) fn new(operation: &'static str, path: &Path, kind: ErrorKind) -> Self {
        Self { operation, path: path.into(), kind }
    }

    /// What was being done: `open`, `read`, `connect`.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// To what: a path below the share, or the server and share.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why it failed.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The server's status, if it was the server that refused.
    pub fn status(&self) -> Option<NtStatus> {
        match &self.kind {
            ErrorKind::Status(status) | ErrorKind::Connection(Failure::Login(status)) => Some(*status),
            _ => None,
        }
    }

    /// The status of an NFS server, if it was one that refused.
    pub fn nfs_status(&self) -> Option<NfsStatus> {
        match &self.kind {
            ErrorKind::Nfs(status) => Some(*status),
            _ => None,
        }
    }

    /// Whether there is nothing of that name, or no directory on the way to it.
    pub fn is_not_found(&self) -> bool {
        self.nfs_status().is_some_and(NfsStatus::is_not_found)
            || matches!(
                self.status(),
                Some(NtStatus::OBJECT_NAME_NOT_FOUND | NtStatus::OBJECT_PATH_NOT_FOUND | NtStatus::NO_SUCH_FILE)
            )
    }

    /// Whether the name is taken.
    pub fn is_taken(&self) -> bool {
        self.nfs_status().is_some_and(NfsStatus::is_taken) || self.status() == Some(NtStatus::OBJECT_NAME_COLLISION)
    }

    /// Whether the server does not know how.
    pub fn is_unsupported(&self) -> bool {
        self.nfs_status().is_some_and(NfsStatus::is_unsupported)
            || matches!(self.status(), Some(NtStatus::NOT_SUPPORTED | NtStatus::INVALID_DEVICE_REQUEST))
    }

    /// Whether the connection, or the login, is what failed: nothing else will work either.
    pub fn is_of_the_connection(&self) -> bool {
        match &self.kind {
            ErrorKind::Connection(failure) => !matches!(failure, Failure::Interrupted | Failure::FileLost),
            _ => false,
        }
    }

    /// What might help, for a person.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.kind {
            ErrorKind::Status(status) => hint_of(*status),
            ErrorKind::Nfs(status) => status.hint(),
            ErrorKind::Connection(failure) => failure.hint(),
            ErrorKind::Nonsense(_) | ErrorKind::Input(_) => None,
        }
    }
}

/// The cause without what it happened to: the operation that meets it adds that.
pub(crate) trait At<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T, K: Into<ErrorKind>> At<T> for Result<T, K> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|kind| Error::new(operation, path, kind.into()))
    }
}

impl ErrorKind {
    /// Whether a connection was lost and another is there: what did not last may be begun again.
    pub(crate) fn is_of_one_connection(&self) -> bool {
        matches!(self, Self::Connection(Failure::Interrupted | Failure::FileLost))
    }
}

impl From<Failure> for ErrorKind {
    fn from(failure: Failure) -> Self {
        Self::Connection(failure)
    }
}

impl From<NtStatus> for ErrorKind {
    fn from(status: NtStatus) -> Self {
        Self::Status(status)
    }
}

impl From<NfsStat3> for ErrorKind {
    fn from(status: NfsStat3) -> Self {
        Self::Nfs(NfsStatus::V3(status))
    }
}

impl From<NfsStat4> for ErrorKind {
    fn from(status: NfsStat4) -> Self {
        Self::Nfs(NfsStatus::V4(status))
    }
}

impl From<MountStat3> for ErrorKind {
    fn from(status: MountStat3) -> Self {
        Self::Nfs(NfsStatus::Mount(status))
    }
}

impl From<NlmStat> for ErrorKind {
    fn from(status: NlmStat) -> Self {
        Self::Nfs(NfsStatus::Lock(status))
    }
}

impl From<nfs_wire::Malformed> for ErrorKind {
    fn from(malformed: nfs_wire::Malformed) -> Self {
        use nfs_wire::Malformed;
        Self::Nonsense(match malformed {
            Malformed::Truncated => "it ends before a field that it announces",
            Malformed::TooLong => "a field is longer than its type allows",
            Malformed::Value(name) => name,
        })
    }
}

impl From<smb_wire::smb2::Malformed> for ErrorKind {
    fn from(malformed: smb_wire::smb2::Malformed) -> Self {
        use smb_wire::smb2::Malformed;
        Self::Nonsense(match malformed {
            Malformed::Truncated => "it ends before a field that it announces",
            Malformed::StructureSize => "its StructureSize is not the command's",
            Malformed::Field(name) => name,
        })
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.operation)?;
        if !self.path.as_os_str().is_empty() {
            write!(f, " {}", self.path.display())?;
        }
        write!(f, ": {}", self.kind)?;
        self.hint().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

impl std::error::Error for Error {}

fn hint_of(status: NtStatus) -> Option<&'static str> {
    Some(match status {
        NtStatus::BAD_NETWORK_NAME => "the server has no share of that name",
        NtStatus::LOGON_FAILURE => "check the user name and the password",
        NtStatus::ACCESS_DENIED => "this user may not do that there",
        NtStatus::SHARING_VIOLATION => "another program has it open and does not share it",
        NtStatus::DELETE_PENDING => "it is being deleted and goes when its last user closes it",
        NtStatus::OBJECT_NAME_NOT_FOUND | NtStatus::NO_SUCH_FILE => "there is nothing of that name",
        NtStatus::OBJECT_PATH_NOT_FOUND => "a directory on the way does not exist",
        NtStatus::OBJECT_NAME_COLLISION => "the name is taken",
        NtStatus::DIRECTORY_NOT_EMPTY => "remove what is in it first",
        NtStatus::FILE_IS_A_DIRECTORY => "it is a directory",
        NtStatus::NOT_A_DIRECTORY => "it is not a directory",
        NtStatus::DISK_FULL => "the server's disk is full",
        NtStatus::MEDIA_WRITE_PROTECTED => "the share is read-only",
        NtStatus::STOPPED_ON_SYMLINK => "a symbolic link stands in the path, which this client does not follow",
        NtStatus::PATH_NOT_COVERED => "the path is another server's (DFS), which this client does not follow",
        NtStatus::FILE_LOCK_CONFLICT => "another program has locked that part of the file",
        _ => return None,
    })
}
