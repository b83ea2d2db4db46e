# SPDX-License-Identifier: MIT OR Apache-2.0
"""Firefox Profiler's processed profile, held to the types of its version 60.

They are in src/types/profile.ts and docs-developer/CHANGELOG-formats.md of the profiler, which is no
package: its own loader took the exports of all sample traces, of version 60 to 70, when this was written.
"""
import json
from collections import Counter

import pytest
from conftest import GOOD

COLOURS = {"transparent", "purple", "green", "orange", "yellow", "lightblue", "blue", "brown", "magenta",
           "red", "lightred", "darkgrey", "grey"}
FORMATS = {"unique-string", "integer", "duration", "flow-id", "terminating-flow-id"}
TABLES = {
    "stackTable": {"frame": ("frameTable", False), "prefix": ("stackTable", True)},
    "frameTable": {"address": None, "inlineDepth": None, "category": None, "subcategory": None,
                   "func": ("funcTable", False), "nativeSymbol": None, "innerWindowID": None, "line": None,
                   "column": None},
    "funcTable": {"name": ("stringArray", False), "isJS": None, "relevantForJS": None,
                  "resource": ("resourceTable", False), "source": ("sources", True), "lineNumber": None,
                  "columnNumber": None},
    "resourceTable": {"lib": None, "name": ("stringArray", False), "host": None, "type": None},
    "nativeSymbols": {"libIndex": None, "address": None, "name": None, "functionSize": None},
    "sources": {"uuid": None, "filename": ("stringArray", False)},
}


def check(path):
    profile = json.loads(path.read_text())
    meta, shared, threads = profile["meta"], profile["shared"], profile["threads"]
    assert meta["preprocessedProfileVersion"] == 60 and meta["version"] == 27 and meta["startTime"] >= 0
    assert all(category["color"] in COLOURS and category["subcategories"] for category in meta["categories"])
    schemas = {schema["name"]: {field["key"]: field["format"] for field in schema["fields"]}
               for schema in meta["markerSchema"]}
    assert {form for fields in schemas.values() for form in fields.values()} <= FORMATS
    sizes = {name: shared[name]["length"] for name in TABLES} | {"stringArray": len(shared["stringArray"])}
    for name, columns in TABLES.items():
        assert set(shared[name]) == {*columns, "length"}
        for column, target in columns.items():
            values = shared[name][column]
            assert len(values) == sizes[name]
            if target:
                assert all(value is None and target[1] or 0 <= value < sizes[target[0]] for value in values)
    for i, prefix in enumerate(shared["stackTable"]["prefix"]):
        assert prefix is None or prefix < i, "callers come first"
    assert threads, "without threads the profiler shows nothing"
    for field in ("initialVisibleThreads", "initialSelectedThreads"):
        assert all(0 <= i < len(threads) for i in meta[field])
    assert len({(thread["pid"], thread["tid"]) for thread in threads}) == len(threads)
    flows = Counter(), Counter()
    for thread in threads:
        samples, markers = thread["samples"], thread["markers"]
        assert samples["length"] == len(samples["stack"]) == len(samples["time"]) >= 2 or samples["weight"]
        assert samples["weight"] is None or len(samples["weight"]) == samples["length"]
        assert samples["time"] == sorted(samples["time"])
        assert all(s is None or s < sizes["stackTable"] for s in samples["stack"])
        for column in ("data", "name", "startTime", "endTime", "phase", "category"):
            assert len(markers[column]) == markers["length"]
        for data, name, start, end, phase in zip(*(markers[c] for c in
                                                   ("data", "name", "startTime", "endTime", "phase"))):
            assert 0 <= name < sizes["stringArray"]
            assert (phase == 0 and end is None) or (phase == 1 and 0 <= start <= end)
            for key, value in data.items():
                if key == "type":
                    continue
                if key == "cause":
                    assert value["stack"] < sizes["stackTable"]
                    continue
                form = schemas[data["type"]][key]
                if form in ("unique-string", "flow-id", "terminating-flow-id"):
                    assert 0 <= value < sizes["stringArray"]
                if form.endswith("flow-id"):
                    flows[form == "flow-id"][shared["stringArray"][value]] += 1
    assert flows[0] == flows[1] and all(n == 1 for n in flows[0].values()), "a flow has two ends"
    return profile


def of_type(profile, kind):
    """(thread, start, end, data) of its markers."""
    for thread in profile["threads"]:
        markers = thread["markers"]
        for data, start, end in zip(markers["data"], markers["startTime"], markers["endTime"]):
            if data["type"] == kind:
                yield thread, start, end, data


@pytest.mark.parametrize("options", [(), ("--from", "20ms"), ("--family", "handle"), ("--task", "4"),
                                     ("--lanes", "packed"), ("--max-lanes", "7"), ("--max-slices", "500")],
                         ids=" ".join)
def test_windows(export, trace, options):
    path, _ = export(trace, "windows.firefox.json", *options)
    profile = check(path)
    assert any(thread["markers"]["length"] for thread in profile["threads"])
    cut = [t for t in profile["threads"] if t["processName"] == "cut"]
    assert len(cut) == ("--max-lanes" in options or "--max-slices" in options)


@pytest.mark.parametrize("name", sorted(path.stem for path in GOOD.glob("*.plx")))
def test_sums(export, report, name):
    path, _ = export(GOOD / f"{name}.plx", f"{name}.firefox.json")
    profile, told = check(path), report(GOOD / f"{name}.plx")
    tasks = [f for f in told["families"] if f["role"] != "worker"]
    polls = [m for m in of_type(profile, "Poll") if isinstance(m[0]["tid"], str)]
    assert len(polls) == sum(f["polls"] for f in tasks)
    lives = list(of_type(profile, "Task"))
    assert len(lives) == sum(f["tasks"] for f in tasks)
    assert sum(data["waiting_ns"] for *_, data in lives) * 1e6 == pytest.approx(
        sum(f["waiting_ns"] for f in tasks))
    samples = sum(stack is not None for t in profile["threads"] for stack in t["samples"]["stack"])
    assert samples == sum(c["samples"] + c["samples_outside"] for c in told.get("cpu", []))


def test_same_function_is_one(export):
    """A function has one row, wherever its code is: the profiler adds up by rows."""
    path, _ = export(GOOD / "inside.plx", "functions.firefox.json")
    shared = check(path)["shared"]
    functions = list(zip(shared["funcTable"]["name"], shared["funcTable"]["resource"]))
    assert functions and len(set(functions)) == len(functions)
