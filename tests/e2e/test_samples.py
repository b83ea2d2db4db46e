# SPDX-License-Identifier: MIT OR Apache-2.0
"""CPU samples and the stacks of long polls, of polls in functions that are known (stacks.rs)."""
import os
import re
import shutil

import driver
import pytest

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def function_names(stack):
    return [frame["function"] for frame in stack]


def check(report):
    (cpu,) = report["cpu"]
    functions = {row["function"]: row for row in cpu["functions"]}
    spins = next(row for name, row in functions.items() if name.endswith("::spins_here"))
    # 20 polls of 60 ms each, by the thread's own clock
    assert 0.8 * 1.2e9 < spins["total"] < 1.2 * 1.2e9
    assert spins["self"] > 0.8 * spins["total"]
    # about half of the samples are at a depth that the copy doesn't reach, and say so
    assert 0.3 < cpu["cut_stacks"] / cpu["samples"] < 0.7
    check_polls(report)


def check_polls(report):
    """Each family's long polls are seen where they take their time. Not every one of them: who sees it
    last may find it on its way out, without a CPU."""
    stacks = {"spins": [], "locks": [], "recurses": []}
    for poll in report["longest_polls"]:
        family = poll["family"].split("<")[0].rsplit("::", 1)[-1]
        if "seen" in poll and family in stacks:
            stacks[family].append((poll["seen"]["state"], function_names(poll["seen"]["stack"])))
    assert sum(map(len, stacks.values())) >= 5, stacks
    assert any(name.endswith("::spins_here") for _, names in stacks["spins"] for name in names[:5])
    assert any(state == "blocked" and any(name.endswith("::waits_for_lock") for name in names)
               for state, names in stacks["locks"])
    assert any(sum(name.endswith("::recurses_down") for name in names) > 20
               for _, names in stacks["recurses"])


def report_of(pollux, trace):
    return driver.report(pollux, trace, "--longest", "30")


def test_launched(pollux, suite, trace):
    driver.record_launched(
        pollux, trace, suite(), "stacks", options=("--cpu", "--long-poll")
    )
    check(report_of(pollux, trace))


def test_attached(pollux, suite, trace):
    driver.record_attached(
        pollux, trace, suite(), "stacks", options=("--cpu", "--long-poll")
    )
    check(report_of(pollux, trace))


def test_without_samples(pollux, suite, trace):
    driver.record_launched(pollux, trace, suite(), "stacks", options=("--long-poll",))
    check_polls(report_of(pollux, trace))
    # As text: the program's own function first, and below it the stack down to the task's poll.
    text = driver.run(pollux, "report", trace, "--longest", "30", "--wide").stdout
    polls = re.findall(r"(?m)^  [\d.]+ ms in (.*): (?:blocked|running) .*\n((?:      .*\n)+)", text)
    assert any(re.match(r"(suite::)?.*::waits_for_lock\b", own) and "waits_for_lock" in stack for own, stack in polls)
    assert not any(re.search(r"clone3|start_thread|tokio::runtime::task::raw", stack) for _, stack in polls), polls
    # What was captured needs no hint.
    assert "--long-poll" not in text.partition("What to do next")[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel's probes need root here")
def test_kernel_source(pollux, suite, trace):
    options = ("--backend", "kernel", "--long-poll")
    driver.record_launched(pollux, trace, suite(), "stacks", options=options)
    # A thread that sleeps doesn't show its frame pointer, which std's functions hang on; with the
    # agent its frames bring it, here the functions' code must.
    check_polls(report_of(pollux, trace))


def for_nobody(folder, *files):
    """Copies where everybody may read them."""
    folder.chmod(0o777)
    for parent in folder.parents[:3]:
        if parent.owner() == folder.owner() and "pytest" in str(parent):
            parent.chmod(0o755)
    return [shutil.copy(file, folder / file.name) for file in files]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root")
def test_ordinary_user(pollux, suite, tmp_path):
    copy, program = for_nobody(tmp_path, pollux, suite())
    trace = tmp_path / "trace.plx"
    result = driver.run(
        *NOBODY, copy, "record", "--cpu", "--long-poll", "-o", trace, "--", program, "stacks"
    )
    assert result.returncode == 0, result.stderr
    check(report_of(pollux, trace))


@pytest.mark.parametrize("mode", ["launched", "attached"])
@pytest.mark.parametrize("package", ["tokio-1.54", "async-std-1.13", "smol-2.0"])
def test_stacks_of_spawns(pollux, suite, trace, package, mode):
    """By the agent: each spawn has a stack, out to the start of its thread."""
    record = driver.record_launched if mode == "launched" else driver.record_attached
    run = record(pollux, trace, suite(package, "release"), "short_tasks",
                 options=("--spawn-stacks", "--ring-size", "256M"))
    stacks = driver.stacks_of_spawns(pollux, trace)
    families = driver.report(pollux, trace)["families"]
    spawned = sum(f["spawned"] for f in families if f["role"] != "root")
    assert sum(one["count"] for one in stacks) == spawned >= run.truth["totals"]["spawned"]
    short = [one for one in stacks if any("short_tasks" in name for name in function_names(one["stack"]))]
    assert sum(one["count"] for one in short) >= run.truth["totals"]["spawned"]
    # The first ones of async-std come from deeper than the copy: its runtime starts there.
    whole = [one for one in stacks if not any("cut" in frame for frame in one["stack"])]
    assert sum(one["count"] for one in whole) >= spawned - 10
    for one in whole:
        assert {"_start", "clone", "clone3"} & set(function_names(one["stack"])), one


def test_stacks_of_spawns_live(pollux, suite):
    """`hist --spawns` of a program that it starts."""
    result = driver.run(pollux, "hist", "--spawns", "--", suite(), "short_tasks")
    assert result.returncode == 0, result.stderr
    assert "by stack" in result.stdout and "short_tasks" in result.stdout
    assert "none was recorded" not in result.stderr


@pytest.mark.parametrize("mode", ["launched", "attached"])
def test_stacks_of_locks(pollux, suite, trace, mode):
    """By the agent, which needs no rights for it."""
    record = driver.record_launched if mode == "launched" else driver.record_attached
    record(pollux, trace, suite(), "stacks", options=("--lock-stacks",))
    driver.check_lock_contention(pollux, trace)


@pytest.mark.parametrize("mode", ["launched", "attached"])
def test_stacks_of_long_calls(pollux, suite, trace, mode):
    """Without any option: the stack of each blocking call in a poll that took long, but perhaps the first."""
    record = driver.record_launched if mode == "launched" else driver.record_attached
    record(pollux, trace, suite(), "stacks")
    report = report_of(pollux, trace)
    locks = [p for p in report["longest_polls"] if "::locks" in p["family"]]
    assert len(locks) == 10
    # The holder sleeps for 60 ms after it has the lock; a slow machine takes some of it before the wait.
    waited = [p for p in locks if any(c["call"] == "futex" and c["ns"] >= 2_000_000 for c in p["blocking_calls"])]
    seen = [p for p in waited if "seen" in p]
    assert len(waited) >= len(locks) / 2 and len(seen) >= len(waited) - 1
    for poll in seen:
        assert poll["seen"]["state"] == "blocked" and poll["seen"]["samples"] >= 1
        assert 1_000_000 <= poll["seen"]["after_ns"] <= poll["duration_ns"]
        assert any(name.endswith("::waits_for_lock") for name in function_names(poll["seen"]["stack"]))
    # What computes has no call; and nobody asked for samples, so none are missed.
    assert not any("seen" in p for p in report["longest_polls"] if "::spins" in p["family"])
    assert not any("stacks" in c["item"] for c in report["coverage"])


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root")
def test_live_stacks_of_an_ordinary_user(pollux, suite, tmp_path):
    """`hist` of one's own program: locks and spawns by stack, system calls left out."""
    tool, program = for_nobody(tmp_path, pollux, suite())
    result = driver.run(*NOBODY, tool, "hist", "--spawns", "--", program, "stacks")
    assert result.returncode == 0, result.stderr
    assert "system calls: only blocking ones, seen by the agent" in result.stdout
    locks = result.stdout.split("Lock waits longer")[1].split("Spawns by stack")
    assert "waits_for_lock" in locks[0] and "stacks::stacks" in locks[1]
