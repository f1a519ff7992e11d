"""Start a Longshore server for a test and stop it again, by its process id.

Used by `conformance/with-server` (for shell scripts) and by the Python programs under `conformance/`. It serves one
directory on a free loopback port. It never looks for processes by name and never leaves one behind.
"""

import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "bench", "pw"
READY = re.compile(r"\bready\b.*?127\.0\.0\.\d+:(\d+)|127\.0\.0\.\d+:(\d+).*?\bready\b", re.IGNORECASE)


def target_dir() -> Path:
    """Where Cargo builds, which is also where conformance keeps what it downloads."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()


def binary() -> Path:
    """The server under test: $LONGSHORE_BIN, else the release build."""
    return Path(os.environ.get("LONGSHORE_BIN") or target_dir() / "release" / "longshore")


class Server:
    """One running server. Use as a context manager.

    `address` is where it listens, of this machine's own; the user has the rights of `uid`, of the system's, where one is given.
    """

    def __init__(
        self, share="share", directory=None, extra_args=(), log=None, env=None, more_shares=0, address="127.0.0.1:0", uid=None
    ):
        self.share = share
        self._tmp = None if directory and log and not more_shares and uid is None else tempfile.TemporaryDirectory(prefix="longshore-test-")
        self.directory = Path(directory) if directory else Path(self._tmp.name) / "share"
        self.directory.mkdir(parents=True, exist_ok=True)
        if directory is None:
            self.directory.chmod(0o777)
            Path(self._tmp.name).chmod(0o755)
        self.log = Path(log) if log else Path(self._tmp.name) / "server.log"
        self.extra_args, self.env = list(extra_args), dict(env or {})
        self.address, self.uid = address, uid
        for number in range(1, more_shares + 1):
            another = self.directory.with_name(f"{self.directory.name}{number}")
            another.mkdir(exist_ok=True)
            another.chmod(0o777)
            self.extra_args.append(f"{share}{number}={another}")
        self.process, self.port, self.start_seconds = None, None, None

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self):
        if self.process is None:
            self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, timeout=10.0):
        """Start it and wait for the line that says it accepts connections."""
        env = {**os.environ, "LONGSHORE_PASSWORD": PASSWORD, **self.env}
        command = [str(binary()), "serve", f"{self.share}={self.directory}", "--smb", self.address, *self._who(env)]
        began = time.monotonic()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command + self.extra_args, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env
            )
        while self.port is None:
            self.port = self._ready_port()
            if self.port is None and (self.process.poll() is not None or time.monotonic() - began > timeout):
                self.stop()
                raise RuntimeError(f"the server did not become ready; it said:\n{self.output()}")
            time.sleep(0.001)
        self.start_seconds = time.monotonic() - began

    def _who(self, env):
        if self.uid is None:
            return ["--user", USER]
        users = Path(self._tmp.name) / "users"
        if not users.exists():
            add = [str(binary()), "user", "add", USER, "--uid", str(self.uid), "--users", str(users)]
            subprocess.run(add, env=env, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        return ["--users", str(users)]

    def stop(self, timeout=15.0) -> int:
        """SIGTERM, then SIGKILL if it does not end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def _ready_port(self):
        for line in self.output().splitlines():
            if match := READY.search(line):
                return int(match[1] or match[2])
        return None


@dataclass
class Target:
    """The server a story talks to, from the LS_* variables that `with-server` sets.

    Setting them by hand points a story at any other server: LS_HOST, LS_PORT, LS_SHARE, LS_USER, LS_PASSWORD, LS_DIR
    (the share's directory on this machine) and LS_PID (for its memory; 0 skips nothing but that measurement).
    """

    host: str
    port: int
    share: str
    user: str
    password: str
    directory: Path
    pid: int

    @classmethod
    def from_env(cls):
        try:
            e = os.environ
            return cls(
                e.get("LS_HOST", "127.0.0.1"), int(e["LS_PORT"]), e["LS_SHARE"], e["LS_USER"], e["LS_PASSWORD"],
                Path(e["LS_DIR"]), int(e.get("LS_PID", "0")),
            )  # fmt: skip
        except KeyError as missing:
            raise SystemExit(f"{missing} is not set: run this through conformance/with-server") from None

    def rss_bytes(self) -> int:
        return rss_bytes(self.pid)


def rss_bytes(pid: int) -> int:
    """Resident memory of one process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
