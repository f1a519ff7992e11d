//! Caching: leases of SMB clients against NFS, delegations of NFS clients against SMB.

use nfs_wire::NfsStat3;
use nfs_wire::nfs4::{NfsStat4, ShareAccess, ShareDeny};
use smb_wire::NtStatus;
use smb_wire::smb2::Disposition;

use crate::both::{Both, READ_CACHE, V4, WRITE_CACHE, answered, broken, lease, waits};
use crate::util::OpenAs;
use crate::util::ops::created;

const NONE: ShareDeny = ShareDeny::empty();

#[test]
fn smb_write_lease_and_nfs3_read() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    let open = lease(&mut anna, "f", WRITE_CACHE);
    assert_eq!(v3.read3(&file, 0, 10), Err(NfsStat3::JUKEBOX), "what is cached is not in the file yet");
    anna.write(open, 0, b"cached");
    assert_eq!(broken(&mut anna), Some((WRITE_CACHE, READ_CACHE)));
    assert_eq!(v3.read3(&file, 0, 10), Ok(b"cached".to_vec()));
    assert_eq!(broken(&mut anna), None, "reading leaves a read cache alone");
}

#[test]
fn smb_write_lease_and_nfs3_write() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    lease(&mut anna, "f", WRITE_CACHE);
    assert_eq!(v3.write3(&file, 0, b"new"), Err(NfsStat3::JUKEBOX));
    assert_eq!(broken(&mut anna), Some((WRITE_CACHE, 0)));
    assert_eq!(v3.write3(&file, 0, b"new"), Ok(()));
}

#[test]
fn smb_read_lease_and_nfs3_write() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    lease(&mut anna, "f", READ_CACHE);
    assert_eq!(v3.read3(&file, 0, 10), Ok(vec![]));
    assert_eq!(v3.write3(&file, 0, b"new"), Ok(()), "nobody need be waited for");
    assert_eq!(broken(&mut anna), Some((READ_CACHE, 0)));
}

#[test]
fn smb_write_lease_and_nfs4_open() {
    let both = Both::new();
    let (mut anna, mut v4) = (both.smb.anna(), V4::new(&both));
    lease(&mut anna, "f", WRITE_CACHE);
    assert_eq!(v4.open("f", ShareAccess::READ, NONE).err(), Some(NfsStat4::DELAY));
    assert_eq!(broken(&mut anna), Some((WRITE_CACHE, READ_CACHE)));
    let opened = v4.open("f", ShareAccess::READ, NONE).unwrap();
    assert_eq!(v4.close(&opened), NfsStat4::OK);
}

#[test]
fn smb_lease_that_is_not_given_up_is_taken() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    lease(&mut anna, "f", WRITE_CACHE);
    assert_eq!(v3.read3(&file, 0, 10), Err(NfsStat3::JUKEBOX));
    both.smb.clock.advance(std::time::Duration::from_secs(60));
    both.smb.server.tick();
    assert_eq!(v3.read3(&file, 0, 10), Ok(vec![]));
}

#[test]
fn nfs4_write_delegation_and_smb_create() {
    let both = Both::new();
    let (mut anna, mut v4) = (both.smb.anna(), V4::new(&both));
    let opened = v4.open("f", ShareAccess::BOTH, NONE).unwrap();
    assert!(opened.delegation.is_some(), "nobody else is there");
    let id = waits(&mut anna, OpenAs::how(Disposition::Open).message("f"));
    assert_eq!(v4.gives_back(&opened), 1);
    assert!(created(&answered(&mut anna, id)).is_ok());
}

#[test]
fn nfs4_read_delegation_and_smb_readers_and_writers() {
    let both = Both::new();
    let (mut anna, (mut v3, root), mut v4) = (both.smb.anna(), both.v3(), V4::new(&both));
    v3.make(&root, "f");
    let opened = v4.open("f", ShareAccess::READ, NONE).unwrap();
    assert!(opened.delegation.is_some());
    let reader = anna.try_create("f", &OpenAs::reader()).map(|created| created.handle);
    assert!(reader.is_ok(), "readers get along");
    let id = waits(&mut anna, OpenAs::how(Disposition::Open).message("f"));
    assert_eq!(v4.gives_back(&opened), 1);
    assert_eq!(answered(&mut anna, id).status(), NtStatus::SUCCESS);
}

#[test]
fn nfs_that_asks_again_and_smb_breaks_leave_nothing_behind() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    for _ in 0..3 {
        let open = lease(&mut anna, "f", WRITE_CACHE);
        assert_eq!(v3.write3(&file, 0, b"new"), Err(NfsStat3::JUKEBOX));
        broken(&mut anna);
        anna.close(open);
    }
    drop(v3);
    anna.hang_up();
    both.smb.assert_nothing_left();
}
