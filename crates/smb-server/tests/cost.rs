//! What an uncontended request costs the server, alone and beside a server full of leases and waiting notifies, in
//! instructions.
//!
//! `conformance/instructions` runs a test under callgrind, which counts within `serve` only, with LS_OPERATION saying what
//! is asked and LS_REQUESTS how often. Run without it they only show that the requests succeed.

#[path = "util/mod.rs"]
mod util;

use std::task::{Context, Waker};

use smb_server::Connection;
use smb_wire::fscc::{AccessMask, DirInfoClass, FileInfoClass};
use smb_wire::smb2::{
    ChangeNotifyRequest, Command, Disposition, FileHandle, InfoType, LEASE_TAG, LeaseContext, LeaseFlags,
    QueryDirectoryFlags, oplock,
};
use util::{Client, Message, OpenAs, Response, World, ops};
use vfs::{Frame, Reply};

/// Leases and waiting notifies of others.
const OTHERS: u32 = 500;
const RWH: u32 = 7;
const LIST: AccessMask = AccessMask::from_bits_retain(0x0012_0089);
/// FILE_NOTIFY_CHANGE_FILE_NAME and DIR_NAME: what the list of a folder shows; and with LAST_WRITE and SIZE.
const NAMES: u32 = 0x003;
const NAMES_AND_DATA: u32 = 0x01b;
const BLOCK_BYTES: u32 = 4096;
/// Entries of the directory that is listed, and room for all of them.
const ENTRIES: u32 = 100;
const LIST_BYTES: u32 = 64 << 10;
/// Requests before those that count: what is made once is there.
const WARM_UP: u32 = 20;
/// What passes between a request and its reply, as the server is told.
const ROUND_NS: u64 = 1000;

#[test]
fn alone() {
    run(None);
}

#[test]
fn beside_leases_and_notifies() {
    run(Some(NAMES));
}

#[test]
fn beside_watches_for_data() {
    run(Some(NAMES_AND_DATA));
}

fn run(others_watch_for: Option<u32>) {
    let world = World::with(|config, _| config.max_opens = 2 * OTHERS as usize + 10);
    let mut others = world.anna();
    let mut anna = world.anna();
    let handle = if let Some(filter) = others_watch_for {
        crowd(&mut others, filter);
        ops::created(&anna.call(leased(u32::MAX, "file")).ok()).unwrap().handle
    } else {
        anna.create("file", &OpenAs::how(Disposition::OpenIf))
    };
    anna.write(handle, 0, &[7; BLOCK_BYTES as usize]);
    world.mkdir("listed");
    (0..ENTRIES).for_each(|number| world.put(&format!("listed/file number {number}"), b"some"));
    let directory = anna.create("listed", &OpenAs::directory(Disposition::Open));
    let operation = std::env::var("LS_OPERATION").unwrap_or_else(|_| "READ".into());
    let message = asked(&operation, handle, directory);
    (0..WARM_UP).for_each(|_| check(&operation, &anna.call(message.clone())));
    for _ in 0..requests() {
        let frame = framed(&mut anna, &message);
        anna.now_ns += ROUND_NS;
        let reply = serve(&mut anna.conn, anna.now_ns, frame);
        let [response] = &anna.take_apart(reply.head.to_vec())[..] else { panic!("one response to one request") };
        anna.credits += u64::from(response.header.credits);
        check(&operation, response);
    }
}

/// All that the transport has done for one request, once it has come.
#[inline(never)]
fn serve(conn: &mut Connection, now_ns: u64, frame: Frame) -> Reply {
    conn.arrived(now_ns);
    conn.receive(frame, false);
    conn.poll(&mut Context::from_waker(Waker::noop()));
    let reply = conn.next_reply().expect("it is answered in place");
    assert!(conn.next_reply().is_none());
    conn.sent(now_ns + ROUND_NS);
    reply
}

fn framed(client: &mut Client, message: &Message) -> Frame {
    let (message, _) = client.encode(std::slice::from_ref(message));
    let mut buf = client.pool.get(message.len() + 4);
    buf.push(&(message.len() as u32).to_be_bytes());
    buf.push(&message);
    Frame::from(buf)
}

fn asked(operation: &str, file: FileHandle, directory: FileHandle) -> Message {
    match operation {
        "READ" => ops::read_message(file, 0, BLOCK_BYTES),
        "WRITE" => ops::write_message(file, 0, &[8; BLOCK_BYTES as usize]),
        "QUERY_INFO" => ops::query_message(file, InfoType::File, FileInfoClass::ALL.0, 1024),
        "QUERY_DIRECTORY" => {
            let (class, from_the_start) = (DirInfoClass::IdBothDirectory, QueryDirectoryFlags::RESTART_SCANS);
            ops::list_message(directory, class, from_the_start, "*", LIST_BYTES)
        }
        other => panic!("what is {other}?"),
    }
}

/// Whether it was done, all of it.
fn check(operation: &str, response: &Response) {
    let least = match operation {
        "READ" => BLOCK_BYTES,
        "QUERY_DIRECTORY" => ENTRIES * 100,
        _ => 0,
    };
    assert_eq!(response.status(), smb_wire::NtStatus::SUCCESS, "{operation}");
    assert!(response.bytes.len() >= least as usize, "{operation}: {} bytes", response.bytes.len());
}

fn requests() -> u32 {
    std::env::var("LS_REQUESTS").map_or(10, |text| text.parse().expect("a number of requests"))
}

/// Leases on files and watches on directories, none of which the requests touch.
fn crowd(client: &mut Client, filter: u32) {
    for number in 0..OTHERS {
        client.call(leased(number, &format!("leased {number}"))).ok();
        let how = OpenAs::directory(Disposition::OpenIf).access(LIST);
        let directory = client.create(&format!("watched {number}"), &how);
        wait_for_changes(client, directory, filter);
    }
}

fn leased(number: u32, name: &str) -> Message {
    let mut data = Vec::new();
    let mut key = [0x1e; 16];
    key[..4].copy_from_slice(&number.to_le_bytes());
    LeaseContext { key, state: RWH, flags: LeaseFlags::empty(), v2: None }.put(&mut data);
    let mut how = OpenAs::how(Disposition::OpenIf);
    how.contexts.push((LEASE_TAG.to_vec(), data));
    let mut message = how.message(name);
    message.body[3] = oplock::LEASE;
    message
}

fn wait_for_changes(client: &mut Client, directory: FileHandle, filter: u32) {
    let asked = ChangeNotifyRequest { recursive: false, output_bytes: 1000, handle: directory, filter };
    let id = client.send(&[Message::of(Command::ChangeNotify, |out| asked.put(out))])[0];
    client.drive();
    assert!(client.take(id).is_none(), "it waits");
}
