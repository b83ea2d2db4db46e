# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes the pictures of the documentation from a recording of the demo (./dev demo).

    POLLUX=build/src/cli/pollux python3 tests/viewers/pictures.py build/demo/shop.plx

docs/img/chrome.png: 60 ms around the longest poll, that poll selected.
docs/img/speedscope.png: the busiest worker.
docs/img/page.png: the own page, the longest poll selected.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import browser
import pages

ROOT = pathlib.Path(__file__).resolve().parents[2]
POLLUX = os.environ.get("POLLUX", str(ROOT / "build/src/cli/pollux"))
MARGIN_NS = 12_000_000


def export(trace, out, *options):
    subprocess.run([POLLUX, "export", trace, "-o", out, *options], check=True,
                   stderr=subprocess.DEVNULL)


def chrome(trace, folder, url):
    whole = folder / "whole.json"
    export(trace, whole)
    polls = [e for e in json.loads(whole.read_text())["traceEvents"]
             if e["ph"] == "X" and e["cat"] == "poll"]
    worst = max(polls, key=lambda e: e["dur"])
    begin, end = int(worst["ts"] * 1000), int((worst["ts"] + worst["dur"]) * 1000)
    export(trace, folder / "near.json", "--from", f"{max(1, begin - MARGIN_NS)}ns",
           "--to", f"{end + MARGIN_NS}ns")
    with browser.Page(1400, 900) as page:
        page.open(url + "/catapult.html")
        page.wait_for("window.catapultReady === true")
        page.eval(f"load('{url}/files/near.json')")
        time.sleep(1)
        page.eval("""(() => {
            const slices = [...model.getDescendantEvents()].filter(
                e => e instanceof tr.model.ThreadSlice && e.category === 'poll');
            const worst = slices.reduce((a, b) => a.duration >= b.duration ? a : b);
            viewer.brushingStateController.changeSelectionFromRequestSelectionChangeEvent(
                new tr.model.EventSet([worst]));
        })()""")
        time.sleep(2)
        page.screenshot(ROOT / "docs/img/chrome.png")


def speedscope(trace, folder, url):
    export(trace, folder / "shop.speedscope.json", "--format", "speedscope")
    with browser.Page(1400, 500) as page:
        page.open(f"{url}/speedscope/index.html#profileURL={url}/files/shop.speedscope.json")
        page.wait_for("document.body && document.body.innerText.includes('worker')")
        page.key("2", "Digit2")  # Left Heavy
        time.sleep(3)
        page.screenshot(ROOT / "docs/img/speedscope.png")


def page(trace, folder):
    path = folder / "shop.html"
    subprocess.run([POLLUX, "report", trace, "--html", path], check=True, stderr=subprocess.DEVNULL)
    with browser.Page(1400, 900) as page:
        page.open(f"file://{path}")
        page.wait_for("document.getElementById('app')?.dataset.ready === 'yes'")
        page.eval("pollux.findings.goTo(0)")
        time.sleep(1)
        page.eval("pollux.pollAt(pollux.trace.findings[0].lane, (f => (f.from_ns + f.to_ns) / 2)(pollux.trace.findings[0]))"
                  ".then(p => pollux.goToPoll(p.id))")
        page.eval("document.getElementById('tab-waits').click()")
        time.sleep(2)
        page.screenshot(ROOT / "docs/img/page.png")


def main():
    trace = pathlib.Path(sys.argv[1])
    (ROOT / "docs/img").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with pages.Server(pages.fetch(), folder) as server:
            page(trace, folder)
            chrome(trace, folder, server.url)
            speedscope(trace, folder, server.url)


main()
