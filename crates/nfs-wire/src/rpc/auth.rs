//! Credentials and verifiers (RFC 5531 8.2 and appendix A). AUTH_SYS is taken apart; RPCSEC_GSS (RFC 2203) and AUTH_TLS
//! (RFC 9289) are recognised and handed on as they are. Nothing here believes or refuses a credential.

use super::AuthStat;
use crate::xdr::{Bounded, List, Malformed, Put, Reader, Xdr, decode_all, to_vec};

/// The longest body of a credential or verifier (RFC 5531 8.2).
pub const MAX_AUTH_BYTES: usize = 400;

/// The most supplementary groups in AUTH_SYS.
pub const MAX_GIDS: usize = 16;

xdr_struct! {
    /// A credential or verifier before it is understood.
    pub struct OpaqueAuth<'a> {
        /// Which kind.
        flavor: Flavor,
        /// What the kind defines.
        body: Bounded<'a, MAX_AUTH_BYTES>,
    }
}

impl OpaqueAuth<'_> {
    /// AUTH_NONE with nothing in it: the verifier of nearly every message.
    pub const NONE: Self = Self { flavor: Flavor::NONE, body: Bounded(&[]) };
}

/// The kind of a credential or verifier; any number travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flavor(pub u32);

impl Flavor {
    /// No authentication.
    pub const NONE: Self = Self(0);
    /// User and groups as the client's kernel says.
    pub const SYS: Self = Self(1);
    /// A shorthand a server once gave; none is given any more.
    pub const SHORT: Self = Self(2);
    /// GSS-API, Kerberos in practice.
    pub const GSS: Self = Self(6);
    /// The probe for RPC with TLS.
    pub const TLS: Self = Self(7);
    /// Pseudo-flavor in lists (RFC 2623): Kerberos, authentication only.
    pub const KRB5: Self = Self(390_003);
    /// Pseudo-flavor: Kerberos with integrity.
    pub const KRB5I: Self = Self(390_004);
    /// Pseudo-flavor: Kerberos with privacy.
    pub const KRB5P: Self = Self(390_005);
}

impl<'a> Xdr<'a> for Flavor {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.u32().map(Self)
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(self.0);
    }
}

/// The body of an AUTH_SYS credential (RFC 5531 appendix A).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// Anything the client likes.
    pub stamp: u32,
    /// The client's name for itself, at most 255 bytes.
    pub machine_name: Bounded<'a, 255>,
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups, at most [`MAX_GIDS`].
    pub gids: List<'a, u32>,
}

impl<'a> Xdr<'a> for AuthSys<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (stamp, machine_name) = (r.u32()?, Xdr::decode(r)?);
        let (uid, gid) = (r.u32()?, r.u32()?);
        r.clone().count(MAX_GIDS, 4)?;
        Ok(Self { stamp, machine_name, uid, gid, gids: Xdr::decode(r)? })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(self.stamp);
        self.machine_name.put(out);
        out.put_u32(self.uid);
        out.put_u32(self.gid);
        self.gids.put(out);
    }
}

impl AuthSys<'_> {
    /// The credential's body, which [`OpaqueAuth`] carries.
    pub fn to_body(&self) -> Vec<u8> {
        to_vec(self)
    }
}

/// A credential that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential<'a> {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS.
    Sys(AuthSys<'a>),
    /// RPCSEC_GSS: the body of RFC 2203 5.3.1, not taken apart.
    Gss(&'a [u8]),
    /// AUTH_TLS (RFC 9289 4.1).
    Tls,
}

impl<'a> Credential<'a> {
    /// Understands a credential, or says what a server answers that does not.
    pub fn parse(auth: &OpaqueAuth<'a>) -> Result<Self, AuthStat> {
        match auth.flavor {
            Flavor::NONE => Ok(Self::None),
            Flavor::SYS => decode_all(auth.body.0).map(Self::Sys).map_err(|_| AuthStat::BadCred),
            Flavor::GSS => Ok(Self::Gss(auth.body.0)),
            Flavor::TLS => Ok(Self::Tls),
            Flavor::SHORT => Err(AuthStat::RejectedCred),
            _ => Err(AuthStat::BadCred),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};

    fn auth(flavor: Flavor, body: &[u8]) -> OpaqueAuth<'_> {
        OpaqueAuth { flavor, body: Bounded(body) }
    }

    #[test]
    fn auth_sys_by_hand() {
        let sys = AuthSys {
            stamp: 0x0102_0304,
            machine_name: Bounded(b"linux"),
            uid: 1000,
            gid: 100,
            gids: List::new(&[24, 1000]),
        };
        let body = unhex("01020304 00000005 6c696e75 78000000 000003e8 00000064 00000002 00000018 000003e8");
        is_on_the_wire(&sys, &body);
        assert_eq!(Credential::parse(&auth(Flavor::SYS, &body)), Ok(Credential::Sys(sys)));
        assert_eq!(sys.to_body(), body);
    }

    #[test]
    fn groups_are_sixteen_at_most_and_a_name_is_bounded() {
        let head = "00000000 00000000 00000001 00000001";
        for (count, then) in [(17u32, 17 * 4), (1 << 30, 0), (1 << 30, 400), (u32::MAX, 64)] {
            let mut body = unhex(head);
            body.extend(count.to_be_bytes());
            body.resize(body.len() + then, 0);
            assert_eq!(decode_all::<AuthSys<'_>>(&body), Err(Malformed::TooLong), "{count}");
            assert_eq!(Credential::parse(&auth(Flavor::SYS, &body)), Err(AuthStat::BadCred));
        }
        let mut body = unhex("00000000 00000100");
        body.resize(8 + 256 + 12, b'a');
        assert_eq!(decode_all::<AuthSys<'_>>(&body), Err(Malformed::TooLong));
    }

    #[test]
    fn flavors_are_told_apart() {
        assert_eq!(Credential::parse(&OpaqueAuth::NONE), Ok(Credential::None));
        assert_eq!(Credential::parse(&auth(Flavor::GSS, b"1234")), Ok(Credential::Gss(b"1234")));
        assert_eq!(Credential::parse(&auth(Flavor::TLS, b"")), Ok(Credential::Tls));
        assert_eq!(Credential::parse(&auth(Flavor::SHORT, b"1234")), Err(AuthStat::RejectedCred));
        assert_eq!(Credential::parse(&auth(Flavor(3), b"")), Err(AuthStat::BadCred));
        let long = vec![0; 404];
        let bytes = to_vec(&auth(Flavor::SYS, &long));
        assert_eq!(decode_all::<OpaqueAuth<'_>>(&bytes), Err(Malformed::TooLong));
    }
}
