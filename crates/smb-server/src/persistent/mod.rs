//! Persistent handles (MS-SMB2 3.3.5.9.10): opens on continuously available shares whose state is in the store before
//! their client hears of them, and which a server that starts again takes up. CREATE, LOCK, CLOSE and acknowledgements
//! tell what changed; [`reclaim`] reads it back.

mod reclaim;
mod record;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use smb_wire::fscc::AccessMask;
use smb_wire::smb2::FileHandle;
use vfs::FileId;

use self::record::Record;
use crate::connection::Inner;
use crate::open::{FileOpen, Object, Open};
use crate::server::Server;
use crate::store::{Change, Store};

/// What a record needs to know of an open besides its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its FileId, which it keeps for life; FileId.Persistent is the record's number.
    pub handle: FileHandle,
    /// Whose it is.
    pub user: String,
    /// Its rights.
    pub granted: AccessMask,
}

/// Brings the state of persistent opens to the store. Changes that come while others are being written are written
/// together after them.
pub struct Keeper {
    store: Arc<dyn Store>,
    pending: Mutex<Vec<Change>>,
    committing: Mutex<()>,
    broken: AtomicBool,
}

impl Keeper {
    /// A keeper that uses `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, pending: Mutex::default(), committing: Mutex::default(), broken: AtomicBool::new(false) }
    }

    /// Whether what is noted reaches the store. After a failure nothing does until the server starts again.
    pub fn works(&self) -> bool {
        !self.broken.load(Relaxed)
    }

    /// Notes the open's state as it is now; nothing, if it is closed.
    fn note(&self, file: &FileOpen, server: &Server) {
        // The order of the notes is the order of the states: both are taken under this lock.
        let mut pending = self.pending.lock();
        if file.claim.is_closed() {
            return;
        }
        if let Some(record) = Record::of(file, server) {
            pending.push(Change::Put { id: record.id, record: record.encode() });
        }
    }

    /// Notes that the open is closed. Does not wait; somebody has to commit.
    fn forget(&self, id: u64) {
        self.pending.lock().push(Change::Remove { id });
    }

    /// Waits until all that was noted before is in the store; whether it is.
    fn commit(&self) -> bool {
        let turn = self.committing.lock();
        let changes = std::mem::take(&mut *self.pending.lock());
        if !changes.is_empty()
            && let Err(error) = self.store.apply(&changes)
        {
            tracing::error!(%error, "the state store failed: no handle is persistent any more");
            self.broken.store(true, Relaxed);
        }
        drop(turn);
        self.works()
    }
}

impl Server {
    /// Whether persistent handles can be had at all (SMB2_GLOBAL_CAP_PERSISTENT_HANDLES).
    pub(crate) fn has_persistent_handles(&self) -> bool {
        let shares = || self.config.load().shares.values().any(|share| share.options.continuously_available);
        self.keeper.as_ref().is_some_and(|keeper| keeper.works()) && shares()
    }

    /// Notes that an open is closed, if it is a persistent one; [`Server::commit_closed`] brings that to the store.
    pub(crate) fn forget_persistent(&self, file: &FileOpen) {
        if let (Some(keeper), Some(kept)) = (&self.keeper, file.kept.get()) {
            keeper.forget(kept.handle.persistent);
        }
    }

    /// Brings what was noted to the store, if anything was. May wait.
    pub(crate) fn commit_closed(&self) {
        if let Some(keeper) = self.keeper.as_ref().filter(|keeper| !keeper.pending.lock().is_empty()) {
            keeper.commit();
        }
    }
}

/// Brings the open's state to the store before its client hears of it. False when it could not be: then the open is a
/// persistent one no longer.
pub(crate) async fn save(conn: &Inner, file: &Arc<FileOpen>) -> bool {
    if !file.is_persistent() {
        return false;
    }
    let (server, kept) = (Arc::clone(&conn.server), Arc::clone(file));
    let saved = conn.offload(move || keep(&server, &kept)).await.unwrap_or(false);
    if !saved {
        file.durability.lock().persistent = false;
    }
    saved
}

/// The same for a change that need not be there before anything is answered.
pub(crate) fn save_soon(conn: &Inner, open: &Arc<Open>) {
    if !open.file().is_ok_and(FileOpen::is_persistent) {
        return;
    }
    let (server, open) = (Arc::clone(&conn.server), Arc::clone(open));
    conn.shard.executor.run(Box::new(move || {
        if let Object::File(file) = &open.object {
            keep(&server, file);
        }
    }));
}

fn keep(server: &Server, file: &FileOpen) -> bool {
    server.keeper.as_ref().is_some_and(|keeper| {
        keeper.note(file, server);
        keeper.commit()
    })
}

/// How many persistent opens without a connection each file has.
#[derive(Debug, Default)]
pub struct LostFiles {
    any: AtomicUsize,
    counts: Mutex<HashMap<FileId, usize>>,
}

/// One of them; dropping it takes it out.
pub struct Lost {
    files: Arc<LostFiles>,
    file: FileId,
}

impl LostFiles {
    /// Counts one in.
    pub fn add(self: &Arc<Self>, file: FileId) -> Lost {
        self.any.fetch_add(1, Relaxed);
        *self.counts.lock().entry(file).or_default() += 1;
        Lost { files: Arc::clone(self), file }
    }

    /// Whether the file has any. One load while no file has.
    pub fn has(&self, file: FileId) -> bool {
        self.any.load(Relaxed) > 0 && self.counts.lock().contains_key(&file)
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        let mut counts = self.files.counts.lock();
        if let Some(count) = counts.get_mut(&self.file) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.file);
            }
        }
        self.files.any.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_lost_as_long_as_one_open_of_it_is() {
        let files = Arc::new(LostFiles::default());
        let (one, other) = (FileId { dev: 1, ino: 1, generation: 1 }, FileId { dev: 1, ino: 2, generation: 1 });
        let (first, second) = (files.add(one), files.add(one));
        assert!(files.has(one) && !files.has(other));
        drop(first);
        assert!(files.has(one));
        drop(second);
        assert!(!files.has(one));
        assert_eq!(files.any.load(Relaxed), 0);
    }
}
