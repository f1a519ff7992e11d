//! Where XDR items are appended to: a `Vec`, some bytes of a fixed size, or a pooled buffer of the caller's that
//! implements [`Put`]. Lengths and counts that are known only later are reserved and patched, so that the data of a
//! READ are put in place once. No writer here panics or allocates beyond what it is given.

use super::pad_bytes;

/// Somewhere big-endian items can be appended. Offsets count from the start of the whole target, which for a `Vec` that
/// already holds something includes what it holds.
pub trait Put {
    /// Appends bytes as they are.
    fn put_bytes(&mut self, bytes: &[u8]);

    /// Appends `n` zero bytes.
    fn put_zeros(&mut self, n: usize);

    /// How many bytes the target holds; for a bounded one this includes bytes that found no room.
    fn len(&self) -> usize;

    /// Overwrites what is already there at `at`; what lies outside is not written.
    fn patch_bytes(&mut self, at: usize, bytes: &[u8]);

    /// Takes back everything from `len` on; nothing when the target is no longer than that.
    fn truncate(&mut self, len: usize);

    /// Whether nothing was written yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends an unsigned integer.
    fn put_u32(&mut self, value: u32) {
        self.put_bytes(&value.to_be_bytes());
    }

    /// Appends an integer.
    fn put_i32(&mut self, value: i32) {
        self.put_bytes(&value.to_be_bytes());
    }

    /// Appends an unsigned hyper.
    fn put_u64(&mut self, value: u64) {
        self.put_bytes(&value.to_be_bytes());
    }

    /// Appends a hyper.
    fn put_i64(&mut self, value: i64) {
        self.put_bytes(&value.to_be_bytes());
    }

    /// Appends a boolean.
    fn put_bool(&mut self, value: bool) {
        self.put_u32(u32::from(value));
    }

    /// Appends opaque data of a fixed length with their padding.
    fn put_fixed(&mut self, bytes: &[u8]) {
        self.put_bytes(bytes);
        self.put_zeros(pad_bytes(bytes.len()));
    }

    /// Appends opaque data or a string: length, bytes, padding.
    fn put_opaque(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.put_fixed(bytes);
    }

    /// Overwrites the word at `at`.
    fn patch_u32(&mut self, at: usize, value: u32) {
        self.patch_bytes(at, &value.to_be_bytes());
    }

    /// Reserves a word to be patched; answers its offset.
    fn reserve_u32(&mut self) -> usize {
        let at = self.len();
        self.put_u32(0);
        at
    }

    /// Begins opaque data whose length is not known yet. The data are appended by any means, then
    /// [`Self::end_opaque`] writes the length and the padding.
    fn begin_opaque(&mut self) -> OpaqueMark {
        OpaqueMark { length_at: self.reserve_u32() }
    }

    /// Ends what [`Self::begin_opaque`] began: the length becomes what was appended since. Answers it.
    fn end_opaque(&mut self, mark: OpaqueMark) -> usize {
        let len = self.len().saturating_sub(mark.data_at());
        self.patch_u32(mark.length_at, len as u32);
        self.put_zeros(pad_bytes(len));
        len
    }
}

/// Opaque data that were begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct OpaqueMark {
    length_at: usize,
}

impl OpaqueMark {
    /// Where the data begin.
    pub fn data_at(self) -> usize {
        self.length_at + 4
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

    fn truncate(&mut self, len: usize) {
        Vec::truncate(self, len);
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

    /// The bytes that were written and fitted.
    pub fn written(&self) -> &[u8] {
        self.room.get(..self.at).unwrap_or(self.room)
    }

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

    fn truncate(&mut self, len: usize) {
        self.at = self.at.min(len);
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

    fn items(out: &mut dyn Put) {
        out.put_u32(0x0102_0304);
        out.put_i32(-2);
        out.put_u64(5);
        out.put_i64(-1);
        out.put_bool(true);
        out.put_opaque(b"abcde");
        let mark = out.begin_opaque();
        out.put_bytes(b"later");
        assert_eq!(out.end_opaque(mark), 5);
        out.put_u32(7);
        out.truncate(out.len() - 4);
        out.patch_u32(usize::MAX, 1);
    }

    const ITEMS: &[u8] =
        b"\x01\x02\x03\x04\xff\xff\xff\xfe\0\0\0\0\0\0\0\x05\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x01\
        \0\0\0\x05abcde\0\0\0\0\0\0\x05later\0\0\0";

    #[test]
    fn a_vec_and_a_slice_hold_the_same() {
        let mut vec = Vec::new();
        items(&mut vec);
        assert_eq!(vec, ITEMS);
        for room in 0..vec.len() + 8 {
            let mut slice = vec![0xee; room];
            let mut out = SliceWriter::new(&mut slice);
            items(&mut out);
            assert_eq!(out.len(), vec.len());
            assert_eq!(out.overflowed(), room < vec.len(), "{room}");
            if room >= vec.len() {
                assert_eq!(out.written(), vec);
            }
        }
    }

    #[test]
    fn opaque_data_without_a_byte_have_no_padding() {
        let mut out = vec![9];
        let mark = out.begin_opaque();
        assert_eq!(mark.data_at(), 5);
        assert_eq!(out.end_opaque(mark), 0);
        assert_eq!(out, [9, 0, 0, 0, 0]);
    }
}
