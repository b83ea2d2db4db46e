# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an export costs, by format: CPU time as a multiple of a report's, bytes per event, memory.

The trace is an imagined server's (tests/viewers/synth). All of the export counts: reading the trace, the
timeline, choosing, formatting; a format with a table per file writes the folder of all.
"""
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from recorders import POLLUX

FORMATS = ("chrome", "speedscope", "perfetto", "firefox", "folded", "flame", "pprof", "csv", "jsonl", "sqlite",
           "parquet", "otlp")
IN_FOLDERS = ("csv", "parquet")


def cost(command):
    """(CPU seconds, wall seconds, MiB) of a command."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begin, usage.ru_maxrss / 1024


def written(path):
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file()) if path.is_dir() else path.stat().st_size


def rows(size):
    """(events of the trace, rows of the table)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "synth.plx"
        said = subprocess.run([Path(POLLUX).parents[2] / "tests/viewers/synth", trace, size.export_ms, "3000"],
                              check=True, capture_output=True, text=True).stdout
        events = int(re.search(r'"events":(\d+)', said)[1])
        report = [cost([POLLUX, "report", "--json", trace]) for _ in range(size.rounds)]
        base = median(r[0] for r in report)
        lines = [["report --json", "1", f"{events / base / 1e6:.1f} M/s", "", f"{max(r[2] for r in report):.0f} MiB"]]
        for form in FORMATS:
            out = folder / "out" / form
            out.parent.mkdir(exist_ok=True)
            options = ["--max-slices", "1000000000", "--force"]
            if form in IN_FOLDERS:
                out.mkdir()
            costs = []
            for _ in range(size.rounds):
                for old in ([p for p in out.rglob("*") if p.is_file()] if out.is_dir() else [out]):
                    old.unlink(missing_ok=True)
                costs.append(cost([POLLUX, "export", trace, "-f", form, *options, "-o", out]))
            cpu = median(c[0] for c in costs)
            lines.append([f"export -f {form}" + (", all tables" if form in IN_FOLDERS else ""), f"{cpu / base:.1f}",
                          f"{events / cpu / 1e6:.1f} M/s", f"{written(out) / events:.1f}",
                          f"{max(c[2] for c in costs):.0f} MiB"])
        return events, lines
