# SPDX-License-Identifier: MIT OR Apache-2.0
"""A reader of its own (tests/trace_reader) reads what record writes."""
import driver
import pytest

from trace_reader import plx
from trace_reader.compare import compare


@pytest.mark.parametrize("program, types", [
    ("channels", {"spawn", "poll_begin", "poll_end", "wake", "drop", "park", "unpark", "root_enter"}),
    ("abort", {"cancel", "schedule"}),
])
def test_recorded(pollux, suite, trace, program, types):
    driver.record_launched(pollux, trace, suite(), program)
    read = plx.Trace(trace)
    assert not read.cut and not read.n_damaged
    n_of_type = compare(trace)
    assert sum(n_of_type.values()) == read.n_expected
    assert types <= set(n_of_type)


def test_begins_after_its_first_moment(pollux, suite, trace):
    """What a task did between the moment and the first event is not known, so it is no wait that was seen."""
    driver.record_attached(pollux, trace, suite("tokio-1.54", "release"), "root_before")
    read = plx.Trace(trace)
    first_ns = min(e.time for events in read.by_source.values() for e in events)
    assert read.moments[0, "start"].head["now_ns"] <= first_ns
