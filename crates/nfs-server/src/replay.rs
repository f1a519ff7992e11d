//! Replies to calls that must not be done twice: a client that lost its connection sends its calls again from the same
//! address with the same transaction id, and a MKDIR that was done would fail the second time. NFSv3's procedures and
//! NFSv4.0's operations that change names or attributes ask here; 4.1 has sessions for it. Bounded in number, size and
//! age; what is forgotten is done again, as without it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Calls remembered.
const MOST_CALLS: usize = 2048;
/// The largest reply that is kept.
const MOST_BYTES: usize = 4 << 10;
/// How long a reply is kept: longer than a client waits before it sends a call again.
const KEPT_MS: u64 = 120_000;

/// JUKEBOX, and DELAY in NFSv4.
const LATER: [u8; 4] = nfs_wire::NfsStat3::JUKEBOX.0.to_be_bytes();

/// One call: whoever sends it again sends it from the same port, as the same user, with the same arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Who calls.
    pub peer: SocketAddr,
    /// The transaction.
    pub xid: u32,
    /// Tells its arguments from others.
    pub print: u64,
}

/// What is known of a call.
pub enum Found {
    /// It is to be done.
    New(Doing),
    /// It is being done: it will be answered once.
    UnderWay,
    /// It was answered with this.
    Done(Arc<[u8]>),
}

/// The calls.
#[derive(Clone, Default)]
pub struct Replays(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    calls: HashMap<Key, Option<Arc<[u8]>>>,
    /// In the order they came, with the time.
    order: VecDeque<(u64, Key)>,
}

impl Replays {
    /// Looks a call up, and notes that it is being done if it is new.
    pub fn begin(&self, key: Key, now_ms: u64) -> Found {
        let mut known = self.0.lock();
        known.forget_old(now_ms);
        match known.calls.get(&key) {
            Some(Some(reply)) => Found::Done(Arc::clone(reply)),
            Some(None) => Found::UnderWay,
            None => {
                known.calls.insert(key, None);
                known.order.push_back((now_ms, key));
                Found::New(Doing { replays: self.clone(), key, kept: false })
            }
        }
    }
}

impl Known {
    fn forget_old(&mut self, now_ms: u64) {
        while let Some((came_ms, key)) = self.order.front().copied() {
            if self.order.len() < MOST_CALLS && came_ms.saturating_add(KEPT_MS) > now_ms {
                return;
            }
            self.order.pop_front();
            self.calls.remove(&key);
        }
    }
}

/// A call that is being done. Dropped without a reply, it is forgotten.
pub struct Doing {
    replays: Replays,
    key: Key,
    kept: bool,
}

impl Doing {
    /// Keeps its reply, which begins with a status; what was put off was not done.
    pub fn done(mut self, reply: &[u8]) {
        if reply.len() <= MOST_BYTES
            && !reply.starts_with(&LATER)
            && let Some(place) = self.replays.0.lock().calls.get_mut(&self.key)
        {
            *place = Some(reply.into());
            self.kept = true;
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut known = self.replays.0.lock();
        known.calls.remove(&self.key);
        known.order.retain(|(_, key)| *key != self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(xid: u32) -> Key {
        Key { peer: "192.0.2.1:700".parse().unwrap(), xid, print: 1 }
    }

    fn doing(replays: &Replays, xid: u32, now_ms: u64) -> Doing {
        match replays.begin(key(xid), now_ms) {
            Found::New(doing) => doing,
            _ => panic!("known"),
        }
    }

    #[test]
    fn a_call_is_done_once() {
        let replays = Replays::default();
        let first = doing(&replays, 1, 0);
        assert!(matches!(replays.begin(key(1), 0), Found::UnderWay));
        first.done(b"reply");
        assert!(matches!(replays.begin(key(1), 5), Found::Done(reply) if *reply == *b"reply"));
        drop(doing(&replays, 2, 0));
        drop(doing(&replays, 2, 0));
        drop(doing(&replays, 1, KEPT_MS));
        doing(&replays, 3, 0).done(&LATER);
        drop(doing(&replays, 3, 0));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let replays = Replays::default();
        for xid in 0..3 * MOST_CALLS as u32 {
            doing(&replays, xid, 0).done(b"reply");
        }
        let (calls, order) = {
            let known = replays.0.lock();
            (known.calls.len(), known.order.len())
        };
        assert!(calls <= MOST_CALLS && calls == order);
        let large = doing(&replays, u32::MAX, 0);
        large.done(&[0; MOST_BYTES + 1]);
        drop(doing(&replays, u32::MAX, 0));
    }
}
