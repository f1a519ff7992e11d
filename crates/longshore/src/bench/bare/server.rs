//! The bare loop's server: a thread for each connection that receives what there is, reads and writes the file, and sends
//! all answers that are ready at once. Started as a process by [`super::Bare`]. It is as little as a server can be and
//! still move the same bytes; whoever connects may read and write files of loads, on loopback, and nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{SendFlags, send};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};

use super::{ANSWER_BYTES, How, MOST_BYTES, MOST_NAME_BYTES, READY, REQUEST_BYTES};
use crate::bench::job::noise;
use crate::bench::place::FILE_PREFIX;
use crate::failure::Failure;

const INBOX_BYTES: usize = 256 << 10;
const OUTBOX_BYTES: usize = 256 << 10;
const PIPE_BYTES: usize = 1 << 20;
/// What is written at a time when a file is made.
const PIECE_BYTES: usize = 1 << 20;

/// Serves a directory until standard input ends, which it does with the process that started this one.
pub fn serve(directory: &Path, how: How) -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listener = listener.map_err(|error| Failure::system(format!("cannot listen: {error}")))?;
    let address = listener.local_addr().map_err(|error| Failure::system(format!("cannot listen: {error}")))?;
    crate::status::say(&format!("{READY}{address}"));
    let directory = directory.to_owned();
    std::thread::spawn(move || accept(&listener, &directory, how));
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    Ok(())
}

/// Takes connections for ever.
pub fn accept(listener: &TcpListener, directory: &Path, how: How) {
    let directory: Arc<Path> = directory.into();
    for stream in listener.incoming().flatten() {
        let directory = Arc::clone(&directory);
        // A connection that breaks is its caller's to tell about.
        std::thread::spawn(move || drop(Connection::open(stream, &directory, how).and_then(Connection::run)));
    }
}

/// Makes a file of so many bytes without a pattern, and has it on the disk: what would be written back later would be
/// written back while something is measured.
pub fn make_file(path: &Path, size_bytes: u64, seed: u32) -> io::Result<()> {
    let mut file = File::create(path)?;
    let piece = noise(PIECE_BYTES, seed.into());
    let mut missing = size_bytes;
    while missing > 0 {
        let now = piece.get(..usize::try_from(missing).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)).unwrap_or(&piece);
        file.write_all(now)?;
        missing -= now.len() as u64;
    }
    file.sync_all()
}

struct Connection {
    socket: TcpStream,
    file: File,
    how: How,
    pipe: (OwnedFd, OwnedFd),
    inbox: Vec<u8>,
    /// Received and not yet taken: from, to.
    pending: (usize, usize),
    outbox: Vec<u8>,
    ready_bytes: usize,
}

enum Request {
    Read { len: usize, offset: u64 },
    Write { len: usize, offset: u64 },
}

impl Connection {
    fn open(mut socket: TcpStream, directory: &Path, how: How) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let file = File::options().read(true).write(true).open(directory.join(file_named(&mut socket)?))?;
        let pipe = pipe()?;
        let _ = fcntl_setpipe_size(&pipe.1, PIPE_BYTES);
        let (inbox, outbox) = (vec![0; INBOX_BYTES], vec![0; OUTBOX_BYTES]);
        Ok(Self { socket, file, how, pipe, inbox, pending: (0, 0), outbox, ready_bytes: 0 })
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            let room = self.inbox.get_mut(self.pending.1..).unwrap_or_default();
            match self.socket.read(room)? {
                0 => return Ok(()),
                count => self.pending.1 += count,
            }
            while let Some(request) = self.next_request()? {
                self.answer(request)?;
            }
            self.flush()?;
            self.make_room();
        }
    }

    /// The first request that has been received whole; its header is taken, a WRITE's data are left for `answer`.
    fn next_request(&mut self) -> io::Result<Option<Request>> {
        let received = self.inbox.get(self.pending.0..self.pending.1).unwrap_or_default();
        let Some((header, body)) = received.split_first_chunk::<REQUEST_BYTES>() else { return Ok(None) };
        let [a, b, c, d, kind, _, _, _, offset @ ..] = header;
        let (len, offset) = (u32::from_le_bytes([*a, *b, *c, *d]), u64::from_le_bytes(*offset));
        let (len, received) = (len as usize, body.len());
        let request = match kind {
            _ if len > MOST_BYTES as usize => return Err(io::ErrorKind::InvalidData.into()),
            0 => Request::Read { len, offset },
            1 if received >= len => Request::Write { len, offset },
            1 => {
                self.expect(REQUEST_BYTES + len);
                return Ok(None);
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        self.pending.0 += REQUEST_BYTES;
        Ok(Some(request))
    }

    fn answer(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Write { len, offset } => {
                let end = self.pending.0 + len;
                self.file.write_all_at(self.inbox.get(self.pending.0..end).unwrap_or_default(), offset)?;
                self.pending.0 = end;
                self.outbox_for(0)?;
                self.put_header(0);
                Ok(())
            }
            Request::Read { len, offset } if self.how.splices(len) => self.splice(len, offset),
            Request::Read { len, offset } => {
                self.outbox_for(len)?;
                self.put_header(len);
                let room = self.outbox.get_mut(self.ready_bytes..self.ready_bytes + len).unwrap_or_default();
                self.file.read_exact_at(room, offset)?;
                self.ready_bytes += len;
                Ok(())
            }
        }
    }

    /// Pages by way of a pipe, behind their header.
    fn splice(&mut self, len: usize, offset: u64) -> io::Result<()> {
        self.outbox_for(0)?;
        self.put_header(len);
        let mut ready = self.outbox.get(..self.ready_bytes).unwrap_or_default();
        while !ready.is_empty() {
            let count = send(&self.socket, ready, SendFlags::MORE | SendFlags::NOSIGNAL)?;
            ready = ready.get(count..).unwrap_or_default();
        }
        self.ready_bytes = 0;
        let (from, to) = &self.pipe;
        let (mut at, mut missing) = (offset, len);
        while missing > 0 {
            let mut moved = splice(&self.file, Some(&mut at), to, None, missing, SpliceFlags::MOVE)?;
            if moved == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            missing -= moved;
            while moved > 0 {
                let more = if missing > 0 { SpliceFlags::MORE } else { SpliceFlags::empty() };
                moved -= splice(from, None, &self.socket, None, moved, SpliceFlags::MOVE | more)?;
            }
        }
        Ok(())
    }

    /// Makes room for an answer with so many bytes behind its header, by sending what is ready if need be.
    fn outbox_for(&mut self, len: usize) -> io::Result<()> {
        if self.ready_bytes + ANSWER_BYTES + len > self.outbox.len() {
            self.flush()?;
        }
        if ANSWER_BYTES + len > self.outbox.len() {
            self.outbox.resize(ANSWER_BYTES + len, 0);
        }
        Ok(())
    }

    fn put_header(&mut self, len: usize) {
        let header = (len as u64).to_le_bytes();
        if let Some(room) = self.outbox.get_mut(self.ready_bytes..self.ready_bytes + ANSWER_BYTES) {
            room.copy_from_slice(&header);
            self.ready_bytes += ANSWER_BYTES;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.write_all(self.outbox.get(..self.ready_bytes).unwrap_or_default())?;
        self.ready_bytes = 0;
        Ok(())
    }

    /// So many bytes from the first pending one on must fit.
    fn expect(&mut self, bytes: usize) {
        self.make_room();
        if bytes > self.inbox.len() {
            self.inbox.resize(bytes, 0);
        }
    }

    fn make_room(&mut self) {
        let (from, to) = self.pending;
        if from == to {
            self.pending = (0, 0);
        } else if from > 0 {
            self.inbox.copy_within(from..to, 0);
            self.pending = (0, to - from);
        }
    }
}

/// The name a connection begins with: a length of one byte, and so many bytes. Only a load's file has one.
fn file_named(socket: &mut TcpStream) -> io::Result<String> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut len = [0; 1];
    socket.read_exact(&mut len)?;
    let mut name = vec![0; usize::from(len[0])];
    if name.len() > MOST_NAME_BYTES {
        return Err(invalid());
    }
    socket.read_exact(&mut name)?;
    let name = String::from_utf8(name).map_err(|_| invalid())?;
    let number = name.strip_prefix(FILE_PREFIX).ok_or_else(invalid)?;
    number.parse::<u32>().map_err(|_| invalid())?;
    Ok(name)
}
