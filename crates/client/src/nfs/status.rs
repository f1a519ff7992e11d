//! The status of an NFS server, of whatever version, by its name in the RFC.

use nfs_wire::mount::MountStat3;
use nfs_wire::nlm::NlmStat;
use nfs_wire::{NfsStat3, NfsStat4};

/// A status that says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NfsStatus {
    /// Of NFS 3 (RFC 1813 2.6).
    V3(NfsStat3),
    /// Of NFS 4 (RFC 8881 15).
    V4(NfsStat4),
    /// Of MOUNT (RFC 1813 5.1.5).
    Mount(MountStat3),
    /// Of the lock manager beside NFS 3 (RFC 1813 appendix II).
    Lock(NlmStat),
}

impl NfsStatus {
    /// The number; versions number alike what they have in common.
    fn number(self) -> u32 {
        match self {
            Self::V3(status) => status.0,
            Self::V4(status) => status.0,
            Self::Mount(status) => status.0,
            Self::Lock(status) => like(status).0,
        }
    }

    fn is(self, status: NfsStat4) -> bool {
        self.number() == status.0
    }

    /// Whether there is nothing of that name.
    pub fn is_not_found(self) -> bool {
        self.is(NfsStat4::NOENT)
    }

    /// Whether the name is taken.
    pub fn is_taken(self) -> bool {
        self.is(NfsStat4::EXIST)
    }

    /// Whether the user may not.
    pub fn is_denied(self) -> bool {
        self.is(NfsStat4::ACCESS) || self.is(NfsStat4::PERM)
    }

    /// Whether what had the name is gone, or something else has it.
    pub fn is_gone(self) -> bool {
        self.is_not_found() || self.is(NfsStat4::STALE) || self.is(NfsStat4::NOTDIR)
    }

    /// Whether the server does not know how.
    pub fn is_unsupported(self) -> bool {
        self.is(NfsStat4::NOTSUPP) || self.is(NfsStat4::OP_ILLEGAL) || self.is(NfsStat4::OFFLOAD_NO_REQS)
    }

    /// Whether a stateid was not understood.
    pub(super) fn is_of_stateids(self) -> bool {
        self.is(NfsStat4::BAD_STATEID) || self.is(NfsStat4::OLD_STATEID) || self.is(NfsStat4::STALE_STATEID)
    }

    /// What might help, for a person.
    pub fn hint(self) -> Option<&'static str> {
        Some(match NfsStat4(self.number()) {
            NfsStat4::PERM | NfsStat4::ACCESS => match self {
                Self::Mount(_) => "the export does not admit this machine, or only from a port below 1024",
                _ => "this user may not do that there",
            },
            NfsStat4::NOENT => match self {
                Self::Mount(_) => "the server does not export that",
                _ => "there is nothing of that name",
            },
            NfsStat4::EXIST => "the name is taken",
            NfsStat4::NOTDIR => "it, or something on the way to it, is not a directory",
            NfsStat4::ISDIR => "it is a directory",
            NfsStat4::NOTEMPTY => "remove what is in it first",
            NfsStat4::NOSPC => "the server's disk is full",
            NfsStat4::DQUOT => "the user's quota is used up",
            NfsStat4::ROFS => "the export is read-only",
            NfsStat4::XDEV => "the two are on different file systems of the server",
            NfsStat4::STALE | NfsStat4::FHEXPIRED => "it was removed meanwhile, or the server lost its exports",
            NfsStat4::DELAY => "the server is busy with it; try again later",
            NfsStat4::GRACE => "the server has restarted and waits for clients it knew; try again in a minute or two",
            NfsStat4::SYMLINK => "a symbolic link stands in the path, which this client does not follow",
            NfsStat4::WRONGSEC => "the export wants Kerberos, which this client does not speak",
            NfsStat4::SHARE_DENIED | NfsStat4::FILE_OPEN => "another program has it open and does not share it",
            NfsStat4::DENIED | NfsStat4::LOCKED => "another program has locked that part of the file",
            NfsStat4::MOVED => "the file system is at another server, which this client does not follow",
            NfsStat4::NOTSUPP => "the server does not do this",
            NfsStat4::DEADLOCK => "two wait for each other's locks",
            NfsStat4::FBIG => "it lies beyond what a file may hold there",
            NfsStat4::BADOWNER => "the server does not know that owner",
            _ => return None,
        })
    }
}

/// The status of version 4 that says the same.
fn like(status: NlmStat) -> NfsStat4 {
    match status {
        NlmStat::Granted => NfsStat4::OK,
        NlmStat::Denied | NlmStat::Blocked => NfsStat4::DENIED,
        NlmStat::DeniedNoLocks => NfsStat4::RESOURCE,
        NlmStat::DeniedGracePeriod => NfsStat4::GRACE,
        NlmStat::Deadlock => NfsStat4::DEADLOCK,
        NlmStat::Rofs => NfsStat4::ROFS,
        NlmStat::StaleFh => NfsStat4::STALE,
        NlmStat::Fbig => NfsStat4::FBIG,
        NlmStat::Failed => NfsStat4::SERVERFAULT,
    }
}

/// As RFC 1813 6.1.3 has it.
fn name_of(status: NlmStat) -> &'static str {
    match status {
        NlmStat::Granted => "NLM4_GRANTED",
        NlmStat::Denied => "NLM4_DENIED",
        NlmStat::DeniedNoLocks => "NLM4_DENIED_NOLOCKS",
        NlmStat::Blocked => "NLM4_BLOCKED",
        NlmStat::DeniedGracePeriod => "NLM4_DENIED_GRACE_PERIOD",
        NlmStat::Deadlock => "NLM4_DEADLCK",
        NlmStat::Rofs => "NLM4_ROFS",
        NlmStat::StaleFh => "NLM4_STALE_FH",
        NlmStat::Fbig => "NLM4_FBIG",
        NlmStat::Failed => "NLM4_FAILED",
    }
}

impl From<NfsStat4> for NfsStatus {
    fn from(status: NfsStat4) -> Self {
        Self::V4(status)
    }
}

impl std::fmt::Display for NfsStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::V3(status) => status.fmt(f),
            Self::V4(status) => status.fmt(f),
            Self::Mount(status) => status.fmt(f),
            Self::Lock(status) => f.write_str(name_of(*status)),
        }
    }
}
