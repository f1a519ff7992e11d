//! Bytes between a line and the machine: what was received and is no record yet, and what is to be sent. A large answer
//! is received into the buffer its caller gets; all that is ready to be sent leaves in one write.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connection::Connection;
use super::dial::{Receiver, Sender};
use super::request::Outgoing;
use crate::smb::Failure;

/// What one receive takes at most, where no large answer is under way.
const INBOX_BYTES: usize = 64 << 10;
const MARK_BYTES: usize = 4;
/// Slices in one write: the kernel takes 1024.
const MOST_SLICES: usize = 256;
/// So many bytes of a large answer are progress; fewer would let a server drip for ever.
const PROGRESS_BYTES: usize = 64 << 10;
/// Fragments of one record that may be empty.
const MOST_EMPTY_FRAGMENTS: u32 = 64;

/// What was received and is not a record yet.
pub(super) struct Intake {
    receiver: Receiver,
    inbox: Vec<u8>,
    /// What is there of the present record.
    record: Vec<u8>,
    /// Of the fragment under way: bytes missing, and whether it is the record's last.
    fragment: Option<(usize, bool)>,
    empty_fragments: u32,
    /// Bytes received since progress was last told.
    unreported: usize,
}

impl Intake {
    pub fn new(receiver: Receiver) -> Self {
        let inbox = Vec::with_capacity(INBOX_BYTES);
        Self { receiver, inbox, record: Vec::new(), fragment: None, empty_fragments: 0, unreported: 0 }
    }

    /// Receives once. Nothing is lost when this is given up before it is done.
    pub async fn receive(&mut self) -> io::Result<usize> {
        match self.fragment {
            Some((missing, last)) if missing > 0 => {
                let count = self.receiver.read_buf(&mut (&mut self.record).limit(missing)).await?;
                self.fragment = Some((missing.saturating_sub(count), last));
                Ok(count)
            }
            _ => {
                let room = INBOX_BYTES.saturating_sub(self.inbox.len());
                self.receiver.read_buf(&mut (&mut self.inbox).limit(room)).await
            }
        }
    }

    /// Gives the machine every record that is whole.
    pub fn take_records(&mut self, received: usize, machine: &mut Connection, now: Duration) -> Result<(), Failure> {
        self.unreported += received;
        if self.unreported >= PROGRESS_BYTES {
            self.unreported = 0;
            machine.progress(now);
        }
        let mut at = 0;
        loop {
            if let Some((missing, last)) = self.fragment {
                let rest = self.inbox.get(at..).unwrap_or_default();
                let there = rest.get(..missing.min(rest.len())).unwrap_or_default();
                self.record.extend_from_slice(there);
                at += there.len();
                let missing = missing - there.len();
                self.fragment = Some((missing, last));
                if missing > 0 {
                    break;
                }
                self.fragment = None;
                if last {
                    self.empty_fragments = 0;
                    machine.receive(std::mem::take(&mut self.record), now)?;
                }
                continue;
            }
            let Some(mark) = self.inbox.get(at..).and_then(|rest| rest.first_chunk::<MARK_BYTES>()) else { break };
            let header = machine.framing(*mark, self.record.len())?;
            at += MARK_BYTES;
            self.begin_fragment(header.len_bytes as usize, header.last)?;
        }
        self.inbox.drain(..at);
        Ok(())
    }

    fn begin_fragment(&mut self, len: usize, last: bool) -> Result<(), Failure> {
        if len == 0 && !last {
            self.empty_fragments += 1;
            if self.empty_fragments > MOST_EMPTY_FRAGMENTS {
                return Err(Failure::Protocol("a record in fragments without a byte"));
            }
        }
        self.record.reserve_exact(len);
        self.fragment = Some((len, last));
        Ok(())
    }
}

/// What is to be sent.
pub(super) struct Outlet {
    sender: Sender,
    records: VecDeque<Outgoing>,
    /// Bytes of the first record that are gone.
    sent: usize,
}

impl Outlet {
    pub fn new(sender: Sender) -> Self {
        Self { sender, records: VecDeque::new(), sent: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn fill(&mut self, machine: &mut Connection) {
        self.records.extend(std::iter::from_fn(|| machine.next_outgoing()));
        if self.records.is_empty() {
            machine.drained();
        }
    }

    /// Sends once, as many records as one call takes: mark, head and data of each in one go.
    pub async fn send(&mut self) -> io::Result<usize> {
        let mut skip = self.sent;
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(MOST_SLICES.min(self.records.len() * 3));
        for part in self.records.iter().flat_map(Outgoing::parts) {
            let (gone, rest) = part.split_at(skip.min(part.len()));
            skip -= gone.len();
            if !rest.is_empty() {
                slices.push(IoSlice::new(rest));
            }
            if slices.len() == MOST_SLICES {
                break;
            }
        }
        self.sender.write_vectored(&slices).await
    }

    pub fn advance(&mut self, mut count: usize) {
        while let Some(record) = self.records.front() {
            let left = record.len_bytes() - self.sent;
            if count < left {
                self.sent += count;
                return;
            }
            count -= left;
            self.sent = 0;
            self.records.pop_front();
        }
    }

    /// The records of which not one byte was sent.
    pub fn untouched(&self) -> Vec<u32> {
        self.records.iter().skip(usize::from(self.sent > 0)).map(Outgoing::xid).collect()
    }

    pub async fn close(&mut self) {
        // Nobody is left who would want to know that this did not work.
        let _ = self.sender.shutdown().await;
    }
}
