//! Attributes of NFSv4 (RFC 7530 5, RFC 8881 5, RFC 7862 12.2, RFC 8276, RFC 9754). On the wire they are a bitmap and
//! the values one after the other ([`Fattr`]). A server that answers GETATTR or READDIR implements [`AttrSource`] and
//! calls [`put_fattr`], which writes values in place; [`Attrs`] holds decoded ones and is a source as well.

mod acl;
mod bitmap;
mod fattr;
mod parts;
mod table;

pub use acl::{Ace, AceFlags, AceMask, AceType, AclFlags, AclSupport, NfsAcl41};
pub use bitmap::{Bitmap, Bits};
pub use fattr::{AttrSource, Fattr, FattrError, put_fattr};
pub use parts::{
    ChangeAttrType, ChangePolicy, FsLocation, FsLocations, FsLocationsInfo, FsLocationsItem, FsLocationsServer,
    FsStatus, LayoutHint, ModeMasked, ModeUmask, OpenArguments, RetentionGet, RetentionSet, SecLabel, ThresholdItem,
};
pub use table::{Attr, Attrs};
