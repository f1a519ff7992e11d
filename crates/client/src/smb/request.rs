//! A request before it is numbered, one ready to be sent, and a response. Requests are built with room in front for all
//! that is added later, so that a WRITE's data are copied once, or not at all.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::crypto::TRANSFORM_HEADER_LEN;
use smb_wire::smb2::{Command, FileHandle, HEADER_BYTES, Header};

use super::grip::Grip;
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
    /// Done twice it has the effect of once, so that it may be sent again where an answer was lost.
    pub(crate) repeatable: bool,
    /// It was sent before, and may have been done.
    pub(crate) replay: bool,
    /// The open it is about, whose handle is put in when it is sent.
    pub(crate) on: Option<Arc<Grip>>,
    /// The open it is to make.
    pub(crate) makes: Option<Arc<Grip>>,
    /// The larger of what it carries and what it asks for, for the credit charge (MS-SMB2 3.2.4.1.5).
    pub(crate) payload_bytes: u32,
    /// Room up to the body, then the body.
    pub(crate) buf: Buffer,
    /// What follows the body and is not in the buffer. In a box, since few have any and all are moved about.
    pub(crate) data: Option<Box<Bytes>>,
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
        let repeatable = is_repeatable(command);
        let (seal, patient, replay, on, makes) = (false, false, false, None, None);
        Self { command, tree_id, seal, patient, repeatable, replay, on, makes, payload_bytes, buf, data: None }
    }

    /// With data that follow the body. They are sent from where they are, unless the message is signed, sealed, or one of
    /// several.
    #[must_use]
    pub(crate) fn with_data(self, data: Bytes) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    /// Puts all of it in the buffer.
    pub(crate) fn join(&mut self) {
        if let Some(data) = self.data.take() {
            self.buf.extend_from_slice(&data);
        }
    }

    /// A message that was sent before, without its frame; what followed its body is still there.
    pub(crate) fn again(self, message: &[u8]) -> Self {
        let mut buf = Vec::with_capacity(MESSAGE_AT + message.len());
        buf.put_zeros(MESSAGE_AT);
        buf.put_bytes(message);
        Self { buf: buf.into(), ..self }
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

    /// The same, never sent again once it was sent: a second time would be one too many.
    #[must_use]
    pub fn once(self) -> Self {
        Self { repeatable: false, ..self }
    }

    /// The same, about an open.
    pub(crate) fn on(self, grip: &Arc<Grip>) -> Self {
        Self { on: Some(Arc::clone(grip)), ..self }
    }

    /// Puts the handle in that the open has now.
    pub(crate) fn put_handle(&mut self, handle: FileHandle) {
        let Some(at) = handle_at(self.command) else { return };
        let at = MESSAGE_AT + HEADER_BYTES + at;
        let mut bytes = Vec::with_capacity(HANDLE_BYTES);
        handle.put(&mut bytes);
        if let Some(room) = self.buf.get_mut(at..at + HANDLE_BYTES) {
            room.copy_from_slice(&bytes);
        }
    }
}

const HANDLE_BYTES: usize = 16;

/// Where in its body a request has FileId (MS-SMB2 2.2.15 to 2.2.39).
fn handle_at(command: Command) -> Option<usize> {
    Some(match command {
        Command::Read | Command::Write | Command::SetInfo => 16,
        Command::QueryInfo => 24,
        Command::Close
        | Command::Flush
        | Command::Lock
        | Command::Ioctl
        | Command::QueryDirectory
        | Command::ChangeNotify => 8,
        _ => return None,
    })
}

/// Whether requests of a kind have the same effect twice as once: they read, or say what is to be, not what is to change.
fn is_repeatable(command: Command) -> bool {
    matches!(
        command,
        Command::Create
            | Command::Close
            | Command::Flush
            | Command::Read
            | Command::Write
            | Command::QueryInfo
            | Command::SetInfo
            | Command::Echo
    )
}

/// Bytes for the socket.
#[derive(Debug)]
pub struct Outgoing {
    pub(crate) buf: Arc<Buffer>,
    pub(crate) start: usize,
    pub(crate) data: Bytes,
}

impl Outgoing {
    /// The frame in its parts: prefix and message, and data that lie elsewhere.
    pub fn parts(&self) -> [&[u8]; 2] {
        [self.buf.get(self.start..).unwrap_or_default(), &self.data]
    }

    /// Bytes of both parts.
    pub fn len_bytes(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
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

#[cfg(test)]
mod tests {
    use smb_wire::smb2::{
        ChangeNotifyRequest, CloseRequest, FlushRequest, IoctlRequest, LockRequest, QueryDirectoryFlags,
        QueryDirectoryRequest, QueryInfoRequest, ReadRequest, SetInfoRequest, WriteRequest,
    };

    use super::*;

    type PutBody = fn(FileHandle, &mut Vec<u8>);

    /// Every kind of request that has a handle, with one.
    const KINDS: [(Command, PutBody); 10] = [
        (Command::Read, |handle, out| {
            ReadRequest { flags: 0, len_bytes: 1, offset_bytes: 2, handle, minimum_bytes: 3, channel: 0 }.put(out);
        }),
        (Command::Write, |handle, out| {
            WriteRequest { flags: 0, offset_bytes: 2, handle, channel: 0, data_offset: 0, data: b"data" }.put(out);
        }),
        (Command::SetInfo, |handle, out| {
            SetInfoRequest { info_type: 1, class: 4, input: b"input", additional: 0, handle }.put(out);
        }),
        (Command::QueryInfo, |handle, out| {
            let (info_type, class, input) = (1, 34, &[][..]);
            QueryInfoRequest { info_type, class, output_bytes: 9, input, additional: 0, flags: 0, handle }.put(out);
        }),
        (Command::Close, |handle, out| CloseRequest { post_query: false, handle }.put(out)),
        (Command::Flush, |handle, out| FlushRequest { handle }.put(out)),
        (Command::Lock, |handle, out| LockRequest { sequence: 0, handle, locks: Vec::new() }.put(out)),
        (Command::Ioctl, |handle, out| {
            let (code, input) = (7, &b"in"[..]);
            IoctlRequest { code, handle, input, max_input_response: 0, max_output_response: 9, flags: 1 }.put(out);
        }),
        (Command::QueryDirectory, |handle, out| {
            let (flags, pattern) = (QueryDirectoryFlags::empty(), &b"*\0"[..]);
            QueryDirectoryRequest { class: 3, flags, file_index: 0, handle, pattern, output_bytes: 9 }.put(out);
        }),
        (Command::ChangeNotify, |handle, out| {
            ChangeNotifyRequest { recursive: true, output_bytes: 9, handle, filter: 1 }.put(out);
        }),
    ];

    #[test]
    fn a_handle_is_put_where_the_command_has_it() {
        let old = FileHandle { persistent: 1, volatile: 2 };
        let new = FileHandle { persistent: 0x1122_3344_5566_7788, volatile: 0x99aa_bbcc_ddee_ff00 };
        for (command, put) in KINDS {
            let mut request = Request::new(command, 1, 0, |out| put(old, out));
            request.put_handle(new);
            let expected = Request::new(command, 1, 0, |out| put(new, out));
            assert_eq!(*request.buf, *expected.buf, "{command:?}");
        }
    }
}
