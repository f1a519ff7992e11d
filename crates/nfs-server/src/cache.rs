//! Objects kept open between calls, by their whole handle, so that a READ costs no open and a handle's signature is
//! checked once. Bounded; what is idle goes first, and all of it after a few seconds, so that a removed file's space is
//! not held for long.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::files::Object;

const SHARDS: usize = 16;
/// Objects kept in each shard: descriptors are what they cost.
const MOST_PER_SHARD: usize = 256;
/// How long an object nobody uses stays open.
const IDLE_MS: u64 = 5_000;
/// Objects looked at to find one that has been idle for long.
const SAMPLE: usize = 16;

type Shard = Mutex<HashMap<Box<[u8]>, Arc<Object>>>;

/// The objects.
#[derive(Default)]
pub struct Cache {
    shards: [Shard; SHARDS],
    hasher: RandomState,
}

impl Cache {
    /// The object of a handle that was given out.
    pub fn find(&self, handle: &[u8], now_ms: u64) -> Option<Arc<Object>> {
        let found = self.shard(handle).lock().get(handle).cloned();
        found.inspect(|object| object.used_at(now_ms))
    }

    /// Keeps an object; answers the one that is kept, which may be another's of the same handle.
    pub fn keep(&self, object: Object, now_ms: u64) -> Arc<Object> {
        let mut gone = Vec::new();
        let mut shard = self.shard(&object.handle).lock();
        if let Some(kept) = shard.get(&object.handle) {
            kept.used_at(now_ms);
            return Arc::clone(kept);
        }
        if shard.len() >= MOST_PER_SHARD {
            let oldest = shard
                .values()
                .filter(|o| Arc::strong_count(o) == 1)
                .take(SAMPLE)
                .min_by_key(|o| o.last_use_ms())
                .map(|o| o.handle.clone());
            gone.extend(oldest.and_then(|handle| shard.remove(&handle)));
        }
        object.used_at(now_ms);
        let object = Arc::new(object);
        shard.insert(object.handle.clone(), Arc::clone(&object));
        drop(shard);
        // Closed with no lock held.
        drop(gone);
        object
    }

    /// Forgets an object: it is gone, or other rights hold.
    pub fn forget(&self, handle: &[u8]) {
        let gone = self.shard(handle).lock().remove(handle);
        drop(gone);
    }

    /// Forgets what has not been used for a while.
    pub fn sweep(&self, now_ms: u64) {
        for shard in &self.shards {
            // What an NFSv4 open holds must be found by its handle, also when it has no name any more.
            let idle = |object: &Arc<Object>| {
                Arc::strong_count(object) == 1 && object.last_use_ms().saturating_add(IDLE_MS) < now_ms
            };
            let gone: Vec<_> = shard.lock().extract_if(|_, object| idle(object)).collect();
            drop(gone);
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| drop(std::mem::take(&mut *shard.lock())));
    }

    /// Objects kept.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, handle: &[u8]) -> &Shard {
        &self.shards[self.hasher.hash_one(handle) as usize % SHARDS]
    }
}
