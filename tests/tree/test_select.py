# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which tasks `pollux tree` shows, in which order, and what it says of those that run."""
import json
import re
import signal
import subprocess
import time

import driver
import forest
import pytest
from test_recorded import wait_until

BUILD = ("tokio-1.54", "release-debug")


def look(pollux, what, *options):
    result = driver.run(pollux, "tree", "--json", *options, what)
    assert result.returncode == 0, result.stderr
    looked = json.loads(result.stdout)
    return looked["moments"][0]["moment"] if "moments" in looked else looked


def names(looked):
    return sorted({forest.short(task["name"]) for task in looked["tasks"]})


def text_of(pollux, what, *options):
    result = driver.run(pollux, "tree", *options, what)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture
def pool(start, pollux, tmp_path):
    """A full blocking pool, running and recorded: what is asked of one is asked of both."""
    program, trace = start(*BUILD, "hang", "pool"), tmp_path / "pool.plx"
    result = driver.record_a_while(pollux, program.pid, trace, "0.2")
    assert result.returncode == 0, result.stderr
    return program.pid, trace


def test_filters(pool, pollux):
    for what in pool:
        assert names(look(pollux, what, "--waits-for", "join handle")) == ["plan", "scan_file"]
        # of what is awaited, and of the call of a thread
        assert names(look(pollux, what, "--waits-for", "scan_file", "--state", "idle")) == ["scan_file"]
        in_futex = look(pollux, what, "--waits-for", "futex")
        assert {task["state"] for task in in_futex["tasks"]} == {"running"}
        # in a tree, and on a stack
        assert names(look(pollux, what, "--with", "hang::plan", "--state", "idle")) == ["plan"]
        running = look(pollux, what, "--with", "scan_file", "--state", "running")["tasks"]
        assert len(running) == 4 and {task["role"] for task in running} == {"blocking"}
        without = look(pollux, what, "--without", "hang::plan", "--without", "scan_file", "--state", "idle")
        assert "plan" not in names(without) and "scan_file" not in names(without)
        states = {task["state"] for task in look(pollux, what, "--state", "running", "--state", "scheduled")["tasks"]}
        assert states == {"running", "scheduled"}
        for option, word, says in [("--waits-for", "no such", "no task that waits for 'no such' among [0-9]+ tasks: "),
                                   ("--with", "no::such", "no task with a function 'no::such' among .*plan"),
                                   ("--state", "done", "no task in the state 'done' among [0-9]+ tasks: .* running")]:
            result = driver.run(pollux, "tree", str(what), option, word)
            assert result.returncode == 1 and re.search(says, result.stderr), result.stderr
        result = driver.run(pollux, "tree", str(what), "--waits-for", "join handle", "--state", "running")
        assert result.returncode == 1 and "no task that all options match among " in result.stderr


def test_longer_than(pollux, start, tmp_path):
    """By two looks, or by the events of a recording: a task that came in between has not waited for so long."""
    program, trace = start(*BUILD, "hang", "come_and_go"), tmp_path / "a.plx"
    both = look(pollux, program.pid, "--family", "visitor", "--longer-than", "200ms")["tasks"]
    assert len(both) == 2 and all(task["state_for_ns"] > 200e6 for task in both)
    recorder = subprocess.Popen([pollux, "record", str(program.pid), "-o", str(trace)], stderr=subprocess.DEVNULL)
    wait_until(trace.exists, "the start's moment is written")
    time.sleep(1.2)
    program.process.stdin.write("\n")
    program.process.stdin.flush()
    assert program.process.stdout.readline() == "done\n"
    recorder.send_signal(signal.SIGINT)
    assert recorder.wait(timeout=60) == 0
    assert len(look(pollux, trace, "--family", "visitor")["tasks"]) == 2
    (old,) = look(pollux, trace, "--family", "visitor", "--longer-than", "1s")["tasks"]
    assert old["state_for_ns"] > 1e9
    both = look(pollux, trace, "--family", "visitor", "--longer-than", "1ns")["tasks"]
    assert sorted(task["state_for_ns"] for task in both)[1] == old["state_for_ns"]
    assert re.search(r"visitor  idle for \d", text_of(pollux, trace, "--longer-than", "1s"))
    # what is waiting for longer than the recording is not known to
    result = driver.run(pollux, "tree", str(trace), "--longer-than", "1h")
    assert result.returncode == 1
    assert "no task in its state for at least this time among " in result.stderr


def test_wrong_words(pool, pollux):
    pid, trace = pool
    for options, says in [(["--state", "asleep"], "--state is idle, scheduled, running or done, not 'asleep'"),
                          (["--longer-than", "soon"], "--longer-than needs a time"),
                          (["--longer-than", "0"], "--longer-than needs a time"),
                          (["--sort", "name"], "--sort is size")]:
        result = driver.run(pollux, "tree", *options, pid)
        assert result.returncode == 2 and says in result.stderr, result.stderr
    result = driver.run(pollux, "tree", "--at", "start", "--longer-than", "1s", trace)
    assert result.returncode == 1 and "--longer-than needs the moment at the recording's end" in result.stderr
    for word in ["abc", "1x"]:
        result = driver.run(pollux, "tree", "--task", word, trace)
        assert result.returncode == 2 and f"--task is the number of a task, not '{word}'" in result.stderr, result.stderr


def test_sizes(pollux, start):
    """The largest first; what is in boxes belongs to the task that has them."""
    program = start(*BUILD)
    looked = look(pollux, program.pid)
    by_name = {forest.short(task["name"]): task for task in looked["tasks"]}
    boxed = {name for name, task in by_name.items() if task.get("boxed_bytes")}
    assert boxed and all(by_name[name]["tree"] for name in boxed)
    text = text_of(pollux, program.pid, "--sort", "size", "--each", "--wide")
    sizes = [int(n.replace(",", "")) for n in re.findall(r", ([\d,]+) bytes \(its future", text)]
    assert len(sizes) > 80 and sizes == sorted(sizes, reverse=True)
    whole = sorted((task.get("task_bytes", task.get("future_bytes", 0)) + task.get("boxed_bytes", 0)
                    for task in looked["tasks"]), reverse=True)
    assert sizes[:40] == whole[:40]


def test_running_tasks(pool, pollux):
    """A closure that runs shows its stack from where it begins, a worker that it is parked."""
    mark = forest.marks("hang.rs")["recv"]
    for what in pool:
        looked = look(pollux, what)
        running = [task for task in looked["tasks"] if task["role"] == "blocking" and task["state"] == "running"]
        assert len(running) == 4
        for task in running:
            functions = [frame["function"] for frame in task["stack"]]
            assert "scan_file" in functions[-2] and "plan" in functions[-1], functions
            assert not any(name.startswith("tokio::") for name in functions)
        used = [t for t in looked["threads"] if "task" in t]
        assert {t["task"]["id"] for t in used} == {task["id"] for task in running}
        assert len([t for t in looked["threads"] if t.get("worker") and t.get("parked")]) == 2
        text = text_of(pollux, what)
        assert re.search(rf"4 tasks .*plan.*running on 4 threads tokio-rt-worker, in futex(?s:.*?)"
                         rf"hang::scan_file  .*{mark}\n  std::sync::mpsc::Receiver", text), text
        assert len(re.findall(r"^  thread \d+ tokio-rt-worker  worker, parked, in (?:futex|epoll_wait)$", text, re.M)) == 2
        assert len(re.findall(r"^  thread \d+ tokio-rt-worker  runs task \d+ .*plan.*, in futex$", text, re.M)) == 4
        # a part of the tasks says nothing of all threads
        assert "threads that run tasks" in text and "threads that run" not in text_of(pollux, what, "--state", "idle")
