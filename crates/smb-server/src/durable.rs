//! Opens that outlive their connection (MS-SMB2 3.3.7.1): which do, where they are kept until their client comes back,
//! and the CREATEs that can be told again by their guid. The server asks when connections end and time passes, CREATE
//! when a client reconnects.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use coherence::{AccessKinds, Caching, HolderKey, Identity, ShareKinds};
use futures_channel::oneshot;
use parking_lot::{Mutex, MutexGuard};
use vfs::{Executor, FileId};

use crate::handlers::close;
use crate::open::{FileOpen, Object, Open};
use crate::persistent::{Lost, LostFiles};
use crate::server::Server;

/// How long a durable open of version 1 waits for its client. The specification leaves it to the server (3.3.5.9.6);
/// Windows gives 16 minutes, which holds files for long; a client that comes back does so at once.
const V1_TIMEOUT_MS: u64 = 120_000;
/// What version 2 gets that asks for nothing in particular (3.3.5.9.10), and at most.
const V2_TIMEOUT_MS: u32 = 60_000;
const V2_MAX_TIMEOUT_MS: u32 = 300_000;

/// How an open was made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// By `DHnQ`.
    V1,
    /// By `DH2Q`.
    V2 {
        /// CreateGuid.
        create_guid: [u8; 16],
    },
}

/// What makes an open outlive its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Durability {
    /// It is durable as long as it may be cached.
    pub version: Option<Version>,
    /// It is resilient: it waits in any case.
    pub resilient: bool,
    /// It is persistent: it waits in any case, and survives the server (Open.IsPersistent).
    pub persistent: bool,
    /// How long it waits.
    pub timeout_ms: u64,
}

impl Durability {
    /// Durable by `DHnQ`.
    pub fn v1() -> Self {
        Self { version: Some(Version::V1), timeout_ms: V1_TIMEOUT_MS, ..Self::default() }
    }

    /// Durable by `DH2Q`.
    pub fn v2(create_guid: [u8; 16], timeout_ms: u32) -> Self {
        let timeout_ms = if timeout_ms == 0 { V2_TIMEOUT_MS } else { timeout_ms.min(V2_MAX_TIMEOUT_MS) };
        Self { version: Some(Version::V2 { create_guid }), timeout_ms: timeout_ms.into(), ..Self::default() }
    }

    /// Persistent, as it was granted before.
    pub fn persistent(create_guid: [u8; 16], timeout_ms: u64) -> Self {
        let timeout_ms = timeout_ms.min(V2_MAX_TIMEOUT_MS.into());
        Self { version: Some(Version::V2 { create_guid }), resilient: false, persistent: true, timeout_ms }
    }

    /// The CreateGuid, if it has one.
    pub fn create_guid(&self) -> Option<[u8; 16]> {
        match self.version {
            Some(Version::V2 { create_guid }) => Some(create_guid),
            _ => None,
        }
    }
}

/// An open whose connection is gone.
pub struct Disconnected {
    /// The open.
    pub open: Arc<Open>,
    /// Until when its client can come back.
    until_ms: u64,
    executor: Arc<dyn Executor>,
    /// Of a persistent one.
    _lost: Option<Lost>,
}

impl Disconnected {
    /// Until when its client can come back.
    pub fn until_ms(&self) -> u64 {
        self.until_ms
    }

    /// Whose it is (Open.DurableOwner): who opened it, whoever its session was logged in as since.
    pub fn owner(&self) -> &str {
        &self.open.tree.user.name
    }

    /// Its file.
    pub fn file(&self) -> Option<&Arc<FileOpen>> {
        match &self.open.object {
            Object::File(file) => Some(file),
            Object::Pipe(_) => None,
        }
    }
}

/// A client and its name for a CREATE.
type CreateName = ([u8; 16], [u8; 16]);

/// What is known of a CREATE with a guid.
pub enum Known {
    /// It is under way.
    Pending,
    /// It made this open.
    Open(Arc<Open>),
}

enum Creation {
    Pending,
    Done(Weak<Open>),
}

/// All opens without a connection, and all CREATEs with a guid.
#[derive(Default)]
pub struct Durables {
    disconnected: Mutex<HashMap<u64, Disconnected>>,
    creations: Mutex<HashMap<CreateName, Creation>>,
    /// Files whose last open was closed because somebody else needed them, and which may be deleted because of that.
    going: Mutex<HashMap<FileId, Vec<oneshot::Sender<()>>>>,
    lost_files: Arc<LostFiles>,
    turn: Mutex<()>,
}

impl Durables {
    /// Held while an open goes from here to a session: two requests that want the same one must not miss it in both.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// When the next client is late.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.disconnected.lock().values().map(|d| d.until_ms).min()
    }

    /// Opens without a connection.
    pub fn len(&self) -> usize {
        self.disconnected.lock().len()
    }

    /// Takes out the opens whose clients are late.
    pub fn overdue(&self, now_ms: u64) -> Vec<Disconnected> {
        self.disconnected.lock().extract_if(|_, d| d.until_ms <= now_ms).map(|(_, d)| d).collect()
    }

    /// Takes out the open `persistent` if `check` lets it go.
    pub fn take<E>(
        &self,
        persistent: u64,
        check: impl FnOnce(&Disconnected) -> Result<(), E>,
    ) -> Option<Result<Disconnected, E>> {
        let mut disconnected = self.disconnected.lock();
        match check(disconnected.get(&persistent)?) {
            Ok(()) => disconnected.remove(&persistent).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether the open `persistent` has no connection.
    pub fn is_lost(&self, persistent: u64) -> bool {
        self.disconnected.lock().contains_key(&persistent)
    }

    /// Takes out what `which` names.
    pub fn take_where(&self, which: impl Fn(&Disconnected) -> bool) -> Vec<Disconnected> {
        self.disconnected.lock().extract_if(|_, d| which(d)).map(|(_, d)| d).collect()
    }

    /// What is known of a CREATE; nothing, and then it is under way from now on, until the guard says what it made. Of one
    /// that is told again nothing is known either once its open was used: that makes another open, as Windows does.
    pub fn create(
        self: &Arc<Self>,
        client: [u8; 16],
        create_guid: [u8; 16],
        replayed: bool,
    ) -> Result<Creating, Known> {
        let name = (client, create_guid);
        let mut creations = self.creations.lock();
        match creations.get(&name) {
            Some(Creation::Pending) => return Err(Known::Pending),
            Some(Creation::Done(open)) => {
                let used = |open: &Open| !open.replayable.load(Relaxed);
                let open = open.upgrade().filter(|open| !(open.is_closed() || replayed && used(open)));
                if let Some(open) = open {
                    return Err(Known::Open(open));
                }
            }
            None => {}
        }
        creations.insert(name, Creation::Pending);
        Ok(Creating { durables: Arc::clone(self), name, made: None })
    }

    /// The open of that CREATE was made again by a reconnect.
    pub fn remade(&self, client: [u8; 16], create_guid: [u8; 16], open: &Arc<Open>) {
        self.creations.lock().insert((client, create_guid), Creation::Done(Arc::downgrade(open)));
    }

    /// Where the deletion of `file`, owed by an open that had no connection, is under way: resolves when it is over.
    pub fn gone(&self, file: FileId) -> Option<oneshot::Receiver<()>> {
        let (sender, receiver) = oneshot::channel();
        self.going.lock().get_mut(&file)?.push(sender);
        Some(receiver)
    }

    fn going(self: &Arc<Self>, file: FileId) -> Going {
        self.going.lock().entry(file).or_default();
        Going { durables: Arc::clone(self), file }
    }

    /// The open `persistent` of that CREATE is closed.
    pub fn forget(&self, client: [u8; 16], create_guid: [u8; 16], persistent: u64) {
        let mut creations = self.creations.lock();
        let name = (client, create_guid);
        let is_it = match creations.get(&name) {
            Some(Creation::Done(open)) => open.upgrade().is_none_or(|open| open.handle.persistent == persistent),
            _ => false,
        };
        if is_it {
            creations.remove(&name);
        }
    }
}

/// A file that may be about to go; settled when dropped.
struct Going {
    durables: Arc<Durables>,
    file: FileId,
}

impl Drop for Going {
    fn drop(&mut self) {
        // Whoever waits is woken by the senders' end.
        self.durables.going.lock().remove(&self.file);
    }
}

/// A CREATE with a guid, under way.
pub struct Creating {
    durables: Arc<Durables>,
    name: CreateName,
    made: Option<Weak<Open>>,
}

impl Creating {
    /// It made `open`.
    pub fn made(mut self, open: &Arc<Open>) {
        self.made = Some(Arc::downgrade(open));
    }
}

impl Drop for Creating {
    fn drop(&mut self) {
        let mut creations = self.durables.creations.lock();
        match self.made.take() {
            Some(open) => creations.insert(self.name, Creation::Done(open)),
            None => creations.remove(&self.name),
        };
    }
}

impl Server {
    /// Keeps what of `opens` outlives the connection; what comes back is to be closed.
    pub(crate) fn keep_durable(&self, opens: Vec<Arc<Open>>, executor: &Arc<dyn Executor>) -> Vec<Arc<Open>> {
        let keep = |open: Arc<Open>| -> Option<Arc<Open>> {
            let Object::File(file) = &open.object else { return Some(open) };
            let file = Arc::clone(file);
            let durability = *file.durability.lock();
            let stays =
                durability.resilient || durability.persistent || durability.version.is_some() && self.is_cached(&file);
            if !stays {
                return Some(open);
            }
            self.await_client(open, executor);
            None
        };
        opens.into_iter().filter_map(keep).collect()
    }

    /// Keeps an open without a connection until its client comes back or is late.
    pub(crate) fn await_client(&self, open: Arc<Open>, executor: &Arc<dyn Executor>) {
        let Object::File(file) = &open.object else { return };
        let file = Arc::clone(file);
        let durability = *file.durability.lock();
        let lost = durability.persistent.then(|| self.durables.lost_files.add(file.claim.file()));
        let until_ms = self.now().0.saturating_add(durability.timeout_ms);
        let disconnected = Disconnected { until_ms, executor: Arc::clone(executor), _lost: lost, open };
        self.durables.disconnected.lock().insert(disconnected.open.handle.persistent, disconnected);
        if let Some(route) = &file.route {
            route.disconnected();
        }
    }

    /// Whether a persistent open whose client is away forbids another open of its file: what that client caches of it,
    /// it cannot be asked to give up (MS-SMB2 3.3.5.9). One load while there is no such open.
    pub(crate) fn holds_back(&self, file: FileId, by: Identity, access: AccessKinds, share: ShareKinds) -> bool {
        if access.is_empty() || !self.durables.lost_files.has(file) {
            return false;
        }
        let own = |holder: HolderKey| matches!((by, holder), (Identity::Lease { client, key }, HolderKey::Lease { client: c, key: k }) if (client, key) == (c, k));
        let bars = |open: &FileOpen| {
            let holder = open.claim.holder();
            let caching = || self.table.grant_state(file, &holder).unwrap_or_default().caching;
            open.claim.file() == file
                && open.is_persistent()
                && !own(holder)
                && (caching().contains(Caching::WRITE)
                    || access.bits() & !open.claim.share().bits() != 0
                    || open.claim.access().bits() & !share.bits() != 0)
        };
        self.durables.disconnected.lock().values().any(|lost| lost.file().is_some_and(|open| bars(open)))
    }

    /// Whether the client may cache the open itself, and is not being asked to stop that (3.3.7.1).
    fn is_cached(&self, file: &FileOpen) -> bool {
        let state = self.table.grant_state(file.claim.file(), &file.claim.holder());
        state.is_some_and(|s| s.caching.contains(Caching::HANDLE) && s.breaking_to.is_none() && !s.revoked)
    }

    /// Closes the open `persistent` if its connection is gone: somebody else needs the file. One that is persistent in
    /// the specification's sense stays, and so does one that is resilient; whether it is that one.
    pub(crate) fn purge_durable(&self, persistent: u64) -> bool {
        let stays = |lost: &Disconnected| {
            let durability = lost.file().map(|file| *file.durability.lock()).unwrap_or_default();
            let stays = durability.persistent || durability.resilient;
            if stays { Err(!durability.persistent) } else { Ok(()) }
        };
        match self.durables.take(persistent, stays) {
            Some(Ok(open)) => {
                self.close_disconnected(open);
                false
            }
            Some(Err(resilient)) => resilient,
            None => false,
        }
    }

    /// Closes an open that has no connection.
    pub(crate) fn close_disconnected(&self, disconnected: Disconnected) {
        // Before the claim ends: who waits for it is to find that the file is going.
        let going = disconnected.file().map(|file| self.durables.going(file.base().id()));
        let Disconnected { open, executor, .. } = disconnected;
        if let Some(owed) = close::release(self, &open, &executor) {
            executor.run(Box::new(move || {
                // The client is gone: nobody can be told that a deletion failed.
                if let Err(error) = owed.run() {
                    tracing::debug!(%error, "delete on close failed");
                }
                drop(going);
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_bounded() {
        assert_eq!(Durability::v2([1; 16], 0).timeout_ms, 60_000);
        assert_eq!(Durability::v2([1; 16], 1).timeout_ms, 1);
        assert_eq!(Durability::v2([1; 16], u32::MAX).timeout_ms, 300_000);
        assert_eq!(Durability::v2([1; 16], 0).create_guid(), Some([1; 16]));
        assert_eq!(Durability::v1().create_guid(), None);
    }

    #[test]
    fn a_create_under_way_is_known_until_it_is_over() {
        let durables = Arc::new(Durables::default());
        let creating = durables.create([1; 16], [2; 16], false).ok().unwrap();
        assert!(matches!(durables.create([1; 16], [2; 16], false), Err(Known::Pending)));
        assert!(durables.create([1; 16], [3; 16], false).is_ok());
        drop(creating);
        assert!(durables.create([1; 16], [2; 16], false).is_ok());
    }
}
