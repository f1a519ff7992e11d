//! Copies that the server makes by itself (MS-SMB2 2.2.31.1, 3.2.4.20.2). The facade calls it; the bytes never come here.

use std::path::Path;
use std::sync::Arc;

use smb_wire::NtStatus;
use smb_wire::codec::{Put, Reader, Truncated};
use smb_wire::smb2::{IoctlResponse, fsctl};

use super::open::{HANDLE, How, Open};
use super::share::{Share, good};
use super::{Failure, Response};
use crate::error::ErrorKind;
use crate::file::OpenHow;

/// Connections that may be lost in one copy.
const MOST_TRIES: u32 = 8;
const KEY_BYTES: usize = 24;
const KEY_RESPONSE_BYTES: u32 = 32;
/// SRV_COPYCHUNK_RESPONSE.
const RESPONSE_BYTES: u32 = 12;

/// How much one request may copy. What every server is known to allow; one that allows less says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Most {
    chunks: u32,
    chunk_bytes: u32,
    total_bytes: u32,
}

const USUAL: Most = Most { chunks: 16, chunk_bytes: 1 << 20, total_bytes: 16 << 20 };

impl Share {
    /// Copies a file to `to`, a new one or the one that is there. Answers how long it is.
    pub async fn copy(self: &Arc<Self>, from: &Path, to: &Path) -> Result<u64, ErrorKind> {
        let source = self.open(from, OpenHow::read()).await?;
        let target = Open::new(self, to, How::copy_target()).await?;
        let len_bytes = source.stat_at_open.len_bytes;
        source.copy_range(0, &target, 0, len_bytes).await?;
        target.close().await?;
        source.close().await?;
        Ok(len_bytes)
    }
}

impl Open {
    /// Copies a range into another file of the session, which must be open for reading too.
    pub async fn copy_range(&self, from: u64, target: &Self, to: u64, len_bytes: u64) -> Result<(), ErrorKind> {
        if len_bytes == 0 {
            return Ok(());
        }
        let mut key = self.resume_key().await?;
        let mut tries = MOST_TRIES;
        let mut most = USUAL;
        let mut done = 0;
        while done < len_bytes {
            let request = chunks(&key, from + done, to + done, len_bytes - done, most);
            let ioctl = target.about(self.share.ioctl(fsctl::SRV_COPYCHUNK_WRITE, HANDLE, &request, RESPONSE_BYTES));
            let answer = match self.share.handle.call(ioctl).await {
                // The same bytes to the same place again: nothing is done twice. The key was the open's before.
                Err(Failure::Interrupted) if tries > 0 => {
                    (key, tries) = (self.resume_key().await?, tries - 1);
                    continue;
                }
                answer => answer?,
            };
            match answer.status() {
                NtStatus::OBJECT_NAME_NOT_FOUND if tries > 0 => (key, tries) = (self.resume_key().await?, tries - 1),
                NtStatus::SUCCESS => done += copied(&answer, len_bytes - done)?,
                NtStatus::INVALID_PARAMETER => most = less(&answer, most)?,
                status => return Err(status.into()),
            }
        }
        Ok(())
    }

    async fn resume_key(&self) -> Result<[u8; KEY_BYTES], ErrorKind> {
        let ask = self.about(self.share.ioctl(fsctl::SRV_REQUEST_RESUME_KEY, HANDLE, &[], KEY_RESPONSE_BYTES));
        let answer = good(self.share.handle.call(ask).await?)?;
        let output = IoctlResponse::decode(answer.message())?.output;
        output.first_chunk().copied().ok_or(ErrorKind::Nonsense("a resume key cut short"))
    }
}

/// SRV_COPYCHUNK_COPY.
fn chunks(key: &[u8; KEY_BYTES], mut from: u64, mut to: u64, len_bytes: u64, most: Most) -> Vec<u8> {
    let mut left = len_bytes.min(most.total_bytes.into());
    let mut list = Vec::new();
    let mut count = 0;
    while left > 0 && count < most.chunks {
        let len = left.min(most.chunk_bytes.into());
        list.put_u64(from);
        list.put_u64(to);
        list.put_u32(u32::try_from(len).unwrap_or(most.chunk_bytes));
        list.put_u32(0);
        (from, to, left, count) = (from + len, to + len, left - len, count + 1);
    }
    let mut out = Vec::with_capacity(KEY_BYTES + 8 + list.len());
    out.put_bytes(key);
    out.put_u32(count);
    out.put_u32(0);
    out.put_bytes(&list);
    out
}

/// SRV_COPYCHUNK_RESPONSE: chunks, bytes of a partial one, bytes in all.
fn counts(answer: &Response) -> Result<[u32; 3], ErrorKind> {
    let output = IoctlResponse::decode(answer.message())?.output;
    let mut r = Reader::new(output);
    let mut read = || -> Result<[u32; 3], Truncated> { Ok([r.u32()?, r.u32()?, r.u32()?]) };
    read().map_err(|_| ErrorKind::Nonsense("the answer to a copy is cut short"))
}

fn copied(answer: &Response, asked: u64) -> Result<u64, ErrorKind> {
    let [_, _, total] = counts(answer)?;
    match u64::from(total) {
        0 => Err(ErrorKind::Nonsense("it copied nothing, and calls that a success")),
        total if total > asked => Err(ErrorKind::Nonsense("it copied more than it was asked to")),
        total => Ok(total),
    }
}

/// What the server says it allows, where that is less than was asked.
fn less(answer: &Response, most: Most) -> Result<Most, ErrorKind> {
    let refused = || ErrorKind::Status(NtStatus::INVALID_PARAMETER);
    let [chunks, chunk_bytes, total_bytes] = counts(answer).map_err(|_| refused())?;
    let allowed = Most {
        chunks: chunks.min(most.chunks),
        chunk_bytes: chunk_bytes.min(most.chunk_bytes),
        total_bytes: total_bytes.min(most.total_bytes),
    };
    let is_some = allowed.chunks > 0 && allowed.chunk_bytes > 0 && allowed.total_bytes > 0;
    if allowed == most || !is_some { Err(refused()) } else { Ok(allowed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stays_within_what_is_allowed() {
        let key = [7; KEY_BYTES];
        let most = Most { chunks: 2, chunk_bytes: 10, total_bytes: 15 };
        let request = chunks(&key, 100, 200, 1000, most);
        assert_eq!(request.len(), KEY_BYTES + 8 + 2 * 24);
        assert_eq!(request[KEY_BYTES], 2);
        let second = &request[KEY_BYTES + 8 + 24..];
        assert_eq!(second[..20], [110, 0, 0, 0, 0, 0, 0, 0, 210, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
    }
}
