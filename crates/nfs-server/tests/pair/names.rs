//! Directories: LOOKUP, CREATE in its three ways, REMOVE, RENAME, LINK, listings, and what MOUNT says.

use nfs_wire::NfsStat3;
use nfs_wire::mount::ExportList;
use nfs_wire::nfs3::{
    CreateHow, CreateRes, FileType, FsinfoRes, FsstatRes, LinkArgs, LinkRes, MkdirArgs, MknodArgs, MknodData, Nfs3Proc,
    PathconfRes, ReaddirArgs, ReaddirPlusArgs, ReaddirPlusRes, ReaddirRes, ReadlinkRes, RemoveRes, RenameArgs,
    RenameRes, Sattr, SpecData, SymlinkArgs,
};
use nfs_wire::rpc::program;
use nfs_wire::xdr::Bounded;

use super::world::{Client, World, all, at, networks};

impl Client {
    pub fn remove(&mut self, dir: &[u8], name: &str) -> Result<(), NfsStat3> {
        let results = self.nfs(Nfs3Proc::Remove, &at(dir, name));
        all::<RemoveRes>(&results).map(|_| ()).map_err(|failed| failed.status)
    }

    fn rmdir(&mut self, dir: &[u8], name: &str) -> Result<(), NfsStat3> {
        let results = self.nfs(Nfs3Proc::Rmdir, &at(dir, name));
        all::<RemoveRes>(&results).map(|_| ()).map_err(|failed| failed.status)
    }

    pub fn rename(&mut self, dir: &[u8], from: &str, to: &str) -> Result<(), NfsStat3> {
        let results = self.nfs(Nfs3Proc::Rename, &RenameArgs { from: at(dir, from), to: at(dir, to) });
        all::<RenameRes>(&results).map(|_| ()).map_err(|failed| failed.status)
    }

    fn mkdir(&mut self, dir: &[u8], name: &str) -> Result<Vec<u8>, NfsStat3> {
        let attributes = Sattr { mode: Some(0o755), ..Sattr::NONE };
        let results = self.nfs(Nfs3Proc::Mkdir, &MkdirArgs { at: at(dir, name), attributes });
        let result: CreateRes<'_> = all(&results);
        result.map(|ok| ok.handle.unwrap().to_vec()).map_err(|failed| failed.status)
    }

    /// Cookies and handles of one part of a listing.
    fn list_plus(&mut self, dir: &[u8], cookie: u64, max_count_bytes: u32) -> Vec<(u64, Vec<u8>)> {
        let (dir, cookie_verifier, dir_count_bytes) = (Bounded(dir), [0; 8], 1 << 20);
        let args = ReaddirPlusArgs { dir, cookie, cookie_verifier, dir_count_bytes, max_count_bytes };
        let results = self.nfs(Nfs3Proc::ReaddirPlus, &args);
        let ok = all::<ReaddirPlusRes<'_>>(&results).unwrap();
        ok.entries.iter().map(|plus| (plus.entry.cookie, plus.handle.unwrap().to_vec())).collect()
    }

    /// Names of a whole listing, `count_bytes` at a time.
    fn list(&mut self, dir: &[u8], count_bytes: u32) -> Result<Vec<String>, NfsStat3> {
        let (mut names, mut cookie, mut cookie_verifier) = (Vec::new(), 0, [0; 8]);
        loop {
            let args = ReaddirArgs { dir: Bounded(dir), cookie, cookie_verifier, count_bytes };
            let results = self.nfs(Nfs3Proc::Readdir, &args);
            let ok = all::<ReaddirRes<'_>>(&results).map_err(|failed| failed.status)?;
            assert!(results.len() <= count_bytes as usize + 4);
            for entry in ok.entries {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
                cookie = entry.cookie;
            }
            cookie_verifier = ok.cookie_verifier;
            if ok.eof {
                return Ok(names);
            }
        }
    }
}

#[test]
fn names_lead_to_files_and_back_up() {
    let mut client = World::new().connect();
    let root = client.root();
    let dir = client.mkdir(&root, "d").unwrap();
    let file = client.make(&dir, "f");
    assert_eq!(client.lookup(&dir, "f").as_ref(), Ok(&file));
    assert_eq!(client.lookup(&dir, "."), Ok(dir.clone()));
    assert_eq!(client.lookup(&dir, ".."), Ok(root.clone()));
    assert_eq!(client.lookup(&root, ".."), Ok(root.clone()), "nothing is above an export");
    assert_eq!(client.lookup(&root, "x"), Err(NfsStat3::NOENT));
    assert_eq!(client.lookup(&file, "x"), Err(NfsStat3::NOTDIR));
    assert_eq!(client.mount("/data/d"), Ok(dir));
    assert_eq!(client.mount("/data/x"), Err(2));
    assert_eq!(client.mount("/data/d/f"), Err(20));
    assert_eq!(client.mount("/nothing"), Err(2));
}

#[test]
fn create_in_its_three_ways() {
    let mut client = World::new().connect();
    let root = client.root();
    let wanted = Sattr { mode: Some(0o640), size_bytes: Some(0), ..Sattr::NONE };
    let file = client.create(&root, "f", CreateHow::Guarded(wanted)).unwrap();
    client.write(&file, 0, b"text").unwrap();
    assert_eq!(client.create(&root, "f", CreateHow::Guarded(wanted)), Err(NfsStat3::EXIST));
    assert_eq!(client.create(&root, "f", CreateHow::Unchecked(Sattr::NONE)).as_ref(), Ok(&file));
    assert_eq!(client.getattr(&file).unwrap().size_bytes, 4);
    assert_eq!(client.create(&root, "f", CreateHow::Unchecked(wanted)).as_ref(), Ok(&file));
    let attr = client.getattr(&file).unwrap();
    assert_eq!((attr.size_bytes, attr.mode), (0, 0o640));
    let made = client.create(&root, "e", CreateHow::Exclusive(*b"verifier")).unwrap();
    assert_eq!(client.create(&root, "e", CreateHow::Exclusive(*b"verifier")), Ok(made));
    assert_eq!(client.create(&root, "e", CreateHow::Exclusive(*b"another!")), Err(NfsStat3::EXIST));
    client.mkdir(&root, "d").unwrap();
    assert_eq!(client.create(&root, "d", CreateHow::Unchecked(wanted)), Err(NfsStat3::EXIST));
}

#[test]
fn names_are_removed_and_changed() {
    let mut client = World::new().connect();
    let root = client.root();
    let file = client.make(&root, "f");
    let dir = client.mkdir(&root, "d").unwrap();
    assert_eq!(client.remove(&root, "d"), Err(NfsStat3::ISDIR));
    assert_eq!(client.rmdir(&root, "f"), Err(NfsStat3::NOTDIR));
    let link = |client: &mut Client, name: &str| {
        let results = client.nfs(Nfs3Proc::Link, &LinkArgs { handle: Bounded(&file), link: at(&dir, name) });
        all::<LinkRes>(&results).map(|ok| ok.attributes.unwrap().nlink).map_err(|failed| failed.status)
    };
    assert_eq!(link(&mut client, "l"), Ok(2));
    assert_eq!(link(&mut client, "l"), Err(NfsStat3::EXIST));
    assert_eq!(client.rmdir(&root, "d"), Err(NfsStat3::NOTEMPTY));
    client.remove(&root, "f").unwrap();
    assert_eq!(client.getattr(&file).unwrap().nlink, 1);
    client.rename(&dir, "l", "m").unwrap();
    assert_eq!(client.lookup(&dir, "m").as_ref(), Ok(&file));
    client.make(&dir, "n");
    client.rename(&dir, "m", "n").expect("a name that is taken is replaced");
    client.remove(&dir, "n").unwrap();
    assert_eq!(client.getattr(&file), Err(NfsStat3::STALE));
    assert_eq!(client.read(&file, 0, 1), Err(NfsStat3::STALE));
    client.rmdir(&root, "d").unwrap();
    assert_eq!(client.getattr(&dir), Err(NfsStat3::STALE));
}

#[test]
fn names_that_cannot_be() {
    let mut client = World::new().connect();
    let root = client.root();
    let long = "x".repeat(256);
    for (name, status) in [
        ("", NfsStat3::ACCES),
        ("a/b", NfsStat3::INVAL),
        ("a\0b", NfsStat3::INVAL),
        (&*long, NfsStat3::NAMETOOLONG),
        (".", NfsStat3::EXIST),
        ("..", NfsStat3::EXIST),
    ] {
        assert_eq!(client.create(&root, name, CreateHow::Guarded(Sattr::NONE)), Err(status), "{name:?}");
        assert_eq!(client.mkdir(&root, name), Err(status), "{name:?}");
        assert!(client.remove(&root, name).is_err(), "{name:?}");
        assert!(client.rename(&root, name, "x").is_err(), "{name:?}");
    }
}

#[test]
fn links_and_special_files() {
    let mut client = World::new().connect();
    let root = client.root();
    let args = SymlinkArgs { at: at(&root, "l"), attributes: Sattr::NONE, target: b"../elsewhere" };
    let results = client.nfs(Nfs3Proc::Symlink, &args);
    let link = all::<CreateRes<'_>>(&results).unwrap().handle.unwrap().to_vec();
    let results = client.nfs(Nfs3Proc::Readlink, &Bounded::<64>(&link));
    assert_eq!(all::<ReadlinkRes<'_>>(&results).unwrap().target, b"../elsewhere");
    let results = client.nfs(Nfs3Proc::Readlink, &Bounded::<64>(&root));
    assert_eq!(all::<ReadlinkRes<'_>>(&results).unwrap_err().status, NfsStat3::INVAL);
    let mut mknod = |name, data| {
        let results = client.nfs(Nfs3Proc::Mknod, &MknodArgs { at: at(&root, name), data });
        let result: CreateRes<'_> = all(&results);
        result.map(|ok| ok.attributes.unwrap().file_type).map_err(|failed| failed.status)
    };
    assert_eq!(mknod("p", MknodData::Fifo(Sattr::NONE)), Ok(FileType::Fifo));
    assert_eq!(mknod("s", MknodData::Socket(Sattr::NONE)), Ok(FileType::Socket));
    let device = SpecData { major: 1, minor: 3 };
    assert_eq!(mknod("c", MknodData::Character(Sattr::NONE, device)), Err(NfsStat3::NOTSUPP));
    assert_eq!(mknod("d", MknodData::Other(FileType::Directory)), Err(NfsStat3::BADTYPE));
}

#[test]
fn what_follows_the_first_part_of_a_listing_takes_no_worker() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    (0..50).for_each(|n| drop(client.make(&root, &format!("file-{n}"))));
    let jobs = || world.jobs.load(std::sync::atomic::Ordering::Relaxed);
    let before = jobs();
    assert_eq!(client.list(&root, 1000).unwrap().len(), 52);
    assert_eq!(jobs(), before + 1);
    let whole = client.list_plus(&root, 0, 1 << 20);
    let before = jobs();
    assert_eq!(client.list_plus(&root, whole[9].0, 32 << 10), whole[10..], "the same as on a worker");
    assert_eq!(jobs(), before);
    assert_eq!(client.list_plus(&root, whole[9].0, 1 << 20), whole[10..]);
    assert_eq!(jobs(), before + 1, "a large part would keep others waiting");
}

#[test]
fn a_listing_is_whole_in_pieces_of_any_size() {
    let mut client = World::new().connect();
    let root = client.root();
    let mut expected: Vec<String> = (0..50).map(|n| format!("file-{n}")).collect();
    expected.iter().for_each(|name| drop(client.make(&root, name)));
    expected.extend([".".into(), "..".into()]);
    expected.sort();
    for count in [200, 333, 1000, 1 << 20] {
        let mut names = client.list(&root, count).unwrap();
        names.sort();
        assert_eq!(names, expected, "{count} bytes at a time");
    }
    assert_eq!(client.list(&root, 20), Err(NfsStat3::TOOSMALL));
    let bad = ReaddirArgs { dir: Bounded(&root), cookie: 2, cookie_verifier: [9; 8], count_bytes: 1000 };
    let results = client.nfs(Nfs3Proc::Readdir, &bad);
    assert_eq!(all::<ReaddirRes<'_>>(&results).unwrap_err().status, NfsStat3::BAD_COOKIE);
    let args = ReaddirPlusArgs {
        dir: Bounded(&root),
        cookie: 0,
        cookie_verifier: [0; 8],
        dir_count_bytes: 1 << 20,
        max_count_bytes: 1 << 20,
    };
    let results = client.nfs(Nfs3Proc::ReaddirPlus, &args);
    let ok = all::<ReaddirPlusRes<'_>>(&results).unwrap();
    for plus in ok.entries {
        let name = std::str::from_utf8(plus.entry.name).unwrap();
        let handle = client.lookup(&root, name).unwrap();
        assert_eq!(plus.handle.unwrap().0, handle);
        assert_eq!(plus.attributes.unwrap().fileid, plus.entry.fileid);
    }
}

#[test]
fn what_the_file_system_says() {
    let mut client = World::new().connect();
    let root = client.root();
    let handle = Bounded::<64>(&root);
    let results = client.nfs(Nfs3Proc::Fsinfo, &handle);
    let info = all::<FsinfoRes>(&results).unwrap();
    assert_eq!((info.read_max_bytes, info.write_max_bytes), (1 << 20, 1 << 20));
    let results = client.nfs(Nfs3Proc::Fsstat, &handle);
    assert!(all::<FsstatRes>(&results).unwrap().total_bytes > 0);
    let results = client.nfs(Nfs3Proc::Pathconf, &handle);
    assert_eq!(all::<PathconfRes>(&results).unwrap().max_name_bytes, 255);
}

#[test]
fn who_has_a_quota_is_told_what_it_leaves() {
    let world = World::new();
    let stat = |uid| {
        let mut client = world.connect_from("127.0.0.1:700", uid);
        let root = client.root();
        all::<FsstatRes>(&client.nfs(Nfs3Proc::Fsstat, &Bounded::<64>(&root))).unwrap()
    };
    let before = stat(1000);
    assert_eq!(before.available_bytes, before.free_bytes);
    world.fs.set_quota(1000, 1 << 20, 0);
    assert_eq!(stat(1000).available_bytes, 1 << 20);
    let mut client = world.connect_from("127.0.0.1:700", 1000);
    let root = client.root();
    let file = client.make(&root, "file");
    client.write(&file, 0, &[1; 4096]).unwrap();
    let after = stat(1000);
    assert_eq!(after.available_bytes, (1 << 20) - 4096);
    assert_eq!((after.total_bytes, after.free_bytes), (before.total_bytes, before.free_bytes - 4096));
    assert_eq!(stat(1001).available_bytes, after.free_bytes);
}

#[test]
fn exports_are_for_those_they_name() {
    let world = World::with(|options| {
        options.clients = networks("192.0.2.0/24");
        options.read_only_clients = networks("198.51.100.1");
    });
    assert_eq!(world.connect().mount("/data"), Err(13));
    assert_eq!(world.connect_from("192.0.2.1:1024", 0).mount("/data"), Err(13), "a port anybody can have");
    let mut writer = world.connect_from("192.0.2.1:1023", 0);
    let root = writer.root();
    writer.make(&root, "f");
    let mut reader = world.connect_from("198.51.100.1:7", 0);
    assert_eq!(reader.root(), root);
    let file = reader.lookup(&root, "f").unwrap();
    assert_eq!(reader.write(&file, 0, b"x"), Err(NfsStat3::ROFS));
    assert_eq!(reader.create(&root, "g", CreateHow::Guarded(Sattr::NONE)), Err(NfsStat3::ROFS));
    assert_eq!(reader.remove(&root, "f"), Err(NfsStat3::ROFS));
    let mut stranger = world.connect();
    assert_eq!(stranger.getattr(&root), Err(NfsStat3::ACCES), "a handle somebody told it is no way in");
    let shown = |client: &mut Client| {
        let results = client.results(program::MOUNT, 3, 5, &[]);
        all::<ExportList<'_>>(&results).iter().map(|e| String::from_utf8(e.path.to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&mut writer), ["/data"]);
    assert_eq!(shown(&mut stranger), [""; 0]);
}
