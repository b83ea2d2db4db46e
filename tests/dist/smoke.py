# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an executable must be able to do, wherever it is."""
import json
import re
import subprocess
import urllib.request

import driver


# What works() leaves in its folder: the trace, and what view made of it.
LEFT = ["trace.plx", "trace.plx.index"]


def works(root, program, target, folder="/", **options):
    """record, report, tree, why and export of a running program of tests/tree, by the executable in a root."""
    trace = f"{folder}trace.plx"

    def good(*words):
        return root.good(program, *words, **options)

    tree = good("tree", target.pid)
    assert re.search(r"tree::own::chain\s+\.\./src/own\.rs:\d+", tree)
    good("record", "-p", target.pid, "-d", "1", "-o", trace)
    assert "none lost" in good("report", trace)
    report = json.loads(good("report", "--json", trace))
    assert report["lost"] == 0
    assert report["tasks"]["pre_existing"] > 50
    chrome = good("export", trace, "--format", "chrome", "-o", "-")
    assert chrome.startswith('{"displayTimeUnit"')
    assert "tree::own::chain" in good("tree", trace)
    good("why", trace)
    shows(root, program, trace, **options)


def shows(root, program, trace, **options):
    """The page of `view` and its report, served from the root, as a browser outside gets them."""
    server = subprocess.Popen(root.command(program, "view", trace, "--no-open"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, **options)
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
