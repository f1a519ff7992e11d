//! Joins a [`Connection`] to a socket: one task of the runtime for each connection, and [`Handle`]s by which others give
//! it requests. All requests that are ready leave in one write; an answer is received into the buffer its caller gets.
//! What a request means is not known here, but for one thing: an open whose caller is gone is closed.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BufMut;
use smb_wire::NtStatus;
use smb_wire::smb2::{CloseRequest, Command, CreateResponse, ValidateNegotiate};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};

use super::request::PREFIX_BYTES;
use super::{Config, Connection, Failure, Limits, Negotiated, Request, Response, Token};
use crate::buffer::{Buffer, Pool};

/// What one receive takes at most, where no large answer is under way: 16 answers of 4 KiB and their headers.
const INBOX_BYTES: usize = 80 << 10;
/// An answer that is longer is received into a buffer of its own.
const LARGE_BYTES: usize = 16 << 10;
/// Frames in one write.
const MOST_SLICES: usize = 64;
/// So many bytes of a large answer are progress; fewer would let a server drip for ever.
const PROGRESS_BYTES: usize = 64 << 10;

/// Fewer answers than this are given out at once: requests by the handful cost more than waiting.
const LEAST_SPLIT: usize = 8;

type Answer = Result<Response, Failure>;

struct Call {
    request: Request,
    reply: oneshot::Sender<Answer>,
    /// The rest of a compound.
    related: Vec<(Request, oneshot::Sender<Answer>)>,
    /// What a patient request is called, to be given up.
    serial: Option<u64>,
}

/// What handles tell the driver.
enum Message {
    Call(Call),
    /// Nobody waits for the patient request of that number any more; should it have succeeded meanwhile, this undoes it.
    GiveUp {
        serial: u64,
        undo: Option<Request>,
    },
}

/// What all handles of a connection know.
#[derive(Debug)]
struct Shared {
    negotiated: Negotiated,
    validation: Option<(ValidateNegotiate, ValidateNegotiate)>,
    common: Arc<Common>,
    pool: Pool,
}

/// What the driver tells all handles as it goes on.
#[derive(Debug, Default)]
struct Common {
    read: AtomicU32,
    write: AtomicU32,
    transact: AtomicU32,
    window: AtomicU64,
    next_serial: AtomicU64,
    /// Why the connection is over, once it is.
    over: OnceLock<Failure>,
}

impl Common {
    fn set(&self, limits: Limits) {
        self.read.store(limits.read_bytes, Relaxed);
        self.write.store(limits.write_bytes, Relaxed);
        self.transact.store(limits.transact_bytes, Relaxed);
        self.window.store(limits.window, Relaxed);
    }
}

/// Gives a connection requests. The connection ends when the last handle is gone.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    calls: mpsc::UnboundedSender<Message>,
    shared: Arc<Shared>,
}

impl Handle {
    /// What was agreed on.
    pub fn negotiated(&self) -> &Negotiated {
        &self.shared.negotiated
    }

    /// See [`Connection::validation`].
    pub fn validation(&self) -> Option<&(ValidateNegotiate, ValidateNegotiate)> {
        self.shared.validation.as_ref()
    }

    /// How much one request may move now.
    pub fn limits(&self) -> Limits {
        let cells = &self.shared.common;
        Limits {
            read_bytes: cells.read.load(Relaxed),
            write_bytes: cells.write.load(Relaxed),
            transact_bytes: cells.transact.load(Relaxed),
            window: cells.window.load(Relaxed),
        }
    }

    /// A buffer for a request that carries so much.
    pub fn buffer(&self, len_bytes: usize) -> Buffer {
        if len_bytes <= LARGE_BYTES { Vec::with_capacity(len_bytes).into() } else { self.shared.pool.take(len_bytes) }
    }

    /// Sends a request at once; the answer comes by the receiver. Dropping that gives the answer up, not the request.
    pub fn send(&self, request: Request) -> Pending {
        let (reply, pending) = self.pending();
        // A connection that is over answers by dropping the sender.
        let _ = self.calls.send(Message::Call(Call { request, reply, related: Vec::new(), serial: None }));
        pending
    }

    /// Sends a compound: a request that opens a file, and those that go on with that open. Each is answered by itself.
    pub fn send_compound(&self, first: Request, related: Vec<Request>) -> (Pending, Vec<Pending>) {
        let (reply, pending) = self.pending();
        let (replies, answers): (Vec<_>, Vec<_>) = related.iter().map(|_| self.pending()).unzip();
        let related = related.into_iter().zip(replies).collect();
        let _ = self.calls.send(Message::Call(Call { request: first, reply, related, serial: None }));
        (pending, answers)
    }

    /// Sends a request that may wait for ever. When its answer is given up the server is told to stop waiting, and
    /// `undo` is sent behind, for the answer may be on its way.
    pub fn send_patient(&self, request: Request, undo: Option<Request>) -> Patient {
        let (reply, pending) = self.pending();
        let serial = self.shared.common.next_serial.fetch_add(1, Relaxed);
        let call = Call { request: request.patient(), reply, related: Vec::new(), serial: Some(serial) };
        let _ = self.calls.send(Message::Call(call));
        Patient { pending, give_up: Some((self.calls.downgrade(), serial, undo)) }
    }

    fn pending(&self) -> (oneshot::Sender<Answer>, Pending) {
        let (reply, answer) = oneshot::channel();
        (reply, Pending { answer, common: Arc::clone(&self.shared.common) })
    }

    /// Sends a request and waits for the answer, whatever its status.
    pub async fn call(&self, request: Request) -> Answer {
        self.send(request).answer().await
    }
}

/// An answer that is to come.
#[derive(Debug)]
pub(crate) struct Pending {
    answer: oneshot::Receiver<Answer>,
    common: Arc<Common>,
}

impl Pending {
    /// Waits for it. Nothing is lost when this is given up before it is done; afterwards there is nothing more.
    pub async fn answer(&mut self) -> Answer {
        let answer = (&mut self.answer).await;
        answer.unwrap_or_else(|_| Err(self.common.over.get().cloned().unwrap_or(Failure::Ended)))
    }
}

/// An answer that may come in an hour. Dropping it gives the request up.
#[derive(Debug)]
pub(crate) struct Patient {
    pending: Pending,
    give_up: Option<(mpsc::WeakUnboundedSender<Message>, u64, Option<Request>)>,
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
        if let Some((calls, serial, undo)) = self.give_up.take()
            && let Some(calls) = calls.upgrade()
        {
            let _ = calls.send(Message::GiveUp { serial, undo });
        }
    }
}

/// Logs in over the two halves of a stream, and drives them from a task from then on.
pub(crate) async fn start<R, W>(reader: R, writer: W, config: Config) -> Result<Handle, Failure>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let started = Instant::now();
    let (calls, inbox) = mpsc::unbounded_channel();
    let (ready, is_ready) = oneshot::channel();
    let common = Arc::<Common>::default();
    let pool = Pool::default();
    let driver = Driver {
        machine: Connection::new(config, Duration::ZERO),
        reader,
        intake: Intake { small: Vec::with_capacity(INBOX_BYTES), large: None, unreported: 0, pool: pool.clone() },
        outlet: Outlet { writer, frames: VecDeque::new(), sent: 0 },
        calls: inbox,
        waiting: HashMap::new(),
        patient: HashMap::new(),
        ready: Some(ready),
        common: Arc::clone(&common),
        started,
        handles_gone: false,
    };
    tokio::spawn(driver.run());
    let (negotiated, validation) = is_ready.await.unwrap_or(Err(Failure::Ended))?;
    Ok(Handle { calls, shared: Arc::new(Shared { negotiated, validation, common, pool }) })
}

type Ready = Result<(Negotiated, Option<(ValidateNegotiate, ValidateNegotiate)>), Failure>;

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
    ready: Option<oneshot::Sender<Ready>>,
    common: Arc<Common>,
    started: Instant,
    handles_gone: bool,
}

struct Waiting {
    reply: oneshot::Sender<Answer>,
    /// What an open was asked for with: command, tree connect, whether sealed.
    open: Option<(u32, bool)>,
    serial: Option<u64>,
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
            result = self.outlet.send(), if !self.outlet.frames.is_empty() => Happened::Sent(result),
            () = timer.as_mut(), if deadline.is_some() => Happened::TimePassed,
        }
    }

    /// Sends what the socket takes at once.
    async fn send_now(&mut self) -> Happened {
        tokio::select! {
            biased;
            result = self.outlet.send(), if !self.outlet.frames.is_empty() => Happened::Sent(result),
            () = std::future::ready(()) => Happened::Nothing,
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// With no handle left nobody can ask for anything; what is under way, such as a CLOSE, is still seen through.
    fn is_over(&self) -> bool {
        let idle = !self.machine.is_busy() && self.outlet.frames.is_empty();
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
        }
    }

    fn give_up(&mut self, serial: u64, undo: Option<Request>) {
        let Some(token) = self.patient.remove(&serial) else { return };
        self.waiting.remove(&token);
        self.machine.cancel(token);
        if let Some(undo) = undo {
            // Whether there was anything to undo does not matter to anybody.
            self.machine.submit(undo, self.now());
        }
    }

    fn submit(&mut self, Call { request, reply, related, serial }: Call) {
        let now = self.now();
        if related.is_empty() {
            let open = (request.command == Command::Create).then_some((request.tree_id, request.seal));
            let token = self.machine.submit(request, now);
            self.waiting.insert(token, Waiting { reply, open, serial });
            self.patient.extend(serial.map(|serial| (serial, token)));
            return;
        }
        // A compound closes what it opens.
        let (requests, replies): (Vec<_>, Vec<_>) = related.into_iter().unzip();
        let tokens = self.machine.submit_compound(request, requests, now);
        for (token, reply) in tokens.into_iter().zip(std::iter::once(reply).chain(replies)) {
            self.waiting.insert(token, Waiting { reply, open: None, serial: None });
        }
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
        let (done, at_the_server) = (self.machine.done_count(), self.machine.in_flight_count());
        let holds_back = done >= LEAST_SPLIT && at_the_server < done / 2;
        let most = if holds_back { done / 2 } else { done };
        for _ in 0..most {
            let Some((token, answer)) = self.machine.next_done() else { break };
            let Some(waiting) = self.waiting.remove(&token) else { continue };
            if let Some(serial) = waiting.serial {
                self.patient.remove(&serial);
            }
            if let Err(Ok(response)) = waiting.reply.send(answer)
                && let Some((tree_id, seal)) = waiting.open
            {
                self.close_orphan(&response, tree_id, seal);
            }
        }
        holds_back
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
            (Some(negotiated), _) => Ok((negotiated.clone(), self.machine.validation())),
            (None, Some(failure)) => Err(failure.clone()),
            (None, None) => return,
        };
        self.common.set(self.machine.limits());
        if let Some(ready) = self.ready.take() {
            // Whoever wanted to log in may have given up meanwhile; the handles are gone with them.
            let _ = ready.send(outcome);
        }
    }

    /// The connection is over: whoever still asks is told why.
    async fn finish(mut self) {
        let why = self.machine.failure().cloned().unwrap_or(Failure::Ended);
        let _ = self.common.over.set(why.clone());
        self.calls.close();
        while let Ok(message) = self.calls.try_recv() {
            let Message::Call(Call { reply, related, .. }) = message else { continue };
            for reply in std::iter::once(reply).chain(related.into_iter().map(|(_, reply)| reply)) {
                let _ = reply.send(Err(why.clone()));
            }
        }
        // Nobody is left who would want to know that this did not work.
        let _ = self.outlet.writer.shutdown().await;
    }
}

fn network(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Network(error.to_string()),
    }
}

/// What was received and is not a frame yet.
struct Intake {
    small: Vec<u8>,
    /// A frame that does not fit, and how long it will be.
    large: Option<(Buffer, usize)>,
    /// Bytes received since progress was last told.
    unreported: usize,
    pool: Pool,
}

impl Intake {
    /// Receives once. Nothing is lost when this is given up before it is done.
    async fn receive<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> std::io::Result<usize> {
        match &mut self.large {
            Some((frame, len)) => {
                let missing = len.saturating_sub(frame.len());
                reader.read_buf(&mut (&mut **frame).limit(missing)).await
            }
            None => {
                let room = INBOX_BYTES.saturating_sub(self.small.len());
                reader.read_buf(&mut (&mut self.small).limit(room)).await
            }
        }
    }

    fn copy(&self, frame: &[u8]) -> Buffer {
        if frame.len() <= LARGE_BYTES {
            return frame.to_vec().into();
        }
        let mut buffer = self.pool.take(frame.len());
        buffer.extend_from_slice(frame);
        buffer
    }

    /// Gives the machine every frame that is whole.
    fn take_frames(&mut self, received: usize, machine: &mut Connection, now: Duration) -> Result<(), Failure> {
        self.unreported += received;
        if self.unreported >= PROGRESS_BYTES {
            self.unreported = 0;
            machine.progress(now);
        }
        if let Some((frame, _)) = self.large.take_if(|(frame, len)| frame.len() >= *len) {
            machine.receive(frame, now);
        }
        let mut at = 0;
        while let Some((prefix, rest)) = self.small.get(at..).and_then(|rest| rest.split_first_chunk()) {
            let len = machine.framing(*prefix)?;
            if let Some(frame) = rest.get(..len) {
                machine.receive(self.copy(frame), now);
                at += PREFIX_BYTES + len;
                continue;
            }
            if len > LARGE_BYTES {
                let mut frame = self.pool.take(len);
                frame.extend_from_slice(rest);
                self.large = Some((frame, len));
                at = self.small.len();
            }
            break;
        }
        self.small.drain(..at);
        Ok(())
    }
}

/// What is to be sent.
struct Outlet<W> {
    writer: W,
    frames: VecDeque<super::Outgoing>,
    /// Bytes of the first frame that are gone.
    sent: usize,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    fn fill(&mut self, machine: &mut Connection) {
        self.frames.extend(std::iter::from_fn(|| machine.next_outgoing()));
    }

    /// Sends once, as many frames as one call takes.
    async fn send(&mut self) -> std::io::Result<usize> {
        let mut skip = self.sent;
        let slices: Vec<IoSlice<'_>> = self
            .frames
            .iter()
            .take(MOST_SLICES)
            .map(|frame| IoSlice::new(frame.bytes().get(std::mem::take(&mut skip)..).unwrap_or_default()))
            .collect();
        self.writer.write_vectored(&slices).await
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(frame) = self.frames.front() {
            let left = frame.bytes().len() - self.sent;
            if count < left {
                self.sent += count;
                return;
            }
            count -= left;
            self.sent = 0;
            self.frames.pop_front();
        }
    }
}
