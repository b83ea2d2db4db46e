# SPDX-License-Identifier: MIT OR Apache-2.0
"""What only a stop shows: the futures of block_on, which thread polls which task, and the run
queue in which a scheduled task is. The programs say what is true."""
import json
from collections import Counter

import driver
import forest
import pytest

BUILDS = [
    ("tokio-1.54", "release-debug"),
    ("tokio-1.54", "debug"),
    ("tokio-1.54", "release-lto"),
    ("tokio-1.23", "release-debug"),
    ("tokio-1.23", "debug"),
    ("smol-2", "release-debug"),
    ("smol-2", "debug"),
]


def pytest_generate_tests(metafunc):
    from conftest import everything

    if "moment" in metafunc.fixturenames:
        builds = BUILDS if everything(metafunc.config) else BUILDS[:2]
        metafunc.parametrize("moment", builds, ids=["-".join(one) for one in builds], indirect=True)


@pytest.fixture
def moment(request, start, pollux, monkeypatch):
    """moment(way): the program's own lines, and its tree as data and as text."""
    monkeypatch.setenv("SMOL_THREADS", "1")

    def run(way, *options):
        if request.param[0].startswith("smol") and way not in ("roots", "running", "queues"):
            pytest.skip("the program for smol has no such moment")
        program = start(*request.param, "moment", way)
        result = driver.run(pollux, "tree", "--json", *options, str(program.pid))
        assert result.returncode == 0, result.stderr
        text = driver.run(pollux, "tree", *options, str(program.pid)).stdout
        return program.lines, json.loads(result.stdout), text

    run.package, run.profile = request.param
    return run


def said(lines, word):
    return [line.split(" ", 1)[1] for line in lines if line.startswith(word + " ")]


def test_block_on(moment):
    lines, looked, text = moment("roots")
    marks = forest.marks("moment_async.rs" if moment.package == "smol-2" else "moment.rs")
    roots = {}
    for task in looked["tasks"]:
        if task["role"] == "root":
            roots.setdefault(task["thread"]["tid"], []).append(task)
    for line in said(lines, "root"):
        name, tid = line.split()
        (root,) = roots[int(tid)]
        assert forest.short(root["name"]) == name, root
        assert root["state"] == "idle", root
        if "tree" not in root and name == "waits_in_futures":
            # under fat LTO nothing in the debug information refers to it
            assert moment.profile == "release-lto" and "doesn't tell where" in root["no_tree"]
            continue
        if name == "Plain":
            continue
        mark = {"waits_in": "in", "waits_beside": "beside"}.get(name, name.replace("waits_", ""))
        node = root["tree"]
        while forest.short(node["name"]) != name:  # a LocalSet's RunUntil
            (node,) = node["children"]
        assert f"{node['file'].rsplit('/', 1)[1]}:{node['line']}" == marks[mark], node
        assert f"block_on of moment::{name}  idle on thread {tid}" in text
    assert looked["deadlocks"] == [] and looked["never_again"] == []


def test_running(moment):
    lines, looked, _ = moment("running")
    told = [(f"{forest.short(t['name'])}", t["thread"]["tid"]) for t in looked["tasks"]
            if t["state"].startswith("running") and t["role"] == "task"]
    true = [line.split() for line in said(lines, "running")]
    assert sorted(told) == sorted((name.rstrip("01"), int(tid)) for name, tid in true)


def test_queues(moment):
    lines, looked, text = moment("queues")
    told = Counter()
    for task in looked["tasks"]:
        if task["state"] == "scheduled":
            told[f"{forest.short(task['name'])} {task.get('queue')}"] += 1
    true = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in said(lines, "queued")}
    assert told == true, text
    assert looked["never_again"] == []


@pytest.mark.parametrize("way", ["lost", "lost_current"])
def test_in_no_queue(moment, way):
    _, looked, text = moment(way)
    (lost,) = looked["never_again"]
    (task,) = [task for task in looked["tasks"] if task["role"] == "task"]
    assert lost["address"] == task["address"] and task["state"] == "scheduled"
    assert "in none of its scheduler's run queues" in lost["proof"]
    assert "NEVER AGAIN" in text


def test_freed(moment):
    """What an allocator has left of tasks in memory that is free is none."""
    _, looked, text = moment("freed")
    assert [forest.short(task["name"]) for task in looked["tasks"] if task["role"] == "task"] == ["left_behind"], text


def test_without_a_stop(moment):
    """Nothing is said that only a stop can show."""
    _, looked, _ = moment("queues", "--no-stop")
    assert looked["stop_ns"] == 0 and looked["torn"] == 0
    assert all("queue" not in task and "thread" not in task for task in looked["tasks"])
