//! File information classes of fixed size (MS-FSCC 2.4), and the list of all classes with the sizes QUERY_INFO and
//! SET_INFO ask for. Classes that hold names or lists are in `file_list`.

use super::file_list::NameInfo;
use super::flags::{AccessMask, DispositionFlags, FileAttributes, FileMode};
use super::layout::{FsccError, fixed_info};
use super::time::FileTime;
use crate::codec::{Put, Reader};

/// A file information class (MS-FSCC 2.4), known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileInfoClass(pub u8);

macro_rules! classes {
    ($class:ident { $($name:ident = $value:literal,)* }) => {
        impl $class {
            $(#[doc = concat!("Class ", $value, ".")] pub const $name: Self = Self($value);)*

            /// The class's name, for one listed in MS-FSCC.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Debug for $class {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({})", stringify!($class), self.0),
                }
            }
        }
    };
}
pub(super) use classes;

classes!(FileInfoClass {
    DIRECTORY = 1,
    FULL_DIRECTORY = 2,
    BOTH_DIRECTORY = 3,
    BASIC = 4,
    STANDARD = 5,
    INTERNAL = 6,
    EA = 7,
    ACCESS = 8,
    NAME = 9,
    RENAME = 10,
    LINK = 11,
    NAMES = 12,
    DISPOSITION = 13,
    POSITION = 14,
    FULL_EA = 15,
    MODE = 16,
    ALIGNMENT = 17,
    ALL = 18,
    ALLOCATION = 19,
    END_OF_FILE = 20,
    ALTERNATE_NAME = 21,
    STREAM = 22,
    PIPE = 23,
    PIPE_LOCAL = 24,
    PIPE_REMOTE = 25,
    MAILSLOT_QUERY = 26,
    MAILSLOT_SET = 27,
    COMPRESSION = 28,
    OBJECT_ID = 29,
    COMPLETION = 30,
    MOVE_CLUSTER = 31,
    QUOTA = 32,
    REPARSE_POINT = 33,
    NETWORK_OPEN = 34,
    ATTRIBUTE_TAG = 35,
    TRACKING = 36,
    ID_BOTH_DIRECTORY = 37,
    ID_FULL_DIRECTORY = 38,
    VALID_DATA_LENGTH = 39,
    SHORT_NAME = 40,
    SFIO_RESERVE = 44,
    SFIO_VOLUME = 45,
    HARD_LINK = 46,
    NORMALIZED_NAME = 48,
    ID_GLOBAL_TX_DIRECTORY = 50,
    STANDARD_LINK = 54,
    MAXIMUM_1 = 55,
    ID = 59,
    ID_EXTD_DIRECTORY = 60,
    ID_EXTD_BOTH_DIRECTORY = 63,
    DISPOSITION_EX = 64,
    RENAME_EX = 65,
    DESIRED_STORAGE = 67,
    STAT = 68,
    STAT_LX = 70,
    CASE_SENSITIVE = 71,
    LINK_EX = 72,
    STORAGE_RESERVE_ID = 74,
    ID_64_EXTD_DIRECTORY = 78,
    ID_64_EXTD_BOTH_DIRECTORY = 79,
    ID_ALL_EXTD_DIRECTORY = 80,
    ID_ALL_EXTD_BOTH_DIRECTORY = 81,
    POSIX = 100,
});

impl FileInfoClass {
    /// The output buffer a query of this class needs at least, else STATUS_INFO_LENGTH_MISMATCH. For a class with a
    /// name at its end this is the structure with its first character, as Windows declares it; a buffer of that size
    /// that does not hold the whole name gets what fits and STATUS_BUFFER_OVERFLOW (MS-FSA 2.1.5). `None`: not a
    /// class that is queried.
    pub const fn query_min_len(self) -> Option<usize> {
        Some(match self {
            Self::BASIC => BasicInfo::LEN,
            Self::STANDARD => StandardInfo::LEN,
            Self::INTERNAL => InternalInfo::LEN,
            Self::EA => EaInfo::LEN,
            Self::ACCESS => AccessInfo::LEN,
            Self::NAME | Self::ALTERNATE_NAME | Self::NORMALIZED_NAME => 8,
            Self::POSITION => PositionInfo::LEN,
            Self::FULL_EA => 12,
            Self::MODE => ModeInfo::LEN,
            Self::ALIGNMENT => AlignmentInfo::LEN,
            Self::ALL => AllInfo::FIXED_LEN + 4,
            Self::STREAM => 32,
            Self::PIPE => PipeInfo::LEN,
            Self::PIPE_LOCAL => PipeLocalInfo::LEN,
            Self::COMPRESSION => CompressionInfo::LEN,
            Self::NETWORK_OPEN => NetworkOpenInfo::LEN,
            Self::ATTRIBUTE_TAG => AttributeTagInfo::LEN,
            Self::STANDARD_LINK => StandardLinkInfo::LEN,
            Self::ID => IdInfo::LEN,
            Self::CASE_SENSITIVE => CaseSensitiveInfo::LEN,
            Self::POSIX => super::PosixInfo::FIXED_LEN,
            _ => return None,
        })
    }

    /// The input buffer a set of this class needs at least, else STATUS_INFO_LENGTH_MISMATCH. `None`: not a class that
    /// is set.
    pub const fn set_min_len(self) -> Option<usize> {
        Some(match self {
            Self::BASIC => BasicInfo::LEN - 4,
            Self::RENAME | Self::LINK | Self::RENAME_EX | Self::LINK_EX => 20,
            Self::DISPOSITION => DispositionInfo::LEN,
            Self::POSITION => PositionInfo::LEN,
            Self::FULL_EA => 8,
            Self::MODE => ModeInfo::LEN,
            Self::ALLOCATION => AllocationInfo::LEN,
            Self::END_OF_FILE => EndOfFileInfo::LEN,
            Self::PIPE => PipeInfo::LEN,
            Self::VALID_DATA_LENGTH => ValidDataLengthInfo::LEN,
            Self::SHORT_NAME => 4,
            Self::DISPOSITION_EX => DispositionExInfo::LEN,
            Self::CASE_SENSITIVE => CaseSensitiveInfo::LEN,
            _ => return None,
        })
    }
}

fixed_info! {
    /// FileBasicInformation, class 4 (MS-FSCC 2.4).
    BasicInfo[40] {
        /// Made.
        created: FileTime,
        /// Last read.
        accessed: FileTime,
        /// Last data change.
        written: FileTime,
        /// Last change of anything.
        changed: FileTime,
        /// Attributes; none at all in a SET leaves them.
        attributes: FileAttributes,
    }

    /// FileStandardInformation, class 5 (MS-FSCC 2.4).
    StandardInfo[24] {
        /// Space taken, in bytes.
        allocation_bytes: u64,
        /// Length, in bytes.
        end_of_file: u64,
        /// Hard links that are not going to be deleted.
        links: u32,
        /// Whether it goes when its last handle closes.
        delete_pending: bool,
        /// Whether it is a directory.
        directory: bool,
    }

    /// FileInternalInformation, class 6 (MS-FSCC 2.4).
    InternalInfo[8] {
        /// The file's number on its volume.
        file_id: u64,
    }

    /// FileEaInformation, class 7 (MS-FSCC 2.4).
    EaInfo[4] {
        /// Bytes of all extended attributes.
        ea_bytes: u32,
    }

    /// FileAccessInformation, class 8 (MS-FSCC 2.4).
    AccessInfo[4] {
        /// The rights of the handle.
        access: AccessMask,
    }

    /// FileDispositionInformation, class 13 (MS-FSCC 2.4).
    DispositionInfo[1] {
        /// Delete when the last handle closes; `false` takes that back.
        delete: bool,
    }

    /// FilePositionInformation, class 14 (MS-FSCC 2.4).
    PositionInfo[8] {
        /// The handle's offset, which SMB2 only stores.
        offset: u64,
    }

    /// FileModeInformation, class 16 (MS-FSCC 2.4).
    ModeInfo[4] {
        /// How the handle was opened.
        mode: FileMode,
    }

    /// FileAlignmentInformation, class 17 (MS-FSCC 2.4).
    AlignmentInfo[4] {
        /// The alignment buffers need, less one.
        alignment: u32,
    }

    /// FileAllocationInformation, class 19 (MS-FSCC 2.4).
    AllocationInfo[8] {
        /// The space to take, in bytes; below the length it cuts the file.
        allocation_bytes: u64,
    }

    /// FileEndOfFileInformation, class 20 (MS-FSCC 2.4).
    EndOfFileInfo[8] {
        /// The length to have, in bytes.
        end_of_file: u64,
    }

    /// FilePipeInformation, class 23 (MS-FSCC 2.4).
    PipeInfo[8] {
        /// 0 byte stream, 1 messages.
        read_mode: u32,
        /// 0 wait, 1 return at once.
        completion_mode: u32,
    }

    /// FilePipeLocalInformation, class 24 (MS-FSCC 2.4).
    PipeLocalInfo[40] {
        /// 0 byte stream, 1 messages.
        pipe_type: u32,
        /// 0 inbound, 1 outbound, 2 both.
        configuration: u32,
        /// Instances there may be.
        max_instances: u32,
        /// Instances there are.
        instances: u32,
        /// Bytes the inbound buffer takes.
        inbound_quota: u32,
        /// Bytes there are to read.
        read_available: u32,
        /// Bytes the outbound buffer takes.
        outbound_quota: u32,
        /// Bytes that can be written.
        write_available: u32,
        /// 1 disconnected, 2 listening, 3 connected, 4 closing.
        state: u32,
        /// 0 client, 1 server.
        end: u32,
    }

    /// FileCompressionInformation, class 28 (MS-FSCC 2.4).
    CompressionInfo[16] {
        /// Length on the device, in bytes.
        compressed_bytes: u64,
        /// 0 none, 2 LZNT1.
        format: u16,
        /// Log2 of the compression unit.
        unit_shift: u8,
        /// Log2 of a chunk.
        chunk_shift: u8,
        /// Log2 of a cluster.
        cluster_shift: u8,
    }

    /// FileNetworkOpenInformation, class 34 (MS-FSCC 2.4).
    NetworkOpenInfo[56] {
        /// Made.
        created: FileTime,
        /// Last read.
        accessed: FileTime,
        /// Last data change.
        written: FileTime,
        /// Last change of anything.
        changed: FileTime,
        /// Space taken, in bytes.
        allocation_bytes: u64,
        /// Length, in bytes.
        end_of_file: u64,
        /// Attributes.
        attributes: FileAttributes,
    }

    /// FileAttributeTagInformation, class 35 (MS-FSCC 2.4).
    AttributeTagInfo[8] {
        /// Attributes.
        attributes: FileAttributes,
        /// The reparse tag, 0 where there is none.
        reparse_tag: u32,
    }

    /// FileValidDataLengthInformation, class 39 (MS-FSCC 2.4).
    ValidDataLengthInfo[8] {
        /// Bytes from the start that were written.
        valid_bytes: u64,
    }

    /// FileStandardLinkInformation, class 54 (MS-FSCC 2.4).
    StandardLinkInfo[12] {
        /// Hard links that are not going to be deleted.
        accessible_links: u32,
        /// All hard links.
        total_links: u32,
        /// Whether it goes when its last handle closes.
        delete_pending: bool,
        /// Whether it is a directory.
        directory: bool,
    }

    /// FileIdInformation, class 59 (MS-FSCC 2.4).
    IdInfo[24] {
        /// The volume's serial number.
        volume_serial: u64,
        /// The file's number on it.
        file_id: u128,
    }

    /// FileDispositionInformationEx, class 64 (MS-FSCC 2.4).
    DispositionExInfo[4] {
        /// What to do.
        flags: DispositionFlags,
    }

    /// FileCaseSensitiveInformation, class 71 (MS-FSCC 2.4).
    CaseSensitiveInfo[4] {
        /// 1: names in this directory are told apart by case.
        flags: u32,
    }
}

/// FileAllInformation, class 18 (MS-FSCC 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllInfo<'a> {
    /// Class 4.
    pub basic: BasicInfo,
    /// Class 5.
    pub standard: StandardInfo,
    /// Class 6.
    pub internal: InternalInfo,
    /// Class 7.
    pub ea: EaInfo,
    /// Class 8.
    pub access: AccessInfo,
    /// Class 14.
    pub position: PositionInfo,
    /// Class 16.
    pub mode: ModeInfo,
    /// Class 17.
    pub alignment: AlignmentInfo,
    /// Class 9: the path from the share's root, `\` first.
    pub name: NameInfo<'a>,
}

impl<'a> AllInfo<'a> {
    /// Bytes before the name.
    pub const FIXED_LEN: usize = 100;

    /// Reads it.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FsccError> {
        let from = &mut Reader::new(bytes);
        let basic = BasicInfo::take(from)?;
        from.skip(4)?;
        let standard = StandardInfo::take(from)?;
        from.skip(2)?;
        Ok(Self {
            basic,
            standard,
            internal: InternalInfo::take(from)?,
            ea: EaInfo::take(from)?,
            access: AccessInfo::take(from)?,
            position: PositionInfo::take(from)?,
            mode: ModeInfo::take(from)?,
            alignment: AlignmentInfo::take(from)?,
            name: NameInfo::decode(from.rest())?,
        })
    }

    /// Writes it.
    pub fn encode<P: Put + ?Sized>(&self, out: &mut P) {
        self.basic.encode(out);
        self.standard.encode(out);
        self.internal.encode(out);
        self.ea.encode(out);
        self.access.encode(out);
        self.position.encode(out);
        self.mode.encode(out);
        self.alignment.encode(out);
        self.name.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Truncated;

    const BASIC: BasicInfo = BasicInfo {
        created: FileTime(1),
        accessed: FileTime(2),
        written: FileTime(3),
        changed: FileTime(4),
        attributes: FileAttributes::ARCHIVE,
    };
    const STANDARD: StandardInfo =
        StandardInfo { allocation_bytes: 4096, end_of_file: 10, links: 1, delete_pending: false, directory: true };

    #[test]
    fn basic_is_forty_bytes_of_which_four_may_be_missing() {
        let mut out = Vec::new();
        BASIC.encode(&mut out);
        let mut want = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        want.extend_from_slice(&[4, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(out, want);
        for short in 0..36 {
            assert_eq!(BasicInfo::decode(&out[..short]), Err(Truncated));
        }
        assert_eq!(BasicInfo::decode(&out[..36]), Ok(BASIC));
    }

    #[test]
    fn standard_has_its_flags_last() {
        let mut out = Vec::new();
        STANDARD.encode(&mut out);
        assert_eq!(out, [0, 0x10, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(StandardInfo::decode(&out), Ok(STANDARD));
    }

    #[test]
    fn all_is_its_parts_and_the_name_at_96() {
        let all = AllInfo {
            basic: BASIC,
            standard: STANDARD,
            internal: InternalInfo { file_id: 0x1122 },
            ea: EaInfo { ea_bytes: 0 },
            access: AccessInfo { access: AccessMask::FILE_ALL },
            position: PositionInfo { offset: 7 },
            mode: ModeInfo { mode: FileMode::DELETE_ON_CLOSE },
            alignment: AlignmentInfo { alignment: 0 },
            name: NameInfo { name: b"\\\0a\0" },
        };
        let mut out = Vec::new();
        all.encode(&mut out);
        assert_eq!(out.len(), AllInfo::FIXED_LEN + 4);
        assert_eq!(out[64..72], 0x1122u64.to_le_bytes());
        assert_eq!(out[76..80], 0x1f_01ffu32.to_le_bytes());
        assert_eq!(out[96..], [4, 0, 0, 0, b'\\', 0, b'a', 0]);
        assert_eq!(AllInfo::decode(&out), Ok(all));
        for short in 0..out.len() {
            assert!(AllInfo::decode(&out[..short]).is_err());
        }
    }

    #[test]
    fn every_fixed_class_writes_its_length() {
        macro_rules! check {
            ($($name:ident),*) => {
                $({
                    let bytes: Vec<u8> = (0..$name::LEN).map(|i| u8::from(i == 0)).collect();
                    let info = $name::decode(&bytes).unwrap();
                    let mut out = Vec::new();
                    info.encode(&mut out);
                    assert_eq!(out, bytes, stringify!($name));
                    assert_eq!($name::decode(&[]), Err(Truncated));
                })*
            };
        }
        check!(BasicInfo, StandardInfo, InternalInfo, EaInfo, AccessInfo, DispositionInfo, PositionInfo, ModeInfo);
        check!(AlignmentInfo, AllocationInfo, EndOfFileInfo, PipeInfo, PipeLocalInfo, CompressionInfo);
        check!(NetworkOpenInfo, AttributeTagInfo, ValidDataLengthInfo, StandardLinkInfo, IdInfo);
        check!(DispositionExInfo, CaseSensitiveInfo);
    }

    #[test]
    fn buffer_sizes_are_those_windows_asks_for() {
        for (class, len) in [
            (FileInfoClass::BASIC, Some(40)),
            (FileInfoClass::STANDARD, Some(24)),
            (FileInfoClass::ALL, Some(104)),
            (FileInfoClass::ALTERNATE_NAME, Some(8)),
            (FileInfoClass::STREAM, Some(32)),
            (FileInfoClass::COMPRESSION, Some(16)),
            (FileInfoClass::NETWORK_OPEN, Some(56)),
            (FileInfoClass::ATTRIBUTE_TAG, Some(8)),
            (FileInfoClass::RENAME, None),
            (FileInfoClass(200), None),
        ] {
            assert_eq!(class.query_min_len(), len, "{class:?}");
        }
    }
}
