# SPDX-License-Identifier: MIT OR Apache-2.0
"""The numbers of a recording are the program's own, exactly, with nothing lost; and the program
prints and exits as without pollux."""
import copy
import os
import time
from pathlib import Path

import catalogue
import driver
import pytest
from truth import COUNTS, differences


def test_unseen_ends():
    """A report may have as many ends less as it has polls without an end; not more, and of the same family."""
    def family(name, **counts):
        return {"name": name, "full_name": name, "role": "task", "tasks": 5, "deferred_wakes": 0,
                "polls_of_unknown_length": 0, **dict.fromkeys(COUNTS, 0), "spawned": 5, **counts}

    def report(**counts):
        families = [family("a", polls=9, completed=5), family("b", polls=7, completed=3, cancelled=2)]
        families[1].update(counts)
        totals = {what: sum(f[what] for f in families) for what in ("spawned", "completed", "cancelled", "panicked")}
        return {"lost": 0, "coverage": [], "tasks": totals, "families": families}

    whole = report()
    truth = {"families": whole["families"], "totals": copy.deepcopy(whole["tasks"])}
    for names in (True, False):
        assert differences(truth, report(), names) == []
        assert differences(truth, report(completed=2, polls_of_unknown_length=1), names) == []
        assert differences(truth, report(completed=2, cancelled=1, polls_of_unknown_length=2), names) == []
        assert differences(truth, report(completed=2), names)
        assert differences(truth, report(completed=1, polls_of_unknown_length=1), names)
        assert differences(truth, report(polls=6, polls_of_unknown_length=1), names)
        assert differences(truth, report(completed=4, polls_of_unknown_length=1), names)
        wrong = report()
        wrong["families"][0]["completed"] = wrong["tasks"]["completed"] = 4
        wrong["families"][1]["polls_of_unknown_length"] = 1
        assert differences(truth, wrong, names)


def test_truth(pollux, case, tmp_path, all_of_it):
    wrong = catalogue.check(pollux, case, tmp_path, all_of_it)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("direct", [
    ("tokio-1.54", "static", "panic", "launched"),
    ("tokio-1.54", "static", "panic_blocking", "attached"),
    ("smol-2.0", "static-pie", "panic", "attached"),
    ("async-std-1.12", "release-lto", "self_wakes", "launched"),
    ("async-std-1.12", "release-lto", "self_wakes", "attached"),
], ids="-".join)
def test_direct_calls(pollux, direct, tmp_path, all_of_it):
    """What is reached by calls past any table: the unwinder in static programs, and wakers that the
    optimiser knew."""
    wrong = catalogue.check(pollux, direct, tmp_path, all_of_it)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("program", ["self_wakes", "channels", "foreign_wakes", "block_in_place"])
def test_tracing(pollux, tmp_path, program, all_of_it):
    """Wakers that trace what they do, known by their code alone."""
    case = ("tokio-1.54", "tracing-stripped", program, "attached")
    wrong = catalogue.check(pollux, case, tmp_path, all_of_it)
    assert not wrong, "\n".join(wrong)


# Programs whose threads wake each other's tasks, spawn them elsewhere, end them.
@pytest.mark.parametrize("program", [
    "multi_thread", "channels", "foreign_wakes", "foreign_spawns", "yields", "two_runtimes", "abort",
])
def test_coarse_counter(pollux, tmp_path, monkeypatch, program, all_of_it):
    """A counter of 24 MHz steps every 42 ns: events of several threads have one stamp."""
    monkeypatch.setenv("POLLUX_TEST_CLOCK_STEP", "42")
    case = ("tokio-1.38", "release", program, "launched")
    wrong = catalogue.check(pollux, case, tmp_path, all_of_it)
    assert not wrong, "\n".join(wrong)
    report = driver.report(pollux, tmp_path / "trace.plx")
    assert report["inconsistent"] == 0
    assert report["processes"][0]["clock_step_ps"] == 42_000


def test_blocking_calls_of_a_static_program(pollux, suite, trace):
    recorded = driver.record_launched(pollux, trace, suite("tokio-1.54", "static"), "sleep_in_poll")
    assert recorded.code == 0
    report = driver.report(pollux, trace)
    family = next(f for f in report["families"] if f["name"].endswith("blocks_its_worker"))
    (call,) = family["blocking_calls"]
    assert call["call"] == "clock_nanosleep" and call["count"] == 2 * family["tasks"]
    assert call["ns"] >= family["tasks"] * 11_000_000
    # These workers may never be idle. Where there are timers, a worker parks.
    assert sum(w["blocked_ns"] for w in report["workers"]) >= call["ns"]
    driver.record_launched(pollux, trace, suite("tokio-1.54", "static"), "timers")
    workers = driver.report(pollux, trace)["workers"]
    assert any(w["parked_ns"] for w in workers)
    assert all(w["blocked_ns"] <= w["busy_ns"] for w in workers)


@pytest.mark.parametrize("profile", ["debug", "release"])
def test_ends_without_a_trace(pollux, suite, trace, profile):
    """A runtime is dropped during its tasks' last polls, and no handle to them is left: how they
    ended may be unknown, but nothing is invented."""
    recorded = driver.record_launched(pollux, trace, suite("tokio-1.38", profile), "drop_running")
    true = recorded.truth["totals"]
    report = driver.report(pollux, trace)
    tasks = report["tasks"]
    assert report["lost"] == 0
    assert tasks["spawned"] == true["spawned"]
    assert tasks["completed"] <= true["completed"]
    assert tasks["cancelled"] <= true["cancelled"]
    assert tasks["completed"] + tasks["cancelled"] + tasks["ended_unknown"] == true["spawned"]
    assert sum(f["polls"] for f in report["families"] if f["role"] == "task") == true["polls"]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_process_ends_in_a_poll(pollux, suite, trace):
    """Its polls lasted up to then; that is no contradiction."""
    with driver.Target(suite("tokio-1.38", "release"), "spinning", "--scale", 10000) as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        target.go()
        before = cpu_seconds(target.pid)
        while cpu_seconds(target.pid) - before < 0.6:  # of both tasks, which do nothing else
            time.sleep(0.01)
        target.process.kill()
        assert recorder.process.wait(60) == 0, recorder.said()
    report = driver.report(pollux, trace)
    assert (report["lost"], report["inconsistent"]) == (0, 0)
    (spinning,) = [f for f in report["families"] if f["name"].endswith("::spins")]
    assert (spinning["polls"], spinning["polls_of_unknown_length"]) == (2, 0), spinning
    assert spinning["alive"] + spinning["ended_unknown"] == 2 and not spinning["completed"]
    assert spinning["poll_ns"]["sum"] >= 500_000_000, spinning
