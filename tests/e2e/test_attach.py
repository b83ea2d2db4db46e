# SPDX-License-Identifier: MIT OR Apache-2.0
"""Attaching to what is not as usual: under seccomp filters, locked, held, in another namespace, changing."""
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import build
import driver
import pytest
import sandbox
from truth import differences

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
# Ways of calling the futex that only the agent has.
WAKE, REQUEUE = ("futex", {1: 1}), ("futex", {1: 132})
# And of rt_sigprocmask: it asks whether memory can be read.
ASK = ("rt_sigprocmask", {0: 0x7FFFFFFF})


def finish(target):
    target.go()
    target.truth()
    target.go()
    assert target.end() == 0, target.errors


def record(pollux, pid, trace, *options, prefix=()):
    return driver.run(*prefix, pollux, "record", "-p", pid, "-d", "0.3", "-o", trace, *options)


def test_as_many_filters(pollux, suite, trace):
    """A filter around each of the two: another one. Nothing is risked, unless the user says so."""
    with driver.Target(suite(), "multi_thread", prefix=sandbox.under(("memfd_create", {}))) as target:
        result = record(pollux, target.pid, trace, prefix=sandbox.under())
        assert result.returncode == 1
        assert "isn't proven" in result.stderr and "--force" in result.stderr, result.stderr
        result = record(pollux, target.pid, trace)
        assert result.returncode == 1
        assert "forbids memfd_create" in result.stderr, result.stderr
        finish(target)
    with driver.Target(suite(), "multi_thread", prefix=sandbox.under()) as target:
        result = record(pollux, target.pid, trace, "--force", prefix=sandbox.under())
        assert result.returncode == 0, result.stderr
        result = driver.run(*sandbox.under(), pollux, "hist", target.pid, "-d", "0.2", "--force")
        assert result.returncode == 0, result.stderr
        finish(target)


def blocked_signals(pid):
    """Of each thread."""
    status = {one.name: (one / "status").read_text() for one in Path(f"/proc/{pid}/task").iterdir()}
    return {tid: re.search(r"^SigBlk:.*", text, re.M)[0] for tid, text in status.items()}


@pytest.mark.parametrize("readable", [True, False])
def test_no_way_back_for_a_mask(pollux, suite, trace, readable):
    """The signals of a thread are not blocked where a filter fails the call that restores its mask."""
    masks = sandbox.under(("rt_sigprocmask", {}), error=True)
    with driver.Target(suite(), "multi_thread", prefix=masks) as target:
        blocked = blocked_signals(target.pid)
        result = record(pollux, target.pid, trace, prefix=() if readable else masks)
        assert result.returncode == 1, result.stdout
        assert ("forbids rt_sigprocmask" if readable else "isn't proven") in result.stderr, result.stderr
        result = record(pollux, target.pid, trace, "--force", prefix=() if readable else masks)
        assert blocked_signals(target.pid) == blocked
        finish(target)


def test_filters_of_our_own(pollux, suite, trace):
    """A program that pollux starts has pollux' filters: what they forbid, a child of pollux' meets first."""
    result = driver.run(
        *sandbox.under(), pollux, "record", "-o", trace, "--", suite(), "multi_thread")
    assert result.returncode == 0, result.stderr
    assert driver.report(pollux, trace)["events"] > 0
    for options in ((), ("--force",)):
        result = driver.run(
            *sandbox.under(("memfd_create", {})), pollux, "record", "-o", trace, *options, "--", suite(),
            "multi_thread")
        assert result.returncode == 1, result.stdout
        assert "forbids memfd_create" in result.stderr, result.stderr


def test_an_old_engine(pollux, suite, trace, tmp_path):
    """Under a filter that answers EPERM to each call that it does not know pollux does without them, whoever is under it."""
    shut_in = (sys.executable, sandbox.__file__, "old-engine", "--")
    result = driver.run(*shut_in, pollux, "record", "-o", trace, "--", suite(), "multi_thread")
    assert result.returncode == 0, result.stderr
    assert not differences(driver.split_output(result.stdout)[1], driver.report(pollux, trace), names=False)
    with driver.Target(suite(), "multi_thread", prefix=shut_in) as one, driver.Target(suite(), "multi_thread") as other:
        assert record(pollux, one.pid, trace).returncode == 0
        for look in ((), shut_in):
            result = driver.run(*look, pollux, "tree", one.pid)
            assert result.returncode == 0 and "worker" in result.stdout, result.stderr
        # Both at once, and each recording has a name of its own.
        for _ in range(2):
            result = driver.run(*shut_in, pollux, "record", "--force", "-p", one.pid, "-p", other.pid, "-d", "0.3",
                                cwd=tmp_path)
            assert result.returncode == 0, result.stderr
        assert len(list(tmp_path.glob("pollux-*.plx"))) == 2
        finish(one)
        finish(other)


def test_no_memfd(pollux, suite, trace):
    """Where a filter fails memfd_create the event buffers are a System V segment."""
    prefix = sandbox.under(("memfd_create", {}), error=True)
    result = driver.run(*prefix, pollux, "record", "-o", trace, "--", suite(), "multi_thread")
    assert result.returncode == 0, result.stderr
    assert not differences(driver.split_output(result.stdout)[1], driver.report(pollux, trace), names=False)


@pytest.mark.parametrize("mode", ["launched", "attached"])
def test_filter_comes_later(pollux, suite, tmp_path, mode):
    """A program that shuts itself in while it is recorded is not killed for what the agent does."""
    later = sandbox.Later(tmp_path, WAKE, REQUEUE)
    options = ("--spawn-stacks", "--lock-stacks")
    if mode == "launched":
        prefix = (pollux, "record", "-o", tmp_path / "trace.plx", *options, "--", "env",
                  *(f"{name}={value}" for name, value in later.env.items()))
        target = driver.Target(suite(), "self_wakes", prefix=[str(word) for word in prefix])
    else:
        target = driver.Target(suite(), "self_wakes", env=later.env)
    with target:
        if mode == "attached":
            recorder = driver.Recorder(pollux, target.pid, tmp_path / "trace.plx", *options)
        later.shut_in()
        # It is looked for every 5 to 20 ms.
        time.sleep(1)
        target.go()
        target.truth()
        if mode == "attached":
            code, said = recorder.stop()
            assert code == 0, said
        target.go()
        assert target.end() == 0, target.errors
    assert driver.report(pollux, tmp_path / "trace.plx")["events"] > 10000


@pytest.mark.parametrize("by", ["prctl", "syscall", "dispatch"])
def test_threads_shut_themselves_in(pollux, suite, tmp_path, by):
    """Each for itself, in the middle of its work: from the call on that brings the filter, or syscall user dispatch, nothing
    is asked."""
    later = sandbox.Later(tmp_path, WAKE, ASK)
    for _ in range(2):
        with driver.Target(suite(), "steady", env=later.env) as target:
            target.go()
            recorder = driver.Recorder(pollux, target.pid, tmp_path / "trace.plx", "--spawn-stacks")
            driver.until_slept(target.pid, 100)
            assert later.shut_in_each(target.pid, by) > 1
            driver.until_slept(target.pid, 3000)
            code, said = recorder.stop()
            assert code == 0, said
            # The next one finds them as they are.
            again = record(pollux, target.pid, tmp_path / "again.plx", "--spawn-stacks")
            assert again.returncode in (0, 1), again.stderr
            target.go()
            assert target.end() == 0, target.errors
            assert target.output() == ["steady to the end"]
        report = driver.report(pollux, tmp_path / "trace.plx")
        assert report["events"] > 1000
        assert any(c["item"] == "stacks" and "further seccomp filter" in c["note"] for c in report["coverage"])


def test_filters_past_libc(pollux, suite, tmp_path):
    """Of such ones pollux finds out by looking at the threads, a moment later."""
    later = sandbox.Later(tmp_path, WAKE, ASK)
    with driver.Target(suite(), "self_wakes", env=later.env) as target:
        recorder = driver.Recorder(pollux, target.pid, tmp_path / "trace.plx", "--spawn-stacks")
        assert later.shut_in_each(target.pid, "itself") > 1
        time.sleep(1)
        target.go()
        target.truth()
        code, said = recorder.stop()
        assert code == 0, said
        target.go()
        assert target.end() == 0, target.errors
    report = driver.report(pollux, tmp_path / "trace.plx")
    assert any(c["item"] == "stacks" and "further seccomp filter" in c["note"] for c in report["coverage"])


# Threads that may not read the processor's clock: the program asks the kernel for the time.
NO_CLOCK = """
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	return syscall(SYS_clock_gettime, clock, ret);
}

static void forbid(int signo)
{
	if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
		abort();
	if (signo)
		syscall(SYS_prctl, PR_SET_NAME, "forbidden", 0, 0, 0);
}

__attribute__((constructor)) static void begin(void)
{
	signal(SIGUSR1, forbid);
	if (getenv("NO_CLOCK"))
		forbid(0);
}
"""


@pytest.fixture(name="no_clock")
def fixture_no_clock(tmp_path):
    """The environment of a program that can do without the clock."""
    source, library = tmp_path / "no_clock.c", tmp_path / "no_clock.so"
    source.write_text(NO_CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    return {"LD_PRELOAD": str(library)}


def test_no_clock(pollux, suite, trace, no_clock):
    """The agent would read the clock, and the kernel kill the program for it."""
    env = {**no_clock, "NO_CLOCK": "1"}
    with driver.Target(suite(), "steady", env=env) as target:
        target.go()
        for _ in range(2):
            result = record(pollux, target.pid, trace)
            assert result.returncode == 1 and "PR_SET_TSC" in result.stderr, result.stderr
        target.go()
        assert target.end() == 0, target.errors
        assert target.output() == ["steady to the end"]
    words = [f"{name}={value}" for name, value in env.items()]
    result = driver.run(pollux, "record", "-o", trace, "--", "env", *words, suite(), "multi_thread")
    assert result.returncode == 0 and '{"truth"' in result.stdout, result.stderr
    assert any("PR_SET_TSC" in c["note"] for c in driver.report(pollux, trace)["coverage"])


def test_clock_is_forbidden_later(pollux, suite, tmp_path, no_clock):
    """One thread after the other forbids itself the clock while it is recorded: the agent is off from the first on."""
    trace = tmp_path / "trace.plx"
    with driver.Target(suite(), "steady", env=no_clock) as target:
        target.go()
        recorder = driver.Recorder(pollux, target.pid, trace)
        driver.until_slept(target.pid, 100)
        libc, deadline = ctypes.CDLL(None), time.monotonic() + driver.TIMEOUT
        for tid in os.listdir(f"/proc/{target.pid}/task"):
            assert libc.tgkill(target.pid, int(tid), signal.SIGUSR1) == 0
            while Path(f"/proc/{target.pid}/task/{tid}/comm").read_text() != "forbidden\n":
                assert target.process.poll() is None and time.monotonic() < deadline
                time.sleep(0.002)
        assert not driver.enabled(target.pid)
        driver.until_slept(target.pid, 100)
        code, said = recorder.stop()
        assert code == 0, said
        again = record(pollux, target.pid, tmp_path / "again.plx")
        assert again.returncode == 1 and "PR_SET_TSC" in again.stderr, again.stderr
        target.go()
        assert target.end() == 0, target.errors
        assert target.output() == ["steady to the end"]
    report = driver.report(pollux, trace)
    assert report["events"] > 100
    assert any("PR_SET_TSC" in c["note"] for c in report["coverage"])


# While it waits for its input, the program's only thread has a signal after each of most instructions.
STEPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

static void trap(int signo)
{
}

ssize_t read(int fd, void *to, size_t bytes)
{
	ssize_t (*original)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
	struct pollfd input = {.events = POLLIN};

	signal(SIGTRAP, trap);
	while (fd == 0 && poll(&input, 1, 0) == 0)
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq; mov $2000, %%ecx; 1: dec %%ecx; jnz 1b;"
				 "pushfq; andq $~0x100, (%%rsp); popfq" ::: "rcx", "memory", "cc");
	return original(fd, to, bytes);
}
"""


def test_steps_by_itself(pollux, suite, trace, tmp_path):
    """A thread that single-steps itself makes no remote call, which would be with the signal blocked."""
    source, library = tmp_path / "steps.c", tmp_path / "steps.so"
    source.write_text(STEPS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-mno-red-zone", "-o", library, source], check=True)
    with driver.Target(suite(), "current_thread", env={"LD_PRELOAD": str(library)}) as target:
        for _ in range(5):
            result = record(pollux, target.pid, trace)
            assert result.returncode == 0 or driver.BUSY in result.stderr, result.stderr
        finish(target)


def test_lock_of_a_stranger(pollux, suite, trace):
    """Who may not trace a process can't keep others from it."""
    with driver.Target(suite(), "steady") as target:
        held = subprocess.Popen(
            [*NOBODY, sys.executable, "-c", "import fcntl, os, sys\n"
             f"fcntl.flock(os.open('/proc/{target.pid}', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
             "print('held', flush=True)\nsys.stdin.read()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert held.stdout.readline() == "held\n"
        result = record(pollux, target.pid, trace)
        assert result.returncode == 0, result.stderr
        held.communicate("", timeout=driver.TIMEOUT)


def test_one_at_a_time(pollux, suite, tmp_path):
    """Two recorders, until the first is gone, however it went."""
    with driver.Target(suite(), "steady") as target:
        first = driver.Recorder(pollux, target.pid, tmp_path / "first.plx")
        result = record(pollux, target.pid, tmp_path / "second.plx")
        assert result.returncode == 1
        assert "another pollux" in result.stderr, result.stderr
        first.process.kill()
        first.process.communicate()
        result = record(pollux, target.pid, tmp_path / "second.plx")
        assert result.returncode == 0, result.stderr


def take_all_descriptors(pid, hard=100, prefix=()):
    """No descriptor is free any more: the limit is set to how many there are. Returns both limits."""
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    limit = min(set(range(len(taken) + 1)) - taken)
    return set_limit(pid, limit, hard or limit, prefix)


def set_limit(pid, soft, hard, prefix=()):
    result = driver.run(*prefix, "prlimit", "--pid", pid, f"--nofile={soft}:{hard}")
    assert result.returncode == 0, result.stderr
    return soft, hard


def limits(pid):
    line = re.search(r"Max open files +(\d+) +(\d+)", Path(f"/proc/{pid}/limits").read_text())
    return int(line[1]), int(line[2])


def segments(pid):
    """The System V segments that the process has made and that are there."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    rows = [dict(zip(lines[0].split(), line.split())) for line in lines[1:]]
    return [row for row in rows if int(row["cpid"]) == pid]


@pytest.mark.parametrize("prefix", [(), NOBODY, ("unshare", "--ipc")], ids=["root", "nobody", "container"])
def test_no_descriptor_left(pollux, suite, tmp_path, prefix):
    """A program that has used its last descriptor is recorded, also a second time, and also by a user without
    rights; its limit stays, and what holds the events goes with it."""
    tool = prefix if prefix == NOBODY else ()
    trace = "/dev/null" if tool else tmp_path / "trace.plx"
    with driver.Target(suite(), "multi_thread", prefix=prefix) as target:
        for full in (True, True, False):
            before = take_all_descriptors(target.pid, prefix=tool) if full else set_limit(target.pid, 100, 100, tool)
            result = driver.run(*tool, pollux, "record", "-p", target.pid, "-d", "0.2", "-o", trace)
            assert result.returncode == 0, result.stderr
            assert limits(target.pid) == before
            flags = rings(target.pid)  # the same memory is replaced
            assert {"dc", "dd"} <= set(flags), flags
        before = take_all_descriptors(target.pid, None, prefix=tool)
        result = driver.run(*tool, pollux, "record", "-p", target.pid, "-d", "0.2", "-o", trace)
        assert result.returncode == 0, result.stderr
        assert limits(target.pid) == before
        target.go()
        target.truth()
        target.go()
        assert target.end() == 0, target.errors
    assert not segments(target.pid)


def rings(pid):
    """The flags of the only mapping of event buffers."""
    smaps = re.split(r"^(?=[0-9a-f]+-)", Path(f"/proc/{pid}/smaps").read_text(), flags=re.M)
    found = [entry for entry in smaps if "memfd:pollux-agent" in entry or "/SYSV" in entry]
    assert len(found) == 1, found
    return re.search(r"VmFlags:(.*)", found[0]).group(1).split()


def test_events_without_a_descriptor(pollux, suite, trace):
    """All of the events are there, too."""
    with driver.Target(suite(), "multi_thread") as target:
        before = take_all_descriptors(target.pid)
        recorder = driver.Recorder(pollux, target.pid, trace)
        assert limits(target.pid) == before
        assert len(segments(target.pid)) == 1
        set_limit(target.pid, 100, 100)
        target.go()
        truth = target.truth()
        code, said = recorder.stop()
        assert code == 0, said
        target.go()
        assert target.end() == 0, target.errors
    assert not segments(target.pid)
    wrong = differences(truth, driver.report(pollux, trace), names=False)
    assert not wrong, "\n".join(wrong)


def test_killed_without_a_descriptor(pollux, suite, tmp_path, all_of_it):
    """kill -9 of pollux at each of its calls of ptrace while it attaches to such a program: the limit is as it
    was, and no memory remains but what is mapped."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        before = take_all_descriptors(target.pid)
        killed = n = 0
        while n == killed:
            n += 1
            at = 1 + (n - 1) * (1 if all_of_it else 4)
            result = driver.run(
                "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ptrace",
                "-e", f"inject=ptrace:signal=SIGKILL:when={at}",
                pollux, "record", "-o", tmp_path / "trace.plx", "-p", target.pid, "-d", "0.1",
            )
            killed += result.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
            assert limits(target.pid) == before, at
            assert target.process.poll() is None, at
            deadline = time.monotonic() + driver.TIMEOUT  # it may wait for a CPU before the next call of the list
            while not all(int(row["nattch"]) for row in segments(target.pid)):
                assert time.monotonic() < deadline, at
                time.sleep(0.01)
        assert killed >= 5, result.stderr
        assert result.returncode == 0, result.stderr
        assert driver.report(pollux, tmp_path / "trace.plx")["events"] > 0
        set_limit(target.pid, 100, 100)
        target.go()
        assert target.end() == 0, target.errors
    assert not segments(target.pid)


def test_killed_with_the_segment_in_hand(pollux, suite, trace):
    """kill -9 of the program just when it has made the segment, and has not mapped it: it goes with pollux."""
    library = build.compile_c(build.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    with driver.Target(suite(), "steady") as target:
        target.go()
        take_all_descriptors(target.pid)
        result = driver.run(pollux, "record", "-p", target.pid, "-o", trace, "-d", "0.1", env={
            **os.environ, "LD_PRELOAD": str(library), "KILL": str(target.pid)})
        assert result.returncode == 1, result.stderr
        assert target.process.wait(driver.TIMEOUT) == -signal.SIGKILL
    assert not segments(target.pid)


def test_killed_before_the_segment_is_taken(pollux, suite, trace):
    """kill -9 of the program when it has made the segment, and pollux has not heard of it."""
    library = build.compile_c(build.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    with driver.Target(suite(), "steady") as target:
        target.go()
        take_all_descriptors(target.pid)
        result = driver.run(pollux, "record", "-p", target.pid, "-o", trace, "-d", "0.1", env={
            **os.environ, "LD_PRELOAD": str(library), "KILL_AFTER": str(sandbox.CALLS["shmget"])})
        assert result.returncode == 1, result.stderr
        assert target.process.wait(driver.TIMEOUT) == -signal.SIGKILL
    assert not segments(target.pid)


def test_segment_is_forbidden(pollux, suite, trace):
    """Where a filter forbids what needs no descriptor, pollux says that it is for lack of one."""
    with driver.Target(suite(), "multi_thread", prefix=sandbox.under(("shmget", {}))) as target:
        take_all_descriptors(target.pid)
        result = record(pollux, target.pid, trace)
        set_limit(target.pid, 100, 100)
        assert result.returncode == 1
        assert "has no free file descriptor: " in result.stderr and "forbids shmget" in result.stderr, result.stderr
        target.go()
        target.truth()
        target.go()
        assert target.end() == 0, target.errors


LOOKS_AT_LIMIT = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void *look(void *unused)
{
	struct rlimit first, now;

	while (access(getenv("BEGIN"), F_OK))
		usleep(1000);
	getrlimit(RLIMIT_NOFILE, &first);
	do
		getrlimit(RLIMIT_NOFILE, &now);
	while (now.rlim_cur == first.rlim_cur);
	_exit(99);
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	if (getenv("BEGIN"))
		pthread_create(&thread, NULL, look, NULL);
}
"""


def test_no_thread_has_the_descriptor_more(pollux, suite, tmp_path):
    """None that runs sees the limit that is raised: a number above it may be too high for an fd_set."""
    source, library, begin = tmp_path / "look.c", tmp_path / "look.so", tmp_path / "begin"
    source.write_text(LOOKS_AT_LIMIT)
    subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    env = {"LD_PRELOAD": str(library), "BEGIN": str(begin)}
    with driver.Target(suite(), "steady", env=env) as target:
        target.go()
        before = take_all_descriptors(target.pid)
        begin.touch()
        for i in range(5):
            result = driver.record_a_while(pollux, target.pid, tmp_path / f"{i}.plx", 0.05)
            assert result.returncode == 0, result.stderr
        assert target.process.poll() is None, "a thread saw another limit"
        assert limits(target.pid) == before
        target.kill()


# Something that a program does as soon as one of its threads is traced.
WHEN_TRACED = """
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int traced(void)
{
	DIR *tasks = opendir("/proc/self/task");
	char path[300], text[4096], *line;
	struct dirent *d;
	int found = 0;

	while (!found && (d = readdir(tasks))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
		FILE *f = fopen(path, "r");
		if (!f)
			continue;
		text[fread(text, 1, sizeof(text) - 1, f)] = 0;
		fclose(f);
		line = strstr(text, "TracerPid:");
		found = line && atoi(line + 10);
	}
	closedir(tasks);
	return found;
}

static void *act(void *how)
{
	while (!traced())
		;
	/* Not at the attach, but at the detach. */
	if (getenv("AT_DETACH")) {
		usleep(atoi(getenv("AT_DETACH")));
		while (!traced())
			;
	}
	if (!strcmp(how, "exec"))
		execlp("sleep", "sleep", "1", NULL);
	if (!strcmp(how, "setuid"))
		(void)!setresuid(65534, 65534, 65534);
	if (!strcmp(how, "exit"))
		_exit(0);
	return NULL;
}

static void *wait_on(void *none)
{
	pause();
	return none;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	for (int i = getenv("CROWD") ? atoi(getenv("CROWD")) : 0; i > 0; i--)
		pthread_create(&thread, NULL, wait_on, NULL);
	if (getenv("WHEN_TRACED"))
		pthread_create(&thread, NULL, act, getenv("WHEN_TRACED"));
}
"""


@pytest.mark.parametrize("how", ["exec", "exit", "setuid"])
def test_changes_when_traced(pollux, suite, tmp_path, how):
    """What becomes of the program in the middle of it is named; another program is left alone."""
    source, library = tmp_path / "traced.c", tmp_path / "traced.so"
    source.write_text(WHEN_TRACED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    for _ in range(4):
        env = {"LD_PRELOAD": str(library), "WHEN_TRACED": how}
        with driver.Target(suite(), "multi_thread", env=env) as target:
            result = record(pollux, target.pid, tmp_path / "trace.plx")
            assert result.returncode in (0, 1)
            assert "No child processes" not in result.stderr, result.stderr
            assert "although CAP_SYS_PTRACE" not in result.stderr, result.stderr
            if how == "setuid":
                assert result.returncode == 0 or "try again" in result.stderr, result.stderr
                finish(target)
            elif result.returncode:
                said = {"exec": ("executed another program", "has no Tokio"), "exit": ("has ended", "no process")}
                # It may take long, on a busy machine.
                also = ("the main thread of process",)
                assert any(words in result.stderr for words in said[how] + also), result.stderr
            # It may have been too slow to see it.
            if how == "exec" and Path(f"/proc/{target.pid}/comm").read_text() == "sleep\n":
                assert target.process.wait(driver.TIMEOUT) == 0


@pytest.mark.parametrize("how", ["exec", "exit"])
def test_changes_at_detach(pollux, suite, tmp_path, how):
    """The same when pollux stops the threads to take its hooks out: the trace is whole, the next program too."""
    source, library = tmp_path / "traced.c", tmp_path / "traced.so"
    source.write_text(WHEN_TRACED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    env = {"LD_PRELOAD": str(library), "WHEN_TRACED": how, "AT_DETACH": "500000", "CROWD": "50"}
    for i in range(2):
        trace = tmp_path / f"{i}.plx"
        with driver.Target(suite(), "multi_thread", env=env) as target:
            recorder = driver.Recorder(pollux, target.pid, trace)
            target.go()
            target.truth()
            time.sleep(1)
            code, said = recorder.stop()
            assert code == 0 or "cannot detach" in said, said
            assert driver.report(pollux, trace)["events"] > 0
            # It may have been too slow to see it.
            if how == "exit":
                assert target.process.poll() in (None, 0)
            elif Path(f"/proc/{target.pid}/comm").read_text() == "sleep\n":
                assert target.process.wait(driver.TIMEOUT) == 0


def test_exec_of_many_threads(pollux, suite, tmp_path):
    """exec() waits for the ends of the other threads, those of traced ones for the tracer to take them, and the
    tracer, which seizes the next thread, for exec(): neither may hang."""
    source, library = tmp_path / "traced.c", tmp_path / "traced.so"
    source.write_text(WHEN_TRACED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    env = {"LD_PRELOAD": str(library), "WHEN_TRACED": "exec", "CROWD": "200"}
    for _ in range(4):
        with driver.Target(suite(), "multi_thread", env=env) as target:
            result = record(pollux, target.pid, tmp_path / "trace.plx")
            assert result.returncode in (0, 1), result.stderr
            if Path(f"/proc/{target.pid}/comm").read_text() == "sleep\n":
                assert target.process.wait(driver.TIMEOUT) == 0


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_held_stays_held(pollux, suite, trace):
    """Job control: what was stopped while it is recorded stays so at the recording's end, and goes on when it
    is told to; what is stopped is not attached to."""
    with driver.Target(suite(), "multi_thread") as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        target.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + driver.TIMEOUT
        while state(target.pid) != "T":
            assert time.monotonic() < deadline
            time.sleep(0.002)
        code, said = recorder.stop()
        assert code == 0, said
        assert state(target.pid) == "T"
        result = record(pollux, target.pid, trace)
        assert result.returncode == 1
        assert "kill -CONT" in result.stderr, result.stderr
        assert driver.run(pollux, "tree", target.pid).returncode == 0
        assert state(target.pid) == "T"
        target.process.send_signal(signal.SIGCONT)
        finish(target)


def test_stopped_again_and_again(pollux, suite, tmp_path):
    """SIGSTOP and SIGCONT all the time: attaching works or says why not, and no SIGCONT gets lost."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        flips = subprocess.Popen(
            ["sh", "-c", f"while :; do kill -STOP {target.pid}; kill -CONT {target.pid}; done"])
        for i in range(4):
            result = record(pollux, target.pid, tmp_path / f"{i}.plx")
            assert result.returncode in (0, 1)
            assert result.returncode == 0 or result.stderr.strip()
        flips.kill()
        flips.wait()
        target.process.send_signal(signal.SIGCONT)
        target.go()
        assert target.end() == 0, target.errors
        assert target.output() == ["steady to the end"]


def test_other_pid_namespace(pollux, suite, tmp_path):
    """From outside and from inside; the one keeps the other away where both see one /proc."""
    if driver.run("unshare", "--pid", "--fork", "--mount-proc", "true").returncode:
        pytest.skip("no pid namespaces here")
    prefix = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    with driver.Target(suite(), "multi_thread", prefix=prefix) as target:
        assert target.pid == 1
        children = Path(f"/proc/{target.process.pid}/task/{target.process.pid}/children")
        outer = int(children.read_text().split()[0])
        inside = ("nsenter", "--target", outer, "--pid", "--mount")
        result = driver.run(*inside, pollux, "record", "-p", 1, "-d", "0.2", "-o", tmp_path / "inside.plx")
        assert result.returncode == 0, result.stderr
        recorder = driver.Recorder(pollux, outer, tmp_path / "outside.plx")
        target.go()
        truth = target.truth()
        code, said = recorder.stop()
        assert code == 0, said
        target.go()
        assert target.end() == 0, target.errors
    wrong = differences(truth, driver.report(pollux, tmp_path / "outside.plx"), names=False)
    assert not wrong, "\n".join(wrong)
