//! Joins a [`Connection`] to a line: one task of the runtime for each, and [`Handle`]s by which others give it calls. When
//! the line is lost it makes another, as soon as there is something to send, with pauses that grow.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};

use super::connection::{Connection, Limits, Token};
use super::dial::{Dial, Dialling};
use super::request::{Request, Response};
use super::slots::Slots;
use super::transit::{Intake, Outlet};
use crate::smb::Failure;

/// The pause before a line is tried again, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(2);

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

    /// Sends a call and waits for the answer.
    pub async fn call(&self, request: Request) -> Answer {
        self.send(request).answer().await
    }

    /// See [`Connection::set_slots`].
    pub fn set_slots(&self, slots: Option<Slots>) {
        let _ = self.orders.send(Order::Slots(slots));
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
    let driver = Driver {
        machine: Connection::new(limits, first_xid, Duration::ZERO),
        line: Some(Line { intake: Intake::new(receiver), outlet: Outlet::new(sender) }),
        dialling: None,
        pause: FIRST_PAUSE,
        dial,
        port,
        timeout: limits.timeout,
        orders: inbox,
        waiting: HashMap::new(),
        over: Arc::clone(&over),
        started: Instant::now(),
        handles_gone: false,
    };
    tokio::spawn(driver.run());
    Ok(Handle { orders, over })
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
    waiting: HashMap<Token, oneshot::Sender<Answer>>,
    over: Arc<OnceLock<Failure>>,
    started: Instant,
    handles_gone: bool,
}

enum Happened {
    Ordered(Option<Order>),
    Received(std::io::Result<usize>),
    Sent(std::io::Result<usize>),
    Dialled(std::io::Result<(super::Receiver, super::Sender)>),
    TimePassed,
}

impl Driver {
    async fn run(mut self) {
        let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        loop {
            self.deliver();
            if let Some(line) = &mut self.line {
                line.outlet.fill(&mut self.machine);
            }
            if self.handles_gone && !self.machine.is_busy() {
                break;
            }
            self.dial_again();
            match self.wait(&mut timer).await {
                Happened::Ordered(order) => self.take_orders(order),
                Happened::Received(result) => self.received(result),
                Happened::Sent(result) => self.sent(result),
                Happened::Dialled(result) => self.dialled(result),
                Happened::TimePassed => {
                    let now = self.now();
                    if self.machine.tick(now) {
                        self.line = None;
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

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Makes another line, when one is wanted. The first try is made at once.
    fn dial_again(&mut self) {
        if self.line.is_some() || self.dialling.is_some() || !self.machine.wants_line() {
            return;
        }
        let (dialling, timeout) = (self.dial.dial(self.port), self.timeout);
        let pause = if self.pause == FIRST_PAUSE { Duration::ZERO } else { self.pause };
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        self.dialling = Some(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let late = || std::io::Error::from(std::io::ErrorKind::TimedOut);
            tokio::time::timeout(timeout, dialling).await.unwrap_or_else(|_| Err(late()))
        }));
    }

    fn dialled(&mut self, result: std::io::Result<(super::Receiver, super::Sender)>) {
        self.dialling = None;
        let now = self.now();
        match result {
            Ok((receiver, sender)) => {
                self.line = Some(Line { intake: Intake::new(receiver), outlet: Outlet::new(sender) });
                self.machine.found(now);
            }
            Err(error) => self.machine.not_found(Failure::Network(error.to_string()), now),
        }
    }

    fn take_orders(&mut self, order: Option<Order>) {
        let Some(order) = order else {
            self.handles_gone = true;
            return;
        };
        self.take_order(order);
        while let Ok(order) = self.orders.try_recv() {
            self.take_order(order);
        }
    }

    fn take_order(&mut self, order: Order) {
        let now = self.now();
        match order {
            Order::Call(request, reply) => {
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
        let untouched = self.line.take().map(|line| line.outlet.untouched()).unwrap_or_default();
        let now = self.now();
        self.machine.lost(why, &untouched, now);
    }

    /// Gives the answers to those who wait for them.
    fn deliver(&mut self) {
        while let Some((token, answer)) = self.machine.next_done() {
            if let Some(reply) = self.waiting.remove(&token) {
                // Whoever asked may have given up meanwhile.
                let _ = reply.send(answer);
            }
        }
        if let Some(failure) = self.machine.failure() {
            let _ = self.over.set(failure.clone());
        }
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
