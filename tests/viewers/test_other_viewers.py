# SPDX-License-Identifier: MIT OR Apache-2.0
"""pollux view --in VIEWER: the browser is opened with the viewer's address, and the viewer's page gets the trace.

The browser's opener is a script, and Chromium gets a page of ours for the viewer's, which takes the address apart and
fetches the file as the viewer does: across origins, so the server has to allow it.
"""
import hashlib
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile
import time

import browser
import pytest
from conftest import GOOD
from test_page import chromium  # noqa: F401

NOBODY = 65534
# Where each finds the trace's address in its own.
STAND_IN = """<!doctype html><title>nothing yet</title><script>
const { hash, pathname } = location;
const from = { perfetto: () => new URLSearchParams(hash.slice(hash.indexOf("?"))).get("url"),
    firefox: () => decodeURIComponent(pathname.replace("/from-url/", "")),
    speedscope: () => new URLSearchParams(hash.slice(1)).get("profileURL") }.VIEWER();
const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
fetch(from).then((r) => r.arrayBuffer()).then((b) => crypto.subtle.digest("SHA-256", b))
    .then((digest) => { document.title = hex(digest); }, (error) => { document.title = `failed: ${error}`; });
</script>"""


@pytest.fixture
def folder():
    """That anyone may read and write."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="pollux-in-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


def opener(folder):
    """An xdg-open that writes down what it is to open."""
    script = folder / "xdg-open"
    script.write_text(f'#!/bin/sh\nprintf "%s" "$1" >{folder}/part && mv {folder}/part {folder}/opened\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return folder / "opened"


def started(pollux, folder, trace, viewer):
    """pollux view, as somebody who has a screen; root has none. Perfetto's port may be another test's for a while."""
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "DISPLAY": ":0", "HOME": str(folder)}
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    for _ in range(60):
        process = subprocess.Popen([pollux, "view", trace, "--in", viewer], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment, **who)
        printed = process.stdout.readline().strip()
        if printed:
            return process, printed
        said = process.communicate()[1]
        assert viewer == "perfetto" and "9001" in said, said
        time.sleep(1)
    return pytest.fail("port 9001 is never free")


@pytest.mark.parametrize("viewer, origin", [("perfetto", "https://ui.perfetto.dev"), ("firefox", "https://profiler.firefox.com"),
                                            ("speedscope", "https://www.speedscope.app")])
def test_it_opens_and_gets_the_trace(pollux, folder, viewer, origin):
    opened, trace = opener(folder), folder / "requests.plx"
    shutil.copy(GOOD / "requests.plx", trace)
    trace.chmod(0o644)
    program = shutil.copy(pollux, folder / "pollux")
    process, printed = started(program, folder, trace, viewer)
    try:
        deadline = time.monotonic() + 60
        while not opened.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert opened.read_text() == printed and printed.startswith(origin + "/")
        assert viewer != "perfetto" or "http://127.0.0.1:9001/" in printed
        plain = [] if viewer == "speedscope" else ["--no-findings"]  # which it has none of
        export = subprocess.run([pollux, "export", "-f", viewer, *plain, "-o", "-", trace], capture_output=True, check=True)
        with browser.Page() as page:
            page.stand_in(origin, STAND_IN.replace("VIEWER", viewer))
            page.open(printed)
            page.wait_for("document.title && document.title !== 'nothing yet'")
            assert page.eval("document.title") == hashlib.sha256(export.stdout).hexdigest(), "\n".join(page.errors)
        # Another page does not get it.
        with browser.Page() as page:
            page.stand_in("https://elsewhere.example", STAND_IN.replace("VIEWER", viewer))
            page.open(printed.replace(origin, "https://elsewhere.example"))
            page.wait_for("document.title && document.title !== 'nothing yet'")
            assert page.eval("document.title").startswith("failed: ")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
