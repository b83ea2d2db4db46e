# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs targets and the real pollux on them: the words in which the tests are written."""
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from build import ROOT

TIMEOUT = 120  # seconds; nothing here takes a tenth of it

# What pollux says, and leaves the program as it was, if a busy machine lets no thread stop in time.
BUSY = "try again"


def pollux_path():
    """The command under test: $POLLUX, else where meson puts it."""
    return Path(os.environ.get("POLLUX", ROOT / "build" / "src" / "cli" / "pollux")).resolve()


class Target:
    """A program of tests/targets, started with --wait: it waits before and after its work."""

    def __init__(self, *command, env=None, prefix=(), wait=("--wait",), pass_fds=()):
        self.command = [str(part) for part in command]
        self.process = subprocess.Popen(
            [*prefix, *self.command, *wait],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
            pass_fds=pass_fds,
        )
        self.lines = []
        self.errors = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream, lines), daemon=True)
            for stream, lines in (
                (self.process.stdout, self.lines),
                (self.process.stderr, self.errors),
            )
        ]
        for reader in self._readers:
            reader.start()
        self.pid = int(self.wait_for(lambda line: line.startswith("ready ")).split()[1])

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def wait_for(self, wanted):
        """The first line of output of which wanted(line) is true."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            ended = self.process.poll() is not None and not self._readers[0].is_alive()
            for line in list(self.lines):
                if wanted(line):
                    return line
            if ended:
                break
            time.sleep(0.002)
        raise AssertionError(
            f"{' '.join(self.command)}: no such line; exit {self.process.poll()}, "
            f"output {self.lines[-5:]}, errors {self.errors[-5:]}"
        )

    def go(self):
        """Lets it work (or end, the second time)."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def truth(self):
        """What it says of itself, once it has worked."""
        return json.loads(self.wait_for(lambda line: line.startswith('{"truth"')))

    def end(self):
        """Lets it end: its exit status."""
        self.process.stdin.close()
        code = self.process.wait(TIMEOUT)
        for reader in self._readers:
            reader.join(TIMEOUT)
        return code

    def output(self):
        """What it printed, without what differs from run to run."""
        return [line for line in self.lines if not line.startswith(("ready ", '{"truth"'))]

    def kill(self):
        """Ends it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


# agent/ring.h: AGENT_MAGIC begins struct agent_state, whose word 6 is the address of its switch.
AGENT_MAGIC = b"pollx1\0\0"


def agent_states(pid, memory):
    """The first 56 bytes of each area's struct agent_state, also of earlier recordings'."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split()
        if fields[1] != "rw-p" or fields[4] != "0":
            continue
        memory.seek(int(fields[0].split("-")[0], 16))
        state = memory.read(56)
        if state.startswith(AGENT_MAGIC):
            yield state


def enabled(pid):
    """True once an agent in the process is on."""
    try:
        with open(f"/proc/{pid}/mem", "rb") as memory:
            for state in agent_states(pid, memory):
                memory.seek(int.from_bytes(state[48:56], "little"))
                if memory.read(4) == b"\1\0\0\0":
                    return True
    except (OSError, ValueError):
        pass
    return False


def sleeps(pid):
    """How often the threads of a process have gone to sleep so far, those that have ended left out."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            status = (task / "status").read_text()
            found += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M)[1])
    return found


def until_quiet(pid):
    """Until all threads are there and sleep: a program that starts may need what is taken from it next."""
    looks, deadline = [], time.monotonic() + TIMEOUT
    while len(looks) < 4 or len(set(looks[-4:])) > 1 or set(looks[-1]) != {"S"}:
        looks.append(tuple(stat.read_text().rpartition(") ")[2][0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")))
        assert time.monotonic() < deadline, f"process {pid} does not come to rest"
        time.sleep(0.05)


def until_slept(pid, times):
    """Waits until the process has gone on for a while, however slow the machine is: its threads have gone
    to sleep this number of times more."""
    deadline = time.monotonic() + TIMEOUT
    before = sleeps(pid)
    while sleeps(pid) < before + times:
        assert time.monotonic() < deadline, f"process {pid} does nothing"
        time.sleep(0.01)


class Recorder:
    """pollux record -p PID, running; `wait` until the agent is on."""

    def __init__(self, pollux, pid, trace, *options, prefix=(), wait=True):
        self.trace = Path(trace)
        pids = pid if isinstance(pid, (list, tuple)) else [pid]
        command = [*prefix, str(pollux), "record", "-o", str(trace), *map(str, options)]
        for one in pids:
            command += ["-p", str(one)]
        self._start(command)
        if not wait:
            return
        deadline = time.monotonic() + TIMEOUT
        while not all(enabled(one) for one in pids):
            if self.process.poll() is not None:
                if self.process.returncode == 0:
                    return  # with -d it may be over before anybody looks
                if BUSY not in self.said():
                    raise AssertionError(f"record ended with {self.process.returncode}: {self.said()}")
                self._start(command)
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"record did not attach: {self.said()}")
            time.sleep(0.002)

    def _start(self, command):
        self._said = None
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until_compiled(self):
        """Waits until it has read debug information, for which it has a thread, and made use of it."""
        deadline = time.monotonic() + TIMEOUT
        while any(name != "tracer" for name in self._other_threads()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        until_slept(self.process.pid, 5)  # it does so between two looks at the rings

    def _other_threads(self):
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            if task.name != str(self.process.pid):
                with contextlib.suppress(OSError):
                    yield (task / "comm").read_text().strip()

    def said(self):
        """Its output and its errors, when it has ended."""
        if self._said is None:
            self._said = "".join(self.process.communicate(timeout=TIMEOUT))
        return self._said

    def stop(self, how=signal.SIGINT):
        """Ends the recording: (exit status, what it said)."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        said = self.said()
        return self.process.returncode, said

    def wait(self):
        """Waits for its own end: (exit status, what it said)."""
        said = self.said()
        return self.process.returncode, said


def run(*command, **options):
    """A command to its end; output and errors as text."""
    options.setdefault("timeout", TIMEOUT)
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )


def record_a_while(pollux, pid, trace, seconds, *options):
    """pollux record -p PID -d SECONDS to its end: what run() gives. Tried again where it says so."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        result = run(pollux, "record", "-p", pid, "-d", seconds, "-o", trace, *options)
        if BUSY not in result.stderr or time.monotonic() > deadline:
            return result


def into_cache(pollux, pid, trace):
    """Records a running program until its debug information is in the cache: on a busy machine it would not be read
    before a short recording ends, and what was waited for before has no place."""
    for seconds in (1, 2, 4, 8, 16, 32):
        if "before all debug information was read" not in record_a_while(pollux, pid, trace, str(seconds)).stderr:
            return


def split_output(text):
    """(output lines, truth) of a target that ran to its end."""
    lines = text.splitlines()
    truths = [line for line in lines if line.startswith('{"truth"')]
    return [line for line in lines if line not in truths], json.loads(truths[-1])


class Recorded:
    """A recording of one run of a target: trace, truth, and what both sides printed."""

    def __init__(self, trace, truth, output, code, said, errors):
        self.trace, self.truth, self.output = trace, truth, output
        self.code, self.said, self.errors = code, said, errors


def record_launched(pollux, trace, *command, options=(), env=None):
    """pollux record -- COMMAND."""
    result = run(
        pollux, "record", "-o", trace, *options, "--", *command, env={**os.environ, **(env or {})}
    )
    if '{"truth"' not in result.stdout:
        raise AssertionError(f"exit {result.returncode}: {result.stdout[-500:]}{result.stderr[-2000:]}")
    output, truth = split_output(result.stdout)
    return Recorded(trace, truth, output, result.returncode, result.stderr, result.stderr)


def record_attached(pollux, trace, *command, options=(), env=None, recorder=None):
    """COMMAND --wait, then pollux record -p, then the work, then the recording's end."""
    with Target(*command, env=env) as target:
        recorder = (recorder or Recorder)(pollux, target.pid, trace, *options)
        try:
            target.go()
            truth = target.truth()
        finally:
            code, said = recorder.stop()
        assert code == 0, said
        code = target.end()
        return Recorded(trace, truth, target.output(), code, said, "\n".join(target.errors))


def stacks_of_spawns(pollux, trace):
    """What `hist --spawns` counts: each {"count": ..., "stack": [...]}."""
    result = run(pollux, "hist", "--spawns", "--json", trace)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["spawns_by_stack"]


def lost(report):
    """Events that a recording lost, of the program and of auxiliary sources."""
    return report["lost"] + report.get("lost_aux", 0)


def check_lock_contention(pollux, trace):
    """Of the program "stacks": the waits of its tasks for its lock are one stack, and more than any
    other."""
    result = run(pollux, "hist", "--json", trace)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["lock_contention"]
    ours = [row for row in rows
            if any(frame["function"].endswith("::waits_for_lock") for frame in row["stack"])]
    assert len(ours) == 1 and ours[0]["count"] >= 9
    assert ours[0]["ns"] == max(row["ns"] for row in rows)


def report(pollux, trace, *options):
    """pollux report --json, read."""
    result = run(pollux, "report", "--json", *options, trace)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def events(trace):
    """Every event as it was recorded (tests/traces/events.c): [time, pid, tid, type, arg, kind, task,
    value, 1 if from another source than the thread's first]."""
    tool = pollux_path().parents[2] / "tests" / "traces" / "events"
    result = run(os.environ.get("POLLUX_EVENTS", tool), trace)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def without_hex(text):
    """Addresses, thread ids and times differ from run to run."""
    return re.sub(r"0x[0-9a-f]+", "0x", text)
