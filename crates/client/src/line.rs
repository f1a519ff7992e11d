//! A line to a server: what brings bytes and what takes them. Dialers of both protocols make one; drivers move its bytes.

use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The half of a line that brings bytes.
pub type Receiver = Box<dyn AsyncRead + Unpin + Send>;
/// The half of a line that takes bytes.
pub type Sender = Box<dyn AsyncWrite + Unpin + Send>;
/// A line that is to come.
pub type Dialling = Pin<Box<dyn Future<Output = io::Result<(Receiver, Sender)>> + Send>>;

/// A TCP connection as a line.
pub(crate) fn halves(stream: TcpStream) -> (Receiver, Sender) {
    // Requests leave when they are ready; that a kernel has no such option costs time only.
    let _ = stream.set_nodelay(true);
    let (receiver, sender) = stream.into_split();
    (Box::new(receiver), Box::new(sender))
}
