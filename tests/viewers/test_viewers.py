# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exported files in the real viewers: Catapult (chrome://tracing) and Speedscope, in Chromium."""
import json

import browser
import pages
import pytest
from conftest import ROOT, picture


def load_in_catapult(page, server, path):
    page.open(server.url + "/catapult.html")
    page.wait_for("window.catapultReady === true")
    page.eval(f"load('{server.url}/files/{path.name}')", timeout=300)


@pytest.mark.parametrize("options", [(), ("--lanes", "packed"), ("--max-lanes", "12"),
                                     ("--from", "10ms", "--to", "30ms"), ("--family", "handle"),
                                     ("--thread", "w"), ("--max-slices", "900")], ids=" ".join)
def test_catapult(viewer_pages, export, trace, options):
    path, _ = export(trace, "catapult.json", *options)
    events = json.loads(path.read_text())["traceEvents"]
    slices = sum(e["ph"] in "Xi" for e in events)  # the viewer makes slices of moments, too
    flows = sum(e["ph"] == "s" for e in events)
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        load_in_catapult(page, server, path)
        assert page.eval("model.importWarnings.map(w => w.type + ': ' + w.message)") == []
        assert page.eval("model.flowEvents.length") == flows
        assert page.eval("[...model.getDescendantEvents()].filter("
                         "e => e instanceof tr.model.ThreadSlice).length") == slices
        lanes = page.eval("model.getAllThreads().map(t => t.userFriendlyName)")
        assert len(lanes) == len({(e["pid"], e["tid"]) for e in events if e["ph"] == "X"})
        picture(page, "catapult" + "".join(options) + ".png")
        zoom = """(() => {
            const view = viewer.trackView.viewport, t = view.currentDisplayTransform.clone();
            const middle = model.bounds.center;
            t.xSetWorldBounds(middle - 1, middle + 1, 1120);
            view.setDisplayTransformImmediately(t);
            for (const flow of model.flowEvents) viewer.selectedFlowEvents.add(flow.category);
            view.dispatchChangeEvent();
        })()"""
        page.eval(zoom)
        picture(page, "catapult-near" + "".join(options) + ".png")
        assert page.errors == []


def nested(events):
    """No slice of a lane sticks out of the one around it; of equal begins the outer is first."""
    lanes = {}
    for e in events:
        if e["ph"] == "X":
            lanes.setdefault((e["pid"], e["tid"]), []).append((round(e["ts"] * 1000),
                                                               round((e["ts"] + e["dur"]) * 1000)))
    for lane in lanes.values():
        open_ends = []
        for begin, end in sorted(lane, key=lambda s: (s[0], -s[1])):
            while open_ends and open_ends[-1] <= begin:
                open_ends.pop()
            if open_ends and end > open_ends[-1]:
                return False
            open_ends.append(end)
    return True


def test_inside_of_polls(viewer_pages, export):
    """Futures, calls, time off the CPU and samples, as both viewers show them."""
    sample = ROOT / "tests/traces/good/inside.plx"
    path, _ = export(sample, "inside.json")
    events = json.loads(path.read_text())["traceEvents"]
    assert nested(events)
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        load_in_catapult(page, server, path)
        assert page.eval("model.importWarnings.map(w => w.type + ': ' + w.message)") == []
        assert page.eval("[...model.getDescendantEvents()].filter("
                         "e => e instanceof tr.model.ThreadSlice).length") == sum(
                             e["ph"] in "Xi" for e in events)
        inside = page.eval("[...model.getDescendantEvents()].filter(e => e.title == 'sleep' &&"
                           " e.parentSlice && e.parentSlice.title == 'my_test').length")
        assert inside == 8  # four polls, on the task's lane and on the thread's
        picture(page, "catapult-inside.png")
        assert page.errors == []

    path, _ = export(sample, "inside.speedscope.json")
    file = json.loads(path.read_text())
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        page.open(f"{server.url}/speedscope/index.html#profileURL={server.url}/files/{path.name}")
        shown = file["profiles"][file["activeProfileIndex"]]["name"]
        page.wait_for(f"document.body && document.body.innerText.includes({json.dumps(shown)})")
        assert [text for kind, text in page.console if kind in ("warning", "error", "assert")] == []
        assert page.errors == []


def test_requests(viewer_pages, export):
    """A service's requests, as both viewers show them."""
    sample = ROOT / "tests/traces/good/requests.plx"
    path, _ = export(sample, "requests.json")
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        load_in_catapult(page, server, path)
        assert page.eval("model.importWarnings.map(w => w.type + ': ' + w.message)") == []
        # Each poll of an order is inside of the request, and all that it waits for, too.
        inside = page.eval("[...model.getDescendantEvents()].filter(e => e.parentSlice &&"
                           " e.parentSlice.title == 'order' && e.parentSlice.category == 'request')"
                           ".map(e => e.title)")
        assert sorted(inside) == ["order.rs:24 shop::order"] * 2 + ["poll"] * 3 + ["scheduled"]
        around = page.eval("[...new Set([...model.getDescendantEvents()].filter("
                           "e => e.category == 'request').map(e => e.parentSlice.title))]")
        assert sorted(around) == ["axum connection #7", "axum connection #8"]
        picture(page, "catapult-requests.png")
        assert page.errors == []

    path, _ = export(sample, "requests.speedscope.json", "--task", "7")
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        page.open(f"{server.url}/speedscope/index.html#profileURL={server.url}/files/{path.name}")
        page.wait_for("document.body && document.body.innerText.includes('axum connection #7')")
        assert [text for kind, text in page.console if kind in ("warning", "error", "assert")] == []
        picture(page, "speedscope-requests.png")
        assert page.errors == []


@pytest.mark.parametrize("options", [(), ("--task", "4", "--task", "2"), ("--from", "10ms", "--to", "30ms"),
                                     ("--thread", "w"), ("--max-slices", "900")], ids=" ".join)
def test_speedscope(viewer_pages, export, trace, options):
    path, _ = export(trace, "viewer.speedscope.json", *options)
    file = json.loads(path.read_text())
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        page.open(f"{server.url}/speedscope/index.html#profileURL={server.url}/files/{path.name}")
        shown = file["profiles"][file["activeProfileIndex"]]["name"]
        page.wait_for(f"document.body && document.body.innerText.includes({json.dumps(shown)})")
        assert [text for kind, text in page.console if kind in ("warning", "error", "assert")] == []
        assert page.errors == []
        picture(page, "speedscope" + "".join(options) + ".png")
        page.key("2", "Digit2")  # Left Heavy
        picture(page, "speedscope-left-heavy" + "".join(options) + ".png")
        assert page.errors == []
