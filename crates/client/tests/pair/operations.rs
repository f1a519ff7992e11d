//! What a program asks about paths: attributes, links, copies by the server, locks and changes, and how many round trips
//! that takes.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use client::{
    Change, ChangeKind, Client, Credentials, Dialect, FileAttributes, FileKind, NtStatus, OpenHow, Options, Protection,
    SetAttributes, Times,
};

use crate::util::World;
use crate::util::world::{PASSWORD, USER};
use crate::wire::{Line, Meddle, honest, join, join_by, soon};
use crate::{pattern, story};

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// How many round trips `what` takes over a slow line.
async fn round_trips<T>(what: impl Future<Output = T>) -> u128 {
    let begun = tokio::time::Instant::now();
    what.await;
    begun.elapsed().as_millis().div_ceil(ROUND_TRIP.as_millis())
}

async fn join_slowly(world: &World, options: &Options) -> Client {
    let credentials = Credentials::password(USER, PASSWORD);
    join_by(world, options, credentials, honest(), Line::slow(ROUND_TRIP)).await.unwrap()
}

#[test]
fn an_operation_on_a_path_is_one_round_trip_whatever_protects_it() {
    story(async {
        for (max_dialect, protection) in [
            (Dialect::V2_0_2, Protection::AsServer),
            (Dialect::V2_1, Protection::Signed),
            (Dialect::V3_0_2, Protection::Sealed),
            (Dialect::V3_1_1, Protection::AsServer),
            (Dialect::V3_1_1, Protection::Signed),
            (Dialect::V3_1_1, Protection::Sealed),
        ] {
            let world = World::new();
            world.put("small", b"contents");
            let client = join_slowly(&world, &Options { max_dialect, protection, ..Options::default() }).await;
            let data = pattern(60_000);
            let times = Times { written: Some(SystemTime::UNIX_EPOCH), ..Times::default() };
            let counts = [
                round_trips(async { client.stat("small").await.unwrap() }).await,
                round_trips(async { client.mkdir("dir").await.unwrap() }).await,
                round_trips(async { client.rename("small", "dir/x", false).await.unwrap() }).await,
                round_trips(async { client.read_whole("dir/x", 60_000).await.unwrap() }).await,
                round_trips(async { client.write_whole("y", &data, OpenHow::new_file(), &times).await.unwrap() }).await,
                round_trips(async { client.remove("dir/x").await.unwrap() }).await,
                round_trips(async { client.space().await.unwrap() }).await,
            ];
            assert_eq!(counts, [1; 7], "{max_dialect} {protection:?}");
            let (stat, read) = client.read_whole("y", 1 << 20).await.unwrap();
            assert!(read.as_deref() == Some(&data), "what went in");
            assert_eq!((stat.len_bytes, stat.times.written), (60_000, times.written));
            assert_eq!(world.server.open_count(), 0, "every compound closes what it opens");
        }
    });
}

/// From when it is armed, the how manieth message of the server says that the disk is full.
fn refusing(nth: &Rc<Cell<Option<usize>>>) -> Meddle {
    const NEXT_COMMAND: usize = 20;
    const STATUS: usize = 8;
    let nth = Rc::clone(nth);
    Box::new(move |mut frame| {
        let mut at = 4;
        loop {
            match nth.get() {
                Some(0) => {
                    frame[at + STATUS..at + STATUS + 4].copy_from_slice(&NtStatus::DISK_FULL.0.to_le_bytes());
                    nth.set(None);
                }
                Some(left) => nth.set(Some(left - 1)),
                None => {}
            }
            let next = frame[at + NEXT_COMMAND..at + NEXT_COMMAND + 4].try_into().unwrap();
            match u32::from_le_bytes(next) as usize {
                0 => return Some(frame),
                next => at += next,
            }
        }
    })
}

#[test]
fn a_small_file_has_its_name_when_it_is_whole() {
    story(async {
        let world = World::new();
        let nth = Rc::new(Cell::new(None));
        let credentials = Credentials::password(USER, PASSWORD);
        let client = join_by(&world, &Options::default(), credentials, refusing(&nth), Line::default()).await.unwrap();
        let times = Times { written: Some(SystemTime::UNIX_EPOCH), ..Times::default() };
        let data = pattern(4096);
        // Behind CREATE: WRITE, times; and behind them RENAME and CLOSE.
        for at in [1, 2, 3] {
            for is_there in [false, true] {
                if is_there {
                    world.put("name", b"old");
                }
                nth.set(Some(at));
                let error = client.write_as("part", "name", &data, &times).await.unwrap_err();
                assert_eq!((error.status(), nth.get()), (Some(NtStatus::DISK_FULL), None), "{at}");
                // The RENAME was done; only its answer is another.
                let expected = if at == 3 { Some(data.clone()) } else { is_there.then(|| b"old".to_vec()) };
                assert!(world.content("name") == expected, "{at}");
                assert!(!world.exists("part"), "{at}");
                assert_eq!(world.server.open_count(), 0, "{at}");
                if world.exists("name") {
                    client.remove("name").await.unwrap();
                }
            }
        }
        nth.set(Some(4));
        assert!(client.write_as("part", "name", &data, &times).await.is_err(), "the CLOSE failed");
        assert!(world.content("name").unwrap() == data && !world.exists("part"));
        // What a server does.
        client.mkdir("dir").await.unwrap();
        let error = client.write_as("dir/part", "dir", &data, &times).await.unwrap_err();
        assert!(error.status().is_some() && !world.exists("dir/part"), "{error}");
        assert!(client.write_as("no/part", "no/name", &data, &times).await.unwrap_err().is_not_found());
        world.put("part", b"of another time");
        client.write_as("part", "name", b"", &Times::default()).await.unwrap();
        assert_eq!((world.content("name").unwrap(), world.exists("part")), (Vec::new(), false));
        client.write_as("part", "dir/other", &data, &times).await.unwrap();
        assert_eq!(client.stat("dir/other").await.unwrap().times.written, times.written);
        assert!(world.content("dir/other").unwrap() == data && !world.exists("part"));
        assert_eq!(world.server.open_count(), 0);
    });
}

#[test]
fn a_small_file_with_another_name_is_two_round_trips() {
    story(async {
        for max_dialect in [Dialect::V2_0_2, Dialect::V2_1, Dialect::V3_1_1] {
            let world = World::new();
            let client = join_slowly(&world, &Options { max_dialect, ..Options::default() }).await;
            let times = Times { written: Some(SystemTime::UNIX_EPOCH), ..Times::default() };
            let data = pattern(4096);
            let count = round_trips(async { client.write_as("part", "name", &data, &times).await.unwrap() }).await;
            assert_eq!(count, 2, "{max_dialect}");
            assert!(world.content("name").unwrap() == data && !world.exists("part"));
            assert_eq!(world.server.open_count(), 0);
        }
    });
}

/// Nobody waits any more, at whatever point.
#[test]
fn a_small_file_that_is_given_up_leaves_nothing_open() {
    for millis in 0..30 {
        story(async move {
            let world = World::new();
            world.put("name", b"old");
            let client = join_slowly(&world, &Options::default()).await;
            let data = pattern(4096);
            let times = Times::default();
            let writing = client.write_as("part", "name", &data, &times);
            let is_done = tokio::time::timeout(Duration::from_millis(millis * 10), writing).await.is_ok();
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(world.server.open_count(), 0, "given up after {millis}");
            let now = world.content("name").unwrap();
            assert!(now == data || !is_done && now == b"old", "given up after {millis}");
        });
    }
}

#[test]
fn a_compound_that_fails_says_why_and_leaves_nothing_open() {
    story(async {
        let world = World::new();
        let client = join(&world, &Options::default()).await;
        client.mkdir("dir").await.unwrap();
        world.put("dir/in", b"x");
        let status = |error: client::Error| error.status();
        assert_eq!(status(client.stat("no").await.unwrap_err()), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
        assert_eq!(status(client.remove("dir").await.unwrap_err()), Some(NtStatus::DIRECTORY_NOT_EMPTY));
        assert_eq!(status(client.mkdir("dir").await.unwrap_err()), Some(NtStatus::OBJECT_NAME_COLLISION));
        assert_eq!(
            status(client.rename("dir/in", "dir", false).await.unwrap_err()),
            Some(NtStatus::OBJECT_NAME_COLLISION)
        );
        assert!(client.read_link("dir/in").await.is_err());
        assert_eq!(client.read_whole("dir/in", 0).await.unwrap().1, None, "longer than what was asked for");
        assert!(client.stat("no").await.unwrap_err().is_not_found());
        assert_eq!(world.server.open_count(), 0);
    });
}

#[test]
fn attributes_are_set_and_what_smb_has_not_is_refused_whole() {
    story(async {
        let world = World::new();
        world.put("file", b"0123456789");
        let client = join(&world, &Options::default()).await;
        let written = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        let times = Times { written, ..Times::default() };
        let dos = Some(FileAttributes::HIDDEN);
        let set = SetAttributes { len_bytes: Some(4), times, dos, ..SetAttributes::default() };
        client.set_attributes("file", &set).await.unwrap();
        let stat = client.stat("file").await.unwrap();
        assert_eq!((stat.len_bytes, stat.times.written, stat.kind), (4, written, FileKind::File));
        assert!(stat.attributes.contains(FileAttributes::HIDDEN));
        let set = SetAttributes { mode: Some(0o600), len_bytes: Some(0), ..SetAttributes::default() };
        assert!(client.set_attributes("file", &set).await.is_err());
        assert_eq!(client.stat("file").await.unwrap().len_bytes, 4, "nothing is set");
        client.set_attributes("file", &SetAttributes::default()).await.unwrap();
    });
}

#[test]
fn the_server_copies_more_than_one_request_may() {
    story(async {
        let world = World::new();
        let data = pattern(20_000_003);
        world.put("from", &data);
        world.put("to", b"what was there before");
        world.put("empty", b"");
        let client = join(&world, &Options::default()).await;
        assert_eq!(client.copy("from", "to").await.unwrap(), data.len() as u64);
        assert_eq!(client.copy("empty", "other").await.unwrap(), 0);
        let mut read = vec![0; data.len() + 1];
        assert_eq!(client.read_at("to", 0, &mut read).await.unwrap(), data.len());
        assert!(read[..data.len()] == data);
        let target = client.open_with("part", OpenHow::update()).await.unwrap();
        let source = client.open("from").await.unwrap();
        source.copy_range(1000, &target, 5, 77).await.unwrap();
        let mut part = [0; 77];
        target.read_at(5, &mut part).await.unwrap();
        assert!(part == data[1000..1077]);
        assert!(client.copy("no", "to").await.unwrap_err().is_not_found());
    });
}

#[test]
fn links_lead_where_they_were_made_to() {
    story(async {
        let world = World::new();
        let client = join(&world, &Options::default()).await;
        client.mkdir("dir").await.unwrap();
        world.put("dir/file", b"x");
        client.symlink("../dir/file", "dir/link").await.unwrap();
        assert_eq!(client.read_link("dir/link").await.unwrap(), Path::new("../dir/file"));
        assert!(client.stat("dir/link").await.unwrap().is_link());
        client.remove("dir/link").await.unwrap();
        assert_eq!(client.stat("dir/file").await.unwrap().len_bytes, 1);
    });
}

#[test]
fn a_lock_is_waited_for_given_up_and_given_back() {
    story(async {
        let world = World::new();
        world.put("file", b"0123456789");
        let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
        let (ours, theirs) = (join(&world, &options).await, join(&world, &options).await);
        let (ours, theirs) = (
            ours.open_with("file", OpenHow::change()).await.unwrap(),
            theirs.open_with("file", OpenHow::change()).await.unwrap(),
        );
        ours.lock(0..5, true, false).await.unwrap();
        let refused = theirs.lock(4..6, true, false).await.unwrap_err();
        assert_eq!(refused.status(), Some(NtStatus::LOCK_NOT_GRANTED));
        // Longer than the timeout: somebody waiting for a lock is not a server that says nothing.
        let waiting = tokio::time::timeout(Duration::from_secs(600), theirs.lock(4..6, true, true)).await;
        assert!(waiting.is_err(), "it waits");
        ours.unlock(0..5).await.unwrap();
        ours.lock(4..6, true, false).await.expect("who gave up waiting holds nothing");
        let waiting = async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            ours.unlock(4..6).await.unwrap();
        };
        let (locked, ()) = tokio::join!(soon(theirs.lock(4..6, true, true)), waiting);
        locked.unwrap();
        assert!(ours.lock(4..6, false, false).await.is_err());
        theirs.close().await.unwrap();
        ours.lock(4..6, false, false).await.expect("locks end with the file");
    });
}

#[test]
fn changes_are_told_however_long_they_take() {
    story(async {
        let world = World::new();
        let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
        let client = join(&world, &options).await;
        client.mkdir("dir").await.unwrap();
        client.mkdir("dir/sub").await.unwrap();
        world.put("dir/sub/file", b"x");
        let other = join(&world, &options).await;
        let mut watch = client.watch("dir", true).await.unwrap();
        assert!(tokio::time::timeout(Duration::from_secs(600), watch.next()).await.is_err(), "nothing happens");
        other.rename("dir/sub/file", "dir/sub/name", false).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(soon(watch.next()).await.unwrap());
        }
        let change = |path: &str, kind| Change { path: path.into(), kind };
        assert_eq!(seen[..2], [change("sub/file", ChangeKind::RenamedFrom), change("sub/name", ChangeKind::RenamedTo)]);
        drop(watch);
        client.stat("dir").await.unwrap();
        assert_eq!(world.server.open_count(), 0, "a watch that is dropped is over");
    });
}
