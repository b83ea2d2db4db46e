# SPDX-License-Identifier: MIT OR Apache-2.0
"""The traced program is not harmed: not by backtraces, kills, attaching, detaching, nor the rest."""
import ctypes
import itertools
import json
import os
import random
import re
import resource
import signal
import subprocess
import time

import build
import driver
import pytest
from truth import differences

FRAME = re.compile(r"^\s*\d+:\s+(?:0x[0-9a-f]+ - )?(.*)$")


def frames(text):
    """The functions of the first backtrace in a panic's message, innermost first."""
    found = []
    inside = False
    for line in text.splitlines():
        if line.startswith("stack backtrace:"):
            if inside:
                break
            inside = True
        elif inside and (match := FRAME.match(line)):
            found.append(re.sub(r"::h[0-9a-f]{16}$", "", match.group(1)))
    return found


BACKTRACES = [
    ("tokio-1.38", "debug", "backtrace"),
    ("tokio-1.38", "release", "backtrace"),
    ("tokio-1.54", "release", "backtrace"),
    ("smol-2.0", "debug", "backtrace"),
    ("smol-2.0", "release", "own_backtrace"),
    ("async-std-1.13", "release", "backtrace"),
]


@pytest.mark.parametrize("mode", ["launched", "attached"])
@pytest.mark.parametrize("package,profile,program", BACKTRACES)
def test_backtrace(pollux, suite, trace, package, profile, program, mode):
    """RUST_BACKTRACE=full of a panic in a task: the same frames in the same order, with the agent's between them."""
    command = [suite(package, profile), program]
    env = {"RUST_BACKTRACE": "full"}
    alone = driver.run(*command, env={**driver.os.environ, **env})
    wanted = frames(alone.stderr)
    assert len(wanted) > 15, alone.stderr
    record = driver.record_launched if mode == "launched" else driver.record_attached
    got = frames(record(pollux, trace, *command, env=env).errors)
    rest = list(got)
    for name in wanted:
        while rest and rest[0] != name:
            assert "unknown" in rest[0] or "pollux" in rest[0], f"{rest[0]} is not in {wanted}"
            rest.pop(0)
        assert rest, f"{name} is missing; got {got}, wanted {wanted}"
        rest.pop(0)
    assert len(got) - len(wanted) <= 6, f"{len(got) - len(wanted)} frames of ours"


def finish(target):
    """Lets `steady` end and checks that it worked to its end."""
    target.go()
    assert target.end() == 0, target.errors
    assert target.output() == ["steady to the end"]


def readable(pollux, trace):
    """A cut trace is reported, or refused with a sentence; never a crash. True if reported."""
    if not trace.exists():
        return False
    result = driver.run(pollux, "report", "--json", trace)
    assert result.returncode in (0, 1), result.stderr
    if result.returncode == 1:
        assert result.stderr.strip(), "no reason given"
        assert trace.stat().st_size < 4096, f"unreadable: {result.stderr}"
    return result.returncode == 0


def has_events(pollux, trace):
    """Before them a trace has the tasks of the start."""
    result = driver.run(pollux, "report", "--json", trace)
    return result.returncode == 0 and json.loads(result.stdout)["events"] > 0


def test_recorder_killed(pollux, suite, tmp_path, all_of_it):
    """kill -9 of pollux at random moments, from its first instruction on; then another attaches."""
    rng = random.Random(7)
    n_readable = 0
    for i in range(50 if all_of_it else 10):
        trace = tmp_path / f"{i}.plx"
        with driver.Target(suite(), "steady") as target:
            target.go()
            # a third of them during the attach, a third later, the others with events in the trace
            recorder = driver.Recorder(pollux, target.pid, trace, wait=i % 3 == 2)
            time.sleep(rng.uniform(0, 0.03) if i % 3 == 0 else rng.uniform(0.03, 0.4))
            while i % 3 == 2 and not has_events(pollux, trace):
                assert recorder.process.poll() is None, recorder.said()
                time.sleep(0.01)
            recorder.process.kill()
            recorder.process.communicate()
            n_readable += readable(pollux, trace)
            if i % 2:
                # the killed one left the agent on: only time shows that the second has attached
                trace = tmp_path / "again.plx"
                again = driver.record_a_while(pollux, target.pid, trace, 0.2)
                assert again.returncode == 0, again.stderr
                assert driver.report(pollux, trace)["events"] > 0
            finish(target)
            if i % 3 == 2:
                assert driver.report(pollux, tmp_path / f"{i}.plx")["events"] > 0
    assert n_readable > 0


def state_of_threads(pid):
    """What a pollux that is killed may not leave changed: tracers, masks, descriptors, limits."""
    kept = ("TracerPid", "SigBlk", "SigPnd", "ShdPnd")
    threads = {}
    for task in driver.Path(f"/proc/{pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        threads[task.name] = [line for line in lines if line.startswith(kept)]
    return threads, sorted(os.listdir(f"/proc/{pid}/fd")), driver.Path(f"/proc/{pid}/limits").read_text()


def test_recorder_killed_at_its_calls_of_ptrace(pollux, suite, trace, all_of_it):
    """kill -9 of pollux after each of them, while it attaches and detaches."""
    library = build.compile_c(build.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    with driver.Target(suite(), "steady") as target:
        target.go()
        driver.until_slept(target.pid, 20)
        before, killed = state_of_threads(target.pid), 0
        for at in itertools.count(1, 1 if all_of_it else 4):
            result = driver.run(pollux, "record", "-p", target.pid, "-d", "0.02", "-o", trace,
                                env={**os.environ, "LD_PRELOAD": str(library), "DIE_AT": str(at)})
            assert result.returncode in (-signal.SIGKILL, 0), result.stderr
            deadline = time.monotonic() + driver.TIMEOUT
            while state_of_threads(target.pid) != before:
                assert target.process.poll() is None and time.monotonic() < deadline, (at, before)
                time.sleep(0.01)
            if result.returncode == 0:
                break
            killed += 1
        assert killed > 5
        finish(target)


SLOW_HANDLER = """
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_here(int signo)
{
	int report = atoi(getenv("REPORT"));

	(void)!write(report, "b", 1);
	usleep(3000000);
	(void)!write(report, "e", 1);
}

__attribute__((constructor)) static void begin(void)
{
	const struct sigaction act = {.sa_handler = wait_here, .sa_flags = SA_RESTART};

	sigaction(SIGUSR1, &act, NULL);
}
"""


def test_attach_while_a_thread_is_in_a_stub(pollux, suite, trace, tmp_path):
    """pollux is killed right after it has sent a thread on a remote call, and a handler runs there for seconds. The next
    pollux leaves the stub alone to which the thread comes back."""
    dies = build.compile_c(build.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    source, library = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(SLOW_HANDLER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    said, report = os.pipe()
    os.set_inheritable(report, True)
    env = {"LD_PRELOAD": str(library), "REPORT": str(report)}
    with driver.Target(suite(), "steady", env=env, pass_fds=(report,)) as target:
        target.go()
        for _ in range(2):  # the second time with an area that is there
            result = driver.record_a_while(pollux, target.pid, trace, 0.02)
            assert result.returncode == 0, result.stderr
            killed = driver.run(pollux, "record", "-p", target.pid, "-d", "0.02", "-o", trace, env={
                **os.environ, "LD_PRELOAD": str(dies), "WITH_SIGNAL": str(int(signal.SIGUSR1))})
            assert killed.returncode == -signal.SIGKILL, killed.stderr
            assert os.read(said, 1) == b"b"
            result = driver.record_a_while(pollux, target.pid, trace, 0.02)
            assert result.returncode == 0, result.stderr
            assert target.process.poll() is None, target.errors
            assert os.read(said, 1) == b"e", "the handler ended before the attach did"
        driver.until_slept(target.pid, 100)
        finish(target)
    os.close(said)
    os.close(report)


def test_target_killed(pollux, suite, tmp_path, all_of_it):
    """kill -9 of the program at random moments: pollux ends by itself, the trace can be read."""
    rng = random.Random(8)
    for i in range(50 if all_of_it else 10):
        trace = tmp_path / f"{i}.plx"
        with driver.Target(suite(), "steady") as target:
            target.go()
            recorder = driver.Recorder(pollux, target.pid, trace, wait=False)
            time.sleep(rng.uniform(0, 0.03) if i % 3 == 0 else rng.uniform(0.03, 0.4))
            target.process.kill()
            code, said = recorder.wait()
            assert code in (0, 1), said
            assert said.strip()
            if code == 0:
                report = driver.report(pollux, trace)
                assert not report["truncated"], said
                assert report["events"] > 0 or "no task ran" in said, said
            else:
                readable(pollux, trace)


def test_launched_target_killed(pollux, suite, trace):
    """record -- CMD gives what a shell gives for a command killed by a signal."""
    recorder = subprocess.Popen(
        [pollux, "record", "-o", trace, "--", suite(), "steady"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    # until it is recorded, and has started its workers
    tasks = driver.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children")
    deadline = time.monotonic() + driver.TIMEOUT
    while not (children := tasks.read_text().split()) or not (
        driver.enabled(children[0]) and len(os.listdir(f"/proc/{children[0]}/task")) > 1
    ):
        assert recorder.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    assert len(children) == 1
    driver.os.kill(int(children[0]), signal.SIGKILL)
    _, err = recorder.communicate(timeout=driver.TIMEOUT)
    assert recorder.returncode == 128 + signal.SIGKILL, err
    assert driver.report(pollux, trace)["events"] > 0


def test_ignored_signal_while_followed(pollux, trace):
    """A program that may execute another one is traced until it does. A signal that the kernel ignores, and does not
    even give to a program that is not traced, ends no call of it."""
    program = build.compile_c(build.TARGETS / "ignored_signals.c", "ignored_signals")
    assert driver.run(program).stdout == "got -\n"
    done = driver.run(pollux, "record", "-o", trace, "--", program)
    assert done.stdout == "got t\n", done.stderr


class Echo:
    """The echo server, and load on it."""

    def __init__(self, suite, profile="release"):
        self.server = subprocess.Popen(
            [suite("tokio-1.38", profile, "echo_server")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        self.address = self.server.stdout.readline().split()[1]
        self.load_path = suite("tokio-1.38", "release", "echo_load")

    def load(self, seconds, connections=8):
        return subprocess.Popen(
            [self.load_path, self.address, str(connections), str(seconds)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def end(self):
        out, _ = self.server.communicate(timeout=driver.TIMEOUT)
        assert self.server.returncode == 0
        return int(out.split()[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.kill()
        self.server.wait()


def silence_at_the_end(pollux, trace):
    """ns from the last event to the end."""
    printed = driver.run(pollux, "print", "--format", "{clock}", trace).stdout.split()
    began, last = int(printed[0]), int(printed[-1])
    return began + driver.report(pollux, trace)["duration_ns"] - last


def test_attach_again_and_again(pollux, suite, tmp_path, all_of_it):
    """Attach and detach in a row on a loaded server: no request is lost, each trace is good."""
    times = 200 if all_of_it else 20
    silent, events = [], 0
    with Echo(suite) as echo:
        load = echo.load(3600)
        try:
            for i in range(times):
                trace = tmp_path / "echo.plx"
                # a ring has room for more than what comes in that time
                result = driver.record_a_while(
                    pollux, echo.server.pid, trace, 0.1, "--ring-size", "32M"
                )
                assert result.returncode == 0, f"time {i}: {result.stderr}"
                if i % 5 == 0 or len(silent) < 20:
                    report = driver.report(pollux, trace)
                    silent.append(silence_at_the_end(pollux, trace))
                    events += report["events"]
                    assert report["lost"] == 0, f"time {i}"
                assert load.poll() is None, f"time {i}: {load.communicate()}"
                assert echo.server.poll() is None, f"time {i}"
        finally:
            load.kill()
            load.communicate()
        # a whole load after all that: all is answered, nothing wrong
        load = echo.load(0.5)
        out, err = load.communicate(timeout=driver.TIMEOUT)
        assert load.returncode == 0, err
        assert driver.json.loads(out)["errors"] == 0
    assert events > 100 * len(silent)
    # what is open at the end lasts no longer for the time in which the threads are stopped; it does if
    # the server had no CPU just then, but not each time
    assert min(silent) < 1e6, silent


def test_no_request_lost(pollux, suite, tmp_path):
    """The server's count is the load's count, with attaches and detaches in between."""
    with Echo(suite) as echo:
        load = echo.load(2.5)
        for _ in range(5):
            result = driver.record_a_while(pollux, echo.server.pid, tmp_path / "echo.plx", 0.2)
            assert result.returncode == 0, result.stderr
        out, err = load.communicate(timeout=driver.TIMEOUT)
        assert load.returncode == 0, err
        told = driver.json.loads(out)
        assert told["errors"] == 0
        assert echo.end() == told["requests"]


def snapshot(pid):
    """Bytes of what a detach must restore: code and read-only data of every loaded object."""
    found = {}
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for line in driver.Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or not fields[5].startswith("/") or "memfd" in fields[5]:
                continue
            if fields[1] not in ("r-xp", "r--p"):
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            memory.seek(start)
            found[line] = memory.read(end - start)
    return found


@pytest.mark.parametrize("package,profile", [
    ("tokio-1.38", "release"), ("tokio-1.54", "stripped"), ("smol-2.0", "release"),
])
def test_detach_restores(pollux, suite, trace, package, profile):
    """After the detach, code and tables are what they were, byte for byte; during it they are not."""
    program = "steady" if package.startswith("tokio") else "exchange"
    with driver.Target(suite(package, profile), program) as target:
        before = snapshot(target.pid)
        recorder = driver.Recorder(pollux, target.pid, trace)
        during = snapshot(target.pid)
        code, said = recorder.stop()
        assert code == 0, said
        after = snapshot(target.pid)
    assert during != before
    assert before.keys() == after.keys()
    for line, content in before.items():
        assert content == after[line], f"{line} differs"


VFORKS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>

static void *wait_and_vfork(void *file)
{
	pid_t pid;

	while (access(file, F_OK))
		usleep(1000);
	pid = vfork();
	if (pid == 0) {
		usleep(3000000);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	if (getenv("VFORK"))
		pthread_create(&thread, NULL, wait_and_vfork, getenv("VFORK"));
}
"""


def test_detach_during_a_vfork(pollux, suite, trace, tmp_path):
    """A thread can't be stopped for longer than pollux waits: what is left is restored once it can."""
    source, library, begin = tmp_path / "vforks.c", tmp_path / "vforks.so", tmp_path / "begin"
    source.write_text(VFORKS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-pthread", "-o", library, source], check=True)
    env = {"LD_PRELOAD": str(library), "VFORK": str(begin)}
    with driver.Target(suite(), "steady", env=env) as target:
        before = snapshot(target.pid)
        target.go()
        recorder = driver.Recorder(pollux, target.pid, trace)
        begin.touch()
        tasks, deadline = driver.Path(f"/proc/{target.pid}/task"), time.monotonic() + driver.TIMEOUT
        while not any(") D " in (task / "stat").read_text() for task in tasks.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        code, said = recorder.stop()
        assert code == 0, said
        after = snapshot(target.pid)
        assert all(after[line] == content for line, content in before.items())
        finish(target)


def test_detach_without_memory(pollux, suite, trace):
    """pollux gets no more memory, and no thread, when it is to end: the program is restored all the same."""
    with driver.Target(suite(), "steady") as target:
        before = snapshot(target.pid)
        target.go()
        recorder = driver.Recorder(pollux, target.pid, trace)
        assert snapshot(target.pid) != before
        status = driver.Path(f"/proc/{recorder.process.pid}/status").read_text()
        used = int(re.search(r"VmSize:\s+(\d+)", status)[1]) << 10
        resource.prlimit(recorder.process.pid, resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))
        recorder.stop()
        assert not driver.enabled(target.pid)
        after = snapshot(target.pid)
        assert all(after[line] == content for line, content in before.items())
        finish(target)


def test_disk_full(pollux, suite, trace):
    """The trace can't grow: the program is restored, and what is in the trace stays, and is named."""
    with driver.Target(suite(), "steady") as target:
        before = snapshot(target.pid)
        target.go()
        recorder = driver.Recorder(pollux, target.pid, trace)
        deadline = time.monotonic() + driver.TIMEOUT
        while not trace.exists() or trace.stat().st_size < 32 << 10:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        resource.prlimit(recorder.process.pid, resource.RLIMIT_FSIZE,
                         (trace.stat().st_size, resource.RLIM_INFINITY))
        assert recorder.process.wait(driver.TIMEOUT) == 1
        assert recorder.said() == (f"pollux: the recording ended early, {trace} has its beginning: "
                                   "cannot write the trace: File too large\n")
        assert driver.report(pollux, trace)["events"] > 0
        after = snapshot(target.pid)
        assert all(after[line] == content for line, content in before.items())
        finish(target)


@pytest.mark.parametrize("package,program", [
    ("tokio-1.38", "multi_thread"), ("tokio-1.54", "alive_before"), ("smol-2.0", "exchange"),
    ("async-std-1.13", "alive_before"),
])
def test_second_attach(pollux, suite, tmp_path, package, program):
    """What an earlier recording left does not disturb the next."""
    with driver.Target(suite(package), program) as target:
        for _ in range(2):
            code, said = driver.Recorder(pollux, target.pid, tmp_path / "first.plx").stop()
            assert code == 0, said
        recorder = driver.Recorder(pollux, target.pid, tmp_path / "second.plx")
        target.go()
        truth = target.truth()
        code, said = recorder.stop()
        assert code == 0, said
        assert target.end() == 0
    wrong = differences(truth, driver.report(pollux, tmp_path / "second.plx"), names=False)
    assert not wrong, "\n".join(wrong)


def test_attach_while_working(pollux, suite, tmp_path):
    """Recordings that begin and end in the middle of the work."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        for _ in range(5):
            recorder = driver.Recorder(
                pollux, target.pid, tmp_path / "trace.plx", "--ring-size", "32M"
            )
            driver.until_slept(target.pid, 100)
            code, said = recorder.stop()
            assert code == 0, said
            report = driver.report(pollux, tmp_path / "trace.plx")
            assert report["lost"] == 0
            assert report["events"] > 100
            # two workers and their tasks were there before
            assert report["tasks"]["alive"] >= 4
        finish(target)


# A handler that forks, whose child returns into what was interrupted and works on for 20 ms.
FORK_IN_HANDLER = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static int report;

static void end(int signo)
{
	_exit(0);
}

static void fork_here(int signo)
{
	const struct itimerval soon = {.it_value.tv_usec = 20000};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		signal(SIGALRM, end);
		signal(signo, SIG_IGN);
		setitimer(ITIMER_REAL, &soon, NULL);
		return;
	}
	if (waitpid(pid, &status, 0) == pid)
		(void)!write(report, WIFEXITED(status) && !WEXITSTATUS(status) ? "e" : "k", 1);
}

__attribute__((constructor)) static void begin(void)
{
	const struct sigaction act = {.sa_handler = fork_here, .sa_flags = SA_RESTART};

	if (!getenv("FORK_IN_HANDLER"))
		return;
	report = open(getenv("FORK_IN_HANDLER"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	sigaction(SIGUSR1, &act, NULL);
}
"""


def busiest(pid):
    """The thread that has used most of the CPU."""
    def used(tid):
        fields = driver.Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return max(map(int, os.listdir(f"/proc/{pid}/task")), key=used)


def test_fork_in_a_handler(pollux, suite, tmp_path):
    """A signal comes in the middle of an event, its handler forks, and the child goes on with the event: it has
    no ring, and lives."""
    source, library, said = tmp_path / "forks.c", tmp_path / "forks.so", tmp_path / "said"
    source.write_text(FORK_IN_HANDLER)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    env = {"LD_PRELOAD": str(library), "FORK_IN_HANDLER": str(said)}
    n = 120
    with driver.Target(suite(), "self_wakes", "--scale", "100000", env=env) as target:
        recorder = driver.Recorder(pollux, target.pid, tmp_path / "trace.plx", "--ring-size", "64K")
        target.go()
        time.sleep(0.3)
        libc = ctypes.CDLL(None)
        deadline = time.monotonic() + driver.TIMEOUT
        for i in range(n):
            assert libc.tgkill(target.pid, busiest(target.pid), signal.SIGUSR1) == 0
            while len(said.read_text()) <= i:
                assert target.process.poll() is None and time.monotonic() < deadline
                time.sleep(0.001)
        assert said.read_text() == "e" * n
        code, text = recorder.stop()
        assert code == 0, text
