//! What is too small for a file of its own: the error response, the four-byte bodies, CHANGE_NOTIFY and OPLOCK_BREAK.

use super::{FileHandle, Malformed, body};
use crate::codec::Put;

/// Appends the body of an error response without data (MS-SMB2 2.2.2).
pub fn put_error(out: &mut (impl Put + ?Sized)) {
    put_error_data(&[], out);
}

/// Appends the body of an error response with its ErrorData, such as the size a buffer would have needed.
pub fn put_error_data(data: &[u8], out: &mut (impl Put + ?Sized)) {
    out.put_u16(9);
    out.put_u8(0);
    out.put_u8(0);
    out.put_u32(data.len() as u32);
    if data.is_empty() {
        out.put_u8(0);
    } else {
        out.put_bytes(data);
    }
}

/// Appends an error response of 3.1.1 with one error context (2.2.2.1) around `data`.
pub fn put_error_symlink_like(error_id: u32, data: &[u8], out: &mut (impl Put + ?Sized)) {
    out.put_u16(9);
    out.put_u8(1);
    out.put_u8(0);
    out.put_u32(data.len() as u32 + 8);
    out.put_u32(data.len() as u32);
    out.put_u32(error_id);
    out.put_bytes(data);
}

/// Appends the four-byte body that ECHO, CANCEL, LOGOFF, TREE_DISCONNECT, FLUSH and LOCK responses share.
pub fn put_four(out: &mut (impl Put + ?Sized)) {
    out.put_u16(4);
    out.put_u16(0);
}

/// Checks such a body in a request: ECHO, LOGOFF, TREE_DISCONNECT.
pub fn check_four(message: &[u8]) -> Result<(), Malformed> {
    body(message, 4)?.skip(2).map_err(Malformed::from)
}

/// An error response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorResponse<'a> {
    /// Contexts in `data` (3.1.1).
    pub context_count: u8,
    /// ErrorData.
    pub data: &'a [u8],
}

impl<'a> ErrorResponse<'a> {
    /// Decodes a response.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 9)?;
        let context_count = r.u8()?;
        r.skip(1)?;
        let len = r.u32()? as usize;
        Ok(Self { context_count, data: r.bytes(len)? })
    }
}

/// CHANGE_NOTIFY request (2.2.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeNotifyRequest {
    /// Whether the whole tree below is watched.
    pub recursive: bool,
    /// Most bytes to come back.
    pub output_bytes: u32,
    /// The open.
    pub handle: FileHandle,
    /// Changes of interest.
    pub filter: u32,
}

impl ChangeNotifyRequest {
    /// Decodes a request.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 32)?;
        let recursive = r.u16()? & 1 != 0;
        let output_bytes = r.u32()?;
        let handle = FileHandle::decode(&mut r)?;
        Ok(Self { recursive, output_bytes, handle, filter: r.u32()? })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(32);
        out.put_u16(u16::from(self.recursive));
        out.put_u32(self.output_bytes);
        self.handle.put(out);
        out.put_u32(self.filter);
        out.put_u32(0);
    }
}

/// OPLOCK_BREAK notification, acknowledgement and response: one shape (2.2.23.1, 2.2.24.1, 2.2.25.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OplockBreak {
    /// The level to go to.
    pub level: u8,
    /// The open.
    pub handle: FileHandle,
}

impl OplockBreak {
    /// Decodes one.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 24)?;
        let level = r.u8()?;
        r.skip(5)?;
        Ok(Self { level, handle: FileHandle::decode(&mut r)? })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(24);
        out.put_u8(self.level);
        out.put_zeros(5);
        self.handle.put(out);
    }
}
