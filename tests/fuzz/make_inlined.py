#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the seeds of corpus/inlined: stories like those of tests/unit/test_inlined.c, in the form that
fuzz_inlined.c reads."""
import struct
from pathlib import Path

OWN, SELF, SURE, KEPT, RETURNED, POINTER, LENT, NONE = (1 << i for i in range(8))
BEGIN, F_BEGIN, END, F_END, WAS, AT, LEFT, FORGET = range(8)
PENDING, READY, PANICKED = 0, 1, 2
HOOKED = 4  # kinds


def point(flags, future=0, size=0, below=0, kind=0):
    return struct.pack("<BBHBbBB", flags, future, size, 0, 0, below, kind)


def event(what, number=0, value=0, passed=1):
    return struct.pack("<BBH", what + 8 * passed, number, value)


def story(name, points, events):
    data = bytes([len(points)]) + b"".join(points) + b"".join(event(*e) for e in events)
    (Path(__file__).parent / "corpus/inlined" / name).write_bytes(data)


def end(what, outcome, address):
    return (what, outcome * HOOKED, address)


KEEPS = OWN | SURE | KEPT
story("line", [point(KEEPS, 7), point(KEEPS, 6), point(KEEPS, 5), point(KEEPS, 4)], [
    (BEGIN, 0, 1), (WAS, 1, 0x1000), (WAS, 2, 0x1010), (WAS, 3, 0x1020),
    (AT, 1, 0x1000), (AT, 2, 0x1010), (AT, 4, 0x1020), end(END, PENDING, 1),
    (BEGIN, 0, 1), (WAS, 1, 0x1000), end(END, READY, 1)])
story("select", [point(OWN, 7), point(KEEPS, 5), point(KEEPS, 4), point(RETURNED, 5)], [
    (BEGIN, 0, 1), (WAS, 1, 0x1000), (WAS, 2, 0x1010), (WAS, 3, 0x1200),
    (AT, 1, 0x1000), (AT, 4, 0x1010), (AT, 3, 0x1200), end(END, PENDING, 1)])
story("left", [point(OWN | SELF, 7), point(KEEPS, 5), point(KEEPS, 4), point(RETURNED, 5)], [
    (F_BEGIN, 0, 0x1000), (WAS, 1, 0x1000), (WAS, 2, 0x1010), (WAS, 3, 0x1200),
    (LEFT, 4, 0x1010), (LEFT, 3, 0x1200), end(F_END, READY, 0x1000)])
story("pointer", [point(KEEPS, 7), point(POINTER | LENT, size=200), point(OWN, 5), point(OWN, 4)], [
    (BEGIN, 0, 1), (WAS, 1, 0x1000), (WAS, 2, 0x1008), (WAS, 2, 0x9000), (WAS, 3, 0x9000),
    (WAS, 4, 0x9080), (AT, 1, 0x1000), (AT, 2, 0x1008), (AT, 2, 0x9000), (AT, 4, 0x9080),
    end(END, PENDING, 1), (BEGIN, 0, 1), (WAS, 1, 0x1000), (FORGET,), end(END, PANICKED, 1)])
story("inner", [point(KEEPS, 7), point(KEEPS, 1, below=2), point(KEEPS, 5, below=2)], [
    (BEGIN, 0, 1), (WAS, 1, 0x1000), (WAS, 2, 0x1010), (WAS, 3, 0x1018),
    (F_BEGIN, 1, 0x1010), (WAS, 3, 0x1018), (AT, 3, 0x1018), (F_END, 1, 0x1010),
    (AT, 1, 0x1000), (AT, 2, 0x1010), (AT, 3, 0x1018), end(END, PENDING, 1)])
story("none", [], [(BEGIN, 0, 1), (AT, 1, 0), end(END, PENDING, 1), end(F_END, READY, 0)])
