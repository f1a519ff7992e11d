//! CLOSE (MS-SMB2 2.2.15, 2.2.16).

use super::{FileHandle, Malformed, body};
use crate::codec::Put;

/// CLOSE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseRequest {
    /// Whether the response is to hold the attributes.
    pub post_query: bool,
    /// The open.
    pub handle: FileHandle,
}

impl CloseRequest {
    /// Decodes a request.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 24)?;
        let post_query = r.u16()? & 1 != 0;
        r.skip(4)?;
        Ok(Self { post_query, handle: FileHandle::decode(&mut r)? })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(24);
        out.put_u16(u16::from(self.post_query));
        out.put_u32(0);
        self.handle.put(out);
    }
}

/// CLOSE response; all zeros unless the attributes were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CloseResponse {
    /// Whether the rest holds the attributes.
    pub has_attributes: bool,
    /// Creation, last access, last write and change time, FILETIME.
    pub times: [u64; 4],
    /// Bytes taken on disk.
    pub allocation_bytes: u64,
    /// Length in bytes.
    pub end_of_file: u64,
    /// Attributes.
    pub file_attributes: u32,
}

impl CloseResponse {
    /// Decodes a response.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 60)?;
        let has_attributes = r.u16()? & 1 != 0;
        r.skip(4)?;
        Ok(Self {
            has_attributes,
            times: [r.u64()?, r.u64()?, r.u64()?, r.u64()?],
            allocation_bytes: r.u64()?,
            end_of_file: r.u64()?,
            file_attributes: r.u32()?,
        })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(60);
        out.put_u16(u16::from(self.has_attributes));
        out.put_u32(0);
        for time in self.times {
            out.put_u64(time);
        }
        out.put_u64(self.allocation_bytes);
        out.put_u64(self.end_of_file);
        out.put_u32(self.file_attributes);
    }
}
