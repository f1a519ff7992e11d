//! A tree connect: a session's use of one share (MS-SMB2 3.3.1.9).

use std::sync::Arc;

use smb_wire::fscc::AccessMask;
use vfs::Cred;

use crate::Share;
use crate::session::User;

/// What a tree connect leads to.
pub enum Target {
    /// A directory.
    Disk(Arc<Share>),
    /// IPC$: named pipes.
    Pipes,
}

/// One tree connect.
pub struct Tree {
    /// Its id, unique in the session.
    pub id: u32,
    /// Where it leads.
    pub target: Target,
    /// Whose it is. Where a session logs in again as somebody else, its tree connects are that user's from then on; what
    /// was opened before keeps the one it was opened through.
    pub user: Arc<User>,
    /// Whether the user may change anything.
    pub writable: bool,
    /// As whom the file system is used.
    pub cred: Cred,
    /// The most the user can do on it; nothing at all where a later login is not admitted.
    pub maximal_access: AccessMask,
    /// Whether requests must be encrypted.
    pub encrypt: bool,
}

/// What a user who may only read can do at most: list, read, traverse, and look at attributes and security.
const READ_ONLY: AccessMask = AccessMask::from_bits_retain(0x0012_00a9);

impl Tree {
    /// A tree connect of `user`, who is admitted.
    pub fn new(id: u32, target: Target, user: Arc<User>, encrypt: bool) -> Self {
        let share = match &target {
            Target::Disk(share) => Some(share),
            Target::Pipes => None,
        };
        let writable = share.is_none_or(|share| share.lets_write(&user.name));
        let forced = share.and_then(|share| share.options.force_identity.clone());
        let cred = forced.unwrap_or_else(|| user.cred.clone());
        let maximal_access = if writable { AccessMask::FILE_ALL } else { READ_ONLY };
        Self { id, target, user, writable, cred, maximal_access, encrypt }
    }

    /// The same for whoever logged in last.
    pub fn renewed(&self, user: &Arc<User>) -> Self {
        let target = match &self.target {
            Target::Disk(share) => Target::Disk(Arc::clone(share)),
            Target::Pipes => Target::Pipes,
        };
        let admitted = self.share().is_none_or(|share| admits(share, user));
        let renewed = Self::new(self.id, target, Arc::clone(user), self.encrypt);
        if admitted { renewed } else { Self { writable: false, maximal_access: AccessMask::empty(), ..renewed } }
    }

    /// The share, unless it is IPC$.
    pub fn share(&self) -> Option<&Arc<Share>> {
        match &self.target {
            Target::Disk(share) => Some(share),
            Target::Pipes => None,
        }
    }
}

/// Whether a user may connect to a share.
pub fn admits(share: &Share, user: &User) -> bool {
    !user.anonymous && share.admits(&user.name)
}
