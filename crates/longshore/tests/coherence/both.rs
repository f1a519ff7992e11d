//! The two servers, and their clients: SMB's and NFSv3's from their own harnesses, one of NFSv4.1 here.

use std::sync::Arc;
use std::task::{Context, Waker};

use nfs_server::{Config, Env, Export, ExportOptions, HandleKey, Server, Squash};
use nfs_wire::nfs3::{Nfs3Proc, ReadArgs, ReadRes, RemoveRes, RenameArgs, RenameRes, StableHow, WriteArgs, WriteRes};
use nfs_wire::nfs4::{
    CbCompound, CbOp, CbOpNum, CbSequenceOk, ChannelAttrs, CloseArgs, CompoundCall, CompoundReply, CompoundResults,
    CreateSessionArgs, CreateSessionFlags, ExchangeIdArgs, ExchangeIdFlags, Fattr, LockArgs, LockType, Locker,
    NfsStat4, Op, OpResult, OpenArgs, OpenClaim, OpenDelegation, OpenHow, OpenToLockOwner, SequenceArgs, ShareAccess,
    ShareDeny, StateOwner, StateProtectArgs, Stateid,
};
use nfs_wire::nlm::{Lock, LockArgs as NlmLockArgs, NlmProc, NlmStat, Range, Res, UnlockArgs, Version, Versioned};
use nfs_wire::rpc::{Call, program, put_success};
use nfs_wire::xdr::{Bounded, List, Reader, Xdr};
use nfs_wire::{NfsStat3, nfs4};
use smb_wire::smb2::{Command, LEASE_TAG, LeaseAck, LeaseBreak, LeaseContext, LeaseFlags, LeaseV2, oplock};

use crate::nfs::{self, TestClock, all, at};
use crate::util::{self, Message, OpenAs, Response};

/// What breaks come under.
const UNSOLICITED: u64 = u64::MAX;
const KEY: [u8; 16] = [0x1e; 16];
/// A lease for reading, one for writing too.
pub const READ_CACHE: u32 = 1;
pub const WRITE_CACHE: u32 = 5;

/// One file system, behind a share and an export of the same name.
pub struct Both {
    pub smb: util::World,
    pub nfs: nfs::World,
}

impl Both {
    pub fn new() -> Self {
        let smb = util::World::new();
        let options = ExportOptions { squash: Squash::None, ..ExportOptions::default() };
        let witness = smb.server.share(util::world::SHARE).map(|share| share as Arc<dyn vfs::Witness>);
        let export = Export { name: "data".into(), backend: Arc::clone(&smb.fs) as _, options, witness };
        let config = Config {
            exports: vec![export],
            max_read_bytes: 1 << 20,
            max_write_bytes: 1 << 20,
            page_read_bytes: None,
            worker_write_bytes: 256 << 10,
            lease_secs: 90,
            owners: nfs_server::Owners::default(),
            keytab: None,
        };
        let table = smb.server.table().clone();
        let (clock, fs) = (Arc::clone(&smb.clock), Arc::clone(&smb.fs));
        let dialer: Arc<nfs::Dialled> = Arc::default();
        let env = Env {
            clock: Arc::new(TestClock(Arc::clone(&clock))),
            random: Arc::new(|bytes: &mut [u8]| bytes.fill(1)),
            dialer: Some(Arc::clone(&dialer) as _),
            store: None,
            hosts: None,
            groups: None,
            accounts: None,
            names: None,
            host_name: "server".into(),
        };
        let server = Server::new(config, HandleKey::new(&[3; 32]), table.clone(), env);
        let (counters, store, hosts, jobs, after_job) = Default::default();
        let nfs = nfs::World { server, fs, table, clock, counters, dialer, store, hosts, jobs, after_job };
        Self { smb, nfs }
    }

    /// An NFSv3 client with the handle of the root.
    pub fn v3(&self) -> (nfs::Client, Vec<u8>) {
        let mut client = self.nfs.connect();
        let root = client.root();
        (client, root)
    }
}

/// Opens a file with a lease.
pub fn lease(client: &mut util::Client, name: &str, state: u32) -> smb_wire::smb2::FileHandle {
    let mut data = Vec::new();
    let v2 = Some(LeaseV2 { epoch: 0, parent_key: [0; 16] });
    LeaseContext { key: KEY, state, flags: LeaseFlags::empty(), v2 }.put(&mut data);
    let how = OpenAs { contexts: vec![(LEASE_TAG.to_vec(), data)], ..OpenAs::default() };
    let mut message = how.message(name);
    message.body[3] = oplock::LEASE;
    util::ops::created(&client.call(message).ok()).unwrap().handle
}

/// The break of that lease that has come: from what to what. It is acknowledged if it wants to be.
pub fn broken(client: &mut util::Client) -> Option<(u32, u32)> {
    client.drive();
    let told: Response = client.take(UNSOLICITED)?;
    let told = LeaseBreak::decode(&told.bytes).unwrap();
    if told.flags.contains(LeaseFlags::ACK_REQUIRED) {
        let ack = LeaseAck { key: KEY, state: told.to };
        client.call(Message::of(Command::OplockBreak, |out| ack.put(out))).ok();
    }
    Some((told.from, told.to))
}

/// Sends a request that has to wait.
pub fn waits(client: &mut util::Client, message: Message) -> u64 {
    let id = client.send(&[message])[0];
    client.drive();
    assert!(client.take(id).is_none(), "it waits");
    id
}

/// What it was answered with at last.
pub fn answered(client: &mut util::Client, id: u64) -> Response {
    client.drive();
    client.take(id).expect("an answer")
}

impl nfs::Client {
    pub fn read3(&mut self, file: &[u8], offset_bytes: u64, count_bytes: u32) -> Result<Vec<u8>, NfsStat3> {
        let results = self.nfs(Nfs3Proc::Read, &ReadArgs { handle: Bounded(file), offset_bytes, count_bytes });
        all::<ReadRes<'_>>(&results).map(|ok| ok.data.to_vec()).map_err(|failed| failed.status)
    }

    pub fn write3(&mut self, file: &[u8], offset_bytes: u64, data: &[u8]) -> Result<(), NfsStat3> {
        let stable = StableHow::Unstable;
        let count_bytes = data.len() as u32;
        let head = nfs_wire::nfs3::WriteHead { handle: Bounded(file), offset_bytes, count_bytes, stable };
        let results = self.nfs(Nfs3Proc::Write, &WriteArgs { head, data });
        all::<WriteRes>(&results).map(drop).map_err(|failed| failed.status)
    }

    pub fn remove3(&mut self, dir: &[u8], name: &str) -> Result<(), NfsStat3> {
        let results = self.nfs(Nfs3Proc::Remove, &at(dir, name));
        all::<RemoveRes>(&results).map(drop).map_err(|failed| failed.status)
    }

    pub fn rename3(&mut self, dir: &[u8], from: &str, to: &str) -> Result<(), NfsStat3> {
        let results = self.nfs(Nfs3Proc::Rename, &RenameArgs { from: at(dir, from), to: at(dir, to) });
        all::<RenameRes>(&results).map(drop).map_err(|failed| failed.status)
    }

    pub fn nlm_lock(&mut self, file: &[u8], (offset_bytes, len_bytes): (u64, u64), block: bool) -> NlmStat {
        let lock = nlm_range(file, offset_bytes, len_bytes);
        let args = NlmLockArgs { cookie: Bounded(b"c"), block, exclusive: true, lock, reclaim: false, state: 0 };
        self.nlm(NlmProc::Lock, &args)
    }

    pub fn nlm_unlock(&mut self, file: &[u8], (offset_bytes, len_bytes): (u64, u64)) -> NlmStat {
        let lock = nlm_range(file, offset_bytes, len_bytes);
        self.nlm(NlmProc::Unlock, &UnlockArgs { cookie: Bounded(b"c"), lock })
    }

    fn nlm<'a>(&mut self, procedure: NlmProc, item: &impl Versioned<'a>) -> NlmStat {
        let mut args = Vec::new();
        item.put_as(Version::V4, &mut args);
        let results = self.results(program::NLM, 4, procedure as u32, &args);
        all::<Res<'_>>(&results).stat
    }
}

fn nlm_range(file: &[u8], offset_bytes: u64, len_bytes: u64) -> Lock<'_> {
    let range = Range { offset_bytes, len_bytes };
    Lock { caller_name: Bounded(b"host"), handle: Bounded(file), owner: Bounded(b"owner"), svid: 7, range }
}

const NO_ATTRS: Fattr<'static> = Fattr { mask: nfs4::Bitmap::EMPTY, values: &[] };
const ROOMY: ChannelAttrs = ChannelAttrs {
    header_pad_bytes: 0,
    max_request_bytes: 1 << 20,
    max_response_bytes: 1 << 20,
    max_response_cached_bytes: 1 << 16,
    max_operations: 64,
    max_requests: 8,
    rdma_ird: None,
};

/// A client of 4.1 with one session, whose connection is the backchannel too.
pub struct V4 {
    pub client: nfs::Client,
    session: [u8; 16],
    sequence: u32,
    pub root: Vec<u8>,
}

/// What an OPEN gave.
pub struct Opened {
    pub open: Stateid,
    pub file: Vec<u8>,
    pub delegation: Option<Stateid>,
}

impl V4 {
    pub fn new(both: &Both) -> Self {
        let mut client = both.nfs.connect();
        let who = ExchangeIdArgs {
            verifier: [1; 8],
            owner_id: Bounded(b"v4"),
            flags: ExchangeIdFlags::empty(),
            state_protect: StateProtectArgs::None,
            impl_id: None,
        };
        let results = compound(&mut client, &[Op::ExchangeId(who)]);
        let OpResult::ExchangeId(Ok(known)) = last(&results) else { panic!() };
        let args = CreateSessionArgs {
            client_id: known.client_id,
            sequence_id: known.sequence_id,
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_channel: ROOMY,
            back_channel: ROOMY,
            callback_program: 77,
            callback_security: List::new(&[]),
        };
        let results = compound(&mut client, &[Op::CreateSession(args)]);
        let OpResult::CreateSession(Ok(made)) = last(&results) else { panic!() };
        let mut v4 = Self { client, session: made.session_id, sequence: 0, root: Vec::new() };
        assert_eq!(v4.status(&[Op::ReclaimComplete(false)]), NfsStat4::OK);
        let results = v4.within(&[Op::Putrootfh, Op::Lookup(b"data"), Op::Getfh]);
        let OpResult::Getfh(Ok(root)) = last(&results) else { panic!() };
        v4.root = root.to_vec();
        v4
    }

    pub fn within(&mut self, ops: &[Op<'_>]) -> Vec<u8> {
        self.sequence += 1;
        let sequence = SequenceArgs {
            session_id: self.session,
            sequence_id: self.sequence,
            slot_id: 0,
            highest_slot_id: 0,
            cache_this: true,
        };
        let ops: Vec<_> = [Op::Sequence(sequence)].iter().chain(ops).copied().collect();
        compound(&mut self.client, &ops)
    }

    pub fn status(&mut self, ops: &[Op<'_>]) -> NfsStat4 {
        let results = self.within(ops);
        CompoundResults::decode(&mut Reader::new(&results)).unwrap().status
    }

    /// An operation on a file.
    pub fn on(&mut self, file: &[u8], op: Op<'_>) -> NfsStat4 {
        self.status(&[Op::Putfh(Bounded(file)), op])
    }

    pub fn open(&mut self, name: &str, access: ShareAccess, deny: ShareDeny) -> Result<Opened, NfsStat4> {
        let owner = StateOwner { client_id: 0, owner: Bounded(b"opener") };
        let (how, claim) = (OpenHow::Unchecked(NO_ATTRS), OpenClaim::Null(name.as_bytes()));
        let args = OpenArgs { seqid: 0, access, deny, owner, how, claim };
        let root = self.root.clone();
        let results = self.within(&[Op::Putfh(Bounded(&root)), Op::Open(args), Op::Getfh]);
        let mut decoded = CompoundResults::decode(&mut Reader::new(&results)).unwrap();
        let (mut opened, mut file) = (Err(decoded.status), Vec::new());
        while let Some(result) = decoded.next_result() {
            match result.unwrap() {
                OpResult::Open(Ok(ok)) => opened = Ok((ok.stateid, given(&ok.delegation))),
                OpResult::Getfh(Ok(handle)) => file = handle.to_vec(),
                _ => {}
            }
        }
        opened.map(|(open, delegation)| Opened { open, file, delegation })
    }

    pub fn close(&mut self, opened: &Opened) -> NfsStat4 {
        let stateid = Stateid { seqid: 0, ..opened.open };
        self.on(&opened.file, Op::Close(CloseArgs { seqid: 0, stateid }))
    }

    /// The first lock through an open.
    pub fn lock(&mut self, opened: &Opened, offset_bytes: u64, len_bytes: u64) -> NfsStat4 {
        let owner = StateOwner { client_id: 0, owner: Bounded(b"locker") };
        let new = OpenToLockOwner { open_seqid: 0, open_stateid: opened.open, lock_seqid: 0, owner };
        let lock_type = LockType::Write;
        let args = LockArgs { lock_type, reclaim: false, offset_bytes, len_bytes, locker: Locker::New(new) };
        self.on(&opened.file, Op::Lock(args))
    }

    /// Gives back each delegation it is asked for; how many.
    pub fn gives_back(&mut self, opened: &Opened) -> usize {
        let recalled = self.recalled();
        for stateid in &recalled {
            assert_eq!(self.on(&opened.file, Op::Delegreturn(*stateid)), NfsStat4::OK);
        }
        recalled.len()
    }

    fn recalled(&mut self) -> Vec<Stateid> {
        let mut recalled = Vec::new();
        self.client.connection.poll(&mut Context::from_waker(Waker::noop()));
        while let Some(record) = self.client.reply() {
            let mut r = Reader::new(&record);
            let call = Call::decode(&mut r).unwrap();
            let mut compound = CbCompound::decode(&mut r).unwrap();
            let Some(Ok(CbOp::Sequence(sequence))) = compound.next_op() else { panic!("CB_SEQUENCE comes first") };
            let Some(Ok(CbOp::Recall(recall))) = compound.next_op() else { panic!("a recall") };
            recalled.push(recall.stateid);
            let mut answer = Vec::new();
            put_success(call.xid, &mut answer);
            let mut reply = CompoundReply::begin(b"", &mut answer);
            reply.begin_result(CbOpNum::Sequence as u32, &mut answer);
            let ok = CbSequenceOk {
                session_id: self.session,
                sequence_id: sequence.sequence_id,
                slot_id: sequence.slot_id,
                highest_slot_id: 0,
                target_highest_slot_id: 0,
            };
            Ok::<_, NfsStat4>(ok).put(&mut answer);
            reply.begin_result(CbOpNum::Recall as u32, &mut answer);
            NfsStat4::OK.put(&mut answer);
            reply.end(NfsStat4::OK, &mut answer);
            assert!(self.client.send_fragment(&answer, true));
        }
        recalled
    }
}

fn given(delegation: &OpenDelegation<'_>) -> Option<Stateid> {
    match delegation {
        OpenDelegation::Read(read) => Some(read.stateid),
        OpenDelegation::Write(write) => Some(write.stateid),
        _ => None,
    }
}

fn compound(client: &mut nfs::Client, ops: &[Op<'_>]) -> Vec<u8> {
    let mut args = Vec::new();
    let mut call = CompoundCall::begin(b"", 1, &mut args);
    ops.iter().for_each(|op| call.op(op, &mut args));
    call.end(&mut args);
    client.results(program::NFS, 4, nfs4::PROC_COMPOUND, &args)
}

fn last(results: &[u8]) -> OpResult<'_> {
    let mut decoded = CompoundResults::decode(&mut Reader::new(results)).unwrap();
    let mut last = None;
    while let Some(result) = decoded.next_result() {
        last = Some(result.unwrap());
    }
    last.expect("a result")
}
