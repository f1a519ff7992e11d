//! Files over NFSv4: attributes shown, compared and set, ACLs, READ, WRITE and COMMIT, what 4.2 does with ranges, extended
//! attributes, and what others hold.

use std::sync::atomic::Ordering::Relaxed;

use coherence::{AccessKinds, Caching, GrantRequest, Identity, Instant, OpenRequest, Outcome, ShareKinds};
use nfs_wire::nfs4::attr::{Ace, AceFlags, AceMask, AceType};
use nfs_wire::nfs4::{
    Access, AllocateArgs, Attr, Attrs, Bitmap, CloneArgs, CommitArgs, CopyArgs, Fattr, ListxattrsArgs, NfsStat4, Op,
    OpResult, ReadArgs, SEEK_DATA, SEEK_HOLE, SeekArgs, Segment, SetTime, SetattrArgs, SetxattrArgs, SetxattrOption,
    StableHow, Stateid, Time, WriteArgs, WriteHead,
};
use nfs_wire::xdr::{Bounded, List};
use vfs::memfs;
use vfs::{Backend, Cred, OpenHow, Path, VfsError, Wait, WantKind};

use super::compounds::{ANONYMOUS, NO_ATTRS, ROOMY, Session};
use super::world::{Client, World};

impl Client {
    fn write4(&mut self, file: &[u8], offset_bytes: u64, data: &[u8]) -> NfsStat4 {
        let head = WriteHead { stateid: ANONYMOUS, offset_bytes, stable: StableHow::Unstable };
        self.v4_on(file, Op::Write(WriteArgs { head, data }))
    }

    fn read4(&mut self, file: &[u8], offset_bytes: u64, count_bytes: u32) -> Result<(Vec<u8>, bool), NfsStat4> {
        let args = ReadArgs { stateid: ANONYMOUS, offset_bytes, count_bytes };
        match self.v4(&[Op::Putfh(Bounded(file)), Op::Read(args)]).last() {
            OpResult::Read(Ok(ok)) => Ok((ok.data.to_vec(), ok.eof)),
            OpResult::Read(Err(status)) => Err(status),
            other => panic!("{other:?}"),
        }
    }

    pub fn set4(&mut self, file: &[u8], wanted: &Attrs<'_>) -> NfsStat4 {
        let values = wanted.to_values();
        let attributes = Fattr { mask: wanted.mask(), values: &values };
        let results = self.v4(&[Op::Putfh(Bounded(file)), Op::Setattr(SetattrArgs { stateid: ANONYMOUS, attributes })]);
        let OpResult::Setattr(result) = results.last() else { panic!("{:?}", results.status()) };
        assert_eq!(result.status == NfsStat4::OK, result.attrs_set == wanted.mask());
        result.status
    }

    /// A compound of 4.2 on a file, in a session; its last result's status.
    fn v42(&mut self, session: &mut Session, file: &[u8], op: Op<'_>) -> super::compounds::Results {
        self.within(session, 2, &[Op::Putfh(Bounded(file)), op])
    }
}

fn all_attributes() -> Bitmap {
    (0..96).fold(Bitmap::EMPTY, Bitmap::with)
}

#[test]
fn every_attribute_that_is_said_to_be_there_is() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    for handle in [&root, &file] {
        let request = Op::Getattr(Bitmap::of(&[Attr::SupportedAttrs]));
        let supported = client.v4(&[Op::Putfh(Bounded(handle)), request]).attrs().supported_attrs.unwrap();
        let readable = supported.without(Attr::TimeAccessSet as u32).without(Attr::TimeModifySet as u32);
        let results = client.v4(&[Op::Putfh(Bounded(handle)), Op::Getattr(readable)]);
        assert_eq!(results.attributes().mask, readable);
        let attrs = results.attrs();
        assert_eq!((attrs.filehandle.unwrap().to_vec(), attrs.fh_expire_type), (handle.clone(), Some(0)));
        assert!(attrs.mounted_on_fileid.is_some() && attrs.space_total.is_some() && attrs.lease_time > Some(0));
        // Attributes of later versions are not there in this one.
        assert!(!supported.has(Attr::XattrSupport) && !supported.has(Attr::SuppattrExclcreat));
    }
    assert_eq!(client.v4_on(&file, Op::Getattr(all_attributes())), NfsStat4::INVAL);
    let mut session = client.session(2);
    let request = Op::Getattr(Bitmap::of(&[Attr::XattrSupport, Attr::SuppattrExclcreat, Attr::ChangeAttrType]));
    let results = client.v42(&mut session, &file, request);
    assert_eq!(results.attrs().xattr_support, Some(true));
    assert!(!results.attrs().suppattr_exclcreat.unwrap().has(Attr::TimeModifySet));
}

#[test]
fn quotas_are_the_owners_of_the_file_and_there_where_space_is_counted() {
    let world = World::new();
    let mut client = world.connect_from("127.0.0.1:700", 1000);
    let root = client.v4_root();
    let file = client.make(&root, "file");
    client.write(&file, 0, &[1; 1000]).unwrap();
    let quotas = Bitmap::of(&[Attr::QuotaAvailHard, Attr::QuotaAvailSoft, Attr::QuotaUsed]);
    let ask = |client: &mut Client| {
        let results = client.v4(&[Op::Putfh(Bounded(&file)), Op::Getattr(quotas)]);
        let attrs = results.attrs();
        attrs.quota_avail_hard.zip(attrs.quota_avail_soft).zip(attrs.quota_used)
    };
    assert_eq!(ask(&mut client), None);
    world.fs.set_quota(1000, 5000, 3000);
    assert_eq!(ask(&mut client), Some(((4000, 2000), 1000)));
    // Whoever asks: it is about the file.
    assert_eq!(ask(&mut world.connect_from("127.0.0.1:701", 0)), Some(((4000, 2000), 1000)));
    // They are asked on a worker.
    let jobs = world.jobs.load(Relaxed);
    assert!(ask(&mut client).is_some());
    assert_eq!(world.jobs.load(Relaxed), jobs + 1);
    // What is free is the limit where there is no other.
    world.fs.set_quota(1000, 0, 0);
    world.fs.set_space(1 << 20);
    let ((hard, soft), used) = ask(&mut client).unwrap();
    assert_eq!((hard, soft, used), ((1 << 20) - 4096, (1 << 20) - 4096, 1000));
}

#[test]
fn verify_compares_what_getattr_shows() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let request = Bitmap::of(&[Attr::Type, Attr::Size, Attr::Mode, Attr::Change, Attr::Owner, Attr::Filehandle]);
    let results = client.v4(&[Op::Putfh(Bounded(&file)), Op::Getattr(request)]);
    let shown = results.attributes();
    assert_eq!(client.v4_on(&file, Op::Verify(shown)), NfsStat4::OK);
    assert_eq!(client.v4_on(&file, Op::Nverify(shown)), NfsStat4::SAME);
    assert_eq!(client.write4(&file, 0, b"more"), NfsStat4::OK);
    assert_eq!(client.v4_on(&file, Op::Verify(shown)), NfsStat4::NOT_SAME);
    assert_eq!(client.v4_on(&file, Op::Nverify(shown)), NfsStat4::OK);
    let mask = |attr| Fattr { mask: Bitmap::of(&[attr]), values: &[0; 4] };
    for (given, status) in [
        (mask(Attr::RdattrError), NfsStat4::INVAL),
        (mask(Attr::TimeModifySet), NfsStat4::INVAL),
        (mask(Attr::Hidden), NfsStat4::ATTRNOTSUPP),
        (mask(Attr::Size), NfsStat4::BADXDR),
        (Fattr { mask: Bitmap::of(&[Attr::Type]), values: &[0; 8] }, NfsStat4::BADXDR),
    ] {
        assert_eq!(client.v4_on(&file, Op::Verify(given)), status, "{given:?}");
        assert_eq!(client.v4_on(&file, Op::Nverify(given)), status, "{given:?}");
    }
}

#[test]
fn setattr_sets_and_refuses_what_cannot_be_set() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let time = |nanoseconds| SetTime::Client(Time { seconds: -5, nanoseconds });
    let none = Attrs::default();
    assert_eq!(client.set4(&file, &Attrs { mode: Some(0o600), size: Some(10), ..none }), NfsStat4::OK);
    assert_eq!(client.set4(&file, &Attrs { time_modify_set: Some(time(5)), ..none }), NfsStat4::OK);
    let ask = Op::Getattr(Bitmap::of(&[Attr::Mode, Attr::Size, Attr::TimeModify]));
    let results = client.v4(&[Op::Putfh(Bounded(&file)), ask]);
    let attrs = results.attrs();
    assert_eq!((attrs.mode, attrs.size), (Some(0o600), Some(10)));
    assert_eq!(attrs.time_modify, Some(Time { seconds: -5, nanoseconds: 5 }));
    for (wanted, status) in [
        (Attrs { time_modify_set: Some(time(1_000_000_000)), ..none }, NfsStat4::INVAL),
        (Attrs { size: Some(u64::MAX), ..none }, NfsStat4::FBIG),
        (Attrs { fileid: Some(1), ..none }, NfsStat4::INVAL),
        (Attrs { hidden: Some(true), ..none }, NfsStat4::ATTRNOTSUPP),
        (Attrs { owner: Some(b"nobody@nowhere"), ..none }, NfsStat4::BADOWNER),
        (Attrs { owner: Some(b""), ..none }, NfsStat4::INVAL),
        (Attrs { owner: Some(b"4294967295"), ..none }, NfsStat4::BADOWNER),
    ] {
        assert_eq!(client.set4(&file, &wanted), status, "{wanted:?}");
    }
    assert_eq!(client.set4(&root, &Attrs { size: Some(0), ..none }), NfsStat4::ISDIR);
    let cut = Fattr { mask: Bitmap::of(&[Attr::Mode]), values: &[] };
    let args = SetattrArgs { stateid: ANONYMOUS, attributes: cut };
    assert_eq!(client.v4_on(&file, Op::Setattr(args)), NfsStat4::BADXDR);
}

#[test]
fn an_acl_becomes_a_mode_where_it_says_no_more() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let ace = |who, mask| Ace { ace_type: AceType::Allow, flags: AceFlags::empty(), mask, who };
    let write = AceMask::WRITE_DATA | AceMask::APPEND_DATA;
    let aces: [Ace<'_>; 2] = [ace(b"OWNER@", AceMask::READ_DATA | write), ace(b"EVERYONE@", AceMask::EXECUTE)];
    let wanted = Attrs { acl: Some(List::new(&aces)), ..Attrs::default() };
    assert_eq!(client.set4(&file, &wanted), NfsStat4::OK);
    let ask = Op::Getattr(Bitmap::of(&[Attr::Mode, Attr::Acl]));
    let results = client.v4(&[Op::Putfh(Bounded(&file)), ask]);
    let attrs = results.attrs();
    assert_eq!(attrs.mode, Some(0o711));
    let shown: Vec<_> = attrs.acl.unwrap().iter().collect();
    assert_eq!(shown.iter().map(|ace| ace.who).collect::<Vec<_>>(), [&b"OWNER@"[..], b"GROUP@", b"EVERYONE@"]);
    assert!(shown[0].mask.contains(AceMask::READ_DATA | write) && !shown[1].mask.contains(AceMask::READ_DATA));
    let named = [ace(b"123", AceMask::READ_DATA)];
    let wanted = Attrs { acl: Some(List::new(&named)), ..Attrs::default() };
    assert_eq!(client.set4(&file, &wanted), NfsStat4::OK);
    let results = client.v4(&[Op::Putfh(Bounded(&file)), Op::Getattr(Bitmap::of(&[Attr::Acl]))]);
    assert!(results.attrs().acl.unwrap().iter().any(|ace| ace.who == b"123"));
    let alarm = [Ace { ace_type: AceType::Alarm, ..named[0] }];
    let wanted = Attrs { acl: Some(List::new(&alarm)), ..Attrs::default() };
    assert_eq!(client.set4(&file, &wanted), NfsStat4::ATTRNOTSUPP);
}

#[test]
fn what_is_written_is_read() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    assert_eq!(client.write4(&file, 3, b"hello"), NfsStat4::OK);
    assert_eq!(client.read4(&file, 0, 100), Ok((b"\0\0\0hello".to_vec(), true)));
    assert_eq!(client.read4(&file, 3, 2), Ok((b"he".to_vec(), false)));
    assert_eq!(client.read4(&file, 3, 5), Ok((b"hello".to_vec(), true)));
    for offset in [8, 100, 1 << 63, u64::MAX] {
        assert_eq!(client.read4(&file, offset, 5), Ok((Vec::new(), true)));
    }
    // Several in one compound, and attributes behind them.
    let args = ReadArgs { stateid: Stateid::BYPASS, offset_bytes: 3, count_bytes: 5 };
    let ask = Op::Getattr(Bitmap::of(&[Attr::Size]));
    let results = client.v4(&[Op::Putfh(Bounded(&file)), Op::Read(args), Op::Read(args), ask]);
    let OpResult::Read(Ok(second)) = results.all()[2] else { panic!("{:?}", results.status()) };
    assert_eq!((second.data, results.attrs().size), (&b"hello"[..], Some(8)));
    assert_eq!(client.write4(&file, u64::MAX, b"a"), NfsStat4::FBIG);
    assert_eq!(client.write4(&file, i64::MAX as u64, b"a"), NfsStat4::FBIG);
    assert_eq!(client.write4(&root, 0, b"a"), NfsStat4::ISDIR);
    assert_eq!(client.read4(&root, 0, 1), Err(NfsStat4::ISDIR));
    let commit = |offset_bytes, count_bytes| Op::Commit(CommitArgs { offset_bytes, count_bytes });
    let verifier = |client: &mut Client| match client.v4(&[Op::Putfh(Bounded(&file)), commit(0, 0)]).last() {
        OpResult::Commit(Ok(verifier)) => verifier,
        other => panic!("{other:?}"),
    };
    assert_eq!(verifier(&mut client), verifier(&mut client));
    assert_eq!(client.v4_on(&file, commit(u64::MAX, 9)), NfsStat4::INVAL);
    assert_eq!(client.v4_on(&root, commit(0, 0)), NfsStat4::ISDIR);
}

#[test]
fn the_verifier_is_another_one_after_a_restart() {
    let mut world = World::new();
    let verifier = |world: &World| {
        let mut client = world.connect();
        let root = client.v4_root();
        let file = client.v4(&[Op::Putfh(Bounded(&root)), Op::Lookup(b"file"), Op::Getfh]).handle();
        let args = CommitArgs { offset_bytes: 0, count_bytes: 0 };
        match client.v4(&[Op::Putfh(Bounded(&file)), Op::Commit(args)]).last() {
            OpResult::Commit(Ok(verifier)) => verifier,
            other => panic!("{other:?}"),
        }
    };
    let mut client = world.connect();
    let root = client.v4_root();
    client.make(&root, "file");
    let before = verifier(&world);
    world.restart();
    assert_ne!(verifier(&world), before);
}

#[test]
fn stable_writes_are_synced_and_a_failure_is_told() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let commit = Op::Commit(CommitArgs { offset_bytes: 0, count_bytes: 0 });
    let verifier = |client: &mut Client| match client.v4(&[Op::Putfh(Bounded(&file)), commit]).last() {
        OpResult::Commit(result) => result,
        other => panic!("{other:?}"),
    };
    let before = verifier(&mut client).unwrap();
    world.fs.fail_next(memfs::Op::Sync, VfsError::Io(5));
    assert_eq!(verifier(&mut client), Err(NfsStat4::IO));
    // What was acknowledged may be lost: it must be sent again.
    assert_ne!(verifier(&mut client).unwrap(), before);
    world.fs.fail_next(memfs::Op::Sync, VfsError::NoSpace);
    let head = WriteHead { stateid: ANONYMOUS, offset_bytes: 0, stable: StableHow::FileSync };
    assert_eq!(client.v4_on(&file, Op::Write(WriteArgs { head, data: b"a" })), NfsStat4::NOSPC);
}

#[test]
fn what_must_wait_goes_on_elsewhere_and_nothing_is_done_again() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    assert_eq!(client.write4(&file, 0, b"text"), NfsStat4::OK);
    let mut session = client.session(1);
    let read = Op::Read(ReadArgs { stateid: ANONYMOUS, offset_bytes: 0, count_bytes: 9 });
    for _ in 0..3 {
        let waited = world.counters.read_waited.load(Relaxed);
        world.fs.block_next(1);
        // A SEQUENCE that was done twice would be out of order.
        let results = client.within(&mut session, 1, &[Op::Putfh(Bounded(&file)), read, Op::Getfh]);
        assert_eq!(results.handle(), file);
        let OpResult::Read(Ok(ok)) = results.all()[2] else { panic!("{:?}", results.status()) };
        assert_eq!((ok.data, ok.eof), (&b"text"[..], true));
        assert_eq!(world.counters.read_waited.load(Relaxed), waited + 1);
    }
}

#[test]
fn read_plus_of_a_file_without_holes_is_made_in_place() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    assert_eq!(client.write4(&file, 0, b"text"), NfsStat4::OK);
    let mut session = client.session(2);
    for blocked in [0, 1] {
        let before = world.jobs.load(Relaxed);
        world.fs.block_next(blocked);
        let args = ReadArgs { stateid: ANONYMOUS, offset_bytes: 1, count_bytes: 9 };
        let results = client.v42(&mut session, &file, Op::ReadPlus(args));
        let OpResult::ReadPlus(Ok(ok)) = results.last() else { panic!("{:?}", results.status()) };
        let segments: Vec<_> = ok.segments.iter().collect();
        assert!(ok.eof && matches!(segments[..], [Segment::Data { offset_bytes: 1, data: b"ext" }]));
        assert_eq!(world.jobs.load(Relaxed), before + blocked as usize);
    }
}

#[test]
fn reads_do_not_make_a_reply_of_any_size() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    assert_eq!(client.write4(&file, 0, &[7; 1 << 20]), NfsStat4::OK);
    let read = Op::Read(ReadArgs { stateid: ANONYMOUS, offset_bytes: 0, count_bytes: 1 << 20 });
    let mut ops = vec![Op::Putfh(Bounded(&file))];
    ops.extend([read; 100]);
    let results = client.v4(&ops);
    assert_eq!(results.status(), NfsStat4::RESOURCE);
    assert!(results.0.len() < 2 << 20);
    // In a session what it has no room for is refused, not cut.
    let small = nfs_wire::nfs4::ChannelAttrs { max_response_bytes: 64 << 10, ..ROOMY };
    let mut session = client.session_of(1, small);
    let results = client.within(&mut session, 1, &[Op::Putfh(Bounded(&file)), read]);
    assert_eq!(results.last(), OpResult::Read(Err(NfsStat4::REP_TOO_BIG)));
}

#[test]
fn access_says_what_the_caller_may() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let all = Access::from_bits_retain(0x3f);
    let ask = |client: &mut Client, handle: &[u8], asked| match client
        .v4(&[Op::Putfh(Bounded(handle)), Op::Access(asked)])
        .last()
    {
        OpResult::Access(Ok(ok)) => Ok((ok.supported, ok.access)),
        OpResult::Access(Err(status)) => Err(status),
        other => panic!("{other:?}"),
    };
    let of_files = Access::READ | Access::MODIFY | Access::EXTEND | Access::EXECUTE;
    let own = Access::READ | Access::MODIFY | Access::EXTEND;
    assert_eq!(ask(&mut client, &file, all), Ok((of_files, own)));
    let mut other = world.connect_from("127.0.0.1:701", 2000);
    assert_eq!(ask(&mut other, &file, all), Ok((of_files, Access::READ)));
    assert_eq!(ask(&mut client, &file, Access::from_bits_retain(0x40)), Err(NfsStat4::INVAL));
    let mut session = client.session(2);
    let results = client.v42(&mut session, &file, Op::Access(Access::XATTR_READ | Access::XATTR_WRITE));
    let OpResult::Access(Ok(ok)) = results.last() else { panic!("{:?}", results.status()) };
    assert_eq!(ok.access, Access::XATTR_READ | Access::XATTR_WRITE);
}

/// The number of a file of the share's root.
fn id_of(world: &World, name: &str) -> vfs::FileId {
    let how = OpenHow {
        access: vfs::Access::empty(),
        disposition: vfs::Disposition::Open,
        kind: WantKind::Any,
        follow: false,
        mode: 0,
    };
    let cred = Cred { uid: 0, gid: 0, groups: [].into() };
    let path = Path::new(name.as_bytes()).unwrap();
    world.fs.open(&cred, &*world.fs.root(), &path, &how, Wait::Allowed).unwrap().attr.id
}

#[test]
fn an_open_of_another_protocol_that_denies_writing_is_in_the_way() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let request = OpenRequest::new(id_of(&world, "file"), AccessKinds::READ, ShareKinds::READ);
    let Ok(Outcome::Done(open)) = world.table.open(Instant(0), &request) else { panic!() };
    assert_eq!(client.write4(&file, 0, b"a"), NfsStat4::LOCKED);
    assert_eq!(client.set4(&file, &Attrs { size: Some(1), ..Attrs::default() }), NfsStat4::LOCKED);
    assert!(client.read4(&file, 0, 1).is_ok());
    // It does not let others delete it either.
    assert_eq!(client.v4_on(&root, Op::Remove(b"file")), NfsStat4::FILE_OPEN);
    drop(open);
    assert_eq!(client.write4(&file, 0, b"a"), NfsStat4::OK);
    assert_eq!(client.v4_on(&root, Op::Remove(b"file")), NfsStat4::OK);
}

#[test]
fn what_another_protocol_caches_is_given_up_first() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let lease = |want| OpenRequest {
        identity: Identity::Lease { client: [1; 16], key: [2; 16] },
        grant: GrantRequest { want, epoch: 0 },
        ..OpenRequest::new(id_of(&world, "file"), AccessKinds::all(), ShareKinds::all())
    };
    let Ok(Outcome::Done(open)) = world.table.open(Instant(0), &lease(Caching::READ | Caching::WRITE)) else {
        panic!()
    };
    assert_eq!(open.caching, Caching::READ | Caching::WRITE);
    assert_eq!(client.read4(&file, 0, 1), Err(NfsStat4::DELAY));
    assert_eq!(client.write4(&file, 0, b"a"), NfsStat4::DELAY);
    assert_eq!(client.set4(&file, &Attrs { size: Some(1), ..Attrs::default() }), NfsStat4::DELAY);
    drop(open);
    assert_eq!(client.write4(&file, 0, b"a"), NfsStat4::OK);
    assert_eq!(client.read4(&file, 0, 1), Ok((b"a".to_vec(), true)));
}

#[test]
fn ranges_are_found_made_and_given_back() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    assert_eq!(client.write4(&file, 0, &[1; 100]), NfsStat4::OK);
    let mut session = client.session(2);
    let range = |offset_bytes, len_bytes| AllocateArgs { stateid: ANONYMOUS, offset_bytes, len_bytes };
    let mut on = |op| client.v42(&mut session, &file, op);
    assert_eq!(on(Op::Allocate(range(0, 200))).status(), NfsStat4::OK);
    assert_eq!(on(Op::Getattr(Bitmap::of(&[Attr::Size]))).attrs().size, Some(200));
    assert_eq!(on(Op::Allocate(range(0, 0))).status(), NfsStat4::INVAL);
    assert_eq!(on(Op::Allocate(range(u64::MAX, 2))).status(), NfsStat4::INVAL);
    assert_eq!(on(Op::Allocate(range(1 << 62, 1 << 62))).status(), NfsStat4::FBIG);
    assert_eq!(on(Op::Deallocate(range(10, 20))).status(), NfsStat4::OK);
    assert_eq!(on(Op::Deallocate(range(150, 1000))).status(), NfsStat4::OK);
    assert_eq!(on(Op::Getattr(Bitmap::of(&[Attr::Size]))).attrs().size, Some(200));
    let seek = |offset_bytes, what| Op::Seek(SeekArgs { stateid: ANONYMOUS, offset_bytes, what });
    assert_eq!(on(seek(200, SEEK_DATA)).status(), NfsStat4::NXIO);
    assert_eq!(on(seek(0, 7)).status(), NfsStat4::UNION_NOTSUPP);
    let results = on(seek(0, SEEK_HOLE));
    let OpResult::Seek(Ok(_)) = results.last() else { panic!("{:?}", results.status()) };
    let args = ReadArgs { stateid: ANONYMOUS, offset_bytes: 0, count_bytes: 500 };
    let results = on(Op::ReadPlus(args));
    let OpResult::ReadPlus(Ok(ok)) = results.last() else { panic!("{:?}", results.status()) };
    let mut whole = Vec::new();
    for segment in ok.segments.iter() {
        match segment {
            Segment::Data { offset_bytes, data } => {
                assert_eq!(offset_bytes, whole.len() as u64);
                whole.extend_from_slice(data);
            }
            Segment::Hole { offset_bytes, len_bytes } => {
                assert_eq!(offset_bytes, whole.len() as u64);
                whole.resize(whole.len() + len_bytes as usize, 0);
            }
        }
    }
    let mut expected = [[1; 100], [0; 100]].concat();
    expected[10..30].fill(0);
    assert!(ok.eof && whole == expected);
}

#[test]
fn a_copy_is_made_on_the_server() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let (from, to) = (client.make(&root, "from"), client.make(&root, "to"));
    assert_eq!(client.write4(&from, 0, b"0123456789"), NfsStat4::OK);
    let mut session = client.session(2);
    let copy = |src_offset_bytes, count_bytes| CopyArgs {
        src_stateid: ANONYMOUS,
        dst_stateid: ANONYMOUS,
        src_offset_bytes,
        dst_offset_bytes: 1,
        count_bytes,
        consecutive: false,
        synchronous: false,
        source_servers: List::new(&[]),
    };
    let mut between = |source: &[u8], op| {
        let ops = [Op::Putfh(Bounded(source)), Op::Savefh, Op::Putfh(Bounded(&to)), op];
        let results = client.within(&mut session, 2, &ops);
        let count = match results.last() {
            OpResult::Copy(Ok(ok)) => ok.response.count_bytes,
            _ => 0,
        };
        (results.status(), count)
    };
    assert_eq!(between(&from, Op::Copy(copy(2, 5))), (NfsStat4::OK, 5));
    assert_eq!(between(&from, Op::Copy(copy(4, 0))), (NfsStat4::OK, 6));
    assert_eq!(between(&from, Op::Copy(copy(11, 1))).0, NfsStat4::INVAL);
    assert_eq!(between(&root, Op::Copy(copy(0, 1))).0, NfsStat4::ISDIR);
    let clone = CloneArgs {
        src_stateid: ANONYMOUS,
        dst_stateid: ANONYMOUS,
        src_offset_bytes: 0,
        dst_offset_bytes: 0,
        count_bytes: 0,
    };
    let (status, _) = between(&from, Op::Clone(clone));
    assert!([NfsStat4::OK, NfsStat4::NOTSUPP].contains(&status), "{status}");
    if status == NfsStat4::NOTSUPP {
        assert_eq!(client.read4(&to, 0, 100), Ok((b"\x00456789".to_vec(), true)));
    }
}

#[test]
fn extended_attributes_are_kept_and_the_servers_own_are_not_shown() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let mut session = client.session(2);
    let mut on = |op| client.v42(&mut session, &file, op);
    let set = |option, name: &'static [u8], value| Op::Setxattr(SetxattrArgs { option, name, value });
    assert_eq!(on(set(SetxattrOption::Replace, b"a", b"1")).status(), NfsStat4::NOXATTR);
    assert_eq!(on(set(SetxattrOption::Create, b"a", b"1")).status(), NfsStat4::OK);
    assert_eq!(on(set(SetxattrOption::Create, b"a", b"1")).status(), NfsStat4::EXIST);
    assert_eq!(on(set(SetxattrOption::Either, b"b", b"two")).status(), NfsStat4::OK);
    assert_eq!(on(Op::Getxattr(b"b")).last(), OpResult::Getxattr(Ok(b"two")));
    assert_eq!(on(Op::Getxattr(b"none")).status(), NfsStat4::NOXATTR);
    let own: [&[u8]; 4] = [b"DOSATTRIB", b"DosStream.x:$DATA", b"DosStreamExt.1.x:$DATA", b"longshore.NTACL"];
    for own in own {
        assert_eq!(on(set(SetxattrOption::Either, own, b"x")).status(), NfsStat4::ACCESS);
        assert_eq!(on(Op::Getxattr(own)).status(), NfsStat4::ACCESS);
    }
    assert_eq!(on(set(SetxattrOption::Either, b"", b"x")).status(), NfsStat4::INVAL);
    let names = |results: &super::compounds::Results| match results.last() {
        OpResult::Listxattrs(Ok(ok)) => (ok.names.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), ok.cookie, ok.eof),
        other => panic!("{other:?}"),
    };
    let list = |cookie, max_count_bytes| Op::Listxattrs(ListxattrsArgs { cookie, max_count_bytes });
    assert_eq!(names(&on(list(0, 4096))), (vec![b"a".to_vec(), b"b".to_vec()], 2, true));
    let (first, cookie, eof) = names(&on(list(0, 24)));
    assert_eq!((first, eof), (vec![b"a".to_vec()], false));
    assert_eq!(names(&on(list(cookie, 4096))), (vec![b"b".to_vec()], 2, true));
    assert_eq!(on(list(9, 4096)).status(), NfsStat4::BAD_COOKIE);
    // A name that looks like one with its namespace is a name like others.
    assert_eq!(on(set(SetxattrOption::Create, b"user.c", b"3")).status(), NfsStat4::OK);
    assert_eq!(names(&on(list(2, 4096))).0, [b"user.c".to_vec()]);
    assert_eq!(on(Op::Removexattr(b"a")).status(), NfsStat4::OK);
    assert_eq!(on(Op::Removexattr(b"a")).status(), NfsStat4::NOXATTR);
}

#[test]
fn what_is_read_only_stays_as_it_is() {
    let world = World::with(|options| options.read_only = true);
    let mut client = world.connect();
    let root = client.v4_root();
    assert_eq!(client.set4(&root, &Attrs { mode: Some(0o700), ..Attrs::default() }), NfsStat4::ROFS);
    assert_eq!(client.v4_on(&root, Op::Remove(b"none")), NfsStat4::ROFS);
    let object = nfs_wire::nfs4::CreateType::Directory;
    let args = nfs_wire::nfs4::CreateArgs { object, name: b"dir", attributes: NO_ATTRS };
    assert_eq!(client.v4_on(&root, Op::Create(args)), NfsStat4::ROFS);
}
