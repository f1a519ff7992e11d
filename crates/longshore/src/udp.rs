//! Datagrams for the NFS server: one thread for each address takes them and sends the answers. Few come, from lock
//! managers, status monitors and those who ask the portmapper; `nfs` starts the threads, which end with the server.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Weak};
use std::time::Duration;

use nfs_server::Server;

/// No call is longer: the longest handle, names and credential are.
const MOST_CALL_BYTES: usize = 9 << 10;
/// How often it is looked whether the server is still there.
const LOOK: Duration = Duration::from_secs(1);

/// Answers datagrams at `address` until the server is gone.
pub fn listen(address: SocketAddr, server: &Arc<Server>) -> io::Result<()> {
    let socket = UdpSocket::bind(address)?;
    socket.set_read_timeout(Some(LOOK))?;
    let (local, server) = (socket.local_addr()?, Arc::downgrade(server));
    std::thread::Builder::new().name("nfs-udp".into()).spawn(move || run(&socket, local, &server)).map(drop)
}

fn run(socket: &UdpSocket, local: SocketAddr, server: &Weak<Server>) {
    let mut buf = vec![0; MOST_CALL_BYTES];
    loop {
        let received = socket.recv_from(&mut buf);
        let Some(server) = server.upgrade() else { return };
        let Ok((len, peer)) = received else { continue };
        let reached = if local.ip().is_unspecified() { toward(peer, local) } else { local };
        let reply = server.datagram(peer, reached, buf.get(..len).unwrap_or_default());
        if let Some(reply) = reply
            && let Err(error) = socket.send_to(&reply, peer)
        {
            tracing::debug!(%error, %peer, "an answer could not be sent");
        }
    }
}

/// The address by which a host reaches this machine. Connecting a datagram socket sends nothing.
fn toward(peer: SocketAddr, local: SocketAddr) -> SocketAddr {
    let any = SocketAddr::new(local.ip(), 0);
    let own = UdpSocket::bind(any).and_then(|socket| socket.connect(peer).and_then(|()| socket.local_addr()));
    SocketAddr::new(own.map_or(local.ip(), |own| own.ip().to_canonical()), local.port())
}
