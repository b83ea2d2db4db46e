# SPDX-License-Identifier: MIT OR Apache-2.0
"""What pollux advises to do can be done: each command in its output, as it is there, works at that time."""
import os
import re
import shlex
import shutil
import signal
import subprocess
from pathlib import Path

import driver
import pytest

VERBS = "record|tree|report|why|hist|print|export|view|doctor|import|probes"
WORD = r"(?:-[-\w]+(?:=[^\s:;,]+)?|[0-9]+[smh]?|[^\s']+\.(?:plx|json)|'[^'\n]*'(?:\\''[^'\n]*')*)"
COMMAND = re.compile(rf"\bpollux (?:{VERBS})(?: {WORD})*")


def advised(result):
    """The commands of an output. What is advised names what it is for: a verb alone would be of another trace."""
    text = result.stdout + result.stderr
    commands = [shlex.split(found[0]) for found in COMMAND.finditer(text)]
    assert all(len(command) > 2 for command in commands), text
    return commands


def views(pollux, words, folder):
    """It serves until it is ended."""
    server = subprocess.Popen([pollux, "view", "--no-open", *words], cwd=folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    said = server.stdout.readline()
    server.terminate()
    server.communicate(timeout=driver.TIMEOUT)
    assert "http://127.0.0.1:" in said, said


def check(pollux, result, folder, *expected):
    """Runs each; `expected`: verbs that have to be among them. Their own advice is checked as well."""
    commands, seen = advised(result), []
    while commands:
        command = commands.pop()
        if command in seen:
            continue
        seen.append(command)
        if command[1] == "view":
            views(pollux, command[2:], folder)
            continue
        short = ["-d", ".1"] if command[1] == "record" else []  # the last one counts
        done = driver.run(pollux, *command[1:], *short, cwd=folder)
        assert done.returncode == 0, (command, done.stderr)
        commands += advised(done)
    assert {command[1] for command in seen} >= set(expected), result.stdout + result.stderr


def record(pollux, folder, name, *what):
    result = driver.run(pollux, "record", "-o", name, *what, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result


@pytest.mark.parametrize("name", ["trace.plx", "it's a trace.plx"])
def test_of_a_program(pollux, suite, tmp_path, name):
    """One that works, one that only waits; while it lives, and when it has ended."""
    for loaded in (True, False):
        with driver.Target(suite(), "steady") as target:
            if loaded:
                target.go()
            recorded = record(pollux, tmp_path, name, "-d", ".2", str(target.pid))
            check(pollux, recorded, tmp_path, "report" if loaded else "tree")
            check(pollux, driver.run(pollux, "report", name, cwd=tmp_path), tmp_path, "tree")
            check(pollux, driver.run(pollux, "why", str(target.pid), "-d", ".2", cwd=tmp_path), tmp_path)
            check(pollux, driver.run(pollux, "doctor", str(target.pid), cwd=tmp_path), tmp_path, "record")
            pid = str(target.pid)
        for verb in ("report", "why", "tree", "hist"):
            result = driver.run(pollux, verb, name, cwd=tmp_path)
            assert result.returncode == 0, result.stderr
            assert f"pollux tree {pid}" not in result.stdout + result.stderr
            check(pollux, result, tmp_path)


def test_of_a_program_that_ends(pollux, suite, tmp_path):
    """Its end ends a recording in which nothing ran: only the trace can still be looked at."""
    for snapshot in ([], ["--no-snapshot"]):
        with driver.Target(suite(), "steady") as target:
            recorder = driver.Recorder(pollux, target.pid, tmp_path / "end.plx", *snapshot)
            target.process.send_signal(signal.SIGKILL)
            target.process.wait()
            code, said = recorder.stop()
            pid = target.pid
        assert code == 0 and f"pollux tree {pid}" not in said, said
        check(pollux, subprocess.CompletedProcess([], 0, "", said), tmp_path, *([] if snapshot else ["tree"]))


def test_of_blocking_polls(pollux, suite, tmp_path):
    """They advise another recording, of the program that still runs, or in words."""
    record(pollux, tmp_path, "long.plx", "--", str(suite()), "sleep_in_poll")
    result = driver.run(pollux, "report", "long.plx", cwd=tmp_path)
    check(pollux, result, tmp_path, "export")
    assert "pollux record" not in result.stdout


@pytest.mark.parametrize("trace", sorted((Path(__file__).parents[1] / "traces" / "good").glob("*.plx")),
                         ids=lambda trace: trace.stem)
def test_of_samples(pollux, trace, tmp_path):
    (tmp_path / trace.name).write_bytes(trace.read_bytes())
    for verb in ("report", "why", "hist", "print"):
        check(pollux, driver.run(pollux, verb, trace.name, cwd=tmp_path), tmp_path)


@pytest.mark.parametrize("folder", ["bin", "it's bin"])
def test_commands_begin_as_pollux_was_started(pollux, suite, tmp_path, folder):
    """By a path, which a shell has to be given again; by its name, if that is this pollux."""
    (tmp_path / folder).mkdir()
    own, trace = tmp_path / folder / "pollux", tmp_path / "t.plx"
    shutil.copy(pollux, own)

    def check_starts(command, path, as_what, *words):
        done = driver.run(command, *words, cwd=tmp_path, env={**os.environ, "PATH": path})
        text = done.stdout + done.stderr
        word = as_what if "'" not in as_what else "'" + as_what.replace("'", "'\\''") + "'"
        ends = re.findall(rf"pollux'? (?:{VERBS}) (?:{trace.name}|PID)", text)
        assert ends and len(ends) == len(re.findall(rf"(?<!\S){re.escape(word)} (?:{VERBS}) ", text)), (word, text)

    asked = [("record", "-o", trace.name, "--", suite(), "yields"), ("report", trace.name), (trace.name,), ("attach",)]
    for words in asked:
        for command in (str(own), f"./{folder}/pollux"):
            check_starts(command, f"{pollux.parent}:/usr/bin:/bin", command, *words)
        check_starts(own, f"{own.parent}:/usr/bin:/bin", "pollux", *words)
