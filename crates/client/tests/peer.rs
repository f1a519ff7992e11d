//! The client against a server nobody here wrote. Not run by itself: `conformance/client` starts the server and says where
//! it is.

use std::time::{Duration, SystemTime};

use client::{Client, Credentials, Dialect, NtStatus, OpenHow, Options, Protection, Times, Url};

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
                files(&client).await;
                names(&client).await;
                client.disconnect().await.unwrap();
            }
        }
    }
}

async fn files(client: &Client) {
    for len in [0, 1, 65_536, 9_000_001] {
        let data = pattern(len);
        let file = client.create("file").await.unwrap();
        file.write_at(0, &data).await.unwrap();
        file.sync().await.unwrap();
        assert_eq!(file.stat().await.unwrap().len_bytes, len as u64);
        file.close().await.unwrap();
        let mut stream = client.open("file").await.unwrap().read_stream(0..u64::MAX);
        let mut read = Vec::new();
        while let Some(chunk) = stream.next().await.unwrap() {
            read.extend_from_slice(&chunk);
        }
        assert!(read == data, "{len} bytes");
    }
    let file = client.open_with("file", OpenHow::update()).await.unwrap();
    file.set_len(10).await.unwrap();
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_times(&Times { written: Some(written), ..Times::default() }).await.unwrap();
    file.close().await.unwrap();
    let stat = client.stat("file").await.unwrap();
    assert_eq!((stat.len_bytes, stat.times.written), (10, Some(written)));
    client.remove("file").await.unwrap();
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

#[tokio::test]
#[ignore = "needs a server: conformance/client"]
async fn a_foreign_server_refuses_who_has_no_password() {
    let url: Url = setting("LONGSHORE_PEER").parse().unwrap();
    let error = Client::connect(&url, Credentials::password(url.user(), "wrong")).await.unwrap_err();
    assert_eq!(error.status(), Some(NtStatus::LOGON_FAILURE), "{error}");
}
