//! NFS's half of a line: calls of version 3, and compounds in a session of version 4.1.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nfs_wire::mount::MountResult;
use nfs_wire::nfs3::{self, LookupRes, Nfs3Proc, ReadRes, StableHow, WriteRes};
use nfs_wire::nfs4::{
    ChannelAttrs, CompoundCall, CompoundResults, CreateSessionArgs, CreateSessionFlags, ExchangeIdArgs,
    ExchangeIdFlags, NfsStat4, Op, OpResult, OpenArgs, OpenClaim, OpenHow, PROC_COMPOUND, SequenceArgs, ShareAccess,
    ShareDeny, StateOwner, StateProtectArgs, Stateid,
};
use nfs_wire::rpc::{AuthSys, Call, Flavor, FragmentHeader, OpaqueAuth, Outcome, Reply, program};
use nfs_wire::xdr::{Bounded, List, Reader, decode_all, to_vec};
use nfs_wire::{NfsStat3, nfs4};

use super::line::{Answer, Ask, Line, Speaker, dial, next_frame};

/// Requests that may be under way in a session.
const SLOTS: u32 = 32;

const ROOMY: ChannelAttrs = ChannelAttrs {
    header_pad_bytes: 0,
    max_request_bytes: 2 << 20,
    max_response_bytes: 2 << 20,
    max_response_cached_bytes: 1 << 16,
    max_operations: 16,
    max_requests: SLOTS,
    rdma_ird: None,
};

/// Numbers calls and asks nothing by itself.
struct Caller {
    xid: u32,
}

struct Three {
    caller: Caller,
    file: Vec<u8>,
    reads: Vec<u32>,
}

struct FourOne {
    caller: Caller,
    session: [u8; 16],
    /// The sequence of each slot, and the call that has it.
    slots: Vec<(u32, Option<u32>)>,
    file: Vec<u8>,
    stateid: Stateid,
}

/// A client of version 3 that has found `file` of `share`.
pub fn open_3(to: SocketAddr, share: &str, file: &str) -> Line {
    let mut stream = dial(to);
    let mut three = Three { caller: Caller { xid: 0 }, file: Vec::new(), reads: Vec::new() };
    let path = format!("/{share}");
    let mounted = three.call(&mut stream, program::MOUNT, 1, &to_vec(&path.as_bytes()));
    let root = decode_all::<MountResult<'_>>(&mounted).unwrap().unwrap().handle.to_vec();
    let at = nfs3::DirOp { dir: Bounded(&root), name: file.as_bytes() };
    let found = three.call(&mut stream, program::NFS, Nfs3Proc::Lookup as u32, &to_vec(&at));
    three.file = decode_all::<LookupRes<'_>>(&found).unwrap().unwrap().handle.to_vec();
    Line { stream, speaker: Box::new(three) }
}

/// A client of version 4.1 with `file` of `share` open.
pub fn open_4_1(to: SocketAddr, share: &str, file: &str) -> Line {
    let mut stream = dial(to);
    let stateid = Stateid::ANONYMOUS;
    let slots = (0..SLOTS).map(|_| (0, None)).collect();
    let mut four = FourOne { caller: Caller { xid: 0 }, session: [0; 16], slots, file: Vec::new(), stateid };
    four.enter(&mut stream);
    let args = OpenArgs {
        seqid: 0,
        access: ShareAccess::BOTH,
        deny: ShareDeny::empty(),
        owner: StateOwner { client_id: 0, owner: Bounded(b"owner") },
        how: OpenHow::NoCreate,
        claim: OpenClaim::Null(file.as_bytes()),
    };
    let ops = [Op::Putrootfh, Op::Lookup(share.as_bytes()), Op::Open(args), Op::Getfh];
    let results = four.within(&mut stream, &ops);
    let all = all_of(&results);
    let OpResult::Open(Ok(open)) = all[3] else { panic!("{:?}", all[3]) };
    let OpResult::Getfh(Ok(handle)) = all[4] else { panic!("{:?}", all[4]) };
    (four.stateid, four.file) = (open.stateid, handle.to_vec());
    Line { stream, speaker: Box::new(four) }
}

impl Caller {
    /// A call as a record with its mark.
    fn record(&mut self, program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        self.xid += 1;
        let (uid, gids) = (rustix::process::getuid().as_raw(), List::new(&[]));
        let gid = rustix::process::getgid().as_raw();
        let body = AuthSys { stamp: 0, machine_name: Bounded(b"test"), uid, gid, gids }.to_body();
        let credential = OpaqueAuth { flavor: Flavor::SYS, body: Bounded(&body) };
        let call = Call { xid: self.xid, program, version, procedure, credential, verifier: OpaqueAuth::NONE };
        let mut record = vec![0; 4];
        call.put(&mut record);
        record.extend(args);
        let mark = FragmentHeader { last: true, len_bytes: record.len() as u32 - 4 }.to_bytes();
        record[..4].copy_from_slice(&mark);
        record
    }

    /// The number of the call that a record answers, and its results.
    fn results(record: &[u8]) -> (u32, &[u8]) {
        let mut r = Reader::new(record);
        let reply = Reply::decode(&mut r).unwrap();
        assert!(matches!(reply.outcome, Outcome::Success { .. }), "{:?}", reply.outcome);
        (reply.xid, r.rest())
    }
}

fn len_of(prefix: [u8; 4]) -> usize {
    let mark = FragmentHeader::from_bytes(prefix);
    assert!(mark.last && mark.len_bytes.is_multiple_of(4), "{mark:?}");
    mark.len_bytes as usize
}

impl Three {
    fn call(&mut self, stream: &mut TcpStream, program: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        stream.write_all(&self.caller.record(program, 3, procedure, args)).unwrap();
        let frame = next_frame(stream, self, 0);
        Caller::results(&frame).1.to_vec()
    }
}

impl Speaker for Three {
    fn ask(&mut self, what: &Ask<'_>) -> (u64, Vec<u8>) {
        let handle = Bounded(&self.file[..]);
        let (procedure, args) = match *what {
            Ask::Read { offset: offset_bytes, len } => {
                (Nfs3Proc::Read, to_vec(&nfs3::ReadArgs { handle, offset_bytes, count_bytes: len as u32 }))
            }
            Ask::Write { offset: offset_bytes, data, through } => {
                let stable = if through { StableHow::FileSync } else { StableHow::Unstable };
                let head = nfs3::WriteHead { handle, offset_bytes, count_bytes: data.len() as u32, stable };
                (Nfs3Proc::Write, to_vec(&nfs3::WriteArgs { head, data }))
            }
        };
        let record = self.caller.record(program::NFS, 3, procedure as u32, &args);
        if procedure == Nfs3Proc::Read {
            self.reads.push(self.caller.xid);
        }
        (self.caller.xid.into(), record)
    }

    fn len_of(&self, prefix: [u8; 4]) -> usize {
        len_of(prefix)
    }

    fn answer(&mut self, frame: Vec<u8>) -> Option<(u64, Answer)> {
        let (xid, results) = Caller::results(&frame);
        let answer = if let Some(at) = self.reads.iter().position(|read| *read == xid) {
            self.reads.swap_remove(at);
            match decode_all::<ReadRes<'_>>(results).expect("results of a READ") {
                Ok(ok) => Answer::Read(ok.data.to_vec()),
                Err(failed) => Answer::Failed(format!("{:?}", failed.status)),
            }
        } else {
            match decode_all::<WriteRes>(results).expect("results of a WRITE") {
                Ok(ok) => Answer::Written(ok.count_bytes as usize),
                Err(failed) if failed.status == NfsStat3::NOSPC => Answer::Full,
                Err(failed) => Answer::Failed(format!("{:?}", failed.status)),
            }
        };
        Some((xid.into(), answer))
    }
}

impl FourOne {
    /// Makes itself known, as a client that was restarted, and a session.
    fn enter(&mut self, stream: &mut TcpStream) {
        static STARTS: AtomicU64 = AtomicU64::new(1);
        let who = ExchangeIdArgs {
            verifier: STARTS.fetch_add(1, Relaxed).to_be_bytes(),
            owner_id: Bounded(b"a client with faults"),
            flags: ExchangeIdFlags::empty(),
            state_protect: StateProtectArgs::None,
            impl_id: None,
        };
        let results = self.compound(stream, &[Op::ExchangeId(who)]);
        let OpResult::ExchangeId(Ok(known)) = all_of(&results)[0] else { panic!("EXCHANGE_ID") };
        let args = CreateSessionArgs {
            client_id: known.client_id,
            sequence_id: known.sequence_id,
            flags: CreateSessionFlags::empty(),
            fore_channel: ROOMY,
            back_channel: ROOMY,
            callback_program: 0,
            callback_security: List::new(&[]),
        };
        let results = self.compound(stream, &[Op::CreateSession(args)]);
        let OpResult::CreateSession(Ok(made)) = all_of(&results)[0] else { panic!("CREATE_SESSION") };
        self.session = made.session_id;
        self.within(stream, &[Op::ReclaimComplete(false)]);
    }

    fn compound(&mut self, stream: &mut TcpStream, ops: &[Op<'_>]) -> Vec<u8> {
        stream.write_all(&self.record(ops)).unwrap();
        let frame = next_frame(stream, self, 0);
        let results = Caller::results(&frame).1.to_vec();
        assert_eq!(CompoundResults::decode(&mut Reader::new(&results)).unwrap().status, NfsStat4::OK);
        results
    }

    fn record(&mut self, ops: &[Op<'_>]) -> Vec<u8> {
        let mut args = Vec::new();
        let mut call = CompoundCall::begin(b"", 1, &mut args);
        ops.iter().for_each(|op| call.op(op, &mut args));
        call.end(&mut args);
        self.caller.record(program::NFS, 4, PROC_COMPOUND, &args)
    }

    /// A compound in the session, with nothing else under way.
    fn within(&mut self, stream: &mut TcpStream, ops: &[Op<'_>]) -> Vec<u8> {
        let sequence = self.sequence();
        let ops: Vec<_> = [Op::Sequence(sequence)].iter().chain(ops).copied().collect();
        let results = self.compound(stream, &ops);
        self.give_back(self.caller.xid);
        results
    }

    /// A free slot for the next call.
    fn sequence(&mut self) -> SequenceArgs {
        let slot = self.slots.iter().position(|(_, call)| call.is_none()).expect("a free slot");
        self.slots[slot] = (self.slots[slot].0 + 1, Some(self.caller.xid + 1));
        SequenceArgs {
            session_id: self.session,
            sequence_id: self.slots[slot].0,
            slot_id: slot as u32,
            highest_slot_id: SLOTS - 1,
            cache_this: false,
        }
    }

    fn give_back(&mut self, xid: u32) {
        let slot = self.slots.iter_mut().find(|(_, call)| *call == Some(xid)).expect("an answer to what was asked");
        slot.1 = None;
    }
}

impl Speaker for FourOne {
    fn ask(&mut self, what: &Ask<'_>) -> (u64, Vec<u8>) {
        let (sequence, stateid, file) = (self.sequence(), self.stateid, self.file.clone());
        let op = match *what {
            Ask::Read { offset: offset_bytes, len } => {
                Op::Read(nfs4::ReadArgs { stateid, offset_bytes, count_bytes: len as u32 })
            }
            Ask::Write { offset: offset_bytes, data, through } => {
                let stable = if through { nfs4::StableHow::FileSync } else { nfs4::StableHow::Unstable };
                Op::Write(nfs4::WriteArgs { head: nfs4::WriteHead { stateid, offset_bytes, stable }, data })
            }
        };
        let record = self.record(&[Op::Sequence(sequence), Op::Putfh(Bounded(&file)), op]);
        (self.caller.xid.into(), record)
    }

    fn len_of(&self, prefix: [u8; 4]) -> usize {
        len_of(prefix)
    }

    fn answer(&mut self, frame: Vec<u8>) -> Option<(u64, Answer)> {
        let (xid, results) = Caller::results(&frame);
        self.give_back(xid);
        let answer = match all_of(results).last() {
            Some(OpResult::Read(Ok(ok))) => Answer::Read(ok.data.to_vec()),
            Some(OpResult::Write(Ok(ok))) => Answer::Written(ok.count_bytes as usize),
            Some(OpResult::Write(Err(NfsStat4::NOSPC))) => Answer::Full,
            other => Answer::Failed(format!("{other:?}")),
        };
        Some((xid.into(), answer))
    }
}

/// The results of a compound, to the last byte.
fn all_of(results: &[u8]) -> Vec<OpResult<'_>> {
    let mut r = Reader::new(results);
    let mut results = CompoundResults::decode(&mut r).unwrap();
    let mut all = Vec::new();
    while let Some(result) = results.next_result() {
        all.push(result.expect("a whole result"));
    }
    all
}
