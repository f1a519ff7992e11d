//! Share modes and deletion as stories.

use std::sync::Arc;

use super::*;
use crate::{Change, Identity, Stats};

#[test]
fn an_entry_lives_as_long_as_its_claims() {
    let table = Table::new();
    assert_eq!(table.stats(), Stats::default());
    let one = open(&table, R, ALL).expect("first");
    let two = open(&table, R | W, ALL).expect("second");
    assert_eq!(table.open_count(file(1)), 2);
    assert_eq!(table.stats().files, 1);
    let closed = one.close();
    assert!(!closed.last && closed.delete.is_none());
    let closed = two.close();
    assert!(closed.last && closed.delete.is_none());
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn a_refused_open_leaves_nothing() {
    let table = Table::new();
    let one = open(&table, W, ShareKinds::READ).expect("first");
    assert_eq!(open(&table, W, ALL).err(), Some(Denied::ShareViolation));
    assert_eq!(open(&table, R, ShareKinds::READ).err(), Some(Denied::ShareViolation), "does not share the write");
    let reader = open(&table, R, ALL).expect("reader that shares all");
    drop((one, reader));
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn an_open_for_attributes_neither_checks_nor_contributes() {
    let table = Table::new();
    let all = open(&table, R | W | D, ShareKinds::empty()).expect("exclusive");
    let look = open(&table, AccessKinds::empty(), ShareKinds::empty()).expect("attributes");
    assert!(all.check_remove().is_ok());
    drop(all);
    let again = open(&table, R | W | D, ShareKinds::empty()).expect("exclusive beside attributes");
    drop((look, again));
}

#[test]
fn delete_on_close_takes_effect_when_its_open_closes_and_the_last_one_deletes() {
    let table = Table::new();
    let doomed = OpenRequest { delete_on_close: true, ..request(R | D, ALL) };
    let doomed = done(table.open(NOW, &doomed)).claim;
    let other = open(&table, R, ALL).expect("not pending yet");
    assert!(!other.delete_pending());

    let closed = doomed.close_noting(Arc::new("by this name")).unwrap();
    assert!(!closed.last && closed.delete.is_none());
    assert!(other.delete_pending() && table.is_delete_pending(file(1)));
    assert_eq!(open(&table, R, ALL).err(), Some(Denied::DeletePending));
    assert_eq!(open(&table, AccessKinds::empty(), ALL).err(), Some(Denied::DeletePending));

    let closed = other.close();
    assert!(closed.last);
    let deletion = closed.delete.expect("the last one deletes");
    assert_eq!(deletion.note().and_then(|note| note.downcast_ref::<&str>()), Some(&"by this name"));
    assert_eq!(open(&table, R, ALL).err(), Some(Denied::DeletePending), "until it is gone");
    drop(deletion);
    assert_eq!(table.stats(), Stats::default());
    assert!(open(&table, R, ALL).is_ok());
}

#[test]
fn delete_pending_is_taken_back() {
    let table = Table::new();
    let one = open(&table, D, ALL).expect("one");
    let two = open(&table, D, ALL).expect("two");
    one.set_delete_pending(true, None);
    assert_eq!(open(&table, R, ALL).err(), Some(Denied::DeletePending));
    two.set_delete_pending(false, None);
    let three = open(&table, R, ALL).expect("three");
    assert!(one.close().delete.is_none() && two.close().delete.is_none() && three.close().delete.is_none());
}

#[test]
fn delete_on_close_is_taken_back() {
    let table = Table::new();
    let claim = done(table.open(NOW, &OpenRequest { delete_on_close: true, ..request(D, ALL) })).claim;
    claim.set_delete_on_close(false);
    assert!(claim.close().delete.is_none());
}

#[test]
fn a_dropped_claim_asks_for_no_deletion() {
    let (table, kept) = table();
    drop(done(table.open(NOW, &OpenRequest { delete_on_close: true, ..request(D, ALL) })).claim);
    assert!(kept.orphans().is_empty());
    assert!(open(&table, D, ALL).is_ok());
}

#[test]
fn a_deletion_that_was_promised_outlives_a_claim_that_is_dropped() {
    let (table, kept) = table();
    let doomed = OpenRequest { delete_on_close: true, ..request(R | D, ALL) };
    let doomed = done(table.open(NOW, &doomed)).claim;
    let waiting = open(&table, AccessKinds::empty(), ALL).expect("not pending yet");
    assert!(doomed.close_noting(Arc::new("by this name")).unwrap().delete.is_none());
    drop(waiting);
    let deletion = kept.orphans().pop().expect("somebody has to delete it");
    assert_eq!(deletion.note().and_then(|note| note.downcast_ref::<&str>()), Some(&"by this name"));
    assert_eq!(open(&table, R, ALL).err(), Some(Denied::DeletePending), "until it is gone");
    drop(deletion);
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn removing_asks_the_share_modes_of_the_others() {
    let table = Table::new();
    assert!(table.check_remove(file(1)).is_ok());
    let own = open(&table, R | D, ShareKinds::READ).expect("own");
    assert!(own.check_remove().is_ok());
    assert_eq!(table.check_remove(file(1)), Err(Denied::ShareViolation));
    drop(own);
    let shy = open(&table, R, ShareKinds::READ | ShareKinds::WRITE).expect("shares no delete");
    assert_eq!(table.check_remove(file(1)), Err(Denied::ShareViolation));
    let other = open(&table, W, ALL).expect("other");
    assert_eq!(other.check_remove(), Err(Denied::ShareViolation));
    drop(shy);
    assert!(other.check_remove().is_ok() && table.check_remove(file(1)).is_ok());
}

#[test]
fn a_momentary_open_obeys_share_modes_and_is_no_open() {
    let table = Table::new();
    let momentary = |access| OpenRequest { momentary: true, ..request(access, ALL) };
    let deny_write = open(&table, R | D, ShareKinds::READ | ShareKinds::DELETE).expect("deny write");
    assert_eq!(table.open(NOW, &momentary(W)).err(), Some(Denied::ShareViolation));
    deny_write.set_delete_pending(true, None);
    let read = done(table.open(NOW, &momentary(R))).claim;
    assert_eq!(table.open_count(file(1)), 1);
    let closed = deny_write.close();
    assert!(closed.last && closed.delete.is_some(), "an I/O under way does not put off the deletion");
    drop(closed);
    assert!(read.close().delete.is_none());
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn a_mode_is_changed_only_where_the_others_allow() {
    let table = Table::new();
    let one = open(&table, R, ALL).expect("one");
    let two = open(&table, R, ShareKinds::READ).expect("two");
    assert_eq!(one.reshare(R | W, ALL), Err(Denied::ShareViolation));
    assert_eq!((one.access(), one.share()), (R, ALL));
    drop(two);
    assert_eq!(one.reshare(R | W, ShareKinds::READ), Ok(()));
    assert_eq!(open(&table, R, ShareKinds::READ).err(), Some(Denied::ShareViolation));
    assert_eq!(one.reshare(R, ALL), Ok(()));
    assert!(open(&table, R, ShareKinds::READ).is_ok());
    drop(one);
    assert_eq!(table.stats(), Stats::default());
}

#[test]
fn asking_about_a_file_nobody_has_leaves_nothing() {
    let (table, kept) = table();
    assert!(matches!(table.prepare(NOW, file(9), Change::Write, Identity::Client(1)), Ok(Outcome::Done(()))));
    assert!(!table.is_delete_pending(file(9)) && !table.cancel(file(9), Ticket(1)));
    assert_eq!((table.stats(), kept.take()), (Stats::default(), vec![]));
}

#[test]
fn a_claim_stays_small_and_goes_to_any_thread() {
    fn any_thread<T: Send + Sync + 'static>() {}
    any_thread::<(Table, OpenClaim, crate::Deletion)>();
    assert!(size_of::<OpenClaim>() <= 56, "{}", size_of::<OpenClaim>());
    assert!(size_of::<crate::file::File>() <= 160, "{}", size_of::<crate::file::File>());
}
