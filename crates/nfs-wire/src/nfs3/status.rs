//! `nfsstat3` (RFC 1813 2.6). Which one answers which failure is chosen elsewhere.

xdr_status! {
    /// The word every NFSv3 result begins with.
    pub struct NfsStat3("NFS3ERR") {
        OK = 0, "NFS3_OK", "It worked.";
        PERM = 1, "NFS3ERR_PERM", "Not the owner, or not privileged.";
        NOENT = 2, "NFS3ERR_NOENT", "No such file or directory.";
        IO = 5, "NFS3ERR_IO", "The disk failed.";
        NXIO = 6, "NFS3ERR_NXIO", "No such device.";
        ACCES = 13, "NFS3ERR_ACCES", "Not allowed.";
        EXIST = 17, "NFS3ERR_EXIST", "It exists already.";
        XDEV = 18, "NFS3ERR_XDEV", "Across file systems.";
        NODEV = 19, "NFS3ERR_NODEV", "The device cannot do this.";
        NOTDIR = 20, "NFS3ERR_NOTDIR", "Not a directory.";
        ISDIR = 21, "NFS3ERR_ISDIR", "A directory.";
        INVAL = 22, "NFS3ERR_INVAL", "An argument is not valid here.";
        FBIG = 27, "NFS3ERR_FBIG", "The file would be too large.";
        NOSPC = 28, "NFS3ERR_NOSPC", "No space left.";
        ROFS = 30, "NFS3ERR_ROFS", "Read-only file system.";
        MLINK = 31, "NFS3ERR_MLINK", "Too many hard links.";
        NAMETOOLONG = 63, "NFS3ERR_NAMETOOLONG", "The name is too long.";
        NOTEMPTY = 66, "NFS3ERR_NOTEMPTY", "The directory is not empty.";
        DQUOT = 69, "NFS3ERR_DQUOT", "The quota is used up.";
        STALE = 70, "NFS3ERR_STALE", "The file of this handle is gone.";
        REMOTE = 71, "NFS3ERR_REMOTE", "Too many levels of remote in a path.";
        BADHANDLE = 10001, "NFS3ERR_BADHANDLE", "This was never a handle.";
        NOT_SYNC = 10002, "NFS3ERR_NOT_SYNC", "The guard of SETATTR does not match.";
        BAD_COOKIE = 10003, "NFS3ERR_BAD_COOKIE", "The cookie of a listing is stale.";
        NOTSUPP = 10004, "NFS3ERR_NOTSUPP", "The server does not do this.";
        TOOSMALL = 10005, "NFS3ERR_TOOSMALL", "Not one entry fits.";
        SERVERFAULT = 10006, "NFS3ERR_SERVERFAULT", "Some failure without a word of its own.";
        BADTYPE = 10007, "NFS3ERR_BADTYPE", "Nothing of this type can be created.";
        JUKEBOX = 10008, "NFS3ERR_JUKEBOX", "Not now: try again later.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_the_rfcs() {
        assert_eq!(NfsStat3::JUKEBOX, NfsStat3(10008));
        assert_eq!(NfsStat3::STALE.to_string(), "NFS3ERR_STALE");
        assert_eq!(NfsStat3(4).to_string(), "NFS3ERR_4");
        assert_eq!(NfsStat3::ALL.len(), 29);
    }
}
