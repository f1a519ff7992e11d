//! The structures inside single attributes (RFC 7530 5, RFC 8881 5 and 11, RFC 7862 12.2, RFC 8275, RFC 9754).

use super::super::{Pathname, Time};
use super::Bitmap;
use crate::xdr::List;

xdr_enum! {
    /// How the change attribute moves (RFC 7862 12.2.3).
    pub enum ChangeAttrType {
        /// It only grows.
        MonotonicIncr = 0,
        /// It grows by one with each change.
        VersionCounter = 1,
        /// The same, except for pNFS writes.
        VersionCounterNoPnfs = 2,
        /// It is the time of the last change.
        TimeMetadata = 3,
        /// It becomes another, no more.
        Undefined = 4,
    }
}

xdr_struct! {
    /// Where a file system is (`fs_location4`).
    pub struct FsLocation<'a> {
        /// On which servers.
        servers: List<'a, &'a [u8]>,
        /// Under which path there.
        root: Pathname<'a>,
    }

    /// Where a file system is, all places (`fs_locations4`).
    pub struct FsLocations<'a> {
        /// Its path here.
        root: Pathname<'a>,
        /// The places.
        locations: List<'a, FsLocation<'a>>,
    }

    /// A server of a file system (`fs_locations_server4`).
    pub struct FsLocationsServer<'a> {
        /// How far behind its copy is, in seconds.
        currency: i32,
        /// Classes and ranks.
        info: &'a [u8],
        /// The server.
        server: &'a [u8],
    }

    /// Servers with the same path (`fs_locations_item4`).
    pub struct FsLocationsItem<'a> {
        /// The servers.
        servers: List<'a, FsLocationsServer<'a>>,
        /// The path.
        root: Pathname<'a>,
    }

    /// Where a file system is, with ranks (`fs_locations_info4`).
    pub struct FsLocationsInfo<'a> {
        /// Flags.
        flags: u32,
        /// For how many seconds.
        valid_for: i32,
        /// Its path here.
        root: Pathname<'a>,
        /// The places.
        items: List<'a, FsLocationsItem<'a>>,
    }

    /// What a file system is (`fs4_status`).
    pub struct FsStatus<'a> {
        /// Whether it is not here.
        absent: bool,
        /// 1 fixed, 2 updated, 3 versioned, 4 writable, 5 a referral.
        status_type: u32,
        /// Where it comes from.
        source: &'a [u8],
        /// Which version.
        current: &'a [u8],
        /// How old, in seconds.
        age: i32,
        /// The version's time.
        version: Time,
    }

    /// Changes when anything of the file system's configuration does (`change_policy4`).
    pub struct ChangePolicy {
        /// One half.
        major: u64,
        /// The other.
        minor: u64,
    }

    /// What layout a client would like (`layouthint4`).
    pub struct LayoutHint<'a> {
        /// Layout type.
        layout_type: u32,
        /// What the type defines.
        body: &'a [u8],
    }

    /// When I/O should go to the metadata server (`threshold_item4`).
    pub struct ThresholdItem<'a> {
        /// Layout type.
        layout_type: u32,
        /// Which hints.
        hint_set: Bitmap,
        /// Their values.
        hints: &'a [u8],
    }

    /// How long a file is kept (`retention_get4`).
    pub struct RetentionGet {
        /// Seconds.
        duration_seconds: u64,
        /// Since when.
        begin: Option<Time>,
    }

    /// How long a file shall be kept (`retention_set4`).
    pub struct RetentionSet {
        /// Whether it begins.
        enable: bool,
        /// Seconds.
        duration_seconds: Option<u64>,
    }

    /// Mode bits and which of them to set (`mode_masked4`).
    pub struct ModeMasked {
        /// The bits.
        value: u32,
        /// Which.
        mask: u32,
    }

    /// A mode and the creator's umask, for the server to apply unless an ACL is inherited (RFC 8275).
    pub struct ModeUmask {
        /// The mode.
        mode: u32,
        /// The umask.
        umask: u32,
    }

    /// A security label (`sec_label4`).
    pub struct SecLabel<'a> {
        /// Label format.
        format: u32,
        /// Policy.
        policy: u32,
        /// The label.
        data: &'a [u8],
    }

    /// What of OPEN a server takes (`open_arguments4`, RFC 9754).
    pub struct OpenArguments {
        /// Share access values.
        share_access: Bitmap,
        /// Share deny values.
        share_deny: Bitmap,
        /// Wants.
        share_access_want: Bitmap,
        /// Claims.
        open_claim: Bitmap,
        /// Create modes.
        create_mode: Bitmap,
    }
}
