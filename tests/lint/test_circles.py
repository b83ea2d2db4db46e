# SPDX-License-Identifier: MIT OR Apache-2.0
"""The check of files that call each other in circles."""
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import circles

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("POLLUX", ROOT / "build/src/cli/pollux")).resolve().parents[2]


def test_each_circle_has_a_reason():
    if not (BUILD / "src/base").is_dir():
        pytest.skip("pollux was not built here: there are no object files")
    wrong, n = circles.check(BUILD)
    assert n > 5 and not wrong, "\n".join(wrong)


def test_circles_of_calls():
    calls = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"e", "a"}, "e": {"f"}, "f": {"d"}, "g": set()}
    assert circles.circles(calls) == {frozenset("bc"), frozenset("def")}
