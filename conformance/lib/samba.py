"""A real smbd, from the chroot that `conformance/peers/peers setup` makes, serving a directory of that chroot's image; or the
one of this system, serving a directory below /tmp.

Used by `conformance/client`, `commands`, `gentest` and `takeover`. It has a configuration, a port and a user database of its own,
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
{more}[{share}]
  path = {path}
{options}
"""


# One of the users every Debian has (base-passwd) and nobody is.
SPARE = "games"


class Samba:
    """One running smbd, of this system where there are no peers. Use as a context manager; `directory` is what it serves."""

    def __init__(self, peers, port, share="share", options=MODULES):
        self.port, self.share = port, share
        self.root = Path(peers) / "sid" if peers else Path("/")
        if os.geteuid() != 0:
            raise RuntimeError("smbd acts for other users: run as root")
        if not (self.root / "usr/sbin/smbd").exists():
            hint = f"conformance/peers/peers setup {peers}" if peers else "apt-get install samba"
            raise RuntimeError(f"no Samba in {self.root}: {hint}")
        if peers:
            subprocess.run([Path(__file__).parents[1] / "peers/peers", "mounts", peers], check=True)
        self._own = Path(tempfile.mkdtemp(prefix="smbd-", dir=self.root / "root"))
        self._served = Path(tempfile.mkdtemp(prefix="share-", dir=Path(peers) / "exp" if peers else None))
        self.directory = self._served
        self.directory.chmod(0o777)
        self._own.chmod(0o755)
        (self._own / "ncalrpc").mkdir()
        own = "/" + str(self._own.relative_to(self.root))
        # The chroot has a user for this; the system gets none, and one that nobody is stands for it.
        self._account, more = (USER, "") if peers else (SPARE, f"  username map = {own}/map\n")
        (self._own / "map").write_text(f"{SPARE} = {USER}\n")
        path = f"/exp/{self._served.name}" if peers else self._served
        (self._own / "smb.conf").write_text(
            CONF.format(port=port, own=own, share=share, path=path, options=options, more=more)
        )
        self._conf, self._process = f"{own}/smb.conf", None

    def run(self, *command, **options):
        """Something of Samba's, where it is."""
        return subprocess.run([*self._inside(), *command], **options)

    def _inside(self):
        return [] if self.root == Path("/") else ["chroot", self.root]

    def uid(self) -> int:
        """Whose rights the user has."""
        return int(self.run("id", "-u", self._account, check=True, capture_output=True, text=True).stdout)

    def start(self):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                raise RuntimeError(f"port {self.port} is taken")
        if not (self._own / "passdb.tdb").exists():
            self.run(
                "smbpasswd", "-s", "-c", self._conf, "-a", self._account, input=f"{PASSWORD}\n{PASSWORD}\n".encode(),
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        # In a session of its own: when it ends it ends its process group.
        with open(self._own / "out", "wb") as out:
            self._process = subprocess.Popen(
                [*self._inside(), "/usr/sbin/smbd", "-F", "--no-process-group", "-s", self._conf],
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
