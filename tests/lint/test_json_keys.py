# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each key of the tool's JSON is in a page of docs/, so nobody has to guess what a number means."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# json_u64(j, "polls", ...), and what calls it with the key: report_hist_json(j, "poll_ns", ...)
KEY = re.compile(r'\b(?:json_(?!raw|quote)\w+|\w+_json)\((?:[^()"]*,\s*)?"(\w+)"')
FOLDERS = ("cli", "findings", "moment", "report")


def keys():
    return {
        key: path.relative_to(ROOT)
        for folder in FOLDERS
        for path in sorted((ROOT / "src" / folder).glob("*.c"))
        for key in KEY.findall(path.read_text())
    }


def test_keys_have_a_page():
    pages = "\n".join(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))
    code = re.findall(r"`([^`\n]+)`", pages) + re.findall(r"^#+ (.*)$", pages, re.M)
    words = set(re.findall(r"\w+", " ".join(code)))
    found = keys()
    assert len(found) > 250, "the pattern does not find them any more"
    assert not {key: str(path) for key, path in found.items() if key not in words}
