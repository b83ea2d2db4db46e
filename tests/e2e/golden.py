# SPDX-License-Identifier: MIT OR Apache-2.0
"""What pollux makes of the sample traces, kept as files in tests/golden/traces.

`./dev bless` shows how they would change and changes them; test_golden.py compares.
"""
import os
import subprocess

import driver
from build import ROOT

TRACES = ROOT / "tests" / "traces" / "good"
GOLDEN = ROOT / "tests" / "golden" / "traces"
COMMANDS = {
    "report.txt": ["report"],
    "report.json": ["report", "--json"],
    "task.txt": ["report", "--task", "7"],
    "tasks.txt": ["report", "--task", "7", "--task", "8"],
    "hist.txt": ["hist"],
    "hist.json": ["hist", "--json"],
    "print.txt": ["print"],
    "print.json": ["print", "--json"],
    "columns.txt": ["print", "--format", "{time} {tid:6} {probe:-20}{task:10} {outcome:-10} {kind} "
                    "{call} {ns} {place} {stack}"],
    "chrome.json": ["export", "--format", "chrome", "-o", "-"],
    "tree.txt": ["tree"],
    "tree-start.txt": ["tree", "--at", "start", "--each", "--raw"],
    "tree.json": ["tree", "--json"],
    "speedscope.json": ["export", "--format", "speedscope", "-o", "-"],
}


# A task that a trace does not have is an error.
WITHOUT = {"no-events.task.txt", "no-events.tasks.txt", "small.tasks.txt", "future.tasks.txt"}


def cases():
    """(name of the golden file, words of the command)."""
    return [(f"{trace.stem}.{suffix}", [*words[:1], trace.name, *words[1:]])
            for trace in sorted(TRACES.glob("*.plx")) for suffix, words in COMMANDS.items()
            if f"{trace.stem}.{suffix}" not in WITHOUT
            and (words[0] != "tree" or trace.stem == "moments")]


def output(words):
    """Standard output of the command in the traces' folder, as everywhere on earth."""
    # A shell finds it as pollux: the commands that it advises are the same on any machine.
    path = f"{driver.pollux_path().parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TZ": "UTC", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "120"}
    done = subprocess.run([str(driver.pollux_path()), *words], cwd=TRACES, env=env,
                          capture_output=True, timeout=60)
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr.decode()}".encode()
    return done.stdout
