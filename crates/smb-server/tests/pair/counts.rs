//! What the server counts: every request once, failures apart, by the path that served it, and each with its time; and
//! what it tells of its sessions.

use std::sync::atomic::Ordering::Relaxed;

use smb_server::{PathTotals, commands};
use smb_wire::NtStatus;
use smb_wire::smb2::{Dialect, FileHandle};
use vfs::metrics::OperationTotals;

use crate::util::client::ROUND_NS;
use crate::util::ops::{close_message, read_message};
use crate::util::world::SHARE;
use crate::util::{OpenAs, Profile, World};

fn command(world: &World, name: &str) -> OperationTotals {
    let all = commands([&*world.counters]);
    all.into_iter().find(|(known, _)| *known == name).unwrap().1
}

fn totals(world: &World) -> PathTotals {
    let mut totals = PathTotals::default();
    totals.add(&world.counters);
    totals
}

#[test]
fn every_request_is_counted_once_and_timed_once() {
    let world = World::new();
    let mut anna = world.anna();
    let handle = anna.create("file", &OpenAs::default());
    anna.write(handle, 0, &[7; 100]);
    for _ in 0..25 {
        anna.read(handle, 0, 100);
    }
    anna.call(read_message(handle, 999, 1)).expect(NtStatus::END_OF_FILE);
    anna.call(read_message(FileHandle { persistent: 9, volatile: 9 }, 0, 1)).expect(NtStatus::FILE_CLOSED);
    anna.close(handle);
    let read = command(&world, "read");
    assert_eq!((read.count, read.errors), (27, 2));
    assert_eq!((read.latency.count(), read.latency.sum()), (27, 27 * ROUND_NS));
    let setup = command(&world, "session_setup");
    assert_eq!((setup.count, setup.errors), (2, 0), "a step of a login is no failure");
    let expected = [("create", 1), ("write", 1), ("close", 1), ("tree_connect", 1), ("negotiate", 1), ("lock", 0)];
    for (name, count) in expected {
        let seen = command(&world, name);
        assert_eq!((seen.count, seen.errors, seen.latency.count()), (count, 0, count), "{name}");
    }
    let sum: u64 = commands([&*world.counters]).iter().map(|(_, sum)| sum.count).sum();
    assert_eq!(totals(&world).requests, sum);
    assert_eq!((totals(&world).read_bytes, totals(&world).write_bytes), (2500, 100));
}

#[test]
fn each_request_of_a_compound_is_counted_and_timed() {
    let world = World::new();
    let mut anna = world.anna();
    anna.write_file("file", b"text");
    let before = ["create", "read", "close"].map(|name| command(&world, name));
    let read = || read_message(FileHandle::PREVIOUS, 0, 4).related();
    let create = OpenAs::reader().message("file");
    anna.compound(&[create, read(), read(), close_message(FileHandle::PREVIOUS).related()]);
    for ((name, before), more) in ["create", "read", "close"].into_iter().zip(before).zip([1, 2, 1]) {
        let after = command(&world, name);
        assert_eq!(after.count, before.count + more, "{name}");
        assert_eq!(after.latency.since(&before.latency).count(), more, "{name}");
        assert_eq!(after.latency.since(&before.latency).sum(), more * ROUND_NS, "{name}");
    }
}

#[test]
fn each_path_counts_itself_and_its_bytes() {
    for (sign, seal) in [(false, false), (true, false), (false, true)] {
        let world = World::new();
        let mut anna = world.anna();
        let handle = anna.create("file", &OpenAs::default());
        anna.write(handle, 0, &[7; 4096]);
        (anna.sign, anna.seal) = (sign, seal);
        for _ in 0..3 {
            anna.read(handle, 0, 4096);
        }
        let totals = totals(&world);
        let (signed, sealed) = (u64::from(sign) * 3, u64::from(seal) * 3);
        assert_eq!((totals.read_copy, totals.read_signed, totals.read_sealed), (3 - signed - sealed, signed, sealed));
        assert_eq!((totals.read_signed_bytes, totals.read_sealed_bytes), (signed * 4096, sealed * 4096));
        assert_eq!((totals.read_bytes, totals.read_pages_bytes), (3 * 4096, 0));
        assert_eq!((totals.write_inline, totals.write_worker, totals.write_bytes), (1, 0, 4096));
    }
}

#[test]
fn a_request_that_waits_is_timed_to_its_end() {
    let world = World::parking();
    let mut anna = world.anna();
    let handle = anna.create("file", &OpenAs::default());
    let parked = world.counters.parked.load(Relaxed);
    let flush = anna.send(&[crate::util::ops::flush_message(handle)])[0];
    anna.collect();
    anna.collect();
    assert!(anna.take(flush).is_none(), "it waits for its worker");
    assert_eq!(world.counters.parked.load(Relaxed), parked + 1);
    assert_eq!(command(&world, "flush").latency.count(), 0);
    anna.drive();
    anna.take(flush).unwrap().ok();
    let flush = command(&world, "flush");
    assert_eq!((flush.count, flush.latency.count()), (1, 1));
    assert!(flush.latency.sum() >= 3 * ROUND_NS, "{}", flush.latency.sum());
}

#[test]
fn sessions_are_told_as_they_are() {
    let world = World::new();
    let mut anna = world.logged_in(Profile::dialect(Dialect::V3_0));
    let handle = anna.create("file", &OpenAs::default());
    let told = world.server.sessions();
    let [session] = &told[..] else { panic!("{told:?}") };
    assert_eq!((session.id, session.user.as_str()), (anna.session_id, "anna"));
    assert_eq!((session.dialect, session.opens, session.guest), (Dialect::V3_0, 1, false));
    assert_eq!((session.encrypted, session.cipher), (false, anna.cipher()));
    assert_eq!(session.signing, Some(anna.signing_algorithm()));
    assert_eq!(session.shares, [SHARE]);
    assert_eq!(session.channels, [([127, 0, 0, 1], 50_000).into()]);
    anna.close(handle);
    assert_eq!(world.server.sessions()[0].opens, 0);
    anna.hang_up();
    assert!(world.server.sessions().is_empty());
}
