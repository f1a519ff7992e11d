//! A client of NFSv4: compounds out of operations, their results, and a session to send them in. What a compound is
//! answered with as a whole is tested here.

use nfs_wire::nfs4::{
    Attrs, Bitmap, ChannelAttrs, CompoundCall, CompoundResults, CreateSessionArgs, CreateSessionFlags, CreateType,
    ExchangeIdArgs, ExchangeIdFlags, Fattr, NfsStat4, Op, OpNum, OpResult, PROC_COMPOUND, SequenceArgs,
    StateProtectArgs,
};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, List, Put, Reader};

use super::world::{Answer, Client, World};

/// The results of a compound.
pub struct Results(pub Vec<u8>);

impl Results {
    pub fn status(&self) -> NfsStat4 {
        CompoundResults::decode(&mut Reader::new(&self.0)).unwrap().status
    }

    /// All results; they must end where the reply does.
    pub fn all(&self) -> Vec<OpResult<'_>> {
        let mut results = CompoundResults::decode(&mut Reader::new(&self.0)).unwrap();
        let mut all = Vec::new();
        while let Some(result) = results.next_result() {
            all.push(result.unwrap());
        }
        all
    }

    /// The last of them.
    pub fn last(&self) -> OpResult<'_> {
        *self.all().last().unwrap()
    }

    /// The bytes of the current handle that the last result is.
    pub fn handle(&self) -> Vec<u8> {
        match self.last() {
            OpResult::Getfh(Ok(handle)) => handle.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    /// The attributes that the last result is.
    pub fn attributes(&self) -> Fattr<'_> {
        match self.last() {
            OpResult::Getattr(Ok(fattr)) => fattr,
            other => panic!("{other:?}"),
        }
    }

    pub fn attrs(&self) -> Attrs<'_> {
        self.attributes().attrs().unwrap()
    }
}

/// A session and the sequence of its one slot.
pub struct Session {
    id: [u8; 16],
    sequence: u32,
}

impl Client {
    pub fn compound(&mut self, minor: u32, ops: &[Op<'_>]) -> Results {
        let mut args = Vec::new();
        let mut call = CompoundCall::begin(b"tag", minor, &mut args);
        ops.iter().for_each(|op| call.op(op, &mut args));
        call.end(&mut args);
        let results = Results(self.results(program::NFS, 4, PROC_COMPOUND, &args));
        assert_eq!(CompoundResults::decode(&mut Reader::new(&results.0)).unwrap().tag, b"tag");
        results
    }

    /// A compound of 4.0.
    pub fn v4(&mut self, ops: &[Op<'_>]) -> Results {
        self.compound(0, ops)
    }

    /// The export's root directory.
    pub fn v4_root(&mut self) -> Vec<u8> {
        let results = self.v4(&[Op::Putrootfh, Op::Lookup(b"data"), Op::Getfh]);
        results.handle()
    }

    /// An operation on a handle, and its status.
    pub fn v4_on(&mut self, handle: &[u8], op: Op<'_>) -> NfsStat4 {
        self.v4(&[Op::Putfh(Bounded(handle)), op]).status()
    }

    pub fn session(&mut self, minor: u32) -> Session {
        self.session_of(minor, ROOMY)
    }

    pub fn session_of(&mut self, minor: u32, fore_channel: ChannelAttrs) -> Session {
        let who = ExchangeIdArgs {
            verifier: [1; 8],
            owner_id: Bounded(b"client"),
            flags: ExchangeIdFlags::empty(),
            state_protect: StateProtectArgs::None,
            impl_id: None,
        };
        let results = self.compound(minor, &[Op::ExchangeId(who)]);
        let OpResult::ExchangeId(Ok(known)) = results.last() else { panic!("{:?}", results.status()) };
        let args = CreateSessionArgs {
            client_id: known.client_id,
            sequence_id: known.sequence_id,
            flags: CreateSessionFlags::empty(),
            fore_channel,
            back_channel: ROOMY,
            callback_program: 0,
            callback_security: List::new(&[]),
        };
        let results = self.compound(minor, &[Op::CreateSession(args)]);
        let OpResult::CreateSession(Ok(made)) = results.last() else { panic!("{:?}", results.status()) };
        let mut session = Session { id: made.session_id, sequence: 0 };
        assert_eq!(self.within(&mut session, minor, &[Op::ReclaimComplete(false)]).status(), NfsStat4::OK);
        session
    }

    /// A compound in a session.
    pub fn within(&mut self, session: &mut Session, minor: u32, ops: &[Op<'_>]) -> Results {
        session.sequence += 1;
        let sequence = SequenceArgs {
            session_id: session.id,
            sequence_id: session.sequence,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this: false,
        };
        let ops: Vec<_> = [Op::Sequence(sequence)].iter().chain(ops).copied().collect();
        self.compound(minor, &ops)
    }
}

/// What a client asks of a channel that wants no limit.
pub const ROOMY: ChannelAttrs = ChannelAttrs {
    header_pad_bytes: 0,
    max_request_bytes: 1 << 20,
    max_response_bytes: 1 << 20,
    max_response_cached_bytes: 1 << 16,
    max_operations: 64,
    max_requests: 8,
    rdma_ird: None,
};

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

pub const ANONYMOUS: nfs_wire::nfs4::Stateid = nfs_wire::nfs4::Stateid::ANONYMOUS;

/// Nothing to be set.
pub const NO_ATTRS: Fattr<'static> = Fattr { mask: Bitmap::EMPTY, values: &[] };

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
