//! The bare loop, by which every other figure is also a part of what the machine could do: a server that parses nothing but
//! a length, in a process of its own, and a client that does no more than keep requests in flight. The two halves are in
//! `server` and `caller`; here is what they say to each other, and the process. It serves files of loads and nothing else.

use std::fmt::{self, Display};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;

use bench::tally::Counted;
use tokio::time::Instant;

use super::job::Load;
use super::place::file_name;
use crate::failure::Failure;

mod caller;
mod server;

pub use server::serve;

/// A request's header: length, kind, offset; a WRITE's bytes follow.
const REQUEST_BYTES: usize = 16;
/// An answer's header: length, and whether it is as asked; a READ's bytes follow.
const ANSWER_BYTES: usize = 8;
/// The most one request moves.
const MOST_BYTES: u32 = 64 << 20;
/// The longest name of a file that a connection may begin with.
const MOST_NAME_BYTES: usize = 64;
const READY: &str = "ready on ";

/// How READs leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Copied behind their header, all that are ready in one send.
    Copy,
    /// Moved as pages, each behind its header.
    Splice,
    /// Moved from 64 KiB up, copied below.
    Best,
}

impl How {
    fn splices(self, len_bytes: usize) -> bool {
        const FROM_BYTES: usize = 64 << 10;
        match self {
            Self::Copy => false,
            Self::Splice => true,
            Self::Best => len_bytes >= FROM_BYTES,
        }
    }
}

impl Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copy => "copy",
            Self::Splice => "splice",
            Self::Best => "best",
        })
    }
}

impl FromStr for How {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Copy, Self::Splice, Self::Best]
            .into_iter()
            .find(|how| how.to_string() == text)
            .ok_or_else(|| format!("`{text}` is none of copy, splice, best"))
    }
}

/// The bare loop's server in a process of its own, ended with this.
#[derive(Debug)]
pub struct Bare {
    child: Child,
    address: SocketAddr,
    directory: PathBuf,
    how: How,
}

impl Bare {
    /// Starts it on a directory. It ends when this does, even if that is killed: its standard input is closed then.
    pub fn start(directory: &Path, how: How) -> Result<Self, Failure> {
        let failed = |what: String| Failure::system(format!("cannot start the bare loop: {what}"));
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.args(["bench", "bare-server"]).arg(directory).arg(how.to_string());
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failed(error.to_string()))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        }
        let address = line.trim().strip_prefix(READY).and_then(|address| address.parse().ok());
        match address {
            Some(address) => Ok(Self { child, address, directory: directory.to_owned(), how }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed("it did not say where it listens".to_owned()))
            }
        }
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Makes the files of so many jobs where they are not there with their length.
    pub fn prepare(&self, jobs: u32, size_bytes: u64) -> Result<String, String> {
        for number in 0..jobs {
            let path = self.directory.join(file_name(number));
            if std::fs::metadata(&path).is_ok_and(|found| found.len() == size_bytes) {
                continue;
            }
            server::make_file(&path, size_bytes, number).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok("the bare loop".to_owned())
    }

    /// Removes them.
    pub fn remove(&self, jobs: u32) {
        // One that is not there was another target's too.
        (0..jobs).for_each(|number| drop(std::fs::remove_file(self.directory.join(file_name(number)))));
    }

    /// Runs the job of this number, its connections on a thread each: what was counted, and the CPU time of these threads
    /// while it counted. `begin` is called once when all are connected and says when to begin.
    pub fn run(
        &self,
        load: &Load,
        number: u32,
        stop: &AtomicBool,
        begin: impl FnOnce() -> Result<Instant, String>,
    ) -> Result<(Counted, u64), String> {
        let connections = load.connections.max(1);
        let callers = (0..connections).map(|at| {
            let depth = load.depth / connections + u32::from(at < load.depth % connections);
            caller::Caller::connect(self.address, load, number, at, depth)
        });
        let callers: Vec<_> = callers.collect::<Result<_, _>>()?;
        let start = begin()?.into_std();
        let ended: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = callers.into_iter().map(|c| scope.spawn(move || c.run(start, stop))).collect();
            threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a caller broke".to_owned()))).collect()
        });
        let (mut all, mut cpu_ns) = (Counted::default(), 0);
        for one in ended {
            let (counted, ns) = one?;
            all.add(&counted);
            cpu_ns += ns;
        }
        Ok((all, cpu_ns))
    }
}

impl Display for Bare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit:{} ({})", self.directory.display(), self.how)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use bench::plan::Operation;
    use bench::workload::Workload;

    use super::*;

    /// A server on threads of this process.
    fn server(how: How) -> (tempfile::TempDir, SocketAddr) {
        let directory = tempfile::tempdir().unwrap();
        server::make_file(&directory.path().join(file_name(0)), 1 << 20, 0).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, path) = (listener.local_addr().unwrap(), directory.path().to_owned());
        std::thread::spawn(move || server::accept(&listener, &path, how));
        (directory, address)
    }

    /// A load whose end is never waited for: it is stopped after a while, and whatever the machine does meanwhile, the first
    /// requests have counted.
    fn load(operation: Operation, block_bytes: u32) -> Load {
        let workload = Workload { operation, rwmixread: 50, block_bytes, size_bytes: 1 << 20, files: 1 };
        let (ramp, runtime) = (Duration::ZERO, Duration::from_secs(3_600));
        Load { workload, jobs: 1, connections: 1, depth: 8, ramp, runtime, seed: 1 }
    }

    fn counted(address: SocketAddr, load: &Load) -> Result<Counted, String> {
        let caller = caller::Caller::connect(address, load, 0, 0, load.depth)?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            caller.run(std::time::Instant::now(), &stop).map(|(counted, _)| counted)
        })
    }

    #[test]
    fn every_kind_of_load_gets_through_each_path() {
        for how in [How::Copy, How::Splice, How::Best] {
            let (_directory, address) = server(how);
            for operation in [Operation::Read, Operation::RandRead, Operation::Write, Operation::RandRw] {
                for block_bytes in [1, 4_096, 65_536, 1 << 20] {
                    let counted = counted(address, &load(operation, block_bytes)).unwrap();
                    assert!(counted.operations >= 8, "{how} {operation} {block_bytes}");
                    assert_eq!(counted.bytes, counted.operations * u64::from(block_bytes));
                }
            }
        }
    }

    #[test]
    fn what_is_read_is_the_file_and_what_is_written_is_there() {
        use std::io::{Read, Write};
        for how in [How::Copy, How::Splice] {
            let (directory, address) = server(how);
            let path = directory.path().join(file_name(0));
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(&caller::hello(0)).unwrap();
            let read = caller::header(70_000, bench::workload::Kind::Read, 12_345);
            socket.write_all(&[&read[..], &read[..]].concat()).unwrap();
            let mut answers = vec![0; 2 * (ANSWER_BYTES + 70_000)];
            socket.read_exact(&mut answers).unwrap();
            let file = std::fs::read(&path).unwrap();
            for answer in answers.chunks(ANSWER_BYTES + 70_000) {
                assert_eq!(answer[..ANSWER_BYTES], [70_000u32.to_le_bytes(), [0; 4]].concat());
                assert!(answer[ANSWER_BYTES..] == file[12_345..82_345], "{how}");
            }
            socket.write_all(&caller::header(3, bench::workload::Kind::Write, 99)).unwrap();
            socket.write_all(b"abc").unwrap();
            socket.read_exact(&mut answers[..ANSWER_BYTES]).unwrap();
            assert_eq!(std::fs::read(&path).unwrap()[99..102], *b"abc");
        }
    }

    #[test]
    fn what_is_not_a_request_ends_the_connection_and_no_other_file_is_served() {
        use std::io::{Read, Write};
        let (directory, address) = server(How::Copy);
        std::fs::write(directory.path().join("secret"), "x").unwrap();
        let path = |name: &[u8]| [&[name.len() as u8], name].concat();
        let too_much = [caller::hello(0), caller::header(u32::MAX, bench::workload::Kind::Read, 0).to_vec()].concat();
        let unknown = [caller::hello(0), vec![1, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        for bytes in [path(b"secret"), path(b"longshore-bench./../secret"), vec![255; 40], too_much, unknown] {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            socket.write_all(&bytes).unwrap();
            let mut answer = Vec::new();
            // A reset is an end too: it had not read all.
            let _ = socket.read_to_end(&mut answer);
            assert!(answer.is_empty(), "{bytes:?}");
        }
        let beyond = Load {
            workload: Workload { size_bytes: 2 << 20, ..load(Operation::Read, 4_096).workload },
            ..load(Operation::Read, 4_096)
        };
        assert!(counted(address, &beyond).unwrap_err().contains("less than"));
    }
}
