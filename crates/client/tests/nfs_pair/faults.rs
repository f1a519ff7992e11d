//! Lines that are lost and servers that start again: what could be done is done, once, and what is not known is said.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use client::{Client, Error, ErrorKind, Failure, NfsVersion, OpenHow};
use nfs_wire::nfs3::{Failed, Nfs3Proc, StableHow, WccData, WriteRes};
use nfs_wire::nfs4::OpNum;
use nfs_wire::rpc::Reply;
use nfs_wire::xdr::{Reader, decode_all, to_vec};
use tokio::time::Instant;
use vfs::{Access, Backend, Cred, Disposition, Path, SetAttr, Wait, WantKind};

use crate::hostile::{with_results, xid_of};
use crate::line::{Fate, Line, Way, call_of, ops_of};
use crate::world::World;
use crate::{in_each_version, join, pattern, story};

/// Whether a call does this, in whatever version.
pub fn does(record: &[u8], op: OpNum, procedure: Nfs3Proc) -> bool {
    ops_of(record).contains(&op) || call_of(record).1 == 3 && call_of(record).2 == procedure as u32
}

/// What becomes of the first call that does this; later ones pass.
fn once(op: OpNum, procedure: Nfs3Proc, fate: Fate) -> impl FnMut(Way, &[u8]) -> Fate + 'static {
    let mut fate = Some(fate);
    move |way, record| match way {
        Way::Call if does(record, op, procedure) => fate.take().unwrap_or(Fate::Pass),
        _ => Fate::Pass,
    }
}

fn count(line: &Line, op: OpNum, procedure: Nfs3Proc) -> usize {
    line.calls.borrow().iter().filter(|record| does(record, op, procedure)).count()
}

fn failure(error: &Error) -> &Failure {
    match error.kind() {
        ErrorKind::Connection(failure) => failure,
        kind => panic!("{kind:?}"),
    }
}

async fn contents(client: &Client, path: &str) -> Vec<u8> {
    let mut stream = client.open(path).await.unwrap().read_stream(0..u64::MAX);
    let mut read = Vec::new();
    while let Some(chunk) = stream.next().await.unwrap() {
        read.extend_from_slice(&chunk);
    }
    read
}

#[test]
fn a_line_lost_in_mid_write_is_made_again() {
    for fate in [Fate::CutBefore, Fate::CutBehind] {
        in_each_version(|version| {
            let fate = fate.clone();
            async move {
                let line = Line::new(World::new());
                let client = join(&line, version).await;
                let data = pattern(7_000_000);
                let mut left = 3;
                line.meddle(move |way, record| {
                    left -= usize::from(way == Way::Call && does(record, OpNum::Write, Nfs3Proc::Write));
                    if left == 0 {
                        left = usize::MAX;
                        fate.clone()
                    } else {
                        Fate::Pass
                    }
                });
                let file = client.create("file").await.unwrap();
                file.write_at(0, &data).await.unwrap();
                file.close().await.unwrap();
                assert_eq!(line.lines.get(), 2);
                assert!(contents(&client, "file").await == data);
            }
        });
    }
}

#[test]
fn what_may_be_done_once_only_is_not_done_twice() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.mkdir("dir").await.unwrap();
        line.meddle(once(OpNum::Create, Nfs3Proc::Mkdir, Fate::CutBehind));
        let made = client.mkdir("other").await;
        if version >= NfsVersion::V4_1 {
            // The server remembers what it answered.
            made.unwrap();
            assert_eq!(count(&line, OpNum::Create, Nfs3Proc::Mkdir), 3);
        } else {
            assert_eq!(failure(&made.unwrap_err()), &Failure::Interrupted);
            assert_eq!(count(&line, OpNum::Create, Nfs3Proc::Mkdir), 2, "it is not sent again");
        }
        client.stat("other").await.unwrap();
        assert_eq!(line.lines.get(), 2);
    });
}

#[test]
fn what_a_restarted_server_may_have_done_is_not_done_again() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let (world, mut stage) = (line.clone(), 0);
        line.meddle(move |way, record| match (stage, way) {
            (0, Way::Call) if does(record, OpNum::Remove, Nfs3Proc::Remove) => {
                stage = 1;
                Fate::CutBehind
            }
            (1, _) => {
                stage = 2;
                world.world().start_anew();
                Fate::CutBefore
            }
            _ => Fate::Pass,
        });
        client.write_at("file", 0, b"x").await.unwrap();
        let error = client.remove("file").await.unwrap_err();
        assert_eq!(failure(&error), &Failure::Interrupted, "and not that it is not there");
        let sent = line.calls.borrow().iter().filter(|r| does(r, OpNum::Remove, Nfs3Proc::Remove)).count();
        let on_each_line = if version >= NfsVersion::V4_1 { 3 } else { 1 };
        assert!(sent <= on_each_line, "{sent}");
        assert!(client.stat("file").await.unwrap_err().is_not_found());
    });
}

#[test]
fn a_file_is_made_once_though_the_answer_is_lost() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        line.meddle(once(OpNum::Open, Nfs3Proc::Create, Fate::CutBehind));
        // Were it done anew, it would be there already.
        let file = client.open_with("file", OpenHow::new_file()).await.unwrap();
        file.write_at(0, b"x").await.unwrap();
        line.meddle(once(OpNum::Close, Nfs3Proc::Commit, Fate::CutBehind));
        file.close().await.unwrap();
        line.honest();
        // What the owner counts is still right.
        for n in 0..3 {
            client.create(format!("file {n}")).await.unwrap().close().await.unwrap();
        }
        assert_eq!(contents(&client, "file").await, b"x");
    });
}

#[test]
fn a_server_that_is_away_is_waited_for_within_the_timeout() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.write_at("file", 0, b"here").await.unwrap();
        line.meddle(|_, _| Fate::CutBefore);
        line.is_down.set(true);
        let back = line.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            back.honest();
            back.is_down.set(false);
        });
        let begun = Instant::now();
        client.mkdir("not under way before").await.ok();
        client.stat("file").await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
        line.meddle(|_, _| Fate::CutBefore);
        line.is_down.set(true);
        let begun = Instant::now();
        let error = client.stat("file").await.unwrap_err();
        assert!(matches!(failure(&error), Failure::Network(_)), "{error}");
        assert!((25..40).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        line.is_down.set(false);
        // It takes calls and hangs up.
        let begun = Instant::now();
        let error = client.stat("file").await.unwrap_err();
        assert_eq!(failure(&error), &Failure::Closed);
        assert!((25..40).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        line.honest();
        client.stat("file").await.unwrap();
    });
}

/// Does away with the contents of a file, as a server that loses power does.
fn lose_contents(world: &World, name: &str) {
    let root = Cred { uid: 0, gid: 0, groups: [].into() };
    let how = vfs::OpenHow {
        access: Access::WRITE,
        disposition: Disposition::Open,
        kind: WantKind::File,
        follow: false,
        mode: 0,
    };
    let path = Path::new(name.as_bytes()).unwrap();
    let opened = world.fs.open(&root, &*world.fs.root(), &path, &how, Wait::Allowed).unwrap();
    opened.node.set_attr(&root, &SetAttr { len_bytes: Some(0), ..SetAttr::default() }).unwrap();
}

/// The server starts again when `op` comes the first time, without what was not committed.
fn restart_at(line: &Line, op: OpNum, procedure: Nfs3Proc) {
    let (world, mut is_done) = (line.clone(), false);
    line.meddle(move |way, record| {
        if is_done || way == Way::Reply || !does(record, op, procedure) {
            return Fate::Pass;
        }
        is_done = true;
        lose_contents(&world.world(), "file");
        world.world().start_anew();
        Fate::CutBefore
    });
}

#[test]
fn what_a_restarted_server_lost_is_written_again() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let data = pattern(3_000_000);
        let file = client.create("file").await.unwrap();
        file.write_at(0, &data).await.unwrap();
        file.write_at(100, b"written over it").await.unwrap();
        restart_at(&line, OpNum::Commit, Nfs3Proc::Commit);
        file.sync().await.unwrap();
        let mut expected = data.clone();
        expected[100..115].copy_from_slice(b"written over it");
        assert!(contents(&client, "file").await == expected);
        file.write_at(5, b"goes on").await.unwrap();
        file.close().await.unwrap();
        expected[5..12].copy_from_slice(b"goes on");
        assert!(contents(&client, "file").await == expected);
    });
}

/// Safe at once, but over something that was lost.
#[test]
fn what_was_written_last_is_written_again_last() {
    story(async {
        let line = Line::new(World::new());
        let client = join(&line, NfsVersion::V3).await;
        let file = client.create("file").await.unwrap();
        file.write_at(0, b"first first").await.unwrap();
        lose_contents(&line.world(), "file");
        line.world().start_anew();
        let (mut is_cut, mut asked) = (false, None);
        line.meddle(move |way, record| match way {
            Way::Call if !std::mem::replace(&mut is_cut, true) => Fate::CutBefore,
            Way::Call => {
                asked = does(record, OpNum::Write, Nfs3Proc::Write).then(|| xid_of(record));
                Fate::Pass
            }
            Way::Reply if asked == Some(xid_of(record)) => {
                let mut r = Reader::new(&record[4..]);
                Reply::decode(&mut r).unwrap();
                let Ok(mut ok) = decode_all::<WriteRes>(r.rest()).unwrap() else { panic!("it was not written") };
                ok.committed = StableHow::FileSync;
                Fate::Change(with_results(record, &to_vec(&Ok::<_, Failed<WccData>>(ok))))
            }
            Way::Reply => Fate::Pass,
        });
        file.write_at(6, b"later").await.unwrap();
        line.honest();
        file.sync().await.unwrap();
        assert_eq!(contents(&client, "file").await, b"first later");
    });
}

#[test]
fn an_open_is_closed_though_its_session_is_gone() {
    for version in [NfsVersion::V4_1, NfsVersion::V4_2] {
        story(async move {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            let file = client.create("file").await.unwrap();
            assert_eq!(line.world().table.stats().files, 1);
            let mut is_done = false;
            line.meddle(move |way, record| {
                if way == Way::Reply || is_done || !ops_of(record).contains(&OpNum::Close) {
                    return Fate::Pass;
                }
                is_done = true;
                // Behind tag, minor version, count and the number of SEQUENCE.
                let session_at = record.len() - call_of(record).3.len() + 16;
                let mut other = record.to_vec();
                other[session_at..session_at + 16].fill(0xee);
                Fate::Change(other)
            });
            file.close().await.unwrap();
            assert_eq!(line.world().table.stats().files, 0, "it is closed at the server");
            client.stat("file").await.unwrap();
        });
    }
}

#[test]
fn a_close_that_nobody_waits_for_closes() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let file = client.create("file").await.unwrap();
        file.lock(0..1, true, false).await.unwrap();
        file.write_at(0, b"x").await.unwrap();
        line.round_trip.set(Duration::from_millis(100));
        assert!(tokio::time::timeout(Duration::from_millis(50), file.close()).await.is_err());
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(line.world().table.stats().files, 0);
    });
}

#[test]
fn opens_and_locks_outlive_a_restart_of_the_server() {
    in_each_version(|version| async move {
        if version == NfsVersion::V3 {
            return;
        }
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let data = pattern(100_000);
        let file = client.create("file").await.unwrap();
        file.write_at(0, &data).await.unwrap();
        file.sync().await.unwrap();
        let reader = client.open("file").await.unwrap();
        file.lock(0..10, true, false).await.unwrap();
        let (world, mut is_done) = (line.clone(), false);
        line.meddle(move |_, _| match std::mem::replace(&mut is_done, true) {
            true => Fate::Pass,
            false => {
                world.world().start_anew();
                Fate::CutBefore
            }
        });
        let mut some = vec![0; 1000];
        reader.read_at(0, &mut some).await.unwrap();
        assert!(some == data[..1000]);
        file.write_at(0, b"still open").await.unwrap();
        let other = client.open_with("file", OpenHow::change()).await.unwrap();
        assert!(other.lock(5..6, true, false).await.is_err(), "the lock was claimed back");
        file.unlock(0..10).await.unwrap();
        other.lock(5..6, true, false).await.unwrap();
        other.close().await.unwrap();
        file.close().await.unwrap();
        reader.close().await.unwrap();
    });
}

#[test]
fn a_client_that_was_silent_too_long_begins_again() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let data = pattern(10_000);
        let file = client.create("file").await.unwrap();
        file.write_at(0, &data).await.unwrap();
        for _ in 0..3 {
            line.world().clock.advance(Duration::from_secs(200));
            line.world().server.sweep();
        }
        let mut some = vec![0; 10];
        client.read_at("file", 10, &mut some).await.unwrap();
        assert!(some == data[10..20]);
        file.write_at(10_000, b"more").await.unwrap();
        file.close().await.unwrap();
        assert_eq!(client.stat("file").await.unwrap().len_bytes, 10_004);
    });
}

#[test]
fn the_lease_is_kept_by_whoever_has_nothing_to_say() {
    in_each_version(|version| async move {
        if version == NfsVersion::V3 {
            return;
        }
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let file = client.create("file").await.unwrap();
        let before = line.calls.borrow().len();
        tokio::time::sleep(Duration::from_secs(90)).await;
        let renewed = line.calls.borrow().len() - before;
        assert!((2..=4).contains(&renewed), "{renewed}");
        drop(file);
        drop(client);
        tokio::time::sleep(Duration::from_secs(90)).await;
        let before = line.calls.borrow().len();
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert_eq!(line.calls.borrow().len(), before, "nobody is left");
        let has_left = line.calls.borrow().iter().any(|r| ops_of(r).contains(&OpNum::DestroyClientid));
        assert_eq!(has_left, version >= NfsVersion::V4_1);
    });
}

#[test]
fn whoever_gives_up_leaves_nothing_open() {
    in_each_version(|version| async move {
        if version == NfsVersion::V3 {
            return;
        }
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        line.round_trip.set(Duration::from_millis(100));
        let opening = tokio::time::timeout(Duration::from_millis(50), client.create("file"));
        assert!(opening.await.is_err());
        let dropped = client.create("other").await.unwrap();
        drop(dropped);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let open = line.calls.borrow().iter().filter(|r| ops_of(r).contains(&OpNum::Open)).count();
        assert_eq!((open, count(&line, OpNum::Close, Nfs3Proc::Null)), (2, 2));
    });
}

#[test]
fn not_now_is_asked_again() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.write_at("file", 0, b"x").await.unwrap();
        let times = Rc::new(Cell::new(0));
        let asked: Rc<RefCell<Vec<u32>>> = Rc::default();
        let (left, seen) = (Rc::clone(&times), Rc::clone(&asked));
        line.meddle(move |way, record| {
            let xid = u32::from_be_bytes(record[4..8].try_into().unwrap());
            match way {
                Way::Call => seen.borrow_mut().push(xid),
                Way::Reply if left.get() > 0 && seen.borrow().contains(&xid) => {
                    left.set(left.get() - 1);
                    return Fate::Change(crate::hostile::not_now(record, version));
                }
                Way::Reply => {}
            }
            Fate::Pass
        });
        times.set(4);
        client.stat("file").await.unwrap();
        assert_eq!(times.get(), 0);
        times.set(u32::MAX);
        let begun = Instant::now();
        let error = client.stat("file").await.unwrap_err();
        assert!(error.to_string().contains("10008") || error.nfs_status().is_some(), "{error}");
        assert!((20..40).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_sync_waits_for_what_was_written_before_it_and_not_for_what_goes_on() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let file = Rc::new(client.open_with("file", OpenHow::update()).await.unwrap());
        let mut writers = Vec::new();
        for writer in 0..16 {
            let file = Rc::clone(&file);
            writers.push(tokio::task::spawn_local(async move {
                for n in 0..50 {
                    file.write_at((writer * 50 + n) * 100, &pattern(100)).await.unwrap();
                }
            }));
        }
        tokio::task::yield_now().await;
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            file.sync().await.unwrap();
        }
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

/// The line that is used next is cut.
fn cut_once(line: &Line) {
    let mut is_cut = false;
    line.meddle(move |_, _| if std::mem::replace(&mut is_cut, true) { Fate::Pass } else { Fate::CutBefore });
}

#[test]
fn who_lost_a_lock_writes_nothing_more_through_that_open() {
    in_each_version(|version| async move {
        if version == NfsVersion::V3 {
            return;
        }
        let line = Line::new(World::new());
        let (client, other) = (join(&line, version).await, join(&line, version).await);
        let file = client.create("file").await.unwrap();
        file.write_at(0, b"0123456789").await.unwrap();
        file.sync().await.unwrap();
        file.lock(0..5, true, false).await.unwrap();
        // A server that has forgotten everything, and somebody who is faster.
        line.world().store.0.lock().unwrap().clear();
        line.world().start_anew();
        cut_once(&line);
        let theirs = other.open_with("file", OpenHow::change()).await.unwrap();
        theirs.lock(0..5, true, false).await.unwrap();
        cut_once(&line);
        for _ in 0..2 {
            let sent = async {
                file.write_at(6, b"x").await?;
                file.sync().await
            };
            assert!(sent.await.is_err());
        }
        let mut some = [0; 1];
        assert!(file.read_at(0, &mut some).await.is_err());
        theirs.close().await.unwrap();
        assert_eq!(contents(&other, "file").await, b"0123456789");
    });
}

#[test]
fn a_file_closed_beside_its_stream_is_committed() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let file = client.create("file").await.unwrap();
        file.write_at(0, b"x").await.unwrap();
        let stream = file.read_stream(0..1);
        line.world().fs.fail_next(vfs::memfs::Op::Sync, vfs::VfsError::Io(5));
        assert!(file.close().await.is_err(), "what may not be safe is not closed without a word");
        drop(stream);
    });
}

#[test]
fn a_commit_that_nobody_waited_for_fails_for_who_asks_next() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let file = client.create("file").await.unwrap();
        line.world().fs.fail_next(vfs::memfs::Op::Sync, vfs::VfsError::Io(5));
        file.write_at(0, &pattern(40 << 20)).await.unwrap();
        assert!(count(&line, OpNum::Commit, Nfs3Proc::Commit) > 0);
        assert!(file.sync().await.is_err());
        file.sync().await.unwrap();
        file.close().await.unwrap();
    });
}

#[test]
fn opens_are_claimed_though_who_found_out_is_gone() {
    for version in [NfsVersion::V4_1, NfsVersion::V4_2] {
        story(async {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            let file = client.create("file").await.unwrap();
            file.lock(0..10, true, false).await.unwrap();
            line.world().start_anew();
            line.round_trip.set(Duration::from_millis(10));
            let claims = Rc::new(Cell::new(false));
            let (seen, mut is_cut) = (Rc::clone(&claims), false);
            line.meddle(move |way, record| {
                if way == Way::Call && ops_of(record).contains(&OpNum::Open) {
                    seen.set(true);
                }
                if std::mem::replace(&mut is_cut, true) { Fate::Pass } else { Fate::CutBefore }
            });
            let before = count(&line, OpNum::ReclaimComplete, Nfs3Proc::Null);
            let gone = async {
                while !claims.get() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                biased;
                () = gone => {}
                _ = client.stat("file") => panic!("it was to be given up"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(count(&line, OpNum::ReclaimComplete, Nfs3Proc::Null), before + 1);
            file.unlock(0..10).await.unwrap();
        });
    }
}

#[test]
fn a_watch_that_is_asked_often_still_looks() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let mut watch = client.watch("", true).await.unwrap();
        client.write_at("file", 0, b"x").await.unwrap();
        for _ in 0..20 {
            if tokio::time::timeout(Duration::from_millis(300), watch.next()).await.is_ok() {
                return;
            }
        }
        panic!("nothing was seen in six seconds");
    });
}
