# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the CPUs gave the program: a throttled cgroup is named, CPU time is the program's own, no share is
more than all of it."""
import os
import shutil
from pathlib import Path

import driver
import pytest

PERIOD_US, QUOTA_US = 20_000, 5_000


@pytest.fixture
def throttled():
    """The file by which a process joins a cgroup with a quarter of a CPU."""
    one, two = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    old = (one / "cpu.cfs_quota_us").exists() or (one / "cpu.stat").exists()
    group = (one if old else two) / f"pollux-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as e:
        pytest.skip(f"no cgroup can be made here: {e}")
    try:
        try:
            if old:
                (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
            else:
                (group / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
        except OSError as e:
            pytest.skip(f"cgroups have no quota of CPU time here: {e}")
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def test_throttled(pollux, suite, trace, throttled):
    shell = shutil.which("sh")
    recorded = driver.record_launched(
        pollux, trace, shell, "-c", f'echo $$ > {throttled}; exec "$@"', "sh", suite(), "spinning")
    assert recorded.code == 0
    (cpu,) = driver.report(pollux, trace)["cpu_use"]
    assert cpu["quota_ns"] == QUOTA_US * 1000 and cpu["period_ns"] == PERIOD_US * 1000
    assert 0 < cpu["throttled_periods"] <= cpu["periods"]
    assert cpu["throttled_ns"] > 0 and cpu["cgroup"] == str(throttled.parent)
    (found,) = [f["text"] for f in driver.report(pollux, trace)["findings"] if f["rule"] == "throttled"]
    assert found.startswith("the cgroup was throttled in ") and "quota 0.25 CPU" in found


def test_cpu_time(pollux, suite, trace):
    """No percentage is of one CPU, of which several threads use more than there is."""
    recorded = driver.record_launched(pollux, trace, suite(), "spinning")
    assert "%" not in recorded.said
    report = driver.report(pollux, trace)
    (cpu,) = report["cpu_use"]
    assert 0 < cpu["cpu_ns"] <= os.cpu_count() * report["duration_ns"] * 1.1 + 100_000_000
    assert report["cost"]["analysis_cpu_ns"] > 0
    assert 0 <= report["cost"]["share_of_cpu"] <= 1
    for worker in report["workers"]:
        assert worker["blocked_ns"] <= worker["busy_ns"] <= worker["end_ns"] - worker["begin_ns"]
