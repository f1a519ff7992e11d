//! The NFS half of the client against a server nobody here wrote, or our own over TCP. Not run by itself: `conformance/client
//! --nfs URL` says where it is, in a directory that may be filled and emptied.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use client::{Client, Credentials, NfsVersion, OpenHow, Options, Protocol, SetAttributes, Times, Url};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + i / 65_537) as u8).collect()
}

fn versions(url: &Url) -> Vec<NfsVersion> {
    match url.protocol() {
        Protocol::Nfs(Some(version)) => vec![version],
        _ => NfsVersion::ALL.to_vec(),
    }
}

fn in_version(text: &str, version: NfsVersion) -> Url {
    match text.contains("version=") {
        true => text.parse().unwrap(),
        false => {
            let mark = if text.contains('?') { '&' } else { '?' };
            format!("{text}{mark}version={}", version.as_str()).parse().unwrap()
        }
    }
}

#[tokio::test]
#[ignore = "needs a server: LONGSHORE_NFS_PEER"]
async fn a_foreign_server_does_what_is_asked() {
    let text = std::env::var("LONGSHORE_NFS_PEER").expect("LONGSHORE_NFS_PEER is to be set");
    let url: Url = text.parse().unwrap();
    for version in versions(&url) {
        for connections in [1, 3] {
            let url = in_version(&text, version);
            let mut options = Options::default();
            options.nfs.connections = connections;
            let client = Client::connect_with(&url, Credentials::password("", ""), &options).await.unwrap();
            println!("{url}: {}", client.description());
            let base = url.path().join("client-test");
            clear(&client, &base).await;
            client.mkdir(&base).await.unwrap();
            files(&client, &base).await;
            names(&client, &base).await;
            if version != NfsVersion::V3 || has_lock_manager(&client, &base).await {
                locks(&client, &base).await;
            }
            copies(&client, &base).await;
            clear(&client, &base).await;
            client.disconnect().await.unwrap();
        }
    }
}

async fn clear(client: &Client, base: &std::path::Path) {
    let Ok(entries) = client.list(base).await else { return };
    for entry in entries {
        let path = base.join(&entry.name);
        if entry.stat.is_dir() {
            Box::pin(clear(client, &path)).await;
        } else {
            client.remove(&path).await.unwrap();
        }
    }
    client.remove(base).await.unwrap();
}

async fn read_all(client: &Client, path: &std::path::Path) -> Vec<u8> {
    let mut stream = client.open(path).await.unwrap().read_stream(0..u64::MAX);
    let mut read = Vec::new();
    while let Some(chunk) = stream.next().await.unwrap() {
        read.extend_from_slice(&chunk);
    }
    read
}

async fn files(client: &Client, base: &std::path::Path) {
    let path = base.join("file");
    for len in [0, 1, 65_536, 19_000_001] {
        let data = pattern(len);
        let file = client.create(&path).await.unwrap();
        file.write_at(0, &data).await.unwrap();
        file.sync().await.unwrap();
        assert_eq!(file.stat().await.unwrap().len_bytes, len as u64);
        file.close().await.unwrap();
        assert!(read_all(client, &path).await == data, "{len} bytes");
    }
    let file = client.open_with(&path, OpenHow::update()).await.unwrap();
    file.set_len(10).await.unwrap();
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_times(&Times { written: Some(written), ..Times::default() }).await.unwrap();
    file.close().await.unwrap();
    let stat = client.stat(&path).await.unwrap();
    assert_eq!((stat.len_bytes, stat.times.written), (10, Some(written)));
    let set = SetAttributes { mode: Some(0o640), len_bytes: Some(4), ..SetAttributes::default() };
    client.set_attributes(&path, &set).await.unwrap();
    let (stat, data) = client.read_whole(&path, 100).await.unwrap();
    assert_eq!((stat.mode, data.unwrap()), (Some(0o640), pattern(4)));
    client.write_whole(base.join("whole"), &pattern(7000), OpenHow::new_file(), &Times::default()).await.unwrap();
    assert!(read_all(client, &base.join("whole")).await == pattern(7000));
    assert!(client.open_with(base.join("whole"), OpenHow::new_file()).await.unwrap_err().is_taken());
    assert!(client.space().await.unwrap().total_bytes > 0);
}

async fn names(client: &Client, base: &std::path::Path) {
    let dir = base.join("dir");
    client.mkdir(&dir).await.unwrap();
    for n in 0..500 {
        client.create(dir.join(format!("a file of a long name {n}"))).await.unwrap().close().await.unwrap();
    }
    client.symlink("somewhere/else", dir.join("link")).await.unwrap();
    assert_eq!(client.read_link(dir.join("link")).await.unwrap(), PathBuf::from("somewhere/else"));
    let entries = client.list(&dir).await.unwrap();
    assert_eq!(entries.len(), 501);
    assert!(entries.iter().filter(|e| e.stat.is_link()).count() == 1);
    let (one, two) = (dir.join("a file of a long name 1"), dir.join("a file of a long name 2"));
    assert!(client.rename(&one, &two, false).await.unwrap_err().is_taken());
    client.rename(&one, dir.join("new"), false).await.unwrap();
    client.rename(dir.join("new"), &two, true).await.unwrap();
    assert!(client.stat(&one).await.unwrap_err().is_not_found());
    client.rename(&dir, base.join("dir 2"), false).await.unwrap();
    assert!(client.remove(base.join("dir 2")).await.is_err());
}

/// Beside version 3 there may be none, or one that cannot be found.
async fn has_lock_manager(client: &Client, base: &std::path::Path) -> bool {
    let path = base.join("asked");
    client.write_at(&path, 0, b"x").await.unwrap();
    let file = client.open_with(&path, OpenHow::change()).await.unwrap();
    match file.lock(0..1, true, false).await {
        Ok(()) => true,
        Err(error) if error.nfs_status().is_none() => {
            println!("no locks: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

async fn locks(client: &Client, base: &std::path::Path) {
    let path = base.join("locked");
    client.write_at(&path, 0, b"0123456789").await.unwrap();
    let one = client.open_with(&path, OpenHow::change()).await.unwrap();
    let two = client.open_with(&path, OpenHow::change()).await.unwrap();
    one.lock(0..5, true, false).await.unwrap();
    assert!(two.lock(4..6, true, false).await.is_err());
    two.lock(6..8, true, false).await.unwrap();
    one.write_at(0, b"xyz").await.unwrap();
    one.unlock(0..5).await.unwrap();
    two.lock(4..6, true, true).await.unwrap();
    two.close().await.unwrap();
    one.lock(0..u64::MAX, true, false).await.unwrap();
    one.close().await.unwrap();
}

async fn copies(client: &Client, base: &std::path::Path) {
    let (from, to) = (base.join("from"), base.join("to"));
    client.write_at(&from, 0, &pattern(3_000_000)).await.unwrap();
    match client.copy(&from, &to).await {
        Ok(len_bytes) => {
            assert_eq!(len_bytes, 3_000_000);
            assert!(read_all(client, &to).await == pattern(3_000_000));
        }
        Err(error) => assert!(error.is_unsupported(), "{error}"),
    }
}

/// `LONGSHORE_NFS_RESTART` is a command that ends the server without warning and starts it again.
#[tokio::test]
#[ignore = "needs a server and a way to restart it: LONGSHORE_NFS_PEER, LONGSHORE_NFS_RESTART"]
async fn what_is_written_outlives_a_restart_of_the_server() {
    let (Ok(text), Ok(command)) = (std::env::var("LONGSHORE_NFS_PEER"), std::env::var("LONGSHORE_NFS_RESTART")) else {
        return;
    };
    for version in versions(&text.parse().unwrap()) {
        let url = in_version(&text, version);
        let options = Options { timeout: Duration::from_secs(120), ..Options::default() };
        let client = Client::connect_with(&url, Credentials::password("", ""), &options).await.unwrap();
        let path = url.path().join("restarted");
        let data = pattern(150_000_000);
        let file = client.create(&path).await.unwrap();
        if version != NfsVersion::V3 {
            file.lock(0..10, true, false).await.unwrap();
        }
        let mut stream = file.write_stream(0);
        let (first, rest) = data.split_at(60_000_000);
        stream.write(first).await.unwrap();
        let restart = command.clone();
        let restarting = tokio::task::spawn_blocking(move || {
            assert!(std::process::Command::new("sh").args(["-c", &restart]).status().unwrap().success());
        });
        for piece in rest.chunks(3_000_000) {
            stream.write(piece).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stream.finish().await.unwrap();
        restarting.await.unwrap();
        if version != NfsVersion::V3 {
            let other = client.open_with(&path, OpenHow::change()).await.unwrap();
            assert!(other.lock(5..6, true, false).await.is_err(), "the lock is still there");
            file.unlock(0..10).await.unwrap();
        }
        file.close().await.unwrap();
        assert!(read_all(&client, &path).await == data, "version {}", version.as_str());
        client.remove(&path).await.unwrap();
        client.disconnect().await.unwrap();
        println!("version {}: restarted and whole", version.as_str());
    }
}
