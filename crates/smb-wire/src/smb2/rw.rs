//! READ, WRITE and FLUSH (MS-SMB2 2.2.17 to 2.2.22).

use std::ops::Range;

use super::{FileHandle, HEADER_BYTES, Malformed, body, slice_at};
use crate::codec::Put;

/// Where the data of a READ response begin, from its header.
pub const READ_RESPONSE_DATA_OFFSET: usize = HEADER_BYTES + 16;

/// Where the data of a WRITE request begin, from its header, when this crate encodes it (as Windows does).
const WRITE_DATA_OFFSET: usize = HEADER_BYTES + 48;

/// READ request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// 1: unbuffered, 2: compressed.
    pub flags: u8,
    /// Bytes wanted.
    pub len_bytes: u32,
    /// Where.
    pub offset_bytes: u64,
    /// The open.
    pub handle: FileHandle,
    /// Fewer bytes than this are an error.
    pub minimum_bytes: u32,
    /// RDMA channel, 0 for none.
    pub channel: u32,
}

impl ReadRequest {
    /// Decodes a request.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 49)?;
        r.skip(1)?;
        let flags = r.u8()?;
        let len_bytes = r.u32()?;
        let offset_bytes = r.u64()?;
        let handle = FileHandle::decode(&mut r)?;
        let (minimum_bytes, channel) = (r.u32()?, r.u32()?);
        r.skip(8)?;
        Ok(Self { flags, len_bytes, offset_bytes, handle, minimum_bytes, channel })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(49);
        out.put_u8(READ_RESPONSE_DATA_OFFSET as u8);
        out.put_u8(self.flags);
        out.put_u32(self.len_bytes);
        out.put_u64(self.offset_bytes);
        self.handle.put(out);
        out.put_u32(self.minimum_bytes);
        out.put_u32(self.channel);
        out.put_zeros(9); // remaining bytes, channel info, and the one byte of buffer
    }
}

/// READ response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadResponse<'a> {
    /// The data.
    pub data: &'a [u8],
}

impl<'a> ReadResponse<'a> {
    /// Decodes a response.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        Ok(Self { data: message.get(Self::data_range(message)?).unwrap_or_default() })
    }

    /// Where in a response its data lie, for who keeps the whole message. The range is inside of `message`.
    pub fn data_range(message: &[u8]) -> Result<Range<usize>, Malformed> {
        let mut r = body(message, 17)?;
        let offset = usize::from(r.u8()?);
        r.skip(1)?;
        let len = r.u32()? as usize;
        slice_at(message, offset, len)?;
        Ok(if len == 0 { 0..0 } else { offset..offset + len })
    }
}

/// Appends the fixed part of a READ response; the data follow directly.
pub fn put_read_response(len_bytes: u32, out: &mut (impl Put + ?Sized)) {
    out.put_u16(17);
    out.put_u8(READ_RESPONSE_DATA_OFFSET as u8);
    out.put_u8(0);
    out.put_u32(len_bytes);
    out.put_u32(0);
    out.put_u32(0);
}

/// WRITE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteRequest<'a> {
    /// 1: through to stable storage, 2: unbuffered.
    pub flags: u32,
    /// Where.
    pub offset_bytes: u64,
    /// The open.
    pub handle: FileHandle,
    /// RDMA channel, 0 for none.
    pub channel: u32,
    /// Where the data begin, from the header.
    pub data_offset: usize,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    /// Decodes a request.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 49)?;
        let data_offset = usize::from(r.u16()?);
        let len = r.u32()? as usize;
        let offset_bytes = r.u64()?;
        let handle = FileHandle::decode(&mut r)?;
        let channel = r.u32()?;
        r.skip(8)?;
        let flags = r.u32()?;
        // Also where there are no data, as with Samba.
        if data_offset < WRITE_DATA_OFFSET {
            return Err(Malformed::Field("DataOffset"));
        }
        let data = slice_at(message, data_offset, len)?;
        Ok(Self { flags, offset_bytes, handle, channel, data_offset, data })
    }

    /// Appends the body with its data.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        self.put_head(self.data.len() as u32, out);
        out.put_bytes(self.data);
        if self.data.is_empty() {
            out.put_zeros(1);
        }
    }

    /// Appends the body up to its data, of which `len_bytes`, at least one, are to follow directly; `data` is not looked at.
    pub fn put_head(&self, len_bytes: u32, out: &mut (impl Put + ?Sized)) {
        out.put_u16(49);
        out.put_u16(WRITE_DATA_OFFSET as u16);
        out.put_u32(len_bytes);
        out.put_u64(self.offset_bytes);
        self.handle.put(out);
        out.put_u32(self.channel);
        out.put_zeros(8);
        out.put_u32(self.flags);
    }
}

/// WRITE response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteResponse {
    /// Bytes written.
    pub count_bytes: u32,
}

impl WriteResponse {
    /// Decodes a response.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 17)?;
        r.skip(2)?;
        Ok(Self { count_bytes: r.u32()? })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(17);
        out.put_u16(0);
        out.put_u32(self.count_bytes);
        out.put_u32(0);
        out.put_u32(0);
    }
}

/// FLUSH request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushRequest {
    /// The open.
    pub handle: FileHandle,
}

impl FlushRequest {
    /// Decodes a request.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 24)?;
        r.skip(6)?;
        Ok(Self { handle: FileHandle::decode(&mut r)? })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(24);
        out.put_zeros(6);
        self.handle.put(out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Header};
    use super::*;

    const HANDLE: FileHandle = FileHandle { persistent: 3, volatile: 4 };

    #[test]
    fn read_and_write_survive_the_wire_and_truncation() {
        let mut bytes = Vec::new();
        Header::request(Command::Read, 1).put(&mut bytes);
        let read = ReadRequest {
            flags: 0,
            len_bytes: 4096,
            offset_bytes: 1 << 40,
            handle: HANDLE,
            minimum_bytes: 1,
            channel: 0,
        };
        read.put(&mut bytes);
        assert_eq!(bytes.len(), HEADER_BYTES + 49);
        assert_eq!(ReadRequest::decode(&bytes), Ok(read));

        bytes.truncate(HEADER_BYTES);
        let write = WriteRequest {
            flags: 1,
            offset_bytes: 5,
            handle: HANDLE,
            channel: 0,
            data_offset: WRITE_DATA_OFFSET,
            data: b"some data",
        };
        write.put(&mut bytes);
        assert_eq!(WriteRequest::decode(&bytes), Ok(write));
        for end in 0..bytes.len() {
            assert!(WriteRequest::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn data_may_not_lie_in_the_header() {
        let mut bytes = Vec::new();
        Header::request(Command::Write, 1).put(&mut bytes);
        WriteRequest { flags: 0, offset_bytes: 0, handle: HANDLE, channel: 0, data_offset: 0, data: b"x" }
            .put(&mut bytes);
        bytes[HEADER_BYTES + 2] = 10;
        assert_eq!(WriteRequest::decode(&bytes), Err(Malformed::Field("DataOffset")));
        bytes[HEADER_BYTES + 4] = 0;
        assert_eq!(WriteRequest::decode(&bytes), Err(Malformed::Field("DataOffset")), "nor where there are none");
    }

    #[test]
    fn a_read_response_begins_where_it_says() {
        let mut bytes = Vec::new();
        Header::request(Command::Read, 1).put(&mut bytes);
        put_read_response(3, &mut bytes);
        assert_eq!(bytes.len(), READ_RESPONSE_DATA_OFFSET);
        bytes.extend(b"abc");
        assert_eq!(ReadResponse::decode(&bytes).unwrap().data, b"abc");
    }
}
