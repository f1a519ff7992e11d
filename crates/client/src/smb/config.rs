//! What a caller wants of a connection. Read by the machine and by `offer`; nothing here decides anything.

use std::time::Duration;

use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::Dialect;

use super::{Credentials, Protection};

/// What must be new for each connection: random bytes and the time.
#[derive(Clone)]
pub struct Seed {
    /// Names this client.
    pub client_guid: [u8; 16],
    /// For the preauthentication hash.
    pub salt: [u8; 32],
    /// For NTLM.
    pub client_challenge: [u8; 8],
    /// The session key this side chooses.
    pub session_key: [u8; 16],
    /// The time as a FILETIME.
    pub now: u64,
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// What a connection is to be like.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server's name as the caller knows it.
    pub server_name: String,
    /// Who logs in.
    pub credentials: Credentials,
    /// What is insisted on.
    pub protection: Protection,
    /// The oldest dialect offered.
    pub min_dialect: Dialect,
    /// The newest.
    pub max_dialect: Dialect,
    /// Ciphers, the best first.
    pub ciphers: Vec<Cipher>,
    /// Signing algorithms, the best first.
    pub signing: Vec<SigningAlgorithm>,
    /// The most one request moves, whatever the server allows.
    pub max_transfer_bytes: u32,
    /// How wide the window of credits should grow.
    pub credits: u16,
    /// How long the server may be silent with requests under way.
    pub timeout: Duration,
    /// The session this one takes the place of (MS-SMB2 3.2.4.2.3), or 0.
    pub previous_session_id: u64,
    /// Whether the session is to have several connections.
    pub multi_channel: bool,
    /// What is new for each connection.
    pub seed: Seed,
}

impl Config {
    /// The dialects offered, oldest first.
    pub(crate) fn dialects(&self) -> Vec<Dialect> {
        Dialect::ALL.into_iter().filter(|d| (self.min_dialect..=self.max_dialect).contains(d)).collect()
    }
}
