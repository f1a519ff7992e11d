#!/usr/bin/env python3
"""Whom a descriptor names has the same rights as a local user: POSIX lists and mode beside it say what it says, and where a
local program changes them the descriptor no longer counts.

    conformance/with-server TARGET/venv/bin/python conformance/stories/acl_story.py

Root, on a file system that keeps POSIX lists.
"""

import os
import subprocess
import sys
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from smbprotocol.connection import Connection  # noqa: E402
from smbprotocol.open import (  # noqa: E402
    CreateDisposition as Disposition, FilePipePrinterAccessMask as Access, ImpersonationLevel, Open,
    ShareAccess as Share, SMB2QueryInfoRequest, SMB2QueryInfoResponse, SMB2SetInfoRequest,
)  # fmt: skip
from smbprotocol.security_descriptor import AccessAllowedAce, AclPacket, SIDPacket, SMB2CreateSDBuffer  # noqa: E402
from smbprotocol.session import Session  # noqa: E402
from smbprotocol.tree import TreeConnect  # noqa: E402

from server import Target  # noqa: E402
from story import Story  # noqa: E402

TOP = "acl-story"
ALL = Share.FILE_SHARE_READ | Share.FILE_SHARE_WRITE | Share.FILE_SHARE_DELETE
SECURITY, OWNER_GROUP_DACL, DACL = 3, 7, 4
USER, GROUP, EVERYBODY = "S-1-22-1-{0}", "S-1-22-2-{0}", "S-1-1-0"
CREATOR_OWNER, CREATOR_GROUP = "S-1-3-0", "S-1-3-1"
FULL, CHANGE, READ = 0x1F01FF, 0x1301BF, 0x120089
# To files, to directories, and not to the directory itself.
BELOW = 0x0B
# Nobody of this machine has these.
JANE, CREW = 4_000_001, 4_000_002
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
TAGS = {1: "u::", 2: "u:{}:", 4: "g::", 8: "g:{}:", 16: "m::", 32: "o::"}


class Client:
    def __init__(self, target):
        self.connection = Connection(uuid.uuid4(), target.host, target.port)
        self.connection.connect(timeout=20)
        self.session = Session(self.connection, target.user, target.password, auth_protocol="ntlm")
        self.session.connect()
        self.tree = TreeConnect(self.session, rf"\\{target.host}\{target.share}")
        self.tree.connect()

    def open(self, path, disposition=Disposition.FILE_OPEN, options=0):
        made = Open(self.tree, path)
        made.create(ImpersonationLevel.Impersonation, Access.MAXIMUM_ALLOWED, 0, ALL, disposition, options)
        return made

    def make(self, path, directory=False):
        self.open(path, Disposition.FILE_CREATE, 1 if directory else 0).close()

    def send(self, request):
        return self.connection.receive(self.connection.send(request, self.session.session_id, self.tree.tree_connect_id))

    def set_dacl(self, path, *entries):
        acl, descriptor = AclPacket(), SMB2CreateSDBuffer()
        acl["aces"] = [ace(*entry) for entry in entries]
        descriptor["control"].set_value(0x8004)  # SELF_RELATIVE, DACL_PRESENT
        descriptor.set_dacl(acl)
        handle, asked = self.open(path), SMB2SetInfoRequest()
        asked["info_type"], asked["file_info_class"], asked["file_id"] = SECURITY, 0, handle.file_id
        asked["additional_information"], asked["buffer"] = DACL, descriptor.pack()
        self.send(asked)
        handle.close()

    def dacl(self, path):
        """Whom the list names, and with which rights."""
        handle, asked, got = self.open(path), SMB2QueryInfoRequest(), SMB2QueryInfoResponse()
        asked["info_type"], asked["file_info_class"], asked["file_id"] = SECURITY, 0, handle.file_id
        asked["additional_information"], asked["output_buffer_length"] = OWNER_GROUP_DACL, 65536
        got.unpack(self.send(asked)["data"].get_value())
        handle.close()
        descriptor = SMB2CreateSDBuffer()
        descriptor.unpack(bytes(got["buffer"].get_value()))
        entries = descriptor.get_dacl()["aces"].get_value()
        return [(str(entry["sid"].get_value()), entry["mask"].get_value()) for entry in entries]


def ace(sid, mask, flags=0):
    made, whose = AccessAllowedAce(), SIDPacket()
    whose.from_string(sid)
    made["mask"], made["sid"], made["ace_flags"] = mask, whose, flags
    return made


def posix_list(path, name=ACCESS):
    """As `u::6 u:7:4 ...`; empty where there is none."""
    try:
        data = os.getxattr(path, name)
    except OSError:
        return ""
    assert data[:4] == b"\2\0\0\0", data
    entries = [data[at : at + 8] for at in range(4, len(data), 8)]
    number = lambda part: int.from_bytes(part, "little")  # noqa: E731
    return " ".join(TAGS[number(e[:2])].format(number(e[4:])) + str(number(e[2:4])) for e in entries)


def as_user(uid, gid, *command):
    done = subprocess.run(command, user=uid, group=gid, extra_groups=[], capture_output=True, check=False)
    return done.returncode == 0


def is_(seen, wanted):
    assert seen == wanted, f"{seen!r}, not {wanted!r}"


def main():
    if os.geteuid() != 0:
        print("acl: needs root, nothing was checked")
        return
    target, story = Target.from_env(), Story("acl")
    client, top = Client(target), Path(target.directory) / TOP
    client.make(TOP, directory=True)
    owner = USER.format(top.stat().st_uid)
    jane, crew = USER.format(JANE), GROUP.format(CREW)
    file, there = top / "f", rf"{TOP}\f"
    client.make(there)

    with story.check("who is named in a descriptor is named in the list beside it"):
        client.set_dacl(there, (owner, FULL), (jane, CHANGE), (crew, READ))
        is_(posix_list(file), f"u::7 u:{JANE}:7 g::0 g:{CREW}:4 m::7 o::0")
        is_(oct(file.stat().st_mode & 0o777), oct(0o770))
    with story.check("and can do locally what it says"):
        assert as_user(JANE, JANE, "sh", "-c", f"echo by jane >>{file}"), "jane may write"
        assert as_user(1, CREW, "cat", file), "the crew may read"
        assert not as_user(1, CREW, "sh", "-c", f"echo by the crew >>{file}"), "the crew may not write"
        assert not as_user(1, 1, "cat", file), "nobody else may read"
    with story.check("the descriptor is told as it was set"):
        is_(client.dacl(there), [(owner, FULL), (jane, CHANGE), (crew, READ)])
    with story.check("a list that a local program changes is what is told"):
        value = os.getxattr(file, ACCESS)
        at = value.index(JANE.to_bytes(4, "little")) - 2
        os.setxattr(file, ACCESS, value[:at] + b"\4\0" + value[at + 2 :])
        rights = dict(client.dacl(there))
        assert rights[jane] & 3 == 1 and rights[crew] & 3 == 1, rights
    with story.check("a mode that a local program changes is what is told"):
        client.set_dacl(there, (owner, FULL), (jane, CHANGE))
        file.chmod(0o640)
        rights = dict(client.dacl(there))
        assert rights[jane] & 3 == 1, f"as far as the mask goes: {rights}"
    with story.check("a descriptor that names nobody has no list"):
        client.set_dacl(there, (owner, FULL), (EVERYBODY, READ))
        is_((posix_list(file), oct(file.stat().st_mode & 0o777)), ("", oct(0o744)))

    with story.check("what is inherited is a directory's default list"):
        client.make(rf"{TOP}\d", directory=True)
        client.set_dacl(
            rf"{TOP}\d", (owner, FULL), (CREATOR_OWNER, FULL, BELOW), (CREATOR_GROUP, READ, BELOW), (jane, CHANGE, BELOW)
        )  # fmt: skip
        is_(posix_list(top / "d", DEFAULT), f"u::7 u:{JANE}:7 g::4 m::7 o::0")
        is_(posix_list(top / "d"), "")
    with story.check("local programs' files get it, and clients' files what it says"):
        (top / "d" / "local").touch()
        client.make(rf"{TOP}\d\remote")
        client.make(rf"{TOP}\d\sub", directory=True)
        assert f"u:{JANE}:7" in posix_list(top / "d" / "local"), posix_list(top / "d" / "local")
        is_(posix_list(top / "d" / "remote"), f"u::7 u:{JANE}:7 g::4 m::7 o::0")
        is_(posix_list(top / "d" / "sub", DEFAULT), f"u::7 u:{JANE}:7 g::4 m::7 o::0")
        (top / "d" / "sub").chmod(0o755)
    with story.check("a directory that nothing is inherited from has none"):
        client.set_dacl(rf"{TOP}\d", (owner, FULL))
        is_(posix_list(top / "d", DEFAULT), "")
    story.end()


if __name__ == "__main__":
    main()
