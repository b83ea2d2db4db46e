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
    assert found["moves_on"] == {(sleeps,): ROUNDS}
    assert found["in_a_box"] == {(sleeps, ("in_a_box", line_of("given_up", "// in_a_box"))): ROUNDS}
    kept = (("pause", line_of("given_up", "// pause")), ("keeps", line_of("given_up", "// keeps")))
    assert found["keeps"] == {kept: ROUNDS}
