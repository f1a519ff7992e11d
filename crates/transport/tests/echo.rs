//! The transport with real sockets: order and batching of replies, bounds on time, connections and memory, and the end.

mod util;

use std::io::Write;
use std::time::{Duration, Instant};

use transport::Limits;
use util::{MAX_BYTES, World, ask, framed, wait_until};

fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut payload = vec![ask::ECHO];
    payload.extend(number.to_be_bytes());
    payload.resize(len.max(5), number as u8);
    payload
}

#[test]
fn requests_sent_ahead_are_answered_in_order_whatever_their_size() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    let lens = [5, 100, 4096, 70_000, 127 << 10, 129 << 10, 300_000, 1 << 20, 6, 3 << 20, 9, 2 << 20];
    let mut writer = peer.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for (i, len) in lens.iter().enumerate() {
            writer.write_all(&framed(&numbered(i as u32, *len))).unwrap();
        }
    });
    for (i, len) in lens.iter().enumerate() {
        assert!(peer.receive() == numbered(i as u32, *len), "frame {i} of {len} bytes");
    }
    sender.join().unwrap();
    // A reply is counted just after it left.
    let count = lens.len() as u64;
    wait_until("all are counted", || (world.totals().frames, world.totals().replies) == (count, count));
}

#[test]
fn a_frame_may_come_byte_by_byte() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    for byte in [framed(b"e-one"), framed(b"e-two")].concat() {
        peer.0.write_all(&[byte]).unwrap();
        std::thread::yield_now();
    }
    assert_eq!(peer.receive(), b"e-one");
    assert_eq!(peer.receive(), b"e-two");
}

/// A peer that sends a request in two pieces and leaves Nagle's algorithm on waits for our acknowledgement in between.
#[test]
fn a_request_in_pieces_waits_for_no_delayed_acknowledgement() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    let request = framed(&numbered(1, 3000));
    let (head, rest) = request.split_at(100);
    let mut times = [true, false].map(|nodelay| {
        peer.0.set_nodelay(nodelay).unwrap();
        let began = Instant::now();
        for _ in 0..50 {
            peer.0.write_all(head).unwrap();
            peer.0.write_all(&rest[..1000]).unwrap();
            peer.0.write_all(&rest[1000..]).unwrap();
            peer.receive();
        }
        began.elapsed()
    });
    times[0] = times[0].max(Duration::from_millis(20));
    // Each of 50 would wait for 40 ms.
    assert!(times[1] < times[0] * 20, "{times:?}");
}

/// The same for a large one, wherever it is cut: at its end there is less than a segment, which is held back.
#[test]
fn a_large_request_in_pieces_waits_for_no_delayed_acknowledgement() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    let request = framed(&numbered(1, 700_000));
    let mut times = [true, false].map(|nodelay| {
        peer.0.set_nodelay(nodelay).unwrap();
        let began = Instant::now();
        for cut in (1..30).map(|n| n * 23_000) {
            let (head, rest) = request.split_at(cut);
            let (middle, end) = rest.split_at(rest.len() - 900);
            for piece in [head, middle, end] {
                peer.0.write_all(piece).unwrap();
            }
            peer.receive();
        }
        began.elapsed()
    });
    times[0] = times[0].max(Duration::from_millis(50));
    // Each of 29 would wait for 40 ms.
    assert!(times[1] < times[0] * 10, "{times:?}");
}

/// Sent in many pieces, it is received in few: the server sleeps until the rest is there.
#[test]
fn a_large_request_wakes_once() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    let request = framed(&numbered(1, 1 << 20));
    let calls = (0..50)
        .map(|_| {
            let before = world.totals().recv_calls;
            for piece in request.chunks(64 << 10) {
                peer.0.write_all(piece).unwrap();
                std::thread::sleep(Duration::from_micros(10));
            }
            peer.receive();
            world.totals().recv_calls - before
        })
        .min();
    // One brings the beginning, one the rest, and one may bring what came before it was known how much there is. The
    // least, since a machine that is busy may let 4 ms pass.
    assert!(calls <= Some(4), "{calls:?} calls");
}

#[test]
fn the_part_of_a_large_request_whose_rest_does_not_come_is_taken() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    let request = framed(&numbered(1, 1 << 20));
    for times in 1..=3 {
        let before = world.totals().recv_bytes;
        let (half, rest) = request.split_at(request.len() / 2);
        peer.0.write_all(half).unwrap();
        wait_until("the half is taken", || world.totals().recv_bytes - before == half.len() as u64);
        peer.0.write_all(rest).unwrap();
        assert_eq!(peer.receive(), numbered(1, 1 << 20));
        // In vain the first time; then once left alone, and in vain again.
        let in_vain = world.totals().awaited_in_vain;
        assert!((1..=times).contains(&in_vain), "{in_vain} of {times}");
    }
}

#[test]
fn sixteen_requests_in_one_segment_cost_one_send() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    peer.send(b"e-warm");
    peer.receive();
    wait_until("the first reply is counted", || world.totals().replies == 1);
    let before = world.totals();
    let all: Vec<u8> = (0..16).flat_map(|i| framed(&numbered(i, 100))).collect();
    peer.0.write_all(&all).unwrap();
    for i in 0..16 {
        assert_eq!(peer.receive(), numbered(i, 100));
    }
    wait_until("the replies are counted", || world.totals().replies == 17);
    let after = world.totals();
    assert_eq!(after.frames - before.frames, 16);
    assert_eq!(after.send_calls - before.send_calls, 1);
    assert_eq!(after.recv_calls - before.recv_calls, 1);
}

/// The peer reads the first of them while the rest are made.
#[test]
fn replies_to_much_that_came_together_leave_in_parts_unless_others_wait() {
    let world = World::start(Limits::default());
    let (mut peer, mut other) = (world.connect(), world.connect());
    let all: Vec<u8> = (0..16).flat_map(|i| framed(&numbered(i, 3000))).collect();
    let mut replies = 0;
    for (between, sends) in [(false, 4), (true, 1), (false, 4)] {
        let mut quiet = |peer: &mut util::Peer| {
            peer.send(b"e-warm");
            peer.receive();
            replies += 1;
            wait_until("the reply is counted", || world.totals().replies == replies);
        };
        quiet(&mut peer);
        if between {
            quiet(&mut other);
        }
        let before = world.totals();
        peer.0.write_all(&all).unwrap();
        for i in 0..16 {
            assert_eq!(peer.receive(), numbered(i, 3000));
        }
        replies += 16;
        wait_until("the replies are counted", || world.totals().replies == replies);
        let after = world.totals();
        assert_eq!((after.recv_calls - before.recv_calls, after.send_calls - before.send_calls), (1, sends));
    }
}

/// However fast it sent before, and whether or not that made it wait for others.
#[test]
fn a_request_after_a_burst_is_answered() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    let many: Vec<u8> = (0..64).flat_map(|i| framed(&numbered(i, 100))).collect();
    for _ in 0..20 {
        for _ in 0..64 {
            peer.0.write_all(&many).unwrap();
            for i in 0..64 {
                assert_eq!(peer.receive(), numbered(i, 100));
            }
        }
        peer.send(&numbered(7, 100));
        assert_eq!(peer.receive(), numbered(7, 100));
    }
}

#[test]
fn who_does_not_read_is_not_read_from_and_others_are_served() {
    let limits = Limits { queued_reply_bytes: 2 << 20, ..Limits::default() };
    let mut world = World::start(limits);
    let mut slow = world.connect();
    slow.0.set_nonblocking(true).unwrap();
    // 1 MiB asked for by 2 bytes each, and never read, until the server takes no more.
    let ask_for_more = framed(&[ask::LARGE, 1]);
    let mut asked = 0;
    for _ in 0..2000 {
        asked += usize::from(slow.0.write(&ask_for_more).is_ok());
    }
    assert!(asked > 100);
    let mut other = world.connect();
    for i in 0..200 {
        other.send(&numbered(i, 4096));
        assert_eq!(other.receive(), numbered(i, 4096));
    }
    std::thread::sleep(Duration::from_millis(100));
    // What may be queued, one more reply, and a receive buffer.
    let used = world.used_bytes();
    assert!(used < 5 << 20, "{used} bytes of buffers for a peer that reads nothing");
    let taken = world.totals().frames;
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(world.totals().frames, taken, "nothing more is taken");
    // Once it reads, everything comes.
    slow.0.set_nonblocking(false).unwrap();
    for _ in 0..asked.min(20) {
        assert_eq!(slow.receive().len(), 1 << 20);
    }
}

#[test]
fn a_peer_that_stays_silent_is_dropped_and_one_that_logs_in_is_not() {
    let world = World::start(Limits { handshake: Duration::from_millis(200), ..Limits::default() });
    let mut member = world.connect();
    member.send(&[ask::LOGIN]);
    member.receive();
    let begun = Instant::now();
    let mut silent = world.connect();
    let mut busy = world.connect();
    assert!(silent.is_ended());
    assert!(begun.elapsed() >= Duration::from_millis(150));
    assert!(world.why().contains("did not authenticate"));
    // Sending something is not authenticating.
    let _ = busy.0.write_all(&framed(b"e"));
    wait_until("the other one is dropped too", || world.server.open_connections() == 1);
    member.send(b"e-still");
    assert_eq!(member.receive(), b"e-still");
}

#[test]
fn one_address_has_only_so_many_connections() {
    let world = World::start(Limits { connections_per_peer: 3, ..Limits::default() });
    let mut members: Vec<_> = (0..3).map(|_| world.connect()).collect();
    for member in &mut members {
        member.send(b"e");
        member.receive();
    }
    assert!(world.connect().is_ended());
    for member in &mut members {
        member.send(b"e-on");
        assert_eq!(member.receive(), b"e-on");
    }
    drop(members.pop());
    wait_until("its place is free", || world.server.open_connections() == 2);
    let mut late = world.connect();
    late.send(b"e");
    assert_eq!(late.receive(), b"e");
}

#[test]
fn there_are_only_so_many_connections_in_all() {
    let world = World::start(Limits { connections: 2, ..Limits::default() });
    let mut members = [world.connect(), world.connect()];
    for member in &mut members {
        member.send(b"e");
        member.receive();
    }
    assert!(world.connect().is_ended());
}

#[test]
fn stopping_finishes_what_is_in_flight() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    let mut idle = world.connect();
    idle.send(b"e");
    idle.receive();
    for i in 0..4 {
        peer.send(&[ask::LATER, i]);
    }
    wait_until("the requests are taken", || world.totals().frames == 5);
    let World { server, closed, .. } = world;
    let stopping = std::thread::spawn(move || server.stop(Duration::from_secs(10)));
    let mut answered = Vec::new();
    while answered.len() < 8 {
        answered.extend(peer.receive());
    }
    answered.sort();
    assert_eq!(answered, [0, 1, 2, 3, b'w', b'w', b'w', b'w']);
    assert!(peer.is_ended() && idle.is_ended());
    stopping.join().unwrap();
    assert!(closed.iter().all(|why| why == "the server stops"));
}

#[test]
fn stopping_does_not_wait_for_ever() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    for _ in 0..4 {
        peer.send(&[ask::LARGE, 8]); // and never reads
    }
    wait_until("the requests are taken", || world.totals().frames >= 1);
    let begun = Instant::now();
    world.server.stop(Duration::from_millis(200));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_peer_may_go_in_the_middle_of_a_frame() {
    let mut world = World::start(Limits::default());
    for len in [1, 3, 50, 200_000] {
        let mut peer = world.connect();
        peer.send(b"e");
        peer.receive();
        let frame = framed(&vec![ask::ECHO; 300_000]);
        peer.0.write_all(&frame[..len]).unwrap();
        drop(peer);
        assert_eq!(world.why(), "closed by the client in the middle of a frame", "{len} bytes");
    }
    wait_until("all buffers are back", || world.used_bytes() == 0);
}

#[test]
fn a_frame_that_may_not_be_ends_the_connection() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    peer.0.write_all(&(MAX_BYTES as u32 + 1).to_be_bytes()).unwrap();
    assert!(peer.is_ended());
    assert!(world.why().contains("too long"));
}

#[test]
fn a_machine_ends_its_connection_after_the_last_reply() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    peer.send(&[ask::QUIT, 1, 2, 3]);
    assert_eq!(peer.receive(), [ask::QUIT, 1, 2, 3]);
    assert!(peer.is_ended());
    assert_eq!(world.why(), "ended by the server");
}

#[test]
fn what_lasts_goes_on_without_its_connection() {
    for (kind, goes_on) in [(ask::LASTING, true), (ask::LATER, false)] {
        let world = World::start(Limits::default());
        let mut peer = world.connect();
        peer.send(&[kind]);
        peer.send(b"q");
        assert_eq!(peer.receive(), b"q");
        assert!(peer.is_ended(), "the socket is not kept");
        let why = || world.closed.recv_timeout(Duration::from_secs(1)).ok();
        assert_eq!(why().as_deref(), Some("ended by the server"));
        assert_eq!(why().as_deref(), goes_on.then_some("went on"));
    }
}

#[test]
fn a_thousand_idle_connections_hold_no_buffers() {
    let mut world = World::start(Limits::default());
    let mut peers: Vec<_> = (0..1000).map(|_| world.connect()).collect();
    for peer in &mut peers {
        peer.send(b"e-hello");
    }
    for peer in &mut peers {
        assert_eq!(peer.receive(), b"e-hello");
    }
    assert_eq!(world.server.open_connections(), 1000);
    wait_until("no buffer is held", || world.used_bytes() == 0);
    drop(peers);
    wait_until("all are gone", || world.server.open_connections() == 0);
    let totals = world.totals();
    assert_eq!((totals.accepted, totals.ended), (1000, 1000));
}

#[test]
fn a_machine_that_panics_is_told_that_its_connection_is_over() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    peer.send(&[ask::PANIC]);
    assert!(peer.is_ended());
    assert_eq!(world.why(), "broken off");
    wait_until("its place is free", || world.server.open_connections() == 0);
    let mut other = world.connect();
    other.send(b"e-still");
    assert_eq!(other.receive(), b"e-still");
}

#[test]
fn a_connection_knows_the_address_it_was_made_to() {
    let world = World::start(Limits::default());
    let near = world.connect().0;
    let accepted = world.arrived.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!((accepted.peer, accepted.local), (near.local_addr().unwrap(), near.peer_addr().unwrap()));
}

#[test]
fn connections_are_listed_while_they_are_there_with_what_they_moved() {
    let world = World::start(Limits::default());
    let observer = world.server.observer();
    let (mut one, mut other) = (world.connect(), world.connect());
    for number in 0..10 {
        one.send(&[ask::ECHO, number]);
        assert_eq!(one.receive(), [ask::ECHO, number]);
    }
    other.send(b"e");
    other.receive();
    let of = |port: u16| observer.connections().into_iter().find(|c| c.peer.port() == port).unwrap();
    let port = one.0.local_addr().unwrap().port();
    wait_until("the last reply is counted", || of(port).sent_bytes == 60);
    assert_eq!((of(port).requests, of(port).received_bytes, of(port).protocol), (10, 60, "echo"));
    assert_eq!(of(port).local, world.address);
    drop(one);
    wait_until("it is gone", || observer.connections().len() == 1);
}

#[test]
fn what_comes_together_is_counted_together() {
    let world = World::start(Limits::default());
    let observer = world.server.observer();
    let mut peer = world.connect();
    let together: Vec<u8> = (0..8).flat_map(|number| framed(&[ask::ECHO, number])).collect();
    peer.0.write_all(&together).unwrap();
    for number in 0..8 {
        assert_eq!(peer.receive(), [ask::ECHO, number]);
    }
    wait_until("all are counted", || observer.totals().replies == 8);
    let (received, sent, totals) = (observer.frames_per_recv(), observer.replies_per_send(), observer.totals());
    assert_eq!((received.sum(), sent.sum()), (8, 8));
    assert_eq!((received.count(), sent.count()), (totals.recv_calls, totals.send_calls));
    assert_eq!(received.quantile(1.0), Some(8), "one call brought all");
}

#[test]
fn a_machine_is_told_when_requests_came_and_when_replies_went() {
    let world = World::start(Limits::default());
    let mut peer = world.connect();
    peer.send(b"later? no, now");
    peer.receive();
    peer.send(&[ask::LATER]);
    peer.receive();
    let times: Vec<(u64, u64)> = (0..2).map(|_| world.timed()).collect();
    assert!(times.iter().all(|(arrived_ns, sent_ns)| sent_ns > arrived_ns), "{times:?}");
    assert!(times[1].1 - times[1].0 >= 100_000_000, "it took a tenth of a second on a worker: {times:?}");
    assert!(times[0].1 <= times[1].0, "{times:?}");
}
