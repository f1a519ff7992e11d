//! The server's own domain of security identifiers (MS-DTYP 2.4.2), whose members follow from uids and gids as Samba's do, so
//! that a share keeps its ACLs when it changes servers. Pure mapping; the system's user lists are `id_map`'s.

use smb_wire::security::Sid;

/// Where algorithmic relative ids begin, below are the well-known ones.
const FIRST_RID: u32 = 1000;

/// The server's own domain, `S-1-5-21-a-b-c`: for named users, whose relative ids follow from their uid the way Samba's
/// algorithm has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SidDomain([u32; 3]);

impl SidDomain {
    /// The domain of a machine, by 12 bytes that stay the same: of `/etc/machine-id`, say.
    pub fn new(machine: [u8; 12]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = machine;
        Self([[a, b, c, d], [e, f, g, h], [i, j, k, l]].map(u32::from_le_bytes))
    }

    /// The domain itself.
    pub fn sid(&self) -> Sid {
        let [a, b, c] = self.0;
        Sid::machine(a, b, c)
    }

    /// A user of it; `None` for a uid too large to have a relative id.
    pub fn user(&self, uid: u32) -> Option<Sid> {
        self.member(uid.checked_mul(2)?.checked_add(FIRST_RID)?)
    }

    /// A group of it; `None` for a gid too large to have a relative id.
    pub fn group(&self, gid: u32) -> Option<Sid> {
        self.member(gid.checked_mul(2)?.checked_add(FIRST_RID + 1)?)
    }

    fn member(&self, rid: u32) -> Option<Sid> {
        self.sid().child(rid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_domain_never_collide() {
        let domain = SidDomain::new([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(domain.user(0).unwrap().to_string(), "S-1-5-21-1-2-3-1000");
        assert_eq!(domain.group(0).unwrap().to_string(), "S-1-5-21-1-2-3-1001");
        assert_eq!(domain.user(u32::MAX), None);
    }
}
