//! MS-SMB2 section 2.2: the header, and one file per command or family with its request and response, decoded and
//! encoded. A decoder is given the whole message from its SMB2 header on, since offsets count from there; an encoder
//! appends the body behind a header that is already written.

mod close;
mod create;
mod durable;
mod header;
mod interfaces;
mod ioctl;
mod lease;
mod lock;
mod negotiate;
mod query;
mod rw;
mod session;
mod simple;
mod tree;

pub use close::{CloseRequest, CloseResponse};
pub use create::{
    ALLOCATION_TAG, APP_INSTANCE_TAG, CreateContexts, CreateOptions, CreateRequest, CreateResponse,
    DURABLE_RECONNECT_TAG, DURABLE_REQUEST_TAG, DURABLE_V2_RECONNECT_TAG, DURABLE_V2_REQUEST_TAG, Disposition, EA_TAG,
    LEASE_TAG, MAXIMAL_ACCESS_TAG, POSIX_TAG, QUERY_ON_DISK_ID_TAG, RawContext, SECURITY_TAG, ShareAccess,
    TIMEWARP_TAG, put_contexts,
};
pub use durable::{
    DURABLE_PERSISTENT, DurableV2Reconnect, DurableV2Request, DurableV2Response, app_instance_id,
    check_durable_request, durable_reconnect_handle, resiliency_timeout_ms,
};
pub use header::{Command, Flags, HEADER_BYTES, Header, ProtocolId, set_next_command};
pub use interfaces::{NetworkInterface, put_network_interfaces, read_network_interfaces};
pub use ioctl::{IoctlRequest, IoctlResponse, ValidateNegotiate, fsctl};
pub use lease::{LeaseAck, LeaseBreak, LeaseContext, LeaseFlags, LeaseV2, oplock};
pub use lock::{LockElement, LockFlags, LockRequest};
pub use negotiate::{
    Capabilities, Dialect, NegotiateContext, NegotiateRequest, NegotiateResponse, PREAUTH_SHA512, SecurityMode,
    is_smb1_negotiate, smb1_negotiate_dialects,
};
pub use query::{
    InfoType, QueryDirectoryFlags, QueryDirectoryRequest, QueryInfoRequest, SetInfoRequest, put_output_buffer,
    read_output_buffer,
};
pub use rw::{
    FlushRequest, READ_RESPONSE_DATA_OFFSET, ReadRequest, ReadResponse, WriteRequest, WriteResponse, put_read_response,
};
pub use session::{SessionFlags, SessionSetupRequest, SessionSetupResponse};
pub use simple::{
    ChangeNotifyRequest, ErrorResponse, OplockBreak, check_four, put_error, put_error_data, put_error_symlink_like,
    put_four,
};
pub use tree::{ShareCapabilities, ShareFlags, ShareType, TreeConnectRequest, TreeConnectResponse};

use crate::codec::{Reader, Truncated};

/// The two halves of an SMB2 FILEID (2.2.14.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileHandle {
    /// The persistent half.
    pub persistent: u64,
    /// The volatile half.
    pub volatile: u64,
}

impl FileHandle {
    /// In a related compound: the handle of the request before (3.3.5.2.7.2).
    pub const PREVIOUS: Self = Self { persistent: u64::MAX, volatile: u64::MAX };

    /// Reads the two halves.
    pub fn decode(r: &mut Reader<'_>) -> Result<Self, Truncated> {
        Ok(Self { persistent: r.u64()?, volatile: r.u64()? })
    }

    /// Appends the two halves.
    pub fn put(self, out: &mut (impl crate::codec::Put + ?Sized)) {
        out.put_u64(self.persistent);
        out.put_u64(self.volatile);
    }
}

/// Why a message could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// It ends before a field it announces.
    Truncated,
    /// Its StructureSize is not the command's.
    StructureSize,
    /// A field has a value the specification does not allow.
    Field(&'static str),
}

impl From<Truncated> for Malformed {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message is cut short"),
            Self::StructureSize => f.write_str("wrong StructureSize"),
            Self::Field(name) => write!(f, "bad {name}"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A reader over the body of `message`, after its StructureSize was found to be `expect`.
fn body(message: &[u8], expect: u16) -> Result<Reader<'_>, Malformed> {
    let mut r = Reader::new(message);
    r.skip(HEADER_BYTES)?;
    if r.u16()? != expect {
        return Err(Malformed::StructureSize);
    }
    Ok(r)
}

/// The `len` bytes at `offset` from the header; empty when `len` is 0, whatever the offset says.
fn slice_at(message: &[u8], offset: usize, len: usize) -> Result<&[u8], Malformed> {
    if len == 0 {
        return Ok(&[]);
    }
    if offset < HEADER_BYTES {
        return Err(Malformed::Field("offset"));
    }
    let end = offset.checked_add(len).ok_or(Malformed::Truncated)?;
    message.get(offset..end).ok_or(Malformed::Truncated)
}
