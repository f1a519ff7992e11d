//! External Data Representation (RFC 4506): big-endian items of a multiple of four bytes. A [`Reader`] never goes past
//! its bytes, a [`Put`] appends to whatever buffer the caller owns, [`Xdr`] is implemented by every type that travels.
//! Nothing here knows a message.

mod chain;
mod items;
mod put;
mod reader;

pub use chain::{Chain, ChainIter};
pub use items::{Bounded, List, ListIter};
pub use put::{OpaqueMark, Put, SliceWriter};
pub use reader::Reader;

/// Something that travels, in both directions.
pub trait Xdr<'a>: Sized {
    /// Takes the item from the front of what is left.
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Appends the item.
    fn put(&self, out: &mut (impl Put + ?Sized));
}

/// Why bytes are not the item they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The message ends before the item does.
    Truncated,
    /// An opaque, string or array is longer than its type allows.
    TooLong,
    /// A value its type does not have; the type is named.
    Value(&'static str),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message ends before its field does"),
            Self::TooLong => f.write_str("a field is longer than its type allows"),
            Self::Value(what) => write!(f, "{what} has a value that its type does not have"),
        }
    }
}

impl std::error::Error for Malformed {}

/// The bytes missing from `len_bytes` to the next multiple of four.
pub const fn pad_bytes(len_bytes: usize) -> usize {
    len_bytes.wrapping_neg() & 3
}

/// Where `inner`, a slice cut out of `outer`, begins in it. It lets a caller that owns the buffer of a message keep a
/// range of that buffer instead of a borrow of a decoded field.
pub fn offset_in(outer: &[u8], inner: &[u8]) -> Option<usize> {
    let at = (inner.as_ptr() as usize).checked_sub(outer.as_ptr() as usize)?;
    (at.checked_add(inner.len())? <= outer.len()).then_some(at)
}

/// Decodes one item that must fill `bytes` to the end.
pub fn decode_all<'a, T: Xdr<'a>>(bytes: &'a [u8]) -> Result<T, Malformed> {
    let mut r = Reader::new(bytes);
    let item = T::decode(&mut r)?;
    if r.remaining() == 0 { Ok(item) } else { Err(Malformed::TooLong) }
}

/// One item as bytes of its own, for tests and for messages that are not hot.
pub fn to_vec<'a>(item: &impl Xdr<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    item.put(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_reaches_the_next_word() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(pad_bytes), [0, 3, 2, 1, 0, 3]);
        assert_eq!(pad_bytes(usize::MAX), 1);
    }

    #[test]
    fn a_cut_out_slice_is_found_in_its_buffer() {
        let buffer = [0u8; 16];
        assert_eq!(offset_in(&buffer, &buffer[4..9]), Some(4));
        assert_eq!(offset_in(&buffer, &buffer[16..]), Some(16));
        assert_eq!(offset_in(&buffer[4..], &buffer[..2]), None);
        assert_eq!(offset_in(&buffer[..4], &buffer[2..8]), None);
    }

    #[test]
    fn nothing_may_follow_a_whole_item() {
        assert_eq!(decode_all::<u32>(&[0, 0, 0, 1]), Ok(1));
        assert_eq!(decode_all::<u32>(&[0, 0, 0, 1, 0]), Err(Malformed::TooLong));
        assert_eq!(decode_all::<u32>(&[0, 0, 0]), Err(Malformed::Truncated));
    }
}
