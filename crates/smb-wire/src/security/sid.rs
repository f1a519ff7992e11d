//! Security identifiers (MS-DTYP 2.4.2): binary and string form, and the well-known ones a file server meets. Who a SID
//! is, `auth` and the server know.

use std::fmt;
use std::str::FromStr;

/// The most sub-authorities a SID has.
const MAX_SUB_AUTHORITIES: usize = 15;

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

    fn nt(sub_authorities: Vec<u32>) -> Self {
        Self { authority: 5, sub_authorities }
    }

    /// CREATOR OWNER, `S-1-3-0`: in an inheritable entry, whoever makes the new object.
    pub fn creator_owner() -> Self {
        Self { authority: 3, sub_authorities: vec![0] }
    }

    /// CREATOR GROUP, `S-1-3-1`: the same for the primary group.
    pub fn creator_group() -> Self {
        Self { authority: 3, sub_authorities: vec![1] }
    }

    /// OWNER RIGHTS, `S-1-3-4`: the present owner, in place of what owners have anyway.
    pub fn owner_rights() -> Self {
        Self { authority: 3, sub_authorities: vec![4] }
    }

    /// Logged in over the network: `S-1-5-2`.
    pub fn network() -> Self {
        Self::nt(vec![2])
    }

    /// Logged in at all: `S-1-5-11`.
    pub fn authenticated_users() -> Self {
        Self::nt(vec![11])
    }

    /// The system itself: `S-1-5-18`.
    pub fn system() -> Self {
        Self::nt(vec![18])
    }

    /// BUILTIN\\Administrators: `S-1-5-32-544`.
    pub fn administrators() -> Self {
        Self::nt(vec![32, 544])
    }

    /// BUILTIN\\Users: `S-1-5-32-545`.
    pub fn users() -> Self {
        Self::nt(vec![32, 545])
    }

    /// A machine or domain, `S-1-5-21-a-b-c`.
    pub fn machine(a: u32, b: u32, c: u32) -> Self {
        Self::nt(vec![21, a, b, c])
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

    /// Whether it names an account or group of a machine or domain, `S-1-5-21-…`.
    pub fn is_account(&self) -> bool {
        self.authority == 5 && self.sub_authorities.first() == Some(&21)
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

    /// This SID with one more sub-authority, its relative id; `None` when it has as many as it can have.
    pub fn child(&self, rid: u32) -> Option<Self> {
        let mut child = self.clone();
        child.sub_authorities.push(rid);
        (child.sub_authorities.len() <= MAX_SUB_AUTHORITIES).then_some(child)
    }

    /// Length of the binary form in bytes.
    pub fn len_bytes(&self) -> usize {
        8 + self.sub_authorities.len() * 4
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
}
