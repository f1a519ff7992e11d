//! From what a request names to what it means: clients by their ids, states by their stateids, owners by their names.
//! Whoever is found has been heard of.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use nfs_wire::nfs4::{ClientId, NfsStat4, SessionId, Stateid};
use parking_lot::MutexGuard;

use super::client::{Client, Family, Standing};
use super::ids::{ClientNumber, check_seqid};
use super::lock::{LockOwner, LockState};
use super::open::{Open, OpenOwner, OwnerTurn};
use super::session::Session;
use super::{Held, State};
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Done;

impl Held {
    /// Whose it is.
    pub fn client(&self) -> &Arc<Client> {
        match self {
            Self::Open(open) => &open.owner.client,
            Self::Lock(lock) => &lock.owner.client,
            Self::Delegation(delegation) => &delegation.client,
        }
    }

    /// Its generation.
    pub fn seqid(&self) -> u32 {
        match self {
            Self::Open(open) => open.seqid(),
            Self::Lock(lock) => lock.seqid(),
            Self::Delegation(delegation) => delegation.stateid.seqid,
        }
    }
}

impl State {
    /// The client of an id, whatever its standing.
    pub fn client_by_id(&self, id: ClientId) -> Result<Arc<Client>, NfsStat4> {
        let number = self.boot.number_of(id)?;
        self.registry.lock().get(number).cloned().ok_or(NfsStat4::STALE_CLIENTID)
    }

    /// A 4.0 client that has confirmed its id: STALE_CLIENTID for others, EXPIRED for one that has lost all it held.
    pub fn plain_client(&self, id: ClientId) -> Done<Arc<Client>> {
        let client = self.client_by_id(id)?;
        match (client.family, client.standing()) {
            (Family::Plain, Standing::Confirmed) => {}
            (Family::Plain, Standing::Expired) => return Err(NfsStat4::EXPIRED.into()),
            _ => return Err(NfsStat4::STALE_CLIENTID.into()),
        }
        client.renew(self.now_ms());
        Ok(client)
    }

    /// The client that a request is of: the session's in 4.1, where an id in the arguments has no meaning
    /// (RFC 8881 18.16.3), else the one of the id.
    pub fn client_of(&self, c: &Compound, id: ClientId) -> Done<Arc<Client>> {
        match &c.in_session {
            Some(session) => Ok(Arc::clone(&session.client)),
            None => self.plain_client(id),
        }
    }

    /// A session by its id.
    pub fn session(&self, id: &SessionId) -> Result<Arc<Session>, NfsStat4> {
        self.sessions.read().get(id).cloned().ok_or(NfsStat4::BADSESSION)
    }

    /// What a stateid stands for. Its generation is still to be compared.
    pub fn held(&self, c: &Compound, stateid: &Stateid) -> Done<Held> {
        let key = self.boot.key_of(stateid).map_err(|status| match status {
            // 4.1 has no stale stateids: the session would be gone (RFC 8881 15.1.16.5).
            NfsStat4::STALE_STATEID if c.minor > 0 => NfsStat4::BAD_STATEID,
            status => status,
        })?;
        let Some(held) = self.held.get(key) else { return Err(self.missing(key.client).into()) };
        let client = held.client();
        let own = match &c.in_session {
            Some(session) => Arc::ptr_eq(&session.client, client),
            None => client.family == Family::Plain,
        };
        if !own {
            return Err(NfsStat4::BAD_STATEID.into());
        }
        if c.minor == 0 {
            client.renew(self.now_ms());
        }
        Ok(held)
    }

    fn missing(&self, number: ClientNumber) -> NfsStat4 {
        let expired = self.registry.lock().get(number).is_some_and(|client| client.standing() == Standing::Expired);
        if expired { NfsStat4::EXPIRED } else { NfsStat4::BAD_STATEID }
    }

    /// An open by its stateid; its generation is still to be compared.
    pub fn open_of(&self, c: &Compound, stateid: &Stateid) -> Done<Arc<Open>> {
        match self.held(c, stateid)? {
            Held::Open(open) => Ok(open),
            _ => Err(NfsStat4::BAD_STATEID.into()),
        }
    }

    /// The locks of a lock owner by their stateid; its generation is still to be compared.
    pub fn locks_of(&self, c: &Compound, stateid: &Stateid) -> Done<Arc<LockState>> {
        match self.held(c, stateid)? {
            Held::Lock(locks) => Ok(locks),
            _ => Err(NfsStat4::BAD_STATEID.into()),
        }
    }

    /// The open owner of a name, made where there is none; `first` is its request's seqid (4.0).
    pub fn open_owner(&self, client: &Arc<Client>, name: &[u8], first: u32) -> Done<Arc<OpenOwner>> {
        let mut holdings = client.holdings.lock();
        if let Some(owner) = holdings.open_owners.get(name) {
            owner.used_ms.store(self.now_ms(), Relaxed);
            return Ok(Arc::clone(owner));
        }
        holdings.admit_owner(out_of_resources(client))?;
        let owner = Arc::new(OpenOwner::new(client, name, first, client.family == Family::Sessions));
        owner.used_ms.store(self.now_ms(), Relaxed);
        holdings.open_owners.insert(name.into(), Arc::clone(&owner));
        Ok(owner)
    }

    /// The lock owner of a name, if it ever locked anything.
    pub fn known_lock_owner(&self, client: &Client, name: &[u8]) -> Option<Arc<LockOwner>> {
        client.holdings.lock().lock_owners.get(name).cloned()
    }

    /// The same, made where there is none; `first` is its request's seqid (4.0).
    pub fn lock_owner_named(&self, client: &Arc<Client>, name: &[u8], first: u32) -> Done<Arc<LockOwner>> {
        let mut holdings = client.holdings.lock();
        if let Some(owner) = holdings.lock_owners.get(name) {
            return Ok(Arc::clone(owner));
        }
        holdings.admit_owner(out_of_resources(client))?;
        let owner = self.lock_owner(client, name, first);
        holdings.lock_owners.insert(name.into(), Arc::clone(&owner));
        Ok(owner)
    }
}

/// What to say when there is no room for more.
pub(crate) fn out_of_resources(client: &Client) -> NfsStat4 {
    match client.family {
        Family::Plain => NfsStat4::RESOURCE,
        Family::Sessions => NfsStat4::DELAY,
    }
}

impl OpenOwner {
    /// The owner's turn: DELAY while a request of it is being done elsewhere.
    pub fn take_turn(&self) -> Done<MutexGuard<'_, OwnerTurn>> {
        self.turn.try_lock().ok_or(NfsStat4::DELAY.into())
    }
}

/// Compares a request's stateid with the state it found.
pub(crate) fn check_generation(c: &Compound, stateid: &Stateid, held: u32) -> Done<()> {
    Ok(check_seqid(stateid.seqid, held, c.minor)?)
}
