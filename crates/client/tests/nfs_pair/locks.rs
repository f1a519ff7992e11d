//! Byte ranges in every version: one client against another, one that gives up, a server that starts again, and one that
//! answers what it should not.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use client::{Client, File, NfsVersion, OpenHow};
use coherence::{AccessKinds, Instant, LockRange, OpenRequest, ShareKinds};
use nfs_wire::nfs4::OpNum;
use nfs_wire::nlm::{LockArgs, NlmProc, NlmStat, Res, Version, Versioned};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, Reader, to_vec};
use vfs::{Backend, Cred, Path, Wait};

use crate::hostile::{with_results, xid_of};
use crate::line::{Fate, Line, Way, call_of, ops_of};
use crate::world::World;
use crate::{in_each_version, join, story};

/// Whether a call locks.
fn locks(record: &[u8]) -> bool {
    is_nlm(record, NlmProc::Lock) || ops_of(record).contains(&OpNum::Lock)
}

fn is_nlm(record: &[u8], procedure: NlmProc) -> bool {
    let (program, _, number, _) = call_of(record);
    (program, number) == (program::NLM, procedure as u32)
}

async fn change(client: &Client) -> File {
    client.open_with("file", OpenHow::change()).await.unwrap()
}

/// Two clients of one server, and a file of both.
async fn two(line: &Line, version: NfsVersion) -> (File, File, Client) {
    let (client, other) = (join(line, version).await, join(line, version).await);
    client.write_at("file", 0, b"0123456789").await.unwrap();
    (change(&client).await, change(&other).await, other)
}

async fn is_free(file: &File) -> bool {
    let free = file.lock(0..u64::MAX, true, false).await.is_ok();
    file.unlock(0..u64::MAX).await.unwrap();
    free
}

#[test]
fn readers_share_and_a_writer_does_not() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let (one, other, _client) = two(&line, version).await;
        one.lock(0..10, false, false).await.unwrap();
        other.lock(5..15, false, false).await.unwrap();
        let error = other.lock(0..5, true, false).await.unwrap_err();
        assert!(error.to_string().contains("DENIED"), "{error}");
        assert!(error.hint().is_some());
        // Its own is made stronger where nobody else reads, and only there.
        one.lock(0..5, true, false).await.unwrap();
        assert!(one.lock(0..10, true, false).await.is_err());
        assert!(other.lock(0..1, false, false).await.is_err());
        assert!(one.lock(3..3, true, false).await.is_err(), "nothing is no range");
        // A part is given back.
        one.unlock(0..3).await.unwrap();
        other.lock(0..3, true, false).await.unwrap();
        assert!(other.lock(3..4, true, false).await.is_err());
        one.close().await.unwrap();
        other.lock(0..u64::MAX, true, false).await.unwrap();
        other.close().await.unwrap();
        assert_eq!(line.world().table.stats().files, 0, "nothing is left at the server");
    });
}

#[test]
fn what_a_windows_client_has_locked_is_waited_for() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let (one, ..) = two(&line, version).await;
        let (table, file) = {
            let world = line.world();
            let root = Cred { uid: 0, gid: 0, groups: [].into() };
            let path = Path::new(b"file").unwrap();
            let attr = world.fs.attr_at(&root, &*world.fs.root(), &path, Wait::Allowed).unwrap();
            (world.table.clone(), attr.id)
        };
        let request = OpenRequest::new(file, AccessKinds::READ | AccessKinds::WRITE, ShareKinds::all());
        let opened = table.open(Instant(0), &request).unwrap().done().unwrap();
        opened.claim.lock(&[LockRange { offset: 2, len: 3, exclusive: true }], false).unwrap();
        assert!(one.lock(4..6, false, false).await.is_err());
        one.lock(5..6, false, false).await.unwrap();
        let waiting = tokio::task::spawn_local(async move { one.lock(0..10, true, true).await.map(|()| one) });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished());
        opened.claim.unlock(2, 3).unwrap();
        waiting.await.unwrap().unwrap();
        assert!(opened.claim.lock(&[LockRange { offset: 0, len: 1, exclusive: false }], false).is_err());
    });
}

/// The answer comes when nobody waits for it any more.
#[test]
fn a_lock_that_nobody_waits_for_is_not_kept() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let (one, other, _client) = two(&line, version).await;
        one.lock(0..2, false, false).await.unwrap();
        line.round_trip.set(Duration::from_millis(100));
        let late = tokio::time::timeout(Duration::from_millis(50), one.lock(0..8, true, false)).await;
        assert!(late.is_err(), "it was to be given up");
        tokio::time::sleep(Duration::from_secs(1)).await;
        line.round_trip.set(Duration::ZERO);
        other.lock(2..8, true, false).await.unwrap();
        other.unlock(2..8).await.unwrap();
        // What it had before it has still, and as it was.
        other.lock(0..2, false, false).await.unwrap();
        assert!(other.lock(0..2, true, false).await.is_err());
        other.unlock(0..2).await.unwrap();
        one.unlock(0..2).await.unwrap();
        assert!(is_free(&other).await);
        one.close().await.unwrap();
    });
}

#[test]
fn who_gives_up_waiting_gets_no_lock_later() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let (one, other, client) = two(&line, version).await;
        one.lock(0..10, true, false).await.unwrap();
        for millis in 1..60 {
            let waiting = other.lock(0..10, true, true);
            assert!(tokio::time::timeout(Duration::from_millis(millis), waiting).await.is_err());
        }
        one.unlock(0..10).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(is_free(&one).await);
        other.close().await.unwrap();
        one.close().await.unwrap();
        drop(client);
        assert_eq!(line.world().table.stats().files, 0, "nothing is left at the server");
    });
}

/// The lock asked for next is had, whatever one that was given up comes to.
#[test]
fn a_lock_behind_one_that_was_given_up_stays() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let (one, other, _client) = two(&line, version).await;
        line.round_trip.set(Duration::from_millis(100));
        for millis in (10..400).step_by(13) {
            let given_up = tokio::time::timeout(Duration::from_millis(millis), one.lock(0..8, true, false)).await;
            one.lock(4..6, true, false).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(other.lock(5..6, true, false).await.is_err(), "after {millis} ms");
            assert_eq!(other.lock(0..4, true, false).await.is_ok(), given_up.is_err(), "after {millis} ms");
            other.unlock(0..10).await.unwrap();
            one.unlock(0..10).await.unwrap();
        }
    });
}

#[test]
fn a_lock_outlives_the_line() {
    in_each_version(|version| async move {
        for fate in [Fate::CutBefore, Fate::CutBehind] {
            let line = Line::new(World::new());
            let (one, other, _client) = two(&line, version).await;
            let mut fate = Some(fate);
            line.meddle(move |way, record| match way {
                Way::Call if locks(record) => fate.take().unwrap_or(Fate::Pass),
                _ => Fate::Pass,
            });
            one.lock(0..5, true, false).await.unwrap();
            assert!(other.lock(0..1, true, false).await.is_err());
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(other.lock(0..1, true, false).await.is_err());
            one.write_at(0, b"xyz").await.unwrap();
            one.unlock(0..5).await.unwrap();
            other.lock(0..5, true, false).await.unwrap();
        }
    });
}

/// The line is cut before the first call that is one of these.
fn cut_once(line: &Line, mut is_one: impl FnMut(&[u8]) -> bool + 'static) {
    let mut is_cut = false;
    line.meddle(move |way, record| {
        let cuts = way == Way::Call && !is_cut && is_one(record);
        is_cut |= cuts;
        if cuts { Fate::CutBefore } else { Fate::Pass }
    });
}

#[test]
fn a_server_that_starts_again_gives_its_locks_to_whom_had_them() {
    story(async {
        let line = Line::new(World::new());
        let (one, other, _client) = two(&line, NfsVersion::V3).await;
        one.lock(0..5, true, false).await.unwrap();
        line.world().start_anew();
        cut_once(&line, |_| true);
        // Nobody does anything: the client finds out by itself.
        tokio::time::sleep(Duration::from_secs(40)).await;
        let claims = |record: &Vec<u8>| is_nlm(record, NlmProc::Lock) && lock_args(record, |args| args.reclaim);
        assert!(line.calls.borrow().iter().any(claims), "it is claimed as held before");
        // The other one's line leads to the server that is no more.
        cut_once(&line, |_| true);
        // Who had nothing must wait for the time of claims to be over.
        let waiting = tokio::task::spawn_local(async move { other.lock(6..7, true, true).await.map(|()| other) });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished(), "the server is in its grace period");
        line.world().clock.advance(Duration::from_secs(100));
        let other = waiting.await.unwrap().unwrap();
        assert!(other.lock(0..1, true, false).await.is_err(), "the lock is there again");
        one.write_at(0, b"mine").await.unwrap();
        one.unlock(0..5).await.unwrap();
        other.lock(0..1, true, false).await.unwrap();
    });
}

#[test]
fn a_lock_that_went_to_another_is_lost_and_that_is_said() {
    story(async {
        let line = Line::new(World::new());
        let (one, other, _client) = two(&line, NfsVersion::V3).await;
        one.lock(0..5, true, false).await.unwrap();
        // No grace period: the server remembers nobody.
        line.world().hosts.0.lock().unwrap().clear();
        line.world().start_anew();
        // The first to notice is the one that has nothing, the next the one that had it.
        cut_once(&line, |record| is_nlm(record, NlmProc::Lock));
        other.lock(0..5, true, false).await.unwrap();
        cut_once(&line, |record| is_nlm(record, NlmProc::Null));
        tokio::time::sleep(Duration::from_secs(40)).await;
        let error = one.write_at(0, b"mine").await.unwrap_err();
        assert!(error.to_string().contains("lost"), "{error}");
        assert!(one.lock(7..8, true, false).await.is_err());
        one.close().await.unwrap();
        other.write_at(0, b"other").await.unwrap();
    });
}

#[test]
fn a_server_in_its_grace_period_is_asked_again() {
    story(async {
        let line = Line::new(World::new());
        let (one, ..) = two(&line, NfsVersion::V3).await;
        let answers = Rc::new(Cell::new(0));
        answer_locks(&line, &answers, |count| (count < 5).then_some(NlmStat::DeniedGracePeriod));
        one.lock(0..5, true, false).await.unwrap();
        assert_eq!(answers.get(), 6);
        answer_locks(&line, &answers, |_| Some(NlmStat::DeniedGracePeriod));
        let error = one.lock(5..6, true, false).await.unwrap_err();
        assert!(error.to_string().contains("GRACE_PERIOD") && error.hint().is_some(), "{error}");
    });
}

/// Answers locks otherwise where `other` says so of the how manieth it is.
fn answer_locks(line: &Line, count: &Rc<Cell<usize>>, other: impl Fn(usize) -> Option<NlmStat> + 'static) {
    let (count, mut asked) = (Rc::clone(count), None);
    count.set(0);
    line.meddle(move |way, record| {
        match way {
            Way::Call => {
                asked = locks(record).then(|| (xid_of(record), lock_args(record, |args| args.cookie.0.to_vec())))
            }
            Way::Reply => {
                if let Some((xid, cookie)) = asked.take()
                    && xid == xid_of(record)
                {
                    count.set(count.get() + 1);
                    if let Some(stat) = other(count.get() - 1) {
                        let res = Res { cookie: Bounded(&cookie), stat };
                        return Fate::Change(with_results(record, &to_vec(&res)));
                    }
                }
            }
        }
        Fate::Pass
    });
}

fn lock_args<T>(record: &[u8], of: impl FnOnce(&LockArgs<'_>) -> T) -> T {
    of(&LockArgs::decode_as(Version::V4, &mut Reader::new(call_of(record).3)).unwrap())
}

/// One that was not asked to give it later, and will.
#[test]
fn a_lock_that_is_to_come_later_is_cancelled() {
    story(async {
        let line = Line::new(World::new());
        let (one, other, _client) = two(&line, NfsVersion::V3).await;
        let answers = Rc::default();
        answer_locks(&line, &answers, |count| (count == 0).then_some(NlmStat::Blocked));
        let error = one.lock(0..5, true, false).await.unwrap_err();
        assert!(error.to_string().contains("NLM4_DENIED"), "{error}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(line.calls.borrow().iter().any(|record| is_nlm(record, NlmProc::Cancel)));
        // It had given it in fact.
        other.lock(0..5, true, false).await.unwrap();
    });
}

#[test]
fn a_server_that_cannot_monitor_is_asked_without() {
    story(async {
        let line = Line::new(World::new());
        let (one, other, _client) = two(&line, NfsVersion::V3).await;
        let answers = Rc::default();
        answer_locks(&line, &answers, |_| Some(NlmStat::DeniedNoLocks));
        one.lock(0..5, true, false).await.unwrap();
        one.lock(5..6, true, false).await.unwrap();
        assert_eq!(answers.get(), 1, "it is known by then");
        line.honest();
        assert!(other.lock(0..1, true, false).await.is_err());
    });
}

#[test]
fn nonsense_for_a_lock_is_said_to_be_that() {
    let word = |n: u32| n.to_be_bytes().to_vec();
    let wrong_cookie = to_vec(&Res { cookie: Bounded(b"none"), stat: NlmStat::Granted });
    for results in [Vec::new(), word(0), word(5), [word(0), word(77)].concat(), wrong_cookie, word(u32::MAX)] {
        story(async move {
            let line = Line::new(World::new());
            let (one, other, _client) = two(&line, NfsVersion::V3).await;
            let mut asked = None;
            line.meddle(move |way, record| match way {
                Way::Call => {
                    asked = locks(record).then(|| xid_of(record));
                    Fate::Pass
                }
                Way::Reply if asked == Some(xid_of(record)) => Fate::Change(with_results(record, &results)),
                Way::Reply => Fate::Pass,
            });
            let error = one.lock(0..5, true, false).await.unwrap_err();
            assert!(error.to_string().contains("no sense"), "{error}");
            line.honest();
            one.close().await.unwrap();
            assert!(is_free(&other).await);
        });
    }
}

#[test]
fn a_lock_manager_that_is_nowhere_is_looked_for_and_said_to_be() {
    story(async {
        let line = Line::new(World::new());
        let client = join(&line, NfsVersion::V3).await;
        client.write_at("file", 0, b"x").await.unwrap();
        line.meddle(|way, record| match way {
            // Another program, which is nobody's.
            Way::Call if call_of(record).0 == program::NLM => {
                let mut other = record.to_vec();
                other[16..20].copy_from_slice(&300_000u32.to_be_bytes());
                Fate::Change(other)
            }
            _ => Fate::Pass,
        });
        let error = change(&client).await.lock(0..1, true, false).await.unwrap_err();
        // Nobody listens where the portmapper would.
        assert!(error.is_of_the_connection(), "{error}");
    });
}
