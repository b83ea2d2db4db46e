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
