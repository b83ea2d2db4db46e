# SPDX-License-Identifier: MIT OR Apache-2.0
"""The ways to look (a core file) and what is left when something is missing."""
import json
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import build as builder
import driver
import pytest
import test_tree
from conftest import Program, everything

BUILD = ("tokio-1.54", "release-debug")


def pytest_generate_tests(metafunc):
    if "dying" in metafunc.fixturenames:
        all_of_it = everything(metafunc.config)
        metafunc.parametrize("dying", ["release-debug", "static-debug"][: 1 + all_of_it])


@pytest.fixture
def core(start, tmp_path):
    """A running program and the core that gdb makes of it, which goes on running."""
    program = start(*BUILD)
    assert shutil.which("gcore"), "gcore (of gdb) is needed: ./dev deps all installs it"
    subprocess.run(
        ["gcore", "-o", str(tmp_path / "core"), str(program.pid)], check=True, capture_output=True
    )
    return program, tmp_path / f"core.{program.pid}"


def test_core_shows_the_same(pollux, core):
    program, path = core
    live = test_tree.look(pollux, program.pid)
    assert len(test_tree.trees_of(live)) > 80
    for exe in ([], ["--exe", str(program.path)]):
        looked = test_tree.look(pollux, path, *exe)
        assert test_tree.trees_of(looked) == test_tree.trees_of(live)
        assert looked["now_ns"] == 0 and looked["missed_reads"] == 0


def test_core_of_the_kernel(pollux, tmp_path, dying):
    """As the kernel writes it when a program dies, of a static program too: files that were mapped and not
    written are left out of it. Block_ons are found through the libraries' frames."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if "/" in pattern or pattern.startswith("|"):
        pytest.skip(f"the kernel does not write cores into the current folder here: {pattern}")
    exe = builder.build("tokio-1.54", dying, "moment", root=test_tree.forest.WHERE)
    limit = "ulimit -c unlimited && exec"
    process = subprocess.Popen(
        ["sh", "-c", f'{limit} "$0" roots', exe], cwd=tmp_path, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, text=True,
    )
    while not process.stdout.readline().startswith("ready "):
        assert process.poll() is None
    live = test_tree.look(pollux, process.pid)
    process.send_signal(signal.SIGQUIT)
    process.communicate(timeout=60)
    if process.returncode == -signal.SIGQUIT and not list(tmp_path.glob("core*")):
        pytest.skip("no core was written: its size is limited here")
    (path,) = tmp_path.glob("core*")
    looked = test_tree.look(pollux, path)
    assert test_tree.trees_of(looked) == test_tree.trees_of(live)
    roots = [task for task in looked["tasks"] if task["role"] == "root"]
    assert len(roots) >= 8 and all("tree" in root for root in roots)
    assert {t["thread"]["tid"] for t in roots} == {
        t["thread"]["tid"] for t in live["tasks"] if t["role"] == "root"
    }


def test_core_of_another_program(pollux, core):
    program, path = core
    result = driver.run(pollux, "tree", str(path), "--exe", str(program.path.parent / "stuck"))
    assert result.returncode == 1 and "is not a core of" in result.stderr, result.stderr
    assert "--exe" in result.stderr and len(result.stderr.splitlines()) == 1


def test_broken_cores(pollux, core, tmp_path):
    """Cut anywhere, or with its bytes changed: an answer or one sentence, never a crash."""
    _, path = core
    whole = path.read_bytes()
    head = 64 + 56 * int.from_bytes(whole[56:58], "little")
    broken = tmp_path / "broken"
    for i in range(60):
        data = bytearray(whole[: head + 8192] if i % 3 else whole[: 1 + i * head // 60])
        for k in range(1, 9):
            data[(i * 7919 + k * 104729) % len(data)] = (i * 31 + k * 17) & 0xFF
        broken.write_bytes(data)
        result = driver.run(pollux, "tree", str(broken))
        assert result.returncode in (0, 1), (i, result.returncode, result.stderr)
        assert result.returncode == 0 or len(result.stderr.splitlines()) == 1


def of_tasks(looked):
    return [task for task in looked["tasks"] if task["role"] != "root"]


@pytest.mark.parametrize(
    "strip, says, named",
    [
        (["objcopy", "--strip-debug"], "names, states, ids and lost tasks still work", True),
        (["strip", "-o"], "kinds are numbered", False),
    ],
    ids=["without-debug-info", "stripped"],
)
def test_without_debug_information(pollux, start, tmp_path, strip, says, named):
    whole = start(*BUILD)
    bare = tmp_path / "bare"
    command = [*strip, whole.path, bare] if strip[0] == "objcopy" else [*strip, bare, whole.path]
    subprocess.run([str(part) for part in command], check=True)
    program = Program(bare)
    looked = test_tree.look(pollux, program.pid)
    text = driver.run(pollux, "tree", str(program.pid)).stdout
    program.close()
    assert len(looked["notes"]) == 1 and says in looked["notes"][0], looked["notes"]
    assert says in text.splitlines()[-1]
    # Two runs, so ids may differ; what there is does not.
    of_whole = of_tasks(test_tree.look(pollux, whole.pid))
    assert all("tree" not in task and task["no_tree"] for task in looked["tasks"])
    bare_tasks = of_tasks(looked)
    for key in ("state", "references"):
        assert Counter(t[key] for t in bare_tasks) == Counter(t[key] for t in of_whole)
    names = Counter(task["name"] for task in bare_tasks)
    # a block_on is known by its symbol alone
    assert len(looked["tasks"]) - len(bare_tasks) == (2 if named else 0)
    same = (names & Counter(task["name"] for task in of_whole)).total()
    if named:
        assert same > 0.9 * len(of_whole), (same, len(of_whole), names)
    else:
        assert all(re.fullmatch(r"kind \d+( \(.*\))?|tokio worker", name) for name in names), names


def test_no_runtime(pollux):
    sleeper = subprocess.Popen(["sleep", "60"])
    result = driver.run(pollux, "tree", str(sleeper.pid))
    sleeper.kill()
    sleeper.wait()
    assert result.returncode == 1 and "has no runtime that pollux knows" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_both_ends_of_sockets(pollux, start):
    looked = test_tree.look(pollux, start(*BUILD).pid)
    ends = {}

    def collect(node, root):
        if "ends" in node:
            ends[root] = node["ends"]
        for child in node.get("children", ()):
            collect(child, root)

    for task in looked["tasks"]:
        if "tree" in task:
            collect(task["tree"], task["name"].rsplit("::", 1)[-1])
    here, there = ends["connection"].split(" <-> ")
    assert ends["client"] == f"{there} <-> {here}"
    assert ends["accept"] == f"{here} listening"
    assert json.dumps(ends["udp"]).startswith('"127.0.0.1:')


def test_wrappers_are_folded(pollux, start):
    """Futures that only pass polls on are one line; --all-wrappers has each of them, and nothing else more."""
    pid = start(*BUILD).pid

    def lines(*options):
        result = driver.run(pollux, "tree", "--each", "--wide", *options, pid)
        assert result.returncode == 0, result.stderr
        return [line.strip(" ├└│") for line in result.stdout.splitlines() if "due for" not in line and " left" not in line]

    folded, whole = lines(), lines("--all-wrappers")
    found = [int(found[1]) for line in folded if (found := re.fullmatch(r"(\d+) wrappers: .*", line))]
    assert found and min(found) >= 2
    assert not any(re.fullmatch(r"\d+ wrappers: .*", line) for line in whole)
    assert len(whole) - len(folded) == sum(found) - len(found)
    # Nothing that has an await point or waits for something is a wrapper.
    assert Counter(line for line in folded if ".rs:" in line) == Counter(line for line in whole if ".rs:" in line)


@pytest.mark.parametrize("columns", [60, 100, 150])
def test_trees_fit(pollux, start, columns):
    pid = start(*BUILD).pid
    result = driver.run(pollux, "tree", pid, env={**os.environ, "COLUMNS": str(columns)})
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) > 200
    assert max(map(len, lines)) <= columns
