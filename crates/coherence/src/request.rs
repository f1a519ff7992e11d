//! What a protocol server asks the table and how it is answered. Plain data; the rules are elsewhere.

use vfs::FileId;

use crate::{AccessKinds, Caching, OpenClaim, ShareKinds, Ticket};

/// A number a protocol server gives an open (or a lock owner), carried back in effects so that the server finds whom
/// they concern. The table never compares it, save for the owners of POSIX locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Owner(pub u64);

/// One open of one file, as the table numbers them: unique per file as long as the file has any claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(pub u64);

/// As whom an open counts where caching grants are concerned: nobody breaks a grant of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Identity {
    /// Itself only: an SMB open without a lease. A grant asked for is an oplock.
    #[default]
    Open,
    /// Every open with this lease key of this SMB client (MS-SMB2 3.3.1.10). A grant asked for is a lease.
    Lease {
        /// ClientGuid.
        client: [u8; 16],
        /// LeaseKey.
        key: [u8; 16],
    },
    /// Every open of this NFS client. A grant asked for is a delegation.
    Client(u64),
}

/// The caching grant an open asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GrantRequest {
    /// What is wanted; empty for none. Level II is `R`, exclusive `RW`, batch `RWH`; a read delegation is `R`, a write
    /// delegation `RW`.
    pub want: Caching,
    /// The epoch a lease v2 context carries, 0 otherwise.
    pub epoch: u16,
}

/// One open, or one I/O without an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenRequest {
    /// The file.
    pub file: FileId,
    /// What the open may do.
    pub access: AccessKinds,
    /// What others may do meanwhile.
    pub share: ShareKinds,
    /// The open can do more than look at the attributes, though share modes do not see it: those who cache writes are
    /// asked all the same (MS-FSA 2.1.5.1.2).
    pub beyond_attributes: bool,
    /// The open can read the security descriptor.
    pub inspects: bool,
    /// FILE_DELETE_ON_CLOSE: when this open closes the file becomes delete-pending (MS-FSA 2.1.5.5).
    pub delete_on_close: bool,
    /// The open truncates: FILE_SUPERSEDE, FILE_OVERWRITE and FILE_OVERWRITE_IF of an existing file.
    pub overwrite: bool,
    /// One I/O without an open of its own (NFSv3): checked against share modes and grants, not refused for
    /// delete-pending, not counted as an open. The claim lives as long as the I/O.
    pub momentary: bool,
    /// As whom the open counts.
    pub identity: Identity,
    /// The caching grant wanted.
    pub grant: GrantRequest,
    /// Carried back in effects.
    pub owner: Owner,
}

impl OpenRequest {
    /// A request for `file` with nothing unusual about it: no grant, no delete-on-close, not momentary.
    #[must_use]
    pub fn new(file: FileId, access: AccessKinds, share: ShareKinds) -> Self {
        Self {
            file,
            access,
            share,
            beyond_attributes: false,
            inspects: false,
            delete_on_close: false,
            overwrite: false,
            momentary: false,
            identity: Identity::Open,
            grant: GrantRequest::default(),
            owner: Owner::default(),
        }
    }
}

/// Why an open or a change is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Another open forbids it, or it forbids what another open does: STATUS_SHARING_VIOLATION, NFS4ERR_SHARE_DENIED.
    ShareViolation,
    /// The file goes when its last open closes: STATUS_DELETE_PENDING.
    DeletePending,
    /// More operations wait on this file than [`Limits::waiters_per_file`](crate::Limits::waiters_per_file).
    TooManyWaiters,
}

/// Done, or to be asked again.
#[derive(Debug)]
pub enum Outcome<T> {
    /// Done.
    Done(T),
    /// Somebody must give up a caching grant first and has been told. Ask again when [`Effect::Ready`] brings this
    /// ticket; it may have come already.
    ///
    /// [`Effect::Ready`]: crate::Effect::Ready
    Wait(Ticket),
}

impl<T> Outcome<T> {
    /// The value, if done.
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            Self::Wait(_) => None,
        }
    }
}

/// An open that was let in.
#[derive(Debug)]
pub struct Opened {
    /// The claim; keep it for as long as the open lives.
    pub claim: OpenClaim,
    /// The caching the open's identity now holds on the file; empty when none.
    pub caching: Caching,
    /// The lease epoch to answer.
    pub epoch: u16,
    /// A break of the identity's own lease is under way (SMB2_LEASE_FLAG_BREAK_IN_PROGRESS).
    pub breaking: bool,
}
