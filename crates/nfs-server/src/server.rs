//! What all connections share: exports, the key, open files, the table of claims, who has mounted what.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use coherence::Table;
use parking_lot::Mutex;
use vfs::VfsResult;

use crate::ahead::Answers;
use crate::cache::Cache;
use crate::config::{Config, Export, Sec};
use crate::gss::Gss;
use crate::handle::{ExportId, HandleKey};
use crate::nfs4::owners;
use crate::nfs4::state::State;
use crate::nlm::grants::Waiters;
use crate::nlm::locks::Nlm;
use crate::portmap::Listening;
use crate::replay::Replays;
use crate::{Env, groups};

/// Mounts remembered for DUMP; nothing depends on them.
const MAX_MOUNTS: usize = 1024;

/// The part of a server that outlives its connections.
pub struct Server {
    pub(crate) env: Env,
    pub(crate) key: HandleKey,
    pub(crate) settings: ArcSwap<Settings>,
    pub(crate) table: Table,
    pub(crate) cache: Cache,
    /// Replies to calls that must not be done twice.
    pub(crate) replays: Replays,
    /// What hosts were answered while parts of listings are ready for them.
    pub(crate) answers: Arc<Answers>,
    /// Users' groups that were looked up.
    pub(crate) groups: groups::Known,
    /// Owners' names that were looked up.
    pub(crate) names: owners::Known,
    /// Who has shown who it is, with Kerberos.
    pub(crate) gss: Gss,
    /// Who holds what over NFSv4.
    pub(crate) state: Arc<State>,
    /// Who has locked what over NFSv3.
    pub(crate) nlm: Arc<Nlm>,
    pub(crate) mounts: Mutex<VecDeque<(IpAddr, Vec<u8>)>>,
    listening: OnceLock<Listening>,
    verifier: AtomicU64,
}

/// A configuration as it is in use.
pub(crate) struct Settings {
    pub config: Config,
    pub exports: Vec<Arc<Exported>>,
    /// When it was taken into use, in seconds since 1970.
    pub since_secs: u32,
}

/// An export with the number that is in its handles.
pub(crate) struct Exported {
    pub id: ExportId,
    pub export: Export,
    root_dev: u64,
    /// A bit for each way in.
    ways: u8,
}

impl std::ops::Deref for Exported {
    type Target = Export;

    fn deref(&self) -> &Export {
        &self.export
    }
}

impl Exported {
    /// Whether calls that come so are taken.
    pub fn takes(&self, sec: Sec) -> bool {
        self.ways & 1 << sec as u8 != 0
    }

    /// The number of a file system in it: the export's own, unless another one is mounted below.
    pub fn fsid(&self, dev: u64) -> u64 {
        let own = u64::from_be_bytes(self.id);
        if dev == self.root_dev { own } else { own ^ dev.wrapping_mul(0x9e37_79b9_7f4a_7c15) }
    }
}

impl Settings {
    fn new(mut config: Config, key: &HandleKey, since_secs: u32) -> Self {
        let exported = |export: Export| {
            let root_dev = export.backend.root().id().dev;
            let ways = export.options.sec.iter().fold(0, |ways, sec| ways | 1 << *sec as u8);
            Arc::new(Exported { id: key.export_id(&export.name), root_dev, ways, export })
        };
        let exports = std::mem::take(&mut config.exports).into_iter().map(exported).collect();
        Self { config, exports, since_secs }
    }
}

impl Server {
    /// A server with nothing connected. `table` is the one other protocols' servers on the same backends use, and the
    /// clock counts from where theirs does.
    pub fn new(config: Config, key: HandleKey, table: Table, env: Env) -> Arc<Self> {
        let mut verifier = [0; 8];
        (env.random)(&mut verifier);
        let state = State::new(&env, &table, config.lease_secs);
        let nlm = Nlm::new(&env, &table, &state);
        state.lock_waiters(Arc::new(Waiters::new(&nlm)));
        Arc::new(Self {
            settings: ArcSwap::from_pointee(Settings::new(config, &key, env.clock.unix_secs())),
            cache: Cache::default(),
            replays: Replays::default(),
            answers: Arc::default(),
            groups: groups::Known::default(),
            names: owners::Known::default(),
            gss: Gss::new(&env),
            state,
            nlm,
            mounts: Mutex::default(),
            listening: OnceLock::new(),
            verifier: AtomicU64::new(u64::from_be_bytes(verifier)),
            env,
            key,
            table,
        })
    }

    /// Says where the server listens, for those who ask its portmapper. Only the first call counts; before it, and
    /// without it, everything is on the port that was asked.
    pub fn listens(&self, listening: Listening) {
        let _ = self.listening.set(listening);
    }

    pub(crate) fn listening(&self) -> Listening {
        self.listening.get().copied().unwrap_or_default()
    }

    /// Replaces the settings. Handles of exports that are still there stay good.
    pub fn reload(&self, config: Config) {
        self.settings.store(Arc::new(Settings::new(config, &self.key, self.env.clock.unix_secs())));
        self.cache.clear();
    }

    /// Closes files that nobody has used for a while, lets NFSv4's leases run and calls
    /// back those who wait for locks; to be called every few seconds. May wait.
    pub fn sweep(&self) {
        self.cache.sweep(self.env.clock.monotonic_ms());
        self.state.sweep();
        self.nlm.sweep();
    }

    /// Objects kept open between calls.
    pub fn open_count(&self) -> usize {
        self.cache.len()
    }

    /// Whether any export lets the host in, so that it is worth listening to.
    pub(crate) fn knows(&self, peer: SocketAddr) -> bool {
        self.settings.load().exports.iter().any(|export| export.is_shown_to(peer.ip()))
    }

    pub(crate) fn export(&self, id: &ExportId) -> Option<Arc<Exported>> {
        self.settings.load().exports.iter().find(|export| export.id == *id).cloned()
    }

    /// The verifier of WRITE and COMMIT (RFC 1813 3.3.7): another one after each start, and after a failure to write
    /// what was acknowledged.
    pub(crate) fn write_verifier(&self) -> [u8; 8] {
        self.verifier.load(Relaxed).to_be_bytes()
    }

    /// Looks whether written data are safe; if they may be lost, clients must send them again.
    pub(crate) fn synced(&self, result: VfsResult<()>) -> VfsResult<()> {
        if result.is_err() {
            self.verifier.fetch_add(1, Relaxed);
        }
        result
    }

    pub(crate) fn now(&self) -> coherence::Instant {
        coherence::Instant(self.env.clock.monotonic_ms())
    }

    pub(crate) fn remember_mount(&self, host: IpAddr, path: &[u8]) {
        let mut mounts = self.mounts.lock();
        mounts.retain(|(h, p)| !(*h == host && p == path));
        if mounts.len() >= MAX_MOUNTS {
            mounts.pop_front();
        }
        mounts.push_back((host, path.to_vec()));
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("open", &self.open_count()).finish_non_exhaustive()
    }
}
