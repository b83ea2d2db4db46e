# SPDX-License-Identifier: MIT OR Apache-2.0
"""The moments of a recording: the trace has what `pollux tree PID` shows, of programs that hang, too."""
import collections
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import build as builder
import driver
import forest
import pytest
from conftest import Program
from trace_reader.compare import compare

BUILD = ("tokio-1.54", "release-debug")
WAYS = ["lock_over_block_on", "pool", "own_queue", "read_twice", "leak", "kept", "outside_lock"]


def wait_until(holds, what):
    deadline = time.monotonic() + driver.TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, f"not in {driver.TIMEOUT} s: {what}"
        time.sleep(0.02)


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]


def record(pollux, program, trace, *options):
    result = driver.record_a_while(pollux, program.pid, trace, "0.2", *options)
    assert result.returncode == 0, result.stderr
    return result.stderr


def moments(pollux, trace, *options):
    result = driver.run(pollux, "tree", "--json", *options, trace)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["moments"]


def moment(pollux, trace, *options):
    (only,) = moments(pollux, trace, *options)
    return only


def settled(looked):
    """What does not change from one look to the next at a program that hangs: the tasks, without the time."""

    def node(one):
        return {key: value for key, value in one.items() if key not in ("detail", "children")} | {
            "children": [node(child) for child in one.get("children", ())]}

    return [task | ({"tree": node(task["tree"])} if "tree" in task else {}) for task in looked["tasks"]]


def leaves(node):
    if node["kind"] == "leaf":
        yield node
    for child in node.get("children", ()):
        yield from leaves(child)


def tasks_of(looked, name):
    return [task for task in looked["tasks"] if forest.short(task["name"]) == name]


@pytest.mark.parametrize("way", WAYS)
def test_as_the_tree_shows_it(pollux, start, tmp_path, way):
    """Both moments have the same tasks, places and waits as `tree PID`, and the page about the format says how."""
    program, trace = start(*BUILD, "hang", way), tmp_path / "a.plx"
    said = record(pollux, program, trace)
    assert "to read all tasks at the start and " in said, said
    live = json.loads(driver.run(pollux, "tree", "--json", "--all", program.pid).stdout)
    for when in ("start", "end"):
        shown = moment(pollux, trace, "--all", "--at", when)
        assert (shown["at"], shown["pid"]) == (when, program.pid)
        assert shown["exe"] == str(program.path)
        assert settled(shown["moment"]) == settled(live)
        assert shown["moment"]["deadlocks"] == [] and shown["moment"]["never_again"] == []
        assert shown["moment"]["descriptors"]["open"] == live["descriptors"]["open"] > 2
        assert shown["moment"]["stop_ns"] > 0
    since = moment(pollux, trace)["since_start"]
    assert since["gone"] == since["new"] == []
    compare(trace)


def test_what_each_waits_for(pollux, start, tmp_path):
    marks = forest.marks("hang.rs")

    def recorded(way):
        program, trace = start(*BUILD, "hang", way), tmp_path / f"{way}.plx"
        record(pollux, program, trace)
        return moment(pollux, trace, "--all")["moment"], driver.run(pollux, "tree", trace).stdout

    looked, _ = recorded("lock_over_block_on")
    (flusher,) = tasks_of(looked, "flusher")
    assert flusher["state"] == "running"
    (thread,) = [t for t in looked["threads"] if t["tid"] == flusher["thread"]["tid"]]
    assert thread["call"] == "futex"
    places = [f"{os.path.basename(frame.get('file', ''))}:{frame.get('line')}" for frame in thread["stack"]]
    assert marks["flusher"] in places, places
    (root,) = [task for task in looked["tasks"] if task["role"] == "root"]
    (timer,) = leaves(root["tree"])
    assert timer["waits_for"] == "sleep" and timer["deadline_ns"] < looked["now_ns"], "the timer is overdue"

    looked, _ = recorded("pool")
    waiting = [task for name in ("plan", "scan_file") for task in tasks_of(looked, name) if task["role"] == "task"]
    assert len(waiting) == 6 + 4
    for task in waiting:
        (leaf,) = leaves(task["tree"])
        assert leaf["waits_for"] == "task"
    closures = [task for task in looked["tasks"] if task["role"] == "blocking"]
    assert sorted(task["state"] for task in closures) == ["running"] * 4 + ["scheduled"] * 6

    looked, text = recorded("own_queue")
    (waiting,) = [task for task in looked["tasks"] if task["state"] == "scheduled"]
    assert waiting["queue"] == "run queue", waiting
    (scheduler,) = [task for task in looked["tasks"] if task["state"] == "running"]
    (thread,) = [t for t in looked["threads"] if t["tid"] == scheduler["thread"]["tid"]]
    assert thread["call"] == "futex"

    looked, text = recorded("read_twice")
    (report,) = tasks_of(looked, "report")
    for task in tasks_of(looked, "lookup") + tasks_of(looked, "reload") + [report]:
        (leaf,) = leaves(task["tree"])
        assert leaf["waits_for"] == "rwlock" and leaf["held_by"] == [report["address"]]

    looked, text = recorded("leak")
    assert "40 wait at the same await point, for the same: 40 hang::watch_session" in text, text
    looked, text = recorded("kept")
    assert sum(task["state"] == "done" for task in looked["tasks"]) == 30
    assert "30 that ended are kept by join handles (--all)" in text, text


def test_what_changed(pollux, start, tmp_path):
    """One task is aborted during the recording, one is spawned, one stays."""
    program, trace = start(*BUILD, "hang", "come_and_go"), tmp_path / "a.plx"
    recorder = subprocess.Popen([pollux, "record", str(program.pid), "-o", str(trace)], stderr=subprocess.PIPE,
                                text=True)
    wait_until(lambda: trace.exists(), "the start's moment is written")
    program.process.stdin.write("\n")
    program.process.stdin.flush()
    assert program.process.stdout.readline() == "done\n"
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(timeout=60) == 0, recorder.stderr.read()
    start_ids, end_ids = ({task["id"] for task in tasks_of(moment(pollux, trace, "--at", when)["moment"], "visitor")}
                          for when in ("start", "end"))
    assert len(start_ids) == len(end_ids) == 2 and len(start_ids & end_ids) == 1
    since = moment(pollux, trace)["since_start"]
    assert {task["id"] for task in since["gone"]} == start_ids - end_ids
    assert {task["id"] for task in since["new"]} == end_ids - start_ids
    assert start_ids & end_ids <= {task["id"] for task in since["same"]}
    text = driver.run(pollux, "tree", trace).stdout
    assert "1 gone: 1 hang::visitor" in text and "1 new: 1 hang::visitor" in text, text


def test_no_snapshot(pollux, start, tmp_path):
    program, trace = start(*BUILD, "hang", "leak"), tmp_path / "a.plx"
    said = record(pollux, program, trace, "--no-snapshot")
    assert "to read all tasks" not in said, said
    result = driver.run(pollux, "tree", trace)
    assert result.returncode == 1 and "--no-snapshot" in result.stderr
    assert driver.run(pollux, "print", "--json", trace).stdout.count('"event":"moment"') == 0


def test_kernel_backend(pollux, start, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("the kernel source needs root")
    program, trace = start(*BUILD, "hang", "read_twice"), tmp_path / "a.plx"
    record(pollux, program, trace, "--backend", "kernel")
    live = json.loads(driver.run(pollux, "tree", "--json", program.pid).stdout)
    for when in ("start", "end"):
        assert settled(moment(pollux, trace, "--at", when)["moment"]) == settled(live)


def test_stopped_program(pollux, start, tmp_path):
    """Job control stops it during the recording: it stays so, and the moment of the end is there."""
    program, trace = start(*BUILD, "hang", "leak"), tmp_path / "a.plx"
    recorder = subprocess.Popen([pollux, "record", str(program.pid), "-o", str(trace)], stderr=subprocess.PIPE,
                                text=True)
    wait_until(lambda: trace.exists(), "the start's moment is written")
    os.kill(program.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: state(program.pid) == "T", "it is stopped")
        recorder.send_signal(signal.SIGINT)
        said = recorder.communicate(timeout=60)[1]
        assert recorder.returncode == 0, said
        assert state(program.pid) == "T"
    finally:
        os.kill(program.pid, signal.SIGCONT)
    for when in ("start", "end"):
        assert len(tasks_of(moment(pollux, trace, "--at", when)["moment"], "watch_session")) == 40


def test_traced_program(pollux, start, tmp_path):
    """Another tracer takes it during the recording, which the kernel source does not mind: only the moment of the end
    is missing, and the summary says why."""
    if os.geteuid() != 0:
        pytest.skip("the kernel source needs root")
    program, trace = start(*BUILD, "hang", "leak"), tmp_path / "a.plx"
    recorder = subprocess.Popen([pollux, "record", str(program.pid), "--backend", "kernel", "-o", str(trace)],
                                stderr=subprocess.PIPE, text=True)
    wait_until(lambda: trace.exists(), "the start's moment is written")
    tracer = subprocess.Popen(["strace", "-f", "-p", str(program.pid), "-o", "/dev/null"], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: f"TracerPid:\t{tracer.pid}\n" in Path(f"/proc/{program.pid}/status").read_text(),
                   "it is traced")
        recorder.send_signal(signal.SIGINT)
        said = recorder.communicate(timeout=60)[1]
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
    assert recorder.returncode == 0, said
    assert "not seen: tasks at the end: process" in said and "already traced by process" in said, said
    assert len(tasks_of(moment(pollux, trace)["moment"], "watch_session")) == 40
    assert driver.run(pollux, "tree", "--at", "end", trace).returncode == 1


def test_program_ends(pollux, start, tmp_path):
    """What was recorded of a program that ends is whole; it has no moment of an end."""
    program, trace = start(*BUILD, "hang", "leak"), tmp_path / "a.plx"
    recorder = subprocess.Popen([pollux, "record", str(program.pid), "-o", str(trace)], stderr=subprocess.PIPE,
                                text=True)
    wait_until(lambda: trace.exists(), "the start's moment is written")
    program.close()
    said = recorder.communicate(timeout=60)[1]
    assert recorder.returncode == 0, said
    assert "at the end" not in said, said
    assert driver.run(pollux, "tree", "--at", "end", trace).returncode == 1
    result = driver.run(pollux, "tree", trace)
    assert result.returncode == 0 and "there is no moment of its end" in result.stdout
    assert "40 tasks hang::watch_session" in result.stdout


def test_killed_recorder(pollux, start, tmp_path):
    """Also of a program in which nothing happens the file is there from the start on."""
    program, trace = start(*BUILD, "hang", "leak"), tmp_path / "a.plx"
    recorder = subprocess.Popen([pollux, "record", str(program.pid), "-o", str(trace)], stderr=subprocess.PIPE)
    wait_until(lambda: trace.exists(), "the start's moment is written")
    recorder.kill()
    recorder.wait()
    result = driver.run(pollux, "tree", trace)
    assert "40 tasks hang::watch_session" in result.stdout and "the trace ends" in result.stderr


def test_several_processes(pollux, start, tmp_path):
    programs = [start(*BUILD, "hang", "leak"), start(*BUILD, "hang", "read_twice")]
    trace = tmp_path / "a.plx"
    result = driver.run(pollux, "record", *(p.pid for p in programs), "-d", "0.2", "-o", trace)
    assert result.returncode == 0, result.stderr
    shown = moments(pollux, trace)
    assert [one["pid"] for one in shown] == [p.pid for p in programs]
    assert [len(one["moment"]["tasks"]) for one in shown] == [42, 9]
    text = driver.run(pollux, "tree", trace).stdout
    for program in programs:
        assert f"process {program.pid} {program.path}" in text
    # A task that only one of them has, or none.
    first, second = ({task["name"] for task in one["moment"]["tasks"]} for one in shown)
    for only, program in ((first - second, programs[0]), (second - first, programs[1])):
        (found,) = moments(pollux, trace, "--family", sorted(only)[0])
        assert found["pid"] == program.pid and found["moment"]["tasks"]
    result = driver.run(pollux, "tree", trace, "--family", "nobody")
    assert result.returncode == 1 and "in any of the 2 processes" in result.stderr
    compare(trace)


def test_wrong_use(pollux, start, tmp_path):
    program, trace = start(*BUILD, "hang", "leak"), tmp_path / "a.plx"
    record(pollux, program, trace)
    for words in (["--at", "middle", trace], ["--at", "end", program.pid], ["--no-stop", trace],
                  ["--depth", "3", trace], ["--exe", "x", trace]):
        assert driver.run(pollux, "tree", *words).returncode == 2, words
    result = driver.run(pollux, "tree", "--family", "nonsense", trace)
    assert result.returncode == 1 and "no task whose name contains 'nonsense'" in result.stderr


def test_report_of_what_hangs(pollux, start, tmp_path):
    """No task had an event: all are alive, waited from end to end, and the report says where and for what."""
    marks = forest.marks("hang.rs")

    def reported(way):
        program, trace = start(*BUILD, "hang", way), tmp_path / f"{way}.plx"
        record(pollux, program, trace)
        done = driver.run(pollux, "report", "--json", trace)
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert made["inconsistent"] == made["lost"] == 0
        groups = {(group["family"].split("::", 1)[-1], group["state"]): group
                  for group in made["without_events"]["groups"]}
        return made, groups, driver.run(pollux, "report", trace).stdout

    def at(group):
        return group["place"].split("/")[-1].split(" ")[0]

    made, groups, text = reported("leak")
    assert made["tasks"]["alive"] == made["tasks"]["pre_existing"] == 40 and made["tasks"]["spawned"] == 0
    assert list(groups) == [("watch_session", "idle")]
    group = groups["watch_session", "idle"]
    assert (group["tasks"], group["what"], at(group)) == (40, "notified", marks["watch_session"])
    (family,) = [family for family in made["families"] if family["name"] == "hang::watch_session"]
    assert family["tasks"] == 40
    # each waited from the beginning to the end, at its await point
    (wait,) = [wait for wait in made["waits"] if wait["family"] == "hang::watch_session"]
    assert wait["wait_ns"]["count"] == 40 and f"{os.path.basename(wait['file'])}:{wait['line']}" == marks["watch_session"]
    assert wait["wait_ns"]["min"] == wait["wait_ns"]["max"] == made["duration_ns"]
    assert "Tasks without an event, as at the end" in text, text

    made, groups, text = reported("lock_over_block_on")
    assert made["tasks"]["alive"] == 2
    assert groups["flusher", "running"]["what"] == "futex"
    assert at(groups["flusher", "running"]) == marks["flusher"]

    made, groups, text = reported("pool")
    assert made["tasks"]["alive"] == 20
    assert groups["plan", "idle"]["tasks"] == 6 and groups["plan", "idle"]["what"].startswith("join handle of ")
    assert at(groups["plan", "idle"]) == marks["plan"]
    assert groups["plan::{closure#0}", "running"]["tasks"] == 4
    assert at(groups["plan::{closure#0}", "running"]) == marks["recv"]
    assert groups["scan_file::{closure#0}", "scheduled"]["tasks"] == 4

    made, groups, text = reported("own_queue")
    assert at(groups["scheduler", "running"]) == marks["scheduler"]
    assert groups["scheduler::{async_block#0}", "scheduled"]["what"] == "run queue"

    made, groups, text = reported("read_twice")
    assert groups["lookup", "idle"]["what"].startswith("RwLock::read, held by task 3 hang::report")
    assert groups["lookup", "idle"]["tasks"] == 5 and at(groups["lookup", "idle"]) == marks["lookup"]
    assert at(groups["reload", "idle"]) == marks["reload"]

    made, groups, text = reported("kept")
    assert made["tasks"]["alive"] == 1 and at(groups["listen", "idle"]) == marks["listen"]


def test_report_says_deadlock(pollux, start, tmp_path):
    program, trace = start(*BUILD, "stuck", "mutexes"), tmp_path / "a.plx"
    record(pollux, program, trace)
    text = driver.run(pollux, "report", trace).stdout
    assert "1 deadlock: tasks wait for each other" in text, text
    made = json.loads(driver.run(pollux, "report", "--json", trace).stdout)
    assert made["without_events"]["deadlocks"] == 1
    for options in (["--from", "0.05"], ["--family", "a_then_b"]):
        made = json.loads(driver.run(pollux, "report", "--json", *options, trace).stdout)
        assert made["tasks"]["alive"] == (1 if "--family" in options else 2), (options, made["tasks"])


def tracer(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("TracerPid:")[1].split()[0])


def test_killed_while_its_end_is_read(pollux, tmp_path):
    """The exit status of a launched program is its own, also where reading its tasks takes its end."""
    binary = builder.build(*BUILD, "hang", root=forest.WHERE)
    codes = []
    for _ in range(6):
        process = subprocess.Popen([pollux, "record", "-d", "0.3", "-o", tmp_path / "a.plx", "--", binary, "leak"],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text(), "the program is started")
        child, free_since, deadline = int(children.read_text().split()[0]), None, time.monotonic() + 3
        # Stopped again after it ran for a while: its end is read.
        while time.monotonic() < deadline:
            now = time.monotonic()
            if not tracer(child):
                free_since = free_since or now
            elif free_since and now - free_since > 0.2:
                break
            else:
                free_since = None
        os.kill(child, signal.SIGKILL)
        process.communicate(timeout=60)
        codes.append(process.returncode)
    assert set(codes) == {128 + signal.SIGKILL}, codes


def test_late_without_debug_information(pollux, tmp_path):
    """States, counts, sizes of whole tasks, where threads stand, and what is stuck, by symbols alone."""
    whole, bare = builder.build(*BUILD, "hang", root=forest.WHERE), tmp_path / "hang"
    subprocess.run(["objcopy", "--strip-debug", whole, bare], check=True)
    program, trace = Program(bare, "pool"), tmp_path / "a.plx"
    record(pollux, program, trace)
    looked = moment(pollux, trace)["moment"]
    program.close()
    kinds = collections.Counter((forest.short(task["name"]), task["role"], task["state"]) for task in looked["tasks"]
                                if task["role"] != "root")
    closures = sum(n for (_, role, _), n in kinds.items() if role == "blocking")
    assert kinds[("plan", "task", "idle")] == 6 and kinds[("scan_file", "task", "idle")] == 4 and closures == 10
    assert all(task["task_bytes"] > 40 and "future_bytes" not in task for task in looked["tasks"] if task["role"] == "task")
    running = [task for task in looked["tasks"] if task["role"] == "blocking" and task["state"] == "running"]
    assert len(running) == 4
    assert all(any("scan_file" in frame["function"] for frame in task["stack"]) for task in running)
    report = driver.report(pollux, trace)
    (first, *_) = report["findings"]
    assert first["rule"] == "pool-stuck" and "4 closures run, the first of hang::plan" in first["text"], first
    text = driver.run(pollux, "tree", trace, "--sort", "size").stdout
    assert "its future's size is not known" in text and "threads that run tasks" in text
