//! Whether a stateid is good for I/O (RFC 7530 9.1.4, RFC 8881 8.2 and 9.1.2). READ, WRITE and whatever else touches data
//! ask here first.

use std::sync::Arc;

use coherence::{AccessKinds, Identity, OpenClaim, OpenRequest, Outcome, Owner, ShareKinds};
use nfs_wire::nfs4::{NfsStat4, Stateid};
use vfs::{FileId, Node};

use super::client::{Client, Family};
use super::deleg::{Course, Delegation};
use super::find::check_generation;
use super::open::Open;
use super::{Held, State};
use crate::nfs4::compound::Compound;
use crate::nfs4::failure::Done;

/// As whom I/O meets byte ranges when no lock owner is named.
const NOBODY: Owner = Owner(u64::MAX);

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
    pub fn check_io(&self, c: &Compound, stateid: &Stateid, file: FileId, want: AccessKinds) -> Done<IoRight> {
        let stateid = c.resolve(*stateid)?;
        match stateid {
            Stateid::ANONYMOUS => return self.anonymous(false),
            Stateid::BYPASS => return self.anonymous(!want.contains(AccessKinds::WRITE)),
            _ => {}
        }
        let held = self.held(c, &stateid)?;
        match &held {
            Held::Open(open) if open.is_closed() => Err(NfsStat4::BAD_STATEID.into()),
            Held::Open(open) => {
                check_generation(c, &stateid, open.seqid())?;
                self.through_open(c, open, file, want, NOBODY)
            }
            Held::Lock(locks) => {
                check_generation(c, &stateid, locks.seqid())?;
                let open = locks.open.upgrade().ok_or(NfsStat4::BAD_STATEID)?;
                self.through_open(c, &open, file, want, locks.owner.number)
            }
            Held::Delegation(delegation) => {
                check_generation(c, &stateid, delegation.stateid.seqid)?;
                self.by_delegation(c, delegation, file, want)
            }
        }
    }

    fn anonymous(&self, bypass: bool) -> Done<IoRight> {
        if self.grace.is_on(self.now_ms()) {
            return Err(NfsStat4::GRACE.into());
        }
        Ok(IoRight::Anonymous { bypass })
    }

    fn by_delegation(&self, c: &Compound, delegation: &Delegation, file: FileId, want: AccessKinds) -> Done<IoRight> {
        match delegation.course() {
            Course::Held | Course::Recalled => {}
            Course::Revoked if c.minor > 0 => return Err(NfsStat4::DELEG_REVOKED.into()),
            Course::Revoked | Course::Returned => return Err(NfsStat4::BAD_STATEID.into()),
        }
        if delegation.file != file {
            return Err(NfsStat4::BAD_STATEID.into());
        }
        if want.contains(AccessKinds::WRITE) && !delegation.write {
            return Err(NfsStat4::OPENMODE.into());
        }
        self.for_a_moment(&delegation.client, file, want, NOBODY)
    }

    fn through_open(
        &self,
        c: &Compound,
        open: &Arc<Open>,
        file: FileId,
        want: AccessKinds,
        owner: Owner,
    ) -> Done<IoRight> {
        let mode = open.mode().filter(|_| open.file == file).ok_or(NfsStat4::BAD_STATEID)?;
        let client = &open.owner.client;
        if client.family == Family::Plain && !open.is_confirmed() {
            return Err(NfsStat4::BAD_STATEID.into());
        }
        let access = mode.kinds().0;
        if !access.contains(want) {
            // A client that writes parts of pages must read the rest (RFC 7530 9.1.6, RFC 8881 9.1.2): as somebody who
            // has not opened the file for that.
            let reads = want == AccessKinds::READ && access == AccessKinds::WRITE;
            return if reads { self.for_a_moment(client, file, want, owner) } else { Err(NfsStat4::OPENMODE.into()) };
        }
        let same = c.current()?.target().is_some_and(|target| target.cred == open.target.cred);
        let node = if same { open.node(want) } else { None };
        Ok(IoRight::Held { claim: Arc::clone(&open.claim), owner, node })
    }

    /// I/O of a client that has no open for it.
    fn for_a_moment(&self, client: &Client, file: FileId, want: AccessKinds, owner: Owner) -> Done<IoRight> {
        let identity = Identity::Client(client.id);
        let request = OpenRequest { momentary: true, identity, ..OpenRequest::new(file, want, ShareKinds::all()) };
        match self.table.open(coherence::Instant(self.now_ms()), &request).map_err(|_| NfsStat4::LOCKED)? {
            Outcome::Done(opened) => Ok(IoRight::Held { claim: Arc::new(opened.claim), owner, node: None }),
            Outcome::Wait(ticket) => {
                self.table.give_up(file, ticket);
                Err(NfsStat4::DELAY.into())
            }
        }
    }
}
