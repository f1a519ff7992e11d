//! The NFS server of this process: an NFS connection becomes a machine of the transport, shares become exports, and the
//! key and the memory of files that handles need are kept in the state directory. `serve` owns the result. The claims on
//! files and the backends are those of the SMB server, so that clients of both see one another.

use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use auth::{NssUsers, SystemUsers};
use localfs::LocalFs;
use nfs_server::{
    Config, Connection, Export, ExportOptions, HandleKey, IdKind, KEY_BYTES, PathCounters, PathTotals, Server, Shard,
    Squash,
};
use rustix::fs::{FlockOperation, flock};
use transport::{Accepted, MachineFactory, ShardEnv};
use vfs::{Backend, Cred, Executor, PipePool};

use crate::assembly::{Smb, machine_name, random};
use crate::config::Share;
use crate::dial::Threads;
use crate::drive::drive;
use crate::failure::Failure;
use crate::identities::Identities;
use crate::plan::{Plan, PlannedShare};
use crate::state::{ClientStore, LockingHosts};

/// How often idle files are closed.
const SWEEP: Duration = Duration::from_secs(2);

/// The NFS server and what it was made of.
pub struct Nfs {
    shared: Arc<Shared>,
    counters: Arc<[Arc<PathCounters>]>,
    cores: usize,
    state: State,
}

/// What the thread that closes idle files looks after.
struct Shared {
    server: Arc<Server>,
    volumes: Mutex<Vec<Arc<LocalFs>>>,
}

impl Nfs {
    /// A server of what `plan` says, on the backends of `smb`.
    pub fn new(plan: &Plan, smb: &Smb, shards: usize, cores: usize) -> Result<Self, Failure> {
        let state = State::open(plan.config.server.state.as_deref())?;
        let dialer: Arc<dyn nfs_server::Dialer> = Arc::new(Threads::default());
        let env = nfs_server::Env {
            clock: smb.clock(),
            random: random(),
            dialer: Some(dialer),
            store: state.clients(),
            hosts: state.hosts(),
            groups: Some(Arc::new(SystemGroups)),
            accounts: Some(Arc::new(Logins(smb.identities()))),
            names: Some(Arc::new(SystemNames(smb.identities()))),
            host_name: plan.config.server.name.clone().unwrap_or_else(machine_name),
        };
        let key = HandleKey::new(&state.key);
        let server = Server::new(settings(plan, smb)?, key, smb.table().clone(), env);
        let shared = Arc::new(Shared { server, volumes: Mutex::default() });
        let nfs = Self { shared, counters: (0..shards.max(1)).map(|_| Arc::default()).collect(), cores, state };
        nfs.keep_volumes(plan, smb);
        look_after(Arc::downgrade(&nfs.shared))?;
        Ok(nfs)
    }

    /// Makes a connection's machine on its shard.
    pub fn factory(&self) -> MachineFactory {
        let (server, counters, cores) = (Arc::clone(&self.shared.server), Arc::clone(&self.counters), self.cores);
        Arc::new(move |accepted: Accepted, env: &ShardEnv| {
            let counters = counters.get(env.shard).map(Arc::clone).unwrap_or_default();
            let shard = shard(env, counters, cores);
            Box::new(NfsMachine(Connection::new(Arc::clone(&server), shard, accepted.peer, accepted.local)))
        })
    }

    /// The server, for those who bring it more than connections.
    pub fn server(&self) -> &Arc<Server> {
        &self.shared.server
    }

    /// Takes up another plan, which `smb` has taken up already.
    pub fn reload(&mut self, plan: &Plan, smb: &Smb) -> Result<(), Failure> {
        self.shared.server.reload(settings(plan, smb)?);
        self.keep_volumes(plan, smb);
        Ok(())
    }

    /// The counts of each shard.
    pub fn counters(&self) -> &Arc<[Arc<PathCounters>]> {
        &self.counters
    }

    /// The counts of all shards, summed.
    pub fn totals(&self) -> PathTotals {
        let mut totals = PathTotals::default();
        self.counters.iter().for_each(|counters| totals.add(counters));
        totals
    }

    /// Lets the backends keep what they need to find files by their handles.
    fn keep_volumes(&self, plan: &Plan, smb: &Smb) {
        let mut kept = self.shared.volumes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *kept);
        for share in &plan.shares {
            let Some(volume) = smb.volume(&share.settings.name) else { continue };
            if let Some(path) = self.state.files_of(&share.settings.name)
                && !before.iter().any(|known| Arc::ptr_eq(known, volume))
                && let Err(error) = volume.keep_handles(&path)
            {
                tracing::warn!(%error, path = %path.display(), "NFS clients will have to mount again after a restart");
            }
            kept.push(Arc::clone(volume));
        }
    }
}

fn look_after(shared: Weak<Shared>) -> Result<(), Failure> {
    let work = move || {
        while let Some(shared) = shared.upgrade() {
            shared.server.sweep();
            shared.volumes.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|v| v.flush_handles());
            drop(shared);
            std::thread::sleep(SWEEP);
        }
    };
    let started = std::thread::Builder::new().name("nfs-idle".into()).spawn(work);
    started.map(drop).map_err(|error| Failure::system(format!("cannot start a thread: {error}")))
}

fn settings(plan: &Plan, smb: &Smb) -> Result<Config, Failure> {
    let (limits, path) = (&plan.config.limits, &plan.config.data_path);
    Ok(Config {
        exports: plan.shares.iter().map(|share| export(plan, share, smb)).collect::<Result<_, _>>()?,
        max_read_bytes: limits.max_read_bytes.min(MAX_TRANSFER_BYTES),
        max_write_bytes: limits.max_write_bytes.min(MAX_TRANSFER_BYTES),
        page_read_bytes: path.page_read_bytes,
        worker_write_bytes: path.worker_write_bytes,
        lease_secs: limits.nfs_lease_seconds,
        keytab: plan.keytab.clone(),
        owners: plan.config.server.nfs_owners.clone(),
    })
}

/// Linux and macOS ask for no more at once.
const MAX_TRANSFER_BYTES: u32 = 1 << 20;

fn export(plan: &Plan, share: &PlannedShare, smb: &Smb) -> Result<Export, Failure> {
    let settings = &share.settings;
    let volume = smb.volume(&settings.name).ok_or_else(|| Failure::system(format!("{} is not open", settings.name)))?;
    let anon = Cred { uid: settings.nfs_anon_uid, gid: settings.nfs_anon_gid, groups: [].into() };
    let (squash, anon) = match share.force.clone() {
        Some(forced) => (Squash::All, Cred { uid: forced.uid, gid: forced.gid, groups: forced.groups.into() }),
        None => (settings.nfs_squash, anon),
    };
    let closed = is_restricted(settings) && !is_opened(plan, settings);
    let options = ExportOptions {
        read_only: settings.read_only,
        clients: if closed { Vec::new() } else { settings.nfs_clients.clone() },
        read_only_clients: settings.nfs_read_only_clients.clone(),
        squash,
        anon,
        privileged_port: settings.nfs_privileged_port,
        server_groups: settings.nfs_server_groups,
        sec: settings.nfs_sec.clone(),
    };
    Ok(Export {
        name: settings.name.clone(),
        backend: Arc::clone(volume) as Arc<dyn Backend>,
        options,
        witness: smb.witness(&settings.name),
    })
}

/// Whether the share makes a difference between users that NFS cannot make, or wants encryption.
fn is_restricted(share: &Share) -> bool {
    let lists = [&share.users, &share.read_only_users, &share.writers];
    share.encryption_required || !share.veto.is_empty() || lists.iter().any(|list| !list.is_empty())
}

/// Whether somebody wrote down who may mount it.
fn is_opened(plan: &Plan, share: &Share) -> bool {
    plan.config.line(&format!("share.{}", share.name), "nfs_clients").is_some()
}

fn shard(env: &ShardEnv, counters: Arc<PathCounters>, cores: usize) -> Shard {
    let workers = env.workers.clone();
    let executor: Arc<dyn Executor> = Arc::new(workers.clone());
    let load = Arc::clone(&env.load);
    Shard {
        pool: env.pool.clone(),
        pipes: Some(Arc::clone(&env.pipes) as Arc<dyn PipePool>),
        executor,
        idle_cores: Arc::new(move || cores.saturating_sub(load.running().max(1) + workers.pending())),
        counters,
    }
}

/// The groups of the system's users, by way of the name service.
struct SystemGroups;

impl nfs_server::Groups for SystemGroups {
    fn groups_of(&self, uid: u32) -> Result<Vec<u32>, String> {
        let found = NssUsers.by_uid(uid).map_err(|error| error.to_string())?;
        Ok(found.map(|identity| identity.groups).unwrap_or_default())
    }
}

/// The accounts of those who come with Kerberos: the database's user of that name, whom SMB knows too, or the system's.
struct Logins(Arc<ArcSwap<Identities>>);

impl nfs_server::Accounts for Logins {
    fn account(&self, name: &str) -> Result<Option<Cred>, String> {
        let found = match self.0.load().of_login(name) {
            Some(identity) => Some(identity),
            None => NssUsers.by_name(name).map_err(|error| error.to_string())?,
        };
        Ok(found.map(|identity| Cred { uid: identity.uid, gid: identity.gid, groups: identity.groups.into() }))
    }
}

/// What owners of files are called: as the system calls them or, where it does not, as the user database does.
struct SystemNames(Arc<ArcSwap<Identities>>);

impl nfs_server::Names for SystemNames {
    fn name_of(&self, kind: IdKind, id: u32) -> Result<Option<String>, String> {
        let failed = |error: io::Error| format!("the name of {kind:?} {id}: {error}");
        if kind == IdKind::Group {
            return NssUsers.group_name(id).map_err(failed);
        }
        let identities = self.0.load();
        let system = NssUsers.user_name(id).map_err(failed)?;
        // A name that means somebody else in the database would not come back as who it was.
        let system = system.filter(|name| identities.owner_called(name).is_none_or(|uid| uid == id));
        Ok(system.or_else(|| identities.owner_name(id).map(str::to_owned)))
    }

    fn id_of(&self, kind: IdKind, name: &str) -> Result<Option<u32>, String> {
        let failed = |error: io::Error| format!("{kind:?} {name:?}: {error}");
        if kind == IdKind::Group {
            return NssUsers.group_id(name).map_err(failed);
        }
        match self.0.load().owner_called(name) {
            Some(uid) => Ok(Some(uid)),
            None => Ok(NssUsers.by_name(name).map_err(failed)?.map(|identity| identity.uid)),
        }
    }
}

/// An NFS connection as the transport drives it.
struct NfsMachine(Connection);

drive!(NfsMachine, "nfs");

/// The state directory.
struct State {
    key: [u8; KEY_BYTES],
    directory: Option<PathBuf>,
    /// Held as long as this process is the one that writes there.
    _lock: Option<std::fs::File>,
}

impl State {
    /// Opens it, making it and the key if there are none. One that was asked for must be usable; without the default one
    /// the server goes on, and its handles end with it.
    fn open(asked: Option<&Path>) -> Result<Self, Failure> {
        let directory = asked.map_or_else(default_directory, Path::to_owned);
        match prepare(&directory) {
            Ok(key) => {
                let lock = lock(&directory.join("nfs-lock"));
                let kept = lock.is_some().then_some(directory);
                Ok(Self { key, directory: kept, _lock: lock })
            }
            Err(error) if asked.is_some() => {
                let shown = directory.display();
                Err(Failure::system(format!("cannot keep NFS's key in {shown}: {error}; check server.state")))
            }
            Err(error) => {
                tracing::warn!(%error, directory = %directory.display(), "NFS clients will have to mount again after a restart");
                let mut key = [0; KEY_BYTES];
                random()(&mut key);
                Ok(Self { key, directory: None, _lock: None })
            }
        }
    }

    /// Where it is kept which NFSv4 clients hold files. Without it they cannot reclaim them.
    fn clients(&self) -> Option<Arc<dyn nfs_server::Store>> {
        match ClientStore::open(self.directory.as_deref()?) {
            Ok(store) => Some(Arc::new(store)),
            Err(error) => {
                tracing::warn!(%error, "NFSv4 clients will not have their files again after a restart");
                None
            }
        }
    }

    /// Where it is kept which hosts hold locks over NFSv3. Without it they are not told of a restart.
    fn hosts(&self) -> Option<Arc<dyn nfs_server::Store>> {
        match LockingHosts::open(self.directory.as_deref()?) {
            Ok(store) => Some(Arc::new(store)),
            Err(error) => {
                tracing::warn!(%error, "NFSv3 clients will not have their locks again after a restart");
                None
            }
        }
    }

    /// Where the backend of a share keeps what it knows of files.
    fn files_of(&self, share: &str) -> Option<PathBuf> {
        let name: String = share.to_lowercase().bytes().map(|byte| format!("{byte:02x}")).collect();
        // A share's name may be as long as a file's.
        let name = name.get(..200).unwrap_or(&name).to_owned();
        Some(self.directory.as_ref()?.join(format!("nfs-files-{name}")))
    }
}

fn default_directory() -> PathBuf {
    let given = std::env::var_os("STATE_DIRECTORY").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    if let Some(given) = given {
        return given;
    }
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/longshore");
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let own = std::env::var_os("XDG_STATE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from).or_else(home);
    own.unwrap_or_else(|| PathBuf::from("/var/lib")).join("longshore")
}

/// Makes the directory and the key where they are not there; answers the key.
fn prepare(directory: &Path) -> io::Result<[u8; KEY_BYTES]> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join("nfs-key");
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    let mut key = [0; KEY_BYTES];
    random()(&mut key);
    let fresh = directory.join(format!("nfs-key.{}", std::process::id()));
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&key)?;
    file.sync_all()?;
    // The first of two servers that start at once makes the key; the other one takes it.
    let linked = std::fs::hard_link(&fresh, &path);
    std::fs::remove_file(&fresh)?;
    match linked {
        Ok(()) => Ok(key),
        Err(_) => read_key(&path)?.ok_or_else(|| io::Error::other("the key is gone")),
    }
}

fn read_key(path: &Path) -> io::Result<Option<[u8; KEY_BYTES]>> {
    match std::fs::read(path) {
        Ok(bytes) => match bytes.try_into() {
            Ok(key) => Ok(Some(key)),
            Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "nfs-key does not hold 32 bytes; remove it")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Only one server at a time writes down where files are.
fn lock(path: &Path) -> Option<std::fs::File> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Some(file),
        Err(_) => {
            tracing::info!(path = %path.display(), "another server keeps its files there");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use auth::{NtHash, UserDb};
    use nfs_server::Names;

    use super::*;

    #[test]
    fn what_owners_are_called_leads_back_to_them() {
        let mut db = UserDb::default();
        for (name, uid) in [("mapped", Some(4_000_123)), ("daemon", Some(4_000_124)), ("no-such-user-here", None)] {
            db.add(name, uid, NtHash::of_password("x")).unwrap();
        }
        let names = SystemNames(Arc::new(ArcSwap::from_pointee(Identities::of(Arc::new(db)))));
        let name_of = |kind, id| names.name_of(kind, id).unwrap();
        let id_of = |kind, name| names.id_of(kind, name).unwrap();
        for (kind, id, name) in [
            (IdKind::User, 0, "root"),
            (IdKind::Group, 0, "root"),
            (IdKind::User, 4_000_123, "mapped"),
            (IdKind::User, 4_000_124, "daemon"),
        ] {
            assert_eq!(name_of(kind, id).as_deref(), Some(name));
            assert_eq!(id_of(kind, name), Some(id), "{name}");
        }
        let daemon = NssUsers.by_name("daemon").unwrap().unwrap().uid;
        assert_eq!(name_of(IdKind::User, daemon), None, "the name is somebody else's here");
        assert_ne!(name_of(IdKind::User, 65534).as_deref(), Some("no-such-user-here"), "who is only let in as nobody");
        for name in ["no-such-user-here", "DOMAIN\\mapped", "mapped@domain", "ma\0pped", ""] {
            assert_eq!(id_of(IdKind::User, name), None, "{name:?}");
            assert_eq!(id_of(IdKind::Group, name), None, "{name:?}");
        }
        assert_eq!((name_of(IdKind::User, 4_000_125), name_of(IdKind::Group, 4_000_123)), (None, None));
    }

    #[test]
    fn the_key_is_made_once_and_kept_to_oneself() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("state/longshore");
        let first = State::open(Some(&directory)).unwrap();
        assert_ne!(first.key, [0; KEY_BYTES]);
        assert!(first.files_of("docs").is_some());
        let second = State::open(Some(&directory)).unwrap();
        assert_eq!(second.key, first.key);
        assert_eq!(second.files_of("docs"), None, "one server writes there at a time");
        let mode = std::fs::metadata(directory.join("nfs-key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(directory.join("nfs-key"), b"short").unwrap();
        assert!(State::open(Some(&directory)).is_err());
    }
}
