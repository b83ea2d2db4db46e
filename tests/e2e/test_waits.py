# SPDX-License-Identifier: MIT OR Apache-2.0
"""Threads that wait in the kernel: pollux stops them, and none of their calls returns for that."""
import os
import time
from pathlib import Path

import build
import driver
import pytest

HERE = Path(__file__).parent
# The number of the call in which each waits (x86-64).
CALLS = {"in_epoll": 232, "in_sigwait": 128, "in_recv": 45, "in_read": 0, "in_recvmmsg": 299, "in_sendfile": 40,
         "in_splice": 275}
WORKER = "iou-wrk-"


def waiting(pid):
    """The names of those that are in their call, and of the kernel's workers that sleep."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, call = (task / "comm").read_text().strip(), (task / "syscall").read_text().split()
        if name in CALLS and call[0] == str(CALLS[name]):
            found.add(name)
        elif name.startswith(WORKER) and ") S " in (task / "stat").read_text():
            found.add("worker")
    return found


@pytest.fixture
def target(suite):
    """`steady` with such threads; target.said(): what their calls have returned."""
    library = build.compile_c(HERE / "waits.c", "waits.so", "-shared", "-fPIC", "-pthread")
    end, said = os.pipe()
    os.set_inheritable(said, True)
    os.set_blocking(end, False)
    with driver.Target(suite(), "steady", env={"LD_PRELOAD": str(library), "SAID": str(said)},
                       pass_fds=(said,)) as target:
        os.close(said)
        lines = []

        def read():
            try:
                lines.extend(os.read(end, 65536).decode().splitlines())
            except BlockingIOError:
                pass
            return [line for line in lines if not line.startswith("uring")]

        deadline, wanted = time.monotonic() + driver.TIMEOUT, set(CALLS) | {"worker"}
        while waiting(target.pid) != wanted and time.monotonic() < deadline:
            read()
            if any(line.startswith("uring not") for line in lines):
                wanted.discard("worker")
            time.sleep(0.005)
        assert waiting(target.pid) == wanted, lines
        assert not read(), lines
        target.said = read
        yield target
    os.close(end)


def finish(target):
    assert not target.said(), target.said()
    target.go()
    assert target.end() == 0, target.errors
    assert target.output() == ["steady to the end"]
    assert not target.said(), target.said()


def test_no_call_returns(pollux, target, trace):
    """For an attach or a detach, of which each stops all threads several times."""
    target.go()
    for _ in range(3):
        result = driver.record_a_while(pollux, target.pid, trace, 0.05)
        assert result.returncode == 0, result.stderr
    finish(target)


def test_no_call_returns_for_a_look(pollux, target):
    target.go()
    for _ in range(3):
        result = driver.run(pollux, "tree", target.pid)
        assert result.returncode == 0, result.stderr
    finish(target)
