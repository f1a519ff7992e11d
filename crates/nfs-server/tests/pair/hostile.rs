//! Calls that are wrong: programs and versions nobody has, handles nobody gave out, records in pieces and without end.

use nfs_wire::NfsStat3;
use nfs_wire::nfs3::Nfs3Proc;
use nfs_wire::portmap::{IPPROTO_TCP, Mapping};
use nfs_wire::rpc::{Outcome, Reply, program};
use nfs_wire::xdr::{Bounded, Reader, to_vec};

use super::world::{Answer, World, all};

#[test]
fn rpc_errors_are_by_the_book() {
    let mut client = World::new().connect();
    for (call, answer) in [
        ((program::NFS, 3, 22), "Failed(ProcUnavail)"),
        ((program::MOUNT, 3, 6), "Failed(ProcUnavail)"),
        ((program::NLM, 4, 17), "Failed(ProcUnavail)"),
        ((program::NLM, 1, 20), "Failed(ProcUnavail)"),
        ((program::NFSACL, 3, 3), "Failed(ProcUnavail)"),
        ((program::NFS4_CALLBACK, 1, 0), "Failed(ProgUnavail)"),
        ((program::NFS, 3, 1), "Failed(GarbageArgs)"),
        ((program::NFS, 3, 6), "Failed(GarbageArgs)"),
        ((program::NFS, 3, 7), "Failed(GarbageArgs)"),
        ((program::NFS, 3, 16), "Failed(GarbageArgs)"),
    ] {
        assert_eq!(client.call(call.0, call.1, call.2, &[]), Answer::Other(answer.into()), "{call:?}");
    }
    assert_eq!(client.call(program::NFS, 5, 0, &[]), Answer::Mismatch(3, 4));
    assert_eq!(client.call(program::NFS, 2, 0, &[]), Answer::Mismatch(3, 4));
    assert_eq!(client.call(program::MOUNT, 2, 0, &[]), Answer::Mismatch(1, 3));
    assert_eq!(client.call(program::NFSACL, 2, 0, &[]), Answer::Mismatch(3, 3));
    assert_eq!(client.call(program::NSM, 2, 0, &[]), Answer::Mismatch(1, 1));
    assert_eq!(client.call(program::PORTMAP, 1, 0, &[]), Answer::Mismatch(2, 4));
    for version in [2, 3, 4] {
        assert_eq!(client.call(program::PORTMAP, version, 0, &[]), Answer::Results(vec![]));
    }
    let asked = Mapping { program: program::NFS, version: 3, protocol: IPPROTO_TCP, port: 0 };
    assert_eq!(all::<u32>(&client.results(program::PORTMAP, 2, 3, &to_vec(&asked))), 2049);
    assert_eq!(client.results(program::PORTMAP, 3, 3, &to_vec_rpcb()), to_vec(&&b"127.0.0.1.8.1"[..]));
}

fn to_vec_rpcb() -> Vec<u8> {
    to_vec(&nfs_wire::portmap::Rpcb {
        program: program::NFS,
        version: 3,
        netid: Bounded(b"tcp"),
        address: Bounded(b""),
        owner: Bounded(b""),
    })
}

#[test]
fn another_rpc_version_and_broken_credentials_are_told() {
    let mut client = World::new().connect();
    let mut record = client.record(program::NFS, 3, 0, &[]);
    record[11] = 3;
    assert!(client.send_fragment(&record, true));
    let reply = client.reply().unwrap();
    let outcome = Reply::decode(&mut Reader::new(&reply)).unwrap().outcome;
    assert_eq!(outcome, Outcome::RpcMismatch { low: 2, high: 2 });
    let mut record = client.record(program::NFS, 3, 0, &[]);
    // The flavor: RPCSEC_GSS.
    record[27] = 6;
    assert!(client.send_fragment(&record, true));
    let reply = client.reply().unwrap();
    let outcome = Reply::decode(&mut Reader::new(&reply)).unwrap().outcome;
    assert_eq!(outcome, Outcome::AuthError(nfs_wire::rpc::AuthStat::BadCred));
}

#[test]
fn forged_handles_are_told_from_stale_ones() {
    let mut client = World::new().connect();
    let root = client.root();
    for at in 0..root.len() {
        let mut forged = root.clone();
        forged[at] ^= 0x40;
        assert_eq!(client.getattr(&forged), Err(NfsStat3::BADHANDLE), "byte {at}");
        assert_eq!(client.getattr(&root[..at]), Err(NfsStat3::BADHANDLE), "cut at {at}");
    }
    assert_eq!(client.read(&[7; 64], 0, 1), Err(NfsStat3::BADHANDLE));
    assert_eq!(client.write(&[7; 64], 0, b"x"), Err(NfsStat3::BADHANDLE));
    let long = to_vec(&&[1u8; 65][..]);
    let refused = client.call(program::NFS, 3, Nfs3Proc::Getattr as u32, &long);
    assert_eq!(refused, Answer::Other("Failed(GarbageArgs)".into()));
}

#[test]
fn a_record_comes_in_any_fragments() {
    let mut client = World::new().connect();
    let record = client.record(program::NFS, 3, 0, &[]);
    for size in 1..=record.len() {
        let pieces: Vec<_> = record.chunks(size).collect();
        for (index, piece) in pieces.iter().enumerate() {
            assert!(client.reply().is_none());
            assert!(client.send_fragment(piece, index + 1 == pieces.len()));
        }
        assert!(client.reply().is_some(), "pieces of {size}");
    }
    assert!(client.send_fragment(&record, false));
    assert!(client.send_fragment(&[], true), "the end may be empty");
    assert!(client.reply().is_some());
}

#[test]
fn records_without_end_end_the_connection() {
    let world = World::new();
    let client = world.connect();
    assert!(client.connection.framing(&[0xff; 4]).is_err(), "2^31-1 bytes");
    let mut client = world.connect();
    let mut sent = 0;
    while client.send_fragment(&[0; 1 << 16], false) {
        sent += 1 << 16;
        assert!(sent <= 2 << 20, "it takes fragments for ever");
    }
    let mut client = world.connect();
    for _ in 0..1000 {
        if client.connection.finished().is_some() {
            return;
        }
        assert!(client.send_fragment(&[], false));
    }
    panic!("it takes empty fragments for ever");
}

#[test]
fn a_call_cut_anywhere_does_no_harm() {
    let world = World::new();
    let mut client = world.connect();
    let root = client.root();
    for procedure in 0..=21 {
        let args = [to_vec(&Bounded::<64>(&root)), vec![0, 0, 0, 3, b'a', b'b', b'c', 0], vec![0; 96]].concat();
        let whole = client.record(program::NFS, 3, procedure, &args);
        for end in (0..whole.len()).step_by(3) {
            let mut client = world.connect();
            client.send_fragment(&whole[..end], true);
            assert!(client.reply().is_some() || client.connection.finished().is_some());
        }
    }
    let last: Nfs3Proc = Nfs3Proc::from_u32(21).unwrap();
    assert_eq!(last, Nfs3Proc::Commit);
}
