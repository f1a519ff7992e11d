//! From a user's name to the local identity the work is done under. Looking up a name may read files or ask a
//! directory, so callers do it off the shard. Never turns an unknown user into root.

use std::ffi::CString;
use std::io;

use nix::unistd::{Gid, Group, Uid, getgrouplist};

/// A local identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, the primary one among them.
    pub groups: Vec<u32>,
}

impl Identity {
    /// Overflow ids, commonly `nobody`.
    pub fn nobody() -> Self {
        Self { uid: 65534, gid: 65534, groups: vec![65534] }
    }
}

/// Where the system keeps its users. A trait so that tests have their own.
pub trait SystemUsers {
    /// The identity of a user by name, exactly as written.
    fn by_name(&self, name: &str) -> io::Result<Option<Identity>>;

    /// The identity of a user by uid.
    fn by_uid(&self, uid: u32) -> io::Result<Option<Identity>>;

    /// The name of a user.
    fn user_name(&self, uid: u32) -> io::Result<Option<String>>;

    /// The name of a group.
    fn group_name(&self, gid: u32) -> io::Result<Option<String>>;

    /// The id of a group by name, exactly as written.
    fn group_id(&self, name: &str) -> io::Result<Option<u32>>;
}

/// The system's own users, by way of the name service: files, LDAP, whatever the machine is set up for.
#[derive(Debug, Clone, Copy, Default)]
pub struct NssUsers;

impl NssUsers {
    fn identity(user: nix::unistd::User) -> io::Result<Identity> {
        let name = CString::new(user.name)?;
        let groups = getgrouplist(&name, user.gid)?.into_iter().map(Gid::as_raw).collect();
        Ok(Identity { uid: user.uid.as_raw(), gid: user.gid.as_raw(), groups })
    }
}

impl SystemUsers for NssUsers {
    fn by_name(&self, name: &str) -> io::Result<Option<Identity>> {
        if name.contains('\0') {
            return Ok(None);
        }
        nix::unistd::User::from_name(name)?.map(Self::identity).transpose()
    }

    fn by_uid(&self, uid: u32) -> io::Result<Option<Identity>> {
        nix::unistd::User::from_uid(Uid::from_raw(uid))?.map(Self::identity).transpose()
    }

    fn user_name(&self, uid: u32) -> io::Result<Option<String>> {
        Ok(nix::unistd::User::from_uid(Uid::from_raw(uid))?.map(|user| user.name))
    }

    fn group_name(&self, gid: u32) -> io::Result<Option<String>> {
        Ok(Group::from_gid(Gid::from_raw(gid))?.map(|group| group.name))
    }

    fn group_id(&self, name: &str) -> io::Result<Option<u32>> {
        if name.contains('\0') {
            return Ok(None);
        }
        Ok(Group::from_name(name)?.map(|group| group.gid.as_raw()))
    }
}

/// Maps users to identities.
#[derive(Debug, Clone)]
pub struct IdMap<S = NssUsers> {
    system: S,
    fallback: Identity,
}

impl<S: SystemUsers> IdMap<S> {
    /// With the identity of users the system does not know.
    pub fn new(system: S, fallback: Identity) -> Self {
        Self { system, fallback }
    }

    /// The system's users.
    pub fn system(&self) -> &S {
        &self.system
    }

    /// The identity of guests, and of users the system does not know.
    pub fn fallback(&self) -> &Identity {
        &self.fallback
    }

    /// The identity of the user `name`, who is `uid` if the user database says so. A uid the system has no name for
    /// works, with the fallback's groups. Names are tried as written, then in lower case.
    pub fn identity(&self, name: &str, uid: Option<u32>) -> io::Result<Identity> {
        if let Some(uid) = uid {
            let known = self.system.by_uid(uid)?;
            return Ok(known.unwrap_or_else(|| Identity { uid, ..self.fallback.clone() }));
        }
        if let Some(identity) = self.system.by_name(name)? {
            return Ok(identity);
        }
        let lower = name.to_lowercase();
        let found = if lower == name { None } else { self.system.by_name(&lower)? };
        Ok(found.unwrap_or_else(|| self.fallback.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake;

    impl SystemUsers for Fake {
        fn by_name(&self, name: &str) -> io::Result<Option<Identity>> {
            match name {
                "anna" => self.by_uid(1001),
                "broken" => Err(io::ErrorKind::TimedOut.into()),
                _ => Ok(None),
            }
        }

        fn by_uid(&self, uid: u32) -> io::Result<Option<Identity>> {
            Ok((uid == 1001).then(|| Identity { uid, gid: 100, groups: vec![100, 27] }))
        }

        fn user_name(&self, _uid: u32) -> io::Result<Option<String>> {
            Ok(None)
        }

        fn group_name(&self, _gid: u32) -> io::Result<Option<String>> {
            Ok(None)
        }

        fn group_id(&self, _name: &str) -> io::Result<Option<u32>> {
            Ok(None)
        }
    }

    #[test]
    fn users_are_found_by_uid_then_name_then_lower_case_then_not() {
        let map = IdMap::new(Fake, Identity::nobody());
        let anna = Identity { uid: 1001, gid: 100, groups: vec![100, 27] };
        assert_eq!(map.identity("x", Some(1001)).unwrap(), anna);
        assert_eq!(map.identity("anna", None).unwrap(), anna);
        assert_eq!(map.identity("ANNA", None).unwrap(), anna);
        assert_eq!(map.identity("bert", None).unwrap(), Identity::nobody());
        assert_eq!(map.identity("anna", Some(5)).unwrap(), Identity { uid: 5, ..Identity::nobody() });
        assert!(map.identity("broken", None).is_err(), "a directory that is down makes nobody of nobody");
    }

    #[test]
    fn the_system_knows_root() {
        let root = NssUsers.by_name("root").unwrap().unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(NssUsers.user_name(0).unwrap().as_deref(), Some("root"));
        assert_eq!(NssUsers.group_name(0).unwrap().as_deref(), Some("root"));
        assert_eq!(NssUsers.group_id("root").unwrap(), Some(0));
        assert_eq!(NssUsers.group_id("no such group\0").unwrap(), None);
        assert_eq!(NssUsers.group_id("no-such-group-here").unwrap(), None);
        assert_eq!(NssUsers.by_name("no such user\0").unwrap(), None);
        assert_eq!(NssUsers.by_name("no-such-user-here").unwrap(), None);
    }
}
