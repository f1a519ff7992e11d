//! Directory information classes (MS-FSCC 2.4): the entries QUERY_DIRECTORY answers with. A listing of tens of thousands
//! of entries goes through here, so an entry is written straight into the answer and allocates nothing. Which entries,
//! and where a listing goes on, is the server's business.

use super::flags::FileAttributes;
use super::layout::{Chain, FsccError};
use super::time::FileTime;
use crate::codec::{Put, Reader, SliceWriter, padding};

/// A class a directory is listed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DirInfoClass {
    /// FileDirectoryInformation, 1 (MS-FSCC 2.4).
    Directory,
    /// FileFullDirectoryInformation, 2 (MS-FSCC 2.4).
    FullDirectory,
    /// FileBothDirectoryInformation, 3 (MS-FSCC 2.4).
    BothDirectory,
    /// FileNamesInformation, 12 (MS-FSCC 2.4).
    Names,
    /// FileIdBothDirectoryInformation, 37 (MS-FSCC 2.4).
    IdBothDirectory,
    /// FileIdFullDirectoryInformation, 38 (MS-FSCC 2.4).
    IdFullDirectory,
    /// FileIdExtdDirectoryInformation, 60 (MS-FSCC 2.4).
    IdExtdDirectory,
    /// FileIdExtdBothDirectoryInformation, 63.
    IdExtdBothDirectory,
}

impl DirInfoClass {
    /// The class with this number; `None` is STATUS_INVALID_INFO_CLASS (MS-SMB2 3.3.5.18).
    pub const fn from_u8(class: u8) -> Option<Self> {
        Some(match class {
            1 => Self::Directory,
            2 => Self::FullDirectory,
            3 => Self::BothDirectory,
            12 => Self::Names,
            37 => Self::IdBothDirectory,
            38 => Self::IdFullDirectory,
            60 => Self::IdExtdDirectory,
            63 => Self::IdExtdBothDirectory,
            _ => return None,
        })
    }

    /// Its number.
    pub const fn as_u8(self) -> u8 {
        match self {
            Self::Directory => 1,
            Self::FullDirectory => 2,
            Self::BothDirectory => 3,
            Self::Names => 12,
            Self::IdBothDirectory => 37,
            Self::IdFullDirectory => 38,
            Self::IdExtdDirectory => 60,
            Self::IdExtdBothDirectory => 63,
        }
    }

    /// Bytes of an entry before its name. An output buffer smaller than this is STATUS_INFO_LENGTH_MISMATCH
    /// (MS-SMB2 3.3.5.18).
    pub const fn fixed_len(self) -> usize {
        match self {
            Self::Directory => 64,
            Self::FullDirectory => 68,
            Self::BothDirectory => 94,
            Self::Names => 12,
            Self::IdBothDirectory => 104,
            Self::IdFullDirectory => 80,
            Self::IdExtdDirectory => 88,
            Self::IdExtdBothDirectory => 114,
        }
    }

    /// Whether only the name is asked for: the server then needs no attributes.
    pub const fn names_only(self) -> bool {
        matches!(self, Self::Names)
    }

    const fn has_ea_size(self) -> bool {
        !matches!(self, Self::Directory | Self::Names)
    }

    /// Whether its entries hold a short name.
    pub const fn has_short_name(self) -> bool {
        matches!(self, Self::BothDirectory | Self::IdBothDirectory | Self::IdExtdBothDirectory)
    }

    const fn has_extd_id(self) -> bool {
        matches!(self, Self::IdExtdDirectory | Self::IdExtdBothDirectory)
    }
}

/// The four times of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirTimes {
    /// Made.
    pub created: FileTime,
    /// Last read.
    pub accessed: FileTime,
    /// Last data change.
    pub written: FileTime,
    /// Last change of anything.
    pub changed: FileTime,
}

/// One entry of a directory. A class that lacks a field leaves it out; decoding one leaves it 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirEntryInfo<'a> {
    /// Where a listing could go on; 0 where that means nothing.
    pub file_index: u32,
    /// Its times.
    pub times: DirTimes,
    /// Length, in bytes.
    pub end_of_file: u64,
    /// Space taken, in bytes.
    pub allocation: u64,
    /// Its attributes.
    pub attributes: FileAttributes,
    /// Bytes of extended attributes. Classes without a field for the reparse tag put that here when the entry is a
    /// reparse point.
    pub ea_size: u32,
    /// The reparse tag, 0 where there is none.
    pub reparse_tag: u32,
    /// Its number on the volume; the classes that are not Extd keep the low 64 bits.
    pub file_id: u128,
    /// UTF-16LE bytes, at most 24: the 8.3 name, or none.
    pub short_name: &'a [u8],
    /// UTF-16LE bytes.
    pub name_utf16: &'a [u8],
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is in.
    Fitted,
    /// It does not fit after the others: the answer is full, and this entry begins the next one.
    Full,
    /// It does not fit though it is the first: STATUS_BUFFER_OVERFLOW, for no later answer would hold it either.
    TooLarge,
}

/// Writes entries into a buffer, each on 8 bytes and linked to the one before.
#[derive(Debug)]
pub struct DirListWriter<'a> {
    room: &'a mut [u8],
    class: DirInfoClass,
    used: usize,
    last: Option<usize>,
}

impl<'a> DirListWriter<'a> {
    /// A list in `room`, the whole of which is the answer's buffer.
    pub fn new(room: &'a mut [u8], class: DirInfoClass) -> Self {
        Self { room, class, used: 0, last: None }
    }

    /// Appends an entry, all of it or nothing.
    pub fn push(&mut self, entry: &DirEntryInfo<'_>) -> Appended {
        let class = self.class;
        let len = class.fixed_len().saturating_add(entry.name_utf16.len());
        self.append(len, |out| encode_entry(class, entry, out))
    }

    /// Appends an entry of another class, encoded already; it begins with NextEntryOffset.
    pub fn push_encoded(&mut self, entry: &[u8]) -> Appended {
        self.append(entry.len(), |out| out.put_bytes(entry))
    }

    fn append(&mut self, len: usize, encode: impl FnOnce(&mut SliceWriter<'_>)) -> Appended {
        let start = self.used + padding(self.used, 8);
        let fits = start.checked_add(len).is_some_and(|end| end <= self.room.len());
        match (fits, self.last) {
            (true, _) => {}
            (false, None) => return Appended::TooLarge,
            (false, Some(_)) => return Appended::Full,
        }
        if let Some(gap) = self.room.get_mut(self.used..start) {
            gap.fill(0);
        }
        if let Some(last) = self.last.replace(start) {
            let next = u32::try_from(start - last).unwrap_or(0);
            SliceWriter::new(self.room.get_mut(last..).unwrap_or_default()).put_u32(next);
        }
        encode(&mut SliceWriter::new(self.room.get_mut(start..).unwrap_or_default()));
        self.used = start + len;
        Appended::Fitted
    }

    /// Whether there is no entry yet.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// How many bytes the list takes so far.
    pub fn len(&self) -> usize {
        self.used
    }
}

fn encode_entry(class: DirInfoClass, entry: &DirEntryInfo<'_>, out: &mut SliceWriter<'_>) {
    let name_len = u32::try_from(entry.name_utf16.len()).unwrap_or(u32::MAX);
    out.put_u32(0);
    out.put_u32(entry.file_index);
    if !class.names_only() {
        encode_attributes(entry, out);
    }
    out.put_u32(name_len);
    encode_extras(class, entry, out);
    out.put_bytes(entry.name_utf16);
}

fn encode_attributes(entry: &DirEntryInfo<'_>, out: &mut SliceWriter<'_>) {
    let times = &entry.times;
    for time in [times.created, times.accessed, times.written, times.changed] {
        out.put_u64(time.0);
    }
    out.put_u64(entry.end_of_file);
    out.put_u64(entry.allocation);
    out.put_u32(entry.attributes.bits());
}

/// What stands between the length of the name and the name.
fn encode_extras(class: DirInfoClass, entry: &DirEntryInfo<'_>, out: &mut SliceWriter<'_>) {
    if class.has_ea_size() {
        let tagged = !class.has_extd_id() && entry.attributes.contains(FileAttributes::REPARSE_POINT);
        out.put_u32(if tagged { entry.reparse_tag } else { entry.ea_size });
    }
    if class.has_extd_id() {
        out.put_u32(entry.reparse_tag);
        out.put_u128(entry.file_id);
    }
    if class.has_short_name() {
        let short = entry.short_name.get(..24).unwrap_or(entry.short_name);
        out.put_u8(u8::try_from(short.len()).unwrap_or(0));
        out.put_u8(0);
        out.put_bytes(short);
        out.put_zeros(24 - short.len());
    }
    match class {
        DirInfoClass::IdFullDirectory => out.put_zeros(4),
        DirInfoClass::IdBothDirectory => out.put_zeros(2),
        _ => return,
    }
    out.put_bytes(entry.file_id.to_le_bytes().first_chunk::<8>().unwrap_or(&[0; 8]));
}

/// Reads a listing.
pub fn dir_entries(class: DirInfoClass, bytes: &[u8]) -> impl Iterator<Item = Result<DirEntryInfo<'_>, FsccError>> {
    Chain::new(bytes).map(move |entry| decode_entry(class, entry?))
}

fn decode_entry(class: DirInfoClass, bytes: &[u8]) -> Result<DirEntryInfo<'_>, FsccError> {
    let from = &mut Reader::new(bytes);
    from.skip(4)?;
    let mut entry = DirEntryInfo { file_index: from.u32()?, ..DirEntryInfo::default() };
    if !class.names_only() {
        decode_attributes(&mut entry, from)?;
    }
    let name_len = usize::try_from(from.u32()?).unwrap_or(usize::MAX);
    decode_extras(class, &mut entry, from)?;
    entry.name_utf16 = from.bytes(name_len)?;
    Ok(entry)
}

fn decode_attributes(entry: &mut DirEntryInfo<'_>, from: &mut Reader<'_>) -> Result<(), FsccError> {
    entry.times = DirTimes {
        created: FileTime(from.u64()?),
        accessed: FileTime(from.u64()?),
        written: FileTime(from.u64()?),
        changed: FileTime(from.u64()?),
    };
    entry.end_of_file = from.u64()?;
    entry.allocation = from.u64()?;
    entry.attributes = FileAttributes::from_bits_retain(from.u32()?);
    Ok(())
}

fn decode_extras<'a>(
    class: DirInfoClass,
    entry: &mut DirEntryInfo<'a>,
    from: &mut Reader<'a>,
) -> Result<(), FsccError> {
    if class.has_ea_size() {
        let value = from.u32()?;
        let tagged = !class.has_extd_id() && entry.attributes.contains(FileAttributes::REPARSE_POINT);
        *(if tagged { &mut entry.reparse_tag } else { &mut entry.ea_size }) = value;
    }
    if class.has_extd_id() {
        entry.reparse_tag = from.u32()?;
        entry.file_id = from.u128()?;
    }
    if class.has_short_name() {
        let len = usize::from(from.u8()?);
        from.skip(1)?;
        entry.short_name = from.bytes(24)?.get(..len).ok_or(FsccError::Malformed)?;
    }
    match class {
        DirInfoClass::IdFullDirectory => from.skip(4)?,
        DirInfoClass::IdBothDirectory => from.skip(2)?,
        _ => return Ok(()),
    }
    entry.file_id = from.u64()?.into();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [DirInfoClass; 8] = [
        DirInfoClass::Directory,
        DirInfoClass::FullDirectory,
        DirInfoClass::BothDirectory,
        DirInfoClass::Names,
        DirInfoClass::IdBothDirectory,
        DirInfoClass::IdFullDirectory,
        DirInfoClass::IdExtdDirectory,
        DirInfoClass::IdExtdBothDirectory,
    ];

    fn entry(name: &[u8]) -> DirEntryInfo<'_> {
        DirEntryInfo {
            file_index: 3,
            times: DirTimes {
                created: FileTime(0x11),
                accessed: FileTime(0x22),
                written: FileTime(0x33),
                changed: FileTime(0x44),
            },
            end_of_file: 0x55,
            allocation: 0x66,
            attributes: FileAttributes::ARCHIVE,
            ea_size: 0x77,
            reparse_tag: 0,
            file_id: 0x8877,
            short_name: b"S\0",
            name_utf16: name,
        }
    }

    /// What of `entry` this class carries.
    fn carried(class: DirInfoClass, mut e: DirEntryInfo<'_>) -> DirEntryInfo<'_> {
        if class.names_only() {
            return DirEntryInfo { file_index: e.file_index, name_utf16: e.name_utf16, ..Default::default() };
        }
        if !class.has_ea_size() {
            e.ea_size = 0;
        }
        if !class.has_short_name() {
            e.short_name = b"";
        }
        if matches!(class, DirInfoClass::Directory | DirInfoClass::FullDirectory | DirInfoClass::BothDirectory) {
            e.file_id = 0;
        }
        e
    }

    #[test]
    fn the_name_stands_where_the_class_says() {
        for class in CLASSES {
            let mut room = [0xee; 200];
            let mut list = DirListWriter::new(&mut room, class);
            assert_eq!(list.push(&entry(b"q\0")), Appended::Fitted);
            let len = list.len();
            assert_eq!(len, class.fixed_len() + 2, "{class:?}");
            assert_eq!(room[class.fixed_len()..len], *b"q\0", "{class:?}");
            assert_eq!(DirInfoClass::from_u8(class.as_u8()), Some(class));
        }
        assert_eq!(DirInfoClass::from_u8(4), None);
    }

    #[test]
    fn id_both_directory_byte_for_byte() {
        let mut room = [0xee; 106];
        let mut list = DirListWriter::new(&mut room, DirInfoClass::IdBothDirectory);
        list.push(&entry(b"q\0"));
        let mut want = Vec::new();
        want.extend_from_slice(&[0, 0, 0, 0, 3, 0, 0, 0]);
        for time in [0x11, 0x22, 0x33, 0x44, 0x55, 0x66] {
            want.extend_from_slice(&[time, 0, 0, 0, 0, 0, 0, 0]);
        }
        want.extend_from_slice(&[0x20, 0, 0, 0, 2, 0, 0, 0, 0x77, 0, 0, 0, 2, 0, b'S', 0]);
        want.extend_from_slice(&[0; 22]);
        want.extend_from_slice(&[0, 0, 0x77, 0x88, 0, 0, 0, 0, 0, 0, b'q', 0]);
        assert_eq!(room.as_slice(), want);
    }

    #[test]
    fn every_class_goes_round_and_survives_being_cut() {
        for class in CLASSES {
            let mut room = vec![0xee; 1000];
            let mut list = DirListWriter::new(&mut room, class);
            let names: [&[u8]; 3] = [b"a\0", b"bcdef\0\0\0", b"g\0h\0i\0"];
            for name in names {
                assert_eq!(list.push(&entry(name)), Appended::Fitted);
            }
            let len = list.len();
            let room = &room[..len];
            let back: Vec<_> = dir_entries(class, room).collect::<Result<_, _>>().unwrap();
            assert_eq!(back, names.map(|name| carried(class, entry(name))), "{class:?}");
            for short in 1..len {
                assert!(dir_entries(class, &room[..short]).any(|e| e.is_err()), "{class:?} {short}");
            }
        }
    }

    #[test]
    fn a_reparse_tag_takes_the_place_of_the_ea_size() {
        let link =
            DirEntryInfo { attributes: FileAttributes::REPARSE_POINT, reparse_tag: 0xa000_000c, ..entry(b"l\0") };
        for (class, at) in [(DirInfoClass::FullDirectory, 64), (DirInfoClass::IdExtdDirectory, 68)] {
            let mut room = [0; 200];
            DirListWriter::new(&mut room, class).push(&link);
            assert_eq!(room[at..at + 4], 0xa000_000cu32.to_le_bytes(), "{class:?}");
        }
    }

    #[test]
    fn a_full_answer_is_told_from_one_that_never_fits() {
        let class = DirInfoClass::Names;
        let mut room = [0xee; 13];
        let mut list = DirListWriter::new(&mut room, class);
        assert_eq!(list.push(&entry(b"a\0")), Appended::TooLarge);
        assert!(list.is_empty());
        // Two entries of 14 bytes, the second on byte 16.
        for (size, second) in [(29, Appended::Full), (30, Appended::Fitted)] {
            let mut room = vec![0xee; size];
            let mut list = DirListWriter::new(&mut room, class);
            assert_eq!(list.push(&entry(b"a\0")), Appended::Fitted);
            assert_eq!(list.push(&entry(b"b\0")), second, "{size}");
            let (len, next) = if second == Appended::Fitted { (30, 16) } else { (14, 0) };
            assert_eq!(list.len(), len);
            assert_eq!(room[..4], [next, 0, 0, 0]);
        }
    }
}
