//! `bitmap4` (RFC 7530 2.2): words of bits, as many as the sender likes. Three words are kept, which hold every
//! attribute there is; that a bit lies beyond them is remembered, not where.

use super::Attr;
use crate::xdr::{Malformed, Put, Reader, Xdr};

/// A set of small numbers: attributes, operations, hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bitmap {
    words: [u32; 3],
    beyond: bool,
}

impl Bitmap {
    /// Nothing.
    pub const EMPTY: Self = Self { words: [0; 3], beyond: false };

    /// These words, the lowest numbers in the first.
    pub const fn from_words(words: [u32; 3]) -> Self {
        Self { words, beyond: false }
    }

    /// The set of some attributes.
    pub fn of(attrs: &[Attr]) -> Self {
        attrs.iter().fold(Self::EMPTY, |set, &attr| set.with(attr as u32))
    }

    /// This and one more; numbers from 96 on cannot be held.
    pub fn with(mut self, bit: u32) -> Self {
        if let Some(word) = self.words.get_mut(bit as usize / 32) {
            *word |= 1 << (bit % 32);
        }
        self
    }

    /// This without one.
    pub fn without(mut self, bit: u32) -> Self {
        if let Some(word) = self.words.get_mut(bit as usize / 32) {
            *word &= !(1 << (bit % 32));
        }
        self
    }

    /// Whether the number is in the set.
    pub fn contains(&self, bit: u32) -> bool {
        self.words.get(bit as usize / 32).is_some_and(|word| word >> (bit % 32) & 1 == 1)
    }

    /// Whether the attribute is in the set.
    pub fn has(&self, attr: Attr) -> bool {
        self.contains(attr as u32)
    }

    /// What is in both.
    pub fn and(&self, other: &Self) -> Self {
        let [a, b, c] = self.words;
        let [x, y, z] = other.words;
        Self::from_words([a & x, b & y, c & z])
    }

    /// What is in either.
    pub fn or(&self, other: &Self) -> Self {
        let [a, b, c] = self.words;
        let [x, y, z] = other.words;
        Self { words: [a | x, b | y, c | z], beyond: self.beyond | other.beyond }
    }

    /// What is in this and not in `other`.
    pub fn minus(&self, other: &Self) -> Self {
        let [a, b, c] = self.words;
        let [x, y, z] = other.words;
        Self { words: [a & !x, b & !y, c & !z], beyond: self.beyond }
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Whether the sender set a bit from 96 on.
    pub fn is_beyond(&self) -> bool {
        self.beyond
    }

    /// The words.
    pub const fn words(&self) -> [u32; 3] {
        self.words
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> Bits {
        Bits { words: self.words }
    }

    /// How many words travel: none behind the last bit.
    pub(super) fn wire_words(&self) -> usize {
        self.words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1)
    }
}

/// Walks a [`Bitmap`].
#[derive(Debug, Clone)]
pub struct Bits {
    words: [u32; 3],
}

impl Iterator for Bits {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (index, word) = self.words.iter_mut().enumerate().find(|(_, word)| **word != 0)?;
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(index as u32 * 32 + bit)
    }
}

impl<'a> Xdr<'a> for Bitmap {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = r.count(usize::MAX, 4)?;
        let mut set = Self::EMPTY;
        for index in 0..count {
            let word = r.u32()?;
            match set.words.get_mut(index) {
                Some(place) => *place = word,
                None => set.beyond |= word != 0,
            }
        }
        Ok(set)
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        let count = self.wire_words();
        out.put_u32(count as u32);
        self.words.iter().take(count).for_each(|&word| out.put_u32(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{is_on_the_wire, unhex};
    use crate::xdr::decode_all;

    #[test]
    fn bitmaps_by_hand() {
        is_on_the_wire(&Bitmap::EMPTY, &[0; 4]);
        is_on_the_wire(&Bitmap::of(&[Attr::Type, Attr::Size]), &unhex("00000001 00000012"));
        let set = Bitmap::of(&[Attr::Type, Attr::Mode, Attr::SuppattrExclcreat]);
        is_on_the_wire(&set, &unhex("00000003 00000002 00000002 00000800"));
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 33, 75]);
        assert!(set.has(Attr::Mode) && !set.has(Attr::Owner));
    }

    #[test]
    fn words_beyond_the_third_are_noticed() {
        let zeros = decode_all::<Bitmap>(&unhex("00000005 00000001 00000000 00000000 00000000 00000000")).unwrap();
        assert_eq!(zeros, Bitmap::EMPTY.with(0));
        let more = decode_all::<Bitmap>(&unhex("00000004 00000000 00000000 00000000 00000001")).unwrap();
        assert!(more.is_beyond() && !more.is_empty());
        assert_eq!(decode_all::<Bitmap>(&unhex("40000000 00000000")), Err(Malformed::Truncated));
    }

    #[test]
    fn sets_combine() {
        let (a, b) = (Bitmap::EMPTY.with(1).with(40), Bitmap::EMPTY.with(40).with(70));
        assert_eq!(a.and(&b).iter().collect::<Vec<_>>(), [40]);
        assert_eq!(a.or(&b).iter().collect::<Vec<_>>(), [1, 40, 70]);
        assert_eq!(a.minus(&b).iter().collect::<Vec<_>>(), [1]);
        assert_eq!(a.without(1).without(200).with(200), Bitmap::EMPTY.with(40));
        assert!(!a.contains(200));
    }
}
