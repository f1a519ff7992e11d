//! The client against a server nobody here wrote. Not run by itself: `conformance/client` starts the server and says where
//! it is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use client::{Client, Credentials, Dialect, NtStatus, OpenHow, Options, Protection, Times, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is to be set"))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + i / 65_537) as u8).collect()
}

async fn connect(options: &Options) -> Client {
    let url: Url = setting("LONGSHORE_PEER").parse().unwrap();
    let credentials = Credentials::password(url.user(), &setting("LONGSHORE_PASSWORD"));
    Client::connect_with(&url, credentials, options).await.unwrap()
}

#[tokio::test]
#[ignore = "needs a server: conformance/client"]
async fn a_foreign_server_does_what_is_asked() {
    for dialect in Dialect::ALL {
        for protection in [Protection::AsServer, Protection::Signed, Protection::Sealed] {
            if dialect.is_3() || protection != Protection::Sealed {
                let options = Options { max_dialect: dialect, protection, ..Options::default() };
                let client = connect(&options).await;
                assert_eq!(client.negotiated().unwrap().dialect, dialect);
                println!("{dialect} {protection:?}: {:?}", client.negotiated().unwrap());
                files(&client, "file").await;
                names(&client).await;
                operations(&client).await;
                client.disconnect().await.unwrap();
            }
        }
    }
}

async fn files(client: &Client, name: &str) {
    for len in [0, 1, 65_536, 9_000_001] {
        let data = pattern(len);
        let file = client.create(name).await.unwrap();
        file.write_at(0, &data).await.unwrap();
        file.sync().await.unwrap();
        assert_eq!(file.stat().await.unwrap().len_bytes, len as u64);
        file.close().await.unwrap();
        let mut stream = client.open(name).await.unwrap().read_stream(0..u64::MAX);
        let mut read = Vec::new();
        while let Some(chunk) = stream.next().await.unwrap() {
            read.extend_from_slice(&chunk);
        }
        assert!(read == data, "{len} bytes");
    }
    let file = client.open_with(name, OpenHow::update()).await.unwrap();
    file.set_len(10).await.unwrap();
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_times(&Times { written: Some(written), ..Times::default() }).await.unwrap();
    file.close().await.unwrap();
    let stat = client.stat(name).await.unwrap();
    assert_eq!((stat.len_bytes, stat.times.written), (10, Some(written)));
    client.remove(name).await.unwrap();
}

async fn names(client: &Client) {
    client.mkdir("Größe").await.unwrap();
    for i in 0..300 {
        client.write_at(format!("Größe/file {i}"), 0, b"x").await.unwrap();
    }
    let entries = client.list("Größe").await.unwrap();
    assert_eq!(entries.len(), 300);
    assert!(entries.iter().all(|entry| entry.stat.len_bytes == 1 && !entry.stat.is_dir()));
    client.rename("Größe/file 7", "a", false).await.unwrap();
    let refused = client.rename("Größe/file 8", "a", false).await.unwrap_err();
    assert_eq!(refused.status(), Some(NtStatus::OBJECT_NAME_COLLISION));
    client.rename("Größe/file 8", "a", true).await.unwrap();
    let refused = client.remove("Größe").await.unwrap_err();
    assert_eq!(refused.status(), Some(NtStatus::DIRECTORY_NOT_EMPTY));
    for entry in client.list("Größe").await.unwrap() {
        client.remove(std::path::Path::new("Größe").join(entry.name)).await.unwrap();
    }
    client.remove("Größe").await.unwrap();
    client.remove("a").await.unwrap();
    assert_eq!(client.stat("a").await.unwrap_err().status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
    assert_eq!(client.open("no/a").await.unwrap_err().status(), Some(NtStatus::OBJECT_PATH_NOT_FOUND));
}

/// Compounds, copies by the server, locks, changes.
async fn operations(client: &Client) {
    let data = pattern(60_000);
    let times =
        Times { written: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)), ..Times::default() };
    client.write_whole("whole", &data, OpenHow::new_file(), &times).await.unwrap();
    let (stat, read) = client.read_whole("whole", 60_000).await.unwrap();
    assert!(read.as_deref() == Some(&data), "what went in");
    assert_eq!((stat.len_bytes, stat.times.written), (60_000, times.written));
    assert_eq!(client.copy("whole", "copy").await.unwrap(), 60_000);
    assert!(client.read_whole("copy", 60_000).await.unwrap().1.as_deref() == Some(&data));
    assert!(client.space().await.unwrap().total_bytes > 0);
    let file = client.open_with("copy", OpenHow::change()).await.unwrap();
    let other = client.open_with("copy", OpenHow::change()).await.unwrap();
    file.lock(0..10, true, false).await.unwrap();
    assert_eq!(other.lock(5..6, true, false).await.unwrap_err().status(), Some(NtStatus::LOCK_NOT_GRANTED));
    let waiting = tokio::time::timeout(Duration::from_millis(300), other.lock(5..6, true, true)).await;
    assert!(waiting.is_err(), "it waits");
    file.unlock(0..10).await.unwrap();
    file.lock(5..6, true, false).await.expect("who gave up waiting holds nothing");
    file.close().await.unwrap();
    other.close().await.unwrap();
    let mut watch = client.watch("", true).await.unwrap();
    // Samba's watch begins a little after it says so.
    let mut names = ["copy", "renamed"];
    loop {
        client.rename(names[0], names[1], false).await.unwrap();
        let changes = tokio::time::timeout(Duration::from_millis(500), watch.next()).await;
        if changes.is_ok_and(|changes| changes.unwrap().iter().any(|c| c.path.as_os_str() == names[0])) {
            break;
        }
        names.reverse();
    }
    client.remove(names[1]).await.unwrap();
    client.remove("whole").await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: conformance/client"]
async fn a_foreign_server_takes_several_channels() {
    for (max_dialect, protection) in [
        (Dialect::V3_1_1, Protection::AsServer),
        (Dialect::V3_1_1, Protection::Sealed),
        (Dialect::V3_0, Protection::Signed),
    ] {
        let client = connect(&Options { max_dialect, protection, channels: 3, ..Options::default() }).await;
        println!("{max_dialect} {protection:?}: {:?}", client.negotiated().unwrap());
        for _ in 0..50 {
            if client.description().ends_with("3 channels") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(client.description().ends_with("3 channels"), "{}", client.description());
        files(&client, "over channels").await;
        client.disconnect().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: conformance/client"]
async fn a_foreign_server_refuses_who_has_no_password() {
    let url: Url = setting("LONGSHORE_PEER").parse().unwrap();
    let error = Client::connect(&url, Credentials::password(url.user(), "wrong")).await.unwrap_err();
    assert_eq!(error.status(), Some(NtStatus::LOGON_FAILURE), "{error}");
}

/// Somebody on the line who cuts it after so many bytes, once for every time it is asked to.
struct Cutter {
    address: SocketAddr,
    left: Arc<AtomicU64>,
    lines: Arc<AtomicUsize>,
}

impl Cutter {
    async fn new(host: String, port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cutter = Self {
            address: listener.local_addr().unwrap(),
            left: Arc::new(AtomicU64::new(u64::MAX)),
            lines: Arc::default(),
        };
        let (left, lines) = (Arc::clone(&cutter.left), Arc::clone(&cutter.lines));
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                lines.fetch_add(1, Relaxed);
                let far = TcpStream::connect((host.as_str(), port)).await.unwrap();
                tokio::spawn(carry(near, far, Arc::clone(&left)));
            }
        });
        cutter
    }

    fn cut_after(&self, bytes: u64) {
        self.left.store(bytes, Relaxed);
    }
}

async fn carry(near: TcpStream, far: TcpStream, left: Arc<AtomicU64>) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let (mut up, mut down) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let count = tokio::select! {
            Ok(count) = from_near.read(&mut up) => {
                to_far.write_all(&up[..count]).await.unwrap_or_default();
                count
            }
            Ok(count) = from_far.read(&mut down) => {
                to_near.write_all(&down[..count]).await.unwrap_or_default();
                count
            }
            else => return,
        };
        if count == 0 {
            return;
        }
        let before = left.load(Relaxed);
        if before != u64::MAX {
            left.store(if before <= count as u64 { u64::MAX } else { before - count as u64 }, Relaxed);
        }
        if before <= count as u64 {
            return;
        }
    }
}

async fn write_over_cuts(client: &Client, cutter: &Cutter, data: &[u8]) -> Result<(), client::Error> {
    let file = client.create("large").await?;
    // Samba does not give back a file that has other blocks than when the connection was lost, and file systems take some
    // back then that they had set aside for more; the share is configured to have all from the start.
    file.set_len(data.len() as u64).await?;
    let mut stream = file.write_stream(0);
    for (n, piece) in data.chunks(1 << 20).enumerate() {
        if n % 20 == 10 {
            cutter.cut_after(300_000);
        }
        stream.write(piece).await?;
    }
    assert_eq!(stream.finish().await?, data.len() as u64);
    file.close().await
}

#[tokio::test]
#[ignore = "needs a server: conformance/client"]
async fn a_large_file_goes_on_over_cuts() {
    let url: Url = setting("LONGSHORE_PEER").parse().unwrap();
    for (max_dialect, protection) in [
        (Dialect::V3_1_1, Protection::AsServer),
        (Dialect::V3_1_1, Protection::Sealed),
        (Dialect::V3_0_2, Protection::Signed),
        (Dialect::V2_1, Protection::AsServer),
        (Dialect::V2_0_2, Protection::AsServer),
    ] {
        let cutter = Cutter::new(url.host().into(), url.port()).await;
        let text = format!("smb://{}@{}/{}", url.user(), cutter.address, url.share());
        let credentials = Credentials::password(url.user(), &setting("LONGSHORE_PASSWORD"));
        let options = Options { max_dialect, protection, ..Options::default() };
        let client = Client::connect_with(&text.parse().unwrap(), credentials, &options).await.unwrap();
        let data = pattern(64 << 20);
        // Samba does not give back a file that changed after it noted what it looked like when the connection was lost,
        // and writes that were under way then are done a little later: now and then it is to be tried again.
        let mut tries = 0;
        while let Err(error) = write_over_cuts(&client, &cutter, &data).await {
            assert!(!error.is_of_the_connection(), "{error}");
            tries += 1;
            assert!(tries < 5, "{error}");
        }
        let written = cutter.lines.load(Relaxed);
        let file = client.open("large").await.unwrap();
        let mut stream = file.read_stream(0..u64::MAX);
        let (mut count, mut cuts) = (0, 0);
        while let Some(chunk) = stream.next().await.unwrap() {
            assert!(chunk[..] == data[count..count + chunk.len()], "at {count}");
            count += chunk.len();
            if count >> 20 >= 10 + cuts * 20 {
                cuts += 1;
                cutter.cut_after(300_000);
            }
        }
        assert_eq!(count, data.len());
        let lines = cutter.lines.load(Relaxed);
        println!(
            "{max_dialect} {protection:?}: {written} lines to write in {tries} more tries, {} more to read",
            lines - written
        );
        assert!(written > 2 && lines > written + 1);
        client.remove("large").await.unwrap();
    }
}
