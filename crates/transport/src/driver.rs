//! One connection's life: receive, let the machine work, send, until one side is done.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use rustix::net::sockopt::set_tcp_quickack;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::Sleep;
use vfs::metrics::COUNTING;

use crate::gather::{Batch, Gather};
use crate::intake::{Intake, Refused, Taken};
use crate::machine::Attended;
use crate::observer::Listed;
use crate::outbox::{Flushed, Outbox};
use crate::server::ShardEnv;
use crate::sockets::ListenOptions;
use crate::sys;
use crate::whole::{Round, Whole};
use crate::{Counters, Limits, Machine};

/// Rounds of receive and send before other connections of the shard get their turn, and what they may move meanwhile: who
/// asks for much, or many times, is served as often as the others, not for as long as it asks.
const ROUNDS_PER_TURN: u32 = 8;
const REPLIES_PER_TURN: u32 = 64;
const BYTES_PER_TURN: usize = 1 << 20;

/// Looks at the socket once more before replies leave, while requests keep coming: what came meanwhile shares their call.
const LOOKS_BEFORE_SENDING: u32 = 4;
/// Replies beyond this leave at once: their call is not what costs.
const GATHERED_BYTES: usize = 64 << 10;
/// Of requests that came in one call, after so many the replies that are ready leave, once they and their requests are that
/// long: the peer has something to do meanwhile, and asks again before there is nothing left to do here. Not where others
/// wait for their turn, nor where no core is idle: a peer on this machine would take this one.
const AT_A_TIME: u32 = 4;
const AT_A_TIME_BYTES: usize = 16 << 10;

/// What every connection of a server shares.
pub struct Shared {
    pub limits: Limits,
    pub stopping: AtomicBool,
    pub stop: tokio::sync::Notify,
}

/// What a turn has moved.
#[derive(Debug, Default)]
struct Spent {
    rounds: u32,
    replies: u32,
    bytes: usize,
}

impl Spent {
    /// Whether other connections are to have their turn.
    fn is_enough(&self) -> bool {
        self.rounds >= ROUNDS_PER_TURN || self.replies >= REPLIES_PER_TURN || self.bytes >= BYTES_PER_TURN
    }
}

pub struct Driver {
    stream: TcpStream,
    machine: Attended,
    intake: Intake,
    outbox: Outbox,
    env: ShardEnv,
    listed: Listed,
    shared: Arc<Shared>,
    handshake: Option<Pin<Box<Sleep>>>,
    peer_done: bool,
    /// What this turn has moved.
    spent: Spent,
    /// The peer keeps several requests under way: the last look before sending found some, or one call brought several.
    pipelined: bool,
    /// None where it is turned off.
    gather: Option<Gather>,
    /// None where it is turned off.
    whole: Option<Whole>,
    /// The number of its last turn, and whether the shard had no other connection's since the one before.
    turn: u64,
    is_alone: bool,
}

impl Driver {
    pub fn new(
        stream: TcpStream,
        machine: Box<dyn Machine>,
        env: ShardEnv,
        listed: Listed,
        shared: Arc<Shared>,
        options: &ListenOptions,
    ) -> Self {
        let handshake = Some(Box::pin(tokio::time::sleep(shared.limits.handshake)));
        let intake = Intake::new(env.pool.clone());
        Self {
            stream,
            machine: Attended::new(machine),
            intake,
            outbox: Outbox::new(options.join_pages_below_bytes),
            env,
            listed,
            shared,
            handshake,
            peer_done: false,
            spent: Spent::default(),
            pipelined: false,
            gather: options.gather.then(|| Gather::new(std::time::Instant::now)),
            whole: options.await_large.then(Whole::new),
            turn: 0,
            is_alone: false,
        }
    }

    /// Runs the connection to its end.
    pub async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut stop = std::pin::pin!(shared.stop.notified());
        stop.as_mut().enable();
        let why = poll_fn(|cx| {
            // Registers this task to be woken at shutdown; the flag says whether it is time.
            let _ = stop.as_mut().poll(cx);
            let number = self.env.load.begin(self.env.shard);
            self.is_alone = number == self.turn.wrapping_add(1);
            self.turn = number;
            let turn = self.turn(cx);
            self.env.load.end(self.env.shard);
            turn
        })
        .await;
        self.machine.over(&why);
        // The socket and the buffers go.
        let Self { mut machine, listed, .. } = self;
        drop(listed);
        poll_fn(|cx| {
            let _ = stop.as_mut().poll(cx);
            if machine.lingers() {
                machine.poll(cx);
            }
            let stays = machine.lingers() && !shared.stopping.load(Relaxed);
            if stays { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// Works until nothing can go on. Ready with the reason when the connection is over.
    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<String> {
        if self.handshake_is_late(cx) {
            return Poll::Ready("did not authenticate in time".into());
        }
        self.spent = Spent::default();
        loop {
            self.spent.rounds += 1;
            self.machine.poll(cx);
            if let Err(error) = self.send(cx) {
                return Poll::Ready(format!("cannot send: {error}"));
            }
            if let Some(why) = self.ended() {
                return Poll::Ready(why);
            }
            if self.spent.is_enough() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.machine.stalled() && self.outbox.queued_bytes() < self.shared.limits.queued_reply_bytes {
                continue;
            }
            if !self.wants_requests() {
                return Poll::Pending;
            }
            match self.stream.poll_read_ready(cx) {
                Poll::Pending if !self.has_waited_in_vain(cx) => return Poll::Pending,
                Poll::Pending => {}
                Poll::Ready(Err(error)) => return Poll::Ready(format!("cannot receive: {error}")),
                Poll::Ready(Ok(())) => match self.receive() {
                    Ok(Ok(Taken::End)) => self.peer_done = true,
                    Ok(Ok(Taken::Bytes { .. } | Taken::Nothing)) => {}
                    Ok(Err(Refused(why))) => return Poll::Ready(format!("broken framing: {why}")),
                    Err(error) => return Poll::Ready(format!("cannot receive: {error}")),
                },
            }
        }
    }

    fn handshake_is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(timer) = &mut self.handshake else { return false };
        if self.machine.established() {
            self.handshake = None;
            return false;
        }
        timer.as_mut().poll(cx).is_ready()
    }

    /// Takes the ready replies and puts on the socket what it takes; when that is not all, the task is woken once it
    /// takes more.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        loop {
            let (_, _, machine, mut exit) = self.halves();
            exit.take_from(machine);
            if exit.outbox.queued_bytes() == 0 {
                return Ok(());
            }
            let Poll::Ready(ready) = exit.stream.poll_write_ready(cx) else { return Ok(()) };
            ready?;
            match exit.flush(machine) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }

    /// What receives, the machine, and the way out.
    fn halves(&mut self) -> (&TcpStream, &mut Intake, &mut Attended, Exit<'_>) {
        let Self { stream, intake, machine, outbox, env, listed, shared, spent, is_alone, .. } = self;
        let most_bytes = shared.limits.queued_reply_bytes;
        let exit = Exit {
            stream,
            outbox,
            env,
            listed,
            spent,
            most_bytes,
            early: *is_alone && env.load.has_idle_cores(env.shard),
        };
        (stream, intake, machine, exit)
    }

    /// A peer that does not take its replies is not read from.
    fn wants_requests(&self) -> bool {
        !self.peer_done
            && !self.shared.stopping.load(Relaxed)
            && self.machine.ready()
            && self.outbox.queued_bytes() < self.shared.limits.queued_reply_bytes
            && (self.owes_nothing() || self.env.pool.stats().used_bytes < self.shared.limits.used_bytes_per_shard)
    }

    fn owes_nothing(&self) -> bool {
        self.outbox.queued_bytes() == 0 && !self.machine.busy()
    }

    /// Receives what is there, and looks again while a pipelining peer sends more and the replies are small.
    fn receive(&mut self) -> io::Result<Result<Taken, Refused>> {
        let mut batch = Batch::default();
        let mut taken = Ok(Ok(Taken::Nothing));
        let (stream, intake, machine, mut exit) = self.halves();
        let tried = stream.try_io(Interest::READABLE, || {
            taken = receive_once(intake, machine, &mut exit, &mut batch);
            // The socket was emptied: the next bytes raise a new event, and asking again now would only cost a call.
            match &taken {
                Ok(Ok(Taken::Nothing | Taken::Bytes { drained: true })) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        match tried {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let looks = batch.frames > 1 || (batch.frames == 1 && self.pipelined);
        if looks && matches!(taken, Ok(Ok(Taken::Bytes { drained: true }))) {
            taken = self.look_again(&mut batch);
        }
        self.spent.bytes += batch.bytes;
        self.listed.traffic.received(batch.frames, batch.bytes);
        self.let_gather(&batch);
        self.await_whole(&batch);
        if batch.frames == 0 && self.intake.is_mid_frame() {
            // A peer that batches its small segments (Nagle) holds back the rest until what is here is acknowledged, and
            // without this that may be 40 ms later. Where it cannot be asked for, it takes those.
            let _ = set_tcp_quickack(&self.stream, true);
        }
        taken
    }

    fn has_waited_in_vain(&mut self, cx: &mut Context<'_>) -> bool {
        let (socket, counters) = (self.stream.as_fd(), &self.env.counters);
        let gathered = self.gather.as_mut().is_some_and(|gather| gather.poll_patience(cx, socket).is_ready());
        Counters::bump(&counters.gather_in_vain, gathered.into());
        let awaited = self.whole.as_mut().is_some_and(|whole| whole.poll_patience(cx, socket).is_ready());
        Counters::bump(&counters.awaited_in_vain, awaited.into());
        gathered || awaited
    }

    fn let_gather(&mut self, batch: &Batch) {
        let Some(gather) = &mut self.gather else { return };
        let (counters, was_on) = (&self.env.counters, gather.is_on());
        gather.took(self.stream.as_fd(), batch);
        if was_on {
            Counters::bump(&counters.gather_wakeups, 1);
            Counters::bump(&counters.gather_frames, batch.frames.into());
        } else if gather.is_on() {
            Counters::bump(&counters.gather_begun, 1);
        }
    }

    /// While small requests gather, the low-water mark is theirs.
    fn await_whole(&mut self, batch: &Batch) {
        let Some(whole) = &mut self.whole else { return };
        if self.gather.as_ref().is_some_and(Gather::is_on) {
            return whole.is_overruled();
        }
        let round = Round { ended: batch.frames > 0, missing_bytes: self.intake.missing_bytes() };
        let came = whole.took(self.stream.as_fd(), round);
        Counters::bump(&self.env.counters.awaited, came.into());
    }

    /// One `sendmsg` costs more than the look that saves the next one. A peer with one request under way is never looked
    /// at again: there is nothing it could have sent.
    fn look_again(&mut self, batch: &mut Batch) -> io::Result<Result<Taken, Refused>> {
        self.pipelined = false;
        for _ in 0..LOOKS_BEFORE_SENDING {
            while let Some(reply) = self.machine.next_reply() {
                self.spent.replies += 1;
                self.outbox.push(reply);
            }
            if self.outbox.queued_bytes() >= GATHERED_BYTES || !self.wants_requests() {
                break;
            }
            let before = batch.frames;
            let (_, intake, machine, mut exit) = self.halves();
            match receive_once(intake, machine, &mut exit, batch)? {
                Ok(Taken::Bytes { drained }) => {
                    self.pipelined |= batch.frames > before;
                    if !drained {
                        break; // there is more, and an event for it is due
                    }
                }
                Ok(Taken::Nothing) => break,
                ended => return Ok(ended),
            }
        }
        Ok(Ok(Taken::Bytes { drained: true }))
    }

    fn ended(&self) -> Option<String> {
        if self.outbox.queued_bytes() > 0 {
            return None;
        }
        if self.machine.finished() {
            return Some("ended by the server".into());
        }
        // A peer that only says it will send no more still gets what it is owed.
        if self.peer_done && !self.machine.busy() {
            let cut = if self.intake.is_mid_frame() { " in the middle of a frame" } else { "" };
            return Some(format!("closed by the client{cut}"));
        }
        (self.shared.stopping.load(Relaxed) && !self.machine.busy()).then(|| "the server stops".into())
    }
}

/// The way out, apart from what comes in.
struct Exit<'a> {
    stream: &'a TcpStream,
    outbox: &'a mut Outbox,
    env: &'a ShardEnv,
    listed: &'a Listed,
    spent: &'a mut Spent,
    most_bytes: usize,
    /// Replies may leave while requests of the same call still wait.
    early: bool,
}

impl Exit<'_> {
    /// Takes the replies that are ready, as far as there is room.
    fn take_from(&mut self, machine: &mut Attended) {
        while self.outbox.queued_bytes() < self.most_bytes
            && let Some(reply) = machine.next_reply()
        {
            self.spent.replies += 1;
            self.outbox.push(reply);
        }
    }

    /// Puts on the socket what it takes.
    fn flush(&mut self, machine: &mut Attended) -> io::Result<()> {
        let queued_bytes = self.outbox.queued_bytes();
        let flushed = self.stream.try_io(Interest::WRITABLE, || {
            match self.outbox.flush(self.stream.as_fd(), &self.env.counters)? {
                Flushed::All => Ok(()),
                Flushed::Blocked => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        let sent_bytes = queued_bytes - self.outbox.queued_bytes();
        self.spent.bytes += sent_bytes;
        self.listed.traffic.sent(sent_bytes);
        // How long a peer takes to read its replies is not counted: what the socket has no room for left now, too.
        machine.sent(now_ns());
        flushed
    }

    /// Sends what is ready, if it is much; `asked_bytes` is how long the requests were.
    fn send_early(&mut self, machine: &mut Attended, asked_bytes: usize) -> bool {
        self.take_from(machine);
        let queued_bytes = self.outbox.queued_bytes();
        let much = queued_bytes > 0 && queued_bytes + asked_bytes >= AT_A_TIME_BYTES;
        if much {
            // What is wrong with the socket is found again when the rest is sent.
            let _ = self.flush(machine);
        }
        much
    }
}

/// One receiving call: complete frames go to the machine and are counted in `batch`.
fn receive_once(
    intake: &mut Intake,
    machine: &mut Attended,
    exit: &mut Exit<'_>,
    batch: &mut Batch,
) -> io::Result<Result<Taken, Refused>> {
    let (stream, env) = (exit.stream, exit.env);
    let machine = std::cell::RefCell::new(machine);
    let (calls, before) = (env.counters.recv_calls.load(Relaxed), batch.frames);
    let (mut waiting, mut waiting_bytes) = (0, 0);
    let framing = &mut |prefix: &[u8]| machine.borrow().framing(prefix);
    let taken = intake.receive(stream.as_fd(), &env.counters, framing, &mut |frame, more| {
        let mut machine = machine.borrow_mut();
        if batch.frames == before {
            machine.arrived(now_ns());
        }
        batch.frames += 1;
        batch.bytes += frame.len();
        batch.smallest_bytes = batch.smallest_bytes.min(frame.len());
        waiting += 1;
        waiting_bytes += frame.len();
        machine.receive(frame, more);
        if exit.early && more && waiting >= AT_A_TIME && exit.send_early(&mut machine, waiting_bytes) {
            (waiting, waiting_bytes) = (0, 0);
        }
    });
    if env.counters.recv_calls.load(Relaxed) != calls {
        env.counters.frames_per_recv.record((batch.frames - before).into());
    }
    taken
}

/// The clock that requests are timed with, read twice for each round.
fn now_ns() -> u64 {
    if !COUNTING {
        return 0;
    }
    sys::monotonic_ns()
}
