//! READDIR and READDIRPLUS (RFC 1813 3.3.16, 3.3.17). [`DirWriter`] puts entries straight into the reply and stops
//! where the caller's limits do: no entry is built elsewhere first, and none is left half written.

use super::{Failed, FileHandle, NfsStat3, PostOpAttr, PostOpHandle};
use crate::xdr::{Chain, Put, Xdr};

/// What READDIR answers.
pub type ReaddirRes<'a> = Result<ReaddirOk<'a>, Failed<PostOpAttr>>;

/// What READDIRPLUS answers.
pub type ReaddirPlusRes<'a> = Result<ReaddirPlusOk<'a>, Failed<PostOpAttr>>;

/// The entries of a READDIR.
pub type DirEntries<'a> = Chain<'a, DirEntry<'a>>;

/// The entries of a READDIRPLUS.
pub type DirEntriesPlus<'a> = Chain<'a, DirEntryPlus<'a>>;

xdr_struct! {
    /// Arguments of READDIR.
    pub struct ReaddirArgs<'a> {
        /// The directory.
        dir: FileHandle<'a>,
        /// 0, or the cookie of the last entry that was received.
        cookie: u64,
        /// 0, or the verifier that came with it.
        cookie_verifier: [u8; 8],
        /// The most bytes of result.
        count_bytes: u32,
    }

    /// Arguments of READDIRPLUS.
    pub struct ReaddirPlusArgs<'a> {
        /// The directory.
        dir: FileHandle<'a>,
        /// 0, or the cookie of the last entry that was received.
        cookie: u64,
        /// 0, or the verifier that came with it.
        cookie_verifier: [u8; 8],
        /// The most bytes of ids, names and cookies.
        dir_count_bytes: u32,
        /// The most bytes of result.
        max_count_bytes: u32,
    }

    /// Result of READDIR.
    pub struct ReaddirOk<'a> {
        /// The directory's attributes.
        attributes: PostOpAttr,
        /// To be sent with the cookies.
        cookie_verifier: [u8; 8],
        /// The entries.
        entries: DirEntries<'a>,
        /// Whether they end the listing.
        eof: bool,
    }

    /// Result of READDIRPLUS.
    pub struct ReaddirPlusOk<'a> {
        /// The directory's attributes.
        attributes: PostOpAttr,
        /// To be sent with the cookies.
        cookie_verifier: [u8; 8],
        /// The entries.
        entries: DirEntriesPlus<'a>,
        /// Whether they end the listing.
        eof: bool,
    }

    /// An entry of READDIR.
    pub struct DirEntry<'a> {
        /// Which file.
        fileid: u64,
        /// Its name.
        name: &'a [u8],
        /// Where the listing goes on behind it.
        cookie: u64,
    }

    /// An entry of READDIRPLUS.
    pub struct DirEntryPlus<'a> {
        /// What READDIR gives.
        entry: DirEntry<'a>,
        /// Its attributes.
        attributes: PostOpAttr,
        /// Its handle.
        handle: PostOpHandle<'a>,
    }
}

/// What bounds a listing's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirLimits {
    /// The most bytes of ids, names and cookies, with their XDR.
    pub dir_count_bytes: usize,
    /// The most bytes of result: all behind the status.
    pub max_count_bytes: usize,
}

impl DirLimits {
    /// READDIR's.
    pub fn of_readdir(args: &ReaddirArgs<'_>) -> Self {
        Self { dir_count_bytes: usize::MAX, max_count_bytes: args.count_bytes as usize }
    }

    /// READDIRPLUS's.
    pub fn of_readdir_plus(args: &ReaddirPlusArgs<'_>) -> Self {
        Self { dir_count_bytes: args.dir_count_bytes as usize, max_count_bytes: args.max_count_bytes as usize }
    }
}

/// A successful READDIR or READDIRPLUS result that is being written.
#[derive(Debug)]
#[must_use]
pub struct DirWriter {
    begin: usize,
    result_at: usize,
    dir_bytes: usize,
    limits: DirLimits,
    count: usize,
}

/// The false that ends the entries, and the eof.
const END_BYTES: usize = 8;

impl DirWriter {
    /// Appends the result up to its first entry.
    pub fn begin(
        attributes: &PostOpAttr,
        cookie_verifier: [u8; 8],
        limits: DirLimits,
        out: &mut (impl Put + ?Sized),
    ) -> Self {
        let begin = out.len();
        NfsStat3::OK.put(out);
        let result_at = out.len();
        attributes.put(out);
        cookie_verifier.put(out);
        Self { begin, result_at, dir_bytes: 0, limits, count: 0 }
    }

    /// Appends an entry of READDIR; false, and nothing appended, when it does not fit.
    pub fn entry(&mut self, entry: &DirEntry<'_>, out: &mut (impl Put + ?Sized)) -> bool {
        self.put(entry, |_| {}, out)
    }

    /// Appends an entry of READDIRPLUS; false, and nothing appended, when it does not fit.
    pub fn entry_plus(
        &mut self,
        entry: &DirEntry<'_>,
        attributes: &PostOpAttr,
        handle: &PostOpHandle<'_>,
        out: &mut (impl Put + ?Sized),
    ) -> bool {
        let plus = |out: &mut _| {
            attributes.put(out);
            handle.put(out);
        };
        self.put(entry, plus, out)
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Ends the result. Without an entry and without the end reached, it becomes TOOSMALL with `attributes`.
    pub fn end(self, eof: bool, attributes: &PostOpAttr, out: &mut (impl Put + ?Sized)) {
        if self.count == 0 && !eof {
            out.truncate(self.begin);
            Err::<(), _>(Failed { status: NfsStat3::TOOSMALL, rest: *attributes }).put(out);
            return;
        }
        out.put_bool(false);
        out.put_bool(eof);
    }

    fn put<P: Put + ?Sized>(&mut self, entry: &DirEntry<'_>, plus: impl FnOnce(&mut P), out: &mut P) -> bool {
        let start = out.len();
        out.put_bool(true);
        entry.put(out);
        let dir_bytes = self.dir_bytes.saturating_add(out.len() - start - 4);
        plus(out);
        let result_bytes = (out.len() - self.result_at).saturating_add(END_BYTES);
        // RFC 1813 3.3.17: dircount is a hint, so that one entry may pass it rather than none be sent.
        let beyond_hint = dir_bytes > self.limits.dir_count_bytes && self.count > 0;
        if result_bytes > self.limits.max_count_bytes || beyond_hint {
            out.truncate(start);
            return false;
        }
        self.dir_bytes = dir_bytes;
        self.count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::attr::tests::fattr;
    use super::*;
    use crate::testing::{hex, is_on_the_wire, unhex};
    use crate::xdr::{Bounded, to_vec};

    const ENTRIES: [DirEntry<'_>; 2] =
        [DirEntry { fileid: 2, name: b".", cookie: 1 }, DirEntry { fileid: 3, name: b"file1", cookie: 2 }];

    const RESULT: &str = "00000000 00000000 76657269 66696572 00000001 00000000 00000002 00000001 2e000000 00000000 \
                          00000001 00000001 00000000 00000003 00000005 66696c65 31000000 00000000 00000002 00000000 \
                          00000001";

    fn limits(max_count_bytes: usize) -> DirLimits {
        DirLimits { dir_count_bytes: usize::MAX, max_count_bytes }
    }

    #[test]
    fn readdir_by_hand() {
        let args = ReaddirArgs { dir: Bounded(b"dir"), cookie: 7, cookie_verifier: *b"verifier", count_bytes: 4096 };
        is_on_the_wire(&args, &unhex("00000003 64697200 00000000 00000007 76657269 66696572 00001000"));
        let args = ReaddirPlusArgs {
            dir: Bounded(b"dir"),
            cookie: 7,
            cookie_verifier: *b"verifier",
            dir_count_bytes: 512,
            max_count_bytes: 4096,
        };
        is_on_the_wire(&args, &unhex("00000003 64697200 00000000 00000007 76657269 66696572 00000200 00001000"));
        let ok: ReaddirRes<'_> = Ok(ReaddirOk {
            attributes: None,
            cookie_verifier: *b"verifier",
            entries: DirEntries::new(&ENTRIES),
            eof: true,
        });
        is_on_the_wire(&ok, &unhex(RESULT));
    }

    #[test]
    fn the_writer_writes_what_the_type_does() {
        let mut out = Vec::new();
        let mut dir = DirWriter::begin(&None, *b"verifier", limits(4096), &mut out);
        assert!(ENTRIES.iter().all(|entry| dir.entry(entry, &mut out)));
        assert_eq!(dir.count(), 2);
        dir.end(true, &None, &mut out);
        assert_eq!(hex(&out), RESULT);

        let (attr, _) = fattr();
        let plus = ENTRIES.map(|entry| DirEntryPlus { entry, attributes: Some(attr), handle: Some(Bounded(b"fh")) });
        let ok: ReaddirPlusRes<'_> = Ok(ReaddirPlusOk {
            attributes: Some(attr),
            cookie_verifier: [0; 8],
            entries: DirEntriesPlus::new(&plus),
            eof: false,
        });
        let mut out = Vec::new();
        let mut dir = DirWriter::begin(&Some(attr), [0; 8], limits(4096), &mut out);
        for item in plus {
            assert!(dir.entry_plus(&item.entry, &item.attributes, &item.handle, &mut out));
        }
        dir.end(false, &None, &mut out);
        assert_eq!(hex(&out), hex(&to_vec(&ok)));
        is_on_the_wire(&ok, &out);
    }

    #[test]
    fn no_limit_is_passed_and_no_entry_cut() {
        let whole = unhex(RESULT).len() - 4;
        for max in 0..=whole + 4 {
            let mut out = vec![0xaa; 3];
            let mut dir = DirWriter::begin(&None, *b"verifier", limits(max), &mut out);
            let fitted = ENTRIES.iter().take_while(|entry| dir.entry(entry, &mut out)).count();
            assert_eq!(fitted, dir.count());
            dir.end(fitted == 2, &None, &mut out);
            if fitted == 0 {
                assert_eq!(hex(&out[3..]), "00002715 00000000");
                continue;
            }
            assert!(out.len() - 3 - 4 <= max, "{} in {max}", out.len());
            let ok: ReaddirRes<'_> = crate::xdr::decode_all(&out[3..]).unwrap();
            let ok = ok.unwrap();
            assert_eq!((ok.entries.iter().count(), ok.eof), (fitted, fitted == 2));
            assert_eq!(fitted == 2, max >= whole, "{max}");
        }
    }

    #[test]
    fn the_hint_counts_names_only_and_lets_one_pass() {
        for (hint, expected) in [(0, 1), (24 + 24, 1), (24 + 27, 1), (24 + 28, 2)] {
            let limits = DirLimits { dir_count_bytes: hint, max_count_bytes: 4096 };
            let (attr, _) = fattr();
            let mut out = Vec::new();
            let mut dir = DirWriter::begin(&None, [0; 8], limits, &mut out);
            let fitted = ENTRIES.iter().take_while(|entry| dir.entry_plus(entry, &Some(attr), &None, &mut out)).count();
            assert_eq!(fitted, expected, "{hint}");
        }
    }
}
