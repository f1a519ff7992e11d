//! Asking the table of claims and the state before anything is read or changed over NFSv4 (DESIGN.md section 4): on what
//! ground I/O is done, and whose grants a change takes away. What must be waited for is answered with DELAY: the client
//! asks again, and by then the holder has given up its grant or lost it.

use std::sync::Arc;

use coherence::{AccessKinds, Change, Identity, LockRange, OpenClaim, OpenRequest, Outcome, Owner, ShareKinds};
use nfs_wire::nfs4::NfsStat4;
use vfs::{Access, Attr, FileId, Node};

use super::compound::Compound;
use super::failure::Done;
use super::fh::{Fh, attr_of};
use super::state::IoRight;
use crate::files::Target;

/// As whom I/O without a state meets byte ranges: POSIX, and nobody who holds any.
const NOBODY: Owner = Owner(u64::MAX);

/// As whom the compound's client counts where grants are concerned, as far as the compound says who that is.
pub fn identity(c: &Compound) -> Identity {
    c.session.as_ref().map_or(Identity::Open, |session| Identity::Client(session.client))
}

/// ROFS unless the caller may change something through this export.
pub fn may_change(target: &Target) -> Done<()> {
    if target.rights.write { Ok(()) } else { Err(NfsStat4::ROFS.into()) }
}

/// The object's attributes.
pub fn attr(c: &Compound, target: &Target) -> Done<Attr> {
    attr_of(&c.cx, target)
}

/// Asks before a change of an object that is no write.
pub fn change(c: &Compound, file: FileId, change: Change) -> Done<()> {
    let server = &c.cx.server;
    match server.table.prepare(server.now(), file, change, identity(c))? {
        Outcome::Done(()) => Ok(()),
        Outcome::Wait(ticket) => {
            server.table.give_up(file, ticket);
            Err(NfsStat4::DELAY.into())
        }
    }
}

/// Asks before an entry of a directory is made, removed or changed: whoever caches the listing is told, and not waited
/// for.
pub fn children(c: &Compound, dir: FileId) {
    crate::guard::children(&c.cx.server, dir);
}

/// Asks before a name of the object is taken away or changed.
pub fn take_name(c: &Compound, file: FileId, what: Change) -> Done<()> {
    change(c, file, what)?;
    c.cx.server.table.check_remove(file).map_err(|_| NfsStat4::FILE_OPEN.into())
}

/// I/O that is allowed, for as long as it lasts.
pub struct Io {
    claim: Claim,
    /// The file, where the open behind it keeps it for the caller.
    node: Option<Arc<dyn Node>>,
}

enum Claim {
    Momentary(Box<OpenClaim>),
    Held(Arc<OpenClaim>),
}

impl Io {
    /// Begins I/O on a range: a READ or WRITE by the claim of its stateid, or as an open for a moment. LOCKED where
    /// another's share mode or byte range is in the way (RFC 8881 18.22.3, 18.32.3).
    pub fn begin(c: &Compound, right: IoRight, file: FileId, access: AccessKinds, offset: u64, len: u64) -> Done<Self> {
        let exclusive = access.contains(AccessKinds::WRITE);
        let range = LockRange { offset, len, exclusive };
        let (claim, owner, node) = match right {
            IoRight::Held { claim, owner, node } => {
                if exclusive {
                    Self::ask(c, &claim)?;
                }
                (Claim::Held(claim), Some(owner), node)
            }
            IoRight::Anonymous { bypass } => {
                let claim = momentary(c, file, access)?;
                (Claim::Momentary(Box::new(claim)), (!bypass || exclusive).then_some(NOBODY), None)
            }
        };
        let io = Self { claim, node };
        if let Some(owner) = owner {
            io.claim().check_posix(owner, range).map_err(|_| NfsStat4::LOCKED)?;
        }
        Ok(io)
    }

    fn ask(c: &Compound, claim: &OpenClaim) -> Done<()> {
        match claim.prepare(c.cx.server.now(), Change::Write)? {
            Outcome::Done(()) => Ok(()),
            Outcome::Wait(ticket) => {
                c.cx.server.table.give_up(claim.file(), ticket);
                Err(NfsStat4::DELAY.into())
            }
        }
    }

    fn claim(&self) -> &OpenClaim {
        match &self.claim {
            Claim::Momentary(claim) => claim,
            Claim::Held(claim) => claim,
        }
    }

    /// Tells once more of a write that is done: a grant to cache reads that was given meanwhile may cover the old data.
    pub fn written(&self, c: &Compound) {
        crate::guard::written(&c.cx.server, self.claim());
        if let Ok(Fh::Real(target)) = c.current() {
            crate::tell::written(&target.object);
        }
    }
}

fn momentary(c: &Compound, file: FileId, access: AccessKinds) -> Done<OpenClaim> {
    let server = &c.cx.server;
    let identity = identity(c);
    let request = OpenRequest { momentary: true, identity, ..OpenRequest::new(file, access, ShareKinds::all()) };
    match server.table.open(server.now(), &request).map_err(|_| NfsStat4::LOCKED)? {
        Outcome::Done(opened) => Ok(opened.claim),
        Outcome::Wait(ticket) => {
            server.table.give_up(file, ticket);
            Err(NfsStat4::DELAY.into())
        }
    }
}

/// The file opened for I/O. Behind an open, its rights were looked at then; what has changed since does not end it.
pub fn open(c: &Compound, target: &Target, io: &Io, access: Access, attr: &Attr) -> Done<Arc<dyn Node>> {
    match &io.node {
        Some(node) => Ok(Arc::clone(node)),
        None => Ok(target.open(&c.cx, access, attr)?),
    }
}
