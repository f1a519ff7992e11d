//! What a connection's machine hands to the transport, and the seam through which file pages travel unseen.

use std::io;
use std::os::fd::BorrowedFd;

use crate::Buf;

/// A pipe of the operating system holding pages of a file on their way to a socket. The transport implements it; a
/// backend fills it; nobody in between sees the bytes.
pub trait PagePipe: Send {
    /// Moves up to `len_bytes` at `offset_bytes` of `file` into the pipe without copying. Answers 0 at the end of the
    /// file. `may_wait` false: `ErrorKind::WouldBlock` rather than wait for the device.
    fn fill(&mut self, file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: usize, may_wait: bool) -> io::Result<usize>;

    /// Bytes in the pipe.
    fn len_bytes(&self) -> usize;

    /// Moves what the pipe holds to `socket` and answers how many bytes went; `ErrorKind::WouldBlock` when none could.
    fn drain(&mut self, socket: BorrowedFd<'_>, more_follows: bool) -> io::Result<usize>;
}

/// Where pipes come from. A seam, so that a machine under test has none and serves everything by copying.
pub trait PipePool: Send + Sync {
    /// An empty pipe that holds `len_bytes` of a file from `offset_bytes` on, or `None`: the copy path serves then.
    fn pipe(&self, offset_bytes: u64, len_bytes: usize) -> Option<Box<dyn PagePipe>>;
}

/// One complete frame to send: `head`, then the pages, if any. It counts as sent only when all of it is on the socket.
pub struct Reply {
    /// Framing, header and, unless pages follow, the body.
    pub head: Buf,
    /// The body, when it travels by the page path.
    pub pages: Option<Box<dyn PagePipe>>,
}

impl Reply {
    /// Bytes in all.
    pub fn len_bytes(&self) -> usize {
        self.head.len() + self.pages.as_ref().map_or(0, |p| p.len_bytes())
    }
}
