//! What all connections share: settings, sessions, the table of claims, the users.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use auth::UserLookup;
use coherence::{Limits, Table};
use parking_lot::Mutex;
use vfs::{Cred, Path};

use crate::durable::Durables;
use crate::handlers::close;
use crate::open::{Object, Open};
use crate::persistent::Keeper;
use crate::places::Places;
use crate::router::Router;
use crate::session::Session;
use crate::{Config, Env, Share};

/// Finds the file system's identity of a user who has logged in; `None` when the system has no such user.
pub type IdentityLookup = Arc<dyn Fn(&str) -> Option<Cred> + Send + Sync>;

/// The part of a server that outlives its connections.
pub struct Server {
    pub(crate) env: Env,
    pub(crate) guid: [u8; 16],
    pub(crate) config: ArcSwap<Config>,
    pub(crate) users: ArcSwap<Arc<dyn UserLookup + Send + Sync>>,
    pub(crate) identities: IdentityLookup,
    pub(crate) table: Table,
    pub(crate) router: Arc<Router>,
    pub(crate) durables: Arc<Durables>,
    /// Where persistent handles are kept, if anywhere.
    pub(crate) keeper: Option<Keeper>,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    pub(crate) next_persistent: AtomicU64,
}

impl Server {
    /// A server with nothing connected.
    pub fn new(
        config: Config,
        users: Arc<dyn UserLookup + Send + Sync>,
        identities: IdentityLookup,
        env: Env,
    ) -> Arc<Self> {
        Self::build(config, users, identities, env, None)
    }

    pub(crate) fn build(
        config: Config,
        users: Arc<dyn UserLookup + Send + Sync>,
        identities: IdentityLookup,
        env: Env,
        keeper: Option<Keeper>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|server| {
            let router = Arc::new(Router::new(server.clone()));
            Self {
                guid: env.random_bytes(),
                config: ArcSwap::from_pointee(config),
                users: ArcSwap::from_pointee(users),
                identities,
                table: Table::with_sink(Limits::default(), Arc::clone(&router) as _),
                router,
                durables: Arc::default(),
                keeper,
                sessions: Mutex::default(),
                next_persistent: AtomicU64::new(1),
                env,
            }
        })
    }

    /// Now, as the table of claims counts time.
    pub(crate) fn now(&self) -> coherence::Instant {
        coherence::Instant(self.env.clock.monotonic_ms())
    }

    /// When [`Server::tick`] has something to do, in the clock's monotonic milliseconds.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let breaks = self.table.next_deadline().map(|at| at.0);
        breaks.into_iter().chain(self.durables.next_deadline_ms()).min()
    }

    /// Does what is due: takes away grants whose holders did not answer in time (MS-SMB2 3.3.6.1) and closes opens
    /// whose clients did not come back (3.3.6.2, 3.3.6.4). Anybody may call it, at any time.
    pub fn tick(&self) {
        let now = self.now();
        self.table.expire(now);
        for open in self.durables.overdue(now.0) {
            self.close_disconnected(open);
        }
        self.commit_closed();
    }

    /// Replaces the settings. Connections and tree connects that exist keep what they were given.
    pub fn reload(&self, mut config: Config, users: Arc<dyn UserLookup + Send + Sync>) {
        let before = self.config.load();
        for (name, share) in &mut config.shares {
            // Who watches goes on being told of what others change.
            if let (Some(old), Some(new)) = (before.shares.get(name), Arc::get_mut(share))
                && Arc::ptr_eq(&old.backend, &new.backend)
            {
                new.watchers = Arc::clone(&old.watchers);
                new.places = Arc::clone(&old.places);
            }
        }
        self.config.store(Arc::new(config));
        self.users.store(Arc::new(users));
    }

    /// Sessions logged in now.
    pub fn session_count(&self) -> usize {
        self.sessions.lock().len()
    }

    /// Files open now, by any session or waiting for a client to come back.
    pub fn open_count(&self) -> usize {
        let sessions: usize = self.sessions.lock().values().map(|s| s.opens.lock().len()).sum();
        sessions + self.durables.len()
    }

    /// Whether anything below the directory `path` of a share is open. May wait.
    pub(crate) fn has_open_below(&self, share: &Share, path: &Path) -> bool {
        let is_below = |open: &Open| {
            let Object::File(file) = &open.object else { return false };
            let connected = !file.claim.is_closed() && !self.durables.is_lost(open.handle.persistent);
            let rest = |now: &Path| now.as_bytes().strip_prefix(path.as_bytes()).is_some_and(|r| r.starts_with(b"/"));
            connected && file.path().is_ok_and(|now| rest(&now))
        };
        self.on_same_backend(share).iter().any(|places| places.any_below(path, is_below))
    }

    /// What was called `from` in a share is called `to` now.
    pub(crate) fn has_moved(&self, share: &Share, from: &Path, to: &Path) {
        self.on_same_backend(share).iter().for_each(|places| places.moved(from, to));
    }

    /// The opens of the share, and of others that show the same.
    fn on_same_backend(&self, share: &Share) -> Vec<Arc<Places>> {
        let config = self.config.load();
        let same = config.shares.values().filter(|other| Arc::ptr_eq(&other.backend, &share.backend));
        let mut places = vec![Arc::clone(&share.places)];
        places.extend(same.map(|other| &other.places).filter(|p| !Arc::ptr_eq(p, &share.places)).cloned());
        places
    }

    /// The share of that name, as it is configured now.
    pub fn share(&self, name: &str) -> Option<Arc<Share>> {
        self.config.load().shares.get(&name.to_lowercase()).cloned()
    }

    /// The table of claims, to be shared with servers of other protocols on the same backends.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What all sessions hold on files: opens, locks, grants. Looks at every file in use.
    pub fn claims(&self) -> coherence::Stats {
        self.table.stats()
    }

    pub(crate) fn next_persistent_id(&self) -> u64 {
        self.next_persistent.fetch_add(1, Relaxed)
    }

    /// A session id nobody uses: hard to guess, never 0. It fits 32 bits, as Samba's do: there are clients that keep no
    /// more, and what protects a session are its keys.
    pub(crate) fn new_session_id(&self) -> u64 {
        loop {
            let id = u64::from_le_bytes(self.env.random_bytes()) & 0x7fff_ffff;
            if id != 0 && !self.sessions.lock().contains_key(&id) {
                return id;
            }
        }
    }

    pub(crate) fn session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions.lock().get(&id).cloned()
    }

    pub(crate) fn all_sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().values().cloned().collect()
    }

    pub(crate) fn add_session(&self, session: Arc<Session>) {
        self.sessions.lock().insert(session.id, session);
    }

    /// Closes connected opens that `which` names, whatever session they are of (3.3.4.17).
    pub(crate) fn close_opens(&self, executor: &Arc<dyn vfs::Executor>, which: impl Fn(&Open) -> bool) {
        let sessions = self.all_sessions();
        for session in sessions {
            for open in session.opens.lock().remove_where(|open| which(open)) {
                if let Some(owed) = close::release(self, &open, executor) {
                    executor.run(Box::new(move || {
                        if let Err(error) = owed.run() {
                            tracing::debug!(%error, "delete on close failed");
                        }
                    }));
                }
            }
        }
    }

    pub(crate) fn remove_session(&self, id: u64) -> Option<Arc<Session>> {
        self.sessions.lock().remove(&id)
    }
}
