# SPDX-License-Identifier: MIT OR Apache-2.0
"""Off-CPU time and system calls, against programs that count their own (tests/targets, kernel.rs)."""
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import defaultdict

import driver
import pytest

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(scope="module")
def kernel(pollux, tmp_path_factory):
    """pollux, where the kernel lets it use BPF; elsewhere the test is skipped with what it said."""
    trace = tmp_path_factory.mktemp("probe") / "probe.plx"
    result = driver.run(pollux, "record", "--syscalls", "-o", trace, "--", "true")
    if "CAP_BPF" in result.stderr:
        pytest.skip(result.stderr.strip())
    return pollux


def counted(output):
    """What the program says it did: {name: times}."""
    (line,) = [line for line in output if line.startswith("read ")]
    words = line.split()
    return {name: int(n) for name, n in zip(words[::2], words[1::2])}


def calls(report, family):
    """{system call: row} of a family's polls."""
    return {row["call"]: row for row in report["system_calls"] if family in row["family"]}


def off_cpu(report, family):
    """{(why, system call or None): row} of a family's polls."""
    return {(r["reason"], r.get("call")): r for r in report["off_cpu"] if family in r["family"]}


def check_counts(report, output):
    true = counted(output)
    assert report["lost"] == report.get("lost_aux", 0) == 0
    assert calls(report, "::reads")["read"]["count"] == true["read"]
    assert calls(report, "::reads")["read"]["failed"] == 0
    asks = calls(report, "::asks")["getppid"]
    assert (asks["count"], asks["failed"]) == (true["getppid"], 0)
    # the runtime's own are futex calls, too, of which one may find that it need not wait
    assert calls(report, "::sleeps_on_futex")["futex"]["failed"] >= true["futex"]


def test_events_have_one_number(kernel, suite, trace):
    """What the recording says, what the report says, what is in the trace."""
    result = driver.run(kernel, "record", "--sched", "--syscalls", "-o", trace, "--", suite(), "yields")
    assert result.returncode == 0, result.stderr
    recorded = int(re.search(r"^ +([\d,]+) events?, ", result.stderr, re.M)[1].replace(",", ""))
    printed = [json.loads(line) for line in driver.run(kernel, "print", "--json", trace).stdout.splitlines()]
    assert recorded == len(printed) == driver.report(kernel, trace)["events"]
    assert {"got_cpu", "syscall"} <= {event["event"] for event in printed}


@pytest.mark.parametrize("how", ["launched", "attached"])
def test_counts(kernel, suite, trace, how):
    record = driver.record_launched if how == "launched" else driver.record_attached
    recorded = record(
        kernel, trace, suite(), "system_calls", options=("--sched", "--syscalls")
    )
    report = driver.report(kernel, trace)
    check_counts(report, recorded.output)

    # each of these sleeps has a length that is known: 1 ms; a thread that loses its CPU just before
    # it sleeps may find its time over when it is back
    slept = off_cpu(report, "::sleeps_on_futex")["sleeping", "futex"]
    n = counted(recorded.output)["futex"]
    assert slept["count"] >= 0.5 * n
    assert slept["ns"] >= slept["count"] * 0.9e6
    assert ("sleeping", "read") in off_cpu(report, "::reads")
    assert not [why for why, _ in off_cpu(report, "::asks") if why == "sleeping"]


def test_syscalls_alone(kernel, suite, trace):
    recorded = driver.record_launched(kernel, trace, suite(), "system_calls", options=("--syscalls",))
    report = driver.report(kernel, trace)
    check_counts(report, recorded.output)
    assert report["off_cpu"] == []


def test_sched_alone(kernel, suite, trace):
    """Which system call a thread sleeps in is known without recording system calls."""
    recorded = driver.record_launched(kernel, trace, suite(), "system_calls", options=("--sched",))
    report = driver.report(kernel, trace)
    assert report["system_calls"] == []
    assert report["lost"] == 0
    slept = off_cpu(report, "::sleeps_on_futex")["sleeping", "futex"]
    assert slept["count"] >= 0.5 * counted(recorded.output)["futex"]


def test_stacks_of_locks(kernel, suite, trace):
    """Long waits for a lock have their stacks, through std's frames and libc's; a worker that has
    nothing to do is none."""
    options = ("--lock-stacks", "--sched", "--syscalls")
    driver.record_launched(kernel, trace, suite(), "stacks", options=options)
    driver.check_lock_contention(kernel, trace)


def inside(events):
    """Of all system calls and times off CPU: (within a poll, outside of all, those that cross one)."""
    stacks, polls, spans = defaultdict(list), defaultdict(list), []
    for when, _pid, tid, what, _arg, _kind, _task, value, _other in events:
        if what == "poll_begin":
            stacks[tid].append(when)
        elif what == "poll_end":
            if stacks[tid]:
                polls[tid].append((stacks[tid].pop(), when))
        elif what in ("syscall", "off_cpu"):
            spans.append((tid, when - value, when))
    within = outside = 0
    crossing = []
    for tid, begin, end in spans:
        around = False
        for poll in polls[tid]:
            if begin >= poll[1] or end <= poll[0]:
                continue
            if poll[0] <= begin and end <= poll[1]:
                around = True
            else:
                crossing.append((tid, begin, end, poll))
        within += around
        outside += not around
    return within, outside, crossing


def test_one_clock(kernel, suite, trace):
    """The agent stamps with the processor's counter, the kernel by its own clock: what was done in a
    poll must lie in that poll."""
    recorded = driver.record_launched(
        kernel, trace, suite(), "system_calls", options=("--sched", "--syscalls")
    )
    events = driver.events(trace)
    within, outside, crossing = inside(events)
    true = counted(recorded.output)
    assert within >= sum(true.values())
    assert outside > 0  # the program's own begin and end
    assert not crossing, crossing[:3]
    # what the events themselves say
    done = [e for e in events if e[3] == "syscall"]
    reads = [e for e in done if e[4] == 0 and e[6] == 7]  # 7 bytes each
    assert len(reads) == true["read"]
    expired = (1 << 64) - errno.ETIMEDOUT
    assert len([e for e in done if e[4] == 202 and e[6] == expired]) == true["futex"]
    assert all(e[8] for e in done), "not told as another source's"


def test_preempted_is_not_blocked(kernel, suite, trace):
    """Two busy threads on one CPU: each waits for it as long as the other has it."""
    result = driver.run(
        "taskset", "-c", "0", kernel, "record", "--sched", "-o", trace, "--", suite(), "spinning"
    )
    assert result.returncode == 0, result.stderr
    assert "refused the program" not in result.stderr
    true_us = int(re.search(r"without a CPU for (\d+) us", result.stderr).group(1))
    waits = off_cpu(driver.report(kernel, trace), "::spins")
    preempted = sum(row["ns"] for (why, _), row in waits.items() if why == "preempted") / 1000
    slept = sum(row["ns"] for (why, _), row in waits.items() if why != "preempted") / 1000
    assert abs(preempted - true_us) < 0.1 * true_us, (preempted, true_us)
    assert slept < 0.05 * true_us
    check_switches(kernel, trace, "0")


def switches(pollux, trace):
    """Of each time off a CPU: (its event, {what is said of it: its events})."""
    names = ("off_cpu", "left_cpu", "got_cpu", "woken", "ran_instead")
    result = driver.run(pollux, "print", "--json", *(f"--event={name}" for name in names), trace)
    said = defaultdict(lambda: defaultdict(list))
    for line in map(json.loads, result.stdout.splitlines()):
        if line["event"] != "off_cpu":
            said[line["tid"]][line["event"]].append(line)
            continue
        of_it = said.pop(line["tid"], {})
        assert {e["time_ns"] for several in of_it.values() for e in several} <= {line["time_ns"]}
        yield line, of_it
    assert not said


def check_switches(pollux, trace, cpu):
    """Two threads compute on one CPU: each waits while the other has it, and others of the machine."""
    by_each_other = 0
    for off, said in switches(pollux, trace):
        for name in ("left_cpu", "got_cpu"):
            (one,) = said[name]
            assert str(one["cpu"]) == cpu and one["neighbour"]["name"], one
        ran = said.get("ran_instead", [])
        assert sum(r["ns"] for r in ran) <= off["ns"]
        if off["outcome"] != "preempted":
            continue
        assert "woken" not in said
        if not ran:
            assert off["ns"] < 1e6, off
            continue
        # One CPU: whatever ran before it came back is what ran last, and what is known goes back to its leaving,
        # but where there were more than are kept.
        assert ran[-1]["neighbour"]["tid"] == said["got_cpu"][0]["neighbour"]["tid"], (off, ran, said)
        assert sum(r["ns"] for r in ran) == off["ns"]
        assert "neighbour" not in ran[0] or ran[0]["neighbour"]["tid"] == said["left_cpu"][0]["neighbour"]["tid"]
        assert off["tid"] not in {r["neighbour"]["tid"] for r in ran if "neighbour" in r}
        by_each_other += sum(r["ns"] for r in ran if r.get("neighbour", {}).get("name") == off["thread"])
    assert by_each_other > 0


def test_wakes(kernel, suite, trace):
    """A thread that slept was woken in between, unless nothing of its sleep is known."""
    driver.record_launched(kernel, trace, suite(), "system_calls", options=("--sched",))
    slept = [(off, said) for off, said in switches(kernel, trace) if off["outcome"] == "sleeping"]
    woken = [(off, said["woken"]) for off, said in slept if "woken" in said]
    assert len(woken) > 0.9 * len(slept) > 0
    for off, (wake,) in woken:
        assert wake["ns"] <= off["ns"] and "neighbour" in wake
    # A sleep of 1 ms ends by a timer, so the thread slept most of it.
    assert any(wake["ns"] < off["ns"] / 2 for off, (wake,) in woken)


def test_losses_are_counted(kernel, suite, trace):
    """A recorder that sleeps: what its buffer can't hold is counted, and the rest is right."""
    with driver.Target(suite(), "system_calls", "--scale", "300") as target:
        recorder = driver.Recorder(
            kernel, target.pid, trace, "--syscalls", "--ring-size", "64K"
        )
        recorder.process.send_signal(signal.SIGSTOP)
        target.go()
        target.truth()
        recorder.process.send_signal(signal.SIGCONT)
        code, said = recorder.stop()
        assert code == 0, said
        assert target.end() == 0
    true = counted(target.output())
    events = driver.events(trace)
    n_asked = len([e for e in events if e[3] == "syscall" and e[4] == 110])
    lost = sum(e[7] for e in events if e[3] == "lost")
    seen = len([e for e in events if e[3] == "syscall"])
    report = driver.report(kernel, trace)
    assert report["lost"] == 0
    assert report["lost_aux"] == lost > 0
    assert n_asked < true["getppid"]
    assert seen + lost >= sum(true.values())
    # not more than were made at all: some hundred are the runtime's own
    assert seen + lost < 1.5 * sum(true.values())
    assert not inside(events)[2]


def test_several_processes(kernel, suite, trace):
    with driver.Target(suite(), "system_calls") as one:
        with driver.Target(suite("tokio-1.54"), "system_calls") as two:
            recorder = driver.Recorder(kernel, [one.pid, two.pid], trace, "--syscalls", "--sched")
            one.go()
            two.go()
            one.truth(), two.truth()
            code, said = recorder.stop()
            assert code == 0, said
            assert one.end() == two.end() == 0
    events = driver.events(trace)
    for target in (one, two):
        asked = [e for e in events if e[1] == target.pid and e[3] == "syscall" and e[4] == 110]
        assert len(asked) == counted(target.output())["getppid"]
    assert {e[1] for e in events} == {one.pid, two.pid}


@needs_root
def test_own_pid_namespace(kernel, suite, trace):
    """In a container pollux sees other numbers than the kernel's own."""
    if driver.run("unshare", "-pfm", "--mount-proc", "true").returncode:
        pytest.skip("no pid namespaces here")
    result = driver.run(
        "unshare", "-pfm", "--mount-proc", kernel, "record", "--syscalls", "--sched", "-o", trace,
        "--", suite(), "system_calls",
    )
    assert result.returncode == 0, result.stderr
    output, _ = driver.split_output(result.stdout)
    check_counts(driver.report(kernel, trace), output)
    assert max(event[2] for event in driver.events(trace)) < 100
    others = [said["left_cpu"][0]["neighbour"] for _, said in switches(kernel, trace)]
    assert all(other["tid"] < 100 and other["name"] for other in others)


@needs_root
def test_kernel_without_types(kernel, suite, trace):
    """Without BTF the tracepoints' own records are read."""
    hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\""
    if driver.run("unshare", "-m", "sh", "-c", hidden, "sh", "true").returncode:
        pytest.skip("no mount namespaces here")
    result = driver.run(
        "unshare", "-m", "sh", "-c", hidden, "sh", kernel, "record", "--syscalls", "--sched", "-o",
        trace, "--", suite(), "system_calls",
    )
    assert result.returncode == 0, result.stderr
    output, _ = driver.split_output(result.stdout)
    report = driver.report(kernel, trace)
    check_counts(report, output)
    assert ("sleeping", "read") in off_cpu(report, "::reads")
    assert not inside(driver.events(trace))[2]
    said = [said for _, said in switches(kernel, trace)]
    assert all(s["left_cpu"] and s["got_cpu"] for s in said)
    assert any(s.get("woken") for s in said) and any(s.get("ran_instead") for s in said)


@needs_root
@pytest.mark.parametrize("how", ["launched", "attached"])
def test_sched_without_rights(public, how):
    """A user sees when their own threads leave a CPU and come back; what is not seen is reported."""
    trace = public / f"{how}.plx"
    pinned = ("taskset", "-c", "0")
    if how == "launched":
        result = driver.run(
            *pinned, *NOBODY, public / "pollux", "record", "--sched", "-o", trace, "--",
            public / "suite", "spinning",
        )
        assert result.returncode == 0, result.stderr
        said, errors = result.stderr, result.stderr
    else:
        with driver.Target(public / "suite", "spinning", prefix=(*pinned, *NOBODY)) as target:
            recorder = driver.Recorder(
                public / "pollux", target.pid, trace, "--sched", prefix=NOBODY
            )
            target.go()
            target.truth()
            code, said = recorder.stop()
            assert code == 0, said
            assert target.end() == 0
            errors = "\n".join(target.errors)
    assert "CAP_BPF" in said
    report = driver.report(public / "pollux", trace)
    assert report["lost"] == report.get("lost_aux", 0) == 0
    true_us = int(re.search(r"without a CPU for (\d+) us", errors).group(1))
    waits = off_cpu(report, "::spins")
    preempted = sum(row["ns"] for (why, _), row in waits.items() if why == "preempted") / 1000
    assert abs(preempted - true_us) < 0.1 * true_us, (preempted, true_us)
    assert not inside(driver.events(trace))[2]
    for _, said in switches(public / "pollux", trace):
        assert [event["cpu"] for name in ("left_cpu", "got_cpu") for event in said[name]] == [0, 0]
        assert "neighbour" not in said["left_cpu"][0]


@needs_root
def test_syscalls_without_rights(public):
    """One sentence that says what is needed; nothing is started."""
    trace = public / "no.plx"
    result = driver.run(
        *NOBODY, public / "pollux", "record", "--syscalls", "-o", trace, "--", public / "suite", "list"
    )
    assert result.returncode == 1
    assert "CAP_BPF" in result.stderr and len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert not trace.exists()


def programs():
    """BPF programs of pollux in the kernel, by their numbers."""
    result = driver.run(shutil.which("bpftool") or "/usr/sbin/bpftool", "prog", "show")
    assert result.returncode == 0, result.stderr
    return {line.split(":")[0] for line in result.stdout.splitlines() if " name on_sys_" in line}


@needs_root
def test_killed_recorder_leaves_nothing(kernel, suite, trace):
    """The kernel itself takes the programs off when pollux is gone."""
    before = programs()
    with driver.Target(suite(), "steady") as target:
        target.go()
        recorder = driver.Recorder(kernel, target.pid, trace, "--syscalls", "--sched")
        mine = programs() - before
        assert mine
        driver.until_slept(recorder.process.pid, 20)  # and writes what it has
        recorder.process.kill()
        recorder.process.wait()
        deadline = time.monotonic() + driver.TIMEOUT
        while programs() & mine and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not programs() & mine
        target.go()
        assert target.end() == 0
    assert [e for e in driver.events(trace) if e[3] == "syscall"], "nothing was saved"


def test_killed_program(kernel, suite, trace):
    with driver.Target(suite(), "steady") as target:
        target.go()
        recorder = driver.Recorder(kernel, target.pid, trace, "--syscalls", "--sched", "--ring-size", "32M")
        driver.until_slept(target.pid, 100)
        target.process.kill()
        code, said = recorder.wait()
        assert code == 0, said
    report = driver.report(kernel, trace)
    assert report["system_calls"] and report["lost"] == 0


def test_exec_ends_it(kernel, suite, trace):
    """What a process runs after an exec is none of the recording's."""
    recorded = driver.record_launched(
        kernel, trace, suite(), "fork_exec", options=("--syscalls", "--sched")
    )
    assert recorded.code == 0
    assert len({event[1] for event in driver.events(trace)}) == 1


def test_threads_that_come_and_go(kernel, suite, trace):
    """Each thread's events are its own, also when it lived for a moment only."""
    driver.record_launched(
        kernel, trace, suite(), "thread_churn", options=("--syscalls", "--sched")
    )
    events = driver.events(trace)
    assert not inside(events)[2]
    tids = {event[2] for event in events if event[3] == "syscall"}
    assert {event[2] for event in events if event[3] == "poll_begin"} <= tids


def test_exe(pollux, suite, trace, tmp_path):
    """--exe: all processes of one file, none of another of the same name."""
    mine, other = tmp_path / "suite", tmp_path / "other" / "suite"
    other.parent.mkdir()
    shutil.copy(suite(), mine)
    shutil.copy(suite(), other)
    with driver.Target(mine, "yields") as one, driver.Target(mine, "timers") as two:
        with driver.Target(other, "yields") as three:
            process = subprocess.Popen(
                [str(pollux), "record", "--exe", str(mine), "-o", str(trace)],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )
            deadline = time.monotonic() + driver.TIMEOUT
            while not (driver.enabled(one.pid) and driver.enabled(two.pid)):
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.01)
            for target in (one, two, three):
                target.go()
                target.truth()
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=driver.TIMEOUT)[0]
            assert process.returncode == 0, said
            assert one.end() == two.end() == three.end() == 0
    assert {event[1] for event in driver.events(trace)} == {one.pid, two.pid}
    result = driver.run(pollux, "record", "--exe", mine, "-o", trace)
    assert result.returncode == 1 and str(mine) in result.stderr
