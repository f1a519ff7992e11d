//! One RPC connection as a machine: records in, calls and answers out, the time passed in. `driver` joins it to a
//! socket, and to another when the first is lost: what may be sent again then is, under the same transaction id. It must
//! never wait, name a socket, read a clock, or send twice what may be done once only.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nfs_wire::rpc::{Call, FragmentHeader, Reply, put_prog_unavail};
use nfs_wire::xdr::{Put, Reader};

use super::denied::Denied;
use super::request::{Outgoing, Request, Response};
use super::slots::{Slot, Slots};
use crate::smb::Failure;

/// How many times the time without any answer one call may take, while others are answered.
const MOST_TIMEOUTS: u32 = 10;
/// Calls under way at a time outside of a session; those of a session are bounded by its slots.
const MOST_IN_FLIGHT: usize = 512;
/// Calls of the server that are refused and not yet sent.
const MOST_REFUSALS: usize = 16;

/// Names a call of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(u64);

/// What bounds a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest record a server may send, in bytes.
    pub record_bytes: usize,
    /// How long to wait for a server that says nothing, or cannot be reached.
    pub timeout: Duration,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    state: State,
    slots: Option<Slots>,
    queue: VecDeque<(Token, Request)>,
    /// By token, which is the order they were sent in.
    in_flight: BTreeMap<u64, InFlight>,
    out: VecDeque<Outgoing>,
    refusals: usize,
    done: VecDeque<(Token, Result<Response, Failure>)>,
    next_token: u64,
    next_sent: u64,
    first_xid: u32,
    last_progress: Duration,
}

#[derive(Debug)]
enum State {
    Up,
    /// The line is lost since then, for that reason.
    Down(Duration, Failure),
    Over(Failure),
}

/// A call that was sent and not answered.
#[derive(Debug)]
struct InFlight {
    token: Token,
    outgoing: Outgoing,
    repeatable: bool,
    slot: Option<Slot>,
    since: Duration,
}

impl Connection {
    /// A connection that is there. Transaction ids count from `first_xid`, which should be chance.
    pub fn new(limits: Limits, first_xid: u32, now: Duration) -> Self {
        Self {
            limits,
            state: State::Up,
            slots: None,
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            out: VecDeque::new(),
            refusals: 0,
            done: VecDeque::new(),
            next_token: 0,
            next_sent: 0,
            first_xid,
            last_progress: now,
        }
    }

    /// Why it is over, if it is.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.state {
            State::Over(failure) => Some(failure),
            _ => None,
        }
    }

    /// From now on the calls of a session travel on these slots.
    pub fn set_slots(&mut self, slots: Option<Slots>, now: Duration) {
        self.slots = slots;
        self.pump(now);
    }

    /// Takes a call. It is sent when it may be and answered by [`next_done`](Self::next_done).
    pub fn submit(&mut self, request: Request, now: Duration) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        if let State::Over(failure) = &self.state {
            self.done.push_back((token, Err(failure.clone())));
            return token;
        }
        if !self.is_busy() {
            self.last_progress = now;
        }
        self.queue.push_back((token, request));
        self.pump(now);
        token
    }

    /// The next record for the server.
    pub fn next_outgoing(&mut self) -> Option<Outgoing> {
        if !matches!(self.state, State::Up) {
            return None;
        }
        self.out.pop_front()
    }

    /// The next call that is over.
    pub fn next_done(&mut self) -> Option<(Token, Result<Response, Failure>)> {
        self.done.pop_front()
    }

    /// Whether calls wait to be sent or answered.
    pub fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || !self.queue.is_empty()
    }

    /// Whether the line is lost and there is a reason to have another.
    pub fn wants_line(&self) -> bool {
        matches!(self.state, State::Down(..)) && self.is_busy()
    }

    /// How long the fragment is that begins with `mark`, when `held` bytes of its record are there. An error is the end
    /// of the line.
    pub fn framing(&self, mark: [u8; 4], held: usize) -> Result<FragmentHeader, Failure> {
        let header = FragmentHeader::from_bytes(mark);
        match held.checked_add(header.len_bytes as usize) {
            Some(len) if len <= self.limits.record_bytes => Ok(header),
            _ => Err(Failure::Protocol("a record longer than anything that was asked for")),
        }
    }

    /// Takes one record, its marks taken off. An error is the end of the line.
    pub fn receive(&mut self, record: Vec<u8>, now: Duration) -> Result<(), Failure> {
        let mut r = Reader::new(&record);
        match Reply::decode(&mut r) {
            Ok(reply) => {
                let denied = Denied::of(&reply.outcome);
                let (xid, results_at) = (reply.xid, r.position());
                self.answered(xid, denied, Response { record, results_at }, now);
            }
            Err(_) => self.called(&record)?,
        }
        self.pump(now);
        Ok(())
    }

    /// Bytes go on moving, though no answer is complete.
    pub fn progress(&mut self, now: Duration) {
        self.last_progress = now;
    }

    /// The line is lost. `untouched` says of which records not one byte was sent.
    pub fn lost(&mut self, why: Failure, untouched: &[u32], now: Duration) {
        if !matches!(self.state, State::Up) {
            return;
        }
        self.state = State::Down(now, why);
        let unsent: Vec<u32> = self.out.drain(..).map(|out| out.xid()).chain(untouched.iter().copied()).collect();
        self.refusals = 0;
        let (in_flight, done) = (&mut self.in_flight, &mut self.done);
        in_flight.retain(|_, call| {
            let may_repeat = call.repeatable || call.slot.is_some() || unsent.contains(&call.outgoing.xid());
            if !may_repeat {
                done.push_back((call.token, Err(Failure::Interrupted)));
            }
            may_repeat
        });
        self.last_progress = now;
    }

    /// Another line is there.
    pub fn found(&mut self, now: Duration) {
        if !matches!(self.state, State::Down(..)) {
            return;
        }
        self.state = State::Up;
        self.last_progress = now;
        self.out.extend(self.in_flight.values().map(|call| call.outgoing.clone()));
        self.in_flight.values_mut().for_each(|call| call.since = now);
        self.pump(now);
    }

    /// The line is still lost, for this reason.
    pub fn not_found(&mut self, why: Failure, now: Duration) {
        if let State::Down(since, old) = &mut self.state {
            *old = why;
            if now >= *since + self.limits.timeout {
                let why = old.clone();
                self.give_up(&why);
            }
        }
    }

    /// When [`tick`](Self::tick) has something to do, if nothing comes before.
    pub fn deadline(&self) -> Option<Duration> {
        if !self.is_busy() {
            return None;
        }
        let silent = self.last_progress + self.limits.timeout;
        let most = self.limits.timeout * MOST_TIMEOUTS;
        let oldest = self.in_flight.values().next().map(|call| call.since + most);
        Some(oldest.map_or(silent, |oldest| oldest.min(silent)))
    }

    /// Time has gone by. True: the line is of no use any more and to be dropped.
    pub fn tick(&mut self, now: Duration) -> bool {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return false;
        }
        let why = match &self.state {
            State::Down(_, why) => why.clone(),
            _ => Failure::Timeout(self.limits.timeout),
        };
        self.give_up(&why);
        if matches!(self.state, State::Up) {
            self.out.clear();
            self.state = State::Down(now, why);
        }
        true
    }

    /// The connection is over. The first reason given stays the reason.
    pub fn fail(&mut self, failure: Failure) {
        if self.failure().is_none() {
            self.give_up(&failure);
            self.out.clear();
            self.state = State::Over(failure);
        }
    }

    /// Nobody need wait any longer. What numbers the server expects on the slots of these calls is not known.
    fn give_up(&mut self, why: &Failure) {
        let under_way = std::mem::take(&mut self.in_flight).into_values().map(|call| call.token);
        let queued = std::mem::take(&mut self.queue).into_iter().map(|(token, _)| token);
        self.done.extend(under_way.chain(queued).map(|token| (token, Err(why.clone()))));
    }

    /// Sends what may be sent, in order.
    fn pump(&mut self, now: Duration) {
        while matches!(self.state, State::Up)
            && self.in_flight.len() < MOST_IN_FLIGHT
            && let Some((_, request)) = self.queue.front_mut()
        {
            let slot = match request.sequence {
                None => None,
                Some((_, keep)) => {
                    let Some((slot, args)) = self.slots.as_mut().and_then(|slots| slots.take(keep)) else { return };
                    request.set_sequence(&args);
                    Some(slot)
                }
            };
            if let Some((token, request)) = self.queue.pop_front() {
                self.emit(token, request, slot, now);
            }
        }
    }

    fn emit(&mut self, token: Token, request: Request, slot: Option<Slot>, now: Duration) {
        let number = self.next_sent;
        self.next_sent += 1;
        if self.in_flight.is_empty() {
            self.last_progress = now;
        }
        let repeatable = request.repeatable;
        let outgoing = request.into_outgoing(self.xid_of(number));
        self.out.push_back(outgoing.clone());
        self.in_flight.insert(number, InFlight { token, outgoing, repeatable, slot, since: now });
    }

    fn xid_of(&self, number: u64) -> u32 {
        // The number of a call cut to 32 bits: so many are never under way.
        self.first_xid.wrapping_add(number as u32)
    }

    /// The call a transaction id is of.
    fn number_of(&self, xid: u32) -> Option<u64> {
        let oldest = *self.in_flight.keys().next()?;
        Some(oldest + u64::from(xid.wrapping_sub(self.xid_of(oldest))))
    }

    /// An answer that nobody waits for, such as a second one, is passed over, and is no sign of life.
    fn answered(&mut self, xid: u32, denied: Option<Denied>, response: Response, now: Duration) {
        let Some(call) = self.number_of(xid).and_then(|number| self.in_flight.remove(&number)) else { return };
        self.last_progress = now;
        if let (Some(slot), Some(slots)) = (call.slot, &mut self.slots) {
            slots.release(slot, if denied.is_some() { &[] } else { response.results() });
        }
        let answer = denied.map_or(Ok(response), |denied| Err(Failure::Denied(denied)));
        self.done.push_back((call.token, answer));
    }

    /// Not an answer. A server may call back; it is told that nobody is there, so that it grants nothing it would have
    /// to take back.
    fn called(&mut self, record: &[u8]) -> Result<(), Failure> {
        let Ok(call) = Call::decode(&mut Reader::new(record)) else {
            return Err(Failure::Protocol("what it sends is neither an answer nor a call"));
        };
        if self.refusals >= MOST_REFUSALS {
            return Err(Failure::Protocol("it calls back and does not listen"));
        }
        self.refusals += 1;
        let mut head = vec![0; 4];
        put_prog_unavail(call.xid, &mut head);
        let len_bytes = u32::try_from(head.len() - 4).unwrap_or(u32::MAX);
        head.patch_bytes(0, &FragmentHeader { last: true, len_bytes }.to_bytes());
        self.out.push_back(Outgoing::of(head, call.xid));
        Ok(())
    }

    /// The line has taken all there was to be sent.
    pub fn drained(&mut self) {
        self.refusals = 0;
    }
}

#[cfg(test)]
mod tests;
