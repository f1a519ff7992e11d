//! Clients of 4.1: sessions that do each request once, delegations and their recall on the connections the client made,
//! and what is left of it all after a restart of the server.

use std::task::{Context, Waker};
use std::time::Duration;

use coherence::{AccessKinds, Instant, OpenRequest, Outcome, ShareKinds};
use nfs_wire::nfs4::{
    Attr, Attrs, Bitmap, CbCompound, CbOp, CbOpNum, CbSequenceOk, ChannelAttrs, CloseArgs, CompoundReply, CreateArgs,
    CreateSessionArgs, CreateSessionFlags, CreateType, DelegationType, ExchangeIdArgs, ExchangeIdFlags, Fattr,
    LockArgs, LockType, Locker, NfsStat4, Op, OpResult, OpenArgs, OpenClaim, OpenDelegation, OpenHow, OpenToLockOwner,
    ReadArgs, SequenceArgs, SequenceStatus, ShareAccess, ShareDeny, StateOwner, StateProtectArgs, Stateid,
};
use nfs_wire::rpc::{Call, put_success};
use nfs_wire::xdr::{Bounded, List, Reader, Xdr};

use super::compounds::{NO_ATTRS, ROOMY, Results};
use super::world::{Client, World};

const NONE: ShareDeny = ShareDeny::empty();

/// A client of 4.1 with one session on one connection, which is its backchannel too.
struct Modern {
    client: Client,
    id: u64,
    session: [u8; 16],
    sequence: u32,
    slots: u32,
    name: &'static [u8],
    root: Vec<u8>,
}

fn who(name: &'static [u8], verifier: u8) -> ExchangeIdArgs<'static> {
    ExchangeIdArgs {
        verifier: [verifier; 8],
        owner_id: Bounded(name),
        flags: ExchangeIdFlags::empty(),
        state_protect: StateProtectArgs::None,
        impl_id: None,
    }
}

impl Modern {
    fn new(world: &World, name: &'static [u8]) -> Self {
        let mut modern = Self::come(world, name, 1);
        assert_eq!(modern.within(&[Op::ReclaimComplete(false)]).status(), NfsStat4::OK);
        modern
    }

    /// It has a session and has not said that it reclaims nothing.
    fn come(world: &World, name: &'static [u8], verifier: u8) -> Self {
        let mut client = world.connect();
        let results = client.compound(1, &[Op::ExchangeId(who(name, verifier))]);
        let OpResult::ExchangeId(Ok(known)) = results.last() else { panic!("{:?}", results.status()) };
        let args = CreateSessionArgs {
            client_id: known.client_id,
            sequence_id: known.sequence_id,
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_channel: ChannelAttrs { max_requests: 64, ..ROOMY },
            back_channel: ROOMY,
            callback_program: 77,
            callback_security: List::new(&[]),
        };
        let results = client.compound(1, &[Op::CreateSession(args)]);
        let OpResult::CreateSession(Ok(made)) = results.last() else { panic!("{:?}", results.status()) };
        assert_eq!(client.compound(1, &[Op::CreateSession(args)]).0, results.0, "sent again");
        let (session, slots) = (made.session_id, made.fore_channel.max_requests);
        let mut modern = Self { client, id: known.client_id, session, sequence: 0, slots, name, root: Vec::new() };
        let results = modern.within(&[Op::Putrootfh, Op::Lookup(b"data"), Op::Getfh]);
        modern.root = results.handle();
        modern
    }

    fn sequence(&self) -> SequenceArgs {
        SequenceArgs {
            session_id: self.session,
            sequence_id: self.sequence,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this: true,
        }
    }

    /// A compound in the session, sent for the first time.
    fn within(&mut self, ops: &[Op<'_>]) -> Results {
        self.sequence += 1;
        self.again(ops)
    }

    fn again(&mut self, ops: &[Op<'_>]) -> Results {
        let ops: Vec<_> = [Op::Sequence(self.sequence())].iter().chain(ops).copied().collect();
        self.client.compound(1, &ops)
    }

    /// What SEQUENCE says of the client's state.
    fn news(&mut self) -> SequenceStatus {
        let results = self.within(&[]);
        let OpResult::Sequence(Ok(ok)) = results.last() else { panic!("{:?}", results.status()) };
        ok.status
    }

    fn open_by<'a>(
        &mut self,
        claim: OpenClaim<'a>,
        current: &'a [u8],
        access: ShareAccess,
        deny: ShareDeny,
    ) -> Results {
        let owner = StateOwner { client_id: 0, owner: Bounded(self.name) };
        let how = match claim {
            OpenClaim::Null(_) => OpenHow::Unchecked(NO_ATTRS),
            _ => OpenHow::NoCreate,
        };
        let args = OpenArgs { seqid: 0, access, deny, owner, how, claim };
        self.within(&[Op::Putfh(Bounded(current)), Op::Open(args), Op::Getfh])
    }

    fn open(&mut self, name: &str, access: ShareAccess, deny: ShareDeny) -> Results {
        let root = self.root.clone();
        self.open_by(OpenClaim::Null(name.as_bytes()), &root, access, deny)
    }

    fn read(&mut self, stateid: Stateid, file: &[u8]) -> NfsStat4 {
        let args = ReadArgs { stateid, offset_bytes: 0, count_bytes: 10 };
        self.within(&[Op::Putfh(Bounded(file)), Op::Read(args)]).status()
    }

    /// The stateids of the callbacks that have come to be returned; each is answered.
    fn recalls(&mut self) -> Vec<Stateid> {
        self.callbacks(&Attrs::default())
    }

    /// The same; who asks for attributes is told these.
    fn callbacks(&mut self, attrs: &Attrs<'_>) -> Vec<Stateid> {
        let mut recalled = Vec::new();
        self.client.connection.poll(&mut Context::from_waker(Waker::noop()));
        while let Some(record) = self.client.reply() {
            let mut r = Reader::new(&record);
            let call = Call::decode(&mut r).unwrap();
            assert_eq!((call.program, call.procedure), (77, 1));
            let mut compound = CbCompound::decode(&mut r).unwrap();
            assert_eq!(compound.minor_version, 1);
            let Some(Ok(CbOp::Sequence(sequence))) = compound.next_op() else { panic!("CB_SEQUENCE comes first") };
            assert_eq!(sequence.session_id, self.session);
            let op = compound.next_op().unwrap().unwrap();
            let mut answer = Vec::new();
            put_success(call.xid, &mut answer);
            let mut reply = CompoundReply::begin(b"", &mut answer);
            reply.begin_result(CbOpNum::Sequence as u32, &mut answer);
            let ok = CbSequenceOk {
                session_id: self.session,
                sequence_id: sequence.sequence_id,
                slot_id: sequence.slot_id,
                highest_slot_id: 0,
                target_highest_slot_id: 0,
            };
            Ok::<_, NfsStat4>(ok).put(&mut answer);
            match op {
                CbOp::Recall(recall) => {
                    recalled.push(recall.stateid);
                    reply.begin_result(CbOpNum::Recall as u32, &mut answer);
                    NfsStat4::OK.put(&mut answer);
                }
                CbOp::Getattr(_) => {
                    let values = attrs.to_values();
                    reply.begin_result(CbOpNum::Getattr as u32, &mut answer);
                    Ok::<_, NfsStat4>(Fattr { mask: attrs.mask(), values: &values }).put(&mut answer);
                }
                other => panic!("{other:?}"),
            }
            reply.end(NfsStat4::OK, &mut answer);
            assert!(self.client.send_fragment(&answer, true));
        }
        recalled
    }
}

fn opened(results: &Results) -> Result<(Stateid, OpenDelegation<'_>), NfsStat4> {
    let open = results.all().into_iter().find_map(|result| match result {
        OpResult::Open(open) => Some(open),
        _ => None,
    });
    open.expect("an OPEN").map(|ok| (ok.stateid, ok.delegation))
}

fn delegation(results: &Results) -> Stateid {
    match opened(results).unwrap().1 {
        OpenDelegation::Read(read) => read.stateid,
        OpenDelegation::Write(write) => write.stateid,
        other => panic!("{other:?}"),
    }
}

/// An open of another protocol, as far as it is let in.
fn foreign(world: &World, file: vfs::FileId, access: AccessKinds) -> Option<coherence::OpenClaim> {
    let now = Instant(world.clock.now().secs as u64 * 1000);
    match world.table.open(now, &OpenRequest::new(file, access, ShareKinds::all())).unwrap() {
        Outcome::Done(opened) => Some(opened.claim),
        Outcome::Wait(_) => None,
    }
}

fn file_id(world: &World, name: &str) -> vfs::FileId {
    use vfs::Backend;
    let cred = vfs::Cred { uid: 0, gid: 0, groups: [].into() };
    let path = vfs::Path::here().join(vfs::Name::new(name.as_bytes()).unwrap());
    world.fs.attr_at(&cred, &*world.fs.root(), &path, vfs::Wait::Allowed).unwrap().id
}

#[test]
fn a_request_that_is_sent_again_is_not_done_again() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    let root = modern.root.clone();
    let create = |name| Op::Create(CreateArgs { object: CreateType::Directory, name, attributes: NO_ATTRS });
    let first = modern.within(&[Op::Putfh(Bounded(&root)), create(b"a")]);
    assert_eq!(first.status(), NfsStat4::OK);
    assert_eq!(modern.again(&[Op::Putfh(Bounded(&root)), create(b"a")]).0, first.0);
    let other = modern.again(&[Op::Putfh(Bounded(&root)), create(b"b")]);
    assert_eq!(other.status(), NfsStat4::SEQ_FALSE_RETRY);
    assert_eq!(modern.within(&[Op::Putfh(Bounded(&root)), create(b"a")]).status(), NfsStat4::EXIST);
    modern.sequence += 5;
    assert_eq!(modern.again(&[]).status(), NfsStat4::SEQ_MISORDERED);
}

#[test]
fn a_session_ends_and_a_client_leaves_when_it_holds_nothing() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    let results = modern.open("file", ShareAccess::READ, ShareDeny::WRITE);
    let (stateid, _) = opened(&results).unwrap();
    let file = results.handle();
    let leave = |modern: &mut Modern| modern.client.compound(1, &[Op::DestroyClientid(modern.id)]).status();
    assert_eq!(leave(&mut modern), NfsStat4::CLIENTID_BUSY);
    let test = modern.within(&[Op::TestStateid(List::new(&[stateid, Stateid { seqid: 9, ..stateid }]))]);
    let OpResult::TestStateid(Ok(statuses)) = test.last() else { panic!() };
    assert_eq!(statuses.iter().collect::<Vec<_>>(), [NfsStat4::OK, NfsStat4::BAD_STATEID]);
    assert_eq!(modern.within(&[Op::FreeStateid(stateid)]).status(), NfsStat4::LOCKS_HELD);
    let close = CloseArgs { seqid: 0, stateid: Stateid { seqid: 0, ..stateid } };
    assert_eq!(modern.within(&[Op::Putfh(Bounded(&file)), Op::Close(close)]).status(), NfsStat4::OK);
    let destroy = Op::DestroySession(modern.session);
    assert_eq!(modern.within(&[destroy, Op::Putrootfh]).status(), NfsStat4::NOT_ONLY_OP);
    assert_eq!(modern.client.compound(1, &[destroy]).status(), NfsStat4::OK);
    assert_eq!(modern.within(&[]).status(), NfsStat4::BADSESSION);
    assert_eq!(leave(&mut modern), NfsStat4::OK);
    assert_eq!(leave(&mut modern), NfsStat4::STALE_CLIENTID);
}

#[test]
fn clients_that_come_and_do_nothing_make_room_in_the_end() {
    let world = World::new();
    let mut client = world.connect();
    let mut newcomer = |number: u32| {
        let name = number.to_be_bytes();
        let args = ExchangeIdArgs { owner_id: Bounded(&name), ..who(b"", 1) };
        client.compound(1, &[Op::ExchangeId(args)]).status()
    };
    let taken = (0..20_000).take_while(|&number| newcomer(number) == NfsStat4::OK).count();
    assert_eq!(taken, 1 << 14);
    assert_eq!(newcomer(20_001), NfsStat4::DELAY);
    world.clock.advance(Duration::from_secs(91));
    assert_eq!(newcomer(20_002), NfsStat4::OK);
}

#[test]
fn very_many_sessions_share_what_slots_there_are() {
    let world = World::new();
    let mut client = world.connect();
    let mut newcomer = |number: u32| {
        let name = number.to_be_bytes();
        let args = ExchangeIdArgs { owner_id: Bounded(&name), ..who(b"", 1) };
        let results = client.compound(1, &[Op::ExchangeId(args)]);
        let OpResult::ExchangeId(Ok(known)) = results.last() else { panic!("{number}: {:?}", results.status()) };
        let args = CreateSessionArgs {
            client_id: known.client_id,
            sequence_id: known.sequence_id,
            flags: CreateSessionFlags::empty(),
            fore_channel: ChannelAttrs { max_requests: 64, ..ROOMY },
            back_channel: ROOMY,
            callback_program: 77,
            callback_security: List::new(&[]),
        };
        let results = client.compound(1, &[Op::CreateSession(args)]);
        let OpResult::CreateSession(Ok(made)) = results.last() else { panic!("{number}: {:?}", results.status()) };
        (made.session_id, made.fore_channel.max_requests)
    };
    let all: Vec<_> = (0..12_000).map(&mut newcomer).collect();
    assert_eq!(all[0].1, 64);
    assert!(all.is_sorted_by(|earlier, later| earlier.1 >= later.1), "later ones have no more than earlier ones");
    assert!(all.iter().all(|(_, slots)| *slots >= 1));
    let granted: u32 = all.iter().map(|(_, slots)| slots).sum();
    assert!(granted <= 1 << 18, "{granted} slots");
    for (session, _) in &all {
        assert_eq!(client.compound(1, &[Op::DestroySession(*session)]).status(), NfsStat4::OK);
    }
    assert_eq!(Modern::new(&world, b"late").slots, 64, "what has ended leaves its slots to others");
}

#[test]
fn lock_owners_that_hold_nothing_are_forgotten() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    let root = modern.root.clone();
    let (close, owner) = (CloseArgs { seqid: 0, stateid: Stateid::CURRENT }, Bounded(&b"o"[..]));
    for number in 0..17_000u32 {
        let name = number.to_be_bytes();
        let open = OpenArgs {
            seqid: 0,
            access: ShareAccess::BOTH,
            deny: NONE,
            owner: StateOwner { client_id: 0, owner },
            how: OpenHow::Unchecked(NO_ATTRS),
            claim: OpenClaim::Null(b"file"),
        };
        let new = OpenToLockOwner {
            open_seqid: 0,
            open_stateid: Stateid::CURRENT,
            lock_seqid: 0,
            owner: StateOwner { client_id: 0, owner: Bounded(&name) },
        };
        let lock = LockArgs {
            lock_type: LockType::Write,
            reclaim: false,
            offset_bytes: 0,
            len_bytes: 1,
            locker: Locker::New(new),
        };
        // The lock's stateid is the current one then; the open's is saved.
        let ops =
            [Op::Putfh(Bounded(&root)), Op::Open(open), Op::Savefh, Op::Lock(lock), Op::Restorefh, Op::Close(close)];
        assert_eq!(modern.within(&ops).status(), NfsStat4::OK, "owner {number}");
    }
}

#[test]
fn the_current_stateid_is_what_the_compound_made() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    let root = modern.root.clone();
    let owner = StateOwner { client_id: 0, owner: Bounded(b"o") };
    let args = OpenArgs {
        seqid: 0,
        access: ShareAccess::BOTH,
        deny: NONE,
        owner,
        how: OpenHow::Unchecked(NO_ATTRS),
        claim: OpenClaim::Null(b"file"),
    };
    let read = ReadArgs { stateid: Stateid::CURRENT, offset_bytes: 0, count_bytes: 1 };
    let close = CloseArgs { seqid: 0, stateid: Stateid::CURRENT };
    let ops = [Op::Putfh(Bounded(&root)), Op::Open(args), Op::Read(read), Op::Close(close)];
    assert_eq!(modern.within(&ops).status(), NfsStat4::OK);
    assert_eq!(modern.within(&[Op::Putfh(Bounded(&root)), Op::Close(close)]).status(), NfsStat4::BAD_STATEID);
}

#[test]
fn a_read_delegation_is_recalled_for_a_writer_of_another_protocol() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    let results = modern.open("file", ShareAccess::READ, NONE);
    let (stateid, file) = (delegation(&results), results.handle());
    let id = file_id(&world, "file");
    assert!(foreign(&world, id, AccessKinds::READ).is_some(), "readers get along");
    assert!(modern.recalls().is_empty());
    assert!(foreign(&world, id, AccessKinds::WRITE).is_none());
    assert_eq!(modern.recalls(), [stateid]);
    assert!(foreign(&world, id, AccessKinds::WRITE).is_none(), "it was not given back yet");
    assert!(modern.recalls().is_empty(), "it is asked for once");
    world.clock.advance(Duration::from_secs(5));
    world.server.sweep();
    assert_eq!(modern.recalls(), [stateid], "and after a while again");
    let back = modern.within(&[Op::Putfh(Bounded(&file)), Op::Delegreturn(stateid)]);
    assert_eq!(back.status(), NfsStat4::OK);
    assert!(foreign(&world, id, AccessKinds::WRITE).is_some());
    let again = modern.open("file", ShareAccess::READ, NONE);
    assert_eq!(opened(&again).unwrap().1, OpenDelegation::None, "not so soon after");
}

#[test]
fn a_write_delegation_is_one_clients_own() {
    let world = World::new();
    let (mut one, mut two) = (Modern::new(&world, b"one"), Modern::new(&world, b"two"));
    let results = one.open("file", ShareAccess::BOTH, NONE);
    assert!(matches!(opened(&results).unwrap().1, OpenDelegation::Write(_)));
    let (stateid, file) = (delegation(&results), results.handle());
    assert_eq!(one.read(stateid, &file), NfsStat4::OK);
    assert!(opened(&one.open("file", ShareAccess::READ, NONE)).is_ok(), "its own opens do not mind");
    assert_eq!(two.read(stateid, &file), NfsStat4::BAD_STATEID, "another's");
    assert_eq!(opened(&two.open("file", ShareAccess::READ, NONE)).err(), Some(NfsStat4::DELAY));
    assert_eq!(one.recalls(), [stateid]);
    let claim = OpenClaim::DelegCurFh(stateid);
    assert!(opened(&one.open_by(claim, &file, ShareAccess::BOTH, NONE)).is_ok(), "while it gives it back");
    assert_eq!(one.within(&[Op::Putfh(Bounded(&file)), Op::Delegreturn(stateid)]).status(), NfsStat4::OK);
    assert!(opened(&two.open("file", ShareAccess::READ, NONE)).is_ok());
}

#[test]
fn the_holder_of_a_write_delegation_is_asked_for_its_files_size() {
    let world = World::new();
    let (mut one, mut two) = (Modern::new(&world, b"one"), Modern::new(&world, b"two"));
    let results = one.open("file", ShareAccess::BOTH, NONE);
    let file = results.handle();
    let request = Op::Getattr(Bitmap::of(&[Attr::Change, Attr::Size]));
    let own = one.within(&[Op::Putfh(Bounded(&file)), request]);
    let then = own.attrs();
    assert_eq!(then.size, Some(0));
    let ask = |two: &mut Modern| two.within(&[Op::Putfh(Bounded(&file)), request]);
    for (told, size, changed) in [
        (Attrs { change: then.change, size: Some(0), ..Attrs::default() }, 0, false),
        (Attrs { change: Some(7), size: Some(1234), ..Attrs::default() }, 1234, true),
    ] {
        // The holder lives on this thread and cannot answer while the server waits.
        assert_eq!(ask(&mut two).status(), NfsStat4::DELAY);
        assert_eq!(ask(&mut two).status(), NfsStat4::DELAY, "one question at a time");
        assert!(one.callbacks(&told).is_empty());
        let results = ask(&mut two);
        assert_eq!(results.attrs().size, Some(size));
        assert_eq!(results.attrs().change != then.change, changed);
    }
    assert_eq!(ask(&mut two).status(), NfsStat4::DELAY, "an answer is good for one");
    assert!(one.callbacks(&Attrs::default()).is_empty());
    assert_eq!(ask(&mut two).attrs().size, Some(0), "an answer that is none");
}

#[test]
fn a_delegation_that_is_not_given_back_is_taken() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    let results = modern.open("file", ShareAccess::READ, NONE);
    let (stateid, file) = (delegation(&results), results.handle());
    let id = file_id(&world, "file");
    assert!(foreign(&world, id, AccessKinds::WRITE).is_none());
    for _ in 0..10 {
        world.clock.advance(Duration::from_secs(10));
        assert!(!modern.news().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
        modern.recalls();
    }
    world.table.expire(Instant(world.clock.now().secs as u64 * 1000));
    assert!(foreign(&world, id, AccessKinds::WRITE).is_some());
    assert!(modern.news().contains(SequenceStatus::RECALLABLE_STATE_REVOKED));
    assert_eq!(modern.read(stateid, &file), NfsStat4::DELEG_REVOKED);
    assert_eq!(modern.within(&[Op::FreeStateid(stateid)]).status(), NfsStat4::OK);
    assert_eq!(modern.news(), SequenceStatus::empty());
    assert_eq!(modern.read(stateid, &file), NfsStat4::BAD_STATEID);
}

#[test]
fn a_delegation_of_a_silent_client_is_nobodys() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    delegation(&modern.open("file", ShareAccess::BOTH, NONE));
    let id = file_id(&world, "file");
    world.clock.advance(Duration::from_secs(100));
    // Asked once more, as a client whose request waits does.
    let _ = foreign(&world, id, AccessKinds::WRITE);
    assert!(foreign(&world, id, AccessKinds::WRITE).is_some());
    assert!(modern.recalls().is_empty());
    assert_eq!(modern.within(&[]).status(), NfsStat4::BADSESSION);
}

#[test]
fn a_lost_backchannel_is_told_and_no_delegation_given() {
    let world = World::new();
    let mut modern = Modern::new(&world, b"one");
    modern.client.connection.closed("cut");
    modern.client = world.connect();
    assert_eq!(modern.news(), SequenceStatus::CB_PATH_DOWN | SequenceStatus::CB_PATH_DOWN_SESSION);
    let results = modern.open("file", ShareAccess::READ, NONE);
    assert_eq!(opened(&results).unwrap().1, OpenDelegation::None);
    let bind = nfs_wire::nfs4::BindConnArgs {
        session_id: modern.session,
        direction: nfs_wire::nfs4::ChannelDirFromClient::BackOrBoth,
        use_rdma: false,
    };
    assert_eq!(modern.client.compound(1, &[Op::BindConnToSession(bind)]).status(), NfsStat4::OK);
    assert_eq!(modern.news(), SequenceStatus::empty());
    delegation(&modern.open("other", ShareAccess::READ, NONE));
}

#[test]
fn after_a_restart_only_what_was_held_is_given_until_it_is() {
    let mut world = World::new();
    let (mut one, mut two) = (Modern::new(&world, b"one"), Modern::new(&world, b"two"));
    let results = one.open("file", ShareAccess::BOTH, ShareDeny::WRITE);
    let (stateid, file) = (opened(&results).unwrap().0, results.handle());
    opened(&two.open("other", ShareAccess::READ, NONE)).unwrap();
    world.start_anew();
    one.client = world.connect();
    assert_eq!(one.read(stateid, &file), NfsStat4::BADSESSION);

    let mut one = Modern::come(&world, b"one", 1);
    let mut new = Modern::new(&world, b"new");
    assert!(one.news().contains(SequenceStatus::RESTART_RECLAIM_NEEDED));
    assert_eq!(opened(&new.open("file", ShareAccess::READ, NONE)).err(), Some(NfsStat4::GRACE));
    let claim = OpenClaim::Previous(DelegationType::None);
    assert_eq!(
        opened(&new.open_by(claim, &file, ShareAccess::READ, NONE)).err(),
        Some(NfsStat4::NO_GRACE),
        "it held nothing"
    );
    let again = one.open_by(claim, &file, ShareAccess::BOTH, ShareDeny::WRITE);
    let (stateid, _) = opened(&again).unwrap();
    assert_eq!(one.read(stateid, &file), NfsStat4::OK);
    assert_eq!(one.within(&[Op::ReclaimComplete(false)]).status(), NfsStat4::OK);
    assert_eq!(one.within(&[Op::ReclaimComplete(false)]).status(), NfsStat4::COMPLETE_ALREADY);
    assert_eq!(opened(&new.open("new", ShareAccess::READ, NONE)).err(), Some(NfsStat4::GRACE), "one is still owed");
    let mut two = Modern::come(&world, b"two", 1);
    assert_eq!(two.within(&[Op::ReclaimComplete(false)]).status(), NfsStat4::OK);
    assert!(opened(&new.open("new", ShareAccess::READ, NONE)).is_ok(), "it is over with the last of them");
    assert_eq!(opened(&new.open("file", ShareAccess::BOTH, NONE)).err(), Some(NfsStat4::SHARE_DENIED));
    assert_eq!(opened(&one.open_by(claim, &file, ShareAccess::READ, NONE)).err(), Some(NfsStat4::NO_GRACE));
}

#[test]
fn there_is_no_grace_when_nobody_held_anything() {
    let mut world = World::new();
    let mut one = Modern::new(&world, b"one");
    let results = one.open("file", ShareAccess::READ, NONE);
    let (stateid, _) = opened(&results).unwrap();
    let file = results.handle();
    if let (_, OpenDelegation::Read(read)) = opened(&results).unwrap() {
        one.within(&[Op::Putfh(Bounded(&file)), Op::Delegreturn(read.stateid)]);
    }
    assert_eq!(world.store.0.lock().unwrap().len(), 1);
    one.within(&[Op::Putfh(Bounded(&file)), Op::Close(CloseArgs { seqid: 0, stateid })]);
    world.server.sweep();
    assert_eq!(world.store.0.lock().unwrap().len(), 0);
    world.start_anew();
    let mut new = Modern::new(&world, b"new");
    assert!(opened(&new.open("file", ShareAccess::READ, NONE)).is_ok());
}

#[test]
fn grace_ends_with_a_lease_whoever_comes() {
    let mut world = World::new();
    opened(&Modern::new(&world, b"one").open("file", ShareAccess::READ, NONE)).unwrap();
    world.start_anew();
    let mut new = Modern::new(&world, b"new");
    assert_eq!(opened(&new.open("file", ShareAccess::READ, NONE)).err(), Some(NfsStat4::GRACE));
    world.clock.advance(Duration::from_secs(91));
    assert!(opened(&new.open("file", ShareAccess::READ, NONE)).is_ok());
}

#[test]
fn an_open_before_reclaim_complete_waits() {
    let world = World::new();
    let mut modern = Modern::come(&world, b"one", 1);
    assert_eq!(opened(&modern.open("file", ShareAccess::READ, NONE)).err(), Some(NfsStat4::GRACE));
    assert_eq!(modern.within(&[Op::ReclaimComplete(false)]).status(), NfsStat4::OK);
    assert!(opened(&modern.open("file", ShareAccess::READ, NONE)).is_ok());
}

#[test]
fn a_flag_of_4_2_is_known_from_then_on() {
    let mut client = World::new().connect();
    for (minor, status) in [(1, NfsStat4::INVAL), (2, NfsStat4::OK)] {
        let args = ExchangeIdArgs { flags: ExchangeIdFlags::SUPP_FENCE_OPS, ..who(b"one", 1) };
        assert_eq!(client.compound(minor, &[Op::ExchangeId(args)]).status(), status, "4.{minor}");
    }
}
