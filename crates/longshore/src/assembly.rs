//! Where the parts meet: the SMB server's connections on the transport's shards, the system's clock and its randomness.

use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use smb_server::{Clock, Connection, Env, PathCounters, Shard};
use transport::{Accepted, Framing, Machine, MachineFactory, ShardEnv};
use vfs::{Frame, Reply, Timestamp};

/// The system's clocks.
struct SystemClock {
    started: Instant,
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock before 1970 is set wrong; clients then see 1970.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp { secs: since.as_secs() as i64, nanos: since.subsec_nanos() }
    }

    fn monotonic_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

/// The server's view of the system.
pub fn system_env() -> Env {
    Env {
        clock: Arc::new(SystemClock { started: Instant::now() }),
        random: Arc::new(|bytes| {
            // Without randomness nothing is safe; the kernel's does not fail once it is seeded.
            getrandom::fill(bytes).expect("the system's random number generator");
        }),
    }
}

/// Makes SMB connections of `server`, each counting into its shard's set of `counters`.
pub fn smb_connections(server: Arc<smb_server::Server>, counters: Vec<Arc<PathCounters>>) -> MachineFactory {
    keep_time(&server);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    Arc::new(move |accepted: Accepted, env: &ShardEnv| {
        let workers = env.workers.clone();
        let busy = env.workers.clone();
        let shard = Shard {
            pool: env.pool.clone(),
            pipes: Some(Arc::clone(&env.pipes) as _),
            executor: Arc::new(workers),
            idle_cores: Arc::new(move || (cores - 1).saturating_sub(busy.pending())),
            counters: counters.get(env.shard).cloned().unwrap_or_default(),
        };
        Box::new(SmbMachine(Connection::new(Arc::clone(&server), shard, accepted.peer, accepted.local)))
    })
}

/// How exactly deadlines are kept: they are tens of seconds.
const TICK: Duration = Duration::from_millis(500);

/// Does what is due in `server` until it is gone.
fn keep_time(server: &Arc<smb_server::Server>) {
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

struct SmbMachine(Connection);

impl Machine for SmbMachine {
    fn framing(&self, prefix: &[u8]) -> Framing {
        match self.0.framing(prefix) {
            Ok(None) => Framing::Unknown,
            Ok(Some((len_bytes, payload_at))) => Framing::Known { len_bytes, payload_at },
            Err(why) => Framing::Refuse(why),
        }
    }

    fn receive(&mut self, frame: Frame, more_behind: bool) {
        self.0.receive(frame, more_behind);
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        self.0.poll(cx);
    }

    fn next_reply(&mut self) -> Option<Reply> {
        self.0.next_reply()
    }

    fn ready(&self) -> bool {
        self.0.is_ready()
    }

    fn busy(&self) -> bool {
        self.0.is_busy()
    }

    fn finished(&self) -> bool {
        self.0.finished().is_some()
    }

    fn established(&self) -> bool {
        self.0.is_established()
    }

    fn closed(&mut self, why: &str) {
        self.0.closed(why);
    }
}
