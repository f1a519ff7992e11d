//! The built binary as a person or a script meets it: its lines, its exit codes, its signals. What SMB clients see is
//! tested elsewhere.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

mod util;

use util::{Server, home_with_share, longshore, refused, run, serve};

#[test]
fn it_says_when_and_where_it_is_ready_and_ends_cleanly() {
    let (home, docs) = home_with_share();
    let mut server = Server::start(serve(home.path(), &[&docs]));
    assert_ne!(server.address.port(), 0);
    assert!(server.said.contains("longshore: serving docs over SMB 2/3, ready on 127.0.0.1:"), "{}", server.said);
    for line in ["net use Z: ", "open 'smb://", "mount -t cifs //127.0.0.1/docs", "smbclient -p "] {
        assert!(server.said.contains(line), "{line} is not in {}", server.said);
    }
    assert!(server.said.contains(&format!("port={}", server.address.port())));
    drop(TcpStream::connect(server.address).unwrap());
    server.signal(Signal::TERM);
    let (code, errors) = server.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("share docs") && errors.contains("stopped"), "{errors}");
}

#[test]
fn the_password_of_a_run_is_shown_and_not_logged_and_one_of_ones_own_is_not_shown() {
    let (home, docs) = home_with_share();
    let mut server = Server::start(serve(home.path(), &[&docs, "--log-level", "trace"]));
    let (_, after) = server.said.split_once("with the password ").unwrap();
    let password = after.split(' ').next().unwrap().to_owned();
    assert_eq!(password.len(), 23);
    server.signal(Signal::INT);
    let (code, errors) = server.end();
    assert_eq!(code, Some(0));
    assert!(!errors.contains(&password));

    let mut command = serve(home.path(), &["--user", "anna", &docs]);
    command.env("LONGSHORE_PASSWORD", "correct horse");
    let server = Server::start(command);
    assert!(server.said.contains("smbclient -p ") && server.said.contains("-U 'anna'"), "{}", server.said);
    assert!(!server.said.contains("correct horse"));
}

#[test]
fn users_are_added_listed_changed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let db = home.path().join("new/users");
    let path = db.display().to_string();
    let user = |arguments: &[&str]| {
        let mut command = longshore(home.path(), &[&["user", "--users", &path], arguments].concat());
        command.env("LONGSHORE_PASSWORD", "secret").output().unwrap()
    };
    assert!(user(&["add", "anna"]).status.success());
    assert!(user(&["add", "bert", "--uid", "1001"]).status.success());
    assert_eq!(std::fs::metadata(&db).unwrap().permissions().mode() & 0o777, 0o600);
    // NTOWFv1 of "secret".
    let before = std::fs::read_to_string(&db).unwrap();
    assert!(before.contains("anna::878d8014606cda29677a44efa1353fc7"), "{before}");
    assert_eq!(user(&["list"]).stdout, b"anna\nbert  (uid 1001)\n");

    let again = user(&["add", "ANNA"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"));

    let file = home.path().join("password");
    std::fs::write(&file, "other\n").unwrap();
    assert!(user(&["passwd", "anna", "--password-file", &file.display().to_string()]).status.success());
    let after = std::fs::read_to_string(&db).unwrap();
    assert_ne!(before, after);
    assert!(!after.contains("other"));

    assert!(user(&["remove", "Anna"]).status.success());
    assert_eq!(user(&["list"]).stdout, b"bert  (uid 1001)\n");
    assert_eq!(user(&["remove", "anna"]).status.code(), Some(2));
    assert_eq!(user(&["passwd", "anna"]).status.code(), Some(2));
}

#[test]
fn a_database_others_can_read_is_refused() {
    let (home, docs) = home_with_share();
    std::fs::set_permissions(home.path().join("users"), PermissionsExt::from_mode(0o644)).unwrap();
    let users = home.path().join("users").display().to_string();
    let (code, said) = refused(home.path(), &["serve", &docs, "--users", &users]);
    assert_eq!(code, 2);
    assert!(said.contains("chmod 600") && said.lines().count() == 1, "{said}");
}

#[test]
fn mistakes_on_the_command_line_are_one_line_and_code_2() {
    let (home, docs) = home_with_share();
    let file = home.path().join("users").display().to_string();
    let twice = format!("Docs={docs}/..");
    for (arguments, what) in [
        (vec!["serve", "/nowhere/at/all"], "/nowhere/at/all does not exist"),
        (vec!["serve", &file], "is not a directory"),
        (vec!["serve", &docs, &twice], "two shares are named Docs"),
        (vec!["serve"], "nothing to serve"),
        (vec!["serve", &docs, "--smb", "here"], "--smb: `here` is no address and port"),
        (vec!["serve", &docs, "--smb", "off", "--nfs", "off"], "both SMB and NFS are off"),
        (vec!["serve", &docs, "--config", "/nowhere.toml"], "/nowhere.toml"),
        (vec!["serve", &docs, "--users", "/nowhere/users"], "longshore user add --users /nowhere/users NAME"),
        (vec!["serve", &docs, "--log-level", "loud"], "no log level"),
        (vec!["serve", &docs, "--user", "a", "--password-file", "/nowhere"], "cannot read the password"),
    ] {
        let (code, said) = refused(home.path(), &arguments);
        assert_eq!(code, 2, "{arguments:?}: {said}");
        assert!(said.contains(what) && said.lines().count() == 1, "{arguments:?}: {said}");
    }
}

#[test]
fn an_address_that_is_taken_is_named_with_what_to_do() {
    let (home, docs) = home_with_share();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let users = home.path().join("users").display().to_string();
    let output = run(home.path(), &["serve", &docs, "--users", &users, "--smb", &address, "--log-level", "error"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!("cannot listen on {address}: another program")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!String::from_utf8(output.stdout).unwrap().contains("ready"));
}

#[test]
fn check_says_what_is_wrong_with_line_and_key() {
    let (home, docs) = home_with_share();
    let file = home.path().join("c.toml");
    let path = file.display().to_string();
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(home.path(), &["check", "--config", &path])
    };
    let good = check(&format!("[server]\nusers = \"users\"\n[share.docs]\npath = \"{docs}\"\n"));
    assert_eq!(good.status.code(), Some(0), "{}", String::from_utf8_lossy(&good.stderr));
    assert!(String::from_utf8_lossy(&good.stdout).contains("nothing wrong; it serves docs"));

    let bad = check("[server]\nusers = \"nobody-here\"\n[share.docs]\npath = \"/nowhere/at/all\"\n");
    let said = String::from_utf8(bad.stderr).unwrap();
    assert_eq!(bad.status.code(), Some(2));
    assert!(said.contains(&format!("{path}:2: server.users: ")), "{said}");
    assert!(said.contains(&format!("{path}:4: share.docs.path: /nowhere/at/all does not exist")), "{said}");

    let bad = check("[log]\nlevle = \"info\"\n");
    let said = String::from_utf8(bad.stderr).unwrap();
    assert_eq!(said, format!("longshore: {path}:2: log.levle: unknown key; did you mean `level`?\n"));
}

#[test]
fn a_reload_takes_up_shares_and_a_bad_one_changes_nothing() {
    let (home, docs) = home_with_share();
    let file = home.path().join("c.toml");
    let good = format!("[server]\nusers = \"users\"\n[share.docs]\npath = \"{docs}\"\n");
    std::fs::write(&file, &good).unwrap();
    let path = file.display().to_string();
    let socket = home.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let told = || {
        let mut buffer = [0; 256];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let mut command = longshore(home.path(), &["serve", "--smb", "127.0.0.1:0", "--config", &path]);
    command.env("NOTIFY_SOCKET", &socket);
    let mut server = Server::start(command);
    assert_eq!(told().trim(), "READY=1");
    let connection = TcpStream::connect(server.address).unwrap();

    std::fs::write(&file, good.replace("docs\"", "gone\"")).unwrap();
    server.signal(Signal::HUP);
    assert!(told().contains("RELOADING=1"));
    assert!(told().contains("READY=1"));
    std::fs::write(&file, format!("{good}[share.more]\npath = \"{docs}\"\n")).unwrap();
    server.signal(Signal::HUP);
    assert!(told().contains("RELOADING=1"));
    assert!(told().contains("READY=1"));
    connection.set_nonblocking(true).unwrap();
    let still = connection.peek(&mut [0]).unwrap_err();
    assert_eq!(still.kind(), std::io::ErrorKind::WouldBlock, "the connection was dropped");
    drop(connection);

    server.signal(Signal::TERM);
    assert!(told().contains("STOPPING=1"));
    let (code, errors) = server.end();
    assert_eq!(code, Some(0));
    assert!(errors.contains("not reloaded: ") && errors.contains("share.docs.path"), "{errors}");
    assert!(errors.contains("share more"), "{errors}");
}

#[test]
fn a_second_signal_does_not_wait() {
    let (home, docs) = home_with_share();
    let file = home.path().join("c.toml");
    let text = format!("[server]\nusers = \"users\"\n[limits]\nstop_seconds = 600\n[share.docs]\npath = \"{docs}\"\n");
    std::fs::write(&file, text).unwrap();
    let mut server = Server::start(longshore(
        home.path(),
        &["serve", "--smb", "127.0.0.1:0", "--config", &file.display().to_string()],
    ));
    server.signal(Signal::TERM);
    // It may be over already: nothing is in flight.
    let _ = kill_process(Pid::from_child(&server.child), Signal::TERM);
    assert!(matches!(server.end().0, Some(0 | 1)));
}

#[test]
fn logs_can_be_json_lines() {
    let (home, docs) = home_with_share();
    let mut child = serve(home.path(), &[&docs, "--log-format", "json"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("ready on "))).unwrap().unwrap();
    assert!(ready.starts_with('{') && ready.ends_with('}') && ready.contains("\"level\":\"INFO\""), "{ready}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(lines.all(|line| line.unwrap().starts_with('{')));
    assert!(child.wait().unwrap().success());
}

#[test]
fn closed_outputs_end_nothing() {
    let (home, docs) = home_with_share();
    let mut server = Server::start(serve(home.path(), &[&docs]));
    server.out = BufReader::new(other_pipe());
    drop(server.child.stderr.take());
    server.signal(Signal::USR1);
    std::thread::sleep(Duration::from_millis(100));
    assert!(server.child.try_wait().unwrap().is_none());
    drop(TcpStream::connect(server.address).unwrap());
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

/// The output of some program that is over.
fn other_pipe() -> ChildStdout {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    child.wait().unwrap();
    child.stdout.take().unwrap()
}

#[test]
fn help_is_written_for_people() {
    let home = tempfile::tempdir().unwrap();
    let help = String::from_utf8(run(home.path(), &["serve", "--help"]).stdout).unwrap();
    for word in ["127.0.0.1:4450", "LONGSHORE_PASSWORD", "Examples:", "owner of each directory"] {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}
