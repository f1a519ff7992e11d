//! The parts of a listing that are made before they are asked for, by a worker on a core that has nothing to do, while the
//! client reads the part before. `nfs3::listing` asks and tells; what a part is it alone knows.
//!
//! A part made ahead tells of its entries what held a little before it was asked for. So it is used only when nobody can
//! tell: not after the client's host had any other answer meanwhile, on whatever connection (it would see attributes go back
//! to what they were), and not when it is older than [`MOST_AGE_US`], about as old as an answer may be that was on its
//! way. What is not used is thrown away, and then the next is not made ahead for a while.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use futures_channel::oneshot;
use parking_lot::Mutex;
use vfs::Executor;

use crate::config::Caller;
use crate::env::Clock;
use crate::reply::ReplyWriter;

/// What was looked up longer ago is looked up again.
const MOST_AGE_US: u64 = 2_000;
/// Bytes of parts that are ready, and how many they are at most.
const AHEAD_BYTES: usize = 64 << 10;
const MOST_PARTS: usize = 4;
/// Parts asked for one after the other before any is made ahead again, once some were made in vain; each time twice as
/// many.
const FIRST_PAUSE: u32 = 8;
const LAST_PAUSE: u32 = 1 << 12;
/// Parts used one after the other that make up for one made in vain.
const WORTH_IT: u32 = 16;
/// Hosts are told apart by so many numbers; those that share one disturb each other and no more.
const HOSTS: usize = 64;

/// The answers each host has had. They are counted only while parts are ready for it.
pub struct Answers([Host; HOSTS]);

#[derive(Default)]
struct Host {
    /// Connections that have parts.
    waiting: AtomicUsize,
    answers: AtomicU64,
}

impl Default for Answers {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Host::default()))
    }
}

impl Answers {
    /// An answer that is no part made ahead was found for the host, and is about to leave.
    pub fn note(&self, host: IpAddr) {
        let host = self.of(host);
        // What was found before parts were begun is older than they are.
        if host.waiting.load(SeqCst) > 0 {
            host.answers.fetch_add(1, SeqCst);
        }
    }

    fn of(&self, host: IpAddr) -> &Host {
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        &self.0[hasher.finish() as usize % HOSTS]
    }
}

/// Whose listing, of what, and how much at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub dir: Box<[u8]>,
    pub caller: Arc<Caller>,
    pub dir_count_bytes: usize,
    pub max_count_bytes: usize,
}

/// One part.
pub struct Part {
    pub out: ReplyWriter,
    /// Where the results begin in it.
    pub begin: usize,
    /// Where the next part begins; `None` behind the last.
    pub next: Option<u64>,
}

/// Makes the part at a cookie; `None` where that fails, which is told when it is asked for.
pub type Make = Box<dyn Fn(u64) -> Option<Part> + Send>;

/// What there is for a call.
pub enum Found {
    /// The part.
    Part(Part),
    /// Nothing; it goes on where the call before ended.
    InOrder,
    /// Nothing, and it does not.
    Elsewhere,
}

/// The listing that a connection reads.
pub struct Ahead {
    shared: Arc<Shared>,
}

struct Shared {
    answers: Arc<Answers>,
    host: IpAddr,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    listing: Option<Listing>,
    /// The cookie that is asked for next.
    next: Option<u64>,
    /// What is ready, in order.
    parts: VecDeque<Ready>,
    /// Where the part begins that is made next.
    from: Option<u64>,
    /// Whether a worker is at it; one of an earlier run has nothing to say any more.
    making: bool,
    run: u64,
    /// Who has asked for the part that is being made.
    waiter: Option<oneshot::Sender<Ready>>,
    /// Whether the host's answers are counted for this.
    counted: bool,
    /// Parts used since the last were thrown away.
    used: u32,
    pause: u32,
    next_pause: u32,
}

struct Ready {
    part: Part,
    begun_us: u64,
    answers: u64,
}

impl Ahead {
    /// Of a connection from `host`.
    pub fn new(answers: &Arc<Answers>, host: IpAddr, clock: &Arc<dyn Clock>) -> Self {
        let (answers, clock) = (Arc::clone(answers), Arc::clone(clock));
        Self { shared: Arc::new(Shared { answers, host, clock, state: Mutex::default() }) }
    }

    /// What there is of a listing at a cookie; waits for a part that is being made.
    pub async fn find(&self, listing: &Listing, cookie: u64) -> Found {
        let pending = {
            let mut state = self.shared.state.lock();
            if state.next != Some(cookie) || state.listing.as_ref() != Some(listing) {
                self.shared.stop(&mut state, true);
                state.listing = None;
                return Found::Elsewhere;
            }
            match state.parts.pop_front() {
                Some(ready) => return self.shared.checked(&mut state, ready),
                None if !state.making => return Found::InOrder,
                None => {}
            }
            let (sender, pending) = oneshot::channel();
            state.waiter = Some(sender);
            pending
        };
        match pending.await {
            Ok(ready) => self.shared.checked(&mut self.shared.state.lock(), ready),
            Err(_) => Found::InOrder,
        }
    }

    /// A part was found here and goes out. Has more made when there is room and `may_make`.
    pub fn used(
        &self,
        next: Option<u64>,
        executor: &dyn Executor,
        may_make: impl Fn() -> bool,
        make: impl Fn() -> Make,
    ) {
        let mut state = self.shared.state.lock();
        state.next = next;
        state.used = state.used.saturating_add(1);
        if state.used >= WORTH_IT {
            state.next_pause = FIRST_PAUSE;
        }
        let room = state.most_parts() / 2 >= state.parts.len();
        if next.is_none() {
            self.shared.stop(&mut state, false);
        } else if room && !state.making && state.from.is_some() && may_make() {
            self.shared.start(state, executor, make());
        }
    }

    /// A part was made when it was asked for, and ends at `next`. When it followed the one before (`in_order`), the next
    /// ones are begun.
    pub fn made(
        &self,
        listing: &Listing,
        next: Option<u64>,
        in_order: bool,
        executor: &dyn Executor,
        may_make: impl Fn() -> bool,
        make: impl Fn() -> Make,
    ) {
        let mut state = self.shared.state.lock();
        self.shared.stop(&mut state, false);
        state.listing = next.is_some().then(|| listing.clone());
        (state.next, state.from) = (next, next);
        if !in_order || next.is_none() {
            return;
        }
        if state.pause > 0 {
            state.pause -= 1;
        } else if may_make() {
            self.shared.start(state, executor, make());
        }
    }

    /// Nobody asks any more.
    pub fn close(&self) {
        self.shared.stop(&mut self.shared.state.lock(), false);
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn most_parts(&self) -> usize {
        let part_bytes = self.listing.as_ref().map_or(0, |listing| listing.max_count_bytes);
        (AHEAD_BYTES / part_bytes.max(1)).clamp(1, MOST_PARTS)
    }
}

impl Shared {
    fn host(&self) -> &Host {
        self.answers.of(self.host)
    }

    /// Whether a part may still go out; if not, nor may those behind it.
    fn checked(&self, state: &mut State, ready: Ready) -> Found {
        let age_us = self.clock.monotonic_us().saturating_sub(ready.begun_us);
        if age_us <= MOST_AGE_US && ready.answers == self.host().answers.load(SeqCst) {
            return Found::Part(ready.part);
        }
        self.stop(state, true);
        Found::InOrder
    }

    /// Throws away what is ready and being made. Whoever waits for it makes it.
    fn stop(&self, state: &mut State, in_vain: bool) {
        if in_vain && state.counted {
            state.pause = state.next_pause.max(FIRST_PAUSE);
            state.next_pause = (state.pause * 2).min(LAST_PAUSE);
            state.used = 0;
        }
        state.run += 1;
        state.making = false;
        state.parts = VecDeque::new();
        state.waiter = None;
        if std::mem::take(&mut state.counted) {
            self.host().waiting.fetch_sub(1, SeqCst);
        }
    }

    fn start(self: &Arc<Self>, mut state: parking_lot::MutexGuard<'_, State>, executor: &dyn Executor, make: Make) {
        if !std::mem::replace(&mut state.counted, true) {
            self.host().waiting.fetch_add(1, SeqCst);
        }
        state.making = true;
        state.run += 1;
        let making = Making { shared: Arc::clone(self), run: state.run };
        drop(state);
        executor.run(Box::new(move || making.all(&*make)));
    }
}

/// A worker's.
struct Making {
    shared: Arc<Shared>,
    run: u64,
}

impl Making {
    /// Makes parts until there are enough, the listing ends, or nobody wants them.
    fn all(&self, make: &dyn Fn(u64) -> Option<Part>) {
        while let Some(cookie) = self.next() {
            let begun_us = self.shared.clock.monotonic_us();
            let answers = self.shared.host().answers.load(SeqCst);
            let Some(part) = make(cookie) else { return };
            self.done(Ready { part, begun_us, answers });
        }
    }

    /// Where the next part begins, if one is to be made.
    fn next(&self) -> Option<u64> {
        let mut state = self.shared.state.lock();
        if state.run != self.run {
            return None;
        }
        let wanted = state.parts.len() < state.most_parts();
        // Said under the lock: from here on somebody else may be asked to go on.
        state.making = wanted && state.from.is_some();
        if state.making { state.from } else { None }
    }

    fn done(&self, ready: Ready) {
        let mut state = self.shared.state.lock();
        if state.run != self.run {
            return;
        }
        state.from = ready.part.next;
        match state.waiter.take() {
            // Whoever waited may be gone.
            Some(waiter) => drop(waiter.send(ready)),
            None => state.parts.push_back(ready),
        }
    }
}

impl Drop for Making {
    /// However it ended, nobody waits for it any longer.
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if state.run == self.run && state.making {
            state.making = false;
            state.waiter = None;
        }
    }
}
