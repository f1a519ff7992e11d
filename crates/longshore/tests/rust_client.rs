//! A client nobody here wrote, the crate `smb2`, against the built binary: what a program that links it would do.

mod util;

use smb2::client::ClientConfig;
use smb2::{ErrorKind, SmbClient};
use util::{Server, home_with_share, serve};

const PASSWORD: &str = "correct horse";

/// A server of one directory, `docs`, for the user `anna`.
fn server(more: &[&str]) -> (tempfile::TempDir, std::path::PathBuf, Server) {
    let (home, docs) = home_with_share();
    let mut arguments = vec!["--user", "anna", docs.as_str()];
    arguments.extend(more);
    let mut command = serve(home.path(), &arguments);
    command.env("LONGSHORE_PASSWORD", PASSWORD);
    let server = Server::start(command);
    (home, docs.into(), server)
}

async fn client(server: &Server) -> SmbClient {
    smb2::connect(&server.address.to_string(), "anna", PASSWORD).await.unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[tokio::test]
async fn files_go_in_and_come_out_the_same() {
    let (_home, docs, server) = server(&[]);
    let mut client = client(&server).await;
    let mut share = client.connect_share("docs").await.unwrap();
    for len in [0, 1, 4096, 65_537, 9_000_001] {
        let data = pattern(len);
        client.write_file(&share, "in.bin", &data).await.unwrap();
        assert!(std::fs::read(docs.join("in.bin")).unwrap() == data, "{len} bytes written");
        if len <= 8 << 20 {
            // What one READ can hold.
            assert!(client.read_file(&mut share, "in.bin").await.unwrap() == data, "{len} bytes read");
        }
        assert!(client.read_file_pipelined(&mut share, "in.bin").await.unwrap() == data, "{len} bytes pipelined");
    }
    client.disconnect_share(&share).await.unwrap();
}

#[tokio::test]
async fn a_tree_is_made_listed_renamed_and_removed() {
    let (_home, docs, server) = server(&[]);
    let mut client = client(&server).await;
    let mut share = client.connect_share("docs").await.unwrap();
    client.create_directory(&share, "Größe").await.unwrap();
    for i in 0..300 {
        client.write_file_compound(&share, &format!("Größe/file {i}"), b"x").await.unwrap();
    }
    let names: std::collections::BTreeSet<_> =
        client.list_directory(&mut share, "Größe").await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.iter().filter(|name| name.starts_with("file ")).count(), 300);
    client.rename(&share, "Größe/file 7", "Größe/seven?").await.unwrap();
    assert_eq!(std::fs::read(docs.join("Größe/seven?")).unwrap(), b"x", "a name that Windows cannot hold");
    assert_eq!(client.stat(&mut share, "größe/FILE 8").await.unwrap().size, 1, "whatever its case");
    let refused = client.delete_directory(&share, "Größe").await.unwrap_err();
    assert!(format!("{refused:?}").contains("NOT_EMPTY"), "{refused:?}");
    for name in names.iter().filter(|name| name.starts_with("file ") && *name != "file 7") {
        client.delete_file(&share, &format!("Größe/{name}")).await.unwrap();
    }
    client.delete_file(&share, "Größe/seven?").await.unwrap();
    client.delete_directory(&share, "Größe").await.unwrap();
    assert_eq!(std::fs::read_dir(&docs).unwrap().count(), 0);
}

#[tokio::test]
async fn shares_are_listed_and_strangers_are_not_let_in() {
    let (_home, _docs, server) = server(&["--read-only"]);
    let mut client = client(&server).await;
    let shares = client.list_shares().await.unwrap();
    assert!(shares.iter().any(|share| share.name == "docs"), "{shares:?}");
    let share = client.connect_share("docs").await.unwrap();
    let refused = client.write_file(&share, "no", b"x").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AccessDenied, "{refused}");
    assert_eq!(client.connect_share("nowhere").await.unwrap_err().kind(), ErrorKind::NotFound);
    let config = ClientConfig { password: "wrong".into(), ..client.config().clone() };
    assert!(SmbClient::connect(config).await.is_err());
}
