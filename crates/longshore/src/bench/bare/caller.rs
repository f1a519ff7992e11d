//! The bare loop's client: one connection on one thread, which sends requests as fast as answers come and looks at nothing
//! but their lengths. Answers come in order. It sends and receives in turn and waits for neither while the other is
//! possible: a server that answers before it has received all would otherwise wait for this side for ever.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bench::tally::{Counted, Tally, Window};
use bench::workload::{Kind, Requests};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, sendmsg};

use super::{ANSWER_BYTES, MOST_BYTES, REQUEST_BYTES};
use crate::bench::cpu;
use crate::bench::job::{Load, payload};
use crate::bench::place::file_name;

const INBOX_BYTES: usize = 256 << 10;
/// Parts of one send.
const MOST_SLICES: usize = 64;
/// A server that says nothing for so long is lost.
const SILENCE: Duration = Duration::from_secs(20);

/// What a connection begins with.
pub fn hello(number: u32) -> Vec<u8> {
    let name = file_name(number);
    [&[u8::try_from(name.len()).unwrap_or(0)], name.as_bytes()].concat()
}

/// A request.
pub fn header(len_bytes: u32, kind: Kind, offset: u64) -> [u8; REQUEST_BYTES] {
    let mut header = [0; REQUEST_BYTES];
    let (head, tail) = header.split_at_mut(8);
    head[..4].copy_from_slice(&len_bytes.to_le_bytes());
    head[4] = u8::from(kind == Kind::Write);
    tail.copy_from_slice(&offset.to_le_bytes());
    header
}

/// A connection before its load begins. It may go to another thread until then.
pub struct Caller {
    socket: TcpStream,
    load: Load,
    number: u32,
    depth: u32,
    requests: Requests,
}

impl Caller {
    /// Connects for the job of this number; `at` tells its connections apart.
    pub fn connect(address: SocketAddr, load: &Load, number: u32, at: u32, depth: u32) -> Result<Self, String> {
        let seed = load.seed.wrapping_add(u64::from(at) << 32);
        let requests = Requests::new(load.workload, seed, number).map_err(|error| error.to_string())?;
        if load.workload.block_bytes > MOST_BYTES {
            return Err(format!("the bare loop takes blocks up to {MOST_BYTES} bytes"));
        }
        let connected = TcpStream::connect(address).and_then(|socket| {
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(SILENCE))?;
            io::Write::write_all(&mut &socket, &hello(number))?;
            Ok(socket)
        });
        let socket = connected.map_err(|error| format!("connect to the bare loop at {address}: {error}"))?;
        Ok(Self { socket, load: *load, number, depth, requests })
    }

    /// Runs it. What was counted, and this thread's CPU time while it counted.
    pub fn run(self, start: Instant, stop: &AtomicBool) -> Result<(Counted, u64), String> {
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let (window, block_bytes) = (self.load.window(), self.load.workload.block_bytes);
        let mut calling = Calling {
            data: payload(&self.load.workload, self.number),
            socket: self.socket,
            requests: self.requests,
            block_bytes,
            start,
            window,
            tally: Tally::new(window),
            unsent: VecDeque::new(),
            sent_bytes: 0,
            in_flight: VecDeque::new(),
            inbox: vec![0; INBOX_BYTES],
            answer: Answer::default(),
            cpu_at: [None; 2],
        };
        calling.run(self.depth, stop).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => format!("the bare loop found less than {block_bytes} bytes, or ended"),
            _ => format!("the bare loop: {error}"),
        })?;
        let [from, to] = calling.cpu_at.map(|at| at.unwrap_or_else(cpu::of_this_thread));
        Ok((calling.tally.finish(), to.saturating_sub(from)))
    }
}

struct Calling {
    socket: TcpStream,
    data: Bytes,
    requests: Requests,
    block_bytes: u32,
    start: Instant,
    window: Window,
    tally: Tally,
    unsent: VecDeque<([u8; REQUEST_BYTES], Kind)>,
    /// Bytes of the first unsent request that are gone.
    sent_bytes: usize,
    /// What each request in flight is, and when it was made.
    in_flight: VecDeque<(Kind, u64)>,
    inbox: Vec<u8>,
    answer: Answer,
    /// This thread's CPU time at the two ends of what counts.
    cpu_at: [Option<u64>; 2],
}

/// Where in an answer the stream is.
#[derive(Default)]
struct Answer {
    head: [u8; ANSWER_BYTES],
    head_bytes: usize,
    body_bytes: usize,
}

impl Calling {
    fn run(&mut self, depth: u32, stop: &AtomicBool) -> io::Result<()> {
        (0..depth).for_each(|_| self.make_request(0));
        while !self.in_flight.is_empty() {
            self.send()?;
            let count = self.receive()?;
            let now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.note_cpu(now);
            let goes_on = now < self.window.until_ns && !stop.load(Relaxed);
            for _ in 0..self.take_answers(count, now)? {
                if goes_on {
                    self.make_request(now);
                }
            }
        }
        Ok(())
    }

    fn make_request(&mut self, now: u64) {
        let request = self.requests.draw();
        self.unsent.push_back((header(self.block_bytes, request.kind, request.offset_bytes), request.kind));
        self.in_flight.push_back((request.kind, now));
    }

    /// Sends until all is sent or the socket is full.
    fn send(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let slices = self.slices();
            let none = &mut SendAncillaryBuffer::default();
            match sendmsg(&self.socket, &slices, none, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => self.sent(count),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut skip = self.sent_bytes;
        let mut slices = Vec::with_capacity(MOST_SLICES);
        for (header, kind) in self.unsent.iter().take(MOST_SLICES / 2) {
            let body: &[u8] = if *kind == Kind::Write { &self.data } else { &[] };
            for part in [header.as_slice(), body] {
                let left = part.get(skip.min(part.len())..).unwrap_or_default();
                skip = skip.saturating_sub(part.len());
                if !left.is_empty() {
                    slices.push(IoSlice::new(left));
                }
            }
        }
        slices
    }

    fn sent(&mut self, mut count: usize) {
        while let Some((header, kind)) = self.unsent.front() {
            let body = if *kind == Kind::Write { self.data.len() } else { 0 };
            let left = header.len() + body - self.sent_bytes;
            if count < left {
                self.sent_bytes += count;
                return;
            }
            count -= left;
            self.sent_bytes = 0;
            self.unsent.pop_front();
        }
    }

    /// Receives once; while there is something left to send, only if nothing has to be waited for, or after waiting for
    /// either.
    fn receive(&mut self) -> io::Result<usize> {
        let flags = if self.unsent.is_empty() { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        match recv(&self.socket, &mut self.inbox[..], flags) {
            Ok((0, _)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => Ok(count),
            Err(rustix::io::Errno::WOULDBLOCK) if self.unsent.is_empty() => Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::WOULDBLOCK) => self.wait().map(|()| 0),
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(errno) => Err(errno.into()),
        }
    }

    fn wait(&self) -> io::Result<()> {
        let patience = Timespec { tv_sec: SILENCE.as_secs() as i64, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN | PollFlags::OUT)], Some(&patience)) {
            Ok(0) => Err(io::ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// How many answers end in what was received.
    fn take_answers(&mut self, count: usize, now: u64) -> io::Result<usize> {
        let (mut at, mut ended) = (0, 0);
        while at < count {
            at += self.answer.take(self.inbox.get(at..count).unwrap_or_default());
            let Some(len) = self.answer.is_whole()? else { continue };
            let (kind, sent) = self.in_flight.pop_front().ok_or(io::ErrorKind::InvalidData)?;
            let expected = if kind == Kind::Read { self.block_bytes } else { 0 };
            if len != expected as usize {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.tally.completed(sent, now, self.block_bytes.into());
            ended += 1;
        }
        Ok(ended)
    }

    fn note_cpu(&mut self, now: u64) {
        for (at, when) in self.cpu_at.iter_mut().zip([self.window.from_ns, self.window.until_ns]) {
            if at.is_none() && now >= when {
                *at = Some(cpu::of_this_thread());
            }
        }
    }
}

impl Answer {
    /// Takes what belongs to this answer of the bytes received; how many those are.
    fn take(&mut self, received: &[u8]) -> usize {
        let missing = ANSWER_BYTES - self.head_bytes;
        let head = received.get(..missing.min(received.len())).unwrap_or_default();
        if let Some(room) = self.head.get_mut(self.head_bytes..self.head_bytes + head.len()) {
            room.copy_from_slice(head);
        }
        self.head_bytes += head.len();
        let body = (received.len() - head.len()).min(self.announced().saturating_sub(self.body_bytes));
        self.body_bytes += body;
        head.len() + body
    }

    fn announced(&self) -> usize {
        if self.head_bytes < ANSWER_BYTES { 0 } else { usize::try_from(u64::from_le_bytes(self.head)).unwrap_or(0) }
    }

    /// Its length, if this answer is whole; the next one begins then.
    fn is_whole(&mut self) -> io::Result<Option<usize>> {
        let len = self.announced();
        if self.head_bytes < ANSWER_BYTES || self.body_bytes < len {
            return Ok(None);
        }
        *self = Self::default();
        Ok(Some(len))
    }
}
