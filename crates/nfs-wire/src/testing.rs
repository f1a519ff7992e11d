//! What the tests of every codec here share: an item survives the wire and its truncation at each length.

use crate::xdr::{Malformed, Reader, Xdr, decode_all, to_vec};

/// Checks that `item`, encoded, decodes to itself and that no shorter message does.
macro_rules! survives {
    ($item:expr, $type:ty) => {{
        let item: $type = $item;
        let bytes = $crate::xdr::to_vec(&item);
        $crate::testing::is_on_the_wire::<$type>(&item, &bytes);
    }};
}

pub(crate) use survives;

/// Checks that `bytes` are `item`, in both directions and cut at every length.
#[track_caller]
pub fn is_on_the_wire<'a, T: Xdr<'a> + PartialEq + std::fmt::Debug>(item: &T, bytes: &'a [u8]) {
    assert_eq!(hex(&to_vec(item)), hex(bytes), "encoded");
    assert_eq!(decode_all::<T>(bytes).as_ref(), Ok(item), "decoded");
    is_cut_everywhere::<T>(bytes);
}

/// Checks that no prefix of `bytes` is a whole item.
#[track_caller]
pub fn is_cut_everywhere<'a, T: Xdr<'a> + std::fmt::Debug>(bytes: &'a [u8]) {
    for end in 0..bytes.len() {
        let part = bytes.get(..end).unwrap_or_default();
        assert_eq!(T::decode(&mut Reader::new(part)).err(), Some(Malformed::Truncated), "cut at {end}");
    }
}

/// Bytes written as hexadecimal digits; spaces and line ends are for the reader.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Bytes as hexadecimal words, which a failed comparison can be read in.
pub fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes.chunks(4).map(|w| w.iter().map(|b| format!("{b:02x}")).collect()).collect();
    words.join(" ")
}
