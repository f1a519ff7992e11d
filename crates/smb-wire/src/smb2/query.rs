//! QUERY_DIRECTORY, QUERY_INFO and SET_INFO (MS-SMB2 2.2.33 to 2.2.40).

use bitflags::bitflags;

use super::{FileHandle, HEADER_BYTES, Malformed, body, slice_at};
use crate::codec::Put;

bitflags! {
    /// Flags of QUERY_DIRECTORY.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct QueryDirectoryFlags: u8 {
        /// From the start, with the pattern given now.
        const RESTART_SCANS = 1;
        /// One entry only.
        const RETURN_SINGLE_ENTRY = 2;
        /// From FileIndex.
        const INDEX_SPECIFIED = 4;
        /// From the start, as if the directory had just been opened.
        const REOPEN = 0x10;
    }
}

/// QUERY_DIRECTORY request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryDirectoryRequest<'a> {
    /// Information class (MS-FSCC 2.4).
    pub class: u8,
    /// Flags.
    pub flags: QueryDirectoryFlags,
    /// Where to go on, if the flags say so.
    pub file_index: u32,
    /// The open.
    pub handle: FileHandle,
    /// Search pattern, UTF-16LE.
    pub pattern: &'a [u8],
    /// Most bytes to come back.
    pub output_bytes: u32,
}

impl<'a> QueryDirectoryRequest<'a> {
    /// Decodes a request.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 33)?;
        let class = r.u8()?;
        let flags = QueryDirectoryFlags::from_bits_truncate(r.u8()?);
        let file_index = r.u32()?;
        let handle = FileHandle::decode(&mut r)?;
        let (at, len) = (usize::from(r.u16()?), usize::from(r.u16()?));
        let output_bytes = r.u32()?;
        Ok(Self { class, flags, file_index, handle, pattern: slice_at(message, at, len)?, output_bytes })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(33);
        out.put_u8(self.class);
        out.put_u8(self.flags.bits());
        out.put_u32(self.file_index);
        self.handle.put(out);
        out.put_u16((HEADER_BYTES + 32) as u16);
        out.put_u16(self.pattern.len() as u16);
        out.put_u32(self.output_bytes);
        out.put_bytes(self.pattern);
        if self.pattern.is_empty() {
            out.put_zeros(1);
        }
    }
}

/// InfoType of QUERY_INFO and SET_INFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum InfoType {
    /// Of the file.
    File = 1,
    /// Of the file system.
    FileSystem = 2,
    /// Its security descriptor.
    Security = 3,
    /// Quotas.
    Quota = 4,
}

impl InfoType {
    /// The type with that number.
    pub fn from_u8(value: u8) -> Option<Self> {
        [Self::File, Self::FileSystem, Self::Security, Self::Quota].into_iter().find(|t| *t as u8 == value)
    }
}

/// QUERY_INFO request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryInfoRequest<'a> {
    /// InfoType; see [`InfoType`].
    pub info_type: u8,
    /// Class within the type.
    pub class: u8,
    /// Most bytes to come back.
    pub output_bytes: u32,
    /// Extended attribute names or quota SIDs asked about.
    pub input: &'a [u8],
    /// Parts of a security descriptor asked for, or for EAs the index.
    pub additional: u32,
    /// Flags for EAs.
    pub flags: u32,
    /// The open.
    pub handle: FileHandle,
}

impl<'a> QueryInfoRequest<'a> {
    /// Decodes a request.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 41)?;
        let (info_type, class) = (r.u8()?, r.u8()?);
        let output_bytes = r.u32()?;
        let at = usize::from(r.u16()?);
        r.skip(2)?;
        let len = r.u32()? as usize;
        let (additional, flags) = (r.u32()?, r.u32()?);
        let handle = FileHandle::decode(&mut r)?;
        Ok(Self { info_type, class, output_bytes, input: slice_at(message, at, len)?, additional, flags, handle })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(41);
        out.put_u8(self.info_type);
        out.put_u8(self.class);
        out.put_u32(self.output_bytes);
        out.put_u16(if self.input.is_empty() { 0 } else { (HEADER_BYTES + 40) as u16 });
        out.put_u16(0);
        out.put_u32(self.input.len() as u32);
        out.put_u32(self.additional);
        out.put_u32(self.flags);
        self.handle.put(out);
        out.put_bytes(self.input);
        if self.input.is_empty() {
            out.put_zeros(1);
        }
    }
}

/// SET_INFO request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetInfoRequest<'a> {
    /// InfoType; see [`InfoType`].
    pub info_type: u8,
    /// Class within the type.
    pub class: u8,
    /// What to set.
    pub input: &'a [u8],
    /// Parts of a security descriptor.
    pub additional: u32,
    /// The open.
    pub handle: FileHandle,
}

impl<'a> SetInfoRequest<'a> {
    /// Decodes a request.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 33)?;
        let (info_type, class) = (r.u8()?, r.u8()?);
        let len = r.u32()? as usize;
        let at = usize::from(r.u16()?);
        r.skip(2)?;
        let additional = r.u32()?;
        let handle = FileHandle::decode(&mut r)?;
        Ok(Self { info_type, class, input: slice_at(message, at, len)?, additional, handle })
    }

    /// Appends the body.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u16(33);
        out.put_u8(self.info_type);
        out.put_u8(self.class);
        out.put_u32(self.input.len() as u32);
        out.put_u16((HEADER_BYTES + 32) as u16);
        out.put_u16(0);
        out.put_u32(self.additional);
        self.handle.put(out);
        out.put_bytes(self.input);
    }
}

/// Appends the fixed part of a response that is nothing but an output buffer (QUERY_DIRECTORY, QUERY_INFO,
/// CHANGE_NOTIFY); the `len_bytes` follow directly.
pub fn put_output_buffer(len_bytes: u32, out: &mut (impl Put + ?Sized)) {
    out.put_u16(9);
    out.put_u16(if len_bytes == 0 { 0 } else { (HEADER_BYTES + 8) as u16 });
    out.put_u32(len_bytes);
}

/// The output buffer of such a response.
pub fn read_output_buffer(message: &[u8]) -> Result<&[u8], Malformed> {
    let mut r = body(message, 9)?;
    let at = usize::from(r.u16()?);
    let len = r.u32()? as usize;
    slice_at(message, at, len)
}
