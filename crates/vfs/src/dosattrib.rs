//! The `user.DOSATTRIB` extended attribute: DOS attributes and the creation time, as Samba and ksmbd keep them, so that
//! a share can change servers in place. Pure bytes; a backend or server reads and writes the attribute itself.
//!
//! The form is NDR (Samba's `librpc/idl/xattr.idl`, `xattr_DOSATTRIB`): a zero-ended string, the attributes in hex up to
//! version 3 and empty since; the version as 2 bytes on 2; the version again as the union's discriminant; then the
//! version's fields on 4. Before there were versions the string was all there was.

/// The attribute's name.
pub const XATTR_NAME: &str = "user.DOSATTRIB";

/// What the attribute says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DosAttrib {
    /// FILE_ATTRIBUTE_* bits.
    pub attributes: Option<u32>,
    /// When the file was made, in 100 ns since 1601.
    pub create_time: Option<u64>,
}

/// Why bytes are no DOSATTRIB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DosAttribError {
    /// They end too soon, or the string does not end.
    Truncated,
    /// A version nobody knows yet.
    UnknownVersion(u16),
    /// The version and the discriminant differ, or the string is no number.
    Malformed,
}

const VALID_ATTRIB: u32 = 0x01;
const VALID_CREATE_TIME: u32 = 0x10;

impl DosAttrib {
    /// Reads all versions there have been.
    pub fn decode(bytes: &[u8]) -> Result<Self, DosAttribError> {
        let end = bytes.iter().position(|&b| b == 0);
        let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        // The oldest form, with or without its zero.
        if rest.len() <= 1 && !text.is_empty() {
            return Ok(Self { attributes: Some(parse_hex(text)?), create_time: None });
        }
        let mut from = Ndr { bytes, at: text.len() + 1 };
        from.align(2);
        let version = from.u16()?;
        if from.u16()? != version {
            return Err(DosAttribError::Malformed);
        }
        from.align(4);
        match version {
            1 => from.info_1(),
            2 => {
                from.u32()?;
                from.info_1()
            }
            3 => from.info_3(),
            4 => from.info_4(),
            5 => from.info_5(),
            _ => Err(DosAttribError::UnknownVersion(version)),
        }
    }

    /// Writes version 5, the one Samba writes since 4.17.
    pub fn encode(&self) -> Vec<u8> {
        let valid = self.attributes.map_or(0, |_| VALID_ATTRIB) | self.create_time.map_or(0, |_| VALID_CREATE_TIME);
        let mut out = vec![0, 0, 5, 0, 5, 0, 0, 0];
        out.extend_from_slice(&valid.to_le_bytes());
        out.extend_from_slice(&self.attributes.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&self.create_time.unwrap_or(0).to_le_bytes());
        out
    }

    fn valid(flags: u32, attributes: u32, create_time: u64) -> Self {
        Self {
            attributes: (flags & VALID_ATTRIB != 0).then_some(attributes),
            create_time: (flags & VALID_CREATE_TIME != 0).then_some(create_time),
        }
    }
}

/// A cursor with NDR's alignment from the first byte.
struct Ndr<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Ndr<'_> {
    /// attrib, ea_size, size, alloc_size, create_time, change_time. A zero time is none.
    fn info_1(&mut self) -> Result<DosAttrib, DosAttribError> {
        let attributes = self.u32()?;
        self.at += 4 + 8 + 8;
        let create_time = self.u64()?;
        self.u64()?;
        Ok(DosAttrib { attributes: Some(attributes), create_time: (create_time != 0).then_some(create_time) })
    }

    /// valid_flags, attrib, ea_size, size, alloc_size, create_time, change_time.
    fn info_3(&mut self) -> Result<DosAttrib, DosAttribError> {
        let (flags, attributes) = (self.u32()?, self.u32()?);
        self.at += 4 + 8 + 8;
        let create_time = self.u64()?;
        self.u64()?;
        Ok(DosAttrib::valid(flags, attributes, create_time))
    }

    /// valid_flags, attrib, itime, create_time.
    fn info_4(&mut self) -> Result<DosAttrib, DosAttribError> {
        let (flags, attributes) = (self.u32()?, self.u32()?);
        self.u64()?;
        Ok(DosAttrib::valid(flags, attributes, self.u64()?))
    }

    /// valid_flags, attrib, create_time.
    fn info_5(&mut self) -> Result<DosAttrib, DosAttribError> {
        Ok(DosAttrib::valid(self.u32()?, self.u32()?, self.u64()?))
    }

    fn align(&mut self, n: usize) {
        self.at = self.at.next_multiple_of(n);
    }

    fn u16(&mut self) -> Result<u16, DosAttribError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, DosAttribError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, DosAttribError> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DosAttribError> {
        let taken = self.bytes.get(self.at..self.at + N).and_then(|taken| taken.try_into().ok());
        self.at += N;
        taken.ok_or(DosAttribError::Truncated)
    }
}

/// `0x22`, as the oldest form wrote it.
fn parse_hex(text: &[u8]) -> Result<u32, DosAttribError> {
    let text = std::str::from_utf8(text).map_err(|_| DosAttribError::Malformed)?;
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).ok_or(DosAttribError::Malformed)?;
    match digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        true => u32::from_str_radix(digits, 16).map_err(|_| DosAttribError::Malformed),
        false => Err(DosAttribError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANT: DosAttrib = DosAttrib { attributes: Some(0x22), create_time: Some(0x01d9_0000_1122_3344) };

    /// Written by Samba 4's own NDR code for attrib 0x22 and that time; every other field has a value of its own.
    const BY_SAMBA: [&str; 5] = [
        "30783232000001000100000022000000010000000200000000000000030000000000000044332211\
         0000d901453322110000d901",
        "307832320000020002000000010000002200000001000000020000000000000003000000000000004433221\
         10000d901453322110000d901463322110000d9016e00",
        "3078323200000300030000001100000022000000010000000200000000000000030000000000000044332211\
         0000d901453322110000d901",
        "00000400040000007100000022000000493322110000d901443322110000d901",
        "00000500050000001100000022000000443322110000d901",
    ];

    fn hex(text: &str) -> Vec<u8> {
        text.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn every_version_is_read() {
        for text in BY_SAMBA {
            assert_eq!(DosAttrib::decode(&hex(text)), Ok(WANT), "{text}");
        }
    }

    #[test]
    fn version_5_is_written() {
        assert_eq!(WANT.encode(), hex(BY_SAMBA[4]));
        for attrib in [
            DosAttrib::default(),
            DosAttrib { attributes: Some(0), create_time: None },
            DosAttrib { attributes: None, create_time: Some(7) },
        ] {
            assert_eq!(DosAttrib::decode(&attrib.encode()), Ok(attrib));
        }
    }

    #[test]
    fn the_oldest_form_is_a_number() {
        let want = DosAttrib { attributes: Some(0x22), create_time: None };
        assert_eq!(DosAttrib::decode(b"0x22"), Ok(want));
        assert_eq!(DosAttrib::decode(b"0x22\0"), Ok(want));
        for bad in [&b"22"[..], b"0x", b"0xg", b"0x123456789", b"0x+1", b"\xff"] {
            assert_eq!(DosAttrib::decode(bad), Err(DosAttribError::Malformed), "{bad:?}");
        }
    }

    #[test]
    fn what_is_cut_is_an_error() {
        for (version, text) in (1..).zip(BY_SAMBA) {
            let bytes = hex(text);
            // Versions 1 to 3 begin with the oldest form. Version 2 has fields at its end that nobody reads.
            let (start, end) = (if version < 4 { 6 } else { 0 }, bytes.len() - if version == 2 { 10 } else { 0 });
            for len in start..end {
                assert_eq!(DosAttrib::decode(&bytes[..len]), Err(DosAttribError::Truncated), "{version} {len}");
            }
        }
    }

    #[test]
    fn a_version_to_come_is_said_to_be_one() {
        let mut bytes = hex(BY_SAMBA[4]);
        (bytes[2], bytes[4]) = (6, 6);
        assert_eq!(DosAttrib::decode(&bytes), Err(DosAttribError::UnknownVersion(6)));
        bytes[4] = 5;
        assert_eq!(DosAttrib::decode(&bytes), Err(DosAttribError::Malformed));
    }
}
