//! Seeded interleavings of everything that does not wait, each step compared with a model that keeps plain lists and
//! reads like the specification.

use super::*;
use crate::{LockOwner, LockRange, Owner, Stats};

const FILES: u64 = 3;

struct ModelOpen {
    file: u64,
    access: AccessKinds,
    share: ShareKinds,
    delete_on_close: bool,
    claim: OpenClaim,
}

struct ModelLock {
    file: u64,
    owner: LockOwner,
    range: LockRange,
}

#[derive(Default)]
struct Model {
    opens: Vec<ModelOpen>,
    locks: Vec<ModelLock>,
    pending: [bool; FILES as usize],
}

impl Model {
    fn open_result(&self, ino: u64, access: AccessKinds, share: ShareKinds) -> Option<Denied> {
        if self.pending[ino as usize] {
            return Some(Denied::DeletePending);
        }
        let clash = |held: &ModelOpen| {
            let (wanted, granted) = (access.bits(), held.access.bits());
            wanted != 0 && granted != 0 && (wanted & !held.share.bits() != 0 || granted & !share.bits() != 0)
        };
        self.opens.iter().filter(|held| held.file == ino).any(clash).then_some(Denied::ShareViolation)
    }

    /// MS-FSA 2.1.4.10, word for word.
    fn blocked(&self, ino: u64, owner: LockOwner, range: LockRange, lock_intent: bool) -> bool {
        let last = |offset: u64, len: u64| i128::from(offset) + i128::from(len) - 1;
        if range.offset == 0 && range.len == 0 {
            return false;
        }
        self.locks.iter().filter(|lock| lock.file == ino).any(|lock| {
            let held = lock.range;
            if held.offset == 0 && held.len == 0 {
                return false;
            }
            let overlap = i128::from(range.offset) <= last(held.offset, held.len)
                && last(range.offset, range.len) >= i128::from(held.offset);
            overlap
                && if held.exclusive { lock.owner != owner || range.exclusive && lock_intent } else { range.exclusive }
        })
    }

    /// Closes an open, or drops it: then what it asked for itself is forgotten, and what was asked for before is not.
    fn close(&mut self, index: usize, dropped: bool, kept: &Kept) {
        let open = self.opens.swap_remove(index);
        let owner = LockOwner::Open(open.claim.id());
        let ino = open.file as usize;
        self.locks.retain(|lock| lock.file != open.file || lock.owner != owner);
        self.pending[ino] |= open.delete_on_close && !dropped;
        let last = !self.opens.iter().any(|other| other.file == open.file);
        if dropped {
            drop(open.claim);
            assert_eq!(kept.orphans().len(), usize::from(last && self.pending[ino]));
        } else {
            let closed = open.claim.close();
            assert_eq!(closed.last, last);
            assert_eq!(closed.delete.is_some(), last && self.pending[ino]);
        }
        self.pending[ino] &= !last;
    }
}

fn range(dice: &mut Dice) -> LockRange {
    let offset = if dice.below(8) == 0 { u64::MAX - 8 } else { 0 } + dice.below(9) as u64;
    let len = (dice.below(7) as u64).min((u64::MAX - offset).saturating_add(1));
    LockRange { offset, len, exclusive: dice.below(2) == 0 }
}

fn step((table, kept): &(Table, Arc<Kept>), model: &mut Model, dice: &mut Dice) {
    let ino = dice.below(FILES as usize) as u64;
    if model.opens.is_empty() || dice.below(6) == 0 {
        let bits = dice.below(64) as u8;
        let access = AccessKinds::from_bits_truncate(bits);
        // Mostly shared, or hardly anything would ever be open twice.
        let share = if dice.below(3) == 0 { ShareKinds::from_bits_truncate(bits >> 3) } else { ALL };
        let delete_on_close = dice.below(8) == 0;
        let request = OpenRequest { delete_on_close, ..OpenRequest::new(file(ino), access, share) };
        let expected = model.open_result(ino, access, share);
        let got = table.open(NOW, &request);
        assert_eq!(got.as_ref().err(), expected.as_ref());
        if let Some(opened) = got.ok().and_then(Outcome::done) {
            model.opens.push(ModelOpen { file: ino, access, share, delete_on_close, claim: opened.claim });
        }
        return;
    }
    let index = dice.below(model.opens.len());
    let open = &model.opens[index];
    let (ino, owner) = (open.file, LockOwner::Open(open.claim.id()));
    let range = range(dice);
    match dice.below(12) {
        0 => model.close(index, dice.below(3) == 0, kept),
        1 => {
            let pending = dice.below(3) == 0;
            open.claim.set_delete_pending(pending, None);
            model.pending[ino as usize] = pending;
        }
        2..5 => {
            let blocked = model.blocked(ino, owner, range, true);
            assert_eq!(open.claim.lock(&[range], false).is_err(), blocked, "{range:?}");
            if !blocked {
                model.locks.push(ModelLock { file: ino, owner, range });
            }
        }
        5..8 => {
            let same = |lock: &&ModelLock| {
                lock.file == ino
                    && lock.owner == owner
                    && (lock.range.offset, lock.range.len) == (range.offset, range.len)
            };
            let at = model.locks.iter().position(|lock| same(&lock) && lock.range.exclusive);
            let at = at.or_else(|| model.locks.iter().position(|lock| same(&lock)));
            assert_eq!(open.claim.unlock(range.offset, range.len).is_ok(), at.is_some());
            at.map(|at| model.locks.remove(at));
        }
        8 => {
            let others = model.opens.iter().enumerate().filter(|(other, held)| *other != index && held.file == ino);
            let kept =
                others.into_iter().any(|(_, held)| !held.access.is_empty() && !held.share.contains(ShareKinds::DELETE));
            assert_eq!(open.claim.check_remove().is_err(), kept);
        }
        _ => {
            let blocked = range.len > 0 && model.blocked(ino, owner, range, false);
            let got = if range.exclusive {
                open.claim.check_write(range.offset, range.len)
            } else {
                open.claim.check_read(range.offset, range.len)
            };
            assert_eq!(got.is_err(), blocked, "{range:?}");
        }
    }
}

#[test]
fn seeded_interleavings_agree_with_the_model() {
    for seed in 0..60 {
        let (table, mut model, mut dice) = (table(), Model::default(), Dice(seed));
        for _ in 0..1_500 {
            step(&table, &mut model, &mut dice);
            let mut stats = table.0.stats();
            stats.files = 0;
            let expected = Stats { files: 0, opens: model.opens.len(), locks: model.locks.len(), holders: 0 };
            assert_eq!(stats, expected, "seed {seed}");
        }
        while !model.opens.is_empty() {
            model.close(0, false, &table.1);
        }
        assert_eq!(table.0.stats(), Stats::default(), "seed {seed}");
    }
}

/// Each owner's hold on each byte: none, shared or exclusive.
type Bytes = [[Option<bool>; 24]; 3];

#[test]
fn posix_ranges_agree_with_a_model_of_bytes() {
    for seed in 0..100 {
        let (table, mut dice) = (Table::new(), Dice(seed));
        let mut bytes: Bytes = Default::default();
        for _ in 0..400 {
            let me = dice.below(3);
            let offset = dice.below(20);
            let len = 1 + dice.below(4);
            let exclusive = dice.below(2) == 0;
            let range = LockRange { offset: offset as u64, len: len as u64, exclusive };
            let span = offset..offset + len;
            let blocked = (0..3)
                .filter(|other| *other != me)
                .any(|other| bytes[other][span.clone()].iter().flatten().any(|held| *held || exclusive));
            let owner = Owner(me as u64);
            assert_eq!(table.test_posix(file(1), owner, range).is_some(), blocked, "seed {seed}");
            if dice.below(2) == 0 {
                table.unlock_posix(file(1), owner, range).expect("valid");
                bytes[me][span].fill(None);
            } else {
                assert_eq!(table.lock_posix(file(1), owner, range, false).is_err(), blocked, "seed {seed}");
                if !blocked {
                    bytes[me][span].fill(Some(exclusive));
                }
            }
            let runs: usize = bytes.iter().map(runs).sum();
            assert_eq!(table.stats().locks, runs, "split and merged as far as can be, seed {seed}");
        }
        (0..3).for_each(|owner| table.release_posix(file(1), Owner(owner)));
        assert_eq!(table.stats(), Stats::default());
    }
}

fn runs(bytes: &[Option<bool>; 24]) -> usize {
    let starts = |at: usize| bytes[at].is_some() && (at == 0 || bytes[at - 1] != bytes[at]);
    (0..bytes.len()).filter(|at| starts(*at)).count()
}
