//! The byte ranges held on one file, of both flavours, and the rule that says which access they block. Called by
//! `lock` under the file's lock; it knows nothing of waiting.
//!
//! Exclusive ranges of at least one byte never overlap, so they sit in a map by their start and a conflict is found by
//! looking at the neighbours. Everything else (shared, and of zero length) may stack and sits in a second map.

use std::collections::{BTreeMap, BTreeSet};

use crate::{LockConflict, LockRange, OpenId, Owner};

/// Whose a byte range is. The flavour decides the rules: Windows ranges belong to one open, are unlocked exactly as
/// they were locked and bind reads and writes; POSIX ranges belong to a lock owner, split and merge, and do not bind
/// the reads and writes of other POSIX owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockOwner {
    /// One open, Windows rules (MS-FSA 2.1.5.8).
    Open(OpenId),
    /// An NFSv4 lock owner or NLM owner, POSIX rules (RFC 8881 9.1). Its number must be unique for (client, owner).
    Posix(Owner),
}

/// An access to be compared with what is held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    pub(crate) owner: LockOwner,
    pub(crate) range: LockRange,
    /// It is a lock, not a read or write.
    pub(crate) lock_intent: bool,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    len: u64,
    owner: LockOwner,
    exclusive: bool,
}

/// Where a held range is found: its start, and a number that tells stacked ones apart (0: in `solid`).
type Place = (u64, u64);

#[derive(Debug, Default)]
pub(crate) struct RangeSet {
    /// Exclusive, not empty, disjoint.
    solid: BTreeMap<u64, Held>,
    /// Shared or empty.
    loose: BTreeMap<Place, Held>,
    by_owner: BTreeSet<(LockOwner, u64, u64)>,
    /// No range in `loose` is longer. Only ever grows until `loose` is empty.
    loose_max_len: u64,
    last_place: u64,
}

fn end(start: u64, len: u64) -> u128 {
    u128::from(start) + u128::from(len)
}

/// Half-open, so that an empty range meets only what it lies strictly inside of, and {0, 0} nothing
/// (MS-FSA 2.1.4.10).
fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    u128::from(a.0) < end(b.0, b.1) && u128::from(b.0) < end(a.0, a.1)
}

/// Whether `held`, which overlaps it, blocks `probe`: MS-FSA 2.1.4.10 wherever a Windows range or a Windows open takes
/// part, POSIX between POSIX owners.
fn blocks(held: &Held, probe: &Probe) -> bool {
    let exclusive = probe.range.exclusive;
    if let (LockOwner::Posix(holder), LockOwner::Posix(asker)) = (held.owner, probe.owner) {
        return probe.lock_intent && holder != asker && (held.exclusive || exclusive);
    }
    if held.exclusive { held.owner != probe.owner || exclusive && probe.lock_intent } else { exclusive }
}

impl RangeSet {
    pub(crate) fn len(&self) -> usize {
        self.by_owner.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_owner.is_empty()
    }

    /// A held range that blocks `probe`, if any does.
    pub(crate) fn conflict(&self, probe: &Probe) -> Option<LockConflict> {
        self.solid_conflict(probe).or_else(|| self.loose_conflict(probe))
    }

    fn solid_conflict(&self, probe: &Probe) -> Option<LockConflict> {
        let LockRange { offset, len, .. } = probe.range;
        self.solid
            .range(..=last_start(offset, len)?)
            .rev()
            .take_while(|(start, held)| end(**start, held.len) > u128::from(offset))
            .find(|(start, held)| overlap((**start, held.len), (offset, len)) && blocks(held, probe))
            .map(|(start, held)| conflict(*start, held))
    }

    fn loose_conflict(&self, probe: &Probe) -> Option<LockConflict> {
        let LockRange { offset, len, .. } = probe.range;
        let first = (offset.saturating_sub(self.loose_max_len), 0);
        let last = (last_start(offset, len)?, u64::MAX);
        if first > last {
            return None;
        }
        self.loose
            .range(first..=last)
            .find(|((start, _), held)| overlap((*start, held.len), (offset, len)) && blocks(held, probe))
            .map(|((start, _), held)| conflict(*start, held))
    }

    /// Holds a range nothing blocks.
    pub(crate) fn insert(&mut self, owner: LockOwner, range: LockRange) -> Place {
        let LockRange { offset, len, exclusive } = range;
        let held = Held { len, owner, exclusive };
        let place = if exclusive && len > 0 {
            let before = self.solid.insert(offset, held);
            assert!(before.is_none(), "two exclusive ranges start at one byte");
            (offset, 0)
        } else {
            self.last_place += 1;
            self.loose_max_len = self.loose_max_len.max(len);
            self.loose.insert((offset, self.last_place), held);
            (offset, self.last_place)
        };
        self.by_owner.insert((owner, place.0, place.1));
        place
    }

    /// Lets go of the range at `place`, which `owner` holds.
    pub(crate) fn remove(&mut self, owner: LockOwner, place: Place) {
        self.by_owner.remove(&(owner, place.0, place.1));
        if place.1 == 0 {
            self.solid.remove(&place.0);
        } else {
            self.loose.remove(&place);
        }
        if self.loose.is_empty() {
            self.loose_max_len = 0;
        }
    }

    /// One range of `owner` that is exactly this one, an exclusive one first (MS-FSA 2.1.5.9).
    pub(crate) fn exact(&self, owner: LockOwner, offset: u64, len: u64) -> Option<Place> {
        let mut found = None;
        for &(_, start, number) in self.by_owner.range((owner, offset, 0)..=(owner, offset, u64::MAX)) {
            let Some(held) = self.at((start, number)) else { continue };
            if held.len == len {
                found = Some((start, number));
                if held.exclusive {
                    break;
                }
            }
        }
        found
    }

    /// The ranges of `owner` that start below `bound`, the last one first.
    pub(crate) fn of_owner_below(
        &self,
        owner: LockOwner,
        bound: u128,
    ) -> impl Iterator<Item = (Place, LockRange)> + '_ {
        let last = u64::try_from(bound.saturating_sub(1)).unwrap_or(u64::MAX);
        let none = bound == 0;
        self.by_owner.range((owner, 0, 0)..=(owner, last, u64::MAX)).rev().take_while(move |_| !none).filter_map(
            |&(_, start, number)| {
                let held = self.at((start, number))?;
                Some(((start, number), LockRange { offset: start, len: held.len, exclusive: held.exclusive }))
            },
        )
    }

    /// Lets go of all ranges of `owner`; whether there was any.
    pub(crate) fn remove_owner(&mut self, owner: LockOwner) -> bool {
        let mut any = false;
        while let Some(&(_, start, number)) = self.by_owner.range((owner, 0, 0)..=(owner, u64::MAX, u64::MAX)).next() {
            self.remove(owner, (start, number));
            any = true;
        }
        any
    }

    fn at(&self, place: Place) -> Option<&Held> {
        if place.1 == 0 { self.solid.get(&place.0) } else { self.loose.get(&place) }
    }
}

/// The last start that can overlap `offset..offset + len`; `None` when nothing can ({0, 0}).
fn last_start(offset: u64, len: u64) -> Option<u64> {
    end(offset, len).checked_sub(1).map(|last| u64::try_from(last).unwrap_or(u64::MAX))
}

fn conflict(offset: u64, held: &Held) -> LockConflict {
    LockConflict { offset, len: held.len, exclusive: held.exclusive, owner: held.owner }
}
