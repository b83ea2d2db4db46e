#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the seeds of corpus/core: the programs of corpus/elf (make_elf.sh), each with a core as the kernel
would have written it of them with some tasks. The form is fuzz_core.h's."""
import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = 4096
HEAP = 0x7F0000000000
STACK = 0x7FFD00000000
PT_LOAD, PT_NOTE = 1, 4
NT_PRSTATUS, NT_AUXV, NT_FILE = 1, 6, 0x46494C45
AT_ENTRY = 9
READ, WRITE = 4, 2
IDLE, RUNNING, COMPLETE, JOIN, ONE = 0, 1, 2, 8, 64  # Tokio's state word: bits, one reference


def note(kind, data):
    return struct.pack("<III8s", 5, len(data), kind, b"CORE") + data + b"\0" * (-len(data) % 4)


def segments(program):
    """[(address, offset, bytes)] of what is loaded."""
    at, = struct.unpack_from("<Q", program, 32)
    size, n = struct.unpack_from("<HH", program, 54)
    found = []
    for i in range(n):
        kind, _, offset, address, _, in_file, _, _ = struct.unpack_from("<IIQQQQQQ", program, at + i * size)
        if kind == PT_LOAD:
            found.append((address, offset, in_file))
    return found


def symbols(program):
    at, = struct.unpack_from("<Q", program, 40)
    size, n, _ = struct.unpack_from("<HHH", program, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", program, at + i * size) for i in range(n)]
    found = {}
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        names = sections[link][4]
        for where in range(offset, offset + length, 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", program, where)
            text = program[names + name:program.index(b"\0", names + name)].decode()
            found[text] = value
    return found


def task(state, vtable, number, next_in_queue=0):
    words = [state, next_in_queue, vtable, 1, 0, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    return struct.pack("<16Q", *words)


def core(program, bias):
    entry, = struct.unpack_from("<Q", program, 24)
    vtable = symbols(program)["vtable"]
    loads = []
    for address, offset, size in segments(program):
        data = bytearray(program[offset:offset + size])
        inside = vtable - address
        if 0 <= inside and inside + 56 <= size:
            functions = struct.unpack_from("<7Q", data, inside)
            names = ["poll", "schedule", "dealloc", "try_read_output", "drop_join_handle_slow",
                     "drop_abort_handle", "shutdown"]
            found = symbols(program)
            linked = [next(v for k, v in found.items() if name in k and "raw" in k) for name in names]
            assert bias or list(functions) == linked
            struct.pack_into("<7Q", data, inside, *(bias + v for v in linked))
            loads.append((bias + address, bytes(data), READ | WRITE))
    where = bias + vtable
    tasks = [task(ONE * 3 | JOIN, where, 7), task(ONE * 2 | RUNNING, where, 8), task(ONE * 2 | JOIN | 4, where, 9, HEAP),
             task(ONE | COMPLETE, where, 10)]
    loads.append((HEAP, b"".join(tasks), READ | WRITE))
    loads.append((STACK, struct.pack("<32Q", *(HEAP + 128 * (i % 4) for i in range(32))), READ | WRITE))
    # memory is read by the page
    loads = [(address & -PAGE, (b"\0" * (address % PAGE) + data).ljust(PAGE, b"\0"), flags) for address, data, flags in loads]
    registers = [0] * 27
    registers[16], registers[19], registers[4] = bias + entry, STACK + 64, STACK + 96  # ip, sp, bp
    status = bytearray(336)
    struct.pack_into("<I", status, 32, 4242)
    struct.pack_into("<27Q", status, 112, *registers)
    mapped = [(bias + address & -PAGE, (bias + address + size + PAGE - 1) & -PAGE, 0)
              for address, _, size in segments(program)[:1]]
    files = struct.pack("<QQ", len(mapped), PAGE) + b"".join(struct.pack("<QQQ", *m) for m in mapped)
    files += b"/nonexistent/program\0" * len(mapped)
    auxv = struct.pack("<QQQQ", AT_ENTRY, bias + entry, 0, 0)
    notes = note(NT_PRSTATUS, bytes(status)) + note(NT_AUXV, auxv) + note(NT_FILE, files)
    n = len(loads) + 1
    offset = 64 + 56 * n
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 4, 62, 1, 0, 64, 0, 0, 64, 56, n, 0, 0, 0)
    table = struct.pack("<IIQQQQQQ", PT_NOTE, READ, offset, 0, 0, len(notes), 0, 4)
    body = notes
    for address, data, flags in loads:
        table += struct.pack("<IIQQQQQQ", PT_LOAD, flags, offset + len(body), address, 0, len(data), len(data), 1)
        body += data
    return head + table + body


def main():
    out = HERE / "corpus" / "core"
    out.mkdir(exist_ok=True)
    for name, bias in (("tokio-nonpie", 0), ("tokio-pie", 0x555555554000)):
        program = (HERE / "corpus" / "elf" / name).read_bytes()
        made = core(program, bias)
        (out / name).write_bytes(struct.pack("<I", len(made)) + made + program)


if __name__ == "__main__":
    main()
