//! Which clients held something when the server stopped, and the time in which only they are served (RFC 7530 9.6.3,
//! RFC 8881 8.4.2): it begins with a start that finds any in the store, and ends when the last of them has reclaimed, or
//! a lease later, or two where somebody is still reclaiming then. Without a store nobody is known, and nothing can be reclaimed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

use parking_lot::Mutex;

use super::client::{Client, Family};
use crate::store::{Store, StoreChange};

/// Whoever has reclaimed something so lately may not be done.
const STILL_AT_IT_MS: u64 = 2_000;

/// How long a client that holds nothing any more is remembered at most, and from the second time on. At first it is
/// forgotten at once: it may have unmounted, and with NFSv4.0 nothing else tells (RFC 7530 9.6.3 would have everybody wait
/// for it after a restart).
const MOST_PATIENCE_MS: u64 = 10_000;
const SECOND_PATIENCE_MS: u64 = 2_000;

type Name = (Family, Box<[u8]>);

/// Who held what, in memory and in the store.
pub(crate) struct Grace {
    store: Option<Arc<dyn Store>>,
    inner: Mutex<Inner>,
    /// When the time ends; 0 outside of it.
    until_ms: AtomicU64,
    /// When it ends though somebody is still reclaiming.
    last_ms: u64,
    /// Until when whoever reclaimed last may still be at it.
    at_it_until_ms: AtomicU64,
    broken: AtomicBool,
}

#[derive(Default)]
struct Inner {
    /// The records in the store.
    records: HashMap<Name, u64>,
    last_id: u64,
    /// Who has not yet reclaimed.
    owed: HashMap<Name, ()>,
}

impl Grace {
    /// What `store` remembers. The time begins now, if there is anybody to wait for.
    pub fn new(store: Option<Arc<dyn Store>>, now_ms: u64, lease_ms: u64) -> Self {
        let loaded = store.as_ref().map(|store| store.load()).transpose();
        let broken = loaded.is_err();
        if let Err(error) = &loaded {
            tracing::error!(%error, "which NFSv4 clients held files is not known: they cannot reclaim them");
        }
        let mut inner = Inner::default();
        for (id, record) in loaded.ok().flatten().unwrap_or_default() {
            inner.last_id = inner.last_id.max(id);
            if let Some(name) = decode(&record) {
                inner.owed.insert(name.clone(), ());
                inner.records.insert(name, id);
            }
        }
        let until_ms = if inner.owed.is_empty() { 0 } else { now_ms.saturating_add(lease_ms).max(1) };
        Self {
            store,
            inner: Mutex::new(inner),
            until_ms: AtomicU64::new(until_ms),
            last_ms: until_ms.saturating_add(lease_ms),
            at_it_until_ms: AtomicU64::new(0),
            broken: AtomicBool::new(broken),
        }
    }

    /// Whether only reclaims are served now. One load outside of that time.
    pub fn is_on(&self, now_ms: u64) -> bool {
        match self.until_ms.load(Relaxed) {
            0 => false,
            until if now_ms < until => true,
            // Who is in the middle of it is not cut off.
            _ if now_ms < self.last_ms.min(self.at_it_until_ms.load(Relaxed)) => true,
            _ => {
                self.end();
                false
            }
        }
    }

    /// Whether a client that has come may reclaim: it is one that held something.
    pub fn may_reclaim(&self, client: &Client, now_ms: u64) -> bool {
        self.is_on(now_ms) && self.inner.lock().owed.contains_key(&name_of(client))
    }

    /// Somebody reclaims something.
    pub fn reclaims(&self, now_ms: u64) {
        self.at_it_until_ms.store(now_ms.saturating_add(STILL_AT_IT_MS), Relaxed);
    }

    /// A client has reclaimed all it will.
    pub fn reclaimed(&self, client: &Client) {
        let mut inner = self.inner.lock();
        inner.owed.remove(&name_of(client));
        if inner.owed.is_empty() && self.until_ms.load(Relaxed) > 0 {
            drop(inner);
            self.end();
        }
    }

    /// The time is over: who has not come back held nothing that counts any more.
    fn end(&self) {
        let mut inner = self.inner.lock();
        if self.until_ms.swap(0, Relaxed) == 0 {
            return;
        }
        let late: Vec<Name> = inner.owed.drain().map(|(name, ())| name).collect();
        let gone: Vec<StoreChange> =
            late.iter().filter_map(|name| inner.records.remove(name)).map(|id| StoreChange::Remove { id }).collect();
        self.apply(&gone);
    }

    /// Brings it to the store that a client holds something, before the client hears that it does. May wait.
    pub fn keep(&self, client: &Client) {
        if self.store.is_none() || client.kept.load(SeqCst) {
            return;
        }
        let mut inner = self.inner.lock();
        if client.kept.swap(true, SeqCst) {
            return;
        }
        let name = name_of(client);
        if inner.records.contains_key(&name) {
            return;
        }
        if client.forgotten.swap(false, Relaxed) {
            let patience_ms = client.patience_ms.load(Relaxed).saturating_mul(2);
            client.patience_ms.store(patience_ms.clamp(SECOND_PATIENCE_MS, MOST_PATIENCE_MS), Relaxed);
        }
        inner.last_id += 1;
        let id = inner.last_id;
        let record = encode(&name);
        inner.records.insert(name, id);
        self.apply(&[StoreChange::Put { id, record }]);
    }

    /// Whether [`Grace::keep`] has something to do.
    pub fn must_keep(&self, client: &Client) -> bool {
        self.store.is_some() && !client.kept.load(SeqCst)
    }

    /// Forgets those of `clients` that hold nothing any more; sooner or later, for one that opens a file now and then is not
    /// to be written down each time. May wait.
    pub fn tidy(&self, clients: &[Arc<Client>], now_ms: u64) {
        if self.store.is_none() || self.is_on(now_ms) {
            return;
        }
        let mut inner = self.inner.lock();
        let mut gone = Vec::new();
        for client in clients.iter().filter(|client| client.kept.load(SeqCst)) {
            // Whoever begins to hold something counts it first and looks at `kept` then; here it is the other way round, so
            // that one of the two sees the other.
            client.kept.store(false, SeqCst);
            if !client.has_been_idle(now_ms, client.patience_ms.load(Relaxed)) {
                client.kept.store(true, SeqCst);
                continue;
            }
            client.forgotten.store(true, Relaxed);
            gone.extend(inner.records.remove(&name_of(client)).map(|id| StoreChange::Remove { id }));
        }
        self.apply(&gone);
    }

    /// What a client held is lost to others: it must not reclaim it after a restart. May wait.
    pub fn lost(&self, client: &Client) {
        let mut inner = self.inner.lock();
        inner.owed.remove(&name_of(client));
        if !client.kept.swap(false, SeqCst) {
            return;
        }
        let gone = inner.records.remove(&name_of(client)).map(|id| StoreChange::Remove { id });
        self.apply(gone.as_slice());
    }

    fn apply(&self, changes: &[StoreChange]) {
        let Some(store) = self.store.as_ref().filter(|_| !changes.is_empty() && !self.broken.load(Relaxed)) else {
            return;
        };
        if let Err(error) = store.apply(changes) {
            tracing::error!(%error, "the store of NFSv4 clients failed: they cannot reclaim after a restart");
            self.broken.store(true, Relaxed);
        }
    }
}

fn name_of(client: &Client) -> Name {
    (client.family, client.name.clone())
}

fn encode((family, name): &Name) -> Vec<u8> {
    let family: u8 = match family {
        Family::Plain => 0,
        Family::Sessions => 1,
    };
    [&[family], &**name].concat()
}

fn decode(record: &[u8]) -> Option<Name> {
    let (family, name) = record.split_first()?;
    let family = match family {
        0 => Family::Plain,
        1 => Family::Sessions,
        _ => return None,
    };
    Some((family, name.into()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use nfs_wire::nfs4::NfsStat4;

    use super::super::client::Who;
    use super::super::ids::ClientNumber;
    use super::*;
    use crate::store::StoreError;

    #[derive(Default)]
    pub(crate) struct Map(Mutex<BTreeMap<u64, Vec<u8>>>);

    impl Store for Map {
        fn load(&self) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
            Ok(self.0.lock().clone().into_iter().collect())
        }

        fn apply(&self, changes: &[StoreChange]) -> Result<(), StoreError> {
            for change in changes {
                match change {
                    StoreChange::Put { id, record } => drop(self.0.lock().insert(*id, record.clone())),
                    StoreChange::Remove { id } => drop(self.0.lock().remove(id)),
                }
            }
            Ok(())
        }
    }

    fn client(name: &'static [u8]) -> Arc<Client> {
        let who = Who { family: Family::Sessions, name, verifier: [0; 8], principal: None };
        Arc::new(Client::new(ClientNumber(1), 1, &who, 0))
    }

    #[test]
    fn there_is_no_grace_when_nobody_held_anything() {
        let store = Arc::new(Map::default());
        assert!(!Grace::new(Some(Arc::clone(&store) as _), 5, 90).is_on(5));
        assert!(!Grace::new(None, 5, 90).is_on(5));
        let grace = Grace::new(Some(Arc::clone(&store) as _), 5, 90);
        let (one, other) = (client(b"one"), client(b"other"));
        one.holdings.lock().admit_state(NfsStat4::RESOURCE).unwrap();
        grace.keep(&one);
        grace.keep(&other);
        assert_eq!(store.0.lock().len(), 2);
        let both = [Arc::clone(&one), other];
        grace.tidy(&both, 6);
        assert_eq!(store.0.lock().len(), 1, "one of them holds nothing");
        one.holdings.lock().forget_state();
        grace.tidy(&both, 7);
        assert!(!Grace::new(Some(store as _), 5, 90).is_on(5));
    }

    #[test]
    fn who_opens_a_file_now_and_then_is_not_written_down_each_time() {
        let store = Arc::new(Map::default());
        let grace = Grace::new(Some(Arc::clone(&store) as _), 0, 90);
        let one = [client(b"one")];
        let forgets_after = |from_ms: u64| {
            grace.keep(&one[0]);
            let ms = (0..).step_by(1000).find(|ms| {
                grace.tidy(&one, from_ms + ms);
                store.0.lock().is_empty()
            });
            // It holds something for a moment.
            one[0].holdings.lock().admit_state(NfsStat4::RESOURCE).unwrap();
            one[0].has_been_idle(from_ms, 0);
            one[0].holdings.lock().forget_state();
            ms.unwrap()
        };
        let waits = [10, 100, 200, 300, 400, 500].map(|secs| forgets_after(secs * 1000));
        assert_eq!(waits, [0, 2_000, 4_000, 8_000, 10_000, 10_000]);
    }

    #[test]
    fn grace_ends_with_the_last_to_reclaim_and_a_lease_later_at_the_latest() {
        let store = Arc::new(Map::default());
        let before = Grace::new(Some(Arc::clone(&store) as _), 0, 90);
        let (one, other, new) = (client(b"one"), client(b"other"), client(b"new"));
        before.keep(&one);
        before.keep(&other);
        let (one, other) = (client(b"one"), client(b"other"));
        let grace = Grace::new(Some(Arc::clone(&store) as _), 0, 90);
        assert!(grace.may_reclaim(&one, 1) && !grace.may_reclaim(&new, 1));
        grace.reclaimed(&one);
        assert!(grace.is_on(2) && !grace.may_reclaim(&one, 2));
        grace.reclaimed(&other);
        assert!(!grace.is_on(3));
        let grace = Grace::new(Some(Arc::clone(&store) as _), 0, 90);
        grace.keep(&one);
        grace.reclaimed(&one);
        assert!(grace.is_on(89) && !grace.is_on(90));
        assert_eq!(store.0.lock().len(), 1, "the one that did not come back is forgotten");
    }

    #[test]
    fn who_is_still_reclaiming_is_not_cut_off_but_not_waited_for_for_ever() {
        let store = Arc::new(Map::default());
        Grace::new(Some(Arc::clone(&store) as _), 0, 9_000).keep(&client(b"one"));
        let grace = Grace::new(Some(store as _), 0, 9_000);
        grace.reclaims(8_500);
        assert!(grace.is_on(9_000) && grace.is_on(10_499));
        for now_ms in (10_000..17_000).step_by(500) {
            grace.reclaims(now_ms);
            assert!(grace.is_on(now_ms));
        }
        grace.reclaims(17_999);
        assert!(grace.is_on(17_999) && !grace.is_on(18_000));
    }

    #[test]
    fn what_others_were_given_is_not_reclaimed() {
        let store = Arc::new(Map::default());
        let grace = Grace::new(Some(Arc::clone(&store) as _), 0, 90);
        let one = client(b"one");
        grace.keep(&one);
        grace.lost(&one);
        assert!(!Grace::new(Some(store as _), 0, 90).is_on(1));
    }
}
