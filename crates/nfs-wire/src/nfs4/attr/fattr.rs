//! `fattr4` (RFC 7530 2.2.1): a bitmap and values. Values are written one by one by whoever has them, straight into the
//! reply; the bitmap in front says afterwards which were there.

use super::{Attr, Attrs, Bitmap};
use crate::xdr::{Malformed, Put, Reader};

xdr_struct! {
    /// Attributes as they travel, not yet decoded.
    pub struct Fattr<'a> {
        /// Which.
        mask: Bitmap,
        /// Their values in ascending order.
        values: &'a [u8],
    }
}

impl Fattr<'_> {
    /// No attribute.
    pub const NONE: Self = Self { mask: Bitmap::EMPTY, values: &[] };
}

/// Why attributes cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FattrError {
    /// A value is not what its attribute has, or bytes are left over: BADXDR.
    Malformed(Malformed),
    /// There is an attribute nobody here knows, so that the values behind it cannot be found: ATTRNOTSUPP.
    NotKnown,
}

impl From<Malformed> for FattrError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl<'a> Fattr<'a> {
    /// Decodes the values.
    pub fn attrs(&self) -> Result<Attrs<'a>, FattrError> {
        let known = |bit| Attr::from_u32(bit).ok_or(FattrError::NotKnown);
        if self.mask.is_beyond() {
            return Err(FattrError::NotKnown);
        }
        let (mut attrs, mut r) = (Attrs::default(), Reader::new(self.values));
        for bit in self.mask.iter() {
            attrs.decode_one(known(bit)?, &mut r)?;
        }
        if r.remaining() > 0 {
            return Err(Malformed::TooLong.into());
        }
        Ok(attrs)
    }
}

/// Something that has attributes.
pub trait AttrSource {
    /// Appends the value of `attr` and answers true, or appends nothing and answers false when there is none.
    fn put_attr(&self, attr: Attr, out: &mut (impl Put + ?Sized)) -> bool;
}

/// Appends as `fattr4` those of the requested attributes that `source` has. Answers which.
pub fn put_fattr(request: &Bitmap, source: &impl AttrSource, out: &mut (impl Put + ?Sized)) -> Bitmap {
    let count = request.wire_words();
    out.put_u32(count as u32);
    let words_at = out.len();
    out.put_zeros(count * 4);
    let values = out.begin_opaque();
    let mut written = Bitmap::EMPTY;
    for attr in request.iter().filter_map(Attr::from_u32) {
        if source.put_attr(attr, out) {
            written = written.with(attr as u32);
        }
    }
    out.end_opaque(values);
    for (index, word) in written.words().into_iter().take(count).enumerate() {
        out.patch_u32(words_at + index * 4, word);
    }
    written
}

/// Attributes to be sent by who holds them decoded.
impl Attrs<'_> {
    /// Appends all of them as `fattr4`.
    pub fn put(&self, out: &mut (impl Put + ?Sized)) {
        put_fattr(&self.mask(), self, out);
    }

    /// The values alone, for a [`Fattr`] that borrows them.
    pub fn to_values(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for attr in self.mask().iter().filter_map(Attr::from_u32) {
            self.put_attr(attr, &mut out);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{FileType, Time};
    use super::*;
    use crate::testing::{hex, is_on_the_wire, unhex};
    use crate::xdr::decode_all;

    #[test]
    fn attributes_by_hand() {
        let attrs = Attrs {
            file_type: Some(FileType::Regular),
            size: Some(5),
            mode: Some(0o644),
            owner: Some(b"root@x"),
            time_modify: Some(Time { seconds: 1, nanoseconds: 2 }),
            ..Attrs::default()
        };
        let mut out = Vec::new();
        attrs.put(&mut out);
        // Type and size in the first word; mode (33), owner (36), time_modify (53) in the second.
        let text = "00000002 00000012 00200012 00000028 00000001 00000000 00000005 000001a4 00000006 726f6f74 40780000 \
                    00000000 00000001 00000002";
        assert_eq!(hex(&out), text);
        let bytes = unhex(text);
        let fattr: Fattr<'_> = decode_all(&bytes).unwrap();
        assert_eq!(fattr.attrs(), Ok(attrs));
        let values = attrs.to_values();
        is_on_the_wire(&Fattr { mask: attrs.mask(), values: &values }, &bytes);
    }

    #[test]
    fn what_the_source_has_not_is_not_in_the_bitmap() {
        let attrs = Attrs { size: Some(5), ..Attrs::default() };
        let mut out = Vec::new();
        let written = put_fattr(&Bitmap::of(&[Attr::Size, Attr::Mode, Attr::XattrSupport]), &attrs, &mut out);
        assert_eq!(written, Bitmap::of(&[Attr::Size]));
        assert_eq!(hex(&out), "00000003 00000010 00000000 00000000 00000008 00000000 00000005");
        let fattr: Fattr<'_> = decode_all(&out).unwrap();
        assert_eq!(fattr.attrs(), Ok(attrs));
    }

    #[test]
    fn any_values_are_decoded_without_a_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let mut values = Vec::new();
            for _ in 0..random() % 64 {
                // Small words, so that counts and lengths often fit and decoding goes on.
                values.put_u32(if random() % 8 == 0 { random() as u32 } else { (random() % 4) as u32 });
            }
            let mask = Bitmap::from_words([random() as u32 & random() as u32, random() as u32 & random() as u32, 0]);
            let more = Bitmap::from_words([0, 0, random() as u32 & 0x007f_ffff]);
            for mask in [mask, more, Bitmap::EMPTY.with((random() % 87) as u32)] {
                let fattr = Fattr { mask, values: &values };
                if let Ok(attrs) = fattr.attrs() {
                    let again = attrs.to_values();
                    assert_eq!(Fattr { mask, values: &again }.attrs(), Ok(attrs));
                }
            }
        }
    }

    #[test]
    fn values_fill_their_bytes_exactly() {
        let mask = Bitmap::of(&[Attr::Size]);
        let attrs = |mask, values| Fattr { mask, values }.attrs();
        assert_eq!(attrs(mask, &[0; 12]), Err(FattrError::Malformed(Malformed::TooLong)));
        assert_eq!(attrs(mask, &[0; 4]), Err(FattrError::Malformed(Malformed::Truncated)));
        assert_eq!(attrs(mask.with(95), &[0; 12]), Err(FattrError::NotKnown));
        let beyond = decode_all(&unhex("00000004 00000000 00000000 00000000 00000001")).unwrap();
        assert_eq!(attrs(beyond, &[0; 12]), Err(FattrError::NotKnown));
    }
}
