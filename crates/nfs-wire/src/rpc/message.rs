//! Calls and replies (RFC 5531 9). A call that cannot be served says which reply tells its sender so, as far as it is a
//! call at all. The arguments and results follow the header in the same bytes and are the program's.

use super::OpaqueAuth;
use crate::xdr::{Malformed, Put, Reader, Xdr};

/// The version of the RPC protocol.
pub const RPC_VERSION: u32 = 2;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const ACCEPTED: u32 = 0;
const DENIED: u32 = 1;

/// The header of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// Transaction id, which the reply repeats.
    pub xid: u32,
    /// Program number.
    pub program: u32,
    /// The program's version.
    pub version: u32,
    /// The procedure in it.
    pub procedure: u32,
    /// Who calls.
    pub credential: OpaqueAuth<'a>,
    /// What proves it.
    pub verifier: OpaqueAuth<'a>,
}

/// Why a record is no call that can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadCall {
    /// A reply, which on a connection with a backchannel answers a call of this end.
    Reply,
    /// Not enough of a message to answer; the connection is of no use.
    Malformed(Malformed),
    /// Another version of RPC: [`put_rpc_mismatch`] answers.
    RpcMismatch {
        /// The call's transaction id.
        xid: u32,
    },
    /// A credential or verifier that is too long: [`put_auth_error`] answers.
    Auth {
        /// The call's transaction id.
        xid: u32,
        /// What to answer.
        stat: AuthStat,
    },
}

impl<'a> Call<'a> {
    /// Decodes the header; the arguments are what `r` has left.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, BadCall> {
        let xid = r.u32().map_err(BadCall::Malformed)?;
        match r.u32().map_err(BadCall::Malformed)? {
            CALL => {}
            REPLY => return Err(BadCall::Reply),
            _ => return Err(BadCall::Malformed(Malformed::Value("msg_type"))),
        }
        if r.u32().map_err(BadCall::Malformed)? != RPC_VERSION {
            return Err(BadCall::RpcMismatch { xid });
        }
        let [program, version, procedure] = three(r).map_err(BadCall::Malformed)?;
        let credential = decode_auth(r, xid, AuthStat::BadCred)?;
        let verifier = decode_auth(r, xid, AuthStat::BadVerf)?;
        Ok(Self { xid, program, version, procedure, credential, verifier })
    }

    /// Appends the header; the arguments follow.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        for word in [self.xid, CALL, RPC_VERSION, self.program, self.version, self.procedure] {
            out.put_u32(word);
        }
        self.credential.put(out);
        self.verifier.put(out);
    }
}

fn three(r: &mut Reader<'_>) -> Result<[u32; 3], Malformed> {
    Ok([r.u32()?, r.u32()?, r.u32()?])
}

fn decode_auth<'a>(r: &mut Reader<'a>, xid: u32, stat: AuthStat) -> Result<OpaqueAuth<'a>, BadCall> {
    OpaqueAuth::decode(r).map_err(|e| match e {
        Malformed::TooLong => BadCall::Auth { xid, stat },
        other => BadCall::Malformed(other),
    })
}

xdr_enum! {
    /// What became of a call that was accepted.
    pub enum AcceptStat {
        /// The results follow.
        Success = 0,
        /// The program is not here.
        ProgUnavail = 1,
        /// The program is here in other versions.
        ProgMismatch = 2,
        /// The version has no such procedure.
        ProcUnavail = 3,
        /// The arguments cannot be decoded.
        GarbageArgs = 4,
        /// The server failed, for want of memory perhaps.
        SystemErr = 5,
    }

    /// Why a call was not authenticated.
    pub enum AuthStat {
        /// No failure.
        Ok = 0,
        /// The credential is broken.
        BadCred = 1,
        /// The client must begin a new session.
        RejectedCred = 2,
        /// The verifier is broken.
        BadVerf = 3,
        /// The verifier expired or was replayed.
        RejectedVerf = 4,
        /// Too weak for what was asked.
        TooWeak = 5,
        /// The reply's verifier is wrong (found by a client).
        InvalidResp = 6,
        /// Some reason.
        Failed = 7,
        /// Kerberos failed.
        KerbGeneric = 8,
        /// The credential's time is over.
        TimeExpire = 9,
        /// The ticket file is wrong.
        TktFile = 10,
        /// The authenticator cannot be decoded.
        Decode = 11,
        /// The ticket's network address is wrong.
        NetAddr = 12,
        /// No GSS credentials for this user (RFC 2203 5.3.3.3).
        GssCredProblem = 13,
        /// The GSS context is gone.
        GssCtxProblem = 14,
    }
}

/// The header of a reply, as a client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The call's transaction id.
    pub xid: u32,
    /// What became of the call.
    pub outcome: Outcome<'a>,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Accepted and done: the results follow.
    Success {
        /// The server's verifier.
        verifier: OpaqueAuth<'a>,
    },
    /// Accepted, but there is no such version; these are there.
    ProgMismatch {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// Accepted and not done, for the reason given.
    Failed(AcceptStat),
    /// Denied: another version of RPC is spoken.
    RpcMismatch {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// Denied: not authenticated.
    AuthError(AuthStat),
}

impl<'a> Reply<'a> {
    /// Decodes the header; the results are what `r` has left.
    pub fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let xid = r.u32()?;
        if r.u32()? != REPLY {
            return Err(Malformed::Value("msg_type"));
        }
        let outcome = match r.u32()? {
            ACCEPTED => Self::decode_accepted(r)?,
            DENIED => Self::decode_denied(r)?,
            _ => return Err(Malformed::Value("reply_stat")),
        };
        Ok(Self { xid, outcome })
    }

    fn decode_accepted(r: &mut Reader<'a>) -> Result<Outcome<'a>, Malformed> {
        let verifier = OpaqueAuth::decode(r)?;
        Ok(match AcceptStat::decode(r)? {
            AcceptStat::Success => Outcome::Success { verifier },
            AcceptStat::ProgMismatch => Outcome::ProgMismatch { low: r.u32()?, high: r.u32()? },
            failed => Outcome::Failed(failed),
        })
    }

    fn decode_denied(r: &mut Reader<'a>) -> Result<Outcome<'a>, Malformed> {
        match r.u32()? {
            0 => Ok(Outcome::RpcMismatch { low: r.u32()?, high: r.u32()? }),
            1 => Ok(Outcome::AuthError(AuthStat::decode(r)?)),
            _ => Err(Malformed::Value("reject_stat")),
        }
    }
}

/// Appends the header of a reply to a call that was accepted.
pub(super) fn put_accepted(xid: u32, verifier: &OpaqueAuth<'_>, stat: AcceptStat, out: &mut (impl Put + ?Sized)) {
    for word in [xid, REPLY, ACCEPTED] {
        out.put_u32(word);
    }
    verifier.put(out);
    stat.put(out);
}

/// Appends the header of a reply with an empty verifier; the results follow.
pub fn put_success(xid: u32, out: &mut (impl Put + ?Sized)) {
    put_accepted(xid, &OpaqueAuth::NONE, AcceptStat::Success, out);
}

/// Appends the header of a reply with the verifier a security flavor wants; the results follow.
pub fn put_success_verified(xid: u32, verifier: &OpaqueAuth<'_>, out: &mut (impl Put + ?Sized)) {
    put_accepted(xid, verifier, AcceptStat::Success, out);
}

/// Appends a reply: the program is not here.
pub fn put_prog_unavail(xid: u32, out: &mut (impl Put + ?Sized)) {
    put_accepted(xid, &OpaqueAuth::NONE, AcceptStat::ProgUnavail, out);
}

/// Appends a reply: the program is here in versions `low` to `high`.
pub fn put_prog_mismatch(xid: u32, low: u32, high: u32, out: &mut (impl Put + ?Sized)) {
    put_accepted(xid, &OpaqueAuth::NONE, AcceptStat::ProgMismatch, out);
    out.put_u32(low);
    out.put_u32(high);
}

/// Appends a reply: no such procedure.
pub fn put_proc_unavail(xid: u32, out: &mut (impl Put + ?Sized)) {
    put_accepted(xid, &OpaqueAuth::NONE, AcceptStat::ProcUnavail, out);
}

/// Appends a reply: the arguments cannot be decoded.
pub fn put_garbage_args(xid: u32, out: &mut (impl Put + ?Sized)) {
    put_accepted(xid, &OpaqueAuth::NONE, AcceptStat::GarbageArgs, out);
}

/// Appends a reply: the server failed.
pub fn put_system_err(xid: u32, out: &mut (impl Put + ?Sized)) {
    put_accepted(xid, &OpaqueAuth::NONE, AcceptStat::SystemErr, out);
}

/// Appends a reply: RPC version 2 is spoken here.
pub fn put_rpc_mismatch(xid: u32, out: &mut (impl Put + ?Sized)) {
    for word in [xid, REPLY, DENIED, 0, RPC_VERSION, RPC_VERSION] {
        out.put_u32(word);
    }
}

/// Appends a reply: not authenticated.
pub fn put_auth_error(xid: u32, stat: AuthStat, out: &mut (impl Put + ?Sized)) {
    for word in [xid, REPLY, DENIED, 1, stat as u32] {
        out.put_u32(word);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Flavor;
    use super::*;
    use crate::testing::{hex, unhex};
    use crate::xdr::Bounded;

    /// A NULL call of NFS version 3 without credentials, by hand from RFC 5531 9.
    const NULL_CALL: &str = "3d1e9b07 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000";

    #[test]
    fn a_null_call_in_both_directions() {
        let bytes = unhex(NULL_CALL);
        let call = Call {
            xid: 0x3d1e_9b07,
            program: 100_003,
            version: 3,
            procedure: 0,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        };
        let mut r = Reader::new(&bytes);
        assert_eq!(Call::decode(&mut r), Ok(call));
        assert_eq!(r.remaining(), 0);
        let mut out = Vec::new();
        call.put(&mut out);
        assert_eq!(hex(&out), NULL_CALL);
        for end in 0..bytes.len() {
            let cut = Call::decode(&mut Reader::new(&bytes[..end]));
            assert_eq!(cut, Err(BadCall::Malformed(Malformed::Truncated)), "cut at {end}");
        }
    }

    #[test]
    fn a_call_that_is_none_says_what_to_answer() {
        let decode = |at: usize, word: u32| {
            let mut bytes = unhex(NULL_CALL);
            bytes.patch_u32(at, word);
            Call::decode(&mut Reader::new(&bytes)).unwrap_err()
        };
        assert_eq!(decode(4, 1), BadCall::Reply);
        assert_eq!(decode(4, 2), BadCall::Malformed(Malformed::Value("msg_type")));
        assert_eq!(decode(8, 3), BadCall::RpcMismatch { xid: 0x3d1e_9b07 });
        assert_eq!(decode(28, 401), BadCall::Auth { xid: 0x3d1e_9b07, stat: AuthStat::BadCred });
        assert_eq!(decode(36, u32::MAX), BadCall::Auth { xid: 0x3d1e_9b07, stat: AuthStat::BadVerf });
        assert_eq!(decode(28, 400), BadCall::Malformed(Malformed::Truncated));
    }

    #[track_caller]
    fn replies(put: impl Fn(&mut Vec<u8>), text: &str, outcome: Outcome<'_>) {
        let mut bytes = Vec::new();
        put(&mut bytes);
        assert_eq!(hex(&bytes), text);
        let reply = Reply::decode(&mut Reader::new(&bytes)).unwrap();
        assert_eq!(reply, Reply { xid: 7, outcome });
        for end in 0..bytes.len() {
            assert!(Reply::decode(&mut Reader::new(&bytes[..end])).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn every_reply_by_hand() {
        let accepted = "00000007 00000001 00000000 00000000 00000000";
        replies(
            |o| put_success(7, o),
            &format!("{accepted} 00000000"),
            Outcome::Success { verifier: OpaqueAuth::NONE },
        );
        let failed = |stat| Outcome::Failed(stat);
        replies(|o| put_prog_unavail(7, o), &format!("{accepted} 00000001"), failed(AcceptStat::ProgUnavail));
        replies(|o| put_proc_unavail(7, o), &format!("{accepted} 00000003"), failed(AcceptStat::ProcUnavail));
        replies(|o| put_garbage_args(7, o), &format!("{accepted} 00000004"), failed(AcceptStat::GarbageArgs));
        replies(|o| put_system_err(7, o), &format!("{accepted} 00000005"), failed(AcceptStat::SystemErr));
        replies(
            |o| put_prog_mismatch(7, 3, 4, o),
            &format!("{accepted} 00000002 00000003 00000004"),
            Outcome::ProgMismatch { low: 3, high: 4 },
        );
        replies(
            |o| put_rpc_mismatch(7, o),
            "00000007 00000001 00000001 00000000 00000002 00000002",
            Outcome::RpcMismatch { low: 2, high: 2 },
        );
        replies(
            |o| put_auth_error(7, AuthStat::TooWeak, o),
            "00000007 00000001 00000001 00000001 00000005",
            Outcome::AuthError(AuthStat::TooWeak),
        );
    }

    #[test]
    fn a_verifier_travels_in_the_reply() {
        let verifier = OpaqueAuth { flavor: Flavor::GSS, body: Bounded(b"mic") };
        replies(
            |o| put_success_verified(7, &verifier, o),
            "00000007 00000001 00000000 00000006 00000003 6d696300 00000000",
            Outcome::Success { verifier },
        );
    }

    #[test]
    fn a_credential_travels_in_the_header() {
        let auth = OpaqueAuth { flavor: Flavor::SYS, body: Bounded(b"abcde") };
        let call = Call { xid: 1, program: 2, version: 3, procedure: 4, credential: auth, verifier: OpaqueAuth::NONE };
        let mut bytes = Vec::new();
        call.put(&mut bytes);
        bytes.extend(b"args");
        let mut r = Reader::new(&bytes);
        assert_eq!(Call::decode(&mut r), Ok(call));
        assert_eq!(r.rest(), b"args");
    }
}
