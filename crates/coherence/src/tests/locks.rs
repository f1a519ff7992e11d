//! Byte ranges: the rules as tables, waiting as stories.

use super::*;
use crate::{LockConflict, LockError, LockOutcome, LockOwner, LockRange, Owner, RangeNotLocked, Stats};

const MAX: u64 = u64::MAX;

fn shared(offset: u64, len: u64) -> LockRange {
    LockRange { offset, len, exclusive: false }
}

fn exclusive(offset: u64, len: u64) -> LockRange {
    LockRange { offset, len, exclusive: true }
}

fn two(table: &Table) -> (OpenClaim, OpenClaim) {
    (open(table, R | W, ALL).expect("one"), open(table, R | W, ALL).expect("two"))
}

fn conflict(range: LockRange, by: &OpenClaim) -> LockConflict {
    let LockRange { offset, len, exclusive } = range;
    LockConflict { offset, len, exclusive, owner: LockOwner::Open(by.id()) }
}

#[test]
fn who_may_lock_read_and_write_beside_a_held_range() {
    // Held, and for the same open and another one: shared lock, exclusive lock, read, write (MS-FSA 2.1.4.10).
    let rows = [
        (shared(10, 10), [true, false, true, false], [true, false, true, false]),
        (exclusive(10, 10), [true, false, true, true], [false, false, false, false]),
    ];
    for (held, same, other) in rows {
        for (mine, expected) in [(true, same), (false, other)] {
            let table = Table::new();
            let (one, two) = two(&table);
            assert_eq!(one.lock(&[held], false), Ok(LockOutcome::Held));
            let asker = if mine { &one } else { &two };
            let lock = |range| {
                let taken = asker.lock(&[range], false).is_ok();
                if taken {
                    // The exclusive one goes first, so undo by what is left.
                    assert_eq!(asker.unlock(range.offset, range.len), Ok(()));
                }
                taken
            };
            let got = [
                lock(shared(15, 10)),
                lock(exclusive(15, 10)),
                asker.check_read(15, 1).is_ok(),
                asker.check_write(15, 1).is_ok(),
            ];
            assert_eq!(got, expected, "{held:?}, same open: {mine}");
        }
    }
}

#[test]
fn where_ranges_meet() {
    // Held, asked, in each other's way.
    let rows = [
        ((10, 10), (0, 10), false),
        ((10, 10), (0, 11), true),
        ((10, 10), (19, 1), true),
        ((10, 10), (20, 1), false),
        ((10, 10), (0, MAX), true),
        // Of zero length: in the way strictly inside only.
        ((10, 10), (10, 0), false),
        ((10, 10), (11, 0), true),
        ((10, 10), (19, 0), true),
        ((10, 10), (20, 0), false),
        ((10, 0), (0, 20), true),
        ((10, 0), (10, 10), false),
        ((10, 0), (0, 10), false),
        ((10, 0), (10, 0), false),
        ((10, 0), (9, 1), false),
        ((10, 0), (9, 2), true),
        // {0, 0} never.
        ((0, 0), (0, MAX), false),
        ((0, 0), (0, 0), false),
        ((0, 10), (0, 0), false),
        // The 64-bit edge.
        ((MAX, 1), (MAX, 1), true),
        ((MAX, 1), (MAX - 1, 1), false),
        ((MAX - 1, 2), (MAX, 1), true),
        ((MAX, 1), (0, MAX), false),
        ((0, MAX), (MAX, 1), false),
        ((MAX, 1), (1, MAX), true),
        ((MAX, 0), (MAX - 1, 2), true),
        ((MAX, 1), (MAX, 0), false),
        ((0, 1), (MAX, 1), false),
    ];
    for (held, asked, meets) in rows {
        for held_exclusive in [true, false] {
            let table = Table::new();
            let (one, two) = two(&table);
            let held = LockRange { offset: held.0, len: held.1, exclusive: held_exclusive };
            assert_eq!(one.lock(&[held], false), Ok(LockOutcome::Held));
            let expected = if meets { Err(LockError::Conflict(conflict(held, &one))) } else { Ok(LockOutcome::Held) };
            assert_eq!(two.lock(&[exclusive(asked.0, asked.1)], false), expected, "{held:?} {asked:?}");
        }
    }
}

#[test]
fn ranges_past_the_64_bit_end_are_invalid() {
    let table = Table::new();
    let (one, _two) = two(&table);
    for (offset, len, valid) in [(MAX, 1, true), (MAX, 2, false), (MAX, 0, true), (1, MAX, true), (2, MAX, false)] {
        let expected = if valid { Ok(LockOutcome::Held) } else { Err(LockError::InvalidRange) };
        assert_eq!(one.lock(&[shared(offset, len)], false), expected, "{offset} {len}");
    }
    assert_eq!(table.stats().locks, 3);
}

#[test]
fn an_io_of_no_bytes_is_never_blocked() {
    let table = Table::new();
    let (one, two) = two(&table);
    one.lock(&[exclusive(0, 100)], false).expect("held");
    assert_eq!(two.check_read(50, 0), Ok(()));
    assert_eq!(two.check_write(50, 0), Ok(()));
    assert_eq!(two.check_write(99, MAX), Err(conflict(exclusive(0, 100), &one)));
    assert_eq!(two.check_write(100, MAX), Ok(()));
}

#[test]
fn several_ranges_are_all_or_nothing() {
    let table = Table::new();
    let (one, two) = two(&table);
    one.lock(&[shared(100, 1)], false).expect("held");
    let blocked = two.lock(&[exclusive(0, 10), shared(50, 5), exclusive(100, 1)], false);
    assert_eq!(blocked, Err(LockError::Conflict(conflict(shared(100, 1), &one))));
    assert_eq!(table.stats().locks, 1);
    let itself = two.lock(&[exclusive(0, 10), exclusive(5, 10)], false);
    assert!(matches!(itself, Err(LockError::Conflict(_))), "its own ranges are in each other's way");
    let invalid = two.lock(&[exclusive(0, 10), exclusive(MAX, 9)], false);
    assert_eq!(invalid, Err(LockError::InvalidRange));
    assert_eq!(table.stats().locks, 1);
    assert_eq!(one.check_write(0, 10), Ok(()));
}

#[test]
fn unlocking_is_exact_and_one_at_a_time() {
    let table = Table::new();
    let (one, two) = two(&table);
    one.lock(&[exclusive(0, 10), shared(0, 10), shared(0, 10)], false).expect("stacked");
    for (offset, len) in [(0, 9), (1, 9), (0, 11), (0, 0)] {
        assert_eq!(one.unlock(offset, len), Err(RangeNotLocked));
    }
    assert_eq!(two.unlock(0, 10), Err(RangeNotLocked), "not its own");
    assert!(two.check_read(0, 1).is_err());
    assert_eq!(one.unlock(0, 10), Ok(()));
    assert!(two.check_read(0, 1).is_ok(), "the exclusive one went first");
    assert!(two.check_write(0, 1).is_err());
    assert_eq!((one.unlock(0, 10), one.unlock(0, 10)), (Ok(()), Ok(())));
    assert_eq!(one.unlock(0, 10), Err(RangeNotLocked));
    assert!(two.check_write(0, 1).is_ok());
}

#[test]
fn closing_unlocks() {
    let table = Table::new();
    let (one, two) = two(&table);
    one.lock(&[exclusive(0, 10), shared(20, 5)], false).expect("held");
    two.lock(&[shared(20, 5)], false).expect("held");
    drop(one);
    assert_eq!(table.stats().locks, 1);
    assert!(two.check_read(0, 30).is_ok());
    drop(two);
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn a_waiting_lock_is_granted_when_its_way_is_free() {
    let (table, kept) = table();
    let (one, two) = two(&table);
    one.lock(&[exclusive(0, 10), exclusive(20, 10)], false).expect("held");
    let Ok(LockOutcome::Wait(both)) = two.lock(&[exclusive(0, 10), shared(25, 1)], true) else { panic!("waits") };
    let Ok(LockOutcome::Wait(second)) = two.lock(&[exclusive(29, 1)], true) else { panic!("waits") };
    one.unlock(0, 10).expect("held");
    assert_eq!(kept.take(), vec![], "half of it is not enough");
    assert_eq!(one.lock(&[shared(0, 1)], false), Ok(LockOutcome::Held), "and nothing is held meanwhile");
    one.unlock(20, 10).expect("held");
    assert_eq!(kept.take(), vec![Effect::Granted(second)]);
    one.unlock(0, 1).expect("held");
    assert_eq!(kept.take(), vec![Effect::Granted(both)]);
    assert_eq!(table.stats().locks, 3);
    assert!(one.check_read(0, 1).is_err());
}

#[test]
fn a_waiting_lock_is_cancelled_or_abandoned() {
    let (table, kept) = table();
    let (one, two) = two(&table);
    one.lock(&[exclusive(0, 10)], false).expect("held");
    let Ok(LockOutcome::Wait(first)) = two.lock(&[shared(0, 1)], true) else { panic!("waits") };
    let Ok(LockOutcome::Wait(second)) = two.lock(&[shared(0, 1)], true) else { panic!("waits") };
    assert!(table.cancel(file(1), first) && !table.cancel(file(1), first));
    drop(two);
    assert_eq!(kept.take(), vec![Effect::Abandoned(second)]);
    assert!(!table.cancel(file(1), second));
    drop(one);
    assert_eq!((kept.take(), table.stats()), (vec![], Stats::default()));
}

#[test]
fn closing_grants_what_waited_for_it() {
    let (table, kept) = table();
    let (one, two) = two(&table);
    one.lock(&[exclusive(0, 10)], false).expect("held");
    let Ok(LockOutcome::Wait(ticket)) = two.lock(&[exclusive(0, 1)], true) else { panic!("waits") };
    drop(one);
    assert_eq!(kept.take(), vec![Effect::Granted(ticket)]);
}

#[test]
fn limits_hold() {
    let limits = Limits { locks_per_file: 2, waiters_per_file: 1, ..Limits::default() };
    let table = Table::with_sink(limits, Arc::new(Kept::default()));
    let (one, two) = two(&table);
    assert_eq!(one.lock(&[exclusive(0, 1); 3], false), Err(LockError::TooMany));
    one.lock(&[exclusive(0, 1)], false).expect("held");
    assert!(matches!(two.lock(&[shared(0, 1)], true), Ok(LockOutcome::Wait(_))));
    assert_eq!(two.lock(&[shared(0, 1)], true), Err(LockError::TooMany));
}

#[test]
fn posix_ranges_split_and_merge() {
    let table = Table::new();
    let (one, other) = (Owner(1), Owner(2));
    let lock = |range| table.lock_posix(file(1), one, range, false);
    let count = || table.stats().locks;
    lock(exclusive(0, 100)).expect("held");
    lock(shared(40, 20)).expect("weakened in the middle");
    assert_eq!(count(), 3);
    assert_eq!(table.test_posix(file(1), other, shared(40, 20)), None);
    assert!(table.test_posix(file(1), other, shared(39, 1)).is_some());
    lock(exclusive(40, 20)).expect("strengthened");
    assert_eq!(count(), 1);
    table.unlock_posix(file(1), one, exclusive(10, 10)).expect("hole");
    assert_eq!(count(), 2);
    assert_eq!(table.test_posix(file(1), other, exclusive(10, 10)), None);
    lock(exclusive(10, 10)).expect("filled");
    assert_eq!(count(), 1);
    lock(LockRange::to_end(100, true)).expect("joins");
    assert_eq!(count(), 1);
    lock(exclusive(MAX, 1)).expect("the last byte there is");
    assert_eq!(count(), 1);
    assert_eq!(lock(exclusive(5, 0)), Err(LockError::InvalidRange));
    table.release_posix(file(1), one);
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn the_flavours_see_each_other() {
    let (table, kept) = table();
    let (one, two) = two(&table);
    let (nfs, other) = (Owner(1), Owner(2));
    table.lock_posix(file(1), nfs, shared(0, 10), false).expect("held");
    assert!(one.lock(&[exclusive(5, 1)], false).is_err());
    assert!(one.check_read(0, 10).is_ok() && one.check_write(0, 10).is_err());
    assert_eq!(one.check_posix(other, exclusive(0, 10)), Ok(()), "POSIX owners do not bind each other's I/O");
    two.lock(&[exclusive(20, 10)], false).expect("held");
    assert!(one.check_posix(nfs, shared(25, 1)).is_err(), "a Windows range binds everybody");
    let Ok(LockOutcome::Wait(ticket)) = table.lock_posix(file(1), nfs, exclusive(0, 30), true) else { panic!("waits") };
    drop(two);
    assert_eq!(kept.take(), vec![Effect::Granted(ticket)]);
    drop(one);
    assert_eq!(table.stats().locks, 1, "POSIX ranges do not need an open");
}
