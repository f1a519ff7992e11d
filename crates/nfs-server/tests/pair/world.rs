//! A server on a file system in memory, and a client that sends calls and decodes what comes back.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use auth::krb5::Keytab;
use coherence::Table;
use nfs_server::{
    Accounts, Clock, Config, Connection, Dialer, Env, Export, ExportOptions, HandleKey, Names, Network, OnReply,
    Owners, PathCounters, Server, Shard, Squash, Store, StoreChange, StoreError,
};
use nfs_wire::NfsStat3;
use nfs_wire::mount::MountResult;
use nfs_wire::nfs3::{CreateArgs, CreateHow, CreateRes, DirOp, GetattrRes, LookupRes, Nfs3Proc, Sattr};
use nfs_wire::rpc::{AuthSys, Call, Flavor, FragmentHeader, OpaqueAuth, Outcome, Reply, program};
use nfs_wire::xdr::{Bounded, List, Reader, Xdr, to_vec};
use vfs::memfs::{ManualClock, MemFs};
use vfs::{Buf, BufPool, Executor, Frame, Inline};

/// The user of the tests.
pub const UID: u32 = 1000;

pub struct TestClock(pub Arc<ManualClock>);

impl Clock for TestClock {
    fn unix_secs(&self) -> u32 {
        self.0.now().secs as u32
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.now().secs as u64 * 1000
    }

    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms() * 1000 + u64::from(self.0.now().nanos / 1000)
    }
}

/// A server with one export, `/data`.
pub struct World {
    pub server: Arc<Server>,
    pub fs: Arc<MemFs>,
    pub table: Table,
    pub clock: Arc<ManualClock>,
    pub counters: Arc<PathCounters>,
    pub dialer: Arc<Dialled>,
    pub store: Arc<Records>,
    /// Hosts that hold locks over NFSv3.
    pub hosts: Arc<Records>,
    /// Jobs given to workers.
    pub jobs: Arc<AtomicUsize>,
    /// What happens between the next job and its caller's going on.
    pub after_job: AfterJob,
}

/// How owners are told, and what they are called.
pub type Naming = (Owners, Option<Arc<dyn Names>>);

/// Keys, and accounts.
pub type Kerberos = (Option<Arc<Keytab>>, Option<Arc<dyn Accounts>>);

pub type AfterJob = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Does a job at once, as `Inline` does, and counts it.
struct Counting(Arc<AtomicUsize>, AfterJob);

impl Executor for Counting {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        Inline.run(job);
        let after = self.1.lock().unwrap().take();
        after.into_iter().for_each(|after| after());
    }
}

/// What the server sends to clients that are to be dialled; tests answer it.
#[derive(Default)]
pub struct Dialled(pub Mutex<Vec<(SocketAddr, Vec<u8>, OnReply)>>);

impl Dialer for Dialled {
    fn call(&self, to: SocketAddr, record: Vec<u8>, done: OnReply) {
        self.0.lock().unwrap().push((to, record, done));
    }

    fn datagram(&self, _: SocketAddr, _: Vec<u8>, done: OnReply) {
        done(None);
    }
}

/// Everybody is in forty groups, from the number of the user on.
pub struct ManyGroups;

impl nfs_server::Groups for ManyGroups {
    fn groups_of(&self, uid: u32) -> Result<Vec<u32>, String> {
        Ok((uid..uid + 40).collect())
    }
}

/// The store of clients, in memory.
#[derive(Default)]
pub struct Records(pub Mutex<BTreeMap<u64, Vec<u8>>>);

impl Store for Records {
    fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        Ok(self.0.lock().unwrap().clone().into_iter().collect())
    }

    fn apply(&self, changes: &[StoreChange]) -> Result<(), StoreError> {
        let mut records = self.0.lock().unwrap();
        for change in changes {
            match change {
                StoreChange::Put { id, record } => drop(records.insert(*id, record.clone())),
                StoreChange::Remove { id } => drop(records.remove(id)),
            }
        }
        Ok(())
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ExportOptions)) -> Self {
        Self::with_kerberos((None, None), change)
    }

    /// With keys, and the accounts of those who come with Kerberos.
    pub fn with_kerberos(kerberos: Kerberos, change: impl FnOnce(&mut ExportOptions)) -> Self {
        Self::with_people(kerberos, Naming::default(), change)
    }

    /// With names of owners besides.
    pub fn with_people(kerberos: Kerberos, naming: Naming, change: impl FnOnce(&mut ExportOptions)) -> Self {
        let clock = ManualClock::at_secs(1_700_000_000);
        let fs = MemFs::new(Arc::clone(&clock));
        let table = Table::new();
        let (dialer, store, hosts): (Arc<Dialled>, Arc<Records>, Arc<Records>) = Default::default();
        let server = Self::server(&fs, &table, &clock, change, (&dialer, &store, &hosts), 1, (kerberos, naming));
        let (counters, jobs, after_job) = Default::default();
        Self { server, fs, table, clock, counters, dialer, store, hosts, jobs, after_job }
    }

    /// The server of another run: the same key, other chance.
    pub fn restart(&mut self) {
        let seams = (&self.dialer, &self.store, &self.hosts);
        self.server =
            Self::server(&self.fs, &self.table, &self.clock, |_| {}, seams, 2, ((None, None), Naming::default()));
    }

    /// The same in another process, which does not know the claims of the one before.
    pub fn start_anew(&mut self) {
        self.table = Table::new();
        self.restart();
    }

    fn server(
        fs: &Arc<MemFs>,
        table: &Table,
        clock: &Arc<ManualClock>,
        change: impl FnOnce(&mut ExportOptions),
        (dialer, store, hosts): (&Arc<Dialled>, &Arc<Records>, &Arc<Records>),
        chance: u8,
        ((keytab, accounts), (owners, names)): (Kerberos, Naming),
    ) -> Arc<Server> {
        let mut options = ExportOptions { squash: Squash::None, ..ExportOptions::default() };
        change(&mut options);
        let export = Export { name: "data".into(), backend: Arc::clone(fs) as _, options, witness: None };
        let config = Config {
            exports: vec![export],
            max_read_bytes: 1 << 20,
            max_write_bytes: 1 << 20,
            page_read_bytes: None,
            worker_write_bytes: 256 << 10,
            lease_secs: 90,
            keytab,
            owners,
        };
        let env = Env {
            clock: Arc::new(TestClock(Arc::clone(clock))),
            random: Arc::new(move |bytes: &mut [u8]| bytes.fill(chance)),
            dialer: Some(Arc::clone(dialer) as _),
            store: Some(Arc::clone(store) as _),
            hosts: Some(Arc::clone(hosts) as _),
            groups: Some(Arc::new(ManyGroups)),
            accounts,
            names,
            host_name: "server".into(),
        };
        Server::new(config, HandleKey::new(&[3; 32]), table.clone(), env)
    }

    pub fn connect(&self) -> Client {
        self.connect_from("127.0.0.1:700", UID)
    }

    pub fn connect_from(&self, peer: &str, uid: u32) -> Client {
        let executor = Arc::new(Counting(Arc::clone(&self.jobs), Arc::clone(&self.after_job)));
        connect(&self.server, &self.counters, executor, peer, uid)
    }

    /// A client of a server that has cores with nothing to do.
    pub fn connect_to_idle(&self, executor: Arc<dyn Executor>) -> Client {
        connect_beside(&self.server, &self.counters, executor, ("127.0.0.1:702", UID), 1)
    }
}

/// A client of a server, wherever that is.
pub fn connect(
    server: &Arc<Server>,
    counters: &Arc<PathCounters>,
    executor: Arc<dyn Executor>,
    peer: &str,
    uid: u32,
) -> Client {
    connect_beside(server, counters, executor, (peer, uid), 0)
}

fn connect_beside(
    server: &Arc<Server>,
    counters: &Arc<PathCounters>,
    executor: Arc<dyn Executor>,
    (peer, uid): (&str, u32),
    idle_cores: usize,
) -> Client {
    let shard = Shard {
        pool: BufPool::new(1 << 20),
        pipes: None,
        executor,
        idle_cores: Arc::new(move || idle_cores),
        counters: Arc::clone(counters),
    };
    let local = "127.0.0.1:2049".parse().unwrap();
    let connection = Connection::new(Arc::clone(server), shard, peer.parse().unwrap(), local);
    Client { connection, xid: 0, uid }
}

/// One end of a connection, calling one thing at a time.
/// How long each reply takes, as the connection is told.
pub const REPLY_NS: u64 = 1000;

pub struct Client {
    pub connection: Connection,
    pub xid: u32,
    pub uid: u32,
}

/// What came of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Results(Vec<u8>),
    Mismatch(u32, u32),
    Other(String),
}

impl Client {
    /// The record of a call.
    pub fn record(&mut self, program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        self.xid += 1;
        let gids = [UID];
        let body =
            AuthSys { stamp: 0, machine_name: Bounded(b"test"), uid: self.uid, gid: self.uid, gids: List::new(&gids) }
                .to_body();
        let credential = OpaqueAuth { flavor: Flavor::SYS, body: Bounded(&body) };
        let call = Call { xid: self.xid, program, version, procedure, credential, verifier: OpaqueAuth::NONE };
        let mut record = Vec::new();
        call.put(&mut record);
        record.extend(args);
        record
    }

    /// The next call bears the number of the last one, as one that is sent again.
    pub fn repeat_xid(&mut self) {
        self.xid -= 1;
    }

    /// Hands a fragment to the connection as a driver would; false when it is refused.
    pub fn send_fragment(&mut self, bytes: &[u8], last: bool) -> bool {
        let mark = FragmentHeader { last, len_bytes: bytes.len() as u32 }.to_bytes();
        let frame = [&mark[..], bytes].concat();
        match self.connection.framing(&frame) {
            Ok(Some((len, _))) => assert_eq!(len, frame.len()),
            Ok(None) => panic!("a whole mark was not enough"),
            Err(_) => return false,
        }
        let mut buf = Buf::unpooled(frame.len());
        buf.push(&frame);
        self.connection.arrived(0);
        self.connection.receive(Frame::from(buf), false);
        self.poll();
        true
    }

    /// Lets calls go on that had to wait.
    pub fn poll(&mut self) {
        self.connection.poll(&mut Context::from_waker(Waker::noop()));
    }

    /// The next reply, without its mark.
    pub fn reply(&mut self) -> Option<Vec<u8>> {
        let reply = self.connection.next_reply()?;
        self.connection.sent(REPLY_NS);
        assert!(reply.pages.is_none());
        let (mark, rest) = reply.head.split_first_chunk::<4>().unwrap();
        let mark = FragmentHeader::from_bytes(*mark);
        assert!(mark.last && mark.len_bytes as usize == rest.len() && rest.len() % 4 == 0);
        Some(rest.to_vec())
    }

    pub fn call(&mut self, program: u32, version: u32, procedure: u32, args: &[u8]) -> Answer {
        let record = self.record(program, version, procedure, args);
        assert!(self.send_fragment(&record, true));
        let reply = self.reply().expect("a reply");
        let mut r = Reader::new(&reply);
        let header = Reply::decode(&mut r).unwrap();
        assert_eq!(header.xid, self.xid);
        match header.outcome {
            Outcome::Success { .. } => Answer::Results(r.rest().to_vec()),
            Outcome::ProgMismatch { low, high } => Answer::Mismatch(low, high),
            other => Answer::Other(format!("{other:?}")),
        }
    }

    pub fn results(&mut self, program: u32, version: u32, procedure: u32, args: &[u8]) -> Vec<u8> {
        match self.call(program, version, procedure, args) {
            Answer::Results(results) => results,
            other => panic!("{other:?}"),
        }
    }

    /// An NFSv3 call's results.
    pub fn nfs<'a>(&mut self, procedure: Nfs3Proc, args: &impl Xdr<'a>) -> Vec<u8> {
        self.results(program::NFS, 3, procedure as u32, &to_vec(args))
    }

    pub fn mount(&mut self, path: &str) -> Result<Vec<u8>, u32> {
        let results = self.results(program::MOUNT, 3, 1, &to_vec(&path.as_bytes()));
        let result: MountResult<'_> = all(&results);
        result.map(|ok| ok.handle.to_vec()).map_err(|status| status.0)
    }

    pub fn root(&mut self) -> Vec<u8> {
        self.mount("/data").unwrap()
    }

    pub fn lookup(&mut self, dir: &[u8], name: &str) -> Result<Vec<u8>, NfsStat3> {
        let results = self.nfs(Nfs3Proc::Lookup, &at(dir, name));
        let result: LookupRes<'_> = all(&results);
        result.map(|ok| ok.handle.to_vec()).map_err(|failed| failed.status)
    }

    pub fn create(&mut self, dir: &[u8], name: &str, how: CreateHow) -> Result<Vec<u8>, NfsStat3> {
        let results = self.nfs(Nfs3Proc::Create, &CreateArgs { at: at(dir, name), how });
        let result: CreateRes<'_> = all(&results);
        result.map(|ok| ok.handle.unwrap().to_vec()).map_err(|failed| failed.status)
    }

    pub fn make(&mut self, dir: &[u8], name: &str) -> Vec<u8> {
        self.create(dir, name, CreateHow::Guarded(Sattr { mode: Some(0o644), ..Sattr::NONE })).unwrap()
    }

    pub fn getattr(&mut self, handle: &[u8]) -> Result<nfs_wire::nfs3::Fattr, NfsStat3> {
        let results = self.nfs(Nfs3Proc::Getattr, &Bounded::<64>(handle));
        all::<GetattrRes>(&results).map_err(|failed| failed.status)
    }
}

pub fn at<'a>(dir: &'a [u8], name: &'a str) -> DirOp<'a> {
    DirOp { dir: Bounded(dir), name: name.as_bytes() }
}

/// Results, which must end where their type does.
pub fn all<'a, T: Xdr<'a>>(bytes: &'a [u8]) -> T {
    nfs_wire::xdr::decode_all(bytes).expect("results that can be decoded")
}

/// Whom the exports are for, in tests that say otherwise.
pub fn networks(text: &str) -> Vec<Network> {
    Network::parse(text).unwrap()
}
