//! SET_INFO (MS-SMB2 3.3.5.21): attributes and times, length, deletion, names.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use coherence::Change;
use smb_wire::NtStatus;
use smb_wire::codec::Put;
use smb_wire::fscc::{
    AccessMask, AllocationInfo, BasicInfo, DispositionExInfo, DispositionFlags, DispositionInfo, EndOfFileInfo,
    FileAttributes, FileInfoClass, FileMode, FileTime, ModeInfo, NotifyFilter, PositionInfo, RenameInfo, TimeUpdate,
};
use smb_wire::smb2::{InfoType, SetInfoRequest};
use vfs::{SetAttr, SetTime, VfsResult};

use super::close::DeleteBy;
use super::create::tell_directory;
use super::rename;
use crate::dispatch::Request;
use crate::failure::{Failure, Outcome};
use crate::grants;
use crate::meta::{local_time, read_dos, store_dos};
use crate::open::{FileOpen, Object, Open};
use crate::persistent;
use crate::reply::ReplyWriter;

/// SET_INFO.
pub(crate) async fn set_info(request: &mut Request<'_>, out: &mut ReplyWriter) -> Outcome {
    let message = request.message.clone();
    let asked = SetInfoRequest::decode(&message)?;
    let max = request.conn.negotiated().map_or(0, |n| n.max_transact_bytes);
    if asked.input.len() > max as usize {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    request.check_charge(asked.input.len())?;
    let open = request.open(asked.handle)?;
    let file = open.file()?;
    match InfoType::from_u8(asked.info_type) {
        Some(InfoType::File) => {
            let class = FileInfoClass(asked.class);
            let under_way = file.changes.add();
            if let Some(change) = change_of(&open, class, asked.input) {
                grants::ask(request, out, &file.claim, change).await?;
            }
            under_way.begin()?;
            let before = path_before(request, file, class);
            set_file(request, &open, file, class, asked.input).await?;
            drop(under_way);
            if let (true, Object::File(file)) = (is_stored(class), &open.object) {
                persistent::save(request.conn, file).await;
            }
            if let Some(before) = before {
                tell_directory(request, out, &file.share, &open.tree, &before, file.parent).await?;
                if let Ok(after) = file.path() {
                    tell_directory(request, out, &file.share, &open.tree, &after, file.parent).await?;
                }
            }
        }
        Some(InfoType::Security) => super::security::set(request, &open, asked.additional, asked.input).await?,
        Some(InfoType::FileSystem | InfoType::Quota) => return Err(NtStatus::NOT_SUPPORTED.into()),
        None => return Err(NtStatus::INVALID_PARAMETER.into()),
    }
    out.put_u16(2); // the response has nothing but its size (2.2.40)
    Ok(NtStatus::SUCCESS)
}

/// Where the file is before its names change, if anybody caches a directory.
fn path_before(request: &Request<'_>, file: &FileOpen, class: FileInfoClass) -> Option<vfs::Path> {
    let names = [FileInfoClass::RENAME, FileInfoClass::RENAME_EX, FileInfoClass::LINK, FileInfoClass::LINK_EX];
    let watched = names.contains(&class) && request.conn.server.router.has_directory_leases();
    if watched { file.path().ok() } else { None }
}

/// Whether a persistent handle's record tells of it.
fn is_stored(class: FileInfoClass) -> bool {
    use FileInfoClass as C;
    [C::RENAME, C::RENAME_EX, C::DISPOSITION, C::DISPOSITION_EX].contains(&class)
}

/// What the holders of caching grants are to be asked about first; nothing where it will be refused anyway.
fn change_of(open: &Open, class: FileInfoClass, input: &[u8]) -> Option<Change> {
    let (change, right) = match class {
        FileInfoClass::END_OF_FILE | FileInfoClass::ALLOCATION => (Change::Write, AccessMask::FILE_WRITE_DATA),
        FileInfoClass::DISPOSITION | FileInfoClass::DISPOSITION_EX if input.first().is_some_and(|b| b & 1 != 0) => {
            (Change::Delete, AccessMask::DELETE)
        }
        FileInfoClass::RENAME | FileInfoClass::RENAME_EX => (Change::Rename, AccessMask::DELETE),
        FileInfoClass::LINK | FileInfoClass::LINK_EX => (Change::Rename, open.granted),
        FileInfoClass::BASIC => (Change::Attributes, AccessMask::FILE_WRITE_ATTRIBUTES),
        _ => return None,
    };
    open.granted.intersects(right).then_some(change)
}

async fn set_file(
    request: &Request<'_>,
    open: &Arc<Open>,
    file: &FileOpen,
    class: FileInfoClass,
    input: &[u8],
) -> Result<(), Failure> {
    let min = class.set_min_len().ok_or(NtStatus::INVALID_INFO_CLASS)?;
    if input.len() < min {
        return Err(NtStatus::INFO_LENGTH_MISMATCH.into());
    }
    match class {
        FileInfoClass::BASIC => {
            open.require_any(AccessMask::FILE_WRITE_ATTRIBUTES)?;
            let change = BasicChange::check(&BasicInfo::decode(input)?, file)?;
            let filter = change.filter();
            on_worker(request, open, move |file| change.apply(file)).await?;
            file.tell_changed(filter);
            Ok(())
        }
        FileInfoClass::END_OF_FILE => {
            let len = EndOfFileInfo::decode(input)?.end_of_file;
            set_len(request, open, file, len).await?;
            file.tell_changed(NotifyFilter::SIZE);
            Ok(())
        }
        FileInfoClass::ALLOCATION => {
            let bytes = AllocationInfo::decode(input)?.allocation_bytes;
            set_allocation(request, open, file, bytes).await?;
            file.tell_changed(NotifyFilter::SIZE);
            Ok(())
        }
        FileInfoClass::DISPOSITION => {
            let flags = if DispositionInfo::decode(input)?.delete {
                DispositionFlags::DELETE
            } else {
                DispositionFlags::empty()
            };
            set_disposition(request, open, flags).await
        }
        FileInfoClass::DISPOSITION_EX => set_disposition(request, open, DispositionExInfo::decode(input)?.flags).await,
        FileInfoClass::RENAME => {
            rename::rename(request, open, &RenameInfo::decode(input).map_err(|e| e.status())?).await
        }
        FileInfoClass::RENAME_EX => {
            rename::rename(request, open, &RenameInfo::decode_ex(input).map_err(|e| e.status())?).await
        }
        FileInfoClass::LINK => rename::link(request, open, &RenameInfo::decode(input).map_err(|e| e.status())?).await,
        FileInfoClass::LINK_EX => {
            rename::link(request, open, &RenameInfo::decode_ex(input).map_err(|e| e.status())?).await
        }
        FileInfoClass::POSITION => {
            let offset = PositionInfo::decode(input)?.offset;
            if offset > i64::MAX as u64 {
                return Err(NtStatus::INVALID_PARAMETER.into());
            }
            file.position.store(offset, Relaxed);
            Ok(())
        }
        FileInfoClass::MODE => {
            let mode = ModeInfo::decode(input)?.mode;
            check_mode(mode)?;
            file.mode.store(u64::from(mode.bits()), Relaxed);
            Ok(())
        }
        FileInfoClass::FULL_EA => {
            open.require_any(AccessMask::FILE_WRITE_EA)?;
            if file.stream.is_some() {
                return Err(NtStatus::INVALID_PARAMETER.into()); // as with NTFS and Samba: files have them, streams have none
            }
            let eas = crate::ea::decode(input)?;
            let open = Arc::clone(open);
            let job = move || -> Result<(), Failure> {
                let file = open.file()?;
                crate::ea::set(&*file.node, &file.cred, &eas)
            };
            request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
        }
        _ => Err(NtStatus::NOT_SUPPORTED.into()),
    }
}

/// What can be set is how data pass, and not both kinds of synchronous (MS-FSA 2.1.5.15.9).
fn check_mode(mode: FileMode) -> Result<(), NtStatus> {
    let kinds = FileMode::SYNCHRONOUS_IO_ALERT | FileMode::SYNCHRONOUS_IO_NONALERT;
    let valid = FileMode::WRITE_THROUGH | FileMode::SEQUENTIAL_ONLY | FileMode::NO_INTERMEDIATE_BUFFERING | kinds;
    if valid.contains(mode) && !mode.contains(kinds) { Ok(()) } else { Err(NtStatus::INVALID_PARAMETER) }
}

/// Runs a change of the open's file where it may wait.
async fn on_worker(
    request: &Request<'_>,
    open: &Arc<Open>,
    change: impl FnOnce(&FileOpen) -> VfsResult<()> + Send + 'static,
) -> Result<(), Failure> {
    let open = Arc::clone(open);
    let job = move || -> Result<(), Failure> { Ok(change(open.file()?)?) };
    request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
}

/// FileBasicInformation, checked (MS-FSA 2.1.5.15.2).
struct BasicChange {
    created: Option<FileTime>,
    accessed: Option<FileTime>,
    written: Option<FileTime>,
    changed: Option<FileTime>,
    attributes: Option<FileAttributes>,
}

impl BasicChange {
    fn check(info: &BasicInfo, file: &FileOpen) -> Result<Self, NtStatus> {
        let wanted = |time: FileTime| match time.as_update() {
            None => Err(NtStatus::INVALID_PARAMETER),
            Some(TimeUpdate::Set(time)) => Ok(Some(time)),
            // Freezing a time for the life of a handle is not served: it goes on as POSIX has it.
            Some(_) => Ok(None),
        };
        let attributes = (!info.attributes.is_empty()).then_some(info.attributes);
        let is_directory = file.is_directory();
        if let Some(attributes) = attributes
            && ((attributes.contains(FileAttributes::DIRECTORY) && !is_directory)
                || (attributes.contains(FileAttributes::TEMPORARY) && is_directory))
        {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        Ok(Self {
            created: wanted(info.created)?,
            accessed: wanted(info.accessed)?,
            written: wanted(info.written)?,
            changed: wanted(info.changed)?,
            attributes,
        })
    }

    /// Who is interested.
    fn filter(&self) -> NotifyFilter {
        let mut filter = NotifyFilter::empty();
        filter.set(NotifyFilter::ATTRIBUTES, self.attributes.is_some());
        filter.set(NotifyFilter::CREATION, self.created.is_some());
        filter.set(NotifyFilter::LAST_ACCESS, self.accessed.is_some());
        filter.set(NotifyFilter::LAST_WRITE, self.written.is_some());
        filter
    }

    fn apply(&self, file: &FileOpen) -> VfsResult<()> {
        if self.attributes.is_some() || self.created.is_some() {
            let mut attributes = self.attributes;
            if let Some(attributes) = &mut attributes {
                attributes.set(FileAttributes::DIRECTORY, file.is_directory());
                // A file stays sparse, or does not become it, whatever is set here (MS-FSA 2.1.5.15.2).
                let stored = FileAttributes::from_bits_retain(read_dos(&*file.node)?.attributes.unwrap_or(0));
                attributes.set(FileAttributes::SPARSE_FILE, stored.contains(FileAttributes::SPARSE_FILE));
            }
            store_dos(&*file.node, &file.cred, attributes, self.created)?;
            file.archived.store(false, Relaxed);
        }
        let at = |time: Option<FileTime>| time.map(|t| SetTime::At(local_time(t)));
        let set = SetAttr { accessed: at(self.accessed), modified: at(self.written), ..SetAttr::default() };
        if set != SetAttr::default() {
            file.node.set_attr(&file.cred, &set)?;
        }
        if let Some(written) = self.written {
            file.write_time_set.store(written.0, Relaxed);
        }
        if let Some(changed) = self.changed {
            file.change_time_set.store(changed.0, Relaxed);
        }
        let shown = file.change_time_set.load(Relaxed);
        if shown != 0 {
            file.share.change_times.set(&file.node.attr()?, FileTime(shown));
        }
        Ok(())
    }
}

async fn set_len(request: &Request<'_>, open: &Arc<Open>, file: &FileOpen, len: u64) -> Result<(), Failure> {
    open.require_any(AccessMask::FILE_WRITE_DATA)?;
    if file.is_directory() || len > i64::MAX as u64 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    // Ranges that others have locked may be neither cut off nor grown into.
    let now = file.node.attr()?.len_bytes;
    let (from, to) = (now.min(len), now.max(len));
    file.claim.check_write(from, to - from).map_err(|_| NtStatus::FILE_LOCK_CONFLICT)?;
    on_worker(request, open, move |file| {
        file.node.set_attr(&file.cred, &SetAttr { len_bytes: Some(len), ..SetAttr::default() })?;
        file.note_written();
        Ok(())
    })
    .await
}

/// Space below the length cuts the file; above it is set aside (MS-FSA 2.1.5.15.1).
async fn set_allocation(request: &Request<'_>, open: &Arc<Open>, file: &FileOpen, bytes: u64) -> Result<(), Failure> {
    open.require_any(AccessMask::FILE_WRITE_DATA)?;
    if file.is_directory() || bytes > i64::MAX as u64 {
        return Err(NtStatus::INVALID_PARAMETER.into());
    }
    if bytes < file.node.attr()?.len_bytes {
        return set_len(request, open, file, bytes).await;
    }
    on_worker(request, open, move |file| match file.node.allocate(0, bytes, false) {
        Err(vfs::VfsError::NotSupported) => Ok(()),
        result => result,
    })
    .await
}

/// Marks the file to go when its last handle closes, or takes that back (MS-FSA 2.1.5.15.3).
async fn set_disposition(request: &Request<'_>, open: &Arc<Open>, flags: DispositionFlags) -> Result<(), Failure> {
    open.require_any(AccessMask::DELETE)?;
    let (open, executor) = (Arc::clone(open), Arc::clone(&request.conn.shard.executor));
    // Whether a directory is empty may have to be read from a disk.
    let may_wait = open.file()?.is_directory();
    let job = move || -> Result<(), Failure> {
        let file = open.file()?;
        let on_close = flags.contains(DispositionFlags::ON_CLOSE);
        if !flags.contains(DispositionFlags::DELETE) && on_close {
            file.claim.set_delete_on_close(false);
            return Ok(());
        }
        if !flags.contains(DispositionFlags::DELETE) {
            file.posix_delete.store(false, Relaxed);
            file.claim.set_delete_pending(false, None);
            return Ok(());
        }
        if file.stream.is_none() && file.link().is_none() && file.node.id() == file.share.backend.root().id() {
            return Err(NtStatus::CANNOT_DELETE.into()); // the share itself
        }
        let stored = FileAttributes::from_bits_retain(read_dos(&*file.node)?.attributes.unwrap_or(0));
        let ignores = flags.contains(DispositionFlags::IGNORE_READONLY_ATTRIBUTE);
        if stored.contains(FileAttributes::READONLY) && !ignores && !file.posix {
            return Err(NtStatus::CANNOT_DELETE.into());
        }
        if on_close {
            file.claim.set_delete_on_close(true);
            return Ok(());
        }
        if file.is_directory() && file.link().is_none() && !is_empty(file)? {
            return Err(NtStatus::DIRECTORY_NOT_EMPTY.into());
        }
        if file.posix {
            file.posix_delete.store(true, Relaxed);
        } else {
            file.claim.set_delete_pending(true, Some(DeleteBy::new(file, &executor)));
        }
        if file.is_directory() && file.link().is_none() {
            file.share.watchers.going(file.node.id());
        }
        Ok(())
    };
    if !may_wait {
        return job();
    }
    request.conn.offload(job).await.ok_or(NtStatus::INTERNAL_ERROR)?
}

fn is_empty(file: &FileOpen) -> VfsResult<bool> {
    // A directory opened without the right to list it is read through a node of its own.
    let mut empty = true;
    let mut look = |_: vfs::DirEntry<'_>| {
        empty = false;
        false
    };
    match file.node.read_dir(0, &mut look) {
        Ok(_) => Ok(empty),
        Err(_) => {
            let how = vfs::OpenHow {
                access: vfs::Access::READ,
                disposition: vfs::Disposition::Open,
                kind: vfs::WantKind::Directory,
                follow: true,
                mode: 0,
            };
            let backend = &file.share.backend;
            let opened = backend.open(&file.cred, &*backend.root(), &file.path()?, &how, vfs::Wait::Allowed)?;
            opened.node.read_dir(0, &mut look)?;
            Ok(empty)
        }
    }
}
