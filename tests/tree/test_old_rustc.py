"""Trees of a program from Debian 12's rustc 1.63, whose async fns are GenFuture wrappers.

Such a compiler is not everywhere: TREE_RUSTC_1_63 names a program that it has built of rustc-1.63/
(`cargo build --release` there), else the test says that it is skipped.
"""
import os

import forest
import pytest
import test_tree
from conftest import Program


def test_every_place(pollux):
    path = os.environ.get("TREE_RUSTC_1_63")
    if not path:
        pytest.skip("TREE_RUSTC_1_63 names no program built by rustc 1.63")
    program = Program(path)
    looked = test_tree.look(pollux, program.pid)
    expected = forest.Forest("old.rs").trees
    wrong = test_tree.differences(expected, test_tree.trees_of(looked))
    program.close()
    assert not wrong, "\n".join([f"{len(wrong)} of {len(expected)} differ", *wrong])
    assert looked["deadlocks"] == [] and looked["missed_reads"] == 0
