# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hooks whose bytes lie in two pages. Which do depends on where the linker puts the code, so it is told to
put it where a certain one does."""
import bisect
import itertools
import os
import resource
import shutil
import signal
import struct
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import build as builder
import driver
import pytest
import test_futures
from conftest import HERE, Program

PAGE = 4096
SPAWN, FUTURE, CALLS = 12, 16, 16  # agent/ring.h: AH_SPAWN, AH_FUTURE, AGENT_HOOK_CALL
NAMES = {SPAWN: "spawn", FUTURE: "call"}
# Functions of small code begin anywhere, others at every 16th byte, at which no spawn site can end.
BUILDS = {
    FUTURE: [("debug", "-C symbol-mangling-version=v0")],
    SPAWN: [("release-debug", f"-C opt-level={n} -C symbol-mangling-version=v0") for n in "sz"],
}


def changes(pid, path):
    """[(type, first address in the file, bytes)] of the changes of code that a recording makes."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    base = min(int(line.split("-")[0], 16) for line in maps if line.endswith(str(path)))
    found = []
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for state in driver.agent_states(pid, memory):
            n_hooks, hooks = struct.unpack_from("<I24xQ", state, 12)
            memory.seek(hooks)
            table = memory.read(64 * n_hooks)
            for i in range(n_hooks):
                slot, kind, flags = struct.unpack_from("<8xQ16xH2xH", table, 64 * i)
                if kind == SPAWN:
                    memory.seek(slot)
                    found.append((kind, slot - base + (memory.read(1)[0] & 0xf0 == 0x40), 5))
                elif kind == FUTURE and flags & CALLS:
                    found.append((kind, slot - base, 4))
    return found


def text_of(path):
    """(address, alignment) of the section .text."""
    data = path.read_bytes()
    at, size, number, names = struct.unpack_from("<Q10xHHH", data, 40)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, at + i * size) for i in range(number)]
    start = sections[names][4]
    return next((s[3], s[8]) for s in sections if data[start + s[0]:].startswith(b".text\0"))


def function_at(path, address):
    said = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, check=True)
    rows = [line.split(" ", 2) for line in said.stdout.splitlines()]
    functions = sorted((int(at, 16), name) for at, kind, name in rows if kind in "tT")
    return functions[bisect.bisect(functions, (address, "\x7f")) - 1][1]


def look(pollux, path, tmp_path):
    """What a recording of the program changes."""
    program = Program(path, 3, 2, 3)
    recorder = driver.Recorder(pollux, program.pid, tmp_path / "look.plx", "--futures=all")
    found = changes(program.pid, path)
    program.go()
    program.until("done")
    code, said = recorder.stop()
    assert code == 0 and program.end() == 0, said
    return found


def is_used(path, kind, at):
    """Whether the program comes there: of the tasks those that it spawns again and again."""
    name = function_at(path, at)
    return kind == FUTURE or ("nested::panics" in name and "multi_thread" in name)


def build(flags, profile):
    """The path of `nested`, built so. The name of a profile is no part of it, but the flags are."""
    builder.PROFILES[f"{profile} {flags}"] = replace(builder.PROFILES[profile], last=flags)
    return builder.build("tokio-1.54", f"{profile} {flags}", "nested", root=HERE)


def lay_out(pollux, kind, tmp_path):
    """(path, address): `nested` with a change of that type across two pages, and where that is."""
    for profile, flags in BUILDS[kind]:
        path = build(flags, profile)
        text, step = text_of(path)
        # All moves by as much as the section does, so these last bits stay.
        for found, at, length in look(pollux, path, tmp_path):
            if found != kind or at % step + length <= step or not is_used(path, kind, at):
                continue
            text += (PAGE - step - at // step * step) % PAGE
            moved = build(f"{flags} -C link-arg=-Wl,--section-start=.text={text:#x}", profile)
            moved = Path(shutil.copy(moved, tmp_path / NAMES[kind]))
            across = [c[1] for c in look(pollux, moved, tmp_path)
                      if c[0] == kind and c[1] % PAGE + c[2] > PAGE and is_used(moved, kind, c[1])]
            assert across, "the linker has put the code elsewhere, or it isn't hooked"
            return moved, across[0]
    raise AssertionError("no change of any build can lie in two pages")


@pytest.fixture(scope="module")
def laid_out(pollux, tmp_path_factory):
    """laid_out(type): see lay_out()."""
    tmp_path, made = tmp_path_factory.mktemp("across"), {}

    def get(kind):
        made[kind] = made.get(kind) or lay_out(pollux, kind, tmp_path)
        return made[kind]

    return get


def mappings(pid, path):
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if str(path) in line]


@pytest.mark.parametrize("kind", NAMES, ids=NAMES.get)
def test_recorded(pollux, laid_out, tmp_path, kind):
    """Nothing is missing in the recording, and the program's code is afterwards what it was."""
    path, _ = laid_out(kind)
    program = Program(path, 30, 3, 30)
    code, maps = test_futures.code_of(program.pid), mappings(program.pid, path)
    for i in range(2):  # the second time with an area that is there
        trace = tmp_path / f"{i}.plx"
        recorder = driver.Recorder(pollux, program.pid, trace, "--ring-size", "32M", "--futures=all")
        assert mappings(program.pid, path) == maps
        assert not test_futures.unchanged(code, test_futures.code_of(program.pid))
        if i:
            recorder.until_compiled()
            program.go()
            program.until("done")
        ended, said = recorder.stop()
        assert ended == 0 and (not i or ", none lost" in said), said
        assert "patched spawn site" not in said.split("not seen")[-1], said
        assert "changed calls" not in said and "two pages" not in said, said
        assert test_futures.unchanged(code, test_futures.code_of(program.pid))
        assert mappings(program.pid, path) == maps
    truth = program.truth()
    # the rounds, and one at the begin
    spawned = truth["panics"][0] + 3 + 1
    assert driver.report(pollux, trace)["tasks"]["spawned"] == spawned
    if kind == FUTURE:
        seen = test_futures.ends(trace)
        for name, full in test_futures.names_of(truth).items():
            begun, polls, ready, panicked = truth[name]
            seen[full].pop(test_futures.CANCELLED, 0)
            assert seen[full] == +Counter({test_futures.PENDING: polls - ready - panicked,
                                           test_futures.READY: ready,
                                           test_futures.PANICKED: panicked}), full
    assert program.end() == 0


@pytest.mark.parametrize("kind", NAMES, ids=NAMES.get)
def test_killed(pollux, laid_out, tmp_path, all_of_it, kind):
    """kill -9 of pollux after each of its calls of ptrace, while the program comes by there all the time."""
    library = builder.compile_c(builder.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    path, _ = laid_out(kind)
    program = Program(path, 600000, 2)
    code, killed = test_futures.code_of(program.pid), 0
    program.go()
    for at in itertools.count(1, 1 if all_of_it else 5):
        result = driver.run(pollux, "record", "-p", program.pid, "-d", "0.02", "-o", tmp_path / "t.plx",
                            "--futures=all", env={**os.environ, "LD_PRELOAD": str(library), "DIE_AT": str(at)})
        assert result.returncode in (-signal.SIGKILL, 0), result.stderr
        assert program.process.poll() is None, (at, program.process.returncode)
        if result.returncode == 0:
            break
        killed += 1
    assert killed > 5
    # The last one has undone all that the others have left.
    assert test_futures.unchanged(code, test_futures.code_of(program.pid))
    program.process.kill()
    program.process.wait()


@pytest.mark.parametrize("kind", NAMES, ids=NAMES.get)
def test_no_more_memory(pollux, laid_out, tmp_path, all_of_it, kind):
    """From some call of ptrace on, each in turn, the program may map no more memory: at the attach or at the detach.
    It goes on, and once it may, it is recorded again and left as it was."""
    library = builder.compile_c(builder.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    path, _ = laid_out(kind)
    program = Program(path, 600000, 2)
    code, codes = test_futures.code_of(program.pid), Counter()
    program.go()
    for at in itertools.count(1, 1 if all_of_it else 13):
        limits = resource.prlimit(program.pid, resource.RLIMIT_AS)
        result = driver.run(pollux, "record", "-p", program.pid, "-d", "0.02", "-o", tmp_path / "t.plx",
                            "--futures=all", env={**os.environ, "LD_PRELOAD": str(library), "FULL_AT": str(at)})
        codes[result.returncode] += 1
        assert result.returncode in (0, 1), result.stderr
        assert result.returncode == 0 or "memory" in result.stderr or "next recording" in result.stderr, result.stderr
        assert program.process.poll() is None, (at, program.process.returncode)
        was_limited = resource.prlimit(program.pid, resource.RLIMIT_AS, limits) != limits
        if not was_limited:
            break
    assert codes[1] and codes[0], codes
    assert test_futures.unchanged(code, test_futures.code_of(program.pid))
    program.process.kill()
    program.process.wait()
