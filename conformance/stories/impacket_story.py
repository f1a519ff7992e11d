#!/usr/bin/env python3
"""The share as impacket's SMB client sees it: a client nobody here wrote, with its own SMB 2 and 3 and its own RPC.

    conformance/with-server TARGET/venv/bin/python conformance/stories/impacket_story.py
"""

import io
import os
import sys
from functools import partial
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from impacket import ntlm  # noqa: E402
from impacket.smb import SMB_DIALECT  # noqa: E402
from impacket.smb3structs import (  # noqa: E402
    SMB2_DIALECT_002, SMB2_DIALECT_21, SMB2_DIALECT_30, SMB2_DIALECT_311,
)  # fmt: skip
from impacket.smbconnection import SessionError, SMBConnection  # noqa: E402

from server import Target  # noqa: E402
from story import Story, refused  # noqa: E402

TOP = "impacket-story"
STATUS_LOGON_FAILURE = 0xC000006D
STATUS_OBJECT_NAME_COLLISION = 0xC0000035
STATUS_OBJECT_NAME_NOT_FOUND = 0xC0000034
STATUS_DIRECTORY_NOT_EMPTY = 0xC0000101
STATUS_BAD_NETWORK_NAME = 0xC00000CC


def connect(t, dialect=None):
    return SMBConnection(t.host, t.host, sess_port=t.port, preferredDialect=dialect, timeout=30)


def login(t, dialect=None):
    c = connect(t, dialect)
    c.login(t.user, t.password)
    return c


def status(error):
    return error.getErrorCode()


def files_and_directories(t, story):
    c = login(t)
    disk = t.directory / TOP
    data = os.urandom(3_000_001)
    names = lambda pattern: sorted(f.get_longname() for f in c.listPath(t.share, f"{TOP}\\{pattern}"))  # noqa: E731

    with story.check("create a directory"):
        c.createDirectory(t.share, TOP)
        assert disk.is_dir()
    with story.check("creating it again collides"):
        wrong = refused(lambda: c.createDirectory(t.share, TOP), SessionError)
        assert status(wrong) == STATUS_OBJECT_NAME_COLLISION, hex(status(wrong))
    with story.check("put a file"):
        c.putFile(t.share, f"{TOP}\\data.bin", io.BytesIO(data).read)
        assert (disk / "data.bin").read_bytes() == data
    with story.check("get it back"):
        back = io.BytesIO()
        c.getFile(t.share, f"{TOP}\\data.bin", back.write)
        assert back.getvalue() == data
    with story.check("get a file that is not there"):
        wrong = refused(lambda: c.getFile(t.share, f"{TOP}\\none", io.BytesIO().write), SessionError)
        assert status(wrong) == STATUS_OBJECT_NAME_NOT_FOUND, hex(status(wrong))
    with story.check("list with DOS wildcards"):
        for name in ("a.txt", "ab.txt", "abc.txt", "a"):
            c.putFile(t.share, f"{TOP}\\{name}", io.BytesIO(b"x").read)
        assert names("*") == [".", "..", "a", "a.txt", "ab.txt", "abc.txt", "data.bin"], names("*")
        assert names("a?.txt") == ["ab.txt"], names("a?.txt")
        assert names("*.txt") == ["a.txt", "ab.txt", "abc.txt"], names("*.txt")
        assert names("A*") == ["a", "a.txt", "ab.txt", "abc.txt"], names("A*")
        assert names("a.txt") == ["a.txt"], names("a.txt")
    with story.check("a listing carries sizes and kinds"):
        entries = {f.get_longname(): f for f in c.listPath(t.share, f"{TOP}\\*")}
        assert entries["data.bin"].get_filesize() == len(data)
        assert entries["."].is_directory() and not entries["data.bin"].is_directory()
    with story.check("rename"):
        c.rename(t.share, f"{TOP}\\a.txt", f"{TOP}\\renamed.txt")
        assert (disk / "renamed.txt").exists() and not (disk / "a.txt").exists()
    with story.check("names outside the basic plane"):
        c.putFile(t.share, f"{TOP}\\\U0001f40b.txt", io.BytesIO(b"whale").read)
        assert (disk / "\U0001f40b.txt").read_bytes() == b"whale"
        assert "\U0001f40b.txt" in names("*")
    with story.check("a directory that is not empty stays"):
        wrong = refused(lambda: c.deleteDirectory(t.share, TOP), SessionError)
        assert status(wrong) == STATUS_DIRECTORY_NOT_EMPTY, hex(status(wrong))
    with story.check("delete everything"):
        for name in names("*"):
            if name not in (".", ".."):
                c.deleteFile(t.share, f"{TOP}\\{name}")
        c.deleteDirectory(t.share, TOP)
        assert not disk.exists()
    with story.check("log off"):
        c.logoff()


def dialects(t, story):
    wanted = {
        "2.0.2": SMB2_DIALECT_002, "2.1": SMB2_DIALECT_21, "3.0": SMB2_DIALECT_30,
        "3.1.1": SMB2_DIALECT_311,
    }  # fmt: skip
    for name, dialect in wanted.items():
        with story.check(f"dialect {name}"):
            c = login(t, dialect)
            assert c.getDialect() == dialect, hex(c.getDialect())
            data = os.urandom(200_000)
            c.putFile(t.share, "impacket-dialect.bin", io.BytesIO(data).read)
            back = io.BytesIO()
            c.getFile(t.share, "impacket-dialect.bin", back.write)
            c.deleteFile(t.share, "impacket-dialect.bin")
            assert back.getvalue() == data
            c.logoff()
    with story.check("the SMB1 dialect alone is refused"):
        refused(lambda: login(t, SMB_DIALECT), Exception)


def shares(t, story):
    with story.check("browse: the share and IPC$ are listed"):
        c = login(t)
        listed = {s["shi1_netname"][:-1]: s["shi1_type"] for s in c.listShares()}
        assert t.share in listed and "IPC$" in listed, listed
        assert listed["IPC$"] & 0xFF == 3 and listed[t.share] & 0xFF == 0, listed
    with story.check("a share that is not there"):
        wrong = refused(lambda: c.connectTree("no-such-share"), SessionError)
        assert status(wrong) == STATUS_BAD_NETWORK_NAME, hex(status(wrong))


def who_may(t, story):
    def refused_login(user, password, **more):
        wrong = refused(lambda: connect(t).login(user, password, **more), SessionError)
        assert status(wrong) == STATUS_LOGON_FAILURE, hex(status(wrong))

    with story.check("a wrong password"):
        refused_login(t.user, t.password + "x")
    with story.check("an unknown user"):
        refused_login("nobody-here", t.password)
    with story.check("the NT hash is as good as the password"):
        connect(t).login(t.user, "", nthash=ntlm.compute_nthash(t.password).hex())
    with story.check("NTLMv1"):
        with mock.patch.object(ntlm, "getNTLMSSPType3", partial(ntlm.getNTLMSSPType3, use_ntlmv2=False)):
            refused_login(t.user, t.password)
    with story.check("anonymous sees no files"):

        def anonymous():
            c = connect(t)
            c.login("", "")
            c.listPath(t.share, "*")

        refused(anonymous, SessionError)


if __name__ == "__main__":
    target, story = Target.from_env(), Story("impacket")
    for part in (files_and_directories, dialects, shares, who_may):
        part(target, story)
    story.end()
