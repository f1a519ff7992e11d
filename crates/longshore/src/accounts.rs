//! The system's users and groups, and those of the database, for clients that ask who is behind a SID; and the SID of the
//! machine's own domain. `assembly` hands both to the SMB server, which asks on its worker threads.

use std::sync::Arc;

use auth::{NssUsers, SidDomain, SystemUsers};
use nix::unistd::Group;
use smb_server::Accounts;
use smb_wire::crypto::sha256;

use crate::identities::Identities;

/// What tells a machine from others, where there is such a file (machine-id(5)).
const MACHINE_ID: &str = "/etc/machine-id";

/// The system's users and groups and the database's users. What cannot be looked up is nobody.
pub struct SystemAccounts(pub Arc<Identities>);

impl Accounts for SystemAccounts {
    fn user_name(&self, uid: u32) -> Option<String> {
        let system = NssUsers.user_name(uid).ok().flatten();
        system.or_else(|| self.0.acting_as(uid).map(str::to_owned))
    }

    fn group_name(&self, gid: u32) -> Option<String> {
        NssUsers.group_name(gid).ok().flatten()
    }

    fn user_id(&self, name: &str) -> Option<u32> {
        let system = |name: &str| NssUsers.by_name(name).ok().flatten().map(|identity| identity.uid);
        let login = || self.0.of_login(name).map(|identity| identity.uid);
        login().or_else(|| system(name)).or_else(|| system(&name.to_lowercase()))
    }

    fn group_id(&self, name: &str) -> Option<u32> {
        let system = |name: &str| Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        if name.contains('\0') { None } else { system(name).or_else(|| system(&name.to_lowercase())) }
    }

    fn logins(&self) -> Vec<(String, u32)> {
        self.0.all().map(|(name, uid)| (name.to_owned(), uid)).collect()
    }
}

/// The machine's own domain: the same at each start. It follows from the machine's id, which is not told by it
/// (machine-id(5) asks for that), or from the server's name.
pub fn domain(name: &str) -> SidDomain {
    let id = std::fs::read(MACHINE_ID).unwrap_or_default();
    let hash = sha256(
        &[&b"longshore domain\0"[..], id.trim_ascii(), if id.is_empty() { name.as_bytes() } else { b"" }].concat(),
    );
    SidDomain::new(hash.first_chunk().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use auth::{NtHash, UserDb};

    use super::*;

    #[test]
    fn the_systems_users_and_the_databases() {
        let mut db = UserDb::default();
        db.add("Other", Some(54321), NtHash::of_password("x")).unwrap();
        let accounts = SystemAccounts(Arc::new(Identities::of(Arc::new(db))));
        assert_eq!(accounts.user_name(0).as_deref(), Some("root"));
        assert_eq!(accounts.user_id("ROOT"), Some(0));
        assert_eq!(accounts.group_id("root"), Some(0));
        assert_eq!(accounts.user_name(54321).as_deref(), Some("Other"));
        assert_eq!(accounts.user_id("other"), Some(54321));
        assert_eq!(accounts.logins(), [("Other".to_owned(), 54321)]);
        assert_eq!(accounts.user_id("no-such-user-here"), None);
        assert_eq!(accounts.group_id("no\0group"), None);
    }

    #[test]
    fn a_machine_has_one_domain() {
        assert_eq!(domain("a"), domain("a"));
    }
}
