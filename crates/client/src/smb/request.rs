//! A request before it is numbered, one ready to be sent, and a response. Requests are built with room in front for all
//! that is added later, so that a WRITE's data are copied once.

use std::ops::Range;

use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::crypto::TRANSFORM_HEADER_LEN;
use smb_wire::smb2::{Command, FileHandle, HEADER_BYTES, Header};

use crate::buffer::Buffer;

/// The direct-TCP prefix.
pub(crate) const PREFIX_BYTES: usize = 4;
/// Where the SMB2 header begins in a request's buffer: behind the prefix and a transform header, used or not.
pub(crate) const MESSAGE_AT: usize = PREFIX_BYTES + TRANSFORM_HEADER_LEN;

/// Enough for what comes before the data, and for most requests whole.
pub(crate) const HEAD_BYTES: usize = MESSAGE_AT + HEADER_BYTES + 192;

/// The handle of a request of a compound that goes on with what the one before opened (MS-SMB2 3.2.4.1.4).
pub(crate) const RELATED: FileHandle = FileHandle { persistent: u64::MAX, volatile: u64::MAX };

/// A request that has no number yet.
#[derive(Debug)]
pub struct Request {
    pub(crate) command: Command,
    pub(crate) tree_id: u32,
    pub(crate) seal: bool,
    /// It may be answered in an hour: a lock that is held, a change that has not come.
    pub(crate) patient: bool,
    /// The larger of what it carries and what it asks for, for the credit charge (MS-SMB2 3.2.4.1.5).
    pub(crate) payload_bytes: u32,
    /// Room up to the body, then the body.
    pub(crate) buf: Buffer,
}

impl Request {
    /// A request of the tree connect `tree_id`, 0 for none, whose body `put` appends. `payload_bytes`: the larger of what
    /// it carries and the most it asks for.
    pub fn new(command: Command, tree_id: u32, payload_bytes: u32, put: impl FnOnce(&mut Vec<u8>)) -> Self {
        let buf = Vec::with_capacity(HEAD_BYTES).into();
        Self::in_buffer(buf, command, tree_id, payload_bytes, put)
    }

    /// The same in a buffer with room for all of it.
    pub(crate) fn in_buffer(
        mut buf: Buffer,
        command: Command,
        tree_id: u32,
        payload_bytes: u32,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> Self {
        buf.put_zeros(MESSAGE_AT + HEADER_BYTES);
        put(&mut buf);
        Self { command, tree_id, seal: false, patient: false, payload_bytes, buf }
    }

    /// The same, sealed even where the session does not ask for it: its share does.
    #[must_use]
    pub fn sealed(self, seal: bool) -> Self {
        Self { seal, ..self }
    }
}

impl Request {
    /// The same, allowed to wait for as long as the server says that it is waiting.
    #[must_use]
    pub fn patient(self) -> Self {
        Self { patient: true, ..self }
    }
}

/// Bytes for the socket.
#[derive(Debug)]
pub struct Outgoing {
    pub(crate) buf: Buffer,
    pub(crate) start: usize,
}

impl Outgoing {
    /// The frame, its prefix first.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(self.start..).unwrap_or_default()
    }
}

/// A response, checked as far as every response is.
#[derive(Debug)]
pub struct Response {
    /// Its header.
    pub header: Header,
    pub(crate) frame: Buffer,
    pub(crate) message: Range<usize>,
}

impl Response {
    /// The status.
    pub fn status(&self) -> NtStatus {
        NtStatus(self.header.status)
    }

    /// The message from its header on, as the decoders of `smb_wire` want it.
    pub fn message(&self) -> &[u8] {
        self.frame.get(self.message.clone()).unwrap_or_default()
    }

    /// The buffer it came in, and where in it `part`, a part of the message, lies.
    pub(crate) fn into_part(self, part: Range<usize>) -> (Buffer, Range<usize>) {
        let at = self.message.start;
        (self.frame, at + part.start..at + part.end)
    }
}
