# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reports and exports of the sample traces are byte for byte what they were."""
import difflib

import golden
import pytest


@pytest.mark.parametrize("name, words", golden.cases(), ids=[name for name, _ in golden.cases()])
def test_golden(pollux, name, words):
    path = golden.GOLDEN / name
    assert path.exists(), f"no {path}: ./dev bless makes it"
    old, new = path.read_bytes(), golden.output(words)
    if old != new:
        lines = difflib.unified_diff(old.decode().splitlines(), new.decode().splitlines(),
                                     f"tests/golden/traces/{name}", "now", lineterm="")
        pytest.fail("\n".join(list(lines)[:60]) + "\nmeant so? ./dev bless", pytrace=False)


def test_nothing_is_left_over():
    names = {name for name, _ in golden.cases()}
    assert {path.name for path in golden.GOLDEN.iterdir()} <= names
