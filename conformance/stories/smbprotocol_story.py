#!/usr/bin/env python3
"""The share as the smbprotocol library sees it: opens, share modes, locks, dispositions and compounds, step by step.

    conformance/with-server TARGET/venv/bin/python conformance/stories/smbprotocol_story.py
"""

import os
import shutil
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

import smbclient  # noqa: E402
from smbprotocol import exceptions as err  # noqa: E402
from smbprotocol.connection import Connection, Dialects  # noqa: E402
from smbprotocol.file_info import FileInformationClass  # noqa: E402
from smbprotocol.open import (  # noqa: E402
    CreateAction, CreateDisposition as Disposition, CreateOptions as Options, DirectoryAccessMask,
    FilePipePrinterAccessMask as Access, ImpersonationLevel, LockFlags, Open, ShareAccess as Share, SMB2LockElement,
)  # fmt: skip
from smbprotocol.session import Session  # noqa: E402
from smbprotocol.tree import TreeConnect  # noqa: E402

from server import Target  # noqa: E402
from story import Story, refused  # noqa: E402

TOP = "smbprotocol-story"
ALL = Share.FILE_SHARE_READ | Share.FILE_SHARE_WRITE | Share.FILE_SHARE_DELETE
READ_WRITE = Access.GENERIC_READ | Access.GENERIC_WRITE | Access.DELETE

STATUS_FILE_LOCK_CONFLICT = 0xC0000054
STATUS_LOCK_NOT_GRANTED = 0xC0000055
STATUS_RANGE_NOT_LOCKED = 0xC000007E


def answers(status, call):
    wrong = refused(call, err.SMBResponseException)
    assert wrong.status == status, f"{wrong.status:#x}, not {status:#x}"


@contextmanager
def tree(t, dialect=None, signed=True, encrypted=False):
    connection = Connection(uuid.uuid4(), t.host, t.port, require_signing=signed)
    connection.connect(dialect, timeout=20)
    try:
        session = Session(connection, t.user, t.password, require_encryption=encrypted, auth_protocol="ntlm")
        session.connect()
        share = TreeConnect(session, rf"\\{t.host}\{t.share}")
        share.connect(require_secure_negotiate=connection.dialect >= Dialects.SMB_3_0_0)
        yield share
        session.disconnect()
    finally:
        connection.disconnect(close=False)


def create(share, name, access=READ_WRITE, sharing=ALL, disposition=Disposition.FILE_OPEN_IF, options=0):
    handle = Open(share, rf"{TOP}\{name}" if name else TOP)
    handle.create(ImpersonationLevel.Impersonation, access, 0, sharing, disposition, options)
    return handle


def dialects(t, story):
    plain = {
        "2.0.2": Dialects.SMB_2_0_2, "2.1": Dialects.SMB_2_1_0, "3.0": Dialects.SMB_3_0_0, "3.0.2": Dialects.SMB_3_0_2,
        "3.1.1": Dialects.SMB_3_1_1,
    }  # fmt: skip
    for name, dialect in plain.items():
        for encrypted in (False, True) if dialect >= Dialects.SMB_3_0_0 else (False,):
            with story.check(f"dialect {name}, {'encrypted' if encrypted else 'signed'}, validated"):
                with tree(t, dialect, encrypted=encrypted) as share:
                    assert share.session.connection.dialect == dialect
                    data = os.urandom(50_000)
                    h = create(share, "dialect.bin", options=Options.FILE_DELETE_ON_CLOSE)
                    h.write(data)
                    assert h.read(0, 50_000) == data
                    h.close()
                    assert not (t.directory / TOP / "dialect.bin").exists()


def dispositions(t, story):
    d = Disposition
    with tree(t) as share:
        path = t.directory / TOP / "disposition"

        def outcome(disposition, exists):
            path.unlink(missing_ok=True)
            if exists:
                path.write_bytes(b"before")
                path.chmod(0o666)
            h = create(share, "disposition", disposition=disposition)
            action = h.create_action
            h.close()
            return action, path.stat().st_size

        expected = [
            ("open", d.FILE_OPEN, True, (CreateAction.FILE_OPENED, 6)),
            ("create", d.FILE_CREATE, False, (CreateAction.FILE_CREATED, 0)),
            ("open-if, there", d.FILE_OPEN_IF, True, (CreateAction.FILE_OPENED, 6)),
            ("open-if, not there", d.FILE_OPEN_IF, False, (CreateAction.FILE_CREATED, 0)),
            ("overwrite", d.FILE_OVERWRITE, True, (CreateAction.FILE_OVERWRITTEN, 0)),
            ("overwrite-if, there", d.FILE_OVERWRITE_IF, True, (CreateAction.FILE_OVERWRITTEN, 0)),
            ("overwrite-if, not there", d.FILE_OVERWRITE_IF, False, (CreateAction.FILE_CREATED, 0)),
            ("supersede, there", d.FILE_SUPERSEDE, True, (CreateAction.FILE_SUPERSEDED, 0)),
            ("supersede, not there", d.FILE_SUPERSEDE, False, (CreateAction.FILE_CREATED, 0)),
        ]
        for name, disposition, exists, wanted in expected:
            with story.check(f"disposition {name}"):
                got = outcome(disposition, exists)
                assert got == wanted, f"{got}, not {wanted}"
        with story.check("disposition open, not there"):
            refused(lambda: outcome(d.FILE_OPEN, False), err.ObjectNameNotFound)
        with story.check("disposition create, there"):
            refused(lambda: outcome(d.FILE_CREATE, True), err.ObjectNameCollision)
        with story.check("disposition overwrite, not there"):
            refused(lambda: outcome(d.FILE_OVERWRITE, False), err.ObjectNameNotFound)
        path.unlink(missing_ok=True)


def share_modes(t, story):
    with tree(t) as one, tree(t) as two:
        with story.check("an open that shares nothing keeps others out"):
            h = create(one, "modes", sharing=0)
            refused(lambda: create(two, "modes", access=Access.GENERIC_READ), err.SharingViolation)
            h.close()
        with story.check("and lets them in once it is closed"):
            create(two, "modes", access=Access.GENERIC_READ).close()
        with story.check("sharing must hold both ways"):
            h = create(one, "modes", access=Access.GENERIC_WRITE, sharing=ALL)
            refused(
                lambda: create(two, "modes", access=Access.GENERIC_READ, sharing=Share.FILE_SHARE_READ),
                err.SharingViolation,
            )
            h.close()
        with story.check("asking for attributes only conflicts with nobody"):
            h = create(one, "modes", sharing=0)
            create(two, "modes", access=Access.FILE_READ_ATTRIBUTES, sharing=0, disposition=Disposition.FILE_OPEN).close()
            h.close()
        with story.check("a file pending delete cannot be opened, and goes with its last handle"):
            h = create(one, "modes")
            create(two, "modes", options=Options.FILE_DELETE_ON_CLOSE).close()
            refused(lambda: create(two, "modes"), err.DeletePending)
            h.close()
            assert not (t.directory / TOP / "modes").exists()


def locks(t, story):
    def element(offset, length, flags):
        e = SMB2LockElement()
        e["offset"], e["length"], e["flags"] = offset, length, flags
        return [e]

    now = LockFlags.SMB2_LOCKFLAG_FAIL_IMMEDIATELY
    exclusive = LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK | now
    shared = LockFlags.SMB2_LOCKFLAG_SHARED_LOCK | now
    unlock = LockFlags.SMB2_LOCKFLAG_UNLOCK
    with tree(t) as one, tree(t) as two:
        a, b = create(one, "locks"), create(two, "locks")
        a.write(b"0123456789" * 10)
        with story.check("an exclusive lock excludes another's"):
            a.lock(element(10, 10, exclusive))
            answers(STATUS_LOCK_NOT_GRANTED, lambda: b.lock(element(15, 1, exclusive)))
            answers(STATUS_LOCK_NOT_GRANTED, lambda: b.lock(element(15, 1, shared)))
        with story.check("and another's reads and writes in the range, not beside it"):
            answers(STATUS_FILE_LOCK_CONFLICT, lambda: b.read(10, 5))
            answers(STATUS_FILE_LOCK_CONFLICT, lambda: b.write(b"x", 19))
            assert b.read(20, 5) == b"01234"
        with story.check("the owner reads and writes it"):
            a.write(b"AB", 10)
            assert a.read(10, 2) == b"AB"
        with story.check("unlocking frees it"):
            a.lock(element(10, 10, unlock))
            b.lock(element(15, 1, exclusive))
            b.lock(element(15, 1, unlock))
        with story.check("shared locks share, and stop writes"):
            a.lock(element(0, 4, shared))
            b.lock(element(0, 4, shared))
            answers(STATUS_FILE_LOCK_CONFLICT, lambda: b.write(b"x", 0))
            assert b.read(0, 4) == b"0123"
        with story.check("unlocking what is not locked"):
            answers(STATUS_RANGE_NOT_LOCKED, lambda: a.lock(element(50, 1, unlock)))
        with story.check("closing drops the locks"):
            a.close()
            b.lock(element(0, 4, unlock))
            b.lock(element(0, 100, exclusive))
        b.close()


def reading_and_writing(t, story):
    with tree(t) as share:
        h = create(share, "io")
        with story.check("8 MiB and odd sizes through one handle"):
            data = os.urandom(8 * 1024 * 1024 + 7)
            step = min(share.session.connection.max_write_size, 1 << 20)
            for at in range(0, len(data), step):
                h.write(data[at : at + step], at)
            assert b"".join(h.read(at, min(step, len(data) - at)) for at in range(0, len(data), step)) == data
        with story.check("flush, then the bytes are on disk"):
            h.flush()
            assert (t.directory / TOP / "io").read_bytes() == data
        with story.check("reading at the end of the file"):
            refused(lambda: h.read(len(data), 10), err.EndOfFile)
        with story.check("a read over the end is short"):
            assert h.read(len(data) - 3, 10) == data[-3:]
        with story.check("a hole reads as zeros"):
            h.write(b"end", 20_000_000)
            assert h.read(15_000_000, 4096) == bytes(4096)
        with story.check("write-through"):
            h.write(b"through", 0, write_through=True)
            assert h.read(0, 7) == b"through"
        with story.check("close tells the size"):
            reply = h.close(get_attributes=True)
            assert reply is None or reply["end_of_file"].get_value() == 20_000_003
        with story.check("a closed handle is refused"):
            refused(lambda: h.read(0, 1), err.FileClosed)
        with story.check("a handle opened for reading cannot write"):
            r = create(share, "io", access=Access.GENERIC_READ)
            refused(lambda: r.write(b"no"), err.AccessDenied)
            r.close()
        with story.check("a file is not a directory, nor the other way about"):
            refused(lambda: create(share, "io", options=Options.FILE_DIRECTORY_FILE), err.StatusNotADirectory)
            refused(lambda: create(share, "", options=Options.FILE_NON_DIRECTORY_FILE), err.FileIsADirectory)


def listing(t, story):
    with tree(t) as share:
        folder = t.directory / TOP / "listing"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        wanted = {f"entry-{n:04}" for n in range(700)}
        for name in wanted:
            (folder / name).touch()
        classes = {
            "names": FileInformationClass.FILE_NAMES_INFORMATION,
            "directory": FileInformationClass.FILE_DIRECTORY_INFORMATION,
            "full": FileInformationClass.FILE_FULL_DIRECTORY_INFORMATION,
            "both": FileInformationClass.FILE_BOTH_DIRECTORY_INFORMATION,
            "id full": FileInformationClass.FILE_ID_FULL_DIRECTORY_INFORMATION,
            "id both": FileInformationClass.FILE_ID_BOTH_DIRECTORY_INFORMATION,
        }
        access = DirectoryAccessMask.FILE_LIST_DIRECTORY | DirectoryAccessMask.FILE_READ_ATTRIBUTES
        for name, info_class in classes.items():
            with story.check(f"every entry once, class {name}"):
                h = create(share, "listing", access=access, options=Options.FILE_DIRECTORY_FILE)
                seen = []
                try:
                    while True:
                        page = h.query_directory("*", info_class, max_output=8192)
                        seen += [e["file_name"].get_value().decode("utf-16-le") for e in page]
                except err.NoMoreFiles:
                    pass
                h.close()
                assert sorted(seen) == sorted(wanted | {".", ".."}), f"{len(seen)} names"


def a_compound(t, story):
    with tree(t) as share, story.check("create, write, read and close in one related compound"):
        h = Open(share, rf"{TOP}\compound")
        parts = [
            h.create(
                ImpersonationLevel.Impersonation, READ_WRITE, 0, ALL, Disposition.FILE_OVERWRITE_IF, 0, send=False
            ),
            h.write(b"in one go", 0, send=False),
            h.read(0, 9, send=False),
            h.close(send=False),
        ]
        connection = share.session.connection
        sent = connection.send_compound(
            [p[0] for p in parts], sid=share.session.session_id, tid=share.tree_connect_id, related=True
        )
        answers = [parts[i][1](request) for i, request in enumerate(sent)]
        assert answers[2] == b"in one go", answers[2]


def high_level(t, story):
    """The library's file interface, which is what scripts use."""
    smbclient.reset_connection_cache()
    smbclient.register_session(t.host, t.user, t.password, port=t.port, auth_protocol="ntlm")
    base = rf"\\{t.host}\{t.share}\{TOP}"
    disk = t.directory / TOP

    def check(what):
        return story.check(f"files: {what}")

    with check("makedirs, write and read text"):
        smbclient.makedirs(rf"{base}\a\b\c", exist_ok=True, port=t.port)
        with smbclient.open_file(rf"{base}\a\b\c\text.txt", mode="w", encoding="utf-8", port=t.port) as f:
            f.write("tide\nand time\n")
        with smbclient.open_file(rf"{base}\a\b\c\text.txt", encoding="utf-8", port=t.port) as f:
            assert f.read().split() == ["tide", "and", "time"]
    with check("stat agrees with the disk"):
        s = smbclient.stat(rf"{base}\a\b\c\text.txt", port=t.port)
        real = (disk / "a/b/c/text.txt").stat()
        assert s.st_size == real.st_size and abs(s.st_mtime - real.st_mtime) < 1
    with check("scandir and walk"):
        assert [e.name for e in smbclient.scandir(rf"{base}\a", port=t.port)] == ["b"]
        walked = [name for _, _, names in smbclient.walk(rf"{base}\a", port=t.port) for name in names]
        assert walked == ["text.txt"], walked
    with check("utime"):
        smbclient.utime(rf"{base}\a\b\c\text.txt", times=(1_000_000_000, 1_100_000_000), port=t.port)
        assert (disk / "a/b/c/text.txt").stat().st_mtime == 1_100_000_000
    with check("truncate"):
        smbclient.truncate(rf"{base}\a\b\c\text.txt", 4, port=t.port)
        assert (disk / "a/b/c/text.txt").read_bytes() == b"tide"
    with check("replace overwrites, rename does not"):
        for name in "one", "two":
            with smbclient.open_file(rf"{base}\{name}", mode="w", port=t.port) as f:
                f.write(name)
        refused(lambda: smbclient.rename(rf"{base}\one", rf"{base}\two", port=t.port), OSError)
        smbclient.replace(rf"{base}\one", rf"{base}\two", port=t.port)
        assert (disk / "two").read_text() == "one" and not (disk / "one").exists()
    with check("hard link"):
        smbclient.link(rf"{base}\two", rf"{base}\linked", port=t.port)
        assert (disk / "two").stat().st_ino == (disk / "linked").stat().st_ino
    with check("a directory moves with what is in it"):
        smbclient.rename(rf"{base}\a", rf"{base}\moved", port=t.port)
        assert (disk / "moved/b/c/text.txt").exists()
    with check("volume size"):
        volume = smbclient.stat_volume(base, port=t.port)
        real = os.statvfs(disk)
        assert volume.total_size > 0 and abs(volume.total_size / (real.f_blocks * real.f_frsize) - 1) < 0.01
    with check("remove and rmdir"):
        smbclient.remove(rf"{base}\linked", port=t.port)
        refused(lambda: smbclient.rmdir(rf"{base}\moved", port=t.port), OSError)
        smbclient.remove(rf"{base}\moved\b\c\text.txt", port=t.port)
        smbclient.removedirs(rf"{base}\moved\b\c", port=t.port)
        assert not (disk / "moved").exists()
    smbclient.reset_connection_cache()


if __name__ == "__main__":
    target, story = Target.from_env(), Story("smbprotocol")
    top = target.directory / TOP
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    top.chmod(0o777)
    for part in (dialects, dispositions, share_modes, locks, reading_and_writing, listing, a_compound, high_level):
        try:
            part(target, story)
        except Exception as wrong:
            with story.check(f"{part.__name__} runs to its end"):
                raise wrong
    shutil.rmtree(top, ignore_errors=True)
    story.end()
