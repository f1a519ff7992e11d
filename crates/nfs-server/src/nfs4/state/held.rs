//! What stateids stand for, found by their keys from every thread. In shards, since each READ and WRITE looks here.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::deleg::Delegation;
use super::ids::StateKey;
use super::lock::LockState;
use super::open::Open;

const SHARDS: usize = 16;

/// One state.
#[derive(Clone)]
pub(crate) enum Held {
    Open(Arc<Open>),
    Lock(Arc<LockState>),
    Delegation(Arc<Delegation>),
}

/// All of them.
#[derive(Default)]
pub(crate) struct HeldTable {
    shards: [RwLock<HashMap<StateKey, Held>>; SHARDS],
}

impl HeldTable {
    pub fn get(&self, key: StateKey) -> Option<Held> {
        self.shard(key)?.read().get(&key).cloned()
    }

    pub fn insert(&self, key: StateKey, held: Held) {
        if let Some(shard) = self.shard(key) {
            shard.write().insert(key, held);
        }
    }

    pub fn remove(&self, key: StateKey) {
        if let Some(shard) = self.shard(key) {
            // Dropped without the lock: what ends with it may come back here.
            let gone = shard.write().remove(&key);
            drop(gone);
        }
    }

    fn shard(&self, key: StateKey) -> Option<&RwLock<HashMap<StateKey, Held>>> {
        self.shards.get((key.index ^ key.client.0.wrapping_mul(0x9e37_79b9)) as usize % SHARDS)
    }
}
