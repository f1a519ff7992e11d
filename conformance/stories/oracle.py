#!/usr/bin/env python3
"""Read one file over each path the server has, and hold its own counters against what should have happened.

  conformance/stories/oracle.py        starts its own server; needs the Debian package smbclient

The same bytes must arrive by the page path (plain), the copy path (plain, where pages are turned off), signed
and encrypted; and the counters must say that each was the path taken and no other.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from server import PASSWORD, USER, Server  # noqa: E402
from story import Story  # noqa: E402

PATHS = ["read_pages", "read_copy", "read_signed", "read_sealed"]
LARGE = 12_345_678


def counts(server):
    """The server's counters, asked for over its control socket."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(10)
        control.connect(str(server.state / "control.sock"))
        control.sendall(b"GET /status HTTP/1.1\r\n\r\n")
        answer = b"".join(iter(lambda: control.recv(65536), b""))
    head, body = answer.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200"), head
    return json.loads(body)["counters"]


def get(server, name, to, *options):
    command = ["smbclient", "--configfile=/dev/null", f"//127.0.0.1/{server.share}", "-p", str(server.port)]
    command += ["-U", f"{USER}%{PASSWORD}", *options, "-c", f"get {name} {to}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"smbclient: {done.stdout}{done.stderr}")


def case(story, server, work, what, options, path):
    """Get the file, and expect its bytes and one path."""
    with story.check(what):
        before, to = counts(server), Path(work) / "got"
        get(server, "large", to, *options)
        after = counts(server)
        taken = {p: after[p] - before[p] for p in PATHS if after[p] != before[p]}
        assert to.read_bytes() == (server.directory / "large").read_bytes(), "other bytes arrived"
        # The last READ may ask for less than the threshold.
        stray = [p for p in taken if p != path and not (p == "read_copy" and taken[p] == 1)]
        assert taken.get(path, 0) > 0 and not stray, f"paths taken: {taken}"


def main():
    story = Story("oracle")
    with tempfile.TemporaryDirectory() as work:
        config = Path(work) / "copy.toml"
        config.write_text('[data-path]\npage_read_bytes = "off"\n')
        states = [Path(work) / name for name in ("state", "state-of-copying")]
        args = [["--state", str(state)] for state in states]
        with Server(extra_args=args[0]) as server, Server(extra_args=[*args[1], "--config", str(config)]) as copying:
            for each, state in zip((server, copying), states):
                each.state = state
                (each.directory / "large").write_bytes(os.urandom(LARGE))
            plain = ["--client-protection=off"]
            case(story, server, work, "a plain READ moves pages", plain, "read_pages")
            case(story, copying, work, "a plain READ is copied where pages are off", plain, "read_copy")
            case(story, server, work, "a signed READ is copied and signed", ["--client-protection=sign"], "read_signed")
            case(story, server, work, "an encrypted READ is copied and sealed", ["--client-protection=encrypt"], "read_sealed")
    story.end()


if __name__ == "__main__":
    main()
