//! Attributes a client wants set (RFC 8881 5.5, 18.30): taken apart, checked, and applied. SETATTR, CREATE and OPEN use
//! it.

use nfs_wire::nfs4::attr::{Ace, ModeUmask};
use nfs_wire::nfs4::{Attr as A, Bitmap, Fattr, NfsStat4, SetTime, Time};
use nfs_wire::xdr::List;
use vfs::{Attr, Node, SetAttr, Timestamp};

use super::acl;
use super::failure::Done;
use super::owners::id_of;
use super::view::{writable, write_only};
use crate::attr::MAX_FILE_BYTES;
use crate::files::Cx;
use crate::groups::IdKind;

const NANOS: u32 = 1_000_000_000;
const MODE_BITS: u32 = 0o7777;

/// What is to be set.
#[derive(Debug, Default, Clone)]
pub(crate) struct Wanted {
    /// Everything but the ACL.
    pub set: SetAttr,
    /// The access control list.
    pub acl: Option<Vec<acl::Entry>>,
    /// Which attributes that is.
    pub mask: Bitmap,
}

impl Wanted {
    /// Takes attributes apart. `supported`: what the object has; `may`: what of it this operation sets, by which an
    /// attribute that can only be read is INVAL and one that nobody has ATTRNOTSUPP (RFC 8881 5.5, 18.30.4).
    /// WouldBlock where a name is to be looked up and nothing may wait.
    pub fn of(cx: &Cx, given: &Fattr<'_>, supported: &Bitmap, may: &Bitmap) -> Done<Self> {
        let mask = given.mask;
        if mask.is_beyond() || !mask.minus(&supported.or(&write_only().and(supported))).is_empty() {
            return Err(NfsStat4::ATTRNOTSUPP.into());
        }
        if !mask.minus(may).is_empty() {
            return Err(NfsStat4::INVAL.into());
        }
        let attrs = given.attrs()?;
        let id_of = |kind, text: &[u8]| id_of(cx, kind, text);
        let set = SetAttr {
            mode: mode(attrs.mode, attrs.mode_umask)?,
            uid: attrs.owner.map(|text| id_of(IdKind::User, text)).transpose()?,
            gid: attrs.owner_group.map(|text| id_of(IdKind::Group, text)).transpose()?,
            len_bytes: attrs.size.map(size).transpose()?,
            accessed: attrs.time_access_set.as_ref().map(set_time).transpose()?,
            modified: attrs.time_modify_set.as_ref().map(set_time).transpose()?,
        };
        let acl = attrs.acl.map(|given| entries(given, &id_of)).transpose()?;
        Ok(Self { set, acl, mask })
    }

    /// The same for what SETATTR sets; a umask is for what is made only (RFC 8275 4).
    pub fn settable(cx: &Cx, given: &Fattr<'_>, supported: &Bitmap) -> Done<Self> {
        Self::of(cx, given, supported, &writable(supported).without(A::ModeUmask as u32))
    }

    /// Whether nothing is to be set besides the length.
    pub fn is_length_only(&self) -> bool {
        self.acl.is_none() && SetAttr { len_bytes: None, ..self.set } == SetAttr::default()
    }

    /// Sets all but the length, of an object that is there. The mode comes before the ACL, which has the last word
    /// (RFC 8881 6.4.1.3).
    pub fn apply_rest(&self, cred: &vfs::Cred, node: &dyn Node) -> Done<()> {
        let rest = SetAttr { len_bytes: None, ..self.set };
        if rest != SetAttr::default() {
            node.set_attr(cred, &rest)?;
        }
        if let Some(entries) = &self.acl {
            acl::store(cred, node, entries)?;
        }
        Ok(())
    }

    /// The same for an object that was just made, with its mode.
    pub fn apply_new(&self, cred: &vfs::Cred, node: &dyn Node, attr: &Attr) -> Done<Bitmap> {
        let mut rest = self.clone();
        rest.set.mode = None;
        // Giving it to its owner is nothing to be refused.
        rest.set.uid = self.set.uid.filter(|&uid| uid != attr.uid);
        rest.set.gid = self.set.gid.filter(|&gid| gid != attr.gid);
        rest.apply_rest(cred, node)?;
        Ok(self.mask)
    }
}

fn mode(mode: Option<u32>, under: Option<ModeUmask>) -> Done<Option<u32>> {
    // RFC 8275 4: both at once are INVAL.
    match (mode, under) {
        (Some(_), Some(_)) => Err(NfsStat4::INVAL.into()),
        (Some(mode), None) => Ok(Some(mode & MODE_BITS)),
        (None, Some(under)) => Ok(Some(under.mode & MODE_BITS & !(under.umask & 0o777))),
        (None, None) => Ok(None),
    }
}

fn size(size: u64) -> Done<u64> {
    if size > MAX_FILE_BYTES { Err(NfsStat4::FBIG.into()) } else { Ok(size) }
}

fn set_time(wanted: &SetTime) -> Done<vfs::SetTime> {
    match wanted {
        SetTime::Server => Ok(vfs::SetTime::Now),
        SetTime::Client(Time { nanoseconds, .. }) if *nanoseconds >= NANOS => Err(NfsStat4::INVAL.into()),
        SetTime::Client(Time { seconds, nanoseconds }) => {
            Ok(vfs::SetTime::At(Timestamp { secs: *seconds, nanos: *nanoseconds }))
        }
    }
}

fn entries(given: List<'_, Ace<'_>>, id_of: &dyn Fn(IdKind, &[u8]) -> Done<u32>) -> Done<Vec<acl::Entry>> {
    if given.len() > acl::MAX_ENTRIES {
        return Err(NfsStat4::NOSPC.into());
    }
    given.iter().map(|ace| acl::Entry::of(&ace, id_of)).collect()
}

/// Which attributes an operation may name that makes something: those SETATTR takes, and no length but of a file.
pub fn creatable(supported: &Bitmap) -> Bitmap {
    writable(supported).without(A::Size as u32)
}
