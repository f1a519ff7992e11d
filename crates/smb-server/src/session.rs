//! A session: one login, its keys, its tree connects and its opens (MS-SMB2 3.3.1.8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use smb_wire::NtStatus;
use smb_wire::crypto::{Cipher, SealingKey, SigningAlgorithm, SigningKey};
use smb_wire::smb2::{Dialect, FileHandle};
use vfs::Cred;

use crate::mailbox::Mailbox;
use crate::open::Open;
use crate::opens::Opens;
use crate::slab::Slab;
use crate::tree::Tree;
use crate::waiting::Ended;

/// Connections one session can be used on (MS-SMB2 3.3.5.5: the number is the server's; Windows has as many).
const MAX_CHANNELS: usize = 32;

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

/// What a session was made with: another channel must have negotiated the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The dialect.
    pub dialect: Dialect,
    /// The cipher.
    pub cipher: Option<Cipher>,
    /// How messages are signed.
    pub algorithm: SigningAlgorithm,
}

/// One login.
pub struct Session {
    /// Its id.
    pub id: u64,
    /// Who.
    user: Mutex<Arc<User>>,
    /// What was negotiated on the connection it was made on.
    pub terms: Terms,
    /// The key of that connection, with which another one asks to be bound (Session.SigningKey).
    pub signing: Option<Arc<SigningKey>>,
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
    pub opens: Mutex<Opens>,
    /// The connections it is used on.
    channels: Mutex<Vec<Arc<Mailbox>>>,
}

/// What a session is from its first moment on.
pub struct Login {
    /// Its id.
    pub id: u64,
    /// Who.
    pub user: User,
    /// What was negotiated.
    pub terms: Terms,
    /// The signing key.
    pub signing: Option<Arc<SigningKey>>,
    /// Whether requests must be signed.
    pub signing_required: bool,
    /// Whether every message is to be encrypted.
    pub encrypt: bool,
    /// The keys of encryption.
    pub seals: Option<Seals>,
}

impl Session {
    /// A session just logged in, used on no connection yet.
    pub fn new(login: Login) -> Self {
        let Login { id, user, terms, signing, signing_required, encrypt, seals } = login;
        Self {
            id,
            user: Mutex::new(Arc::new(user)),
            terms,
            signing,
            signing_required,
            encrypt,
            seals,
            nonce: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            trees: Mutex::default(),
            opens: Mutex::default(),
            channels: Mutex::default(),
        }
    }

    /// It is used on the connection of `mailbox` from now on.
    pub fn join(&self, mailbox: &Arc<Mailbox>) -> Result<(), NtStatus> {
        let mut channels = self.channels.lock();
        if self.ended.load(Relaxed) {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        if channels.len() >= MAX_CHANNELS {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        channels.push(Arc::clone(mailbox));
        Ok(())
    }

    /// The connection of `mailbox` is over; whether it was the last (MS-SMB2 3.3.7.1).
    pub fn part(&self, mailbox: &Arc<Mailbox>) -> bool {
        let mut channels = self.channels.lock();
        channels.retain(|channel| !Arc::ptr_eq(channel, mailbox));
        channels.is_empty()
    }

    /// The connections it is used on.
    pub fn channels(&self) -> Vec<Arc<Mailbox>> {
        self.channels.lock().clone()
    }

    /// Tells the requests that wait on other connections than `here` that what they wait on is over.
    pub fn tell_channels(&self, here: &Arc<Mailbox>, ended: Ended) {
        for channel in self.channels.lock().iter().filter(|channel| !Arc::ptr_eq(channel, here)) {
            channel.interrupt(ended);
        }
    }

    /// `user` has logged in again, who may be somebody else (MS-SMB2 3.3.5.5.2, 3.3.5.5.3): keys and opens stay as they
    /// are, and what is asked for from now on is asked for by that user.
    pub fn renew(&self, user: User) {
        let user = Arc::new(user);
        // The tree connects are locked first: none is made for the one before after this.
        let mut trees = self.trees.lock();
        *self.user.lock() = Arc::clone(&user);
        trees.values_mut().for_each(|tree| *tree = Arc::new(tree.renewed(&user)));
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

    /// The open of that FileId.
    pub fn open(&self, handle: FileHandle) -> Option<Arc<Open>> {
        self.opens.lock().get(handle).cloned()
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
