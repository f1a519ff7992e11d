//! Names over NFSv4: the pseudo root, LOOKUP and LOOKUPP, CREATE, REMOVE, RENAME, LINK, READDIR, SECINFO.

use nfs_wire::nfs4::{
    Attr, Attrs, Bitmap, CreateArgs, CreateType, FileType, NfsStat4, Op, OpResult, ReaddirArgs, RenameArgs,
    SecinfoStyle,
};
use nfs_wire::xdr::Bounded;
use vfs::Backend;

use super::compounds::NO_ATTRS;
use super::world::{Client, World, networks};

impl Client {
    fn mkdir4(&mut self, dir: &[u8], name: &str) -> NfsStat4 {
        let args = CreateArgs { object: CreateType::Directory, name: name.as_bytes(), attributes: NO_ATTRS };
        self.v4_on(dir, Op::Create(args))
    }

    fn rename4(&mut self, from: (&[u8], &str), to: (&[u8], &str)) -> NfsStat4 {
        let args = RenameArgs { old_name: from.1.as_bytes(), new_name: to.1.as_bytes() };
        let ops = [Op::Putfh(Bounded(from.0)), Op::Savefh, Op::Putfh(Bounded(to.0)), Op::Rename(args)];
        self.v4(&ops).status()
    }

    fn link4(&mut self, file: &[u8], dir: &[u8], name: &str) -> NfsStat4 {
        let ops = [Op::Putfh(Bounded(file)), Op::Savefh, Op::Putfh(Bounded(dir)), Op::Link(name.as_bytes())];
        self.v4(&ops).status()
    }

    fn find4(&mut self, dir: &[u8], name: &str) -> Result<Vec<u8>, NfsStat4> {
        let results = self.v4(&[Op::Putfh(Bounded(dir)), Op::Lookup(name.as_bytes()), Op::Getfh]);
        if results.status() == NfsStat4::OK { Ok(results.handle()) } else { Err(results.status()) }
    }

    /// Names of a whole listing, `max_count_bytes` at a time; between two parts `between` happens.
    fn list4(&mut self, dir: &[u8], max_count_bytes: u32, between: &mut dyn FnMut(&mut Self)) -> Vec<String> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let request = Bitmap::of(&[Attr::Fileid, Attr::Filehandle]);
            let args = ReaddirArgs { cookie, cookie_verifier: [0; 8], dir_count_bytes: 0, max_count_bytes, request };
            let results = self.v4(&[Op::Putfh(Bounded(dir)), Op::Readdir(args)]);
            let OpResult::Readdir(Ok(ok)) = results.last() else { panic!("{:?}", results.status()) };
            for entry in ok.entries {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                assert!(entry.attributes.attrs().unwrap().filehandle.is_some());
                cookie = entry.cookie;
            }
            if ok.eof {
                return names;
            }
            between(self);
        }
    }
}

#[test]
fn the_pseudo_root_joins_what_the_host_may_know_of() {
    let world = World::new();
    let mut client = world.connect();
    let results = client.v4(&[Op::Putrootfh, Op::Getattr(Bitmap::of(&[Attr::Type, Attr::Fsid])), Op::Getfh]);
    let pseudo = results.handle();
    let OpResult::Getattr(Ok(fattr)) = results.all()[1] else { panic!() };
    let fsid = fattr.attrs().unwrap().fsid.unwrap();
    assert_eq!(fattr.attrs().unwrap().file_type, Some(FileType::Directory));
    let root = client.v4_root();
    let found = client.v4(&[Op::Putfh(Bounded(&root)), Op::Getattr(Bitmap::of(&[Attr::Fsid]))]);
    assert_ne!(found.attrs().fsid.unwrap(), fsid);
    // Above the export is the pseudo root again, and above that nothing.
    let results = client.v4(&[Op::Putfh(Bounded(&root)), Op::Lookupp, Op::Getfh]);
    assert_eq!(results.handle(), pseudo);
    assert_eq!(client.v4_on(&pseudo, Op::Lookupp), NfsStat4::NOENT);
    assert_eq!(client.list4(&pseudo, 4096, &mut |_| {}), ["data"]);
    assert_eq!(client.mkdir4(&pseudo, "new"), NfsStat4::ROFS);
    assert_eq!(client.v4_on(&pseudo, Op::Remove(b"data")), NfsStat4::ROFS);

    let world = World::with(|options| options.clients = networks("192.0.2.0/24"));
    let mut client = world.connect();
    assert_eq!(client.v4(&[Op::Putrootfh, Op::Lookup(b"data")]).status(), NfsStat4::NOENT);
    assert_eq!(client.list4(&pseudo, 4096, &mut |_| {}), [""; 0]);
    assert_eq!(client.v4_on(&root, Op::Getfh), NfsStat4::ACCESS);
}

#[test]
fn wrong_names_get_the_error_for_them() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let long = "n".repeat(256);
    for (name, status) in [
        ("", NfsStat4::INVAL),
        (".", NfsStat4::BADNAME),
        ("..", NfsStat4::BADNAME),
        ("a/b", NfsStat4::BADCHAR),
        ("a\0b", NfsStat4::BADCHAR),
        (&*long, NfsStat4::NAMETOOLONG),
    ] {
        assert_eq!(client.v4_on(&root, Op::Lookup(name.as_bytes())), status, "LOOKUP {name:?}");
        assert_eq!(client.v4_on(&root, Op::Remove(name.as_bytes())), status, "REMOVE {name:?}");
        assert_eq!(client.mkdir4(&root, name), status, "CREATE {name:?}");
        assert_eq!(client.rename4((&root, "file"), (&root, name)), status, "RENAME {name:?}");
        assert_eq!(client.link4(&file, &root, name), status, "LINK {name:?}");
    }
    assert_eq!(client.v4_on(&root, Op::Lookup(b"none")), NfsStat4::NOENT);
    assert_eq!(client.v4_on(&file, Op::Lookup(b"a")), NfsStat4::NOTDIR);
    assert_eq!(client.v4_on(&file, Op::Lookupp), NfsStat4::NOTDIR);
    let link = CreateArgs { object: CreateType::Symlink(b"file"), name: b"link", attributes: NO_ATTRS };
    assert_eq!(client.v4_on(&root, Op::Create(link)), NfsStat4::OK);
    let link = client.find4(&root, "link").unwrap();
    assert_eq!(client.v4_on(&link, Op::Lookup(b"a")), NfsStat4::SYMLINK);
    let results = client.v4(&[Op::Putfh(Bounded(&link)), Op::Readlink]);
    assert_eq!(results.last(), OpResult::Readlink(Ok(b"file")));
    assert_eq!(client.v4_on(&file, Op::Readlink), NfsStat4::INVAL);
}

#[test]
fn things_are_made_renamed_linked_and_removed() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    assert_eq!(client.mkdir4(&root, "a"), NfsStat4::OK);
    assert_eq!(client.mkdir4(&root, "a"), NfsStat4::EXIST);
    let a = client.find4(&root, "a").unwrap();
    let file = client.make(&a, "file");
    assert_eq!(client.v4_on(&root, Op::Remove(b"a")), NfsStat4::NOTEMPTY);
    // A directory takes no file's place, nor a file a directory's.
    assert_eq!(client.mkdir4(&root, "b"), NfsStat4::OK);
    assert_eq!(client.rename4((&a, "file"), (&root, "b")), NfsStat4::EXIST);
    assert_eq!(client.rename4((&root, "b"), (&a, "file")), NfsStat4::EXIST);
    assert_eq!(client.rename4((&root, "b"), (&root, "a")), NfsStat4::NOTEMPTY);
    assert_eq!(client.rename4((&a, "none"), (&root, "x")), NfsStat4::NOENT);
    assert_eq!(client.rename4((&a, "file"), (&root, "moved")), NfsStat4::OK);
    assert_eq!(client.find4(&root, "moved").unwrap(), file);
    assert_eq!(client.link4(&file, &a, "second"), NfsStat4::OK);
    assert_eq!(client.link4(&file, &a, "second"), NfsStat4::EXIST);
    assert_eq!(client.link4(&a, &root, "dir"), NfsStat4::ISDIR);
    // Two names of one file: nothing happens.
    assert_eq!(client.rename4((&root, "moved"), (&a, "second")), NfsStat4::OK);
    assert_eq!(client.find4(&root, "moved").unwrap(), file);
    let results = client.v4(&[Op::Putfh(Bounded(&root)), Op::Remove(b"moved")]);
    let OpResult::Remove(Ok(info)) = results.last() else { panic!("{:?}", results.status()) };
    assert!(info.atomic && info.before != info.after);
    assert_eq!(client.v4_on(&a, Op::Remove(b"second")), NfsStat4::OK);
    assert_eq!(client.v4_on(&file, Op::Getattr(Bitmap::of(&[Attr::Size]))), NfsStat4::STALE);
    assert_eq!(client.v4_on(&root, Op::Remove(b"b")), NfsStat4::OK);
    let args = RenameArgs { old_name: b"a", new_name: b"c" };
    assert_eq!(client.v4(&[Op::Putfh(Bounded(&root)), Op::Rename(args)]).status(), NfsStat4::NOFILEHANDLE);
    assert_eq!(client.v4(&[Op::Putrootfh, Op::Restorefh]).status(), NfsStat4::RESTOREFH);
}

#[test]
fn create_makes_with_attributes_and_says_which() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let wanted = Attrs { mode: Some(0o711), ..Attrs::default() };
    let values = wanted.to_values();
    let attributes = nfs_wire::nfs4::Fattr { mask: wanted.mask(), values: &values };
    let args = CreateArgs { object: CreateType::Directory, name: b"dir", attributes };
    let ask = Op::Getattr(Bitmap::of(&[Attr::Mode, Attr::Type]));
    let results = client.v4(&[Op::Putfh(Bounded(&root)), Op::Create(args), ask]);
    let OpResult::Create(Ok(made)) = results.all()[1] else { panic!("{:?}", results.status()) };
    assert_eq!(made.attrs_set, Bitmap::of(&[Attr::Mode]));
    assert_eq!((results.attrs().mode, results.attrs().file_type), (Some(0o711), Some(FileType::Directory)));
    // 4.2 sends the mode and the umask apart, and only for what is made.
    let mut session = client.session(2);
    let umask = nfs_wire::nfs4::attr::ModeUmask { mode: 0o777, umask: 0o027 };
    let wanted = Attrs { mode_umask: Some(umask), ..Attrs::default() };
    let values = wanted.to_values();
    let attributes = nfs_wire::nfs4::Fattr { mask: wanted.mask(), values: &values };
    let args = CreateArgs { object: CreateType::Directory, name: b"masked", attributes };
    let results = client.within(&mut session, 2, &[Op::Putfh(Bounded(&root)), Op::Create(args), ask]);
    assert_eq!(results.attrs().mode, Some(0o750));
    let set = nfs_wire::nfs4::SetattrArgs { stateid: super::compounds::ANONYMOUS, attributes };
    let results = client.within(&mut session, 2, &[Op::Putfh(Bounded(&root)), Op::Setattr(set)]);
    assert_eq!(results.status(), NfsStat4::INVAL);
    for (object, name, status) in [
        (CreateType::Fifo, "fifo", NfsStat4::OK),
        (CreateType::Socket, "socket", NfsStat4::OK),
        (CreateType::Symlink(b""), "empty", NfsStat4::INVAL),
        (CreateType::Other(1), "file", NfsStat4::BADTYPE),
        (CreateType::Other(77), "what", NfsStat4::BADTYPE),
    ] {
        let args = CreateArgs { object, name: name.as_bytes(), attributes: NO_ATTRS };
        assert_eq!(client.v4_on(&root, Op::Create(args)), status, "{object:?}");
    }
}

#[test]
fn a_listing_shows_what_stays_once_whatever_goes_meanwhile() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    for n in 0..60 {
        client.make(&root, &format!("file-{n:03}"));
    }
    let mut gone = 0;
    let mut remove_one = |client: &mut Client| {
        let name = format!("file-{:03}", gone * 2);
        let root = client.v4_root();
        assert_eq!(client.v4_on(&root, Op::Remove(name.as_bytes())), NfsStat4::OK);
        gone += 1;
    };
    let mut names = client.list4(&root, 700, &mut remove_one);
    assert!(gone > 5);
    names.retain(|name| name[5..].parse::<u32>().unwrap() % 2 == 1);
    names.sort();
    let expected: Vec<_> = (0..30).map(|n| format!("file-{:03}", n * 2 + 1)).collect();
    assert_eq!(names, expected);
}

#[test]
fn listings_refuse_what_makes_no_sense() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let args = ReaddirArgs {
        cookie: 0,
        cookie_verifier: [0; 8],
        dir_count_bytes: 0,
        max_count_bytes: 4096,
        request: Bitmap::EMPTY,
    };
    let mut on = |handle: &[u8], args| client.v4_on(handle, Op::Readdir(args));
    assert_eq!(on(&file, args), NfsStat4::NOTDIR);
    assert_eq!(on(&root, ReaddirArgs { cookie: 1, ..args }), NfsStat4::BAD_COOKIE);
    assert_eq!(on(&root, ReaddirArgs { cookie: 2, ..args }), NfsStat4::BAD_COOKIE);
    assert_eq!(on(&root, ReaddirArgs { cookie: 9, cookie_verifier: [7; 8], ..args }), NfsStat4::NOT_SAME);
    assert_eq!(on(&root, ReaddirArgs { max_count_bytes: 15, ..args }), NfsStat4::TOOSMALL);
    assert_eq!(on(&root, ReaddirArgs { max_count_bytes: 20, ..args }), NfsStat4::TOOSMALL);
    let request = Bitmap::of(&[Attr::TimeModifySet]);
    assert_eq!(on(&root, ReaddirArgs { request, ..args }), NfsStat4::INVAL);
    assert_eq!(on(&root, args), NfsStat4::OK);
}

#[test]
fn secinfo_names_the_flavors_and_uses_the_handle_up() {
    let mut client = World::new().connect();
    let results = client.v4(&[Op::Putrootfh, Op::Secinfo(b"data"), Op::Getfh]);
    let OpResult::Secinfo(Ok(flavors)) = results.all()[1] else { panic!("{:?}", results.status()) };
    assert_eq!((flavors.len(), results.status()), (2, NfsStat4::OK));
    assert_eq!(client.v4(&[Op::Putrootfh, Op::Secinfo(b"none")]).status(), NfsStat4::NOENT);
    let mut session = client.session(1);
    let ops = [Op::Putrootfh, Op::SecinfoNoName(SecinfoStyle::CurrentFh), Op::Getfh];
    assert_eq!(client.within(&mut session, 1, &ops).last(), OpResult::Getfh(Err(NfsStat4::NOFILEHANDLE)));
    let above = [Op::Putrootfh, Op::SecinfoNoName(SecinfoStyle::Parent)];
    assert_eq!(client.within(&mut session, 1, &above).status(), NfsStat4::NOENT);
}

#[test]
fn forged_and_stale_handles_are_told_apart() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let mut forged = root.clone();
    forged[10] ^= 1;
    assert_eq!(client.v4_on(&forged, Op::Getfh), NfsStat4::BADHANDLE);
    assert_eq!(client.v4(&[Op::Putfh(Bounded(b""))]).status(), NfsStat4::BADHANDLE);
    let file = client.make(&root, "file");
    assert_eq!(client.v4_on(&root, Op::Remove(b"file")), NfsStat4::OK);
    assert_eq!(client.v4_on(&file, Op::Getattr(Bitmap::EMPTY)), NfsStat4::STALE);
    assert!(world.fs.fs_stat().is_ok());
}
