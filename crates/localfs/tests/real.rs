//! What only a real file system has: other programs, other users, pipes, devices, mounts, and directories so large that
//! time matters.

mod temp;

use std::ffi::CString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::time::Duration;

use localfs::{LocalFs, LocalFsOptions, OpenRootError};
use rustix::thread::{CapabilitySet, capabilities};
use rustix::time::{ClockId, clock_gettime};
use vfs::{
    Access, AccessMask, Backend, Capabilities, Cred, Disposition, FileKind, OpenHow, Opened, Path, SetAttr, VfsError,
    VfsResult, Wait, WantKind,
};

fn path(text: &str) -> Path {
    Path::new(text.as_bytes()).unwrap()
}

fn how(access: Access, disposition: Disposition) -> OpenHow {
    OpenHow { access, disposition, kind: WantKind::Any, follow: true, mode: 0o644 }
}

fn open(fs: &LocalFs, cred: &Cred, at: &str, access: Access) -> VfsResult<Opened> {
    fs.open(cred, &*fs.root(), &path(at), &how(access, Disposition::Open), Wait::Allowed)
}

fn make(fs: &LocalFs, cred: &Cred, at: &str) -> VfsResult<Opened> {
    fs.open(cred, &*fs.root(), &path(at), &how(Access::WRITE, Disposition::Create), Wait::Allowed)
}

fn spell(fs: &LocalFs, at: &str) -> VfsResult<Path> {
    fs.spell(&temp::me(), &*fs.root(), &path(at), Wait::Allowed)
}

fn user(uid: u32) -> Cred {
    Cred { uid, gid: uid, groups: Arc::from([uid + 1]) }
}

fn set_mode(at: &std::path::Path, mode: u32) {
    localfs::run_as_process().unwrap();
    std::fs::set_permissions(at, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn what_is_removed_while_a_directory_is_listed_is_not_listed() {
    let dir = temp::Dir::new();
    (0..100).for_each(|i| std::fs::write(dir.0.join(format!("file{i}")), b"").unwrap());
    let fs = dir.serve();
    let node = open(&fs, &temp::me(), "", Access::READ).unwrap().node;
    let list = |from: u64, most: usize| {
        let (mut names, mut cookie) = (Vec::new(), from);
        let ended = node.read_dir(from, &mut |entry| {
            if names.len() == most {
                return false;
            }
            cookie = entry.next_cookie;
            names.push(String::from_utf8(entry.name.as_bytes().to_vec()).unwrap());
            true
        });
        (names, cookie, ended.unwrap())
    };
    let (whole, _, _) = list(0, usize::MAX);
    let (first, cookie, _) = list(0, 10);
    assert_eq!(first, whole[..10]);
    // The file system's clock may stand still for a while.
    std::thread::sleep(Duration::from_millis(20));
    std::fs::remove_file(dir.0.join(&whole[15])).unwrap();
    let (rest, _, ended) = list(cookie, usize::MAX);
    assert!(ended);
    assert_eq!(rest, [&whole[10..15], &whole[16..]].concat());
}

#[test]
fn a_number_that_is_used_again_has_another_handle() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    let make = || std::fs::write(dir.0.join("f"), b"").unwrap();
    let handle = || fs.entry_handle(&temp::me(), &*fs.root(), vfs::Name::new(b"f").unwrap()).unwrap();
    make();
    // From now on the handle may be remembered.
    std::thread::sleep(Duration::from_secs(4));
    let (first, again) = (handle(), handle());
    assert_eq!(first, again);
    std::fs::remove_file(dir.0.join("f")).unwrap();
    make();
    let (attr, second) = handle();
    assert_ne!(attr.id, first.0.id);
    assert_ne!(second, first.1);
    assert_eq!(fs.open_handle(&temp::me(), &first.1, Access::empty(), Wait::Allowed).err(), Some(VfsError::Stale));
    let opened = fs.open_handle(&temp::me(), &second, Access::empty(), Wait::Allowed).unwrap();
    assert_eq!(opened.attr.id, attr.id);
}

#[test]
fn only_who_may_makes_a_device() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    let rdev = 1 << 32 | 3;
    let make = |cred: &Cred, at: &str| fs.make_device(cred, &*fs.root(), &path(at), FileKind::CharDevice, rdev, 0o640);
    if !fs.capabilities().contains(Capabilities::IDENTITY) {
        assert!(make(&temp::me(), "null").is_err());
        return;
    }
    set_mode(&dir.0, 0o777);
    assert_eq!(make(&user(1234), "null"), Err(VfsError::NotPermitted));
    match make(&user(0), "null") {
        // A container may be forbidden it.
        Err(error) => assert_eq!(error, VfsError::NotPermitted),
        Ok(()) => {
            let opened = open(&fs, &user(0), "null", Access::empty()).unwrap();
            assert_eq!((opened.attr.kind, opened.attr.rdev), (FileKind::CharDevice, rdev));
            assert_eq!(opened.attr.mode, 0o640);
            assert_eq!(make(&user(0), "null"), Err(VfsError::Exists));
        }
    }
    let fifo = fs.make_device(&user(0), &*fs.root(), &path("fifo"), FileKind::Fifo, 0, 0o640);
    assert_eq!(fifo, Err(VfsError::NotSupported));
}

#[test]
fn a_pipe_is_not_waited_for() {
    let dir = temp::Dir::new();
    let name = CString::new(dir.0.join("fifo").to_str().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &name, 0o666.into()).unwrap();
    let fs = dir.serve();
    for access in [Access::READ, Access::WRITE, Access::READ | Access::WRITE] {
        assert_eq!(open(&fs, &temp::me(), "fifo", access).err(), Some(VfsError::AccessDenied));
    }
    let opened = open(&fs, &temp::me(), "fifo", Access::empty()).unwrap();
    assert_eq!(opened.attr.kind, FileKind::Fifo);
    assert!(opened.node.attr().is_ok());
    opened.node.sync(vfs::Sync::All).unwrap();
    assert_eq!(opened.node.read(0, &mut [0; 4], Wait::Allowed), Err(VfsError::InvalidArgument));
}

#[test]
fn a_pipe_is_not_waited_for_in_one_step_either() {
    let dir = temp::Dir::new();
    let name = CString::new(dir.0.join("fifo").to_str().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &name, 0o666.into()).unwrap();
    let options = LocalFsOptions { assume_no_devices: true, ..LocalFsOptions::default() };
    let fs = LocalFs::new(&dir.0, options).unwrap();
    for access in [Access::READ, Access::WRITE, Access::READ | Access::WRITE] {
        assert_eq!(open(&fs, &temp::me(), "fifo", access).err(), Some(VfsError::AccessDenied));
    }
}

#[test]
fn a_path_without_end_is_refused() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    let long = path(&vec!["a"; 10_000].join("/"));
    let (me, root) = (temp::me(), fs.root());
    let open = fs.open(&me, &*root, &long, &how(Access::READ, Disposition::OpenOrCreate), Wait::Allowed);
    assert!(matches!(open.err(), Some(VfsError::NameTooLong)));
    assert_eq!(fs.spell(&me, &*root, &long, Wait::Allowed), Err(VfsError::NameTooLong));
}

#[test]
fn a_device_is_not_touched() {
    let fs = LocalFs::new(std::path::Path::new("/dev"), LocalFsOptions::default()).unwrap();
    assert_eq!(open(&fs, &temp::me(), "null", Access::READ).err(), Some(VfsError::AccessDenied));
    let opened = open(&fs, &temp::me(), "null", Access::empty()).unwrap();
    assert_eq!((opened.attr.kind, opened.attr.rdev), (FileKind::CharDevice, 1 << 32 | 3));
}

#[test]
fn magic_links_lead_nowhere() {
    let fs = LocalFs::new(std::path::Path::new("/proc/self"), LocalFsOptions::default()).unwrap();
    for at in ["root/etc/passwd", "cwd/x", "fd/0", "exe"] {
        assert_eq!(open(&fs, &temp::me(), at, Access::READ).err(), Some(VfsError::Escapes), "{at}");
    }
}

#[test]
fn a_directory_moved_out_while_open_does_not_lead_out() {
    let (outside, dir) = (temp::Dir::new(), temp::Dir::new());
    std::fs::write(outside.0.join("secret"), "x").unwrap();
    std::fs::create_dir_all(dir.0.join("a/b")).unwrap();
    std::os::unix::fs::symlink("../secret", dir.0.join("a/b/up")).unwrap();
    std::fs::write(dir.0.join("a/secret"), "fine").unwrap();
    let fs = dir.serve();
    let held = open(&fs, &temp::me(), "a/b", Access::READ).unwrap().node;
    let up = |_: ()| fs.attr_at(&temp::me(), &*held, &path("up"), Wait::Allowed).map(|a| a.kind);
    let follow = || fs.open(&temp::me(), &*held, &path("up"), &how(Access::READ, Disposition::Open), Wait::Allowed);
    assert_eq!(up(()), Ok(FileKind::Symlink));
    assert!(follow().is_ok());
    std::fs::rename(dir.0.join("a/b"), outside.0.join("b")).unwrap();
    assert_eq!(fs.path_of(&*held), Err(VfsError::Stale));
    assert_eq!(follow().err(), Some(VfsError::Escapes));
}

#[test]
fn the_root_may_be_moved() {
    let (dir, parent) = (temp::Dir::new(), temp::Dir::new());
    std::fs::create_dir(dir.0.join("d")).unwrap();
    let fs = dir.serve();
    let node = open(&fs, &temp::me(), "d", Access::empty()).unwrap().node;
    std::fs::rename(&dir.0, parent.0.join("moved")).unwrap();
    assert_eq!(fs.path_of(&*node), Ok(path("d")));
    make(&fs, &temp::me(), "d/f").unwrap();
    assert!(parent.0.join("moved/d/f").exists());
}

#[test]
fn what_cannot_be_served_is_said() {
    let missing = LocalFs::new(std::path::Path::new("/nonexistent/x"), LocalFsOptions::default());
    assert!(matches!(missing.err(), Some(OpenRootError::Open { .. })));
    let file = LocalFs::new(std::path::Path::new("/proc/self/exe"), LocalFsOptions::default());
    assert!(matches!(file.err(), Some(OpenRootError::Open { .. })));
}

#[test]
fn nothing_changes_when_read_only() {
    let dir = temp::Dir::new();
    std::fs::write(dir.0.join("f"), "hello").unwrap();
    let options = LocalFsOptions { read_only: true, ..LocalFsOptions::default() };
    let (fs, me) = (LocalFs::new(&dir.0, options).unwrap(), temp::me());
    assert!(fs.capabilities().contains(Capabilities::READ_ONLY));
    let root = fs.root();
    let node = open(&fs, &me, "f", Access::READ).unwrap().node;
    let refused = Err(VfsError::ReadOnly);
    assert_eq!(open(&fs, &me, "f", Access::WRITE).map(drop), refused);
    assert_eq!(make(&fs, &me, "g").map(drop), refused);
    let or_create = how(Access::READ, Disposition::OpenOrCreate);
    assert_eq!(fs.open(&me, &*root, &path("g"), &or_create, Wait::Allowed).map(drop), refused);
    assert_eq!(fs.remove(&me, &*root, &path("f"), None), refused);
    assert_eq!(fs.symlink(&me, &*root, &path("l"), b"f"), refused);
    assert_eq!(fs.link(&me, &*node, &*root, &path("l")), refused);
    let rename = fs.rename(&me, (&*root, &path("f")), (&*root, &path("g")), vfs::Rename::Replace);
    assert_eq!(rename, refused);
    assert_eq!(node.set_attr(&me, &SetAttr { mode: Some(0), ..SetAttr::default() }), refused);
    assert_eq!(node.set_xattr(&me, "user.x", b""), refused);
    assert_eq!(node.remove_xattr(&me, "user.x"), refused);
    let all = AccessMask::READ | AccessMask::WRITE;
    assert_eq!(node.access(&me, all), Ok(AccessMask::READ));
}

#[test]
fn users_on_one_thread_stay_apart() {
    if !temp::root() {
        return;
    }
    let dir = temp::Dir::new();
    let fs = dir.serve();
    let one = make(&fs, &user(1000), "of1000").unwrap();
    let two = make(&fs, &user(2000), "of2000").unwrap();
    assert_eq!((one.attr.uid, one.attr.gid, two.attr.uid), (1000, 1000, 2000));
    set_mode(&dir.0.join("of1000"), 0o600);
    for _ in 0..3 {
        assert!(open(&fs, &user(1000), "of1000", Access::WRITE).is_ok());
        assert_eq!(open(&fs, &user(2000), "of1000", Access::READ).err(), Some(VfsError::AccessDenied));
        // A call without an identity has the process's, whatever came before.
        let name = vfs::Name::new(b"of1000").unwrap();
        assert_eq!(fs.root().entry_xattr(name, "user.x", 10), Err(VfsError::NoXattr));
    }
    assert_eq!(open(&fs, &user(2000), "of1000", Access::empty()).unwrap().attr.uid, 1000);
    // Ownership is not given away.
    let give = SetAttr { uid: Some(2000), ..SetAttr::default() };
    assert_eq!(one.node.set_attr(&user(1000), &give), Err(VfsError::NotPermitted));
    assert_eq!(open(&fs, &user(2000), "of1000", Access::READ).err(), Some(VfsError::AccessDenied));
    set_mode(&dir.0, 0o700);
    assert_eq!(open(&fs, &user(2000), "of1000", Access::empty()).err(), Some(VfsError::AccessDenied));
    // Another share is opened as the process, whoever this thread worked for.
    let again = dir.serve();
    assert!(again.root().read_dir(0, &mut |_| true).is_ok());
    assert!(std::fs::read(dir.0.join("of1000")).is_ok());
}

#[test]
fn a_link_out_of_a_directory_with_an_odd_name_is_followed_as_the_user() {
    if !temp::root() {
        return;
    }
    let dir = temp::Dir::new();
    std::fs::create_dir(dir.0.join("closed")).unwrap();
    std::fs::write(dir.0.join("closed/secret"), b"of somebody else").unwrap();
    set_mode(&dir.0.join("closed/secret"), 0o600);
    set_mode(&dir.0.join("closed"), 0o700);
    // The kernel gives the names of what was deleted this ending, so whether it is one has to be looked up.
    std::fs::create_dir(dir.0.join("d (deleted)")).unwrap();
    std::os::unix::fs::symlink("../closed/secret", dir.0.join("d (deleted)/link")).unwrap();
    let fs = dir.serve();
    let odd = open(&fs, &user(1000), "d (deleted)", Access::empty()).unwrap().node;
    let through =
        |access| fs.open(&user(1000), &*odd, &path("link"), &how(access, Disposition::Open), Wait::Allowed).map(drop);
    assert_eq!(through(Access::empty()), Err(VfsError::AccessDenied));
    assert_eq!(through(Access::READ), Err(VfsError::AccessDenied));
}

#[test]
fn users_on_many_threads_stay_apart() {
    if !temp::root() {
        return;
    }
    let dir = temp::Dir::new();
    let fs = dir.serve();
    let workers: Vec<_> = (0..8u32)
        .map(|worker| {
            let fs = Arc::clone(&fs);
            std::thread::spawn(move || {
                for i in 0..50 {
                    let cred = user(1000 + (worker + i) % 5);
                    let opened = make(&fs, &cred, &format!("w{worker} {i}")).unwrap();
                    assert_eq!((opened.attr.uid, opened.attr.gid), (cred.uid, cred.gid));
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|w| w.join().unwrap());
    assert_eq!(std::fs::metadata(&dir.0).unwrap().uid(), 0);
}

#[test]
fn files_in_memory_are_read_without_waiting() {
    let memory = std::path::Path::new("/dev/shm");
    if !memory.is_dir() {
        return;
    }
    let dir = temp::Dir::below(memory);
    let fs = dir.serve();
    std::fs::write(dir.0.join("f"), "hello").unwrap();
    let node = open(&fs, &temp::me(), "f", Access::READ).unwrap().node;
    let mut buf = [0; 8];
    assert_eq!(node.read(1, &mut buf, Wait::Never), Ok(4));
    assert_eq!(node.read(1, &mut buf[..2], Wait::Never), Ok(2));
}

#[test]
fn a_known_name_is_opened_without_waiting() {
    let dir = temp::Dir::new();
    let (fs, me) = (dir.serve(), temp::me());
    make(&fs, &me, "f").unwrap();
    let never = |at: &str| {
        fs.open(&me, &*fs.root(), &path(at), &how(Access::READ, Disposition::Open), Wait::Never).map(|o| o.attr.kind)
    };
    assert!(matches!(never("f"), Ok(FileKind::File) | Err(VfsError::WouldBlock)));
    assert!(matches!(never("no"), Err(VfsError::NotFound | VfsError::WouldBlock)));
}

#[test]
fn a_file_not_in_memory_would_block() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    std::fs::write(dir.0.join("f"), vec![7; 1 << 20]).unwrap();
    let file = std::fs::File::open(dir.0.join("f")).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let node = open(&fs, &temp::me(), "f", Access::READ).unwrap().node;
    let mut buf = vec![0; 1 << 20];
    // Where the pages stayed all the same, the read is whole: never short.
    assert!(matches!(node.read(0, &mut buf, Wait::Never), Ok(0x10_0000) | Err(VfsError::WouldBlock)));
    assert_eq!(node.read(0, &mut buf, Wait::Allowed), Ok(1 << 20));
    assert!(buf.iter().all(|&b| b == 7));
}

#[test]
fn changes_by_other_programs_are_seen() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    for round in 0..30 {
        let name = format!("File{round}");
        assert_eq!(spell(&fs, &name.to_lowercase()), Err(VfsError::NotFound));
        std::fs::write(dir.0.join(&name), "").unwrap();
        assert_eq!(spell(&fs, &name.to_lowercase()), Ok(path(&name)), "round {round}");
        std::fs::remove_file(dir.0.join(&name)).unwrap();
        assert_eq!(spell(&fs, &name.to_lowercase()), Err(VfsError::NotFound), "round {round}");
    }
    // In the middle of a burst of our own, they are seen once the directory has been quiet.
    make(&fs, &temp::me(), "ours").unwrap();
    assert_eq!(spell(&fs, "theirs"), Err(VfsError::NotFound));
    std::fs::write(dir.0.join("Theirs"), "").unwrap();
    make(&fs, &temp::me(), "ours too").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(spell(&fs, "theirs"), Ok(path("Theirs")));
}

/// The processor's time this thread takes for `work`: what a device or another process takes of the clock's is not in it.
fn worked(work: impl FnOnce()) -> Duration {
    let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("it begins at zero");
    let before = now();
    work();
    now() - before
}

#[test]
fn whoever_writes_for_others_does_not_pass_over_their_quotas() {
    // Where the process has never had the power this shows nothing.
    let dir = temp::Dir::new();
    let _fs = dir.serve();
    let passes_over = || capabilities(None).unwrap().effective.contains(CapabilitySet::SYS_RESOURCE);
    assert!(!passes_over());
    assert!(!std::thread::spawn(passes_over).join().unwrap(), "nor does a thread of its");
}

#[test]
fn a_miss_in_a_large_directory_does_not_read_it_again() {
    let dir = temp::Dir::new();
    for i in 0..30_000 {
        std::fs::write(dir.0.join(format!("some file with a name {i}")), "").unwrap();
    }
    std::thread::sleep(Duration::from_millis(100));
    let fs = dir.serve();
    let first = worked(|| assert_eq!(spell(&fs, "Nothing Of That Name"), Err(VfsError::NotFound)));
    let rest = worked(|| {
        for i in 0..100 {
            assert_eq!(spell(&fs, &format!("Nothing {i}")), Err(VfsError::NotFound));
        }
    });
    let each = rest / 100;
    println!("first miss {first:?}, another {each:?}");
    assert!(each * 20 < first, "first miss {first:?}, another {each:?}");
    assert_eq!(spell(&fs, "SOME file with a name 17"), Ok(path("some file with a name 17")));
}

#[test]
fn making_many_files_is_not_quadratic() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    let me = temp::me();
    let mut batches = Vec::new();
    for batch in 0..6 {
        batches.push(worked(|| {
            for i in 0..1000 {
                let name = format!("New File {batch} {i}");
                assert_eq!(spell(&fs, &name), Err(VfsError::NotFound));
                make(&fs, &me, &name).unwrap();
            }
        }));
    }
    println!("{batches:?}");
    // Quadratic: the last would take about eleven times the first.
    assert!(batches[5] < batches[0] * 5, "{batches:?}");
}

#[test]
fn what_takes_a_name_while_another_object_loses_it_is_not_removed() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    for _ in 0..1000 {
        let old = make(&fs, &temp::me(), "name").unwrap().attr.id;
        make(&fs, &temp::me(), "new").unwrap();
        let meet = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                meet.wait();
                let _ = fs.remove(&temp::me(), &*fs.root(), &path("name"), Some(old));
            });
            meet.wait();
            let (root, from, to) = (fs.root(), path("new"), path("name"));
            fs.rename(&temp::me(), (&*root, &from), (&*root, &to), vfs::Rename::Replace).unwrap();
        });
        fs.remove(&temp::me(), &*fs.root(), &path("name"), None).expect("the new one has the name");
    }
}

#[test]
fn what_takes_a_name_while_another_object_is_moved_is_not_moved() {
    let dir = temp::Dir::new();
    let fs = dir.serve();
    let root = fs.root();
    let (name, moved, new) = (path("name"), path("moved"), path("new"));
    let id = |at: &Path| fs.attr_at(&temp::me(), &*root, at, Wait::Allowed).map(|attr| attr.id);
    for _ in 0..1000 {
        let first = make(&fs, &temp::me(), "name").unwrap().attr.id;
        let second = make(&fs, &temp::me(), "new").unwrap().attr.id;
        let meet = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                meet.wait();
                let (from, to) = ((&*root, &name), (&*root, &moved));
                let _ = fs.rename_only(&temp::me(), from, to, vfs::Rename::Replace, first);
            });
            meet.wait();
            fs.rename(&temp::me(), (&*root, &new), (&*root, &name), vfs::Rename::Replace).unwrap();
        });
        assert_eq!(id(&name), Ok(second));
        assert!(matches!(id(&moved), Ok(id) if id == first) || id(&moved) == Err(VfsError::NotFound));
        fs.remove(&temp::me(), &*root, &name, None).unwrap();
        let _ = fs.remove(&temp::me(), &*root, &moved, None);
    }
}
