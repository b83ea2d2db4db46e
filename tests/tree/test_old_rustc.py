# SPDX-License-Identifier: MIT OR Apache-2.0
"""Trees of a program from Debian 12's rustc 1.63, whose async fns are GenFuture wrappers.

Where there is no such compiler, TREE_RUSTC_1_63 may name a program that one has built of rustc-1.63/.
"""
import os

import forest
import pytest
import test_tree
from conftest import HERE, Program, builder


def test_every_place(pollux):
    path = os.environ.get("TREE_RUSTC_1_63")
    if not path:
        reason = builder.why_no_old_rustc()
        if reason:
            pytest.skip(reason)
        path = builder.build("rustc-1.63", "old-rustc", "tree", root=HERE)
    program = Program(path)
    looked = test_tree.look(pollux, program.pid)
    expected = forest.Forest("old.rs").trees
    wrong = test_tree.differences(expected, test_tree.trees_of(looked))
    program.close()
    assert not wrong, "\n".join([f"{len(wrong)} of {len(expected)} differ", *wrong])
    assert looked["deadlocks"] == [] and looked["missed_reads"] == 0
