//! Which hosts hold locks over NFSv3, kept over a restart: they are told of it then and may have their locks again before
//! anybody else has (X/Open C702 11.2, the status monitor). The store is the same kind as that of NFSv4's clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nfs_wire::nsm::{NsmProc, StateChange};
use nfs_wire::rpc::program;
use nfs_wire::xdr::{Bounded, to_vec};
use parking_lot::Mutex;

use super::locks::Nlm;
use crate::reach::{self, Errand};
use crate::store::{Store, StoreChange};

/// The record of the state number.
const STATE_RECORD: u64 = 0;
/// The only version there is.
const NSM_VERSION: u32 = 1;
/// How often a host is told of the restart, and after how long again: twice as long each time.
const MOST_TRIES: u32 = 8;
const FIRST_WAIT_MS: u64 = 4_000;

/// What is remembered.
pub(super) struct Memory {
    store: Option<Arc<dyn Store>>,
    inner: Mutex<Remembered>,
    /// When the time in which only old locks are given ends; 0 outside of it.
    until_ms: AtomicU64,
}

#[derive(Default)]
struct Remembered {
    /// The records of hosts that hold something.
    records: HashMap<IpAddr, u64>,
    last_id: u64,
    /// Odd while up, larger after each restart.
    state: i32,
    /// Who held something before the restart, and whether it has been told.
    before: HashMap<IpAddr, Notice>,
    broken: bool,
}

struct Notice {
    told: bool,
    tries: u32,
    next_ms: u64,
}

impl Memory {
    pub fn new(store: Option<Arc<dyn Store>>, now_ms: u64, grace_ms: u64) -> Self {
        let mut known = Remembered { state: 1, ..Remembered::default() };
        match store.as_ref().map(|store| store.load()).transpose() {
            Ok(loaded) => known.take_in(loaded.unwrap_or_default(), now_ms),
            Err(error) => {
                tracing::error!(%error, "which hosts held locks over NFSv3 is not known: they will not be told");
                known.broken = true;
            }
        }
        let until_ms = if known.before.is_empty() { 0 } else { now_ms.saturating_add(grace_ms).max(1) };
        let record = known.state.to_be_bytes().to_vec();
        let memory = Self { store, inner: Mutex::new(known), until_ms: AtomicU64::new(until_ms) };
        memory.apply(&mut memory.inner.lock(), &[StoreChange::Put { id: STATE_RECORD, record }]);
        memory
    }

    /// The server's state number.
    pub fn state(&self) -> i32 {
        self.inner.lock().state
    }

    /// Whether only what was held before is given. One load outside of that time.
    pub fn is_in_grace(&self, now_ms: u64) -> bool {
        let until = self.until_ms.load(Relaxed);
        until > 0 && now_ms < until
    }

    /// Whether a host held something before the restart.
    pub fn may_reclaim(&self, host: IpAddr, now_ms: u64) -> bool {
        self.is_in_grace(now_ms) && self.inner.lock().before.contains_key(&host)
    }

    /// Whether [`Memory::keep`] has something to do.
    pub fn must_keep(&self, host: IpAddr) -> bool {
        self.store.is_some() && !self.inner.lock().records.contains_key(&host)
    }

    /// Brings it to the store that a host is to hold something, before it hears that it does. May wait.
    pub fn keep(&self, host: IpAddr) {
        let mut inner = self.inner.lock();
        if self.store.is_none() || inner.records.contains_key(&host) {
            return;
        }
        inner.last_id += 1;
        let id = inner.last_id;
        inner.records.insert(host, id);
        self.apply(&mut inner, &[StoreChange::Put { id, record: host.to_string().into_bytes() }]);
    }

    /// Forgets hosts of which `holds` is not true, but for those that are still to be told. May wait.
    fn tidy(&self, holds: impl Fn(IpAddr) -> bool, now_ms: u64) {
        if self.is_in_grace(now_ms) {
            return;
        }
        let mut inner = self.inner.lock();
        inner.before.retain(|_, notice| !notice.told);
        if self.store.is_none() {
            return;
        }
        let Remembered { records, before, .. } = &mut *inner;
        let idle = |host: &IpAddr, _: &mut u64| !before.contains_key(host) && !holds(*host);
        let gone: Vec<StoreChange> = records.extract_if(idle).map(|(_, id)| StoreChange::Remove { id }).collect();
        self.apply(&mut inner, &gone);
    }

    /// Who is to be told now.
    fn due(&self, now_ms: u64) -> Vec<IpAddr> {
        let mut inner = self.inner.lock();
        let mut due = Vec::new();
        for (host, notice) in inner.before.iter_mut().filter(|(_, n)| !n.told && n.next_ms <= now_ms) {
            notice.next_ms = now_ms.saturating_add(FIRST_WAIT_MS << notice.tries.min(MOST_TRIES));
            notice.tries += 1;
            notice.told |= notice.tries > MOST_TRIES;
            due.push(*host);
        }
        due
    }

    fn told(&self, host: IpAddr) {
        if let Some(notice) = self.inner.lock().before.get_mut(&host) {
            notice.told = true;
        }
    }

    fn apply(&self, inner: &mut Remembered, changes: &[StoreChange]) {
        let Some(store) = self.store.as_ref().filter(|_| !changes.is_empty() && !inner.broken) else { return };
        if let Err(error) = store.apply(changes) {
            tracing::error!(%error, "the store of hosts that hold locks failed: they will not be told of a restart");
            inner.broken = true;
        }
    }
}

impl Remembered {
    fn take_in(&mut self, records: Vec<(u64, Vec<u8>)>, now_ms: u64) {
        for (id, record) in records {
            if id == STATE_RECORD {
                let before = record.first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
                self.state = (before.wrapping_add(2) | 1).max(1);
                continue;
            }
            self.last_id = self.last_id.max(id);
            let host = std::str::from_utf8(&record).ok().and_then(|text| text.parse().ok());
            if let Some(host) = host {
                self.records.insert(host, id);
                self.before.insert(host, Notice { told: false, tries: 0, next_ms: now_ms });
            }
        }
    }
}

impl Nlm {
    /// Tells hosts of the restart, and forgets those that hold nothing. May wait.
    pub(super) fn remember(&self, now_ms: u64) {
        for host in self.memory.due(now_ms) {
            self.notify(host);
        }
        let held = |host: IpAddr| self.inner.lock().hosts.get(&host).is_some_and(|known| !known.holds_nothing());
        self.memory.tidy(held, now_ms);
        self.inner.lock().forget_idle();
    }

    fn notify(&self, host: IpAddr) {
        let (Some(dialer), Some(itself)) = (&self.env.dialer, self.itself.get().cloned()) else { return };
        let name = self.env.host_name.as_bytes();
        let args = to_vec(&StateChange { mon_name: Bounded(name), state: self.memory.state() });
        let procedure = NsmProc::Notify as u32;
        let errand = Errand { host, program: program::NSM, version: NSM_VERSION, procedure, args };
        let done = move |answer: Option<Vec<u8>>| {
            if let (Some(_), Some(nlm)) = (answer, itself.upgrade()) {
                nlm.memory.told(host);
            }
        };
        reach::call(dialer, errand, Box::new(done));
    }
}
