//! Names: deleting and renaming under another protocol's open, delete-pending, watched directories.

use nfs_wire::NfsStat3;
use nfs_wire::nfs4::{NfsStat4, Op, ReadArgs, ShareAccess, ShareDeny};
use nfs_wire::xdr::Bounded;
use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, notify_entries};
use smb_wire::smb2::{ChangeNotifyRequest, Command, Disposition, FileHandle};

use crate::both::{Both, V4, answered, waits};
use crate::util::{Message, OpenAs, Response};

/// Others may read and write.
const KEEP_NAME: u32 = 3;
const NONE: ShareDeny = ShareDeny::empty();
/// READ_DATA and the like, without DELETE.
const LIST: AccessMask = AccessMask::from_bits_retain(0x0012_0089);

#[test]
fn nfs_remove_and_rename_under_an_smb_open() {
    let both = Both::new();
    let (mut anna, (mut v3, root), mut v4) = (both.smb.anna(), both.v3(), V4::new(&both));
    let open = anna.create("f", &OpenAs::default().share(KEEP_NAME));
    assert_eq!(v3.remove3(&root, "f"), Err(NfsStat3::ACCES));
    assert_eq!(v3.rename3(&root, "f", "g"), Err(NfsStat3::ACCES));
    let top = v4.root.clone();
    assert_eq!(v4.status(&[Op::Putfh(Bounded(&top)), Op::Remove(b"f")]), NfsStat4::FILE_OPEN);
    anna.close(open);
    assert_eq!(v3.rename3(&root, "f", "g"), Ok(()));
    let open = anna.create("g", &OpenAs::how(Disposition::Open));
    assert_eq!(v3.remove3(&root, "g"), Ok(()), "it shares deletion");
    anna.write(open, 0, b"still here");
}

#[test]
fn smb_rename_and_delete_under_an_nfs4_open() {
    let both = Both::new();
    let (mut anna, mut v4) = (both.smb.anna(), V4::new(&both));
    let opened = v4.open("f", ShareAccess::READ, NONE).unwrap();
    let id = anna.send(&[OpenAs::how(Disposition::Open).message("f")])[0];
    anna.drive();
    v4.gives_back(&opened);
    let open = crate::util::ops::created(&answered(&mut anna, id)).unwrap().handle;
    anna.rename(open, "g", false).unwrap();
    let read = ReadArgs { stateid: opened.open, offset_bytes: 0, count_bytes: 1 };
    assert_eq!(v4.on(&opened.file, Op::Read(read)), NfsStat4::OK, "an open follows its file");
    anna.dispose(open, true).unwrap();
    anna.close(open);
    assert!(both.smb.exists("g"), "the NFS client has it open");
    assert_eq!(v4.on(&opened.file, Op::Read(read)), NfsStat4::OK);
    assert_eq!(v4.close(&opened), NfsStat4::OK);
    assert!(!both.smb.exists("g"), "the last one to close deletes it");
}

#[test]
fn smb_delete_pending_and_nfs4_open() {
    let both = Both::new();
    let (mut anna, (mut v3, root), mut v4) = (both.smb.anna(), both.v3(), V4::new(&both));
    let file = v3.make(&root, "f");
    let open = anna.create("f", &OpenAs::default());
    anna.dispose(open, true).unwrap();
    assert!(v4.open("f", ShareAccess::READ, NONE).is_err());
    assert_eq!(v3.read3(&file, 0, 1), Ok(vec![]), "whoever has a handle reads on");
    anna.close(open);
    assert_eq!(v3.lookup(&root, "f"), Err(NfsStat3::NOENT));
}

fn notify(handle: FileHandle, filter: u32, recursive: bool) -> Message {
    let asked = ChangeNotifyRequest { recursive, output_bytes: 1000, handle, filter };
    Message::of(Command::ChangeNotify, |out| asked.put(out))
}

fn changes(response: &Response) -> Vec<(u32, String)> {
    assert_eq!(response.status(), NtStatus::SUCCESS);
    let entries = notify_entries(response.output()).unwrap();
    entries.into_iter().map(|(action, name)| (action, smb_wire::name::from_utf16le(name))).collect()
}

#[test]
fn smb_watch_and_what_nfs3_does() {
    let both = Both::new();
    let (mut anna, (mut v3, root)) = (both.smb.anna(), both.v3());
    let top = anna.create("", &OpenAs::directory(Disposition::Open).access(LIST));
    let id = waits(&mut anna, notify(top, 0xfff, true));
    let file = v3.make(&root, "f");
    assert_eq!(changes(&answered(&mut anna, id)), [(1, "f".to_owned())]);
    let id = waits(&mut anna, notify(top, 0xfff, true));
    v3.write3(&file, 0, b"x").unwrap();
    assert_eq!(changes(&answered(&mut anna, id)), [(3, "f".to_owned())]);
    v3.rename3(&root, "f", "g").unwrap();
    v3.remove3(&root, "g").unwrap();
    let kept = changes(&anna.call(notify(top, 0xfff, true)));
    let names: Vec<_> = kept.iter().filter(|(action, _)| *action != 3).cloned().collect();
    assert_eq!(names, [(4, "f".to_owned()), (5, "g".to_owned()), (2, "g".to_owned())]);
}

#[test]
fn smb_watch_and_what_nfs4_does() {
    let both = Both::new();
    let (mut anna, mut v4) = (both.smb.anna(), V4::new(&both));
    let top = anna.create("", &OpenAs::directory(Disposition::Open).access(LIST));
    let id = waits(&mut anna, notify(top, 3, false));
    let opened = v4.open("f", ShareAccess::BOTH, NONE).unwrap();
    assert_eq!(changes(&answered(&mut anna, id)), [(1, "f".to_owned())]);
    v4.close(&opened);
    let root = v4.root.clone();
    assert_eq!(v4.status(&[Op::Putfh(Bounded(&root)), Op::Remove(b"f")]), NfsStat4::OK);
    assert_eq!(changes(&anna.call(notify(top, 3, false))), [(2, "f".to_owned())]);
}
