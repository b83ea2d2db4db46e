# SPDX-License-Identifier: MIT OR Apache-2.0
"""Text fits: no line is wider than the terminal, no two rows of a table read the same, and what is
longer than the screen goes through a pager."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata
from pathlib import Path

import golden
import pytest

TRACES = sorted(golden.TRACES.glob("*.plx"))
VERBS = {
    "report": ["report"],
    "task": ["report", "--task", "7"],
    "machines": ["report", "--machines"],
    "hist": ["hist"],
    "why": ["why"],
}


def width(text):
    """Columns, by Python's own tables."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def output(words, columns, **env):
    env = {**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": str(columns), **env}
    done = subprocess.run([str(golden.driver.pollux_path()), *words], cwd=golden.TRACES, env=env,
                          capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def tables(text):
    """The rows of each table: indented by two, below a title. Bars and stacks are no rows."""
    rows = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("  ") and line[2] not in " [•":
            rows.append(line)
        elif not line:
            yield rows
            rows = []


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("trace", TRACES, ids=[trace.stem for trace in TRACES])
def test_every_width(trace, verb):
    words = VERBS[verb]
    if f"{trace.stem}.{verb}.txt" in golden.WITHOUT:
        pytest.skip("the trace has no such task")
    for columns in range(60, 201, 1 if verb == "report" else 7):
        text = output([words[0], trace.name, *words[1:]], columns)
        for line in text.splitlines():
            assert width(line) <= columns, (columns, line)
        if verb == "report":
            for rows in tables(text):
                assert len(set(rows)) == len(rows), (columns, rows)


def test_tree_of_every_width():
    for columns in range(60, 201, 7):
        text = output(["tree", "moments.plx"], columns)
        assert "since the start of the recording" in text
        assert all(width(line) <= columns for line in text.splitlines()), (columns, text)


def test_without_columns():
    """120 where nothing says how wide; whole names with --wide."""
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"}

    def run(*words):
        return subprocess.run([str(golden.driver.pollux_path()), *words], cwd=golden.TRACES, env=env,
                              capture_output=True, text=True, check=True, timeout=60).stdout

    assert run("report", "inside.plx") == output(["report", "inside.plx"], 120)
    assert max(map(width, run("report", "inside.plx", "--wide").splitlines())) > 120


@pytest.mark.parametrize("columns", ["0", "-3", "abc", "99999999999999999999", ""])
def test_odd_columns(columns):
    assert output(["report", "inside.plx"], columns) == output(["report", "inside.plx"], 120)


# --- a terminal ---------------------------------------------------------------------------------


class Screen:
    """Runs the command with a terminal of 24 lines and 100 columns."""

    def __init__(self, words, cwd=golden.TRACES, **env):
        self.parent, child = pty.openpty()
        fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        env = {**{k: v for k, v in os.environ.items() if k not in ("PAGER", "LESS", "NO_PAGER")},
               "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", **env}
        self.process = subprocess.Popen([str(golden.driver.pollux_path()), *words], cwd=cwd, env=env,
                                        stdin=child, stdout=child, stderr=child, start_new_session=True)
        os.close(child)
        self.text = ""

    def until(self, wanted):
        """Reads until the text is there, or all of it if None."""
        deadline = time.monotonic() + 60
        while wanted is None or wanted not in self.text:
            assert time.monotonic() < deadline, self.text
            if not select.select([self.parent], [], [], 1)[0]:
                continue
            try:
                more = os.read(self.parent, 65536)
            except OSError:
                more = b""
            if not more:
                break
            self.text += more.decode(errors="replace").replace("\r\n", "\n")
        return self.text

    def type(self, keys):
        os.write(self.parent, keys.encode())

    def end(self):
        self.until(None)
        code = self.process.wait(60)
        os.close(self.parent)
        return code


@pytest.mark.parametrize("words, env", [
    (["--no-pager"], {}),
    ([], {"NO_PAGER": "1"}),
    ([], {"PAGER": ""}),
    ([], {"PAGER": "cat"}),
    ([], {"TERM": "dumb"}),
], ids=["option", "NO_PAGER", "empty", "cat", "dumb"])
def test_no_pager(words, env):
    screen = Screen(["report", "inside.plx", *words], **env)
    assert screen.end() == 0
    assert screen.text == output(["report", "inside.plx"], 100)


def test_pager(tmp_path):
    """$PAGER gets what is longer than the screen, as root less alone."""
    page = tmp_path / "page"
    page.write_text(f"#!/bin/sh\ntee {tmp_path}/seen >/dev/null; echo shown\n")
    page.chmod(0o755)
    screen = Screen(["report", "inside.plx"], PAGER=str(page))
    if os.geteuid() == 0:
        screen.until("Families")
        screen.type("q")
        assert screen.end() == 0
        assert not (tmp_path / "seen").exists()
    else:
        assert screen.end() == 0
        assert screen.text == "shown\n"
        assert (tmp_path / "seen").read_text() == output(["report", "inside.plx"], 100)


def test_pager_of_a_user():
    """The same for a user who is not root."""
    if os.geteuid() != 0:
        pytest.skip("test_pager has been it")
    words = [str(golden.driver.pollux_path()), "report", "-"]
    if subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "test", "-x", words[0]],
                      check=False).returncode:
        pytest.skip("another user can't run this pollux")
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "1",
           "PAGER": "wc -l; id -u; echo LESSSECURE=$LESSSECURE"}
    env.pop("NO_PAGER", None)
    with open(golden.TRACES / "inside.plx", "rb") as trace:
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", *words], env=env, stdin=trace,
                              stdout=child, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(child)
    text = os.read(parent, 65536).decode().split()
    os.close(parent)
    assert done.returncode == 0, done.stderr
    assert int(text[0]) > 40 and text[1:] == ["65534", "LESSSECURE="]


def test_pager_leaves(tmp_path):
    """A pager that reads nothing, or can't be started, is no error; the latter shows the text."""
    env = {"PAGER": "true"}
    if os.geteuid() == 0:
        # Root's pager is less, found by PATH.
        (tmp_path / "less").write_text("#!/bin/sh\nexit 0\n")
        (tmp_path / "less").chmod(0o755)
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    screen = Screen(["report", "inside.plx"], **env)
    assert screen.end() == 0
    assert screen.text == ""
    # Where pollux is, and no less.
    missing = {"PATH": str(Path(golden.driver.pollux_path()).parent)}
    if os.geteuid() != 0:
        missing = {"PAGER": "/nonexistent/pager"}
    screen = Screen(["report", "inside.plx"], **missing)
    assert screen.end() == 0
    assert screen.text.endswith(output(["report", "inside.plx"], 100))
    if os.geteuid() == 0:
        # Who has no less needs not be told each time.
        assert screen.text == output(["report", "inside.plx"], 100)


def test_short_text_needs_no_pager():
    screen = Screen(["report", "no-events.plx"], PAGER="false")
    assert screen.end() == 0
    assert screen.text == output(["report", "no-events.plx"], 100)
    assert len(screen.text.splitlines()) < 24


def serves(command, folder):
    """It says where it serves the trace, and goes on until it is ended."""
    with subprocess.Popen([golden.driver.pollux_path(), *command], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        said = server.stdout.readline()
        while said and "http://" not in said:
            said = server.stdout.readline()
        server.terminate()
    assert "http://" in said, command


def test_hints_work(tmp_path):
    """Each command that a report prints at its end does what it is said to, as it is printed."""
    for trace in TRACES:
        (tmp_path / trace.name).write_bytes(trace.read_bytes())
        text = subprocess.run([str(golden.driver.pollux_path()), "report", trace.name], cwd=tmp_path,
                              capture_output=True, text=True, check=True, timeout=60).stdout
        _, _, hints = text.partition("What to do next\n")
        assert len(hints.splitlines()) <= 6
        commands = re.findall(r"(?m)pollux (.*)$", hints)
        assert commands or trace.stem == "no-events"
        for command in commands:
            if command.startswith("view "):
                serves(command.split(), tmp_path)
                continue
            done = subprocess.run(f"{golden.driver.pollux_path()} {command}", shell=True, cwd=tmp_path,
                                  capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, (command, done.stderr)
