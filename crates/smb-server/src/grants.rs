//! Caching grants in the words of SMB: what a CREATE asks for, what its response says, and how operations ask the
//! holders first. The rules are `coherence`'s; the way to the holders is the router's.

use coherence::{Caching, Change, GrantRequest, HolderKey, Identity, OpenClaim, Outcome};
use smb_wire::NtStatus;
use smb_wire::smb2::{CreateRequest, Dialect, LEASE_TAG, LeaseContext, LeaseFlags, LeaseV2, oplock};
use vfs::FileId;

use crate::dispatch::Request;
use crate::failure::Failure;
use crate::handlers::negotiate::Negotiated;
use crate::reply::ReplyWriter;

/// SMB2_LEASE_READ_CACHING, _HANDLE_CACHING and _WRITE_CACHING (MS-SMB2 2.2.13.2.8).
const WIRE: [(u32, Caching); 3] = [(1, Caching::READ), (2, Caching::HANDLE), (4, Caching::WRITE)];

/// A LeaseState.
pub fn wire_state(caching: Caching) -> u32 {
    WIRE.iter().filter(|(_, c)| caching.contains(*c)).map(|(bit, _)| bit).sum()
}

/// What a LeaseState says; bits that mean nothing are ignored.
pub fn from_wire_state(state: u32) -> Caching {
    WIRE.iter().filter(|(bit, _)| state & bit != 0).map(|(_, c)| *c).collect()
}

/// The oplock level that is this caching.
pub fn level_of(caching: Caching) -> u8 {
    match (caching.contains(Caching::WRITE), caching.contains(Caching::HANDLE)) {
        (true, true) => oplock::BATCH,
        (true, false) => oplock::EXCLUSIVE,
        _ if caching.contains(Caching::READ) => oplock::LEVEL_II,
        _ => oplock::NONE,
    }
}

fn caching_of(level: u8) -> Caching {
    match level {
        oplock::BATCH => Caching::all(),
        oplock::EXCLUSIVE => Caching::READ | Caching::WRITE,
        oplock::LEVEL_II => Caching::READ,
        _ => Caching::empty(),
    }
}

/// Names a lease: ClientGuid and LeaseKey (3.3.1.4).
pub type LeaseName = ([u8; 16], [u8; 16]);

/// The caching a CREATE asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wanted {
    /// What.
    pub caching: Caching,
    /// As a lease, if it is one.
    pub lease: Option<(LeaseName, LeaseContext)>,
}

impl Wanted {
    /// What `asked` says on a connection that `negotiated` (3.3.5.9, 3.3.5.9.8, 3.3.5.9.11).
    pub fn of(asked: &CreateRequest<'_>, negotiated: &Negotiated) -> Result<Self, Failure> {
        if asked.oplock_level != oplock::LEASE {
            return Ok(Self { caching: caching_of(asked.oplock_level), lease: None });
        }
        Self::lease(asked, negotiated)
    }

    /// The lease of a CREATE that has one, whatever oplock level it names: for a reconnect, which is told by its
    /// contexts alone.
    pub fn lease(asked: &CreateRequest<'_>, negotiated: &Negotiated) -> Result<Self, Failure> {
        if negotiated.dialect < Dialect::V2_1 {
            return Ok(Self::default());
        }
        let Some(data) = asked.contexts.get(LEASE_TAG) else { return Ok(Self::default()) };
        let context = LeaseContext::decode(data)?;
        if context.v2.is_some() && !negotiated.dialect.is_3() {
            return Ok(Self::default());
        }
        let lease = Some(((negotiated.client_guid, context.key), context));
        Ok(Self { caching: from_wire_state(context.state), lease })
    }

    /// The same for a directory: only leases of version 2, and never to write.
    pub fn for_directory(self) -> Self {
        match self.lease {
            Some((_, LeaseContext { v2: Some(_), .. })) => {
                Self { caching: self.caching - Caching::WRITE, lease: self.lease }
            }
            _ => Self { caching: Caching::empty(), lease: self.lease },
        }
    }

    /// As whom the open counts.
    pub fn identity(&self) -> Identity {
        self.lease.map_or(Identity::Open, |((client, key), _)| Identity::Lease { client, key })
    }

    /// The request to the table.
    pub fn grant(&self) -> GrantRequest {
        let epoch = self.lease.and_then(|(_, context)| context.v2).map_or(0, |v2| v2.epoch);
        GrantRequest { want: self.caching, epoch }
    }

    /// The lease of the directory that the client says it has.
    pub fn parent(&self) -> Identity {
        let parent = self.lease.and_then(|((client, _), context)| {
            let set = context.flags.contains(LeaseFlags::PARENT_LEASE_KEY_SET);
            context.v2.filter(|_| set).map(|v2| Identity::Lease { client, key: v2.parent_key })
        });
        parent.unwrap_or_default()
    }

    /// OplockLevel of the response, and its lease context, of the version that the lease has.
    pub fn response(&self, caching: Caching, epoch: u16, breaking: bool, v2: bool) -> (u8, Option<LeaseContext>) {
        let Some((_, asked)) = self.lease else { return (level_of(caching), None) };
        let mut flags = asked.flags & LeaseFlags::PARENT_LEASE_KEY_SET;
        flags.set(LeaseFlags::BREAK_IN_PROGRESS, breaking);
        let parent_key = asked.v2.map_or([0; 16], |asked| asked.parent_key);
        let v2 = v2.then_some(LeaseV2 { epoch, parent_key });
        if v2.is_none() {
            flags -= LeaseFlags::PARENT_LEASE_KEY_SET;
        }
        (oplock::LEASE, Some(LeaseContext { key: asked.key, state: wire_state(caching), flags, v2 }))
    }
}

/// The name of a holder's lease, if it is one.
pub fn lease_name(holder: &HolderKey) -> Option<LeaseName> {
    match *holder {
        HolderKey::Lease { client, key } => Some((client, key)),
        _ => None,
    }
}

/// Asks the holders of caching grants on the open's file before `change` is made through it, and waits for those who
/// must give something up. One atomic load while nobody holds anything.
pub(crate) async fn ask(
    request: &mut Request<'_>,
    out: &mut ReplyWriter,
    claim: &OpenClaim,
    change: Change,
) -> Result<(), Failure> {
    while claim.is_contended() {
        match claim.prepare(request.conn.server.now(), change)? {
            Outcome::Done(()) => break,
            Outcome::Wait(ticket) => request.await_ticket(out, claim.file(), ticket).await?,
        }
    }
    Ok(())
}

/// Asks the holders of grants on a file that is changed without an open on it: the directory whose entries change, the
/// target a rename replaces.
pub(crate) async fn ask_about(
    request: &mut Request<'_>,
    out: &mut ReplyWriter,
    file: FileId,
    change: Change,
    by: Identity,
) -> Result<(), Failure> {
    loop {
        let server = &request.conn.server;
        match server.table.prepare(server.now(), file, change, by)? {
            Outcome::Done(()) => return Ok(()),
            Outcome::Wait(ticket) => request.await_ticket(out, file, ticket).await?,
        }
    }
}

/// The status when a wait for others ends early.
pub(crate) fn status_of_end(why: crate::waiting::Interrupt) -> NtStatus {
    match why {
        crate::waiting::Interrupt::Cancel => NtStatus::CANCELLED,
        crate::waiting::Interrupt::Close => NtStatus::FILE_CLOSED,
        crate::waiting::Interrupt::End => NtStatus::NETWORK_NAME_DELETED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_levels_mean_what_the_specification_says() {
        for (state, caching) in [
            (0, Caching::empty()),
            (1, Caching::READ),
            (3, Caching::READ | Caching::HANDLE),
            (5, Caching::READ | Caching::WRITE),
            (7, Caching::all()),
        ] {
            assert_eq!(wire_state(caching), state);
            assert_eq!(from_wire_state(state | 0x10), caching);
        }
        for level in [oplock::NONE, oplock::LEVEL_II, oplock::EXCLUSIVE, oplock::BATCH] {
            assert_eq!(level_of(caching_of(level)), level);
        }
    }
}
