//! LOCK, LOCKT, LOCKU and RELEASE_LOCKOWNER (RFC 7530 16.10 to 16.12 and 16.37, RFC 8881 18.10 to 18.12).

use super::{NfsStat4, StateOwner, Stateid};
use crate::xdr::{Malformed, Put, Reader, Xdr};

/// What LOCK answers.
pub type LockRes<'a> = Result<Stateid, LockError<'a>>;

/// What LOCKT answers.
pub type LocktRes<'a> = Result<(), LockError<'a>>;

xdr_enum! {
    /// `nfs_lock_type4`.
    pub enum LockType {
        /// Shared.
        Read = 1,
        /// Exclusive.
        Write = 2,
        /// Shared, and the client would wait.
        ReadWait = 3,
        /// Exclusive, and the client would wait.
        WriteWait = 4,
    }
}

impl LockType {
    /// Whether it excludes everybody.
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Write | Self::WriteWait)
    }
}

xdr_struct! {
    /// Arguments of LOCK.
    pub struct LockArgs<'a> {
        /// Which kind.
        lock_type: LockType,
        /// Whether it was held before the server restarted.
        reclaim: bool,
        /// The first byte.
        offset_bytes: u64,
        /// How many; all ones reach to the end of any file.
        len_bytes: u64,
        /// Who locks.
        locker: Locker<'a>,
    }

    /// A lock owner's first lock on a file that it has open.
    pub struct OpenToLockOwner<'a> {
        /// 4.0: the open owner's seqid.
        open_seqid: u32,
        /// The open.
        open_stateid: Stateid,
        /// 4.0: the lock owner's seqid.
        lock_seqid: u32,
        /// The lock owner.
        owner: StateOwner<'a>,
    }

    /// A lock owner's further lock on a file.
    pub struct ExistLockOwner {
        /// Its locks on the file.
        lock_stateid: Stateid,
        /// 4.0: its seqid.
        lock_seqid: u32,
    }

    /// The lock in the way.
    pub struct LockDenied<'a> {
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// Which kind.
        lock_type: LockType,
        /// Whose.
        owner: StateOwner<'a>,
    }

    /// Arguments of LOCKT.
    pub struct LocktArgs<'a> {
        /// Which kind.
        lock_type: LockType,
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
        /// Who asks.
        owner: StateOwner<'a>,
    }

    /// Arguments of LOCKU.
    pub struct LockuArgs {
        /// Which kind; of no meaning.
        lock_type: LockType,
        /// 4.0: the lock owner's seqid.
        seqid: u32,
        /// The owner's locks on the file.
        stateid: Stateid,
        /// The first byte.
        offset_bytes: u64,
        /// How many.
        len_bytes: u64,
    }
}

/// Who locks (`locker4`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locker<'a> {
    /// Its first lock on the file.
    New(OpenToLockOwner<'a>),
    /// It has, or had, locks on the file.
    Existing(ExistLockOwner),
}

impl<'a> Xdr<'a> for Locker<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        if r.bool()? { Xdr::decode(r).map(Self::New) } else { Xdr::decode(r).map(Self::Existing) }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::New(owner) => (true, *owner).put(out),
            Self::Existing(owner) => (false, *owner).put(out),
        }
    }
}

/// Why there is no lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockError<'a> {
    /// DENIED: this is in the way.
    Denied(LockDenied<'a>),
    /// Anything else.
    Status(NfsStat4),
}

impl LockError<'_> {
    /// The status it travels under.
    pub fn status(&self) -> NfsStat4 {
        match self {
            Self::Denied(_) => NfsStat4::DENIED,
            Self::Status(status) => *status,
        }
    }
}

impl<'a, T: Xdr<'a>> Xdr<'a> for Result<T, LockError<'a>> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match NfsStat4::decode(r)? {
            NfsStat4::OK => T::decode(r).map(Ok),
            NfsStat4::DENIED => Ok(Err(LockError::Denied(Xdr::decode(r)?))),
            status => Ok(Err(LockError::Status(status))),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Ok(item) => {
                NfsStat4::OK.put(out);
                item.put(out);
            }
            Err(LockError::Denied(denied)) => (NfsStat4::DENIED, *denied).put(out),
            // Both would make the peer read what is not there.
            Err(LockError::Status(NfsStat4::OK | NfsStat4::DENIED)) => NfsStat4::SERVERFAULT.put(out),
            Err(LockError::Status(status)) => status.put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::{Bounded, to_vec};

    const STATEID: Stateid = Stateid { seqid: 1, other: *b"0123456789ab" };
    const STATEID_TEXT: &str = "00000001 30313233 34353637 38396162";
    const OWNER: StateOwner<'_> = StateOwner { client_id: 5, owner: Bounded(b"own") };
    const OWNER_TEXT: &str = "00000000 00000005 00000003 6f776e00";
    const RANGE: &str = "00000000 00000001 ffffffff ffffffff";

    #[test]
    fn arguments_by_hand() {
        let args = |locker| LockArgs {
            lock_type: LockType::WriteWait,
            reclaim: false,
            offset_bytes: 1,
            len_bytes: u64::MAX,
            locker,
        };
        let new = OpenToLockOwner { open_seqid: 2, open_stateid: STATEID, lock_seqid: 3, owner: OWNER };
        let text = format!("00000004 00000000 {RANGE} 00000001 00000002 {STATEID_TEXT} 00000003 {OWNER_TEXT}");
        is_on_the_wire(&args(Locker::New(new)), &unhex(&text));
        let existing = ExistLockOwner { lock_stateid: STATEID, lock_seqid: 3 };
        let text = format!("00000004 00000000 {RANGE} 00000000 {STATEID_TEXT} 00000003");
        is_on_the_wire(&args(Locker::Existing(existing)), &unhex(&text));

        let test = LocktArgs { lock_type: LockType::Read, offset_bytes: 1, len_bytes: u64::MAX, owner: OWNER };
        is_on_the_wire(&test, &unhex(&format!("00000001 {RANGE} {OWNER_TEXT}")));
        let unlock =
            LockuArgs { lock_type: LockType::Write, seqid: 3, stateid: STATEID, offset_bytes: 1, len_bytes: u64::MAX };
        is_on_the_wire(&unlock, &unhex(&format!("00000002 00000003 {STATEID_TEXT} {RANGE}")));
    }

    #[test]
    fn a_denial_names_the_lock_in_the_way() {
        let denied = LockDenied { offset_bytes: 1, len_bytes: u64::MAX, lock_type: LockType::Write, owner: OWNER };
        let bytes = unhex(&format!("0000271a {RANGE} 00000002 {OWNER_TEXT}"));
        is_on_the_wire::<LockRes<'_>>(&Err(LockError::Denied(denied)), &bytes);
        is_on_the_wire::<LocktRes<'_>>(&Err(LockError::Denied(denied)), &bytes);
        is_on_the_wire::<LockRes<'_>>(&Ok(STATEID), &unhex(&format!("00000000 {STATEID_TEXT}")));
        is_on_the_wire::<LocktRes<'_>>(&Err(LockError::Status(NfsStat4::LOCK_RANGE)), &unhex("0000272c"));
        let nameless: LocktRes<'_> = Err(LockError::Status(NfsStat4::DENIED));
        assert_eq!(to_vec(&nameless), unhex("00002716"));
    }
}
