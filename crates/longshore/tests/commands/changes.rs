//! `rm`, `mkdir`, `mv`, `cp`.

use std::os::unix::fs::symlink;

use super::{Scene, names, pattern};

#[test]
fn directories_are_made() {
    let scene = Scene::new();
    scene.well(&["mkdir", "@a"]);
    assert!(scene.docs.join("a").is_dir());
    assert!(scene.ill(1, &["mkdir", "@a"]).contains("mkdir //127.0.0.1/docs/a: STATUS_OBJECT_NAME_COLLISION"));
    assert!(scene.ill(1, &["mkdir", "@b/c/d"]).contains("OBJECT_PATH_NOT_FOUND"));
    scene.well(&["mkdir", "-p", "@b/c/d", "@a", "@b/c/d"]);
    assert!(scene.docs.join("b/c/d").is_dir());
    scene.file("f", "");
    scene.ill(1, &["mkdir", "-p", "@f"]);
    scene.ill(1, &["mkdir", "-p", "@f/g"]);
}

#[test]
fn what_is_removed_is_gone_and_nothing_else() {
    let scene = Scene::new();
    scene.file("f", "");
    for i in 0..200 {
        scene.file(&format!("d/e/{i}"), "x");
    }
    scene.file("kept/x", "");
    symlink(scene.docs.join("kept"), scene.docs.join("d/out")).unwrap();
    symlink("../kept", scene.docs.join("d/in")).unwrap();
    symlink("..", scene.docs.join("d/loop")).unwrap();
    assert!(scene.ill(1, &["rm", "@d"]).contains("it is a directory; -r removes"));
    assert!(scene.ill(1, &["rm", "@"]).contains("the share itself"));
    assert!(scene.ill(1, &["rm", "-r", "@"]).contains("the share itself"));
    assert!(
        scene.ill(1, &["rm", "@nothing", "@f"]).contains("rm //127.0.0.1/docs/nothing: STATUS_OBJECT_NAME_NOT_FOUND")
    );
    assert_eq!(names(&scene.docs), ["d", "kept"], "the rest is done");
    scene.well(&["rm", "-f", "@nothing", "@no/thing"]);
    scene.well(&["rm", "-r", "@d"]);
    assert_eq!(names(&scene.docs), ["kept"]);
    assert_eq!(names(&scene.docs.join("kept")), ["x"], "a link is removed, not what it leads to");
}

#[test]
fn files_are_renamed_and_moved_into_directories() {
    let scene = Scene::new();
    scene.file("a", "a");
    scene.file("b", "b");
    std::fs::create_dir(scene.docs.join("d")).unwrap();
    assert!(scene.ill(1, &["mv", "-n", "@a", "@b"]).contains("OBJECT_NAME_COLLISION"));
    scene.well(&["mv", "@a", "@b"]);
    assert_eq!(std::fs::read(scene.docs.join("b")).unwrap(), b"a");
    scene.well(&["mv", "@b", "@d"]);
    assert_eq!(names(&scene.docs.join("d")), ["b"]);
    scene.well(&["mv", "@d", "@e"]);
    assert_eq!(names(&scene.docs), ["e"]);
    assert!(
        scene.ill(1, &["mv", "@nothing", "@x"]).contains("mv //127.0.0.1/docs/nothing: STATUS_OBJECT_NAME_NOT_FOUND")
    );
}

#[test]
fn another_share_is_no_place_to_move_to_but_one_to_copy_to() {
    let scene = Scene::with(&["--read-only"]);
    let other = Scene::new();
    scene.file("d/a", pattern(3_000_000));
    scene.file("d/e/b", "b");
    let url = other.url("");
    assert!(scene.ill(1, &["mv", "@d", &url]).contains("is on another share"));
    assert!(scene.ill(1, &["cp", "@d", &url]).contains("-r copies"));
    scene.well(&["cp", "-r", "@d", &url]);
    assert_eq!(names(&other.docs), ["d"]);
    assert_eq!(names(&other.docs.join("d")), ["a", "e"]);
    assert!(std::fs::read(other.docs.join("d/a")).unwrap() == pattern(3_000_000));
    let time = |scene: &Scene| std::fs::metadata(scene.docs.join("d/a")).unwrap().modified().unwrap();
    assert!(time(&scene).duration_since(time(&other)).unwrap().as_nanos() < 100, "to what SMB keeps of a time");
}

#[test]
fn files_are_copied_on_a_share() {
    let scene = Scene::new();
    scene.file("a", pattern(2_000_000));
    scene.file("d/x", "x");
    scene.well(&["cp", "@a", "@b"]);
    scene.well(&["cp", "@a", "@d"]);
    for copy in ["b", "d/a"] {
        assert!(std::fs::read(scene.docs.join(copy)).unwrap() == pattern(2_000_000));
    }
    assert!(scene.ill(1, &["cp", "@a", "@a"]).contains("is the same"));
    assert!(scene.ill(1, &["cp", "-r", "@d", "@d/e"]).contains("inside"));
    scene.well(&["cp", "-r", "@d", "@e"]);
    assert_eq!(names(&scene.docs.join("e")), ["a", "x"]);
    assert!(scene.ill(1, &["cp", "@a", "@no/where"]).contains("OBJECT_PATH_NOT_FOUND"));
    assert_eq!(names(&scene.docs), ["a", "b", "d", "e"], "nothing temporary is left");
}

/// The length alone does not show it.
#[test]
fn what_is_changed_while_it_is_copied_gets_no_name() {
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let (scene, other) = (Scene::new(), Scene::new());
    scene.file("a", pattern(20_000_000));
    let file = std::fs::File::options().write(true).open(scene.docs.join("a")).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                file.write_all_at(b"other", 10_000_000).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let said = [scene.ill(1, &["cp", "@a", "@b"]), scene.ill(1, &["cp", "@a", &other.url("b")])];
        is_over.store(true, Relaxed);
        assert!(said.iter().all(|said| said.contains("it was changed while it was copied")), "{said:?}");
    });
    assert_eq!((names(&scene.docs), names(&other.docs)), (vec!["a".to_owned()], vec![]));
}
