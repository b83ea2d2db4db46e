# SPDX-License-Identifier: MIT OR Apache-2.0
"""`export` of real recordings: the formats' own rules (viewers are in tests/viewers)."""
import json
import os
import subprocess

import driver
import pytest


@pytest.fixture(scope="module")
def recorded(pollux, suite, tmp_path_factory):
    trace = tmp_path_factory.mktemp("export") / "trace.plx"
    driver.record_launched(pollux, trace, suite(), "multi_thread")
    return trace


def export(pollux, trace, *options):
    result = driver.run(pollux, "export", trace, *options)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_chrome(pollux, recorded):
    events = export(pollux, recorded, "--format", "chrome", "-o", "-")["traceEvents"]
    assert {"X", "M"} <= {event["ph"] for event in events}
    starts = [event["id"] for event in events if event["ph"] == "s"]
    ends = [event["id"] for event in events if event["ph"] == "f"]
    assert sorted(starts) == sorted(ends), "a flow has two ends"
    assert len(set(starts)) == len(starts)
    # as many flows as wakes that led to a poll: all but those of a task already woken, or over
    report = driver.report(pollux, recorded)
    wakes = sum(family["wakes"] for family in report["families"])
    polls = sum(family["polls"] for family in report["families"] if family["role"] == "task")
    assert polls - report["tasks"]["spawned"] <= len(starts) <= wakes
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0


def test_speedscope(pollux, recorded):
    file = export(pollux, recorded, "--format", "speedscope", "-o", "-")
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    n_frames = len(file["shared"]["frames"])
    assert file["profiles"]
    for profile in file["profiles"]:
        assert profile["unit"] == "nanoseconds"
        if profile["type"] == "sampled":  # the sums over all tasks
            assert len(profile["samples"]) == len(profile["weights"])
            continue
        assert profile["type"] == "evented"
        stack, last = [], profile["startValue"]
        for event in profile["events"]:
            assert event["at"] >= last
            last = event["at"]
            assert 0 <= event["frame"] < n_frames
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert not stack
        assert last <= profile["endValue"]


FORMATS = ["chrome", "speedscope", "perfetto", "firefox", "folded", "flame", "pprof", "csv", "jsonl", "sqlite",
           "parquet", "otlp"]


def test_formats(pollux):
    """The formats of this list are all that there are, and each viewer has one."""
    said = driver.run(pollux, "export", "--format", "none").stderr
    assert said.split("there are ")[1].splitlines()[0].split(", ") == FORMATS
    viewers = driver.run(pollux, "export", "--for", "none").stderr.split("known are ")[1].splitlines()[0].split()
    assert len(set(viewers)) == len(viewers) >= len(FORMATS)


@pytest.mark.parametrize("viewer, begin", [
    ("catapult", b'{"displayTimeUnit"'), ("perfetto", b"\x0a\x07\x50\x01"), ("firefox", b'{"exporter":"pollux'),
    ("speedscope", b'{"$schema"'), ("browser", b"<!DOCTYPE html>"), ("pprof", b"\x32\x00"), ("jq", b'{"table":"'),
    ("duckdb", b"PAR1"), ("sqlite3", b"SQLite format 3\0"), ("otel", b'{"resourceSpans"'),
    ("excel", b"time_ns,duration_ns,task,family"),
])
def test_for_viewer(pollux, recorded, viewer, begin):
    done = subprocess.run([pollux, "export", recorded, "--for", viewer, "-o", "-"], capture_output=True,
                          check=True, timeout=driver.TIMEOUT)
    assert done.stdout.startswith(begin)


def test_ending_chooses_the_format(pollux, recorded, tmp_path):
    """Each format's own ending, as an error lists them; a name without an ending has Chrome's format."""
    said = driver.run(pollux, "export", recorded, "-o", tmp_path / "t.svg")
    assert said.returncode == 2 and not os.listdir(tmp_path)
    endings = dict(part.split(" for ")[::-1] for part in said.stderr.splitlines()[0].split("or one of ")[1].split(", "))
    assert list(endings) == FORMATS
    for form, ending in endings.items():
        by_ending, by_name = (tmp_path / f"{way}{ending}" for way in ("ending", "name"))
        assert driver.run(pollux, "export", recorded, "-o", by_ending).returncode == 0
        assert driver.run(pollux, "export", recorded, "-f", form, "-o", by_name).returncode == 0
        assert by_ending.read_bytes()[:16] == by_name.read_bytes()[:16]
        assert by_ending.stat().st_size == by_name.stat().st_size
    driver.run(pollux, "export", recorded, "-o", tmp_path / "shop")
    assert (tmp_path / "shop").read_bytes() == (tmp_path / "ending.json").read_bytes()


@pytest.mark.parametrize("form", ["perfetto", "firefox", "folded", "flame", "pprof", "csv", "jsonl", "sqlite", "parquet",
                                  "otlp"])
def test_cut_trace_is_exported(pollux, recorded, tmp_path, form):
    """What is left of a trace that is cut is written, in a whole file."""
    cut = tmp_path / "cut.plx"
    cut.write_bytes(recorded.read_bytes()[: recorded.stat().st_size * 6 // 10])
    out = tmp_path / "out"
    result = driver.run(pollux, "export", cut, "-f", form, "-o", out)
    assert result.returncode == 0, result.stderr
    assert "the trace is cut" in result.stderr
    assert out.exists() and (out.stat().st_size > 100 or form in ("folded", "jsonl"))


def test_wrong_use(pollux, recorded, tmp_path):
    for words, sentence in [
        (["-f", "csv", "--for", "excel"], "exclude each other"),
        (["-f", "chrome", "--table", "polls"], "has no tables"),
        (["-f", "csv", "--table", "none"], "no table 'none': there are polls, waits"),
        (["-f", "csv", "--table", "polls", "-o", f"{tmp_path}/"], "a folder gets all tables"),
        (["-f", "folded", "--weight", "none"], "--weight is idle"),
    ]:
        result = driver.run(pollux, "export", recorded, *words)
        assert result.returncode == 2, words
        assert sentence in result.stderr
    assert not list(tmp_path.iterdir())


def test_folder_with_two_traces_of_a_name(pollux, recorded, tmp_path):
    """The second would replace the first without a word."""
    for day in ("monday", "tuesday"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "shop.plx").write_bytes(recorded.read_bytes())
    result = driver.run(pollux, "export", "-f", "csv", "-o", f"{tmp_path}/all/", tmp_path / "monday" / "shop.plx",
                        tmp_path / "tuesday" / "shop.plx")
    assert result.returncode == 2 and "would get the same name in the folder: rename one" in result.stderr
    assert not (tmp_path / "all").exists()


def test_folder(pollux, recorded, tmp_path):
    """A folder for each table, in it one for each trace; a second export replaces the first."""
    other = tmp_path / "an=other trace.plx"
    other.write_bytes(recorded.read_bytes())
    for _ in range(2):
        result = driver.run(pollux, "export", "-f", "parquet", "-o", f"{tmp_path}/deep/tables/", recorded, other)
        assert result.returncode == 0, result.stderr
    files = sorted(path.relative_to(tmp_path / "deep/tables") for path in (tmp_path / "deep").rglob("*.parquet"))
    assert len(files) == 2 * 13
    assert {str(path.parts[1]) for path in files} == {"trace=trace", "trace=an_other_trace"}
    assert not [path for path in (tmp_path / "deep").rglob("*") if path.is_file() and path.suffix != ".parquet"]


@pytest.mark.parametrize("form", FORMATS)
def test_closed_pipe(pollux, recorded, form):
    """`export | head -c 100`: no crash, no noise."""
    exporter = subprocess.Popen(
        [pollux, "export", recorded, "--format", form, "-o", "-"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    assert len(exporter.stdout.read(100)) == 100
    exporter.stdout.close()
    code = exporter.wait(driver.TIMEOUT)
    said = exporter.stderr.read().decode()
    exporter.stderr.close()
    assert code in (0, 1, -13), said  # -13: SIGPIPE, as of any filter
    assert "Sanitizer" not in said


def test_of_something_else(pollux, tmp_path):
    """A file that is no trace."""
    wrong = tmp_path / "wrong.plx"
    for content in (b"", b"\0" * 4096, b"pollux", bytes(range(256)) * 64):
        wrong.write_bytes(content)
        for command in (["report"], ["report", "--json"], ["export", "--format", "chrome", "-o", "-"]):
            result = driver.run(pollux, *command, wrong)
            assert result.returncode == 1, f"{command} {content[:16]}"
            assert result.stderr.strip()


def chunks(content):
    """Type and end of each chunk of a trace."""
    at = int.from_bytes(content[12:16], "little")
    while at < len(content):
        size = int.from_bytes(content[at + 4:at + 8], "little")
        at += 16 + size
        yield int.from_bytes(content[at - size - 16:at - size - 14], "little"), at


def test_torso_ends_where_it_is_complete(pollux, suite, tmp_path):
    """Behind the last ROUND of a recording that was killed some threads have events, others not: these say nothing."""
    trace = tmp_path / "trace.plx"
    with driver.Target(suite(), "steady") as target:
        target.go()
        result = driver.run(pollux, "record", "-p", target.pid, "-d", "1", "-o", trace)
        assert result.returncode == 0, result.stderr
        target.go()
        assert target.end() == 0
    content = trace.read_bytes()
    found, ends, complete = list(chunks(content)), [], 0
    for (kind, end), (following, _) in zip(found, found[1:]):
        complete = end if kind == 3 else complete
        if kind == 2 and following != 3 and complete:
            ends.append((complete, end))
    assert ends, found
    said = []
    for end in ends[len(ends) // 2]:
        trace.write_bytes(content[:end])
        report = driver.report(pollux, trace)
        assert report["truncated"]
        tasks = [family for family in report["families"] if family["role"] == "task"]
        said.append((report["duration_ns"], report["polls"], report["wakes"], tasks, report["findings"]))
    assert said[0] == said[1]


def test_cut_trace(pollux, recorded, tmp_path):
    """A trace that is cut anywhere is readable up to the cut, or refused with a sentence."""
    content = recorded.read_bytes()
    events = []
    for part in (1.0, 0.9, 0.6, 0.3, 0.1, 0.01):
        cut = tmp_path / "cut.plx"
        cut.write_bytes(content[: int(len(content) * part)])
        result = driver.run(pollux, "report", "--json", cut)
        assert result.returncode in (0, 1), result.stderr
        events.append(json.loads(result.stdout)["events"] if result.returncode == 0 else 0)
    assert events[0] > 0
    assert events == sorted(events, reverse=True)
