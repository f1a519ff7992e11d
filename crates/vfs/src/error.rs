//! What can go wrong in a backend, by what the caller can do about it. Each protocol maps these to its own status in
//! one place.

/// The result of every backend call.
pub type VfsResult<T> = Result<T, VfsError>;

/// A backend's refusal. The variants are POSIX's distinctions, since both protocols' statuses are finer or coarser
/// views of those.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VfsError {
    /// The last component does not exist.
    NotFound,
    /// A component before the last does not exist or is no directory. SMB tells the two apart (STATUS_OBJECT_PATH_NOT_FOUND).
    PathNotFound,
    /// The name is taken.
    Exists,
    /// A directory was needed and something else was found.
    NotDirectory,
    /// A directory was found where it cannot be used.
    IsDirectory,
    /// The directory still has entries.
    NotEmpty,
    /// The caller's identity may not (EACCES).
    AccessDenied,
    /// Nobody, or only the owner, may (EPERM).
    NotPermitted,
    /// No space is left on the device.
    NoSpace,
    /// The caller's quota is used up.
    QuotaExceeded,
    /// The file system or the share is read-only.
    ReadOnly,
    /// The object has as many links as it can have.
    TooManyLinks,
    /// A component is longer than the file system takes.
    NameTooLong,
    /// The name cannot exist here.
    InvalidName,
    /// Symbolic links without end, or a link or `..` that would lead outside the root.
    Escapes,
    /// The last component is a symbolic link and the caller did not ask to follow it.
    IsSymlink,
    /// Source and destination are on different file systems.
    CrossDevice,
    /// The file would grow beyond what the file system takes.
    TooLarge,
    /// An argument makes no sense for this object.
    InvalidArgument,
    /// The object is gone although a handle to it was kept.
    Stale,
    /// The object is in use in a way that forbids the call.
    Busy,
    /// No such extended attribute.
    NoXattr,
    /// The value does not fit the caller's bound.
    RangeTooSmall,
    /// The backend does not have this feature here.
    NotSupported,
    /// The call would wait for a device and was made with [`Wait::Never`](crate::Wait::Never).
    WouldBlock,
    /// The process or the system has no descriptor or memory left.
    OutOfResources,
    /// The device failed. The number is the operating system's errno, for the log.
    Io(i32),
}

impl std::fmt::Display for VfsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such file or directory",
            Self::PathNotFound => "a directory of the path does not exist",
            Self::Exists => "the name exists already",
            Self::NotDirectory => "not a directory",
            Self::IsDirectory => "is a directory",
            Self::NotEmpty => "the directory is not empty",
            Self::AccessDenied => "access denied",
            Self::NotPermitted => "operation not permitted",
            Self::NoSpace => "no space left",
            Self::QuotaExceeded => "quota exceeded",
            Self::ReadOnly => "read-only",
            Self::TooManyLinks => "too many links",
            Self::NameTooLong => "name too long",
            Self::InvalidName => "invalid name",
            Self::Escapes => "the path leads outside the share",
            Self::IsSymlink => "is a symbolic link",
            Self::CrossDevice => "on another file system",
            Self::TooLarge => "file too large",
            Self::InvalidArgument => "invalid argument",
            Self::Stale => "stale handle",
            Self::Busy => "busy",
            Self::NoXattr => "no such extended attribute",
            Self::RangeTooSmall => "value does not fit",
            Self::NotSupported => "not supported here",
            Self::WouldBlock => "would block",
            Self::OutOfResources => "out of descriptors or memory",
            Self::Io(errno) => return write!(f, "I/O error (errno {errno})"),
        })
    }
}

impl std::error::Error for VfsError {}
