//! Bytes coming in: one call fills a pooled buffer, every complete frame in it is taken, and a large frame gets a buffer
//! of its own, received in place with its payload on a page boundary.
//!
//! An idle connection holds no buffer. While a large frame is received, the same call also takes a first look at what
//! follows, so that a stream of large frames costs one call each and moves no more than that look.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::readv;
use rustix::net::{RecvFlags, recv};
use vfs::{Buf, BufPool, Frame};

use crate::{Counters, Framing};

/// What one call may take when no large frame is under way.
const GENERAL_BYTES: usize = 256 << 10;
/// Frames above this get a buffer of their own.
const LARGE_BYTES: usize = 128 << 10;
/// The look at what follows a large frame: enough for the header and a little more, cheap to move.
const PEEK_BYTES: usize = 1 << 10;
const PAGE_BYTES: usize = 4096;
/// The beginning of a frame up to this long is kept in a buffer that is not larger than it needs: a peer that sends a byte
/// and then waits must not cost a receive buffer.
const SMALL_BYTES: usize = 8 << 10;

/// The receiving half of one connection.
pub struct Intake {
    pool: BufPool,
    state: State,
}

enum State {
    /// Nothing is held.
    Idle,
    /// The beginning of a frame that is not known, or not large.
    Partial(Buf),
    /// A large frame of `len_bytes`, partly received.
    Large { buf: Buf, len_bytes: usize },
}

/// What a call brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Bytes; `drained` when the socket had no more than these.
    Bytes { drained: bool },
    /// Nothing now.
    Nothing,
    /// The peer will send no more.
    End,
}

/// The peer broke the protocol's framing, for this reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused(pub &'static str);

impl Intake {
    pub fn new(pool: BufPool) -> Self {
        Self { pool, state: State::Idle }
    }

    /// Whether a frame has begun and not ended.
    pub fn is_mid_frame(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    /// What the large frame under way lacks, 0 where there is none.
    pub fn missing_bytes(&self) -> usize {
        match &self.state {
            State::Large { buf, len_bytes } => len_bytes - buf.len(),
            State::Idle | State::Partial(_) => 0,
        }
    }

    /// Receives once and hands over every complete frame, each with whether another complete one is behind it.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        counters: &Counters,
        framing: &mut dyn FnMut(&[u8]) -> Framing,
        take: &mut dyn FnMut(Frame, bool),
    ) -> io::Result<Result<Taken, Refused>> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Large { buf, len_bytes } => self.receive_large(socket, counters, buf, len_bytes, framing, take),
            State::Partial(small) if small.capacity() < GENERAL_BYTES => {
                let mut buf = self.pool.get(GENERAL_BYTES);
                buf.push(&small);
                self.receive_general(socket, counters, buf, framing, take)
            }
            State::Partial(buf) => self.receive_general(socket, counters, buf, framing, take),
            State::Idle => {
                let buf = self.pool.get(GENERAL_BYTES);
                self.receive_general(socket, counters, buf, framing, take)
            }
        }
    }

    fn receive_general(
        &mut self,
        socket: BorrowedFd<'_>,
        counters: &Counters,
        mut buf: Buf,
        framing: &mut dyn FnMut(&[u8]) -> Framing,
        take: &mut dyn FnMut(Frame, bool),
    ) -> io::Result<Result<Taken, Refused>> {
        let room = buf.room();
        let received = recv(socket, buf.spare(), RecvFlags::DONTWAIT);
        let count = match received {
            Ok((0, _)) => {
                self.keep_partial(buf);
                return Ok(Ok(Taken::End));
            }
            Ok((count, _)) => count,
            Err(error) => {
                self.keep_partial(buf);
                return nothing_or(error.into());
            }
        };
        count_received(counters, count);
        buf.grow(count);
        let taken = Taken::Bytes { drained: count < room };
        Ok(self.split(buf, counters, framing, take).map(|()| taken))
    }

    fn receive_large(
        &mut self,
        socket: BorrowedFd<'_>,
        counters: &Counters,
        mut buf: Buf,
        len_bytes: usize,
        framing: &mut dyn FnMut(&[u8]) -> Framing,
        take: &mut dyn FnMut(Frame, bool),
    ) -> io::Result<Result<Taken, Refused>> {
        let missing = len_bytes - buf.len();
        let mut peek = self.pool.get(PEEK_BYTES);
        let received = {
            let rest = buf.spare().get_mut(..missing).unwrap_or_default();
            readv(socket, &mut [IoSliceMut::new(rest), IoSliceMut::new(peek.spare())])
        };
        let count = match received {
            Ok(0) => {
                self.state = State::Large { buf, len_bytes };
                return Ok(Ok(Taken::End));
            }
            Ok(count) => count,
            Err(error) => {
                self.state = State::Large { buf, len_bytes };
                return nothing_or(error.into());
            }
        };
        count_received(counters, count);
        let drained = count < missing + peek.room();
        buf.grow(count.min(missing));
        if count < missing {
            self.state = State::Large { buf, len_bytes };
            return Ok(Ok(Taken::Bytes { drained }));
        }
        peek.grow(count - missing);
        Counters::bump(&counters.frames, 1);
        take(Frame::from(buf), !peek.is_empty());
        if peek.is_empty() {
            return Ok(Ok(Taken::Bytes { drained }));
        }
        Ok(self.split(peek, counters, framing, take).map(|()| Taken::Bytes { drained }))
    }

    /// Hands over the complete frames of `buf` and keeps what is left.
    fn split(
        &mut self,
        buf: Buf,
        counters: &Counters,
        framing: &mut dyn FnMut(&[u8]) -> Framing,
        take: &mut dyn FnMut(Frame, bool),
    ) -> Result<(), Refused> {
        let buf = Arc::new(buf);
        let mut at = 0;
        let mut known = next_frame(&buf, at, framing)?;
        while let Some(Known { len_bytes, .. }) = known
            && len_bytes <= buf.len() - at
        {
            let frame = Frame::new(Arc::clone(&buf), at..at + len_bytes);
            at += len_bytes;
            // Whether that one is refused is asked once this one is done.
            let behind = next_frame(&buf, at, framing);
            let complete_behind = matches!(behind, Ok(Some(k)) if k.len_bytes <= buf.len() - at);
            Counters::bump(&counters.frames, 1);
            take(frame, complete_behind);
            // What the frame did may change how much the next one may announce.
            known = next_frame(&buf, at, framing)?;
        }
        self.keep_rest(&buf, at, known);
        Ok(())
    }

    /// Keeps what there is of a frame when nothing was added to it.
    fn keep_partial(&mut self, buf: Buf) {
        self.state = match buf.len() {
            0 => State::Idle,
            1..=SMALL_BYTES => State::Partial(self.copy(&buf)),
            _ => State::Partial(buf),
        };
    }

    fn copy(&self, bytes: &[u8]) -> Buf {
        let mut copy = self.pool.get(if bytes.len() <= SMALL_BYTES { bytes.len() } else { GENERAL_BYTES });
        copy.push(bytes);
        copy
    }

    fn keep_rest(&mut self, buf: &Buf, at: usize, known: Option<Known>) {
        let rest = buf.get(at..).unwrap_or_default();
        self.state = match known {
            _ if rest.is_empty() => State::Idle,
            Some(Known { len_bytes, payload_at }) if len_bytes > LARGE_BYTES => {
                let pad = payload_at.next_multiple_of(PAGE_BYTES) - payload_at;
                let mut own = self.pool.get(len_bytes + pad);
                own.reset(pad);
                own.push(rest);
                State::Large { buf: own, len_bytes }
            }
            _ => State::Partial(self.copy(rest)),
        };
    }
}

struct Known {
    len_bytes: usize,
    payload_at: usize,
}

fn next_frame(buf: &Buf, at: usize, framing: &mut dyn FnMut(&[u8]) -> Framing) -> Result<Option<Known>, Refused> {
    match buf.get(at..) {
        None | Some([]) => Ok(None),
        Some(prefix) => match framing(prefix) {
            Framing::Unknown => Ok(None),
            Framing::Known { len_bytes: 0, .. } => Err(Refused("a frame of no length")),
            Framing::Known { len_bytes, payload_at } => Ok(Some(Known { len_bytes, payload_at })),
            Framing::Refuse(why) => Err(Refused(why)),
        },
    }
}

fn count_received(counters: &Counters, count: usize) {
    Counters::bump(&counters.recv_calls, 1);
    Counters::bump(&counters.recv_bytes, count as u64);
}

fn nothing_or(error: io::Error) -> io::Result<Result<Taken, Refused>> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Ok(Taken::Nothing)),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    /// Frames of a 4-byte big-endian length, which counts itself.
    fn framing(prefix: &[u8]) -> Framing {
        match prefix.first_chunk::<4>() {
            None => Framing::Unknown,
            Some(len) if u32::from_be_bytes(*len) > 10 << 20 => Framing::Refuse("too long"),
            Some(len) => Framing::Known { len_bytes: u32::from_be_bytes(*len) as usize, payload_at: 100 },
        }
    }

    fn frame(len: usize, fill: u8) -> Vec<u8> {
        let mut bytes = (len as u32).to_be_bytes().to_vec();
        bytes.resize(len, fill);
        bytes
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        far.set_nonblocking(true).unwrap();
        (near, far)
    }

    /// Sends `bytes` in pieces of `piece` and returns the frames that come out at the other end.
    fn through(bytes: Vec<u8>, piece: usize) -> (Vec<Vec<u8>>, Vec<bool>, Intake) {
        let (mut near, far) = pair();
        let writer = std::thread::spawn(move || {
            for part in bytes.chunks(piece) {
                near.write_all(part).unwrap();
            }
        });
        let pool = BufPool::new(64 << 20);
        let mut intake = Intake::new(pool);
        let (mut frames, mut behind) = (Vec::new(), Vec::new());
        let counters = Counters::default();
        loop {
            let mut take = |frame: Frame, more: bool| {
                frames.push(frame.to_vec());
                behind.push(more);
            };
            match intake.receive(far.as_fd(), &counters, &mut framing, &mut take).unwrap().unwrap() {
                Taken::End => break,
                Taken::Nothing => std::thread::yield_now(),
                Taken::Bytes { .. } => {}
            }
        }
        writer.join().unwrap();
        (frames, behind, intake)
    }

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let sizes = [4, 5, 100, 4_200, 70_000, 140_000, 1_048_700, 9, 1_048_700, 300_000, 8_400_000, 17];
        let frames: Vec<_> = sizes.iter().zip(1..).map(|(&len, fill)| frame(len, fill)).collect();
        for piece in [1_000, 70_003, 1 << 20, 100 << 20] {
            let (got, _, intake) = through(frames.concat(), piece);
            assert!(got == frames, "pieces of {piece}");
            assert!(!intake.is_mid_frame());
        }
    }

    #[test]
    fn one_call_takes_all_that_is_there() {
        let (mut near, far) = pair();
        let bytes: Vec<_> = (0..16).flat_map(|i| frame(4_200, i)).collect();
        near.write_all(&bytes).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut intake = Intake::new(BufPool::new(1 << 20));
        let counters = Counters::default();
        let mut behind = Vec::new();
        let taken = intake.receive(far.as_fd(), &counters, &mut framing, &mut |_, more| behind.push(more));
        assert_eq!(taken.unwrap(), Ok(Taken::Bytes { drained: true }));
        assert_eq!(counters.recv_calls.into_inner(), 1);
        assert_eq!(behind.len(), 16);
        assert!(behind[..15].iter().all(|&more| more) && !behind[15]);
    }

    #[test]
    fn a_large_payload_lies_on_a_page_and_is_not_moved() {
        let (mut near, far) = pair();
        let mut bytes = frame(1_000_000, 1);
        bytes.extend(frame(1_000_000, 2));
        let writer = std::thread::spawn(move || near.write_all(&bytes));
        let mut intake = Intake::new(BufPool::new(1 << 22));
        let mut aligned = Vec::new();
        while aligned.len() < 2 {
            let mut take = |frame: Frame, _| aligned.push((frame[100..].as_ptr() as usize).is_multiple_of(PAGE_BYTES));
            intake.receive(far.as_fd(), &Counters::default(), &mut framing, &mut take).unwrap().unwrap();
        }
        writer.join().unwrap().unwrap();
        assert_eq!(aligned, [true, true]);
    }

    #[test]
    fn a_peer_that_dawdles_costs_little() {
        let (mut near, far) = pair();
        let pool = BufPool::new(1 << 20);
        let mut intake = Intake::new(pool.clone());
        let mut lens = Vec::new();
        for part in [&frame(5_000, 1)[..], &frame(5_000, 2)[..1], &frame(5_000, 2)[1..4_000], &frame(5_000, 2)[4_000..]]
        {
            near.write_all(part).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            let mut take = |frame: Frame, _| lens.push(frame.len());
            intake.receive(far.as_fd(), &Counters::default(), &mut framing, &mut take).unwrap().unwrap();
            assert!(pool.stats().used_bytes <= SMALL_BYTES, "{} bytes held", pool.stats().used_bytes);
        }
        assert_eq!(lens, [5_000, 5_000]);
    }

    #[test]
    fn a_frame_may_allow_the_one_behind_it() {
        let (mut near, far) = pair();
        near.write_all(&[frame(100, 1), frame(200, 2)].concat()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let largest = std::cell::Cell::new(100);
        let mut framing = |prefix: &[u8]| match framing(prefix) {
            Framing::Known { len_bytes, .. } if len_bytes > largest.get() => Framing::Refuse("too long yet"),
            other => other,
        };
        let mut count = 0;
        let mut take = |_: Frame, _| {
            count += 1;
            largest.set(200);
        };
        let mut intake = Intake::new(BufPool::new(0));
        let taken = intake.receive(far.as_fd(), &Counters::default(), &mut framing, &mut take);
        assert_eq!((taken.unwrap(), count), (Ok(Taken::Bytes { drained: true }), 2));
    }

    #[test]
    fn an_announced_length_beyond_the_bound_is_refused_unread() {
        let (mut near, far) = pair();
        near.write_all(&[0xff; 4]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let pool = BufPool::new(0);
        let mut intake = Intake::new(pool.clone());
        let taken = intake.receive(far.as_fd(), &Counters::default(), &mut framing, &mut |_, _| {});
        assert_eq!(taken.unwrap(), Err(Refused("too long")));
        assert_eq!(pool.stats().used_bytes, 0);
    }
}
