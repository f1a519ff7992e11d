//! `longshore bench crowd`: many clients at once. The idle ones show what a connection costs that does nothing, the busy ones
//! whether each gets its share, beside some that read slowly and some that ask for more than others. Each busy client is
//! timed by itself: an average over all would hide the one that waits.

mod shown;
mod slow;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bench::plan::Operation;
use bench::tally::Counted;
use bench::workload::Workload;
use client::Client;
use futures_util::future::try_join_all;
use futures_util::stream::{FuturesUnordered, StreamExt, TryStreamExt, iter};
use tokio::time::{Instant, sleep_until};

use self::shown::{Memory, Seen};
use super::arguments::CrowdArgs;
use super::ground::{Ground, prepare, remove};
use super::job::{self, Io, Load};
use super::load::Stop;
use super::login::Logins;
use super::place::Place;
use super::{results, signals, wire};
use crate::failure::Failure;
use crate::status;

/// Idle clients of one thread that log in at the same time.
const LOGINS_AT_ONCE: usize = 16;
/// What a slow client asks for at a time, and how often before it has the first answer.
const SLOW_BLOCK_BYTES: u32 = 1 << 20;
const SLOW_DEPTH: u32 = 16;
/// A greedy client has so many times as many requests in flight as the others.
const GREEDY_TIMES: u32 = 32;
/// After the last login: what a server does for a new client is over by then.
const SETTLED: Duration = Duration::from_secs(1);
/// All threads begin this long after the last one is ready.
const RUN_UP: Duration = Duration::from_millis(20);

/// Does it.
pub fn run(arguments: &CrowdArgs) -> Result<(), Failure> {
    results::warn_of_build();
    status::raise_file_limit();
    let crowd = Crowd::of(arguments)?;
    let mut logins = Logins::new(&arguments.access.login);
    let way = logins.way(&arguments.url, None)?;
    let place = Place::of_server(&arguments.url, way, arguments.server_pid)?;
    let stop = signals::watch()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(format!("cannot start a runtime: {error}")))?;
    let ground = Ground::of_jobs(crowd.files(), crowd.load.workload);
    runtime.block_on(prepare(&place, &ground)).map_err(Failure::system)?;
    let seen = crowd.gather(&place, &stop);
    if !arguments.access.keep_files {
        let _ = runtime.block_on(remove(&place, &ground));
    }
    let seen = seen.map_err(Failure::system)?;
    status::say(&if arguments.json { seen.json().map_err(Failure::system)? } else { seen.table() });
    Ok(())
}

/// Who is there and what they do.
#[derive(Debug, Clone, Copy)]
struct Crowd {
    idle: u32,
    busy: u32,
    greedy: u32,
    slow: u32,
    slow_bytes_a_second: u64,
    /// Of a busy client.
    load: Load,
}

/// What a client does, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Busy,
    Greedy,
    Slow,
}

impl Crowd {
    fn of(arguments: &CrowdArgs) -> Result<Self, Failure> {
        let block_bytes = u32::try_from(arguments.bs.0).ok().filter(|bytes| *bytes <= 8 << 20);
        let block_bytes = block_bytes.ok_or_else(|| Failure::usage("--bs above 8 MiB"))?;
        if arguments.runtime.0.is_zero() {
            return Err(Failure::usage("--runtime of nothing"));
        }
        let least_bytes = u64::from(if arguments.slow > 0 { block_bytes.max(SLOW_BLOCK_BYTES) } else { block_bytes });
        if arguments.size.0 < least_bytes {
            return Err(Failure::usage(format!("--size below {least_bytes} bytes: there are longer requests")));
        }
        let (operation, size_bytes) = (arguments.rw.0, arguments.size.0);
        if operation.is_on_names() {
            return Err(Failure::usage("--rw of many files: each client of a crowd has one"));
        }
        let load = Load {
            workload: Workload { operation, rwmixread: 50, block_bytes, size_bytes, files: 1 },
            jobs: 1,
            connections: 1,
            depth: arguments.iodepth,
            ramp: arguments.ramp_time.0,
            runtime: arguments.runtime.0,
            seed: arguments.seed,
        };
        let &CrowdArgs { idle, busy, greedy, slow, .. } = arguments;
        Ok(Self { idle, busy, greedy, slow, slow_bytes_a_second: arguments.slow_rate.0, load })
    }

    /// Clients that have a file.
    fn files(&self) -> u32 {
        self.busy + self.greedy + self.slow
    }

    fn part(&self, number: u32) -> Part {
        match number {
            number if number < self.slow => Part::Slow,
            number if number < self.slow + self.greedy => Part::Greedy,
            _ => Part::Busy,
        }
    }

    fn load_of(&self, part: Part) -> Load {
        match part {
            Part::Busy => self.load,
            Part::Greedy => Load { depth: self.load.depth * GREEDY_TIMES, ..self.load },
            Part::Slow => {
                let (operation, block_bytes) = (Operation::Read, SLOW_BLOCK_BYTES);
                let workload = Workload { operation, block_bytes, ..self.load.workload };
                Load { workload, depth: SLOW_DEPTH, ..self.load }
            }
        }
    }

    /// Lets them all come, and says what became of it.
    fn gather(self, place: &Arc<Place>, stop: &Arc<Stop>) -> Result<Seen, String> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let mut memory = Memory { before: resident_bytes(place), ..Memory::default() };
        let (tell, told) = mpsc::channel();
        let mut begin = Vec::new();
        for first in 0..threads {
            let (send, receive) = mpsc::channel();
            let of = |count: u32| (first..count).step_by(threads as usize).collect::<Vec<_>>();
            let thread = Thread {
                crowd: self,
                place: Arc::clone(place),
                idle: of(self.idle).len(),
                numbers: of(self.files()),
                gate: Gate { tell: tell.clone(), begin: receive, stop: Arc::clone(stop) },
            };
            let spawned = std::thread::Builder::new().name("bench-crowd".to_owned()).spawn(move || thread.run());
            spawned.map_err(|error| format!("cannot start a thread: {error}"))?;
            begin.push(send);
        }
        drop(tell);
        let start = std::time::Instant::now();
        all_are_there(&begin, &told)?;
        let connecting = start.elapsed();
        std::thread::sleep(SETTLED);
        memory.idle = resident_bytes(place);
        go_on(&begin, start);
        all_are_there(&begin, &told)?;
        go_on(&begin, std::time::Instant::now() + RUN_UP);
        let mut seen = Seen { idle: self.idle, connecting, runtime: self.load.runtime, memory, clients: Vec::new() };
        for _ in 0..threads {
            match told.recv() {
                Ok(Told::Done(Ok(clients))) => seen.clients.extend(clients),
                Ok(Told::Done(Err(why))) => return Err(why),
                _ => return Err("a thread of the load ended".to_owned()),
            }
        }
        seen.memory.after = resident_bytes(place);
        seen.clients.sort_by_key(|client| client.number);
        Ok(seen)
    }
}

/// Waits until every thread has come so far.
fn all_are_there(begin: &[mpsc::Sender<Moment>], told: &mpsc::Receiver<Told>) -> Result<(), String> {
    for _ in begin {
        match told.recv() {
            Ok(Told::There) => {}
            Ok(Told::Done(Err(why))) => return Err(why),
            Ok(Told::Done(Ok(_))) | Err(_) => return Err("a thread of the load ended".to_owned()),
        }
    }
    Ok(())
}

/// Lets them go on at this moment.
fn go_on(begin: &[mpsc::Sender<Moment>], at: Moment) {
    // One that has ended has told why, or is going to.
    for thread in begin {
        let _ = thread.send(at);
    }
}

fn resident_bytes(place: &Place) -> Option<u64> {
    let pid = place.server()?.pid()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// What one client got.
#[derive(Debug)]
struct Timed {
    number: u32,
    part: Part,
    counted: Counted,
}

enum Told {
    /// A thread has come as far as all are to come.
    There,
    Done(Result<Vec<Timed>, String>),
}

type Moment = std::time::Instant;

struct Gate {
    tell: mpsc::Sender<Told>,
    begin: mpsc::Receiver<Moment>,
    stop: Arc<Stop>,
}

impl Gate {
    /// Says that this thread has come so far, and waits for the others; when to begin. Nothing is in flight on this thread
    /// meanwhile.
    fn pass(&self) -> Result<Instant, String> {
        let _ = self.tell.send(Told::There);
        self.begin.recv().map(Instant::from_std).map_err(|_| "the load was given up".to_owned())
    }
}

/// Some of the clients, on one thread.
struct Thread {
    crowd: Crowd,
    place: Arc<Place>,
    idle: usize,
    numbers: Vec<u32>,
    gate: Gate,
}

impl Thread {
    fn run(self) {
        let done = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(async {
                tokio::select! {
                    done = self.all() => done,
                    () = self.gate.stop.wait() => Err("it was ended".to_owned()),
                }
            }),
            Err(error) => Err(format!("cannot start a runtime: {error}")),
        };
        let _ = self.gate.tell.send(Told::Done(done));
    }

    async fn all(&self) -> Result<Vec<Timed>, String> {
        let connect = |_| wire::connect(&self.place, self.crowd.load.workload.block_bytes);
        let idle: Vec<Client> = iter(0..self.idle).map(connect).buffer_unordered(LOGINS_AT_ONCE).try_collect().await?;
        self.gate.pass()?;
        let mut files = Vec::new();
        for number in &self.numbers {
            files.push((*number, self.open(*number).await?));
        }
        let start = self.gate.pass()?;
        sleep_until(start).await;
        let (slow, quick): (Vec<_>, Vec<_>) =
            files.iter().partition(|(number, _)| self.crowd.part(*number) == Part::Slow);
        let never = AtomicBool::new(false);
        let done = tokio::select! {
            done = try_join_all(quick.into_iter().map(|file| self.quick(file, start, &never))) => done?,
            done = self.slow(&slow) => done?,
        };
        drop(idle);
        Ok(done)
    }

    async fn open(&self, number: u32) -> Result<wire::Wire, String> {
        let part = self.crowd.part(number);
        let load = self.crowd.load_of(part);
        let client = match part {
            Part::Slow => slow::connect(&self.place, self.crowd.slow_bytes_a_second).await?,
            Part::Busy | Part::Greedy => wire::connect(&self.place, load.workload.block_bytes).await?,
        };
        wire::open_on(client, &self.place, &load, number).await
    }

    async fn quick(
        &self,
        (number, file): &(u32, wire::Wire),
        start: Instant,
        stop: &AtomicBool,
    ) -> Result<Timed, String> {
        let (number, part) = (*number, self.crowd.part(*number));
        let counted = job::run(std::slice::from_ref(file), &self.crowd.load_of(part), number, start, stop).await?;
        Ok(Timed { number, part, counted })
    }

    /// The slow ones ask on and on, and are broken off when the others are done: this ends only if one fails.
    async fn slow(&self, files: &[&(u32, wire::Wire)]) -> Result<Vec<Timed>, String> {
        let size_bytes = self.crowd.load.workload.size_bytes;
        let lanes = files.iter().flat_map(|(_, file)| (0..SLOW_DEPTH).map(move |_| read_on(file, size_bytes)));
        match lanes.collect::<FuturesUnordered<_>>().next().await {
            Some(why) => Err(why),
            None => std::future::pending().await,
        }
    }
}

/// Reads a file from its beginning to its end, again and again, until it cannot be read.
async fn read_on(file: &wire::Wire, size_bytes: u64) -> String {
    loop {
        for block in 0..size_bytes / u64::from(SLOW_BLOCK_BYTES) {
            if let Err(why) = file.read(block * u64::from(SLOW_BLOCK_BYTES), SLOW_BLOCK_BYTES).await {
                return format!("a slow client: {why}");
            }
        }
    }
}
