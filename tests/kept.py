# SPDX-License-Identifier: MIT OR Apache-2.0
"""The plugin of pytest's that all suites run with (-p kept).

What a failed test leaves is kept, since pytest clears its own folders after a few runs: what was said
in failure.txt, and its recordings, in a folder of its name below POLLUX_KEPT (else pollux-failed below
the folder for temporary files).

Marks: `alone` for tests that need the machine for themselves: ./dev test runs them when all others of
their suite are through. Of the rest several run side by side; those that share something that is there
once have one xdist_group.
"""
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

# A pollux that a shell finds by its name advises commands that begin with this name, and not with its path.
TOOL = Path(os.environ.get("POLLUX") or Path(__file__).resolve().parents[1] / "build" / "src" / "cli" / "pollux").absolute()
os.environ["PATH"] = f"{TOOL.parent}:{os.environ.get('PATH', '')}"

KEPT = Path(os.environ.get("POLLUX_KEPT") or Path(tempfile.gettempdir()) / "pollux-failed")
MAX_BYTES = 32 << 20

# A shell's background jobs ignore these, and so would each program that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: no other test runs at the same time")
    config.addinivalue_line("markers", "xdist_group(name): one of them at a time")


def folder_of(nodeid):
    """The folder of what this test left."""
    name = nodeid.rsplit("/", 1)[-1].replace(".py::", ".")
    return KEPT / "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:200]


def pytest_runtest_setup(item):
    shutil.rmtree(folder_of(item.nodeid), ignore_errors=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    to = folder_of(item.nodeid)
    to.mkdir(parents=True, exist_ok=True)
    parts = [report.longreprtext, *(f"---- {name}\n{text}" for name, text in report.sections)]
    with open(to / "failure.txt", "a") as file:
        file.write("\n".join([f"---- {call.when}", *parts, ""]))
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    for path in folder.rglob("*") if folder else ():
        if path.suffix in (".plx", ".data") and path.is_file() and path.stat().st_size <= MAX_BYTES:
            shutil.copy(path, to / path.name)
    report.sections.append(("Kept", f"what it left: {to}"))
