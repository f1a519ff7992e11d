#!/usr/bin/env python3
"""A server is killed while files are open with persistent handles, and another one comes up on the same state.

    TARGET/venv/bin/python conformance/stories/persistent_story.py

Starts and kills servers of its own ($LONGSHORE_BIN). The client is the smbprotocol library.
"""

import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from smbprotocol import exceptions as err  # noqa: E402
from smbprotocol.connection import Capabilities, Connection  # noqa: E402
from smbprotocol.create_contexts import (  # noqa: E402
    CreateContextName, DurableHandleFlags, LeaseState, SMB2CreateContextRequest, SMB2CreateDurableHandleReconnectV2,
    SMB2CreateDurableHandleRequestV2, SMB2CreateDurableHandleResponseV2, SMB2CreateRequestLeaseV2,
    SMB2CreateResponseLeaseV2,
)  # fmt: skip
from smbprotocol.open import (  # noqa: E402
    CreateDisposition as Disposition, CreateOptions as Options, FilePipePrinterAccessMask as Access,
    ImpersonationLevel, LockFlags, Open, RequestedOplockLevel, ShareAccess as Share, SMB2LockElement,
)  # fmt: skip
from smbprotocol.session import Session  # noqa: E402
from smbprotocol.tree import TreeConnect  # noqa: E402

from server import PASSWORD, USER, Server  # noqa: E402
from story import Story, refused  # noqa: E402

STATUS_FILE_NOT_AVAILABLE = 0xC0000467
STATUS_LOCK_NOT_GRANTED = 0xC0000055
STATUS_OBJECT_NAME_NOT_FOUND = 0xC0000034
RWH = LeaseState.SMB2_LEASE_READ_CACHING | LeaseState.SMB2_LEASE_WRITE_CACHING | LeaseState.SMB2_LEASE_HANDLE_CACHING
ALL = Share.FILE_SHARE_READ | Share.FILE_SHARE_WRITE | Share.FILE_SHARE_DELETE
PERSISTENT = DurableHandleFlags.SMB2_DHANDLE_FLAG_PERSISTENT
CLIENT, KEY = uuid.uuid4(), uuid.uuid4().bytes


def connect(server, client):
    connection = Connection(client, "127.0.0.1", server.port)
    connection.connect(timeout=20)
    session = Session(connection, USER, PASSWORD, auth_protocol="ntlm")
    session.connect()
    tree = TreeConnect(session, r"\\127.0.0.1\kept")
    tree.connect()
    return tree


def context(name, data):
    wrapped = SMB2CreateContextRequest()
    wrapped["buffer_name"], wrapped["buffer_data"] = name, data
    return wrapped


def asked(guid):
    data = SMB2CreateDurableHandleRequestV2()
    data["flags"], data["create_guid"] = PERSISTENT, guid
    return context(CreateContextName.SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2, data)


def back(guid, file_id):
    data = SMB2CreateDurableHandleReconnectV2()
    data["file_id"], data["create_guid"], data["flags"] = file_id, guid, PERSISTENT
    return context(CreateContextName.SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2, data)


def leased():
    data = SMB2CreateRequestLeaseV2()
    data["lease_key"], data["lease_state"] = KEY, RWH
    data["parent_lease_key"], data["epoch"] = bytes(16), b"\0\0"
    return context(CreateContextName.SMB2_CREATE_REQUEST_LEASE_V2, data)


def create(tree, name, contexts=(), lease=False, disposition=Disposition.FILE_OPEN_IF, options=0):
    """The open, and what the answer's contexts say."""
    handle = Open(tree, name)
    answer = handle.create(
        ImpersonationLevel.Impersonation, Access.GENERIC_READ | Access.GENERIC_WRITE | Access.DELETE, 0, ALL,
        disposition, options, list(contexts),
        RequestedOplockLevel.SMB2_OPLOCK_LEVEL_LEASE if lease else RequestedOplockLevel.SMB2_OPLOCK_LEVEL_NONE,
    )  # fmt: skip
    return handle, answer or []


def one(answer, kind):
    found = [a for a in answer if isinstance(a, kind)]
    assert found, f"no {kind.__name__} in the answer"
    return found[0]


def lock(handle, offset, length, flags):
    element = SMB2LockElement()
    element["offset"], element["length"], element["flags"] = offset, length, flags
    handle.lock([element])


def main():
    story = Story("persistent handles")
    with tempfile.TemporaryDirectory(prefix="longshore-kept-") as top:
        top = Path(top)
        top.chmod(0o755)
        for name in ("kept", "plain"):
            (top / name).mkdir()
            (top / name).chmod(0o777)
        config = top / "longshore.toml"
        config.write_text(f'[share.kept]\npath = "{top}/kept"\ncontinuously_available = true\n')

        def start():
            server = Server(
                share="plain", directory=top / "plain", log=top / "server.log",
                extra_args=["--config", str(config), "--state", str(top / "state")],
            )  # fmt: skip
            server.start()
            return server

        tell(story, start, top / "kept")
    story.end()


def tell(story, start, directory):
    exclusive = LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK | LockFlags.SMB2_LOCKFLAG_FAIL_IMMEDIATELY
    first, second, server = uuid.uuid4(), uuid.uuid4(), start()
    try:
        with story.check("persistent handles are granted on the share"):
            tree = connect(server, CLIENT)
            capabilities = tree.session.connection.server_capabilities
            assert capabilities.has_flag(Capabilities.SMB2_GLOBAL_CAP_PERSISTENT_HANDLES), "no such capability"
            handle, answer = create(tree, "f", [asked(first), leased()], lease=True)
            assert one(answer, SMB2CreateDurableHandleResponseV2)["flags"].has_flag(PERSISTENT)
            assert one(answer, SMB2CreateResponseLeaseV2)["lease_state"].get_value() == RWH
            epoch = one(answer, SMB2CreateResponseLeaseV2)["epoch"].get_value()
            going, answer = create(tree, "going", [asked(second)], options=Options.FILE_DELETE_ON_CLOSE)
            assert one(answer, SMB2CreateDurableHandleResponseV2)["flags"].has_flag(PERSISTENT), "without a lease"
        handle.write(b"before the crash", 0)
        lock(handle, 100, 10, exclusive)
        lock(handle, 200, 10, exclusive)
        lock(handle, 200, 10, LockFlags.SMB2_LOCKFLAG_UNLOCK)

        server.process.kill()
        server.process.wait()
        server = start()

        with story.check("another client is kept off while the first is away"):
            other = connect(server, uuid.uuid4())
            wrong = refused(lambda: create(other, "f"), err.SMBResponseException)
            assert wrong.status == STATUS_FILE_NOT_AVAILABLE, f"{wrong.status:#x}"
        with story.check("the handle, the lease and its epoch are back after kill -9"):
            tree = connect(server, CLIENT)
            again, answer = create(tree, "f", [back(first, handle.file_id), leased()], lease=True)
            lease = one(answer, SMB2CreateResponseLeaseV2)
            assert lease["lease_state"].get_value() == RWH, lease["lease_state"].get_value()
            assert lease["epoch"].get_value() == epoch, lease["epoch"].get_value()
            assert again.file_id[:8] == handle.file_id[:8], "another persistent id"
            assert again.read(0, 16) == b"before the crash"
        with story.check("its ranges are locked as they were"):
            wrong = refused(lambda: lock(again, 100, 10, exclusive), err.SMBResponseException)
            assert wrong.status == STATUS_LOCK_NOT_GRANTED, f"{wrong.status:#x}"
            lock(again, 200, 10, exclusive)
            lock(again, 100, 10, LockFlags.SMB2_LOCKFLAG_UNLOCK)
        with story.check("it writes on, and is closed for good"):
            again.write(b"after", 0)
            again.close()
            assert (directory / "f").read_bytes() == b"aftere the crash"
            wrong = refused(lambda: create(tree, "f", [back(first, handle.file_id)]), err.SMBResponseException)
            assert wrong.status == STATUS_OBJECT_NAME_NOT_FOUND, f"{wrong.status:#x}"
        with story.check("delete-on-close survives"):
            assert (directory / "going").exists()
            again, _ = create(tree, "going", [back(second, going.file_id)])
            again.close()
            assert not (directory / "going").exists()
        with story.check("nothing is left for a third server"):
            server.process.kill()
            server.process.wait()
            server = start()
            other = connect(server, uuid.uuid4())
            free, _ = create(other, "f")
            free.close()
            assert "lost" not in server.output(), server.output()[-300:]
        with story.check("opening and closing takes a few milliseconds"):
            began, rounds = time.monotonic(), 50
            for number in range(rounds):
                made, _ = create(other, "timed", [asked(uuid.uuid4())])
                made.close()
            each = (time.monotonic() - began) / rounds
            print(f"        {each * 1000:.1f} ms for each open and close")
            assert each < 1, "a second and more"
    finally:
        server.stop()


if __name__ == "__main__":
    main()
