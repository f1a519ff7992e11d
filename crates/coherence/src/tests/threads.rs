//! Many threads at once: nothing leaks, a deletion falls to exactly one, exclusive is exclusive.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::{LockRange, Stats};

#[test]
fn opening_and_closing_leaves_no_entry() {
    let table = Table::new();
    thread::scope(|scope| {
        for seed in 0..4 {
            let table = &table;
            scope.spawn(move || hammer(table, Dice(seed)));
        }
    });
    assert_eq!(table.stats(), Stats::default());
}

fn hammer(table: &Table, mut dice: Dice) {
    let mut claims = Vec::new();
    for _ in 0..20_000 {
        let bits = dice.below(64) as u8;
        let share = if dice.below(2) == 0 { ALL } else { ShareKinds::from_bits_truncate(bits >> 3) };
        let request = OpenRequest {
            delete_on_close: dice.below(4) == 0,
            momentary: dice.below(8) == 0,
            ..OpenRequest::new(file(dice.below(4) as u64), AccessKinds::from_bits_truncate(bits), share)
        };
        if let Some(opened) = table.open(NOW, &request).ok().and_then(Outcome::done) {
            let range = LockRange { offset: dice.below(9) as u64, len: 3, exclusive: dice.below(2) == 0 };
            let _ = opened.claim.lock(&[range], false);
            claims.push(opened.claim);
        }
        if claims.len() > 3 {
            let claim = claims.swap_remove(dice.below(4));
            if dice.below(2) == 0 { drop(claim) } else { drop(claim.close()) }
        }
    }
}

#[test]
fn a_deletion_falls_to_exactly_one_closer() {
    for _ in 0..200 {
        let (table, kept) = table();
        let claims: Vec<_> = (0..4).map(|_| open(&table, D, ALL).expect("shared")).collect();
        claims[0].set_delete_pending(true, None);
        let told = AtomicUsize::new(0);
        thread::scope(|scope| {
            for (index, claim) in claims.into_iter().enumerate() {
                let told = &told;
                scope.spawn(move || match index % 2 {
                    0 => told.fetch_add(usize::from(claim.close().delete.is_some()), Ordering::Relaxed),
                    _ => {
                        drop(claim);
                        0
                    }
                });
            }
        });
        assert_eq!(told.into_inner() + kept.orphans().len(), 1);
        assert_eq!(table.stats(), Stats::default());
    }
}

#[test]
fn an_open_that_shares_nothing_is_alone_while_entries_come_and_go() {
    let table = Table::new();
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (table, inside) = (&table, &inside);
            scope.spawn(move || {
                for _ in 0..50_000 {
                    let Ok(claim) = open(table, R | W, ShareKinds::empty()) else { continue };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(claim);
                }
            });
        }
    });
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn an_exclusive_range_has_one_holder() {
    let table = Table::new();
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            let (table, inside) = (&table, &inside);
            scope.spawn(move || {
                let claim = open(table, R | W, ALL).expect("shared");
                let range = LockRange { offset: 5, len: 5, exclusive: true };
                let mut held = 0;
                while held < 500 {
                    if claim.lock(&[range], false).is_ok() {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        held += 1;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        claim.unlock(5, 5).expect("held");
                    } else {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn each_further_open_of_one_file_costs_the_same() {
    let table = Table::new();
    let mut claims = Vec::with_capacity(100_000);
    let times: Vec<_> = (0..100)
        .map(|_| {
            let start = std::time::Instant::now();
            claims.extend((0..1_000).map(|_| open(&table, R | W, ALL).expect("shared")));
            start.elapsed()
        })
        .collect();
    // The least of ten, so that a busy machine does not decide; looking at every open would cost a hundredfold.
    let (first, last) = (times[..10].iter().min(), times[90..].iter().min());
    assert!(last < first.map(|time| *time * 10).as_ref(), "{first:?} then {last:?}");
    drop(claims);
    assert_eq!(table.stats(), Stats::default());
}
