//! What clients of the lock manager see: ranges and who is in the way, waiting and being called back, hosts that restart,
//! the server's own restart, shares.

use coherence::{AccessKinds, Caching, GrantRequest, HolderKey, Identity, Instant, OpenRequest, ShareKinds};
use nfs_wire::nlm::{
    CancelArgs, Lock, LockArgs, NlmProc, NlmStat, Notify, Range, Res, Share, ShareAccess, ShareArgs, ShareMode,
    ShareRes, TestArgs, TestReply, TestRes, UnlockArgs, Version, Versioned,
};
use nfs_wire::nsm::StateChange;
use nfs_wire::rpc::{Call, program, put_success};
use nfs_wire::xdr::{Bounded, Reader, to_vec};
use vfs::Backend;

use crate::world::{Answer, Client, World, all};

/// The client's own port mapper says its lock manager is here.
const CALLBACK_PORT: u32 = 4045;

fn lock<'a>(handle: &'a [u8], svid: i32, offset: u64, len: u64) -> Lock<'a> {
    let range = Range { offset_bytes: offset, len_bytes: len };
    Lock { caller_name: Bounded(b"client"), handle: Bounded(handle), owner: Bounded(b"owner"), svid, range }
}

fn bytes<'a>(version: Version, item: &impl Versioned<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    item.put_as(version, &mut out);
    out
}

struct Ask {
    block: bool,
    exclusive: bool,
    reclaim: bool,
    state: i32,
}

const READ: Ask = Ask { block: false, exclusive: false, reclaim: false, state: 0 };
const WRITE: Ask = Ask { exclusive: true, ..READ };
const WAIT: Ask = Ask { block: true, ..WRITE };
const RECLAIM: Ask = Ask { reclaim: true, ..WRITE };

fn args<'a>(ask: &Ask, lock: Lock<'a>) -> LockArgs<'a> {
    let Ask { block, exclusive, reclaim, state } = *ask;
    LockArgs { cookie: Bounded(b"c"), block, exclusive, lock, reclaim, state }
}

fn take(client: &mut Client, ask: &Ask, lock: Lock<'_>) -> NlmStat {
    stat(client, NlmProc::Lock, &bytes(Version::V4, &args(ask, lock)))
}

fn stat(client: &mut Client, procedure: NlmProc, args: &[u8]) -> NlmStat {
    let results = client.results(program::NLM, 4, procedure as u32, args);
    let res: Res<'_> = all(&results);
    assert_eq!(*res.cookie, b"c"[..]);
    res.stat
}

fn unlock(client: &mut Client, lock: Lock<'_>) -> NlmStat {
    stat(client, NlmProc::Unlock, &bytes(Version::V4, &UnlockArgs { cookie: Bounded(b"c"), lock }))
}

fn cancel(client: &mut Client, lock: Lock<'_>) -> NlmStat {
    let args = CancelArgs { cookie: Bounded(b"c"), block: true, exclusive: true, lock };
    stat(client, NlmProc::Cancel, &bytes(Version::V4, &args))
}

/// What is in the way: who, and where.
fn test(client: &mut Client, exclusive: bool, lock: Lock<'_>) -> Option<(i32, u64, u64)> {
    let args = bytes(Version::V4, &TestArgs { cookie: Bounded(b"c"), exclusive, lock });
    let results = client.results(program::NLM, 4, NlmProc::Test as u32, &args);
    match TestRes::decode_as(Version::V4, &mut Reader::new(&results)).unwrap().reply {
        TestReply::Denied(holder) => Some((holder.svid, holder.range.offset_bytes, holder.range.len_bytes)),
        TestReply::Status(NlmStat::Granted) => None,
        TestReply::Status(other) => panic!("{other:?}"),
    }
}

/// Two hosts, and a file.
fn two_hosts() -> (World, Client, Client, Vec<u8>) {
    let world = World::with(|options| options.clients = crate::world::networks("*"));
    let (mut one, other) = (world.connect_from("192.0.2.1:700", 1000), world.connect_from("192.0.2.2:700", 1000));
    let root = one.root();
    let file = one.make(&root, "file");
    (world, one, other, file)
}

/// Answers the server's question where a client's program is, and takes the call that follows.
fn called_back(world: &World, host: &str) -> Option<(u32, Vec<u8>, nfs_server::OnReply)> {
    let next = || world.dialer.0.lock().unwrap().pop();
    let (to, question, answer) = next()?;
    assert_eq!(to.to_string(), format!("{host}:111"));
    answer(Some(reply_to(&question, &CALLBACK_PORT.to_be_bytes())));
    let (to, record, answer) = next()?;
    assert_eq!(to.to_string(), format!("{host}:{CALLBACK_PORT}"));
    let mut r = Reader::new(&record);
    let procedure = Call::decode(&mut r).unwrap().procedure;
    let rest = r.rest().to_vec();
    let xid = record[..4].to_vec();
    let answer = Box::new(move |results: Option<Vec<u8>>| answer(results.map(|bytes| reply_to(&xid, &bytes))));
    Some((procedure, rest, answer))
}

fn reply_to(call: &[u8], results: &[u8]) -> Vec<u8> {
    let xid = u32::from_be_bytes(call[..4].try_into().unwrap());
    let mut out = Vec::new();
    put_success(xid, &mut out);
    out.extend_from_slice(results);
    out
}

fn granted(stat: NlmStat) -> Option<Vec<u8>> {
    Some(to_vec(&Res { cookie: Bounded(b"c"), stat }))
}

#[test]
fn ranges_exclude_each_other_between_owners_and_hosts() {
    let (_world, mut one, mut other, file) = two_hosts();
    assert_eq!(take(&mut one, &READ, lock(&file, 1, 0, 10)), NlmStat::Granted);
    assert_eq!(take(&mut other, &READ, lock(&file, 1, 5, 10)), NlmStat::Granted);
    assert_eq!(take(&mut other, &WRITE, lock(&file, 1, 0, 5)), NlmStat::Denied);
    assert_eq!(take(&mut one, &WRITE, lock(&file, 2, 0, 1)), NlmStat::Denied, "another process of the same host");
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, 0, 5)), NlmStat::Granted, "its own may be made stronger");
    assert_eq!(test(&mut other, false, lock(&file, 1, 0, 0)), Some((1, 0, 5)));
    assert_eq!(unlock(&mut one, lock(&file, 1, 0, 0)), NlmStat::Granted);
    assert_eq!(test(&mut other, true, lock(&file, 1, 0, 5)), None);
    assert_eq!(unlock(&mut one, lock(&file, 7, 0, 0)), NlmStat::Granted, "what nobody holds is unlocked");
}

#[test]
fn a_range_to_the_end_and_one_past_it() {
    let (_world, mut one, mut other, file) = two_hosts();
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, 100, 0)), NlmStat::Granted);
    assert_eq!(test(&mut other, true, lock(&file, 1, 1 << 62, 1)), Some((1, 100, 0)));
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, u64::MAX, 0)), NlmStat::Fbig);
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, u64::MAX, 2)), NlmStat::Fbig);
    assert_eq!(unlock(&mut one, lock(&file, 1, u64::MAX, 2)), NlmStat::Fbig);
}

#[test]
fn who_waits_is_called_back_and_has_the_lock_once_it_says_so() {
    let (world, mut one, mut other, file) = two_hosts();
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, 0, 10)), NlmStat::Granted);
    assert_eq!(take(&mut other, &WAIT, lock(&file, 2, 4, 2)), NlmStat::Blocked);
    assert_eq!(take(&mut other, &WAIT, lock(&file, 2, 4, 2)), NlmStat::Blocked, "sent again, it stands in line once");
    assert!(called_back(&world, "192.0.2.2").is_none());
    unlock(&mut one, lock(&file, 1, 0, 10));
    let (procedure, args, answer) = called_back(&world, "192.0.2.2").expect("a callback");
    assert_eq!(procedure, NlmProc::Granted as u32);
    let args = TestArgs::decode_as(Version::V4, &mut Reader::new(&args)).unwrap();
    assert_eq!((args.lock, args.exclusive), (lock(&file, 2, 4, 2), true));
    answer(granted(NlmStat::Granted));
    assert!(called_back(&world, "192.0.2.2").is_none(), "told once");
    assert_eq!(test(&mut one, false, lock(&file, 1, 0, 0)), Some((2, 4, 2)));
}

/// Somebody of another protocol caches the file's data and locks.
fn cached(world: &World) -> (coherence::OpenClaim, impl Fn(&World)) {
    let path = vfs::Path::new(b"file").unwrap();
    let cred = vfs::Cred { uid: 0, gid: 0, groups: [].into() };
    let id = world.fs.attr_at(&cred, &*world.fs.root(), &path, vfs::Wait::Allowed).unwrap().id;
    let request = OpenRequest {
        identity: Identity::Lease { client: [1; 16], key: [2; 16] },
        grant: GrantRequest { want: Caching::READ | Caching::WRITE, epoch: 0 },
        ..OpenRequest::new(id, AccessKinds::READ, ShareKinds::all())
    };
    let opened = world.table.open(Instant(0), &request).unwrap().done().unwrap();
    assert_eq!(opened.caching, Caching::READ | Caching::WRITE);
    let give_up = move |world: &World| {
        let holder = HolderKey::Lease { client: [1; 16], key: [2; 16] };
        world.table.acknowledge(Instant(0), id, &holder, Caching::empty()).unwrap();
    };
    (opened.claim, give_up)
}

#[test]
fn who_waits_for_a_lock_waits_for_who_caches_the_file_too() {
    let (world, mut one, mut other, file) = two_hosts();
    let (_claim, give_up) = cached(&world);
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, 0, 10)), NlmStat::DeniedGracePeriod, "not now, and not denied");
    assert_eq!(take(&mut one, &WAIT, lock(&file, 1, 0, 10)), NlmStat::Blocked);
    assert_eq!(take(&mut one, &WAIT, lock(&file, 1, 0, 10)), NlmStat::Blocked, "sent again");
    assert_eq!(take(&mut other, &WAIT, lock(&file, 2, 0, 10)), NlmStat::Blocked);
    assert_eq!(take(&mut other, &WAIT, lock(&file, 3, 20, 10)), NlmStat::Blocked);
    assert_eq!(cancel(&mut other, lock(&file, 3, 20, 10)), NlmStat::Granted);
    world.server.sweep();
    assert!(called_back(&world, "192.0.2.1").is_none(), "it is still cached");
    give_up(&world);
    world.server.sweep();
    let (procedure, args, answer) = called_back(&world, "192.0.2.1").expect("a callback");
    assert_eq!(procedure, NlmProc::Granted as u32);
    assert_eq!(TestArgs::decode_as(Version::V4, &mut Reader::new(&args)).unwrap().lock, lock(&file, 1, 0, 10));
    answer(granted(NlmStat::Granted));
    assert!(called_back(&world, "192.0.2.2").is_none(), "the next is in line, and who has cancelled is not");
    unlock(&mut one, lock(&file, 1, 0, 10));
    assert!(called_back(&world, "192.0.2.2").is_some());
    assert_eq!(test(&mut one, true, lock(&file, 1, 20, 10)), None);
}

#[test]
fn a_host_that_has_nothing_any_more_waits_for_no_cache() {
    let (world, mut one, _other, file) = two_hosts();
    let (_claim, give_up) = cached(&world);
    assert_eq!(take(&mut one, &WAIT, lock(&file, 1, 0, 10)), NlmStat::Blocked);
    let notify = Notify { name: Bounded(b"client"), state: 0 };
    one.results(program::NLM, 4, NlmProc::FreeAll as u32, &to_vec(&notify));
    give_up(&world);
    world.server.sweep();
    assert!(called_back(&world, "192.0.2.1").is_none());
    assert_eq!(take(&mut one, &WRITE, lock(&file, 2, 0, 10)), NlmStat::Granted);
}

#[test]
fn a_lock_that_is_not_wanted_any_more_goes_on_to_the_next() {
    let (world, mut one, mut other, file) = two_hosts();
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    assert_eq!(take(&mut other, &WAIT, lock(&file, 2, 0, 1)), NlmStat::Blocked);
    assert_eq!(take(&mut other, &WAIT, lock(&file, 3, 0, 1)), NlmStat::Blocked);
    unlock(&mut one, lock(&file, 1, 0, 10));
    let (_, first, answer) = called_back(&world, "192.0.2.2").unwrap();
    answer(granted(NlmStat::Denied));
    let (_, second, answer) = called_back(&world, "192.0.2.2").unwrap();
    answer(granted(NlmStat::Granted));
    let svid = |args: &[u8]| TestArgs::decode_as(Version::V4, &mut Reader::new(args)).unwrap().lock.svid;
    assert_eq!((svid(&first), svid(&second)), (2, 3));
    assert_eq!(test(&mut one, true, lock(&file, 1, 0, 0)), Some((3, 0, 1)));
}

#[test]
fn a_client_that_asks_again_meanwhile_keeps_what_it_got() {
    let (world, mut one, mut other, file) = two_hosts();
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    take(&mut other, &WAIT, lock(&file, 2, 0, 1));
    unlock(&mut one, lock(&file, 1, 0, 10));
    let (_, _, answer) = called_back(&world, "192.0.2.2").unwrap();
    assert_eq!(take(&mut other, &WAIT, lock(&file, 2, 0, 1)), NlmStat::Granted);
    answer(granted(NlmStat::Denied));
    assert_eq!(test(&mut one, true, lock(&file, 1, 0, 0)), Some((2, 0, 1)), "it knew already");
}

#[test]
fn a_host_that_cannot_be_called_loses_what_it_waited_for() {
    let (world, mut one, mut other, file) = two_hosts();
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    take(&mut other, &WAIT, lock(&file, 2, 0, 1));
    unlock(&mut one, lock(&file, 1, 0, 10));
    let mut calls = 0;
    for _ in 0..30 {
        while let Some((_, _, done)) = { world.dialer.0.lock().unwrap().pop() } {
            calls += 1;
            done(None);
        }
        world.clock.advance(std::time::Duration::from_secs(5));
        world.server.sweep();
    }
    assert!(calls > 3, "it is tried more than once: {calls}");
    assert_eq!(test(&mut one, true, lock(&file, 1, 0, 0)), None);
}

#[test]
fn a_wait_is_cancelled_before_and_after_it_was_over() {
    let (world, mut one, mut other, file) = two_hosts();
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    take(&mut other, &WAIT, lock(&file, 2, 0, 1));
    assert_eq!(cancel(&mut other, lock(&file, 2, 0, 1)), NlmStat::Granted);
    assert_eq!(cancel(&mut other, lock(&file, 2, 0, 1)), NlmStat::Denied, "there is nothing to cancel");
    take(&mut other, &WAIT, lock(&file, 2, 0, 1));
    unlock(&mut one, lock(&file, 1, 0, 10));
    let (_, _, answer) = called_back(&world, "192.0.2.2").unwrap();
    assert_eq!(cancel(&mut other, lock(&file, 2, 0, 1)), NlmStat::Granted);
    answer(granted(NlmStat::Granted));
    assert_eq!(test(&mut one, true, lock(&file, 1, 0, 0)), None);
}

#[test]
fn who_would_wait_for_itself_is_told_at_once() {
    let (world, mut one, mut other, file) = two_hosts();
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    take(&mut other, &WRITE, lock(&file, 2, 10, 10));
    take(&mut other, &WRITE, lock(&file, 3, 20, 10));
    assert_eq!(take(&mut one, &WAIT, lock(&file, 1, 10, 1)), NlmStat::Blocked);
    assert_eq!(take(&mut other, &WAIT, lock(&file, 2, 20, 1)), NlmStat::Blocked);
    assert_eq!(take(&mut other, &WAIT, lock(&file, 3, 0, 1)), NlmStat::Deadlock, "a ring of three");
    unlock(&mut other, lock(&file, 3, 20, 10));
    let (_, _, answer) = called_back(&world, "192.0.2.2").expect("the second goes on");
    answer(granted(NlmStat::Granted));
    assert_eq!(take(&mut other, &WAIT, lock(&file, 3, 0, 1)), NlmStat::Blocked, "it holds nothing any more");
}

#[test]
fn a_host_that_restarted_has_nothing_and_is_believed_once_per_restart() {
    let (world, mut one, mut other, file) = two_hosts();
    let ask = Ask { state: 5, ..WRITE };
    assert_eq!(take(&mut one, &ask, lock(&file, 1, 0, 10)), NlmStat::Granted);
    take(&mut other, &WAIT, lock(&file, 2, 0, 1));
    let restarted = |client: &mut Client, state| {
        let args = to_vec(&StateChange { mon_name: Bounded(b"client"), state });
        assert_eq!(client.call(program::NSM, 1, 6, &args), Answer::Results(Vec::new()));
    };
    let mut anybody = world.connect_from("192.0.2.1:5000", 1000);
    assert_eq!(unlock(&mut anybody, lock(&file, 1, 0, 10)), NlmStat::Failed);
    restarted(&mut anybody, 7);
    assert!(called_back(&world, "192.0.2.2").is_none(), "anybody on the host could say so");
    restarted(&mut one, 7);
    let (_, _, answer) = called_back(&world, "192.0.2.2").expect("the lock went on");
    answer(granted(NlmStat::Granted));
    assert_eq!(take(&mut one, &Ask { state: 7, ..WRITE }, lock(&file, 1, 20, 1)), NlmStat::Granted);
    restarted(&mut one, 7);
    assert_eq!(test(&mut other, true, lock(&file, 2, 20, 1)), Some((1, 20, 1)), "the same restart again");
}

#[test]
fn a_host_gives_everything_back_at_once() {
    let (_world, mut one, mut other, file) = two_hosts();
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    let args = to_vec(&Notify { name: Bounded(b"client"), state: 0 });
    assert_eq!(other.call(program::NLM, 4, NlmProc::FreeAll as u32, &args), Answer::Results(Vec::new()));
    assert!(test(&mut other, true, lock(&file, 1, 0, 1)).is_some(), "another host's are not its own");
    one.call(program::NLM, 4, NlmProc::FreeAll as u32, &args);
    assert_eq!(test(&mut other, true, lock(&file, 1, 0, 1)), None);
}

#[test]
fn after_a_restart_hosts_are_told_and_have_their_locks_first() {
    let (mut world, mut one, _, file) = two_hosts();
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    world.start_anew();
    world.server.sweep();
    let (procedure, args, answer) = called_back(&world, "192.0.2.1").expect("the host is told");
    assert_eq!(procedure, 6);
    let told: StateChange<'_> = all(&args);
    assert_eq!((&*told.mon_name, told.state & 1), (&b"server"[..], 1));
    answer(Some(Vec::new()));
    world.server.sweep();
    assert!(called_back(&world, "192.0.2.1").is_none(), "told once");
    let mut one = world.connect_from("127.0.0.1:700", 1000);
    assert_eq!(take(&mut one, &RECLAIM, lock(&file, 1, 0, 10)), NlmStat::DeniedGracePeriod, "who held nothing");
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, 0, 10)), NlmStat::DeniedGracePeriod);
    world.clock.advance(std::time::Duration::from_secs(91));
    world.server.sweep();
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, 0, 10)), NlmStat::Granted);
    assert_eq!(take(&mut one, &RECLAIM, lock(&file, 1, 0, 10)), NlmStat::DeniedGracePeriod, "too late");
}

#[test]
fn a_host_reclaims_and_nobody_is_waited_for_who_held_nothing() {
    let world = World::new();
    let mut one = world.connect();
    let root = one.root();
    let file = one.make(&root, "file");
    take(&mut one, &WRITE, lock(&file, 1, 0, 10));
    let mut world = world;
    world.start_anew();
    let mut one = world.connect();
    assert_eq!(take(&mut one, &RECLAIM, lock(&file, 1, 0, 10)), NlmStat::Granted);
    assert_eq!(unlock(&mut one, lock(&file, 1, 0, 10)), NlmStat::Granted);
    world.clock.advance(std::time::Duration::from_secs(91));
    for _ in 0..20 {
        while let Some((_, _, done)) = { world.dialer.0.lock().unwrap().pop() } {
            done(None);
        }
        world.clock.advance(std::time::Duration::from_secs(1000));
        world.server.sweep();
    }
    assert_eq!(world.hosts.0.lock().unwrap().len(), 1, "the state number alone");
    world.start_anew();
    let mut one = world.connect();
    assert_eq!(take(&mut one, &WRITE, lock(&file, 1, 0, 10)), NlmStat::Granted, "no grace");
}

#[test]
fn unmonitored_locks_and_narrow_versions() {
    let (world, mut one, mut other, file) = two_hosts();
    let args = |ask: &Ask, lock| bytes(Version::V4, &args(ask, lock));
    assert_eq!(stat(&mut one, NlmProc::NmLock, &args(&WRITE, lock(&file, 1, 0, 10))), NlmStat::Granted);
    assert_eq!(world.hosts.0.lock().unwrap().len(), 1, "the state number alone");
    for version in [1, 3] {
        let ask = bytes(Version::V3, &crate::locks::args(&WRITE, lock(&file, 1, 5, 1)));
        let results = other.results(program::NLM, version, NlmProc::Lock as u32, &ask);
        assert_eq!(all::<Res<'_>>(&results).stat, NlmStat::Denied);
        let gone = bytes(Version::V3, &crate::locks::args(&WRITE, lock(b"gone", 1, 5, 1)));
        let results = other.results(program::NLM, version, NlmProc::Lock as u32, &gone);
        assert_eq!(all::<Res<'_>>(&results).stat, NlmStat::Denied, "these versions know no STALE_FH");
    }
    assert_eq!(other.call(program::NLM, 2, 0, &[]), Answer::Mismatch(1, 4));
    assert_eq!(take(&mut other, &WRITE, lock(b"gone", 1, 5, 1)), NlmStat::StaleFh);
}

#[test]
fn an_answer_by_message_goes_to_the_hosts_lock_manager() {
    let (world, mut one, _, file) = two_hosts();
    let ask = bytes(Version::V4, &args(&WRITE, lock(&file, 1, 0, 10)));
    assert_eq!(one.call(program::NLM, 4, NlmProc::LockMsg as u32, &ask), Answer::Results(Vec::new()));
    let (procedure, args, _) = called_back(&world, "192.0.2.1").unwrap();
    assert_eq!((procedure, all::<Res<'_>>(&args).stat), (NlmProc::LockRes as u32, NlmStat::Granted));
}

#[test]
fn shares_deny_what_they_say_until_they_are_given_back() {
    let (_world, mut one, mut other, file) = two_hosts();
    let share = |client: &mut Client, procedure: NlmProc, mode, access| {
        let share = Share { caller_name: Bounded(b"pc"), handle: Bounded(&file), owner: Bounded(b"o"), mode, access };
        let args = to_vec(&ShareArgs { cookie: Bounded(b"c"), share, reclaim: false });
        let results = client.results(program::NLM, 4, procedure as u32, &args);
        all::<ShareRes<'_>>(&results).stat
    };
    use {ShareAccess as For, ShareMode as Deny};
    assert_eq!(share(&mut one, NlmProc::Share, Deny::DenyWrite, For::Read), NlmStat::Granted);
    assert_eq!(share(&mut other, NlmProc::Share, Deny::DenyNone, For::Read), NlmStat::Granted);
    assert_eq!(share(&mut other, NlmProc::Share, Deny::DenyNone, For::Write), NlmStat::Denied);
    assert_eq!(share(&mut one, NlmProc::Unshare, Deny::DenyWrite, For::Read), NlmStat::Granted);
    assert_eq!(share(&mut other, NlmProc::Share, Deny::DenyNone, For::Write), NlmStat::Granted);
}

#[test]
fn what_makes_no_sense_is_garbage_and_costs_nothing() {
    let (world, mut one, _, file) = two_hosts();
    let whole = bytes(Version::V4, &args(&WAIT, lock(&file, 1, 0, 10)));
    for procedure in 1..=23 {
        for end in 0..whole.len() {
            one.call(program::NLM, 4, procedure, &whole[..end]);
        }
    }
    for procedure in 1..=7 {
        for end in 0..whole.len() {
            one.call(program::NSM, 1, procedure, &whole[..end]);
        }
    }
    assert_eq!(world.table.stats().files, 0);
}
