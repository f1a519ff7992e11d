//! Locks that are waited for: the table says when they are granted, the client is called back until it knows (RFC 1813
//! appendix II, GRANTED), and loses the lock again when it does not want it or cannot be reached.

use std::sync::{Arc, Weak};

use coherence::{Effect, EffectSink, LockOutcome, Ticket};
use nfs_wire::nlm::{Lock, NlmProc, NlmStat, Range, Res, TestArgs, Version, Versioned};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, decode_all};

use super::hosts::{Owed, Wanted};
use super::locks::Nlm;
use crate::reach::{self, Errand};

/// How long a callback that was not answered is left alone.
const AGAIN_MS: u64 = 10_000;
/// How long a client is called back. Linux asks again by itself every 30 seconds while it waits.
const PATIENCE_MS: u64 = 60_000;

/// The table's way to those who wait.
pub(crate) struct Waiters(Weak<Nlm>);

impl Waiters {
    pub fn new(nlm: &Arc<Nlm>) -> Self {
        Self(Arc::downgrade(nlm))
    }
}

impl EffectSink for Waiters {
    fn effect(&self, effect: Effect) {
        let Some(nlm) = self.0.upgrade() else { return };
        match effect {
            Effect::Granted(ticket) => nlm.came(ticket, true),
            Effect::Abandoned(ticket) => nlm.came(ticket, false),
            _ => {}
        }
    }
}

impl Nlm {
    /// The table has put a request in its line; it may have left it already.
    pub(super) fn stand_in_line(&self, ticket: Ticket, wanted: Wanted) {
        let mut inner = self.inner.lock();
        match inner.early.remove(&ticket) {
            None => inner.wait(ticket, wanted),
            Some(false) => {}
            Some(true) => {
                drop(inner);
                self.owe(wanted);
            }
        }
    }

    /// A wait is over: the lock is granted, or never will be.
    fn came(&self, ticket: Ticket, granted: bool) {
        let mut inner = self.inner.lock();
        let Some(wanted) = inner.stop_waiting(ticket) else {
            inner.early.insert(ticket, granted);
            return;
        };
        drop(inner);
        if granted {
            self.owe(wanted);
        }
    }

    fn owe(&self, wanted: Wanted) {
        let now_ms = self.now_ms();
        let id = {
            let mut inner = self.inner.lock();
            inner.last_id += 1;
            let id = inner.last_id;
            let (next_ms, until_ms) = (now_ms + AGAIN_MS, now_ms + PATIENCE_MS);
            inner.owed.push(Owed { id, wanted: wanted.clone(), next_ms, until_ms });
            id
        };
        self.tell(id, &wanted);
    }

    fn tell(&self, id: u64, wanted: &Wanted) {
        let (Some(dialer), Some(itself)) = (&self.env.dialer, self.itself.get()) else { return };
        let version = Version::from_u32(wanted.version).unwrap_or(Version::V4);
        let cookie = id.to_be_bytes();
        let lock = Lock {
            caller_name: Bounded(&wanted.name.caller),
            handle: Bounded(&wanted.handle),
            owner: Bounded(&wanted.name.owner),
            svid: wanted.name.svid,
            range: Range { offset_bytes: wanted.offset, len_bytes: wanted.len },
        };
        let mut args = Vec::new();
        TestArgs { cookie: Bounded(&cookie), exclusive: wanted.range.exclusive, lock }.put_as(version, &mut args);
        let procedure = NlmProc::Granted as u32;
        let errand = Errand { host: wanted.host, program: program::NLM, version: wanted.version, procedure, args };
        let itself = Weak::clone(itself);
        let done = move |results: Option<Vec<u8>>| {
            let stat = results.as_deref().and_then(|bytes| decode_all::<Res<'_>>(bytes).ok()).map(|res| res.stat);
            if let Some(nlm) = itself.upgrade() {
                nlm.answered(id, stat);
            }
        };
        reach::call(dialer, errand, Box::new(done));
    }

    /// What the client said of a lock it was given; nothing when it did not answer, and is called again.
    fn answered(&self, id: u64, stat: Option<NlmStat>) {
        let keeps = match stat {
            None | Some(NlmStat::DeniedGracePeriod) => return,
            Some(stat) => stat == NlmStat::Granted,
        };
        let wanted = {
            let mut inner = self.inner.lock();
            let Some(at) = inner.owed.iter().position(|owed| owed.id == id) else { return };
            inner.owed.swap_remove(at).wanted
        };
        if !keeps {
            self.take_back(&wanted);
        }
    }

    fn take_back(&self, wanted: &Wanted) {
        tracing::debug!(host = %wanted.host, file = ?wanted.file, "a lock that was waited for is not wanted any more");
        let _ = self.table.unlock_posix(wanted.file, wanted.number, wanted.range);
        self.tidy(wanted.host, &wanted.name, wanted.number, wanted.file);
    }

    /// Whoever was held up by somebody's cache gets the lock, or stands in line for it, once that is given up.
    fn go_on(&self) {
        let held_up = self.inner.lock().held_up.clone();
        for wanted in held_up {
            let same = |other: &Wanted| other.is_of(wanted.number, wanted.file) && other.range == wanted.range;
            if self.is_cached(wanted.file, wanted.range) == Ok(true) || self.inner.lock().let_go(same).is_empty() {
                continue;
            }
            match self.table.lock_posix(wanted.file, wanted.number, wanted.range, true) {
                Ok(LockOutcome::Held) => self.owe(wanted),
                Ok(LockOutcome::Wait(ticket)) => self.stand_in_line(ticket, wanted),
                // The client asks again by itself.
                Err(_) => self.tidy(wanted.host, &wanted.name, wanted.number, wanted.file),
            }
        }
    }

    /// Calls again whom it is time to call again, and gives up on the others. May wait.
    pub fn sweep(&self) {
        self.go_on();
        let now_ms = self.now_ms();
        let mut again = Vec::new();
        let gone: Vec<Owed> = {
            let mut inner = self.inner.lock();
            for owed in inner.owed.iter_mut().filter(|owed| owed.next_ms <= now_ms && owed.until_ms > now_ms) {
                owed.next_ms = now_ms + AGAIN_MS;
                again.push((owed.id, owed.wanted.clone()));
            }
            inner.owed.extract_if(.., |owed| owed.until_ms <= now_ms).collect()
        };
        again.iter().for_each(|(id, wanted)| self.tell(*id, wanted));
        gone.iter().for_each(|owed| self.take_back(&owed.wanted));
        self.remember(now_ms);
    }
}
