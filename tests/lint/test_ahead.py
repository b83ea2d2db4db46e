# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests wait for the programs that tests/e2e/build.py builds ahead."""
import fcntl
import json
import sys
import threading
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))

import build  # noqa: E402

FIRST, SECOND = ("targets", "tokio-1.38", "release", "suite"), ("targets", "tokio-1.38", "debug", "suite")


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The file, as the one who builds has it."""
    monkeypatch.setenv("POLLUX_BUILT", str(tmp_path / "built"))
    with open(tmp_path / "built", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def note(file, wanted, path):
    file.write(json.dumps([wanted, path]) + "\n")
    file.flush()


def test_waits_for_its_own_only(notes):
    found = []
    waiting = threading.Thread(target=lambda: found.append(build.built_ahead(SECOND)))
    waiting.start()
    note(notes, FIRST, "/first")
    assert build.built_ahead(FIRST) == Path("/first")
    notes.write('[["targets", "tokio-1.38", "debug"')  # half a line
    notes.flush()
    waiting.join(0.3)
    assert waiting.is_alive()
    notes.write(', "suite"], "/second"]\n')
    notes.flush()
    waiting.join(60)
    assert found == [Path("/second")]


def test_builds_itself_what_could_not_be_built(notes):
    note(notes, FIRST, None)
    assert build.built_ahead(FIRST) is None


def test_builds_itself_what_is_not_built_ahead(notes):
    assert build.built_ahead(("targets", "tokio-1.38", "none", "suite")) is None


def test_builds_itself_when_the_one_who_builds_is_gone(notes):
    note(notes, FIRST, "/first")
    fcntl.flock(notes, fcntl.LOCK_UN)
    assert build.built_ahead(FIRST) == Path("/first")
    assert build.built_ahead(SECOND) is None
