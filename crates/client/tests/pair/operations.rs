//! What a program asks about paths: attributes, links, copies by the server, locks and changes, and how many round trips
//! that takes.

use std::path::Path;
use std::time::{Duration, SystemTime};

use client::{
    Change, ChangeKind, Client, Credentials, Dialect, FileAttributes, FileKind, NtStatus, OpenHow, Options, Protection,
    SetAttributes, Times,
};

use crate::util::World;
use crate::util::world::{PASSWORD, USER};
use crate::wire::{Line, honest, join, join_by, soon};
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
