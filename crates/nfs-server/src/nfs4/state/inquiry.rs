//! What the holder of a write delegation knows of its file: asked with CB_GETATTR when somebody else wants to know its
//! size or whether it changed, since what the holder has written may not be here yet (RFC 7530 10.4.3, RFC 8881 10.4.3
//! and 20.1). GETATTR, VERIFY and NVERIFY call it, on a worker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nfs_wire::nfs4::{Attr as A, Bitmap, CbGetattrArgs, CbOp, CbResult, NfsStat4};
use nfs_wire::xdr::{Bounded, Reader, Xdr};
use parking_lot::Mutex;
use vfs::{Attr, FileId, Timestamp};

use super::State;
use super::callback::{Failed, OnAnswer};
use super::client::Family;
use super::deleg::Delegation;
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Done;

/// How long a request waits for the holder before its client is told to ask again.
const PATIENCE: Duration = Duration::from_millis(400);
/// How old an answer may be that came after its asker was told so.
const FRESH_MS: u64 = 5_000;

/// Files with a write delegation. Whoever looks at attributes looks here first: one load while there are none.
#[derive(Default)]
pub(crate) struct Writers {
    any: AtomicUsize,
    files: Mutex<HashMap<FileId, Weak<Delegation>>>,
}

/// What was asked of a holder, and what it said.
#[derive(Debug, Default)]
pub(crate) struct Inquiry {
    under_way: bool,
    /// An answer that nobody has used, and when it came.
    answer: Option<(u64, Result<Told, Failed>)>,
    /// The change attribute that was shown last.
    shown: u64,
}

/// What a holder says of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    change: u64,
    len_bytes: Option<u64>,
}

impl Writers {
    pub fn add(&self, delegation: &Arc<Delegation>) {
        let before = self.files.lock().insert(delegation.file, Arc::downgrade(delegation));
        self.any.fetch_add(usize::from(before.is_none()), Relaxed);
    }

    pub fn remove(&self, file: FileId) {
        if self.files.lock().remove(&file).is_some() {
            self.any.fetch_sub(1, Relaxed);
        }
    }

    fn of(&self, file: FileId) -> Option<Arc<Delegation>> {
        if self.any.load(Relaxed) == 0 {
            return None;
        }
        self.files.lock().get(&file)?.upgrade().filter(|delegation| delegation.is_good())
    }
}

impl State {
    /// Puts right what the holder of a write delegation knows better. DELAY while it has not answered.
    pub fn as_the_holder_sees_it(&self, c: &Compound, attr: Attr) -> Done<Attr> {
        let Some(delegation) = self.writers.of(attr.id).filter(|delegation| !is_by(c, delegation)) else {
            return Ok(attr);
        };
        c.must_wait()?;
        match self.inquire(&delegation)? {
            Ok(told) => Ok(delegation.shown(attr, told, c.cx.server.env.clock.unix_secs())),
            // Whoever cannot be reached is asked for its delegation when somebody opens the file.
            Err(_) => Ok(attr),
        }
    }

    fn inquire(&self, delegation: &Arc<Delegation>) -> Done<Result<Told, Failed>> {
        {
            let mut inquiry = delegation.inquiry.lock();
            if let Some((at, told)) = inquiry.answer.take()
                && self.now_ms().saturating_sub(at) <= FRESH_MS
            {
                return Ok(told);
            }
            if inquiry.under_way {
                return Err(NfsStat4::DELAY.into());
            }
            inquiry.under_way = true;
        }
        let (tell, answer) = sync_channel(1);
        let handle = &delegation.target.object.handle;
        let args = CbGetattrArgs { handle: Bounded(handle), request: Bitmap::of(&[A::Change, A::Size]) };
        let done = on_answer(delegation, tell, self.env.clock.clone());
        delegation.client.channel.call(&CbOp::Getattr(args), self.env.dialer.as_ref(), done);
        match answer.recv_timeout(PATIENCE) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(NfsStat4::DELAY.into()),
        }
        let told = delegation.inquiry.lock().answer.take();
        told.map(|(_, told)| told).ok_or(NfsStat4::DELAY.into())
    }
}

/// Whether the compound is the holder's own. 4.0 does not say whose a GETATTR is: there, whoever calls from where the
/// holder is called.
fn is_by(c: &Compound, delegation: &Delegation) -> bool {
    match (&c.in_session, delegation.client.family) {
        (Some(session), _) => Arc::ptr_eq(&session.client, &delegation.client),
        (None, Family::Plain) => {
            let holder = delegation.client.channel.plain();
            holder.is_some_and(|plain| plain.address.ip().to_canonical() == c.cx.peer.ip().to_canonical())
        }
        (None, Family::Sessions) => false,
    }
}

fn on_answer(delegation: &Arc<Delegation>, tell: SyncSender<()>, clock: Arc<dyn crate::Clock>) -> OnAnswer {
    let delegation = Arc::downgrade(delegation);
    Box::new(move |answer| {
        let Some(delegation) = delegation.upgrade() else { return };
        let told = answer.and_then(|bytes| told(&bytes));
        let mut inquiry = delegation.inquiry.lock();
        inquiry.under_way = false;
        inquiry.answer = Some((clock.monotonic_ms(), told));
        drop(inquiry);
        // Whoever asked may have gone to ask again.
        let _ = tell.try_send(());
    })
}

fn told(bytes: &[u8]) -> Result<Told, Failed> {
    let malformed = Failed::Status(NfsStat4::BADXDR);
    let Ok(CbResult::Getattr(result)) = CbResult::decode(&mut Reader::new(bytes)) else { return Err(malformed) };
    let attrs = result.map_err(Failed::Status)?.attrs().map_err(|_| malformed)?;
    Ok(Told { change: attrs.change.ok_or(malformed)?, len_bytes: attrs.size })
}

impl Delegation {
    /// The attributes with what the holder says: each time it has changed something, another change attribute.
    fn shown(&self, mut attr: Attr, told: Told, now_secs: u32) -> Attr {
        let len_bytes = told.len_bytes.unwrap_or(attr.len_bytes);
        if told.change == self.change_then && len_bytes == attr.len_bytes {
            return attr;
        }
        let mut inquiry = self.inquiry.lock();
        inquiry.shown = attr.change.max(inquiry.shown).saturating_add(1);
        attr.change = inquiry.shown;
        attr.len_bytes = len_bytes;
        let now = Timestamp { secs: now_secs.into(), nanos: 0 };
        attr.modified = attr.modified.max(now);
        attr.changed = attr.changed.max(now);
        attr
    }
}
