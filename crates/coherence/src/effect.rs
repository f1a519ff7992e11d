//! What the table has to tell somebody other than its caller, and the small words time and waiting are spoken in.
//! Servers implement [`EffectSink`] to route effects to the connection they concern; nothing here decides anything.

use vfs::FileId;

use crate::{Caching, Deletion, HolderKey, LockOwner, Owner};

/// A point in time: milliseconds since an origin of the caller's choosing, never going back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The point `delay_ms` milliseconds later.
    #[must_use]
    pub fn after_ms(self, delay_ms: u64) -> Self {
        Self(self.0.saturating_add(delay_ms))
    }
}

/// Names one operation that waits. Unique as long as the table lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Something that happened to a claim whose holder is not the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell the holder of a caching grant to give up what is in `from` and not in `to` (MS-SMB2 3.3.4.6 and 3.3.4.7,
    /// RFC 8881 20.2).
    Break {
        /// The file the grant is on.
        file: FileId,
        /// Whose grant.
        holder: HolderKey,
        /// The owner named by the request that was granted last.
        owner: Owner,
        /// What is held until the break is over.
        from: Caching,
        /// What may be kept.
        to: Caching,
        /// The lease epoch to send (MS-SMB2 2.2.23.2, NewEpoch).
        epoch: u16,
        /// Until when the holder must have acknowledged; `None` when no acknowledgement is due and the grant is
        /// already at `to`.
        deadline: Option<Instant>,
    },
    /// A break was not acknowledged in time; the grant is gone and its holder is to be told on its next use.
    Revoked {
        /// The file the grant was on.
        file: FileId,
        /// Whose grant.
        holder: HolderKey,
        /// The owner named by the request that was granted last.
        owner: Owner,
    },
    /// Ask again: what an [`Outcome::Wait`](crate::Outcome::Wait) waited for may be over.
    Ready(Ticket),
    /// The byte ranges waited for are locked now.
    Granted(Ticket),
    /// The byte ranges will never be granted: the open that asked is closed.
    Abandoned(Ticket),
}

/// Where effects go. Called from whatever thread caused the effect, with no lock held; it must only hand the effect
/// on. An effect that names a ticket may arrive before the call that hands out the ticket has returned.
pub trait EffectSink: Send + Sync {
    /// Takes one effect.
    fn effect(&self, effect: Effect);

    /// Nobody waits for `ticket` any more, whose effect has come or is on its way.
    fn forget(&self, ticket: Ticket) {
        let _ = ticket;
    }

    /// Another open was promised that the file goes with its last one, and the last one was not closed but dropped: it
    /// may have waited still when its client went. Whoever asked for the deletion left its note. Called from whatever
    /// thread dropped the claim; the deletion is to be handed to one that may wait.
    fn orphaned(&self, deletion: Deletion) {
        drop(deletion);
    }
}

/// Who gives way: holders that nobody has heard of for long, but whose claims are kept until somebody minds them
/// (RFC 8881 8.4.2.3, courtesy). Called from whatever thread wants something, with no lock held.
pub trait GivesWay: Send + Sync {
    /// Somebody is in need of what is held on the file. True when something was given up, so that asking again is worth
    /// it.
    fn give_way(&self, file: FileId) -> bool;
}

/// What one change under a file's lock wants done once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Out {
    pub(crate) effects: Vec<Effect>,
    /// What became of POSIX owners that waited: theirs is the server that hands delegations out.
    pub(crate) posix: Vec<Effect>,
    pub(crate) timers: Vec<Timer>,
}

impl Out {
    /// What became of a wait for byte ranges.
    pub(crate) fn waited(&mut self, owner: LockOwner, effect: Effect) {
        match owner {
            LockOwner::Open(_) => self.effects.push(effect),
            LockOwner::Posix(_) => self.posix.push(effect),
        }
    }
}

/// A deadline set or lifted.
#[derive(Debug)]
pub(crate) struct Timer {
    pub(crate) when: Instant,
    pub(crate) holder: HolderKey,
    pub(crate) set: bool,
}
