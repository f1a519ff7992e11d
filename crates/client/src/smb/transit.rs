//! Bytes between a socket and the machine: what was received and is no frame yet, and what is to be sent. A large answer is
//! received into the buffer its caller gets; all that is ready to be sent leaves in one write.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::driver::LARGE_BYTES;
use super::request::PREFIX_BYTES;
use super::{Connection, Failure, Outgoing};
use crate::buffer::{Buffer, Pool};

/// What one receive takes at most, where no large answer is under way: 16 answers of 4 KiB and their headers.
const INBOX_BYTES: usize = 80 << 10;
/// Parts of frames in one write.
const MOST_SLICES: usize = 64;
/// So many bytes of a large answer are progress; fewer would let a server drip for ever.
const PROGRESS_BYTES: usize = 64 << 10;

/// What was received and is not a frame yet.
pub(super) struct Intake {
    small: Vec<u8>,
    /// A frame that does not fit, and how long it will be.
    large: Option<(Buffer, usize)>,
    /// Bytes received since progress was last told.
    unreported: usize,
    pool: Pool,
}

impl Intake {
    pub fn new(pool: Pool) -> Self {
        Self { small: Vec::with_capacity(INBOX_BYTES), large: None, unreported: 0, pool }
    }

    /// Receives once. Nothing is lost when this is given up before it is done.
    pub async fn receive<R: AsyncRead + Unpin>(&mut self, reader: &mut R) -> std::io::Result<usize> {
        match &mut self.large {
            Some((frame, len)) => {
                let missing = len.saturating_sub(frame.len());
                reader.read_buf(&mut (&mut **frame).limit(missing)).await
            }
            None => {
                let room = INBOX_BYTES.saturating_sub(self.small.len());
                reader.read_buf(&mut (&mut self.small).limit(room)).await
            }
        }
    }

    fn copy(&self, frame: &[u8]) -> Buffer {
        if frame.len() <= LARGE_BYTES {
            return frame.to_vec().into();
        }
        let mut buffer = self.pool.take(frame.len());
        buffer.extend_from_slice(frame);
        buffer
    }

    /// Gives the machine every frame that is whole.
    pub fn take_frames(&mut self, received: usize, machine: &mut Connection, now: Duration) -> Result<(), Failure> {
        self.unreported += received;
        if self.unreported >= PROGRESS_BYTES {
            self.unreported = 0;
            machine.progress(now);
        }
        if let Some((frame, _)) = self.large.take_if(|(frame, len)| frame.len() >= *len) {
            machine.receive(frame, now);
        }
        let mut at = 0;
        while let Some((prefix, rest)) = self.small.get(at..).and_then(|rest| rest.split_first_chunk()) {
            let len = machine.framing(*prefix)?;
            if let Some(frame) = rest.get(..len) {
                machine.receive(self.copy(frame), now);
                at += PREFIX_BYTES + len;
                continue;
            }
            if len > LARGE_BYTES {
                let mut frame = self.pool.take(len);
                frame.extend_from_slice(rest);
                self.large = Some((frame, len));
                at = self.small.len();
            }
            break;
        }
        self.small.drain(..at);
        Ok(())
    }
}

/// What is to be sent.
pub(super) struct Outlet<W> {
    writer: W,
    frames: VecDeque<Outgoing>,
    /// Bytes of the first frame that are gone.
    sent: usize,
}

impl<W: AsyncWrite + Unpin> Outlet<W> {
    pub fn new(writer: W) -> Self {
        Self { writer, frames: VecDeque::new(), sent: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub async fn close(&mut self) {
        // Nobody is left who would want to know that this did not work.
        let _ = self.writer.shutdown().await;
    }

    pub fn fill(&mut self, machine: &mut Connection) {
        self.frames.extend(std::iter::from_fn(|| machine.next_outgoing()));
    }

    /// Sends once, as many frames as one call takes.
    pub async fn send(&mut self) -> std::io::Result<usize> {
        let mut skip = self.sent;
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(MOST_SLICES.min(self.frames.len() * 2));
        for part in self.frames.iter().flat_map(Outgoing::parts) {
            let (gone, rest) = part.split_at(skip.min(part.len()));
            skip -= gone.len();
            if !rest.is_empty() {
                slices.push(IoSlice::new(rest));
            }
            if slices.len() == MOST_SLICES {
                break;
            }
        }
        self.writer.write_vectored(&slices).await
    }

    pub fn advance(&mut self, mut count: usize) {
        while let Some(frame) = self.frames.front() {
            let left = frame.len_bytes() - self.sent;
            if count < left {
                self.sent += count;
                return;
            }
            count -= left;
            self.sent = 0;
            self.frames.pop_front();
        }
    }
}
