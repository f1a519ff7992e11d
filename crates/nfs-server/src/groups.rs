//! The groups of users as this machine knows them, for exports that don't take the caller's word for it: AUTH_SYS has room
//! for sixteen (RFC 5531 appendix A). Asked for by `files`; what is known is kept for a while, and no more than so much.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use vfs::{Cred, Wait};

use crate::failure::{Done, Stop};

/// Users whose groups are remembered.
const MOST_USERS: usize = 4096;
/// How long they are; a user who cannot be looked up is asked for sooner.
const KEEP_MS: u64 = 300_000;
const KEEP_FAILED_MS: u64 = 10_000;

/// Looks up users.
pub trait Groups: Send + Sync {
    /// All groups of a user; none for one the system does not know. May wait, for a directory service.
    fn groups_of(&self, uid: u32) -> Result<Vec<u32>, String>;
}

/// The accounts of those who come with Kerberos.
pub trait Accounts: Send + Sync {
    /// As whom a user of that name acts here, with all its groups; nobody for a name that is not known. May wait, for a
    /// directory service.
    fn account(&self, name: &str) -> Result<Option<Cred>, String>;
}

/// Of what an id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A user.
    User,
    /// A group.
    Group,
}

/// Names of users and groups, without a domain, as NFSv4 shows owners. Both ways may wait, for a directory service.
pub trait Names: Send + Sync {
    /// What a user or group is called; none for one that has no name.
    fn name_of(&self, kind: IdKind, id: u32) -> Result<Option<String>, String>;

    /// Which user or group is called so; none for a name that is not known.
    fn id_of(&self, kind: IdKind, name: &str) -> Result<Option<u32>, String>;
}

/// What was found out lately.
#[derive(Default)]
pub(crate) struct Known(Mutex<HashMap<u32, Found>>);

/// A user's groups, and until when they count.
type Found = (Arc<[u32]>, u64);

impl Known {
    /// The identity with the groups it has here. WouldBlock where they are not known and nothing may wait.
    pub fn complete(&self, cred: Cred, groups: &Arc<dyn Groups>, now_ms: u64, wait: Wait) -> Done<Cred> {
        if let Some((known, until_ms)) = self.0.lock().get(&cred.uid)
            && now_ms < *until_ms
        {
            return Ok(Cred { groups: Arc::clone(known), ..cred });
        }
        if wait == Wait::Never {
            return Err(Stop::WouldBlock);
        }
        let (found, keep_ms) = match groups.groups_of(cred.uid) {
            Ok(found) => (Arc::from(found), KEEP_MS),
            Err(error) => {
                // Neither the caller's word nor nothing for long.
                tracing::warn!(uid = cred.uid, %error, "cannot look up a user's groups: none count");
                (Arc::from([]), KEEP_FAILED_MS)
            }
        };
        let mut known = self.0.lock();
        if known.len() >= MOST_USERS {
            known.retain(|_, (_, until_ms)| now_ms < *until_ms);
        }
        if known.len() >= MOST_USERS {
            known.clear();
        }
        known.insert(cred.uid, (Arc::clone(&found), now_ms.saturating_add(keep_ms)));
        Ok(Cred { groups: found, ..cred })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Groups for Counting {
        fn groups_of(&self, uid: u32) -> Result<Vec<u32>, String> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if uid == 13 { Err("down".into()) } else { Ok((0..40).map(|n| uid + n).collect()) }
        }
    }

    #[test]
    fn groups_are_looked_up_where_that_may_wait_and_kept_for_a_while() {
        let counting = Arc::new(Counting::default());
        let groups = Arc::clone(&counting) as Arc<dyn Groups>;
        let known = Known::default();
        let cred = |uid| Cred { uid, gid: 1, groups: [9].into() };
        assert_eq!(known.complete(cred(7), &groups, 0, Wait::Never), Err(Stop::WouldBlock));
        let found = known.complete(cred(7), &groups, 0, Wait::Allowed).unwrap();
        assert_eq!((found.uid, found.gid, found.groups.len()), (7, 1, 40));
        assert_eq!(known.complete(cred(7), &groups, KEEP_MS - 1, Wait::Never), Ok(found));
        assert_eq!(known.complete(cred(7), &groups, KEEP_MS, Wait::Never), Err(Stop::WouldBlock));
        assert_eq!(*known.complete(cred(13), &groups, 0, Wait::Allowed).unwrap().groups, []);
        assert_eq!(known.complete(cred(13), &groups, KEEP_FAILED_MS, Wait::Never), Err(Stop::WouldBlock));
        for uid in 100..100 + 2 * MOST_USERS as u32 {
            known.complete(cred(uid), &groups, 1, Wait::Allowed).unwrap();
        }
        assert!(known.0.lock().len() <= MOST_USERS);
        assert_eq!(counting.0.load(Ordering::Relaxed), 2 + 2 * MOST_USERS as u32);
    }
}
