# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables (csv, jsonl, sqlite, parquet): read by real readers, their sums are those of `report --json`."""
import csv
import json
import re
import sqlite3
import subprocess
from collections import Counter

import pytest
from conftest import GOOD, ROOT

SAMPLES = sorted(path.stem for path in GOOD.glob("*.plx"))
DOC = (ROOT / "docs" / "export.md").read_text()
TABLES = ["polls", "waits", "wakes", "tasks", "blocking", "parks", "futures", "samples", "off_cpu", "syscalls",
          "threads", "losses", "trace"]


def documented():
    """{table: its columns}, of docs/export.md."""
    found = {}
    for name, columns in re.findall(r"^\| `(\w+)` \| [^|]* \| ([^|]*) \|$", DOC, re.M):
        if name in TABLES:
            found[name] = re.findall(r"`(\w+)`", columns)
    return found


def from_csv(path):
    with open(path, newline="") as file:
        return [{k: int(v) if re.fullmatch(r"-?\d+", v) else v for k, v in row.items()}
                for row in csv.DictReader(file)]


def from_sqlite(path):
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        return {t: [dict(row) for row in db.execute(f"SELECT * FROM {t}")] for t in TABLES}


def from_jsonl(path):
    rows = {table: [] for table in TABLES}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        rows[row.pop("table")].append(row)
    return rows


def check(tables, told):
    """The rows of a trace against its report."""
    families = {family["kind"]: family for family in told["families"]}
    polls, waits, calls = Counter(), Counter(), Counter()
    for poll in tables["polls"]:
        polls[poll["kind"], "n"] += 1
        polls[poll["kind"], "ns"] += poll["duration_ns"]
        polls[poll["kind"], "measured"] += poll["measured"]
        polls[poll["kind"], "max"] = max(polls[poll["kind"], "max"], poll["duration_ns"])
    for wait in tables["waits"]:
        waits[wait["kind"], wait["state"]] += wait["duration_ns"]
    for call in tables["blocking"]:
        calls[call["kind"]] += call["duration_ns"] * call["keeps_worker"]
    wakes = Counter(wake["kind"] for wake in tables["wakes"] if wake["by_waker"])
    for kind, family in families.items():
        assert polls[kind, "n"] == family["polls"]
        assert polls[kind, "measured"] == family["poll_ns"]["count"]
        assert polls[kind, "ns"] == family["poll_ns"]["sum"]
        assert polls[kind, "max"] == family["poll_ns"]["max"]
        assert waits[kind, "waiting"] == family["waiting_ns"]
        assert waits[kind, "scheduled"] == family["scheduled_ns"]
        assert calls[kind] == family["blocked_ns"]
        assert wakes[kind] == family["wakes"]
    counted = [task for task in tables["tasks"] if task["role"] in ("task", "blocking")]
    assert len(counted) == told["tasks"]["spawned"] + told["tasks"]["pre_existing"]
    assert sum(task["end"] == "alive" for task in counted) == told["tasks"]["alive"]
    assert sum(task["end"] == "cancelled" for task in counted) == told["tasks"]["cancelled"]
    by_tid = {thread["thread"]: thread for thread in tables["threads"]}
    for worker in told["workers"]:
        thread = by_tid[worker["tid"]]
        assert (thread["busy_ns"], thread["parked_ns"], thread["blocked_ns"], thread["polls"]) == (
            worker["busy_ns"], worker["parked_ns"], worker["blocked_ns"], worker["polls"])
    assert sum(loss["events"] for loss in tables["losses"] if not loss["aux"]) == told["lost"]
    cpu = [s["weight"] for s in tables["samples"] if s["type"] in ("cpu-clock", "cycles", "instructions")]
    assert sum(cpu) == sum(c["weight"] + c["weight_outside"] for c in told.get("cpu", []))
    assert len(tables["trace"]) == len(told["processes"])
    for row in tables["trace"]:
        assert row["version"] == 1 and row["duration_ns"] == told["duration_ns"]


@pytest.mark.parametrize("name", SAMPLES)
def test_all_formats_say_the_same(export, report, pollux, name, tmp_path):
    trace = GOOD / f"{name}.plx"
    path, _ = export(trace, f"{name}.sqlite")
    tables = from_sqlite(path)
    check(tables, report(trace))
    path, _ = export(trace, f"{name}.jsonl")
    assert from_jsonl(path) == tables
    subprocess.run([pollux, "export", trace, "-f", "csv", "-o", f"{tmp_path}/"], check=True, capture_output=True)
    for table in TABLES:
        rows = from_csv(tmp_path / table / f"trace={name}" / "data.csv")
        assert [{k: str(v) for k, v in row.items()} for row in rows] == [
            {k: str(v) for k, v in row.items()} for row in tables[table]]
        one, _ = export(trace, f"{name}-{table}.csv", "--table", table)
        assert one.read_text() == (tmp_path / table / f"trace={name}" / "data.csv").read_text()


def test_names_are_those_of_the_report(export, report, synth):
    """Kinds that the program has and no task is of have no say in names."""
    trace = synth(mode="twins")
    names = {family["kind"]: family["name"] for family in report(trace)["families"]}
    assert not [name for name in names.values() if "(" in name]
    for form, read in (("sqlite", from_sqlite), ("jsonl", from_jsonl)):
        tables = read(export(trace, f"twins.{form}")[0])
        for table in ("polls", "waits", "wakes", "tasks", "blocking"):
            assert tables[table]
            for row in tables[table]:
                assert row["family"] == names[row["kind"]]
    lines = export(trace, "twins.otlp.jsonl")[0].read_text().splitlines()
    spans = [span for line in lines for of in json.loads(line).get("resourceSpans", [])
             for scope in of["scopeSpans"] for span in scope["spans"]]
    assert spans and {span["name"] for span in spans} <= set(names.values())
    folded = export(trace, "twins.folded")[0].read_text().splitlines()
    assert folded and {line.split(";")[0] for line in folded} <= set(names.values())


@pytest.mark.parametrize("options", [(), ("--from", "10ms", "--to", "40ms"), ("--family", "handle"),
                                     ("--task", "9")], ids=" ".join)
def test_windows(export, report, trace, options):
    path, _ = export(trace, "window.sqlite", *options)
    tables = from_sqlite(path)
    told = report(trace, *options)
    if not options:
        check(tables, told)
    assert sum(poll["duration_ns"] for poll in tables["polls"]) == sum(
        family["poll_ns"]["sum"] for family in told["families"])


def test_columns(pollux, trace):
    """The documentation has every table with every column, in their order."""
    assert list(documented()) == TABLES
    for table, columns in documented().items():
        done = subprocess.run([pollux, "export", trace, "-f", "csv", "--table", table, "-o", "-"],
                              capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0].split(",") == columns, table


def test_same_bytes(export, trace):
    """The same trace gives the same file, which replaces the one before."""
    for name in ("again.sqlite", "again.parquet", "again.jsonl"):
        first = export(trace, name)[0].read_bytes()
        assert export(trace, name)[0].read_bytes() == first


def test_replaces_its_own_only(pollux, trace, tmp_path):
    """Another SQLite database, or Parquet file, of the same name stays."""
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE precious (x)")
    parquet = tmp_path / "other.parquet"
    parquet.write_bytes(b"PAR1 precious PAR1")
    for path in (other, parquet):
        before = path.read_bytes()
        done = subprocess.run([pollux, "export", trace, "-f", path.suffix[1:], "-o", path], capture_output=True,
                              text=True)
        assert done.returncode == 1 and "it is not an export of this format" in done.stderr
        assert path.read_bytes() == before
    for form in ("sqlite", "parquet"):
        path = tmp_path / f"mine.{form}"
        for _ in range(2):
            subprocess.run([pollux, "export", trace, "-f", form, "-o", path], check=True, capture_output=True)


def queries(section):
    """The statements of docs/export.md below a heading."""
    text = DOC.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [q.strip() for block in re.findall(r"```sql\n(.*?)```", text, re.S) for q in block.split(";") if q.strip()]


def test_sqlite_queries(export, trace):
    path, _ = export(trace, "queries.sqlite")
    assert len(queries("sqlite")) >= 5
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        for query in queries("sqlite"):
            assert db.execute(query).fetchall(), query


@pytest.fixture(scope="module")
def duckdb(consumer):
    consumer("duckdb")
    import duckdb
    return duckdb


@pytest.fixture(scope="module")
def hive(pollux, synth, tmp_path_factory):
    """All sample traces, and a large one, in one folder."""
    folder = tmp_path_factory.mktemp("hive")
    big = synth(4000)
    subprocess.run([pollux, "export", "-f", "parquet", "-o", f"{folder}/", big,
                    *(GOOD / f"{name}.plx" for name in SAMPLES)], check=True, capture_output=True)
    return folder, big


def test_parquet(duckdb, hive, report):
    """DuckDB reads many traces as one table; the sums of each are the report's."""
    folder, big = hive

    def rows(table, name):
        got = duckdb.sql(f"SELECT * EXCLUDE (trace) FROM read_parquet('{folder}/{table}/**/*.parquet', "
                         f"hive_partitioning=1, hive_types_autocast=0) WHERE trace = '{name}'")
        return [dict(zip(got.columns, row)) for row in got.fetchall()]

    for trace in (big, *(GOOD / f"{name}.plx" for name in SAMPLES)):
        check({table: rows(table, trace.stem) for table in TABLES}, report(trace))
    groups = duckdb.sql(f"SELECT max(row_group_id) FROM parquet_metadata('{folder}/waits/trace={big.stem}/data.parquet')"
                        ).fetchall()[0][0]
    assert groups >= 1, "the large trace has several row groups"


def test_parquet_says_the_same_as_sqlite(duckdb, hive, export):
    folder, big = hive
    path, _ = export(big, "big.sqlite")
    with sqlite3.connect(path) as db:
        for table in TABLES:
            wanted = db.execute(f"SELECT * FROM {table}").fetchall()
            assert duckdb.sql(f"SELECT * EXCLUDE (trace) FROM '{folder}/{table}/trace={big.stem}/data.parquet'"
                              ).fetchall() == wanted, table


def test_parquet_statistics(duckdb, hive):
    """Least and greatest values are true: readers skip row groups by them."""
    folder, big = hive
    path = f"{folder}/waits/trace={big.stem}/data.parquet"
    stats = duckdb.sql(f"SELECT min(CAST(stats_min_value AS BIGINT)), max(CAST(stats_max_value AS BIGINT)) "
                       f"FROM parquet_metadata('{path}') WHERE path_in_schema = 'time_ns'").fetchall()
    assert stats == duckdb.sql(f"SELECT min(time_ns), max(time_ns) FROM '{path}'").fetchall()


def test_duckdb_queries(duckdb, hive):
    folder, _ = hive
    assert queries("parquet")
    for query in queries("parquet"):
        assert duckdb.sql(query.replace("traces/", f"{folder}/")).fetchall(), query
