# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an executable must be able to do, wherever it is."""
import json
import re
import subprocess
import urllib.request

import driver


# What works() leaves in its folder: the trace, and what view made of it.
LEFT = ["trace.plx", "trace.plx.index"]


def works(root, program, target, folder="/"):
    """record, report, tree and export of a running program of tests/tree, by the executable in a root."""
    trace = f"{folder}trace.plx"
    tree = root.good(program, "tree", target.pid)
    assert re.search(r"tree::own::chain\s+\.\./src/own\.rs:\d+", tree)
    root.good(program, "record", "-p", target.pid, "-d", "1", "-o", trace)
    assert "none lost" in root.good(program, "report", trace)
    report = json.loads(root.good(program, "report", "--json", trace))
    assert report["lost"] == 0
    assert report["tasks"]["pre_existing"] > 50
    chrome = root.good(program, "export", trace, "--format", "chrome", "-o", "-")
    assert chrome.startswith('{"displayTimeUnit"')
    assert "tree::own::chain" in root.good(program, "tree", trace)
    shows(root, program, trace)


def shows(root, program, trace):
    """The page of `view` and its report, served from the root, as a browser outside gets them."""
    server = subprocess.Popen(root.command(program, "view", trace, "--no-open"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/\w+/", line)
        assert address, (line, server.poll() is not None and server.stderr.read())
        with urllib.request.urlopen(address[0], timeout=driver.TIMEOUT) as page:
            assert b"<html" in page.read().lower()
        with urllib.request.urlopen(f"{address[0]}api/report", timeout=driver.TIMEOUT) as answer:
            assert json.load(answer)["lost"] == 0
    finally:
        server.terminate()
        server.communicate(timeout=driver.TIMEOUT)
