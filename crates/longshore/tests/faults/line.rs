//! One client's connection, byte by byte: what is asked, what is answered, and a socket that the test may read as slowly
//! as it likes, or break.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a socket holds of what its owner has not read: the sender soon waits.
const ROOM_BYTES: usize = 16 << 10;

/// A request on the file.
#[derive(Debug, Clone, Copy)]
pub enum Ask<'a> {
    Read { offset: u64, len: usize },
    Write { offset: u64, data: &'a [u8], through: bool },
}

/// What came of one.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Bytes, as many as there are; none at the end of the file.
    Read(Vec<u8>),
    Written(usize),
    /// The disk is full.
    Full,
    Failed(String),
}

/// A protocol's client with its file open.
pub trait Speaker {
    /// The bytes of a request, and the number its answer will bear.
    fn ask(&mut self, what: &Ask<'_>) -> (u64, Vec<u8>);

    /// How many bytes follow a frame's first four.
    fn len_of(&self, prefix: [u8; 4]) -> usize;

    /// Takes a frame without its first four bytes; none is answered by an interim response. Anything amiss panics.
    fn answer(&mut self, frame: Vec<u8>) -> Option<(u64, Answer)>;
}

pub struct Line {
    pub stream: TcpStream,
    pub speaker: Box<dyn Speaker>,
}

/// A connection whose owner has little room for what it has not read.
pub fn dial(to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&socket, ROOM_BYTES).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

impl Line {
    /// Sends a request; the number of its answer.
    pub fn send(&mut self, what: &Ask<'_>) -> u64 {
        let (number, bytes) = self.speaker.ask(what);
        self.stream.write_all(&bytes).unwrap();
        number
    }

    /// The next answer, its first bytes read one at a time, `slowly` of them.
    pub fn next(&mut self, slowly: usize) -> (u64, Answer) {
        loop {
            let frame = next_frame(&mut self.stream, &*self.speaker, slowly);
            if let Some(answer) = self.speaker.answer(frame) {
                return answer;
            }
        }
    }

    /// Sends a request and takes its answer, with no other under way.
    pub fn call(&mut self, what: &Ask<'_>) -> Answer {
        let asked = self.send(what);
        let (number, answer) = self.next(0);
        assert_eq!(number, asked, "the answer to something else");
        answer
    }

    /// The connection breaks as if its machine had died: nothing more is sent, and what comes is answered with a reset.
    pub fn die(self) {
        sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).unwrap();
    }
}

/// One frame without its first four bytes.
pub fn next_frame(stream: &mut TcpStream, speaker: &dyn Speaker, slowly: usize) -> Vec<u8> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix).unwrap_or_else(|error| match error.kind() {
        ErrorKind::WouldBlock => panic!("no answer in {PATIENCE:?}"),
        kind => panic!("the connection ended: {kind:?}"),
    });
    let mut frame = vec![0; speaker.len_of(prefix)];
    let slowly = slowly.min(frame.len());
    let (first, rest) = frame.split_at_mut(slowly);
    for byte in first {
        std::thread::sleep(Duration::from_micros(500));
        stream.read_exact(std::slice::from_mut(byte)).expect("the rest of a frame");
    }
    stream.read_exact(rest).expect("the rest of a frame");
    frame
}
