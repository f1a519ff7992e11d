//! Giving delegations and having them back: the table of claims says when somebody else needs the file (RFC 7530 10.4.4,
//! RFC 8881 10.4.4 and 20.2). Called as the table's sink from whatever thread caused it.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use coherence::{Effect, EffectSink, GivesWay, HolderKey};
use nfs_wire::nfs4::{CbOp, CbRecallArgs, NfsStat4};
use nfs_wire::xdr::Bounded;
use parking_lot::Mutex;
use vfs::{Attr, FileId};

use super::State;
use super::callback::{Failed, is_answer};
use super::client::Client;
use super::deleg::{Course, Delegation};
use super::end::End;
use crate::files::Target;
use crate::nfs4::failure::Done;

/// How long a recall that was not answered is left alone.
const AGAIN_MS: u64 = 4_000;
/// How long a file whose delegation had to be taken back is given to nobody.
const COOL_MS: u64 = 20_000;
/// Files remembered for that.
const MOST_COOLING: usize = 4096;

/// The table's way to the state.
pub(crate) struct Sink(Weak<State>);

impl Sink {
    pub fn new(state: &Arc<State>) -> Self {
        Self(Arc::downgrade(state))
    }
}

impl EffectSink for Sink {
    fn effect(&self, effect: Effect) {
        let Some(state) = self.0.upgrade() else { return };
        match effect {
            Effect::Break { file, holder: HolderKey::Client(id), .. } => state.recall(id, file),
            Effect::Revoked { file, holder: HolderKey::Client(id), .. } => state.revoked(id, file),
            other => {
                if let Some(waiters) = state.waiters.get() {
                    waiters.effect(other);
                }
            }
        }
    }
}

impl GivesWay for Sink {
    fn give_way(&self, file: FileId) -> bool {
        self.0.upgrade().is_some_and(|state| state.give_way(file))
    }
}

/// Files whose delegations were taken back lately.
#[derive(Default)]
pub(crate) struct Cooling(Mutex<HashMap<FileId, u64>>);

impl Cooling {
    fn add(&self, file: FileId, now_ms: u64) {
        let mut files = self.0.lock();
        if files.len() >= MOST_COOLING {
            files.retain(|_, until| *until > now_ms);
        }
        if files.len() < MOST_COOLING {
            files.insert(file, now_ms.saturating_add(COOL_MS));
        }
    }

    fn has(&self, file: FileId, now_ms: u64) -> bool {
        let mut files = self.0.lock();
        let until = files.get(&file).copied();
        if until.is_some_and(|until| until <= now_ms) {
            files.remove(&file);
        }
        until.is_some_and(|until| until > now_ms)
    }
}

impl State {
    /// Whether a client may be given a delegation on a file, as far as this end knows.
    pub fn may_delegate(&self, client: &Client, file: FileId) -> bool {
        client.channel.works()
            && !self.cooling.has(file, self.now_ms())
            && !client.holdings.lock().delegations.contains_key(&file)
    }

    /// Notes a delegation that the table has granted. Where there is no room for it, it is given back.
    pub fn delegate(&self, client: &Arc<Client>, target: &Target, attr: &Attr, write: bool) -> Done<Arc<Delegation>> {
        let file = attr.id;
        let key = client.next_key();
        let delegation = Arc::new(Delegation::new(key, client, target.clone(), attr, write, self.boot.stateid(key, 1)));
        {
            let mut holdings = client.holdings.lock();
            if let Err(status) = holdings.admit_state(NfsStat4::DELAY) {
                drop(holdings);
                self.not_delegated(client, file);
                return Err(status.into());
            }
            holdings.delegations.insert(file, Arc::clone(&delegation));
        }
        self.held.insert(key, super::Held::Delegation(Arc::clone(&delegation)));
        if write {
            self.writers.add(&delegation);
        }
        Ok(delegation)
    }

    /// Gives back what the table granted and the client was not told of.
    pub fn not_delegated(&self, client: &Client, file: FileId) {
        self.table.give_back(coherence::Instant(self.now_ms()), file, &HolderKey::Client(client.id));
    }

    /// Whether somebody came in need of the file before the delegation was there to be asked for; it is asked for now.
    pub fn recall_if_broken(&self, delegation: &Delegation) -> bool {
        let holder = HolderKey::Client(delegation.client.id);
        let broken = self.table.grant_state(delegation.file, &holder).is_some_and(|grant| grant.breaking_to.is_some());
        if broken {
            self.recall(delegation.client.id, delegation.file);
        }
        broken
    }

    fn delegation_of(&self, id: u64, file: FileId) -> Option<Arc<Delegation>> {
        let client = self.client_by_id(id).ok()?;
        client.holdings.lock().delegations.get(&file).cloned()
    }

    /// Somebody needs the file: the delegation is asked for. One of a silent client is taken with all it has.
    fn recall(&self, id: u64, file: FileId) {
        self.cooling.add(file, self.now_ms());
        let Some(delegation) = self.delegation_of(id, file) else { return };
        if self.is_lapsed(&delegation.client) {
            return self.end_client(&delegation.client, End::Expired);
        }
        if delegation.is_good() {
            delegation.set_course(Course::Recalled);
            self.ask_for(&delegation);
        }
    }

    /// The same for one that was asked for a while ago.
    pub fn recall_again(&self, delegation: &Arc<Delegation>, now_ms: u64) {
        if now_ms.saturating_sub(delegation.asked_ms.load(Relaxed)) >= AGAIN_MS {
            self.ask_for(delegation);
        }
    }

    fn ask_for(&self, delegation: &Arc<Delegation>) {
        self.recalls.fetch_add(1, Relaxed);
        delegation.asked_ms.store(self.now_ms(), Relaxed);
        let handle = &delegation.target.object.handle;
        let args = CbRecallArgs { stateid: delegation.stateid, truncate: false, handle: Bounded(handle) };
        let client = Arc::clone(&delegation.client);
        let done = move |answer: Result<Vec<u8>, Failed>| {
            if let Err(why) = answer {
                tracing::debug!(?client, ?why, "CB_RECALL failed; it is sent again");
            }
        };
        delegation.client.channel.call(&CbOp::Recall(args), self.env.dialer.as_ref(), Box::new(done));
    }

    /// The delegation was not given back in time. A 4.1 client is told; a 4.0 client finds out.
    fn revoked(&self, id: u64, file: FileId) {
        let Some(delegation) = self.delegation_of(id, file) else { return };
        tracing::info!(client = ?delegation.client, ?file, "a delegation was not given back in time");
        if delegation.set_course(Course::Revoked) != Course::Revoked {
            delegation.client.revoked.fetch_add(1, Relaxed);
        }
    }

    /// Finds out whether a 4.0 client can be called back, as RFC 7530 10.2.1 wants it before anything is delegated.
    pub fn probe(&self, client: &Arc<Client>) {
        let (Some(plain), Some(dialer)) = (client.channel.plain(), self.env.dialer.as_ref()) else { return };
        let client = Arc::downgrade(client);
        let (address, record) = (plain.address, plain.null());
        let found = move |reply: Option<Vec<u8>>| {
            if let Some(client) = client.upgrade() {
                client.channel.found(address, is_answer(reply.as_deref()));
            }
        };
        dialer.call(address, record, Box::new(found));
    }
}
