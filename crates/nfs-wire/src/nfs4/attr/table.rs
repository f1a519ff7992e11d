//! Every attribute, its number, its type: the table in RFC 7530 5.6, 5.7, RFC 8881 5.6, 5.7, RFC 7862 12.2, RFC 8275 5,
//! RFC 8276 8.2 and RFC 9754. Called by whoever sets or shows attributes.

use super::super::{FileHandle, FileType, Fsid, NfsStat4, SetTime, SpecData, Time};
use super::parts::{
    ChangeAttrType, ChangePolicy, FsLocations, FsLocationsInfo, FsStatus, LayoutHint, ModeMasked, ModeUmask,
    OpenArguments, RetentionGet, RetentionSet, SecLabel, ThresholdItem,
};
use super::{Ace, AclSupport, AttrSource, Bitmap, NfsAcl41};
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

macro_rules! attributes {
    ($($attr:ident = $number:literal, $field:ident: $type:ty, $doc:literal;)*) => {
        xdr_enum! {
            /// An attribute's number.
            pub enum Attr {
                $(#[doc = $doc] $attr = $number,)*
            }
        }

        impl Attr {
            /// Its name in the RFCs.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$attr => stringify!($field),)*
                }
            }
        }

        /// Values of attributes, each there or not.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Attrs<'a> {
            $(#[doc = $doc] pub $field: Option<$type>,)*
        }

        impl<'a> Attrs<'a> {
            /// Which are there.
            pub fn mask(&self) -> Bitmap {
                let mut mask = Bitmap::EMPTY;
                $(if self.$field.is_some() {
                    mask = mask.with($number);
                })*
                mask
            }

            /// Decodes one value.
            pub(super) fn decode_one(&mut self, attr: Attr, r: &mut Reader<'a>) -> Result<(), Malformed> {
                match attr {
                    $(Attr::$attr => self.$field = Some(Xdr::decode(r)?),)*
                }
                Ok(())
            }
        }

        impl AttrSource for Attrs<'_> {
            fn put_attr(&self, attr: Attr, out: &mut (impl Put + ?Sized)) -> bool {
                match attr {
                    $(Attr::$attr => put_value(&self.$field, out),)*
                }
            }
        }
    };
}

fn put_value<'a>(value: &Option<impl Xdr<'a>>, out: &mut (impl Put + ?Sized)) -> bool {
    value.as_ref().map(|value| value.put(out)).is_some()
}

attributes! {
    SupportedAttrs = 0, supported_attrs: Bitmap, "Which attributes the server knows for this file.";
    Type = 1, file_type: FileType, "Kind of file.";
    FhExpireType = 2, fh_expire_type: u32, "0: handles stay; otherwise how they expire.";
    Change = 3, change: u64, "Becomes another with each change.";
    Size = 4, size: u64, "Bytes in the file.";
    LinkSupport = 5, link_support: bool, "Whether there are hard links.";
    SymlinkSupport = 6, symlink_support: bool, "Whether there are symbolic links.";
    NamedAttr = 7, named_attr: bool, "Whether the file has named attributes.";
    Fsid = 8, fsid: Fsid, "Which file system.";
    UniqueHandles = 9, unique_handles: bool, "Whether one file has one handle.";
    LeaseTime = 10, lease_time: u32, "The lease in seconds.";
    RdattrError = 11, rdattr_error: NfsStat4, "Why READDIR has no attributes of an entry.";
    Acl = 12, acl: List<'a, Ace<'a>>, "The ACL.";
    Aclsupport = 13, aclsupport: AclSupport, "Which types of ACL entry are kept.";
    Archive = 14, archive: bool, "Changed since the last backup.";
    Cansettime = 15, cansettime: bool, "Whether times can be set.";
    CaseInsensitive = 16, case_insensitive: bool, "Whether names match in any case.";
    CasePreserving = 17, case_preserving: bool, "Whether names keep their case.";
    ChownRestricted = 18, chown_restricted: bool, "Whether only the superuser gives files away.";
    Filehandle = 19, filehandle: FileHandle<'a>, "The handle.";
    Fileid = 20, fileid: u64, "Which file in its file system.";
    FilesAvail = 21, files_avail: u64, "Files the caller can still make.";
    FilesFree = 22, files_free: u64, "Files that can still be made.";
    FilesTotal = 23, files_total: u64, "Files in all.";
    FsLocations = 24, fs_locations: FsLocations<'a>, "Where the file system is.";
    Hidden = 25, hidden: bool, "Not shown by default.";
    Homogeneous = 26, homogeneous: bool, "Whether all files of the file system have the same abilities.";
    Maxfilesize = 27, maxfilesize: u64, "The largest file.";
    Maxlink = 28, maxlink: u32, "The most hard links.";
    Maxname = 29, maxname: u32, "The longest name in bytes.";
    Maxread = 30, maxread: u64, "The largest READ.";
    Maxwrite = 31, maxwrite: u64, "The largest WRITE.";
    Mimetype = 32, mimetype: &'a [u8], "The MIME type.";
    Mode = 33, mode: u32, "Permission bits with set-uid, set-gid and sticky.";
    NoTrunc = 34, no_trunc: bool, "Whether a name too long is an error.";
    Numlinks = 35, numlinks: u32, "Hard links.";
    Owner = 36, owner: &'a [u8], "The owner, as text.";
    OwnerGroup = 37, owner_group: &'a [u8], "The group, as text.";
    QuotaAvailHard = 38, quota_avail_hard: u64, "Bytes until the hard quota.";
    QuotaAvailSoft = 39, quota_avail_soft: u64, "Bytes until the soft quota.";
    QuotaUsed = 40, quota_used: u64, "Bytes charged to the quota.";
    Rawdev = 41, rawdev: SpecData, "A device's numbers.";
    SpaceAvail = 42, space_avail: u64, "Bytes free for the caller.";
    SpaceFree = 43, space_free: u64, "Bytes free.";
    SpaceTotal = 44, space_total: u64, "Bytes in all.";
    SpaceUsed = 45, space_used: u64, "Bytes of the file on the disk.";
    System = 46, system: bool, "A system file (DOS).";
    TimeAccess = 47, time_access: Time, "Last read.";
    TimeAccessSet = 48, time_access_set: SetTime, "To set when it was last read.";
    TimeBackup = 49, time_backup: Time, "Last backed up.";
    TimeCreate = 50, time_create: Time, "When it was made.";
    TimeDelta = 51, time_delta: Time, "The granularity of times.";
    TimeMetadata = 52, time_metadata: Time, "Last changed in any way.";
    TimeModify = 53, time_modify: Time, "Last written.";
    TimeModifySet = 54, time_modify_set: SetTime, "To set when it was last written.";
    MountedOnFileid = 55, mounted_on_fileid: u64, "For a file system's root: the id of the directory beneath it.";
    DirNotifDelay = 56, dir_notif_delay: Time, "The least delay of notifications about a directory.";
    DirentNotifDelay = 57, dirent_notif_delay: Time, "The least delay of notifications about entries.";
    Dacl = 58, dacl: NfsAcl41<'a>, "The entries that allow and deny, with flags.";
    Sacl = 59, sacl: NfsAcl41<'a>, "The entries that audit and alarm, with flags.";
    ChangePolicy = 60, change_policy: ChangePolicy, "Changes when the file system's configuration does.";
    FsStatus = 61, fs_status: FsStatus<'a>, "What the file system is.";
    FsLayoutTypes = 62, fs_layout_types: List<'a, u32>, "Layout types of the file system.";
    LayoutHint = 63, layout_hint: LayoutHint<'a>, "What layout a client would like.";
    LayoutTypes = 64, layout_types: List<'a, u32>, "Layout types of the file.";
    LayoutBlksize = 65, layout_blksize: u32, "Preferred block size of layouts.";
    LayoutAlignment = 66, layout_alignment: u32, "Preferred alignment of layouts.";
    FsLocationsInfo = 67, fs_locations_info: FsLocationsInfo<'a>, "Where the file system is, with ranks.";
    Mdsthreshold = 68, mdsthreshold: List<'a, ThresholdItem<'a>>, "When I/O should go to the metadata server.";
    RetentionGet = 69, retention_get: RetentionGet, "How long the file is kept.";
    RetentionSet = 70, retention_set: RetentionSet, "To set how long it is kept.";
    RetentevtGet = 71, retentevt_get: RetentionGet, "How long it is kept after an event.";
    RetentevtSet = 72, retentevt_set: RetentionSet, "To set how long it is kept after an event.";
    RetentionHold = 73, retention_hold: u64, "Holds on deleting it.";
    ModeSetMasked = 74, mode_set_masked: ModeMasked, "To set some mode bits.";
    SuppattrExclcreat = 75, suppattr_exclcreat: Bitmap, "What an exclusive create may set.";
    FsCharsetCap = 76, fs_charset_cap: u32, "1: names may be no UTF-8; 2: they must be.";
    CloneBlksize = 77, clone_blksize: u32, "CLONE works on multiples of this.";
    SpaceFreed = 78, space_freed: u64, "Bytes that deleting the file would free.";
    ChangeAttrType = 79, change_attr_type: ChangeAttrType, "How the change attribute moves.";
    SecLabel = 80, sec_label: SecLabel<'a>, "The security label.";
    ModeUmask = 81, mode_umask: ModeUmask, "To set a mode under a umask.";
    XattrSupport = 82, xattr_support: bool, "Whether there are extended attributes.";
    Offline = 83, offline: bool, "Whether the data are on slow storage (RFC 9754).";
    TimeDelegAccess = 84, time_deleg_access: Time, "The holder of a delegation says when it last read (RFC 9754).";
    TimeDelegModify = 85, time_deleg_modify: Time, "The holder of a delegation says when it last wrote (RFC 9754).";
    OpenArguments = 86, open_arguments: OpenArguments, "What of OPEN the server takes (RFC 9754).";
}

#[cfg(test)]
mod tests {
    use super::super::{AceFlags, AceMask, AceType, AclFlags, Fattr, FsLocation, FsLocationsItem, FsLocationsServer};
    use super::*;
    use crate::xdr::Bounded;

    const TIME: Time = Time { seconds: 1 << 33, nanoseconds: 3 };

    const THRESHOLDS: &[ThresholdItem<'_>] =
        &[ThresholdItem { layout_type: 1, hint_set: Bitmap::from_words([1, 0, 0]), hints: b"1" }];

    /// Every attribute there is.
    fn all<'a>(aces: &'a [Ace<'a>], locations: &'a [FsLocation<'a>], items: &'a [FsLocationsItem<'a>]) -> Attrs<'a> {
        let acl = NfsAcl41 { flags: AclFlags::PROTECTED, aces: List::new(aces) };
        let retention = RetentionGet { duration_seconds: 5, begin: Some(TIME) };
        let retain = RetentionSet { enable: true, duration_seconds: Some(6) };
        let set = Bitmap::EMPTY.with(1).with(40);
        Attrs {
            supported_attrs: Some(set.with(82)),
            file_type: Some(FileType::Directory),
            fh_expire_type: Some(0),
            change: Some(1),
            size: Some(2),
            link_support: Some(true),
            symlink_support: Some(true),
            named_attr: Some(false),
            fsid: Some(Fsid { major: 1, minor: 2 }),
            unique_handles: Some(true),
            lease_time: Some(90),
            rdattr_error: Some(NfsStat4::OK),
            acl: Some(List::new(aces)),
            aclsupport: Some(AclSupport::ALLOW),
            archive: Some(true),
            cansettime: Some(true),
            case_insensitive: Some(false),
            case_preserving: Some(true),
            chown_restricted: Some(true),
            filehandle: Some(Bounded(b"handle")),
            fileid: Some(3),
            files_avail: Some(4),
            files_free: Some(5),
            files_total: Some(6),
            fs_locations: Some(FsLocations { root: List::new(&[b"a", b"b"]), locations: List::new(locations) }),
            hidden: Some(false),
            homogeneous: Some(true),
            maxfilesize: Some(7),
            maxlink: Some(8),
            maxname: Some(255),
            maxread: Some(9),
            maxwrite: Some(10),
            mimetype: Some(b"text/plain"),
            mode: Some(0o755),
            no_trunc: Some(true),
            numlinks: Some(2),
            owner: Some(b"0"),
            owner_group: Some(b"wheel@x"),
            quota_avail_hard: Some(11),
            quota_avail_soft: Some(12),
            quota_used: Some(13),
            rawdev: Some(SpecData { major: 8, minor: 1 }),
            space_avail: Some(14),
            space_free: Some(15),
            space_total: Some(16),
            space_used: Some(17),
            system: Some(false),
            time_access: Some(TIME),
            time_access_set: Some(SetTime::Server),
            time_backup: Some(TIME),
            time_create: Some(TIME),
            time_delta: Some(TIME),
            time_metadata: Some(TIME),
            time_modify: Some(TIME),
            time_modify_set: Some(SetTime::Client(TIME)),
            mounted_on_fileid: Some(18),
            dir_notif_delay: Some(TIME),
            dirent_notif_delay: Some(TIME),
            dacl: Some(acl),
            sacl: Some(acl),
            change_policy: Some(ChangePolicy { major: 1, minor: 2 }),
            fs_status: Some(FsStatus {
                absent: false,
                status_type: 4,
                source: b"s",
                current: b"c",
                age: -1,
                version: TIME,
            }),
            fs_layout_types: Some(List::new(&[1, 4])),
            layout_hint: Some(LayoutHint { layout_type: 1, body: b"hint" }),
            layout_types: Some(List::default()),
            layout_blksize: Some(4096),
            layout_alignment: Some(512),
            fs_locations_info: Some(FsLocationsInfo {
                flags: 1,
                valid_for: 60,
                root: List::new(&[b"a"]),
                items: List::new(items),
            }),
            mdsthreshold: Some(List::new(THRESHOLDS)),
            retention_get: Some(retention),
            retention_set: Some(retain),
            retentevt_get: Some(retention),
            retentevt_set: Some(retain),
            retention_hold: Some(19),
            mode_set_masked: Some(ModeMasked { value: 1, mask: 7 }),
            suppattr_exclcreat: Some(set),
            fs_charset_cap: Some(2),
            clone_blksize: Some(4096),
            space_freed: Some(20),
            change_attr_type: Some(ChangeAttrType::VersionCounter),
            sec_label: Some(SecLabel { format: 1, policy: 2, data: b"label" }),
            mode_umask: Some(ModeUmask { mode: 0o666, umask: 0o22 }),
            xattr_support: Some(true),
            offline: Some(false),
            time_deleg_access: Some(TIME),
            time_deleg_modify: Some(TIME),
            open_arguments: Some(OpenArguments {
                share_access: set,
                share_deny: set,
                share_access_want: set,
                open_claim: set,
                create_mode: set,
            }),
        }
    }

    #[test]
    fn every_attribute_survives_the_wire_and_truncation() {
        let aces =
            [Ace { ace_type: AceType::Deny, flags: AceFlags::empty(), mask: AceMask::EXECUTE, who: b"EVERYONE@" }];
        let locations = [FsLocation { servers: List::new(&[b"srv"]), root: List::new(&[b"x"]) }];
        let servers = [FsLocationsServer { currency: -1, info: b"i", server: b"srv" }];
        let items = [FsLocationsItem { servers: List::new(&servers), root: List::new(&[b"x"]) }];
        let attrs = all(&aces, &locations, &items);
        assert_eq!(attrs.mask().iter().collect::<Vec<_>>(), (0..=86).collect::<Vec<_>>());
        let values = attrs.to_values();
        assert_eq!(Fattr { mask: attrs.mask(), values: &values }.attrs(), Ok(attrs));
        for end in 0..values.len() {
            assert!(Fattr { mask: attrs.mask(), values: &values[..end] }.attrs().is_err(), "cut at {end}");
        }
        for bit in 0..=86 {
            let one = Attr::from_u32(bit).unwrap();
            let mut out = Vec::new();
            assert!(attrs.put_attr(one, &mut out));
            assert_eq!(out.len() % 4, 0, "{}", one.name());
            let mask = Bitmap::EMPTY.with(bit);
            let decoded = Fattr { mask, values: &out }.attrs().unwrap();
            assert_eq!(decoded.to_values(), out, "{}", one.name());
        }
    }

    #[test]
    fn numbers_are_the_rfcs() {
        for (attr, number, name) in [
            (Attr::MountedOnFileid, 55, "mounted_on_fileid"),
            (Attr::SuppattrExclcreat, 75, "suppattr_exclcreat"),
            (Attr::ChangeAttrType, 79, "change_attr_type"),
            (Attr::ModeUmask, 81, "mode_umask"),
            (Attr::XattrSupport, 82, "xattr_support"),
        ] {
            assert_eq!((attr as u32, attr.name()), (number, name));
        }
        assert_eq!(Attr::from_u32(87), None);
    }
}
