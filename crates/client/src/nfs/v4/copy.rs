//! Copies that the server makes (RFC 7862 15.2, 15.13): blocks shared by CLONE where that can be, else COPY. The data
//! never come here.

use std::sync::atomic::Ordering::Relaxed;

use nfs_wire::nfs4::{
    CloneArgs, CopyArgs, CopyError, CopyOk, NfsStat4, OffloadStatusOk, Op, OpResult, StableHow, Stateid,
};
use nfs_wire::xdr::List;

use super::compound::result_of;
use super::{Four, Held, Verdict};
use crate::error::ErrorKind;
use crate::nfs::pace::Pace;

/// A copy between two opens of one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub from_bytes: u64,
    pub to_bytes: u64,
    pub len_bytes: u64,
}

impl Four {
    /// Shares blocks; false when the server or the file system does not.
    pub async fn clone_range(&self, from: &Held, to: &Held, span: Span) -> Result<bool, ErrorKind> {
        if self.no_clone.load(Relaxed) {
            return Ok(false);
        }
        let args = CloneArgs {
            src_stateid: from.stateid(),
            dst_stateid: to.stateid(),
            src_offset_bytes: span.from_bytes,
            dst_offset_bytes: span.to_bytes,
            count_bytes: span.len_bytes,
        };
        let answer = self
            .change(|ops| {
                ops.at(&from.fh).op(&Op::Savefh).at(&to.fh).op(&Op::Clone(args));
            })
            .await?;
        match answer.outcome()?.0 {
            NfsStat4::OK => answer.walk()?.pass(4).map(|_| true),
            NfsStat4::NOTSUPP | NfsStat4::OP_ILLEGAL => {
                self.no_clone.store(true, Relaxed);
                Ok(false)
            }
            // Not these files, or not at these places.
            NfsStat4::XDEV | NfsStat4::INVAL | NfsStat4::BADXDR => Ok(false),
            status => Err(status.into()),
        }
    }

    /// Copies; answers how many bytes, which may be fewer, and the verifier of those that are not safe yet.
    pub async fn copy_range(&self, from: &Held, to: &Held, span: Span) -> Result<(u64, Option<[u8; 8]>), ErrorKind> {
        if self.no_copy.load(Relaxed) {
            return Err(NfsStat4::NOTSUPP.into());
        }
        let args = CopyArgs {
            src_stateid: from.stateid(),
            dst_stateid: to.stateid(),
            src_offset_bytes: span.from_bytes,
            dst_offset_bytes: span.to_bytes,
            count_bytes: span.len_bytes,
            consecutive: true,
            synchronous: true,
            source_servers: List::new(&[]),
        };
        let answer = self
            .change(|ops| {
                ops.at(&from.fh).op(&Op::Savefh).at(&to.fh).op(&Op::Copy(args));
            })
            .await?;
        if let Verdict::Lost(status) = self.judge(&answer.0, true)? {
            return Err(status.into());
        }
        let mut walk = answer.walk()?;
        let OpResult::Copy(result) = walk.pass(3)?.next()? else {
            return Err(ErrorKind::Nonsense("the results are not those of the operations"));
        };
        let ok = result.map_err(|error| match error {
            CopyError::NoReqs(_) => NfsStat4::OFFLOAD_NO_REQS,
            CopyError::Status(status) => status,
        });
        if matches!(ok, Err(NfsStat4::NOTSUPP | NfsStat4::OP_ILLEGAL)) {
            self.no_copy.store(true, Relaxed);
        }
        self.copied(to, ok?, span.len_bytes).await
    }

    async fn copied(&self, to: &Held, ok: CopyOk, most_bytes: u64) -> Result<(u64, Option<[u8; 8]>), ErrorKind> {
        let response = ok.response;
        let count_bytes = match response.callback_id {
            None => response.count_bytes,
            // It was asked to answer when it is done; one that does not is asked how far it is.
            Some(stateid) => self.wait_for_copy(to, stateid).await?,
        };
        if count_bytes > most_bytes {
            return Err(ErrorKind::Nonsense("it copied more than it was asked to"));
        }
        let is_safe = response.committed != StableHow::Unstable && response.callback_id.is_none();
        Ok((count_bytes, (!is_safe).then_some(response.verifier)))
    }

    async fn wait_for_copy(&self, to: &Held, stateid: Stateid) -> Result<u64, ErrorKind> {
        let mut pace = Pace::new(self.lines.timeout);
        let mut before = 0;
        loop {
            let answer = self
                .ask(|ops| {
                    ops.at(&to.fh).op(&Op::OffloadStatus(stateid));
                })
                .await?;
            let OffloadStatusOk { count_bytes, complete } = result_of!(answer.walk()?.pass(1)?, OffloadStatus)?;
            match complete {
                Some(NfsStat4::OK) => return Ok(count_bytes),
                Some(status) => return Err(status.into()),
                None if count_bytes > before => pace = Pace::new(self.lines.timeout),
                None => {}
            }
            before = count_bytes;
            if !pace.wait().await {
                return Err(NfsStat4::DELAY.into());
            }
        }
    }
}
