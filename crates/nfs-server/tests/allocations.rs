//! How often a call takes memory from the allocator on its way through a connection, when calls of its kind have gone before
//! it: from its record to its reply taken and dropped. None for a READ; of others there are bounds, which may be lowered.
//! The file system is the one in memory, whose own share is counted too.

#[path = "pair/world.rs"]
#[allow(dead_code, reason = "the story tests use all of it")]
mod world;

use std::task::{Context, Waker};

use allocation_counter::measure;
use nfs_wire::nfs3::{Nfs3Proc, ReadArgs, StableHow, WriteArgs, WriteHead};
use nfs_wire::rpc::{FragmentHeader, program};
use nfs_wire::xdr::{Bounded, Xdr, to_vec};
use vfs::{Buf, Frame};
use world::{Client, REPLY_NS, World, at};

const BLOCK_BYTES: usize = 4_096;
const WARM_UP: usize = 50;

/// Takes a call through the connection: how often memory was taken, and how long the reply is.
fn through<'a>(client: &mut Client, procedure: Nfs3Proc, args: &impl Xdr<'a>) -> (u64, usize) {
    let record = client.record(program::NFS, 3, procedure as u32, &to_vec(args));
    let mut buf = Buf::unpooled(record.len() + 4);
    buf.push(&FragmentHeader { last: true, len_bytes: record.len() as u32 }.to_bytes());
    buf.push(&record);
    let frame = Frame::from(buf);
    let mut len = 0;
    let taken = measure(|| {
        client.connection.receive(frame, false);
        client.connection.poll(&mut Context::from_waker(Waker::noop()));
        let reply = client.connection.next_reply().expect("it is answered at once");
        len = reply.head.len();
        client.connection.sent(REPLY_NS);
    });
    (taken.count_total, len)
}

/// The most that one of some calls takes when they are warm.
fn warm(mut one: impl FnMut() -> u64) -> u64 {
    (0..WARM_UP).for_each(|_| _ = one());
    (0..WARM_UP).map(|_| one()).max().unwrap_or(0)
}

fn bed() -> (World, Client, Vec<u8>, Vec<u8>) {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    let file = client.make(&root, "file");
    client.write_block(&file);
    (world, client, root, file)
}

impl Client {
    fn write_block(&mut self, file: &[u8]) {
        let data = [7; BLOCK_BYTES];
        let (handle, count_bytes) = (Bounded(file), BLOCK_BYTES as u32);
        let head = WriteHead { handle, offset_bytes: 0, count_bytes, stable: StableHow::Unstable };
        self.nfs(Nfs3Proc::Write, &WriteArgs { head, data: &data });
    }
}

#[test]
fn a_read_takes_no_memory() {
    let (_world, mut client, _, file) = bed();
    let args = ReadArgs { handle: Bounded(&file), offset_bytes: 0, count_bytes: BLOCK_BYTES as u32 };
    let taken = warm(|| {
        let (taken, len) = through(&mut client, Nfs3Proc::Read, &args);
        assert!(len > BLOCK_BYTES, "it has the block");
        taken
    });
    assert_eq!(taken, 0, "a warm READ took memory {taken} times");
}

#[test]
fn a_getattr_takes_little() {
    let (_world, mut client, _, file) = bed();
    let taken = warm(|| through(&mut client, Nfs3Proc::Getattr, &Bounded::<64>(&file)).0);
    println!("GETATTR {taken}");
    assert_eq!(taken, 0, "GETATTR {taken}");
}

#[test]
fn a_lookup_takes_little() {
    let (_world, mut client, root, _) = bed();
    let taken = warm(|| through(&mut client, Nfs3Proc::Lookup, &at(&root, "file")).0);
    println!("LOOKUP {taken}");
    assert!(taken <= 9, "LOOKUP {taken}");
}
