//! Files and directories: what goes in comes out, whatever the dialect and the protection.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use client::{Cipher, Client, Dialect, NtStatus, OpenHow, Options, Protection, SigningAlgorithm, Times};

use crate::util::World;
use crate::wire::{join, soon};
use crate::{pattern, story};

/// Every dialect, plain, signed and, where there is a cipher, sealed; and every algorithm of 3.1.1.
fn ways() -> Vec<Options> {
    let mut ways = Vec::new();
    for dialect in Dialect::ALL {
        for protection in [Protection::AsServer, Protection::Signed, Protection::Sealed] {
            if dialect.is_3() || protection != Protection::Sealed {
                ways.push(Options { protection, min_dialect: dialect, max_dialect: dialect, ..Options::default() });
            }
        }
    }
    for cipher in [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm] {
        ways.push(Options { protection: Protection::Sealed, ciphers: vec![cipher], ..Options::default() });
    }
    for signing in [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac] {
        ways.push(Options { protection: Protection::Signed, signing: vec![signing], ..Options::default() });
    }
    ways
}

#[test]
fn what_goes_in_comes_out_in_every_way() {
    for options in ways() {
        story(async {
            let world = World::new();
            let client = join(&world, &options).await;
            assert!((options.min_dialect..=options.max_dialect).contains(&client.negotiated().unwrap().dialect));
            let data = pattern(3 * 1024 * 1024 + 17);
            put(&client, "in.bin", &data).await;
            assert!(world.content("in.bin").unwrap() == data, "{options:?}");
            assert!(get(&client, "in.bin").await == data, "{options:?}");
            client.disconnect().await.unwrap();
            settle(&world).await;
        });
    }
}

async fn put(client: &Client, path: &str, data: &[u8]) {
    let file = client.create(path).await.unwrap();
    let mut stream = file.write_stream(0);
    // Pieces of every size, so that some fit into requests and others do not; to be copied or not.
    let mut rest = data;
    for (i, size) in (1..).map(|i| (i, i * i * 97)) {
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        match i % 3 {
            0 => stream.write(piece).await.unwrap(),
            _ => stream.write_shared(Bytes::copy_from_slice(piece)).await.unwrap(),
        }
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(stream.finish().await.unwrap(), data.len() as u64);
    file.sync().await.unwrap();
    file.close().await.unwrap();
}

async fn get(client: &Client, path: &str) -> Vec<u8> {
    let file = client.open(path).await.unwrap();
    let mut stream = file.read_stream(0..u64::MAX);
    let mut data = Vec::new();
    while let Some(chunk) = stream.next().await.unwrap() {
        assert_eq!(chunk.offset(), data.len() as u64);
        data.extend_from_slice(&chunk);
    }
    data
}

/// Lets closes that nobody waits for arrive, and looks whether anything is left.
async fn settle(world: &World) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.assert_nothing_left();
}

#[test]
fn parts_are_read_and_written_where_they_are() {
    story(async {
        let world = World::new();
        let client = join(&world, &Options::default()).await;
        world.put("part", &pattern(3_000_000));
        let file = client.open_with("part", OpenHow::update()).await.unwrap();
        file.write_at(1_999_999, b"here").await.unwrap();
        let mut buf = [0; 6];
        assert_eq!(file.read_at(1_999_998, &mut buf).await.unwrap(), 6);
        assert_eq!(buf[1..5], *b"here");
        let mut large = vec![0; 4_000_000];
        assert_eq!(file.read_at(0, &mut large).await.unwrap(), 3_000_000, "no more than there is");
        assert_eq!(file.read_at(3_000_000, &mut buf).await.unwrap(), 0);
        assert_eq!(file.read_at(u64::MAX - 3, &mut buf[..0]).await.unwrap(), 0);
        file.set_len(5).await.unwrap();
        assert_eq!(file.stat().await.unwrap().len_bytes, 5);
        drop(file);
        client.write_at("new", 3, b"x").await.unwrap();
        assert_eq!(world.content("new").unwrap(), b"\0\0\0x");
        assert_eq!(client.read_at("new", 1, &mut buf).await.unwrap(), 3);
        drop(client);
        settle(&world).await;
    });
}

#[test]
fn a_range_is_read_and_no_more() {
    story(async {
        let world = World::new();
        let data = pattern(5_000_000);
        world.put("long", &data);
        let client = join(&world, &Options::default()).await;
        let file = client.open("long").await.unwrap();
        for range in [0..0, 7..8, 1_000_000..3_100_001, 4_999_999..9_000_000, 6_000_000..7_000_000] {
            let mut stream = file.read_stream(range.clone());
            let mut read = Vec::new();
            while let Some(chunk) = stream.next().await.unwrap() {
                read.extend_from_slice(&chunk);
            }
            let clip = |at: u64| usize::try_from(at).unwrap().min(data.len());
            assert!(read == data[clip(range.start)..clip(range.end)], "{range:?}");
        }
    });
}

#[test]
fn a_file_that_grows_meanwhile_is_read_to_its_end() {
    story(async {
        let world = World::new();
        world.put("log", b"one");
        let client = join(&world, &Options::default()).await;
        let file = client.open("log").await.unwrap();
        let data = pattern(2_500_000);
        world.put("log", &data);
        let mut stream = file.read_stream(0..u64::MAX);
        let mut read = Vec::new();
        while let Some(chunk) = stream.next().await.unwrap() {
            read.extend_from_slice(&chunk);
        }
        assert!(read == data, "{} bytes", read.len());
    });
}

#[test]
fn a_tree_is_made_listed_renamed_and_removed() {
    story(async {
        let world = World::new();
        let client = join(&world, &Options::default()).await;
        client.mkdir("Größe").await.unwrap();
        let refused = client.mkdir("Größe").await.unwrap_err();
        assert_eq!(refused.status(), Some(NtStatus::OBJECT_NAME_COLLISION));
        for i in 0..3000 {
            world.put(&format!("Größe/file {i}"), b"x");
        }
        let entries = client.list("Größe").await.unwrap();
        assert_eq!(entries.len(), 3000);
        assert!(entries.iter().all(|e| e.stat.len_bytes == 1 && !e.stat.is_dir()));
        assert!(client.list("/").await.unwrap().iter().any(|e| e.name == "Größe" && e.stat.is_dir()));
        client.rename("Größe/file 7", "a", false).await.unwrap();
        assert_eq!(world.content("a").unwrap(), b"x", "a name of one letter");
        world.put("b?", b"yy");
        let refused = client.rename("a", "b?", false).await.unwrap_err();
        assert_eq!(refused.status(), Some(NtStatus::OBJECT_NAME_COLLISION));
        client.rename("a", "b?", true).await.unwrap();
        assert_eq!(client.stat("b?").await.unwrap().len_bytes, 1);
        let refused = client.remove("Größe").await.unwrap_err();
        assert_eq!(refused.status(), Some(NtStatus::DIRECTORY_NOT_EMPTY));
        assert_eq!(refused.to_string(), "remove Größe: STATUS_DIRECTORY_NOT_EMPTY (remove what is in it first)");
        for entry in client.list("Größe").await.unwrap() {
            client.remove(std::path::Path::new("Größe").join(entry.name)).await.unwrap();
        }
        client.remove("Größe").await.unwrap();
        assert!(!world.exists("Größe"));
        let missing = client.open("Größe/no").await.unwrap_err();
        assert_eq!(missing.status(), Some(NtStatus::OBJECT_PATH_NOT_FOUND));
        client.disconnect().await.unwrap();
        settle(&world).await;
    });
}

#[test]
fn times_are_set_and_seen() {
    story(async {
        let world = World::new();
        world.put("old", b"");
        let client = join(&world, &Options::default()).await;
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let file = client.open_with("old", OpenHow::update()).await.unwrap();
        file.set_times(&Times { written: Some(written), ..Times::default() }).await.unwrap();
        file.close().await.unwrap();
        let times = client.stat("old").await.unwrap().times;
        assert_eq!(times.written, Some(written));
        assert_ne!(times.created, Some(written));
    });
}

#[test]
fn many_callers_share_a_narrow_window() {
    story(async {
        let world = World::new();
        let options = Options { max_transfer_bytes: 8 << 20, credits: 8, ..Options::default() };
        let client = join(&world, &options).await;
        let data = pattern(2_000_000);
        let tasks: Vec<_> = (0..20)
            .map(|i| {
                let (client, data) = (client.clone(), data.clone());
                tokio::task::spawn_local(async move {
                    let path = format!("{i}");
                    put(&client, &path, &data).await;
                    assert!(get(&client, &path).await == data);
                })
            })
            .collect();
        for task in tasks {
            soon(task).await.unwrap();
        }
    });
}

#[test]
fn an_open_that_nobody_waits_for_is_closed() {
    story(async {
        let world = World::new();
        world.put("file", b"x");
        let client = join(&world, &Options::default()).await;
        {
            let mut opening = std::pin::pin!(client.open("file"));
            let once = std::future::poll_fn(|cx| std::task::Poll::Ready(opening.as_mut().poll(cx).is_pending()));
            assert!(once.await, "the request is under way");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(client.stat("file").await.unwrap().len_bytes, 1, "the connection goes on");
        assert_eq!(world.server.open_count(), 0);
    });
}
