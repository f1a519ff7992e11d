//! The opens of one session by their FileIds. Most get an id when they are entered; a persistent one that comes back has
//! its own already, and keeps it. CREATE and reconnects enter opens, the dispatcher finds them, CLOSE takes them out.

use std::collections::HashMap;
use std::sync::Arc;

use smb_wire::smb2::FileHandle;

use crate::open::Open;
use crate::slab::Slab;

/// The opens of a session.
#[derive(Default)]
pub struct Opens {
    made: Slab<Arc<Open>>,
    /// What came back, by FileId.Persistent: its FileId.Volatile was given by another session.
    returned: HashMap<u64, Arc<Open>>,
}

impl Opens {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.made.len() + self.returned.len()
    }

    /// Enters what `make` makes of its FileId.Volatile.
    pub fn insert_with(&mut self, make: impl FnOnce(u64) -> Arc<Open>) -> Arc<Open> {
        Arc::clone(self.made.insert_with(make))
    }

    /// Enters an open that keeps its FileId.
    pub fn put_back(&mut self, open: Arc<Open>) -> Arc<Open> {
        self.returned.insert(open.handle.persistent, Arc::clone(&open));
        open
    }

    /// What came back with that FileId.Persistent.
    pub fn returned(&self, persistent: u64) -> Option<&Arc<Open>> {
        self.returned.get(&persistent)
    }

    /// The open of that FileId.
    pub fn get(&self, handle: FileHandle) -> Option<&Arc<Open>> {
        let made = self.made.get(handle.volatile).filter(|open| open.handle == handle);
        made.or_else(|| self.returned.get(&handle.persistent).filter(|open| open.handle == handle))
    }

    /// Takes out the open of that FileId.
    pub fn remove(&mut self, handle: FileHandle) -> Option<Arc<Open>> {
        let is_it = |open: &&Arc<Open>| open.handle == handle;
        if self.made.get(handle.volatile).filter(is_it).is_some() {
            return self.made.remove(handle.volatile);
        }
        self.returned.get(&handle.persistent).filter(is_it)?;
        self.returned.remove(&handle.persistent)
    }

    /// All of them.
    pub fn values(&self) -> impl Iterator<Item = &Arc<Open>> {
        self.made.values().chain(self.returned.values())
    }

    /// Takes out the opens that `which` names.
    pub fn remove_where(&mut self, which: impl Fn(&Open) -> bool) -> Vec<Arc<Open>> {
        let mut taken = self.made.remove_where(|open| which(open));
        taken.extend(self.returned.extract_if(|_, open| which(open)).map(|(_, open)| open));
        taken
    }
}
