//! OPEN and what belongs to it: OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, OPENATTR (RFC 7530 16.16 to 16.19, RFC 8881 18.2,
//! 18.16, 18.18), the claims, and the delegations an OPEN may bring.

use super::attr::Ace;
use super::{Bitmap, ChangeInfo, Component, Fattr, NfsStat4, StateOwner, Stateid, Verifier};
use crate::xdr::{Malformed, Put, Reader, Xdr};

/// What OPEN answers.
pub type OpenRes<'a> = Result<OpenOk<'a>, NfsStat4>;

/// What OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE and LOCKU answer.
pub type StateidRes = Result<Stateid, NfsStat4>;

xdr_flags! {
    /// What an open is for, and in 4.1 what delegation is wanted.
    pub struct ShareAccess {
        /// Reading.
        READ = 1,
        /// Writing.
        WRITE = 2,
        /// Both.
        BOTH = 3,
        /// All bits that say which delegation is wanted; the values are in [`ShareAccess::want`].
        WANT_DELEG_MASK = 0xff00,
        /// Tell when a delegation can be had.
        WANT_SIGNAL_DELEG = 0x1_0000,
        /// Push a delegation when nobody is in the way.
        WANT_PUSH_DELEG = 0x2_0000,
        /// RFC 9754: a delegation with the times.
        WANT_DELEG_TIMESTAMPS = 0x10_0000,
        /// RFC 9754: either an open stateid or a delegation, not both.
        WANT_OPEN_XOR_DELEGATION = 0x20_0000,
    }

    /// What an open denies others.
    pub struct ShareDeny {
        /// Reading.
        READ = 1,
        /// Writing.
        WRITE = 2,
        /// Both.
        BOTH = 3,
    }

    /// What OPEN says of its result.
    pub struct OpenResultFlags {
        /// 4.0: OPEN_CONFIRM must follow.
        CONFIRM = 0x02,
        /// Locks are POSIX ones.
        LOCKTYPE_POSIX = 0x04,
        /// 4.1: an unlinked file stays while it is open.
        PRESERVE_UNLINKED = 0x08,
        /// RFC 9754: there is no stateid of the open, only the delegation's.
        NO_OPEN_STATEID = 0x10,
        /// 4.1: CB_NOTIFY_LOCK may come.
        MAY_NOTIFY_LOCK = 0x20,
    }
}

impl ShareAccess {
    /// Which delegation is wanted; `None` for a value that does not exist.
    pub fn want(self) -> Option<WantDelegation> {
        WantDelegation::from_u32(self.bits() & Self::WANT_DELEG_MASK.bits())
    }
}

xdr_enum! {
    /// Which delegation is wanted (RFC 8881 18.16.1).
    pub enum WantDelegation {
        /// Any or none.
        NoPreference = 0x0000,
        /// For reading.
        Read = 0x0100,
        /// For writing.
        Write = 0x0200,
        /// Any.
        Any = 0x0300,
        /// None.
        NoDelegation = 0x0400,
        /// An earlier want is cancelled.
        Cancel = 0x0500,
    }

    /// `open_delegation_type4`.
    pub enum DelegationType {
        /// None.
        None = 0,
        /// For reading.
        Read = 1,
        /// For writing.
        Write = 2,
        /// 4.1: none, and why.
        NoneExt = 3,
        /// RFC 9754: for reading, with the access time.
        ReadAttrs = 4,
        /// RFC 9754: for writing, with the times.
        WriteAttrs = 5,
    }
}

xdr_struct! {
    /// Arguments of OPEN.
    pub struct OpenArgs<'a> {
        /// 4.0: the owner's seqid.
        seqid: u32,
        /// What it is for.
        access: ShareAccess,
        /// What it denies.
        deny: ShareDeny,
        /// Who opens.
        owner: StateOwner<'a>,
        /// Whether and how it creates.
        how: OpenHow<'a>,
        /// On what ground it opens, and what.
        claim: OpenClaim<'a>,
    }

    /// Result of OPEN.
    pub struct OpenOk<'a> {
        /// The open.
        stateid: Stateid,
        /// The directory's change.
        change: ChangeInfo,
        /// What is to be known.
        flags: OpenResultFlags,
        /// Which attributes were set.
        attrs_set: Bitmap,
        /// The delegation.
        delegation: OpenDelegation<'a>,
    }

    /// Arguments of OPEN_CONFIRM (4.0).
    pub struct OpenConfirmArgs {
        /// The open.
        stateid: Stateid,
        /// The owner's seqid.
        seqid: u32,
    }

    /// Arguments of OPEN_DOWNGRADE.
    pub struct OpenDowngradeArgs {
        /// The open.
        stateid: Stateid,
        /// 4.0: the owner's seqid.
        seqid: u32,
        /// What it is for from now on.
        access: ShareAccess,
        /// What it denies from now on.
        deny: ShareDeny,
    }

    /// Arguments of CLOSE.
    pub struct CloseArgs {
        /// 4.0: the owner's seqid.
        seqid: u32,
        /// The open.
        stateid: Stateid,
    }

    /// A delegation for reading.
    pub struct ReadDelegation<'a> {
        /// The delegation.
        stateid: Stateid,
        /// Whether it is recalled already.
        recall: bool,
        /// Who need not ask.
        permissions: Ace<'a>,
    }

    /// A delegation for writing.
    pub struct WriteDelegation<'a> {
        /// The delegation.
        stateid: Stateid,
        /// Whether it is recalled already.
        recall: bool,
        /// How much may be kept back at CLOSE.
        space_limit: SpaceLimit,
        /// Who need not ask.
        permissions: Ace<'a>,
    }
}

/// Whether and how OPEN creates (`openflag4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenHow<'a> {
    /// It does not.
    NoCreate,
    /// A file that is there is taken, and cut when a size of 0 is given.
    Unchecked(Fattr<'a>),
    /// A file that is there is an error.
    Guarded(Fattr<'a>),
    /// The same, unless made with this verifier.
    Exclusive(Verifier),
    /// 4.1: the same, and attributes.
    Exclusive41(Verifier, Fattr<'a>),
}

impl<'a> Xdr<'a> for OpenHow<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            0 => return Ok(Self::NoCreate),
            1 => {}
            _ => return Err(Malformed::Value("opentype4")),
        }
        Ok(match r.u32()? {
            0 => Self::Unchecked(Xdr::decode(r)?),
            1 => Self::Guarded(Xdr::decode(r)?),
            2 => Self::Exclusive(r.fixed()?),
            3 => Self::Exclusive41(r.fixed()?, Xdr::decode(r)?),
            _ => return Err(Malformed::Value("createmode4")),
        })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_bool(*self != Self::NoCreate);
        match self {
            Self::NoCreate => {}
            Self::Unchecked(attributes) => (0u32, *attributes).put(out),
            Self::Guarded(attributes) => (1u32, *attributes).put(out),
            Self::Exclusive(verifier) => (2u32, *verifier).put(out),
            Self::Exclusive41(verifier, attributes) => (3u32, (*verifier, *attributes)).put(out),
        }
    }
}

/// On what ground OPEN opens (`open_claim4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenClaim<'a> {
    /// A name in the current directory.
    Null(Component<'a>),
    /// The current file was open before the server restarted, with this delegation.
    Previous(DelegationType),
    /// A name in the current directory, under a delegation.
    DelegateCur(Stateid, Component<'a>),
    /// A name, with a delegation from before the client restarted.
    DelegatePrev(Component<'a>),
    /// 4.1: the current file.
    Fh,
    /// 4.1: the current file, under a delegation.
    DelegCurFh(Stateid),
    /// 4.1: the current file, with a delegation from before the client restarted.
    DelegPrevFh,
}

impl<'a> Xdr<'a> for OpenClaim<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match r.u32()? {
            0 => Self::Null(Xdr::decode(r)?),
            1 => Self::Previous(Xdr::decode(r)?),
            2 => Self::DelegateCur(Xdr::decode(r)?, Xdr::decode(r)?),
            3 => Self::DelegatePrev(Xdr::decode(r)?),
            4 => Self::Fh,
            5 => Self::DelegCurFh(Xdr::decode(r)?),
            6 => Self::DelegPrevFh,
            _ => return Err(Malformed::Value("open_claim_type4")),
        })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Null(name) => (0u32, *name).put(out),
            Self::Previous(delegation) => (1u32, *delegation).put(out),
            Self::DelegateCur(stateid, name) => (2u32, (*stateid, *name)).put(out),
            Self::DelegatePrev(name) => (3u32, *name).put(out),
            Self::Fh => out.put_u32(4),
            Self::DelegCurFh(stateid) => (5u32, *stateid).put(out),
            Self::DelegPrevFh => out.put_u32(6),
        }
    }
}

/// How much the holder of a write delegation may keep back (`nfs_space_limit4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceLimit {
    /// A file of at most so many bytes.
    Size(u64),
    /// At most so many modified blocks.
    Blocks {
        /// How many.
        blocks: u32,
        /// How large each is.
        block_bytes: u32,
    },
}

impl<'a> Xdr<'a> for SpaceLimit {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            1 => r.u64().map(Self::Size),
            2 => Ok(Self::Blocks { blocks: r.u32()?, block_bytes: r.u32()? }),
            _ => Err(Malformed::Value("limit_by4")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Size(bytes) => (1u32, *bytes).put(out),
            Self::Blocks { blocks, block_bytes } => (2u32, (*blocks, *block_bytes)).put(out),
        }
    }
}

/// Why there is no delegation (`open_none_delegation4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyNone {
    /// It was not wanted.
    NotWanted,
    /// Others are in the way; true: it will be pushed later.
    Contention(bool),
    /// Out of resources; true: it will be told when there are some.
    Resource(bool),
    /// Not for this kind of file.
    NotSuppFtype,
    /// Not for writing this kind of file.
    WriteDelegNotSuppFtype,
    /// It cannot be upgraded.
    NotSuppUpgrade,
    /// It cannot be downgraded.
    NotSuppDowngrade,
    /// The want was cancelled.
    Cancelled,
    /// It is a directory.
    IsDir,
}

impl<'a> Xdr<'a> for WhyNone {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match r.u32()? {
            0 => Self::NotWanted,
            1 => Self::Contention(r.bool()?),
            2 => Self::Resource(r.bool()?),
            3 => Self::NotSuppFtype,
            4 => Self::WriteDelegNotSuppFtype,
            5 => Self::NotSuppUpgrade,
            6 => Self::NotSuppDowngrade,
            7 => Self::Cancelled,
            8 => Self::IsDir,
            _ => return Err(Malformed::Value("why_no_delegation4")),
        })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        let number: u32 = match self {
            Self::NotWanted => 0,
            Self::Contention(push) => return (1u32, *push).put(out),
            Self::Resource(signal) => return (2u32, *signal).put(out),
            Self::NotSuppFtype => 3,
            Self::WriteDelegNotSuppFtype => 4,
            Self::NotSuppUpgrade => 5,
            Self::NotSuppDowngrade => 6,
            Self::Cancelled => 7,
            Self::IsDir => 8,
        };
        out.put_u32(number);
    }
}

/// The delegation an OPEN or WANT_DELEGATION brings (`open_delegation4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenDelegation<'a> {
    /// None.
    None,
    /// For reading.
    Read(ReadDelegation<'a>),
    /// For writing.
    Write(WriteDelegation<'a>),
    /// 4.1: none, and why.
    NoneExt(WhyNone),
    /// RFC 9754: for reading, with the access time.
    ReadAttrs(ReadDelegation<'a>),
    /// RFC 9754: for writing, with the times.
    WriteAttrs(WriteDelegation<'a>),
}

impl<'a> Xdr<'a> for OpenDelegation<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match DelegationType::decode(r)? {
            DelegationType::None => Self::None,
            DelegationType::Read => Self::Read(Xdr::decode(r)?),
            DelegationType::Write => Self::Write(Xdr::decode(r)?),
            DelegationType::NoneExt => Self::NoneExt(Xdr::decode(r)?),
            DelegationType::ReadAttrs => Self::ReadAttrs(Xdr::decode(r)?),
            DelegationType::WriteAttrs => Self::WriteAttrs(Xdr::decode(r)?),
        })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::None => DelegationType::None.put(out),
            Self::Read(read) => (DelegationType::Read, *read).put(out),
            Self::Write(write) => (DelegationType::Write, *write).put(out),
            Self::NoneExt(why) => (DelegationType::NoneExt, *why).put(out),
            Self::ReadAttrs(read) => (DelegationType::ReadAttrs, *read).put(out),
            Self::WriteAttrs(write) => (DelegationType::WriteAttrs, *write).put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Attr;
    use super::super::attr::{AceFlags, AceMask, AceType};
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::Bounded;

    const STATEID: Stateid = Stateid { seqid: 1, other: *b"0123456789ab" };
    const STATEID_TEXT: &str = "00000001 30313233 34353637 38396162";

    fn attributes() -> (Fattr<'static>, &'static str) {
        let mask = Bitmap::of(&[Attr::Mode]);
        (Fattr { mask, values: &[0, 0, 1, 0xa4] }, "00000002 00000000 00000002 00000004 000001a4")
    }

    #[test]
    fn open_arguments_by_hand() {
        let (attributes, attr_text) = attributes();
        let hows = [
            (OpenHow::NoCreate, "00000000".to_owned()),
            (OpenHow::Unchecked(attributes), format!("00000001 00000000 {attr_text}")),
            (OpenHow::Guarded(attributes), format!("00000001 00000001 {attr_text}")),
            (OpenHow::Exclusive(*b"verifier"), "00000001 00000002 76657269 66696572".to_owned()),
            (
                OpenHow::Exclusive41(*b"verifier", attributes),
                format!("00000001 00000003 76657269 66696572 {attr_text}"),
            ),
        ];
        let claims = [
            (OpenClaim::Null(b"a"), "00000000 00000001 61000000".to_owned()),
            (OpenClaim::Previous(DelegationType::Write), "00000001 00000002".to_owned()),
            (OpenClaim::DelegateCur(STATEID, b"a"), format!("00000002 {STATEID_TEXT} 00000001 61000000")),
            (OpenClaim::DelegatePrev(b"a"), "00000003 00000001 61000000".to_owned()),
            (OpenClaim::Fh, "00000004".to_owned()),
            (OpenClaim::DelegCurFh(STATEID), format!("00000005 {STATEID_TEXT}")),
            (OpenClaim::DelegPrevFh, "00000006".to_owned()),
        ];
        for (how, how_text) in &hows {
            for (claim, claim_text) in &claims {
                let args = OpenArgs {
                    seqid: 9,
                    access: ShareAccess::BOTH,
                    deny: ShareDeny::WRITE,
                    owner: StateOwner { client_id: 5, owner: Bounded(b"own") },
                    how: *how,
                    claim: *claim,
                };
                let head = "00000009 00000003 00000002 00000000 00000005 00000003 6f776e00";
                is_on_the_wire(&args, &unhex(&format!("{head} {how_text} {claim_text}")));
            }
        }
    }

    #[test]
    fn delegations_by_hand() {
        let permissions = Ace { ace_type: AceType::Allow, flags: AceFlags::empty(), mask: AceMask::empty(), who: b"" };
        let ace = "00000000 00000000 00000000 00000000";
        let read = ReadDelegation { stateid: STATEID, recall: false, permissions };
        let write = |space_limit| WriteDelegation { stateid: STATEID, recall: true, space_limit, permissions };
        let (size, blocks) = (SpaceLimit::Size(5), SpaceLimit::Blocks { blocks: 2, block_bytes: 3 });
        for (delegation, text) in [
            (OpenDelegation::None, "00000000".to_owned()),
            (OpenDelegation::Read(read), format!("00000001 {STATEID_TEXT} 00000000 {ace}")),
            (OpenDelegation::ReadAttrs(read), format!("00000004 {STATEID_TEXT} 00000000 {ace}")),
            (
                OpenDelegation::Write(write(size)),
                format!("00000002 {STATEID_TEXT} 00000001 00000001 00000000 00000005 {ace}"),
            ),
            (
                OpenDelegation::WriteAttrs(write(blocks)),
                format!("00000005 {STATEID_TEXT} 00000001 00000002 00000002 00000003 {ace}"),
            ),
            (OpenDelegation::NoneExt(WhyNone::Contention(true)), "00000003 00000001 00000001".to_owned()),
            (OpenDelegation::NoneExt(WhyNone::Resource(false)), "00000003 00000002 00000000".to_owned()),
            (OpenDelegation::NoneExt(WhyNone::NotWanted), "00000003 00000000".to_owned()),
            (OpenDelegation::NoneExt(WhyNone::IsDir), "00000003 00000008".to_owned()),
        ] {
            is_on_the_wire(&delegation, &unhex(&text));
            let ok: OpenRes<'_> = Ok(OpenOk {
                stateid: STATEID,
                change: ChangeInfo { atomic: false, before: 1, after: 1 },
                flags: OpenResultFlags::CONFIRM | OpenResultFlags::LOCKTYPE_POSIX,
                attrs_set: Bitmap::EMPTY,
                delegation,
            });
            let head = "00000000 00000000 00000001 00000000 00000001 00000006 00000000";
            is_on_the_wire(&ok, &unhex(&format!("00000000 {STATEID_TEXT} {head} {text}")));
        }
    }

    #[test]
    fn the_small_ones_by_hand() {
        is_on_the_wire(&OpenConfirmArgs { stateid: STATEID, seqid: 2 }, &unhex(&format!("{STATEID_TEXT} 00000002")));
        is_on_the_wire(&CloseArgs { seqid: 2, stateid: STATEID }, &unhex(&format!("00000002 {STATEID_TEXT}")));
        let down =
            OpenDowngradeArgs { stateid: STATEID, seqid: 2, access: ShareAccess::READ, deny: ShareDeny::empty() };
        is_on_the_wire(&down, &unhex(&format!("{STATEID_TEXT} 00000002 00000001 00000000")));
    }

    #[test]
    fn what_delegation_is_wanted() {
        let access = ShareAccess::from_bits_retain(0x0201);
        assert_eq!(access.want(), Some(WantDelegation::Write));
        assert_eq!(ShareAccess::from_bits_retain(0x0601).want(), None);
        assert_eq!(ShareAccess::READ.want(), Some(WantDelegation::NoPreference));
    }
}
