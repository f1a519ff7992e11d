//! Attributes and data: GETATTR, SETATTR, READ, WRITE, COMMIT, and what SMB's claims mean to them.

use std::sync::Arc;

use coherence::{AccessKinds, LockOutcome, LockRange, OpenRequest, Outcome, ShareKinds};
use nfs_wire::NfsStat3;
use nfs_wire::nfs3::{
    Access, AccessArgs, AccessRes, CommitArgs, CommitRes, Nfs3Proc, ReadArgs, ReadRes, Sattr, SetTime, SetattrArgs,
    SetattrRes, StableHow, Time, WriteArgs, WriteHead, WriteRes,
};
use nfs_wire::xdr::Bounded;
use vfs::memfs::Op;
use vfs::{Backend, VfsError};

use super::world::{self, Client, UID, World, all};

impl Client {
    pub fn read(&mut self, handle: &[u8], offset_bytes: u64, count_bytes: u32) -> Result<(Vec<u8>, bool), NfsStat3> {
        let args = ReadArgs { handle: Bounded(handle), offset_bytes, count_bytes };
        let results = self.nfs(Nfs3Proc::Read, &args);
        let result: ReadRes<'_> = all(&results);
        result.map(|ok| (ok.data.to_vec(), ok.eof)).map_err(|failed| failed.status)
    }

    pub fn write_how(
        &mut self,
        handle: &[u8],
        offset_bytes: u64,
        data: &[u8],
        stable: StableHow,
    ) -> Result<(StableHow, [u8; 8]), NfsStat3> {
        let head = WriteHead { handle: Bounded(handle), offset_bytes, count_bytes: data.len() as u32, stable };
        let results = self.nfs(Nfs3Proc::Write, &WriteArgs { head, data });
        let result: WriteRes = all(&results);
        result
            .map(|ok| {
                assert_eq!(ok.count_bytes as usize, data.len());
                assert!(ok.wcc.before.is_some() && ok.wcc.after.is_some());
                (ok.committed, ok.verifier)
            })
            .map_err(|failed| failed.status)
    }

    pub fn write(&mut self, handle: &[u8], offset: u64, data: &[u8]) -> Result<(), NfsStat3> {
        self.write_how(handle, offset, data, StableHow::Unstable).map(|_| ())
    }

    fn commit(&mut self, handle: &[u8]) -> Result<[u8; 8], NfsStat3> {
        let results =
            self.nfs(Nfs3Proc::Commit, &CommitArgs { handle: Bounded(handle), offset_bytes: 0, count_bytes: 0 });
        all::<CommitRes>(&results).map(|ok| ok.verifier).map_err(|failed| failed.status)
    }

    pub fn setattr(&mut self, handle: &[u8], attributes: Sattr, guard_ctime: Option<Time>) -> Result<(), NfsStat3> {
        let results = self.nfs(Nfs3Proc::Setattr, &SetattrArgs { handle: Bounded(handle), attributes, guard_ctime });
        all::<SetattrRes>(&results).map(|_| ()).map_err(|failed| failed.status)
    }
}

#[test]
fn what_is_written_is_read() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "f");
    client.write(&file, 0, b"hello world").unwrap();
    assert_eq!(client.read(&file, 0, 5), Ok((b"hello".to_vec(), false)));
    assert_eq!(client.read(&file, 6, 100), Ok((b"world".to_vec(), true)));
    assert_eq!(client.read(&file, 11, 100), Ok((vec![], true)));
    assert_eq!(client.read(&file, u64::MAX, 100), Ok((vec![], true)));
    assert_eq!(client.read(&root, 0, 100), Err(NfsStat3::ISDIR));
    let attr = client.getattr(&file).unwrap();
    assert_eq!((attr.size_bytes, attr.uid, attr.mode), (11, UID, 0o644));
    assert_eq!(world.fs.objects(), 2);
    assert!(world.server.open_count() > 0, "files are kept open between calls");
}

#[test]
fn what_blocks_is_done_on_a_worker() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "f");
    client.write(&file, 0, b"text").unwrap();
    world.fs.block_next(1);
    assert_eq!(client.read(&file, 0, 10), Ok((b"text".to_vec(), true)));
    assert_eq!(world.counters.read_waited.load(std::sync::atomic::Ordering::Relaxed), 1);
    world.fs.block_next(1);
    assert!(client.lookup(&root, "f").is_ok());
}

#[test]
fn stable_writes_are_synced_and_a_failure_is_told() {
    let mut world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "f");
    let (committed, verifier) = client.write_how(&file, 0, b"a", StableHow::FileSync).unwrap();
    assert_eq!(committed, StableHow::FileSync);
    assert_eq!(client.commit(&file), Ok(verifier));
    world.fs.fail_next(Op::Sync, VfsError::Io(5));
    assert_eq!(client.commit(&file), Err(NfsStat3::IO));
    let after = client.commit(&file).unwrap();
    assert_ne!(after, verifier, "what may be lost is sent again");
    world.fs.fail_next(Op::Sync, VfsError::NoSpace);
    assert_eq!(client.write_how(&file, 0, b"a", StableHow::DataSync), Err(NfsStat3::NOSPC));
    world.restart();
    let mut client = world.connect();
    let again = client.commit(&file).expect("the handle outlives the server");
    assert!(again != verifier && again != after);
}

#[test]
fn what_was_written_before_a_failed_sync_does_not_pass_for_later() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "f");
    let before = client.commit(&file).unwrap();
    let (server, counters, fs) = (Arc::clone(&world.server), Arc::clone(&world.counters), Arc::clone(&world.fs));
    let same = file.clone();
    // The data are there, their answer is not made yet, and somebody else's COMMIT fails.
    *world.after_job.lock().unwrap() = Some(Box::new(move || {
        let mut other = world::connect(&server, &counters, Arc::new(vfs::Inline), "127.0.0.1:701", UID);
        fs.fail_next(Op::Sync, VfsError::Io(5));
        assert_eq!(other.commit(&same), Err(NfsStat3::IO));
    }));
    let head = WriteHead { handle: Bounded(&file), offset_bytes: 0, count_bytes: 1, stable: StableHow::FileSync };
    let results = client.nfs(Nfs3Proc::Write, &WriteArgs { head, data: b"a" });
    assert_eq!(all::<WriteRes>(&results).unwrap().verifier, before);
    assert_ne!(client.commit(&file), Ok(before), "it is written again");
}

#[test]
fn attributes_are_set_within_bounds() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "f");
    let size = |size| Sattr { size_bytes: Some(size), ..Sattr::NONE };
    let time = |nanoseconds| Sattr { mtime: SetTime::Client(Time { seconds: 9, nanoseconds }), ..Sattr::NONE };
    client.setattr(&file, size(5), None).unwrap();
    assert_eq!(client.getattr(&file).unwrap().size_bytes, 5);
    assert_eq!(client.setattr(&file, size(u64::MAX), None), Err(NfsStat3::FBIG));
    assert_eq!(client.setattr(&file, time(1_000_000_000), None), Err(NfsStat3::INVAL));
    client.setattr(&file, time(999_999_999), None).unwrap();
    assert_eq!(client.getattr(&file).unwrap().mtime, Time { seconds: 9, nanoseconds: 999_999_999 });
    assert_eq!(client.setattr(&root, size(0), None), Err(NfsStat3::ISDIR));
    let ctime = client.getattr(&file).unwrap().ctime;
    world.clock.advance(std::time::Duration::from_secs(1));
    client.setattr(&file, size(1), Some(ctime)).unwrap();
    assert_eq!(client.setattr(&file, size(2), Some(ctime)), Err(NfsStat3::NOT_SYNC));
    assert_eq!(client.write(&file, 1 << 63, b"x"), Err(NfsStat3::FBIG));
    assert_eq!(client.write(&file, u64::MAX, b"x"), Err(NfsStat3::FBIG));
}

#[test]
fn others_are_held_to_the_permissions_and_owners_are_not_to_theirs() {
    let world = World::new();
    let mut owner = world.connect();
    let root = owner.root();
    let file = owner.make(&root, "f");
    owner.setattr(&file, Sattr { mode: Some(0o400), ..Sattr::NONE }, None).unwrap();
    owner.write(&file, 0, b"x").expect("who opened the file may go on");
    let mut other = world.connect_from("127.0.0.1:701", UID + 1);
    assert_eq!(other.read(&file, 0, 1), Err(NfsStat3::ACCES));
    assert_eq!(other.write(&file, 0, b"y"), Err(NfsStat3::ACCES));
    owner.setattr(&file, Sattr { mode: Some(0o444), ..Sattr::NONE }, None).unwrap();
    assert_eq!(other.read(&file, 0, 1), Ok((b"x".to_vec(), true)));
    owner.setattr(&file, Sattr { mode: Some(0o400), ..Sattr::NONE }, None).unwrap();
    assert_eq!(other.read(&file, 0, 1), Err(NfsStat3::ACCES), "what is kept open gives no rights");
    let asked = AccessArgs { handle: Bounded(&file), access: Access::READ | Access::MODIFY };
    let results = owner.nfs(Nfs3Proc::Access, &asked);
    assert_eq!(all::<AccessRes>(&results).unwrap().access, Access::READ);
}

#[test]
fn share_modes_and_ranges_of_smb_hold_for_nfs() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "f");
    client.write(&file, 0, b"text").unwrap();
    let path = vfs::Path::new(b"f").unwrap();
    let cred = vfs::Cred { uid: 0, gid: 0, groups: [].into() };
    let id = world.fs.attr_at(&cred, &*world.fs.root(), &path, vfs::Wait::Allowed).unwrap().id;
    let open = |share| {
        let request = OpenRequest::new(id, AccessKinds::READ | AccessKinds::WRITE, share);
        match world.table.open(coherence::Instant(0), &request).unwrap() {
            Outcome::Done(opened) => opened.claim,
            Outcome::Wait(_) => panic!("nobody holds a grant"),
        }
    };
    let deny_write = open(ShareKinds::READ);
    assert_eq!(client.write(&file, 0, b"y"), Err(NfsStat3::ACCES));
    assert_eq!(client.setattr(&file, Sattr { size_bytes: Some(0), ..Sattr::NONE }, None), Err(NfsStat3::ACCES));
    assert_eq!(client.remove(&root, "f"), Err(NfsStat3::ACCES));
    assert_eq!(client.rename(&root, "f", "g"), Err(NfsStat3::ACCES));
    assert_eq!(client.read(&file, 0, 4), Ok((b"text".to_vec(), true)));
    drop(deny_write);
    client.write(&file, 0, b"T").unwrap();
    let claim = open(ShareKinds::all());
    let range = LockRange { offset: 2, len: 2, exclusive: true };
    assert_eq!(claim.lock(&[range], false), Ok(LockOutcome::Held));
    assert_eq!(client.write(&file, 3, b"y"), Err(NfsStat3::ACCES));
    assert_eq!(client.read(&file, 0, 4), Err(NfsStat3::ACCES));
    assert_eq!(client.read(&file, 0, 2), Ok((b"Te".to_vec(), false)));
    drop(claim);
    assert!(client.read(&file, 0, 4).is_ok());
    assert_eq!(client.remove(&root, "f"), Ok(()));
    assert_eq!(world.table.stats(), coherence::Stats::default(), "nothing is left behind");
}
