# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a recording leaves in the program costs it nothing: memory, dumps, descriptors."""
import os
import re
import resource
import signal
import struct
import subprocess
import time
from pathlib import Path

import driver
import pytest

MIB = 1 << 20


class Memory:
    """What a process has: kB of RssShmem and VmSize, and its mappings."""

    def __init__(self, pid):
        status = Path(f"/proc/{pid}/status").read_text()
        self.shared = int(re.search(r"RssShmem:\s+(\d+)", status).group(1))
        self.size = int(re.search(r"VmSize:\s+(\d+)", status).group(1))
        self.maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        smaps = re.split(r"^(?=[0-9a-f]+-)", Path(f"/proc/{pid}/smaps").read_text(), flags=re.M)
        self.ours = {}  # of the agent's mappings: range to flags, what is not dumped
        for entry in smaps:
            if "pollux-agent" in entry:
                self.ours[entry.split()[0]] = re.search(r"VmFlags:(.*)", entry).group(1).split()

    def rings(self):
        """The rings' mapping: its flags."""
        found = [line.split()[0] for line in self.maps if "/memfd:pollux-agent" in line]
        assert len(found) == 1, found
        return self.ours[found[0]]


def anonymous_code(memory):
    """The mappings of code without a file, as the agent's are, named or not."""
    fields = [line.split() for line in memory.maps]
    return [f[0] for f in fields if f[1] == "r-xp" and f[4] == "0" and f[5:] != ["[vdso]"]]


def hook_tables(pid):
    """What the hooks of each area lead to: its address to [(function, slot, type)]."""
    found = {}
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for state in driver.agent_states(pid, memory):  # agent/ring.h: struct agent_state, struct agent_hook
            n_hooks, hooks = struct.unpack_from("<I24xQ", state, 12)
            memory.seek(hooks)
            table = memory.read(64 * n_hooks)
            found[hooks] = [struct.unpack_from("<QQ8xH", table, 64 * i) for i in range(n_hooks)]
    return found


def memfds(pid):
    """The agent's descriptors that the process has open."""
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(fd))
        except FileNotFoundError:
            pass
    return [name for name in found if "pollux-agent" in name]


def record(pollux, target, trace, *options):
    """Attaches, records for a while, detaches."""
    recorder = driver.Recorder(pollux, target.pid, trace, *options)
    time.sleep(0.3)
    during = Memory(target.pid)
    code, said = recorder.stop()
    assert code == 0, said
    return during


def test_memory_is_given_back(pollux, suite, trace):
    """After the detach, the rings' pages are gone; they are in no child and no dump, and another
    recording adds no mapping."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        before = Memory(target.pid)
        during = record(pollux, target, trace)
        assert during.shared > before.shared
        assert {"dc", "dd"} <= set(during.rings())
        first = Memory(target.pid)
        # a thread may have been in the middle of an event
        assert first.shared <= before.shared + 64
        for _ in range(3):
            record(pollux, target, trace)
        after = Memory(target.pid)
        assert after.shared <= before.shared + 64
        assert len(after.ours) == len(first.ours) <= 5
        assert after.size <= first.size + 1024
        # all that is large
        for span, flags in after.ours.items():
            begin, end = (int(part, 16) for part in span.split("-"))
            assert "dd" in flags or end - begin < MIB, (span, flags)
        # rings of another size: the old ones' addresses stay, not their memory
        record(pollux, target, trace, "--ring-size", "64K")
        assert Memory(target.pid).shared <= before.shared + 64
        assert not memfds(target.pid)
        target.go()
        assert target.end() == 0


def test_each_area_is_found_again(pollux, suite, trace):
    """Recordings with other options by turns: from the second round on no mapping is added."""
    rounds = ((), ("--futures",), ("--ring-size", "64K"), ("--futures", "--ring-size", "64K"))
    with driver.Target(suite(), "steady") as target:
        target.go()
        before = Memory(target.pid)

        def all_of_them():
            for options in rounds:
                record(pollux, target, trace, *options)
                assert driver.report(pollux, trace)["events"] > 0
                assert Memory(target.pid).shared <= before.shared + 64
            return Memory(target.pid)

        first = all_of_them()
        rings = [line for line in first.maps if "/memfd:pollux-agent" in line]
        assert len(rings) == 2, rings  # one per size
        for _ in range(2):
            again = all_of_them()
            assert len(again.ours) == len(first.ours)
            assert len(anonymous_code(again)) == len(anonymous_code(first)) <= len(rounds)
            assert again.size <= first.size + 1024
        target.go()
        assert target.end() == 0


def test_hooks_of_an_area_stay(pollux, suite, trace):
    """A thread may be in a stub of an earlier recording, or in a poll: what its hook leads to is
    never changed, though other hooks of just as many and the same types are asked for."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        known, tables = {}, []
        for name in ("raw_waking", "sleep", "raw_waking", "sleep"):
            result = driver.record_a_while(
                pollux, target.pid, trace, 0.1, "--futures", "--include", name
            )
            assert result.returncode == 0, result.stderr
            now = hook_tables(target.pid)
            for area, table in known.items():
                assert now[area] == table, name
            known = now
            tables.append(len(now))
        assert tables == [1, 2, 2, 2]
        one, other = known.values()
        assert sorted(hook[2] for hook in one) == sorted(hook[2] for hook in other)
        target.go()
        assert target.end() == 0


def test_memory_of_a_killed_recorder(pollux, suite, trace):
    """Its rings stay, but in no dump, until another has come and gone."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        before = Memory(target.pid)
        recorder = driver.Recorder(pollux, target.pid, trace)
        time.sleep(0.3)
        recorder.process.kill()
        recorder.process.communicate()
        assert {"dc", "dd"} <= set(Memory(target.pid).rings())
        assert not memfds(target.pid)
        # the killed one left the agent on: only time shows that the second has attached
        again = driver.Recorder(pollux, target.pid, trace, "-d", "0.3", wait=False)
        code, said = again.wait()
        assert code == 0, said
        assert Memory(target.pid).shared <= before.shared + 64
        target.go()
        assert target.end() == 0


def test_killed_with_the_memory_in_hand(pollux, suite, trace):
    """kill -9 of pollux just when the program has the rings' file open: it closes it all the same."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        killed = driver.run(
            "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pidfd_getfd",
            "-e", "inject=pidfd_getfd:signal=SIGKILL:when=1",
            pollux, "record", "-o", trace, "-p", target.pid, "-d", "0.2",
        )
        assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
        deadline = time.monotonic() + driver.TIMEOUT
        while memfds(target.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not memfds(target.pid)
        assert Memory(target.pid).rings()  # so far it had come
        record(pollux, target, trace)
        assert driver.report(pollux, trace)["events"] > 0
        assert not memfds(target.pid)
        target.go()
        assert target.end() == 0


def test_limited_address_space(pollux, suite, trace):
    """A program under ulimit -v keeps nearly all that it has left, also after several recordings."""
    limit = ("sh", "-c", 'ulimit -v 1000000 && exec "$@"', "sh")
    with driver.Target(suite(), "steady", prefix=limit) as target:
        target.go()
        driver.until_slept(target.pid, 20)  # its threads have their memory
        before = Memory(target.pid)
        for _ in range(3):
            record(pollux, target, trace)
            assert driver.report(pollux, trace)["events"] > 0
        assert Memory(target.pid).size - before.size < (1000000 - before.size) / 10
        target.go()
        assert target.end() == 0


@pytest.mark.parametrize("mode", ["attached", "launched"])
def test_limited_files(pollux, suite, trace, mode):
    """The event buffers are a file that the program makes: under ulimit -f they are as large as it may be, and
    where not one fits pollux says so. The program isn't killed for it."""
    limit = ("sh", "-c", 'ulimit -f 20000 && exec "$@"', "sh")  # blocks of 512 bytes
    if mode == "launched":
        result = driver.run(*limit, pollux, "record", "-o", trace, "--", suite(), "steady", timeout=driver.TIMEOUT)
        assert result.returncode == 0, result.stderr
    else:
        with driver.Target(suite(), "steady", prefix=limit) as target:
            record(pollux, target, trace)
            result = driver.run(pollux, "record", "-p", target.pid, "-d", "0.2", "-o", trace, "--ring-size", "64M")
            assert result.returncode == 1 and "ulimit -f" in result.stderr, result.stderr
            target.go()
            assert target.end() == 0
    coverage = {row["item"]: row for row in driver.report(pollux, trace)["coverage"]}
    assert 0 < coverage["event buffers"]["seen"] < coverage["event buffers"]["total"]


# A program that has nearly as many mappings as it may have, and needs half of those that are left now and then.
MAPS = """
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map(long i)
{
	return mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *use(void *left)
{
	const long n = (long)left;
	void *maps[n];

	for (;; usleep(1000)) {
		for (long i = 0; i < n; i++)
			if ((maps[i] = map(i)) == MAP_FAILED)
				abort();
		for (long i = 0; i < n; i++)
			munmap(maps[i], 4096);
	}
	return NULL;
}

__attribute__((constructor)) static void take(void)
{
	const long left = atol(getenv("LEFT"));
	static void *maps[1 << 20];
	pthread_t thread;
	long n = 0;

	while (n < 1 << 20 && (maps[n] = map(n)) != MAP_FAILED)
		n++;
	/* The program's threads have not begun. */
	for (long i = 0; i < left + 60; i++)
		munmap(maps[--n], 4096);
	pthread_create(&thread, NULL, use, (void *)(left / 2));
}
"""


def refused(pollux, target, trace, *words):
    """It is not recorded, for the reason that has these words, and works on."""
    result = driver.run(pollux, "record", "-p", target.pid, "-d", "0.2", "-o", trace)
    assert result.returncode == 1 and all(word in result.stderr for word in words), result.stderr
    target.go()
    assert target.end() == 0, target.errors
    assert target.output() == ["steady to the end"]


def test_few_mappings_are_left(pollux, suite, trace, tmp_path):
    """A program that needs the last mappings which the kernel lets it have keeps them."""
    if int(Path("/proc/sys/vm/max_map_count").read_text()) > 1 << 19:
        pytest.skip("a program may have more mappings here than a test can make")
    source, library = tmp_path / "maps.c", tmp_path / "maps.so"
    source.write_text(MAPS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-pthread", "-o", library, source], check=True)
    with driver.Target(suite(), "steady", env={"LD_PRELOAD": str(library), "LEFT": "20"}) as target:
        target.go()
        driver.until_slept(target.pid, 20)
        refused(pollux, target, trace, "memory mappings", "vm.max_map_count")


def leave_data(pid):
    """It may have 32 MiB of data more."""
    data = int(re.search(r"VmData:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)) << 10
    resource.prlimit(pid, resource.RLIMIT_DATA, (data + 32 * MIB, resource.RLIM_INFINITY))


def test_little_data_is_left(pollux, suite, trace):
    """Under ulimit -d: the agent's data counts, too."""
    with driver.Target(suite(), "steady") as target:
        target.go()
        driver.until_slept(target.pid, 20)
        leave_data(target.pid)
        refused(pollux, target, trace, "ulimit -d")


def test_an_agent_that_is_there_takes_no_data(pollux, suite, trace):
    with driver.Target(suite(), "steady") as target:
        record(pollux, target, trace)
        leave_data(target.pid)
        record(pollux, target, trace)
        target.go()
        target.go()
        assert target.end() == 0, target.errors


@pytest.fixture
def group():
    """A control group with a limit of memory: its folder, and the name of the limit's file."""
    one, two = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
    old = (one / "memory.limit_in_bytes").exists()
    folder = (one if old else two) / f"pollux-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if old else "memory.max"
    try:
        folder.mkdir()
    except OSError as e:
        pytest.skip(f"no cgroup can be made here: {e}")
    try:
        if not (folder / limit).exists():
            pytest.skip("cgroups have no limit of memory here")
        yield folder, limit
    finally:
        folder.rmdir()


@pytest.mark.parametrize("left, fits", [(8, False), (64, True)])
def test_little_memory_is_left(pollux, suite, trace, group, left, fits):
    """The agent's memory and the event buffers count as the program's, which the kernel ends if its group has no more."""
    folder, limit = group
    join = ("sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh")
    with driver.Target(suite(), "steady", prefix=join) as target:
        target.go()
        driver.until_slept(target.pid, 20)
        used = folder / ("memory.current" if limit == "memory.max" else "memory.usage_in_bytes")
        (folder / limit).write_text(str(int(used.read_text()) + left * MIB))
        if not fits:
            refused(pollux, target, trace, "control group", limit)
            return
        record(pollux, target, trace)
        target.go()
        assert target.end() == 0
    coverage = {row["item"]: row for row in driver.report(pollux, trace)["coverage"]}
    assert 0 < coverage["event buffers"]["seen"] <= left / 4 and "control group" in coverage["event buffers"]["note"]


def test_recorder_with_limited_files(pollux, suite, tmp_path):
    """A trace that may not grow ends the recording with an error, not pollux with its hooks in."""
    limit = ("sh", "-c", 'ulimit -f 10 && exec "$@"', "sh")
    with driver.Target(suite(), "steady") as target:
        target.go()
        result = driver.run(*limit, pollux, "record", "-p", target.pid, "-o", tmp_path / "trace.plx", "-d", "60")
        assert result.returncode == 1 and "too large" in result.stderr, (result.returncode, result.stderr)
        assert not driver.enabled(target.pid)


LOCKS = """
#include <sys/mman.h>
__attribute__((constructor)) static void lock(void) { mlockall(MCL_CURRENT | MCL_FUTURE); }
"""


def test_locked_memory(pollux, suite, trace, tmp_path):
    """Of a program that locks its memory each page that is mapped is used at once: it gets few event buffers."""
    source, library = tmp_path / "locks.c", tmp_path / "locks.so"
    source.write_text(LOCKS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    with driver.Target(suite(), "steady", env={"LD_PRELOAD": str(library)}) as target:
        before = Memory(target.pid)
        during = record(pollux, target, trace)
        assert during.shared - before.shared < 64 << 10
        record(pollux, target, trace)
        assert Memory(target.pid).shared < before.shared + 64
        target.go()
        assert target.end() == 0


def core_of(pollux, suite, folder, recorded):
    """(length, bytes on disk) of the core that the kernel writes of a program."""
    folder.mkdir()
    limits = ("sh", "-c", f'cd "{folder}" && ulimit -c unlimited && exec "$@"', "sh")
    with driver.Target(suite(), "steady", prefix=limits) as target:
        target.go()
        if recorded:
            record(pollux, target, folder / "trace.plx")
            (folder / "trace.plx").unlink()
        target.process.send_signal(signal.SIGQUIT)
        target.process.wait(driver.TIMEOUT)
    cores = list(folder.iterdir())
    assert len(cores) == 1, cores
    size = cores[0].stat()
    cores[0].unlink()
    return size.st_size, size.st_blocks * 512


def test_core_is_no_larger(pollux, suite, tmp_path):
    """A core of a program that was recorded is as large as one of a program that wasn't."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith(("|", "/")):
        pytest.skip(f"the kernel gives cores to {pattern}; the mappings' flags are tested above")
    plain = core_of(pollux, suite, tmp_path / "plain", False)
    recorded = core_of(pollux, suite, tmp_path / "recorded", True)
    for a, b in zip(plain, recorded):
        assert b <= a + 4 * MIB, (plain, recorded)


def test_gcore_is_no_larger(pollux, suite, tmp_path):
    """The same by gdb, before, during and after a recording; and it costs the program no memory."""
    sizes = []

    def gcore(pid):
        result = subprocess.run(
            ["gcore", "-o", str(tmp_path / "core"), str(pid)],
            capture_output=True, text=True, check=False, timeout=driver.TIMEOUT,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        core = tmp_path / f"core.{pid}"
        sizes.append(core.stat().st_size)
        core.unlink()

    with driver.Target(suite(), "steady") as target:
        target.go()
        gcore(target.pid)
        before = Memory(target.pid)
        recorder = driver.Recorder(pollux, target.pid, tmp_path / "trace.plx")
        gcore(target.pid)
        code, said = recorder.stop()
        assert code == 0, said
        gcore(target.pid)
        assert Memory(target.pid).shared <= before.shared + 64
    assert max(sizes) <= sizes[0] + 4 * MIB, sizes


# A thread that forks all the time, and children that look whether they have what is not theirs.
FORKS = """
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char maps[1 << 20];

static int has_ours(void)
{
	char name[64], target[64];
	ssize_t n, len = 0;
	int fd = open("/proc/self/maps", O_RDONLY);

	while ((n = read(fd, maps + len, sizeof(maps) - 1 - len)) > 0)
		len += n;
	close(fd);
	if (strstr(maps, "memfd:pollux-agent"))
		return 1;
	for (fd = 3; fd < 64; fd++) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		n = readlink(name, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = 0;
		if (strstr(target, "memfd:pollux-agent"))
			return 1;
	}
	return 0;
}

static void *fork_on(void *file)
{
	int found = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600), status;

	for (;;) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(has_ours());
		if (waitpid(pid, &status, 0) != pid || status)
			(void)!write(found, WIFEXITED(status) ? "x" : "k", 1);
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	if (getenv("FORKS"))
		pthread_create(&thread, NULL, fork_on, getenv("FORKS"));
}
"""


def test_children_of_an_attach(pollux, suite, tmp_path):
    """What a child inherits that is forked at any moment of it: neither the rings nor their descriptor; and it
    lives."""
    source, library, found = tmp_path / "forks.c", tmp_path / "forks.so", tmp_path / "found"
    source.write_text(FORKS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
    env = {"LD_PRELOAD": str(library), "FORKS": str(found)}
    with driver.Target(suite(), "steady", env=env) as target:
        target.go()
        for i in range(20):
            result = driver.record_a_while(pollux, target.pid, tmp_path / f"{i}.plx", 0.02)
            assert result.returncode == 0, result.stderr
        assert found.read_text() == ""
        target.go()
        assert target.end() == 0, target.errors
