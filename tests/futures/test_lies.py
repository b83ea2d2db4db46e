# SPDX-License-Identifier: MIT OR Apache-2.0
"""Debug information that is wrong, by malice or by mistake: the program doesn't pay for it."""
import os
import random
import sys

import build as builder
import driver
import pytest
from conftest import HERE, Program
from debug_lies import Lies
from test_chains import chains

STAMPED_SUM = 8 * 10  # 4 futures, each 1 and the last bit of ODD, ten rounds


def stamped():
    return builder.build("tokio-1.54", "release-debug", "stamped", root=HERE)


def run(pollux, path, trace):
    """Records all of its work; it lives, and its sum is right. What pollux said."""
    program = Program(*(path if isinstance(path, list) else [path]), 10)
    try:
        recorder = driver.Recorder(pollux, program.pid, trace, "--futures=all")
        recorder.until_compiled()
        program.go()
        program.until("done")
        code, said = recorder.stop()
        assert program.end() == 0
        assert program.sum() == f"sum {STAMPED_SUM}"
        assert code == 0, said
        return said
    finally:
        program.process.kill()
        program.process.wait()


def other(numbers, value, size):
    """A place nearby, or anywhere."""
    near = [value + 1, value - 1, value ^ 8, value + 8, 0, 8, 16, 24]
    return numbers.choice([*near, numbers.randrange(256), numbers.randrange(1 << 8 * size)])


@pytest.mark.parametrize("name", [b"__awaitee", b"__state", b"pointer", b"data_ptr"])
def test_wrong_places(pollux, tmp_path, monkeypatch, name):
    """Where members lie is wrong everywhere, each time in another way."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lies = Lies(stamped(), name)
    assert lies.places
    numbers = random.Random(name)
    for number in range(6):
        path = lies.write(tmp_path / f"lie-{number}", lambda value, size: other(numbers, value, size))
        run(pollux, path, tmp_path / "t.plx")
        path.unlink()


def test_number_for_pointer(pollux, tmp_path, monkeypatch):
    """A box of a future is said to lie where numbers do: each of them in turn."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lies = Lies(stamped(), b"__awaitee")
    for offset in range(0, 64, 8):
        path = lies.write(tmp_path / f"number-{offset}", lambda value, size: offset)
        run(pollux, path, tmp_path / "t.plx")
        path.unlink()


@pytest.mark.parametrize("name", [b"__awaitee", b"__state"])
def test_wrong_places_in_boxes(pollux, tmp_path, monkeypatch, name):
    """The same of a recording's chains of await points, on through boxes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lies = Lies(builder.build("tokio-1.54", "release-debug", "links", root=HERE), name)
    assert lies.places
    numbers = random.Random(name)
    for number in range(4):
        path = lies.write(tmp_path / f"lie-{number}", lambda value, size: other(numbers, value, size))
        program = Program(path, "twelve", 3000)
        try:
            recorder = driver.Recorder(pollux, program.pid, tmp_path / "t.plx")
            recorder.until_compiled()
            program.go()
            assert program.end() == 0
            code, said = recorder.wait()
            assert code == 0, said
        finally:
            program.process.kill()
            program.process.wait()
        path.unlink()


@pytest.mark.parametrize("delta", [-8, -16])
def test_state_elsewhere_than_in_the_code(pollux, tmp_path, monkeypatch, delta):
    """The state is said to lie where those of the futures inside lie, so what is read there makes sense. The code
    says otherwise, so no await point is claimed of what a box holds but its name."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lies = Lies(builder.build("tokio-1.54", "release-debug", "links", root=HERE), b"__state")
    path = lies.write(tmp_path / "lie", lambda value, size: value + delta)
    program = Program(path, "twelve", 300)
    try:
        recorder = driver.Recorder(pollux, program.pid, tmp_path / "t.plx")
        recorder.until_compiled()
        program.go()
        assert program.end() == 0
        code, said = recorder.wait()
        assert code == 0, said
    finally:
        program.process.kill()
        program.process.wait()
    found = chains(tmp_path / "t.plx", "links")
    links = {link for each in found.values() for chain in each for link in chain}
    assert links == {("twelve::{closure}", 0)}, links


@pytest.mark.parametrize("name", [b"semaphore", b"notify", b"inner", b"chan", b"receiver"])
def test_wrong_resources(pollux, tmp_path, monkeypatch, name):
    """The same of what is waited for: an address that is none is not followed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lies = Lies(builder.build("tokio-1.54", "release-debug", "resources", root=HERE), name)
    assert lies.places
    numbers = random.Random(name)
    for number in range(4):
        path = lies.write(tmp_path / f"lie-{number}", lambda value, size: other(numbers, value, size))
        program = Program(path, 50)
        try:
            recorder = driver.Recorder(pollux, program.pid, tmp_path / "t.plx")
            recorder.until_compiled()
            program.go()
            assert program.end() == 0
            code, said = recorder.wait()
            assert code == 0, said
        finally:
            program.process.kill()
            program.process.wait()
        path.unlink()


@pytest.mark.parametrize("name", [b"__awaitee", b"pointer", b"__state"])
def test_wrong_pointers_in_chains(pollux, tmp_path, monkeypatch, name):
    """The same of pointers, which a chain follows within a task and from a box."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lies = Lies(builder.build("tokio-1.54", "release-debug", "pointed", root=HERE), name)
    assert lies.places
    numbers = random.Random(name)
    for number in range(4):
        path = lies.write(tmp_path / f"lie-{number}", lambda value, size: other(numbers, value, size))
        program = Program(path, 50)
        try:
            recorder = driver.Recorder(pollux, program.pid, tmp_path / "t.plx")
            recorder.until_compiled()
            program.go()
            assert program.end() == 0
            code, said = recorder.wait()
            assert code == 0, said
        finally:
            program.process.kill()
            program.process.wait()
        path.unlink()


SHUT_IN = """
import ctypes, os, struct, sys
# kills for rt_sigprocmask with a `how` that does not exist
program = b"".join(struct.pack("<HBBI", *one) for one in (
    (0x20, 0, 0, 0), (0x15, 0, 3, 14), (0x20, 0, 0, 16), (0x35, 0, 1, 3),
    (0x06, 0, 0, 0x80000000), (0x06, 0, 0, 0x7FFF0000)))
libc, filter = ctypes.CDLL(None), ctypes.create_string_buffer(program)
head = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 6, ctypes.addressof(filter)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, head) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to read the filter")
def test_seccomp(pollux, tmp_path):
    """Under a filter that may kill for it the kernel isn't asked, and the coverage says so."""
    said = run(pollux, [sys.executable, "-c", SHUT_IN, stamped()], tmp_path / "t.plx")
    assert "futures' memory" in said, said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_cache_of_stranger(pollux, tmp_path, monkeypatch):
    """A stranger's copy, of the same build-id and size, says nothing about the program itself."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lies = Lies(stamped(), b"__awaitee")
    copy = lies.write(tmp_path / "copy", lambda value, size: 8)
    data = bytearray(copy.read_bytes())
    # a name, too
    at = data.index(b"\0borrowed\0")
    data[at : at + 10] = b"\0forged!!\0"
    copy.write_bytes(data)
    os.chown(copy, 65533, 65533)
    honest = lies.write(tmp_path / "honest", lambda value, size: value)
    run(pollux, copy, tmp_path / "copy.plx")
    of_copy = f"-{copy.stat().st_ino:x}-"
    cached = [path.name for path in (tmp_path / "cache").glob("pollux/*")]  # libc's finding, perhaps
    assert not [name for name in cached if name.endswith(".debug") or of_copy in name], cached
    run(pollux, honest, tmp_path / "honest.plx")
    shown = {event[5] for event in driver.events(tmp_path / "honest.plx")
             if event[3] == "future_end"}
    assert any("borrowed" in one for one in shown), shown
    assert not any("forged" in one for one in shown), shown
    assert list((tmp_path / "cache").glob("pollux/*.debug"))
