#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the recordings beside this file anew, with the real tools: perf (as root) and uftrace.

    make.py perf              builds runtime.c, records it with perf
    make.py switches          the same with context switches, by perf and by uftrace
    make.py threads           the same into folders (perf record --threads)
    make.py uftrace PROGRAM NAME  records a debug build of a program with the patterns of
                              Rust-Async-Context-Tracer, as NAME.uftrace and NAME.dump

What names the machine that it ran on (host, kernel, processor, command lines) is blanked, and of
symbol files only what is called is kept. Expected results are taken anew afterwards by
POLLUX_BLESS=1 and the unit test import_files, which shows what changes.
"""
import os
import re
import shutil
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = HERE / "files"
WORK = Path("/tmp/pollux-fixture")
PROBES = ["task_start", "task_schedule_start", "task_poll_begin", "task_poll_end", "task_finish",
          "task_blocking_begin", "task_blocking_end"]
FUNCTIONS = [("task_spawn", "task_id parent_id name"), ("task_completed", "task_id"),
             ("machine_scheduled_task", "machine_addr task_id local"),
             ("machine_blocked", "machine_addr"), ("machine_starting", "machine_addr")]
PATTERNS = ["_<async_std..task..builder..SupportTaskLocals<F> as core..future..future..Future>"
            "::poll::_{{closure}}",
            r"tokio::runtime::task::core::CoreStage<T>::poll",
            r".*::_\{\{closure\}\}", ".*as core..future..future..Future>::poll"]
# Features of a perf.data file that are read; all others are blanked.
KEPT = {1, 2, 12, 24}
DUMP_LINES = 300


def run(*args, **more):
    return subprocess.run([str(a) for a in args], check=True, **more)


def perf(*args, **more):
    return run("perf", "--buildid-dir", WORK / "ids", *args, **more)


def blank_file(path):
    """Zeroes the contents of features that name the machine, in the file form."""
    data = bytearray(path.read_bytes())
    data_at, data_size = struct.unpack_from("<QQ", data, 40)
    bits = int.from_bytes(data[72:104], "little")
    place = data_at + data_size
    for feature in range(256):
        if bits >> feature & 1:
            at, size = struct.unpack_from("<QQ", data, place)
            place += 16
            if feature not in KEPT:
                data[at:at + size] = bytes(size)
    path.write_bytes(data)


def blank_pipe(path):
    """The same for the stream, where features are records of type 80."""
    data = bytearray(path.read_bytes())
    at = 16
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        if kind == 80:
            feature = struct.unpack_from("<Q", data, at + 8)[0]
            if feature not in KEPT:
                data[at + 16:at + size] = bytes(size - 16)
        if kind == 66:
            size += struct.unpack_from("<I", data, at + 8)[0] + 7 & ~7
        at += size
    path.write_bytes(data)


def text(source, name, *options, **more):
    with open(FILES / name, "w") as out:
        perf("script", "-i", FILES / source, *options, stdout=out, stderr=subprocess.DEVNULL,
             **more)


def build(program, *options):
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    run("gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", *options, "-o", program,
        HERE / "runtime.c", f"-ffile-prefix-map={HERE}=.")


@contextmanager
def probes(program):
    perf("buildid-cache", "--add", program)
    subprocess.run(["perf", "probe", "-q", "-d", "sdt_tokio:*", "-d", "async_std:*"],
                   stderr=subprocess.DEVNULL)
    try:
        for probe in PROBES:
            perf("probe", "-q", f"--add=sdt_tokio:{probe}")
        for name, args in FUNCTIONS:
            perf("probe", "-q", "-x", program, "--add",
                 f"async_std:{name}=async_std_{name}:0 {args}")
        yield
    finally:
        subprocess.run(["perf", "probe", "-q", "-d", "sdt_tokio:*", "-d", "async_std:*"])


def make_perf():
    program = WORK / "runtime"
    build(program)
    with probes(program):
        events = [part for probe in PROBES for part in ("-e", f"sdt_tokio:{probe}")]
        full = ["-e", "cpu-clock/freq=999/", "-e", "raw_syscalls:sys_enter",
                "-e", "raw_syscalls:sys_exit", *events]
        command = [program, "4", "3"]
        perf("record", "-q", "--call-graph=fp", *full, "-o", FILES / "tokio.data", "--", *command)
        perf("record", "-q", "-z", *events, "-o", FILES / "zstd.data", "--", *command)
        with open(FILES / "pipe.data", "wb") as out:
            perf("record", "-q", "-z", *events, "-e", "cpu-clock", "-o", "-", "--", *command,
                 stdout=out)
        perf("record", "-q", "-e", "async_std:*", "-o", FILES / "machines.data", "--", program, "8")
        perf("record", "-q", "-m", "1", *events, "-g", "-o", WORK / "lost.data", "--", program,
             "600", "4")
    for old in FILES.glob("*.old"):
        old.unlink()
    text("tokio.data", "tokio.txt")
    text("tokio.data", "tokio-nochain.txt", "-G")
    text("tokio.data", "tokio-ns.txt", "--ns", "-G")
    text("tokio.data", "tokio-fields.txt", "-F", "comm,pid,tid,time,period,event,trace", "--header",
         "-G")
    text("machines.data", "machines.txt")
    for name in ("tokio", "zstd", "machines"):
        blank_file(FILES / f"{name}.data")
    blank_pipe(FILES / "pipe.data")
    header = FILES / "tokio-fields.txt"
    header.write_text("".join(l for l in header.open() if not l.startswith("#") or
                              re.match(r"# (=|header|data|feat|arch)|#$", l)))
    # Of the longest one what comes before the first probe is left out.
    longest = FILES / "tokio.txt"
    parts = longest.read_text().split("\n\n")
    first = next(i for i, part in enumerate(parts) if "sdt_tokio" in part)
    longest.write_text("\n\n".join(parts[first:]))


def blank_others(record):
    """In a sample of sched_switch, whose raw part stands at its end, names of other programs. False:
    both are others."""
    if struct.unpack_from("<I", record, len(record) - 72)[0] != 68:
        return True
    ours = 0
    for at in (len(record) - 68 + 8, len(record) - 68 + 40):
        if record[at:at + 16].startswith((b"runtime", b"tokio")):
            ours += 1
        else:
            record[at:at + 16] = b"other".ljust(16, b"\0")
    return ours > 0


def blank_part(path):
    """The same for one of a folder's files, which are records and nothing else."""
    data, at = bytearray(path.read_bytes()), 0
    while at + 8 <= len(data):
        kind, _, size = struct.unpack_from("<IHH", data, at)
        record = data[at:at + size]
        if kind == 9:
            blank_others(record)
        data[at:at + size] = record
        at += size
    path.write_bytes(data)


def own_only(path):
    """Of a stream recorded on the whole system what is about our program; other names are blanked."""
    data, kept, own = path.read_bytes(), bytearray(), set()
    kept += data[:16]
    at = 16
    while at + 8 <= len(data):
        kind, misc, size = struct.unpack_from("<IHH", data, at)
        record = bytearray(data[at:at + size])
        at += size
        if kind == 66:
            more = struct.unpack_from("<I", record, 8)[0] + 7 & ~7
            record += data[at:at + more]
            at += more
        pid = struct.unpack_from("<I", record, 8)[0] if size >= 12 else 0
        if kind == 3 and record[16:24] == b"runtime\0":
            own.add(pid)
        if kind == 9:
            if not blank_others(record):
                continue
        elif kind in (14, 15):
            # Who it is about stands at the end, before the time, the id and the processor.
            if not own & set(struct.unpack(f"<{(size - 8) // 4}I", record[8:])):
                continue
        elif kind < 64 and pid not in own:
            continue
        kept += record
    path.write_bytes(kept)


def make_switches():
    program = WORK / "runtime"
    build(program)
    plugins = next(Path("/usr/lib").glob("*/traceevent/plugins"))
    for name, events in (("sched", ["-e", "sched:sched_switch"]),
                         ("switches", ["-e", "dummy:u", "--switch-events"])):
        with open(FILES / f"{name}.data", "wb") as out:
            # On one processor: Linux 6.18 may leave out switches away from another's idle thread.
            perf("record", "-q", "-a", "--synth=no", *events, "-o", "-", "--", "taskset", "-c", "0",
                 program, "4", "3", stdout=out)
        own_only(FILES / f"{name}.data")
        text(f"{name}.data", f"{name}.txt", "--show-switch-events", "--show-task-events", "--ns",
             "-F", "+pid")
        if name == "sched":
            text("sched.data", "sched-plugin.txt", "--ns",
                 env={**os.environ, "TRACEEVENT_PLUGIN_DIR": str(plugins)})
        blank_pipe(FILES / f"{name}.data")
    build(program, "-pg")
    record_uftrace(program, "switches", "--no-libcall")


def make_threads():
    program = WORK / "runtime"
    build(program)
    with probes(program):
        events = [part for probe in PROBES for part in ("-e", f"sdt_tokio:{probe}")]
        for name, more in (("threads", ["-e", "sched:sched_switch"]), ("threads-zstd", ["-z"])):
            out = FILES / f"{name}.data"
            # Until it ran on all processors.
            while not out.exists() or any(p.stat().st_size < 200 for p in out.iterdir()):
                shutil.rmtree(out, ignore_errors=True)
                perf("record", "-q", "--threads", *events, *more, "-o", out, "--", program, "4",
                     "3")
            for part in out.glob("data.*"):
                blank_part(part)
            text(f"{name}.data", f"{name}.txt", "--ns")
            blank_file(out / "data")


def make_uftrace(program, name):
    own = WORK / Path(program).name
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, own)
    options = [part for p in PATTERNS for part in ("-P", p)]
    record_uftrace(own, name, "--no-libcall", "--no-event", *options)


def record_uftrace(own, name, *options):
    out = FILES / f"{name}.uftrace"
    shutil.rmtree(out, ignore_errors=True)
    run("uftrace", "record", "-d", out, "--no-pager", *options, own)
    dump = subprocess.run(["uftrace", "dump", "-d", out], check=True, capture_output=True, text=True)
    (FILES / f"{name}.dump").write_text(shortened(dump.stdout))
    keep_called(out, own.name, dump.stdout)


def shortened(dump):
    """The head, and so many lines of each thread; not what has no call in it."""
    parts = re.split(r"(?m)^(?=reading )", dump)
    kept = ["\n".join(part.splitlines()[:DUMP_LINES]) + "\n" for part in parts[1:]]
    return parts[0] + "\n".join(part for part in kept if "[entry]" in part or "sched-" in part)


def keep_called(out, program, dump):
    """Of the symbols those that are called; of the words none that name the machine."""
    maps = next(out.glob("sid-*.map"))
    lines = [l for l in maps.read_text().splitlines() if l.split()[5].endswith("/" + program)]
    maps.write_text("\n".join(lines) + "\n")
    base = int(lines[0].split("-")[0], 16)
    called = {int(a, 16) - base for a in re.findall(r"\(([0-9a-f]+)\) depth", dump)}
    symbols = out / f"{program}.sym"
    kept = []
    for line in symbols.read_text().splitlines():
        if line.startswith("#") or any(0 <= a - int(line.split()[0], 16) < 16 for a in called):
            kept.append(line)
    symbols.write_text("\n".join(kept) + "\n")
    for path in out.iterdir():
        keep = path.suffix == ".dat"
        if not keep and path not in (maps, symbols) and path.name not in ("info", "task.txt"):
            path.unlink()
    info = (out / "info").read_bytes()
    head, words = info[:40], info[40:].decode()
    words = re.sub(r"^(cpuinfo|meminfo|osinfo|usageinfo|loadinfo|record_date|cmdline):.*\n", "",
                   words, flags=re.M)
    (out / "info").write_bytes(head + words.encode())


def main():
    FILES.mkdir(exist_ok=True)
    if sys.argv[1:] == ["perf"]:
        make_perf()
    elif sys.argv[1:] == ["switches"]:
        make_switches()
    elif sys.argv[1:] == ["threads"]:
        make_threads()
    elif len(sys.argv) == 4 and sys.argv[1] == "uftrace":
        make_uftrace(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
