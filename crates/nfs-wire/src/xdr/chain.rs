//! Linked lists (RFC 4506 4.19): each element announced by a true, the end by a false. Like [`super::List`] one is
//! either a slice to be sent or a checked piece of a message, and costs no allocation.

use super::{Malformed, Put, Reader, Xdr};

/// A linked list of any length.
#[derive(Clone, Copy)]
pub struct Chain<'a, T>(Links<'a, T>);

#[derive(Clone, Copy)]
enum Links<'a, T> {
    Slice(&'a [T]),
    /// The elements as they came with the word before each, and the word that ends them.
    Wire(&'a [u8]),
}

impl<'a, T> Chain<'a, T> {
    /// The elements of a slice.
    pub const fn new(items: &'a [T]) -> Self {
        Self(Links::Slice(items))
    }
}

impl<T> Default for Chain<'_, T> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a, T: Xdr<'a> + Copy> Chain<'a, T> {
    /// The elements in order.
    pub fn iter(&self) -> ChainIter<'a, T> {
        match self.0 {
            Links::Slice(items) => ChainIter::Slice(items.iter()),
            Links::Wire(bytes) => ChainIter::Wire(Reader::new(bytes)),
        }
    }
}

impl<'a, T: Xdr<'a> + Copy> IntoIterator for Chain<'a, T> {
    type Item = T;
    type IntoIter = ChainIter<'a, T>;

    fn into_iter(self) -> ChainIter<'a, T> {
        self.iter()
    }
}

/// Walks a [`Chain`].
#[derive(Debug, Clone)]
pub enum ChainIter<'a, T> {
    /// Over what is to be sent.
    Slice(std::slice::Iter<'a, T>),
    /// Over what was received.
    Wire(Reader<'a>),
}

impl<'a, T: Xdr<'a> + Copy> Iterator for ChainIter<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::Slice(items) => items.next().copied(),
            Self::Wire(r) => Option::decode(r).ok().flatten(),
        }
    }
}

impl<'a, T: Xdr<'a> + Copy> Xdr<'a> for Chain<'a, T> {
    fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let start = r.position();
        while Option::<T>::decode(r)?.is_some() {}
        Ok(Self(Links::Wire(r.since(start))))
    }

    fn put(&self, out: &mut (impl Put + ?Sized)) {
        match self.0 {
            Links::Wire(bytes) => out.put_bytes(bytes),
            Links::Slice(items) => {
                for item in items {
                    out.put_bool(true);
                    item.put(out);
                }
                out.put_bool(false);
            }
        }
    }
}

impl<'a, T: Xdr<'a> + Copy + PartialEq> PartialEq for Chain<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Xdr<'a> + Copy + Eq> Eq for Chain<'a, T> {}

impl<'a, T: Xdr<'a> + Copy + std::fmt::Debug> std::fmt::Debug for Chain<'a, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::is_on_the_wire;

    #[test]
    fn each_element_is_announced() {
        is_on_the_wire(&Chain::new(&[7u32, 8]), b"\0\0\0\x01\0\0\0\x07\0\0\0\x01\0\0\0\x08\0\0\0\0");
        is_on_the_wire(&Chain::<u32>::default(), &[0; 4]);
    }
}
