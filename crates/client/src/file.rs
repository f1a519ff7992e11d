//! An open file: reading, writing and changing it by its handle. `client` opens them; streams keep them open while they
//! run. A handle is given back exactly once, by [`File::close`] or when the last user is dropped.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use smb_wire::fscc::{AccessMask, BasicInfo, EndOfFileInfo, FileAttributes, FileInfoClass, NetworkOpenInfo};
use smb_wire::smb2::{
    CloseRequest, Command, CreateContexts, CreateOptions, CreateRequest, CreateResponse, Disposition, FileHandle,
    FlushRequest, InfoType, QueryInfoRequest, ReadRequest, SetInfoRequest, ShareAccess, WriteRequest,
    read_output_buffer,
};

use crate::client::Tree;
use crate::error::{At, Error, ErrorKind};
use crate::path;
use crate::smb::driver::Pending;
use crate::stat::{self, Stat, Times};
use crate::stream::{ReadStream, WriteStream};

/// How to open a file.
#[derive(Debug, Clone, Copy)]
pub struct OpenHow {
    access: AccessMask,
    disposition: Disposition,
    options: CreateOptions,
}

impl OpenHow {
    /// The file there is, for reading.
    pub fn read() -> Self {
        Self::with(AccessMask::FILE_READ_DATA | AccessMask::FILE_READ_ATTRIBUTES, Disposition::Open).a_file()
    }

    /// A new file, or the one there is, emptied; for writing.
    pub fn overwrite() -> Self {
        Self::with(WRITES, Disposition::OverwriteIf).a_file()
    }

    /// A new file only, for writing.
    pub fn new_file() -> Self {
        Self::with(WRITES, Disposition::Create).a_file()
    }

    /// The file there is, or a new one; for reading and writing.
    pub fn update() -> Self {
        Self::with(WRITES | AccessMask::FILE_READ_DATA, Disposition::OpenIf).a_file()
    }

    pub(crate) fn with(access: AccessMask, disposition: Disposition) -> Self {
        Self { access, disposition, options: CreateOptions::empty() }
    }

    pub(crate) fn options(self, options: CreateOptions) -> Self {
        Self { options: self.options | options, ..self }
    }

    fn a_file(self) -> Self {
        self.options(CreateOptions::NON_DIRECTORY_FILE)
    }
}

const WRITES: AccessMask = AccessMask::FILE_WRITE_DATA
    .union(AccessMask::FILE_APPEND_DATA)
    .union(AccessMask::FILE_WRITE_ATTRIBUTES)
    .union(AccessMask::FILE_READ_ATTRIBUTES);

/// An open file.
#[derive(Debug)]
pub struct File {
    pub(crate) open: Arc<Open>,
}

/// What a file and its streams share.
#[derive(Debug)]
pub(crate) struct Open {
    pub tree: Arc<Tree>,
    pub path: PathBuf,
    pub handle: FileHandle,
    pub stat: Stat,
    is_closed: AtomicBool,
}

impl File {
    pub(crate) async fn open(
        tree: &Arc<Tree>,
        operation: &'static str,
        path: &Path,
        how: OpenHow,
    ) -> Result<Self, Error> {
        let name = path::to_wire(path).at(operation, path)?;
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
        let request = tree.request(Command::Create, 0, |out| body.put(&[], out));
        let response = tree.call(request).await.at(operation, path)?;
        let created = CreateResponse::decode(response.message()).at(operation, path)?;
        let open = Open {
            tree: Arc::clone(tree),
            path: path.into(),
            handle: created.handle,
            stat: Stat::from(&created),
            is_closed: AtomicBool::new(false),
        };
        Ok(Self { open: Arc::new(open) })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.open.path
    }

    /// What it was like when it was opened.
    pub fn stat_at_open(&self) -> Stat {
        self.open.stat
    }

    /// What it is like now.
    pub async fn stat(&self) -> Result<Stat, Error> {
        let body = QueryInfoRequest {
            info_type: InfoType::File as u8,
            class: FileInfoClass::NETWORK_OPEN.0,
            output_bytes: NetworkOpenInfo::LEN as u32,
            input: &[],
            additional: 0,
            flags: 0,
            handle: self.open.handle,
        };
        let response = self.call("stat", Command::QueryInfo, |out| body.put(out)).await?;
        let output = read_output_buffer(response.message()).at("stat", self.path())?;
        let info = NetworkOpenInfo::decode(output).map_err(|_| ErrorKind::Nonsense("attributes cut short"));
        Ok(Stat::from(&info.at("stat", self.path())?))
    }

    /// Reads from `offset` until `buf` is full or the file ends; answers how many bytes there were.
    pub async fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let end = offset.saturating_add(buf.len() as u64);
        let mut stream = ReadStream::exactly(Arc::clone(&self.open), offset..end);
        let mut room = buf;
        let mut count = 0;
        while let Some(chunk) = stream.next().await? {
            let Some((target, rest)) = room.split_at_mut_checked(chunk.len()) else { break };
            target.copy_from_slice(&chunk);
            count += chunk.len();
            room = rest;
        }
        Ok(count)
    }

    /// Writes all of `data` at `offset`.
    pub async fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        let mut stream = self.write_stream(offset);
        stream.write(data).await?;
        stream.finish().await.map(drop)
    }

    /// Reads a range, or what there is of it, with as many requests under way as memory and credits allow.
    pub fn read_stream(&self, range: Range<u64>) -> ReadStream {
        ReadStream::new(Arc::clone(&self.open), range)
    }

    /// Writes from `offset` on, with as many requests under way as memory and credits allow.
    pub fn write_stream(&self, offset: u64) -> WriteStream {
        WriteStream::new(Arc::clone(&self.open), offset)
    }

    /// Has the server bring what was written to stable storage.
    pub async fn sync(&self) -> Result<(), Error> {
        let body = FlushRequest { handle: self.open.handle };
        self.call("sync", Command::Flush, |out| body.put(out)).await.map(drop)
    }

    /// Sets the length, in bytes.
    pub async fn set_len(&self, len_bytes: u64) -> Result<(), Error> {
        let mut input = Vec::new();
        EndOfFileInfo { end_of_file: len_bytes }.encode(&mut input);
        self.set_info("set the length of", FileInfoClass::END_OF_FILE, &input).await
    }

    /// Sets those times that are given.
    pub async fn set_times(&self, times: &Times) -> Result<(), Error> {
        let info = BasicInfo {
            created: stat::to_wire(times.created),
            accessed: stat::to_wire(times.accessed),
            written: stat::to_wire(times.written),
            changed: stat::to_wire(times.changed),
            attributes: FileAttributes::empty(),
        };
        let mut input = Vec::new();
        info.encode(&mut input);
        self.set_info("set the times of", FileInfoClass::BASIC, &input).await
    }

    /// Closes it and says whether that went well. With a stream still running the handle goes when that is dropped.
    pub async fn close(self) -> Result<(), Error> {
        if Arc::strong_count(&self.open) > 1 || self.open.is_closed.swap(true, Relaxed) {
            return Ok(());
        }
        let response = self.open.send_close().answer().await.map_err(ErrorKind::from);
        response.and_then(crate::client::good).map(drop).at("close", self.path())
    }

    pub(crate) async fn set_info(
        &self,
        operation: &'static str,
        class: FileInfoClass,
        input: &[u8],
    ) -> Result<(), Error> {
        let body = SetInfoRequest {
            info_type: InfoType::File as u8,
            class: class.0,
            input,
            additional: 0,
            handle: self.open.handle,
        };
        self.call(operation, Command::SetInfo, |out| body.put(out)).await.map(drop)
    }

    async fn call(
        &self,
        operation: &'static str,
        command: Command,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> Result<crate::smb::Response, Error> {
        let tree = &self.open.tree;
        tree.call(tree.request(command, 0, put)).await.at(operation, self.path())
    }
}

impl Open {
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
        self.tree.handle.send(self.tree.request(Command::Read, len_bytes, |out| body.put(out)))
    }

    /// Sends `data` to be written at `offset`.
    pub fn send_write(&self, offset: u64, data: &[u8]) -> Pending {
        let body =
            WriteRequest { flags: 0, offset_bytes: offset, handle: self.handle, channel: 0, data_offset: 0, data };
        let len_bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.tree.handle.send(self.tree.request(Command::Write, len_bytes, |out| body.put(out)))
    }

    fn send_close(&self) -> Pending {
        let body = CloseRequest { post_query: false, handle: self.handle };
        self.tree.handle.send(self.tree.request(Command::Close, 0, |out| body.put(out)))
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
