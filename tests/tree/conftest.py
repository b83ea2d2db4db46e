# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of `pollux tree`: the real command on programs whose tasks are at known await points.

    POLLUX=build/src/cli/pollux python3 -m pytest tests/tree         what CI has time for
    ... --all  (or POLLUX_ALL=1)                                     every version and profile
"""
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
# Sentences are looked for whole: no line is broken.
os.environ["COLUMNS"] = "500"

import build as builder  # noqa: E402
import driver  # noqa: E402

# (package, profile); the first ones are what CI runs
SLICE = [("tokio-1.54", "release-debug"), ("smol-2", "debug")]
MORE = [
    (package, profile)
    for package in ("tokio-1.54", "tokio-1.23", "smol-2", "async-std-1.13")
    for profile in ("release-debug", "debug", "release-lto")
]


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="every version and profile")


def everything(config):
    return bool(config.getoption("--all") or os.environ.get("POLLUX_ALL"))


def pytest_generate_tests(metafunc):
    if "built" in metafunc.fixturenames:
        builds = MORE if everything(metafunc.config) else SLICE
        metafunc.parametrize("built", builds, ids=["-".join(one) for one in builds])


@pytest.fixture(scope="session")
def pollux():
    path = driver.pollux_path()
    if not os.access(path, os.X_OK):
        pytest.fail(f"no pollux at {path}: build it, or set POLLUX", pytrace=False)
    return path


@pytest.fixture(scope="session")
def all_of_it(request):
    return everything(request.config)


class Program:
    """A program of this folder, running; it says `ready PID` and ends with its standard input."""

    def __init__(self, path, *args):
        self.path = path
        self.process = subprocess.Popen(
            [str(path), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = []
        for line in self.process.stdout:
            if line.startswith("ready "):
                break
            self.lines.append(line.rstrip("\n"))
        else:
            raise AssertionError(f"{path} ended before it was ready")
        self.pid = int(line.split()[1])

    def alive(self):
        return self.process.poll() is None

    def close(self):
        """Its last words; it must end well."""
        if self.process.poll() is None:
            self.lines += self.process.communicate(timeout=30)[0].splitlines()
        assert self.process.returncode == 0, f"{self.path} came to harm: {self.process.returncode}"
        return self.lines


@pytest.fixture
def start():
    """start(package, profile, binary, *args): runs until the test ends, and must end well."""
    running = []

    def run(package, profile, binary="tree", *args):
        path = builder.build(package, profile, binary, root=HERE)
        running.append(Program(path, *args))
        return running[-1]

    yield run
    for program in running:
        program.close()
