//! The macros that turn an XDR description, written as the Rust type it becomes, into that type with both directions of
//! its codec. They are to be read beside the RFC's `.x` text: fields in order, nothing else. Used by every module of
//! this crate and by nothing outside it.

/// A struct whose fields travel one after the other (RFC 4506 4.14).
macro_rules! xdr_struct {
    ($($(#[$meta:meta])* pub struct $name:ident $(<$lt:lifetime>)? {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name $(<$lt>)? {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        xdr_struct!(@codec $name $(<$lt>)? { $($field),* });
    )*};
    (@codec $name:ident <$lt:lifetime> { $($field:ident),* }) => {
        impl<$lt> $crate::xdr::Xdr<$lt> for $name<$lt> {
            fn decode(r: &mut $crate::xdr::Reader<$lt>) -> Result<Self, $crate::xdr::Malformed> {
                Ok(Self { $($field: $crate::xdr::Xdr::decode(r)?),* })
            }

            fn put(&self, out: &mut (impl $crate::xdr::Put + ?Sized)) {
                $($crate::xdr::Xdr::put(&self.$field, out);)*
            }
        }
    };
    (@codec $name:ident { $($field:ident),* }) => {
        impl<'a> $crate::xdr::Xdr<'a> for $name {
            fn decode(r: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::Malformed> {
                Ok(Self { $($field: $crate::xdr::Xdr::decode(r)?),* })
            }

            fn put(&self, out: &mut (impl $crate::xdr::Put + ?Sized)) {
                $($crate::xdr::Xdr::put(&self.$field, out);)*
            }
        }
    };
}

/// An enumeration (RFC 4506 4.3); a value that is not listed is malformed.
macro_rules! xdr_enum {
    ($($(#[$meta:meta])* pub enum $name:ident { $($(#[$var_meta:meta])* $variant:ident = $value:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$var_meta])* $variant = $value,)*
        }

        impl $name {
            /// The variant with this number.
            pub const fn from_u32(value: u32) -> Option<Self> {
                match value {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name {
            fn decode(r: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::Malformed> {
                Self::from_u32(r.u32()?).ok_or($crate::xdr::Malformed::Value(stringify!($name)))
            }

            fn put(&self, out: &mut (impl $crate::xdr::Put + ?Sized)) {
                out.put_u32(*self as u32);
            }
        }
    )*};
}

/// A word of flags; bits without a name are kept.
macro_rules! xdr_flags {
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[doc = $flag_doc:literal])* $flag:ident = $value:expr,)*
    })*) => {$(
        bitflags::bitflags! {
            $(#[$meta])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
            pub struct $name: u32 {
                $($(#[doc = $flag_doc])* const $flag = $value;)*
            }
        }

        impl<'a> $crate::xdr::Xdr<'a> for $name {
            fn decode(r: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::Malformed> {
                Ok(Self::from_bits_retain(r.u32()?))
            }

            fn put(&self, out: &mut (impl $crate::xdr::Put + ?Sized)) {
                out.put_u32(self.bits());
            }
        }
    )*};
}

/// A status word: any number travels, the listed ones have a name and a constant.
macro_rules! xdr_status {
    ($(#[$meta:meta])* pub struct $name:ident($prefix:literal) {
        $($constant:ident = $value:literal, $wire:literal, $doc:literal;)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u32);

        impl $name {
            $(#[doc = $doc] pub const $constant: Self = Self($value);)*

            /// The name in the RFC, for a status listed there.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($wire),)*
                    _ => None,
                }
            }

            /// Every status with a name.
            pub const ALL: &[Self] = &[$(Self($value)),*];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!($prefix, "_{}"), self.0),
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::error::Error for $name {}

        impl<'a> $crate::xdr::Xdr<'a> for $name {
            fn decode(r: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::Malformed> {
                Ok(Self(r.u32()?))
            }

            fn put(&self, out: &mut (impl $crate::xdr::Put + ?Sized)) {
                out.put_u32(self.0);
            }
        }
    };
}

/// A union of a result and nothing, told apart by a status (`xdr_status!`) that is 0 for the result.
macro_rules! xdr_result {
    ($status:ident) => {
        impl<'a, T: $crate::xdr::Xdr<'a>> $crate::xdr::Xdr<'a> for Result<T, $status> {
            fn decode(r: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::Malformed> {
                match $status::decode(r)? {
                    $status::OK => T::decode(r).map(Ok),
                    failed => Ok(Err(failed)),
                }
            }

            fn put(&self, out: &mut (impl $crate::xdr::Put + ?Sized)) {
                match self {
                    Ok(item) => {
                        $status::OK.put(out);
                        item.put(out);
                    }
                    // A failure that says it is none would make the peer read results that are not there.
                    Err($status::OK) => $status::SERVERFAULT.put(out),
                    Err(failed) => failed.put(out),
                }
            }
        }
    };
}
