//! NFSACL version 3: POSIX ACLs beside NFSv3, the side protocol of Solaris that Linux speaks too. No RFC describes it;
//! the form here is the one both send: a mask, then the access ACL and the default ACL, each as a count and an array.

use crate::nfs3::{Failed, FileHandle, PostOpAttr};
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

/// The most entries of one ACL, as in Linux.
pub const MAX_ENTRIES: usize = 1024;

xdr_enum! {
    /// Procedures.
    pub enum NfsAclProc {
        /// Nothing.
        Null = 0,
        /// [`GetAclArgs`] to [`GetAclRes`].
        GetAcl = 1,
        /// [`SetAclArgs`] to [`SetAclRes`].
        SetAcl = 2,
        /// Solaris's extended attribute directory, which is not here.
        GetXattrDir = 3,
    }
}

xdr_flags! {
    /// Which parts are asked for or given.
    pub struct AclMask {
        /// The entries of the access ACL.
        ACL = 1,
        /// How many they are.
        ACL_COUNT = 2,
        /// The entries of the default ACL.
        DEFAULT = 4,
        /// How many they are.
        DEFAULT_COUNT = 8,
    }
}

/// [`AclEntry::tag`]: the file's owner.
pub const USER_OBJ: u32 = 0x01;
/// [`AclEntry::tag`]: the user `id`.
pub const USER: u32 = 0x02;
/// [`AclEntry::tag`]: the file's group.
pub const GROUP_OBJ: u32 = 0x04;
/// [`AclEntry::tag`]: the group `id`.
pub const GROUP: u32 = 0x08;
/// [`AclEntry::tag`]: the most that named users and groups get.
pub const MASK: u32 = 0x10;
/// [`AclEntry::tag`]: everybody else.
pub const OTHER: u32 = 0x20;
/// Added to the tag of each entry of a default ACL.
pub const DEFAULT_FLAG: u32 = 0x1000;

xdr_struct! {
    /// One entry.
    pub struct AclEntry {
        /// What it is about.
        tag: u32,
        /// The user or group, where the tag names one.
        id: u32,
        /// Read 4, write 2, execute 1.
        permissions: u32,
    }

    /// Arguments of GETACL.
    pub struct GetAclArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// What is wanted.
        mask: AclMask,
    }

    /// Result of GETACL.
    pub struct GetAclOk<'a> {
        /// The file's attributes.
        attributes: PostOpAttr,
        /// The ACLs.
        acls: Acls<'a>,
    }

    /// Arguments of SETACL.
    pub struct SetAclArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// The ACLs.
        acls: Acls<'a>,
    }
}

/// What GETACL answers.
pub type GetAclRes<'a> = Result<GetAclOk<'a>, Failed<PostOpAttr>>;

/// What SETACL answers.
pub type SetAclRes = Result<PostOpAttr, Failed<PostOpAttr>>;

/// The access ACL and the default ACL of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acls<'a> {
    /// Which parts are given.
    pub mask: AclMask,
    /// How many entries the access ACL has, whether or not they follow.
    pub access_count: u32,
    /// The access ACL.
    pub access: List<'a, AclEntry>,
    /// How many entries the default ACL has, whether or not they follow.
    pub default_count: u32,
    /// The default ACL, each tag with [`DEFAULT_FLAG`].
    pub default: List<'a, AclEntry>,
}

impl<'a> Xdr<'a> for Acls<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mask = AclMask::decode(r)?;
        let (access_count, access) = (r.u32()?, decode_entries(r)?);
        let (default_count, default) = (r.u32()?, decode_entries(r)?);
        Ok(Self { mask, access_count, access, default_count, default })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        self.mask.put(out);
        out.put_u32(self.access_count);
        self.access.put(out);
        out.put_u32(self.default_count);
        self.default.put(out);
    }
}

fn decode_entries<'a>(r: &mut Reader<'a>) -> Result<List<'a, AclEntry>, Malformed> {
    r.clone().count(MAX_ENTRIES, 12)?;
    List::decode(r)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nfs3::NfsStat3;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::{Bounded, decode_all};

    const ENTRIES: [AclEntry; 2] =
        [AclEntry { tag: USER_OBJ, id: 0, permissions: 7 }, AclEntry { tag: USER, id: 1000, permissions: 4 }];

    #[test]
    fn acls_by_hand() {
        let acls = Acls {
            mask: AclMask::ACL | AclMask::ACL_COUNT,
            access_count: 2,
            access: List::new(&ENTRIES),
            default_count: 0,
            default: List::default(),
        };
        let acl = "00000003 00000002 00000002 00000001 00000000 00000007 00000002 000003e8 00000004 00000000 00000000";
        is_on_the_wire(&SetAclArgs { handle: Bounded(b"fh"), acls }, &unhex(&format!("00000002 66680000 {acl}")));
        let ok: GetAclRes<'_> = Ok(GetAclOk { attributes: None, acls });
        is_on_the_wire(&ok, &unhex(&format!("00000000 00000000 {acl}")));
        is_on_the_wire(
            &GetAclArgs { handle: Bounded(b"fh"), mask: AclMask::all() },
            &unhex("00000002 66680000 0000000f"),
        );
        let failed: SetAclRes = Err(Failed { status: NfsStat3::NOTSUPP, rest: None });
        is_on_the_wire(&failed, &unhex("00002714 00000000"));
    }

    #[test]
    fn entries_are_bounded() {
        let mut bytes = unhex("0000000f 00000000 00000401");
        bytes.resize(bytes.len() + 1025 * 12 + 8, 0);
        assert_eq!(decode_all::<Acls<'_>>(&bytes), Err(Malformed::TooLong));
    }
}
