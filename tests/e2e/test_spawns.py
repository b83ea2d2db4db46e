# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each way to make a task, and to block on a future: its name and its place, in each kind of build."""
import json
import re
import subprocess

import driver
import pytest
from build import TARGETS, build

BINARIES = ("spawns_tokio", "spawns_async_task")
# What a build gives: whether places have lines.
SLICE = ["release-debug"]
MORE = ["debug"]
# Through these libraries the program spawns: both places are shown.
VIA = {
    "by_tracker": "tokio-util-", "by_tracker_on": "tokio-util-", "by_tracker_local": "tokio-util-",
    "by_executor": "hyper-util-", "by_actix": "actix-rt-",
}
# These are named by what they are wrapped in, or not alone on their line.
APART = {"by_pool", "by_arbiter", "by_map", "by_nested", "by_select", "by_helper"}


def pytest_generate_tests(metafunc):
    if "profile" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--all")
        metafunc.parametrize("profile", SLICE + MORE if everything else SLICE)
    if "binary" in metafunc.fixturenames:
        metafunc.parametrize("binary", BINARIES)


def lines_of(binary):
    """{function: line} of those that a line of the source makes a task of, or blocks on."""
    source = TARGETS / "src" / "spawns" / f"{binary.removeprefix('spawns_')}.rs"
    text = source.read_text()
    found = {}
    for i, line in enumerate(text.splitlines(), 1):
        named = re.findall(r"\b(?:by|root)_\w+\b", line)
        if line.startswith("    ") and len(named) == 1 and "fn " not in line and "(" in line:
            assert named[0] not in found, f"{named[0]} is twice in {source}"
            found[named[0]] = i
    return found


@pytest.fixture(scope="module")
def families(pollux, tmp_path_factory):
    """Of a binary and a profile: the report's families, recorded from the program's start."""
    known = {}

    def of(binary, profile):
        if (binary, profile) not in known:
            path = build("spawns", profile, binary)
            trace = tmp_path_factory.mktemp(binary) / "t.plx"
            command = [pollux, "record", "--places=off", "-o", str(trace), "--", str(path)]
            result = subprocess.run(command, capture_output=True, text=True, timeout=driver.TIMEOUT)
            assert result.returncode == 0, result.stderr
            known[binary, profile] = driver.report(pollux, trace)["families"]
        return known[binary, profile]

    return of


def test_lines(families, binary, profile):
    """With debug information a task has its function's name, and the line that spawns it."""
    wanted = {n: line for n, line in lines_of(binary).items() if n.startswith("by_") and n not in APART}
    if profile != "unstable":
        wanted = {n: line for n, line in wanted.items() if "builder" not in n or "async_task" in binary}
    wanted = {n: line for n, line in wanted.items() if not n.endswith(("_blocking", "_blocking_on", "_unblock"))}
    found = {f["name"]: f["spawn_sites"] for f in families(binary, profile)}
    for name, line in wanted.items():
        sites = found.get(f"{binary}::{name}")
        assert sites and len(sites) == 1, (name, sites, sorted(found))
        file = f"src/spawns/{binary.removeprefix('spawns_')}.rs:{line} ({binary}::"
        assert file in sites[0] and "," not in sites[0], (name, sites)
        via = VIA.get(name)
        assert (f" via {via}" in sites[0]) if via else " via " not in sites[0], (name, sites)


def test_helper(families, binary, profile):
    """What a helper of the program's spawns is spawned in the helper."""
    found = {f["name"]: f["spawn_sites"] for f in families(binary, profile)}
    source = TARGETS / "src" / "spawns" / f"{binary.removeprefix('spawns_')}.rs"
    line = next(i for i, text in enumerate(source.read_text().splitlines(), 1) if "// in helper" in text)
    assert [f".rs:{line} ({binary}::helper<" in s for s in found[f"{binary}::by_helper"]] == [True]
