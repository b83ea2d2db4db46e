# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a task has left in its memory of futures that it moved away or dropped is none of its own."""
import json

import driver
import forest
import pytest

BUILDS = [("tokio-1.54", "release-debug"), ("tokio-1.54", "debug")]


def pytest_generate_tests(metafunc):
    from conftest import everything

    if "build" in metafunc.fixturenames:
        builds = BUILDS if everything(metafunc.config) else BUILDS[:1]
        metafunc.parametrize("build", builds, ids=["-".join(one) for one in builds])


def nodes(node):
    yield node
    for child in node.get("children", ()):
        yield from nodes(child)


@pytest.mark.parametrize("options", [[], ["--no-stop"]], ids=["stop", "no-stop"])
def test_moved(build, start, pollux, options):
    program = start(*build, "moved")
    result = driver.run(pollux, "tree", "--json", *options, str(program.pid))
    assert result.returncode == 0, result.stderr
    marks = forest.marks("moved.rs")
    trees = {}
    for task in json.loads(result.stdout)["tasks"]:
        if "tree" in task:
            trees.setdefault(forest.short(task["name"]), []).append(list(nodes(task["tree"])))
    ways = {"spawns_it", "spawns_it_in_a_set", "sends_it", "passes_it_on", "drops_it", "drops_a_dyn",
            "drops_a_large_one", "keeps_it"}
    assert ways < set(trees)
    for way in ways:
        (tree,) = trees[way]
        assert f"{tree[0]['file'].rsplit('/', 1)[1]}:{tree[0]['line']}" == marks[way]
        held = [forest.short(n["name"]) for n in tree if n["state"] == "asleep"]
        assert held == (["work"] if way == "keeps_it" else []), (way, tree)
    # who owns them now has them: of those that were begun five are still there
    everywhere = [n for of_name in trees.values() for tree in of_name for n in tree]
    assert len({n["address"] for n in everywhere if forest.short(n["name"]) == "work"}) == 5
