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
# Without debug information; with --all only: these take long to build.
SYMBOLS = ["release", "v0"]
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
    if "symbols" in metafunc.fixturenames:
        metafunc.parametrize("symbols", SYMBOLS if metafunc.config.getoption("--all") else [])
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


def source_of(binary):
    """The part of a place that comes before its line."""
    return f"src/spawns/{binary.removeprefix('spawns_')}.rs:"


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
        assert f"{source_of(binary)}{line} ({binary}::" in sites[0] and "," not in sites[0], (name, sites)
        via = VIA.get(name)
        assert (f" via {via}" in sites[0]) if via else " via " not in sites[0], (name, sites)


def test_helper(families, binary, profile):
    """What a helper of the program's spawns is spawned in the helper."""
    found = {f["name"]: f["spawn_sites"] for f in families(binary, profile)}
    source = TARGETS / "src" / "spawns" / f"{binary.removeprefix('spawns_')}.rs"
    line = next(i for i, text in enumerate(source.read_text().splitlines(), 1) if "// in helper" in text)
    assert [f".rs:{line} ({binary}::helper<" in s for s in found[f"{binary}::by_helper"]] == [True]


# The function whose future a block_on has, or which calls it where that is a trait object.
ROOTS = {
    "main", "as_a_test", "root_of_runtime", "root_of_handle", "root_of_current", "root_in_task",
    "on_local_set::{async_block#0}", "on_actix::{async_block#0}",
}


def all_at_the_gate(pollux, path, trace):
    """The report's JSON of a recording that began when all tasks waited, and tree's."""
    with driver.Target(path) as target:
        recorder = driver.Recorder(pollux, target.pid, trace)
        tree = driver.run(pollux, "tree", "--json", target.pid)
        assert tree.returncode == 0, tree.stderr
        target.go()
        assert recorder.wait()[0] == 0 and target.end() == 0
    return driver.report(pollux, trace), json.loads(tree.stdout)


def test_block_on(families):
    """Each block_on of a launched program has the name and the place of its own."""
    roots = {f["name"]: f["spawn_sites"] for f in families("spawns_tokio", "release-debug") if f["role"] == "root"}
    assert {f"spawns_tokio::{name}" for name in ROOTS} <= set(roots), roots
    for name, line in lines_of("spawns_tokio").items():
        if name.startswith("root_of_") and f"spawns_tokio::{name}" in roots:
            assert f"{source_of('spawns_tokio')}{line} (" in roots[f"spawns_tokio::{name}"][0]
    assert all("block_on" not in name for name in roots), roots


def test_block_on_by_symbols(families, symbols):
    """Without debug information it is the program's function that calls block_on, or nothing; v0 symbols
    have the future."""
    roots = [f for f in families("spawns_tokio", symbols) if f["role"] == "root"]
    names = {f["name"] for f in roots}
    assert {"spawns_tokio::main", "spawns_tokio::as_a_test"} <= names, names
    assert (symbols == "v0") == ("spawns_tokio::root_of_runtime" in names), names
    for f in roots:
        called = [site.startswith(f["name"] + "+0x") for site in f["spawn_sites"]] == [True]
        other = f["name"].startswith(("block_on (", "spawns_tokio::root_"))
        assert called or other, f


def test_one_name(pollux, tmp_path):
    """What is in a tree has the same name and place in the report, and in what is printed and exported."""
    path = build("spawns", "release-debug", "spawns_tokio")
    report, tree = all_at_the_gate(pollux, path, tmp_path / "t.plx")
    recorded = {(f["role"], f["name"]): f["spawn_sites"] for f in report["families"]}
    seen = {
        (t["role"], t["name"]): t["spawned_at"]
        for t in tree["tasks"]
        if "by_" in t["name"] or t["role"] == "root" and "spawns_tokio::" in t["name"]
    }
    assert {f"spawns_tokio::{name}" for name in ROOTS} <= {name for role, name in seen if role == "root"}
    for (role, name), place in seen.items():
        if name == "spawns_tokio::root_of_futures":
            continue  # futures::executor::block_on makes no waker of a runtime's
        assert (role, name) in recorded, (role, name, sorted(recorded))
        if role != "root":
            assert recorded[role, name][0] == place, (name, place, recorded[role, name])
    printed = driver.run(pollux, "print", tmp_path / "t.plx").stdout
    driver.run(pollux, "export", "-o", tmp_path / "t.json", tmp_path / "t.plx")
    exported = (tmp_path / "t.json").read_text()
    for (role, name), sites in recorded.items():
        if role != "worker" and name in printed:
            assert name in exported, name
