//! READ, WRITE and COMMIT (RFC 1813 3.3.6, 3.3.7, 3.3.21). The head of a READ reply can be put when the count is known
//! and the data follow by other means, or before the data are read straight behind it and the count is patched in.

use super::{Failed, FileHandle, NfsStat3, PostOpAttr, WccData};
use crate::xdr::{Malformed, OpaqueMark, Put, Reader, Xdr};

/// What READ answers.
pub type ReadRes<'a> = Result<ReadOk<'a>, Failed<PostOpAttr>>;

/// What WRITE answers.
pub type WriteRes = Result<WriteOk, Failed<WccData>>;

/// What COMMIT answers.
pub type CommitRes = Result<CommitOk, Failed<WccData>>;

xdr_enum! {
    /// How safe written data must be, or are (`stable_how`).
    pub enum StableHow {
        /// Wherever; COMMIT makes them safe.
        Unstable = 0,
        /// The data are on stable storage.
        DataSync = 1,
        /// The data and the file's attributes are.
        FileSync = 2,
    }
}

xdr_struct! {
    /// Arguments of READ.
    pub struct ReadArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// Where.
        offset_bytes: u64,
        /// How much.
        count_bytes: u32,
    }

    /// Result of READ.
    pub struct ReadOk<'a> {
        /// The file's attributes.
        attributes: PostOpAttr,
        /// The length of the data.
        count_bytes: u32,
        /// Whether they end the file.
        eof: bool,
        /// The data.
        data: &'a [u8],
    }

    /// Arguments of WRITE.
    pub struct WriteArgs<'a> {
        /// All before the data.
        head: WriteHead<'a>,
        /// The data; `head.count_bytes` should be their length.
        data: &'a [u8],
    }

    /// Arguments of WRITE before the data, which a server decodes to learn where the data should be received.
    pub struct WriteHead<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// Where.
        offset_bytes: u64,
        /// How much.
        count_bytes: u32,
        /// How safe.
        stable: StableHow,
    }

    /// Result of WRITE.
    pub struct WriteOk {
        /// Attributes before and after.
        wcc: WccData,
        /// How much was written.
        count_bytes: u32,
        /// How safe it is.
        committed: StableHow,
        /// Changes when unstable data may have been lost.
        verifier: [u8; 8],
    }

    /// Arguments of COMMIT.
    pub struct CommitArgs<'a> {
        /// The file.
        handle: FileHandle<'a>,
        /// From where.
        offset_bytes: u64,
        /// How much, 0 for all that follows.
        count_bytes: u32,
    }

    /// Result of COMMIT.
    pub struct CommitOk {
        /// Attributes before and after.
        wcc: WccData,
        /// As in [`WriteOk`].
        verifier: [u8; 8],
    }
}

/// Appends a successful READ result up to its data: status, attributes, count, eof and the data's length. The caller
/// sends `count_bytes` of data right behind, then [`crate::xdr::pad_bytes`] of zeros.
pub fn put_read_head(attributes: &PostOpAttr, count_bytes: u32, eof: bool, out: &mut (impl Put + ?Sized)) {
    NfsStat3::OK.put(out);
    attributes.put(out);
    out.put_u32(count_bytes);
    out.put_bool(eof);
    out.put_u32(count_bytes);
}

/// A READ result whose data are being put in place.
#[derive(Debug)]
#[must_use]
pub struct ReadPlace {
    count_at: usize,
    data: OpaqueMark,
}

impl ReadPlace {
    /// Appends a successful READ result up to its data, which are to be appended next.
    pub fn begin(attributes: &PostOpAttr, out: &mut (impl Put + ?Sized)) -> Self {
        NfsStat3::OK.put(out);
        attributes.put(out);
        let count_at = out.reserve_u32();
        out.put_bool(false);
        Self { count_at, data: out.begin_opaque() }
    }

    /// Ends the result: its data are what was appended since. Answers their length.
    pub fn end(self, eof: bool, out: &mut (impl Put + ?Sized)) -> usize {
        let len = out.end_opaque(self.data);
        out.patch_u32(self.count_at, len as u32);
        out.patch_u32(self.count_at + 4, u32::from(eof));
        len
    }
}

impl<'a> WriteHead<'a> {
    /// Decodes the head of a WRITE of which the data may not be there yet, and the announced length of the data.
    pub fn decode_with_length(r: &mut Reader<'a>) -> Result<(Self, u32), Malformed> {
        Ok((Self::decode(r)?, r.u32()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::attr::tests::fattr;
    use super::*;
    use crate::testing::{hex, is_on_the_wire, unhex};
    use crate::xdr::{Bounded, to_vec};

    #[test]
    fn read_by_hand() {
        let args = ReadArgs { handle: Bounded(b"fh"), offset_bytes: 1 << 33, count_bytes: 65536 };
        is_on_the_wire(&args, &unhex("00000002 66680000 00000002 00000000 00010000"));
        let (attr, text) = fattr();
        let ok: ReadRes<'_> = Ok(ReadOk { attributes: Some(attr), count_bytes: 5, eof: true, data: b"hello" });
        let bytes = unhex(&format!("00000000 00000001 {text} 00000005 00000001 00000005 68656c6c 6f000000"));
        is_on_the_wire(&ok, &bytes);
        let failed: ReadRes<'_> = Err(Failed { status: NfsStat3::ISDIR, rest: None });
        is_on_the_wire(&failed, &unhex("00000015 00000000"));
    }

    #[test]
    fn both_ways_to_put_data_make_the_same_reply() {
        let (attr, _) = fattr();
        for attributes in [None, Some(attr)] {
            for data in [&b""[..], b"abc", b"12345678"] {
                let count_bytes = data.len() as u32;
                let ok: ReadRes<'_> = Ok(ReadOk { attributes, count_bytes, eof: true, data });
                let expected = hex(&to_vec(&ok));
                let mut placed = Vec::new();
                let place = ReadPlace::begin(&attributes, &mut placed);
                placed.extend_from_slice(data);
                assert_eq!(place.end(true, &mut placed), data.len());
                assert_eq!(hex(&placed), expected);
                let mut head = Vec::new();
                put_read_head(&attributes, count_bytes, true, &mut head);
                head.put_fixed(data);
                assert_eq!(hex(&head), expected);
            }
        }
    }

    #[test]
    fn write_and_commit_by_hand() {
        let head = WriteHead { handle: Bounded(b"fh"), offset_bytes: 4, count_bytes: 3, stable: StableHow::DataSync };
        let bytes = unhex("00000002 66680000 00000000 00000004 00000003 00000001 00000003 61626300");
        is_on_the_wire(&WriteArgs { head, data: b"abc" }, &bytes);
        assert_eq!(WriteHead::decode_with_length(&mut Reader::new(&bytes[..28])), Ok((head, 3)));

        let ok: WriteRes =
            Ok(WriteOk { wcc: WccData::NONE, count_bytes: 3, committed: StableHow::FileSync, verifier: *b"verifier" });
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000000 00000003 00000002 76657269 66696572"));
        let args = CommitArgs { handle: Bounded(b"fh"), offset_bytes: 0, count_bytes: 0 };
        is_on_the_wire(&args, &unhex("00000002 66680000 00000000 00000000 00000000"));
        let ok: CommitRes = Ok(CommitOk { wcc: WccData::NONE, verifier: *b"verifier" });
        is_on_the_wire(&ok, &unhex("00000000 00000000 00000000 76657269 66696572"));
    }
}
