//! The contract for names: opening, making, moving, listing and spelling.

#![expect(missing_docs, reason = "a test's name is its sentence")]

use super::{World, error, how, list, path, read_all};
use crate::{Access, Disposition, FileKind, Name, Node, OpenHow, Path, Rename, VfsError, VfsResult, Wait, WantKind};

pub fn dispositions(world: &World) {
    let open = |disposition| world.open_how("a", how(Access::READ, disposition, WantKind::File));
    assert_eq!(error(open(Disposition::Open)), VfsError::NotFound);
    assert!(open(Disposition::OpenOrCreate).unwrap().created);
    assert!(!open(Disposition::OpenOrCreate).unwrap().created);
    assert!(!open(Disposition::Open).unwrap().created);
    assert_eq!(error(open(Disposition::Create)), VfsError::Exists);
    let here = world.open_how("", how(Access::READ, Disposition::Open, WantKind::Directory)).unwrap();
    assert_eq!(here.node.id(), world.backend.root().id());
    let create_here = how(Access::READ, Disposition::Create, WantKind::Directory);
    assert_eq!(error(world.open_how("", create_here)), VfsError::Exists);
}

pub fn kinds_are_checked(world: &World) {
    world.make("f", b"");
    world.make_dir("d");
    let open = |at, access, kind| world.open_how(at, how(access, Disposition::Open, kind)).map(|o| o.attr.kind);
    for access in [Access::empty(), Access::READ, Access::READ | Access::WRITE] {
        assert_eq!(open("f", access, WantKind::Directory), Err(VfsError::NotDirectory));
        assert_eq!(open("d", access, WantKind::File), Err(VfsError::IsDirectory));
        assert_eq!(open("f", access, WantKind::Any), Ok(FileKind::File));
        assert_eq!(open("d", access, WantKind::Any), Ok(FileKind::Directory));
    }
    let or_create = how(Access::READ, Disposition::OpenOrCreate, WantKind::Directory);
    assert_eq!(error(world.open_how("f", or_create)), VfsError::NotDirectory);
    let file = world.open("f", Access::READ).unwrap();
    let inside = how(Access::READ, Disposition::Open, WantKind::Any);
    let result = world.backend.open(&world.cred, &*file, &path("x"), &inside, Wait::Allowed);
    assert_eq!(error(result), VfsError::NotDirectory);
}

pub fn missing_is_told_from_missing_path(world: &World) {
    world.make("f", b"");
    world.make_dir("d");
    assert_eq!(world.attr("x"), Err(VfsError::NotFound));
    assert_eq!(world.attr("d/x"), Err(VfsError::NotFound));
    assert_eq!(world.attr("x/y"), Err(VfsError::PathNotFound));
    assert_eq!(world.attr("f/y"), Err(VfsError::PathNotFound));
    assert_eq!(world.attr("d/x/y"), Err(VfsError::PathNotFound));
    let create = how(Access::READ, Disposition::Create, WantKind::File);
    assert_eq!(error(world.open_how("x/y", create)), VfsError::PathNotFound);
    assert_eq!(error(world.open_how("f/y", create)), VfsError::PathNotFound);
    assert_eq!(world.remove("x/y"), Err(VfsError::PathNotFound));
    assert_eq!(world.remove("x"), Err(VfsError::NotFound));
    assert_eq!(world.spell("X/y"), Err(VfsError::PathNotFound));
    assert_eq!(world.spell("f/y"), Err(VfsError::PathNotFound));
    assert_eq!(world.spell("D/y"), Err(VfsError::NotFound));
}

pub fn nothing_is_made_without_waiting(world: &World) {
    let root = world.backend.root();
    let open = |how: OpenHow| world.backend.open(&world.cred, &*root, &path("a"), &how, Wait::Never).map(|o| o.created);
    let create = how(Access::READ, Disposition::Create, WantKind::File);
    assert_eq!(open(create), Err(VfsError::WouldBlock));
    assert_eq!(open(OpenHow { disposition: Disposition::OpenOrCreate, ..create }), Err(VfsError::WouldBlock));
    assert_eq!(world.attr("a"), Err(VfsError::NotFound));
    world.make("a", b"");
    let found = open(OpenHow { disposition: Disposition::OpenOrCreate, ..create });
    assert!(matches!(found, Ok(false) | Err(VfsError::WouldBlock)));
}

pub fn removal(world: &World) {
    world.make_dir("d");
    world.make("d/f", b"");
    assert_eq!(world.remove("d"), Err(VfsError::NotEmpty));
    world.remove("d/f").unwrap();
    world.remove("d").unwrap();
    assert_eq!(world.attr("d"), Err(VfsError::NotFound));
    assert_eq!(world.remove(""), Err(VfsError::InvalidArgument));
    world.symlink("l", "nowhere");
    world.remove("l").unwrap();
    assert_eq!(world.attr("l"), Err(VfsError::NotFound));
}

pub fn only_that_object_is_removed(world: &World) {
    let root = world.backend.root();
    let (file, dir) = (world.make("f", b"").id(), world.make_dir("d").id());
    let remove = |at, only| world.backend.remove(&world.cred, &*root, &path(at), Some(only));
    assert_eq!(remove("f", dir), Err(VfsError::Stale));
    assert_eq!(remove("d", file), Err(VfsError::Stale));
    remove("f", file).unwrap();
    remove("d", dir).unwrap();
    assert_eq!(remove("f", file), Err(VfsError::NotFound));
}

fn rename(world: &World, from: &str, to: &str, replace: Rename) -> VfsResult<()> {
    let root = world.backend.root();
    world.backend.rename(&world.cred, (&*root, &path(from)), (&*root, &path(to)), replace)
}

pub fn renames(world: &World) {
    let node = world.make("a", b"one");
    world.make_dir("d");
    rename(world, "a", "d/b", Rename::NoReplace).unwrap();
    assert_eq!(world.attr("a"), Err(VfsError::NotFound));
    assert_eq!(world.attr("d/b").unwrap().id, node.id());
    world.make("c", b"two");
    assert_eq!(rename(world, "c", "d/b", Rename::NoReplace), Err(VfsError::Exists));
    rename(world, "c", "d/b", Rename::Replace).unwrap();
    assert_eq!(read_all(&*world.open("d/b", Access::READ).unwrap()), b"two");
    rename(world, "d/b", "d/B", Rename::NoReplace).unwrap();
    assert_eq!(list(&*world.open("d", Access::READ).unwrap(), 10), [b"B"]);
    world.make_dir("e");
    rename(world, "d", "e", Rename::Replace).unwrap();
    assert!(world.attr("e/B").is_ok());
    world.symlink("l", "e/B");
    rename(world, "l", "m", Rename::NoReplace).unwrap();
    assert_eq!(world.attr("m").unwrap().kind, FileKind::Symlink);
}

pub fn renames_that_cannot_be(world: &World) {
    world.make("f", b"");
    world.make_dir("d");
    world.make_dir("full");
    world.make("full/x", b"");
    assert_eq!(rename(world, "x", "y", Rename::Replace), Err(VfsError::NotFound));
    assert_eq!(rename(world, "f", "x/y", Rename::Replace), Err(VfsError::PathNotFound));
    assert_eq!(rename(world, "f", "d", Rename::Replace), Err(VfsError::IsDirectory));
    assert_eq!(rename(world, "d", "f", Rename::Replace), Err(VfsError::NotDirectory));
    assert_eq!(rename(world, "d", "full", Rename::Replace), Err(VfsError::NotEmpty));
    for replace in [Rename::Replace, Rename::NoReplace] {
        assert_eq!(rename(world, "d", "d/inside", replace), Err(VfsError::InvalidArgument));
    }
}

pub fn a_node_knows_where_it_is(world: &World) {
    let path_of = |node: &dyn Node| world.backend.path_of(node);
    assert_eq!(path_of(&*world.backend.root()), Ok(Path::here()));
    world.make_dir("d");
    let node = world.make("d/f", b"");
    let named = world.open("d/f", Access::empty()).unwrap();
    rename(world, "d", "e", Rename::NoReplace).unwrap();
    rename(world, "e/f", "e/g", Rename::NoReplace).unwrap();
    assert_eq!(path_of(&*node), Ok(path("e/g")));
    assert_eq!(path_of(&*named), Ok(path("e/g")));
    assert_eq!(path_of(&*world.open("e", Access::empty()).unwrap()), Ok(path("e")));
    world.remove("e/g").unwrap();
    assert_eq!(path_of(&*node), Err(VfsError::Stale));
    let odd = world.make("odd (deleted)", b"");
    assert_eq!(path_of(&*odd), Ok(path("odd (deleted)")));
    world.remove("odd (deleted)").unwrap();
    assert_eq!(path_of(&*odd), Err(VfsError::Stale));
    // Gone, and something else there that is called as if it were gone.
    let gone = world.make("x", b"");
    world.remove("x").unwrap();
    world.make("x (deleted)", b"");
    assert_eq!(path_of(&*gone), Err(VfsError::Stale));
}

pub fn hard_links(world: &World) {
    let root = world.backend.root();
    let node = world.make("a", b"hello");
    let link = |node: &dyn Node, at| world.backend.link(&world.cred, node, &*root, &path(at));
    link(&*node, "b").unwrap();
    assert_eq!(world.attr("b").unwrap().id, node.id());
    assert_eq!(node.attr().unwrap().nlink, 2);
    assert_eq!(link(&*node, "b"), Err(VfsError::Exists));
    link(&*world.open("b", Access::empty()).unwrap(), "c").unwrap();
    world.remove("a").unwrap();
    assert_eq!(node.attr().unwrap().nlink, 2);
    // Two names of one object stay as they are.
    rename(world, "b", "c", Rename::Replace).unwrap();
    assert_eq!(world.attr("b").unwrap().nlink, 2);
    assert_eq!(link(&*world.make_dir("d"), "e"), Err(VfsError::IsDirectory));
}

pub fn symbolic_links(world: &World) {
    world.make_dir("d");
    world.make("d/f", b"hello");
    world.symlink("l", "d/f");
    world.symlink("dir", "d");
    world.symlink("dead", "nothing");
    assert_eq!(world.open("l", Access::READ).unwrap().id(), world.attr("d/f").unwrap().id);
    assert_eq!(world.attr("dir/f").unwrap().id, world.attr("d/f").unwrap().id);
    let itself = OpenHow { follow: false, ..how(Access::empty(), Disposition::Open, WantKind::Any) };
    let link = world.open_how("l", itself).unwrap().node;
    assert_eq!((link.kind(), link.read_link().unwrap()), (FileKind::Symlink, b"d/f".to_vec()));
    let data = OpenHow { access: Access::READ, ..itself };
    assert_eq!(error(world.open_how("l", data)), VfsError::IsSymlink);
    assert_eq!(error(world.open("dead", Access::READ)), VfsError::NotFound);
    let or_create = how(Access::READ, Disposition::OpenOrCreate, WantKind::File);
    assert_eq!(error(world.open_how("dead", or_create)), VfsError::NotFound);
    let create = how(Access::READ, Disposition::Create, WantKind::File);
    assert_eq!(error(world.open_how("dead", create)), VfsError::Exists);
    assert_eq!(world.open("l", Access::READ).unwrap().read_link(), Err(VfsError::InvalidArgument));
    let root = world.backend.root();
    let symlink = |at, target: &[u8]| world.backend.symlink(&world.cred, &*root, &path(at), target);
    assert_eq!(symlink("l", b"x"), Err(VfsError::Exists));
    assert_eq!(symlink("n", b""), Err(VfsError::InvalidArgument));
    assert_eq!(symlink("n", b"a\0b"), Err(VfsError::InvalidArgument));
}

pub fn links_do_not_lead_out(world: &World) {
    world.make_dir("d");
    for (at, target) in
        [("up", ".."), ("abs", "/"), ("etc", "/etc"), ("d/up", "../.."), ("far", "d/../../x"), ("self", "self")]
    {
        world.symlink(at, target);
        for access in [Access::empty(), Access::READ] {
            assert_eq!(error(world.open(at, access)), VfsError::Escapes, "{at}");
        }
        let beyond = format!("{at}/passwd");
        assert_eq!(world.attr(&beyond), Err(VfsError::Escapes), "{at}");
        assert_eq!(world.remove(&beyond), Err(VfsError::Escapes), "{at}");
        let create = how(Access::READ, Disposition::Create, WantKind::File);
        assert_eq!(error(world.open_how(&beyond, create)), VfsError::Escapes, "{at}");
        assert_eq!(world.spell(&beyond), Err(VfsError::Escapes), "{at}");
        assert_eq!(rename(world, "d", &beyond, Rename::NoReplace), Err(VfsError::Escapes), "{at}");
    }
}

pub fn links_within_the_root_work_from_below(world: &World) {
    world.make_dir("a");
    world.make_dir("b");
    let file = world.make("b/f", b"hello");
    world.symlink("a/l", "../b");
    world.symlink("a/out", "../../b");
    let dir = world.open("a", Access::empty()).unwrap();
    let attr_at = |at| world.backend.attr_at(&world.cred, &*dir, &path(at), Wait::Allowed);
    assert_eq!(attr_at("l/f").unwrap().id, file.id());
    assert_eq!(attr_at("out/f"), Err(VfsError::Escapes));
    let read = how(Access::READ, Disposition::Open, WantKind::Any);
    assert!(world.backend.open(&world.cred, &*dir, &path("l"), &read, Wait::Allowed).is_ok());
}

pub fn a_listing_shows_every_entry_once(world: &World) {
    let dir = world.make_dir("d");
    assert!(list(&*dir, 10).is_empty());
    let mut expected: Vec<_> = (0..1500).map(|i| format!("file number {i}").into_bytes()).collect();
    for name in &expected {
        let create = how(Access::empty(), Disposition::Create, WantKind::File);
        world.backend.open(&world.cred, &*dir, &Path::new(name).unwrap(), &create, Wait::Allowed).unwrap();
    }
    expected.sort();
    for step in [1, 7, 500, 10_000] {
        let mut names = list(&*dir, step);
        names.sort();
        assert_eq!(names, expected, "{step} at a time");
    }
}

pub fn a_listing_goes_on_while_names_change(world: &World) {
    let dir = world.make_dir("d");
    for i in 0..50 {
        world.make(&format!("d/stays{i}"), b"");
        world.make(&format!("d/goes{i}"), b"");
    }
    let (mut seen, mut cookie, mut round) = (Vec::new(), 0, 0);
    loop {
        let mut room = 5;
        let ended = dir
            .read_dir(cookie, &mut |entry| {
                if room == 0 {
                    return false;
                }
                room -= 1;
                cookie = entry.next_cookie;
                seen.push(entry.name.as_bytes().to_vec());
                true
            })
            .unwrap();
        if ended {
            break;
        }
        if round < 50 {
            world.remove(&format!("d/goes{round}")).unwrap();
            world.make(&format!("d/new{round}"), b"");
        }
        round += 1;
    }
    for i in 0..50 {
        let name = format!("stays{i}").into_bytes();
        assert_eq!(seen.iter().filter(|n| **n == name).count(), 1, "stays{i}");
    }
}

pub fn case_is_ignored_where_asked(world: &World) {
    world.make_dir("Folder");
    world.make_dir("Folder/\u{c4}rger");
    world.make("Folder/\u{c4}rger/ReadMe.TXT", b"");
    assert_eq!(world.spell("").unwrap(), "");
    assert_eq!(world.spell("Folder").unwrap(), "Folder");
    assert_eq!(world.spell("folder/\u{e4}RGER/readme.txt").unwrap(), "Folder/\u{c4}rger/ReadMe.TXT");
    assert_eq!(world.spell("Folder/\u{c4}rger/readme.txt").unwrap(), "Folder/\u{c4}rger/ReadMe.TXT");
    assert_eq!(world.spell("folder/nothing"), Err(VfsError::NotFound));
    assert_eq!(world.spell("folder/nothing/x"), Err(VfsError::PathNotFound));
    // The exact one wins, also for what is behind it.
    world.make("both", b"");
    world.make("BOTH", b"");
    assert_eq!(world.spell("both").unwrap(), "both");
    assert_eq!(world.spell("BOTH").unwrap(), "BOTH");
    assert_eq!(world.spell("Both").unwrap(), "BOTH");
    let root = world.backend.root();
    let parent = world.backend.spell_parent(&world.cred, &*root, &path("FOLDER/New"), Wait::Allowed);
    assert_eq!(parent, Ok(path("Folder/New")));
    let never = world.backend.spell(&world.cred, &*root, &path("folder"), Wait::Never);
    assert!(matches!(never, Ok(_) | Err(VfsError::WouldBlock)), "{never:?}");
}

pub fn short_names_are_found(world: &World) {
    let short = |name: &str| String::from_utf8(crate::shortname::made_for(name.as_bytes()).unwrap()).unwrap();
    world.make_dir("A long name");
    world.make("A long name/And another.text", b"");
    let (dir, file) = (short("A long name"), short("And another.text"));
    assert_eq!(world.spell(&format!("{dir}/{file}")).unwrap(), "A long name/And another.text");
    assert_eq!(world.spell(&format!("{dir}/{file}").to_lowercase()).unwrap(), "A long name/And another.text");
    assert_eq!(world.spell(&format!("{file}/{dir}")), Err(VfsError::PathNotFound));
    assert_eq!(world.spell(&format!("{dir}/{dir}")), Err(VfsError::NotFound));
    // Whatever is called so itself comes first.
    world.make(&format!("A long name/{file}"), b"");
    assert_eq!(world.spell(&format!("{dir}/{file}")).unwrap(), format!("A long name/{file}"));
    assert_eq!(world.spell(&format!("{dir}/{}", file.to_lowercase())).unwrap(), format!("A long name/{file}"));
    world.remove(&format!("A long name/{file}")).unwrap();
    let other = "A long name/Something else";
    rename(world, "A long name/And another.text", other, Rename::NoReplace).unwrap();
    assert_eq!(world.spell(&format!("{dir}/{file}")), Err(VfsError::NotFound));
    assert_eq!(world.spell(&format!("{dir}/{}", short("Something else"))).unwrap(), other);
}

pub fn spelling_follows_changes(world: &World) {
    for round in 0..20 {
        let name = format!("File{round}");
        assert_eq!(world.spell(&name.to_lowercase()), Err(VfsError::NotFound));
        world.make(&name, b"");
        assert_eq!(world.spell(&name.to_lowercase()).unwrap(), name);
        let other = format!("Other{round}");
        rename(world, &name, &other, Rename::NoReplace).unwrap();
        assert_eq!(world.spell(&name.to_lowercase()), Err(VfsError::NotFound));
        assert_eq!(world.spell(&other.to_uppercase()).unwrap(), other);
        world.remove(&other).unwrap();
        assert_eq!(world.spell(&other.to_uppercase()), Err(VfsError::NotFound));
    }
}

pub fn names_that_are_not_text(world: &World) {
    let root = world.backend.root();
    let odd = Path::new(b"odd\xff\xfe").unwrap();
    let create = how(Access::READ, Disposition::Create, WantKind::File);
    let node = world.backend.open(&world.cred, &*root, &odd, &create, Wait::Allowed).unwrap().node;
    assert_eq!(world.backend.path_of(&*node), Ok(odd.clone()));
    assert_eq!(list(&*root, 10), [b"odd\xff\xfe".to_vec()]);
    assert_eq!(world.backend.spell(&world.cred, &*root, &odd, Wait::Allowed), Ok(odd));
    let other = Path::new(b"ODD\xff\xfe").unwrap();
    assert_eq!(world.backend.spell(&world.cred, &*root, &other, Wait::Allowed), Err(VfsError::NotFound));
}

pub fn long_names(world: &World) {
    let name = "n".repeat(255);
    let node = world.make(&name, b"hello");
    assert_eq!(world.backend.path_of(&*node), Ok(path(&name)));
    assert_eq!(list(&*world.backend.root(), 10), [name.as_bytes()]);
    assert_eq!(world.spell(&name.to_uppercase()).unwrap(), name);
    assert_eq!(world.backend.fs_stat().unwrap().name_max, 255);
    world.remove(&name).unwrap();
}

pub fn entries_are_described(world: &World) {
    let dir = world.make_dir("d");
    let file = world.make("d/f", b"hello");
    world.symlink("d/l", "f");
    let name = |text: &'static [u8]| Name::new(text).unwrap();
    let attr = dir.entry_attr(name(b"f")).unwrap();
    assert_eq!((attr.id, attr.len_bytes), (file.id(), 5));
    assert_eq!(dir.entry_attr(name(b"l")).unwrap().kind, FileKind::Symlink);
    assert_eq!(dir.entry_attr(name(b"x")), Err(VfsError::NotFound));
    let mut kinds = Vec::new();
    dir.read_dir(0, &mut |entry| {
        if entry.name.as_bytes() == b"f" {
            assert_eq!(entry.ino, file.id().ino);
        }
        kinds.push(entry.kind);
        true
    })
    .unwrap();
    assert!(kinds.iter().all(|k| matches!(k, None | Some(FileKind::File | FileKind::Symlink))));
    assert_eq!(dir.attr().unwrap().kind, FileKind::Directory);
}
