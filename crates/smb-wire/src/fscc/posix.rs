//! The structures of the SMB 3.1.1 POSIX extensions, as Samba and the Linux kernel have them: what the POSIX create
//! context answers, class 100 of files and of listings, and class 100 of file systems. No document of Microsoft's has
//! them. The server fills them in; nothing here looks at a file.

use super::dir_info::DirTimes;
use super::flags::FileAttributes;
use super::layout::fixed_info;
use crate::codec::Put;
use crate::security::Sid;

/// What an object is, in the four bits above the permissions of a mode on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum PosixType {
    File = 0,
    Directory = 1,
    Symlink = 2,
    CharDevice = 3,
    BlockDevice = 4,
    Fifo = 5,
    Socket = 6,
}

/// One object, for class 100.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PosixInfo {
    /// Its times.
    pub times: DirTimes,
    /// Length in bytes.
    pub end_of_file: u64,
    /// Space taken in bytes.
    pub allocation: u64,
    /// Attributes; everything but files and directories is a reparse point.
    pub attributes: FileAttributes,
    /// Inode number.
    pub inode: u64,
    /// Device it is on.
    pub device: u32,
    /// Hard links.
    pub links: u32,
    /// The reparse tag; 0 where there is none.
    pub reparse_tag: u32,
    /// What it is.
    pub kind: PosixType,
    /// Permissions: 0o7777.
    pub mode: u32,
    /// Owner.
    pub owner: Sid,
    /// Group.
    pub group: Sid,
}

impl PosixInfo {
    /// Bytes before the SIDs.
    pub const FIXED_LEN: usize = 80;
    /// Bytes of a listing's entry before the SIDs.
    pub const ENTRY_FIXED_LEN: usize = 8 + Self::FIXED_LEN;

    /// What the POSIX create context of a response holds.
    pub fn create_context(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(44);
        self.put_context(&mut out);
        out
    }

    /// Appends the structure a file answers with.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let times = &self.times;
        for time in [times.created, times.accessed, times.written, times.changed] {
            out.put_u64(time.0);
        }
        out.put_u64(self.end_of_file);
        out.put_u64(self.allocation);
        out.put_u32(self.attributes.bits());
        out.put_u64(self.inode);
        out.put_u32(self.device);
        out.put_u32(0);
        self.put_context(out);
    }

    /// A listing's entry; NextEntryOffset is 0.
    pub fn entry(&self, name_utf16: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::ENTRY_FIXED_LEN + 40 + name_utf16.len());
        out.put_zeros(8);
        self.encode(&mut out);
        out.put_u32(u32::try_from(name_utf16.len()).unwrap_or(u32::MAX));
        out.put_bytes(name_utf16);
        out
    }

    fn put_context(&self, out: &mut Vec<u8>) {
        out.put_u32(self.links);
        out.put_u32(self.reparse_tag);
        out.put_u32((self.kind as u32) << 12 | self.mode & 0o7777);
        out.put_bytes(&self.owner.encode());
        out.put_bytes(&self.group.encode());
    }
}

fixed_info! {
    /// FS_POSIX_INFORMATION, class 100: what statfs(2) says.
    PosixFsInfo[56] {
        /// A good size for transfers, in bytes.
        optimal_transfer_bytes: u32,
        /// Bytes in a block.
        block_bytes: u32,
        /// Blocks in all.
        total_blocks: u64,
        /// Blocks free.
        free_blocks: u64,
        /// Blocks free to the caller.
        available_blocks: u64,
        /// Inodes in all.
        total_files: u64,
        /// Inodes free.
        free_files: u64,
        /// Which file system.
        fs_id: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::FileTime;
    use super::*;

    fn info() -> PosixInfo {
        let [created, accessed, written, changed] = [1, 2, 3, 4].map(FileTime);
        PosixInfo {
            times: DirTimes { created, accessed, written, changed },
            end_of_file: 5,
            allocation: 6,
            attributes: FileAttributes::DIRECTORY,
            inode: 7,
            device: 8,
            links: 2,
            reparse_tag: 0,
            kind: PosixType::Directory,
            mode: 0o1755,
            owner: Sid::unix_user(1000),
            group: Sid::unix_group(100),
        }
    }

    #[test]
    fn a_create_context_byte_for_byte() {
        let mut want = vec![2, 0, 0, 0, 0, 0, 0, 0, 0xed, 0x13, 0, 0];
        want.extend_from_slice(&[1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xe8, 3, 0, 0]);
        want.extend_from_slice(&[1, 2, 0, 0, 0, 0, 0, 22, 2, 0, 0, 0, 100, 0, 0, 0]);
        assert_eq!(info().create_context(), want);
    }

    #[test]
    fn fields_stand_where_the_kernel_looks_for_them() {
        let mut bytes = Vec::new();
        info().encode(&mut bytes);
        assert_eq!(bytes.len(), PosixInfo::FIXED_LEN + 32);
        for (at, value) in [(0, 1), (8, 2), (16, 3), (24, 4), (32, 5), (40, 6), (48, 0x10), (52, 7), (60, 8), (68, 2)] {
            assert_eq!(bytes[at], value, "{at}");
        }
        assert_eq!(bytes[68..], info().create_context());
        let entry = info().entry(b"q\0");
        assert_eq!(entry[..8], [0; 8]);
        assert_eq!(entry[8..8 + bytes.len()], bytes);
        assert_eq!(entry[8 + bytes.len()..], *b"\x02\0\0\0q\0");
    }
}
