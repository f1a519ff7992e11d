//! MS-FSCC: what SMB2 QUERY_INFO, SET_INFO and QUERY_DIRECTORY carry. A server encodes these and a client decodes them,
//! or the other way round for SET. Every name in here is UTF-16LE bytes as they travel; `crate::name` turns them into
//! file names. Nothing here decides which status answers a request, it only says what is wrong with the bytes.

mod dir_info;
mod file_info;
mod file_list;
mod flags;
mod fs_info;
mod layout;
mod notify;
mod pattern;
mod posix;
mod reparse;
mod time;

pub use dir_info::{Appended, DirEntryInfo, DirInfoClass, DirListWriter, DirTimes, dir_entries};
pub use file_info::{
    AccessInfo, AlignmentInfo, AllInfo, AllocationInfo, AttributeTagInfo, BasicInfo, CaseSensitiveInfo,
    CompressionInfo, DispositionExInfo, DispositionInfo, EaInfo, EndOfFileInfo, FileInfoClass, IdInfo, InternalInfo,
    ModeInfo, NetworkOpenInfo, PipeInfo, PipeLocalInfo, PositionInfo, StandardInfo, StandardLinkInfo,
    ValidDataLengthInfo,
};
pub use file_list::{EaEntry, EaListWriter, NameInfo, RenameInfo, StreamEntry, StreamListWriter};
pub use file_list::{ea_entries, get_ea_names, stream_entries};
pub use flags::{
    AccessMask, DispositionFlags, FileAttributes, FileMode, FsAttributes, GenericMapping, LinkFlags, RenameFlags,
    reparse_tag,
};
pub use fs_info::{
    AttributeFsInfo, ControlFsInfo, DeviceFsInfo, FsInfoClass, FullSizeFsInfo, ObjectIdFsInfo, SectorSizeFsInfo,
    SizeFsInfo, VolumeFsInfo,
};
pub use layout::{Chain, FsccError};
pub use notify::{NotifyAction, NotifyFilter, notify_entries, notify_entry_bytes, put_notify_entries};
pub use pattern::Pattern;
pub use posix::{PosixFsInfo, PosixInfo, PosixType};
pub use reparse::{NfsReparse, ReparseError, SymlinkReparse};
pub use time::{FileTime, TimeUpdate};
