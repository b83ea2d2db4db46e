# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of `pollux record --futures`: the real command on programs that count their futures' polls.

    POLLUX=build/src/cli/pollux python3 -m pytest tests/futures      what CI has time for
    ... --all  (or POLLUX_ALL=1)                                     every runtime and profile
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import build as builder  # noqa: E402
import driver  # noqa: E402

SLICE = [("tokio-1.54", "debug"), ("tokio-1.54", "release-debug"), ("smol-2", "debug")]
MORE = [
    (package, profile)
    for package in ("tokio-1.54", "smol-2", "async-std-1.13")
    for profile in ("debug", "release-debug")
]
PARKERS = [
    ("smol-2", "rooted"),
    ("smol-2", "rooted_executor"),
    ("async-std-1.13", "rooted"),
    ("async-std-1.12", "rooted"),
]
BARE = [
    (package, profile)
    for package in ("smol-2", "async-std-1.13")
    for profile in ("release", "stripped")
]
PARKER_PROFILES = ["release-debug", "lto-debug", "debug"]


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="every runtime and profile")


def everything(config):
    return bool(config.getoption("--all") or os.environ.get("POLLUX_ALL"))


def pytest_generate_tests(metafunc):
    if "built" in metafunc.fixturenames:
        builds = MORE if everything(metafunc.config) else SLICE
        metafunc.parametrize("built", builds, ids=["-".join(one) for one in builds])
    if "parker" in metafunc.fixturenames:
        # async-io 2, and 1, whose block_on ends otherwise
        parkers = [(*program, profile) for program in PARKERS for profile in PARKER_PROFILES]
        slice = [(*program, "release-debug") for program in PARKERS[:3]]
        builds = parkers if everything(metafunc.config) else slice
        metafunc.parametrize("parker", builds, ids=["-".join(one) for one in builds])
    if "bare" in metafunc.fixturenames:
        builds = BARE if everything(metafunc.config) else BARE[:1]
        metafunc.parametrize("bare", builds, ids=["-".join(one) for one in builds])


@pytest.fixture(scope="session")
def pollux():
    path = driver.pollux_path()
    if not os.access(path, os.X_OK):
        pytest.fail(f"no pollux at {path}: build it, or set POLLUX", pytrace=False)
    return path


@pytest.fixture
def all_of_it(request):
    return everything(request.config)


class Program:
    """A program of this folder: it says `ready PID`, and goes on at each line that it is given."""

    def __init__(self, path, *args):
        self.process = subprocess.Popen(
            [str(path), *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = []
        self.pid = int(self.until("ready ").split()[1])

    def until(self, start):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(start):
                return line
        raise AssertionError(f"no line {start!r}: {self.lines}, exit {self.process.wait()}")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """Its exit status, after its last line."""
        out, _ = self.process.communicate("\n", timeout=60)
        self.lines += out.splitlines()
        return self.process.returncode

    def truth(self):
        """{name: (begun, polls, ready, panicked)} as the program counted."""
        words = [line.split() for line in self.lines if line.startswith("truth ")]
        return {name: tuple(map(int, counts)) for _, name, *counts in words}

    def sum(self):
        return next(line for line in self.lines if line.startswith("sum "))


@pytest.fixture
def start():
    """start(package, profile, binary, *args)"""
    running = []

    def run(package, profile, binary, *args):
        path = builder.build(package, profile, binary, root=HERE)
        running.append(Program(path, *args))
        return running[-1]

    yield run
    for program in running:
        if program.process.poll() is None:
            program.process.kill()
        program.process.wait()
