//! Reading and writing that keep the pipe full: requests as large as dialect and server allow, several under way, in
//! bounded memory, given out in order. The size of a request is the protocol's, never the machine's page size.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::smb2::{ReadResponse, WriteResponse};

use crate::client::good;
use crate::error::{At, Error, ErrorKind};
use crate::file::Open;
use crate::smb::driver::Pending;
use crate::smb::{Failure, Response};

/// A piece of a file, in the buffer it was received into.
#[derive(Debug, Clone)]
pub struct Chunk {
    buf: Vec<u8>,
    range: Range<usize>,
    offset: u64,
}

impl Chunk {
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

/// A file being read from one end of a range to the other.
#[derive(Debug)]
pub struct ReadStream {
    open: Arc<Open>,
    /// Where the next request begins.
    next: u64,
    end: u64,
    /// Up to here the file is known to be worth asking for; beyond, one request at a time finds out.
    known_end: u64,
    parts: VecDeque<Part>,
    in_flight_bytes: u64,
}

/// One READ under way.
#[derive(Debug)]
struct Part {
    offset: u64,
    len_bytes: u32,
    pending: Pending,
    beyond: bool,
}

impl ReadStream {
    /// Reads until the file ends, wherever that is by then.
    pub(crate) fn new(open: Arc<Open>, range: Range<u64>) -> Self {
        let known_end = open.stat.len_bytes;
        Self { known_end, ..Self::exactly(open, range) }
    }

    /// Asks for all of the range.
    pub(crate) fn exactly(open: Arc<Open>, Range { start, end }: Range<u64>) -> Self {
        Self { open, next: start, end, known_end: end, parts: VecDeque::new(), in_flight_bytes: 0 }
    }

    /// The next piece; `None` at the end of the range or of the file. It may be given up and called again.
    pub async fn next(&mut self) -> Result<Option<Chunk>, Error> {
        self.fill();
        let Some(part) = self.parts.front_mut() else { return Ok(None) };
        let answer = part.pending.answer().await;
        let Some(part) = self.parts.pop_front() else { return Ok(None) };
        self.in_flight_bytes -= u64::from(part.len_bytes);
        let chunk = answer.map_err(ErrorKind::from).and_then(|response| chunk_of(response, &part));
        if !matches!(chunk, Ok(Some(_))) {
            self.stop();
        }
        let chunk = chunk.at("read", &self.open.path)?;
        if let Some(chunk) = &chunk {
            self.took(&part, chunk.len());
        }
        Ok(chunk)
    }

    /// At the end, or after an error: what else was asked for is not waited for.
    fn stop(&mut self) {
        self.parts.clear();
        self.in_flight_bytes = 0;
        self.end = self.next;
        self.known_end = self.next;
    }

    /// An answer may be shorter than what was asked for; the rest is asked for again, before what follows.
    fn took(&mut self, part: &Part, count: usize) {
        let count = u32::try_from(count).unwrap_or(part.len_bytes);
        let missing = part.len_bytes.saturating_sub(count);
        let offset = part.offset + u64::from(count);
        if missing > 0 {
            let part = self.ask(offset, missing, part.beyond);
            self.parts.push_front(part);
        } else if part.beyond {
            self.known_end = self.known_end.max(offset);
        }
    }

    fn fill(&mut self) {
        let most = u64::from(self.open.tree.stream_bytes);
        while self.next < self.end && (self.in_flight_bytes < most || self.parts.is_empty()) {
            let beyond = self.next >= self.known_end;
            if beyond && self.parts.back().is_some_and(|part| part.beyond) {
                return;
            }
            let stop = if beyond { self.end } else { self.end.min(self.known_end) };
            let request_bytes = self.open.tree.handle.limits().read_bytes.max(1);
            let len_bytes = u32::try_from(stop - self.next).unwrap_or(u32::MAX).min(request_bytes);
            let part = self.ask(self.next, len_bytes, beyond);
            self.parts.push_back(part);
            self.next += u64::from(len_bytes);
        }
    }

    fn ask(&mut self, offset: u64, len_bytes: u32, beyond: bool) -> Part {
        self.in_flight_bytes += u64::from(len_bytes);
        Part { offset, len_bytes, pending: self.open.send_read(offset, len_bytes), beyond }
    }
}

/// The data of an answer, where they lie; `None` at the end of the file.
fn chunk_of(response: Response, part: &Part) -> Result<Option<Chunk>, ErrorKind> {
    if response.status() == NtStatus::END_OF_FILE {
        return Ok(None);
    }
    let response = good(response)?;
    let data = ReadResponse::data_range(response.message())?;
    if data.len() > part.len_bytes as usize {
        return Err(ErrorKind::Nonsense("more data than were asked for"));
    }
    if data.is_empty() {
        return Ok(None);
    }
    let (buf, range) = response.into_part(data);
    Ok(Some(Chunk { buf, range, offset: part.offset }))
}

/// A file being written from some offset on.
#[derive(Debug)]
pub struct WriteStream {
    open: Arc<Open>,
    start: u64,
    /// Where the next request begins.
    next: u64,
    /// What is not enough for a request yet.
    held: Vec<u8>,
    parts: VecDeque<(u32, Pending)>,
    in_flight_bytes: u64,
    failed: Option<Error>,
}

impl WriteStream {
    pub(crate) fn new(open: Arc<Open>, start: u64) -> Self {
        let (held, parts) = (Vec::new(), VecDeque::new());
        Self { open, start, next: start, held, parts, in_flight_bytes: 0, failed: None }
    }

    /// Takes all of `data`; waits while as much is under way as may be. An error is what came of this or an earlier
    /// piece, and stays. Given up midway, the stream has taken an unknown part of `data`.
    pub async fn write(&mut self, mut data: &[u8]) -> Result<(), Error> {
        while !data.is_empty() {
            let request_bytes = self.open.tree.handle.limits().write_bytes.max(1) as usize;
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

    /// Waits until everything is written; answers how many bytes that were. They need not be on stable storage: that is
    /// [`File::sync`](crate::File::sync).
    pub async fn finish(mut self) -> Result<u64, Error> {
        self.send_held().await?;
        while !self.parts.is_empty() {
            self.settle().await?;
        }
        Ok(self.next - self.start)
    }

    async fn send_held(&mut self) -> Result<(), Error> {
        let held = std::mem::take(&mut self.held);
        // The server may take less at a time than it did when this was collected.
        let request_bytes = self.open.tree.handle.limits().write_bytes.max(1) as usize;
        for piece in held.chunks(request_bytes) {
            self.send(piece).await?;
        }
        self.held = held;
        self.held.clear();
        Ok(())
    }

    async fn send(&mut self, data: &[u8]) -> Result<(), Error> {
        let most = u64::from(self.open.tree.stream_bytes);
        while !self.parts.is_empty() && self.in_flight_bytes + data.len() as u64 > most {
            self.settle().await?;
        }
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let pending = self.open.send_write(self.next, data);
        self.parts.push_back((u32::try_from(data.len()).unwrap_or(u32::MAX), pending));
        self.next += data.len() as u64;
        self.in_flight_bytes += data.len() as u64;
        Ok(())
    }

    /// Waits for the oldest request.
    async fn settle(&mut self) -> Result<(), Error> {
        let Some((len_bytes, pending)) = self.parts.front_mut() else { return Ok(()) };
        let len_bytes = *len_bytes;
        let answer: Result<Response, Failure> = pending.answer().await;
        self.parts.pop_front();
        self.in_flight_bytes -= u64::from(len_bytes);
        let written = answer.map_err(ErrorKind::from).and_then(|response| written(response, len_bytes));
        let outcome = written.at("write", &self.open.path);
        if let (Err(error), None) = (&outcome, &self.failed) {
            self.failed = Some(error.clone());
        }
        outcome
    }
}

fn written(response: Response, len_bytes: u32) -> Result<(), ErrorKind> {
    let count = WriteResponse::decode(good(response)?.message())?.count_bytes;
    match count.cmp(&len_bytes) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => {
            Err(ErrorKind::Nonsense("it wrote less than it was sent, and calls that a success"))
        }
        std::cmp::Ordering::Greater => Err(ErrorKind::Nonsense("it wrote more than it was sent")),
    }
}
