//! `nfsstat4` (RFC 7530 13, RFC 8881 15, RFC 7862 11, RFC 8276 8.5). Which one answers which failure is chosen
//! elsewhere.

xdr_status! {
    /// The word every NFSv4 result begins with.
    pub struct NfsStat4("NFS4ERR") {
        OK = 0, "NFS4_OK", "It worked.";
        PERM = 1, "NFS4ERR_PERM", "Not the owner, or not privileged.";
        NOENT = 2, "NFS4ERR_NOENT", "No such file or directory.";
        IO = 5, "NFS4ERR_IO", "The disk failed.";
        NXIO = 6, "NFS4ERR_NXIO", "No such device.";
        ACCESS = 13, "NFS4ERR_ACCESS", "Not allowed.";
        EXIST = 17, "NFS4ERR_EXIST", "It exists already.";
        XDEV = 18, "NFS4ERR_XDEV", "Across file systems.";
        NOTDIR = 20, "NFS4ERR_NOTDIR", "Not a directory.";
        ISDIR = 21, "NFS4ERR_ISDIR", "A directory.";
        INVAL = 22, "NFS4ERR_INVAL", "An argument is not valid here.";
        FBIG = 27, "NFS4ERR_FBIG", "The file would be too large.";
        NOSPC = 28, "NFS4ERR_NOSPC", "No space left.";
        ROFS = 30, "NFS4ERR_ROFS", "Read-only file system.";
        MLINK = 31, "NFS4ERR_MLINK", "Too many hard links.";
        NAMETOOLONG = 63, "NFS4ERR_NAMETOOLONG", "The name is too long.";
        NOTEMPTY = 66, "NFS4ERR_NOTEMPTY", "The directory is not empty.";
        DQUOT = 69, "NFS4ERR_DQUOT", "The quota is used up.";
        STALE = 70, "NFS4ERR_STALE", "The file of this handle is gone.";
        BADHANDLE = 10001, "NFS4ERR_BADHANDLE", "This was never a handle.";
        BAD_COOKIE = 10003, "NFS4ERR_BAD_COOKIE", "The cookie of a listing is stale.";
        NOTSUPP = 10004, "NFS4ERR_NOTSUPP", "The server does not do this.";
        TOOSMALL = 10005, "NFS4ERR_TOOSMALL", "Not one entry fits.";
        SERVERFAULT = 10006, "NFS4ERR_SERVERFAULT", "Some failure without a word of its own.";
        BADTYPE = 10007, "NFS4ERR_BADTYPE", "Nothing of this type can be created.";
        DELAY = 10008, "NFS4ERR_DELAY", "Not now: try again later.";
        SAME = 10009, "NFS4ERR_SAME", "NVERIFY: the attributes are the same.";
        DENIED = 10010, "NFS4ERR_DENIED", "Another holds a lock in the way.";
        EXPIRED = 10011, "NFS4ERR_EXPIRED", "The lease ran out and the state is lost.";
        LOCKED = 10012, "NFS4ERR_LOCKED", "A mandatory lock forbids this.";
        GRACE = 10013, "NFS4ERR_GRACE", "The server has restarted and takes reclaims only.";
        FHEXPIRED = 10014, "NFS4ERR_FHEXPIRED", "The volatile handle expired.";
        SHARE_DENIED = 10015, "NFS4ERR_SHARE_DENIED", "Another open denies this share.";
        WRONGSEC = 10016, "NFS4ERR_WRONGSEC", "This file wants another security flavor.";
        CLID_INUSE = 10017, "NFS4ERR_CLID_INUSE", "The client id belongs to another principal.";
        RESOURCE = 10018, "NFS4ERR_RESOURCE", "Out of resources (4.0).";
        MOVED = 10019, "NFS4ERR_MOVED", "The file system is elsewhere.";
        NOFILEHANDLE = 10020, "NFS4ERR_NOFILEHANDLE", "There is no current file handle.";
        MINOR_VERS_MISMATCH = 10021, "NFS4ERR_MINOR_VERS_MISMATCH", "This minor version is not spoken.";
        STALE_CLIENTID = 10022, "NFS4ERR_STALE_CLIENTID", "The client id is not known (any more).";
        STALE_STATEID = 10023, "NFS4ERR_STALE_STATEID", "The stateid is from before a restart.";
        OLD_STATEID = 10024, "NFS4ERR_OLD_STATEID", "A newer seqid of the stateid was given out.";
        BAD_STATEID = 10025, "NFS4ERR_BAD_STATEID", "The stateid is not one of this server.";
        BAD_SEQID = 10026, "NFS4ERR_BAD_SEQID", "The owner's seqid is out of order (4.0).";
        NOT_SAME = 10027, "NFS4ERR_NOT_SAME", "VERIFY: the attributes differ; READDIR: the verifier does.";
        LOCK_RANGE = 10028, "NFS4ERR_LOCK_RANGE", "Ranges of an owner may not be split here.";
        SYMLINK = 10029, "NFS4ERR_SYMLINK", "A symbolic link.";
        RESTOREFH = 10030, "NFS4ERR_RESTOREFH", "There is no saved file handle.";
        LEASE_MOVED = 10031, "NFS4ERR_LEASE_MOVED", "The lease is at another server.";
        ATTRNOTSUPP = 10032, "NFS4ERR_ATTRNOTSUPP", "The attribute is not supported.";
        NO_GRACE = 10033, "NFS4ERR_NO_GRACE", "Nothing can be reclaimed now.";
        RECLAIM_BAD = 10034, "NFS4ERR_RECLAIM_BAD", "This cannot be reclaimed.";
        RECLAIM_CONFLICT = 10035, "NFS4ERR_RECLAIM_CONFLICT", "Another was given what is reclaimed.";
        BADXDR = 10036, "NFS4ERR_BADXDR", "The arguments cannot be decoded.";
        LOCKS_HELD = 10037, "NFS4ERR_LOCKS_HELD", "Locks are still held.";
        OPENMODE = 10038, "NFS4ERR_OPENMODE", "The open does not allow this access.";
        BADOWNER = 10039, "NFS4ERR_BADOWNER", "The owner cannot be translated.";
        BADCHAR = 10040, "NFS4ERR_BADCHAR", "A character is not supported.";
        BADNAME = 10041, "NFS4ERR_BADNAME", "The name is not supported.";
        BAD_RANGE = 10042, "NFS4ERR_BAD_RANGE", "Locks do not reach so far here.";
        LOCK_NOTSUPP = 10043, "NFS4ERR_LOCK_NOTSUPP", "A lock cannot be upgraded in one step.";
        OP_ILLEGAL = 10044, "NFS4ERR_OP_ILLEGAL", "There is no such operation.";
        DEADLOCK = 10045, "NFS4ERR_DEADLOCK", "Waiting would never end.";
        FILE_OPEN = 10046, "NFS4ERR_FILE_OPEN", "The file is open.";
        ADMIN_REVOKED = 10047, "NFS4ERR_ADMIN_REVOKED", "The state was revoked by an administrator.";
        CB_PATH_DOWN = 10048, "NFS4ERR_CB_PATH_DOWN", "The client cannot be called back.";
        BADIOMODE = 10049, "NFS4ERR_BADIOMODE", "The I/O mode of a layout is wrong.";
        BADLAYOUT = 10050, "NFS4ERR_BADLAYOUT", "The layout is not valid.";
        BAD_SESSION_DIGEST = 10051, "NFS4ERR_BAD_SESSION_DIGEST", "The digest of SET_SSV is wrong.";
        BADSESSION = 10052, "NFS4ERR_BADSESSION", "No such session.";
        BADSLOT = 10053, "NFS4ERR_BADSLOT", "No such slot.";
        COMPLETE_ALREADY = 10054, "NFS4ERR_COMPLETE_ALREADY", "RECLAIM_COMPLETE was sent before.";
        CONN_NOT_BOUND_TO_SESSION = 10055, "NFS4ERR_CONN_NOT_BOUND_TO_SESSION", "The connection is not of the session.";
        DELEG_ALREADY_WANTED = 10056, "NFS4ERR_DELEG_ALREADY_WANTED", "The delegation is already wanted.";
        BACK_CHAN_BUSY = 10057, "NFS4ERR_BACK_CHAN_BUSY", "Callbacks are outstanding.";
        LAYOUTTRYLATER = 10058, "NFS4ERR_LAYOUTTRYLATER", "No layout now.";
        LAYOUTUNAVAILABLE = 10059, "NFS4ERR_LAYOUTUNAVAILABLE", "No layout for this file.";
        NOMATCHING_LAYOUT = 10060, "NFS4ERR_NOMATCHING_LAYOUT", "No such layout is held.";
        RECALLCONFLICT = 10061, "NFS4ERR_RECALLCONFLICT", "A layout is being recalled.";
        UNKNOWN_LAYOUTTYPE = 10062, "NFS4ERR_UNKNOWN_LAYOUTTYPE", "The layout type is not known.";
        SEQ_MISORDERED = 10063, "NFS4ERR_SEQ_MISORDERED", "The sequence id of the slot is out of order.";
        SEQUENCE_POS = 10064, "NFS4ERR_SEQUENCE_POS", "SEQUENCE is not the first operation.";
        REQ_TOO_BIG = 10065, "NFS4ERR_REQ_TOO_BIG", "The request is larger than the session allows.";
        REP_TOO_BIG = 10066, "NFS4ERR_REP_TOO_BIG", "The reply would be larger than the session allows.";
        REP_TOO_BIG_TO_CACHE = 10067, "NFS4ERR_REP_TOO_BIG_TO_CACHE", "The reply is larger than what is cached.";
        RETRY_UNCACHED_REP = 10068, "NFS4ERR_RETRY_UNCACHED_REP", "A retry of what was not cached.";
        UNSAFE_COMPOUND = 10069, "NFS4ERR_UNSAFE_COMPOUND", "The compound cannot be retried safely.";
        TOO_MANY_OPS = 10070, "NFS4ERR_TOO_MANY_OPS", "More operations than the session allows.";
        OP_NOT_IN_SESSION = 10071, "NFS4ERR_OP_NOT_IN_SESSION", "The operation needs a SEQUENCE before it.";
        HASH_ALG_UNSUPP = 10072, "NFS4ERR_HASH_ALG_UNSUPP", "The hash algorithm is not supported.";
        CLIENTID_BUSY = 10074, "NFS4ERR_CLIENTID_BUSY", "The client id still has state.";
        PNFS_IO_HOLE = 10075, "NFS4ERR_PNFS_IO_HOLE", "I/O to a hole of a sparse layout.";
        SEQ_FALSE_RETRY = 10076, "NFS4ERR_SEQ_FALSE_RETRY", "A retry with other arguments.";
        BAD_HIGH_SLOT = 10077, "NFS4ERR_BAD_HIGH_SLOT", "The highest slot id is too high.";
        DEADSESSION = 10078, "NFS4ERR_DEADSESSION", "The session is dead.";
        ENCR_ALG_UNSUPP = 10079, "NFS4ERR_ENCR_ALG_UNSUPP", "The encryption algorithm is not supported.";
        PNFS_NO_LAYOUT = 10080, "NFS4ERR_PNFS_NO_LAYOUT", "I/O without a layout.";
        NOT_ONLY_OP = 10081, "NFS4ERR_NOT_ONLY_OP", "The operation must be alone in its compound.";
        WRONG_CRED = 10082, "NFS4ERR_WRONG_CRED", "Another credential did this before.";
        WRONG_TYPE = 10083, "NFS4ERR_WRONG_TYPE", "The operation is not for this kind of file.";
        DIRDELEG_UNAVAIL = 10084, "NFS4ERR_DIRDELEG_UNAVAIL", "No directory delegation.";
        REJECT_DELEG = 10085, "NFS4ERR_REJECT_DELEG", "The client does not take the delegation.";
        RETURNCONFLICT = 10086, "NFS4ERR_RETURNCONFLICT", "The layout is being returned.";
        DELEG_REVOKED = 10087, "NFS4ERR_DELEG_REVOKED", "The delegation was revoked.";
        PARTNER_NOTSUPP = 10088, "NFS4ERR_PARTNER_NOTSUPP", "Copies between servers are not supported.";
        PARTNER_NO_AUTH = 10089, "NFS4ERR_PARTNER_NO_AUTH", "The other server does not authorise the copy.";
        UNION_NOTSUPP = 10090, "NFS4ERR_UNION_NOTSUPP", "This arm of a union is not supported.";
        OFFLOAD_DENIED = 10091, "NFS4ERR_OFFLOAD_DENIED", "The copy is not allowed.";
        WRONG_LFS = 10092, "NFS4ERR_WRONG_LFS", "The label format is not supported.";
        BADLABEL = 10093, "NFS4ERR_BADLABEL", "The label is not valid.";
        OFFLOAD_NO_REQS = 10094, "NFS4ERR_OFFLOAD_NO_REQS", "The requirements of the copy cannot be met.";
        NOXATTR = 10095, "NFS4ERR_NOXATTR", "No such extended attribute.";
        XATTR2BIG = 10096, "NFS4ERR_XATTR2BIG", "The extended attribute is too large.";
    }
}

xdr_result!(NfsStat4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::is_on_the_wire;

    #[test]
    fn numbers_and_names_are_the_rfcs() {
        assert_eq!(NfsStat4::DELAY, NfsStat4(10008));
        assert_eq!(NfsStat4::XATTR2BIG, NfsStat4(10096));
        assert_eq!(NfsStat4::BADXDR.to_string(), "NFS4ERR_BADXDR");
        assert_eq!(NfsStat4(10073).to_string(), "NFS4ERR_10073");
        assert!(NfsStat4::ALL.is_sorted());
    }

    #[test]
    fn a_result_is_there_or_its_status_is() {
        is_on_the_wire(&Ok::<u32, NfsStat4>(5), &[0, 0, 0, 0, 0, 0, 0, 5]);
        is_on_the_wire(&Err::<u32, _>(NfsStat4::STALE), &[0, 0, 0, 70]);
    }
}
