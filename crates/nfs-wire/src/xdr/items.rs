//! The items without a name of their own: numbers, opaque data, optional data and arrays. An array is a [`List`], which
//! is either a slice of the sender's or a checked piece of the message that is decoded again while it is walked: a
//! receiver allocates nothing, whatever count it was told.

use super::{Malformed, Put, Reader, Xdr};

macro_rules! numbers {
    ($($type:ident $put:ident)*) => {$(
        impl<'a> Xdr<'a> for $type {
            fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
                r.$type()
            }

            fn put(&self, out: &mut (impl Put + ?Sized)) {
                out.$put(*self);
            }
        }
    )*};
}

numbers! { u32 put_u32 i32 put_i32 u64 put_u64 i64 put_i64 bool put_bool }

impl<'a> Xdr<'a> for () {
    fn decode(_: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(())
    }

    fn put(&self, _: &mut (impl Put + ?Sized)) {}
}

impl<'a, A: Xdr<'a>, B: Xdr<'a>> Xdr<'a> for (A, B) {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok((A::decode(r)?, B::decode(r)?))
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        self.0.put(out);
        self.1.put(out);
    }
}

/// Opaque data of a fixed length.
impl<'a, const N: usize> Xdr<'a> for [u8; N] {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.fixed()
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_fixed(self);
    }
}

/// Opaque data or a string without a bound but the message's end.
impl<'a> Xdr<'a> for &'a [u8] {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.opaque(usize::MAX)
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_opaque(self);
    }
}

/// Optional data (RFC 4506 4.19), and equally an array of at most one element.
impl<'a, T: Xdr<'a>> Xdr<'a> for Option<T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        match r.u32()? {
            0 => Ok(None),
            1 => T::decode(r).map(Some),
            _ => Err(Malformed::Value("optional")),
        }
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_bool(self.is_some());
        if let Some(item) = self {
            item.put(out);
        }
    }
}

/// Opaque data or a string of at most `MAX` bytes; a longer one is [`Malformed::TooLong`] to a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Bounded<'a, const MAX: usize>(pub &'a [u8]);

impl<const MAX: usize> std::ops::Deref for Bounded<'_, MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl<'a, const MAX: usize> Xdr<'a> for Bounded<'a, MAX> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        r.opaque(MAX).map(Self)
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_opaque(self.0);
    }
}

/// An array of any length (RFC 4506 4.13).
#[derive(Clone, Copy)]
pub struct List<'a, T>(Items<'a, T>);

#[derive(Clone, Copy)]
enum Items<'a, T> {
    /// To be sent.
    Slice(&'a [T]),
    /// Received: the elements as they came, each already decoded once without error.
    Wire { count: usize, bytes: &'a [u8] },
}

impl<'a, T> List<'a, T> {
    /// The elements of a slice.
    pub const fn new(items: &'a [T]) -> Self {
        Self(Items::Slice(items))
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        match self.0 {
            Items::Slice(items) => items.len(),
            Items::Wire { count, .. } => count,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a, T: Xdr<'a> + Copy> List<'a, T> {
    /// The elements in order.
    pub fn iter(&self) -> ListIter<'a, T> {
        match self.0 {
            Items::Slice(items) => ListIter::Slice(items.iter()),
            Items::Wire { count, bytes } => ListIter::Wire { left: count, r: Reader::new(bytes) },
        }
    }
}

impl<'a, T: Xdr<'a> + Copy> IntoIterator for List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

/// Walks a [`List`].
#[derive(Debug, Clone)]
pub enum ListIter<'a, T> {
    /// Over what is to be sent.
    Slice(std::slice::Iter<'a, T>),
    /// Over what was received.
    Wire {
        /// Elements still to come.
        left: usize,
        /// Where the next begins.
        r: Reader<'a>,
    },
}

impl<'a, T: Xdr<'a> + Copy> Iterator for ListIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Slice(items) => items.next().copied(),
            Self::Wire { left, r } => {
                *left = left.checked_sub(1)?;
                T::decode(r).ok()
            }
        }
    }
}

impl<'a, T: Xdr<'a> + Copy> Xdr<'a> for List<'a, T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        // No element is shorter than a word, so that a lying count ends here and not in a long loop.
        let count = r.count(usize::MAX, 4)?;
        let start = r.position();
        for _ in 0..count {
            T::decode(r)?;
        }
        Ok(Self(Items::Wire { count, bytes: r.since(start) }))
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        out.put_u32(self.len() as u32);
        match self.0 {
            Items::Wire { bytes, .. } => out.put_bytes(bytes),
            Items::Slice(items) => items.iter().for_each(|item| item.put(out)),
        }
    }
}

impl<'a, T: Xdr<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a, T: Xdr<'a> + Copy + Eq> Eq for List<'a, T> {}

impl<'a, T: Xdr<'a> + Copy + std::fmt::Debug> std::fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decode_all, to_vec};
    use super::*;

    #[test]
    fn a_list_is_the_same_from_a_slice_and_from_the_wire() {
        let names: [&[u8]; 3] = [b"a", b"", b"bcdef"];
        let bytes = to_vec(&List::new(&names));
        assert_eq!(bytes, b"\0\0\0\x03\0\0\0\x01a\0\0\0\0\0\0\0\0\0\0\x05bcdef\0\0\0");
        let list: List<'_, &[u8]> = decode_all(&bytes).unwrap();
        assert_eq!(list, List::new(&names));
        assert_eq!(list.iter().collect::<Vec<_>>(), names);
        assert_eq!(to_vec(&list), bytes);
        for end in 0..bytes.len() {
            assert!(decode_all::<List<'_, &[u8]>>(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_lying_count_is_refused_at_once() {
        for count in [2u32, 1 << 30, u32::MAX] {
            let mut bytes = count.to_be_bytes().to_vec();
            bytes.extend([0; 4]);
            assert_eq!(decode_all::<List<'_, u32>>(&bytes), Err(Malformed::Truncated));
            assert_eq!(decode_all::<List<'_, u64>>(&bytes), Err(Malformed::Truncated));
        }
    }

    #[test]
    fn optional_data_are_there_or_not() {
        assert_eq!(to_vec(&Some(5u32)), [0, 0, 0, 1, 0, 0, 0, 5]);
        assert_eq!(to_vec(&None::<u32>), [0; 4]);
        assert_eq!(decode_all(&[0, 0, 0, 1, 0, 0, 0, 5]), Ok(Some(5u32)));
        assert_eq!(decode_all::<Option<u32>>(&[0, 0, 0, 2, 0, 0, 0, 5]), Err(Malformed::Value("optional")));
    }

    #[test]
    fn a_bound_holds() {
        assert_eq!(decode_all(b"\0\0\0\x02ab\0\0"), Ok(Bounded::<2>(b"ab")));
        assert_eq!(decode_all::<Bounded<'_, 1>>(b"\0\0\0\x02ab\0\0"), Err(Malformed::TooLong));
    }
}
