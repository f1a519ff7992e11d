//! An open of an SMB server. Files, listings and streams use it; it is given back exactly once, by [`Open::close`] or
//! when the last user is dropped.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, BasicInfo, EndOfFileInfo, FileAttributes, FileInfoClass, NetworkOpenInfo};
use smb_wire::smb2::{
    CloseRequest, Command, CreateContexts, CreateOptions, CreateRequest, CreateResponse, Disposition, FileHandle,
    FlushRequest, InfoType, LockElement, LockFlags, LockRequest, QueryInfoRequest, ReadRequest, ReadResponse,
    SetInfoRequest, ShareAccess, WriteRequest, WriteResponse, read_output_buffer,
};

use super::driver::{LARGE_BYTES, Pending};
use super::grip::Grip;
use super::request::RELATED;
use super::session::OF_THE_SHARE;
use super::share::{Share, good};
use super::{Failure, Request, Response, path};
use crate::error::ErrorKind;
use crate::file::{Disposition as Existing, OpenHow};
use crate::stat::{self, Stat, Times};
use crate::stream::Part;

/// What an open is asked for with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub access: AccessMask,
    pub disposition: Disposition,
    pub options: CreateOptions,
}

/// Stands where a request has its open's handle, until it is sent.
pub(super) const HANDLE: FileHandle = FileHandle { persistent: 0, volatile: 0 };

const WRITES: AccessMask = AccessMask::FILE_WRITE_DATA
    .union(AccessMask::FILE_APPEND_DATA)
    .union(AccessMask::FILE_WRITE_ATTRIBUTES)
    .union(AccessMask::FILE_READ_ATTRIBUTES);
const READS: AccessMask = AccessMask::FILE_READ_DATA.union(AccessMask::FILE_READ_ATTRIBUTES);

impl How {
    pub fn changing_attributes() -> Self {
        Self::of_the_link_itself(AccessMask::FILE_WRITE_ATTRIBUTES | AccessMask::FILE_READ_ATTRIBUTES)
    }

    /// A new symbolic link, made a reparse point before it is closed.
    pub fn new_link() -> Self {
        let access = AccessMask::FILE_WRITE_ATTRIBUTES | AccessMask::DELETE;
        let options = CreateOptions::OPEN_REPARSE_POINT | CreateOptions::NON_DIRECTORY_FILE;
        Self { access, disposition: Disposition::Create, options }
    }

    /// The target of a copy by the server, which may ask for reading it too (MS-SMB2 3.3.5.15.6).
    pub fn copy_target() -> Self {
        let (access, options) = (READS | WRITES, CreateOptions::NON_DIRECTORY_FILE);
        Self { access, disposition: Disposition::OverwriteIf, options }
    }

    /// A file that is to have another name when it is whole.
    pub fn replacing() -> Self {
        let how = Self::from(OpenHow::overwrite());
        Self { access: how.access | AccessMask::DELETE, ..how }
    }

    pub fn listing() -> Self {
        let access = AccessMask::FILE_LIST_DIRECTORY | AccessMask::FILE_READ_ATTRIBUTES;
        Self { access, disposition: Disposition::Open, options: CreateOptions::DIRECTORY_FILE }
    }

    pub fn attributes() -> Self {
        Self::of_the_link_itself(AccessMask::FILE_READ_ATTRIBUTES)
    }

    pub fn deleting() -> Self {
        Self::of_the_link_itself(AccessMask::DELETE | AccessMask::FILE_READ_ATTRIBUTES)
    }

    pub fn new_directory() -> Self {
        let access = AccessMask::FILE_READ_ATTRIBUTES;
        Self { access, disposition: Disposition::Create, options: CreateOptions::DIRECTORY_FILE }
    }

    pub fn of_the_link_itself(access: AccessMask) -> Self {
        Self { access, disposition: Disposition::Open, options: CreateOptions::OPEN_REPARSE_POINT }
    }
}

impl How {
    /// Whether the contents may be changed.
    pub fn writes(&self) -> bool {
        self.access.contains(AccessMask::FILE_WRITE_DATA)
    }

    /// The CREATE that opens `path` so, for a compound.
    pub fn request(self, share: &Share, path: &Path) -> Result<Request, ErrorKind> {
        let name = path::to_wire(path)?;
        let body = CreateRequest {
            oplock_level: 0,
            impersonation: 2,
            desired_access: self.access.bits(),
            file_attributes: 0,
            share_access: ShareAccess::all().bits(),
            disposition: self.disposition as u32,
            options: self.options,
            name: &name,
            contexts: CreateContexts::default(),
        };
        let request = share.request(Command::Create, 0, |out| body.put(&[], out));
        Ok(if self.disposition == Disposition::Create { request.once() } else { request })
    }
}

impl From<OpenHow> for How {
    fn from(how: OpenHow) -> Self {
        let mut access = AccessMask::empty();
        if how.reads {
            access |= READS;
        }
        if how.writes {
            access |= WRITES;
        }
        let disposition = match how.existing {
            Existing::Open => Disposition::Open,
            Existing::OpenOrCreate => Disposition::OpenIf,
            Existing::Create => Disposition::Create,
            Existing::CreateOrEmpty => Disposition::OverwriteIf,
        };
        Self { access, disposition, options: CreateOptions::NON_DIRECTORY_FILE }
    }
}

/// An open.
#[derive(Debug)]
pub(crate) struct Open {
    pub share: Arc<Share>,
    pub grip: Arc<Grip>,
    pub stat_at_open: Stat,
    is_closed: AtomicBool,
}

impl Open {
    /// Opens a file that outlives its connection, where that can be had.
    pub(super) async fn new(share: &Arc<Share>, path: &Path, how: How) -> Result<Self, ErrorKind> {
        Self::made(share, path, how, share.handle.can_return()).await
    }

    /// Opens what is of use only as long as its connection lasts.
    pub(super) async fn passing(share: &Arc<Share>, path: &Path, how: How) -> Result<Self, ErrorKind> {
        Self::made(share, path, how, false).await
    }

    async fn made(share: &Arc<Share>, path: &Path, how: How, lasts: bool) -> Result<Self, ErrorKind> {
        let (grip, request) = Self::making(share, path, how, lasts)?;
        let response = share.call(request).await?;
        Self::of(share, grip, &response)
    }

    /// Opens what is of use only as long as its connection lasts, and does `behind` with it, in one message.
    pub(super) async fn with(
        share: &Arc<Share>,
        path: &Path,
        how: How,
        behind: Vec<Request>,
    ) -> Result<(Self, Vec<Pending>), ErrorKind> {
        let (grip, request) = Self::making(share, path, how, false)?;
        let (mut opening, answers) = share.handle.send_compound(request, behind);
        let response = good(opening.answer().await?)?;
        Ok((Self::of(share, grip, &response)?, answers))
    }

    fn making(share: &Share, path: &Path, how: How, lasts: bool) -> Result<(Arc<Grip>, Request), ErrorKind> {
        let grip = Arc::new(Grip::new(path::to_wire(path)?, how, lasts));
        let terms = share.handle.terms();
        let mut request = grip.create(&terms);
        request.tree_id = OF_THE_SHARE;
        request.repeatable = grip.may_be_made_again(&terms);
        request.makes = Some(Arc::clone(&grip));
        share.handle.register(&grip);
        Ok((grip, request))
    }

    fn of(share: &Arc<Share>, grip: Arc<Grip>, response: &Response) -> Result<Self, ErrorKind> {
        let stat_at_open = Stat::from(&CreateResponse::decode(response.message())?);
        Ok(Self { share: Arc::clone(share), grip, stat_at_open, is_closed: AtomicBool::new(false) })
    }

    /// A request about this open; it is given its handle when it is sent.
    pub(super) fn about(&self, request: Request) -> Request {
        request.on(&self.grip)
    }

    pub async fn stat(&self) -> Result<Stat, ErrorKind> {
        let body = QueryInfoRequest {
            info_type: InfoType::File as u8,
            class: FileInfoClass::NETWORK_OPEN.0,
            output_bytes: NetworkOpenInfo::LEN as u32,
            input: &[],
            additional: 0,
            flags: 0,
            handle: HANDLE,
        };
        let response = self.call(Command::QueryInfo, |out| body.put(out)).await?;
        let output = read_output_buffer(response.message())?;
        let info = NetworkOpenInfo::decode(output).map_err(|_| ErrorKind::Nonsense("attributes cut short"))?;
        Ok(Stat::from(&info))
    }

    pub async fn sync(&self) -> Result<(), ErrorKind> {
        let body = FlushRequest { handle: HANDLE };
        self.call(Command::Flush, |out| body.put(out)).await.map(drop)
    }

    pub async fn set_len(&self, len_bytes: u64) -> Result<(), ErrorKind> {
        let mut input = Vec::new();
        EndOfFileInfo { end_of_file: len_bytes }.encode(&mut input);
        self.set_info(FileInfoClass::END_OF_FILE, &input).await
    }

    /// Sets those times that are given, and the attributes where there are any.
    pub async fn set_basic(&self, times: &Times, attributes: FileAttributes) -> Result<(), ErrorKind> {
        self.set_info(FileInfoClass::BASIC, &basic_info(times, attributes)).await
    }

    pub(super) async fn set_info(&self, class: FileInfoClass, input: &[u8]) -> Result<(), ErrorKind> {
        self.share.call(self.about(set_info(&self.share, HANDLE, class, input))).await.map(drop)
    }

    /// Locks a range, or waits until that can be done. Given up while it waits, nothing is locked.
    pub async fn lock(&self, range: Range<u64>, exclusive: bool, wait: bool) -> Result<(), ErrorKind> {
        let kind = if exclusive { LockFlags::EXCLUSIVE } else { LockFlags::SHARED };
        if !wait {
            return self.share.call(self.lock_request(&range, kind | LockFlags::FAIL_IMMEDIATELY)).await.map(drop);
        }
        let undo = self.lock_request(&range, LockFlags::UNLOCK);
        let mut asked = self.share.handle.send_patient(self.lock_request(&range, kind), Some(undo));
        good(asked.answer().await?).map(drop)
    }

    pub async fn unlock(&self, range: Range<u64>) -> Result<(), ErrorKind> {
        self.share.call(self.lock_request(&range, LockFlags::UNLOCK)).await.map(drop)
    }

    fn lock_request(&self, range: &Range<u64>, flags: LockFlags) -> Request {
        let len_bytes = range.end.saturating_sub(range.start);
        let lock = LockElement { offset_bytes: range.start, len_bytes, flags };
        let body = LockRequest { sequence: 0, handle: HANDLE, locks: vec![lock] };
        self.about(self.share.request(Command::Lock, 0, |out| body.put(out)))
    }

    pub async fn close(&self) -> Result<(), ErrorKind> {
        if self.is_closed.swap(true, Relaxed) {
            return Ok(());
        }
        match self.send_close().answer().await {
            // It was sent, and the server does not know the open any more: that is what was wanted.
            Err(Failure::Interrupted) => Ok(()),
            answer => good(answer?).map(drop),
        }
    }

    /// Gives it another name (`input` is FileRenameInformation) and closes it, in one message.
    pub(super) async fn rename_and_close(self, input: &[u8]) -> Result<(), ErrorKind> {
        let share = &self.share;
        let rename = self.about(set_info(share, HANDLE, FileInfoClass::RENAME, input)).once();
        let (mut renaming, mut closing) = share.handle.send_compound(rename, vec![close(share, RELATED)]);
        self.is_closed.store(true, Relaxed);
        let renamed = renaming.answer().await.map_err(ErrorKind::from).and_then(good);
        let closed = match closing.first_mut() {
            Some(closing) => closing.answer().await.map_err(ErrorKind::from).and_then(good),
            None => Err(ErrorKind::Input("a compound has no more answers")),
        };
        // Where the CLOSE was failed for the RENAME before it, it is still to be done.
        self.is_closed.store(renamed.is_ok() || closed.is_ok(), Relaxed);
        if renamed.is_err() {
            let _ = self.close().await;
        }
        renamed.and(closed).map(drop)
    }

    async fn call(&self, command: Command, put: impl FnOnce(&mut Vec<u8>)) -> Result<Response, ErrorKind> {
        self.share.call(self.about(self.share.request(command, 0, put))).await
    }

    /// Asks for `len_bytes` at `offset`.
    pub fn send_read(&self, offset: u64, len_bytes: u32) -> Pending {
        self.share.handle.send(self.about(read(&self.share, HANDLE, offset, len_bytes)))
    }

    /// Sends `data` to be written at `offset`.
    pub fn send_write(&self, offset: u64, data: &[u8]) -> Pending {
        self.share.handle.send(self.about(write(&self.share, HANDLE, offset, data)))
    }

    /// The same of data that need not be copied, unless they are few or what carries them is signed or sealed.
    pub fn send_write_shared(&self, offset_bytes: u64, data: Bytes) -> Pending {
        if data.len() <= LARGE_BYTES || self.share.handle.protects() {
            return self.send_write(offset_bytes, &data);
        }
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let body = WriteRequest { flags: 0, offset_bytes, handle: HANDLE, channel: 0, data_offset: 0, data: &[] };
        let request = self.share.request(Command::Write, len_bytes, |out| body.put_head(len_bytes, out));
        self.share.handle.send(self.about(request.with_data(data)))
    }

    fn send_close(&self) -> Pending {
        self.share.handle.send(self.about(close(&self.share, HANDLE)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !*self.is_closed.get_mut() {
            // Nobody waits for the answer.
            drop(self.send_close());
        }
    }
}

pub(super) fn read(share: &Share, handle: FileHandle, offset_bytes: u64, len_bytes: u32) -> Request {
    let body = ReadRequest { flags: 0, len_bytes, offset_bytes, handle, minimum_bytes: 0, channel: 0 };
    share.request(Command::Read, len_bytes, |out| body.put(out))
}

pub(super) fn write(share: &Share, handle: FileHandle, offset_bytes: u64, data: &[u8]) -> Request {
    let body = WriteRequest { flags: 0, offset_bytes, handle, channel: 0, data_offset: 0, data };
    share.large_request(Command::Write, data.len(), |out| body.put(out))
}

pub(super) fn set_info(share: &Share, handle: FileHandle, class: FileInfoClass, input: &[u8]) -> Request {
    let info_type = InfoType::File as u8;
    let body = SetInfoRequest { info_type, class: class.0, input, additional: 0, handle };
    share.request(Command::SetInfo, 0, |out| body.put(out))
}

pub(super) fn close(share: &Share, handle: FileHandle) -> Request {
    let body = CloseRequest { post_query: false, handle };
    share.request(Command::Close, 0, |out| body.put(out))
}

/// FileBasicInformation that sets those times that are given, and the attributes where there are any.
pub(super) fn basic_info(times: &Times, attributes: FileAttributes) -> Vec<u8> {
    let info = BasicInfo {
        created: stat::to_wire(times.created),
        accessed: stat::to_wire(times.accessed),
        written: stat::to_wire(times.written),
        changed: stat::to_wire(times.changed),
        attributes,
    };
    let mut input = Vec::new();
    info.encode(&mut input);
    input
}

/// What a READ of `len_bytes` brought, where it lies; `None` at the end of the file.
pub(crate) fn was_read(response: Response, len_bytes: u32) -> Result<Option<Part>, ErrorKind> {
    if response.status() == NtStatus::END_OF_FILE {
        return Ok(None);
    }
    let response = good(response)?;
    let data = ReadResponse::data_range(response.message())?;
    if data.len() > len_bytes as usize {
        return Err(ErrorKind::Nonsense("more data than were asked for"));
    }
    if data.is_empty() {
        return Ok(None);
    }
    let (buf, range) = response.into_part(data);
    Ok(Some(Part { buf, range }))
}

/// Whether a WRITE of `len_bytes` wrote as many.
pub(crate) fn was_written(response: Response, len_bytes: u32) -> Result<(), ErrorKind> {
    let count = WriteResponse::decode(good(response)?.message())?.count_bytes;
    match count.cmp(&len_bytes) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => {
            Err(ErrorKind::Nonsense("it wrote less than it was sent, and calls that a success"))
        }
        std::cmp::Ordering::Greater => Err(ErrorKind::Nonsense("it wrote more than it was sent")),
    }
}
