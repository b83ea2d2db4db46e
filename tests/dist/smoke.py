# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an executable must be able to do, wherever it is."""
import json
import re


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
