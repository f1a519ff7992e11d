//! MOUNT version 3 (RFC 1813 appendix I), and what version 1 (RFC 1094 appendix A) has in common with it: a path
//! becomes a file handle, and exports are listed. Version 1's handles have 32 bytes, version 3's at most 64.

use crate::rpc::Flavor;
use crate::xdr::{Bounded, Chain, List};

/// The longest path (RFC 1813 5.1.3).
pub const MAX_PATH_BYTES: usize = 1024;

/// The longest host or group name.
pub const MAX_NAME_BYTES: usize = 255;

xdr_enum! {
    /// Procedures; versions 1 and 3 number them alike (RFC 1813 5.2).
    pub enum MountProc {
        /// Nothing.
        Null = 0,
        /// [`DirPath`] to [`MountResult`], in version 1 to [`MountResult1`].
        Mnt = 1,
        /// Answers [`MountList`].
        Dump = 2,
        /// [`DirPath`].
        Umnt = 3,
        /// Forgets all entries of the caller.
        UmntAll = 4,
        /// Answers [`ExportList`].
        Export = 5,
        /// Version 1 only: the same as `Export`.
        ExportAll = 6,
    }
}

xdr_status! {
    /// What MNT ends in (RFC 1813 5.1.5); version 1 uses the same numbers.
    pub struct MountStat3("MNT3ERR") {
        OK = 0, "MNT3_OK", "It worked.";
        PERM = 1, "MNT3ERR_PERM", "Not the owner.";
        NOENT = 2, "MNT3ERR_NOENT", "No such directory.";
        IO = 5, "MNT3ERR_IO", "The disk failed.";
        ACCES = 13, "MNT3ERR_ACCES", "Not allowed.";
        NOTDIR = 20, "MNT3ERR_NOTDIR", "Not a directory.";
        INVAL = 22, "MNT3ERR_INVAL", "The argument is not valid.";
        NAMETOOLONG = 63, "MNT3ERR_NAMETOOLONG", "A name is too long.";
        NOTSUPP = 10004, "MNT3ERR_NOTSUPP", "The server does not do this.";
        SERVERFAULT = 10006, "MNT3ERR_SERVERFAULT", "The server failed.";
    }
}

xdr_result!(MountStat3);

/// What is mounted.
pub type DirPath<'a> = Bounded<'a, MAX_PATH_BYTES>;

/// A host, a netgroup or a network.
pub type HostName<'a> = Bounded<'a, MAX_NAME_BYTES>;

/// The answer to MNT.
pub type MountResult<'a> = Result<MountOk<'a>, MountStat3>;

/// The answer to MNT in version 1: a handle of fixed length.
pub type MountResult1 = Result<[u8; 32], MountStat3>;

/// The answer to DUMP.
pub type MountList<'a> = Chain<'a, MountEntry<'a>>;

/// The answer to EXPORT.
pub type ExportList<'a> = Chain<'a, ExportEntry<'a>>;

xdr_struct! {
    /// A mount that is granted (RFC 1813 5.2.1).
    pub struct MountOk<'a> {
        /// The directory's handle.
        handle: Bounded<'a, 64>,
        /// What credentials the export takes, the preferred first.
        flavors: List<'a, Flavor>,
    }

    /// Who mounted what.
    pub struct MountEntry<'a> {
        /// The client.
        host: HostName<'a>,
        /// The path.
        path: DirPath<'a>,
    }

    /// An export and who may mount it; nobody named means everybody.
    pub struct ExportEntry<'a> {
        /// The path.
        path: DirPath<'a>,
        /// Who may.
        groups: Chain<'a, HostName<'a>>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::{Malformed, decode_all, to_vec};

    #[test]
    fn a_mount_by_hand() {
        let ok: MountResult<'_> =
            Ok(MountOk { handle: Bounded(b"12345"), flavors: List::new(&[Flavor::SYS, Flavor::KRB5]) });
        is_on_the_wire(&ok, &unhex("00000000 00000005 31323334 35000000 00000002 00000001 0005f373"));
        is_on_the_wire::<MountResult<'_>>(&Err(MountStat3::ACCES), &unhex("0000000d"));
        let old: MountResult1 = Ok([7; 32]);
        is_on_the_wire(&old, &[&[0; 4][..], &[7; 32]].concat());
    }

    #[test]
    fn exports_by_hand() {
        let groups = [Bounded(b"*".as_slice())];
        let entries = [
            ExportEntry { path: Bounded(b"/srv"), groups: Chain::new(&groups) },
            ExportEntry { path: Bounded(b"/a"), groups: Chain::default() },
        ];
        let bytes = unhex(
            "00000001 00000004 2f737276 00000001 00000001 2a000000 00000000
             00000001 00000002 2f610000 00000000 00000000",
        );
        is_on_the_wire(&ExportList::new(&entries), &bytes);
        let mounts = [MountEntry { host: Bounded(b"h"), path: Bounded(b"/") }];
        is_on_the_wire(&MountList::new(&mounts), &unhex("00000001 00000001 68000000 00000001 2f000000 00000000"));
    }

    #[test]
    fn a_path_is_bounded() {
        let path = vec![b'a'; MAX_PATH_BYTES + 1];
        assert_eq!(decode_all::<DirPath<'_>>(&to_vec(&&path[..])), Err(Malformed::TooLong));
    }

    #[test]
    fn a_status_has_its_name() {
        assert_eq!(MountStat3::NOTSUPP.to_string(), "MNT3ERR_NOTSUPP");
        assert_eq!(MountStat3(99).to_string(), "MNT3ERR_99");
    }
}
