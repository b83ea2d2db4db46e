# SPDX-License-Identifier: MIT OR Apache-2.0
"""Input that was made to cost a lot: files of holes, numbers made up, a program that never pauses. pollux
ends in seconds with little memory, and says what it left out."""
import struct
import time

import driver
import pytest
from bounds import MB, Limited, hostile_library

HEAD = 0x2000


def sparse_elf(path, size, type=3):
    """An ELF file of two pages and a segment of nothing."""
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", type, 62, 1, 0x1000, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    code = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, HEAD, HEAD, 0x1000)
    data = struct.pack("<IIQQQQQQ", 1, 4, HEAD, HEAD, HEAD, size, size, 0x1000)
    with open(path, "wb") as file:
        file.write(head + code + data)
        file.truncate(HEAD + size)
    assert path.stat().st_blocks * 512 <= 64 << 10, "the tests need a file system with holes"
    return path


@pytest.mark.parametrize("verb", ["doctor", "probes"])
def test_sparse_program(pollux, tmp_path, verb):
    """Of two gigabytes on four kilobytes nothing is read; a small gap is none of pollux's business."""
    ran = Limited(pollux, verb, sparse_elf(tmp_path / "huge", 0x7FFEC000))
    assert ran.returncode == 1 and "holes of a sparse file" in ran.stderr, ran.stderr
    assert ran.peak < 300 * MB, ran.peak
    ran = Limited(pollux, verb, sparse_elf(tmp_path / "small", 32 * MB))
    assert ran.returncode in (0, 1) and "holes" not in ran.stderr, ran.stderr
    assert ran.peak < 300 * MB, ran.peak


def test_sparse_libraries(pollux, suite, tmp_path, trace):
    """A program that maps such files is recorded without them."""
    files = [sparse_elf(tmp_path / f"lib{i}.so", 0x7FFEC000) for i in range(4)]
    env = {
        "LD_PRELOAD": hostile_library(tmp_path),
        "HOSTILE": "map",
        "HOSTILE_FILES": ":".join(map(str, files)),
    }
    with driver.Target(suite(), "steady", env=env) as target:
        ran = Limited(pollux, "record", "-p", target.pid, "-d", "1", "-o", trace)
        assert ran.returncode == 0, ran.stderr
        assert ran.peak < 600 * MB, ran.peak
    assert driver.report(pollux, trace)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def uleb(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def chunk(type, payload):
    head = struct.pack("<HHII", type, 0, len(payload), crc32c(payload))
    return head + struct.pack("<I", crc32c(head)) + payload


def sparse_trace(path):
    """One record of each table, with the last index there is (docs/trace-format.md)."""
    last = uleb(4194303)
    text = uleb(1) + b"x"
    fields = {
        1: last + uleb(1) + text * 2 + b"\0\0",
        2: last + b"\0" + text * 4,
        3: last + b"\0\1" + text + b"\0",
        5: last + b"\0\0\0\0\0\0" + text * 3 + b"\0",
        6: last + b"\0" + text + b"\0\0" + text,
        8: last + b"\0" + text * 2 + b"\1\0" + text,
        9: last + b"\0\0" + text * 3 + b"\1",
        10: last + b"\0\0\0",
    }
    records = b"".join(uleb(type) + uleb(len(one)) + one for type, one in fields.items())
    head = b"\x89PLX\r\n\x1a\n" + struct.pack("<HHIQQ24sI", 1, 1, 64, 0, 0, b"test", 0)
    path.write_bytes(
        head
        + struct.pack("<I", crc32c(head))
        + chunk(1, records)
        + chunk(3, struct.pack("<QQ", 1, 0))
        + chunk(4, struct.pack("<Q", 0))
    )
    return path


@pytest.mark.parametrize("verb", ["report", "hist", "export"])
def test_sparse_indices(pollux, tmp_path, verb):
    """A trace of some hundred bytes has no four million threads."""
    path = sparse_trace(tmp_path / "sparse.plx")
    options = ["--format", "chrome", "-o", tmp_path / "out.json"] if verb == "export" else []
    ran = Limited(pollux, verb, path, *options)
    assert ran.peak < 200 * MB, ran.peak
    assert verb != "report" or "damaged" in ran.stderr + ran.stdout, (ran.stdout, ran.stderr)


def wait_for_flood(target):
    end = time.monotonic() + 60
    while "flooding" not in target.errors:
        assert time.monotonic() < end, "the rings were not found"
        time.sleep(0.05)


@pytest.fixture
def crowd(suite, tmp_path):
    """A program that fills its rings with threads that never were, as soon as it is recorded."""
    env = {"LD_PRELOAD": hostile_library(tmp_path), "HOSTILE": "crowd"}
    with driver.Target(suite(), "steady", env=env) as target:
        yield target


def test_flooded_rings_and_a_signal(pollux, crowd, trace):
    recorder = driver.Recorder(pollux, crowd.pid, trace)
    try:
        wait_for_flood(crowd)
        time.sleep(2)
        began = time.monotonic()
        code, said = recorder.stop()
        took = time.monotonic() - began
        print(f"{took:.1f} s", said)
    finally:
        recorder.process.kill()
    assert code == 0, said
    assert took < 30, f"{took:.1f} s"
    assert driver.run(pollux, "report", trace).returncode == 0
    assert not driver.enabled(crowd.pid)


def test_flooded_rings_beside_another(pollux, suite, crowd, trace):
    """The time is over when it is over, and another process that is recorded has its turn."""
    with driver.Target(suite(), "steady") as other:
        began = time.monotonic()
        recorder = driver.Recorder(pollux, [crowd.pid, other.pid], trace, "-d", "6")
        try:
            wait_for_flood(crowd)
            other.go()
            code, said = recorder.wait()
        finally:
            recorder.process.kill()
        assert code == 0, said
        assert time.monotonic() - began < 60
        assert not driver.enabled(other.pid)
        other.go()
        assert other.end() == 0
