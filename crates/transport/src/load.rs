//! Which shards are at work right now: whoever thinks of giving work to an idle core asks whether there is one. And how often
//! each began to be: a connection sees by it whether its shard has others to see to, and whether there is a core that has
//! had nothing to do lately.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// After so many turns of its own a shard looks what the others have done meanwhile.
const PERIOD: u64 = 32;
/// Another that had so many of its own was busy. One that has a turn now and then is not.
const BUSY_TURNS: u64 = PERIOD / 4;

/// What is known of each shard, each on its own cache line.
pub struct Load {
    shards: Vec<Shard>,
    cores: usize,
}

#[repr(align(128))]
struct Shard {
    running: AtomicBool,
    turns: AtomicU64,
    /// Written by the shard itself: how many turns the others had had when it last looked, and how many of them were busy.
    seen: Vec<AtomicU64>,
    busy_others: AtomicUsize,
}

impl Load {
    /// For so many shards, all idle, on a machine of so many cores.
    pub fn new(shards: usize, cores: usize) -> Self {
        let shard = |_| Shard {
            running: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            seen: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            busy_others: AtomicUsize::new(0),
        };
        Self { shards: (0..shards).map(shard).collect(), cores }
    }

    /// Shards that are running a connection at this moment.
    pub fn running(&self) -> usize {
        self.shards.iter().filter(|shard| shard.running.load(Relaxed)).count()
    }

    /// Whether, beside this shard and those that were busy lately, there are as many cores again: for those whom replies
    /// wake, where they are on this machine.
    pub(crate) fn has_idle_cores(&self, shard: usize) -> bool {
        let busy = self.shards.get(shard).map_or(0, |own| 1 + own.busy_others.load(Relaxed));
        2 * busy <= self.cores
    }

    /// Told by the shard itself, when a connection has its turn. The answer is the turn's number on the shard.
    pub(crate) fn begin(&self, shard: usize) -> u64 {
        let Some(own) = self.shards.get(shard) else { return 0 };
        let turn = own.turns.load(Relaxed).wrapping_add(1);
        own.turns.store(turn, Relaxed);
        own.running.store(true, Relaxed);
        if turn.is_multiple_of(PERIOD) {
            self.look_at_others(shard, own);
        }
        turn
    }

    fn look_at_others(&self, shard: usize, own: &Shard) {
        let mut busy = 0;
        for (number, (other, seen)) in self.shards.iter().zip(&own.seen).enumerate() {
            let turns = other.turns.load(Relaxed);
            let had = turns.wrapping_sub(seen.load(Relaxed));
            busy += usize::from(number != shard && had >= BUSY_TURNS);
            seen.store(turns, Relaxed);
        }
        own.busy_others.store(busy, Relaxed);
    }

    /// The same, when that turn is over.
    pub(crate) fn end(&self, shard: usize) {
        if let Some(own) = self.shards.get(shard) {
            own.running.store(false, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(load: &Load, shard: usize, count: u64) {
        for _ in 0..count {
            load.begin(shard);
            load.end(shard);
        }
    }

    #[test]
    fn whether_cores_are_idle_is_seen_by_what_the_others_did_meanwhile() {
        let load = Load::new(2, 2);
        assert!(load.has_idle_cores(0));
        turns(&load, 1, BUSY_TURNS - 1);
        turns(&load, 0, PERIOD);
        assert!(load.has_idle_cores(0), "now and then is not busy");
        for _ in 0..3 {
            turns(&load, 1, BUSY_TURNS);
            turns(&load, 0, PERIOD);
            assert!(!load.has_idle_cores(0));
        }
        turns(&load, 0, PERIOD - 1);
        assert!(!load.has_idle_cores(0), "it is looked at after a period");
        turns(&load, 0, 1);
        assert!(load.has_idle_cores(0));
    }

    #[test]
    fn on_a_machine_with_cores_to_spare_more_may_be_busy() {
        let load = Load::new(4, 4);
        turns(&load, 1, PERIOD);
        turns(&load, 0, PERIOD);
        assert!(load.has_idle_cores(0), "two of four");
        turns(&load, 1, PERIOD);
        turns(&load, 2, PERIOD);
        turns(&load, 0, PERIOD);
        assert!(!load.has_idle_cores(0), "three of four");
        assert!(!Load::new(1, 1).has_idle_cores(0));
    }
}
