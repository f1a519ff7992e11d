//! Attributes of NFSv4 as they are shown (RFC 8881 5, RFC 7862 12.2, RFC 8276 8.2): what an object's attributes, its file
//! system and the server's settings say, one value at a time. GETATTR, READDIR, VERIFY and OPEN ask it.

use std::cell::OnceCell;
use std::sync::Arc;

use nfs_wire::nfs4::attr::{AclSupport, ChangeAttrType, OpenArguments};
use nfs_wire::nfs4::{Attr as A, AttrSource, Bitmap, FileType, Fsid, NfsStat4, SpecData, Time};
use nfs_wire::xdr::{Bounded, List, Put, Xdr};
use vfs::{Attr, Capabilities, FileId, FileKind, FsStat, Node, Quota, Timestamp};

use super::acl;
use super::failure::Done;
use super::owners::Told;
use crate::attr::MAX_FILE_BYTES;
use crate::files::Cx;
use crate::server::{Exported, Server};

/// What every file system of Linux that has hard links takes.
const MAX_LINKS: u32 = 32_000;
/// The pseudo root's file id.
const PSEUDO_FILEID: u64 = 1;
/// FATTR4_FS_CHARSET_CAP is not shown: names are bytes.
const TIME_DELTA: Time = Time { seconds: 0, nanoseconds: 1 };

/// What all versions show of everything.
const COMMON: &[A] = &[
    A::SupportedAttrs,
    A::Type,
    A::FhExpireType,
    A::Change,
    A::Size,
    A::LinkSupport,
    A::SymlinkSupport,
    A::NamedAttr,
    A::Fsid,
    A::UniqueHandles,
    A::LeaseTime,
    A::RdattrError,
    A::Filehandle,
    A::Cansettime,
    A::CaseInsensitive,
    A::CasePreserving,
    A::ChownRestricted,
    A::Fileid,
    A::Homogeneous,
    A::Maxfilesize,
    A::Maxlink,
    A::Maxname,
    A::Maxread,
    A::Maxwrite,
    A::Mode,
    A::NoTrunc,
    A::Numlinks,
    A::Owner,
    A::OwnerGroup,
    A::Rawdev,
    A::SpaceUsed,
    A::TimeAccess,
    A::TimeAccessSet,
    A::TimeDelta,
    A::TimeMetadata,
    A::TimeModify,
    A::TimeModifySet,
    A::MountedOnFileid,
];
/// What an export's file system has besides.
const OF_A_FILE_SYSTEM: &[A] =
    &[A::FilesAvail, A::FilesFree, A::FilesTotal, A::SpaceAvail, A::SpaceFree, A::SpaceTotal];
/// What it has where space is counted by owner (RFC 8881 5.8.2.28 to 5.8.2.30).
pub const OF_QUOTAS: &[A] = &[A::QuotaAvailHard, A::QuotaAvailSoft, A::QuotaUsed];
const WITH_ACLS: &[A] = &[A::Acl, A::Aclsupport];
/// From 4.1 on.
const SINCE_4_1: &[A] = &[A::SuppattrExclcreat, A::OpenArguments];
/// From 4.2 on.
const SINCE_4_2: &[A] = &[A::ChangeAttrType, A::ModeUmask, A::XattrSupport];

/// What can be set but not read: asking for it is INVAL (RFC 8881 5.5).
pub fn write_only() -> Bitmap {
    Bitmap::of(&[A::TimeAccessSet, A::TimeModifySet, A::RetentionSet, A::RetentevtSet, A::ModeSetMasked, A::ModeUmask])
}

/// What SETATTR, CREATE and OPEN take.
pub fn writable(supported: &Bitmap) -> Bitmap {
    let all = [A::Size, A::Acl, A::Mode, A::Owner, A::OwnerGroup, A::TimeAccessSet, A::TimeModifySet, A::ModeUmask];
    Bitmap::of(&all).and(supported)
}

/// What an exclusive OPEN takes with its verifier (RFC 8881 5.8.1.14): the verifier itself is kept in the times.
pub fn writable_exclusive(supported: &Bitmap) -> Bitmap {
    Bitmap::of(&[A::TimeAccessSet, A::TimeModifySet]).iter().fold(writable(supported), |set, bit| set.without(bit))
}

/// An object to be shown.
pub struct View<'a> {
    server: &'a Server,
    attr: Attr,
    handle: &'a [u8],
    supported: Bitmap,
    /// The rest is of an object of an export.
    real: Option<Real<'a>>,
    told: Told,
}

struct Real<'a> {
    export: &'a Arc<Exported>,
    node: Option<&'a dyn Node>,
    stat: OnceCell<Option<FsStat>>,
    quota: OnceCell<Option<Quota>>,
}

impl<'a> View<'a> {
    /// An object of an export; without its node some attributes are not there.
    pub fn of(
        server: &'a Server,
        minor: u32,
        export: &'a Arc<Exported>,
        attr: Attr,
        handle: &'a [u8],
        node: Option<&'a dyn Node>,
    ) -> Self {
        Self::with(server, supported(minor, Some(export)), export, attr, handle, node)
    }

    /// The same, where it is known which attributes the export's objects have.
    pub fn with(
        server: &'a Server,
        supported: Bitmap,
        export: &'a Arc<Exported>,
        attr: Attr,
        handle: &'a [u8],
        node: Option<&'a dyn Node>,
    ) -> Self {
        let real = Some(Real { export, node, stat: OnceCell::new(), quota: OnceCell::new() });
        Self { server, attr, handle, supported, real, told: Told::default() }
    }

    /// The pseudo root, its owners told as the caller is told them.
    pub fn pseudo(cx: &'a Cx, minor: u32, handle: &'a [u8], asked: &Bitmap) -> Done<Self> {
        let attr = pseudo_attr(&cx.server);
        let told = Told::of(cx, asked, &attr, None)?;
        Ok(Self { server: &cx.server, attr, handle, supported: supported(minor, None), real: None, told })
    }

    /// The same with owners by other than their numbers.
    pub fn telling(self, told: Told) -> Self {
        Self { told, ..self }
    }

    /// Which attributes there are.
    pub fn supported(&self) -> Bitmap {
        self.supported
    }

    fn stat(&self, get: impl FnOnce(&FsStat) -> u64, out: &mut (impl Put + ?Sized)) -> bool {
        let Some(real) = &self.real else { return false };
        let stat = real.stat.get_or_init(|| real.export.backend.fs_stat().ok());
        stat.as_ref().map(|stat| get(stat).put(out)).is_some()
    }

    fn blocks(&self, get: impl FnOnce(&FsStat) -> u64, out: &mut (impl Put + ?Sized)) -> bool {
        self.stat(|stat| get(stat).saturating_mul(stat.block_bytes.into()), out)
    }

    /// What quotas say of the space of the object's owner and group. What they leave is no more than there is.
    fn quota(&self, get: impl FnOnce(&Quota) -> u64, out: &mut (impl Put + ?Sized)) -> bool {
        let Some(real) = &self.real else { return false };
        let ask = || real.export.backend.quota(self.attr.uid, self.attr.gid).ok().flatten();
        let stat = real.stat.get_or_init(|| real.export.backend.fs_stat().ok());
        let free = stat.map_or(u64::MAX, |stat| stat.available_blocks.saturating_mul(stat.block_bytes.into()));
        let quota = real.quota.get_or_init(ask).map(|quota| Quota {
            left_bytes: quota.left_bytes.min(free),
            left_before_warning_bytes: quota.left_before_warning_bytes.min(free),
            ..quota
        });
        quota.map(|quota| get(&quota).put(out)).is_some()
    }

    fn fsid(&self) -> Fsid {
        let major = self.real.as_ref().map_or(0, |real| real.export.fsid(self.attr.id.dev));
        Fsid { major, minor: 0 }
    }

    /// Of an export's root, which entry of the pseudo root it is mounted on.
    fn mounted_on(&self) -> u64 {
        match &self.real {
            Some(real) if real.export.backend.root().id() == self.attr.id => entry_fileid(real.export),
            _ => self.attr.id.ino,
        }
    }

    fn max_name(&self) -> u32 {
        let stat = |real: &Real<'_>| real.stat.get_or_init(|| real.export.backend.fs_stat().ok()).map(|s| s.name_max);
        self.real.as_ref().and_then(stat).unwrap_or(vfs::Name::MAX_BYTES as u32)
    }

    fn put_acl(&self, out: &mut (impl Put + ?Sized)) -> bool {
        let Some(node) = self.real.as_ref().and_then(|real| real.node) else { return false };
        let own;
        let whole = match &self.told.acl {
            Some(told) => told,
            None => {
                own = acl::of(node, &self.attr);
                &own
            }
        };
        let entries: Vec<_> = whole.iter().map(acl::Entry::wire).collect();
        put(&List::new(&entries), out)
    }
}

impl AttrSource for View<'_> {
    fn put_attr(&self, attr: A, out: &mut (impl Put + ?Sized)) -> bool {
        if !self.supported.has(attr) {
            return false;
        }
        let a = &self.attr;
        match attr {
            A::SupportedAttrs => put(&self.supported(), out),
            A::Type => put(&file_type(a.kind), out),
            A::FhExpireType => put(&0u32, out),
            A::Change => put(&a.change, out),
            A::Size => put(&a.len_bytes, out),
            A::LinkSupport | A::SymlinkSupport => put(&self.real.is_some(), out),
            A::NamedAttr | A::CaseInsensitive => put(&false, out),
            A::Fsid => put(&self.fsid(), out),
            A::UniqueHandles | A::CasePreserving | A::ChownRestricted | A::Cansettime => put(&true, out),
            A::Homogeneous | A::NoTrunc => put(&true, out),
            A::LeaseTime => put(&((self.server.state.lease_ms / 1000) as u32), out),
            A::RdattrError => put(&NfsStat4::OK, out),
            A::Acl => self.put_acl(out),
            A::Aclsupport => put(&(AclSupport::ALLOW | AclSupport::DENY), out),
            A::Filehandle => put(&Bounded::<128>(self.handle), out),
            A::Fileid => put(&a.id.ino, out),
            A::FilesAvail | A::FilesFree => self.stat(|stat| stat.free_files, out),
            A::FilesTotal => self.stat(|stat| stat.total_files, out),
            A::Maxfilesize => put(&MAX_FILE_BYTES, out),
            A::Maxlink => put(&MAX_LINKS, out),
            A::Maxname => put(&self.max_name(), out),
            A::Maxread => put(&u64::from(self.server.settings.load().config.max_read_bytes), out),
            A::Maxwrite => put(&u64::from(self.server.settings.load().config.max_write_bytes), out),
            A::Mode => put(&a.mode, out),
            A::Numlinks => put(&a.nlink, out),
            A::Owner => put_owner(self.told.owner.as_deref(), a.uid, out),
            A::OwnerGroup => put_owner(self.told.group.as_deref(), a.gid, out),
            A::QuotaAvailHard => self.quota(|quota| quota.left_bytes, out),
            A::QuotaAvailSoft => self.quota(|quota| quota.left_before_warning_bytes, out),
            A::QuotaUsed => self.quota(|quota| quota.used_bytes, out),
            A::Rawdev => put(&SpecData { major: (a.rdev >> 32) as u32, minor: a.rdev as u32 }, out),
            A::SpaceAvail => self.blocks(|stat| stat.available_blocks, out),
            A::SpaceFree => self.blocks(|stat| stat.free_blocks, out),
            A::SpaceTotal => self.blocks(|stat| stat.total_blocks, out),
            A::SpaceUsed => put(&a.allocated_bytes, out),
            A::TimeAccess => put(&time(a.accessed), out),
            A::TimeCreate => a.created.map(|at| time(at).put(out)).is_some(),
            A::TimeDelta => put(&TIME_DELTA, out),
            A::TimeMetadata => put(&time(a.changed), out),
            A::TimeModify => put(&time(a.modified), out),
            A::MountedOnFileid => put(&self.mounted_on(), out),
            A::SuppattrExclcreat => put(&writable_exclusive(&self.supported()), out),
            A::OpenArguments => put(&open_arguments(), out),
            A::ChangeAttrType => put(&ChangeAttrType::MonotonicIncr, out),
            A::XattrSupport => put(&has(self.real.as_ref().map(|real| &**real.export), Capabilities::XATTR), out),
            _ => false,
        }
    }
}

/// What of OPEN is taken (RFC 9754 4): every share mode, whether a delegation is wanted, every way to make a file, and
/// all claims but those of delegations from before the client restarted.
fn open_arguments() -> OpenArguments {
    let set = |bits: &[u32]| bits.iter().fold(Bitmap::EMPTY, |set, &bit| set.with(bit));
    OpenArguments {
        share_access: set(&[1, 2, 3]),
        share_deny: set(&[0, 1, 2, 3]),
        share_access_want: set(&[3, 4]),
        open_claim: set(&[0, 1, 2, 4, 5]),
        create_mode: set(&[0, 1, 2, 3]),
    }
}

fn put<'a>(value: &impl Xdr<'a>, out: &mut (impl Put + ?Sized)) -> bool {
    value.put(out);
    true
}

/// An owner by what it is called, or else by its number.
fn put_owner(name: Option<&str>, number: u32, out: &mut (impl Put + ?Sized)) -> bool {
    match name {
        Some(name) => put(&name.as_bytes(), out),
        None => put_decimal(number, out),
    }
}

/// A number as a string (RFC 7530 5.9): how owners are told where they are numbers.
fn put_decimal(number: u32, out: &mut (impl Put + ?Sized)) -> bool {
    let (mut digits, mut left, mut from) = ([b'0'; 10], number, 10);
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit += (left % 10) as u8;
        left /= 10;
        from = at;
        if left == 0 {
            break;
        }
    }
    put(&digits.get(from..).unwrap_or_default(), out)
}

fn has(export: Option<&Exported>, capability: Capabilities) -> bool {
    export.is_some_and(|export| export.backend.capabilities().contains(capability))
}

/// The attributes of objects of an export, or of the pseudo root.
pub fn supported(minor: u32, export: Option<&Exported>) -> Bitmap {
    let mut all = Bitmap::of(COMMON);
    if export.is_some() {
        all = all.or(&Bitmap::of(OF_A_FILE_SYSTEM));
    }
    if has(export, Capabilities::XATTR) {
        all = all.or(&Bitmap::of(WITH_ACLS));
    }
    if has(export, Capabilities::QUOTA) {
        all = all.or(&Bitmap::of(OF_QUOTAS));
    }
    if has(export, Capabilities::BIRTH_TIME) {
        all = all.with(A::TimeCreate as u32);
    }
    if minor >= 1 {
        all = all.or(&Bitmap::of(SINCE_4_1));
    }
    if minor >= 2 {
        all = all.or(&Bitmap::of(SINCE_4_2));
    }
    all
}

/// The number of an export among the entries of the pseudo root.
pub fn entry_fileid(export: &Exported) -> u64 {
    u64::from_be_bytes(export.id) | PSEUDO_FILEID << 1
}

fn pseudo_attr(server: &Server) -> Attr {
    let settings = server.settings.load();
    let at = Timestamp { secs: settings.since_secs.into(), nanos: 0 };
    Attr {
        id: FileId { dev: 0, ino: PSEUDO_FILEID, generation: 0 },
        kind: FileKind::Directory,
        mode: 0o555,
        nlink: 2 + settings.exports.len() as u32,
        uid: 0,
        gid: 0,
        rdev: 0,
        len_bytes: 4096,
        allocated_bytes: 0,
        accessed: at,
        modified: at,
        changed: at,
        created: None,
        change: settings.since_secs.into(),
    }
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::Regular,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::Character,
        FileKind::BlockDevice => FileType::Block,
    }
}

/// A time on the wire.
pub fn time(at: Timestamp) -> Time {
    Time { seconds: at.secs, nanoseconds: at.nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_decimal_numbers() {
        for number in [0, 7, 10, 99, 1000, 65534, u32::MAX] {
            let mut out = Vec::new();
            assert!(put_decimal(number, &mut out));
            assert_eq!(out, nfs_wire::xdr::to_vec(&number.to_string().as_bytes()));
        }
    }
}
