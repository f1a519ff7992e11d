//! Our own client library over a socket against the built binary, as a program that links it would use it.

mod util;

use std::time::{Duration, SystemTime};

use client::{Client, Credentials, Error, NtStatus, OpenHow, Options, Protection, Times, Url};
use util::{Server, home_with_share, serve};

const PASSWORD: &str = "correct horse";

/// A server of one directory, `docs`, for the user `anna`.
fn server() -> (tempfile::TempDir, std::path::PathBuf, Server) {
    let (home, docs) = home_with_share();
    let mut command = serve(home.path(), &["--user", "anna", docs.as_str()]);
    command.env("LONGSHORE_PASSWORD", PASSWORD);
    let server = Server::start(command);
    (home, docs.into(), server)
}

fn url(server: &Server) -> Url {
    format!("smb://anna@{}/docs/sub", server.address).parse().unwrap()
}

async fn connect(server: &Server, protection: Protection) -> Result<Client, Error> {
    let options = Options { protection, ..Options::default() };
    Client::connect_with(&url(server), Credentials::password("anna", PASSWORD), &options).await
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + i / 65_537) as u8).collect()
}

#[tokio::test]
async fn files_go_in_and_come_out_the_same() {
    let (_home, docs, server) = server();
    for protection in [Protection::AsServer, Protection::Signed, Protection::Sealed] {
        let client = connect(&server, protection).await.unwrap();
        for len in [0, 1, 4096, 65_537, 20_000_003] {
            let data = pattern(len);
            let file = client.create("in.bin").await.unwrap();
            file.write_at(0, &data).await.unwrap();
            file.close().await.unwrap();
            assert!(std::fs::read(docs.join("in.bin")).unwrap() == data, "{len} bytes written, {protection:?}");
            let mut stream = client.open("in.bin").await.unwrap().read_stream(0..u64::MAX);
            let mut read = Vec::new();
            while let Some(chunk) = stream.next().await.unwrap() {
                read.extend_from_slice(&chunk);
            }
            assert!(read == data, "{len} bytes read, {protection:?}");
        }
        client.disconnect().await.unwrap();
    }
}

#[tokio::test]
async fn a_tree_is_made_listed_renamed_and_removed() {
    let (_home, docs, server) = server();
    let client = connect(&server, Protection::AsServer).await.unwrap();
    let sub = url(&server).path().to_owned();
    client.mkdir(&sub).await.unwrap();
    for i in 0..300 {
        client.write_at(sub.join(format!("file {i}: ?")), 0, b"x").await.unwrap();
    }
    assert_eq!(std::fs::read(docs.join("sub/file 7: ?")).unwrap(), b"x", "a name that Windows cannot hold");
    let mut names: Vec<_> = client.list(&sub).await.unwrap().into_iter().map(|entry| entry.name).collect();
    let mut there: Vec<_> = std::fs::read_dir(docs.join("sub")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    there.sort();
    assert_eq!(names, there);
    client.rename("sub/file 7: ?", "seven", false).await.unwrap();
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let file = client.open_with("seven", OpenHow::update()).await.unwrap();
    file.set_times(&Times { written: Some(written), ..Times::default() }).await.unwrap();
    file.close().await.unwrap();
    assert_eq!(std::fs::metadata(docs.join("seven")).unwrap().modified().unwrap(), written);
    for name in names.iter().filter(|name| *name != "file 7: ?") {
        client.remove(sub.join(name)).await.unwrap();
    }
    client.remove(&sub).await.unwrap();
    let error = client.stat("sub").await.unwrap_err();
    assert_eq!(error.status(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
}

#[tokio::test]
async fn who_cannot_get_in_is_told_why() {
    let (_home, _docs, server) = server();
    let error = Client::connect(&url(&server), Credentials::password("anna", "wrong")).await.unwrap_err();
    assert_eq!(error.status(), Some(NtStatus::LOGON_FAILURE), "{error}");
    let nowhere = Url::new("127.0.0.1", "nowhere").with_port(server.address.port());
    let error = Client::connect(&nowhere, Credentials::password("anna", PASSWORD)).await.unwrap_err();
    assert_eq!(error.status(), Some(NtStatus::BAD_NETWORK_NAME), "{error}");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = Url::new("127.0.0.1", "docs").with_port(silent.local_addr().unwrap().port());
    let options = Options { timeout: Duration::from_millis(200), ..Options::default() };
    let error = Client::connect_with(&nobody, Credentials::password("anna", PASSWORD), &options).await.unwrap_err();
    assert!(error.to_string().contains("no answer within 0.2 seconds"), "{error}");
    drop(silent);
    let error = Client::connect_with(&nobody, Credentials::password("anna", PASSWORD), &options).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}
