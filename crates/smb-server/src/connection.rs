//! One connection: what it has negotiated, its sessions, its window of credits, and the requests it has parked.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::stream::{FuturesUnordered, StreamExt};
use smb_wire::crypto::{PreauthHash, SigningKey};
use smb_wire::smb2::{Capabilities, Command};
use vfs::metrics::{Leaving, Mark};
use vfs::{Frame, Parked, Reply, Start, in_place};

use crate::credits::Window;
use crate::handlers::negotiate::Negotiated;
use crate::handlers::session_setup::Login;
use crate::mailbox::{Letter, Mailbox};
use crate::reply::ReplyWriter;
use crate::server::Server;
use crate::session::Channel;
use crate::waiting::WaitingList;
use crate::{PathCounters, Shard, dispatch};

/// The direct-TCP prefix.
const PREFIX_BYTES: usize = 4;
/// The largest frame from a peer that has not logged in: a SESSION_SETUP with a large token.
const MAX_GREETING_BYTES: usize = 64 << 10;
/// What a frame may hold beside the largest transfer: headers of a compound, contexts, transform header.
const MAX_OVERHEAD_BYTES: usize = 64 << 10;
/// Requests of one connection that may be parked at a time. Each is bounded by its credits; this bounds what they hold.
const MAX_PARKED: usize = 1024;
/// Bytes of replies that may be queued or under way before requests are held back. One request is always let through,
/// however large its reply.
const MOST_REPLY_BYTES: usize = 1 << 20;
/// Requests that begin before what they have led to is sent and other connections have their turn: as many as leave in one
/// call. What came with them waits for the next poll.
const MOST_AT_ONCE: u32 = 64;
/// Where a WRITE's data begin in a frame: prefix, header, fixed part.
const WRITE_PAYLOAD_AT: usize = PREFIX_BYTES + 64 + 48;

/// Where the command is in a header.
const COMMAND_AT: usize = 12;
/// The longest request that is copied out of the buffer it came in: a pool's smallest buffer.
const MOST_APART_BYTES: usize = 1 << 10;

/// Room for a notification.
const NOTICE_BYTES: usize = 128;

/// One connection as a machine.
pub struct Connection {
    inner: Rc<Inner>,
    /// How a request begins: (connection, message, whether more are behind it, when it came).
    requests: Box<dyn Start<(Rc<Inner>, Frame, bool, u64)>>,
    parked: FuturesUnordered<Parked>,
    /// Frames taken in whose turn comes when replies have left.
    held_back: VecDeque<Taken>,
    /// So many more requests may begin before other connections have their turn.
    turns: u32,
    waker: Waker,
    /// When the frames came that are taken in now.
    arrived_ns: u64,
    /// The connection is over, and something of it goes on.
    lingers: bool,
}

/// A frame that was taken in.
struct Taken {
    frame: Frame,
    more_behind: bool,
    arrived_ns: u64,
}

/// The part that requests under way share.
pub(crate) struct Inner {
    pub server: Arc<Server>,
    pub shard: Shard,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub state: RefCell<State>,
    /// What other threads have for the client.
    pub mailbox: Arc<Mailbox>,
    replies: RefCell<VecDeque<Reply>>,
    /// How the replies are timed that are not yet at the socket.
    leaving: RefCell<Leaving>,
    /// Bytes of the replies queued and of the room that requests under way have taken.
    reply_bytes: Cell<usize>,
    finished: Cell<Option<&'static str>>,
    /// Requests under way that can be told again on another connection.
    lasting: Cell<usize>,
}

/// What requests change.
pub(crate) struct State {
    pub negotiated: Option<Rc<Negotiated>>,
    pub preauth: PreauthHash,
    pub window: Window,
    /// Sessions that may be used on this connection.
    pub channels: HashMap<u64, Channel>,
    /// Logins under way, by session id.
    pub logins: HashMap<u64, Login>,
    /// Requests that wait and can be cancelled.
    pub waiting: WaitingList,
}

impl Connection {
    /// A connection from `peer`, nothing received yet.
    pub fn new(server: Arc<Server>, shard: Shard, peer: SocketAddr, local: SocketAddr) -> Self {
        let window = Window::new(server.config.load().max_credits);
        let state = State {
            negotiated: None,
            preauth: PreauthHash::new(),
            window,
            channels: HashMap::new(),
            logins: HashMap::new(),
            waiting: WaitingList::default(),
        };
        let inner = Inner {
            server,
            shard,
            peer,
            local,
            state: RefCell::new(state),
            mailbox: Arc::new(Mailbox::of(peer)),
            replies: RefCell::default(),
            leaving: RefCell::default(),
            reply_bytes: Cell::new(0),
            finished: Cell::new(None),
            lasting: Cell::new(0),
        };
        Self {
            inner: Rc::new(inner),
            requests: in_place(|(conn, message, more, at_ns)| dispatch::frame(conn, message, more, at_ns)),
            parked: FuturesUnordered::new(),
            held_back: VecDeque::new(),
            turns: MOST_AT_ONCE,
            waker: Waker::noop().clone(),
            arrived_ns: 0,
            lingers: false,
        }
    }

    /// How long the frame is that begins with `prefix`, prefix included, and where a large payload in it would begin;
    /// `Ok(None)` when `prefix` is too short to tell. An error ends the connection.
    pub fn framing(&self, prefix: &[u8]) -> Result<Option<(usize, usize)>, &'static str> {
        let Some([kind, a, b, c]) = prefix.first_chunk::<PREFIX_BYTES>().copied() else { return Ok(None) };
        if kind != 0 {
            return Err("not direct TCP: a NetBIOS session message");
        }
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        if len > self.max_frame_bytes() {
            return Err("a frame longer than was negotiated");
        }
        Ok(Some((PREFIX_BYTES + len, WRITE_PAYLOAD_AT)))
    }

    fn max_frame_bytes(&self) -> usize {
        if !self.is_established() {
            return MAX_GREETING_BYTES;
        }
        let state = self.inner.state.borrow();
        let largest = state.negotiated.as_ref().map_or(0, |n| n.max_transfer_bytes());
        largest as usize + MAX_OVERHEAD_BYTES
    }

    /// The frames taken next were whole at `now_ns`, by a clock that never goes back.
    pub fn arrived(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
    }

    /// The replies that were ready were handed to the socket at `now_ns`.
    pub fn sent(&mut self, now_ns: u64) {
        self.inner.leaving.borrow_mut().left(now_ns, &self.inner.shard.counters.operations);
    }

    /// Takes one complete frame. `more_behind`: further requests are waiting already.
    pub fn receive(&mut self, frame: Frame, more_behind: bool) {
        let taken = Taken { frame, more_behind, arrived_ns: self.arrived_ns };
        if self.held_back.is_empty() && self.has_room() && self.turns > 0 {
            self.begin(taken);
        } else {
            self.held_back.push_back(taken);
        }
    }

    /// Replies are made only as fast as they leave: a client that asks for more than it reads is not buffered for, and
    /// one that reads gets its replies from memory that is still in the cache.
    fn has_room(&self) -> bool {
        // Those that wait for something that may never happen are bounded where they begin to.
        let waiting = self.inner.state.borrow().waiting.len();
        self.inner.reply_bytes.get() < MOST_REPLY_BYTES && self.parked.len() < MAX_PARKED + waiting
    }

    fn begin(&mut self, taken: Taken) {
        let Taken { frame, more_behind, arrived_ns } = taken;
        if self.inner.finished.get().is_some() {
            return;
        }
        self.turns = self.turns.saturating_sub(1);
        let Some(message) = frame.part(PREFIX_BYTES..frame.len()) else { return };
        drop(frame);
        let message = self.apart(message);
        let request = (Rc::clone(&self.inner), message, more_behind, arrived_ns);
        if let Some(request) = self.requests.start(request, &mut Context::from_waker(&self.waker)) {
            PathCounters::bump(&self.inner.shard.counters.parked, 1);
            self.parked.push(request);
        }
        // A break that this request asks for goes out before the answer to the next one.
        self.tell();
    }

    /// Whether the connection is over, but a CREATE of it goes on that its client will tell again on another channel of the
    /// session: that must find it done, or under way (MS-SMB2 3.3.5.9). Nobody is answered.
    pub fn is_lingering(&self) -> bool {
        self.lingers && self.inner.lasting.get() > 0
    }

    /// A CHANGE_NOTIFY may wait for ever: it must not keep the buffer that it came in, with room for many requests.
    fn apart(&self, message: Frame) -> Frame {
        let command = message.get(COMMAND_AT..).and_then(|rest| rest.first_chunk().copied()).map(u16::from_le_bytes);
        if command != Some(Command::ChangeNotify as u16) || message.len() > MOST_APART_BYTES {
            return message;
        }
        let mut own = self.inner.shard.pool.get(message.len());
        own.push(&message);
        Frame::from(own)
    }

    /// Lets parked requests go on.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        if !self.waker.will_wake(cx.waker()) {
            self.waker = cx.waker().clone();
            self.inner.mailbox.listen(&self.waker);
        }
        for ended in self.inner.mailbox.take_ended() {
            self.inner.state.borrow_mut().waiting.ended(ended);
        }
        while let Poll::Ready(Some(())) = self.parked.poll_next_unpin(cx) {}
        if self.lingers {
            self.inner.replies.borrow_mut().clear();
            return;
        }
        self.turns = MOST_AT_ONCE;
        while self.has_room()
            && self.turns > 0
            && let Some(taken) = self.held_back.pop_front()
        {
            self.begin(taken);
        }
        self.tell();
    }

    /// Tells the client what is not an answer to anything, after the replies that are ready: it must know its oplock before
    /// it is told to give it up.
    fn tell(&self) {
        self.inner.mailbox.take().iter().for_each(|letter| self.inner.notify(letter));
    }

    /// The next frame to send.
    pub fn next_reply(&mut self) -> Option<Reply> {
        let reply = self.inner.replies.borrow_mut().pop_front()?;
        self.inner.reply_bytes.update(|bytes| bytes - reply.len_bytes());
        Some(reply)
    }

    /// Whether it holds back requests until replies have left.
    pub fn is_stalled(&self) -> bool {
        !self.held_back.is_empty() && self.has_room()
    }

    /// Whether it takes further requests now.
    pub fn is_ready(&self) -> bool {
        self.held_back.is_empty() && self.has_room() && self.inner.finished.get().is_none()
    }

    /// Whether requests are parked whose replies are owed. Those that wait for something that may never happen do not
    /// count.
    pub fn is_busy(&self) -> bool {
        !self.held_back.is_empty() || self.parked.len() > self.inner.state.borrow().waiting.len()
    }

    /// Whether the connection is to end once its replies are sent, and why.
    pub fn finished(&self) -> Option<&'static str> {
        self.inner.finished.get()
    }

    /// Whether somebody has logged in.
    pub fn is_established(&self) -> bool {
        !self.inner.state.borrow().channels.is_empty()
    }

    /// The connection is over. Sessions that are used on no other end, and their opens are closed. What such another may
    /// still ask for goes on ([`Connection::is_lingering`]).
    pub fn closed(&mut self, why: &str) {
        self.held_back.clear();
        let channels: Vec<_> = self.inner.state.borrow_mut().channels.drain().map(|(_, c)| c).collect();
        let parted: Vec<_> = channels.into_iter().map(|c| (c.session.part(&self.inner.mailbox), c)).collect();
        self.lingers = self.inner.lasting.get() > 0 && parted.iter().any(|(ends, _)| !ends);
        if self.lingers {
            self.inner.state.borrow_mut().waiting.hang_up();
        } else {
            self.parked.clear();
        }
        for (ends, channel) in parted {
            if !ends {
                tracing::debug!(peer = %self.inner.peer, user = %channel.session.user().name, why, "channel ended");
                continue;
            }
            tracing::info!(peer = %self.inner.peer, user = %channel.session.user().name, why, "session ended");
            crate::handlers::session_setup::end_session(&self.inner, &channel.session);
        }
        // What was not sent goes the way of what comes from now on: nobody is there to be told.
        for letter in self.inner.mailbox.close() {
            self.inner.server.router.deliver(letter.notice, letter.handle.persistent);
        }
    }
}

/// A request under way that can be told again on another connection.
pub(crate) struct Lasting(Rc<Inner>);

impl Drop for Lasting {
    fn drop(&mut self) {
        self.0.lasting.update(|count| count - 1);
    }
}

/// Room taken for a reply that is being made.
pub(crate) struct Reserved {
    conn: Rc<Inner>,
    bytes: usize,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.conn.reply_bytes.update(|held| held - self.bytes);
    }
}

impl Inner {
    /// Queues what no request waits for to end with.
    pub fn send(&self, reply: Reply) {
        self.send_timed(reply, None);
    }

    /// Queues the reply to a frame.
    pub fn send_timed(&self, reply: Reply, mark: Option<Mark>) {
        self.reply_bytes.update(|bytes| bytes + reply.len_bytes());
        self.replies.borrow_mut().push_back(reply);
        if let Some(mark) = mark {
            self.leaving.borrow_mut().push(mark);
        }
    }

    /// Tells the client what is not an answer to anything.
    fn notify(&self, letter: &Letter) {
        PathCounters::bump(&self.shard.counters.breaks, 1);
        let mut out = ReplyWriter::new(&self.shard.pool, NOTICE_BYTES);
        out.begin(&Letter::header());
        letter.put(&mut out);
        let seal = letter.sealed_for();
        self.send(dispatch::finish(self, out, seal.as_deref()));
    }

    /// Counts the room a request takes for its reply until the guard is dropped.
    pub fn reserve(self: &Rc<Self>, bytes: usize) -> Reserved {
        self.reply_bytes.update(|held| held + bytes);
        Reserved { conn: Rc::clone(self), bytes }
    }

    /// Marks a request as one that goes on without the connection, until the guard is dropped.
    pub fn lasts(self: &Rc<Self>) -> Lasting {
        self.lasting.update(|count| count + 1);
        Lasting(Rc::clone(self))
    }

    /// Ends the connection once what is queued is sent: the peer broke a rule for which the specification has no status.
    pub fn disconnect(&self, why: &'static str) {
        tracing::debug!(peer = %self.peer, why, "the connection is ended");
        self.finished.set(Some(why));
    }

    /// What was negotiated.
    pub fn negotiated(&self) -> Option<Rc<Negotiated>> {
        self.state.borrow().negotiated.clone()
    }

    /// Whether the client can use several connections for one session.
    pub fn has_channels(&self) -> bool {
        self.state.borrow().negotiated.as_ref().is_some_and(|n| {
            n.capabilities.contains(Capabilities::MULTI_CHANNEL)
                && n.client_capabilities.contains(Capabilities::MULTI_CHANNEL)
        })
    }

    /// The session `id`, if it may be used here.
    pub fn channel(&self, id: u64) -> Option<Channel> {
        let ended = |c: &Channel| c.session.ended.load(std::sync::atomic::Ordering::Relaxed);
        self.state.borrow().channels.get(&id).filter(|c| !ended(c)).cloned()
    }

    /// The key that a message's signature is checked with: the channel's; where the connection is no channel of the
    /// session, the session's own, so that who has it can trust the refusal (MS-SMB2 3.3.5.2.4).
    pub fn verifier(&self, session_id: u64) -> Option<Arc<SigningKey>> {
        // Ended sessions too: who used one is told so under its signature.
        let channel = self.state.borrow().channels.get(&session_id).cloned();
        match channel {
            Some(channel) => channel.signing,
            None => self.server.session(session_id).and_then(|s| s.signing.clone()),
        }
    }

    /// Runs `job` where it may wait.
    pub async fn offload<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        vfs::offload(&*self.shard.executor, job).await
    }
}
