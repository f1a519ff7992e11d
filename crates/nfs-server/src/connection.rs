//! One connection: records out of fragments, calls that are under way, replies that wait to be sent.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::stream::{FuturesUnordered, StreamExt};
use nfs_wire::nfs3::WriteHead;
use nfs_wire::rpc::{Call, FragmentHeader};
use nfs_wire::xdr::{Put, Reader};
use vfs::metrics::{Leaving, Mark};
use vfs::{Buf, Frame, Parked, Reply, Start, in_place};

use crate::ahead::Ahead;
use crate::config::Caller;
use crate::nfs4::state::line::Line;
use crate::recent::Recent;
use crate::reply::ReplyWriter;
use crate::server::Server;
use crate::{PathCounters, Shard, dispatch, nfs4};

/// The record mark.
const MARK_BYTES: usize = 4;
/// What a record may hold beside the largest WRITE: RPC header, credential, handle.
const MAX_OVERHEAD_BYTES: usize = 4 << 10;
/// The largest record of a host that may mount nothing: it can ask what is exported, and be told no.
const MAX_STRANGER_BYTES: usize = 2 << 10;
/// Fragments of one record that may be empty: a peer that sends more means no record.
const MAX_EMPTY_FRAGMENTS: u32 = 64;
/// Calls of one connection that may be parked at a time.
const MAX_PARKED: usize = 1024;
/// Bytes of replies that may be queued or under way before calls are held back. One call is always let through, however
/// large its reply.
const MOST_REPLY_BYTES: usize = 1 << 20;
/// Records up to this long get no buffer of their own, so that nobody asks where their data begin.
const SMALL_BYTES: usize = 64 << 10;
/// Calls that begin before what they have led to is sent and other connections have their turn: as many as leave in one
/// call. What came with them waits for the next poll.
const MOST_AT_ONCE: u32 = 64;
/// Where a WRITE's data begin with a short credential and handle, when it cannot be seen.
const WRITE_PAYLOAD_AT: usize = 160;

/// One connection as a machine.
pub struct Connection {
    inner: Rc<Inner>,
    /// How a call begins: (connection, record, whether more are behind it, when it came).
    calls: Box<dyn Start<(Rc<Inner>, Frame, bool, u64)>>,
    parked: FuturesUnordered<Parked>,
    /// Records taken in whose turn comes when replies have left.
    held_back: VecDeque<Taken>,
    /// Fragments of a record whose last one has not come.
    partial: Option<Partial>,
    /// So many more calls may begin before other connections have their turn.
    turns: u32,
    waker: Waker,
    /// When the fragments came that are taken in now.
    arrived_ns: u64,
}

/// A record that was taken in.
struct Taken {
    record: Frame,
    more_behind: bool,
    arrived_ns: u64,
}

struct Partial {
    buf: Buf,
    empty: u32,
}

/// The part that calls under way share.
pub(crate) struct Inner {
    pub server: Arc<Server>,
    pub shard: Shard,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    /// The last credential's bytes and what they said: a client's calls mostly bear the same.
    pub caller: RefCell<Option<(Vec<u8>, Arc<Caller>)>>,
    /// What was read last, while it may be used again.
    pub recent: Recent,
    /// The listing that is being read.
    pub ahead: Ahead,
    replies: RefCell<VecDeque<Reply>>,
    /// How the replies are timed that are not yet at the socket.
    leaving: RefCell<Leaving>,
    /// Bytes of the replies queued and of the room that calls under way have taken.
    reply_bytes: Cell<usize>,
    finished: Cell<Option<&'static str>>,
    /// A call that made sense has come.
    pub established: Cell<bool>,
    /// The connection as a client that can be called.
    pub line: Arc<Line>,
}

impl Connection {
    /// A connection from `peer`, nothing received yet.
    pub fn new(server: Arc<Server>, shard: Shard, peer: SocketAddr, local: SocketAddr) -> Self {
        let inner = Inner {
            ahead: Ahead::new(&server.answers, peer.ip(), &server.env.clock),
            server,
            shard,
            peer,
            local,
            caller: RefCell::default(),
            recent: Recent::default(),
            replies: RefCell::default(),
            leaving: RefCell::default(),
            reply_bytes: Cell::new(0),
            finished: Cell::new(None),
            established: Cell::new(false),
            line: Arc::default(),
        };
        Self {
            inner: Rc::new(inner),
            calls: in_place(|(conn, record, more, at_ns)| dispatch::record(conn, record, more, at_ns)),
            parked: FuturesUnordered::new(),
            held_back: VecDeque::new(),
            partial: None,
            turns: MOST_AT_ONCE,
            waker: Waker::noop().clone(),
            arrived_ns: 0,
        }
    }

    /// How long the fragment is that begins with `prefix`, its mark included, and where a large payload in it would
    /// begin; `Ok(None)` when `prefix` is too short to tell. An error ends the connection.
    pub fn framing(&self, prefix: &[u8]) -> Result<Option<(usize, usize)>, &'static str> {
        let Some(mark) = prefix.first_chunk::<MARK_BYTES>() else { return Ok(None) };
        let len = FragmentHeader::from_bytes(*mark).len_bytes as usize;
        let held = self.partial.as_ref().map_or(0, |partial| partial.buf.len());
        let whole = held.saturating_add(len);
        // The shortest bound is asked first: most records are within it, whoever sends them.
        if whole > MAX_STRANGER_BYTES && whole > self.max_record_bytes() {
            return Err("a record longer than any call");
        }
        let payload_at = if len <= SMALL_BYTES { WRITE_PAYLOAD_AT } else { payload_at(prefix) };
        Ok(Some((MARK_BYTES + len, payload_at)))
    }

    fn max_record_bytes(&self) -> usize {
        if !self.inner.server.knows(self.inner.peer) {
            return MAX_STRANGER_BYTES;
        }
        self.inner.server.settings.load().config.max_write_bytes as usize + MAX_OVERHEAD_BYTES
    }

    /// The fragments taken next were whole at `now_ns`, by a clock that never goes back.
    pub fn arrived(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
        self.inner.recent.end_round();
    }

    /// The replies that were ready were handed to the socket at `now_ns`.
    pub fn sent(&mut self, now_ns: u64) {
        self.inner.recent.end_round();
        self.inner.leaving.borrow_mut().left(now_ns, &self.inner.shard.counters.operations);
    }

    /// Takes one complete fragment. `more_behind`: further calls are waiting already.
    pub fn receive(&mut self, frame: Frame, more_behind: bool) {
        let Some(mark) = frame.first_chunk::<MARK_BYTES>() else { return };
        let last = FragmentHeader::from_bytes(*mark).last;
        let Some(fragment) = frame.part(MARK_BYTES..frame.len()) else { return };
        drop(frame);
        let record = match self.partial.take() {
            None if last => fragment,
            partial => match self.put_together(partial, &fragment, last) {
                Some(record) => record,
                None => return,
            },
        };
        let taken = Taken { record, more_behind, arrived_ns: self.arrived_ns };
        if self.held_back.is_empty() && self.has_room() && self.turns > 0 {
            self.begin(taken);
        } else {
            self.held_back.push_back(taken);
        }
    }

    /// Appends a fragment to those before it; the record, when it was the last.
    fn put_together(&mut self, partial: Option<Partial>, fragment: &[u8], last: bool) -> Option<Frame> {
        let pool = &self.inner.shard.pool;
        let mut partial = partial.unwrap_or_else(|| Partial { buf: pool.get(fragment.len()), empty: 0 });
        if partial.buf.len() + fragment.len() > self.max_record_bytes() {
            self.inner.disconnect("a record longer than any call");
            return None;
        }
        partial.empty += u32::from(fragment.is_empty());
        if partial.empty > MAX_EMPTY_FRAGMENTS {
            self.inner.disconnect("a record of empty fragments");
            return None;
        }
        pool.ensure_room(&mut partial.buf, fragment.len());
        partial.buf.push(fragment);
        if last {
            return Some(Frame::from(partial.buf));
        }
        self.partial = Some(partial);
        None
    }

    /// Replies are made only as fast as they leave: a client that asks for more than it reads is not buffered for.
    fn has_room(&self) -> bool {
        self.inner.reply_bytes.get() < MOST_REPLY_BYTES && self.parked.len() < MAX_PARKED
    }

    fn begin(&mut self, taken: Taken) {
        let Taken { record, more_behind, arrived_ns } = taken;
        if self.inner.finished.get().is_some() {
            return;
        }
        self.turns = self.turns.saturating_sub(1);
        let call = (Rc::clone(&self.inner), record, more_behind, arrived_ns);
        if let Some(call) = self.calls.start(call, &mut Context::from_waker(&self.waker)) {
            PathCounters::bump(&self.inner.shard.counters.parked, 1);
            self.parked.push(call);
        }
    }

    /// Lets parked calls go on.
    pub fn poll(&mut self, cx: &mut Context<'_>) {
        self.inner.recent.end_round();
        if !self.waker.will_wake(cx.waker()) {
            self.waker = cx.waker().clone();
            self.inner.line.listen(&self.waker);
        }
        while let Some(record) = self.inner.line.next() {
            self.inner.send_record(&record);
        }
        while let Poll::Ready(Some(())) = self.parked.poll_next_unpin(cx) {}
        self.turns = MOST_AT_ONCE;
        while self.has_room()
            && self.turns > 0
            && let Some(taken) = self.held_back.pop_front()
        {
            self.begin(taken);
        }
    }

    /// The next bytes to send.
    pub fn next_reply(&mut self) -> Option<Reply> {
        let reply = self.inner.replies.borrow_mut().pop_front()?;
        self.inner.reply_bytes.update(|bytes| bytes - reply.len_bytes());
        Some(reply)
    }

    /// Whether it holds back calls that it could go on with.
    pub fn is_stalled(&self) -> bool {
        !self.held_back.is_empty() && self.has_room()
    }

    /// Whether it takes further calls now.
    pub fn is_ready(&self) -> bool {
        self.held_back.is_empty() && self.has_room() && self.inner.finished.get().is_none()
    }

    /// Whether calls are parked whose replies are owed.
    pub fn is_busy(&self) -> bool {
        !self.held_back.is_empty() || !self.parked.is_empty()
    }

    /// Whether the connection is to end once its replies are sent, and why.
    pub fn finished(&self) -> Option<&'static str> {
        self.inner.finished.get()
    }

    /// Whether the peer has shown that it speaks the protocol, and may mount something.
    pub fn is_established(&self) -> bool {
        self.inner.established.get()
    }

    /// Whether something goes on after the end of the connection: nothing does.
    pub fn is_lingering(&self) -> bool {
        false
    }

    /// The connection is over. No state ends with it; nobody is called back on it any more.
    pub fn closed(&mut self, why: &str) {
        self.inner.line.close();
        self.inner.recent.end_round();
        self.inner.ahead.close();
        tracing::debug!(peer = %self.inner.peer, why, "an NFS connection ended");
        self.parked.clear();
        self.held_back.clear();
        self.partial = None;
    }
}

/// Where the data of a WRITE begin in a fragment, as far as its first bytes tell.
fn payload_at(prefix: &[u8]) -> usize {
    let mut r = Reader::new(prefix.get(MARK_BYTES..).unwrap_or_default());
    let found = match Call::decode(&mut r) {
        Ok(call) if call.version == 4 => nfs4::find_payload(&mut r),
        Ok(_) => WriteHead::decode_with_length(&mut r).is_ok(),
        Err(_) => false,
    };
    if found { MARK_BYTES + r.position() } else { WRITE_PAYLOAD_AT }
}

/// Room taken for a reply that is being made.
pub(crate) struct Reserved {
    conn: Rc<Inner>,
    bytes: usize,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.inner.line.close();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.conn.reply_bytes.update(|held| held - self.bytes);
    }
}

impl Inner {
    /// Queues a reply that is timed as `mark` says.
    pub fn send(&self, reply: Reply, mark: Option<Mark>) {
        self.reply_bytes.update(|bytes| bytes + reply.len_bytes());
        self.replies.borrow_mut().push_back(reply);
        if let Some(mark) = mark {
            self.leaving.borrow_mut().push(mark);
        }
    }

    /// Queues a record of this end's own.
    fn send_record(&self, record: &[u8]) {
        let mut out = ReplyWriter::new(&self.shard.pool, record.len() + MARK_BYTES);
        out.put_bytes(record);
        self.send(out.finish().0, None);
    }

    /// Counts the room a call takes for its reply until the guard is dropped.
    pub fn reserve(self: &Rc<Self>, bytes: usize) -> Reserved {
        self.reply_bytes.update(|held| held + bytes);
        Reserved { conn: Rc::clone(self), bytes }
    }

    /// Ends the connection once what is queued is sent.
    pub fn disconnect(&self, why: &'static str) {
        tracing::debug!(peer = %self.peer, why, "the connection is ended");
        self.finished.set(Some(why));
    }

    /// Runs `job` where it may wait.
    pub async fn offload<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> Option<R> {
        vfs::offload(&*self.shard.executor, job).await
    }
}
