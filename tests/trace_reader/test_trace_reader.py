# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reader that was written from docs/trace-format.md agrees with `pollux print --json`, event by event."""
import re
import subprocess

import pytest

from trace_reader import plx
from trace_reader.compare import POLLUX, ROOT, compare, printed

TRACES = ROOT / "tests/traces"
PAGE = (ROOT / "docs/trace-format.md").read_text()
RECORDINGS = sorted((ROOT / "tests/import/files").iterdir())


@pytest.mark.parametrize("path", sorted(TRACES.glob("good/*.plx")), ids=lambda path: path.stem)
def test_sample(path):
    trace = plx.Trace(path)
    assert not trace.cut and not trace.n_damaged
    assert trace.n_expected == sum(compare(path).values())
    times = [line["time_ns"] for line in printed(path)[1] if line["event"] != "moment"]
    events = trace.events()
    assert times == [event.time - events[0].time for event in events]


@pytest.mark.parametrize("path", sorted(TRACES.glob("bad/*.plx")), ids=lambda path: path.stem)
def test_bad_sample(path):
    code, lines = printed(path)
    try:
        trace = plx.Trace(path)
    except plx.Refused:
        assert code == 1 and not lines
        return
    assert code == 0
    assert trace.cut or trace.n_damaged
    compare(path)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
def test_import(tmp_path, recording):
    """These have what no agent records: system calls, samples, machines, several sources of a thread."""
    path = tmp_path / "imported.plx"
    done = subprocess.run([POLLUX, "import", recording, "-o", path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert sum(compare(path).values()) == plx.Trace(path).n_expected > 0


def rows(heading):
    """The rows of the table that begins with that row, as lists of cells."""
    table = PAGE[PAGE.index(heading):].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_page_has_these_events():
    assert {int(row[0]): row[1] for row in rows("| type | name |")} | {0: "none"} == plx.EVENT


def test_page_has_these_calls():
    cells = re.findall(r"(?<=\| )(\d+) (\w+)", PAGE[PAGE.index("**Call**"):PAGE.index("**Reason**")])
    assert {int(number): name for number, name in cells} == plx.CALL


def test_page_has_these_records():
    """Their fields, and how many of them were there before other fields came."""
    for number, name, fields in rows("| type | record |"):
        fields = fields.replace("string ", "").split(", n_sites")[0].split(", ")
        read, n_old, form = plx.RECORDS[int(number)]
        assert re.sub(r" \(.*", "", name) == read
        assert [field.split(" ")[0] for field in fields] == re.findall(r"(\w+):", form)
        assert len([field for field in fields if "(" not in field]) == n_old


def test_page_has_these_records_of_moments():
    for number, name, fields in rows("| type | record | fields |\n|---|---|---|\n| 1 | head"):
        read, form = plx.MOMENT_RECORDS[int(number)]
        assert name == read
        listed = fields.split("; then")[0].split(", n_frames")[0].split(":")[0] if name != "string" else ""
        assert [field.split(" ")[-1] for field in listed.split(", ") if field] == re.findall(r"(\w+)(?::t)?", re.sub(
            r":t", "", form))


def test_page_has_these_numbers_of_nodes():
    table = {row[0]: row[1] for row in rows("| field | what it is |\n|---|---|\n| kind")}
    for field, names in (("kind", plx.NODE_KIND), ("state", plx.NODE_STATE), ("waits_for", plx.WAITS_FOR)):
        assert {int(n): name for n, name in re.findall(r"(\d+) (\w+)", table[field])} == names
