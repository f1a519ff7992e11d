//! `ls`, `stat`, `cat`.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use super::{Scene, pattern, text};

#[test]
fn a_directory_is_listed() {
    let scene = Scene::new();
    scene.file("b", "12345");
    scene.file("a b/c", "");
    scene.file(".hidden", "");
    assert_eq!(scene.well(&["ls", "@"]), "a b\nb\n");
    assert_eq!(scene.well(&["ls", "-a", "@"]), ".hidden\na b\nb\n");
    assert_eq!(scene.well(&["ls", "@a%20b"]), "c\n");
    assert_eq!(scene.well(&["ls", "@b"]), "b\n");
    assert_eq!(scene.well(&["ls", "-R", "@"]), "//127.0.0.1/docs:\na b\nb\n\n//127.0.0.1/docs/a b:\nc\n\n");
    let time = UNIX_EPOCH + Duration::from_secs(951_782_400);
    std::fs::File::open(scene.docs.join("b")).unwrap().set_modified(time).unwrap();
    let long = scene.well(&["ls", "-l", "@"]);
    let line = long.lines().find(|line| line.ends_with(" b") && line.starts_with('-')).unwrap();
    assert!(line.contains(" 5 2000-02-29T00:00:00Z b"), "{long}");
    assert!(long.lines().any(|line| line.starts_with('d') && line.ends_with("a b")), "{long}");
}

#[test]
fn programs_get_objects() {
    let scene = Scene::new();
    let file = scene.file("a?b", "12345");
    let time = UNIX_EPOCH + Duration::new(951_782_400, 500_000_000);
    std::fs::File::open(file).unwrap().set_modified(time).unwrap();
    for said in [scene.well(&["ls", "--json", "@"]), scene.well(&["stat", "--json", "@a%3Fb"])] {
        let record: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!((&record["name"], &record["kind"], &record["bytes"]), (&"a?b".into(), &"file".into(), &5.into()));
        assert_eq!(record["written"], "2000-02-29T00:00:00.5Z");
        // It can be used as it is.
        assert_eq!(scene.well(&["cat", record["url"].as_str().unwrap()]), "12345");
    }
    let said = scene.well(&["stat", "@a%3Fb"]);
    assert!(said.contains("kind  file") && said.contains("bytes  5 ("), "{said}");
}

#[test]
fn what_is_not_there_is_said_and_the_rest_is_done() {
    let scene = Scene::new();
    scene.file("b", "b");
    for command in ["ls", "stat", "cat"] {
        let output = scene.run(&[command, "@nothing", "@b"]);
        assert_eq!(output.status.code(), Some(1));
        let said = format!(
            "longshore: {command} //127.0.0.1/docs/nothing: STATUS_OBJECT_NAME_NOT_FOUND (there is nothing of that name)\n"
        );
        assert_eq!(text(&output.stderr), said);
        assert!(text(&output.stdout).contains('b'));
    }
}

#[test]
fn a_file_or_a_part_of_it_is_written_out() {
    let scene = Scene::new();
    let data = pattern(3_000_000);
    scene.file("x", &data);
    assert!(scene.run(&["cat", "@x", "@x"]).stdout == [&data[..], &data].concat());
    assert!(
        scene.run(&["cat", "--offset", "1000001", "--count", "1500000", "@x"]).stdout == data[1_000_001..2_500_001]
    );
    assert!(scene.run(&["cat", "--offset", "2999999", "@x"]).stdout == data[2_999_999..]);
    assert!(scene.run(&["cat", "--offset", "5000000", "@x"]).stdout.is_empty());
    assert!(scene.run(&["cat", "--count", "0", "@x"]).stdout.is_empty());
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let scene = Scene::new();
    scene.file("x", pattern(30_000_000));
    let mut child = scene.command(&["cat", "@x"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1000]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}
