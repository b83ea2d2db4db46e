# SPDX-License-Identifier: MIT OR Apache-2.0
"""The reader that was written from docs/trace-format.md agrees with `pollux print --json`, event by event."""
import re
import struct
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


def chunk(type, payload):
    head = struct.pack("<HHII", type, 0, len(payload), plx.crc32c(payload))
    return head + struct.pack("<I", plx.crc32c(head)) + payload


def test_events_of_types_to_come(tmp_path):
    """Other versions may add types, of 16 bits; a trace that has only such has events, too."""
    small = plx.Trace(TRACES / "good/small.plx")
    types = [max(plx.EVENT) + 1, 300, 20000, 65535]
    head = bytes([0, len(types)]) + struct.pack("<Q", small.events()[0].time) + bytes([len(types)])
    shapes = b"".join(bytes([type & 0x7f | 0x80, type >> 7 & 0x7f | 0x80, type >> 14, 0, 0]) for type in types)
    columns = [bytes(i << 2 for i in range(len(types))), bytes(len(types)), b"", b"", b"", b""]
    sizes = bytes([len(columns)]) + b"".join(bytes([len(column)] * 2) for column in columns)
    events = chunk(plx.EVENTS, head + shapes + sizes + b"".join(columns))
    meta = struct.unpack_from("<I", small.file, 64 + 4)[0] + 16
    path = tmp_path / "newer.plx"

    path.write_bytes(small.file[:64 + meta] + events + small.file[64 + meta:])
    assert compare(path)[None] == len(types)
    path.write_bytes(small.file[:64 + meta] + events)
    assert compare(path)[None] == len(types)
    done = subprocess.run([POLLUX, "print", path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "no events" not in done.stderr, done.stderr
    done = subprocess.run([POLLUX, "print", "--event", "spawn", path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "no event of this name" in done.stderr, done.stderr


def rows(heading):
    """The rows of the table that begins with that row, as lists of cells."""
    table = PAGE[PAGE.index(heading):].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_page_has_this_version(tmp_path):
    """In its first line, in the header's table, and as the last of the versions."""
    path = tmp_path / "imported.plx"
    subprocess.run([POLLUX, "import", RECORDINGS[0], "-o", path], check=True, capture_output=True, timeout=300)
    minor = plx.Trace(path).minor
    assert re.search(r"^Version 1\.(\d+)\.", PAGE, re.M)[1] == f"{minor}"
    assert re.search(r"minor version, (\d+)\.", PAGE)[1] == f"{minor}"
    assert rows("| version |")[-1][0] == f"1.{minor}"


def test_samples_have_all_of_a_moment():
    """So the fields of nodes and threads that came last are compared above, too."""
    def nodes(tree):
        yield tree
        for child in tree["children"]:
            yield from nodes(child)

    moments = [moment for path in TRACES.glob("good/*.plx") for moment in plx.Trace(path).moments.values()]
    trees = [node for moment in moments for task in moment.tasks if task["tree"] for node in nodes(task["tree"])]
    assert {held["held"] for node in trees for held in node["held"]} == set(plx.HELD_KIND)
    assert any(thread["call_arg"] for moment in moments for thread in moment.threads)
    assert any(node["holds"] for node in trees)


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
