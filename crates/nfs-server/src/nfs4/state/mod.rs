//! Who holds what over NFSv4: clients, sessions, opens, locks, delegations. Operations ask it; it knows no message but
//! for the types in them.

use std::sync::Arc;

use coherence::{AccessKinds, OpenClaim, Owner};
use nfs_wire::nfs4::{NfsStat4, Stateid};
use vfs::{FileId, Node};

use super::compound::{Compound, SessionCx};
use super::failure::Done;

/// The state of all clients.
#[derive(Debug, Default)]
pub(crate) struct State {}

/// On what ground a READ, WRITE or the like is done.
pub(crate) enum IoRight {
    /// Nobody's: it meets share modes and byte ranges as an open for a moment. With `bypass` a READ passes over ranges.
    Anonymous { bypass: bool },
    /// An open's, a lock owner's or a delegation's claim; byte ranges of `owner` are not in the way. `node` is the file
    /// as it was opened, where that is kept, and only for the user who opened it: others need rights of their own.
    Held { claim: Arc<OpenClaim>, owner: Owner, node: Option<Arc<dyn Node>> },
}

impl State {
    /// Whether a stateid is good for I/O on the file. Current and special stateids are understood
    /// (RFC 8881 8.2.3, 9.1.2).
    pub fn check_io(&self, compound: &Compound, stateid: &Stateid, _file: FileId, _want: AccessKinds) -> Done<IoRight> {
        match compound.resolve(*stateid)? {
            Stateid::ANONYMOUS => Ok(IoRight::Anonymous { bypass: false }),
            Stateid::BYPASS => Ok(IoRight::Anonymous { bypass: true }),
            _ => Err(NfsStat4::BAD_STATEID.into()),
        }
    }

    /// A compound of a session is done with `status`; `body` is its reply from there on.
    pub fn finish(&self, _session: &SessionCx, _status: NfsStat4, _body: &[u8]) {}
}
