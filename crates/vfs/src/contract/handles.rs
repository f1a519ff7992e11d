//! The contract for handles that outlive their node, and for objects that are neither file nor directory.

#![expect(missing_docs, reason = "a test's name is its sentence")]

use super::{World, error, path, read_all};
use crate::{Access, Cred, FileKind, MAX_HANDLE_BYTES, Name, Node, Opened, Rename, VfsError, VfsResult, Wait};

impl World {
    fn by_handle(&self, handle: &[u8], access: Access) -> VfsResult<Opened> {
        self.backend.open_handle(&self.cred, handle, access, Wait::Allowed)
    }

    fn handle(&self, node: &dyn Node) -> Vec<u8> {
        let handle = self.backend.handle_of(node).unwrap();
        assert!(handle.len() <= MAX_HANDLE_BYTES);
        handle
    }
}

pub fn a_handle_leads_back(world: &World) {
    let dir = world.make_dir("d");
    let file = world.make("d/f", b"text");
    let root = world.backend.root();
    for node in [&*root, &*dir, &*file] {
        let opened = world.by_handle(&world.handle(node), Access::READ).unwrap();
        assert_eq!((opened.node.id(), opened.attr.id, opened.created), (node.id(), node.id(), false));
    }
    let handle = world.handle(&*file);
    assert_eq!(read_all(&*world.by_handle(&handle, Access::READ).unwrap().node), b"text");
    let node = world.by_handle(&handle, Access::WRITE).unwrap().node;
    node.write(0, b"T", Wait::Allowed).unwrap();
    assert_eq!(read_all(&*world.open("d/f", Access::READ).unwrap()), b"Text");
    let entry = world.backend.entry_handle(&world.cred, &*dir, Name::new(b"f").unwrap()).unwrap();
    assert_eq!((entry.0.id, entry.1), (file.id(), handle.clone()));
    let of_entry = |name: &'static [u8]| {
        world.backend.handle_of_entry(&world.cred, &*dir, Name::new(name).unwrap(), &*file).unwrap()
    };
    // Where the name is another's, or nobody's, the object decides.
    assert_eq!((of_entry(b"f"), of_entry(b"none")), (handle.clone(), handle.clone()));
    world.make("d/other", b"");
    assert_eq!(of_entry(b"other"), handle);
    assert_ne!(world.handle(&*dir), handle);
    let opened = world.by_handle(&handle, Access::empty()).unwrap().node;
    assert_eq!(world.backend.path_of(&*opened).unwrap().as_bytes(), b"d/f");
}

pub fn a_handle_outlives_renames(world: &World) {
    let root = world.backend.root();
    world.make_dir("a");
    world.make_dir("b");
    let file = world.make("a/f", b"text");
    let handle = world.handle(&*file);
    let rename = |from: &str, to: &str| {
        let (from, to) = (path(from), path(to));
        world.backend.rename(&world.cred, (&*root, &from), (&*root, &to), Rename::NoReplace).unwrap();
    };
    let found = || read_all(&*world.by_handle(&handle, Access::READ).unwrap().node);
    rename("a/f", "b/g");
    assert_eq!(found(), b"text");
    rename("b", "c");
    assert_eq!(found(), b"text");
    assert_eq!(world.handle(&*file), handle);
}

pub fn a_handle_of_what_is_gone_is_stale(world: &World) {
    let file = world.make("f", b"");
    let handle = world.handle(&*file);
    world.remove("f").unwrap();
    assert_eq!(error(world.by_handle(&handle, Access::empty())), VfsError::Stale);
    drop(file);
    assert_eq!(error(world.by_handle(&handle, Access::empty())), VfsError::Stale);
    world.make("f", b"");
    assert_eq!(error(world.by_handle(&handle, Access::empty())), VfsError::Stale);
    let dir = world.make_dir("d");
    let handle = world.handle(&*dir);
    world.remove("d").unwrap();
    assert_eq!(error(world.by_handle(&handle, Access::empty())), VfsError::Stale);
}

pub fn strange_handles_are_refused(world: &World) {
    let file = world.make("f", b"");
    let good = world.handle(&*file);
    for bytes in [&b""[..], b"\x7f", b"\x01abc", &[0xff; MAX_HANDLE_BYTES], &[0; 200]] {
        let refused = error(world.by_handle(bytes, Access::empty()));
        assert!(matches!(refused, VfsError::InvalidArgument | VfsError::Stale), "{bytes:?}: {refused:?}");
    }
    for len in 0..good.len() {
        assert!(world.by_handle(&good[..len], Access::empty()).is_err(), "cut at {len}");
    }
}

pub fn a_handle_gives_no_rights(world: &World) {
    if !world.backend.capabilities().contains(crate::Capabilities::IDENTITY) {
        return;
    }
    let file = world.make("f", b"");
    let handle = world.handle(&*file);
    let set = crate::SetAttr { mode: Some(0o600), ..Default::default() };
    file.set_attr(&world.cred, &set).unwrap();
    let other = Cred { uid: world.cred.uid + 4711, gid: world.cred.gid + 4711, groups: [].into() };
    let open = |access| world.backend.open_handle(&other, &handle, access, Wait::Allowed);
    assert_eq!(error(open(Access::READ)), VfsError::AccessDenied);
    assert_eq!(error(open(Access::WRITE)), VfsError::AccessDenied);
    assert!(open(Access::empty()).is_ok());
}

pub fn a_link_is_opened_itself(world: &World) {
    world.symlink("l", "nowhere");
    let root = world.backend.root();
    let (attr, handle) = world.backend.entry_handle(&world.cred, &*root, Name::new(b"l").unwrap()).unwrap();
    assert_eq!(attr.kind, FileKind::Symlink);
    let node = world.by_handle(&handle, Access::empty()).unwrap().node;
    assert_eq!(node.read_link().unwrap(), b"nowhere");
    assert!(world.by_handle(&handle, Access::READ).is_err());
}

pub fn special_files_are_made(world: &World) {
    let root = world.backend.root();
    let make = |at: &str, kind| world.backend.make_special(&world.cred, &*root, &path(at), kind, 0o640);
    for (at, kind) in [("p", FileKind::Fifo), ("s", FileKind::Socket)] {
        make(at, kind).unwrap();
        let attr = world.attr(at).unwrap();
        assert_eq!((attr.kind, attr.mode), (kind, 0o640));
        assert_eq!(make(at, kind), Err(VfsError::Exists));
        let (_, handle) = world.backend.entry_handle(&world.cred, &*root, Name::new(at.as_bytes()).unwrap()).unwrap();
        assert_eq!(world.by_handle(&handle, Access::empty()).unwrap().node.kind(), kind);
    }
    assert_eq!(make("d", FileKind::BlockDevice), Err(VfsError::NotSupported));
}
