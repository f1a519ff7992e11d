//! The contract between a connection's driver and a protocol.

use std::ops::{Deref, DerefMut};
use std::task::Context;

use vfs::{Frame, Reply};

/// What the first bytes of a frame say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// More bytes are needed to tell.
    Unknown,
    /// The frame has `len_bytes` in all, its prefix included. Bytes from `payload_at` on are best placed on a page
    /// boundary when the frame gets a buffer of its own.
    Known {
        /// Length in all.
        len_bytes: usize,
        /// Where a large payload is expected to begin.
        payload_at: usize,
    },
    /// The peer does not speak the protocol or announces more than it may: the connection ends.
    Refuse(&'static str),
}

/// One connection of a protocol: frames in, replies out. It lives on one thread and never blocks it.
pub trait Machine {
    /// What its protocol is called where connections are listed.
    fn protocol(&self) -> &'static str {
        ""
    }

    /// The frames that `receive` is given next were whole at `now_ns`; nanoseconds since some point, never going back.
    fn arrived(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// The replies that `next_reply` gave were handed to the socket at `now_ns`.
    fn sent(&mut self, now_ns: u64) {
        let _ = now_ns;
    }

    /// Looks at the bytes a frame begins with; at most its prefix is needed.
    fn framing(&self, prefix: &[u8]) -> Framing;

    /// Takes one complete frame. `more_behind` tells that further requests are waiting already.
    fn receive(&mut self, frame: Frame, more_behind: bool);

    /// Lets parked requests go on; called whenever the task was woken.
    fn poll(&mut self, cx: &mut Context<'_>);

    /// The next frame to send, in the order in which they are to leave. The driver takes no more than the socket and its
    /// own bound have room for; the machine bounds what it keeps.
    fn next_reply(&mut self) -> Option<Reply>;

    /// Whether it takes further requests now. While not, the driver reads nothing, so that the peer's window closes.
    fn ready(&self) -> bool;

    /// Whether it holds back requests it has taken until replies have left; it goes on with them in `poll`.
    fn stalled(&self) -> bool;

    /// Whether requests are parked whose replies are owed.
    fn busy(&self) -> bool;

    /// Whether the connection is to end once all replies are sent.
    fn finished(&self) -> bool;

    /// Whether the peer has proved who it is. One that has not within the handshake limit is dropped.
    fn established(&self) -> bool;

    /// The connection is over, for whatever reason; called exactly once, last but for `poll` while it lingers.
    fn closed(&mut self, why: &str);

    /// Whether something goes on after the end of the connection: then it is polled on, without a socket.
    fn lingers(&self) -> bool {
        false
    }
}

/// A machine that is told of the end of its connection whatever happens to the connection's driver.
pub(crate) struct Attended {
    machine: Box<dyn Machine>,
    is_over: bool,
}

impl Attended {
    pub(crate) fn new(machine: Box<dyn Machine>) -> Self {
        Self { machine, is_over: false }
    }

    /// The connection is over; later calls do nothing.
    pub(crate) fn over(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.machine.closed(why);
        }
    }
}

impl Deref for Attended {
    type Target = dyn Machine;

    fn deref(&self) -> &Self::Target {
        &*self.machine
    }
}

impl DerefMut for Attended {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.machine
    }
}

impl Drop for Attended {
    /// A connection that panicked, or outlived the time there is to stop, ends like any other: what it held must not
    /// stay held.
    fn drop(&mut self) {
        self.over("broken off");
    }
}
