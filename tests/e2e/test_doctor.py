# SPDX-License-Identifier: MIT OR Apache-2.0
"""`doctor`: what would be visible, without touching anything."""
import json
import os
import sys

import build
import driver
import pytest

RUNTIMES = [("tokio-1.38", "tokio", "1.38.2"), ("tokio-1.54", "tokio", "1.54.1"),
            ("smol-2.0", "async-task", "4.7.1")]


@pytest.mark.parametrize("package,runtime,version", RUNTIMES)
def test_binary(pollux, suite, package, runtime, version):
    result = driver.run(pollux, "doctor", suite(package))
    assert result.returncode == 0, result.stderr
    assert runtime in result.stdout and version in result.stdout


def test_process(pollux, suite):
    with driver.Target(suite(), "steady") as target:
        before = driver.Path(f"/proc/{target.pid}/maps").read_text()
        result = driver.run(pollux, "doctor", target.pid)
        assert result.returncode == 0, result.stderr
        assert "tokio" in result.stdout and "1.38.2" in result.stdout
        assert "pollux" not in driver.Path(f"/proc/{target.pid}/maps").read_text()
        assert before.count("\n") >= 10
        target.go()
        target.go()
        assert target.end() == 0


# Far from where it lies; then load.py with the same arguments.
MAPS_TWICE = """
import ctypes, os, sys
del sys.argv[0]
def twice():
    lines = [line.split() for line in open("/proc/self/maps") if sys.argv[1] in line]
    offset = next(int(line[2], 16) for line in lines if line[1] == "r-xp")
    number = os.open(sys.argv[1], os.O_RDONLY)
    mmap = ctypes.CDLL(None).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = 2 * [ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
    mmap(1 << 40, 16384, 5, 2, number, offset)
source = open(sys.argv[0]).read()
exec(source.replace("    if wait:", "    twice()\\n    if wait:", 1))
"""


def test_code_that_is_mapped_twice(pollux, suite):
    """As V8 maps some of its program's: an object is reported once."""
    library = suite("cdylib", "release", "libtokio_inside.so")
    load = build.TARGETS / "cdylib" / "load.py"
    with driver.Target(sys.executable, "-c", MAPS_TWICE, load, library) as target:
        maps = driver.Path(f"/proc/{target.pid}/maps").read_text().splitlines()
        assert len([line for line in maps if " r-xp " in line and str(library) in line]) == 2
        result = driver.run(pollux, "doctor", target.pid)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(str(library)) == 1, result.stdout


def test_tokio_without_paths(pollux, tmp_path):
    """Built without the paths of sources, as rspack is: what Tokio says shows that it is there."""
    source = tmp_path / "texts.c"
    source.write_text('#include <stdio.h>\nint main(int n, char **v)\n{\n\treturn n > 9 ? puts("JoinHandle polled after completion") : 0;\n}\n')
    result = driver.run(pollux, "doctor", build.compile_c(source, "texts"))
    assert result.returncode == 1 and "Tokio of unknown version is in it, but no task table" in result.stdout, result.stdout


def test_stripped(pollux, suite):
    """It says what is missing."""
    result = driver.run(pollux, "doctor", suite("tokio-1.38", "stripped"))
    assert result.returncode == 0, result.stderr
    assert "symbols" in result.stdout


def test_old_tokio(pollux, suite):
    result = driver.run(pollux, "doctor", suite("tokio-1.20"))
    assert "1.20" in result.stdout + result.stderr and "1.23" in result.stdout + result.stderr


def test_no_runtime(pollux):
    result = driver.run(pollux, "doctor", "/bin/true")
    assert "runtime" in (result.stdout + result.stderr).lower()


def test_not_a_binary(pollux, tmp_path):
    """ELF files that are none, or broken ones."""
    elf = driver.Path("/bin/true").read_bytes()
    for name, content in {
        "empty": b"", "text": b"#!/bin/sh\n", "magic": b"\x7fELF", "cut": elf[:100],
        "half": elf[: len(elf) // 2], "noise": elf[:64] + bytes(range(256)) * 16,
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        result = driver.run(pollux, "doctor", path)
        assert result.returncode == 1, f"{name}: {result.returncode}"
        assert (result.stdout + result.stderr).strip(), name
        assert "Sanitizer" not in result.stderr, name


# (profile, grade, what it gives, what it lacks)
GRADES = [
    ("stripped", "stripped", "families are numbered", ["strip = false", "debug = true"]),
    ("release", "legacy symbols", "F::call", ["symbol-mangling-version=v0", "debug = true"]),
    ("v0", "v0 symbols", "names with types in them", ["lines", "debug = true"]),
    ("line-tables", "line tables, legacy symbols", "spawn sites outside of the runtime",
     ["symbol-mangling-version=v0", "debug = true"]),
    ("release-debug", "full debug information", "await points and trees", []),
]


@pytest.mark.parametrize("profile, grade, gives, lacks", GRADES, ids=[row[0] for row in GRADES])
def test_grade(pollux, profile, grade, gives, lacks):
    """Which names and places each build gives, and what to do about those that it lacks."""
    path = build.build("tokio-1.38", profile)
    result = driver.run(pollux, "doctor", path, "--wide")
    assert result.returncode == 0, result.stderr
    assert f"    names and places: {grade}: " in result.stdout
    line = result.stdout.partition("names and places: ")[2].partition("\n")
    assert gives in line[0]
    assert line[2].startswith("    lacks: ") == bool(lacks)
    assert all(word in line[2].partition("\n")[0] for word in lacks)
    facts = json.loads(driver.run(pollux, "doctor", path, "--json").stdout)["objects"][0]
    assert facts["grade"] == grade
    assert bool(facts["lacks"]) == bool(lacks)
    # It is no promise that others break: names and await points are what the grade says.
    names = [kind["name"] for kind in facts["kinds"] if kind["role"] == "task"]
    assert all(name.startswith("kind ") for name in names) == (profile == "stripped")


def test_doctor_fits(pollux, suite):
    for columns in (60, 80, 120):
        text = driver.run(pollux, "doctor", "--kinds", suite(), env={**os.environ, "COLUMNS": str(columns)}).stdout
        assert len(text.splitlines()) > 20
        assert all(len(line) <= columns for line in text.splitlines())
