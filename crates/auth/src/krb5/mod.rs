//! Kerberos 5 as a GSS-API mechanism (RFC 4120, RFC 4121): a ticket becomes a context that signs and seals. The NFS
//! server calls the acceptor's half, its tests the initiator's. The time, chance and the keytab's bytes are passed in;
//! a token is never believed before it is decrypted, and no key is ever shown.
//!
//! Encryption is AES with HMAC-SHA1 (RFC 3962) and with HMAC-SHA2 (RFC 8009). What is older is not taken.

mod acceptor;
mod block;
mod context;
mod der;
mod etype;
mod initiator;
mod keytab;
mod messages;
mod replays;
mod seal;
mod token;

#[cfg(test)]
mod tests;

pub use acceptor::{Accepted, Acceptor, MAX_SKEW_SECS};
pub use context::{BadToken, Context, Unwrapped};
pub use etype::{Etype, Key};
pub use initiator::{Initiator, Ticket};
pub use keytab::{BadKeytab, Keytab};
pub use messages::Principal;
pub use token::MECHANISM;

/// Why a context is not begun. The numbers are those of RFC 4120 7.5.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refused {
    /// The bytes are no token, or one of something else than was asked for.
    #[error("the token is malformed")]
    Malformed,
    /// A mechanism other than Kerberos 5.
    #[error("the token is of another mechanism")]
    OtherMechanism,
    /// The ticket is for another service.
    #[error("the ticket is for another service")]
    NotUs,
    /// The keytab has the service, but no key of the ticket's kind.
    #[error("the keytab has no key of the ticket's kind")]
    NoKey,
    /// What was encrypted cannot be decrypted: it was changed, or the keytab has an old key.
    #[error("decryption failed: the keytab's key is not the KDC's, or the token was changed")]
    BadIntegrity,
    /// The ticket's time is over.
    #[error("the ticket has expired")]
    Expired,
    /// The ticket's time has not come.
    #[error("the ticket is not yet valid")]
    NotYetValid,
    /// The clocks are too far apart.
    #[error("the clocks are more than five minutes apart")]
    Skew,
    /// It was here before.
    #[error("the request was here before")]
    Repeat,
    /// The ticket and what came with it name different people.
    #[error("the ticket is somebody else's")]
    BadMatch,
    /// The ticket came by way of realms that nobody vouches for.
    #[error("the way to the realm is not vouched for")]
    BadPath,
    /// Something of the protocol that is not spoken here.
    #[error("not supported")]
    Unsupported,
}

impl Refused {
    /// GSS-API's major status (RFC 2744 3.9.1).
    pub fn major(self) -> u32 {
        const ROUTINE: u32 = 16;
        match self {
            Self::OtherMechanism => 1 << ROUTINE,
            Self::NotUs | Self::NoKey => 7 << ROUTINE,
            Self::Malformed => 9 << ROUTINE,
            Self::Repeat => 2 | 13 << ROUTINE,
            Self::Expired => 11 << ROUTINE,
            _ => 13 << ROUTINE,
        }
    }

    /// The mechanism's minor status: the number of RFC 4120 7.5.9, from where MIT's library counts them, so that a
    /// client can show it in words.
    pub fn minor(self) -> u32 {
        let number: u32 = match self {
            Self::BadIntegrity => 31,
            Self::Expired => 32,
            Self::NotYetValid => 33,
            Self::Repeat => 34,
            Self::NotUs => 35,
            Self::BadMatch => 36,
            Self::Skew => 37,
            Self::Malformed | Self::OtherMechanism => 40,
            Self::NoKey => 45,
            Self::BadPath => 28,
            Self::Unsupported => 60,
        };
        // ERROR_TABLE_BASE_krb5, -1765328384.
        0x96c7_3a00_u32.wrapping_add(number)
    }
}
