#!/usr/bin/env python3
"""NFS with Kerberos, against MIT's library and KDC: a realm of the story's own, a server with its keytab, and a client
of RPCSEC_GSS (RFC 2203) on the library's GSS-API.

    /usr/bin/python3 conformance/stories/krb5_story.py

Needs Debian's krb5-kdc, krb5-admin-server, krb5-user and python3-gssapi. As root it also looks as whom people act.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import gssapi  # noqa: E402

from kdc import AES, AES_SHA2, Kdc  # noqa: E402
from server import binary  # noqa: E402
from story import Story  # noqa: E402

NONE, INTEGRITY, PRIVACY = 1, 2, 3
SERVICES = {"krb5": NONE, "krb5i": INTEGRITY, "krb5p": PRIVACY}
DATA, INIT, CONTINUE, DESTROY = 0, 1, 2, 3
GSS, SYS = 6, 1
NFS, MOUNT = 100003, 100005
GARBAGE_ARGS = 4
BADCRED, TOOWEAK, CREDPROBLEM, CTXPROBLEM = 1, 5, 13, 14
NFS3ERR_ACCES = 13
NFS4ERR_WRONGSEC = 10016
MAXSEQ = 0x80000000
KRB5_FLAVORS = [390003, 390004, 390005]
OID_KRB5 = bytes.fromhex("2a864886f712010202")

CONFIG = """
[server]
smb = "off"
nfs = "127.0.0.1:{port}"
state = "{home}/state"
keytab = "{keytab}"
[share.all]
path = "{home}/all"
nfs_sec = ["sys", "krb5", "krb5i", "krb5p"]
nfs_squash = "{squash}"
nfs_privileged_port = false
[share.signed]
path = "{home}/signed"
nfs_sec = ["krb5p", "krb5i"]
nfs_squash = "{squash}"
[share.open]
path = "{home}/open"
nfs_privileged_port = false
"""


def opaque(data):
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


class Xdr:
    """Reads results."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def words(self, count):
        value = struct.unpack_from(f">{count}I", self.data, self.at)
        self.at += 4 * count
        return value

    def word(self):
        return self.words(1)[0]

    def opaque(self):
        length = self.word()
        value = self.data[self.at : self.at + length]
        self.at += length + -length % 4
        return value

    def rest(self):
        return self.data[self.at :]


class Denied(Exception):
    """The call was denied, or accepted and not done."""

    def __init__(self, kind, stat):
        super().__init__(f"{kind} {stat}")
        self.kind, self.stat = kind, stat


class Silence(Exception):
    """Nothing was answered."""


class Rpc:
    """One connection, calling one thing at a time, with any credential."""

    def __init__(self, port, timeout=20):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.xid = int.from_bytes(os.urandom(3), "big")

    def exchange(self, record, wait=None):
        self.sock.settimeout(wait or 20)
        self.sock.sendall(struct.pack(">I", 0x80000000 | len(record)) + record)
        try:
            reply = b""
            last = False
            while not last:
                (mark,) = struct.unpack(">I", self._take(4))
                last, length = bool(mark >> 31), mark & 0x7FFFFFFF
                reply += self._take(length)
        except socket.timeout:
            raise Silence from None
        return reply

    def _take(self, length):
        data = b""
        while len(data) < length:
            more = self.sock.recv(length - len(data))
            if not more:
                raise ConnectionError("the server has closed the connection")
            data += more
        return data

    def head(self, program, version, procedure, flavor, cred):
        self.xid += 1
        return struct.pack(">6I", self.xid, 0, 2, program, version, procedure) + struct.pack(">I", flavor) + opaque(cred)

    def outcome(self, reply):
        """The verifier and the results of a reply."""
        x = Xdr(reply)
        xid, kind, denied = x.words(3)
        assert (xid, kind) == (self.xid, 1), "a reply to this call"
        if denied:
            raise Denied(*("version", 0) if x.word() == 0 else ("auth", x.word()))
        flavor, verifier = x.word(), x.opaque()
        stat = x.word()
        return flavor, verifier, stat, x

    def sys(self, program, version, procedure, args, uid=0):
        body = struct.pack(">I", 0) + opaque(b"story") + struct.pack(">3I", uid, 0, 0)
        record = self.head(program, version, procedure, SYS, body) + struct.pack(">2I", 0, 0) + args
        _, _, stat, x = self.outcome(self.exchange(record))
        if stat:
            raise Denied("accept", stat)
        return x


class Gss:
    """A context, and calls in it."""

    def __init__(self, rpc, service, cc, target="nfs@localhost", flags=None):
        self.rpc, self.service, self.sequence = rpc, service, 0
        name = gssapi.Name(target, gssapi.NameType.hostbased_service)
        creds = gssapi.Credentials(usage="initiate", store={"ccache": cc})
        flags = flags if flags is not None else gssapi.RequirementFlag.mutual_authentication
        self.context = gssapi.SecurityContext(name=name, creds=creds, flags=int(flags), usage="initiate")
        token, handle, verifier, window = self.context.step(), b"", None, 0
        step = INIT
        while token is not None and not (self.context.complete and handle):
            flavor, verifier, window, handle, token = self._begin(step, handle, token)
            step = CONTINUE
            token = self.context.step(token) if token else None
        self.handle = handle
        assert flavor == GSS, "the answer is signed"
        self.context.verify_signature(struct.pack(">I", window), verifier)
        self.window = window

    def _begin(self, step, handle, token):
        cred = struct.pack(">4I", 1, step, 0, 0) + opaque(handle)
        record = self.rpc.head(NFS, 4, 0, GSS, cred) + struct.pack(">2I", 0, 0) + opaque(token)
        flavor, verifier, stat, x = self.rpc.outcome(self.rpc.exchange(record))
        assert stat == 0
        handle, (major, minor, window), token = x.opaque(), x.words(3), x.opaque()
        if major:
            raise Denied("gss", (major, minor))
        return flavor, verifier, window, handle, token

    def cred(self, procedure=DATA, service=None, version=1):
        return struct.pack(">4I", version, procedure, self.sequence, service or self.service) + opaque(self.handle)

    def protect(self, args, sequence=None, spoil=lambda data: data):
        body = struct.pack(">I", self.sequence if sequence is None else sequence) + args
        if self.service == NONE:
            return args
        if self.service == INTEGRITY:
            return opaque(body) + opaque(spoil(self.context.get_signature(body)))
        return opaque(spoil(self.context.wrap(body, encrypt=True).message))

    def record(self, program, version, procedure, args, sequence=None, spoil=lambda d: d, verifier=lambda d: d, **cred):
        head = self.rpc.head(program, version, procedure, GSS, self.cred(**cred))
        mic = verifier(self.context.get_signature(head))
        return head + struct.pack(">I", GSS) + opaque(mic) + self.protect(args, sequence, spoil)

    def call(self, program, version, procedure, args=b"", wait=None, **how):
        self.sequence += 1
        return self.answer(self.rpc.exchange(self.record(program, version, procedure, args, **how), wait))

    def answer(self, reply):
        flavor, verifier, stat, x = self.rpc.outcome(reply)
        assert flavor == GSS, f"the reply is signed, not {flavor}"
        self.context.verify_signature(struct.pack(">I", self.sequence), verifier)
        if stat:
            raise Denied("accept", stat)
        if self.service == NONE:
            return x
        if self.service == INTEGRITY:
            body, mic = x.opaque(), x.opaque()
            self.context.verify_signature(body, mic)
        else:
            opened = self.context.unwrap(x.opaque())
            assert opened.encrypted, "the results are sealed"
            body = opened.message
        assert not x.rest(), "nothing follows the results"
        x = Xdr(body)
        assert x.word() == self.sequence, "the results are of this call"
        return x

    def destroy(self):
        self.sequence += 1
        head = self.rpc.head(NFS, 4, 0, GSS, self.cred(procedure=DESTROY))
        verifier = struct.pack(">I", GSS) + opaque(self.context.get_signature(head))
        reply = self.rpc.exchange(head + verifier + self.protect(b""))
        flavor, verifier, stat, _ = self.rpc.outcome(reply)
        self.context.verify_signature(struct.pack(">I", self.sequence), verifier)
        assert (flavor, stat) == (GSS, 0)


# NFS, as much as is needed here.


def mount(rpc, path):
    """The handle and the flavors of an export."""
    x = rpc.sys(MOUNT, 3, 1, opaque(path.encode()))
    status = x.word()
    assert status == 0, f"MNT {path}: {status}"
    handle = x.opaque()
    return handle, list(x.words(x.word()))


def attributes(x):
    """What of a fattr3 is looked at."""
    words = x.words(21)
    return {"type": words[0], "mode": words[1], "uid": words[3], "gid": words[4], "size": words[6]}


def create3(gss, directory, name):
    args = opaque(directory) + opaque(name.encode()) + struct.pack(">I", 0)
    args += struct.pack(">2I", 1, 0o640) + struct.pack(">5I", 0, 0, 0, 0, 0)
    x = gss.call(NFS, 3, 8, args)
    status = x.word()
    assert status == 0, f"CREATE {name}: {status}"
    assert x.word() == 1
    handle = x.opaque()
    assert x.word() == 1
    return handle, attributes(x)


def write3(gss, handle, offset, data):
    x = gss.call(NFS, 3, 7, opaque(handle) + struct.pack(">QII", offset, len(data), 2) + opaque(data))
    assert x.word() == 0, "WRITE"


def read3(gss, handle, offset, count):
    x = gss.call(NFS, 3, 6, opaque(handle) + struct.pack(">QI", offset, count))
    status = x.word()
    assert status == 0, f"READ: {status}"
    if x.word():
        attributes(x)
    x.words(2)
    return x.opaque()


def lookup3(gss, directory, name):
    return gss.call(NFS, 3, 3, opaque(directory) + opaque(name.encode())).word()


def compound(*ops):
    return opaque(b"story") + struct.pack(">2I", 0, len(ops)) + b"".join(ops)


PUTROOTFH = struct.pack(">I", 24)
GETFH = struct.pack(">I", 10)


def putfh(handle):
    return struct.pack(">I", 22) + opaque(handle)


def lookup4(name):
    return struct.pack(">I", 15) + opaque(name.encode())


def secinfo(name):
    return struct.pack(">I", 33) + opaque(name.encode())


def compound_status(x):
    status = x.word()
    x.opaque()
    return status, x.word()


class Server:
    """Ours, with a keytab."""

    def __init__(self, keytab, squash="root"):
        self.home = Path(tempfile.mkdtemp(prefix="longshore-krb5-"))
        self.home.chmod(0o755)
        for share in ("all", "signed", "open"):
            (self.home / share).mkdir()
            (self.home / share).chmod(0o777)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.config = self.home / "longshore.toml"
        self.config.write_text(CONFIG.format(port=self.port, home=self.home, keytab=keytab, squash=squash))

    def __enter__(self):
        self.log = open(self.home / "log", "w+b")
        command = [str(binary()), "serve", "--config", str(self.config)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        for _ in range(400):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError((self.home / "log").read_text())

    def said(self):
        return (self.home / "log").read_text(errors="replace")

    def reload(self):
        self.process.send_signal(signal.SIGHUP)
        for _ in range(200):
            if "reloaded" in self.said():
                return
            time.sleep(0.05)
        raise AssertionError("the server has not reloaded")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        ended = self.process.wait(20)
        said = self.said()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)
        if ended != 0 or "panicked at" in said:
            raise RuntimeError(f"the server ended with {ended}:\n{said[-2000:]}")


def denied(kind, stat, call):
    try:
        call()
    except Denied as why:
        assert (why.kind, why.stat) == (kind, stat), f"{why}, not {kind} {stat}"
    else:
        raise AssertionError("it was done")


def silent(call):
    try:
        call()
    except Silence:
        return
    raise AssertionError("it was answered")


def flip(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def good_calls(story, server, cc):
    for name, service in SERVICES.items():
        with story.check(f"{name}: files made, written and read over version 3"):
            gss = Gss(Rpc(server.port), service, cc)
            root, flavors = mount(gss.rpc, "/all")
            assert flavors == [1, *KRB5_FLAVORS, 0], flavors
            handle, attr = create3(gss, root, f"file-{name}")
            assert attr["size"] == 0
            for size in (1, 4096, 65537, 1000003):
                data = os.urandom(size)
                write3(gss, handle, 0, data)
                assert read3(gss, handle, 0, size) == data, f"{size} bytes"
            assert lookup3(gss, root, "nothing") == 2
        with story.check(f"{name}: the same file over version 4"):
            ops = [PUTROOTFH, lookup4("all"), lookup4(f"file-{name}"), GETFH]
            status, count = compound_status(gss.call(NFS, 4, 1, compound(*ops)))
            assert (status, count) == (0, 4), (status, count)
        with story.check(f"{name}: the context on another connection, and its end"):
            gss.rpc = Rpc(server.port)
            gss.call(NFS, 4, 0)
            gss.destroy()
            denied("auth", CREDPROBLEM, lambda: gss.call(NFS, 4, 0))
    with story.check("without mutual authentication"):
        gss = Gss(Rpc(server.port), PRIVACY, cc, flags=0)
        gss.call(NFS, 4, 0)


def numbers(story, server, cc):
    gss = Gss(Rpc(server.port), INTEGRITY, cc)
    with story.check("a call that is sent again is not answered"):
        gss.sequence += 1
        record = gss.record(NFS, 3, 0, b"")
        gss.answer(gss.rpc.exchange(record))
        silent(lambda: gss.rpc.exchange(record, wait=1))
    with story.check("a number below the window is not answered, one within it is"):
        gss.sequence = 2 * gss.window
        gss.call(NFS, 3, 0)
        gss.sequence = 1
        silent(lambda: gss.call(NFS, 3, 0, wait=1))
        gss.sequence = gss.window + 7
        gss.call(NFS, 3, 0)
    with story.check("a number after the last one"):
        gss.sequence = MAXSEQ
        denied("auth", CTXPROBLEM, lambda: gss.call(NFS, 3, 0))


def tampering(story, server, cc):
    for name, service in SERVICES.items():
        with story.check(f"{name}: what was changed on the way"):
            gss = Gss(Rpc(server.port), service, cc)
            denied("auth", CREDPROBLEM, lambda: gss.call(NFS, 3, 0, verifier=flip))
            if service != NONE:
                denied("accept", GARBAGE_ARGS, lambda: gss.call(NFS, 3, 0, spoil=flip))
                denied("accept", GARBAGE_ARGS, lambda: gss.call(NFS, 3, 0, sequence=77))
            gss.call(NFS, 3, 0)
    with story.check("versions, procedures and services that there are not"):
        for how in ({"version": 2}, {"version": 0}, {"procedure": 4}, {"service": 4}, {"service": 1024}):
            denied("auth", BADCRED, lambda how=how: raw(gss, how))
    with story.check("a handle that nobody was given"):
        gss.handle = flip(gss.handle)
        denied("auth", CREDPROBLEM, lambda: gss.call(NFS, 3, 0))


def raw(gss, cred):
    gss.sequence += 1
    head = gss.rpc.head(NFS, 3, 0, GSS, gss.cred(**cred))
    record = head + struct.pack(">I", GSS) + opaque(gss.context.get_signature(head)) + gss.protect(b"")
    return gss.answer(gss.rpc.exchange(record))


def exports(story, server, cc):
    rpc = Rpc(server.port)
    with story.check("the flavors of an export"):
        signed, flavors = mount(rpc, "/signed")
        assert flavors == [390005, 390004], flavors
        opened, flavors = mount(rpc, "/open")
        assert flavors == [1, 0], flavors
    with story.check("what an export does not take, over version 3"):
        for call in (
            lambda: rpc.sys(NFS, 3, 3, opaque(signed) + opaque(b"x")),
            lambda: lookup3(Gss(Rpc(server.port), NONE, cc), signed, "x"),
            lambda: lookup3(Gss(Rpc(server.port), PRIVACY, cc), opened, "x"),
        ):
            denied("auth", TOOWEAK, call)
        assert lookup3(Gss(Rpc(server.port), INTEGRITY, cc), signed, "x") == 2
        assert rpc.sys(NFS, 3, 19, opaque(signed)).word() in (0, NFS3ERR_ACCES), "FSINFO, as a mount begins"
    with story.check("what an export does not take, over version 4"):
        ops = compound(PUTROOTFH, lookup4("signed"), GETFH)
        assert compound_status(rpc.sys(NFS, 4, 1, ops)) == (NFS4ERR_WRONGSEC, 2)
        assert compound_status(Gss(Rpc(server.port), NONE, cc).call(NFS, 4, 1, ops)) == (NFS4ERR_WRONGSEC, 2)
        assert compound_status(Gss(Rpc(server.port), PRIVACY, cc).call(NFS, 4, 1, ops)) == (0, 3)
    with story.check("SECINFO"):
        x = rpc.sys(NFS, 4, 1, compound(PUTROOTFH, secinfo("signed")))
        assert compound_status(x) == (0, 2)
        x.words(2)
        assert x.words(2) == (33, 0)
        ways = []
        for _ in range(x.word()):
            assert x.word() == GSS and x.opaque() == OID_KRB5
            ways.append(x.words(2))
        assert ways == [(0, PRIVACY), (0, INTEGRITY)], ways


def people(story, server, kdc, cc):
    is_root = os.geteuid() == 0
    root, _ = mount(Rpc(server.port), "/all")

    def owner(cache, name):
        _, attr = create3(Gss(Rpc(server.port), INTEGRITY, cache), root, name)
        return attr["uid"], attr["gid"]

    if is_root:
        import grp
        import pwd

        daemon = pwd.getpwnam("daemon")
        with story.check("a user acts as the account of that name, with its groups"):
            assert owner(f"FILE:{kdc.home}/daemon", "daemon's") == (daemon.pw_uid, daemon.pw_gid)
            extra = [g.gr_gid for g in grp.getgrall() if "daemon" in g.gr_mem]
            directory = server.home / "all" / "group"
            directory.mkdir()
            os.chown(directory, 0, (extra or [daemon.pw_gid])[0])
            directory.chmod(0o770)
            gss = Gss(Rpc(server.port), INTEGRITY, f"FILE:{kdc.home}/daemon")
            x = gss.call(NFS, 3, 3, opaque(root) + opaque(b"group"))
            assert x.word() == 0
            create3(gss, x.opaque(), "inside")
        with story.check("root and machines are squashed"):
            assert owner(f"FILE:{kdc.home}/root", "root's") == (65534, 65534)
            assert owner(f"FILE:{kdc.home}/machine", "machine's") == (65534, 65534)
        with story.check("somebody without an account is the anonymous user"):
            assert owner(cc, "nobody's") == (65534, 65534)
    else:
        print("  (not as root: the server is one user, whoever calls)")


def tickets(story, server, kdc, cc):
    with story.check("a context ends with its ticket"):
        kdc.login("anna", "pw", life="6s", cache="short")
        gss = Gss(Rpc(server.port), PRIVACY, f"FILE:{kdc.home}/short")
        gss.call(NFS, 4, 0)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(1)
            try:
                gss.call(NFS, 4, 0)
            except Denied as why:
                assert (why.kind, why.stat) == ("auth", CREDPROBLEM), why
                break
        else:
            raise AssertionError("it goes on")
    with story.check("a ticket for another service"):
        try:
            Gss(Rpc(server.port), NONE, cc, target="host@localhost")
        except Denied as why:
            assert why.kind == "gss" and why.stat[0] != 0, why
        else:
            raise AssertionError("it was taken")
    with story.check("a new key, taken up on reload; tickets under the old one go on"):
        old = Gss(Rpc(server.port), INTEGRITY, cc)
        kdc.rekey("server.keytab", "nfs/localhost")
        server.reload()
        old.call(NFS, 4, 0)
        Gss(Rpc(server.port), INTEGRITY, cc).call(NFS, 4, 0)
        kdc.login("anna", "pw", cache="fresh")
        Gss(Rpc(server.port), INTEGRITY, f"FILE:{kdc.home}/fresh").call(NFS, 4, 0)


def other_realm(story, server):
    """A service of the same name in a realm that the server has no keys of."""
    with story.check("a ticket of another realm"), Kdc(realm="OTHER.TEST") as kdc:
        kdc.add("nfs/localhost")
        kdc.add("anna", "pw")
        kdc.login("anna", "pw")
        # Another realm is another configuration, which the library reads once.
        code = (
            f"import sys; sys.path[:0] = {sys.path[:1]!r} + [{str(Path(__file__).parent)!r}]\n"
            f"import krb5_story as s\n"
            f"try:\n    s.Gss(s.Rpc({server.port}), s.NONE, 'FILE:{kdc.home}/cc')\n"
            f"except s.Denied as why:\n    assert why.kind == 'gss' and why.stat[0] == 7 << 16, why\n    print('refused')\n"
        )
        done = subprocess.run([sys.executable, "-c", code], env=kdc.env, text=True, capture_output=True, timeout=60)
        assert done.stdout.strip() == "refused", done.stdout + done.stderr


def starts(story, kdc):
    with story.check("a keytab that is not there ends the start, and says why"):
        server = Server(kdc.home / "nothing")
        command = [str(binary()), "serve", "--config", str(server.config)]
        done = subprocess.run(command, text=True, capture_output=True, timeout=60)
        shutil.rmtree(server.home)
        said = done.stdout + done.stderr
        assert done.returncode == 2 and "server.keytab" in said and "does not exist" in said, said


def main():
    story = Story("krb5")
    for kind, etypes, only in (("AES with SHA-1", AES, ""), ("AES with SHA-2", AES_SHA2, "aes256-sha2 aes128-sha2")):
        with Kdc(etypes=etypes, only=only) as kdc:
            for service in ("nfs/localhost", "host/localhost", "nfs/client.test"):
                kdc.add(service)
            for user in ("anna", "daemon", "root"):
                kdc.add(user, "pw")
                kdc.login(user, "pw", cache=user)
            keytab = kdc.keytab("server.keytab", "nfs/localhost", "host/localhost")
            kdc.login_with(kdc.keytab("client.keytab", "nfs/client.test"), "nfs/client.test", cache="machine")
            cc = f"FILE:{kdc.home}/anna"
            if kind.endswith("2"):
                # The library has read its configuration: the rest is another process's.
                env = {**kdc.env, "LS_KRB5_KEYTAB": str(keytab), "LS_KRB5_CC": cc}
                done = subprocess.run([sys.executable, __file__, "--short"], env=env, text=True, capture_output=True)
                with story.check(kind):
                    assert done.returncode == 0, done.stdout + done.stderr
                continue
            os.environ.update({k: v for k, v in kdc.env.items() if k.startswith("KRB5")})
            starts(story, kdc)
            with Server(keytab) as server:
                good_calls(story, server, cc)
                numbers(story, server, cc)
                tampering(story, server, cc)
                exports(story, server, cc)
                people(story, server, kdc, cc)
                other_realm(story, server)
                tickets(story, server, kdc, cc)
    story.end()


def short():
    story = Story("krb5, another cipher")
    with Server(os.environ["LS_KRB5_KEYTAB"]) as server:
        good_calls(story, server, os.environ["LS_KRB5_CC"])
    story.end()


if __name__ == "__main__":
    short() if sys.argv[1:] == ["--short"] else main()
