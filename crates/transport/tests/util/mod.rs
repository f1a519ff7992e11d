//! An echo server over real loopback sockets: frames of a 4-byte length and a payload, each answered with its payload,
//! or with more or later when the payload asks for it.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use transport::{Accepted, Framing, Limits, ListenOptions, Machine, MachineFactory, Server, ShardEnv, Totals};
use vfs::{BufPool, Frame, Reply};

/// Payloads from here on are refused.
pub const MAX_BYTES: usize = 8 << 20;

/// A future of a job's payload.
type Later = Pin<Box<dyn Future<Output = Option<Vec<u8>>>>>;

/// What a payload asks for by its first byte.
pub mod ask {
    /// The payload comes back.
    pub const ECHO: u8 = b'e';
    /// A reply of as many MiB as the second byte says.
    pub const LARGE: u8 = b'l';
    /// The payload comes back after a tenth of a second on a worker.
    pub const LATER: u8 = b'w';
    /// The same, and it goes on without the connection.
    pub const LASTING: u8 = b'k';
    /// The peer has proved who it is; echoed too.
    pub const LOGIN: u8 = b'a';
    /// The connection ends after the reply.
    pub const QUIT: u8 = b'q';
    /// The machine panics.
    pub const PANIC: u8 = b'p';
}

struct Echo {
    env: ShardEnv,
    replies: VecDeque<Reply>,
    held: VecDeque<Vec<u8>>,
    later: Vec<Later>,
    established: bool,
    finished: bool,
    lasts: bool,
    is_over: bool,
    arrived_ns: u64,
    /// Replies that the driver has and the socket has not.
    leaving: usize,
    closed: mpsc::Sender<String>,
    timed: mpsc::Sender<(u64, u64)>,
}

impl Echo {
    fn reply(&mut self, payload: &[u8]) {
        let mut head = self.env.pool.get(payload.len() + 4);
        head.push(&(payload.len() as u32).to_be_bytes());
        head.push(payload);
        self.replies.push_back(Reply { head, pages: None });
    }
}

impl Echo {
    fn answer(&mut self, payload: &[u8]) {
        match payload.first().copied() {
            Some(ask::LARGE) => self.reply(&vec![7; usize::from(payload[1]) << 20]),
            Some(kind @ (ask::LATER | ask::LASTING)) => {
                self.lasts |= kind == ask::LASTING;
                let (workers, payload) = (self.env.workers.clone(), payload.to_vec());
                self.later.push(Box::pin(async move {
                    let job = move || {
                        std::thread::sleep(Duration::from_millis(100));
                        payload
                    };
                    vfs::offload(&workers, job).await
                }));
            }
            Some(ask::PANIC) => panic!("expected in this test"),
            first => {
                self.established |= first == Some(ask::LOGIN);
                self.finished |= first == Some(ask::QUIT);
                self.reply(payload);
            }
        }
    }
}

impl Machine for Echo {
    fn protocol(&self) -> &'static str {
        "echo"
    }

    fn arrived(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
    }

    fn sent(&mut self, now_ns: u64) {
        for _ in 0..std::mem::take(&mut self.leaving) {
            let _ = self.timed.send((self.arrived_ns, now_ns));
        }
    }

    fn framing(&self, prefix: &[u8]) -> Framing {
        let Some(prefix) = prefix.first_chunk::<4>() else { return Framing::Unknown };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > MAX_BYTES { Framing::Refuse("too long") } else { Framing::Known { len_bytes: len + 4, payload_at: 4 } }
    }

    fn receive(&mut self, frame: Frame, _more_behind: bool) {
        // One large reply at a time: the machine bounds what it keeps.
        let is_large = |reply: &Reply| reply.len_bytes() > 1 << 20;
        if self.held.is_empty() && !self.replies.iter().any(is_large) {
            self.answer(&frame[4..]);
        } else {
            self.held.push_back(frame[4..].to_vec());
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        let mut done = Vec::new();
        self.later.retain_mut(|job| match job.as_mut().poll(cx) {
            Poll::Ready(payload) => {
                done.extend(payload);
                false
            }
            Poll::Pending => true,
        });
        done.iter().for_each(|payload| self.reply(payload));
        if self.is_over && !done.is_empty() {
            let _ = self.closed.send("went on".into());
        }
        while self.replies.is_empty()
            && let Some(payload) = self.held.pop_front()
        {
            self.answer(&payload);
        }
    }

    fn next_reply(&mut self) -> Option<Reply> {
        let reply = self.replies.pop_front()?;
        self.leaving += 1;
        Some(reply)
    }

    fn stalled(&self) -> bool {
        !self.held.is_empty() && self.replies.is_empty()
    }

    fn ready(&self) -> bool {
        !self.finished && self.held.is_empty() && self.replies.is_empty()
    }

    fn busy(&self) -> bool {
        !self.later.is_empty() || !self.held.is_empty()
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn established(&self) -> bool {
        self.established
    }

    fn closed(&mut self, why: &str) {
        self.is_over = true;
        let _ = self.closed.send(why.to_owned());
    }

    fn lingers(&self) -> bool {
        self.lasts && !self.later.is_empty()
    }
}

/// A running server.
pub struct World {
    pub server: Server,
    pub address: SocketAddr,
    /// Why connections ended.
    pub closed: mpsc::Receiver<String>,
    /// Connections as they were accepted.
    pub arrived: mpsc::Receiver<Accepted>,
    /// When the last request before a reply came, and when the reply went.
    times: mpsc::Receiver<(u64, u64)>,
    /// The pools of shards, as connections show them.
    pools: mpsc::Receiver<BufPool>,
    known: Vec<BufPool>,
}

impl World {
    pub fn start(limits: Limits) -> Self {
        let server = Server::start(1, 2, limits).unwrap();
        let (closed_sender, closed) = mpsc::channel();
        let (pool_sender, pools) = mpsc::channel();
        let (arrived_sender, arrived) = mpsc::channel();
        let (timed_sender, times) = mpsc::channel();
        let factory: MachineFactory = {
            let senders = std::sync::Mutex::new((closed_sender, pool_sender, arrived_sender, timed_sender));
            Arc::new(move |accepted, env: &ShardEnv| {
                let senders = senders.lock().unwrap();
                let _ = senders.1.send(env.pool.clone());
                let _ = senders.2.send(accepted);
                Box::new(Echo {
                    env: env.clone(),
                    replies: VecDeque::new(),
                    held: VecDeque::new(),
                    later: Vec::new(),
                    established: false,
                    finished: false,
                    lasts: false,
                    is_over: false,
                    arrived_ns: 0,
                    leaving: 0,
                    timed: senders.3.clone(),
                    closed: senders.0.clone(),
                })
            })
        };
        let options = ListenOptions::default();
        let everywhere = server.listen(([0, 0, 0, 0], 0).into(), &options, factory).unwrap();
        let address = ([127, 0, 0, 1], everywhere.port()).into();
        Self { server, address, closed, arrived, times, pools, known: Vec::new() }
    }

    /// Bytes of buffers handed out now.
    pub fn used_bytes(&mut self) -> usize {
        if self.known.is_empty() {
            self.known.extend(self.pools.recv_timeout(Duration::from_secs(10)).ok());
        }
        self.known.iter().map(|p| p.stats().used_bytes).sum()
    }

    pub fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Peer(stream)
    }

    pub fn totals(&self) -> Totals {
        self.server.totals()
    }

    /// When the request before the next reply came, and when that reply went.
    pub fn timed(&self) -> (u64, u64) {
        self.times.recv_timeout(Duration::from_secs(20)).expect("a reply is sent")
    }

    /// The reason the next connection ends with.
    pub fn why(&self) -> String {
        self.closed.recv_timeout(Duration::from_secs(20)).expect("a connection ends")
    }
}

/// Waits until `is_so`, for ten seconds at most.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A client.
pub struct Peer(pub TcpStream);

/// A payload with its length in front.
pub fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes(), payload].concat()
}

impl Peer {
    pub fn send(&mut self, payload: &[u8]) {
        self.0.write_all(&framed(payload)).unwrap();
    }

    pub fn receive(&mut self) -> Vec<u8> {
        let mut len = [0; 4];
        self.0.read_exact(&mut len).unwrap();
        let mut payload = vec![0; u32::from_be_bytes(len) as usize];
        self.0.read_exact(&mut payload).unwrap();
        payload
    }

    /// Whether the server ended the connection, without another byte.
    pub fn is_ended(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}
