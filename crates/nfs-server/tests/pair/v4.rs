//! What a COMPOUND is answered with as a whole.

use nfs_wire::nfs4::{Bitmap, CompoundCall, CreateType, NfsStat4, Op, OpNum, OpResult, PROC_COMPOUND, SequenceArgs};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, Put};

use super::compounds::{ANONYMOUS, NO_ATTRS, Results};
use super::world::{Answer, Client, World};

fn raw(client: &mut Client, tag: &[u8], minor: u32, count: u32, ops: &[u8]) -> Answer {
    let mut args = Vec::new();
    args.put_opaque(tag);
    args.put_u32(minor);
    args.put_u32(count);
    args.extend(ops);
    client.call(program::NFS, 4, PROC_COMPOUND, &args)
}

fn outcome(answer: Answer) -> (NfsStat4, usize) {
    let Answer::Results(bytes) = answer else { panic!("{answer:?}") };
    let results = Results(bytes);
    (results.status(), results.all().len())
}

#[test]
fn the_first_failure_ends_a_compound() {
    let mut client = World::new().connect();
    let results = client.v4(&[Op::Putrootfh, Op::Lookup(b"none"), Op::Getfh]);
    assert_eq!(results.status(), NfsStat4::NOENT);
    assert_eq!(results.all()[1..], [OpResult::Lookup(Err(NfsStat4::NOENT))]);
    assert_eq!(client.v4(&[]).status(), NfsStat4::OK);
    let results = client.v4(&[Op::Getfh]);
    assert_eq!(results.last(), OpResult::Getfh(Err(NfsStat4::NOFILEHANDLE)));
}

#[test]
fn what_is_no_compound_gets_the_error_for_it() {
    let mut client = World::new().connect();
    let number = |op: OpNum| (op as u32).to_be_bytes();
    let answers = [
        raw(&mut client, b"t", 3, 1, &number(OpNum::Putrootfh)),
        raw(&mut client, b"\xc0\xc1", 0, 1, &number(OpNum::Putrootfh)),
        raw(&mut client, b"t", 0, 100_000, &number(OpNum::Putrootfh)),
        // No operation at all, one of 4.1, one of nobody's; arguments cut short; fewer operations than announced.
        raw(&mut client, b"t", 0, 1, &[0, 0, 0, 0]),
        raw(&mut client, b"t", 0, 1, &number(OpNum::Sequence)),
        raw(&mut client, b"t", 0, 1, &[0xff; 4]),
        raw(&mut client, b"t", 0, 1, &number(OpNum::Putfh)),
        raw(&mut client, b"t", 0, 2, &number(OpNum::Putrootfh)),
    ];
    let answers: Vec<_> = answers.into_iter().map(outcome).collect();
    assert_eq!(
        answers,
        [
            (NfsStat4::MINOR_VERS_MISMATCH, 0),
            (NfsStat4::INVAL, 0),
            (NfsStat4::RESOURCE, 0),
            (NfsStat4::OP_ILLEGAL, 1),
            (NfsStat4::OP_ILLEGAL, 1),
            (NfsStat4::OP_ILLEGAL, 1),
            (NfsStat4::BADXDR, 1),
            (NfsStat4::BADXDR, 2),
        ]
    );
    assert_eq!(client.call(program::NFS, 4, PROC_COMPOUND, b"\xff"), Answer::Other("Failed(GarbageArgs)".into()));
    assert_eq!(client.results(program::NFS, 4, 0, b""), b"");
}

#[test]
fn in_4_1_a_session_comes_first() {
    let mut client = World::new().connect();
    let status = |client: &mut Client, ops: &[Op<'_>]| client.compound(1, ops).status();
    assert_eq!(status(&mut client, &[Op::Putrootfh]), NfsStat4::OP_NOT_IN_SESSION);
    let mut session = client.session(1);
    let again = SequenceArgs {
        session_id: session.id,
        sequence_id: session.sequence + 1,
        slot_id: 0,
        highest_slot_id: 0,
        cache_this: false,
    };
    let results = client.within(&mut session, 1, &[Op::Putrootfh, Op::Sequence(again)]);
    assert_eq!(results.status(), NfsStat4::SEQUENCE_POS);
    // What 4.1 has no use for, and what an older minor version does not know yet.
    assert_eq!(client.within(&mut session, 1, &[Op::Renew(1)]).status(), NfsStat4::NOTSUPP);
    let args = nfs_wire::nfs4::AllocateArgs { stateid: ANONYMOUS, offset_bytes: 0, len_bytes: 1 };
    let results = client.within(&mut session, 1, &[Op::Putrootfh, Op::Allocate(args)]);
    assert_eq!(results.status(), NfsStat4::OP_ILLEGAL);
    assert_eq!(client.within(&mut session, 1, &[Op::Putrootfh, Op::Getfh]).status(), NfsStat4::OK);
}

#[test]
fn what_is_sent_again_is_answered_again_and_not_done_again() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let attributes = NO_ATTRS;
    let args = nfs_wire::nfs4::CreateArgs { object: CreateType::Directory, name: b"dir", attributes };
    let ops = [Op::Putfh(Bounded(&root)), Op::Create(args)];
    let first = client.v4(&ops).0;
    client.repeat_xid();
    assert_eq!(client.v4(&ops).0, first);
    assert_eq!(Results(first).status(), NfsStat4::OK);
    // With other arguments it is another call, whatever its number.
    client.repeat_xid();
    let ops = [Op::Putfh(Bounded(&root)), Op::Create(args), Op::Getfh];
    assert_eq!(client.v4(&ops).status(), NfsStat4::EXIST);
    assert_eq!(client.v4(&ops).status(), NfsStat4::EXIST);
    assert_eq!(client.remove(&root, "none"), Err(nfs_wire::NfsStat3::NOENT));
    let file = client.make(&root, "file");
    client.repeat_xid();
    assert_eq!(client.make(&root, "file"), file);
}

#[test]
fn a_compound_cut_or_changed_anywhere_is_still_answered() {
    let mut client = World::new().connect();
    let root = client.v4_root();
    let file = client.make(&root, "file");
    let request = Bitmap::of(&[nfs_wire::nfs4::Attr::Acl, nfs_wire::nfs4::Attr::Size]);
    let head =
        nfs_wire::nfs4::WriteHead { stateid: ANONYMOUS, offset_bytes: 3, stable: nfs_wire::nfs4::StableHow::FileSync };
    let rename = nfs_wire::nfs4::RenameArgs { old_name: b"a", new_name: b"b" };
    let list = nfs_wire::nfs4::ReaddirArgs {
        cookie: 0,
        cookie_verifier: [0; 8],
        dir_count_bytes: 100,
        max_count_bytes: 1000,
        request,
    };
    let ops = [
        Op::Putfh(Bounded(&file)),
        Op::Getattr(request),
        Op::Write(nfs_wire::nfs4::WriteArgs { head, data: b"data" }),
        Op::Putfh(Bounded(&root)),
        Op::Readdir(list),
        Op::Savefh,
        Op::Rename(rename),
    ];
    let mut args = Vec::new();
    let mut call = CompoundCall::begin(b"tag", 0, &mut args);
    ops.iter().for_each(|op| call.op(op, &mut args));
    call.end(&mut args);
    for cut in 0..args.len() {
        let answer = client.call(program::NFS, 4, PROC_COMPOUND, &args[..cut]);
        assert!(matches!(answer, Answer::Results(_) | Answer::Other(_)));
    }
    for at in 0..args.len() {
        for value in [0, 0x7f, 0xff] {
            let mut changed = args.clone();
            changed[at] = value;
            let Answer::Results(bytes) = client.call(program::NFS, 4, PROC_COMPOUND, &changed) else { continue };
            let results = Results(bytes);
            let (status, all) = (results.status(), results.all());
            assert!(all.len() <= ops.len(), "{status}");
        }
    }
}
