#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measures what pollux costs and how fast it reads, against what else there is.

Every recorder takes its turn in each round, in an order that moves on by one from round to round, so that a
slow minute of the machine hits them all; a number is the median over the rounds, a ratio the median
of the ratios within a round. The echo server has four times as many, short ones, and its throughput is told
by the mean of the ratios, with its standard error. The tables go to docs/performance.md, between the marks there.

Rows: yield, yield-multi, spawn, echo, stop, first, read, view, places, parts. Without ROW all of them.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median, stdev

import exporting
import programs
import recorders
import viewing
from programs import ROOT, Failed
from recorders import POLLUX

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def available():
    """The recorders that work here; what does not is told."""
    makers = [recorders.Nothing, recorders.Pollux, recorders.Detached, recorders.Kernel, recorders.Perf,
              lambda: recorders.Builtin("dial9"), lambda: recorders.Builtin("console")]
    found, notes = [], []
    for make in makers:
        try:
            found.append(make())
        except Failed as why:
            notes.append(f"{make.name} not measured: {why}")
    return found, notes


def rounds(size, kinds, measure, times=1):
    """{name: [result of each round]}; every result also holds the recorder's `facts`."""
    results = {recorder.name: [] for recorder in kinds}
    for number in range(size.rounds * times):
        turn = number % len(kinds)
        for recorder in kinds[turn:] + kinds[:turn]:
            result = measure(recorder)
            result["facts"] = recorder.facts
            results[recorder.name].append(result)
            print(f"   round {number + 1}/{size.rounds * times}  {recorder.name:22}"
                  + "  ".join(f"{key} {value:,.0f}" for key, value in result.items()
                              if key not in ("facts", "n")), file=sys.stderr)
    return results


def middle(results, name, key):
    return median(r[key] for r in results[name])


def ratio(results, name, key):
    return median(a[key] / b[key] for a, b in zip(results[name], results["nothing"]))


def change(results, name, key):
    """In percent, with its standard error: a server's throughput moves by as much from run to run."""
    changes = [100 * (a[key] / b[key] - 1) for a, b in zip(results[name], results["nothing"])]
    if name == "nothing" or len(changes) < 2:
        return f"{mean(changes):+.1f} %"
    return f"{mean(changes):+.1f} ± {stdev(changes) / len(changes) ** 0.5:.1f} %"


def per_event(results, name):
    """CPU ns that one event costs the program; events, also lost ones, by the recorder's count."""
    costs = [(r["cpu_ns"] - base["cpu_ns"]) * r["n"] / (r["facts"]["events"] + r["facts"]["lost"])
             for r, base in zip(results[name], results["nothing"]) if r["facts"].get("events")]
    return median(costs) if costs else None


def losses(results, name):
    lost = sum(r["facts"].get("lost", 0) for r in results[name])
    return f"{lost:,}" if results[name][0]["facts"] else "–"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def storm_rows(size, kinds, paths, what, on):
    results = rounds(size, kinds, lambda recorder: programs.storm(
        paths[recorder.build], recorder, what, on, size.storm[what] // recorder.slow))
    rows = []
    for name in results:
        cost = per_event(results, name)
        bytes_each = [r["facts"]["bytes"] / r["facts"]["events"] for r in results[name]
                      if r["facts"].get("events") and "bytes" in r["facts"]]
        rows.append([name, f"{middle(results, name, 'cpu_ns'):,.0f} ns",
                     f"{ratio(results, name, 'cpu_ns'):.2f}", f"{cost:,.1f} ns" if cost else "–",
                     f"{median(bytes_each):.1f}" if bytes_each else "–", losses(results, name)])
    return [f"### {what.capitalize()} storm, {on}-thread runtime, {size.storm[what]:,} {what}s", ""] + table(
        ["recorder", f"CPU time per {what}", "ratio", "per event", "bytes per event", "lost"], rows)


def echo_rows(size, kinds, paths):
    # How much a little more work loses here: the scale on which the recorders stand.
    scale = [recorders.Slower(100), recorders.Slower(250)]
    results = rounds(size, kinds[:1] + scale + kinds[1:], lambda recorder: programs.echo(
        paths[recorder.build], paths["load"], recorder, size.connections, size.seconds), times=4)
    rows = [[name, f"{middle(results, name, 'per_second'):,.0f}",
             change(results, name, 'per_second'),
             f"{middle(results, name, 'cpu_ns') / 1000:.2f} µs",
             f"{ratio(results, name, 'cpu_ns'):.3f}",
             f"{middle(results, name, 'p99_ns') / 1000:,.0f} µs", losses(results, name)]
            for name in results]
    return [f"### Echo server, {size.connections} connections, {size.seconds} s, the load on the same "
            "machine", ""] + table(["recorder", "requests/s", "throughput", "server's CPU per request",
                                    "ratio", "p99", "lost"], rows)


def attach_once(program):
    """Facts of one short recording, with `begin_ns`: from before exec until it records."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "bench.plx"
        begin = time.time_ns()
        done = subprocess.run([str(POLLUX), "record", "-p", str(program.pid), "-d", "0.5", "-o",
                               str(trace)], capture_output=True, text=True)
        if done.returncode:
            raise Failed(done.stderr.strip())
        said = subprocess.run([str(POLLUX), "report", "--json", str(trace)], capture_output=True,
                              text=True, check=True)
        facts = json.loads(said.stdout)
    if not facts["events"]:
        raise Failed("a recording of sleeping tasks has no events")
    facts["begin_ns"] = facts["processes"][0]["start_realtime_ns"] - begin
    return facts


def stop_rows(size, paths):
    rows = []
    for threads in (10, 100):
        with programs.Program(paths["plain"] / "threads", threads) as program:
            facts = [attach_once(program) for _ in range(size.rounds)]
        stops = [f["cost"]["stop_ns"] / 1e6 for f in facts]
        rows.append([f"{threads} workers", f"{median(stops):.2f} ms", f"{max(stops):.2f} ms"])
    return ["### Threads stopped, attach and detach together", ""] + table(
        ["program", "median", "longest"], rows)


def first_rows(size, paths):
    big = programs.build_big()
    rows = []
    for path in (paths["plain"] / "threads", big):
        with programs.Program(path) as program:
            firsts = [attach_once(program)["begin_ns"] / 1e6 for _ in range(size.rounds)]
        rows.append([f"{path.parent.name} build, {path.stat().st_size / 1e6:,.0f} MB, its tasks wake every millisecond",
                     f"{median(firsts):,.0f} ms", f"{max(firsts):,.0f} ms"])
    return ["### From the command to the running recording", ""] + table(
        ["program", "median", "longest"], rows)


def timed(command):
    """(wall seconds, largest memory in MiB) of a command; its output is thrown away."""
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        error = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(error.decode().strip())
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def read_rows(size, paths):
    with tempfile.TemporaryDirectory() as folder:
        trace, out = Path(folder) / "big.plx", Path(folder) / "big.json"
        recorder = recorders.Pollux(keep=trace)
        programs.storm(paths["plain"], recorder, "yield", "current", size.storm["yield"])
        events = recorder.facts["events"]
        report = [timed([str(POLLUX), "report", "--json", str(trace)]) for _ in range(size.rounds)]
        chrome = [timed([str(POLLUX), "export", str(trace), "--format", "chrome", "--force",
                         "--max-slices", "1000000000", "-o", str(out)]) for _ in range(size.rounds)]
        megabytes = out.stat().st_size / 1e6
    return [f"### Reading a trace of {events:,} events", ""] + table(
        ["command", "time", "speed", "memory"],
        [["report --json", f"{median(t for t, _ in report):.2f} s",
          f"{events / median(t for t, _ in report) / 1e6:.1f} M events/s",
          f"{max(m for _, m in report):.0f} MiB"],
         ["export --format chrome, every slice", f"{median(t for t, _ in chrome):.2f} s",
          f"{megabytes / median(t for t, _ in chrome):,.0f} MB/s ({megabytes:,.0f} MB)",
          f"{max(m for _, m in chrome):.0f} MiB"]])


def export_rows(size):
    events, rows = exporting.rows(size)
    return [f"### Exports of a trace of {events:,} events", "",
            "CPU time as a multiple of that of `report --json` on the same trace; a timeline has every slice. "
            "Memory is at most this: the process that measures has some itself.", ""] + table(
                ["command", "CPU time", "speed", "bytes per event", "memory"], rows)


def view_rows(size):
    events, rows = viewing.rows(size)
    return [f"### Viewing a trace of {events:,} events", ""] + table(["pollux view", "", "memory"], rows)


def place_rows(size):
    """Deep places: what the await point of a task costs, by how deep the task is."""
    links = programs.build_links()
    kinds = [recorders.Nothing(), *map(recorders.Places, ("off", "near", "deep"))]
    rows = []
    for kind, what in (("three", "three async functions, yields"), ("twelve", "twelve, in two boxes, yields"),
                       ("waits", "three, waits for a Notify"), ("boxes", "twelve, in two boxes, waits for a Notify")):
        results = rounds(size, kinds, lambda recorder: programs.links(links, recorder, kind, size.links))
        rows.append([what, *(f"{middle(results, k.name, 'cpu_ns'):,.0f} ns" for k in kinds),
                     losses(results, "deep")])
    return ["### Await points, `--places`", ""] + table(
        ["CPU time of a task's poll", *(k.name for k in kinds), "lost"], rows)


def part_rows(size):
    """What the single parts say of themselves: bench/*.c."""
    programs_of_parts = POLLUX.parents[2] / "bench"
    lines = ["### Single parts, each in a loop of its own", "", "```"]
    with tempfile.TemporaryDirectory() as folder:
        for words in (["agent_cost"], ["trace_speed", size.millions, "4", f"{folder}/speed.plx"],
                      ["timeline_speed", size.millions],
                      ["import_speed", size.import_mb, "chains"],
                      ["import_speed", size.import_mb, "plain"]):
            done = subprocess.run([str(programs_of_parts / words[0]), *words[1:]],
                                  capture_output=True, text=True)
            if done.returncode:
                raise Failed(f"{words[0]}: {done.stderr.strip()}")
            lines += [f"{words[0]}:", *done.stdout.rstrip().splitlines()]
    return lines + ["```"]


def machine():
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.split()
    return (f"{model}, {os.cpu_count()} processors, Linux {platform.release()}, "
            f"rustc {rustc[1] if len(rustc) > 1 else 'unknown'}, "
            f"{subprocess.run([POLLUX, '--version'], capture_output=True, text=True).stdout.strip()}")


def write(lines):
    text = PAGE.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    PAGE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + after)
    print(f"== wrote {PAGE.relative_to(ROOT)}")


class Full:
    rounds = 5
    storm = {"yield": 4_000_000, "spawn": 1_000_000}
    connections = 32
    seconds = 2
    links = 1_000_000
    millions = "20"
    view_millions = "500"
    export_ms = "30000"  # of an imagined server
    import_mb = "1000"  # invented text of perf script


class Quick:
    """To see that everything works; its numbers mean nothing and are not written down."""
    rounds = 1
    storm = {"yield": 100_000, "spawn": 50_000}
    connections = 4
    seconds = 1
    links = 100_000
    millions = "1"
    view_millions = "2"
    export_ms = "1000"
    import_mb = "50"


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, one round, writes nothing")
    parser.add_argument("--rounds", type=int, help="rounds of each row")
    parser.add_argument("row", nargs="*", metavar="ROW")
    options = parser.parse_args()
    size = Quick if options.quick else Full
    size.rounds = options.rounds or size.rounds
    kinds, notes = available()
    paths = programs.build(["dial9", "console"])
    rows = {
        "yield": lambda: storm_rows(size, kinds, paths, "yield", "current"),
        "yield-multi": lambda: storm_rows(size, kinds, paths, "yield", "multi"),
        "spawn": lambda: storm_rows(size, kinds, paths, "spawn", "multi"),
        "echo": lambda: echo_rows(size, kinds, paths),
        "stop": lambda: stop_rows(size, paths),
        "first": lambda: first_rows(size, paths),
        "read": lambda: read_rows(size, paths),
        "export": lambda: export_rows(size),
        "view": lambda: view_rows(size),
        "places": lambda: place_rows(size),
        "parts": lambda: part_rows(size),
    }
    wrong = set(options.row) - set(rows)
    if wrong:
        raise Failed(f"there is no row {', '.join(sorted(wrong))}; there are {', '.join(rows)}")
    lines = ["", f"{machine()}; {size.rounds} rounds.", ""]
    for name in options.row or rows:
        print(f"== {name}", file=sys.stderr)
        part = rows[name]()
        print("\n".join(part), "", sep="\n")
        lines += part + [""]
    lines += [f"{note}." for note in notes]
    if not options.quick and not options.row:
        write(lines)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as why:
        sys.exit(f"./dev bench: {why}")
    finally:
        recorders.clean()
