//! A tree connect: a session's use of one share (MS-SMB2 3.3.1.9).

use std::sync::Arc;

use smb_wire::fscc::AccessMask;
use vfs::Cred;

use crate::Share;

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
    /// Whether the user may change anything.
    pub writable: bool,
    /// As whom the file system is used.
    pub cred: Cred,
    /// The most the user can do on it.
    pub maximal_access: AccessMask,
    /// Whether requests must be encrypted.
    pub encrypt: bool,
}

impl Tree {
    /// The share, unless it is IPC$.
    pub fn share(&self) -> Option<&Arc<Share>> {
        match &self.target {
            Target::Disk(share) => Some(share),
            Target::Pipes => None,
        }
    }
}
