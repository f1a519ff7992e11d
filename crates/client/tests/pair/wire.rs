//! A client and a server joined in memory: no socket, no kernel, and a clock that stands still unless everybody waits.
//! What goes from the server to the client passes through a function of the test, which may change it, hold it back, or
//! cut the line.

use std::task::{Context, Waker};
use std::time::Duration;

use client::{Client, Credentials, Error, Options, Url};
use smb_server::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use vfs::{BufPool, Frame};

use crate::util::World;
use crate::util::world::{PASSWORD, SHARE, USER};

/// Bytes the line holds before a sender must wait: a socket's buffer.
const LINE_BYTES: usize = 256 << 10;

/// What becomes of a reply, its prefix included. `None` cuts the line.
pub type Meddle = Box<dyn FnMut(Vec<u8>) -> Option<Vec<u8>>>;

/// Nothing.
pub fn honest() -> Meddle {
    Box::new(Some)
}

pub fn url() -> Url {
    Url::new("longshore", SHARE)
}

/// A client on the tests' share, as its user.
pub async fn join(world: &World, options: &Options) -> Client {
    try_join(world, options, Credentials::password(USER, PASSWORD), honest()).await.unwrap()
}

/// The same, or why not; `meddle` is shown every reply.
pub async fn try_join(
    world: &World,
    options: &Options,
    credentials: Credentials,
    meddle: Meddle,
) -> Result<Client, Error> {
    let (ours, theirs) = tokio::io::duplex(LINE_BYTES);
    tokio::task::spawn_local(serve(world.connection(), world.pool.clone(), theirs, meddle));
    let (reader, writer) = tokio::io::split(ours);
    Client::connect_over(reader, writer, &url(), credentials, options).await
}

/// A client of a server that does not understand SMB: it answers each request with what `answer` makes of it.
pub async fn join_stranger(
    mut answer: impl FnMut(Vec<u8>) -> Option<Vec<u8>> + 'static,
    options: &Options,
) -> Result<Client, Error> {
    let (ours, mut theirs) = tokio::io::duplex(LINE_BYTES);
    tokio::task::spawn_local(async move {
        while let Some(frame) = next_frame(&mut theirs).await {
            let Some(reply) = answer(frame) else { return };
            theirs.write_all(&reply).await.unwrap();
        }
    });
    let (reader, writer) = tokio::io::split(ours);
    Client::connect_over(reader, writer, &url(), Credentials::password(USER, PASSWORD), options).await
}

/// Whatever is done ends long before a test would be given up: `true` when it did.
pub async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), what).await.expect("it ends within its timeout")
}

async fn serve(mut server: Connection, pool: BufPool, mut line: DuplexStream, mut meddle: Meddle) {
    while let Some(frame) = next_frame(&mut line).await {
        let mut buf = pool.get(frame.len());
        buf.push(&frame);
        server.receive(Frame::from(buf), false);
        loop {
            server.poll(&mut Context::from_waker(Waker::noop()));
            let Some(reply) = server.next_reply() else { break };
            let Some(bytes) = meddle(reply.head.to_vec()) else { return server.closed("the line is cut") };
            if line.write_all(&bytes).await.is_err() {
                return server.closed("the client is gone");
            }
        }
        if let Some(why) = server.finished() {
            return server.closed(why);
        }
    }
    server.closed("the client is gone");
}

async fn next_frame(line: &mut DuplexStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    line.read_exact(&mut frame).await.ok()?;
    let len = u32::from_be_bytes(frame[..4].try_into().unwrap()) as usize;
    frame.resize(4 + len, 0);
    line.read_exact(&mut frame[4..]).await.ok()?;
    Some(frame)
}
