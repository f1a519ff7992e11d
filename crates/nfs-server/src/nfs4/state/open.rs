//! Opens and who has them: an open owner has at most one open on a file, however often it opens it (RFC 7530 9.9,
//! RFC 8881 9.7). The operations change them; that other opens let it be is `coherence`'s to say.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use coherence::{AccessKinds, OpenClaim};
use parking_lot::Mutex;
use vfs::{Access, FileId, Node};

use super::client::Client;
use super::ids::{StateKey, next_seqid};
use super::lock::LockState;
use super::seq::Sequence;
use super::share::{Mode, Modes};
use crate::files::Target;

/// Somebody of a client who opens files.
pub(crate) struct OpenOwner {
    pub client: Arc<Client>,
    pub name: Box<[u8]>,
    /// 4.0: its sequence. Held while a request of it is being done.
    pub turn: Mutex<OwnerTurn>,
    pub opens: Mutex<HashMap<FileId, Arc<Open>>>,
    /// OPEN_CONFIRM has come, or was never needed.
    pub confirmed: AtomicBool,
    /// How many they are, for whoever must not wait for the lock.
    pub open_count: AtomicU32,
    /// When it was used last.
    pub used_ms: AtomicU64,
}

/// An open owner's sequence (4.0).
pub(crate) struct OwnerTurn {
    pub sequence: Sequence<Target>,
    /// The open that was closed last: its CLOSE may be sent again.
    pub closed: Option<StateKey>,
}

/// One open.
pub(crate) struct Open {
    pub key: StateKey,
    pub owner: Arc<OpenOwner>,
    pub target: Target,
    pub file: FileId,
    pub claim: Arc<OpenClaim>,
    nodes: Mutex<Vec<(Access, Arc<dyn Node>)>>,
    modes: Mutex<Modes>,
    seqid: AtomicU32,
    closed: AtomicBool,
    /// The locks that were taken through it.
    pub locks: Mutex<Vec<Arc<LockState>>>,
}

impl OpenOwner {
    /// One whose first request has this seqid; in 4.1 they have none, and are never to be confirmed.
    pub fn new(client: &Arc<Client>, name: &[u8], first: u32, confirmed: bool) -> Self {
        Self {
            client: Arc::clone(client),
            name: name.into(),
            turn: Mutex::new(OwnerTurn { sequence: Sequence::starting_at(first), closed: None }),
            opens: Mutex::default(),
            confirmed: AtomicBool::new(confirmed),
            open_count: AtomicU32::new(0),
            used_ms: AtomicU64::new(0),
        }
    }
}

impl Open {
    /// An open of this mode. Its first generation is 1.
    pub fn new(key: StateKey, owner: &Arc<OpenOwner>, target: Target, claim: OpenClaim, mode: Mode) -> Self {
        Self {
            key,
            owner: Arc::clone(owner),
            target,
            file: claim.file(),
            claim: Arc::new(claim),
            nodes: Mutex::default(),
            modes: Mutex::new(Modes::default().with(mode)),
            seqid: AtomicU32::new(1),
            closed: AtomicBool::new(false),
            locks: Mutex::default(),
        }
    }

    /// What it is for in all; `None` when it is closed.
    pub fn mode(&self) -> Option<Mode> {
        if self.is_closed() { None } else { self.modes.lock().union() }
    }

    /// What it was opened for, one by one.
    pub fn modes(&self) -> Modes {
        *self.modes.lock()
    }

    /// Notes other modes; the claim has been changed.
    pub fn set_modes(&self, modes: Modes) {
        *self.modes.lock() = modes;
    }

    /// Keeps the file as it was opened, so that it can be read and written whatever its permissions become.
    pub fn keep_node(&self, access: Access, node: Arc<dyn Node>) {
        let mut nodes = self.nodes.lock();
        if !nodes.iter().any(|(known, _)| known.contains(access)) {
            nodes.retain(|(known, _)| !access.contains(*known));
            nodes.push((access, node));
        }
    }

    /// The file as it was opened for this.
    pub fn node(&self, want: AccessKinds) -> Option<Arc<dyn Node>> {
        let want = Access::from_bits_truncate(want.bits());
        self.nodes.lock().iter().find(|(access, _)| access.contains(want)).map(|(_, node)| Arc::clone(node))
    }

    /// Whether its owner need not be confirmed (any more).
    pub fn is_confirmed(&self) -> bool {
        self.owner.confirmed.load(Relaxed)
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

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Closes it; true the first time.
    pub fn set_closed(&self) -> bool {
        !self.closed.swap(true, Relaxed)
    }
}
