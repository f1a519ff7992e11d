"""What the live tests of smbprotocol want from their surroundings; only those run. `suites/run` puts it beside them."""

import os
import time

import pytest
import smbclient
from smbclient.shutil import rmtree

LIVE = {"smb_real", "smb_share"}


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if LIVE & set(getattr(item, "fixturenames", ()))]


@pytest.fixture(scope="module")
def smb_real():
    """User, password, server, port, and the paths of the share and of the one that is always encrypted."""
    env = os.environ
    share = rf"\\{env['SMB_SERVER']}\{env['SMB_SHARE']}"
    return env["SMB_USER"], env["SMB_PASSWORD"], env["SMB_SERVER"], int(env["SMB_PORT"]), share, f"{share}-encrypted"


@pytest.fixture(params=[4, 5], ids=["share", "share-encrypted"])
def smb_share(request, smb_real):
    """A new directory in either share, with slashes of either kind."""
    user, password, server, port = smb_real[:4]
    path = rf"{smb_real[request.param]}\Ünï {time.time()} 💩"
    if request.param == 5:
        path = path.replace("\\", "/")
    smbclient.delete_session(server, port)
    smbclient.mkdir(path, username=user, password=password, port=port)
    yield path
    rmtree(path, username=user, password=password, port=port)
