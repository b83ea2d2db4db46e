# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command `record`: how it begins, how it ends, what it refuses and says."""
import itertools
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import build
import driver
import pytest
from truth import differences

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


def test_exit_status_is_the_childs(pollux, trace):
    """Of a program without a runtime, too: it is not pollux's to forbid it."""
    result = driver.run(pollux, "record", "-o", trace, "--", "sh", "-c", "exit 7")
    assert result.returncode == 7
    assert "nothing was recorded of sh" in result.stderr
    assert not trace.exists()


def test_exit_status_of_a_target(pollux, suite, trace):
    result = driver.run(pollux, "record", "-o", trace, "--", suite(), "no_such_program")
    assert result.returncode == 2
    assert "no program no_such_program" in result.stderr


def test_output_is_untouched(pollux, suite, trace):
    """stdout is the program's own, byte for byte."""
    result = driver.run(pollux, "record", "-o", trace, "--", suite(), "list")
    assert result.stdout == driver.run(suite(), "list").stdout


def test_no_such_command(pollux, trace):
    result = driver.run(pollux, "record", "-o", trace, "--", "/no/such/program")
    assert result.returncode == 1
    assert "/no/such/program" in result.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_signal(pollux, suite, trace, how):
    with driver.Target(suite(), "steady") as target:
        target.go()
        recorder = driver.Recorder(pollux, target.pid, trace, "--ring-size", "32M")
        driver.until_slept(target.pid, 100)
        code, said = recorder.stop(how)
        assert code == 0, said
        target.go()
        assert target.end() == 0
    report = driver.report(pollux, trace)
    assert report["events"] > 100
    assert report["lost"] == 0


def test_ended_by_time(pollux, suite, trace):
    with driver.Target(suite(), "steady") as target:
        target.go()
        begin = time.monotonic()
        recorder = driver.Recorder(pollux, target.pid, trace, "-d", "0.5")
        code, said = recorder.wait()
        took = time.monotonic() - begin
        assert code == 0, said
        assert took > 0.4
    assert 0.3e9 < driver.report(pollux, trace)["duration_ns"] < took * 1e9


def test_ended_by_the_program(pollux, suite, trace):
    with driver.Target(suite(), "multi_thread") as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        target.go()
        truth = target.truth()
        assert target.end() == 0
        code, said = recorder.wait()
        assert code == 0, said
    wrong = differences(truth, driver.report(pollux, trace), names=False)
    assert not wrong, "\n".join(wrong)


def test_default_name(pollux, suite, tmp_path):
    result = driver.run(pollux, "record", "--", suite(), "multi_thread", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (name,) = [path.name for path in tmp_path.iterdir()]
    assert name.startswith("pollux-suite-") and name.endswith(".plx")
    assert name in result.stderr, "the next command to type is not told"
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_two_processes(pollux, suite, trace):
    """Several -p in one recording."""
    with driver.Target(suite(), "multi_thread") as one:
        with driver.Target(suite("tokio-1.54"), "yields") as two:
            recorder = driver.Recorder(pollux, [one.pid, two.pid], trace)
            one.go()
            two.go()
            truths = [one.truth(), two.truth()]
            code, said = recorder.stop()
            assert code == 0, said
            assert one.end() == two.end() == 0
    truth = {
        "families": truths[0]["families"] + truths[1]["families"],
        "totals": {k: v + truths[1]["totals"][k] for k, v in truths[0]["totals"].items()},
    }
    wrong = differences(truth, driver.report(pollux, trace), names=False)
    assert not wrong, "\n".join(wrong)


def test_small_rings_lose_and_say_so(pollux, suite, trace):
    """A ring that is too small loses events: counted, reported, and the rest is consistent."""
    recorded = driver.record_launched(
        pollux, trace, suite(), "self_wakes", "--scale", "2000", options=("--ring-size", "4K")
    )
    report = driver.report(pollux, trace)
    true = recorded.truth["totals"]
    polls = sum(f["polls"] for f in report["families"] if f["role"] == "task")
    assert polls <= true["polls"]
    # every wake, poll begin and poll end is there or counted as lost
    assert report["lost"] > 0
    assert report["events"] + report["lost"] >= 2 * true["polls"] + true["wakes"]
    assert recorded.code == 0


def test_no_such_process(pollux, trace):
    process = subprocess.Popen(["true"])
    process.wait()
    result = driver.run(pollux, "record", "-p", process.pid, "-o", trace)
    assert result.returncode == 1
    assert f"{process.pid}" in result.stderr and "no process" in result.stderr
    assert not trace.exists()


def test_no_runtime(pollux, trace):
    """A program without any async runtime."""
    process = subprocess.Popen(["sleep", "60"])
    try:
        result = driver.run(pollux, "record", "-p", process.pid, "-d", "1", "-o", trace)
        assert result.returncode == 1
        assert "no Tokio, async-std or smol" in result.stderr
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_log(pollux, suite, trace):
    """-v and POLLUX_DEBUG say what was looked at, found and refused, those domains only."""
    with driver.Target(suite("tokio-1.20"), "plain") as target:
        verb = ("record", "-d", "1", "-o", trace, "-p", target.pid)
        quiet = driver.run(pollux, *verb)
        whole = driver.run(pollux, "-v", *verb)
        after = driver.run(pollux, *verb, "-v")
        some = driver.run(pollux, *verb, env={**os.environ, "POLLUX_DEBUG": "find"})
        wrong = driver.run(pollux, *verb, env={**os.environ, "POLLUX_DEBUG": "fnid"})
        target.go()
        target.truth()
    assert quiet.returncode == whole.returncode == after.returncode == some.returncode == 1
    assert "pollux: find" not in quiet.stderr and "pollux: attach" not in quiet.stderr
    for each in (whole, after):
        assert re.search(r"^pollux: attach [0-9.]+ ms: process \d+: State .*, Seccomp 0$", each.stderr, re.M)
        assert re.search(r"^pollux: attach [0-9.]+ ms: process \d+ has \d+ objects$", each.stderr, re.M)
        assert re.search(r"^pollux: find .* scan took [0-9.]+ ms$", each.stderr, re.M)
    assert re.search(r"^pollux: find .*: refused: .*1\.20", some.stderr, re.M), some.stderr
    assert "pollux: attach" not in some.stderr
    assert wrong.returncode == 2 and "fnid" in wrong.stderr


def test_log_of_each_domain(pollux, suite, trace):
    """drain, kernel and tree say what they did; -v is every verb's, and after -- it is the program's."""
    with driver.Target(suite(), "multi_thread") as target:
        recorder = driver.Recorder(pollux, target.pid, trace, "-v")
        target.go()
        target.truth()
        code, recorded = recorder.stop()
    assert code == 0, recorded
    with driver.Target(suite(), "steady") as target:
        tree = driver.run(pollux, "tree", "--verbose", target.pid)
        few = driver.run(pollux, "tree", target.pid, env={**os.environ, "POLLUX_DEBUG": "attach,drain"})
        lines = {r"drain .* thread \d+ \(.*\) writes ring \d+": recorded,
                 r"drain .* [1-9]\d* passes over the rings, .* [1-9]\d* events, 0 lost": recorded,
                 r"attach .* \d+ remote calls, .*: done": recorded,
                 r"tree .*: [1-9]\d* kinds": tree.stderr,
                 r"tree .* stop 1: \d+ threads, .*; \d+ tasks, .*": tree.stderr}
        for line, text in lines.items():
            assert re.search(rf"^pollux: {line}$", text, re.M), (line, text)
        assert tree.returncode == few.returncode == 0
        assert "pollux: tree" not in few.stderr and "pollux: attach" in few.stderr
    done = driver.run(pollux, "record", "-o", trace, "--", "sh", "-c", "echo $0", "-v")
    assert done.stdout == "-v\n" and "pollux: attach" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace needs root")
def test_foreign_proc(pollux, suite, trace):
    """/proc of another pid namespace than pollux's: a number there is some other process here."""
    with driver.Target(suite(), "steady") as target:
        for verb in (("record", "-d", "1", "-o", trace, "-p"), ("tree",), ("doctor",)):
            done = subprocess.run(["unshare", "--pid", "--fork", str(pollux), *verb, str(target.pid)],
                                  capture_output=True, text=True, timeout=driver.TIMEOUT)
            assert done.returncode == 1
            assert "/proc is that of another pid namespace" in done.stdout + done.stderr, done.stderr
        assert target.process.poll() is None


def test_no_memory_to_map(pollux, suite, trace):
    """The sentence names the limits, the log has the numbers."""
    with driver.Target(suite(), "steady") as target:
        driver.until_quiet(target.pid)
        subprocess.run(["prlimit", f"--pid={target.pid}", "--as=1048576"], check=True)
        done = driver.run(pollux, "record", "-v", "-d", "1", "-o", trace, "-p", target.pid)
        assert done.returncode == 1
        assert "may not map more memory: see its limits (ulimit -v" in done.stderr, done.stderr
        assert re.search(r"^pollux: attach .* maps \d+ bytes of at most 1048576", done.stderr, re.M)
        assert target.process.poll() is None


def test_old_tokio(pollux, suite, trace):
    """Tokio before 1.23 is refused, with the reason; the program goes on."""
    with driver.Target(suite("tokio-1.20"), "plain") as target:
        for verb in (("record", "-d", "1", "-o", trace, "-p"), ("tree",), ("hist", "-d", "1")):
            result = driver.run(pollux, *verb, target.pid)
            assert result.returncode == 1
            assert "1.20" in result.stderr and "1.23" in result.stderr, result.stderr
        target.go()
        target.truth()
        assert target.end() == 0


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace here")
def test_already_traced(pollux, suite, trace):
    with driver.Target(suite(), "steady") as target:
        tracer = subprocess.Popen(
            ["strace", "-f", "-o", "/dev/null", "-p", str(target.pid)], stderr=subprocess.PIPE
        )
        try:
            while f"TracerPid:\t{tracer.pid}" not in driver.Path(
                f"/proc/{target.pid}/status"
            ).read_text():
                assert tracer.poll() is None, "strace cannot attach here"
                time.sleep(0.01)
            result = driver.run(pollux, "record", "-p", target.pid, "-d", "1", "-o", trace)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=driver.TIMEOUT)
        assert result.returncode == 1
        assert "strace" in result.stderr and "traced" in result.stderr
        target.go()
        target.go()
        assert target.end() == 0


@needs_root
def test_own_process_without_root(public):
    """A user without any right but his own."""
    public_trace = public / "nobody.plx"
    with driver.Target(public / "suite", "multi_thread", prefix=NOBODY) as target:
        recorder = driver.Recorder(public / "pollux", target.pid, public_trace, prefix=NOBODY)
        target.go()
        truth = target.truth()
        code, said = recorder.stop()
        assert code == 0, said
        assert target.end() == 0
    wrong = differences(truth, driver.report(public / "pollux", public_trace), names=False)
    assert not wrong, "\n".join(wrong)


@needs_root
def test_other_users_process(public, suite):
    with driver.Target(suite(), "steady") as target:
        result = driver.run(
            *NOBODY, public / "pollux", "record", "-p", target.pid, "-d", "1", "-o", public / "x.plx"
        )
        assert result.returncode == 1
        assert "user 0" in result.stderr and "root" in result.stderr, result.stderr


@needs_root
def test_root_records_others(pollux, public, trace):
    with driver.Target(public / "suite", "multi_thread", prefix=NOBODY) as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        target.go()
        truth = target.truth()
        code, said = recorder.stop()
        assert code == 0, said
    wrong = differences(truth, driver.report(pollux, trace), names=False)
    assert not wrong, "\n".join(wrong)


LOADERS = ["C", "Python"]


@pytest.fixture
def loader(suite, request):
    """The command that loads the library with a Tokio inside."""
    library = suite("cdylib", "release", "libtokio_inside.so")
    folder = build.TARGETS / "cdylib"
    if request.param == "Python":
        return [sys.executable, folder / "load.py", library]
    return [build.compile_c(folder / "load.c", "load", "-ldl"), library]


@pytest.mark.parametrize("loader", LOADERS, indirect=True)
def test_library_attached(pollux, loader, trace):
    """A runtime in a shared library of a program that is not Rust."""
    recorded = driver.record_attached(pollux, trace, *loader)
    assert recorded.output == ["sum 998000"]
    wrong = differences(recorded.truth, driver.report(pollux, trace), names=False)
    assert not wrong, "\n".join(wrong)


def test_library_launched(pollux, suite, trace):
    """A program that loads its runtime with a library: for how long at most that ran unseen is in the coverage."""
    load = build.TARGETS / "cdylib" / "load.py"
    recorder = (pollux, "record", "-o", trace, "--")
    with driver.Target(sys.executable, load, suite("cdylib", "release", "libtokio_inside.so"), prefix=recorder) as target:
        deadline = time.monotonic() + driver.TIMEOUT
        while "pollux" not in Path(f"/proc/{target.pid}/maps").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        target.go()
        target.truth()
        target.end()
    (begin,) = [c for c in driver.report(pollux, trace)["coverage"] if c["item"] == "begin of the program"]
    assert (begin["seen"], begin["total"]) == (0, 1)
    assert re.match(r"what has its runtime was loaded up to [0-9.]+ m?s before it was recorded", begin["note"]), begin


def test_five_libraries(pollux, suite, trace, tmp_path):
    """Each with a Tokio of its own, as a Python program has them. Before they work there are their
    workers, and nothing that only looks like a task."""
    library = suite("cdylib", "release", "libtokio_inside.so")
    copies = [tmp_path / f"lib{number}.so" for number in range(5)]
    for copy in copies:
        shutil.copy(library, copy)
    command = [sys.executable, build.TARGETS / "cdylib" / "load.py", *copies]
    with driver.Target(*command) as target:
        shown = json.loads(driver.run(pollux, "tree", "--json", str(target.pid)).stdout)
        target.go()
        target.truth()
        target.end()
    assert [task["name"] for task in shown["tasks"]] == 10 * ["tokio worker"]
    recorded = driver.record_attached(pollux, trace, *command)
    assert recorded.output == 5 * ["sum 998000"]
    report = driver.report(pollux, trace)
    assert [p["runtimes"] for p in report["processes"]] and report["lost"] == report["inconsistent"] == 0
    for what in ("spawned", "completed", "polls", "wakes", "self_wakes"):
        counted = sum(f[what] for f in report["families"] if f["role"] == "task")
        assert counted == recorded.truth["totals"][what], what


# A page of its own for the test to write to, whose address is the first that is printed.
WITH_ROOM = """
import ctypes, mmap, sys
del sys.argv[0]
room = mmap.mmap(-1, 65536, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
print("room", ctypes.addressof(ctypes.c_char.from_buffer(room)), flush=True)
exec(open(sys.argv[0]).read())
"""


def test_copies_of_tasks(pollux, suite):
    """What freed memory and copies on the heap leave of a worker's task is none."""
    library = suite("cdylib", "release", "libtokio_inside.so")
    load = build.TARGETS / "cdylib" / "load.py"

    def shown():
        text = driver.run(pollux, "tree", "--json", str(target.pid)).stdout
        return {task["address"]: task["name"] for task in json.loads(text)["tasks"]}

    with driver.Target(sys.executable, "-c", WITH_ROOM, load, library) as target:
        room = int(target.wait_for(lambda line: line.startswith("room ")).split()[1])
        before = shown()
        assert list(before.values()) == 2 * ["tokio worker"]
        with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as memory:
            memory.seek(min(before))
            cell = memory.read(256)
            idle = (int.from_bytes(cell[:8], "little") & ~7).to_bytes(8, "little") + cell[8:]
            for at, copy in ((8, cell), (1024, cell), (2048, idle)):
                memory.seek(room + at)
                memory.write(copy)
        assert shown() == before


@pytest.mark.parametrize("backend", ["agent", "kernel"])
def test_a_program_that_executes_another(pollux, suite, trace, backend):
    """As `cargo run` does: what runs in the end is recorded, too, from when it was found."""
    if backend == "kernel" and os.geteuid():
        pytest.skip("the kernel's probes need root here")
    first = [suite("cdylib", "release", "libtokio_inside.so")]
    # Until it is found. With the agent it executes the other one before pollux has looked at its events once.
    found = {"agent": "while not driver.enabled(os.getpid()): pass", "kernel": "time.sleep(1)"}[backend]
    script = f"""import os, runpy, sys, time
sys.path.append({str(Path(driver.__file__).parent)!r})
import driver
suite = sys.argv.pop()
runpy.run_path({str(build.TARGETS / "cdylib" / "load.py")!r})
{found}
os.execv(suite, [suite, "short_tasks"])"""
    result = driver.run(pollux, "record", "--backend", backend, "-o", trace, "--",
                        sys.executable, "-c", script, *first, suite())
    assert result.returncode == 0, result.stderr
    truth = driver.split_output(result.stdout)[1]
    report = driver.report(pollux, trace)
    assert [os.path.basename(p["exe"]) for p in report["processes"]][1:] == ["suite"]
    assert len({p["pid"] for p in report["processes"]}) == 1
    short = [f for f in report["families"]
             if f["role"] == "task" and f["name"].startswith("suite::threads::short")]
    assert len(short) == 1 and 0 < short[0]["tasks"] < truth["totals"]["spawned"] + 1
    assert report["lost"] == 0
    # What was not seen of it is said.
    if backend == "agent":
        # It is whole if pollux still followed the first one, which had just been enabled. The first one may have had
        # its library before pollux looked again, which is said, too.
        begins = [c for c in report["coverage"] if c["item"] == "begin of the program" and c["process"] == 1]
        tasks = sum(f["tasks"] for f in report["families"] if f["role"] == "task" and f["name"].startswith("suite::"))
        assert len(begins) == 1 or tasks == truth["totals"]["spawned"]
        for begin in begins:
            assert (begin["seen"], begin["total"]) == (0, 1), begin
            assert re.match("a program with a runtime executed this one, up to [0-9.]+ .s before it was recorded",
                            begin["note"]), begin


def test_a_proxy_before_it(pollux, suite, tmp_path):
    """As rustup's cargo: it has a runtime and executes a large program without one, which executes what is to be
    recorded before pollux has read it. That is seen whole, and what pollux says is of it."""
    sysroot = driver.run("rustc", "--print", "sysroot").stdout.strip()
    driver_library = next(iter(Path(sysroot).glob("lib/librustc_driver-*.so")), None)
    if not driver_library:
        pytest.skip(f"no large library without a runtime: there is no librustc_driver in {sysroot}")
    script = f"""import os, runpy, sys, time
suite = sys.argv.pop()
runpy.run_path({str(build.TARGETS / "cdylib" / "load.py")!r})
time.sleep(1) # until it is found
os.environ["LD_PRELOAD"] = {str(driver_library)!r}
os.execv({sys.executable!r}, [{sys.executable!r}, "-c",
    "import os, sys, time; time.sleep(0.03); del os.environ['LD_PRELOAD']; "
    "os.execv(sys.argv[1], [sys.argv[1], 'short_tasks'])", suite])"""
    library = suite("cdylib", "release", "libtokio_inside.so")
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}  # it is read, and takes its time
    result = driver.run(pollux, "record", "--", sys.executable, "-c", script, library, suite(),
                        cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stderr
    assert "of suite into" in result.stderr and "of python" not in result.stderr, result.stderr
    trace = next(tmp_path.glob("pollux-suite-*.plx"))
    report = driver.report(pollux, trace)
    truth = driver.split_output(result.stdout)[1]
    short = next(f for f in report["families"]
                 if f["role"] == "task" and f["name"].startswith("suite::threads::short"))
    assert short["tasks"] == short["spawned"] == max(f["spawned"] for f in truth["families"]), short
    # Each program's own: the sums are of the last one.
    tables = [c for c in report["coverage"] if c["item"] == "tokio task tables"]
    assert len(tables) == 2 and f"{tables[1]['total']} tokio task tables" in result.stderr, result.stderr
    text = driver.run(pollux, "report", trace).stdout
    assert " until it executed the next program: tokio" in text.splitlines()[0], text
    assert "  suite: await points" in text, text


@pytest.mark.parametrize("how", ["env", "sh", "both"])
def test_a_shell_that_executes_it(pollux, suite, trace, how):
    """From its first instruction on, however short it lives."""
    path = suite()
    command = {
        "env": ["env", "A=b", path],
        "sh": ["sh", "-c", f"exec '{path}' short_tasks"],
        "both": ["sh", "-c", f"kill -USR1 $$; exec sh -c 'exec env {path} short_tasks'"],
    }[how]
    if how == "both":
        command = ["env", "--ignore-signal=USR1", *command]
    result = driver.run(pollux, "record", "-o", trace, "--", *command, "short_tasks")
    assert result.returncode == 0, result.stderr
    assert "of suite into" in result.stderr
    truth = driver.split_output(result.stdout)[1]
    wrong = differences(truth, driver.report(pollux, trace), names=False)
    assert not wrong, "\n".join(wrong)


def test_name_of_what_was_executed(pollux, suite, tmp_path):
    """And not of the shell; the next one does not take its place."""
    for _ in range(2):
        result = driver.run(pollux, "record", "--", "sh", "-c", f"exec {suite()} short_tasks", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 2 and all(name.startswith("pollux-suite-") for name in names), names


def test_a_followed_program_lives_as_ever(pollux, trace):
    """Signals, job control and an end by a signal reach a shell that is traced for its execs."""
    script = "trap 'echo got' USR1; kill -USR1 $$; echo ready $$; read line; echo $line; kill -TERM $$"
    process = subprocess.Popen([pollux, "record", "-o", trace, "--", "sh", "-c", script],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    assert process.stdout.readline() == "got\n"
    pid = int(process.stdout.readline().split()[1])

    def until(state):
        deadline = time.monotonic() + driver.TIMEOUT
        while f"State:\t{state}" not in driver.Path(f"/proc/{pid}/status").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    for _ in range(3):
        os.kill(pid, signal.SIGSTOP)
        until("t" if state_is_traced(pid) else "T")
        os.kill(pid, signal.SIGCONT)
        until("S")
    output, errors = process.communicate("go\n", timeout=driver.TIMEOUT)
    assert output == "go\n"
    assert process.returncode == 128 + signal.SIGTERM, errors


def state_is_traced(pid):
    return "TracerPid:\t0\n" not in driver.Path(f"/proc/{pid}/status").read_text()


def test_a_program_that_executes_none(pollux, trace, tmp_path):
    """It isn't traced: LeakSanitizer works, which traces the program itself and would fail."""
    source = tmp_path / "nothing.c"
    source.write_text("int main(void) { return 0; }")
    program = build.compile_c(source, "nothing_leaks", "-fsanitize=leak")
    for command in (["grep", "TracerPid", "/proc/self/status"], [program]):
        for words in (command, ["sh", "-c", 'exec "$@"', "sh", *command]):
            result = driver.run(pollux, "record", "-o", trace, "--", *words)
            assert result.returncode == 0, result.stderr
            assert result.stdout in ("", "TracerPid:\t0\n")


MANY_SIGNALS = """import os, signal
traced = lambda: "TracerPid:\\t0\\n" not in open("/proc/self/status").read()
n, first = [], traced()
signal.signal(signal.SIGUSR1, lambda *_: n.append(1))
while traced() and len(n) < 40000:
    for _ in range(100):
        signal.raise_signal(signal.SIGUSR1)
print(first, traced(), len(n) % 100, len(n) > 1000, flush=True)
os.execv(os.environ["SUITE"], [os.environ["SUITE"], "executor"])
"""


def test_a_followed_program_with_many_signals(pollux, suite, trace):
    """Each stops it for a moment while it is traced; so it isn't any more, and no signal is lost. What it
    executes is recorded all the same."""
    result = driver.run(pollux, "record", "-o", trace, "--", sys.executable, "-c", MANY_SIGNALS,
                        env={**os.environ, "SUITE": str(suite("smol-2.0"))})
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("True False 0 True\n"), result.stdout


@needs_root
@pytest.mark.parametrize("how", ["sh", "env"])
def test_exec_of_a_setuid_program(public, how):
    """What a user without rights starts gets those of a setuid program that it executes."""
    program = public / "id"
    shutil.copy(shutil.which("id"), program)
    program.chmod(0o4755)
    command = ["sh", "-c", f"exec {program} -u"] if how == "sh" else ["env", program, "-u"]
    result = driver.run(*NOBODY, public / "pollux", "record", "-o", public / "x.plx", "--", *command)
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr


@needs_root
def test_exec_of_a_script_of_a_setuid_program(public):
    """The same where the program is the interpreter of the script's #!."""
    program, script = public / "cat", public / "script"
    shutil.copy(shutil.which("cat"), program)
    program.chmod(0o4755)
    script.write_text(f"#!{program} /proc/self/status\n")
    script.chmod(0o755)
    result = driver.run(*NOBODY, public / "pollux", "record", "-o", public / "x.plx", "--",
                        "sh", "-c", f"exec {script}")
    assert "\nUid:\t65534\t0\t0\t0\n" in result.stdout, result.stderr


CLONE_PTRACE = """
import ctypes, os, signal
child = ctypes.CDLL(None).syscall(56, 0x2000 | signal.SIGCHLD, 0, 0, 0, 0)
if child == 0:
    os._exit(7)
signal.alarm(20)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_that_is_traced_with_a_followed_program(pollux, trace):
    """CLONE_PTRACE: by the program's tracer. It runs as without pollux."""
    result = driver.run(pollux, "record", "-o", trace, "--", sys.executable, "-c", CLONE_PTRACE)
    assert (result.returncode, result.stdout) == (0, "7\n"), result.stderr


def test_a_static_program_that_is_executed(pollux, suite, tmp_path):
    """It is recorded from its start, whenever pollux notices the exec."""
    command = f"exec {suite('smol-2.0', 'static')} executor"
    for n in range(10):
        trace = tmp_path / f"{n}.plx"
        result = driver.run(pollux, "record", "-o", trace, "--", "sh", "-c", command)
        assert result.returncode == 0, result.stderr
        assert driver.report(pollux, trace)["tasks"]["spawned"] == 500, result.stderr


@pytest.mark.parametrize("what", ["runtime", "nothing"])
def test_pollux_is_killed_while_the_loader_runs(pollux, suite, tmp_path, what):
    """What a followed program executes lives on, also where its start has not come yet."""
    library = build.compile_c(build.TARGETS / "kill_parent.c", "kill_parent.so", "-shared", "-fPIC")
    command = f"{suite()} multi_thread" if what == "runtime" else "/bin/echo lives"
    result = driver.run(pollux, "record", "-o", tmp_path / "x.plx", "--", "sh", "-c",
                        f"KILLED=$PPID LD_PRELOAD={library} exec {command}")
    assert result.returncode == -signal.SIGKILL
    assert "lives" in result.stdout or '{"truth"' in result.stdout, result.stdout


def without_relro(program, path):
    """A copy of it whose loader leaves all its data writable."""
    content = bytearray(program.read_bytes())
    headers, = struct.unpack_from("<Q", content, 32)
    size, n = struct.unpack_from("<HH", content, 54)
    for at in range(headers, headers + n * size, size):
        if struct.unpack_from("<I", content, at)[0] == 0x6474E552:  # PT_GNU_RELRO
            struct.pack_into("<I", content, at, 0)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("profile", ["release", "without_relro", "static", "static-stripped"])
def test_pollux_is_killed_while_it_prepares_what_was_executed(pollux, suite, tmp_path, all_of_it, profile):
    """After each of its calls of ptrace: the program lives on, and works."""
    library = build.compile_c(build.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    program = suite("smol-2.0", "release" if profile == "without_relro" else profile)
    if profile == "without_relro":
        program = without_relro(program, tmp_path / "suite")
    killed, step = 0, 1 if all_of_it else 5
    for at in itertools.count(1, step):
        result = driver.run(pollux, "record", "-o", tmp_path / "x.plx", "--", "sh", "-c", f"exec {program} executor",
                            env={**os.environ, "LD_PRELOAD": str(library), "DIE_AT": str(at)})
        assert '{"truth"' in result.stdout, (at, result.returncode, result.stderr)
        if result.returncode != -signal.SIGKILL:
            break
        killed += 1
    assert result.returncode == 0, result.stderr
    assert killed > 10
    assert driver.report(pollux, tmp_path / "x.plx")["tasks"]["spawned"] == 500


@pytest.mark.parametrize("what, profile", [("KILL_AT", "release"), ("FAIL_AT", "release"),
                                           ("FAIL_AT", "static-stripped")])
def test_a_call_fails_while_what_was_executed_is_prepared(pollux, suite, tmp_path, all_of_it, what, profile):
    """Of its calls of ptrace one fails, or the program is killed in it: pollux ends as soon as the program has, and
    says how that was."""
    library = build.compile_c(build.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    program = suite("smol-2.0", profile)
    killed = 0
    script = "kill -WINCH $$; " * 20 + f"exec {program} executor"  # each signal is a stop
    for at in range(1, 400, 1 if all_of_it else 15):
        result = driver.run(pollux, "record", "-o", tmp_path / "x.plx", "--", "sh", "-c", script,
                            env={**os.environ, "LD_PRELOAD": str(library), what: str(at)})
        if '{"truth"' in result.stdout:
            continue
        assert what == "KILL_AT" and result.returncode == 128 + signal.SIGKILL, (at, result.returncode, result.stderr)
        killed += 1
    assert killed > 5 or what == "FAIL_AT"


def test_program_is_killed_while_it_is_stopped(pollux, suite, tmp_path, all_of_it):
    """In each call of ptrace up to the end of the detach: once it is recorded its exit status is pollux', though a
    stop has taken its end."""
    library = build.compile_c(build.TARGETS / "die_at_ptrace.c", "die_at_ptrace.so", "-shared", "-fPIC")
    count = tmp_path / "count"

    def record(**env):
        """(what pollux said first, whether the program lived on, the exit status)"""
        recorder = subprocess.Popen(
            [pollux, "record", "-d", "0.05", "-o", tmp_path / "x.plx", "--", suite(), "steady", "--wait"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "LD_PRELOAD": str(library), "FROM_THE_FIRST": "1", **env})
        said = []
        for line in recorder.stderr:
            said.append(line)
            if "is still running" in line:
                recorder.stdin.close()  # it ends
        return said[0], "is still running" in "".join(said), recorder.wait(driver.TIMEOUT)

    assert record(COUNT_IN=str(count))[1:] == (True, 0)
    calls = int.from_bytes(count.read_bytes(), "little")
    killed = 0
    for at in itertools.count(1 if all_of_it else max(calls - 20, 1), 2):
        first, lives, code = record(KILL_AT=str(at))
        if lives and code == 0:
            break
        recorded = first.startswith("recorded")
        assert code == (128 + signal.SIGKILL if recorded else 1), (at, code, first)
        killed += recorded
    # The detach has more of them, and their number differs a little from one run to the next.
    assert killed > 0


def test_pollux_is_killed_while_it_looks_at_what_was_executed(pollux, suite, tmp_path):
    """The program is stopped meanwhile, and continues then."""
    program = suite(profile="debug")
    recorder = subprocess.Popen(
        [pollux, "record", "-o", tmp_path / "x.plx", "--",
         "sh", "-c", f"echo $$; exec {program} multi_thread"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
    )
    with recorder:
        proc = driver.Path(f"/proc/{int(recorder.stdout.readline())}")
        stood = 0
        while stood < 20:
            stat = (proc / "stat").read_text()
            stood = stood + 1 if f"({program.name}) t" in stat else 0
            assert recorder.poll() is None
            time.sleep(0.001)
        recorder.kill()
        recorder.stdin.write("go\n")
        recorder.stdin.close()
        assert recorder.stdout.read(), "the program was killed with pollux"


@needs_root
def test_exec_without_root(public):
    """Followed by a user without rights."""
    result = driver.run(*NOBODY, public / "pollux", "record", "-o", public / "x.plx", "--",
                        "sh", "-c", f"exec {public / 'suite'} short_tasks")
    assert result.returncode == 0, result.stderr
    truth = driver.split_output(result.stdout)[1]
    wrong = differences(truth, driver.report(public / "pollux", public / "x.plx"), names=False)
    assert not wrong, "\n".join(wrong)


def test_wrong_use(pollux, trace):
    """Exit code 2, and a sentence."""
    for wrong in (
        ["record"], ["record", "-p", "no_such_process"], ["record", "-p"], ["record", "-d", "x", "-p", "1"],
        ["record", "--ring-size", "0", "-p", "1"], ["record", "--no-such-option"], ["no-such-verb"],
        ["record", "-p", "1", "--", "true"], ["report", "a", "b"], ["export", "--format", "x", "/dev/null"],
    ):
        result = driver.run(pollux, *wrong)
        assert result.returncode == 2, f"{wrong}: {result.returncode} {result.stderr}"
        assert result.stderr.strip(), wrong


def test_help(pollux):
    for verb in ("record", "report", "export", "doctor"):
        result = driver.run(pollux, verb, "--help")
        assert result.returncode == 0
        assert f"pollux {verb}" in result.stdout
        assert len(result.stdout.splitlines()) <= 60
    assert driver.run(pollux, "--version").stdout.startswith("pollux ")


@pytest.mark.parametrize("program", ["root_before", "root_before_current"])
@pytest.mark.parametrize("profile", ["release", "stripped"])
def test_block_on_before_the_recording(pollux, suite, trace, program, profile):
    """The main thread of most programs waits in a block_on when pollux comes: its root's polls are
    inferred from then on."""
    path = suite("tokio-1.54", profile)
    recorded = driver.record_attached(pollux, trace, path, program)
    report = driver.report(pollux, trace)
    true = next(f for f in recorded.truth["families"] if f["role"] == "root")
    roots = [f for f in report["families"] if f["role"] == "root"]
    # the runtime's shutdown is a block_on, too: spawned here, of one or two polls
    polls = sum(f["polls"] - 2 * f["spawned"] for f in roots)
    assert sum(f["tasks"] - f["spawned"] for f in roots) == 1, roots
    assert abs(polls - true["polls"]) <= 1 + true["polls"] // 20, (roots, true)
    assert report["lost"] == 0


@pytest.mark.parametrize("package, profile, why", [("async-std-1.13", "release", "--futures"), ("smol-2.0", "stripped", "symbols")])
def test_no_row_of_a_block_on_has_a_reason(pollux, suite, trace, package, profile, why):
    result = driver.run(pollux, "record", "-o", trace, "--", suite(package, profile), "yields")
    report = driver.report(pollux, trace)
    (row,) = [c for c in report["coverage"] if c["item"] == "block_on futures"]
    assert (row["seen"], row["total"]) == (0, 1) and why in row["note"] and "block_on future" in result.stderr
    assert not [f for f in report["families"] if f["role"] == "root"]
