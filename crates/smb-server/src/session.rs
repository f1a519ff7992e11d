//! A session: one login, its keys, its tree connects and its opens (MS-SMB2 3.3.1.8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use smb_wire::crypto::{SealingKey, SigningKey};
use vfs::Cred;

use crate::open::Open;
use crate::slab::Slab;
use crate::tree::Tree;

/// Who logged in.
#[derive(Debug, Clone)]
pub struct User {
    /// The name as the client gave it.
    pub name: String,
    /// As whom the file system is used.
    pub cred: Cred,
    /// Logged in as guest.
    pub guest: bool,
    /// Logged in as nobody.
    pub anonymous: bool,
}

/// The keys of both directions.
pub struct Seals {
    /// Opens what the client sealed.
    pub from_client: SealingKey,
    /// Seals what the server sends.
    pub to_client: SealingKey,
}

/// One login.
pub struct Session {
    /// Its id.
    pub id: u64,
    /// Who.
    pub user: Mutex<Arc<User>>,
    /// Whether requests must be signed.
    pub signing_required: bool,
    /// Whether every message is to be encrypted.
    pub encrypt: bool,
    /// Keys, where the dialect and both sides' settings have a cipher.
    pub seals: Option<Seals>,
    /// The last nonce used to seal: unique for the key, whatever connection sends.
    nonce: AtomicU64,
    /// Set once the session has ended: a request under way finds it.
    pub ended: AtomicBool,
    /// Tree connects.
    pub trees: Mutex<Slab<Arc<Tree>>>,
    /// Opens.
    pub opens: Mutex<Slab<Arc<Open>>>,
}

impl Session {
    /// A session just logged in.
    pub fn new(id: u64, user: User, signing_required: bool, encrypt: bool, seals: Option<Seals>) -> Self {
        Self {
            id,
            user: Mutex::new(Arc::new(user)),
            signing_required,
            encrypt,
            seals,
            nonce: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            trees: Mutex::default(),
            opens: Mutex::default(),
        }
    }

    /// Who is logged in now; a re-authentication may change it.
    pub fn user(&self) -> Arc<User> {
        Arc::clone(&self.user.lock())
    }

    /// A nonce no message of this session has had.
    pub fn next_nonce(&self) -> u64 {
        self.nonce.fetch_add(1, Relaxed) + 1
    }

    /// The tree connect `id`.
    pub fn tree(&self, id: u32) -> Option<Arc<Tree>> {
        self.trees.lock().values().find(|t| t.id == id).cloned()
    }

    /// The open `volatile`.
    pub fn open(&self, volatile: u64) -> Option<Arc<Open>> {
        self.opens.lock().get(volatile).cloned()
    }

    /// Ends the session and hands over its opens, to be closed.
    pub fn end(&self) -> Vec<Arc<Open>> {
        self.ended.store(true, Relaxed);
        self.trees.lock().remove_where(|_| true);
        self.opens.lock().remove_where(|_| true)
    }
}

/// A session as one connection knows it.
#[derive(Clone)]
pub struct Channel {
    /// The session.
    pub session: Arc<Session>,
    /// The key messages on this connection are signed with; none for guests and nobody.
    pub signing: Option<Arc<SigningKey>>,
}
