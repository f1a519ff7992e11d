//! Where the crates meet: an SMB connection becomes a machine of the transport, a plan becomes the SMB server's settings,
//! and the clock, the randomness and the threads it needs are the real ones. `serve` owns the result. What this is for
//! SMB, `nfs` is for NFS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use auth::{AcceptorConfig, Identity};
use smb_server::{
    Access, Clock, Config, Connection, Encryption, Env, IdentityLookup, NamePatterns, PathCounters, PathTotals, Server,
    Shard, Share, ShareOptions,
};
use transport::{Accepted, MachineFactory, Pipes, ShardEnv, Workers};
use vfs::{Backend, Capabilities, Cred, Executor, PipePool, Timestamp};

use crate::accounts::{self, SystemAccounts};
use crate::config;
use crate::drive::drive;
use crate::failure::Failure;
use crate::identities::Identities;
use crate::interfaces;
use crate::plan::{Plan, PlannedShare};
use crate::state::{self, StateStore};
use crate::volumes::Volumes;

/// Longest NetBIOS name (MS-NBTE 2.2.1).
const MAX_NETBIOS_CHARS: usize = 15;

/// The SMB server and what it was made of.
pub struct Smb {
    server: Arc<Server>,
    identities: Arc<ArcSwap<Identities>>,
    listening: Arc<ArcSwap<Vec<SocketAddr>>>,
    volumes: Volumes,
    counters: Arc<[Arc<PathCounters>]>,
    cores: usize,
    clock: Arc<SystemClock>,
}

impl Smb {
    /// A server of what `plan` says, for `shards` threads on `cores` cores.
    pub fn new(plan: &Plan, shards: usize, cores: usize) -> Result<Self, Failure> {
        let volumes = Volumes::default().for_shares(&plan.shares)?;
        let identities = Arc::new(ArcSwap::new(Arc::clone(&plan.identities)));
        let asked = Arc::clone(&identities);
        let lookup = Arc::new(move |name: &str| asked.load().of_login(name).map(cred));
        let listening = Arc::default();
        let clock = Arc::new(SystemClock(Instant::now()));
        let env = env(Arc::clone(&clock), Arc::clone(&listening))?;
        let server = server(plan, &volumes, lookup, env)?;
        keep_time(&server);
        let counters = (0..shards.max(1)).map(|_| Arc::default()).collect();
        Ok(Self { server, identities, listening, volumes, counters, cores, clock })
    }

    /// The claims on files, for servers of other protocols.
    pub fn table(&self) -> &coherence::Table {
        self.server.table()
    }

    /// The clock those claims are timed by.
    pub fn clock(&self) -> Arc<SystemClock> {
        Arc::clone(&self.clock)
    }

    /// As whom users act, now and after each reload.
    pub fn identities(&self) -> Arc<ArcSwap<Identities>> {
        Arc::clone(&self.identities)
    }

    /// The backend of a share.
    pub fn volume(&self, share: &str) -> Option<&Arc<localfs::LocalFs>> {
        self.volumes.get(share)
    }

    /// Who is told of what other servers change in a share.
    pub fn witness(&self, share: &str) -> Option<Arc<dyn vfs::Witness>> {
        self.server.share(share).map(|share| share as Arc<dyn vfs::Witness>)
    }

    /// Makes a connection's machine on its shard.
    pub fn factory(&self) -> MachineFactory {
        let (server, counters, cores) = (Arc::clone(&self.server), Arc::clone(&self.counters), self.cores);
        Arc::new(move |accepted: Accepted, env: &ShardEnv| {
            // One set for each shard: the transport numbers them from 0 and was started with as many.
            let counters = counters.get(env.shard).map(Arc::clone).unwrap_or_default();
            let shard = shard(env, counters, cores);
            Box::new(SmbMachine(Connection::new(Arc::clone(&server), shard, accepted.peer, accepted.local)))
        })
    }

    /// Says at which addresses it is served.
    pub fn listens_at(&self, addresses: &[SocketAddr]) {
        self.listening.store(Arc::new(addresses.to_vec()));
    }

    /// Takes up another plan. On an error, the old one stays.
    pub fn reload(&mut self, plan: &Plan) -> Result<(), Failure> {
        let volumes = self.volumes.for_shares(&plan.shares)?;
        let settings = settings(plan, &volumes)?;
        self.identities.store(Arc::clone(&plan.identities));
        self.server.reload(settings, Arc::clone(&plan.users) as _);
        self.volumes = volumes;
        Ok(())
    }

    /// Whether requests run with the rights of the user who is logged in.
    pub fn switches_users(&self) -> bool {
        self.volumes.any().is_some_and(|v| v.capabilities().contains(Capabilities::IDENTITY))
    }

    /// The server.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
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

    /// Sessions logged in now.
    pub fn sessions(&self) -> usize {
        self.server.session_count()
    }

    /// Files open now.
    pub fn opens(&self) -> usize {
        self.server.open_count()
    }
}

/// A server whose shares are continuously available needs a store.
fn server(plan: &Plan, volumes: &Volumes, lookup: IdentityLookup, env: Env) -> Result<Arc<Server>, Failure> {
    let (settings, users) = (settings(plan, volumes)?, Arc::clone(&plan.users) as _);
    if !plan.shares.iter().any(|share| share.settings.continuously_available) {
        return Ok(Server::new(settings, users, lookup, env));
    }
    let directory = plan.config.server.state.clone().unwrap_or_else(state::default_directory);
    let failed = |error| Failure::system(format!("the state in {}: {error}", directory.display()));
    let store = Arc::new(StateStore::open(&directory).map_err(failed)?);
    let executor: Arc<dyn Executor> = Arc::new(Threads);
    let server = Server::with_store(settings, users, lookup, env, store, &executor).map_err(failed)?;
    // Claiming files again for their clients was done as them; what this thread does next it does as itself.
    localfs::run_as_process()
        .map_err(|error| Failure::system(format!("cannot go back to the server's user: {error}")))?;
    Ok(server)
}

/// A thread for each job: for the few handles that are closed because their clients did not come back.
struct Threads;

impl Executor for Threads {
    fn run(&self, job: Box<dyn FnOnce() + Send>) {
        std::thread::spawn(job);
    }
}

/// How exactly deadlines are kept: they are tens of seconds.
const TICK: Duration = Duration::from_millis(500);

/// Does what is due in `server` until it is gone.
fn keep_time(server: &Arc<Server>) {
    let server = Arc::downgrade(server);
    let tick = move || {
        while let Some(server) = server.upgrade() {
            server.tick();
            drop(server);
            std::thread::sleep(TICK);
        }
    };
    std::thread::spawn(tick);
}

/// An SMB connection as the transport drives it.
struct SmbMachine(Connection);

drive!(SmbMachine, "smb");

fn shard(env: &ShardEnv, counters: Arc<PathCounters>, cores: usize) -> Shard {
    let pipes: Arc<Pipes> = Arc::clone(&env.pipes);
    let workers: Workers = env.workers.clone();
    let executor: Arc<dyn Executor> = Arc::new(workers.clone());
    let load = Arc::clone(&env.load);
    Shard {
        pool: env.pool.clone(),
        pipes: Some(pipes as Arc<dyn PipePool>),
        executor,
        // Every shard at work has a core, this one included, and so has every job that is queued or running; one more is
        // left to the rest of the machine (docs/decisions/0003).
        idle_cores: Arc::new(move || cores.saturating_sub(1 + load.running().max(1) + workers.pending())),
        counters,
    }
}

fn env(clock: Arc<SystemClock>, listening: Arc<ArcSwap<Vec<SocketAddr>>>) -> Result<Env, Failure> {
    // Found out now rather than in the middle of a login.
    getrandom::fill(&mut [0; 1]).map_err(|error| Failure::system(format!("no randomness: {error}")))?;
    let interfaces = Arc::new(move || interfaces::reachable(&listening.load()));
    Ok(Env { clock, random: random(), interfaces })
}

/// Bytes nobody can guess.
pub fn random() -> nfs_server::Random {
    Arc::new(|bytes: &mut [u8]| {
        if let Err(error) = getrandom::fill(bytes) {
            // Going on with bytes somebody could guess would open every session.
            tracing::error!(%error, "the system has no randomness any more");
            std::process::abort();
        }
    })
}

/// The machine's clocks.
pub struct SystemClock(Instant);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { secs: since.as_secs() as i64, nanos: since.subsec_nanos() }
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }
}

impl nfs_server::Clock for SystemClock {
    fn unix_secs(&self) -> u32 {
        u32::try_from(Clock::now(self).secs).unwrap_or(u32::MAX)
    }

    fn monotonic_ms(&self) -> u64 {
        Clock::monotonic_ms(self)
    }

    fn monotonic_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }
}

fn settings(plan: &Plan, volumes: &Volumes) -> Result<Config, Failure> {
    let config::Config { server, limits, data_path, .. } = &plan.config;
    let name = server.name.clone().unwrap_or_else(machine_name);
    Ok(Config {
        shares: plan.shares.iter().map(|share| entry(share, volumes)).collect::<Result<_, _>>()?,
        min_dialect: server.min_dialect,
        max_dialect: server.max_dialect,
        signing_required: server.signing_required,
        encryption: match server.encryption {
            config::Encryption::Off => Encryption::Off,
            config::Encryption::Offered => Encryption::Offered,
            config::Encryption::Required => Encryption::Required,
        },
        ciphers: server.ciphers.clone(),
        signing_algorithms: server.signing_algorithms.clone(),
        max_read_bytes: limits.max_read_bytes,
        max_write_bytes: limits.max_write_bytes,
        max_transact_bytes: limits.max_transact_bytes,
        max_credits: limits.credits,
        max_sessions: limits.sessions_per_connection,
        max_trees: limits.trees_per_session,
        max_opens: limits.opens_per_session,
        page_read_bytes: data_path.page_read_bytes,
        worker_write_bytes: data_path.worker_write_bytes,
        ntlm: ntlm(&name, server),
        domain: accounts::domain(&name).sid(),
        accounts: Arc::new(SystemAccounts(Arc::clone(&plan.identities))),
        server_name: name,
    })
}

fn ntlm(name: &str, server: &config::Server) -> AcceptorConfig {
    let netbios_name = netbios(name);
    AcceptorConfig {
        netbios_domain: server.workgroup.as_deref().map_or_else(|| netbios_name.clone(), netbios),
        netbios_name,
        dns_name: name.to_lowercase(),
        dns_domain: String::new(),
        allow_ntlmv1: server.ntlmv1,
        allow_guest: server.guest,
        allow_anonymous: false,
    }
}

fn netbios(name: &str) -> String {
    name.to_uppercase().chars().take(MAX_NETBIOS_CHARS).collect()
}

/// The machine's name without its domain.
pub fn machine_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    match name.split('.').next() {
        Some(first) if !first.is_empty() => first.to_owned(),
        _ => "longshore".to_owned(),
    }
}

fn entry(share: &PlannedShare, volumes: &Volumes) -> Result<(String, Arc<Share>), Failure> {
    let name = &share.settings.name;
    let volume = volumes.get(name).ok_or_else(|| Failure::system(format!("share {name} is not open")))?;
    let backend = Arc::clone(volume) as Arc<dyn Backend>;
    Ok((name.to_lowercase(), Arc::new(Share::new(name.as_str(), backend, options(share)?))))
}

fn options(share: &PlannedShare) -> Result<ShareOptions, Failure> {
    let settings = &share.settings;
    let patterns = |list: &[String]| {
        let wrong = |pattern| Failure::usage(format!("share {}: `{pattern}` is no pattern", settings.name));
        NamePatterns::new(list.iter().map(String::as_str)).map_err(wrong)
    };
    Ok(ShareOptions {
        comment: settings.comment.clone(),
        read_only: settings.read_only,
        hidden: settings.hidden,
        encryption_required: settings.encryption_required,
        continuously_available: settings.continuously_available,
        case_sensitive: settings.case_sensitive,
        short_names: settings.short_names,
        access: Access {
            users: settings.users.clone(),
            read_only_users: settings.read_only_users.clone(),
            writers: settings.writers.clone(),
        },
        force_identity: share.force.clone().map(cred),
        create_mask: settings.create_mask,
        directory_mask: settings.directory_mask,
        veto: patterns(&settings.veto)?,
        hide: patterns(&settings.hide)?,
        hide_dot_files: settings.hide_dot_files,
    })
}

fn cred(identity: Identity) -> Cred {
    Cred { uid: identity.uid, gid: identity.gid, groups: identity.groups.into() }
}
