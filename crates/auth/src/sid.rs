//! Security identifiers (MS-DTYP 2.4.2) for local users and groups, named as Samba names them, so that a share keeps
//! its ACLs when it changes servers. Pure mapping; the system's user lists are `id_map`'s.

use std::fmt;
use std::str::FromStr;

/// The most sub-authorities a SID has.
const MAX_SUB_AUTHORITIES: usize = 15;
/// Where algorithmic relative ids begin, below are the well-known ones.
const FIRST_RID: u32 = 1000;

/// A SID of revision 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sid {
    authority: u64,
    sub_authorities: Vec<u32>,
}

impl Sid {
    /// From its parts; `None` if the authority has more than 48 bits or there are more than 15 sub-authorities.
    pub fn new(authority: u64, sub_authorities: &[u32]) -> Option<Self> {
        let fits = authority >> 48 == 0 && sub_authorities.len() <= MAX_SUB_AUTHORITIES;
        fits.then(|| Self { authority, sub_authorities: sub_authorities.to_vec() })
    }

    /// Everybody: `S-1-1-0`.
    pub fn everyone() -> Self {
        Self { authority: 1, sub_authorities: vec![0] }
    }

    /// Samba's "Unix User": `S-1-22-1-uid`.
    pub fn unix_user(uid: u32) -> Self {
        Self { authority: 22, sub_authorities: vec![1, uid] }
    }

    /// Samba's "Unix Group": `S-1-22-2-gid`.
    pub fn unix_group(gid: u32) -> Self {
        Self { authority: 22, sub_authorities: vec![2, gid] }
    }

    /// The uid of a "Unix User".
    pub fn as_unix_user(&self) -> Option<u32> {
        match (self.authority, &self.sub_authorities[..]) {
            (22, &[1, uid]) => Some(uid),
            _ => None,
        }
    }

    /// The gid of a "Unix Group".
    pub fn as_unix_group(&self) -> Option<u32> {
        match (self.authority, &self.sub_authorities[..]) {
            (22, &[2, gid]) => Some(gid),
            _ => None,
        }
    }

    /// The identifier authority, 48 bits.
    pub fn authority(&self) -> u64 {
        self.authority
    }

    /// The sub-authorities, the relative id last.
    pub fn sub_authorities(&self) -> &[u32] {
        &self.sub_authorities
    }

    /// Reads the binary form (MS-DTYP 2.4.2.2); what follows it is ignored.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[1, count, a, b, c, d, e, f], rest) = bytes.split_first_chunk()? else { return None };
        let (units, _) = rest.get(..usize::from(count) * 4)?.as_chunks::<4>();
        let sub_authorities: Vec<u32> = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        Self::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), &sub_authorities)
    }

    /// The binary form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![1, self.sub_authorities.len() as u8];
        out.extend_from_slice(&self.authority.to_be_bytes()[2..]);
        out.extend(self.sub_authorities.iter().flat_map(|sub| sub.to_le_bytes()));
        out
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S-1-{}", self.authority)?;
        self.sub_authorities.iter().try_for_each(|sub| write!(f, "-{sub}"))
    }
}

impl FromStr for Sid {
    type Err = ();

    /// Reads the string form with a decimal authority.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.strip_prefix("S-1-").ok_or(())?.split('-');
        let authority = parts.next().and_then(|part| part.parse().ok()).ok_or(())?;
        let sub_authorities = parts.map(str::parse).collect::<Result<Vec<u32>, _>>().map_err(drop)?;
        Self::new(authority, &sub_authorities).ok_or(())
    }
}

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
        Sid { authority: 5, sub_authorities: [&[21], &self.0[..]].concat() }
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
        let mut sid = self.sid();
        sid.sub_authorities.push(rid);
        Some(sid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_sids_read_as_samba_writes_them() {
        assert_eq!(Sid::unix_user(1000).to_string(), "S-1-22-1-1000");
        assert_eq!(Sid::unix_group(u32::MAX).to_string(), "S-1-22-2-4294967295");
        assert_eq!(Sid::unix_user(7).as_unix_user(), Some(7));
        assert_eq!((Sid::unix_user(7).as_unix_group(), Sid::everyone().as_unix_user()), (None, None));
    }

    #[test]
    fn binary_and_text_forms_agree() {
        let bytes = [1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 2, 0, 0];
        let sid = Sid::decode(&bytes).unwrap();
        assert_eq!(sid.to_string(), "S-1-5-21-1-2-3-512");
        assert_eq!(sid.encode(), bytes);
        assert_eq!("S-1-5-21-1-2-3-512".parse(), Ok(sid));
        for len in 0..bytes.len() {
            assert_eq!(Sid::decode(&bytes[..len]), None);
        }
        assert_eq!(Sid::decode(&[2, 0, 0, 0, 0, 0, 0, 5]), None, "another revision");
        assert_eq!(Sid::decode(&[&[1, 16, 0, 0, 0, 0, 0, 5][..], &[0; 64]].concat()), None, "too many parts");
        for bad in ["", "S-1", "S-1-", "S-1-5-", "S-1-5-x", "S-1-5-4294967296", "S-1-281474976710656"] {
            assert!(bad.parse::<Sid>().is_err(), "{bad}");
        }
    }

    #[test]
    fn members_of_the_domain_never_collide() {
        let domain = SidDomain::new([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(domain.user(0).unwrap().to_string(), "S-1-5-21-1-2-3-1000");
        assert_eq!(domain.group(0).unwrap().to_string(), "S-1-5-21-1-2-3-1001");
        assert_eq!(domain.user(u32::MAX), None);
    }
}
