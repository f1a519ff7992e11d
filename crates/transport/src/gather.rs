//! Lets small requests gather in the socket: while a peer keeps many under way, its driver is woken for some of them
//! together and not for each, so that they share one wake-up, one receiving and one sending call. The driver tells what
//! each round of receiving brought, and asks here before it waits. Nothing is received here, and no request that stays alone
//! is held back for longer than twice [`PATIENCE`].
//!
//! How many requests a peer keeps under way cannot be seen from here: a server that is faster than its client finds one at a
//! time, and the replies the client has not read yet are as invisible as what it will send without reading them. So it is
//! tried, with a peer that sends fast and not several at a time anyway, and kept up for as long as the peer does not become
//! slower by it. The kernel does the waiting (`SO_RCVLOWAT`); a timer ends it when nothing more comes. After a try in vain it
//! takes twice as many requests until the next. What this gains and costs stands in
//! `docs/decisions/0004-gathering-requests.md` and `0009-batching.md`.

use std::os::fd::BorrowedFd;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;

use crate::alarm::Alarm;
use crate::sys;

/// After this long, and at most twice as long, what has come is taken. Setting a timer costs more than sharing a wake-up
/// saves, so it runs on while requests come.
const PATIENCE: Duration = Duration::from_micros(200);
/// The slowest pace, from one request to the next, at which a peer is made to wait.
const SLOWEST_PACE: Duration = Duration::from_micros(25);
/// Requests that are not worth waking for.
const TOGETHER: usize = 3;
/// Larger requests cost more than the wake-up they would share.
const LARGEST_BYTES: usize = 16 << 10;
/// Requests before a try, at first and at most; twice as many show the pace that is to be kept.
const FIRST_TRY: u32 = 2048;
const LAST_TRY: u32 = 1 << 18;
/// Requests after which the pace is looked at, and the low-water mark adapted to larger ones.
const PERIOD: u32 = 1024;
/// Slow periods in a row that are not chance.
const TOO_SLOW: u32 = 2;
/// Periods that make up for an end in vain.
const WORTH_IT: u32 = 16;
/// Periods after which the pace that is to be kept is taken anew.
const MOST_PERIODS: u32 = 256;

/// What one round of receiving brought.
pub struct Batch {
    /// Complete frames.
    pub frames: u32,
    /// Their bytes.
    pub bytes: usize,
    /// The length of the shortest.
    pub smallest_bytes: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { frames: 0, bytes: 0, smallest_bytes: usize::MAX }
    }
}

/// The gathering of one connection.
pub struct Gather {
    clock: fn() -> Instant,
    state: State,
    /// Requests before the next try.
    needed: u32,
    /// The running period: since when, how many requests, the shortest of them.
    begun: Instant,
    seen: u32,
    batches: u32,
    smallest_bytes: usize,
}

enum State {
    /// Every request wakes the driver; the time between two of them in the period before, once there was one.
    Off { pace: Option<Duration> },
    /// Fewer bytes than the low-water mark do not.
    On { low_water_bytes: usize, alarm: Alarm, pace_to_keep: Duration, periods: u32, slow_periods: u32 },
}

impl Gather {
    /// Nothing is seen yet.
    pub fn new(clock: fn() -> Instant) -> Self {
        let state = State::Off { pace: None };
        Self { clock, state, needed: FIRST_TRY, begun: clock(), seen: 0, batches: 0, smallest_bytes: usize::MAX }
    }

    /// Whether small requests are let gather.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On { .. })
    }

    /// Notes what a round of receiving brought.
    pub fn took(&mut self, socket: BorrowedFd<'_>, batch: &Batch) {
        if batch.frames == 0 {
            return;
        }
        self.seen += batch.frames;
        self.batches += 1;
        self.smallest_bytes = self.smallest_bytes.min(batch.smallest_bytes);
        match &mut self.state {
            State::Off { .. } if self.seen < self.needed => {}
            State::Off { pace } => {
                let earlier = *pace;
                self.consider(socket, earlier);
            }
            State::On { low_water_bytes, alarm, .. } => {
                alarm.note();
                if self.seen >= PERIOD {
                    self.look_back(socket);
                } else if low_water(batch.smallest_bytes) < *low_water_bytes {
                    self.set_low_water(socket, low_water(batch.smallest_bytes));
                }
            }
        }
    }

    /// Asked when the socket has nothing to tell. Ready when gathering has ended because what was waited for did not come:
    /// the socket is to be asked once more.
    pub fn poll_patience(&mut self, cx: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<()> {
        let State::On { alarm, .. } = &mut self.state else { return Poll::Pending };
        // A timer that fails must not keep a request waiting.
        let _ = ready!(alarm.poll(cx));
        // A peer that has stopped sending has waited for nothing.
        let in_vain = ioctl_fionread(socket).is_ok_and(|waiting| waiting > 0);
        self.end(socket, in_vain);
        Poll::Ready(())
    }

    /// The first period says little, since the connection began in it, or what went before has just ended.
    fn consider(&mut self, socket: BorrowedFd<'_>, earlier: Option<Duration>) {
        let pace = self.pace();
        let smallest_bytes = self.smallest_bytes;
        // They come as many at a time as they would if they were let gather.
        let is_gathered = self.seen as usize > TOGETHER * self.batches as usize;
        self.begin_period();
        self.state = State::Off { pace: Some(pace) };
        let Some(pace_to_keep) = earlier.map(|earlier| earlier.min(pace)) else { return };
        // Without a timer nobody may be kept waiting.
        if pace_to_keep <= SLOWEST_PACE
            && smallest_bytes <= LARGEST_BYTES
            && !is_gathered
            && let Ok(alarm) = Alarm::new(PATIENCE)
        {
            self.state = State::On { low_water_bytes: 1, alarm, pace_to_keep, periods: 0, slow_periods: 0 };
            self.set_low_water(socket, low_water(smallest_bytes));
        }
    }

    /// A period is over: whether the peer has kept its pace, and whether its requests have become longer.
    fn look_back(&mut self, socket: BorrowedFd<'_>) {
        let pace = self.pace();
        let State::On { pace_to_keep, periods, slow_periods, .. } = &mut self.state else { return };
        *periods += 1;
        *slow_periods = if pace > *pace_to_keep + *pace_to_keep / 16 { *slow_periods + 1 } else { 0 };
        let too_slow = *slow_periods >= TOO_SLOW;
        if too_slow || *periods >= MOST_PERIODS || self.smallest_bytes > LARGEST_BYTES {
            return self.end(socket, too_slow);
        }
        self.set_low_water(socket, low_water(self.smallest_bytes));
        self.begin_period();
    }

    /// Time from one request to the next in this period.
    fn pace(&self) -> Duration {
        (self.clock)().saturating_duration_since(self.begun) / self.seen.max(1)
    }

    fn end(&mut self, socket: BorrowedFd<'_>, in_vain: bool) {
        self.set_low_water(socket, 1);
        let has_paid = matches!(self.state, State::On { periods: WORTH_IT.., .. });
        self.needed = if in_vain && !has_paid { (self.needed * 2).min(LAST_TRY) } else { FIRST_TRY };
        self.state = State::Off { pace: None };
        self.begin_period();
    }

    fn begin_period(&mut self) {
        self.begun = (self.clock)();
        self.seen = 0;
        self.batches = 0;
        self.smallest_bytes = usize::MAX;
    }

    /// Lowering it raises the event for what is there already.
    fn set_low_water(&mut self, socket: BorrowedFd<'_>, bytes: usize) {
        if let State::On { low_water_bytes, .. } = &mut self.state
            && *low_water_bytes != bytes
            && sys::set_receive_low_water(socket, bytes).is_ok()
        {
            *low_water_bytes = bytes;
        }
    }
}

/// A byte more than so many of the shortest requests: the next one wakes, or a longer one by itself.
fn low_water(smallest_bytes: usize) -> usize {
    smallest_bytes.saturating_mul(TOGETHER).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    thread_local! {
        static NOW: Cell<Instant> = Cell::new(Instant::now());
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn low_water_of(gather: &Gather) -> usize {
        match gather.state {
            State::Off { .. } => 1,
            State::On { low_water_bytes, .. } => low_water_bytes,
        }
    }

    /// So many requests of so many bytes, one by one, each so many microseconds after the other.
    fn requests(gather: &mut Gather, socket: &TcpStream, count: u32, bytes: usize, apart_us: u64) {
        for _ in 0..count {
            NOW.set(NOW.get() + Duration::from_micros(apart_us));
            gather.took(socket.as_fd(), &Batch { frames: 1, bytes: 0, smallest_bytes: bytes });
        }
    }

    fn in_runtime(test: impl FnOnce(&mut Gather, &TcpStream)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let (_near, far) = pair();
        test(&mut Gather::new(|| NOW.get()), &far);
    }

    #[test]
    fn only_who_sends_fast_is_made_to_wait() {
        in_runtime(|gather, socket| {
            requests(gather, socket, 10 * FIRST_TRY, 117, 30);
            assert_eq!(low_water_of(gather), 1);
            requests(gather, socket, 2 * FIRST_TRY, 117, 10);
            assert_eq!(low_water_of(gather), 3 * 117 + 1);
        });
    }

    #[test]
    fn who_becomes_slower_by_it_is_let_go_and_left_alone_for_longer() {
        in_runtime(|gather, socket| {
            requests(gather, socket, 2 * FIRST_TRY, 117, 10);
            requests(gather, socket, PERIOD, 117, 11);
            requests(gather, socket, PERIOD, 117, 10);
            requests(gather, socket, PERIOD, 117, 11);
            assert_eq!(low_water_of(gather), 3 * 117 + 1, "once may be chance");
            requests(gather, socket, PERIOD, 117, 11);
            assert_eq!(low_water_of(gather), 1);
            requests(gather, socket, 4 * FIRST_TRY - 1, 117, 10);
            assert_eq!(low_water_of(gather), 1);
            requests(gather, socket, 1, 117, 10);
            assert_eq!(low_water_of(gather), 3 * 117 + 1);
        });
    }

    #[test]
    fn who_sends_several_together_is_not_made_to() {
        in_runtime(|gather, socket| {
            let four = Batch { frames: 4, bytes: 0, smallest_bytes: 117 };
            for _ in 0..FIRST_TRY {
                NOW.set(NOW.get() + Duration::from_micros(40));
                gather.took(socket.as_fd(), &four);
            }
            assert_eq!(low_water_of(gather), 1);
            let two = Batch { frames: 2, ..four };
            for _ in 0..2 * FIRST_TRY {
                NOW.set(NOW.get() + Duration::from_micros(20));
                gather.took(socket.as_fd(), &two);
            }
            assert_eq!(low_water_of(gather), 3 * 117 + 1);
        });
    }

    #[test]
    fn the_mark_follows_shorter_requests_at_once_and_longer_ones_later() {
        in_runtime(|gather, socket| {
            requests(gather, socket, 2 * FIRST_TRY, 4_200, 10);
            assert_eq!(low_water_of(gather), 3 * 4_200 + 1);
            requests(gather, socket, 1, 100, 10);
            assert_eq!(low_water_of(gather), 301);
            requests(gather, socket, 2 * PERIOD, 5_000, 10);
            assert_eq!(low_water_of(gather), 3 * 5_000 + 1);
            requests(gather, socket, 2 * PERIOD, LARGEST_BYTES + 1, 10);
            assert_eq!(low_water_of(gather), 1);
        });
    }

    #[test]
    fn a_request_that_stays_alone_is_taken() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (mut near, far) = pair();
        let mut gather = Gather::new(|| NOW.get());
        runtime.block_on(async {
            requests(&mut gather, &far, 2 * FIRST_TRY, 117, 10);
            assert_eq!(low_water_of(&gather), 3 * 117 + 1);
            near.write_all(&[0; 117]).unwrap();
            std::future::poll_fn(|cx| gather.poll_patience(cx, far.as_fd())).await;
        });
        assert_eq!(low_water_of(&gather), 1);
        assert_eq!(gather.needed, 2 * FIRST_TRY, "it waited in vain");
    }
}
