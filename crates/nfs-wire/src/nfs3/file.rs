//! GETATTR, SETATTR, LOOKUP, ACCESS and READLINK (RFC 1813 3.3.1 to 3.3.5).

use super::{Failed, Fattr, FileHandle, PostOpAttr, Sattr, Time, WccData};

/// What GETATTR answers.
pub type GetattrRes = Result<Fattr, Failed<()>>;

/// What SETATTR answers.
pub type SetattrRes = Result<WccData, Failed<WccData>>;

/// What LOOKUP answers; the failure carries the directory's attributes.
pub type LookupRes<'a> = Result<LookupOk<'a>, Failed<PostOpAttr>>;

/// What ACCESS answers.
pub type AccessRes = Result<AccessOk, Failed<PostOpAttr>>;

/// What READLINK answers.
pub type ReadlinkRes<'a> = Result<ReadlinkOk<'a>, Failed<PostOpAttr>>;

xdr_flags! {
    /// What a caller may do (RFC 1813 3.3.4).
    pub struct Access {
        /// Read the file or list the directory.
        READ = 0x01,
        /// Look a name up in the directory.
        LOOKUP = 0x02,
        /// Rewrite the file, or change entries of the directory.
        MODIFY = 0x04,
        /// Make the file longer, or add entries to the directory.
        EXTEND = 0x08,
        /// Delete an entry of the directory.
        DELETE = 0x10,
        /// Execute the file.
        EXECUTE = 0x20,
        /// RFC 8276 6.3, NFSv4.2: read extended attributes.
        XATTR_READ = 0x40,
        /// RFC 8276, NFSv4.2: write extended attributes.
        XATTR_WRITE = 0x80,
        /// RFC 8276, NFSv4.2: list extended attributes.
        XATTR_LIST = 0x100,
    }
}

xdr_struct! {
    /// Arguments of SETATTR.
    pub struct SetattrArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// What to set.
        attributes: Sattr,
        /// The change time the file must still have.
        guard_ctime: Option<Time>,
    }

    /// Result of LOOKUP.
    pub struct LookupOk<'a> {
        /// What was found.
        handle: FileHandle<'a>,
        /// Its attributes.
        attributes: PostOpAttr,
        /// The directory's attributes.
        dir_attributes: PostOpAttr,
    }

    /// Arguments of ACCESS.
    pub struct AccessArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// What is asked about.
        access: Access,
    }

    /// Result of ACCESS.
    pub struct AccessOk {
        /// The file's attributes.
        attributes: PostOpAttr,
        /// What of it is allowed.
        access: Access,
    }

    /// Result of READLINK.
    pub struct ReadlinkOk<'a> {
        /// The link's attributes.
        attributes: PostOpAttr,
        /// Where it leads.
        target: &'a [u8],
    }
}

#[cfg(test)]
mod tests {
    use super::super::attr::tests::fattr;
    use super::super::{DirOp, NfsStat3};
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::Bounded;

    #[test]
    fn getattr_and_setattr_by_hand() {
        let (attr, text) = fattr();
        let ok: GetattrRes = Ok(attr);
        is_on_the_wire(&ok, &unhex(&format!("00000000 {text}")));
        let failed: GetattrRes = Err(Failed { status: NfsStat3::STALE, rest: () });
        is_on_the_wire(&failed, &unhex("00000046"));
        let args = SetattrArgs {
            handle: Bounded(b"fh"),
            attributes: Sattr::NONE,
            guard_ctime: Some(Time { seconds: 1, nanoseconds: 2 }),
        };
        let nothing = "00000000".repeat(6);
        is_on_the_wire(&args, &unhex(&format!("00000002 66680000 {nothing} 00000001 00000001 00000002")));
        let failed: SetattrRes = Err(Failed { status: NfsStat3::NOT_SYNC, rest: WccData::NONE });
        is_on_the_wire(&failed, &unhex("00002712 00000000 00000000"));
    }

    #[test]
    fn lookup_by_hand() {
        let (attr, text) = fattr();
        let args = DirOp { dir: Bounded(b"dir"), name: b"a.txt" };
        is_on_the_wire(&args, &unhex("00000003 64697200 00000005 612e7478 74000000"));
        let ok: LookupRes<'_> = Ok(LookupOk { handle: Bounded(b"file"), attributes: Some(attr), dir_attributes: None });
        is_on_the_wire(&ok, &unhex(&format!("00000000 00000004 66696c65 00000001 {text} 00000000")));
        let failed: LookupRes<'_> = Err(Failed { status: NfsStat3::NOENT, rest: Some(attr) });
        is_on_the_wire(&failed, &unhex(&format!("00000002 00000001 {text}")));
    }

    #[test]
    fn access_and_readlink_by_hand() {
        let args = AccessArgs { handle: Bounded(b"fh"), access: Access::from_bits_retain(0x3f) };
        is_on_the_wire(&args, &unhex("00000002 66680000 0000003f"));
        let ok: AccessRes = Ok(AccessOk { attributes: None, access: Access::READ | Access::EXECUTE });
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000021"));
        let ok: ReadlinkRes<'_> = Ok(ReadlinkOk { attributes: None, target: b"../x" });
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000004 2e2e2f78"));
        let failed: ReadlinkRes<'_> = Err(Failed { status: NfsStat3::INVAL, rest: None });
        is_on_the_wire(&failed, &unhex("00000016 00000000"));
    }
}
