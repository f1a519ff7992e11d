//! Joins a [`Connection`] to a line: one task of the runtime for each, and [`Handle`]s by which others give it calls. When
//! the line is lost it makes another, as soon as there is something to send, with pauses that grow.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, Sleep};

use super::connection::{Connection, Limits, Token};
use super::dial::{Dial, Dialling};
use super::request::{Request, Response};
use super::slots::Slots;
use super::transit::{Intake, Outlet};
use crate::buffer::{Buffer, Pool};
use crate::smb::Failure;

/// The pause before a line is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Fewer answers than this are given out at once: calls by the handful cost more than waiting.
const LEAST_SPLIT: usize = 8;
/// Data below this are not worth a buffer that is used again.
const LARGE_BYTES: usize = 16 << 10;

type Answer = Result<Response, Failure>;

enum Order {
    Call(Request, oneshot::Sender<Answer>),
    Slots(Option<Slots>),
}

/// Gives a connection calls. The connection ends when the last handle is gone.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    orders: mpsc::UnboundedSender<Order>,
    over: Arc<OnceLock<Failure>>,
    losses: watch::Receiver<u64>,
    pool: Pool,
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Order")
    }
}

impl Handle {
    /// Sends a call at once; the answer comes by the receiver. Dropping that gives the answer up, not the call.
    pub fn send(&self, request: Request) -> Pending {
        let (reply, pending) = oneshot::channel();
        // A connection that is over answers by dropping the sender.
        let _ = self.orders.send(Order::Call(request, reply));
        Pending { answer: pending, over: Arc::clone(&self.over) }
    }

    /// A copy of data to be sent.
    pub fn copy(&self, data: &[u8]) -> Bytes {
        if data.len() <= LARGE_BYTES {
            return Bytes::copy_from_slice(data);
        }
        let mut buffer = self.pool.take(data.len());
        buffer.extend_from_slice(data);
        Bytes::from_owner(Owned(buffer))
    }

    /// Sends a call and waits for the answer.
    pub async fn call(&self, request: Request) -> Answer {
        self.send(request).answer().await
    }

    /// How many lines were lost. Who has the receiver does not keep the connection up.
    pub fn losses(&self) -> watch::Receiver<u64> {
        self.losses.clone()
    }

    /// See [`Connection::set_slots`].
    pub fn set_slots(&self, slots: Option<Slots>) {
        let _ = self.orders.send(Order::Slots(slots));
    }
}

/// A buffer that goes back to the pool when all have let go of it.
struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// An answer that is to come.
#[derive(Debug)]
pub(crate) struct Pending {
    answer: oneshot::Receiver<Answer>,
    over: Arc<OnceLock<Failure>>,
}

impl Pending {
    /// Waits for it. Nothing is lost when this is given up before it is done; afterwards there is nothing more.
    pub async fn answer(&mut self) -> Answer {
        let answer = (&mut self.answer).await;
        answer.unwrap_or_else(|_| Err(self.over.get().cloned().unwrap_or(Failure::Ended)))
    }
}

/// Makes a line to `port`, and drives it from a task from then on.
pub(crate) async fn start(dial: Arc<dyn Dial>, port: u16, limits: Limits, first_xid: u32) -> Result<Handle, Failure> {
    let dialled = tokio::time::timeout(limits.timeout, dial.dial(port)).await;
    let dialled = dialled.map_err(|_| Failure::Timeout(limits.timeout))?;
    let (receiver, sender) = dialled.map_err(|error| Failure::Network(error.to_string()))?;
    let (orders, inbox) = mpsc::unbounded_channel();
    let over = Arc::<OnceLock<Failure>>::default();
    let pool = Pool::default();
    let (lost, losses) = watch::channel(0);
    let driver = Driver {
        machine: Connection::new(limits, first_xid, Duration::ZERO),
        line: Some(Line { intake: Intake::new(receiver, pool.clone()), outlet: Outlet::new(sender) }),
        dialling: None,
        pause: FIRST_PAUSE,
        dial,
        port,
        timeout: limits.timeout,
        orders: inbox,
        pool: pool.clone(),
        waiting: HashMap::new(),
        over: Arc::clone(&over),
        lost,
        started: Instant::now(),
        handles_gone: false,
    };
    tokio::spawn(driver.run());
    Ok(Handle { orders, over, losses, pool })
}

struct Line {
    intake: Intake,
    outlet: Outlet,
}

struct Driver {
    machine: Connection,
    line: Option<Line>,
    /// A line that is being made, where there is none.
    dialling: Option<Dialling>,
    pause: Duration,
    dial: Arc<dyn Dial>,
    port: u16,
    timeout: Duration,
    orders: mpsc::UnboundedReceiver<Order>,
    pool: Pool,
    waiting: HashMap<Token, oneshot::Sender<Answer>>,
    over: Arc<OnceLock<Failure>>,
    lost: watch::Sender<u64>,
    started: Instant,
    handles_gone: bool,
}

enum Happened {
    Ordered(Option<Order>),
    Received(std::io::Result<usize>),
    Sent(std::io::Result<usize>),
    Dialled(std::io::Result<(super::Receiver, super::Sender)>),
    TimePassed,
    Nothing,
}

impl Driver {
    async fn run(mut self) {
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        loop {
            let holds_back = self.deliver();
            if holds_back {
                // Those who have their answers ask again, and the server has something to do meanwhile.
                tokio::task::yield_now().await;
                self.take_waiting_orders();
            }
            if let Some(line) = &mut self.line {
                line.outlet.fill(&mut self.machine);
            }
            if self.handles_gone && !self.machine.is_busy() && !holds_back {
                break;
            }
            self.dial_again();
            let happened = if holds_back { self.send_now().await } else { self.wait(&mut timer).await };
            match happened {
                Happened::Nothing => {}
                Happened::Ordered(order) => self.take_orders(order),
                Happened::Received(result) => self.received(result),
                Happened::Sent(result) => self.sent(result),
                Happened::Dialled(result) => self.dialled(result),
                Happened::TimePassed => {
                    let now = self.now();
                    if self.machine.tick(now) && self.line.take().is_some() {
                        self.lost.send_modify(|count| *count += 1);
                    }
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
        let (intake, outlet) = match &mut self.line {
            Some(Line { intake, outlet }) => (Some(intake), (!outlet.is_empty()).then_some(outlet)),
            None => (None, None),
        };
        tokio::select! {
            order = self.orders.recv(), if !self.handles_gone => Happened::Ordered(order),
            result = some(intake.map(Intake::receive)) => Happened::Received(result),
            result = some(outlet.map(Outlet::send)) => Happened::Sent(result),
            result = some(self.dialling.as_mut()) => Happened::Dialled(result),
            () = timer.as_mut(), if deadline.is_some() => Happened::TimePassed,
        }
    }

    /// Sends what the line takes at once.
    async fn send_now(&mut self) -> Happened {
        let outlet = self.line.as_mut().map(|line| &mut line.outlet).filter(|outlet| !outlet.is_empty());
        tokio::select! {
            biased;
            result = some(outlet.map(Outlet::send)) => Happened::Sent(result),
            () = std::future::ready(()) => Happened::Nothing,
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Makes another line, when one is wanted. The first try is made at once.
    fn dial_again(&mut self) {
        if self.line.is_some() || self.dialling.is_some() || !self.machine.wants_line() {
            return;
        }
        let (dial, port, timeout) = (Arc::clone(&self.dial), self.port, self.timeout);
        let pause = if self.pause == FIRST_PAUSE { Duration::ZERO } else { self.pause };
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        self.dialling = Some(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
            tokio::time::timeout(timeout, dial.dial(port)).await.unwrap_or_else(|_| Err(late()))
        }));
    }

    fn dialled(&mut self, result: std::io::Result<(super::Receiver, super::Sender)>) {
        self.dialling = None;
        let now = self.now();
        match result {
            Ok((receiver, sender)) => {
                self.line =
                    Some(Line { intake: Intake::new(receiver, self.pool.clone()), outlet: Outlet::new(sender) });
                self.machine.found(now);
            }
            Err(error) => self.machine.not_found(Failure::Network(error.to_string())),
        }
    }

    fn take_orders(&mut self, order: Option<Order>) {
        let Some(order) = order else {
            self.handles_gone = true;
            return;
        };
        self.take_order(order);
        self.take_waiting_orders();
    }

    fn take_waiting_orders(&mut self) {
        while let Ok(order) = self.orders.try_recv() {
            self.take_order(order);
        }
    }

    fn take_order(&mut self, order: Order) {
        let now = self.now();
        match order {
            Order::Call(request, reply) => {
                if !self.machine.is_busy() {
                    self.pause = FIRST_PAUSE;
                }
                let token = self.machine.submit(request, now);
                self.waiting.insert(token, reply);
            }
            Order::Slots(slots) => self.machine.set_slots(slots, now),
        }
    }

    fn received(&mut self, result: std::io::Result<usize>) {
        let now = self.now();
        let outcome = match (result, &mut self.line) {
            (Ok(0), _) => Err(Failure::Closed),
            (Ok(count), Some(line)) => line.intake.take_records(count, &mut self.machine, now),
            (Err(error), _) => Err(network(&error)),
            (Ok(_), None) => Ok(()),
        };
        match outcome {
            Ok(()) => self.pause = FIRST_PAUSE,
            // Whoever sends what makes no sense would send it again.
            Err(failure @ Failure::Protocol(_)) => {
                self.lose(failure.clone());
                self.machine.fail(failure);
            }
            Err(failure) => self.lose(failure),
        }
    }

    fn sent(&mut self, result: std::io::Result<usize>) {
        match result {
            Ok(0) => self.lose(Failure::Closed),
            Ok(count) => {
                if let Some(line) = &mut self.line {
                    line.outlet.advance(count);
                }
                let now = self.now();
                self.machine.progress(now);
            }
            Err(error) => self.lose(network(&error)),
        }
    }

    fn lose(&mut self, why: Failure) {
        self.lost.send_modify(|count| *count += 1);
        let untouched = self.line.take().map(|line| line.outlet.untouched()).unwrap_or_default();
        self.machine.lost(why, &untouched);
    }

    /// Gives the answers to those who wait for them; all but half of them, and then says so, where the server has little
    /// left to do: otherwise it and those who ask would take turns at waiting for each other.
    fn deliver(&mut self) -> bool {
        let (done, at_the_server) = self.machine.counts();
        let holds_back = done >= LEAST_SPLIT && at_the_server < done / 2;
        let most = if holds_back { done / 2 } else { done };
        for _ in 0..most {
            let Some((token, answer)) = self.machine.next_done() else { break };
            if let Some(reply) = self.waiting.remove(&token) {
                // Whoever asked may have given up meanwhile.
                let _ = reply.send(answer);
            }
        }
        if let Some(failure) = self.machine.failure() {
            let _ = self.over.set(failure.clone());
        }
        holds_back
    }

    /// The connection is over: whoever still asks is told why.
    async fn finish(mut self) {
        let _ = self.over.set(Failure::Ended);
        self.orders.close();
        if let Some(line) = &mut self.line {
            line.outlet.close().await;
        }
    }
}

/// What comes of a future, where there is one; otherwise never anything.
async fn some<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

fn network(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe => Failure::Closed,
        _ => Failure::Network(error.to_string()),
    }
}
