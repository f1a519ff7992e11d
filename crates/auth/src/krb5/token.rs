//! The frame around a context's first tokens (RFC 2743 3.1, RFC 4121 4.1): the mechanism, and what follows.

use super::Refused;
use super::der::{self, OID, Reader, application};

/// Kerberos 5 (RFC 1964 1): 1.2.840.113554.1.2.2, without tag and length.
pub const MECHANISM: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// KRB_AP_REQ.
pub(super) const AP_REQ: [u8; 2] = [1, 0];
/// KRB_AP_REP.
pub(super) const AP_REP: [u8; 2] = [2, 0];

/// The message in a token of that kind.
pub(super) fn unframe(token: &[u8], kind: [u8; 2]) -> Result<&[u8], Refused> {
    let mut outer = Reader::new(token);
    let mut inner = outer.element(application(0))?;
    outer.end()?;
    if inner.element(OID)?.rest() != MECHANISM {
        return Err(Refused::OtherMechanism);
    }
    inner.rest().strip_prefix(&kind).ok_or(Refused::Malformed)
}

/// A token of that kind with the message that `fill` appends.
pub(super) fn frame(kind: [u8; 2], fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    der::put(&mut out, application(0), |out| {
        der::put(out, OID, |out| out.extend_from_slice(MECHANISM));
        out.extend(kind);
        fill(out);
    });
    out
}
