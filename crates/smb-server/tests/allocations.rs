//! How often a request takes memory from the allocator on its way through a connection, when requests of its kind have gone
//! before it: from its frame to its reply taken and dropped. None for a READ; of what opens and closes there are bounds,
//! which may be lowered. The file system is the one in memory, whose own share is counted too.

mod util;

use allocation_counter::measure;
use smb_wire::fscc::{AccessMask, DirInfoClass, FileInfoClass};
use smb_wire::smb2::{Disposition, InfoType, QueryDirectoryFlags, ReadResponse};
use util::ops::{close_message, created, list_message, query_message, read_message};
use util::{Client, Message, OpenAs, World};
use vfs::Frame;

const BLOCK_BYTES: u32 = 4_096;
/// What a client lists a directory with.
const LIST: AccessMask = AccessMask::from_bits_retain(0x0012_0089);
const WARM_UP: usize = 50;

/// Takes a frame of these messages through the connection: how often memory was taken, and the reply.
fn through(client: &mut Client, messages: &[Message]) -> (u64, Vec<u8>) {
    let (message, _) = client.encode(messages);
    let mut buf = client.pool.get(message.len() + 4);
    buf.push(&(message.len() as u32).to_be_bytes());
    buf.push(&message);
    let frame = Frame::from(buf);
    let mut said = Vec::with_capacity(1 << 17);
    let taken = measure(|| {
        client.conn.receive(frame, false);
        client.poll();
        while let Some(reply) = client.conn.next_reply() {
            said.extend_from_slice(reply.head.get(4..).unwrap_or_default());
            client.conn.sent(0);
            drop(reply);
            client.poll();
        }
    });
    // CreditResponse (MS-SMB2 2.2.1.2).
    client.credits += said.get(14..16).map_or(0, |granted| u64::from(u16::from_le_bytes(granted.try_into().unwrap())));
    (taken.count_total, said)
}

/// The most that one of some requests takes when they are warm.
fn warm(client: &mut Client, mut one: impl FnMut(&mut Client) -> u64) -> u64 {
    (0..WARM_UP).for_each(|_| _ = one(client));
    (0..WARM_UP).map(|_| one(client)).max().unwrap_or(0)
}

fn bed() -> (World, Client) {
    let world = World::new();
    world.put("file", &[7; BLOCK_BYTES as usize]);
    let client = world.anna();
    (world, client)
}

#[test]
fn a_read_takes_no_memory() {
    let (_world, mut client) = bed();
    let handle = client.create("file", &OpenAs::how(Disposition::Open));
    let taken = warm(&mut client, |client| {
        let (taken, said) = through(client, &[read_message(handle, 0, BLOCK_BYTES)]);
        assert_eq!(ReadResponse::decode(&said).unwrap().data, [7; BLOCK_BYTES as usize]);
        taken
    });
    assert_eq!(taken, 0, "a warm READ took memory {taken} times");
}

#[test]
fn open_and_close_take_little() {
    let (_world, mut client) = bed();
    let mut closes = 0;
    let opens = warm(&mut client, |client| {
        let (opens, said) = through(client, &[OpenAs::how(Disposition::Open).message("file")]);
        let handle = smb_wire::smb2::CreateResponse::decode(&said).unwrap().handle;
        closes = closes.max(through(client, &[close_message(handle)]).0);
        opens
    });
    println!("CREATE {opens}, CLOSE {closes}");
    assert!(opens + closes <= 21, "CREATE {opens}, CLOSE {closes}");
}

#[test]
fn queries_take_little() {
    let (_world, mut client) = bed();
    let handle = client.create("file", &OpenAs::how(Disposition::Open));
    let asked = |client: &mut Client| {
        let class = FileInfoClass::NETWORK_OPEN.0;
        through(client, &[query_message(handle, InfoType::File, class, 56)]).0
    };
    let queries = warm(&mut client, asked);
    println!("QUERY_INFO {queries}");
    assert!(queries <= 1, "QUERY_INFO {queries}");
}

#[test]
fn a_listing_takes_little_for_each_entry() {
    const FILES: u64 = 200;
    let (world, mut client) = bed();
    (0..FILES).for_each(|n| world.put(&format!("entry {n}"), b""));
    let mut listed = 0;
    let taken = warm(&mut client, |client| {
        let response = client.call(OpenAs::directory(Disposition::Open).access(LIST).message("")).ok();
        let handle = created(&response).unwrap().handle;
        let (taken, said) = through(
            client,
            &[list_message(handle, DirInfoClass::IdBothDirectory, QueryDirectoryFlags::empty(), "*", 1 << 16)],
        );
        listed = said.len() as u64;
        client.close(handle);
        taken
    });
    assert!(listed > FILES * 100, "all entries were in the answer: {listed} bytes");
    println!("QUERY_DIRECTORY {taken} for {FILES} entries");
    // One of each is the file system's own, which copies its listing; most others make up its short name.
    assert!(taken <= 5 * FILES + 20, "{taken} for {FILES} entries");
}
