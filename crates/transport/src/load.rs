//! Which shards are at work right now: whoever thinks of giving work to an idle core asks whether there is one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// One flag for each shard, each on its own cache line.
pub struct Load(Vec<Flag>);

#[repr(align(128))]
struct Flag(AtomicBool);

impl Load {
    /// For so many shards, all idle.
    pub fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Flag(AtomicBool::new(false))).collect())
    }

    /// Shards that are running a connection at this moment.
    pub fn running(&self) -> usize {
        self.0.iter().filter(|flag| flag.0.load(Relaxed)).count()
    }

    /// Told by the shard itself, around each turn of a connection.
    pub(crate) fn set(&self, shard: usize, running: bool) {
        if let Some(flag) = self.0.get(shard) {
            flag.0.store(running, Relaxed);
        }
    }
}
