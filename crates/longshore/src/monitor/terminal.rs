//! The terminal that `top` draws on: while it does, keys come one by one and the screen is another one; afterwards, however
//! it ends, everything is as it was.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};

/// Another screen, the cursor hidden.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
/// The first screen and the cursor.
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// Ctrl-C and Ctrl-D, where they come as keys.
const CTRL: [u8; 2] = [3, 4];

/// How the terminal was, while it is otherwise.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    /// Of standard input, where that is a terminal.
    modes: Option<Termios>,
}

/// A terminal that is drawn on.
pub struct Terminal(());

impl Terminal {
    /// Standard output, if it is one.
    pub fn enter() -> io::Result<Option<Self>> {
        if !io::stdout().is_terminal() {
            return Ok(None);
        }
        leave_on_signals()?;
        let stdin = io::stdin();
        let modes = tcgetattr(&stdin).ok();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Before { modes: modes.clone() });
        if let Some(mut keys) = modes {
            keys.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            keys.special_codes[SpecialCodeIndex::VMIN] = 1;
            keys.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(&stdin, OptionalActions::Now, &keys)?;
        }
        put(ENTER)?;
        Ok(Some(Self(())))
    }

    /// Shows a frame, as much of it as there is room for.
    pub fn show(&self, frame: &str) -> io::Result<()> {
        let (rows, columns) = match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => (24, 80),
        };
        put(drawn(frame, rows, columns).as_bytes())
    }

    /// Waits for a key that means the end, for so long at most; whether one came.
    pub fn wants_to_quit(&self, within: Duration) -> io::Result<bool> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            std::thread::sleep(within);
            return Ok(false);
        }
        let time = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
        let mut waits = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut waits, Some(&time)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            other => other?,
        };
        let mut keys = [0; 64];
        let count = rustix::io::read(&stdin, &mut keys)?;
        // None at all: the terminal is gone.
        Ok(count == 0 || keys.iter().take(count).any(|key| matches!(key, b'q' | b'Q') || CTRL.contains(key)))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

fn leave() {
    let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
    let _ = put(LEAVE);
    if let Some(modes) = before.modes {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
    }
}

/// A signal that ends the program must not leave the terminal as it is.
fn leave_on_signals() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let inside = runtime.enter();
    let mut ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    drop(inside);
    let wait = move || {
        runtime.block_on(std::future::poll_fn(|cx| {
            let ended = ends.iter_mut().flatten().any(|signal| signal.poll_recv(cx).is_ready());
            if ended { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
        }));
        leave();
        std::process::exit(0);
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// The orders and lines that draw a frame over the one before, without a flicker.
fn drawn(frame: &str, rows: usize, columns: usize) -> String {
    let lines = frame.lines().take(rows).map(|line| line.chars().take(columns).collect::<String>());
    format!("\x1b[H{}\x1b[K\x1b[J", lines.collect::<Vec<_>>().join("\x1b[K\r\n"))
}

fn put(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_drawn_than_there_is_room_for() {
        assert_eq!(drawn("abcdef\nghi\njkl\n", 2, 4), "\x1b[Habcd\x1b[K\r\nghi\x1b[K\x1b[J");
        assert_eq!(drawn("", 2, 4), "\x1b[H\x1b[K\x1b[J");
    }
}
