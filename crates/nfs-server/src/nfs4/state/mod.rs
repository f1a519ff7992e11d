//! Who holds what over NFSv4: clients, sessions, opens, locks, delegations. The operations ask it and change it, `sweep`
//! lets time pass, the table of claims tells it what others need. It knows no message but for the types in them, and
//! nothing here waits but where a client begins to hold something (`grace`).
//!
//! Locks are taken in this order: an owner's turn, an owner's opens, a client's holdings, the rest; the table of claims
//! is never called with a lock held that its effects need (`registry`, `sessions`, holdings).

pub(crate) mod callback;
pub(crate) mod client;
pub(crate) mod deleg;
pub(crate) mod end;
pub(crate) mod find;
pub(crate) mod grace;
mod held;
pub(crate) mod ids;
pub(crate) mod inquiry;
pub(crate) mod io;
pub(crate) mod line;
pub(crate) mod lock;
pub(crate) mod open;
pub(crate) mod recall;
pub(crate) mod registry;
pub(crate) mod seq;
pub(crate) mod session;
pub(crate) mod share;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use coherence::{EffectSink, Owner, Table};
use nfs_wire::nfs4::{NfsStat4, SessionId};
use parking_lot::{Mutex, RwLock};

use super::compound::SessionCx;
use crate::Env;
use client::Client;
use grace::Grace;
pub(crate) use held::Held;
use held::HeldTable;
use ids::Boot;
use inquiry::Writers;
pub(crate) use io::IoRight;
use lock::LockOwner;
use recall::{Cooling, Sink};
use registry::Registry;
use session::Session;

/// The state of all clients.
pub(crate) struct State {
    pub boot: Boot,
    /// How long a client may be silent.
    pub lease_ms: u64,
    pub grace: Grace,
    pub(super) held: HeldTable,
    pub(super) registry: Mutex<Registry>,
    pub(super) sessions: RwLock<HashMap<SessionId, Arc<Session>>>,
    /// Slots of all sessions.
    pub(super) slots: AtomicUsize,
    lock_owners: Mutex<HashMap<u64, Weak<LockOwner>>>,
    cooling: Cooling,
    waiters: OnceLock<Arc<dyn EffectSink>>,
    writers: Writers,
    table: Table,
    env: Env,
    last_number: AtomicU64,
    last_session: AtomicU32,
    /// CB_RECALLs sent.
    recalls: AtomicU64,
}

impl State {
    /// Nobody holds anything yet; who did before the server stopped, the store tells.
    pub fn new(env: &Env, table: &Table, lease_secs: u32) -> Arc<Self> {
        let mut chance = [0; 4];
        (env.random)(&mut chance);
        let boot = Boot::new(u32::from_be_bytes(chance));
        let lease_ms = u64::from(lease_secs.max(1)) * 1000;
        let state = Arc::new(Self {
            boot,
            lease_ms,
            grace: Grace::new(env.store.clone(), env.clock.monotonic_ms(), lease_ms),
            held: HeldTable::default(),
            registry: Mutex::new(Registry::new(boot)),
            sessions: RwLock::default(),
            slots: AtomicUsize::new(0),
            lock_owners: Mutex::default(),
            cooling: Cooling::default(),
            waiters: OnceLock::new(),
            writers: Writers::default(),
            table: table.clone(),
            env: env.clone(),
            last_number: AtomicU64::new(0),
            last_session: AtomicU32::new(0),
            recalls: AtomicU64::new(0),
        });
        let sink = Arc::new(Sink::new(&state));
        table.serve_delegations(Arc::clone(&sink) as _, sink as _, lease_ms);
        state
    }

    /// Now.
    pub fn now_ms(&self) -> u64 {
        self.env.clock.monotonic_ms()
    }

    /// All clients.
    pub fn clients(&self) -> Vec<Arc<Client>> {
        self.registry.lock().all().cloned().collect()
    }

    /// CB_RECALLs sent.
    pub fn recalls(&self) -> u64 {
        self.recalls.load(Relaxed)
    }

    /// Eight bytes nobody can guess.
    pub fn chance(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        (self.env.random)(&mut bytes);
        // No two are the same, whatever chance says.
        let number = self.last_number.fetch_add(1, Relaxed).to_be_bytes();
        let mut out = bytes;
        out.iter_mut().zip(number).for_each(|(to, from)| *to ^= from);
        out
    }

    /// A compound of a session is done with `status`; `body` is its reply from there on.
    pub fn finish(&self, session: &SessionCx, _status: NfsStat4, body: &[u8]) {
        let Some(found) = self.sessions.read().get(&session.session).cloned() else { return };
        let kept = session.cache_this && body.len() <= session.max_cached_bytes;
        found.done(session.slot, session.sequence, kept.then(|| body.into()));
    }

    /// An id for one more session of a client.
    pub fn session_id(&self, client: &Client) -> SessionId {
        let mut id = [0; 16];
        let number = self.last_session.fetch_add(1, Relaxed);
        let parts = client.id.to_be_bytes().into_iter().chain(number.to_be_bytes());
        let chance = self.chance().into_iter().skip(4);
        id.iter_mut().zip(parts.chain(chance)).for_each(|(to, from)| *to = from);
        id
    }

    /// Adds a session: DELAY when its client is just being ended.
    pub fn add_session(&self, session: &Arc<Session>) -> Result<(), NfsStat4> {
        let mut holdings = session.client.holdings.lock();
        if holdings.closed {
            return Err(NfsStat4::DELAY);
        }
        holdings.sessions.push(session.id);
        drop(holdings);
        self.slots.fetch_add(session.slots(), Relaxed);
        self.sessions.write().insert(session.id, Arc::clone(session));
        Ok(())
    }

    /// A number for an owner of locks that NFSv4 knows nothing of.
    pub fn next_owner(&self) -> Owner {
        Owner(self.last_number.fetch_add(1, Relaxed) + 1)
    }

    /// Where it is told what became of waiting for locks: NFSv4's clients ask again instead.
    pub fn lock_waiters(&self, sink: Arc<dyn EffectSink>) {
        let _ = self.waiters.set(sink);
    }

    /// A new lock owner of a client.
    fn lock_owner(&self, client: &Arc<Client>, name: &[u8], first: u32) -> Arc<LockOwner> {
        let number = self.last_number.fetch_add(1, Relaxed) + 1;
        let owner = Arc::new(LockOwner::new(client, name, Owner(number), first));
        self.lock_owners.lock().insert(number, Arc::downgrade(&owner));
        owner
    }

    /// The lock owner of this number.
    pub fn lock_owner_of(&self, number: Owner) -> Option<Arc<LockOwner>> {
        self.lock_owners.lock().get(&number.0)?.upgrade()
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("boot", &self.boot).finish_non_exhaustive()
    }
}
