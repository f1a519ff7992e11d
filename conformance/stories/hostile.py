#!/usr/bin/env python3
"""Bytes no honest client sends. After each attack two bystanders must be served as if nothing had happened.

    conformance/with-server TARGET/venv/bin/python conformance/stories/hostile.py

An attack may be answered with a status the specification allows or with a closed connection (MS-SMB2 3.3.5.2); it may
not be obeyed, stop another connection, end the server, or make it grow without bound.
"""

import os
import shutil
import socket
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import spnego  # noqa: E402

import rawsmb as smb  # noqa: E402
from rawsmb import Closed, RawClient  # noqa: E402
from server import Target  # noqa: E402
from story import Story  # noqa: E402

TOP = "hostile-story"
MIB = 1 << 20
# What one connection may cost: `limits.queued_reply_bytes` by default, and the requests being answered.
MAX_QUEUED_BYTES = (16 + 4) * MIB
STATUS_INVALID_PARAMETER = 0xC000000D
STATUS_ACCESS_DENIED = 0xC0000022
STATUS_USER_SESSION_DELETED = 0xC0000203
STATUS_NETWORK_NAME_DELETED = 0xC00000C9
STATUS_FILE_CLOSED = 0xC0000128
STATUS_INVALID_INFO_CLASS = 0xC0000003
STATUS_NOT_SUPPORTED = 0xC00000BB


class Bystanders:
    """One connection that was there before, and a new one each time."""

    def __init__(self, target):
        self.target = target
        self.content = os.urandom(100_000)
        (target.directory / TOP / "bystander").write_bytes(self.content)
        (target.directory / TOP / "bystander").chmod(0o666)
        self.old = self._reader()
        self.old_file = self._open(self.old)

    def _reader(self):
        return RawClient(self.target.host, self.target.port, timeout=10).enter(self.target)

    @staticmethod
    def _open(client):
        status, file_id = client.create(rf"{TOP}\bystander", access=0x120089)
        assert status == 0, f"bystander's open: {status:#x}"
        return file_id

    def _read(self, client, file_id):
        reply = client.call(smb.READ, client.read_body(file_id, 0, 65536))
        assert reply.status == 0, reply
        offset, length = reply.body[2], struct.unpack_from("<I", reply.body, 4)[0]
        assert reply.body[offset - 64 : offset - 64 + length] == self.content[:65536], "wrong bytes for a bystander"

    def are_served(self):
        self._read(self.old, self.old_file)
        new = self._reader()
        self._read(new, self._open(new))
        new.close()


def outcome(call):
    """What became of an attack: the status it was answered with, or None for a closed connection."""
    try:
        got = call()
    except Closed:
        return None
    except TimeoutError:
        raise AssertionError("neither answered nor closed") from None
    return got.status if isinstance(got, smb.Reply) else got


def allowed(status, *statuses):
    assert status is None or status in statuses, f"answered {status:#x}"


def raw_exchange(client, data):
    def run():
        client.send_bytes(data)
        client.socket.shutdown(socket.SHUT_WR)
        return client.receive()

    return outcome(run)


def frames_before_login(t, attack):
    negotiate = RawClient(t.host, t.port)
    honest = negotiate.message(
        smb.NEGOTIATE, struct.pack("<HHHHI16sQ2H", 36, 2, 1, 0, 0, bytes(16), 0, 0x0202, 0x0210), charge=0
    )
    negotiate.close()

    def send(what, data, *statuses):
        with attack(what):
            client = RawClient(t.host, t.port)
            allowed(raw_exchange(client, data), *statuses)
            client.close()

    frame = RawClient.framed
    bad = STATUS_INVALID_PARAMETER
    send("an empty frame", frame(b""))
    send("a frame that never comes", b"\0\0\1\0")
    send("half a frame, then the end", frame(honest)[:40])
    send("a header cut at 63 bytes", frame(honest[:63]), bad)
    send("a NEGOTIATE cut in its fixed part", frame(honest[:80]), bad)
    send("a NEGOTIATE whose dialect list is cut", frame(honest[:-2]), bad)
    send("65,535 dialects announced", frame(honest[:66] + b"\xff\xff" + honest[68:]), bad)
    send("no dialects", frame(honest[:66] + b"\0\0" + honest[68:]), bad)
    send("a wrong structure size", frame(honest[:64] + b"\x11\0" + honest[66:]), bad)
    send("a wrong protocol id", frame(b"\xfdXYZ" + honest[4:]))
    send("not SMB at all", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    send("a NetBIOS session request", b"\x81\0\0\4abcd")
    send("random bytes", os.urandom(70_000))
    send("an SMB1 command that is not NEGOTIATE", frame(b"\xffSMB\x75" + bytes(60)))
    with attack("an SMB1 NEGOTIATE with no SMB2 dialect"):
        client = RawClient(t.host, t.port)
        client.send_bytes(frame(b"\xffSMB\x72" + bytes(27) + b"\0\x0c\0\x02NT LM 0.12\0"))
        answer = bytearray()
        while len(answer) < 39 and (part := client.socket.recv(100)):
            answer += part
        # Closed, or "none of these dialects" in SMB1's own words (MS-CIFS 2.2.4.52.2).
        assert not answer or answer[4:8] == b"\xffSMB" and answer[37:39] == b"\xff\xff", bytes(answer)
        client.close()
    send("an SMB1 NEGOTIATE cut short", frame(b"\xffSMB\x72" + bytes(27) + b"\0\xff\xff\x02SMB 2"))
    send("an encrypted message before any session", frame(b"\xfdSMB" + bytes(16) + os.urandom(100)))
    send("a compressed message nobody agreed to", frame(b"\xfcSMB" + struct.pack("<IHHI", 1 << 31, 1, 0, 0) + bytes(64)))
    for command in range(1, 19):
        with attack(f"command {command} before NEGOTIATE"):
            client = RawClient(t.host, t.port, timeout=3)
            allowed(raw_exchange(client, frame(client.message(command, bytes(64)))), bad, STATUS_USER_SESSION_DELETED)
            client.close()
    with attack("a second NEGOTIATE"):
        client = RawClient(t.host, t.port)
        client.negotiate()
        allowed(outcome(client.negotiate), bad)
        client.close()


def memory_before_login(t, attack):
    with attack("40 strangers announce 16 MiB each and send most of it: the server does not keep it"):
        before = t.rss_bytes()
        strangers = [RawClient(t.host, t.port, timeout=5) for _ in range(40)]
        for client in strangers:
            try:
                client.send_bytes(b"\0\xff\xff\xff" + b"\xfeSMB" + struct.pack("<H", 64) + bytes(58))
                for _ in range(15):
                    client.send_bytes(bytes(MIB))
            except (Closed, TimeoutError):
                pass
        grown = t.rss_bytes() - before
        for client in strangers:
            client.close()
        assert grown < 64 * MIB, f"grew by {grown // MIB} MiB"
    with attack("300 strangers connect and say nothing"):
        strangers = [RawClient(t.host, t.port) for _ in range(300)]
        time.sleep(0.3)
        for client in strangers:
            client.close()
    with attack("logins that stop half way, 300 times on one connection"):
        client = RawClient(t.host, t.port)
        client.negotiate()
        before = t.rss_bytes()
        token = spnego.client("a", "b", hostname=t.host, service="cifs", protocol="ntlm").step()
        try:
            for _ in range(300):
                client.session_id = 0
                client.call(smb.SESSION_SETUP, client.setup_body(token))
        except Closed:
            pass
        client.close()
        assert t.rss_bytes() - before < 32 * MIB, f"grew by {(t.rss_bytes() - before) // MIB} MiB"


def logins(t, attack):
    def hello():
        context = spnego.client(t.user, t.password, hostname=t.host, service="cifs", protocol="ntlm")
        return context, context.step()

    with attack("two SESSION_SETUPs race on one connection"):
        client = RawClient(t.host, t.port)
        client.negotiate()
        (first, token1), (second, token2) = hello(), hello()
        client.call(smb.ECHO, struct.pack("<HH", 4, 0), credits=16)
        m = [client.framed(client.message(smb.SESSION_SETUP, client.setup_body(x))) for x in (token1, token2)]
        client.send_bytes(m[0] + m[1])
        replies = sorted((client.receive() for _ in m), key=lambda r: r.message_id)
        assert all(r.status == smb.MORE_PROCESSING for r in replies), replies
        assert replies[0].session_id != replies[1].session_id, "both logins got one session"

        def answer(context, reply):
            offset, length = struct.unpack_from("<HH", reply.body, 4)
            return context.step(reply.body[offset - 64 : offset - 64 + length])

        # Each last step twice, all four in one segment: of each pair one may succeed, and none may crash.
        steps = [(r.session_id, answer(c, r)) for c, r in zip((first, second), replies)] * 2
        sent = b""
        for session, token in steps:
            sent += client.framed(client.message(smb.SESSION_SETUP, client.setup_body(token), session_id=session))

        def all_four():
            client.send_bytes(sent)
            return [client.receive() for _ in steps]

        try:
            statuses = [r.status for r in all_four()]
        except Closed:
            statuses = []
        assert not statuses or statuses.count(0) in (1, 2), [hex(s) for s in statuses]
        client.close()

    with attack("security buffers that lie"):
        for offset, length in ((88, 65535), (0, 10), (65535, 1), (1, 2)):
            client = RawClient(t.host, t.port)
            client.negotiate()
            body = struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, offset, length, 0) + b"NTLMSSP\0\1\0\0\0"
            status = outcome(lambda: client.call(smb.SESSION_SETUP, body))  # noqa: B023
            assert status not in (0, smb.MORE_PROCESSING), f"({offset}, {length}) was taken"
            client.close()

    with attack("an NTLM answer cut at every length"):
        context, token = hello()
        client = RawClient(t.host, t.port)
        client.negotiate()
        reply = client.call(smb.SESSION_SETUP, client.setup_body(token))
        offset, length = struct.unpack_from("<HH", reply.body, 4)
        last = context.step(reply.body[offset - 64 : offset - 64 + length])
        client.close()
        for cut in range(0, len(last), 7):
            client = RawClient(t.host, t.port)
            client.negotiate()
            reply = client.call(smb.SESSION_SETUP, client.setup_body(token))
            client.session_id = reply.session_id
            status = outcome(lambda: client.call(smb.SESSION_SETUP, client.setup_body(last[:cut])))  # noqa: B023
            assert status != 0, f"logged in with {cut} bytes"
            client.close()

    with attack("a stranger's session id, and requests without a session"):
        client = RawClient(t.host, t.port)
        client.negotiate()
        for session in (0, 1, 0xFFFFFFFFFFFFFFFF, 0x0000400000000001):
            client.session_id = session
            status = outcome(lambda: client.tree_connect(rf"\\{t.host}\{t.share}"))
            allowed(status, STATUS_USER_SESSION_DELETED, STATUS_ACCESS_DENIED, STATUS_INVALID_PARAMETER)
            if status is None:
                client = RawClient(t.host, t.port)
                client.negotiate()
        client.close()


def frames_after_login(t, attack):
    def inside():
        return RawClient(t.host, t.port, timeout=20).enter(t)

    with attack("unknown commands"):
        for command in (0x13, 0x14, 0xFF, 0x7FFF, 0xFFFF):
            client = inside()
            allowed(outcome(lambda: client.call(command, bytes(64))), STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED)  # noqa: B023
            client.close()

    with attack("every command cut at every length of its first 64 bytes"):
        client = inside()
        for command in range(2, 19):
            if command in (smb.CANCEL, smb.LOGOFF):
                continue
            for cut in range(0, 64, 3):
                whole = struct.pack("<H", [36, 25, 4, 9, 4, 57, 24, 24, 49, 49, 48, 57, 4, 4, 33, 32, 41, 33, 24][command])
                body = (whole + b"\xff" * 62)[:cut]
                status = outcome(lambda: client.call(command, body))  # noqa: B023
                assert status != 0 or (command == smb.ECHO and cut >= 2) or command == smb.TREE_DISCONNECT, (
                    f"command {command} with {cut} bytes was obeyed"
                )
                if status is None or command == smb.TREE_DISCONNECT:
                    client.close()
                    client = inside()
        client.close()

    with attack("credits overdrawn"):
        client = inside()
        _, file_id = client.create(rf"{TOP}\bystander")
        body = client.read_body(file_id, 0, 8 * MIB)
        allowed(outcome(lambda: client.call(smb.READ, body, charge=65535)), STATUS_INVALID_PARAMETER)
        client.close()
    with attack("a charge too small for its length"):
        client = inside()
        _, file_id = client.create(rf"{TOP}\bystander")
        allowed(outcome(lambda: client.call(smb.READ, client.read_body(file_id, 0, MIB), charge=1)), STATUS_INVALID_PARAMETER)
        client.close()
    with attack("a message id used twice"):
        client = inside()
        client.message_id -= 1
        allowed(outcome(lambda: client.call(smb.ECHO, struct.pack("<HH", 4, 0))), STATUS_INVALID_PARAMETER)
        client.close()
    with attack("a message id far outside the window"):
        client = inside()
        client.message_id = 1 << 62
        allowed(outcome(lambda: client.call(smb.ECHO, struct.pack("<HH", 4, 0))), STATUS_INVALID_PARAMETER)
        client.close()

    echo = struct.pack("<HH", 4, 0)
    shapes = {
        "whose last element is cut": lambda c: c.message(smb.ECHO, echo + bytes(4), next_command=72) + c.message(smb.ECHO, echo)[:40],
        "that points past its end": lambda c: c.message(smb.ECHO, echo + bytes(4), next_command=0xFFFFFFF8),
        "that points into its own header": lambda c: c.message(smb.ECHO, echo + bytes(4), next_command=8),
        "that is not aligned": lambda c: c.message(smb.ECHO, echo, next_command=68) + c.message(smb.ECHO, echo),
        "that is related to nothing": lambda c: c.message(smb.CLOSE, struct.pack("<HHI16s", 24, 0, 0, b"\xff" * 16), flags=4),
    }
    for name, shape in shapes.items():
        with attack(f"a compound {name}"):
            client = inside()

            def run(client=client, shape=shape):
                client.send_bytes(client.framed(shape(client)))
                return client.receive()

            # The first element of a compound may be answered before the bad one is found.
            allowed(outcome(run), 0, STATUS_INVALID_PARAMETER, STATUS_FILE_CLOSED)
            client.close()
    with attack("a compound of 2,000 elements"):
        client = inside()
        parts = b"".join(client.message(smb.ECHO, echo + bytes(4), charge=0, next_command=72) for _ in range(2000))

        def run():
            client.send_bytes(client.framed(parts))
            return client.receive()

        outcome(run)
        client.close()

    with attack("WRITEs whose data lies elsewhere"):
        for offset, length in ((0, 100), (112, 0xFFFFFFFF), (65535, 10), (112, 70000), (10, 10)):
            client = inside()
            status, file_id = client.create(rf"{TOP}\written", disposition=smb.OPEN_IF)
            assert status == 0, f"{status:#x}"
            body = struct.pack("<HHIQ16sIIHHI", 49, offset, length, 0, file_id, 0, 0, 0, 0, 0) + b"ten bytes."
            status = outcome(lambda: client.call(smb.WRITE, body, charge=16))  # noqa: B023
            assert status != 0, f"({offset}, {length}) was written"
            client.close()
        assert (t.directory / TOP / "written").stat().st_size == 0

    with attack("reads and writes at the far end of 64 bits"):
        client = inside()
        _, file_id = client.create(rf"{TOP}\written", disposition=smb.OPEN_IF)
        for offset in (1 << 63, (1 << 64) - 1, (1 << 63) - 1, (1 << 64) - 10):
            for body, command in ((client.read_body(file_id, offset, 65536), smb.READ), (client.write_body(file_id, offset, b"x" * 100), smb.WRITE)):
                if command == smb.WRITE and offset == (1 << 64) - 1:
                    continue  # "at the end of the file" (MS-FSA 2.1.5.4)
                status = outcome(lambda: client.call(command, body))  # noqa: B023
                assert status != 0, f"{offset:#x} was accepted"
        client.close()

    with attack("information classes that do not exist, and buffers of no size"):
        client = inside()
        _, file_id = client.create(rf"{TOP}\bystander")
        for kind in range(0, 6):
            for info_class in (0, 2, 77, 200, 255):
                body = struct.pack("<HBBIHHIII16s", 41, kind, info_class, 65536, 0, 0, 0, 0, 0, file_id)
                status = outcome(lambda: client.call(smb.QUERY_INFO, body))  # noqa: B023
                assert status is not None, f"closed for kind {kind} class {info_class}"
        for info_class in range(0, 80):
            client.set_info(file_id, info_class, b"")
            client.set_info(file_id, info_class, b"\xff" * 24)
        client.close()

    with attack("an IOCTL with hostile offsets"):
        for code in (0x00140204, 0x0011C017, 0x00060194, 0x001401FC, 0x000900C4, 0x00144064, 0x000940CF, 0xFFFFFFFF):
            client = inside()
            body = struct.pack("<HHI16sIIIIIIII", 57, 0, code, b"\xff" * 16, 0xFFFFFFF0, 0x20, 0, 0xFFFFFFFF, 0, 0xFFFFFFFF, 1, 0)
            status = outcome(lambda: client.call(smb.IOCTL, body))  # noqa: B023
            assert status != 0, f"{code:#x} was obeyed"
            client.close()

    with attack("file ids that were never given out, and someone else's"):
        client, other = inside(), inside()
        _, mine = other.create(rf"{TOP}\bystander")
        for file_id in (bytes(16), b"\xff" * 16, os.urandom(16), mine):
            status = outcome(lambda: client.call(smb.READ, client.read_body(file_id, 0, 10)))  # noqa: B023
            assert status == STATUS_FILE_CLOSED, f"{status}"
        assert other.call(smb.READ, other.read_body(mine, 0, 10)).status == 0
        client.close()
        other.close()

    with attack("someone else's tree id"):
        client = inside()
        client.tree_id += 1000
        allowed(outcome(lambda: client.call(smb.CREATE, client.create_body("x"))), STATUS_NETWORK_NAME_DELETED)
        client.close()


def names(t, attack):
    outside = t.directory.parent / "hostile-outside"
    outside.mkdir(exist_ok=True)
    outside.chmod(0o777)
    (outside / "secret").write_text("secret")
    (outside / "secret").chmod(0o666)
    top = t.directory / TOP
    up = r"..\hostile-outside"
    bad = {
        "above the share": [rf"{up}\secret", r"..", r"..\..", rf"{TOP}\..\..\hostile-outside\secret", rf"{TOP}\..\{up}\secret"],
        "with a dot as a component": [rf"{TOP}\.\x", rf".\{TOP}\x", rf"{TOP}\..\x"],
        "with slashes": ["../hostile-outside/secret", "/etc/passwd", f"{TOP}/new", rf"{TOP}\a/../../x"],
        "that are absolute": [r"\etc\passwd", rf"\\{t.host}\x", r"C:\x", r"\\?\C:\x", r"\\.\pipe\x"],
        "with NULs": [f"{TOP}\\a\0b", "\0", f"{TOP}\\bystander\0"],
        "with control characters": [f"{TOP}\\a\x01b", f"{TOP}\\a\x1f"],
        "with wildcards": [rf"{TOP}\a*b", rf"{TOP}\a?b", f'{TOP}\\a"b', rf"{TOP}\a<b", rf"{TOP}\a>b", rf"{TOP}\a|b"],
        "with empty components": [rf"{TOP}\\x", f"{TOP}\\\\\\"],
        "that are too long": [rf"{TOP}\{'x' * 256}", "\\".join(["d" * 100] * 320)],
        "that are not UTF-16": [b"a", TOP.encode("utf-16-le") + b"\\\0x"],
        "of devices": [rf"{TOP}\{n}" for n in ("CON", "nul", "AUX", "PRN", "COM1", "LPT9.txt", "NUL.tar.gz")],
    }
    for what, these in bad.items():
        with attack(f"names {what} are refused"):
            for name in these:
                client = RawClient(t.host, t.port).enter(t)
                got = outcome(lambda: client.create(name, disposition=smb.OPEN_IF)[0])  # noqa: B023
                assert got not in (0, smb.PENDING), f"{name!r} was opened"
                client.close()

    def opened(access=0x13019F, options=0):
        client = RawClient(t.host, t.port).enter(t)
        status, file_id = client.create(rf"{TOP}\mover", disposition=smb.OPEN_IF, access=access, options=options)
        assert status == 0, f"{status:#x}"
        return client, file_id

    targets = [rf"{up}\moved", rf"\{up}\moved", "../hostile-outside/moved", rf"{TOP}\a\0b".replace(r"\0", "\0"), "", r"..", rf"{TOP}\CON"]
    for what, info_class in ("rename", 10), ("link", 11), ("rename (Ex)", 65), ("link (Ex)", 72):
        with attack(f"hostile targets of a {what}"):
            for name in targets:
                client, file_id = opened()
                raw = name.encode("utf-16-le")
                for length in (len(raw), 0xFFFFFFFE, len(raw) + 2):
                    data = struct.pack("<B7xQI", 1, 0, length) + raw + (b"" if len(raw) > 4 else bytes(8))
                    if length == len(raw) + 2 and len(raw) <= 4:
                        continue
                    got = outcome(lambda: client.set_info(file_id, info_class, data))  # noqa: B023
                    assert got != 0, f"{name!r} (length {length:#x}) was accepted"
                    if got is None:
                        client.close()
                        client, file_id = opened()
                client.close()
            assert (top / "mover").exists() and not (outside / "moved").exists()

    with attack("patterns that climb"):
        client = RawClient(t.host, t.port).enter(t)
        _, directory = client.create(TOP, access=0x120089, options=smb.DIRECTORY)
        for pattern in (rf"{up}\*", r"..\*", "../*", "/etc/*", "a\0b", b"\xff\xdf", b"a"):
            status = outcome(lambda: client.query_directory(directory, pattern))  # noqa: B023
            assert status != 0, f"{pattern!r} listed something"
            if status is None:
                client = RawClient(t.host, t.port).enter(t)
                _, directory = client.create(TOP, access=0x120089, options=smb.DIRECTORY)
        client.close()

    with attack("share names that climb"):
        for share in ("..", rf"{t.share}\..", "../../etc", t.share + "\0", "", "x" * 5000, f"{t.share}/", "\ud800"):
            client = RawClient(t.host, t.port)
            client.negotiate()
            client.login(t.user, t.password)
            raw = rf"\\{t.host}\{share}".encode("utf-16-le", "surrogatepass")
            body = struct.pack("<HHHH", 9, 0, 72, len(raw)) + raw
            status = outcome(lambda: client.call(smb.TREE_CONNECT, body))  # noqa: B023
            assert status != 0, f"{share[:20]!r} was connected"
            client.close()

    with attack("symlinks leading out are not followed"):
        for link, to in (("relative", "../../hostile-outside"), ("absolute", str(outside)), ("root", "/")):
            (top / link).unlink(missing_ok=True)
            (top / link).symlink_to(to)
            client = RawClient(t.host, t.port).enter(t)
            leaf = "secret" if link != "root" else r"etc\passwd"
            for name in (rf"{TOP}\{link}\{leaf}", rf"{TOP}\{link}\new"):
                status = outcome(lambda: client.create(name, disposition=smb.OPEN_IF)[0])  # noqa: B023
                assert status != 0, f"{name} was opened through a link"
            client.close()
        assert sorted(p.name for p in outside.iterdir()) == ["secret"]
    with attack("a FIFO, and a link to a device, neither open nor hang"):
        os.mkfifo(top / "fifo", 0o666)
        (top / "zero").symlink_to("/dev/zero")
        for name in ("fifo", "zero"):
            client = RawClient(t.host, t.port, timeout=20).enter(t)
            status = outcome(lambda: client.create(rf"{TOP}\{name}", disposition=smb.OPEN_IF)[0])  # noqa: B023
            assert status != 0, f"{name} was opened"
            client.close()
    shutil.rmtree(outside)


def clients_that_never_read(t, attack):
    big = t.directory / TOP / "big"
    with open(big, "wb") as f:
        for _ in range(64):
            f.write(os.urandom(MIB))
    big.chmod(0o666)
    with attack("16 clients ask for gigabytes and never read: bounded memory"):
        before, peak, clients = t.rss_bytes(), 0, []
        asked = 0
        for _ in range(16):
            client = RawClient(t.host, t.port, receive_buffer=4096).enter(t)
            status, file_id = client.create(rf"{TOP}\big", access=0x120089)
            assert status == 0
            client.call(smb.ECHO, struct.pack("<HH", 4, 0), credits=8192)
            client.socket.settimeout(1)
            clients.append((client, file_id))
        for _ in range(4):
            for client, file_id in clients:
                try:
                    # All it was granted, and then on: the ids past the grant are one more attack.
                    for i in range(40):
                        client.send_bytes(client.framed(client.message(smb.READ, client.read_body(file_id, i * MIB, MIB), charge=16)))
                        asked += MIB
                except (Closed, TimeoutError):
                    pass
            time.sleep(0.3)
            peak = max(peak, t.rss_bytes() - before)
        assert asked >= 512 * MIB, f"only {asked // MIB} MiB could be asked for"
        assert peak < 16 * MAX_QUEUED_BYTES, f"grew by {peak // MIB} MiB for {asked // MIB} MiB asked"
        bystander_rate(t, big)
        for client, _ in clients:
            client.close()
    with attack("a client that asks for the same listing thousands of times and never reads: bounded memory"):
        before = t.rss_bytes()
        client = RawClient(t.host, t.port, receive_buffer=4096).enter(t)
        for n in range(300):
            (t.directory / TOP / f"name-{n}-{'x' * 100}").touch()
        _, directory = client.create(TOP, access=0x120089, options=smb.DIRECTORY)
        client.call(smb.ECHO, struct.pack("<HH", 4, 0), credits=8192)
        client.socket.settimeout(1)
        body = struct.pack("<HBBI16sHHI", 33, 37, 1, 0, directory, 96, 2, 65536) + "*".encode("utf-16-le")
        try:
            for _ in range(max(client.credits - 2, 0)):
                client.send_bytes(client.framed(client.message(smb.QUERY_DIRECTORY, body)))
        except (Closed, TimeoutError):
            pass
        time.sleep(0.5)
        grown = t.rss_bytes() - before
        client.close()
        assert grown < MAX_QUEUED_BYTES, f"grew by {grown // MIB} MiB"
    with attack("200 connections cut off in the middle of a reply"):
        for _ in range(200):
            client = RawClient(t.host, t.port, receive_buffer=4096).enter(t)
            _, file_id = client.create(rf"{TOP}\big", access=0x120089)
            client.send_bytes(client.framed(client.message(smb.READ, client.read_body(file_id, 0, 65536))))
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()


def bystander_rate(t, big):
    """Someone who does read gets the file while the others hang."""
    client = RawClient(t.host, t.port, timeout=10).enter(t)
    _, file_id = client.create(rf"{TOP}\big", access=0x120089)
    with open(big, "rb") as f:
        for at in range(0, 4 * MIB, 65536):
            reply = client.call(smb.READ, client.read_body(file_id, at, 65536))
            assert reply.status == 0 and reply.body[16:] == f.read(65536), "a reading client got something else"
    client.close()


def main():
    target, story = Target.from_env(), Story("hostile")
    top = target.directory / TOP
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    top.chmod(0o777)
    bystanders = Bystanders(target)

    def attack(what):
        return attacked(story, bystanders, what)

    for part in (frames_before_login, memory_before_login, logins, frames_after_login, names, clients_that_never_read):
        try:
            part(target, attack)
        except (Exception,) as wrong:
            with story.check(f"{part.__name__} runs to its end"):
                raise wrong
    shutil.rmtree(top, ignore_errors=True)
    story.end()


class attacked:
    """A check that also holds the bystanders' word."""

    def __init__(self, story, bystanders, what):
        self._check, self._bystanders = story.check(what), bystanders

    def __enter__(self):
        return self._check.__enter__()

    def __exit__(self, *wrong):
        if wrong[0] is None:
            try:
                self._bystanders.are_served()
            except (Exception,) as hurt:
                hurt = AssertionError(f"a bystander was hurt: {type(hurt).__name__} {hurt}")
                return self._check.__exit__(AssertionError, hurt, hurt.__traceback__)
        return self._check.__exit__(*wrong)


if __name__ == "__main__":
    main()
