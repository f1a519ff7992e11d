//! Which shards are at work right now: whoever thinks of giving work to an idle core asks whether there is one. And how often
//! each began to be: a connection sees by it whether its shard has others to see to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// One flag for each shard, each on its own cache line.
pub struct Load(Vec<Flag>);

#[repr(align(128))]
struct Flag {
    running: AtomicBool,
    turns: AtomicU64,
}

impl Load {
    /// For so many shards, all idle.
    pub fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Flag { running: AtomicBool::new(false), turns: AtomicU64::new(0) }).collect())
    }

    /// Shards that are running a connection at this moment.
    pub fn running(&self) -> usize {
        self.0.iter().filter(|flag| flag.running.load(Relaxed)).count()
    }

    /// Told by the shard itself, when a connection has its turn. The answer is the turn's number on the shard.
    pub(crate) fn begin(&self, shard: usize) -> u64 {
        let Some(flag) = self.0.get(shard) else { return 0 };
        let turn = flag.turns.load(Relaxed).wrapping_add(1);
        flag.turns.store(turn, Relaxed);
        flag.running.store(true, Relaxed);
        turn
    }

    /// The same, when that turn is over.
    pub(crate) fn end(&self, shard: usize) {
        if let Some(flag) = self.0.get(shard) {
            flag.running.store(false, Relaxed);
        }
    }
}
