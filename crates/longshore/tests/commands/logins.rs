//! Who gets in and who does not, where passwords come from, and what a wrong command line comes to.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use super::{PASSWORD, Scene, text, write};

#[test]
fn passwords_come_from_a_file_a_helper_or_the_environment() {
    let scene = Scene::new();
    scene.file("x", "");
    let file = write(&scene.here().join("password"), format!("{PASSWORD}\n"));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let path = file.display().to_string();
    let helper = format!("cat {path}");
    for how in [["--password-file", &path], ["--password-command", &helper]] {
        let output =
            scene.command(&[&["ls", "@"][..], &how].concat()).env("LONGSHORE_PASSWORD", "wrong").output().unwrap();
        assert_eq!((text(&output.stdout), text(&output.stderr)), ("x\n".into(), String::new()), "{how:?}");
    }
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let output = scene.run(&["ls", "@", "--password-file", &path]);
    assert_eq!(text(&output.stdout), "x\n");
    assert!(text(&output.stderr).contains("others may read the password"));
    let output = scene.command(&["ls", "@"]).env_remove("LONGSHORE_PASSWORD").output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("no terminal to ask on"), "{said}");
}

#[test]
fn the_user_is_the_urls_or_the_options() {
    let scene = Scene::new();
    scene.file("x", "");
    let nobodys = format!("smb://{}/docs", scene.server.address);
    assert_eq!(scene.well(&["ls", &nobodys, "--user", "anna"]), "x\n");
    assert_eq!(scene.well(&["ls", "@", "--user", "bert", "--encrypt"]), "x\n");
    assert!(scene.ill(3, &["ls", &nobodys, "--user", "bert"]).contains("LOGON_FAILURE"));
}

#[test]
fn who_cannot_get_in_is_told_why_with_code_3() {
    let scene = Scene::new();
    let mut wrong = scene.command(&["get", "@x"]);
    let output = wrong.env("LONGSHORE_PASSWORD", "wrong").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("LOGON_FAILURE (check the user name and the password)") && said.lines().count() == 1,
        "{said}"
    );
    let nowhere = format!("smb://anna@{}/nowhere/x", scene.server.address);
    assert!(scene.ill(3, &["ls", &nowhere]).contains("BAD_NETWORK_NAME"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(scene.ill(3, &["ls", &format!("smb://anna@{closed}/docs")]).contains("refused"));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("smb://anna@{}/docs", silent.local_addr().unwrap());
    assert!(scene.ill(3, &["ls", &url, "--timeout", "1"]).contains("no answer within 1 seconds"));
    assert!(scene.ill(3, &["ls", "@", "--password-command", "exit 7"]).contains("--password-command"));
}

#[test]
fn a_wrong_command_line_is_code_2_and_shows_no_password() {
    let scene = Scene::new();
    for (arguments, what) in [
        (&["ls"][..], "required"),
        (&["ls", "here"], "neither smb:// nor nfs://"),
        (&["ls", "smb://anna:hunter2@h/s"], "a password does not belong"),
        (&["ls", "smb://h/s?version=3"], "%3F"),
        (&["get", "here"], "get what"),
        (&["get", "here", "there"], "is no URL"),
        (&["put", "a", "b"], "put where"),
        (&["put", "@a", "@b"], "longshore cp"),
        (&["cp", "@a"], "required"),
        (&["get", "@a", "--jobs", "0"], "--jobs"),
        (&["ls", "@", "--password-file", "/nowhere"], "cannot read the password"),
    ] {
        let said = scene.ill(2, arguments);
        assert!(said.contains(what) && !said.contains("hunter2"), "{arguments:?}: {said}");
    }
}

#[test]
fn shells_and_man_know_every_command() {
    let scene = Scene::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = scene.well(&["completions", shell]);
        for word in ["put", "no-target-directory", "password-command"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    scene.well(&["man", "man1"]);
    for command in ["serve", "user", "check", "ls", "stat", "cat", "get", "put", "cp", "rm", "mkdir", "mv"] {
        let page = std::fs::read_to_string(scene.here().join(format!("man1/longshore-{command}.1"))).unwrap();
        assert!(page.contains("longshore"), "{command}");
    }
    let page = std::fs::read_to_string(scene.here().join("man1/longshore-get.1")).unwrap();
    for what in ["Exit codes", "Unfinished files", "130"] {
        assert!(page.contains(what), "{what}");
    }
    assert!(scene.well(&["get", "--help"]).contains("Unfinished files"));
}
