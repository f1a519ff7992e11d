"""A Kerberos realm for one test: MIT's KDC on a loopback port, with its database, keytabs and tickets in a directory of
its own. Needs Debian's krb5-kdc, krb5-admin-server and krb5-user; it is stopped by its process id and leaves nothing.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

KRB5_CONF = """
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
ignore_acceptor_hostname = true
udp_preference_limit = 1
{etypes}
[realms]
{realm} = {{
    kdc = 127.0.0.1:{port}
}}
[domain_realm]
localhost = {realm}
127.0.0.1 = {realm}
{extra}
"""

KDC_CONF = """
[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
    database_name = {home}/principal
    key_stash_file = {home}/stash
    acl_file = {home}/acl
    max_life = 10h
    supported_enctypes = {etypes}
}}
"""

AES = "aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal"
AES_SHA2 = "aes256-cts-hmac-sha384-192:normal aes128-cts-hmac-sha256-128:normal"


def program(name):
    """A program of the packages; those of a KDC are where only root looks."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin") or name


class Kdc:
    """One realm. Use as a context manager."""

    def __init__(self, realm="LONGSHORE.TEST", port=None, etypes=AES, only=""):
        self.realm, self.etypes = realm, etypes
        self.home = Path(tempfile.mkdtemp(prefix="longshore-kdc-"))
        self.home.chmod(0o755)
        self.port = port or free_port()
        permitted = f"permitted_enctypes = {only}" if only else ""
        conf = KRB5_CONF.format(realm=realm, port=self.port, etypes=permitted, extra="")
        (self.home / "krb5.conf").write_text(conf)
        (self.home / "kdc.conf").write_text(KDC_CONF.format(realm=realm, port=self.port, home=self.home, etypes=etypes))
        (self.home / "acl").write_text("")
        self.process = None

    @property
    def env(self):
        """What programs that are to know the realm are started with."""
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.home / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.home / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.home}/cc",
            "KRB5RCACHENAME": "none:",
        }

    def _run(self, *command, text=None):
        done = subprocess.run([program(command[0]), *command[1:]], env=self.env, input=text, text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def __enter__(self):
        self._run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master")
        with open(self.home / "kdc.log", "wb") as log:
            self.process = subprocess.Popen(
                [program("krb5kdc"), "-n", "-r", self.realm], env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.05)
        said = (self.home / "kdc.log").read_text()
        self.__exit__()
        raise RuntimeError(f"the KDC does not answer: {said}")

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def add(self, principal, password=None):
        """A principal, with a password or with a random key."""
        how = ["-pw", password] if password else ["-randkey"]
        self._run("kadmin.local", "-r", self.realm, "addprinc", *how, principal)

    def keytab(self, name, *principals):
        """A keytab with the keys of principals, which are not changed by it."""
        path = self.home / name
        self._run("kadmin.local", "-r", self.realm, "ktadd", "-norandkey", "-k", str(path), *principals)
        path.chmod(0o600)
        return path

    def rekey(self, name, principal):
        """Gives a principal a new key, and adds it to a keytab."""
        self._run("kadmin.local", "-r", self.realm, "ktadd", "-k", str(self.home / name), principal)

    def login(self, principal, password, life="1h", cache="cc"):
        """Gets a ticket; answers the environment in which it is used."""
        env = {**self.env, "KRB5CCNAME": f"FILE:{self.home}/{cache}"}
        command = [program("kinit"), "-l", life, f"{principal}@{self.realm}"]
        done = subprocess.run(command, env=env, input=f"{password}\n", text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"kinit {principal}: {done.stdout}{done.stderr}")
        return env

    def login_with(self, keytab, principal, cache="cc"):
        """The same with a key."""
        env = {**self.env, "KRB5CCNAME": f"FILE:{self.home}/{cache}"}
        command = [program("kinit"), "-k", "-t", str(keytab), f"{principal}@{self.realm}"]
        done = subprocess.run(command, env=env, text=True, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"kinit {principal}: {done.stdout}{done.stderr}")
        return env


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
