//! How a client is to be. Programs fill it in; the halves of the client read it. Nothing here decides anything.

use std::time::Duration;

use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::Dialect;

use crate::smb::Protection;

/// How a client is to be. The default suits a local network.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is insisted on. By default what the server asks for.
    pub protection: Protection,
    /// The oldest dialect to be spoken.
    pub min_dialect: Dialect,
    /// The newest dialect to be spoken.
    pub max_dialect: Dialect,
    /// Ciphers, the best first.
    pub ciphers: Vec<Cipher>,
    /// Signing algorithms, the best first.
    pub signing: Vec<SigningAlgorithm>,
    /// Who somebody is to an NFS server, and how it is spoken with.
    pub nfs: NfsOptions,
    /// The most one READ or WRITE moves, where dialect and server allow as much. 8 MiB is the most there is.
    pub max_transfer_bytes: u32,
    /// Bytes one stream has in flight at most: what it holds of memory, and what a link can hold per round trip.
    pub stream_bytes: u32,
    /// The most entries [`Client::list`] holds: a server can make a directory seem endless.
    pub list_entries: usize,
    /// How wide the window of credits should grow.
    pub credits: u16,
    /// Over how many connections an SMB session is spread, where the server knows how (3.x).
    pub channels: u16,
    /// How long to wait for a server that says nothing.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protection: Protection::default(),
            min_dialect: Dialect::V2_0_2,
            max_dialect: Dialect::V3_1_1,
            ciphers: vec![Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm],
            signing: vec![SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256],
            nfs: NfsOptions::default(),
            max_transfer_bytes: 1 << 20,
            stream_bytes: 8 << 20,
            list_entries: 4_000_000,
            credits: 512,
            channels: 1,
            timeout: Duration::from_secs(30),
        }
    }
}

/// What only NFS has.
#[derive(Debug, Clone)]
pub struct NfsOptions {
    /// The user's number, in AUTH_SYS (RFC 5531 appendix A).
    pub uid: u32,
    /// The group's.
    pub gid: u32,
    /// The other groups', 16 at most.
    pub groups: Vec<u32>,
    /// How many TCP connections one client uses.
    pub connections: u16,
}

impl Default for NfsOptions {
    /// The process's own user and groups, over one connection.
    fn default() -> Self {
        const MOST_GROUPS: usize = 16;
        let groups = rustix::process::getgroups().unwrap_or_default();
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.into_iter().take(MOST_GROUPS).map(|group| group.as_raw()).collect(),
            connections: 1,
        }
    }
}
