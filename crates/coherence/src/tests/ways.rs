//! Delegations beside the other grants: their effects go to the server that gave them, they are waited for longer, and
//! holders that nobody has heard of for long give way before anybody is refused.

use super::*;
use crate::{Caching, GivesWay, GrantRequest, HolderKey, Identity, LockError, LockOutcome, LockRange, Owner};

const RECALL_MS: u64 = 90_000;

/// Holds claims until somebody minds them.
#[derive(Default)]
struct Silent {
    claims: Mutex<Vec<OpenClaim>>,
    locks: Mutex<Option<(Table, Owner)>>,
    asked: Mutex<usize>,
}

impl GivesWay for Silent {
    fn give_way(&self, file: FileId) -> bool {
        *self.asked.lock() += 1;
        let locks = self.locks.lock().take();
        if let Some((table, owner)) = &locks {
            table.release_posix(file, *owner);
        }
        let claims = std::mem::take(&mut *self.claims.lock());
        !claims.is_empty() || locks.is_some()
    }
}

fn served() -> (Table, Arc<Kept>, Arc<Kept>, Arc<Silent>) {
    let (table, own) = table();
    let (delegations, silent): (Arc<Kept>, Arc<Silent>) = Default::default();
    table.serve_delegations(Arc::clone(&delegations) as _, Arc::clone(&silent) as _, RECALL_MS);
    (table, own, delegations, silent)
}

#[test]
fn who_is_silent_gives_way_before_anybody_is_refused() {
    let (table, _, _, silent) = served();
    let held = open(&table, R | W, ShareKinds::READ).unwrap();
    assert_eq!(open(&table, W, ALL).err(), Some(Denied::ShareViolation), "it is not silent");
    silent.claims.lock().push(held);
    let held = open(&table, W, ShareKinds::empty()).unwrap();
    assert_eq!(table.check_remove(file(1)), Err(Denied::ShareViolation));
    silent.claims.lock().push(held);
    assert_eq!(table.check_remove(file(1)), Ok(()));
    let asked = *silent.asked.lock();
    open(&table, R, ALL).unwrap();
    assert_eq!(*silent.asked.lock(), asked, "nobody is asked where nobody is in the way");
}

#[test]
fn ranges_of_the_silent_give_way_to_both_flavours() {
    let (table, _, _, silent) = served();
    let range = LockRange { offset: 0, len: 10, exclusive: true };
    let claim = open(&table, R | W, ALL).unwrap();
    let hold = || {
        table.lock_posix(file(1), Owner(1), range, false).unwrap();
        *silent.locks.lock() = Some((table.clone(), Owner(1)));
    };
    hold();
    claim.lock(&[range], false).expect("it gave way");
    claim.unlock(0, 10).unwrap();
    hold();
    table.lock_posix(file(1), Owner(2), range, false).expect("it gave way");
    let refused = table.lock_posix(file(1), Owner(3), range, false);
    assert!(matches!(refused, Err(LockError::Conflict(_))), "the other one is not silent");
    assert!(table.holds_posix(file(1), Owner(2)) && !table.holds_posix(file(1), Owner(1)));
}

#[test]
fn delegations_have_their_own_sink_and_patience() {
    let (table, own, delegations, _) = served();
    let client =
        |want| OpenRequest { identity: Identity::Client(9), grant: GrantRequest { want, epoch: 0 }, ..request(R, ALL) };
    let opened = done(table.open(NOW, &client(Caching::READ)));
    assert_eq!(opened.caching, Caching::READ);
    waits(table.open(NOW, &request(W, ALL)));
    assert!(own.take().is_empty());
    let limits = Limits::default();
    let deadline = NOW.after_ms(RECALL_MS);
    assert!(RECALL_MS > limits.break_deadline_ms);
    let told = delegations.take();
    assert!(
        matches!(told[..], [Effect::Break { holder: HolderKey::Client(9), deadline: Some(at), .. }] if at == deadline)
    );
    table.expire(NOW.after_ms(limits.break_deadline_ms));
    assert!(delegations.take().is_empty(), "too early");
    table.expire(deadline);
    assert!(matches!(delegations.take()[..], [Effect::Revoked { holder: HolderKey::Client(9), .. }]));
    assert!(matches!(own.take()[..], [Effect::Ready(_)]), "who waited is told as ever");
}

#[test]
fn a_mode_is_not_changed_behind_a_close() {
    let (table, ..) = served();
    let claim = Arc::new(open(&table, R, ALL).unwrap());
    assert!(claim.close_shared().is_some_and(|closed| closed.last && closed.delete.is_none()));
    assert!(claim.close_shared().is_none(), "closed once");
    claim.reshare(R | W, ShareKinds::empty()).unwrap();
    assert!(open(&table, W, ShareKinds::empty()).is_ok(), "nothing of it is left");
}

#[test]
fn waits_for_ranges_are_told_to_whoever_serves_that_flavour() {
    let (table, own, delegations, _) = served();
    let range = LockRange { offset: 0, len: 10, exclusive: true };
    let wait = |owner| match table.lock_posix(file(1), owner, range, true).unwrap() {
        LockOutcome::Wait(ticket) => ticket,
        LockOutcome::Held => panic!("it is held by another"),
    };
    assert_eq!(table.lock_posix(file(1), Owner(1), range, true), Ok(LockOutcome::Held));
    let (second, third) = (wait(Owner(2)), wait(Owner(3)));
    let claim = open(&table, R | W, ALL).unwrap();
    let Ok(LockOutcome::Wait(windows)) = claim.lock(&[range], true) else { panic!("it is held by another") };
    table.release_posix(file(1), Owner(1));
    assert_eq!(delegations.take(), [Effect::Granted(second)]);
    table.release_posix(file(1), Owner(3));
    assert_eq!(delegations.take(), [Effect::Abandoned(third)]);
    assert!(own.take().is_empty());
    table.release_posix(file(1), Owner(2));
    assert_eq!(own.take(), [Effect::Granted(windows)]);
    assert!(delegations.take().is_empty());
}
