#!/usr/bin/env python3
"""Many of a thing cost what they should: opens held by one session, waiting notifies, misses in a large directory.

    conformance/with-server conformance/stories/many.py

Memory has limits in MiB; times are compared with times of the same run, since machines differ.
"""

import contextlib
import resource
import shutil
import statistics
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from rawsmb import CHANGE_NOTIFY, DIRECTORY, PENDING, SUCCESS, WRITE, RawClient  # noqa: E402
from server import Target  # noqa: E402
from story import Story  # noqa: E402

TOP = "many-story"
OPENS, NOTIFIES = 100_000, 10_000
READ_ATTRIBUTES, LIST = 0x80, 0x1
NOT_FOUND = 0xC0000034
MIB = 1 << 20


def seconds_each(times, act):
    """Median of what `act` takes, so that one pause of the machine does not count."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        act(number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def opened(client, name, **more):
    status, handle = client.create(name, **more)
    assert status == SUCCESS, f"{name}: {status:#010x}"
    return handle


def missed(client, name):
    status, _ = client.create(name, access=READ_ATTRIBUTES)
    assert status == NOT_FOUND, f"{name}: {status:#010x}"


def wait_for_change(client, handle):
    """Sends a CHANGE_NOTIFY for names, and takes its interim response."""
    body = struct.pack("<HHI16sII", 32, 0, 4096, handle, 3, 0)
    client.send_bytes(client.framed(client.message(CHANGE_NOTIFY, body)))
    reply = client.receive()
    client.credits += reply.credits
    assert reply.status == PENDING, reply


def make_files(directory, count):
    directory.mkdir(parents=True)
    directory.chmod(0o777)
    for number in range(count):
        (directory / f"File{number:06}").touch()


def main():
    target, story = Target.from_env(), Story("many")
    disk = target.directory / TOP
    shutil.rmtree(disk, ignore_errors=True)
    make_files(disk / "large", OPENS)
    make_files(disk / "small", 10)
    (disk / "watched").mkdir()

    with story.check("a miss in a directory of 100,000 names, ignoring case, costs what one in a small directory does"):
        with_small, with_large = RawClient(target.host, target.port).enter(target), RawClient(target.host, target.port).enter(target)
        missed(with_large, rf"{TOP}\large\MISSING")  # makes the index
        small = seconds_each(500, lambda n: missed(with_small, rf"{TOP}\small\missing{n}"))
        large = seconds_each(500, lambda n: missed(with_large, rf"{TOP}\large\missing{n}"))
        print(f"        {small * 1e6:.0f} us there, {large * 1e6:.0f} us here")
        assert large < 2 * small + 50e-6, f"{large * 1e6:.0f} us against {small * 1e6:.0f} us"

    with story.check("100,000 opens of one session: less than 200 MiB, and the last cost what the first did"):
        hard = resource.prlimit(target.pid, resource.RLIMIT_NOFILE)[1]
        with contextlib.suppress(OSError):  # only the superuser of the machine itself may
            resource.prlimit(target.pid, resource.RLIMIT_NOFILE, (OPENS + 5000, max(hard, OPENS + 5000)))
            hard = max(hard, OPENS + 5000)
        count = min(OPENS, hard - 1000)
        client = RawClient(target.host, target.port).enter(target)
        before = target.rss_bytes()

        def hold(number):
            opened(client, rf"{TOP}\large\File{number:06}", access=READ_ATTRIBUTES)

        first = seconds_each(1000, hold)
        for number in range(1000, count - 1000):
            hold(number)
        last = seconds_each(1000, lambda n: hold(count - 1000 + n))
        grown = target.rss_bytes() - before
        print(f"        {count} opens, {grown / MIB:.0f} MiB, {first * 1e6:.0f} us at first, {last * 1e6:.0f} us at last")
        # Where the system does not let the server have as many descriptors it is the share of those it has.
        assert grown < 200 * MIB * count / OPENS, f"{grown / MIB:.0f} MiB for {count}"
        assert last < 2 * first + 50e-6, f"{last * 1e6:.0f} us against {first * 1e6:.0f} us"
        client.close()

    with story.check("10,000 waiting notifies, each with an open of its own: less than 120 MiB, and others work as before"):
        worker, client = RawClient(target.host, target.port).enter(target), RawClient(target.host, target.port).enter(target)

        def work(number):
            handle = opened(worker, rf"{TOP}\small\File000001", access=2)
            assert worker.call(WRITE, worker.write_body(handle, number, b"x")).status == SUCCESS
            worker.close_file(handle)

        alone, before = seconds_each(300, work), target.rss_bytes()
        for _ in range(NOTIFIES):
            wait_for_change(client, opened(client, rf"{TOP}\watched", access=LIST, options=DIRECTORY))
        grown, beside = target.rss_bytes() - before, seconds_each(300, work)
        print(f"        {grown / MIB:.0f} MiB, opening, writing and closing {alone * 1e6:.0f} us before, {beside * 1e6:.0f} us beside them")
        assert grown < 120 * MIB, f"{grown / MIB:.0f} MiB"
        assert beside < 2 * alone + 200e-6, f"{beside * 1e6:.0f} us against {alone * 1e6:.0f} us"
        began = time.perf_counter()
        (disk / "watched" / "something").touch()
        answers = 0
        while answers < NOTIFIES:
            reply = client.receive()
            answers += reply.command == CHANGE_NOTIFY and reply.status == SUCCESS
        print(f"        all told of a change in {time.perf_counter() - began:.2f} s")
    shutil.rmtree(disk, ignore_errors=True)
    story.end()


if __name__ == "__main__":
    main()
