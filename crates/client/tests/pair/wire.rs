//! A client and a server joined in memory: no socket, no kernel, and a clock that stands still unless everybody waits.
//! What goes from the server to the client passes through a function of the test, which may change it, hold it back, or
//! cut the line.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use client::smb::{Dial, Dialling, Receiver, Sender};
use client::{Client, Credentials, Error, Options, Url};
use smb_server::Connection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use vfs::{BufPool, Frame};

use crate::util::World;
use crate::util::world::{PASSWORD, SHARE, USER};

/// Bytes the line holds before a sender must wait: a socket's buffer.
const LINE_BYTES: usize = 256 << 10;

/// What becomes of a reply, its prefix included. `None` cuts the line.
pub type Meddle = Box<dyn FnMut(Vec<u8>) -> Option<Vec<u8>>>;

/// A line that takes its time, and what was seen at its far end.
#[derive(Clone, Default)]
pub struct Line {
    /// From the request to the reply.
    pub round_trip: Duration,
    /// Of replies; 0 for no end of it.
    pub bytes_per_ms: u64,
    /// The most requests that were under way at a time, and the longest request or reply.
    pub most_under_way: Rc<Cell<usize>>,
    pub longest_bytes: Rc<Cell<usize>>,
    under_way: Rc<Cell<usize>>,
}

impl Line {
    pub fn slow(round_trip: Duration) -> Self {
        Self { round_trip, ..Self::default() }
    }

    fn sees(&self, frame: &[u8]) {
        self.longest_bytes.set(self.longest_bytes.get().max(frame.len()));
    }

    fn begins(&self) {
        self.under_way.set(self.under_way.get() + 1);
        self.most_under_way.set(self.most_under_way.get().max(self.under_way.get()));
    }

    fn ends(&self) {
        self.under_way.set(self.under_way.get() - 1);
    }
}

/// Nothing.
pub fn honest() -> Meddle {
    Box::new(Some)
}

pub fn url() -> Url {
    Url::new("longshore", SHARE)
}

/// A client on the tests' share, as its user.
pub async fn join(world: &World, options: &Options) -> Client {
    try_join(world, options, Credentials::password(USER, PASSWORD), honest()).await.unwrap()
}

/// The same, or why not; `meddle` is shown every reply.
pub async fn try_join(
    world: &World,
    options: &Options,
    credentials: Credentials,
    meddle: Meddle,
) -> Result<Client, Error> {
    join_by(world, options, credentials, meddle, Line::default()).await
}

/// The same over a line of its own.
pub async fn join_by(
    world: &World,
    options: &Options,
    credentials: Credentials,
    meddle: Meddle,
    line: Line,
) -> Result<Client, Error> {
    let (ours, theirs) = tokio::io::duplex(LINE_BYTES);
    tokio::task::spawn_local(serve(world.connection(), world.pool.clone(), theirs, meddle, line));
    let (reader, writer) = tokio::io::split(ours);
    Client::connect_over(reader, writer, &url(), credentials, options).await
}

/// A client of a server that does not understand SMB: it answers each request with what `answer` makes of it.
pub async fn join_stranger(
    mut answer: impl FnMut(Vec<u8>) -> Option<Vec<u8>> + 'static,
    options: &Options,
) -> Result<Client, Error> {
    let (ours, mut theirs) = tokio::io::duplex(LINE_BYTES);
    tokio::task::spawn_local(async move {
        while let Some(frame) = next_frame(&mut theirs).await {
            let Some(reply) = answer(frame) else { return };
            theirs.write_all(&reply).await.unwrap();
        }
    });
    let (reader, writer) = tokio::io::split(ours);
    Client::connect_over(reader, writer, &url(), Credentials::password(USER, PASSWORD), options).await
}

/// What `what` comes to, which is to end long before this gives up.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), what).await.expect("it ends within its timeout")
}

async fn serve(mut server: Connection, pool: BufPool, line: DuplexStream, mut meddle: Meddle, kind: Line) {
    let (mut requests, replies) = tokio::io::split(line);
    let (late, due) = mpsc::unbounded_channel();
    tokio::task::spawn_local(deliver(due, replies, kind.clone()));
    let (arrived, mut frames) = mpsc::unbounded_channel();
    tokio::task::spawn_local(async move {
        while let Some(frame) = next_frame(&mut requests).await {
            let _ = arrived.send(frame);
        }
    });
    loop {
        let reply = tokio::select! {
            biased;
            reply = next_reply(&mut server) => reply,
            frame = frames.recv() => {
                let Some(frame) = frame else { return server.closed("the client is gone") };
                kind.sees(&frame);
                let mut buf = pool.get(frame.len());
                buf.push(&frame);
                server.receive(Frame::from(buf), false);
                continue;
            }
        };
        let Ok(reply) = reply else { return server.closed("it is over") };
        let Some(bytes) = meddle(reply) else { return server.closed("the line is cut") };
        kind.sees(&bytes);
        kind.begins();
        if late.send((Instant::now() + kind.round_trip, bytes)).is_err() {
            return server.closed("the client is gone");
        }
    }
}

/// The next reply, whenever there is one: what waits for others is woken by them.
async fn next_reply(server: &mut Connection) -> Result<Vec<u8>, &'static str> {
    std::future::poll_fn(|cx| {
        server.poll(cx);
        match (server.next_reply(), server.finished()) {
            (Some(reply), _) => Poll::Ready(Ok(reply.head.to_vec())),
            (None, Some(why)) => Poll::Ready(Err(why)),
            (None, None) => Poll::Pending,
        }
    })
    .await
}

async fn deliver(mut due: mpsc::UnboundedReceiver<(Instant, Vec<u8>)>, mut line: WriteHalf<DuplexStream>, kind: Line) {
    while let Some((at, bytes)) = due.recv().await {
        tokio::time::sleep_until(at).await;
        if let Some(busy_ms) = (bytes.len() as u64).checked_div(kind.bytes_per_ms) {
            tokio::time::sleep(Duration::from_millis(busy_ms)).await;
        }
        kind.ends();
        if line.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = line.shutdown().await;
}

async fn next_frame(line: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    line.read_exact(&mut frame).await.ok()?;
    let len = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
    frame.resize(4 + len, 0);
    line.read_exact(&mut frame[4..]).await.ok()?;
    Some(frame)
}

/// A frame on its way, its prefix in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Request,
    Reply,
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Pass,
    /// The line is cut before it: of a request nothing is done, of a reply nothing comes.
    CutBefore,
    /// The line is cut behind it.
    CutBehind,
    /// It never comes.
    Drop,
    /// From then on nothing comes or goes, and the server knows nothing of that.
    Hang,
    /// Of a reply, that byte becomes another.
    Spoil(usize, u8),
    /// Of a reply, the status becomes another.
    Status(u32),
}

impl Fate {
    fn change(self, frame: &mut [u8]) {
        match self {
            Self::Spoil(at, byte) => frame[at % frame.len()] = byte,
            Self::Status(status) => frame[12..16].copy_from_slice(&status.to_le_bytes()),
            _ => {}
        }
    }
}

type Judge = Box<dyn FnMut(Way, &[u8]) -> Fate>;

/// Where a client's lines lead: to the server there is when they are made.
#[derive(Clone)]
pub struct Port {
    world: Rc<RefCell<World>>,
    judge: Rc<RefCell<Judge>>,
    dialled: mpsc::UnboundedSender<(Option<IpAddr>, oneshot::Sender<DuplexStream>)>,
    /// Counts up when all lines are cut, or one.
    cuts: Rc<watch::Sender<(u32, Option<usize>)>>,
    /// Lines made, and tried.
    pub lines: Rc<Cell<usize>>,
    /// What each carried to the client, in bytes.
    pub carried: Rc<RefCell<Vec<usize>>>,
    pub tries: Rc<Cell<usize>>,
    /// Nobody answers.
    pub is_down: Rc<Cell<bool>>,
}

impl Port {
    pub fn new(world: World) -> Self {
        let (dialled, mut inbox) = mpsc::unbounded_channel::<(Option<IpAddr>, oneshot::Sender<DuplexStream>)>();
        let port = Self {
            world: Rc::new(RefCell::new(world)),
            judge: Rc::new(RefCell::new(Box::new(|_, _| Fate::Pass))),
            dialled,
            cuts: Rc::new(watch::channel((0, None)).0),
            lines: Rc::default(),
            carried: Rc::default(),
            tries: Rc::default(),
            is_down: Rc::default(),
        };
        let server = port.clone();
        tokio::task::spawn_local(async move {
            while let Some((_, reply)) = inbox.recv().await {
                server.tries.set(server.tries.get() + 1);
                if server.is_down.get() {
                    continue;
                }
                let (ours, theirs) = tokio::io::duplex(LINE_BYTES);
                server.lines.set(server.lines.get() + 1);
                server.carried.borrow_mut().push(0);
                let connection = server.world.borrow().connection();
                let number = server.lines.get() - 1;
                tokio::task::spawn_local(serve_line(server.clone(), number, connection, theirs));
                let _ = reply.send(ours);
            }
        });
        port
    }

    pub fn dial(&self) -> Arc<dyn Dial> {
        Arc::new(Dialler(self.dialled.clone()))
    }

    /// From now on `judge` is shown every frame.
    pub fn meddle(&self, judge: impl FnMut(Way, &[u8]) -> Fate + 'static) {
        *self.judge.borrow_mut() = Box::new(judge);
    }

    pub fn world(&self) -> std::cell::Ref<'_, World> {
        self.world.borrow()
    }

    /// Another client of the server, on a line nobody cuts.
    pub async fn join_another(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(LINE_BYTES);
        let (connection, pool) = (self.world().connection(), self.world().pool.clone());
        tokio::task::spawn_local(serve(connection, pool, theirs, honest(), Line::default()));
        let (reader, writer) = tokio::io::split(ours);
        let credentials = Credentials::password(USER, PASSWORD);
        Client::connect_over(reader, writer, &url(), credentials, &Options::default()).await.unwrap()
    }

    /// Cuts all lines there are.
    pub fn cut(&self) {
        self.cuts.send_modify(|(count, which)| (*count, *which) = (*count + 1, None));
    }

    /// Cuts one, counted from 0.
    pub fn cut_line(&self, line: usize) {
        self.cuts.send_modify(|(count, which)| (*count, *which) = (*count + 1, Some(line)));
    }

    /// The server dies and comes up again, with its store.
    pub fn restart(&self) {
        self.cut();
        self.world.borrow_mut().restart();
    }

    /// All lines are cut, and by the time others are made the server has forgotten who was there.
    pub fn forget(&self) {
        self.cut();
        self.world.borrow_mut().forget();
    }

    fn fate(&self, way: Way, frame: &[u8]) -> Fate {
        let mut judge = self.judge.borrow_mut();
        judge(way, frame)
    }
}

#[derive(Debug)]
struct Dialler(mpsc::UnboundedSender<(Option<IpAddr>, oneshot::Sender<DuplexStream>)>);

impl Dial for Dialler {
    fn dial(&self, address: Option<IpAddr>) -> Dialling {
        let (reply, line) = oneshot::channel();
        let asked = self.0.send((address, reply));
        Box::pin(async move {
            let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            asked.map_err(|_| refused())?;
            let (reader, writer) = tokio::io::split(line.await.map_err(|_| refused())?);
            Ok((Box::new(reader) as Receiver, Box::new(writer) as Sender))
        })
    }
}

async fn serve_line(port: Port, number: usize, mut server: Connection, line: DuplexStream) {
    let (mut requests, mut replies) = tokio::io::split(line);
    let (arrived, mut frames) = mpsc::unbounded_channel();
    let intake = tokio::task::spawn_local(async move {
        while let Some(frame) = next_frame(&mut requests).await {
            let _ = arrived.send(frame);
        }
    });
    let mut cuts = port.cuts.subscribe();
    let why = loop {
        tokio::select! {
            biased;
            _ = cuts.changed() => {
                if cuts.borrow_and_update().1.is_none_or(|line| line == number) {
                    break "the line is cut";
                }
            }
            reply = next_reply(&mut server) => {
                let Ok(mut reply) = reply else { break "it is over" };
                let fate = port.fate(Way::Reply, &reply);
                port.carried.borrow_mut()[number] += reply.len();
                fate.change(&mut reply);
                if fate == Fate::CutBefore || fate != Fate::Drop && replies.write_all(&reply).await.is_err() {
                    break "the line is cut";
                }
                if fate == Fate::CutBehind {
                    break "the line is cut";
                }
            }
            frame = frames.recv() => {
                let Some(frame) = frame else { break "the client is gone" };
                let fate = port.fate(Way::Request, &frame);
                if fate == Fate::CutBefore {
                    break "the line is cut";
                }
                if fate == Fate::Hang {
                    while next_reply(&mut server).await.is_ok() {}
                    break "the server ended it";
                }
                if fate != Fate::Drop {
                    let mut buf = port.world.borrow().pool.get(frame.len());
                    buf.push(&frame);
                    server.receive(Frame::from(buf), false);
                }
                if fate == Fate::CutBehind {
                    server.poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
                    break "the line is cut";
                }
            }
        }
    };
    server.closed(why);
    intake.abort();
}
