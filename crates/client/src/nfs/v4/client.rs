//! Who this client is to a server: a client id, and from 4.1 on a session (RFC 7530 16.33, 16.34, RFC 8881 18.35, 18.36).
//! When the server has forgotten, it is introduced again by whoever notices first, and what is open is claimed back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use nfs_wire::nfs4::{
    BindConnArgs, CallbackSecurity, ChannelAttrs, ChannelDirFromClient, ClientId, CreateSessionArgs,
    CreateSessionFlags, CreateSessionOk, ExchangeIdArgs, ExchangeIdFlags, NetAddr, NfsStat4, Op, OpResult, SessionId,
    SetclientidArgs, SetclientidError, StateProtectArgs, Verifier,
};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, List};

use super::super::Lines;
use super::super::pace::Pace;
use super::super::rpc::{Request, Slots};
use super::compound::result_of;
use super::opens::in_task;
use super::owner::Owners;
use super::{Answer, Effect, Four, locked};
use crate::error::ErrorKind;

/// What a request holds beside what it moves: headers, credential, handles.
const OVERHEAD_BYTES: u32 = 4 << 10;
/// Answers that the server is to remember are small.
const KEPT_BYTES: u32 = 8 << 10;
/// Operations of one compound: a path of some depth in one.
const MOST_OPS: u32 = 64;
/// Requests under way at a time, per connection.
const SLOTS_PER_LINE: u32 = 64;

/// What does not change while this client lives.
#[derive(Debug)]
pub(super) struct Identity {
    name: Vec<u8>,
    verifier: Verifier,
    transfer_bytes: u32,
}

/// What the server has given.
#[derive(Debug, Default)]
pub(super) struct Who {
    pub client_id: ClientId,
    session_id: Option<SessionId>,
    /// Of the next CREATE_SESSION.
    create_sequence: u32,
    /// Counts introductions; 0 before the first.
    generation: u64,
    lease: Duration,
}

impl Four {
    /// Introduces this client, in one minor version.
    pub async fn new(
        lines: Lines,
        minor: u32,
        name: &[u8],
        verifier: Verifier,
        transfer_bytes: u32,
    ) -> Result<Arc<Self>, ErrorKind> {
        let four = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            lines,
            minor,
            identity: Identity { name: name.to_vec(), verifier, transfer_bytes },
            who: Mutex::default(),
            recovering: tokio::sync::Mutex::default(),
            opens: Mutex::new(HashMap::new()),
            next_open: AtomicU64::new(1),
            owners: Mutex::new(Owners::default()),
            read_bytes: AtomicU32::new(transfer_bytes),
            write_bytes: AtomicU32::new(transfer_bytes),
            most_ops: AtomicU32::new(MOST_OPS),
            no_copy: AtomicBool::new(minor < 2),
            no_clone: AtomicBool::new(minor < 2),
            no_current: AtomicBool::new(minor < 1),
        });
        four.introduce().await?;
        four.reclaim_complete().await?;
        Ok(four)
    }

    pub fn generation(&self) -> u64 {
        locked(&self.who).generation
    }

    pub fn client_id(&self) -> ClientId {
        locked(&self.who).client_id
    }

    /// What an export says of itself is kept to.
    pub fn keep_to(&self, attrs: &nfs_wire::nfs4::Attrs<'_>) {
        let least = |cell: &AtomicU32, bytes: Option<u64>| {
            let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
            let _ = cell.fetch_min(bytes.unwrap_or(u32::MAX), Relaxed);
        };
        least(&self.read_bytes, attrs.maxread);
        least(&self.write_bytes, attrs.maxwrite);
        if let Some(seconds) = attrs.lease_time {
            locked(&self.who).lease = Duration::from_secs(seconds.into());
        }
    }

    /// The session is of no more use; the next call makes another.
    pub(super) fn suspect(&self, generation: u64) {
        let mut who = locked(&self.who);
        if who.generation == generation && who.session_id.take().is_some() {
            // An unknown session is refused at once, which is what makes the next call ask for another.
            self.lines.all().iter().for_each(|line| line.set_slots(Some(Slots::new([0; 16], 0..1))));
        }
    }

    /// Makes the server know this client again, unless that was done since `generation`. Begun, it goes on without its
    /// caller: with the client introduced and its opens not claimed, nobody would claim them.
    pub async fn recover(&self, generation: u64) -> Result<(), ErrorKind> {
        let Some(four) = self.me.upgrade() else { return Ok(()) };
        in_task(async move { four.recover_here(generation).await }).await
    }

    async fn recover_here(&self, generation: u64) -> Result<(), ErrorKind> {
        let _only_one = self.recovering.lock().await;
        if self.generation() != generation {
            return Ok(());
        }
        let is_forgotten = self.introduce().await?;
        if is_forgotten {
            self.claim_all().await;
        }
        Ok(())
    }

    /// Introduces the client; true when the server knows nothing of what it had open.
    async fn introduce(&self) -> Result<bool, ErrorKind> {
        let before = self.client_id();
        let client_id = if self.minor == 0 { self.set_client_id().await? } else { self.exchange_id().await? };
        let mut who = locked(&self.who);
        who.generation += 1;
        who.client_id = client_id;
        Ok(client_id != before)
    }

    /// Outside of a session, with patience for "not now" alone.
    async fn outside<'a>(&self, op: &Op<'a>) -> Result<Answer, ErrorKind> {
        self.patient(|| {
            self.request_outside(|ops| {
                ops.op(op);
            })
        })
        .await
    }

    /// A call with patience for "not now" alone: what is made when the client is being introduced.
    pub(super) async fn patient(&self, request: impl Fn() -> Request) -> Result<Answer, ErrorKind> {
        let first = self.lines.all().first().ok_or(ErrorKind::Input("no connection"))?;
        let mut pace = Pace::new(self.lines.timeout);
        loop {
            let answer = Answer(first.call(request()).await?);
            let (status, _) = answer.outcome()?;
            if !matches!(status, NfsStat4::DELAY | NfsStat4::GRACE) || !pace.wait().await {
                return Ok(answer);
            }
        }
    }

    async fn set_client_id(&self) -> Result<ClientId, ErrorKind> {
        let args = SetclientidArgs {
            verifier: self.identity.verifier,
            id: Bounded(&self.identity.name),
            callback_program: program::NFS4_CALLBACK,
            // Nobody is there to be called, so that nothing is delegated that would have to be recalled.
            callback_address: NetAddr { netid: b"tcp", address: b"0.0.0.0.0.0" },
            callback_ident: 0,
        };
        let answer = self.outside(&Op::Setclientid(args)).await?;
        let OpResult::Setclientid(result) = answer.walk()?.next()? else {
            return Err(ErrorKind::Nonsense("the results are not those of the operations"));
        };
        let ok = result.map_err(|error| match error {
            SetclientidError::InUse(_) => NfsStat4::CLID_INUSE,
            SetclientidError::Status(status) => status,
        })?;
        self.outside(&Op::SetclientidConfirm(ok)).await?.walk()?.done()?;
        Ok(ok.client_id)
    }

    async fn exchange_id(&self) -> Result<ClientId, ErrorKind> {
        let args = ExchangeIdArgs {
            verifier: self.identity.verifier,
            owner_id: Bounded(&self.identity.name),
            flags: ExchangeIdFlags::USE_NON_PNFS,
            state_protect: StateProtectArgs::None,
            impl_id: None,
        };
        let answer = self.outside(&Op::ExchangeId(args)).await?;
        let ok = result_of!(answer.walk()?, ExchangeId)?;
        let sequence_id = match ok.flags.contains(ExchangeIdFlags::CONFIRMED_R) {
            // RFC 8881 18.35.4: what the server says of the sequence then means nothing.
            true => locked(&self.who).create_sequence,
            false => ok.sequence_id,
        };
        let (client_id, session) = (ok.client_id, self.create_session(ok.client_id, sequence_id).await?);
        self.use_session(client_id, sequence_id, &session).await?;
        Ok(client_id)
    }

    async fn create_session(&self, client_id: ClientId, sequence_id: u32) -> Result<CreateSessionOk, ErrorKind> {
        let lines = u32::try_from(self.lines.all().len()).unwrap_or(1);
        let bytes = self.identity.transfer_bytes.saturating_add(OVERHEAD_BYTES);
        let fore_channel = ChannelAttrs {
            header_pad_bytes: 0,
            max_request_bytes: bytes,
            max_response_bytes: bytes,
            max_response_cached_bytes: KEPT_BYTES,
            max_operations: MOST_OPS,
            max_requests: SLOTS_PER_LINE * lines,
            rdma_ird: None,
        };
        let back_channel = ChannelAttrs {
            max_request_bytes: 4096,
            max_response_bytes: 4096,
            max_response_cached_bytes: 0,
            max_operations: 2,
            max_requests: 1,
            ..fore_channel
        };
        let args = CreateSessionArgs {
            client_id,
            sequence_id,
            // Without a backchannel: nothing can be delegated, so nothing must be recalled.
            flags: CreateSessionFlags::empty(),
            fore_channel,
            back_channel,
            callback_program: program::NFS4_CALLBACK,
            callback_security: List::new(&[CallbackSecurity::None]),
        };
        let answer = self.outside(&Op::CreateSession(args)).await?;
        result_of!(answer.walk()?, CreateSession)
    }

    /// Shares the slots of a session out among the connections.
    async fn use_session(
        &self,
        client_id: ClientId,
        sequence_id: u32,
        session: &CreateSessionOk,
    ) -> Result<(), ErrorKind> {
        const TOO_SMALL: ErrorKind = ErrorKind::Nonsense("a session in which nothing fits");
        let fore = &session.fore_channel;
        let least = |cell: &AtomicU32, bytes: u32| {
            cell.fetch_min(bytes.saturating_sub(OVERHEAD_BYTES), Relaxed);
        };
        least(&self.read_bytes, fore.max_response_bytes);
        least(&self.write_bytes, fore.max_request_bytes);
        self.most_ops.fetch_min(fore.max_operations, Relaxed);
        let lines = u32::try_from(self.lines.all().len()).unwrap_or(u32::MAX);
        let share = fore.max_requests.min(SLOTS_PER_LINE * lines) / lines;
        let fits = self.read_bytes.load(Relaxed) > 0 && self.write_bytes.load(Relaxed) > 0;
        if share == 0 || fore.max_operations < 8 || !fits {
            return Err(TOO_SMALL);
        }
        for (line, number) in self.lines.all().iter().zip(0..) {
            if number > 0 {
                self.bind(line, session.session_id).await?;
            }
            line.set_slots(Some(Slots::new(session.session_id, number * share..(number + 1) * share)));
        }
        let mut who = locked(&self.who);
        who.client_id = client_id;
        who.session_id = Some(session.session_id);
        who.create_sequence = sequence_id.wrapping_add(1);
        Ok(())
    }

    /// One more connection of the session.
    async fn bind(&self, line: &super::super::rpc::driver::Handle, session_id: SessionId) -> Result<(), ErrorKind> {
        let args = BindConnArgs { session_id, direction: ChannelDirFromClient::Fore, use_rdma: false };
        let request = self.request_outside(|ops| {
            ops.op(&Op::BindConnToSession(args));
        });
        let answer = Answer(line.call(request).await?);
        result_of!(answer.walk()?, BindConnToSession).map(drop)
    }

    /// RFC 8881 18.51: nothing more will be claimed back; before that nothing new is opened.
    pub(super) async fn reclaim_complete(&self) -> Result<(), ErrorKind> {
        if self.minor == 0 {
            return Ok(());
        }
        let request = || {
            self.request(Effect::Repeatable, |ops| {
                ops.op(&Op::ReclaimComplete(false));
            })
        };
        match self.patient(request).await?.walk()?.done() {
            Err(ErrorKind::Nfs(status)) if status == NfsStat4::COMPLETE_ALREADY.into() => Ok(()),
            outcome => outcome,
        }
    }

    /// Has the server know that the client is there, until nobody uses it any more.
    pub fn keep_alive(self: &Arc<Self>) {
        const LEAST: Duration = Duration::from_secs(1);
        const USUAL: Duration = Duration::from_secs(90);
        let weak = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                let Some(lease) = weak.upgrade().map(|four| locked(&four.who).lease) else { return };
                let lease = if lease.is_zero() { USUAL } else { lease };
                tokio::time::sleep((lease / 3).max(LEAST)).await;
                let Some(four) = weak.upgrade() else { return };
                four.renew().await;
            }
        });
    }

    /// What comes of it whoever makes the next call will see.
    async fn renew(&self) {
        let _ = match self.minor {
            0 => {
                self.ask(|ops| {
                    ops.op(&Op::Renew(self.client_id()));
                })
                .await
            }
            // SEQUENCE alone renews.
            _ => self.ask(|_| {}).await,
        };
    }

    /// Takes leave. A server that minds has the client's lease to forget it by.
    pub async fn leave(&self) -> Result<(), ErrorKind> {
        let Some((client_id, session_id)) = self.take_leave() else { return Ok(()) };
        self.outside(&Op::DestroySession(session_id)).await?.walk()?.done()?;
        let _ = self.outside(&Op::DestroyClientid(client_id)).await?;
        Ok(())
    }

    fn take_leave(&self) -> Option<(ClientId, SessionId)> {
        let mut who = locked(&self.who);
        who.session_id.take().map(|session_id| (who.client_id, session_id))
    }
}

impl Drop for Four {
    /// The server need not wait for the lease of somebody who is gone, which it would after a restart.
    fn drop(&mut self) {
        let (Some((client_id, session_id)), Some(line)) = (self.take_leave(), self.lines.all().first()) else { return };
        for op in [Op::DestroySession(session_id), Op::DestroyClientid(client_id)] {
            // Nobody waits for the answers.
            drop(line.send(self.request_outside(|ops| {
                ops.op(&op);
            })));
        }
    }
}
