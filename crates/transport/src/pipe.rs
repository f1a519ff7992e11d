//! Pipes that carry pages of files to sockets, and the pool they return to when they are empty.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use vfs::{PagePipe, PipePool};

use crate::sys;

const PAGE_BYTES: usize = 4096;
/// Pipes for one READ: 8 MiB at any alignment.
const MOST_IN_A_ROW: usize = 9;

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
    fn pipe(&self, offset_bytes: u64, len_bytes: usize) -> Option<Box<dyn PagePipe>> {
        // A pipe has a slot for each page, and a range that begins inside a page touches one more: of the first pipe's
        // slots, that page takes a whole one.
        let into_page = (offset_bytes % PAGE_BYTES as u64) as usize;
        let count = into_page.checked_add(len_bytes)?.div_ceil(self.0.pipe_bytes).max(1);
        if count > MOST_IN_A_ROW {
            return None;
        }
        let mut row = Row { pipes: Vec::with_capacity(count), drained: 0, filled: 0, pool: Arc::clone(&self.0) };
        for index in 0..count {
            let room = self.0.pipe_bytes - if index == 0 { into_page } else { 0 };
            row.pipes.push(Pipe { ends: self.0.take()?, len: 0, room, spoilt: false });
        }
        Some(Box::new(row))
    }
}

impl Shared {
    fn take(&self) -> Option<Ends> {
        if let Some(ends) = self.idle.lock().pop() {
            return Some(ends);
        }
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

/// Pipes filled and drained one after the other, as one: a large READ needs more pages than one pipe holds.
struct Row {
    pipes: Vec<Pipe>,
    /// Pipes before this one are empty again.
    drained: usize,
    /// Pipes before this one are full.
    filled: usize,
    pool: Arc<Shared>,
}

struct Pipe {
    ends: Ends,
    len: usize,
    /// Bytes it still takes.
    room: usize,
    /// Something failed on the way: what the pipe holds is unknown and it must not be used again.
    spoilt: bool,
}

impl PagePipe for Row {
    fn fill(&mut self, file: BorrowedFd<'_>, offset_bytes: u64, len_bytes: usize, may_wait: bool) -> io::Result<usize> {
        while self.pipes.get(self.filled).is_some_and(|pipe| pipe.room == 0) {
            self.filled += 1;
        }
        let pipe = self.pipes.get_mut(self.filled).ok_or(io::ErrorKind::StorageFull)?;
        let len = len_bytes.min(pipe.room);
        if !may_wait && !sys::range_is_cached(file, offset_bytes, len as u64).unwrap_or(false) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut offset = offset_bytes;
        match splice(file, Some(&mut offset), &pipe.ends.writer, None, len, SpliceFlags::MOVE) {
            Ok(count) => {
                pipe.len += count;
                pipe.room -= count;
                Ok(count)
            }
            Err(error) => {
                pipe.spoilt = true;
                Err(error.into())
            }
        }
    }

    fn len_bytes(&self) -> usize {
        self.pipes.iter().map(|pipe| pipe.len).sum()
    }

    fn drain(&mut self, socket: BorrowedFd<'_>, more_follows: bool) -> io::Result<usize> {
        while self.pipes.get(self.drained).is_some_and(|pipe| pipe.len == 0) {
            self.drained += 1;
        }
        // Pipes behind it may have stayed empty: the file ended before what was asked for.
        let last = !self.pipes.iter().skip(self.drained + 1).any(|pipe| pipe.len > 0);
        let Some(pipe) = self.pipes.get_mut(self.drained) else { return Ok(0) };
        let more = if more_follows || !last { SpliceFlags::MORE } else { SpliceFlags::empty() };
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK | more;
        let count = splice(&pipe.ends.reader, None, socket, None, pipe.len, flags)?;
        pipe.len -= count.min(pipe.len);
        Ok(count)
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        for pipe in self.pipes.drain(..) {
            if pipe.len == 0 && !pipe.spoilt {
                self.pool.idle.lock().push(pipe.ends);
            } else {
                self.pool.made.fetch_sub(1, Relaxed);
            }
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

        let pool = Pipes::new(1 << 16, 3);
        let mut pipe = pool.pipe(1000, 150_000).unwrap();
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
        assert_eq!(pool.0.idle.lock().len(), 3);
    }

    #[test]
    fn the_end_of_a_file_shorter_than_asked_for_is_not_held_back() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        let pool = Pipes::new(1 << 16, 3);
        let times = [(); 5].map(|()| {
            let mut pipe = pool.pipe(0, 150_000).unwrap();
            while pipe.fill(file.as_fd(), pipe.len_bytes() as u64, 150_000, true).unwrap() > 0 {}
            let begun = std::time::Instant::now();
            while pipe.len_bytes() > 0 {
                pipe.drain(far.as_fd(), false).unwrap();
            }
            near.read_exact(&mut [0; 5000]).unwrap();
            begun.elapsed()
        });
        // The kernel keeps what is said to have more behind it for a fifth of a second. One may be late for another reason.
        assert!(times.iter().min() < Some(&std::time::Duration::from_millis(150)), "{times:?}");
    }

    #[test]
    fn a_pipe_that_still_holds_pages_is_not_used_again() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let pool = Pipes::new(1 << 16, 2);
        let mut pipe = pool.pipe(0, 4096).unwrap();
        pipe.fill(file.as_fd(), 0, 4096, true).unwrap();
        drop(pipe);
        assert_eq!((pool.0.idle.lock().len(), pool.0.made.load(Relaxed)), (0, 0));
        drop(pool.pipe(8192, 1 << 16).unwrap());
        assert_eq!(pool.0.idle.lock().len(), 1, "aligned, it fits one");
        drop(pool.pipe(1, 1 << 16).unwrap());
        assert_eq!(pool.0.idle.lock().len(), 2, "unaligned, it needs two");
        assert!(pool.pipe(0, 3 << 16).is_none());
        let held = (pool.pipe(0, 4096), pool.pipe(0, 4096));
        assert!(held.0.is_some() && held.1.is_some() && pool.pipe(0, 4096).is_none(), "no more than allowed");
        drop(held);
        assert!(pool.pipe(0, 4096).is_some());
    }
}
