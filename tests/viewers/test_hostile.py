# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names that try to break what shows them, in every format: they are shown, and do nothing."""
import csv
import json
import sqlite3
import subprocess

import browser
import pages
import pytest
from test_firefox import check as check_firefox
from test_json import check_chrome, check_speedscope

NAMES = {".json", ".speedscope.json", ".pftrace", ".firefox.json", ".folded", ".flame.html", ".pprof", ".csv",
         ".jsonl", ".sqlite", ".parquet", ".otlp.jsonl"}


@pytest.fixture(scope="module")
def hostile(pollux, tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "hostile.plx"
    subprocess.run([pollux.parents[2] / "tests/viewers/hostile", path], check=True)
    return path


def test_all_are_written(export, hostile):
    """No control character but the formats' own newlines, and nothing that is no UTF-8, in any text."""
    for ending in sorted(NAMES):
        path, _ = export(hostile, f"hostile{ending}")
        content = path.read_bytes()
        assert content
        if ending in (".pftrace", ".pprof", ".sqlite", ".parquet"):
            assert b"\x1b[31m" not in content
            continue
        text = content.decode()  # strictly
        assert not {c for c in text if c < " " and c not in "\n\t"} and "\u202e" not in text, ending


def test_json(export, hostile):
    check_chrome(export(hostile, "hostile.json")[0])
    check_speedscope(export(hostile, "hostile.speedscope.json")[0])
    check_firefox(export(hostile, "hostile.firefox.json")[0])
    for line in export(hostile, "hostile.jsonl")[0].read_text().splitlines():
        assert "x" not in json.loads(line)
    for line in export(hostile, "hostile.otlp.jsonl")[0].read_text().splitlines():
        assert len(json.loads(line)) == 1


def test_stacks(export, hostile):
    """A name has no separator: each line has the frames that the stack has."""
    for weight, frames in (("cpu", 2), ("polling", 2), ("scheduled", 2)):
        lines = export(hostile, "hostile.folded", "--weight", weight)[0].read_text().splitlines()
        assert len(lines) == 5
        assert {line.count(";") + 1 for line in lines} == {frames}
        assert all(line.rpartition(" ")[2].isdigit() for line in lines)


def test_tables(export, hostile, consumer):
    path, _ = export(hostile, "hostile.sqlite")
    with sqlite3.connect(path) as db:
        families = {row[0] for row in db.execute("SELECT DISTINCT family FROM polls")}
        assert len(families) == 5 and "'); DROP TABLE polls; --" in families
    with open(export(hostile, "hostile.csv")[0], newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10 and None not in rows[0]
    assert {row["family"].removeprefix("'") for row in rows} == {f.removeprefix("'") for f in families}
    assert not [value for row in rows for value in row.values() if value[:1] in ("=", "+", "@")]
    consumer("duckdb")
    import duckdb
    path, _ = export(hostile, "hostile.parquet")
    assert {row[0] for row in duckdb.sql(f"SELECT DISTINCT family FROM '{path}'").fetchall()} == families


def test_flame_page(viewer_pages, export, hostile):
    """Markup in a name is text on the page."""
    path, _ = export(hostile, "hostile.flame.html")
    with pages.Server(viewer_pages, path.parent) as server, browser.Page() as page:
        page.open(f"{server.url}/files/{path.name}")
        page.wait_for("document.querySelectorAll('.graph button').length > 10")
        assert page.eval("document.title") == "pollux: where time went"
        assert page.eval("document.images.length") == 0
        assert page.eval("[...document.querySelectorAll('.graph button')].filter("
                         "b => b.title.startsWith('</script><script>')).length") > 0
        assert page.console == [] and page.errors == []


def test_kinds_are_told_apart(export, hostile):
    """Two futures of one short name: one has its whole name."""
    events, _, _ = check_chrome(export(hostile, "hostile.json")[0])
    names = {e["name"] for e in events if e["ph"] == "X" and e["cat"] == "future"}
    assert {"app::get", "app::get<B>"} <= names or {"get", "app::get<B>"} <= names, names
