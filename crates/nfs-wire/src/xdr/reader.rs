//! Takes XDR items from the front of some bytes (RFC 4506 4). Called by every decoder; it never reads past its end,
//! never allocates, and looks at no padding byte's value (RFC 4506 says zero, peers do not all obey).

use super::{Malformed, pad_bytes};

/// A position in some bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// An unsigned integer (4.2).
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// An integer (4.1).
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    /// An unsigned hyper (4.5).
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A hyper (4.5).
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// A boolean (4.4), which is 0 or 1 and nothing else.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Value("bool")),
        }
    }

    /// Opaque data of a fixed length (4.9) with its padding.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.array()?;
        self.skip(pad_bytes(N))?;
        Ok(bytes)
    }

    /// Opaque data of at most `max_bytes` (4.10) with their padding. Strings (4.11) are the same on the wire.
    pub fn opaque(&mut self, max_bytes: usize) -> Result<&'a [u8], Malformed> {
        let len = self.u32()? as usize;
        if len > max_bytes {
            return Err(Malformed::TooLong);
        }
        let bytes = self.raw(len)?;
        self.skip(pad_bytes(len))?;
        Ok(bytes)
    }

    /// The number of an array's elements (4.13), refused when so many of `element_bytes` at the least cannot follow.
    pub fn count(&mut self, max: usize, element_bytes: usize) -> Result<usize, Malformed> {
        let count = self.u32()? as usize;
        if count > max {
            return Err(Malformed::TooLong);
        }
        match count.checked_mul(element_bytes) {
            Some(needed) if needed <= self.remaining() => Ok(count),
            _ => Err(Malformed::Truncated),
        }
    }

    /// The next `n` bytes as they are.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(n).ok_or(Malformed::Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed::Truncated)?;
        self.at = end;
        Ok(taken)
    }

    /// Passes over `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<(), Malformed> {
        self.raw(n).map(|_| ())
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// How many bytes were taken.
    pub fn position(&self) -> usize {
        self.at
    }

    /// All that is left; the reader is then at the end.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    /// What was taken since the reader was at `position`.
    pub fn since(&self, position: usize) -> &'a [u8] {
        self.bytes.get(position..self.at).unwrap_or_default()
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.raw(N)?.try_into().map_err(|_| Malformed::Truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_big_endian() {
        let bytes: Vec<u8> = (1..=24).collect();
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u32(), Ok(0x0102_0304));
        assert_eq!(r.i32(), Ok(0x0506_0708));
        assert_eq!(r.u64(), Ok(0x090a_0b0c_0d0e_0f10));
        assert_eq!(r.i64(), Ok(0x1112_1314_1516_1718));
        assert_eq!(r.u32(), Err(Malformed::Truncated));
        assert_eq!(Reader::new(&[0xff; 4]).i32(), Ok(-1));
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        let mut r = Reader::new(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!((r.bool(), r.bool()), (Ok(false), Ok(true)));
        assert_eq!(r.bool(), Err(Malformed::Value("bool")));
    }

    #[test]
    fn opaque_data_bring_their_padding_whatever_it_holds() {
        let mut r = Reader::new(b"\0\0\0\x05hello\xff\xff\xff\0\0\0\x09");
        assert_eq!(r.opaque(5), Ok(&b"hello"[..]));
        assert_eq!(r.u32(), Ok(9));
        assert_eq!(Reader::new(b"\0\0\0\x05hello\0\0\0").opaque(4), Err(Malformed::TooLong));
        assert_eq!(Reader::new(b"\0\0\0\x05hello\0\0").opaque(5), Err(Malformed::Truncated));
        assert_eq!(Reader::new(b"\xff\xff\xff\xff").opaque(usize::MAX), Err(Malformed::Truncated));
        assert_eq!(Reader::new(b"abc\0\0\0\0\x01").fixed(), Ok(*b"abc"));
    }

    #[test]
    fn a_count_is_believed_only_as_far_as_bytes_follow() {
        let bytes = [0x40, 0, 0, 0, 1, 2, 3, 4];
        assert_eq!(Reader::new(&bytes).count(usize::MAX, 4), Err(Malformed::Truncated));
        assert_eq!(Reader::new(&bytes).count(16, 4), Err(Malformed::TooLong));
        assert_eq!(Reader::new(&[0, 0, 0, 1, 1, 2, 3, 4]).count(16, 4), Ok(1));
        assert_eq!(Reader::new(&[0xff; 8]).count(usize::MAX, usize::MAX), Err(Malformed::Truncated));
    }
}
