//! POSIX locking of one owner's ranges: a new lock replaces what the owner holds there, an unlock cuts a hole,
//! neighbours of one kind merge (RFC 8881 18.10.4 and 18.12.4). Called by `lock` once nobody else's range is in the
//! way.

use crate::range::{LockOwner, RangeSet};
use crate::{LockRange, Owner};

/// Half-open, so that a range may end at 2^64.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u128,
    end: u128,
}

impl Span {
    fn of(range: &LockRange) -> Self {
        let start = u128::from(range.offset);
        Self { start, end: start + u128::from(range.len) }
    }

    fn range(self, exclusive: bool) -> Option<LockRange> {
        let offset = u64::try_from(self.start).ok()?;
        // All 2^64 bytes is one more than a length can say; the last of them is one no file has.
        let len = u64::try_from(self.end.checked_sub(self.start)?).unwrap_or(u64::MAX);
        (len > 0).then_some(LockRange { offset, len, exclusive })
    }
}

/// Makes `owner` hold `range` in its mode, whatever it held there.
pub(crate) fn lock(set: &mut RangeSet, owner: Owner, range: LockRange) {
    let owner = LockOwner::Posix(owner);
    let mut whole = Span::of(&range);
    let asked = whole;
    for (place, old) in touching(set, owner, asked) {
        let span = Span::of(&old);
        if old.exclusive == range.exclusive {
            set.remove(owner, place);
            whole = Span { start: whole.start.min(span.start), end: whole.end.max(span.end) };
        } else if span.start < asked.end && asked.start < span.end {
            set.remove(owner, place);
            keep_outside(set, owner, old, asked);
        }
    }
    if let Some(merged) = whole.range(range.exclusive) {
        set.insert(owner, merged);
    }
}

/// Makes `owner` hold nothing of `range`; whether it held anything there.
pub(crate) fn unlock(set: &mut RangeSet, owner: Owner, range: LockRange) -> bool {
    let owner = LockOwner::Posix(owner);
    let asked = Span::of(&range);
    let mut any = false;
    for (place, old) in touching(set, owner, asked) {
        let span = Span::of(&old);
        if span.start < asked.end && asked.start < span.end {
            set.remove(owner, place);
            keep_outside(set, owner, old, asked);
            any = true;
        }
    }
    any
}

/// The owner's ranges that overlap `asked` or lie against it. They are disjoint, so the walk back ends at the first
/// that lies before.
fn touching(set: &RangeSet, owner: LockOwner, asked: Span) -> Vec<((u64, u64), LockRange)> {
    set.of_owner_below(owner, asked.end + 1).take_while(|(_, old)| Span::of(old).end >= asked.start).collect()
}

fn keep_outside(set: &mut RangeSet, owner: LockOwner, old: LockRange, hole: Span) {
    let span = Span::of(&old);
    let left = Span { start: span.start, end: hole.start.max(span.start) };
    let right = Span { start: hole.end.min(span.end), end: span.end };
    for rest in [left, right].into_iter().filter_map(|span| span.range(old.exclusive)) {
        set.insert(owner, rest);
    }
}
