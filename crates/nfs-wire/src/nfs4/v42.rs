//! What NFSv4.2 adds (RFC 7862 15): ALLOCATE, DEALLOCATE, COPY, COPY_NOTIFY, OFFLOAD_CANCEL, OFFLOAD_STATUS, IO_ADVISE,
//! SEEK, CLONE, WRITE_SAME. READ_PLUS is with READ.

use super::{Bitmap, NetAddr, NfsStat4, Stateid, Time, Verifier};
use crate::nfs3::StableHow;
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

/// What COPY answers.
pub type CopyRes = Result<CopyOk, CopyError>;

/// What COPY_NOTIFY answers.
pub type CopyNotifyRes<'a> = Result<CopyNotifyOk<'a>, NfsStat4>;

/// What OFFLOAD_STATUS answers.
pub type OffloadStatusRes = Result<OffloadStatusOk, NfsStat4>;

/// What IO_ADVISE answers: the hints that were taken.
pub type IoAdviseRes = Result<Bitmap, NfsStat4>;

/// What SEEK answers.
pub type SeekRes = Result<SeekOk, NfsStat4>;

/// [`SeekArgs::what`]: data.
pub const SEEK_DATA: u32 = 0;
/// [`SeekArgs::what`]: a hole.
pub const SEEK_HOLE: u32 = 1;

xdr_struct! {
    /// Arguments of ALLOCATE and DEALLOCATE.
    pub struct AllocateArgs {
        /// The open.
        stateid: Stateid,
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
    }

    /// Arguments of COPY, from the saved file to the current one.
    pub struct CopyArgs<'a> {
        /// The source's open.
        src_stateid: Stateid,
        /// The target's open.
        dst_stateid: Stateid,
        /// Where in the source.
        src_offset_bytes: u64,
        /// Where in the target.
        dst_offset_bytes: u64,
        /// How much, 0 for all that follows.
        count_bytes: u64,
        /// Whether the bytes must be copied in order.
        consecutive: bool,
        /// Whether the answer must wait for the end.
        synchronous: bool,
        /// The source's servers, none for this one.
        source_servers: List<'a, NetLocation<'a>>,
    }

    /// How a copy is made (`copy_requirements4`).
    pub struct CopyRequirements {
        /// In order.
        consecutive: bool,
        /// While the caller waits.
        synchronous: bool,
    }

    /// What was written (`write_response4`).
    pub struct WriteResponse {
        /// For a copy that goes on: its name.
        callback_id: Option<Stateid>,
        /// How much was written.
        count_bytes: u64,
        /// How safe it is.
        committed: StableHow,
        /// Changes when unstable data may have been lost.
        verifier: Verifier,
    }

    /// Result of COPY.
    pub struct CopyOk {
        /// What was written.
        response: WriteResponse,
        /// How.
        requirements: CopyRequirements,
    }

    /// Arguments of COPY_NOTIFY.
    pub struct CopyNotifyArgs<'a> {
        /// The source's open.
        src_stateid: Stateid,
        /// Who will fetch it.
        destination: NetLocation<'a>,
    }

    /// Result of COPY_NOTIFY.
    pub struct CopyNotifyOk<'a> {
        /// For how long.
        lease_time: Time,
        /// What the other server shows.
        stateid: Stateid,
        /// Where it may be fetched.
        source_servers: List<'a, NetLocation<'a>>,
    }

    /// Result of OFFLOAD_STATUS.
    pub struct OffloadStatusOk {
        /// How much was copied.
        count_bytes: u64,
        /// Its end, once it has ended.
        complete: Option<NfsStat4>,
    }

    /// Arguments of IO_ADVISE.
    pub struct IoAdviseArgs {
        /// The open.
        stateid: Stateid,
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// Which hints, by number (RFC 7862 15.5.1).
        hints: Bitmap,
    }

    /// Arguments of SEEK.
    pub struct SeekArgs {
        /// The open.
        stateid: Stateid,
        /// From where.
        offset_bytes: u64,
        /// [`SEEK_DATA`] or [`SEEK_HOLE`]; for anything else a server says UNION_NOTSUPP.
        what: u32,
    }

    /// Result of SEEK.
    pub struct SeekOk {
        /// Whether there is none up to the end.
        eof: bool,
        /// Where.
        offset_bytes: u64,
    }

    /// Arguments of CLONE, from the saved file to the current one.
    pub struct CloneArgs {
        /// The source's open.
        src_stateid: Stateid,
        /// The target's open.
        dst_stateid: Stateid,
        /// Where in the source.
        src_offset_bytes: u64,
        /// Where in the target.
        dst_offset_bytes: u64,
        /// How much, 0 for all that follows.
        count_bytes: u64,
    }

    /// Arguments of WRITE_SAME.
    pub struct WriteSameArgs<'a> {
        /// The open.
        stateid: Stateid,
        /// How safe.
        stable: StableHow,
        /// Where the blocks begin.
        offset_bytes: u64,
        /// How large each is.
        block_bytes: u64,
        /// How many.
        block_count: u64,
        /// Where in a block its number is.
        number_offset_bytes: u64,
        /// The first number.
        first_number: u32,
        /// Where in a block the pattern is.
        pattern_offset_bytes: u64,
        /// The pattern.
        pattern: &'a [u8],
    }
}

/// Where a server is (`netloc4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetLocation<'a> {
    /// A name.
    Name(&'a [u8]),
    /// A URL.
    Url(&'a [u8]),
    /// An address.
    Address(NetAddr<'a>),
}

impl<'a> Xdr<'a> for NetLocation<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            1 => Xdr::decode(r).map(Self::Name),
            2 => Xdr::decode(r).map(Self::Url),
            3 => Xdr::decode(r).map(Self::Address),
            _ => Err(Malformed::Value("netloc_type4")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Name(name) => (1u32, *name).put(out),
            Self::Url(url) => (2u32, *url).put(out),
            Self::Address(address) => (3u32, *address).put(out),
        }
    }
}

/// Why nothing was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyError {
    /// OFFLOAD_NO_REQS: it could be done only like this.
    NoReqs(CopyRequirements),
    /// Anything else.
    Status(NfsStat4),
}

impl<'a> Xdr<'a> for CopyRes {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match NfsStat4::decode(r)? {
            NfsStat4::OK => Xdr::decode(r).map(Ok),
            NfsStat4::OFFLOAD_NO_REQS => Ok(Err(CopyError::NoReqs(Xdr::decode(r)?))),
            status => Ok(Err(CopyError::Status(status))),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Ok(ok) => (NfsStat4::OK, *ok).put(out),
            Err(CopyError::NoReqs(requirements)) => (NfsStat4::OFFLOAD_NO_REQS, *requirements).put(out),
            Err(CopyError::Status(NfsStat4::OK | NfsStat4::OFFLOAD_NO_REQS)) => NfsStat4::SERVERFAULT.put(out),
            Err(CopyError::Status(status)) => status.put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, survives, unhex};

    const STATEID: Stateid = Stateid { seqid: 1, other: *b"0123456789ab" };
    const TEXT: &str = "00000001 30313233 34353637 38396162";

    #[test]
    fn copy_and_clone_by_hand() {
        let server = [NetLocation::Name(b"srv")];
        let args = CopyArgs {
            src_stateid: STATEID,
            dst_stateid: STATEID,
            src_offset_bytes: 1,
            dst_offset_bytes: 2,
            count_bytes: 3,
            consecutive: true,
            synchronous: false,
            source_servers: List::new(&server),
        };
        let range = "00000000 00000001 00000000 00000002 00000000 00000003";
        let text = format!("{TEXT} {TEXT} {range} 00000001 00000000 00000001 00000001 00000003 73727600");
        is_on_the_wire(&args, &unhex(&text));
        let args = CloneArgs {
            src_stateid: STATEID,
            dst_stateid: STATEID,
            src_offset_bytes: 1,
            dst_offset_bytes: 2,
            count_bytes: 3,
        };
        is_on_the_wire(&args, &unhex(&format!("{TEXT} {TEXT} {range}")));
        let requirements = CopyRequirements { consecutive: true, synchronous: true };
        let response =
            WriteResponse { callback_id: None, count_bytes: 9, committed: StableHow::FileSync, verifier: *b"verifier" };
        let ok: CopyRes = Ok(CopyOk { response, requirements });
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000000 00000009 00000002 76657269 66696572 00000001 00000001"));
        is_on_the_wire::<CopyRes>(&Err(CopyError::NoReqs(requirements)), &unhex("0000276e 00000001 00000001"));
        survives!(WriteResponse { callback_id: Some(STATEID), ..response }, WriteResponse);
    }

    #[test]
    fn the_others_by_hand() {
        let range = "00000000 00000001 00000000 00000002";
        is_on_the_wire(
            &AllocateArgs { stateid: STATEID, offset_bytes: 1, len_bytes: 2 },
            &unhex(&format!("{TEXT} {range}")),
        );
        let hints = Bitmap::EMPTY.with(1).with(4);
        is_on_the_wire(
            &IoAdviseArgs { stateid: STATEID, offset_bytes: 1, len_bytes: 2, hints },
            &unhex(&format!("{TEXT} {range} 00000001 00000012")),
        );
        is_on_the_wire::<IoAdviseRes>(&Ok(hints), &unhex("00000000 00000001 00000012"));
        is_on_the_wire(
            &SeekArgs { stateid: STATEID, offset_bytes: 1, what: SEEK_HOLE },
            &unhex(&format!("{TEXT} 00000000 00000001 00000001")),
        );
        is_on_the_wire::<SeekRes>(
            &Ok(SeekOk { eof: true, offset_bytes: 5 }),
            &unhex("00000000 00000001 00000000 00000005"),
        );
        let address = NetLocation::Address(NetAddr { netid: b"tcp", address: b"a" });
        survives!(CopyNotifyArgs { src_stateid: STATEID, destination: address }, CopyNotifyArgs<'_>);
        let servers = [NetLocation::Url(b"u"), address];
        let ok = CopyNotifyOk {
            lease_time: Time { seconds: 1, nanoseconds: 2 },
            stateid: STATEID,
            source_servers: List::new(&servers),
        };
        survives!(Ok(ok), CopyNotifyRes<'_>);
        survives!(Ok(OffloadStatusOk { count_bytes: 1, complete: Some(NfsStat4::OK) }), OffloadStatusRes);
        let same = WriteSameArgs {
            stateid: STATEID,
            stable: StableHow::Unstable,
            offset_bytes: 1,
            block_bytes: 2,
            block_count: 3,
            number_offset_bytes: 4,
            first_number: 5,
            pattern_offset_bytes: 6,
            pattern: b"pat",
        };
        survives!(same, WriteSameArgs<'_>);
    }
}
