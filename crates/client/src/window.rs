//! How many bytes a stream has under way: as many as the link holds (its bandwidth times its round trip) and not many more.
//! It begins with a few requests and grows by half for as long as that brings more bytes a second. `stream` asks it for both
//! protocols; it must never let a stream stand still, or hold more than its caller allows.

use std::time::Duration;

/// Requests at first, and at least.
const FIRST_REQUESTS: u64 = 4;
const LEAST_REQUESTS: u64 = 2;
/// So much at first, however small the requests are.
const FIRST_BYTES: u64 = 1 << 20;
/// More bytes a second by this part (a twelfth) are worth half as much memory more.
const GAIN_PART: f64 = 12.0;
/// Rounds after which it is tried again: links change.
const REST_ROUNDS: u32 = 64;

/// The window of one stream.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// What may be under way, in bytes; 0 before the first request.
    target: u64,
    under_way: u64,
    /// The round: as many bytes as may be under way.
    round_bytes: u64,
    round_began: Option<Duration>,
    /// Bytes a second of the best round.
    best: f64,
    /// What is answered in this round was sent before the window grew.
    is_mixed: bool,
    /// Rounds to go before it is tried whether more brings more.
    rest: u32,
}

impl Window {
    /// Whether another request of `each` bytes at most should be sent, of a stream that may hold `most`.
    pub fn has_room(&mut self, each: u64, most: u64) -> bool {
        self.under_way < self.limit(each, most)
    }

    /// Whether `len_bytes` more may be under way.
    pub fn fits(&mut self, len_bytes: u64, each: u64, most: u64) -> bool {
        self.under_way + len_bytes <= self.limit(each, most)
    }

    fn limit(&mut self, each: u64, most: u64) -> u64 {
        let least = each.saturating_mul(LEAST_REQUESTS);
        if self.target == 0 {
            self.target = FIRST_BYTES.max(each.saturating_mul(FIRST_REQUESTS));
        }
        // What is not allowed need not be tried.
        self.target = self.target.min(most).max(least);
        self.target
    }

    /// A request of so many bytes is sent.
    pub fn sent(&mut self, len_bytes: u64, now: Duration) {
        if self.under_way == 0 {
            // Nobody can say how long a stream stood still that waited for its caller.
            (self.round_bytes, self.round_began) = (0, Some(now));
        }
        self.under_way += len_bytes;
    }

    /// One is answered.
    pub fn answered(&mut self, len_bytes: u64, now: Duration) {
        self.under_way = self.under_way.saturating_sub(len_bytes);
        self.round_bytes += len_bytes;
        if self.round_bytes >= self.target {
            self.round_ends(now);
        }
    }

    /// Nothing is under way any more.
    pub fn clear(&mut self) {
        self.under_way = 0;
    }

    fn round_ends(&mut self, now: Duration) {
        let took = now.saturating_sub(self.round_began.unwrap_or(now)).as_secs_f64();
        let rate = self.round_bytes as f64 / took.max(1e-9);
        (self.round_bytes, self.round_began) = (0, Some(now));
        if std::mem::take(&mut self.is_mixed) {
            return;
        }
        if self.rest > 0 {
            self.rest -= 1;
            if self.rest == 0 {
                self.grow(rate);
            }
        } else if rate > self.best + self.best / GAIN_PART {
            self.grow(rate);
        } else {
            self.target -= self.target / 3;
            self.rest = REST_ROUNDS;
        }
    }

    fn grow(&mut self, rate: f64) {
        self.best = rate;
        self.target = self.target.saturating_add(self.target / 2);
        self.is_mixed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: u64 = 1 << 20;
    const MOST: u64 = 64 << 20;

    /// The window that becomes of a link with that bandwidth and round trip, its requests answered in order; and how
    /// long `bytes` took.
    fn on(bytes_per_sec: f64, round_trip: Duration, bytes: u64) -> (u64, Duration) {
        let mut window = Window::default();
        let (mut now, mut free_at) = (Duration::ZERO, Duration::ZERO);
        let mut due = std::collections::VecDeque::new();
        let mut sent = 0;
        let mut widest = 0;
        while sent < bytes || !due.is_empty() {
            while sent < bytes && window.has_room(EACH, MOST) {
                window.sent(EACH, now);
                free_at = free_at.max(now) + Duration::from_secs_f64(EACH as f64 / bytes_per_sec);
                due.push_back(free_at + round_trip);
                sent += EACH;
            }
            widest = widest.max(due.len() as u64 * EACH);
            now = due.pop_front().unwrap().max(now);
            window.answered(EACH, now);
        }
        (widest, now)
    }

    #[test]
    fn a_long_link_is_filled_and_a_short_one_not_flooded() {
        // Bandwidth and round trip, what the link holds, and what may be under way.
        for (bytes_per_sec, round_trip, holds) in [
            (1e9, Duration::from_micros(100), 100_000),
            (1e9, Duration::from_millis(10), 10_000_000),
            (1e9, Duration::from_millis(100), 100_000_000),
            (1e8, Duration::from_millis(100), 10_000_000),
            (1e6, Duration::from_millis(1), 1000),
        ] {
            let (widest, took) = on(bytes_per_sec, round_trip, 1 << 30);
            let enough = (holds + EACH).min(MOST);
            assert!(widest >= enough.min(MOST), "{bytes_per_sec} {round_trip:?}: {widest} of {holds}");
            assert!(
                widest <= (enough * 4).clamp(16 << 20, MOST),
                "{bytes_per_sec} {round_trip:?}: {widest} for {holds}"
            );
            let best = (bytes_per_sec).min(MOST as f64 / round_trip.as_secs_f64());
            let least = Duration::from_secs_f64((1u64 << 30) as f64 / best);
            assert!(took < least.mul_f64(1.3) + round_trip * 16, "{bytes_per_sec} {round_trip:?}: {took:?}, {least:?}");
        }
    }

    #[test]
    fn two_requests_are_always_under_way_and_never_more_than_allowed() {
        let mut window = Window::default();
        assert!(window.has_room(EACH, 10));
        window.sent(EACH, Duration::ZERO);
        assert!(window.fits(EACH, EACH, 10) && window.has_room(EACH, 10));
        window.sent(EACH, Duration::ZERO);
        assert!(!window.fits(EACH, EACH, 10) && !window.has_room(EACH, 10));
        // Ever more bytes a second, for ever.
        for n in 1..25_u32 {
            let now = Duration::from_secs(n.into());
            while window.has_room(EACH, 8 * EACH) {
                window.sent(EACH, now);
            }
            assert!(window.under_way <= 8 * EACH);
            while window.under_way > 0 {
                window.answered(EACH, now + Duration::from_secs(1) / (1 << n));
            }
        }
        assert_eq!(window.limit(EACH, 8 * EACH), 8 * EACH);
    }
}
