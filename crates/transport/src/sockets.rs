//! How sockets are set up: what an administrator may choose ([`ListenOptions`]) and what every connection has. The options
//! are set on the listener, from which each accepted connection has them; setting them on a connection would come too late
//! for its first window. `server` calls this, and the binary, to find out beforehand what the system refuses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpStream;

use crate::sys::{self, Buffer};

/// How a listener's connections are set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenOptions {
    /// TCP congestion control; `None` leaves the system's default.
    pub congestion: Option<String>,
    /// What the kernel may hold of replies for a connection, and of requests; `None`: as it finds best (tcp_wmem, tcp_rmem).
    pub send_buffer_bytes: Option<usize>,
    /// See above.
    pub receive_buffer_bytes: Option<usize>,
    /// Small replies leave at once, not together with later ones (TCP_NODELAY).
    pub no_delay: bool,
    /// How long a receiving call may look for packets at the network card itself (SO_BUSY_POLL); `None` leaves the system's.
    pub busy_poll: Option<Duration>,
    /// A header and the pages behind it, where they are fewer bytes than this, leave in the same segments (MSG_MORE).
    pub join_pages_below_bytes: usize,
    /// Small requests of a fast peer are let gather in the socket.
    pub gather: bool,
    /// A large request wakes its shard when all of it is there.
    pub await_large: bool,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self {
            congestion: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            no_delay: true,
            busy_poll: None,
            join_pages_below_bytes: 1 << 20,
            gather: true,
            await_large: true,
        }
    }
}

/// An option that the system does not do.
#[derive(Debug)]
pub struct Refused {
    /// Which.
    pub option: SocketOption,
    /// Why, and what it takes.
    pub why: String,
}

/// An option that the system can refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketOption {
    /// [`ListenOptions::congestion`].
    Congestion,
    /// [`ListenOptions::send_buffer_bytes`].
    SendBuffer,
    /// [`ListenOptions::receive_buffer_bytes`].
    ReceiveBuffer,
    /// [`ListenOptions::busy_poll`].
    BusyPoll,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl ListenOptions {
    /// What of these the system would refuse, found out with a socket that listens nowhere.
    pub fn refused(&self) -> io::Result<Vec<Refused>> {
        let any = Domain::IPV4;
        let socket = Socket::new(any, Type::STREAM, Some(Protocol::TCP))?;
        Ok(self.set(&socket))
    }

    /// Sets all that the system does, and answers what it refuses.
    fn set(&self, socket: &Socket) -> Vec<Refused> {
        let mut refused = Vec::new();
        let mut tried =
            |option, done: Result<(), String>| refused.extend(done.err().map(|why| Refused { option, why }));
        if let Some(name) = &self.congestion {
            tried(SocketOption::Congestion, set_congestion(socket, name));
        }
        if let Some(bytes) = self.send_buffer_bytes {
            tried(SocketOption::SendBuffer, set_buffer(socket, Buffer::Send, bytes));
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            tried(SocketOption::ReceiveBuffer, set_buffer(socket, Buffer::Receive, bytes));
        }
        if let Some(time) = self.busy_poll {
            tried(SocketOption::BusyPoll, set_busy_poll(socket, time));
        }
        refused
    }
}

/// A socket that listens at `address`. What the system refuses of `options` is told in the log, and done without.
pub(crate) fn listener(address: SocketAddr, options: &ListenOptions) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(address.ip() != std::net::Ipv6Addr::UNSPECIFIED)?;
    }
    for Refused { option, why } in options.set(&socket) {
        tracing::warn!(?option, "{why}; it is done without");
    }
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Sets up an accepted connection: what is not a listener's to hand down.
pub(crate) fn set_up(stream: &TcpStream, options: &ListenOptions) -> io::Result<()> {
    stream.set_nodelay(options.no_delay)?;
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(20));
    let socket = SockRef::from(stream);
    // A peer that is gone without a word, or takes nothing at all, does not hold its files for long.
    socket.set_tcp_user_timeout(Some(Duration::from_secs(120)))?;
    socket.set_tcp_keepalive(&keepalive)
}

fn set_congestion(socket: &Socket, name: &str) -> Result<(), String> {
    socket.set_tcp_congestion(name.as_bytes()).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            let known = known.map_or_else(|_| "others".to_owned(), |names| names.trim().replace(' ', ", "));
            format!("the kernel has no congestion control `{name}`; it has {known} (`modprobe tcp_{name}` may add it)")
        }
        io::ErrorKind::PermissionDenied => format!(
            "the congestion control `{name}` is for the superuser only, unless \
             net.ipv4.tcp_allowed_congestion_control names it"
        ),
        _ => format!("cannot set the congestion control `{name}`: {error}"),
    })
}

fn set_buffer(socket: &Socket, buffer: Buffer, bytes: usize) -> Result<(), String> {
    let set = sys::set_socket_buffer(socket.as_fd(), buffer, bytes);
    let got = set.map_err(|error| format!("cannot set the socket's buffer to {bytes} bytes: {error}"))?;
    if got < bytes {
        let limit = if buffer == Buffer::Send { "net.core.wmem_max" } else { "net.core.rmem_max" };
        return Err(format!("the system allows {got} bytes, not {bytes}; raise {limit}, or ask for less"));
    }
    Ok(())
}

fn set_busy_poll(socket: &Socket, time: Duration) -> Result<(), String> {
    sys::set_busy_poll(socket.as_fd(), time).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "more than net.core.busy_read needs root or the capability CAP_NET_ADMIN".to_owned()
        }
        _ => format!("cannot set busy polling: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream as StdStream;

    use super::*;

    fn accepted(options: &ListenOptions) -> (StdStream, Socket) {
        let listener = listener(([127, 0, 0, 1], 0).into(), options).unwrap();
        listener.set_nonblocking(false).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let near = StdStream::connect(address).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn accepted_connections_have_what_was_chosen() {
        let options = ListenOptions {
            congestion: Some("reno".into()),
            send_buffer_bytes: Some(96 << 10),
            receive_buffer_bytes: Some(160 << 10),
            ..ListenOptions::default()
        };
        assert!(options.refused().unwrap().is_empty());
        let (_near, far) = accepted(&options);
        let congestion = far.tcp_congestion().unwrap();
        assert_eq!(congestion.split(|byte| *byte == 0).next(), Some(&b"reno"[..]));
        // The kernel counts its own overhead too, and doubles what it is told (socket(7)).
        assert_eq!(far.send_buffer_size().unwrap(), 2 * (96 << 10));
        assert_eq!(far.recv_buffer_size().unwrap(), 2 * (160 << 10));
    }

    #[test]
    fn nothing_chosen_leaves_the_kernels_own_sizes_that_grow() {
        let (_near, far) = accepted(&ListenOptions::default());
        let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _also_near = StdStream::connect(plain.local_addr().unwrap()).unwrap();
        let other = Socket::from(plain.accept().unwrap().0);
        assert_eq!(far.recv_buffer_size().unwrap(), other.recv_buffer_size().unwrap());
        assert_eq!(far.send_buffer_size().unwrap(), other.send_buffer_size().unwrap());
    }

    #[test]
    fn a_connection_has_what_a_listener_does_not_hand_down() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        for no_delay in [true, false] {
            let options = ListenOptions { no_delay, ..ListenOptions::default() };
            let (_near, far) = accepted(&options);
            far.set_nonblocking(true).unwrap();
            let stream = TcpStream::from_std(far.into()).unwrap();
            set_up(&stream, &options).unwrap();
            assert_eq!(stream.nodelay().unwrap(), no_delay);
            assert!(SockRef::from(&stream).keepalive().unwrap());
        }
    }

    #[test]
    fn what_the_kernel_does_not_have_is_said() {
        let options = ListenOptions { congestion: Some("nonesuch".into()), ..ListenOptions::default() };
        let refused = options.refused().unwrap();
        assert_eq!(refused.iter().map(|r| r.option).collect::<Vec<_>>(), [SocketOption::Congestion]);
        assert!(refused[0].to_string().contains("no congestion control `nonesuch`; it has"), "{}", refused[0]);
        // A server starts all the same.
        let (_near, far) = accepted(&options);
        assert!(far.tcp_congestion().is_ok());
    }

    #[test]
    fn busy_polling_is_set_or_said_to_need_a_right() {
        let options = ListenOptions { busy_poll: Some(Duration::from_micros(50)), ..ListenOptions::default() };
        match options.refused().unwrap().as_slice() {
            [] => {
                let (_near, far) = accepted(&options);
                assert_eq!(sys::busy_poll(far.as_fd()).unwrap(), Duration::from_micros(50));
            }
            [one] => assert!(one.to_string().contains("CAP_NET_ADMIN"), "{one}"),
            more => panic!("{more:?}"),
        }
    }
}
