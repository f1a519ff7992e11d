//! Requests as a client builds them, and responses as it takes them apart.

use smb_wire::NtStatus;
use smb_wire::smb2::{Command, Flags, HEADER_BYTES, Header};

/// UTF-16LE.
pub fn wide(text: &str) -> Vec<u8> {
    smb_wire::name::utf16le(text)
}

/// One request, not yet numbered.
#[derive(Debug, Clone)]
pub struct Message {
    pub command: u16,
    pub body: Vec<u8>,
    pub charge: u16,
    pub credits: u16,
    pub flags: Flags,
    /// Instead of the client's own.
    pub session_id: Option<u64>,
    /// Instead of the client's own.
    pub tree_id: Option<u32>,
    /// Signed, or not, whatever the client does by itself.
    pub sign: Option<bool>,
    pub channel_sequence: u16,
}

impl Message {
    /// A request with this body.
    pub fn new(command: Command, body: Vec<u8>) -> Self {
        Self {
            command: command as u16,
            body,
            charge: 1,
            credits: 16,
            flags: Flags::empty(),
            session_id: None,
            tree_id: None,
            sign: None,
            channel_sequence: 0,
        }
    }

    /// A request whose body `put` writes.
    pub fn of(command: Command, put: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut body = Vec::new();
        put(&mut body);
        Self::new(command, body)
    }

    /// Charged for a transfer of this size (MS-SMB2 3.1.5.2).
    pub fn paying_for(mut self, bytes: usize) -> Self {
        self.charge = (bytes.max(1).div_ceil(64 << 10)) as u16;
        self
    }

    /// Takes session, tree and handle from the request before.
    pub fn related(mut self) -> Self {
        self.flags |= Flags::RELATED;
        self
    }
}

/// One response.
#[derive(Debug, Clone)]
pub struct Response {
    pub header: Header,
    /// From its header on, padding to the next message included.
    pub bytes: Vec<u8>,
    /// It carries a signature, and that is the session's.
    pub signed: bool,
    /// It came in an encrypted frame.
    pub sealed: bool,
}

impl Response {
    /// Its status.
    pub fn status(&self) -> NtStatus {
        NtStatus(self.header.status)
    }

    /// Itself, if it has that status.
    #[track_caller]
    pub fn expect(self, status: NtStatus) -> Self {
        assert_eq!(self.status(), status, "{:?}", Command::from_u16(self.header.command));
        self
    }

    /// Itself, if it is a success.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.expect(NtStatus::SUCCESS)
    }

    /// Behind its header.
    pub fn body(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// The output buffer of QUERY_INFO and QUERY_DIRECTORY.
    pub fn output(&self) -> &[u8] {
        smb_wire::smb2::read_output_buffer(&self.bytes).unwrap()
    }
}
