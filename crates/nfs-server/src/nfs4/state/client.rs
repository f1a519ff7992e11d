//! One client, as the server knows it: who it is, when it was last heard of, what it holds. `registry` makes and finds
//! them; the operations hang opens, locks, delegations and sessions on them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use nfs_wire::nfs4::{ClientId, CreateSessionOk, NfsStat4, SessionId, Verifier};
use parking_lot::Mutex;
use vfs::FileId;

use super::callback::Channel;
use super::deleg::Delegation;
use super::ids::{ClientNumber, StateKey};
use super::lock::LockOwner;
use super::open::OpenOwner;
use crate::config::UserId;

/// Opens, locks and delegations of one client.
const MOST_STATES: usize = 1 << 17;
/// Open owners and lock owners of one client.
const MOST_OWNERS: usize = 1 << 14;

/// As whom a client came.
pub(crate) type Principal = Option<UserId>;

/// Whether a client is one of a 4.0 or of a later version: their ids are apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Family {
    /// SETCLIENTID.
    Plain,
    /// EXCHANGE_ID.
    Sessions,
}

/// How far a client has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has not shown that it has its id.
    Unconfirmed,
    /// It has.
    Confirmed,
    /// All it held is lost.
    Expired,
}

/// One client.
pub(crate) struct Client {
    pub number: ClientNumber,
    pub id: ClientId,
    pub family: Family,
    /// What it calls itself.
    pub name: Box<[u8]>,
    /// Changes when it restarts.
    pub verifier: Verifier,
    pub principal: Principal,
    standing: AtomicU8,
    renewed_ms: AtomicU64,
    /// It held something before the server restarted.
    pub may_reclaim: AtomicBool,
    /// It has begun to reclaim that.
    pub reclaiming: AtomicBool,
    /// 4.1: it has said that it reclaims nothing more.
    pub reclaimed: AtomicBool,
    /// The store knows that it holds something.
    pub kept: AtomicBool,
    /// Since when it was seen to hold nothing; 0 when it held something.
    idle_since_ms: AtomicU64,
    /// How long it must have held nothing before the store forgets it.
    pub patience_ms: AtomicU64,
    /// The store has forgotten it before.
    pub forgotten: AtomicBool,
    /// Delegations were taken from it that it has not been told of.
    pub revoked: AtomicU32,
    pub holdings: Mutex<Holdings>,
    /// 4.1: CREATE_SESSION's one slot.
    pub creating: Mutex<Creating>,
    /// How it is called back.
    pub channel: Channel,
    next_index: AtomicU32,
}

/// What a client holds.
#[derive(Default)]
pub(crate) struct Holdings {
    pub open_owners: HashMap<Box<[u8]>, Arc<OpenOwner>>,
    pub lock_owners: HashMap<Box<[u8]>, Arc<LockOwner>>,
    pub delegations: HashMap<FileId, Arc<Delegation>>,
    pub sessions: Vec<SessionId>,
    /// Opens, sets of locks and delegations.
    pub states: usize,
    /// Expired: nothing is added any more.
    pub closed: bool,
}

/// The sequence of CREATE_SESSION (RFC 8881 18.36.4).
#[derive(Debug, Default)]
pub(crate) struct Creating {
    /// The last one's sequence id.
    pub last: u32,
    /// What was answered to it.
    pub answer: Option<CreateSessionOk>,
}

/// Who a client is.
pub(crate) struct Who<'a> {
    pub family: Family,
    pub name: &'a [u8],
    pub verifier: Verifier,
    pub principal: Principal,
}

impl Client {
    /// A client that has just come, unconfirmed.
    pub fn new(number: ClientNumber, id: ClientId, who: &Who<'_>, now_ms: u64) -> Self {
        Self {
            number,
            id,
            family: who.family,
            name: who.name.into(),
            verifier: who.verifier,
            principal: who.principal,
            standing: AtomicU8::new(0),
            renewed_ms: AtomicU64::new(now_ms),
            may_reclaim: AtomicBool::new(false),
            reclaiming: AtomicBool::new(false),
            reclaimed: AtomicBool::new(false),
            kept: AtomicBool::new(false),
            idle_since_ms: AtomicU64::new(0),
            patience_ms: AtomicU64::new(0),
            forgotten: AtomicBool::new(false),
            revoked: AtomicU32::new(0),
            holdings: Mutex::default(),
            creating: Mutex::default(),
            channel: Channel::default(),
            next_index: AtomicU32::new(1),
        }
    }

    /// How far it has come.
    pub fn standing(&self) -> Standing {
        match self.standing.load(Relaxed) {
            0 => Standing::Unconfirmed,
            1 => Standing::Confirmed,
            _ => Standing::Expired,
        }
    }

    pub(super) fn set_standing(&self, standing: Standing) {
        self.standing.store(standing as u8, Relaxed);
    }

    /// It has been heard of.
    pub fn renew(&self, now_ms: u64) {
        self.renewed_ms.store(now_ms, Relaxed);
    }

    /// How long it has not been heard of.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.renewed_ms.load(Relaxed))
    }

    /// The name of one more state.
    pub fn next_key(&self) -> StateKey {
        StateKey { client: self.number, index: self.next_index.fetch_add(1, Relaxed) }
    }

    /// Whether it holds any state.
    pub fn holds_any(&self) -> bool {
        self.holdings.lock().states > 0
    }

    /// Whether it was seen to hold nothing for so long; to be asked every now and then.
    pub fn has_been_idle(&self, now_ms: u64, for_ms: u64) -> bool {
        if self.holds_any() {
            self.idle_since_ms.store(0, Relaxed);
            return false;
        }
        // 0 is not a time here.
        let now_ms = now_ms.max(1);
        let before = self.idle_since_ms.compare_exchange(0, now_ms, Relaxed, Relaxed);
        let since_ms = before.map_or_else(|since_ms| since_ms, |_| now_ms);
        now_ms.saturating_sub(since_ms) >= for_ms
    }

    /// Whether its name cannot be given to somebody else.
    pub fn is_in_use(&self) -> bool {
        let holdings = self.holdings.lock();
        holdings.states > 0 || !holdings.sessions.is_empty()
    }
}

impl Holdings {
    /// Room for one more state: `failed` when there is none, or when the client has just expired.
    pub fn admit_state(&mut self, failed: NfsStat4) -> Result<(), NfsStat4> {
        if self.closed {
            return Err(NfsStat4::EXPIRED);
        }
        if self.states >= MOST_STATES {
            return Err(failed);
        }
        self.states += 1;
        Ok(())
    }

    /// Room for one more owner.
    pub fn admit_owner(&self, failed: NfsStat4) -> Result<(), NfsStat4> {
        let owners = self.open_owners.len() + self.lock_owners.len();
        match () {
            () if self.closed => Err(NfsStat4::EXPIRED),
            () if owners >= MOST_OWNERS => Err(failed),
            () => Ok(()),
        }
    }

    /// One state less.
    pub fn forget_state(&mut self) {
        self.states = self.states.saturating_sub(1);
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("number", &self.number)
            .field("name", &String::from_utf8_lossy(&self.name))
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}
