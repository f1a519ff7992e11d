//! Why a connection is over. Every request under way is answered with the same one, so it can be cloned.

use std::time::Duration;

use smb_wire::NtStatus;

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The network said so.
    #[error("{0}")]
    Network(String),
    /// The server closed the connection with requests under way.
    #[error("the server closed the connection")]
    Closed,
    /// Nothing came for too long.
    #[error("no answer within {} seconds", .0.as_secs_f32())]
    Timeout(Duration),
    /// The server did what the protocol does not allow (the section of MS-SMB2 stands where it is found).
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
    /// What came was not sent by the server, or not as it came.
    #[error("the answer is not genuine: {0}")]
    NotGenuine(&'static str),
    /// The two have nothing in common that both find good enough.
    #[error("{0}")]
    NoCommonGround(&'static str),
    /// The server does not let the user in.
    #[error("{0}")]
    Login(NtStatus),
    /// The server refused to negotiate.
    #[error("the server refused to negotiate: {0}")]
    Negotiate(NtStatus),
    /// NFS: the server did not take a call.
    #[error("{0}")]
    Denied(crate::nfs::rpc::Denied),
    /// The connection was lost when the request was under way; it may or may not have been done, and is not made
    /// again.
    #[error("the connection was lost before the answer came: it may or may not have been done")]
    Interrupted,
    /// The connection was made again, but not this open: its server does not know it any more, and the file was changed,
    /// replaced or locked meanwhile.
    #[error("the connection was lost, and with it the open file: it could not be opened again as it was")]
    FileLost,
    /// This side ended it.
    #[error("the connection was closed")]
    Ended,
}

impl Failure {
    /// Whether another connection may do better: this one was lost, nobody refused anything.
    pub(crate) fn is_a_loss(&self) -> bool {
        matches!(self, Self::Network(_) | Self::Closed | Self::Timeout(_))
    }

    /// What might help, for a person.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Network(_) => "check the host, the port, and that a server listens there",
            Self::Closed => "is it an SMB 2 or 3 server, and does it admit this machine?",
            Self::Timeout(_) => "the server or the network may be overloaded, or something between drops packets",
            Self::NotGenuine(_) => "somebody may be changing what is sent, or the server has a fault",
            Self::Login(NtStatus::LOGON_FAILURE) => "check the user name and the password",
            Self::Login(NtStatus::PASSWORD_EXPIRED | NtStatus::PASSWORD_MUST_CHANGE) => "the password must be changed",
            Self::Login(NtStatus::ACCOUNT_LOCKED_OUT) => "too many wrong passwords; wait or ask the server's owner",
            Self::Denied(denied) => return denied.hint(),
            _ => return None,
        })
    }
}
