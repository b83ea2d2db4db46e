# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a recording has of every future's polls, against what the program itself has counted."""
import random
import re
import time
from collections import Counter

import driver
import pytest

PENDING, READY, PANICKED, CANCELLED, UNKNOWN = 0, 1, 2, 3, 4


def ends(trace):
    """{name: Counter of the outcomes of its polls}; inlined ones and hooked ones together."""
    found = {}
    for event in driver.events(trace):
        if event[3] == "future_end":
            found.setdefault(event[5], Counter())[event[4]] += 1
    return found


def record(pollux, program, trace, *options):
    """Records the program's work, attached before it begins: what pollux said."""
    recorder = driver.Recorder(pollux, program.pid, trace, "--ring-size", "32M", *options)
    recorder.until_compiled()
    program.go()
    program.until("done")
    code, said = recorder.stop()
    assert code == 0, said
    assert ", none lost" in said, said
    return said


def names_of(truth):
    """As the debug information has them: one function lies in another."""
    return {name: "nested::recursive::recurse" if name == "recurse" else f"nested::{name}"
            for name in truth}


@pytest.mark.parametrize("which", ["generated", "all"])
def test_hooked(pollux, start, tmp_path, which):
    """Unoptimised, every future has a function of its own: the numbers are the program's."""
    program = start("tokio-1.54", "debug", "nested", 30, 3, 30)
    trace = tmp_path / "t.plx"
    said = record(pollux, program, trace, f"--futures={which}")
    assert "future polls:" not in said, said
    seen = ends(trace)
    truth = program.truth()
    assert len(truth) == 18
    for name, full in names_of(truth).items():
        begun, polls, ready, panicked = truth[name]
        want = Counter({PENDING: polls - ready - panicked, READY: ready, PANICKED: panicked})
        dropped = seen[full].pop(CANCELLED, 0)
        assert dropped <= begun - ready - panicked, full
        assert seen[full] == +want, full
    assert program.end() == 0


def test_inlined(pollux, start, tmp_path):
    """Optimised, nearly all are a part of others: how often each was pending is still exact."""
    program = start("tokio-1.54", "release-debug", "nested", 30, 3)
    trace = tmp_path / "t.plx"
    record(pollux, program, trace, "--futures=all")
    seen = ends(trace)
    truth = program.truth()
    for name, full in names_of(truth).items():
        begun, polls, ready, panicked = truth[name]
        if polls > ready + panicked:
            assert seen[full][PENDING] == polls - ready - panicked, full
            assert seen[full][READY] <= ready, full
            assert seen[full][PANICKED] <= panicked, full
        else:
            assert full not in seen, f"{full} is never pending: how is it known?"
    assert program.end() == 0


# Of these it is known how each has ended, since what awaits them keeps them until they are ready or
# has nothing else in their place afterwards. The others are in a loop, or before another await.
HELD = (
    "select_a select_b select_c behind_select in_timeout in_wrapper try_a try_b join_a join_b in_box "
    "in_pinned in_mut behind_a"
).split()
# Of these the awaiter may drop them: it isn't known where their polls are a part of its poll.
UNDECIDED = {
    "generated": "select_a select_b behind_select in_timeout try_a try_b".split(),
    "all": "select_a select_b behind_select".split(),
}


@pytest.mark.parametrize("which", ["generated", "all"])
@pytest.mark.parametrize("profile", ["release-debug", "debug"])
def test_held(pollux, start, tmp_path, which, profile):
    """Futures in a select!, a timeout, wrappers, through pointers: which were ready, which were dropped."""
    program = start("tokio-1.54", profile, "held", 30, 3)
    trace = tmp_path / "t.plx"
    said = record(pollux, program, trace, f"--futures={which}")
    seen = ends(trace)
    truth = {name: counts for name, counts in program.truth().items() if counts[0]}
    assert len(truth) == 19
    for name, (begun, pending, ready, dropped) in truth.items():
        mine = seen[f"held::{name}"]
        # what is dropped may have been polled a last time, in the poll that dropped it
        assert pending - dropped <= mine[PENDING] or name.startswith("loop"), name
        assert mine[PENDING] <= pending, name
        assert mine[READY] <= ready and mine[CANCELLED] <= dropped, name
        if profile == "release-debug" and name in UNDECIDED[which]:
            assert mine[READY] + mine[CANCELLED] + mine[UNKNOWN] == begun, name
        elif name in HELD:
            assert mine[READY] == ready, name
            assert mine[UNKNOWN] == 0, name
    # a dropped one and its successor in its memory are two
    (remade,) = [row for row in driver.report(pollux, trace)["futures"] if row["name"] == "held::remade"]
    begun, pending, ready, dropped = truth["remade"]
    assert dropped == 3 * ready > 0
    assert (remade["instances"], remade["ready"], remade["dropped"]) == (begun, ready, dropped)
    for name in ("in_own", "covered"):
        assert seen[f"held::{name}"][READY] + seen[f"held::{name}"][UNKNOWN] == truth[name][2], name
    if (profile, which) == ("release-debug", "all"):
        assert seen["held::in_timeout"][CANCELLED] == truth["in_timeout"][3]
    if (profile, which) == ("release-debug", "generated"):
        # what isn't known is named
        assert seen["held::covered"][UNKNOWN] == truth["covered"][2]
        assert "ends of inlined futures: it is unknown whether" in said and "held::covered" in said
    assert program.end() == 0


def counted_roots(seen, truth, module):
    """The two that a block_on polls itself: every poll, and none was dropped."""
    for name in ("root_a", "root_b"):
        begun, pending, ready, dropped = truth[name]
        assert begun == ready and not dropped
        assert seen[f"{module}::{name}"] == Counter({PENDING: pending, READY: ready}), name


@pytest.mark.parametrize("which", ["generated", "all"])
def test_block_on(pollux, start, tmp_path, which):
    """What a block_on polls itself, where the optimiser made its poll a part of block_on: exact."""
    program = start("tokio-1.54", "release-debug", "held", 3, 2, 40)
    trace = tmp_path / "t.plx"
    said = record(pollux, program, trace, f"--futures={which}")
    # main's two; it may have functions for their polls with other compilers
    assert "2 block_on futures" in said
    seen = ends(trace)
    truth = program.truth()
    counted_roots(seen, truth, "held")
    # the last of its polls has no end
    root = seen["held::main::{async_block#2}"]
    assert root[READY] == 0 and root[PENDING] >= truth["root_a"][1] // 2
    assert driver.report(pollux, trace)["inconsistent"] == 0
    assert program.end() == 0


def test_block_on_by_parker(pollux, start, tmp_path, parker):
    """The same where a block_on also looks for I/O between its polls: exact, also how it ended."""
    rounds = 20
    package, binary, profile = parker
    program = start(package, profile, binary, rounds)
    trace = tmp_path / "t.plx"
    if profile != "debug":
        # It has no tasks; what there is to be seen is said.
        refused = driver.run(pollux, "record", "-o", trace, "-p", program.pid)
        assert refused.returncode == 1 and "shown by record --futures" in refused.stderr
    record(pollux, program, trace, "--futures")
    counted_roots(ends(trace), program.truth(), f"{binary}::rooted")
    report = driver.report(pollux, trace)
    assert report["inconsistent"] == 0
    # What the thread waits for is no poll: 2 ms each time. (A poll may lose its CPU for longer.)
    roots = [row for row in report["futures"] if row["name"].endswith("main::{async_block#1}")]
    assert roots and all(row["poll_ns"]["p50"] < 2e6 for row in roots), roots
    assert sum(row["wait_ns"]["sum"] for row in roots) > rounds * 2 * 2e6
    # In an executor's run() it races one that is never ready.
    mains = [row for row in report["futures"] if row["name"].startswith(f"{binary}::rooted::main")]
    # fat LTO leaves no call of async-io 1 at the end
    how = "ended_unknown" if (package, profile) == ("async-std-1.12", "lto-debug") else "ready"
    assert mains and all(row[how] == row["instances"] for row in mains), mains
    assert how != "ready" or sum(row["ready"] for row in mains) == 4, mains
    # What each block_on polls itself: in async-std a future of the executor's, around main's.
    runs = [row for row in report["futures"] if re.match("async_executor::run[< ]", row["name"])]
    own = [row for row in runs if "{async_block" not in row["name"]]
    assert (parker == ("smol-2", "rooted", profile)) == (not own)
    if profile != "debug":  # there the executor's threads are in one, too
        assert all(row[how] == row["instances"] for row in own), own
    assert max(row["wait_ns"]["max"] for row in mains) > 45e6
    assert program.end() == 0


def test_block_on_without_debug_information(pollux, start, tmp_path, bare):
    """What a block_on polls itself can't be seen there: said, and the program goes on."""
    package, profile = bare
    program = start(package, profile, "rooted", 2)
    refused = driver.run(pollux, "record", "--futures", "-o", tmp_path / "t.plx", "-p", program.pid)
    assert refused.returncode == 1 and not (tmp_path / "t.plx").exists()
    if profile != "stripped":
        assert "no task is spawned in it" in refused.stderr
        assert "by record --futures if it has debug information" in refused.stderr
    program.go()
    program.until("done")
    assert program.end() == 0


@pytest.mark.parametrize("profile", ["release-debug", "debug"])
def test_block_on_current_thread(pollux, start, tmp_path, profile):
    """The same in a current-thread runtime, which polls tasks between: exact, also the last poll."""
    rounds = 20
    program = start("tokio-1.54", profile, "rooted", rounds)
    trace = tmp_path / "t.plx"
    record(pollux, program, trace, "--futures")
    seen, truth = ends(trace), program.truth()
    counted_roots(seen, truth, "rooted::rooted")
    (roots,) = [n for name, n in seen.items() if name.endswith("rooted::main::{async_block#1}")]
    assert roots[READY] == 2 and not roots[UNKNOWN] and not roots[CANCELLED]
    # each time that root_a alone is pending, two sleeps a round, one at the end; the others at once
    alone = sum(round % 3 + 1 for round in range(rounds))
    assert roots[PENDING] >= 2 * (alone + rounds + 1)
    report = driver.report(pollux, trace)
    assert report["inconsistent"] == 0
    # one of each block_on that polled it, by value or pinned
    rows = [row for row in report["futures"] if row["name"].endswith("main::{async_block#1}")]
    # no time of a task's, which sleeps for a millisecond, is a poll's
    assert sum(row["poll_ns"]["count"] for row in rows) == roots.total()
    assert all(row["poll_ns"]["p50"] < 1e6 for row in rows)
    assert sum(row["wait_ns"]["sum"] for row in rows) > rounds * 2 * 2e6
    assert [task for task in report["families"] if task["polls"] > 50]
    assert program.end() == 0


def test_block_on_attached(pollux, start, tmp_path):
    """The same of one that was there before: from its next poll on; and it goes on undisturbed."""
    rounds = 6_000_000
    program = start("tokio-1.54", "release-debug", "held", 3, 2, rounds)
    before = code_of(program.pid)
    program.go()
    time.sleep(0.1)
    for i in range(2):
        trace = tmp_path / f"{i}.plx"
        recorder = driver.Recorder(
            pollux, program.pid, trace, "--futures", "-d", "0.3", "--ring-size", "64M"
        )
        code, said = recorder.wait()
        assert code == 0, said
    assert unchanged(before, code_of(program.pid))
    program.until("done")
    truth = program.truth()
    assert truth["root_a"] == (2 * rounds, 4 * rounds, 2 * rounds, 0)
    assert truth["root_b"] == (rounds, 3 * rounds // 2, rounds, 0)
    for i in range(2):
        for row in driver.report(pollux, tmp_path / f"{i}.plx")["futures"]:
            if "root_" in row["name"]:
                assert row["ready"] > 100 and not row["dropped"], row
                # it is unknown for the one that was polled when the recording ended
                assert row["ended_unknown"] + row["alive"] <= 1, row
    assert program.end() == 0


def test_beside(pollux, start, tmp_path):
    """What is polled next to a future that isn't seen doesn't get that one's time."""
    rounds = 100
    program = start("tokio-1.54", "release-debug", "beside", rounds)
    trace = tmp_path / "t.plx"
    record(pollux, program, trace, "--futures")
    rows = {row["name"]: row for row in driver.report(pollux, trace)["futures"]}
    assert rows["beside::both"]["self_ns"] >= rounds * 1e6
    quiet = rows["beside::quiet"]
    assert quiet["poll_ns"]["count"] >= rounds and quiet["poll_ns"]["sum"] == 0
    assert program.end() == 0


def test_instances(pollux, start, tmp_path):
    """Each call of an async function is a future of its own, also where several are polled at once."""
    program = start("tokio-1.54", "debug", "nested", 20, 2)
    trace = tmp_path / "t.plx"
    record(pollux, program, trace, "--futures")
    truth = program.truth()
    rows = driver.report(pollux, trace)["futures"]
    for name, full in names_of(truth).items():
        begun, _, ready, panicked = truth[name]
        if begun != ready + panicked:
            continue  # some were dropped, and their memory used again by the same function
        mine = [row for row in rows if row["name"] == full]
        assert sum(row["instances"] for row in mine) == begun, full
        assert sum(row["ready"] for row in mine) == ready, full
    assert program.end() == 0


def test_names(pollux, start, tmp_path):
    """--include and --exclude choose among them."""
    program = start("tokio-1.54", "debug", "nested", 5, 1)
    trace = tmp_path / "t.plx"
    record(
        pollux, program, trace, "--futures", "--include", "nested::*", "--include", "tick",
        "--exclude", "number", "--exclude", "*closure*",
    )
    seen = ends(trace)
    assert "nested::middle" in seen
    assert not [name for name in seen if "number" in name or "closure" in name]
    assert all("nested::" in name or "tick" in name for name in seen)
    assert program.end() == 0


@pytest.mark.parametrize("options", [["--futures=some"], ["--include", "x"], ["--exclude", "x"]])
def test_wrong_use(pollux, tmp_path, options):
    result = driver.run(pollux, "record", *options, "-o", tmp_path / "t.plx", "--", "true")
    assert result.returncode == 2
    assert "--futures" in result.stderr


def test_readme(pollux, start, tmp_path, built):
    """The README's example on each runtime: who polled whom, and how long each waited."""
    program = start(*built, "simple")
    trace = tmp_path / "t.plx"
    recorder = driver.Recorder(pollux, program.pid, trace, "--futures")
    recorder.until_compiled()
    program.go()
    program.process.stdout.read()
    code, said = recorder.wait()
    assert code == 0, said
    report = driver.report(pollux, trace)
    rows, families = report["futures"], report["families"]

    def waits(name, family):
        mine = [r for r in rows if r["name"].endswith(name) and r["family"].endswith(family)]
        assert mine, f"{name} in {family}: {[(r['name'], r['family']) for r in rows]}"
        return sum(r["wait_ns"]["sum"] for r in mine) / 1e6, sum(r["instances"] for r in mine)

    def lives(family):
        """How long its only task lived."""
        (mine,) = [f for f in families if f["role"] == "task" and f["name"].endswith(family)]
        assert mine["tasks"] == 1
        return (mine["waiting_ns"] + mine["scheduled_ns"] + mine["poll_ns"]["sum"]) / 1e6

    # A sleep is never shorter, and longer by as much as its task lives longer than it sleeps.
    inner, n = waits("::my_test", "::example")
    assert n == 1 and inner > 95
    outer, n = waits("::example", "::example")
    assert n == 1 and inner + 145 < outer <= lives("::example")
    late = lives("::example") - 250
    assert inner <= 100 + late and outer <= 250 + late
    waited, n = waits("::nap", "::at_once")
    late = lives("::at_once") - 80
    # a nap that is dropped has not been polled again: no wait of it was seen to end
    # while one of them sleeps for 60 ms, one that has slept for 30 may wait for its turn
    assert n == 4 and 105 < waited <= 140 + 2 * late


def code_of(pid):
    """The code in the program's memory. What is after its end, in its last page, isn't: a recorder
    that is killed may leave something there."""
    found = {}
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            fields = line.split()
            if "x" in fields[1] and fields[4] != "0":
                start, end = (int(x, 16) for x in fields[0].split("-"))
                memory.seek(start)
                found[fields[0]] = memory.read(end - start)
    return found


def unchanged(before, after):
    return all(after[where].startswith(code.rstrip(b"\0")) for where, code in before.items())


def test_detach_restores(pollux, start, tmp_path):
    """Calls that lead to the agent while it records are as they were afterwards, byte for byte."""
    program = start("tokio-1.54", "debug", "nested", 4000, 3)
    before = code_of(program.pid)
    recorder = driver.Recorder(pollux, program.pid, tmp_path / "t.plx", "--futures=all")
    program.go()
    assert not unchanged(before, code_of(program.pid))
    time.sleep(0.2)
    code, said = recorder.stop()
    assert code == 0, said
    assert unchanged(before, code_of(program.pid))
    program.until("done")
    assert program.end() == 0


@pytest.mark.parametrize("profile", ["debug", "release-debug"])
def test_recorder_killed(pollux, start, tmp_path, all_of_it, profile):
    """kill -9 of pollux at any moment, again and again; the next one takes over and restores all."""
    rng = random.Random(11)
    rounds = 6000 if profile == "debug" else 60000
    plain = start("tokio-1.54", profile, "nested", rounds, 2)
    plain.go()
    plain.until("done")
    assert plain.end() == 0
    program = start("tokio-1.54", profile, "nested", rounds, 2)
    before = code_of(program.pid)
    program.go()
    for i in range(40 if all_of_it else 8):
        recorder = driver.Recorder(
            pollux, program.pid, tmp_path / f"{i}.plx", "--futures=all", wait=False
        )
        time.sleep(rng.uniform(0, 0.08))
        recorder.process.kill()
        recorder.process.communicate()
    last = driver.Recorder(pollux, program.pid, tmp_path / "last.plx", "--futures=all", "-d", "0.1")
    code, said = last.wait()
    assert code == 0, said
    assert unchanged(before, code_of(program.pid))
    program.until("done")
    assert program.end() == 0
    assert program.sum() == plain.sum()
