# SPDX-License-Identifier: MIT OR Apache-2.0
"""record --backend kernel: the same truth, seen from outside (docs/kernel.md)."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import build as builder
import driver
import pytest
from test_harm import Echo, finish
from truth import differences

KERNEL = ("--backend", "kernel")
COUNTS = ("spawned", "completed", "cancelled", "panicked")

# Package, profile, programs: both runtimes, both linkers, with names and without.
RUNS = [
    ("tokio-1.54", "release", ["multi_thread", "current_thread", "abort", "panic", "late_wakes"]),
    ("tokio-1.54", "release-lto", ["join_set", "block_in_place", "timers"]),
    ("tokio-1.38", "stripped", ["multi_thread", "panic", "raw_self_wakes"]),
    ("tokio-1.23", "release", ["multi_thread", "short_tasks"]),
    ("async-std-1.13", "release", ["exchange", "panic", "panic_caught", "cancel"]),
    ("smol-2.0", "release", ["exchange", "own_panic", "drop_executor", "thread_churn"]),
    ("smol-2.0", "stripped", ["exchange", "panic"]),
    ("smol-2.0", "debug", ["exchange"]),
    ("smol-2.0", "nonpie", ["exchange", "cancel"]),
]
CASES = [
    (package, profile, program, mode)
    for package, profile, programs in RUNS
    for program in programs
    for mode in ("launched", "attached")
]

def forbidden():
    """Why the kernel takes no probes of pollux, or None."""
    status = Path("/proc/self/status").read_text()
    caps = int(status.split("CapEff:")[1].split()[0], 16)
    if not (caps >> 21 & 1 or (caps >> 38 & 3) == 3):
        return "the kernel takes probes of root only, or of CAP_BPF with CAP_PERFMON"
    return None


@pytest.fixture(scope="module", autouse=True)
def rights(pollux, tmp_path_factory):
    why = forbidden()
    if why:
        pytest.skip(why)
    nothing = tmp_path_factory.mktemp("rights") / "nothing"
    said = driver.run(pollux, "record", *KERNEL, "-o", nothing, "-p", "1").stderr
    if "built without" in said:
        pytest.skip("this pollux was built without BPF")


def attached(recorder):
    """True once its probes are in: it has links, and sleeps between two looks at the ring."""
    try:
        links = [
            info.read_text() for info in Path(f"/proc/{recorder.process.pid}/fdinfo").iterdir()
        ]
        now = Path(f"/proc/{recorder.process.pid}/syscall").read_text().split()[0]
    except OSError:
        return False
    return now in ("35", "230") and any("link_type:\tuprobe_multi" in link for link in links)


class Recorder(driver.Recorder):
    """pollux record --backend kernel -p PID, its probes in place."""

    def __init__(self, pollux, pid, trace, *options):
        super().__init__(pollux, pid, trace, *KERNEL, *options, wait=False)
        deadline = time.monotonic() + driver.TIMEOUT
        while not attached(self):
            if self.process.poll() is not None:
                raise AssertionError(f"record ended with {self.process.returncode}: {self.said()}")
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.until_compiled()


def record(pollux, trace, mode, *command, options=()):
    if mode == "launched":
        return driver.record_launched(pollux, trace, *command, options=(*KERNEL, *options))
    return driver.record_attached(pollux, trace, *command, options=options, recorder=Recorder)


@pytest.mark.parametrize("which", CASES, ids=["-".join(which) for which in CASES])
def test_counts(pollux, suite, trace, which):
    """Everything that the agent would count, without an agent."""
    package, profile, program, mode = which
    run = record(pollux, trace, mode, suite(package, profile), program)
    assert run.code == 0
    names = builder.PROFILES[profile].symbols and profile != "release-lto"
    report = driver.report(pollux, trace)
    assert differences(run.truth, report, names=names) == []
    # It has no chains, and says so.
    boxes = [c for c in report["coverage"] if c["item"] == "await points in boxes, handlers"]
    assert [c["seen"] for c in boxes] == [0] and "first box" in boxes[0]["note"]


@pytest.mark.parametrize("package", ["tokio-1.38", "probes-tokio-dtrace"])
def test_stacks_of_spawns(pollux, suite, trace, package):
    """Of unmodified functions and of probes: each spawn has its stack, up to the poll it is made in."""
    run = record(pollux, trace, "launched", suite(package, "release"), "short_tasks",
                 options=("--spawn-stacks", "--ring-size", "64M"))
    from_here = sum(one["count"] for one in driver.stacks_of_spawns(pollux, trace)
                    if any(frame["function"].endswith("::short_tasks") for frame in one["stack"]))
    # A runtime's workers are spawned there, too.
    report = driver.report(pollux, trace)
    workers = sum(f["tasks"] for f in report["families"] if f["role"] == "worker")
    true = run.truth["totals"]["spawned"] + workers
    assert true - driver.lost(report) <= from_here <= true and from_here > 0


# ---- programs that carry probes ----

CARRIERS = [
    ("probes-tokio2chrome", "release"),
    ("probes-tokio2chrome", "bfd"),
    ("probes-pollux", "release"),
    ("probes-pollux", "bfd"),
    ("probes-tokio-7717", "release"),
]


def semaphores(pollux, path, pid):
    """What is in the program's memory at each semaphore of its probes."""
    probes = json.loads(driver.run(pollux, "probes", "--json", path).stdout)
    wanted = {int(p["semaphore"], 16) for p in probes["objects"][0]["probes"] if "semaphore" in p}
    maps = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    base = min(int(m[0].split("-")[0], 16) for m in maps if len(m) > 5 and m[5] == str(path))
    with open(f"/proc/{pid}/mem", "rb") as memory:
        values = []
        for address in wanted:
            memory.seek(base + address)
            values.append(int.from_bytes(memory.read(2), "little"))
        return values


@pytest.mark.parametrize("mode", ["launched", "attached"])
@pytest.mark.parametrize("package,profile", CARRIERS)
def test_probes(pollux, suite, trace, package, profile, mode):
    """Every task, every poll and every end, by the probes alone."""
    run = record(pollux, trace, mode, suite(package, profile), "multi_thread")
    assert run.code == 0
    report = driver.report(pollux, trace)
    assert report["lost"] == 0
    assert any(c["item"] == "known probes" for c in report["coverage"])
    tasks = [f for f in report["families"] if f["role"] == "task"]
    for what in ("spawned", "completed", "cancelled", "panicked"):
        assert report["tasks"][what] == run.truth["totals"][what], what
    assert sum(f["polls"] for f in tasks) == run.truth["totals"]["polls"]


@pytest.mark.parametrize("program", ["abort", "panic", "local_set", "self_wakes"])
def test_pull_request_7717(pollux, suite, trace, program):
    """How each task ended, its wakes, where it was spawned, and the futures of block_on."""
    run = record(pollux, trace, "launched", suite("probes-tokio-7717"), program)
    report = driver.report(pollux, trace)
    assert report["lost"] == 0
    tasks = [f for f in report["families"] if f["role"] == "task"]
    for what in COUNTS:
        assert report["tasks"][what] == run.truth["totals"][what], what
    for what in ("polls", "wakes", "self_wakes"):
        assert sum(f[what] for f in tasks) == run.truth["totals"][what], what
    # spawn_local passes a closure of Tokio's, which knows its own place only.
    assert program == "local_set" or all("src/tokio/" in f["spawn_sites"][0] for f in tasks)
    roots = [f for f in report["families"] if f["role"] == "root"]
    assert roots and all(f["polls"] >= f["tasks"] for f in roots)


@pytest.mark.parametrize("profile", ["release", "bfd"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_semaphores(pollux, suite, trace, profile, how):
    """Up while it is recorded, down afterwards, whatever became of the recorder."""
    path = suite("probes-pollux", profile)
    with driver.Target(path, "multi_thread") as target:
        assert set(semaphores(pollux, path, target.pid)) == {0}
        recorder = Recorder(pollux, target.pid, trace)
        assert all(semaphores(pollux, path, target.pid))
        recorder.process.send_signal(how)
        recorder.process.wait()
        deadline = time.monotonic() + driver.TIMEOUT
        while set(semaphores(pollux, path, target.pid)) != {0}:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        target.go()
        target.truth()
        assert target.end() == 0


@pytest.mark.parametrize("program", ["machines", "blockade"])
@pytest.mark.parametrize("mode", ["launched", "attached"])
def test_async_std_functions(pollux, suite, trace, program, mode):
    """async-std's exported functions of 2019: tasks with their names."""
    run = record(pollux, trace, mode, suite("probes-async-std"), program)
    report = driver.report(pollux, trace)
    assert report["lost"] == 0
    for what in ("spawned", "completed"):
        assert report["tasks"][what] == run.truth["totals"][what]
    assert {"parent", "sleeper"} & {f["name"] for f in report["families"]}


# ---- both sources, harm, limits ----


def families(report):
    """Counts by name of what is alike in each run: polls and wakes are not."""
    return sorted(
        (f["name"], f["role"], *(f[what] for what in COUNTS))
        for f in report["families"]
        if f["role"] in ("task", "blocking")
    )


@pytest.mark.parametrize(
    "package,program",
    [("tokio-1.54", "channels"), ("tokio-1.54", "net"), ("async-std-1.13", "self_wakes")],
)
def test_as_the_agent(pollux, suite, tmp_path, package, program):
    """The same families with the same counts, and each run's own polls and wakes."""
    path = suite(package)
    reports = []
    for name, options in (("agent", ()), ("kernel", KERNEL)):
        run = driver.record_launched(pollux, tmp_path / name, path, program, options=options)
        report = driver.report(pollux, run.trace)
        assert differences(run.truth, report) == []
        reports.append(report)
    assert families(reports[0]) == families(reports[1])


@pytest.mark.parametrize("mode", ["launched", "attached"])
def test_await_points_of_async_tasks(pollux, suite, trace, mode):
    """Their lines, as the source has them; tests/tree compares Tokio's one by one."""
    run = record(pollux, trace, mode, suite("smol-2.0", "debug"), "exchange")
    report = driver.report(pollux, trace)
    assert differences(run.truth, report) == []
    lines = (builder.ROOT / "tests/targets/src/async_task/programs.rs").read_text().splitlines()
    waits = [wait for wait in report["waits"] if wait["file"].endswith("programs.rs")]
    # If the debug information was read after the begin, two of that name are distinguished.
    channels = {(wait["family"].split("<")[0].split("::")[-1], call) for wait in waits
                for call in ("tx.send(", "rx.recv()") if call in lines[wait["line"] - 1]}
    assert channels == {("producer", "tx.send("), ("consumer", "rx.recv()")}
    assert sum(wait["wait_ns"]["count"] for wait in waits) > 100


def test_begin_and_end_under_load(pollux, suite, tmp_path):
    """Probes come and go one after the other: nothing is seen by some of them only."""
    with Echo(suite) as echo:
        load = echo.load(3600)
        try:
            for i in range(6):
                trace = tmp_path / f"{i}.plx"
                # a ring has room for more than what comes in that time
                result = driver.record_a_while(
                    pollux, echo.server.pid, trace, 0.2, *KERNEL, "--ring-size", "64M"
                )
                assert result.returncode == 0, result.stderr
                report = driver.report(pollux, trace)
                assert report["events"] > 100 and report["lost"] == 0
                assert report["inconsistent"] == 0, i
        finally:
            load.kill()
            load.communicate()
        assert echo.server.poll() is None


TRACING = Path("/sys/kernel/tracing")


def file_offset(path, addr):
    """Where in the ELF file the code at this linked address is."""
    listed = subprocess.run(["readelf", "-lW", path], check=True, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        if line.split()[:1] == ["LOAD"]:
            offset, start, _, size = (int(word, 16) for word in line.split()[1:5])
            if start <= addr < start + size:
                return addr - start + offset
    raise AssertionError(f"{addr:#x} is not loaded")


def write_event(line):
    fd = os.open(TRACING / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def spawn_sites(pollux, trace):
    sites = [site for f in driver.report(pollux, trace)["families"] for site in f["spawn_sites"]]
    numbers = [re.fullmatch(r"(?:suite\+)?(0x[0-9a-f]+)", site) for site in sites]
    return sorted({int(number[1], 16) for number in numbers if number})


def test_probes_where_the_agent_patches(pollux, suite, trace, tmp_path):
    """Somebody else's probes at code that the agent has changed come and go: nothing is harmed."""
    if not (TRACING / "uprobe_events").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING], check=True)
    program = shutil.copy(suite("tokio-1.38", "stripped"), tmp_path / "suite")
    with driver.Target(program, "steady") as target:
        target.go()
        recorder = driver.Recorder(pollux, target.pid, tmp_path / "first.plx")
        driver.until_slept(target.pid, 400)  # a task is spawned every 16 times
        assert recorder.stop()[0] == 0
        sites = spawn_sites(pollux, tmp_path / "first.plx")
        assert sites
        recorder = driver.Recorder(pollux, target.pid, trace)
        refused = driver.run(
            pollux, "record", *KERNEL, "-p", target.pid, "-d", "0.1", "-o", tmp_path / "none.plx"
        )
        assert refused.returncode == 1 and "another pollux is recording" in refused.stderr
        events = [f"pollux_test/at_{site:x}" for site in sites]
        try:
            for event, site in zip(events, sites):
                write_event(f"p:{event} {program}:{file_offset(program, site):#x}")
            for on in "1010":
                (TRACING / "events/pollux_test/enable").write_text(on)
                driver.until_slept(target.pid, 100)
        finally:
            for event in events:
                write_event(f"-:{event}")
        driver.until_slept(target.pid, 100)
        assert recorder.stop()[0] == 0
        assert driver.report(pollux, trace)["tasks"]["spawned"] > 10
        finish(target)


def test_killed(pollux, suite, tmp_path):
    """pollux is killed: nothing stays, the program does not notice, a next recording is whole."""
    with driver.Target(suite("tokio-1.54"), "multi_thread") as target:
        recorder = Recorder(pollux, target.pid, tmp_path / "first")
        recorder.process.send_signal(signal.SIGKILL)
        recorder.process.wait()
        recorder = Recorder(pollux, target.pid, tmp_path / "second")
        target.go()
        truth = target.truth()
        assert recorder.stop()[0] == 0
        assert target.end() == 0
    assert differences(truth, driver.report(pollux, tmp_path / "second")) == []


def test_losses_are_counted(pollux, suite, trace):
    """A ring that is too small: what was dropped is reported, to the event."""
    run = driver.record_launched(
        pollux, trace, suite("tokio-1.54"), "short_tasks", options=(*KERNEL, "--ring-size", "4K")
    )
    assert run.code == 0
    report = driver.report(pollux, trace)
    if report["lost"]:
        assert "lost between" in run.said
    else:
        assert differences(run.truth, report) == []


def test_every_process_of_a_binary(pollux, suite, tmp_path):
    """Those that run already, and one that is started later; not one that has the agent."""
    # a file of its own: others may run the programs, too
    path, trace = shutil.copy(suite("tokio-1.54"), tmp_path / "suite"), tmp_path / "all"
    with driver.Target(path, "multi_thread") as before, driver.Target(path, "multi_thread") as busy:
        agent = driver.Recorder(pollux, busy.pid, tmp_path / "busy")
        recorder = driver.Recorder(
            pollux, [], trace, *KERNEL, "--exe", path, "-d", "30", wait=False
        )
        deadline = time.monotonic() + driver.TIMEOUT
        while not attached(recorder):
            assert recorder.process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        with driver.Target(path, "multi_thread") as after:
            for target in (before, after, busy):
                target.go()
            busy.truth()
            truths = [target.truth() for target in (before, after)]
            code, said = recorder.stop()
            assert code == 0, said
            assert agent.stop()[0] == 0
            assert before.end() == after.end() == busy.end() == 0
    assert "1 process: another pollux" in said, said
    report = driver.report(pollux, trace)
    assert report["lost"] == 0
    for what in ("spawned", "completed"):
        assert report["tasks"][what] == sum(truth["totals"][what] for truth in truths)


WITHOUT_BPF = """
import ctypes, os, struct, sys
# load the number; the bpf system call: EPERM; all others: allowed
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 321), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
fprog = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, fprog, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_in_a_container(pollux, suite, tmp_path):
    """Root, but a filter forbids the system call: one sentence; the agent works there."""
    command = ["-o", tmp_path / "t", "--", suite("tokio-1.54"), "multi_thread"]
    filtered = (sys.executable, "-c", WITHOUT_BPF, pollux, "record")
    result = driver.run(*filtered, *KERNEL, *command)
    assert result.returncode == 1 and result.stderr.count("\n") == 1
    assert "forbidden here" in result.stderr and "--backend agent" in result.stderr
    result = driver.run(*filtered, *command)
    assert result.returncode == 0, result.stderr
    # Histograms take what they can get.
    result = driver.run(*filtered[:-1], "hist", "--json", *command[2:])
    assert result.returncode == 0 and '"system_calls": false' in result.stdout, result.stderr


def test_without_btf(pollux, suite, tmp_path):
    """A kernel that describes no types."""
    if not Path("/sys/kernel/btf").exists() or not shutil.which("unshare"):
        pytest.skip("nothing to hide here")
    hidden = 'mount -t tmpfs none /sys/kernel/btf || exit 77; exec "$@"'
    trace = tmp_path / "t"
    result = driver.run(
        "unshare", "-m", "sh", "-c", hidden, "sh", pollux, "record", *KERNEL, "-o", trace, "--",
        suite("tokio-1.54"), "multi_thread",
    )
    if result.returncode == 77:
        pytest.skip("no mounts may be made here")
    truth = driver.split_output(result.stdout)[1]
    assert differences(truth, driver.report(pollux, trace)) == []


def test_without_rights(pollux, suite, tmp_path):
    """One sentence, and what works instead."""
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")
    tmp_path.chmod(0o777)
    tool, program = tmp_path / "pollux", tmp_path / "suite"
    shutil.copy(pollux, tool)
    shutil.copy(suite("tokio-1.54"), program)
    for parent in tmp_path.parents:
        if parent == Path("/"):
            break
        if not parent.stat().st_mode & 1:
            parent.chmod(parent.stat().st_mode | 0o111)
    result = driver.run(
        *nobody, tool, "record", *KERNEL, "-o", tmp_path / "t", "--", program, "multi_thread"
    )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "CAP_BPF" in result.stderr and "--backend agent" in result.stderr
    assert not (tmp_path / "t").exists()
