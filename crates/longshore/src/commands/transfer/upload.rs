//! One file to a server: under a temporary name first, which becomes its own when the server says that it has all of it.
//! A file that is there is replaced in that moment. A thread reads ahead of the connection. `cp` between servers ends its
//! copies here, too.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use client::{File, OpenHow, Times};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::digest::Sha256;
use super::download::{TAIL_BYTES, hash_of_remote};
use super::find::{Upload, named_error};
use super::local::Keep;
use super::{Copied, Copying, SMALL_BYTES, Trouble, blocking};
use crate::commands::connect::Place;
use crate::commands::words;

/// What is read at once.
const PIECE_BYTES: usize = 1 << 20;
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
    let (file, start, source) = begin(copying, &temporary, source).await?;
    copying.progress.was_there(start);
    let (ours, after) = match &source.data {
        Some(data) => (send_small(copying, &file, data).await?, None),
        None => {
            let (hash, metadata) = send_large(copying, &file, source, start).await?;
            (hash, Some(metadata))
        }
    };
    if after.is_some_and(|now| now.len() != len_bytes || now.modified().ok() != keep.written) {
        temporary.remove().await;
        return Err(Trouble::Differs(format!("{} was changed while it was read; try again", words::shown(&job.local))));
    }
    let end = End { len_bytes, times: copying.times(&keep), sync: copying.args.sync, sha256: ours.clone() };
    temporary.complete(file, &end).await?;
    Ok(Copied::Whole { bytes: len_bytes - start, sha256: ours })
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
    if !copying.args.resume || source.data.is_some() {
        return Ok((temporary.open_empty().await?, 0, source));
    }
    let file = temporary.open_as_it_is().await?;
    let start = file.stat_at_open().len_bytes;
    if start > 0 && start <= source.len_bytes {
        let mut theirs = vec![0; usize::try_from(start.min(TAIL_BYTES)).unwrap_or(0)];
        let at = start - theirs.len() as u64;
        let count = file.read_at(at, &mut theirs).await?;
        theirs.truncate(count);
        let (is_same, source) = blocking(move || {
            let mut ours = vec![0; theirs.len()];
            source.file.read_exact_at(&mut ours, at)?;
            Ok((at + ours.len() as u64 == start && ours == theirs, source))
        })
        .await?;
        if is_same {
            return Ok((file, start, source));
        }
        file.set_len(0).await?;
        return Ok((file, 0, source));
    }
    if start > 0 {
        file.set_len(0).await?;
    }
    Ok((file, 0, source))
}

async fn send_small(copying: &Copying, file: &File, data: &[u8]) -> Result<Option<String>, Trouble> {
    if !data.is_empty() {
        file.write_at(0, data).await?;
        copying.progress.copied(data.len());
    }
    Ok(copying.args.checksum.then(|| {
        let mut hash = Sha256::new();
        hash.update(data);
        hash.finish()
    }))
}

async fn send_large(
    copying: &Copying,
    file: &File,
    source: Source,
    start: u64,
) -> Result<(Option<String>, Metadata), Trouble> {
    let mut reader = Reader::start(source, start, copying.args.checksum);
    let mut stream = file.write_stream(start);
    while let Some(piece) = reader.pieces.recv().await {
        stream.write(&piece).await?;
        copying.progress.copied(piece.len());
        // With the thread gone nobody needs the buffer.
        let _ = reader.spare.try_send(piece);
    }
    let read = reader.finish().await?;
    stream.finish().await?;
    Ok(read)
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

/// What a file is to be when it is whole.
pub struct End {
    /// Its length.
    pub len_bytes: u64,
    /// Those of its times that are kept.
    pub times: Times,
    /// It is to be on stable storage.
    pub sync: bool,
    /// What is in it, if that is to be verified.
    pub sha256: Option<String>,
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

    /// Verifies that the server has all of it and gives it its name.
    pub async fn complete(&self, file: File, end: &End) -> Result<(), Trouble> {
        let client = &self.target.remote.client;
        if end.sync {
            file.sync().await?;
        }
        if end.times != Times::default() {
            file.set_times(&end.times).await?;
        }
        let there = file.stat().await?.len_bytes;
        file.close().await?;
        if there != end.len_bytes {
            let wanted = end.len_bytes;
            return Err(Trouble::Differs(format!("the server has {there} bytes instead of {wanted}; try again")));
        }
        if let Some(ours) = &end.sha256 {
            let file = client.open(&self.path).await?;
            if hash_of_remote(&file, end.len_bytes).await? != *ours {
                drop(file);
                self.remove().await;
                return Err(Trouble::Differs("what the server has differs from the source; try again".into()));
            }
            file.close().await?;
        }
        let renamed = client.rename(&self.path, &self.target.path, true).await;
        if renamed.as_ref().is_err_and(|error| !error.is_of_the_connection()) {
            // It would be refused again.
            self.remove().await;
        }
        Ok(renamed?)
    }
}

impl Copying {
    /// The times a copy on a server is given.
    fn times(&self, keep: &Keep) -> Times {
        match self.args.no_times {
            true => Times::default(),
            false => Times { written: keep.written, accessed: keep.accessed, ..Times::default() },
        }
    }
}
