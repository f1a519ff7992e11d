//! Asking a running server how it is, over its control socket: what `status` and `top` do. It says which server could not
//! be asked, and why.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::SOCKET;
use super::snapshot::Snapshot;
use crate::cli::ServerArgs;
use crate::config::Config;
use crate::failure::Failure;
use crate::{plan, state};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than a server with the most sessions and connections tells.
const MOST_BYTES: u64 = 256 << 20;

/// A server that can be asked.
pub struct Asker {
    directory: PathBuf,
}

impl Asker {
    /// The server whose state is where the arguments say.
    pub fn new(arguments: &ServerArgs) -> Result<Self, Failure> {
        let config: Option<Config> = arguments.config.as_deref().map(plan::read_file).transpose()?;
        let configured = config.and_then(|config| config.server.state);
        let directory = arguments.state.clone().or(configured).unwrap_or_else(state::default_directory);
        Ok(Self { directory })
    }

    /// How it is now.
    pub fn snapshot(&self) -> Result<Snapshot, Failure> {
        let answer = get(&self.directory.join(SOCKET), "/status").map_err(|error| self.explain(&error))?;
        let (status, body) = split(&answer).ok_or_else(|| self.garbled("no HTTP"))?;
        match status {
            200 => serde_json::from_slice(body).map_err(|error| self.garbled(&error.to_string())),
            403 => Err(self.explain(&io::ErrorKind::PermissionDenied.into())),
            other => Err(self.garbled(&format!("status {other}"))),
        }
    }

    fn explain(&self, error: &io::Error) -> Failure {
        let directory = self.directory.display();
        Failure::system(match error.kind() {
            io::ErrorKind::NotFound => {
                format!("no server runs with the state directory {directory}; --state or --config names another one's")
            }
            io::ErrorKind::ConnectionRefused => format!("no server runs with the state directory {directory} any more"),
            io::ErrorKind::PermissionDenied => format!(
                "the server with the state directory {directory} answers only the user it runs as, and root; ask as one of \
                 them (sudo), or name another server's with --state"
            ),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the server with the state directory {directory} does not answer")
            }
            _ => format!("cannot ask the server with the state directory {directory}: {error}"),
        })
    }

    fn garbled(&self, what: &str) -> Failure {
        Failure::system(format!("what answers in {} is no Longshore of this version: {what}", self.directory.display()))
    }
}

fn get(socket: &Path, page: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {page} HTTP/1.1\r\nHost: longshore\r\n\r\n").as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut answer)?;
    if answer.is_empty() {
        // It has as many to answer as it takes.
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(answer)
}

/// The status and the body.
fn split(answer: &[u8]) -> Option<(u16, &[u8])> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(answer.get(..end)?).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.get(end + 4..)?))
}
