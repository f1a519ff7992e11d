//! pNFS (RFC 8881 12 and 18.40 to 18.44, RFC 7862 15.6, 15.7), directory delegations and WANT_DELEGATION (18.39,
//! 18.49). A server without layouts decodes their arguments only to find that they are well formed, and refuses; a
//! directory delegation is answered with "none" in the way its operation has for that.

use super::open::{DelegationType, OpenDelegation};
use super::{Bitmap, NfsStat4, Stateid, Time, Verifier};
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

/// What GET_DIR_DELEGATION answers.
pub type GetDirDelegationRes = Result<DirDelegation, NfsStat4>;

/// What WANT_DELEGATION answers.
pub type WantDelegationRes<'a> = Result<OpenDelegation<'a>, NfsStat4>;

/// A device id.
pub type DeviceId = [u8; 16];

xdr_struct! {
    /// Arguments of GETDEVICEINFO.
    pub struct GetDeviceInfoArgs {
        /// Which.
        device_id: DeviceId,
        /// Layout type.
        layout_type: u32,
        /// The most bytes of result.
        max_count_bytes: u32,
        /// Which notifications.
        notify_types: Bitmap,
    }

    /// Arguments of GETDEVICELIST.
    pub struct GetDeviceListArgs {
        /// Layout type.
        layout_type: u32,
        /// The most devices.
        max_devices: u32,
        /// To go on with.
        cookie: u64,
        /// To go on with.
        cookie_verifier: Verifier,
    }

    /// Arguments of LAYOUTCOMMIT.
    pub struct LayoutCommitArgs<'a> {
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// Whether it is a reclaim.
        reclaim: bool,
        /// The layout.
        stateid: Stateid,
        /// The last byte that was written.
        last_write_offset: Option<u64>,
        /// The time of it.
        time_modify: Option<Time>,
        /// Layout type.
        layout_type: u32,
        /// What the type defines.
        update: &'a [u8],
    }

    /// Arguments of LAYOUTGET.
    pub struct LayoutGetArgs {
        /// Whether to be told later.
        signal_available: bool,
        /// Layout type.
        layout_type: u32,
        /// 1 read, 2 read and write, 3 any.
        iomode: u32,
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// How many at the least.
        min_len_bytes: u64,
        /// The open or the layout.
        stateid: Stateid,
        /// The most bytes of result.
        max_count_bytes: u32,
    }

    /// Arguments of LAYOUTRETURN.
    pub struct LayoutReturnArgs<'a> {
        /// Whether it is a reclaim.
        reclaim: bool,
        /// Layout type.
        layout_type: u32,
        /// 1 read, 2 read and write, 3 any.
        iomode: u32,
        /// What.
        what: LayoutReturn<'a>,
    }

    /// A file's layout that is returned.
    pub struct LayoutReturnFile<'a> {
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// The layout.
        stateid: Stateid,
        /// What the type defines.
        body: &'a [u8],
    }

    /// Arguments of LAYOUTERROR.
    pub struct LayoutErrorArgs<'a> {
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// The layout.
        stateid: Stateid,
        /// What failed.
        errors: List<'a, DeviceError>,
    }

    /// What failed on a device.
    pub struct DeviceError {
        /// Which.
        device_id: DeviceId,
        /// How.
        status: NfsStat4,
        /// In which operation.
        op: u32,
    }

    /// Arguments of LAYOUTSTATS.
    pub struct LayoutStatsArgs<'a> {
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// The layout.
        stateid: Stateid,
        /// Reads: how many, of how many bytes.
        read: (u64, u64),
        /// Writes: how many, of how many bytes.
        write: (u64, u64),
        /// Which device.
        device_id: DeviceId,
        /// Layout type.
        layout_type: u32,
        /// What the type defines.
        update: &'a [u8],
    }

    /// Arguments of GET_DIR_DELEGATION.
    pub struct GetDirDelegationArgs {
        /// Whether to be told later.
        signal_available: bool,
        /// Which notifications.
        notification_types: Bitmap,
        /// How late about entries.
        child_attr_delay: Time,
        /// How late about the directory.
        dir_attr_delay: Time,
        /// Which attributes of entries.
        child_attributes: Bitmap,
        /// Which attributes of the directory.
        dir_attributes: Bitmap,
    }

    /// A directory delegation that is given.
    pub struct DirDelegationOk {
        /// Verifier of cookies.
        cookie_verifier: Verifier,
        /// The delegation.
        stateid: Stateid,
        /// Which notifications.
        notification_types: Bitmap,
        /// Which attributes of entries.
        child_attributes: Bitmap,
        /// Which attributes of the directory.
        dir_attributes: Bitmap,
    }

    /// Arguments of WANT_DELEGATION.
    pub struct WantDelegationArgs {
        /// As in [`super::ShareAccess`].
        want: u32,
        /// On what ground.
        claim: DelegClaim,
    }
}

/// What LAYOUTRETURN returns (`layoutreturn4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutReturn<'a> {
    /// A file's.
    File(LayoutReturnFile<'a>),
    /// All of a file system (2), all (3).
    Other(u32),
}

impl<'a> Xdr<'a> for LayoutReturn<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            1 => Xdr::decode(r).map(Self::File),
            other => Ok(Self::Other(other)),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::File(file) => (1u32, *file).put(out),
            Self::Other(other) => out.put_u32(*other),
        }
    }
}

/// Whether there is a directory delegation (`GET_DIR_DELEGATION4res_non_fatal`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirDelegation {
    /// There is.
    Given(DirDelegationOk),
    /// There is not.
    Unavailable {
        /// Whether it will be told later.
        will_signal: bool,
    },
}

impl<'a> Xdr<'a> for DirDelegation {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            0 => Xdr::decode(r).map(Self::Given),
            1 => Ok(Self::Unavailable { will_signal: r.bool()? }),
            _ => Err(Malformed::Value("gddrnf4_status")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Given(ok) => (0u32, *ok).put(out),
            Self::Unavailable { will_signal } => (1u32, *will_signal).put(out),
        }
    }
}

/// On what ground a delegation is wanted (`deleg_claim4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DelegClaim {
    /// It was held before the server restarted.
    Previous(DelegationType),
    /// The current file.
    Fh,
    /// It was held before the client restarted.
    DelegPrevFh,
}

impl<'a> Xdr<'a> for DelegClaim {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            1 => Xdr::decode(r).map(Self::Previous),
            4 => Ok(Self::Fh),
            6 => Ok(Self::DelegPrevFh),
            _ => Err(Malformed::Value("open_claim_type4")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Previous(delegation) => (1u32, *delegation).put(out),
            Self::Fh => out.put_u32(4),
            Self::DelegPrevFh => out.put_u32(6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, survives, unhex};

    const STATEID: Stateid = Stateid { seqid: 1, other: *b"0123456789ab" };
    const TIME: Time = Time { seconds: 1, nanoseconds: 2 };

    #[test]
    fn a_directory_delegation_by_hand() {
        let args = GetDirDelegationArgs {
            signal_available: true,
            notification_types: Bitmap::EMPTY.with(3),
            child_attr_delay: TIME,
            dir_attr_delay: TIME,
            child_attributes: Bitmap::EMPTY,
            dir_attributes: Bitmap::EMPTY,
        };
        let time = "00000000 00000001 00000002";
        is_on_the_wire(&args, &unhex(&format!("00000001 00000001 00000008 {time} {time} 00000000 00000000")));
        let none: GetDirDelegationRes = Ok(DirDelegation::Unavailable { will_signal: false });
        is_on_the_wire(&none, &unhex("00000000 00000001 00000000"));
        let given = DirDelegationOk {
            cookie_verifier: *b"verifier",
            stateid: STATEID,
            notification_types: Bitmap::EMPTY,
            child_attributes: Bitmap::EMPTY,
            dir_attributes: Bitmap::EMPTY.with(1),
        };
        survives!(Ok(DirDelegation::Given(given)), GetDirDelegationRes);
        for claim in [DelegClaim::Previous(DelegationType::Read), DelegClaim::Fh, DelegClaim::DelegPrevFh] {
            survives!(WantDelegationArgs { want: 0x100, claim }, WantDelegationArgs);
        }
    }

    #[test]
    fn layout_arguments_survive() {
        survives!(
            LayoutCommitArgs {
                offset_bytes: 1,
                len_bytes: 2,
                reclaim: false,
                stateid: STATEID,
                last_write_offset: Some(3),
                time_modify: Some(TIME),
                layout_type: 1,
                update: b"upd",
            },
            LayoutCommitArgs<'_>
        );
        let file = LayoutReturnFile { offset_bytes: 1, len_bytes: 2, stateid: STATEID, body: b"b" };
        for what in [LayoutReturn::File(file), LayoutReturn::Other(3)] {
            survives!(LayoutReturnArgs { reclaim: false, layout_type: 1, iomode: 3, what }, LayoutReturnArgs<'_>);
        }
        let errors = [DeviceError { device_id: [1; 16], status: NfsStat4::NXIO, op: 25 }];
        survives!(
            LayoutErrorArgs { offset_bytes: 1, len_bytes: 2, stateid: STATEID, errors: List::new(&errors) },
            LayoutErrorArgs<'_>
        );
        survives!(
            LayoutStatsArgs {
                offset_bytes: 1,
                len_bytes: 2,
                stateid: STATEID,
                read: (1, 2),
                write: (3, 4),
                device_id: [1; 16],
                layout_type: 4,
                update: b"u",
            },
            LayoutStatsArgs<'_>
        );
    }
}
