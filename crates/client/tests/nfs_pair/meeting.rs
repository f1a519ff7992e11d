//! How a client comes to a server: versions, exports, several connections.

use std::path::Path;

use client::{Client, NfsVersion, OpenHow, Options, Url};
use nfs_wire::mount::{ExportEntry, ExportList, MountProc};
use nfs_wire::nfs4::OpNum;
use nfs_wire::rpc::{Call, program};
use nfs_wire::xdr::{Bounded, Chain, Reader, decode_all, to_vec};

use crate::hostile::{with_results, xid_of};
use crate::line::{Fate, Line, Way, call_of, ops_of};
use crate::world::World;
use crate::{in_each_version, join, options, pattern, story, url};

/// A call with another word at `at`, which counts from behind the record's mark.
fn with_word(record: &[u8], at: usize, word: u32) -> Fate {
    let mut other = record.to_vec();
    other[4 + at..8 + at].copy_from_slice(&word.to_be_bytes());
    Fate::Change(other)
}

/// Where the arguments of a call begin, behind the record's mark.
fn args_at(record: &[u8]) -> usize {
    let mut r = Reader::new(&record[4..]);
    Call::decode(&mut r).unwrap();
    r.position()
}

#[test]
fn the_newest_version_that_both_have_is_spoken() {
    let any: Url = "nfs://longshore/data".parse().unwrap();
    for (newest, expected) in [(2, "NFS 4.2"), (1, "NFS 4.1"), (0, "NFS 4.0"), (-1, "NFS 3")] {
        let any = any.clone();
        story(async move {
            let line = Line::new(World::new());
            line.meddle(move |way, record| {
                const UNKNOWN: u32 = 99;
                const VERSION_AT: usize = 16;
                if way == Way::Reply || call_of(record).0 != program::NFS || call_of(record).1 != 4 {
                    return Fate::Pass;
                }
                // Behind the tag, which is empty.
                let minor_at = args_at(record) + 4;
                let minor = u32::from_be_bytes(record[4 + minor_at..8 + minor_at].try_into().unwrap());
                match newest {
                    -1 => with_word(record, VERSION_AT, UNKNOWN),
                    newest if minor as i32 > newest => with_word(record, minor_at, UNKNOWN),
                    _ => Fate::Pass,
                }
            });
            let client = Client::connect_by(line.dial(), &any, &options()).await.unwrap();
            assert!(client.description().starts_with(expected), "{}", client.description());
            client.write_at("file", 0, b"x").await.unwrap();
            if newest < 2 {
                let error = Client::connect_by(line.dial(), &url(NfsVersion::V4_2), &options()).await.unwrap_err();
                assert!(error.to_string().contains("MISMATCH"), "{error}");
            }
        });
    }
}

#[test]
fn what_is_not_exported_is_said_when_connecting() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let other = Url::nfs("longshore", "other", Some(version));
        let error = Client::connect_by(line.dial(), &other, &options()).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        line.is_down.set(true);
        let error = Client::connect_by(line.dial(), &other, &options()).await.unwrap_err();
        assert!(error.is_of_the_connection() && error.to_string().contains("connect to"), "{error}");
    });
}

/// The server says that it exports these.
fn export(line: &Line, paths: &'static [&'static [u8]]) {
    let asked = std::cell::Cell::new(0);
    line.meddle(move |way, record| {
        match way {
            Way::Call => {
                if call_of(record).0 == program::MOUNT && call_of(record).2 == MountProc::Export as u32 {
                    asked.set(xid_of(record));
                }
            }
            Way::Reply if xid_of(record) == asked.get() => {
                let entry = |path: &&'static [u8]| ExportEntry { path: Bounded(path), groups: Chain::default() };
                let entries: Vec<_> = paths.iter().map(entry).collect();
                return Fate::Change(with_results(record, &to_vec(&ExportList::new(&entries))));
            }
            Way::Reply => {}
        }
        Fate::Pass
    });
}

/// What was mounted so far.
fn mounted(line: &Line) -> Vec<Vec<u8>> {
    let is_mount = |r: &&Vec<u8>| call_of(r).0 == program::MOUNT && call_of(r).2 == MountProc::Mnt as u32;
    let calls = line.calls.borrow();
    calls.iter().filter(is_mount).map(|r| decode_all::<&[u8]>(call_of(r).3).unwrap().to_vec()).collect()
}

#[test]
fn room_is_that_of_the_export_the_url_leads_to() {
    story(async {
        let line = Line::new(World::new());
        join(&line, NfsVersion::V3).await.mkdir("deep").await.unwrap();
        export(&line, &[b"/data/deep"]);
        let url: Url = "nfs://longshore/data/deep?version=3".parse().unwrap();
        let client = Client::connect_by(line.dial(), &url, &options()).await.unwrap();
        line.calls.borrow_mut().clear();
        client.space().await.unwrap();
        assert_eq!(mounted(&line), [&b"/data/deep"[..]]);
    });
}

#[test]
fn the_export_with_the_longest_path_is_mounted() {
    story(async {
        let line = Line::new(World::new());
        join(&line, NfsVersion::V3).await.mkdir("deep").await.unwrap();
        export(&line, &[b"/data/deep", b"/data", b"/dat", b"/data/deeper"]);
        let client = join(&line, NfsVersion::V3).await;
        client.write_at("deep/file", 0, b"x").await.unwrap();
        client.write_at("file", 0, b"x").await.unwrap();
        client.stat("deep/file").await.unwrap();
        // The first is of the client that made the directory; each is mounted once.
        assert_eq!(mounted(&line), [&b"/data"[..], b"/data", b"/data/deep"]);
    });
}

#[test]
fn several_connections_share_the_work_and_any_may_be_lost() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let mut options = Options { max_transfer_bytes: 64 << 10, ..options() };
        options.nfs.connections = 4;
        let client = Client::connect_by(line.dial(), &url(version), &options).await.unwrap();
        assert_eq!(line.lines.get(), 4);
        let data = pattern(3_000_000);
        let mut left = 20;
        line.meddle(move |way, _| {
            left -= i32::from(way == Way::Call);
            if left % 17 == 0 && left > -40 { Fate::CutBehind } else { Fate::Pass }
        });
        let file = client.open_with("file", OpenHow::update()).await.unwrap();
        file.write_at(0, &data).await.unwrap();
        let mut read = vec![0; data.len()];
        assert_eq!(file.read_at(0, &mut read).await.unwrap(), data.len());
        assert!(read == data);
        file.close().await.unwrap();
        assert!(line.lines.get() > 4);
    });
}

#[test]
fn a_request_is_as_large_as_both_allow() {
    in_each_version(|version| async move {
        for (wanted, expected) in [(100_000, 100_000), (8 << 20, 1 << 20)] {
            let line = Line::new(World::new());
            let options = Options { max_transfer_bytes: wanted, ..options() };
            let client = Client::connect_by(line.dial(), &url(version), &options).await.unwrap();
            client.write_at("file", 0, &pattern(3_000_000)).await.unwrap();
            let longest = line.calls.borrow().iter().map(Vec::len).max().unwrap();
            let around = expected..expected + 300;
            assert!(around.contains(&longest), "{wanted}: {longest}");
        }
    });
}

#[test]
fn small_files_take_one_round_trip_each_way() {
    for version in [NfsVersion::V4_1, NfsVersion::V4_2] {
        story(async move {
            let line = Line::new(World::new());
            let client = join(&line, version).await;
            client.mkdir("a").await.unwrap();
            client.mkdir("a/b").await.unwrap();
            line.calls.borrow_mut().clear();
            let data = pattern(4097);
            let path = Path::new("a/b/file");
            client.write_whole(path, &data, OpenHow::new_file(), &client::Times::default()).await.unwrap();
            let (stat, read) = client.read_whole(path, 8192).await.unwrap();
            assert!((stat.len_bytes, read.unwrap()) == (4097, data));
            let again = client.write_whole(path, b"x", OpenHow::new_file(), &client::Times::default()).await;
            assert!(again.unwrap_err().is_taken());
            client.write_whole(path, b"", OpenHow::overwrite(), &client::Times::default()).await.unwrap();
            assert_eq!(client.stat(path).await.unwrap().len_bytes, 0);
            assert_eq!(line.calls.borrow().len(), 5);
            let ops: Vec<OpNum> = ops_of(&line.calls.borrow()[0]);
            assert!(ops.contains(&OpNum::Open) && ops.contains(&OpNum::Commit) && ops.contains(&OpNum::Close));
            // A full disk is found out half way; what was opened for it is closed.
            line.world().fs.set_space(0);
            let (data, times) = (pattern(100_000), client::Times::default());
            let error = client.write_whole("full", &data, OpenHow::overwrite(), &times).await.unwrap_err();
            assert!(error.to_string().contains("NOSPC"), "{error}");
            let last = ops_of(line.calls.borrow().last().unwrap());
            assert!(last.contains(&OpNum::Close) && !last.contains(&OpNum::Open), "{last:?}");
        });
    }
}

/// The name, the temporary one, and what is in a directory then.
async fn names(client: &Client) -> Vec<String> {
    let entries = client.list("a").await.unwrap();
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_small_file_has_its_name_when_it_is_whole() {
    in_each_version(|version| async move {
        let line = Line::new(World::new());
        let client = join(&line, version).await;
        client.mkdir("a").await.unwrap();
        let times = client::Times { written: Some(std::time::SystemTime::UNIX_EPOCH), ..client::Times::default() };
        let data = pattern(4097);
        for old in [None, Some(b"old")] {
            line.calls.borrow_mut().clear();
            client.write_as("a/part", "a/name", &data, &times).await.unwrap();
            if version >= NfsVersion::V4_1 {
                assert_eq!(line.calls.borrow().len(), 1, "one round trip");
            }
            assert_eq!(names(&client).await, ["name"]);
            let (stat, read) = client.read_whole("a/name", 8192).await.unwrap();
            assert!(read.unwrap() == data && stat.times.written == times.written);
            client.write_whole("a/name", old.unwrap_or(b"one"), OpenHow::overwrite(), &times).await.unwrap();
        }
        client.mkdir("a/dir").await.unwrap();
        let error = client.write_as("a/part", "a/dir", &data, &times).await.unwrap_err();
        assert!(error.nfs_status().is_some(), "{error}");
        assert_eq!(names(&client).await, ["dir", "name"]);
        // A server that takes less than it was sent is sent the rest before the file has its name.
        let (world, mut is_short) = (line.clone(), false);
        let is_named_early = std::rc::Rc::new(std::cell::Cell::new(false));
        let is_named = std::rc::Rc::clone(&is_named_early);
        line.meddle(move |way, record| {
            let ops = if way == Way::Call { ops_of(record) } else { Vec::new() };
            if std::mem::take(&mut is_short) {
                is_named.set(is_named.get() | exists(&world.world(), "a/other"));
            }
            is_short = ops.contains(&OpNum::Rename) && ops.contains(&OpNum::Write);
            if is_short { Fate::Change(with_less_data(record)) } else { Fate::Pass }
        });
        client.write_as("a/part", "a/other", &data, &times).await.unwrap();
        line.honest();
        assert!(!is_named_early.get(), "it was not whole");
        assert!(client.read_whole("a/other", 8192).await.unwrap().1.unwrap() == data);
        line.world().fs.set_space(0);
        let error = client.write_as("a/part", "a/name", &pattern(100_000), &times).await.unwrap_err();
        assert!(error.to_string().contains("NOSPC"), "{error}");
        assert_eq!(names(&client).await, ["dir", "name", "other"]);
        assert_eq!(client.read_whole("a/name", 8192).await.unwrap().1.unwrap(), b"old");
        assert_eq!(line.world().table.stats().files, 0, "nothing is left open");
    });
}

fn exists(world: &World, path: &str) -> bool {
    let root = vfs::Cred { uid: 0, gid: 0, groups: [].into() };
    let path = vfs::Path::new(path.as_bytes()).unwrap();
    vfs::Backend::attr_at(&*world.fs, &root, &*vfs::Backend::root(&*world.fs), &path, vfs::Wait::Allowed).is_ok()
}

/// The call with four bytes less to be written: the last, and the padding, of 4097.
fn with_less_data(record: &[u8]) -> Vec<u8> {
    let len = 4097u32.to_be_bytes();
    let at = record.windows(4).position(|word| word == len).expect("the length of the data");
    let mut other = record[..at].to_vec();
    other.extend(4096u32.to_be_bytes());
    other.extend(&record[at + 4..at + 4 + 4096]);
    other.extend(&record[at + 4 + 4100..]);
    let mark = (other.len() as u32 - 4) | 0x8000_0000;
    other[..4].copy_from_slice(&mark.to_be_bytes());
    other
}
