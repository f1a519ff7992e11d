//! Byte ranges: SMB's, NFSv4's and NLM's against one another's and against I/O.

use nfs_wire::NfsStat3;
use nfs_wire::nfs4::{NfsStat4, ShareAccess, ShareDeny};
use nfs_wire::nlm::NlmStat;
use smb_wire::NtStatus;
use smb_wire::smb2::LockFlags;

use crate::both::{Both, V4, answered, waits};
use crate::util::{Message, OpenAs};

const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE;
const NONE: ShareDeny = ShareDeny::empty();

#[test]
fn smb_lock_and_nlm_lock() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    let open = anna.create("f", &OpenAs::default());
    anna.lock(open, 0, 10, EXCLUSIVE).unwrap();
    assert_eq!(v3.nlm_lock(&file, (5, 1), false), NlmStat::Denied);
    assert_eq!(v3.nlm_lock(&file, (10, 5), false), NlmStat::Granted);
    assert_eq!(anna.lock(open, 10, 1, EXCLUSIVE), Err(NtStatus::LOCK_NOT_GRANTED));
    assert_eq!(v3.nlm_unlock(&file, (10, 5)), NlmStat::Granted);
    anna.lock(open, 10, 1, EXCLUSIVE).unwrap();
}

#[test]
fn smb_lock_waits_for_nlm_and_nlm_for_smb() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    let open = anna.create("f", &OpenAs::default());
    assert_eq!(v3.nlm_lock(&file, (0, 10), false), NlmStat::Granted);
    let id = waits(&mut anna, patient(open, 0, 10));
    v3.nlm_unlock(&file, (0, 10));
    assert_eq!(answered(&mut anna, id).status(), NtStatus::SUCCESS);
    assert_eq!(v3.nlm_lock(&file, (0, 10), true), NlmStat::Blocked);
    assert!(both.nfs.dialer.0.lock().unwrap().is_empty());
    anna.lock(open, 0, 10, LockFlags::UNLOCK).unwrap();
    assert_eq!(both.nfs.dialer.0.lock().unwrap().len(), 1, "the host is asked where its lock manager is");
    assert_eq!(anna.lock(open, 0, 1, EXCLUSIVE), Err(NtStatus::LOCK_NOT_GRANTED), "it is NLM's now");
}

/// A LOCK that waits.
fn patient(handle: smb_wire::smb2::FileHandle, offset_bytes: u64, len_bytes: u64) -> Message {
    use smb_wire::smb2::{Command, LockElement, LockRequest};
    let locks = vec![LockElement { offset_bytes, len_bytes, flags: EXCLUSIVE }];
    Message::of(Command::Lock, |out| LockRequest { sequence: 0, handle, locks }.put(out))
}

#[test]
fn smb_lock_and_nfs_io() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    v3.write3(&file, 0, &[7; 30]).unwrap();
    let open = anna.create("f", &OpenAs::default());
    anna.lock(open, 0, 10, EXCLUSIVE).unwrap();
    assert_eq!(v3.read3(&file, 5, 10), Err(NfsStat3::ACCES));
    assert_eq!(v3.write3(&file, 5, b"x"), Err(NfsStat3::ACCES));
    assert_eq!(v3.read3(&file, 10, 10), Ok(vec![7; 10]));
    anna.lock(open, 20, 10, LockFlags::SHARED).unwrap();
    assert_eq!(v3.read3(&file, 20, 10), Ok(vec![7; 10]));
    assert_eq!(v3.write3(&file, 20, b"x"), Err(NfsStat3::ACCES));
}

#[test]
fn nfs_locks_and_smb_io() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let file = v3.make(&root, "f");
    v3.write3(&file, 0, &[7; 30]).unwrap();
    let open = anna.create("f", &OpenAs::default());
    assert_eq!(v3.nlm_lock(&file, (0, 10), false), NlmStat::Granted);
    assert_eq!(anna.try_read(open, 0, 5), Err(NtStatus::FILE_LOCK_CONFLICT));
    assert_eq!(anna.try_write(open, 9, b"x"), Err(NtStatus::FILE_LOCK_CONFLICT));
    assert_eq!(anna.try_write(open, 10, b"x"), Ok(1));
    assert_eq!(v3.write3(&file, 0, b"x"), Ok(()), "among NFS clients locks are advice");
}

#[test]
fn nfs4_lock_nlm_lock_and_smb_lock() {
    let both = Both::new();
    let (mut anna, (mut v3, root), mut v4) = (both.smb.anna(), both.v3(), V4::new(&both));
    let file = v3.make(&root, "f");
    let open = anna.create("f", &OpenAs::default());
    let opened = v4.open("f", ShareAccess::BOTH, NONE).unwrap();
    assert_eq!(v4.lock(&opened, 0, 10), NfsStat4::OK);
    assert_eq!(v3.nlm_lock(&file, (0, 1), false), NlmStat::Denied);
    assert_eq!(anna.lock(open, 9, 1, EXCLUSIVE), Err(NtStatus::LOCK_NOT_GRANTED));
    assert_eq!(v3.nlm_lock(&file, (10, 10), false), NlmStat::Granted);
    assert_eq!(v4.lock(&opened, 12, 1), NfsStat4::DENIED);
    anna.lock(open, 30, 10, EXCLUSIVE).unwrap();
    assert_eq!(v4.lock(&opened, 39, 2), NfsStat4::DENIED);
}
