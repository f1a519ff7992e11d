//! Who holds what on which file: opens, share modes, byte ranges, delete-pending, caching grants.
//!
//! One [`Table`] owns every claim on every file, whatever protocol made it. The protocol servers of all shards call it
//! and never see one another; they meet here. Nothing here names a socket, a runtime, a file system or a wall clock:
//! the time is passed in, and what must be told to somebody else (a break, a lock granted late) leaves as an
//! [`Effect`] through the table's [`EffectSink`], called with no lock held. No call here waits; one that would have to
//! answers a [`Ticket`] instead.

#![forbid(unsafe_code)]

mod claim;
mod effect;
mod file;
mod grant;
mod grant_rules;
mod lock;
mod posix;
mod range;
mod request;
mod share;
mod table;
#[cfg(test)]
mod tests;

pub use claim::{Closed, DeleteNote, Deletion, OpenClaim};
pub use effect::{Effect, EffectSink, GivesWay, Instant, Ticket};
pub use grant::{AckError, GrantState};
pub use grant_rules::{Caching, Change, HolderKey};
pub use lock::{LockConflict, LockError, LockOutcome, LockRange, RangeNotLocked};
pub use range::LockOwner;
pub use request::{Denied, GrantRequest, Identity, OpenId, OpenRequest, Opened, Outcome, Owner};
pub use share::{AccessKinds, ShareKinds};
pub use table::{Limits, Stats, Table};
