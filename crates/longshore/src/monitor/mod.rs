//! What a server tells of itself while it runs, and who asks: the control socket in the state directory, over which
//! `longshore status` and `longshore top` ask (and any program: it speaks HTTP), and the endpoint that Prometheus collects
//! metrics from, where one is configured. `serve` starts it. Everything here runs on threads of its own.

mod ask;
mod http;
mod prometheus;
mod show;
mod snapshot;
mod source;
mod terminal;
mod top;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

pub use show::status;
use snapshot::Snapshot;
pub use snapshot::{Listen, Share};
pub use source::Source;
pub use top::top;

use crate::config::Metrics;
use crate::failure::Failure;
use http::{Answer, Pages};

/// The control socket, in the state directory.
const SOCKET: &str = "control.sock";

/// Everything that was opened; the sockets in the file system go with it.
#[derive(Default)]
pub struct Monitor {
    files: Vec<PathBuf>,
}

impl Drop for Monitor {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The endpoint for metrics, which is there before anything can be told.
pub struct Endpoint(Option<Opened>);

enum Opened {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Endpoint {
    /// Opens it where the configuration says, if it says so.
    pub fn open(metrics: &Metrics) -> Result<Self, Failure> {
        let cannot = |error: io::Error| Failure::system(format!("cannot listen for metrics at {metrics}: {error}"));
        Ok(Self(match metrics {
            Metrics::Off => None,
            Metrics::At(address) => Some(Opened::Tcp(TcpListener::bind(address).map_err(cannot)?)),
            Metrics::Unix(path) => {
                if let Some(directory) = path.parent() {
                    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(cannot)?;
                }
                let listener = bind(path).map_err(cannot)?;
                std::fs::set_permissions(path, PermissionsExt::from_mode(0o660)).map_err(cannot)?;
                Some(Opened::Unix(listener, path.clone()))
            }
        }))
    }

    /// Where it is.
    pub fn address(&self) -> Option<String> {
        match self.0.as_ref()? {
            Opened::Tcp(listener) => listener.local_addr().ok().map(|address| address.to_string()),
            Opened::Unix(_, path) => Some(format!("unix:{}", path.display())),
        }
    }
}

impl Monitor {
    /// Begins to answer, for as long as there is a `source`: metrics at `endpoint`, everything on the control socket in `directory`. A server that cannot have a
    /// control socket runs without one.
    pub fn start(source: &Arc<Source>, endpoint: Endpoint, directory: &Path) -> Result<Self, Failure> {
        let mut monitor = Self::default();
        let no_thread = |error| Failure::system(format!("cannot start a thread: {error}"));
        match endpoint.0 {
            None => {}
            Some(Opened::Tcp(listener)) => http::serve::<TcpListener>(listener, metrics(source)).map_err(no_thread)?,
            Some(Opened::Unix(listener, path)) => {
                monitor.files.push(path);
                http::serve::<UnixListener>(listener, metrics(source)).map_err(no_thread)?;
            }
        }
        match control(directory) {
            Ok((listener, path)) => {
                monitor.files.push(path);
                http::serve(listener, everything(source)).map_err(no_thread)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tracing::info!("`longshore status` speaks to another server: that one has {}", directory.display());
            }
            Err(error) => {
                tracing::warn!(%error, "`longshore status` cannot be answered: no socket in {}", directory.display());
            }
        }
        Ok(monitor)
    }
}

/// Where the server is no more, but for these threads.
const STOPPING: &str = "503 Service Unavailable";

fn snapshot(source: &Weak<Source>) -> Option<Snapshot> {
    source.upgrade().map(|source| source.snapshot())
}

/// The page that everybody may see who gets there.
fn metrics<S>(source: &Arc<Source>) -> Pages<S> {
    let source = Arc::downgrade(source);
    Arc::new(move |path, _| match path {
        "/metrics" => match snapshot(&source) {
            Some(now) => Answer::page(prometheus::CONTENT_TYPE, prometheus::text(&now)),
            None => Answer::refusal(STOPPING),
        },
        _ => Answer::refusal("404 Not Found"),
    })
}

/// All pages, for the user the server runs as, and root.
fn everything(source: &Arc<Source>) -> Pages<UnixStream> {
    let (source, metrics) = (Arc::downgrade(source), metrics(source));
    Arc::new(move |path, stream| {
        if !is_owner(stream) {
            return Answer::refusal("403 Forbidden");
        }
        match path {
            "/status" => match snapshot(&source).map(|now| serde_json::to_string(&now)) {
                Some(Ok(text)) => Answer::page("application/json", text),
                Some(Err(_)) => Answer::refusal("500 Internal Server Error"),
                None => Answer::refusal(STOPPING),
            },
            _ => metrics(path, stream),
        }
    })
}

/// The socket's permissions say the same; what the kernel says of the peer holds whatever became of them.
fn is_owner(stream: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(stream);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

fn control(directory: &Path) -> io::Result<(UnixListener, PathBuf)> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join(SOCKET);
    let listener = bind(&path)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
    Ok((listener, path))
}

/// Binds a socket in the file system; one that a server left behind which is no more makes room. `AddrInUse` where one
/// still answers, or where something else has the name.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path)
}

/// Refuses to show a server's doings to whoever is in the network, unless that was asked for.
pub fn check(metrics: &Metrics, public: bool) -> Result<(), String> {
    match metrics {
        Metrics::At(address) if !public && !is_local(*address) => Err(format!(
            "{address} can be reached from other machines, and whoever does sees what is done here; use 127.0.0.1, a unix \
             socket, or say that it is meant (--metrics-public, metrics_public = true)"
        )),
        _ => Ok(()),
    }
}

fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_socket_makes_room_and_a_live_one_or_a_file_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let (listener, path) = control(directory.path()).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(control(directory.path()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(path.exists());
        drop(control(directory.path()).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(control(directory.path()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn metrics_are_for_this_machine_unless_somebody_insists() {
        let at = |text: &str| Metrics::At(text.parse().unwrap());
        for local in ["127.0.0.1:9", "127.9.9.9:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert_eq!(check(&at(local), false), Ok(()), "{local}");
        }
        for open in ["0.0.0.0:9", "[::]:9", "192.168.1.1:9", "[fe80::1]:9"] {
            assert!(check(&at(open), false).is_err(), "{open}");
            assert_eq!(check(&at(open), true), Ok(()), "{open}");
        }
    }
}
