//! The bit sets of MS-FSCC and MS-SMB2 that describe files: attributes, access rights, open modes, volumes. A decoder
//! keeps bits it does not know, so that the server can refuse them by the rule of the field at hand.

use bitflags::bitflags;

bitflags! {
    /// FILE_ATTRIBUTE_* (MS-FSCC 2.6).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FileAttributes: u32 {
        /// Cannot be written or deleted.
        const READONLY = 0x1;
        /// Left out of an ordinary listing.
        const HIDDEN = 0x2;
        /// Belongs to the operating system.
        const SYSTEM = 0x4;
        /// A directory.
        const DIRECTORY = 0x10;
        /// Changed since the last backup.
        const ARCHIVE = 0x20;
        /// None of the others; valid only alone.
        const NORMAL = 0x80;
        /// Temporary.
        const TEMPORARY = 0x100;
        /// Holes are kept as holes.
        const SPARSE_FILE = 0x200;
        /// A reparse point or symbolic link.
        const REPARSE_POINT = 0x400;
        /// Compressed.
        const COMPRESSED = 0x800;
        /// The data is not at hand.
        const OFFLINE = 0x1000;
        /// Not to be indexed.
        const NOT_CONTENT_INDEXED = 0x2000;
        /// Encrypted.
        const ENCRYPTED = 0x4000;
        /// Integrity streams.
        const INTEGRITY_STREAM = 0x8000;
        /// Left alone by the scrubber.
        const NO_SCRUB_DATA = 0x2_0000;
        /// Opening it fetches the data from far away.
        const RECALL_ON_OPEN = 0x4_0000;
        /// Kept at hand.
        const PINNED = 0x8_0000;
        /// Not kept at hand.
        const UNPINNED = 0x10_0000;
        /// Reading it fetches the data from far away.
        const RECALL_ON_DATA_ACCESS = 0x40_0000;
        /// Unknown bits are kept.
        const _ = !0;
    }

    /// Access rights to a file, directory, pipe or printer (MS-SMB2 2.2.13.1). Directories have names of their own for
    /// the low bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct AccessMask: u32 {
        /// Read data.
        const FILE_READ_DATA = 0x1;
        /// List the directory.
        const FILE_LIST_DIRECTORY = 0x1;
        /// Write data.
        const FILE_WRITE_DATA = 0x2;
        /// Make files in the directory.
        const FILE_ADD_FILE = 0x2;
        /// Append data.
        const FILE_APPEND_DATA = 0x4;
        /// Make directories in the directory.
        const FILE_ADD_SUBDIRECTORY = 0x4;
        /// Read extended attributes.
        const FILE_READ_EA = 0x8;
        /// Write extended attributes.
        const FILE_WRITE_EA = 0x10;
        /// Execute.
        const FILE_EXECUTE = 0x20;
        /// Pass through the directory.
        const FILE_TRAVERSE = 0x20;
        /// Delete any entry of the directory.
        const FILE_DELETE_CHILD = 0x40;
        /// Read attributes.
        const FILE_READ_ATTRIBUTES = 0x80;
        /// Write attributes.
        const FILE_WRITE_ATTRIBUTES = 0x100;
        /// Delete.
        const DELETE = 0x1_0000;
        /// Read owner, group and DACL.
        const READ_CONTROL = 0x2_0000;
        /// Write the DACL.
        const WRITE_DAC = 0x4_0000;
        /// Write the owner.
        const WRITE_OWNER = 0x8_0000;
        /// Wait on the object.
        const SYNCHRONIZE = 0x10_0000;
        /// Read and write the SACL.
        const ACCESS_SYSTEM_SECURITY = 0x100_0000;
        /// Whatever the caller is allowed.
        const MAXIMUM_ALLOWED = 0x200_0000;
        /// Everything, before mapping.
        const GENERIC_ALL = 0x1000_0000;
        /// Execute, before mapping.
        const GENERIC_EXECUTE = 0x2000_0000;
        /// Write, before mapping.
        const GENERIC_WRITE = 0x4000_0000;
        /// Read, before mapping.
        const GENERIC_READ = 0x8000_0000;
        /// Unknown bits are kept.
        const _ = !0;
    }

    /// How a file is open (MS-FSCC 2.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FileMode: u32 {
        /// FILE_WRITE_THROUGH.
        const WRITE_THROUGH = 0x2;
        /// FILE_SEQUENTIAL_ONLY.
        const SEQUENTIAL_ONLY = 0x4;
        /// FILE_NO_INTERMEDIATE_BUFFERING.
        const NO_INTERMEDIATE_BUFFERING = 0x8;
        /// FILE_SYNCHRONOUS_IO_ALERT.
        const SYNCHRONOUS_IO_ALERT = 0x10;
        /// FILE_SYNCHRONOUS_IO_NONALERT.
        const SYNCHRONOUS_IO_NONALERT = 0x20;
        /// FILE_DELETE_ON_CLOSE.
        const DELETE_ON_CLOSE = 0x1000;
        /// Unknown bits are kept.
        const _ = !0;
    }

    /// How to delete (MS-FSCC 2.4, FileDispositionInformationEx).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct DispositionFlags: u32 {
        /// Delete; without it the mark is taken back.
        const DELETE = 0x1;
        /// Take the name away at once, as POSIX does.
        const POSIX_SEMANTICS = 0x2;
        /// Check for an image section.
        const FORCE_IMAGE_SECTION_CHECK = 0x4;
        /// Change the delete-on-close of the open.
        const ON_CLOSE = 0x8;
        /// Delete a read-only file too.
        const IGNORE_READONLY_ATTRIBUTE = 0x10;
        /// Unknown bits are kept.
        const _ = !0;
    }

    /// How to rename (MS-FSCC 2.4, FileRenameInformationEx).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct RenameFlags: u32 {
        /// Take the place of what has the new name.
        const REPLACE_IF_EXISTS = 0x1;
        /// Replace an open file too, as POSIX does.
        const POSIX_SEMANTICS = 0x2;
        /// Do not take over whether the new directory is pinned.
        const SUPPRESS_PIN_STATE_INHERITANCE = 0x4;
        /// Do not take over the new directory's storage reserve.
        const SUPPRESS_STORAGE_RESERVE_INHERITANCE = 0x8;
        /// Do not increase the available space.
        const NO_INCREASE_AVAILABLE_SPACE = 0x10;
        /// Do not decrease the available space.
        const NO_DECREASE_AVAILABLE_SPACE = 0x20;
        /// Replace a read-only file too.
        const IGNORE_READONLY_ATTRIBUTE = 0x40;
        /// Unknown bits are kept.
        const _ = !0;
    }

    /// What a file system can do (MS-FSCC 2.5).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct FsAttributes: u32 {
        /// Can tell names apart by case.
        const CASE_SENSITIVE_SEARCH = 0x1;
        /// Keeps the case of a name.
        const CASE_PRESERVED_NAMES = 0x2;
        /// Names are Unicode.
        const UNICODE_ON_DISK = 0x4;
        /// Keeps and enforces access lists.
        const PERSISTENT_ACLS = 0x8;
        /// Compresses files.
        const FILE_COMPRESSION = 0x10;
        /// Quotas.
        const VOLUME_QUOTAS = 0x20;
        /// Holes.
        const SUPPORTS_SPARSE_FILES = 0x40;
        /// Reparse points.
        const SUPPORTS_REPARSE_POINTS = 0x80;
        /// Files may live far away.
        const SUPPORTS_REMOTE_STORAGE = 0x100;
        /// POSIX unlink and rename.
        const SUPPORTS_POSIX_UNLINK_RENAME = 0x400;
        /// The volume is compressed.
        const VOLUME_IS_COMPRESSED = 0x8000;
        /// Object ids.
        const SUPPORTS_OBJECT_IDS = 0x1_0000;
        /// Encryption.
        const SUPPORTS_ENCRYPTION = 0x2_0000;
        /// Named streams.
        const NAMED_STREAMS = 0x4_0000;
        /// Nothing can be written.
        const READ_ONLY_VOLUME = 0x8_0000;
        /// Written once.
        const SEQUENTIAL_WRITE_ONCE = 0x10_0000;
        /// Transactions.
        const SUPPORTS_TRANSACTIONS = 0x20_0000;
        /// Hard links.
        const SUPPORTS_HARD_LINKS = 0x40_0000;
        /// Extended attributes.
        const SUPPORTS_EXTENDED_ATTRIBUTES = 0x80_0000;
        /// Files can be opened by id.
        const SUPPORTS_OPEN_BY_FILE_ID = 0x100_0000;
        /// A change journal.
        const SUPPORTS_USN_JOURNAL = 0x200_0000;
        /// Integrity streams.
        const SUPPORTS_INTEGRITY_STREAMS = 0x400_0000;
        /// Files can share blocks (FSCTL_DUPLICATE_EXTENTS_TO_FILE).
        const SUPPORTS_BLOCK_REFCOUNTING = 0x800_0000;
        /// Writes that are holes until written.
        const SUPPORTS_SPARSE_VDL = 0x1000_0000;
        /// Unknown bits are kept.
        const _ = !0;
    }
}

/// A hard link has the flags of a rename (MS-FSCC 2.4).
pub type LinkFlags = RenameFlags;

/// Which rights each generic right stands for (MS-DTYP 2.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GenericMapping {
    /// GENERIC_READ.
    pub read: AccessMask,
    /// GENERIC_WRITE.
    pub write: AccessMask,
    /// GENERIC_EXECUTE.
    pub execute: AccessMask,
    /// GENERIC_ALL.
    pub all: AccessMask,
}

impl AccessMask {
    /// The generic mapping of files and directories: FILE_GENERIC_READ, _WRITE, _EXECUTE and FILE_ALL_ACCESS.
    pub const FILE_MAPPING: GenericMapping = GenericMapping {
        read: Self::from_bits_retain(0x12_0089),
        write: Self::from_bits_retain(0x12_0116),
        execute: Self::from_bits_retain(0x12_00a0),
        all: Self::from_bits_retain(0x1f_01ff),
    };

    /// Every right there is to a file.
    pub const FILE_ALL: Self = Self::FILE_MAPPING.all;

    const GENERIC: Self = Self::from_bits_retain(0xf000_0000);

    /// The specific rights of files in place of the generic ones.
    pub fn map_generic(self) -> Self {
        let map = Self::FILE_MAPPING;
        [
            (Self::GENERIC_READ, map.read),
            (Self::GENERIC_WRITE, map.write),
            (Self::GENERIC_EXECUTE, map.execute),
            (Self::GENERIC_ALL, map.all),
        ]
        .into_iter()
        .filter(|(generic, _)| self.contains(*generic))
        .fold(self.difference(Self::GENERIC), |rights, (_, specific)| rights.union(specific))
    }
}

/// Reparse tags (MS-FSCC 2.1.2.1).
pub mod reparse_tag {
    /// A mount point or junction.
    pub const MOUNT_POINT: u32 = 0xa000_0003;
    /// A symbolic link.
    pub const SYMLINK: u32 = 0xa000_000c;
    /// DFS.
    pub const DFS: u32 = 0x8000_000a;
    /// DFS replication.
    pub const DFSR: u32 = 0x8000_0012;
    /// A deduplicated file.
    pub const DEDUP: u32 = 0x8000_0013;
    /// NFS: symbolic link, device, pipe or socket (MS-FSCC 2.1.2.6).
    pub const NFS: u32 = 0x8000_0014;
    /// Hierarchical storage.
    pub const HSM: u32 = 0xc000_0004;
    /// Single-instance storage.
    pub const SIS: u32 = 0x8000_0007;
    /// An application's execution alias.
    pub const APPEXECLINK: u32 = 0x8000_001b;
    /// A file of a cloud store.
    pub const CLOUD: u32 = 0x9000_001a;
    /// A socket of the Linux subsystem.
    pub const AF_UNIX: u32 = 0x8000_0023;
    /// A symbolic link of the Linux subsystem.
    pub const LX_SYMLINK: u32 = 0xa000_001d;
    /// A pipe of the Linux subsystem.
    pub const LX_FIFO: u32 = 0x8000_0024;
    /// A character device of the Linux subsystem.
    pub const LX_CHR: u32 = 0x8000_0025;
    /// A block device of the Linux subsystem.
    pub const LX_BLK: u32 = 0x8000_0026;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_rights_become_specific_ones() {
        for (generic, specific) in [
            (0x8000_0000, 0x12_0089),
            (0x4000_0000, 0x12_0116),
            (0x2000_0000, 0x12_00a0),
            (0x1000_0000, 0x1f_01ff),
            (0xc000_0000, 0x12_019f),
            (0x8201_0000, 0x0213_0089),
            (0x0000_0003, 0x0000_0003),
        ] {
            let mapped = AccessMask::from_bits_retain(generic).map_generic();
            assert_eq!(mapped.bits(), specific, "{generic:#x}");
        }
    }
}
