//! Symbolic links as reparse points (MS-FSCC 2.1.2.4) and as the error that stops on one (MS-SMB2 2.2.2.2.1).

use super::reparse_tag::{NFS, SYMLINK};
use crate::codec::{Put, Reader, Truncated};

/// SYMLINK_FLAG_RELATIVE.
const RELATIVE: u32 = 1;
/// "SYML".
const ERROR_TAG: u32 = 0x4c4d_5953;

/// What is neither file, directory nor link, as NFS servers tell (MS-FSCC 2.1.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NfsReparse {
    Fifo,
    Socket,
    CharDevice { major: u32, minor: u32 },
    BlockDevice { major: u32, minor: u32 },
}

impl NfsReparse {
    /// Appends the reparse data buffer.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (kind, device) = match *self {
            Self::Fifo => (b"FIFO\0\0\0\0", None),
            Self::Socket => (b"SOCK\0\0\0\0", None),
            Self::CharDevice { major, minor } => (b"CHR\0\0\0\0\0", Some((major, minor))),
            Self::BlockDevice { major, minor } => (b"BLK\0\0\0\0\0", Some((major, minor))),
        };
        out.put_u32(NFS);
        out.put_u16(if device.is_some() { 16 } else { 8 });
        out.put_u16(0);
        out.put_bytes(kind);
        if let Some((major, minor)) = device {
            out.put_u32(major);
            out.put_u32(minor);
        }
    }
}

/// A symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymlinkReparse<'a> {
    /// Where it leads, UTF-16LE, with backslashes.
    pub target: &'a [u8],
    /// Whether that is relative to the directory the link is in.
    pub relative: bool,
}

/// Why a buffer is no symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReparseError {
    /// It is too short for what it says.
    Truncated,
    /// Its tag is this.
    OtherTag(u32),
}

impl From<Truncated> for ReparseError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl<'a> SymlinkReparse<'a> {
    /// Reads a reparse data buffer.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ReparseError> {
        let mut r = Reader::new(bytes);
        let (tag, len) = (r.u32()?, r.u16()?);
        r.skip(2)?;
        if tag != SYMLINK {
            return Err(ReparseError::OtherTag(tag));
        }
        let mut r = Reader::new(r.bytes(usize::from(len))?);
        let (at, len) = (usize::from(r.u16()?), usize::from(r.u16()?));
        r.skip(4)?; // the name for people
        let relative = r.u32()? & RELATIVE != 0;
        let names = r.bytes(r.remaining())?;
        let target = names.get(at..at + len).filter(|t| t.len() % 2 == 0).ok_or(Truncated)?;
        Ok(Self { target, relative })
    }

    /// Appends a reparse data buffer.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(SYMLINK);
        out.put_u16(self.data_bytes());
        out.put_u16(0);
        self.put_names(out);
    }

    /// Appends the error data of STATUS_STOPPED_ON_SYMLINK; `unparsed_bytes` of the path followed the link.
    pub fn put_error(&self, unparsed_bytes: u16, out: &mut (impl Put + ?Sized)) {
        out.put_u32(12 + u32::from(self.data_bytes()));
        out.put_u32(ERROR_TAG);
        out.put_u32(SYMLINK);
        out.put_u16(self.data_bytes());
        out.put_u16(unparsed_bytes);
        self.put_names(out);
    }

    fn data_bytes(&self) -> u16 {
        (12 + 2 * self.target.len()) as u16
    }

    /// The target twice: as it is followed and as people see it.
    fn put_names(&self, out: &mut (impl Put + ?Sized)) {
        let len = self.target.len() as u16;
        out.put_u16(0);
        out.put_u16(len);
        out.put_u16(len);
        out.put_u16(len);
        out.put_u32(if self.relative { RELATIVE } else { 0 });
        out.put_bytes(self.target);
        out.put_bytes(self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_byte_for_byte() {
        let mut out = Vec::new();
        NfsReparse::CharDevice { major: 1, minor: 3 }.put(&mut out);
        assert_eq!(out, b"\x14\0\0\x80\x10\0\0\0CHR\0\0\0\0\0\x01\0\0\0\x03\0\0\0");
        out.clear();
        NfsReparse::Fifo.put(&mut out);
        assert_eq!(out, b"\x14\0\0\x80\x08\0\0\0FIFO\0\0\0\0");
    }

    const LINK: SymlinkReparse<'static> = SymlinkReparse { target: b"a\0", relative: true };
    const BYTES: [u8; 24] = [0x0c, 0, 0, 0xa0, 16, 0, 0, 0, 0, 0, 2, 0, 2, 0, 2, 0, 1, 0, 0, 0, b'a', 0, b'a', 0];

    #[test]
    fn links_are_written_and_read() {
        let mut out = Vec::new();
        LINK.put(&mut out);
        assert_eq!(out, BYTES);
        assert_eq!(SymlinkReparse::decode(&BYTES), Ok(LINK));
        for len in 0..BYTES.len() {
            assert_eq!(SymlinkReparse::decode(&BYTES[..len]), Err(ReparseError::Truncated), "{len}");
        }
        let mut other = BYTES;
        other[0] = 3;
        assert_eq!(SymlinkReparse::decode(&other), Err(ReparseError::OtherTag(0xa000_0003)));
        let mut beyond = BYTES;
        beyond[8] = 4;
        assert_eq!(SymlinkReparse::decode(&beyond), Err(ReparseError::Truncated));
    }

    #[test]
    fn the_error_says_what_was_left() {
        let mut out = Vec::new();
        LINK.put_error(6, &mut out);
        let head = [28, 0, 0, 0, b'S', b'Y', b'M', b'L', 0x0c, 0, 0, 0xa0, 16, 0, 6, 0];
        assert_eq!(out, [&head[..], &BYTES[8..]].concat());
        assert_eq!(out.len(), 4 + 28);
    }
}
