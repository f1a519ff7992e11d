//! How far `get` and `put` have come: counted for the summary and `--json`, and shown as a bar with rate and time left
//! where a person watches.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::commands::args::TransferArgs;
use crate::commands::words;

/// The bar is drawn so often.
const STEP: Duration = Duration::from_millis(100);

/// What was copied so far, and what is known of the rest.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    bytes: AtomicU64,
    /// Of what was not copied because it was there.
    skipped_bytes: AtomicU64,
    known_bytes: AtomicU64,
    files: AtomicU64,
    skipped: AtomicU64,
    known_files: AtomicU64,
    /// All that is to be copied has been found.
    is_all_known: AtomicBool,
}

impl Progress {
    /// Of nothing so far.
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            began: Instant::now(),
            bytes: zero(),
            skipped_bytes: zero(),
            known_bytes: zero(),
            files: zero(),
            skipped: zero(),
            known_files: zero(),
            is_all_known: AtomicBool::new(false),
        }
    }

    /// A file was found.
    pub fn found(&self, len_bytes: u64) {
        self.known_files.fetch_add(1, Relaxed);
        self.known_bytes.fetch_add(len_bytes, Relaxed);
    }

    /// There are no more to be found.
    pub fn found_all(&self) {
        self.is_all_known.store(true, Relaxed);
    }

    /// Bytes were copied.
    pub fn copied(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes were there already.
    pub fn was_there(&self, bytes: u64) {
        self.skipped_bytes.fetch_add(bytes, Relaxed);
    }

    /// A file is done.
    pub fn done(&self) {
        self.files.fetch_add(1, Relaxed);
    }

    /// A whole file was there already.
    pub fn skip(&self, len_bytes: u64) {
        self.skipped.fetch_add(1, Relaxed);
        self.was_there(len_bytes);
    }

    /// A bar for people, hidden from everybody else.
    pub fn bar(args: &TransferArgs) -> ProgressBar {
        if args.quiet || args.json || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        let template = "{wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {msg}";
        // The template is fixed; where it would not do, the default one does.
        ProgressStyle::with_template(template).map(|style| bar.set_style(style)).unwrap_or_default();
        bar
    }

    /// Draws the bar for ever.
    pub async fn draw(&self, bar: &ProgressBar) {
        if bar.is_hidden() {
            return std::future::pending().await;
        }
        loop {
            let done = self.bytes.load(Relaxed) + self.skipped_bytes.load(Relaxed);
            bar.set_length(self.known_bytes.load(Relaxed));
            bar.set_position(done);
            bar.set_message(self.message(bar));
            tokio::time::sleep(STEP).await;
        }
    }

    fn message(&self, bar: &ProgressBar) -> String {
        let files = self.files.load(Relaxed) + self.skipped.load(Relaxed);
        let known = self.known_files.load(Relaxed);
        match self.is_all_known.load(Relaxed) {
            true if known == 1 => format!("{} left", left(bar.eta())),
            true => format!("{files} of {known} files, {} left", left(bar.eta())),
            false => format!("{files} of {known} files so far"),
        }
    }

    /// What was done in all, for programs.
    pub fn total(&self, failed: u64) -> Value {
        let [files, skipped, bytes] = self.counts();
        let seconds = self.began.elapsed().as_secs_f64();
        json!({
            "event": "total", "files": files, "skipped": skipped, "failed": failed, "bytes": bytes, "seconds": seconds,
        })
    }

    /// Says what was done in all to a person who watches.
    pub fn sum_up(&self, bar: &ProgressBar) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let [files, skipped, bytes] = self.counts();
        let seconds = self.began.elapsed().as_secs_f64();
        let there = if skipped == 0 { String::new() } else { format!(", {skipped} were there already") };
        let rate = words::size((bytes as f64 / seconds.max(1e-9)) as u64);
        bar.finish_and_clear();
        let noun = if files == 1 { "file" } else { "files" };
        eprintln!("{files} {noun}, {} in {seconds:.1} s ({rate}/s){there}", words::size(bytes));
    }

    /// Files copied, files skipped, bytes copied.
    fn counts(&self) -> [u64; 3] {
        [&self.files, &self.skipped, &self.bytes].map(|cell| cell.load(Relaxed))
    }
}

fn left(time: Duration) -> String {
    let secs = time.as_secs();
    match secs {
        0..60 => format!("{secs} s"),
        60..3600 => format!("{}:{:02}", secs / 60, secs % 60),
        _ => format!("{}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60),
    }
}
