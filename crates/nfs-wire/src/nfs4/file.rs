//! Operations on the current file and on names (RFC 8881 18.1, 18.4, 18.5, 18.7, 18.8, 18.9, 18.13, 18.15, 18.17,
//! 18.19, 18.23 to 18.27, 18.29 to 18.31), with what they answer. Those without arguments have no type here.

use super::{Bitmap, ChangeInfo, Component, Fattr, FileHandle, NfsStat4, Stateid};
use crate::nfs3::Access;
use crate::rpc::Flavor;
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

/// What an operation answers that has nothing to say but its status.
pub type StatusRes = Result<(), NfsStat4>;

/// What ACCESS answers.
pub type AccessRes = Result<AccessOk, NfsStat4>;

/// What CREATE answers.
pub type CreateRes = Result<CreateOk, NfsStat4>;

/// What GETATTR answers.
pub type GetattrRes<'a> = Result<Fattr<'a>, NfsStat4>;

/// What GETFH answers.
pub type GetfhRes<'a> = Result<FileHandle<'a>, NfsStat4>;

/// What LINK and REMOVE, SETXATTR and REMOVEXATTR answer.
pub type ChangeRes = Result<ChangeInfo, NfsStat4>;

/// What READLINK answers.
pub type ReadlinkRes<'a> = Result<&'a [u8], NfsStat4>;

/// What RENAME answers: the change of the source directory, then of the target directory.
pub type RenameRes = Result<(ChangeInfo, ChangeInfo), NfsStat4>;

/// What SECINFO and SECINFO_NO_NAME answer: the preferred first.
pub type SecinfoRes<'a> = Result<List<'a, Secinfo<'a>>, NfsStat4>;

xdr_enum! {
    /// Whose security SECINFO_NO_NAME asks about (RFC 8881 18.45).
    pub enum SecinfoStyle {
        /// The current file's.
        CurrentFh = 0,
        /// Its parent's.
        Parent = 1,
    }
}

xdr_struct! {
    /// Result of ACCESS.
    pub struct AccessOk {
        /// What the server can tell.
        supported: Access,
        /// What of it is allowed.
        access: Access,
    }

    /// Result of CREATE.
    pub struct CreateOk {
        /// The directory's change.
        change: ChangeInfo,
        /// Which attributes were set.
        attrs_set: Bitmap,
    }

    /// Arguments of RENAME: the saved directory's name becomes the current directory's.
    pub struct RenameArgs<'a> {
        /// The old name.
        old_name: Component<'a>,
        /// The new name.
        new_name: Component<'a>,
    }

    /// Arguments of SETATTR.
    pub struct SetattrArgs<'a> {
        /// For a size: the open.
        stateid: Stateid,
        /// What to set.
        attributes: Fattr<'a>,
    }

    /// What SETATTR answers; `attrs_set` is there after a failure too.
    pub struct SetattrRes {
        /// The status.
        status: NfsStat4,
        /// Which attributes were set.
        attrs_set: Bitmap,
    }

    /// A GSS mechanism (`rpcsec_gss_info`).
    pub struct GssInfo<'a> {
        /// Its object identifier, in DER.
        oid: &'a [u8],
        /// Quality of protection.
        qop: u32,
        /// 1 none, 2 integrity, 3 privacy.
        service: u32,
    }
}

/// A way to authenticate (`secinfo4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secinfo<'a> {
    /// RPCSEC_GSS with this mechanism.
    Gss(GssInfo<'a>),
    /// Another flavor.
    Flavor(Flavor),
}

impl<'a> Xdr<'a> for Secinfo<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match Flavor::decode(r)? {
            Flavor::GSS => Xdr::decode(r).map(Self::Gss),
            flavor => Ok(Self::Flavor(flavor)),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Gss(info) => (Flavor::GSS, *info).put(out),
            Self::Flavor(flavor) => flavor.put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attr;
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};

    const CHANGE: ChangeInfo = ChangeInfo { atomic: true, before: 1, after: 2 };
    const CHANGE_TEXT: &str = "00000001 00000000 00000001 00000000 00000002";

    #[test]
    fn results_by_hand() {
        let ok: AccessRes = Ok(AccessOk { supported: Access::READ | Access::XATTR_LIST, access: Access::READ });
        is_on_the_wire(&ok, &unhex("00000000 00000101 00000001"));
        let ok: CreateRes = Ok(CreateOk { change: CHANGE, attrs_set: Bitmap::of(&[Attr::Mode]) });
        is_on_the_wire(&ok, &unhex(&format!("00000000 {CHANGE_TEXT} 00000002 00000000 00000002")));
        let ok: RenameRes = Ok((CHANGE, CHANGE));
        is_on_the_wire(&ok, &unhex(&format!("00000000 {CHANGE_TEXT} {CHANGE_TEXT}")));
        let failed = SetattrRes { status: NfsStat4::PERM, attrs_set: Bitmap::EMPTY };
        is_on_the_wire(&failed, &unhex("00000001 00000000"));
        let ok: StatusRes = Ok(());
        is_on_the_wire(&ok, &[0; 4]);
    }

    #[test]
    fn secinfo_by_hand() {
        let krb5 = GssInfo { oid: &[0x2a, 0x86, 0x48], qop: 0, service: 2 };
        let list = [Secinfo::Gss(krb5), Secinfo::Flavor(Flavor::SYS)];
        let ok: SecinfoRes<'_> = Ok(List::new(&list));
        is_on_the_wire(&ok, &unhex("00000000 00000002 00000006 00000003 2a864800 00000000 00000002 00000001"));
    }
}
