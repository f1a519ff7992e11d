//! Record marking (RFC 5531 11): a record is one or more fragments, each behind a word with its length and whether it
//! is the last. [`Records`] is fed whatever the stream brought and gives whole records; one that lies in the input in
//! one fragment is not copied. What is held is bounded by what was received, and refused before it passes the limit.

use std::ops::Deref;

use crate::xdr::Put;

const LAST: u32 = 0x8000_0000;

/// How many fragments without a byte one record may have. A peer that sends more means no record.
const MAX_EMPTY_FRAGMENTS: u32 = 1024;

/// The word before a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FragmentHeader {
    /// Whether the record ends with this fragment.
    pub last: bool,
    /// Bytes in the fragment, below 2^31.
    pub len_bytes: u32,
}

impl FragmentHeader {
    /// Takes the word apart.
    pub fn from_bytes(bytes: [u8; 4]) -> Self {
        let word = u32::from_be_bytes(bytes);
        Self { last: word & LAST != 0, len_bytes: word & !LAST }
    }

    /// The word.
    pub fn to_bytes(self) -> [u8; 4] {
        let last = if self.last { LAST } else { 0 };
        (self.len_bytes & !LAST | last).to_be_bytes()
    }
}

/// A record to be sent that was begun and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct RecordMark {
    at: usize,
}

/// Reserves the record mark; the message is appended behind it.
pub fn begin_record(out: &mut (impl Put + ?Sized)) -> RecordMark {
    RecordMark { at: out.reserve_u32() }
}

/// Writes the record mark: the record is what was appended since, and `more_bytes` that the caller sends right behind
/// it by other means (file pages and their padding).
pub fn end_record(mark: RecordMark, more_bytes: usize, out: &mut (impl Put + ?Sized)) {
    let len = out.len().saturating_sub(mark.at + 4).saturating_add(more_bytes);
    out.patch_bytes(mark.at, &FragmentHeader { last: true, len_bytes: len as u32 }.to_bytes());
}

/// A whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record<'a> {
    /// It lay whole in the input.
    Borrowed(&'a [u8]),
    /// It was put together.
    Owned(Vec<u8>),
}

impl Deref for Record<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

/// Why a stream is no longer of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// The record is longer than the limit; this much was announced.
    TooLong {
        /// Bytes so far and those of the fragment that was announced.
        announced_bytes: u64,
    },
    /// The record has a great many fragments without a byte.
    TooManyFragments,
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong { announced_bytes } => write!(f, "a record of at least {announced_bytes} bytes is too long"),
            Self::TooManyFragments => f.write_str("a record is cut into too many empty fragments"),
        }
    }
}

impl std::error::Error for RecordError {}

/// Puts records together from a stream.
#[derive(Debug)]
pub struct Records {
    limit_bytes: usize,
    /// What is there of the present record.
    held: Vec<u8>,
    /// What is there of the word before a fragment.
    mark: [u8; 4],
    mark_len: usize,
    /// The fragment that is being received: its bytes still missing, and whether it is the last.
    fragment: Option<(usize, bool)>,
    /// Whether an earlier fragment of the present record is complete.
    begun: bool,
    empty_fragments: u32,
}

impl Records {
    /// A machine for records of at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            held: Vec::new(),
            mark: [0; 4],
            mark_len: 0,
            fragment: None,
            begun: false,
            empty_fragments: 0,
        }
    }

    /// Takes from the front of `input` what belongs to the next record. `None` means that `input` is used up. After an
    /// error the stream cannot be followed any further.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Record<'a>>, RecordError> {
        if self.is_between_records()
            && let Some(whole) = self.whole_in(input)
        {
            return Ok(Some(Record::Borrowed(whole)));
        }
        loop {
            let Some((missing, last)) = self.fragment else {
                if !self.take_mark(input)? {
                    return Ok(None);
                }
                continue;
            };
            let taken = take(input, missing);
            self.held.extend_from_slice(taken);
            let missing = missing - taken.len();
            if missing > 0 {
                self.fragment = Some((missing, last));
                return Ok(None);
            }
            self.fragment = None;
            self.begun = !last;
            if last {
                self.empty_fragments = 0;
                return Ok(Some(Record::Owned(std::mem::take(&mut self.held))));
            }
        }
    }

    /// Whether nothing of a record is held: the stream may end here.
    pub fn is_between_records(&self) -> bool {
        self.mark_len == 0 && self.fragment.is_none() && !self.begun
    }

    /// The bytes that are known to be missing until the next thing happens; at least 1.
    pub fn wanted_bytes(&self) -> usize {
        self.fragment.map_or(4 - self.mark_len, |(missing, _)| missing).max(1)
    }

    /// The record at the front of `input`, when all of it is there in one fragment.
    fn whole_in<'a>(&self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        let header = FragmentHeader::from_bytes(*input.first_chunk()?);
        let len = header.len_bytes as usize;
        if !header.last || len > self.limit_bytes {
            return None;
        }
        let whole = input.get(4..4 + len)?;
        take(input, 4 + len);
        Some(whole)
    }

    /// Takes what is there of the word before a fragment; true when it is complete and the fragment may come.
    fn take_mark(&mut self, input: &mut &[u8]) -> Result<bool, RecordError> {
        while self.mark_len < 4 {
            let Some((&byte, rest)) = input.split_first() else { return Ok(false) };
            *input = rest;
            if let Some(place) = self.mark.get_mut(self.mark_len) {
                *place = byte;
            }
            self.mark_len += 1;
        }
        self.mark_len = 0;
        let header = FragmentHeader::from_bytes(self.mark);
        let announced = self.held.len() as u64 + u64::from(header.len_bytes);
        if announced > self.limit_bytes as u64 {
            return Err(RecordError::TooLong { announced_bytes: announced });
        }
        if header.len_bytes == 0 {
            self.empty_fragments += 1;
        }
        if self.empty_fragments > MAX_EMPTY_FRAGMENTS {
            return Err(RecordError::TooManyFragments);
        }
        self.fragment = Some((header.len_bytes as usize, header.last));
        Ok(true)
    }
}

/// Takes at most `n` bytes from the front of `input`.
fn take<'a>(input: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(n.min(input.len()));
    *input = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragment(last: bool, bytes: &[u8]) -> Vec<u8> {
        let header = FragmentHeader { last, len_bytes: bytes.len() as u32 };
        [&header.to_bytes()[..], bytes].concat()
    }

    fn all(records: &mut Records, mut input: &[u8]) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        while let Some(record) = records.next(&mut input).unwrap() {
            got.push(record.to_vec());
        }
        assert!(input.is_empty());
        got
    }

    #[test]
    fn the_word_by_hand() {
        let header = FragmentHeader::from_bytes([0x80, 0, 0, 0x28]);
        assert_eq!(header, FragmentHeader { last: true, len_bytes: 40 });
        assert_eq!(FragmentHeader::from_bytes([0, 1, 0, 0]), FragmentHeader { last: false, len_bytes: 65536 });
        assert_eq!(header.to_bytes(), [0x80, 0, 0, 0x28]);
    }

    #[test]
    fn a_record_in_one_piece_is_not_copied() {
        let stream = [fragment(true, b"one"), fragment(true, b""), fragment(true, b"three")].concat();
        let mut records = Records::new(5);
        let mut input = &stream[..];
        assert_eq!(records.next(&mut input), Ok(Some(Record::Borrowed(b"one"))));
        assert_eq!(records.next(&mut input), Ok(Some(Record::Borrowed(b""))));
        assert_eq!(records.next(&mut input), Ok(Some(Record::Borrowed(b"three"))));
        assert_eq!(records.next(&mut input), Ok(None));
        assert!(records.is_between_records());
    }

    #[test]
    fn records_are_the_same_cut_anywhere() {
        let stream = [
            fragment(false, b"ab"),
            fragment(false, b""),
            fragment(true, b"cd"),
            fragment(true, b"whole"),
            fragment(false, b"x"),
            fragment(true, b""),
        ]
        .concat();
        let expected = [b"abcd".to_vec(), b"whole".to_vec(), b"x".to_vec()];
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let mut records = Records::new(5);
                let mut got = all(&mut records, &stream[..first]);
                got.extend(all(&mut records, &stream[first..second]));
                got.extend(all(&mut records, &stream[second..]));
                assert_eq!(got, expected, "cut at {first} and {second}");
                assert!(records.is_between_records());
            }
        }
        let mut records = Records::new(5);
        let got: Vec<Vec<u8>> = stream.chunks(1).flat_map(|byte| all(&mut records, byte)).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_announcement_takes_no_memory() {
        let mut records = Records::new(1 << 20);
        let error = records.next(&mut &[0xff; 4][..]);
        assert_eq!(error, Err(RecordError::TooLong { announced_bytes: 0x7fff_ffff }));
        let mut records = Records::new(1 << 20);
        assert_eq!(records.next(&mut &[0x80, 0x10, 0, 0, 1][..]), Ok(None));
        assert!(records.held.capacity() < 64);
        assert_eq!(records.wanted_bytes(), (1 << 20) - 1);
    }

    #[test]
    fn the_limit_is_on_the_record_and_not_on_the_fragment() {
        let mut records = Records::new(5);
        let stream = [fragment(false, b"abc"), fragment(true, b"def")].concat();
        assert_eq!(records.next(&mut &stream[..]), Err(RecordError::TooLong { announced_bytes: 6 }));
        let mut records = Records::new(5);
        let stream = [fragment(false, b"abc"), fragment(true, b"de")].concat();
        assert_eq!(all(&mut records, &stream), [b"abcde".to_vec()]);
    }

    #[test]
    fn endless_empty_fragments_end() {
        let mut records = Records::new(5);
        let stream = vec![0; 4 * (MAX_EMPTY_FRAGMENTS as usize + 1)];
        assert_eq!(records.next(&mut &stream[..]), Err(RecordError::TooManyFragments));
        assert_eq!(records.next(&mut &stream[..0]).ok(), Some(None));
    }

    #[test]
    fn a_record_to_be_sent_is_marked_with_what_follows_it() {
        let mut out = vec![0xaa];
        let mark = begin_record(&mut out);
        out.extend(b"head");
        end_record(mark, 4096, &mut out);
        assert_eq!(out, b"\xaa\x80\x00\x10\x04head");
    }
}
