//! The rules of caching grants, as functions of plain values: what each change costs each kind of holder, whether the
//! change waits, and what may be granted. The bookkeeping is in `grant`; nothing here has state.

use bitflags::bitflags;

use crate::OpenId;

bitflags! {
    /// What a holder may cache: SMB2_LEASE_*_CACHING with the same meaning, in the same words for every protocol.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
    pub struct Caching: u8 {
        /// Reads.
        const READ = 1;
        /// Writes.
        const WRITE = 2;
        /// The open itself, after the application has closed it.
        const HANDLE = 4;
    }
}

/// Who holds a grant on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HolderKey {
    /// An oplock of one open.
    Open(OpenId),
    /// A lease.
    Lease {
        /// ClientGuid.
        client: [u8; 16],
        /// LeaseKey.
        key: [u8; 16],
    },
    /// A delegation of an NFS client.
    Client(u64),
}

/// What is about to be done to a file, as far as caching grants of others mind (MS-FSA 2.1.4.12, RFC 8881 10.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Reading data without an open that already asked.
    Read,
    /// Writing data, changing the size or allocation, zeroing, taking a byte-range lock.
    Write,
    /// Renaming the file, giving it another link, changing its security descriptor.
    Rename,
    /// Making it delete-pending or removing a link.
    Delete,
    /// Changing times, mode, owner or DOS attributes.
    Attributes,
    /// Adding, removing or changing an entry, where the file is a directory. For an SMB open with a parent lease key
    /// the identity to name is the lease of that key.
    Children,
    /// Opening, for data or the name.
    Open {
        /// The open may write.
        write: bool,
        /// The open forbids others to read.
        deny_read: bool,
        /// The open truncates.
        overwrite: bool,
    },
    /// Opening to look at the security descriptor and no more: oplocks mind, leases do not.
    Inspect,
    /// Opening in a way the share modes forbid: whoever merely caches an open is asked to close it first.
    ShareConflict,
}

impl Caching {
    const RW: Self = Self::READ.union(Self::WRITE);
    const RH: Self = Self::READ.union(Self::HANDLE);

    /// The combinations that exist; anything else counts as none (MS-SMB2 3.3.5.9.8).
    pub(crate) fn valid(self) -> bool {
        [Self::READ, Self::RW, Self::RH, Self::all()].contains(&self)
    }
}

/// What a holder of `state` loses by `change`.
pub(crate) fn lost(change: Change, holder: &HolderKey, state: Caching) -> Caching {
    let lost = match holder {
        HolderKey::Client(_) => lost_by_delegation(change, state),
        HolderKey::Lease { .. } => lost_by_lease(change),
        HolderKey::Open(_) => lost_by_oplock(change, state),
    };
    lost & state
}

/// A delegation is recalled whole or not at all.
fn lost_by_delegation(change: Change, state: Caching) -> Caching {
    let conflicts = match change {
        Change::Inspect => false,
        Change::Read => state.contains(Caching::WRITE),
        Change::Open { write, deny_read, overwrite } => {
            write || deny_read || overwrite || state.contains(Caching::WRITE)
        }
        _ => true,
    };
    if conflicts { Caching::all() } else { Caching::empty() }
}

fn lost_by_lease(change: Change) -> Caching {
    match change {
        Change::Read | Change::Open { overwrite: false, .. } => Caching::WRITE,
        Change::Write | Change::Children | Change::Open { overwrite: true, .. } => Caching::all(),
        Change::Rename | Change::Delete | Change::ShareConflict => Caching::HANDLE,
        Change::Attributes | Change::Inspect => Caching::empty(),
    }
}

/// Batch falls to level II or none, never to exclusive.
fn lost_by_oplock(change: Change, state: Caching) -> Caching {
    match change {
        Change::Read | Change::Inspect | Change::Open { overwrite: false, .. } => Caching::WRITE | Caching::HANDLE,
        Change::Write | Change::Children | Change::Open { overwrite: true, .. } => Caching::all(),
        Change::Rename if state.contains(Caching::HANDLE) => Caching::all(),
        Change::Delete | Change::ShareConflict if state.contains(Caching::HANDLE) => Caching::WRITE | Caching::HANDLE,
        Change::Rename | Change::Delete | Change::ShareConflict | Change::Attributes => Caching::empty(),
    }
}

/// Whether `change` must wait until a holder that still has `state` has given up `lost`: for written data always, for
/// a cached open where the open is what is in the way, for a delegation always. A reader's cache is told and not waited
/// for (MS-FSA 2.1.4.12).
pub(crate) fn waits(change: Change, holder: &HolderKey, lost: Caching) -> bool {
    let handle = matches!(change, Change::Rename | Change::Delete | Change::ShareConflict);
    lost.contains(Caching::WRITE)
        || handle && lost.contains(Caching::HANDLE)
        || matches!(holder, HolderKey::Client(_)) && !lost.is_empty()
}

/// Whether a holder of `state` must acknowledge a break: one that caches nothing but reads need not (MS-SMB2 3.3.4.7),
/// save that a delegation is always returned.
pub(crate) fn acknowledges(holder: &HolderKey, state: Caching) -> bool {
    matches!(holder, HolderKey::Client(_)) || state.intersects(Caching::WRITE | Caching::HANDLE)
}

/// Where a break goes on to that is acknowledged with `kept` and must reach `further`: the cached open is given up before
/// what was read.
pub(crate) fn next_step(kept: Caching, further: Caching) -> Caching {
    if kept.contains(Caching::HANDLE) { further | (kept & Caching::READ) } else { further }
}

/// Whether the holder's own change breaks its grant: only level II oplocks, which a write ends for everybody
/// (MS-FSA 2.1.4.12, BreakToNone).
pub(crate) fn breaks_itself(change: Change, holder: &HolderKey, state: Caching) -> bool {
    matches!(holder, HolderKey::Open(_)) && change == Change::Write && state == Caching::READ
}

/// What is around when a grant is asked for, apart from the asker's own opens and grant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    /// Others have the file open for data or the name.
    pub(crate) opens: bool,
    /// Others have it open for writing.
    pub(crate) writers: bool,
    /// Some other holder may cache writes.
    pub(crate) write_grant: bool,
    /// Some other holder has any grant.
    pub(crate) any_grant: bool,
    /// Some other holder is asked to give something up.
    pub(crate) breaking: bool,
    /// A level II oplock is held.
    pub(crate) level_two: bool,
    /// Some lease caches its open.
    pub(crate) handle_lease: bool,
    /// Byte ranges are held.
    pub(crate) locks: bool,
}

/// The most of `want` that may be granted (MS-FSA 2.1.5.18, RFC 8881 10.4).
pub(crate) fn grantable(want: Caching, holder: &HolderKey, around: &Around) -> Caching {
    let none = Caching::empty();
    if !want.valid() || around.write_grant {
        return none;
    }
    let alone = !around.opens && !around.any_grant;
    if alone && want.contains(Caching::WRITE) && !matches!(holder, HolderKey::Client(_)) {
        return want;
    }
    if around.locks {
        return none;
    }
    match holder {
        HolderKey::Client(_) if around.breaking || around.writers => none,
        HolderKey::Client(_) if alone => want,
        HolderKey::Client(_) => Caching::READ,
        HolderKey::Lease { .. } if around.level_two => Caching::READ,
        HolderKey::Lease { .. } => want & Caching::RH,
        HolderKey::Open(_) if around.handle_lease => none,
        HolderKey::Open(_) => Caching::READ,
    }
}
