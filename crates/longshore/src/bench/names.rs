//! A job on many files by their names: so many errands at once, each followed by the next, until the load's end or until no
//! file is left. Like [`super::job`] it knows a clock and no protocol: [`Names`] sends.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bench::plan::Operation;
use bench::tally::{Counted, Tally};
use bench::workload::Visits;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

use super::job::Load;

/// What errands go through: a directory over a connection. Files are known by their numbers. An error is the end of the
/// job, in words; so is an answer that is not the right one.
pub trait Names {
    /// Opens a file, reads all of its `len_bytes` and closes it.
    async fn read(&self, file: u32, len_bytes: u32) -> Result<(), String>;
    /// Makes a file, which must not be there.
    async fn create(&self, file: u32) -> Result<(), String>;
    /// Asks what a file of so many bytes is like.
    async fn stat(&self, file: u32, len_bytes: u32) -> Result<(), String>;
    /// Removes a file.
    async fn remove(&self, file: u32) -> Result<(), String>;
    /// Lists the directory. `part` hears how many files each answer named, and says whether to go on.
    async fn list(&self, part: impl FnMut(u32) -> bool) -> Result<(), String>;
}

/// Runs the job of this number over its directories, one for each of its connections, from `start` on. `stop` ends it early.
pub async fn run<N: Names>(
    directories: &[N],
    load: &Load,
    number: u32,
    start: Instant,
    stop: &AtomicBool,
) -> Result<Counted, String> {
    let visits = Visits::new(load.workload, load.seed, number).map_err(|error| error.to_string())?;
    let window = load.window();
    let job = Job {
        load,
        visits: RefCell::new(visits),
        tally: RefCell::new(Tally::new(window)),
        until_ns: window.until_ns,
        start,
        stop,
    };
    let lanes = directories.iter().cycle().take(if directories.is_empty() { 0 } else { load.depth as usize });
    let mut lanes: FuturesUnordered<_> = lanes.map(|directory| job.lane(directory)).collect();
    while let Some(ended) = lanes.next().await {
        ended?;
    }
    drop(lanes);
    let ended_ns = job.now_ns();
    let mut tally = job.tally.into_inner();
    tally.ended(ended_ns);
    Ok(tally.finish())
}

struct Job<'a> {
    load: &'a Load,
    visits: RefCell<Visits>,
    tally: RefCell<Tally>,
    until_ns: u64,
    start: Instant,
    stop: &'a AtomicBool,
}

impl Job<'_> {
    /// One place in flight: errand after errand.
    async fn lane<N: Names>(&self, directory: &N) -> Result<(), String> {
        let workload = &self.load.workload;
        let len_bytes = workload.block_bytes;
        let mut now = self.now_ns();
        while self.goes_on(now) {
            let Some(file) = self.draw() else { break };
            match workload.operation {
                Operation::FileRead => directory.read(file, len_bytes).await?,
                Operation::FileCreate => directory.create(file).await?,
                Operation::FileDelete => directory.remove(file).await?,
                Operation::FileList => {
                    self.listing(directory, now).await?;
                    now = self.now_ns();
                    continue;
                }
                _ => directory.stat(file, len_bytes).await?,
            }
            let sent = now;
            now = self.now_ns();
            let bytes = if workload.operation.moves_bytes() { len_bytes.into() } else { 0 };
            self.tally.borrow_mut().completed(sent, now, bytes);
        }
        Ok(())
    }

    /// One whole listing, or its beginning where the load ends before it.
    async fn listing<N: Names>(&self, directory: &N, begun: u64) -> Result<(), String> {
        let (mut sent, mut entries, mut is_whole) = (begun, 0, true);
        let part = |count: u32| {
            let now = self.now_ns();
            self.tally.borrow_mut().completed_many(sent, now, count.into());
            sent = now;
            entries += u64::from(count);
            is_whole = self.goes_on(now);
            is_whole
        };
        directory.list(part).await?;
        match is_whole && entries != u64::from(self.load.workload.files) {
            true => Err(format!("a listing named {entries} of {} files", self.load.workload.files)),
            false => Ok(()),
        }
    }

    fn draw(&self) -> Option<u32> {
        self.visits.borrow_mut().draw()
    }

    fn goes_on(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns && !self.stop.load(Relaxed)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;
    use std::time::Duration;

    use bench::workload::Workload;

    use super::*;

    const TAKES: Duration = Duration::from_millis(10);

    /// Answers after a while of a virtual clock.
    #[derive(Default)]
    struct Slow {
        in_flight: Cell<u32>,
        most: Cell<u32>,
        gone: RefCell<BTreeSet<u32>>,
        hides: u32,
    }

    impl Slow {
        async fn answer(&self) {
            self.in_flight.set(self.in_flight.get() + 1);
            self.most.set(self.most.get().max(self.in_flight.get()));
            tokio::time::sleep(TAKES).await;
            self.in_flight.set(self.in_flight.get() - 1);
        }
    }

    impl Names for Slow {
        async fn read(&self, _: u32, len_bytes: u32) -> Result<(), String> {
            assert_eq!(len_bytes, 4_096);
            self.answer().await;
            Ok(())
        }

        async fn create(&self, _: u32) -> Result<(), String> {
            Err("it is full".to_owned())
        }

        async fn stat(&self, _: u32, _: u32) -> Result<(), String> {
            self.answer().await;
            Ok(())
        }

        async fn remove(&self, file: u32) -> Result<(), String> {
            self.answer().await;
            self.gone.borrow_mut().insert(file).then_some(()).ok_or_else(|| format!("{file} is gone"))
        }

        async fn list(&self, mut part: impl FnMut(u32) -> bool) -> Result<(), String> {
            for count in [20, 20, 10 - self.hides] {
                self.answer().await;
                if !part(count) {
                    break;
                }
            }
            Ok(())
        }
    }

    fn load(operation: Operation, files: u32) -> Load {
        let workload = Workload { operation, rwmixread: 0, block_bytes: 4_096, size_bytes: 0, files };
        let (ramp, runtime) = (Duration::from_millis(100), Duration::from_millis(1_000));
        Load { workload, jobs: 1, connections: 2, depth: 8, ramp, runtime, seed: 1 }
    }

    async fn counted(directories: &[Slow], load: &Load) -> Result<Counted, String> {
        run(directories, load, 0, Instant::now(), &AtomicBool::new(false)).await
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_errands_as_declared_are_under_way_and_the_ramp_does_not_count() {
        let directories = [Slow::default(), Slow::default()];
        let read = counted(&directories, &load(Operation::FileRead, 9)).await.unwrap();
        assert_eq!((read.operations, read.bytes, read.ended_ns), (800, 800 * 4_096, 1_100_000_000));
        assert!(directories.iter().all(|directory| directory.most.get() == 4));
        let stat = counted(&directories, &load(Operation::FileStat, 9)).await.unwrap();
        assert_eq!((stat.operations, stat.bytes), (800, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_ends_when_its_files_are_used_up() {
        let directory = [Slow::default()];
        // Eight every 10 ms, of which the first nine times are the ramp.
        let removed = counted(&directory, &load(Operation::FileDelete, 200)).await.unwrap();
        assert_eq!((removed.operations, removed.ended_ns), (200 - 72, 250_000_000));
        assert_eq!(directory[0].gone.borrow().len(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn entries_are_counted_and_a_listing_must_have_them_all() {
        let listed = counted(&[Slow::default()], &load(Operation::FileList, 50)).await.unwrap();
        // Parts of 20, 20 and 10 over and over; from the tenth part of each of the eight until the 109th.
        assert_eq!((listed.operations, listed.latency.count()), (8 * (33 * 50 + 20), 800));
        assert_eq!(listed.latency.quantile_ns(0.5), Some(10_000_000));
        let short = counted(&[Slow { hides: 1, ..Slow::default() }], &load(Operation::FileList, 50)).await;
        assert_eq!(short, Err("a listing named 49 of 50 files".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_ends_the_job() {
        assert_eq!(counted(&[Slow::default()], &load(Operation::FileCreate, 5)).await, Err("it is full".to_owned()));
    }
}
