//! File information classes that hold names, and lists of streams and extended attributes (MS-FSCC 2.4). Names are
//! UTF-16LE bytes, those of extended attributes are single bytes. List writers never leave half an entry behind.

use super::layout::{Chain, FsccError};
use crate::codec::{Put, Reader, padding};

/// A length and a name: FileNameInformation (9), FileAlternateNameInformation (21), FileNormalizedNameInformation (48)
/// and FileShortNameInformation (40) (MS-FSCC 2.1.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameInfo<'a> {
    /// UTF-16LE bytes.
    pub name: &'a [u8],
}

impl<'a> NameInfo<'a> {
    /// Bytes before the name.
    pub const FIXED_LEN: usize = 4;

    /// Reads it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FsccError> {
        let mut from = Reader::new(bytes);
        Ok(Self { name: take_wide(&mut from)? })
    }

    /// Writes it. Where the buffer ends inside of the name, the length is still the whole name's.
    pub fn encode<P: Put + ?Sized>(&self, out: &mut P) {
        out.put_u32(len_u32(self.name));
        out.put_bytes(self.name);
    }
}

/// FileRenameInformation type 2 (10), FileLinkInformation type 2 (11), and their Ex forms (65, 72) (MS-FSCC 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenameInfo<'a> {
    /// What to do when the name is taken, and more in the Ex forms. The plain forms only know
    /// [`super::RenameFlags::REPLACE_IF_EXISTS`].
    pub flags: super::RenameFlags,
    /// The directory the name starts at; 0 over a network.
    pub root_directory: u64,
    /// UTF-16LE bytes: the path from the share's root.
    pub name: &'a [u8],
}

impl<'a> RenameInfo<'a> {
    /// Bytes before the name.
    pub const FIXED_LEN: usize = 20;

    /// Reads the plain form.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FsccError> {
        let replace = Reader::new(bytes).u8()? != 0;
        let flags = if replace { super::RenameFlags::REPLACE_IF_EXISTS } else { super::RenameFlags::empty() };
        Ok(Self { flags, ..Self::decode_ex(bytes)? })
    }

    /// Reads the Ex form.
    pub fn decode_ex(bytes: &'a [u8]) -> Result<Self, FsccError> {
        let mut from = Reader::new(bytes);
        let flags = super::RenameFlags::from_bits_retain(from.u32()?);
        from.skip(4)?;
        let root_directory = from.u64()?;
        Ok(Self { flags, root_directory, name: take_wide(&mut from)? })
    }

    /// Writes it. Both forms are alike on the wire as long as only the replace flag is set.
    pub fn encode<P: Put + ?Sized>(&self, out: &mut P) {
        out.put_u32(self.flags.bits());
        out.put_zeros(4);
        out.put_u64(self.root_directory);
        NameInfo { name: self.name }.encode(out);
    }
}

/// One stream of FileStreamInformation, class 22 (MS-FSCC 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamEntry<'a> {
    /// Length, in bytes.
    pub len_bytes: u64,
    /// Space taken, in bytes.
    pub allocation_bytes: u64,
    /// UTF-16LE bytes with both colons: `::$DATA`, `:name:$DATA`.
    pub name: &'a [u8],
}

/// Reads FileStreamInformation.
pub fn stream_entries(bytes: &[u8]) -> impl Iterator<Item = Result<StreamEntry<'_>, FsccError>> {
    Chain::new(bytes).map(|entry| {
        let mut from = Reader::new(entry?);
        from.skip(4)?;
        let name_len = length(from.u32()?);
        Ok(StreamEntry { len_bytes: from.u64()?, allocation_bytes: from.u64()?, name: from.bytes(name_len)? })
    })
}

/// Writes FileStreamInformation into a buffer of at most `limit` bytes.
#[derive(Debug)]
pub struct StreamListWriter<'a>(List<'a>);

impl<'a> StreamListWriter<'a> {
    /// Appends to `out`, which grows by at most `limit` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit: usize) -> Self {
        Self(List::new(out, limit, 8))
    }

    /// Appends an entry, or says that it does not fit: the answer is then STATUS_BUFFER_OVERFLOW.
    pub fn push(&mut self, entry: &StreamEntry<'_>) -> bool {
        self.0.push(24usize.saturating_add(entry.name.len()), |out| {
            out.put_u32(len_u32(entry.name));
            out.put_u64(entry.len_bytes);
            out.put_u64(entry.allocation_bytes);
            out.put_bytes(entry.name);
        })
    }
}

/// One extended attribute of FileFullEaInformation, class 15 (MS-FSCC 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EaEntry<'a> {
    /// 0x80: the file makes no sense to someone who does not know this attribute.
    pub flags: u8,
    /// Its name, without the zero that ends it.
    pub name: &'a [u8],
    /// Its value; none at all in a SET removes it.
    pub value: &'a [u8],
}

/// Reads FileFullEaInformation, from a SET_INFO or a create context.
pub fn ea_entries(bytes: &[u8]) -> impl Iterator<Item = Result<EaEntry<'_>, FsccError>> {
    Chain::new(bytes).map(|entry| {
        let mut from = Reader::new(entry?);
        from.skip(4)?;
        let flags = from.u8()?;
        let name_len = from.u8()?;
        let value_len = from.u16()?;
        let name = from.bytes(name_len.into())?;
        if from.u8()? != 0 {
            return Err(FsccError::Malformed);
        }
        Ok(EaEntry { flags, name, value: from.bytes(value_len.into())? })
    })
}

/// Reads the names of a FILE_GET_EA_INFORMATION list (MS-FSCC 2.4), which a query of class 15 may bring.
pub fn get_ea_names(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], FsccError>> {
    Chain::new(bytes).map(|entry| {
        let mut from = Reader::new(entry?);
        from.skip(4)?;
        let len = from.u8()?;
        Ok(from.bytes(len.into())?)
    })
}

/// Writes FileFullEaInformation into a buffer of at most `limit` bytes.
#[derive(Debug)]
pub struct EaListWriter<'a>(List<'a>);

impl<'a> EaListWriter<'a> {
    /// Appends to `out`, which grows by at most `limit` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit: usize) -> Self {
        Self(List::new(out, limit, 4))
    }

    /// Appends an entry, or says that it does not fit. One with a longer name or value than can be written (255 and
    /// 65535 bytes) never fits.
    pub fn push(&mut self, entry: &EaEntry<'_>) -> bool {
        let (Ok(name_len), Ok(value_len)) = (u8::try_from(entry.name.len()), u16::try_from(entry.value.len())) else {
            return false;
        };
        self.0.push(9 + entry.name.len() + entry.value.len(), |out| {
            out.put_u8(entry.flags);
            out.put_u8(name_len);
            out.put_u16(value_len);
            out.put_bytes(entry.name);
            out.put_u8(0);
            out.put_bytes(entry.value);
        })
    }
}

/// Entries linked by NextEntryOffset at the end of a buffer.
#[derive(Debug)]
struct List<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    limit: usize,
    align: usize,
    last: Option<usize>,
}

impl<'a> List<'a> {
    fn new(out: &'a mut Vec<u8>, limit: usize, align: usize) -> Self {
        let start = out.len();
        Self { out, start, limit, align, last: None }
    }

    /// Appends an entry of `len` bytes, its NextEntryOffset among them; `fill` writes the rest.
    fn push(&mut self, len: usize, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let used = self.out.len().saturating_sub(self.start);
        let pad = padding(used, self.align);
        if used.saturating_add(pad).saturating_add(len) > self.limit {
            return false;
        }
        self.out.put_zeros(pad);
        let at = self.out.len();
        if let Some(last) = self.last.replace(at) {
            self.out.patch_u32(last, u32::try_from(at - last).unwrap_or(0));
        }
        self.out.put_u32(0);
        fill(self.out);
        true
    }
}

/// Takes a 4-byte length and that many bytes.
fn take_wide<'a>(from: &mut Reader<'a>) -> Result<&'a [u8], FsccError> {
    let len = length(from.u32()?);
    Ok(from.bytes(len)?)
}

fn length(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

pub(super) fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::SliceWriter;
    use crate::fscc::RenameFlags;

    #[test]
    fn a_rename_of_a_client() {
        // Replace, to "b": what a Linux client sends, without padding after the name.
        let bytes = b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0b\0";
        let info = RenameInfo::decode(bytes).unwrap();
        assert_eq!(info, RenameInfo { flags: RenameFlags::REPLACE_IF_EXISTS, root_directory: 0, name: b"b\0" });
        let mut out = Vec::new();
        info.encode(&mut out);
        assert_eq!(out, bytes);
        for short in 0..bytes.len() {
            assert_eq!(RenameInfo::decode(&bytes[..short]), Err(FsccError::Truncated));
        }
        // The bytes after the first are reserved in the plain form and flags in the other.
        let mut ex = bytes.to_vec();
        ex[0] = 0x43;
        assert_eq!(RenameInfo::decode(&ex).unwrap().flags, RenameFlags::REPLACE_IF_EXISTS);
        assert_eq!(RenameInfo::decode_ex(&ex).unwrap().flags.bits(), 0x43);
    }

    #[test]
    fn a_name_that_is_cut_keeps_its_length() {
        let mut room = [0xee; 6];
        let mut out = SliceWriter::new(&mut room);
        NameInfo { name: b"a\0b\0" }.encode(&mut out);
        assert!(out.overflowed());
        assert_eq!(room, [4, 0, 0, 0, b'a', 0]);
    }

    #[test]
    fn streams_are_chained_on_eight_bytes() {
        let entries = [
            StreamEntry { len_bytes: 5, allocation_bytes: 4096, name: b":\0:\0$\0D\0A\0T\0A\0" },
            StreamEntry { len_bytes: 1, allocation_bytes: 8, name: b":\0x\0:\0$\0D\0A\0T\0A\0" },
        ];
        let mut out = vec![0xaa; 3];
        let mut list = StreamListWriter::new(&mut out, 24 + 14 + 2 + 24 + 16);
        assert!(entries.iter().all(|e| list.push(e)));
        assert!(!list.push(&entries[0]));
        assert_eq!(out[3..11], [40, 0, 0, 0, 14, 0, 0, 0]);
        assert_eq!(out[43..51], [0, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(stream_entries(&out[3..]).collect::<Result<Vec<_>, _>>().unwrap(), entries);
        for short in 1..out.len() - 3 {
            assert!(stream_entries(&out[3..3 + short]).any(|e| e.is_err()));
        }
    }

    #[test]
    fn extended_attributes_go_round() {
        let entries =
            [EaEntry { flags: 0, name: b"ONE", value: b"1" }, EaEntry { flags: 0x80, name: b"TWO", value: b"" }];
        let mut out = Vec::new();
        let mut list = EaListWriter::new(&mut out, 1000);
        assert!(entries.iter().all(|e| list.push(e)));
        assert!(!list.push(&EaEntry { flags: 0, name: &[b'x'; 256], value: b"" }));
        assert_eq!(out, b"\x10\0\0\0\0\x03\x01\0ONE\x001\0\0\0\0\0\0\0\x80\x03\0\0TWO\0");
        assert_eq!(ea_entries(&out).collect::<Result<Vec<_>, _>>().unwrap(), entries);
        let names: Vec<_> = get_ea_names(b"\x0c\0\0\0\x03ONE\0\0\0\0\0\0\0\0\x03TWO\0").collect();
        assert_eq!(names, [Ok(&b"ONE"[..]), Ok(&b"TWO"[..])]);
        let unterminated = b"\0\0\0\0\0\x01\0\0ab";
        assert_eq!(ea_entries(unterminated).next(), Some(Err(FsccError::Malformed)));
    }
}
