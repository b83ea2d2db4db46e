# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that attack their recorder: pollux ends by itself and in time, with little memory, and prints
nothing that a terminal would obey. What a program does to itself is its own affair; what others do to
it through what pollux has left there is not."""
import json
import os
import shutil
import signal
import subprocess
import time

import driver
import pytest

MODES = [
    "noise", "heads", "events", "threads", "crowd", "truncate", "fork", "state", "forged", "names", "storm",
    "exit", "exec",
]
SECONDS = 45  # until pollux has ended, on a loaded machine; alone it takes two
CODES = "\x7f\u202a\u202d\u202e\u2066\u2067"  # beside the controls below 32 and from 128 to 159
MEMORY = 1 << 20  # kB, with all pages of the rings that it looks at


def wait(process, seconds):
    """The exit status and the most memory in kB; None: it did not end, and is killed."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_maxrss
        time.sleep(0.01)
    process.kill()
    process.wait()
    return None, 0


def start(pollux, said, *args):
    """pollux, with all that it says in a file: a pipe without a reader would stop it."""
    with open(said, "wb") as out:
        return subprocess.Popen([str(pollux), *map(str, args)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)


READERS = (["report", "--json"], ["report"], ["print"], ["hist"], ["why"])


def check(pollux, process, said, trace, codes=(0, 1), readers=READERS):
    code, memory = wait(process, SECONDS)
    text = said.read_bytes()
    assert code is not None, f"it did not end: {text}"
    assert code in codes, f"exit status {code}: {text}"
    assert memory < MEMORY, f"{memory} kB of memory"
    assert b"AddressSanitizer" not in text and b"runtime error" not in text, text
    assert text.strip()
    printable(text)
    if trace.exists():
        assert trace.stat().st_size < 512 << 20
        for args in readers:
            result = subprocess.run([str(pollux), *args, str(trace)], capture_output=True, timeout=SECONDS)
            assert result.returncode in (0, 1), result.stderr
            assert result.returncode == 0 or result.stderr.strip()
            if "--json" in args:
                json.loads(result.stdout)
                printable(result.stdout)
            else:
                printable(result.stdout)
            printable(result.stderr)


def printable(text):
    """No character of it moves a terminal's cursor, or turns what follows around."""
    text = text.decode()
    bad = {c for c in text if (c < " " and c not in "\n\t") or c in CODES or "\x80" <= c < "\xa0"}
    assert not bad, f"{bad} in {text[:2000]!r}"


@pytest.mark.parametrize("how", MODES)
def test_for_a_while(pollux, suite, tmp_path, how):
    """It was to record for two seconds."""
    trace, said = tmp_path / "trace.plx", tmp_path / "said"
    with driver.Target(suite(), "hostile", how) as target:
        recorder = start(pollux, said, "record", "-p", target.pid, "-d", 2, "-o", trace)
        target.go()
        check(pollux, recorder, said, trace)


@pytest.mark.parametrize("how", MODES)
def test_interrupted(pollux, suite, tmp_path, how):
    """SIGTERM is obeyed in the midst of it."""
    trace, said = tmp_path / "trace.plx", tmp_path / "said"
    with driver.Target(suite(), "hostile", how, "--scale", "1000") as target:
        recorder = start(pollux, said, "record", "-p", target.pid, "-o", trace)
        target.go()
        time.sleep(1.5)
        os.kill(recorder.pid, signal.SIGTERM)  # if it has ended: nothing
        check(pollux, recorder, said, trace, readers=READERS[:1])


@pytest.mark.parametrize("how", ["noise", "heads", "events", "truncate", "threads"])
def test_launched(pollux, suite, tmp_path, how):
    trace, said = tmp_path / "trace.plx", tmp_path / "said"
    command = [suite(), "hostile", how, "--scale", "50"]
    recorder = start(pollux, said, "record", "-o", trace, "--", *command)
    code, memory = wait(recorder, SECONDS)
    text = said.read_text()
    assert code is not None, f"it did not end: {text}"
    assert 0 <= code < 256, f"pollux was killed by signal {-code}"
    assert "attacked" in text or code > 128, text
    assert memory < MEMORY


def test_the_innocent_parent_of_a_hostile_child(pollux, suite, tmp_path):
    """A child without rights has what its parent had: it can neither kill it nor write into its memory."""
    trace, said = tmp_path / "trace.plx", tmp_path / "said"
    with driver.Target(suite(), "hostile", "fork") as target:
        recorder = start(pollux, said, "record", "-p", target.pid, "-d", 4, "-o", trace)
        deadline = time.monotonic() + driver.TIMEOUT
        while not driver.enabled(target.pid) and time.monotonic() < deadline:
            time.sleep(0.002)
        target.go()
        check(pollux, recorder, said, trace, codes=(0,))
        target.truth()
        assert target.output() == ["own memory is right", "attacked"]
        assert target.end() == 0, target.errors


@pytest.mark.parametrize("how", ["forged", "names", "storm"])
def test_tree(pollux, suite, tmp_path, how):
    """Memory full of what looks like tasks; names of threads; threads that come and go."""
    said = tmp_path / "said"
    with driver.Target(suite("tokio-1.38", "debug"), "hostile", how) as target:
        target.go()
        time.sleep(0.2)
        for args in ([], ["--json"], ["--no-stop"], ["--all", "--each"]):
            check(pollux, start(pollux, said, "tree", *args, target.pid), said, tmp_path / "none")
        assert target.process.poll() is None


def test_hostile_path(pollux, suite, tmp_path):
    """The program's own path, and its arguments, come from strangers, too."""
    folder = tmp_path / "\x1b]0;x\x07 \u202e\x9b31m"
    folder.mkdir()
    program = folder / "a\nb\x1b[2J"
    shutil.copy(suite(), program)
    trace, said = tmp_path / "trace.plx", tmp_path / "said"
    with driver.Target(program, "hostile", "names") as target:
        recorder = start(pollux, said, "record", "-p", target.pid, "-d", 1, "-o", trace)
        target.go()
        check(pollux, recorder, said, trace)
        check(pollux, start(pollux, said, "doctor", target.pid), said, trace)
        check(pollux, start(pollux, said, "tree", target.pid), said, trace)
