//! An open file: reading, writing and changing it by its handle, whatever the protocol. `client` opens them; streams keep
//! them open while they run.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use smb_wire::fscc::FileAttributes;

use crate::error::{At, Error, ErrorKind};
use crate::nfs;
use crate::smb;
use crate::stat::{Stat, Times};
use crate::stream::{self, Chunk, Part, ReadStream, WriteStream};

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenHow {
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) existing: Disposition,
}

/// What becomes of a file that is there, and of one that is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    Open,
    OpenOrCreate,
    Create,
    CreateOrEmpty,
}

impl OpenHow {
    /// The file there is, for reading.
    pub fn read() -> Self {
        Self { reads: true, writes: false, existing: Disposition::Open }
    }

    /// The file there is, for reading and writing.
    pub fn change() -> Self {
        Self { reads: true, writes: true, existing: Disposition::Open }
    }

    /// A new file, or the one there is, emptied; for writing.
    pub fn overwrite() -> Self {
        Self { reads: false, writes: true, existing: Disposition::CreateOrEmpty }
    }

    /// A new file only, for writing.
    pub fn new_file() -> Self {
        Self { reads: false, writes: true, existing: Disposition::Create }
    }

    /// The file there is, or a new one; for reading and writing.
    pub fn update() -> Self {
        Self { reads: true, writes: true, existing: Disposition::OpenOrCreate }
    }
}

/// An open file.
#[derive(Debug)]
pub struct File {
    path: Arc<PathBuf>,
    open: Open,
}

/// What a file and its streams share.
#[derive(Debug, Clone)]
pub(crate) enum Open {
    Smb(Arc<smb::Open>),
    Nfs(Arc<nfs::Open>),
}

impl File {
    pub(crate) fn new(path: &Path, open: Open) -> Self {
        Self { path: Arc::new(path.into()), open }
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it was like when it was opened.
    pub fn stat_at_open(&self) -> Stat {
        self.open.stat_at_open()
    }

    /// What it is like now.
    pub async fn stat(&self) -> Result<Stat, Error> {
        let stat = match &self.open {
            Open::Smb(open) => open.stat().await,
            Open::Nfs(open) => open.stat().await,
        };
        stat.at("stat", self.path())
    }

    /// Reads from `offset` until `buf` is full or the file ends; answers how many bytes there were.
    pub async fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let end = offset.saturating_add(buf.len() as u64);
        let mut stream = ReadStream::exactly(self.stream_end(), offset..end);
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

    /// Sends one READ: brings as much of `len_bytes` at `offset` as one request may and the server gives, without a copy;
    /// `None` at the end of the file. For callers who keep requests under way themselves.
    pub async fn read_once(&self, offset: u64, len_bytes: u32) -> Result<Option<Chunk>, Error> {
        let len_bytes = len_bytes.min(self.open.read_bytes());
        let part = self.open.send_read(offset, len_bytes).answer(len_bytes).await.at("read", self.path())?;
        Ok(part.map(|part| Chunk::new(part, offset)))
    }

    /// Sends one WRITE, of as much of `data` as one request may carry; answers how many bytes those were.
    pub async fn write_once(&self, offset: u64, data: &[u8]) -> Result<usize, Error> {
        let now = data.get(..self.open.write_bytes() as usize).unwrap_or(data);
        let len_bytes = u32::try_from(now.len()).unwrap_or(u32::MAX);
        self.open.send_write(offset, now).answer(len_bytes).await.at("write", self.path())?;
        Ok(now.len())
    }

    /// The same of data that stay where they are until they are written: they are copied only where what is sent is signed
    /// or sealed.
    pub async fn write_once_shared(&self, offset: u64, mut data: Bytes) -> Result<usize, Error> {
        data.truncate(self.open.write_bytes() as usize);
        let (len, len_bytes) = (data.len(), u32::try_from(data.len()).unwrap_or(u32::MAX));
        self.open.send_write_shared(offset, data).answer(len_bytes).await.at("write", self.path())?;
        Ok(len)
    }

    /// Reads a range, or what there is of it, with as many requests under way as memory and the server allow.
    pub fn read_stream(&self, range: Range<u64>) -> ReadStream {
        ReadStream::new(self.stream_end(), range)
    }

    /// Writes from `offset` on, with as many requests under way as memory and the server allow.
    pub fn write_stream(&self, offset: u64) -> WriteStream {
        WriteStream::new(self.stream_end(), offset)
    }

    /// Has the server bring what was written to stable storage.
    pub async fn sync(&self) -> Result<(), Error> {
        let synced = match &self.open {
            Open::Smb(open) => open.sync().await,
            Open::Nfs(open) => open.sync().await,
        };
        synced.at("sync", self.path())
    }

    /// Sets the length, in bytes.
    pub async fn set_len(&self, len_bytes: u64) -> Result<(), Error> {
        let set = match &self.open {
            Open::Smb(open) => open.set_len(len_bytes).await,
            Open::Nfs(open) => open.set_len(len_bytes).await,
        };
        set.at("set the length of", self.path())
    }

    /// Sets those times that are given.
    pub async fn set_times(&self, times: &Times) -> Result<(), Error> {
        let set = match &self.open {
            Open::Smb(open) => open.set_basic(times, FileAttributes::empty()).await,
            Open::Nfs(open) => open.set_times(times).await,
        };
        set.at("set the times of", self.path())
    }

    /// Locks a range of bytes for this file alone, or, not `exclusive`, for all who lock it so too. With `wait` for as
    /// long as it takes; without, what others hold is an error at once. Locks end with the file.
    pub async fn lock(&self, range: Range<u64>, exclusive: bool, wait: bool) -> Result<(), Error> {
        let locked = match &self.open {
            Open::Smb(open) => open.lock(range, exclusive, wait).await,
            Open::Nfs(open) => open.lock(range, exclusive, wait).await,
        };
        locked.at("lock", self.path())
    }

    /// Gives back a range that was locked as it is given here.
    pub async fn unlock(&self, range: Range<u64>) -> Result<(), Error> {
        let unlocked = match &self.open {
            Open::Smb(open) => open.unlock(range).await,
            Open::Nfs(open) => open.unlock(range).await,
        };
        unlocked.at("unlock", self.path())
    }

    /// Has the server copy a range into another file of the same client, open for reading and writing.
    pub async fn copy_range(&self, from: u64, target: &Self, to: u64, len_bytes: u64) -> Result<(), Error> {
        let copied = match (&self.open, &target.open) {
            (Open::Smb(open), Open::Smb(target)) => open.copy_range(from, target, to, len_bytes).await,
            (Open::Nfs(open), Open::Nfs(target)) => open.copy_range(from, target, to, len_bytes).await,
            _ => Err(ErrorKind::Input("the two files are at different servers")),
        };
        copied.at("copy", self.path())
    }

    /// Closes it and says whether that went well. With a stream still running the handle goes when that is dropped.
    pub async fn close(self) -> Result<(), Error> {
        let closed = match &self.open {
            Open::Smb(open) if Arc::strong_count(open) > 1 => Ok(()),
            Open::Smb(open) => open.close().await,
            // What was written before is safe then, or it is said that it is not.
            Open::Nfs(open) if Arc::strong_count(open) > 1 => open.sync().await,
            Open::Nfs(open) => open.close().await,
        };
        closed.at("close", self.path())
    }

    fn stream_end(&self) -> stream::End {
        stream::End { open: self.open.clone(), path: Arc::clone(&self.path) }
    }
}

/// What streams ask of an open.
impl Open {
    pub fn stat_at_open(&self) -> Stat {
        match self {
            Self::Smb(open) => open.stat_at_open,
            Self::Nfs(open) => open.stat_at_open,
        }
    }

    /// The most one READ brings, in bytes; never 0.
    pub fn read_bytes(&self) -> u32 {
        match self {
            Self::Smb(open) => open.share.handle.limits().read_bytes.max(1),
            Self::Nfs(open) => open.read_bytes(),
        }
    }

    /// The most one WRITE carries, in bytes; never 0.
    pub fn write_bytes(&self) -> u32 {
        match self {
            Self::Smb(open) => open.share.handle.limits().write_bytes.max(1),
            Self::Nfs(open) => open.write_bytes(),
        }
    }

    /// Bytes one stream has under way at most.
    pub fn stream_bytes(&self) -> u32 {
        match self {
            Self::Smb(open) => open.share.stream_bytes,
            Self::Nfs(open) => open.share.stream_bytes,
        }
    }

    /// Asks for `len_bytes` at `offset`.
    pub fn send_read(&self, offset: u64, len_bytes: u32) -> Reading {
        match self {
            Self::Smb(open) => Reading::Smb(open.send_read(offset, len_bytes)),
            Self::Nfs(open) => Reading::Nfs(open.send_read(offset, len_bytes)),
        }
    }

    /// Sends `data` to be written at `offset`.
    pub fn send_write(&self, offset: u64, data: &[u8]) -> Writing {
        match self {
            Self::Smb(open) => Writing::Smb(open.send_write(offset, data)),
            Self::Nfs(open) => Writing::Nfs(open.send_write(offset, data)),
        }
    }

    /// The same of data that need not be copied.
    pub fn send_write_shared(&self, offset: u64, data: Bytes) -> Writing {
        match self {
            Self::Smb(open) => Writing::Smb(open.send_write_shared(offset, data)),
            Self::Nfs(open) => Writing::Nfs(open.send_write_shared(offset, data)),
        }
    }
}

/// A READ under way.
#[derive(Debug)]
pub(crate) enum Reading {
    Smb(smb::Pending),
    Nfs(nfs::Reading),
}

impl Reading {
    /// What it brought of the `len_bytes` it asked for; `None` at the end of the file. Nothing is lost when this is given
    /// up before it is done.
    pub async fn answer(&mut self, len_bytes: u32) -> Result<Option<Part>, ErrorKind> {
        match self {
            Self::Smb(pending) => smb::was_read(pending.answer().await?, len_bytes),
            Self::Nfs(reading) => reading.answer().await,
        }
    }
}

/// A WRITE under way.
#[derive(Debug)]
pub(crate) enum Writing {
    Smb(smb::Pending),
    Nfs(nfs::Writing),
}

impl Writing {
    /// Whether all `len_bytes` are written. Nothing is lost when this is given up before it is done.
    pub async fn answer(&mut self, len_bytes: u32) -> Result<(), ErrorKind> {
        match self {
            Self::Smb(pending) => smb::was_written(pending.answer().await?, len_bytes),
            Self::Nfs(writing) => writing.answer().await,
        }
    }
}
