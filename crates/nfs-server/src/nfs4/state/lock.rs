//! Lock owners, and what each has locked in a file (RFC 7530 9.1.5 and 9.4, RFC 8881 9.1 to 9.3). The ranges themselves
//! are in `coherence`, by the owner's number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use coherence::Owner;
use parking_lot::Mutex;
use vfs::FileId;

use super::client::Client;
use super::ids::{StateKey, next_seqid};
use super::open::Open;
use super::seq::Sequence;

/// Somebody of a client who locks ranges.
pub(crate) struct LockOwner {
    pub client: Arc<Client>,
    pub name: Box<[u8]>,
    /// Unlike every other owner's of the server.
    pub number: Owner,
    /// 4.0: its sequence. Held while a request of it is being done.
    pub sequence: Mutex<Sequence<()>>,
    pub locks: Mutex<HashMap<FileId, Arc<LockState>>>,
    /// It is not the one of its name any more. Changes under the lock of `locks` only.
    pub gone: AtomicBool,
}

/// What a lock owner has locked, or had, in one file.
pub(crate) struct LockState {
    pub key: StateKey,
    pub owner: Arc<LockOwner>,
    pub open: Weak<Open>,
    pub file: FileId,
    seqid: AtomicU32,
}

impl LockOwner {
    /// One whose first request has this seqid (4.0).
    pub fn new(client: &Arc<Client>, name: &[u8], number: Owner, first: u32) -> Self {
        Self {
            client: Arc::clone(client),
            name: name.into(),
            number,
            sequence: Mutex::new(Sequence::starting_at(first)),
            locks: Mutex::default(),
            gone: AtomicBool::new(false),
        }
    }
}

impl LockState {
    /// Locks through an open. Nothing was given out of it: its first generation will be 1.
    pub fn new(key: StateKey, owner: &Arc<LockOwner>, open: &Arc<Open>) -> Self {
        Self { key, owner: Arc::clone(owner), open: Arc::downgrade(open), file: open.file, seqid: AtomicU32::new(0) }
    }

    /// Its generation.
    pub fn seqid(&self) -> u32 {
        self.seqid.load(Relaxed)
    }

    /// One generation further.
    pub fn advance(&self) -> u32 {
        let next = next_seqid(self.seqid());
        self.seqid.store(next, Relaxed);
        next
    }
}
