//! The contract for files: their data, attributes and rights.

#![expect(missing_docs, reason = "a test's name is its sentence")]

use std::sync::Arc;

use super::{World, error, how, path, read_all};
use crate::{
    Access, AccessMask, Capabilities, Cred, Disposition, OpenHow, PagePipe, SetAttr, SetTime, Sync, Timestamp,
    VfsError, Wait, WantKind,
};

pub fn what_is_written_is_read(world: &World) {
    let node = world.make("a", b"hello");
    node.write(5, b" world", Wait::Never).unwrap();
    node.write(0, b"J", Wait::Allowed).unwrap();
    node.write(20, b"!", Wait::Allowed).unwrap();
    node.sync(Sync::Data).unwrap();
    node.sync(Sync::All).unwrap();
    assert_eq!(read_all(&*node), b"Jello world\0\0\0\0\0\0\0\0\0!");
    let again = world.open("a", Access::READ).unwrap();
    assert_eq!(again.id(), node.id());
    let mut buf = [0; 5];
    assert_eq!(again.read(6, &mut buf, Wait::Allowed), Ok(5));
    assert_eq!(&buf, b"world");
    // Warm: no device has to be waited for.
    assert!(matches!(again.read(6, &mut buf, Wait::Never), Ok(5) | Err(VfsError::WouldBlock)));
}

pub fn reads_end_with_the_file(world: &World) {
    let node = world.make("a", b"hello");
    let mut buf = [0; 10];
    for wait in [Wait::Allowed, Wait::Never] {
        assert_eq!(node.read(0, &mut buf, wait), Ok(5));
        assert_eq!(node.read(3, &mut buf, wait), Ok(2));
        assert_eq!(node.read(5, &mut buf, wait), Ok(0));
        assert_eq!(node.read(1 << 40, &mut buf, wait), Ok(0));
        assert_eq!(node.read(u64::MAX, &mut buf, wait), Ok(0));
        assert_eq!(node.read(0, &mut [], wait), Ok(0));
    }
}

pub fn a_file_is_cut_and_extended(world: &World) {
    let node = world.make("a", b"hello");
    let to = |len| SetAttr { len_bytes: Some(len), ..SetAttr::default() };
    let before = node.attr().unwrap().change;
    node.set_attr(&world.cred, &to(2)).unwrap();
    node.set_attr(&world.cred, &to(4)).unwrap();
    assert_eq!(read_all(&*node), b"he\0\0");
    assert!(node.attr().unwrap().change >= before);
    let reader = world.open("a", Access::READ).unwrap();
    assert_eq!(reader.set_attr(&world.cred, &to(0)), Err(VfsError::AccessDenied));
    assert_eq!(node.set_attr(&world.cred, &to(u64::MAX)), Err(VfsError::TooLarge));
    let dir = world.make_dir("d");
    assert_eq!(dir.set_attr(&world.cred, &to(0)), Err(VfsError::IsDirectory));
}

pub fn offsets_out_of_reach_are_refused(world: &World) {
    let node = world.make("a", b"hello");
    assert_eq!(node.write(u64::MAX, b"x", Wait::Allowed), Err(VfsError::TooLarge));
    assert_eq!(node.write(i64::MAX as u64, b"x", Wait::Allowed), Err(VfsError::TooLarge));
    assert_eq!(node.allocate(u64::MAX, 5, true), Err(VfsError::TooLarge));
    assert_eq!(read_all(&*node), b"hello");
}

pub fn rights_are_those_of_the_open(world: &World) {
    world.make("a", b"hello");
    let reader = world.open("a", Access::READ).unwrap();
    assert_eq!(reader.write(0, b"x", Wait::Allowed), Err(VfsError::AccessDenied));
    assert_eq!(reader.allocate(0, 10, true), Err(VfsError::AccessDenied));
    let writer = world.open("a", Access::WRITE).unwrap();
    assert_eq!(writer.read(0, &mut [0; 2], Wait::Allowed), Err(VfsError::AccessDenied));
    let dir = world.make_dir("d");
    assert_eq!(dir.read(0, &mut [0; 2], Wait::Allowed), Err(VfsError::IsDirectory));
    assert_eq!(dir.write(0, &[0; 2], Wait::Allowed), Err(VfsError::IsDirectory));
    let named = world.open("d", Access::empty()).unwrap();
    assert_eq!(named.read_dir(0, &mut |_| true), Err(VfsError::AccessDenied));
    assert_eq!(reader.read_dir(0, &mut |_| true), Err(VfsError::NotDirectory));
}

pub fn space_is_reserved(world: &World) {
    let node = world.make("a", b"hello");
    node.allocate(0, 100, false).unwrap();
    assert_eq!(node.attr().unwrap().len_bytes, 5);
    node.allocate(0, 2, true).unwrap();
    node.allocate(0, 0, true).unwrap();
    assert_eq!(node.attr().unwrap().len_bytes, 5);
    node.allocate(3, 5, true).unwrap();
    assert_eq!(read_all(&*node), b"hello\0\0\0");
}

pub fn attributes_are_set(world: &World) {
    let node = world.make("a", b"hello");
    node.set_attr(&world.cred, &SetAttr { mode: Some(0o640), ..SetAttr::default() }).unwrap();
    let attr = node.attr().unwrap();
    assert_eq!((attr.mode, attr.nlink, attr.len_bytes), (0o640, 1, 5));
    assert_eq!((attr.uid, attr.gid), (world.cred.uid, world.cred.gid));
    if world.cred.uid == 0 {
        let owner = SetAttr { uid: Some(12), gid: Some(13), mode: Some(0o6755), ..SetAttr::default() };
        node.set_attr(&world.cred, &owner).unwrap();
        let attr = node.attr().unwrap();
        assert_eq!((attr.uid, attr.gid, attr.mode), (12, 13, 0o6755));
    }
}

pub fn times_are_set(world: &World) {
    let node = world.make("a", b"hello");
    let time = |secs, nanos| Some(SetTime::At(Timestamp { secs, nanos }));
    node.set_attr(&world.cred, &SetAttr { modified: time(1_000_000_000, 700), ..SetAttr::default() }).unwrap();
    node.set_attr(&world.cred, &SetAttr { accessed: time(-5, 0), ..SetAttr::default() }).unwrap();
    let attr = node.attr().unwrap();
    assert_eq!(attr.modified, Timestamp { secs: 1_000_000_000, nanos: 700 });
    assert_eq!(attr.accessed.secs, -5);
    let set = SetAttr { modified: Some(SetTime::Now), ..SetAttr::default() };
    node.set_attr(&world.cred, &set).unwrap();
    assert_ne!(node.attr().unwrap().modified.secs, 1_000_000_000);
    assert_eq!(node.attr().unwrap().accessed.secs, -5);
    let wrong = SetAttr { modified: time(0, 1_000_000_000), ..SetAttr::default() };
    assert_eq!(node.set_attr(&world.cred, &wrong), Err(VfsError::InvalidArgument));
}

pub fn extended_attributes(world: &World) {
    if !world.backend.capabilities().contains(Capabilities::XATTR) {
        return;
    }
    let node = world.make("a", b"");
    assert_eq!(node.xattr("user.x", 100), Err(VfsError::NoXattr));
    node.set_xattr(&world.cred, "user.x", b"value").unwrap();
    node.set_xattr(&world.cred, "user.empty", b"").unwrap();
    node.set_xattr(&world.cred, "user.long", &[7; 2000]).unwrap();
    assert_eq!(node.xattr("user.x", 100).unwrap(), b"value");
    assert_eq!(node.xattr("user.x", 5).unwrap(), b"value");
    assert_eq!(node.xattr("user.x", 4), Err(VfsError::RangeTooSmall));
    assert_eq!(node.xattr("user.x", 0), Err(VfsError::RangeTooSmall));
    assert_eq!(node.xattr("user.empty", 0).unwrap(), b"");
    assert_eq!(node.xattr("user.long", usize::MAX).unwrap(), [7; 2000]);
    assert_eq!(node.xattr("user.long", 1999), Err(VfsError::RangeTooSmall));
    let root = world.backend.root();
    let name = crate::Name::new(b"a").unwrap();
    assert_eq!(root.entry_xattr(name, "user.x", 100).unwrap(), b"value");
    assert_eq!(root.entry_xattr(name, "user.y", 100), Err(VfsError::NoXattr));
    let mut names = node.xattr_names().unwrap();
    names.retain(|n| n.starts_with("user."));
    names.sort();
    assert_eq!(names, ["user.empty", "user.long", "user.x"]);
    node.remove_xattr(&world.cred, "user.x").unwrap();
    assert_eq!(node.remove_xattr(&world.cred, "user.x"), Err(VfsError::NoXattr));
    assert_eq!(node.set_xattr(&world.cred, "user.big", &[0; 70_000]), Err(VfsError::TooLarge));
}

pub fn an_attribute_only_node_is_enough_for_attributes(world: &World) {
    world.make("a", b"hello");
    let node = world.open("a", Access::empty()).unwrap();
    assert_eq!(node.attr().unwrap().len_bytes, 5);
    node.set_attr(&world.cred, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    let time = Some(SetTime::At(Timestamp { secs: 77, nanos: 0 }));
    node.set_attr(&world.cred, &SetAttr { modified: time, ..SetAttr::default() }).unwrap();
    let attr = node.attr().unwrap();
    assert_eq!((attr.mode, attr.modified.secs), (0o600, 77));
    let all = AccessMask::READ | AccessMask::WRITE;
    assert_eq!(node.access(&world.cred, all), Ok(all));
    assert_eq!(node.read(0, &mut [0; 1], Wait::Allowed), Err(VfsError::AccessDenied));
    node.sync(Sync::All).unwrap();
    if world.backend.capabilities().contains(Capabilities::XATTR) {
        node.set_xattr(&world.cred, "user.x", b"v").unwrap();
        assert_eq!(node.xattr("user.x", 10).unwrap(), b"v");
        assert!(node.xattr_names().unwrap().contains(&"user.x".to_owned()));
        node.remove_xattr(&world.cred, "user.x").unwrap();
    }
}

pub fn modes_are_exact(world: &World) {
    for (name, kind, mode) in [
        ("a", WantKind::File, 0o666),
        ("b", WantKind::File, 0o777),
        ("c", WantKind::Directory, 0o777),
        ("d", WantKind::File, 0),
        ("e", WantKind::Directory, 0o1770),
    ] {
        for (access, suffix) in [(Access::empty(), "1"), (Access::READ, "2")] {
            let how = OpenHow { access, disposition: Disposition::Create, kind, follow: false, mode };
            let opened = world.open_how(&format!("{name}{suffix}"), how).unwrap();
            assert_eq!((opened.attr.mode, opened.created), (mode, true), "{name}");
            assert_eq!(opened.node.attr().unwrap().mode, mode, "{name}");
        }
    }
}

pub fn others_are_refused(world: &World) {
    if !world.backend.capabilities().contains(Capabilities::IDENTITY) {
        return;
    }
    let (backend, root) = (&world.backend, world.backend.root());
    let other = Cred { uid: 1000, gid: 1000, groups: Arc::from([77]) };
    let node = world.make("secret", b"hello");
    node.set_attr(&world.cred, &SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
    let read = how(Access::READ, Disposition::Open, WantKind::Any);
    let open = |cred: &Cred, at: &str| backend.open(cred, &*root, &path(at), &read, Wait::Allowed).map(|o| o.attr.id);
    assert_eq!(open(&other, "secret"), Err(VfsError::AccessDenied));
    assert!(open(&world.cred, "secret").is_ok());
    assert_eq!(node.access(&other, AccessMask::all()), Ok(AccessMask::empty()));
    assert_eq!(
        error(node.set_attr(&other, &SetAttr { mode: Some(0o777), ..SetAttr::default() })),
        VfsError::NotPermitted
    );
    // What is open stays open.
    assert_eq!(read_all(&*node), b"hello");
    // A supplementary group opens it.
    node.set_attr(&world.cred, &SetAttr { mode: Some(0o640), gid: Some(77), ..SetAttr::default() }).unwrap();
    assert!(open(&other, "secret").is_ok());
    assert_eq!(node.access(&other, AccessMask::READ | AccessMask::WRITE), Ok(AccessMask::READ));

    let dir = world.make_dir("closed");
    world.make("closed/file", b"");
    dir.set_attr(&world.cred, &SetAttr { mode: Some(0o700), ..SetAttr::default() }).unwrap();
    assert_eq!(open(&other, "closed/file"), Err(VfsError::AccessDenied));
    assert_eq!(backend.remove(&other, &*dir, &path("file"), None), Err(VfsError::AccessDenied));
    let make = how(Access::WRITE, Disposition::Create, WantKind::File);
    assert_eq!(error(backend.open(&other, &*dir, &path("new"), &make, Wait::Allowed)), VfsError::AccessDenied);
    dir.set_attr(&world.cred, &SetAttr { mode: Some(0o777), ..SetAttr::default() }).unwrap();
    let made = backend.open(&other, &*dir, &path("new"), &make, Wait::Allowed).unwrap();
    assert_eq!((made.attr.uid, made.attr.gid), (1000, 1000));
}

pub fn pages_or_not_supported(world: &World) {
    let node = world.make("a", b"hello");
    let mut pipe = Counting::default();
    match node.read_pages(1, 100, &mut pipe, Wait::Allowed) {
        Ok(count) => assert_eq!((count, pipe.0), (4, 4)),
        Err(error) => assert_eq!(error, VfsError::NotSupported),
    }
    let dir = world.make_dir("d");
    assert_eq!(dir.read_pages(0, 10, &mut pipe, Wait::Allowed), Err(VfsError::NotSupported));
}

/// A pipe that takes one or two bytes at a time and keeps none.
#[derive(Default)]
struct Counting(usize);

impl PagePipe for Counting {
    fn fill(
        &mut self,
        file: std::os::fd::BorrowedFd<'_>,
        offset_bytes: u64,
        len_bytes: usize,
        _: bool,
    ) -> std::io::Result<usize> {
        let file = std::fs::File::from(file.try_clone_to_owned()?);
        let mut buf = [0; 2];
        let count = std::os::unix::fs::FileExt::read_at(&file, &mut buf[..len_bytes.min(2)], offset_bytes)?;
        self.0 += count;
        Ok(count)
    }

    fn len_bytes(&self) -> usize {
        self.0
    }

    fn drain(&mut self, _: std::os::fd::BorrowedFd<'_>, _: bool) -> std::io::Result<usize> {
        Ok(0)
    }
}

pub fn a_removed_file_is_read_to_the_end(world: &World) {
    let node = world.make("a", b"hello");
    world.remove("a").unwrap();
    assert_eq!(read_all(&*node), b"hello");
    assert_eq!(node.attr().unwrap().nlink, 0);
    assert_eq!(world.backend.path_of(&*node), Err(VfsError::Stale));
    let root = world.backend.root();
    assert_eq!(world.backend.link(&world.cred, &*node, &*root, &path("b")), Err(VfsError::Stale));
    let new = world.make("a", b"new");
    assert_ne!(new.id(), node.id());
}

pub fn ranges_are_copied(world: &World) {
    let (from, to) = (world.make("a", b"hello world"), world.make("b", b"...."));
    assert_eq!(from.copy_range(6, &*to, 2, 3), Ok(3));
    assert_eq!(read_all(&*to), b"..wor");
    assert_eq!(from.copy_range(6, &*to, 0, 100), Ok(5));
    assert_eq!(from.copy_range(11, &*to, 0, 100), Ok(0));
    assert_eq!(from.copy_range(0, &*to, 8, 0), Ok(0));
    assert_eq!(read_all(&*to), b"world");
    let reader = world.open("b", Access::READ).unwrap();
    assert_eq!(from.copy_range(0, &*reader, 0, 3), Err(VfsError::AccessDenied));
    let writer = world.open("a", Access::WRITE).unwrap();
    assert_eq!(writer.copy_range(0, &*to, 0, 3), Err(VfsError::AccessDenied));
}

pub fn ranges_are_copied_over_themselves(world: &World) {
    let node = world.make("a", b"abcdef");
    assert_eq!(node.copy_range(0, &*node, 2, 4), Ok(4));
    assert_eq!(read_all(&*node), b"ababcd");
    assert_eq!(node.copy_range(1, &*node, 0, 5), Ok(5));
    assert_eq!(read_all(&*node), b"babcdd");
    // Through another node, and longer than any buffer.
    let long: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
    node.write(0, &long, Wait::Allowed).unwrap();
    let again = world.open("a", Access::READ | Access::WRITE).unwrap();
    assert_eq!(node.copy_range(0, &*again, 100, 3_000_000), Ok(3_000_000));
    assert!(read_all(&*node)[100..] == long);
}

pub fn ranges_are_zeroed(world: &World) {
    for release in [false, true] {
        let node = world.make(if release { "a" } else { "b" }, b"hello world");
        node.zero_range(2, 3, release).unwrap();
        assert_eq!(read_all(&*node), b"he\0\0\0 world");
        node.zero_range(9, 100, release).unwrap();
        node.zero_range(50, 100, release).unwrap();
        node.zero_range(0, 0, release).unwrap();
        assert_eq!(read_all(&*node), b"he\0\0\0 wor\0\0");
    }
    let reader = world.open("a", Access::READ).unwrap();
    assert_eq!(reader.zero_range(0, 1, true), Err(VfsError::AccessDenied));
}

pub fn data_is_found(world: &World) {
    let node = world.make("a", b"");
    assert_eq!(node.next_data(0), Ok(None));
    node.write(1 << 20, b"data", Wait::Allowed).unwrap();
    let end = (1 << 20) + 4;
    let found = node.next_data(0).unwrap().unwrap();
    assert!(found.start <= 1 << 20 && found.end == end, "{found:?}");
    assert_eq!(node.next_data(end - 1), Ok(Some(end - 1..end)));
    assert_eq!(node.next_data(end), Ok(None));
    assert_eq!(node.next_data(u64::MAX), Ok(None));
}

pub fn extents_are_shared(world: &World) {
    let block = vec![7; 1 << 16];
    let (from, to) = (world.make("a", &block), world.make("b", b""));
    let shared = from.clone_range(0, &*to, 0, 1 << 16);
    if world.backend.capabilities().contains(Capabilities::REFLINK) {
        assert_eq!(shared, Ok(()));
        assert_eq!(read_all(&*to), block);
    } else {
        assert_eq!(shared, Err(VfsError::NotSupported));
        assert_eq!(read_all(&*to), b"");
    }
}
