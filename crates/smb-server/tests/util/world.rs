//! The server of a test, its users, its shares and its file system in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use auth::{AcceptorConfig, NtHash, UserLookup};
use smb_server::{
    Clock, Config, Connection, Encryption, Env, NetworkInterface, PathCounters, Server, Shard, Share, ShareOptions,
};
use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::Dialect;
use vfs::memfs::{ManualClock, MemFs};
use vfs::{
    Access, Backend, BufPool, Cred, Disposition, Executor, Inline, Node, OpenHow, Path, Timestamp, Wait, WantKind,
};

use super::{Client, ManualExecutor, MemStore, Profile, Rng};

/// The share everything is tested on, and its user.
pub const SHARE: &str = "data";
/// Another share of the same files, where they are continuously available.
pub const BESIDE: &str = "beside";
/// A user who may do everything on the share.
pub const USER: &str = "anna";
/// Her password.
pub const PASSWORD: &str = "correct horse";
/// Another user.
pub const OTHER: &str = "boris";
/// His password.
pub const OTHER_PASSWORD: &str = "battery staple";

/// The clock of the server, and of nobody else.
pub struct TestClock(pub Arc<ManualClock>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic_ms(&self) -> u64 {
        let now = self.0.now();
        now.secs as u64 * 1000 + u64::from(now.nanos / 1_000_000)
    }
}

/// The users there are.
pub struct Users(HashMap<&'static str, NtHash>);

impl UserLookup for Users {
    fn nt_hash(&self, _domain: &str, user: &str) -> Option<NtHash> {
        self.0.get(user.to_lowercase().as_str()).cloned()
    }
}

/// A server with nothing connected.
pub struct World {
    pub server: Arc<Server>,
    pub fs: Arc<MemFs>,
    pub clock: Arc<ManualClock>,
    pub pool: BufPool,
    pub counters: Arc<PathCounters>,
    /// Set where jobs are parked.
    pub manual: Option<Arc<ManualExecutor>>,
    /// Of a world whose share is continuously available.
    pub store: Option<Arc<MemStore>>,
    executor: Arc<dyn Executor>,
    seed: Arc<AtomicU64>,
}

impl World {
    /// Jobs run in place.
    pub fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// Jobs run in place; `change` is shown the settings and the file system first.
    pub fn with(change: impl FnOnce(&mut Config, &Arc<MemFs>)) -> Self {
        Self::build(change, None)
    }

    /// Jobs are parked.
    pub fn parking() -> Self {
        Self::build(|_, _| {}, Some(Arc::default()))
    }

    /// Another server, which knows of nobody, on the files there are.
    pub fn forget(&mut self) {
        let env = env(&self.clock, &self.seed);
        self.server = Server::new(config(&self.fs), Arc::new(users()), Arc::new(identity), env);
    }

    fn build(change: impl FnOnce(&mut Config, &Arc<MemFs>), manual: Option<Arc<ManualExecutor>>) -> Self {
        let clock = ManualClock::at_secs(1_700_000_000);
        let fs = MemFs::new(Arc::clone(&clock));
        let mut config = config(&fs);
        change(&mut config, &fs);
        let seed = Arc::new(AtomicU64::new(1));
        let env = env(&clock, &seed);
        let executor: Arc<dyn Executor> = match &manual {
            Some(manual) => Arc::clone(manual) as _,
            None => Arc::new(Inline),
        };
        Self {
            server: Server::new(config, Arc::new(users()), Arc::new(identity), env),
            fs,
            clock,
            pool: BufPool::new(4 << 20),
            counters: Arc::default(),
            manual,
            store: None,
            executor,
            seed,
        }
    }

    /// The share is continuously available, and a store in memory keeps its handles.
    pub fn available() -> Self {
        let mut world = Self::new();
        world.store = Some(Arc::default());
        world.restart();
        world
    }

    /// The server dies, and another one comes up on the same files and the same store.
    pub fn restart(&mut self) {
        let mut config = config(&self.fs);
        let options = ShareOptions { continuously_available: true, ..ShareOptions::default() };
        config.shares = [SHARE, BESIDE].map(|name| share(name, &self.fs, options.clone())).into();
        let store = Arc::clone(self.store.as_ref().expect("a world with a store"));
        let env = env(&self.clock, &self.seed);
        let started =
            Server::with_store(config, Arc::new(users()), Arc::new(identity), env, store as _, &self.executor);
        self.server = started.unwrap();
    }

    /// A connection, nothing received yet.
    pub fn connection(&self) -> Connection {
        let shard = Shard {
            pool: self.pool.clone(),
            pipes: None,
            executor: Arc::clone(&self.executor),
            idle_cores: Arc::new(|| 1),
            counters: Arc::clone(&self.counters),
        };
        let address = |port| ([127, 0, 0, 1], port).into();
        Connection::new(Arc::clone(&self.server), shard, address(50_000), address(445))
    }

    /// A client that has said nothing yet.
    pub fn client(&self, profile: Profile) -> Client {
        let seed = self.seed.fetch_add(1, Relaxed);
        Client::new(self.connection(), self.pool.clone(), self.manual.clone(), profile, seed)
    }

    /// A client logged in and connected to [`SHARE`], with the newest dialect.
    pub fn anna(&self) -> Client {
        self.logged_in(Profile::default())
    }

    /// A client logged in and connected to [`SHARE`].
    pub fn logged_in(&self, profile: Profile) -> Client {
        let mut client = self.client(profile);
        client.negotiate();
        client.login();
        client.tree_connect(SHARE);
        client
    }

    /// Makes a file behind the server's back.
    pub fn put(&self, path: &str, content: &[u8]) {
        let node = self.make(path, WantKind::File);
        node.write(0, content, Wait::Allowed).unwrap();
    }

    /// Makes a directory behind the server's back.
    pub fn mkdir(&self, path: &str) {
        self.make(path, WantKind::Directory);
    }

    /// Makes a symbolic link behind the server's back.
    pub fn symlink(&self, path: &str, target: &str) {
        let root = self.fs.root();
        self.fs.symlink(&cred_of(USER), &*root, &to_path(path), target.as_bytes()).unwrap();
    }

    /// Renames behind the server's back.
    pub fn moves(&self, from: &str, to: &str) {
        let root = self.fs.root();
        let (from, to) = (to_path(from), to_path(to));
        self.fs.rename(&cred_of(USER), (&*root, &from), (&*root, &to), vfs::Rename::NoReplace).unwrap();
    }

    fn make(&self, path: &str, kind: WantKind) -> Arc<dyn Node> {
        let access = if kind == WantKind::Directory { Access::READ } else { Access::READ | Access::WRITE };
        let mode = if kind == WantKind::Directory { 0o755 } else { 0o644 };
        let how = OpenHow { access, disposition: Disposition::OpenOrCreate, kind, follow: true, mode };
        self.fs.open(&cred_of(USER), &*self.fs.root(), &to_path(path), &how, Wait::Allowed).unwrap().node
    }

    /// A file's content as the disk has it; `None` when there is no such file.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let how = OpenHow {
            access: Access::READ,
            disposition: Disposition::Open,
            kind: WantKind::File,
            follow: true,
            mode: 0,
        };
        let root_cred = Cred { uid: 0, gid: 0, groups: Arc::from([]) };
        let opened = self.fs.open(&root_cred, &*self.fs.root(), &to_path(path), &how, Wait::Allowed).ok()?;
        let mut content = vec![0; opened.attr.len_bytes as usize];
        let count = opened.node.read(0, &mut content, Wait::Allowed).unwrap();
        assert_eq!(count, content.len());
        Some(content)
    }

    /// Whether there is anything at `path`, a link itself included.
    pub fn exists(&self, path: &str) -> bool {
        self.fs.attr_at(&cred_of(USER), &*self.fs.root(), &to_path(path), Wait::Allowed).is_ok()
    }

    /// Nobody is left: no session, no open, no claim, no buffer.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        if let Some(manual) = &self.manual {
            manual.run_all();
        }
        assert_eq!(self.server.session_count(), 0, "sessions");
        assert_eq!(self.server.open_count(), 0, "opens");
        assert_eq!(self.server.claims(), coherence::Stats::default(), "claims");
        assert_eq!(self.pool.stats().used_bytes, 0, "buffers");
    }
}

fn env(clock: &Arc<ManualClock>, seed: &Arc<AtomicU64>) -> Env {
    let random = Arc::clone(seed);
    Env {
        clock: Arc::new(TestClock(Arc::clone(clock))),
        random: Arc::new(move |bytes| {
            let mut rng = Rng::new(random.fetch_add(1, Relaxed));
            bytes.fill_with(|| rng.next() as u8);
        }),
        interfaces: Arc::new(|| {
            let address = std::net::IpAddr::from([192, 0, 2, 1]);
            vec![NetworkInterface { index: 2, rss: true, bits_per_second: 1_000_000_000, address }]
        }),
    }
}

/// A path of the backend.
pub fn to_path(path: &str) -> Path {
    Path::new(path.as_bytes()).unwrap()
}

/// The share of `fs` under `name`.
pub fn share(name: &str, fs: &Arc<MemFs>, options: ShareOptions) -> (String, Arc<Share>) {
    (name.to_lowercase(), Arc::new(Share::new(name, Arc::clone(fs) as _, options)))
}

fn config(fs: &Arc<MemFs>) -> Config {
    Config {
        server_name: "LONGSHORE".into(),
        shares: HashMap::from([share(SHARE, fs, ShareOptions::default())]),
        min_dialect: Dialect::V2_0_2,
        max_dialect: Dialect::V3_1_1,
        signing_required: false,
        encryption: Encryption::Offered,
        ciphers: vec![Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm],
        signing_algorithms: vec![SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256],
        max_read_bytes: 8 << 20,
        max_write_bytes: 8 << 20,
        max_transact_bytes: 1 << 20,
        max_credits: 512,
        max_sessions: 8,
        max_trees: 16,
        max_opens: 256,
        domain: smb_wire::security::Sid::machine(1, 2, 3),
        accounts: std::sync::Arc::new(smb_server::NoAccounts),
        page_read_bytes: None,
        worker_write_bytes: 64 << 10,
        ntlm: AcceptorConfig {
            netbios_name: "LONGSHORE".into(),
            netbios_domain: "WORKGROUP".into(),
            dns_name: "longshore.example.org".into(),
            dns_domain: "example.org".into(),
            ..AcceptorConfig::default()
        },
    }
}

fn users() -> Users {
    Users(HashMap::from([(USER, NtHash::of_password(PASSWORD)), (OTHER, NtHash::of_password(OTHER_PASSWORD))]))
}

/// The file system's identity of a user.
pub fn cred_of(user: &str) -> Cred {
    let uid = if user == USER { 1000 } else { 1001 };
    Cred { uid, gid: uid, groups: Arc::from([]) }
}

fn identity(user: &str) -> Option<Cred> {
    let user = user.to_lowercase();
    [USER, OTHER].contains(&user.as_str()).then(|| cred_of(&user))
}
