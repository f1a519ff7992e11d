//! A session as its users see it: [`Handle`]s take requests whatever connections there are just now. It spreads requests
//! over the channels there are, keeps them while there is none, and has another made (`revive`). A request must never be
//! sent twice that may not be done twice; the driver sorts those out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use smb_wire::smb2::Command;
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;

use super::channels;
use super::connection::Bind;
use super::driver::{self, Call, Line, MOST_ATTEMPTS, Message, Pending};
use super::grip::{Grip, Place, Terms};
use super::revive::{self, Maker};
use super::{Failure, Limits, Negotiated, Request, Response};
use crate::buffer::{Buffer, Pool};

type Answer = Result<Response, Failure>;

/// The tree connect of a request of the share, before it is sent.
pub(super) const OF_THE_SHARE: u32 = u32::MAX;

/// Until a replay is sent again that came too early.
const REPLAY_PAUSE: Duration = Duration::from_millis(50);

/// Gives a session requests. It ends when the last handle is gone.
#[derive(Debug, Clone)]
pub(crate) struct Handle(Arc<Session>);

/// What all handles of a session share.
#[derive(Debug)]
pub(crate) struct Session {
    state: Mutex<State>,
    negotiated: Negotiated,
    pool: Pool,
    over: Arc<OnceLock<Failure>>,
    next_serial: AtomicU64,
    /// Channels are being made.
    is_filling: AtomicBool,
    /// Makes other connections, where that can be done.
    maker: Option<Arc<Maker>>,
    runtime: Runtime,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    channels: Vec<Channel>,
    next_channel: u64,
    terms: Terms,
    session_id: u64,
    /// Session.ChannelSequence (MS-SMB2 3.2.1.3).
    sequence: u16,
    /// What waits for a connection, in the order it was asked.
    parked: VecDeque<Call>,
    grips: Vec<Weak<Grip>>,
    /// How much the last connections could move.
    limits: Limits,
}

#[derive(Debug)]
enum Phase {
    Up,
    /// A connection is being made.
    Making,
    /// There is none and nobody needs one; why.
    Down(Failure),
    Over(Failure),
}

#[derive(Debug)]
struct Channel {
    id: u64,
    line: Line,
}

/// A connection that is logged in and has entered the share.
#[derive(Debug)]
pub(crate) struct Made {
    pub line: Line,
    pub terms: Terms,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("request", &self.request.command).finish_non_exhaustive()
    }
}

impl Handle {
    /// A session on the connection `made`. Without a `maker` it ends with that.
    pub fn new(made: Made, maker: Option<Arc<Maker>>, pool: Pool) -> Self {
        let session = Arc::new(Session {
            state: Mutex::new(State {
                phase: Phase::Making,
                channels: Vec::new(),
                next_channel: 0,
                terms: made.terms,
                session_id: 0,
                sequence: 0,
                parked: VecDeque::new(),
                grips: Vec::new(),
                limits: made.line.limits(),
            }),
            negotiated: made.line.negotiated.clone(),
            pool,
            over: Arc::default(),
            next_serial: AtomicU64::new(0),
            is_filling: AtomicBool::new(false),
            maker,
            runtime: Runtime::current(),
        });
        session.found(made);
        Self(session)
    }

    /// A handle more.
    pub fn of(session: Arc<Session>) -> Self {
        Self(session)
    }

    /// What was agreed on.
    pub fn negotiated(&self) -> &Negotiated {
        &self.0.negotiated
    }

    /// What a CREATE must know.
    pub fn terms(&self) -> Terms {
        self.0.lock().terms
    }

    /// Connections there are.
    pub fn channel_count(&self) -> usize {
        self.0.lock().channels.len()
    }

    /// Whether a lost connection is made again.
    pub fn can_return(&self) -> bool {
        self.0.maker.is_some()
    }

    /// How much one request may move now, on whatever channel.
    pub fn limits(&self) -> Limits {
        self.0.lock().limits()
    }

    /// Whether, as far as is known now, what is sent is signed or sealed.
    pub fn protects(&self) -> bool {
        let state = self.0.lock();
        let shield = state.channels.first().and_then(|channel| channel.line.shield.as_ref());
        state.terms.seal || shield.is_some_and(|shield| shield.sign_all || shield.seal_all)
    }

    /// A buffer for a request that carries so much.
    pub fn buffer(&self, len_bytes: usize) -> Buffer {
        driver::buffer(&self.0.pool, len_bytes)
    }

    /// An open that is to be had again when its connection is lost.
    pub fn register(&self, grip: &Arc<Grip>) {
        let mut state = self.0.lock();
        if state.grips.len() == state.grips.capacity() {
            state.grips.retain(|grip| grip.strong_count() > 0);
        }
        state.grips.push(Arc::downgrade(grip));
    }

    /// Sends a request at once; the answer comes by the receiver. Dropping that gives the answer up, not the request.
    pub fn send(&self, request: Request) -> Pending {
        let (reply, pending) = self.pending();
        self.0.dispatch(Call { request, reply, related: Vec::new(), serial: None, attempts: 0 });
        pending
    }

    /// Sends a compound: a request that opens a file, and those that go on with that open. Each is answered by itself.
    pub fn send_compound(&self, first: Request, related: Vec<Request>) -> (Pending, Vec<Pending>) {
        let (reply, pending) = self.pending();
        let (replies, answers): (Vec<_>, Vec<_>) = related.iter().map(|_| self.pending()).unzip();
        let related = related.into_iter().zip(replies).collect();
        self.0.dispatch(Call { request: first, reply, related, serial: None, attempts: 0 });
        (pending, answers)
    }

    /// Sends a request that may wait for ever. When its answer is given up the server is told to stop waiting, and
    /// `undo` is sent behind, for the answer may be on its way.
    pub fn send_patient(&self, request: Request, undo: Option<Request>) -> Patient {
        let (reply, pending) = self.pending();
        let serial = self.0.next_serial.fetch_add(1, Relaxed);
        let request = request.patient();
        self.0.dispatch(Call { request, reply, related: Vec::new(), serial: Some(serial), attempts: 0 });
        Patient { pending, give_up: Some((Arc::downgrade(&self.0), serial, undo)) }
    }

    fn pending(&self) -> (oneshot::Sender<Answer>, Pending) {
        let (reply, answer) = oneshot::channel();
        (reply, Pending { answer, over: Arc::clone(&self.0.over) })
    }

    /// Sends a request and waits for the answer, whatever its status.
    pub async fn call(&self, request: Request) -> Answer {
        self.send(request).answer().await
    }

    /// Nothing more is asked: a connection that is lost stays lost.
    pub fn end(&self) {
        let mut state = self.0.lock();
        state.phase = Phase::Over(Failure::Ended);
        let _ = self.0.over.set(Failure::Ended);
        state.fail_parked(&Failure::Ended);
    }
}

/// An answer that may come in an hour. Dropping it gives the request up.
#[derive(Debug)]
pub(crate) struct Patient {
    pending: Pending,
    give_up: Option<(Weak<Session>, u64, Option<Request>)>,
}

impl Patient {
    /// Waits for it, as [`Pending::answer`] does.
    pub async fn answer(&mut self) -> Answer {
        let answer = self.pending.answer().await;
        self.give_up = None;
        answer
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        if let Some((session, serial, undo)) = self.give_up.take()
            && let Some(session) = session.upgrade()
        {
            session.give_up(serial, undo);
        }
    }
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn maker(&self) -> Option<Arc<Maker>> {
        self.maker.clone()
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    pub fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }

    pub fn session_id(&self) -> u64 {
        self.lock().session_id
    }

    /// The opens there are.
    pub fn grips(&self) -> Vec<Arc<Grip>> {
        self.lock().grips.iter().filter_map(Weak::upgrade).collect()
    }

    /// The longest of the requests that wait for a connection, in bytes.
    pub fn longest_parked_bytes(&self) -> u32 {
        self.lock().parked.iter().map(|call| call.request.payload_bytes).max().unwrap_or(0)
    }

    fn dispatch(self: &Arc<Self>, call: Call) {
        let mut state = self.lock();
        match &state.phase {
            Phase::Up => state.send(call),
            Phase::Making => state.parked.push_back(call),
            Phase::Over(why) => call.fail(&why.clone()),
            // An open that could not be had again need not be closed.
            Phase::Down(why) if call.request.command == Command::Close => call.fail(&why.clone()),
            Phase::Down(why) => {
                let why = why.clone();
                state.parked.push_back(call);
                self.make(&mut state, why);
            }
        }
    }

    /// Has a connection made.
    fn make(self: &Arc<Self>, state: &mut State, why: Failure) {
        state.phase = Phase::Making;
        self.runtime.spawn(revive::run(Arc::downgrade(self), why));
    }

    /// A patient request is given up, wherever it is.
    pub fn give_up(self: &Arc<Self>, serial: u64, undo: Option<Request>) {
        let mut state = self.lock();
        let at = state.parked.iter().position(|call| call.serial == Some(serial));
        if let Some(call) = at.and_then(|at| state.parked.remove(at)) {
            if let Some(request) = undo.filter(|_| call.request.replay) {
                let (reply, _) = oneshot::channel();
                state.parked.push_back(Call { request, reply, related: Vec::new(), serial: None, attempts: 0 });
            }
            return;
        }
        let mut undo = undo;
        for channel in &state.channels {
            let undo = undo.take().map(|request| state.aimed(request));
            // One that is over has given the request back, or knows nothing of it.
            let _ = channel.line.tell(Message::GiveUp { serial, undo: undo.and_then(Result::ok) });
        }
    }

    /// A channel is over, and `left` is what it leaves unanswered.
    pub fn lost(self: &Arc<Self>, id: u64, why: &Failure, left: Vec<Call>) {
        let mut state = self.lock();
        state.limits = state.limits();
        state.channels.retain(|channel| channel.id != id);
        for call in left.into_iter().rev() {
            if call.attempts >= MOST_ATTEMPTS { call.fail(why) } else { state.parked.push_front(call) }
        }
        if let Phase::Over(over) = &state.phase {
            let over = over.clone();
            return state.fail_parked(&over);
        }
        if self.maker.is_none() || !why.is_a_loss() {
            return self.end_for(&mut state, why);
        }
        state.sequence = state.sequence.wrapping_add(1);
        if matches!(state.phase, Phase::Up) && !state.channels.is_empty() {
            return self.fail_over(&mut state);
        }
        let is_wanted = !state.parked.is_empty() || state.grips.iter().any(|grip| grip.strong_count() > 0);
        if is_wanted { self.make(&mut state, why.clone()) } else { state.phase = Phase::Down(why.clone()) }
    }

    /// Another channel of the session does what the lost one did not (MS-SMB2 3.2.4.1, 3.2.7.1).
    fn fail_over(self: &Arc<Self>, state: &mut State) {
        for channel in &state.channels {
            // One that is over has nothing to send.
            let _ = channel.line.tell(Message::Sequence(state.sequence));
        }
        for call in std::mem::take(&mut state.parked) {
            state.send(call);
        }
        self.runtime.spawn(channels::fill(Arc::downgrade(self), channels::PAUSE));
    }

    /// A replay that came too early is sent again.
    pub fn later(self: &Arc<Self>, call: Call) {
        let session = Arc::downgrade(self);
        if call.attempts >= MOST_ATTEMPTS {
            return call.fail(&Failure::Interrupted);
        }
        self.runtime.spawn(async move {
            tokio::time::sleep(REPLAY_PAUSE).await;
            match session.upgrade() {
                Some(session) => session.dispatch(call),
                None => call.fail(&Failure::Ended),
            }
        });
    }

    /// Whether nobody else makes channels now.
    pub fn begins_filling(&self) -> bool {
        !self.is_filling.swap(true, Relaxed)
    }

    pub fn ends_filling(&self) {
        self.is_filling.store(false, Relaxed);
    }

    /// What a further channel needs, where the session may have one: its keys are its first connection's.
    pub fn wants_channel(&self) -> Option<Bind> {
        let maker = self.maker.as_ref()?;
        let state = self.lock();
        let may = self.negotiated.multi_channel && matches!(state.phase, Phase::Up);
        if !may || state.channels.len() >= usize::from(maker.channels).min(channels::MOST_CHANNELS) {
            return None;
        }
        let shield = state.channels.first()?.line.shield.clone()?;
        Some(Bind { session_id: state.session_id, tree_id: state.terms.tree_id, shield })
    }

    /// A further channel is there.
    pub fn joined(self: &Arc<Self>, line: Line) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Up) || state.session_id != line.session_id {
            return;
        }
        if let Some((id, why)) = self.add(&mut state, line) {
            drop(state);
            self.lost(id, &why, Vec::new());
        }
    }

    /// Adds a channel; answers why it is over, if it is over already.
    fn add(self: &Arc<Self>, state: &mut State, line: Line) -> Option<(u64, Failure)> {
        let id = state.next_channel;
        state.next_channel += 1;
        let (session, sequence, keeps) = (Arc::downgrade(self), state.sequence, self.maker.is_some());
        let over = line.join(Message::Join { session, id, sequence, keeps });
        state.channels.push(Channel { id, line });
        over.err().map(|why| (id, why))
    }

    fn end_for(&self, state: &mut State, why: &Failure) {
        state.phase = Phase::Over(why.clone());
        let _ = self.over.set(why.clone());
        state.fail_parked(why);
    }

    /// No other connection could be made; `session_id` is the last session there was.
    pub fn not_found(&self, why: &Failure, session_id: u64) {
        let mut state = self.lock();
        state.session_id = session_id;
        if !why.is_a_loss() {
            return self.end_for(&mut state, why);
        }
        if matches!(state.phase, Phase::Making) {
            state.phase = Phase::Down(why.clone());
        }
        state.fail_parked(why);
    }

    /// A connection is there: what waited for it is sent.
    pub fn found(self: &Arc<Self>, made: Made) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Making) {
            return;
        }
        (state.terms, state.session_id) = (made.terms, made.line.session_id);
        let over = self.add(&mut state, made.line);
        state.phase = Phase::Up;
        for call in std::mem::take(&mut state.parked) {
            state.send_again(call);
        }
        drop(state);
        if let Some((id, why)) = over {
            // It was over before it could be told to whom it belongs.
            self.lost(id, &why, Vec::new());
        }
        if self.maker.as_ref().is_some_and(|maker| maker.channels > 1) {
            self.runtime.spawn(channels::fill(Arc::downgrade(self), Duration::ZERO));
        }
    }
}

impl State {
    fn limits(&self) -> Limits {
        let least = |a: Limits, b: Limits| Limits {
            read_bytes: a.read_bytes.min(b.read_bytes),
            write_bytes: a.write_bytes.min(b.write_bytes),
            transact_bytes: a.transact_bytes.min(b.transact_bytes),
            window: a.window.min(b.window),
        };
        self.channels.iter().map(|channel| channel.line.limits()).reduce(least).unwrap_or(self.limits)
    }

    fn send(&mut self, mut call: Call) {
        let aimed: Result<(), Failure> = call.requests().try_for_each(|request| self.aim(request));
        if let Err(why) = aimed {
            return call.fail(&why);
        }
        // What may be given up stays where it can be found.
        let channel = match call.serial {
            Some(_) => self.channels.first(),
            None => self.channels.iter().min_by_key(|channel| channel.line.under_way_bytes()),
        };
        let Some(channel) = channel else { return self.parked.push_back(call) };
        if let Err(call) = channel.line.tell(Message::Call(call)) {
            // It is over, and about to say so.
            self.parked.push_back(*call);
        }
    }

    /// Sends what may have been sent before, for a session that is no more.
    fn send_again(&mut self, mut call: Call) {
        if call.request.replay
            && let Some(grip) = call.request.makes.take()
        {
            if !self.terms.is_available {
                grip.rename();
            }
            let replay = self.terms.is_available;
            call.request = Request { replay, makes: Some(grip.clone()), ..grip.create(&self.terms) };
        }
        self.send(call);
    }

    /// Gives a request the tree connect and the handle there are now.
    fn aim(&self, request: &mut Request) -> Result<(), Failure> {
        if request.tree_id != 0 {
            request.tree_id = self.terms.tree_id;
            request.seal |= self.terms.seal;
        }
        let Some(grip) = request.on.clone() else { return Ok(()) };
        match grip.place() {
            Place::Held(handle) => request.put_handle(handle),
            // It may be what closed it.
            Place::Lost if request.command == Command::Close && request.replay => return Err(Failure::Interrupted),
            Place::Lost | Place::ToCome => return Err(Failure::FileLost),
        }
        grip.used(request.command);
        Ok(())
    }

    fn aimed(&self, mut request: Request) -> Result<Request, Failure> {
        self.aim(&mut request).map(|()| request)
    }

    fn fail_parked(&mut self, why: &Failure) {
        for call in std::mem::take(&mut self.parked) {
            call.fail(why);
        }
    }
}
