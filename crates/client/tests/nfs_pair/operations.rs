//! One story in every version: what a program can do, and what it is told.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use client::{ChangeKind, Client, FileKind, NfsVersion, OpenHow, SetAttributes, Times};

use crate::line::Line;
use crate::world::{UID, World};
use crate::{in_each_version, join, pattern};

async fn read_all(client: &Client, path: &str) -> Vec<u8> {
    let mut stream = client.open(path).await.unwrap().read_stream(0..u64::MAX);
    let mut read = Vec::new();
    while let Some(chunk) = stream.next().await.unwrap() {
        assert_eq!(chunk.offset(), read.len() as u64);
        read.extend_from_slice(&chunk);
    }
    read
}

#[test]
fn files_are_written_and_read() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        for len in [0, 1, 4096, 1_000_003, 5_000_001] {
            let data = pattern(len);
            let file = client.create("file").await.unwrap();
            let (copied, shared) = data.split_at(data.len() / 2);
            file.write_at(0, copied).await.unwrap();
            let (mut at, mut shared) = (copied.len() as u64, Bytes::copy_from_slice(shared));
            while !shared.is_empty() {
                let count = file.write_once_shared(at, shared.clone()).await.unwrap();
                shared = shared.split_off(count);
                at += count as u64;
            }
            assert_eq!(file.stat().await.unwrap().len_bytes, len as u64);
            file.close().await.unwrap();
            assert!(read_all(&client, "file").await == data, "{len} bytes");
            let mut part = vec![0; 100];
            let count = client.read_at("file", len as u64 / 2, &mut part).await.unwrap();
            assert!(part[..count] == data[len / 2..(len / 2 + 100).min(len)]);
            let (stat, whole) = client.read_whole("file", 8192).await.unwrap();
            assert_eq!(stat.len_bytes, len as u64);
            assert!(whole == (len <= 8192).then_some(data), "{len} bytes at once");
        }
        client.write_at("file", 10, b"in the middle").await.unwrap();
        let mut expected = pattern(5_000_001);
        expected[10..23].copy_from_slice(b"in the middle");
        assert!(read_all(&client, "file").await == expected);
        let file = client.open_with("file", OpenHow::change()).await.unwrap();
        file.set_len(15).await.unwrap();
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.set_times(&Times { written: Some(written), ..Times::default() }).await.unwrap();
        file.close().await.unwrap();
        let stat = client.stat("file").await.unwrap();
        assert_eq!((stat.len_bytes, stat.times.written), (15, Some(written)));
        assert!(client.open_with("file", OpenHow::new_file()).await.unwrap_err().is_taken());
        let file = client.open_with("new", OpenHow::new_file()).await.unwrap();
        file.write_at(3, b"x").await.unwrap();
        file.close().await.unwrap();
        assert_eq!(read_all(&client, "new").await, b"\0\0\0x");
        assert_eq!(client.stat("new").await.unwrap().mode, Some(0o644));
        let times = Times { written: Some(written), ..Times::default() };
        client.write_whole("whole", b"all of it", OpenHow::overwrite(), &times).await.unwrap();
        assert_eq!(read_all(&client, "whole").await, b"all of it");
        assert_eq!(client.stat("whole").await.unwrap().times.written, Some(written));
        client.disconnect().await.unwrap();
    });
}

#[test]
fn names_come_and_go() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.mkdir("dir").await.unwrap();
        client.mkdir("dir/below").await.unwrap();
        assert!(client.mkdir("dir").await.unwrap_err().is_taken());
        for n in 0..300 {
            client.create(format!("dir/file {n}")).await.unwrap().close().await.unwrap();
        }
        client.symlink("file 0", "dir/link").await.unwrap();
        let mut entries = client.list("dir").await.unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(entries.len(), 302);
        let kinds: Vec<_> = entries.iter().map(|e| e.stat.kind).collect();
        assert_eq!((kinds[0], kinds[1], kinds[301]), (FileKind::Directory, FileKind::File, FileKind::Link));
        assert_eq!(entries[1].stat.owner, Some((UID, UID)));
        assert_eq!(client.read_link("dir/link").await.unwrap(), PathBuf::from("file 0"));
        assert!(client.stat("dir/link").await.unwrap().is_link());
        assert!(client.open("dir/link").await.is_err(), "a link is not followed");
        assert!(client.remove("dir").await.is_err(), "it is not empty");

        client.rename("dir/file 1", "dir/below/moved", false).await.unwrap();
        assert!(client.stat("dir/file 1").await.unwrap_err().is_not_found());
        assert_eq!(client.stat("dir/below/moved").await.unwrap().links, Some(1));
        let taken = client.rename("dir/file 2", "dir/file 3", false).await.unwrap_err();
        assert!(taken.is_taken(), "{taken}");
        client.stat("dir/file 2").await.unwrap();
        client.rename("dir/file 2", "dir/file 3", true).await.unwrap();
        assert!(client.stat("dir/file 2").await.unwrap_err().is_not_found());
        assert!(client.rename("dir/below", "dir/link", false).await.unwrap_err().is_taken());
        client.rename("dir/below", "dir/other", false).await.unwrap();

        client.remove("dir/link").await.unwrap();
        client.remove("dir/other/moved").await.unwrap();
        client.remove("dir/other").await.unwrap();
        let gone = client.stat("dir/other").await.unwrap_err();
        assert!(gone.is_not_found() && gone.to_string().contains("NOENT"), "{gone}");
        assert!(client.open("").await.is_err());
        assert!(client.remove("..").await.is_err());
        let deep: PathBuf = (0..100).map(|n| n.to_string()).collect();
        let mut at = PathBuf::new();
        for part in &deep {
            at.push(part);
            client.mkdir(&at).await.unwrap();
        }
        assert!(client.stat(&deep).await.unwrap().is_dir());
        client.write_at(deep.join("file"), 0, b"deep").await.unwrap();
        assert_eq!(client.read_whole(deep.join("file"), 10).await.unwrap().1.unwrap(), b"deep");
    });
}

#[test]
fn attributes_are_set_and_room_is_told() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        line.world().fs.set_space(1 << 30);
        let client = join(&line, version).await;
        client.write_at("file", 0, b"0123456789").await.unwrap();
        let read = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5_000);
        let set = SetAttributes {
            mode: Some(0o600),
            len_bytes: Some(4),
            times: Times { accessed: Some(read), ..Times::default() },
            ..SetAttributes::default()
        };
        client.set_attributes("file", &set).await.unwrap();
        let stat = client.stat("file").await.unwrap();
        assert_eq!((stat.mode, stat.len_bytes, stat.times.accessed), (Some(0o600), 4, Some(read)));
        let denied = SetAttributes { owner: Some((0, 0)), ..SetAttributes::default() };
        let error = client.set_attributes("file", &denied).await.unwrap_err();
        assert!(error.to_string().contains("PERM"), "{error}");
        let space = client.space().await.unwrap();
        assert!(space.total_bytes >= space.free_bytes && space.free_bytes >= space.available_bytes, "{space:?}");
        assert!(space.total_bytes > 0);
    });
}

#[test]
fn ranges_are_locked() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.write_at("file", 0, b"0123456789").await.unwrap();
        let (one, two) = (
            client.open_with("file", OpenHow::change()).await.unwrap(),
            client.open_with("file", OpenHow::change()).await.unwrap(),
        );
        one.lock(0..5, true, false).await.unwrap();
        one.lock(7..9, false, false).await.unwrap();
        let error = two.lock(4..6, true, false).await.unwrap_err();
        assert!(error.to_string().contains("DENIED"), "{error}");
        two.lock(7..9, false, false).await.unwrap();
        one.write_at(0, b"locked").await.unwrap();
        let waiting = tokio::task::spawn_local(async move {
            two.lock(4..6, true, true).await.unwrap();
            two
        });
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished());
        one.unlock(0..5).await.unwrap();
        let two = waiting.await.unwrap();
        one.close().await.unwrap();
        two.lock(0..u64::MAX, true, false).await.unwrap();
        two.close().await.unwrap();
        let again = client.open_with("file", OpenHow::change()).await.unwrap();
        again.lock(0..1, true, false).await.unwrap();
    });
}

#[test]
fn the_server_copies_where_it_can() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        let data = pattern(3_000_000);
        client.write_at("from", 0, &data).await.unwrap();
        let copied = client.copy("from", "to").await;
        if version != NfsVersion::V4_2 {
            assert!(copied.unwrap_err().is_unsupported());
            assert!(client.stat("to").await.unwrap_err().is_not_found(), "nothing was made in vain");
            return;
        }
        assert_eq!(copied.unwrap(), 3_000_000);
        assert!(read_all(&client, "to").await == data);
        let (from, to) = (client.open("from").await.unwrap(), client.open_with("to", OpenHow::change()).await.unwrap());
        from.copy_range(5, &to, 1, 7).await.unwrap();
        let mut some = [0; 9];
        to.read_at(0, &mut some).await.unwrap();
        assert_eq!((some[0], &some[1..8], some[8]), (data[0], &data[5..12], data[8]));
    });
}

#[test]
fn a_watched_directory_shows_what_changes() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.mkdir("dir").await.unwrap();
        client.write_at("dir/old", 0, b"x").await.unwrap();
        let mut watch = client.watch("", true).await.unwrap();
        client.rename("dir/old", "dir/new", true).await.unwrap();
        client.write_at("file", 0, b"x").await.unwrap();
        let mut changes = watch.next().await.unwrap();
        changes.retain(|change| change.kind != ChangeKind::Modified);
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        let found: Vec<_> = changes.iter().map(|c| (c.path.as_path(), c.kind)).collect();
        let expected = [
            (Path::new("dir/new"), ChangeKind::RenamedTo),
            (Path::new("dir/old"), ChangeKind::RenamedFrom),
            (Path::new("file"), ChangeKind::Added),
        ];
        assert_eq!(found, expected);
    });
}
