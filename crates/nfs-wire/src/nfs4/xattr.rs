//! Extended attributes (RFC 8276 8.4): GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR. Names travel without `user.`.

use super::{Component, NfsStat4};
use crate::xdr::{List, Put, Xdr};

/// What GETXATTR answers: the value.
pub type GetxattrRes<'a> = Result<&'a [u8], NfsStat4>;

/// What LISTXATTRS answers.
pub type ListxattrsRes<'a> = Result<ListxattrsOk<'a>, NfsStat4>;

xdr_enum! {
    /// How SETXATTR treats an attribute that is there.
    pub enum SetxattrOption {
        /// Either way.
        Either = 0,
        /// It may not be there.
        Create = 1,
        /// It must be there.
        Replace = 2,
    }
}

xdr_struct! {
    /// Arguments of SETXATTR.
    pub struct SetxattrArgs<'a> {
        /// How.
        option: SetxattrOption,
        /// The name.
        name: Component<'a>,
        /// The value.
        value: &'a [u8],
    }

    /// Arguments of LISTXATTRS.
    pub struct ListxattrsArgs {
        /// 0, or that of the last answer.
        cookie: u64,
        /// The most bytes of result.
        max_count_bytes: u32,
    }

    /// Result of LISTXATTRS.
    pub struct ListxattrsOk<'a> {
        /// To go on with.
        cookie: u64,
        /// The names.
        names: List<'a, Component<'a>>,
        /// Whether they end the list.
        eof: bool,
    }
}

/// A successful LISTXATTRS result that is being written.
#[derive(Debug)]
#[must_use]
pub struct XattrNamesWriter {
    begin: usize,
    max_count_bytes: usize,
    count: u32,
}

impl XattrNamesWriter {
    /// Appends the result up to its first name.
    pub fn begin(args: &ListxattrsArgs, out: &mut (impl Put + ?Sized)) -> Self {
        let begin = out.len();
        NfsStat4::OK.put(out);
        out.put_u64(0);
        out.reserve_u32();
        Self { begin, max_count_bytes: args.max_count_bytes as usize, count: 0 }
    }

    /// Appends a name; false, and nothing appended, when it does not fit.
    pub fn name(&mut self, name: Component<'_>, out: &mut (impl Put + ?Sized)) -> bool {
        let start = out.len();
        out.put_opaque(name);
        // The result is all behind the status, and the eof follows.
        if out.len() - self.begin - 4 + 4 > self.max_count_bytes {
            out.truncate(start);
            return false;
        }
        self.count += 1;
        true
    }

    /// Ends the result and answers its status. Without a name and without the end reached, it becomes TOOSMALL.
    pub fn end(self, cookie: u64, eof: bool, out: &mut (impl Put + ?Sized)) -> NfsStat4 {
        if self.count == 0 && !eof {
            out.truncate(self.begin);
            NfsStat4::TOOSMALL.put(out);
            return NfsStat4::TOOSMALL;
        }
        out.patch_bytes(self.begin + 4, &cookie.to_be_bytes());
        out.patch_u32(self.begin + 12, self.count);
        out.put_bool(eof);
        NfsStat4::OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hex, is_on_the_wire, unhex};
    use crate::xdr::decode_all;

    #[test]
    fn setxattr_and_getxattr_by_hand() {
        let args = SetxattrArgs { option: SetxattrOption::Replace, name: b"n", value: b"val" };
        is_on_the_wire(&args, &unhex("00000002 00000001 6e000000 00000003 76616c00"));
        is_on_the_wire::<GetxattrRes<'_>>(&Ok(b"val"), &unhex("00000000 00000003 76616c00"));
        is_on_the_wire::<GetxattrRes<'_>>(&Err(NfsStat4::NOXATTR), &unhex("0000276f"));
        let args = ListxattrsArgs { cookie: 1, max_count_bytes: 64 };
        is_on_the_wire(&args, &unhex("00000000 00000001 00000040"));
    }

    #[test]
    fn names_are_written_as_far_as_they_fit() {
        let names: [&[u8]; 2] = [b"a", b"bb"];
        let ok: ListxattrsRes<'_> = Ok(ListxattrsOk { cookie: 2, names: List::new(&names), eof: true });
        let text = "00000000 00000000 00000002 00000002 00000001 61000000 00000002 62620000 00000001";
        is_on_the_wire(&ok, &unhex(text));
        for max_count_bytes in 0..40 {
            let mut out = Vec::new();
            let mut writer = XattrNamesWriter::begin(&ListxattrsArgs { cookie: 0, max_count_bytes }, &mut out);
            let fitted = names.iter().take_while(|name| writer.name(name, &mut out)).count();
            let status = writer.end(fitted as u64, fitted == 2, &mut out);
            let res: ListxattrsRes<'_> = decode_all(&out).unwrap();
            assert_eq!(status == NfsStat4::OK, fitted > 0);
            assert_eq!(fitted == 2, max_count_bytes >= 32);
            match res {
                Ok(ok) => assert_eq!(ok.names.len(), fitted),
                Err(status) => assert_eq!(status, NfsStat4::TOOSMALL),
            }
            assert!(fitted == 0 || out.len() - 4 <= max_count_bytes as usize);
            assert!(fitted < 2 || hex(&out) == text);
        }
    }
}
