//! TREE_CONNECT (MS-SMB2 2.2.9, 2.2.10).

use bitflags::bitflags;

use super::{HEADER_BYTES, Malformed, body, slice_at};
use crate::codec::Put;

/// ShareType of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ShareType {
    /// A directory.
    Disk = 1,
    /// Named pipes: IPC$.
    Pipe = 2,
    /// A printer.
    Print = 3,
}

bitflags! {
    /// ShareFlags (2.2.10).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ShareFlags: u32 {
        /// Clients may not cache files offline unless the user asks; with all three caching bits clear, manual caching.
        const NO_CACHING = 0x30;
        /// Entries the user may not open are not listed.
        const ACCESS_BASED_ENUMERATION = 0x800;
        /// Requests for this share are to be encrypted.
        const ENCRYPT_DATA = 0x8000;
        const _ = !0;
    }

    /// Capabilities of a share (2.2.10).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ShareCapabilities: u32 {
        /// In DFS.
        const DFS = 8;
        /// Continuously available.
        const CONTINUOUS_AVAILABILITY = 0x10;
        /// Of a scale-out server.
        const SCALEOUT = 0x20;
        /// Of a cluster.
        const CLUSTER = 0x40;
        /// Moves between nodes.
        const ASYMMETRIC = 0x80;
    }
}

/// TREE_CONNECT request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeConnectRequest<'a> {
    /// Flags (3.1.1): 1 cluster reconnect, 2 redirect to owner, 4 extension present.
    pub flags: u16,
    /// `\\server\share`, UTF-16LE.
    pub path: &'a [u8],
}

impl<'a> TreeConnectRequest<'a> {
    /// Decodes a request. With the extension (2.2.9.1) the path's offset counts from the extension, which begins right
    /// behind the fixed part.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 9)?;
        let flags = r.u16()?;
        let (offset, len) = (usize::from(r.u16()?), usize::from(r.u16()?));
        let base = if flags & 4 != 0 { HEADER_BYTES + 8 } else { 0 };
        Ok(Self { flags, path: slice_at(message, base + offset, len)? })
    }

    /// Appends the body, without the extension.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(9);
        out.put_u16(self.flags & !4);
        out.put_u16((HEADER_BYTES + 8) as u16);
        out.put_u16(self.path.len() as u16);
        out.put_bytes(self.path);
    }
}

/// TREE_CONNECT response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeConnectResponse {
    /// The share's type.
    pub share_type: u8,
    /// Its flags.
    pub flags: ShareFlags,
    /// Its capabilities.
    pub capabilities: ShareCapabilities,
    /// The most the user can do on it.
    pub maximal_access: u32,
}

impl TreeConnectResponse {
    /// Decodes a response.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 16)?;
        let share_type = r.u8()?;
        r.skip(1)?;
        Ok(Self {
            share_type,
            flags: ShareFlags::from_bits_retain(r.u32()?),
            capabilities: ShareCapabilities::from_bits_truncate(r.u32()?),
            maximal_access: r.u32()?,
        })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(16);
        out.put_u8(self.share_type);
        out.put_u8(0);
        out.put_u32(self.flags.bits());
        out.put_u32(self.capabilities.bits());
        out.put_u32(self.maximal_access);
    }
}
