# SPDX-License-Identifier: MIT OR Apache-2.0
"""Stacks with values (folded, flame, pprof): their sums are the report's, and their readers take them."""
import json
import re
import shutil
import subprocess
from collections import Counter

import browser
import pages
import pytest
from conftest import GOOD, picture

SAMPLES = sorted(path.stem for path in GOOD.glob("*.plx"))
DECODE = """
const {Profile} = require('pprof-format');
const p = Profile.decode(require('fs').readFileSync(process.argv[1]));
const s = (i) => p.stringTable.strings[Number(i)];
const functions = new Map(p.function.map((f) => [Number(f.id), [s(f.name), s(f.filename)]]));
const locations = new Map(p.location.map((l) => [Number(l.id), l.line.map((n) =>
  [...functions.get(Number(n.functionId)), Number(n.line)])]));
console.log(JSON.stringify({
  types: p.sampleType.map((t) => [s(t.type), s(t.unit)]), period: Number(p.period),
  periodType: [s(p.periodType.type), s(p.periodType.unit)], time: String(p.timeNanos),
  duration: Number(p.durationNanos), defaultType: s(p.defaultSampleType), comments: p.comment.map(s),
  first: p.stringTable.strings[0],
  samples: p.sample.map((x) => ({values: x.value.map(Number),
    stack: x.locationId.map((id) => locations.get(Number(id))).reverse()})),
}));
"""


def wanted(told, weight):
    """What the report says that a kind of stacks adds up to."""
    families = told["families"]
    cpu = told.get("cpu", [])
    return {
        "waiting": sum(f["waiting_ns"] for f in families),
        "scheduled": sum(f["scheduled_ns"] for f in families),
        "idle": sum(f["waiting_ns"] + f["scheduled_ns"] for f in families),
        "polling": sum(f["poll_ns"]["sum"] for f in families),
        "blocked": sum(f["blocked_ns"] for f in families),
        "cpu": sum(c["weight"] + c["weight_outside"] for c in cpu),
    }[weight]


def folded(path):
    lines = path.read_text().splitlines()
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines), "stacks are added up"
    return [(names.split(";"), int(value)) for names, _, value in (line.rpartition(" ") for line in lines)]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("weight", ["idle", "waiting", "scheduled", "polling", "blocked", "cpu"])
def test_folded_sums(export, report, name, weight):
    trace = GOOD / f"{name}.plx"
    path, _ = export(trace, f"{name}.folded", "--weight", weight)
    assert sum(value for _, value in folded(path)) == wanted(report(trace), weight)


def test_folded_families(export, report, trace):
    """Also by family, of a window."""
    path, _ = export(trace, "window.folded", "--from", "10ms", "--to", "40ms", "--weight", "waiting")
    by_family = Counter()
    for stack, value in folded(path):
        by_family[stack[0]] += value
    told = report(trace, "--from", "10ms", "--to", "40ms")
    assert by_family == {f["name"]: f["waiting_ns"] for f in told["families"] if f["waiting_ns"]}


def test_chain(export):
    """The functions of an await chain from the task's own to the innermost, then what that awaits."""
    path, _ = export(GOOD / "requests.plx", "chain.folded")
    stacks = [stack for stack, _ in folded(path)]
    chain = next(s for s in stacks if s[-1] == "wait: tokio::sync::batch_semaphore::Acquire")
    assert chain[1] == "request: shop::order"
    assert chain[3:-1] == ["shop::order (src/api/order.rs:24)",
                           "tokio::sync::mpsc::bounded::reserve (tokio-1.54.1/src/sync/mpsc/bounded.rs:1180)"]


def tree_sum(node):
    return node[1] + sum(map(tree_sum, node[2]))


def tree_stacks(node, names, above=()):
    here = (*above, names[node[0]])
    if node[1]:
        yield here, node[1]
    for child in node[2]:
        yield from tree_stacks(child, names, here)


@pytest.mark.parametrize("name", SAMPLES)
def test_flame(export, report, name):
    trace = GOOD / f"{name}.plx"
    path, _ = export(trace, f"{name}.flame.html")
    text = path.read_text()
    data = json.loads(re.search(r'<script type="application/json" id="data">\n(.*?)</script>', text, re.S)[1])
    told = report(trace)
    for graph, weight in zip(data["graphs"], ["idle", "polling", "blocked", "cpu"]):
        assert sum(map(tree_sum, graph["tree"])) == wanted(told, weight), graph["title"]
        lines, _ = export(trace, f"{name}-{weight}.folded", "--weight", weight)
        assert {stack: value for node in graph["tree"] for stack, value in
                tree_stacks(node, data["names"])} == {tuple(s): v for s, v in folded(lines)}
    assert not re.search(r"https?://", text), "it loads nothing"


def test_flame_page(viewer_pages, export, tmp_path):
    """The page draws all stacks, zooms in and out, finds, and says nothing on its console."""
    path, _ = export(GOOD / "requests.plx", "page.flame.html")
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        page.open(f"{server.url}/files/{path.name}")
        page.wait_for("document.querySelectorAll('.graph button').length > 5")
        count = "document.querySelectorAll('.graph')[0].querySelectorAll('button').length"
        all_frames = page.eval(count)
        picture(page, "flame.png")
        page.eval("[...document.querySelectorAll('.graph')[0].querySelectorAll('button')]"
                  ".find(b => b.title.startsWith('shop::mailer')).click()")
        assert page.eval(count) < all_frames
        assert page.eval("document.querySelectorAll('.graph button.above').length") == 1
        page.eval("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
        assert page.eval(count) == all_frames
        page.eval("(() => { const s = document.getElementById('search'); s.value = 'SLEEP';"
                  " s.dispatchEvent(new Event('input')); })()")
        assert page.eval("document.querySelectorAll('.graph button.found').length") >= 1
        assert page.console == [] and page.errors == []


@pytest.fixture(scope="module")
def decode(viewer_pages):
    def run(path):
        done = subprocess.run([shutil.which("node"), "-e", DECODE, path], cwd=viewer_pages, capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.mark.parametrize("name", SAMPLES)
def test_pprof(export, report, decode, name):
    trace = GOOD / f"{name}.plx"
    path, _ = export(trace, f"{name}.pprof")
    profile, told = decode(path), report(trace)
    types = [name for name, _ in profile["types"]]
    assert types[:4] == ["polling", "scheduled", "waiting", "blocked"]
    assert types[4:] == (["cpu"] if told.get("cpu") else [])
    assert profile["period"] == 1 and profile["periodType"] == ["waiting", "nanoseconds"]
    assert profile["defaultType"] == "waiting" and profile["first"] == ""
    assert profile["duration"] == told["duration_ns"]
    for i, kind in enumerate(types):
        assert sum(sample["values"][i] for sample in profile["samples"]) == wanted(told, kind), kind
    for sample in profile["samples"]:
        assert sample["stack"] and all(sample["stack"])
        assert sum(value > 0 for value in sample["values"]) <= 1


@pytest.mark.parametrize("name", ["page.pprof", "page.folded"])
def test_in_speedscope(viewer_pages, export, name):
    path, _ = export(GOOD / "requests.plx", name)
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        page.open(f"{server.url}/speedscope/index.html#profileURL={server.url}/files/{path.name}")
        page.wait_for("document.querySelectorAll('canvas').length > 0")
        assert [text for kind, text in page.console if kind != "log"] == [] and page.errors == []
        picture(page, f"speedscope-{name}.png")
