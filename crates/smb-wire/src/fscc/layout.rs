//! How the fixed structures of MS-FSCC are laid out, once for all of them: fields one after the other, then padding, and
//! chains of entries linked by NextEntryOffset. The information classes themselves are in the files beside this one.

use super::flags::{AccessMask, DispositionFlags, FileAttributes, FileMode, FsAttributes};
use super::time::FileTime;
use crate::codec::{Put, Reader, Truncated};
use crate::status::NtStatus;

/// What is wrong with an information buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsccError {
    /// Shorter than the fixed part of its class, or than a length inside it says.
    Truncated,
    /// A field has a value that makes no sense.
    Malformed,
}

impl FsccError {
    /// The status that usually answers it: STATUS_INFO_LENGTH_MISMATCH (MS-SMB2 3.3.5.20.1, 3.3.5.21.1) or
    /// STATUS_INVALID_PARAMETER.
    pub const fn status(self) -> NtStatus {
        match self {
            Self::Truncated => NtStatus::INFO_LENGTH_MISMATCH,
            Self::Malformed => NtStatus::INVALID_PARAMETER,
        }
    }
}

impl From<Truncated> for FsccError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

impl std::fmt::Display for FsccError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the information buffer is too short",
            Self::Malformed => "the information buffer contradicts itself",
        })
    }
}

impl std::error::Error for FsccError {}

/// One field of a fixed structure.
pub(super) trait Field: Sized {
    fn take(from: &mut Reader<'_>) -> Result<Self, Truncated>;
    fn put<P: Put + ?Sized>(&self, out: &mut P);
}

macro_rules! number_fields {
    ($($kind:ident: $put:ident),*) => {
        $(impl Field for $kind {
            fn take(from: &mut Reader<'_>) -> Result<Self, Truncated> {
                from.$kind()
            }
            fn put<P: Put + ?Sized>(&self, out: &mut P) {
                out.$put(*self);
            }
        })*
    };
}

macro_rules! flag_fields {
    ($($kind:ident),*) => {
        $(impl Field for $kind {
            fn take(from: &mut Reader<'_>) -> Result<Self, Truncated> {
                from.u32().map(Self::from_bits_retain)
            }
            fn put<P: Put + ?Sized>(&self, out: &mut P) {
                out.put_u32(self.bits());
            }
        })*
    };
}

number_fields!(u8: put_u8, u16: put_u16, u32: put_u32, u64: put_u64, u128: put_u128);
flag_fields!(FileAttributes, AccessMask, FileMode, DispositionFlags, FsAttributes);

impl Field for bool {
    fn take(from: &mut Reader<'_>) -> Result<Self, Truncated> {
        from.u8().map(|byte| byte != 0)
    }
    fn put<P: Put + ?Sized>(&self, out: &mut P) {
        out.put_u8(u8::from(*self));
    }
}

impl Field for FileTime {
    fn take(from: &mut Reader<'_>) -> Result<Self, Truncated> {
        from.u64().map(Self)
    }
    fn put<P: Put + ?Sized>(&self, out: &mut P) {
        out.put_u64(self.0);
    }
}

impl<const N: usize> Field for [u8; N] {
    fn take(from: &mut Reader<'_>) -> Result<Self, Truncated> {
        from.array()
    }
    fn put<P: Put + ?Sized>(&self, out: &mut P) {
        out.put_bytes(self);
    }
}

/// Defines structures of fixed fields and padding at the end. Padding is written, and not asked for when reading: some
/// clients leave it out.
macro_rules! fixed_info {
    ($($(#[$doc:meta])* $name:ident[$len:literal] { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $kind,)*
            }

            impl $name {
                /// Bytes on the wire, padding included.
                pub const LEN: usize = $len;

                const PAD: usize = Self::LEN - (0 $(+ size_of::<<$kind as $crate::fscc::layout::Wire>::Bytes>())*);

                /// Reads it from the front of `bytes`.
                pub fn decode(bytes: &[u8]) -> Result<Self, $crate::codec::Truncated> {
                    Self::take(&mut $crate::codec::Reader::new(bytes))
                }

                /// Reads it without its padding.
                pub(super) fn take(from: &mut $crate::codec::Reader<'_>) -> Result<Self, $crate::codec::Truncated> {
                    Ok(Self { $($field: $crate::fscc::layout::Field::take(from)?,)* })
                }

                /// Writes it, [`Self::LEN`] bytes.
                pub fn encode<P: $crate::codec::Put + ?Sized>(&self, out: &mut P) {
                    $($crate::fscc::layout::Field::put(&self.$field, out);)*
                    out.put_zeros(Self::PAD);
                }
            }
        )*
    };
}
pub(super) use fixed_info;

/// How wide a field is on the wire.
pub(super) trait Wire {
    type Bytes;
}

macro_rules! widths {
    ($($kind:ty: $len:literal),*) => {
        $(impl Wire for $kind {
            type Bytes = [u8; $len];
        })*
    };
}

widths!(u8: 1, u16: 2, u32: 4, u64: 8, u128: 16, bool: 1, FileTime: 8, FileAttributes: 4, AccessMask: 4, FileMode: 4,
        DispositionFlags: 4, FsAttributes: 4, [u8; 16]: 16, [u8; 48]: 48);

/// Walks entries that begin with NextEntryOffset, 0 in the last one (MS-FSCC 2.4). Each item is one entry with that
/// field. It only ever moves forward, so it ends.
#[derive(Debug, Clone)]
pub struct Chain<'a> {
    left: Option<&'a [u8]>,
}

impl<'a> Chain<'a> {
    /// The entries in `bytes`; no bytes are no entries.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: (!bytes.is_empty()).then_some(bytes) }
    }
}

impl<'a> Iterator for Chain<'a> {
    type Item = Result<&'a [u8], FsccError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.left.take()?;
        let next = match Reader::new(bytes).u32() {
            Ok(next) => usize::try_from(next).unwrap_or(usize::MAX),
            Err(short) => return Some(Err(short.into())),
        };
        match next {
            0 => Some(Ok(bytes)),
            1..4 => Some(Err(FsccError::Malformed)),
            _ => Some(match bytes.split_at_checked(next) {
                Some((entry, rest)) => {
                    self.left = Some(rest);
                    Ok(entry)
                }
                None => Err(FsccError::Truncated),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_at_zero() {
        let bytes = [8, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 2];
        let entries: Vec<_> = Chain::new(&bytes).collect();
        assert_eq!(entries, [Ok(&bytes[..8]), Ok(&bytes[8..])]);
        assert_eq!(Chain::new(&[]).next(), None);
    }

    #[test]
    fn a_chain_that_leads_astray_is_an_error_once() {
        for (bytes, error) in [
            (&[9, 0, 0, 0, 1, 1, 1, 1][..], FsccError::Truncated),
            (&[1, 0, 0, 0][..], FsccError::Malformed),
            (&[0xff, 0xff, 0xff, 0xff, 0][..], FsccError::Truncated),
            (&[0, 0][..], FsccError::Truncated),
        ] {
            assert_eq!(Chain::new(bytes).collect::<Vec<_>>(), [Err(error)]);
        }
        // Points exactly at the end: the entry is whole, the next one is missing.
        let two: Vec<_> = Chain::new(&[4, 0, 0, 0]).collect();
        assert_eq!(two, [Ok(&[4, 0, 0, 0][..]), Err(FsccError::Truncated)]);
    }
}
