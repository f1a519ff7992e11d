//! `get` and `put`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

use super::{PASSWORD, Scene, names, pattern, text, write};

const LARGE: usize = 9_000_001;

fn set_time(path: &Path, secs: u64) {
    std::fs::File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(secs)).unwrap();
}

fn modified(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().modified().unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A tree of small and large files, with times of their own.
fn tree(root: &Path) {
    for i in 0..120 {
        write(&root.join(format!("many/{i}")), format!("file {i}"));
    }
    write(&root.join("empty"), "");
    write(&root.join("deep/er/est/large ?.bin"), pattern(LARGE));
    write(&root.join("deep/er/edge"), pattern(131_072));
    write(&root.join("deep/er/edge+1"), pattern(131_073));
    std::fs::create_dir_all(root.join("nothing")).unwrap();
    set_time(&root.join("deep/er/edge"), 1_000_000_000);
    set_time(&root.join("many/7"), 1_000_000_007);
}

fn assert_same_tree(one: &Path, other: &Path) {
    assert_eq!(names(one), names(other), "{} and {}", one.display(), other.display());
    for name in names(one) {
        let (one, other) = (one.join(&name), other.join(&name));
        if one.is_dir() {
            assert_same_tree(&one, &other);
        } else {
            assert!(std::fs::read(&one).unwrap() == std::fs::read(&other).unwrap(), "{}", other.display());
            assert_eq!(modified(&one), modified(&other), "{}", other.display());
        }
    }
}

#[test]
fn files_come_where_cp_would_put_them() {
    let scene = Scene::new();
    scene.file("a", "a");
    scene.file("b", "b");
    std::fs::create_dir(scene.here().join("dir")).unwrap();
    scene.well(&["get", "@a"]);
    scene.well(&["get", "@a", "c"]);
    scene.well(&["get", "@a", "@b", "dir"]);
    scene.well(&["get", "@a", "new/"]);
    assert_eq!(names(&scene.here()), ["a", "c", "dir", "new"]);
    assert_eq!(names(&scene.here().join("dir")), ["a", "b"]);
    assert_eq!(names(&scene.here().join("new")), ["a"]);
    assert_eq!(std::fs::read(scene.here().join("c")).unwrap(), b"a");
    scene.well(&["get", "@b", "c"]);
    assert_eq!(std::fs::read(scene.here().join("c")).unwrap(), b"b", "a file that is there is replaced");
    assert!(scene.ill(1, &["get", "@a", "@b", "c"]).contains("get //127.0.0.1/docs/a: "));
    assert!(scene.ill(1, &["get", "@a", "no/where"]).contains("No such file"));
    assert!(scene.ill(1, &["get", "-T", "@a", "dir"]).contains("something that is no file is in its place"));
    assert!(scene.ill(1, &["get", "@"]).contains("-r copies directories"));
}

#[test]
fn files_go_where_cp_would_put_them() {
    let scene = Scene::new();
    write(&scene.here().join("a"), "a");
    write(&scene.here().join("b"), "b");
    scene.file("dir/x", "");
    scene.well(&["put", "a", "@"]);
    scene.well(&["put", "a", "@c"]);
    scene.well(&["put", "a", "b", "@dir"]);
    scene.well(&["put", "a", "@new/"]);
    assert_eq!(names(&scene.docs), ["a", "c", "dir", "new"]);
    assert_eq!(names(&scene.docs.join("dir")), ["a", "b", "x"]);
    scene.well(&["put", "b", "@c"]);
    assert_eq!(std::fs::read(scene.docs.join("c")).unwrap(), b"b", "a file that is there is replaced");
    assert!(scene.ill(1, &["put", "a", "b", "@c"]).contains("only one thing can go there"));
    assert!(scene.ill(1, &["put", "nothing", "a", "@dir"]).contains("nothing: No such file"));
    assert!(
        scene
            .ill(1, &["put", "a", "@no/where"])
            .contains("put //127.0.0.1/docs/no/where: STATUS_OBJECT_PATH_NOT_FOUND")
    );
    assert!(scene.ill(1, &["put", ".", "@"]).contains("-r copies directories"));
    scene.ill(1, &["put", "-T", "a", "@dir"]);
    assert_eq!(names(&scene.docs), ["a", "c", "dir", "new"], "nothing temporary is left");
}

#[test]
fn trees_go_both_ways_and_stay_the_same() {
    let scene = Scene::new();
    tree(&scene.docs.join("tree"));
    set_time(&scene.docs.join("tree/many"), 1_000_000_099);
    scene.well(&["get", "-r", "@tree"]);
    assert_same_tree(&scene.docs.join("tree"), &scene.here().join("tree"));
    assert_eq!(modified(&scene.here().join("tree/many")), 1_000_000_099, "directories keep their times, too");
    scene.well(&["get", "-r", "--checksum", "--sync", "--sparse", "-j", "1", "@tree", "again"]);
    assert_same_tree(&scene.docs.join("tree"), &scene.here().join("again"));
    scene.well(&["put", "-r", "tree", "@back"]);
    assert_same_tree(&scene.docs.join("tree"), &scene.docs.join("back"));
    scene.well(&["put", "-r", "--checksum", "--sync", "tree", "again", "@"]);
    assert_same_tree(&scene.docs.join("tree"), &scene.docs.join("again"));
    scene.well(&["get", "-r", "@", "all"]);
    assert_eq!(names(&scene.here().join("all")), ["again", "back", "tree"]);
}

#[test]
fn a_killed_get_is_gone_on_with() {
    let scene = Scene::new();
    scene.file("x", pattern(LARGE));
    let part = killed_get(&scene);
    assert_eq!(std::fs::metadata(&part).unwrap().len(), KILLED_AT as u64);
    let said = scene.well(&["get", "--resume", "--json", "--checksum", "@x"]);
    let record: serde_json::Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    assert_eq!(record["bytes"], LARGE - KILLED_AT, "{said}");
    assert!(std::fs::read(scene.here().join("x")).unwrap() == pattern(LARGE));
    assert_eq!(names(&scene.here()), ["x"]);
    let said = scene.well(&["get", "--resume", "--json", "@x"]);
    assert!(said.contains(r#""status":"skipped""#) && said.contains(r#""files":0"#), "{said}");
}

const KILLED_AT: usize = 6_144_000;

/// Has the kernel kill a `get` of `x` at a certain byte; answers what it leaves.
fn killed_get(scene: &Scene) -> PathBuf {
    let get = scene.command(&["get", "@x"]);
    let arguments: Vec<_> = get.get_args().collect();
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!(r#"ulimit -f {}; exec "$0" "$@""#, KILLED_AT / 512)]).arg(get.get_program());
    limited.args(arguments).env("LONGSHORE_PASSWORD", PASSWORD).current_dir(scene.here());
    let status = limited.status().unwrap();
    assert_eq!(status.signal(), Some(Signal::XFSZ.as_raw()));
    let [part] = &names(&scene.here())[..] else { panic!("{:?}", names(&scene.here())) };
    assert!(part.starts_with(".x.") && part.ends_with(".part"), "{part}");
    scene.here().join(part)
}

#[test]
fn what_is_not_the_beginning_of_the_file_is_not_gone_on_with() {
    let scene = Scene::new();
    scene.file("x", pattern(LARGE));
    let part = killed_get(&scene);
    for wrong in [vec![7; 5_000_000], vec![7; LARGE + 1]] {
        write(&part, wrong);
        scene.well(&["get", "--resume", "@x"]);
        assert!(std::fs::read(scene.here().join("x")).unwrap() == pattern(LARGE));
        assert_eq!(names(&scene.here()), ["x"]);
        std::fs::remove_file(scene.here().join("x")).unwrap();
    }
}

#[test]
fn a_killed_put_is_gone_on_with() {
    const LEN: u64 = 200 << 20;
    let scene = Scene::new();
    let local = write(&scene.here().join("x"), pattern(LARGE));
    std::fs::File::options().write(true).open(&local).unwrap().set_len(LEN).unwrap();
    let mut child = scene.command(&["put", "x", "@"]).spawn().unwrap();
    let part = wait_for_part(&scene.docs, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(&scene.docs).len(), 1);
    let there = &pattern(LARGE)[..5_000_000];
    // A piece before the last that never arrived.
    let mut torn = there.to_vec();
    torn[1_000_000..2_000_000].fill(0);
    for (there, left) in [(there, LEN - 5_000_000), (&[9; 5_000_000], LEN), (&torn, LEN)] {
        let _ = std::fs::remove_file(scene.docs.join("x"));
        write(&scene.docs.join(&part), there);
        let said = scene.well(&["put", "--resume", "--json", "--checksum", "x", "@"]);
        assert!(said.contains(&format!(r#""bytes":{left},"#)), "{said}");
        assert!(std::fs::read(scene.docs.join("x")).unwrap() == std::fs::read(&local).unwrap());
        assert_eq!(names(&scene.docs), ["x"]);
    }
    assert!(scene.well(&["put", "--resume", "--json", "x", "@"]).contains(r#""skipped":1"#));
}

fn wait_for_part(directory: &Path, child: &mut Child) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(part) = names(directory).into_iter().find(|name| name.ends_with(".part")) {
            return part;
        }
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "no part was seen");
    }
}

#[test]
fn ctrl_c_leaves_a_part_and_no_file() {
    let scene = Scene::new();
    scene.file("x", pattern(200_000_000));
    for (command, directory) in [(["get", "@x", "y"], scene.here()), (["put", "x", "@y"], scene.docs.clone())] {
        if command[0] == "put" {
            std::fs::copy(scene.docs.join("x"), scene.here().join("x")).unwrap();
        }
        let mut child = scene.command(&command).stderr(std::process::Stdio::piped()).spawn().unwrap();
        wait_for_part(&directory, &mut child);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("longshore: interrupted"));
        assert!(!directory.join("y").exists());
    }
}

#[test]
fn one_file_that_cannot_be_read_stops_no_other() {
    let scene = Scene::new();
    scene.file("d/a", "a");
    scene.file("d/b/secret", "x");
    scene.file("d/c", "c");
    // Root may read everything: a name that is too long for here is refused to everybody.
    let long = "x".repeat(250);
    std::fs::create_dir(scene.here().join("d")).unwrap();
    write(&scene.here().join("d/b"), "in the way");
    let said = scene.ill(1, &["get", "-r", "@d"]);
    assert!(said.contains("get //127.0.0.1/docs/d/b: on this machine: a link or a file is in the place"), "{said}");
    assert_eq!(names(&scene.here().join("d")), ["a", "b", "c"]);
    scene.file(&format!("d/{long}"), "long");
    scene.ill(1, &["get", "-r", "@d"]);
    assert_eq!(std::fs::read(scene.here().join("d").join(&long)).unwrap(), b"long", "its part has a shorter name");
}

#[test]
fn no_link_in_the_way_is_followed() {
    let scene = Scene::new();
    scene.file("d/sub/x", "theirs");
    let outside = scene.home.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::create_dir(scene.here().join("d")).unwrap();
    symlink(&outside, scene.here().join("d/sub")).unwrap();
    let said = scene.ill(1, &["get", "-r", "@d"]);
    assert!(said.contains("a link or a file is in the place of the directory"), "{said}");
    assert!(names(&outside).is_empty());
    let mine = write(&outside.join("mine"), "mine");
    symlink(&mine, scene.here().join("x")).unwrap();
    scene.well(&["get", "@d/sub/x"]);
    assert_eq!(std::fs::read(&mine).unwrap(), b"mine", "what a link led to is left alone");
    assert_eq!(std::fs::read(scene.here().join("x")).unwrap(), b"theirs");
}

#[test]
fn links_and_pipes_of_this_machine_are_left_out_with_a_warning() {
    let scene = Scene::new();
    write(&scene.here().join("d/a"), "a");
    symlink("a", scene.here().join("d/link")).unwrap();
    symlink("..", scene.here().join("d/loop")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.here().join("d/pipe"), 0o600.into()).unwrap();
    let output = scene.run(&["put", "-r", "d", "@"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.lines().count() == 3 && said.lines().all(|line| line.starts_with("longshore: warning: d/")), "{said}");
    assert_eq!(names(&scene.docs.join("d")), ["a"]);
    let said = scene.ill(1, &["put", "d/pipe", "@"]);
    assert!(said.contains("d/pipe: it is no file"), "{said}");
}

#[test]
fn links_are_made_where_links_are_wanted() {
    let scene = Scene::new();
    write(&scene.here().join("d/a"), "a");
    symlink("a", scene.here().join("d/link")).unwrap();
    symlink("/etc/passwd", scene.here().join("d/out")).unwrap();
    let output = scene.run(&["put", "-r", "--links", "d", "@"]);
    // Whether a server makes links that lead out of a share is its own business; ours is that nothing else is made.
    for (name, target) in [("link", "a"), ("out", "/etc/passwd")] {
        match std::fs::symlink_metadata(scene.docs.join("d").join(name)) {
            Ok(metadata) => {
                assert!(metadata.is_symlink());
                assert_eq!(std::fs::read_link(scene.docs.join("d").join(name)).unwrap(), Path::new(target));
            }
            Err(_) => assert!(text(&output.stderr).contains(&format!("d/{name}: ")), "{}", text(&output.stderr)),
        }
    }
}

#[test]
fn links_on_a_server_are_not_gone_into() {
    let scene = Scene::new();
    scene.file("d/a", "a");
    scene.file("d/e/b", "b");
    symlink("..", scene.docs.join("d/e/loop")).unwrap();
    symlink("e", scene.docs.join("d/other")).unwrap();
    for command in [&["get", "-r", "@d"][..], &["cp", "-r", "@d", "@copy"]] {
        let output = scene.run(command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        for link in ["d/e/loop", "d/other"] {
            assert!(said.contains(&format!("longshore: warning: //127.0.0.1/docs/{link}: it is a")), "{said}");
        }
    }
    for copy in [scene.here().join("d"), scene.docs.join("copy")] {
        assert_eq!((names(&copy), names(&copy.join("e"))), (vec!["a".into(), "e".into()], vec!["b".into()]));
    }
    assert_eq!(scene.well(&["ls", "-R", "@d"]).lines().filter(|line| line.ends_with(':')).count(), 2);
    scene.well(&["get", "-r", "--links", "@d", "linked"]);
    assert_eq!(std::fs::read_link(scene.here().join("linked/e/loop")).unwrap(), Path::new(".."));
    assert_eq!(std::fs::read_link(scene.here().join("linked/other")).unwrap(), Path::new("e"));
}

#[test]
fn directories_keep_their_times_on_a_server() {
    let scene = Scene::new();
    write(&scene.here().join("d/e/a"), "a");
    for (path, time) in [("d/e", 1_000_000_001), ("d", 1_000_000_002)] {
        set_time(&scene.here().join(path), time);
    }
    scene.well(&["put", "-r", "d", "@"]);
    assert_eq!((modified(&scene.docs.join("d/e")), modified(&scene.docs.join("d"))), (1_000_000_001, 1_000_000_002));
    scene.well(&["put", "-r", "--no-times", "d", "@other"]);
    assert!(
        modified(&scene.docs.join("other")) > 1_600_000_000 && modified(&scene.docs.join("other/e/a")) > 1_600_000_000
    );
}

#[test]
fn zeros_become_holes() {
    let scene = Scene::new();
    let mut data = vec![0; 20 << 20];
    data[10 << 20] = 1;
    scene.file("x", &data);
    scene.well(&["get", "--sparse", "--checksum", "@x"]);
    let copy = scene.here().join("x");
    assert!(std::fs::read(&copy).unwrap() == data);
    assert!(std::fs::metadata(copy).unwrap().blocks() * 512 <= 128 << 10);
}

#[test]
fn programs_are_told_of_each_file() {
    let scene = Scene::new();
    scene.file("a", "abc");
    scene.file("b", "");
    let output = scene.run(&["get", "--json", "--checksum", "@a", "@nothing", "@b", "./"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    let records: Vec<serde_json::Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| records.iter().find(|r| r["url"].as_str().is_some_and(|url| url.ends_with(name))).unwrap();
    assert_eq!((&of("/a")["status"], &of("/a")["bytes"]), (&"copied".into(), &3.into()));
    assert_eq!(of("/a")["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(of("/nothing")["status"], "failed");
    let total = records.last().unwrap();
    assert_eq!((&total["event"], &total["files"], &total["failed"]), (&"total".into(), &2.into(), &1.into()));
}

#[test]
fn a_server_that_dies_is_said_once_and_leaves_no_file() {
    let mut scene = Scene::new();
    for i in 0..20 {
        scene.file(&format!("d/{i}"), pattern(20_000_000));
    }
    let child = scene.command(&["get", "-r", "@d"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while !scene.here().join("d").exists() || names(&scene.here().join("d")).is_empty() {
        assert!(Instant::now() < deadline);
    }
    scene.server.child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for name in names(&scene.here().join("d")) {
        let file = scene.here().join("d").join(&name);
        assert!(name.ends_with(".part") || std::fs::metadata(file).unwrap().len() == 20_000_000, "{name}");
    }
}

#[test]
fn what_is_read_only_stays_so_where_that_is_wanted() {
    let scene = Scene::new();
    let local = write(&scene.here().join("x"), "x");
    std::fs::set_permissions(&local, PermissionsExt::from_mode(0o444)).unwrap();
    scene.well(&["put", "-p", "x", "@kept"]);
    scene.well(&["put", "x", "@"]);
    let attributes = |path: &str| {
        let said = scene.well(&["stat", "--json", path]);
        serde_json::from_str::<serde_json::Value>(&said).unwrap()["attributes"].to_string()
    };
    assert!(attributes("@kept").contains("read-only") && !attributes("@x").contains("read-only"));
    scene.well(&["get", "-p", "@kept"]);
    assert_eq!(std::fs::metadata(scene.here().join("kept")).unwrap().mode() & 0o777, 0o444);
    scene.well(&["get", "@kept", "y"]);
    assert_ne!(std::fs::metadata(scene.here().join("y")).unwrap().mode() & 0o200, 0);
}

#[test]
fn modes_are_those_of_new_files() {
    let scene = Scene::new();
    std::fs::set_permissions(scene.file("x", "x"), PermissionsExt::from_mode(0o4755)).unwrap();
    scene.well(&["get", "@x"]);
    let mode = std::fs::metadata(scene.here().join("x")).unwrap().mode();
    assert_eq!(mode & 0o7111, 0, "{mode:o}");
}

#[test]
fn trees_go_both_ways_over_nfs_with_links_and_modes() {
    let scene = Scene::with_nfs();
    // Root is nobody there.
    std::fs::set_permissions(&scene.docs, PermissionsExt::from_mode(0o777)).unwrap();
    let (_, port) = scene.server.said.split_once("over NFS 3 and 4 on 127.0.0.1:").unwrap();
    let port = port.lines().next().unwrap();
    tree(&scene.docs.join("tree"));
    symlink("../empty", scene.docs.join("tree/deep/link")).unwrap();
    symlink("..", scene.docs.join("tree/deep/loop")).unwrap();
    std::fs::set_permissions(scene.docs.join("tree/many/7"), PermissionsExt::from_mode(0o745)).unwrap();
    for version in ["3", "4.0", "4.1", "4.2"] {
        let mount = if version == "3" { format!("&mountport={port}") } else { String::new() };
        let url = |path: &str| format!("nfs://127.0.0.1:{port}/docs/{path}?version={version}{mount}");
        let here = format!("here{version}");
        scene.well(&["get", "-r", "-p", "--links", &url("tree"), &here]);
        scene.well(&["put", "-r", "-p", "--links", "--checksum", &here, &url("back")]);
        for copy in [scene.here().join(&here), scene.docs.join("back")] {
            for (link, target) in [("link", "../empty"), ("loop", "..")] {
                assert_eq!(std::fs::read_link(copy.join("deep").join(link)).unwrap(), Path::new(target));
                std::fs::remove_file(copy.join("deep").join(link)).unwrap();
            }
            assert_eq!(std::fs::metadata(copy.join("many/7")).unwrap().mode() & 0o7777, 0o745);
            for name in names(&copy.join("many")) {
                assert_eq!(
                    modified(&copy.join("many").join(&name)),
                    modified(&scene.docs.join("tree/many").join(&name))
                );
            }
            assert!(std::fs::read(copy.join("deep/er/est/large ?.bin")).unwrap() == pattern(LARGE));
        }
        scene.well(&["rm", "-r", &url("back")]);
        assert_eq!(names(&scene.docs), ["tree"]);
        assert!(scene.ill(1, &["get", &url("nothing")]).contains("get //127.0.0.1/docs/nothing: "));
    }
}

#[test]
fn a_reader_that_has_gone_does_not_make_a_failure_good() {
    let scene = Scene::new();
    scene.file("x", pattern(10));
    for (what, code) in [("@missing", 1), ("@x", 0)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = scene.command(&["get", "--json", what]).stdout(writer).status().unwrap();
        assert_eq!(status.code(), Some(code), "{what}");
    }
}
