# SPDX-License-Identifier: MIT OR Apache-2.0
"""How long a viewer waits: the index of a long trace, its first picture, each zoom."""
import json
import os
import random
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

from recorders import POLLUX


class View:
    """A pollux view that has printed its address."""

    def __init__(self, trace):
        self.began = time.monotonic()
        self.process = subprocess.Popen([POLLUX, "view", "--no-open", trace], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.opened = time.monotonic() - self.began

    def ask(self, path):
        """(seconds, body) of an answer."""
        begin = time.monotonic()
        with urllib.request.urlopen(self.url + path) as answer:
            body = answer.read()
        return time.monotonic() - begin, body

    def memory(self):
        """MiB that the server has had at most; that of its children is in end()."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def end(self):
        """(CPU seconds, MiB of the largest process) of the server and its children."""
        self.process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def zooms(view, span, n):
    """Seconds of an answer for each of n windows, from all of the trace to a microsecond of it."""
    random.seed(1)
    took = []
    for i in range(n):
        width = max(int(span / 2 ** (i * 28 / n)), 1000)
        begin = random.randrange(max(span - width, 1))
        window = f"from={begin}&to={begin + width}"
        took.append(view.ask(f"api/cells?n=2000&{window}")[0])
        took.append(view.ask(f"api/slices?lane=0&max=5000&{window}")[0])
    return took


def rows(size):
    """The rows of the table, and the number of events."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("POLLUX_BENCH_FOLDER")) as folder:
        trace = Path(folder) / "long.plx"
        subprocess.run([POLLUX.parents[2] / "bench" / "trace_speed", size.view_millions, "8", trace],
                       check=True, stdout=subprocess.DEVNULL)
        first = View(trace)
        cpu, memory = first.end()
        built, events = first.opened, 0
        index = trace.with_name("long.plx.index").stat().st_size
        again = View(trace)
        whole = json.loads(again.ask("api/trace")[1])
        again.ask("api/report")
        again.ask("api/cells?n=2000")
        picture = time.monotonic() - again.began
        events = whole["events"]
        took = zooms(again, whole["span_ns"], 40)
        server = again.memory()
        _, answers = again.end()
    return events, [
        ["index and report, built", f"{built:.1f} s, {cpu:.1f} s of CPU time: {events / cpu / 1e6:.1f} M events/s",
         f"{memory:.0f} MiB"],
        ["size of the index", f"{index / 1e6:.1f} MB, {index * 1000 / events:.0f} bytes per 1,000 events", ""],
        ["first picture, with the index", f"{picture:.2f} s", f"{server:.0f} MiB the server, {answers:.0f} MiB an answer"],
        ["a zoom, median of 80", f"{median(took) * 1000:.0f} ms", ""],
        ["the slowest", f"{max(took) * 1000:.0f} ms", ""],
    ]
