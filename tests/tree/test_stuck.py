# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tasks that can never go on: the output names them and the cause, and no others."""
import json

import driver
import forest
import pytest

BUILDS = [("tokio-1.54", "release-debug"), ("tokio-1.23", "release-debug"), ("tokio-1.54", "debug")]


def pytest_generate_tests(metafunc):
    from conftest import everything

    if "stuck" in metafunc.fixturenames:
        builds = BUILDS if everything(metafunc.config) else BUILDS[:1]
        metafunc.parametrize("stuck", builds, ids=["-".join(one) for one in builds], indirect=True)


@pytest.fixture
def stuck(request, start, pollux):
    """stuck(way): pollux tree of that program, as data and as text."""

    def run(way):
        program = start(*request.param, "stuck", way)
        result = driver.run(pollux, "tree", "--json", str(program.pid))
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout), driver.run(pollux, "tree", str(program.pid)).stdout

    return run


def names(looked, entries):
    by_address = {task["address"]: forest.short(task["name"]) for task in looked["tasks"]}
    return sorted(by_address[entry["address"]] for entry in entries)


def test_two_mutexes(stuck):
    looked, text = stuck("mutexes")
    (cycle,) = looked["deadlocks"]
    assert names(looked, cycle) == ["a_then_b", "b_then_a"]
    for entry in cycle:
        assert entry["waits"]["waits_for"] == "mutex"
        assert {entry["waits"]["task_address"]} < {e["address"] for e in cycle}
    marks = forest.marks("stuck.rs")
    assert "DEADLOCK" in text
    for mark in ("a_then_b", "b_then_a"):
        assert f"{mark} has the lock's guard in a local at ../src/{marks[mark]}" in text, text
    assert looked["never_again"] == []


def test_two_joins(stuck):
    looked, _ = stuck("joins")
    (cycle,) = looked["deadlocks"]
    assert names(looked, cycle) == ["waits_for", "waits_for"]
    assert [entry["waits"]["waits_for"] for entry in cycle] == ["task", "task"]


@pytest.mark.parametrize(
    "way, who, says",
    [
        ("futurelock", "futurelocked", "was granted to a future inside"),
        ("futurelock_held", "left_holding", "has the lock's guard in a local at"),
    ],
)
def test_futurelock(stuck, way, who, says):
    looked, text = stuck(way)
    (cycle,) = looked["deadlocks"]
    assert names(looked, cycle) == [who]
    assert says in text and "held but not polled" in text, text


def test_lost_wakes(stuck):
    looked, text = stuck("lost_wakes")
    assert looked["deadlocks"] == []
    assert names(looked, looked["never_again"]) == ["forgotten", "lost"]
    assert text.count("NEVER AGAIN") == 2 and "its only reference is its list's" in text, text
    assert "std::future::pending()" not in text and not any("pending" in entry for entry in looked["never_again"])


def test_nothing_of_the_kind(pollux, start):
    """A program in which all is well: covered for all builds by test_tree.py, here with a chain of waits."""
    program = start("tokio-1.54", "release-debug")
    looked = json.loads(driver.run(pollux, "tree", "--json", str(program.pid)).stdout)
    assert looked["deadlocks"] == [] and looked["never_again"] == []
