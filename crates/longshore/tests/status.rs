//! `longshore status` and `longshore top`, and the metrics, of the built binary: what was done is what they tell, and only
//! those who may know are told.

mod util;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use client::{Client, Credentials, Options, Protection, Url};
use rustix::process::Signal;
use serde_json::Value;
use util::{Server, home_with_share, longshore, refused, run, serve};

const PASSWORD: &str = "correct horse";

/// A server of one directory, `docs`, for the user `anna`, its state in `home/state`.
fn server(more: &[&str]) -> (tempfile::TempDir, Server) {
    let (home, docs) = home_with_share();
    let state = state(home.path());
    let arguments = [&["--user", "anna", "--state", &state, &docs][..], more].concat();
    let mut command = serve(home.path(), &arguments);
    command.env("LONGSHORE_PASSWORD", PASSWORD);
    let server = Server::start(command);
    (home, server)
}

fn state(home: &Path) -> String {
    home.join("state").display().to_string()
}

async fn connect(server: &Server, protection: Protection) -> Client {
    let url: Url = format!("smb://anna@{}/docs", server.address).parse().unwrap();
    let options = Options { protection, ..Options::default() };
    Client::connect_with(&url, Credentials::password("anna", PASSWORD), &options).await.unwrap()
}

fn status(home: &Path) -> Value {
    let output = run(home, &["status", "--json", "--state", &state(home)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn operation(status: &Value, name: &str) -> (u64, u64, u64) {
    let all = status["operations"].as_array().unwrap();
    let found = all.iter().find(|one| one["protocol"] == "smb" && one["name"] == name);
    found.map_or((0, 0, 0), |one| {
        let get = |value: &Value| value.as_u64().unwrap();
        (get(&one["count"]), get(&one["errors"]), get(&one["latency_ns"]["count"]))
    })
}

/// What an HTTP server answers to a request, head and body.
fn http(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The value of one series.
fn series(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

#[tokio::test]
async fn what_was_done_is_what_is_told() {
    let (home, server) = server(&["--metrics", "127.0.0.1:0"]);
    let before = status(home.path());
    assert_eq!(before["sessions"], Value::Array(Vec::new()));
    assert_eq!(before["shares"][0]["name"], "docs");
    assert_eq!(before["listen"]["smb"][0], server.address.to_string());
    let client = connect(&server, Protection::AsServer).await;
    client.write_at("file", 0, &[7; 4096]).await.unwrap();
    let file = client.open("file").await.unwrap();
    for _ in 0..40 {
        file.read_at(0, &mut [0; 4096]).await.unwrap();
    }
    assert!(client.open("nothing").await.is_err());
    let now = status(home.path());
    let read = operation(&now, "read");
    assert_eq!((read.0, read.1), (40, 0));
    assert_eq!(operation(&now, "write").0, 1);
    let (creates, failed, timed) = operation(&now, "create");
    assert!(creates >= 2 && failed == 1 && timed == creates, "{creates} {failed} {timed}");
    assert_eq!(now["counters"]["read_copy"], 40);
    assert_eq!(now["counters"]["read_bytes"], 40 * 4096);
    let session = &now["sessions"][0];
    assert_eq!((&session["user"], &session["dialect"]), (&"anna".into(), &"3.1.1".into()));
    assert_eq!((&session["opens"], &session["encrypted"]), (&1.into(), &false.into()));
    assert_eq!((&now["claims"]["opens"], &now["claims"]["files"]), (&1.into(), &1.into()));
    let connection = &now["connections"][0];
    assert_eq!((&connection["protocol"], &connection["peer"]), (&"smb".into(), &session["channels"][0]));
    assert!(connection["sent_bytes"].as_u64().unwrap() > 40 * 4096);
    assert!(now["memory"]["resident_bytes"].as_u64().unwrap() > 1 << 20);

    let metrics = TcpStream::connect(now["listen"]["metrics"].as_str().unwrap()).unwrap();
    let (head, text) = http(metrics, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert_eq!(series(&text, "longshore_smb_requests_total{command=\"read\"}"), 40.0);
    assert_eq!(series(&text, "longshore_smb_errors_total{command=\"create\"}"), 1.0);
    assert_eq!(series(&text, "longshore_smb_request_duration_seconds_count{command=\"read\"}"), 40.0);
    assert_eq!(series(&text, "longshore_smb_read_bytes_total{path=\"copy\"}"), 40.0 * 4096.0);
    assert_eq!(series(&text, "longshore_connections{protocol=\"smb\"}"), 1.0);
    let took = series(&text, "longshore_smb_request_duration_seconds_sum{command=\"read\"}");
    assert!(took > 0.0 && took < 60.0, "{took}");

    let shown = String::from_utf8(run(home.path(), &["status", "--state", &state(home.path())]).stdout).unwrap();
    assert!(shown.contains("anna") && shown.contains("3.1.1") && shown.contains("1 SMB, 0 NFS"), "{shown}");
    file.close().await.unwrap();
    client.disconnect().await.unwrap();
}

#[tokio::test]
async fn each_path_counts_itself() {
    let (home, server) = server(&[]);
    std::fs::write(home.path().join("docs/large"), vec![7; 1 << 20]).unwrap();
    let mut before = status(home.path());
    let paths = ["read_pages", "read_signed", "read_sealed", "read_copy"];
    for (protection, path) in
        [(Protection::AsServer, "read_pages"), (Protection::Signed, "read_signed"), (Protection::Sealed, "read_sealed")]
    {
        let client = connect(&server, protection).await;
        let file = client.open("large").await.unwrap();
        assert_eq!(file.read_at(0, &mut vec![0; 1 << 20]).await.unwrap(), 1 << 20);
        file.close().await.unwrap();
        client.disconnect().await.unwrap();
        let now = status(home.path());
        for other in paths {
            let taken = now["counters"][other].as_u64().unwrap() - before["counters"][other].as_u64().unwrap();
            assert_eq!(taken > 0, other == path, "{other} was taken {taken} times for {path}");
        }
        let bytes = format!("{path}_bytes");
        assert_eq!(now["counters"][&bytes], 1 << 20, "{bytes}");
        before = now;
    }
}

#[tokio::test]
async fn top_shows_what_goes_on() {
    let (home, server) = server(&[]);
    let client = connect(&server, Protection::AsServer).await;
    client.write_at("file", 0, &[7; 4096]).await.unwrap();
    let file = client.open("file").await.unwrap();
    let state = state(home.path());
    let mut top = longshore(home.path(), &["top", "--once", "--interval", "1.5", "--state", &state]);
    let top = tokio::task::spawn_blocking(move || top.output().unwrap());
    while !top.is_finished() {
        file.read_at(0, &mut [0; 4096]).await.unwrap();
    }
    let top = top.await.unwrap();
    assert!(top.status.success(), "{}", String::from_utf8_lossy(&top.stderr));
    let frame = String::from_utf8(top.stdout).unwrap();
    let row = |start: &str| frame.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{frame}"));
    let read: Vec<_> = row("smb read").split_whitespace().collect();
    assert!(read[2].parse::<f64>().unwrap() >= 1.0, "{frame}");
    assert!(read[4].ends_with('s') && read[5].ends_with('s'), "{frame}");
    assert!(row("READ").contains("copied 100 %"), "{frame}");
    assert!(row("127.0.0.1:").ends_with("anna"), "{frame}");
    assert!(!frame.contains('\x1b'), "no orders to a terminal that is none");
}

#[test]
fn who_may_not_ask_or_asks_nobody_is_told_so() {
    let (home, mut server) = server(&[]);
    let state = state(home.path());
    let socket = Path::new(&state).join("control.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, said) = refused(home.path(), &["status", "--state", "/nowhere/at/all"]);
    assert_eq!(code, 1);
    assert!(said.contains("no server runs with the state directory /nowhere/at/all"), "{said}");
    let (head, _) = http(UnixStream::connect(&socket).unwrap(), "GET /other HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    let (head, _) = http(UnixStream::connect(&socket).unwrap(), "DELETE /status HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
    // A second server with the same state serves, and leaves the first its socket.
    let inode = std::fs::metadata(&socket).unwrap().ino();
    let docs = home.path().join("docs").display().to_string();
    let mut second = serve(home.path(), &["--user", "anna", "--state", &state, &docs]);
    second.env("LONGSHORE_PASSWORD", PASSWORD);
    drop(Server::start(second));
    assert_eq!(std::fs::metadata(&socket).unwrap().ino(), inode);
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
    assert!(!socket.exists(), "it goes with the server");
    let (_, said) = refused(home.path(), &["top", "--state", &state]);
    assert!(said.contains("no server runs"), "{said}");
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return; // nobody can be somebody else here
    }
    use std::os::unix::process::CommandExt;
    let (home, _server) = server(&[]);
    let state = state(home.path());
    // All may get at the socket: the kernel's word on who asks is what counts then.
    for (path, mode) in [
        (home.path().to_owned(), 0o755),
        (state.clone().into(), 0o755),
        (format!("{state}/control.sock").into(), 0o666),
    ] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let copy = home.path().join("longshore");
    std::fs::copy(env!("CARGO_BIN_EXE_longshore"), &copy).unwrap();
    let ask = || {
        let mut command = std::process::Command::new(&copy);
        command.args(["status", "--state", &state]).uid(65_534).gid(65_534);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = ask();
    assert!(code == Some(1) && said.contains("answers only the user it runs as, and root"), "{said}");
    std::fs::set_permissions(&state, PermissionsExt::from_mode(0o700)).unwrap();
    let (code, said) = ask();
    assert!(code == Some(1) && said.contains("answers only the user it runs as, and root"), "{said}");
}

#[test]
fn hostile_bytes_at_the_endpoint_do_nothing() {
    let (home, _server) = server(&["--metrics", "127.0.0.1:0"]);
    let at = status(home.path())["listen"]["metrics"].as_str().unwrap().to_owned();
    let connect = || {
        let stream = TcpStream::connect(&at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let mut chance = 1u32;
    for round in 0..200usize {
        let mut bytes: Vec<u8> = (0..round * 61)
            .map(|_| {
                chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (chance >> 24) as u8
            })
            .collect();
        if round % 3 == 0 {
            bytes.splice(0..0, *b"GET /metrics HTTP/1.1\r\n");
        }
        let mut stream = connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&answer));
    }
    // One that asks for nothing keeps none of its threads for ever, and is in nobody's way.
    let _silent: Vec<_> = (0..4).map(|_| connect()).collect();
    let (head, _) = http(connect(), "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(status(home.path())["uptime_seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn metrics_for_everybody_must_be_meant() {
    let (home, docs) = home_with_share();
    let (code, said) = refused(home.path(), &["serve", &docs, "--metrics", "0.0.0.0:0"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--metrics: 0.0.0.0:0 can be reached from other machines"), "{said}");
    let config = home.path().join("c.toml");
    std::fs::write(&config, "[server]\nmetrics = \"192.0.2.1:1\"\n").unwrap();
    let (code, said) = refused(home.path(), &["serve", &docs, "--config", &config.display().to_string()]);
    assert!(code == 2 && said.contains("c.toml:2: server.metrics: 192.0.2.1:1 can be reached"), "{said}");
    let (home, _server) = server(&["--metrics", "0.0.0.0:0", "--metrics-public"]);
    assert!(status(home.path())["listen"]["metrics"].as_str().unwrap().starts_with("0.0.0.0:"));
    let socket = home.path().join("run/metrics.sock").display().to_string();
    let (_home, _server) = self::server(&["--metrics", &format!("unix:{socket}")]);
    let (head, text) = http(UnixStream::connect(&socket).unwrap(), "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && series(&text, "longshore_smb_sessions") == 0.0, "{head}");
    let (head, _) = http(UnixStream::connect(&socket).unwrap(), "GET /status HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 404"), "sessions are for the owner: {head}");
}

/// NFS 3 and 4 at the same server: each operation under its protocol, the client that has a lease, the pages that were moved.
#[tokio::test]
async fn nfs_is_told_of_too() {
    let (home, docs) = home_with_share();
    std::fs::write(home.path().join("docs/large"), vec![7; 1 << 20]).unwrap();
    let config = home.path().join("c.toml");
    let share = format!("[share.docs]\npath = \"{docs}\"\nnfs_privileged_port = false\nnfs_squash = \"none\"\n");
    std::fs::write(&config, share).unwrap();
    let (state, config) = (state(home.path()), config.display().to_string());
    let more = ["--user", "anna", "--state", &state, "--config", &config, "--nfs", "127.0.0.1:0"];
    let mut command = serve(home.path(), &more);
    command.env("LONGSHORE_PASSWORD", PASSWORD);
    let _server = Server::start(command);
    let at = status(home.path())["listen"]["nfs"][0].as_str().unwrap().to_owned();
    let port = at.rsplit(':').next().unwrap().to_owned();
    for version in [format!("3&mountport={port}"), "4.1".into()] {
        let protocol = format!("nfs{}", &version[..1]);
        let before = status(home.path());
        let url: Url = format!("nfs://{at}/docs?version={version}").parse().unwrap();
        let client = Client::connect_with(&url, Credentials::password("", ""), &Options::default()).await.unwrap();
        let file = client.open("large").await.unwrap();
        assert_eq!(file.read_at(0, &mut vec![0; 1 << 20]).await.unwrap(), 1 << 20);
        assert!(client.open("nothing").await.is_err());
        let now = status(home.path());
        let more = |name: &str| now["counters"][name].as_u64().unwrap() - before["counters"][name].as_u64().unwrap();
        assert_eq!((more("nfs_read_bytes"), more("nfs_read_pages_bytes")), (1 << 20, 1 << 20), "{protocol}");
        let all = now["operations"].as_array().unwrap();
        let of = |name: &str| all.iter().find(|one| one["protocol"] == *protocol && one["name"] == name).unwrap();
        let read = of("read");
        assert_eq!(read["count"], read["latency_ns"]["count"], "{protocol}");
        assert_eq!(read["count"].as_u64().unwrap(), more("nfs_read_pages"), "{protocol}");
        let failed: u64 =
            all.iter().filter(|one| one["protocol"] == *protocol).filter_map(|one| one["errors"].as_u64()).sum();
        assert!(failed >= 1, "{protocol}: what is not there");
        assert!(now["connections"].as_array().unwrap().iter().any(|one| one["protocol"] == "nfs"));
        if protocol == "nfs4" {
            let client = &now["nfs_clients"][0];
            assert_eq!((&client["version"], &client["state"]), (&"4.1+".into(), &"confirmed".into()));
            assert_eq!(now["claims"]["opens"], client["opens"]);
            assert!(client["lease_age_seconds"].as_f64().unwrap() < 60.0);
            let shown = String::from_utf8(run(home.path(), &["status", "--state", &state]).stdout).unwrap();
            assert!(shown.contains("(lease 1m 30s)") && shown.contains("confirmed"), "{shown}");
        } else {
            assert_eq!(now["nfs_mounts"].as_array().unwrap().len(), 1);
        }
        file.close().await.unwrap();
        client.disconnect().await.unwrap();
    }
}
