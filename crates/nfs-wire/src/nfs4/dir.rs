//! READDIR (RFC 8881 18.23). [`DirWriter`] puts entries with their attributes straight into the reply and stops where
//! the caller's limits do: nothing is built elsewhere first, and no entry is left half written.

use super::attr::{AttrSource, put_fattr};
use super::{Bitmap, Component, Fattr, NfsStat4, Verifier};
use crate::xdr::{Chain, Put, Xdr};

/// What READDIR answers.
pub type ReaddirRes<'a> = Result<ReaddirOk<'a>, NfsStat4>;

xdr_struct! {
    /// Arguments of READDIR.
    pub struct ReaddirArgs {
        /// 0, or the cookie of the last entry that was received; 1 and 2 are never one.
        cookie: u64,
        /// 0, or the verifier that came with it.
        cookie_verifier: Verifier,
        /// A hint: the most bytes of names and cookies, 0 for none.
        dir_count_bytes: u32,
        /// The most bytes of result.
        max_count_bytes: u32,
        /// Which attributes.
        request: Bitmap,
    }

    /// Result of READDIR.
    pub struct ReaddirOk<'a> {
        /// To be sent with the cookies.
        cookie_verifier: Verifier,
        /// The entries.
        entries: Chain<'a, DirEntry<'a>>,
        /// Whether they end the listing.
        eof: bool,
    }

    /// An entry.
    pub struct DirEntry<'a> {
        /// Where the listing goes on behind it.
        cookie: u64,
        /// Its name.
        name: Component<'a>,
        /// Its attributes.
        attributes: Fattr<'a>,
    }
}

/// A successful READDIR result that is being written.
#[derive(Debug)]
#[must_use]
pub struct DirWriter {
    begin: usize,
    dir_bytes: usize,
    dir_count_bytes: usize,
    max_count_bytes: usize,
    count: usize,
}

/// The false that ends the entries, and the eof.
const END_BYTES: usize = 8;

impl DirWriter {
    /// Appends the result up to its first entry. The result, all behind the status, will have at most
    /// `max_count_bytes`: the caller's, or less where the reply as a whole must.
    pub fn begin(
        cookie_verifier: Verifier,
        dir_count_bytes: u32,
        max_count_bytes: usize,
        out: &mut (impl Put + ?Sized),
    ) -> Self {
        let begin = out.len();
        NfsStat4::OK.put(out);
        cookie_verifier.put(out);
        let dir_count_bytes = if dir_count_bytes == 0 { usize::MAX } else { dir_count_bytes as usize };
        Self { begin, dir_bytes: 0, dir_count_bytes, max_count_bytes, count: 0 }
    }

    /// Appends an entry with those of the requested attributes that `source` has; false, and nothing appended, when it
    /// does not fit.
    pub fn entry(
        &mut self,
        cookie: u64,
        name: Component<'_>,
        request: &Bitmap,
        source: &impl AttrSource,
        out: &mut (impl Put + ?Sized),
    ) -> bool {
        let start = out.len();
        out.put_bool(true);
        out.put_u64(cookie);
        out.put_opaque(name);
        let dir_bytes = self.dir_bytes.saturating_add(out.len() - start - 4);
        put_fattr(request, source, out);
        let result_bytes = (out.len() - self.begin - 4).saturating_add(END_BYTES);
        let beyond_hint = dir_bytes > self.dir_count_bytes && self.count > 0;
        if result_bytes > self.max_count_bytes || beyond_hint {
            out.truncate(start);
            return false;
        }
        self.dir_bytes = dir_bytes;
        self.count += 1;
        true
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Ends the result and answers its status. Without an entry and without the end reached, it becomes TOOSMALL.
    pub fn end(self, eof: bool, out: &mut (impl Put + ?Sized)) -> NfsStat4 {
        if self.count == 0 && !eof {
            out.truncate(self.begin);
            NfsStat4::TOOSMALL.put(out);
            return NfsStat4::TOOSMALL;
        }
        out.put_bool(false);
        out.put_bool(eof);
        NfsStat4::OK
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attr, Attrs};
    use super::*;
    use crate::testing::{hex, is_on_the_wire, unhex};
    use crate::xdr::decode_all;

    const RESULT: &str = "00000000 76657269 66696572 00000001 00000000 00000003 00000001 61000000 00000001 00100000 \
                          00000008 00000000 00000007 00000001 00000000 00000004 00000002 62620000 00000001 00100000 \
                          00000008 00000000 00000007 00000000 00000001";

    fn attrs() -> Attrs<'static> {
        Attrs { fileid: Some(7), ..Attrs::default() }
    }

    fn written(hint: u32, max: usize) -> (Vec<u8>, usize) {
        let request = Bitmap::of(&[Attr::Fileid]);
        let mut out = Vec::new();
        let mut dir = DirWriter::begin(*b"verifier", hint, max, &mut out);
        let all = dir.entry(3, b"a", &request, &attrs(), &mut out) && dir.entry(4, b"bb", &request, &attrs(), &mut out);
        let count = dir.count();
        let status = dir.end(all, &mut out);
        assert_eq!(status == NfsStat4::OK, count > 0);
        (out, count)
    }

    #[test]
    fn a_listing_by_hand() {
        let args = ReaddirArgs {
            cookie: 3,
            cookie_verifier: *b"verifier",
            dir_count_bytes: 512,
            max_count_bytes: 4096,
            request: Bitmap::of(&[Attr::Fileid]),
        };
        is_on_the_wire(&args, &unhex("00000000 00000003 76657269 66696572 00000200 00001000 00000001 00100000"));
        let (out, _) = written(0, 4096);
        assert_eq!(hex(&out), RESULT);
        let values = attrs().to_values();
        let attributes = Fattr { mask: attrs().mask(), values: &values };
        let entries = [DirEntry { cookie: 3, name: b"a", attributes }, DirEntry { cookie: 4, name: b"bb", attributes }];
        let ok: ReaddirRes<'_> =
            Ok(ReaddirOk { cookie_verifier: *b"verifier", entries: Chain::new(&entries), eof: true });
        is_on_the_wire(&ok, &out);
    }

    #[test]
    fn no_limit_is_passed_and_no_entry_cut() {
        let whole = unhex(RESULT).len() - 4;
        for max in 0..whole + 4 {
            let (out, count) = written(0, max);
            let res: ReaddirRes<'_> = decode_all(&out).unwrap();
            assert_eq!(count == 2, max >= whole, "{max}");
            match res {
                Ok(ok) => {
                    assert!(out.len() - 4 <= max);
                    assert_eq!((ok.entries.iter().count(), ok.eof), (count, count == 2));
                }
                Err(status) => assert_eq!((status, count), (NfsStat4::TOOSMALL, 0)),
            }
        }
        assert_eq!(written(1, 4096).1, 1);
        assert_eq!(written(32, 4096).1, 2);
        assert_eq!(written(31, 4096).1, 1);
    }
}
