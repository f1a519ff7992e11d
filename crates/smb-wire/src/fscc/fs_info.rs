//! File-system information classes (MS-FSCC 2.5): what QUERY_INFO says of the volume behind a share.

use super::file_info::classes;
use super::file_list::len_u32;
use super::flags::FsAttributes;
use super::layout::{FsccError, fixed_info};
use super::time::FileTime;
use crate::codec::{Put, Reader};

/// A file-system information class (MS-FSCC 2.5), known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FsInfoClass(pub u8);

classes!(FsInfoClass {
    VOLUME = 1,
    LABEL = 2,
    SIZE = 3,
    DEVICE = 4,
    ATTRIBUTE = 5,
    CONTROL = 6,
    FULL_SIZE = 7,
    OBJECT_ID = 8,
    DRIVER_PATH = 9,
    VOLUME_FLAGS = 10,
    SECTOR_SIZE = 11,
    POSIX = 100,
});

impl FsInfoClass {
    /// The output buffer a query needs at least, else STATUS_INFO_LENGTH_MISMATCH; see
    /// [`super::FileInfoClass::query_min_len`].
    pub const fn query_min_len(self) -> Option<usize> {
        Some(match self {
            Self::VOLUME => 24,
            Self::SIZE => SizeFsInfo::LEN,
            Self::DEVICE => DeviceFsInfo::LEN,
            Self::ATTRIBUTE => 16,
            Self::CONTROL => ControlFsInfo::LEN,
            Self::FULL_SIZE => FullSizeFsInfo::LEN,
            Self::OBJECT_ID => ObjectIdFsInfo::LEN,
            Self::SECTOR_SIZE => SectorSizeFsInfo::LEN,
            Self::POSIX => 56,
            _ => return None,
        })
    }
}

fixed_info! {
    /// FileFsSizeInformation, class 3 (MS-FSCC 2.5).
    SizeFsInfo[24] {
        /// Allocation units in all.
        total_units: u64,
        /// Units free to the caller.
        available_units: u64,
        /// Sectors in a unit.
        sectors_per_unit: u32,
        /// Bytes in a sector.
        bytes_per_sector: u32,
    }

    /// FileFsDeviceInformation, class 4 (MS-FSCC 2.5).
    DeviceFsInfo[8] {
        /// 7 for a disk, 0x11 for a named pipe.
        device_type: u32,
        /// 0x20 mounted, 0x10 remote, 0x2 read-only and others.
        characteristics: u32,
    }

    /// FileFsControlInformation, class 6 (MS-FSCC 2.5).
    ControlFsInfo[48] {
        /// Content indexing: unused.
        free_space_start_filtering: u64,
        /// Content indexing: unused.
        free_space_threshold: u64,
        /// Content indexing: unused.
        free_space_stop_filtering: u64,
        /// The warning threshold new users get, in bytes; all ones is none.
        default_quota_threshold: u64,
        /// The quota new users get, in bytes; all ones is none.
        default_quota_limit: u64,
        /// 1 quotas are tracked, 2 enforced.
        flags: u32,
    }

    /// FileFsFullSizeInformation, class 7 (MS-FSCC 2.5).
    FullSizeFsInfo[32] {
        /// Allocation units in all.
        total_units: u64,
        /// Units free to the caller.
        caller_available_units: u64,
        /// Units free.
        available_units: u64,
        /// Sectors in a unit.
        sectors_per_unit: u32,
        /// Bytes in a sector.
        bytes_per_sector: u32,
    }

    /// FileFsObjectIdInformation, class 8 (MS-FSCC 2.5).
    ObjectIdFsInfo[64] {
        /// A GUID for the file system.
        object_id: [u8; 16],
        /// Whatever the server adds.
        extended: [u8; 48],
    }

    /// FileFsSectorSizeInformation, class 11 (MS-FSCC 2.5).
    SectorSizeFsInfo[28] {
        /// Bytes in a logical sector.
        logical_bytes: u32,
        /// Bytes in a physical sector as far as writing at once goes.
        physical_bytes_for_atomicity: u32,
        /// Bytes in a physical sector as far as speed goes.
        physical_bytes_for_performance: u32,
        /// The unit the file system writes at once.
        effective_bytes_for_atomicity: u32,
        /// 1 aligned device, 2 aligned partition, 4 no seek penalty, 8 TRIM.
        flags: u32,
        /// Offset of the first aligned sector.
        sector_alignment: u32,
        /// Offset of the first aligned partition.
        partition_alignment: u32,
    }
}

/// FileFsVolumeInformation, class 1 (MS-FSCC 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeFsInfo<'a> {
    /// When the volume was made.
    pub created: FileTime,
    /// Its serial number.
    pub serial: u32,
    /// Whether it is object oriented: never.
    pub supports_objects: bool,
    /// UTF-16LE bytes.
    pub label: &'a [u8],
}

impl<'a> VolumeFsInfo<'a> {
    /// Bytes before the label.
    pub const FIXED_LEN: usize = 18;

    /// Reads it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FsccError> {
        let mut from = Reader::new(bytes);
        let (created, serial) = (FileTime(from.u64()?), from.u32()?);
        let len = usize::try_from(from.u32()?).unwrap_or(usize::MAX);
        let supports_objects = from.u8()? != 0;
        from.skip(1)?;
        Ok(Self { created, serial, supports_objects, label: from.bytes(len)? })
    }

    /// Writes it.
    pub fn encode<P: Put + ?Sized>(&self, out: &mut P) {
        out.put_u64(self.created.0);
        out.put_u32(self.serial);
        out.put_u32(len_u32(self.label));
        out.put_u8(u8::from(self.supports_objects));
        out.put_u8(0);
        out.put_bytes(self.label);
    }
}

/// FileFsAttributeInformation, class 5 (MS-FSCC 2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeFsInfo<'a> {
    /// What the file system can do.
    pub attributes: FsAttributes,
    /// The longest component, in characters.
    pub max_name_chars: u32,
    /// UTF-16LE bytes: the file system's name.
    pub name: &'a [u8],
}

impl<'a> AttributeFsInfo<'a> {
    /// Bytes before the name.
    pub const FIXED_LEN: usize = 12;

    /// Reads it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FsccError> {
        let mut from = Reader::new(bytes);
        let (attributes, max_name_chars) = (FsAttributes::from_bits_retain(from.u32()?), from.u32()?);
        let len = usize::try_from(from.u32()?).unwrap_or(usize::MAX);
        Ok(Self { attributes, max_name_chars, name: from.bytes(len)? })
    }

    /// Writes it.
    pub fn encode<P: Put + ?Sized>(&self, out: &mut P) {
        out.put_u32(self.attributes.bits());
        out.put_u32(self.max_name_chars);
        out.put_u32(len_u32(self.name));
        out.put_bytes(self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_its_label_at_18() {
        let info = VolumeFsInfo { created: FileTime(1), serial: 0x1234_5678, supports_objects: false, label: b"x\0" };
        let mut out = Vec::new();
        info.encode(&mut out);
        assert_eq!(out, b"\x01\0\0\0\0\0\0\0\x78\x56\x34\x12\x02\0\0\0\0\0x\0");
        assert_eq!(VolumeFsInfo::decode(&out), Ok(info));
        for short in 0..out.len() {
            assert_eq!(VolumeFsInfo::decode(&out[..short]), Err(FsccError::Truncated));
        }
    }

    #[test]
    fn attributes_have_the_name_at_12() {
        let attributes = FsAttributes::UNICODE_ON_DISK | FsAttributes::NAMED_STREAMS;
        let info = AttributeFsInfo { attributes, max_name_chars: 255, name: b"N\0T\0" };
        let mut out = Vec::new();
        info.encode(&mut out);
        assert_eq!(out, b"\x04\0\x04\0\xff\0\0\0\x04\0\0\0N\0T\0");
        assert_eq!(AttributeFsInfo::decode(&out), Ok(info));
        for short in 0..out.len() {
            assert_eq!(AttributeFsInfo::decode(&out[..short]), Err(FsccError::Truncated));
        }
    }

    #[test]
    fn fixed_classes_write_their_length() {
        let mut out = Vec::new();
        let size = FullSizeFsInfo {
            total_units: 1,
            caller_available_units: 2,
            available_units: 3,
            sectors_per_unit: 8,
            bytes_per_sector: 512,
        };
        size.encode(&mut out);
        assert_eq!(out.len(), 32);
        assert_eq!(out[24..], [8, 0, 0, 0, 0, 2, 0, 0]);
        assert_eq!(FullSizeFsInfo::decode(&out), Ok(size));

        let id = ObjectIdFsInfo { object_id: [7; 16], extended: [9; 48] };
        out.clear();
        id.encode(&mut out);
        assert_eq!((out.len(), ObjectIdFsInfo::decode(&out)), (64, Ok(id)));

        out.clear();
        ControlFsInfo::decode(&[0xff; 48]).unwrap().encode(&mut out);
        assert_eq!(out, [[0xff; 44].as_slice(), &[0; 4]].concat());
        assert!(SectorSizeFsInfo::decode(&out[..27]).is_err() && DeviceFsInfo::decode(&out[..8]).is_ok());
    }
}
