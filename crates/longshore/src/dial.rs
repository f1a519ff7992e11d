//! Calling NFS clients back: a connection to where the client listens, or a datagram, one call, one reply, each on a thread
//! of its own. Recalls and granted locks are rare, and nobody waits for them here.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use nfs_server::{Dialer, OnReply};

/// How long a client may take to answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// The same for a datagram, which may get lost.
const DATAGRAM_PATIENCE: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// Calls under way.
const MOST_CALLS: usize = 64;
/// No callback's reply is longer.
const MOST_REPLY_BYTES: usize = 64 << 10;
/// The last fragment of a record.
const LAST: u32 = 1 << 31;

/// A thread for each call.
#[derive(Default)]
pub struct Threads {
    calls: Arc<AtomicUsize>,
}

/// Counts a call for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Dialer for Threads {
    fn call(&self, to: SocketAddr, record: Vec<u8>, done: OnReply) {
        self.beside(to, record, done, exchange);
    }

    fn datagram(&self, to: SocketAddr, record: Vec<u8>, done: OnReply) {
        self.beside(to, record, done, exchange_datagrams);
    }
}

impl Threads {
    /// Runs `exchange` on a thread.
    fn beside(
        &self,
        to: SocketAddr,
        record: Vec<u8>,
        done: OnReply,
        exchange: fn(SocketAddr, &[u8]) -> io::Result<Vec<u8>>,
    ) {
        let counted = Counted(Arc::clone(&self.calls));
        if self.calls.fetch_add(1, Relaxed) >= MOST_CALLS {
            return done(None);
        }
        let work = move || {
            let reply = exchange(to, &record);
            if let Err(error) = &reply {
                tracing::debug!(%error, %to, "a client cannot be called back");
            }
            drop(counted);
            done(reply.ok());
        };
        if let Err(error) = std::thread::Builder::new().name("nfs-callback".into()).spawn(work) {
            tracing::warn!(%error, "cannot start a thread to call a client back");
        }
    }
}

/// Sends one datagram, more than once if need be, and takes the one that answers it.
fn exchange_datagrams(to: SocketAddr, record: &[u8]) -> io::Result<Vec<u8>> {
    let any = if to.is_ipv4() { SocketAddr::from(([0, 0, 0, 0], 0)) } else { SocketAddr::from(([0u16; 8], 0)) };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let mut reply = vec![0; MOST_REPLY_BYTES];
    for patience in DATAGRAM_PATIENCE {
        socket.set_read_timeout(Some(patience))?;
        socket.send(record)?;
        match socket.recv(&mut reply) {
            Ok(len) if len >= 4 && reply.get(..4) == record.get(..4) => {
                reply.truncate(len);
                return Ok(reply);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Sends one record and takes one.
fn exchange(to: SocketAddr, record: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mark = LAST | u32::try_from(record.len()).unwrap_or(u32::MAX >> 1);
    stream.write_all(&[&mark.to_be_bytes(), record].concat())?;
    let mut reply = Vec::new();
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let mark = u32::from_be_bytes(mark);
        let (len, at) = ((mark & !LAST) as usize, reply.len());
        if len == 0 && mark & LAST == 0 || at + len > MOST_REPLY_BYTES {
            return Err(io::Error::other("a reply that is none"));
        }
        reply.resize(at + len, 0);
        stream.read_exact(reply.get_mut(at..).unwrap_or_default())?;
        if mark & LAST != 0 {
            return Ok(reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    #[test]
    fn a_call_has_its_reply_and_nobody_there_has_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut call = [0; 8];
            stream.read_exact(&mut call).unwrap();
            assert_eq!(&call, b"\x80\0\0\x04ping");
            stream.write_all(b"\0\0\0\x02po\x80\0\0\x02ng").unwrap();
        });
        let (told, answers) = channel();
        let threads = Threads::default();
        let tell = |told: &std::sync::mpsc::Sender<_>| -> OnReply {
            let told = told.clone();
            Box::new(move |reply| told.send(reply).unwrap())
        };
        threads.call(address, b"ping".to_vec(), tell(&told));
        assert_eq!(answers.recv().unwrap(), Some(b"pong".to_vec()));
        client.join().unwrap();
        threads.call(address, b"ping".to_vec(), tell(&told));
        assert_eq!(answers.recv().unwrap(), None);
    }

    #[test]
    fn a_datagram_is_sent_again_and_answered_by_its_own_number() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut call = [0; 64];
            socket.recv_from(&mut call).unwrap();
            let (len, peer) = socket.recv_from(&mut call).unwrap();
            assert_eq!(&call[..len], b"pingpong");
            socket.send_to(b"pingpang", peer).unwrap();
        });
        let (told, answers) = channel();
        Threads::default().datagram(address, b"pingpong".to_vec(), Box::new(move |reply| told.send(reply).unwrap()));
        assert_eq!(answers.recv().unwrap(), Some(b"pingpang".to_vec()));
        client.join().unwrap();
    }
}
