//! The lock manager, NLM (X/Open C702 chapter 10; version 4 in RFC 1813 appendix II): byte-range locks beside NFSv3.
//! Versions 1 and 3 differ from 4 in the width of offsets and lengths and in fewer statuses; one set of types serves
//! all of them, and the [`Version`] is given when they are decoded or put.

use crate::xdr::{Bounded, Malformed, Put, Reader, Xdr};

/// The longest cookie, owner, handle or name (`LM_MAXSTRLEN`, `MAXNETOBJ_SZ`).
pub const MAX_OBJECT_BYTES: usize = 1024;

/// Opaque data of the lock manager.
pub type NetObj<'a> = Bounded<'a, MAX_OBJECT_BYTES>;

/// How wide offsets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Versions 1 to 3: 32 bits.
    V3,
    /// Version 4: 64 bits.
    V4,
}

impl Version {
    /// From the number in the call; version 2 never existed on a wire but is version 1 in all that matters.
    pub const fn from_u32(version: u32) -> Option<Self> {
        match version {
            1..=3 => Some(Self::V3),
            4 => Some(Self::V4),
            _ => None,
        }
    }
}

xdr_enum! {
    /// Procedures. The `Msg` ones take the arguments of the plain one and have no reply; the answer is a call of the
    /// matching `Res` one to the sender.
    pub enum NlmProc {
        /// Nothing.
        Null = 0,
        /// [`TestArgs`] to [`TestRes`].
        Test = 1,
        /// [`LockArgs`] to [`Res`].
        Lock = 2,
        /// [`CancelArgs`] to [`Res`].
        Cancel = 3,
        /// [`UnlockArgs`] to [`Res`].
        Unlock = 4,
        /// Server to client: [`TestArgs`] to [`Res`]. A lock that was waited for is granted.
        Granted = 5,
        /// [`TestArgs`].
        TestMsg = 6,
        /// [`LockArgs`].
        LockMsg = 7,
        /// [`CancelArgs`].
        CancelMsg = 8,
        /// [`UnlockArgs`].
        UnlockMsg = 9,
        /// [`TestArgs`].
        GrantedMsg = 10,
        /// [`TestRes`].
        TestRes = 11,
        /// [`Res`].
        LockRes = 12,
        /// [`Res`].
        CancelRes = 13,
        /// [`Res`].
        UnlockRes = 14,
        /// [`Res`].
        GrantedRes = 15,
        /// Linux: the local status monitor tells of a restart ([`crate::nsm::Status`]).
        SmNotify = 16,
        /// [`ShareArgs`] to [`ShareRes`].
        Share = 20,
        /// [`ShareArgs`] to [`ShareRes`].
        Unshare = 21,
        /// [`LockArgs`] to [`Res`], without monitoring.
        NmLock = 22,
        /// [`Notify`]: drop all locks of a client.
        FreeAll = 23,
    }

    /// What a request of the lock manager ends in; those above 4 exist in version 4 only.
    pub enum NlmStat {
        /// Granted.
        Granted = 0,
        /// Denied.
        Denied = 1,
        /// The server has no room for it.
        DeniedNoLocks = 2,
        /// The client will be called back.
        Blocked = 3,
        /// The server has restarted and takes reclaims only.
        DeniedGracePeriod = 4,
        /// Waiting would never end.
        Deadlock = 5,
        /// The file system is read-only.
        Rofs = 6,
        /// The handle is stale.
        StaleFh = 7,
        /// An offset or length is too large.
        Fbig = 8,
        /// Some failure.
        Failed = 9,
    }

    /// What a share denies others.
    pub enum ShareMode {
        /// Nothing.
        DenyNone = 0,
        /// Reading.
        DenyRead = 1,
        /// Writing.
        DenyWrite = 2,
        /// Both.
        DenyBoth = 3,
    }

    /// What a share is for.
    pub enum ShareAccess {
        /// Nothing.
        None = 0,
        /// Reading.
        Read = 1,
        /// Writing.
        Write = 2,
        /// Both.
        Both = 3,
    }
}

/// An item whose form depends on the version.
pub trait Versioned<'a>: Sized {
    /// Takes the item from the front of what is left.
    fn decode_as(version: Version, r: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Appends the item. In version 3, numbers that have no 32 bits are cut to the largest that have.
    fn put_as(&self, version: Version, out: &mut (impl Put + ?Sized));
}

impl<'a, T: Xdr<'a>> Versioned<'a> for T {
    fn decode_as(_: Version, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        T::decode(r)
    }

    fn put_as(&self, _: Version, out: &mut (impl Put + ?Sized)) {
        self.put(out);
    }
}

macro_rules! versioned {
    ($($(#[$meta:meta])* pub struct $name:ident<'a> { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name<'a> {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl<'a> Versioned<'a> for $name<'a> {
            fn decode_as(version: Version, r: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(Self { $($field: Versioned::decode_as(version, r)?),* })
            }

            fn put_as(&self, version: Version, out: &mut (impl Put + ?Sized)) {
                $(self.$field.put_as(version, out);)*
            }
        }
    )*};
}

/// A range of bytes; a length of 0 reaches to the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub offset_bytes: u64,
    /// How many, 0 for all.
    pub len_bytes: u64,
}

impl<'a> Versioned<'a> for Range {
    fn decode_as(version: Version, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match version {
            Version::V4 => Self { offset_bytes: r.u64()?, len_bytes: r.u64()? },
            Version::V3 => Self { offset_bytes: r.u32()?.into(), len_bytes: r.u32()?.into() },
        })
    }

    fn put_as(&self, version: Version, out: &mut (impl Put + ?Sized)) {
        for value in [self.offset_bytes, self.len_bytes] {
            match version {
                Version::V4 => out.put_u64(value),
                Version::V3 => out.put_u32(value.try_into().unwrap_or(u32::MAX)),
            }
        }
    }
}

versioned! {
    /// A lock.
    pub struct Lock<'a> {
        /// The client's name.
        caller_name: NetObj<'a>,
        /// The file.
        handle: NetObj<'a>,
        /// Who on the client.
        owner: NetObj<'a>,
        /// The process on the client, part of the owner.
        svid: i32,
        /// Which bytes.
        range: Range,
    }

    /// Who has a lock in the way.
    pub struct Holder<'a> {
        /// Whether it excludes everybody.
        exclusive: bool,
        /// The process.
        svid: i32,
        /// Who.
        owner: NetObj<'a>,
        /// Which bytes.
        range: Range,
    }

    /// Arguments of TEST and of GRANTED.
    pub struct TestArgs<'a> {
        /// Repeated in the answer.
        cookie: NetObj<'a>,
        /// Whether it excludes everybody.
        exclusive: bool,
        /// The lock.
        lock: Lock<'a>,
    }

    /// Arguments of LOCK and NM_LOCK.
    pub struct LockArgs<'a> {
        /// Repeated in the answer.
        cookie: NetObj<'a>,
        /// Whether the client waits.
        block: bool,
        /// Whether it excludes everybody.
        exclusive: bool,
        /// The lock.
        lock: Lock<'a>,
        /// Whether it was held before the server restarted.
        reclaim: bool,
        /// The client's state number.
        state: i32,
    }

    /// Arguments of CANCEL.
    pub struct CancelArgs<'a> {
        /// Repeated in the answer.
        cookie: NetObj<'a>,
        /// As in the LOCK that is cancelled.
        block: bool,
        /// As in the LOCK that is cancelled.
        exclusive: bool,
        /// As in the LOCK that is cancelled.
        lock: Lock<'a>,
    }

    /// Arguments of UNLOCK.
    pub struct UnlockArgs<'a> {
        /// Repeated in the answer.
        cookie: NetObj<'a>,
        /// The lock.
        lock: Lock<'a>,
    }

    /// Result of TEST.
    pub struct TestRes<'a> {
        /// The call's.
        cookie: NetObj<'a>,
        /// Whether it would be granted.
        reply: TestReply<'a>,
    }
}

/// Whether a lock would be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestReply<'a> {
    /// Denied: this is in the way.
    Denied(Holder<'a>),
    /// Any other status.
    Status(NlmStat),
}

impl<'a> Versioned<'a> for TestReply<'a> {
    fn decode_as(version: Version, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match NlmStat::decode(r)? {
            NlmStat::Denied => Self::Denied(Holder::decode_as(version, r)?),
            other => Self::Status(other),
        })
    }

    fn put_as(&self, version: Version, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Denied(holder) => {
                NlmStat::Denied.put(out);
                holder.put_as(version, out);
            }
            // Without a holder to name, a denial has to be of another kind.
            Self::Status(NlmStat::Denied) => NlmStat::DeniedNoLocks.put(out),
            Self::Status(stat) => stat.put(out),
        }
    }
}

xdr_struct! {
    /// Result of everything else.
    pub struct Res<'a> {
        /// The call's.
        cookie: NetObj<'a>,
        /// The result.
        stat: NlmStat,
    }

    /// A share of a DOS client.
    pub struct Share<'a> {
        /// The client's name.
        caller_name: NetObj<'a>,
        /// The file.
        handle: NetObj<'a>,
        /// Who on the client.
        owner: NetObj<'a>,
        /// What it denies others.
        mode: ShareMode,
        /// What it is for.
        access: ShareAccess,
    }

    /// Arguments of SHARE and UNSHARE.
    pub struct ShareArgs<'a> {
        /// Repeated in the answer.
        cookie: NetObj<'a>,
        /// The share.
        share: Share<'a>,
        /// Whether it was held before the server restarted.
        reclaim: bool,
    }

    /// Result of SHARE and UNSHARE.
    pub struct ShareRes<'a> {
        /// The call's.
        cookie: NetObj<'a>,
        /// The result.
        stat: NlmStat,
        /// Of no use any more.
        sequence: i32,
    }

    /// Argument of FREE_ALL.
    pub struct Notify<'a> {
        /// The client.
        name: NetObj<'a>,
        /// Its state number.
        state: i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, is_on_the_wire, unhex};

    #[track_caller]
    fn travels<'a, T: Versioned<'a> + PartialEq + std::fmt::Debug>(version: Version, item: &T, bytes: &'a [u8]) {
        let mut out = Vec::new();
        item.put_as(version, &mut out);
        assert_eq!(hex(&out), hex(bytes));
        let mut r = Reader::new(bytes);
        assert_eq!(T::decode_as(version, &mut r).as_ref(), Ok(item));
        assert_eq!(r.remaining(), 0);
        for end in 0..bytes.len() {
            assert!(T::decode_as(version, &mut Reader::new(&bytes[..end])).is_err(), "cut at {end}");
        }
    }

    fn lock(range: Range) -> Lock<'static> {
        Lock { caller_name: Bounded(b"c"), handle: Bounded(b"hndl"), owner: Bounded(b"1@c"), svid: -1, range }
    }

    #[test]
    fn lock_arguments_by_hand_in_both_widths() {
        let args = LockArgs {
            cookie: Bounded(&[0, 0, 0, 9]),
            block: true,
            exclusive: false,
            lock: lock(Range { offset_bytes: 16, len_bytes: 32 }),
            reclaim: false,
            state: 3,
        };
        let head = "00000004 00000009 00000001 00000000 00000001 63000000 00000004 686e646c 00000003 31406300 ffffffff";
        let v4 = unhex(&format!("{head} 00000000 00000010 00000000 00000020 00000000 00000003"));
        let v3 = unhex(&format!("{head} 00000010 00000020 00000000 00000003"));
        travels(Version::V4, &args, &v4);
        travels(Version::V3, &args, &v3);
    }

    #[test]
    fn the_other_arguments_and_results() {
        let range = Range { offset_bytes: 1, len_bytes: 0 };
        let (cookie, lock) = (Bounded(b"k".as_slice()), lock(range));
        let mut out = Vec::new();
        TestArgs { cookie, exclusive: true, lock }.put_as(Version::V4, &mut out);
        travels(Version::V4, &TestArgs { cookie, exclusive: true, lock }, &out);
        out.clear();
        CancelArgs { cookie, block: true, exclusive: true, lock }.put_as(Version::V3, &mut out);
        travels(Version::V3, &CancelArgs { cookie, block: true, exclusive: true, lock }, &out);
        out.clear();
        UnlockArgs { cookie, lock }.put_as(Version::V4, &mut out);
        travels(Version::V4, &UnlockArgs { cookie, lock }, &out);

        let holder = Holder { exclusive: true, svid: 2, owner: Bounded(b"o"), range };
        let bytes =
            unhex("00000001 6b000000 00000001 00000001 00000002 00000001 6f000000 00000000 00000001 00000000 00000000");
        travels(Version::V4, &TestRes { cookie, reply: TestReply::Denied(holder) }, &bytes);
        let granted = TestRes { cookie, reply: TestReply::Status(NlmStat::Granted) };
        travels(Version::V4, &granted, &unhex("00000001 6b000000 00000000"));
        is_on_the_wire(&Res { cookie, stat: NlmStat::Blocked }, &unhex("00000001 6b000000 00000003"));
    }

    #[test]
    fn shares_by_hand() {
        let (cookie, stat) = (Bounded(b"k".as_slice()), NlmStat::Granted);
        is_on_the_wire(&ShareRes { cookie, stat, sequence: 0 }, &unhex("00000001 6b000000 00000000 00000000"));
        let share = Share {
            caller_name: Bounded(b"c"),
            handle: Bounded(b"h"),
            owner: Bounded(b"o"),
            mode: ShareMode::DenyWrite,
            access: ShareAccess::Both,
        };
        let bytes =
            unhex("00000001 6b000000 00000001 63000000 00000001 68000000 00000001 6f000000 00000002 00000003 00000001");
        is_on_the_wire(&ShareArgs { cookie, share, reclaim: true }, &bytes);
        is_on_the_wire(&Notify { name: Bounded(b"c"), state: 4 }, &unhex("00000001 63000000 00000004"));
    }

    #[test]
    fn what_does_not_fit_version_3_is_cut_to_its_largest() {
        let mut out = Vec::new();
        Range { offset_bytes: 1 << 40, len_bytes: 1 }.put_as(Version::V3, &mut out);
        assert_eq!(hex(&out), "ffffffff 00000001");
    }

    #[test]
    fn an_owner_is_bounded() {
        let mut bytes = unhex("00000401");
        bytes.resize(4 + 1028, 0);
        assert_eq!(NetObj::decode(&mut Reader::new(&bytes)), Err(Malformed::TooLong));
    }
}
