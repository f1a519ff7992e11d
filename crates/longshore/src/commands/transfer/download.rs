//! One file from a server. A small one is read whole and written in one go; a large one is read by a stream that keeps the
//! connection full while a thread writes what has come. It gets its name only when its length is verified.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Instant;

use client::{Chunk, File, Stat};
use smb_wire::fscc::FileAttributes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::digest::Sha256;
use super::find::Download;
use super::local::{Folder, Keep, Part};
use super::{Copied, Copying, SMALL_BYTES, Trouble, blocking};
use crate::commands::words;

/// Chunks that wait to be written, of a file.
const MOST_CHUNKS: usize = 8;
/// How much of what is gone on with is compared first.
const TAIL_BYTES: u64 = 1 << 20;

/// Copies it and tells what became of it.
pub async fn run(copying: Arc<Copying>, job: Download) {
    let began = Instant::now();
    let outcome = copy(&copying, &job).await;
    copying.tell(&job.place, &job.local, began, outcome).await;
}

async fn copy(copying: &Copying, job: &Download) -> Result<Copied, Trouble> {
    let Download { place, folder, name, .. } = job;
    if copying.args.resume && is_there(job).await {
        copying.progress.skip(job.stat.len_bytes);
        return Ok(Copied::Skipped);
    }
    if job.stat.len_bytes <= SMALL_BYTES {
        // Asking for nothing is not answered by every server.
        let most_bytes = u32::try_from(job.stat.len_bytes).unwrap_or(u32::MAX).max(1);
        if let (stat, Some(data)) = place.remote.client.read_whole(&place.path, most_bytes).await? {
            copying.progress.copied(data.len());
            let (folder, name, end) = (Arc::clone(folder), name.clone(), copying.end(&stat));
            let bytes = data.len() as u64;
            let sha256 = blocking(move || small(&folder, &name, &stat, &data, &end)).await?;
            return Ok(Copied::Whole { bytes, sha256 });
        }
    }
    let file = place.remote.client.open(&place.path).await?;
    let stat = file.stat_at_open();
    large(copying, job, file, stat).await
}

fn small(folder: &Arc<Folder>, name: &OsStr, stat: &Stat, data: &[u8], end: &End) -> std::io::Result<Option<String>> {
    let part = Part::open(folder, name, tag_of(stat), false)?;
    part.write(0, data, end.sparse)?;
    let hash = end.checksum.then(|| hash_of(data));
    end.complete(part, hash)
}

/// Whether it is there as it is to be. On a server, times are not finer than 100 ns, and on some file systems here coarser.
async fn is_there(job: &Download) -> bool {
    let (folder, name, stat) = (Arc::clone(&job.folder), job.name.clone(), job.stat);
    blocking(move || Ok(folder.has(&name, stat.len_bytes, stat.times.written))).await.unwrap_or(false)
}

async fn large(copying: &Copying, job: &Download, file: File, stat: Stat) -> Result<Copied, Trouble> {
    let (folder, name, tag, resume) = (Arc::clone(&job.folder), job.name.clone(), tag_of(&stat), copying.args.resume);
    let part = blocking(move || Part::open(&folder, &name, tag, resume)).await?;
    let (part, start) = begin(part, &file, &stat).await?;
    copying.progress.was_there(start);
    let hashes = copying.args.checksum && start == 0;
    let mut stream = file.read_stream(start..stat.len_bytes);
    let writer = Writer::start(part, copying.sparse, hashes);
    let mut next = start;
    while let Some(chunk) = stream.next().await? {
        next += chunk.len() as u64;
        copying.progress.copied(chunk.len());
        if writer.chunks.send(chunk).await.is_err() {
            break;
        }
    }
    let (part, hash) = writer.finish().await?;
    if next != stat.len_bytes {
        return Err(ended_early(next, &stat));
    }
    let now = file.stat().await?;
    if (now.len_bytes, now.times.written) != (stat.len_bytes, stat.times.written) {
        let _ = blocking(move || part.empty()).await;
        return Err(Trouble::Differs("it was changed while it was read; try again".into()));
    }
    let hash = match (copying.args.checksum, hash) {
        (true, None) => Some(hash_of_remote(&file, stat.len_bytes).await?),
        (_, hash) => hash,
    };
    let end = copying.end(&stat);
    let sha256 = blocking(move || end.complete(part, hash)).await?;
    Ok(Copied::Whole { bytes: next - start, sha256 })
}

/// Where to go on: at the end of what is there, if that ends as the source does at that place.
async fn begin(part: Part, file: &File, stat: &Stat) -> Result<(Part, u64), Trouble> {
    let (part, start, tail) = blocking(move || {
        let len_bytes = part.len_bytes()?;
        let mut tail = vec![0; usize::try_from(len_bytes.min(TAIL_BYTES)).unwrap_or(0)];
        let count = part.read(len_bytes - tail.len() as u64, &mut tail)?;
        tail.truncate(count);
        Ok((part, len_bytes, tail))
    })
    .await?;
    if start == 0 {
        return Ok((part, 0));
    }
    if start <= stat.len_bytes {
        let mut theirs = vec![0; tail.len()];
        let count = file.read_at(start - tail.len() as u64, &mut theirs).await?;
        if count == tail.len() && theirs == tail {
            return Ok((part, start));
        }
    }
    let part = blocking(move || part.empty().map(|()| part)).await?;
    Ok((part, 0))
}

/// A thread that writes what it is sent.
struct Writer {
    chunks: mpsc::Sender<Chunk>,
    thread: JoinHandle<std::io::Result<(Part, Option<String>)>>,
}

impl Writer {
    fn start(part: Part, sparse: bool, hashes: bool) -> Self {
        let (chunks, mut inbox) = mpsc::channel::<Chunk>(MOST_CHUNKS);
        let thread = tokio::task::spawn_blocking(move || {
            let mut hash = hashes.then(Sha256::new);
            while let Some(chunk) = inbox.blocking_recv() {
                part.write(chunk.offset(), &chunk, sparse)?;
                if let Some(hash) = &mut hash {
                    hash.update(&chunk);
                }
            }
            Ok((part, hash.map(Sha256::finish)))
        });
        Self { chunks, thread }
    }

    /// Waits until all is written; what went wrong comes out here.
    async fn finish(self) -> std::io::Result<(Part, Option<String>)> {
        drop(self.chunks);
        self.thread.await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
    }
}

/// What is done when all of a file is there.
pub struct End {
    len_bytes: u64,
    keep: Keep,
    sync: bool,
    sparse: bool,
    checksum: bool,
}

impl Copying {
    fn end(&self, stat: &Stat) -> End {
        let (sync, checksum) = (self.args.sync, self.args.checksum);
        End { len_bytes: stat.len_bytes, keep: self.keep(stat), sync, sparse: self.sparse, checksum }
    }

    /// What is to be kept of a file of a server.
    pub(super) fn keep(&self, stat: &Stat) -> Keep {
        let times = !self.args.no_times;
        Keep {
            written: stat.times.written.filter(|_| times),
            accessed: stat.times.accessed.filter(|_| times),
            mode: stat.mode.or_else(|| read_only(stat)).filter(|_| self.args.preserve),
        }
    }
}

/// What a file that an SMB server calls read-only is here.
fn read_only(stat: &Stat) -> Option<u32> {
    const MODE: u32 = 0o444;
    (!stat.is_dir() && stat.attributes.contains(FileAttributes::READONLY)).then_some(MODE)
}

impl End {
    /// Compares what is there with the hash of the source, where there is one, and gives it its name.
    fn complete(&self, part: Part, theirs: Option<String>) -> std::io::Result<Option<String>> {
        if let Some(theirs) = &theirs {
            if self.sparse {
                part.extend(self.len_bytes)?;
            }
            if hash_of_part(&part, self.len_bytes)? != *theirs {
                part.empty()?;
                return Err(std::io::Error::other("what was written differs from the source; try again"));
            }
        }
        part.complete(self.len_bytes, &self.keep, self.sync, self.sparse)?;
        Ok(theirs)
    }
}

fn hash_of(data: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(data);
    hash.finish()
}

fn hash_of_part(part: &Part, len_bytes: u64) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    let mut buf = vec![0; 256 << 10];
    let mut at = 0;
    while at < len_bytes {
        let count = part.read(at, &mut buf)?;
        if count == 0 {
            break;
        }
        hash.update(buf.get(..count).unwrap_or_default());
        at += count as u64;
    }
    Ok(hash.finish())
}

/// Reads a server's file whole for its hash.
pub async fn hash_of_remote(file: &File, len_bytes: u64) -> Result<String, client::Error> {
    let mut hash = Sha256::new();
    let mut stream = file.read_stream(0..len_bytes);
    while let Some(chunk) = stream.next().await? {
        hash.update(&chunk);
    }
    Ok(hash.finish())
}

fn tag_of(stat: &Stat) -> u32 {
    words::tag(stat.len_bytes, stat.times.written)
}

fn ended_early(count: u64, stat: &Stat) -> Trouble {
    Trouble::Differs(format!("the server sent {count} bytes of {}; the file may have been cut", stat.len_bytes))
}
