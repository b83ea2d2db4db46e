# SPDX-License-Identifier: MIT OR Apache-2.0
"""pollux import on recordings that the real perf makes here and now, compared with what pollux itself
saw of the same run, and with what the program counted."""
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import driver
import pytest

PROBES = ["task_start", "task_schedule_start", "task_poll_begin", "task_poll_end", "task_finish",
          "task_blocking_begin", "task_blocking_end"]
RUNTIME = Path(__file__).resolve().parents[1] / "import"
# Programs of src/tokio in which every task that pollux sees has probes, and the other way round.
PROGRAMS = ["multi_thread", "yields", "spawn_blocking", "channels", "abort", "self_wakes",
            "two_runtimes", "short_tasks"]


def why_not():
    if os.geteuid() != 0:
        return "needs root"
    if not shutil.which("perf"):
        return "no perf here"
    listed = subprocess.run(["perf", "probe", "-l"], capture_output=True, text=True)
    return None if listed.returncode == 0 else listed.stderr.strip() or "perf probe does not work"


pytestmark = [pytest.mark.xdist_group("perf"),
              pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


class Probes:
    """Registers probes with perf, of which there is one list for all of the system."""

    def __init__(self, folder):
        self.options = ["--buildid-dir", str(folder / "ids")]
        self.groups = []

    def perf(self, *args, **more):
        command = ["perf", *self.options, *[str(a) for a in args]]
        return subprocess.run(command, check=True, capture_output=True, text=True, **more)

    def clear(self, group):
        subprocess.run(["perf", "probe", "-q", "-d", f"{group}:*"], capture_output=True)

    def sdt(self, program):
        self.clear("sdt_tokio")
        self.groups.append("sdt_tokio")
        self.perf("buildid-cache", "--add", program)
        for name in PROBES:
            self.perf("probe", "-q", f"--add=sdt_tokio:{name}")

    def done(self):
        for group in self.groups:
            self.clear(group)


@pytest.fixture
def probes(tmp_path):
    made = Probes(tmp_path)
    with open(Path(tempfile.gettempdir()) / "pollux-perf-probes.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # against tests of another checkout
        yield made
        made.done()


def report(pollux, trace, *options):
    result = driver.run(pollux, "report", "--json", *options, trace)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def import_into(pollux, trace, recording):
    result = driver.run(pollux, "import", recording, "-o", trace)
    assert result.returncode == 0, result.stderr
    return result.stderr


def idle_workers(pollux, trace):
    """The threads of workers that had nothing to poll, as on a busy machine one may. By probes each is a
    blocking closure: what makes it a worker is that it polls tasks."""
    return {w["tid"] for w in report(pollux, trace)["workers"] if w["role"] == "worker" and not w["polls"]}


def tasks_and_polls(pollux, trace, idle=()):
    """What a trace says of its tasks: sums, and each task with its end; without what ran on idle workers."""
    all_of_it = report(pollux, trace)
    assert all_of_it["lost"] == 0
    closures = [w for w in all_of_it["workers"] if w["tid"] in idle and w["role"] == "blocking"]
    assert all(w["polls"] == 1 for w in closures), closures
    each = report(pollux, trace, "--machines", "-n", "0")["tasks"]
    sums = {k: all_of_it["tasks"][k] for k in ("spawned", "completed", "cancelled", "panicked")}
    for key in ("spawned", "completed"):
        sums[key] -= len(closures)
    return sums, all_of_it["polls"] - len(closures), sorted((t["task"], t["finished"]) for t in each)


@pytest.mark.parametrize("backend", ["agent", "kernel"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_run_is_the_same_by_pollux_and_by_perf(pollux, suite, probes, tmp_path, program,
                                                   backend):
    compare_one_run(pollux, suite, probes, tmp_path, program, backend)


@pytest.mark.parametrize("how", [["--threads"], ["--threads=package"], ["--threads", "-z"]],
                         ids="".join)
def test_a_folder_of_perf_record_is_one_recording(pollux, suite, probes, tmp_path, how):
    data = compare_one_run(pollux, suite, probes, tmp_path, "multi_thread", "agent", *how)
    parts = [part for part in data.glob("data.*") if part.stat().st_size]
    assert parts, "perf wrote everything into one file"


def compare_one_run(pollux, suite, probes, tmp_path, program, backend, *options):
    # a file of its own: perf sees every process that runs it
    target = shutil.copy(suite("probes-tokio2chrome", "bfd"), tmp_path / "suite")
    own, data, text = tmp_path / "own.plx", tmp_path / "perf.data", tmp_path / "perf.txt"
    probes.sdt(target)
    # -a: on its way through two execs perf sometimes misses a probe otherwise.
    probes.perf("record", "-q", "-a", *options, "-e", "sdt_tokio:*", "-m", "4M", "-o", data, "--",
                pollux, "record", "--backend", backend, "-o", own, "--", target, program)
    # In microseconds the end of a task's poll and the begin of its next, on another CPU, may tie.
    text.write_text(probes.perf("script", "--ns", "-i", data).stdout)
    expected, idle = tasks_and_polls(pollux, own), idle_workers(pollux, own)
    assert expected[1] > 0, "pollux itself saw no polls"
    for name, recording in (("text", text), ("data", data)):
        trace = tmp_path / f"{name}.plx"
        import_into(pollux, trace, recording)
        imported = tasks_and_polls(pollux, trace, idle)
        assert imported[:2] == expected[:2], name
        assert set(imported[2]) ^ set(expected[2]) == set(), name
        assert len(imported[2]) == len(expected[2]), name
    return data


def times_off_cpu(pollux, trace):
    """[(end, tid, why, ns)] in order of time."""
    result = driver.run(pollux, "print", "--event", "off_cpu", "--format",
                        "{clock} {tid} {outcome} {ns}", trace)
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()]
    return sorted((int(end), int(tid), why, int(ns)) for end, tid, why, ns in rows)


def coverage(pollux, trace, item):
    (one,) = [c for c in report(pollux, trace)["coverage"] if c["item"] == item]
    return one


def near(one, others, why):
    """The time off CPU that two tracers with two clocks record: a millisecond apart at most. pollux
    may be late to see why a thread left that was woken in the same moment."""
    return any(abs(one[0] - o[0]) < 1e6 and one[1] == o[1] and abs(one[3] - o[3]) < 1e6 and
               ("other" in (one[2], o[2]) or why(one[2]) == why(o[2])) for o in others)


@pytest.mark.parametrize("how", ["sched_switch", "switch-events"])
def test_times_off_cpu_are_those_that_pollux_saw(pollux, suite, probes, tmp_path, how):
    own, data, text = tmp_path / "own.plx", tmp_path / "perf.data", tmp_path / "perf.txt"
    events = ["-e", "sched:sched_switch"] if how == "sched_switch" else \
        ["-e", "dummy:u", "--switch-events"]
    probes.perf("record", "-q", "-a", "-k", "CLOCK_MONOTONIC", *events, "-m", "4M", "-o", data,
                "--", pollux, "record", "--sched", "-o", own, "--", suite(), "system_calls")
    text.write_text(probes.perf("script", "--ns", "--show-switch-events", "-i", data).stdout)
    expected = times_off_cpu(pollux, own)
    assert len(expected) > 100
    # pollux comes later, and leaves out what a thread does on its way out.
    first, last = {}, {}
    for end, tid, _, _ in expected:
        first.setdefault(tid, end)
        last[tid] = end
    # The kernel's records of switches don't say how a thread sleeps.
    why = (lambda w: w) if how == "sched_switch" else (lambda w: w == "preempted")
    for name, recording in (("text", text), ("data", data)):
        trace = tmp_path / f"{name}.plx"
        import_into(pollux, trace, recording)
        told = [t for t in times_off_cpu(pollux, trace) if t[1] in last and
                (first[t[1]] < t[0] < last[t[1]] or near(t, expected, why))]
        assert told, name
        # A processor of a virtual machine may be stopped between the two tracers' clocks.
        other = [t for t in told if not near(t, expected, why)]
        assert len(other) <= len(told) // 20, (name, other)
        # What perf did not record is not there, but counted.
        missed = [t for t in expected if not near(t, told, why)]
        covered = coverage(pollux, trace, "times off CPU")
        assert len(missed) <= covered["total"] - covered["seen"] + len(last) + len(other), name


def test_times_off_cpu_are_those_of_the_task_that_is_polled(pollux, probes, tmp_path):
    """The program sleeps in some of its polls, and says in how many."""
    program, data, trace = tmp_path / "runtime", tmp_path / "perf.data", tmp_path / "trace.plx"
    subprocess.run(["cc", "-O1", "-g", "-pthread", "-o", str(program), str(RUNTIME / "runtime.c")],
                   check=True)
    probes.sdt(program)
    truth = json.loads(probes.perf("record", "-q", "-a", "--switch-events", "-e", "sdt_tokio:*",
                                   "-o", data, "--", program, "40").stdout)
    import_into(pollux, trace, data)
    rows = [r for r in report(pollux, trace)["off_cpu"] if r["reason"] == "sleeping"]
    asleep = sum(r["count"] for r in rows if "tokio task" in r["family"])
    assert truth["blocking"] == 10 and asleep >= truth["blocking"]
    # Between its polls it sleeps as well: that is no task's.
    assert asleep < truth["polls"] / 2
    assert sum(r["ns"] for r in rows if "tokio task" in r["family"]) >= 10 * 300e3


def test_the_other_byte_order_is_refused(pollux, tmp_path):
    data = tmp_path / "perf.data"
    data.write_bytes(b"2ELIFREP" + bytes(96))
    done = driver.run(pollux, "import", data, "-o", tmp_path / "trace.plx")
    assert done.returncode == 1 and "import what perf script prints" in done.stderr


def test_switches_of_uftrace(pollux, tmp_path):
    """Against a pairing of what uftrace itself says of the same recording."""
    if not shutil.which("uftrace"):
        pytest.skip("no uftrace here")
    program, folder, dump = tmp_path / "runtime", tmp_path / "data", tmp_path / "dump.txt"
    subprocess.run(["cc", "-pg", "-O0", "-g", "-pthread", "-o", str(program),
                    str(RUNTIME / "runtime.c")], check=True)
    subprocess.run(["uftrace", "record", "-d", str(folder), "--no-pager", "--no-libcall",
                    str(program), "40"], check=True, capture_output=True)
    dump.write_text(subprocess.run(["uftrace", "dump", "-d", str(folder)], check=True,
                                   capture_output=True, text=True).stdout)
    away, expected, lines = {}, [], []
    for line in dump.read_text().splitlines():
        found = re.match(r"(\d+)\.(\d{9}) +(\d+): \[event\] linux:sched-(in|out)(.*)", line)
        if found:
            seconds, ns, tid, way, rest = found.groups()
            lines.append((int(seconds) * 10**9 + int(ns), int(tid), way, rest))
    for when, tid, way, rest in sorted(lines):
        if way == "out":
            away[tid] = when, "preempted" if rest.startswith(" (pre-empted)") else "sleeping"
        elif tid in away:
            since, why = away.pop(tid)
            expected.append((when, tid, why, when - since))
    assert len(expected) > 50
    for name, recording in (("folder", folder), ("text", dump)):
        trace = tmp_path / f"{name}.plx"
        import_into(pollux, trace, recording)
        assert times_off_cpu(pollux, trace) == sorted(expected), name
        covered = coverage(pollux, trace, "times off CPU")
        assert covered["seen"] == covered["total"] == len(expected), name


def test_machines_of_async_std(pollux, probes, tmp_path):
    """The numbers of the program that the events come from, and of async-std's own report."""
    program = tmp_path / "runtime"
    subprocess.run(["cc", "-O1", "-g", "-pthread", "-o", str(program), str(RUNTIME / "runtime.c")],
                   check=True)
    probes.clear("async_std")
    probes.groups.append("async_std")
    for name, args in (("task_spawn", "task_id parent_id name"), ("task_completed", "task_id"),
                       ("machine_scheduled_task", "machine_addr task_id local"),
                       ("machine_blocked", "machine_addr"), ("machine_starting", "machine_addr")):
        probes.perf("probe", "-q", "-x", program, "--add",
                    f"async_std:{name}=async_std_{name}:0 {args}")
    data = tmp_path / "perf.data"
    truth = json.loads(probes.perf("record", "-q", "-e", "async_std:*", "-o", data, "--",
                                   program).stdout)
    trace = tmp_path / "trace.plx"
    import_into(pollux, trace, data)
    told = report(pollux, trace, "--machines", "-n", "0")
    assert told["source"] == "machines"
    assert told["n_tasks"] == truth["spawned"] == 20
    assert sum(t["finished"] for t in told["tasks"]) == truth["ready"]
    assert sum(m["scheduled"] for m in told["machines"]) == truth["polls"]
    assert sum(m["blockades"] for m in told["machines"]) == truth["blocking"]
    assert sum(t["blockades"] for t in told["tasks"]) == truth["blocking"]
    assert sorted(m["tasks"] for m in told["machines"]) == [0, 10, 10]
    assert told["never_ran"] == 1 and told["blockades_without_task"] == 0
    # Tasks 1 and 2 have no parent and are the parents of all others.
    assert sorted((p["task"], p["children"]) for p in told["parents"]) == [(1, 9), (2, 9)]


@pytest.mark.parametrize("how", ["fp", "dwarf,4096"])
def test_stacks_of_samples(pollux, probes, tmp_path, how):
    program = tmp_path / "runtime"
    subprocess.run(["cc", "-O1", "-g", "-pthread", "-o", str(program), str(RUNTIME / "runtime.c"),
                    "-fno-omit-frame-pointer" if how == "fp" else "-fomit-frame-pointer"],
                   check=True)
    data, trace = tmp_path / "perf.data", tmp_path / "trace.plx"
    probes.sdt(program)
    probes.perf("record", "-q", "-a", f"--call-graph={how}", "-F", "2999", "-e", "cpu-clock",
                "-e", "sdt_tokio:task_poll_begin", "-e", "sdt_tokio:task_poll_end", "-o", data,
                "--", program, "100")
    import_into(pollux, trace, data)
    (profile,) = [p for p in report(pollux, trace)["cpu"] if p["event"] == "cpu-clock"]
    of = {f["function"]: f for f in profile["functions"]}
    assert of["compute"]["self"] > 0.5 * profile["weight"]
    # Who called it, through the frames between.
    assert of["worker"]["total"] >= of["compute"]["total"] > 0


def test_what_cannot_be_read_is_said_in_one_sentence(pollux, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_text("hello\n")
    trace = tmp_path / "trace.plx"
    for args in ([bad], [tmp_path / "missing"], [tmp_path], ["--from", "perf-script", bad]):
        result = driver.run(pollux, "import", *args, "-o", trace)
        assert result.returncode == 1
        assert result.stderr.startswith("pollux: ") and result.stderr.count("\n") == 1
        assert not trace.exists()
    assert driver.run(pollux, "import").returncode == 2
    assert driver.run(pollux, "import", "--from", "nothing", bad).returncode == 2
