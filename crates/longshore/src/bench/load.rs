//! A load and its measurement: jobs on threads of their own, started together, with the CPU time of these threads and of
//! the server taken at the two ends of what counts. What comes out is a measurement or the reason why there is none.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use bench::observation::{Measurement, Outcome, Reason};
use bench::tally::Counted;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use super::cpu::{self, LocalServer};
use super::job::{self, Load};
use super::place::{Address, Place};
use super::{bare, names, tree, wire};

/// What a run may take beyond its own length: connecting, and the last requests' time.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether the machine still gives this process time.
const HEARTBEAT: Duration = Duration::from_millis(10);
/// All threads begin this long after the last one is ready.
const RUN_UP: Duration = Duration::from_millis(5);

/// Ends everything that runs, from anywhere.
#[derive(Debug, Default)]
pub struct Stop {
    told: AtomicBool,
    waiting: Notify,
}

impl Stop {
    /// Ends it.
    pub fn tell(&self) {
        self.told.store(true, Relaxed);
        self.waiting.notify_waiters();
    }

    /// Whether it is to end.
    pub fn is_told(&self) -> bool {
        self.told.load(Relaxed)
    }

    /// Waits until it is to end.
    pub async fn wait(&self) {
        let told = self.waiting.notified();
        if !self.is_told() {
            told.await;
        }
    }

    fn flag(&self) -> &AtomicBool {
        &self.told
    }
}

/// Runs a load against a place and says what came of it.
pub async fn measure(place: &Arc<Place>, load: &Load, stop: &Stop) -> Outcome {
    let discarded = |reason, detail: String| Outcome::Discarded { reason, detail, measurement: None };
    match tokio::time::timeout(load.ramp + load.runtime + PATIENCE, attempt(place, load, stop)).await {
        _ if stop.is_told() => discarded(Reason::Interrupted, "the comparison was ended".to_owned()),
        Ok(Ok((measurement, stalled))) if stalled > most_stalled(load) => Outcome::Discarded {
            reason: Reason::Disturbed,
            detail: format!("nothing of this program could run for {} ms", stalled.as_millis()),
            measurement: Some(measurement),
        },
        Ok(Ok((measurement, _))) if measurement.operations == 0 => {
            discarded(Reason::Failed, "no request completed in the time that counts".to_owned())
        }
        Ok(Ok((measurement, _))) => Outcome::Accepted(measurement),
        Ok(Err(why)) => discarded(Reason::Failed, why),
        Err(_) => discarded(Reason::Failed, format!("it did not end within {} s of its time", PATIENCE.as_secs())),
    }
}

async fn attempt(place: &Arc<Place>, load: &Load, stop: &Stop) -> Result<(Measurement, Duration), String> {
    let mut threads = Threads::start(place, load)?;
    let measured = tokio::select! {
        measured = threads.measured(place, load) => measured,
        () = stop.wait() => Err("it was ended".to_owned()),
    };
    // What one thread failed at, the others need not go on with, and nothing of it may reach into the next run.
    threads.end().await;
    measured
}

/// The server's CPU time while it counts, and the longest time this thread was kept from waking when it was to. `over` ends
/// it early, where a load has nothing left to do.
async fn watch(server: Option<&LocalServer>, start: Instant, load: &Load, over: &Stop) -> (Option<u64>, Duration) {
    let used = || server.and_then(LocalServer::used);
    let from = start + load.ramp;
    sleep_until(from).await;
    let before = used();
    let until = from + load.runtime;
    let (mut at, mut longest) = (from, Duration::ZERO);
    while at < until && !over.is_told() {
        at = (at + HEARTBEAT).min(until);
        sleep_until(at).await;
        longest = longest.max(at.elapsed());
        at = at.max(Instant::now());
    }
    (used().zip(before).map(|(after, before)| after.since(&before)), longest)
}

/// How long nothing of this process may have run: longer, and the machine was at something else.
fn most_stalled(load: &Load) -> Duration {
    Duration::from_millis(250).max(load.runtime / 10)
}

enum Told {
    Ready,
    Done(Result<Done, String>),
}

struct Done {
    counted: Counted,
    cpu_ns: u64,
}

/// The threads of a load.
struct Threads {
    told: mpsc::UnboundedReceiver<Told>,
    begin: Vec<blocking::Sender<Instant>>,
    halt: Arc<Stop>,
}

impl Threads {
    fn start(place: &Arc<Place>, load: &Load) -> Result<Self, String> {
        let (tell, told) = mpsc::unbounded_channel();
        let (mut begin, halt) = (Vec::new(), Arc::<Stop>::default());
        for numbers in shared_out(load.jobs, place.threads()) {
            let (send, receive) = blocking::channel();
            let thread = Thread { place: Arc::clone(place), load: *load, numbers, stop: Arc::clone(&halt) };
            let gate = Gate { tell: tell.clone(), begin: receive };
            let run = move || thread.run(gate);
            let spawned = std::thread::Builder::new().name("bench-load".to_owned()).spawn(run);
            spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
            begin.push(send);
        }
        Ok(Self { told, begin, halt })
    }

    async fn measured(&mut self, place: &Place, load: &Load) -> Result<(Measurement, Duration), String> {
        self.all_ready().await?;
        let start = self.begin();
        let over = Stop::default();
        let watched = async { Ok(watch(place.server(), start, load, &over).await) };
        let done = async {
            let done = self.all_done().await;
            over.tell();
            done
        };
        let (done, (server_cpu_ns, stalled)) = tokio::try_join!(done, watched)?;
        let (counted, client_cpu_ns) = done;
        let elapsed_ns = counted.ended_ns.saturating_sub(load.window().from_ns);
        if elapsed_ns == 0 {
            return Err(format!("all {} files were used up before it counted", load.workload.files));
        }
        let measurement = Measurement {
            elapsed_ns,
            bytes: counted.bytes,
            operations: counted.operations,
            latency: counted.latency,
            client_cpu_ns: Some(client_cpu_ns),
            server_cpu_ns,
        };
        Ok((measurement, stalled))
    }

    /// Ends all threads and waits until they have.
    async fn end(mut self) {
        self.halt.tell();
        self.begin.clear();
        while self.told.recv().await.is_some() {}
    }

    async fn all_ready(&mut self) -> Result<(), String> {
        for _ in 0..self.begin.len() {
            match self.told.recv().await {
                Some(Told::Ready) => {}
                Some(Told::Done(Err(why))) => return Err(why),
                Some(Told::Done(Ok(_))) | None => return Err("a thread of the load ended".to_owned()),
            }
        }
        Ok(())
    }

    fn begin(&self) -> Instant {
        let start = Instant::now() + RUN_UP;
        for thread in &self.begin {
            // One that has ended has told why, or is going to.
            let _ = thread.send(start);
        }
        start
    }

    async fn all_done(&mut self) -> Result<(Counted, u64), String> {
        let (mut counted, mut cpu_ns) = (Counted::default(), 0);
        for _ in 0..self.begin.len() {
            let Some(Told::Done(done)) = self.told.recv().await else {
                return Err("a thread of the load ended".to_owned());
            };
            let done = done?;
            counted.add(&done.counted);
            cpu_ns += done.cpu_ns;
        }
        Ok((counted, cpu_ns))
    }
}

/// The numbers of the jobs of each thread.
fn shared_out(jobs: u32, threads: usize) -> Vec<Vec<u32>> {
    let threads = threads.clamp(1, jobs.max(1) as usize);
    (0..threads).map(|thread| (thread as u32..jobs).step_by(threads).collect()).collect()
}

/// Where a thread says that it is ready, and waits for the others.
pub struct Gate {
    tell: mpsc::UnboundedSender<Told>,
    begin: blocking::Receiver<Instant>,
}

impl Gate {
    /// Says that this thread is ready, and when to begin. This blocks: nothing is in flight on this thread yet.
    pub fn pass(&self) -> Result<Instant, String> {
        let _ = self.tell.send(Told::Ready);
        self.begin.recv().map_err(|_| "the load was given up".to_owned())
    }
}

struct Thread {
    place: Arc<Place>,
    load: Load,
    numbers: Vec<u32>,
    stop: Arc<Stop>,
}

impl Thread {
    fn run(self, gate: Gate) {
        let done = match self.place.address() {
            Address::Bare(bare) => self.over_bare(bare, &gate),
            Address::Server(_) => self.over_the_client(&gate),
        };
        let _ = gate.tell.send(Told::Done(done));
    }

    fn over_bare(&self, bare: &bare::Bare, gate: &Gate) -> Result<Done, String> {
        let mut done = Done { counted: Counted::default(), cpu_ns: 0 };
        for number in &self.numbers {
            let (counted, cpu_ns) = bare.run(&self.load, *number, self.stop.flag(), || gate.pass())?;
            done.counted.add(&counted);
            done.cpu_ns += cpu_ns;
        }
        Ok(done)
    }

    fn over_the_client(&self, gate: &Gate) -> Result<Done, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
        match self.load.workload.operation.is_on_names() {
            true => runtime.block_on(self.on_names(gate)),
            false => runtime.block_on(self.on_files(gate)),
        }
    }

    async fn on_files(&self, gate: &Gate) -> Result<Done, String> {
        let mut files = Vec::new();
        for number in &self.numbers {
            files.push((*number, wire::open(&self.place, &self.load, *number).await?));
        }
        let start = gate.pass()?;
        let jobs = files.iter().map(|(number, files)| job::run(files, &self.load, *number, start, self.stop.flag()));
        let done = self.jobs(jobs, start).await?;
        wire::close(files.into_iter().flat_map(|(_, files)| files)).await;
        Ok(done)
    }

    async fn on_names(&self, gate: &Gate) -> Result<Done, String> {
        let mut trees = Vec::new();
        for number in &self.numbers {
            trees.push((*number, tree::open(&self.place, &self.load, *number).await?));
        }
        let start = gate.pass()?;
        let jobs = trees.iter().map(|(number, trees)| names::run(trees, &self.load, *number, start, self.stop.flag()));
        let done = self.jobs(jobs, start).await?;
        tree::close(trees.into_iter().flat_map(|(_, trees)| trees)).await;
        Ok(done)
    }

    async fn jobs<F>(&self, jobs: impl Iterator<Item = F>, start: Instant) -> Result<Done, String>
    where
        F: Future<Output = Result<Counted, String>>,
    {
        let over = Stop::default();
        let all = async {
            sleep_until(start).await;
            let all = futures_util::future::try_join_all(jobs).await;
            over.tell();
            all
        };
        let (all, cpu_ns) = tokio::try_join!(all, self.cpu(start, &over))?;
        let mut counted = Counted::default();
        all.iter().for_each(|one| counted.add(one));
        Ok(Done { counted, cpu_ns })
    }

    /// This thread's CPU time while it counts.
    async fn cpu(&self, start: Instant, over: &Stop) -> Result<u64, String> {
        sleep_until(start + self.load.ramp).await;
        let before = cpu::of_this_thread();
        let end = sleep_until(start + self.load.ramp + self.load.runtime);
        tokio::select! {
            () = end => {}
            () = over.wait() => {}
            () = self.stop.wait() => {}
        }
        Ok(cpu::of_this_thread().saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_has_one_thread() {
        assert_eq!(shared_out(5, 2), [vec![0, 2, 4], vec![1, 3]]);
        assert_eq!(shared_out(2, 8), [[0], [1]]);
        assert_eq!(shared_out(3, 1), [[0, 1, 2]]);
    }
}
