//! The little-endian reader and writers every codec of this crate is built on. Nothing here knows a message: it knows
//! bounds. A reader never goes past its bytes and a writer never past its room; neither panics.

/// The message ends before its field does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncated;

impl std::fmt::Display for Truncated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the message ends before its field does")
    }
}

impl std::error::Error for Truncated {}

/// Takes little-endian fields from the front of some bytes.
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

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next 2 bytes as a number.
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next 4 bytes as a number.
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next 8 bytes as a number.
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_le_bytes)
    }

    /// The next 16 bytes as a number.
    pub fn u128(&mut self) -> Result<u128, Truncated> {
        self.array().map(u128::from_le_bytes)
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        let end = self.at.checked_add(n).ok_or(Truncated)?;
        let taken = self.bytes.get(self.at..end).ok_or(Truncated)?;
        self.at = end;
        Ok(taken)
    }

    /// The next `N` bytes by value.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        self.bytes(N)?.try_into().map_err(|_| Truncated)
    }

    /// Passes over `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<(), Truncated> {
        self.bytes(n).map(|_| ())
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

    /// Passes over padding up to the next multiple of `n`, counted from the first byte. An `n` of 0 is no alignment.
    pub fn align(&mut self, n: usize) -> Result<(), Truncated> {
        self.skip(padding(self.at, n))
    }
}

/// The bytes missing from `at` to the next multiple of `n`; 0 when `n` is 0.
pub fn padding(at: usize, n: usize) -> usize {
    match at.checked_rem(n) {
        None | Some(0) => 0,
        Some(over) => n - over,
    }
}

/// Somewhere little-endian fields can be appended. Offsets count from the start of the whole target, which for a `Vec`
/// that already holds something includes what it holds.
pub trait Put {
    /// Appends bytes.
    fn put_bytes(&mut self, bytes: &[u8]);

    /// Appends `n` zero bytes.
    fn put_zeros(&mut self, n: usize);

    /// How many bytes the target holds; for a bounded one this includes bytes that found no room.
    fn len(&self) -> usize;

    /// Overwrites what is already there at `at`; what lies outside is not written.
    fn patch_bytes(&mut self, at: usize, bytes: &[u8]);

    /// Whether nothing was written yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a byte.
    fn put_u8(&mut self, value: u8) {
        self.put_bytes(&[value]);
    }

    /// Appends 2 bytes.
    fn put_u16(&mut self, value: u16) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Appends 4 bytes.
    fn put_u32(&mut self, value: u32) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Appends 8 bytes.
    fn put_u64(&mut self, value: u64) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Appends 16 bytes.
    fn put_u128(&mut self, value: u128) {
        self.put_bytes(&value.to_le_bytes());
    }

    /// Appends zeros up to the next multiple of `n`.
    fn put_align(&mut self, n: usize) {
        self.put_zeros(padding(self.len(), n));
    }

    /// Overwrites the 2 bytes at `at`.
    fn patch_u16(&mut self, at: usize, value: u16) {
        self.patch_bytes(at, &value.to_le_bytes());
    }

    /// Overwrites the 4 bytes at `at`.
    fn patch_u32(&mut self, at: usize, value: u32) {
        self.patch_bytes(at, &value.to_le_bytes());
    }
}

impl Put for Vec<u8> {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn put_zeros(&mut self, n: usize) {
        self.resize(Vec::len(self).saturating_add(n), 0);
    }

    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn patch_bytes(&mut self, at: usize, bytes: &[u8]) {
        patch(self, at, bytes);
    }
}

/// Writes into bytes someone else owns. What does not fit is counted, not written: [`Put::len`] says what would have
/// been needed and [`SliceWriter::overflowed`] that it did not fit.
#[derive(Debug)]
pub struct SliceWriter<'a> {
    room: &'a mut [u8],
    at: usize,
}

impl<'a> SliceWriter<'a> {
    /// A writer at the first byte of `room`.
    pub fn new(room: &'a mut [u8]) -> Self {
        Self { room, at: 0 }
    }

    /// Whether something did not fit.
    pub fn overflowed(&self) -> bool {
        self.at > self.room.len()
    }

    /// The bytes that were written and fitted, all of them even where a field was cut in two.
    pub fn written(&self) -> &[u8] {
        self.room.get(..self.at).unwrap_or(self.room)
    }

    /// The bytes still free.
    pub fn available(&self) -> usize {
        self.room.len().saturating_sub(self.at)
    }

    /// The free room at the present position, at most `n` bytes of it, and moves past `n`.
    fn take(&mut self, n: usize) -> &mut [u8] {
        let start = self.at.min(self.room.len());
        self.at = self.at.saturating_add(n);
        let end = self.at.min(self.room.len());
        self.room.get_mut(start..end).unwrap_or_default()
    }
}

impl Put for SliceWriter<'_> {
    fn put_bytes(&mut self, bytes: &[u8]) {
        let room = self.take(bytes.len());
        if let Some(part) = bytes.get(..room.len()) {
            room.copy_from_slice(part);
        }
    }

    fn put_zeros(&mut self, n: usize) {
        self.take(n).fill(0);
    }

    fn len(&self) -> usize {
        self.at
    }

    fn patch_bytes(&mut self, at: usize, bytes: &[u8]) {
        patch(self.room, at, bytes);
    }
}

fn patch(target: &mut [u8], at: usize, bytes: &[u8]) {
    let end = at.saturating_add(bytes.len());
    if let Some(room) = target.get_mut(at..end) {
        room.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_out_little_endian() {
        let bytes: Vec<u8> = (1..=31).collect();
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u8(), Ok(0x01));
        assert_eq!(r.u16(), Ok(0x0302));
        assert_eq!(r.u32(), Ok(0x0706_0504));
        assert_eq!(r.u64(), Ok(0x0f0e_0d0c_0b0a_0908));
        assert_eq!(r.u128(), Ok(0x1f1e_1d1c_1b1a_1918_1716_1514_1312_1110));
        assert_eq!(r.remaining(), 0);
        assert_eq!(r.u8(), Err(Truncated));
    }

    #[test]
    fn a_short_read_takes_nothing() {
        let mut r = Reader::new(&[1, 2, 3]);
        assert_eq!(r.u32(), Err(Truncated));
        assert_eq!(r.bytes(usize::MAX), Err(Truncated));
        assert_eq!(r.position(), 0);
        assert_eq!(r.array::<2>(), Ok([1, 2]));
        assert_eq!(r.bytes(usize::MAX), Err(Truncated));
        assert_eq!(r.rest(), &[3]);
        assert_eq!(r.rest(), &[] as &[u8]);
    }

    #[test]
    fn alignment_counts_from_the_start() {
        let mut r = Reader::new(&[0; 9]);
        r.align(8).unwrap();
        assert_eq!(r.position(), 0);
        r.skip(1).unwrap();
        r.align(0).unwrap();
        assert_eq!(r.position(), 1);
        r.align(8).unwrap();
        assert_eq!(r.position(), 8);
        r.skip(1).unwrap();
        assert_eq!(r.align(8), Err(Truncated));
    }

    fn fields(out: &mut dyn Put) {
        out.put_u8(1);
        out.put_align(4);
        out.put_u16(0x0203);
        out.put_u32(0x0405_0607);
        out.put_u64(8);
        out.put_bytes(b"ab");
        out.patch_u16(4, 0xffff);
        out.patch_u32(usize::MAX, 0xffff_ffff);
    }

    #[test]
    fn a_vec_and_a_slice_hold_the_same() {
        let mut vec = Vec::new();
        fields(&mut vec);
        assert_eq!(vec, b"\x01\0\0\0\xff\xff\x07\x06\x05\x04\x08\0\0\0\0\0\0\0ab");
        for room in 0..vec.len() + 4 {
            let mut slice = vec![0xee; room];
            let mut out = SliceWriter::new(&mut slice);
            fields(&mut out);
            assert_eq!(out.len(), vec.len());
            assert_eq!(out.overflowed(), room < vec.len(), "{room}");
            if room >= vec.len() {
                assert_eq!(out.written(), vec);
            }
            assert_eq!(out.available(), room.saturating_sub(vec.len()));
        }
    }
}
