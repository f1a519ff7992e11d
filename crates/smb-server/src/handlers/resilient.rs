//! FSCTL_LMR_REQUEST_RESILIENCY (MS-SMB2 3.3.5.15.9), and the LOCKs that may be told again because of it and its kin
//! (3.3.5.14).

use smb_wire::NtStatus;
use smb_wire::smb2::{Dialect, IoctlRequest, IoctlResponse, resiliency_timeout_ms};

use crate::dispatch::Request;
use crate::failure::Outcome;
use crate::open::FileOpen;
use crate::reply::ReplyWriter;

/// The longest a resilient open waits for its client, and what one gets that names no time.
const MAX_TIMEOUT_MS: u32 = 300_000;
const DEFAULT_TIMEOUT_MS: u32 = 60_000;
/// LockSequenceIndex counts from 1.
const LOCK_SEQUENCES: u32 = 64;

/// FSCTL_LMR_REQUEST_RESILIENCY: from now on the open waits for its client, whatever it may cache.
pub(crate) fn request_resiliency(
    request: &mut Request<'_>,
    asked: &IoctlRequest<'_>,
    out: &mut ReplyWriter,
) -> Outcome {
    let dialect = request.conn.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?.dialect;
    if dialect < Dialect::V2_1 {
        return Err(NtStatus::INVALID_DEVICE_REQUEST.into());
    }
    let timeout_ms = resiliency_timeout_ms(asked.input)?;
    if timeout_ms > MAX_TIMEOUT_MS {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    let open = request.open(asked.handle)?;
    let mut durability = open.file()?.durability.lock();
    durability.resilient = true;
    durability.version = None;
    durability.timeout_ms = if timeout_ms == 0 { DEFAULT_TIMEOUT_MS } else { timeout_ms }.into();
    IoctlResponse { code: asked.code, handle: open.handle, output: &[] }.put(out);
    Ok(NtStatus::SUCCESS)
}

/// One LOCK of an open whose LOCKs are numbered (3.3.5.14).
pub(crate) struct Numbered {
    index: usize,
    number: u8,
}

impl Numbered {
    /// LockSequenceIndex and LockSequenceNumber of `sequence`, where `file` is an open that remembers them, or its client
    /// may lose a channel and tell them again.
    pub fn of(file: &FileOpen, sequence: u32, has_channels: bool) -> Option<Self> {
        let (index, number) = (sequence >> 4, (sequence & 0xf) as u8);
        let durability = *file.durability.lock();
        let remembers = has_channels || durability.resilient || durability.version.is_some();
        (remembers && (1..=LOCK_SEQUENCES).contains(&index)).then(|| Self { index: index as usize - 1, number })
    }

    /// Whether this very LOCK has been done; if not, what was done under its index is forgotten.
    pub fn is_done(&self, file: &FileOpen) -> bool {
        let mut done = file.lock_sequences.lock();
        let Some(slot) = done.get_mut(self.index) else { return false };
        let same = *slot == Some(self.number);
        if !same {
            *slot = None;
        }
        same
    }

    /// Remembers that it is done.
    pub fn done(&self, file: &FileOpen) {
        let mut done = file.lock_sequences.lock();
        if done.len() <= self.index {
            done.resize(self.index + 1, None);
        }
        if let Some(slot) = done.get_mut(self.index) {
            *slot = Some(self.number);
        }
    }
}
