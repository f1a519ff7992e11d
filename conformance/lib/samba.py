"""A real smbd, from the chroot that `conformance/peers/peers setup` makes, serving a directory of that chroot's image.

Used by `conformance/gentest` and `conformance/takeover`. It has a configuration, a port and a user database of its own,
so that it gets in nobody's way, and is ended by its process id. Root only.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from server import PASSWORD, USER

# What a share that is to be taken over is served with: everything Samba keeps beside a file.
MODULES = """  read only = no
  vfs objects = acl_xattr streams_xattr
  ea support = yes
  store dos attributes = yes
  map archive = no
  map hidden = no
  map readonly = no
  map system = no
  strict rename = yes
"""
CONF = """[global]
  server role = standalone server
  interfaces = lo
  bind interfaces only = yes
  smb ports = {port}
  private dir = {own}
  lock directory = {own}
  state directory = {own}
  cache directory = {own}
  pid directory = {own}
  ncalrpc dir = {own}/ncalrpc
  log file = {own}/log
  log level = 0
  disable netbios = yes
  load printers = no
  printcap name = /dev/null
  defer sharing violations = no
[{share}]
  path = {path}
{options}
"""


class Samba:
    """One running smbd. Use as a context manager; `directory` is what it serves, on this machine."""

    def __init__(self, peers, port, share="share", options=MODULES):
        self.port, self.share = port, share
        self.root = Path(peers) / "sid"
        if os.geteuid() != 0:
            raise RuntimeError("the chroot of the peers needs root")
        if not (self.root / "usr/sbin/smbd").exists():
            raise RuntimeError(f"no Samba in {peers}: conformance/peers/peers setup {peers}")
        subprocess.run([Path(__file__).parents[1] / "peers/peers", "mounts", peers], check=True)
        self._own = Path(tempfile.mkdtemp(prefix="smbd-", dir=self.root / "root"))
        self._served = Path(tempfile.mkdtemp(prefix="share-", dir=Path(peers) / "exp"))
        self.directory = self._served
        self.directory.chmod(0o777)
        self._own.chmod(0o755)
        (self._own / "ncalrpc").mkdir()
        own = "/" + str(self._own.relative_to(self.root))
        (self._own / "smb.conf").write_text(
            CONF.format(port=port, own=own, share=share, path=f"/exp/{self._served.name}", options=options)
        )
        self._conf, self._process = f"{own}/smb.conf", None

    def run(self, *command, **options):
        """Something of Samba's, in the chroot."""
        return subprocess.run(["chroot", self.root, *command], **options)

    def uid(self) -> int:
        """Whose rights the user has."""
        return int(self.run("id", "-u", USER, check=True, capture_output=True, text=True).stdout)

    def start(self):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                raise RuntimeError(f"port {self.port} is taken")
        if not (self._own / "passdb.tdb").exists():
            self.run(
                "smbpasswd", "-s", "-c", self._conf, "-a", USER, input=f"{PASSWORD}\n{PASSWORD}\n".encode(),
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        # In a session of its own: when it ends it ends its process group.
        with open(self._own / "out", "wb") as out:
            self._process = subprocess.Popen(
                ["chroot", self.root, "smbd", "-F", "--no-process-group", "-s", self._conf],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        said = (self._own / "out").read_text(errors="replace")
        self.stop()
        raise RuntimeError(f"smbd did not start; it said:\n{said}")

    def stop(self):
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self._own, ignore_errors=True)
        shutil.rmtree(self._served, ignore_errors=True)
