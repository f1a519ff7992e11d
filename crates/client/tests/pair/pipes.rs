//! The pipe is full: how many requests are under way, how large they are, and how long it takes where a round trip has a
//! length.

use std::time::Duration;

use client::{Client, Credentials, Dialect, Options};
use tokio::time::Instant;

use crate::util::World;
use crate::util::world::{PASSWORD, USER};
use crate::wire::{Line, honest, join_by};
use crate::{pattern, story};

const ROUND_TRIP: Duration = Duration::from_millis(10);
const FILE_BYTES: usize = 32 << 20;

async fn joined(world: &World, options: &Options, line: &Line) -> Client {
    join_by(world, options, Credentials::password(USER, PASSWORD), honest(), line.clone()).await.unwrap()
}

#[test]
fn reading_and_writing_wait_for_few_round_trips() {
    story(async {
        let world = World::new();
        let line = Line::slow(ROUND_TRIP);
        let options = Options { stream_bytes: 8 << 20, max_transfer_bytes: 1 << 20, ..Options::default() };
        let client = joined(&world, &options, &line).await;
        let data = pattern(FILE_BYTES);
        let file = client.create("large").await.unwrap();
        let begun = Instant::now();
        file.write_at(0, &data).await.unwrap();
        let writing = begun.elapsed();
        file.close().await.unwrap();
        let file = client.open("large").await.unwrap();
        let begun = Instant::now();
        let mut stream = file.read_stream(0..u64::MAX);
        let mut count = 0;
        while let Some(chunk) = stream.next().await.unwrap() {
            assert!(chunk[..] == data[count..count + chunk.len()]);
            count += chunk.len();
        }
        assert_eq!(count, FILE_BYTES);
        // 32 requests, 4 at a time, then 6, then 8: 6 round trips, and one for the end. One after the other they would be 32.
        for (what, took) in [("writing", writing), ("reading", begun.elapsed())] {
            assert!(took <= ROUND_TRIP * 8, "{what}: {took:?}");
        }
        assert_eq!(line.most_under_way.get(), 8, "as many as memory allows and no more");
        assert!((1 << 20..(1 << 20) + 200).contains(&line.longest_bytes.get()));
    });
}

#[test]
fn a_request_is_as_large_as_dialect_server_and_credits_allow() {
    let cases = [
        // dialect, what the server allows, credits, what is asked for, what is sent
        (Dialect::V2_0_2, 8 << 20, 512, 8 << 20, 64 << 10),
        (Dialect::V2_1, 8 << 20, 512, 8 << 20, 8 << 20),
        (Dialect::V3_1_1, 8 << 20, 512, 8 << 20, 8 << 20),
        (Dialect::V3_1_1, 3_000_000, 512, 8 << 20, 3_000_000),
        (Dialect::V3_1_1, 8 << 20, 512, 300_000, 300_000),
        (Dialect::V3_1_1, 8 << 20, 4, 8 << 20, 256 << 10),
    ];
    for (dialect, server_bytes, credits, wanted, expected) in cases {
        story(async move {
            let world = World::with(|config, _| {
                (config.max_read_bytes, config.max_write_bytes) = (server_bytes, server_bytes);
            });
            let line = Line::default();
            let options = Options { max_dialect: dialect, max_transfer_bytes: wanted, credits, ..Options::default() };
            let client = joined(&world, &options, &line).await;
            let data = pattern(20_000_000);
            let file = client.create("file").await.unwrap();
            file.write_at(0, &data).await.unwrap();
            let longest = line.longest_bytes.replace(0);
            let around = expected as usize..expected as usize + 200;
            assert!(around.contains(&longest), "{dialect}: writing {longest}");
            let mut read = vec![0; data.len()];
            assert_eq!(client.read_at("file", 0, &mut read).await.unwrap(), data.len());
            assert!(read == data);
            let longest = line.longest_bytes.get();
            assert!(around.contains(&longest), "{dialect}: reading {longest}");
        });
    }
}

#[test]
fn a_slow_line_gets_the_whole_window_and_a_fast_one_little_of_it() {
    const GIB_PER_SEC: u64 = (1 << 30) / 1000;
    for (round_trip, bytes_per_ms, at_least, at_most) in [
        (Duration::from_millis(100), 0, 16, 16),
        (Duration::from_millis(100), GIB_PER_SEC, 16, 16),
        // Timers here know milliseconds only; 1 MiB takes ten on this line.
        (Duration::from_micros(100), GIB_PER_SEC / 10, 2, 6),
    ] {
        story(async move {
            let world = World::new();
            let mut line = Line::slow(round_trip);
            line.bytes_per_ms = bytes_per_ms;
            let options = Options { stream_bytes: 16 << 20, max_transfer_bytes: 1 << 20, ..Options::default() };
            let client = joined(&world, &options, &line).await;
            world.put("large", &pattern(160 << 20));
            let mut stream = client.open("large").await.unwrap().read_stream(0..u64::MAX);
            let begun = Instant::now();
            let mut count = 0;
            while let Some(chunk) = stream.next().await.unwrap() {
                count += chunk.len();
            }
            assert_eq!(count, 160 << 20);
            let most = line.most_under_way.get();
            assert!((at_least..=at_most).contains(&most), "{round_trip:?} {bytes_per_ms}: {most}");
            // 160 requests: what the line takes for them, or 10 windows and those in which it grew.
            let least =
                Duration::from_millis((160_u64 << 20).checked_div(bytes_per_ms).unwrap_or(0)).max(round_trip * 12);
            assert!(begun.elapsed() < least.mul_f64(1.8), "{round_trip:?}: {:?}", begun.elapsed());
        });
    }
}

#[test]
fn what_a_stream_took_is_not_lost_with_who_waits_for_the_next() {
    story(async {
        let world = World::new();
        let options = Options { max_transfer_bytes: 64 << 10, stream_bytes: 128 << 10, ..Options::default() };
        let client = joined(&world, &options, &Line::slow(Duration::from_millis(100))).await;
        let data = pattern(600_000);
        let file = client.create("file").await.unwrap();
        let mut stream = file.write_stream(0);
        let mut taken = 0;
        // Each piece is more than fits beside what is held, and is given up while it waits for room.
        for piece in data.chunks(30_000) {
            match tokio::time::timeout(Duration::from_millis(10), stream.write(piece)).await {
                Ok(written) => {
                    written.unwrap();
                    taken += piece.len();
                }
                Err(_) => break,
            }
        }
        let written = stream.finish().await.unwrap();
        assert!(written >= taken as u64, "{written} of {taken}");
        file.close().await.unwrap();
        assert!(world.content("file").unwrap()[..] == data[..usize::try_from(written).unwrap()]);
    });
}

#[test]
fn a_stream_that_failed_does_not_finish_well() {
    story(async {
        let world = World::new();
        let client = joined(&world, &Options::default(), &Line::default()).await;
        let file = client.create("file").await.unwrap();
        let mut stream = file.write_stream(0);
        world.fs.fail_next(vfs::memfs::Op::Write, vfs::VfsError::Io(5));
        let mut failed = false;
        for _ in 0..100 {
            failed |= stream.write(&pattern(1 << 20)).await.is_err();
        }
        assert!(failed && stream.finish().await.is_err());
    });
}
