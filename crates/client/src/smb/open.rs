//! An open of an SMB server. Files, listings and streams use it; it is given back exactly once, by [`Open::close`] or
//! when the last user is dropped.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use smb_wire::NtStatus;
use smb_wire::fscc::{AccessMask, BasicInfo, EndOfFileInfo, FileAttributes, FileInfoClass, NetworkOpenInfo};
use smb_wire::smb2::{
    CloseRequest, Command, CreateContexts, CreateOptions, CreateRequest, CreateResponse, Disposition, FileHandle,
    FlushRequest, InfoType, QueryInfoRequest, ReadRequest, ReadResponse, SetInfoRequest, ShareAccess, WriteRequest,
    WriteResponse, read_output_buffer,
};

use super::driver::Pending;
use super::share::{Share, good};
use super::{Response, path};
use crate::error::ErrorKind;
use crate::file::{Disposition as Existing, OpenHow};
use crate::stat::{self, Stat, Times};
use crate::stream::Part;

/// What an open is asked for with.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    access: AccessMask,
    disposition: Disposition,
    options: CreateOptions,
}

const WRITES: AccessMask = AccessMask::FILE_WRITE_DATA
    .union(AccessMask::FILE_APPEND_DATA)
    .union(AccessMask::FILE_WRITE_ATTRIBUTES)
    .union(AccessMask::FILE_READ_ATTRIBUTES);
const READS: AccessMask = AccessMask::FILE_READ_DATA.union(AccessMask::FILE_READ_ATTRIBUTES);

impl How {
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
    pub handle: FileHandle,
    pub stat_at_open: Stat,
    is_closed: AtomicBool,
}

impl Open {
    pub(super) async fn new(share: &Arc<Share>, path: &Path, how: How) -> Result<Self, ErrorKind> {
        let name = path::to_wire(path)?;
        let body = CreateRequest {
            oplock_level: 0,
            impersonation: 2,
            desired_access: how.access.bits(),
            file_attributes: 0,
            share_access: ShareAccess::all().bits(),
            disposition: how.disposition as u32,
            options: how.options,
            name: &name,
            contexts: CreateContexts::default(),
        };
        let response = share.call(share.request(Command::Create, 0, |out| body.put(&[], out))).await?;
        let created = CreateResponse::decode(response.message())?;
        Ok(Self {
            share: Arc::clone(share),
            handle: created.handle,
            stat_at_open: Stat::from(&created),
            is_closed: AtomicBool::new(false),
        })
    }

    pub async fn stat(&self) -> Result<Stat, ErrorKind> {
        let body = QueryInfoRequest {
            info_type: InfoType::File as u8,
            class: FileInfoClass::NETWORK_OPEN.0,
            output_bytes: NetworkOpenInfo::LEN as u32,
            input: &[],
            additional: 0,
            flags: 0,
            handle: self.handle,
        };
        let response = self.call(Command::QueryInfo, |out| body.put(out)).await?;
        let output = read_output_buffer(response.message())?;
        let info = NetworkOpenInfo::decode(output).map_err(|_| ErrorKind::Nonsense("attributes cut short"))?;
        Ok(Stat::from(&info))
    }

    pub async fn sync(&self) -> Result<(), ErrorKind> {
        let body = FlushRequest { handle: self.handle };
        self.call(Command::Flush, |out| body.put(out)).await.map(drop)
    }

    pub async fn set_len(&self, len_bytes: u64) -> Result<(), ErrorKind> {
        let mut input = Vec::new();
        EndOfFileInfo { end_of_file: len_bytes }.encode(&mut input);
        self.set_info(FileInfoClass::END_OF_FILE, &input).await
    }

    /// Sets those times that are given, and the attributes where there are any.
    pub async fn set_basic(&self, times: &Times, attributes: FileAttributes) -> Result<(), ErrorKind> {
        let info = BasicInfo {
            created: stat::to_wire(times.created),
            accessed: stat::to_wire(times.accessed),
            written: stat::to_wire(times.written),
            changed: stat::to_wire(times.changed),
            attributes,
        };
        let mut input = Vec::new();
        info.encode(&mut input);
        self.set_info(FileInfoClass::BASIC, &input).await
    }

    pub(super) async fn set_info(&self, class: FileInfoClass, input: &[u8]) -> Result<(), ErrorKind> {
        let body = SetInfoRequest {
            info_type: InfoType::File as u8,
            class: class.0,
            input,
            additional: 0,
            handle: self.handle,
        };
        self.call(Command::SetInfo, |out| body.put(out)).await.map(drop)
    }

    pub async fn close(&self) -> Result<(), ErrorKind> {
        if self.is_closed.swap(true, Relaxed) {
            return Ok(());
        }
        good(self.send_close().answer().await?).map(drop)
    }

    async fn call(&self, command: Command, put: impl FnOnce(&mut Vec<u8>)) -> Result<Response, ErrorKind> {
        self.share.call(self.share.request(command, 0, put)).await
    }

    /// Asks for `len_bytes` at `offset`.
    pub fn send_read(&self, offset: u64, len_bytes: u32) -> Pending {
        let body = ReadRequest {
            flags: 0,
            len_bytes,
            offset_bytes: offset,
            handle: self.handle,
            minimum_bytes: 0,
            channel: 0,
        };
        self.share.handle.send(self.share.request(Command::Read, len_bytes, |out| body.put(out)))
    }

    /// Sends `data` to be written at `offset`.
    pub fn send_write(&self, offset: u64, data: &[u8]) -> Pending {
        let body =
            WriteRequest { flags: 0, offset_bytes: offset, handle: self.handle, channel: 0, data_offset: 0, data };
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.share.handle.send(self.share.request(Command::Write, len_bytes, |out| body.put(out)))
    }

    fn send_close(&self) -> Pending {
        let body = CloseRequest { post_query: false, handle: self.handle };
        self.share.handle.send(self.share.request(Command::Close, 0, |out| body.put(out)))
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
