//! What others change in watched directories, with other programs doing it. Where the system does not let a process
//! watch (some containers), there is nothing to test, and the tests say so.

use std::path::Path as FsPath;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use localfs::{LocalFs, LocalFsOptions};
use parking_lot::Mutex;
use vfs::{Access, Backend, Change, Cred, Disposition, Node, OpenHow, Path, Told, Wait, WantKind};

/// Notes what it is told.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Told for Notes {
    fn changed(&self, change: &Change<'_>) {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let to = change.to.map_or_else(String::new, |to| format!(" {}", text(to)));
        let kind = if change.is_directory { "/" } else { "" };
        self.0.lock().push(format!("{:?} {}{kind}{to}", change.what, text(change.path)));
    }
    fn lost(&self) {
        self.0.lock().push("lost".to_owned());
    }
}

impl Notes {
    /// Waits until all of `wanted` were told; then says what was, and forgets it.
    fn take(&self, wanted: &[&str]) -> Vec<String> {
        let end = Instant::now() + Duration::from_secs(20);
        while !wanted.iter().all(|want| self.0.lock().iter().any(|had| had == want)) {
            assert!(Instant::now() < end, "told {:?}, not {wanted:?}", self.0.lock());
            std::thread::sleep(Duration::from_millis(2));
        }
        std::mem::take(&mut *self.0.lock())
    }
}

fn me() -> Cred {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Cred { uid, gid, groups: Arc::from([]) }
}

fn open(fs: &LocalFs, path: &str, kind: WantKind, disposition: Disposition) -> Arc<dyn Node> {
    let access = if kind == WantKind::Directory { Access::READ } else { Access::READ | Access::WRITE };
    let how = OpenHow { access, disposition, kind, follow: false, mode: 0o755 };
    let path = Path::new(path.as_bytes()).unwrap();
    fs.open(&me(), &*fs.root(), &path, &how, Wait::Allowed).unwrap().node
}

/// Another program: a shell.
fn shell(dir: &FsPath, line: &str) {
    assert!(Command::new("sh").args(["-c", line]).current_dir(dir).status().unwrap().success(), "{line}");
}

struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("longshore-feed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("watched/below")).unwrap();
        std::fs::create_dir(path.join("other")).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn watch(fs: &LocalFs, below: bool) -> Option<(Arc<Notes>, vfs::Watching)> {
    let notes = Arc::new(Notes::default());
    let dir = open(fs, "watched", WantKind::Directory, Disposition::Open);
    match fs.watch(&*dir, below, &(Arc::clone(&notes) as Arc<dyn Told>)) {
        Ok(watching) => Some((notes, watching)),
        Err(error) => {
            eprintln!("local changes cannot be watched here: {error}");
            None
        }
    }
}

#[test]
fn what_others_do_is_told_and_what_this_process_does_is_not() {
    let scratch = Scratch::new("others");
    let fs = LocalFs::new(&scratch.0, LocalFsOptions::default()).unwrap();
    let Some((notes, watching)) = watch(&fs, false) else { return };
    shell(
        &scratch.0,
        "echo x >watched/a; mkdir watched/d; mv watched/a watched/b; mv watched/b other/c; rmdir watched/d",
    );
    let told = notes.take(&["Removed watched/d/"]);
    for want in
        ["Added watched/a", "Written watched/a", "Added watched/d/", "Renamed watched/a watched/b", "Removed watched/b"]
    {
        assert!(told.iter().any(|had| had == want), "{want} is not in {told:?}");
    }
    let own = open(&fs, "watched/own", WantKind::File, Disposition::Create);
    own.write(0, b"own", Wait::Allowed).unwrap();
    shell(&scratch.0, "touch watched/below/deep other/nobody watched/last");
    let told = notes.take(&["Added watched/last"]);
    assert!(!told.iter().any(|had| had.contains("own") || had.contains("deep") || had.contains("nobody")), "{told:?}");
    drop(watching);
    shell(&scratch.0, "touch watched/after");
    std::thread::sleep(Duration::from_millis(50));
    assert!(notes.0.lock().is_empty());
}

#[test]
fn directories_below_are_watched_too_and_those_that_come() {
    let scratch = Scratch::new("below");
    let fs = LocalFs::new(&scratch.0, LocalFsOptions::default()).unwrap();
    let Some((notes, _watching)) = watch(&fs, true) else { return };
    shell(&scratch.0, "touch watched/below/deep; mkdir other/sub");
    notes.take(&["Added watched/below/deep"]);
    // One that this process makes is followed as well, though it is not told of.
    open(&fs, "watched/below/made", WantKind::Directory, Disposition::Create);
    shell(&scratch.0, "mv other/sub watched/below/came; sleep 0.3; touch watched/below/made/f watched/below/came/g");
    notes.take(&["Added watched/below/came/", "Added watched/below/made/f", "Added watched/below/came/g"]);
    shell(&scratch.0, "mv watched/below watched/moved; touch watched/moved/made/h");
    notes.take(&["Renamed watched/below/ watched/moved", "Added watched/moved/made/h"]);
    shell(&scratch.0, "rm -r watched");
    notes.take(&["Removed watched/moved/made/h", "Removed watched/moved/"]);
}
