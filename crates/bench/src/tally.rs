//! What of a load counts: the completions after its warm-up and before its end. The jobs of the command line tell a [`Tally`]
//! of each completion, in nanoseconds since the load began; it reads no clock.

use crate::histogram::{Histogram, Recorder};

/// The time that is measured, in nanoseconds since the load began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The end of the warm-up.
    pub from_ns: u64,
    /// The end of the load.
    pub until_ns: u64,
}

/// Counts what completed in the window. A request counts when it completes within, whenever it was sent; its latency is all
/// of its time, so that a request that waits across the border is neither lost nor shortened.
#[derive(Debug, Clone)]
pub struct Tally {
    window: Window,
    recorder: Recorder,
    bytes: u64,
    operations: u64,
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes moved.
    pub bytes: u64,
    /// Requests completed.
    pub operations: u64,
    /// How long each took.
    pub latency: Histogram,
}

impl Tally {
    /// Counts in this window.
    pub fn new(window: Window) -> Self {
        Self { window, recorder: Recorder::default(), bytes: 0, operations: 0 }
    }

    /// A request of so many bytes, sent and completed at these times.
    pub fn completed(&mut self, sent_ns: u64, done_ns: u64, bytes: u64) {
        if (self.window.from_ns..self.window.until_ns).contains(&done_ns) {
            self.recorder.record(done_ns.saturating_sub(sent_ns));
            self.bytes = self.bytes.saturating_add(bytes);
            self.operations = self.operations.saturating_add(1);
        }
    }

    /// What was counted.
    pub fn finish(&self) -> Counted {
        Counted { bytes: self.bytes, operations: self.operations, latency: self.recorder.finish() }
    }
}

impl Counted {
    /// Adds what another job counted.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.operations = self.operations.saturating_add(other.operations);
        self.latency.merge(&other.latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_completes_in_the_window_counts_and_with_all_its_time() {
        let mut tally = Tally::new(Window { from_ns: 100, until_ns: 200 });
        tally.completed(0, 99, 10);
        tally.completed(40, 100, 10);
        tally.completed(150, 199, 10);
        tally.completed(150, 200, 10);
        let counted = tally.finish();
        assert_eq!((counted.operations, counted.bytes, counted.latency.count()), (2, 20, 2));
        assert_eq!((counted.latency.min_ns(), counted.latency.max_ns()), (49, 60));
    }

    #[test]
    fn jobs_add_up() {
        let mut all = Counted::default();
        for job in 1..=3 {
            let mut tally = Tally::new(Window { from_ns: 0, until_ns: 1_000 });
            (0..job).for_each(|at| tally.completed(at, at + 10 * job, 512));
            all.add(&tally.finish());
        }
        assert_eq!((all.operations, all.bytes, all.latency.count(), all.latency.max_ns()), (6, 3_072, 6, 30));
    }
}
