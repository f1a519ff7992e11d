//! What an uncontended READ or WRITE costs, alone and beside a server full of leases and waiting notifies, in instructions.
//!
//! `conformance/instructions` runs each test under callgrind with LS_REQUESTS set to two numbers, and takes what the further
//! requests cost. Run without it they only show that the requests succeed.

#[path = "util/mod.rs"]
mod util;

use smb_wire::fscc::AccessMask;
use smb_wire::smb2::{
    ChangeNotifyRequest, Command, Disposition, FileHandle, LEASE_TAG, LeaseContext, LeaseFlags, oplock,
};
use util::{Client, Message, OpenAs, World};

/// Leases and waiting notifies of others.
const OTHERS: u32 = 500;
const RWH: u32 = 7;
const LIST: AccessMask = AccessMask::from_bits_retain(0x0012_0089);
/// FILE_NOTIFY_CHANGE_FILE_NAME and DIR_NAME: what the list of a folder shows; and with LAST_WRITE and SIZE.
const NAMES: u32 = 0x003;
const NAMES_AND_DATA: u32 = 0x01b;
const BLOCK_BYTES: u32 = 4096;

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

/// Leases on files and watches on directories, none of which the requests touch.
fn crowd(client: &mut Client, filter: u32) {
    for number in 0..OTHERS {
        client.call(leased(number, &format!("leased {number}"))).ok();
        let how = OpenAs::directory(Disposition::OpenIf).access(LIST);
        let directory = client.create(&format!("watched {number}"), &how);
        wait_for_changes(client, directory, filter);
    }
}

fn requests() -> u32 {
    std::env::var("LS_REQUESTS").map_or(10, |text| text.parse().expect("a number of requests"))
}

fn run(others_watch_for: Option<u32>) {
    let world = World::with(|config, _| config.max_opens = 2 * OTHERS as usize + 10);
    let mut others = world.anna();
    let mut anna = world.anna();
    let handle = if let Some(filter) = others_watch_for {
        crowd(&mut others, filter);
        util::ops::created(&anna.call(leased(u32::MAX, "file")).ok()).unwrap().handle
    } else {
        anna.create("file", &OpenAs::how(Disposition::OpenIf))
    };
    let block = vec![7; BLOCK_BYTES as usize];
    anna.write(handle, 0, &block);
    let writes = std::env::var("LS_WRITES").is_ok();
    for _ in 0..requests() {
        if writes {
            anna.write(handle, 0, &block);
        } else {
            assert_eq!(anna.read(handle, 0, BLOCK_BYTES).len(), block.len());
        }
    }
}

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
