//! Owners, groups and whom entries of ACLs are for, by number and by name (RFC 7530 5.9, RFC 8881 5.9).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs_server::{IdKind, Names, Owners, Sec, Shown};
use nfs_wire::nfs3::{GetattrRes, Nfs3Proc};
use nfs_wire::nfs4::attr::{Ace, AceFlags, AceMask, AceType};
use nfs_wire::nfs4::{Attr, Attrs, Bitmap, CreateArgs, CreateType, Fattr, NfsStat4, Op, OpResult, ReaddirArgs};
use nfs_wire::rpc::GssService;
use nfs_wire::xdr::{Bounded, List};

use vfs::VfsError;

use super::compounds::Results;
use super::gss::{People, keytab};
use super::gss_exports::v4;
use super::world::{Client, UID, World, all};

const STRANGER: u32 = 4242;
const OWNERS: &[Attr] = &[Attr::Owner, Attr::OwnerGroup];

/// A directory service that knows `anna`, `bert` and the group `staff`, that counts what it is asked, and can be down.
#[derive(Default)]
struct Directory {
    asked: AtomicUsize,
    down: AtomicBool,
    /// What happens when it is asked next.
    when_asked: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

const USERS: [(&str, u32); 4] = [("anna", UID), ("bert", 1001), ("0815", 1002), ("eve@elsewhere", 1003)];
const GROUPS: [(&str, u32); 2] = [("staff", UID), ("readers", 1001)];

impl Directory {
    fn of(&self, kind: IdKind) -> Result<&'static [(&'static str, u32)], String> {
        self.asked.fetch_add(1, Relaxed);
        self.when_asked.lock().unwrap().take().into_iter().for_each(|happens| happens());
        if self.down.load(Relaxed) {
            return Err("down".into());
        }
        Ok(if kind == IdKind::User { &USERS } else { &GROUPS })
    }
}

impl Names for Directory {
    fn name_of(&self, kind: IdKind, id: u32) -> Result<Option<String>, String> {
        Ok(self.of(kind)?.iter().find(|(_, known)| *known == id).map(|(name, _)| (*name).into()))
    }

    fn id_of(&self, kind: IdKind, name: &str) -> Result<Option<u32>, String> {
        Ok(self.of(kind)?.iter().find(|(known, _)| *known == name).map(|(_, id)| *id))
    }
}

/// A world of the domain `test`, or of none.
fn world(shown: Shown, domain: Option<&str>) -> (World, Arc<Directory>) {
    let directory = Arc::new(Directory::default());
    let owners = Owners { domain: domain.map(Arc::from), shown };
    let kerberos = (Some(Arc::new(keytab())), Some(Arc::new(People) as _));
    let world = World::with_people(kerberos, (owners, Some(Arc::clone(&directory) as _)), |options| {
        options.sec = Sec::ALL.to_vec();
    });
    (world, directory)
}

/// What the last result says of owner and group.
fn told(results: &Results) -> (String, String) {
    let attrs = results.attrs();
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
    (text(attrs.owner), text(attrs.owner_group))
}

fn owners(client: &mut Client, file: &[u8]) -> (String, String) {
    told(&client.v4(&[Op::Putfh(Bounded(file)), Op::Getattr(Bitmap::of(OWNERS))]))
}

fn pair(owner: &str, group: &str) -> (String, String) {
    (owner.into(), group.into())
}

/// Owner and group as they are kept, which version 3 tells.
fn kept(client: &mut Client, file: &[u8]) -> (u32, u32) {
    let results = client.nfs(Nfs3Proc::Getattr, &Bounded::<64>(file));
    let attributes = all::<GetattrRes>(&results).unwrap();
    (attributes.uid, attributes.gid)
}

fn by_owner(client: &mut Client, file: &[u8], owner: &str) -> NfsStat4 {
    client.set4(file, &Attrs { owner: Some(owner.as_bytes()), ..Attrs::default() })
}

fn by_group(client: &mut Client, file: &[u8], group: &str) -> NfsStat4 {
    client.set4(file, &Attrs { owner_group: Some(group.as_bytes()), ..Attrs::default() })
}

#[test]
fn who_is_told_names_is_the_settings_to_say() {
    let (names, numbers) = (pair("anna@test", "staff@test"), pair("1000", "1000"));
    for (shown, domain, sys, krb5) in [
        (Shown::Auto, Some("test"), &numbers, &names),
        (Shown::Auto, None, &numbers, &numbers),
        (Shown::Numbers, Some("test"), &numbers, &numbers),
        (Shown::Names, Some("test"), &names, &names),
        (Shown::Names, None, &numbers, &numbers),
    ] {
        let (world, _) = world(shown, domain);
        let mut client = world.connect();
        let root = client.v4_root();
        let file = client.make(&root, "file");
        assert_eq!(owners(&mut client, &file), *sys, "{shown:?} {domain:?}");
        let ops = [Op::Putfh(Bounded(&file)), Op::Getattr(Bitmap::of(OWNERS))];
        for service in [GssService::None, GssService::Integrity, GssService::Privacy] {
            let mut anna = world.kerberos("anna", service);
            assert_eq!(told(&v4(&mut anna, &ops)), *krb5, "{shown:?} {domain:?} {service:?}");
        }
    }
}

#[test]
fn who_has_no_name_is_a_number_or_nobody() {
    let (world, _) = world(Shown::Names, Some("test"));
    let mut root = world.connect_from("127.0.0.1:701", 0);
    let directory = root.v4_root();
    let file = root.make(&directory, "file");
    for (id, owner, group) in [
        (UID, "anna@test", "staff@test"),
        (1001, "bert@test", "readers@test"),
        (STRANGER, "4242", "4242"),
        (65534, "nobody@test", "nobody@test"),
        // It would pass for somebody of another domain.
        (1003, "1003", "1003"),
    ] {
        let id = id.to_string();
        let wanted = Attrs { owner: Some(id.as_bytes()), owner_group: Some(id.as_bytes()), ..Attrs::default() };
        assert_eq!(root.set4(&file, &wanted), NfsStat4::OK, "a number is always taken");
        assert_eq!(owners(&mut root, &file), pair(owner, group));
        // What is told is taken again.
        let wanted = Attrs { owner: Some(owner.as_bytes()), owner_group: Some(group.as_bytes()), ..Attrs::default() };
        assert_eq!(root.set4(&file, &wanted), NfsStat4::OK, "{owner} {group}");
        assert_eq!(owners(&mut root, &file), pair(owner, group));
    }
    // The pseudo root is root's, who has no name here.
    assert_eq!(told(&root.v4(&[Op::Putrootfh, Op::Getattr(Bitmap::of(OWNERS))])), pair("0", "0"));
}

#[test]
fn names_of_the_domain_are_taken_and_others_refused() {
    use NfsStat4 as S;
    for shown in [Shown::Auto, Shown::Numbers, Shown::Names] {
        let (world, _) = world(shown, Some("test"));
        let mut root = world.connect_from("127.0.0.1:701", 0);
        let directory = root.v4_root();
        let file = root.make(&directory, "file");
        let mut uid_after = |owner: &str| {
            let status = by_owner(&mut root, &file, owner);
            (status, kept(&mut root, &file).0)
        };
        for (owner, uid) in [
            ("bert@test", 1001),
            ("anna@TEST", UID),
            ("17", 17),
            // A name of digits is a name, and a number where nobody is called so.
            ("0815@test", 1002),
            ("4711@test", 4711),
            ("nobody@test", 65534),
        ] {
            assert_eq!(uid_after(owner), (S::OK, uid), "{owner}");
        }
        let long = format!("{}@test", "x".repeat(256));
        for owner in [
            "carl@test",
            "bert@elsewhere",
            "bert@",
            "@test",
            "bert",
            "bert@test@test",
            "17@elsewhere",
            "be\0rt@test",
            "eve@elsewhere",
            "staff@test",
            "-1",
            "4294967295",
            "4294967295@test",
            &long,
        ] {
            assert_eq!(uid_after(owner), (S::BADOWNER, 65534), "{owner}");
        }
        assert_eq!(uid_after(""), (S::INVAL, 65534));
        let not_text = Attrs { owner: Some(b"\xff@test"), ..Attrs::default() };
        assert_eq!(root.set4(&file, &not_text), S::INVAL);
        assert_eq!(by_group(&mut root, &file, "readers@test"), S::OK);
        assert_eq!(kept(&mut root, &file).1, 1001);
        for group in ["bert@test", "readers@elsewhere", "readers"] {
            assert_eq!(by_group(&mut root, &file, group), S::BADOWNER, "{group}");
        }
    }
}

#[test]
fn a_new_object_is_given_to_whom_its_maker_names() {
    let (world, _) = world(Shown::Auto, Some("test"));
    let mut root = world.connect_from("127.0.0.1:701", 0);
    let directory = root.v4_root();
    let mut make = |name: &'static [u8], owner: &[u8]| {
        let wanted = Attrs { owner: Some(owner), ..Attrs::default() };
        let values = wanted.to_values();
        let attributes = Fattr { mask: wanted.mask(), values: &values };
        let create = Op::Create(CreateArgs { object: CreateType::Directory, name, attributes });
        let results = root.v4(&[Op::Putfh(Bounded(&directory)), create, Op::Getattr(Bitmap::of(OWNERS))]);
        (results.status() == NfsStat4::OK).then(|| told(&results).0).ok_or(results.status())
    };
    assert_eq!(make(b"named", b"bert@test"), Ok("1001".into()));
    assert_eq!(make(b"unknown", b"carl@test"), Err(NfsStat4::BADOWNER));
    assert_eq!(make(b"unknown", b"1"), Ok("1".into()), "nothing was made by the one that was refused");
}

#[test]
fn an_acl_names_people_and_groups() {
    let (world, _) = world(Shown::Names, Some("test"));
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let ace = |who, flags| Ace { ace_type: AceType::Allow, flags, mask: AceMask::READ_DATA, who };
    let (user, group) = (AceFlags::empty(), AceFlags::IDENTIFIER_GROUP);
    let aces = [ace(b"OWNER@", user), ace(b"bert@test", user), ace(b"4242", user), ace(b"readers@test", group)];
    let wanted = Attrs { acl: Some(List::new(&aces)), ..Attrs::default() };
    assert_eq!(client.set4(&file, &wanted), NfsStat4::OK);
    let results = client.v4(&[Op::Putfh(Bounded(&file)), Op::Getattr(Bitmap::of(&[Attr::Acl]))]);
    let shown: Vec<_> = results.attrs().acl.unwrap().iter().collect();
    let allowed =
        |who: &[u8], flags| shown.iter().any(|ace| (ace.ace_type, ace.who, ace.flags) == (AceType::Allow, who, flags));
    assert!(allowed(b"bert@test", user) && allowed(b"4242", user) && allowed(b"readers@test", group), "{shown:?}");
    assert!(allowed(b"OWNER@", user) && allowed(b"EVERYONE@", user), "{shown:?}");
    for (who, flags) in
        [(&b"carl@test"[..], user), (b"bert@elsewhere", user), (b"bert@test", group), (b"readers@test", user)]
    {
        let aces = [ace(b"OWNER@", user), ace(who, flags)];
        let wanted = Attrs { acl: Some(List::new(&aces)), ..Attrs::default() };
        assert_eq!(client.set4(&file, &wanted), NfsStat4::BADOWNER, "{who:?}");
    }
}

#[test]
fn names_are_looked_up_on_a_worker_and_kept() {
    let (world, directory) = world(Shown::Names, Some("test"));
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let jobs = || world.jobs.swap(0, Relaxed);
    let asked = || directory.asked.swap(0, Relaxed);
    jobs();
    let names = pair("anna@test", "staff@test");
    assert_eq!(owners(&mut client, &file), names);
    assert_eq!((jobs(), asked()), (1, 2), "a worker asks");
    assert_eq!(owners(&mut client, &file), names);
    assert_eq!((jobs(), asked()), (0, 0), "and then it is known");
    // Who needs no name needs no worker.
    assert_eq!(client.v4_on(&file, Op::Getattr(Bitmap::of(&[Attr::Size]))), NfsStat4::OK);
    assert_eq!((jobs(), asked()), (0, 0));
    world.clock.advance(Duration::from_secs(301));
    directory.down.store(true, Relaxed);
    assert_eq!(owners(&mut client, &file), names, "what was known goes on while nobody can be asked");
    assert_eq!((jobs(), asked()), (1, 2));
    assert_eq!(by_owner(&mut client, &file, "bert@test"), NfsStat4::DELAY);
    assert_eq!(by_owner(&mut client, &file, "1000"), NfsStat4::OK, "a number needs nobody to be asked");
    directory.down.store(false, Relaxed);
    assert_eq!(by_owner(&mut client, &file, "anna@test"), NfsStat4::OK);
    asked();
    let mut root = world.connect_from("127.0.0.1:701", 0);
    assert_eq!(by_owner(&mut root, &file, "bert@test"), NfsStat4::DELAY);
    assert_eq!(asked(), 0, "who did not answer is not asked again at once");
    world.clock.advance(Duration::from_secs(10));
    assert_eq!(by_owner(&mut root, &file, "bert@test"), NfsStat4::OK);
}

#[test]
fn a_listing_tells_the_names_of_entries() {
    let (world, directory) = world(Shown::Names, Some("test"));
    let mut root = world.connect_from("127.0.0.1:701", 0);
    let top = root.v4_root();
    for number in 0..20u32 {
        let file = root.make(&top, &format!("file-{number}"));
        assert_eq!(by_owner(&mut root, &file, &(UID + number % 2).to_string()), NfsStat4::OK);
    }
    let args = ReaddirArgs {
        cookie: 0,
        cookie_verifier: [0; 8],
        dir_count_bytes: 8192,
        max_count_bytes: 32768,
        request: Bitmap::of(OWNERS),
    };
    let list = |client: &mut Client| client.v4(&[Op::Putfh(Bounded(&top)), Op::Readdir(args)]);
    // Nobody waits for a directory service in the middle of a listing: it goes through the directory again afterwards.
    let fs = Arc::clone(&world.fs);
    let fails = Box::new(move || fs.fail_next(vfs::memfs::Op::ReadDir, VfsError::Io(5)));
    *directory.when_asked.lock().unwrap() = Some(fails);
    assert_eq!(list(&mut root).status(), NfsStat4::IO);
    // Two users and root's group.
    assert_eq!(directory.asked.load(Relaxed), 3);
    let results = list(&mut root);
    let OpResult::Readdir(Ok(listed)) = results.last() else { panic!("{:?}", results.status()) };
    let owner = |entry: nfs_wire::nfs4::DirEntry<'_>| entry.attributes.attrs().unwrap().owner.unwrap().to_vec();
    let shown: Vec<_> = listed.entries.into_iter().map(owner).collect();
    let count = |name: &[u8]| shown.iter().filter(|owner| *owner == name).count();
    assert_eq!((count(b"anna@test"), count(b"bert@test"), shown.len()), (10, 10, 20));
    assert_eq!(directory.asked.load(Relaxed), 3, "who is known is not asked for");
}
