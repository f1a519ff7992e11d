//! What an uncontended call costs the server, over NFSv3 and in a session of NFSv4.1, in instructions.
//!
//! `conformance/instructions` runs a test under callgrind, which counts within `serve` only, with LS_OPERATION saying what
//! is asked and LS_REQUESTS how often. Run without it they only show that the calls succeed.
#![allow(dead_code, reason = "the client can more than what is asked here")]

#[path = "pair/compounds.rs"]
mod compounds;
#[path = "pair/world.rs"]
mod world;

use std::task::{Context, Waker};

use compounds::{NO_ATTRS, Session};
use nfs_server::Connection;
use nfs_wire::nfs3::{GetattrRes, Nfs3Proc, ReadRes, ReaddirPlusArgs, ReaddirPlusRes, StableHow, WriteRes};
use nfs_wire::nfs4::{
    Attr, Bitmap, CompoundCall, NfsStat4, Op, OpResult, OpenArgs, OpenClaim, OpenHow, PROC_COMPOUND, SequenceArgs,
    ShareAccess, ShareDeny, StateOwner, Stateid,
};
use nfs_wire::rpc::{FragmentHeader, Outcome, program};
use nfs_wire::xdr::{Bounded, Reader, to_vec};
use nfs_wire::{nfs3, nfs4};
use vfs::{Buf, Frame, Reply};
use world::{Client, World, all};

const BLOCK_BYTES: u32 = 4096;
/// Entries of the directory that is listed, and room for all of them.
const ENTRIES: u32 = 100;
const LIST_BYTES: u32 = 64 << 10;
/// Calls before those that count: what is made once is there.
const WARM_UP: u32 = 20;
/// What passes between a call and its reply, as the server is told.
const ROUND_NS: u64 = 1000;

#[test]
fn over_3() {
    let mut client = World::new().connect();
    let root = client.root();
    let listed = listed(&mut client, &root);
    let file = client.make(&root, "file");
    let operation = operation();
    for number in 0..WARM_UP + requests() {
        // The first call fills the file.
        let asked = if number == 0 { "WRITE" } else { &operation };
        let (procedure, args) = asked_over_3(asked, &file, &listed);
        let record = client.record(program::NFS, 3, procedure as u32, &args);
        check_3(asked, &answered(&mut client, &record, number >= WARM_UP));
    }
}

#[test]
fn over_4_1() {
    let mut client = World::new().connect();
    let root = client.root();
    let mut session = client.session(1);
    let (file, stateid) = opened(&mut client, &mut session, &root);
    let operation = operation();
    for number in 0..WARM_UP + requests() {
        let asked = if number == 0 { "WRITE" } else { &operation };
        let args = compound(&mut session, &file, asked_over_4(asked, stateid));
        let record = client.record(program::NFS, 4, PROC_COMPOUND, &args);
        check_4(asked, &answered(&mut client, &record, number >= WARM_UP));
    }
}

/// All that the transport has done for one call, once it has come.
#[inline(never)]
fn serve(conn: &mut Connection, frame: Frame) -> Reply {
    conn.arrived(0);
    conn.receive(frame, false);
    conn.poll(&mut Context::from_waker(Waker::noop()));
    let reply = conn.next_reply().expect("it is answered in place");
    assert!(conn.next_reply().is_none());
    conn.sent(ROUND_NS);
    reply
}

/// The results of a call.
fn answered(client: &mut Client, record: &[u8], counts: bool) -> Vec<u8> {
    let mark = FragmentHeader { last: true, len_bytes: record.len() as u32 }.to_bytes();
    let mut buf = Buf::unpooled(record.len() + mark.len());
    buf.push(&mark);
    buf.push(record);
    let reply = if counts {
        serve(&mut client.connection, Frame::from(buf)).head.to_vec().split_off(mark.len())
    } else {
        assert!(client.send_fragment(record, true));
        client.reply().expect("a reply")
    };
    let mut r = Reader::new(&reply);
    let header = nfs_wire::rpc::Reply::decode(&mut r).unwrap();
    assert!(matches!(header.outcome, Outcome::Success { .. }), "{:?}", header.outcome);
    r.rest().to_vec()
}

fn asked_over_3(operation: &str, file: &[u8], listed: &[u8]) -> (Nfs3Proc, Vec<u8>) {
    let handle = Bounded(file);
    match operation {
        "READ" => (Nfs3Proc::Read, to_vec(&nfs3::ReadArgs { handle, offset_bytes: 0, count_bytes: BLOCK_BYTES })),
        "WRITE" => {
            let stable = StableHow::Unstable;
            let head = nfs3::WriteHead { handle, offset_bytes: 0, count_bytes: BLOCK_BYTES, stable };
            (Nfs3Proc::Write, to_vec(&nfs3::WriteArgs { head, data: &[8; BLOCK_BYTES as usize] }))
        }
        "GETATTR" => (Nfs3Proc::Getattr, to_vec(&Bounded::<64>(file))),
        "READDIRPLUS" => {
            let (dir, cookie_verifier) = (Bounded(listed), [0; 8]);
            let (dir_count_bytes, max_count_bytes) = (LIST_BYTES, LIST_BYTES);
            let args = ReaddirPlusArgs { dir, cookie: 0, cookie_verifier, dir_count_bytes, max_count_bytes };
            (Nfs3Proc::ReaddirPlus, to_vec(&args))
        }
        other => panic!("what is {other}?"),
    }
}

/// Whether it was done, all of it.
fn check_3(operation: &str, results: &[u8]) {
    match operation {
        "READ" => assert_eq!(all::<ReadRes<'_>>(results).unwrap().data.len(), BLOCK_BYTES as usize),
        "WRITE" => assert_eq!(all::<WriteRes>(results).unwrap().count_bytes, BLOCK_BYTES),
        "GETATTR" => assert_eq!(all::<GetattrRes>(results).unwrap().size_bytes, BLOCK_BYTES.into()),
        _ => assert!(all::<ReaddirPlusRes<'_>>(results).unwrap().entries.iter().count() >= ENTRIES as usize),
    }
}

fn asked_over_4(operation: &str, stateid: Stateid) -> Op<'static> {
    match operation {
        "READ" => Op::Read(nfs4::ReadArgs { stateid, offset_bytes: 0, count_bytes: BLOCK_BYTES }),
        "WRITE" => {
            let head = nfs4::WriteHead { stateid, offset_bytes: 0, stable: nfs4::StableHow::Unstable };
            Op::Write(nfs4::WriteArgs { head, data: &[8; BLOCK_BYTES as usize] })
        }
        "GETATTR" => Op::Getattr(Bitmap::of(&ATTRIBUTES)),
        other => panic!("what is {other}?"),
    }
}

fn check_4(operation: &str, results: &[u8]) {
    let results = compounds::Results(results.to_vec());
    match (operation, results.last()) {
        ("READ", OpResult::Read(Ok(read))) => assert_eq!(read.data.len(), BLOCK_BYTES as usize),
        ("WRITE", OpResult::Write(Ok(written))) => assert_eq!(written.count_bytes, BLOCK_BYTES),
        ("GETATTR", OpResult::Getattr(Ok(_))) => assert_eq!(results.attrs().size, Some(BLOCK_BYTES.into())),
        (operation, other) => panic!("{operation}: {other:?}"),
    }
}

/// SEQUENCE, PUTFH and what it is about, as clients send them.
fn compound(session: &mut Session, file: &[u8], op: Op<'_>) -> Vec<u8> {
    session.sequence += 1;
    let sequence = SequenceArgs {
        session_id: session.id,
        sequence_id: session.sequence,
        slot_id: 0,
        highest_slot_id: 0,
        cache_this: false,
    };
    let mut args = Vec::new();
    let mut call = CompoundCall::begin(b"", 1, &mut args);
    for op in [Op::Sequence(sequence), Op::Putfh(Bounded(file)), op] {
        call.op(&op, &mut args);
    }
    call.end(&mut args);
    args
}

/// What Linux asks for when it looks at a file again.
const ATTRIBUTES: [Attr; 7] =
    [Attr::Type, Attr::Change, Attr::Size, Attr::Mode, Attr::Numlinks, Attr::Owner, Attr::TimeModify];

/// A file opened for reading and writing: its handle and stateid.
fn opened(client: &mut Client, session: &mut Session, root: &[u8]) -> (Vec<u8>, Stateid) {
    let args = OpenArgs {
        seqid: 0,
        access: ShareAccess::BOTH,
        deny: ShareDeny::empty(),
        owner: StateOwner { client_id: 0, owner: Bounded(b"owner") },
        how: OpenHow::Unchecked(NO_ATTRS),
        claim: OpenClaim::Null(b"file"),
    };
    let results = client.within(session, 1, &[Op::Putfh(Bounded(root)), Op::Open(args), Op::Getfh]);
    assert_eq!(results.status(), NfsStat4::OK);
    let OpResult::Open(Ok(open)) = results.all()[2] else { panic!("{:?}", results.status()) };
    (results.handle(), open.stateid)
}

fn listed(client: &mut Client, root: &[u8]) -> Vec<u8> {
    let args = nfs3::MkdirArgs { at: world::at(root, "listed"), attributes: nfs3::Sattr::NONE };
    let results = client.nfs(Nfs3Proc::Mkdir, &args);
    let made = all::<nfs3::CreateRes<'_>>(&results).unwrap();
    let handle = made.handle.unwrap().to_vec();
    (0..ENTRIES).for_each(|number| drop(client.make(&handle, &format!("file number {number}"))));
    handle
}

fn operation() -> String {
    std::env::var("LS_OPERATION").unwrap_or_else(|_| "READ".into())
}

fn requests() -> u32 {
    std::env::var("LS_REQUESTS").map_or(10, |text| text.parse().expect("a number of requests"))
}
