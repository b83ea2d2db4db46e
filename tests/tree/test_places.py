# SPDX-License-Identifier: MIT OR Apache-2.0
"""Await points in recordings: every wait is at the line that the source says, as often as it
says."""
import json
import os
import re

import build as builder
import driver
import pytest

from conftest import HERE

PACKAGE = "tokio-1.54"
SOURCE = HERE / "src" / "places.rs"


def expected():
    """{(line, function, family): waits} as the comments say."""
    out = {}
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        found = re.search(r"// waits (\d+) (\S+) in (\S+)$", line)
        if found:
            out[number, found[2], found[3]] = int(found[1])
    assert len(out) == 8
    return out


@pytest.fixture(scope="module", params=[
    ("release-debug", "agent"), ("debug", "agent"), ("release-debug", "kernel"), ("debug", "kernel"),
], ids="-".join)
def recorded(request, pollux, tmp_path_factory):
    profile, backend = request.param
    trace = tmp_path_factory.mktemp("places") / "places.plx"
    program = builder.build(PACKAGE, profile, "places", root=HERE)
    result = driver.run(pollux, "record", "--backend", backend, "-o", trace, "--", program)
    if backend == "kernel" and os.geteuid() != 0 and result.returncode:
        pytest.skip(result.stderr)
    assert result.returncode == 0, result.stderr
    return trace


def report(pollux, trace, *options):
    result = driver.run(pollux, "report", "--json", *options, trace)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_every_wait_at_its_line(pollux, recorded):
    told = {}
    for wait in report(pollux, recorded)["waits"]:
        if wait["file"].endswith("places.rs"):
            key = wait["line"], wait["function"], wait["family"]
            told[key] = told.get(key, 0) + wait["wait_ns"]["count"]
    assert told == expected()


def test_what_is_awaited(pollux, recorded):
    told = {
        (wait["family"], wait["awaits"], wait["branches"])
        for wait in report(pollux, recorded)["waits"]
    }
    assert ("places::outer", "tokio::time::sleep::Sleep", False) in told
    assert ("places::choose", "select!", True) in told
    assert ("places::unordered", "futures_util::stream::stream::next::Next<..>", True) in told
    assert ("places::consume", "tokio::sync::mpsc::bounded::recv", False) in told


def test_the_life_of_a_task(pollux, recorded):
    """Waits and polls of one task follow each other, and the waits say where."""
    known = report(pollux, recorded)
    (family,) = [f for f in known["families"] if f["name"] == "places::consume"]
    longest = report(pollux, recorded, "--family", "places::consume", "--longest", "1")
    number = longest["longest_polls"][0]["task"]
    (life,) = report(pollux, recorded, "--task", str(number))["lives"]
    steps = life["steps"]
    assert life["family"] == "places::consume" and life["omitted_steps"] == 0
    assert steps[0]["step"] == "spawn" and steps[-1]["step"] == "end"
    assert steps[-1]["outcome"] == "ready"
    assert sum(step["step"] == "poll" for step in steps) == family["polls"]
    waits = [step for step in steps if step["step"] == "wait" and step["state"] == "waiting"]
    (line,) = [line for line, function, _ in expected() if function == "places::consume"]
    assert [wait["line"] for wait in waits] == [line] * 11
    times = [step["begin_ns"] for step in steps]
    assert times == sorted(times)


def test_without_places(pollux, tmp_path):
    trace = tmp_path / "without.plx"
    program = builder.build(PACKAGE, "release-debug", "places", root=HERE)
    result = driver.run(pollux, "record", "--places=off", "-o", trace, "--", program)
    assert result.returncode == 0, result.stderr
    assert report(pollux, trace)["waits"] == []
