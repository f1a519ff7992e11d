//! What the transport does for one request and its reply that are alone on their connection, in instructions.
//!
//! `conformance/instructions` runs this under callgrind, thread by thread, with LS_REQUESTS set to two numbers, and takes
//! what the further requests cost the shard. Run without it, it only shows that they are answered.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::task::Context;

use transport::{Framing, Limits, ListenOptions, Machine, MachineFactory, Server, ShardEnv};
use vfs::{Frame, Reply};

/// What a READ of 4 KiB is and is answered with.
const REQUEST_BYTES: usize = 120;
const REPLY_BYTES: usize = 84 + 4096;

#[test]
fn one_at_a_time() {
    let server = Server::start(1, 1, Limits::default()).unwrap();
    let factory: MachineFactory =
        Arc::new(|_, env: &ShardEnv| Box::new(Blank { env: env.clone(), replies: VecDeque::new() }));
    let address = server.listen(([127, 0, 0, 1], 0).into(), &ListenOptions::default(), factory).unwrap();
    let mut peer = TcpStream::connect(address).unwrap();
    peer.set_nodelay(true).unwrap();
    let mut reply = [1; REPLY_BYTES];
    for _ in 0..requests() {
        peer.write_all(&[0; REQUEST_BYTES]).unwrap();
        peer.read_exact(&mut reply).unwrap();
    }
    assert_eq!(reply, [0; REPLY_BYTES]);
}

fn requests() -> u32 {
    std::env::var("LS_REQUESTS").map_or(10, |text| text.parse().expect("a number of requests"))
}

/// Answers every request with nothing but zeros.
struct Blank {
    env: ShardEnv,
    replies: VecDeque<Reply>,
}

impl Machine for Blank {
    fn framing(&self, _: &[u8]) -> Framing {
        Framing::Known { len_bytes: REQUEST_BYTES, payload_at: 4 }
    }

    fn receive(&mut self, _: Frame, _: bool) {
        let mut head = self.env.pool.get(REPLY_BYTES);
        head.push(&[0; REPLY_BYTES]);
        self.replies.push_back(Reply { head, pages: None });
    }

    fn poll(&mut self, _: &mut Context<'_>) {}

    fn next_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn ready(&self) -> bool {
        true
    }

    fn stalled(&self) -> bool {
        false
    }

    fn busy(&self) -> bool {
        false
    }

    fn finished(&self) -> bool {
        false
    }

    fn established(&self) -> bool {
        true
    }

    fn closed(&mut self, _: &str) {}
}
