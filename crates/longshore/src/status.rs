//! What the process tells its surroundings, logs apart: lines on standard output, the service manager, and the limit of
//! open files. `serve` calls it. Nobody listening is never an error.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;

/// A line on standard output. One that is closed loses it.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The service manager learns that requests are served.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The service manager learns that the configuration is read again; [`ready`] ends that.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// The service manager learns that the server ends.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "cannot tell the service manager");
    }
}

/// Whether standard output goes to the system's journal, by the device and inode the journal names
/// (`JOURNAL_STREAM`, systemd.exec(5)).
pub fn prints_to_the_journal() -> bool {
    let Some(stream) = std::env::var_os("JOURNAL_STREAM") else { return false };
    rustix::fs::fstat(std::io::stdout())
        .is_ok_and(|stat| stream.as_bytes() == format!("{}:{}", stat.st_dev, stat.st_ino).as_bytes())
}

/// Lets the process have as many open files as the system allows it.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(errno) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(error = %errno, limit = ?limit.current, "cannot raise the limit of open files");
    }
}
