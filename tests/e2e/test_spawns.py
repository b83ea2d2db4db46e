# SPDX-License-Identifier: MIT OR Apache-2.0
"""Each way to make a task, and to block on a future: its name and its place, in each kind of build."""
import json
import re

import driver
import pytest
from build import TARGETS, build

BINARIES = ("spawns_tokio", "spawns_async_task")
# What a build gives: whether places have lines.
SLICE = ["release-debug"]
MORE = ["debug"]
# Without debug information; with --all only: these take long to build.
SYMBOLS = ["release", "v0"]
LESS = ["release", "v0", "line-tables", "stripped"]
# Through these libraries the program spawns: both places are shown.
VIA = {
    "by_tracker": "tokio-util-", "by_tracker_on": "tokio-util-", "by_tracker_local": "tokio-util-",
    "by_executor": "hyper-util-", "by_actix": "actix-rt-", "by_tracker_blocking": "tokio-util-",
}
# These are named by what they are wrapped in, or not alone on their line.
APART = {"by_pool", "by_arbiter", "by_map", "by_nested", "by_select", "by_helper"}


def pytest_generate_tests(metafunc):
    if "profile" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--all")
        metafunc.parametrize("profile", SLICE + MORE if everything else SLICE)
    if "symbols" in metafunc.fixturenames:
        metafunc.parametrize("symbols", SYMBOLS if metafunc.config.getoption("--all") else [])
    if "less" in metafunc.fixturenames:
        metafunc.parametrize("less", LESS if metafunc.config.getoption("--all") else [])
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
            folder = tmp_path_factory.mktemp(binary)
            # What debug information adds may come too late on a busy machine; the next time it is known.
            for i in range(10):
                trace = folder / f"{i}.plx"
                result = driver.run(pollux, "record", "--places=off", "-o", trace, "--", path)
                assert result.returncode == 0, result.stderr
                known[binary, profile] = driver.report(pollux, trace)["families"]
                names = {f["name"] for f in known[binary, profile]}
                if not {n for n in names if "alike" in n or n.startswith(("fn(", "blocking::unblock", "spawned by"))}:
                    break
        return known[binary, profile]

    return of


def test_lines(families, binary, profile):
    """With debug information a task has its function's name, and the line that spawns it."""
    found = {f["name"]: f["spawn_sites"] for f in families(binary, profile)}
    for name, line in wanted_of(binary).items():
        sites = found.get(f"{binary}::{name}")
        assert sites and len(sites) == 1, (name, sites, sorted(found))
        assert f"{source_of(binary)}{line} ({binary}::" in sites[0] and "," not in sites[0], (name, sites)
        via = VIA.get(name)
        assert (f" via {via}" in sites[0]) if via else " via " not in sites[0], (name, sites)


def wanted_of(binary):
    """{function: line} of the tasks whose names and places each build can give."""
    return {
        n: line
        for n, line in lines_of(binary).items()
        if n.startswith("by_") and n not in APART and ("builder" not in n or binary == "spawns_async_task")
    }


def test_less(families, binary, less):
    """Names and places of builds without types: v0 symbols have all names, legacy ones no wrong name, line
    tables all lines; a stripped program has numbers, and the lines of panics."""
    found = families(binary, less)
    tasks = [f for f in found if f["role"] in ("task", "blocking")]
    names = {f["name"] for f in tasks}
    if less == "v0":
        assert {f"{binary}::{name}" for name in wanted_of(binary)} <= names, names
    if less == "line-tables":
        sites = " ".join(site + " " for f in tasks for site in f["spawn_sites"])
        lines = {int(line) for line in re.findall(re.escape(source_of(binary)) + r"(\d+)[ ,]", sites)}
        assert set(wanted_of(binary).values()) <= lines, (sites, lines)
    if less == "stripped":
        assert all(re.match(r"kind \d+( \(.+\))?$", name) for name in names), names
    if less == "release":
        for f in tasks:
            if f["name"].startswith("spawned by "):
                function = re.sub(r" #\d+$", "", f["name"].removeprefix("spawned by ")).split(" (")[0]
                assert [s.startswith(f"{function}+0x") for s in f["spawn_sites"]] == [True], f
        # Tasks that nothing else shares code with have their names.
        alone = {"by_box", "by_instrument"} if binary == "spawns_tokio" else {"by_smol", "by_helper"}
        assert {f"{binary}::{name}" for name in alone} <= names, names


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


def gathered(pollux, path, trace=None):
    """tree's JSON while all wait; with `trace` a recording begins before, and ends with the program."""
    with driver.Target(path) as target:
        recorder = driver.Recorder(pollux, target.pid, trace) if trace else None
        tree = driver.run(pollux, "tree", "--json", target.pid)
        assert tree.returncode == 0, tree.stderr
        target.go()
        assert not recorder or recorder.wait()[0] == 0
        assert target.end() == 0
    return json.loads(tree.stdout)["tasks"]


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


def test_one_name(families, pollux, tmp_path):
    """What is in a tree has the same name and place in the report; what is printed, in the export."""
    tree = gathered(pollux, build("spawns", "release-debug", "spawns_tokio"))
    recorded = {(f["role"], f["name"]): f["spawn_sites"] for f in families("spawns_tokio", "release-debug")}
    seen = {
        (t["role"], t["name"]): t["spawned_at"]
        for t in tree
        if "by_" in t["name"] or t["role"] == "root" and "spawns_tokio::" in t["name"]
    }
    assert {f"spawns_tokio::{name}" for name in ROOTS} <= {name for role, name in seen if role == "root"}
    assert len([name for role, name in seen if role == "blocking"]) >= 7, seen
    for (role, name), place in seen.items():
        if name == "spawns_tokio::root_of_futures":
            continue  # futures::executor::block_on makes no waker of a runtime's
        assert (role, name) in recorded, (role, name, sorted(recorded))
        if role != "root":
            assert recorded[role, name][0] == place, (name, place, recorded[role, name])


def test_one_name_in_exports(pollux, tmp_path):
    """A recording that began when all tasks waited names block_ons, too; its names are those of all exports."""
    trace = tmp_path / "t.plx"
    gathered(pollux, build("spawns", "release-debug", "spawns_tokio"), trace)
    found = driver.report(pollux, trace)["families"]
    assert {f"spawns_tokio::{name}" for name in ROOTS} <= {f["name"] for f in found if f["role"] == "root"}
    printed = set(driver.run(pollux, "print", "--format", "{kind}", trace).stdout.splitlines())
    names = [f["name"] for f in found if f["role"] != "worker" and f["name"] in printed]
    short = {re.match(r"[\w:]+|", name)[0].split("::")[-1] for name in names}  # as an export has them
    assert len(names) > 15
    for form in ("chrome", "perfetto", "firefox", "speedscope"):
        out = tmp_path / form
        assert driver.run(pollux, "export", "-f", form, "-o", out, trace).returncode == 0
        exported = out.read_bytes()
        # Speedscope has not all tasks, but all block_ons.
        wanted = {name.split("::")[-1] for name in ROOTS if "#" not in name} if form == "speedscope" else short
        assert [name for name in wanted if name.encode() not in exported] == [], form
        assert b"BlockingRegionGuard" not in exported, form
