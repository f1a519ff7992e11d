//! How state ends: a CLOSE, a client that leaves, one that restarted, a lease that ran out. Whoever still uses what ends
//! here finds it closed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coherence::{Deletion, HolderKey, Instant};
use nfs_wire::nfs4::SessionId;
use vfs::{Cred, FileId, VfsResult};

use super::State;
use super::client::{Client, Family, Standing};
use super::deleg::{Course, Delegation};
use super::ids::StateKey;
use super::lock::{LockOwner, LockState};
use super::open::{Open, OpenOwner};
use crate::files::Target;
use crate::tell;

/// How long a silent client keeps what nobody else minds (RFC 8881 8.4.2.3).
const COURTESY_MS: u64 = 24 * 3600 * 1000;

/// Sessions of all clients.
const MOST_SESSIONS: usize = 1 << 14;
/// Slots of all sessions: each may keep an answer of a few KiB.
const ALL_SLOTS: usize = 1 << 18;
/// A newcomer gets this part of the slots that are left: few clients have as many each as one session can, very many have
/// few, and there is one for the last that is let in.
const PART_FOR_ONE: usize = 1 << 12;
/// How long a client that lost what it held is told so, in leases.
const TOLD_LEASES: u64 = 10;

/// Why a client ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It said so, it never held anything, or its name is another's now.
    Left,
    /// It came again as another one of its name.
    Restarted,
    /// It was silent for too long.
    Expired,
}

/// A file whose last open is closed and that somebody wanted gone then.
pub(crate) struct Owed {
    target: Target,
    _deletion: Deletion,
}

impl Owed {
    /// Deletes it. May wait.
    pub fn run(self) {
        if let Err(error) = self.delete() {
            let file = self.target.object.node.id();
            tracing::info!(?error, ?file, "a file that was to go with its last open stays");
        }
    }

    fn delete(&self) -> VfsResult<()> {
        let backend = &self.target.object.export.backend;
        let (node, root) = (&self.target.object.node, backend.root());
        // Whoever asked for it was allowed to.
        let cred = Cred { uid: 0, gid: 0, groups: Arc::from([]) };
        let path = backend.path_of(&**node)?;
        backend.remove(&cred, &*root, &path, Some(node.id()))?;
        tell::gone(&self.target.object, &path);
        Ok(())
    }
}

impl State {
    /// Closes an open: its locks are released. The stateid of a 4.0 open is known for one more request of its owner.
    pub fn close(&self, open: &Arc<Open>) -> Option<Owed> {
        if !open.set_closed() {
            return None;
        }
        open.owner.opens.lock().retain(|_, known| !Arc::ptr_eq(known, open));
        open.owner.open_count.fetch_sub(1, Relaxed);
        open.owner.used_ms.store(self.now_ms(), Relaxed);
        let locks = std::mem::take(&mut *open.locks.lock());
        locks.iter().for_each(|locks| self.release(locks));
        open.owner.client.holdings.lock().forget_state();
        let deletion = open.claim.close_shared()?.delete?;
        Some(Owed { target: open.target.clone(), _deletion: deletion })
    }

    /// Forgets the stateid of an open that is closed.
    pub fn forget_open(&self, open: &Open) {
        self.held.remove(open.key);
    }

    /// The same by its key.
    pub fn forget_key(&self, key: StateKey) {
        self.held.remove(key);
    }

    /// Ends what a lock owner holds on a file.
    pub fn release(&self, locks: &Arc<LockState>) {
        let mut owned = locks.owner.locks.lock();
        let known = owned.get(&locks.file).is_some_and(|known| Arc::ptr_eq(known, locks));
        if !known {
            return;
        }
        owned.remove(&locks.file);
        drop(owned);
        self.held.remove(locks.key);
        self.table.release_posix(locks.file, locks.owner.number);
        locks.owner.client.holdings.lock().forget_state();
        self.forget_unused(&locks.owner);
    }

    /// Ends a lock owner that holds nothing any more.
    pub fn forget_lock_owner(&self, owner: &Arc<LockOwner>) {
        let locks: Vec<_> = owner.locks.lock().values().cloned().collect();
        for locks in locks {
            if let Some(open) = locks.open.upgrade() {
                open.locks.lock().retain(|known| !Arc::ptr_eq(known, &locks));
            }
            self.release(&locks);
        }
        self.forget_unused(owner);
    }

    /// Forgets a lock owner that holds nothing: 4.1 clients never say that they need one no longer, and a 4.0 client may
    /// begin with it as it likes.
    pub fn forget_unused(&self, owner: &Arc<LockOwner>) {
        let mut holdings = owner.client.holdings.lock();
        let locks = owner.locks.lock();
        if !locks.is_empty() || owner.gone.swap(true, Relaxed) {
            return;
        }
        if holdings.lock_owners.get(&owner.name).is_some_and(|known| Arc::ptr_eq(known, owner)) {
            holdings.lock_owners.remove(&owner.name);
        }
        self.lock_owners.lock().remove(&owner.number.0);
    }

    /// A delegation is given back, or given up by a client that knows it was taken.
    pub fn end_delegation(&self, delegation: &Arc<Delegation>) {
        match delegation.set_course(Course::Returned) {
            Course::Returned => return,
            Course::Revoked => drop(delegation.client.revoked.fetch_sub(1, Relaxed)),
            Course::Held | Course::Recalled => {}
        }
        self.held.remove(delegation.key);
        if delegation.write {
            self.writers.remove(delegation.file);
        }
        let mut holdings = delegation.client.holdings.lock();
        let known = holdings.delegations.get(&delegation.file).is_some_and(|known| Arc::ptr_eq(known, delegation));
        if known {
            holdings.delegations.remove(&delegation.file);
        }
        holdings.forget_state();
        drop(holdings);
        let holder = HolderKey::Client(delegation.client.id);
        self.table.give_back(Instant(self.now_ms()), delegation.file, &holder);
    }

    /// Ends a session.
    pub fn end_session(&self, id: &SessionId) {
        let Some(session) = self.sessions.write().remove(id) else { return };
        self.slots.fetch_sub(session.slots(), Relaxed);
        session.client.holdings.lock().sessions.retain(|known| known != id);
    }

    /// Ends a client and all it holds. May wait.
    pub fn end_client(&self, client: &Arc<Client>, why: End) {
        // 4.0 has a word for what is lost, where 4.1 has lost its session.
        if why != End::Left && client.family == Family::Plain {
            client.set_standing(Standing::Expired);
        }
        self.registry.lock().remove(client);
        let (opens, owners, delegations, sessions) = {
            let mut holdings = client.holdings.lock();
            holdings.closed = true;
            (
                std::mem::take(&mut holdings.open_owners),
                std::mem::take(&mut holdings.lock_owners),
                std::mem::take(&mut holdings.delegations),
                std::mem::take(&mut holdings.sessions),
            )
        };
        sessions.iter().for_each(|id| self.end_session(id));
        opens.values().for_each(|owner| self.end_owner(owner));
        owners.values().for_each(|owner| self.forget_lock_owner(owner));
        delegations.values().for_each(|delegation| self.end_delegation(delegation));
        if why == End::Expired {
            self.grace.lost(client);
            tracing::info!(?client, "an NFSv4 client was silent for too long: what it held is given up");
        }
    }

    /// Closes all an open owner has open.
    pub fn end_owner(&self, owner: &OpenOwner) {
        let opens: Vec<_> = owner.opens.lock().values().cloned().collect();
        for open in opens {
            let owed = self.close(&open);
            self.forget_open(&open);
            owed.into_iter().for_each(Owed::run);
        }
    }

    /// Whether a client's lease is over.
    pub fn is_lapsed(&self, client: &Client) -> bool {
        client.silent_ms(self.now_ms()) > self.lease_ms
    }

    /// Somebody is in need of what is held on a file: silent clients give up all they hold if that is among it.
    pub fn give_way(&self, file: FileId) -> bool {
        let silent: Vec<_> = {
            let registry = self.registry.lock();
            registry
                .all()
                .filter(|client| self.is_lapsed(client) && client.standing() == Standing::Confirmed)
                .cloned()
                .collect()
        };
        let mut any = false;
        for client in silent.iter().filter(|client| client.holds_on(file)) {
            self.end_client(client, End::Expired);
            any = true;
        }
        any
    }

    /// Whether a newcomer, or a session more, is one too many.
    pub fn is_crowded(&self) -> bool {
        self.registry.lock().is_full() || self.sessions.read().len() >= MOST_SESSIONS
    }

    /// The slots that one session more may have.
    pub fn slots_for_one(&self) -> u32 {
        let left = ALL_SLOTS.saturating_sub(self.slots.load(Relaxed));
        u32::try_from(left / PART_FOR_ONE).unwrap_or(u32::MAX).max(1)
    }

    /// Silent clients make room for others. May wait.
    pub fn make_room(&self) {
        let clients: Vec<_> = self.registry.lock().all().cloned().collect();
        for client in clients.iter().filter(|client| self.is_lapsed(client)) {
            match client.standing() {
                Standing::Unconfirmed => self.end_client(client, End::Left),
                Standing::Confirmed => self.end_client(client, End::Expired),
                Standing::Expired => {}
            }
            self.registry.lock().forget(client.number);
        }
    }

    /// Lets time pass; to be called every few seconds. May wait.
    pub fn sweep(&self) {
        let now_ms = self.now_ms();
        let clients: Vec<_> = self.registry.lock().all().cloned().collect();
        for client in &clients {
            let silent_ms = client.silent_ms(now_ms);
            match client.standing() {
                Standing::Unconfirmed if silent_ms > self.lease_ms => self.end_client(client, End::Left),
                Standing::Confirmed if silent_ms > COURTESY_MS => self.end_client(client, End::Expired),
                Standing::Expired if silent_ms > TOLD_LEASES * self.lease_ms => {
                    self.registry.lock().forget(client.number)
                }
                _ => self.tidy(client, now_ms),
            }
        }
        self.grace.is_on(now_ms);
        self.grace.tidy(&clients, now_ms);
    }

    /// Forgets owners that have been idle, and asks again for delegations that were not given back.
    fn tidy(&self, client: &Arc<Client>, now_ms: u64) {
        let mut holdings = client.holdings.lock();
        let idle = |owner: &Arc<OpenOwner>| {
            owner.open_count.load(Relaxed) == 0 && now_ms.saturating_sub(owner.used_ms.load(Relaxed)) > self.lease_ms
        };
        let gone: Vec<_> = holdings.open_owners.values().filter(|owner| idle(owner)).cloned().collect();
        gone.iter().for_each(|owner| drop(holdings.open_owners.remove(&owner.name)));
        let recalled: Vec<_> =
            holdings.delegations.values().filter(|d| d.course() == Course::Recalled).cloned().collect();
        drop(holdings);
        for key in gone.iter().filter_map(|owner| owner.turn.lock().closed.take()) {
            self.held.remove(key);
        }
        recalled.iter().for_each(|delegation| self.recall_again(delegation, now_ms));
    }
}

impl Client {
    /// Whether it holds anything on a file.
    pub fn holds_on(&self, file: FileId) -> bool {
        let holdings = self.holdings.lock();
        let delegated = holdings.delegations.contains_key(&file);
        let owners: Vec<_> = holdings.open_owners.values().cloned().collect();
        drop(holdings);
        delegated || owners.iter().any(|owner| owner.opens.lock().contains_key(&file))
    }
}
