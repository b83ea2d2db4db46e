# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of what ./dev dist made: the one executable in roots that have nothing, or another distribution's
libraries; the packages in their distributions. As root: they chroot.

    ./dev dist && python3 -m pytest tests/dist         what CI has time for
    ... --all  (or POLLUX_ALL=1)                       all distributions

A root is a folder below build-dist/roots, made by mmdebstrap and kept. Its /proc is that of this machine, as
in a container with the host's process namespace.
"""
import os
import shutil
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

ROOT = builder.ROOT
# name: suite, whose mirror mmdebstrap knows; the first ones are what CI runs
SLICE = {"debian-12": "bookworm", "debian-13": "trixie", "ubuntu-24.04": "noble"}
MORE = {
    "debian-11": "bullseye",
    "ubuntu-18.04": "bionic",
    "ubuntu-20.04": "focal",
    "ubuntu-22.04": "jammy",
}
# Tests copy roots.
LEAN = '--customize-hook=rm -rf "$1"/usr/share/doc/* "$1"/usr/share/locale/* "$1"/var/cache/apt/*.bin "$1"/var/lib/apt/lists/*'


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="all distributions")


def everything(config):
    return bool(config.getoption("--all") or os.environ.get("POLLUX_ALL"))


def pytest_generate_tests(metafunc):
    if "distribution" in metafunc.fixturenames:
        names = [*SLICE, *MORE] if everything(metafunc.config) else [*SLICE]
        metafunc.parametrize("distribution", names, scope="session")


@pytest.fixture(scope="session")
def dist():
    """The folder of what ./dev dist made."""
    folder = Path(os.environ.get("POLLUX_DIST", ROOT / "dist"))
    if not (folder / "SHA256SUMS").exists():
        pytest.fail(f"nothing in {folder}: ./dev dist makes it", pytrace=False)
    return folder


@pytest.fixture(scope="session")
def pollux(dist):
    return dist / "pollux"


@pytest.fixture(scope="session")
def only(dist):
    """only("*.deb"): the one file of that name."""
    def find(pattern):
        found = sorted(dist.glob(pattern))
        assert len(found) == 1, (pattern, found)
        return found[0]

    return find


class Root:
    """A folder that programs have as their root."""

    def __init__(self, folder):
        self.folder = Path(folder)
        (self.folder / "proc").mkdir(exist_ok=True)

    def command(self, *words):
        """What runs these words in it."""
        script = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
        return ["unshare", "--mount", "sh", "-c", script, str(self.folder), *map(str, words)]

    def run(self, *words, **options):
        return driver.run(*self.command(*words), **options)

    def good(self, *words, **options):
        """What a command prints that must end well."""
        done = self.run(*words, **options)
        assert done.returncode == 0, (words, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout


@pytest.fixture
def empty(tmp_path, pollux):
    """A root with one file, the executable: what an image FROM scratch has."""
    if os.geteuid() != 0:
        pytest.skip("only root can enter a root")
    folder = tmp_path / "empty"
    folder.mkdir()
    shutil.copy(pollux, folder / "pollux")
    return Root(folder)


@pytest.fixture(scope="session")
def roots():
    """roots(NAME): a copy of a distribution's root, small as mmdebstrap makes it, with apt."""
    kept = ROOT / "build-dist/roots"
    unavailable = {}

    def build(name, suite, *options):
        """None, or what mmdebstrap said."""
        kept.mkdir(parents=True, exist_ok=True)
        with builder.locked(f"root-{name}"):
            if (kept / name).exists():
                return None
            part = kept / f"{name}.part"
            if part.exists():
                shutil.rmtree(part)
            # What it may leave mounted is gone with it.
            done = driver.run("unshare", "--mount", "mmdebstrap", "--quiet", *options, suite, part, timeout=900)
            if done.returncode:
                return done.stderr[-2000:]
            part.rename(kept / name)
            return None

    def make(name):
        if os.geteuid() != 0:
            pytest.skip("only root can make a root and enter it")
        suite, options = {**SLICE, **MORE}[name], ["--variant=apt", LEAN]
        if not name.startswith("ubuntu"):
            problem = build(name, suite, *options)
            assert not problem, problem
        elif name not in unavailable:
            # Debian 13 has the keys of Ubuntu's packages, Debian 12 does not.
            problem = build("ubuntu-keys", "trixie", "--variant=extract", "--include=ubuntu-keyring")
            assert not problem, problem
            keys = kept / "ubuntu-keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"
            # Where only Debian's packages are to be had, that is no fault of pollux.
            unavailable[name] = build(name, suite, f"--keyring={keys}", *options)
        if unavailable.get(name):
            pytest.skip(f"mmdebstrap makes no root of {name}: {unavailable[name].strip().splitlines()[-1]}")
        return kept / name

    return make


@pytest.fixture
def root(roots, distribution, tmp_path):
    """A root of the distribution, which the test may change."""
    folder = tmp_path / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", roots(distribution), folder], check=True)
    yield Root(folder)
    shutil.rmtree(folder)


@pytest.fixture
def tree_program():
    """A program of tests/tree, running: its tasks are at known await points."""
    path = builder.build("tokio-1.54", "release-debug", "tree", root=ROOT / "tests/tree")
    with driver.Target(path, wait=()) as target:
        yield target
        assert target.end() == 0, "the program came to harm"
