//! IOCTL (MS-SMB2 2.2.31, 2.2.32) and the file-system controls a server meets.

use super::{FileHandle, HEADER_BYTES, Malformed, SecurityMode, body, slice_at};
use crate::codec::{Put, Reader};

/// Control codes (MS-FSCC 2.3, MS-SMB2 2.2.31).
#[allow(missing_docs)]
pub mod fsctl {
    pub const DFS_GET_REFERRALS: u32 = 0x0006_0194;
    pub const DFS_GET_REFERRALS_EX: u32 = 0x0006_01b0;
    pub const SET_COMPRESSION: u32 = 0x0009_c040;
    pub const GET_COMPRESSION: u32 = 0x0009_003c;
    pub const SET_OBJECT_ID: u32 = 0x0009_0098;
    pub const GET_OBJECT_ID: u32 = 0x0009_009c;
    pub const CREATE_OR_GET_OBJECT_ID: u32 = 0x0009_00c0;
    pub const SET_REPARSE_POINT: u32 = 0x0009_00a4;
    pub const GET_REPARSE_POINT: u32 = 0x0009_00a8;
    pub const DELETE_REPARSE_POINT: u32 = 0x0009_00ac;
    pub const SET_SPARSE: u32 = 0x0009_00c4;
    pub const SET_ZERO_DATA: u32 = 0x0009_80c8;
    pub const QUERY_ALLOCATED_RANGES: u32 = 0x0009_40cf;
    pub const FILE_LEVEL_TRIM: u32 = 0x0009_8208;
    pub const DUPLICATE_EXTENTS_TO_FILE: u32 = 0x0009_8344;
    pub const PIPE_PEEK: u32 = 0x0011_400c;
    pub const PIPE_WAIT: u32 = 0x0011_0018;
    pub const PIPE_TRANSCEIVE: u32 = 0x0011_c017;
    pub const SRV_ENUMERATE_SNAPSHOTS: u32 = 0x0014_4064;
    pub const SRV_REQUEST_RESUME_KEY: u32 = 0x0014_0078;
    pub const SRV_COPYCHUNK: u32 = 0x0014_40f2;
    pub const SRV_COPYCHUNK_WRITE: u32 = 0x0014_80f2;
    pub const LMR_REQUEST_RESILIENCY: u32 = 0x0014_01d4;
    pub const QUERY_NETWORK_INTERFACE_INFO: u32 = 0x0014_01fc;
    pub const VALIDATE_NEGOTIATE_INFO: u32 = 0x0014_0204;
}

/// IOCTL request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoctlRequest<'a> {
    /// Control code; see [`fsctl`].
    pub code: u32,
    /// The open, or all ones.
    pub handle: FileHandle,
    /// Bytes going in.
    pub input: &'a [u8],
    /// Most bytes to come back in the input buffer (always 0 in practice).
    pub max_input_response: u32,
    /// Most bytes to come back.
    pub max_output_response: u32,
    /// 1: a file-system control.
    pub flags: u32,
}

impl<'a> IoctlRequest<'a> {
    /// Decodes a request.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 57)?;
        r.skip(2)?;
        let code = r.u32()?;
        let handle = FileHandle::decode(&mut r)?;
        let (input_at, input_len) = (r.u32()? as usize, r.u32()? as usize);
        let max_input_response = r.u32()?;
        r.skip(8)?; // output offset and count: nothing travels there in a request
        let max_output_response = r.u32()?;
        let flags = r.u32()?;
        let input = slice_at(message, input_at, input_len)?;
        Ok(Self { code, handle, input, max_input_response, max_output_response, flags })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(57);
        out.put_u16(0);
        out.put_u32(self.code);
        self.handle.put(out);
        out.put_u32((HEADER_BYTES + 56) as u32);
        out.put_u32(self.input.len() as u32);
        out.put_u32(self.max_input_response);
        out.put_u32((HEADER_BYTES + 56) as u32);
        out.put_u32(0);
        out.put_u32(self.max_output_response);
        out.put_u32(self.flags);
        out.put_u32(0);
        out.put_bytes(self.input);
        if self.input.is_empty() {
            out.put_zeros(1);
        }
    }
}

/// IOCTL response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoctlResponse<'a> {
    /// Control code, as asked.
    pub code: u32,
    /// The open, as asked.
    pub handle: FileHandle,
    /// Bytes coming back.
    pub output: &'a [u8],
}

impl<'a> IoctlResponse<'a> {
    /// Decodes a response.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 49)?;
        r.skip(2)?;
        let code = r.u32()?;
        let handle = FileHandle::decode(&mut r)?;
        r.skip(8)?;
        let (at, len) = (r.u32()? as usize, r.u32()? as usize);
        Ok(Self { code, handle, output: slice_at(message, at, len)? })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(49);
        out.put_u16(0);
        out.put_u32(self.code);
        self.handle.put(out);
        out.put_u32((HEADER_BYTES + 48) as u32);
        out.put_u32(0);
        out.put_u32((HEADER_BYTES + 48) as u32);
        out.put_u32(self.output.len() as u32);
        out.put_u32(0);
        out.put_u32(0);
        out.put_bytes(self.output);
    }
}

/// VALIDATE_NEGOTIATE_INFO (2.2.31.4, 2.2.32.6): what the client says it sent, or the server that it answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidateNegotiate {
    /// Capabilities.
    pub capabilities: u32,
    /// The sender's GUID.
    pub guid: [u8; 16],
    /// SecurityMode.
    pub security_mode: SecurityMode,
    /// In a request the dialects offered.
    pub dialects: Vec<u16>,
}

impl ValidateNegotiate {
    /// Decodes the input of a request.
    pub fn decode_request(input: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(input);
        let capabilities = r.u32()?;
        let guid = r.array()?;
        let security_mode = SecurityMode::from_bits_truncate(r.u16()?);
        let count = r.u16()?;
        if r.remaining() < usize::from(count) * 2 {
            return Err(Malformed::Truncated);
        }
        let dialects = (0..count).map(|_| r.u16()).collect::<Result<_, _>>()?;
        Ok(Self { capabilities, guid, security_mode, dialects })
    }

    /// Appends a request's input.
    pub fn put_request(&self, out: &mut (impl Put + ?Sized)) {
        self.put_head(out);
        out.put_u16(self.dialects.len() as u16);
        self.dialects.iter().for_each(|&d| out.put_u16(d));
    }

    /// Appends a response's output, whose dialect is the first of the list.
    pub fn put_response(&self, out: &mut (impl Put + ?Sized)) {
        self.put_head(out);
        out.put_u16(self.dialects.first().copied().unwrap_or(0));
    }

    /// Decodes the output of a response.
    pub fn decode_response(output: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(output);
        Ok(Self {
            capabilities: r.u32()?,
            guid: r.array()?,
            security_mode: SecurityMode::from_bits_truncate(r.u16()?),
            dialects: vec![r.u16()?],
        })
    }

    fn put_head(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(self.capabilities);
        out.put_bytes(&self.guid);
        out.put_u16(self.security_mode.bits());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_negotiated_is_told_and_understood() {
        let told = ValidateNegotiate {
            capabilities: 0x44,
            guid: [9; 16],
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialects: vec![0x0302],
        };
        let mut output = Vec::new();
        told.put_response(&mut output);
        assert_eq!(ValidateNegotiate::decode_response(&output), Ok(told));
        for short in 0..output.len() {
            assert_eq!(ValidateNegotiate::decode_response(&output[..short]), Err(Malformed::Truncated));
        }
    }
}
