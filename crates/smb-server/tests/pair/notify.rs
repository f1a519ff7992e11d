//! Watched directories (MS-SMB2 3.3.5.19): what is told, when, and what ends the wait.

use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, FileInfoClass, notify_entries};
use smb_wire::smb2::{ChangeNotifyRequest, Command, Disposition, FileHandle, Flags};

use crate::util::ops::close_message;
use crate::util::{Client, Message, OpenAs, Response, World};

const LIST: AccessMask = AccessMask::from_bits_retain(0x0012_0089);
const NAMES: u32 = 3;
const ALL: u32 = 0xfff;

fn notify(handle: FileHandle, filter: u32, recursive: bool, output_bytes: u32) -> Message {
    let asked = ChangeNotifyRequest { recursive, output_bytes, handle, filter };
    Message::of(Command::ChangeNotify, |out| asked.put(out))
}

fn directory(client: &mut Client, name: &str) -> FileHandle {
    // Without DELETE, which would keep others from renaming what is in it.
    client.create(name, &OpenAs::directory(Disposition::OpenIf).access(LIST))
}

/// Sends a request that is to wait.
fn wait_for(client: &mut Client, message: Message) -> u64 {
    let id = client.send(&[message])[0];
    client.drive();
    assert!(client.take(id).is_none(), "it waits");
    id
}

fn answered(client: &mut Client, id: u64) -> Response {
    client.poll();
    client.take(id).expect("an answer")
}

fn changes(response: &Response) -> Vec<(u32, String)> {
    assert_eq!(response.status(), NtStatus::SUCCESS);
    let entries = notify_entries(response.output()).unwrap();
    entries.into_iter().map(|(action, name)| (action, smb_wire::name::from_utf16le(name))).collect()
}

#[test]
fn what_another_client_does_is_told() {
    let world = World::new();
    let (mut anna, mut other) = (world.anna(), world.anna());
    let dir = directory(&mut anna, "d");
    let id = wait_for(&mut anna, notify(dir, NAMES, false, 1000));
    let made = other.create("d\\new", &OpenAs::how(Disposition::Create));
    assert_eq!(changes(&answered(&mut anna, id)), [(1, "new".to_owned())]);

    // What happens between requests is kept.
    other.rename(made, "d\\newer", false).unwrap();
    other.dispose(made, true).unwrap();
    other.close(made);
    let kept = anna.call(notify(dir, NAMES, false, 1000));
    assert_eq!(changes(&kept), [(4, "new".to_owned()), (5, "newer".to_owned()), (2, "newer".to_owned())]);
}

#[test]
fn depth_and_filter_are_those_of_the_first_request() {
    let world = World::new();
    let (mut anna, mut other) = (world.anna(), world.anna());
    directory(&mut other, "d");
    directory(&mut other, "d\\deep");
    let (flat, deep) = (directory(&mut anna, "d"), directory(&mut anna, "d"));
    let flat_id = wait_for(&mut anna, notify(flat, NAMES, false, 1000));
    let deep_id = wait_for(&mut anna, notify(deep, 0x10, true, 1000));
    other.write_file("d\\deep\\x", b"1");
    assert_eq!(changes(&answered(&mut anna, deep_id)), [(3, "deep\\x".to_owned())]);
    assert!(anna.take(flat_id).is_none());
    other.write_file("d\\y", b"1");
    assert_eq!(changes(&answered(&mut anna, flat_id)), [(1, "y".to_owned())]);
}

#[test]
fn more_than_fits_is_said() {
    let world = World::new();
    let (mut anna, mut other) = (world.anna(), world.anna());
    let dir = directory(&mut anna, "d");
    let id = wait_for(&mut anna, notify(dir, ALL, true, 40));
    other.write_file("d\\a", b"1");
    assert_eq!(answered(&mut anna, id).status(), NtStatus::SUCCESS);
    for n in 0..10 {
        other.write_file(&format!("d\\file{n}"), b"1");
    }
    let said = anna.call(notify(dir, ALL, true, 1000));
    assert_eq!((said.status(), said.output().len()), (NtStatus::NOTIFY_ENUM_DIR, 0));
    other.write_file("d\\z", b"");
    assert_eq!(changes(&anna.call(notify(dir, ALL, true, 1000))), [(1, "z".to_owned())]);
}

#[test]
fn a_wait_ends_with_cancel_close_and_deletion() {
    let world = World::new();
    let (mut anna, mut other) = (world.anna(), world.anna());
    let dir = directory(&mut anna, "d");
    let id = wait_for(&mut anna, notify(dir, ALL, true, 1000));
    anna.call(close_message(dir)).ok();
    assert_eq!(answered(&mut anna, id).status(), NtStatus::NOTIFY_CLEANUP);

    let dir = directory(&mut anna, "d");
    let id = wait_for(&mut anna, notify(dir, ALL, true, 1000));
    let again = other.create("d", &OpenAs::directory(Disposition::Open));
    other.dispose(again, true).unwrap();
    assert_eq!(answered(&mut anna, id).status(), NtStatus::DELETE_PENDING);
    anna.call(notify(dir, ALL, true, 1000)).expect(NtStatus::DELETE_PENDING);
}

#[test]
fn nobody_is_told_of_what_they_do_not_watch() {
    let world = World::new();
    let (mut anna, mut other) = (world.anna(), world.anna());
    let file = anna.create("f", &OpenAs::default());
    anna.call(notify(file, ALL, true, 1000)).expect(NtStatus::INVALID_PARAMETER);
    let dir = directory(&mut anna, "d");
    let id = wait_for(&mut anna, notify(dir, 4, true, 1000));
    other.write_file("elsewhere", b"1");
    other.write_file("d\\here", b"1");
    anna.poll();
    assert!(anna.take(id).is_none());
    let here = other.create("d\\here", &OpenAs::default());
    let mut hidden = vec![0; 40];
    hidden[32] = 2;
    other.set(here, FileInfoClass::BASIC, &hidden).unwrap();
    assert_eq!(changes(&answered(&mut anna, id)), [(3, "here".to_owned())]);
}

#[test]
fn in_the_middle_of_a_compound_nothing_waits() {
    let world = World::new();
    let mut anna = world.anna();
    let dir = directory(&mut anna, "d");
    let all = anna.compound(&[notify(dir, ALL, true, 1000), close_message(FileHandle::PREVIOUS).related()]);
    assert_eq!(all[0].status(), NtStatus::INTERNAL_ERROR);
    assert!(!all[0].header.flags.contains(Flags::ASYNC));
}

#[test]
fn very_many_waits_neither_stop_the_connection_nor_keep_receive_buffers() {
    let world = World::new();
    let mut client = world.anna();
    let dir = directory(&mut client, "d");
    let before = world.pool.stats().used_bytes;
    let count = 3000;
    for _ in 0..count {
        let (message, _) = client.encode(&[notify(dir, NAMES, false, 1000)]);
        // As the transport has it: a large buffer with a small frame in it.
        let mut buf = client.pool.get(256 << 10);
        buf.push(&(message.len() as u32).to_be_bytes());
        buf.push(&message);
        client.poll();
        client.conn.receive(vfs::Frame::from(buf), false);
        client.collect();
        assert!(client.conn.is_ready());
    }
    let used = world.pool.stats().used_bytes - before;
    assert!(used <= count * (4 << 10), "{used} bytes are kept");
    client.close(dir);
    client.hang_up();
    world.assert_nothing_left();
}
