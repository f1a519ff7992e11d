//! What a command tells: failures and warnings on standard error, results on standard output, and the exit code they come
//! to. All rooms of the commands speak through here, so that a progress bar is not written over and nothing a server sent
//! reaches a terminal as it came.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use client::Chunk;
use indicatif::ProgressBar;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::connect::Remote;
use super::words;
use crate::failure::Failure;

/// What has been told so far.
pub struct Report {
    command: &'static str,
    failures: AtomicU64,
    is_lost: AtomicBool,
    bar: ProgressBar,
}

impl Report {
    /// Of the command of that name.
    pub fn new(command: &'static str) -> Self {
        Self { command, failures: AtomicU64::new(0), is_lost: AtomicBool::new(false), bar: ProgressBar::hidden() }
    }

    /// One that keeps out of a progress bar's way.
    pub fn with_bar(self, bar: ProgressBar) -> Self {
        Self { bar, ..self }
    }

    /// The progress bar; hidden where none was asked for.
    pub fn bar(&self) -> &ProgressBar {
        &self.bar
    }

    /// Something could not be done; the command goes on with the rest, and fails in the end.
    pub fn failure(&self, place: impl Display, why: impl Display) {
        self.failures.fetch_add(1, Relaxed);
        self.say(&format!("{} {place}: {why}", self.command));
    }

    /// The same for what a server was asked to do.
    pub fn refused(&self, remote: &Remote, path: &Path, error: &client::Error) {
        self.note_loss(error);
        self.failure(remote.place(path), reason(error));
    }

    /// Takes note of it when the connection is over: nothing more needs to be tried.
    pub fn note_loss(&self, error: &client::Error) {
        if error.is_of_the_connection() {
            self.is_lost.store(true, Relaxed);
        }
    }

    /// Something was left out that may be missed.
    pub fn warning(&self, place: impl Display, what: impl Display) {
        self.say(&format!("warning: {place}: {what}"));
    }

    /// Whether a connection broke down.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// How much went wrong.
    pub fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }

    /// What the command ends with.
    pub fn outcome(&self) -> Result<(), Failure> {
        if self.failures() == 0 { Ok(()) } else { Err(Failure::silent(1)) }
    }

    fn say(&self, line: &str) {
        let line = words::printable(line);
        // Nobody may be listening any more; the exit code still tells.
        self.bar.suspend(|| drop(writeln!(std::io::stderr().lock(), "longshore: {line}")));
    }
}

/// Why an operation failed, with what might help, but without what it was: that is said once, in the command's words.
pub fn reason(error: &client::Error) -> String {
    match error.hint() {
        Some(hint) => format!("{} ({hint})", error.kind()),
        None => error.kind().to_string(),
    }
}

/// A piece of standard output.
pub enum Piece {
    /// Lines.
    Text(Vec<u8>),
    /// Part of a file.
    Data(Chunk),
}

/// Standard output, written by a thread of its own: whoever reads it may take a break, and the connection must not.
pub struct Output {
    pieces: mpsc::Sender<Piece>,
    writer: JoinHandle<std::io::Result<()>>,
}

/// Pieces that may wait to be written.
const MOST_PIECES: usize = 4;

impl Output {
    /// To be called in the runtime.
    pub fn new() -> Self {
        let (pieces, inbox) = mpsc::channel(MOST_PIECES);
        Self { pieces, writer: tokio::task::spawn_blocking(move || write_all(inbox)) }
    }

    /// Writes a piece. `false`: it cannot be written; [`Output::finish`] says why.
    #[must_use]
    pub async fn put(&self, piece: Piece) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Waits until all is written. That the reader has gone ends a command early, but is no failure; what failed before is.
    pub async fn finish(self, report: &Report) -> Result<(), Failure> {
        drop(self.pieces);
        match self.writer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                report.outcome().and(Err(Failure::silent(0)))
            }
            Ok(Err(error)) => Err(Failure::system(format!("cannot write to standard output: {error}"))),
            Err(error) => Err(Failure::system(format!("cannot write to standard output: {error}"))),
        }
    }
}

fn write_all(mut inbox: mpsc::Receiver<Piece>) -> std::io::Result<()> {
    use std::os::fd::AsFd;
    // Without the buffer of `std::io::stdout`, which looks for line ends in what may be gigabytes.
    let mut out = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    while let Some(piece) = inbox.blocking_recv() {
        match &piece {
            Piece::Text(text) => out.write_all(text)?,
            Piece::Data(chunk) => out.write_all(chunk)?,
        }
    }
    Ok(())
}

/// A name for standard output: as it is for a program, without what a terminal would obey for a person.
pub fn for_output(name: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    match std::io::stdout().is_terminal() {
        true => words::shown(name).into_bytes(),
        false => name.as_os_str().as_bytes().to_vec(),
    }
}
