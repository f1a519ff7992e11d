//! Asking the table of claims before anything is read or changed: what SMB clients hold counts for NFSv3 too (DESIGN.md
//! section 4). NFSv3 has no opens, so that each I/O is one for a moment. What must be waited for is answered with
//! JUKEBOX: the client asks again, and by then the holder has given up its grant or lost it.

use coherence::{AccessKinds, Change, Identity, LockRange, OpenClaim, OpenRequest, Outcome, Owner, ShareKinds};
use nfs_wire::NfsStat3;
use vfs::FileId;

use crate::failure::Done;
use crate::server::Server;

/// As whom NFSv3 I/O meets byte ranges: POSIX, and nobody who holds any.
const NOBODY: Owner = Owner(u64::MAX);

/// A moment's claim to read or write a range.
pub fn io(server: &Server, file: FileId, access: AccessKinds, offset: u64, len: u64) -> Done<OpenClaim> {
    let request = OpenRequest { momentary: true, ..OpenRequest::new(file, access, ShareKinds::all()) };
    let claim = match server.table.open(server.now(), &request)? {
        Outcome::Done(opened) => opened.claim,
        Outcome::Wait(ticket) => {
            server.table.give_up(file, ticket);
            return Err(NfsStat3::JUKEBOX.into());
        }
    };
    let exclusive = access.contains(AccessKinds::WRITE);
    let range = LockRange { offset, len, exclusive };
    claim.check_posix(NOBODY, range).map_err(|_| NfsStat3::ACCES)?;
    Ok(claim)
}

/// Tells once more of a write that is done: a grant to cache reads that was given meanwhile may cover the old data.
pub fn written(server: &Server, claim: &OpenClaim) {
    if let Ok(Outcome::Wait(ticket)) = claim.prepare(server.now(), Change::Write) {
        server.table.give_up(claim.file(), ticket);
    }
}

/// Asks before a change of the object that is no write.
pub fn change(server: &Server, file: FileId, change: Change) -> Done<()> {
    match server.table.prepare(server.now(), file, change, Identity::Open)? {
        Outcome::Done(()) => Ok(()),
        Outcome::Wait(ticket) => {
            server.table.give_up(file, ticket);
            Err(NfsStat3::JUKEBOX.into())
        }
    }
}

/// Asks before an entry of a directory is made, removed or changed: whoever caches the listing is told, and not waited
/// for.
pub fn children(server: &Server, dir: FileId) {
    if let Ok(Outcome::Wait(ticket)) = server.table.prepare(server.now(), dir, Change::Children, Identity::Open) {
        server.table.give_up(dir, ticket);
    }
}

/// Asks before a name of the object is taken away or changed.
pub fn take_name(server: &Server, file: FileId, what: Change) -> Done<()> {
    change(server, file, what)?;
    Ok(server.table.check_remove(file)?)
}
