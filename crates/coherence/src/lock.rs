//! Byte-range locks of one file: taking several all or nothing, unlocking, waiting in line. Called by the file entry
//! under its lock; the flavours' rules are in `range` and `posix`.

use crate::effect::Out;
use crate::range::{LockOwner, Probe, RangeSet};
use crate::{Effect, Limits, OpenId, Ticket, posix};

/// A byte range and how it is to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub offset: u64,
    /// Number of bytes. 0 is a range of its own kind for Windows owners and invalid for POSIX owners.
    pub len: u64,
    /// Exclusive (write) or shared (read).
    pub exclusive: bool,
}

/// A held range that is in the way: STATUS_FILE_LOCK_CONFLICT for a read or write, NFS4ERR_DENIED's `lock_denied`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockConflict {
    /// Its first byte.
    pub offset: u64,
    /// Its number of bytes.
    pub len: u64,
    /// How it is held.
    pub exclusive: bool,
    /// By whom.
    pub owner: LockOwner,
}

/// Why a lock is refused. None of the request's ranges is held then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockError {
    /// Another lock is in the way and the request does not wait: STATUS_LOCK_NOT_GRANTED, NFS4ERR_DENIED.
    Conflict(LockConflict),
    /// The range passes the 64-bit end, or is empty for a POSIX owner: STATUS_INVALID_LOCK_RANGE, NFS4ERR_INVAL.
    InvalidRange,
    /// [`Limits`] are reached: STATUS_INSUFFICIENT_RESOURCES, NFS4ERR_RESOURCE.
    TooMany,
}

/// What became of a lock request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockOutcome {
    /// All ranges are held.
    Held,
    /// In line: [`Effect::Granted`] or [`Effect::Abandoned`] will bring this ticket.
    Wait(Ticket),
}

/// No range of this owner is exactly the one to unlock: STATUS_RANGE_NOT_LOCKED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeNotLocked;

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    owner: LockOwner,
    ranges: Box<[LockRange]>,
}

/// All byte-range state of one file; boxed, present only while there is any.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    set: RangeSet,
    line: Vec<Waiter>,
}

impl LockRange {
    /// From `offset` to the end of the file, wherever that comes to lie (RFC 8881 18.10.3, a length of all ones).
    #[must_use]
    pub fn to_end(offset: u64, exclusive: bool) -> Self {
        Self { offset, len: u64::MAX - offset, exclusive }
    }

    /// MS-FSA 2.1.5.8: the last byte must have a 64-bit offset.
    fn check(&self, owner: LockOwner) -> Result<(), LockError> {
        let past_end = self.len != 0 && self.offset.checked_add(self.len - 1).is_none();
        let empty_posix = self.len == 0 && matches!(owner, LockOwner::Posix(_));
        if past_end || empty_posix { Err(LockError::InvalidRange) } else { Ok(()) }
    }
}

impl Locks {
    pub(crate) fn is_idle(&self) -> bool {
        self.set.is_empty() && self.line.is_empty()
    }

    pub(crate) fn held(&self) -> usize {
        self.set.len()
    }

    /// What an owner holds, the last one first.
    pub(crate) fn of(&self, owner: LockOwner) -> Vec<LockRange> {
        self.set.of_owner_below(owner, u128::from(u64::MAX) + 1).map(|(_, range)| range).collect()
    }

    /// Whether an owner holds any.
    pub(crate) fn holds(&self, owner: LockOwner) -> bool {
        self.set.of_owner_below(owner, u128::from(u64::MAX) + 1).next().is_some()
    }

    /// What blocks a read (`exclusive` false) or write of `len` bytes; an empty one is never blocked.
    pub(crate) fn io_conflict(&self, owner: LockOwner, range: LockRange) -> Option<LockConflict> {
        if range.len == 0 { None } else { self.set.conflict(&Probe { owner, range, lock_intent: false }) }
    }

    /// What blocks a lock (NFSv4 LOCKT, NLM TEST).
    pub(crate) fn lock_conflict(&self, owner: LockOwner, range: LockRange) -> Option<LockConflict> {
        self.set.conflict(&Probe { owner, range, lock_intent: true })
    }

    /// Takes all of `ranges` or none. With `ticket` a request that cannot be granted now stands in line.
    pub(crate) fn lock(
        &mut self,
        owner: LockOwner,
        ranges: &[LockRange],
        ticket: Option<Ticket>,
        limits: &Limits,
        out: &mut Out,
    ) -> Result<LockOutcome, LockError> {
        ranges.iter().try_for_each(|range| range.check(owner))?;
        if self.set.len().saturating_add(ranges.len()) > limits.locks_per_file {
            return Err(LockError::TooMany);
        }
        match (self.take(owner, ranges), ticket) {
            (Ok(()), _) => {
                // A POSIX lock may have weakened what its owner held.
                if matches!(owner, LockOwner::Posix(_)) {
                    self.move_line(limits, out);
                }
                Ok(LockOutcome::Held)
            }
            (Err(conflict), None) => Err(LockError::Conflict(conflict)),
            (Err(_), Some(_)) if self.line.len() >= limits.waiters_per_file => Err(LockError::TooMany),
            (Err(_), Some(ticket)) => {
                self.line.push(Waiter { ticket, owner, ranges: ranges.into() });
                Ok(LockOutcome::Wait(ticket))
            }
        }
    }

    /// Unlocks one range exactly as it was locked (MS-FSA 2.1.5.9).
    pub(crate) fn unlock(
        &mut self,
        open: OpenId,
        offset: u64,
        len: u64,
        limits: &Limits,
        out: &mut Out,
    ) -> Result<(), RangeNotLocked> {
        let owner = LockOwner::Open(open);
        let place = self.set.exact(owner, offset, len).ok_or(RangeNotLocked)?;
        self.set.remove(owner, place);
        self.move_line(limits, out);
        Ok(())
    }

    /// Unlocks whatever a POSIX owner holds of a range; holding nothing is no error (RFC 8881 18.12.3).
    pub(crate) fn unlock_posix(
        &mut self,
        owner: crate::Owner,
        range: LockRange,
        limits: &Limits,
        out: &mut Out,
    ) -> Result<(), LockError> {
        range.check(LockOwner::Posix(owner))?;
        if posix::unlock(&mut self.set, owner, range) {
            self.move_line(limits, out);
        }
        Ok(())
    }

    /// Drops all an owner holds and waits for.
    pub(crate) fn release(&mut self, owner: LockOwner, limits: &Limits, out: &mut Out) {
        self.line.retain(|waiter| {
            let stays = waiter.owner != owner;
            if !stays {
                out.waited(owner, Effect::Abandoned(waiter.ticket));
            }
            stays
        });
        if self.set.remove_owner(owner) {
            self.move_line(limits, out);
        }
    }

    /// Takes a request out of the line; false when it is not in it (any more).
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> bool {
        let before = self.line.len();
        self.line.retain(|waiter| waiter.ticket != ticket);
        self.line.len() < before
    }

    /// Grants whatever in the line can be granted, first come first served; again as long as that helps, since a
    /// POSIX lock granted may weaken what its owner held.
    fn move_line(&mut self, limits: &Limits, out: &mut Out) {
        let mut before = usize::MAX;
        while self.line.len() < before {
            before = self.line.len();
            let mut line = std::mem::take(&mut self.line);
            line.retain(|waiter| !self.grant_waiter(waiter, limits, out));
            self.line = line;
        }
    }

    fn grant_waiter(&mut self, waiter: &Waiter, limits: &Limits, out: &mut Out) -> bool {
        let room = self.set.len().saturating_add(waiter.ranges.len()) <= limits.locks_per_file;
        let granted = room && self.take(waiter.owner, &waiter.ranges).is_ok();
        if granted {
            out.waited(waiter.owner, Effect::Granted(waiter.ticket));
        }
        granted
    }

    fn take(&mut self, owner: LockOwner, ranges: &[LockRange]) -> Result<(), LockConflict> {
        match owner {
            LockOwner::Open(_) => self.take_windows(owner, ranges),
            LockOwner::Posix(posix_owner) => {
                if let Some(conflict) = ranges.iter().find_map(|range| self.lock_conflict(owner, *range)) {
                    return Err(conflict);
                }
                ranges.iter().for_each(|range| posix::lock(&mut self.set, posix_owner, *range));
                Ok(())
            }
        }
    }

    /// One after the other, so that ranges of one request may be in each other's way (MS-SMB2 3.3.5.14.2).
    fn take_windows(&mut self, owner: LockOwner, ranges: &[LockRange]) -> Result<(), LockConflict> {
        let mut places = Vec::with_capacity(ranges.len());
        for range in ranges {
            if let Some(conflict) = self.lock_conflict(owner, *range) {
                places.into_iter().for_each(|place| self.set.remove(owner, place));
                return Err(conflict);
            }
            places.push(self.set.insert(owner, *range));
        }
        Ok(())
    }
}
