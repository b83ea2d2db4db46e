#!/usr/bin/env python3
"""Makes the recordings beside this file anew, with the real tools: perf (as root) and uftrace.

    make.py perf              builds runtime.c, records it with perf
    make.py uftrace PROGRAM NAME  records a debug build of a program with the patterns of
                              Rust-Async-Context-Tracer, as NAME.uftrace and NAME.dump

What names the machine that it ran on (host, kernel, processor, command lines) is blanked, and of
symbol files only what is called is kept. Expected results are taken anew afterwards by
POLLUX_BLESS=1 and the unit test import_files, which shows what changes.
"""
import re
import shutil
import struct
import subprocess
import sys
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
KEPT = {1, 2, 12}
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


def text(source, name, *options):
    with open(FILES / name, "w") as out:
        perf("script", "-i", FILES / source, *options, stdout=out, stderr=subprocess.DEVNULL)


def make_perf():
    program = WORK / "runtime"
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    run("gcc", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o", program,
        HERE / "runtime.c", f"-ffile-prefix-map={HERE}=.")
    perf("buildid-cache", "--add", program)
    subprocess.run(["perf", "probe", "-q", "-d", "sdt_tokio:*", "-d", "async_std:*"],
                   stderr=subprocess.DEVNULL)
    try:
        for probe in PROBES:
            perf("probe", "-q", f"--add=sdt_tokio:{probe}")
        for name, args in FUNCTIONS:
            perf("probe", "-q", "-x", program, "--add",
                 f"async_std:{name}=async_std_{name}:0 {args}")
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
    finally:
        subprocess.run(["perf", "probe", "-q", "-d", "sdt_tokio:*", "-d", "async_std:*"])
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


def make_uftrace(program, name):
    out = FILES / f"{name}.uftrace"
    shutil.rmtree(out, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    own = WORK / Path(program).name
    shutil.copy(program, own)
    options = [part for p in PATTERNS for part in ("-P", p)]
    run("uftrace", "record", "-d", out, "--no-pager", "--no-libcall", "--no-event", *options, own)
    dump = subprocess.run(["uftrace", "dump", "-d", out], check=True, capture_output=True, text=True)
    (FILES / f"{name}.dump").write_text(shortened(dump.stdout))
    keep_called(out, own.name, dump.stdout)


def shortened(dump):
    """The head, and so many lines of each thread; not what has no call in it."""
    parts = re.split(r"(?m)^(?=reading )", dump)
    kept = ["\n".join(part.splitlines()[:DUMP_LINES]) + "\n" for part in parts[1:]]
    return parts[0] + "\n".join(part for part in kept if "[entry]" in part)


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
        keep = path.suffix == ".dat" and not path.name.startswith("perf-")
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
    elif len(sys.argv) == 4 and sys.argv[1] == "uftrace":
        make_uftrace(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
