//! A client that takes what it asked for slowly: the client library over lines whose receiving half lets no more through
//! than so many bytes a second, behind a small socket buffer, so that it is the server that has to wait.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use client::smb::{self, Dialling};
use client::{Client, Options, Protocol, nfs};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::time::{Instant, Sleep, sleep_until};

use super::super::login::Way;
use super::super::place::{Address, Place};

/// What the kernel may hold for it.
const SOCKET_BYTES: u32 = 64 << 10;
/// What it takes at a time.
const MOUTHFUL_BYTES: usize = 64 << 10;

/// A client whose connection takes so many bytes a second.
pub async fn connect(place: &Place, bytes_a_second: u64) -> Result<Client, String> {
    let Address::Server(way) = place.address() else {
        return Err("it is not a server".to_owned());
    };
    let Way { url, credentials, options } = &**way;
    let (host, port) = (url.host().to_owned(), url.port());
    let dial = Arc::new(SlowDial { host, port, bytes_a_second });
    // All of its requests wait for those before them.
    let options = Options { timeout: 4 * options.timeout, ..options.clone() };
    let connected = match url.protocol() {
        Protocol::Smb => Client::connect_smb_by(dial, url, credentials.clone(), &options).await,
        Protocol::Nfs(_) => Client::connect_by(dial, url, &options).await,
    };
    connected.map_err(|error| error.to_string())
}

#[derive(Debug, Clone)]
struct SlowDial {
    host: String,
    port: u16,
    bytes_a_second: u64,
}

impl SlowDial {
    fn dial_port(&self, port: u16) -> Dialling {
        let dial = self.clone();
        Box::pin(async move {
            let address = lookup_host((dial.host.as_str(), port)).await?.next().ok_or(io::ErrorKind::NotFound)?;
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            socket.set_recv_buffer_size(SOCKET_BYTES)?;
            let stream: TcpStream = socket.connect(address).await?;
            stream.set_nodelay(true)?;
            let (receiver, sender) = stream.into_split();
            let slow = Slow { inner: receiver, bytes_a_second: dial.bytes_a_second, pause: None };
            Ok((Box::new(slow) as smb::Receiver, Box::new(sender) as smb::Sender))
        })
    }
}

impl smb::Dial for SlowDial {
    fn dial(&self, _: Option<IpAddr>) -> Dialling {
        self.dial_port(self.port)
    }
}

impl nfs::Dial for SlowDial {
    fn dial(&self, port: u16) -> Dialling {
        self.dial_port(port)
    }
}

/// Pauses after each mouthful for as long as it should have taken.
struct Slow {
    inner: OwnedReadHalf,
    bytes_a_second: u64,
    pause: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for Slow {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let most = buf.remaining().min(MOUTHFUL_BYTES);
        let mut mouthful = ReadBuf::new(buf.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut mouthful))?;
        let count = mouthful.filled().len();
        buf.advance(count);
        let takes = Duration::from_secs_f64(count as f64 / self.bytes_a_second.max(1) as f64);
        self.pause = Some(Box::pin(sleep_until(Instant::now() + takes)));
        Poll::Ready(Ok(()))
    }
}
