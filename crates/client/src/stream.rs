//! Reading and writing that keep the pipe full: requests as large as dialect and server allow, several under way, in
//! bounded memory, given out in order. The size of a request is the protocol's, never the machine's page size.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::buffer::Buffer;
use crate::error::{At, Error};
use crate::file::{Open, Reading, Writing};
use crate::window::Window;

/// A piece of a file, in the buffer it was received into.
#[derive(Debug, Clone)]
pub struct Chunk {
    buf: Buffer,
    range: Range<usize>,
    offset: u64,
}

impl Chunk {
    pub(crate) fn new(Part { buf, range }: Part, offset: u64) -> Self {
        Self { buf, range, offset }
    }

    /// Where in the file it begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl std::ops::Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buf.get(self.range.clone()).unwrap_or_default()
    }
}

/// A part of a buffer.
#[derive(Debug)]
pub(crate) struct Part {
    pub buf: Buffer,
    pub range: Range<usize>,
}

impl Part {
    /// The bytes alone.
    pub fn into_vec(self) -> Vec<u8> {
        let mut bytes = self.buf.into_vec();
        bytes.truncate(self.range.end);
        bytes.drain(..self.range.start.min(self.range.end));
        bytes
    }
}

/// The file a stream is of.
#[derive(Debug, Clone)]
pub(crate) struct End {
    pub open: Open,
    pub path: Arc<PathBuf>,
}

/// A file being read from one end of a range to the other.
#[derive(Debug)]
pub struct ReadStream {
    file: End,
    /// Where the next request begins.
    next: u64,
    end: u64,
    /// Up to here the file is known to be worth asking for; beyond, one request at a time finds out.
    known_end: u64,
    asked: VecDeque<Asked>,
    window: Window,
    began: Instant,
}

/// One READ under way.
#[derive(Debug)]
struct Asked {
    offset: u64,
    len_bytes: u32,
    reading: Reading,
    beyond: bool,
}

impl ReadStream {
    /// Reads until the file ends, wherever that is by then.
    pub(crate) fn new(file: End, range: Range<u64>) -> Self {
        let known_end = file.open.stat_at_open().len_bytes;
        Self { known_end, ..Self::exactly(file, range) }
    }

    /// Asks for all of the range.
    pub(crate) fn exactly(file: End, Range { start, end }: Range<u64>) -> Self {
        let (asked, window, began) = (VecDeque::new(), Window::default(), Instant::now());
        Self { file, next: start, end, known_end: end, asked, window, began }
    }

    /// The next piece; `None` at the end of the range or of the file. It may be given up and called again.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        self.fill();
        let Some(asked) = self.asked.front_mut() else { return Ok(None) };
        let answer = asked.reading.answer(asked.len_bytes).await;
        let Some(asked) = self.asked.pop_front() else { return Ok(None) };
        self.window.answered(asked.len_bytes.into(), self.began.elapsed());
        if !matches!(answer, Ok(Some(_))) {
            self.stop();
        }
        let Some(part) = answer.at("read", &self.file.path)? else { return Ok(None) };
        self.took(&asked, part.range.len());
        Ok(Some(Chunk::new(part, asked.offset)))
    }

    /// At the end, or after an error: what else was asked for is not waited for.
    fn stop(&mut self) {
        self.asked.clear();
        self.window.clear();
        self.end = self.next;
        self.known_end = self.next;
    }

    /// An answer may be shorter than what was asked for; the rest is asked for again, before what follows.
    fn took(&mut self, asked: &Asked, count: usize) {
        let count = u32::try_from(count).unwrap_or(asked.len_bytes);
        let missing = asked.len_bytes.saturating_sub(count);
        let offset = asked.offset + u64::from(count);
        if missing > 0 {
            let again = self.ask(offset, missing, asked.beyond);
            self.asked.push_front(again);
        } else if asked.beyond {
            self.known_end = self.known_end.max(offset);
        }
    }

    fn fill(&mut self) {
        let (most, each) = (self.file.open.stream_bytes().into(), self.file.open.read_bytes().into());
        while self.next < self.end && (self.window.has_room(each, most) || self.asked.is_empty()) {
            let beyond = self.next >= self.known_end;
            if beyond && self.asked.back().is_some_and(|asked| asked.beyond) {
                return;
            }
            let stop = if beyond { self.end } else { self.end.min(self.known_end) };
            let request_bytes = self.file.open.read_bytes();
            let len_bytes = u32::try_from(stop - self.next).unwrap_or(u32::MAX).min(request_bytes);
            let asked = self.ask(self.next, len_bytes, beyond);
            self.asked.push_back(asked);
            self.next += u64::from(len_bytes);
        }
    }

    fn ask(&mut self, offset: u64, len_bytes: u32, beyond: bool) -> Asked {
        self.window.sent(len_bytes.into(), self.began.elapsed());
        Asked { offset, len_bytes, reading: self.file.open.send_read(offset, len_bytes), beyond }
    }
}

/// A file being written from some offset on.
#[derive(Debug)]
pub struct WriteStream {
    file: End,
    start: u64,
    /// Where the next request begins.
    next: u64,
    /// What is not enough for a request yet.
    held: Vec<u8>,
    sent: VecDeque<(u32, Writing)>,
    window: Window,
    began: Instant,
    failed: Option<Error>,
}

impl WriteStream {
    pub(crate) fn new(file: End, start: u64) -> Self {
        let (held, sent, window, began) = (Vec::new(), VecDeque::new(), Window::default(), Instant::now());
        Self { file, start, next: start, held, sent, window, began, failed: None }
    }

    /// Takes all of `data`; waits while as much is under way as may be. An error is what came of this or an earlier
    /// piece, and stays. Given up midway, the stream has taken an unknown part of `data`.
    pub async fn write(&mut self, mut data: &[u8]) -> Result<(), Error> {
        while !data.is_empty() {
            let request_bytes = self.file.open.write_bytes() as usize;
            if self.held.is_empty() && data.len() >= request_bytes {
                let (now, rest) = data.split_at(request_bytes);
                self.send(now).await?;
                data = rest;
                continue;
            }
            let take = request_bytes.saturating_sub(self.held.len()).min(data.len());
            let (now, rest) = data.split_at(take);
            self.held.extend_from_slice(now);
            data = rest;
            if self.held.len() >= request_bytes {
                self.send_held().await?;
            }
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The same of data that stay where they are until they are written: whole requests of them are copied only where what
    /// is sent is signed or sealed.
    pub async fn write_shared(&mut self, mut data: Bytes) -> Result<(), Error> {
        if !self.held.is_empty() {
            let missing = (self.file.open.write_bytes() as usize).saturating_sub(self.held.len());
            self.write(&data.split_to(missing.min(data.len()))).await?;
        }
        while self.held.is_empty() && data.len() >= self.file.open.write_bytes() as usize {
            self.wait_for_room(self.file.open.write_bytes() as usize).await?;
            // The server may take another number of bytes than before the wait.
            let now = data.split_to(data.len().min(self.file.open.write_bytes() as usize));
            let len_bytes = u32::try_from(now.len()).unwrap_or(u32::MAX);
            let writing = self.file.open.send_write_shared(self.next, now);
            self.sent(len_bytes, writing);
        }
        self.write(&data).await
    }

    /// Waits until everything is written; answers how many bytes that were. They need not be on stable storage: that is
    /// [`File::sync`](crate::File::sync).
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.send_held().await?;
        while !self.sent.is_empty() {
            self.settle().await?;
        }
        self.failed.map_or(Ok(self.next - self.start), Err)
    }

    /// Sends what is held. Given up midway, what is not sent is still held.
    async fn send_held(&mut self) -> Result<(), Error> {
        while !self.held.is_empty() {
            // The server may take less at a time than it did when this was collected.
            let len = self.held.len().min(self.file.open.write_bytes() as usize);
            self.wait_for_room(len).await?;
            let mut held = std::mem::take(&mut self.held);
            self.send_now(held.get(..len).unwrap_or_default());
            held.drain(..len);
            self.held = held;
        }
        Ok(())
    }

    async fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        self.wait_for_room(data.len()).await?;
        self.send_now(data);
        Ok(())
    }

    async fn wait_for_room(&mut self, len: usize) -> Result<(), Error> {
        let (most, each) = (self.file.open.stream_bytes().into(), self.file.open.write_bytes().into());
        while !self.sent.is_empty() && !self.window.fits(len as u64, each, most) {
            self.settle().await?;
        }
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn send_now(&mut self, data: &[u8]) {
        let writing = self.file.open.send_write(self.next, data);
        self.sent(u32::try_from(data.len()).unwrap_or(u32::MAX), writing);
    }

    fn sent(&mut self, len_bytes: u32, writing: Writing) {
        self.sent.push_back((len_bytes, writing));
        self.next += u64::from(len_bytes);
        self.window.sent(len_bytes.into(), self.began.elapsed());
    }

    /// Waits for the oldest request.
    async fn settle(&mut self) -> Result<(), Error> {
        let Some((len_bytes, writing)) = self.sent.front_mut() else { return Ok(()) };
        let len_bytes = *len_bytes;
        let outcome = writing.answer(len_bytes).await;
        self.sent.pop_front();
        self.window.answered(len_bytes.into(), self.began.elapsed());
        let outcome = outcome.at("write", &self.file.path);
        if let (Err(error), None) = (&outcome, &self.failed) {
            self.failed = Some(error.clone());
        }
        outcome
    }
}
