//! Who is behind a SID and which SID is behind a name, as `lsarpc` and `samr` tell it: well-known principals, Unix users
//! and groups as Samba names them (`Unix User\anna`, `S-1-22-1-uid`), and the machine's own domain. Users and groups come
//! through [`Accounts`], which the binary implements; asking it may wait.

use crate::security::Sid;
use std::sync::Arc;

/// Where users and groups are known. Names are the system's; `None` is nobody.
pub trait Accounts: Send + Sync {
    /// The name of a user.
    fn user_name(&self, uid: u32) -> Option<String>;
    /// The name of a group.
    fn group_name(&self, gid: u32) -> Option<String>;
    /// The user of a name, without regard to case where the name is known in another.
    fn user_id(&self, name: &str) -> Option<u32>;
    /// The group of a name.
    fn group_id(&self, name: &str) -> Option<u32>;
    /// Those who may log in, by name and uid.
    fn logins(&self) -> Vec<(String, u32)>;
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAccounts;

impl Accounts for NoAccounts {
    fn user_name(&self, _uid: u32) -> Option<String> {
        None
    }
    fn group_name(&self, _gid: u32) -> Option<String> {
        None
    }
    fn user_id(&self, _name: &str) -> Option<u32> {
        None
    }
    fn group_id(&self, _name: &str) -> Option<u32> {
        None
    }
    fn logins(&self) -> Vec<(String, u32)> {
        Vec::new()
    }
}

/// A machine's directory, as one caller asks it.
#[derive(Clone)]
pub struct Directory {
    /// The machine's name, which is its own domain's too.
    pub machine: String,
    /// Its workgroup.
    pub workgroup: String,
    /// The SID of its own domain.
    pub domain: Sid,
    /// Who asks.
    pub caller: String,
    /// The users and groups.
    pub accounts: Arc<dyn Accounts>,
}

/// SID_NAME_USE (MS-SAMR 2.2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Use {
    User = 1,
    Group = 2,
    Domain = 3,
    Alias = 4,
    WellKnown = 5,
    Unknown = 8,
}

/// A principal that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The domain's name; empty for principals that are in none.
    pub domain: String,
    /// The domain.
    pub domain_sid: Sid,
    /// Its name; empty for the domain itself.
    pub name: String,
    /// Its SID.
    pub sid: Sid,
    /// What it is.
    pub kind: Use,
}

/// Where the relative ids of users and groups begin: users have the even ones after it, groups the odd ones, as Samba has
/// it.
const FIRST_RID: u32 = 1000;

/// The SID of BUILTIN.
const BUILTIN: &[u32] = &[32];

/// Authority, sub-authorities, name. Those of authority 5 are NT AUTHORITY's, the others in no domain.
const WELL_KNOWN: &[(u64, &[u32], &str)] = &[
    (0, &[0], "NULL SID"),
    (1, &[0], "Everyone"),
    (2, &[0], "LOCAL"),
    (3, &[0], "CREATOR OWNER"),
    (3, &[1], "CREATOR GROUP"),
    (3, &[4], "OWNER RIGHTS"),
    (5, &[1], "DIALUP"),
    (5, &[2], "NETWORK"),
    (5, &[3], "BATCH"),
    (5, &[4], "INTERACTIVE"),
    (5, &[6], "SERVICE"),
    (5, &[7], "ANONYMOUS LOGON"),
    (5, &[10], "SELF"),
    (5, &[11], "Authenticated Users"),
    (5, &[12], "RESTRICTED"),
    (5, &[18], "SYSTEM"),
    (5, &[19], "LOCAL SERVICE"),
    (5, &[20], "NETWORK SERVICE"),
    (5, &[32, 544], "Administrators"),
    (5, &[32, 545], "Users"),
    (5, &[32, 546], "Guests"),
    (5, &[32, 547], "Power Users"),
    (5, &[32, 551], "Backup Operators"),
];

const BUILTIN_NAME: &str = "BUILTIN";
const AUTHORITY_NAME: &str = "NT AUTHORITY";
const USERS_NAME: &str = "Unix User";
const GROUPS_NAME: &str = "Unix Group";

impl Directory {
    /// Who is behind a SID.
    pub fn by_sid(&self, sid: &Sid) -> Option<Principal> {
        if let Some(domain) = self.domains().into_iter().find(|domain| domain.sid == *sid) {
            return Some(domain);
        }
        if let Some(uid) = sid.as_unix_user() {
            return self.unix_user(uid);
        }
        if let Some(gid) = sid.as_unix_group() {
            return self.unix_group(gid);
        }
        if let Some(rid) = self.rid(sid) {
            return self.by_rid(rid);
        }
        let known = |&&(authority, subs, _): &&(u64, &[u32], &str)| {
            sid.authority() == authority && sid.sub_authorities() == subs
        };
        WELL_KNOWN.iter().find(known).and_then(well_known)
    }

    /// Who has a name, with `DOMAIN\` in front of it or without. Well-known ones come first, then users, then groups.
    pub fn by_name(&self, full: &str) -> Option<Principal> {
        let (domain, name) = match full.split_once('\\') {
            Some((domain, name)) => (Some(domain), name),
            None => (None, full),
        };
        let within = |of: &str| domain.is_none_or(|domain| same(domain, of));
        if domain.is_none() || name.is_empty() {
            let wanted = domain.unwrap_or(name);
            if let Some(found) = self.domains().into_iter().find(|d| same(&d.domain, wanted)) {
                return Some(found);
            }
        }
        let known = WELL_KNOWN.iter().filter(|entry| same(entry.2, name)).filter_map(well_known);
        if let Some(found) = { known }.find(|found| within(&found.domain)) {
            return Some(found);
        }
        let own = within(&self.machine);
        if (own || within(USERS_NAME))
            && let Some(uid) = self.accounts.user_id(name)
        {
            return self.unix_user(uid);
        }
        if (own || within(GROUPS_NAME))
            && let Some(gid) = self.accounts.group_id(name)
        {
            return self.unix_group(gid);
        }
        None
    }

    /// A principal of the machine's own domain.
    pub fn by_rid(&self, rid: u32) -> Option<Principal> {
        let number = rid.checked_sub(FIRST_RID)?;
        let (name, kind) = match number % 2 {
            0 => (self.accounts.user_name(number / 2)?, Use::User),
            _ => (self.accounts.group_name(number / 2)?, Use::Group),
        };
        let sid = self.domain.child(rid)?;
        Some(Principal { domain: self.machine.clone(), domain_sid: self.domain.clone(), name, sid, kind })
    }

    /// The relative id a user or group has in the machine's own domain.
    pub fn rid_of(&self, name: &str) -> Option<(u32, Use)> {
        let rid = |id: u32, odd: u32| id.checked_mul(2)?.checked_add(FIRST_RID + odd);
        match self.accounts.user_id(name) {
            Some(uid) => Some((rid(uid, 0)?, Use::User)),
            None => Some((rid(self.accounts.group_id(name)?, 1)?, Use::Group)),
        }
    }

    /// A principal of BUILTIN.
    pub fn builtin(&self, rid: u32) -> Option<Principal> {
        self.by_sid(&builtin_sid()?.child(rid)?)
    }

    /// The relative id of a member of the machine's own domain.
    fn rid(&self, sid: &Sid) -> Option<u32> {
        let (&rid, of) = sid.sub_authorities().split_last()?;
        (sid.authority() == self.domain.authority() && of == self.domain.sub_authorities()).then_some(rid)
    }

    fn domains(&self) -> Vec<Principal> {
        let domain = |name: &str, sid: Option<Sid>| {
            let sid = sid?;
            let (domain, name) = (name.to_owned(), String::new());
            Some(Principal { domain, domain_sid: sid.clone(), name, sid, kind: Use::Domain })
        };
        [
            domain(&self.machine, Some(self.domain.clone())),
            domain(BUILTIN_NAME, builtin_sid()),
            domain(AUTHORITY_NAME, Sid::new(5, &[])),
            domain(USERS_NAME, Sid::new(22, &[1])),
            domain(GROUPS_NAME, Sid::new(22, &[2])),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn unix_user(&self, uid: u32) -> Option<Principal> {
        let (name, domain_sid) = (self.accounts.user_name(uid)?, Sid::new(22, &[1])?);
        Some(Principal { domain: USERS_NAME.into(), domain_sid, name, sid: Sid::unix_user(uid), kind: Use::User })
    }

    fn unix_group(&self, gid: u32) -> Option<Principal> {
        let (name, domain_sid) = (self.accounts.group_name(gid)?, Sid::new(22, &[2])?);
        Some(Principal { domain: GROUPS_NAME.into(), domain_sid, name, sid: Sid::unix_group(gid), kind: Use::Group })
    }
}

/// The SID of BUILTIN, `S-1-5-32`.
pub fn builtin_sid() -> Option<Sid> {
    Sid::new(5, BUILTIN)
}

fn well_known(&(authority, subs, name): &(u64, &[u32], &str)) -> Option<Principal> {
    let (_, of) = subs.split_last()?;
    let (domain, kind) = match (authority, of) {
        (5, BUILTIN) => (BUILTIN_NAME, Use::Alias),
        (5, _) => (AUTHORITY_NAME, Use::WellKnown),
        _ => ("", Use::WellKnown),
    };
    let (domain_sid, sid) = (Sid::new(authority, of)?, Sid::new(authority, subs)?);
    Some(Principal { domain: domain.into(), domain_sid, name: name.into(), sid, kind })
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || a.to_lowercase() == b.to_lowercase()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    struct Two;

    impl Accounts for Two {
        fn user_name(&self, uid: u32) -> Option<String> {
            (uid == 1001).then(|| "anna".into())
        }
        fn group_name(&self, gid: u32) -> Option<String> {
            (gid == 100).then(|| "staff".into())
        }
        fn user_id(&self, name: &str) -> Option<u32> {
            same(name, "anna").then_some(1001)
        }
        fn group_id(&self, name: &str) -> Option<u32> {
            (name == "staff").then_some(100)
        }
        fn logins(&self) -> Vec<(String, u32)> {
            vec![("anna".into(), 1001)]
        }
    }

    pub(in super::super) fn directory() -> Directory {
        Directory {
            machine: "SRV".into(),
            workgroup: "WG".into(),
            domain: Sid::machine(1, 2, 3),
            caller: "anna".into(),
            accounts: Arc::new(Two),
        }
    }

    #[test]
    fn names_and_sids_lead_to_each_other() {
        let directory = directory();
        for (name, full, sid, kind) in [
            ("everyone", "\\Everyone", "S-1-1-0", Use::WellKnown),
            ("CREATOR OWNER", "\\CREATOR OWNER", "S-1-3-0", Use::WellKnown),
            ("nt authority\\system", "NT AUTHORITY\\SYSTEM", "S-1-5-18", Use::WellKnown),
            ("Administrators", "BUILTIN\\Administrators", "S-1-5-32-544", Use::Alias),
            ("Anna", "Unix User\\anna", "S-1-22-1-1001", Use::User),
            ("srv\\anna", "Unix User\\anna", "S-1-22-1-1001", Use::User),
            ("Unix Group\\staff", "Unix Group\\staff", "S-1-22-2-100", Use::Group),
            ("SRV", "SRV\\", "S-1-5-21-1-2-3", Use::Domain),
            ("BUILTIN\\", "BUILTIN\\", "S-1-5-32", Use::Domain),
        ] {
            let found = directory.by_name(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!((format!("{}\\{}", found.domain, found.name), found.kind), (full.into(), kind), "{name}");
            assert_eq!(found.sid.to_string(), sid);
            assert_eq!(directory.by_sid(&sid.parse().unwrap()), Some(found), "{sid}");
        }
        for name in ["bert", "Unix Group\\anna", "OTHER\\anna", "BUILTIN\\Everyone", ""] {
            assert_eq!(directory.by_name(name), None, "{name}");
        }
        for sid in ["S-1-22-1-1002", "S-1-5-21-1-2-3-500", "S-1-5-21-9-9-9-3002", "S-1-22-3-0"] {
            assert_eq!(directory.by_sid(&sid.parse().unwrap()), None, "{sid}");
        }
    }

    #[test]
    fn members_of_the_machines_domain_have_relative_ids() {
        let directory = directory();
        assert_eq!(directory.rid_of("anna"), Some((3002, Use::User)));
        assert_eq!(directory.rid_of("staff"), Some((1201, Use::Group)));
        let found = directory.by_sid(&"S-1-5-21-1-2-3-3002".parse().unwrap()).unwrap();
        assert_eq!((found.domain.as_str(), found.name.as_str(), found.kind), ("SRV", "anna", Use::User));
        assert_eq!(directory.by_rid(999), None);
    }
}
