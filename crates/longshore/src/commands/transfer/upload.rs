//! One file to a server: under a temporary name first, which becomes its own when the server says that it has all of it.
//! A file that is there is replaced in that moment. A thread reads ahead of the connection. `cp` between servers ends its
//! copies here, too.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use client::{File, OpenHow, SetAttributes, Times};
use smb_wire::fscc::FileAttributes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::digest::Sha256;
use super::download::hash_of_remote;
use super::find::{Upload, named_error};
use super::local::Keep;
use super::{Copied, Copying, SMALL_BYTES, Trouble, blocking};
use crate::commands::connect::Place;
use crate::commands::words;

/// What is read at once.
const PIECE_BYTES: usize = 1 << 20;
/// How much of the end of what a server has is compared before it is gone on with: more than a stream has under way and
/// the client leaves uncommitted.
const UNSURE_BYTES: u64 = 96 << 20;
/// Pieces read ahead.
const MOST_PIECES: usize = 4;

/// Copies it and tells what became of it.
pub async fn run(copying: Arc<Copying>, job: Upload) {
    let began = Instant::now();
    let outcome = copy(&copying, &job).await;
    copying.tell(&job.place, &job.local, began, outcome).await;
}

/// A file of this machine that is being copied.
struct Source {
    file: std::fs::File,
    path: PathBuf,
    len_bytes: u64,
    keep: Keep,
    /// All of it, where that is little.
    data: Option<Vec<u8>>,
}

async fn copy(copying: &Copying, job: &Upload) -> Result<Copied, Trouble> {
    let path = job.local.clone();
    let source = blocking(move || Source::open(&path).map_err(|error| named_error(&path, error))).await?;
    let (len_bytes, keep) = (source.len_bytes, source.keep);
    if copying.args.resume && is_there(&job.place, len_bytes, &keep).await {
        copying.progress.skip(len_bytes);
        return Ok(Copied::Skipped);
    }
    let temporary = Temporary::new(&job.place, words::tag(len_bytes, keep.written));
    let times = copying.times(&keep);
    let (start, sha256) = match &source.data {
        Some(data) if !copying.args.sync && !copying.args.checksum => {
            temporary.write_and_name(data, &times).await?;
            copying.progress.copied(data.len());
            (0, None)
        }
        Some(data) if !copying.args.sync => {
            temporary.write_whole(data, &times).await?;
            copying.progress.copied(data.len());
            let sha256 = hash_of(data);
            temporary.complete(len_bytes, Some(&sha256)).await?;
            (0, Some(sha256))
        }
        _ => {
            let (start, sha256) = by_stream(copying, &temporary, source, &times).await?;
            temporary.complete(len_bytes, sha256.as_deref()).await?;
            (start, sha256)
        }
    };
    copying.set_mode(&job.place, &keep).await?;
    Ok(Copied::Whole { bytes: len_bytes - start, sha256 })
}

/// Copies what is large, or to be on stable storage: answers where it went on, and the hash that was asked for.
async fn by_stream(
    copying: &Copying,
    temporary: &Temporary<'_>,
    source: Source,
    times: &Times,
) -> Result<(u64, Option<String>), Trouble> {
    let (len_bytes, written, path) = (source.len_bytes, source.keep.written, source.path.clone());
    let (file, start, source) = begin(copying, temporary, source).await?;
    copying.progress.was_there(start);
    let (hash, now) = send(copying, &file, source, start).await?;
    if now.len() != len_bytes || now.modified().ok() != written {
        temporary.remove().await;
        return Err(Trouble::Differs(format!("{} was changed while it was read; try again", words::shown(&path))));
    }
    if copying.args.sync {
        file.sync().await?;
    }
    if *times != Times::default() {
        file.set_times(times).await?;
    }
    file.close().await?;
    temporary.must_have(len_bytes).await?;
    Ok((start, hash))
}

impl Source {
    fn open(path: &Path) -> io::Result<Self> {
        // What was a file when it was found may be a pipe by now, which would be waited for.
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let len_bytes = metadata.len();
        let data = match len_bytes <= SMALL_BYTES {
            true => {
                let mut data = vec![0; usize::try_from(len_bytes).unwrap_or(0)];
                file.read_exact_at(&mut data, 0)?;
                let now = file.metadata()?;
                if now.len() != len_bytes || now.modified().ok() != metadata.modified().ok() {
                    return Err(io::Error::other("it was changed while it was read; try again"));
                }
                Some(data)
            }
            false => None,
        };
        Ok(Self { file, path: path.into(), len_bytes, keep: Keep::of(&metadata), data })
    }
}

async fn is_there(place: &Place, len_bytes: u64, keep: &Keep) -> bool {
    let Ok(stat) = place.remote.client.stat(&place.path).await else { return false };
    // The tag has what a server keeps of a time.
    let same_time = words::tag(len_bytes, stat.times.written) == words::tag(len_bytes, keep.written);
    !stat.is_dir() && !stat.is_link() && stat.len_bytes == len_bytes && same_time
}

/// Opens the temporary file, and says where to go on: at its end, if that ends as the source does at that place.
async fn begin(copying: &Copying, temporary: &Temporary<'_>, source: Source) -> Result<(File, u64, Source), Trouble> {
    if !copying.args.resume {
        return Ok((temporary.open_empty().await?, 0, source));
    }
    let file = temporary.open_as_it_is().await?;
    let start = file.stat_at_open().len_bytes;
    let (is_same, source) = has_same_tail(&file, start, source).await?;
    if is_same {
        return Ok((file, start, source));
    }
    file.set_len(0).await?;
    Ok((file, 0, source))
}

/// Whether the last of the `end` bytes the server has are the source's: all that may have been under way, or written and
/// not safe, when what sent them ended. Pieces arrive in any order, so that one before the last may be missing.
async fn has_same_tail(file: &File, end: u64, mut source: Source) -> Result<(bool, Source), Trouble> {
    if end > source.len_bytes {
        return Ok((false, source));
    }
    let mut stream = file.read_stream(end.saturating_sub(UNSURE_BYTES)..end);
    let mut next = end.saturating_sub(UNSURE_BYTES);
    while let Some(theirs) = stream.next().await? {
        let at = next;
        next += theirs.len() as u64;
        let is_same;
        (is_same, source) = blocking(move || {
            let mut ours = vec![0; theirs.len()];
            source.file.read_exact_at(&mut ours, at)?;
            Ok((ours[..] == theirs[..], source))
        })
        .await?;
        if !is_same {
            return Ok((false, source));
        }
    }
    Ok((next == end, source))
}

async fn send(
    copying: &Copying,
    file: &File,
    source: Source,
    start: u64,
) -> Result<(Option<String>, Metadata), Trouble> {
    let mut reader = Reader::start(source, start, copying.args.checksum);
    let mut stream = file.write_stream(start);
    while let Some(piece) = reader.pieces.recv().await {
        let len = piece.len();
        let lent = Lent { piece, spare: reader.spare.clone() };
        stream.write_shared(Bytes::from_owner(lent)).await?;
        copying.progress.copied(len);
    }
    let read = reader.finish().await?;
    stream.finish().await?;
    Ok(read)
}

/// A piece that goes back to who read it when all have let go of it.
struct Lent {
    piece: Vec<u8>,
    spare: mpsc::Sender<Vec<u8>>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // With the thread gone nobody needs it.
        let _ = self.spare.try_send(std::mem::take(&mut self.piece));
    }
}

/// A thread that reads a file ahead.
struct Reader {
    pieces: mpsc::Receiver<Vec<u8>>,
    /// Buffers it may use again.
    spare: mpsc::Sender<Vec<u8>>,
    thread: JoinHandle<io::Result<(Option<String>, Metadata)>>,
}

impl Reader {
    fn start(source: Source, start: u64, hashes: bool) -> Self {
        let (outlet, pieces) = mpsc::channel(MOST_PIECES);
        let (spare, spares) = mpsc::channel(MOST_PIECES + 2);
        let thread = tokio::task::spawn_blocking(move || {
            read_all(&source, start, hashes, &outlet, spares).map_err(|error| named_error(&source.path, error))
        });
        Self { pieces, spare, thread }
    }

    /// Its hash, if it was wanted, and what the file is like after it was read.
    async fn finish(self) -> io::Result<(Option<String>, Metadata)> {
        drop(self.pieces);
        self.thread.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

fn read_all(
    source: &Source,
    start: u64,
    hashes: bool,
    outlet: &mpsc::Sender<Vec<u8>>,
    mut spares: mpsc::Receiver<Vec<u8>>,
) -> io::Result<(Option<String>, Metadata)> {
    let mut hash = hashes.then(Sha256::new);
    let mut at = if hashes { 0 } else { start };
    while at < source.len_bytes {
        // What the server has is read for the hash only; no piece is partly sent.
        let end = if at < start { start } else { source.len_bytes };
        let len = usize::try_from(end - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
        let mut piece = spares.try_recv().unwrap_or_default();
        piece.resize(len, 0);
        source.file.read_exact_at(&mut piece, at)?;
        if let Some(hash) = &mut hash {
            hash.update(&piece);
        }
        let is_sent = at >= start;
        at += len as u64;
        if is_sent && outlet.blocking_send(piece).is_err() {
            break;
        }
    }
    Ok((hash.map(Sha256::finish), source.file.metadata()?))
}

/// A file on a server that has not got its name yet.
pub struct Temporary<'a> {
    target: &'a Place,
    path: PathBuf,
}

impl<'a> Temporary<'a> {
    /// Beside `target`, for the version of the source that has the tag.
    pub fn new(target: &'a Place, tag: u32) -> Self {
        let name = target.path.file_name().unwrap_or_default();
        Self { target, path: target.path.with_file_name(words::part_name(name, tag)) }
    }

    /// Opens it with nothing in it.
    pub async fn open_empty(&self) -> Result<File, client::Error> {
        self.target.remote.client.open_with(&self.path, OpenHow::overwrite()).await
    }

    /// Opens it with what is in it, if there is anything.
    pub async fn open_as_it_is(&self) -> Result<File, client::Error> {
        self.target.remote.client.open_with(&self.path, OpenHow::update()).await
    }

    /// Removes it, if it can be.
    pub async fn remove(&self) {
        let _ = self.target.remote.client.remove(&self.path).await;
    }

    /// Makes it of little data in one go.
    pub async fn write_whole(&self, data: &[u8], times: &Times) -> Result<(), client::Error> {
        self.target.remote.client.write_whole(&self.path, data, OpenHow::overwrite(), times).await
    }

    /// Makes it of little data and gives it its name, in as few round trips as that takes.
    pub async fn write_and_name(&self, data: &[u8], times: &Times) -> Result<(), client::Error> {
        self.target.remote.client.write_as(&self.path, &self.target.path, data, times).await
    }

    /// Has the server make it of a file it has; `false` when it does not know how.
    pub async fn copy_of(&self, source: &Path, times: &Times) -> Result<bool, client::Error> {
        let client = &self.target.remote.client;
        match client.copy(source, &self.path).await {
            Err(error) if error.is_unsupported() => return Ok(false),
            copied => copied?,
        };
        if *times != Times::default() {
            client.set_attributes(&self.path, &SetAttributes { times: *times, ..SetAttributes::default() }).await?;
        }
        Ok(true)
    }

    /// Verifies that the server has all of it. What was written by one request needs no question: its answer said so.
    pub async fn must_have(&self, len_bytes: u64) -> Result<(), Trouble> {
        let there = self.target.remote.client.stat(&self.path).await?.len_bytes;
        match there == len_bytes {
            true => Ok(()),
            false => Err(Trouble::Differs(format!("the server has {there} bytes instead of {len_bytes}; try again"))),
        }
    }

    /// Verifies with a hash that the server has nothing else, and gives it its name.
    pub async fn complete(&self, len_bytes: u64, sha256: Option<&str>) -> Result<(), Trouble> {
        let client = &self.target.remote.client;
        if let Some(ours) = sha256 {
            let file = client.open(&self.path).await?;
            let theirs = hash_of_remote(&file, len_bytes).await?;
            file.close().await?;
            if theirs != ours {
                self.remove().await;
                return Err(Trouble::Differs("what the server has differs from the source; try again".into()));
            }
        }
        let renamed = client.rename(&self.path, &self.target.path, true).await;
        if renamed.as_ref().is_err_and(|error| !error.is_of_the_connection()) {
            // It would be refused again.
            self.remove().await;
        }
        Ok(renamed?)
    }
}

fn hash_of(data: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(data);
    hash.finish()
}

impl Copying {
    /// The times a copy on a server is given.
    fn times(&self, keep: &Keep) -> Times {
        match self.args.no_times {
            true => Times::default(),
            false => Times { written: keep.written, accessed: keep.accessed, ..Times::default() },
        }
    }

    /// Gives a copy on a server the mode of its source, where that is wanted; a server without modes can only be told that
    /// nobody is to write.
    async fn set_mode(&self, place: &Place, keep: &Keep) -> Result<(), client::Error> {
        const OWNER_WRITES: u32 = 0o200;
        let read_only = keep.mode.is_some_and(|mode| mode & OWNER_WRITES == 0);
        let set = match place.remote.has_modes() {
            true => SetAttributes { mode: keep.mode, ..SetAttributes::default() },
            false if read_only => SetAttributes { dos: Some(FileAttributes::READONLY), ..SetAttributes::default() },
            false => return Ok(()),
        };
        if self.args.preserve { place.remote.client.set_attributes(&place.path, &set).await } else { Ok(()) }
    }

    /// Notes what a directory on a server is to be given when nothing more is written into it.
    pub(super) fn keep_for(&self, place: &Place, keep: Keep) {
        if !self.args.no_times
            && let Ok(mut directories) = self.directories.lock()
        {
            directories.push((place.clone(), keep));
        }
    }

    /// Gives directories on a server what was noted.
    pub(super) async fn finish_directories(&self) {
        let directories = self.directories.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        // The innermost first: what is set in a directory may change it.
        for (place, keep) in directories.iter().rev() {
            if self.report.is_lost() {
                return;
            }
            let set = SetAttributes {
                times: self.times(keep),
                mode: keep.mode.filter(|_| self.args.preserve && place.remote.has_modes()),
                ..SetAttributes::default()
            };
            if let Err(error) = place.remote.client.set_attributes(&place.path, &set).await {
                self.fail(place, error.into()).await;
            }
        }
    }
}
