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
use crate::buffer::Buffer;
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
    /// Why a line was lost since the last answer. A server that takes calls and then hangs up must not be called for
    /// ever.
    lost_since: Option<Failure>,
}

#[derive(Debug)]
enum State {
    Up,
    /// The line is lost, and why.
    Down(Failure),
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
    /// It may have arrived on a line that was lost.
    was_repeated: bool,
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
            lost_since: None,
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
            (self.last_progress, self.lost_since) = (now, None);
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

    /// How many calls are over and not given out, and how many the server has.
    pub fn counts(&self) -> (usize, usize) {
        (self.done.len(), self.in_flight.len())
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
    pub fn receive(&mut self, record: Buffer, now: Duration) -> Result<(), Failure> {
        let mut r = Reader::new(&record);
        match Reply::decode(&mut r) {
            Ok(reply) => {
                let denied = Denied::of(&reply.outcome);
                let (xid, results_at) = (reply.xid, r.position());
                self.answered(xid, denied, Response { record, results_at, was_repeated: false }, now);
            }
            Err(_) => self.called(&record)?,
        }
        self.pump(now);
        Ok(())
    }

    /// Bytes go on moving, though no answer is complete. After a line was lost only an answer counts.
    pub fn progress(&mut self, now: Duration) {
        if self.lost_since.is_none() {
            self.last_progress = now;
        }
    }

    /// The line is lost. `untouched` says of which records not one byte was sent.
    pub fn lost(&mut self, why: Failure, untouched: &[u32]) {
        if !matches!(self.state, State::Up) {
            return;
        }
        self.lost_since = Some(why.clone());
        self.state = State::Down(why);
        let unsent: Vec<u32> = self.out.drain(..).map(|out| out.xid()).chain(untouched.iter().copied()).collect();
        self.refusals = 0;
        let (in_flight, done) = (&mut self.in_flight, &mut self.done);
        in_flight.retain(|_, call| {
            let is_unsent = unsent.contains(&call.outgoing.xid());
            call.was_repeated |= !is_unsent;
            let may_repeat = call.repeatable || call.slot.is_some() || is_unsent;
            if !may_repeat {
                done.push_back((call.token, Err(Failure::Interrupted)));
            }
            may_repeat
        });
    }

    /// Another line is there.
    pub fn found(&mut self, now: Duration) {
        if !matches!(self.state, State::Down(..)) {
            return;
        }
        self.state = State::Up;
        self.out.extend(self.in_flight.values().map(|call| call.outgoing.clone()));
        self.pump(now);
    }

    /// The line is still lost, for this reason.
    pub fn not_found(&mut self, why: Failure) {
        if let State::Down(old) = &mut self.state {
            *old = why;
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
        let why = match (&self.state, self.lost_since.take()) {
            (State::Down(why), _) => why.clone(),
            (_, Some(why)) => why,
            _ => Failure::Timeout(self.limits.timeout),
        };
        self.give_up(&why);
        if matches!(self.state, State::Up) {
            self.out.clear();
            self.state = State::Down(why);
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
        if self.in_flight.is_empty() && self.lost_since.is_none() {
            self.last_progress = now;
        }
        let repeatable = request.repeatable;
        let outgoing = request.into_outgoing(self.xid_of(number));
        self.out.push_back(outgoing.clone());
        self.in_flight.insert(number, InFlight { token, outgoing, repeatable, slot, since: now, was_repeated: false });
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
    fn answered(&mut self, xid: u32, denied: Option<Denied>, mut response: Response, now: Duration) {
        let Some(call) = self.number_of(xid).and_then(|number| self.in_flight.remove(&number)) else { return };
        (self.last_progress, self.lost_since) = (now, None);
        if let (Some(slot), Some(slots)) = (call.slot, &mut self.slots) {
            slots.release(slot, if denied.is_some() { &[] } else { response.results() });
        }
        response.was_repeated = call.was_repeated;
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
mod tests {
    use super::*;
    use crate::nfs::rpc::Caller;
    use nfs_wire::rpc::put_success;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: Limits = Limits { record_bytes: 1000, timeout: Duration::from_secs(30) };

    fn call() -> Request {
        Request::new(&Caller::nobody(), 100_003, 3, 0, |_| {})
    }

    fn machine() -> Connection {
        Connection::new(LIMITS, u32::MAX, Duration::ZERO)
    }

    fn sent(machine: &mut Connection) -> Vec<u32> {
        std::iter::from_fn(|| machine.next_outgoing()).map(|out| out.xid()).collect()
    }

    fn answer(machine: &mut Connection, xid: u32, now: Duration) {
        let mut record = Vec::new();
        put_success(xid, &mut record);
        machine.receive(record.into(), now).unwrap();
    }

    #[test]
    fn answers_find_their_calls_in_whatever_order() {
        let mut machine = machine();
        let tokens: Vec<Token> = (0..3).map(|_| machine.submit(call(), Duration::ZERO)).collect();
        let xids = sent(&mut machine);
        assert_eq!(xids, [u32::MAX, 0, 1], "ids go round");
        for at in [2, 0, 1] {
            answer(&mut machine, xids[at], SECOND);
            assert_eq!(machine.next_done().map(|(token, _)| token), Some(tokens[at]));
        }
        answer(&mut machine, xids[0], SECOND);
        assert!(machine.next_done().is_none() && !machine.is_busy());
    }

    #[test]
    fn a_lost_line_repeats_what_may_be_repeated() {
        let mut machine = machine();
        let (again, once) = (machine.submit(call(), Duration::ZERO), machine.submit(call().once(), Duration::ZERO));
        let xids = sent(&mut machine);
        let unsent = machine.submit(call().once(), Duration::ZERO);
        let unsent_xid = sent(&mut machine)[0];
        machine.lost(Failure::Closed, &[unsent_xid]);
        let (token, result) = machine.next_done().unwrap();
        assert_eq!((token, result.unwrap_err()), (once, Failure::Interrupted));
        assert!(machine.next_outgoing().is_none() && machine.wants_line());
        machine.not_found(Failure::Network("refused".into()));
        machine.found(SECOND);
        assert_eq!(sent(&mut machine), [xids[0], unsent_xid]);
        for (xid, token, was_repeated) in [(xids[0], again, true), (unsent_xid, unsent, false)] {
            answer(&mut machine, xid, SECOND);
            let (done, result) = machine.next_done().unwrap();
            assert_eq!((done, result.unwrap().was_repeated()), (token, was_repeated));
        }
    }

    #[test]
    fn silence_and_lines_that_never_hold_end_within_the_timeout() {
        let mut machine = machine();
        machine.submit(call(), Duration::ZERO);
        sent(&mut machine);
        machine.progress(SECOND * 20);
        assert_eq!(machine.deadline(), Some(SECOND * 50));
        assert!(!machine.tick(SECOND * 49));
        assert!(machine.tick(SECOND * 50));
        assert_eq!(machine.next_done().unwrap().1.unwrap_err(), Failure::Timeout(LIMITS.timeout));
        assert!(!machine.wants_line(), "nobody asks for anything");

        // Each new line takes the call and hangs up.
        machine.submit(call(), SECOND * 100);
        assert!(machine.wants_line());
        for second in 101..130 {
            machine.found(SECOND * second);
            sent(&mut machine);
            machine.progress(SECOND * second);
            machine.lost(Failure::Closed, &[]);
            assert!(!machine.tick(SECOND * second));
        }
        // The first line had not been lost before; it counted.
        assert!(machine.tick(SECOND * 131));
        assert_eq!(machine.next_done().unwrap().1.unwrap_err(), Failure::Closed);
    }

    #[test]
    fn whoever_calls_back_and_does_not_listen_is_left() {
        let mut machine = machine();
        let mut record = Vec::new();
        let credential = nfs_wire::rpc::OpaqueAuth::NONE;
        Call { xid: 1, program: 5, version: 1, procedure: 0, credential, verifier: credential }.put(&mut record);
        for _ in 0..MOST_REFUSALS {
            machine.receive(record.clone().into(), SECOND).unwrap();
        }
        assert!(machine.receive(record.clone().into(), SECOND).is_err());
        assert_eq!(sent(&mut machine).len(), MOST_REFUSALS);
        machine.drained();
        machine.receive(record.into(), SECOND).unwrap();
        assert!(machine.receive(vec![0; 3].into(), SECOND).is_err());
    }

    #[test]
    fn a_record_is_as_long_as_may_be_and_no_longer() {
        let machine = machine();
        let mark = |len_bytes| FragmentHeader { last: false, len_bytes }.to_bytes();
        assert!(machine.framing(mark(1000), 0).is_ok());
        assert!(machine.framing(mark(1001), 0).is_err());
        assert!(machine.framing(mark(1), 1000).is_err());
        assert!(machine.framing(mark(0x7fff_ffff), usize::MAX).is_err());
    }
}
