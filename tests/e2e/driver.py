"""Runs targets and the real pollux on them: the words in which the tests are written."""
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


def pollux_path():
    """The command under test: $POLLUX, else where meson puts it."""
    return Path(os.environ.get("POLLUX", ROOT / "build" / "src" / "cli" / "pollux")).resolve()


class Target:
    """A program of tests/targets, started with --wait: it waits before and after its work."""

    def __init__(self, *command, env=None, prefix=(), wait=("--wait",)):
        self.command = [str(part) for part in command]
        self.process = subprocess.Popen(
            [*prefix, *self.command, *wait],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
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


def enabled(pid):
    """True once the agent in the process is on."""
    try:
        with open(f"/proc/{pid}/mem", "rb") as memory:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                fields = line.split()
                if fields[1] != "rw-p" or fields[4] != "0":
                    continue
                memory.seek(int(fields[0].split("-")[0], 16))
                state = memory.read(56)
                if state.startswith(AGENT_MAGIC):
                    memory.seek(int.from_bytes(state[48:56], "little"))
                    return memory.read(4) == b"\1\0\0\0"
    except (OSError, ValueError):
        pass
    return False


class Recorder:
    """pollux record -p PID, running; `wait` until the agent is on."""

    def __init__(self, pollux, pid, trace, *options, prefix=(), wait=True):
        self.trace = Path(trace)
        pids = pid if isinstance(pid, (list, tuple)) else [pid]
        command = [*prefix, str(pollux), "record", "-o", str(trace), *map(str, options)]
        for one in pids:
            command += ["-p", str(one)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if not wait:
            return
        deadline = time.monotonic() + TIMEOUT
        while not all(enabled(one) for one in pids):
            if self.process.poll() is not None:
                raise AssertionError(f"record ended with {self.process.returncode}: {self.said()}")
            if time.monotonic() > deadline:
                self.process.kill()
                raise AssertionError(f"record did not attach: {self.said()}")
            time.sleep(0.002)

    def said(self):
        """Its output and its errors, when it has ended."""
        out, err = self.process.communicate(timeout=TIMEOUT)
        return out + err

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


def check_lock_contention(pollux, trace):
    """Of the program "stacks": the waits of its tasks for its lock are nearly all there are, and
    one stack."""
    result = run(pollux, "hist", "--json", trace)
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["lock_contention"]
    ours = [row for row in rows
            if any(frame["function"].endswith("::waits_for_lock") for frame in row["stack"])]
    assert len(ours) == 1 and ours[0]["count"] >= 9
    assert ours[0]["ns"] >= 0.9 * sum(row["ns"] for row in rows)


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
