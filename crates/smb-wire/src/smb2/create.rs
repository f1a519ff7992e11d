//! CREATE (MS-SMB2 2.2.13, 2.2.14) and the list of create contexts it carries. What the contexts hold is decoded where
//! each is acted on; here they are names and bytes.

use bitflags::bitflags;

use super::{FileHandle, HEADER_BYTES, Malformed, body, slice_at};
use crate::codec::{Put, Reader};

/// CreateDisposition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Disposition {
    Supersede = 0,
    Open = 1,
    Create = 2,
    OpenIf = 3,
    Overwrite = 4,
    OverwriteIf = 5,
}

impl Disposition {
    /// The disposition with that number.
    pub fn from_u32(value: u32) -> Option<Self> {
        [Self::Supersede, Self::Open, Self::Create, Self::OpenIf, Self::Overwrite, Self::OverwriteIf]
            .get(value as usize)
            .copied()
    }
}

bitflags! {
    /// ShareAccess.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ShareAccess: u32 {
        /// Others may read.
        const READ = 1;
        /// Others may write.
        const WRITE = 2;
        /// Others may delete or rename.
        const DELETE = 4;
    }

    /// CreateOptions (2.2.13).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CreateOptions: u32 {
        /// The object is, or becomes, a directory.
        const DIRECTORY_FILE = 0x0000_0001;
        /// Writes reach stable storage before they are answered.
        const WRITE_THROUGH = 0x0000_0002;
        /// A hint.
        const SEQUENTIAL_ONLY = 0x0000_0004;
        /// No buffering in between.
        const NO_INTERMEDIATE_BUFFERING = 0x0000_0008;
        /// Ignored by servers.
        const SYNCHRONOUS_IO_ALERT = 0x0000_0010;
        /// Ignored by servers.
        const SYNCHRONOUS_IO_NONALERT = 0x0000_0020;
        /// The object is not a directory.
        const NON_DIRECTORY_FILE = 0x0000_0040;
        /// Ignored by servers.
        const COMPLETE_IF_OPLOCKED = 0x0000_0100;
        /// The client does not understand extended attributes.
        const NO_EA_KNOWLEDGE = 0x0000_0200;
        /// Not for the wire.
        const OPEN_REMOTE_INSTANCE = 0x0000_0400;
        /// A hint.
        const RANDOM_ACCESS = 0x0000_0800;
        /// The object goes when its last handle is closed.
        const DELETE_ON_CLOSE = 0x0000_1000;
        /// The name is a file id.
        const OPEN_BY_FILE_ID = 0x0000_2000;
        /// The user's backup right is used.
        const OPEN_FOR_BACKUP_INTENT = 0x0000_4000;
        /// A new file is not compressed.
        const NO_COMPRESSION = 0x0000_8000;
        /// Not for the wire.
        const OPEN_REQUIRING_OPLOCK = 0x0001_0000;
        /// Not for the wire.
        const DISALLOW_EXCLUSIVE = 0x0002_0000;
        /// Not supported by servers.
        const RESERVE_OPFILTER = 0x0010_0000;
        /// Opens a reparse point itself.
        const OPEN_REPARSE_POINT = 0x0020_0000;
        /// A hint for hierarchical storage.
        const OPEN_NO_RECALL = 0x0040_0000;
        /// A hint.
        const OPEN_FOR_FREE_SPACE_QUERY = 0x0080_0000;
        const _ = !0;
    }
}

/// `MxAc`: what may the user do here at most?
pub const MAXIMAL_ACCESS_TAG: &[u8] = b"MxAc";
/// `QFid`: the object's id on disk.
pub const QUERY_ON_DISK_ID_TAG: &[u8] = b"QFid";
/// `AlSi`: space to set aside.
pub const ALLOCATION_TAG: &[u8] = b"AlSi";
/// `TWrp`: a moment in the past.
pub const TIMEWARP_TAG: &[u8] = b"TWrp";
/// `ExtA`: extended attributes for a new object.
pub const EA_TAG: &[u8] = b"ExtA";
/// `SecD`: a security descriptor for a new object.
pub const SECURITY_TAG: &[u8] = b"SecD";
/// `RqLs`: a lease, version 1 or 2 by its length.
pub const LEASE_TAG: &[u8] = b"RqLs";
/// `DHnQ`: a durable handle.
pub const DURABLE_REQUEST_TAG: &[u8] = b"DHnQ";
/// `DHnC`: a durable handle again.
pub const DURABLE_RECONNECT_TAG: &[u8] = b"DHnC";
/// `DH2Q`: a durable handle, version 2.
pub const DURABLE_V2_REQUEST_TAG: &[u8] = b"DH2Q";
/// `DH2C`: a durable handle again, version 2.
pub const DURABLE_V2_RECONNECT_TAG: &[u8] = b"DH2C";
/// Application instance id.
pub const APP_INSTANCE_TAG: &[u8] =
    &[0x45, 0xbc, 0xa6, 0x6a, 0xef, 0xa7, 0xf7, 0x4a, 0x90, 0x08, 0xfa, 0x46, 0x2e, 0x14, 0x4d, 0x74];
/// POSIX extensions.
pub const POSIX_TAG: &[u8] =
    &[0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c];

/// One create context as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawContext<'a> {
    /// Its tag.
    pub name: &'a [u8],
    /// Its content.
    pub data: &'a [u8],
}

/// The create contexts of a message, checked as a list (2.2.13.2) and kept where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CreateContexts<'a>(&'a [u8]);

impl<'a> CreateContexts<'a> {
    fn decode(list: &'a [u8]) -> Result<Self, Malformed> {
        let contexts = Self(list);
        let mut walk = Walk(list);
        while walk.step()?.is_some() {}
        Ok(contexts)
    }

    /// The contexts in order.
    pub fn iter(&self) -> impl Iterator<Item = RawContext<'a>> {
        let mut walk = Walk(self.0);
        std::iter::from_fn(move || walk.step().ok().flatten())
    }

    /// The content of the first context called `name`.
    pub fn get(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|c| c.name == name).map(|c| c.data)
    }
}

/// What is left of a list of contexts.
struct Walk<'a>(&'a [u8]);

impl<'a> Walk<'a> {
    fn step(&mut self) -> Result<Option<RawContext<'a>>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut r = Reader::new(self.0);
        let next = r.u32()? as usize;
        let (name_at, name_len) = (usize::from(r.u16()?), usize::from(r.u16()?));
        r.skip(2)?;
        let data_at = usize::from(r.u16()?);
        let data_len = r.u32()? as usize;
        let this = if next == 0 { self.0 } else { self.0.get(..next).ok_or(Malformed::Truncated)? };
        if next != 0 && (next < 16 || !next.is_multiple_of(8)) {
            return Err(Malformed::Field("create context Next"));
        }
        let part = |at: usize, len: usize| match len {
            0 => Ok(&this[..0]),
            _ if at < 16 => Err(Malformed::Field("create context offset")),
            _ => at.checked_add(len).and_then(|end| this.get(at..end)).ok_or(Malformed::Truncated),
        };
        let context = RawContext { name: part(name_at, name_len)?, data: part(data_at, data_len)? };
        if name_len < 4 {
            return Err(Malformed::Field("create context name"));
        }
        self.0 = if next == 0 { &[] } else { self.0.get(next..).unwrap_or_default() };
        Ok(Some(context))
    }
}

/// Appends `contexts` as a list; the caller has aligned `out` to 8 bytes from the header.
pub fn put_contexts<'a>(contexts: impl IntoIterator<Item = RawContext<'a>>, out: &mut (impl Put + ?Sized)) {
    let mut contexts = contexts.into_iter().peekable();
    while let Some(context) = contexts.next() {
        let data_at = (16 + context.name.len()).next_multiple_of(8);
        let end = if context.data.is_empty() { 16 + context.name.len() } else { data_at + context.data.len() };
        let next = if contexts.peek().is_some() { end.next_multiple_of(8) } else { 0 };
        out.put_u32(next as u32);
        out.put_u16(16);
        out.put_u16(context.name.len() as u16);
        out.put_u16(0);
        out.put_u16(if context.data.is_empty() { 0 } else { data_at as u16 });
        out.put_u32(context.data.len() as u32);
        out.put_bytes(context.name);
        if !context.data.is_empty() {
            out.put_zeros(data_at - 16 - context.name.len());
            out.put_bytes(context.data);
        }
        if next != 0 {
            out.put_zeros(next - end);
        }
    }
}

/// CREATE request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateRequest<'a> {
    /// Oplock wanted (2.2.13): 0 none, 1 level II, 8 exclusive, 9 batch, 0xff lease.
    pub oplock_level: u8,
    /// Impersonation level, 0 to 3.
    pub impersonation: u32,
    /// Rights wanted.
    pub desired_access: u32,
    /// Attributes of a new or overwritten file.
    pub file_attributes: u32,
    /// What others may do meanwhile.
    pub share_access: u32,
    /// Find or make.
    pub disposition: u32,
    /// How.
    pub options: CreateOptions,
    /// Path below the share, UTF-16LE, without a leading backslash.
    pub name: &'a [u8],
    /// Contexts.
    pub contexts: CreateContexts<'a>,
}

impl<'a> CreateRequest<'a> {
    /// Decodes a request.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 57)?;
        r.skip(1)?;
        let oplock_level = r.u8()?;
        let impersonation = r.u32()?;
        r.skip(16)?;
        let (desired_access, file_attributes, share_access, disposition) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
        let options = CreateOptions::from_bits_retain(r.u32()?);
        let (name_at, name_len) = (usize::from(r.u16()?), usize::from(r.u16()?));
        let (contexts_at, contexts_len) = (r.u32()? as usize, r.u32()? as usize);
        let name = slice_at(message, name_at, name_len)?;
        let contexts = CreateContexts::decode(slice_at(message, contexts_at, contexts_len)?)?;
        Ok(Self {
            oplock_level,
            impersonation,
            desired_access,
            file_attributes,
            share_access,
            disposition,
            options,
            name,
            contexts,
        })
    }

    /// Appends the body with `contexts` in place of `self.contexts`, which is for decoding.
    pub fn put(&self, contexts: &[RawContext<'_>], out: &mut (impl Put + ?Sized)) {
        let name_at = HEADER_BYTES + 56;
        let name_end = name_at + self.name.len();
        let contexts_at = name_end.next_multiple_of(8);
        let mut list = Vec::new();
        put_contexts(contexts.iter().copied(), &mut list);
        out.put_u16(57);
        out.put_u8(0);
        out.put_u8(self.oplock_level);
        out.put_u32(self.impersonation);
        out.put_zeros(16);
        out.put_u32(self.desired_access);
        out.put_u32(self.file_attributes);
        out.put_u32(self.share_access);
        out.put_u32(self.disposition);
        out.put_u32(self.options.bits());
        out.put_u16(name_at as u16);
        out.put_u16(self.name.len() as u16);
        out.put_u32(if list.is_empty() { 0 } else { contexts_at as u32 });
        out.put_u32(list.len() as u32);
        out.put_bytes(self.name);
        if !list.is_empty() {
            out.put_zeros(contexts_at - name_end);
            out.put_bytes(&list);
        } else if self.name.is_empty() {
            out.put_zeros(1); // the body's variable part holds at least one byte
        }
    }
}

/// CREATE response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateResponse<'a> {
    /// Oplock granted.
    pub oplock_level: u8,
    /// 1 when the object is a reparse point.
    pub flags: u8,
    /// What was done: 0 superseded, 1 opened, 2 created, 3 overwritten.
    pub action: u32,
    /// Creation, last access, last write and change time, FILETIME.
    pub times: [u64; 4],
    /// Bytes taken on disk.
    pub allocation_bytes: u64,
    /// Length in bytes.
    pub end_of_file: u64,
    /// Attributes.
    pub file_attributes: u32,
    /// The open.
    pub handle: FileHandle,
    /// Contexts.
    pub contexts: CreateContexts<'a>,
}

impl<'a> CreateResponse<'a> {
    /// Decodes a response.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = body(message, 89)?;
        let (oplock_level, flags) = (r.u8()?, r.u8()?);
        let action = r.u32()?;
        let times = [r.u64()?, r.u64()?, r.u64()?, r.u64()?];
        let (allocation_bytes, end_of_file) = (r.u64()?, r.u64()?);
        let file_attributes = r.u32()?;
        r.skip(4)?;
        let handle = FileHandle::decode(&mut r)?;
        let (at, len) = (r.u32()? as usize, r.u32()? as usize);
        let contexts = CreateContexts::decode(slice_at(message, at, len)?)?;
        Ok(Self {
            oplock_level,
            flags,
            action,
            times,
            allocation_bytes,
            end_of_file,
            file_attributes,
            handle,
            contexts,
        })
    }

    /// Appends the body with `contexts` in place of `self.contexts`, which is for decoding.
    pub fn put(&self, contexts: &[RawContext<'_>], out: &mut (impl Put + ?Sized)) {
        let mut list = Vec::new();
        put_contexts(contexts.iter().copied(), &mut list);
        out.put_u16(89);
        out.put_u8(self.oplock_level);
        out.put_u8(self.flags);
        out.put_u32(self.action);
        for time in self.times {
            out.put_u64(time);
        }
        out.put_u64(self.allocation_bytes);
        out.put_u64(self.end_of_file);
        out.put_u32(self.file_attributes);
        out.put_u32(0);
        self.handle.put(out);
        out.put_u32(if list.is_empty() { 0 } else { (HEADER_BYTES + 88) as u32 });
        out.put_u32(list.len() as u32);
        out.put_bytes(&list);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Header};
    use super::*;

    fn request(bytes: &mut Vec<u8>, contexts: &[RawContext<'_>]) {
        Header::request(Command::Create, 1).put(bytes);
        CreateRequest {
            oplock_level: 0xff,
            impersonation: 2,
            desired_access: 0x12019f,
            file_attributes: 0x80,
            share_access: 7,
            disposition: 3,
            options: CreateOptions::NON_DIRECTORY_FILE,
            name: b"a\0b\0c\0",
            contexts: CreateContexts::default(),
        }
        .put(contexts, bytes);
    }

    #[test]
    fn a_create_with_contexts_survives_the_wire() {
        let contexts = [
            RawContext { name: MAXIMAL_ACCESS_TAG, data: &[] },
            RawContext { name: LEASE_TAG, data: &[5; 32] },
            RawContext { name: POSIX_TAG, data: &[1, 2, 3, 4] },
        ];
        let mut bytes = Vec::new();
        request(&mut bytes, &contexts);
        let decoded = CreateRequest::decode(&bytes).unwrap();
        assert_eq!(decoded.name, b"a\0b\0c\0");
        assert_eq!(decoded.contexts.iter().collect::<Vec<_>>(), contexts);
        assert_eq!(decoded.contexts.get(b"RqLs"), Some(&[5; 32][..]));
        assert_eq!(decoded.contexts.get(b"QFid"), None);
        for end in 0..bytes.len() {
            assert!(CreateRequest::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_context_list_that_lies_is_refused() {
        let mut bytes = Vec::new();
        request(&mut bytes, &[RawContext { name: b"MxAc", data: &[] }, RawContext { name: b"QFid", data: &[] }]);
        let list_at = bytes.len() - 24 - 20;
        for (at, value) in [(0, 4u8), (0, 17), (0, 200), (4, 60), (6, 3), (6, 90)] {
            let mut bad = bytes.clone();
            bad[list_at + at] = value;
            assert!(CreateRequest::decode(&bad).is_err(), "{value} at {at}");
        }
    }

    #[test]
    fn a_response_survives_the_wire() {
        let mut bytes = Vec::new();
        Header::request(Command::Create, 1).put(&mut bytes);
        let response = CreateResponse {
            oplock_level: 0,
            flags: 0,
            action: 1,
            times: [1, 2, 3, 4],
            allocation_bytes: 4096,
            end_of_file: 10,
            file_attributes: 0x20,
            handle: FileHandle { persistent: 1, volatile: 2 },
            contexts: CreateContexts::default(),
        };
        response.put(&[RawContext { name: b"QFid", data: &[3; 32] }], &mut bytes);
        let decoded = CreateResponse::decode(&bytes).unwrap();
        assert_eq!(decoded.contexts.get(b"QFid"), Some(&[3; 32][..]));
        assert_eq!(CreateResponse { contexts: CreateContexts::default(), ..decoded }, response);
    }
}
