//! What a server is doing, for people who ask: its sessions, as they are now. Nothing on a request's way comes here.

use std::net::SocketAddr;

use smb_wire::crypto::{Cipher, SigningAlgorithm};
use smb_wire::smb2::Dialect;

use crate::server::Server;
use crate::session::Session;

/// One session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: u64,
    /// The name that logged in.
    pub user: String,
    /// Let in without a password.
    pub guest: bool,
    /// The dialect.
    pub dialect: Dialect,
    /// How messages are signed that must be, or that the client signs; none for guests.
    pub signing: Option<SigningAlgorithm>,
    /// Whether they must be.
    pub signing_required: bool,
    /// How messages are encrypted, where that is possible.
    pub cipher: Option<Cipher>,
    /// Whether all are, or those of one of its shares.
    pub encrypted: bool,
    /// The clients' ends of the connections it is used on.
    pub channels: Vec<SocketAddr>,
    /// The shares it is connected to.
    pub shares: Vec<String>,
    /// Files and directories it has open.
    pub opens: usize,
}

impl Server {
    /// All sessions, in the order of their ids.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let mut sessions: Vec<_> = self.all_sessions().iter().map(|session| info(session)).collect();
        sessions.sort_by_key(|session| session.id);
        sessions
    }
}

fn info(session: &Session) -> SessionInfo {
    let user = session.user();
    let trees: Vec<_> = session.trees.lock().values().cloned().collect();
    let mut shares: Vec<String> =
        trees.iter().filter_map(|tree| tree.share()).map(|share| share.name.clone()).collect();
    shares.sort();
    shares.dedup();
    SessionInfo {
        id: session.id,
        user: user.name.clone(),
        guest: user.guest,
        dialect: session.terms.dialect,
        signing: session.signing.as_ref().map(|_| session.terms.algorithm),
        signing_required: session.signing_required,
        cipher: session.seals.as_ref().and(session.terms.cipher),
        encrypted: session.encrypt || trees.iter().any(|tree| tree.encrypt),
        channels: session.channels().iter().filter_map(|channel| channel.peer()).collect(),
        shares,
        opens: session.opens.lock().len(),
    }
}
