//! What the server counts: every call and every operation once, failures apart, and each call with its time; and what it
//! tells of its clients.

use nfs_server::{PathTotals, operations};
use std::task::{Context, Waker};

use nfs_wire::NfsStat3;
use nfs_wire::nfs4::{NfsStat4, Op, ReadArgs, Stateid};
use nfs_wire::rpc::{FragmentHeader, program};
use nfs_wire::xdr::Bounded;
use vfs::metrics::OperationTotals;
use vfs::{Buf, Frame};

use super::world::{REPLY_NS, UID, World};

const ANONYMOUS: Stateid = Stateid::ANONYMOUS;

fn operation(world: &World, protocol: &str, name: &str) -> OperationTotals {
    let all = operations([&*world.counters]);
    all.into_iter().find(|(known, _)| (known.protocol, &*known.name) == (protocol, name)).unwrap().1
}

#[test]
fn every_call_is_counted_once_and_timed_once() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "f");
    client.write(&file, 0, &[7; 100]).unwrap();
    for _ in 0..25 {
        client.read(&file, 0, 100).unwrap();
    }
    assert_eq!(client.read(&root, 0, 1), Err(NfsStat3::ISDIR));
    assert_eq!(client.lookup(&root, "nothing"), Err(NfsStat3::NOENT));
    let read = operation(&world, "nfs3", "read");
    assert_eq!((read.count, read.errors), (26, 1));
    assert_eq!((read.latency.count(), read.latency.sum()), (26, 26 * REPLY_NS));
    let lookup = operation(&world, "nfs3", "lookup");
    assert_eq!((lookup.count, lookup.errors), (1, 1));
    for (protocol, name) in [("nfs3", "create"), ("nfs3", "write"), ("mount", "mnt")] {
        let seen = operation(&world, protocol, name);
        assert_eq!((seen.count, seen.errors, seen.latency.count()), (1, 0, 1), "{protocol} {name}");
    }
    assert!(client.mount("/nowhere").is_err());
    assert_eq!(operation(&world, "mount", "mnt").errors, 1);
    let mut totals = PathTotals::default();
    totals.add(&world.counters);
    assert_eq!((totals.read_copy, totals.read_bytes, totals.write_inline, totals.write_bytes), (25, 2500, 1, 100));
}

#[test]
fn what_is_no_call_of_a_program_is_counted_as_failed() {
    let world = World::new();
    let mut client = world.connect();
    client.call(nfs_wire::rpc::program::NFS, 3, 1, b"");
    let getattr = operation(&world, "nfs3", "getattr");
    assert_eq!((getattr.count, getattr.errors, getattr.latency.count()), (1, 1, 0));
}

#[test]
fn a_compound_is_timed_as_what_it_is_about_and_each_operation_counts() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let mut session = client.session(1);
    let names = ["sequence", "putfh", "read", "getfh"];
    let before = names.map(|name| operation(&world, "nfs4", name));
    let read = Op::Read(ReadArgs { stateid: ANONYMOUS, offset_bytes: 0, count_bytes: 9 });
    for blocked in [false, true] {
        if blocked {
            world.fs.block_next(1);
        }
        let done = client.within(&mut session, 1, &[Op::Putfh(Bounded(&file)), read, Op::Getfh]);
        assert_eq!(done.status(), NfsStat4::OK);
    }
    for ((name, before), timed) in names.into_iter().zip(before).zip([0, 0, 2, 0]) {
        let after = operation(&world, "nfs4", name);
        assert_eq!(after.count - before.count, 2, "{name}");
        assert_eq!(after.latency.since(&before.latency).count(), timed, "{name}");
    }
    let failed = client.within(&mut session, 1, &[Op::Putfh(Bounded(&root)), read, Op::Getfh]);
    assert_eq!(failed.status(), NfsStat4::ISDIR);
    assert_eq!(operation(&world, "nfs4", "read").errors, 1);
    assert_eq!(operation(&world, "nfs4", "putfh").errors, 0);
    assert_eq!(operation(&world, "nfs4", "compound").errors, 1);
}

#[test]
fn clients_are_told_as_they_are() {
    let world = World::new();
    let mut client = world.connect();
    assert!(world.server.clients().is_empty());
    let _session = client.session(1);
    let told = world.server.clients();
    let [known] = &told[..] else { panic!("{told:?}") };
    assert_eq!((known.version, known.uid, known.sessions), ("4.1+", Some(UID), 1));
    assert!(known.confirmed && !known.expired && known.silent_ms == 0, "{known:?}");
    assert_eq!((known.opens, known.lock_owners, known.delegations), (0, 0, 0));
    assert_eq!(world.server.mounts().len(), 0);
    client.root();
    assert_eq!(world.server.mounts().len(), 1);
}

#[test]
fn who_asks_for_much_at_once_is_answered_in_parts() {
    let world = World::new();
    let mut client = world.connect();
    for _ in 0..150 {
        let call = client.record(program::NFS, 3, 0, &[]);
        let mark = FragmentHeader { last: true, len_bytes: call.len() as u32 }.to_bytes();
        let mut frame = Buf::unpooled(call.len() + mark.len());
        frame.push(&mark);
        frame.push(&call);
        client.connection.receive(Frame::from(frame), true);
    }
    let mut parts = Vec::new();
    loop {
        parts.push(std::iter::from_fn(|| client.reply()).count());
        if !client.connection.is_stalled() {
            break;
        }
        assert!(!client.connection.is_ready(), "it takes no more meanwhile");
        client.connection.poll(&mut Context::from_waker(Waker::noop()));
    }
    assert_eq!(parts, [64, 64, 22], "between two parts other connections have their turn");
}
