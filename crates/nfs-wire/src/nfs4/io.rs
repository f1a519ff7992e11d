//! READ, WRITE, COMMIT (RFC 8881 18.22, 18.32, 18.3) and READ_PLUS (RFC 7862 15.10). The head of a READ result can be
//! put when the count is known and the data follow by other means, or before the data are read straight behind it.

use super::{NfsStat4, Stateid, Verifier};
use crate::nfs3::StableHow;
use crate::xdr::{List, Malformed, OpaqueMark, Put, Reader, Xdr};

/// What READ answers.
pub type ReadRes<'a> = Result<ReadOk<'a>, NfsStat4>;

/// What WRITE answers.
pub type WriteRes = Result<WriteOk, NfsStat4>;

/// What COMMIT answers.
pub type CommitRes = Result<Verifier, NfsStat4>;

/// What READ_PLUS answers.
pub type ReadPlusRes<'a> = Result<ReadPlusOk<'a>, NfsStat4>;

xdr_struct! {
    /// Arguments of READ and READ_PLUS.
    pub struct ReadArgs {
        /// The open, lock or delegation.
        stateid: Stateid,
        /// Where.
        offset_bytes: u64,
        /// How much.
        count_bytes: u32,
    }

    /// Result of READ.
    pub struct ReadOk<'a> {
        /// Whether the data end the file.
        eof: bool,
        /// The data.
        data: &'a [u8],
    }

    /// Arguments of WRITE before the data, which a server decodes to learn where the data should be received.
    pub struct WriteHead {
        /// The open, lock or delegation.
        stateid: Stateid,
        /// Where.
        offset_bytes: u64,
        /// How safe.
        stable: StableHow,
    }

    /// Arguments of WRITE.
    pub struct WriteArgs<'a> {
        /// All before the data.
        head: WriteHead,
        /// The data.
        data: &'a [u8],
    }

    /// Result of WRITE.
    pub struct WriteOk {
        /// How much was written.
        count_bytes: u32,
        /// How safe it is.
        committed: StableHow,
        /// Changes when unstable data may have been lost.
        verifier: Verifier,
    }

    /// Arguments of COMMIT.
    pub struct CommitArgs {
        /// From where.
        offset_bytes: u64,
        /// How much, 0 for all that follows.
        count_bytes: u32,
    }

    /// Result of READ_PLUS.
    pub struct ReadPlusOk<'a> {
        /// Whether the segments end the file.
        eof: bool,
        /// Data and holes in order.
        segments: List<'a, Segment<'a>>,
    }
}

/// A part of a file (`read_plus_content`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Data.
    Data {
        /// Where.
        offset_bytes: u64,
        /// The data.
        data: &'a [u8],
    },
    /// A hole.
    Hole {
        /// Where.
        offset_bytes: u64,
        /// How long.
        len_bytes: u64,
    },
}

const CONTENT_DATA: u32 = 0;
const CONTENT_HOLE: u32 = 1;

impl<'a> Xdr<'a> for Segment<'a> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            CONTENT_DATA => Ok(Self::Data { offset_bytes: r.u64()?, data: Xdr::decode(r)? }),
            CONTENT_HOLE => Ok(Self::Hole { offset_bytes: r.u64()?, len_bytes: r.u64()? }),
            _ => Err(Malformed::Value("data_content4")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self {
            Self::Data { offset_bytes, data } => (CONTENT_DATA, (*offset_bytes, *data)).put(out),
            Self::Hole { offset_bytes, len_bytes } => (CONTENT_HOLE, (*offset_bytes, *len_bytes)).put(out),
        }
    }
}

/// Appends a successful READ result up to its data: status, eof and the data's length. The caller sends `count_bytes`
/// of data right behind, then [`crate::xdr::pad_bytes`] of zeros.
pub fn put_read_head(count_bytes: u32, eof: bool, out: &mut (impl Put + ?Sized)) {
    NfsStat4::OK.put(out);
    out.put_bool(eof);
    out.put_u32(count_bytes);
}

/// A READ result whose data are being put in place.
#[derive(Debug)]
#[must_use]
pub struct ReadPlace {
    eof_at: usize,
    data: OpaqueMark,
}

impl ReadPlace {
    /// Appends a successful READ result up to its data, which are to be appended next.
    pub fn begin(out: &mut (impl Put + ?Sized)) -> Self {
        NfsStat4::OK.put(out);
        let eof_at = out.reserve_u32();
        Self { eof_at, data: out.begin_opaque() }
    }

    /// Ends the result: its data are what was appended since. Answers their length.
    pub fn end(self, eof: bool, out: &mut (impl Put + ?Sized)) -> usize {
        out.patch_u32(self.eof_at, u32::from(eof));
        out.end_opaque(self.data)
    }
}

/// A READ_PLUS result that is being written segment by segment.
#[derive(Debug)]
#[must_use]
pub struct ReadPlusWriter {
    eof_at: usize,
    segments: u32,
}

impl ReadPlusWriter {
    /// Appends a successful READ_PLUS result up to its first segment.
    pub fn begin(out: &mut (impl Put + ?Sized)) -> Self {
        NfsStat4::OK.put(out);
        let eof_at = out.reserve_u32();
        out.reserve_u32();
        Self { eof_at, segments: 0 }
    }

    /// Appends a hole.
    pub fn hole(&mut self, offset_bytes: u64, len_bytes: u64, out: &mut (impl Put + ?Sized)) {
        self.segments += 1;
        Segment::Hole { offset_bytes, len_bytes }.put(out);
    }

    /// Begins data, which are to be appended next and ended by [`Put::end_opaque`].
    pub fn begin_data(&mut self, offset_bytes: u64, out: &mut (impl Put + ?Sized)) -> OpaqueMark {
        self.segments += 1;
        out.put_u32(CONTENT_DATA);
        out.put_u64(offset_bytes);
        out.begin_opaque()
    }

    /// Ends the result.
    pub fn end(self, eof: bool, out: &mut (impl Put + ?Sized)) {
        out.patch_u32(self.eof_at, u32::from(eof));
        out.patch_u32(self.eof_at + 4, self.segments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, is_on_the_wire, unhex};
    use crate::xdr::to_vec;

    const STATEID: Stateid = Stateid { seqid: 1, other: *b"0123456789ab" };
    const STATEID_TEXT: &str = "00000001 30313233 34353637 38396162";

    #[test]
    fn read_and_write_by_hand() {
        let args = ReadArgs { stateid: STATEID, offset_bytes: 1 << 33, count_bytes: 65536 };
        is_on_the_wire(&args, &unhex(&format!("{STATEID_TEXT} 00000002 00000000 00010000")));
        let ok: ReadRes<'_> = Ok(ReadOk { eof: true, data: b"hello" });
        is_on_the_wire(&ok, &unhex("00000000 00000001 00000005 68656c6c 6f000000"));
        let head = WriteHead { stateid: STATEID, offset_bytes: 4, stable: StableHow::FileSync };
        is_on_the_wire(
            &WriteArgs { head, data: b"abc" },
            &unhex(&format!("{STATEID_TEXT} 00000000 00000004 00000002 00000003 61626300")),
        );
        let ok: WriteRes = Ok(WriteOk { count_bytes: 3, committed: StableHow::Unstable, verifier: *b"verifier" });
        is_on_the_wire(&ok, &unhex("00000000 00000003 00000000 76657269 66696572"));
        is_on_the_wire(&CommitArgs { offset_bytes: 1, count_bytes: 2 }, &unhex("00000000 00000001 00000002"));
        is_on_the_wire::<CommitRes>(&Ok(*b"verifier"), &unhex("00000000 76657269 66696572"));
    }

    #[test]
    fn both_ways_to_put_data_make_the_same_reply() {
        for data in [&b""[..], b"abc", b"12345678"] {
            let ok: ReadRes<'_> = Ok(ReadOk { eof: true, data });
            let mut placed = Vec::new();
            let place = ReadPlace::begin(&mut placed);
            placed.extend_from_slice(data);
            assert_eq!(place.end(true, &mut placed), data.len());
            assert_eq!(hex(&placed), hex(&to_vec(&ok)));
            let mut head = Vec::new();
            put_read_head(data.len() as u32, true, &mut head);
            head.put_fixed(data);
            assert_eq!(hex(&head), hex(&placed));
        }
    }

    #[test]
    fn segments_by_hand() {
        let segments =
            [Segment::Data { offset_bytes: 0, data: b"abc" }, Segment::Hole { offset_bytes: 3, len_bytes: 9 }];
        let ok: ReadPlusRes<'_> = Ok(ReadPlusOk { eof: true, segments: List::new(&segments) });
        let text = "00000000 00000001 00000002 00000000 00000000 00000000 00000003 61626300 00000001 00000000 00000003 \
                    00000000 00000009";
        is_on_the_wire(&ok, &unhex(text));
        let mut out = Vec::new();
        let mut writer = ReadPlusWriter::begin(&mut out);
        let mark = writer.begin_data(0, &mut out);
        out.put_bytes(b"abc");
        out.end_opaque(mark);
        writer.hole(3, 9, &mut out);
        writer.end(true, &mut out);
        assert_eq!(hex(&out), text);
    }
}
