//! Compounds against bytes worked out by hand, and everything that can be wrong with one.

use super::super::*;
use super::*;
use crate::nfs3::{Access, StableHow};
use crate::testing::{hex, is_on_the_wire, unhex};
use crate::xdr::{Bounded, List, to_vec};

/// SEQUENCE, PUTROOTFH, GETATTR of type and size, in a 4.1 COMPOUND without a tag.
const CALL: &str = "00000000 00000001 00000003 00000035 07070707 07070707 07070707 07070707 00000002 00000003 00000004 \
                    00000000 00000018 00000009 00000001 00000012";

fn ops() -> [Op<'static>; 3] {
    let sequence =
        SequenceArgs { session_id: [7; 16], sequence_id: 2, slot_id: 3, highest_slot_id: 4, cache_this: false };
    [Op::Sequence(sequence), Op::Putrootfh, Op::Getattr(Bitmap::of(&[Attr::Type, Attr::Size]))]
}

fn walk(bytes: &[u8]) -> Vec<NextOp<'_>> {
    let mut compound = Compound::decode(&mut Reader::new(bytes)).unwrap();
    std::iter::from_fn(|| compound.next_op()).collect()
}

#[test]
fn a_call_by_hand() {
    let mut out = Vec::new();
    let mut call = CompoundCall::begin(b"", 1, &mut out);
    ops().iter().for_each(|op| call.op(op, &mut out));
    call.end(&mut out);
    assert_eq!(hex(&out), CALL);
    let mut compound = Compound::decode(&mut Reader::new(&out)).unwrap();
    assert_eq!((compound.tag, compound.minor_version, compound.op_count), (&b""[..], 1, 3));
    for (left, op) in [2, 1, 0].into_iter().zip(ops()) {
        assert_eq!(compound.next_op(), Some(NextOp::Op(op)));
        assert_eq!(compound.left(), left);
    }
    assert_eq!(compound.next_op(), None);
}

#[test]
fn a_cut_call_ends_in_one_error() {
    let bytes = unhex(CALL);
    for end in 12..bytes.len() {
        let walked = walk(&bytes[..end]);
        let (last, before) = walked.split_last().unwrap();
        assert!(before.iter().all(|next| matches!(next, NextOp::Op(_))), "cut at {end}");
        assert!(matches!(last, NextOp::Missing | NextOp::Malformed(_, Malformed::Truncated)), "cut at {end}");
    }
    for end in 0..12 {
        assert!(Compound::decode(&mut Reader::new(&bytes[..end])).is_err());
    }
}

#[test]
fn a_lying_count_costs_nothing() {
    assert_eq!(walk(&unhex("00000000 00000000 ffffffff")), [NextOp::Missing]);
    let lying = unhex("00000000 00000000 40000000 00000018");
    assert_eq!(walk(&lying), [NextOp::Op(Op::Putrootfh), NextOp::Missing]);
}

#[test]
fn an_operation_is_of_its_minor_version() {
    assert_eq!(walk(&unhex("00000000 00000000 00000001 00000035")), [NextOp::Illegal(53)]);
    assert_eq!(walk(&unhex("00000000 00000001 00000001 00000045")), [NextOp::Illegal(69)]);
    assert_eq!(walk(&unhex("00000000 00000002 00000002 0000273c 00000018")), [NextOp::Illegal(10044)]);
    assert_eq!(walk(&unhex("00000000 00000002 00000001 00000002")), [NextOp::Illegal(2)]);
    assert_eq!(walk(&unhex("00000000 00000002 00000001 0000004c")), [NextOp::Illegal(76)]);
    assert!(OpNum::Clone.is_in(2) && OpNum::Getxattr.is_in(2) && !OpNum::Clone.is_in(1));
    assert!(OpNum::OpenConfirm.is_in(1));
}

#[test]
fn a_handle_too_long_is_told_apart() {
    let mut bytes = unhex("00000000 00000000 00000001 00000016 00000084");
    bytes.resize(bytes.len() + 132, 0);
    assert_eq!(walk(&bytes), [NextOp::Malformed(OpNum::Putfh, Malformed::TooLong)]);
}

#[test]
fn a_reply_by_hand() {
    let mut out = vec![0xaa; 4];
    let mut reply = CompoundReply::begin(b"tag", &mut out);
    reply.result(OpNum::Putrootfh, &Ok::<(), NfsStat4>(()), &mut out);
    reply.begin_result(OpNum::Read as u32, &mut out);
    let place = ReadPlace::begin(&mut out);
    out.put_bytes(b"abc");
    place.end(true, &mut out);
    let at = reply.begin_result(OpNum::Getattr as u32, &mut out);
    out.put_zeros(100);
    reply.replace_result(at, NfsStat4::RESOURCE, &mut out);
    assert_eq!(reply.count(), 3);
    reply.end(NfsStat4::RESOURCE, &mut out);
    let text = "00002722 00000003 74616700 00000003 00000018 00000000 00000019 00000000 00000001 00000003 61626300 \
                00000009 00002722";
    assert_eq!(hex(&out[4..]), text);

    let mut results = CompoundResults::decode(&mut Reader::new(&out[4..])).unwrap();
    assert_eq!((results.status, results.tag), (NfsStat4::RESOURCE, &b"tag"[..]));
    let all: Result<Vec<_>, _> = std::iter::from_fn(|| results.next_result()).collect();
    assert_eq!(
        all.unwrap(),
        [
            OpResult::Putrootfh(Ok(())),
            OpResult::Read(Ok(ReadOk { eof: true, data: b"abc" })),
            OpResult::Getattr(Err(NfsStat4::RESOURCE)),
        ]
    );
    for end in 4..out.len() - 4 {
        let mut r = Reader::new(&out[4..end]);
        let Ok(mut results) = CompoundResults::decode(&mut r) else { continue };
        assert!(std::iter::from_fn(|| results.next_result()).any(|result| result.is_err()), "cut at {end}");
    }
}

/// One of every operation whose arguments are not tested by hand elsewhere, and the form of its arguments.
#[test]
fn simple_arguments_by_hand() {
    let stateid = Stateid { seqid: 1, other: [2; 12] };
    let id = "00000001 02020202 02020202 02020202";
    for (op, text) in [
        (Op::Access(Access::READ), "00000003 00000001".to_owned()),
        (Op::Delegpurge(5), "00000007 00000000 00000005".to_owned()),
        (Op::Delegreturn(stateid), format!("00000008 {id}")),
        (Op::Getfh, "0000000a".to_owned()),
        (Op::Link(b"n"), "0000000b 00000001 6e000000".to_owned()),
        (Op::Lookup(b"n"), "0000000f 00000001 6e000000".to_owned()),
        (Op::Lookupp, "00000010".to_owned()),
        (Op::Openattr(true), "00000013 00000001".to_owned()),
        (Op::Putfh(Bounded(b"fh")), "00000016 00000002 66680000".to_owned()),
        (
            Op::Rename(RenameArgs { old_name: b"a", new_name: b"b" }),
            "0000001d 00000001 61000000 00000001 62000000".to_owned(),
        ),
        (Op::Renew(5), "0000001e 00000000 00000005".to_owned()),
        (Op::ReclaimComplete(false), "0000003a 00000000".to_owned()),
        (Op::SecinfoNoName(SecinfoStyle::Parent), "00000034 00000001".to_owned()),
        (Op::TestStateid(List::new(&[stateid])), format!("00000037 00000001 {id}")),
        (Op::OffloadCancel(stateid), format!("00000042 {id}")),
        (Op::Removexattr(b"n"), "0000004b 00000001 6e000000".to_owned()),
        (Op::Setattr(SetattrArgs { stateid, attributes: Fattr::NONE }), format!("00000022 {id} 00000000 00000000")),
        (
            Op::Write(WriteArgs {
                head: WriteHead { stateid, offset_bytes: 1, stable: StableHow::Unstable },
                data: b"x",
            }),
            format!("00000026 {id} 00000000 00000001 00000000 00000001 78000000"),
        ),
    ] {
        is_on_the_wire(&op, &unhex(&text));
    }
}

#[test]
fn any_bytes_are_walked_without_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..20_000u32 {
        let mut bytes = to_vec(&(&b""[..], (round % 3, 4u32)));
        for _ in 0..random() % 40 {
            // Small words, so that counts and lengths often fit and decoding goes on.
            let word = if random() % 8 == 0 { random() as u32 } else { (random() % 76) as u32 };
            bytes.put_u32(word);
        }
        walk(&bytes);
        let mut results = CompoundResults::decode(&mut Reader::new(&bytes)).unwrap_or_else(|_| CompoundResults {
            status: NfsStat4::OK,
            tag: b"",
            left: 4,
            r: Reader::new(&bytes[12..]),
        });
        while results.next_result().is_some() {}
    }
}
