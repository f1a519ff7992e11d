//! A client of NFSv4: compounds out of operations, their results, and a session to send them in.

use nfs_wire::nfs4::{
    Attrs, Bitmap, ChannelAttrs, CompoundCall, CompoundResults, CreateSessionArgs, CreateSessionFlags, ExchangeIdArgs,
    ExchangeIdFlags, Fattr, NfsStat4, Op, OpResult, PROC_COMPOUND, SequenceArgs, StateProtectArgs,
};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, List, Reader};

use super::world::Client;

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
    pub id: [u8; 16],
    pub sequence: u32,
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

/// Nothing to be set.
pub const NO_ATTRS: Fattr<'static> = Fattr { mask: Bitmap::EMPTY, values: &[] };

pub const ANONYMOUS: nfs_wire::nfs4::Stateid = nfs_wire::nfs4::Stateid::ANONYMOUS;
