//! Delegations: what a client may do with a file without asking (RFC 7530 10.4, RFC 8881 10.4). Whether one may be given
//! and when it must be taken back `coherence` says; here is what the client was told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use nfs_wire::nfs4::Stateid;
use parking_lot::Mutex;
use vfs::{Attr, FileId};

use super::client::Client;
use super::ids::StateKey;
use super::inquiry::Inquiry;
use crate::files::Target;

/// How a delegation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// The client has it.
    Held,
    /// The client was asked to give it back.
    Recalled,
    /// It did not in time.
    Revoked,
    /// It has.
    Returned,
}

/// One delegation. Its generation is 1 for ever.
pub(crate) struct Delegation {
    pub key: StateKey,
    pub client: Arc<Client>,
    pub target: Target,
    pub file: FileId,
    pub write: bool,
    pub stateid: Stateid,
    /// The file's change attribute when it was given.
    pub change_then: u64,
    pub inquiry: Mutex<Inquiry>,
    course: AtomicU8,
    /// When CB_RECALL was sent last.
    pub asked_ms: AtomicU64,
}

impl Delegation {
    pub fn new(
        key: StateKey,
        client: &Arc<Client>,
        target: Target,
        attr: &Attr,
        write: bool,
        stateid: Stateid,
    ) -> Self {
        let client = Arc::clone(client);
        let course = AtomicU8::new(Course::Held as u8);
        Self {
            key,
            client,
            target,
            file: attr.id,
            write,
            stateid,
            change_then: attr.change,
            inquiry: Mutex::default(),
            course,
            asked_ms: AtomicU64::new(0),
        }
    }

    /// How it stands.
    pub fn course(&self) -> Course {
        match self.course.load(Relaxed) {
            0 => Course::Held,
            1 => Course::Recalled,
            2 => Course::Revoked,
            _ => Course::Returned,
        }
    }

    /// Changes that; how it stood before.
    pub fn set_course(&self, course: Course) -> Course {
        match self.course.swap(course as u8, Relaxed) {
            0 => Course::Held,
            1 => Course::Recalled,
            2 => Course::Revoked,
            _ => Course::Returned,
        }
    }

    /// Whether the client may still use it.
    pub fn is_good(&self) -> bool {
        matches!(self.course(), Course::Held | Course::Recalled)
    }
}
