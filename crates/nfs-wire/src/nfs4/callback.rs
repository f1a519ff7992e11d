//! Callbacks (RFC 7530 16 and 17, RFC 8881 20, RFC 7862 16): the server calls the client's callback program. On a 4.1
//! session they go out on a connection the client made. CB_COMPOUND's reply has the form of COMPOUND's.

use super::attr::Bitmap;
use super::basic::{FileHandle, SessionId, StateOwner, Stateid};
use super::file::{GetattrRes, StatusRes};
use super::status::NfsStat4;
use super::v42::WriteResponse;
use crate::xdr::{List, Malformed, Put, Reader, Xdr};

/// The version of the callback program: 1 for a 4.0 client that follows RFC 7530; 4.1 uses the same.
pub const CALLBACK_VERSION: u32 = 1;

/// What CB_SEQUENCE answers.
pub type CbSequenceRes = Result<CbSequenceOk, NfsStat4>;

xdr_struct! {
    /// Arguments of CB_GETATTR.
    pub struct CbGetattrArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// Which attributes.
        request: Bitmap,
    }

    /// Arguments of CB_RECALL.
    pub struct CbRecallArgs<'a> {
        /// The delegation.
        stateid: Stateid,
        /// Whether the file is about to be cut to nothing, so that changes need not be written back.
        truncate: bool,
        /// The file.
        handle: FileHandle<'a>,
    }

    /// Arguments of CB_RECALL_ANY.
    pub struct CbRecallAnyArgs {
        /// How many may be kept.
        objects_to_keep: u32,
        /// Of which types: 0 read delegations, 1 write delegations, 2 directory delegations.
        type_mask: Bitmap,
    }

    /// A request of the client that a callback is about (`referring_call4`).
    pub struct ReferringCall {
        /// Its sequence id.
        sequence_id: u32,
        /// Its slot.
        slot_id: u32,
    }

    /// Such requests of one session.
    pub struct ReferringCalls<'a> {
        /// The session.
        session_id: SessionId,
        /// The requests.
        calls: List<'a, ReferringCall>,
    }

    /// Arguments of CB_SEQUENCE.
    pub struct CbSequenceArgs<'a> {
        /// The session.
        session_id: SessionId,
        /// One more than the slot's last.
        sequence_id: u32,
        /// The slot of the backchannel.
        slot_id: u32,
        /// The highest slot in use.
        highest_slot_id: u32,
        /// Whether the reply must be cached.
        cache_this: bool,
        /// What must be answered before.
        referring_calls: List<'a, ReferringCalls<'a>>,
    }

    /// Result of CB_SEQUENCE.
    pub struct CbSequenceOk {
        /// The session.
        session_id: SessionId,
        /// The call's.
        sequence_id: u32,
        /// The call's.
        slot_id: u32,
        /// The highest slot the client will take.
        highest_slot_id: u32,
        /// The highest slot the client would like to be used.
        target_highest_slot_id: u32,
    }

    /// Arguments of CB_NOTIFY_LOCK.
    pub struct CbNotifyLockArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// Who may try again.
        owner: StateOwner<'a>,
    }

    /// Arguments of CB_WANTS_CANCELLED.
    pub struct CbWantsCancelledArgs {
        /// Those that wait for others.
        contended: bool,
        /// Those that wait for resources.
        resourced: bool,
    }

    /// Arguments of CB_OFFLOAD.
    pub struct CbOffloadArgs<'a> {
        /// The target.
        handle: FileHandle<'a>,
        /// The copy.
        stateid: Stateid,
        /// How it ended.
        info: OffloadInfo,
    }
}

/// How a copy ended (`offload_info4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadInfo {
    /// All is written.
    Done(WriteResponse),
    /// It failed.
    Failed {
        /// Why; never OK.
        status: NfsStat4,
        /// How much was copied.
        copied_bytes: u64,
    },
}

impl<'a> Xdr<'a> for OffloadInfo {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match NfsStat4::decode(r)? {
            NfsStat4::OK => Xdr::decode(r).map(Self::Done),
            status => Ok(Self::Failed { status, copied_bytes: r.u64()? }),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Done(response) => (NfsStat4::OK, *response).put(out),
            Self::Failed { status, copied_bytes } => {
                let status = if *status == NfsStat4::OK { NfsStat4::SERVERFAULT } else { *status };
                (status, *copied_bytes).put(out);
            }
        }
    }
}

macro_rules! callbacks {
    ($($name:ident = $number:literal ($args:ty) -> $result:ty, $doc:literal;)*) => {
        xdr_enum! {
            /// A callback operation's number.
            pub enum CbOpNum {
                $(#[doc = $doc] $name = $number,)*
                /// The result of an operation that does not exist or is not known here.
                Illegal = 10044,
            }
        }

        /// A callback operation with its arguments.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CbOp<'a> {
            $(#[doc = $doc] $name($args),)*
            /// One that is not known here; nothing behind it can be decoded.
            Unknown(u32),
        }

        impl<'a> Xdr<'a> for CbOp<'a> {
            fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(match r.u32()? {
                    $($number => Self::$name(Xdr::decode(r)?),)*
                    unknown => Self::Unknown(unknown),
                })
            }

            fn put(&self, out: &mut (impl Put + ?Sized)) {
                match self {
                    $(Self::$name(args) => {
                        out.put_u32($number);
                        args.put(out);
                    })*
                    Self::Unknown(number) => out.put_u32(*number),
                }
            }
        }

        /// A callback operation's result.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum CbResult<'a> {
            $(#[doc = $doc] $name($result),)*
            /// The operation is not known to the client.
            Illegal(NfsStat4),
        }

        impl<'a> Xdr<'a> for CbResult<'a> {
            fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
                Ok(match CbOpNum::decode(r)? {
                    $(CbOpNum::$name => Self::$name(Xdr::decode(r)?),)*
                    CbOpNum::Illegal => Self::Illegal(Xdr::decode(r)?),
                })
            }

            fn put(&self, out: &mut (impl Put + ?Sized)) {
                match self {
                    $(Self::$name(result) => {
                        out.put_u32($number);
                        result.put(out);
                    })*
                    Self::Illegal(status) => (CbOpNum::Illegal, *status).put(out),
                }
            }
        }
    };
}

callbacks! {
    Getattr = 3 (CbGetattrArgs<'a>) -> GetattrRes<'a>, "Attributes as the holder of a write delegation has them.";
    Recall = 4 (CbRecallArgs<'a>) -> StatusRes, "A delegation is to be returned.";
    RecallAny = 8 (CbRecallAnyArgs) -> StatusRes, "Some delegations are to be returned.";
    RecallableObjAvail = 9 (CbRecallAnyArgs) -> StatusRes, "What was wanted can be had.";
    RecallSlot = 10 (u32) -> StatusRes, "The highest slot is to become this.";
    Sequence = 11 (CbSequenceArgs<'a>) -> CbSequenceRes, "The slot of a callback.";
    WantsCancelled = 12 (CbWantsCancelledArgs) -> StatusRes, "Wants are forgotten.";
    NotifyLock = 13 (CbNotifyLockArgs<'a>) -> StatusRes, "A lock that was denied may be had now.";
    Offload = 15 (CbOffloadArgs<'a>) -> StatusRes, "A copy has ended.";
}

/// The arguments of CB_COMPOUND, being walked through.
#[derive(Debug, Clone)]
pub struct CbCompound<'a> {
    /// Repeated in the reply.
    pub tag: &'a [u8],
    /// The minor version.
    pub minor_version: u32,
    /// What SETCLIENTID gave (4.0).
    pub ident: u32,
    left: u32,
    r: Reader<'a>,
}

impl<'a> CbCompound<'a> {
    /// Decodes the head.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Self { tag: Xdr::decode(r)?, minor_version: r.u32()?, ident: r.u32()?, left: r.u32()?, r: *r })
    }

    /// The next operation. After an error or one that is not known there is no further one.
    pub fn next_op(&mut self) -> Option<Result<CbOp<'a>, Malformed>> {
        self.left = self.left.checked_sub(1)?;
        let op = CbOp::decode(&mut self.r);
        if matches!(op, Err(_) | Ok(CbOp::Unknown(_))) {
            self.left = 0;
        }
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::super::compound::{CompoundCall, CompoundReply, CompoundResults};
    use super::super::{Attr, Fattr, StableHow};
    use super::*;
    use crate::testing::{hex, is_on_the_wire, survives, unhex};
    use crate::xdr::Bounded;

    const STATEID: Stateid = Stateid { seqid: 1, other: [2; 12] };
    const ID: &str = "00000001 02020202 02020202 02020202";
    const SESSION: &str = "07070707 07070707 07070707 07070707";

    #[test]
    fn a_recall_by_hand() {
        let calls = [ReferringCall { sequence_id: 8, slot_id: 9 }];
        let referring = [ReferringCalls { session_id: [7; 16], calls: List::new(&calls) }];
        let sequence = CbOp::Sequence(CbSequenceArgs {
            session_id: [7; 16],
            sequence_id: 1,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this: false,
            referring_calls: List::new(&referring),
        });
        let recall = CbOp::Recall(CbRecallArgs { stateid: STATEID, truncate: false, handle: Bounded(b"fh") });
        let mut out = Vec::new();
        let mut call = CompoundCall::begin_callback(b"", 1, 5, &mut out);
        call.op(&sequence, &mut out);
        call.op(&recall, &mut out);
        call.end(&mut out);
        let text = format!(
            "00000000 00000001 00000005 00000002 0000000b {SESSION} 00000001 00000000 00000000 00000000 00000001 \
             {SESSION} 00000001 00000008 00000009 00000004 {ID} 00000000 00000002 66680000"
        );
        assert_eq!(hex(&out), text);
        let mut compound = CbCompound::decode(&mut Reader::new(&out)).unwrap();
        assert_eq!((compound.minor_version, compound.ident), (1, 5));
        assert_eq!(compound.next_op(), Some(Ok(sequence)));
        assert_eq!(compound.next_op(), Some(Ok(recall)));
        assert_eq!(compound.next_op(), None);
        for end in 16..out.len() {
            let mut compound = CbCompound::decode(&mut Reader::new(&out[..end])).unwrap();
            assert!(std::iter::from_fn(|| compound.next_op()).any(|op| op.is_err()), "cut at {end}");
        }
    }

    #[test]
    fn an_answer_is_walked_like_any_other() {
        let ok = CbSequenceOk {
            session_id: [7; 16],
            sequence_id: 1,
            slot_id: 0,
            highest_slot_id: 0,
            target_highest_slot_id: 0,
        };
        let mut out = Vec::new();
        let mut reply = CompoundReply::begin(b"", &mut out);
        reply.begin_result(CbOpNum::Sequence as u32, &mut out);
        CbSequenceRes::Ok(ok).put(&mut out);
        reply.begin_result(CbOpNum::Recall as u32, &mut out);
        StatusRes::Err(NfsStat4::BADHANDLE).put(&mut out);
        reply.end(NfsStat4::BADHANDLE, &mut out);
        let mut results = CompoundResults::decode(&mut Reader::new(&out)).unwrap();
        assert_eq!(results.next_as(), Some(Ok(CbResult::Sequence(Ok(ok)))));
        assert_eq!(results.next_as(), Some(Ok(CbResult::Recall(Err(NfsStat4::BADHANDLE)))));
        assert_eq!(results.next_as::<CbResult<'_>>(), None);
    }

    #[test]
    fn the_others_by_hand() {
        let request = Bitmap::of(&[Attr::Change, Attr::Size]);
        is_on_the_wire(
            &CbOp::Getattr(CbGetattrArgs { handle: Bounded(b"fh"), request }),
            &unhex("00000003 00000002 66680000 00000001 00000018"),
        );
        let owner = StateOwner { client_id: 5, owner: Bounded(b"own") };
        is_on_the_wire(
            &CbOp::NotifyLock(CbNotifyLockArgs { handle: Bounded(b"fh"), owner }),
            &unhex("0000000d 00000002 66680000 00000000 00000005 00000003 6f776e00"),
        );
        is_on_the_wire(
            &CbOp::RecallAny(CbRecallAnyArgs { objects_to_keep: 3, type_mask: Bitmap::EMPTY.with(0).with(1) }),
            &unhex("00000008 00000003 00000001 00000003"),
        );
        is_on_the_wire(&CbOp::RecallSlot(7), &unhex("0000000a 00000007"));
        is_on_the_wire(&CbOp::Unknown(6), &unhex("00000006"));
        let response =
            WriteResponse { callback_id: None, count_bytes: 1, committed: StableHow::FileSync, verifier: *b"verifier" };
        let failed = OffloadInfo::Failed { status: NfsStat4::NOSPC, copied_bytes: 9 };
        for info in [OffloadInfo::Done(response), failed] {
            let args = CbOffloadArgs { handle: Bounded(b"fh"), stateid: STATEID, info };
            survives!(CbOp::Offload(args), CbOp<'_>);
        }
        survives!(CbResult::Getattr(Ok(Fattr { mask: request, values: b"0123456789abcdef" })), CbResult<'_>);
        survives!(CbResult::Illegal(NfsStat4::OP_ILLEGAL), CbResult<'_>);
    }
}
