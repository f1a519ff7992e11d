//! The one place where an errno becomes a [`VfsError`]. Calls that know more than the number (a lookup, an extended
//! attribute) correct the answer where they are.

use rustix::io::Errno;
use vfs::VfsError;

/// What `errno` means to a caller of the backend.
pub fn vfs_error(errno: Errno) -> VfsError {
    match errno {
        Errno::NOENT => VfsError::NotFound,
        Errno::EXIST => VfsError::Exists,
        Errno::NOTDIR => VfsError::NotDirectory,
        Errno::ISDIR => VfsError::IsDirectory,
        Errno::NOTEMPTY => VfsError::NotEmpty,
        Errno::ACCESS => VfsError::AccessDenied,
        Errno::PERM => VfsError::NotPermitted,
        Errno::NOSPC => VfsError::NoSpace,
        Errno::DQUOT => VfsError::QuotaExceeded,
        Errno::ROFS => VfsError::ReadOnly,
        Errno::MLINK => VfsError::TooManyLinks,
        Errno::NAMETOOLONG => VfsError::NameTooLong,
        Errno::ILSEQ => VfsError::InvalidName,
        Errno::LOOP => VfsError::Escapes,
        Errno::XDEV => VfsError::CrossDevice,
        Errno::FBIG | Errno::OVERFLOW => VfsError::TooLarge,
        Errno::INVAL | Errno::SPIPE | Errno::BADF => VfsError::InvalidArgument,
        Errno::STALE => VfsError::Stale,
        Errno::BUSY | Errno::TXTBSY => VfsError::Busy,
        Errno::NODATA => VfsError::NoXattr,
        Errno::RANGE | Errno::TOOBIG => VfsError::RangeTooSmall,
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => VfsError::NotSupported,
        Errno::AGAIN => VfsError::WouldBlock,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => VfsError::OutOfResources,
        other => VfsError::Io(other.raw_os_error()),
    }
}

/// The same for what the standard library or a page pipe reports.
pub fn from_io(error: &std::io::Error) -> VfsError {
    match (error.raw_os_error(), error.kind()) {
        (Some(raw), _) => vfs_error(Errno::from_raw_os_error(raw)),
        (None, std::io::ErrorKind::WouldBlock) => VfsError::WouldBlock,
        (None, std::io::ErrorKind::Unsupported) => VfsError::NotSupported,
        (None, std::io::ErrorKind::InvalidInput) => VfsError::InvalidArgument,
        (None, _) => VfsError::Io(Errno::IO.raw_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errnos_keep_their_meaning() {
        for (errno, error) in [
            (Errno::DQUOT, VfsError::QuotaExceeded),
            (Errno::NOSPC, VfsError::NoSpace),
            (Errno::ROFS, VfsError::ReadOnly),
            (Errno::IO, VfsError::Io(5)),
            (Errno::AGAIN, VfsError::WouldBlock),
        ] {
            assert_eq!(vfs_error(errno), error);
            assert_eq!(from_io(&std::io::Error::from_raw_os_error(errno.raw_os_error())), error);
        }
        assert_eq!(from_io(&std::io::ErrorKind::WouldBlock.into()), VfsError::WouldBlock);
    }
}
