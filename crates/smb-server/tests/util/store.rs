//! A store in memory: what a server restarted finds of the one before. It can be told to fail.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use smb_server::{Change, Store, StoreError};

/// The store.
#[derive(Default)]
pub struct MemStore {
    records: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Nothing can be written any more.
    pub fails: AtomicBool,
}

impl MemStore {
    /// Records there are.
    pub fn len(&self) -> usize {
        self.records.lock().unwrap().len()
    }

    /// Cuts every record short.
    pub fn damage(&self) {
        self.records.lock().unwrap().values_mut().for_each(|record| record.truncate(20));
    }
}

impl Store for MemStore {
    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        Ok(self.records.lock().unwrap().clone().into_iter().collect())
    }

    fn apply(&self, changes: &[Change]) -> Result<(), StoreError> {
        if self.fails.load(Relaxed) {
            return Err(StoreError("the disk is full".into()));
        }
        let mut records = self.records.lock().unwrap();
        for change in changes {
            match change {
                Change::Put { id, record } => records.insert(*id, record.clone()),
                Change::Remove { id } => records.remove(id),
            };
        }
        Ok(())
    }
}
