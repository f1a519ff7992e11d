#!/usr/bin/env python3
"""Who watches a directory is told what others change in it: other SMB clients, and programs on the server's own machine.

    conformance/with-server TARGET/venv/bin/python conformance/stories/notify_story.py
"""

import os
import shutil
import sys
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from smbprotocol.change_notify import ChangeNotifyFlags, CompletionFilter, FileSystemWatcher  # noqa: E402
from smbprotocol.connection import Connection  # noqa: E402
from smbprotocol.open import (  # noqa: E402
    CreateDisposition as Disposition, CreateOptions as Options, DirectoryAccessMask, FilePipePrinterAccessMask as Access,
    ImpersonationLevel, Open, ShareAccess as Share,
)  # fmt: skip
from smbprotocol.session import Session  # noqa: E402
from smbprotocol.tree import TreeConnect  # noqa: E402

from server import Target  # noqa: E402
from story import Story  # noqa: E402

TOP = "notify-story"
ALL = Share.FILE_SHARE_READ | Share.FILE_SHARE_WRITE | Share.FILE_SHARE_DELETE
EVERYTHING = (
    CompletionFilter.FILE_NOTIFY_CHANGE_FILE_NAME | CompletionFilter.FILE_NOTIFY_CHANGE_DIR_NAME
    | CompletionFilter.FILE_NOTIFY_CHANGE_SIZE | CompletionFilter.FILE_NOTIFY_CHANGE_LAST_WRITE
)  # fmt: skip
ACTIONS = {1: "added", 2: "removed", 3: "modified", 4: "from", 5: "to"}


def connect(target):
    connection = Connection(uuid.uuid4(), target.host, target.port)
    connection.connect(timeout=20)
    session = Session(connection, target.user, target.password, auth_protocol="ntlm")
    session.connect()
    tree = TreeConnect(session, rf"\\{target.host}\{target.share}")
    tree.connect()
    return tree


class Watched:
    """A directory that is watched; what was told comes in order."""

    def __init__(self, tree, path, below):
        self.dir = Open(tree, path)
        self.dir.create(
            ImpersonationLevel.Impersonation, DirectoryAccessMask.FILE_LIST_DIRECTORY, 0, ALL, Disposition.FILE_OPEN,
            Options.FILE_DIRECTORY_FILE,
        )  # fmt: skip
        self.flags = ChangeNotifyFlags.SMB2_WATCH_TREE if below else 0
        self.watcher = None
        self.ask()

    def ask(self):
        self.watcher = FileSystemWatcher(self.dir)
        self.watcher.start(EVERYTHING, self.flags)

    def until(self, *last, seconds=20):
        """What was told until `last` was, which must come."""
        told, end = [], time.monotonic() + seconds
        while last not in told:
            assert time.monotonic() < end, f"told {told}, not {last}"
            if not self.watcher.response_event.wait(0.1):
                continue
            found = self.watcher.result
            told += [(ACTIONS[f["action"].get_value()], f["file_name"].get_value()) for f in found]
            self.ask()
        return told


def make(tree, path):
    handle = Open(tree, path)
    handle.create(ImpersonationLevel.Impersonation, Access.GENERIC_WRITE, 0, ALL, Disposition.FILE_CREATE, 0)
    handle.write(b"by a client", 0)
    handle.close()


def main():
    target = Target.from_env()
    story, disk = Story("notify"), target.directory / TOP
    shutil.rmtree(disk, ignore_errors=True)
    (disk / "below").mkdir(parents=True)
    for path in (disk, disk / "below"):
        path.chmod(0o777)
    tree, other = connect(target), connect(target)
    watched, deep = Watched(tree, TOP, False), Watched(tree, TOP, True)

    with story.check("another client makes a file: told once"):
        make(other, rf"{TOP}\smb.txt")
        (disk / "mark1").touch()
        told = watched.until("added", "mark1")
        assert told.count(("added", "smb.txt")) == 1, told
        modified = [what for what in told if what == ("modified", "smb.txt")]
        assert len(modified) <= 2, told
    with story.check("a local program makes, renames and removes files"):
        (disk / "local.txt").write_text("local")
        os.rename(disk / "local.txt", disk / "renamed.txt")
        (disk / "renamed.txt").unlink()
        told = watched.until("removed", "renamed.txt")
        for want in [("added", "local.txt"), ("from", "local.txt"), ("to", "renamed.txt")]:
            assert want in told, (want, told)
    with story.check("a local program writes to a file"):
        with open(disk / "mark1", "a") as file:
            file.write("more")
        watched.until("modified", "mark1")
    with story.check("what happens below is told where it was asked for"):
        (disk / "below" / "deep").touch()
        (disk / "below" / "new").mkdir()
        deep.until("added", r"below\new")
        time.sleep(0.3)
        (disk / "below" / "new" / "deeper").touch()
        deep.until("added", r"below\new\deeper")
        (disk / "mark2").touch()
        assert not any("\\" in name for _, name in watched.until("added", "mark2"))
    shutil.rmtree(disk, ignore_errors=True)
    story.end()


if __name__ == "__main__":
    main()
