//! The server under test, its files, and what it holds: connections, opens, buffers, descriptors.

use std::fs::{File, Permissions, set_permissions};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use client::Protection;
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use serde_json::Value;
use tempfile::TempDir;

use super::line::{Answer, Ask, Line};
use super::util::{Server, serve};
use super::{Path as DataPath, Speaks, nfs, smb};

pub const USER: &str = "anna";
pub const PASSWORD: &str = "correct horse";
/// The file that everything happens to.
pub const FILE: &str = "file";
pub const FILE_BYTES: usize = 4 << 20;
/// A file that nothing happens to.
const OTHER: &str = "other";
const OTHER_BYTES: usize = 5000;
/// A share on a disk so small, and the share of the others.
pub const SMALL_DISK: &str = "small";
pub const SMALL_DISK_BYTES: usize = 8 << 20;
pub const DOCS: &str = "docs";
/// Ends of pipes that may be kept for reuse: those of all READs that a connection has under way, in each of two shards.
const MOST_PIPE_ENDS: usize = 2 * 2 * super::kinds::REQUESTS;

/// What a server holds when nobody is connected.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    descriptors: usize,
    pipe_ends: usize,
    buffer_bytes: u64,
    opens: u64,
    files: u64,
}

pub struct Scene {
    server: Server,
    nfs: SocketAddr,
    /// Mounted where whoever runs this may.
    disk: Option<Mounted>,
    home: TempDir,
}

/// A file system in memory; unmounted with the test.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

impl Scene {
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = |name: &str| {
            let path = home.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (docs, small) = (directory(DOCS), directory(SMALL_DISK));
        let disk = mounted(&small);
        for share in [&docs, &small] {
            set_permissions(share, Permissions::from_mode(0o777)).unwrap();
            make(&share.join(OTHER), &OTHERS);
            make(&share.join(FILE), b"");
        }
        let settings = home.path().join("settings.toml");
        let share = |path: &Path| format!("path = {path:?}\nnfs_privileged_port = false\n");
        let text = format!("[share.{DOCS}]\n{}[share.{SMALL_DISK}]\n{}", share(&docs), share(&small));
        std::fs::write(&settings, text).unwrap();
        let (settings, state) = (settings.display().to_string(), home.path().join("state").display().to_string());
        let more = ["--user", USER, "--nfs", "127.0.0.1:0", "--config", &settings, "--state", &state];
        let mut command = serve(home.path(), &more);
        command.env("LONGSHORE_PASSWORD", PASSWORD);
        let server = Server::start(command);
        let (_, nfs) = server.said.split_once("over NFS 3 and 4 on ").expect("where NFS is");
        let nfs = nfs.lines().next().unwrap().parse().unwrap();
        Self { server, nfs, disk, home }
    }

    /// Whether there is a disk that can be filled.
    pub fn has_small_disk(&self) -> bool {
        self.disk.is_some()
    }

    pub fn file(&self, share: &str) -> PathBuf {
        self.home.path().join(share).join(FILE)
    }

    /// A client of this path, with a file open.
    pub fn connect(&self, path: &DataPath, share: &str) -> Line {
        self.open(path.speaks, share, FILE)
    }

    fn open(&self, speaks: Speaks, share: &str, file: &str) -> Line {
        match speaks {
            Speaks::Smb(protection) => smb::open(self.server.address, protection, share, file),
            Speaks::Nfs3 => nfs::open_3(self.nfs, share, file),
            Speaks::Nfs41 => nfs::open_4_1(self.nfs, share, file),
        }
    }

    /// Others are served.
    pub fn assert_serves(&self) {
        for speaks in [Speaks::Smb(Protection::AsServer), Speaks::Nfs3] {
            let answer = self.open(speaks, DOCS, OTHER).call(&Ask::Read { offset: 0, len: OTHER_BYTES });
            assert!(answer == Answer::Read(OTHERS.clone()), "{speaks:?}");
        }
    }

    /// Whether what is thrown out of memory here is out of it.
    pub fn goes_cold(&self) -> bool {
        let path = self.file(DOCS);
        std::fs::write(&path, &*OLD).unwrap();
        evict(&path);
        let mut room = [0; 4096];
        let mut rooms = [std::io::IoSliceMut::new(&mut room)];
        preadv2(File::open(path).unwrap(), &mut rooms, 1 << 20, ReadWriteFlags::NOWAIT) == Err(rustix::io::Errno::AGAIN)
    }

    /// How things are, as the server tells: it tells nothing to who takes too long to ask, which may be this machine's doing.
    pub fn status(&self) -> Value {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match self.try_status() {
                Some(status) => return status,
                None => assert!(Instant::now() < deadline, "it does not say how things are"),
            }
        }
    }

    fn try_status(&self) -> Option<Value> {
        let mut control = UnixStream::connect(self.home.path().join("state/control.sock")).ok()?;
        control.write_all(b"GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        control.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// What it holds once all clients are gone.
    pub fn left(&self) -> Left {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let status = self.status();
            let list = |name: &str| status[name].as_array().map_or(0, Vec::len);
            let number = |value: &Value| value.as_u64().expect("a number");
            let smb_opens = number(&status["claims"]["smb_opens"]);
            let busy = number(&status["worker_jobs"]);
            if (list("connections"), list("sessions"), smb_opens, busy) == (0, 0, 0, 0) {
                let (descriptors, pipe_ends) = self.descriptors();
                return Left {
                    descriptors,
                    pipe_ends,
                    buffer_bytes: number(&status["memory"]["buffers_used_bytes"]),
                    opens: number(&status["claims"]["opens"]),
                    files: number(&status["claims"]["files"]),
                };
            }
            assert!(Instant::now() < deadline, "somebody stays: {status:#}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Nothing of those who were there is left.
    #[track_caller]
    pub fn assert_nothing_more(&self, before: &Left, what: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.left();
            let fine = left.descriptors <= before.descriptors
                && left.pipe_ends <= MOST_PIPE_ENDS
                && left.buffer_bytes <= before.buffer_bytes
                && left.opens <= before.opens
                && left.files <= before.files;
            if fine {
                return;
            }
            // A descriptor is closed a moment after the connection is over.
            assert!(Instant::now() < deadline, "{what} leaves {left:?} where there was {before:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The server's descriptors: those that are no pipes, and those that are. Control sockets come and go with who asks.
    fn descriptors(&self) -> (usize, usize) {
        let directory = format!("/proc/{}/fd", self.server.child.id());
        let targets =
            std::fs::read_dir(directory).unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        let (pipes, others): (Vec<_>, Vec<_>) =
            targets.partition(|target| target.to_string_lossy().starts_with("pipe:"));
        (others.len(), pipes.len())
    }
}

/// What the file holds before and after: never a zero, which is what a truncation leaves.
pub static OLD: LazyLock<Vec<u8>> = LazyLock::new(|| content(0));
pub static NEW: LazyLock<Vec<u8>> = LazyLock::new(|| content(97));
static OTHERS: LazyLock<Vec<u8>> = LazyLock::new(|| content(7)[..OTHER_BYTES].to_vec());

fn content(first: usize) -> Vec<u8> {
    (0..FILE_BYTES).map(|at| 1 + ((at * 31 + at / 4093 + first) % 255) as u8).collect()
}

/// Throws a file out of memory, as far as nobody has its pages.
pub fn evict(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Fills a file from its beginning without making it anew.
pub fn fill(path: &Path, content: &[u8]) {
    File::options().write(true).open(path).unwrap().write_all_at(content, 0).unwrap();
}

fn make(path: &Path, content: &[u8]) {
    std::fs::write(path, content).unwrap();
    set_permissions(path, Permissions::from_mode(0o666)).unwrap();
}

fn mounted(on: &Path) -> Option<Mounted> {
    let options = format!("size={SMALL_DISK_BYTES},mode=777");
    let mounting = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(on).output();
    match mounting {
        Ok(output) if output.status.success() => Some(Mounted(on.to_owned())),
        _ => None,
    }
}
