//! What running Samba's gentest and other people's suites beside Samba has found: each rule once.

use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, BasicInfo, FileAttributes, FileInfoClass, FileTime};
use smb_wire::smb2::{Command, CreateOptions, Disposition, FileHandle, LockRequest};

use crate::util::client::Client;
use crate::util::message::Message;
use crate::util::{OpenAs, World};

fn basic(client: &mut Client, handle: FileHandle) -> BasicInfo {
    let (status, info) = client.query(handle, FileInfoClass::BASIC, 4096);
    assert_eq!(status, NtStatus::SUCCESS);
    BasicInfo::decode(&info).unwrap()
}

fn set_basic(client: &mut Client, handle: FileHandle, written: u64, attributes: FileAttributes) {
    let none = FileTime(0);
    let info = BasicInfo { created: none, accessed: none, written: FileTime(written), changed: none, attributes };
    let mut bytes = Vec::new();
    info.encode(&mut bytes);
    client.set(handle, FileInfoClass::BASIC, &bytes).unwrap();
}

#[test]
fn deleting_on_close_is_asked_for_by_name() {
    let world = World::new();
    let mut client = world.anna();
    let all = OpenAs::default().access(AccessMask::MAXIMUM_ALLOWED).options(CreateOptions::DELETE_ON_CLOSE);
    assert_eq!(client.try_create("f", &all).err(), Some(NtStatus::INVALID_PARAMETER));
    let named = all.access(AccessMask::MAXIMUM_ALLOWED | AccessMask::DELETE);
    client.create("f", &named);
}

#[test]
fn a_write_sets_the_archive_attribute_and_leaves_a_write_time_that_was_set() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("f", &OpenAs::default());
    client.write(handle, 0, b"one");
    let long_ago = FileTime::from_unix(1_000_000_000, 0).0;
    set_basic(&mut client, handle, long_ago, FileAttributes::HIDDEN);
    assert_eq!(basic(&mut client, handle).attributes, FileAttributes::HIDDEN);
    client.write(handle, 0, b"two");
    let after = basic(&mut client, handle);
    assert_eq!(after.attributes, FileAttributes::HIDDEN | FileAttributes::ARCHIVE);
    assert_eq!(after.written.0, long_ago);
    client.close(handle);
    let another = client.create("f", &OpenAs::default());
    client.write(another, 0, b"three");
    assert_ne!(basic(&mut client, another).written.0, long_ago, "it was set through another open");
}

#[test]
fn a_rename_sets_the_archive_attribute() {
    let world = World::new();
    world.mkdir("d");
    let mut client = world.anna();
    let handle = client.create("d", &OpenAs::directory(Disposition::Open).access(AccessMask::MAXIMUM_ALLOWED));
    assert_eq!(basic(&mut client, handle).attributes, FileAttributes::DIRECTORY);
    client.rename(handle, "e", false).unwrap();
    assert_eq!(basic(&mut client, handle).attributes, FileAttributes::DIRECTORY | FileAttributes::ARCHIVE);
}

#[test]
fn a_directory_has_one_name() {
    let world = World::new();
    world.mkdir("d");
    world.mkdir("d/below");
    let mut client = world.anna();
    let handle = client.create("d", &OpenAs::directory(Disposition::Open));
    let (_, standard) = client.query(handle, FileInfoClass::STANDARD, 4096);
    assert_eq!(standard[16..20], 1u32.to_le_bytes());
}

#[test]
fn a_directory_that_files_are_open_in_does_not_move_not_even_to_its_own_name() {
    let world = World::new();
    world.mkdir("d");
    world.put("d/f", b"");
    let (mut client, mut other) = (world.anna(), world.anna());
    let handle = client.create("d", &OpenAs::directory(Disposition::Open).access(AccessMask::MAXIMUM_ALLOWED));
    let held = other.create("d\\f", &OpenAs::default());
    assert_eq!(client.rename(handle, "d", false), Err(NtStatus::ACCESS_DENIED));
    other.close(held);
    client.rename(handle, "d", false).unwrap();
}

#[test]
fn a_lock_of_no_ranges_is_first_one_of_an_open() {
    let world = World::new();
    let mut client = world.anna();
    let handle = client.create("f", &OpenAs::default());
    let message =
        |handle| Message::of(Command::Lock, |out| LockRequest { sequence: 0, handle, locks: Vec::new() }.put(out));
    client.call(message(handle)).expect(NtStatus::INVALID_PARAMETER);
    client.close(handle);
    client.call(message(handle)).expect(NtStatus::FILE_CLOSED);
}
