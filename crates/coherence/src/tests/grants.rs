//! Caching grants: what is granted, what breaks what, how a break ends. Tables, stories, seeded interleavings.

use std::collections::BTreeSet;

use super::*;
use crate::{AckError, Caching, Change, GrantRequest, HolderKey, Identity, LockRange, Owner, Stats};

const NONE: Caching = Caching::empty();
const CR: Caching = Caching::READ;
const RW: Caching = Caching::READ.union(Caching::WRITE);
const RH: Caching = Caching::READ.union(Caching::HANDLE);
const RWH: Caching = Caching::all();

fn lease(key: u8) -> Identity {
    Identity::Lease { client: [1; 16], key: [key; 16] }
}

fn wanting(identity: Identity, want: Caching, access: AccessKinds) -> OpenRequest {
    OpenRequest { identity, grant: GrantRequest { want, epoch: 10 }, owner: Owner(5), ..request(access, ALL) }
}

/// The holder, what it has and what it is to keep, of each break told.
fn breaks(kept: &Kept) -> Vec<(HolderKey, Caching, Caching, bool)> {
    let told = |effect| match effect {
        Effect::Break { holder, from, to, deadline, .. } => Some((holder, from, to, deadline.is_some())),
        _ => None,
    };
    kept.take().into_iter().filter_map(told).collect()
}

#[test]
fn what_is_granted_alone_and_beside_another_open() {
    let rows = [
        // Identity, wanted, alone, beside an open without a grant.
        (Identity::Open, CR, CR, CR),
        (Identity::Open, RW, RW, CR),
        (Identity::Open, RWH, RWH, CR),
        (lease(1), CR, CR, CR),
        (lease(1), RH, RH, RH),
        (lease(1), RW, RW, CR),
        (lease(1), RWH, RWH, RH),
        (lease(1), Caching::WRITE, NONE, NONE),
        (lease(1), Caching::HANDLE, NONE, NONE),
        (Identity::Client(1), CR, CR, CR),
        (Identity::Client(1), RW, RW, CR),
    ];
    for (identity, want, alone, beside) in rows {
        let table = Table::new();
        let opened = done(table.open(NOW, &wanting(identity, want, R)));
        assert_eq!(opened.caching, alone, "{identity:?} {want:?}");
        drop(opened);
        if let Some(key) = identity.key() {
            table.give_back(NOW, file(1), &key);
        }
        let other = open(&table, R, ALL).expect("other");
        let opened = done(table.open(NOW, &wanting(identity, want, R)));
        assert_eq!(opened.caching, beside, "{identity:?} {want:?} beside another");
        drop((other, opened));
        if let Some(key) = identity.key() {
            table.give_back(NOW, file(1), &key);
        }
        assert_eq!(table.stats(), Stats::default());
    }
}

#[test]
fn an_open_that_looks_only_breaks_what_its_rights_say() {
    let rows = [
        // Identity of the holder, beyond the attributes, the security descriptor, whether the holder is told.
        (Identity::Open, false, false, false),
        (Identity::Open, false, true, true),
        (Identity::Open, true, false, true),
        (lease(1), false, false, false),
        (lease(1), false, true, false),
        (lease(1), true, false, true),
    ];
    for (identity, beyond_attributes, inspects, told) in rows {
        let (table, kept) = table();
        let holder = done(table.open(NOW, &wanting(identity, RWH, R)));
        let look = OpenRequest { beyond_attributes, inspects, ..request(AccessKinds::empty(), ALL) };
        let waits = matches!(table.open(NOW, &look), Ok(Outcome::Wait(_)));
        assert_eq!((waits, !breaks(&kept).is_empty()), (told, told), "{identity:?} {beyond_attributes} {inspects}");
        drop(holder);
    }
}

#[test]
fn what_each_change_costs_each_holder() {
    let open = Change::Open { write: false, deny_read: false, overwrite: false };
    let write_open = Change::Open { write: true, deny_read: false, overwrite: false };
    let overwrite = Change::Open { write: true, deny_read: false, overwrite: true };
    let rows = [
        // Identity, held, change, kept (None: nothing told), whether the change waits.
        (Identity::Open, RWH, open, Some(CR), true),
        (Identity::Open, RW, open, Some(CR), true),
        (Identity::Open, CR, write_open, None, false),
        (Identity::Open, RWH, overwrite, Some(NONE), true),
        (Identity::Open, CR, overwrite, Some(NONE), false),
        (Identity::Open, RWH, Change::Read, Some(CR), true),
        (Identity::Open, CR, Change::Write, Some(NONE), false),
        (Identity::Open, RWH, Change::ShareConflict, Some(CR), true),
        (Identity::Open, RW, Change::ShareConflict, None, false),
        (Identity::Open, RWH, Change::Rename, Some(NONE), true),
        (Identity::Open, RWH, Change::Attributes, None, false),
        (Identity::Open, RWH, Change::Inspect, Some(CR), true),
        (Identity::Open, CR, Change::Inspect, None, false),
        (lease(1), RWH, open, Some(RH), true),
        (lease(1), RW, open, Some(CR), true),
        (lease(1), RH, write_open, None, false),
        (lease(1), RWH, overwrite, Some(NONE), true),
        (lease(1), RH, overwrite, Some(NONE), false),
        (lease(1), CR, overwrite, Some(NONE), false),
        (lease(1), RWH, Change::Read, Some(RH), true),
        (lease(1), RH, Change::Read, None, false),
        (lease(1), RWH, Change::Write, Some(NONE), true),
        (lease(1), RH, Change::Write, Some(NONE), false),
        (lease(1), RWH, Change::Rename, Some(RW), true),
        (lease(1), RH, Change::Delete, Some(CR), true),
        (lease(1), RW, Change::Delete, None, false),
        (lease(1), RH, Change::ShareConflict, Some(CR), true),
        (lease(1), RH, Change::Children, Some(NONE), false),
        (lease(1), RWH, Change::Attributes, None, false),
        (lease(1), RWH, Change::Inspect, None, false),
        (Identity::Client(1), CR, open, None, false),
        (Identity::Client(1), CR, write_open, Some(NONE), true),
        (Identity::Client(1), RW, open, Some(NONE), true),
        (Identity::Client(1), CR, Change::Read, None, false),
        (Identity::Client(1), RW, Change::Read, Some(NONE), true),
        (Identity::Client(1), CR, Change::Write, Some(NONE), true),
        (Identity::Client(1), CR, Change::Rename, Some(NONE), true),
        (Identity::Client(1), CR, Change::Attributes, Some(NONE), true),
        (Identity::Client(1), RW, Change::Inspect, None, false),
    ];
    for (identity, held, change, keeps, waits) in rows {
        let (table, kept) = table();
        let opened = done(table.open(NOW, &wanting(identity, held, R)));
        assert_eq!(opened.caching, held);
        let what = format!("{identity:?} {held:?} {change:?}");
        let outcome = table.prepare(NOW, file(1), change, Identity::Client(99)).expect("room to wait");
        assert_eq!(matches!(outcome, Outcome::Wait(_)), waits, "{what}");
        let holder = opened.claim.holder();
        let acknowledged = matches!(identity, Identity::Client(_)) || held.intersects(Caching::WRITE | Caching::HANDLE);
        let told: Vec<_> = keeps.into_iter().map(|to| (holder, held, to, acknowledged)).collect();
        assert_eq!(breaks(&kept), told, "{what}");
    }
}

#[test]
fn an_open_waits_for_the_acknowledgement_and_then_goes_on() {
    let (table, kept) = table();
    let holder = done(table.open(NOW, &wanting(lease(1), RWH, R | W)));
    let key = holder.claim.holder();
    assert_eq!((holder.caching, holder.epoch), (RWH, 11));
    let ticket = waits(table.open(NOW, &wanting(lease(2), RWH, R)));
    assert_eq!(
        kept.take(),
        vec![Effect::Break {
            file: file(1),
            holder: key,
            owner: Owner(5),
            from: RWH,
            to: RH,
            epoch: 12,
            deadline: Some(NOW.after_ms(35_000)),
        }]
    );
    let again = done(table.open(NOW, &wanting(lease(1), RWH, R)));
    assert!(again.breaking && again.caching == RWH, "nobody waits for itself");
    assert_eq!(table.acknowledge(NOW, file(1), &key, RW), Err(AckError::TooMuch));
    assert_eq!(table.acknowledge(NOW, file(1), &key, RH), Ok(RH));
    assert_eq!(kept.take(), vec![Effect::Ready(ticket)]);
    assert_eq!(table.acknowledge(NOW, file(1), &key, RH), Err(AckError::NotBreaking));
    assert_eq!(table.next_deadline(), None);
    assert_eq!(done(table.open(NOW, &wanting(lease(2), RWH, R))).caching, RH);
}

#[test]
fn a_break_deepens_while_under_way() {
    let (table, kept) = table();
    let holder = done(table.open(NOW, &wanting(lease(1), RWH, R | W)));
    let key = holder.claim.holder();
    let first = waits(table.open(NOW, &wanting(lease(2), CR, R)));
    let second = waits(table.open(NOW, &OpenRequest { overwrite: true, ..wanting(lease(3), CR, W) }));
    assert_eq!(breaks(&kept), vec![(key, RWH, RH, true)], "told once");
    assert_eq!(table.acknowledge(NOW, file(1), &key, RH), Ok(RH));
    let told = kept.take();
    let step = |effect: &Effect, step: (Caching, Caching)| matches!(effect, Effect::Break { from, to, epoch: 12, .. } if (*from, *to) == step);
    assert!(told.len() == 1 && step(&told[0], (RH, CR)), "the open before what was read; nobody goes on: {told:?}");
    assert_eq!(table.acknowledge(NOW, file(1), &key, RH), Err(AckError::TooMuch));
    assert_eq!(table.acknowledge(NOW, file(1), &key, CR), Ok(CR));
    let told = kept.take();
    assert!(step(&told[0], (CR, NONE)), "{told:?}");
    assert_eq!(told[1..], [Effect::Ready(first), Effect::Ready(second)]);
    assert_eq!(table.acknowledge(NOW, file(1), &key, NONE), Err(AckError::NotBreaking));
    assert_eq!(table.next_deadline(), None);
}

#[test]
fn a_break_that_deepened_ends_early_where_more_is_given_up() {
    let (table, kept) = table();
    let holder = done(table.open(NOW, &wanting(lease(1), RWH, R | W)));
    let key = holder.claim.holder();
    let first = waits(table.open(NOW, &wanting(lease(2), CR, R)));
    let second = waits(table.open(NOW, &OpenRequest { overwrite: true, ..wanting(lease(3), CR, W) }));
    kept.take();
    assert_eq!(table.acknowledge(NOW, file(1), &key, NONE), Ok(NONE));
    assert_eq!(kept.take(), vec![Effect::Ready(first), Effect::Ready(second)]);
}

#[test]
fn a_deepened_break_that_is_never_acknowledged_lets_the_waiting_go_on() {
    let (table, kept) = table();
    let holder = done(table.open(NOW, &wanting(lease(1), RWH, R | W)));
    let key = holder.claim.holder();
    waits(table.open(NOW, &wanting(lease(2), CR, R)));
    waits(table.open(NOW, &OpenRequest { overwrite: true, ..wanting(lease(3), CR, W) }));
    let later = NOW.after_ms(10_000);
    assert_eq!(table.acknowledge(later, file(1), &key, RH), Ok(RH));
    kept.take();
    assert_eq!(table.next_deadline(), Some(later.after_ms(35_000)), "it has its own time");
    table.expire(later.after_ms(35_000));
    assert_eq!(kept.take().iter().filter(|effect| matches!(effect, Effect::Ready(_))).count(), 2);
}

#[test]
fn a_break_not_acknowledged_in_time_is_revoked() {
    let (table, kept) = table();
    let holder = done(table.open(NOW, &wanting(Identity::Open, RWH, R | W)));
    let key = holder.claim.holder();
    let ticket = waits(table.open(NOW, &request(R, ALL)));
    let deadline = table.next_deadline().expect("set");
    kept.take();
    table.expire(Instant(deadline.0 - 1));
    assert_eq!(kept.take(), vec![]);
    table.expire(deadline);
    let revoked = Effect::Revoked { file: file(1), holder: key, owner: Owner(5) };
    assert_eq!(kept.take(), vec![revoked, Effect::Ready(ticket)]);
    assert_eq!(table.next_deadline(), None);
    assert_eq!(table.acknowledge(deadline, file(1), &key, CR), Err(AckError::Revoked));
    assert!(table.grant_state(file(1), &key).is_some_and(|state| state.revoked && state.caching == NONE));
    let _other = open(&table, R, ALL).expect("free");
}

#[test]
fn a_cached_open_is_asked_to_close_before_a_share_violation() {
    let (table, kept) = table();
    let holder = OpenRequest { share: ShareKinds::READ, ..wanting(lease(1), RH, R) };
    let holder = done(table.open(NOW, &holder));
    let key = holder.claim.holder();
    let ticket = waits(table.open(NOW, &request(W, ALL)));
    assert_eq!(breaks(&kept), vec![(key, RH, CR, true)]);
    // One client closes, another one only acknowledges.
    drop(holder);
    assert_eq!(kept.take(), vec![Effect::Ready(ticket)]);
    drop(open(&table, W, ALL).expect("free"));

    let holder = done(table.open(NOW, &OpenRequest { share: ShareKinds::READ, ..wanting(lease(1), RH, R) }));
    waits(table.open(NOW, &request(W, ALL)));
    assert_eq!(table.acknowledge(NOW, file(1), &key, CR), Ok(CR));
    assert_eq!(open(&table, W, ALL).err(), Some(Denied::ShareViolation));
    drop(holder);
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn a_lease_is_upgraded_but_never_downgraded_by_an_open() {
    let table = Table::new();
    let one = done(table.open(NOW, &wanting(lease(1), CR, R)));
    assert_eq!((one.caching, one.epoch), (CR, 11));
    let two = done(table.open(NOW, &wanting(lease(1), RWH, R)));
    assert_eq!((two.caching, two.epoch), (RWH, 12), "its own opens do not count");
    let three = done(table.open(NOW, &wanting(lease(1), CR, R)));
    assert_eq!((three.caching, three.epoch), (RWH, 12));
    let four = done(table.open(NOW, &wanting(lease(1), NONE, R)));
    assert_eq!(four.caching, RWH);
}

#[test]
fn writing_ends_other_readers_caches_and_every_level_two_oplock() {
    let (table, kept) = table();
    let one = done(table.open(NOW, &wanting(Identity::Open, CR, R | W))).claim;
    let two = done(table.open(NOW, &wanting(lease(1), CR, R | W))).claim;
    let three = done(table.open(NOW, &wanting(lease(2), CR, R))).claim;
    assert!(matches!(two.prepare(NOW, Change::Write), Ok(Outcome::Done(()))));
    assert_eq!(breaks(&kept), vec![(one.holder(), CR, NONE, false), (three.holder(), CR, NONE, false)]);
    drop((two, three));
    drop(one);
    let level_two = done(table.open(NOW, &wanting(Identity::Open, CR, R | W))).claim;
    assert!(matches!(level_two.prepare(NOW, Change::Write), Ok(Outcome::Done(()))));
    assert_eq!(breaks(&kept), vec![(level_two.holder(), CR, NONE, false)], "its own too");
}

#[test]
fn nobody_who_looks_at_attributes_breaks_anything() {
    let (table, kept) = table();
    let holder = done(table.open(NOW, &wanting(lease(1), RWH, R | W)));
    let look = done(table.open(NOW, &wanting(lease(2), RWH, AccessKinds::empty())));
    assert_eq!((kept.take(), look.caching), (vec![], NONE));
    drop((holder, look));
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn byte_ranges_keep_read_caches_away() {
    let table = Table::new();
    let holder = open(&table, R, ALL).expect("holder");
    holder.lock(&[LockRange { offset: 0, len: 1, exclusive: false }], false).expect("held");
    assert_eq!(done(table.open(NOW, &wanting(lease(1), RWH, R))).caching, NONE);
    assert_eq!(done(table.open(NOW, &wanting(Identity::Open, CR, R))).caching, NONE);
}

#[test]
fn a_delegation_outlives_its_open_and_meets_smb() {
    let (table, kept) = table();
    let client = Identity::Client(3);
    let key = HolderKey::Client(3);
    drop(done(table.open(NOW, &wanting(client, RW, R | W))));
    assert_eq!(table.grant_state(file(1), &key).map(|state| state.caching), Some(RW));
    let own = OpenRequest { momentary: true, ..wanting(client, NONE, R) };
    drop(done(table.open(NOW, &own)));
    assert_eq!(kept.take(), vec![], "no client recalls its own");
    let ticket = waits(table.open(NOW, &request(R, ALL)));
    assert_eq!(breaks(&kept), vec![(key, RW, NONE, true)]);
    assert!(table.give_back(NOW, file(1), &key));
    assert_eq!(kept.take(), vec![Effect::Ready(ticket)]);
    assert_eq!((table.stats(), table.next_deadline()), (Stats::default(), None));
    assert!(!table.give_back(NOW, file(1), &key));
}

#[test]
fn a_v3_write_waits_for_a_write_lease() {
    let (table, kept) = table();
    let holder = done(table.open(NOW, &wanting(lease(1), RWH, R | W))).claim;
    let write = OpenRequest { momentary: true, ..request(W, ALL) };
    let ticket = waits(table.open(NOW, &write));
    assert_eq!(breaks(&kept), vec![(holder.holder(), RWH, NONE, true)]);
    table.acknowledge(NOW, file(1), &holder.holder(), NONE).expect("breaking");
    assert_eq!(kept.take(), vec![Effect::Ready(ticket)]);
    drop(done(table.open(NOW, &write)));
}

/// Whoever waits is woken, nobody caches writes beside others, and nothing is left at the end.
#[test]
fn seeded_interleavings_of_grants_keep_the_promises() {
    for seed in 0..150 {
        let (table, kept) = table();
        let (mut dice, mut now) = (Dice(seed), NOW);
        let mut claims: Vec<OpenClaim> = Vec::new();
        let mut waiting = BTreeSet::new();
        let mut early = BTreeSet::new();
        let mut breaking: Vec<(HolderKey, Caching)> = Vec::new();
        for _ in 0..400 {
            now = now.after_ms(dice.below(2_000) as u64);
            match dice.below(8) {
                0..4 => {
                    let identity = match dice.below(4) {
                        0 => Identity::Open,
                        1 => Identity::Client(dice.below(2) as u64),
                        _ => lease(dice.below(3) as u8),
                    };
                    let want = Caching::from_bits_truncate(dice.below(8) as u8);
                    let access = AccessKinds::from_bits_truncate(dice.below(8) as u8);
                    let overwrite = dice.below(6) == 0;
                    let share = if dice.below(4) == 0 { ShareKinds::READ } else { ALL };
                    let request = OpenRequest { overwrite, share, ..wanting(identity, want, access) };
                    match table.open(now, &request) {
                        Ok(Outcome::Done(opened)) => claims.push(opened.claim),
                        Ok(Outcome::Wait(ticket)) => drop(waiting.insert(ticket)),
                        Err(_) => (),
                    }
                }
                4 if !claims.is_empty() => drop(claims.swap_remove(dice.below(claims.len()))),
                5 if !claims.is_empty() => {
                    let change = [Change::Write, Change::Rename, Change::Delete][dice.below(3)];
                    if let Ok(Outcome::Wait(ticket)) = claims[dice.below(claims.len())].prepare(now, change) {
                        waiting.insert(ticket);
                    }
                }
                6 if !breaking.is_empty() => {
                    let (holder, to) = breaking.swap_remove(dice.below(breaking.len()));
                    // It may have closed or been revoked meanwhile; that is not this test's matter.
                    let _ = table.acknowledge(now, file(1), &holder, to);
                }
                _ => table.expire(now),
            }
            settle(&kept, &mut waiting, &mut early, &mut breaking);
            check_promises(&table, &claims, seed);
            if table.next_deadline().is_none() {
                assert!(waiting.is_empty(), "waits for nothing, seed {seed}");
            }
        }
        drop(claims);
        table.expire(Instant(u64::MAX));
        for client in 0..2 {
            table.give_back(now, file(1), &HolderKey::Client(client));
        }
        settle(&kept, &mut waiting, &mut early, &mut breaking);
        assert!(waiting.is_empty() && early.is_empty(), "seed {seed}");
        assert_eq!((table.stats(), table.next_deadline()), (Stats::default(), None), "seed {seed}");
    }
}

fn settle(
    kept: &Kept,
    waiting: &mut BTreeSet<Ticket>,
    early: &mut BTreeSet<Ticket>,
    breaking: &mut Vec<(HolderKey, Caching)>,
) {
    for effect in kept.take() {
        match effect {
            Effect::Ready(ticket) if !waiting.remove(&ticket) => drop(early.insert(ticket)),
            Effect::Break { holder, to, deadline: Some(_), .. } => breaking.push((holder, to)),
            _ => (),
        }
    }
}

fn check_promises(table: &Table, claims: &[OpenClaim], seed: u64) {
    let keys: BTreeSet<HolderKey> = claims.iter().map(OpenClaim::holder).collect();
    let held = |key: &HolderKey| table.grant_state(file(1), key).unwrap_or_default();
    let writers: Vec<_> = keys.iter().filter(|key| held(key).caching.contains(Caching::WRITE)).collect();
    assert!(writers.len() <= 1, "{writers:?}, seed {seed}");
    if let Some(writer) = writers.first() {
        let beside = claims.iter().any(|claim| claim.holder() != **writer && !claim.access().is_empty());
        assert!(!beside, "somebody else is let in beside a write cache, seed {seed}");
    }
}

/// Whoever has all there is need not be looked at before a change of its own, and everybody else must.
#[test]
fn only_who_has_all_grants_is_alone() {
    let (table, kept) = table();
    let first = done(table.open(NOW, &wanting(lease(1), RH, R))).claim;
    let same = done(table.open(NOW, &wanting(lease(1), RH, R | W))).claim;
    let plain = open(&table, R | W, ALL).unwrap();
    assert_eq!([&first, &same, &plain].map(|claim| claim.is_contended()), [false, false, true]);
    let second = done(table.open(NOW, &wanting(lease(2), RH, R))).claim;
    assert_eq!([&first, &same, &second].map(|claim| claim.is_contended()), [true; 3]);
    // The write of one breaks what the other has, and is asked about while it does.
    let _ = same.prepare(NOW, Change::Write).unwrap();
    assert_eq!(breaks(&kept).len(), 1);
    let _ = second.close();
    assert_eq!([&first, &same, &plain].map(|claim| claim.is_contended()), [false, false, true]);
    let (_, _) = (first.close(), same.close());
    // One that comes later is another.
    let third = done(table.open(NOW, &wanting(lease(3), RH, R))).claim;
    let fourth = done(table.open(NOW, &wanting(lease(4), CR, R))).claim;
    assert_eq!([&third, &fourth].map(|claim| claim.is_contended()), [true; 2]);
    let _ = third.close();
    assert!(!fourth.is_contended());
}

/// The write of a level II oplock's own holder ends it, so that it is never alone.
#[test]
fn an_oplock_that_its_own_write_breaks_is_always_looked_at() {
    let (table, kept) = table();
    let claim = done(table.open(NOW, &wanting(Identity::Open, CR, R | W))).claim;
    assert!(claim.is_contended());
    assert!(matches!(claim.prepare(NOW, Change::Write), Ok(Outcome::Done(()))));
    assert_eq!(breaks(&kept).len(), 1);
}
