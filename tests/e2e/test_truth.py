"""The numbers of a recording are the program's own, exactly, with nothing lost; and the program
prints and exits as without pollux."""
import catalogue
import driver
import pytest


def test_truth(pollux, case, tmp_path, all_of_it):
    wrong = catalogue.check(pollux, case, tmp_path, all_of_it)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("profile", ["debug", "release"])
def test_ends_without_a_trace(pollux, suite, trace, profile):
    """A runtime is dropped during its tasks' last polls, and nobody holds their handles: how they
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
