//! Joins a [`Connection`] to a socket: one task of the runtime for each connection, and a [`Line`] by which the session gives
//! it requests. All requests that are ready leave in one write; an answer is received into the buffer its caller gets.
//! What a request means is not known here, but for one thing: an open whose caller is gone is closed.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use smb_wire::NtStatus;
use smb_wire::smb2::{CloseRequest, Command, CreateResponse, ValidateNegotiate};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};

use super::connection::Unanswered;
use super::grip::Grip;
use super::protect::Shield;
use super::session::Session;
use super::transit::{Intake, Outlet};
use super::{Connection, Failure, Limits, Negotiated, Request, Response, Token};
use crate::buffer::{Buffer, Pool};

/// An answer that is longer is received into a buffer of its own.
pub(super) const LARGE_BYTES: usize = 16 << 10;

/// After so many connections that were lost with it a request is not tried again: it may be what ends them.
pub(super) const MOST_ATTEMPTS: u8 = 6;

/// Fewer answers than this are given out at once: requests by the handful cost more than waiting.
const LEAST_SPLIT: usize = 8;

type Answer = Result<Response, Failure>;

/// A request and who waits for its answer.
pub(crate) struct Call {
    pub request: Request,
    pub reply: oneshot::Sender<Answer>,
    /// The rest of a compound.
    pub related: Vec<(Request, oneshot::Sender<Answer>)>,
    /// What a patient request is called, to be given up.
    pub serial: Option<u64>,
    /// How many connections were lost with it.
    pub attempts: u8,
}

impl Call {
    /// All who wait are told why they wait in vain.
    pub fn fail(self, why: &Failure) {
        for reply in std::iter::once(self.reply).chain(self.related.into_iter().map(|(_, reply)| reply)) {
            // Whoever asked may have given up meanwhile.
            let _ = reply.send(Err(why.clone()));
        }
    }

    /// Its requests, the compound's first one first.
    pub fn requests(&mut self) -> impl Iterator<Item = &mut Request> {
        std::iter::once(&mut self.request).chain(self.related.iter_mut().map(|(request, _)| request))
    }
}

/// What a driver is told.
pub(crate) enum Message {
    Call(Call),
    /// Nobody waits for the patient request of that number any more; should it have succeeded meanwhile, this undoes it.
    GiveUp {
        serial: u64,
        undo: Option<Request>,
    },
    /// From now on the connection is that channel of the session, which takes what it leaves unanswered.
    Join {
        session: Weak<Session>,
        id: u64,
        sequence: u16,
        /// Whether there will be another one to send that.
        keeps: bool,
    },
    /// A channel of the session failed: what is sent from now on is of that sequence.
    Sequence(u16),
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

/// What the driver tells as it goes on.
#[derive(Debug, Default)]
struct Common {
    read: AtomicU32,
    write: AtomicU32,
    transact: AtomicU32,
    window: AtomicU64,
    /// Bytes asked for or carried by requests that are not answered.
    under_way_bytes: AtomicUsize,
    /// Why the connection is over, once it is.
    over: Arc<OnceLock<Failure>>,
}

impl Common {
    fn set(&self, limits: Limits) {
        self.read.store(limits.read_bytes, Relaxed);
        self.write.store(limits.write_bytes, Relaxed);
        self.transact.store(limits.transact_bytes, Relaxed);
        self.window.store(limits.window, Relaxed);
    }
}

/// One connection, logged in. It ends when this is gone.
#[derive(Debug)]
pub(crate) struct Line {
    calls: mpsc::UnboundedSender<Message>,
    common: Arc<Common>,
    /// What was agreed on.
    pub negotiated: Negotiated,
    /// See [`Connection::validation`].
    pub validation: Option<(ValidateNegotiate, ValidateNegotiate)>,
    pub session_id: u64,
    /// Its keys.
    pub shield: Option<Shield>,
}

impl Line {
    /// How much one request may move now.
    pub fn limits(&self) -> Limits {
        let cells = &self.common;
        Limits {
            read_bytes: cells.read.load(Relaxed),
            write_bytes: cells.write.load(Relaxed),
            transact_bytes: cells.transact.load(Relaxed),
            window: cells.window.load(Relaxed),
        }
    }

    /// Tells the driver; a call comes back when the connection is over.
    pub fn tell(&self, message: Message) -> Result<(), Box<Call>> {
        // What is counted by the driver would be seen too late: whoever asks next is to take another channel.
        if let Message::Call(call) = &message {
            self.common.under_way_bytes.fetch_add(weight(&call.request), Relaxed);
        }
        self.calls.send(message).or_else(|unsent| match unsent.0 {
            Message::Call(call) => Err(Box::new(call)),
            _ => Ok(()),
        })
    }

    /// What it was given and has not answered, in bytes.
    pub fn under_way_bytes(&self) -> usize {
        self.common.under_way_bytes.load(Relaxed)
    }

    /// Tells the driver whose it is; an error is why it is over already.
    pub fn join(&self, message: Message) -> Result<(), Failure> {
        self.calls.send(message).map_err(|_| self.common.over.get().cloned().unwrap_or(Failure::Ended))
    }

    /// Sends a request and waits for the answer, whatever its status. It is not sent again.
    pub async fn call(&self, request: Request) -> Answer {
        self.send(request).answer().await
    }

    /// Sends a request that is not sent again.
    pub fn send(&self, request: Request) -> Pending {
        let (reply, answer) = oneshot::channel();
        // A connection that is over answers by dropping the sender.
        let _ = self.tell(Message::Call(Call { request, reply, related: Vec::new(), serial: None, attempts: 0 }));
        Pending { answer, over: Arc::clone(&self.common.over) }
    }
}

/// What a request counts for of a channel: what it carries or asks for, and something for itself.
fn weight(request: &Request) -> usize {
    const HEAD_BYTES: usize = 256;
    request.payload_bytes as usize + HEAD_BYTES
}

/// A buffer for a request that carries so much.
pub(super) fn buffer(pool: &Pool, len_bytes: usize) -> Buffer {
    if len_bytes <= LARGE_BYTES { Vec::with_capacity(len_bytes).into() } else { pool.take(len_bytes) }
}

/// An answer that is to come.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(super) answer: oneshot::Receiver<Answer>,
    pub(super) over: Arc<OnceLock<Failure>>,
}

impl Pending {
    /// Waits for it. Nothing is lost when this is given up before it is done; afterwards there is nothing more.
    pub async fn answer(&mut self) -> Answer {
        let answer = (&mut self.answer).await;
        answer.unwrap_or_else(|_| Err(self.over.get().cloned().unwrap_or(Failure::Ended)))
    }
}

/// Logs in over the two halves of a stream, and drives them from a task from then on.
pub(super) async fn start<R, W>(reader: R, writer: W, machine: Connection, pool: &Pool) -> Result<Line, Failure>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let started = Instant::now();
    let (calls, inbox) = mpsc::unbounded_channel();
    let (ready, is_ready) = oneshot::channel();
    let common = Arc::<Common>::default();
    let driver = Driver {
        machine,
        reader,
        intake: Intake::new(pool.clone()),
        outlet: Outlet::new(writer),
        calls: inbox,
        waiting: HashMap::new(),
        patient: HashMap::new(),
        ready: Some(ready),
        common: Arc::clone(&common),
        started,
        home: None,
        handles_gone: false,
    };
    tokio::spawn(driver.run());
    let Ready { negotiated, validation, session_id, shield } = is_ready.await.unwrap_or(Err(Failure::Ended))?;
    Ok(Line { calls, common, negotiated, validation, session_id, shield })
}

/// What is told of a connection once somebody is logged in.
struct Ready {
    negotiated: Negotiated,
    validation: Option<(ValidateNegotiate, ValidateNegotiate)>,
    session_id: u64,
    shield: Option<Shield>,
}

struct Driver<R, W> {
    machine: Connection,
    reader: R,
    intake: Intake,
    outlet: Outlet<W>,
    calls: mpsc::UnboundedReceiver<Message>,
    waiting: HashMap<Token, Waiting>,
    /// What patient requests that are under way are called.
    patient: HashMap<u64, Token>,
    /// Told once, when somebody is logged in or will never be.
    ready: Option<oneshot::Sender<Result<Ready, Failure>>>,
    common: Arc<Common>,
    started: Instant,
    /// The session it is a channel of, and as which.
    home: Option<(Weak<Session>, u64)>,
    handles_gone: bool,
}

struct Waiting {
    reply: oneshot::Sender<Answer>,
    /// What an open was asked for with: tree connect, whether sealed.
    open: Option<(u32, bool)>,
    makes: Option<Arc<Grip>>,
    serial: Option<u64>,
    attempts: u8,
    weight: usize,
}

enum Happened {
    Called(Option<Message>),
    Received(std::io::Result<usize>),
    Sent(std::io::Result<usize>),
    TimePassed,
    Nothing,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Driver<R, W> {
    async fn run(mut self) {
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        loop {
            let holds_back = self.deliver();
            if holds_back {
                // Those who have their answers ask again, and the server has something to do meanwhile.
                tokio::task::yield_now().await;
                self.take_waiting_calls();
            }
            self.outlet.fill(&mut self.machine);
            self.common.set(self.machine.limits());
            if self.is_over() {
                break;
            }
            let happened = if holds_back { self.send_now().await } else { self.wait(&mut timer).await };
            match happened {
                Happened::Nothing => {}
                Happened::Called(call) => self.take_calls(call),
                Happened::Received(result) => self.received(result),
                Happened::Sent(result) => self.sent(result),
                Happened::TimePassed => {
                    let now = self.now();
                    self.machine.tick(now);
                }
            }
        }
        self.finish().await;
    }

    async fn wait(&mut self, timer: &mut Pin<Box<Sleep>>) -> Happened {
        let deadline = self.machine.deadline().map(|at| self.started + at);
        // The deadline moves with every answer; the timer is left to ring early instead of being moved along.
        if let Some(at) = deadline
            && (timer.is_elapsed() || timer.deadline() > at)
        {
            timer.as_mut().reset(at);
        }
        tokio::select! {
            call = self.calls.recv(), if !self.handles_gone => Happened::Called(call),
            result = self.intake.receive(&mut self.reader) => Happened::Received(result),
            result = self.outlet.send(), if !self.outlet.is_empty() => Happened::Sent(result),
            () = timer.as_mut(), if deadline.is_some() => Happened::TimePassed,
        }
    }

    /// Sends what the socket takes at once.
    async fn send_now(&mut self) -> Happened {
        tokio::select! {
            biased;
            result = self.outlet.send(), if !self.outlet.is_empty() => Happened::Sent(result),
            () = std::future::ready(()) => Happened::Nothing,
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// With no handle left nobody can ask for anything; what is under way, such as a CLOSE, is still seen through.
    fn is_over(&self) -> bool {
        let idle = !self.machine.is_busy() && self.outlet.is_empty();
        self.machine.failure().is_some() || (self.handles_gone && self.machine.ready().is_some() && idle)
    }

    fn take_calls(&mut self, message: Option<Message>) {
        let Some(message) = message else {
            self.handles_gone = true;
            return;
        };
        self.take(message);
        self.take_waiting_calls();
    }

    fn take_waiting_calls(&mut self) {
        while let Ok(message) = self.calls.try_recv() {
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Call(call) => self.submit(call),
            Message::GiveUp { serial, undo } => self.give_up(serial, undo),
            Message::Join { session, id, sequence, keeps } => {
                self.home = Some((session, id));
                self.machine.set_sequence(sequence);
                self.machine.keep_unanswered(keeps);
            }
            Message::Sequence(sequence) => self.machine.set_sequence(sequence),
        }
    }

    fn give_up(&mut self, serial: u64, undo: Option<Request>) {
        let Some(token) = self.patient.remove(&serial) else { return };
        self.forget(token);
        self.machine.cancel(token);
        if let Some(undo) = undo {
            // Whether there was anything to undo does not matter to anybody.
            self.machine.submit(undo, self.now());
        }
    }

    fn submit(&mut self, Call { mut request, reply, related, serial, attempts }: Call) {
        let now = self.now();
        if related.is_empty() {
            let open = (request.command == Command::Create).then_some((request.tree_id, request.seal));
            let makes = request.makes.take();
            let weight = weight(&request);
            let token = self.machine.submit(request, now);
            self.waiting.insert(token, Waiting { reply, open, makes, serial, attempts, weight });
            self.patient.extend(serial.map(|serial| (serial, token)));
            return;
        }
        // A compound closes what it opens, save where somebody is to have it.
        let mut makes = request.makes.take();
        let mut open = makes.is_some().then_some((request.tree_id, request.seal));
        let (requests, replies): (Vec<_>, Vec<_>) = related.into_iter().unzip();
        let mut weight = weight(&request);
        let tokens = self.machine.submit_compound(request, requests, now);
        for (token, reply) in tokens.into_iter().zip(std::iter::once(reply).chain(replies)) {
            let (open, makes, serial) = (open.take(), makes.take(), None);
            self.waiting.insert(token, Waiting { reply, open, makes, serial, attempts, weight });
            weight = 0;
        }
    }

    fn forget(&mut self, token: Token) -> Option<Waiting> {
        let waiting = self.waiting.remove(&token)?;
        self.common.under_way_bytes.fetch_sub(waiting.weight, Relaxed);
        Some(waiting)
    }

    fn received(&mut self, result: std::io::Result<usize>) {
        match result {
            Ok(0) => self.machine.fail(Failure::Closed),
            Ok(count) => {
                let now = self.now();
                if let Err(failure) = self.intake.take_frames(count, &mut self.machine, now) {
                    self.machine.fail(failure);
                }
            }
            Err(error) => self.machine.fail(network(&error)),
        }
    }

    fn sent(&mut self, result: std::io::Result<usize>) {
        match result {
            Ok(0) => self.machine.fail(Failure::Closed),
            Ok(count) => {
                self.outlet.advance(count);
                let now = self.now();
                self.machine.progress(now);
            }
            Err(error) => self.machine.fail(network(&error)),
        }
    }

    /// Gives the answers to those who wait for them; all but half of them, and then says so, where the server has little
    /// left to do: otherwise it and those who ask would take turns at waiting for each other.
    fn deliver(&mut self) -> bool {
        self.tell_ready();
        self.put_off();
        let (done, at_the_server) = (self.machine.done_count(), self.machine.in_flight_count());
        let holds_back = done >= LEAST_SPLIT && at_the_server < done / 2;
        let most = if holds_back { done / 2 } else { done };
        for _ in 0..most {
            let Some((token, answer)) = self.machine.next_done() else { break };
            self.give_out(token, answer);
        }
        holds_back
    }

    /// Replays that came too early go back to the session, which tries them again.
    fn put_off(&mut self) {
        for unanswered in self.machine.take_too_early() {
            let call = self.call_of(unanswered, &Failure::Closed);
            let home = self.home.as_ref().and_then(|(session, _)| session.upgrade());
            match (call, home) {
                (Some(call), Some(session)) => session.later(call),
                (Some(call), None) => call.fail(&Failure::Interrupted),
                (None, _) => {}
            }
        }
    }

    fn give_out(&mut self, token: Token, answer: Answer) {
        let Some(waiting) = self.forget(token) else { return };
        if let Some(serial) = waiting.serial {
            self.patient.remove(&serial);
        }
        let answer = match answer {
            // The first time it was done, and its answer lost.
            Ok(response) if waiting.attempts > 0 && is_closed_already(&response) => Err(Failure::Interrupted),
            answer => answer,
        };
        if let (Ok(response), Some(grip)) = (&answer, &waiting.makes)
            && response.status() == NtStatus::SUCCESS
            && let Ok(created) = CreateResponse::decode(response.message())
        {
            // Before anybody can lose the connection, so that the open is known by then.
            grip.made(&created);
        }
        if let Err(Ok(response)) = waiting.reply.send(answer)
            && let Some((tree_id, seal)) = waiting.open
        {
            self.close_orphan(&response, tree_id, seal);
        }
    }

    /// The caller of an open is gone: nobody else would close it.
    fn close_orphan(&mut self, response: &Response, tree_id: u32, seal: bool) {
        if response.status() != NtStatus::SUCCESS {
            return;
        }
        let Ok(created) = CreateResponse::decode(response.message()) else { return };
        let close = CloseRequest { post_query: false, handle: created.handle };
        let request = Request::new(Command::Close, tree_id, 0, |out| close.put(out)).sealed(seal);
        self.machine.submit(request, self.now());
    }

    fn tell_ready(&mut self) {
        if self.ready.is_none() {
            return;
        }
        let outcome = match (self.machine.ready(), self.machine.failure()) {
            (Some(negotiated), _) => {
                let (negotiated, session_id) = (negotiated.clone(), self.machine.session_id());
                let (validation, shield) = (self.machine.validation(), self.machine.shield().cloned());
                Ok(Ready { negotiated, validation, session_id, shield })
            }
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => return,
        };
        self.common.set(self.machine.limits());
        if let Some(ready) = self.ready.take() {
            // Whoever wanted to log in may have given up meanwhile; the handles are gone with them.
            let _ = ready.send(outcome);
        }
    }

    /// The connection is over: the session takes what is not answered; without one, whoever still asks is told why.
    async fn finish(mut self) {
        let why = self.machine.failure().cloned().unwrap_or(Failure::Ended);
        let _ = self.common.over.set(why.clone());
        while let Some((token, answer)) = self.machine.next_done() {
            self.give_out(token, answer);
        }
        let unanswered = self.machine.take_unanswered();
        let mut left: Vec<Call> = unanswered.into_iter().filter_map(|u| self.call_of(u, &why)).collect();
        let mut given_up = Vec::new();
        self.calls.close();
        while let Ok(message) = self.calls.try_recv() {
            match message {
                Message::Call(call) => left.push(call),
                Message::GiveUp { serial, undo } => given_up.push((serial, undo)),
                Message::Join { session, id, .. } => self.home = Some((session, id)),
                Message::Sequence(_) => {}
            }
        }
        match self.home.take().and_then(|(session, id)| Some((session.upgrade()?, id))) {
            Some((session, id)) => {
                session.lost(id, &why, left);
                given_up.into_iter().for_each(|(serial, undo)| session.give_up(serial, undo));
            }
            None => left.into_iter().for_each(|call| call.fail(&why)),
        }
        self.outlet.close().await;
    }

    /// What was not answered, with who waits for it; `None` where nobody does, or where it cannot be sent again.
    fn call_of(&mut self, unanswered: Unanswered, why: &Failure) -> Option<Call> {
        let Unanswered { token, mut request, related, is_sent, is_torn } = unanswered;
        let Waiting { reply, makes, serial, attempts, .. } = self.forget(token)?;
        let related: Vec<_> =
            related.into_iter().filter_map(|(token, r)| Some((r, self.forget(token)?.reply))).collect();
        (request.replay, request.makes) = (request.replay || is_sent, makes);
        let weight = if is_sent { attempts_of(why) } else { 0 };
        let mut call = Call { request, reply, related, serial, attempts: attempts.saturating_add(weight) };
        if is_torn || is_sent && !call.requests().all(|request| request.repeatable) {
            call.fail(if why.is_a_loss() { &Failure::Interrupted } else { why });
            return None;
        }
        Some(call)
    }
}

fn is_closed_already(response: &Response) -> bool {
    response.header.command == Command::Close as u16 && response.status() == NtStatus::FILE_CLOSED
}

/// What a lost connection counts for the requests that were lost with it: one that was waited for long, for many.
fn attempts_of(why: &Failure) -> u8 {
    if matches!(why, Failure::Timeout(_)) { MOST_ATTEMPTS } else { 1 }
}

fn network(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Network(error.to_string()),
    }
}
