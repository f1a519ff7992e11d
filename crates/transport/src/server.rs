//! Listeners, shards, and where an accepted connection goes.

use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use vfs::BufPool;

use crate::driver::{Driver, Shared};
use crate::observer::{Connections, Seen, Traffic};
use crate::placing::Placing;
use crate::sockets::{self, ListenOptions};
use crate::{Counters, Load, Machine, Observer, Pipes, Totals, Workers};

/// Bounds that hold for every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at the same time; further ones are closed at once.
    pub connections: usize,
    /// Connections open at the same time from one address.
    pub connections_per_peer: usize,
    /// How long a connection may take to authenticate.
    pub handshake: Duration,
    /// Bytes of replies queued for a peer that does not read before its requests are no longer taken.
    pub queued_reply_bytes: usize,
    /// Buffers in use by one shard's connections beyond which a connection takes a further request only when it owes no
    /// reply.
    pub used_bytes_per_shard: usize,
    /// Idle buffer memory kept for each shard.
    pub pool_bytes_per_shard: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            connections_per_peer: 20_000,
            handshake: Duration::from_secs(30),
            queued_reply_bytes: 4 << 20,
            used_bytes_per_shard: 512 << 20,
            pool_bytes_per_shard: 64 << 20,
        }
    }
}

/// Pages one pipe of the page path holds: the most that an ordinary user's pipe may (pipe-max-size).
const PIPE_BYTES: usize = 1 << 20;
/// Replies by the page path that one shard can have under way.
const PIPES_PER_SHARD: usize = 64;

/// What a machine gets from its shard.
#[derive(Clone)]
pub struct ShardEnv {
    /// Buffers.
    pub pool: BufPool,
    /// Pipes for the page path.
    pub pipes: Arc<Pipes>,
    /// Threads for work that may wait.
    pub workers: Workers,
    /// This shard's counts.
    pub counters: Arc<Counters>,
    /// Which shard, counted from 0.
    pub shard: usize,
    /// Which shards are at work.
    pub load: Arc<Load>,
}

/// An accepted connection.
#[derive(Debug, Clone, Copy)]
pub struct Accepted {
    /// Who.
    pub peer: SocketAddr,
    /// The address it was made to, also where the listener has all of them.
    pub local: SocketAddr,
}

/// Makes the machine for a new connection, on its shard's thread.
pub type MachineFactory = Arc<dyn Fn(Accepted, &ShardEnv) -> Box<dyn Machine> + Send + Sync>;

/// A running server: shards and listeners. It stops with [`Server::stop`].
pub struct Server {
    shards: Vec<Shard>,
    shared: Arc<Shared>,
    pub(crate) workers: Workers,
}

struct Shard {
    inbox: mpsc::UnboundedSender<Message>,
    open: Arc<AtomicUsize>,
    seen: Seen,
    thread: Option<JoinHandle<()>>,
}

/// What a shard's thread is told.
enum Message {
    Listen(std::net::TcpListener, Acceptor),
    Serve(Incoming),
    Stop,
}

struct Incoming {
    stream: StdStream,
    accepted: Accepted,
    factory: MachineFactory,
    place: Place,
    options: Arc<ListenOptions>,
}

impl Server {
    /// Starts `shards` threads and a worker pool of at most `workers`.
    pub fn start(shards: usize, workers: usize, limits: Limits) -> io::Result<Self> {
        let workers = Workers::new(workers);
        let pipes = Arc::new(Pipes::new(PIPE_BYTES, PIPES_PER_SHARD * shards.max(1)));
        let shared = Arc::new(Shared { limits, stopping: AtomicBool::new(false), stop: tokio::sync::Notify::new() });
        let load = Arc::new(Load::new(shards.max(1), std::thread::available_parallelism().map_or(1, usize::from)));
        let shards = (0..shards.max(1))
            .map(|index| {
                let env = ShardEnv {
                    pool: BufPool::new(limits.pool_bytes_per_shard),
                    pipes: Arc::clone(&pipes),
                    workers: workers.clone(),
                    counters: Arc::default(),
                    shard: index,
                    load: Arc::clone(&load),
                };
                Shard::start(index, env, Arc::clone(&shared))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { shards, shared, workers })
    }

    /// Opens a listener on `address` and accepts from it until the server stops. Answers the address bound.
    pub fn listen(
        &self,
        address: SocketAddr,
        options: &ListenOptions,
        factory: MachineFactory,
    ) -> io::Result<SocketAddr> {
        let socket = sockets::listener(address, options)?;
        let local = socket.local_addr()?.as_socket().unwrap_or(address);
        let acceptor = Acceptor {
            targets: self.shards.iter().map(Target::of).collect(),
            placing: Placing::new(self.shards.len()),
            shared: Arc::clone(&self.shared),
            factory,
            peers: Arc::default(),
            local,
            options: Arc::new(options.clone()),
        };
        // Listeners live on the first shard: accepting is rare beside serving.
        let first = self.shards.first().ok_or(io::ErrorKind::NotConnected)?;
        first
            .inbox
            .send(Message::Listen(socket.into(), acceptor))
            .map_err(|_| io::Error::other("the shard has ended"))?;
        Ok(local)
    }

    /// The counts of all shards, summed.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.shards.iter().for_each(|s| totals.add(&s.seen.counters));
        totals
    }

    /// Sees what the server does, from whatever thread.
    pub fn observer(&self) -> Observer {
        Observer { shards: self.shards.iter().map(|s| s.seen.clone()).collect(), workers: self.workers.clone() }
    }

    /// Connections open now.
    pub fn open_connections(&self) -> usize {
        self.shards.iter().map(|s| s.open.load(Relaxed)).sum()
    }

    /// The worker pool.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Takes no more requests, finishes those in flight, and returns when every connection is closed or `grace` is over.
    pub fn stop(mut self, grace: Duration) {
        self.shared.stopping.store(true, Relaxed);
        self.shared.stop.notify_waiters();
        let deadline = Instant::now() + grace;
        while self.open_connections() > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        for shard in self.shards.drain(..) {
            let Shard { inbox, thread, .. } = shard;
            let _ = inbox.send(Message::Stop);
            drop(inbox);
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        }
    }
}

impl Shard {
    fn start(index: usize, env: ShardEnv, shared: Arc<Shared>) -> io::Result<Self> {
        let (inbox, messages) = mpsc::unbounded_channel();
        let open = Arc::new(AtomicUsize::new(0));
        let list = Arc::<Connections>::default();
        let seen = Seen { counters: Arc::clone(&env.counters), connections: Arc::clone(&list), pool: env.pool.clone() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || {
            let local = LocalSet::new();
            local.block_on(&runtime, serve(messages, env, list, shared));
        })?;
        Ok(Self { inbox, open, seen, thread: Some(thread) })
    }
}

/// A shard's main task: starts what it is given. When it returns, the shard's remaining connections are dropped.
async fn serve(
    mut messages: mpsc::UnboundedReceiver<Message>,
    env: ShardEnv,
    list: Arc<Connections>,
    shared: Arc<Shared>,
) {
    let mut number = 0;
    while let Some(message) = messages.recv().await {
        match message {
            Message::Stop => return,
            Message::Listen(listener, acceptor) => match TcpListener::from_std(listener) {
                Ok(listener) => drop(tokio::task::spawn_local(acceptor.run(listener))),
                Err(error) => tracing::error!(%error, "cannot watch a listener"),
            },
            Message::Serve(Incoming { stream, accepted, factory, place, options }) => {
                let stream = match TcpStream::from_std(stream) {
                    Ok(stream) => stream,
                    Err(error) => {
                        tracing::warn!(%error, peer = %accepted.peer, "cannot watch a connection");
                        continue;
                    }
                };
                Counters::bump(&env.counters.accepted, 1);
                let machine = factory(accepted, &env);
                number += 1;
                let listed = list.enter(number, Traffic::new(accepted.peer, accepted.local, machine.protocol()));
                let driver = Driver::new(stream, machine, env.clone(), listed, Arc::clone(&shared), &options);
                let counters = Arc::clone(&env.counters);
                tokio::task::spawn_local(async move {
                    driver.run().await;
                    Counters::bump(&counters.ended, 1);
                    drop(place);
                });
            }
        }
    }
}

/// Accepts from one listener and places each connection on a shard that has few, and not much to do ([`Placing`]).
struct Acceptor {
    targets: Vec<Target>,
    shared: Arc<Shared>,
    factory: MachineFactory,
    peers: Arc<Peers>,
    local: SocketAddr,
    options: Arc<ListenOptions>,
    placing: Placing,
}

/// A shard as a place for connections.
struct Target {
    inbox: mpsc::UnboundedSender<Message>,
    open: Arc<AtomicUsize>,
    counters: Arc<Counters>,
}

impl Target {
    fn of(shard: &Shard) -> Self {
        let counters = Arc::clone(&shard.seen.counters);
        Self { inbox: shard.inbox.clone(), open: Arc::clone(&shard.open), counters }
    }
}

impl Acceptor {
    async fn run(mut self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        let mut stop = std::pin::pin!(shared.stop.notified());
        stop.as_mut().enable();
        loop {
            if shared.stopping.load(Relaxed) {
                return;
            }
            tokio::select! {
                () = &mut stop => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.place(stream, peer),
                    Err(error) => {
                        // Out of descriptors, mostly: accepting again at once would only spin.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
    }

    fn place(&mut self, stream: TcpStream, peer: SocketAddr) {
        let open: Vec<_> = self.targets.iter().map(|target| target.open.load(Relaxed)).collect();
        let total: usize = open.iter().sum();
        let limits = &self.shared.limits;
        if total >= limits.connections {
            tracing::warn!(%peer, limit = limits.connections, "too many connections; this one is closed");
            return;
        }
        let requests = || self.targets.iter().map(|target| target.counters.frames.load(Relaxed)).collect();
        let chosen = self.placing.choose(Instant::now(), &open, requests);
        let Some(Target { inbox, open, .. }) = chosen.and_then(|at| self.targets.get(at)) else { return };
        let Some(place) = self.peers.enter(peer.ip(), limits.connections_per_peer, open) else {
            tracing::warn!(%peer, limit = limits.connections_per_peer, "too many connections from one address");
            return;
        };
        if let Err(error) = sockets::set_up(&stream, &self.options) {
            tracing::debug!(%error, %peer, "cannot set up a connection");
            return;
        }
        match stream.into_std() {
            Ok(stream) => {
                let local = stream.local_addr().unwrap_or(self.local);
                let accepted = Accepted { peer, local };
                let factory = Arc::clone(&self.factory);
                // A shard that has ended closes the connection by dropping it.
                let options = Arc::clone(&self.options);
                let _ = inbox.send(Message::Serve(Incoming { stream, accepted, factory, place, options }));
            }
            Err(error) => tracing::warn!(%error, %peer, "cannot hand over a connection"),
        }
    }
}

/// How many connections each address has.
#[derive(Default)]
struct Peers(parking_lot::Mutex<std::collections::HashMap<std::net::IpAddr, usize>>);

/// A connection's place in the counts; given back when dropped.
struct Place {
    ip: std::net::IpAddr,
    peers: Arc<Peers>,
    open: Arc<AtomicUsize>,
}

impl Peers {
    fn enter(self: &Arc<Self>, ip: std::net::IpAddr, most: usize, open: &Arc<AtomicUsize>) -> Option<Place> {
        let mut counts = self.0.lock();
        let count = counts.entry(ip).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        open.fetch_add(1, Relaxed);
        Some(Place { ip, peers: Arc::clone(self), open: Arc::clone(open) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
        let mut counts = self.peers.0.lock();
        if let Some(count) = counts.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.ip);
            }
        }
    }
}
