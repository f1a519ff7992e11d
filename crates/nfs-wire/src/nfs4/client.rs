//! Client ids of NFSv4.0: SETCLIENTID and SETCLIENTID_CONFIRM (RFC 7530 16.33, 16.34).

use super::{ClientId, NetAddr, NfsStat4, OpaqueId, Verifier};
use crate::xdr::{Malformed, Put, Reader, Xdr};

/// What SETCLIENTID answers.
pub type SetclientidRes<'a> = Result<SetclientidOk, SetclientidError<'a>>;

xdr_struct! {
    /// Arguments of SETCLIENTID.
    pub struct SetclientidArgs<'a> {
        /// Changes when the client restarts.
        verifier: Verifier,
        /// Who the client is.
        id: OpaqueId<'a>,
        /// The program to call back.
        callback_program: u32,
        /// Where.
        callback_address: NetAddr<'a>,
        /// Repeated in each CB_COMPOUND.
        callback_ident: u32,
    }

    /// Result of SETCLIENTID, and arguments of SETCLIENTID_CONFIRM.
    pub struct SetclientidOk {
        /// The client id.
        client_id: ClientId,
        /// To be confirmed with.
        confirm: Verifier,
    }
}

/// Why there is no client id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetclientidError<'a> {
    /// CLID_INUSE: a client at this address has it.
    InUse(NetAddr<'a>),
    /// Anything else.
    Status(NfsStat4),
}

impl<'a> Xdr<'a> for SetclientidRes<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match NfsStat4::decode(r)? {
            NfsStat4::OK => Xdr::decode(r).map(Ok),
            NfsStat4::CLID_INUSE => Ok(Err(SetclientidError::InUse(Xdr::decode(r)?))),
            status => Ok(Err(SetclientidError::Status(status))),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Ok(ok) => (NfsStat4::OK, *ok).put(out),
            Err(SetclientidError::InUse(address)) => (NfsStat4::CLID_INUSE, *address).put(out),
            Err(SetclientidError::Status(NfsStat4::OK | NfsStat4::CLID_INUSE)) => NfsStat4::SERVERFAULT.put(out),
            Err(SetclientidError::Status(status)) => status.put(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::Bounded;

    #[test]
    fn setclientid_by_hand() {
        let address = NetAddr { netid: b"tcp", address: b"1.2.3.4.0.9" };
        let text = "00000003 74637000 0000000b 312e322e 332e342e 302e3900";
        let args = SetclientidArgs {
            verifier: *b"verifier",
            id: Bounded(b"client"),
            callback_program: 0x4000_0000,
            callback_address: address,
            callback_ident: 1,
        };
        let head = "76657269 66696572 00000006 636c6965 6e740000 40000000";
        is_on_the_wire(&args, &unhex(&format!("{head} {text} 00000001")));
        let ok: SetclientidRes<'_> = Ok(SetclientidOk { client_id: 5, confirm: *b"confirm!" });
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000005 636f6e66 69726d21"));
        let in_use: SetclientidRes<'_> = Err(SetclientidError::InUse(address));
        is_on_the_wire(&in_use, &unhex(&format!("00002721 {text}")));
        let failed: SetclientidRes<'_> = Err(SetclientidError::Status(NfsStat4::DELAY));
        is_on_the_wire(&failed, &unhex("00002718"));
    }
}
