"""A real NFS-Ganesha, of this system or from the chroot that `conformance/peers/peers setup` makes, serving one directory.

Used by `conformance/client`. It has a configuration and ports of its own, and is ended by its process id, as is the rpcbind
that is started for it where none runs: Ganesha registers and does not start without one. Root only.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

CONF = """NFS_CORE_PARAM {{ NFS_Port = {port}; MNT_Port = {mount_port}; NFS_Protocols = 3,4; Enable_NLM = false;
  Enable_RQUOTA = false; Bind_addr = 127.0.0.1; Allow_Set_Io_Flusher_Fail = true; }}
NFSv4 {{ Minor_Versions = 0,1,2; Grace_Period = 5; Lease_Lifetime = 10; RecoveryBackend = fs; }}
EXPORT {{ Export_Id = 1; Path = {path}; Pseudo = {path}; Access_Type = RW; Squash = No_Root_Squash; SecType = sys,none;
  Protocols = 3,4; Transports = TCP; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = WARN; }}
"""
RPCBIND = "run/rpcbind.sock"


class Ganesha:
    """One running ganesha.nfsd. Use as a context manager; `url` is what it exports, `directory` where that is here."""

    def __init__(self, peers, port):
        if os.geteuid() != 0:
            raise RuntimeError("NFS calls come from privileged ports, and Ganesha opens files by handle: run as root")
        self.root = Path(peers) / "sid" if peers else Path("/")
        if not self.program("ganesha.nfsd"):
            raise RuntimeError(f"no NFS-Ganesha in {self.root}")
        self.port, self.mount_port = port, port + 1
        if peers:
            subprocess.run([Path(__file__).parents[1] / "peers/peers", "mounts", peers], check=True)
        self._own = Path(tempfile.mkdtemp(prefix="ganesha-", dir=self.root / "tmp"))
        self.directory = Path(tempfile.mkdtemp(prefix="export-", dir=Path(peers) / "exp" if peers else None))
        self._inside = f"/exp/{self.directory.name}" if peers else str(self.directory)
        self.url = f"nfs://127.0.0.1:{port}{self._inside}?mountport={self.mount_port}"
        self._running = []

    def program(self, name):
        return next((f"/{d}/{name}" for d in ("usr/sbin", "usr/bin", "sbin") if (self.root / d / name).exists()), None)

    def start(self):
        for directory in ("run/ganesha", "var/lib/nfs/ganesha"):
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        text = CONF.format(port=self.port, mount_port=self.mount_port, path=self._inside)
        (self._own / "conf").write_text(text)
        if not self._rpcbind_answers():
            # In a network of its own: it is reached through its socket in the file system and nowhere else.
            self._spawn(["unshare", "--net"], "rpcbind", "-f")
            self._wait(self._rpcbind_answers)
        own = "/" + str(self._own.relative_to(self.root))
        self._spawn([], "ganesha.nfsd", "-F", "-f", f"{own}/conf", "-L", "STDERR", "-p", f"{own}/pid")
        self._wait(lambda: answers(("127.0.0.1", self.port)))

    def _rpcbind_answers(self):
        return answers(("127.0.0.1", 111)) or answers(str(self.root / RPCBIND))

    def _spawn(self, before, name, *arguments):
        program = self.program(name)
        if program is None:
            raise RuntimeError(f"{name} is not installed in {self.root}")
        inside = [] if self.root == Path("/") else ["chroot", self.root]
        with open(self._own / "out", "ab") as out:
            process = subprocess.Popen(
                [*before, *inside, program, *arguments],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self._running.append(process)

    def _wait(self, ready):
        for _ in range(200):
            if ready():
                return
            if self._running[-1].poll() is not None:
                break
            time.sleep(0.1)
        said = (self._own / "out").read_text(errors="replace")
        self.stop()
        raise RuntimeError(f"{self.program('ganesha.nfsd')} did not start; it said:\n{said}")

    def stop(self):
        for process in reversed(self._running):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running = []

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self._own, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)


def answers(address) -> bool:
    """Whether somebody accepts there: a host and a port, or the path of a socket."""
    with socket.socket(socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX) as probe:
        probe.settimeout(2)
        with contextlib.suppress(OSError):
            probe.connect(address)
            return True
    return False
