//! Opens and who has them: an open owner has at most one open on a file, however often it opens it (RFC 7530 9.9,
//! RFC 8881 9.7). The operations change them; that other opens let it be is `coherence`'s to say.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use coherence::{OpenClaim, Owner};
use parking_lot::Mutex;
use vfs::FileId;

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
    /// When it was used last.
    pub used_ms: AtomicU64,
}

/// An open owner's sequence (4.0).
pub(crate) struct OwnerTurn {
    pub sequence: Sequence<Target>,
    /// OPEN_CONFIRM has come, or was never needed.
    pub confirmed: bool,
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
    /// The number its I/O meets byte ranges by where no lock owner is named.
    pub number: Owner,
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
            turn: Mutex::new(OwnerTurn { sequence: Sequence::starting_at(first), confirmed, closed: None }),
            opens: Mutex::default(),
            used_ms: AtomicU64::new(0),
        }
    }
}

impl Open {
    /// An open of this mode. Its first generation is 1.
    pub fn new(
        key: StateKey,
        owner: &Arc<OpenOwner>,
        target: Target,
        claim: OpenClaim,
        mode: Mode,
        number: Owner,
    ) -> Self {
        Self {
            key,
            owner: Arc::clone(owner),
            target,
            file: claim.file(),
            claim: Arc::new(claim),
            number,
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
