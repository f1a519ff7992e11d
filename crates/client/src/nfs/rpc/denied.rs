//! Why a server does not take a call (RFC 5531 9). One call is refused by it, not the connection.

use nfs_wire::rpc::{AcceptStat, AuthStat, Outcome};

/// Why a call was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The program is not here.
    #[error("the server has no such program (PROG_UNAVAIL)")]
    NoProgram,
    /// The program is here in other versions.
    #[error("the server has versions {low} to {high} of the program only (PROG_MISMATCH)")]
    NoVersion {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// The program has no such procedure.
    #[error("the server does not know the procedure (PROC_UNAVAIL)")]
    NoProcedure,
    /// The server could not read the arguments.
    #[error("the server could not read the call (GARBAGE_ARGS)")]
    Garbage,
    /// The server failed.
    #[error("the server failed (SYSTEM_ERR)")]
    System,
    /// RPC itself is spoken in another version.
    #[error("the server speaks another RPC (RPC_MISMATCH)")]
    RpcVersion,
    /// Not with this credential.
    #[error("the server does not accept the credential ({0:?})")]
    Auth(AuthStat),
}

impl Denied {
    /// What an outcome says against a call; `None` where it was done.
    pub(super) fn of(outcome: &Outcome<'_>) -> Option<Self> {
        Some(match outcome {
            Outcome::Success { .. } | Outcome::Failed(AcceptStat::Success) => return None,
            Outcome::ProgMismatch { low, high } => Self::NoVersion { low: *low, high: *high },
            Outcome::Failed(AcceptStat::ProgUnavail | AcceptStat::ProgMismatch) => Self::NoProgram,
            Outcome::Failed(AcceptStat::ProcUnavail) => Self::NoProcedure,
            Outcome::Failed(AcceptStat::GarbageArgs) => Self::Garbage,
            Outcome::Failed(AcceptStat::SystemErr) => Self::System,
            Outcome::RpcMismatch { .. } => Self::RpcVersion,
            Outcome::AuthError(stat) => Self::Auth(*stat),
        })
    }

    /// What might help, for a person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoProgram | Self::NoVersion { .. } => Some("another version may be had with ?version= in the URL"),
            Self::Auth(_) => Some("the export may want Kerberos, or another user"),
            _ => None,
        }
    }
}
