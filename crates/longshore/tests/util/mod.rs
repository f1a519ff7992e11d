//! The built binary as a child process, for the tests that start it.
#![allow(dead_code, reason = "every test binary uses another part")]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub fn longshore(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longshore"));
    command.args(arguments).env("HOME", home).env("XDG_CONFIG_HOME", home).env_remove("LONGSHORE_PASSWORD");
    command.env_remove("NOTIFY_SOCKET").env_remove("JOURNAL_STREAM").stdin(Stdio::null());
    command
}

pub fn run(home: &Path, arguments: &[&str]) -> Output {
    longshore(home, arguments).output().unwrap()
}

/// Exit code and what was said on standard error.
pub fn refused(home: &Path, arguments: &[&str]) -> (i32, String) {
    let output = run(home, arguments);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

pub fn home_with_share() -> (TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    let docs = home.path().join("docs");
    std::fs::create_dir(&docs).unwrap();
    // An empty database of its own: whatever root has in /etc is not what is tested.
    let users = home.path().join("users");
    std::fs::write(&users, "").unwrap();
    std::fs::set_permissions(&users, PermissionsExt::from_mode(0o600)).unwrap();
    (home, docs.display().to_string())
}

/// A server under test; ended with the test.
pub struct Server {
    /// The process.
    pub child: Child,
    /// Its standard output.
    pub out: BufReader<ChildStdout>,
    /// What it said on standard output up to the ready line.
    pub said: String,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts it and waits until it says that it is ready.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, out, said: String::new(), address: SocketAddr::from(([0; 4], 0)) };
        loop {
            let mut line = String::new();
            if server.out.read_line(&mut line).unwrap() == 0 {
                let said = std::mem::take(&mut server.said);
                panic!("it ended before it was ready: {said}{:?}", server.end());
            }
            server.said.push_str(&line);
            if let Some((_, address)) = line.trim_end().split_once("ready on ") {
                server.address = address.parse().unwrap();
                return server;
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The exit code, and what it said on standard error.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it did not end");
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut errors = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut errors).unwrap();
        }
        (status.code(), errors)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn serve(home: &Path, more: &[&str]) -> Command {
    let users = home.join("users").display().to_string();
    let mut arguments = vec!["serve", "--smb", "127.0.0.1:0"];
    if !more.contains(&"--user") {
        arguments.extend(["--users", &users]);
    }
    if !more.contains(&"--nfs") {
        arguments.extend(["--nfs", "off"]);
    }
    arguments.extend(more);
    longshore(home, &arguments)
}
