# SPDX-License-Identifier: MIT OR Apache-2.0
"""How fast is the export to Chrome's JSON? Prints MB of output per second of CPU time.

    POLLUX=build/src/cli/pollux python3 bench/export_speed.py [TRACE.plx]

Without a trace: ten seconds of the imagined server of tests/viewers/synth. All of the export counts:
reading the trace twice, the timeline, choosing, formatting; the output goes to /dev/null.
"""
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
POLLUX = pathlib.Path(os.environ.get("POLLUX", ROOT / "build/src/cli/pollux")).resolve()
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def run(trace, form):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.monotonic()
    done = subprocess.run([POLLUX, "export", trace, "-f", form, "--max-slices", "100000000", "--force",
                           "-o", "/dev/null"], check=True, capture_output=True, text=True)
    wall = time.monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    size, unit = re.search(r": ([0-9.]+) ([KMG]iB)", done.stderr).groups()
    return float(size) * UNITS[unit] / 1e6, cpu, wall


def main():
    with tempfile.TemporaryDirectory() as folder:
        trace = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(folder) / "synth.plx"
        if len(sys.argv) < 2:
            subprocess.run([POLLUX.parents[2] / "tests/viewers/synth", trace, "10000", "3000"],
                           check=True, stdout=subprocess.DEVNULL)
        for form in ("chrome", "speedscope"):
            runs = [run(trace, form) for _ in range(5)]
            mb = runs[0][0]
            cpu = statistics.median(r[1] for r in runs)
            wall = statistics.median(r[2] for r in runs)
            print(f"{form}: {mb:.1f} MB, {cpu:.3f} s CPU, {wall:.3f} s: {mb / cpu:.0f} MB/s of CPU time, "
                  f"{mb / wall:.0f} MB/s")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"memory: {peak / 1024:.1f} MiB at most")


main()
