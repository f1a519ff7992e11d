//! Lets a large request come whole: its driver sleeps while the parts arrive and is woken once, when the kernel has all of
//! it (`SO_RCVLOWAT`). A wake-up for each part costs this side a switch and the peer, where it sends on the same machine, the
//! interrupt that causes it and the wait for a socket that is being read. What that gains stands in
//! `docs/decisions/0003-large-writes.md`.
//!
//! A peer whose rest does not come at once, because its network is slower or because it waits until what is here is
//! acknowledged (Nagle's algorithm), is taken from after [`PATIENCE`] as if nobody had waited. Then its large requests are
//! taken as they come for a while, twice as many each time. Nothing is received here.

use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::sys;

/// How long the rest of a request may take. The runtime's timer adds up to a millisecond; 1 MiB takes 0.9 ms at 10 Gbit/s.
const PATIENCE: Duration = Duration::from_millis(4);
/// The most requests that are taken as they come before the next try.
const MOST_LEFT_ALONE: u32 = 1024;

/// What a round of receiving brought.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Whether a request was completed.
    pub ended: bool,
    /// What the large request under way lacks, 0 where there is none.
    pub missing_bytes: usize,
}

/// The waiting of one connection for its large requests.
pub struct Whole {
    /// As the socket has it because of this; 1 wakes for anything.
    low_water_bytes: usize,
    /// Whether a large request is under way, and whether it is waited for.
    is_under_way: bool,
    waits: bool,
    /// When something came of it last.
    since: Instant,
    /// Made when it is first needed. It is left to ring early rather than moved along with each request.
    timer: Option<Pin<Box<Sleep>>>,
    /// Requests to be left alone now, and after the next time in vain.
    left_alone: u32,
    next_left_alone: u32,
}

impl Whole {
    /// Nothing is under way.
    pub fn new() -> Self {
        Self {
            low_water_bytes: 1,
            is_under_way: false,
            waits: false,
            since: Instant::now(),
            timer: None,
            left_alone: 0,
            next_left_alone: 1,
        }
    }

    /// Notes what a round of receiving brought; whether a request came that was waited for.
    pub fn took(&mut self, socket: BorrowedFd<'_>, round: Round) -> bool {
        let came = round.ended && self.is_waiting();
        if came {
            self.next_left_alone = (self.next_left_alone - 1).max(1);
        }
        let is_under_way = round.missing_bytes > 0;
        if is_under_way && (round.ended || !self.is_under_way) {
            self.waits = self.left_alone == 0;
            self.left_alone = self.left_alone.saturating_sub(1);
        }
        self.is_under_way = is_under_way;
        self.waits &= is_under_way;
        if self.waits {
            self.since = Instant::now();
        }
        self.set_low_water(socket, if self.waits { round.missing_bytes } else { 1 });
        came
    }

    /// Somebody else has set the socket's low-water mark.
    pub fn is_overruled(&mut self) {
        (self.is_under_way, self.waits, self.low_water_bytes) = (false, false, 1);
    }

    /// Asked when the socket has nothing to tell. Ready when the rest of a request has not come in time: what there is of
    /// it is to be taken.
    pub fn poll_patience(&mut self, cx: &mut Context<'_>, socket: BorrowedFd<'_>) -> Poll<()> {
        if !self.is_waiting() {
            return Poll::Pending;
        }
        let deadline = self.since + PATIENCE;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        while !timer.is_elapsed() || Instant::now() < deadline {
            if timer.is_elapsed() {
                timer.as_mut().reset(deadline);
            }
            ready!(timer.as_mut().poll(cx));
        }
        self.waits = false;
        self.left_alone = self.next_left_alone;
        self.next_left_alone = (self.next_left_alone * 2).min(MOST_LEFT_ALONE);
        self.set_low_water(socket, 1);
        Poll::Ready(())
    }

    fn is_waiting(&self) -> bool {
        self.low_water_bytes > 1
    }

    /// Lowering it raises the event for what is there already. Where it cannot be set, each part wakes.
    fn set_low_water(&mut self, socket: BorrowedFd<'_>, bytes: usize) {
        if self.low_water_bytes != bytes && sys::set_receive_low_water(socket, bytes).is_ok() {
            self.low_water_bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    const LARGE: Round = Round { ended: false, missing_bytes: 1 << 20 };
    const ENDED: Round = Round { ended: true, missing_bytes: 0 };

    fn socket() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    /// Lets a request begin; whether it is waited for.
    fn begins(whole: &mut Whole, socket: &TcpStream) -> bool {
        whole.took(socket.as_fd(), LARGE);
        whole.is_waiting()
    }

    async fn patience(whole: &mut Whole, socket: &TcpStream) {
        std::future::poll_fn(|cx| whole.poll_patience(cx, socket.as_fd())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_comes_is_waited_for_again_and_again() {
        let (_near, socket) = socket();
        let mut whole = Whole::new();
        for _ in 0..10 {
            assert!(begins(&mut whole, &socket));
            let rest = Round { ended: false, missing_bytes: 1000 };
            assert!(!whole.took(socket.as_fd(), rest));
            assert_eq!(whole.low_water_bytes, 1000, "no more than will come");
            assert!(whole.took(socket.as_fd(), Round { ended: true, missing_bytes: 200_000 }));
            assert_eq!(whole.low_water_bytes, 200_000, "the next is under way already");
            assert!(whole.took(socket.as_fd(), ENDED));
            assert_eq!(whole.low_water_bytes, 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn patience_lasts_from_what_came_last() {
        let (_near, socket) = socket();
        let mut whole = Whole::new();
        let turn = Duration::from_millis(1);
        for _ in 0..10 {
            assert!(begins(&mut whole, &socket));
            assert!(tokio::time::timeout(turn, patience(&mut whole, &socket)).await.is_err());
        }
        let began = Instant::now();
        patience(&mut whole, &socket).await;
        let took = PATIENCE - turn..=PATIENCE + turn;
        assert!(took.contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(whole.low_water_bytes, 1);
        let never = tokio::time::timeout(PATIENCE * 10, patience(&mut whole, &socket)).await;
        assert!(never.is_err(), "it is not waited for any more");
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_waited_for_in_vain_is_left_alone_for_longer_each_time() {
        let (_near, socket) = socket();
        let mut whole = Whole::new();
        for left_alone in [1, 2, 4, 8, 16] {
            assert!(begins(&mut whole, &socket));
            patience(&mut whole, &socket).await;
            assert!(!begins(&mut whole, &socket), "the same request goes on");
            assert!(!whole.took(socket.as_fd(), ENDED));
            for _ in 0..left_alone {
                assert!(!begins(&mut whole, &socket));
                whole.took(socket.as_fd(), ENDED);
            }
        }
        for _ in 0..31 {
            assert!(begins(&mut whole, &socket), "what comes in time makes up for it");
            whole.took(socket.as_fd(), ENDED);
        }
        assert!(begins(&mut whole, &socket));
        patience(&mut whole, &socket).await;
        assert_eq!(whole.left_alone, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_left_alone_for_ever() {
        let (_near, socket) = socket();
        let mut whole = Whole::new();
        let mut tries = 0;
        for _ in 0..20 * MOST_LEFT_ALONE {
            if begins(&mut whole, &socket) {
                tries += 1;
                patience(&mut whole, &socket).await;
            }
            whole.took(socket.as_fd(), ENDED);
        }
        assert!((20..40).contains(&tries), "{tries}");
    }
}
