# SPDX-License-Identifier: MIT OR Apache-2.0
"""Many tasks at once, and tasks that come and go while they are looked at."""
import json
import re
import resource

import driver
import forest

BUILD = ("tokio-1.54", "release-debug", "crowd")


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_alike_are_one_entry(pollux, start, all_of_it):
    many = 100000 if all_of_it else 10000
    program = start(*BUILD, "idle", str(many))
    driver.run(pollux, "tree", str(program.pid))  # warm
    before = cpu_seconds()
    text = driver.run(pollux, "tree", str(program.pid)).stdout
    used = cpu_seconds() - before
    assert re.search(rf"^{many // 2} tasks crowd::idle_sleeper  idle", text, re.M), text
    assert re.search(rf"^{many // 2} tasks crowd::idle_receiver  idle", text, re.M), text
    assert "notified, Notify 0x" in text, text
    # each has its own
    own = text[text.index("3 tasks crowd::idle_owner"):].splitlines()
    assert own[3] == "  └ notified, differs from task to task (--each)", text
    assert len(text.splitlines()) < 40, text
    assert used < 2, f"{used:.2f} s of CPU time for {many} tasks"
    if all_of_it:
        looked = json.loads(driver.run(pollux, "tree", "--json", str(program.pid)).stdout)
        assert looked["stop_ns"] < 100e6, f"stopped for {looked['stop_ns'] / 1e6:.1f} ms"


def places(node):
    """(function, file:line) of all suspended coroutines of the program in a tree."""
    here = "crowd.rs" in node.get("file", "")
    if here and node["kind"] == "async" and node["state"] in ("suspended", "asleep"):
        yield forest.short(node["name"]), f"crowd.rs:{node['line']}"
    for child in node.get("children", ()):
        yield from places(child)


def test_nothing_is_invented(pollux, start, all_of_it):
    """Trees of a changing program, again and again: each task is one that the program made, each place one
    where that function can be, no deadlock is claimed, and neither side comes to harm."""
    program = start(*BUILD, "churn")
    marks = {place: mark for mark, place in forest.marks("crowd.rs").items()}
    seen, n_trees, n_torn = set(), 0, 0
    for i in range(1000 if all_of_it else 200):
        options = ["--no-stop"] if i % 2 else []
        result = driver.run(pollux, "tree", "--json", *options, str(program.pid))
        assert result.returncode == 0, result.stderr
        looked = json.loads(result.stdout)
        assert looked["deadlocks"] == [] and looked["never_again"] == [], (options, looked)
        for task in looked["tasks"]:
            if task["role"] != "task":
                continue
            seen.add(f"{task['id']} {forest.short(task['name'])}")
            if "tree" not in task:
                n_torn += 1
                continue
            n_trees += 1
            for function, place in places(task["tree"]):
                assert place in marks, (function, place)
        assert program.alive()
    made = {line[5:] for line in program.close() if line.startswith("made ")}
    assert seen - made == set(), f"invented: {sorted(seen - made)[:10]} of {len(seen)}"
    assert len(seen) > 500 and n_trees > 1000, (len(seen), n_trees)
