//! What clients of 4.0 hold: opens and their owners, share modes, byte ranges, leases; against one another and against
//! what another protocol holds in the table of claims.

use std::time::Duration;

use coherence::{
    AccessKinds, Caching, GrantRequest, HolderKey, Identity, Instant, LockRange, OpenRequest, Outcome, ShareKinds,
};
use nfs_wire::nfs4::{
    CloseArgs, ExistLockOwner, LockArgs, LockError, LockType, Locker, LocktArgs, LockuArgs, NetAddr, NfsStat4, Op,
    OpResult, OpenArgs, OpenClaim, OpenConfirmArgs, OpenDelegation, OpenDowngradeArgs, OpenHow, OpenOk,
    OpenResultFlags, OpenToLockOwner, ReadArgs, SetclientidArgs, SetclientidOk, ShareAccess, ShareDeny, StableHow,
    StateOwner, Stateid, WriteArgs, WriteHead,
};
use nfs_wire::rpc::program;
use nfs_wire::xdr::Bounded;
use vfs::Backend;

use super::compounds::{NO_ATTRS, Results};
use super::world::{Client, World};

const READ: ShareAccess = ShareAccess::READ;
const BOTH: ShareAccess = ShareAccess::BOTH;
const NONE: ShareDeny = ShareDeny::empty();

/// A client of 4.0 with one open owner.
struct Plain {
    client: Client,
    id: u64,
    owner: &'static [u8],
    seqid: u32,
    root: Vec<u8>,
}

impl Plain {
    fn new(world: &World, name: &'static [u8]) -> Self {
        Self::come(world, name, 1)
    }

    fn come(world: &World, name: &'static [u8], verifier: u8) -> Self {
        let mut client = world.connect();
        let args = SetclientidArgs {
            verifier: [verifier; 8],
            id: Bounded(name),
            callback_program: 0x4000_0000,
            callback_address: NetAddr { netid: b"tcp", address: b"127.0.0.1.8.1" },
            callback_ident: 7,
        };
        let results = client.v4(&[Op::Setclientid(args)]);
        let OpResult::Setclientid(Ok(SetclientidOk { client_id: id, confirm })) = results.last() else { panic!() };
        let confirm = Op::SetclientidConfirm(SetclientidOk { client_id: id, confirm });
        assert_eq!(client.v4(&[confirm]).status(), NfsStat4::OK);
        let root = client.v4_root();
        Self { client, id, owner: name, seqid: 0, root }
    }

    fn owner(&self) -> StateOwner<'static> {
        StateOwner { client_id: self.id, owner: Bounded(self.owner) }
    }

    fn send_open(&mut self, name: &str, access: ShareAccess, deny: ShareDeny, how: OpenHow<'_>) -> Results {
        let claim = OpenClaim::Null(name.as_bytes());
        let args = OpenArgs { seqid: self.seqid, access, deny, owner: self.owner(), how, claim };
        let root = self.root.clone();
        self.client.v4(&[Op::Putfh(Bounded(&root)), Op::Open(args), Op::Getfh])
    }

    /// The open and the file's handle; confirmed where it must be.
    fn open(&mut self, name: &str, access: ShareAccess, deny: ShareDeny) -> Result<(Stateid, Vec<u8>), NfsStat4> {
        let results = self.send_open(name, access, deny, OpenHow::Unchecked(NO_ATTRS));
        self.seqid += 1;
        let OpenOk { mut stateid, flags, .. } = opened(&results)?;
        let handle = results.handle();
        if flags.contains(OpenResultFlags::CONFIRM) {
            let args = OpenConfirmArgs { stateid, seqid: self.seqid };
            self.seqid += 1;
            let results = self.client.v4(&[Op::Putfh(Bounded(&handle)), Op::OpenConfirm(args)]);
            let OpResult::OpenConfirm(Ok(confirmed)) = results.last() else { panic!("{:?}", results.status()) };
            stateid = confirmed;
        }
        Ok((stateid, handle))
    }

    fn close(&mut self, stateid: Stateid, file: &[u8]) -> Results {
        let args = CloseArgs { seqid: self.seqid, stateid };
        self.seqid += 1;
        self.client.v4(&[Op::Putfh(Bounded(file)), Op::Close(args)])
    }

    /// The owner's first lock through an open.
    fn lock(&mut self, open: Stateid, file: &[u8], range: (u64, u64), lock_type: LockType) -> Results {
        let new = OpenToLockOwner { open_seqid: self.seqid, open_stateid: open, lock_seqid: 0, owner: self.owner() };
        self.seqid += 1;
        let args = lock_args(range, lock_type, Locker::New(new));
        self.client.v4(&[Op::Putfh(Bounded(file)), Op::Lock(args)])
    }

    fn read(&mut self, stateid: Stateid, file: &[u8]) -> NfsStat4 {
        self.client.v4_on(file, Op::Read(ReadArgs { stateid, offset_bytes: 0, count_bytes: 10 }))
    }

    fn write(&mut self, stateid: Stateid, file: &[u8]) -> NfsStat4 {
        let head = WriteHead { stateid, offset_bytes: 0, stable: StableHow::Unstable };
        self.client.v4_on(file, Op::Write(WriteArgs { head, data: b"data" }))
    }
}

fn lock_args(range: (u64, u64), lock_type: LockType, locker: Locker<'_>) -> LockArgs<'_> {
    LockArgs { lock_type, reclaim: false, offset_bytes: range.0, len_bytes: range.1, locker }
}

fn opened<'a>(results: &'a Results) -> Result<OpenOk<'a>, NfsStat4> {
    let open = results.all().into_iter().find_map(|result| match result {
        OpResult::Open(open) => Some(open),
        _ => None,
    });
    open.expect("an OPEN")
}

fn locked(results: &Results) -> Stateid {
    match results.last() {
        OpResult::Lock(Ok(stateid)) | OpResult::Locku(Ok(stateid)) => stateid,
        other => panic!("{other:?}"),
    }
}

/// An open of another protocol.
fn foreign(
    world: &World,
    name: &str,
    access: AccessKinds,
    share: ShareKinds,
) -> Result<coherence::OpenClaim, NfsStat4> {
    let file = file_id(world, name);
    let outcome = world.table.open(Instant(0), &OpenRequest::new(file, access, share));
    match outcome.map_err(|_| NfsStat4::SHARE_DENIED)? {
        Outcome::Done(opened) => Ok(opened.claim),
        Outcome::Wait(_) => Err(NfsStat4::DELAY),
    }
}

fn file_id(world: &World, name: &str) -> vfs::FileId {
    let cred = vfs::Cred { uid: 0, gid: 0, groups: [].into() };
    let path = vfs::Path::here().join(vfs::Name::new(name.as_bytes()).unwrap());
    world.fs.attr_at(&cred, &*world.fs.root(), &path, vfs::Wait::Allowed).unwrap().id
}

#[test]
fn an_owners_requests_are_done_once() {
    let world = World::new();
    let mut plain = Plain::new(&world, b"one");
    let first = plain.send_open("file", BOTH, NONE, OpenHow::Guarded(NO_ATTRS));
    let again = plain.send_open("file", BOTH, NONE, OpenHow::Guarded(NO_ATTRS));
    assert_eq!(first.0, again.0, "a GUARDED create that was done again would say EXIST");
    let ok = opened(&first).unwrap();
    assert_eq!(ok.flags, OpenResultFlags::CONFIRM | OpenResultFlags::LOCKTYPE_POSIX);
    let (file, open) = (first.handle(), ok.stateid);
    assert_eq!(plain.read(open, &file), NfsStat4::BAD_STATEID, "not confirmed");
    plain.seqid = 1;
    let confirm = |plain: &mut Plain, seqid| {
        let args = OpenConfirmArgs { stateid: open, seqid };
        plain.client.v4(&[Op::Putfh(Bounded(&file)), Op::OpenConfirm(args)])
    };
    assert_eq!(confirm(&mut plain, 5).status(), NfsStat4::BAD_SEQID);
    let confirmed = confirm(&mut plain, 1);
    assert_eq!(confirmed.0, confirm(&mut plain, 1).0);
    let OpResult::OpenConfirm(Ok(stateid)) = confirmed.last() else { panic!() };
    assert_eq!(plain.read(open, &file), NfsStat4::OLD_STATEID);
    assert_eq!(plain.read(stateid, &file), NfsStat4::OK);
    plain.seqid = 2;
    let closed = plain.close(stateid, &file);
    plain.seqid = 2;
    assert_eq!(closed.status(), NfsStat4::OK);
    assert_eq!(plain.close(stateid, &file).0, closed.0);
    assert_eq!(plain.read(stateid, &file), NfsStat4::BAD_STATEID);
    assert_eq!(world.table.open_count(file_id(&world, "file")), 0);
}

#[test]
fn an_owner_that_was_never_confirmed_begins_anew() {
    let world = World::new();
    let mut plain = Plain::new(&world, b"one");
    let first = opened(&plain.send_open("a", BOTH, NONE, OpenHow::Unchecked(NO_ATTRS))).unwrap().stateid;
    plain.seqid = 77;
    let (second, file) = plain.open("b", BOTH, NONE).unwrap();
    assert_eq!(plain.read(second, &file), NfsStat4::OK);
    assert_eq!(plain.read(first, &file), NfsStat4::BAD_STATEID);
    assert_eq!(world.table.open_count(file_id(&world, "a")), 0, "what it had open is closed");
}

#[test]
fn share_modes_hold_between_clients_and_between_protocols() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    let (open, file) = one.open("file", BOTH, ShareDeny::WRITE).unwrap();
    assert_eq!(two.open("file", BOTH, NONE).err(), Some(NfsStat4::SHARE_DENIED));
    let (reader, _) = two.open("file", READ, NONE).unwrap();
    assert_eq!(two.write(reader, &file), NfsStat4::OPENMODE);
    assert_eq!(two.write(Stateid::ANONYMOUS, &file), NfsStat4::LOCKED);
    assert_eq!(foreign(&world, "file", AccessKinds::WRITE, ShareKinds::all()).err(), Some(NfsStat4::SHARE_DENIED));
    assert_eq!(foreign(&world, "file", AccessKinds::READ, ShareKinds::READ).err(), Some(NfsStat4::SHARE_DENIED));
    assert_eq!(one.close(open, &file).status(), NfsStat4::OK);
    let deny = foreign(&world, "file", AccessKinds::READ, ShareKinds::READ | ShareKinds::DELETE).unwrap();
    assert_eq!(two.open("file", BOTH, NONE).err(), Some(NfsStat4::SHARE_DENIED));
    drop(deny);
    assert!(two.open("file", BOTH, NONE).is_ok());
}

#[test]
fn a_writer_may_read_what_it_must_not_lose_unless_somebody_denies_that() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    let (writer, file) = one.open("file", ShareAccess::WRITE, NONE).unwrap();
    assert_eq!(one.read(writer, &file), NfsStat4::OK);
    let (deny, _) = two.open("file", ShareAccess::WRITE, ShareDeny::READ).unwrap();
    assert_eq!(one.read(writer, &file), NfsStat4::LOCKED);
    two.close(deny, &file);
    assert_eq!(one.read(writer, &file), NfsStat4::OK);
}

#[test]
fn an_open_is_reduced_and_others_see_it() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    one.open("file", READ, NONE).unwrap();
    let (open, file) = one.open("file", BOTH, NONE).unwrap();
    assert_eq!(open.seqid, 3, "one open, three generations");
    assert_eq!(two.open("file", READ, ShareDeny::WRITE).err(), Some(NfsStat4::SHARE_DENIED));
    let args = OpenDowngradeArgs { stateid: open, seqid: one.seqid, access: READ, deny: NONE };
    let results = one.client.v4(&[Op::Putfh(Bounded(&file)), Op::OpenDowngrade(args)]);
    let OpResult::OpenDowngrade(Ok(reduced)) = results.last() else { panic!("{:?}", results.status()) };
    assert_eq!(one.write(reduced, &file), NfsStat4::OPENMODE);
    assert!(two.open("file", READ, ShareDeny::WRITE).is_ok());
}

#[test]
fn a_lock_keeps_others_out_and_says_whose_it_is() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    let (mine, file) = one.open("file", BOTH, NONE).unwrap();
    let (theirs, _) = two.open("file", BOTH, NONE).unwrap();
    let lock = locked(&one.lock(mine, &file, (10, 20), LockType::Write));
    let denied = two.lock(theirs, &file, (15, u64::MAX), LockType::Read);
    let OpResult::Lock(Err(LockError::Denied(conflict))) = denied.last() else { panic!("{:?}", denied.status()) };
    assert_eq!((conflict.offset_bytes, conflict.len_bytes, conflict.lock_type), (10, 20, LockType::Write));
    assert_eq!(conflict.owner, one.owner());
    let test = LocktArgs { lock_type: LockType::Read, offset_bytes: 0, len_bytes: 10, owner: two.owner() };
    assert_eq!(two.client.v4_on(&file, Op::Lockt(test)), NfsStat4::OK);
    assert_eq!(two.client.v4_on(&file, Op::Lockt(LocktArgs { len_bytes: 11, ..test })), NfsStat4::DENIED);
    assert_eq!(one.read(lock, &file), NfsStat4::OK, "I/O by the lock's stateid");

    let unlock = LockuArgs { lock_type: LockType::Write, seqid: 1, stateid: lock, offset_bytes: 10, len_bytes: 6 };
    let results = one.client.v4(&[Op::Putfh(Bounded(&file)), Op::Locku(unlock)]);
    let (unlocked, first) = (locked(&results), results.0);
    let again = one.client.v4(&[Op::Putfh(Bounded(&file)), Op::Locku(unlock)]);
    assert_eq!(first, again.0);
    assert_eq!(two.client.v4_on(&file, Op::Lockt(LocktArgs { len_bytes: 16, ..test })), NfsStat4::OK);
    assert_eq!(one.client.v4(&[Op::ReleaseLockowner(one.owner())]).status(), NfsStat4::LOCKS_HELD);
    let further = Locker::Existing(ExistLockOwner { lock_stateid: unlocked, lock_seqid: 2 });
    let args = lock_args((0, 5), LockType::Read, further);
    locked(&one.client.v4(&[Op::Putfh(Bounded(&file)), Op::Lock(args)]));
    assert_eq!(one.close(mine, &file).status(), NfsStat4::OK);
    assert_eq!(two.client.v4_on(&file, Op::Lockt(LocktArgs { len_bytes: u64::MAX, ..test })), NfsStat4::OK);
    assert_eq!(one.client.v4(&[Op::ReleaseLockowner(one.owner())]).status(), NfsStat4::OK);
}

#[test]
fn wrong_locks_get_the_error_for_them() {
    let world = World::new();
    let mut one = Plain::new(&world, b"one");
    let (open, file) = one.open("file", READ, NONE).unwrap();
    let root = one.root.clone();
    for (range, lock_type, status) in [
        ((0, 0), LockType::Read, NfsStat4::INVAL),
        ((5, u64::MAX - 4), LockType::Read, NfsStat4::INVAL),
        ((0, 1), LockType::Write, NfsStat4::OPENMODE),
    ] {
        let seqid = one.seqid;
        assert_eq!(one.lock(open, &file, range, lock_type).status(), status);
        one.seqid = if status == NfsStat4::INVAL { seqid } else { one.seqid };
    }
    assert_eq!(one.lock(open, &root, (0, 1), LockType::Read).status(), NfsStat4::ISDIR);
    one.seqid -= 1;
    assert_eq!(one.lock(Stateid { seqid: 9, ..open }, &file, (0, 1), LockType::Read).status(), NfsStat4::BAD_STATEID);
    one.seqid -= 1;
    assert_eq!(one.lock(open, &file, (u64::MAX, u64::MAX), LockType::Read).status(), NfsStat4::OK);
}

#[test]
fn ranges_of_another_protocol_count() {
    let world = World::new();
    let mut one = Plain::new(&world, b"one");
    let (open, file) = one.open("file", BOTH, NONE).unwrap();
    let claim = foreign(&world, "file", AccessKinds::READ | AccessKinds::WRITE, ShareKinds::all()).unwrap();
    let range = |offset, len| LockRange { offset, len, exclusive: true };
    claim.lock(&[range(0, 10)], false).unwrap();
    assert_eq!(one.write(open, &file), NfsStat4::LOCKED, "a Windows range binds everybody's I/O");
    let denied = one.lock(open, &file, (5, 1), LockType::Write);
    let OpResult::Lock(Err(LockError::Denied(conflict))) = denied.last() else { panic!("{:?}", denied.status()) };
    assert_eq!((conflict.offset_bytes, conflict.len_bytes, &*conflict.owner.owner), (0, 10, &b"smb"[..]));
    locked(&one.lock(open, &file, (100, 10), LockType::Write));
    assert!(claim.lock(&[range(105, 1)], false).is_err());
    assert!(claim.check_write(105, 1).is_err());
    one.close(open, &file);
    assert!(claim.lock(&[range(105, 1)], false).is_ok());
}

#[test]
fn a_lease_of_another_protocol_is_broken_before_an_open() {
    let world = World::new();
    let mut one = Plain::new(&world, b"one");
    let (open, file) = one.open("file", READ, NONE).unwrap();
    one.close(open, &file);
    let (id, identity) = (file_id(&world, "file"), Identity::Lease { client: [1; 16], key: [2; 16] });
    let request = OpenRequest {
        identity,
        grant: GrantRequest { want: Caching::READ | Caching::WRITE, epoch: 0 },
        ..OpenRequest::new(id, AccessKinds::READ, ShareKinds::all())
    };
    let opened = world.table.open(Instant(0), &request).unwrap().done().unwrap();
    assert_eq!(opened.caching, Caching::READ | Caching::WRITE);
    assert_eq!(one.open("file", READ, NONE).err(), Some(NfsStat4::DELAY));
    let holder = HolderKey::Lease { client: [1; 16], key: [2; 16] };
    world.table.acknowledge(Instant(0), id, &holder, Caching::READ).unwrap();
    assert!(one.open("file", READ, NONE).is_ok());
}

#[test]
fn a_file_another_protocol_wants_gone_goes_with_its_last_open() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    let (open, file) = one.open("file", READ, NONE).unwrap();
    let claim = foreign(&world, "file", AccessKinds::DELETE, ShareKinds::all()).unwrap();
    claim.set_delete_pending(true, None);
    drop(claim);
    assert_eq!(one.read(open, &file), NfsStat4::OK, "it is still open");
    assert_eq!(two.open("file", READ, NONE).err(), Some(NfsStat4::FILE_OPEN));
    assert_eq!(one.close(open, &file).status(), NfsStat4::OK);
    let root = one.root.clone();
    assert_eq!(one.client.v4_on(&root, Op::Lookup(b"file")), NfsStat4::NOENT);
}

#[test]
fn a_silent_client_keeps_what_nobody_minds_and_no_more() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    let (open, file) = one.open("file", BOTH, ShareDeny::WRITE).unwrap();
    world.clock.advance(Duration::from_secs(100));
    world.server.sweep();
    assert_eq!(one.read(open, &file), NfsStat4::OK, "nobody else wanted it");
    assert_eq!(two.open("file", BOTH, NONE).err(), Some(NfsStat4::SHARE_DENIED), "it is heard of again");
    world.clock.advance(Duration::from_secs(100));
    assert!(two.open("file", BOTH, NONE).is_ok());
    assert_eq!(one.read(open, &file), NfsStat4::EXPIRED);
    assert_eq!(one.client.v4(&[Op::Renew(one.id)]).status(), NfsStat4::EXPIRED);

    let (theirs, _) = two.open("other", BOTH, ShareDeny::BOTH).unwrap();
    world.clock.advance(Duration::from_secs(100));
    assert!(foreign(&world, "other", AccessKinds::WRITE, ShareKinds::all()).is_ok(), "another protocol minds as well");
    assert_eq!(two.read(theirs, &file), NfsStat4::EXPIRED);
}

#[test]
fn a_silent_clients_ranges_give_way() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    let (mine, file) = one.open("file", BOTH, NONE).unwrap();
    locked(&one.lock(mine, &file, (0, 10), LockType::Write));
    world.clock.advance(Duration::from_secs(100));
    let (theirs, _) = two.open("file", BOTH, NONE).unwrap();
    locked(&two.lock(theirs, &file, (0, 10), LockType::Write));
    assert_eq!(one.read(mine, &file), NfsStat4::EXPIRED);
}

#[test]
fn a_client_that_restarted_holds_nothing_any_more() {
    let world = World::new();
    let mut before = Plain::new(&world, b"one");
    let (open, file) = before.open("file", BOTH, ShareDeny::BOTH).unwrap();
    let mut after = Plain::come(&world, b"one", 2);
    assert_ne!(before.id, after.id);
    assert!(after.open("file", BOTH, NONE).is_ok());
    assert_eq!(before.read(open, &file), NfsStat4::EXPIRED);
    let stale = StateOwner { client_id: 5, owner: Bounded(b"x") };
    assert_eq!(after.client.v4(&[Op::ReleaseLockowner(stale)]).status(), NfsStat4::STALE_CLIENTID);
}

#[test]
fn a_delegation_comes_when_the_client_can_be_called_and_goes_when_it_is() {
    let world = World::new();
    let (mut one, mut two) = (Plain::new(&world, b"one"), Plain::new(&world, b"two"));
    let calls = || std::mem::take(&mut *world.dialer.0.lock().unwrap());
    let delegation = |plain: &mut Plain, name: &str| {
        let results = plain.send_open(name, READ, NONE, OpenHow::Unchecked(NO_ATTRS));
        plain.seqid += 1;
        match opened(&results).unwrap().delegation {
            OpenDelegation::Read(read) => Some((read.stateid, results.handle())),
            OpenDelegation::None => None,
            other => panic!("{other:?}"),
        }
    };
    one.open("before", READ, NONE).unwrap();
    assert_eq!(delegation(&mut one, "early"), None, "CB_NULL was not answered");
    for (to, record, done) in calls() {
        assert_eq!(to, "127.0.0.1:2049".parse().unwrap());
        let mut answer = record.get(..4).unwrap().to_vec();
        answer.extend([0, 0, 0, 1]);
        answer.extend([0; 16]);
        done(Some(answer));
    }
    let (stateid, file) = delegation(&mut one, "file").expect("a delegation");
    assert_eq!(one.read(stateid, &file), NfsStat4::OK);
    assert_eq!(two.open("file", READ, NONE).map(|_| ()), Ok(()), "readers get along");
    assert_eq!(two.open("file", BOTH, NONE).err(), Some(NfsStat4::DELAY));
    let recalls = calls();
    assert_eq!(recalls.len(), 1, "and once is enough");
    let results = one.client.v4(&[Op::Putfh(Bounded(&file)), Op::Delegreturn(stateid)]);
    assert_eq!(results.status(), NfsStat4::OK);
    assert!(two.open("file", BOTH, NONE).is_ok());
    assert_eq!(one.read(stateid, &file), NfsStat4::BAD_STATEID);
}

#[test]
fn hostile_owners_cost_little() {
    let world = World::new();
    let mut one = Plain::new(&world, b"one");
    let long = [7; 1024];
    let owner = StateOwner { client_id: one.id, owner: Bounded(&long) };
    let args = OpenArgs {
        seqid: 3,
        access: READ,
        deny: NONE,
        owner,
        how: OpenHow::Unchecked(NO_ATTRS),
        claim: OpenClaim::Null(b"f"),
    };
    let root = one.root.clone();
    assert_eq!(one.client.v4_on(&root, Op::Open(args)), NfsStat4::OK);
    let longer = [7; 1025];
    let args = OpenArgs { owner: StateOwner { client_id: one.id, owner: Bounded(&longer) }, ..args };
    assert_eq!(one.client.v4_on(&root, Op::Open(args)), NfsStat4::BADXDR);
    for access in [ShareAccess::empty(), ShareAccess::from_bits_retain(4), ShareAccess::from_bits_retain(0x101)] {
        let args = OpenArgs { seqid: 4, access, owner, ..args };
        assert_eq!(one.client.v4_on(&root, Op::Open(args)), NfsStat4::INVAL);
    }
    let answer = one.client.call(program::NFS, 4, 1, &[0xff; 64]);
    assert!(matches!(answer, super::world::Answer::Other(_)));
}

#[test]
fn nobody_waits_after_a_restart_for_a_client_that_had_given_everything_back() {
    let mut world = World::new();
    let mut gone = Plain::new(&world, b"unmounted");
    let (open, file) = gone.open("file", BOTH, NONE).unwrap();
    let new = |world: &World, verifier: u8| {
        let mut new = Plain::come(world, b"new", verifier);
        let (open, file) = new.open("other", BOTH, NONE)?;
        assert_eq!(new.close(open, &file).status(), NfsStat4::OK);
        Ok(())
    };
    world.server.sweep();
    world.start_anew();
    assert_eq!(new(&world, 1), Err(NfsStat4::GRACE), "it may still want its file");
    world.clock.advance(Duration::from_secs(91));
    assert_eq!(new(&world, 2), Ok(()));

    let mut gone = Plain::come(&world, b"unmounted", 2);
    let (open_again, file_again) = gone.open("file", BOTH, NONE).unwrap();
    assert_eq!(file_again, file);
    assert_eq!(gone.close(open_again, &file).status(), NfsStat4::OK);
    drop((open, gone));
    world.server.sweep();
    world.start_anew();
    assert_eq!(new(&world, 3), Ok(()));
}
