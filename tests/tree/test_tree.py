# SPDX-License-Identifier: MIT OR Apache-2.0
"""Every task's tree, place by place, against the comments in the sources."""
import difflib
import json

import driver
import forest

SOURCES = {
    "tokio": ("tokio.rs", "parts.rs", "own.rs", "combinators.rs", "sync.rs"),
    "smol": ("smol.rs", "async_task.rs"),
    "async-std": ("async_std.rs", "async_task.rs"),
}


def look(pollux, pid, *options):
    result = driver.run(pollux, "tree", "--json", *options, str(pid))
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def trees_of(looked):
    """The lines of each tree, by the name of its root future."""
    names = {task["address"]: forest.short(task["name"]) for task in looked["tasks"]}
    out = {}
    for task in looked["tasks"]:
        if "tree" in task:
            lines = forest.shown(task["tree"], names).lines()
            out.setdefault(lines[0].split()[0], []).append(lines)
    return out


def differences(expected, trees):
    """What is wrong, tree by tree; expected: nodes by name."""
    out = []
    for name, node in expected.items():
        for lines in trees.get(name, [["(no such task)"]]):
            diff = difflib.unified_diff(node.lines(), lines, "expected", "shown", n=3, lineterm="")
            out.append("\n".join(list(diff)[2:40]))
    return [diff for diff in out if diff]


def test_every_place(pollux, start, built):
    package, profile = built
    program = start(package, profile)
    looked = look(pollux, program.pid)
    expected = forest.Forest(*SOURCES[package.rsplit("-", 1)[0]]).trees
    wrong = differences(expected, trees_of(looked))
    assert not wrong, "\n".join([f"{len(wrong)} of {len(expected)} differ", *wrong])
    assert looked["deadlocks"] == [] and looked["missed_reads"] == 0
