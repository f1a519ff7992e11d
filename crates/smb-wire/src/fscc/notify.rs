//! What a watched directory tells: completion filters (MS-SMB2 2.2.35) and FILE_NOTIFY_INFORMATION (MS-FSCC 2.7.1).

use bitflags::bitflags;

use crate::codec::{Put, Reader, Truncated};

bitflags! {
    /// Changes of interest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NotifyFilter: u32 {
        /// A file's name came, went or changed.
        const FILE_NAME = 0x1;
        /// A directory's name came, went or changed.
        const DIR_NAME = 0x2;
        /// Attributes.
        const ATTRIBUTES = 0x4;
        /// Length.
        const SIZE = 0x8;
        /// Time of the last write.
        const LAST_WRITE = 0x10;
        /// Time of the last access.
        const LAST_ACCESS = 0x20;
        /// Time of creation.
        const CREATION = 0x40;
        /// Extended attributes.
        const EA = 0x80;
        /// The security descriptor.
        const SECURITY = 0x100;
        /// A named stream's name came, went or changed.
        const STREAM_NAME = 0x200;
        /// A named stream's length.
        const STREAM_SIZE = 0x400;
        /// A named stream's data.
        const STREAM_WRITE = 0x800;
        /// Unknown bits are kept.
        const _ = !0;
    }
}

/// What happened to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NotifyAction {
    /// It came.
    Added = 1,
    /// It went.
    Removed = 2,
    /// It changed.
    Modified = 3,
    /// It was renamed; this was its name.
    RenamedOldName = 4,
    /// It was renamed; this is its name.
    RenamedNewName = 5,
    /// A stream came.
    AddedStream = 6,
    /// A stream went.
    RemovedStream = 7,
    /// A stream changed.
    ModifiedStream = 8,
}

/// Length of an entry before its name.
const FIXED_BYTES: usize = 12;

/// How many bytes one entry takes that another may follow.
pub fn notify_entry_bytes(name_utf16: &[u8]) -> usize {
    FIXED_BYTES + name_utf16.len().next_multiple_of(4)
}

/// Appends the entries, each an action and a name relative to the directory, with backslashes, in UTF-16LE.
pub fn put_notify_entries(entries: &[(NotifyAction, Vec<u8>)], out: &mut (impl Put + ?Sized)) {
    let last = entries.len().saturating_sub(1);
    for (index, (action, name)) in entries.iter().enumerate() {
        let len = notify_entry_bytes(name);
        out.put_u32(if index == last { 0 } else { len as u32 });
        out.put_u32(*action as u32);
        out.put_u32(name.len() as u32);
        out.put_bytes(name);
        if index != last {
            out.put_zeros(len - FIXED_BYTES - name.len());
        }
    }
}

/// Reads entries: the number of each one's action, and its name.
pub fn notify_entries(mut bytes: &[u8]) -> Result<Vec<(u32, &[u8])>, Truncated> {
    let mut entries = Vec::new();
    loop {
        let mut r = Reader::new(bytes);
        let (next, action, len) = (r.u32()? as usize, r.u32()?, r.u32()? as usize);
        entries.push((action, r.bytes(len)?));
        if next == 0 {
            return Ok(entries);
        }
        bytes = bytes.get(next.max(FIXED_BYTES)..).ok_or(Truncated)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_the_last_ends_with_its_name() {
        let entries =
            [(NotifyAction::RenamedOldName, b"a\0".to_vec()), (NotifyAction::RenamedNewName, b"b\0c\0d\0".to_vec())];
        let mut out = Vec::new();
        put_notify_entries(&entries, &mut out);
        let want = [
            &[16, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, b'a', 0, 0, 0][..],
            &[0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, b'b', 0, b'c', 0, b'd', 0],
        ];
        assert_eq!(out, want.concat());
        assert_eq!(notify_entries(&out), Ok(vec![(4, &b"a\0"[..]), (5, b"b\0c\0d\0")]));
        for len in 0..out.len() {
            assert!(notify_entries(&out[..len]).is_err(), "{len}");
        }
        assert_eq!(notify_entry_bytes(b"b\0c\0d\0"), 20);
    }
}
