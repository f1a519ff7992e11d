//! Whether writing in place has been blocking: the protocol servers note how long their writes took and ask before the
//! next one. The time is passed in; nothing here waits.
//!
//! One long write says little. On a machine whose cores are all busy, the thread may simply not have run for some
//! milliseconds, and handing the writes that follow to other threads makes such a machine slower. A device that cannot keep
//! up makes one write after the other wait: only what adds up counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A write to the page cache that took no longer did not wait for a device.
const SHORT_MS: u64 = 5;
/// Time lost in long writes, each short one between them making up for a millisecond, from which the device is called slow.
const SLOW_FROM_MS: u64 = 50;
/// For how long it is called so.
const SLOW_FOR_MS: u64 = 2_000;

/// How one place that is written to has kept up. Its counts may miss an update that raced with another; nothing
/// depends on one.
#[derive(Debug, Default)]
pub struct Pace {
    lost_ms: AtomicU64,
    slow_until_ms: AtomicU64,
}

impl Pace {
    /// Whether a write at `now_ms`, on any clock that only goes forward, should expect to wait.
    pub fn is_slow(&self, now_ms: impl FnOnce() -> u64) -> bool {
        let until = self.slow_until_ms.load(Relaxed);
        until != 0 && now_ms() < until
    }

    /// Notes a write that ran from `begun_ms` to `ended_ms`.
    pub fn note(&self, begun_ms: u64, ended_ms: u64) {
        let took = ended_ms.saturating_sub(begun_ms);
        let lost = self.lost_ms.load(Relaxed);
        if took <= SHORT_MS {
            if lost > 0 {
                self.lost_ms.store(lost - 1, Relaxed);
            }
            return;
        }
        let lost = lost.saturating_add(took);
        if lost >= SLOW_FROM_MS {
            self.slow_until_ms.store(ended_ms + SLOW_FOR_MS, Relaxed);
        }
        self.lost_ms.store(if lost >= SLOW_FROM_MS { 0 } else { lost }, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_kept_waiting_now_and_then_is_no_slow_device() {
        let pace = Pace::default();
        let mut now = 1_000;
        for i in 0..10_000 {
            let took = if i % 30 == 0 { 12 } else { 0 };
            pace.note(now, now + took);
            now += took;
            assert!(!pace.is_slow(|| now), "after {i} writes");
        }
    }

    #[test]
    fn one_long_wait_is_enough_and_is_forgotten() {
        let pace = Pace::default();
        pace.note(1_000, 1_200);
        assert!(pace.is_slow(|| 1_200));
        assert!(pace.is_slow(|| 3_199));
        assert!(!pace.is_slow(|| 3_200));
        pace.note(3_200, 3_210);
        assert!(!pace.is_slow(|| 3_210), "what was counted once is not counted again");
    }

    #[test]
    fn waits_that_add_up_are_a_slow_device() {
        let pace = Pace::default();
        let mut now = 0;
        let slow_after = (1..).find(|_| {
            pace.note(now, now + 15);
            now += 15;
            pace.is_slow(|| now)
        });
        assert_eq!(slow_after, Some(4));
    }
}
