# SPDX-License-Identifier: MIT OR Apache-2.0
"""Which programs run in which builds, and the one check that all of them go through."""
import functools
import re

import driver
from build import PACKAGES, PROFILES, TARGETS, build
from truth import differences

SOURCES = {
    "tokio": ["tokio/main.rs"],
    "async-std": ["async_task/programs.rs"],
    "smol": ["async_task/programs.rs", "async_task/own.rs"],
}
MODES = ("launched", "attached")

# Not part of the matrix: tests of their own run these.
APART = {"backtrace", "own_backtrace", "drop_running", "hostile", "steady", "stuck", "short_roots"}

# Packages that are no part of the matrix: one is to be refused, one is a library, some carry probes,
# some are services, some count nothing.
MATRIX_PACKAGES = [
    p for p in PACKAGES
    if p not in ("tokio-1.20", "cdylib", "spawns", "unwinders", "incidents", "causes") and not p.startswith(("probes-", "service-"))
]
MAIN_PROFILES = ("debug", "release", "release-lto", "stripped")
# static-debug is for tests of `pollux tree`, lazy and std-apart for those of unwinders, line-tables for
# services; of Tokio alone; pgo is measured where there is what it needs (matrix.py)
APART_PROFILES = ("static-debug", "lazy", "std-apart", "tracing-stripped", "line-tables", "pgo")
UNWINDER_PROFILES = tuple(
    name for name, how in PROFILES.items() if how.unwinder or not how.sees_panics
)
MORE_PROFILES = tuple(
    name
    for name in PROFILES
    if name not in MAIN_PROFILES + APART_PROFILES + UNWINDER_PROFILES
)
MORE_PACKAGES = ("tokio-1.38", "tokio-1.54", "smol-2.0")

# What runs by default: oldest, newest and the demo's version, each build somewhere. --all has the rest.
SLICE = [
    ("tokio-1.23", "release"),
    ("tokio-1.38", "debug"),
    ("tokio-1.38", "stripped"),
    ("tokio-1.54", "release"),
    ("tokio-1.54", "release-lto"),
    ("async-std-1.13", "release"),
    ("smol-2.0", "release"),
    ("smol-2.0", "stripped"),
]

# These take a second at full size; a tenth of it shows the same.
SCALES = {"short_tasks": 10, "spinning": 10}


def runtime_of(package):
    return package.rsplit("-", 1)[0]


@functools.lru_cache(maxsize=None)
def programs(package):
    """[(name, needs)] of a package, from the tables in the sources."""
    found = []
    for source in SOURCES[runtime_of(package)]:
        text = (TARGETS / "src" / source).read_text()
        found += re.findall(r'\("(\w+)", (?:\w+::)?\w+, "(\w*)"\)', text)
    assert found, f"no programs in {SOURCES[runtime_of(package)]}"
    return found


def builds(everything):
    """[(package, profile)] that are tested."""
    if not everything:
        return SLICE
    main = [(package, profile) for package in MATRIX_PACKAGES for profile in MAIN_PROFILES]
    more = [(package, profile) for package in MORE_PACKAGES for profile in MORE_PROFILES]
    # Where frames can't be registered the ends of async-task's polls aren't known; where they can,
    # only async-task needs them.
    return main + more + [("tokio-1.54", "tracing-stripped")] + [
        ("smol-2.0" if PROFILES[profile].sees_panics else "tokio-1.54", profile)
        for profile in UNWINDER_PROFILES
    ]


def cases(everything):
    """[(package, profile, program, mode)]"""
    return cases_of(builds(everything))


def cases_of(chosen):
    """The same for these builds. A program of panics can't be in a build that aborts."""
    return [
        (package, profile, program, mode)
        for package, profile in chosen
        for program, needs in programs(package)
        if program not in APART and (needs != "unwind" or PROFILES[profile].unwind)
        for mode in MODES
    ]


def command_of(package, profile, program, everything=True):
    path = build(package, profile)
    scale = () if everything else ("--scale", str(SCALES.get(program, 100)))
    return [path, program, *scale]


@functools.lru_cache(maxsize=None)
def alone(package, profile, program, everything=True):
    """What the program prints, and its exit status, without pollux."""
    result = driver.run(*command_of(package, profile, program, everything))
    output, truth = driver.split_output(result.stdout)
    return output, result.returncode, truth


def truth_has_tasks(truth):
    """Without any none has panicked, in every backend."""
    return any(family["role"] != "root" for family in truth["families"])


def panics_as_ends(truth):
    """The truth as it shows where the start of a panic is not seen: the task ended."""

    def shown(counts):
        return {**counts, "completed": counts["completed"] + counts["panicked"], "panicked": 0}

    families = [shown(family) for family in truth["families"]]
    return {**truth, "families": families, "totals": shown(truth["totals"])}


def check(pollux, case, folder, everything=True, options=()):
    """Records the case; what differs from the truth or from a run without pollux, as sentences."""
    package, profile, program, mode = case
    output, code, _ = alone(package, profile, program, everything)
    record = driver.record_launched if mode == "launched" else driver.record_attached
    command = command_of(package, profile, program, everything)
    recorded = record(pollux, folder / "trace.plx", *command, options=options)
    out = []
    if recorded.output != output:
        out.append(f"printed {recorded.output}, without pollux {output}")
    if recorded.code != code:
        out.append(f"exit status {recorded.code}, without pollux {code}")
    report = driver.report(pollux, recorded.trace)
    how = PROFILES[profile]
    # Fully inlined or stripped code has no function that could name a kind.
    names = how.symbols and profile in ("debug", "release-debug", "v0")
    blind = not how.sees_panics and truth_has_tasks(recorded.truth)
    if (report["tasks"]["panicked"] is None) != blind:
        out.append(f"tasks panicked: {report['tasks']['panicked']}, sees panics: {how.sees_panics}")
    truth = recorded.truth if how.sees_panics else panics_as_ends(recorded.truth)
    return out + differences(truth, report, names)
