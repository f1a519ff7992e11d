//! SMB 3.1.1 POSIX extensions, as Samba and the Linux kernel speak them: what an open with the POSIX create context asks
//! for and how objects are shown to it. CREATE, QUERY_INFO, QUERY_DIRECTORY and SET_INFO ask here; names are
//! `smb_wire::name`'s. Links are shown as links and never followed in last place; pipes, sockets and devices are reparse
//! points.

use smb_wire::NtStatus;
use smb_wire::fscc::{FileAttributes, NfsReparse, PosixFsInfo, PosixInfo, PosixType, reparse_tag};
use smb_wire::security::{Ace, AceBody, SecurityDescriptor, SecurityInfo, Sid};
use smb_wire::smb2::{CreateOptions, CreateRequest, POSIX_TAG};
use vfs::{Attr, FileKind, FsStat, SetAttr};

use crate::failure::Failure;
use crate::handlers::security::{check_group, check_owner};
use crate::meta::Meta;
use crate::open::FileOpen;

/// Permission bits with set-id and sticky bits.
const PERMISSIONS: u32 = 0o7777;
/// A transfer worth its round trip.
const TRANSFER_BYTES: u32 = 1 << 20;

/// What the POSIX create context asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The permissions of a new object; `None` leaves them to the share.
    pub mode: Option<u32>,
}

impl Asked {
    /// Reads the context, if there is one.
    pub fn of(asked: &CreateRequest<'_>, negotiated: bool) -> Result<Option<Self>, NtStatus> {
        let Some(data) = asked.contexts.get(POSIX_TAG) else { return Ok(None) };
        let mode = data.try_into().map(u32::from_le_bytes).map_err(|_| NtStatus::INVALID_PARAMETER)?;
        if !negotiated {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        // The Linux kernel has all sixteen bits for "none".
        Ok(Some(Self { mode: Some(mode).filter(|mode| mode & 0xffff != 0xffff).map(|mode| mode & PERMISSIONS) }))
    }
}

/// Whether an object of this kind can be opened so: links and what is neither file nor directory only as what they are,
/// or to be deleted or renamed.
pub fn check_kind(kind: FileKind, options: CreateOptions, only_deletes: bool) -> Result<(), Refused> {
    if options.contains(CreateOptions::OPEN_REPARSE_POINT) || only_deletes {
        return Ok(());
    }
    match kind {
        FileKind::File | FileKind::Directory => Ok(()),
        FileKind::Symlink => Err(Refused::Link),
        _ => Err(Refused::Special),
    }
}

/// Why an object cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is a link, which the client follows itself.
    Link,
    /// It is a pipe, a socket or a device.
    Special,
}

/// An object as class 100 and the create context show it.
pub fn info(meta: &Meta) -> PosixInfo {
    let attr = &meta.attr;
    let (attributes, tag) = match attr.kind {
        FileKind::File | FileKind::Directory => (meta.attributes, 0),
        FileKind::Symlink => (FileAttributes::REPARSE_POINT, reparse_tag::SYMLINK),
        _ => (FileAttributes::REPARSE_POINT, reparse_tag::NFS),
    };
    PosixInfo {
        times: meta.dir_times(),
        end_of_file: meta.end_of_file(),
        allocation: meta.allocation_bytes(),
        attributes,
        inode: attr.id.ino,
        device: attr.id.dev as u32,
        links: attr.nlink,
        reparse_tag: tag,
        kind: kind(attr.kind),
        mode: attr.mode,
        owner: Sid::unix_user(attr.uid),
        group: Sid::unix_group(attr.gid),
    }
}

fn kind(kind: FileKind) -> PosixType {
    match kind {
        FileKind::File => PosixType::File,
        FileKind::Directory => PosixType::Directory,
        FileKind::Symlink => PosixType::Symlink,
        FileKind::CharDevice => PosixType::CharDevice,
        FileKind::BlockDevice => PosixType::BlockDevice,
        FileKind::Fifo => PosixType::Fifo,
        FileKind::Socket => PosixType::Socket,
    }
}

/// The reparse point that says what a pipe, socket or device is; `None` for everything else.
pub fn reparse(attr: &Attr) -> Option<NfsReparse> {
    let device = ((attr.rdev >> 32) as u32, attr.rdev as u32);
    Some(match attr.kind {
        FileKind::Fifo => NfsReparse::Fifo,
        FileKind::Socket => NfsReparse::Socket,
        FileKind::CharDevice => NfsReparse::CharDevice { major: device.0, minor: device.1 },
        FileKind::BlockDevice => NfsReparse::BlockDevice { major: device.0, minor: device.1 },
        FileKind::File | FileKind::Directory | FileKind::Symlink => return None,
    })
}

/// The file system as class 100 shows it.
pub fn fs_info(stat: &FsStat) -> PosixFsInfo {
    PosixFsInfo {
        optimal_transfer_bytes: TRANSFER_BYTES,
        block_bytes: stat.block_bytes,
        total_blocks: stat.total_blocks,
        free_blocks: stat.free_blocks,
        available_blocks: stat.available_blocks,
        total_files: stat.total_files,
        free_files: stat.free_files,
        fs_id: stat.fs_id,
    }
}

/// chmod(2) and chown(2), which come as a security descriptor: the mode as an entry for `S-1-5-88-3-mode`, owner and group
/// as `S-1-5-88-1-uid` and `S-1-5-88-2-gid` or as Unix users and groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change(SetAttr);

impl Change {
    /// The change a descriptor means; `None` where any part of it says more than that.
    pub fn of(new: &SecurityDescriptor, parts: SecurityInfo) -> Option<Self> {
        let mut set = SetAttr::default();
        if parts.is_empty() || !(SecurityInfo::OWNER | SecurityInfo::GROUP | SecurityInfo::DACL).contains(parts) {
            return None;
        }
        if parts.contains(SecurityInfo::OWNER) {
            let owner = new.owner.as_ref()?;
            set.uid = Some(nfs_id(owner, 1).or_else(|| owner.as_unix_user())?);
        }
        if parts.contains(SecurityInfo::GROUP) {
            let group = new.group.as_ref()?;
            set.gid = Some(nfs_id(group, 2).or_else(|| group.as_unix_group())?);
        }
        if parts.contains(SecurityInfo::DACL) {
            let mode = new.dacl.as_ref()?.aces.iter().find_map(mode_of)?;
            set.mode = Some(mode & PERMISSIONS);
        }
        Some(Self(set))
    }

    /// Makes it. May wait.
    pub fn apply(&self, file: &FileOpen) -> Result<(), Failure> {
        let now = file.node.attr()?;
        if let Some(uid) = self.0.uid.filter(|&uid| uid != now.uid) {
            check_owner(&file.cred, Some(&Sid::unix_user(uid)))?;
        }
        if let Some(gid) = self.0.gid.filter(|&gid| gid != now.gid) {
            check_group(&file.cred, Some(&Sid::unix_group(gid)))?;
        }
        Ok(file.node.set_attr(&file.cred, &self.0)?)
    }
}

fn mode_of(ace: &Ace) -> Option<u32> {
    match &ace.body {
        AceBody::Access { sid, .. } => nfs_id(sid, 3),
        _ => None,
    }
}

/// The number in `S-1-5-88-kind-number`.
fn nfs_id(sid: &Sid, kind: u32) -> Option<u32> {
    match (sid.authority(), sid.sub_authorities()) {
        (5, &[88, of, number]) if of == kind => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use smb_wire::fscc::AccessMask;
    use smb_wire::security::{AceFlags, Acl};

    use super::*;

    fn sid(subs: &[u32]) -> Sid {
        Sid::new(5, subs).unwrap()
    }

    fn with(entry: Sid) -> SecurityDescriptor {
        let aces = vec![Ace::allow(entry, AccessMask::empty(), AceFlags::empty())];
        SecurityDescriptor { dacl: Some(Acl { aces }), ..SecurityDescriptor::default() }
    }

    #[test]
    fn modes_and_owners_come_as_descriptors() {
        let mode = |sid| Change::of(&with(sid), SecurityInfo::DACL).map(|change| change.0.mode);
        assert_eq!(mode(sid(&[88, 3, 0o104755])), Some(Some(0o4755)));
        assert_eq!(mode(sid(&[88, 1, 0o755])), None);
        assert_eq!(mode(Sid::everyone()), None);
        let mut owner = with(sid(&[88, 3, 0o600]));
        owner.owner = Some(sid(&[88, 1, 7]));
        owner.group = Some(Sid::unix_group(8));
        let all = SecurityInfo::OWNER | SecurityInfo::GROUP | SecurityInfo::DACL;
        let want = SetAttr { uid: Some(7), gid: Some(8), mode: Some(0o600), ..SetAttr::default() };
        assert_eq!(Change::of(&owner, all), Some(Change(want)));
        assert_eq!(Change::of(&owner, all | SecurityInfo::SACL), None);
        owner.owner = Some(Sid::everyone());
        assert_eq!(Change::of(&owner, SecurityInfo::OWNER), None);
    }

    #[test]
    fn links_and_pipes_open_only_as_what_they_are() {
        let plain = CreateOptions::empty();
        assert_eq!(check_kind(FileKind::File, plain, false), Ok(()));
        assert_eq!(check_kind(FileKind::Symlink, plain, false), Err(Refused::Link));
        assert_eq!(check_kind(FileKind::Fifo, plain, false), Err(Refused::Special));
        assert_eq!(check_kind(FileKind::Symlink, plain, true), Ok(()));
        assert_eq!(check_kind(FileKind::Fifo, CreateOptions::OPEN_REPARSE_POINT, false), Ok(()));
    }
}
