//! Who is at the other end: the user database, NTLM on both sides of a connection, SPNEGO around it, Kerberos, and which
//! local identity a user acts under. The servers and the client library call it. It takes challenges and the time from its
//! caller, opens nothing but the user database and the system's own user lists, and must never print a secret.
#![forbid(unsafe_code)]

mod acceptor;
mod hash;
mod id_map;
mod initiator;
pub mod krb5;
mod mechanism;
mod ntlm;
mod sid;
mod user_db;

pub use acceptor::{Acceptor, AcceptorConfig, Step};
pub use hash::NtHash;
pub use id_map::{IdMap, Identity, NssUsers, SystemUsers};
pub use initiator::{InitStep, Initiator, InitiatorConfig, InitiatorSeed};
pub use mechanism::{AuthError, Authenticated, LoginKind, MechStep, Mechanism, Outcome, SessionKey, UserLookup};
pub use sid::SidDomain;
pub use smb_wire::security::Sid;
pub use user_db::{User, UserDb, UserDbError};
