//! Listings whose parts are made before they are asked for, and READs that come together: nobody may see by it what was,
//! after having seen what is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{Nfs3Proc, ReadArgs, ReadRes, ReaddirPlusArgs, ReaddirPlusRes, Sattr};
use nfs_wire::nfs4::{self, CompoundCall, NfsStat4, OpResult, PROC_COMPOUND};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, to_vec};
use vfs::memfs::Op;
use vfs::{Buf, Executor, Frame, Inline, VfsError};

use crate::compounds::{ANONYMOUS, Results};
use crate::world::{Client, World, all};

const FILES: usize = 60;
const PART_BYTES: u32 = 1000;

/// One part of a listing: names and sizes.
struct Listed {
    entries: Vec<(String, u64)>,
    next: u64,
    eof: bool,
}

fn arguments(dir: &[u8], cookie: u64) -> Vec<u8> {
    let (cookie_verifier, dir_count_bytes) = ([0; 8], 1 << 20);
    let dir = Bounded(dir);
    to_vec(&ReaddirPlusArgs { dir, cookie, cookie_verifier, dir_count_bytes, max_count_bytes: PART_BYTES })
}

fn listed(results: &[u8]) -> Listed {
    let ok = all::<ReaddirPlusRes<'_>>(results).unwrap();
    let next = ok.entries.iter().last().map_or(0, |plus| plus.entry.cookie);
    let entries = ok.entries.iter().map(|plus| {
        let name = String::from_utf8(plus.entry.name.to_vec()).unwrap();
        (name, plus.attributes.unwrap().size_bytes)
    });
    Listed { entries: entries.filter(|(name, _)| !name.starts_with('.')).collect(), next, eof: ok.eof }
}

impl Client {
    fn part(&mut self, dir: &[u8], cookie: u64) -> Listed {
        listed(&self.results(program::NFS, 3, Nfs3Proc::ReaddirPlus as u32, &arguments(dir, cookie)))
    }

    /// The first three parts: those behind them are made ahead.
    fn begin(&mut self, dir: &[u8]) -> (Vec<String>, u64) {
        let (mut names, mut cookie) = (Vec::new(), 0);
        for _ in 0..3 {
            let part = self.part(dir, cookie);
            names.extend(part.entries.into_iter().map(|(name, _)| name));
            cookie = part.next;
        }
        (names, cookie)
    }

    /// The rest of a listing.
    fn rest(&mut self, dir: &[u8], mut cookie: u64) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let part = self.part(dir, cookie);
            names.extend(part.entries.into_iter().map(|(name, _)| name));
            if part.eof {
                return names;
            }
            cookie = part.next;
        }
    }
}

fn files(client: &mut Client, root: &[u8]) -> Vec<(String, Vec<u8>)> {
    let made = (0..FILES).map(|n| (format!("file-{n:02}"), client.make(root, &format!("file-{n:02}"))));
    made.collect()
}

fn change_all(client: &mut Client, files: &[(String, Vec<u8>)]) {
    for (_, handle) in files {
        client.setattr(handle, Sattr { size_bytes: Some(77), ..Sattr::NONE }, None).unwrap();
    }
}

/// Whether the next part shows what was changed after the third, by `change`.
fn is_seen(change: impl FnOnce(&World, &mut Client, &[(String, Vec<u8>)])) -> bool {
    let world = World::new();
    let mut reader = world.connect_to_idle(Arc::new(Inline));
    let root = reader.root();
    let files = files(&mut reader, &root);
    let (_, cookie) = reader.begin(&root);
    change(&world, &mut reader, &files);
    let part = reader.part(&root, cookie);
    assert!(part.entries.len() > 2 && !part.eof);
    let new = part.entries.iter().filter(|(_, size)| *size == 77).count();
    assert!(new == 0 || new == part.entries.len(), "a part is of one time");
    assert!(part.next > cookie);
    new > 0
}

#[test]
fn what_its_host_was_answered_is_never_taken_back() {
    let seen = is_seen(|_, reader, files| change_all(reader, files));
    assert!(seen, "it changed the files itself");
    let seen = is_seen(|world, _, files| change_all(&mut world.connect_from("127.0.0.1:703", 1000), files));
    assert!(seen, "on another connection");
    let seen = is_seen(|world, reader, files| {
        change_all(&mut world.connect_from("127.0.0.9:703", 1000), files);
        assert_eq!(reader.getattr(&files[0].1).unwrap().size_bytes, 77);
    });
    assert!(seen, "it saw what another did");
}

#[test]
fn what_others_do_is_seen_two_milliseconds_later() {
    let by_another = |world: &World, files: &[(String, Vec<u8>)]| {
        change_all(&mut world.connect_from("127.0.0.9:703", 1000), files);
    };
    let seen = is_seen(|world, _, files| by_another(world, files));
    assert!(!seen, "the part was ready");
    let seen = is_seen(|world, _, files| {
        by_another(world, files);
        world.clock.advance(Duration::from_micros(2_001));
    });
    assert!(seen, "it was thrown away");
}

#[test]
fn every_name_is_listed_once_also_while_names_come_and_go() {
    for removes in [false, true] {
        let world = World::new();
        let mut reader = world.connect_to_idle(Arc::new(Inline));
        let root = reader.root();
        let files = files(&mut reader, &root);
        let (mut names, mut cookie) = reader.begin(&root);
        let mut gone = Vec::new();
        loop {
            let part = reader.part(&root, cookie);
            assert!(part.entries.iter().all(|(name, _)| !gone.contains(name)), "{gone:?} are gone");
            names.extend(part.entries.into_iter().map(|(name, _)| name));
            cookie = part.next;
            if part.eof {
                break;
            }
            let next = files.iter().find(|(name, _)| !names.contains(name) && !gone.contains(name));
            if let Some((name, _)) = next.filter(|_| removes && gone.len() < 5) {
                reader.remove(&root, name).unwrap();
                gone.push(name.clone());
            }
        }
        names.sort();
        let there = files.iter().map(|(name, _)| name).filter(|name| !gone.contains(name));
        assert!(names.iter().eq(there), "{names:?}");
        assert_eq!(gone.len(), if removes { 5 } else { 0 });
    }
}

#[test]
fn a_part_belongs_to_the_listing_it_was_made_for() {
    let world = World::new();
    let mut reader = world.connect_to_idle(Arc::new(Inline));
    let root = reader.root();
    let files = files(&mut reader, &root);
    let (_, cookie) = reader.begin(&root);
    let ahead = reader.part(&root, cookie);
    // From the beginning, and from a place in the middle that is not the next.
    let (first, _) = reader.begin(&root);
    let again = reader.part(&root, cookie);
    assert_eq!(again.entries, ahead.entries);
    let rest = reader.rest(&root, cookie);
    assert_eq!(first.len() + rest.len(), files.len());
    // Another user asks on the same connection.
    let (_, cookie) = reader.begin(&root);
    reader.uid = 1001;
    assert_eq!(reader.part(&root, cookie).entries, ahead.entries);
}

#[test]
fn nothing_is_made_ahead_again_at_once_when_it_was_in_vain() {
    let world = World::new();
    let jobs = Arc::new(Kept::default());
    let mut reader = world.connect_to_idle(Arc::clone(&jobs) as _);
    jobs.run_at_once(true);
    let root = reader.root();
    let files = files(&mut reader, &root);
    let (_, mut cookie) = reader.begin(&root);
    let before = jobs.count();
    for part in 0..4 {
        reader.getattr(&files[0].1).unwrap();
        cookie = reader.part(&root, cookie).next;
        assert_eq!(jobs.count(), before, "part {part}");
    }
}

/// Keeps jobs until they are asked for.
#[derive(Default)]
struct Kept(Mutex<(Vec<Work>, bool, usize)>);

type Work = Box<dyn FnOnce() + Send>;

impl Kept {
    fn run_at_once(&self, at_once: bool) {
        self.0.lock().unwrap().1 = at_once;
    }

    fn take(&self) -> Vec<Work> {
        std::mem::take(&mut self.0.lock().unwrap().0)
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().2
    }
}

impl Executor for Kept {
    fn run(&self, job: Work) {
        let mut kept = self.0.lock().unwrap();
        kept.2 += 1;
        if kept.1 {
            drop(kept);
            return job();
        }
        kept.0.push(job);
    }
}

#[test]
fn who_asks_for_a_part_that_is_being_made_waits_for_it_and_not_for_ever() {
    for is_done in [true, false] {
        let world = World::new();
        let jobs = Arc::new(Kept::default());
        let mut reader = world.connect_to_idle(Arc::clone(&jobs) as _);
        jobs.run_at_once(true);
        let root = reader.root();
        let files = files(&mut reader, &root);
        jobs.run_at_once(false);
        // The first part of all is made on a worker.
        let mut cookie = 0;
        let mut names = Vec::new();
        for part in 0..4 {
            let record = reader.record(program::NFS, 3, Nfs3Proc::ReaddirPlus as u32, &arguments(&root, cookie));
            assert!(reader.send_fragment(&record, true));
            let reply = reader.reply();
            assert_eq!(reply.is_none(), part == 0 || part == 3, "part {part}");
            let reply = reply.unwrap_or_else(|| {
                // The last one's job is done, or lost.
                let taken = jobs.take();
                assert_eq!(taken.len(), 1);
                taken.into_iter().filter(|_| is_done || part == 0).for_each(|job| job());
                reader.poll();
                reader.reply().expect("a reply")
            });
            let part = listed(&reply[24..]);
            names.extend(part.entries.into_iter().map(|(name, _)| name));
            cookie = part.next;
        }
        jobs.take();
        jobs.run_at_once(true);
        names.extend(reader.rest(&root, cookie));
        names.sort();
        assert!(names.iter().eq(files.iter().map(|(name, _)| name)), "{names:?}");
    }
}

/// Calls of a version that arrive together, and their results.
fn together_in(
    version: u32,
    client: &mut Client,
    calls: &[(u32, Vec<u8>)],
    mut between: impl FnMut(usize),
) -> Vec<Vec<u8>> {
    client.connection.arrived(0);
    for (number, (procedure, args)) in calls.iter().enumerate() {
        let record = client.record(program::NFS, version, *procedure, args);
        let mut buf = Buf::unpooled(record.len() + 4);
        buf.push(&(0x8000_0000 | record.len() as u32).to_be_bytes());
        buf.push(&record);
        client.connection.receive(Frame::from(buf), number + 1 < calls.len());
        between(number);
    }
    client.poll();
    std::iter::from_fn(|| client.reply()).map(|reply| reply[24..].to_vec()).collect()
}

fn together(client: &mut Client, calls: &[(Nfs3Proc, Vec<u8>)], between: impl FnMut(usize)) -> Vec<Vec<u8>> {
    let calls: Vec<_> = calls.iter().map(|(procedure, args)| (*procedure as u32, args.clone())).collect();
    together_in(3, client, &calls, between)
}

fn read(handle: &[u8]) -> (Nfs3Proc, Vec<u8>) {
    (Nfs3Proc::Read, to_vec(&ReadArgs { handle: Bounded(handle), offset_bytes: 0, count_bytes: 100 }))
}

fn what_was_read(results: &[u8]) -> Result<(usize, u64), NfsStat3> {
    let found = all::<ReadRes<'_>>(results).map_err(|failed| failed.status)?;
    Ok((found.data.len(), found.attributes.unwrap().size_bytes))
}

#[test]
fn reads_that_come_together_look_at_their_file_once_and_no_longer_than_that() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let (file, other) = (client.make(&root, "file"), client.make(&root, "other"));
    client.write(&file, 0, &[1; 10]).unwrap();
    client.write(&other, 0, &[1; 20]).unwrap();
    assert_eq!(client.read(&file, 0, 1).unwrap().0.len(), 1);
    let found = together(&mut client, &[read(&file), read(&file), read(&other), read(&file)], |_| {});
    let sizes: Vec<_> = found.iter().map(|results| what_was_read(results).unwrap()).collect();
    assert_eq!(sizes, [(10, 10), (10, 10), (20, 20), (10, 10)]);

    // Asking once more would fail; what comes after that does.
    let fs = Arc::clone(&world.fs);
    let fail = |number| {
        if number == 0 {
            fs.fail_next(Op::Attr, VfsError::Io(5))
        }
    };
    let found = together(&mut client, &[read(&file), read(&file)], fail);
    assert!(found.iter().all(|results| what_was_read(results) == Ok((10, 10))));
    let found = together(&mut client, &[read(&file)], |_| {});
    assert_eq!(what_was_read(&found[0]), Err(NfsStat3::IO));

    // What the client has changed in between it sees.
    let write = nfs_wire::nfs3::WriteHead {
        handle: Bounded(&file),
        offset_bytes: 10,
        count_bytes: 5,
        stable: nfs_wire::nfs3::StableHow::Unstable,
    };
    let write = (Nfs3Proc::Write, to_vec(&nfs_wire::nfs3::WriteArgs { head: write, data: &[2; 5] }));
    let found = together(&mut client, &[read(&file), write, read(&file)], |_| {});
    assert_eq!(what_was_read(&found[0]), Ok((10, 10)));
    assert_eq!(what_was_read(&found[2]), Ok((15, 15)));
}

/// A compound of 4.0 on a file.
fn on(handle: &[u8], ops: &[nfs4::Op<'_>]) -> (u32, Vec<u8>) {
    let mut args = Vec::new();
    let mut call = CompoundCall::begin(b"", 0, &mut args);
    call.op(&nfs4::Op::Putfh(Bounded(handle)), &mut args);
    ops.iter().for_each(|op| call.op(op, &mut args));
    call.end(&mut args);
    (PROC_COMPOUND, args)
}

fn read4(offset_bytes: u64) -> nfs4::Op<'static> {
    nfs4::Op::Read(nfs4::ReadArgs { stateid: ANONYMOUS, offset_bytes, count_bytes: 10 })
}

/// What the last READ of a compound brought, and whether that was the end.
fn what_was_read4(results: &[u8]) -> Result<(usize, bool), NfsStat4> {
    match Results(results.to_vec()).last() {
        OpResult::Read(Ok(read)) => Ok((read.data.len(), read.eof)),
        OpResult::Read(Err(status)) => Err(status),
        other => panic!("{other:?}"),
    }
}

#[test]
fn compounds_that_only_read_and_come_together_look_at_their_file_once_and_no_longer_than_that() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let (file, other) = (client.make(&root, "file"), client.make(&root, "other"));
    client.write(&file, 0, &[1; 10]).unwrap();
    client.write(&other, 0, &[1; 20]).unwrap();
    let (here, there) = (on(&file, &[read4(0)]), on(&other, &[read4(0)]));
    let read = |client: &mut Client, calls: &[(u32, Vec<u8>)], between: &mut dyn FnMut(usize)| -> Vec<_> {
        together_in(4, client, calls, between).iter().map(|results| what_was_read4(results)).collect()
    };
    let calls = [here.clone(), here.clone(), there, here.clone()];
    assert_eq!(
        read(&mut client, &calls, &mut |_| {}),
        [Ok((10, true)), Ok((10, true)), Ok((10, false)), Ok((10, true))]
    );

    // Asking once more would fail; what comes after that does.
    let fs = Arc::clone(&world.fs);
    let fail = &mut |number| {
        if number == 0 {
            fs.fail_next(Op::Attr, VfsError::Io(5))
        }
    };
    assert_eq!(read(&mut client, &[here.clone(), here.clone()], fail), [Ok((10, true)); 2]);
    assert_eq!(read(&mut client, std::slice::from_ref(&here), &mut |_| {}), [Err(NfsStat4::IO)]);

    // What the client has changed in between it sees, in another compound, in the same one, or in another version.
    let write = |offset_bytes| {
        let head = nfs4::WriteHead { stateid: ANONYMOUS, offset_bytes, stable: nfs4::StableHow::Unstable };
        nfs4::Op::Write(nfs4::WriteArgs { head, data: &[2; 5] })
    };
    let calls = [here.clone(), on(&file, &[read4(0), write(10), read4(10)]), on(&file, &[read4(10)])];
    assert_eq!(read(&mut client, &calls, &mut |_| {}), [Ok((10, true)), Ok((5, true)), Ok((5, true))]);
    let calls = [on(&file, &[read4(10)]), on(&file, &[write(15), read4(10)]), on(&file, &[read4(10)])];
    assert_eq!(read(&mut client, &calls, &mut |_| {}), [Ok((5, true)), Ok((10, true)), Ok((10, true))]);
    let written = |world: &World| {
        let mut other = world.connect();
        other.write(&file, 20, &[3; 5]).unwrap();
    };
    let calls = [on(&file, &[read4(15)]), on(&file, &[read4(15)])];
    assert_eq!(read(&mut client, &calls, &mut |_| {}), [Ok((5, true)); 2]);
    written(&world);
    assert_eq!(read(&mut client, &calls, &mut |_| {}), [Ok((10, true)); 2]);
}
