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
    ended_ns: u64,
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
    /// When it ended, in nanoseconds since the load began: with the window, or before when there was nothing left to do.
    pub ended_ns: u64,
}

impl Tally {
    /// Counts in this window.
    pub fn new(window: Window) -> Self {
        Self { window, recorder: Recorder::default(), bytes: 0, operations: 0, ended_ns: window.until_ns }
    }

    /// A request of so many bytes, sent and completed at these times.
    pub fn completed(&mut self, sent_ns: u64, done_ns: u64, bytes: u64) {
        if (self.window.from_ns..self.window.until_ns).contains(&done_ns) {
            self.recorder.record(done_ns.saturating_sub(sent_ns));
            self.bytes = self.bytes.saturating_add(bytes);
            self.operations = self.operations.saturating_add(1);
        }
    }

    /// An answer that so many operations were done with, such as entries of a directory; its latency is one.
    pub fn completed_many(&mut self, sent_ns: u64, done_ns: u64, operations: u64) {
        if operations > 0 && (self.window.from_ns..self.window.until_ns).contains(&done_ns) {
            self.recorder.record(done_ns.saturating_sub(sent_ns));
            self.operations = self.operations.saturating_add(operations);
        }
    }

    /// There is nothing left to do. What counts ends now, if it has not.
    pub fn ended(&mut self, now_ns: u64) {
        self.ended_ns = self.window.until_ns.min(now_ns);
    }

    /// What was counted.
    pub fn finish(&self) -> Counted {
        let (bytes, operations, ended_ns) = (self.bytes, self.operations, self.ended_ns);
        Counted { bytes, operations, latency: self.recorder.finish(), ended_ns }
    }
}

impl Counted {
    /// Adds what another job counted.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.operations = self.operations.saturating_add(other.operations);
        self.latency.merge(&other.latency);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
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
    fn entries_are_operations_and_their_answer_has_one_latency() {
        let mut tally = Tally::new(Window { from_ns: 100, until_ns: 200 });
        tally.completed_many(0, 99, 50);
        tally.completed_many(110, 150, 36);
        tally.completed_many(110, 150, 0);
        let counted = tally.finish();
        assert_eq!((counted.operations, counted.bytes, counted.latency.count()), (36, 0, 1));
    }

    #[test]
    fn what_was_used_up_early_ended_early_and_the_last_job_says_when() {
        let of = |now_ns| {
            let mut tally = Tally::new(Window { from_ns: 100, until_ns: 200 });
            tally.ended(now_ns);
            tally.finish()
        };
        assert_eq!((of(150).ended_ns, of(250).ended_ns), (150, 200));
        let mut all = Counted::default();
        [150, 120].iter().for_each(|now_ns| all.add(&of(*now_ns)));
        assert_eq!(all.ended_ns, 150);
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
