//! Which system identity each user of the database acts under, found out once at start-up and on reload, so that a login
//! never waits for a directory service on a shard's thread. `plan` makes it; the SMB server asks it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use auth::{IdMap, Identity, NssUsers, SystemUsers, UserDb};
use nix::unistd::Group;

/// The identities of a database's users.
pub struct Identities {
    users: Arc<UserDb>,
    map: IdMap<NssUsers>,
    /// By lower-case name. A user whose lookup failed is missing, and looked up at login.
    known: HashMap<String, Identity>,
}

impl Identities {
    /// Looks up every user of `users`. One the system does not know is `nobody`.
    pub fn of(users: Arc<UserDb>) -> Self {
        let map = IdMap::new(NssUsers, Identity::nobody());
        let mut known = HashMap::new();
        for user in users.users() {
            match map.identity(&user.name, user.uid) {
                Ok(identity) => {
                    known.insert(user.name.to_lowercase(), identity);
                }
                Err(error) => tracing::warn!(user = %user.name, %error, "cannot look up a user; it is tried at login"),
            }
        }
        Self { users, map, known }
    }

    /// The identity of somebody who has logged in as `name`, as the client wrote it.
    pub fn of_login(&self, name: &str) -> Option<Identity> {
        let user = self.users.resolve(name)?;
        match self.known.get(&user.name.to_lowercase()) {
            Some(identity) => Some(identity.clone()),
            None => self.map.identity(&user.name, user.uid).ok(),
        }
    }

    /// The database's user who acts as `uid`, where there is one.
    pub fn acting_as(&self, uid: u32) -> Option<&str> {
        let acts = |name: &&str| self.known.get(&name.to_lowercase()).is_some_and(|identity| identity.uid == uid);
        self.users.users().map(|user| user.name.as_str()).find(acts)
    }

    /// The uid of the database's user `name`, without a domain; none for one that acts as `nobody`, who owns nothing under
    /// that name.
    pub fn owner_called(&self, name: &str) -> Option<u32> {
        if name.contains(['@', '\\']) {
            return None;
        }
        self.of_login(name).map(|identity| identity.uid).filter(|&uid| uid != self.map.fallback().uid)
    }

    /// The other way round.
    pub fn owner_name(&self, uid: u32) -> Option<&str> {
        if uid == self.map.fallback().uid { None } else { self.acting_as(uid) }
    }

    /// The database's users whose identities are known, with their uids.
    pub fn all(&self) -> impl Iterator<Item = (&str, u32)> {
        let uid = |name: &str| self.known.get(&name.to_lowercase()).map(|identity| identity.uid);
        self.users.users().filter_map(move |user| Some((user.name.as_str(), uid(&user.name)?)))
    }

    /// Users that act as `nobody`, because the system knows none of their name.
    pub fn unknown_to_the_system(&self) -> impl Iterator<Item = &str> {
        let nobody = self.map.fallback();
        let is_nobody = move |name: &str| self.known.get(&name.to_lowercase()) == Some(nobody);
        self.users.users().map(|user| user.name.as_str()).filter(move |name| is_nobody(name))
    }

    /// `names` with each `@group` replaced by its members: those the system lists, and the database's users whose
    /// groups it is among.
    pub fn without_groups(&self, names: &[String]) -> Result<Vec<String>, String> {
        let mut users = Vec::new();
        for name in names {
            match name.strip_prefix('@') {
                None => users.push(name.clone()),
                Some(group) => users.extend(self.members(group)?),
            }
        }
        if users.is_empty() && !names.is_empty() {
            // An empty list would let in everybody. No client can log in under a name with a line end.
            users.push("\n".into());
        }
        Ok(users)
    }

    fn members(&self, name: &str) -> Result<Vec<String>, String> {
        let group = group(name)?;
        let gid = group.gid.as_raw();
        let in_group = |user: &&auth::User| {
            self.known.get(&user.name.to_lowercase()).is_some_and(|identity| identity.groups.contains(&gid))
        };
        Ok(group.mem.into_iter().chain(self.users.users().filter(in_group).map(|user| user.name.clone())).collect())
    }
}

/// The identity `force_user` and `force_group` mean together; a group alone changes only the group.
pub fn forced(user: Option<&str>, group_name: Option<&str>) -> Result<Option<Identity>, String> {
    let identity = match user {
        None => None,
        Some(name) => {
            let found = NssUsers.by_name(name).map_err(|error| format!("cannot look up the user {name}: {error}"))?;
            Some(found.ok_or_else(|| format!("the system has no user {name}; `getent passwd` lists those it has"))?)
        }
    };
    match (identity, group_name) {
        (Some(identity), Some(name)) => {
            let gid = group(name)?.gid.as_raw();
            Ok(Some(Identity { gid, groups: vec![gid], ..identity }))
        }
        (None, Some(_)) => Err("needs force_user beside it".into()),
        (identity, None) => Ok(identity),
    }
}

/// The identity of whoever owns a directory.
pub fn owner(uid: u32, gid: u32) -> io::Result<Identity> {
    Ok(NssUsers.by_uid(uid)?.unwrap_or(Identity { uid, gid, groups: vec![gid] }))
}

fn group(name: &str) -> Result<Group, String> {
    let found = Group::from_name(name).map_err(|errno| format!("cannot look up the group {name}: {errno}"))?;
    found.ok_or_else(|| format!("the system has no group {name}; `getent group` lists those it has"))
}

#[cfg(test)]
mod tests {
    use auth::NtHash;

    use super::*;

    fn identities(names: &[(&str, Option<u32>)]) -> Identities {
        let mut db = UserDb::default();
        names.iter().for_each(|(name, uid)| db.add(name, *uid, NtHash::of_password("x")).unwrap());
        Identities::of(Arc::new(db))
    }

    #[test]
    fn users_are_the_systems_or_nobody() {
        let all = identities(&[("Root", None), ("no-such-user-here", None), ("other", Some(0))]);
        assert_eq!(all.of_login("ROOT").unwrap().uid, 0);
        assert_eq!(all.of_login("root@realm").unwrap().uid, 0);
        assert_eq!(all.of_login("other").unwrap().uid, 0);
        assert_eq!(all.of_login("no-such-user-here").unwrap(), Identity::nobody());
        assert_eq!(all.of_login("stranger"), None);
        assert_eq!(all.unknown_to_the_system().collect::<Vec<_>>(), ["no-such-user-here"]);
    }

    #[test]
    fn groups_become_their_members_and_an_empty_one_lets_in_nobody() {
        let all = identities(&[("root", None), ("no-such-user-here", None)]);
        let names = |list: &[&str]| all.without_groups(&list.iter().map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(names(&[]).unwrap(), Vec::<String>::new());
        assert!(names(&["anna", "@root"]).unwrap().contains(&"root".to_owned()), "by its primary group");
        let without = identities(&[]);
        let empty = without.without_groups(&["@nogroup".into()]).unwrap();
        assert!(!empty.is_empty(), "an empty list would mean everybody");
        assert!(names(&["@no-such-group-here"]).unwrap_err().contains("no group"));
    }

    #[test]
    fn forced_identities_must_exist() {
        assert_eq!(forced(None, None).unwrap(), None);
        assert_eq!(forced(Some("root"), None).unwrap().unwrap().uid, 0);
        let both = forced(Some("root"), Some("nogroup")).unwrap().unwrap();
        assert_eq!((both.uid, both.groups.len()), (0, 1));
        assert!(forced(Some("no-such-user-here"), None).is_err());
        assert!(forced(None, Some("nogroup")).is_err());
    }
}
