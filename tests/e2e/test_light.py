# SPDX-License-Identifier: MIT OR Apache-2.0
"""What it costs to look at a program, and that what pollux itself has too little of is said as that."""
import os
import re
import resource
import subprocess
import sys

import driver
import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

NO_CACHE = {**os.environ, "XDG_CACHE_HOME": "/dev/null"}
LIBRARIES = 24


def peak(*command):
    """Of a command that succeeds: how much memory it had at most."""
    process = subprocess.Popen([str(word) for word in command], env=NO_CACHE, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


def loaded(paths):
    """A process that has loaded these libraries."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import ctypes, sys\nkept = [ctypes.CDLL(path) for path in sys.argv[1:]]\n"
         "print('loaded', flush=True)\nsys.stdin.read()", *paths],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "loaded\n"
    return process


@pytest.mark.parametrize("owner", [0, 65534], ids=["mapped", "copied"])
def test_one_library_at_a_time(pollux, suite, tmp_path, owner):
    """Of many libraries one lies in memory: those that are mapped, and those of others, which are copied."""
    content = suite("cdylib", "release", "libtokio_inside.so").read_bytes()
    paths = []
    for number in range(LIBRARIES):
        path = tmp_path / f"lib{number}.so"
        path.write_bytes(content)
        path.chmod(0o755)
        os.chown(path, owner, owner)
        paths.append(str(path))
    one, many = loaded(paths[:1]), loaded(paths)
    try:
        difference = peak(pollux, "doctor", many.pid) - peak(pollux, "doctor", one.pid)
    finally:
        for process in (one, many):
            process.communicate("", timeout=driver.TIMEOUT)
    assert difference < LIBRARIES / 8 * len(content), (difference, len(content))


def test_found_once(pollux, suite, tmp_path):
    """The second attach finds what the first has found, and says the same of it."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with driver.Target(suite(), "multi_thread") as target:
        def attach():
            result = driver.run(pollux, "record", "-p", target.pid, "-d", "0.1", "-o", tmp_path / "t.plx", env=env)
            assert result.returncode == 0, result.stderr
            kept = {entry.name: entry.stat().st_ino for entry in (tmp_path / "cache" / "pollux").glob("*.scan")}
            return re.findall(r"^ +(?:seen|not seen):.*", result.stderr, re.M), kept

        cold, first = attach()
        warm, second = attach()
        assert cold == warm
        # What was not there would have been put in its place again.
        assert first == second and first
        target.go()
        target.truth()
        target.go()
        assert target.end() == 0, target.errors


def limited(what, value):
    return lambda: resource.setrlimit(what, (value, value))


def test_little_memory(pollux, suite, tmp_path):
    """It succeeds, or says that it is its own memory: never that something isn't in the program."""
    whole = driver.run(pollux, "doctor", suite(), env=NO_CACHE)
    for kib in (9000, 11000, 12000, 13000, 14000, 15000, 16000, 18000, 20000, 30000, 50000):
        result = driver.run(pollux, "doctor", suite(), env=NO_CACHE,
                            preexec_fn=limited(resource.RLIMIT_AS, kib * 1024))
        if result.returncode == 0:
            assert result.stdout == whole.stdout, kib
        else:
            assert "memory" in result.stderr or "error while loading shared" in result.stderr, (kib, result)


def test_few_descriptors(pollux, suite, trace):
    """The same of its open files."""
    with driver.Target(suite("tokio-1.38", "debug"), "multi_thread") as target:
        refused = 0
        for files in (5, 12, 40):
            for verb in (("doctor",), ("tree",), ("record", "-d", "0.1", "-o", trace, "-p")):
                result = driver.run(pollux, *verb, target.pid, env=NO_CACHE,
                                    preexec_fn=limited(resource.RLIMIT_NOFILE, files))
                said = result.stdout + result.stderr
                assert "build with debug" not in said, (files, verb, said)
                assert "not looked at" not in said, (files, verb, said)
                if result.returncode:
                    assert "Too many open files" in said, (files, verb, said)
                    refused += 1
        assert refused
        target.go()
        target.truth()
        target.go()
        assert target.end() == 0, target.errors
