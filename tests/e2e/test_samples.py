"""CPU samples and the stacks of long polls, of polls in functions that are known (stacks.rs)."""
import os
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


def check_polls(report, cut_in_locks=False):
    seen = [poll for poll in report["longest_polls"] if "seen" in poll]
    assert len(seen) >= 5
    for poll in seen:
        names = function_names(poll["seen"]["stack"])
        if "::locks" in poll["family"]:
            assert poll["seen"]["state"] == "blocked"
            cut = cut_in_locks and poll["seen"]["stack"][-1].get("cut")
            assert cut or any(name.endswith("::waits_for_lock") for name in names), names
        elif "::recurses" in poll["family"]:
            assert sum(name.endswith("::recurses_down") for name in names) > 20
        else:
            assert any(name.endswith("::spins_here") for name in names[:5]), names


def test_launched(pollux, suite, trace):
    driver.record_launched(
        pollux, trace, suite(), "stacks", options=("--cpu", "--long-poll")
    )
    check(driver.report(pollux, trace))


def test_attached(pollux, suite, trace):
    driver.record_attached(
        pollux, trace, suite(), "stacks", options=("--cpu", "--long-poll")
    )
    check(driver.report(pollux, trace))


def test_without_samples(pollux, suite, trace):
    driver.record_launched(pollux, trace, suite(), "stacks", options=("--long-poll",))
    check_polls(driver.report(pollux, trace))


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel's probes need root here")
def test_kernel_source(pollux, suite, trace):
    options = ("--backend", "kernel", "--long-poll")
    driver.record_launched(pollux, trace, suite(), "stacks", options=options)
    # Of a thread that sleeps in libc the frame pointer isn't known, which std's functions need;
    # the agent's frames bring it.
    check_polls(driver.report(pollux, trace), cut_in_locks=True)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root")
def test_ordinary_user(pollux, suite, tmp_path):
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        if parent.owner() == tmp_path.owner() and "pytest" in str(parent):
            parent.chmod(0o755)
    program = tmp_path / "suite"
    shutil.copy(suite(), program)
    copy = tmp_path / "pollux"
    shutil.copy(pollux, copy)
    trace = tmp_path / "trace.plx"
    result = driver.run(
        *NOBODY, copy, "record", "--cpu", "--long-poll", "-o", trace, "--", program, "stacks"
    )
    assert result.returncode == 0, result.stderr
    check(driver.report(pollux, trace))
