//! `longshore get` and `put`. Here: where copies go, how many are under way, and what is told of each. `download` and
//! `upload` copy one file, `find` walks trees, `local` is this machine's side. A copy has its name only when it is whole.

mod digest;
mod download;
mod find;
mod local;
mod progress;
mod upload;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};

use super::args::{GetArgs, PutArgs, TransferArgs};
use super::budget::Budget;
use super::connect::{self, Place};
use super::on_servers;
use super::report::{Output, Piece, Report, reason};
use super::words;
use crate::failure::Failure;
use local::{Folder, Keep};
use progress::Progress;

pub use upload::Temporary;

/// A file of at most so many bytes goes in one piece, and as one of many.
const SMALL_BYTES: u64 = 128 << 10;
/// So many small files count as one large one.
const SMALL_PER_JOB: u32 = 8;
/// Files that were found and wait for their turn.
const MOST_WAITING: usize = 512;

/// What all files of one run have in common.
pub struct Copying {
    args: TransferArgs,
    sparse: bool,
    report: Arc<Report>,
    progress: Progress,
    budget: Budget,
    /// Where lines for programs go.
    output: Option<Output>,
    /// What directories on a server are to be given in the end.
    directories: Mutex<Vec<(Place, Keep)>>,
}

/// Why a file was not copied.
pub enum Trouble {
    /// The server, or the way to it.
    Remote(client::Error),
    /// This machine.
    Local(std::io::Error),
    /// The two do not agree, and on what.
    Differs(String),
}

impl From<client::Error> for Trouble {
    fn from(error: client::Error) -> Self {
        Self::Remote(error)
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Local(error)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Remote(error) => f.write_str(&reason(error)),
            Self::Local(error) => write!(f, "on this machine: {error}"),
            Self::Differs(what) => f.write_str(what),
        }
    }
}

/// What became of a file.
pub enum Copied {
    /// It was copied: so many bytes went over the wire, and the hash of all of it, if it was asked for.
    Whole { bytes: u64, sha256: Option<String> },
    /// It was there already.
    Skipped,
}

/// Runs what may wait for a disk where it may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

/// `longshore get`.
pub fn get(args: &GetArgs) -> Result<(), Failure> {
    let (urls, target) = sources_and_target(&args.places)?;
    let report = Arc::new(Report::new("get").with_bar(Progress::bar(&args.transfer)));
    on_servers(&urls, &args.login, &report, async |places| {
        let copying = Copying::new(&args.transfer, args.sparse, &report);
        let (jobs, inbox) = mpsc::channel(MOST_WAITING);
        let finding = find::on_servers(&copying, places, &target, jobs);
        let doing = copying.all(inbox, |job: &find::Download| job.stat.len_bytes, download::run);
        copying.watched(async { tokio::join!(finding, doing) }).await;
        copying.sum_up().await
    })
}

/// What `get` is to copy, and where to: the last place is a name here, or it is missing.
fn sources_and_target(places: &[String]) -> Result<(Vec<String>, PathBuf), Failure> {
    let (urls, target) = match places {
        [urls @ .., target] if !connect::is_url(target) => (urls, PathBuf::from(target)),
        urls => (urls, PathBuf::from("./")),
    };
    match urls.iter().find(|url| !connect::is_url(url)) {
        Some(stray) => Err(Failure::usage(format!(
            "`{}` is no URL (smb://host/share/path), and only the last place may be a name here",
            words::printable(stray)
        ))),
        None if urls.is_empty() => Err(Failure::usage("get what? Give a URL: smb://host/share/path")),
        None => Ok((urls.to_vec(), target)),
    }
}

/// `longshore put`.
pub fn put(args: &PutArgs) -> Result<(), Failure> {
    let Some((url, sources)) = args.places.split_last().filter(|(url, _)| connect::is_url(url)) else {
        return Err(Failure::usage("put where? The last place is to be a URL: smb://host/share/path"));
    };
    if let Some(stray) = sources.iter().find(|source| connect::is_url(source)) {
        return Err(Failure::usage(format!("{stray} is a URL; `longshore cp` copies from server to server")));
    }
    let report = Arc::new(Report::new("put").with_bar(Progress::bar(&args.transfer)));
    on_servers(std::slice::from_ref(url), &args.login, &report, async |places| {
        let Some(place) = places.into_iter().next() else { return Ok(()) };
        let copying = Copying::new(&args.transfer, false, &report);
        let (jobs, inbox) = mpsc::channel(MOST_WAITING);
        let finding = find::on_this_machine(&copying, sources, &place, url.ends_with('/'), jobs);
        let doing = copying.all(inbox, |job: &find::Upload| job.len_bytes, upload::run);
        copying
            .watched(async {
                tokio::join!(finding, doing);
                copying.finish_directories().await;
            })
            .await;
        copying.sum_up().await
    })
}

impl Copying {
    /// To be called in the runtime.
    fn new(args: &TransferArgs, sparse: bool, report: &Arc<Report>) -> Arc<Self> {
        let (report, progress) = (Arc::clone(report), Progress::new());
        let output = args.json.then(Output::new);
        let (args, budget, directories) = (args.clone(), Budget::default(), Mutex::default());
        Arc::new(Self { args, sparse, report, progress, budget, output, directories })
    }

    /// Shows how far `work` is until it is done, and says what was done in all.
    async fn watched<T>(&self, work: impl Future<Output = T>) {
        tokio::select! {
            _ = work => {}
            () = self.progress.draw(self.report.bar()) => {}
        }
    }

    /// Says what was done in all.
    async fn sum_up(self: Arc<Self>) -> Result<(), Failure> {
        self.say(&self.progress.total(self.report.failures())).await;
        if !self.args.json && !self.args.quiet {
            self.progress.sum_up(self.report.bar());
        }
        let report = Arc::clone(&self.report);
        match Arc::into_inner(self).and_then(|copying| copying.output) {
            Some(output) => output.finish(&report).await,
            None => Ok(()),
        }
    }

    /// A line for programs.
    async fn say(&self, record: &Value) {
        if let Some(output) = &self.output {
            // That nobody reads it is said in the end.
            let _ = output.put(Piece::Text(format!("{record}\n").into_bytes())).await;
        }
    }

    /// Copies what comes in, several at a time, until nothing more does or the connection is lost.
    async fn all<J, W, F>(self: &Arc<Self>, mut inbox: mpsc::Receiver<J>, len_bytes: fn(&J) -> u64, work: W)
    where
        J: Send + 'static,
        W: Fn(Arc<Self>, J) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let places = SMALL_PER_JOB * u32::from(self.args.jobs);
        let room = Arc::new(Semaphore::new(places as usize));
        let mut under_way = JoinSet::new();
        while !self.report.is_lost()
            && let Some(job) = inbox.recv().await
        {
            let weight = if len_bytes(&job) <= SMALL_BYTES { 1 } else { SMALL_PER_JOB };
            let Ok(permit) = Arc::clone(&room).acquire_many_owned(weight).await else { break };
            let copy = work(Arc::clone(self), job);
            under_way.spawn(async move {
                copy.await;
                drop(permit);
            });
            while let Some(copied) = under_way.try_join_next() {
                self.check(&copied);
            }
        }
        while let Some(copied) = under_way.join_next().await {
            self.check(&copied);
        }
    }

    /// What a task came to: one that broke off has told nobody.
    fn check<T>(&self, done: &Result<T, JoinError>) {
        if let Err(error) = done {
            self.report.failure("a copy", error);
        }
    }

    /// Tells what became of one file.
    async fn tell(&self, place: &Place, local: &Path, began: Instant, outcome: Result<Copied, Trouble>) {
        let mut record = json!({
            "event": "file",
            "url": place.remote.url(&place.path),
            "local": local.to_string_lossy(),
            "seconds": began.elapsed().as_secs_f64(),
        });
        let mut set = |key: &str, value: Value| record.as_object_mut().and_then(|r| r.insert(key.to_owned(), value));
        match outcome {
            Ok(Copied::Whole { bytes, sha256 }) => {
                self.progress.done();
                set("status", "copied".into());
                set("bytes", bytes.into());
                sha256.and_then(|hash| set("sha256", hash.into()));
            }
            Ok(Copied::Skipped) => {
                set("status", "skipped".into());
            }
            Err(trouble) => return self.fail(place, trouble).await,
        }
        self.say(&record).await;
    }

    /// Tells of what could not be copied. Of a lost connection people are told once; that is enough.
    async fn fail(&self, place: &Place, trouble: Trouble) {
        let (url, error) = (place.remote.url(&place.path), trouble.to_string());
        self.say(&json!({ "event": "file", "url": url, "status": "failed", "error": error })).await;
        let was_lost = self.report.is_lost();
        if let Trouble::Remote(error) = &trouble {
            self.report.note_loss(error);
        }
        if !(was_lost && self.report.is_lost()) {
            self.report.failure(place, trouble);
        }
    }
}

/// The directory a copy goes into and what it is called there: as with cp, a destination that is a directory or ends in a
/// slash gets it inside.
fn destination(target: &Path, name: &OsStr, is_exact: bool, several: bool) -> std::io::Result<(Arc<Folder>, OsString)> {
    let ends_in_slash = target.as_os_str().as_encoded_bytes().ends_with(b"/");
    let is_inside = !is_exact && (ends_in_slash || several || target.is_dir());
    if is_inside {
        if ends_in_slash {
            std::fs::create_dir_all(target)?;
        }
        return Ok((Arc::new(Folder::named(target)?), name.to_owned()));
    }
    let Some(name) = target.file_name() else {
        return Err(std::io::Error::other("the destination has no name"));
    };
    Ok((Arc::new(Folder::named(target.parent().unwrap_or(Path::new("")))?), name.to_owned()))
}
