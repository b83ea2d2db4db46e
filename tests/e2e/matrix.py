#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs every program in every build, launched and attached, and writes docs/matrix.md from what came out.

    matrix.py [--slice] [-o FILE] [PACKAGE/PROFILE...]

--slice: only the builds that CI runs. Builds that are named are run beside them.

A hole in the table is a combination that can't be run; its reason stands below the table. A number
smaller than its whole is a defect; what differed stands below as well.
"""
import argparse
import sys
import tempfile
from pathlib import Path

import catalogue
import driver
from build import PROFILES, ROOT, BuildError, build

HEAD = """# What was recorded exactly

Written by `tests/e2e/matrix.py` from a real run. Each program of `tests/targets` counts its own spawns, polls,
wakes and ends. A recording counts as exact if it lost nothing, if its numbers equal the program's own, per
family, and if the program printed and returned the same as without pollux. A cell says how many programs
were exact, out of how many.
"""

HOLES = """## Holes

- Builds with `panic=abort`: the programs that panic ({panics}) cannot run there, since the first panic
  ends the process.
- musl: the machine of this run has no Rust target for musl (it needs `rustup target add`; Debian's
  rustc has none). A C program built with `musl-gcc` has no runtime to record; the unit tests load the agent into
  such a program.
- async-task where the unwinder does not accept the agent's frames ({unknown}): the agent does not
  wrap runs, so polls and wakes are exact, the ends of tasks are unknown. The start of a panic is not seen there: a task that
  panicked counts as ended.
- Builds with a profile (PGO, `-C profile-use`): they need an `llvm-profdata` of rustc's LLVM, which is not part of a toolchain.
  With one (22.1, and `-C llvm-args=-enable-name-compression=false` for the build that counts) tokio-1.54 was built by hand, release
  and stripped: 37 of 37 launched and attached, both. The code shapes typical of them are tested as well
  (`tests/unit/fixtures/profile.S`).
- Several runtimes in one process: separate tests cover a host with five libraries that each have a Tokio
  (`test_five_libraries`), an unwinder that is loaded later, and two unwinders in one process (`test_unwinders`).
- Tokio before 1.23: refused with the reason (`test_old_tokio`), since its task vtables have another shape.
{left_out}
- Architectures other than x86-64.
"""


def left_out(builds):
    """The builds that were not run, and the one reason."""
    rest = [build for build in catalogue.builds(True) if build not in builds]
    if not rest:
        more = ", ".join(catalogue.MORE_PACKAGES)
        return (
            f"- All builds other than debug, release, release-lto and stripped are run on {more} only,\n"
            "  those with other unwinders on one of them."
        )
    names = ", ".join(f"{package} {profile}" for package, profile in rest)
    return f"- Not run this time, for their builds take an hour (`./dev test --all` runs them): {names}."


def cell(results):
    if not results:
        return "–"
    exact = sum(not wrong for wrong in results.values())
    return f"{exact} of {len(results)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slice", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "matrix.md")
    parser.add_argument("builds", nargs="*", metavar="PACKAGE/PROFILE")
    args = parser.parse_args()
    pollux = driver.pollux_path()
    builds = list(catalogue.builds(not args.slice))
    builds = sorted(dict.fromkeys(builds + [tuple(one.split("/")) for one in args.builds]))
    cases = catalogue.cases_of(builds)
    results = {}  # (package, profile, mode) -> {program: [what is wrong]}
    broken = {}
    for package, profile in builds:
        try:
            build(package, profile)
        except BuildError as error:
            broken[package, profile] = str(error).splitlines()[-1]
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases):
            package, profile, program, mode = case
            if (package, profile) in broken:
                continue
            try:
                wrong = catalogue.check(pollux, case, Path(folder))
            except AssertionError as error:
                wrong = [str(error)]
            results.setdefault((package, profile, mode), {})[program] = wrong
            print(f"\r{number + 1}/{len(cases)} {'-'.join(case):60}", end="", file=sys.stderr)
            for sentence in wrong:
                print(f"\n    {sentence}", file=sys.stderr)
    print(file=sys.stderr)

    compiler = driver.run("rustc", "--version").stdout.strip()
    out = [HEAD, f"{pollux_version(pollux)}; {compiler}.\n"]
    out += ["| runtime | build | launched | attached |", "|---|---|---|---|"]
    for package, profile in builds:
        cells = [cell(results.get((package, profile, mode))) for mode in catalogue.MODES]
        out.append(f"| {package} | {profile} | {cells[0]} | {cells[1]} |")
    out += ["", "The builds:", ""]
    used = dict.fromkeys(profile for _, profile in builds)
    out += [f"- `{name}`: {PROFILES[name].what}" for name in used]
    out += ["", "The programs:", ""]
    for package in ("tokio-1.54", "async-std-1.13", "smol-2.0"):
        names = [name for name, _ in catalogue.programs(package) if name not in catalogue.APART]
        out.append(f"- {catalogue.runtime_of(package)}: {', '.join(names)}")
    inexact = [
        f"- {package} {profile} {program} {mode}: {'; '.join(wrong)}"
        for (package, profile, mode), programs in results.items()
        for program, wrong in programs.items()
        if wrong
    ]
    if inexact:
        out += ["", "## Not exact", "", *inexact]
    if broken:
        out += ["", "## Not built", ""]
        out += [f"- {package} {profile}: {why}" for (package, profile), why in broken.items()]
    panics = ", ".join(name for name, needs in catalogue.programs("tokio-1.54") if needs == "unwind")
    unknown = ", ".join(name for name, how in PROFILES.items() if not how.sees_panics)
    out += ["", HOLES.format(panics=panics, unknown=unknown, left_out=left_out(builds))]
    args.output.write_text("\n".join(out))
    return 1 if inexact or broken else 0


def pollux_version(pollux):
    return driver.run(pollux, "--version").stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
