//! RPCSEC_GSS (RFC 2203, version 1; RFC 5403 2 adds to it what is not spoken here): the credential, how a context is
//! begun, and what arguments and results look like when they are signed or sealed. The tokens in it are the mechanism's.
//! Nothing here verifies anything.

use super::message::put_accepted;
use super::{AcceptStat, OpaqueAuth};
use crate::xdr::{Bounded, Malformed, Put, Reader, Xdr};

/// The version of the protocol.
pub const GSS_VERSION: u32 = 1;

/// Sequence numbers end here (RFC 2203 5.3.3.1).
pub const MAX_GSS_SEQUENCE: u32 = 0x8000_0000;

/// The longest handle a client may bring back: a credential has no more room.
pub const MAX_GSS_HANDLE_BYTES: usize = super::MAX_AUTH_BYTES;

/// The longest token with which a context is begun.
pub const MAX_GSS_TOKEN_BYTES: usize = 64 << 10;

xdr_enum! {
    /// What a call is for.
    pub enum GssProc {
        /// The procedure that it names.
        Data = 0,
        /// To begin a context.
        Init = 1,
        /// To go on with that.
        ContinueInit = 2,
        /// To end it.
        Destroy = 3,
    }

    /// What is protected.
    pub enum GssService {
        /// The header.
        None = 1,
        /// Arguments and results are signed too.
        Integrity = 2,
        /// They are sealed.
        Privacy = 3,
    }
}

/// The credential (RFC 2203 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GssCred<'a> {
    /// What the call is for.
    pub procedure: GssProc,
    /// The call's number in its context.
    pub sequence: u32,
    /// A [`GssService`]; of no meaning while a context is begun.
    pub service: u32,
    /// The server's name for the context; empty at its beginning.
    pub handle: Bounded<'a, MAX_GSS_HANDLE_BYTES>,
}

impl<'a> Xdr<'a> for GssCred<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        if r.u32()? != GSS_VERSION {
            return Err(Malformed::Value("rpc_gss_cred_t"));
        }
        let (procedure, sequence, service) = (Xdr::decode(r)?, r.u32()?, r.u32()?);
        Ok(Self { procedure, sequence, service, handle: Xdr::decode(r)? })
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        for word in [GSS_VERSION, self.procedure as u32, self.sequence, self.service] {
            out.put_u32(word);
        }
        self.handle.put(out);
    }
}

/// The token of a call that begins a context (RFC 2203 5.2.2).
pub type GssInitArgs<'a> = Bounded<'a, MAX_GSS_TOKEN_BYTES>;

xdr_struct! {
    /// What is answered to it (RFC 2203 5.2.3.1).
    pub struct GssInitRes<'a> {
        /// The context.
        handle: Bounded<'a, MAX_GSS_HANDLE_BYTES>,
        /// GSS-API's status.
        major: u32,
        /// The mechanism's own.
        minor: u32,
        /// How many calls may be under way.
        window: u32,
        /// For the initiator.
        token: Bounded<'a, MAX_GSS_TOKEN_BYTES>,
    }

    /// Arguments or results that are signed (RFC 2203 5.3.2.2): the call's number and they, and the signature.
    pub struct GssIntegrity<'a> {
        /// Number, arguments or results.
        body: &'a [u8],
        /// The signature over it.
        checksum: &'a [u8],
    }
}

/// Arguments or results that are sealed (RFC 2203 5.3.2.3), with the call's number before them.
pub type GssPrivacy<'a> = &'a [u8];

/// Where the credential of a call ends in its record: the verifier is over all before (RFC 2203 5.3.1).
pub fn signed_header_bytes(credential: &OpaqueAuth<'_>) -> usize {
    // Six words and the credential's kind and length stand before its body.
    32 + credential.body.len().next_multiple_of(4)
}

/// Appends the header of a reply to a call that was accepted and not done, with a verifier; for a program that is there
/// in other versions, the lowest and the highest.
pub fn put_failed_verified(
    xid: u32,
    verifier: &OpaqueAuth<'_>,
    stat: AcceptStat,
    versions: Option<(u32, u32)>,
    out: &mut (impl Put + ?Sized),
) {
    put_accepted(xid, verifier, stat, out);
    if let Some((low, high)) = versions {
        out.put_u32(low);
        out.put_u32(high);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Call, Flavor, Outcome, Reply};
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::{decode_all, to_vec};

    #[test]
    fn the_credential_by_hand() {
        let cred = GssCred { procedure: GssProc::Data, sequence: 7, service: 3, handle: Bounded(b"abcd") };
        let bytes = unhex("00000001 00000000 00000007 00000003 00000004 61626364");
        is_on_the_wire(&cred, &bytes);
        for (at, value) in [(3, 0), (3, 2), (7, 4), (6, 4)] {
            let mut wrong = bytes.clone();
            wrong[at] = value;
            assert!(decode_all::<GssCred<'_>>(&wrong).is_err(), "byte {at} {value}");
        }
        let mut endless = bytes;
        endless[16..20].fill(0xff);
        assert_eq!(decode_all::<GssCred<'_>>(&endless), Err(Malformed::TooLong));
    }

    #[test]
    fn the_beginning_by_hand() {
        let res = GssInitRes { handle: Bounded(b"h"), major: 0, minor: 0, window: 128, token: Bounded(b"tok") };
        is_on_the_wire(&res, &unhex("00000001 68000000 00000000 00000000 00000080 00000003 746f6b00"));
        let long = to_vec(&&vec![0u8; MAX_GSS_TOKEN_BYTES + 1][..]);
        assert_eq!(decode_all::<GssInitArgs<'_>>(&long), Err(Malformed::TooLong));
        let body = GssIntegrity { body: b"\0\0\0\x07abcd", checksum: b"mic" };
        is_on_the_wire(&body, &unhex("00000008 00000007 61626364 00000003 6d696300"));
    }

    #[test]
    fn the_verifier_is_over_all_before_it() {
        for body in [&b""[..], b"a", b"abcd", b"abcde"] {
            let credential = OpaqueAuth { flavor: Flavor::GSS, body: Bounded(body) };
            let call = Call { xid: 1, program: 2, version: 3, procedure: 4, credential, verifier: OpaqueAuth::NONE };
            let mut bytes = Vec::new();
            call.put(&mut bytes);
            assert_eq!(signed_header_bytes(&credential), bytes.len() - 8, "an empty verifier has two words");
        }
    }

    #[test]
    fn a_failure_with_a_verifier() {
        let verifier = OpaqueAuth { flavor: Flavor::GSS, body: Bounded(b"mic") };
        let mut out = Vec::new();
        put_failed_verified(7, &verifier, AcceptStat::ProgMismatch, Some((3, 4)), &mut out);
        let reply = Reply::decode(&mut Reader::new(&out)).unwrap();
        assert_eq!(reply, Reply { xid: 7, outcome: Outcome::ProgMismatch { low: 3, high: 4 } });
    }
}
