//! Share modes: what an SMB open, an NFSv4 open and a moment's NFSv3 I/O let one another do.

use nfs_wire::NfsStat3;
use nfs_wire::nfs4::{NfsStat4, ShareAccess, ShareDeny};
use smb_wire::NtStatus;
use smb_wire::smb2::Disposition;

use crate::both::{Both, V4};
use crate::util::OpenAs;

/// Others may read and delete.
const NO_WRITERS: u32 = 5;
/// Others may write and delete.
const NO_READERS: u32 = 6;
const NONE: ShareDeny = ShareDeny::empty();

#[test]
fn smb_deny_write_and_nfs() {
    let both = Both::new();
    let (mut anna, (mut v3, root), mut v4) = (both.smb.anna(), both.v3(), V4::new(&both));
    let file = v3.make(&root, "f");
    let open = anna.create("f", &OpenAs::reader().share(NO_WRITERS));
    assert_eq!(v4.open("f", ShareAccess::WRITE, NONE).err(), Some(NfsStat4::SHARE_DENIED));
    assert_eq!(v3.write3(&file, 0, b"x"), Err(NfsStat3::ACCES));
    assert_eq!(v3.read3(&file, 0, 1), Ok(vec![]));
    assert!(v4.open("f", ShareAccess::READ, NONE).is_ok());
    anna.close(open);
    assert!(v4.open("f", ShareAccess::WRITE, NONE).is_ok());
}

#[test]
fn smb_deny_read_and_nfs() {
    let both = Both::new();
    let (mut anna, (mut v3, root), mut v4) = (both.smb.anna(), both.v3(), V4::new(&both));
    let file = v3.make(&root, "f");
    anna.create("f", &OpenAs::default().share(NO_READERS));
    assert_eq!(v4.open("f", ShareAccess::READ, NONE).err(), Some(NfsStat4::SHARE_DENIED));
    assert_eq!(v3.read3(&file, 0, 1), Err(NfsStat3::ACCES));
}

#[test]
fn nfs4_deny_write_and_smb() {
    let both = Both::new();
    let (mut anna, mut v4) = (both.smb.anna(), V4::new(&both));
    let opened = v4.open("f", ShareAccess::READ, ShareDeny::WRITE).unwrap();
    if opened.delegation.is_some() {
        let _ = anna.send(&[OpenAs::how(Disposition::Open).message("f")]);
        anna.drive();
        v4.gives_back(&opened);
        anna.drive();
    }
    assert_eq!(anna.try_create("f", &OpenAs::how(Disposition::Open)).err(), Some(NtStatus::SHARING_VIOLATION));
    assert!(anna.try_create("f", &OpenAs::reader()).is_ok());
    assert_eq!(v4.close(&opened), NfsStat4::OK);
    assert!(anna.try_create("f", &OpenAs::how(Disposition::Open)).is_ok());
}
