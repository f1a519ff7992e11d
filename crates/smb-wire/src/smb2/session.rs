//! SESSION_SETUP (MS-SMB2 2.2.5, 2.2.6).

use bitflags::bitflags;

use super::{Capabilities, HEADER_BYTES, Malformed, SecurityMode, body, slice_at};
use crate::codec::Put;

bitflags! {
    /// SessionFlags of a response (2.2.6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SessionFlags: u16 {
        /// Logged in as guest.
        const GUEST = 1;
        /// Logged in as nobody.
        const NULL = 2;
        /// Every message of the session is to be encrypted.
        const ENCRYPT_DATA = 4;
    }
}

/// SESSION_SETUP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSetupRequest<'a> {
    /// Whether the connection is to be bound to an existing session (3.x).
    pub binding: bool,
    /// The client's signing.
    pub security_mode: SecurityMode,
    /// The client's capabilities.
    pub capabilities: Capabilities,
    /// A session of the same user to be closed, or 0.
    pub previous_session_id: u64,
    /// SPNEGO or NTLMSSP token.
    pub security_buffer: &'a [u8],
}

impl<'a> SessionSetupRequest<'a> {
    /// Decodes a request.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 25)?;
        let binding = r.u8()? & 1 != 0;
        let security_mode = SecurityMode::from_bits_truncate(u16::from(r.u8()?));
        let capabilities = Capabilities::from_bits_truncate(r.u32()?);
        r.skip(4)?;
        let (offset, len) = (r.u16()?, r.u16()?);
        let previous_session_id = r.u64()?;
        let security_buffer = slice_at(message, usize::from(offset), usize::from(len))?;
        Ok(Self { binding, security_mode, capabilities, previous_session_id, security_buffer })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(25);
        out.put_u8(u8::from(self.binding));
        out.put_u8(self.security_mode.bits() as u8);
        out.put_u32(self.capabilities.bits());
        out.put_u32(0);
        out.put_u16((HEADER_BYTES + 24) as u16);
        out.put_u16(self.security_buffer.len() as u16);
        out.put_u64(self.previous_session_id);
        out.put_bytes(self.security_buffer);
    }
}

/// SESSION_SETUP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSetupResponse<'a> {
    /// How the login ended.
    pub flags: SessionFlags,
    /// SPNEGO or NTLMSSP token.
    pub security_buffer: &'a [u8],
}

impl<'a> SessionSetupResponse<'a> {
    /// Decodes a response.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 9)?;
        let flags = SessionFlags::from_bits_truncate(r.u16()?);
        let (offset, len) = (r.u16()?, r.u16()?);
        Ok(Self { flags, security_buffer: slice_at(message, usize::from(offset), usize::from(len))? })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(9);
        out.put_u16(self.flags.bits());
        out.put_u16((HEADER_BYTES + 8) as u16);
        out.put_u16(self.security_buffer.len() as u16);
        out.put_bytes(self.security_buffer);
    }
}
