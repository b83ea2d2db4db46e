# SPDX-License-Identifier: MIT OR Apache-2.0
"""Exported traces in the real viewers, and against the rules that the viewers have.

    POLLUX=build/src/cli/pollux python3 -m pytest tests/viewers

The trace is an imagined server's, made by build/tests/viewers/synth, or the one that
POLLUX_TEST_TRACE names. POLLUX_TEST_PICTURES names a folder for screenshots.
"""
import json
import os
import pathlib
import subprocess
import sys
import time
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import browser  # noqa: E402
import consumers  # noqa: E402
import pages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


# Formats by how the file is called.
FORMATS = {".speedscope.json": "speedscope", ".pftrace": "perfetto", ".firefox.json": "firefox", ".folded": "folded",
           ".flame.html": "flame", ".pprof": "pprof", ".csv": "csv", ".otlp.jsonl": "otlp", ".jsonl": "jsonl",
           ".sqlite": "sqlite", ".parquet": "parquet"}
GOOD = ROOT / "tests" / "traces" / "good"


def lacking(reason):
    """In CI a missing viewer is a failure; elsewhere a skip that says why."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI this must be there: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def pollux():
    path = pathlib.Path(os.environ.get("POLLUX", ROOT / "build/src/cli/pollux")).resolve()
    if not os.access(path, os.X_OK):
        pytest.fail(f"no pollux at {path}: build it, or set POLLUX", pytrace=False)
    return path


@pytest.fixture(scope="session")
def synth(pollux, tmp_path_factory):
    """synth(milliseconds, connections per second, prefix of all names, "twins", "lock" or "skew"): the path of a trace."""
    tool = pollux.parents[2] / "tests/viewers/synth"
    folder = tmp_path_factory.mktemp("synth")

    def make(ms=60, per_second=1500, prefix="", mode=""):
        path = folder / f"{ms}-{per_second}{f'-{zlib.crc32(prefix.encode()):x}' if prefix else ''}{mode}.plx"
        if not path.exists():
            subprocess.run([tool, path, str(ms), str(per_second), "4", prefix, mode], check=True,
                           stdout=subprocess.DEVNULL)
        return path

    return make


@pytest.fixture(scope="session")
def trace(synth):
    given = os.environ.get("POLLUX_TEST_TRACE")
    return pathlib.Path(given) if given else synth()


@pytest.fixture(scope="session")
def html(pollux, tmp_path_factory):
    """html(trace): the path of its one-file report."""
    folder = tmp_path_factory.mktemp("html")

    def make(trace):
        path = folder / (trace.stem + ".html")
        if not path.exists():
            subprocess.run([pollux, "report", trace, "--html", path], check=True, timeout=300,
                           stderr=subprocess.DEVNULL)
        return path

    return make


@pytest.fixture(scope="session")
def report(pollux):
    """report(trace, *options): what report --json says."""

    def run(trace, *options):
        done = subprocess.run([pollux, "report", trace, "--json", *options], check=True, timeout=300,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def export(pollux, tmp_path_factory):
    """export(trace, name, *options): the path of the output and what was said on stderr."""
    folder = tmp_path_factory.mktemp("exported")

    def run(trace, name, *options):
        out = folder / name
        out.unlink(missing_ok=True)  # a file of text alone is not replaced
        form = next((form for end, form in FORMATS.items() if name.endswith(end)), "chrome")
        done = subprocess.run([pollux, "export", trace, "--format", form, "-o", out, *options],
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return out, done.stderr

    return run


@pytest.fixture(scope="session")
def viewer_pages():
    """The folder of the viewers' pages and of the npm packages."""
    if not browser.find():
        lacking("no chromium: the viewers are not tested")
    missing = pages.missing()
    if missing and not (pages.cache_dir() / "done").exists():
        lacking(f"no {missing} to fetch the viewers with")
    try:
        return pages.fetch()
    except RuntimeError as error:
        lacking(f"the viewers could not be fetched: {error}")


def picture(page, name):
    folder = os.environ.get("POLLUX_TEST_PICTURES")
    if folder:
        time.sleep(1)
        page.screenshot(pathlib.Path(folder) / name)


@pytest.fixture(scope="session")
def consumer():
    """consumer(name): makes a consumer's Python packages importable."""
    def get(name):
        try:
            consumers.fetch(name)
        except (RuntimeError, OSError) as error:
            lacking(f"{name} could not be fetched: {error}")

    return get
