//! Servers that are started to be measured, and stopped whatever happens: at the end, on an error, on a signal, and on a
//! second signal that ends this process at once. Each has a directory of its own for what it writes. Processes are ended by
//! their numbers, with all they started, and no others.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::cpu;
use super::load::Stop;
use crate::failure::Failure;

/// How long a server may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Lines of a server's output that are kept, for whoever asks why it did not start.
const MOST_LINES: usize = 400;

/// What runs now, for a process that ends without unwinding.
static RUNNING: Mutex<Vec<i32>> = Mutex::new(Vec::new());
/// What was written, likewise.
static WRITTEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// What puts back what was changed, likewise.
static CHANGED: Mutex<Vec<(u64, Back)>> = Mutex::new(Vec::new());

/// Held while anything is put back: what one thread is at, another waits for before it ends the process.
static PUTTING_BACK: Mutex<()> = Mutex::new(());

type Back = Box<dyn FnOnce() + Send>;

/// Ends everything that was started, at once, puts back what was changed, and removes what was written.
pub fn end_all() {
    let running = std::mem::take(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
    let all: Vec<i32> = running.iter().flat_map(|pid| cpu::family_of(*pid)).collect();
    all.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    let _alone = PUTTING_BACK.lock().unwrap_or_else(PoisonError::into_inner);
    let changed = std::mem::take(&mut *CHANGED.lock().unwrap_or_else(PoisonError::into_inner));
    changed.into_iter().rev().for_each(|(_, back)| back());
    let written = std::mem::take(&mut *WRITTEN.lock().unwrap_or_else(PoisonError::into_inner));
    written.iter().for_each(|directory| drop(fs::remove_dir_all(directory)));
}

/// A server that was started.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    lines: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Daemon {
    /// Starts it, in a process group of its own: a Ctrl-C is for this program, which ends it in order.
    pub fn start(name: &str, mut command: Command) -> Result<Self, Failure> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| Failure::system(format!("cannot start {name}: {error}")))?;
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).push(pid_of(&child));
        let lines = Arc::default();
        let readers = [keep_lines(child.stdout.take(), &lines), keep_lines(child.stderr.take(), &lines)];
        Ok(Self { name: name.to_owned(), child, lines, readers: readers.into_iter().flatten().collect() })
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        pid_of(&self.child)
    }

    /// Waits until it listens there.
    pub fn wait_for(&mut self, port: u16, stop: &Stop) -> Result<(), Failure> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        self.wait_until(stop, || TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok().then_some(()))
    }

    /// Waits until it has a file open whose path ends so.
    pub fn wait_for_open(&mut self, end: &Path, stop: &Stop) -> Result<(), Failure> {
        let descriptors = format!("/proc/{}/fd", self.pid());
        let is_it = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|target| target.ends_with(end));
        self.wait_until(stop, || fs::read_dir(&descriptors).ok()?.flatten().any(is_it).then_some(()))
    }

    /// Waits for a line that `wanted` makes something of, of all that are kept.
    pub fn wait_for_line<T>(&mut self, stop: &Stop, wanted: impl Fn(&str) -> Option<T>) -> Result<T, Failure> {
        let lines = Arc::clone(&self.lines);
        self.wait_until(stop, || {
            lines.lock().unwrap_or_else(PoisonError::into_inner).iter().find_map(|line| wanted(line))
        })
    }

    /// Forgets what it has said so far.
    pub fn forget_lines(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Waits until `ready` makes something of it.
    pub fn wait_until<T>(&mut self, stop: &Stop, ready: impl Fn() -> Option<T>) -> Result<T, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(ready) = ready() {
                return Ok(ready);
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || Instant::now() > deadline || stop.is_told() {
                let said = if ended.is_some() { self.last_words() } else { self.last_lines() };
                return Err(Failure::system(format!("{} is not ready: {said}", self.name)));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What one that has ended said at the end, which may still be on its way. Its children may keep the way open.
    fn last_words(&self) -> String {
        let deadline = Instant::now() + Duration::from_secs(1);
        while !self.readers.iter().all(JoinHandle::is_finished) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.last_lines()
    }

    fn last_lines(&self) -> String {
        const HOW_MANY: usize = 3;
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<_> = lines.iter().skip(lines.len().saturating_sub(HOW_MANY)).map(String::as_str).collect();
        last.join("; ")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = self.pid();
        let family = cpu::family_of(pid);
        signal(pid, Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its children have its group while they live: a number that has been given away since has not.
        for child in family.into_iter().filter(|child| *child != pid && cpu::group_of(*child) == Some(pid)) {
            signal(child, Signal::KILL);
        }
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|running| *running != pid);
    }
}

fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or(0)
}

/// Sends a signal to a process; one that has ended needs none.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 1) {
        let _ = kill_process(pid, signal);
    }
}

fn keep_lines(out: Option<impl Read + Send + 'static>, lines: &Arc<Mutex<VecDeque<String>>>) -> Option<JoinHandle<()>> {
    let (out, lines) = (out?, Arc::clone(lines));
    Some(std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push_back(line);
            if lines.len() > MOST_LINES {
                lines.pop_front();
            }
        }
    }))
}

/// Where programs are: on this system, or in a tree that they are started in with `chroot`.
#[derive(Debug, Clone)]
pub struct Root {
    tree: Option<PathBuf>,
}

impl Root {
    /// This system.
    pub fn here() -> Self {
        Self { tree: None }
    }

    /// A tree.
    pub fn of_tree(tree: &Path) -> Self {
        Self { tree: Some(tree.to_owned()) }
    }

    /// Where a path inside is seen from outside.
    pub fn outside(&self, inside: &Path) -> PathBuf {
        match &self.tree {
            None => inside.to_owned(),
            Some(tree) => tree.join(inside.strip_prefix("/").unwrap_or(inside)),
        }
    }

    /// A program by its name, if it is installed.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let path = std::env::var("PATH").unwrap_or_default();
        let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let named = path.split(':').filter(|_| self.tree.is_none());
        let mut all = named.chain(usual).map(|directory| Path::new(directory).join(program));
        all.find(|inside| self.outside(inside).is_file())
    }

    /// A command that runs a program there.
    pub fn command(&self, program: &Path) -> Command {
        match &self.tree {
            None => Command::new(program),
            Some(tree) => {
                let mut command = Command::new("chroot");
                command.arg(tree).arg(program);
                command
            }
        }
    }

    /// Runs a program to its end with this on its standard input.
    pub fn run<S: AsRef<OsStr>>(&self, program: &Path, arguments: &[S], input: &str) -> Result<(), String> {
        use std::io::Write;
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| format!("{}: {error}", program.display());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        match output.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
                Err(format!("{}: {}: {said}", program.display(), output.status))
            }
        }
    }
}

/// A directory for what a server writes, which nobody else may look into; removed at the end.
#[derive(Debug)]
pub struct Work {
    inside: PathBuf,
    outside: PathBuf,
}

impl Work {
    /// A new one.
    pub fn new(root: &Root, name: &str) -> Result<Self, Failure> {
        let inside = PathBuf::from(format!("/tmp/longshore-bench-{}-{name}", std::process::id()));
        let outside = root.outside(&inside);
        let made = DirBuilder::new().mode(0o700).create(&outside);
        made.map_err(|error| Failure::system(format!("{}: {error}", outside.display())))?;
        WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).push(outside.clone());
        Ok(Self { inside, outside })
    }

    /// Its path for the server.
    pub fn inside(&self) -> &Path {
        &self.inside
    }

    /// Writes a file into it; its path for the server.
    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf, Failure> {
        let path = self.outside.join(name);
        fs::write(&path, content).map_err(|error| Failure::system(format!("{}: {error}", path.display())))?;
        Ok(self.inside.join(name))
    }

    /// Makes a directory in it.
    pub fn directory(&self, name: &str) -> Result<(), Failure> {
        let path = self.outside.join(name);
        fs::create_dir_all(&path).map_err(|error| Failure::system(format!("{}: {error}", path.display())))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outside);
        WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).retain(|written| *written != self.outside);
    }
}

/// Something of the system's that was changed for a server: put back when this goes, and by [`end_all`].
#[derive(Debug)]
pub struct Change(u64);

impl Change {
    /// One that `back` puts back.
    pub fn until(back: impl FnOnce() + Send + 'static) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Relaxed);
        CHANGED.lock().unwrap_or_else(PoisonError::into_inner).push((number, Box::new(back)));
        Self(number)
    }

    /// Writes `value` into a file of the kernel's that held another, which is written again at the end. Some of these want
    /// a line, and some take the line's end for a part of the value: `end` is what each is written with.
    pub fn of_setting(path: &Path, value: &str, end: &'static str) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::system(format!("{}: {error}", path.display()));
        let before = fs::read_to_string(path).map_err(failed)?;
        fs::write(path, format!("{value}{end}")).map_err(failed)?;
        let path = path.to_owned();
        Ok(Self::until(move || drop(fs::write(path, format!("{}{end}", before.trim_end())))))
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let _alone = PUTTING_BACK.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = CHANGED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = changed.iter().position(|(number, _)| *number == self.0).map(|at| changed.remove(at));
        // Others may be made meanwhile.
        drop(changed);
        if let Some((_, back)) = found {
            back();
        }
    }
}

/// Ports to listen on, one after another.
#[derive(Debug, Default)]
pub struct Ports {
    next: Option<u16>,
}

impl Ports {
    /// From this one on, or any that are free.
    pub fn from(first: Option<u16>) -> Self {
        Self { next: first }
    }

    /// One that nobody listens on now.
    pub fn take(&mut self) -> Result<u16, Failure> {
        let failed = |error: std::io::Error| Failure::system(format!("no port to listen on: {error}"));
        loop {
            let wanted = self.next.unwrap_or(0);
            match TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)) {
                Ok(listener) => {
                    self.next = self.next.and_then(|port| port.checked_add(1));
                    return Ok(listener.local_addr().map_err(failed)?.port());
                }
                Err(error) if wanted == 0 || wanted == u16::MAX => return Err(failed(error)),
                Err(_) => self.next = Some(wanted + 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn is_there(pid: i32) -> bool {
        // A zombie whose parent has not looked yet is not running.
        fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_server_ends_with_its_children() {
        let mut daemon = Daemon::start("it", shell("sleep 600 & echo child $!; while :; do sleep 0.1; done")).unwrap();
        let child = daemon.wait_for_line(&Stop::default(), |line| line.strip_prefix("child ")?.parse().ok()).unwrap();
        let pid = daemon.pid();
        assert!(is_there(pid) && is_there(child));
        drop(daemon);
        let deadline = Instant::now() + PATIENCE;
        while is_there(child) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_there(pid) && !is_there(child));
        assert!(!RUNNING.lock().unwrap().contains(&pid));
    }

    #[test]
    fn what_a_server_has_open_is_seen() {
        let file = tempfile::Builder::new().prefix("channel").tempfile_in("/tmp").unwrap();
        let end = Path::new("tmp").join(file.path().file_name().unwrap());
        let mut daemon = Daemon::start("it", shell(&format!("exec 3<{}; sleep 600", file.path().display()))).unwrap();
        daemon.wait_for_open(&end, &Stop::default()).unwrap();
        let stop = Stop::default();
        stop.tell();
        assert!(daemon.wait_for_open(Path::new("no/such"), &stop).is_err());
    }

    #[test]
    fn one_that_does_not_start_says_why() {
        let mut daemon = Daemon::start("it", shell("echo no such luck >&2; exit 3")).unwrap();
        let failure = daemon.wait_for_line(&Stop::default(), |_| None::<()>).unwrap_err();
        assert!(failure.lines().any(|line| line.contains("it is not ready: no such luck")), "{failure:?}");
        assert!(Daemon::start("it", Command::new("/no/such/program")).is_err());
    }

    #[test]
    fn what_was_changed_is_put_back_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "90\n").unwrap();
        for end in ["\n", ""] {
            let change = Change::of_setting(file.path(), "10", end).unwrap();
            assert_eq!(fs::read_to_string(file.path()).unwrap(), format!("10{end}"));
            drop(change);
            assert_eq!(fs::read_to_string(file.path()).unwrap(), format!("90{end}"));
        }
        assert!(Change::of_setting(Path::new("/no/such"), "1", "").is_err());
    }

    #[test]
    fn what_is_being_put_back_is_waited_for() {
        use std::sync::atomic::AtomicBool;
        static IS_BACK: AtomicBool = AtomicBool::new(false);
        let (began, begun) = std::sync::mpsc::channel();
        let change = Change::until(move || {
            began.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            IS_BACK.store(true, Relaxed);
        });
        let dropping = std::thread::spawn(move || drop(change));
        begun.recv().unwrap();
        // As `end_all` does, which would end the servers of other tests too.
        drop(PUTTING_BACK.lock().unwrap());
        assert!(IS_BACK.load(Relaxed));
        dropping.join().unwrap();
    }

    #[test]
    fn ports_are_free_and_differ() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let first = taken.local_addr().unwrap().port();
        let mut ports = Ports::from(Some(first));
        let (one, other) = (ports.take().unwrap(), ports.take().unwrap());
        assert!(one > first && other > one);
        assert_ne!(Ports::default().take().unwrap(), 0);
    }

    #[test]
    fn a_tree_is_seen_from_outside() {
        let root = Root::of_tree(Path::new("/var/tree"));
        assert_eq!(root.outside(Path::new("/tmp/x")), Path::new("/var/tree/tmp/x"));
        assert!(Root::here().find("sh").is_some() && Root::here().find("no-such-program").is_none());
        assert!(Root::here().run(Path::new("/bin/sh"), &["-c", "read x; [ $x = secret ]"], "secret\n").is_ok());
        let failed = Root::here().run(Path::new("/bin/sh"), &["-c", "echo oh >&2; exit 4"], "").unwrap_err();
        assert!(failed.contains("oh"), "{failed}");
    }
}
