//! Pipes that carry pages of files to sockets, and the pool they return to when they are empty.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use vfs::{PagePipe, PipePool};

use crate::sys;

/// Pipes of one size, kept for reuse.
pub struct Pipes(Arc<Shared>);

struct Shared {
    idle: Mutex<Vec<Ends>>,
    pipe_bytes: usize,
    most: usize,
    /// Pipes there are, idle or not.
    made: AtomicUsize,
}

struct Ends {
    reader: OwnedFd,
    writer: OwnedFd,
}

impl Pipes {
    /// A pool of at most `most` pipes of `pipe_bytes` each, made as they are needed. Each takes two descriptors.
    pub fn new(pipe_bytes: usize, most: usize) -> Self {
        Self(Arc::new(Shared { idle: Mutex::new(Vec::new()), pipe_bytes, most, made: AtomicUsize::new(0) }))
    }
}

impl PipePool for Pipes {
    fn pipe(&self, len_bytes: usize) -> Option<Box<dyn PagePipe>> {
        // A range that begins inside a page touches one page more than its length says.
        if len_bytes + 4096 > self.0.pipe_bytes {
            return None;
        }
        let kept = self.0.idle.lock().pop();
        let ends = match kept {
            Some(ends) => ends,
            None => self.0.make()?,
        };
        Some(Box::new(Pipe { ends: Some(ends), len: 0, spoilt: false, pool: Arc::clone(&self.0) }))
    }
}

impl Shared {
    fn make(&self) -> Option<Ends> {
        if self.made.fetch_add(1, Relaxed) < self.most
            && let Ok(ends) = make(self.pipe_bytes)
        {
            return Some(ends);
        }
        self.made.fetch_sub(1, Relaxed);
        None
    }
}

fn make(pipe_bytes: usize) -> io::Result<Ends> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    if fcntl_setpipe_size(&writer, pipe_bytes)? < pipe_bytes {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    Ok(Ends { reader, writer })
}

struct Pipe {
    /// `None` only while dropping.
    ends: Option<Ends>,
    len: usize,
    /// Something failed on the way: what the pipe holds is unknown and it must not be used again.
    spoilt: bool,
    pool: Arc<Shared>,
}

impl Pipe {
    fn ends(&self) -> io::Result<&Ends> {
        self.ends.as_ref().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl PagePipe for Pipe {
    fn fill(&mut self, file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: usize, may_wait: bool) -> io::Result<usize> {
        if !may_wait && !sys::range_is_cached(file, offset_bytes, len_bytes as u64).unwrap_or(false) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut offset = offset_bytes;
        let moved = splice(file, Some(&mut offset), &self.ends()?.writer, None, len_bytes, SpliceFlags::MOVE);
        match moved {
            Ok(count) => {
                self.len += count;
                Ok(count)
            }
            Err(error) => {
                self.spoilt = true;
                Err(error.into())
            }
        }
    }

    fn len_bytes(&self) -> usize {
        self.len
    }

    fn drain(&mut self, socket: BorrowedFd<'_>, more_follows: bool) -> io::Result<usize> {
        let more = if more_follows { SpliceFlags::MORE } else { SpliceFlags::empty() };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK | more;
        let count = splice(&self.ends()?.reader, None, socket, None, self.len, flags)?;
        self.len -= count.min(self.len);
        Ok(count)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let Some(ends) = self.ends.take() else { return };
        if self.len == 0 && !self.spoilt {
            self.pool.idle.lock().push(ends);
        } else {
            drop(ends);
            self.pool.made.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn pages_travel_from_a_file_to_a_socket() {
        let mut file = tempfile::tempfile().unwrap();
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&data).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();

        let pool = Pipes::new(1 << 20, 2);
        let mut pipe = pool.pipe(150_000).unwrap();
        while pipe.len_bytes() < 150_000 {
            let at = pipe.len_bytes();
            assert!(pipe.fill(file.as_fd(), 1000 + at as u64, 150_000 - at, true).unwrap() > 0);
        }
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; 150_000];
            near.read_exact(&mut got).unwrap();
            got
        });
        while pipe.len_bytes() > 0 {
            pipe.drain(far.as_fd(), false).unwrap();
        }
        assert_eq!(reader.join().unwrap(), &data[1000..151_000]);
        drop(pipe);
        assert_eq!(pool.0.idle.lock().len(), 1);
    }

    #[test]
    fn a_pipe_that_still_holds_pages_is_not_used_again() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let pool = Pipes::new(1 << 16, 2);
        let mut pipe = pool.pipe(4096).unwrap();
        pipe.fill(file.as_fd(), 0, 4096, true).unwrap();
        drop(pipe);
        assert_eq!(pool.0.idle.lock().len(), 0);
        assert!(pool.pipe(1 << 16).is_none(), "unaligned, it would not fit");
        let held = (pool.pipe(4096), pool.pipe(4096));
        assert!(held.0.is_some() && held.1.is_some() && pool.pipe(4096).is_none(), "no more than allowed");
        drop(held);
        assert!(pool.pipe(4096).is_some());
    }
}
