# SPDX-License-Identifier: MIT OR Apache-2.0
"""`tree` always ends: with types that branch without end, memory that is only reserved, cores that lie."""
import json
import os
import shutil
import struct
import subprocess

import pytest
from bounds import MB, Limited, hostile_library

TANGLE = ("tokio-1.54", "release-debug", "tangle")
IDLE = ("tokio-1.54", "release-debug", "crowd", "idle", "100")


def looked(ran):
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_tangled_types(pollux, start):
    program = start(*TANGLE)
    ran = Limited(pollux, "tree", "--json", program.pid, seconds=30)
    tasks = [task for task in looked(ran)["tasks"] if task["role"] == "task"]
    assert len(tasks) == 3
    for task in tasks:
        assert '"name": "tangle::leaf"' in json.dumps(task["tree"]) and "sleep" in json.dumps(task["tree"])
    assert ran.peak < 500 * MB, ran.peak


def page_table_bytes(pid):
    with open(f"/proc/{pid}/status") as status:
        (kb,) = (line.split()[1] for line in status if line.startswith("VmPTE:"))
    return int(kb) * 1024


@pytest.mark.parametrize("options", [[], ["--no-stop"]], ids=["stop", "no-stop"])
def test_reserved_memory(pollux, start, tmp_path, monkeypatch, options):
    """Four terabytes that the program has reserved, and of which it uses two pages: pollux looks at these,
    and the program's page tables do not grow with the rest."""
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", hostile_library(tmp_path))
        patch.setenv("HOSTILE", "reserve")
        program = start(*IDLE)
    before = page_table_bytes(program.pid)
    ran = Limited(pollux, "tree", "--json", *options, program.pid, seconds=60)
    after = page_table_bytes(program.pid)
    assert len([task for task in looked(ran)["tasks"] if task["role"] == "task"]) == 103
    # files of the program that are looked at may cost it some tables
    assert after <= before + MB // 4, f"{before} bytes of page tables became {after}"
    assert ran.peak < 500 * MB, ran.peak


@pytest.fixture
def core(start, tmp_path):
    program = start(*IDLE)
    assert shutil.which("gcore"), "gcore (of gdb) is needed: ./dev deps all installs it"
    subprocess.run(
        ["gcore", "-o", str(tmp_path / "core"), str(program.pid)], check=True, capture_output=True
    )
    return tmp_path / f"core.{program.pid}"


def segments(path):
    """(offset of the program header, its fields) of each PT_LOAD."""
    with open(path, "rb") as file:
        head = file.read(64)
        (table,) = struct.unpack_from("<Q", head, 32)
        (count,) = struct.unpack_from("<H", head, 56)
        for i in range(count):
            file.seek(table + 56 * i)
            fields = list(struct.unpack("<IIQQQQQQ", file.read(56)))
            if fields[0] == 1:
                yield table + 56 * i, fields


@pytest.mark.parametrize("lie", ["memory", "file", "hole"])
def test_core_that_lies(pollux, core, lie):
    """A segment of 64 TiB: in memory, in the file, in a hole of the file."""
    huge = 1 << 46
    at, fields = max(
        (one for one in segments(core) if one[1][1] & 2 and one[1][6]), key=lambda one: one[1][3]
    )
    fields[6] = huge
    if lie != "memory":
        fields[5] = huge
    if lie == "hole":
        fields[2] = os.path.getsize(core) + (1 << 20)
        fields[5] = fields[6] = 1 << 42
        os.truncate(core, fields[2] + fields[5])
    with open(core, "r+b") as file:
        file.seek(at)
        file.write(struct.pack("<IIQQQQQQ", *fields))
    ran = Limited(pollux, "tree", core, seconds=60)
    assert ran.returncode in (0, 1) and ran.stdout + ran.stderr
    assert ran.peak < 500 * MB, ran.peak
