//! All clients, by number and by what they call themselves: SETCLIENTID and SETCLIENTID_CONFIRM (RFC 7530 16.33.5 and
//! 16.34.5), EXCHANGE_ID (RFC 8881 18.35.4). It answers who is to be destroyed for a newcomer and destroys nobody.

use std::collections::HashMap;
use std::sync::Arc;

use nfs_wire::nfs4::{NfsStat4, Verifier};

use super::client::{Client, Family, Principal, Standing, Who};
use super::ids::{Boot, ClientNumber};

/// Clients in all.
const MOST_CLIENTS: usize = 1 << 14;

type Key = (Family, Box<[u8]>);

/// All clients.
pub(crate) struct Registry {
    boot: Boot,
    last: u32,
    by_number: HashMap<ClientNumber, Arc<Client>>,
    by_name: HashMap<Key, Records>,
}

/// The records of one name: at most one of each kind (RFC 7530 16.33.5, RFC 8881 18.35.4).
#[derive(Default)]
struct Records {
    confirmed: Option<Arc<Client>>,
    /// What 4.0's confirmed record was confirmed with.
    confirmed_with: Verifier,
    pending: Option<Pending>,
}

/// What waits for its confirmation: a new client, or the same one with another callback.
struct Pending {
    client: Arc<Client>,
    confirm: Verifier,
}

/// How a client that sends EXCHANGE_ID stands.
#[derive(Debug)]
pub(crate) struct Exchanged {
    pub client: Arc<Client>,
    pub confirmed: bool,
    /// Another user's client of that name, which held nothing: it is to be ended.
    pub replaced: Option<Arc<Client>>,
}

/// Of SETCLIENTID_CONFIRM and CREATE_SESSION.
#[derive(Debug)]
pub(crate) struct Confirmed {
    pub client: Arc<Client>,
    /// The client before its restart: what it held is to be given up.
    pub replaced: Option<Arc<Client>>,
    /// The confirmation of a callback, or of a new client: not one sent again.
    pub news: bool,
}

impl Registry {
    pub fn new(boot: Boot) -> Self {
        Self { boot, last: 0, by_number: HashMap::new(), by_name: HashMap::new() }
    }

    /// A client by its number.
    pub fn get(&self, number: ClientNumber) -> Option<&Arc<Client>> {
        self.by_number.get(&number)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.by_number.values()
    }

    /// Whether nobody new is taken.
    pub fn is_full(&self) -> bool {
        self.by_number.len() >= MOST_CLIENTS
    }

    /// SETCLIENTID: the client id to confirm with `confirm`. CLID_INUSE, with its holder, where another user's client of
    /// that name holds anything.
    pub fn set_client_id(
        &mut self,
        who: &Who<'_>,
        confirm: Verifier,
        now_ms: u64,
        lease_ms: u64,
    ) -> Result<Arc<Client>, (NfsStat4, Option<Arc<Client>>)> {
        let key = (who.family, Box::from(who.name));
        let known = self.by_name.get(&key).and_then(|records| records.confirmed.clone());
        if let Some(known) = &known {
            let alive = known.silent_ms(now_ms) <= lease_ms && known.is_in_use();
            if known.principal != who.principal && alive {
                return Err((NfsStat4::CLID_INUSE, Some(Arc::clone(known))));
            }
        }
        // Another callback for a client that has not restarted keeps its id; everybody else gets a new one.
        let client = match known.filter(|known| known.principal == who.principal && known.verifier == who.verifier) {
            Some(same) => same,
            None => self.newcomer(who, now_ms).map_err(|status| (status, None))?,
        };
        self.set_pending(key, Pending { client: Arc::clone(&client), confirm });
        Ok(client)
    }

    /// SETCLIENTID_CONFIRM. STALE_CLIENTID for what nobody was given, CLID_INUSE for what another user was.
    pub fn confirm(
        &mut self,
        number: ClientNumber,
        confirm: Verifier,
        principal: Principal,
    ) -> Result<Confirmed, NfsStat4> {
        let client = Arc::clone(self.by_number.get(&number).ok_or(NfsStat4::STALE_CLIENTID)?);
        if client.principal != principal {
            return Err(NfsStat4::CLID_INUSE);
        }
        let records = self.by_name.get_mut(&key_of(&client)).ok_or(NfsStat4::STALE_CLIENTID)?;
        let is_pending = |p: &&mut Pending| Arc::ptr_eq(&p.client, &client) && p.confirm == confirm;
        if records.pending.as_mut().filter(is_pending).is_none() {
            let again = records.confirmed.as_ref().is_some_and(|c| Arc::ptr_eq(c, &client));
            return match again && records.confirmed_with == confirm {
                true => Ok(Confirmed { client, replaced: None, news: false }),
                false => Err(NfsStat4::STALE_CLIENTID),
            };
        }
        records.pending = None;
        records.confirmed_with = confirm;
        Ok(settle(records, client))
    }

    /// EXCHANGE_ID, without and with UPD_CONFIRMED_REC_A.
    pub fn exchange_id(
        &mut self,
        who: &Who<'_>,
        update: bool,
        now_ms: u64,
        lease_ms: u64,
    ) -> Result<Exchanged, NfsStat4> {
        let key = (who.family, Box::from(who.name));
        let known = self.by_name.get(&key).and_then(|records| records.confirmed.clone());
        let Some(known) = known else {
            // Case 7, or 1 and 4.
            return if update { Err(NfsStat4::NOENT) } else { self.unconfirmed(key, who, now_ms) };
        };
        let (same_principal, same_verifier) = (known.principal == who.principal, known.verifier == who.verifier);
        if update {
            // Cases 6, 8 and 9.
            return match (same_verifier, same_principal) {
                (false, _) => Err(NfsStat4::NOT_SAME),
                (_, false) => Err(NfsStat4::PERM),
                _ => Ok(Exchanged { client: known, confirmed: true, replaced: None }),
            };
        }
        match (same_principal, same_verifier) {
            (true, true) => Ok(Exchanged { client: known, confirmed: true, replaced: None }),
            // Case 5: the one from before its restart goes when this one is confirmed.
            (true, false) => self.unconfirmed(key, who, now_ms),
            // Case 3: another user's.
            (false, _) if known.silent_ms(now_ms) <= lease_ms && known.is_in_use() => Err(NfsStat4::CLID_INUSE),
            (false, _) => {
                let exchanged = self.unconfirmed(key, who, now_ms)?;
                Ok(Exchanged { replaced: Some(known), ..exchanged })
            }
        }
    }

    /// CREATE_SESSION confirms the client that sends it.
    pub fn confirm_by_session(&mut self, client: &Arc<Client>) -> Result<Confirmed, NfsStat4> {
        let records = self.by_name.get_mut(&key_of(client)).ok_or(NfsStat4::STALE_CLIENTID)?;
        if records.confirmed.as_ref().is_some_and(|c| Arc::ptr_eq(c, client)) {
            return Ok(Confirmed { client: Arc::clone(client), replaced: None, news: false });
        }
        records.pending.take_if(|p| Arc::ptr_eq(&p.client, client)).ok_or(NfsStat4::STALE_CLIENTID)?;
        Ok(settle(records, Arc::clone(client)))
    }

    /// Takes a client out. One that expired is still known by its number, so that it can be told.
    pub fn remove(&mut self, client: &Arc<Client>) {
        if client.standing() != Standing::Expired {
            self.by_number.remove(&client.number);
        }
        let key = key_of(client);
        if let Some(records) = self.by_name.get_mut(&key) {
            records.pending.take_if(|p| Arc::ptr_eq(&p.client, client));
            records.confirmed.take_if(|c| Arc::ptr_eq(c, client));
            if records.pending.is_none() && records.confirmed.is_none() {
                self.by_name.remove(&key);
            }
        }
    }

    /// Forgets one that expired.
    pub fn forget(&mut self, number: ClientNumber) {
        self.by_number.remove(&number);
    }

    fn unconfirmed(&mut self, key: Key, who: &Who<'_>, now_ms: u64) -> Result<Exchanged, NfsStat4> {
        let client = self.newcomer(who, now_ms)?;
        self.set_pending(key, Pending { client: Arc::clone(&client), confirm: [0; 8] });
        Ok(Exchanged { client, confirmed: false, replaced: None })
    }

    fn newcomer(&mut self, who: &Who<'_>, now_ms: u64) -> Result<Arc<Client>, NfsStat4> {
        if self.is_full() {
            return Err(if who.family == Family::Plain { NfsStat4::RESOURCE } else { NfsStat4::DELAY });
        }
        self.last = self.last.wrapping_add(1).max(1);
        let number = ClientNumber(self.last);
        let client = Arc::new(Client::new(number, self.boot.client_id(number), who, now_ms));
        self.by_number.insert(number, Arc::clone(&client));
        Ok(client)
    }

    fn set_pending(&mut self, key: Key, pending: Pending) {
        let before = self.by_name.entry(key).or_default().pending.replace(pending);
        if let Some(before) = before.filter(|p| p.client.standing() == Standing::Unconfirmed) {
            self.by_number.remove(&before.client.number);
        }
    }
}

fn key_of(client: &Client) -> Key {
    (client.family, client.name.clone())
}

fn settle(records: &mut Records, client: Arc<Client>) -> Confirmed {
    client.set_standing(Standing::Confirmed);
    let replaced = records.confirmed.replace(Arc::clone(&client)).filter(|before| !Arc::ptr_eq(before, &client));
    Confirmed { client, replaced, news: true }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UserId;

    const LEASE: u64 = 90_000;

    fn registry() -> Registry {
        Registry::new(Boot::new(5))
    }

    fn who(family: Family, verifier: u8, principal: u32) -> Who<'static> {
        Who { family, name: b"client", verifier: [verifier; 8], principal: user(principal) }
    }

    fn user(uid: u32) -> Principal {
        Some(UserId::Sys(uid))
    }

    fn hold(client: &Client) {
        client.holdings.lock().admit_state(NfsStat4::RESOURCE).unwrap();
    }

    fn set(registry: &mut Registry, verifier: u8, principal: u32, confirm: u8) -> Result<Arc<Client>, NfsStat4> {
        registry.set_client_id(&who(Family::Plain, verifier, principal), [confirm; 8], 0, LEASE).map_err(|e| e.0)
    }

    #[test]
    fn a_client_is_confirmed_once_and_may_say_so_again() {
        let mut registry = registry();
        let client = set(&mut registry, 1, 7, 1).unwrap();
        assert_eq!(registry.confirm(client.number, [2; 8], user(7)).err(), Some(NfsStat4::STALE_CLIENTID));
        assert_eq!(registry.confirm(client.number, [1; 8], user(8)).err(), Some(NfsStat4::CLID_INUSE));
        let confirmed = registry.confirm(client.number, [1; 8], user(7)).unwrap();
        assert!(confirmed.news && confirmed.replaced.is_none());
        assert!(!registry.confirm(client.number, [1; 8], user(7)).unwrap().news);
    }

    #[test]
    fn a_second_request_takes_the_place_of_one_that_was_not_confirmed() {
        let mut registry = registry();
        let first = set(&mut registry, 1, 7, 1).unwrap();
        let second = set(&mut registry, 1, 7, 2).unwrap();
        assert_ne!(first.number, second.number);
        assert_eq!(registry.confirm(first.number, [1; 8], user(7)).err(), Some(NfsStat4::STALE_CLIENTID));
        assert!(registry.confirm(second.number, [2; 8], user(7)).is_ok());
    }

    #[test]
    fn another_callback_keeps_the_id_and_a_restart_does_not() {
        let mut registry = registry();
        let client = set(&mut registry, 1, 7, 1).unwrap();
        registry.confirm(client.number, [1; 8], user(7)).unwrap();
        let same = set(&mut registry, 1, 7, 2).unwrap();
        assert_eq!(same.number, client.number);
        assert!(registry.confirm(same.number, [2; 8], user(7)).unwrap().replaced.is_none());
        let restarted = set(&mut registry, 2, 7, 3).unwrap();
        assert_ne!(restarted.number, client.number);
        let confirmed = registry.confirm(restarted.number, [3; 8], user(7)).unwrap();
        assert_eq!(confirmed.replaced.unwrap().number, client.number);
    }

    #[test]
    fn a_name_in_use_is_nobody_elses_while_it_holds_something() {
        let mut registry = registry();
        let client = set(&mut registry, 1, 7, 1).unwrap();
        registry.confirm(client.number, [1; 8], user(7)).unwrap();
        assert!(set(&mut registry, 1, 8, 2).is_ok(), "it holds nothing");
        hold(&client);
        assert_eq!(set(&mut registry, 1, 8, 3).err(), Some(NfsStat4::CLID_INUSE));
        let late = registry.set_client_id(&who(Family::Plain, 1, 8), [4; 8], LEASE + 1, LEASE);
        assert!(late.is_ok(), "its lease is over");
    }

    #[test]
    fn exchange_id_by_the_table_of_the_rfc() {
        let mut registry = registry();
        let sessions = |verifier, principal| who(Family::Sessions, verifier, principal);
        let exchange = |registry: &mut Registry, verifier, principal, update| {
            registry.exchange_id(&sessions(verifier, principal), update, 0, LEASE)
        };
        assert_eq!(exchange(&mut registry, 1, 7, true).err(), Some(NfsStat4::NOENT));
        let first = exchange(&mut registry, 1, 7, false).unwrap();
        let second = exchange(&mut registry, 1, 7, false).unwrap();
        assert!(!second.confirmed && first.client.number != second.client.number);
        assert_eq!(registry.confirm_by_session(&first.client).err(), Some(NfsStat4::STALE_CLIENTID));
        registry.confirm_by_session(&second.client).unwrap();
        let again = exchange(&mut registry, 1, 7, false).unwrap();
        assert!(again.confirmed && again.client.number == second.client.number);
        assert!(exchange(&mut registry, 1, 7, true).unwrap().confirmed);
        assert_eq!(exchange(&mut registry, 2, 7, true).err(), Some(NfsStat4::NOT_SAME));
        assert_eq!(exchange(&mut registry, 1, 8, true).err(), Some(NfsStat4::PERM));
        let restarted = exchange(&mut registry, 2, 7, false).unwrap();
        assert!(!restarted.confirmed);
        let replaced = registry.confirm_by_session(&restarted.client).unwrap().replaced;
        assert_eq!(replaced.unwrap().number, second.client.number);
        hold(&restarted.client);
        assert_eq!(exchange(&mut registry, 9, 8, false).err(), Some(NfsStat4::CLID_INUSE));
    }

    #[test]
    fn a_client_of_one_family_is_nothing_to_the_other() {
        let mut registry = registry();
        let plain = set(&mut registry, 1, 7, 1).unwrap();
        registry.confirm(plain.number, [1; 8], user(7)).unwrap();
        let other = registry.exchange_id(&who(Family::Sessions, 1, 7), false, 0, LEASE).unwrap();
        assert!(!other.confirmed);
    }
}
