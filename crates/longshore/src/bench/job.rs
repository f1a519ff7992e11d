//! One job: so many requests in flight, each followed by the next as soon as it completes, until the load's end. Everything
//! of a job runs on one thread, in one task. It knows requests and a clock, no protocol: [`Io`] sends.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bench::tally::{Counted, Tally, Window};
use bench::workload::{Kind, Request, Requests, Workload};
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

/// What requests go through: an open file. An error is the end of the job, in words.
pub trait Io {
    /// Reads so many bytes at an offset; fewer are an error.
    async fn read(&self, offset_bytes: u64, len_bytes: u32) -> Result<(), String>;
    /// Writes all of `data` at an offset.
    async fn write(&self, offset_bytes: u64, data: &Bytes) -> Result<(), String>;
}

/// What all jobs of a load have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// What each job does to its file.
    pub workload: Workload,
    /// Jobs, each with its own file.
    pub jobs: u32,
    /// Connections of each job.
    pub connections: u32,
    /// Requests each job keeps in flight.
    pub depth: u32,
    /// The time before anything counts.
    pub ramp: Duration,
    /// The time that counts.
    pub runtime: Duration,
    /// Offsets and mixes come from it.
    pub seed: u64,
}

impl Load {
    /// What counts, in time since the start.
    pub fn window(&self) -> Window {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Window { from_ns: ns(self.ramp), until_ns: ns(self.ramp.saturating_add(self.runtime)) }
    }
}

/// Runs the job of this number over its open files, one for each of its connections, from `start` on. `stop` ends it early;
/// what was counted up to then is given all the same.
pub async fn run<I: Io>(
    files: &[I],
    load: &Load,
    number: u32,
    start: Instant,
    stop: &AtomicBool,
) -> Result<Counted, String> {
    let requests = Requests::new(load.workload, load.seed, number).map_err(|error| error.to_string())?;
    let window = load.window();
    let job = Job {
        requests: RefCell::new(requests),
        tally: RefCell::new(Tally::new(window)),
        data: payload(&load.workload, number),
        block_bytes: load.workload.block_bytes,
        until_ns: window.until_ns,
        start,
        stop,
    };
    let lanes = files.iter().cycle().take(if files.is_empty() { 0 } else { load.depth as usize });
    let mut lanes: FuturesUnordered<_> = lanes.map(|file| job.lane(file)).collect();
    while let Some(ended) = lanes.next().await {
        ended?;
    }
    drop(lanes);
    Ok(job.tally.into_inner().finish())
}

struct Job<'a> {
    requests: RefCell<Requests>,
    tally: RefCell<Tally>,
    data: Bytes,
    block_bytes: u32,
    until_ns: u64,
    start: Instant,
    stop: &'a AtomicBool,
}

impl Job<'_> {
    /// One place in flight: request after request.
    async fn lane<I: Io>(&self, file: &I) -> Result<(), String> {
        let mut now = self.now_ns();
        while now < self.until_ns && !self.stop.load(Relaxed) {
            let Request { kind, offset_bytes } = self.requests.borrow_mut().draw();
            match kind {
                Kind::Read => file.read(offset_bytes, self.block_bytes).await?,
                Kind::Write => file.write(offset_bytes, &self.data).await?,
            }
            let sent = now;
            now = self.now_ns();
            self.tally.borrow_mut().completed(sent, now, self.block_bytes.into());
        }
        Ok(())
    }

    /// Time since the start. One completion's is the next request's: a clock is read once for both.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What a job writes: nothing that could be compressed or found twice in the block.
pub fn payload(workload: &Workload, number: u32) -> Bytes {
    let len = if workload.writes() { workload.block_bytes as usize } else { 0 };
    noise(len, number.into()).into()
}

/// So many bytes without a pattern.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = bench::rng::Rng::new(seed, bench::rng::Stream::Requests(0));
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bench::plan::Operation;

    use super::*;

    /// Answers after a fixed time of a virtual clock, and counts what is in flight.
    struct Slow {
        takes: Duration,
        in_flight: Cell<u32>,
        most: Cell<u32>,
        reads: Cell<u64>,
        writes: Cell<u64>,
        fails_at: Option<u64>,
    }

    impl Slow {
        fn taking(takes: Duration) -> Self {
            let zero = || Cell::new(0);
            Self { takes, in_flight: Cell::new(0), most: Cell::new(0), reads: zero(), writes: zero(), fails_at: None }
        }

        async fn answer(&self, counter: &Cell<u64>) -> Result<(), String> {
            self.in_flight.set(self.in_flight.get() + 1);
            self.most.set(self.most.get().max(self.in_flight.get()));
            tokio::time::sleep(self.takes).await;
            self.in_flight.set(self.in_flight.get() - 1);
            counter.set(counter.get() + 1);
            if self.fails_at == Some(counter.get()) { Err("it broke".to_owned()) } else { Ok(()) }
        }
    }

    impl Io for Slow {
        async fn read(&self, _: u64, _: u32) -> Result<(), String> {
            self.answer(&self.reads).await
        }

        async fn write(&self, _: u64, data: &Bytes) -> Result<(), String> {
            assert_eq!(data.len(), 4_096);
            self.answer(&self.writes).await
        }
    }

    fn load(operation: Operation, depth: u32) -> Load {
        let workload = Workload { operation, rwmixread: 50, block_bytes: 4_096, size_bytes: 1 << 20, files: 1 };
        let (ramp, runtime) = (Duration::from_millis(100), Duration::from_millis(1_000));
        Load { workload, jobs: 1, connections: 1, depth, ramp, runtime, seed: 1 }
    }

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[tokio::test(start_paused = true)]
    async fn as_many_are_in_flight_as_declared_and_the_ramp_does_not_count() {
        let files = [Slow::taking(Duration::from_millis(10))];
        let counted = run(&files, &load(Operation::Read, 8), 0, Instant::now(), &GO_ON).await.unwrap();
        assert_eq!(files[0].most.get(), 8);
        // From 100 ms until 1,100 ms: completions at 100, 110 ... 1,090 ms, eight at a time.
        assert_eq!((counted.operations, counted.bytes), (800, 800 * 4_096));
        assert_eq!(files[0].reads.get(), 880);
        assert_eq!(counted.latency.quantile_ns(0.5), Some(10_000_000));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_spread_over_the_jobs_connections() {
        let files = [(); 3].map(|()| Slow::taking(Duration::from_millis(10)));
        run(&files, &load(Operation::RandRw, 6), 0, Instant::now(), &GO_ON).await.unwrap();
        assert!(files.iter().all(|file| file.most.get() == 2));
        assert!(files.iter().all(|file| file.reads.get() > 0 && file.writes.get() > 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_ends_the_job() {
        let file = Slow { fails_at: Some(20), ..Slow::taking(Duration::from_millis(10)) };
        let start = Instant::now();
        let ended = run(&[file], &load(Operation::Write, 4), 0, start, &GO_ON).await;
        assert_eq!(ended, Err("it broke".to_owned()));
        assert_eq!(start.elapsed().as_millis(), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_is_stopped() {
        let (stop, start) = (AtomicBool::new(false), Instant::now());
        let (files, load) = ([Slow::taking(Duration::from_millis(10))], load(Operation::Read, 2));
        let (counted, ()) = tokio::join!(run(&files, &load, 0, start, &stop), async {
            tokio::time::sleep(Duration::from_millis(305)).await;
            stop.store(true, Relaxed);
        });
        assert_eq!(start.elapsed().as_millis(), 310);
        assert_eq!(counted.unwrap().operations, 2 * 22);
    }

    #[test]
    fn noise_is_no_pattern() {
        let bytes = noise(4_099, 3);
        assert_eq!(bytes.len(), 4_099);
        assert_ne!(bytes[..8], bytes[8..16]);
        assert_ne!(noise(64, 3), noise(64, 4));
    }
}
