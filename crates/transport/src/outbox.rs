//! Replies on their way out: all that are ready leave in one `sendmsg`, and pages follow their header by `splice`.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use vfs::Reply;

use crate::Counters;

/// Heads that leave in one call at most. Far below IOV_MAX: 64 replies of 4 KiB fill a socket buffer.
const MOST_SLICES: usize = 64;

/// The queue of one connection.
pub struct Outbox {
    /// Pages of fewer bytes share segments with the header before them and the reply behind them.
    join_below_bytes: usize,
    replies: VecDeque<Reply>,
    /// Bytes of the first reply's head that are sent already.
    sent_of_head: usize,
    queued_bytes: usize,
}

/// What became of a flush.
#[derive(Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything is on the socket.
    All,
    /// The socket takes no more now.
    Blocked,
}

impl Outbox {
    /// An empty one. Headers of so many pages' bytes or more leave in segments of their own.
    pub fn new(join_below_bytes: usize) -> Self {
        Self { join_below_bytes, replies: VecDeque::new(), sent_of_head: 0, queued_bytes: 0 }
    }

    /// Bytes not yet on the socket.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Adds a reply behind the others.
    pub fn push(&mut self, reply: Reply) {
        self.queued_bytes += reply.len_bytes();
        self.replies.push_back(reply);
    }

    /// Sends as much as the socket takes.
    pub fn flush(&mut self, socket: BorrowedFd<'_>, counters: &Counters) -> io::Result<Flushed> {
        while !self.replies.is_empty() {
            let sent = if self.pages_are_next() { self.send_pages(socket) } else { self.send_heads(socket) };
            match sent {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    Counters::bump(&counters.send_calls, 1);
                    Counters::bump(&counters.sent_bytes, count as u64);
                    self.queued_bytes -= count;
                    self.drop_finished(counters);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Flushed::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Flushed::All)
    }

    fn pages_are_next(&self) -> bool {
        self.replies.front().is_some_and(|r| r.pages.is_some() && self.sent_of_head == r.head.len())
    }

    /// One `sendmsg` over heads, up to and including the first that has pages behind it.
    fn send_heads(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); MOST_SLICES];
        let mut count = 0;
        let mut is_joined = false;
        for (slice, reply) in slices.iter_mut().zip(&self.replies) {
            let skip = if count == 0 { self.sent_of_head } else { 0 };
            *slice = IoSlice::new(reply.head.get(skip..).unwrap_or_default());
            count += 1;
            if let Some(pages) = &reply.pages {
                is_joined = pages.len_bytes() < self.join_below_bytes;
                break;
            }
        }
        let more = if is_joined { SendFlags::MORE } else { SendFlags::empty() };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
        let mut space: [MaybeUninit<u8>; 0] = [];
        let sent = sendmsg(socket, &slices[..count], &mut SendAncillaryBuffer::new(&mut space), flags)?;
        self.sent_of_head += sent;
        Ok(sent)
    }

    fn send_pages(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let more_follows = self.replies.get(1).is_some_and(|next| next.len_bytes() < self.join_below_bytes);
        match self.replies.front_mut().and_then(|r| r.pages.as_mut()) {
            Some(pages) => pages.drain(socket.as_fd(), more_follows),
            None => Ok(0),
        }
    }

    /// `sent_of_head` counts over all heads of the last call; takes the finished replies off the front.
    fn drop_finished(&mut self, counters: &Counters) {
        let finished = self.take_finished(counters);
        Counters::bump(&counters.replies, finished);
        counters.replies_per_send.record(finished);
    }

    /// How many there were.
    fn take_finished(&mut self, counters: &Counters) -> u64 {
        let mut finished = 0;
        while let Some(first) = self.replies.front() {
            let head = first.head.len();
            let pages_left = first.pages.as_ref().map_or(0, |p| p.len_bytes());
            if self.sent_of_head < head || (self.sent_of_head == head && pages_left > 0) {
                break;
            }
            self.sent_of_head -= head;
            finished += 1;
            if first.pages.is_some() {
                Counters::bump(&counters.page_replies, 1);
            }
            self.replies.pop_front();
            // A zero-length head cannot occur: every frame has a prefix. So the loop ends.
            if self.sent_of_head == 0 && self.replies.front().is_some_and(|r| !r.head.is_empty()) {
                break;
            }
        }
        finished
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use vfs::{Buf, PipePool};

    use super::*;
    use crate::Pipes;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    fn reply(bytes: &[u8]) -> Reply {
        let mut head = Buf::unpooled(bytes.len());
        head.push(bytes);
        Reply { head, pages: None }
    }

    #[test]
    fn ready_replies_share_one_call() {
        let (mut near, far) = pair();
        let mut outbox = Outbox::new(1 << 20);
        let counters = Counters::default();
        for i in 0..16u8 {
            outbox.push(reply(&[i; 100]));
        }
        assert_eq!(outbox.flush(far.as_fd(), &counters).unwrap(), Flushed::All);
        let mut got = [0; 1600];
        near.read_exact(&mut got).unwrap();
        assert!(got.chunks(100).zip(0..).all(|(chunk, i)| chunk == [i; 100]));
        assert_eq!(counters.send_calls.into_inner(), 1);
        assert_eq!(counters.replies.into_inner(), 16);
        assert_eq!(outbox.queued_bytes(), 0);
    }

    #[test]
    fn a_blocked_socket_keeps_the_order_of_heads_and_pages() {
        let (mut near, far) = pair();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[9; 100_000]).unwrap();
        let pool = Pipes::new(1 << 20, 128);
        let mut outbox = Outbox::new(1 << 20);
        let counters = Counters::default();
        let mut expected = Vec::new();
        for i in 0..100u8 {
            outbox.push(reply(&vec![i; 50_000]));
            expected.extend(vec![i; 50_000]);
            let mut pages = pool.pipe(0, 100_000).unwrap();
            while pages.len_bytes() < 100_000 {
                let at = pages.len_bytes();
                pages.fill(file.as_fd(), at as u64, 100_000 - at, true).unwrap();
            }
            outbox.push(Reply { pages: Some(pages), ..reply(b"head") });
            expected.extend(b"head");
            expected.extend([9; 100_000]);
        }
        assert_eq!(outbox.flush(far.as_fd(), &counters).unwrap(), Flushed::Blocked);
        let total = expected.len();
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; total];
            near.read_exact(&mut got).unwrap();
            got
        });
        while outbox.flush(far.as_fd(), &counters).unwrap() == Flushed::Blocked {
            std::thread::yield_now();
        }
        assert!(reader.join().unwrap() == expected, "bytes arrive in order");
        assert_eq!(counters.replies.into_inner(), 200);
        assert_eq!(counters.page_replies.into_inner(), 100);
    }

    #[test]
    fn a_header_waits_for_few_pages_and_not_for_many() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[9; 100_000]).unwrap();
        let pool = Pipes::new(1 << 20, 2);
        for (join_below_bytes, waits) in [(100_001, true), (100_000, false), (0, false)] {
            let (mut near, far) = pair();
            let mut outbox = Outbox::new(join_below_bytes);
            let mut pages = pool.pipe(0, 100_000).unwrap();
            while pages.len_bytes() < 100_000 {
                let at = pages.len_bytes();
                pages.fill(file.as_fd(), at as u64, 100_000 - at, true).unwrap();
            }
            outbox.push(Reply { pages: Some(pages), ..reply(b"head") });
            assert_eq!(outbox.send_heads(far.as_fd()).unwrap(), 4);
            near.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
            // The kernel keeps what is said to have more behind it for a fifth of a second.
            assert_eq!(near.read(&mut [0; 4]).is_err(), waits, "joined below {join_below_bytes}");
        }
    }
}
