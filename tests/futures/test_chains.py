# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a default recording has of the chains of futures in boxes, against what the program awaits."""
import sys
from collections import Counter

import driver
import pytest
from conftest import HERE

sys.path.insert(0, str(HERE.parent / "trace_reader"))
import plx  # noqa: E402

ROUNDS = 20


def record(pollux, program, trace, *options):
    """Records the program's work, attached before it begins: what pollux said."""
    recorder = driver.Recorder(pollux, program.pid, trace, *options)
    recorder.until_compiled()
    program.go()
    program.until("done")
    code, said = recorder.stop()
    assert code == 0, said
    assert ", none lost" in said, said
    return said


def line_of(source, text):
    """The line of src/SOURCE.rs that ends with this text."""
    lines = (HERE / "src" / f"{source}.rs").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(text))


def chains(trace, program):
    """{outermost function: Counter of the chains at the ends of its polls}; a chain is a tuple of
    (function, line), the innermost first. Those of the program's own functions, without its name."""
    read = plx.Trace(trace)
    found = {}
    for event in read.events():
        if plx.EVENT.get(event.type) != "poll_end" or not event.value:
            continue
        places = list(read.chain(event.value - 1))
        if places[-1]["function"].startswith(f"{program}::"):
            links = tuple((p["function"].removeprefix(f"{program}::"), p["line"]) for p in places)
            found.setdefault(links[-1][0], Counter())[links] += 1
    return found


@pytest.mark.parametrize("profile", ["debug", "release-debug"])
def test_given_up(pollux, start, tmp_path, profile):
    """A box that was polled and dropped in the same poll is not where the task waits after that."""
    program = start("tokio-1.54", profile, "given_up", ROUNDS)
    trace = tmp_path / "t.plx"
    record(pollux, program, trace)
    assert program.end() == 0
    found = chains(trace, "given_up")
    sleeps = ("moves_on", line_of("given_up", "// moves_on"))
    assert set(found["moves_on"]) == {(sleeps,)}
    assert set(found["in_a_box"]) == {(sleeps, ("in_a_box", line_of("given_up", "// in_a_box")))}
    kept = (("pause", line_of("given_up", "// pause")), ("keeps", line_of("given_up", "// keeps")))
    assert set(found["keeps"]) == {kept}
    # On a busy machine a sleep may be due already when it is polled first.
    assert all(n <= ROUNDS for links in found.values() for n in links.values())


@pytest.mark.parametrize("profile", ["debug", "release-debug"])
def test_pointers(pollux, start, tmp_path, profile):
    """A chain goes on through pointers to what lies in the same task, and from a box to all that it owns."""
    program = start("tokio-1.54", profile, "pointed", ROUNDS)
    trace = tmp_path / "t.plx"
    record(pollux, program, trace)
    assert program.end() == 0
    found = chains(trace, "pointed")

    def chain(*functions):
        return tuple((name, line_of("pointed", f"// {name}")) for name in functions)

    assert set(found["borrows"]) == {chain("pause", "borrows")}
    assert set(found["selects"]) == {chain("pause", "selects")}
    assert set(found["in_a_box"]) == {chain("pause", "times_out", "in_a_box"), chain("pause", "owns", "in_a_box")}
    # Where the allocator has put the box into the task's own page, that is known to be there.
    assert set(found["owns_bare"]) <= {chain("owns_bare"), chain("pause", "owns_bare")}
    # A future that is written by hand has no await point of its own; what it has returned is followed.
    block = ("boxed::{async_block#0}", line_of("pointed", "// block"))
    assert set(found["boxed"]) == {chain("pause", "pauses") + (block,) + chain("boxed")}
    assert set(found["large"]) == {chain("pause", "pauses", "large")}
    # Unoptimised code does not say where an argument was.
    assert set(found["small"]) == {chain("pause", "counts", "small") if profile == "release-debug" else chain("small")}
    elapsed = ("elapses", line_of("pointed", "// elapsed"))
    assert set(found["elapses"]) == {chain("sleeps", "elapses"), chain("pause") + (elapsed,)}
    # What is in a box belongs to the branch that polls it, not to one that can be read.
    assert set(found["serves"]) == {chain("pause", "pauses", "serves")}
    # Of several branches the program's own.
    assert set(found["branches"]) == {chain("pause", "branches")}
    # On a busy machine a sleep may be due already when it is polled first.
    assert all(n <= ROUNDS for links in found.values() for n in links.values())


def waits_for(trace):
    """{line of the innermost await point of the program's own: Counter of (what, address)}."""
    read = plx.Trace(trace)
    found, waiting = {}, {}
    for event in read.events():
        name = plx.EVENT.get(event.type)
        if name == "resource":
            assert event.source not in waiting and event.kind == plx.NONE
            waiting[event.source] = (plx.RESOURCE[event.arg], event.task)
        elif event.source in waiting:
            assert name == "poll_end" and plx.OUTCOME[event.arg] == "pending" and event.value
            place = read.own_place(event.value - 1)
            found.setdefault(place["line"], Counter())[waiting.pop(event.source)] += 1
    assert not waiting
    return found


@pytest.mark.parametrize("profile", ["debug", "release-debug"])
def test_resources(pollux, start, tmp_path, profile):
    """What a task waits for has its address: by it the waits at one line are told apart, as often as the
    program waits."""
    program = start("tokio-1.54", profile, "resources", ROUNDS)
    for _ in range(7):
        program.until("resource ")
    truth = {}
    for line in program.lines:
        if line.startswith("resource "):
            _, name, begin, end, waits = line.split()
            truth[name] = (int(begin, 16), int(end, 16), int(waits))
    trace = tmp_path / "t.plx"
    record(pollux, program, trace)
    assert program.end() == 0
    found = waits_for(trace)
    where = {
        "lock": ("mutex", "a", "b"),
        "read": ("rwlock", "rw"),
        "acquire": ("semaphore", "permits"),
        "send": ("channel", "full"),
        "receive": ("channel", "first"),
        "receive_in_a_box": ("channel", "second"),
    }
    for text, (what, *names) in where.items():
        seen = found[line_of("resources", f"// {text}")]
        assert len(seen) == len(names) and {kind for kind, _ in seen} == {what}, (text, seen)
        for name in names:
            begin, end, waits = truth[name]
            inside = [n for (_, address), n in seen.items() if begin <= address < end]
            assert inside == [waits], (name, seen)
    report = driver.report(pollux, trace)
    shared = {r["address"]: r for r in report["resources"]}
    mutexes = [r for r in report["resources"] if r["what"] == "mutex"]
    assert sorted(r["wait_ns"]["count"] for r in mutexes) == [ROUNDS, 2 * ROUNDS]
    # A receiver is one task's.
    assert not {truth["first"][0], truth["second"][0]} & set(shared)
    assert [w["n_resources"] for w in report["waits"] if w["family"] == "resources::lock"] == [2]
    assert "What several tasks wait for" in driver.run(pollux, "report", trace).stdout


def test_resources_near(pollux, start, tmp_path):
    """Without chains those are known that are waited for in what the task holds by value."""
    program = start("tokio-1.54", "release-debug", "resources", ROUNDS)
    trace = tmp_path / "t.plx"
    record(pollux, program, trace, "--places=near")
    assert program.end() == 0
    assert sum(waits_for(trace)[line_of("resources", "// lock")].values()) == 2 * ROUNDS


def test_too_many_points(pollux, start, tmp_path):
    """Numbers beyond those of a chain's points mean something else: a kind whose points would have such has none, and
    no task is said to be where it isn't."""
    program = start("tokio-1.54", "debug", "crowded")
    trace = tmp_path / "t.plx"
    record(pollux, program, trace, "--ring-size", "32M")
    assert program.end() == 0
    read, known, elsewhere = plx.Trace(trace), Counter(), Counter()
    for event in read.events():
        if plx.EVENT.get(event.type) != "poll_end" or not event.value:
            continue
        places = [p["function"] for p in read.chain(event.value - 1)]
        known[event.task] += places == ["crowded::shared", "crowded::kind"]
        elsewhere[event.task] += places != ["crowded::shared", "crowded::kind"]
    # 31 kinds have a thousand each of the 32,767; half are of the other scheduler.
    assert 0 < sum(n > 0 for n in known.values()) < 32, known
    assert set(known.values()) == {0, 1024}, known
    # A task is in its box once, whatever else is known of it.
    assert len(elsewhere) == 32 and set(elsewhere.values()) == {1}, elsewhere
